//! Actors whose handlers are missing, or are other than their list says.

mod handlers_listed_as_other_form {
    //! Listed as `Ping`, written for `View<Ping>`.
    use ringpost::Handler;
    use ringpost::prelude::*;

    #[message]
    pub struct Ping;

    #[actor]
    pub struct Teller;

    #[handlers(Ping)]
    impl Teller {}

    impl Handler<View<Ping>> for Teller {
        type Reply = ();
        async fn handle(&mut self, _: View<Ping>, _: &mut Context<Self>) {}
    }
}

mod handlers_unlisted {
    //! A hand-written handler that `#[handlers]` does not list.
    use ringpost::Handler;
    use ringpost::prelude::*;

    #[message]
    pub struct Ping;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn balance(&self, account: String) -> u64 {
            account.len() as u64
        }

        #[handler]
        pub async fn close(&mut self) {}
    }

    impl Handler<Ping> for Teller {
        type Reply = ();
        async fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
    }

    pub async fn go(teller: ActorRef<Teller>) {
        let _ = teller.tell(Ping).await;
    }
}

mod actor_forgotten {
    //! `#[handlers]` for a type that is no actor.
    use ringpost::prelude::*;

    pub struct Plain;

    #[handlers]
    impl Plain {
        #[handler]
        pub async fn double(&self, number: u8) -> u8 {
            number * 2
        }
    }
}

mod message_local_not_send {
    //! Also a message that stays on its node moves between threads.
    use ringpost::prelude::*;

    #[message(local)]
    pub struct Shared {
        pub count: std::rc::Rc<u8>,
    }
}

mod handlers_forgotten {
    //! An actor without a `#[handlers]` block is spawned.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    pub async fn start(node: Node) {
        let _ = node.spawn("teller", Teller).await;
    }
}

fn main() {}
