//! Writes the packets of a run as a capture.

use crate::whole_file::WholeFile;
use std::io::BufWriter;
use std::path::Path;
use weir_sim::frame;
use weir_sim::watch::{Place, places};
use weir_sim::{Fate, Scenario};
use weir_trace::capture::{CaptureLink, CaptureRecord, CaptureWriter, Interface};

/// A capture of the packets that leave each outlet, each outlet being an interface in the file.
pub struct Trace {
    writer: CaptureWriter<BufWriter<WholeFile>>,
    frame: Vec<u8>,
    comment: String,
    failed: Option<String>,
}

impl Trace {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, scenario: &Scenario) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let file = WholeFile::create(path).map_err(failed)?;
        let mut writer = CaptureWriter::new(BufWriter::new(file)).map_err(failed)?;
        let link_type = CaptureLink::ETHERNET;
        let interface = |(link, from): Place| {
            let name = if from.is_empty() { link } else { format!("{link} from {from}") };
            Interface { link_type, name, snap_length: 0 }
        };
        let interfaces: Vec<_> = places(scenario).into_iter().map(interface).collect();
        writer.describe(&interfaces).map_err(failed)?;
        Ok(Self { writer, frame: Vec::new(), comment: String::new(), failed: None })
    }

    /// Writes a sent packet.
    pub fn add(&mut self, fate: &Fate<'_>) {
        if fate.dropped.is_some() || self.failed.is_some() {
            return;
        }
        frame::write(fate.headers, fate.length, fate.content, fate.marked, &mut self.frame);
        let delay = fate.at.since(fate.arrived).as_nanos();
        let (micros, nanos) = (delay / 1000, delay % 1000);
        self.comment.clear();
        self.comment += &format!(
            "class={} source={} delay_us={micros}.{nanos:03} verdict=sent",
            fate.class, fate.source.name
        );
        let written = self.writer.write(&CaptureRecord {
            timestamp: fate.at.as_nanos(),
            interface: fate.outlet.0,
            original_length: fate.length.max(self.frame.len() as u32),
            bytes: &self.frame,
            comment: &self.comment,
        });
        self.failed = written.err().map(|error| error.to_string());
    }

    /// Finishes the file, which then gets its name.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> Result<(), String> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let file = self.writer.finish().and_then(|buffer| Ok(buffer.into_inner()?));
        file.map_err(|error| error.to_string())?.keep()
    }
}
