//! Bounds hold: random policies with adversarial and with random traffic never exceed one, and the
//! worst that adversaries find comes close.
//!
//! `WEIR_BOUNDS=10000` tries that many policies instead of a thousand; a failure prints the policy.

use std::collections::BTreeMap;
use std::fmt::Write;
use weir_core::event::{Departure, Poll, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::Packet;
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_policy::calculus::{self, Bound};
use weir_policy::policy::{self, Arrival, Policy};

const SCHEDULERS: [&str; 15] = [
    "drr", "wf2q+", "htb", "hfsc", "fifo", "priq", "wrr", "prr", "sfq", "wfq", "qfq", "cbq", "tbf",
    "dbhpd", "qfq-plus",
];
/// Schedulers whose bounds have to be close.
const CLOSE: [&str; 4] = ["drr", "wf2q+", "htb", "hfsc"];
pub(super) const MTU: u32 = 1514;

/// A policy of `scheduler`; rates are parts of the link.
fn text(scheduler: &str, random: &mut Random) -> String {
    let link = [1_000_000, 2_000_000, 10_000_000, 100_000_000][random.below(4) as usize];
    let mut text = format!("[link]\nrate = '{link} bit/s'\nscheduler = '{scheduler}'\n");
    if random.below(4) == 0 {
        writeln!(text, "buffer = '{} B'", random.below(5000)).expect("a text takes all");
    }
    if scheduler == "wrr" && random.below(2) == 0 {
        text += "[link.wrr]\nunit = 'bytes'\n";
    }
    let count = 2 + random.below(5);
    let parts: Vec<u64> = (0..count).map(|_| 1 + u64::from(random.below(20))).collect();
    let whole: u64 = parts.iter().sum::<u64>() + u64::from(random.below(2) * random.below(20));
    let hierarchical = ["htb", "hfsc", "cbq"].contains(&scheduler) && random.below(2) == 0;
    if hierarchical {
        writeln!(text, "[class.p]\nrate = '{} bit/s'", link * (parts[0] + parts[1]) / whole)
            .expect("a text takes all");
    }
    for (index, part) in parts.iter().enumerate() {
        writeln!(text, "[class.c{index}]").expect("a text takes all");
        if hierarchical && index < 2 {
            text += "parent = 'p'\n";
        }
        let last = index + 1 == parts.len();
        text += &if last {
            "default = true\n".to_owned()
        } else {
            format!("match = {{ dport = {} }}\n", index + 1)
        };
        let rate = link * part / whole;
        parameters(&mut text, scheduler, (rate, link), random);
        writeln!(text, "queue = {{ limit = '{} packets' }}", 1 + random.below(12))
            .expect("a text takes all");
        if random.below(2) == 0 {
            let (burst, rate) =
                (1514 + random.below(8000), rate * u64::from(20 + random.below(80)) / 100);
            writeln!(text, "arrival = {{ rate = '{} bit/s', burst = '{burst} B' }}", rate.max(1))
                .expect("a text takes all");
        }
    }
    text
}

fn parameters(text: &mut String, scheduler: &str, (rate, link): (u64, u64), random: &mut Random) {
    let mut line = |line: String| *text += &format!("{line}\n");
    match scheduler {
        "drr" | "sfq" => line(format!("quantum = '{} B'", 1514 + random.below(4000))),
        "wf2q+" | "wfq" | "qfq" | "qfq-plus" | "wrr" => {
            line(format!("weight = {}", 1 + random.below(12)));
        }
        "priq" => line(format!("priority = {}", random.below(8))),
        "htb" => {
            line(format!("rate = '{rate} bit/s'"));
            if random.below(2) == 0 {
                line(format!("ceil = '{link} bit/s'"));
            }
            if random.below(2) == 0 {
                line(format!("burst = '{} B'", 1514 + random.below(20_000)));
            }
            line(format!("prio = {}", random.below(3)));
        }
        "cbq" => {
            line(format!("rate = '{rate} bit/s'"));
            line(format!("priority = {}", random.below(4)));
            if random.below(2) == 0 {
                line(format!("burst = '{} B'", 1514 + random.below(9000)));
            }
            line(format!("borrow = {}", random.below(2) == 0));
        }
        "hfsc" => {
            line(format!("rate = '{rate} bit/s'"));
            if random.below(3) == 0 {
                line(format!("rt_m1 = '{} bit/s'", (rate / 2).max(1)));
                line(format!("rt_d = '{} ms'", 1 + random.below(40)));
            }
        }
        _ => {}
    }
}

/// The arrivals at a leaf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Habit {
    /// Sends whatever it may, always.
    Greedy,
    /// Is silent until an instant, then sends whatever it may.
    From(u64),
    /// Sends a little while others are greedy, then as `From`.
    Teasing(u64),
    /// Sends at random instants.
    Random,
}

