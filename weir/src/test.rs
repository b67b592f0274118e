//! `weir test`: simulates the promises of a policy, and reports whether they are kept.

mod over;

use self::over::{Trace, Worst};
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
use weir_policy::policy::{self, Behind, Measure, Metric, Policy, Promise};
use weir_policy::render;
use weir_policy::table::{Table, millis};
use weir_sim::keeping;
use weir_sim::network::led_by;
use weir_sim::network::plan::OutletId;
use weir_sim::promise::{self, Observation, Proof, Verdict};
use weir_sim::read;
use weir_sim::timeline::{Timelines, Tracks};
use weir_sim::{Fate, Scenario, Watch};
use weir_sweep::edit::Edited;

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
    /// Test each promise with each of these traces in place of the capacity behind the scenario's
    /// link, and name the worst; of a folder all files, except notes (.md).
    #[arg(long, value_name = "FILE|FOLDER,...", value_delimiter = ',', conflicts_with = "plot")]
    over: Vec<PathBuf>,
}

/// The scenarios of promises, by the name that the policy writes.
type Scenarios<'a> = BTreeMap<&'a str, Scenario>;

/// The output of `--format json`; docs/promises.md describes it.
#[derive(Serialize)]
struct Tested {
    file: String,
    runs: u32,
    kept: usize,
    promises: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    worst: Vec<Worst>,
}

#[derive(Serialize)]
struct Row {
    that: String,
    under: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
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
        let mut scenarios = Scenarios::new();
        for promise in &policy.promises {
            if !scenarios.contains_key(promise.under.as_str()) {
                let scenario = self.scenario(policy, Path::new(&promise.under), output)?;
                scenarios.insert(promise.under.as_str(), scenario);
            }
        }
        let (file, runs) = (name, self.runs);
        if !self.over.is_empty() {
            let (promises, worst) = self.over(policy, &scenarios, output)?;
            return Ok(print(output, policy, Tested { file, runs, kept: 0, promises, worst }));
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
            trace: None,
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
        let worst = Vec::new();
        Ok(print(output, policy, Tested { file, runs, kept: 0, promises, worst }))
    }

    /// Returns a row for each promise with each trace, and the worst trace of each promise.
    fn over(
        &self,
        policy: &Policy,
        scenarios: &Scenarios<'_>,
        output: &Output,
    ) -> Result<(Vec<Row>, Vec<Worst>), Exit> {
        let traces = over::traces(&self.over).map_err(|why| output.refuse(&why))?;
        let mut rows = Vec::new();
        for (under, scenario) in scenarios {
            for trace in &traces {
                rows.extend(self.with(policy, (under, scenario), trace, output)?);
            }
        }
        let is = |row: &Row, one: &Promise| row.that == one.that && row.under == one.under;
        rows.sort_by_key(|row| policy.promises.iter().position(|one| is(row, one)));
        let worst = |promise: &Promise| {
            let own = rows.iter().filter(|row| is(row, promise));
            let named = own.filter_map(|row| Some((row.trace.as_deref()?, &row.proof)));
            Worst::of(promise, named)
        };
        let worst = policy.promises.iter().filter_map(worst).collect();
        Ok((rows, worst))
    }

    /// Tests the promises under a scenario with a trace.
    fn with(
        &self,
        policy: &Policy,
        (under, scenario): (&str, &Scenario),
        trace: &Trace,
        output: &Output,
    ) -> Result<Vec<Row>, Exit> {
        let cure = match under.ends_with(".toml") {
            true => "write `[behind]` there, or leave --over out",
            false => {
                "put a scenario with `[behind]` in the place of the capture, or leave --over out"
            }
        };
        let refuse = || output.refuse(&format!("{under} has no bottleneck; {cure}"));
        let scenario = scenario.with_capacity(&trace.capacity).ok_or_else(refuse)?;
        let seen = observe(&scenario, self.runs, output)?;
        let own = policy.promises.iter().filter(|promise| promise.under == under);
        let row = |promise: &Promise| Row {
            that: promise.that.clone(),
            under: promise.under.clone(),
            trace: Some(trace.name.clone()),
            proof: promise::prove(&promise.promised, &policy.link.tree, &seen),
        };
        Ok(own.map(row).collect())
    }

