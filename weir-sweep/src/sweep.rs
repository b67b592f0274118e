//! A sweep: its runs by number, and what identifies it.

use crate::design::{Axis, Design};
use crate::edit::{self, Edited, plain};
use crate::metric::Metric;
use crate::table;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use weir_policy::file::{self, ReadFile};
use weir_policy::finding::{Outcome, Severity};
use weir_policy::{policy, render};
use weir_sim::{Scenario, read};

/// The runs of a sweep. It holds every file, so that a worker on another machine needs none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The name of the scenario in findings before a run. It is no part of what identifies a sweep:
    /// by whatever name its scenario goes, its table is the same.
    #[serde(default, skip_serializing)]
    pub name: Option<String>,
    /// The text of the scenario.
    pub scenario: String,
    /// The files that the scenario names, by the path that it writes.
    #[serde(default)]
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// The keys that vary, and how points are chosen.
    pub design: Design,
    /// Runs of each point, each with the next seed: the same seeds at each point, so that two
    /// points differ by their values and not by luck.
    pub replications: u64,
    /// The names of the metrics.
    pub metrics: Vec<String>,
    /// The first seed; by default the scenario's.
    #[serde(default)]
    pub seed: Option<u64>,
    /// A policy in place of the scenario's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Instead>,
    /// A file of rates over time, relative to the scenario, in place of the capacity of every
    /// bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
}

/// A policy that a scenario runs with in place of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Instead {
    /// The path of its file from the scenario's folder. A network has it wherever a link names that
    /// file, or in place of the only policy.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A run that has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// The number of the run, from 0.
    pub run: usize,
    /// The metrics in their order; `None` where there was nothing to measure.
    #[serde(with = "bits")]
    pub values: Vec<Option<f64>>,
    /// Why there are none: the findings on a policy that cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Numbers as their bits: a number that is read from decimal digits may differ in its last bit.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(
        values: &[Option<f64>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bits: Vec<Option<u64>> = values.iter().map(|value| value.map(f64::to_bits)).collect();
        bits.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<f64>>, D::Error> {
        let bits = Vec::<Option<u64>>::deserialize(deserializer)?;
        Ok(bits.into_iter().map(|value| value.map(f64::from_bits)).collect())
    }
}

/// A run of a sweep: its scenario, and the texts that it is read from.
pub struct Planned<'a> {
    scenario: Scenario,
    edited: Edited,
    files: &'a BTreeMap<PathBuf, Vec<u8>>,
}

impl Planned<'_> {
    /// Returns what is run.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the text of the scenario.
    pub fn text(&self) -> String {
        self.edited.scenario()
    }

    /// Reads a file that it names.
    ///
    /// # Errors
    /// When it names no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.edited.policy(path) {
            Some(text) => Ok(text.into_bytes()),
            None => held(self.files, path),
        }
    }
}

/// A sweep that can be run.
pub struct Sweep {
    spec: Spec,
    base: Edited,
    points: Vec<Vec<Value>>,
    metrics: Vec<Metric>,
    seed: u64,
    identity: String,
    warnings: String,
}

impl Spec {
    /// Returns the number of runs, without making any.
    ///
    /// # Errors
    /// When there are none, or more than [`RUNS_MAX`].
    pub fn runs(&self) -> Result<usize, String> {
        if self.replications == 0 || self.metrics.is_empty() {
            return Err("a sweep has one replication and one metric, or more".to_owned());
        }
        let points = self.design.count()?;
        // Two factors of 64 bits: this product is exact.
        let runs = points as u128 * u128::from(self.replications);
        usize::try_from(runs).ok().filter(|&runs| runs <= RUNS_MAX).ok_or_else(|| {
            let (each, most) = (self.replications, RUNS_MAX / points);
            format!(
                "the sweep has {runs} runs, {each} replications of each of {points} points, and \
                 {RUNS_MAX} are the most; write at most {most} replications, or fewer points"
            )
        })
    }

    /// Takes the files that the scenario names into the specification; they are found relative to
    /// `folder`.
    ///
    /// # Errors
    /// As [`Sweep::new`]; a file that some point cannot find is that point's error.
    pub fn gather(self, folder: &Path) -> Result<Self, String> {
        self.gather_with(folder, &file::read_named)
    }

