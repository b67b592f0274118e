//! The long-run rates of leaves with rates of their own, where classes lend by turns [algorithms
//! §5.5-5.6].
//!
//! The rates of leaves come first, then what the deepest classes lend, and so on up to the top; at
//! each of these levels the smaller rank comes first. So a level and a rank make a *stage*, and
//! stages follow each other until the link is used up. Within a stage leaves take turns, so each
//! gets in proportion to its turn until it, or a class between it and its lender, or the lender, or
//! the link has no more for it.
//!
//! That is exact as long as no leaf misses a turn, which happens in two cases: a leaf that is at
//! its ceiling for the moment, and a class that lends itself, whose children share one turn
//! whichever class lends. So a division is in *doubt* if a ceiling is close to what a leaf gets and
//! below what is lent, if a class in between lends too, or if an earlier one was in doubt and
//! leaves more than computed.

use crate::fluid;
use std::collections::BTreeMap;
use weir_core::ids::{ClassId, LeafId};
use weir_core::sched::Tree;
use weir_core::sched::service::Bucket;

/// The rate of a leaf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Given {
    /// In bit/s.
    pub(super) rate: f64,
    /// Whether the rate may differ, since a leaf misses turns.
    pub(super) doubtful: bool,
}

/// A tree whose classes lend.
struct Lending<'t> {
    tree: &'t Tree,
    leaves: &'t [Bucket],
    wants: &'t [f64],
    /// For each leaf its ancestors and itself, the top first.
    paths: Vec<Vec<ClassId>>,
    /// The rate that each class was given, with all below it, in bit/s.
    given: Vec<f64>,
    /// The classes whose parts, or those of a leaf below, are in doubt.
    doubtful: Vec<bool>,
    /// The rate that each class lent, in bit/s.
    lent: Vec<f64>,
    link: f64,
    /// The rate of the link that is left, in bit/s.
    left: f64,
}

/// A leaf in a stage.
struct Player {
    leaf: usize,
    /// The bytes of its turn.
    turn: f64,
    /// Its rate in the stage for each unit of its turn.
    part: f64,
    /// The largest part at which a ceiling below what is lent would limit it; 0 if there is none.
    ceiling: f64,
    doubtful: bool,
}

/// Returns what each leaf gets if it wants `wants`, in bit/s, on a link of `link` bit/s.
pub(super) fn by_turns(tree: &Tree, leaves: &[Bucket], wants: &[f64], link: f64) -> Vec<Given> {
    let path = |leaf| {
        let mut path: Vec<_> = tree.path(tree.class_of(leaf)).collect();
        path.reverse();
        path
    };
    let paths: Vec<_> = tree.leaves().map(|(leaf, _)| path(leaf)).collect();
    let deepest = paths.iter().map(Vec::len).max().unwrap_or(0);
    let none = vec![0.0; tree.classes().len()];
    let doubtful = vec![false; none.len()];
    let (given, lent) = (none.clone(), none);
    let left = link;
    let mut lending = Lending { tree, leaves, wants, paths, given, doubtful, lent, link, left };
    let mut ranks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (leaf, bucket) in leaves.iter().enumerate() {
        ranks.entry(bucket.rank).or_default().push(leaf);
    }
    // First the leaves' own rates, then the lenders of each depth.
    for lender in [None].into_iter().chain((0..deepest.saturating_sub(1)).rev().map(Some)) {
        for members in ranks.values() {
            lending.stage(lender, members);
        }
    }
    let class = |(leaf, _): (LeafId, _)| tree.class_of(leaf).index();
    let given = |class| Given { rate: lending.given[class], doubtful: lending.doubtful[class] };
    tree.leaves().map(class).map(given).collect()
}

