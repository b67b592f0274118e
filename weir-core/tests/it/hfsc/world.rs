//! Trees written as rows, and leaves that hold packets.

use std::collections::VecDeque;
use weir_core::ids::{ClassId, LeafId};
use weir_core::parameter::{Params, Value};
use weir_core::random;
use weir_core::sched::{ClassSpec, Head, Scheduler, Tree, find};
use weir_core::units::{Bytes, Duration, Instant, Quantity, Rate};

/// A curve: bit/s, ns, bit/s.
pub type Curve = (u64, u64, u64);

/// A class: its parent and its real-time, link-share and upper-limit curves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub parent: Option<usize>,
    pub rt: Option<Curve>,
    pub ls: Option<Curve>,
    pub ul: Option<Curve>,
}

/// In bytes.
pub const LENGTH_MAX: u64 = 1500;

/// The rule for the credit under an upper limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Credit {
    Bounded,
    Linux,
    Altq,
}

/// The credit that `bounded` leaves class `index` under its upper limit, in ns: every class beside
/// it and beside each class above it sends a longest packet at the rate of its family, so does each
/// class above at its own, and it at its limit. A rate is what the class above has, divided by last
/// slopes. Rates are rounded down, times up.
pub fn credit(line: u64, rows: &[Row], index: usize) -> u64 {
    let time = |packets: usize, rate: u64| {
        (packets as u128 * u128::from(LENGTH_MAX) * 8_000_000_000).div_ceil(rate.into()) as u64
    };
    let siblings = |parent| rows.iter().filter(move |row| row.parent == parent && row.ls.is_some());
    let slope = |row: &Row| row.ls.map_or(0, |(_, _, m2)| u128::from(m2));
    let mut path: Vec<usize> = std::iter::successors(Some(index), |&at| rows[at].parent).collect();
    let (mut rate, mut credit) = (line, 0);
    while let Some(at) = path.pop() {
        let parent = rows[at].parent;
        credit += time(siblings(parent).count(), rate);
        if at == index {
            credit += rows[at].ul.map_or(0, |ul| time(1, ul.2));
        } else {
            let sum: u128 = siblings(parent).map(slope).sum();
            rate = ((u128::from(rate) * slope(&rows[at]) / sum) as u64).max(1);
            credit += time(1, rate);
        }
    }
    credit
}

/// The tree of `rows` under a line of `line` bit/s.
pub fn tree(line: u64, rows: &[Row]) -> Tree {
    tree_with(line, rows, Credit::Bounded)
}

/// The tree with this rule for credit under upper limits.
pub fn tree_with(line: u64, rows: &[Row], rule: Credit) -> Tree {
    let rate = |bits| Quantity::Rate(Rate::new(bits).expect("a rate is not zero"));
    let class = |(index, row): (usize, &Row)| {
        let mut params = Params::new();
        let curves = [
            (row.rt, ["rt_m1", "rt_d", "rt_m2"]),
            (row.ls, ["ls_m1", "ls_d", "ls_m2"]),
            (row.ul, ["ul_m1", "ul_d", "ul_m2"]),
        ];
        for (curve, [m1, d, m2]) in curves {
            let Some(curve) = curve else { continue };
            if curve.1 > 0 {
                params = params.with(d, Quantity::Duration(Duration::from_nanos(curve.1)));
                params = if curve.0 > 0 { params.with(m1, rate(curve.0)) } else { params };
            }
            params = params.with(m2, rate(curve.2));
        }
        let parent = row.parent.map(|parent| ClassId(parent as u32));
        ClassSpec { name: index.to_string(), parent, params }
    };
    let line = Rate::new(line).expect("a line is not slow for ever");
    let classes = rows.iter().enumerate().map(class).collect();
    let mut params = Params::new();
    match rule {
        // The default.
        Credit::Bounded => {}
        Credit::Linux => params.set("limit_credit", Value::Choice("linux")),
        Credit::Altq => params.set("limit_credit", Value::Choice("altq")),
    }
    Tree::new(line, Bytes::new(LENGTH_MAX), params, classes).expect("rows are a tree")
}

/// Builds the registered scheduler.
pub fn hfsc(tree: &Tree) -> Box<dyn Scheduler + Send> {
    (find("hfsc").expect("hfsc is registered").build)(tree).expect("the tree suits hfsc")
}

/// Whether the class has no children.
pub fn is_leaf(rows: &[Row], index: usize) -> bool {
    rows.iter().all(|row| row.parent != Some(index))
}

/// The packets that wait in the leaves, by charged length.
#[derive(Clone)]
pub struct Leaves(pub Vec<VecDeque<u64>>);

impl Leaves {
    pub fn new(count: usize) -> Self {
        Self(vec![VecDeque::new(); count])
    }

    pub fn head(&self, leaf: LeafId) -> Option<Head> {
        let length = Bytes::new(*self.0[leaf.index()].front()?);
        Some(Head { length, arrived: Instant::ZERO })
    }

    pub fn pop(&mut self, leaf: LeafId) -> (Bytes, Option<Head>) {
        let length = self.0[leaf.index()].pop_front().expect("a selected leaf is backlogged");
        (Bytes::new(length), self.head(leaf))
    }
}

pub struct Random(random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(random::Random::new(seed, 0))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