    /// As [`Spec::gather`], with `read_file` for the files.
    ///
    /// # Errors
    /// As there.
    pub fn gather_with(self, folder: &Path, read_other: ReadFile<'_>) -> Result<Self, String> {
        // Before every value is tried: those of a design that is too large may be many.
        self.runs()?;
        let files = RefCell::new(BTreeMap::new());
        let read_file = |path: &Path| {
            let bytes = read_other(&folder.join(path))?;
            files.borrow_mut().insert(plain(path), bytes.clone());
            Ok(bytes)
        };
        let named = |path: &Path| {
            read_file(path).map_err(|error: io::Error| format!("{}: {error}", path.display()))
        };
        if let Some(trace) = &self.trace {
            named(trace).map_err(|why| format!("cannot read {why}"))?;
        }
        let base = self.edited(self.name.as_deref())?;
        let axes = &self.design.axes;
        // A value may name a file; one axis is varied at a time, and the others have their first.
        let each = |axis: usize| (0..axes[axis].values.len()).map(move |place| (axis, place));
        for (axis, place) in std::iter::once((0, 0)).chain((0..axes.len()).flat_map(each)) {
            let mut edited = base.clone();
            for (other, row) in axes.iter().enumerate() {
                let place = if other == axis { place } else { 0 };
                let value = row.values.get(place);
                value.map_or(Ok(()), |value| edited.set(&row.key, value, &named))?;
            }
            // Its findings are told when it is run.
            parse(None, &edited, &read_file);
        }
        Ok(Self { files: files.into_inner(), ..self })
    }

    /// Returns the scenario, whose values may then be changed; findings call it `name`.
    fn edited(&self, name: Option<&str>) -> Result<Edited, String> {
        let name = shown(name);
        // A finding says the place of what is no TOML, and a cure.
        let no_toml = |told: String, outcome: Outcome<()>| match outcome.failed() {
            true => render::render(&outcome.findings, &outcome.sources, false),
            false => told,
        };
        let mut edited = Edited::of(&self.scenario, name).map_err(|told| {
            let read = |path: &Path| held(&self.files, path);
            no_toml(told, read::parse(self.scenario.as_bytes(), name, &read).map(drop))
        })?;
        if let Some(Instead { path, text }) = &self.policy {
            edited.replace_policy(path, text.clone()).map_err(|told| {
                let outcome = policy::parse_bytes(text.as_bytes(), path, None, &file::none);
                match text.parse::<toml::Table>() {
                    Ok(_) => format!("{name}: {told}"),
                    Err(_) => no_toml(told, outcome.map(drop)),
                }
            })?;
        }
        Ok(edited)
    }
}

impl Sweep {
    /// Numbers the runs.
    ///
    /// # Errors
    /// When the design or a metric cannot be used, or no point; the text has the findings.
    pub fn new(spec: Spec) -> Result<Self, String> {
        spec.runs()?;
        let mut metrics: Vec<Metric> =
            spec.metrics.iter().map(|name| Metric::parse(name)).collect::<Result<_, _>>()?;
        effective(&spec)?;
        named_once(&spec)?;
        let points = spec.design.points()?;
        let base = spec.edited(spec.name.as_deref())?;
        let identity = identity(&spec);
        let seed = spec.seed;
        let warnings = String::new();
        let mut sweep =
            Self { spec, base, points, metrics: Vec::new(), seed: 0, identity, warnings };
        let (first, warnings) = sweep.first()?;
        let own: Vec<usize> = sweep.base.directions().iter().map(outlet).collect();
        metrics.iter_mut().try_for_each(|metric| metric.resolve(&first, &own))?;
        sweep.metrics = metrics;
        sweep.seed = seed.unwrap_or(first.seed);
        sweep.warnings = warnings;
        Ok(sweep)
    }

    /// Returns the scenario of the first point that can be run, with its warnings: a design may
    /// have points that cannot, which then have an error for their result.
    fn first(&self) -> Result<(Scenario, String), String> {
        let name = self.spec.name.as_deref();
        let mut tried =
            (0..self.points.len()).take(FIRST_MAX).map(|point| self.checked(point, name));
        let first = tried.next().unwrap_or_else(|| Err("the design has no point".to_owned()));
        first.or_else(|why| tried.find_map(Result::ok).ok_or(why))
    }

    /// Returns the warnings on the first point that can be run, each with its place; empty if there
    /// are none.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }

