//! A class gets its rate while the others change.
//!
//! Every class always has packets, and the rates of all sum to nine tenths of the link's: the rest
//! makes good the bursts of classes that come. What the class lags behind its rate, since it last
//! did not, must never exceed a batch of packets.

use crate::common;

use common::Random;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Change, Graft, LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Duration, Instant, Quantity, Rate};

/// bit/s of the link, and of the class that is watched.
const LINK: u64 = 10_000_000;
const WATCHED: u64 = 2_000_000;
/// bit/s of all others together.
const OTHERS: u64 = 7_000_000;
/// The unit in which the others divide the rest.
const UNIT: u64 = 100_000;
/// Packets that wait in each class.
const DEPTH: u64 = 20;
const MTU: u64 = 1_514;
/// Changes of a run.
const CHANGES: u32 = 2_000;
/// The most bytes that the class may lag: a batch of largest packets. Most of it are the bursts of
/// classes that come: four packets each in `cbq`, and up to six come at once.
const LAG_MAX: f64 = 32.0 * MTU as f64;

/// The parameters that give a class a rate.
type Guarantee = fn(u64) -> Params;

fn rate(rate: u64) -> Quantity {
    Quantity::Rate(Rate::new(rate).expect("not zero"))
}

/// The schedulers that promise a rate or a part.
const ROWS: &[(&str, Guarantee)] = &[
    ("htb", |bits| Params::new().with("rate", rate(bits))),
    ("hfsc", |bits| Params::new().with("rate", rate(bits))),
    ("cbq", |bits| Params::new().with("rate", rate(bits))),
    ("drr", |bits| {
        Params::new().with("quantum", Quantity::Bytes(Bytes::new(MTU * bits / UNIT / 4)))
    }),
    ("wf2q+", |bits| Params::new().with("weight", Quantity::Number(bits / UNIT))),
    ("qfq", |bits| Params::new().with("weight", Quantity::Number(bits / UNIT))),
    ("wfq", |bits| Params::new().with("weight", Quantity::Number(bits / UNIT))),
];

struct Run {
    random: Random,
    plan: LinkPlan,
    guarantee: Guarantee,
    link: Box<dyn AnyLink>,
    now: Instant,
    next: u32,
    lag: f64,
    worst: f64,
    grafts: u32,
}

/// A plan in which the others have these rates.
fn plan(
    random: &mut Random,
    (scheduler, guarantee): (&'static str, Guarantee),
    parts: &[u64],
) -> LinkPlan {
    let class =
        |(name, bits): (String, u64)| ClassSpec { name, parent: None, params: guarantee(bits) };
    let others =
        parts.iter().enumerate().map(|(index, part)| (format!("other{index}"), part * UNIT));
    let mut classes: Vec<_> = others.map(class).collect();
    let at = random.between(0, classes.len() as u64) as usize;
    classes.insert(at, class(("watched".to_owned(), WATCHED)));
    let rate = Rate::new(LINK).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(MTU), Params::new(), classes).expect("flat");
    let mut plan = LinkPlan::new(scheduler, tree);
    for queue in &mut plan.queues {
        let mut params = Params::new();
        let limit = Quantity::Packets(random.between(DEPTH, 100) as u32);
        params.set("limit", Value::Quantity(limit));
        *queue = QueuePlan { params, ..QueuePlan::default() };
    }
    plan
}

/// Divides what the watched class leaves.
fn parts(random: &mut Random) -> Vec<u64> {
    let mut left = OTHERS / UNIT;
    let mut parts = Vec::new();
    while left > 0 && parts.len() < 7 {
        let part = random.between(4, 40).min(left);
        parts.push(part);
        left -= part;
    }
    *parts.last_mut().expect("at least one") += left;
    parts
}

impl Run {
    fn watched(&self) -> LeafId {
        let (leaf, _) =
            self.plan.tree.leaves().find(|row| row.1.name == "watched").expect("it stays");
        leaf
    }

