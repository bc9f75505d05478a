//! Nodes of different builds.

use ringpost::DeadLetterCause;
use ringpost::prelude::*;

use super::world::{World, end};
use crate::cause;

/// Messages as another build might have them, under the names of this one's.
mod other {
    use ringpost::prelude::*;

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

#[actor]
#[derive(Default)]
struct Speller {
    word: String,
}

#[handlers]
impl Speller {
    #[handler]
    fn spell(&mut self, msg: Spell) {
        self.word.push(msg.letter);
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