    /// Returns what stands before the classes of the policy that is there instead, one for each
    /// direction of a link that has it: `link.NAME.` or `link.NAME.back.`.
    pub fn places(&self) -> Vec<String> {
        self.base.directions().iter().filter_map(|at| self.base.place_of(*at)).collect()
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.points.len() * self.spec.replications as usize
    }

    /// Returns what it was made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the values of each point.
    pub fn points(&self) -> &[Vec<Value>] {
        &self.points
    }

    /// Returns the seed of the first replication.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns what tells it from others: a hash of all that decides its table, this program among
    /// it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the hash of the scenario and of every file that it names.
    pub fn scenario_hash(&self) -> String {
        let mut hash = Sha256::new();
        add(&mut hash, self.spec.scenario.as_bytes());
        for (path, bytes) in &self.spec.files {
            add(&mut hash, path.as_os_str().as_encoded_bytes());
            add(&mut hash, bytes);
        }
        hexadecimal(&hash.finalize())
    }

    /// Returns the point and the replication of a run.
    pub fn place(&self, run: usize) -> (usize, usize) {
        let each = self.spec.replications as usize;
        (run / each, run % each)
    }

    /// Does runs, in their order; calls `look` within each, a hundred times.
    pub fn run(&self, runs: &[usize], look: &mut dyn FnMut()) -> Vec<Done> {
        let mut at: Option<(usize, Result<Scenario, String>)> = None;
        let mut done = Vec::with_capacity(runs.len());
        for &run in runs {
            let (point, replication) = self.place(run);
            if at.as_ref().is_none_or(|(place, _)| *place != point) {
                at = Some((point, self.scenario(point)));
            }
            let (_, scenario) = at.as_mut().expect("it was just made");
            let report = scenario.as_mut().map_err(|why| why.clone()).and_then(|scenario| {
                scenario.seed = self.seed.wrapping_add(replication as u64);
                weir_sim::run(scenario, &mut |_| look()).map_err(|error| error.to_string())
            });
            done.push(match report {
                Ok(report) => {
                    let values = self.metrics.iter().map(|metric| metric.of(&report)).collect();
                    Done { run, values, error: None }
                }
                Err(error) => {
                    Done { run, values: vec![None; self.metrics.len()], error: Some(error) }
                }
            });
        }
        done
    }

    /// Returns a run as it is before it is made.
    ///
    /// # Errors
    /// With the findings on its policy.
    pub fn planned(&self, run: usize) -> Result<Planned<'_>, String> {
        let (point, replication) = self.place(run);
        let mut scenario = self.scenario(point)?;
        scenario.seed = self.seed.wrapping_add(replication as u64);
        Ok(Planned { scenario, edited: self.edited(point)?, files: &self.spec.files })
    }

    /// Returns the texts of a point.
    fn edited(&self, point: usize) -> Result<Edited, String> {
        let mut edited = self.base.clone();
        let read = |path: &Path| held(&self.spec.files, path);
        let named = |path: &Path| read(path).map_err(|error| error.to_string());
        for (axis, value) in self.spec.design.axes.iter().zip(&self.points[point]) {
            edited.set(&axis.key, value, &named)?;
        }
        Ok(edited)
    }

    /// Returns the scenario of a point.
    fn scenario(&self, point: usize) -> Result<Scenario, String> {
        self.checked(point, None).map(|(scenario, _)| scenario)
    }

    /// Returns the scenario of a point with the warnings on it, which call it `name`.
    fn checked(&self, point: usize, name: Option<&str>) -> Result<(Scenario, String), String> {
        let edited = self.edited(point)?;
        let read = |path: &Path| held(&self.spec.files, path);
        let Outcome { plan, mut findings, mut sources } = parse(name, &edited, &read);
        let plan = plan.map(|plan| self.over_trace(plan, shown(name))).transpose()?;
        let least = if plan.is_some() { Severity::Warning } else { Severity::Error };
        findings.retain(|finding| finding.severity >= least);
        edited.lines(shown(name)).restore(&mut findings, &mut sources);
        let told = render::render(&findings, &sources, false).trim_end().to_owned();
        match plan {
            Some(scenario) if findings.is_empty() => Ok((scenario, told)),
            Some(scenario) => Ok((scenario, self.at(point) + &told)),
            None => Err(self.at(point) + &told),
        }
    }

    /// Returns a scenario with the trace in place of the capacity of its bottlenecks.
    fn over_trace(&self, scenario: Scenario, name: &str) -> Result<Scenario, String> {
        let Some(trace) = &self.spec.trace else { return Ok(scenario) };
        let bytes = held(&self.spec.files, trace).map_err(|error| error.to_string())?;
        let with = scenario.with_trace(&bytes);
        let with = with.map_err(|error| format!("{}: {error}", trace.display()))?;
        with.ok_or_else(|| {
            format!(
                "{name} has no bottleneck for the trace {}; write `[behind]` there, or leave the \
                 traces out",
                trace.display()
            )
        })
    }

    /// Says which values a point has, above what was found with them.
    fn at(&self, point: usize) -> String {
        let axes = self.spec.design.axes.iter().zip(&self.points[point]);
        let values: Vec<_> =
            axes.map(|(axis, value)| format!("`{}` = {value}", axis.key)).collect();
        match values.is_empty() {
            true => String::new(),
            false => format!("with {}:\n", values.join(", ")),
        }
    }
}

