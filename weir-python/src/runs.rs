//! Runs: a simulation with its packets and time series, schedulers compared, promises tested.

use crate::answer;
use crate::interrupt::{self, Stop};
use crate::options::Options;
use crate::table::{Cells, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_core::units::Duration;
use weir_infer::{Load, Named};
use weir_policy::file;
use weir_policy::policy::Policy;
use weir_sim::compare::{self, Runs, find};
use weir_sim::promise::{self, Observation, Proof, Verdict};
use weir_sim::segments::{SEGMENTS_MAX, SegmentRow, Segments, tcp_source};
use weir_sim::timeline::{Timelines, Tracks};
use weir_sim::watch::{Place, places};
use weir_sim::{Fate, Report, RunError, Scenario, Watch, keeping, read, replicate};
use weir_trace::series::ClassHistory;

/// The records that the caller wants beside the report.
#[derive(Clone, Copy)]
struct Asked {
    packets: bool,
    /// The place of the TCP source whose segments are wanted.
    flow: Option<usize>,
    series: Option<Duration>,
}

/// The report of a run, and the records beside it.
struct Given {
    report: Report,
    packets: Option<Cells>,
    segments: Option<Cells>,
    series: Option<Cells>,
}

/// Simulates a scenario, as `weir sim` does.
///
/// Returns the report of docs/sim-report.md, a dict. A policy that the scenario names is found
/// relative to `base_dir`, by default the working directory; `seed` replaces the scenario's. With
/// `packets` the attribute `packets` of the report is a table with a row for each packet that left
/// or was dropped; with `series`, the width of a bin such as "100 ms", the attribute `series` is a
/// table of what each class did over time; with `flow`, the name of a TCP source, the attribute
/// `segments` is a table with a row for each segment that a host of it sent. `name` is what
/// findings call the scenario. Raises `weir.Error` if the scenario or its policy has errors; other
/// findings become warnings.
#[pyfunction]
#[pyo3(signature = (scenario_text, base_dir = None, seed = None, **options))]
pub fn simulate<'py>(
    py: Python<'py>,
    scenario_text: &str,
    base_dir: Option<PathBuf>,
    seed: Option<u64>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::of(options, &["packets", "series", "flow", "name"])?;
    let packets = options.take("packets")?.unwrap_or(false);
    let series = options.take::<String>("series")?.as_deref().map(bin_width).transpose()?;
    let scenario = scenario(py, scenario_text, options.take("name")?, base_dir, seed)?;
    let flow: Option<String> = options.take("flow")?;
    let flow = flow.map(|name| tcp_source(&scenario, &name)).transpose();
    let flow = flow.map_err(|why| PyValueError::new_err(format!("flow: {why}")))?;
    let asked = Asked { packets, flow, series };
    if series.is_some_and(|width| scenario.duration.as_nanos() / width.as_nanos() > BINS_MAX) {
        let why = format!("series: the run has more than {BINS_MAX} bins of this width");
        return Err(PyValueError::new_err(why));
    }
    let given = interrupt::run(py, move |stop| simulated(&scenario, asked, stop))?;
    let Given { report, packets, segments, series } =
        given.map_err(|error| answer::error(py, error, &[]))?;
    let made = py.import("weir._report")?.getattr("Report")?.call1((answer::of(py, &report)?,))?;
    for (name, cells) in [("packets", packets), ("segments", segments), ("series", series)] {
        if let Some(cells) = cells {
            made.setattr(name, Table::of(cells)?)?;
        }
    }
    Ok(made)
}

fn bin_width(text: &str) -> PyResult<Duration> {
    let width: Result<Duration, _> = text.parse();
    match width {
        Ok(width) if width > Duration::ZERO => Ok(width),
        Ok(_) => Err(PyValueError::new_err("a bin of `series` is longer than 0 s")),
        Err(error) => Err(PyValueError::new_err(format!("series: {error}"))),
    }
}

fn simulated(scenario: &Scenario, asked: Asked, stop: &Stop) -> Result<Given, String> {
    let mut packets =
        asked.packets.then(|| Packets { places: places(scenario), ..Packets::default() });
    let mut lines = asked.series.map(|width| Timelines::of(scenario, Some(width)));
    let mut tell = |fate: &Fate<'_>| {
        if let Some(packets) = &mut packets {
            packets.add(fate);
        }
        if let Some(lines) = &mut lines {
            lines.add(fate);
        }
    };
    let watch = match asked.packets || asked.series.is_some() {
        // What waits at the end has its place in the series, too.
        true => {
            Watch { packets: Some(&mut tell), rest: asked.series.is_some(), ..Watch::default() }
        }
        false => Watch::default(),
    };
    let watch = Watch { flow: asked.flow, ..watch };
    let run = weir_sim::run_watched(scenario, watch, &mut |_| stop.look());
    let mut report = run.map_err(|error: RunError| error.to_string())?;
    let segments = report.segments.take().map(segment_cells).transpose()?;
    let packets = packets.map(|packets| packets.cells(scenario.duration)).transpose()?;
    let series = lines.map(|lines| {
        let places = lines.places();
        series(&lines.finish(), places)
    });
    Ok(Given { report, packets, segments, series })
}

