//! Values that contain values of their own type, many times over.

use ringpost::group::{Group, Miss};
use ringpost::prelude::*;
use ringpost::send::Fate;

use super::world::{World, end};
use crate::cause;

/// One inside the other.
#[message]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nest {
    inner: Option<Box<Nest>>,
    /// A level more, where it is long.
    label: String,
}

impl Nest {
    fn of(levels: usize) -> Self {
        (1..levels).fold(Nest::default(), |inner, _| Nest {
            inner: Some(Box::new(inner)),
            label: String::new(),
        })
    }

    fn levels(&self) -> usize {
        std::iter::successors(Some(self), |nest| nest.inner.as_deref()).count()
    }
}

impl Drop for Nest {
    /// Drops one after the other: a thread has stack for some thousands alone.
    fn drop(&mut self) {
        let mut inner = self.inner.take();
        while let Some(mut nest) = inner {
            inner = nest.inner.take();
        }
    }
}

#[actor]
pub struct Owner;

#[handlers]
impl Owner {
    #[handler]
    fn nest(&self, msg: Nest) -> u64 {
        msg.levels() as u64
    }

    #[handler]
    fn grow(&self, levels: u64) -> Nest {
        Nest::of(levels as usize)
    }
}

#[actor]
pub struct Viewer;

#[handlers]
impl Viewer {
    #[handler]
    fn nest(&self, msg: View<Nest>) -> u64 {
        msg.to_owned().levels() as u64
    }
}

fn is_too_deep(cause: &Cause) -> bool {
    let text = cause.to_string();
    matches!(cause, Cause::Archive(_))
        && text.contains("128 levels")
        && text.contains("127 at most")
}

// Promised in docs/SEMANTICS.md.
pub async fn a_value_that_is_too_deep_is_refused_where_it_is_written(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("owner", Owner).await.unwrap();
    beta.spawn("viewer", Viewer).await.unwrap();
    let owner = alpha.actor::<Owner>("beta/owner").await.unwrap();
    let near = alpha.spawn("viewer", Viewer).await.unwrap();
    let far = alpha.actor::<Viewer>("beta/viewer").await.unwrap();
    let group = alpha.spawn("group", Group::<Nest>::new()).await.unwrap();
    let recipient = alpha.recipient("beta/owner").await.unwrap();
    group.join(recipient).await.unwrap().unwrap();

    for viewer in [&near, &far] {
        assert_eq!(viewer.ask(Nest::of(127)).await, Ok(127));
    }
    assert_eq!(owner.ask(Nest::of(127)).await, Ok(127));
    assert_eq!(owner.grow(127).await.unwrap().levels(), 127);
    assert_eq!(owner.tell(Nest::of(127)).confirmed().await, Ok(Fate::Delivered));
    for levels in [128, 20_000] {
        let returned = |error: TellError<Nest>| {
            assert!(is_too_deep(&error.cause), "{error}");
            assert_eq!(error.message.levels(), levels);
        };
        let nest = || Nest::of(levels);
        returned(owner.tell(nest()).await.unwrap_err());
        returned(owner.tell(nest()).confirmed().await.unwrap_err());
        returned(owner.try_tell(nest()).unwrap_err());
        returned(owner.reserve().await.unwrap().tell(nest()).unwrap_err());
        returned(far.tell(nest()).await.unwrap_err());
        returned(near.tell(nest()).await.unwrap_err());
        returned(near.try_tell(nest()).unwrap_err());
        for asked in [cause(owner.ask(nest()).await), cause(near.ask(nest()).await)] {
            let Err(AskCause::NotSent(unsent)) = &asked else { panic!("{asked:?}") };
            assert!(is_too_deep(unsent), "{unsent}");
        }
        let refused = cause(owner.grow(levels as u64).await.map(drop)).unwrap_err();
        assert_eq!(refused, AskCause::InvalidReply);
        assert!(!refused.to_string().contains("build both nodes alike"), "{refused}");
        let told = group.ask(nest()).await.unwrap();
        let [missed] = &told.missed[..] else { panic!("{told:?}") };
        assert!(
            matches!(&missed.why, Miss::Refused(why) if why.contains("128 levels")),
            "{missed:?}"
        );
    }
    // A long text in the last one is one level more.
    let mut long = Nest::of(127);
    let last = (1..127).fold(&mut long, |nest, _| nest.inner.as_deref_mut().unwrap());
    last.label = "longer than eight".into();
    assert!(is_too_deep(&owner.tell(long).await.unwrap_err().cause));
    end([alpha, beta]).await;
}
