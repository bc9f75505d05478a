//! Where the attributes of actors and handlers cannot stand.

mod actor_misplaced {
    //! Wrong places and arguments of `#[actor]`.
    use ringpost::prelude::*;

    #[actor]
    pub struct Borrows<'a> {
        pub text: &'a str,
    }

    #[actor(title = "x")]
    pub struct Titled;

    pub struct Plain;

    #[actor]
    impl Plain {}

    #[actor]
    impl Actor for Plain {
        const NAME: &'static str = "plain";
    }
}

mod handlers_misplaced {
    //! Wrong places and arguments of `#[handlers]` and `#[handler]`.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Clone for Teller {
        fn clone(&self) -> Self {
            Teller
        }
    }

    #[handlers(&'static str)]
    impl Teller {}

    impl Teller {
        #[handler]
        pub async fn deposit(&mut self, cents: u64) -> u64 {
            cents
        }
    }
}

fn main() {}
