//! The service of each class, over one plan of the link or several one after the other.
//!
//! A change of the link ends a phase. In a phase every class is the sum of its leaves; over phases
//! classes of one name are one row, whatever their place in the tree. Invariant: the rows of the
//! leaves sum to what the link sent and dropped while it counted.

use crate::figures::{Amount, Delays, Dropped};
use crate::meter::{Handed, LinkMeter, since};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use weir_core::account::{Account, Count, Histogram, LeafAccount};
use weir_core::classify::Classifier;
use weir_core::event::{DropReason, Marked};
use weir_core::ids::LeafId;
use weir_core::sched::{Kin, Tree};
use weir_core::units::Duration;
use weir_policy::table::{Table, megabits};

/// The service of one class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassReport {
    /// The name of the class.
    pub name: String,
    /// The name of the class above; `None` at the top.
    pub parent: Option<String>,
    /// The class holds packets itself.
    pub leaf: bool,
    /// The class is one of the queues over which another one spreads its packets by a hash.
    #[serde(skip)]
    pub hashed: bool,
    /// All packets that were offered.
    pub offered: Amount,
    /// All packets that were handed to the line.
    pub sent: Amount,
    /// Packets of these that left with another traffic class than they came with.
    pub marked: u64,
    /// Packets of these that a dropper marked by their ECN field.
    pub marked_ecn: u64,
    /// Packets of these that left with another DSCP.
    pub marked_dscp: u64,
    /// All packets that were dropped.
    pub dropped: Dropped,
    /// The packets that wait at the end.
    pub backlog: Amount,
    /// The time from offer to departure.
    #[serde(rename = "delay_us")]
    pub delay: Delays,
}

/// The rows of the report, as far as phases have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassSums {
    rows: Vec<Row>,
    places: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    name: String,
    parent: Option<String>,
    leaf: bool,
    hashed: bool,
    sum: LeafAccount,
    delays: Histogram,
    marked: Marked,
}

impl ClassSums {
    /// Adds a phase under `tree`, at whose end the link had counted `account`. What waits then is
    /// what waits in all.
    pub fn add(&mut self, tree: &Tree, account: &[LeafAccount], link: &LinkMeter) {
        self.rows.iter_mut().for_each(|row| row.sum.backlog = Count::default());
        let mut places = Vec::with_capacity(tree.classes().len());
        for (class, spec) in tree.classes() {
            if spec.name.is_empty() {
                // A place that no class has.
                places.push(NOWHERE);
                continue;
            }
            let place = self.place(&spec.name);
            let row = &mut self.rows[place];
            row.parent = spec.parent.map(|parent| tree.class(parent).name.clone());
            row.leaf = tree.leaf_of(class).is_some();
            places.push(place);
        }
        for (leaf, _) in tree.leaves().filter(|(_, spec)| !spec.name.is_empty()) {
            let own = since(&account[leaf.index()], &link.before[leaf.index()]);
            for class in tree.path(tree.class_of(leaf)) {
                let row = &mut self.rows[places[class.index()]];
                row.sum = plus(&row.sum, &own);
                let handed = &link.handed[leaf.index()];
                row.delays.merge(&handed.delays);
                row.marked.add(handed.marked);
            }
        }
    }

    /// Adds what a class counted that left its place, the leaf of `tree` that had this name. Its
    /// packets that waited count where they went.
    pub fn add_leaf(
        &mut self,
        (tree, leaf, name): (&Tree, LeafId, String),
        own: &LeafAccount,
        handed: &Handed,
    ) {
        let less = |count: u64, moved: u64| count.saturating_sub(moved);
        let offered = Count {
            packets: less(own.offered.packets, own.backlog.packets),
            bytes: less(own.offered.bytes, own.backlog.bytes),
        };
        let own = LeafAccount { offered, backlog: Count::default(), ..*own };
        let class = tree.class_of(leaf);
        for at in tree.path(class) {
            let name = if at == class { &name } else { &tree.class(at).name };
            let place = self.place(name);
            let row = &mut self.rows[place];
            row.parent = tree.class(at).parent.map(|parent| tree.class(parent).name.clone());
            row.leaf = tree.leaf_of(at).is_some();
            row.sum = plus(&row.sum, &own);
            row.delays.merge(&handed.delays);
            row.marked.add(handed.marked);
        }
    }

