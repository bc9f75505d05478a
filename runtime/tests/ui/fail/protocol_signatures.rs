//! What cannot be a protocol, or a method of one; every one is reported.
use ringpost::prelude::*;

#[message]
pub struct Deposit {
    pub cents: u64,
}

#[protocol]
pub trait Bank: Send {
    const LIMIT: u64;

    fn open(&self, account: String);

    async fn close(account: String);

    fn named(account: String) -> u64 {
        account.len() as u64
    }

    fn listed() -> impl Iterator<Item = u64>;

    fn borrowed(account: &str);

    fn deposit(msg: View<Deposit>);

    fn answered(account: String, reply: ReplyTo<u64>);

    #[handler(boxed)]
    fn large(page: [u8; 4096]);

    #[cfg(unix)]
    fn conditional();

    fn tell(account: String);

    fn bank() -> u64;
}

#[protocol]
pub trait Store<T> {
    fn get(key: T) -> T;
}

#[protocol(version = 2)]
pub struct Other;

fn main() {}
