//! `weir sim`: runs a scenario in simulated time and prints the results of each class and source.

pub mod bounds;
pub mod memory;
mod packets;
pub mod record;

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::picture::{Files, flent_file, picture_file};
use crate::whole_file::{self, WholeFile};
use crate::{Run, input};
use clap::builder::{PathBufValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use memory::Runs;
use packets::Trace;
use record::{Recording, Written as Texts};
use std::io::{BufReader, BufWriter, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use weir_cli::rows::{self, Rows};
use weir_core::units::{Bytes, Duration, Instant};
use weir_host::signals::StopSignal;
use weir_policy::render;
use weir_sim::host::Calibrated;
use weir_sim::keeping::Keeping;
use weir_sim::memory::Beside;
use weir_sim::read::SEED_MAX;
use weir_sim::replicate::{self, REPLICATIONS_MAX, Summary};
use weir_sim::timeline::{FIXED_BINS_MAX, Timelines};
use weir_sim::{Fate, Report, Scenario, Watch, read, recorded, segments};
use weir_trace::explain::{SLOWEST_DEFAULT, SLOWEST_MAX};
use weir_trace::record::RecordReader;

/// Simulates a scenario: sources, a policy's link, receivers.
///
/// The same scenario and seed print the same bytes, on any number of threads. If a class of the
/// policy declares its traffic (`arrival`), the worst delays and backlogs are compared with their
/// bounds. Exits 0 if it ran, 1 if the scenario has errors or a bound is broken, 2 if it cannot be
/// read or does not fit in memory. docs/sim-report.md describes the output.
#[derive(clap::Args)]
pub struct Sim {
    /// The scenario, in TOML.
    #[arg(required_unless_present = "from", default_value = "-", hide_default_value = true)]
    scenario: PathBuf,
    /// Simulate what a record of a running link has instead: its policy, and its frames as sources.
    #[arg(long, value_name = "RECORD", conflicts_with = "scenario")]
    from: Option<PathBuf>,
    /// With --from: the direction of the record; by default the first.
    #[arg(long, value_name = "NAME", requires = "from")]
    direction: Option<String>,
    /// A seed other than the scenario's.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: Option<u64>,
    /// The delays and limits that a host adds, as `weir calibrate` writes them: the way to the
    /// receiver and back, and window, quick acknowledgements and timestamps of the kernel's TCP.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    #[command(flatten)]
    explain: Explain,
    /// Report the bytes that each class sent in each bin of this width, such as `1s`.
    #[arg(long, value_name = "WIDTH", value_parser = width)]
    bins: Option<Duration>,
    /// With --bins: also write them as lines of `start_s,class,bytes`; in a network of
    /// `start_s,link,from,class,bytes`.
    #[arg(long, value_name = "FILE", requires = "bins")]
    csv: Option<PathBuf>,
    /// Run this many times, each with the next seed, and report means with their 95 % confidence
    /// intervals. After Ctrl-C the finished runs are reported.
    #[arg(long, value_name = "N",
        conflicts_with_all = ["explain", "bins", "parquet", "trace", "record", "plot", "flent"],
        value_parser = clap::value_parser!(u64).range(1..=REPLICATIONS_MAX))]
    replications: Option<u64>,
    /// With --replications: runs at the same time; by default one for each core.
    #[arg(long, value_name = "K", requires = "replications",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Also write the report as JSON to this file; of replications, the summary and each report.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a row for each packet that left or was dropped.
    #[arg(long, value_name = "FILE",
        value_parser = PathBufValueParser::new().try_map(rows::writable))]
    parquet: Option<PathBuf>,
    /// Write the packets as they leave the link, each with class, source and delay in its comment;
    /// in a network each direction of a link is an interface.
    #[arg(long, value_name = "FILE.pcapng")]
    trace: Option<PathBuf>,
    /// Write a record, as a running link would: `weir view FILE` shows packets, delays, why they
    /// waited, and forks; docs/record.md.
    #[arg(long, value_name = "FILE.pcapng", conflicts_with = "from")]
    record: Option<PathBuf>,
    /// Follow the connections of this TCP source: --segments writes what its hosts send, --plot
    /// draws its windows too.
    #[arg(long, value_name = "SOURCE", conflicts_with = "replications")]
    flow: Option<String>,
    /// With --flow: write a line for each segment that a host of it sends, with the congestion
    /// window, what is under way and the round trip.
    #[arg(long, value_name = "FILE.csv", requires = "flow")]
    segments: Option<PathBuf>,
    /// Draw what each class sent, what waited and was dropped, and how long packets took, as .svg,
    /// .png or .html, by the name.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
    /// Write the same as a data file of Flent; in a network, of the main link.
    #[arg(long, value_name = "FILE.flent.gz", value_parser = flent_file())]
    flent: Option<PathBuf>,
    /// The most memory that a run may be expected to need; by default the free memory.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
}

