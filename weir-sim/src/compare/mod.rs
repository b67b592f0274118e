//! Runs one scenario under many schedulers, and compares the results with the fluid ideal.
//!
//! The scenario's policy is translated for each scheduler ([`weir_policy::translate`]); sources,
//! seed, queues and rules stay. In a network it is the policy of one outlet, the main one ([`at`]).
//! Shares are compared with what the fluid ideal gives each leaf by the original policy, and by
//! those that changes put in its place, for the load offered in that run: a leaf with an endless
//! TCP source demands the whole link. Invariant: equal scenarios give equal comparisons, whatever
//! the number of threads.

mod cost;
mod measured;

use crate::change::PlanChange;
use crate::network::plan::{Network, OutletId};
use crate::network::{self, route};
use crate::replicate::{self, ALIKE, Estimate};
use crate::report::Report;
use crate::run::{RunError, run_watched};
use crate::scenario::{Scenario, Source, Traffic};
use crate::timeline::{Timelines, Tracks};
use crate::watch::{Fate, Watch};
use measured::{Figures, LeafFigures, count, figure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::{fmt, iter};
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Params, Value};
use weir_core::sched::{self, ClassSpec, Tree};
use weir_core::units::{Duration, Quantity, Rate};
use weir_policy::fluid::{Demand, shares};
use weir_policy::reader::suggest;
use weir_policy::table::number_table as table;
use weir_policy::translate::{self, Promised, Translated, promises};

/// One scenario under several schedulers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The name of the scenario.
    pub scenario: String,
    /// Its seed; of several runs that of the first.
    pub seed: u64,
    /// The runs under each scheduler that were requested, each with the next seed.
    pub replications: usize,
    /// The outlet of its network whose scheduler is replaced: the link, and the node that it leads
    /// away from.
    pub outlet: Option<(String, String)>,
    /// The scheduler that its policy is written for.
    pub written_for: &'static str,
    /// The unit of `cost`, in words.
    pub cost_unit: String,
    /// Each requested scheduler, in the order of the request.
    pub rows: Vec<Row>,
}

/// The results under one scheduler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// How the policy was translated.
    pub notes: Vec<String>,
    /// Why there is no result.
    pub refused: Option<String>,
    /// The runs that ended.
    pub runs: usize,
    /// The figures; `None` where the scheduler was refused.
    pub result: Option<Measured>,
}

/// The results under one scheduler: of one run, or means over several.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// The part of the ideal's bytes that went to others than the ideal says, 0 to 1.
    #[serde(serialize_with = "figure")]
    pub share_error: Estimate,
    /// Jain's index of the leaves' throughput relative to the ideal: 1 if all got the same part of
    /// it.
    #[serde(serialize_with = "figure")]
    pub fairness: Estimate,
    /// Packets dropped, of all leaves.
    #[serde(serialize_with = "count")]
    pub dropped: Estimate,
    /// Packets offered, of all leaves.
    #[serde(serialize_with = "count")]
    pub offered: Estimate,
    /// The part of the offered packets that were dropped, 0 to 1.
    #[serde(serialize_with = "figure")]
    pub loss: Estimate,
    /// The part of the time in which the line was sending.
    #[serde(serialize_with = "figure")]
    pub utilisation: Estimate,
    /// Instructions per packet to those of the yardstick.
    pub cost: Option<f64>,
    /// The figures of each leaf, in their order.
    pub leaves: Vec<Leaf>,
}

/// The figures of one leaf.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leaf {
    /// The name of the class.
    pub name: String,
    /// The rate that it sent, in bit/s.
    #[serde(serialize_with = "figure")]
    pub sent_bps: Estimate,
    /// The rate of the fluid ideal, in bit/s.
    #[serde(serialize_with = "figure")]
    pub ideal_bps: Estimate,
    /// Delays from offer to handing out, in µs.
    #[serde(serialize_with = "figure")]
    pub delay_p50_us: Estimate,
    /// The delay that 99 in 100 packets do not exceed, in µs.
    #[serde(serialize_with = "figure")]
    pub delay_p99_us: Estimate,
    /// Packets dropped in the leaf.
    #[serde(serialize_with = "count")]
    pub dropped: Estimate,
}

/// The runs to make.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    /// The schedulers to compare, in the order of the rows.
    pub schedulers: &'a [&'static sched::Entry],
    /// The runs under each, each with the next seed; at least one.
    pub replications: usize,
    /// Runs at the same time.
    pub threads: usize,
}

