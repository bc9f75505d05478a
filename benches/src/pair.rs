//! Messages between two processes: the traits of a contestant, and its measurement.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::beside::{Askers, sum};
use crate::child::Server;
use crate::clock::{Alarm, Phase, PhaseReader, Phases, WARM_UP, median_us, process_cpu};
use crate::failure::Failure;
use crate::figure::{Beside, CostOf, Measurement, Size, Work};
use crate::path::Path;

/// The bytes of a small message.
pub type Small = [u8; 32];

/// The content of every small message.
pub const SMALL: Small = [7; 32];

/// A contestant between two processes.
pub trait Pair: 'static {
    /// The side that the measuring process sends with.
    type Client: Client;
    /// A value that keeps the serving side alive.
    type Server;

    /// Listens on a free port of loopback; returns the address, which has no line break.
    fn serve() -> impl Future<Output = Result<(String, Self::Server), Failure>>;

    /// Connects to a server. Returns when messages can be sent.
    fn connect(address: String) -> impl Future<Output = Result<Self::Client, Failure>> + Send;
}

/// The sending side of a contestant. Each tell and ask reaches one handler on the other side, or
/// for a floor its read loop.
pub trait Client: Clone + Send + Sync + 'static {
    /// The number of tells of a task after which a barrier is due. Only a contestant that would
    /// otherwise take messages without a bound, and grow, has one.
    const BARRIER_EVERY: Option<u64> = None;

    /// Asks with 32 bytes and returns the same bytes as they came back. A contestant that has no
    /// better way for few bytes sends them as a vector.
    fn echo_small(&self, payload: Small) -> impl Future<Output = Result<Small, Failure>> + Send {
        async move {
            let answer = self.echo(payload.to_vec()).await?;
            answer[..].try_into().map_err(Failure::of)
        }
    }

    /// Asks with any number of bytes and returns the same bytes as they came back.
    fn echo(&self, payload: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;

    /// Asks with any number of bytes and returns how many have arrived.
    fn weigh(&self, payload: Vec<u8>) -> impl Future<Output = Result<u64, Failure>> + Send {
        let _ = payload;
        async { not_sent() }
    }

    /// Tells 32 bytes, as a vector where a contestant has no better way for few bytes.
    fn tell_small(&self, payload: Small) -> impl Future<Output = Result<(), Failure>> + Send {
        self.tell(payload.to_vec())
    }

    /// Tells any number of bytes.
    fn tell(&self, payload: Vec<u8>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = payload;
        async { not_sent() }
    }

    /// Returns a client whose asks reach the server's actor with this number. A floor, which has no
    /// actors, answers all of them in its read loop.
    fn apart(&self, number: usize) -> impl Future<Output = Result<Self, Failure>> + Send {
        let _ = number;
        async { Ok(self.clone()) }
    }

    /// Returns the number of tells that have been handled since the server started.
    fn handled(&self) -> impl Future<Output = Result<u64, Failure>> + Send {
        async { not_sent() }
    }
}

/// Returns the failure of a contestant that has no such message, and so no figure of it.
fn not_sent<T>() -> Result<T, Failure> {
    Err(Failure::Failed("this contestant has no such message".into()))
}

/// Longest time from the last tell sent to the last tell handled.
const BARRIER_PATIENCE: Duration = Duration::from_secs(30);

/// The bytes of tells after which a barrier is due at the latest, where a contestant has barriers.
const BARRIER_BYTES: usize = 64 << 20;

/// Measures a contestant and returns the values of the measurement's figures.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn measure<P: Pair>(
    mut server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let path = match measurement.work {
        Work::Path(_) => Some(Path::start(server.address())?),
        _ => None,
    };
    let address = path.as_ref().map_or(server.address(), Path::address);
    let client = P::connect(address.into()).await?;
    measure_client(&client, &mut server, measurement, time).await
}

/// Measures a contestant by a client of it, and returns the values of the measurement's figures.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn measure_client<C: Client>(
    client: &C,
    server: &mut Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    match measurement.work {
        Work::Ask(size) => ask(client, &Question::echo(size), server, time).await,
        Work::Asks(tasks) => asks(vec![client.clone(); tasks], time).await,
        Work::Spread(tasks) => {
            let mut clients = Vec::new();
            for number in 0..tasks {
                clients.push(client.apart(number).await?);
            }
            asks(clients, time).await
        }
        Work::Tells(size) => Ok(vec![tells(client, Some(size), 1, time).await?]),
        Work::Waiting(tasks) => Ok(vec![tells(client, None, tasks, time).await?]),
        Work::Bulk(beside) => bulk(client, beside, time).await,
        Work::LargeTell(size) | Work::Path(size) => {
            let per_second = tells(client, Some(size), 1, time).await?;
            Ok(vec![megabytes(per_second, size)])
        }
        Work::LargeAsk(size) => large_asks(client, size, time).await,
        _ => Err(Failure::Failed(format!("`{}` is not between two processes", measurement.name))),
    }
}

