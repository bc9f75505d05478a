//! Spans of messages: one tree across nodes, as a subscriber sees it.

mod spread;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::ReplyTo;
use ringpost::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::actors::node;
use crate::log::Log;
use crate::remote::{PATIENCE, listening};

/// The spans that were made, in their order.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Made>>>);

/// A span that was made.
struct Made {
    id: Id,
    /// Of this process, as the subscriber knows it.
    parent: Option<Id>,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Made {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, cx: LayerContext<'_, S>) {
        struct Fields(BTreeMap<&'static str, String>);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.insert(field.name(), format!("{value:?}"));
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                self.0.insert(field.name(), value.to_owned());
            }
        }
        let mut fields = Fields(BTreeMap::new());
        attrs.record(&mut fields);
        let parent = cx.span(id).and_then(|span| Some(span.parent()?.id()));
        let (id, name) = (id.clone(), attrs.metadata().name());
        self.0.lock().push(Made { id, parent, name, fields: fields.0 });
    }
}

impl Spans {
    /// Listens on this thread until the guards are dropped; to spans of messages only if `messages`
    /// allows them.
    fn listen(&self, messages: LevelFilter) -> [DefaultGuard; 2] {
        // Another subscriber for the rest of the process, as each log has one.
        let before = Log::default().listen();
        let targets = Targets::new().with_target("ringpost::message", messages);
        let targets = targets.with_target("app", LevelFilter::INFO);
        let subscriber = tracing_subscriber::registry().with(targets).with(self.clone());
        let here = tracing::subscriber::set_default(subscriber);
        tracing::callsite::rebuild_interest_cache();
        // The later one is dropped first.
        [here, before]
    }

