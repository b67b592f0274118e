//! Every kind of finding: `W0xx` reading any file, `W1xx` policies, `W2xx` deployments.
//!
//! `W3xx` belongs to scenarios, whose crate keeps its own table. A code is never given another
//! meaning; one that is no longer needed stays free. `docs/findings.md` prints this table, and a
//! test holds it to it.

use crate::finding::{Code, Severity};

macro_rules! codes {
    ($($name:ident $id:literal $severity:ident $title:literal $($source:literal)?;)*) => {
        $(#[doc = concat!($id, ": ", $title, ".")]
        pub static $name: Code = Code {
            id: $id,
            severity: Severity::$severity,
            title: $title,
            source: codes!(@source $($source)?),
        };)*

        /// The whole table, in the order of the codes.
        pub static ALL: &[&Code] = &[$(&$name,)*];
    };
    (@source) => { None };
    (@source $source:literal) => { Some($source) };
}

codes! {
    NOT_UTF8 "W001" Error "the file is not UTF-8";
    TOO_LARGE "W002" Error "the file is larger than Weir reads";
    NOT_TOML "W003" Error "the file is not TOML, or a key is written twice";
    UNREADABLE "W004" Error "a file that this one names cannot be read";
    MORE "W008" Info "more warnings than are shown";
    MORE_ERRORS "W009" Error "more findings than are shown, errors among them";
    UNKNOWN_KEY "W010" Error "a key that is not known here";
    MISSING_KEY "W011" Error "a key that must be written is missing";
    WRONG_TYPE "W012" Error "a value of another TOML type than the one wanted";
    BAD_QUANTITY "W013" Error "a quantity that cannot be read";
    AMBIGUOUS_UNIT "W014" Error "a unit that means bits to some and bytes to others";
    OUT_OF_RANGE "W015" Error "a value outside its range";
    UNKNOWN_CHOICE "W016" Error "a word that is none of those possible here";
    BAD_VALUE "W017" Error "a value that cannot be read as what it should be";
    TOO_MANY "W018" Error "more entries than Weir takes";
}
