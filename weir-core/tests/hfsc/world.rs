//! Trees written as rows, and leaves that hold packets.

use std::collections::VecDeque;
use weir_core::ids::{ClassId, LeafId};
use weir_core::parameter::Params;
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

/// The tree of `rows` under a line of `line` bit/s.
pub fn tree(line: u64, rows: &[Row]) -> Tree {
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
    Tree::new(line, Bytes::new(1500), Params::new(), classes).expect("rows are a tree")
}

/// The registered scheduler.
pub fn hfsc(tree: &Tree) -> Box<dyn Scheduler + Send> {
    (find("hfsc").expect("hfsc is registered").build)(tree).expect("the tree suits hfsc")
}

/// Whether the class has no children.
pub fn is_leaf(rows: &[Row], index: usize) -> bool {
    rows.iter().all(|row| row.parent != Some(index))
}

/// What waits in the leaves, by charged length.
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

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
