//! Look-ups: which mailbox has a name now, and which has ended.

use super::*;

/// Looks a name up; `None` while it waits.
fn look_up(link: &Arc<LinkHandle>, sender: &mut Sender) -> Option<Result<Target, Unsent>> {
    let waker = Waker::from(sender.bell.clone());
    let outgoing = Outgoing {
        message: &MESSAGE,
        form: 0,
        kind: SendKind::LookUp,
        note: None,
        archive: &mut sender.archive,
    };
    let way = (&sender.request, &mut Hint::default());
    match link.attempt(way, outgoing, &mut sender.place, Some(&waker)) {
        Attempt::Committed(Awaited::Found(request, _)) => Some(Ok(request.target.clone())),
        Attempt::Failed(unsent) => Some(Err(unsent)),
        _ => None,
    }
}

/// The oldest OPEN that is not written is written; returns its correlation.
fn write_open(link: &LinkHandle) -> u64 {
    let mut state = link.state.lock();
    let correlation = state.send_queue.take_open().expect("one is to be written");
    state.send_queue.asked(correlation);
    correlation
}

/// The peer answers an OPEN with the mailbox of this index and identity.
fn answer(link: &LinkHandle, correlation: u64, (index, id): (u32, u64)) {
    let mut state = link.state.lock();
    let place = RecordHeader { mailbox: index, ..RecordHeader::new(RecordKind::Opened) };
    let header = RecordHeader { correlation, generation: 1, ..place };
    let (window, carried, accepted) = (WINDOW, Count::default(), vec![MESSAGE.newest()]);
    let description = Description { window, carried, id, accepted }.encode();
    state.send_queue.handle_opened(&header, &description).expect("honest");
    link.finish(state);
}

fn exactly(id: u64) -> Target {
    Target::Identity { incarnation: Incarnation(1), id }
}

/// A look-up finds the mailbox that is there when its OPEN arrives, which is written after the
/// look-up began. That mailbox counts as opened, and nothing else is left of the look-up.
#[test]
fn a_look_up_finds_what_has_the_name_after_it_began() {
    let link = opened(&[("one", 0)]);
    // The OPEN that was answered already.
    write_open(&link);
    let outlets = || link.state.lock().send_queue.outlet_count();
    let before = outlets();
    let mut early = [Sender::new("one", 0), Sender::new("one", 0)];
    assert!(early.iter_mut().all(|sender| look_up(&link, sender).is_none()), "it is open, and old");
    let open = write_open(&link);
    let mut late = Sender::new("one", 0);
    assert!(look_up(&link, &mut late).is_none());
    let other = write_open(&link);
    assert_ne!(open, other, "the first one may be answered with what was there before");
    answer(&link, open, (1, 7));
    for sender in &mut early {
        assert_eq!(look_up(&link, sender), Some(Ok(exactly(7))));
    }
    assert!(look_up(&link, &mut late).is_none());
    answer(&link, other, (2, 8));
    assert_eq!(look_up(&link, &mut late), Some(Ok(exactly(8))));
    assert_eq!(outlets(), before + 2, "one for each mailbox that was found");
    for id in [7, 8] {
        let mut sender = Sender::new("", 10);
        sender.request = Arc::new(OpenRequest::new(exactly(id), 0));
        assert!(sender.commits(&link), "it is open");
    }
    let mut again = Sender::new("one", 0);
    assert!(look_up(&link, &mut again).is_none());
    // A tell whose hint leads to the look-up has an outlet of its own.
    let mut state = link.state.lock();
    let is_own = |hint| state.send_queue.outlet(&again.request, &mut { hint }) == 0;
    assert!((0..9).all(is_own), "that of the first opening");
    drop(state);
    answer(&link, write_open(&link), (2, 8));
    assert_eq!(look_up(&link, &mut again), Some(Ok(exactly(8))));
    assert_eq!(outlets(), before + 2);
}

#[test]
fn a_look_up_that_is_refused_or_given_up_leaves_nothing() {
    let link = opened(&[]);
    let mut refused = Sender::new("none", 0);
    assert!(look_up(&link, &mut refused).is_none());
    let open = write_open(&link);
    let mut state = link.state.lock();
    state.send_queue.handle_open_refused(open, OpenRefusal::NoSuchMailbox).expect("honest");
    link.finish(state);
    assert_eq!(look_up(&link, &mut refused), Some(Err(Unsent::NoSuchMailbox)));
    let mut dropped = Sender::new("one", 0);
    assert!(look_up(&link, &mut dropped).is_none());
    dropped.drop_it(&link);
    answer(&link, write_open(&link), (0, 7));
    assert_eq!(link.state.lock().send_queue.outlet_count(), 0);
}

/// A wait for a later link is woken at the end of a link that is left, and not before.
#[test]
fn the_end_of_a_link_that_is_left_can_be_waited_for() {
    let link = opened(&[]);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    assert_eq!(link.await_left(&waker), None, "it takes messages");
    link.stop_commits();
    assert!(link.await_left(&waker).is_some());
    let given_up = link.await_left(&waker).expect("it waits");
    link.forget(given_up);
    assert_eq!(bell.0.load(Ordering::Relaxed), 0);
    end(&link);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert_eq!(link.await_left(&waker), None);
}

/// LN-5: a peer that leaves and keeps the link takes the sends that the rest put off.
#[test]
fn what_a_rest_put_off_does_not_wait_for_the_end_of_a_link_that_goes_on() {
    let link = opened(&[("one", 0)]);
    assert!(link.rest());
    let mut sender = Sender::new("one", 10);
    assert!(matches!(sender.poll(&link), Attempt::Rests));
    assert!(link.peer_leaves());
    link.end_rest();
    let waker = Waker::from(sender.bell.clone());
    assert_eq!(link.await_rested(&waker), None);
    assert!(sender.commits(&link));
}

/// Waits for the end of a mailbox; `None` while it waits.
fn await_end(link: &LinkHandle, sender: &mut Sender) -> Option<Attempt> {
    let waker = Waker::from(sender.bell.clone());
    let way = (&sender.request, &mut Hint::default());
    let attempt = link.await_end(way, &mut sender.place, &waker);
    (!matches!(attempt, Attempt::Wait)).then_some(attempt)
}

/// An end that the peer told is known also to a sender that looks only when the link has ended, as
/// it has right after the goodbye of a node; a sender that was told nothing has to ask elsewhere.
#[test]
fn an_end_that_was_told_is_known_after_the_link_has_ended() {
    let link = opened(&[("one", 0), ("other", 1)]);
    let (mut one, mut other) = (Sender::new("one", 0), Sender::new("other", 0));
    assert!(await_end(&link, &mut one).is_none() && await_end(&link, &mut other).is_none());
    let mut state = link.state.lock();
    state.send_queue.handle_closed((0, 1), 7, &[]).expect("honest");
    link.finish(state);
    end(&link);
    assert_eq!((one.woken(), other.woken()), (1, 1));
    let told = await_end(&link, &mut one);
    assert!(matches!(told, Some(Attempt::Failed(Unsent::Closed(reason))) if reason.code == 7));
    assert!(matches!(await_end(&link, &mut other), Some(Attempt::LinkEnded)));
    assert!(one.place.is_none() && other.place.is_none());
}
