//! Instructions and calls of enqueue and dequeue, separately, in the form of [nieminen §5, Table
//! II].
//!
//! A closed loop on a link of 100 Mbit/s in virtual time: what leaves is offered again, to the
//! next of the active leaves. Polls that find no leaf that may send count as well. Callgrind counts
//! in the two functions alone; calls are those that the compiler did not inline.

use crate::bench::road;
use serde::{Deserialize, Serialize};
use std::process::Command;
use weir_core::classify::{
    CLASSIFIERS, Classifier, ClassifierPlan, InterfaceId, Match, PortRange, Rule,
};
use weir_core::event::Poll;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::parameter::{Kind, Parameter, Value};
use weir_core::sched::{Descriptor, SCHEDULERS, Tree};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

/// The cost of a packet under a scheduler.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: String,
    /// The number of classes.
    pub leaves: usize,
    /// How many of them have traffic.
    pub active: usize,
    /// The reciprocal of each class's part of the link's rate.
    pub parts: usize,
    /// The cost of enqueueing.
    pub enqueue: Count,
    /// The cost of selecting and dequeueing.
    pub dequeue: Count,
}

/// Everything that was counted.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Profile {
    /// The cost of enqueueing and dequeueing, by scheduler and case.
    pub schedulers: Vec<Row>,
    /// The cost of classification.
    pub classifiers: Vec<Search>,
}

/// The cost of finding the class of a packet: each class has a rule that names a port, and the
/// packet has the port of the last.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Search {
    /// The keyword of the classifier.
    pub classifier: String,
    /// Rules, one a class.
    pub rules: usize,
    /// The cost of finding the last rule.
    pub classify: Count,
}

/// Counts per packet, as callgrind has them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct Count {
    /// Instructions executed.
    pub instructions: f64,
    /// Functions called.
    pub calls: f64,
}

impl Row {
    /// Instructions for a packet in and out.
    pub fn instructions(&self) -> f64 {
        self.enqueue.instructions + self.dequeue.instructions
    }
}

/// Counts every case under callgrind, and shows each row of schedulers as it comes.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn profile(mut progress: impl FnMut(&Row)) -> Result<Profile, String> {
    let mut rows = Vec::new();
    for (scheduler, case) in cases() {
        let Case { leaves, active, parts } = case;
        let case = format!("{leaves}:{active}:{parts}");
        let enqueue = callgrind(scheduler, &case, "*bench::profile::Loop::offer")?;
        let dequeue = callgrind(scheduler, &case, "*bench::profile::Loop::poll")?;
        let row = Row { scheduler: scheduler.to_owned(), leaves, active, parts, enqueue, dequeue };
        progress(&row);
        rows.push(row);
    }
    let mut classifiers = Vec::new();
    for (classifier, rules) in searches() {
        let case = format!("{rules}:1:1");
        let classify = callgrind(classifier, &case, "*bench::profile::Searched::classify")?;
        classifiers.push(Search { classifier: classifier.to_owned(), rules, classify });
    }
    Ok(Profile { schedulers: rows, classifiers })
}

/// The number of rows of schedulers.
pub fn rows() -> usize {
    cases().count()
}

/// How a scheduler's cost grows with idle classes, while one and the same class is busy.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// The keyword of the scheduler.
    pub scheduler: String,
    /// Instructions with a hundred classes to those with one.
    pub ratio: f64,
    /// Whether that is at most [`GROWTH_MAX`].
    pub holds: bool,
}

impl Profile {
    /// Of each scheduler that was counted so.
    pub fn growth(&self) -> Vec<Growth> {
        let rows = || self.schedulers.iter().filter(|row| row.parts > row.leaves.max(FOUR));
        let of = |one: &Row| {
            let many = self.schedulers.iter().find(|row| {
                row.scheduler == one.scheduler && row.leaves == one.parts && row.parts == one.parts
            })?;
            let ratio = many.instructions() / one.instructions();
            let scheduler = one.scheduler.clone();
            Some(Growth { scheduler, ratio, holds: ratio <= GROWTH_MAX })
        };
        rows().filter_map(of).collect()
    }
}

/// How many classes there are, how many of them have traffic, and what each has of the link.
#[derive(Clone, Copy)]
struct Case {
    leaves: usize,
    active: usize,
    parts: usize,
}

/// Four classes as in the paper for each scheduler; one busy of many for those whose cost risso99
/// measured [risso99 §6, Table 5]; and one and the same alone and among a hundred.
fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    let case = |leaves, active, parts| Case { leaves, active, parts };
    let each =
        SCHEDULERS.iter().map(move |entry| (entry.descriptor.keyword, case(FOUR, FOUR, FOUR)));
    let many = ["fifo", "cbq", "cbq-altq"].into_iter();
    let many = many.flat_map(move |keyword| MANY.map(|leaves| (keyword, case(leaves, 1, leaves))));
    let same = ["htb", "cbq"].into_iter();
    let same =
        same.flat_map(move |keyword| [1, PARTS].map(|leaves| (keyword, case(leaves, 1, PARTS))));
    each.chain(many).chain(same)
}