impl Lending<'_> {
    /// Gives `members` what classes `lender` steps below the top lend, or their own rates.
    fn stage(&mut self, lender: Option<usize>, members: &[usize]) {
        let below = |&&leaf: &&usize| lender.is_none_or(|depth| depth + 1 < self.paths[leaf].len());
        let players = members.iter().filter(below);
        let mut players: Vec<_> = players.map(|&leaf| self.player(leaf, lender)).collect();
        let deepest = players.iter().map(|player| self.paths[player.leaf].len()).max();
        for depth in lender.map_or(0..0, |lender| lender..deepest.unwrap_or(0)).rev() {
            self.hold(&mut players, depth, lender);
        }
        fill(&mut players, Room { left: self.left, whole: self.link, doubtful: false });
        for Player { leaf, turn, part, doubtful, .. } in players {
            let (path, more) = (&self.paths[leaf], turn * part);
            self.left = (self.left - more).max(0.0);
            for class in path {
                self.given[class.index()] += more;
                self.doubtful[class.index()] |= doubtful;
            }
            if let Some(lender) = lender.and_then(|depth| path.get(depth)) {
                self.lent[lender.index()] += more;
            }
        }
    }

    fn player(&self, leaf: usize, lender: Option<usize>) -> Player {
        let bucket = &self.leaves[leaf];
        let class = self.tree.class_of(LeafId(leaf as u32));
        let turn = bucket.turn.map_or(1.0, |turn| turn.get().max(1) as f64);
        let rate = bucket.rate.bits_per_second() as f64;
        let most = self.room(class).min(self.wants[leaf] - self.of(leaf)).max(0.0);
        let own = if lender.is_none() { most.min(rate) } else { most } / turn;
        let held = lender.is_some_and(|depth| self.holds(class, self.paths[leaf][depth]));
        let ceiling = if held { own } else { 0.0 };
        let between = lender.map_or(&[][..], |depth| &self.paths[leaf][depth + 1..]);
        let doubtful = self.doubtful[class.index()] || between.iter().any(|&at| self.lends(at));
        Player { leaf, turn, part: own, ceiling, doubtful }
    }

    /// Limits players to what the class `depth` steps below the top, the ancestor of each of them,
    /// has left: of what it lends, or else of its ceiling.
    fn hold(&self, players: &mut [Player], depth: usize, lender: Option<usize>) {
        let above = |player: &Player| {
            let path = &self.paths[player.leaf];
            path.get(depth).filter(|_| depth + 1 < path.len()).copied()
        };
        players.sort_by_key(above);
        for siblings in players.chunk_by_mut(|one, other| above(one) == above(other)) {
            let Some(class) = above(&siblings[0]) else { continue };
            let doubtful = self.doubtful[class.index()];
            if lender == Some(depth) {
                let whole = rate(self.tree, class);
                let left = (whole - self.given[class.index()]).max(0.0);
                fill(siblings, Room { left, whole, doubtful });
                continue;
            }
            let room = self.room(class);
            fill(siblings, Room { left: room, whole: ceiling(self.tree, class), doubtful });
            let turns: f64 = siblings.iter().map(|player| player.turn).sum();
            let lends = lender.map(|depth| self.paths[siblings[0].leaf][depth]);
            if lends.is_some_and(|lender| self.holds(class, lender)) {
                siblings.iter_mut().for_each(|player| {
                    player.ceiling = player.ceiling.max(room / turns);
                });
            }
        }
    }

    /// Returns whether the ceiling of a class is lower than all that `lender` has.
    fn holds(&self, class: ClassId, lender: ClassId) -> bool {
        ceiling(self.tree, class) < rate(self.tree, lender)
    }

    /// Returns whether a class lends more than roundings of its rate.
    fn lends(&self, class: ClassId) -> bool {
        self.lent[class.index()] > rate(self.tree, class) * SLACK
    }

    fn of(&self, leaf: usize) -> f64 {
        self.given[self.tree.class_of(LeafId(leaf as u32)).index()]
    }

    /// Returns the rest of a class's ceiling.
    fn room(&self, class: ClassId) -> f64 {
        (ceiling(self.tree, class) - self.given[class.index()]).max(0.0)
    }
}

/// The rate that remains to be divided.
#[derive(Clone, Copy)]
struct Room {
    left: f64,
    /// The whole of which it remains.
    whole: f64,
    /// Whether more may remain.
    doubtful: bool,
}

/// Lets all parts rise together until they add up to what remains.
fn fill(players: &mut [Player], room: Room) {
    players.sort_by(|one, other| one.part.total_cmp(&other.part));
    let mut turns: f64 = players.iter().map(|player| player.turn).sum();
    let mut left = room.left;
    for index in 0..players.len() {
        let Player { turn, part, .. } = players[index];
        let even = left.max(0.0) / turns;
        if even < part {
            doubt(players, even, room);
            players[index..].iter_mut().for_each(|player| player.part = even);
            return;
        }
        left -= turn * part;
        turns -= turn;
    }
}

/// Marks all parts that may differ if one of the players misses turns, where parts rise up to
/// `even`. A player that would have far more without its ceiling gets its ceiling, whatever turns
/// it misses.
fn doubt(players: &mut [Player], even: f64, room: Room) {
    let least = even / CLEARLY_ABOVE;
    let misses = |player: &Player| player.doubtful || player.ceiling > least;
    // A zero excess needs no split.
    let has_excess = room.left > room.whole * SLACK;
    if room.doubtful || (has_excess && players.iter().any(misses)) {
        let others = players.iter_mut().filter(|player| player.part > least);
        others.for_each(|player| player.doubtful = true);
    }
}

