//! Opening mailboxes of the peer, and their end.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use super::{Notice, SendQueue};
use crate::close_reason::CloseReason;
use crate::id::Incarnation;
use crate::limits;
use crate::open_request::{OpenRequest, Target};
use crate::proto::error::{OpenRefusal, Violation};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::Entry;
use crate::proto::remote_mailbox::{Description, OpenState, Outlet, RemoteMailbox, encode_request};
use crate::proto::window::{SendWindow, WindowSize};

/// The outlets of requests.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct ByRequest {
    sends: HashMap<Arc<OpenRequest>, u32>,
    /// The youngest look-up of each.
    look_ups: HashMap<Arc<OpenRequest>, u32>,
}

/// Refused openings that a sender tried, until they are answered otherwise.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Refused {
    /// The number of each, counted from the first, and its cause.
    by_request: HashMap<Arc<OpenRequest>, (u64, OpenRefusal)>,
    count: u64,
}

impl ByRequest {
    fn forget(&mut self, outlet: &Outlet, key: u32) {
        let map = if outlet.is_look_up { &mut self.look_ups } else { &mut self.sends };
        if map.get(&outlet.request) == Some(&key) {
            map.remove(&outlet.request);
        }
    }
}

impl<W> SendQueue<W> {
    /// Returns the outlet of a request; opening begins when it is new. `hint` is where the caller
    /// found it the last time.
    pub(crate) fn outlet(&mut self, request: &Arc<OpenRequest>, hint: &mut u32) -> u32 {
        if self.hinted(request, *hint).is_none() {
            *hint = self.find_outlet(request);
        }
        *hint
    }

    /// Returns the outlet at a hint, if it is of this request. That of a look-up is its own.
    fn hinted(&self, request: &Arc<OpenRequest>, hint: u32) -> Option<&Outlet> {
        let outlet = self.outlets.get(hint as usize)?;
        (outlet.request == *request && !outlet.is_look_up).then_some(outlet)
    }

    fn find_outlet(&mut self, request: &Arc<OpenRequest>) -> u32 {
        if let Some(key) = self.by_request.sends.get(request) {
            return *key;
        }
        let key = self.ask(request, false);
        self.by_request.sends.insert(request.clone(), key);
        key
    }

    /// Returns the outlet of a look-up that begins now: its OPEN is not written yet.
    pub(crate) fn look_up(&mut self, request: &Arc<OpenRequest>) -> u32 {
        let youngest = self.by_request.look_ups.get(request).copied();
        let outlet = youngest.and_then(|key| Some((key, self.outlets.get(key as usize)?)));
        if let Some((key, Outlet { state: OpenState::Unasked, .. })) = outlet {
            return key;
        }
        let key = self.ask(request, true);
        self.by_request.look_ups.insert(request.clone(), key);
        key
    }

    /// Takes out a look-up that was answered.
    pub(crate) fn end_look_up(&mut self, key: u32) {
        if let Some(outlet) = self.outlets.try_remove(key as usize) {
            self.by_request.forget(&outlet, key);
        }
    }

    fn ask(&mut self, request: &Arc<OpenRequest>, is_look_up: bool) -> u32 {
        let (request, state) = (request.clone(), OpenState::Unasked);
        let key = self.outlets.insert(Outlet { request, state, tried: false, is_look_up }) as u32;
        self.openings.waiting.push_back(key);
        self.send_opens();
        key
    }

    /// Queues the OPENs that may be sent now.
    fn send_opens(&mut self) {
        while self.openings.unanswered < limits::OPENS_MAX
            && let Some(key) = self.openings.waiting.pop_front()
        {
            let request = encode_request(&self.outlets[key as usize].request);
            let kind = RecordKind::Open;
            let header = RecordHeader { correlation: key.into(), ..RecordHeader::new(kind) };
            self.queues.control.push_back((header, request));
            self.openings.unanswered += 1;
        }
    }

    /// Records that the OPEN of an outlet was written: from now on the peer may answer it.
    pub(crate) fn asked(&mut self, correlation: u64) {
        if let Some(outlet) = self.outlets.get_mut(correlation as usize)
            && matches!(outlet.state, OpenState::Unasked)
        {
            outlet.state = OpenState::Opening(Vec::new());
        }
    }

    fn open_answered(&mut self) {
        self.openings.unanswered -= 1;
        self.send_opens();
    }

    /// Returns the mailbox of an outlet, once it is open.
    pub(crate) fn mailbox(&self, outlet: u32) -> Option<(u32, &RemoteMailbox)> {
        match self.outlets.get(outlet as usize)?.state {
            OpenState::Unasked | OpenState::Opening(_) => None,
            OpenState::Open(mailbox) => Some((mailbox, self.mailboxes.get(mailbox as usize)?)),
        }
    }