/// The rows of packets, with the columns of `weir sim --parquet`.
#[derive(Default)]
struct Packets {
    time: Vec<i64>,
    delay: Vec<i64>,
    length: Vec<i64>,
    link: Vec<u32>,
    from: Vec<u32>,
    class: Vec<u32>,
    source: Vec<u32>,
    verdict: Vec<u32>,
    /// Names, each stored once.
    names: BTreeMap<String, u32>,
    /// Those of each outlet.
    places: Vec<Place>,
    too_many: bool,
}

impl Packets {
    fn add(&mut self, fate: &Fate<'_>) {
        if self.time.len() == PACKETS_MAX {
            self.too_many = true;
            return;
        }
        // Simulated times are much smaller than 2^63 ns.
        self.time.push(fate.at.as_nanos() as i64);
        self.delay.push(fate.at.since(fate.arrived).as_nanos() as i64);
        self.length.push(fate.length.into());
        let (link, from) = self.places[fate.outlet.index()].clone();
        let [link, from] = [link, from].map(|text| self.name(&text));
        self.link.push(link);
        self.from.push(from);
        let verdict = fate.dropped.map_or("sent", |reason| reason.name());
        let [class, source, verdict] =
            [fate.class, &fate.source.name, verdict].map(|text| self.name(text));
        self.class.push(class);
        self.source.push(source);
        self.verdict.push(verdict);
    }

    fn name(&mut self, text: &str) -> u32 {
        if let Some(&place) = self.names.get(text) {
            return place;
        }
        let place = self.names.len() as u32;
        self.names.insert(text.to_owned(), place);
        place
    }

    /// Returns the columns of the packets up to the end of the run.
    fn cells(self, end: Duration) -> Result<Cells, String> {
        if self.too_many {
            return Err(format!(
                "the run has more than {PACKETS_MAX} packets; write them with `weir sim --parquet`"
            ));
        }
        let end = end.as_nanos() as i64;
        let kept: Vec<usize> =
            (0..self.time.len()).filter(|&place| self.time[place] <= end).collect();
        let numbers = |of: &[i64]| kept.iter().map(|&place| of[place]).collect::<Vec<_>>();
        let words = |of: &[u32]| kept.iter().map(|&place| of[place]).collect::<Vec<_>>();
        let mut names = vec![String::new(); self.names.len()];
        for (name, place) in &self.names {
            names[*place as usize].clone_from(name);
        }
        let mut cells = Cells::default();
        cells.integers("time_ns", numbers(&self.time));
        cells.integers("delay_ns", numbers(&self.delay));
        cells.integers("length", numbers(&self.length));
        cells.words("class", words(&self.class), &names);
        cells.words("source", words(&self.source), &names);
        cells.words("verdict", words(&self.verdict), &names);
        cells.words("link", words(&self.link), &names);
        cells.words("from", words(&self.from), &names);
        Ok(cells)
    }
}

/// Returns the columns of `weir sim --segments`.
fn segment_cells(all: Segments) -> Result<Cells, String> {
    if all.omitted > 0 {
        let many = "segments; write them with `weir sim --segments`, or simulate a shorter time";
        return Err(format!("the flow has more than {SEGMENTS_MAX} {many}"));
    }
    let rows = &all.rows;
    let numbers = |of: fn(&SegmentRow) -> u64| rows.iter().map(|row| of(row) as i64).collect();
    let mut cells = Cells::default();
    cells.integers("time_ns", numbers(|row| row.at.as_nanos()));
    cells.integers("connection", numbers(|row| row.connection.into()));
    words(&mut cells, "from", rows.iter().map(|row| row.from_word().to_owned()));
    words(&mut cells, "flags", rows.iter().map(SegmentRow::flags_word));
    cells.integers("seq", numbers(|row| row.seq.into()));
    cells.integers("ack", numbers(|row| row.ack.into()));
    cells.integers("length", numbers(|row| row.length.into()));
    cells.integers("window", numbers(|row| row.window.into()));
    cells.integers("sack_blocks", numbers(|row| row.blocks.into()));
    words(&mut cells, "again", rows.iter().map(|row| row.again_word().to_owned()));
    words(&mut cells, "state", rows.iter().map(|row| row.state_word().to_owned()));
    cells.integers("cwnd", numbers(|row| row.cwnd));
    let ssthresh = |row: &SegmentRow| row.ssthresh.map(|bytes| bytes as f64);
    cells.numbers("ssthresh", rows.iter().map(ssthresh).collect());
    cells.integers("in_flight", numbers(|row| row.in_flight));
    let srtt = |row: &SegmentRow| Some(row.srtt.as_nanos() as f64 / 1e3);
    cells.numbers("srtt_us", rows.iter().map(srtt).collect());
    Ok(cells)
}

