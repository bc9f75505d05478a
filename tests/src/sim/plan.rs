//! The plan of a scenario, which its seed decides before anything runs.

use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::{Lending, Profile, RingGrowth};
use ringpost_transport::fabric::sim::LinkModel;

/// The shortest silence that a profile allows: partitions and kills last longer.
const DOWN_AFTER_LEAST: Duration = Duration::from_secs(3);

/// One scenario, as its seed wants it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Sizes and windows of each.
    pub profiles: Vec<Profile>,
    /// How fast the paths are.
    pub link: LinkModel,
    /// Mailboxes on each node.
    pub mailboxes: usize,
    /// Senders on each node.
    pub senders: usize,
    /// Messages of each sender.
    pub messages: u64,
    /// How the nodes leave.
    pub farewell: Farewell,
    /// Most senders send to the first mailbox of a node.
    pub crowd: bool,
    /// Some senders know the identities of mailboxes, and send there.
    pub identities: bool,
    /// Longest message, in bytes.
    pub bytes_max: usize,
    /// The longest that an asker waits before it gives up.
    pub patience_max: Duration,
    /// Longest pause of a consumer after a message.
    pub pause_max: Duration,
    /// The longest that each consumer stands still, once; zero: never.
    pub still_max: Duration,
    /// A mailbox closes after at most this many milliseconds, and opens again later; 0: never.
    pub close_one_in: u32,
    /// The number of faults.
    pub faults: u32,
    /// The wake-ups that drivers get beside those they need.
    pub wakes: Wakes,
}

/// How the nodes of a scenario leave.
#[derive(Debug, Clone, Default)]
pub struct Farewell {
    /// Unconfirmed tells of each sender in the end, of all nodes but the first, which leaves at
    /// once: it says goodbye while others have more to say than it has slots.
    pub tells: u64,
    /// The nodes leave all at once, not one after the other.
    pub together: bool,
}

/// The wake-ups that drivers get beside those they need.
#[derive(Debug, Clone, Default)]
pub struct Wakes {
    /// Heartbeats. Without them nothing makes up for a wake-up that is lost: it is a wait without
    /// an end. They are always there in runs with faults, some of which only they find.
    pub heartbeats: bool,
    /// Nothing at all, whenever nothing else can run: then drivers are to have nothing to do.
    pub idle: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed_0000);
        let count = rng.usize(2..=3);
        let nodes = ["a", "b", "c"][..count].iter().map(|n| n.to_string()).collect();
        let profiles = (0..count).map(|_| profile(&mut rng)).collect();
        let link = LinkModel {
            latency: Duration::from_nanos(rng.u64(500..2_000_000)),
            jitter: Duration::from_nanos(rng.u64(0..1_000_000)),
            bytes_per_second: [2_000_000, 100_000_000, 12_500_000_000][rng.usize(0..3)],
            work_request: Duration::from_nanos(rng.u64(50..20_000)),
            retry: Duration::from_millis(rng.u64(20..600)),
        };
        let large = rng.u32(0..3) == 0;
        let crowd = rng.u32(0..8) == 0;
        let messages = rng.u64(20..if large { 60 } else { 200 });
        let plan = Plan {
            nodes,
            profiles,
            link,
            mailboxes: rng.usize(1..=5),
            senders: if crowd { rng.usize(20..=40) } else { rng.usize(1..=3) },
            messages: if crowd { messages / 12 } else { messages },
            farewell: Farewell::default(),
            crowd,
            identities: rng.bool(),
            bytes_max: if large { 60_000 } else { rng.usize(64..6_000) },
            patience_max: Duration::from_micros([100, 5_000, 500_000][rng.usize(0..3)]),
            pause_max: Duration::from_micros([0, 300, 20_000][rng.usize(0..3)]),
            still_max: Duration::from_millis([0, 0, 200, 5_000][rng.usize(0..4)]),
            close_one_in: [0, 0, 150, 60][rng.usize(0..4)],
            faults: [0, 0, 1, 2, 4][rng.usize(0..5)],
            wakes: Wakes::default(),
        };
        plan.growing(&mut Rng::with_seed(seed ^ 0x6704))
    }

    /// Draws how rings grow. From numbers of its own, so that the rest of a seed's plan stays.
    fn growing(mut self, rng: &mut Rng) -> Self {
        // Rings start as small as they may, and windows are wide: messages wait for credits, and
        // rings grow.
        let tight = rng.u32(0..4) == 0;
        for profile in &mut self.profiles {
            if tight {
                *profile = narrow(profile, rng);
            }
            // The bytes that it takes to double a ring.
            let doubled = u64::from(3 * profile.ring_slots * profile.slot_bytes);
            let ample = profile.ring_growth.bytes_max;
            profile.ring_growth.bytes_max =
                [ample, ample, doubled * rng.u64(0..=16) / 2][rng.usize(0..3)];
        }
        let tells = if rng.bool() { 0 } else { rng.u64(1..=100) };
        // Rings are still small when the first goodbye comes.
        if tight && rng.bool() {
            self.messages = rng.u64(1..=4);
        }
        self.farewell = Farewell { tells, together: rng.u32(0..4) == 0 };
        let heartbeats = self.faults > 0 || rng.bool();
        self.wakes = Wakes { heartbeats, idle: rng.u32(0..4) == 0 };
        if rng.u32(0..8) == 0 {
            self.fleeting(rng);
        }
        if rng.u32(0..3) == 0 {
            self.profiles.iter_mut().for_each(|profile| profile.down_after = DOWN_AFTER_LEAST);
        }
        self
    }

    /// Many messages wait for credits, and often are not sent: mailboxes close and askers give up.
    fn fleeting(&mut self, rng: &mut Rng) {
        for profile in &mut self.profiles {
            *profile = narrow(profile, rng);
            profile.ring_growth.bytes_max = 0;
        }
        self.link.latency = Duration::from_micros(rng.u64(500..5_000));
        (self.crowd, self.mailboxes) = (true, rng.usize(2..=3));
        self.messages = self.messages.min(40);
        self.senders = rng.usize(6..=20);
        self.close_one_in = rng.u32(2..=10);
        self.patience_max = Duration::from_millis(5);
        (self.still_max, self.wakes.idle) = (Duration::ZERO, true);
    }
}