/// A sender to one leaf, within its arrival curve if it declared one.
pub(super) struct Sender {
    habit: Habit,
    /// The lengths of its first packets, the last one first.
    pub(super) first: Vec<u32>,
    /// That of all others.
    pub(super) length: u32,
    pub(super) arrival: Option<Arrival>,
    /// Bits times 10^9, at an instant.
    credit: i128,
    at: u64,
    /// When it sends next, at random.
    next: u64,
    waiting: u32,
    bytes: u64,
}

impl Sender {
    fn next_length(&self) -> u32 {
        self.first.last().copied().unwrap_or(self.length)
    }

    fn burst(&self) -> i128 {
        self.arrival.map_or(i128::MAX, |arrival| i128::from(arrival.burst.get()) * 8_000_000_000)
    }

    /// Whether a packet conforms at `now`; pays for it if so.
    fn pays(&mut self, now: u64) -> bool {
        let Some(arrival) = self.arrival else { return true };
        let earned = i128::from(arrival.rate.bits_per_second()) * i128::from(now - self.at);
        self.credit = (self.credit + earned).min(self.burst());
        self.at = now;
        let cost = i128::from(self.next_length()) * 8_000_000_000;
        let pays = self.credit >= cost;
        self.credit -= if pays { cost } else { 0 };
        pays
    }

    /// When the next packet will conform.
    fn ready(&self, now: u64) -> u64 {
        let Some(arrival) = self.arrival else { return now + 1_000_000 };
        let missing = i128::from(self.next_length()) * 8_000_000_000 - self.credit;
        let rate = i128::from(arrival.rate.bits_per_second());
        self.at.max(now) + 1 + u64::try_from(missing.max(0) / rate).unwrap_or(u64::MAX / 4)
    }

    /// How many packets it wants to have waiting at `now`.
    fn wants(&self, now: u64) -> u32 {
        match self.habit {
            Habit::Greedy => DEEP,
            Habit::From(from) if now >= from => DEEP,
            Habit::Teasing(from) if now >= from => DEEP,
            Habit::Teasing(_) => 1,
            Habit::From(_) => 0,
            Habit::Random => {
                if now >= self.next {
                    DEEP
                } else {
                    0
                }
            }
        }
    }
}

/// The worst figures, relative to their bounds.
type Worst = BTreeMap<&'static str, Vec<f64>>;

pub(super) struct Trial<'p> {
    pub(super) text: &'p str,
    pub(super) policy: &'p Policy,
    pub(super) bounds: &'p [Bound],
    pub(super) senders: Vec<Sender>,
    /// The worst delay of each leaf, in relation to its bound.
    pub(super) worst: Vec<f64>,
}

impl<'p> Trial<'p> {
    pub(super) fn new(
        text: &'p str,
        policy: &'p Policy,
        bounds: &'p [Bound],
        senders: Vec<Sender>,
    ) -> Self {
        let worst = vec![0.0; senders.len()];
        Self { text, policy, bounds, senders, worst }
    }

    /// Runs `packets` packets through the link.
    pub(super) fn run(&mut self, packets: u32, random: &mut Random) {
        let mut link = self.policy.link.build().expect("a checked policy builds");
        let (mut now, mut sent) = (0u64, 0);
        // Ends: each turn sends a packet or moves time on; the bound on turns is far above.
        for _ in 0..packets * 40 {
            self.offer(&mut *link, now, random);
            let mut next = self.next_arrival(now);
            match link.poll(Instant::from_nanos(now)) {
                Poll::Packet(departure) => {
                    self.check(&departure);
                    sent += 1;
                    if sent >= packets {
                        return;
                    }
                    continue;
                }
                Poll::At(at) => next = next.min(at.as_nanos()),
                Poll::Idle => {}
            }
            now = next.max(now + 1);
        }
    }

    fn next_arrival(&self, now: u64) -> u64 {
        let next = |sender: &Sender| match sender.habit {
            Habit::From(from) | Habit::Teasing(from) if from > now => from,
            Habit::Random if sender.next > now => sender.next,
            _ => sender.ready(now),
        };
        self.senders.iter().map(next).min().unwrap_or(u64::MAX)
    }