    /// Fills all queues and lets a millisecond pass.
    fn step(&mut self) {
        for leaf in (0..self.plan.tree.leaf_count() as u32).map(LeafId) {
            for _ in self.link.leaf_account(leaf).backlog.packets..DEPTH {
                let length = self.random.between(64, MTU) as u32;
                self.link.offer(self.now, leaf, Packet::new(Handle(self.next), length));
                self.next += 1;
            }
        }
        let (mut out, watched): (Vec<Departure>, _) = (Vec::new(), self.watched());
        self.now = self.now.after(Duration::from_millis(1));
        self.link.advance(self.now, &mut out);
        let sent = out.iter().filter(|row| row.leaf == watched).map(|row| row.charged.get());
        self.lag = (self.lag + WATCHED as f64 / 8e3 - sent.sum::<u64>() as f64).max(0.0);
        self.worst = self.worst.max(self.lag);
    }

    /// Moves a part of the rate of one class to another, leaf by leaf.
    fn graft(&mut self) {
        let leaves = self.plan.tree.leaf_count() as u64;
        let [from, to] = [0; 2].map(|_| LeafId(self.random.between(0, leaves - 1) as u32));
        let watched = self.watched();
        if from == to || from == watched || to == watched {
            return;
        }
        let moved = (self.guarantee)(UNIT);
        let before = [from, to].map(|leaf| self.plan.tree.leaf(leaf).params.clone());
        let value = |params: &Params| params.iter().next().expect("one parameter").1;
        let number = |params: &Params| match value(params) {
            Value::Quantity(Quantity::Rate(rate)) => rate.bits_per_second(),
            Value::Quantity(Quantity::Bytes(bytes)) => bytes.get(),
            Value::Quantity(Quantity::Number(number)) => number,
            other => panic!("{other:?}"),
        };
        let [less, more, unit] = [&before[0], &before[1], &moved].map(number);
        if less <= 4 * unit {
            return;
        }
        let bits = |number: u64| number / unit * UNIT;
        for (leaf, number) in [(from, less - unit), (to, more + unit)] {
            let queue = self.plan.queues[leaf.index()].clone();
            let params = (self.guarantee)(bits(number));
            let graft = Graft::Retune { leaf, params, queue };
            match graft.apply(&mut self.plan, &mut *self.link, self.now) {
                Ok(_) => self.grafts += 1,
                Err(_) => return,
            }
        }
    }

    fn change(&mut self, scheduler: &'static str) {
        let parts = parts(&mut self.random);
        let to = plan(&mut self.random, (scheduler, self.guarantee), &parts);
        let leaves = to.tree.leaves().filter(|row| row.1.name != "watched").map(|row| row.0);
        let heir = leaves.last().expect("others");
        let change = Change { from: &self.plan, to: &to, heir };
        let remains = change.prepare().expect("it builds").apply(&mut self.link, self.now);
        drop(remains);
        self.plan = to;
    }
}

/// Returns the worst lag with a change, or grafts, every so many milliseconds; none with 0.
fn worst_lag(
    (scheduler, guarantee): (&'static str, Guarantee),
    every: u64,
    seed: u64,
) -> (f64, u32) {
    let mut random = Random::new(seed);
    let parts = parts(&mut random);
    let plan = plan(&mut random, (scheduler, guarantee), &parts);
    let link = plan.build().expect("it builds");
    let (now, next) = (Instant::ZERO, 0);
    let mut run = Run { random, plan, guarantee, link, now, next, lag: 0.0, worst: 0.0, grafts: 0 };
    for _ in 0..CHANGES {
        let pause = if every == 0 { 5 } else { run.random.between(1, every) };
        (0..pause).for_each(|_| run.step());
        if every > 0 && run.random.one_in(2) {
            run.change(scheduler);
        } else if every > 0 {
            run.graft();
        }
    }
    (run.worst, run.grafts)
}

#[test]
fn changes_of_the_others_cost_a_class_at_most_a_batch() {
    for &row in ROWS {
        for (every, seed) in [(0, 1), (100, 2), (20, 3), (5, 4)] {
            let (worst, grafts) = worst_lag(row, every, seed);
            println!("{}, every {every} ms: {worst} bytes, {grafts} grafts", row.0);
            assert!(worst <= LAG_MAX, "{}, every {every} ms: {worst} bytes", row.0);
        }
    }
}
