//! Fields that a message gained stand at its end, each with the version that gained it.

use ringpost::prelude::*;

#[message]
struct NoVersion {
    cents: u64,
    #[message(default = 3)]
    memo: u64,
}

#[message(version = 1)]
struct Behind {
    cents: u64,
    #[message(since = 2)]
    memo: String,
}

#[message(version = 2)]
struct InTheMiddle {
    cents: u64,
    #[message(since = 2)]
    memo: String,
    account: String,
}

#[message(version = 3)]
struct OtherMeaning {
    cents: u64,
    #[message(since = 2)]
    memo: String,
}

#[message]
enum Choice {
    Deposit {
        cents: u64,
        #[message(since = 2)]
        memo: String,
    },
}

#[message(local)]
struct Here {
    cents: u64,
    #[message(since = 2)]
    memo: String,
}

#[message]
struct Generic<T> {
    what: T,
    #[message(since = 2)]
    memo: String,
}

#[message]
struct Tree {
    children: Vec<Tree>,
    #[message(since = 2)]
    memo: String,
}

fn main() {}
