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

fn main() {}
