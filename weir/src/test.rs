//! `weir test`: simulates the promises of a policy, and reports whether they are kept.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::picture::{Files, picture_file};
use crate::sim::bounds;
use crate::{Run, input, whole_file};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_core::ids::ClassId;
use weir_core::units::Duration;
use weir_infer::Load;
use weir_policy::policy::{self, Measure, Metric, Policy, Promise};
use weir_policy::render;
use weir_policy::table::{Table, millis};
use weir_sim::keeping;
use weir_sim::promise::{self, Observation, Proof, Verdict};
use weir_sim::read;
use weir_sim::timeline::{Timelines, Tracks};
use weir_sim::{Fate, Scenario, Watch};

/// Tests the promises of a policy: simulates the scenario of each, several times.
///
/// Exits 0 if all are kept, 1 if one is broken or undecided or the policy has errors, 2 if a file
/// cannot be read.
#[derive(clap::Args)]
pub struct Test {
    /// The policy, in TOML; scenarios are found relative to it, and run with this policy. Captures
    /// and records stand for what `weir infer` finds in them.
    policy: PathBuf,
    /// The number of runs of each scenario, with different seeds.
    #[arg(long, default_value_t = RUNS,
        value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX))]
    runs: u32,
    /// Draw the first run of each scenario: what each class sent, what waited and was dropped, and
    /// how long packets took, with the verdicts; as .svg, .png or .html, by the name.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture_file())]
    plot: Option<PathBuf>,
}

/// The output of `--format json`; docs/promises.md describes it.
#[derive(Serialize)]
struct Tested {
    file: String,
    runs: u32,
    kept: usize,
    promises: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    that: String,
    under: String,
    #[serde(flatten)]
    proof: Proof,
}

impl Run for Test {
    fn run(self, output: &Output) -> Exit {
        let name = self.policy.display().to_string();
        let bytes = match input::read(&self.policy) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
        if outcome.failed() {
            return kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome);
        }
        eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
        let policy = outcome.plan.expect("without errors there is a plan");
        if policy.promises.is_empty() {
            return output.refuse(&format!("{name} promises nothing; write `[[promise]]` tables"));
        }
        self.test(&policy, name, output).unwrap_or_else(|exit| exit)
    }
}

impl Test {
    fn test(&self, policy: &Policy, name: String, output: &Output) -> Result<Exit, Exit> {
        let folder = self.policy.parent().unwrap_or(Path::new("")).to_owned();
        let mut scenarios = BTreeMap::new();
        for promise in &policy.promises {
            if !scenarios.contains_key(promise.under.as_str()) {
                let scenario = scenario(policy, &folder.join(&promise.under), output)?;
                scenarios.insert(promise.under.as_str(), scenario);
            }
        }
        let refuse = |error: String| output.refuse(&error);
        whole_file::distinct(&[("--plot", &self.plot)], &[]).map_err(refuse)?;
        let files = Files::open(self.plot.as_deref(), None).map_err(refuse)?;
        let mut seen = BTreeMap::new();
        for (under, scenario) in &scenarios {
            seen.insert(*under, observe(scenario, self.runs, output)?);
        }
        let row = |promise: &Promise| Row {
            that: promise.that.clone(),
            under: promise.under.clone(),
            proof: promise::prove(
                &promise.promised,
                &policy.link.tree,
                &seen[promise.under.as_str()],
            ),
        };
        let promises: Vec<_> = policy.promises.iter().map(row).collect();
        if files.any() {
            let drawn =
                scenarios.iter().map(|(under, scenario)| tracks(under, scenario, &promises));
            let drawn: Vec<Tracks> = drawn.collect::<Result<_, _>>().map_err(refuse)?;
            files.write(&drawn, Vec::new()).map_err(refuse)?;
        }
        Ok(print(output, policy, Tested { file: name, runs: self.runs, kept: 0, promises }))
    }
}

/// Returns what classes did in the first run of a scenario, with the verdicts on its promises.
fn tracks(under: &str, scenario: &Scenario, promises: &[Row]) -> Result<Tracks, String> {
    let mut timelines = Timelines::of(scenario, None);
    let mut tell = |fate: &Fate<'_>| timelines.add(fate);
    let watch = Watch { packets: Some(&mut tell), rest: true, ..Watch::default() };
    weir_sim::run_watched(scenario, watch, &mut |_: Duration| {})
        .map_err(|error| format!("{}: {error}", scenario.name))?;
    let verdict = |row: &Row| format!("{}: {}", row.that, row.proof.verdict.name());
    let own = promises.iter().filter(|row| row.under == under);
    let tracks = timelines.finish().swap_remove(0);
    let about = format!("{under}: {}", tracks.about);
    Ok(Tracks { about, notes: own.map(verdict).collect(), ..tracks })
}

