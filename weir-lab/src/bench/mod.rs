//! The cost of a packet: offer and poll, for every scheduler and number of leaves.
//!
//! A closed loop: a fixed population of 64-byte packets waits in a link; a burst is polled, each
//! of its packets gets a random leaf (untimed), the burst is offered again. Hierarchies have three
//! levels; instructions are counted with two. Every scheduler runs in turn with `fifo` at the same
//! number of leaves, so the ratio is taken within one run; absolute figures drift with the
//! machine. Instructions are counted by callgrind over a fixed workload, in offer and poll alone.

pub mod check;
pub mod classify;
pub mod explain;
pub mod memory;
pub mod peer;
pub mod profile;

use quanta::Clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;
use weir_core::event::Departure;
use weir_core::ids::{ClassId, Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Descriptor, Entry, SCHEDULERS, Tree};
use weir_core::units::{Bytes, Dimension, Instant, Quantity, Rate, Share};
use weir_live::prefetch::prefetch;

/// The numbers of leaves that `weir bench` runs.
pub const LEAVES: &[usize] = &[1, 10, 100, 1_000, 10_000, 1_000_000];
/// Leaves of the workload whose instructions are counted: peers.md counts at 104.
pub const LEAVES_COUNTED: usize = 104;
/// Change of instructions per packet that `--compare` lets pass.
pub const INSTRUCTIONS_TOLERANCE: f64 = 0.02;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet for offer and poll, the median of the rounds.
    pub nanos: f64,
    /// To `fifo` in the same round, the median of the rounds.
    pub ratio: f64,
    /// ns above `fifo` in the same round, the median of the rounds.
    pub above: f64,
    /// What that may be, if anything is claimed.
    pub limit: Option<f64>,
    /// Whether it is not above the limit.
    pub holds: bool,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, of which the median is taken.
    pub rounds: usize,
    /// Packets in a round.
    pub packets: u64,
}

/// Instructions per packet, by scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// What was counted, in words.
    pub workload: String,
    /// Instructions per packet for offer and poll.
    pub per_packet: BTreeMap<String, f64>,
}

/// Measures every scheduler (or the one named) at each number of leaves.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn measure(
    only: Option<&str>,
    leaves: &[usize],
    effort: Effort,
    progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    measure_each(only, leaves, |entry, count| measure_one(entry, count, effort), progress)
}

/// Makes a row for each number of leaves of every scheduler, or of the one named.
fn measure_each<R>(
    only: Option<&str>,
    leaves: &[usize],
    measure: impl Fn(&Entry, usize) -> R,
    mut progress: impl FnMut(&R),
) -> Result<Vec<R>, String> {
    let entries = entries(only)?;
    let mut rows = Vec::new();
    for &count in leaves {
        for entry in &entries {
            rows.push(measure(entry, count));
            progress(rows.last().expect("a row was just pushed"));
        }
    }
    Ok(rows)
}

/// Every scheduler, or the one named.
fn entries(only: Option<&str>) -> Result<Vec<&'static Entry>, String> {
    let entries: Vec<_> = SCHEDULERS
        .iter()
        .filter(|entry| only.is_none_or(|keyword| keyword == entry.descriptor.keyword))
        .collect();
    if entries.is_empty() {
        return Err(format!(
            "no scheduler is called `{}`; there are {}",
            only.unwrap_or_default(),
            keywords().collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(entries)
}

/// The scheduler that every other is compared with: the first in the registry, which does least.
pub fn yardstick() -> &'static str {
    SCHEDULERS[0].descriptor.keyword
}

fn keywords() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.iter().map(|entry| entry.descriptor.keyword)
}

