//! The rails as they are now: looked at anew when a device says that something about them changed.
//! Devices that failed are opened again by a thread of their own: that takes its time, and links
//! and the session of each wait for nothing of it.

use std::mem::replace;
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

/// Time between two attempts to open a device again that failed.
const REOPEN_INTERVAL: Duration = Duration::from_secs(5);

/// The rails of a fabric.
pub(super) struct Rails {
    config: VerbsConfig,
    /// What all rails could do at the start; one that comes later and cannot is left out.
    limits: Limits,
    state: Arc<Mutex<State>>,
}

/// The protection domains of the devices that are open, with or without a port that is used.
pub(super) type Domains = Arc<[Arc<Domain>]>;

struct State {
    domains: Domains,
    rails: Vec<Rail>,
    /// Changes that the devices had told of when they were looked at last.
    seen: u64,
    /// How often they were looked at.
    looks: u64,
    /// Time at which devices that failed were last opened again.
    reopened: Option<Instant>,
    /// A thread opens them.
    reopening: Weak<()>,
    /// It has opened some that were not looked at.
    has_opened: bool,
}

/// A thread that opens devices again, and has ended when this is dropped.
struct Reopening {
    state: Arc<Mutex<State>>,
    _alive: Arc<()>,
}

impl Reopening {
    /// Opens the devices that failed. Those that cannot be opened stay as they are, and are of no
    /// use.
    fn run(self, config: &VerbsConfig) {
        let (_, opened, _) = Survey::with_rails(config);
        let has_failed = |domain: &Arc<Domain>| domain.device.listeners.has_failed();
        let replaced: Domains = {
            let mut state = self.state.lock();
            let replacement = |domain: &Arc<Domain>| {
                let anew = opened.iter().find(|new| new.device.name() == domain.device.name());
                anew.filter(|_| has_failed(domain)).unwrap_or(domain).clone()
            };
            let domains = state.domains.iter().map(replacement).collect();
            state.has_opened = true;
            replace(&mut state.domains, domains)
        };
        // A device that nothing uses any more is closed without the lock.
        drop((replaced, opened));
    }
}

impl State {
    /// Returns how many changes the devices have told of.
    fn changes(&self) -> u64 {
        self.domains.iter().map(|domain| domain.device.listeners.changes()).sum()
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
            reopening: Weak::new(),
            has_opened: false,
        };
        Ok(Rails { config: config.clone(), limits, state: Arc::new(Mutex::new(state)) })
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the rails that there are now.
    pub(super) fn now(&self) -> Vec<Rail> {
        let mut state = self.state.lock();
        self.look(&mut state);
        state.rails.clone()
    }

    /// Returns a number that changes with the rails.
    pub(super) fn changes(&self) -> u64 {
        let mut state = self.state.lock();
        self.look(&mut state);
        state.looks
    }

    /// Returns the names of the rails that there were at the last look.
    pub(super) fn names(&self) -> Vec<String> {
        self.state.lock().rails.iter().map(Rail::name).collect()
    }

    pub(super) fn domains(&self) -> Domains {
        self.state.lock().domains.clone()
    }

    /// Has the first rail name a port that its device does not have.
    #[cfg(test)]
    pub(super) fn break_first(&mut self) {
        self.state.lock().rails[0].port.number = u8::MAX;
    }

    /// Has no rail's device do one-sided access.
    #[cfg(test)]
    pub(super) fn without_reads(&mut self) {
        self.state.lock().rails.iter_mut().for_each(|rail| rail.reads = None);
    }

    /// Looks at the devices again, if one of them told of a change or failed.
    fn look(&self, state: &mut State) {
        for domain in &*state.domains {
            domain.device.spread_events();
        }
        let failed = state.domains.iter().any(|domain| domain.device.listeners.has_failed());
        let due = state.reopened.is_none_or(|last| last.elapsed() >= REOPEN_INTERVAL);
        if failed && due && state.reopening.strong_count() == 0 {
            self.reopen(state);
        }
        if !replace(&mut state.has_opened, false) && state.changes() == state.seen {
            return;
        }
        // What is told meanwhile is looked at the next time.
        let seen = state.changes();
        let (_, mut rails) = Survey::again(&self.config, &state.domains, &state.rails);
        rails.retain(|rail| rail.requests >= self.limits.send_queue_max);
        rails.retain(|rail| rail.attributes.frame_bytes_max >= self.limits.frame_bytes_max);
        state.seen = seen;
        let changed = rails != state.rails;
        state.rails = rails;
        if !changed {
            return;
        }
        state.looks += 1;
        let names: Vec<_> = state.rails.iter().map(Rail::name).collect();
        tracing::info!(rails = ?names, "the RDMA ports were looked at again");
    }

    /// Has a thread open the devices that failed once more.
    fn reopen(&self, state: &mut State) {
        state.reopened = Some(Instant::now());
        let (config, _alive) = (self.config.clone(), Arc::new(()));
        state.reopening = Arc::downgrade(&_alive);
        let reopening = Reopening { state: self.state.clone(), _alive };
        let name = "ringpost-rdma".to_owned();
        let started = thread::Builder::new().name(name).spawn(move || reopening.run(&config));
        if let Err(error) = started {
            tracing::warn!(%error, "a failed RDMA device is not opened: no thread; tried again");
        }
    }
}
