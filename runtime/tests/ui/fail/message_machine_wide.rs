//! Types as wide as their machine, once for each place: in fields, parameters and returned types,
//! and under another name. What stays on its node, and what is opaque, may have them, but for those
//! that are never zero.
use ringpost::Local;
use ringpost::prelude::*;

type Count = usize;

#[message]
pub struct Page {
    pub at: usize,
    pub ranges: Vec<(std::ops::Range<usize>, isize)>,
    pub first: Option<std::num::NonZeroUsize>,
    pub count: Count,
    #[message(opaque)]
    pub trusted: usize,
    #[message(opaque)]
    pub never_zero: std::num::NonZeroUsize,
}

#[message(local)]
pub struct Bookmark {
    pub at: usize,
}

#[actor]
pub struct Reader {
    pages: Vec<Page>,
}

#[handlers]
impl Reader {
    #[handler]
    pub fn read(&mut self, at: usize, cents: u64) -> Option<u64> {
        self.pages.get(at).map(|_| cents)
    }

    #[handler]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    #[handler]
    pub fn later(&self, reply: ReplyTo<Vec<isize>>) {
        reply.send(Vec::new());
    }

    #[handler]
    pub fn many(&self) -> Count {
        0
    }

    #[handler(local)]
    pub fn near(&self, at: usize) -> Local<usize> {
        Local(at)
    }

    #[handler]
    pub fn trusted(&self, #[message(opaque)] at: usize) -> bool {
        at == 0
    }
}

#[protocol]
pub trait Reads {
    fn read_on(at: usize) -> Option<usize>;
}

pub async fn go(reader: ActorRef<Reader>) -> Result<u64, AskError> {
    let pages: u64 = reader.pages().await?;
    reader.read(pages, 3).await?;
    Ok(pages)
}

fn main() {}
