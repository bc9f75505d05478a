//! The floors on blocking sockets, TCP and Unix, with one thread on each side.
//!
//! Asks in flight are a window: when half of it is answered, as many are written in one go. Tells
//! are collected in a buffer and written when it is full.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use ringpost_benches::Failure;
use ringpost_benches::child::Server;
use ringpost_benches::clock::{Alarm, WARM_UP};
use ringpost_benches::figure::{Measurement, Size, Work};
use ringpost_benches::pair::{Laps, Messages, SMALL};
use ringpost_benches::program::PairEntry;
use ringpost_benches::serve::{Meter, answer_commands};

use super::frame::{HEADER, Header, Kind};

/// Bytes that are read at once, and bytes of tells that are written at once.
const BUFFER: usize = 64 << 10;

/// Returns the contestant on blocking TCP.
pub(crate) fn tcp() -> PairEntry {
    PairEntry {
        name: "tcp",
        measure: |server, measurement, time| {
            let socket = TcpStream::connect(server.address())?;
            socket.set_nodelay(true)?;
            measure(Caller::new(socket.try_clone()?, socket), server, measurement, time)
        },
        serve: |_, _| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("listening {}", listener.local_addr()?);
            thread::spawn(move || {
                while let Ok((socket, _)) = listener.accept() {
                    let serving = socket.set_nodelay(true).and_then(|()| socket.try_clone());
                    report(serving.and_then(|reading| serve(reading, socket)));
                }
            });
            answer_commands()
        },
        drive: no_drive,
    }
}

/// Returns the contestant on a Unix socket.
pub(crate) fn unix() -> PairEntry {
    PairEntry {
        name: "unix",
        measure: |server, measurement, time| {
            let socket = UnixStream::connect(server.address())?;
            measure(Caller::new(socket.try_clone()?, socket), server, measurement, time)
        },
        serve: |_, _| {
            let path = SocketPath::new();
            let listener = UnixListener::bind(&path.0)?;
            println!("listening {}", path.0.display());
            thread::spawn(move || {
                while let Ok((socket, _)) = listener.accept() {
                    report(socket.try_clone().and_then(|reading| serve(reading, socket)));
                }
            });
            answer_commands()
        },
        drive: no_drive,
    }
}

/// The path of a socket, which is removed when this is dropped.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new() -> Self {
        let name = format!("ringpost-bench-{}.socket", std::process::id());
        SocketPath(std::env::temp_dir().join(name))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // A file that stays behind does no harm.
        drop(std::fs::remove_file(&self.0));
    }
}

fn no_drive(_: String, _: Messages, _: Meter) -> Result<(), Failure> {
    Err(Failure::Failed("the cost of a message is not counted for blocking sockets".into()))
}

fn report(served: io::Result<()>) {
    if let Err(error) = served {
        eprintln!("bench: the server's connection failed: {error}");
    }
}

/// Answers each frame after reading it. Writes the answers when no more bytes have arrived.
fn serve(reading: impl Read, mut writing: impl Write) -> io::Result<()> {
    let mut reading = BufReader::with_capacity(BUFFER, reading);
    let (mut payload, mut answers, mut handled) = (Vec::new(), Vec::new(), 0_u64);
    while let Some(header) = read(&mut reading, &mut payload)? {
        let number = header.number(handled);
        let answer = number.as_ref().map_or(payload.as_slice(), |number| number);
        if header.kind == Kind::Tell {
            handled += 1;
        } else {
            let header = Header { kind: Kind::Answer, id: header.id, payload: answer.len() };
            answers.extend_from_slice(&header.to_bytes());
            answers.extend_from_slice(answer);
        }
        if reading.buffer().is_empty() {
            writing.write_all(&answers)?;
            answers.clear();
        }
    }
    Ok(())
}

