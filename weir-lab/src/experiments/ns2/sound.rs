//! Offers the same arrivals to `cbq` on a link in whole nanoseconds, beside the fluid ideal.

use super::network::Sent;
use super::scenario::{Scenario, Source};
use super::{flow_name, shares};
use crate::claims::Measured;
use weir_core::change::Change;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Duration, Instant, Quantity, Rate, Share};
use weir_policy::fluid::{self, Demand};

/// Runs a scenario on `cbq`; returns what the link sent, in order.
///
/// # Errors
/// When the scheduler refuses the tree.
pub fn run(scenario: &Scenario) -> Result<Vec<Sent>, String> {
    let mut from = plan(&scenario.tree, &scenario.limits)?;
    let mut link = from.build().map_err(|error| error.to_string())?;
    let mut changes = scenario.changes.iter().peekable();
    let mut departures = Vec::new();
    for (now, flow) in arrivals(scenario) {
        while let Some(change) = changes.next_if(|change| instant(change.at) <= now) {
            let to = plan(&change.tree, &scenario.limits)?;
            link.advance(instant(change.at), &mut departures);
            let change_of_plan = Change { from: &from, to: &to, heir: LeafId(0) };
            let applied = change_of_plan.apply(&mut link, instant(change.at));
            applied.map_err(|error| error.to_string())?;
            from = to;
        }
        link.advance(now, &mut departures);
        let source = &scenario.sources[flow];
        link.offer(now, source.leaf, Packet::new(Handle(flow as u32), source.size));
        link.take_dropped(&mut |_| {});
    }
    let end = scenario.seconds as f64;
    let rate = scenario.tree.rate();
    let sent = departures.into_iter().map(|departure| {
        let at = departure.at.as_nanos() as f64 / 1e9;
        let takes = rate.transmit_time(departure.charged).as_nanos() as f64 / 1e9;
        Sent { at, finished: at + takes, flow: departure.handle.0 as usize }
    });
    Ok(sent.filter(|sent| sent.at < end).collect())
}

/// Returns every arrival at the shared link, in the order of time. A source that has an access link
/// of its own never waits there.
pub fn arrivals(scenario: &Scenario) -> Vec<(Instant, usize)> {
    let mut arrivals = Vec::new();
    for (flow, source) in scenario.sources.iter().enumerate() {
        for on in source.switched.chunks(2) {
            let until = on.get(1).copied().unwrap_or(scenario.seconds as f64);
            let packets = ((until - on[0]) / source.interval).round() as u64;
            let way = ACCESS_NANOS_PER_BYTE * u64::from(source.size) + ACCESS_DELAY_NANOS;
            let interval = (source.interval * 1e9) as u64;
            let first = (on[0] * 1e9) as u64 + way;
            let instants = (0..packets).map(|packet| first + packet * interval);
            arrivals.extend(instants.map(|at| (Instant::from_nanos(at), flow)));
        }
    }
    arrivals.sort();
    arrivals
}

/// Returns the plan with the classes, queues and rates of `tree` for `cbq`.
fn plan(tree: &Tree, limits: &[usize]) -> Result<LinkPlan, String> {
    let class = |spec: &ClassSpec| {
        let mut params = Params::new().with("rate", Quantity::Rate(guaranteed(tree, spec)));
        params.set("borrow", Value::Flag(spec.params.flag("borrow").unwrap_or(true)));
        let leaf = tree.leaves().any(|(_, leaf)| leaf.name == spec.name);
        if let Some(priority) = spec.params.number("priority").filter(|_| leaf) {
            // ns-2 serves the smaller priority first.
            let larger = PRIORITY_MAX - priority.min(PRIORITY_MAX);
            params.set("priority", Value::Quantity(Quantity::Number(larger)));
        }
        ClassSpec { name: spec.name.clone(), parent: spec.parent, params }
    };
    let classes = tree.classes().map(|(_, spec)| class(spec)).collect();
    let tree = Tree::new(tree.rate(), tree.mtu(), Params::new(), classes);
    let mut plan = LinkPlan::new("cbq", tree.map_err(|error| error.to_string())?);
    for (queue, &limit) in plan.queues.iter_mut().zip(limits) {
        // A drop-tail queue of ns-2 holds one less than its limit.
        let packets = Quantity::Packets(limit as u32 - 1);
        *queue = QueuePlan { dropper: "tail", params: Params::new().with("limit", packets) };
    }
    Ok(plan)
}

/// Returns a class's share of the link as a rate, rounded down, at least 1 bit/s.
fn guaranteed(tree: &Tree, spec: &ClassSpec) -> Rate {
    let parts = share_of(spec).map_or(0, |share| u128::from(share.ppb()));
    let bits = u128::from(tree.rate().bits_per_second()) * parts / 1_000_000_000;
    Rate::new(u64::try_from(bits).unwrap_or(u64::MAX)).unwrap_or(Rate::new(1).expect("not zero"))
}

