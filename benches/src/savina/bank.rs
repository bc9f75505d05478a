//! Bank transaction: a teller has accounts transfer money. The account that pays asks the other one
//! to take it, and then tells the teller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Random;
use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then};

const ACCOUNTS: usize = 1000;
const TRANSFERS: u64 = 50_000;
const BALANCE: u64 = 1 << 40;

/// Transfers that are under way at once: fewer than a mailbox holds, so that a full mailbox never
/// makes the teller and an account wait for each other.
const IN_FLIGHT: u64 = 512;

struct Account<S: System> {
    balance: u64,
    teller: Option<S::Ref<Teller<S>>>,
}

enum Order<S: System> {
    WorkFor(S::Ref<Teller<S>>),
    Transfer { cents: u64, to: S::Ref<Account<S>> },
}

enum Question {
    Deposit(u64),
    Balance,
}

impl<S: System> Behavior for Account<S> {
    type Tell = Order<S>;
    type Question = Question;
    type Answer = u64;
    const WAITS: bool = true;

    async fn told(&mut self, order: Order<S>) -> Result<Then, Failure> {
        match order {
            Order::WorkFor(teller) => self.teller = Some(teller),
            Order::Transfer { cents, to } => {
                self.balance -= cents;
                S::ask(&to, Question::Deposit(cents)).await?;
                if let Some(teller) = &self.teller {
                    S::tell(teller, Report::Transferred).await?;
                }
            }
        }
        Ok(Then::Continue)
    }

    async fn asked(&mut self, question: Question) -> Result<u64, Failure> {
        if let Question::Deposit(cents) = question {
            self.balance += cents;
        }
        Ok(self.balance)
    }
}

struct Teller<S: System> {
    accounts: Arc<[S::Ref<Account<S>>]>,
    begun: u64,
    transferred: u64,
    random: Random,
    done: Countdown,
}

enum Report {
    Open,
    Transferred,
}

impl<S: System> Teller<S> {
    /// Begins a transfer, if that is not the last one already. Money goes to accounts of a higher
    /// number only: so no two accounts wait for each other.
    async fn begin(&mut self) -> Result<(), Failure> {
        if self.begun == TRANSFERS {
            return Ok(());
        }
        self.begun += 1;
        let from = self.random.below(ACCOUNTS - 1);
        let to = from + 1 + self.random.below(ACCOUNTS - 1 - from);
        let (cents, to) = (1 + self.random.below(1000) as u64, self.accounts[to].clone());
        S::tell(&self.accounts[from], Order::Transfer { cents, to }).await
    }
}

impl<S: System> Behavior for Teller<S> {
    type Tell = Report;
    type Question = ();
    type Answer = ();
    const WAITS: bool = true;

    async fn told(&mut self, report: Report) -> Result<Then, Failure> {
        match report {
            Report::Open => {
                for _ in 0..IN_FLIGHT {
                    self.begin().await?;
                }
            }
            Report::Transferred => {
                self.transferred += 1;
                self.begin().await?;
                if self.transferred == TRANSFERS {
                    self.done.add(self.transferred);
                    return Ok(Then::End);
                }
            }
        }
        Ok(Then::Continue)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

pub(crate) struct Bank<S: System> {
    system: S,
    accounts: Arc<[S::Ref<Account<S>>]>,
}

impl<S: System> Program<S> for Bank<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        let mut accounts = Vec::new();
        for _ in 0..ACCOUNTS {
            let account = Account { balance: BALANCE, teller: None };
            accounts.push(system.spawn(account).await?);
        }
        Ok(Bank { system: system.clone(), accounts: accounts.into() })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let (done, start) = (Countdown::from(1), Instant::now());
        let teller = Teller {
            accounts: self.accounts.clone(),
            begun: 0,
            transferred: 0,
            random: Random(0),
            done: done.clone(),
        };
        let teller = self.system.spawn(teller).await?;
        for account in &*self.accounts {
            S::tell(account, Order::WorkFor(teller.clone())).await?;
        }
        S::tell(&teller, Report::Open).await?;
        done.reaches(TRANSFERS).await?;
        let time = start.elapsed();
        let mut sum = 0;
        for account in &*self.accounts {
            sum += S::ask(account, Question::Balance).await?;
        }
        if sum == ACCOUNTS as u64 * BALANCE {
            return Ok(time);
        }
        Err(Failure::Failed(format!("{ACCOUNTS} accounts of {BALANCE} cents now have {sum}")))
    }
}