/// Returns what a leaf alone gets, in bit/s: the largest rate of it and its ancestors, limited by
/// the ceilings on the way.
pub(super) fn alone(tree: &Tree, leaf: ClassId, link: f64) -> f64 {
    let (mut most, mut ceilings) = (0.0_f64, link);
    for class in tree.path(leaf) {
        most = most.max(rate(tree, class).min(ceilings));
        ceilings = ceilings.min(ceiling(tree, class));
    }
    most
}

fn rate(tree: &Tree, class: ClassId) -> f64 {
    fluid::rate(tree.class(class), "rate").unwrap_or(0.0)
}

/// Returns the ceiling of a class; without one, its rate.
fn ceiling(tree: &Tree, class: ClassId) -> f64 {
    fluid::rate(tree.class(class), "ceil").unwrap_or(rate(tree, class))
}

/// The ratio from which on a ceiling is clearly below a part.
const CLEARLY_ABOVE: f64 = 4.0;
/// The relative error of sums of rates, since rates are rounded.
const SLACK: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::link::LinkPlan;
    use weir_core::parameter::{Params, Value};
    use weir_core::sched::{ClassSpec, Service};
    use weir_core::units::{Bytes, Quantity, Rate};

    /// `parent rate ceil prio quantum`, each class by its number; rates in Mbit/s, on a link of 10.
    fn check(rows: &[&str], expected: &[f64]) {
        let class = |(number, row): (usize, &&str)| {
            let word = |at: usize| row.split_whitespace().nth(at).unwrap_or("-");
            let mut params = Params::new();
            let mut set = |name, value| params.set(name, Value::Quantity(value));
            for (name, at) in [("rate", 1), ("ceil", 2)] {
                if let Ok(megabits) = word(at).parse::<u64>() {
                    let rate = Rate::new(megabits * 1_000_000).expect("rows hold no zero");
                    set(name, Quantity::Rate(rate));
                }
            }
            if let Ok(prio) = word(3).parse() {
                set("prio", Quantity::Number(prio));
            }
            set("quantum", Quantity::Bytes(Bytes::new(word(4).parse().unwrap_or(3000))));
            let parent = word(0).parse().ok().map(ClassId);
            ClassSpec { name: number.to_string(), parent, params }
        };
        let classes = rows.iter().enumerate().map(class).collect();
        let link = Rate::new(10_000_000).expect("not zero");
        let tree = Tree::new(link, Bytes::new(1514), Params::new(), classes).expect("a tree");
        let plan = LinkPlan::new("htb", tree);
        let Service::Buckets(buckets) = super::super::service(&plan) else {
            panic!("it has rates of its own");
        };
        let wants = vec![f64::INFINITY; expected.len()];
        let given = by_turns(&plan.tree, &buckets.leaves, &wants, 1e7);
        for (given, expected) in given.iter().zip(expected) {
            assert!(
                (given.rate / 1e6 - expected).abs() < 1e-9,
                "{rows:?}: {given:?}, not {expected}"
            );
        }
    }

    #[test]
    fn the_link_lends_nothing() {
        check(&["- 2 10", "- 3 10"], &[2.0, 3.0]);
        check(&["- 9 10", "0 2 10", "0 3 10"], &[4.0, 5.0]);
    }

    #[test]
    fn an_excess_goes_by_turns_and_not_by_rates() {
        check(&["- 10", "0 2 10 0 3000", "0 4 10 0 9000"], &[3.0, 7.0]);
        check(&["- 10", "0 2 10 0 3000", "0 4 5 0 9000"], &[5.0, 5.0]);
    }

    #[test]
    fn the_smaller_rank_takes_it_first() {
        check(&["- 10", "0 2 5 0", "0 2 10 1", "0 1 10 2"], &[5.0, 4.0, 1.0]);
    }

    #[test]
    fn the_deepest_lends_first_within_the_ceilings_between() {
        let rows = ["- 10", "0 6 7", "1 1 10 1", "1 1 10 1", "0 1 10 0"];
        check(&rows, &[3.0, 3.0, 4.0]);
        check(&["- 10", "0 4 7", "1 1 10", "1 1 10", "0 1 10"], &[3.5, 3.5, 3.0]);
    }

    #[test]
    fn more_than_the_link_has_goes_by_rank_and_turns() {
        check(&["- 8 8 0", "- 8 8 1"], &[8.0, 2.0]);
        check(&["- 8 8 0 3000", "- 8 8 0 6000"], &[10.0 / 3.0, 20.0 / 3.0]);
    }
}
