//! The time of a change of a large link while packets wait: what is prepared beside the link, and
//! what the link's own loop does.
//!
//! A link of [`CLASSES`] leaves, each of which has sent a packet, changes to a plan with another
//! rate of every class and a few more leaves, or to another scheduler, while [`BACKLOGGED`] leaves
//! hold 1 to 50 packets that arrived mixed. As live, another thread prepares the change, so its
//! memory is not in this processor's cache. The fastest round counts, as other work on the machine
//! can only add to the time.

use super::figure::Figure;
use super::road::{LINK_RATE, group_of, plan_at};
use serde::Serialize;
use std::time::Instant as Clock;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Change, LinkPlan, Packet};
use weir_core::random::Random;
use weir_core::sched;
use weir_core::units::{Duration, Instant};

/// Leaves of the link.
pub const CLASSES: usize = 50_000;
/// Leaves in which packets wait.
pub const BACKLOGGED: usize = 1_000;
/// Milliseconds that the loop may take.
pub const APPLY_MILLIS_MAX: f64 = 10.0;
/// Milliseconds that the preparation may take.
pub const PREPARE_MILLIS_MAX: f64 = 1_000.0;
/// The schedulers, before and after.
pub const CHANGES: [(&str, &str); 6] = [
    ("htb", "htb"),
    ("hfsc", "hfsc"),
    ("cbq", "cbq"),
    ("drr", "drr"),
    ("wf2q+", "wf2q+"),
    ("htb", "hfsc"),
];

/// One row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler before.
    pub from: &'static str,
    /// The keyword of the scheduler after.
    pub to: &'static str,
    /// Packets that waited in the link.
    pub packets: u32,
    /// Milliseconds to prepare the change, beside the link.
    pub prepare_millis: f64,
    /// Milliseconds to apply it, in which the link does nothing else.
    pub apply_millis: f64,
    /// Milliseconds to free what is left of the old link, beside it.
    pub free_millis: f64,
    /// Whether neither goal is missed.
    pub holds: bool,
}

/// Measures every change `rounds` times, on a link of `classes` leaves.
pub fn measure(rounds: usize, classes: usize, mut progress: impl FnMut(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    for (from, to) in CHANGES {
        let round = |seed| measure_once((from, to), classes, seed as u64);
        let row = (0..rounds.max(1)).map(round).reduce(fastest).expect("at least one round");
        progress(&row);
        rows.push(row);
    }
    rows
}

/// The rows as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let figures = |row: &Row| {
        let Row { from, to, .. } = row;
        let what = |part: &str| format!("reload, `{from}` to `{to}`: ms to {part}");
        let apply = Figure::at_most(what("apply"), APPLY_MILLIS_MAX, row.apply_millis);
        [Figure::at_most(what("prepare"), PREPARE_MILLIS_MAX, row.prepare_millis), apply]
    };
    rows.iter().flat_map(figures).collect()
}

fn measure_once((from, to): (&'static str, &'static str), classes: usize, seed: u64) -> Row {
    let before = plan(from, LINK_RATE, classes);
    let after = plan(to, LINK_RATE / 2, classes + 16);
    let (mut link, now) = loaded(&before, seed);
    let packets = link.backlog();
    let change = Change { from: &before, to: &after, heir: LeafId(0) };
    let (prepared, prepare_millis) = std::thread::scope(|scope| {
        let prepare = || timed(|| change.prepare());
        scope.spawn(prepare).join().expect("a preparation does not panic")
    });
    let prepared = prepared.unwrap_or_else(|error| panic!("{to}: {error}"));
    let (remains, apply_millis) = timed(|| prepared.apply(&mut link, now));
    let ((), free_millis) = timed(|| drop(remains));
    assert_eq!(link.backlog(), packets, "no packet is lost");
    let mut row =
        Row { from, to, packets, prepare_millis, apply_millis, free_millis, holds: false };
    row.holds = row.is_within();
    row
}

/// A plan whose limits let all packets wait.
fn plan(scheduler: &str, rate: u64, classes: usize) -> LinkPlan {
    let entry = sched::find(scheduler).expect("it is registered");
    plan_at(rate, entry.descriptor, classes, group_of(classes), PACKETS_MAX)
}

/// A link in which every leaf has sent a packet, and every fiftieth has packets.
fn loaded(plan: &LinkPlan, seed: u64) -> (Box<dyn AnyLink>, Instant) {
    let mut link = plan.build().unwrap_or_else(|error| panic!("{}: {error}", plan.scheduler));
    let (mut random, mut now, mut out) = (Random::new(seed, 0), Instant::ZERO, Vec::new());
    let leaves = plan.tree.leaf_count() as u32;
    for leaf in 0..leaves {
        link.offer(now, LeafId(leaf), Packet::new(Handle(leaf), 64));
        now = link.advance(now, &mut out).unwrap_or(now);
        out.clear();
    }
    while let Some(next) = link.advance(now, &mut out) {
        now = next;
    }
    let mut arrivals = Vec::new();
    for index in 0..BACKLOGGED as u32 {
        let leaf = LeafId((u64::from(index) * u64::from(leaves) / BACKLOGGED as u64) as u32);
        arrivals.extend((0..=random.below(50)).map(|_| (random.bits(), leaf)));
    }
    arrivals.sort_unstable();
    for (handle, (_, leaf)) in (0..).zip(arrivals) {
        link.offer(now, leaf, Packet::new(Handle(handle), 64 + random.below(1_400)));
        now = now.after(Duration::from_nanos(7));
    }
    (link, now)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Clock::now();
    let done = work();
    (done, start.elapsed().as_secs_f64() * 1e3)
}

/// The smaller time of each part.
fn fastest(one: Row, other: Row) -> Row {
    let mut row = Row {
        prepare_millis: one.prepare_millis.min(other.prepare_millis),
        apply_millis: one.apply_millis.min(other.apply_millis),
        free_millis: one.free_millis.min(other.free_millis),
        ..other
    };
    row.holds = row.is_within();
    row
}

impl Row {
    fn is_within(&self) -> bool {
        self.prepare_millis <= PREPARE_MILLIS_MAX && self.apply_millis <= APPLY_MILLIS_MAX
    }
}

/// The most packets that wait; more than are offered.
const PACKETS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_measured_and_loses_nothing() {
        let rows = measure(1, 2_000, |_| {});
        assert_eq!(rows.len(), CHANGES.len());
        assert!(rows.iter().all(|row| row.packets > 1_000 && row.apply_millis > 0.0), "{rows:?}");
        assert_eq!(figures(&rows).len(), 2 * rows.len());
    }
}
