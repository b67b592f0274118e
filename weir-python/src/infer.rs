//! Inference from captures, and forecasts of other policies: `weir.infer` and `weir.whatif`.

use crate::answer;
use crate::interrupt::{self, Stop};
use crate::options::Options;
use crate::replay::{Trouble, cannot};
use crate::table::{Cells, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use weir_core::units::Duration;
use weir_infer::tcp::{Exchange, Tcp};
use weir_infer::whatif::{Answer, Trial, ask};
use weir_infer::{
    FlowOf, Grouping, Inferred, Input, Load, Model, Named, infer as inference, policies,
};
use weir_policy::Policy;
use weir_sim::replicate;
use weir_sim::whatif::{Forecast, Group, Row, WhatIf};

/// Finds what the applications of a capture or a record wanted, as `weir infer` does.
///
/// Returns what `weir infer --format json` prints, with the tables `flows` and `exchanges` and the
/// text of the `scenario`; docs/guide/what-if.md describes both. `outside` is a capture of the
/// other side of the link, `policy` the name of the policy's file in the scenario, `rate` that of
/// the link without one, `direction` that of a record, `grouping` "auto", "exact" or "population".
/// With `output` the scenario is written there, and captures that it needs beside it. Of a damaged
/// capture the part before the damage is used, and a warning says so.
#[pyfunction]
#[pyo3(signature = (capture, outside = None, **options))]
pub fn infer<'py>(
    py: Python<'py>,
    capture: PathBuf,
    outside: Option<PathBuf>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let known = ["policy", "rate", "direction", "grouping", "anonymous", "output"];
    let options = Options::of(options, &known)?;
    let output: Option<PathBuf> = options.take("output")?;
    let wanted = wanted(&options, output.as_deref())?;
    let files = Files { capture, outside };
    let shown = files.capture.display().to_string();
    let found = interrupt::run(py, move |stop| {
        let inferred = files.inferred(&wanted, stop)?;
        if let Some(output) = &output {
            files.write(&inferred, output)?;
        }
        Ok(inferred)
    })?;
    let inferred: Inferred = found.map_err(|trouble| raised(py, trouble))?;
    if let Some(fault) = &inferred.fault {
        answer::warn(py, &format!("{shown}: it ends early: {fault}"))?;
    }
    let (flows, exchanges, text) =
        py.detach(|| (flow_cells(&inferred), exchange_cells(&inferred), inferred.scenario()));
    let made = answer::of(py, &inferred)?;
    let made = py.import("weir._report")?.getattr("Inferred")?.call1((made,))?;
    made.setattr("flows", Table::of(flows)?)?;
    made.setattr("exchanges", Table::of(exchanges)?)?;
    made.setattr("scenario", text)?;
    Ok(made)
}

fn wanted(options: &Options<'_, '_>, output: Option<&Path>) -> PyResult<weir_infer::Options> {
    let rate = options.take::<String>("rate")?.map(|text| text.parse()).transpose();
    let stem = output.and_then(Path::file_stem);
    let grouping = match options.take::<String>("grouping")?.as_deref() {
        None | Some("auto") => Grouping::Auto,
        Some("exact") => Grouping::Exact,
        Some("population") => Grouping::Population,
        Some(other) => {
            let why = format!("grouping: `{other}` is none of auto, exact, population");
            return Err(PyValueError::new_err(why));
        }
    };
    Ok(weir_infer::Options {
        name: stem.map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
        policy: options.take("policy")?,
        rate: rate.map_err(|error| PyValueError::new_err(format!("rate: {error}")))?,
        direction: options.take("direction")?,
        grouping,
        anonymous: options.take("anonymous")?,
        ..weir_infer::Options::default()
    })
}

