//! The operations of reductions: sums, least and greatest, logical and bitwise ones, and closures.

use bytemuck::Pod;

/// Combines two elements in a reduction. It has to be associative; it need not be commutative:
/// `lower` is always of lower ranks than `higher`.
///
/// A closure `|lower, higher| ..` is one, too. All ranks have to give one of the same type, so the
/// same line of the program, or the reduction is a
/// [`Mismatch`](crate::WorldError::Mismatch).
///
/// ```
/// use ringpost_ranks::{Operation, Sum};
///
/// assert_eq!(Sum.combine(2, 3), 5);
/// assert_eq!((|a: f32, b: f32| a * 0.5 + b).combine(2.0, 3.0), 4.0);
/// ```
pub trait Operation<T>: Send + Sync {
    /// Returns both combined.
    fn combine(&self, lower: T, higher: T) -> T;

    /// Returns true if the elements are combined one after the other in the order of the ranks.
    fn is_ordered(&self) -> bool {
        false
    }
}

impl<T, F: Fn(T, T) -> T + Send + Sync> Operation<T> for F {
    fn combine(&self, lower: T, higher: T) -> T {
        self(lower, higher)
    }
}

/// Reduces in the order of the ranks, `((x0 + x1) + x2) + ..`, whatever the length and the number
/// of ranks: a sum of floats has the same bits wherever it is computed. Takes more time than the
/// algorithms that combine as elements come.
///
/// ```
/// use ringpost_ranks::{Operation, Ordered, Sum};
///
/// assert!(Operation::<f64>::is_ordered(&Ordered(Sum)));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Ordered<O>(pub O);

impl<T, O: Operation<T>> Operation<T> for Ordered<O> {
    fn combine(&self, lower: T, higher: T) -> T {
        self.0.combine(lower, higher)
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

/// Numbers that [`Sum`], [`Product`], [`Min`] and [`Max`] take.
pub trait Number: Pod + PartialOrd {
    /// Returns the sum; integers wrap around.
    fn plus(self, other: Self) -> Self;
    /// Returns the product; integers wrap around.
    fn times(self, other: Self) -> Self;
}

/// Integers, which [`BitAnd`], [`And`] and the like take. In logical operations 0 is false, any
/// other number is true, and results are 0 or 1.
pub trait Integer: Pod {
    /// Returns the bits that are set in both.
    fn bit_and(self, other: Self) -> Self;
    /// Returns the bits that are set in one or both.
    fn bit_or(self, other: Self) -> Self;
    /// Returns the bits that are set in one of them.
    fn bit_xor(self, other: Self) -> Self;
    /// Returns 1 or 0.
    fn truth(value: bool) -> Self;
    /// Returns true of any number but 0.
    fn is_true(self) -> bool;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Integer for $ty {
            #[inline]
            fn bit_and(self, other: Self) -> Self {
                self & other
            }
            #[inline]
            fn bit_or(self, other: Self) -> Self {
                self | other
            }
            #[inline]
            fn bit_xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline]
            fn truth(value: bool) -> Self {
                $ty::from(value)
            }
            #[inline]
            fn is_true(self) -> bool {
                self != 0
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

macro_rules! floats {
    ($($ty:ident)*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

floats! { f32 f64 }

/// Declares operations, each with its bound and its formula.
macro_rules! operations {
    ($($(#[$doc:meta])*
        $name:ident: $bound:ident, |$lower:ident, $higher:ident| $formula:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;

        impl<T: $bound> Operation<T> for $name {
            #[inline]
            fn combine(&self, $lower: T, $higher: T) -> T {
                $formula
            }
        }
    )*};
}

operations! {
    /// The sum; integers wrap around.
    Sum: Number, |lower, higher| lower.plus(higher);
    /// The product; integers wrap around.
    Product: Number, |lower, higher| lower.times(higher);
    /// The least. Of floats that are not numbers any may result.
    Min: Number, |lower, higher| if higher < lower { higher } else { lower };
    /// The greatest. Of floats that are not numbers any may result.
    Max: Number, |lower, higher| if higher > lower { higher } else { lower };
    /// Logical "and": 1 if both are other than 0.
    And: Integer, |lower, higher| T::truth(lower.is_true() && higher.is_true());
    /// Logical "or": 1 if one of them is other than 0.
    Or: Integer, |lower, higher| T::truth(lower.is_true() || higher.is_true());
    /// Logical "exclusive or": 1 if just one of them is other than 0.
    Xor: Integer, |lower, higher| T::truth(lower.is_true() != higher.is_true());
    /// The bits that are set in all.
    BitAnd: Integer, |lower, higher| lower.bit_and(higher);
    /// The bits that are set in any.
    BitOr: Integer, |lower, higher| lower.bit_or(higher);
    /// The bits that are set in an odd number of them.
    BitXor: Integer, |lower, higher| lower.bit_xor(higher);
}
