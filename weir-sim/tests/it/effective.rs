//! The long-run rates of `check --bounds` are those of a run: random policies of every scheduler,
//! all leaves greedy and each leaf alone.
//!
//! `WEIR_EFFECTIVE=10000` tries so many policies; a failure prints the policy. Packets are the
//! largest, as the figures have it, and a rate may be off by 2 % and a few packets of the run.

use crate::common::policies;

use policies::{LINK, MTU, text};
use std::collections::BTreeMap;
use weir_core::event::{Poll, Verdict};
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Packet};
use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;
use weir_core::units::Instant;
use weir_policy::calculus::Effective;
use weir_policy::policy::{self, Policy};

/// Returns the rate of each leaf while the leaves `greedy` always have three packets waiting, in
/// bit/s.
fn run(policy: &Policy, greedy: &[usize], packets: u64) -> Vec<f64> {
    let mut link = policy.link.build().expect("a checked policy builds");
    let leaves = policy.link.tree.leaf_count();
    let offer = |link: &mut dyn AnyLink, now, leaf: usize| {
        let packet = Packet::new(Handle(0), MTU);
        assert_eq!(link.offer(now, LeafId(leaf as u32), packet), Verdict::Queued);
    };
    for _ in 0..3 {
        greedy.iter().for_each(|&leaf| offer(&mut *link, Instant::ZERO, leaf));
    }
    let (from, to) = (packets * TIME / 3, packets * TIME);
    let mut bytes = vec![0; leaves];
    let mut now = Instant::ZERO;
    // Ends: each turn sends a packet or moves time on.
    while now.as_nanos() < to {
        match link.poll(now) {
            Poll::Packet(departure) => {
                let leaf = departure.leaf.index();
                if now.as_nanos() >= from {
                    bytes[leaf] += departure.charged.get();
                }
                offer(&mut *link, now, leaf);
            }
            Poll::At(at) => now = at.max(Instant::from_nanos(now.as_nanos() + 1)),
            Poll::Idle => panic!("a packet always waits"),
        }
    }
    let seconds = (to - from) as f64 / 1e9;
    bytes.into_iter().map(|bytes| bytes as f64 * 8.0 / seconds).collect()
}

/// The figures of one policy, and those that are wrong.
struct Trial<'p> {
    text: &'p str,
    /// How many figures, of leaves that are greedy and of those that are alone.
    said: [u32; 2],
    wrong: Vec<String>,
}

impl Trial<'_> {
    fn check(&mut self, (expected, measured): (Option<f64>, f64), packets: u64, about: &str) {
        let Some(expected) = expected else { return };
        let few = SLACK_PACKETS * LINK as f64 / (packets * 2 / 3) as f64;
        if (measured - expected).abs() > expected * 0.02 + few {
            let text = self.text;
            self.wrong
                .push(format!("{text}\n{about}: {expected:.0} is said, {measured:.0} measured"));
        }
    }
}

fn try_policy(text: &str, packets: u64) -> Trial<'_> {
    let outcome = policy::parse(text, "p");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings));
    let Effective { greedy, alone } = Effective::of(&policy.link);
    let all: Vec<usize> = (0..greedy.len()).collect();
    let count = |column: &[Option<f64>]| column.iter().flatten().count() as u32;
    let said = [count(&greedy), count(&alone)];
    let mut trial = Trial { text, said, wrong: Vec::new() };
    if greedy.iter().any(Option::is_some) {
        let measured = run(&policy, &all, packets);
        for &leaf in &all {
            let about = format!("leaf {leaf} greedy, of {greedy:.0?}, {measured:.0?} measured");
            trial.check((greedy[leaf], measured[leaf]), packets, &about);
        }
    }
    for leaf in all {
        if alone[leaf].is_some() {
            let measured = run(&policy, &[leaf], packets / 4)[leaf];
            trial.check((alone[leaf], measured), packets / 4, &format!("leaf {leaf} alone"));
        }
    }
    trial
}

#[test]
fn rates_in_the_long_run_are_what_was_said() {
    let variable = std::env::var("WEIR_EFFECTIVE").ok().and_then(|count| count.parse().ok());
    let (count, packets) = variable.map_or((600, 6000), |count: u64| (count, 20_000));
    let mut said: BTreeMap<&str, (u32, [u32; 2], usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    // A scheduler's seeds are its own, so that one more gives no other new ones.
    let rounds = count.div_ceil(SCHEDULERS.len() as u64);
    let keywords = SCHEDULERS.iter().map(|entry| entry.descriptor.keyword);
    for (scheduler, round) in keywords.flat_map(|keyword| (0..rounds).map(move |n| (keyword, n))) {
        let seed = fnv1a(BASIS, scheduler.as_bytes()).wrapping_add(round);
        let text = text(scheduler, &mut Random::new(seed, 3));
        let trial = try_policy(&text, packets);
        let figures = said.entry(scheduler).or_default();
        let said = [figures.1[0] + trial.said[0], figures.1[1] + trial.said[1]];
        *figures = (figures.0 + 1, said, figures.2 + trial.wrong.len());
        wrong.extend(trial.wrong.into_iter().take(1));
    }
    for (scheduler, (policies, [greedy, alone], wrong)) in &said {
        println!("{scheduler}: {policies} policies, {greedy} greedy, {alone} alone, {wrong} wrong");
    }
    for scheduler in ["drr", "wf2q+", "htb", "hfsc", "cbq", "priq"] {
        assert!(said[scheduler].1.iter().all(|&count| count > 0), "{scheduler} says something");
    }
    let some = &wrong[..wrong.len().min(SHOWN)];
    assert!(wrong.is_empty(), "{} wrong, such as\n{}", wrong.len(), some.join("\n---\n"));
}

/// Checks what all leaves get of a link, in parts of it, while all are greedy.
fn check_oversubscribed(classes: &str, wanted: &[f64]) {
    let text = format!(
        "[link]\nrate = '{LINK} bit/s'\nscheduler = 'htb'\noversubscribe = true\n{classes}\
         default = true\n"
    );
    let outcome = policy::parse(&text, "p");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings));
    let all: Vec<usize> = (0..wanted.len()).collect();
    for (measured, wanted) in run(&policy, &all, 6000).into_iter().zip(wanted) {
        let part = measured / LINK as f64;
        assert!((part - wanted).abs() < 0.02, "{text}: {part:.3} of the link, not {wanted:.3}");
    }
}

#[test]
fn what_is_sold_more_than_once_is_divided_by_turns_up_to_the_link() {
    let class = |name: u32, parent: &str, part: f64| {
        let rate = (LINK as f64 * part) as u64;
        format!("[class.c{name}]\n{parent}rate = '{rate} bit/s'\nmatch = {{ dport = {name} }}\n")
    };
    let sold: String = (1..=4).map(|at| class(at, "", 0.4)).collect();
    check_oversubscribed(&sold, &[0.25; 4]);
    // A class within its rate does not ask its parent.
    let parent = format!("[class.p]\nrate = '{}'\noversubscribe = true\n", "100 kbit/s");
    let sold = parent + &class(1, "parent = 'p'\n", 0.2) + &class(2, "parent = 'p'\n", 0.2);
    check_oversubscribed(&(sold + &class(3, "", 0.3)), &[0.2, 0.2, 0.3]);
}

/// The time of a largest packet on the link, in nanoseconds, about.
const TIME: u64 = MTU as u64 * 8 * 1_000_000_000 / LINK;
/// The packets of a run that may be missing, whatever the rate: of turns, bursts and beginnings.
const SLACK_PACKETS: f64 = 12.0;
/// The most failures that are printed.
const SHOWN: usize = 8;
