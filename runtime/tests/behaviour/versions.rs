//! Nodes of builds that know different versions of a message.

use std::sync::Arc;

use ringpost::LookupError;
use ringpost::group::{Group, Told};
use ringpost::prelude::*;
use ringpost::send::Fate;
use ringpost::spawn::{Offered, RemoteSpawnCause};
use tokio::sync::Semaphore;

use super::world::{World, end};
use crate::cause;

/// A message that all builds have alike.
#[message]
pub struct Describe {
    pub prefix: String,
}

/// Writes what the old and the new build have alike. It handles the messages of the build that it
/// is written in.
macro_rules! alike {
    () => {
        #[actor(name = "versions.Ledger")]
        pub struct Ledger {
            pub gate: Arc<Semaphore>,
            pub deposits: Vec<Deposit>,
        }

        #[protocol]
        pub trait Books {
            fn deposit(msg: Deposit) -> u64;

            fn read(msg: Read) -> Statement;
        }

        #[actor(name = "versions.Account")]
        pub struct Account(Opening);

        #[handlers]
        impl Account {
            #[handler]
            pub fn describe(&mut self, msg: Describe) -> String {
                format!("{}: {:?}", msg.prefix, self.0)
            }
        }

        impl Offered for Account {
            type Arguments = Opening;

            fn create(opening: Opening) -> Result<Self, BoxError> {
                Ok(Account(opening))
            }
        }
    };
}

/// The build that knows the first versions.
mod old {
    use super::*;

    #[message(name = "versions.Deposit")]
    #[derive(Debug, PartialEq)]
    pub struct Deposit {
        pub account: String,
        pub cents: u64,
    }

    #[message(name = "versions.Read")]
    #[derive(Debug, PartialEq)]
    pub struct Read {
        pub account: String,
    }

    #[message(name = "versions.Statement")]
    #[derive(Debug, PartialEq)]
    pub struct Statement {
        pub cents: u64,
    }

    #[handlers]
    impl Ledger {
        #[handler]
        pub async fn deposit(&mut self, msg: Deposit) -> u64 {
            let Ok(_open) = self.gate.acquire().await else { return 0 };
            self.deposits.push(msg);
            self.deposits.len() as u64
        }

        #[handler]
        pub fn read(&mut self, msg: View<Read>) -> Statement {
            let of = self.deposits.iter().filter(|deposit| deposit.account == msg.account.as_str());
            Statement { cents: of.map(|deposit| deposit.cents).sum() }
        }
    }

    #[message(name = "versions.Opening")]
    #[derive(Debug)]
    pub struct Opening {
        pub owner: String,
    }

    alike!();
}

/// The build that knows more.
mod new {
    use super::*;

    #[message(name = "versions.Deposit", version = 3)]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Deposit {
        pub account: String,
        pub cents: u64,
        #[message(since = 2)]
        pub memo: Option<String>,
        #[message(since = 3, default = "EUR".to_owned())]
        pub currency: String,
    }

    #[message(name = "versions.Read", version = 2)]
    #[derive(Debug, PartialEq)]
    pub struct Read {
        pub account: String,
        #[message(since = 2, default = 100)]
        pub percent: u64,
    }

    #[message(name = "versions.Statement", version = 2)]
    #[derive(Debug, PartialEq)]
    pub struct Statement {
        pub cents: u64,
        #[message(since = 2)]
        pub deposits: u64,
    }

    #[handlers]
    impl Ledger {
        #[handler]
        pub async fn deposit(&mut self, msg: Deposit) -> u64 {
            let Ok(_open) = self.gate.acquire().await else { return 0 };
            self.deposits.push(msg);
            self.deposits.len() as u64
        }

        #[handler]
        pub fn read(&mut self, msg: View<Read>) -> Statement {
            let of = self.deposits.iter().filter(|deposit| deposit.account == msg.account.as_str());
            let cents = of.clone().map(|deposit| deposit.cents).sum::<u64>();
            let cents = cents * msg.percent.to_native() / 100;
            Statement { cents, deposits: of.count() as u64 }
        }

        /// Returns its deposits, with each field.
        #[handler]
        pub fn told(&mut self) -> Vec<String> {
            self.deposits.iter().map(|deposit| format!("{deposit:?}")).collect()
        }
    }

    #[message(name = "versions.Opening", version = 2)]
    #[derive(Debug)]
    pub struct Opening {
        pub owner: String,
        #[message(since = 2, default = 7)]
        pub limit: u64,
    }

    alike!();
}

