//! Spans of messages between nodes that know different versions of them.

use ringpost::group::{Group, Told};
use ringpost::send::Fate;

use super::*;
use crate::remote::{end, pair};

/// The build that knows the first version.
mod old {
    use super::*;

    #[message(name = "versions.Pay")]
    #[derive(Debug, PartialEq)]
    pub struct Pay {
        pub cents: Vec<u64>,
    }

    #[message(name = "versions.Receipt")]
    #[derive(Debug, PartialEq)]
    pub struct Receipt {
        pub payments: u64,
    }

    #[actor(name = "versions.Till")]
    #[derive(Default)]
    pub struct Till {
        pub payments: u64,
    }

    #[handlers]
    impl Till {
        #[handler]
        pub fn pay(&mut self, msg: Pay) -> Receipt {
            self.payments += msg.cents.iter().sum::<u64>();
            Receipt { payments: self.payments }
        }
    }
}

/// The build that knows more.
mod new {
    use super::*;

    #[message(name = "versions.Pay", version = 2)]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Pay {
        pub cents: Vec<u64>,
        #[message(since = 2, default = 100)]
        pub percent: u64,
    }

    #[message(name = "versions.Receipt", version = 2)]
    #[derive(Debug, PartialEq)]
    pub struct Receipt {
        pub payments: u64,
        #[message(since = 2)]
        pub text: String,
    }

    #[actor(name = "versions.Till")]
    #[derive(Default)]
    pub struct Till {
        pub payments: u64,
    }

    #[handlers]
    impl Till {
        #[handler]
        pub fn pay(&mut self, msg: View<Pay>) -> Receipt {
            let cents = msg.cents.iter().map(|cents| cents.to_native()).sum::<u64>();
            self.payments += cents * msg.percent.to_native() / 100;
            Receipt { payments: self.payments, text: "paid".into() }
        }
    }
}

/// Numbers of a message that is so large that it goes in pieces.
const MANY: usize = 400_000;

/// Each way of sending to `alpha/till` from beta, drawn.
fn ways(asks: usize, tells: usize) -> String {
    let way = |kind| {
        format!(
            "  send versions.Pay to alpha/till on beta ({kind})\n    \
             handle versions.Pay by alpha/till on alpha ({kind})\n"
        )
    };
    format!("ways\n{}{}", way("ask").repeat(asks), way("tell").repeat(tells))
}

#[tokio::test]
async fn what_an_old_node_sends_a_new_one_is_handled_below_what_sent_it() {
    let (alpha, beta) = pair().await;
    let till = alpha.spawn("till", new::Till::default()).await.unwrap();
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let there = beta.actor::<old::Till>("alpha/till").await.unwrap();
    let pay = |cents: usize| old::Pay { cents: vec![1; cents] };
    let sent = async {
        there.tell(pay(1)).await.unwrap();
        there.tell(pay(MANY)).await.unwrap();
        assert_eq!(there.tell(pay(2)).confirmed().await, Ok(Fate::Delivered));
        there.try_tell(pay(3)).unwrap();
        there.reserve().await.unwrap().tell(pay(4)).unwrap();
        let asked = there.ask(pay(5)).await;
        assert_eq!(asked, Ok(old::Receipt { payments: MANY as u64 + 15 }));
    };
    sent.instrument(info_span!(target: "app", "ways")).await;
    assert_eq!(spans.draw_by_text(), ways(1, 5));
    assert_eq!(spans.traces().len(), 6);
    drop(till);
    end([alpha, beta]).await;
}

/// Its archives have the earlier form, and are written again where they had to wait.
#[tokio::test]
async fn what_a_new_node_sends_an_old_one_is_handled_below_what_sent_it() {
    let (alpha, beta) = pair().await;
    let till = alpha.spawn("till", old::Till::default()).await.unwrap();
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let there = beta.actor::<new::Till>("alpha/till").await.unwrap();
    let pay = |cents: usize| new::Pay { cents: vec![1; cents], percent: 100 };
    let sent = async {
        there.tell(pay(1)).await.unwrap();
        // Together they are more than there is room for.
        let large = || async { there.tell(pay(MANY)).await.unwrap() };
        tokio::join!(large(), large(), large(), large(), large(), large(), large(), large());
        assert_eq!(there.tell(pay(2)).confirmed().await, Ok(Fate::Delivered));
        there.try_tell(pay(3)).unwrap();
        there.reserve().await.unwrap().tell(pay(4)).unwrap();
        let asked = there.ask(pay(5)).await;
        let payments = 8 * MANY as u64 + 15;
        assert_eq!(asked, Ok(new::Receipt { payments, text: String::new() }));
    };
    sent.instrument(info_span!(target: "app", "ways")).await;
    assert_eq!(spans.draw_by_text(), ways(1, 12));
    assert_eq!(spans.traces().len(), 13);
    drop(till);
    end([alpha, beta]).await;
}

/// Of a group, which archives a message once in each form.
#[tokio::test]
async fn members_of_either_build_are_told_below_what_sent_it_to_the_group() {
    let (alpha, beta) = pair().await;
    let group: ActorRef<Group<new::Pay>> = beta.spawn("tills", Group::new()).await.unwrap();
    alpha.spawn("old", old::Till::default()).await.unwrap();
    alpha.spawn("new", new::Till::default()).await.unwrap();
    for path in ["alpha/old", "alpha/new"] {
        let member: Recipient<new::Pay> = beta.recipient(path).await.unwrap();
        group.join(member).await.unwrap().unwrap();
    }
    let there: ActorRef<Group<new::Pay>> = alpha.actor("beta/tills").await.unwrap();
    let spans = Spans::default();
    let _here = spans.listen(LevelFilter::TRACE);
    let asked = async { there.ask(new::Pay { cents: vec![2], percent: 50 }).await };
    let told = asked.instrument(info_span!(target: "app", "ways")).await;
    assert_eq!(told, Ok(Told { told: 2, missed: vec![] }));
    spans.handled(3).await;
    let expected = "\
ways
  send versions.Pay to beta/tills on alpha (ask)
    handle versions.Pay by beta/tills on beta (ask)
      send versions.Pay to alpha/new on beta (tell)
        handle versions.Pay by alpha/new on alpha (tell)
      send versions.Pay to alpha/old on beta (tell)
        handle versions.Pay by alpha/old on alpha (tell)
";
    assert_eq!(spans.draw_by_text(), expected);
    assert_eq!(spans.traces().len(), 1);
    end([alpha, beta]).await;
}
