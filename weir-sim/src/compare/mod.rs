//! Runs one scenario under many schedulers, and compares the results with the fluid ideal.
//!
//! The scenario's policy is translated for each scheduler ([`weir_policy::translate`]); sources,
//! seed, queues and rules stay. In a network it is the policy of one outlet, the main one ([`at`]).
//! Shares are compared with what the fluid ideal gives each leaf by the original policy, for the
//! load offered in that run: a leaf with an endless TCP source demands the whole link. Invariant:
//! equal scenarios give equal comparisons, whatever the number of threads.

mod cost;

use crate::change::PlanChange;
use crate::network::plan::{Network, OutletId};
use crate::network::{self, route};
use crate::replicate::{self, micros};
use crate::report::Report;
use crate::scenario::{Scenario, Source, Traffic};
use crate::shown::{megabits, millis, number_table as table};
use serde::Serialize;
use std::fmt;
use std::sync::atomic::AtomicBool;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Params, Value};
use weir_core::sched::{self, ClassSpec, Tree};
use weir_core::units::{Quantity, Rate};
use weir_policy::fluid::{Demand, shares};
use weir_policy::reader::suggest;
use weir_policy::translate::{self, Promised, Translated, promises};

/// One scenario under several schedulers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// The outlet of its network whose scheduler is replaced: the link, and the node that it leads
    /// away from.
    pub outlet: Option<(String, String)>,
    /// The scheduler that its policy is written for.
    pub written_for: &'static str,
    /// What `cost` is.
    pub cost_unit: String,
    /// Each requested scheduler, in the order of the request.
    pub rows: Vec<Row>,
}

/// One scheduler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The keyword.
    pub scheduler: &'static str,
    /// How the policy was translated.
    pub notes: Vec<String>,
    /// Why there is no result.
    pub refused: Option<String>,
    /// The result.
    pub result: Option<Measured>,
}

/// The results under one scheduler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// The part of the ideal's bytes that went to others than the ideal says, 0 to 1.
    pub share_error: f64,
    /// Jain's index of the leaves' throughput relative to the ideal: 1 if all got the same part of
    /// it.
    pub fairness: f64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets offered.
    pub offered: u64,
    /// The part of the time in which the line was sending.
    pub utilisation: f64,
    /// Instructions per packet to those of the yardstick.
    pub cost: Option<f64>,
    /// Every leaf.
    pub leaves: Vec<Leaf>,
}

/// One leaf.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leaf {
    /// The name.
    pub name: String,
    /// What it sent, in bit/s.
    pub sent_bps: f64,
    /// What the fluid ideal gives it, in bit/s.
    pub ideal_bps: f64,
    /// Delays from offer to handing out, in µs.
    pub delay_p50_us: f64,
    /// As above.
    pub delay_p99_us: f64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets offered.
    #[serde(skip)]
    offered: u64,
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

