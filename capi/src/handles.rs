//! The handles that C has: numbers in the form of pointers, which lead to what lives.
//!
//! A handle is a place of a table and a generation of that place. So null, a handle that was closed
//! and any other number are found, and no memory is touched for them. A place that has had all
//! generations is not used again.

use std::any::Any;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::failure::Failure;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle has the place and the generation in one pointer of 64 bits");

/// Something that C has a handle of.
pub(crate) trait Kind: Any + Send + Sync {
    /// Its name in texts, with an article: `a stream`.
    const NAME: &'static str;
}

/// The content of a place.
struct Held {
    name: &'static str,
    thing: Arc<dyn Any + Send + Sync>,
}

struct Place {
    /// The generation of its last content; 0 before the first one.
    generation: u32,
    held: Option<Held>,
}

struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { places: Vec::new(), free: Vec::new() });

/// Returns a handle of a thing.
///
/// # Errors
/// There are 4 billion handles.
pub(crate) fn open<T: Kind, H>(thing: Arc<T>) -> Result<*mut H, Failure> {
    let mut table = TABLE.lock();
    let table = &mut *table;
    let index = match table.free.pop() {
        Some(index) => index,
        None => {
            let index = u32::try_from(table.places.len()).ok().filter(|index| *index < u32::MAX);
            let index = index.ok_or_else(|| Failure::failed("there are too many handles"))?;
            table.places.push(Place { generation: 0, held: None });
            index
        }
    };
    let place = &mut table.places[index as usize];
    place.generation += 1;
    place.held = Some(Held { name: T::NAME, thing });
    let number = u64::from(place.generation) << 32 | u64::from(index + 1);
    Ok(ptr::without_provenance_mut(number as usize))
}

/// Returns the thing behind a handle.
///
/// # Errors
/// It is null, was closed, is of another kind, or is none.
pub(crate) fn find<T: Kind, H>(handle: *mut H) -> Result<Arc<T>, Failure> {
    let table = TABLE.lock();
    let (index, generation) = split(handle);
    of_kind(table.held(index, generation), handle.is_null())
}

/// Closes a handle, and returns the thing behind it.
///
/// # Errors
/// As of [`find`]. The handle stays then.
pub(crate) fn close<T: Kind, H>(handle: *mut H) -> Result<Arc<T>, Failure> {
    let mut table = TABLE.lock();
    let (index, generation) = split(handle);
    let thing = of_kind(table.held(index, generation), handle.is_null())?;
    let place = &mut table.places[index];
    place.held = None;
    if place.generation < u32::MAX {
        table.free.push(index as u32);
    }
    Ok(thing)
}

impl Table {
    fn held(&self, index: usize, generation: u32) -> Option<&Held> {
        let place = self.places.get(index).filter(|place| place.generation == generation)?;
        place.held.as_ref()
    }
}

/// Returns the place and the generation that a handle names. Null has none that there is.
fn split<H>(handle: *mut H) -> (usize, u32) {
    let number = handle.addr() as u64;
    ((number as u32).wrapping_sub(1) as usize, (number >> 32) as u32)
}

fn of_kind<T: Kind>(held: Option<&Held>, is_null: bool) -> Result<Arc<T>, Failure> {
    if is_null {
        return Err(Failure::invalid(format!("null was given for {}", T::NAME)));
    }
    let Some(held) = held else {
        return Err(Failure::invalid(format!("the handle of {} is closed, or is none", T::NAME)));
    };
    let other = || Failure::invalid(format!("{} was given for {}", held.name, T::NAME));
    held.thing.clone().downcast().map_err(|_| other())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Apple(u32);
    struct Pear;

    impl Kind for Apple {
        const NAME: &'static str = "an apple";
    }

    impl Kind for Pear {
        const NAME: &'static str = "a pear";
    }

    fn text<T>(found: Result<T, Failure>) -> String {
        found.err().map(|failure| failure.text).unwrap_or_default()
    }

    #[test]
    fn only_a_handle_that_is_open_and_of_its_kind_leads_to_anything() {
        let apples: Vec<*mut u8> =
            (0..100).map(|number| open(Arc::new(Apple(number))).unwrap()).collect();
        for (number, apple) in apples.iter().enumerate() {
            assert_eq!(find::<Apple, _>(*apple).unwrap().0, number as u32);
            let other = text(find::<Pear, _>(*apple));
            assert_eq!(other, "an apple was given for a pear");
            assert_eq!(text(close::<Pear, _>(*apple)), other);
        }
        let closed = apples[..50].iter().map(|apple| close::<Apple, _>(*apple).unwrap().0);
        assert!(closed.eq(0..50));
        // Pears take the places of closed apples.
        let pears: Vec<*mut u8> = (0..50).map(|_| open(Arc::new(Pear)).unwrap()).collect();
        for apple in &apples[..50] {
            assert!(text(find::<Apple, _>(*apple)).contains("closed"));
            assert!(text(close::<Apple, _>(*apple)).contains("closed"));
        }
        for handle in apples[50..].iter().chain(&pears) {
            assert!(find::<Apple, _>(*handle).is_ok() != find::<Pear, _>(*handle).is_ok());
        }
        assert_eq!(text(find::<Pear, u8>(ptr::null_mut())), "null was given for a pear");
        for number in [1, 7, 1 << 32, u64::MAX, u64::MAX << 32, 0xffff_ffff] {
            let wild: *mut u8 = ptr::without_provenance_mut(number as usize);
            assert!(text(find::<Pear, _>(wild)).contains("none"), "{number:x}");
        }
        for handle in &apples[50..] {
            close::<Apple, _>(*handle).unwrap();
        }
        for handle in &pears {
            close::<Pear, _>(*handle).unwrap();
        }
    }
}
