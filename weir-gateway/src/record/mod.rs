//! A record as a source: what a link did, replayed.
//!
//! A [`Tape`] is a record in a file or in memory. It is read once for each direction, and series
//! that were computed are kept for the next request. [`Record`] shows the tape of a file;
//! [`snapshot`] takes one of a running link.

mod reacting;
mod shown;
pub mod snapshot;
mod tape;
#[cfg(test)]
mod tests;

pub use tape::Tape;

use crate::http::Fault;
use crate::json::{
    Abilities, About, Fork, ForkQuery, Heat, HeatQuery, History, HistoryQuery, Knob, KnobsQuery,
    Mark, Packets, PacketsQuery, Predict, Prediction, Promises, PromisesQuery, SpanQuery,
};
use crate::source::Source;
use std::path::Path;
use weir_control::protocol::Right;
use weir_host::wait::realtime_ns;
use weir_sim::whatif::WhatIf;

/// A record in a file.
pub struct Record {
    name: String,
    tape: Tape,
}

impl Record {
    /// The record at this path.
    ///
    /// # Errors
    /// When it cannot be read or is no record, or a policy of it has errors.
    pub fn open(path: &Path) -> Result<Self, String> {
        let tape = Tape::of_file(path)?;
        let file = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self { name: file.display().to_string(), tape })
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// As [`Record::open`].
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, String> {
        Ok(Self { name: name.to_owned(), tape: Tape::of_bytes(bytes)? })
    }

    /// Returns what is recorded.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }
}

impl Source for Record {
    fn about(&self, _right: Right) -> Result<About, Fault> {
        let (from, to) = self.tape.span();
        Ok(About {
            kind: "record".to_owned(),
            name: self.name.clone(),
            weir: self.tape.head().weir.clone(),
            now: realtime_ns() as f64 / 1e6,
            from,
            to,
            kept: Some(from),
            step_ms: self.tape.step_ms(),
            panics: 0,
            abilities: Abilities { packets: true, fork: true, ..Abilities::default() },
            directions: self.tape.directions(),
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        self.tape.history(query)
    }

    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        self.tape.heat(query)
    }

    fn events(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        self.tape.marks(query)
    }

    fn knobs(&self, query: &KnobsQuery) -> Result<Vec<Knob>, Fault> {
        self.tape.knobs(query)
    }

    fn promises(&self, query: &PromisesQuery) -> Result<Promises, Fault> {
        self.tape.promises(query)
    }

    fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        self.tape.predict(predict)
    }

    fn packets(&self, query: &PacketsQuery) -> Result<Packets, Fault> {
        self.tape.packets(query, false)
    }

    fn fork(&self, query: &ForkQuery) -> Result<Fork, Fault> {
        self.tape.fork(query)
    }

    fn reacting(&self, query: &ForkQuery) -> Result<WhatIf, Fault> {
        self.tape.reacting(query)
    }
}
