//! Messages: each is read back from its one encoding, and nothing else is read.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::bootstrap::codec::BODY_BYTES_MAX;
use crate::bootstrap::codec::Malformed;
use crate::bootstrap::message::{Beat, Message, OfferMade, Parting, Resync};
use crate::bootstrap::rejection::Rejection;
use crate::bootstrap::sharing::{Denial, Sharing};
use crate::cause::{NotShared, Refusal};
use crate::fabric::one_sided::{Access, Key};
use crate::id::ShareId;
use crate::limits;
use crate::proto::fate::Refused;

fn name() -> impl Strategy<Value = NodeName> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|name| NodeName::new(&name).unwrap())
}

fn addresses() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z0-9.:\\[\\]]{1,255}", 0..=8)
}

fn fabric() -> impl Strategy<Value = String> {
    "[a-z]{1,32}"
}

fn message() -> impl Strategy<Value = Message> {
    let times = (250..=60_000u64, any::<u64>()).prop_map(|(heartbeat, down_after)| Times {
        heartbeat: Duration::from_millis(heartbeat),
        down_after: Duration::from_millis(down_after.max(3 * heartbeat)),
    });
    let fabrics = prop::collection::vec(fabric(), 0..=8);
    let hello = (name(), any::<u128>(), addresses(), fabrics, times, any::<u64>()).prop_map(
        |(name, incarnation, addresses, fabrics, times, features)| {
            let node = NodeId { name, incarnation: Incarnation(incarnation) };
            Message::Hello(Hello { node, addresses, fabrics, times, features })
        },
    );
    let queue_pair = prop::collection::vec(any::<u8>(), 0..=limits::OFFER_BYTES_MAX);
    let (ring, sixteenths) = (8..=4096u32, 128..=65536u32);
    let bytes = || 1..=i32::MAX as u32;
    let offer = (fabric(), ring, sixteenths, bytes(), bytes(), queue_pair).prop_map(
        |(fabric, ring_slots, sixteenths, message_bytes_max, link_window_bytes, queue_pair)| {
            let slot_bytes = sixteenths * 16;
            Message::Offer(OfferMade {
                fabric,
                ring_slots,
                slot_bytes,
                message_bytes_max,
                link_window_bytes,
                queue_pair: queue_pair.into(),
            })
        },
    );
    let refused = (any::<u32>(), any::<u16>()).prop_map(|(frame, place)| Refused {
        frame,
        place,
        refusal: Refusal::Closed,
    });
    let refusals = prop::collection::vec(refused, 0..=limits::RESYNC_REFUSALS_MAX);
    let resync = (any::<u64>(), any::<u32>(), refusals, any::<bool>());
    let resync = resync.prop_map(|(epoch, consumed, refusals, more)| {
        Message::Resync(Resync { epoch, consumed, refusals, more })
    });
    prop_oneof![
        hello,
        any::<u64>().prop_map(|epoch| Message::Commit { epoch }),
        resync,
        offer,
        (fabric(), any::<bool>(), "[ -~]{0,255}")
            .prop_map(|(fabric, again, reason)| Message::Pass { fabric, again, reason }),
        fabric().prop_map(|fabric| Message::Ready { fabric }),
        fabric().prop_map(|fabric| Message::Connected { fabric }),
        prop_oneof![
            Just(Beat::Plain),
            Just(Beat::Question),
            Just(Beat::Answer),
            Just(Beat::Stalled),
            Just(Beat::Leaving),
            Just(Beat::Idle),
            Just(Beat::Busy),
            Just(Beat::Better)
        ]
        .prop_map(Message::Heartbeat),
        name().prop_map(Message::WhoIs),
        (name(), addresses()).prop_map(|(name, addresses)| Message::Known { name, addresses }),
        sharing().prop_map(Message::Sharing),
        prop_oneof![Just(Parting::Lost), Just(Parting::Left), Just(Parting::Idle)]
            .prop_map(Message::Bye),
        (1..=9u8).prop_map(|code| Message::Reject(Rejection::from_code(code).unwrap())),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    any::<(u32, u64)>().prop_map(|(number, base)| Key { number, base })
}

fn denial() -> impl Strategy<Value = Denial> {
    let not_shared = |why| Just(Denial::NotShared(why));
    prop_oneof![
        not_shared(NotShared::Unknown),
        not_shared(NotShared::Revoked),
        not_shared(NotShared::Expired),
        "[ -~]{0,255}".prop_map(Denial::Unable),
    ]
}

fn sharing() -> impl Strategy<Value = Sharing> {
    let share = || any::<u128>().prop_map(ShareId);
    let queue_pair = prop::collection::vec(any::<u8>(), 0..=limits::OFFER_BYTES_MAX);
    prop_oneof![
        Just(Sharing::Want),
        (any::<u32>(), queue_pair).prop_map(|(number, queue_pair)| {
            Sharing::Offer { number, queue_pair: queue_pair.into() }
        }),
        (any::<u32>(), prop::option::of(key()))
            .prop_map(|(number, fence)| Sharing::Connected { number, fence }),
        (any::<u32>(), "[ -~]{0,255}")
            .prop_map(|(number, reason)| Sharing::Unable { number, reason }),
        share().prop_map(Sharing::Ask),
        (share(), key(), any::<u64>(), 0..8u8, any::<bool>()).prop_map(
            |(share, key, bytes, bits, bound)| {
                let access = Access::from_bits(bits).unwrap();
                let is_elsewhere = bound && !access.atomic;
                Sharing::Granted { share, key, bytes, access, is_elsewhere }
            }
        ),
        (share(), denial()).prop_map(|(share, why)| Sharing::Denied { share, why }),
        share().prop_map(Sharing::Revoke),
        share().prop_map(Sharing::Revoked),
        Just(Sharing::Later),
    ]
}

proptest! {
    /// One encoding, and no prefix or extension of it is one.
    #[test]
    fn messages_are_read_back_and_nothing_else_is(message in message()) {
        let bytes = message.encode();
        prop_assert!(bytes.len() + 16 <= BODY_BYTES_MAX);
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
        for length in 0..bytes.len() {
            prop_assert_eq!(Message::decode(&bytes[..length]), Err(Malformed::Truncated));
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(Message::decode(&longer), Err(Malformed::Trailing(1)));
    }

    #[test]
    fn the_document_names_every_message_and_rejection(message in message()) {
        let document = include_str!("../../../../docs/WIRE.md");
        let row = format!("\n| {} | {} | ", message.encode()[0], message.name());
        prop_assert!(document.contains(&row), "{}", row);
        if let Message::Reject(rejection) = message {
            let row = format!("\n| {} | `{rejection:?}` | ", rejection.code());
            prop_assert!(document.contains(&row), "{}", row);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(&message.encode()[..], bytes);
        }
    }
}

#[test]
fn numbers_and_texts_out_of_bounds_are_named() {
    let offer = |change: fn(&mut OfferMade)| {
        let mut offer = OfferMade {
            fabric: "tcp".into(),
            ring_slots: 64,
            slot_bytes: 8448,
            message_bytes_max: 1,
            link_window_bytes: 1,
            queue_pair: vec![0; 256].into(),
        };
        change(&mut offer);
        Message::decode(&Message::Offer(offer).encode()).unwrap_err()
    };
    let number = |what, value| Malformed::Number { what, value };
    let hello = |heartbeat, down_after| {
        let millis = Duration::from_millis;
        let times = Times { heartbeat: millis(heartbeat), down_after: millis(down_after) };
        let (node, none) = (node("alpha", 1), Vec::new);
        let hello = Hello { node, addresses: none(), fabrics: none(), times, features: 0 };
        Message::decode(&Message::Hello(hello).encode()).map(|_| ())
    };
    assert_eq!(hello(250, 750), Ok(()));
    assert_eq!(hello(60_000, u64::MAX), Ok(()), "bounded where it is used");
    assert_eq!(hello(249, 8_000), Err(number("time between heartbeats", 249)));
    assert_eq!(hello(60_001, u64::MAX), Err(number("time between heartbeats", 60_001)));
    assert_eq!(hello(1_000, 2_999), Err(number("time of silence", 2_999)));
    assert_eq!(offer(|o| o.ring_slots = 7), number("number of ring slots", 7));
    assert_eq!(offer(|o| o.ring_slots = 4097), number("number of ring slots", 4097));
    assert_eq!(offer(|o| o.slot_bytes = 2032), number("slot size", 2032));
    assert_eq!(offer(|o| o.slot_bytes = 8450), number("slot size", 8450));
    assert_eq!(offer(|o| o.message_bytes_max = 0), number("size limit of messages", 0));
    assert_eq!(offer(|o| o.link_window_bytes = 1 << 31), number("window of a link", 1 << 31));
    assert_eq!(offer(|o| o.queue_pair.push(0)), number("length of a queue pair's offer", 257));
    assert_eq!(offer(|o| o.fabric.clear()), Malformed::Text("fabric name"));
    assert_eq!(Message::decode(&[7, 1, b'/']), Err(Malformed::Text("node name")));
    assert_eq!(Message::decode(&[8, 1, b'a', 1, 0]), Err(Malformed::Text("address")));
    assert_eq!(Message::decode(&[8, 1, b'a', 9]), Err(number("number of addresses", 9)));
    assert_eq!(Message::decode(&[4, 1, b'a', 1, 1, 0xff]), Err(Malformed::Text("reason")));
    assert_eq!(Message::decode(&[4, 1, b'a', 2, 0]), Err(number("mark of another way", 2)));
    assert_eq!(Message::decode(&[10, 0]), Err(number("reason for a refusal", 0)));
    assert_eq!(Message::decode(&[14]), Err(Malformed::MessageKind(14)));
    let kind = number("kind of message about shared memory", 10);
    assert_eq!(Message::decode(&[13, 10]), Err(kind));
    let length = number("length of a queue pair's offer", 257);
    assert_eq!(Message::decode(&[13, 1, 1, 0, 0, 0, 1, 1]), Err(length));
    let granted = [&[13, 5][..], &[1; 16], &[2; 12], &[0; 8], &[12]].concat();
    assert_eq!(Message::decode(&granted), Err(number("access", 12)));
    let fence = number("whether there is a fence", 2);
    assert_eq!(Message::decode(&[13, 2, 1, 0, 0, 0, 2]), Err(fence));
    let resync = |mark, count: u16, code: u16| {
        let count = count.to_le_bytes();
        let head = [&[11][..], &[7; 12], &[mark], &count].concat();
        Message::decode(&[&head[..], &[0; 6], &code.to_le_bytes()].concat())
    };
    assert!(resync(1, 1, 1).is_ok());
    assert_eq!(resync(2, 1, 1), Err(number("mark of a part", 2)));
    assert_eq!(resync(0, 501, 1), Err(number("number of refusals", 501)));
    assert_eq!(resync(0, 1, 9), Err(number("kind of refusal", 9)));
    assert_eq!(Message::decode(&[]), Err(Malformed::Truncated));
}