/// Returns a scenario with the policy.
fn scenario(policy: &Policy, path: &Path, output: &Output) -> Result<Scenario, Exit> {
    let name = path.display().to_string();
    let load = load(path, output)?;
    let (bytes, outcome) = match &load {
        Some(load) => {
            let bytes = load.text.clone().into_bytes();
            let outcome = read::parse_with(&bytes, &name, &|path: &Path| load.read(path), policy);
            (bytes, outcome)
        }
        None => {
            let bytes = input::read_named(path)
                .map_err(|error| output.refuse(&format!("cannot read {name}: {error}")))?;
            let read_file = |path: &Path| input::read_named(path);
            let outcome = read::parse_with(&bytes, &name, &read_file, policy);
            (bytes, outcome)
        }
    };
    if outcome.failed() {
        return Err(kind::refuse(output, (&name, &bytes), Kind::Scenario, &outcome));
    }
    let scenario = outcome.plan.expect("without errors there is a plan");
    if scenario.network.is_some() {
        let cure = "promise under a scenario with one link";
        return Err(output.refuse(&format!("{name} is a network, without a single policy; {cure}")));
    }
    Ok(Scenario { name, ..scenario })
}

/// Returns what is inferred from a capture or a record; `None` of another file.
fn load(path: &Path, output: &Output) -> Result<Option<Load>, Exit> {
    if !path.is_file() {
        return Ok(None);
    }
    let load = crate::infer::open(path).and_then(Load::of);
    let load = load.map_err(|error| output.refuse(&error))?;
    let fault = load.iter().filter_map(|load| load.fault.as_ref());
    fault.for_each(|fault| output.warn(&format!("{}: it ends early: {fault}", path.display())));
    Ok(load)
}

/// Runs a scenario, several times.
fn observe(scenario: &Scenario, runs: u32, output: &Output) -> Result<Vec<Observation>, Exit> {
    let name = &scenario.name;
    let refused = |error| output.fault(&format!("{name}: {error}"));
    // Promises are about percentiles and means, bounds about every packet.
    let holding = keeping::hold(scenario).map_err(refused)?;
    let exit = holding.map_or(Exit::Clean, |holding| bounds::print(&holding, output));
    if exit != Exit::Clean {
        return Err(exit);
    }
    promise::observe(scenario, runs).map_err(refused)
}

fn print(output: &Output, policy: &Policy, mut tested: Tested) -> Exit {
    let kept = |row: &&Row| row.proof.verdict == Verdict::Kept;
    tested.kept = tested.promises.iter().filter(kept).count();
    match output.format {
        Format::Json => output.json(&tested),
        Format::Text => {
            output.table(&table(policy, &tested.promises));
            let (kept, all) = (tested.kept, tested.promises.len());
            output.text(&format!("{}: {kept} of {all} promises kept\n", tested.file));
            if tested.runs == 1 {
                output
                    .text("one run has no interval, so it decides nothing: use --runs 2 or more\n");
            }
        }
    }
    if tested.kept == tested.promises.len() { Exit::Clean } else { Exit::Faults }
}

fn table(policy: &Policy, rows: &[Row]) -> Table {
    let head = ["promise", "under", "measured", "±", "goal", "verdict"];
    let mut table = Table::new(head).words(&[1, 5]);
    for (row, promise) in rows.iter().zip(&policy.promises) {
        let measure = promise.promised.measure;
        let own = |value: Option<f64>| value.map_or("-".to_owned(), |value| shown(measure, value));
        table.row([
            row.that.clone(),
            row.under.clone(),
            own(row.proof.measured),
            own(row.proof.plus_minus),
            own(row.proof.goal),
            row.proof.verdict.name().to_owned(),
        ]);
        if row.proof.verdict != Verdict::Kept {
            table.mark(VERDICT);
        }
    }
    table
}

/// Formats a value in the unit of its measure.
fn shown(measure: Measure<ClassId>, value: f64) -> String {
    match measure {
        Measure::Fairness => format!("{:.2} %", value * 100.0),
        Measure::Class(_, Metric::Rate) => format!("{:.4} Mbit/s", value / 1e6),
        Measure::Class(_, Metric::Delay(_) | Metric::DelayMean) => {
            format!("{} ms", millis(value * 1e6))
        }
        Measure::Class(_, Metric::Loss) => format!("{:.3} %", value * 100.0),
        Measure::Class(_, Metric::Drops) => format!("{value:.1} packets"),
        Measure::Class(_, Metric::BacklogMax) => format!("{value:.0} B"),
    }
}

/// The column of the verdict.
const VERDICT: usize = 5;
const RUNS: u32 = 5;
const RUNS_MAX: i64 = 1000;
