//! Implements [`weir_core::state::State`] field by field, as the core does for its own types.

/// Implements `State` for a struct: the state of its fields in this order, then of the tables
/// after `rows:`, whose length varies and does not exceed the bound behind each. A field that is
/// forgotten does not compile; those after `kept:` stay as built.
macro_rules! saved {
    ($name:ident {
        $($field:ident),* $(,)?
        $(; rows: $($rows:ident <= $most:expr),+)?
        $(; kept: $($kept:ident),+)?
    }) => {
        impl weir_core::state::State for $name {
            fn save(&self, to: &mut weir_core::state::Writer) {
                let Self { $($field,)* $($($rows,)+)? $($($kept: _,)+)? } = self;
                $(weir_core::state::State::save($field, to);)*
                $($(
                    to.number($rows.len() as u64);
                    weir_core::state::State::save($rows, to);
                )+)?
            }

            fn load(
                &mut self,
                from: &mut weir_core::state::Reader<'_>,
            ) -> Result<(), weir_core::state::StateError> {
                let Self { $($field,)* $($($rows,)+)? $($($kept: _,)+)? } = self;
                $(weir_core::state::State::load($field, from)?;)*
                $($(
                    let count = from.count($most, stringify!($rows))?;
                    $rows.clear();
                    $rows.resize_with(count, Default::default);
                    weir_core::state::State::load($rows, from)?;
                )+)?
                Ok(())
            }
        }
    };
}

pub(crate) use saved;