/// Says what other policies would have done to a capture whose senders react, as `weir whatif`
/// does.
///
/// `policies` and `was` are names with texts; a record has the policy that was in force, so it
/// needs no `was`. Returns what `weir whatif --format json` prints, with the tables `rows` and
/// `unlike`.
#[pyfunction]
#[pyo3(signature = (capture, policies, was = None, **options))]
pub fn whatif<'py>(
    py: Python<'py>,
    capture: PathBuf,
    policies: &Bound<'py, PyAny>,
    was: Option<(String, String)>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::of(options, &["outside", "direction", "replications", "threads"])?;
    let policies: Vec<(String, String)> = policies.extract()?;
    let replications = options.take::<u16>("replications")?.unwrap_or(REPLICATIONS);
    if policies.is_empty() || replications == 0 {
        return Err(PyValueError::new_err("give one policy and one replication, or more"));
    }
    let read = |(name, text): (String, String)| {
        crate::effects::read(py, &text, &name).map(|policy| (name, policy))
    };
    let was = was.map(read).transpose()?;
    let others = policies.into_iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let threads: Option<u16> = options.take("threads")?;
    let question = Question {
        files: Files { capture, outside: options.take("outside")? },
        direction: options.take("direction")?,
        was,
        others,
        replications: replications.into(),
        threads: threads.map_or_else(replicate::cores, usize::from),
    };
    let found = interrupt::run(py, move |stop| question.answer(stop))?;
    let whatif = found.map_err(|trouble| raised(py, trouble))?;
    let made = answer::of(py, &whatif)?;
    let made = py.import("weir._report")?.getattr("WhatIf")?.call1((made,))?;
    made.setattr("rows", Table::of(forecast_cells(&whatif))?)?;
    made.setattr("unlike", Table::of(unlike_cells(&whatif))?)?;
    Ok(made)
}

/// Writes into a folder the scenario that stands for a capture or a record, with the files that it
/// names, and returns its text; None of another file.
#[pyfunction]
pub fn stand_in(py: Python<'_>, path: PathBuf, folder: PathBuf) -> PyResult<Option<String>> {
    let made = py.detach(|| {
        let Some(load) = Load::of(Files::open(&path)?).map_err(Trouble::Refused)? else {
            return Ok(None);
        };
        for file in &load.beside {
            let own = folder.join(&file.name);
            std::fs::write(&own, &file.bytes).map_err(|error| cannot("write", &own, &error))?;
        }
        Ok(Some(load))
    });
    let load = made.map_err(|trouble| raised(py, trouble))?;
    if let Some(fault) = load.as_ref().and_then(|load| load.fault.as_ref()) {
        answer::warn(py, &format!("{}: it ends early: {fault}", path.display()))?;
    }
    Ok(load.map(|load| load.text))
}

/// A capture or a record, and a capture of the other side of the link.
struct Files {
    capture: PathBuf,
    outside: Option<PathBuf>,
}

impl Files {
    fn open(path: &Path) -> Result<Named<'static>, Trouble> {
        let file = File::open(path).map_err(|error| cannot("read", path, &error))?;
        Ok(Named::new(path.display().to_string(), file))
    }

    fn input(&self) -> Result<Input<'static>, Trouble> {
        let outside = self.outside.as_deref().map(Self::open).transpose()?;
        Input::of(Self::open(&self.capture)?, outside).map_err(Trouble::Refused)
    }

    fn inferred(&self, options: &weir_infer::Options, stop: &Stop) -> Result<Inferred, Trouble> {
        let inferred = inference(self.input()?, options, &mut |_| stop.look());
        let named = |error| Trouble::Refused(format!("{}: {error}", self.capture.display()));
        inferred.map_err(named)
    }

    /// Writes the scenario and the captures that it needs; never over what was read.
    fn write(&self, inferred: &Inferred, output: &Path) -> Result<(), Trouble> {
        let real = |path: &Path| path.canonicalize().ok();
        let inputs = [Some(&self.capture), self.outside.as_ref()].into_iter().flatten();
        let folder = output.parent().unwrap_or(Path::new(""));
        let texts = [(output.to_owned(), inferred.scenario().into_bytes())];
        let beside = inferred.beside().into_iter();
        let all: Vec<_> = beside.map(|it| (folder.join(it.name), it.bytes)).chain(texts).collect();
        for input in inputs {
            if let Some((path, _)) = all.iter().find(|(path, _)| real(path) == real(input)) {
                let shown = path.display();
                return Err(Trouble::Refused(format!("{shown} is an input; name another output")));
            }
        }
        all.iter().try_for_each(|(path, bytes)| {
            std::fs::write(path, bytes).map_err(|error| cannot("write", path, &error))
        })
    }
}

/// The policies that are tried on a capture.
struct Question {
    files: Files,
    direction: Option<String>,
    was: Option<(String, Policy)>,
    others: Vec<(String, Policy)>,
    replications: usize,
    threads: usize,
}

