//! Faults that are found while constants are worked out.

mod handlers_large_message {
    //! A message that would make every place in the mailbox large.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn store(&mut self, page: [u8; 1000]) -> u64 {
            page.len() as u64
        }
    }
}

mod handlers_same_identity {
    //! Two messages of one actor with one name.
    use ringpost::prelude::*;

    #[message(name = "x")]
    pub struct One;

    #[message(name = "x")]
    pub struct Two;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn one(&mut self, msg: self::One) {
            drop(msg);
        }

        #[handler]
        pub async fn two(&mut self, msg: self::Two) {
            drop(msg);
        }
    }
}

mod handlers_too_many {
    //! An actor that accepts more messages than a link can describe. 4,097 handlers would take the
    //! compiler minutes, so the check that `#[handlers]` writes is called as it calls it.
    use ringpost::__private::{Route, distinct};
    use ringpost::prelude::*;

    #[message]
    pub struct One;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn one(&mut self, msg: self::One) {
            drop(msg);
        }
    }

    const ROUTES: &[Route<Teller>] = &[const { Route::of::<One>() }; 4097];
    const _: () = distinct(ROUTES);
}

mod message_aligned_too_much {
    //! Archives lie 16-byte-aligned in frames.
    use ringpost::prelude::*;

    #[message]
    #[rkyv(attr(repr(C, align(32))))]
    pub struct Wide {
        pub x: u64,
    }
}

mod protocol_other_parameters {
    //! Handlers for a protocol's method with parameters that it does not have, or another reply: one
    //! error each.
    use ringpost::prelude::*;

    #[protocol]
    pub trait Bank {
        fn balance(account: String) -> Option<u64>;
    }

    #[actor]
    pub struct Clerk;

    #[handlers]
    impl Clerk {
        #[handler(protocol = Bank)]
        fn balance(&self, name: String) -> Option<u64> {
            name.parse().ok()
        }
    }

    #[actor]
    pub struct Cashier;

    #[handlers]
    impl Cashier {
        #[handler(protocol = Bank)]
        fn balance(&self, account: u64) -> Option<u64> {
            Some(account)
        }
    }

    #[actor]
    pub struct Auditor;

    #[handlers]
    impl Auditor {
        #[handler(protocol = Bank)]
        async fn balance(&mut self, account: String) -> u64 {
            account.len() as u64
        }
    }

    #[actor]
    pub struct Later;

    #[handlers]
    impl Later {
        #[handler(protocol = Bank)]
        fn balance(&self, account: String, reply: ReplyTo<u64>) {
            reply.send(account.len() as u64);
        }
    }
}

fn main() {}
