//! The state of numbers, times, ids, and of tables of anything that has state.

use super::{Reader, State, StateError, Writer};
use crate::ids::{ClassId, Handle, LeafId};
use crate::units::{Bytes, Duration, FineInstant, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Implements [`State`] for a value: how it is written, and how it is read.
macro_rules! values {
    ($($kind:ty: |$value:ident, $to:ident| $save:expr, |$from:ident| $load:expr;)+) => {
        $(impl State for $kind {
            #[inline]
            fn save(&self, $to: &mut Writer) {
                let $value = *self;
                $save
            }

            #[inline]
            fn load(&mut self, $from: &mut Reader<'_>) -> Result<(), StateError> {
                *self = $load;
                Ok(())
            }
        })+
    };
}

/// Returns a number as one of fewer bits.
fn narrow<T>(number: Result<T, core::num::TryFromIntError>) -> Result<T, StateError> {
    number.map_err(|_| StateError::Invalid("number"))
}

values! {
    u8: |value, to| to.byte(value), |from| from.byte()?;
    u16: |value, to| to.number(value.into()), |from| narrow(from.number()?.try_into())?;
    u32: |value, to| to.number(value.into()), |from| narrow(from.number()?.try_into())?;
    u64: |value, to| to.number(value), |from| from.number()?;
    u128: |value, to| { to.number(value as u64); to.number((value >> 64) as u64) },
        |from| u128::from(from.number()?) | u128::from(from.number()?) << 64;
    i128: |value, to| ((value << 1 ^ value >> 127) as u128).save(to), |from| {
        let mut number = 0u128;
        number.load(from)?;
        (number >> 1) as i128 ^ -((number & 1) as i128)
    };
    usize: |value, to| to.number(value as u64), |from| narrow(from.number()?.try_into())?;
    i32: |value, to| to.signed(value.into()), |from| narrow(from.signed()?.try_into())?;
    i64: |value, to| to.signed(value), |from| from.signed()?;
    bool: |value, to| to.byte(value.into()), |from| from.index(2, "bool")? == 1;
    Instant: |value, to| to.number(value.as_nanos()), |from| Instant::from_nanos(from.number()?);
    Duration: |value, to| to.number(value.as_nanos()), |from| Duration::from_nanos(from.number()?);
    Bytes: |value, to| to.number(value.get()), |from| Bytes::new(from.number()?);
    LeafId: |value, to| value.0.save(to), |from| LeafId(narrow(from.number()?.try_into())?);
    ClassId: |value, to| value.0.save(to), |from| ClassId(narrow(from.number()?.try_into())?);
    Handle: |value, to| value.0.save(to), |from| Handle(narrow(from.number()?.try_into())?);
}

impl State for FineInstant {
    fn save(&self, to: &mut Writer) {
        self.bits().save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut bits = 0u128;
        bits.load(from)?;
        *self = FineInstant::from_bits(bits).ok_or(StateError::Invalid("instant"))?;
        Ok(())
    }
}

impl<T: State + Default> State for Option<T> {
    fn save(&self, to: &mut Writer) {
        self.is_some().save(to);
        if let Some(value) = self {
            value.save(to);
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut is_some = false;
        is_some.load(from)?;
        *self = is_some.then(T::default);
        self.as_mut().map_or(Ok(()), |value| value.load(from))
    }
}

impl<T: State> State for Reverse<T> {
    fn save(&self, to: &mut Writer) {
        self.0.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.0.load(from)
    }
}

impl<T: State + ?Sized> State for Box<T> {
    fn save(&self, to: &mut Writer) {
        (**self).save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        (**self).load(from)
    }
}

impl<T: State> State for [T] {
    fn save(&self, to: &mut Writer) {
        self.iter().for_each(|row| row.save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.iter_mut().try_for_each(|row| row.load(from))
    }
}

impl<T: State, const N: usize> State for [T; N] {
    fn save(&self, to: &mut Writer) {
        self[..].save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self[..].load(from)
    }
}

/// A table whose length the plan determines; `save_rows` is for others.
impl<T: State> State for Vec<T> {
    fn save(&self, to: &mut Writer) {
        self[..].save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self[..].load(from)
    }
}

/// A queue of any length.
impl<T: State + Default> State for VecDeque<T> {
    fn save(&self, to: &mut Writer) {
        to.number(self.len() as u64);
        self.iter().for_each(|row| row.save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.clear();
        for _ in 0..from.count(usize::MAX, "queue")? {
            let mut row = T::default();
            row.load(from)?;
            self.push_back(row);
        }
        Ok(())
    }
}

/// Writes a table of any length.
pub(crate) fn save_rows<T: State>(rows: &[T], to: &mut Writer) {
    to.number(rows.len() as u64);
    rows.save(to);
}

/// Reads a table of at most `most` rows.
pub(crate) fn load_rows<T: State + Default>(
    rows: &mut Vec<T>,
    from: &mut Reader<'_>,
    most: usize,
) -> Result<(), StateError> {
    rows.clear();
    for _ in 0..from.count(most, "table")? {
        let mut row = T::default();
        row.load(from)?;
        rows.push(row);
    }
    Ok(())
}

/// Implements [`State`] for tuples.
macro_rules! tuples {
    ($(($($name:ident),+))+) => {
        $(#[allow(non_snake_case)]
        impl<$($name: State),+> State for ($($name,)+) {
            fn save(&self, to: &mut Writer) {
                let ($($name,)+) = self;
                $($name.save(to);)+
            }

            fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
                let ($($name,)+) = self;
                $($name.load(from)?;)+
                Ok(())
            }
        })+
    };
}

tuples! { (A, B) (A, B, C) }
