//! Operations on many ranges of elements at once.

use std::ops::Range;

use bytemuck::Pod;
use futures::future::try_join_all;

use super::{READ_STEP_BYTES, RemoteRegion};
use crate::actor::{Accepts, ActorRef};
use crate::error::{RegionError, WriteAndTellError};
use crate::limits::REGION_RANGES_MAX;
use crate::message::Message;
use crate::region::range::{element_bytes, following};
use crate::remote::SharedMemory;
use crate::shared::RegionOperation;

impl<T: Pod> RemoteRegion<T> {
    /// Returns copies of the elements of each of these ranges, which are read concurrently: if they
    /// have 1 MiB or less in total, as many reads as have room are posted with one doorbell. There
    /// can be [`REGION_RANGES_MAX`] ranges.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and [`RegionError::TooManyRanges`]. If their total is more than
    /// 1 MiB, the error is of the first range that failed.
    ///
    /// # Cancel safety
    /// The future can be dropped.
    pub async fn read_many(&self, ranges: &[Range<usize>]) -> Result<Vec<Vec<T>>, RegionError> {
        let (memory, places, all) = self.find_many(ranges.iter().cloned())?;
        let wanted = ranges.iter().fold(0_usize, |sum, range| sum.saturating_add(range.len()));
        // For more, memory is allocated as the elements arrive.
        if wanted > READ_STEP_BYTES / element_bytes::<T>() {
            return try_join_all(ranges.iter().map(|range| self.read(range.clone()))).await;
        }
        let mut read: Vec<_> = ranges.iter().map(|range| vec![T::zeroed(); range.len()]).collect();
        let into = read.iter_mut().map(|it| bytemuck::cast_slice_mut(&mut it[..]));
        let mut parts: Vec<(u64, &mut [u8])> = places.into_iter().zip(into).collect();
        RegionOperation::Read.note();
        memory.read_many(&mut parts).await.map_err(|error| self.error(all, error))?;
        Ok(read)
    }

    /// Writes elements to several places, like one [`write`](Self::write): each part to the
    /// elements from its number on. All are written when this returns, and one wait makes sure of
    /// that. There can be [`REGION_RANGES_MAX`] parts.
    ///
    /// Readers can find some parts written before others, in any order.
    ///
    /// # Errors
    /// As for `write`, and [`RegionError::TooManyRanges`]. After
    /// [`Unknown`](RegionError::Unknown), some elements of some parts may be written, now or later;
    /// after all other errors, none is.
    ///
    /// # Cancel safety
    /// If the future is dropped, some of these elements may be written, now or later.
    pub async fn write_many(&self, parts: &[(usize, &[T])]) -> Result<(), RegionError> {
        let ranges = parts.iter().map(|(at, elements)| following(*at, elements.len()));
        let (memory, places, all) = self.find_many(ranges)?;
        let elements = parts.iter().map(|(_, elements)| bytemuck::cast_slice(elements));
        let parts: Vec<(u64, &[u8])> = places.into_iter().zip(elements).collect();
        RegionOperation::Write.note();
        memory.write_many(&parts).await.map_err(|error| self.error(all, error))
    }

    /// Writes elements to several places, as [`write_many`](Self::write_many) does, and then tells
    /// an actor on any node: when it handles the message, all parts are written.
    ///
    /// An actor that waits for the message is not told of an error. The error has the message:
    /// tell the actor another one then. An actor that waits for a writer of another node also
    /// [watches](crate::Context::watch) it.
    ///
    /// # Errors
    /// [`WriteAndTellError`], with the message. The actor was not told; after
    /// [`NotTold`](WriteAndTellError::NotTold) the elements are written: tell again, and do not
    /// write again.
    ///
    /// # Cancel safety
    /// If the future is dropped, the actor may not be told, and some of the elements may be
    /// written, now or later.
    pub async fn write_many_and_tell<A, M>(
        &self,
        parts: &[(usize, &[T])],
        actor: &ActorRef<A>,
        message: M,
    ) -> Result<(), WriteAndTellError<M>>
    where
        A: Accepts<M>,
        M: Message,
    {
        match self.write_many(parts).await {
            Ok(()) => actor.tell(message).await.map_err(WriteAndTellError::NotTold),
            Err(error) => Err(WriteAndTellError::NotWritten { error, message }),
        }
    }

    /// Returns the memory, the offsets in bytes at which the elements of these ranges begin, and
    /// the range from the first element of them to the last.
    ///
    /// # Errors
    /// [`RegionError::TooManyRanges`], [`RegionError::OutOfRange`] and [`RegionError::NoNetwork`].
    fn find_many(
        &self,
        ranges: impl ExactSizeIterator<Item = Range<usize>> + Clone,
    ) -> Result<(&SharedMemory, Vec<u64>, Range<usize>), RegionError> {
        if ranges.len() > REGION_RANGES_MAX {
            return Err(RegionError::TooManyRanges {
                ranges: ranges.len(),
                max: REGION_RANGES_MAX,
            });
        }
        let places = ranges.clone().map(|range| Ok(self.find(&range)?.1));
        let places = places.collect::<Result<_, RegionError>>()?;
        let start = ranges.clone().map(|range| range.start).min().unwrap_or(0);
        let all = start..ranges.map(|range| range.end).max().unwrap_or(0);
        Ok((self.find(&all)?.0, places, all))
    }
}
