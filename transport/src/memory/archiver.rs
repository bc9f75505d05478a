//! Writing the root of an archive.
#![allow(unsafe_code, reason = "writes a root where it is to lie (ME-9)")]

use std::alloc::Layout;

use rkyv::util::AlignedVec;
use rkyv::{Archive, Place};

use super::buffer;

/// Writes the root of an archive, of a value whose parts are written already, behind them: where it
/// is to lie. A buffer that held nothing else is the whole archive then.
///
/// # Panics
/// If a root of this type is to be aligned to more than 16 bytes.
pub fn write_root<T: Archive>(value: &T, resolver: T::Resolver, out: &mut AlignedVec<16>) {
    let position = make_room(out, const { Layout::new::<T::Archived>() });
    let root = out[position..].as_mut_ptr().cast::<T::Archived>();
    // SAFETY: `make_room` has put as many zeros there as a root has bytes, aligned as one is: the
    // buffer is, and the position in it. Nothing moves the buffer before the root is written.
    let place = unsafe { Place::new_unchecked(position, root) };
    value.resolve(resolver, place);
}

/// Puts zeros at the end, aligned and as many as the layout says; returns where they begin. Not
/// generic: it is compiled once, and not for each message of a program.
fn make_room(out: &mut AlignedVec<16>, layout: Layout) -> usize {
    assert!(layout.align() <= AlignedVec::<16>::ALIGNMENT, "an archive is aligned to 16 bytes");
    let position = out.len().next_multiple_of(layout.align());
    let end = position + layout.size();
    // Never nothing: memory that was not asked for is not aligned.
    buffer::reserve(out, (end - out.len()).max(1));
    out.resize(end, 0);
    position
}

#[cfg(test)]
mod tests {
    use rkyv::rancor::Error;
    use rkyv::ser::Serializer;
    use rkyv::ser::sharing::Share;
    use rkyv::{Archived, Serialize};

    use super::*;

    #[test]
    fn a_root_lies_behind_its_parts_as_rkyv_lays_it() {
        let value = (7u8, "longer than what fits into a string itself".to_owned(), 9u64);
        let (mut bytes, resolver) = rkyv::util::with_arena(|arena| {
            let mut serializer =
                Serializer::new(AlignedVec::<16>::new(), arena.acquire(), Share::new());
            let strategy = rkyv::rancor::Strategy::<_, Error>::wrap(&mut serializer);
            let resolver = value.serialize(strategy).unwrap();
            (serializer.into_writer(), resolver)
        });
        assert!(!bytes.len().is_multiple_of(align_of::<Archived<(u8, String, u64)>>()));
        write_root(&value, resolver, &mut bytes);
        assert_eq!(*bytes, *rkyv::to_bytes::<Error>(&value).unwrap());
    }

    #[test]
    #[should_panic(expected = "aligned to 16 bytes")]
    fn a_root_that_needs_more_than_its_buffer_has_is_refused() {
        make_room(&mut AlignedVec::new(), Layout::from_size_align(32, 32).unwrap());
    }
}
