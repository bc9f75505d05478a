//! Chains as bytes: chains of peers, and forged chains.

use super::*;

const HERE: Incarnation = Incarnation(1);

fn far(number: u32, name: &str, asked: Option<Asker>) -> Asker {
    let identity = identity(Incarnation(7), number);
    let asked = asked.map(|asker| Arc::new(ReportedAsk(asker)) as Arc<dyn HandledAsk>);
    let chain =
        ChainElement { who: ChainActor::Far(identity, name.into()), asked: Mutex::new(asked) };
    Asker { chain: Arc::new(chain), wait: number.into() }
}

fn identity(incarnation: Incarnation, number: u32) -> Identity {
    Identity { incarnation, key: Key { index: number, generation: 1 } }
}

/// Returns a chain of these names, in which the first name is the last actor.
fn chain_of(names: &[String]) -> Option<Asker> {
    names.iter().zip(1..).fold(None, |asked, (name, number)| Some(far(number, name, asked)))
}

fn written(asker: Option<&Asker>) -> Vec<u8> {
    let mut bytes = buffer_of(b"archive");
    append(asker, &mut bytes);
    bytes.to_vec()
}

fn elsewhere(actor: Identity, _: u64) -> ActorLocation {
    if actor.incarnation == HERE { ActorLocation::Here(None) } else { ActorLocation::Elsewhere }
}

/// Returns the names in a chain that was read, the nearest first.
fn names(asker: Option<Asker>) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(asker) = asker {
        asker.find(|asker| {
            names.push(asker.chain.called());
            false
        });
    }
    names
}

#[test]
fn a_chain_survives_the_wire() {
    for count in 0..=limits::CHAIN_MAX + 3 {
        for length in [1, 31, 200] {
            let all: Vec<_> = (10..10 + count).map(|n| format!("{n:x<length$}")).collect();
            let bytes = written(chain_of(&all).as_ref());
            assert!(bytes.len() <= 7 + limits::CHAIN_BYTES_MAX + 2);
            let read = read(chain(&bytes).unwrap(), elsewhere).unwrap();
            let read = names(read);
            // If there are too many actors, the nearest are kept; long names are cut at the end.
            assert_eq!(read.len(), count.min(limits::CHAIN_MAX));
            assert!(all.iter().rev().zip(&read).all(|(name, read)| name.starts_with(read)));
            assert!(
                count > 3 || length > 31 || read.iter().zip(all.iter().rev()).all(|(a, b)| a == b)
            );
            let mut payload = Payload::owned(buffer_of(&bytes));
            take(&mut payload, elsewhere).unwrap();
            assert_eq!(&*payload, b"archive");
        }
    }
}

fn buffer_of(bytes: &[u8]) -> AlignedVec<16> {
    let mut buffer = AlignedVec::new();
    buffer.extend_from_slice(bytes);
    buffer
}

/// Cuts the bytes at each position, and changes each byte: the result is refused, or read as a
/// chain that fits.
#[test]
fn bytes_that_are_no_chain_are_refused() {
    let names: Vec<_> = (0..3).map(|n| format!("beta/\u{fc}{n}")).collect();
    let bytes = written(chain_of(&names).as_ref());
    for at in 0..bytes.len() {
        drop(chain(&bytes[..at]).map(|chain| read(chain, elsewhere).is_ok()));
        for byte in [0, 1, 0x7f, 0xff] {
            let mut forged = bytes.clone();
            forged[at] = byte;
            drop(chain(&forged).map(|chain| read(chain, elsewhere).is_ok()));
        }
    }
    assert_eq!(chain(&[]), Err(MalformedChain));
    assert_eq!(chain(&[7]), Err(MalformedChain));
    assert_eq!(chain(&[1, 0]), Err(MalformedChain), "longer than the ask");
    let whole = chain(&bytes).unwrap();
    for at in 1..whole.len() {
        let is_actor = at.is_multiple_of(whole.len() / 3);
        assert_eq!(read(&whole[..at], elsewhere).is_ok(), is_actor, "{at}");
    }
    let many = whole.repeat(6);
    assert!(read(&many[..16 * whole.len() / 3], elsewhere).is_ok());
    assert!(read(&many[..17 * whole.len() / 3], elsewhere).is_err(), "one too many");
    let mut long = vec![0; limits::CHAIN_BYTES_MAX + 1];
    long.extend((limits::CHAIN_BYTES_MAX as u16 + 1).to_le_bytes());
    assert_eq!(chain(&long), Err(MalformedChain));
}

#[test]
fn a_name_of_a_peer_is_shown_on_one_line() {
    let bytes = written(Some(&far(1, "b\n\u{1b}[2J", None)));
    let read = read(chain(&bytes).unwrap(), elsewhere).unwrap();
    assert_eq!(names(read), ["b  [2J"]);
}

/// An actor of this node without such a wait ends the chain.
#[test]
fn a_forged_wait_of_an_actor_of_this_node_counts_for_nothing() {
    let mut forged = far(5, "here", Some(far(4, "behind", None)));
    let chained = Arc::get_mut(&mut forged.chain).unwrap();
    chained.who = ChainActor::Far(identity(HERE, 5), "here".into());
    let bytes = written(Some(&far(6, "peer", Some(forged))));
    let read = read(chain(&bytes).unwrap(), elsewhere).unwrap();
    assert_eq!(names(read), ["peer"]);
}