    /// Waits until `count` messages were begun.
    async fn handled(&self, count: usize) {
        while self.0.lock().iter().filter(|span| span.name == "handle").count() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the trees of all spans, drawn in the order in which they were made.
    fn draw(&self) -> String {
        let mut lines = self.lines();
        lines.sort_by_key(|line| line.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        drawing(&lines)
    }

    /// Returns the trees of all spans, drawn in the order of their texts.
    fn draw_by_text(&self) -> String {
        let mut lines = self.lines();
        lines.sort_by_key(|line| {
            line.iter().map(|(at, text)| (text.clone(), *at)).collect::<Vec<_>>()
        });
        drawing(&lines)
    }

    /// Returns the place and the text of each span, after those of its ancestors. A span names its
    /// parent by its number here or, if the parent is of another node, by its id there.
    fn lines(&self) -> Vec<Vec<(usize, String)>> {
        let spans = self.0.lock();
        let parent = |span: &Made| {
            let near = spans.iter().position(|other| Some(&other.id) == span.parent.as_ref());
            let is_far = |other: &Made| {
                !other.field("span_id").is_empty()
                    && other.field("span_id") == span.field("parent_span_id")
            };
            near.or_else(|| spans.iter().position(is_far))
        };
        let text = |span: &Made| {
            let way = if span.name == "send" { "to" } else { "by" };
            let (message, actor) = (span.field("message_name"), span.field("actor"));
            let (name, kind, on) = (span.name, span.field("kind"), span.field("node"));
            match name {
                "send" | "handle" => format!("{name} {message} {way} {actor} on {on} ({kind})"),
                other => other.to_owned(),
            }
        };
        let line = |(at, span): (usize, &Made)| {
            let (mut line, mut above) = (vec![(at, text(span))], parent(span));
            while let Some(next) = above {
                line.insert(0, (next, text(&spans[next])));
                above = parent(&spans[next]);
            }
            line
        };
        spans.iter().enumerate().map(line).collect()
    }

    /// Returns the ids of all traces.
    fn traces(&self) -> BTreeSet<String> {
        let spans = self.0.lock();
        let ids = spans.iter().map(|span| span.field("trace_id").to_owned());
        ids.filter(|id| !id.is_empty()).collect()
    }
}

/// Draws spans, each indented by how many are above it.
fn drawing(lines: &[Vec<(usize, String)>]) -> String {
    let draw = |line: &Vec<(usize, String)>| {
        let text = line.last().map_or("", |(_, text)| text.as_str());
        format!("{}{text}\n", "  ".repeat(line.len() - 1))
    };
    lines.iter().map(draw).collect()
}

#[message(name = "app::Order")]
struct Order;

#[message(name = "app::Entry")]
struct Entry {
    bytes: Vec<u8>,
}

#[message(name = "app::Price")]
struct Price;

#[message(name = "app::Ring")]
#[derive(Clone)]
struct Ring;

/// Takes orders: notes each in the ledger, asks for the price, and answers with it.
#[actor(name = "app::Clerk")]
struct Clerk {
    ledger: ActorRef<Ledger>,
    desk: ActorRef<Desk>,
}

#[handlers]
impl Clerk {
    #[handler]
    async fn order(&mut self, msg: Order) -> u64 {
        let Order = msg;
        self.ledger.tell(Entry { bytes: Vec::new() }).await.unwrap();
        // After a wait, and in a span of the handler's own.
        let priced = async { self.desk.ask(Price).await.unwrap() };
        priced.instrument(info_span!(target: "app", "pricing")).await
    }
}

#[actor(name = "app::Ledger")]
#[derive(Default)]
struct Ledger;

#[handlers]
impl Ledger {
    #[handler]
    fn entry(&mut self, msg: Entry) {
        drop(msg.bytes);
    }
}

/// Answers with the price, and rings.
#[actor(name = "app::Desk")]
struct Desk {
    bell: ActorRef<Bell>,
}

#[handlers]
impl Desk {
    #[handler]
    fn price(&mut self, msg: Price) -> u64 {
        let Price = msg;
        self.bell.try_tell(Ring).unwrap();
        7
    }
}

/// Puts the first ring aside until it is asked for, and sets a timer then.
#[actor(name = "app::Bell")]
#[derive(Default)]
struct Bell {
    stashes: bool,
}

#[message(name = "app::Again")]
#[derive(Clone)]
struct Again;

#[handlers]
impl Bell {
    #[handler]
    fn ring(&mut self, msg: Ring, cx: &mut Context<Self>) {
        if std::mem::take(&mut self.stashes) {
            cx.stash(msg).unwrap();
        }
    }

    #[handler]
    fn again(&mut self, msg: Again, cx: &mut Context<Self>) -> u64 {
        let Again = msg;
        cx.tell_after("later", Duration::from_millis(1), Ring);
        cx.unstash() as u64
    }
}

/// Another actor answers for it.
#[actor(name = "app::Front")]
struct Front {
    desk: ActorRef<Desk>,
}

#[message(name = "app::Quote")]
struct Quote;

#[handlers]
impl Front {
    #[handler]
    fn quote(&mut self, msg: Quote, reply: ReplyTo<u64>) {
        let Quote = msg;
        reply.forward(&self.desk, Price);
    }
}

/// A task of alpha asks beta, which tells gamma and asks alpha: all of it is one tree.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_request_across_three_nodes_is_one_tree_of_spans() {
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    let gamma = listening("gamma", &[&alpha, &beta]).await;
    let bell = alpha.spawn("bell", Bell::default()).await.unwrap();
    alpha.spawn("desk", Desk { bell }).await.unwrap();
    gamma.spawn("ledger", Ledger).await.unwrap();
    let ledger = beta.actor("gamma/ledger").await.unwrap();
    let desk = beta.actor("alpha/desk").await.unwrap();
    beta.spawn("clerk", Clerk { ledger, desk }).await.unwrap();
    let clerk: ActorRef<Clerk> = alpha.actor("beta/clerk").await.unwrap();
    let answer =
        async { clerk.ask(Order).await }.instrument(info_span!(target: "app", "request")).await;
    assert_eq!(answer, Ok(7));
    spans.handled(4).await;
    let expected = "\
request
  send app::Order to beta/clerk on alpha (ask)
    handle app::Order by beta/clerk on beta (ask)
      send app::Entry to gamma/ledger on beta (tell)
        handle app::Entry by gamma/ledger on gamma (tell)
      pricing
        send app::Price to alpha/desk on beta (ask)
          handle app::Price by alpha/desk on alpha (ask)
            handle app::Ring by alpha/bell on alpha (tell)
";
    assert_eq!(spans.draw(), expected);
    let traces = spans.traces();
    assert!(traces.len() == 1 && traces.iter().all(|id| id.len() == 32), "{traces:?}");
    for node in [gamma, beta, alpha] {
        node.shutdown(PATIENCE).await;
    }
}

/// Whatever way a message takes to another node, even if its sender waits for the node, it is
/// handled below the sender's span.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn each_way_of_sending_carries_the_span() {
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let beta = listening("beta", &[]).await;
    beta.spawn("ledger", Ledger).await.unwrap();
    let alpha = listening("alpha", &[&beta]).await;
    // It waits for the link, and for the mailbox.
    let ledger: ActorRef<Ledger> = alpha.actor("beta/ledger").await.unwrap();
    let entry = |bytes: usize| Entry { bytes: vec![1; bytes] };
    let ways = async {
        ledger.tell(entry(10)).await.unwrap();
        ledger.tell(entry(3_000_000)).await.unwrap();
        ledger.tell(entry(1)).confirmed().await.unwrap();
        ledger.try_tell(entry(2)).unwrap();
        ledger.reserve().await.unwrap().tell(entry(3)).unwrap();
        ledger.recipient::<Entry>().tell(entry(4)).await.unwrap();
    };
    ways.instrument(info_span!(target: "app", "ways")).await;
    spans.handled(6).await;
    let way = "  send app::Entry to beta/ledger on alpha (tell)\n    \
               handle app::Entry by beta/ledger on beta (tell)\n";
    assert_eq!(spans.draw(), format!("ways\n{}", way.repeat(6)));
    for node in [alpha, beta] {
        node.shutdown(PATIENCE).await;
    }
}