/// Every classifier, and how many rules it has.
fn searches() -> impl Iterator<Item = (&'static str, usize)> {
    CLASSIFIERS.iter().flat_map(|descriptor| MANY.map(|rules| (descriptor.keyword, rules)))
}

/// Runs the loop that is counted, of a scheduler or a classifier.
///
/// # Errors
/// When there is none of that name, or `case` is not `LEAVES:ACTIVE:PARTS`.
pub fn workload(keyword: &str, case: &str, packets: u64) -> Result<(), String> {
    let numbers: Result<Vec<usize>, _> = case.split(':').map(str::parse).collect();
    let case = match numbers.as_deref() {
        Ok(&[leaves, active, parts]) if (1..=leaves).contains(&active) && parts > 0 => {
            Case { leaves, active, parts }
        }
        _ => return Err(format!("`{case}` is not LEAVES:ACTIVE:PARTS")),
    };
    if let Some(descriptor) = CLASSIFIERS.iter().find(|row| row.keyword == keyword) {
        Searched::new(descriptor.keyword, case.leaves)?.run(packets);
        return Ok(());
    }
    let entry = weir_core::sched::find(keyword);
    let entry = entry.ok_or_else(|| format!("no scheduler is called `{keyword}`"))?;
    Loop::new(entry.descriptor, case)?.run(packets);
    Ok(())
}

/// A classifier with a rule a class, and the packet that the last one matches.
struct Searched {
    classifier: Classifier,
    headers: Headers,
    found: LeafId,
}

impl Searched {
    fn new(algorithm: &'static str, rules: usize) -> Result<Self, String> {
        let port = |rule: usize| FIRST_PORT + rule as u16;
        let rule = |rule: usize| {
            let matches = Match {
                protocol: Some(Protocol::UDP),
                destination_ports: vec![PortRange::single(port(rule))],
                ..Match::default()
            };
            Rule::new(matches, LeafId(rule as u32))
        };
        let plan = ClassifierPlan { algorithm, flows: 0, ..ClassifierPlan::default() };
        let all = (0..rules).map(rule).collect();
        let classifier = Classifier::build(all, LeafId(rules as u32), &plan);
        let addresses =
            Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
        let ports = Ports { source: 4096, destination: port(rules - 1) };
        Ok(Self {
            classifier: classifier.map_err(|error| error.to_string())?,
            headers: Headers::of_flow(addresses, Protocol::UDP, ports),
            found: LeafId(0),
        })
    }

    fn run(&mut self, packets: u64) {
        for _ in 0..packets {
            self.classify();
        }
    }

    /// A function of its own for callgrind to count in.
    #[inline(never)]
    fn classify(&mut self) {
        let headers = std::hint::black_box(&self.headers);
        self.found = self.classifier.classify(Instant::ZERO, InterfaceId(0), headers).leaf;
        std::hint::black_box(&mut self.found);
    }
}

struct Loop {
    link: Box<dyn AnyLink>,
    now: Instant,
    active: u32,
    next: u32,
    polled: Poll,
}

impl Loop {
    fn new(descriptor: &'static Descriptor, case: Case) -> Result<Self, String> {
        let plan = plan(descriptor, case)?;
        let link = plan.build().map_err(|error| error.to_string())?;
        let active = case.active as u32;
        let mut this = Self { link, now: Instant::ZERO, active, next: 0, polled: Poll::Idle };
        for handle in 0..active * WAITING {
            this.offer(Handle(handle));
        }
        Ok(this)
    }

    fn run(&mut self, packets: u64) {
        let mut sent = 0;
        while sent < packets {
            self.poll();
            match self.polled {
                Poll::Packet(departure) => {
                    sent += 1;
                    self.offer(departure.handle);
                }
                Poll::At(at) => self.now = at,
                Poll::Idle => unreachable!("what leaves is offered again"),
            }
        }
    }

    /// A function of its own for callgrind to count in.
    #[inline(never)]
    fn offer(&mut self, handle: Handle) {
        let leaf = LeafId(self.next);
        self.next = (self.next + 1) % self.active;
        let verdict = self.link.offer(self.now, leaf, Packet::new(handle, LENGTH));
        // Work after the call, or it would become a tail call, which is not counted.
        std::hint::black_box(verdict);
    }