    /// Returns the mailbox of a request, if it is open.
    pub(crate) fn found(&self, request: &Arc<OpenRequest>) -> Option<u32> {
        let outlet = self.by_request.sends.get(request)?;
        self.mailbox(*outlet).map(|(mailbox, _)| mailbox)
    }

    /// Returns the mailbox of a request, if it is open and `hint` leads to it.
    #[inline]
    pub(crate) fn opened(&self, request: &Arc<OpenRequest>, hint: u32) -> Option<u32> {
        match self.hinted(request, hint)?.state {
            OpenState::Open(mailbox) => Some(mailbox),
            OpenState::Unasked | OpenState::Opening(_) => None,
        }
    }

    /// Returns the mailbox of a request for a sender that does not wait: none while it is being
    /// opened, and where the last opening that was tried was refused, why; another one is under way
    /// then.
    pub(crate) fn try_mailbox(
        &mut self,
        request: &Arc<OpenRequest>,
        hint: &mut u32,
    ) -> Result<Option<u32>, OpenRefusal> {
        let outlet = self.outlet(request, hint);
        let mailbox = self.mailbox(outlet).map(|(mailbox, _)| mailbox);
        if mailbox.is_none() {
            self.outlets[outlet as usize].tried = true;
            if let Some(refusal) = self.refused.get(request) {
                return Err(refusal);
            }
        }
        Ok(mailbox)
    }

