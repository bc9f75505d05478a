//! The archives of a group's messages, for members of other nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringpost::Inbox;
use ringpost::group::{Group, Miss};
use ringpost::prelude::*;
use ringpost::rkyv::rancor::Fallible;
use ringpost::rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use ringpost::rkyv::{Archive, Archived, Place};

use super::all;
use crate::actors::{Note, Notebook};
use crate::cause;
use crate::remote::{end, pair};

/// How often a [`Counted`] was archived.
static ARCHIVED: AtomicU64 = AtomicU64::new(0);

/// Counts how often its message is archived.
#[message]
#[derive(Debug, Clone, PartialEq)]
struct Counted {
    text: String,
    #[message(opaque)]
    #[rkyv(with = Counting)]
    number: u64,
}

struct Counting;

impl ArchiveWith<u64> for Counting {
    type Archived = Archived<u64>;
    type Resolver = ();

    fn resolve_with(field: &u64, (): (), out: Place<Self::Archived>) {
        field.resolve((), out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<u64, S> for Counting {
    fn serialize_with(_: &u64, _: &mut S) -> Result<(), S::Error> {
        ARCHIVED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<Archived<u64>, u64, D> for Counting {
    fn deserialize_with(field: &Archived<u64>, _: &mut D) -> Result<u64, D::Error> {
        Ok(field.to_native())
    }
}

#[tokio::test]
async fn a_message_is_archived_once_for_all_members_of_other_nodes() {
    let (alpha, beta) = pair().await;
    let group = alpha.spawn("group", Group::<Counted>::new()).await.unwrap();
    let there = beta.actor::<Group<Counted>>("alpha/group").await.unwrap();
    let mut inboxes: Vec<Inbox<Counted>> = Vec::new();
    for node in [&alpha, &beta, &beta, &beta] {
        let inbox = node.inbox(64).await.unwrap();
        there.join(inbox.recipient()).await.unwrap().unwrap();
        inboxes.push(inbox);
    }
    let large = "x".repeat(100_000);
    for (number, text) in [(1, ""), (2, "some"), (3, &*large)] {
        let counted = Counted { text: text.into(), number };
        let before = ARCHIVED.load(Ordering::Relaxed);
        assert_eq!(group.ask(counted.clone()).await, Ok(all(4)));
        for inbox in &mut inboxes {
            assert_eq!(inbox.receive().await.as_ref(), Some(&counted));
        }
        assert_eq!(ARCHIVED.load(Ordering::Relaxed) - before, 1, "{number}");
    }
    end([alpha, beta]).await;
}

/// The same name as [`Note`] has, with another layout.
mod other_build {
    use ringpost::prelude::*;

    #[message(name = "broadcasting.Word")]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Word {
        pub letters: String,
    }

    #[actor(name = "reader")]
    pub struct Reader;

    #[handlers]
    impl Reader {
        #[handler]
        pub fn read(&mut self, msg: Word) {
            drop(msg);
        }
    }
}

#[message(name = "broadcasting.Word")]
#[derive(Debug, Clone, PartialEq)]
struct Word {
    number: u64,
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_member_that_cannot_take_the_message_misses_it_with_the_cause() {
    let (alpha, beta) = pair().await;
    let group = alpha.spawn("group", Group::<Word>::new()).await.unwrap();
    beta.spawn("reader", other_build::Reader).await.unwrap();
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let mut inbox = beta.inbox::<Word>(4).await.unwrap();
    for path in ["beta/reader", "beta/notebook"] {
        group.join(alpha.recipient(path).await.unwrap()).await.unwrap().unwrap();
    }
    beta.actor::<Group<Word>>("alpha/group")
        .await
        .unwrap()
        .join(inbox.recipient())
        .await
        .unwrap()
        .unwrap();
    let told = group.ask(Word { number: 1 }).await.unwrap();
    assert_eq!(told.told, 1);
    let why = |cause: Cause| Miss::Refused(cause.to_string());
    let mut missed: Vec<_> = told.missed.into_iter().map(|missed| missed.why).collect();
    missed.sort_by_key(|why| !why.to_string().contains("layout"));
    assert_eq!(missed, [why(Cause::SchemaMismatch), why(Cause::NotAccepted)]);
    assert_eq!(inbox.receive().await, Some(Word { number: 1 }));
    // A group of another message is none.
    let other = beta.actor::<Group<Note>>("alpha/group").await.unwrap_err();
    assert!(matches!(other.cause(), Some(Cause::WrongActorType { .. })), "{other}");
    let no_room = cause(group.ask(Word { number: 2 }).timeout(Duration::ZERO).await);
    assert!(no_room.is_err());
    end([alpha, beta]).await;
}