/// Runs `scenario` under each scheduler, on `threads` threads; those that had not ended at a stop
/// are missing.
pub fn compare(
    scenario: &Scenario,
    schedulers: &[&'static sched::Entry],
    threads: usize,
    stop: &AtomicBool,
    done: &mut dyn FnMut(),
) -> Comparison {
    let mut rows: Vec<Row> = Vec::with_capacity(schedulers.len());
    let (mut scenarios, mut places) = (Vec::new(), Vec::new());
    for entry in schedulers {
        let mut row = Row {
            scheduler: entry.descriptor.keyword,
            notes: Vec::new(),
            refused: None,
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
    let make = move |place: usize| scenarios[place].clone();
    let outcomes = replicate::each(places.len(), make, threads, stop, done);
    let counts = cost::counts();
    for (place, outcome) in outcomes {
        let row = &mut rows[places[place]];
        match outcome {
            Ok(report) => {
                let mut measured = measure(scenario, &report);
                measured.cost =
                    counts.as_ref().and_then(|counts| counts.to_yardstick(row.scheduler));
                row.result = Some(measured);
            }
            Err(error) => row.refused = Some(error.to_string()),
        }
    }
    rows.retain(|row| row.result.is_some() || row.refused.is_some());
    Comparison {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
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

/// The scenario under another scheduler, with its changes.
fn adapt(scenario: &Scenario, entry: &sched::Entry) -> Result<(Scenario, Vec<String>), String> {
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

fn measure(scenario: &Scenario, report: &Report) -> Measured {
    let tree = &scenario.link.tree;
    let ideal = ideal(scenario, report);
    let leaf = |(leaf, class): (weir_core::ids::LeafId, &ClassSpec)| {
        let row = report.class(&class.name);
        let sent = row.map_or(0, |row| row.sent.bits_per_second);
        Leaf {
            name: class.name.clone(),
            sent_bps: sent as f64,
            ideal_bps: ideal[tree.class_of(leaf).index()],
            delay_p50_us: row.map_or(0.0, |row| micros(row.delay.p50)),
            delay_p99_us: row.map_or(0.0, |row| micros(row.delay.p99)),
            dropped: row.map_or(0, |row| row.dropped.total.packets),
            offered: row.map_or(0, |row| row.offered.packets),
        }
    };
    let leaves: Vec<Leaf> = tree.leaves().map(leaf).collect();
    Measured {
        share_error: share_error(&leaves),
        fairness: fairness(&leaves),
        dropped: leaves.iter().map(|leaf| leaf.dropped).sum(),
        offered: leaves.iter().map(|leaf| leaf.offered).sum(),
        utilisation: report.link.utilisation,
        cost: None,
        leaves,
    }
}

/// Returns what the fluid ideal gives each class of the original policy for the offered load.
fn ideal(scenario: &Scenario, report: &Report) -> Vec<f64> {
    let tree = &scenario.link.tree;
    let greedy = |name: &str| {
        let feeds = report.sources.iter().zip(&scenario.sources);
        feeds.into_iter().any(|(row, source)| {
            let endless = matches!(&source.traffic, Traffic::Tcp(tcp) if tcp.transfer.is_none());
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
    let demand: Vec<Demand> = tree.leaves().map(|(_, class)| demand(class)).collect();
    shares(&promised_tree(&scenario.link), &demand)
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

/// Half the sum of what leaves have too much or too little, as a part of the ideal's sum.
fn share_error(leaves: &[Leaf]) -> f64 {
    let ideal: f64 = leaves.iter().map(|leaf| leaf.ideal_bps).sum();
    let wrong: f64 = leaves.iter().map(|leaf| (leaf.sent_bps - leaf.ideal_bps).abs()).sum();
    if ideal > 0.0 { wrong / 2.0 / ideal } else { 0.0 }
}

/// `[jain84]`: the square of the sum by the sum of the squares, over how many there are.
fn fairness(leaves: &[Leaf]) -> f64 {
    let wanted = leaves.iter().filter(|leaf| leaf.ideal_bps > 0.0);
    let parts: Vec<f64> = wanted.map(|leaf| leaf.sent_bps / leaf.ideal_bps).collect();
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
    if squares > 0.0 { sum * sum / squares / parts.len() as f64 } else { 1.0 }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, outlet, written_for, cost_unit, rows } = self;
        let place = outlet.as_ref().map(|(link, from)| format!(" at {link} from {from}"));
        let place = place.unwrap_or_default();
        writeln!(f, "{scenario}{place}: written for {written_for}, seed {seed}\n")?;
        let head =
            ["scheduler", "share error", "fairness", "dropped", "of offered", "line", "cost"];
        let measured = rows.iter().filter_map(|row| Some((row.scheduler, row.result.as_ref()?)));
        let cells = |(scheduler, result): (&str, &Measured)| {
            let lost = result.dropped as f64 / (result.offered as f64).max(1.0);
            vec![
                scheduler.to_owned(),
                format!("{:.2} %", result.share_error * 100.0),
                format!("{:.4}", result.fairness),
                result.dropped.to_string(),
                format!("{:.2} %", lost * 100.0),
                format!("{:.2} %", result.utilisation * 100.0),
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
    let delay = |micros| if leaf.sent_bps > 0.0 { millis(micros) } else { "-".to_owned() };
    vec![
        format!("{}: {scheduler}", leaf.name),
        megabits(leaf.sent_bps),
        megabits(leaf.ideal_bps),
        delay(leaf.delay_p50_us),
        delay(leaf.delay_p99_us),
        leaf.dropped.to_string(),
    ]
}
