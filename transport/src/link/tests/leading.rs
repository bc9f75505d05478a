//! Asks that are committed before the messages behind them.

use super::*;

/// Takes a step of an ask that leads (WQ-5).
fn lead(link: &Arc<LinkHandle>, sender: &mut Sender) -> Attempt {
    let waker = Waker::from(sender.bell.clone());
    let kind = SendKind::LeadingAsk { deadline: None };
    let outgoing =
        Outgoing { message: &MESSAGE, form: 0, kind, note: None, archive: &mut sender.archive };
    let way = (&sender.request, &mut Hint::default());
    link.attempt(way, outgoing, &mut sender.place, Some(&waker))
}

/// WQ-5: whether it waits for the mailbox to be open or for room, and if it leaves, too.
#[test]
fn what_is_behind_an_ask_that_leads_is_committed_after_it() {
    let link = link(WINDOW);
    let [mut first, mut second] = [Sender::new("one", 10), Sender::new("one", 10)];
    assert!(matches!(lead(&link, &mut first), Attempt::Wait) && second.waits(&link));
    open(&link, "one", 0, WINDOW);
    assert_eq!((first.woken(), second.woken()), (1, 0));
    let mut third = Sender::new("one", 10);
    assert!(second.waits(&link) && third.waits(&link), "they run first");
    assert!(matches!(lead(&link, &mut first), Attempt::Committed(_)));
    assert!(second.woken() == 1 && second.commits(&link) && third.commits(&link));
    assert!(Sender::new("one", 10).commits(&link));
    // The mailbox is full.
    let mut leaves = Sender::new("one", 10);
    assert!(matches!(lead(&link, &mut leaves), Attempt::Wait));
    let [mut next, mut last] = [Sender::new("one", 10), Sender::new("one", 10)];
    assert!(matches!(lead(&link, &mut next), Attempt::Wait) && last.waits(&link));
    for _ in 0..3 {
        take(&link, 0, 10);
    }
    assert_eq!((leaves.woken(), next.woken(), last.woken()), (1, 0, 0));
    leaves.drop_it(&link);
    assert!(next.woken() == 1 && last.waits(&link));
    assert!(matches!(lead(&link, &mut next), Attempt::Committed(_)) && last.commits(&link));
}

/// WQ-5, LN-5: an ask that leads stays in line while its link rests, and when it goes on.
#[test]
fn an_ask_that_leads_is_in_line_while_its_link_rests() {
    for opened in [false, true] {
        let link = link(WINDOW);
        if opened {
            let mut opener = Sender::new("one", 10);
            assert!(opener.waits(&link));
            open(&link, "one", 0, WINDOW);
            opener.drop_it(&link);
        }
        assert!(link.rest());
        let [mut first, mut second] = [Sender::new("one", 10), Sender::new("one", 10)];
        assert!(matches!(lead(&link, &mut first), Attempt::Wait));
        assert!(matches!(second.poll(&link), Attempt::Rests));
        let waker = Waker::from(second.bell.clone());
        second.place = link.await_rested(&waker);
        if !opened {
            open(&link, "one", 0, WINDOW);
        }
        assert!(matches!(lead(&link, &mut first), Attempt::Wait), "nothing is committed");
        link.end_rest();
        assert!(second.woken() >= 1 && second.waits(&link), "it is behind the first");
        assert!(matches!(lead(&link, &mut first), Attempt::Committed(_)));
        assert!(second.commits(&link));
        assert!(!link.rest(), "messages are under way");
    }
}
