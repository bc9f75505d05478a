//! A ring buffer on the consumer's node: the producer writes records to it from afar and tells the
//! consumer which ones are there; the consumer takes them where they lie, and says how far it is.
//!
//! `cargo run --example ring` prints:
//!
//! ```text
//! 1000 records of 100 bytes went through a ring of 16
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::region::{Access, Region, RemoteRegion};

const PLACES: u64 = 16;
const RECORDS: u64 = 1_000;

type Record = [u8; 100];

/// Takes records in their order.
#[actor]
struct Consumer {
    ring: Region<Record>,
    taken: u64,
    producer: Option<ActorRef<Producer>>,
}

#[handlers]
impl Consumer {
    #[handler]
    fn open(&mut self, producer: ActorRef<Producer>) -> Result<RemoteRegion<Record>, String> {
        self.producer = Some(producer);
        self.ring.share(Access::WRITE).map_err(|error| error.to_string())
    }

    /// The record of this number is there.
    #[handler]
    async fn written(&mut self, number: u64) -> Result<(), String> {
        let place = (number % PLACES) as usize;
        let records = self.ring.read(place..place + 1).map_err(|error| error.to_string())?;
        assert_eq!(records, [[number as u8; 100]], "whole, and in order");
        self.taken += 1;
        let producer = self.producer.as_ref().ok_or("it was not opened")?;
        producer.tell(Taken { number }).await.map_err(|error| error.to_string())
    }

    #[handler]
    fn count(&self) -> u64 {
        self.taken
    }
}

/// Writes a record wherever there is a place.
#[actor]
struct Producer {
    ring: Option<(RemoteRegion<Record>, ActorRef<Consumer>)>,
    written: u64,
    taken: u64,
}

#[handlers]
impl Producer {
    #[handler]
    async fn start(
        &mut self,
        ring: RemoteRegion<Record>,
        consumer: ActorRef<Consumer>,
    ) -> Result<(), String> {
        self.ring = Some((ring, consumer));
        self.fill().await.map_err(|error| error.to_string())
    }

    /// The consumer is done with the record of this number.
    #[handler]
    async fn taken(&mut self, number: u64) -> Result<(), String> {
        self.taken = number + 1;
        self.fill().await.map_err(|error| error.to_string())
    }
}

impl Producer {
    async fn fill(&mut self) -> Result<(), BoxError> {
        let (ring, consumer) = self.ring.as_ref().ok_or("it has no ring")?;
        while self.written < (self.taken + PLACES).min(RECORDS) {
            let number = self.written;
            let (place, record) = ((number % PLACES) as usize, [number as u8; 100]);
            ring.write_and_tell(place, &[record], consumer, Written { number }).await?;
            self.written += 1;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let there = Node::builder("there").listen("127.0.0.1:0").start().await?;
    let here = Node::builder("here").listen("127.0.0.1:0").seeds(there.addresses()).start().await?;
    let ring = there.region(PLACES as usize)?;
    there.spawn("consumer", Consumer { ring, taken: 0, producer: None }).await?;
    let producer = Producer { ring: None, written: 0, taken: 0 };
    let producer = here.spawn("producer", producer).await?;
    let consumer = here.when_named::<Consumer>("there/consumer").await?;

    let ring = consumer.open(producer.clone()).await??;
    producer.start(ring, consumer.clone()).await??;
    while consumer.count().await? < RECORDS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{RECORDS} records of 100 bytes went through a ring of {PLACES}");

    here.shutdown(Duration::from_secs(5)).await;
    there.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
