//! `weir replay`: runs a capture through a policy, in virtual time.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::picture::{Files, flent_file, picture_file};
use crate::sim::{Explain, bounds};
use crate::whole_file::{self, WholeFile, cannot};
use crate::{Run, input};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use weir_policy::finding::Outcome;
use weir_policy::{Policy, policy, render};
use weir_sim::replay::{
    InterfaceMap, Outputs, ReplayError, ReplayReport, replay, replay_explained,
};
use weir_sim::timeline::{Timeline, Tracks};
use weir_trace::capture::{CaptureFault, CaptureReader, CaptureWriter};
use weir_trace::record::RecordReader;
use weir_trace::recorded;

/// Runs a capture through a policy in virtual time, and reports each class.
///
/// Frames arrive when they were captured and leave when the policy's link lets them. Exits 1 with
/// findings and writes nothing if the policy is wrong; exits 1 also if a bound is broken, or if the
/// capture is damaged, after the part before the damage was replayed, written and reported. Exits 2
/// if a file cannot be read or written. docs/replay.md describes the output and how lengths and
/// times are taken.
#[derive(clap::Args)]
pub struct Replay {
    /// Make a record of a running link again instead, and compare: exits 1 at the first
    /// difference.
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["policy", "capture", "output",
        "drops", "interface", "explain", "plot", "flent"])]
    record: Option<PathBuf>,
    /// The policy, in TOML.
    #[arg(required_unless_present = "record", default_value = "-", hide_default_value = true)]
    policy: PathBuf,
    /// The capture, pcap or pcapng, plain or in gzip or zstd; `-` for standard input.
    #[arg(required_unless_present = "record", default_value = "-", hide_default_value = true)]
    capture: PathBuf,
    /// Write the frames that the link sent, each with class, delay and verdict in its comment.
    #[arg(short, long, value_name = "OUT.pcapng")]
    output: Option<PathBuf>,
    /// Write the frames that the link dropped, with the same comment.
    #[arg(long, value_name = "DROPS.pcapng")]
    drops: Option<PathBuf>,
    /// The interface of the policy by which frames came in; with `CAPTURED=`, only those frames
    /// that the capture has from there. Interfaces of equal names are matched automatically. May be
    /// given several times.
    #[arg(long, value_name = "[CAPTURED=]NAME")]
    interface: Vec<String>,
    /// Draw what each class sent, what waited and was dropped, and how long frames took, as .svg,
    /// .png or .html, by the name.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
    /// Write the same as a data file of Flent.
    #[arg(long, value_name = "FILE.flent.gz", value_parser = flent_file())]
    flent: Option<PathBuf>,
    #[command(flatten)]
    explain: Explain,
}

impl Run for Replay {
    fn run(self, output: &Output) -> Exit {
        let done = match &self.record {
            Some(record) => compare(record, output),
            None => self.replay(output),
        };
        done.unwrap_or_else(|error| output.refuse(&error))
    }
}