impl Question {
    fn answer(self, stop: &Stop) -> Result<WhatIf, Trouble> {
        let capture = &self.files.capture;
        let refused = |why: String| Trouble::Refused(format!("{}: {why}", capture.display()));
        let stem = capture.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let options = weir_infer::Options {
            name: stem.unwrap_or_default(),
            // Each run replaces the policy of the scenario.
            policy: Some(String::new()),
            direction: self.direction.clone(),
            grouping: Grouping::Exact,
            ..weir_infer::Options::default()
        };
        let found = policies(Files::open(capture)?).map_err(Trouble::Refused)?;
        if self.was.is_none() && found.is_none() {
            return Err(refused("name the policy that was in force with `was`".to_owned()));
        }
        let inferred = self.files.inferred(&options, stop)?;
        let recorded = || found.and_then(|found| found.of(inferred.direction.as_deref()));
        let was = self.was.or_else(recorded);
        let was = was.ok_or_else(|| refused("it has no policy".to_owned()))?;
        let all: Vec<_> = std::iter::once(was).chain(self.others).collect();
        let (replications, threads) = (self.replications, self.threads);
        let trial = Trial { policies: &all, replications, threads };
        let answer = ask((&inferred, self.files.input()?), &trial, stop.flag(), &|_| {});
        answer.map(|Answer { whatif, .. }| whatif).map_err(refused)
    }
}

fn raised(py: Python<'_>, trouble: Trouble) -> PyErr {
    match trouble {
        Trouble::System(error) => error.into(),
        Trouble::Refused(message) => answer::error(py, message, &[]),
    }
}

/// Returns a row for each flow.
fn flow_cells(inferred: &Inferred) -> Cells {
    let flows = &inferred.flows;
    let mut cells = Cells::default();
    let mut texts = |head: &str, of: &dyn Fn(&FlowOf) -> Option<String>| {
        cells.texts(head, flows.iter().map(of).collect());
    };
    texts("name", &|flow| Some(flow.name.clone()));
    texts("kind", &|flow| Some(kind(flow).to_owned()));
    texts("reason", &|flow| match &flow.model {
        Model::Replayed { reason } => Some(reason.word().to_owned()),
        _ => None,
    });
    texts("source", &|flow| Some(flow.source.ip().to_string()));
    texts("destination", &|flow| Some(flow.destination.ip().to_string()));
    texts("marks", &|flow| Some(flow.marks.iter().map(word).collect::<Vec<_>>().join(" ")));
    texts("round_trip_by", &|flow| tcp(flow).map(|tcp| word(&tcp.round_trip.by)));
    texts("congestion", &|flow| tcp(flow).map(|tcp| word(&tcp.control.family)));
    texts("limit", &|flow| tcp(flow).map(|tcp| word(&tcp.limit)));
    let mut integers = |head: &str, of: &dyn Fn(&FlowOf) -> u64| {
        cells.integers(head, flows.iter().map(|flow| of(flow) as i64).collect());
    };
    integers("source_port", &|flow| flow.source.port().into());
    integers("destination_port", &|flow| flow.destination.port().into());
    integers("protocol", &|flow| flow.protocol.into());
    integers("vlan", &|flow| flow.vlan.into());
    integers("dscp", &|flow| flow.dscp.into());
    integers("packets", &|flow| flow.packets[0]);
    integers("bytes", &|flow| flow.bytes[0]);
    integers("back_packets", &|flow| flow.packets[1]);
    integers("back_bytes", &|flow| flow.bytes[1]);
    integers("exchanges", &|flow| exchanges(flow).len() as u64);
    let mut numbers = |head: &str, of: &dyn Fn(&FlowOf) -> Option<f64>| {
        cells.numbers(head, flows.iter().map(of).collect());
    };
    numbers("start_s", &|flow| Some(seconds(flow.start)));
    numbers("end_s", &|flow| Some(seconds(flow.end)));
    numbers("round_trip_s", &|flow| tcp(flow)?.round_trip.total().map(seconds));
    numbers("confidence", &|flow| Some(tcp(flow)?.control.confidence));
    numbers("reactions", &|flow| Some(tcp(flow)?.control.reactions.into()));
    numbers("lost_before", &|flow| Some(tcp(flow)?.repeats.before as f64));
    numbers("lost_between", &|flow| Some(tcp(flow)?.repeats.between as f64));
    numbers("lost_behind", &|flow| Some(tcp(flow)?.repeats.behind as f64));
    cells
}