    /// Notes which classes are queues of a hash under a plan.
    pub fn mark_hashed(&mut self, tree: &Tree, classifier: &Classifier) {
        for leaf in classifier.spread_leaves().filter(|leaf| leaf.index() < tree.leaf_count()) {
            let name = &tree.class(tree.class_of(leaf)).name;
            if let Some(&place) = self.places.get(name) {
                self.rows[place].hashed = true;
            }
        }
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_owned(), self.rows.len());
        self.rows.push(Row { name: name.to_owned(), ..Row::default() });
        self.rows.len() - 1
    }

    /// A row for every class, in the order in which they were first declared.
    pub fn report(self, span: Duration) -> Vec<ClassReport> {
        let row = |row: Row| ClassReport {
            name: row.name,
            parent: row.parent,
            leaf: row.leaf,
            hashed: row.hashed,
            offered: Amount::of(row.sum.offered, span),
            sent: Amount::of(row.sum.sent, span),
            marked: row.marked.packets,
            marked_ecn: row.marked.congested,
            marked_dscp: row.marked.recoded,
            dropped: Dropped {
                total: Amount::of(row.sum.dropped_total(), span),
                by_reason: row.sum.dropped.map(|count| Amount::of(count, span)),
            },
            backlog: Amount::of(row.sum.backlog, span),
            delay: Delays::of(&row.delays),
        };
        self.rows.into_iter().map(row).collect()
    }
}

impl ClassReport {
    /// Whether reports leave it out: a queue of a hash to which no packet came.
    pub fn is_left_out(&self) -> bool {
        self.hashed && self.offered.packets == 0 && self.backlog.packets == 0
    }
}

/// Serializes the classes that a report shows.
pub(crate) fn shown<S: Serializer>(
    classes: &[ClassReport],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(classes.iter().filter(|class| !class.is_left_out()))
}

fn plus(one: &LeafAccount, other: &LeafAccount) -> LeafAccount {
    let mut dropped = one.dropped;
    for (sum, more) in dropped.iter_mut().zip(other.dropped) {
        *sum = sum.plus(more);
    }
    LeafAccount {
        offered: one.offered.plus(other.offered),
        sent: one.sent.plus(other.sent),
        dropped,
        backlog: one.backlog.plus(other.backlog),
    }
}

/// Returns the accounts from which a phase counts, if a change from `old` to `new` begins it:
/// packets that the change dropped count in the phase, packets that waited were offered before.
pub(crate) fn phase_start(old: &Account, new: &Account, kin: &Kin) -> Vec<LeafAccount> {
    let mut start = new.leaves().to_vec();
    for account in &mut start {
        account.dropped[RECONFIGURED] = Count::default();
    }
    for (leaf, before) in kin.leaves() {
        let lost = old.leaf(before).dropped[RECONFIGURED];
        start[leaf.index()].dropped[RECONFIGURED] = lost;
    }
    start
}

/// The table for people.
pub(crate) fn class_table(classes: &[ClassReport]) -> Table {
    let head = [
        "class", "offered", "sent", "Mbit/s", "ECN", "DSCP", "dropped", "backlog", "p50 ms", "p90",
        "p99", "max", "mean",
    ];
    let mut table = Table::new(head).optional(&[4, 5]);
    for class in classes.iter().filter(|class| !class.is_left_out()) {
        let mut row = vec![
            class.name.clone(),
            class.offered.packets.to_string(),
            class.sent.packets.to_string(),
            megabits(class.sent.bits_per_second as f64),
            class.marked_ecn.to_string(),
            class.marked_dscp.to_string(),
            class.dropped.reasons(),
            class.backlog.packets.to_string(),
        ];
        row.extend(class.delay.cells());
        table.row(row);
    }
    table
}

/// The row of a place that no class has.
const NOWHERE: usize = usize::MAX;
const RECONFIGURED: usize = DropReason::Reconfigured as usize;
