//! The papers' experiments as data: their claims, compared with Weir's measurements.
//!
//! An experiment is a folder `papers/PAPER/ID/` with its scenarios and its sheet, `claims.toml`
//! ([`Sheet`]). Rust code measures ([`crate::experiments`]) and returns named figures
//! ([`Measured`]); the sheet says which of them the paper mentions, and [`judge()`] gives the
//! verdict. So a claim can be read and changed without its code, and no code can change a claim.

mod decide;
mod extends;
mod fact;
mod fifo;
mod figure;
mod judge;
mod kind;
mod measured;
mod paper_set;
mod run;
mod sheet;
mod table;

pub use decide::{Decided, Decision, Evidence, Reading, decide};
pub use fact::{Fact, FactKind};
pub use figure::{Cell, Draw, Line, PaperFigure, Slider, value};
pub use judge::{Judged, Verdict, judge, judge_on_sound};
pub use kind::RowKind;
pub use measured::{Figure, Measured, Table};
pub use paper_set::PaperSet;
pub use run::{MeasureRun, NEVER, Outcome, Request, Run, Stored, count, of_stored, run};
pub use sheet::{Choice, Claim, Era, Eras, Irreproducible, Paper, Sheet, Target, Tolerance};
pub use weir_show::{Edge, Kind, Plot, Series, Setup};
