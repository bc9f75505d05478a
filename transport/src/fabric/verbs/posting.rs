//! Lists of work requests on their way to a device, and what a refusal leaves of them.
#![allow(unsafe_code, reason = "hands lists of work requests to libibverbs (VB-3)")]

#[cfg(test)]
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use rdma_sys::{
    atomic_t, ibv_post_recv, ibv_post_send, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge,
    ibv_wr_opcode, imm_data_invalidated_rkey_union_t, rdma_t, wr_t,
};

#[cfg(test)]
use super::device::Device;
use super::device::check;
use crate::fabric::one_sided::Kind;
use crate::limits::POST_LIST_MAX;

/// The memory of one work request, and the number it is posted with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) id: u64,
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) lkey: u32,
}

/// The work of an entry of a send queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Sends a frame.
    Send,
    /// An operation on the peer's memory from this place on, by this key.
    Operation { kind: Kind, place: u64, key: u32 },
}

impl Work {
    fn write(self, work: &mut ibv_send_wr) {
        let Work::Operation { kind, place: remote_addr, key: rkey } = self else {
            work.opcode = ibv_wr_opcode::IBV_WR_SEND;
            return;
        };
        let rdma = wr_t { rdma: rdma_t { remote_addr, rkey } };
        let atomic =
            |compare_add, swap| wr_t { atomic: atomic_t { remote_addr, compare_add, swap, rkey } };
        (work.opcode, work.wr) = match kind {
            Kind::Read => (ibv_wr_opcode::IBV_WR_RDMA_READ, rdma),
            Kind::Write => (ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma),
            Kind::WriteAndNotify(number) => {
                let imm_data = number.to_be();
                work.imm_data_invalidated_rkey_union =
                    imm_data_invalidated_rkey_union_t { imm_data };
                (ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, rdma)
            }
            Kind::FetchAdd(more) => (ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(more, 0)),
            Kind::CompareAndSwap { expected, new } => {
                (ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP, atomic(expected, new))
            }
        };
    }
}

/// The answer of a device to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posted {
    /// It took all.
    All,
    /// It took this many, and refused the next one with this error number.
    Part(usize, i32),
    /// It failed with this error number and named no request of the list: it may have taken any of
    /// them, as rxe does when the doorbell fails after the list was written.
    InDoubt(i32),
}

impl Posted {
    /// Returns how many of `staged` requests the device may have taken: their slots are its own.
    pub(super) fn kept(self, staged: usize) -> usize {
        match self {
            Posted::All | Posted::InDoubt(_) => staged,
            Posted::Part(kept, _) => kept,
        }
    }

    /// Reads the answer of a call to which a list of `staged` requests at `list` was given, and
    /// which named `refused`.
    fn new<T>(answer: i32, refused: *const T, list: *const T, staged: usize) -> Self {
        let Err(error) = check(answer) else { return Posted::All };
        let number = error.raw_os_error().unwrap_or(0);
        let place = (0..staged).find(|at| list.wrapping_add(*at) == refused);
        place.map_or(Posted::InDoubt(number), |place| Posted::Part(place, number))
    }
}

/// Sends that are posted with one doorbell.
pub(super) struct Sends {
    list: [MaybeUninit<ibv_send_wr>; POST_LIST_MAX],
    pieces: [ibv_sge; POST_LIST_MAX],
    staged: usize,
}

impl Sends {
    pub(super) fn new() -> Self {
        let list = [const { MaybeUninit::uninit() }; POST_LIST_MAX];
        Sends { list, pieces: [const { NOTHING }; POST_LIST_MAX], staged: 0 }
    }

    pub(super) fn staged(&self) -> usize {
        self.staged
    }

    /// Adds an entry; there are fewer than `POST_LIST_MAX`.
    pub(super) fn stage(&mut self, piece: Piece, what: Work, flags: u32) {
        self.pieces[self.staged] = sge(piece);
        // Only the requests that are posted are zeroed: they are 128 bytes each.
        self.list[self.staged] = MaybeUninit::zeroed();
        // SAFETY: the structure is made of integers and pointers that may be null (VB-4): zeroed,
        // it is initialised.
        let work = unsafe { self.list[self.staged].assume_init_mut() };
        work.wr_id = piece.id;
        work.num_sge = i32::from(piece.bytes > 0);
        work.send_flags = flags;
        what.write(work);
        self.staged += 1;
    }

    /// Chains the list and posts it.
    ///
    /// # Safety
    /// The queue pair lives. Until the work request has completed or the queue pair is destroyed,
    /// its device may read the memory of each piece; for an operation that brings something the
    /// device writes it, and nothing else touches it.
    pub(super) unsafe fn post(&mut self, qp: *mut ibv_qp) -> Posted {
        if self.staged == 0 {
            return Posted::All;
        }
        let list = self.list.as_mut_ptr().cast::<ibv_send_wr>();
        let pieces = self.pieces.as_mut_ptr();
        for at in 0..self.staged {
            let next = list.wrapping_add(at + 1);
            // SAFETY: `stage` has initialised `staged` entries; all pointers come from these two,
            // and nothing else refers to the arrays until the call has returned.
            let work = unsafe { &mut *list.wrapping_add(at) };
            work.sg_list = pieces.wrapping_add(at);
            work.next = if at + 1 < self.staged { next } else { null_mut() };
        }
        let mut refused = null_mut();
        // SAFETY: the list is chained and ends with a null pointer; the rest is the caller's.
        let answer = unsafe { ibv_post_send(qp, list, &mut refused) };
        Posted::new(answer, refused, list, self.staged)
    }
}

