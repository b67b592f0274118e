//! *What if*: the traffic of a capture under other policies, with senders that react, and how far
//! to trust the answer.
//!
//! The scenario says what the applications of a capture wanted. [`ask`] runs it under the policy
//! that was in force: where that differs from the capture, the model errs, and its answers for
//! other policies may err as much, too ([`bar`]). Groups of flows are those of the policy that was
//! in force, and stay the same flows under every policy. Invariant: no answer without an error bar,
//! and no error bar below the error of the known case.

mod bar;
mod measured;
mod quality;
mod report;
mod tally;

pub use report::{Forecast, Group, Row, Unlike, Verdict, WhatIf};
pub use tally::{Figures, Measure, Tally, figures};

use crate::replicate;
use crate::run::{RunError, run_watched};
use crate::scenario::{Scenario, Traffic};
use crate::timeline::{Timelines, Tracks};
use crate::watch::{Fate, Watch};
use bar::Pool;
use measured::Measured;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tally::{seconds, spread};
use weir_core::packet::Protocol;
use weir_core::units::{Bytes, Duration, Instant};

/// A scenario under a policy.
#[derive(Clone, Debug)]
pub struct Under {
    /// The policy's name in tables.
    pub policy: String,
    /// The scenario with it.
    pub scenario: Scenario,
}

/// A question.
pub struct Question<'a> {
    /// The policy that was in force, and then the others; all have the same sources.
    pub policies: &'a [Under],
    /// The tally of each source in the capture, in their order.
    pub captured: &'a [Tally],
    /// How long the capture is.
    pub span: Duration,
    /// The runs under each policy; at least one.
    pub replications: usize,
    /// Runs at the same time.
    pub threads: usize,
    /// Changes in a scenario what inference does not know for sure, for the replication of this
    /// number, from 1 on.
    pub vary: &'a (dyn Fn(&mut Scenario, usize) + Sync),
}

/// The tallies of all sources in a run.
type Run = Vec<Tally>;

/// Simulates the policies of `question`, compares the first with the capture, and forecasts the
/// others. Calls `done` for each run that ends; a run that a stop prevents is an error.
///
/// # Errors
/// When a scenario contradicts itself, or `stop` was set.
pub fn ask(
    question: &Question<'_>,
    stop: &AtomicBool,
    done: &(dyn Fn(usize) + Sync),
) -> Result<WhatIf, AskError> {
    let each = question.replications.max(1);
    let ended = AtomicUsize::new(0);
    let run = |place: usize| {
        if stop.load(Ordering::Relaxed) {
            return Err(AskError::Stopped);
        }
        let scenario = varied(question, place / each, place % each);
        let ran = simulate(&scenario, question.captured).map_err(AskError::Run);
        done(ended.fetch_add(1, Ordering::Relaxed) + 1);
        ran
    };
    let runs = replicate::map(question.policies.len() * each, run, question.threads);
    let runs = runs.into_iter().collect::<Result<Vec<Run>, _>>()?;
    let by_policy: Vec<&[Run]> = runs.chunks(each).collect();
    Ok(answer(question, &by_policy))
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum AskError {
    /// A scenario cannot run.
    Run(RunError),
    /// The caller wanted no more.
    Stopped,
}

/// Runs the scenario once under each policy and returns what its classes did over time, for
/// pictures.
///
/// # Errors
/// As [`crate::run()`].
pub fn tracks(policies: &[Under], threads: usize) -> Result<Vec<Tracks>, RunError> {
    let run = |place: usize| {
        let Under { policy, scenario } = &policies[place];
        let mut timelines = Timelines::of(scenario, None);
        let mut tell = |fate: &Fate<'_>| timelines.add(fate);
        let watch = Watch { packets: Some(&mut tell), rest: true, ..Watch::default() };
        run_watched(scenario, watch, &mut |_: Duration| {})?;
        let tracks = timelines.finish().swap_remove(0);
        Ok(Tracks { title: format!("{} under {policy}", scenario.name), ..tracks })
    };
    replicate::map(policies.len(), run, threads).into_iter().collect()
}

/// Returns the scenario of a replication. Nothing in an inferred scenario is drawn, so later ones
/// move the starts of sources a little: what differs then is chance.
fn varied(question: &Question<'_>, policy: usize, replication: usize) -> Scenario {
    let mut varied = question.policies[policy].scenario.clone();
    if replication > 0 {
        varied.seed = varied.seed.wrapping_add(replication as u64);
        varied.jitter.start = varied.jitter.start.max(START_JITTER);
        varied.jitter.processing = varied.jitter.processing.max(PROCESSING_JITTER);
        // On average hosts answer as fast as before.
        for source in &mut varied.sources {
            if let Traffic::Tcp(tcp) = &mut source.traffic {
                let nanos = tcp.return_delay.as_nanos();
                let sooner = nanos.saturating_sub(PROCESSING_JITTER.as_nanos() / 2);
                tcp.return_delay = Duration::from_nanos(sooner);
            }
        }
        (question.vary)(&mut varied, replication);
    }
    varied
}

fn simulate(scenario: &Scenario, captured: &[Tally]) -> Result<Run, RunError> {
    let names = scenario.sources.iter().map(|source| source.name.as_str());
    let places: BTreeMap<&str, usize> = names.zip(0..).collect();
    let mut run: Run = captured
        .iter()
        .map(|tally| Tally { is_interactive: tally.is_interactive, ..Tally::default() })
        .collect();
    run.resize_with(scenario.sources.len(), Tally::default);
    let end = Instant::ZERO.after(scenario.duration);
    let begin = Instant::ZERO.after(scenario.warmup);
    // A fate ends when the link hands the packet out; captures have its last bit.
    let rate = scenario.link.tree.rate();
    let mut tell = |fate: &Fate<'_>| {
        if fate.at < begin {
            return;
        }
        let Some(tally) = places.get(fate.source.name.as_str()).map(|&at| &mut run[at]) else {
            return;
        };
        match fate.dropped {
            Some(_) => tally.dropped += 1,
            None if fate.at <= end => {
                let line = rate.transmit_time(Bytes::new(u64::from(fate.length)));
                tally.sent(fate.length, Some(fate.at.since(fate.arrived).plus(line)));
            }
            None => {}
        }
    };
    let watch = Watch { packets: Some(&mut tell), objects: true, ..Watch::default() };
    let report = run_watched(scenario, watch, &mut |_| {})?;
    for (tally, source) in run.iter_mut().zip(&report.sources) {
        let counted = source.objects.iter().filter(|object| object.ended >= begin);
        tally.objects = counted.map(|object| object.took).collect();
    }
    Ok(run)
}

