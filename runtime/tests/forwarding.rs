//! Questions that are handed on to another actor.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::{NotBegun, test_kit};

use crate::actors::node;
use crate::behaviour::world::World;
use crate::log::Log;
use crate::remote::end;

/// Hands a question on when it has waited for longer than asks wait that do not say otherwise.
#[actor]
struct Procrastinator {
    to: ActorRef<Sleeper>,
}

#[handlers]
impl Procrastinator {
    #[handler]
    fn later(&mut self, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        let to = self.to.clone();
        cx.spawn_task(async move {
            tokio::time::sleep(Duration::from_secs(7)).await;
            reply.forward(&to, Sleep);
        });
    }
}

#[message]
struct HandTo {
    to: ActorRef<Sleeper>,
}

/// Hands a question on to the actor that it names.
#[actor]
struct Switch;

#[handlers]
impl Switch {
    #[handler]
    fn hand_to(&mut self, msg: View<HandTo>, reply: ReplyTo<u64>) {
        reply.forward(&msg.to_owned().to, Sleep);
    }
}

#[protocol]
pub trait Sleeps {
    fn sleep() -> u64;
}

/// Knows a protocol of the actor that answers for it, and not its type.
#[actor]
struct Deputy {
    to: Ref<Sleeps>,
}

#[handlers]
impl Deputy {
    #[handler]
    fn stand_in(&mut self, reply: ReplyTo<u64>) {
        reply.forward(&self.to, Sleep);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_handed_on_to_an_actor_that_is_known_by_its_protocol() {
    let node = node().await;
    let to = node.spawn("sleeper", Sleeper).await.unwrap().protocol();
    let deputy = node.spawn("deputy", Deputy { to }).await.unwrap();
    assert_eq!(deputy.stand_in().timeout(Duration::from_secs(20)).await, Ok(7));
}

#[actor]
struct Sleeper;

#[handlers]
impl Sleeper {
    #[handler(protocol = Sleeps)]
    async fn sleep(&mut self) -> u64 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        7
    }
}

/// The deadline of an asker of another node is known after its message was handled, too.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_question_that_is_handed_on_late_is_asked_for_as_long_as_its_asker_waits() {
    test_kit::run(0, |cluster| async move {
        let [alpha, beta] = World::Sim(cluster).pair().await;
        let to = beta.spawn("sleeper", Sleeper).await.unwrap();
        beta.spawn("later", Procrastinator { to }).await.unwrap();
        let there = alpha.actor::<Procrastinator>("beta/later").await.unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(there.later().timeout(Duration::from_secs(20)).await, Ok(7));
        let late = there.later().timeout(Duration::from_secs(10)).await.unwrap_err();
        assert_eq!(late.cause, AskCause::Timeout);
        assert_eq!(began.elapsed().as_secs(), 24, "no sooner");
        end([alpha, beta]).await;
    });
}

#[tokio::test]
async fn a_question_that_is_handed_on_to_an_actor_that_is_gone_is_in_the_log() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let gone = node.spawn("gone", Sleeper).await.unwrap();
    gone.kill().await.unwrap();
    gone.wait_stopped().await;
    let switch = node.spawn("switch", Switch).await.unwrap();
    let unanswered = switch.ask(HandTo { to: gone }).await.unwrap_err();
    assert_eq!(unanswered.cause, AskCause::NotBegun(NotBegun::Stopped));
    assert_eq!(log.count_all(&["no answer to an ask that was forwarded to it", "alpha/gone"]), 1);
}