/// Receives that are posted with one doorbell.
pub(super) struct Receives {
    list: [MaybeUninit<ibv_recv_wr>; POST_LIST_MAX],
    pieces: [ibv_sge; POST_LIST_MAX],
    staged: usize,
}

impl Receives {
    pub(super) fn new() -> Self {
        let list = [const { MaybeUninit::uninit() }; POST_LIST_MAX];
        Receives { list, pieces: [const { NOTHING }; POST_LIST_MAX], staged: 0 }
    }

    pub(super) fn staged(&self) -> usize {
        self.staged
    }

    /// Adds a receive, which may be of no memory; there are fewer than `POST_LIST_MAX`.
    pub(super) fn stage(&mut self, piece: Piece) {
        self.pieces[self.staged] = sge(piece);
        self.list[self.staged].write(ibv_recv_wr {
            wr_id: piece.id,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: i32::from(piece.bytes > 0),
        });
        self.staged += 1;
    }

    /// Chains the list and posts it.
    ///
    /// # Safety
    /// The queue pair lives. The memory of each piece may be written by its device, and is touched
    /// by nothing else, until the work request has completed or the queue pair is destroyed.
    pub(super) unsafe fn post(&mut self, qp: *mut ibv_qp) -> Posted {
        if self.staged == 0 {
            return Posted::All;
        }
        let list = self.list.as_mut_ptr().cast::<ibv_recv_wr>();
        let pieces = self.pieces.as_mut_ptr();
        for at in 0..self.staged {
            let next = list.wrapping_add(at + 1);
            // SAFETY: `stage` has initialised `staged` entries; all pointers come from these two,
            // and nothing else refers to the arrays until the call has returned.
            let work = unsafe { &mut *list.wrapping_add(at) };
            work.sg_list = pieces.wrapping_add(at);
            work.next = if at + 1 < self.staged { next } else { null_mut() };
        }
        let mut refused = null_mut();
        // SAFETY: the list is chained and ends with a null pointer; the rest is the caller's.
        let answer = unsafe { ibv_post_recv(qp, list, &mut refused) };
        Posted::new(answer, refused, list, self.staged)
    }
}

const NOTHING: ibv_sge = ibv_sge { addr: 0, length: 0, lkey: 0 };

fn sge(piece: Piece) -> ibv_sge {
    ibv_sge { addr: piece.address, length: piece.bytes, lkey: piece.lkey }
}