/// Returns a row for each request with its response.
fn exchange_cells(inferred: &Inferred) -> Cells {
    let flows = inferred.flows.iter().zip(0..);
    let rows: Vec<(u32, usize, Exchange)> = flows
        .flat_map(|(flow, place)| exchanges(flow).iter().zip(0..).map(move |it| (place, it)))
        .map(|(place, (exchange, number))| (place, number, *exchange))
        .collect();
    let names: Vec<String> = inferred.flows.iter().map(|flow| flow.name.clone()).collect();
    let mut cells = Cells::default();
    cells.words("flow", rows.iter().map(|row| row.0).collect(), &names);
    cells.integers("number", rows.iter().map(|row| row.1 as i64).collect());
    let time = |of: fn(&Exchange) -> Duration| -> Vec<Option<f64>> {
        rows.iter().map(|row| Some(seconds(of(&row.2)))).collect()
    };
    let bytes = |of: fn(&Exchange) -> u64| rows.iter().map(|row| of(&row.2) as i64).collect();
    cells.numbers("after_s", time(|it| it.after));
    cells.integers("up", bytes(|it| it.up));
    cells.numbers("wait_s", time(|it| it.wait));
    cells.integers("down", bytes(|it| it.down));
    cells
}

/// Returns a row for each forecast.
fn forecast_cells(whatif: &WhatIf) -> Cells {
    let rows: Vec<(&Group, &Row, &Forecast)> = whatif
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(move |row| (group, row)))
        .flat_map(|(group, row)| row.forecasts.iter().map(move |it| (group, row, it)))
        .collect();
    let mut cells = Cells::default();
    let mut texts = |head: &str, of: &dyn Fn(&(&Group, &Row, &Forecast)) -> String| {
        cells.texts(head, rows.iter().map(|row| Some(of(row))).collect());
    };
    texts("by", &|(group, ..)| group.by.to_owned());
    texts("group", &|(group, ..)| group.name.clone());
    texts("measure", &|(_, row, _)| word(&row.measure));
    texts("policy", &|(.., forecast)| forecast.policy.clone());
    texts("verdict", &|(.., forecast)| word(&forecast.verdict));
    cells.integers("flows", rows.iter().map(|row| row.0.flows as i64).collect());
    let mut numbers = |head: &str, of: &dyn Fn(&Row, &Forecast) -> Option<f64>| {
        cells.numbers(head, rows.iter().map(|(_, row, it)| of(row, it)).collect());
    };
    numbers("captured", &|row, _| row.captured);
    numbers("simulated", &|row, _| Some(row.simulated));
    numbers("error", &|row, _| row.error);
    numbers("value", &|_, forecast| forecast.value);
    numbers("bar", &|_, forecast| forecast.bar);
    cells
}

/// Returns a row for each flow that the simulation does not reproduce.
fn unlike_cells(whatif: &WhatIf) -> Cells {
    let rows = &whatif.unlike;
    let mut cells = Cells::default();
    cells.texts("flow", rows.iter().map(|row| Some(row.flow.clone())).collect());
    cells.texts("why", rows.iter().map(|row| Some(row.why.clone())).collect());
    cells.integers("bytes", rows.iter().map(|row| row.bytes as i64).collect());
    cells
}

fn kind(flow: &FlowOf) -> &'static str {
    match flow.model {
        Model::Tcp { .. } => "tcp",
        Model::Quic { .. } => "quic",
        Model::Steady { .. } => "steady",
        Model::Replayed { .. } => "replayed",
    }
}

fn tcp(flow: &FlowOf) -> Option<&Tcp> {
    match &flow.model {
        Model::Tcp { tcp, .. } => Some(tcp),
        _ => None,
    }
}

fn exchanges(flow: &FlowOf) -> &[Exchange] {
    match &flow.model {
        Model::Tcp { tcp, .. } => &tcp.exchanges,
        Model::Quic { quic, .. } => &quic.exchanges,
        _ => &[],
    }
}

/// Returns the word of a value in JSON.
fn word(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).expect("it is a word");
    json.as_str().unwrap_or_default().to_owned()
}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// As `weir whatif` without `--replications`.
const REPLICATIONS: u16 = 3;
