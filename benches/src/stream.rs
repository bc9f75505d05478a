//! Byte streams between two processes, and their measurement.
//!
//! The first byte tells the server to give all bytes back, or to read them in lots. A lot is its
//! length in 8 bytes, and then its bytes; the server answers with the length when it has read the
//! lot. So the bytes that count have arrived.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::child::Server;
use crate::clock::WARM_UP;
use crate::failure::Failure;
use crate::figure::{Measurement, Work};
use crate::pair::Laps;

/// The first byte of a stream whose server gives all bytes back.
pub const ECHO: u8 = b'e';

/// The first byte of a stream whose server reads lots.
pub const LOTS: u8 = b'l';

/// Bytes that a server reads at once.
const READ: usize = 64 << 10;

/// Bytes that go there and back.
const PING: usize = 64;

/// A contestant that has byte streams.
pub trait Streams: 'static {
    /// One end of a stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Opens a stream to a server.
    fn open(address: String) -> impl Future<Output = Result<Self::Stream, Failure>> + Send;
}

/// Serves one stream until its peer ends it.
///
/// # Errors
/// When the stream fails.
pub async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; READ];
    if stream.read_u8().await? == ECHO {
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                length => stream.write_all(&buffer[..length]).await?,
            }
        }
    }
    loop {
        let lot = match stream.read_u64().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            lot => lot?,
        };
        let mut left = lot;
        while left > 0 {
            let most = READ.min(usize::try_from(left).unwrap_or(READ));
            match stream.read(&mut buffer[..most]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => left -= length as u64,
            }
        }
        stream.write_u64(lot).await?;
    }
}

/// Measures a contestant and returns the values of the measurement's figures.
///
/// # Errors
/// When the contestant fails.
pub async fn measure<S: Streams>(
    mut server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let mut stream = S::open(server.address().into()).await?;
    match measurement.work {
        Work::StreamPing => ping(&mut stream, &mut server, time).await,
        Work::Stream(size) => rate(&mut stream, &vec![7; size.bytes()], time).await,
        _ => Err(Failure::Failed(format!("`{}` is not of streams", measurement.name))),
    }
}

/// Sends bytes there and back, again and again. Returns the median time, and the processor time of
/// both processes for each.
async fn ping(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut Server,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    stream.write_u8(ECHO).await?;
    let mut bytes = [7; PING];
    let start = Instant::now();
    while start.elapsed() < time.mul_f64(WARM_UP) {
        there_and_back(stream, &mut bytes).await?;
    }
    let mut laps = Laps::start(server)?;
    while laps.elapsed() < time {
        there_and_back(stream, &mut bytes).await?;
        laps.lap();
    }
    laps.values(server)
}

async fn there_and_back(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bytes: &mut [u8],
) -> Result<(), Failure> {
    stream.write_all(bytes).await?;
    stream.read_exact(bytes).await?;
    Ok(())
}

/// Writes lots by writes of these bytes. Lots double until the last one has taken the time of a
/// warm-up; then a lot that takes about `time` is measured. Returns its megabytes per second.
async fn rate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bytes: &[u8],
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    stream.write_u8(LOTS).await?;
    let (mut writes, mut took) = (1, lot(stream, bytes, 1).await?);
    while took < time.mul_f64(WARM_UP) {
        writes *= 2;
        took = lot(stream, bytes, writes).await?;
    }
    writes = (writes as f64 * time.as_secs_f64() / took.as_secs_f64()).ceil() as u64;
    took = lot(stream, bytes, writes).await?;
    Ok(vec![writes as f64 * bytes.len() as f64 / took.as_secs_f64() / 1e6])
}

/// Writes a lot of `writes` writes. Returns the time until the server has read it.
async fn lot(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bytes: &[u8],
    writes: u64,
) -> Result<Duration, Failure> {
    let length = writes * bytes.len() as u64;
    let start = Instant::now();
    stream.write_u64(length).await?;
    for _ in 0..writes {
        stream.write_all(bytes).await?;
    }
    let read = stream.read_u64().await?;
    let right = read == length;
    right.then(|| start.elapsed()).ok_or_else(|| Failure::Failed("bytes were lost".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_gives_bytes_back_or_answers_when_it_has_read_a_lot() {
        let (mut near, far) = tokio::io::duplex(100);
        let served = tokio::spawn(serve(far));
        near.write_u8(ECHO).await.unwrap();
        near.write_all(b"there").await.unwrap();
        let mut back = [0; 5];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"there");
        drop(near);
        served.await.unwrap().unwrap();

        let (mut near, far) = tokio::io::duplex(100);
        let served = tokio::spawn(serve(far));
        near.write_u8(LOTS).await.unwrap();
        lot(&mut near, &[7; 1000], 3).await.unwrap();
        lot(&mut near, &[7; 1], 1).await.unwrap();
        drop(near);
        served.await.unwrap().unwrap();
    }
}