/// On one node parents are spans of the subscriber. A message that was put aside is handled again
/// below the span that put it aside; one of a timer is nobody's.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn forwards_and_messages_put_aside_are_below_their_handlers_and_timers_below_none() {
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let node = node().await;
    let bell = node.spawn("bell", Bell { stashes: true }).await.unwrap();
    let desk = node.spawn("desk", Desk { bell: bell.clone() }).await.unwrap();
    let front = node.spawn("front", Front { desk }).await.unwrap();
    let asked = async { front.ask(Quote).await };
    assert_eq!(asked.instrument(info_span!(target: "app", "request")).await, Ok(7));
    spans.handled(3).await;
    assert_eq!(bell.ask(Again).await, Ok(1));
    spans.handled(6).await;
    let expected = "\
request
  handle app::Quote by alpha/front on alpha (ask)
    handle app::Price by alpha/desk on alpha (ask)
      handle app::Ring by alpha/bell on alpha (tell)
        handle app::Ring by alpha/bell on alpha (tell)
handle app::Again by alpha/bell on alpha (ask)
handle app::Ring by alpha/bell on alpha (tell)
";
    assert_eq!(spans.draw(), expected);
    assert_eq!(spans.traces().len(), 3);
}

/// A subscriber that takes less than all of them gets none, and none is sent.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn without_the_target_no_span_is_made_and_none_travels() {
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::DEBUG);
    let beta = listening("beta", &[]).await;
    let alpha = listening("alpha", &[&beta]).await;
    let bell = beta.spawn("bell", Bell::default()).await.unwrap();
    beta.spawn("desk", Desk { bell }).await.unwrap();
    let desk: ActorRef<Desk> = alpha.actor("beta/desk").await.unwrap();
    assert_eq!(
        async { desk.ask(Price).await }.instrument(info_span!(target: "app", "request")).await,
        Ok(7)
    );
    assert_eq!(spans.draw(), "request\n");
    for node in [alpha, beta] {
        node.shutdown(PATIENCE).await;
    }
}