    /// Returns a scenario with the policy; `under` is relative to the policy.
    fn scenario(&self, policy: &Policy, under: &Path, output: &Output) -> Result<Scenario, Exit> {
        let path = self.policy.parent().unwrap_or(Path::new("")).join(under);
        let name = path.display().to_string();
        let load = load(&path, output)?;
        let bytes = match &load {
            Some(load) => load.text.clone().into_bytes(),
            None => input::read_named(&path)
                .map_err(|error| output.refuse(&format!("cannot read {name}: {error}")))?,
        };
        let files = |path: &Path| match &load {
            Some(load) => load.read(path),
            None => input::read_named(path),
        };
        let outcome = read::parse_with(&bytes, &name, &files, policy);
        if outcome.failed() {
            return Err(kind::refuse(output, (&name, &bytes), Kind::Scenario, &outcome));
        }
        let scenario = outcome.plan.expect("without errors there is a plan");
        if scenario.network.is_none() {
            return Ok(Scenario { name, ..scenario });
        }
        let told = |why: String| output.refuse(&format!("{name}: {why}"));
        let text = String::from_utf8_lossy(&bytes);
        let network = self.in_network(under, &name, &text).map_err(told)?;
        Ok(Scenario { name: name.clone(), ..network })
    }

    /// Returns a network with the policy wherever a link names its file, or in place of its only
    /// policy; its figures are those of the first such link.
    fn in_network(&self, under: &Path, name: &str, text: &str) -> Result<Scenario, String> {
        let file = self.policy.file_name().map(PathBuf::from).unwrap_or_default();
        let folders = under.parent().map_or(0, |folder| folder.components().count());
        let place = (0..folders).fold(file, |path, _| Path::new("..").join(path));
        let bytes = input::read(&self.policy).map_err(|error| error.to_string())?;
        let policy = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let mut edited = Edited::of(text, name)?;
        edited.replace_policy(&place.display().to_string(), policy)?;
        let files = |path: &Path| input::read_named(path);
        let outcome = read::parse(edited.scenario().as_bytes(), name, &files);
        let scenario = outcome.plan.ok_or("it cannot be run with this policy")?;
        let (link, is_back) = *edited.directions().first().ok_or("no link has the policy")?;
        let outlet = OutletId(2 * link as u32 + u32::from(is_back));
        led_by(&scenario, outlet).ok_or_else(|| "no link has the policy".to_owned())
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
            let traces = if tested.worst.is_empty() { "" } else { ", each with each trace" };
            output.text(&format!("{}: {kept} of {all} promises kept{traces}\n", tested.file));
            tested.worst.iter().for_each(|worst| output.text(&format!("{worst}\n")));
            if tested.runs == 1 {
                output
                    .text("one run has no interval, so it decides nothing: use --runs 2 or more\n");
            }
        }
    }
    if tested.kept == tested.promises.len() { Exit::Clean } else { Exit::Faults }
}

fn table(policy: &Policy, rows: &[Row]) -> Table {
    let under = if rows.iter().any(|row| row.trace.is_some()) { "trace" } else { "under" };
    let head = ["promise", under, "measured", "±", "goal", "verdict"];
    let mut table = Table::new(head).words(&[1, 5]);
    for row in rows {
        let own = |promise: &&Promise| promise.that == row.that && promise.under == row.under;
        let Some(promise) = policy.promises.iter().find(own) else { continue };
        let measure = promise.promised.measure;
        let own = |value: Option<f64>| value.map_or("-".to_owned(), |value| shown(measure, value));
        table.row([
            row.that.clone(),
            row.trace.as_ref().unwrap_or(&row.under).clone(),
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
        Measure::Fairness | Measure::Behind(Behind::Used) => format!("{:.2} %", value * 100.0),
        Measure::Behind(Behind::Delay(_)) => format!("{} ms", millis(value * 1e6)),
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