/// Adds a column of words, each stored once.
fn words(cells: &mut Cells, head: &'static str, all: impl Iterator<Item = String>) {
    let mut names: Vec<String> = Vec::new();
    let place = |word: String| {
        let known = names.iter().position(|name| *name == word);
        known.unwrap_or_else(|| {
            names.push(word);
            names.len() - 1
        }) as u32
    };
    let places = all.map(place).collect();
    cells.words(head, places, &names);
}

/// Returns a row for each link, class and bin.
fn series(all: &[Tracks], places: Vec<Place>) -> Cells {
    let (mut start, mut p50, mut p99) = (Vec::new(), Vec::new(), Vec::new());
    let (mut link, mut class, mut names) = (Vec::new(), Vec::new(), Vec::<String>::new());
    let mut figures: [Vec<Option<f64>>; 4] = Default::default();
    for (tracks, title) in all.iter().zip(0..) {
        for track in &tracks.classes {
            let name = names.len() as u32;
            names.push(track.name.clone());
            let history = &track.history;
            let bins = history.sent_bps.len();
            start.extend((0..bins).map(|bin| bin as f64 * tracks.step_s));
            link.extend(std::iter::repeat_n(title, bins));
            class.extend(std::iter::repeat_n(name, bins));
            let ClassHistory { offered_bps, sent_bps, backlog_bytes, dropped_pps, .. } = history;
            let own = [offered_bps, sent_bps, backlog_bytes, dropped_pps];
            figures.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
            p50.extend(&history.p50_us);
            p99.extend(&history.p99_us);
        }
    }
    let mut cells = Cells::default();
    cells.numbers("start_s", start.into_iter().map(Some).collect());
    let (links, froms): (Vec<String>, Vec<String>) = places.into_iter().unzip();
    cells.words("link", link.clone(), &links);
    cells.words("from", link, &froms);
    cells.words("class", class, &names);
    let heads = ["offered_bps", "sent_bps", "backlog_bytes", "dropped_pps"];
    for (head, figures) in heads.into_iter().zip(figures) {
        cells.numbers(head, figures);
    }
    cells.numbers("delay_p50_us", p50);
    cells.numbers("delay_p99_us", p99);
    cells
}

/// Simulates one scenario under several schedulers, as `weir compare` does.
///
/// Returns the comparison of docs/compare.md, a dict: its `rows` have what each scheduler gave.
/// `seed` replaces the scenario's, `replications` runs each with further seeds, on `threads`
/// threads (by default all cores). Ctrl-C ends it. Raises `ValueError` if there is no such
/// scheduler.
#[pyfunction]
#[pyo3(name = "compare", signature = (scenario_text, schedulers, base_dir = None, **options))]
pub fn compare_schedulers<'py>(
    py: Python<'py>,
    scenario_text: &str,
    schedulers: Vec<String>,
    base_dir: Option<PathBuf>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::of(options, &["seed", "replications", "threads", "name"])?;
    let replications: u16 = options.take("replications")?.unwrap_or(1);
    let (seed, threads) = (options.take("seed")?, options.take::<u16>("threads")?);
    let found = find(&schedulers).map_err(PyValueError::new_err)?;
    if found.is_empty() || replications == 0 {
        return Err(PyValueError::new_err("give one scheduler and one replication, or more"));
    }
    let scenario = scenario(py, scenario_text, options.take("name")?, base_dir, seed)?;
    let scenario = compare::at(scenario, None, None).map_err(PyValueError::new_err)?;
    let compared = interrupt::run(py, move |stop| {
        let threads = threads.map_or_else(replicate::cores, usize::from);
        let runs = Runs { schedulers: &found, replications: replications.into(), threads };
        compare::compare(&scenario, runs, stop.flag(), &mut || ())
    })?;
    answer::of(py, &compared)
}

/// The proofs of a policy's promises.
#[derive(Serialize)]
struct Tested {
    runs: u32,
    kept: usize,
    promises: Vec<Promise>,
}

#[derive(Serialize)]
struct Promise {
    that: String,
    under: String,
    #[serde(flatten)]
    proof: Proof,
}

