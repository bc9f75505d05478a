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

fn main() {}