/// The build that knows version 2 of the deposit.
mod between {
    use super::*;

    #[message(name = "versions.Deposit")]
    pub struct Deposit {
        pub account: String,
        pub cents: u64,
        #[message(since = 2)]
        pub memo: Option<String>,
    }
}

/// A build that changed the messages and did not say so, or says another history.
mod other {
    use super::*;

    #[message(name = "versions.Deposit")]
    pub struct Deposit {
        pub account: String,
        pub cents: u64,
        pub memo: Option<String>,
    }

    /// Its meaning changed in version 2: it understands no earlier one.
    #[message(name = "versions.Read", version = 3)]
    pub struct Read {
        pub account: String,
        #[message(since = 3)]
        pub percent: u64,
    }

    #[message(name = "versions.Statement")]
    #[derive(Debug, PartialEq)]
    pub struct Statement {
        pub cents: i64,
    }

    #[message(name = "versions.Opening")]
    pub struct Opening {
        pub owner: u64,
    }

    #[protocol]
    pub trait Books {
        fn deposit(msg: super::old::Deposit) -> u64;

        fn read(msg: super::old::Read) -> Statement;
    }

    #[actor(name = "versions.Account")]
    pub struct Account;

    #[handlers]
    impl Account {}

    impl Offered for Account {
        type Arguments = Opening;

        fn create(_: Opening) -> Result<Self, BoxError> {
            Ok(Account)
        }
    }
}

fn gate(open: bool) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::from(open)))
}

fn deposit(cents: u64, memo: &str) -> new::Deposit {
    new::Deposit { account: "ada".into(), cents, memo: Some(memo.into()), currency: "GBP".into() }
}

fn read(percent: u64) -> new::Read {
    new::Read { account: "ada".into(), percent }
}