/// Returns the number of an outlet in reports.
fn outlet((link, is_back): &(usize, bool)) -> usize {
    2 * link + usize::from(*is_back)
}

/// Refuses a design whose table would have two columns of one name.
fn named_once(spec: &Spec) -> Result<(), String> {
    let keys = spec.design.axes.iter().map(|axis| &axis.key);
    let mut names: BTreeSet<&str> = table::OWN.into_iter().collect();
    match keys.chain(&spec.metrics).find(|name| !names.insert(name)) {
        Some(twice) => Err(format!("`{twice}` would be two columns of the table; name it once")),
        None => Ok(()),
    }
}

/// Refuses keys of which one has no effect, for the table would say what was not run.
fn effective(spec: &Spec) -> Result<(), String> {
    let path = |axis: &Axis| Ok((edit::split(&axis.key)?, axis.key.clone()));
    let paths = spec.design.axes.iter().map(path).collect::<Result<Vec<_>, String>>()?;
    if paths.iter().any(|(path, _)| path.as_slice() == ["seed"]) {
        return Err("`seed` is no key to vary: every replication has a seed of its own, from \
                    `seed` on; write `replications`"
            .to_owned());
    }
    for (path, key) in &paths {
        let hides = |(other, other_key): &&(Vec<String>, String)| {
            other_key != key && path.starts_with(other)
        };
        if let Some((_, other)) = paths.iter().find(hides) {
            return Err(format!(
                "`{key}` lies in what `{other}` replaces, so that one would hide the other; vary \
                 one of them"
            ));
        }
    }
    Ok(())
}

fn parse(
    name: Option<&str>,
    edited: &Edited,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Outcome<Scenario> {
    let read_file = |path: &Path| match edited.policy(path) {
        Some(text) => Ok(text.into_bytes()),
        None => read(path),
    };
    read::parse(edited.scenario().as_bytes(), shown(name), &read_file)
}

/// Returns the name of a scenario in findings, without its folder: files are found, and kept, by
/// the paths that the scenario has.
fn shown(name: Option<&str>) -> &str {
    name.and_then(|name| Path::new(name).file_name()?.to_str()).unwrap_or(SCENARIO_NAME)
}

fn held(files: &BTreeMap<PathBuf, Vec<u8>>, path: &Path) -> io::Result<Vec<u8>> {
    let found = files.get(&plain(path)).or_else(|| files.get(path)).cloned();
    found.ok_or_else(|| {
        let why = format!("{} is not among the files of the sweep", path.display());
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

fn identity(spec: &Spec) -> String {
    let mut hash = Sha256::new();
    add(&mut hash, VERSION.as_bytes());
    add(&mut hash, COMMIT.as_bytes());
    add(&mut hash, &serde_json::to_vec(spec).expect("its keys are texts"));
    hexadecimal(&hash.finalize())
}

/// Adds a part with its length, so that two parts cannot pass for one.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that it was built from, or "unknown".
pub const COMMIT: &str = env!("WEIR_COMMIT");
/// Bound: runs of a sweep; one with more is refused. Each has a row, which stays in memory until
/// the end.
pub const RUNS_MAX: usize = 10_000_000;
/// How many points are tried in search of one that can be run.
const FIRST_MAX: usize = 100;
/// The name of a scenario in findings that has none.
const SCENARIO_NAME: &str = "scenario.toml";