/// Connects to a server and sends the first message, which may cost more than the others.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn connect_to_drive<P: Pair>(address: String) -> Result<P::Client, Failure> {
    let client = P::connect(address).await?;
    client.tell_small(SMALL).await?;
    client.handled().await?;
    Ok(client)
}

/// Small messages to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// The kind of each of them.
    pub message: CostOf,
    /// How many there are.
    pub count: u64,
    /// Number of tasks that send them, each its share and each one after the other.
    pub tasks: u64,
}

/// Sends messages with a client that [`connect_to_drive`] returned; returns when the last one has
/// been handled.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn drive<C: Client>(client: &C, messages: Messages) -> Result<(), Failure> {
    async fn one<C: Client>(client: C, message: CostOf, count: u64) -> Result<u64, Failure> {
        for _ in 0..count {
            match message {
                CostOf::Tell => client.tell_small(SMALL).await?,
                CostOf::Ask => drop(client.echo_small(SMALL).await?),
            }
        }
        Ok(count)
    }
    let Messages { message, count, tasks } = messages;
    let sent = if tasks == 1 {
        one(client.clone(), message, count).await?
    } else {
        let mut set = JoinSet::new();
        for _ in 0..tasks {
            set.spawn(one(client.clone(), message, count / tasks));
        }
        sum(&mut set).await?
    };
    match message {
        CostOf::Tell => barrier(sent + 1, || client.handled()).await,
        CostOf::Ask => Ok(()),
    }
}

fn payload(size: Size) -> Vec<u8> {
    vec![7; size.bytes()]
}

fn megabytes(per_second: f64, size: Size) -> f64 {
    per_second * size.bytes() as f64 / 1e6
}

/// The ask that a measurement repeats.
enum Question {
    Small,
    Echo(Vec<u8>),
    Weigh(Vec<u8>),
}

impl Question {
    fn echo(size: Size) -> Self {
        if size == Size::B32 { Question::Small } else { Question::Echo(payload(size)) }
    }

    /// Asks once and checks the answer.
    async fn ask<C: Client>(&self, client: &C) -> Result<(), Failure> {
        let right = match self {
            Question::Small => client.echo_small(SMALL).await? == SMALL,
            Question::Echo(payload) => client.echo(payload.clone()).await?.len() == payload.len(),
            Question::Weigh(payload) => {
                client.weigh(payload.clone()).await? == payload.len() as u64
            }
        };
        right.then_some(()).ok_or_else(|| Failure::Failed("an answer is wrong".into()))
    }

    /// Asks for a while before anything counts.
    async fn warm_up<C: Client>(&self, client: &C, time: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < time.mul_f64(WARM_UP) {
            self.ask(client).await?;
        }
        Ok(())
    }
}

/// Asks, one ask after the other. Returns the median time, and the processor time of both processes
/// for each.
async fn ask<C: Client>(
    client: &C,
    question: &Question,
    server: &mut Server,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    question.warm_up(client, time).await?;
    let mut laps = Laps::start(server)?;
    while laps.elapsed() < time {
        question.ask(client).await?;
        laps.lap();
    }
    laps.values(server)
}

/// The times of asks that follow each other without a pause, and the processor time that both
/// processes use meanwhile.
#[derive(Debug)]
pub struct Laps {
    cpu: Duration,
    start: Instant,
    last: Instant,
    times: Vec<Duration>,
}

impl Laps {
    /// Starts the first lap.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn start(server: &mut Server) -> Result<Self, Failure> {
        let cpu = server.usage()?.cpu + process_cpu();
        let start = Instant::now();
        Ok(Laps { cpu, start, last: start, times: Vec::new() })
    }

    /// Returns the time from the start to the end of the last lap.
    pub fn elapsed(&self) -> Duration {
        self.last - self.start
    }

    /// Ends a lap, which starts the next one.
    pub fn lap(&mut self) {
        let now = Instant::now();
        self.times.push(now - self.last);
        self.last = now;
    }

    /// Returns the median time of a lap, and the mean processor time of both processes for each
    /// lap, in microseconds.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn values(mut self, server: &mut Server) -> Result<Vec<f64>, Failure> {
        let used = (server.usage()?.cpu + process_cpu()).saturating_sub(self.cpu);
        let each = used.as_secs_f64() * 1e6 / self.times.len() as f64;
        Ok(vec![median_us(&mut self.times), each])
    }
}

