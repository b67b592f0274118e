//! Bounds of classes that declare a burst below the largest packet: random policies in which an
//! adversary within that burst never exceeds one, and comes so close that no bound is more than
//! half above the worst that it finds.
//!
//! The adversary knows the schedulers: the others send long packets just before the class does, so
//! that one is on the line, and then short ones, with which a scheduler is closest to its fluid
//! ideal; under `drr` they first leave the largest deficits behind. `WEIR_SMALL_BURSTS=1000` tries
//! that many policies in place of a few dozen; a failure prints the policy.

use super::bounds::{Habit, MTU, Trial, senders};
use std::fmt::Write;
use weir_core::ids::LeafId;
use weir_core::random::Random;
use weir_policy::calculus::{self, Bound};
use weir_policy::policy::{self, Policy};

const SCHEDULERS: [&str; 4] = ["wf2q+", "hfsc", "priq", "drr"];

/// A policy of `scheduler`, whose first class, and under `priq` each class before the last two,
/// declares a burst below the largest packet.
fn text(scheduler: &str, random: &mut Random) -> String {
    let link = [1_000_000, 2_000_000, 10_000_000, 100_000_000][random.below(4) as usize];
    let mut text = format!("[link]\nrate = '{link} bit/s'\nscheduler = '{scheduler}'\n");
    let count = 4 + random.below(4);
    let least = if scheduler == "drr" { MTU } else { 1 };
    let spread = if scheduler == "drr" { 1500 } else { 4 };
    let weight = |_| u64::from(least + random.below(spread));
    let weights: Vec<u64> = (0..count).map(weight).collect();
    let whole: u64 = weights.iter().sum();
    for (index, weight) in (0..count).zip(weights) {
        let rate = link * weight / whole;
        let rule = if index + 1 == count {
            "default = true".to_owned()
        } else {
            format!("match = {{ dport = {} }}", index + 1)
        };
        let own = match scheduler {
            "wf2q+" => format!("weight = {weight}"),
            "hfsc" => format!("rate = '{rate} bit/s'"),
            "priq" => format!("priority = {}", 15 - index),
            _ => format!("quantum = '{weight} B'"),
        };
        writeln!(text, "[class.c{index}]\n{rule}\n{own}").expect("a text takes all");
        if index == 0 || scheduler == "priq" && index + 2 < count {
            let (burst, part) = (80 + random.below(1320), u64::from(40 + random.below(50)));
            let offered = rate * part / 100;
            writeln!(text, "arrival = {{ rate = '{offered} bit/s', burst = '{burst} B' }}")
                .expect("a text takes all");
        }
        text += "queue = { limit = '100 packets' }\n";
    }
    text
}

/// How the others treat the class that declares a small burst, the victim.
#[derive(Clone, Copy)]
struct Trick {
    /// The one that has a longest packet on the line when the victim begins to send.
    blocker: usize,
    /// The victim sends packets of this length.
    own: u32,
    /// The lengths of the blocker's first packets.
    ahead: &'static [u32],
    /// Under `drr` all others first send what leaves them the largest deficits.
    deficits: bool,
}

/// A policy with the time of its bytes.
struct Case<'a> {
    policy: &'a Policy,
    text: &'a str,
    bounds: &'a [Bound],
}