/// The flows of a group.
struct Members {
    by: &'static str,
    name: String,
    flows: Vec<usize>,
    /// Whether one of them reacts to what becomes of its packets.
    reacts: bool,
}

/// Returns the groups of flows: each class of the policy that was in force, each host, each
/// application, and all flows.
fn groups(scenario: &Scenario) -> Vec<Members> {
    let mut found: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
    let mut classifier = scenario.classifier.clone();
    for (place, source) in scenario.sources.iter().enumerate() {
        let classified = classifier.classify(Instant::ZERO, source.interface, &source.headers);
        let tree = &scenario.link.tree;
        let class = tree.class(tree.class_of(classified.leaf)).name.clone();
        let host = source.headers.addresses.destination().map(|host| host.to_string());
        let application = application(source);
        let names = [Some(class), host, Some(application)];
        for (by, name) in names.into_iter().enumerate() {
            if let Some(name) = name {
                found.entry((by, name)).or_default().push(place);
            }
        }
    }
    let members = found.into_iter();
    let reacts = |flow: &usize| scenario.sources[*flow].traffic.connects();
    let members = members.map(|((by, name), flows)| {
        let reacts = flows.iter().any(reacts);
        Members { by: BY[by], name, flows, reacts }
    });
    members.collect()
}

/// Returns the protocol and the port of the server, which is the smaller one.
fn application(source: &crate::scenario::Source) -> String {
    let protocol = source.headers.protocol;
    let word = match protocol {
        Some(Protocol::TCP) => "tcp".to_owned(),
        Some(Protocol::UDP) => "udp".to_owned(),
        Some(other) => format!("ip {}", other.0),
        None => return "other".to_owned(),
    };
    match source.headers.ports {
        Some(ports) => format!("{word} {}", ports.source.min(ports.destination)),
        None => word,
    }
}

fn answer(question: &Question<'_>, runs: &[&[Run]]) -> WhatIf {
    let was = &question.policies[0];
    let members = groups(&was.scenario);
    let of = |run: &Run, flows: &[usize]| {
        let flows: Vec<&Tally> = flows.iter().map(|&at| &run[at]).collect();
        figures(&flows, question.span)
    };
    let spread_of =
        |run: &Run, flows: &[usize]| spread(&flows.iter().map(|&at| &run[at]).collect::<Vec<_>>());
    let captured: Run = question.captured.to_vec();
    let measured: Vec<Measured> = members
        .iter()
        .map(|group| Measured {
            captured: of(&captured, &group.flows),
            runs: runs
                .iter()
                .map(|all| all.iter().map(|run| of(run, &group.flows)).collect())
                .collect(),
            spreads: (
                spread_of(&captured, &group.flows),
                runs[0].iter().map(|run| spread_of(run, &group.flows)).collect(),
            ),
        })
        .collect();
    let count = |by| members.iter().filter(|group| group.by == by).count();
    let pooled = members.iter().zip(&measured).filter(|row| POOLED.contains(&row.0.by));
    let pooled = pooled.map(|(group, measured)| (measured, group.reacts));
    let pool = Pool::of(pooled, POOLED.map(count).into_iter().max().unwrap_or(0));
    let names: Vec<&str> = question.policies.iter().map(|under| under.policy.as_str()).collect();
    let groups = members.iter().zip(&measured).map(|(group, measured)| Group {
        by: group.by,
        name: group.name.clone(),
        flows: group.flows.len(),
        rows: rows(measured, (&pool, group.reacts), &names),
    });
    WhatIf {
        scenario: was.scenario.name.clone(),
        was: was.policy.clone(),
        policies: names[1..].iter().map(|name| (*name).to_owned()).collect(),
        replications: question.replications.max(1),
        seconds: seconds(question.span),
        flows: question.captured.len(),
        groups: groups.collect(),
        unlike: unlike(question, &runs[0][0]),
        notes: Vec::new(),
    }
}

