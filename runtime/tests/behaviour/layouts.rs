//! Nodes of different builds.

use ringpost::NotBegun;
use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;

use super::world::{World, end};
use crate::cause;

/// Messages as another build might have them, under the names of this one's.
mod other {
    use ringpost::prelude::*;
    use ringpost::rkyv;

    pub type Letter = u32;

    #[message(name = "spell")]
    pub struct Spell {
        #[message(opaque)]
        pub letter: Letter,
    }

    #[message(name = "count")]
    pub struct Count {
        pub letters: u32,
    }

    /// The parts of a reference's archive.
    #[derive(Debug, Clone, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    #[rkyv(crate = rkyv)]
    pub struct Reference {
        pub incarnation: u128,
        pub node: String,
        pub name: String,
        pub index: u32,
        pub generation: u32,
    }

    pub type Friend = Reference;

    #[message(name = "greet")]
    pub struct Greet {
        #[message(opaque)]
        pub friend: Friend,
    }
}

type Letter = char;

#[message(name = "spell")]
pub struct Spell {
    #[message(opaque)]
    pub letter: Letter,
}

#[message(name = "count")]
pub struct Count {
    pub letters: u64,
}

type Friend = ActorRef<Speller>;

#[message(name = "greet")]
pub struct Greet {
    #[message(opaque)]
    pub friend: Friend,
}

#[actor]
#[derive(Default)]
pub struct Speller {
    word: String,
}

#[handlers]
impl Speller {
    #[handler]
    fn spell(&mut self, msg: Spell) {
        self.word.push(msg.letter);
    }

    #[handler]
    fn greet(&mut self, msg: View<Greet>) -> String {
        msg.to_owned().friend.address().to_string()
    }

    #[handler]
    fn count(&mut self, msg: Count) -> bool {
        self.word.len() as u64 == msg.letters
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn builds_that_disagree_on_one_message_agree_on_the_others(world: &World) {
    let [alpha, beta] = world.pair().await;
    let there = beta.spawn("speller", Speller::default()).await.unwrap();
    let mut letters = beta.dead_letters().subscribe();
    let counts = alpha.recipient::<other::Count, bool>("beta/speller").await.unwrap();
    let refused = counts.ask(other::Count { letters: 1 }).await;
    assert_eq!(cause(refused), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    let refused = counts.tell(other::Count { letters: 1 }).await.unwrap_err();
    assert_eq!((refused.message.letters, refused.cause), (1, Cause::SchemaMismatch));
    // Trusted layouts that are wrong are found by the check of the bytes.
    let spells = alpha.recipient::<other::Spell, ()>("beta/speller").await.unwrap();
    assert_eq!(spells.ask(other::Spell { letter: 'a' as u32 }).await, Ok(()));
    let invalid = spells.ask(other::Spell { letter: u32::MAX }).await;
    assert_eq!(cause(invalid), Err(AskCause::NotBegun(NotBegun::InvalidArchive)));
    spells.tell(other::Spell { letter: u32::MAX }).await.unwrap();
    let letter = letters.recv().await.unwrap();
    assert_eq!(letter.cause, DeadLetterCause::InvalidArchive);
    assert_eq!((&letter.to, letter.name), (there.address(), Some("spell")));
    assert_eq!(there.count(Count { letters: 1 }).await, Ok(true));
    end([alpha, beta]).await;
}

/// A peer that knows the secret may write anything into its archives.
// Promised in docs/SEMANTICS.md.
pub async fn references_with_names_that_are_none_are_no_archive(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("speller", Speller::default()).await.unwrap();
    let mut letters = beta.dead_letters().subscribe();
    let greets = alpha.recipient::<other::Greet, String>("beta/speller").await.unwrap();
    let greet = |node: &str, name: &str| {
        let (node, name) = (node.to_owned(), name.to_owned());
        let friend = other::Reference { incarnation: 1, node, name, index: 1, generation: 1 };
        other::Greet { friend }
    };
    assert_eq!(greets.ask(greet("alpha", "friend")).await, Ok("alpha/friend".into()));
    let long = "x".repeat(64 * 1024);
    for (node, name) in [("alpha", "a\nb"), ("alpha", &long), ("a\nb", "friend"), (&long, "")] {
        let refused = greets.ask(greet(node, name)).await;
        assert_eq!(cause(refused), Err(AskCause::NotBegun(NotBegun::InvalidArchive)));
        greets.tell(greet(node, name)).await.unwrap();
        assert_eq!(letters.recv().await.unwrap().cause, DeadLetterCause::InvalidArchive);
    }
    end([alpha, beta]).await;
}
