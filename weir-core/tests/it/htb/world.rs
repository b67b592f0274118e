//! Trees written as rows, and leaves that hold packets.

use std::collections::VecDeque;
use weir_core::ids::{ClassId, LeafId};
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Head, Scheduler, Tree, find};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

/// A class: name, parent, rate and ceil in bit/s, further parameters as sizes (`prio` as a number).
pub type Row<'a> = (&'a str, Option<u32>, u64, u64, &'a [(&'static str, u64)]);

/// The tree of `rows` under a line of `line` bit/s.
pub fn tree(line: u64, rows: &[Row]) -> Tree {
    let rate = |bits| Quantity::Rate(Rate::new(bits).expect("a rate is not zero"));
    let class = |&(name, parent, bits, ceil, more): &Row| {
        let mut params = Params::new().with("rate", rate(bits)).with("ceil", rate(ceil));
        for &(key, value) in more {
            let value = match key {
                "prio" => Quantity::Number(value),
                _ => Quantity::Bytes(Bytes::new(value)),
            };
            params = params.with(key, value);
        }
        ClassSpec { name: name.to_string(), parent: parent.map(ClassId), params }
    };
    let line = Rate::new(line).expect("a line is not slow for ever");
    let classes = rows.iter().map(class).collect();
    Tree::new(line, Bytes::new(1514), Params::new(), classes).expect("rows are a tree")
}

/// Builds the sound scheduler.
pub fn htb(tree: &Tree) -> Box<dyn Scheduler + Send> {
    build("htb", tree)
}

/// The registered scheduler of this name.
pub fn build(keyword: &str, tree: &Tree) -> Box<dyn Scheduler + Send> {
    (find(keyword).expect("it is registered").build)(tree).expect("the tree suits it")
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

    pub fn push(&mut self, leaf: LeafId, length: u64) -> Head {
        self.0[leaf.index()].push_back(length);
        self.head(leaf).expect("a packet was just queued")
    }

    pub fn pop(&mut self, leaf: LeafId) -> (Bytes, Option<Head>) {
        let length = self.0[leaf.index()].pop_front().expect("a selected leaf is backlogged");
        (Bytes::new(length), self.head(leaf))
    }
}