fn rows(measured: &Measured, (pool, reacts): (&Pool, bool), names: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, measure) in Measure::ALL.into_iter().enumerate() {
        let Some(base) = measured.estimate(0, place) else { continue };
        let error = measured.error(place);
        let misfit = measured.misfit(place);
        let deviation = misfit.map(|misfit| pool.deviation(place, reacts, misfit));
        let forecast = |policy: usize| {
            let policy_name = names[policy].to_owned();
            let Some(value) = measured.estimate(policy, place).map(|estimate| estimate.mean) else {
                return none(measure, policy_name);
            };
            let scale = if measure.is_relative() { value.abs() } else { 1.0 };
            let by_model = deviation.map(|deviation| pool.half(deviation) * scale);
            let by_chance = bar::chance(measured, policy, place).unwrap_or(0.0);
            let bar = by_model.map(|by_model| by_model.hypot(by_chance).max(measure.resolution()));
            let verdict = match measured.is_same(policy, place) {
                true => Verdict::Same,
                false => verdict(measure, value - base.mean, bar),
            };
            Forecast { policy: policy_name, value: Some(value), bar, verdict }
        };
        rows.push(Row {
            measure,
            captured: measured.captured[place],
            simulated: base.mean,
            error,
            forecasts: (1..names.len()).map(forecast).collect(),
        });
    }
    rows
}

/// Returns the forecast of a figure that there is none of. An object that never completes is worse
/// than one that does; delays of no packet say nothing.
fn none(measure: Measure, policy: String) -> Forecast {
    let completes = [Measure::CompletionP50, Measure::CompletionP95].contains(&measure);
    let verdict = if completes { Verdict::Worse } else { Verdict::CannotTell };
    Forecast { policy, value: None, bar: None, verdict }
}

fn verdict(measure: Measure, difference: f64, bar: Option<f64>) -> Verdict {
    match bar.is_some_and(|bar| difference.abs() > bar) {
        false => Verdict::CannotTell,
        true if (difference > 0.0) == measure.more_is_better() => Verdict::Better,
        true => Verdict::Worse,
    }
}

/// Returns the flows that the simulation of the known case does not reproduce, with the reason.
fn unlike(question: &Question<'_>, run: &Run) -> Vec<Unlike> {
    let sources = &question.policies[0].scenario.sources;
    let mut found = Vec::new();
    for ((captured, simulated), source) in question.captured.iter().zip(run).zip(sources) {
        if let Some(why) = why_unlike(captured, simulated) {
            found.push(Unlike { flow: source.name.clone(), why, bytes: captured.bytes });
        }
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.flow.cmp(&b.flow)));
    found
}

fn why_unlike(captured: &Tally, simulated: &Tally) -> Option<String> {
    let (there, here) = (captured.bytes as f64, simulated.bytes as f64);
    if (here - there).abs() > BYTES_UNLIKE * there.max(BYTES_LEAST) {
        return Some(format!("sends {here:.0} B where the capture has {there:.0} B"));
    }
    let (wanted, ended) = (captured.objects.len(), simulated.objects.len());
    if wanted.abs_diff(ended) > 1 + wanted / 10 {
        return Some(format!("completes {ended} objects where the capture has {wanted}"));
    }
    let (there, here) = (captured.completion()?, simulated.completion()?);
    let factor = (here / there.max(1e-9)).max(there / here.max(1e-9));
    let differs = factor > COMPLETION_UNLIKE && (here - there).abs() > COMPLETION_LEAST;
    differs.then(|| {
        let [here, there] = [here, there].map(|seconds| seconds * 1e3);
        format!("objects take {here:.0} ms where the capture has {there:.0} ms")
    })
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped before all runs had ended"),
        }
    }
}

impl std::error::Error for AskError {}

/// By which property groups are made; the first is that of tables.
const BY: [&str; 3] = ["class", "host", "application"];
/// Those over which errors of the known case are pooled.
const POOLED: [&str; 2] = ["class", "application"];
/// By how much replications move the starts of sources: nobody does the same thing twice at the
/// same time.
const START_JITTER: Duration = Duration::from_millis(20);
/// By how much hosts answer later or sooner in replications, for their schedulers and interrupts.
const PROCESSING_JITTER: Duration = Duration::from_millis(1);
/// A flow with a quarter more or less bytes is not reproduced.
const BYTES_UNLIKE: f64 = 0.25;
/// The bytes of a flow that is too small to miss a quarter of.
const BYTES_LEAST: f64 = 20_000.0;
/// A flow whose objects take twice as long, or half, is not reproduced.
const COMPLETION_UNLIKE: f64 = 2.0;
/// A difference that is none.
const COMPLETION_LEAST: f64 = 0.02;
