//! Weighted round robin, in packets or in bytes [algorithms §4.7].
//!
//! A visit refills a leaf's balance, if that is not above zero, by its allotment: its weight, in
//! packets or in steps of bytes. The leaf sends while its balance is above zero, so its last packet
//! may overdraw it. What is overdrawn remains a debt, also of a leaf that empties and comes back;
//! what is left when a leaf empties is lost.
//!
//! With `forgive`, as in ns-2 and ALTQ [algorithms §2.6b, §3.8]: a leaf that a refill does not lift
//! above zero is passed over, and has no debt after that. When all are passed over, the first
//! sends a packet that costs it nothing. So bytes are not shared by weights when packets are longer
//! than allotments. The place and the balance of a leaf that empties remain until it is passed.
//! Invariant: `round` holds each backlogged leaf once, so the cost does not grow with the leaves.

use super::service::Rounds;
use super::{
    Changes, ClassSpec, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Refit,
    RefitError, Scheduler, Selection, Service, Tree, Waiting,
};
use crate::ids::{ClassId, LeafId};
use crate::order::round_robin::{RoundRobin, Standing};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::format;
use alloc::vec::Vec;

/// Weighted round robin.
pub struct Wrr {
    leaves: Vec<Turn>,
    round: RoundRobin,
    in_bytes: bool,
    /// The most that a packet costs: 1 where packets are counted.
    cost_max: u64,
    forgives: bool,
    /// Whether the first leaf was selected although its balance is zero: its packet costs nothing.
    free: bool,
}

/// The turn of a leaf, in packets or in bytes.
#[derive(Clone, Copy)]
struct Turn {
    allotment: i32,
    balance: i32,
}

impl Discipline for Wrr {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "wrr",
        summary: "Weighted round robin: a number of packets or bytes for each visit.",
        parameters: &[
            Parameter {
                name: "unit",
                scope: Scope::Link,
                kind: Kind::Choice(&["packets", "bytes"]),
                default: Some("packets"),
                summary: "What weights count: packets per visit, or allotments in bytes.",
            },
            Parameter {
                name: "allotment",
                scope: Scope::Link,
                kind: Kind::Size(1, STEP_MAX),
                default: Some("the largest packet"),
                summary: "Bytes per visit for a weight of 1, if weights count bytes.",
            },
            Parameter {
                name: "forgive",
                scope: Scope::Link,
                kind: Kind::Flag,
                default: Some("false"),
                summary: "Whether bytes overdrawn are forgiven when a leaf is passed over.",
            },
            Parameter {
                name: "weight",
                scope: Scope::Leaf,
                kind: Kind::Number(1, WEIGHT_MAX),
                default: Some("1"),
                summary: "The leaf's part of a round.",
            },
        ],
        sources: &["risso99 §2", "algorithms §4.7"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let in_bytes = tree.params().choice("unit") == Some("bytes");
        let forgives = tree.params().flag("forgive") == Some(true);
        if !in_bytes {
            check_packets(tree, forgives)?;
        }
        let mut leaves = Vec::with_capacity(tree.leaf_count());
        for (leaf, _) in tree.leaves() {
            let allotment = gain(tree, leaf, in_bytes)?;
            leaves.push(Turn { allotment, balance: 0 });
        }
        let round = RoundRobin::new(leaves.len());
        let cost_max = if in_bytes { LENGTH_MAX } else { 1 };
        Ok(Self { leaves, round, in_bytes, cost_max, forgives, free: false })
    }
}

impl Scheduler for Wrr {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        self.round.join(leaf);
    }

    #[inline]
    fn select(&mut self, _now: Instant) -> Selection {
        let mut passed = 0;
        while let Some(leaf) = self.round.front() {
            let turn = &mut self.leaves[leaf.index()];
            if self.round.standing(leaf) == Standing::Emptied {
                turn.lose_credit();
                if self.forgives {
                    turn.balance = 0;
                }
                self.round.pop();
                continue;
            }
            if self.free || turn.balance > 0 || turn.refill() {
                return Selection::Leaf(leaf);
            }
            if self.forgives {
                turn.balance = 0;
            }
            self.round.rotate();
            passed += 1;
            if passed >= self.round.len() {
                self.end_vain_round();
                passed = 0;
            }
        }
        Selection::Idle
    }

    #[inline]
    fn charge(&mut self, _now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert_eq!(self.round.front(), Some(leaf), "the leaf whose turn it is sends");
        let turn = &mut self.leaves[leaf.index()];
        if !core::mem::take(&mut self.free) {
            // No packet has less than a byte.
            turn.balance -= sent.get().min(self.cost_max) as i32;
        }
        if next.is_none() && !self.forgives {
            turn.lose_credit();
            return self.round.pop();
        }
        if next.is_none() {
            self.round.mark_empty(leaf);
        }
        if turn.balance <= 0 {
            self.round.rotate();
        }
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        if head.is_some() {
            return;
        }
        self.free &= self.round.front() != Some(leaf);
        if self.forgives {
            return self.round.mark_empty(leaf);
        }
        self.leaves[leaf.index()].lose_credit();
        self.round.empty(leaf);
    }
}