/// Returns the schedulers called `keywords`.
///
/// # Errors
/// When a keyword is unknown; names the most similar one.
pub fn find(keywords: &[String]) -> Result<Vec<&'static sched::Entry>, String> {
    let known: Vec<_> = sched::SCHEDULERS.iter().map(|entry| entry.descriptor.keyword).collect();
    let find = |keyword: &String| {
        sched::find(keyword).ok_or_else(|| {
            format!("no scheduler is called `{keyword}`; {}", suggest(keyword, &known))
        })
    };
    keywords.iter().map(find).collect()
}

/// The scenario to compare schedulers in: of a network, where its main outlet is that of `link` at
/// the node `from`, which may be left out where only one outlet can be meant.
///
/// # Errors
/// When there is no such outlet, or several could be meant; names them.
pub fn at(scenario: Scenario, link: Option<&str>, from: Option<&str>) -> Result<Scenario, String> {
    let Some(network) = &scenario.network else {
        return match link.or(from) {
            Some(_) => Err("the scenario has one link; leave --link and --from out".to_owned()),
            None => Ok(scenario),
        };
    };
    let outlet = outlet(network, link, from)?;
    Ok(network::led_by(&scenario, outlet).expect("the outlet is one of the network"))
}

fn outlet(network: &Network, link: Option<&str>, from: Option<&str>) -> Result<OutletId, String> {
    if let Some(name) = link
        && network.links.iter().all(|row| row.name != name)
    {
        let known: Vec<_> = network.links.iter().map(|row| row.name.as_str()).collect();
        return Err(format!("no link is called `{name}`; {}", suggest(name, &known)));
    }
    let meant = |id: &&OutletId| {
        let names = network.outlet_names(**id);
        link.is_none_or(|link| link == names.0) && from.is_none_or(|from| from == names.1)
    };
    let found: Vec<OutletId> = network.policies.iter().filter(meant).copied().collect();
    match (&found[..], &network.policies[..]) {
        ([outlet], _) => Ok(*outlet),
        (_, []) => Err("no link of the scenario has a policy to replace; write one".to_owned()),
        ([], all) => Err(format!("no policy stands there, but {}", places(network, all))),
        (several, _) => Err(format!(
            "policies stand {}; say with --link, and --from where both ways have one, whose \
             scheduler to replace",
            places(network, several)
        )),
    }
}

