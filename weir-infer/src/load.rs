//! A capture in place of a scenario: what promises are tested and values are tuned under.
//!
//! The scenario is the one that is inferred, for as long as the capture is. Nothing in it is drawn,
//! so the starts of its sources and the answers of its receivers move a little from seed to seed:
//! what differs then is chance. Invariant: any policy may take the place of its own.

use crate::named::Named;
use crate::replayed::Beside;
use crate::text::quoted_time;
use crate::{Grouping, Input, Options, infer};
use std::io;
use std::path::Path;
use weir_core::units::Duration;

/// A scenario in place of a capture.
#[derive(Clone, Debug)]
pub struct Load {
    /// The scenario.
    pub text: String,
    /// The files that it names.
    pub beside: Vec<Beside>,
    /// The fault that ended the capture, if one did.
    pub fault: Option<String>,
}

impl Load {
    /// Returns the scenario of a capture or a record; `None` if the file is neither.
    ///
    /// # Errors
    /// When the file cannot be read, or there is nothing to infer from.
    pub fn of(file: Named<'_>) -> Result<Option<Self>, String> {
        let (is_traffic, file) = file.traffic()?;
        if !is_traffic {
            return Ok(None);
        }
        let name = file.name.clone();
        let stem = Path::new(&name).file_stem().unwrap_or_default();
        let options = Options {
            name: stem.to_string_lossy().into_owned(),
            grouping: Grouping::Exact,
            ..Options::default()
        };
        let inferred = infer(Input::of(file, None)?, &options, &mut |_| {});
        let inferred = inferred.map_err(|error| format!("{name}: {error}"))?;
        let length = inferred.duration.max(LENGTH_MIN);
        Ok(Some(Self {
            text: lasting(&inferred.scenario(), length),
            beside: inferred.beside(),
            fault: inferred.fault,
        }))
    }

    /// Returns the content of a file that the scenario names.
    ///
    /// # Errors
    /// When it names no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.beside.iter().find(|file| path.file_name() == Some(file.name.as_ref()));
        found.map(|file| file.bytes.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Returns the scenario for a time in place of its own, with what differs by chance.
fn lasting(scenario: &str, length: Duration) -> String {
    let mut is_written = false;
    let lines = scenario.lines().map(|line| match line.starts_with("duration = ") {
        true if !is_written => {
            is_written = true;
            format!("duration = {}\n{JITTER}", quoted_time(length))
        }
        _ => line.to_owned() + "\n",
    });
    lines.collect()
}

/// By how much starts and answers move.
const JITTER: &str = "start_jitter = \"5 ms\"\nprocessing_jitter = \"0.1 ms\"\n";
/// A capture of one instant counts as this long.
pub(crate) const LENGTH_MIN: Duration = Duration::from_millis(1);
