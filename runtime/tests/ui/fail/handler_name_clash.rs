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

fn main() {}
