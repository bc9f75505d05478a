//! Spans of messages that wait on their way, and of what a handler leaves to a task or a timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringpost::group::Group;
use ringpost::pool::Pool;
use tokio::sync::Semaphore;

use super::*;
use crate::remote::end;
use ringpost::spawn::SpawnOptions;

/// Takes a permit of its gate for each ring, and enters it in a ledger.
#[actor(name = "app::Reader")]
struct Reader {
    gate: Arc<Semaphore>,
    ledger: ActorRef<Ledger>,
}

#[handlers]
impl Reader {
    #[handler]
    async fn ring(&mut self, msg: Ring) -> u64 {
        let Ring = msg;
        self.gate.acquire().await.unwrap().forget();
        self.ledger.tell(Entry { bytes: Vec::new() }).await.unwrap();
        7
    }
}

/// Three nodes, of which alpha has a ledger.
async fn three() -> [Node; 3] {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    let gamma = listening("gamma", &[&alpha, &beta]).await;
    for node in [&alpha, &beta, &gamma] {
        node.ready(2).await.unwrap();
    }
    alpha.spawn("ledger", Ledger).await.unwrap();
    [alpha, beta, gamma]
}

async fn reader(node: &Node, permits: usize) -> Reader {
    let ledger = node.actor("alpha/ledger").await.unwrap();
    Reader { gate: Arc::new(Semaphore::new(permits)), ledger }
}

