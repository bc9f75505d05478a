//! Handlers that are written in a way that no attribute takes.

mod handler_arguments {
    //! Wrong arguments of `#[handler]`.
    #![allow(unused_variables)]

    use ringpost::prelude::*;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler(box)]
        pub fn misspelt(&self) {}

        #[handler(name = "Quoted")]
        pub fn quoted(&self) {}

        #[handler(local)]
        pub fn local_elsewhere(&mut self, msg: Deposit) {}

        #[handler(derive(Clone))]
        pub fn derived_elsewhere(&mut self, msg: View<Deposit>) {}
    }
}

mod handler_name_clash {
    //! A handler whose message would be called as its reply is: one error, however often it is called.
    use ringpost::prelude::*;

    #[message]
    pub struct Room {
        pub number: u64,
    }

    #[actor]
    pub struct Hotel;

    #[handlers]
    impl Hotel {
        #[handler]
        pub fn room(&self) -> Room {
            Room { number: 7 }
        }

        #[handler]
        pub fn close(&self) {}

        #[handler(name = Close)]
        pub fn shut(&self) {}
    }

    pub async fn go(hotel: ActorRef<Hotel>) -> Result<u64, AskError> {
        hotel.close().await?;
        hotel.shut().await?;
        let first = hotel.room().await?;
        let second = hotel.room().await?;
        Ok(first.number + second.number)
    }
}

mod handler_names {
    //! Names that a handler or its message cannot have.
    use ringpost::prelude::*;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub fn tell(&self) {}

        #[handler]
        pub fn monitor(&self) {}

        #[handler]
        pub fn option(&self) {}

        #[handler]
        pub fn deposit(&mut self, deposit: Deposit) -> u64 {
            deposit.cents
        }

        #[handler]
        pub fn teller(&self) {}

        #[handler]
        pub fn close(&mut self) {}

        #[handler(name = Close)]
        pub fn shut(&mut self) {}
    }
}

mod handler_names_of_traits {
    //! Names that methods of traits have, which every reference has.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub fn to_owned(&self) {}

        #[handler]
        pub fn into(&self) {}

        #[handler]
        pub fn try_into(&self) {}

        #[handler]
        pub fn ne(&self) {}

        #[handler]
        pub fn clone_into(&self) {}
    }
}

mod handler_signatures {
    //! Methods that cannot be handlers; every one is reported.
    #![allow(unused_variables)]

    use ringpost::prelude::*;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub fn borrowed(&self, account: &str, list: Vec<&'static str>) {}

        #[handler]
        pub fn unnamed_type(&self, account: impl ToString) {}

        #[handler]
        pub fn pattern(&self, (account, cents): (String, u64)) {}

        #[handler]
        pub fn generic<T: ToString>(&self, account: T) {}

        #[handler]
        pub fn consumed(self) {}

        #[handler]
        pub fn associated(account: String) {}

        #[handler]
        pub fn message_and_field(&mut self, msg: Deposit, account: String) {}

        #[handler]
        pub fn two_messages(&mut self, msg: Deposit, view: View<Deposit>) {}

        #[handler]
        pub fn message_by_reference(&mut self, msg: &Deposit) {}

        #[handler]
        pub fn conditional(&self, #[cfg(unix)] account: String) {}
    }
}

mod handler_unnamed_reply {
    //! A reply without a name.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub fn accounts(&self) -> impl Iterator<Item = u64> {
            [1, 2].into_iter()
        }

        #[handler]
        pub fn owner(&self, account: u64) -> Option<impl ToString> {
            Some(account)
        }
    }
}

mod handlers_owned_and_view {
    //! One message has one handler, owned or as a view.
    use ringpost::prelude::*;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn owned(&mut self, msg: Deposit) -> u64 {
            msg.cents
        }

        #[handler]
        pub async fn viewed(&mut self, msg: View<Deposit>) -> u64 {
            msg.cents.to_native()
        }
    }
}

fn main() {}