impl Explains for Wrr {
    /// With `forgive` no rule holds for every mix of packets.
    fn service(tree: &Tree) -> Service {
        let in_packets = tree.params().choice("unit") != Some("bytes");
        if tree.params().flag("forgive") == Some(true) {
            return Service::Unknown;
        }
        let step = tree.params().bytes("allotment").unwrap_or(tree.mtu()).get();
        let step = if in_packets { 1 } else { step };
        let gain = |class| weight_of(class).saturating_mul(step);
        let gains = tree.leaves().map(|(_, class)| gain(class)).collect();
        Service::Rounds(Rounds { gains, in_packets, overdraws: !in_packets, forgets: false })
    }
}

impl Changes for Wrr {
    const REFITS: bool = true;

    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        // A balance in packets cannot be converted to bytes.
        let same_unit = self.in_bytes == old.in_bytes;
        let balance = |turn: &Turn| if same_unit { turn.balance } else { 0 };
        for (new, before) in kin.leaves() {
            self.leaves[new.index()].balance = balance(&old.leaves[before.index()]).min(0);
        }
        self.round.inherit(&old.round, kin, |new, before| {
            let turn = &mut self.leaves[new.index()];
            turn.balance = balance(&old.leaves[before.index()]).min(turn.allotment);
        });
    }

    fn refit(
        &mut self,
        _now: Instant,
        tree: &Tree,
        leaf: LeafId,
        refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        let turn = &mut self.leaves[leaf.index()];
        turn.allotment = gain(tree, leaf, self.in_bytes)?;
        turn.balance = if refit.is_new { 0 } else { turn.balance.min(turn.allotment) };
        if refit.is_new {
            self.round.leave(leaf);
        }
        Ok(())
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.round.agrees(waiting.heads)
    }
}

impl Wrr {
    /// Ends a round in which no leaf could send. With `forgive` the first leaf sends at no cost;
    /// else all leaves get the refills of all further such rounds at once, so a choice ends after
    /// three rounds, however small the allotments are.
    #[cold]
    fn end_vain_round(&mut self) {
        if self.forgives {
            self.free = true;
            return;
        }
        let rounds = |leaf: LeafId| {
            let turn = &self.leaves[leaf.index()];
            turn.balance.min(0).unsigned_abs() / turn.allotment.unsigned_abs()
        };
        let rounds = self.round.iter().map(rounds).min().unwrap_or(0);
        for leaf in self.round.iter() {
            let turn = &mut self.leaves[leaf.index()];
            // Reaches zero at most.
            turn.balance += rounds as i32 * turn.allotment;
        }
    }
}

impl Turn {
    /// Adds an allotment to a balance that is not above zero; returns whether it is now.
    #[inline]
    fn refill(&mut self) -> bool {
        self.balance += self.allotment;
        self.balance > 0
    }

    /// Records that the leaf is empty: only a debt remains.
    #[inline]
    fn lose_credit(&mut self) {
        self.balance = self.balance.min(0);
    }
}

fn weight_of(class: &ClassSpec) -> u64 {
    class.params.number("weight").unwrap_or(1).clamp(1, WEIGHT_MAX)
}

/// Refuses parameters that concern bytes where weights count packets.
fn check_packets(tree: &Tree, forgives: bool) -> Result<(), BuildError> {
    let error = |name: &'static str, value: &str| {
        let message = format!(
            "`{name}` = {value} says nothing where `unit` is \"packets\"; write unit = \"bytes\", \
             or leave `{name}` out"
        );
        Err(BuildError::in_link(name, message))
    };
    if let Some(step) = tree.params().bytes("allotment") {
        return error("allotment", &format!("{} B", step.get()));
    }
    if forgives {
        return error("forgive", "true");
    }
    Ok(())
}

/// Returns the gain of a leaf at a visit, in bytes or packets.
fn gain(tree: &Tree, leaf: LeafId, in_bytes: bool) -> Result<i32, BuildError> {
    let (class, weight) = (tree.class_of(leaf), weight_of(tree.leaf(leaf)));
    if !in_bytes {
        return Ok(weight as i32);
    }
    allotment(class, weight, tree.params().bytes("allotment").unwrap_or(tree.mtu()).get())
}

