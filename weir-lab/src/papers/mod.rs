//! Who measures the papers' experiments. One family of experiments a file, one line each here; a
//! sheet in `papers/` names its family.

use crate::claims::{Measured, Run};

/// A family of experiments.
pub struct Family {
    /// The word behind `measure` in a sheet.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Measures one run: it depends on the sheet, the era and the seed alone.
    pub measure: fn(&Run<'_>) -> Result<Measured, String>,
}

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

macro_rules! families {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        /// Every family.
        pub const FAMILIES: &[Family] = &[$($module::FAMILY,)*];
    };
}

families! {
    ns2,
    benita,
    quadros,
    altqtest,
    cost,
    risso99,
    nieminen,
}