impl Case<'_> {
    fn nanos(&self, bytes: u32) -> u64 {
        let rate = self.policy.link.tree.rate().bits_per_second();
        u64::from(bytes) * 8_000_000_000 / rate
    }

    fn quantum(&self, leaf: usize) -> Option<u32> {
        let class = self.policy.link.tree.leaf(LeafId(leaf as u32));
        class.params.bytes("quantum").map(|quantum| quantum.get() as u32)
    }

    /// Returns the first packets of a leaf, and how long before the victim it begins.
    fn before(&self, leaf: usize, victim: usize, trick: &Trick) -> (Vec<u32>, u64) {
        if trick.deficits {
            // A first visit sends what leaves a longest packet just too long; the second one has
            // that deficit, too. The victim comes when all have had their first.
            let left = |leaf| self.quantum(leaf).map_or(0, |quantum| quantum + 1 - MTU);
            let others = (0..self.bounds.len()).filter(|&other| other != victim);
            let round: u32 = others.map(left).map(|bytes| bytes.max(SHORTEST)).sum();
            let first = left(leaf).max(SHORTEST);
            return (vec![first, MTU], self.nanos(round) + 1);
        }
        if leaf != trick.blocker {
            return (Vec::new(), 0);
        }
        let (_, earlier) = trick.ahead.split_last().expect("the last one is on the line");
        (trick.ahead.to_vec(), self.nanos(earlier.iter().sum()) + 1)
    }

    /// Returns the worst delay of the victim in relation to its bound.
    fn worst(&self, victim: usize, trick: &Trick, random: &mut Random) -> f64 {
        let from = 400_000_000 + u64::from(random.below(1_000_000));
        let habit = |leaf: usize| match leaf == victim {
            true => (Habit::From(from), trick.own),
            false => (Habit::From(from - self.before(leaf, victim, trick).1), SHORT),
        };
        let mut senders = senders(self.policy, habit);
        for (leaf, sender) in senders.iter_mut().enumerate() {
            let longest = sender.arrival.map_or(MTU, |arrival| arrival.burst.get() as u32);
            sender.length = sender.length.min(longest);
            if leaf != victim {
                let (first, _) = self.before(leaf, victim, trick);
                sender.first = first.into_iter().rev().map(|length| length.min(longest)).collect();
            }
        }
        let mut trial = Trial::new(self.text, self.policy, self.bounds, senders);
        trial.run(PACKETS, random);
        trial.worst[victim]
    }
}

/// Tries one policy; returns, for the leaf that stays farthest below its bound, the worst delay
/// found in relation to it, and the leaf.
fn try_policy(text: &str, seed: u64) -> (f64, usize) {
    let outcome = policy::parse(text, "p");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings));
    let bounds = calculus::bounds(&policy.link, &policy.demands);
    let case = Case { policy: &policy, text, bounds: &bounds };
    let mut random = Random::new(seed, 1);
    let mut loosest = (f64::INFINITY, 0);
    for (victim, demand) in policy.demands.iter().enumerate() {
        let Some(arrival) = demand.arrival else { continue };
        assert!(bounds[victim].delay.is_some(), "leaf {victim} has a bound: {text}");
        let burst = arrival.burst.get() as u32;
        let mut worst = 0.0_f64;
        for blocker in (0..bounds.len()).filter(|&leaf| leaf != victim) {
            // No more packets than a sender has waiting.
            for own in [burst, burst / 2, (burst / 16).max(SHORTEST)] {
                let rows = [(&[MTU][..], false), (&[SHORT, MTU], false), (&[MTU], true)];
                for (ahead, deficits) in rows {
                    let trick = Trick { blocker, own, ahead, deficits };
                    worst = worst.max(case.worst(victim, &trick, &mut random));
                }
            }
        }
        if worst < loosest.0 {
            loosest = (worst, victim);
        }
    }
    loosest
}

#[test]
fn the_bound_of_a_small_burst_is_at_most_half_above_the_worst_that_is_found() {
    let count = std::env::var("WEIR_SMALL_BURSTS").ok().and_then(|count| count.parse().ok());
    let mut least = [(f64::INFINITY, 0.0); SCHEDULERS.len()];
    let count = count.unwrap_or(40_u64);
    for seed in 0..count {
        let at = (seed % SCHEDULERS.len() as u64) as usize;
        let text = text(SCHEDULERS[at], &mut Random::new(seed, 0));
        let (found, leaf) = try_policy(&text, seed);
        assert!(found * MOST >= 1.0, "leaf {leaf}: {:.2} times the worst\n{text}", 1.0 / found);
        least[at] = (least[at].0.min(found), least[at].1 + 1.0 / found);
    }
    for (scheduler, (worst, sum)) in SCHEDULERS.iter().zip(least) {
        let mean = sum * SCHEDULERS.len() as f64 / count as f64;
        println!("{scheduler}: bound {:.3} times the worst found, mean {mean:.3}", 1.0 / worst);
    }
}

/// How much a bound may be above the worst that is found.
const MOST: f64 = 1.5;
/// The shortest packet of the adversary, and that of others where they are to be short.
const SHORTEST: u32 = 40;
const SHORT: u32 = 100;
/// Packets of a run, enough for the longest bound.
const PACKETS: u32 = 600;