/// Whether to explain why packets waited; also an option of `weir replay`.
#[derive(clap::Args)]
pub struct Explain {
    /// Explain why packets waited: behind their own class, for the line, held back by a limit, or
    /// while others had their turns.
    #[arg(long)]
    explain: bool,
    /// With --explain: show this many of the slowest packets.
    #[arg(long, value_name = "N", requires = "explain", default_value_t = SLOWEST_DEFAULT as u16,
        value_parser = clap::value_parser!(u16).range(..=SLOWEST_MAX as i64))]
    slowest: u16,
}

impl Explain {
    /// Returns how many of the slowest packets to show, if --explain is given.
    pub fn slowest(&self) -> Option<usize> {
        self.explain.then_some(usize::from(self.slowest))
    }
}

impl Run for Sim {
    fn run(self, output: &Output) -> Exit {
        let outputs = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--parquet", &self.parquet),
            ("--trace", &self.trace),
            ("--record", &self.record),
            ("--segments", &self.segments),
            ("--plot", &self.plot),
            ("--flent", &self.flent),
        ];
        let scenario = match &self.from {
            Some(record) => {
                of_record(record, self.direction.as_deref()).map_err(|why| output.refuse(&why))
            }
            None => scenario(&self.scenario, output),
        };
        let mut scenario = match scenario {
            Ok(scenario) => scenario,
            Err(exit) => return exit,
        };
        if let Err(error) = whole_file::distinct(&outputs, &[]) {
            return output.refuse(&error);
        }
        if self.flow.is_some() && self.segments.is_none() && self.plot.is_none() {
            return output.refuse("--flow says whose segments: add --segments FILE or --plot FILE");
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        let host = match self.host.as_deref().map(host).transpose() {
            Ok(host) => host,
            Err(error) => return output.refuse(&error),
        };
        if let Some(calibrated) = &host {
            calibrated.host.apply(&mut scenario);
        }
        let done = match self.replications {
            Some(count) => self.replicate(&scenario, count, host, output),
            None => self.simulate(&scenario, host, output),
        };
        done.unwrap_or_else(|error| output.refuse(&error))
    }
}

/// Reads what a host adds.
fn host(path: &Path) -> Result<Calibrated, String> {
    let name = path.display().to_string();
    let bytes = input::read(path).map_err(|error| whole_file::cannot("read", &name, &error))?;
    let outcome = weir_sim::host::parse(&bytes, &name);
    match outcome.plan {
        Some(host) if !outcome.failed() => Ok(Calibrated { file: name, host }),
        _ => Err(render::render(&outcome.findings, &outcome.sources, false)),
    }
}

/// Returns the scenario of a record.
fn of_record(path: &Path, direction: Option<&str>) -> Result<Scenario, String> {
    let name = path.display().to_string();
    let file = input::open(path).map_err(|error| whole_file::cannot("read", &name, &error))?;
    let reader = RecordReader::new(BufReader::new(file));
    let reader = reader.map_err(|error| format!("{name}: {error}"))?;
    recorded::scenario(reader, direction).map_err(|error| format!("{name}: {error}"))
}

/// Returns the scenario of a file; prints its findings.
///
/// # Errors
/// Returns the exit code if there is none.
pub fn scenario(path: &Path, output: &Output) -> Result<Scenario, Exit> {
    let name = path.display().to_string();
    let bytes = match input::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(output.refuse(&format!("cannot read {name}: {error}"))),
    };
    let outcome = read::parse(&bytes, &name, &|path: &Path| input::read_named(path));
    if outcome.failed() {
        return Err(kind::refuse(output, (&name, &bytes), Kind::Scenario, &outcome));
    }
    // Warnings are not part of the result.
    eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
    Ok(outcome.plan.expect("without errors there is a plan"))
}

