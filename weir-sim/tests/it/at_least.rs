//! The least rate in `check --bounds` is that of the worst of many runs: no run gives less, and the
//! worst gives at most a tenth more.
//!
//! Random policies of each scheduler run with short, long and mixed packets, while all leaves are
//! backlogged, and while the others of a leaf stop and start. `WEIR_AT_LEAST=1000` tries that many
//! policies in longer runs, as `cargo xtask figures` does; a failure prints the policy.

use crate::common::policies;

use policies::{LINK, MTU, text};
use std::collections::BTreeMap;
use weir_core::event::{Poll, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Charge, Packet};
use weir_core::random::Random;
use weir_core::sched::Service;
use weir_core::units::Instant;
use weir_policy::calculus::{self, AtLeast};
use weir_policy::policy::{self, Arrival, Policy};

/// The schedulers of which something is said.
const SCHEDULERS: [&str; 14] = [
    "drr", "wf2q+", "htb", "hfsc", "fifo", "priq", "wrr", "prr", "sfq", "wfq", "qfq", "cbq", "tbf",
    "qfq-plus",
];

/// How far the seeds of a scheduler are apart.
const STRIDE: u64 = 13;

/// The lengths of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lengths {
    Long,
    Short,
    Mixed,
}

/// When the other leaves send; one that declares an arrival curve never sends more than that.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Habit {
    /// Always.
    Greedy,
    /// Whenever its queue is empty, a batch that overdraws its turn.
    Batches,
    /// After each packet of the victim not for this many quarters of the time in which the victim
    /// earns a packet.
    Yields(u64),
    /// On and off, at random, for up to this many milliseconds.
    Pulses(u32),
}

/// The victim's lengths, those of the others, and their habit.
type Trick = (Lengths, Lengths, Habit);

const TRICKS: [Trick; 17] = [
    (Lengths::Long, Lengths::Long, Habit::Greedy),
    (Lengths::Short, Lengths::Long, Habit::Greedy),
    (Lengths::Long, Lengths::Short, Habit::Greedy),
    (Lengths::Mixed, Lengths::Mixed, Habit::Greedy),
    (Lengths::Short, Lengths::Short, Habit::Greedy),
    (Lengths::Long, Lengths::Long, Habit::Batches),
    (Lengths::Short, Lengths::Short, Habit::Batches),
    (Lengths::Long, Lengths::Long, Habit::Yields(1)),
    (Lengths::Long, Lengths::Long, Habit::Yields(2)),
    (Lengths::Long, Lengths::Long, Habit::Yields(3)),
    (Lengths::Long, Lengths::Long, Habit::Yields(4)),
    (Lengths::Long, Lengths::Long, Habit::Yields(8)),
    (Lengths::Long, Lengths::Long, Habit::Yields(16)),
    (Lengths::Mixed, Lengths::Long, Habit::Yields(2)),
    (Lengths::Long, Lengths::Long, Habit::Pulses(20)),
    (Lengths::Long, Lengths::Mixed, Habit::Pulses(5)),
    (Lengths::Mixed, Lengths::Mixed, Habit::Pulses(100)),
];

/// A sender to one leaf.
#[derive(Clone, Default)]
struct Sender {
    waiting: u32,
    /// It sends nothing, until an instant.
    is_silent: bool,
    until: u64,
    /// The bytes of its batch that it has not offered, but for the last packet.
    batch: Option<u64>,
    /// The credit of its arrival curve, in bits times 10^9, at an instant.
    arrival: Option<Arrival>,
    credit: i128,
    at: u64,
}

impl Sender {
    /// Returns whether a packet of `bytes` conforms at `now`, and pays for it; or else when.
    fn pays(&mut self, now: u64, bytes: u64) -> Result<(), u64> {
        let Some(arrival) = self.arrival else { return Ok(()) };
        let rate = i128::from(arrival.rate.bits_per_second());
        let most = i128::from(arrival.burst.get()) * BITS;
        self.credit = (self.credit + rate * i128::from(now - self.at)).min(most);
        self.at = now;
        let missing = i128::from(bytes) * BITS - self.credit;
        if missing > 0 {
            return Err(now + 1 + u64::try_from(missing / rate).unwrap_or(u64::MAX / 2));
        }
        self.credit -= i128::from(bytes) * BITS;
        Ok(())
    }
}

/// One run of a policy.
struct Run<'p> {
    policy: &'p Policy,
    victim: usize,
    trick: Trick,
    /// The time in which the victim earns a largest packet.
    earns: u64,
    /// The gain of each leaf in a turn.
    gains: &'p [u64],
    random: Random,
    senders: Vec<Sender>,
    /// When a sender acts next although no packet leaves.
    next: u64,
}

