//! The sequence of packets that pass a point, from which the runs of a class are counted.

use super::plan::{Point, TAP_ROWS_MAX, TapPlan};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::ids::LeafId;
use weir_core::sched::Tree;
use weir_core::units::Instant;

/// A tap while the run goes on.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    pub plan: TapPlan,
    classes: Vec<String>,
    places: BTreeMap<String, u32>,
    /// Of the present plan: the class of each leaf.
    leaves: Vec<u32>,
    rows: Vec<TapRow>,
    packets: u64,
}

/// A packet that passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapRow {
    /// The instant at which it passed.
    pub at: Instant,
    /// When the link was offered it.
    pub arrived: Instant,
    /// Its class: a place in the tap's list.
    pub class: u32,
    /// Its source: a place in the scenario's list.
    pub source: u32,
    /// Its length as a frame.
    pub length: u32,
}

/// The record of a tap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TapReport {
    /// The name of the link.
    pub link: String,
    /// The node that the outlet leads away from.
    pub from: String,
    /// The place behind which packets were recorded.
    pub point: &'static str,
    /// How many packets passed after the warm-up.
    pub packets: u64,
    /// The names of classes, and the runs of each among the rows.
    pub classes: Vec<TapClass>,
    /// The first of these packets, in the order in which they passed.
    #[serde(skip)]
    pub rows: Vec<TapRow>,
}

/// The runs of a class: packets that follow each other with none of another class between.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TapClass {
    /// The name of the class.
    pub name: String,
    /// The number of its packets.
    pub packets: u64,
    /// The number of its runs.
    pub runs: u64,
    /// The length of its longest run, in packets.
    pub longest: u64,
}

impl Tap {
    pub fn new(plan: TapPlan, tree: &Tree) -> Self {
        let mut tap = Self {
            plan,
            classes: Vec::new(),
            places: BTreeMap::new(),
            leaves: Vec::new(),
            rows: Vec::new(),
            packets: 0,
        };
        tap.change(tree);
        tap
    }

    /// From now on these are the classes; those of one name are one.
    pub fn change(&mut self, tree: &Tree) {
        let mut place = |name: &String| {
            if let Some(&place) = self.places.get(name) {
                return place;
            }
            let place = self.classes.len() as u32;
            self.places.insert(name.clone(), place);
            self.classes.push(name.clone());
            place
        };
        // A place that no class has lets no packet pass.
        let mut place = |name: &String| if name.is_empty() { u32::MAX } else { place(name) };
        self.leaves = tree.leaves().map(|(_, class)| place(&class.name)).collect();
    }

    /// Counts a packet, and records it as long as there is room.
    pub fn record(&mut self, times: (Instant, Instant), leaf: LeafId, packet: (u32, u32)) {
        self.packets += 1;
        let most = self.plan.rows.min(TAP_ROWS_MAX) as usize;
        let Some(&class) = self.leaves.get(leaf.index()).filter(|_| self.rows.len() < most) else {
            return;
        };
        let ((at, arrived), (source, length)) = (times, packet);
        self.rows.push(TapRow { at, arrived, class, source, length });
    }

    /// Returns the record up to `end`, of the outlet of `link` at the node `from`.
    pub fn report(mut self, link: &str, from: &str, end: Instant) -> TapReport {
        // Only the wire's instants lie ahead, of packets that the run did not see sent.
        let rows = self.rows.len();
        self.rows.retain(|row| row.at <= end);
        self.packets -= (rows - self.rows.len()) as u64;
        let class = |name| TapClass { name, packets: 0, runs: 0, longest: 0 };
        let mut classes: Vec<_> = self.classes.into_iter().map(class).collect();
        for run in self.rows.chunk_by(|one, other| one.class == other.class) {
            let class = &mut classes[run[0].class as usize];
            class.packets += run.len() as u64;
            class.runs += 1;
            class.longest = class.longest.max(run.len() as u64);
        }
        TapReport {
            link: link.to_owned(),
            from: from.to_owned(),
            point: Point::keyword(self.plan.point),
            packets: self.packets,
            classes,
            rows: self.rows,
        }
    }
}

impl TapReport {
    /// The runs in their order: the class, and how many of its packets follow each other.
    pub fn runs(&self) -> impl Iterator<Item = (&str, usize)> {
        let runs = self.rows.chunk_by(|one, other| one.class == other.class);
        runs.map(|run| (self.classes[run[0].class as usize].name.as_str(), run.len()))
    }

    /// The place of the class called `name`, as rows give it.
    pub fn class(&self, name: &str) -> Option<u32> {
        Some(self.classes.iter().position(|class| class.name == name)? as u32)
    }
}
