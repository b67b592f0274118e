//! `weir measure`: delay, jitter and loss of each class from two captures.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::whole_file::cannot;
use crate::{Run, input};
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use weir_core::units::Duration;
use weir_policy::{Policy, policy};
use weir_sim::replay::InterfaceMap;
use weir_trace::capture::{CaptureFault, CaptureReader};
use weir_traffic::measure::{MeasureOptions, MeasureReport, measure};

/// Measures delay, jitter, loss and throughput of each class from captures around a link.
///
/// Packets are found again by what a link does not change: addresses, ports, identification, length
/// and the start of the payload; DSCP, ECN, the hop count, checksums and the link header may
/// change. Equal packets are taken in their order. Classes are those of the policy, by the headers
/// before the link. Capture single packets, not those that a network card joins (`ethtool -K eth0
/// gso off tso off gro off`). Exits 1 with findings if the policy is wrong, and after a report if a
/// capture is damaged or has no packet.
#[derive(clap::Args)]
pub struct Measure {
    /// The capture before the link, pcap or pcapng, plain or in gzip or zstd.
    before: PathBuf,
    /// The capture behind the link.
    behind: PathBuf,
    /// The policy whose classes are measured, in TOML.
    #[arg(long, value_name = "POLICY.toml")]
    policy: PathBuf,
    /// How far the clock of the second capture is ahead of that of the first, such as 1.5ms or
    /// -20us.
    #[arg(long, value_name = "TIME", value_parser = offset, allow_hyphen_values = true)]
    clock_offset: Option<i64>,
    /// A packet that was not seen behind the link after this time is lost.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = delay)]
    delay_max: Duration,
    /// How many bytes of each packet are compared, from its IP header on.
    #[arg(long, value_name = "BYTES", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(20..=65_535))]
    compare_bytes: u32,
    /// The interface of the policy by which frames came in, as with `weir replay`. May be given
    /// several times.
    #[arg(long, value_name = "[CAPTURED=]NAME")]
    interface: Vec<String>,
}

impl Run for Measure {
    fn run(self, output: &Output) -> Exit {
        self.measure(output).unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Measure {
    fn measure(&self, output: &Output) -> Result<Exit, String> {
        let name = self.policy.display().to_string();
        let bytes = input::read(&self.policy).map_err(|error| cannot("read", &name, &error))?;
        let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
        let Some(policy) = outcome.plan.as_ref().filter(|_| !outcome.failed()) else {
            return Ok(kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome));
        };
        let pairs: Vec<_> = self
            .interface
            .iter()
            .map(|text| match text.split_once('=') {
                Some((captured, name)) => (Some(captured.to_owned()), name.to_owned()),
                None => (None, text.clone()),
            })
            .collect();
        let map = InterfaceMap::new(policy, &pairs).map_err(|error| error.to_string())?;
        let report = self.compare(policy, &map)?;
        for warning in report.warnings() {
            output.warn(&warning);
        }
        match output.format {
            Format::Json => output.json(&report),
            Format::Text => output.text(&format!("{report}\n")),
        }
        let is_sound = report.faults.is_empty() && !report.is_empty();
        Ok(if is_sound { Exit::Clean } else { Exit::Faults })
    }

    fn compare(&self, policy: &Policy, map: &InterfaceMap) -> Result<MeasureReport, String> {
        let bar = crate::send::spinner();
        let mut before = open(&self.before, &bar)?;
        let mut behind = open(&self.behind, &bar)?;
        let options = MeasureOptions {
            offset_ns: self.clock_offset.unwrap_or(0),
            delay_max: self.delay_max,
            compared: self.compare_bytes as usize,
        };
        let report = measure(policy, map, [&mut before, &mut behind], &options);
        bar.finish_and_clear();
        Ok(report)
    }
}

/// Opens a capture; `bar` counts what is read.
fn open(path: &Path, bar: &ProgressBar) -> Result<CaptureReader<'static>, String> {
    let name = path.display().to_string();
    let file = input::open(path).map_err(|error| cannot("read", &name, &error))?;
    CaptureReader::new(bar.wrap_read(file)).map_err(|error| {
        let other = || kind::mistaken(&name, &input::read(path).ok()?, Kind::Capture);
        let mistaken = matches!(error.fault, CaptureFault::NotACapture { .. }).then(other);
        mistaken.flatten().unwrap_or_else(|| format!("{name}: {error}"))
    })
}

/// Parses a time with a sign.
fn offset(text: &str) -> Result<i64, String> {
    let (sign, time) = text.strip_prefix('-').map_or((1, text), |time| (-1, time));
    let time: Duration = time.trim().parse().map_err(|error| format!("{error}"))?;
    i64::try_from(time.as_nanos()).map(|nanos| sign * nanos).map_err(|_| "is too long".to_owned())
}

/// Parses a time above 0.
fn delay(text: &str) -> Result<Duration, String> {
    let delay: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if delay == Duration::ZERO {
        return Err("must be more than 0; write 10s, for example".to_owned());
    }
    Ok(delay)
}
