//! A camera allocates memory on the node that keeps pictures, writes a picture there, and hands the
//! memory over: the album has it from then on, and nobody else.
//!
//! `cargo run --example hand_over` prints:
//!
//! ```text
//! the album has a picture of 76800 bytes, whose mean is 100
//! the camera has no access any more
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::region::{HandedRegion, MemoryOffer, Region, RegionError};

const WIDTH: usize = 320;
const HEIGHT: usize = 240;

/// Keeps pictures: each is a region that another node has written.
#[actor]
#[derive(Default)]
struct Album {
    pictures: Vec<Region<u8>>,
}

#[handlers]
impl Album {
    /// Makes the memory its own, and returns the length and the mean of the picture.
    #[handler]
    async fn keep(
        &mut self,
        picture: HandedRegion<u8>,
        cx: &mut Context<Self>,
    ) -> Option<(u64, u64)> {
        let mut picture = picture.take(cx.node()).await.ok()?;
        // Where it lies, without a copy: nobody else reaches it.
        let bytes = picture.try_local_mut()?;
        bytes[..WIDTH].fill(100); // over the writing in the first line
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        let len = bytes.len() as u64;
        self.pictures.push(picture);
        Some((len, sum / len))
    }
}

async fn send(camera: &Node) -> Result<(), BoxError> {
    let album: ActorRef<Album> = camera.when_named("archive/album").await?;
    let picture = camera.peer("archive").region::<u8>(WIDTH * HEIGHT).await?;
    let mut writer = picture.remote().writer();
    writer.write(0, b"taken by the camera").await?;
    let mut lines = writer.draft(WIDTH * (HEIGHT - 1)).await?;
    lines.fill(100);
    writer.write_draft(WIDTH, lines).await?;
    writer.flush().await?; // the album finds all of it

    let left = picture.remote().clone();
    let kept = picture.hand_over(&album, |picture| Keep { picture }).await?;
    let (len, mean) = kept.ok_or("the album did not take it")?;
    println!("the album has a picture of {len} bytes, whose mean is {mean}");
    if left.get(0).await != Err(RegionError::Revoked) {
        return Err("the camera still has access".into());
    }
    println!("the camera has no access any more");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let archive = Node::builder("archive").listen("127.0.0.1:0").start().await?;
    archive.offer_memory(MemoryOffer { bytes_per_node: 1 << 20, bytes: 16 << 20 })?;
    archive.spawn("album", Album::default()).await?;
    let camera = Node::builder("camera").seeds(archive.addresses()).start().await?;
    let outcome = send(&camera).await;
    camera.shutdown(Duration::from_secs(5)).await;
    archive.shutdown(Duration::from_secs(5)).await;
    outcome
}
