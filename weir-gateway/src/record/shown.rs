//! The results of a replay, as the data of the page.

use super::tape::CLASSES_MAX;
use crate::json::{Card, CardRuns, Class, Direction, Fork, Mark, Packet, Totals};
use std::collections::BTreeMap;
use weir_link::status::{Facts, Shape};
use weir_policy::diff;
use weir_policy::policy::Policy;
use weir_trace::causes::Story;
use weir_trace::driver::model::{Complete, Driver};
use weir_trace::fork::{ClassTotals, ForkReport};
use weir_trace::load::{RecordWay, Runs, Stage};

/// A direction with the classes of a policy, each behind its parent.
pub fn direction(way: &RecordWay, policy: &Policy) -> Direction {
    let shape = Shape::of(policy);
    let status = shape.policy(0);
    let rows: Vec<(Option<u32>, &Facts)> = shape.classes().collect();
    let mut places = vec![None; rows.len()];
    let mut classes: Vec<Class> = Vec::new();
    for class in 0..rows.len() {
        place(class, &rows, &mut places, &mut classes);
    }
    for (_, spec) in policy.link.tree.leaves() {
        let leaf = classes.iter_mut().find(|class| class.name == spec.name);
        leaf.into_iter().for_each(|class| class.leaf = true);
    }
    let left_out = classes.len().saturating_sub(CLASSES_MAX) as u64;
    // A class comes behind its parent, so a first part has the parents of its classes.
    classes.truncate(CLASSES_MAX);
    Direction {
        name: way.name.clone(),
        from: way.from.join(", "),
        to: way.to.clone(),
        rate_bps: status.rate_bps,
        scheduler: status.scheduler,
        policy: status.identity,
        left_out,
        classes,
    }
}

/// Puts a class into the list, behind its parent; returns its place.
fn place(
    class: usize,
    rows: &[(Option<u32>, &Facts)],
    places: &mut [Option<usize>],
    classes: &mut Vec<Class>,
) -> Option<usize> {
    let (parent, facts) = rows.get(class)?;
    if let Some(known) = places[class] {
        return Some(known);
    }
    // A tree has no circle, and eight levels.
    let parent = parent.and_then(|parent| place(parent as usize, rows, places, classes));
    places[class] = Some(classes.len());
    classes.push(Class {
        name: facts.name.clone(),
        parent,
        leaf: false,
        share_bps: facts.share_bps,
        ceiling_bps: facts.ceiling_bps,
        parameters: facts.parameters.to_vec(),
    });
    places[class]
}

/// A packet with what its delay is made of, of a record that begins at `start`.
pub fn packet(story: &Story, start: f64) -> Packet {
    let parts = &story.parts_ms;
    let mut parts_us = vec![
        ("own_leaf", parts.own_leaf),
        ("line_busy", parts.line_busy),
        ("tokens", parts.tokens),
        ("undertime", parts.undertime),
        ("ceiling", parts.ceiling),
        ("upper_limit", parts.upper_limit),
        ("others", parts.others),
    ];
    parts_us.extend(story.host_ms.map(|ms| ("host", ms)));
    parts_us.extend(story.port_ms.map(|ms| ("port", ms)));
    let part = |(name, ms): (&str, f64)| (name.to_owned(), ms * 1e3);
    Packet {
        n: story.number,
        class: story.class.clone(),
        offered: start + story.offered_s * 1e3,
        bytes: story.bytes.into(),
        total_us: story.total_ms * 1e3,
        parts_us: parts_us.into_iter().map(part).collect(),
        regulated_by: story.regulated_by.clone().map(|(class, rule)| (class, rule.to_owned())),
        lender: story.lender.clone(),
        dropped: story.dropped.map(str::to_owned),
        sentence: story.to_string(),
    }
}

/// Converts the two futures of a fork.
pub fn fork(report: ForkReport) -> Fork {
    let totals = |rows: BTreeMap<String, ClassTotals>| {
        rows.into_iter().map(|(name, row)| (name, total(row))).collect()
    };
    let runs = |runs: Runs| CardRuns { all: runs.all, contended: runs.contended };
    Fork {
        recorded_totals: totals(report.recorded_totals),
        forked_totals: totals(report.forked_totals),
        runs: report.forked_runs.map(runs),
        step_ms: report.step_ms,
        recorded: report.recorded,
        forked: report.forked,
        identical: report.identical,
        packets: report.packets,
        first_difference: report.first_difference,
        open_loop: report.open_loop,
        t: report.t,
    }
}

fn total(row: ClassTotals) -> Totals {
    Totals {
        sent_packets: row.sent_packets,
        dropped_packets: row.dropped_packets,
        delay_mean_us: row.delay_mean_us,
    }
}

/// The model of a card.
pub fn driver(card: Card) -> Driver {
    match card {
        Card::Chain => Driver::FXP,
        Card::Packet => Driver::Fxp { ring: CARD_RING, complete: Complete::Packet },
    }
}

/// Bound: packets that the ring of a simulated card holds [quadros §4]; further ones wait in the
/// link.
const CARD_RING: u32 = 128;

/// A mark, with its kind and level.
pub fn mark(t: f64, (kind, level): (&str, &str), text: String) -> Mark {
    Mark { t, kind: kind.to_owned(), text, level: level.to_owned() }
}

/// A change of a policy in words.
pub fn change(direction: &str, before: &Stage, after: &Stage) -> String {
    let what = diff::line(&before.policy, &after.policy);
    format!("{direction}: {}", what.unwrap_or_else(|| "nothing changed".to_owned()))
}