    fn offer(&mut self, link: &mut dyn weir_core::link::AnyLink, now: u64, random: &mut Random) {
        for leaf in 0..self.senders.len() {
            let sender = &mut self.senders[leaf];
            let wants = sender.wants(now);
            let mut refused = false;
            while !refused && sender.waiting < wants && sender.pays(now) {
                let length = sender.next_length();
                let packet = Packet::new(Handle(0), length);
                let leaf = LeafId(leaf as u32);
                refused = link.offer(Instant::from_nanos(now), leaf, packet) != Verdict::Queued;
                link.take_dropped(&mut |_| {});
                if !refused {
                    sender.waiting += 1;
                    sender.bytes += u64::from(length);
                    sender.first.pop();
                }
            }
            if sender.habit == Habit::Random && now >= sender.next {
                sender.next = now + u64::from(random.below(40_000_000));
            }
            let backlog = self.bounds[leaf].backlog.expect("queues have limits");
            let bytes = self.senders[leaf].bytes as f64;
            assert!(bytes <= backlog, "leaf {leaf}: {bytes} B wait, {backlog} B\n{}", self.text);
        }
    }

    fn check(&mut self, departure: &Departure) {
        let leaf = departure.leaf.index();
        self.senders[leaf].waiting -= 1;
        self.senders[leaf].bytes -= departure.charged.get();
        let Some(bound) = self.bounds[leaf].delay else { return };
        let delay = departure.finished.since(departure.arrived).as_nanos() as f64 / 1e9;
        assert!(
            delay <= bound,
            "leaf {leaf}: {:.6} ms, bound {:.6} ms, arrived {:?}\n{}{:#?}",
            delay * 1e3,
            bound * 1e3,
            departure.arrived,
            self.text,
            self.bounds[leaf],
        );
        self.worst[leaf] = self.worst[leaf].max(delay / bound);
    }
}

pub(super) fn senders(
    policy: &Policy,
    mut habit: impl FnMut(usize) -> (Habit, u32),
) -> Vec<Sender> {
    let sender = |(leaf, demand): (usize, &policy::Demand)| {
        let (habit, length) = habit(leaf);
        let mut sender = Sender {
            habit,
            first: Vec::new(),
            length,
            arrival: demand.arrival,
            credit: 0,
            at: 0,
            next: 0,
            waiting: 0,
            bytes: 0,
        };
        sender.credit = sender.burst();
        sender
    };
    policy.demands.iter().enumerate().map(sender).collect()
}

/// Tries one policy; returns the worst delay in relation to its bound.
fn try_policy(text: &str, seed: u64) -> f64 {
    let outcome = policy::parse(text, "p");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings));
    let bounds = calculus::bounds(&policy.link, &policy.demands);
    let mut random = Random::new(seed, 1);
    let mut worst = 0.0_f64;
    let leaves = policy.demands.len();
    for victim in 0..leaves {
        for trick in 0..TRICKS {
            let from = 20_000_000 + u64::from(random.below(30_000_000));
            let short = MTU - random.below(800);
            let habit = |leaf: usize| match (leaf == victim, trick) {
                (true, 0) => (Habit::From(from), MTU),
                (true, 1) => (Habit::Teasing(from), MTU),
                (true, _) => (Habit::Greedy, short),
                (false, 1) => (Habit::Greedy, short),
                (false, 2) => (Habit::From(from), MTU),
                (false, _) => (Habit::Greedy, MTU),
            };
            let senders = senders(&policy, habit);
            let mut trial = Trial::new(text, &policy, &bounds, senders);
            trial.run(PACKETS, &mut random);
            worst = trial.worst.into_iter().fold(worst, f64::max);
        }
    }
    let senders = senders(&policy, |_| (Habit::Random, MTU - random.below(1400)));
    let mut random = Random::new(seed, 2);
    let mut trial = Trial::new(text, &policy, &bounds, senders);
    trial.run(PACKETS, &mut random);
    trial.worst.into_iter().fold(worst, f64::max)
}

#[test]
fn no_delay_and_no_backlog_exceeds_its_bound_and_the_worst_come_close() {
    let count = std::env::var("WEIR_BOUNDS").ok().and_then(|count| count.parse().ok());
    let mut worst = Worst::new();
    for seed in 0..count.unwrap_or(400_u64) {
        let scheduler = SCHEDULERS[(seed % SCHEDULERS.len() as u64) as usize];
        let text = text(scheduler, &mut Random::new(seed, 0));
        worst.entry(scheduler).or_default().push(try_policy(&text, seed));
    }
    for (scheduler, ratios) in &mut worst {
        ratios.sort_by(f64::total_cmp);
        let (median, most) = (ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        println!("{scheduler}: worst {most:.3} of the bound, median policy {median:.3}");
        assert!(!CLOSE.contains(scheduler) || most >= 0.7, "{scheduler}: {most} of its bound");
    }
}

/// More packets than a queue holds.
const DEEP: u32 = 20;
/// Packets of a run, enough for several rounds.
const PACKETS: u32 = 250;
/// Ways to go for one leaf.
const TRICKS: u32 = 4;
