//! Checkpoints: the state of links and classifiers as bytes, and back.
//!
//! What a plan determines is not written: a checkpoint is loaded into an object that was built from
//! the same plan, and afterwards both give the same decisions, to the bit. The macro `state!`
//! implements [`State`] for a struct and names each of its fields, so a field that is forgotten
//! does not compile. A reader trusts nothing: damaged bytes give an error, and no more memory than
//! they justify. Invariant: what is loaded, saved again, gives the same bytes.

mod error;
mod reader;
mod seal;
mod values;
mod writer;

pub use error::StateError;
pub use reader::Reader;
pub use seal::forge;
pub(crate) use seal::{Kind, PlanHasher, open, seal};
pub(crate) use values::{load_rows, save_rows};
pub use writer::Writer;

/// Values that are written to a checkpoint and restored from it.
pub trait State {
    /// Writes the state so that `load` of an object with the same plan restores it.
    fn save(&self, to: &mut Writer);

    /// Replaces the state by what was written. `self` was built from the same plan and not used
    /// since; after an error it must not be used.
    ///
    /// # Errors
    /// When the bytes end early or are not such a state.
    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError>;
}

/// Implements [`State`] for a struct: the state of its fields in this order, then of the options
/// after `some:`, where the plan determines whether they are there, then of the tables after
/// `rows:`, whose length varies. The fields after `kept:` stay as built: what the plan determines,
/// and what means nothing between two calls. A function after `check:` returns whether a loaded
/// state is possible.
///
/// `state!(Name { some, fields; some: parts; rows: tables; kept: others; check: function })`, where
/// only the first part must be there, `state!(Name(field))` for a struct of one
/// unnamed field, `state!(packed Name { … })` for a packed one, which must be `Copy`, and
/// `state!(enum Name { Variant, … })` for an enum without data.
macro_rules! state {
    (enum $name:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::state::State for $name {
            fn save(&self, to: &mut $crate::state::Writer) {
                // Not its number, which may start anywhere.
                let variants = [$($name::$variant),+];
                // Exhaustive: a variant that is forgotten does not compile.
                match self { $($name::$variant => {})+ }
                let place = variants.iter().position(|variant| variant == self);
                to.byte(place.unwrap_or(0) as u8);
            }

            fn load(
                &mut self,
                from: &mut $crate::state::Reader<'_>,
            ) -> Result<(), $crate::state::StateError> {
                let variants = [$($name::$variant),+];
                let variant = variants.into_iter().nth(usize::from(from.byte()?));
                *self = variant.ok_or($crate::state::StateError::Invalid(stringify!($name)))?;
                Ok(())
            }
        }
    };
    (packed $name:ident { $($field:ident),+ $(; kept: $($kept:ident),+)? $(,)? }) => {
        impl $crate::state::State for $name {
            fn save(&self, to: &mut $crate::state::Writer) {
                let Self { $($field,)+ $($($kept: _,)+)? } = *self;
                $($crate::state::State::save(&$field, to);)+
            }

            fn load(
                &mut self,
                from: &mut $crate::state::Reader<'_>,
            ) -> Result<(), $crate::state::StateError> {
                let Self { $(mut $field,)+ $($($kept,)+)? } = *self;
                $($crate::state::State::load(&mut $field, from)?;)+
                *self = Self { $($field,)+ $($($kept,)+)? };
                Ok(())
            }
        }
    };
    ($name:ident($field:ident) $(check: $check:expr)?) => {
        impl $crate::state::State for $name {
            fn save(&self, to: &mut $crate::state::Writer) {
                let Self($field) = self;
                $crate::state::State::save($field, to);
            }

            fn load(
                &mut self,
                from: &mut $crate::state::Reader<'_>,
            ) -> Result<(), $crate::state::StateError> {
                let Self($field) = self;
                $crate::state::State::load($field, from)?;
                $(if !($check)(self) {
                    return Err($crate::state::StateError::Invalid(stringify!($name)));
                })?
                Ok(())
            }
        }
    };
    (
        $name:ident $(<const $param:ident: $kind:ty>)? {
            $($field:ident),* $(,)?
            $(; some: $($some:ident),+ $(,)?)?
            $(; rows: $($rows:ident),+ $(,)?)?
            $(; kept: $($kept:ident),+ $(,)?)?
            $(; check: $check:expr)?
        }
    ) => {
        impl $(<const $param: $kind>)? $crate::state::State for $name $(<$param>)? {
            fn save(&self, to: &mut $crate::state::Writer) {
                let Self { $($field,)* $($($some,)+)? $($($rows,)+)? $($($kept: _,)+)? } = self;
                $($crate::state::State::save($field, to);)*
                $($(if let Some(part) = $some {
                    $crate::state::State::save(part, to);
                })+)?
                $($($crate::state::save_rows($rows, to);)+)?
                let _ = to;
            }

            fn load(
                &mut self,
                from: &mut $crate::state::Reader<'_>,
            ) -> Result<(), $crate::state::StateError> {
                let Self { $($field,)* $($($some,)+)? $($($rows,)+)? $($($kept: _,)+)? } = self;
                $($crate::state::State::load($field, from)?;)*
                $($(if let Some(part) = $some {
                    $crate::state::State::load(part, from)?;
                })+)?
                $($($crate::state::load_rows($rows, from, usize::MAX)?;)+)?
                $(if !($check)(self) {
                    return Err($crate::state::StateError::Invalid(stringify!($name)));
                })?
                let _ = from;
                Ok(())
            }
        }
    };
}

pub(crate) use state;
