//! HTTP for a link: its API ([`api`]) with the counters for Prometheus ([`metrics`]), and the page
//! on a link, a record or a report ([`page`]).
//!
//! On a running link it is a process of its own ([`process`]), a client of the control socket,
//! whose end costs the link nothing; `weir view` serves a page from its own process. [`http`] has
//! the server and [`site`] its tokens and its TLS.
//!
//! The page's routes below `/view` are answered from a [`source::Source`], whose types are in
//! [`json`]: [`live`] is a running link, [`record`] a record, [`report`] a simulation's report,
//! [`beside`] a record and a simulation of the same, [`runs`] many simulations. What is beside
//! `/view` is the API of the link.

pub mod api;
pub mod assets;
pub mod beside;
pub mod http;
pub mod json;
pub mod live;
pub mod metrics;
pub mod page;
pub mod process;
mod promises;
pub mod record;
pub mod report;
pub mod runs;
pub mod site;
pub mod source;

use source::Source;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Returns the source that a file is: a record, or a report of `weir sim --format json`.
///
/// # Errors
/// When it cannot be read or is neither; the text says what to do.
pub fn of_file(path: &Path) -> Result<Arc<dyn Source>, String> {
    let of = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(of)?;
    let mut start = Vec::new();
    file.take(START_BYTES).read_to_end(&mut start).map_err(of)?;
    if weir_trace::record::is_record(&start) {
        return Ok(Arc::new(record::Record::open(path)?));
    }
    if start.trim_ascii_start().starts_with(b"{") {
        return Ok(Arc::new(report::Report::open(path)?));
    }
    Err(format!(
        "{} is no record and no report: `weir record` writes records, `weir sim \
         SCENARIO --bins 1s --json FILE` writes a report",
        path.display()
    ))
}

/// The beginning of a file that tells its kind.
const START_BYTES: u64 = 4096;