/// Asks by a task for each client, with one ask on its way. Returns the answers per second.
async fn asks<C: Client>(clients: Vec<C>, time: Duration) -> Result<Vec<f64>, Failure> {
    async fn one<C: Client>(client: C, phases: PhaseReader) -> Result<u64, Failure> {
        let mut answers = 0;
        loop {
            client.echo_small(SMALL).await?;
            match phases.now() {
                Phase::WarmUp => {}
                Phase::Count => answers += 1,
                Phase::Over => return Ok(answers),
            }
        }
    }
    let phases = Phases::start(time);
    let mut set = JoinSet::new();
    for client in clients {
        set.spawn(one(client, phases.reader()));
    }
    let answers = sum(&mut set).await?;
    Ok(vec![answers as f64 / phases.counted().as_secs_f64()])
}

/// Tells by `tasks` tasks, with messages of this size or else small ones. Returns the handled tells
/// per second, from the first one sent to the last one handled.
async fn tells<C: Client>(
    client: &C,
    size: Option<Size>,
    tasks: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let payload = size.filter(|size| *size != Size::B32).map(payload);
    let warm = tell_for(client, payload.clone(), tasks, time.mul_f64(WARM_UP)).await?;
    barrier(warm, || client.handled()).await?;
    let start = Instant::now();
    let sent = tell_for(client, payload, tasks, time).await?;
    barrier(warm + sent, || client.handled()).await?;
    Ok(sent as f64 / start.elapsed().as_secs_f64())
}

/// Tells 1 MiB by one task, beside asks or not. Returns the handled tells per second, and the
/// answers per second where there are asks.
async fn bulk<C: Client>(client: &C, beside: Beside, time: Duration) -> Result<Vec<f64>, Failure> {
    const ASK_BYTES: usize = 100 << 10;
    let askers = (beside == Beside::Asks).then(|| {
        let client = client.clone();
        Askers::start(move || {
            let client = client.clone();
            async move { client.weigh(vec![7; ASK_BYTES]).await.map(drop) }
        })
    });
    let mut values = vec![tells(client, Some(Size::MiB1), 1, time).await?];
    if let Some(askers) = askers {
        values.push(askers.stop().await?);
    }
    Ok(values)
}

/// Tells by `tasks` tasks for some time. Returns the number of tells that they sent.
async fn tell_for<C: Client>(
    client: &C,
    payload: Option<Vec<u8>>,
    tasks: usize,
    time: Duration,
) -> Result<u64, Failure> {
    async fn one<C: Client>(
        client: C,
        payload: Option<Vec<u8>>,
        alarm: Alarm,
    ) -> Result<u64, Failure> {
        let bytes = payload.as_ref().map_or(SMALL.len(), Vec::len);
        let every = C::BARRIER_EVERY.map(|every| every.min((BARRIER_BYTES / bytes).max(1) as u64));
        let mut sent = 0;
        while !alarm.is_over() {
            match &payload {
                Some(payload) => client.tell(payload.clone()).await?,
                None => client.tell_small(SMALL).await?,
            }
            sent += 1;
            if every.is_some_and(|every| sent % every == 0) {
                client.handled().await?;
            }
        }
        Ok(sent)
    }
    let alarm = Alarm::after(time);
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        set.spawn(one(client.clone(), payload.clone(), alarm.clone()));
    }
    sum(&mut set).await
}

/// Returns when `handled` reports at least `tells` tells in all. Calls it repeatedly, because some
/// contestants let an ask overtake tells.
pub(crate) async fn barrier<F>(tells: u64, handled: impl Fn() -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<u64, Failure>>,
{
    let mut done = 0;
    let reached = async {
        while done < tells {
            done = handled().await?;
        }
        Ok(())
    };
    match timeout(BARRIER_PATIENCE, reached).await {
        Ok(reached) => reached,
        Err(_) => Err(Failure::Failed(format!("{done} of {tells} tells were handled"))),
    }
}

/// Asks with a large message, one ask after the other. Returns the megabytes per second.
async fn large_asks<C: Client>(
    client: &C,
    size: Size,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let question = Question::Weigh(payload(size));
    question.warm_up(client, time).await?;
    let (mut answers, start) = (0, Instant::now());
    while start.elapsed() < time {
        question.ask(client).await?;
        answers += 1;
    }
    Ok(vec![megabytes(f64::from(answers) / start.elapsed().as_secs_f64(), size)])
}