    /// Returns true if no refusal is kept.
    #[cfg(test)]
    pub(crate) fn forgot_refusals(&self) -> bool {
        self.refused.by_request.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn outlet_count(&self) -> usize {
        self.outlets.len()
    }

    /// Takes the oldest OPEN that waits to be written; gives its correlation.
    #[cfg(test)]
    pub(crate) fn take_open(&mut self) -> Option<u64> {
        let (header, _) = self.queues.control.pop_front()?;
        (header.kind == RecordKind::Open).then_some(header.correlation)
    }

    /// Returns the request of an outlet.
    pub(crate) fn request(&self, outlet: u32) -> Option<&OpenRequest> {
        self.outlets.get(outlet as usize).map(|outlet| &*outlet.request)
    }

    /// Handles a part of the description of an opened mailbox.
    pub(crate) fn handle_opened(
        &mut self,
        header: &RecordHeader,
        part: &[u8],
    ) -> Result<(), Violation> {
        let key = header.correlation;
        let outlet = self.outlets.get_mut(key as usize).ok_or(Violation::Opening)?;
        let OpenState::Opening(bytes) = &mut outlet.state else {
            return Err(Violation::Opening);
        };
        if bytes.len() + part.len() > Description::BYTES_MAX {
            return Err(Violation::Opening);
        }
        bytes.extend_from_slice(part);
        if header.more {
            return Ok(());
        }
        let description = Description::decode(bytes)?;
        let request = outlet.request.clone();
        self.refused.forget(&request);
        let mailbox = match self.by_mailbox.get(&header.mailbox) {
            Some(mailbox) if self.mailboxes[*mailbox as usize].generation == header.generation => {
                *mailbox
            }
            Some(_) => return Err(Violation::Opening),
            None => self.insert_mailbox(header, request, description),
        };
        let outlet = &mut self.outlets[key as usize];
        outlet.state = OpenState::Open(mailbox);
        if outlet.is_look_up {
            self.notices.push(Notice::Found(key as u32, mailbox));
        } else {
            self.mailboxes[mailbox as usize].outlets.push(key as u32);
            self.notices.push(Notice::Opened(key as u32, mailbox));
        }
        self.open_answered();
        Ok(())
    }

    /// Returns the request for exactly the mailbox that a request was answered with, of this run
    /// of the peer. It counts as opened: what `request` expects of a mailbox was found there.
    pub(crate) fn pin(
        &mut self,
        (request, mailbox): (&Arc<OpenRequest>, u32),
        incarnation: Incarnation,
    ) -> Arc<OpenRequest> {
        let at = &mut self.mailboxes[mailbox as usize];
        let target = Target::Identity { incarnation, id: at.id };
        if request.target == target {
            return request.clone();
        }
        let called = request.called.clone();
        let pinned = Arc::new(OpenRequest { target, kind: request.kind, called });
        if !at.closed && !self.by_request.sends.contains_key(&pinned) {
            let state = OpenState::Open(mailbox);
            let request = pinned.clone();
            let outlet = Outlet { request, state, tried: false, is_look_up: false };
            let key = self.outlets.insert(outlet) as u32;
            self.by_request.sends.insert(pinned.clone(), key);
            at.outlets.push(key);
        }
        pinned
    }

    fn insert_mailbox(
        &mut self,
        header: &RecordHeader,
        request: Arc<OpenRequest>,
        description: Description,
    ) -> u32 {
        let window = WindowSize {
            messages: description.window.messages.min(self.mailbox_window.messages),
            bytes: description.window.bytes.min(self.mailbox_window.bytes),
        };
        let mailbox = self.mailboxes.insert(RemoteMailbox {
            request,
            outlets: Vec::new(),
            id: description.id,
            index: header.mailbox,
            generation: header.generation,
            accepted: description.accepted.into(),
            window: SendWindow::new(window, description.carried),
            bulk: 0,
            urgent: Vec::new(),
            blocked: false,
            closed: false,
            end: CloseReason::default(),
            uses: 0,
        }) as u32;
        self.by_mailbox.insert(header.mailbox, mailbox);
        mailbox
    }

    /// Handles the peer's refusal to open a mailbox.
    pub(crate) fn handle_open_refused(
        &mut self,
        correlation: u64,
        refusal: OpenRefusal,
    ) -> Result<(), Violation> {
        let opening = self.outlets.get(correlation as usize);
        let Some(Outlet { request, state: OpenState::Opening(_), tried, .. }) = opening else {
            return Err(Violation::Opening);
        };
        // Also in place of an older answer that is kept.
        if *tried || self.refused.get(request).is_some() {
            self.refused.keep(request.clone(), refusal.clone());
        }
        self.end_outlet(correlation as u32, None, Some(refusal));
        self.open_answered();
        Ok(())
    }

    fn end_outlet(&mut self, key: u32, mailbox: Option<u32>, refusal: Option<OpenRefusal>) {
        if let Some(outlet) = self.outlets.try_remove(key as usize) {
            self.by_request.forget(&outlet, key);
            self.notices.push(Notice::Ended { outlet: key, mailbox, refusal });
        }
    }

    /// Closes a mailbox of the peer, as the peer says (OU-3). Its outstanding messages are off the
    /// link's window; messages that were sent are refused when they arrive, and waiting ones are to
    /// be [taken out](Self::take_unsendable) before anything else is committed: their room is free.
    pub(crate) fn handle_closed(
        &mut self,
        (index, generation): (u32, u32),
        code: u16,
        text: &[u8],
    ) -> Result<(), Violation> {
        let Some(key) = self.by_mailbox.remove(&index) else { return Err(Violation::Unknown) };
        let mailbox = &mut self.mailboxes[key as usize];
        if mailbox.generation != generation {
            return Err(Violation::Unknown);
        }
        mailbox.closed = true;
        mailbox.end = CloseReason::read(code, text);
        self.closing |= mailbox.window.has_unwritten();
        let outstanding = mailbox.window.outstanding();
        mailbox.window.release(outstanding)?;
        for outlet in mem::take(&mut mailbox.outlets) {
            self.end_outlet(outlet, Some(key), None);
        }
        self.free_mailbox(key);
        self.release_link(outstanding)
    }

    /// Takes out messages that wait for mailboxes that closed: they will not be sent. A large
    /// message of which a part was written is written to its end.
    pub(crate) fn take_unsendable(&mut self) -> Vec<Entry> {
        let mut all = Vec::new();
        if !mem::take(&mut self.closing) {
            return all;
        }
        let closed = |entry: &Entry| self.mailboxes[entry.mailbox as usize].closed;
        let q = &mut self.queues;
        q.eager.take_out(closed, &mut all);
        let small = all.len();
        let mut forgone = Vec::new();
        let unbegun = q.message.take_if(|bulk| bulk.sent == 0 && closed(&bulk.entry));
        forgone.extend(unbegun.as_ref().map(|bulk| bulk.lending));
        all.extend(unbegun.map(|bulk| bulk.entry));
        q.bulk.retain(|bulk| {
            let leaves = closed(&bulk.entry);
            all.extend(leaves.then(|| bulk.entry.clone()));
            forgone.extend(leaves.then_some(bulk.lending));
            !leaves
        });
        for entry in &all[small..] {
            self.mailboxes[entry.mailbox as usize].bulk -= 1;
        }
        forgone.into_iter().for_each(|lending| self.forgo_loan(lending));
        all
    }
}

impl Refused {
    fn keep(&mut self, request: Arc<OpenRequest>, refusal: OpenRefusal) {
        self.by_request.remove(&request);
        if self.by_request.len() >= limits::OPENS_MAX {
            let oldest = self.by_request.iter().min_by_key(|(_, (number, _))| *number);
            let oldest = oldest.map(|(request, _)| request.clone());
            oldest.and_then(|request| self.by_request.remove(&request));
        }
        self.by_request.insert(request, (self.count, refusal));
        self.count += 1;
    }

    fn get(&self, request: &Arc<OpenRequest>) -> Option<OpenRefusal> {
        self.by_request.get(request).map(|(_, refusal)| refusal.clone())
    }

    fn forget(&mut self, request: &Arc<OpenRequest>) {
        if !self.by_request.is_empty() {
            self.by_request.remove(request);
        }
    }
}