/// Alternates the scheduler with the yardstick, so that both see the same minute of the machine.
fn measure_one(entry: &Entry, leaves: usize, effort: Effort) -> Row {
    let mut subject = Loop::new(entry, leaves, group_of(leaves));
    let mut yardstick = Loop::new(&SCHEDULERS[0], leaves, 0);
    subject.run(effort.packets / 4);
    yardstick.run(effort.packets / 4);
    let (mut nanos, mut ratios, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mine = subject.run(effort.packets);
        let theirs = yardstick.run(effort.packets);
        nanos.push(mine);
        ratios.push(mine / theirs);
        differences.push(mine - theirs);
    }
    let scheduler = entry.descriptor.keyword;
    let (above, limit) = (median(&mut differences), limit_of(scheduler, leaves));
    Row {
        scheduler,
        leaves,
        nanos: median(&mut nanos),
        ratio: median(&mut ratios),
        above,
        limit,
        holds: limit.is_none_or(|limit| above <= limit),
    }
}

/// What a packet may cost above the yardstick, in ns.
fn limit_of(scheduler: &str, leaves: usize) -> Option<f64> {
    let claimed = ABOVE_CLAIMED.contains(&scheduler) && leaves <= ABOVE_LEAVES_MAX;
    claimed.then_some(ABOVE_MAX)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The closed loop around one link.
pub(crate) struct Loop {
    link: Box<dyn AnyLink>,
    /// The processor's counter, which the peer's program reads too: the system's clock would cost
    /// a packet more than a nanosecond.
    clock: Clock,
    now: Instant,
    random: u64,
    leaves: u64,
    departures: [Departure; BURST],
    /// How many of them the last burst filled.
    polled: usize,
    burst: Vec<(LeafId, Packet)>,
}

impl Loop {
    /// A loop over so many leaves; those of hierarchies stand in groups of `group` where it is
    /// not 0, else directly under the root.
    pub(crate) fn new(entry: &Entry, leaves: usize, group: usize) -> Self {
        let population = population(leaves);
        let link = plan(entry.descriptor, leaves, group, population).build();
        let mut link = link.unwrap_or_else(|error| panic!("{}: {error}", entry.descriptor.keyword));
        link.lend(prefetch());
        let mut this = Self {
            link,
            clock: Clock::new(),
            now: Instant::ZERO,
            random: 0x9e37_79b9_7f4a_7c15,
            leaves: leaves as u64,
            departures: [Departure::default(); BURST],
            polled: 0,
            burst: Vec::with_capacity(BURST),
        };
        for handle in 0..population as u32 {
            let leaf = this.random_leaf();
            this.link.offer(Instant::ZERO, leaf, Packet::new(Handle(handle), LENGTH));
        }
        this
    }

    fn random_leaf(&mut self) -> LeafId {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        LeafId(((u128::from(self.random) * u128::from(self.leaves)) >> 64) as u32)
    }

    /// A function of its own for callgrind to count in: see [`MEASURED`].
    #[inline(never)]
    fn poll_burst(&mut self) {
        self.polled = self.link.poll_burst(self.now, &mut self.departures);
        // Work after the call, or it would become a jump out of what is counted.
        std::hint::black_box(&mut self.departures);
    }

    /// The other function that callgrind counts in.
    #[inline(never)]
    fn offer_burst(&mut self) {
        self.link.offer_burst(self.now, &self.burst);
        std::hint::black_box(&mut self.burst);
    }

    /// ns per packet over `packets` packets, the choice of leaves not counted.
    pub(crate) fn run(&mut self, packets: u64) -> f64 {
        let mut done = 0u64;
        let mut ticks = 0;
        let rate = Rate::new(LINK_RATE).expect("not zero");
        while done < packets {
            let start = self.clock.raw();
            self.poll_burst();
            ticks += self.clock.raw().saturating_sub(start);
            // The line sends a burst in this time, so it never holds the next one back.
            let burst_time = rate.transmit_time(Bytes::new(BURST as u64 * u64::from(LENGTH)));
            self.now = self.now.after(burst_time);
            done += self.polled as u64;
            for index in 0..self.polled {
                let packet = Packet::new(self.departures[index].handle, LENGTH);
                let leaf = self.random_leaf();
                self.burst.push((leaf, packet));
            }
            let start = self.clock.raw();
            self.offer_burst();
            ticks += self.clock.raw().saturating_sub(start);
            self.burst.clear();
        }
        self.clock.delta_as_nanos(0, ticks) as f64 / done as f64
    }
}

/// A link so fast that it never holds a packet back; its classes may borrow where they can.
pub(crate) fn plan(
    descriptor: &'static Descriptor,
    leaves: usize,
    group: usize,
    population: usize,
) -> LinkPlan {
    plan_at(LINK_RATE, descriptor, leaves, group, population)
}

/// The same at `bits` bit/s.
pub(crate) fn plan_at(
    bits: u64,
    descriptor: &'static Descriptor,
    leaves: usize,
    group: usize,
    population: usize,
) -> LinkPlan {
    let rate = Rate::new(bits).expect("not zero");
    let part = |of: usize| Rate::new((bits / of as u64).max(1)).expect("at least 1");
    let class = |name, parent, rate: Rate| class(name, parent, descriptor, (rate, bits));
    let mut classes = Vec::with_capacity(leaves + 1);
    let mut parent = descriptor.promises.hierarchical.then_some(ClassId(0));
    if parent.is_some() {
        classes.push(class("root".to_owned(), None, rate));
    }
    for leaf in 0..leaves {
        if group > 0 && parent.is_some() && leaf.is_multiple_of(group) {
            let name = format!("group{}", leaf / group);
            parent = Some(ClassId(classes.len() as u32));
            classes.push(class(name, Some(ClassId(0)), part(leaves.div_ceil(group))));
        }
        classes.push(class(format!("leaf{leaf}"), parent, part(leaves)));
    }
    let mtu = Bytes::new(MTU);
    let tree = Tree::new(rate, mtu, Params::new(), classes).expect("two levels under a root");
    let mut plan = LinkPlan::new(descriptor.keyword, tree);
    plan.packets_max = population as u32;
    let limit = Value::Quantity(Quantity::Packets(population as u32));
    let mut params = Params::new();
    params.set("limit", limit);
    plan.queues.fill(QueuePlan { params, ..QueuePlan::default() });
    plan.buffer = Bytes::new(BURST as u64 * u64::from(LENGTH));
    plan
}

/// A class of `rate` on a link of `bits` bit/s.
fn class(
    name: String,
    parent: Option<ClassId>,
    descriptor: &Descriptor,
    (rate, bits): (Rate, u64),
) -> ClassSpec {
    let link = Rate::new(bits).expect("not zero");
    let mut params = Params::new();
    let is_rate =
        |row: &&Parameter| row.kind == Kind::Quantity(Dimension::Rate) && row.scope == Scope::Class;
    for row in descriptor.parameters.iter().filter(is_rate) {
        // A rate that would be `rate` if it were not written is a ceiling; others stay unwritten.
        let value = match row.default {
            None => rate,
            Some(_) if row.name == "rate" => rate,
            Some("rate") => link,
            Some(_) => continue,
        };
        params.set(row.name, Value::Quantity(Quantity::Rate(value)));
    }
    let is_share = |row: &&Parameter| row.kind == Kind::Quantity(Dimension::Share);
    for row in descriptor.parameters.iter().filter(is_share) {
        let billionths = u128::from(rate.bits_per_second()) * 1_000_000_000;
        let part = (billionths / u128::from(bits)) as u64;
        let share = Share::from_ppb(part.max(1)).unwrap_or(Share::WHOLE);
        params.set(row.name, Value::Quantity(Quantity::Share(share)));
    }
    ClassSpec { name, parent, params }
}

/// Runs the workload whose instructions are counted; `weir bench --workload` is this.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn workload(keyword: &str, packets: u64) -> Result<(), String> {
    let entry = weir_core::sched::find(keyword)
        .ok_or_else(|| format!("no scheduler is called `{keyword}`"))?;
    Loop::new(entry, LEAVES_COUNTED, 0).run(packets);
    Ok(())
}