/// Returns a profile with little room for frames and much for messages.
fn narrow(profile: &Profile, rng: &mut Rng) -> Profile {
    Profile {
        ring_slots: 8,
        ring_growth: RingGrowth { slots_max: 8 << rng.u32(1..=6), ..profile.ring_growth },
        credit_reserve: rng.u32(1..=2),
        mailbox_window_messages: rng.u32(64..=256),
        mailbox_window_bytes: rng.u32(60_000..=400_000),
        link_window_bytes: rng.u32(100_000..=1_000_000),
        ..profile.clone()
    }
}

/// Half of the nodes lend their large messages. Takes nothing from the numbers of the seed.
fn lend_from(mut rng: Rng) -> Option<u32> {
    rng.bool().then(|| rng.u32(4096..=30_000))
}

/// Most of the nodes lend, and land, as much as they like, some little and some nothing. Takes
/// nothing from the numbers of the seed.
fn lending_max(mut rng: Rng, salt: u64) -> u64 {
    let mut own = Rng::with_seed(rng.u64(..) ^ salt);
    [u64::MAX >> 1, u64::MAX >> 1, own.u64(30_000..200_000), 0][own.usize(0..4)]
}

fn profile(rng: &mut Rng) -> Profile {
    let ring_slots = rng.u32(8..=24);
    Profile {
        ring_slots,
        ring_growth: RingGrowth { slots_max: ring_slots * rng.u32(1..=4), ..RingGrowth::default() },
        slot_bytes: [2048, 2304, 4352][rng.usize(0..3)],
        credit_reserve: rng.u32(1..=ring_slots / 4),
        message_bytes_max: 256 * 1024,
        mailbox_window_messages: rng.u32(1..=32),
        mailbox_window_bytes: rng.u32(2_000..=60_000),
        // Often less than the windows of all mailboxes together.
        link_window_bytes: [rng.u32(5_000..=30_000), rng.u32(20_000..=200_000)][rng.usize(0..2)],
        lending: Lending {
            from: lend_from(rng.clone()),
            lent_bytes_max: lending_max(rng.clone(), 1),
            landing_bytes_max: lending_max(rng.clone(), 2),
        },
        ..Profile::default()
    }
}