/// Tests the promises of a policy, as `weir test` does: simulates the scenario of each, `runs`
/// times.
///
/// Scenarios are found relative to `base_dir`. Returns a dict of `runs`, `kept` and `promises`, as
/// docs/promises.md describes them. Raises `weir.Error` if a file has errors, or the policy
/// promises nothing.
#[pyfunction]
#[pyo3(signature = (text, base_dir = None, *, runs = 5))]
pub fn test<'py>(
    py: Python<'py>,
    text: &str,
    base_dir: Option<PathBuf>,
    runs: u32,
) -> PyResult<Bound<'py, PyAny>> {
    if !(1..=RUNS_MAX).contains(&runs) {
        return Err(PyValueError::new_err(format!("runs: 1 to {RUNS_MAX}")));
    }
    let base = base_dir.unwrap_or_default();
    let policy = crate::effects::read(py, text, "policy.toml")?;
    if policy.promises.is_empty() {
        let why = "the policy promises nothing; write `[[promise]]` tables";
        return Err(answer::error(py, why.to_owned(), &[]));
    }
    let mut scenarios = BTreeMap::new();
    for promise in &policy.promises {
        if !scenarios.contains_key(&promise.under) {
            let made = promised(py, &policy, &base.join(&promise.under))?;
            scenarios.insert(promise.under.clone(), made);
        }
    }
    let tested = interrupt::run(py, move |stop| tested(&policy, &scenarios, runs, stop))?;
    answer::of(py, &tested.map_err(|why| answer::error(py, why, &[]))?)
}

/// Returns the scenario of a promise, with the policy.
fn promised(py: Python<'_>, policy: &Policy, path: &Path) -> PyResult<Scenario> {
    let name = path.display().to_string();
    let bytes = file::read_named(path).map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot read {name}: {error}"))
    })?;
    let load = py.detach(|| Load::of(Named::new(name.clone(), &*bytes)));
    let load = load.map_err(|why| answer::error(py, why, &[]))?;
    let outcome = py.detach(|| match &load {
        Some(load) => {
            let read_file = |path: &Path| load.read(path);
            read::parse_with(load.text.as_bytes(), &name, &read_file, policy)
        }
        None => read::parse_with(&bytes, &name, &|path: &Path| file::read_named(path), policy),
    });
    let scenario = answer::plan(py, outcome)?;
    if scenario.network.is_some() {
        let why = format!("{name} is a network; promise under a scenario with one link");
        return Err(answer::error(py, why, &[]));
    }
    Ok(Scenario { name, ..scenario })
}

fn tested(
    policy: &Policy,
    scenarios: &BTreeMap<String, Scenario>,
    runs: u32,
    stop: &Stop,
) -> Result<Tested, String> {
    let mut seen: BTreeMap<&str, Vec<Observation>> = BTreeMap::new();
    for (under, scenario) in scenarios {
        stop.look();
        let failed = |error: RunError| format!("{}: {error}", scenario.name);
        let holding = keeping::hold(scenario).map_err(failed)?;
        if let Some(bound) = holding.iter().flat_map(|holding| holding.broken()).next() {
            return Err(format!("a bound is broken, which is a bug of Weir: {bound}"));
        }
        seen.insert(under, promise::observe(scenario, runs).map_err(failed)?);
    }
    let tree = &policy.link.tree;
    let row = |promise: &weir_policy::policy::Promise| Promise {
        that: promise.that.clone(),
        under: promise.under.clone(),
        proof: promise::prove(&promise.promised, tree, &seen[promise.under.as_str()]),
    };
    let promises: Vec<Promise> = policy.promises.iter().map(row).collect();
    let kept = promises.iter().filter(|row| row.proof.verdict == Verdict::Kept).count();
    Ok(Tested { runs, kept, promises })
}

/// Returns a scenario; its warnings become Python's.
fn scenario(
    py: Python<'_>,
    text: &str,
    name: Option<String>,
    base_dir: Option<PathBuf>,
    seed: Option<u64>,
) -> PyResult<Scenario> {
    let name = name.as_deref().unwrap_or(SCENARIO_NAME);
    let base = base_dir.unwrap_or_default();
    let read_file = |path: &Path| file::read_named(&base.join(path));
    let outcome = py.detach(|| read::parse(text.as_bytes(), name, &read_file));
    let scenario = answer::plan(py, outcome)?;
    Ok(Scenario { seed: seed.unwrap_or(scenario.seed), ..scenario })
}

/// The name of a scenario in findings; its stem names a scenario without a name.
const SCENARIO_NAME: &str = "scenario.toml";
/// Bound: rows of packets in Python; a run with more is an error. 44 bytes each while the run
/// lasts.
const PACKETS_MAX: usize = 50_000_000;
/// Bound: runs of one call from Python; a call for more is an error.
const RUNS_MAX: u32 = 1000;
/// The most bins of a series, as those of a picture.
const BINS_MAX: u64 = weir_sim::timeline::FIXED_BINS_MAX as u64;