impl Run<'_> {
    fn length(&mut self, leaf: usize) -> u32 {
        let lengths = if leaf == self.victim { self.trick.0 } else { self.trick.1 };
        match lengths {
            Lengths::Long => MTU,
            Lengths::Short => SHORT,
            Lengths::Mixed => SHORT + self.random.below(MTU - SHORT + 1),
        }
    }

    fn charged(&self, length: u32) -> u64 {
        let plan = &self.policy.link;
        let is_frame = plan.charge == Charge::Frame;
        u64::from(if is_frame { length } else { plan.framing.wire_length(length) })
    }

    /// Returns whether the packet conforms, and offers it if so.
    fn offer(&mut self, link: &mut dyn AnyLink, (now, leaf): (u64, usize), length: u32) -> bool {
        let bytes = self.charged(length);
        if leaf != self.victim
            && let Err(at) = self.senders[leaf].pays(now, bytes)
        {
            self.next = self.next.min(at);
            return false;
        }
        let packet = Packet::new(Handle(0), length);
        let verdict = link.offer(Instant::from_nanos(now), LeafId(leaf as u32), packet);
        assert_eq!(verdict, Verdict::Queued);
        self.senders[leaf].waiting += 1;
        true
    }

    fn offer_all(&mut self, link: &mut dyn AnyLink, now: u64) {
        self.next = u64::MAX;
        for leaf in 0..self.senders.len() {
            let habit = if leaf == self.victim { Habit::Greedy } else { self.trick.2 };
            let silent = self.is_silent(leaf, now);
            let deep = match habit {
                Habit::Greedy => 3,
                Habit::Batches => {
                    self.offer_batch(link, (now, leaf));
                    0
                }
                Habit::Yields(_) | Habit::Pulses(_) if silent => 0,
                Habit::Yields(_) => DEEP,
                Habit::Pulses(_) => 3,
            };
            let mut offered = true;
            while offered && self.senders[leaf].waiting < deep {
                let length = self.length(leaf);
                offered = self.offer(link, (now, leaf), length);
            }
        }
    }

    fn is_silent(&mut self, leaf: usize, now: u64) -> bool {
        let sender = &mut self.senders[leaf];
        if sender.until <= now {
            sender.is_silent = !sender.is_silent && matches!(self.trick.2, Habit::Pulses(_));
            if let Habit::Pulses(most) = self.trick.2 {
                sender.until = now + 1 + u64::from(self.random.below(most * 1_000_000));
            }
        }
        if sender.until > now {
            self.next = self.next.min(sender.until);
        }
        sender.is_silent
    }

    /// Offers packets of one byte less than a turn, and one more.
    fn offer_batch(&mut self, link: &mut dyn AnyLink, (now, leaf): (u64, usize)) {
        let longest = if self.trick.1 == Lengths::Short { SHORT } else { MTU };
        if self.senders[leaf].waiting == 0 {
            self.senders[leaf].batch = Some(self.gains[leaf] - 1);
        }
        while let Some(left) = self.senders[leaf].batch
            && self.senders[leaf].waiting < DEEP
        {
            let fits = |&length: &u32| self.charged(length) <= left;
            let length = (SHORT..=longest).rev().find(fits);
            if !self.offer(link, (now, leaf), length.unwrap_or(MTU)) {
                return;
            }
            self.senders[leaf].batch = length.map(|length| left - self.charged(length));
        }
    }

    /// Returns what the victim gets until `to`, in bit/s.
    fn run(mut self, to: u64) -> f64 {
        let mut link = self.policy.link.build().expect("a checked policy builds");
        let (from, mut now, mut bytes) = (to / 3, 0, 0);
        // Ends: each turn sends a packet or moves time on.
        while now < to {
            self.offer_all(&mut *link, now);
            match link.poll(Instant::from_nanos(now)) {
                Poll::Packet(departure) => {
                    let leaf = departure.leaf.index();
                    self.senders[leaf].waiting -= 1;
                    if leaf == self.victim {
                        bytes += if now >= from { departure.charged.get() } else { 0 };
                        self.yield_others(now);
                    }
                }
                Poll::At(at) => now = at.as_nanos().min(self.next).max(now + 1),
                Poll::Idle => panic!("the victim always waits"),
            }
        }
        bytes as f64 * 8e9 / (to - from) as f64
    }

    fn yield_others(&mut self, now: u64) {
        let Habit::Yields(quarters) = self.trick.2 else { return };
        for sender in &mut self.senders {
            (sender.is_silent, sender.until) = (true, now + self.earns * quarters / 4);
        }
    }
}

/// A policy, and what is said of it.
struct Trial {
    text: String,
    policy: Policy,
    least: Vec<AtLeast>,
    gains: Vec<u64>,
    /// The length of runs, in largest packets of the line.
    packets: u64,
}