/// Reads a frame, its payload into `payload`. Returns `None` when the socket is closed.
fn read(reading: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Option<Header>> {
    let mut header = [0; HEADER];
    match reading.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let Some(header) = Header::read(&header)? else { return Ok(None) };
    payload.resize(header.payload, 0);
    reading.read_exact(payload)?;
    Ok(Some(header))
}

/// The calling side.
struct Caller<R, W> {
    reading: BufReader<R>,
    writing: W,
    waiting: Vec<u8>,
    answer: Vec<u8>,
}

impl<R: Read, W: Write> Caller<R, W> {
    fn new(reading: R, writing: W) -> Self {
        let reading = BufReader::with_capacity(BUFFER, reading);
        Caller { reading, writing, waiting: Vec::new(), answer: Vec::new() }
    }

    /// Adds a frame to the frames that wait for [`write`](Self::write).
    fn push(&mut self, kind: Kind, payload: &[u8]) {
        let header = Header { kind, id: 0, payload: payload.len() };
        self.waiting.extend_from_slice(&header.to_bytes());
        self.waiting.extend_from_slice(payload);
    }

    fn write(&mut self) -> io::Result<()> {
        self.writing.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    /// Waits for an answer.
    fn answer(&mut self) -> Result<&[u8], Failure> {
        match read(&mut self.reading, &mut self.answer)? {
            Some(_) => Ok(&self.answer),
            None => Err(Failure::Failed("the connection was closed".into())),
        }
    }

    fn call(&mut self, kind: Kind, payload: &[u8]) -> Result<&[u8], Failure> {
        self.push(kind, payload);
        self.write()?;
        self.answer()
    }

    fn tell(&mut self, payload: &[u8]) -> io::Result<()> {
        self.push(Kind::Tell, payload);
        if self.waiting.len() < BUFFER { Ok(()) } else { self.write() }
    }

    /// Tells for some time. Returns the number of tells, all of them handled.
    fn tell_for(&mut self, payload: &[u8], time: Duration) -> Result<u64, Failure> {
        let (alarm, mut sent) = (Alarm::after(time), 0);
        while !alarm.is_over() {
            self.tell(payload)?;
            sent += 1;
        }
        self.call(Kind::Handled, &[])?;
        Ok(sent)
    }

    /// Keeps `in_flight` asks in flight for some time. Returns the number of answers.
    fn ask_for(&mut self, in_flight: usize, time: Duration) -> Result<usize, Failure> {
        let (alarm, mut answered, mut open) = (Alarm::after(time), 0, 0);
        while !alarm.is_over() {
            for _ in open..in_flight {
                self.push(Kind::Echo, &SMALL);
            }
            self.write()?;
            for _ in 0..in_flight.div_ceil(2) {
                self.answer()?;
                answered += 1;
            }
            open = in_flight / 2;
        }
        for _ in 0..open {
            self.answer()?;
        }
        Ok(answered + open)
    }
}

fn measure<R: Read, W: Write>(
    mut caller: Caller<R, W>,
    mut server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let warm = time.mul_f64(WARM_UP);
    let payload = |size: Size| vec![7; size.bytes()];
    match measurement.work {
        Work::Ask(size) => ask(&mut caller, &payload(size), &mut server, time),
        Work::Asks(in_flight) => {
            caller.ask_for(in_flight, warm)?;
            let start = Instant::now();
            let answered = caller.ask_for(in_flight, time)?;
            Ok(vec![answered as f64 / start.elapsed().as_secs_f64()])
        }
        Work::Tells(size) | Work::LargeTell(size) => {
            let payload = payload(size);
            caller.tell_for(&payload, warm)?;
            let start = Instant::now();
            let rate = caller.tell_for(&payload, time)? as f64 / start.elapsed().as_secs_f64();
            let large = matches!(measurement.work, Work::LargeTell(_));
            Ok(vec![if large { rate * size.bytes() as f64 / 1e6 } else { rate }])
        }
        Work::LargeAsk(size) => {
            let (payload, start, mut asked) = (payload(size), Instant::now(), 0.0);
            while start.elapsed() < time {
                caller.call(Kind::Weigh, &payload)?;
                asked += 1.0;
            }
            Ok(vec![asked * size.bytes() as f64 / 1e6 / start.elapsed().as_secs_f64()])
        }
        _ => Err(Failure::Failed(format!("blocking sockets have no `{}`", measurement.name))),
    }
}

/// Asks, one ask after the other. Returns the median time, and the processor time of both processes
/// for each.
fn ask<R: Read, W: Write>(
    caller: &mut Caller<R, W>,
    payload: &[u8],
    server: &mut Server,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let warm = Instant::now();
    while warm.elapsed() < time.mul_f64(WARM_UP) {
        caller.call(Kind::Echo, payload)?;
    }
    let mut laps = Laps::start(server)?;
    while laps.elapsed() < time {
        caller.call(Kind::Echo, payload)?;
        laps.lap();
    }
    laps.values(server)
}
