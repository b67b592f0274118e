//! The tests of records: replayed, explained, as series, and forked; one program.

mod causes;
mod common;
mod fork;
mod recorded;
mod series;
