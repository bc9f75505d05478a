//! Opening mailboxes of the peer, and their end.

use std::mem;
use std::sync::Arc;

use super::{Notice, Refused, SendQueue};
use crate::close_reason::CloseReason;
use crate::limits;
use crate::open_request::OpenRequest;
use crate::proto::error::{OpenRefusal, Violation};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::Entry;
use crate::proto::remote_mailbox::{Description, OpenState, Outlet, RemoteMailbox, encode_request};
use crate::proto::window::{SendWindow, WindowSize};

impl<W> SendQueue<W> {
    /// Returns the outlet of a request; opening begins when it is new (OU-1). `hint` is where the
    /// caller found it the last time.
    pub(crate) fn outlet(&mut self, request: &Arc<OpenRequest>, hint: &mut u32) -> u32 {
        let hinted = self.outlets.get(*hint as usize);
        if !hinted.is_some_and(|outlet| outlet.request == *request) {
            *hint = self.find_outlet(request);
        }
        *hint
    }

    fn find_outlet(&mut self, request: &Arc<OpenRequest>) -> u32 {
        if let Some(key) = self.by_request.get(request) {
            return *key;
        }
        let state = OpenState::Unasked;
        let outlet = Outlet { request: request.clone(), state, tried: false };
        let key = self.outlets.insert(outlet) as u32;
        self.by_request.insert(request.clone(), key);
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

    /// Returns the mailbox of a request, if it is open and `hint` leads to it.
    #[inline]
    pub(crate) fn opened(&self, request: &Arc<OpenRequest>, hint: u32) -> Option<u32> {
        let outlet = self.outlets.get(hint as usize).filter(|outlet| outlet.request == *request)?;
        if let OpenState::Open(mailbox) = outlet.state { Some(mailbox) } else { None }
    }

    /// Returns the mailbox of a request for a sender that does not wait: none while it is being
    /// opened, and where the last opening that was tried was refused, why; another one is under
    /// way then (OU-4).
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
        if let Some(outlet) = self.outlets.get_mut(key as usize) {
            outlet.state = OpenState::Open(mailbox);
        }
        self.mailboxes[mailbox as usize].outlets.push(key as u32);
        self.notices.push(Notice::Opened(key as u32, mailbox));
        self.open_answered();
        Ok(())
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
        let Some(Outlet { request, state: OpenState::Opening(_), tried }) = opening else {
            return Err(Violation::Opening);
        };
        // Also in place of an older answer that is kept.
        if *tried || self.refused.get(request).is_some() {
            self.refused.keep(request.clone(), refusal);
        }
        self.end_outlet(correlation as u32, None, Some(refusal));
        self.open_answered();
        Ok(())
    }

    fn end_outlet(&mut self, key: u32, mailbox: Option<u32>, refusal: Option<OpenRefusal>) {
        if let Some(outlet) = self.outlets.try_remove(key as usize) {
            self.by_request.remove(&outlet.request);
            self.notices.push(Notice::Ended { outlet: key, mailbox, refusal });
        }
    }

    /// Closes a mailbox of the peer, as the peer says (OU-3). Its outstanding messages are off the
    /// link's window; those that were sent are refused when they arrive, and those that wait are to
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

    /// Takes out what waits for mailboxes that closed: it will not be sent. A large message of
    /// which a part was written is written to its end.
    pub(crate) fn take_unsendable(&mut self) -> Vec<Entry> {
        let mut all = Vec::new();
        if !mem::take(&mut self.closing) {
            return all;
        }
        let closed = |entry: &Entry| self.mailboxes[entry.mailbox as usize].closed;
        let q = &mut self.queues;
        q.eager.take_out(closed, &mut all);
        let small = all.len();
        let unbegun = q.message.take_if(|bulk| bulk.sent == 0 && closed(&bulk.entry));
        all.extend(unbegun.map(|bulk| bulk.entry));
        q.bulk.retain(|bulk| {
            let leaves = closed(&bulk.entry);
            all.extend(leaves.then(|| bulk.entry.clone()));
            !leaves
        });
        for entry in &all[small..] {
            self.mailboxes[entry.mailbox as usize].bulk -= 1;
        }
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
        self.by_request.get(request).map(|(_, refusal)| *refusal)
    }

    fn forget(&mut self, request: &Arc<OpenRequest>) {
        if !self.by_request.is_empty() {
            self.by_request.remove(request);
        }
    }
}
