//! Generated code works where the user's names mean something else, and its own meet nobody's.
#![deny(warnings)]

mod shadowed {
    #![allow(dead_code, reason = "they are here to be in the way")]
    pub struct Option;
    pub struct Result;
    pub struct Vec;
    pub struct String;
    pub struct Box;
    pub struct Some;
    pub trait Send {}
    pub trait Clone {}
    pub mod core {}
    pub mod std {}

    #[ringpost::message]
    pub struct Sum {
        pub parts: [u8; 2],
    }

    #[ringpost::message(local)]
    pub struct Stay {
        pub part: u8,
    }

    #[ringpost::actor]
    pub struct Calculator;

    #[ringpost::handlers]
    impl Calculator {
        #[handler]
        pub fn double(&self, number: u32) -> u32 {
            number * 2
        }

        #[handler(boxed)]
        pub async fn sum(&self, msg: Sum) -> u8 {
            msg.parts[0] + msg.parts[1]
        }

        #[handler]
        pub async fn stay(&self, msg: Stay) -> ringpost::Local<u8> {
            ringpost::Local(msg.part)
        }
    }
}

mod ours {
    use ringpost::prelude::*;

    #[actor]
    pub struct Names;

    #[handlers]
    impl Names {
        /// Parameters called like the locals of generated code.
        #[handler]
        #[allow(clippy::too_many_arguments, reason = "that is what is tried")]
        pub fn locals(
            &mut self,
            input: u8,
            reply: u8,
            task: u8,
            cx: u8,
            context: &mut Context<Self>,
            hash: u8,
            raw: u8,
        ) -> u8 {
            let _ = context.node();
            input + reply + task + cx + hash + raw
        }

        /// A message called like a part of generated code.
        #[handler]
        pub fn envelope(&mut self, envelope: u8) -> u8 {
            envelope
        }

        #[handler]
        pub fn r#move(&mut self, r#type: u8, mut by: u8) -> u8 {
            by += 1;
            r#type + by
        }

        /// `Self` in a parameter is the actor.
        #[handler]
        pub fn peers(&self, who: Vec<ActorRef<Self>>) -> u64 {
            who.len() as u64
        }
    }
}

/// The crate under another name.
mod renamed {
    use ringpost as post;

    #[post::message(crate = post)]
    pub struct Ping;

    #[post::actor(crate = post)]
    pub struct Echo;

    #[post::handlers(crate = post, Ping)]
    impl Echo {
        #[handler]
        pub fn say(&self, text: String) -> String {
            text
        }
    }

    impl post::Handler<Ping> for Echo {
        type Reply = u8;
        async fn handle(&mut self, _: Ping, _: &mut post::Context<Self>) -> u8 {
            1
        }
    }
}

#[tokio::test]
async fn it_runs() {
    let node = ringpost::Node::builder("alpha").start().await.unwrap();

    let calculator = node.spawn("calculator", shadowed::Calculator).await.unwrap();
    assert_eq!(calculator.double(3).await.unwrap(), 6);
    assert_eq!(calculator.sum(shadowed::Sum { parts: [1, 2] }).await.unwrap(), 3);
    assert_eq!(calculator.stay(shadowed::Stay { part: 4 }).await.unwrap().0, 4);

    let names = node.spawn("names", ours::Names).await.unwrap();
    assert_eq!(names.locals(1, 2, 3, 4, 5, 6).await.unwrap(), 21);
    assert_eq!(names.envelope(7).await.unwrap(), 7);
    assert_eq!(names.r#move(1, 2).await.unwrap(), 4);
    assert_eq!(names.peers(vec![names.clone()]).await.unwrap(), 1);

    let echo = node.spawn("echo", renamed::Echo).await.unwrap();
    assert_eq!(echo.say("a".into()).await.unwrap(), "a");
    assert_eq!(echo.ask(renamed::Ping).await.unwrap(), 1);
}
