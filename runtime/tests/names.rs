//! Names, lookups and what cannot be found.

use std::time::Duration;

use futures::FutureExt;
use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::send::Unasked;
use ringpost::spawn::SpawnError;
use ringpost::{LookupError, StartError};

use crate::actors::{Held, Note, Notebook, Notes, held, node};
use crate::asking::{Teller, Withdraw};
use crate::remote::{PATIENCE, end, pair};

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_want_one_name_exactly_one_gets_it() {
    let node = node().await;
    let spawns = (0..32).map(|_| {
        let node = node.clone();
        tokio::spawn(async move { node.spawn("notebook", Notebook::new()).await })
    });
    let (mut won, mut lost) = (Vec::new(), 0);
    for spawn in spawns.collect::<Vec<_>>() {
        match spawn.await.unwrap() {
            Ok(actor) => won.push(actor),
            Err(SpawnError::NameTaken(name)) if name == "notebook" => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((won.len(), lost), (1, 31));
    assert_eq!(node.actor::<Notebook>("notebook").await.unwrap(), won[0]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_is_found_by_its_name_and_type() {
    let node = node().await;
    let teller = node.spawn("teller", Teller::default()).await.unwrap();
    for path in ["teller", "alpha/teller"] {
        let found = node.actor::<Teller>(path).await.unwrap();
        assert!(found.is_local());
        assert_eq!(found, teller);
    }
    let wrong = node.actor::<Notebook>("teller").await.unwrap_err();
    let (asked, found) = (Notebook::NAME, Teller::NAME.into());
    assert_eq!(wrong.cause(), Some(&Cause::WrongActorType { asked, found }));
    let text = format!("alpha/teller: the actor is a `{}`, not a `{asked}`: ", Teller::NAME);
    assert!(wrong.to_string().starts_with(&text), "{wrong}");
    let wrong = node.actor_or_spawn("teller", Notebook::new).await.unwrap_err();
    assert!(matches!(wrong, SpawnError::WrongType(_)), "{wrong}");
    assert!(wrong.to_string().starts_with(&text), "{wrong}");
    let nobody = node.actor::<Teller>("alpha/nobody").await.unwrap_err();
    assert_eq!(nobody.cause(), Some(&Cause::NoSuchActor));
    assert!(nobody.to_string().starts_with("alpha/nobody: there is no such actor"));
    let elsewhere = node.actor::<Teller>("beta/teller").await.unwrap_err();
    assert_eq!(elsewhere.cause(), Some(&Cause::NoNetwork));
}

/// Does jobs of one kind.
#[actor]
#[derive(Default)]
struct Pool<T: Send + 'static, const N: usize> {
    jobs: Vec<T>,
}

#[handlers]
impl<T: Send + 'static, const N: usize> Pool<T, N> {
    #[handler]
    fn size(&self) -> u64 {
        (N + self.jobs.len()) as u64
    }
}

/// Looks for a pool of another type. Returns the names of the types in the error.
async fn wrong<T: Send + 'static, const N: usize>(node: &Node) -> (String, String) {
    let wrong = node.actor::<Pool<T, N>>("beta/pool").await.unwrap_err();
    match wrong.cause() {
        Some(Cause::WrongActorType { asked, found }) => ((*asked).to_owned(), found.to_string()),
        cause => panic!("{cause:?}"),
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_arguments_of_a_generic_actor_are_part_of_its_type() {
    let (alpha, beta) = pair().await;
    beta.spawn("pool", Pool::<u8, 2>::default()).await.unwrap();
    let pool = |arguments: &str| format!("runtime::names::Pool<{arguments}>");
    for node in [&beta, &alpha] {
        let found = node.actor::<Pool<u8, 2>>("beta/pool").await.unwrap();
        assert_eq!(found.size().await, Ok(2));
        assert_eq!(wrong::<u16, 2>(node).await, (pool("u16, 2"), pool("u8, 2")));
        assert_eq!(wrong::<u8, 3>(node).await, (pool("u8, 3"), pool("u8, 2")));
        let other = node.actor::<Notebook>("beta/pool").await.unwrap_err();
        assert!(other.to_string().contains(&pool("u8, 2")), "{other}");
    }
    end([alpha, beta]).await;
}

#[tokio::test]
async fn texts_that_are_no_names_are_errors() {
    let node = node().await;
    for name in ["", "a/b", "#1", "line\nbreak", &"x".repeat(257)] {
        let error = node.spawn(name, Notebook::new()).await.unwrap_err();
        assert!(matches!(error, SpawnError::InvalidName(_)), "{name}: {error}");
        let path = format!("alpha/{name}");
        let error = node.actor::<Notebook>(&path).await.unwrap_err();
        assert!(matches!(error, LookupError::InvalidName(_)), "{path}: {error}");
    }
    let error = node.actor::<Notebook>("a b/x").await.unwrap_err();
    assert!(matches!(error, LookupError::InvalidNode(_)), "{error}");
    let error = Node::builder("a b").start().await.unwrap_err();
    assert!(matches!(error, StartError::InvalidName(_)), "{error}");
    let error = Node::builder("a").listen("127.0.0.1:0").secret("short").start().await.unwrap_err();
    assert!(matches!(error, StartError::InvalidSecret(_)), "{error}");
    // Settings are checked where nothing uses them, too.
    let error = Node::builder("a").also_accept("short").start().await.unwrap_err();
    assert!(matches!(error, StartError::InvalidSecret(_)), "{error}");
    let profile = Profile { ring_slots: 7, ..Profile::default() };
    let error = Node::builder("a").profile(profile).start().await.unwrap_err();
    assert!(matches!(error, StartError::Network(_)), "{error}");
}

/// As `echo` writes one to a file, and `printf` does not.
#[tokio::test]
async fn a_secret_with_a_line_break_at_its_end_is_another_one() {
    const SECRET: &str = "a secret of the tests, of 43 characters and more";
    let start = async |name, seeds: Vec<String>, secret: String| {
        let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
        let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds).secret(secret);
        builder.profile(profile).start().await.unwrap()
    };
    let alpha = start("alpha", vec![], SECRET.into()).await;
    let beta = start("beta", alpha.addresses(), format!("{SECRET}\n")).await;
    let error = beta.actor::<Notebook>("alpha/notebook").await.unwrap_err().to_string();
    assert!(error.contains("secret"), "{error}");
    let gamma = start("gamma", alpha.addresses(), SECRET.into()).await;
    gamma.ready(1).await.unwrap();
    alpha.ready(1).await.unwrap();
    assert_eq!(alpha.linked(), [gamma.id().clone()]);
    beta.shutdown(PATIENCE).await;
    end([alpha, gamma]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_recipient_is_found_by_path_if_it_accepts_the_message_and_answers_so() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    node.spawn("teller", Teller::default()).await.unwrap();
    let notes = node.recipient::<Note, Unasked>("notebook").await.unwrap();
    notes.tell(Note { number: 7 }).await.unwrap();
    assert_eq!(notebook.notes().await, Ok(vec![7]));
    let asks = node.recipient::<Withdraw, Result<u64, String>>("teller").await.unwrap();
    assert_eq!(asks.ask(Withdraw { cents: 0 }).await, Ok(Ok(0)));
    let wrong = node.recipient::<Withdraw, String>("teller").await.unwrap_err();
    assert_eq!(wrong.cause(), Some(&Cause::NotAccepted));
    let wrong = node.recipient::<Note, Unasked>("teller").await.unwrap_err();
    assert_eq!(wrong.cause(), Some(&Cause::NotAccepted));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_reference_by_name_follows_the_name() {
    let node = node().await;
    let named = node.named::<Notebook>("held").unwrap();
    assert!(named.is_local());
    let note = |number| Note { number };
    assert_eq!(named.tell(note(0)).await.unwrap_err().cause, Cause::NoSuchActor);
    assert_eq!(named.try_tell(note(0)).unwrap_err().cause, Cause::NoSuchActor);
    assert_eq!(named.wait_stopped().await, ActorExit::NoActor);
    let told: Recipient<Note> = named.recipient();
    for round in 0..2 {
        let Held { actor, gate, .. } = held(&node, 2).await;
        assert_ne!(named, actor);
        named.tell(note(10 * round)).await.unwrap();
        told.try_tell(note(10 * round + 1)).unwrap();
        // Sends that wait for room wait at this actor.
        let mut waits = Box::pin(named.tell(note(10 * round + 2)));
        assert!(waits.as_mut().now_or_never().is_none());
        let mut room = Box::pin(named.reserve::<Note>());
        assert!(room.as_mut().now_or_never().is_none());
        gate.add_permits(1);
        waits.await.unwrap();
        room.await.unwrap().tell(note(10 * round + 3)).unwrap();
        let all: Vec<u64> = (10 * round..10 * round + 4).collect();
        assert_eq!(named.notes().await.as_ref(), Ok(&all));
        assert_eq!(named.ask(Notes).into_ask().await, Ok(all));
        // Room that is kept counts until it is given back.
        let kept = [named.reserve::<Note>().await.unwrap(), named.reserve().await.unwrap()];
        assert_eq!(actor.try_tell(note(0)).unwrap_err().cause, Cause::MailboxFull);
        drop(kept);
        named.stop().await.unwrap();
        assert_eq!(actor.wait_stopped().await, ActorExit::Stopped);
        assert_eq!(named.request_stop(), Err(Cause::NoSuchActor));
    }
    let wrong = node.named::<Teller>("held").unwrap();
    let _held = held(&node, 2).await;
    let back = wrong.withdraw(1).tell().await.unwrap_err();
    assert!(matches!(back.cause, Cause::WrongActorType { .. }), "{}", back.cause);
    assert_eq!(named, node.named("alpha/held").unwrap());
    assert!(matches!(node.named::<Notebook>("a/b/c"), Err(LookupError::InvalidName(_))));
}

/// Returns the names in a list that a file has between two texts.
fn names_in(file: &str, from: &str, to: &str) -> Vec<String> {
    let list = file.split_once(from).and_then(|(_, rest)| rest.split_once(to)).unwrap().0;
    let words = list.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// No handler and no message that a macro makes takes a name that users of the prelude have.
#[test]
fn names_of_the_prelude_and_of_references_are_refused_to_handlers() {
    let refused = include_str!("../../macros/src/names.rs");
    let messages = names_in(refused, "const PRELUDE: &[&str] = &[", "];");
    let exported =
        names_in(include_str!("../src/lib.rs"), "pub mod prelude {\n    pub use crate::{", "}");
    let types = exported.iter().filter(|name| name.starts_with(char::is_uppercase));
    let open: Vec<_> = types.filter(|name| !messages.contains(name)).collect();
    assert!(open.is_empty(), "{open:?}");
    let of_std = "AsMut AsRef Box Clone Copy Default DoubleEndedIterator Drop Eq Err \
                  ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator Future Into \
                  IntoFuture IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd \
                  Result Self Send Sized Some String Sync ToOwned ToString TryFrom TryInto \
                  Unpin Vec";
    let is_known = |name: &&String| !exported.contains(name) && !of_std.contains(name.as_str());
    let stale: Vec<_> = messages.iter().filter(is_known).collect();
    assert!(stale.is_empty(), "not in the prelude: {stale:?}");
    let methods = names_in(refused, "const REFERENCE_METHODS: &[&str] = &[", "];");
    let sources = [
        include_str!("../src/actor/reference.rs"),
        include_str!("../src/actor/reference/ending.rs"),
        include_str!("../src/actor/reference/weak.rs"),
    ];
    for source in sources {
        let at = source.find("> ActorRef<A> {").unwrap();
        let end = source[at..].find("\n}\n").unwrap();
        let public = source[at..at + end].split("\n    pub ").skip(1);
        let public = public.filter_map(|item| item.split_once("fn ")).map(|(_, rest)| rest);
        for name in public.map(|rest| &rest[..rest.find(['(', '<']).unwrap()]) {
            assert!(methods.iter().any(|method| method == name), "`{name}` is not refused");
        }
    }
}