/// The bytes per visit of a class with this weight.
fn allotment(class: ClassId, weight: u64, step: u64) -> Result<i32, BuildError> {
    let bytes = weight.saturating_mul(step);
    if (ALLOTMENT_MIN..=ALLOTMENT_MAX).contains(&bytes) {
        return Ok(bytes as i32);
    }
    let message = format!(
        "`weight` {weight} times an allotment of {step} B is {bytes} B a visit, outside \
         {ALLOTMENT_MIN} B to {ALLOTMENT_MAX} B; change `weight` or the link's `allotment`"
    );
    Err(BuildError::in_class(class, "weight", message))
}

const WEIGHT_MAX: u64 = 65_535;
/// The longest step: with the largest weight it is too long, and refused.
const STEP_MAX: u64 = 1 << 20;
/// The least allotment, as the least quantum of a deficit round robin: a packet of 65 535 bytes is
/// paid in a thousand rounds.
const ALLOTMENT_MIN: u64 = 64;
/// The largest allotment: two of these, or one and the longest packet, fit a balance.
const ALLOTMENT_MAX: u64 = 1 << 30;
/// Longer packets count as this much.
const LENGTH_MAX: u64 = 1 << 30;

state!(Wrr {
    leaves, round, free;
    kept: in_bytes, cost_max, forgives;
    check: |wrr: &Self| wrr.forgives || !wrr.free
});
state!(Turn {
    balance; kept: allotment; check: |turn: &Self| turn.balance.unsigned_abs() <= 1 << 30
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::{Params, Value};
    use crate::random::Random;
    use crate::units::{Quantity, Rate};
    use alloc::string::{String, ToString};

    fn build(unit: &'static str, step: Option<u64>, forgive: bool, weights: &[u64]) -> Wrr {
        Wrr::build(&tree(unit, step, forgive, weights)).expect("builds")
    }

    fn tree(unit: &'static str, step: Option<u64>, forgive: bool, weights: &[u64]) -> Tree {
        let class = |&weight: &u64| ClassSpec {
            name: weight.to_string(),
            parent: None,
            params: Params::new().with("weight", Quantity::Number(weight)),
        };
        let mut params = Params::new();
        params.set("unit", Value::Choice(unit));
        params.set("forgive", Value::Flag(forgive));
        if let Some(step) = step {
            params.set("allotment", Value::Quantity(Quantity::Bytes(Bytes::new(step))));
        }
        let classes = weights.iter().map(class).collect();
        Tree::new(Rate::MIN, Bytes::new(1500), params, classes).expect("a tree")
    }

    /// Returns the leaves that send `count` packets of `lengths` when all are always backlogged.
    fn served(mut wrr: Wrr, lengths: &[u64], count: usize) -> String {
        let now = Instant::ZERO;
        let head = |leaf: usize| Head { length: Bytes::new(lengths[leaf]), arrived: now };
        for leaf in 0..lengths.len() {
            wrr.enqueued(now, LeafId(leaf as u32), head(leaf));
        }
        let mut order = String::new();
        for _ in 0..count {
            let Selection::Leaf(leaf) = wrr.select(now) else { panic!("a leaf waits") };
            assert_eq!(wrr.select(now), Selection::Leaf(leaf), "selected again");
            let head = head(leaf.index());
            wrr.charge(now, leaf, head.length, Some(head));
            order.push(char::from(b'A' + leaf.0 as u8));
        }
        order
    }

    /// Returns the part of each leaf in 100 000 packets, per mille.
    fn shares(wrr: Wrr, lengths: &[u64]) -> Vec<u64> {
        let order = served(wrr, lengths, 100_000);
        let count = |leaf: usize| {
            let letter = char::from(b'A' + leaf as u8);
            order.matches(letter).count() as u64 * lengths[leaf]
        };
        let bytes: Vec<u64> = (0..lengths.len()).map(count).collect();
        let sum: u64 = bytes.iter().sum();
        bytes.iter().map(|bytes| (bytes * 1000 + sum / 2) / sum).collect()
    }

    #[test]
    fn packets_are_counted_by_weight() {
        // [algorithms §7]
        let rows: [(&[u64], &str); 3] =
            [(&[1, 1, 1], "ABCABCABC"), (&[3, 1], "AAABAAABAAAB"), (&[1, 2], "ABBABBABB")];
        for (weights, order) in rows {
            let lengths = &[40, 1500, 9000][..weights.len()];
            assert_eq!(served(build("packets", None, false, weights), lengths, order.len()), order);
        }
    }

    #[test]
    fn bytes_forgiven_drift_as_in_altq() {
        // [algorithms §3.8]
        let rows: [(&[u64], &[u64], &str); 2] = [
            (&[2259, 753], &[1500, 1500], "AABAABAAABABAAABAAB"),
            (&[14_423, 4807], &[1500, 1500], "AAAAAAAAAABBBBAAAAAAAAAABBB"),
        ];
        for (weights, lengths, order) in rows {
            let wrr = build("bytes", Some(1), true, weights);
            assert_eq!(served(wrr, lengths, order.len()), order, "{weights:?}");
        }
    }

    #[test]
    fn shares_drift_only_where_debts_are_forgiven() {
        // [algorithms §3.8]: weights, packets, shares with debts forgiven and with debts paid.
        type Row<'r> = (&'r [u64], &'r [u64], &'r [u64], &'r [u64]);
        let rows: [Row<'_>; 4] = [
            (&[2259, 753], &[1500; 2], &[693, 307], &[750, 250]),
            (&[2256, 1354, 902], &[1500; 3], &[488, 295, 216], &[500, 300, 200]),
            (&[8333, 12_500], &[8220; 2], &[400, 600], &[400, 600]),
            (&[1500, 1500], &[1500, 100], &[500, 500], &[500, 500]),
        ];
        for (weights, lengths, forgiven, paid) in rows {
            assert_eq!(shares(build("bytes", Some(1), true, weights), lengths), forgiven);
            assert_eq!(shares(build("bytes", Some(1), false, weights), lengths), paid);
        }
    }

    /// The circle of ALTQ, step by step, with all leaves backlogged: its second pass over the
    /// circle gives no refill and requires no balance [algorithms §3.7].
    fn circle(allotments: &[u64], lengths: &[u64], count: usize) -> String {
        let circle = allotments.len();
        let mut balances = alloc::vec![0i64; circle];
        let mut active = 0;
        let mut order = String::new();
        for _ in 0..count {
            let mut pass = |refills: bool| {
                for at in (0..circle).map(|offset| (active + offset) % circle) {
                    if refills && balances[at] <= 0 {
                        balances[at] += allotments[at] as i64;
                    }
                    if balances[at] > 0 || !refills {
                        return Some(at);
                    }
                    balances[at] = 0;
                }
                None
            };
            let chosen = pass(true).or_else(|| pass(false)).expect("all wait");
            if balances[chosen] > 0 {
                balances[chosen] -= lengths[chosen] as i64;
            }
            active = if balances[chosen] > 0 { chosen } else { (chosen + 1) % circle };
            order.push(char::from(b'A' + chosen as u8));
        }
        order
    }

    /// The plain version: one refill after the other.
    fn keeping(allotments: &[u64], lengths: &[u64], count: usize) -> String {
        let mut balances = alloc::vec![0i64; allotments.len()];
        let mut at = 0;
        let mut order = String::new();
        while order.len() < count {
            if balances[at] <= 0 {
                balances[at] += allotments[at] as i64;
            }
            while balances[at] > 0 && order.len() < count {
                balances[at] -= lengths[at] as i64;
                order.push(char::from(b'A' + at as u8));
            }
            at = (at + 1) % allotments.len();
        }
        order
    }

    #[test]
    fn it_agrees_with_the_plain_rules() {
        let mut random = Random::new(1, 0);
        for _ in 0..500 {
            let leaves = 1 + random.below(5);
            let mut draw = |least: u32, most: u32| -> Vec<u64> {
                (0..leaves).map(|_| u64::from(least + random.below(most - least))).collect()
            };
            let (weights, lengths) = (draw(64, 4000), draw(40, 9000));
            let rows = [(true, circle as fn(&[u64], &[u64], usize) -> String), (false, keeping)];
            for (forgive, plain) in rows {
                let order = served(build("bytes", Some(1), forgive, &weights), &lengths, 300);
                assert_eq!(order, plain(&weights, &lengths, 300), "{weights:?} {lengths:?}");
            }
        }
    }

    #[test]
    fn a_debt_outlives_an_empty_leaf_and_credit_does_not() {
        let mut wrr = build("bytes", Some(1), false, &[1000, 3000]);
        let now = Instant::ZERO;
        let head = Head { length: Bytes::new(1500), arrived: now };
        for leaf in [0, 1] {
            wrr.enqueued(now, LeafId(leaf), head);
            assert_eq!(wrr.select(now), Selection::Leaf(LeafId(leaf)));
            wrr.charge(now, LeafId(leaf), head.length, None);
        }
        assert_eq!((wrr.leaves[0].balance, wrr.leaves[1].balance), (-500, 0));
        assert_eq!(wrr.select(now), Selection::Idle);
    }

    #[test]
    fn what_says_nothing_or_too_much_is_refused() {
        let rows = [
            ("packets", Some(1), false, 1, "`allotment` = 1 B says nothing"),
            ("packets", None, true, 1, "`forgive` = true says nothing"),
            ("bytes", Some(1), false, 63, "is 63 B a visit, outside 64 B"),
            ("bytes", Some(1 << 20), false, 65_535, "is 68718428160 B a visit"),
        ];
        for (unit, step, forgive, weight, cause) in rows {
            let error = Wrr::build(&tree(unit, step, forgive, &[weight])).err().expect("refused");
            assert!(error.message.contains(cause), "{error}");
        }
    }
}