impl Trial {
    fn new(scheduler: &str, seed: u64, packets: u64) -> Self {
        let mut random = Random::new(seed, 3);
        let mut text = text(scheduler, &mut random);
        if ["fifo", "tbf", "priq"].contains(&scheduler) {
            text = declare(&text, &mut random);
        }
        let outcome = policy::parse(&text, "p");
        let policy = outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings));
        let least = calculus::at_least(&policy.link, &policy.demands);
        let gains = match calculus::service(&policy.link) {
            Service::Rounds(rounds) if !rounds.in_packets => rounds.gains,
            _ => vec![4000; least.len()],
        };
        Self { text, policy, least, gains, packets }
    }

    /// Returns what is wrong with what is said of `victim`.
    fn faults(&self, victim: usize) -> Vec<String> {
        let AtLeast { rate: Some(rate), proven, note } = self.least[victim] else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        let mut fault = |about: String| {
            faults.push(format!("{}\nleaf {victim}: {:?}, {about}", self.text, self.least[victim]));
        };
        let mut worst = f64::INFINITY;
        for trick in TRICKS {
            let steady = trick.2 == Habit::Greedy;
            let slowly = if trick.1 == Lengths::Short && trick.0 == Lengths::Short { 4 } else { 1 };
            let packets = self.packets / slowly;
            let found = self.measure(victim, (trick, rate), packets);
            let few = SLACK_PACKETS * LINK as f64 / (packets * 2 / 3) as f64;
            let floor = if steady || note.is_none() { Some(rate) } else { proven };
            if floor.is_some_and(|floor| found + few < floor * (1.0 - 1e-3)) {
                fault(format!("but {found:.0} in {trick:?}"));
            }
            if steady || note.is_none() {
                worst = worst.min(found - few);
            }
        }
        if worst > rate * TIGHT {
            fault(format!("and nothing below {:.0} was found", worst));
        }
        faults
    }

    fn measure(&self, victim: usize, (trick, rate): (Trick, f64), packets: u64) -> f64 {
        let sender = |(leaf, demand): (usize, &policy::Demand)| {
            let arrival = demand.arrival.filter(|_| leaf != victim);
            let credit = arrival.map_or(0, |arrival| i128::from(arrival.burst.get()) * BITS);
            Sender { arrival, credit, ..Sender::default() }
        };
        let run = Run {
            policy: &self.policy,
            victim,
            trick,
            earns: (f64::from(MTU) * 8e9 / rate) as u64,
            gains: &self.gains,
            random: Random::new(victim as u64, 4),
            senders: self.policy.demands.iter().enumerate().map(sender).collect(),
            next: u64::MAX,
        };
        run.run(packets * TIME)
    }
}

/// Returns a policy in which most classes declare an arrival curve.
fn declare(text: &str, random: &mut Random) -> String {
    let classes = text.matches("[class.").count() as u64;
    let mut declared = String::new();
    for line in text.lines() {
        declared += &format!("{line}\n");
        if line.starts_with("queue") && random.below(5) > 0 {
            let rate = LINK * (1 + u64::from(random.below(100))) / 100 / classes / 3;
            let burst = u64::from(MTU) * 2 + u64::from(random.below(6000));
            declared += &format!("arrival = {{ rate = '{rate} bit/s', burst = '{burst} B' }}\n");
        }
    }
    declared
}

#[test]
fn the_worst_run_gives_what_a_class_gets_at_least_and_hardly_more() {
    let variable = std::env::var("WEIR_AT_LEAST").ok().and_then(|count| count.parse().ok());
    let (count, packets) = variable.map_or((39, 6000), |count: u64| (count, 20_000));
    let mut said: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut faults = Vec::new();
    // A scheduler's seeds are its own, so that one more gives no other new ones.
    let rounds = (0..count.div_ceil(STRIDE)).map(|round| round * STRIDE);
    let trials = rounds.flat_map(|first| SCHEDULERS.iter().zip(first..));
    for (&scheduler, seed) in trials {
        let trial = Trial::new(scheduler, seed, packets);
        let leaves = trial.least.len();
        let known = trial.least.iter().filter(|least| least.rate.is_some()).count();
        let firm = |least: &&AtLeast| least.rate.is_some() && least.note.is_none();
        let firm = trial.least.iter().filter(firm).count();
        let wrong: Vec<_> = (0..leaves).flat_map(|victim| trial.faults(victim)).collect();
        let row = said.entry(scheduler).or_default();
        *row = [row[0] + leaves, row[1] + known, row[2] + firm, row[3] + wrong.len()];
        faults.extend(wrong);
    }
    for (scheduler, [leaves, known, firm, wrong]) in &said {
        println!("{scheduler}: {leaves} leaves, {known} known, {firm} firm, {wrong} wrong");
        assert!(*known > 0, "nothing is known of {leaves} leaves of {scheduler}: try other seeds");
    }
    let some = &faults[..faults.len().min(SHOWN)];
    assert!(faults.is_empty(), "{} wrong, such as\n{}", faults.len(), some.join("\n---\n"));
}

/// The shortest frame: an Ethernet and an IP header.
const SHORT: u32 = 34;
/// The time of a largest packet on the link, in nanoseconds, about.
const TIME: u64 = MTU as u64 * 8 * 1_000_000_000 / LINK;
/// The packets of a run that may be missing: of turns, bursts and beginnings.
const SLACK_PACKETS: f64 = 12.0;
/// The worst found is at most this many times what is said.
const TIGHT: f64 = 1.1;
/// A deep queue, within the limit of each.
const DEEP: u32 = 15;
/// The unit of credit.
const BITS: i128 = 8_000_000_000;
/// The most failures that are printed.
const SHOWN: usize = 8;