/// Makes sends that are posted to a device while `during` runs fail after it has taken them, with
/// none of them named, as rxe does when its doorbell fails.
#[cfg(test)]
pub(super) fn in_doubt(device: &Device, during: impl FnOnce()) {
    type Post = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> i32;
    thread_local!(static REAL: Cell<Option<Post>> = const { Cell::new(None) });
    unsafe extern "C" fn take_and_fail(
        qp: *mut ibv_qp,
        list: *mut ibv_send_wr,
        _: *mut *mut ibv_send_wr,
    ) -> i32 {
        const EIO: i32 = 5;
        let (post, mut refused) = (REAL.get().expect("it was set"), null_mut());
        // SAFETY: the caller's list and queue pair, as the library was given them.
        assert_eq!(unsafe { post(qp, list, &mut refused) }, 0, "the device takes all");
        EIO
    }
    // SAFETY: the context is open, and the test uses it from no other thread meanwhile.
    let post_send = unsafe { &raw mut (*device.context()).ops.post_send };
    // SAFETY: as above.
    REAL.set(unsafe { post_send.replace(Some(take_and_fail)) });
    during();
    // SAFETY: as above.
    unsafe { post_send.write(REAL.take()) };
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::mem::zeroed;

    use rdma_sys::ibv_context;

    use super::*;

    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;

    thread_local! {
        /// The numbers of the work requests that the stand-in has seen, and the entry that it names
        /// as refused: of the list, or none, or one of elsewhere.
        static SEEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
        static NAMES: RefCell<Option<usize>> = const { RefCell::new(None) };
    }

    /// A device that looks at the whole list and then fails, naming what the test says.
    unsafe extern "C" fn send(
        _: *mut ibv_qp,
        mut work: *mut ibv_send_wr,
        refused: *mut *mut ibv_send_wr,
    ) -> i32 {
        let mut at = 0;
        while !work.is_null() {
            // SAFETY: an entry of the list that `post` has chained.
            let &ibv_send_wr { wr_id: id, sg_list: piece, next, .. } = unsafe { &*work };
            // SAFETY: each entry has its piece.
            let piece = unsafe { *piece };
            assert_eq!(u64::from(piece.lkey), id);
            SEEN.with_borrow_mut(|seen| seen.push(id));
            if NAMES.with_borrow(|names| *names == Some(at)) {
                // SAFETY: there is room for one answer.
                unsafe { *refused = work };
                return ENOMEM;
            }
            (work, at) = (next, at + 1);
        }
        // An address that is none of the list's.
        if NAMES.with_borrow(|names| names.is_some()) {
            // SAFETY: as above.
            unsafe { *refused = std::ptr::dangling_mut() };
        }
        EIO
    }

    unsafe extern "C" fn receive(
        _: *mut ibv_qp,
        _: *mut ibv_recv_wr,
        _: *mut *mut ibv_recv_wr,
    ) -> i32 {
        EIO
    }

    fn piece(id: u64) -> Piece {
        Piece { id, address: 0, bytes: 1, lkey: id as u32 }
    }

    /// Posts five sends to the stand-in.
    fn post(names: Option<usize>) -> (Posted, Vec<u64>) {
        // SAFETY: the structure is made of integers and pointers that may be null.
        let mut context: ibv_context = unsafe { zeroed() };
        context.ops.post_send = Some(send);
        // SAFETY: as above.
        let mut qp: ibv_qp = unsafe { zeroed() };
        qp.context = &raw mut context;
        NAMES.set(names);
        let mut sends = Sends::new();
        (10..15).for_each(|id| sends.stage(piece(id), Work::Send, 0));
        // SAFETY: the stand-in lives and reads no memory.
        let posted = unsafe { sends.post(&raw mut qp) };
        (posted, SEEN.take())
    }

    /// VB-3: the device has the requests before the request that it names; when it names none, it
    /// may have all, and none may be given back.
    #[test]
    fn a_failure_that_names_no_request_leaves_all_with_the_device() {
        let all: Vec<u64> = (10..15).collect();
        assert_eq!(post(Some(2)), (Posted::Part(2, ENOMEM), all[..3].to_vec()));
        assert_eq!(post(Some(0)), (Posted::Part(0, ENOMEM), all[..1].to_vec()));
        for in_doubt in [post(None), post(Some(9))] {
            assert_eq!(in_doubt, (Posted::InDoubt(EIO), all.clone()));
            assert_eq!(in_doubt.0.kept(5), 5);
        }
        assert_eq!([Posted::All.kept(5), Posted::Part(2, EIO).kept(5)], [5, 2]);
    }

    /// VB-4: each kind of operation has the device's number for it, with the peer's memory where
    /// that looks for it; the number of a notice goes in the order of the network.
    #[test]
    fn operations_are_told_as_the_device_reads_them() {
        let told = |kind| {
            // SAFETY: the structure is made of integers and pointers that may be null.
            let mut work: ibv_send_wr = unsafe { zeroed() };
            Work::Operation { kind, place: 7 << 40, key: 9 }.write(&mut work);
            work
        };
        for (kind, opcode) in [(Kind::Read, 4), (Kind::Write, 0), (Kind::WriteAndNotify(0x102), 1)]
        {
            let work = told(kind);
            // SAFETY: such an operation has these fields.
            let rdma = unsafe { work.wr.rdma };
            // SAFETY: it was zeroed, and may be written.
            let told = unsafe { work.imm_data_invalidated_rkey_union.imm_data }.to_ne_bytes();
            assert_eq!((work.opcode, rdma.remote_addr, rdma.rkey), (opcode, 7 << 40, 9));
            let number = if opcode == 1 { [0, 0, 1, 2] } else { [0; 4] };
            assert_eq!(told, number);
        }
        let swap = Kind::CompareAndSwap { expected: 3, new: 5 };
        for (kind, opcode, words) in [(swap, 5, (3, 5)), (Kind::FetchAdd(4), 6, (4, 0))] {
            let work = told(kind);
            // SAFETY: such an operation has these fields.
            let atomic = unsafe { work.wr.atomic };
            assert_eq!((work.opcode, atomic.remote_addr, atomic.rkey), (opcode, 7 << 40, 9));
            assert_eq!((atomic.compare_add, atomic.swap), words);
        }
    }

    /// VB-3: the same for receives; and nothing is posted where there is nothing.
    #[test]
    fn receives_of_a_failure_that_names_none_stay_with_the_device() {
        // SAFETY: the structure is made of integers and pointers that may be null.
        let mut context: ibv_context = unsafe { zeroed() };
        context.ops.post_recv = Some(receive);
        // SAFETY: as above.
        let mut qp: ibv_qp = unsafe { zeroed() };
        qp.context = &raw mut context;
        let mut receives = Receives::new();
        // SAFETY: the stand-in lives and writes no memory.
        assert_eq!(unsafe { receives.post(&raw mut qp) }, Posted::All);
        (0..3).for_each(|id| receives.stage(piece(id)));
        // SAFETY: as above.
        assert_eq!(unsafe { receives.post(&raw mut qp) }, Posted::InDoubt(EIO));
    }
}