// Promised in docs/SEMANTICS.md.
pub async fn an_old_node_is_understood_by_a_new_one(world: &World) {
    let [alpha, beta] = world.pair().await;
    let ledger = new::Ledger { gate: gate(true), deposits: Vec::new() };
    let there = beta.spawn("ledger", ledger).await.unwrap();
    let ledger = alpha.actor::<old::Ledger>("beta/ledger").await.unwrap();
    let deposit = |cents| old::Deposit { account: "ada".into(), cents };
    ledger.tell(deposit(1)).await.unwrap();
    assert_eq!(ledger.tell(deposit(2)).confirmed().await, Ok(Fate::Delivered));
    assert_eq!(ledger.ask(deposit(3)).await, Ok(3));
    ledger.reserve().await.unwrap().tell(deposit(4)).unwrap();
    // Also by the message alone, and through a reference that crossed nodes.
    let deposits = alpha.recipient::<old::Deposit, u64>("beta/ledger").await.unwrap();
    assert_eq!(deposits.ask(deposit(5)).await, Ok(5));
    let between = alpha.recipient::<between::Deposit, u64>("beta/ledger").await.unwrap();
    let (account, memo) = ("ada".to_owned(), Some("note".to_owned()));
    assert_eq!(between.ask(between::Deposit { account, cents: 6, memo }).await, Ok(6));
    // A `View` shows the newest form; the answer has the form that its asker knows.
    let read = old::Read { account: "ada".into() };
    assert_eq!(ledger.ask(read).await, Ok(old::Statement { cents: 21 }));
    let told = there.told().await.unwrap();
    let as_told = |cents, memo| {
        let account = "ada".into();
        format!("{:?}", new::Deposit { account, cents, memo, currency: "EUR".into() })
    };
    let mut expected: Vec<_> = (1..=5).map(|cents| as_told(cents, None)).collect();
    expected.push(as_told(6, Some("note".into())));
    assert_eq!(told, expected);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_new_node_sends_an_old_one_what_that_knows(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gate = gate(false);
    let ledger = old::Ledger { gate: gate.clone(), deposits: Vec::new() };
    let there = beta.spawn("ledger", ledger).await.unwrap();
    let ledger = alpha.actor::<new::Ledger>("beta/ledger").await.unwrap();
    // More than there is room for: waiting messages keep their order, too.
    let mut sent = 0;
    let refused = loop {
        match ledger.try_tell(deposit(sent, "first")) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.cause, Cause::MailboxFull);
    assert_eq!(refused.message, deposit(sent, "first"), "what is given back lacks nothing");
    let waiting = tokio::spawn(async move {
        for cents in sent..4000 {
            ledger.tell(deposit(cents, "second")).await.unwrap();
        }
        assert_eq!(ledger.tell(deposit(4000, "")).confirmed().await, Ok(Fate::Delivered));
        ledger.reserve().await.unwrap().tell(deposit(4001, "")).unwrap();
        assert_eq!(ledger.ask(deposit(4002, "")).await, Ok(4003));
        // Answers of an old node, and asks to it, have only the fields that it knows.
        let statement = ledger.ask(read(50)).await;
        let cents = (0..=4002).sum();
        assert_eq!(statement, Ok(new::Statement { cents, deposits: 0 }));
    });
    gate.add_permits(1);
    waiting.await.unwrap();
    let read = old::Read { account: "ada".into() };
    assert_eq!(there.ask(read).await.unwrap().cents, (0..=4002).sum::<u64>());
    end([alpha, beta]).await;
}

pub async fn a_node_that_comes_back_newer_is_sent_the_new_fields(world: &World) {
    let [alpha, beta] = world.pair().await;
    let old = old::Ledger { gate: gate(true), deposits: Vec::new() };
    beta.spawn("ledger", old).await.unwrap();
    let ledger = alpha.actor::<new::Ledger>("beta/ledger").await.unwrap();
    assert_eq!(ledger.ask(deposit(1, "first")).await, Ok(1));
    // The name is given to one of the new build.
    ledger.stop().await.unwrap();
    ledger.wait_stopped().await;
    let new = new::Ledger { gate: gate(true), deposits: Vec::new() };
    let there = beta.spawn("ledger", new).await.unwrap();
    let ledger = alpha.actor::<new::Ledger>("beta/ledger").await.unwrap();
    ledger.tell(deposit(2, "second")).await.unwrap();
    assert_eq!(ledger.ask(read(50)).await, Ok(new::Statement { cents: 1, deposits: 1 }));
    assert_eq!(there.told().await, Ok(vec![format!("{:?}", deposit(2, "second"))]));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_change_that_is_not_declared_is_a_mismatch_beside_versions_that_are(world: &World) {
    let [alpha, beta] = world.pair().await;
    let ledger = new::Ledger { gate: gate(true), deposits: Vec::new() };
    beta.spawn("ledger", ledger).await.unwrap();
    let deposits = alpha.recipient::<other::Deposit, u64>("beta/ledger").await.unwrap();
    let deposit = || other::Deposit { account: "ada".into(), cents: 1, memo: None };
    let refused = deposits.tell(deposit()).await.unwrap_err();
    assert_eq!((refused.message.cents, refused.cause), (1, Cause::SchemaMismatch));
    let refused = deposits.ask(deposit()).await;
    assert_eq!(cause(refused), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    let reads = alpha.recipient::<other::Read, new::Statement>("beta/ledger").await.unwrap();
    let refused = reads.ask(other::Read { account: "ada".into(), percent: 1 }).await;
    let mismatch = Err(AskCause::NotSent(Cause::SchemaMismatch));
    // Version 2 of the one is not version 2 of the other: they differ in their fields.
    assert_eq!(cause(refused), mismatch);
    let reads = alpha.recipient::<old::Read, other::Statement>("beta/ledger").await.unwrap();
    let refused = reads.ask(old::Read { account: "ada".into() }).await;
    assert_eq!(cause(refused), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    let reads = alpha.recipient::<old::Read, old::Statement>("beta/ledger").await.unwrap();
    let answered = reads.ask(old::Read { account: "ada".into() }).await;
    assert_eq!(answered, Ok(old::Statement { cents: 0 }), "the others go on");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_protocol_leads_to_nodes_of_either_build(world: &World) {
    let [alpha, beta] = world.pair().await;
    let ledger = new::Ledger { gate: gate(true), deposits: Vec::new() };
    alpha.spawn("ledger", ledger).await.unwrap();
    let ledger = old::Ledger { gate: gate(true), deposits: Vec::new() };
    beta.spawn("ledger", ledger).await.unwrap();
    let books: Ref<new::Books> = alpha.reference("beta/ledger").await.unwrap();
    assert_eq!(books.deposit(deposit(10, "first")).await, Ok(1));
    books.tell(deposit(20, "second")).await.unwrap();
    assert_eq!(books.read(read(50)).await, Ok(new::Statement { cents: 30, deposits: 0 }));
    let books: Ref<old::Books> = beta.reference("alpha/ledger").await.unwrap();
    let deposit = old::Deposit { account: "ada".into(), cents: 5 };
    assert_eq!(books.deposit(deposit).await, Ok(1));
    let read = old::Read { account: "ada".into() };
    assert_eq!(books.read(read).await, Ok(old::Statement { cents: 5 }));
    // A reply in no form that both know.
    let other = beta.reference::<other::Books>("alpha/ledger").await.unwrap_err();
    let LookupError::NotServed { message, cause, .. } = other else { panic!("{other}") };
    assert_eq!((message, *cause), ("versions.Read", Cause::SchemaMismatch));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_group_tells_each_member_the_newest_form_that_its_node_knows(world: &World) {
    let [alpha, beta] = world.pair().await;
    let group: ActorRef<Group<new::Deposit>> = alpha.spawn("group", Group::new()).await.unwrap();
    let ledger = |gate| new::Ledger { gate, deposits: Vec::new() };
    let near = alpha.spawn("near", ledger(gate(true))).await.unwrap();
    let far = beta.spawn("far", ledger(gate(true))).await.unwrap();
    let ledger = old::Ledger { gate: gate(true), deposits: Vec::new() };
    let old = beta.spawn("old", ledger).await.unwrap();
    for path in ["near", "beta/far", "beta/old"] {
        let member: Recipient<new::Deposit> = alpha.recipient(path).await.unwrap();
        group.join(member).await.unwrap().unwrap();
    }
    // Also from a node of the old build, which knows less of the message.
    let there = beta.recipient::<old::Deposit, Told<old::Deposit>>("alpha/group").await.unwrap();
    for cents in 0..100 {
        let told = group.ask(deposit(cents, "all")).await;
        assert_eq!(told, Ok(Told { told: 3, missed: vec![] }));
    }
    let told = there.ask(old::Deposit { account: "ada".into(), cents: 100 }).await;
    assert_eq!(told, Ok(Told { told: 3, missed: vec![] }));
    let mut expected: Vec<_> = (0..100).map(|cents| deposit(cents, "all")).collect();
    let (account, currency) = ("ada".into(), "EUR".into());
    expected.push(new::Deposit { account, cents: 100, memo: None, currency });
    let expected: Vec<_> = expected.iter().map(|deposit| format!("{deposit:?}")).collect();
    for member in [near, far] {
        while member.told().await.unwrap().len() < expected.len() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(member.told().await.as_ref(), Ok(&expected));
    }
    while old.read(old::Read { account: "ada".into() }).await.unwrap().cents < 5050 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn an_offered_type_is_spawned_by_nodes_of_either_build(world: &World) {
    let [alpha, beta] = world.pair().await;
    alpha.offer::<new::Account>().unwrap();
    beta.offer::<old::Account>().unwrap();
    let opening = old::Opening { owner: "ada".into() };
    let account: ActorRef<old::Account> =
        beta.peer("alpha").spawn("account", opening).await.unwrap();
    let opened = account.ask(Describe { prefix: "is".into() }).await.unwrap();
    assert_eq!(opened, format!("is: {:?}", new::Opening { owner: "ada".into(), limit: 7 }));
    let opening = new::Opening { owner: "bob".into(), limit: 9 };
    let account: ActorRef<new::Account> =
        alpha.peer("beta").spawn("account", opening).await.unwrap();
    let opened = account.ask(Describe { prefix: "is".into() }).await.unwrap();
    assert_eq!(opened, format!("is: {:?}", old::Opening { owner: "bob".into() }));
    let refused = beta.peer("alpha").spawn::<other::Account>("other", other::Opening { owner: 1 });
    assert_eq!(refused.await.unwrap_err().cause, RemoteSpawnCause::OtherArguments);
    end([alpha, beta]).await;
}