impl Sim {
    fn simulate(
        &self,
        scenario: &Scenario,
        host: Option<Calibrated>,
        output: &Output,
    ) -> Result<Exit, String> {
        let flow = self.flow.as_deref().map(|name| segments::tcp_source(scenario, name));
        let flow = flow.transpose().map_err(|why| format!("--flow {why}"))?;
        let packets = self.parquet.is_some() || self.trace.is_some() || self.record.is_some();
        let beside = Beside { bins: self.bins, packets };
        memory::check(scenario, Runs { threads: 1, count: 1, beside }, self.memory)?;
        let trace = |path: &PathBuf| Trace::create(path, scenario);
        let mut trace = self.trace.as_ref().map(trace).transpose()?;
        let mut record = self.recording(scenario)?;
        let rows = self.parquet.as_ref().map(|path| Rows::create(path, scenario));
        let mut rows = rows.transpose()?;
        let files = Files::open(self.plot.as_deref(), self.flent.as_deref())?;
        let mut timelines = self.timelines(scenario, &files)?;
        let mut keeping = Keeping::of(scenario);
        let end = Instant::ZERO.after(scenario.duration);
        let report = {
            let rest = timelines.is_some() || record.is_some();
            let told = packets || keeping.is_some() || rest;
            let mut tell = |fate: &Fate<'_>| {
                if let Some(timelines) = &mut timelines {
                    timelines.add(fate);
                }
                if let Some((_, record)) = &mut record {
                    record.add(fate);
                }
                // Packets that wait at the end are only drawn and recorded.
                if fate.at > end {
                    return;
                }
                if let Some(keeping) = &mut keeping {
                    keeping.add(fate);
                }
                if let Some(trace) = &mut trace {
                    trace.add(fate);
                }
                if let Some(rows) = &mut rows {
                    rows.add(fate);
                }
            };
            let packets = told.then_some(&mut tell as &mut dyn FnMut(&Fate<'_>));
            let slowest = self.explain.slowest();
            let objects = false;
            let bins = self.bins;
            watched(scenario, Watch { slowest, bins, packets, flow, objects, rest })
        };
        let report = match report {
            Ok(report) => Report { host, ..report },
            Err(error) => {
                return Ok(output.fault(&format!("{}: {error}", scenario.name)));
            }
        };
        trace.map(Trace::finish).transpose()?;
        record.map(|record| self.end_record(record, output)).transpose()?;
        rows.map(Rows::finish).transpose()?;
        let tracks = timelines.map(Timelines::finish);
        let segments = report.segments.as_ref().map(weir_show::segments::part);
        let parts = segments.into_iter().chain(weir_show::behind::parts(&report)).collect();
        tracks.map(|tracks| files.write(&tracks, parts)).transpose()?;
        self.write(&report, output)?;
        match output.format {
            Format::Json => output.text(&report.to_json()),
            Format::Text => output.text(&report.to_string()),
        }
        Ok(keeping.map_or(Exit::Clean, |keeping| bounds::print(&keeping.holding(), output)))
    }

    /// Returns an empty record and its file, if one is wanted.
    fn recording(&self, scenario: &Scenario) -> Result<Option<(WholeFile, Recording)>, String> {
        let Some(path) = &self.record else { return Ok(None) };
        if self.scenario == Path::new("-") {
            return Err("--record reads the scenario's policies: name a file".to_owned());
        }
        let name = self.scenario.display().to_string();
        let cannot = |error| whole_file::cannot("read", &name, &error);
        let bytes = input::read(&self.scenario).map_err(cannot)?;
        let (text, read) = (String::from_utf8_lossy(&bytes), &input::read_named);
        let texts = Texts { text: &text, name: &self.scenario, read, scheduler: None };
        let recording = Recording::of(scenario, texts)?;
        let file = WholeFile::create(path).map_err(|error| error.to_string())?;
        Ok(Some((file, recording)))
    }

    /// Writes the record, says on standard error how to see it, and warns if packets came to
    /// another class than in the run.
    fn end_record(
        &self,
        (file, record): (WholeFile, Recording),
        output: &Output,
    ) -> Result<(), String> {
        let (file, others) = record.finish(BufWriter::new(file))?;
        file.into_inner().map_err(|error| error.to_string())?.keep()?;
        let name = self.record.as_deref().unwrap_or(Path::new("")).display();
        if output.format == Format::Text {
            output.warn(&format!("{name} has every packet: `weir view {name}` shows it"));
        }
        if others > 0 {
            let what = "packets have another class in the record than in the run";
            output.warn(&format!("--record: {others} {what}"));
        }
        Ok(())
    }

    /// Returns empty timelines if a picture is wanted of them.
    fn timelines<'a>(
        &self,
        scenario: &'a Scenario,
        files: &Files,
    ) -> Result<Option<Timelines<'a>>, String> {
        if let Some(width) = self.bins.filter(|_| files.any()) {
            let bins = scenario.duration.as_nanos().div_ceil(width.as_nanos());
            if bins > FIXED_BINS_MAX as u64 {
                return Err(format!(
                    "--bins {width} gives {bins} bins, a picture shows {FIXED_BINS_MAX}; use wider \
                     ones"
                ));
            }
        }
        Ok(files.any().then(|| Timelines::of(scenario, self.bins)))
    }

    /// Writes the files of a report.
    fn write(&self, report: &Report, output: &Output) -> Result<(), String> {
        if let Some(path) = &self.json {
            whole_file::write(path, &report.to_json())?;
        }
        if let (Some(path), Some(lines)) = (&self.csv, report.bins_csv()) {
            whole_file::write(path, &lines)?;
        }
        if let (Some(path), Some(segments)) = (&self.segments, &report.segments) {
            whole_file::write(path, &segments.to_csv())?;
            if segments.omitted > 0 {
                let (kept, more) = (segments::SEGMENTS_MAX, segments.omitted);
                output.warn(&format!("--segments: the first {kept} lines; {more} more left out"));
            }
        }
        Ok(())
    }

    fn replicate(
        &self,
        scenario: &Scenario,
        count: u64,
        host: Option<Calibrated>,
        output: &Output,
    ) -> Result<Exit, String> {
        let last = scenario.seed.checked_add(count - 1).filter(|last| *last <= SEED_MAX);
        if last.is_none() {
            let text = format!(
                "--replications {count} from seed {} on needs seeds beyond {SEED_MAX}",
                scenario.seed
            );
            return Ok(output.refuse(&text));
        }
        let threads = self.threads.map_or_else(replicate::cores, usize::from);
        let threads = threads.min(usize::try_from(count).unwrap_or(usize::MAX));
        let runs = Runs { threads, count, beside: Beside::default() };
        memory::check(scenario, runs, self.memory)?;
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let bar = count_bar(count);
        let base = scenario.clone();
        let make = move |place: usize| Scenario {
            seed: base.seed.wrapping_add(place as u64),
            ..base.clone()
        };
        let step = &mut || bar.inc(1);
        let outcomes = replicate::each(count as usize, make, threads, stop.flag(), step);
        bar.finish_and_clear();
        let mut reports = Vec::with_capacity(outcomes.len());
        for (_, outcome) in outcomes {
            match outcome {
                Ok(report) => reports.push(Report { host: host.clone(), ..report }),
                Err(error) => {
                    return Ok(output.fault(&format!("{}: {error}", scenario.name)));
                }
            }
        }
        let whole = reports.len() as u64 == count;
        if !whole {
            output.warn(&format!("stopped: {} of {count} replications ended", reports.len()));
        }
        let exit = if whole { Exit::Clean } else { Exit::Interrupted };
        let Some(summary) = Summary::of(&reports, count as usize) else { return Ok(exit) };
        if let Some(path) = &self.json {
            whole_file::write_json(path, &Written { summary: &summary, runs: &reports })?;
        }
        match output.format {
            Format::Json => output.json(&summary),
            Format::Text => output.text(&summary.to_string()),
        }
        Ok(exit)
    }
}

