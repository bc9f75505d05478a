//! Collective operations on typed values, which cross as archives.

use futures::future::try_join;

use super::barrier::meet;
use super::{all_gather, all_to_all, broadcast, gather, scatter};
use crate::call::Call;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::value::{self, Value};
use crate::world::World;

/// Returns the archive of each value.
fn archives<V: Value>(values: &[V]) -> Result<Vec<Vec<u8>>, WorldError> {
    values.iter().map(|value| Ok(value::write(value)?.to_vec())).collect()
}

/// Returns the value of each archive.
fn values<V: Value>(archives: &[Vec<u8>]) -> Result<Vec<V>, WorldError> {
    archives.iter().map(|archive| value::read_unaligned(archive)).collect()
}

/// # Collective operations on values
///
/// As those on elements, on values such as a `#[message]`.
impl World {
    /// Sends the value of the root to all ranks. Only the root gives it: binomial tree.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast); [`Archive`](WorldError::Archive), and
    /// [`WrongLength`](WorldError::WrongLength) when the root gives none.
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn broadcast_value<V: Value>(
        &self,
        root: usize,
        value: Option<V>,
    ) -> impl Future<Output = Result<V, WorldError>> + Send + use<V> {
        let call = Call::begin(self, Head::new("broadcast", root, Element::value::<V>(), 0));
        async move {
            let sent = async {
                call.check_rank(root)?;
                let bytes = match value.filter(|_| call.rank() == root) {
                    Some(value) => value::write(&value)?.to_vec(),
                    None if call.rank() == root => {
                        let what = "the value of the root";
                        return Err(WorldError::WrongLength { what, found: 0, needed: 1 });
                    }
                    None => Vec::new(),
                };
                value::read_unaligned(&broadcast::binomial_bytes(&call, root, bytes).await?)
            };
            let done = try_join(meet(&call), sent).await;
            call.end(done.map(|(_, value)| value))
        }
    }

    /// Gives each rank its value of the root's, which gives one for each rank.
    ///
    /// # Errors
    /// As [`scatterv`](Self::scatterv), and [`Archive`](WorldError::Archive).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn scatter_values<'a, V: Value + Sync>(
        &self,
        root: usize,
        all: Option<&'a [V]>,
    ) -> impl Future<Output = Result<V, WorldError>> + Send + use<'a, V> {
        let call = Call::begin(self, Head::new("scatterv", root, Element::value::<V>(), 0));
        async move {
            let sent = async {
                let all = all.map(archives).transpose()?;
                value::read_unaligned(&scatter::varying(&call, root, all.as_deref()).await?)
            };
            let done = try_join(meet(&call), sent).await;
            call.end(done.map(|(_, value)| value))
        }
    }

    /// Returns the values of all ranks at the root, and `None` at the others.
    ///
    /// # Errors
    /// As [`gatherv`](Self::gatherv), and [`Archive`](WorldError::Archive).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn gather_values<'a, V: Value + Sync>(
        &self,
        root: usize,
        mine: &'a V,
    ) -> impl Future<Output = Result<Option<Vec<V>>, WorldError>> + Send + use<'a, V> {
        let call = Call::begin(self, Head::new("gatherv", root, Element::value::<V>(), 0));
        async move {
            let sent = async {
                let mine = value::write(mine)?;
                let all = gather::varying(&call, root, &mine).await?;
                all.as_deref().map(values).transpose()
            };
            let done = try_join(meet(&call), sent).await;
            call.end(done.map(|(_, all)| all))
        }
    }

    /// Returns the values of all ranks.
    ///
    /// # Errors
    /// As [`all_gatherv`](Self::all_gatherv), and [`Archive`](WorldError::Archive).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_gather_values<'a, V: Value + Sync>(
        &self,
        mine: &'a V,
    ) -> impl Future<Output = Result<Vec<V>, WorldError>> + Send + use<'a, V> {
        let call = Call::begin(self, Head::new("all_gatherv", 0, Element::value::<V>(), 0));
        async move {
            let gathered = all_values(&call, mine).await;
            call.end(gathered)
        }
    }

    /// Sends each rank its value, and returns those for this rank.
    ///
    /// # Errors
    /// As [`all_to_allv`](Self::all_to_allv), and [`Archive`](WorldError::Archive).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_to_all_values<'a, V: Value + Sync>(
        &self,
        mine: &'a [V],
    ) -> impl Future<Output = Result<Vec<V>, WorldError>> + Send + use<'a, V> {
        let call = Call::begin(self, Head::new("all_to_allv", 0, Element::value::<V>(), 0));
        async move {
            let sent = async {
                let mine = archives(mine)?;
                values(&all_to_all::varying(&call, &mine).await?)
            };
            let exchanged = sent.await;
            call.end(exchanged)
        }
    }

    /// Combines the values of all ranks in the order of the ranks, and gives all the result.
    ///
    /// # Errors
    /// As [`all_gather_values`](Self::all_gather_values).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_reduce_value<'a, V: Value + Sync, F: FnMut(V, V) -> V + Send + 'a>(
        &self,
        mine: &'a V,
        mut combine: F,
    ) -> impl Future<Output = Result<V, WorldError>> + Send + use<'a, V, F> {
        let head = Head::new("all_reduce", 0, Element::value::<V>(), 0).with::<F>();
        let call = Call::begin(self, head);
        async move {
            let values = all_values(&call, mine).await;
            let reduced = values.and_then(|values| {
                let none = || WorldError::Archive("there is no value".into());
                values.into_iter().reduce(&mut combine).ok_or_else(none)
            });
            call.end(reduced)
        }
    }
}

async fn all_values<V: Value>(call: &Call, mine: &V) -> Result<Vec<V>, WorldError> {
    let mine = value::write(mine)?;
    values(&all_gather::varying(call, &mine).await?)
}