/// The first waits for its member of another node to be opened, the last for room of the one of
/// the group's own.
#[tokio::test]
async fn what_waits_in_a_group_is_handled_below_what_sent_it_to_the_group() {
    let [alpha, beta, gamma] = three().await;
    let (near, far) = (reader(&beta, 0).await, reader(&gamma, 9).await);
    let gate = near.gate.clone();
    let near = beta.spawn_with(SpawnOptions::named("near").mailbox_capacity(1), near).await;
    gamma.spawn("far", far).await.unwrap();
    let group: ActorRef<Group<Ring>> = beta.spawn("room", Group::new()).await.unwrap();
    let far: Recipient<Ring> = beta.recipient("gamma/far").await.unwrap();
    for member in [near.unwrap().recipient(), far] {
        group.join(member).await.unwrap().unwrap();
    }
    let room: ActorRef<Group<Ring>> = alpha.actor("beta/room").await.unwrap();

    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    for _ in 0..3 {
        let told = async { room.tell(Ring).await.unwrap() };
        told.instrument(info_span!(target: "app", "request")).await;
    }
    // All but the messages that the near member does not handle yet.
    spans.handled(3 + 1 + 2 * 3).await;
    gate.add_permits(9);
    spans.handled(3 * 5).await;
    let request = "\
request
  send app::Ring to beta/room on alpha (tell)
    handle app::Ring by beta/room on beta (tell)
      handle app::Ring by beta/near on beta (tell)
        send app::Entry to alpha/ledger on beta (tell)
          handle app::Entry by alpha/ledger on alpha (tell)
      send app::Ring to gamma/far on beta (tell)
        handle app::Ring by gamma/far on gamma (tell)
          send app::Entry to alpha/ledger on gamma (tell)
            handle app::Entry by alpha/ledger on alpha (tell)
";
    assert_eq!(spans.draw_by_text(), request.repeat(3));
    assert_eq!(spans.traces().len(), 3);
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

/// Also of asks that wait at the router until a worker has room.
#[tokio::test]
async fn what_waits_at_a_router_is_handled_below_what_sent_it_to_the_router() {
    let [alpha, beta, gamma] = three().await;
    let Reader { gate, ledger } = reader(&beta, 0).await;
    let make = {
        let gate = gate.clone();
        move || Reader { gate: gate.clone(), ledger: ledger.clone() }
    };
    let builder = Pool::builder(make).size(1).mailbox_capacity(1);
    let pool = builder.spawn(&beta, "readers").await.unwrap();
    beta.spawn("rings", pool.router::<Ring>()).await.unwrap();
    let rings: Recipient<Ring, u64> = gamma.recipient("beta/rings").await.unwrap();

    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let ask = || {
        let asked = async { rings.ask(Ring).await };
        asked.instrument(info_span!(target: "app", "request"))
    };
    let open = async {
        // One is at the worker, one in its mailbox, and the router waits with the third.
        spans.handled(3 + 1).await;
        gate.add_permits(9);
    };
    let (first, second, third, fourth, ()) = tokio::join!(ask(), ask(), ask(), ask(), open);
    assert_eq!([first, second, third, fourth], [Ok(7), Ok(7), Ok(7), Ok(7)]);
    spans.handled(4 * 3).await;
    let request = "\
request
  send app::Ring to beta/rings on gamma (ask)
    handle app::Ring by beta/rings on beta (ask)
      handle app::Ring by WORKER on beta (ask)
        send app::Entry to alpha/ledger on beta (tell)
          handle app::Entry by alpha/ledger on alpha (tell)
";
    let worker = pool.workers()[0].address().to_string();
    assert_eq!(spans.draw_by_text(), request.repeat(4).replace("WORKER", &worker));
    assert_eq!(spans.traces().len(), 4);
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

/// Leaves the price to a task, and answers when that is there.
#[actor(name = "app::Fetcher")]
struct Fetcher {
    desk: ActorRef<Desk>,
    ledger: ActorRef<Ledger>,
}

#[message(name = "app::Fetch")]
struct Fetch;

#[message(name = "app::Begin")]
struct Begin;

#[handlers]
impl Fetcher {
    #[handler]
    fn fetch(&mut self, msg: Fetch, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        let (Fetch, desk) = (msg, self.desk.clone());
        let price = async move {
            tokio::task::yield_now().await;
            desk.ask(Price).await.unwrap()
        };
        cx.pipe(price, |fetcher, price, _| {
            fetcher.ledger.try_tell(Entry { bytes: Vec::new() }).unwrap();
            reply.send(price);
        });
    }

    /// Registers a task, a timer and a stream.
    #[handler]
    fn begin(&mut self, msg: Begin, cx: &mut Context<Self>) {
        let (Begin, ledger) = (msg, self.ledger.clone());
        cx.spawn_task(async move { ledger.tell(Entry { bytes: Vec::new() }).await.unwrap() });
        cx.tell_after("once", Duration::from_millis(1), Again);
        cx.attach(futures::stream::iter([Again]));
    }

    #[handler]
    fn again(&mut self, msg: Again) {
        let Again = msg;
    }
}

#[tokio::test]
async fn what_a_handler_pipes_is_below_it_and_what_begins_by_itself_below_none() {
    let [alpha, beta, gamma] = three().await;
    let bell = alpha.spawn("bell", Bell::default()).await.unwrap();
    alpha.spawn("desk", Desk { bell }).await.unwrap();
    let desk = beta.actor("alpha/desk").await.unwrap();
    let ledger = beta.spawn("ledger", Ledger).await.unwrap();
    beta.spawn("fetcher", Fetcher { desk, ledger }).await.unwrap();
    let fetcher: ActorRef<Fetcher> = gamma.actor("beta/fetcher").await.unwrap();

    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let request = async {
        assert_eq!(fetcher.ask(Fetch).await, Ok(7));
    };
    request.instrument(info_span!(target: "app", "request")).await;
    spans.handled(5).await;
    assert_eq!(spans.traces().len(), 1);
    let begin = async { fetcher.ask(Begin).await.unwrap() };
    begin.instrument(info_span!(target: "app", "begin")).await;
    spans.handled(9).await;
    let expected = "\
begin
  send app::Begin to beta/fetcher on gamma (ask)
    handle app::Begin by beta/fetcher on beta (ask)
handle app::Again by beta/fetcher on beta (tell)
handle app::Again by beta/fetcher on beta (tell)
handle app::Entry by beta/ledger on beta (tell)
request
  send app::Fetch to beta/fetcher on gamma (ask)
    handle app::Fetch by beta/fetcher on beta (ask)
      handle the end of a task by beta/fetcher on beta (tell)
        handle app::Entry by beta/ledger on beta (tell)
      send app::Price to alpha/desk on beta (ask)
        handle app::Price by alpha/desk on alpha (ask)
          handle app::Ring by alpha/bell on alpha (tell)
";
    assert_eq!(spans.draw_by_text(), expected);
    assert_eq!(spans.traces().len(), 5);
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

/// Tells itself the next step, so often: itself, or by a task to which it gives its span.
#[actor(name = "app::Walker")]
struct Walker {
    by_task: bool,
}

#[message(name = "app::Step")]
struct Step {
    left: u64,
}

#[handlers]
impl Walker {
    #[handler]
    fn step(&mut self, msg: Step, cx: &mut Context<Self>) {
        let Some(left) = msg.left.checked_sub(1) else { return };
        let me = cx.actor().clone();
        if self.by_task {
            let step = async move { me.tell(Step { left }).await.unwrap() };
            tokio::spawn(step.in_current_span());
        } else {
            me.try_tell(Step { left }).unwrap();
        }
    }
}

/// Counts the open spans, the most of them, and the spans that follow from another.
#[derive(Clone, Default)]
struct Open(Arc<(AtomicUsize, AtomicUsize, AtomicUsize)>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Open {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        let (now, most, _) = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    }

    fn on_follows_from(&self, _: &Id, _: &Id, _: LayerContext<'_, S>) {
        self.0.2.fetch_add(1, Ordering::SeqCst);
    }

    fn on_close(&self, _: Id, _: LayerContext<'_, S>) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A span stays open while one below it is: an actor that tells itself the next step would keep
/// one for each step that it has ever done.
#[tokio::test]
async fn messages_that_cause_each_other_without_an_end_keep_no_more_spans_open_than_they_may() {
    const STEPS: usize = 5_000;
    let (spans, open) = (Spans::default(), Open::default());
    let _log = Log::default().listen();
    let targets = Targets::new().with_target("ringpost::message", LevelFilter::TRACE);
    let subscriber = tracing_subscriber::registry().with(targets);
    let _here = tracing::subscriber::set_default(subscriber.with(spans.clone()).with(open.clone()));
    tracing::callsite::rebuild_interest_cache();
    let node = node().await;
    let walker = node.spawn("walker", Walker { by_task: false }).await.unwrap();
    walker.tell(Step { left: STEPS as u64 - 1 }).await.unwrap();
    spans.handled(STEPS).await;
    let most = open.0.1.load(Ordering::SeqCst);
    assert!(most <= 1_100, "{most} spans were open at once");
    // It is still one trace.
    assert_eq!(spans.traces().len(), 1);
    let is_below = |pair: &[Made]| pair[1].field("parent_span_id") == pair[0].field("span_id");
    assert!(spans.0.lock().windows(2).all(is_below));
    assert_eq!(open.0.2.load(Ordering::SeqCst), 0);

    let carrier = node.spawn("carrier", Walker { by_task: true }).await.unwrap();
    carrier.tell(Step { left: STEPS as u64 - 1 }).await.unwrap();
    spans.handled(2 * STEPS).await;
    let (_, most, follow) = &*open.0;
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 1_100, "{most} spans were open at once");
    assert_eq!(follow.load(Ordering::SeqCst), STEPS - 1);
}