/// `at "pvc3" from "router", at "up" from "host"`.
fn places(network: &Network, outlets: &[OutletId]) -> String {
    let place = |&id: &OutletId| {
        let (link, from) = network.outlet_names(id);
        format!("at `{link}` from `{from}`")
    };
    outlets.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// Runs `scenario` under each scheduler as often as `runs` says; those that had not ended at a stop
/// are missing.
pub fn compare(
    scenario: &Scenario,
    runs: Runs<'_>,
    stop: &AtomicBool,
    done: &mut dyn FnMut(),
) -> Comparison {
    let mut rows: Vec<Row> = Vec::with_capacity(runs.schedulers.len());
    let (mut scenarios, mut places) = (Vec::new(), Vec::new());
    for entry in runs.schedulers {
        let mut row = Row {
            scheduler: entry.descriptor.keyword,
            notes: Vec::new(),
            refused: None,
            runs: 0,
            result: None,
        };
        match adapt(scenario, entry) {
            Ok((adapted, notes)) => {
                row.notes = notes;
                scenarios.push(adapted);
                places.push(rows.len());
            }
            Err(why) => row.refused = Some(why),
        }
        rows.push(row);
    }
    let each = runs.replications;
    let make = move |run: usize| {
        let scenario = &scenarios[run / each];
        let seed = scenario.seed.wrapping_add((run % each) as u64);
        Scenario { seed, ..scenario.clone() }
    };
    let outcomes = replicate::each(places.len() * each, make, runs.threads, stop, done);
    let mut measured = vec![Vec::new(); rows.len()];
    for (run, outcome) in outcomes {
        let place = places[run / each];
        match outcome {
            Ok(report) => measured[place].push(measure(scenario, &report)),
            Err(error) => rows[place].refused = Some(error.to_string()),
        }
    }
    let counts = cost::counts();
    for (row, measured) in rows.iter_mut().zip(&measured) {
        row.runs = measured.len();
        let cost = counts.as_ref().and_then(|counts| counts.to_yardstick(row.scheduler));
        let over = measured::over(measured).filter(|_| row.refused.is_none());
        row.result = over.map(|result| Measured { cost, ..result });
    }
    rows.retain(|row| row.result.is_some() || row.refused.is_some());
    Comparison {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        replications: each,
        outlet: scenario.network.as_ref().map(|network| {
            let (link, from) = network.outlet_names(network.main);
            (link.to_owned(), from.to_owned())
        }),
        written_for: scenario.link.scheduler,
        cost_unit: format!(
            "instructions per packet of `serve` with 104 leaves and mixed lengths, as counted in \
             bench/instructions.json, to those of {}",
            cost::yardstick()
        ),
        rows,
    }
}

/// Runs `scenario` once under each scheduler that it can be translated for, and returns the tracks
/// of the outlet whose scheduler is replaced, with the scheduler's keyword.
///
/// # Errors
/// As [`crate::run()`].
pub fn tracks(
    scenario: &Scenario,
    schedulers: &[&'static sched::Entry],
    threads: usize,
) -> Result<Vec<(String, Tracks)>, RunError> {
    let scenarios: Vec<Scenario> =
        schedulers.iter().filter_map(|entry| Some(adapt(scenario, entry).ok()?.0)).collect();
    let run = |place: usize| {
        let scenario = &scenarios[place];
        let mut timelines = Timelines::of(scenario, None);
        let mut tell = |fate: &Fate<'_>| timelines.add(fate);
        let watch = Watch { packets: Some(&mut tell), rest: true, ..Watch::default() };
        run_watched(scenario, watch, &mut |_: Duration| {})?;
        let tracks = timelines.finish().swap_remove(0);
        Ok((scenario.link.scheduler.to_owned(), tracks))
    };
    replicate::map(scenarios.len(), run, threads).into_iter().collect()
}

/// Returns the scenario under another scheduler, with its changes, and notes on what has no
/// counterpart.
///
/// # Errors
/// When the scheduler cannot express the policy.
pub fn adapt(scenario: &Scenario, entry: &sched::Entry) -> Result<(Scenario, Vec<String>), String> {
    let Translated { plan, notes, .. } = translate::translate(&scenario.link, entry.descriptor)?;
    let mut adapted = Scenario { link: plan, ..scenario.clone() };
    let main = scenario.network.as_ref().map(|network| network.main);
    let of_main = |change: &&mut PlanChange| main.is_none_or(|main| change.outlet == main);
    for change in adapted.changes.iter_mut().filter(of_main) {
        let translated = translate::translate(&change.link, entry.descriptor);
        let translated = translated.map_err(|why| format!("{}: {why}", change.policy))?;
        change.link = translated.plan;
    }
    Ok((adapted, notes))
}

fn measure(scenario: &Scenario, report: &Report) -> Figures {
    let ideal = ideal(scenario, report);
    let leaf = |(_, class): (weir_core::ids::LeafId, &ClassSpec)| {
        let ideal = ideal.get(class.name.as_str()).copied().unwrap_or_default();
        LeafFigures::of(&class.name, report, ideal)
    };
    let leaves = scenario.link.tree.leaves().map(leaf).collect();
    Figures { utilisation: report.link.utilisation, leaves }
}

/// Returns what the fluid ideal gives each leaf by the original policies for the offered load: the
/// mean over the time that each policy is in force.
fn ideal<'s>(scenario: &'s Scenario, report: &Report) -> BTreeMap<&'s str, f64> {
    let mut all = BTreeMap::new();
    for (plan, part) in plans(scenario) {
        let rates = shares_of(plan, scenario, report);
        for (leaf, class) in plan.tree.leaves() {
            let rate = rates[plan.tree.class_of(leaf).index()];
            *all.entry(class.name.as_str()).or_default() += rate * part;
        }
    }
    all
}

/// The plans of the link in question, each with its part of the time that is measured.
fn plans(scenario: &Scenario) -> Vec<(&LinkPlan, f64)> {
    let main = scenario.network.as_ref().map(|network| network.main);
    let (begin, end) = (scenario.warmup.as_nanos(), scenario.duration.as_nanos());
    let mut changes: Vec<&PlanChange> =
        scenario.changes.iter().filter(|it| main.is_none_or(|main| it.outlet == main)).collect();
    changes.sort_by_key(|change| change.at);
    let at = |change: &&PlanChange| change.at.as_nanos().clamp(begin, end);
    let starts = iter::once(begin).chain(changes.iter().map(at));
    let ends = changes.iter().map(at).chain([end]);
    let plans = iter::once(&scenario.link).chain(changes.iter().map(|change| &change.link));
    let part = |(from, to): (u64, u64)| (to - from) as f64 / (end - begin) as f64;
    plans.zip(starts.zip(ends).map(part)).collect()
}

/// Returns what the fluid ideal gives each class of one plan for the offered load.
fn shares_of(plan: &LinkPlan, scenario: &Scenario, report: &Report) -> Vec<f64> {
    let greedy = |name: &str| {
        let feeds = report.sources.iter().zip(&scenario.sources);
        feeds.into_iter().any(|(row, source)| {
            let plain = matches!(&source.traffic, Traffic::Tcp(_) | Traffic::Quic(_));
            let endless = plain && source.traffic.transfer().is_none();
            row.class == name && endless && crosses_main(scenario, source)
        })
    };
    let demand = |class: &ClassSpec| {
        if greedy(&class.name) {
            return Demand::Greedy;
        }
        let offered = report.class(&class.name).map_or(0, |row| row.offered.bits_per_second);
        Demand::Rate(offered as f64)
    };
    let demand: Vec<Demand> = plan.tree.leaves().map(|(_, class)| demand(class)).collect();
    shares(&promised_tree(plan), &demand)
}

