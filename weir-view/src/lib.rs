//! The page on a link, a record or a report, and the server of its data.
//!
//! A [`server::Server`] gives the page ([`assets`]) and answers the routes below `/view` from a
//! [`source::Source`], whose types are in [`json`]. What is beside `/view` is the control API of a
//! live link, which the server passes on with the rights of the token. [`live`] is the source of a
//! running link: a client of the control socket, in a process of its own, whose end costs the link
//! nothing. [`record`] is the source of a record, [`report`] that of a simulation's report,
//! [`beside`] that of a record and a simulation of the same. [`access`] makes tokens.

pub mod access;
pub mod assets;
pub mod beside;
pub mod json;
pub mod live;
pub mod record;
pub mod report;
pub mod server;
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
        "{} is no record and no report: `weir record` and `weir snapshot` write records, `weir sim \
         SCENARIO --bins 1s --json FILE` writes a report",
        path.display()
    ))
}

/// What is read of a file to tell its kind.
const START_BYTES: u64 = 4096;