/// Returns a class's share of the link.
pub fn share_of(spec: &ClassSpec) -> Option<Share> {
    match spec.params.quantity("share") {
        Some(Quantity::Share(share)) => Some(share),
        _ => None,
    }
}

/// Adds `short.worst`: by how much the worst class misses its share, or what it wants if that is
/// less, in the worst second that follows a whole second without a change. The fluid ideal is drawn
/// beside it: it divides an excess by shares, where priorities may give it to one class.
///
/// # Errors
/// When the scheduler refuses the tree.
pub fn judge_by_shares(
    scenario: &Scenario,
    sent: &[Sent],
    measured: &mut Measured,
) -> Result<(), String> {
    let got: Vec<Vec<f64>> =
        (0..scenario.sources.len()).map(|flow| shares(scenario, sent, flow)).collect();
    let (mut worst, mut ideals, mut steady) = (0.0f64, Vec::new(), 0u32);
    for second in 0..scenario.seconds {
        let tree = tree_at(scenario, second);
        if is_steady(scenario, second) {
            steady += 1;
            let flows: Vec<f64> = got.iter().map(|shares| shares[second]).collect();
            worst = worst.max(shortage(scenario, tree, second, &flows));
        }
        ideals.push(ideal(scenario, tree, second)?);
    }
    measured.figure("short.worst", worst, "").figure("short.seconds", f64::from(steady), "s");
    for (flow, source) in scenario.sources.iter().enumerate() {
        let ideal: Vec<f64> = ideals.iter().map(|ideal| ideal[source.leaf.index()]).collect();
        let name = format!("ideal of {}", flow_name(flow));
        if let Some(plot) = measured.plots.first_mut() {
            *plot = plot.clone().with_values(name, &ideal);
        }
    }
    Ok(())
}

/// Returns the tree in force in a second.
fn tree_at(scenario: &Scenario, second: usize) -> &Tree {
    let changed = scenario.changes.iter().rev().find(|change| change.at <= second as f64);
    changed.map_or(&scenario.tree, |change| &change.tree)
}

/// Returns by how much of the link the worst class misses what it is due, when each flow got what
/// `flows` says. Where more is promised than the link has, what is due shrinks in proportion.
fn shortage(scenario: &Scenario, tree: &Tree, second: usize, flows: &[f64]) -> f64 {
    let link = tree.rate().bits_per_second() as f64;
    let leaves = tree.leaves().map(|(_, spec)| part(spec)).sum::<f64>().max(1.0);
    let short = tree.classes().map(|(id, spec)| {
        let (mut wanted, mut got) = (0.0, 0.0);
        for (flow, source) in scenario.sources.iter().enumerate() {
            if tree.path(tree.class_of(source.leaf)).any(|class| class == id) {
                let rate = f64::from(source.size) * 8.0 / source.interval;
                wanted += if is_on(source, second as f64) { rate / link } else { 0.0 };
                got += flows[flow];
            }
        }
        (part(spec) / leaves).min(wanted) - got
    });
    short.fold(0.0, f64::max)
}

fn part(spec: &ClassSpec) -> f64 {
    share_of(spec).map_or(0.0, |share| f64::from(share.ppb()) / 1e9)
}

/// Returns the share of each leaf in a second in the fluid ideal.
fn ideal(scenario: &Scenario, tree: &Tree, second: usize) -> Result<Vec<f64>, String> {
    let now = second as f64;
    let tree = plan(tree, &scenario.limits)?.tree;
    let mut demand = vec![Demand::Rate(0.0); tree.leaf_count()];
    for source in scenario.sources.iter().filter(|source| is_on(source, now)) {
        let rate = f64::from(source.size) * 8.0 / source.interval;
        demand[source.leaf.index()] = Demand::Rate(rate);
    }
    let shares = fluid::shares(&tree, &demand);
    let link = tree.rate().bits_per_second() as f64;
    Ok(tree.leaves().map(|(leaf, _)| shares[tree.class_of(leaf).index()] / link).collect())
}

fn is_on(source: &Source, at: f64) -> bool {
    source.switched.iter().filter(|&&switched| switched <= at).count() % 2 == 1
}

/// Returns whether nothing changes in this second and the one before, so that queues have settled.
fn is_steady(scenario: &Scenario, second: usize) -> bool {
    let switches = scenario.sources.iter().flat_map(|source| &source.switched).copied();
    let mut instants = switches.chain(scenario.changes.iter().map(|change| change.at));
    let (from, until) = (second as f64 - 1.0, second as f64 + 1.0);
    second > 0 && !instants.any(|at| at >= from && at < until)
}

fn instant(seconds: f64) -> Instant {
    Instant::ZERO.after(Duration::from_nanos((seconds * 1e9) as u64))
}

/// At 10 Mbit/s.
const ACCESS_NANOS_PER_BYTE: u64 = 800;
/// 5 ms.
const ACCESS_DELAY_NANOS: u64 = 5_000_000;
/// The largest priority of `cbq`, where the larger is served first.
const PRIORITY_MAX: u64 = 7;