    /// Another function of its own for callgrind to count in.
    #[inline(never)]
    fn poll(&mut self) {
        self.polled = self.link.poll(self.now);
        std::hint::black_box(&mut self.polled);
    }
}

/// Classes of equal rates that may borrow, on 100 Mbit/s.
fn plan(descriptor: &'static Descriptor, case: Case) -> Result<LinkPlan, String> {
    let waiting = case.leaves * WAITING as usize + 1;
    let mut plan = road::plan_at(LINK_RATE, descriptor, case.leaves, 0, waiting);
    plan.buffer = Bytes::ZERO;
    let borrow = |row: &&Parameter| row.kind == Kind::Flag && row.name == "borrow";
    let borrow = descriptor.parameters.iter().find(borrow);
    let rate = Rate::new(LINK_RATE / case.parts as u64).expect("fewer parts than bits");
    let mut classes: Vec<_> = plan.tree.classes().map(|(_, spec)| spec.clone()).collect();
    for spec in &mut classes {
        if let Some(row) = borrow {
            spec.params.set(row.name, Value::Flag(true));
        }
        if spec.parent.is_some() && spec.params.rate("rate").is_some() {
            spec.params.set("rate", Value::Quantity(Quantity::Rate(rate)));
        }
    }
    let (rate, mtu) = (plan.tree.rate(), plan.tree.mtu());
    let tree = Tree::new(rate, mtu, plan.tree.params().clone(), classes);
    plan.tree = tree.map_err(|error| error.to_string())?;
    Ok(plan)
}

fn callgrind(keyword: &str, case: &str, function: &str) -> Result<Count, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.path().display()))
        .arg(format!("--toggle-collect={function}"))
        .arg(program)
        .args(["bench", "--workload", keyword, "--case", case])
        .args(["--packets", &COUNTED.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}; install Debian's `valgrind`"))?;
    let text = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
    let (instructions, calls) = counts(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("callgrind counted nothing for `{keyword}`: {said}")
    })?;
    // The loop fills the queues before it counts packets, which is a part of one per thousand.
    let per_packet = |count: u64| (count as f64 / COUNTED as f64 * 100.0).round() / 100.0;
    Ok(Count { instructions: per_packet(instructions), calls: per_packet(calls) })
}

/// Instructions and calls in a callgrind output; `None` if nothing was counted.
fn counts(text: &str) -> Option<(u64, u64)> {
    let total = |line: &str| line.strip_prefix("totals:")?.trim().parse::<u64>().ok();
    let instructions = text.lines().find_map(total).filter(|&count| count > 0)?;
    let calls = |line: &str| -> Option<u64> {
        line.strip_prefix("calls=")?.split_whitespace().next()?.parse().ok()
    };
    Some((instructions, text.lines().filter_map(calls).sum()))
}

/// The traffic of [nieminen §5] has four classes.
const FOUR: usize = 4;
/// The numbers of classes of [risso99 §6, Table 5].
const MANY: [usize; 6] = [1, 5, 10, 20, 50, 100];
/// The class that is busy alone and among others has this part of the link, so that it borrows
/// either way.
const PARTS: usize = 100;
/// The most that 99 idle classes more may cost: that of risso99's router was 1.29 [risso99 §6,
/// Table 5].
pub const GROWTH_MAX: f64 = 1.10;
/// bit/s: that of the papers' Ethernet.
const LINK_RATE: u64 = 100_000_000;
/// Bytes of every packet: about the 161.5 of [nieminen §5, Table I].
const LENGTH: u32 = 162;
/// Packets that wait in each active leaf.
const WAITING: u32 = 4;
/// That of the first class.
const FIRST_PORT: u16 = 5001;
/// Packets of a run.
const COUNTED: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_goes_round_for_every_case() {
        for (keyword, Case { leaves, active, parts }) in cases() {
            let case = format!("{leaves}:{active}:{parts}");
            workload(keyword, &case, 200).unwrap_or_else(|error| panic!("{keyword}: {error}"));
        }
        for (keyword, rules) in searches() {
            let mut searched = Searched::new(keyword, rules).expect("it builds");
            searched.run(2);
            assert_eq!(searched.found, LeafId(rules as u32 - 1), "{keyword}");
        }
        assert!(workload("fifo", "1:2:1", 1).is_err());
        assert!(workload("fifo", "x", 1).is_err());
        assert!(workload("unknown", "1:1:1", 1).is_err());
    }

    #[test]
    fn counts_are_read_from_what_callgrind_writes() {
        let text = "events: Ir\nfn=(1)\n0 7\ncalls=20 0\n0 5\ncalls=3 0\n0 2\ntotals: 14\n";
        assert_eq!(counts(text), Some((14, 23)));
        assert_eq!(counts("totals: 0\n"), None);
        assert_eq!(counts(""), None);
    }
}
