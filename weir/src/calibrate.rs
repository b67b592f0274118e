//! `weir calibrate`: measures what this host adds to a simulated link.

use crate::Run;
use crate::output::{Exit, Format, Output};
use crate::whole_file::WholeFile;
use std::path::PathBuf;
use std::time::Duration;
use weir_bench::rig;
use weir_bench::score::calibrate;
use weir_cli::time::seconds;

/// Measures what this host adds to a simulated link, for `weir sim --host`.
///
/// A probe in private networks: small datagrams through an idle link, then a bulk transfer of the
/// kernel's TCP. The file says what was measured, with units, and how loaded the machine was.
/// docs/calibration.md describes it.
#[derive(clap::Args)]
pub struct Calibrate {
    /// How long to probe.
    #[arg(long, value_name = "N|TIME", default_value = "30",
        value_parser = seconds(Duration::from_secs(6)..=Duration::from_mins(5)))]
    seconds: Duration,
    /// Write the calibration to this file, not to the standard output.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Run for Calibrate {
    fn run(self, output: &Output) -> Exit {
        self.calibrate(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Calibrate {
    fn calibrate(&self, output: &Output) -> Result<Exit, String> {
        let _first = rig::prepare()?;
        // Before the probe: it would be lost where nothing can be written.
        let file = self.write.as_deref().map(WholeFile::create).transpose();
        let file = file.map_err(|error| error.to_string())?;
        let calibration = calibrate::probe(self.seconds)?;
        let text = calibration.to_toml();
        file.map_or(Ok(()), |file| file.finish(text.as_bytes()))?;
        match output.format {
            Format::Json => output.json(&calibration),
            Format::Text if self.write.is_none() => output.text(&text),
            Format::Text => {}
        }
        Ok(Exit::Clean)
    }
}