/// Counts instructions per packet of every scheduler under callgrind, in offer and poll alone: not
/// those of the loop around them, nor of set-up.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn count_instructions() -> Result<Instructions, String> {
    let mut per_packet = BTreeMap::new();
    for keyword in keywords() {
        let each = callgrind(keyword, COUNTED)? as f64 / COUNTED as f64;
        per_packet.insert(keyword.to_owned(), (each * 10.0).round() / 10.0);
    }
    let workload =
        format!("offer and poll in bursts of {BURST}, {LEAVES_COUNTED} leaves at random");
    Ok(Instructions { workload, per_packet })
}

fn callgrind(keyword: &str, packets: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(program)
        .args(["bench", "--workload", keyword, "--packets", &packets.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}; install Debian's `valgrind`"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|&count| count > 0)
        .ok_or_else(|| format!("callgrind counted nothing for `{keyword}`: {text}"))
}

/// What changed by more than [`INSTRUCTIONS_TOLERANCE`], one sentence each.
pub fn compare(now: &Instructions, committed: &Instructions) -> Vec<String> {
    let mut changes = Vec::new();
    for (keyword, &count) in &now.per_packet {
        let Some(&before) = committed.per_packet.get(keyword) else {
            changes.push(format!("`{keyword}` is not in the file; write it with --write"));
            continue;
        };
        let change = count / before - 1.0;
        if change.abs() > INSTRUCTIONS_TOLERANCE {
            changes.push(format!(
                "`{keyword}`: {count} instructions per packet instead of {before} ({:+.1} %, limit \
                 {:.0} %); find out why, or accept it with --write",
                change * 100.0,
                INSTRUCTIONS_TOLERANCE * 100.0
            ));
        }
    }
    changes
}

/// The schedulers of which it is claimed that a packet costs at most so many ns above the
/// yardstick, up to so many leaves.
const ABOVE_CLAIMED: [&str; 2] = ["htb", "cbq"];
const ABOVE_MAX: f64 = 120.0;
const ABOVE_LEAVES_MAX: usize = 10_000;
/// Packets offered and polled at once.
const BURST: usize = 32;
/// Bytes of every packet.
const LENGTH: u32 = 64;
/// The largest packet that the link is meant for, as on Ethernet: a turn in a round robin.
const MTU: u64 = 1514;
/// Leaves in a group of the three-level tree, as in the peer's pipes.
pub(crate) const fn group_of(leaves: usize) -> usize {
    if leaves < 16 {
        4
    } else if leaves.is_multiple_of(13) {
        13
    } else {
        16
    }
}

/// Packets that wait, as in the peer's set-up (`peers.md` §8): 16 a leaf with few, 4 with many, one
/// with a million.
pub fn population(leaves: usize) -> usize {
    let each = if leaves < 16 {
        16
    } else if leaves > 500_000 {
        1
    } else {
        4
    };
    (leaves * each).max(4 * BURST)
}

/// Far above what any machine forwards.
const LINK_RATE: u64 = 1_000_000_000_000;
/// Packets of the run under callgrind: whole bursts, so that this is exactly how many there are.
const COUNTED: u64 = 1_250 * BURST as u64;
/// The functions in which callgrind counts: callgrind heeds only one pattern reliably.
const MEASURED: &str = "*bench::Loop::*_burst";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beyond_two_percent_is_named() {
        let counts = |count| Instructions {
            workload: String::new(),
            per_packet: BTreeMap::from([("fifo".to_owned(), count)]),
        };
        assert!(compare(&counts(101.9), &counts(100.0)).is_empty());
        assert_eq!(compare(&counts(103.0), &counts(100.0)).len(), 1);
        assert_eq!(compare(&counts(97.0), &counts(100.0)).len(), 1);
    }

    #[test]
    fn the_loop_loses_no_packet() {
        for entry in SCHEDULERS {
            let mut subject = Loop::new(entry, 10, 4);
            subject.run(10_000);
            let account = subject.link.account();
            let backlog: u64 = account.leaves().iter().map(|leaf| leaf.backlog.packets).sum();
            assert_eq!(backlog, population(10) as u64, "{}", entry.descriptor.keyword);
        }
    }
}
