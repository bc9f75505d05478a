//! The current rails: looked at again when a device reports a change. That takes its time, and more
//! where a device hangs: it is done by threads that may block, with no lock that others need, and
//! neither links nor their session wait for it. Failed devices are opened again in the same way.

use std::mem::{replace, take};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::VerbsConfig;
use super::rail::{self, Rail};
use super::registration::Domain;
use super::survey::Survey;
use crate::fabric::Limits;
use crate::log;

/// Time between two attempts to open a device again that failed.
const REOPEN_INTERVAL: Duration = Duration::from_secs(5);

/// The rails of a fabric.
pub(super) struct Rails(Arc<Shared>);

struct Shared {
    config: VerbsConfig,
    /// The limits of all rails at the start; a later rail that falls short of them is left out.
    limits: Limits,
    /// Held by the thread that looks at the devices, and never with `state` before it.
    looking: Mutex<()>,
    /// Held for moments only: no call of a device is made under it, but for reading its events.
    state: Mutex<State>,
}

/// The protection domains of the devices that are open, with or without a port that is used.
pub(super) type Domains = Arc<[Arc<Domain>]>;

struct State {
    domains: Domains,
    rails: Vec<Rail>,
    /// Changes that the devices had told of when they were looked at last.
    seen: u64,
    /// How often something had changed when they were looked at.
    looks: u64,
    /// Time at which devices that failed were last opened again.
    reopened: Option<Instant>,
    /// A thread looks at them, and may open them.
    attended: Weak<()>,
    /// Some were opened that were not looked at.
    has_opened: bool,
}

impl State {
    /// Returns how many changes the devices have told of.
    fn changes(&self) -> u64 {
        self.domains.iter().map(|domain| domain.device.listeners.changes()).sum()
    }

    /// Reads what the devices tell. Returns true if one of them told of a change since the last
    /// look.
    fn is_told(&self) -> bool {
        for domain in &*self.domains {
            domain.device.spread_events();
        }
        self.has_opened || self.changes() != self.seen
    }

    /// Returns true if a device failed, and it is time to open it again.
    fn is_to_reopen(&self) -> bool {
        let failed = self.domains.iter().any(|domain| domain.device.listeners.has_failed());
        failed && self.reopened.is_none_or(|last| last.elapsed() >= REOPEN_INTERVAL)
    }
}

impl Rails {
    /// Returns the rails of this machine.
    ///
    /// # Errors
    /// The survey, where there are none.
    pub(super) fn new(config: &VerbsConfig) -> Result<Self, Survey> {
        let (survey, domains, rails) = Survey::with_rails(config);
        if rails.is_empty() {
            return Err(survey);
        }
        let limits = rail::limits(&rails);
        let state = State {
            domains: domains.into(),
            rails,
            seen: 0,
            looks: 0,
            reopened: None,
            attended: Weak::new(),
            has_opened: false,
        };
        let (config, looking, state) = (config.clone(), Mutex::default(), Mutex::new(state));
        Ok(Rails(Arc::new(Shared { config, limits, looking, state })))
    }

    pub(super) fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Returns the rails that there are now. Blocks while devices are looked at.
    pub(super) fn now(&self) -> Vec<Rail> {
        self.0.look();
        let mut state = self.0.state.lock();
        if state.is_to_reopen() {
            self.attend(&mut state);
        }
        state.rails.clone()
    }

    /// Returns a number that changes with the rails: soon after a device has told of a change.
    pub(super) fn changes(&self) -> u64 {
        let mut state = self.0.state.lock();
        if state.is_told() || state.is_to_reopen() {
            self.attend(&mut state);
        }
        state.looks
    }

    /// Returns the names of the rails that there were at the last look.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.state.lock().rails.iter().map(Rail::name).collect()
    }

    pub(super) fn domains(&self) -> Domains {
        self.0.state.lock().domains.clone()
    }

    /// Gives the first rail a port that its device does not have.
    #[cfg(test)]
    pub(super) fn break_first(&mut self) {
        self.0.state.lock().rails[0].port.number = u8::MAX;
    }

    /// Takes one-sided access away from all rails.
    #[cfg(test)]
    pub(super) fn without_reads(&mut self) {
        self.0.state.lock().rails.iter_mut().for_each(|rail| rail.reads = None);
    }

    /// Starts a thread that looks at the devices and reopens failed ones, unless one is at it.
    fn attend(&self, state: &mut State) {
        if state.attended.strong_count() > 0 {
            return;
        }
        let reopens = state.is_to_reopen();
        if reopens {
            state.reopened = Some(Instant::now());
        }
        let (shared, alive) = (self.0.clone(), Arc::new(()));
        state.attended = Arc::downgrade(&alive);
        let attend = move || {
            let _alive = alive;
            if reopens {
                shared.reopen();
            }
            shared.look();
        };
        if let Err(error) = thread::Builder::new().name("ringpost-rdma".into()).spawn(attend) {
            log::warn!(%error, "RDMA devices are not looked at: no thread; tried again");
        }
    }
}

impl Shared {
    /// Opens the devices that failed. A device that cannot be opened stays unusable.
    fn reopen(&self) {
        let (_, opened, _) = Survey::with_rails(&self.config);
        let has_failed = |domain: &Arc<Domain>| domain.device.listeners.has_failed();
        let replaced: Domains = {
            let mut state = self.state.lock();
            let mut has_opened = false;
            let replacement = |domain: &Arc<Domain>| {
                let anew = opened.iter().find(|new| new.device.name() == domain.device.name());
                let anew = anew.filter(|_| has_failed(domain));
                has_opened |= anew.is_some();
                anew.unwrap_or(domain).clone()
            };
            let domains = state.domains.iter().map(replacement).collect();
            state.has_opened |= has_opened;
            replace(&mut state.domains, domains)
        };
        // A device that nothing uses any more is closed without the lock.
        drop((replaced, opened));
    }

    /// Looks at the devices again, if one of them told of a change.
    fn look(&self) {
        let _looking = self.looking.lock();
        // Changes reported during this look are left to the next one.
        let (domains, known, seen) = {
            let mut state = self.state.lock();
            if !state.is_told() {
                return;
            }
            let seen = state.changes();
            take(&mut state.has_opened);
            (state.domains.clone(), state.rails.clone(), seen)
        };
        let (_, mut rails) = Survey::again(&self.config, &domains, &known);
        rails.retain(|rail| rail.requests >= self.limits.send_queue_max);
        rails.retain(|rail| rail.attributes.frame_bytes_max >= self.limits.frame_bytes_max);
        let mut state = self.state.lock();
        state.seen = seen;
        if rails == state.rails {
            return;
        }
        state.rails = rails;
        state.looks += 1;
        let names: Vec<_> = state.rails.iter().map(Rail::name).collect();
        drop(state);
        log::info!(rails = ?names, "the RDMA ports were looked at again");
    }
}