/// Returns whether the packets that a source sends, not its acknowledgements, pass the link in
/// question.
fn crosses_main(scenario: &Scenario, source: &Source) -> bool {
    let Some(network) = &scenario.network else { return true };
    let way = source.ends.and_then(|ends| route(network, ends));
    way.is_some_and(|way| way.contains(&network.main))
}

/// Returns the tree of a plan with the parameters that the fluid ideal reads.
fn promised_tree(plan: &LinkPlan) -> Tree {
    let promised = promises(plan);
    let rate = |rate: f64| {
        let rate = Rate::new((rate as u64).max(1)).expect("it is at least 1");
        Value::Quantity(Quantity::Rate(rate))
    };
    let spec = |(id, class): (ClassId, &ClassSpec)| {
        let Promised { rate: own, ceil, .. } = promised[id.index()];
        let mut params = Params::new();
        params.set("rate", rate(own));
        params.set("borrow", Value::Flag(true));
        if let Some(ceil) = ceil {
            params.set("ceil", rate(ceil));
        }
        ClassSpec { params, ..class.clone() }
    };
    let classes = plan.tree.classes().map(spec).collect();
    let tree = Tree::new(plan.tree.rate(), plan.tree.mtu(), Params::new(), classes);
    tree.expect("it has the shape of a tree")
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, replications, outlet, written_for, cost_unit, rows } = self;
        let place = outlet.as_ref().map(|(link, from)| format!(" at {link} from {from}"));
        let place = place.unwrap_or_default();
        write!(f, "{scenario}{place}: written for {written_for}, seed {seed}")?;
        if *replications > 1 {
            let mut results = rows.iter().filter_map(|row| row.result.as_ref());
            let alike = results.all(|result| result.utilisation.within.is_none());
            let told = if alike { ALIKE } else { INTERVAL };
            write!(f, ", {replications} replications\n{told}")?;
        }
        writeln!(f, "\n")?;
        let head =
            ["scheduler", "share error", "fairness", "dropped", "of offered", "line", "cost"];
        let measured = rows.iter().filter_map(|row| Some((row.scheduler, row.result.as_ref()?)));
        let cells = |(scheduler, result): (&str, &Measured)| {
            vec![
                scheduler.to_owned(),
                format!("{:.2} %", result.share_error.times(100.0)),
                format!("{:.4}", result.fairness),
                packets(result.dropped),
                format!("{:.2} %", result.loss.times(100.0)),
                format!("{:.2} %", result.utilisation.times(100.0)),
                result.cost.map_or("-".to_owned(), |cost| format!("{cost:.2}")),
            ]
        };
        writeln!(f, "{}\n", table(&head, measured.clone().map(cells)))?;
        let head = ["class: scheduler", "Mbit/s", "ideal", "p50 ms", "p99 ms", "dropped"];
        let names = measured.clone().next().map_or(0, |(_, result)| result.leaves.len());
        let leaf_rows = (0..names).flat_map(|place| {
            measured
                .clone()
                .map(move |(scheduler, result)| leaf_cells(scheduler, &result.leaves[place]))
        });
        writeln!(f, "{}\n", table(&head, leaf_rows))?;
        for row in rows {
            for note in
                row.refused.iter().map(|why| format!("refused: {why}")).chain(row.notes.clone())
            {
                writeln!(f, "{}: {note}", row.scheduler)?;
            }
        }
        writeln!(f, "cost: {cost_unit}")
    }
}

fn leaf_cells(scheduler: &str, leaf: &Leaf) -> Vec<String> {
    // Without packets there are no delays.
    let delay = |micros| replicate::millis(micros, leaf.sent_bps.mean > 0.0);
    vec![
        format!("{}: {scheduler}", leaf.name),
        format!("{:.4}", leaf.sent_bps.times(1e-6)),
        format!("{:.4}", leaf.ideal_bps.times(1e-6)),
        delay(leaf.delay_p50_us),
        delay(leaf.delay_p99_us),
        packets(leaf.dropped),
    ]
}

/// A count, which is whole unless it is a mean.
fn packets(count: Estimate) -> String {
    let precision = usize::from(count.within.is_some());
    format!("{count:.precision$}")
}

const INTERVAL: &str = "mean ± half of the 95 % confidence interval (Student's t)";