/// The contents of --json with replications.
#[derive(serde::Serialize)]
struct Written<'a> {
    summary: &'a Summary,
    runs: &'a [Report],
}

/// Parses a width of bins: a time above 0, such as `1s`.
fn width(text: &str) -> Result<Duration, String> {
    let width: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if width == Duration::ZERO {
        return Err("bins need a width; write 1s, for example".to_owned());
    }
    Ok(width)
}

/// Runs a scenario with a progress bar.
fn watched<'a>(scenario: &'a Scenario, watch: Watch<'a>) -> Result<Report, weir_sim::RunError> {
    let bar = bar(scenario.duration);
    let progress = &mut |at: Duration| bar.set_position(at.as_nanos() / 1_000_000);
    let report = weir_sim::run_watched(scenario, watch, progress);
    bar.finish_and_clear();
    report
}

/// A progress bar in simulated milliseconds; hidden without a terminal.
fn bar(duration: Duration) -> ProgressBar {
    shown(duration.as_nanos() / 1_000_000, "simulating {bar:40} {percent:>3} %  {eta} left")
}

/// A progress bar in runs; hidden without a terminal.
pub fn count_bar(count: u64) -> ProgressBar {
    shown(count, "simulating {bar:40} {pos} of {len}  {eta} left")
}

fn shown(length: u64, template: &str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.expect("the template is well formed"))
}