impl Replay {
    fn replay(&self, output: &Output) -> Result<Exit, String> {
        let name = self.policy.display().to_string();
        let bytes = input::read(&self.policy).map_err(|error| cannot("read", &name, &error))?;
        let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
        let Some(policy) = &outcome.plan else {
            return Ok(kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome));
        };
        show_findings(&outcome, output);
        let outputs = [
            ("-o", &self.output),
            ("--drops", &self.drops),
            ("--plot", &self.plot),
            ("--flent", &self.flent),
        ];
        whole_file::distinct(&outputs, &[&self.capture])?;
        let map = InterfaceMap::new(policy, &self.interface_pairs())
            .map_err(|error| error.to_string())?;
        let bar = ProgressBar::no_length();
        let mut reader = match CaptureReader::new(self.open_capture(&bar)?) {
            Ok(reader) => reader,
            Err(error) => {
                if let Some(message) = self.mistaken(&error.fault) {
                    return Err(message);
                }
                output.fault(&self.of_capture(&error.to_string()));
                let unread = matches!(error.fault, CaptureFault::Read(_));
                return Ok(if unread { Exit::Usage } else { Exit::Faults });
            }
        };
        let report = self.write(policy, &map, &mut reader)?;
        bar.finish_and_clear();
        self.show(&report, output);
        let exit = report.holding.as_ref().map_or(Exit::Clean, |held| bounds::print(held, output));
        Ok(if report.fault.is_some() { Exit::Faults } else { exit })
    }

    /// Replays into files that get their names once they are complete.
    fn write(
        &self,
        policy: &Policy,
        map: &InterfaceMap,
        reader: &mut CaptureReader<'_>,
    ) -> Result<ReplayReport, String> {
        let files = Files::open(self.plot.as_deref(), self.flent.as_deref())?;
        let mut outputs = Outputs {
            departures: create(&self.output)?,
            drops: create(&self.drops)?,
            timeline: files.any().then(|| Timeline::of_link(&policy.link, None)),
        };
        let report = match self.explain.slowest() {
            Some(slowest) => replay_explained(policy, map, reader, &mut outputs, slowest),
            None => replay(policy, map, reader, &mut outputs),
        };
        let report = report.map_err(|error| match error {
            ReplayError::Write(error) => error.to_string(),
            error => error.to_string(),
        })?;
        for writer in [outputs.departures, outputs.drops].into_iter().flatten() {
            let written = writer.finish().and_then(|buffer| Ok(buffer.into_inner()?));
            written.map_err(|error| error.to_string()).and_then(WholeFile::keep)?;
        }
        if let Some(timeline) = outputs.timeline {
            files.write(&[self.tracks(policy, timeline)], Vec::new())?;
        }
        Ok(report)
    }

    /// Names the tracks of a replay.
    fn tracks(&self, policy: &Policy, timeline: Timeline) -> Tracks {
        let (link, end) = (&policy.link, timeline.latest());
        let rate = link.tree.rate();
        let (policy, capture) = (self.policy.display(), self.capture.display());
        Tracks {
            title: format!("{capture} through {policy}"),
            about: format!("{} at {rate}", link.scheduler),
            rate_bps: vec![(0.0, rate.bits_per_second() as f64)],
            ..timeline.finish(end)
        }
    }

    fn show(&self, report: &ReplayReport, output: &Output) {
        let fault = report.fault.iter().map(|fault| fault.message.clone());
        for message in report.warnings().into_iter().chain(fault) {
            output.warn(&self.of_capture(&message));
        }
        match output.format {
            Format::Json => output.json(report),
            Format::Text => output.text(&report.to_string()),
        }
    }

    /// Returns of which other kind the capture is, if its fault is that it is none.
    fn mistaken(&self, fault: &CaptureFault) -> Option<String> {
        let CaptureFault::NotACapture { .. } = fault else { return None };
        let bytes = input::read(&self.capture).ok()?;
        kind::mistaken(&self.capture.display().to_string(), &bytes, Kind::Capture)
    }

    fn interface_pairs(&self) -> Vec<(Option<String>, String)> {
        let pair = |text: &String| match text.split_once('=') {
            Some((captured, name)) => (Some(captured.to_owned()), name.to_owned()),
            None => (None, text.clone()),
        };
        self.interface.iter().map(pair).collect()
    }

    /// Opens the capture; `bar` shows on a terminal how many bytes were read.
    fn open_capture(&self, bar: &ProgressBar) -> Result<Box<dyn Read>, String> {
        if self.capture.as_os_str() == "-" {
            return Ok(Box::new(bar.wrap_read(io::stdin())));
        }
        let name = self.capture.display().to_string();
        let capture = input::open(&self.capture).map_err(|error| cannot("read", &name, &error))?;
        // A pipe has no length; its bar only counts.
        if let Some(length) = capture.metadata().ok().map(|file| file.len()).filter(|&it| it > 0) {
            let style = ProgressStyle::with_template(BAR);
            bar.set_length(length);
            bar.set_style(style.map_err(|error| error.to_string())?);
        }
        Ok(Box::new(bar.wrap_read(capture)))
    }

    fn of_capture(&self, message: &str) -> String {
        format!("{}: {message}", self.capture.display())
    }
}

/// Makes a record again, and says whether everything was the same.
fn compare(path: &Path, output: &Output) -> Result<Exit, String> {
    let name = path.display().to_string();
    let of_record = |error: String| format!("{name}: {error}");
    let file = input::open(path).map_err(|error| cannot("read", &name, &error))?;
    let reader = RecordReader::new(BufReader::with_capacity(RECORD_PART, file));
    let reader = reader.map_err(|error| of_record(error.to_string()))?;
    let report = recorded::replay(reader).map_err(|error| of_record(error.to_string()))?;
    match output.format {
        Format::Json => output.json(&report),
        Format::Text => output.text(&report.to_string()),
    }
    Ok(if report.is_identical() { Exit::Clean } else { Exit::Faults })
}

type Writer = CaptureWriter<BufWriter<WholeFile>>;

fn create(path: &Option<PathBuf>) -> Result<Option<Writer>, String> {
    let Some(path) = path else { return Ok(None) };
    let file = WholeFile::create(path);
    let writer = file.and_then(|file| CaptureWriter::new(BufWriter::new(file)));
    writer.map(Some).map_err(|error| error.to_string())
}

/// Prints the warnings of a policy without errors to standard error.
fn show_findings(outcome: &Outcome<Policy>, output: &Output) {
    if !outcome.findings.is_empty() {
        let text = render::render(&outcome.findings, &outcome.sources, false);
        output.warn(&format!("{}\n{text}", render::summary(&outcome.findings)));
    }
}

/// The bytes of a record that are read at once.
const RECORD_PART: usize = 256 << 10;
/// The bytes of the capture on the disk, and the remaining time.
const BAR: &str = "{wide_bar} {binary_bytes}/{binary_total_bytes} {eta}";
