//! Imports systemd's `.network` files: their sections of queueing disciplines and classes.
//!
//! A section stands for a command of tc, which the importer of tc reads: a row of [`SECTIONS`] has
//! its kind, and a row of its keys the word of tc with the unit `[systemd.network(5)]`.

use super::lines::{LineId, Reading};
use super::sketch::Sketch;
use super::tc::{self, Command};
use super::words::{Word, bad_value, decimal, scaled};
use super::{Language, Options};
use std::collections::{BTreeMap, BTreeSet};
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language =
    Language { name: "systemd", summary: "a .network file of systemd-networkd", read };

/// A section, and the words of tc that it stands for.
struct Section {
    line: LineId,
    span: Span,
    kind: &'static Kind,
    /// The keys with their values as words.
    keys: Vec<(String, Word)>,
}

/// A kind of section.
struct Kind {
    name: &'static str,
    /// The discipline of tc.
    tc: &'static str,
    is_class: bool,
    keys: &'static [Key],
    /// Whether Weir has such a discipline.
    is_known: bool,
}

/// A key, and the words of tc for it.
type Key = (&'static str, Value);

/// The words for the value of a key.
enum Value {
    /// This word, and bits in a second: K is 1000.
    Rate(&'static str),
    /// This word, and bytes: K is 1024.
    Size(&'static str),
    /// The same, where tc wants a number.
    Bytes(&'static str),
    /// This word, and a time; a number alone is in seconds.
    Time(&'static str),
    /// This word, and whole seconds.
    Seconds(&'static str),
    /// This word, and the value as it is.
    Plain(&'static str),
    /// This word, and the words of the value.
    List(&'static str),
    /// The first word for yes, the second for no.
    Flag(&'static str, &'static str),
    /// The word beside the value.
    Choice(&'static [(&'static str, &'static str)]),
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let (sections, device) = sections(text, reading);
    let device = options.device.clone().or(device).filter(|name| !name.is_empty());
    let device = device.unwrap_or_else(|| "interface".to_owned());
    let mut sorted: Vec<(usize, Command)> = Vec::new();
    for section in &sections {
        if let Some(words) = section.words(&device, reading) {
            let order = if section.kind.is_class { 1 } else { 2 };
            let is_root = !section.kind.is_class && section.is_at_root();
            let line = section.line;
            sorted.push((if is_root { 0 } else { order }, Command { line, words }));
        }
    }
    sorted.sort_by_key(|row| row.0);
    let commands = parents_first(sorted.into_iter().map(|row| row.1).collect());
    tc::given(commands, options, reading)
}

/// Reads the sections of disciplines, and the name of the interface.
fn sections(text: &str, reading: &mut Reading) -> (Vec<Section>, Option<String>) {
    let (mut sections, mut device): (Vec<Section>, _) = (Vec::new(), None);
    let (mut at, mut inside) = (0, "");
    let mut lost = None;
    for line in text.split_inclusive('\n') {
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        let line = line.trim();
        let span = Span { start, end: start + line.len() };
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name;
            let kind = SECTIONS.iter().find(|kind| kind.name == name);
            lost = None;
            if let Some(kind) = kind {
                let line = reading.line(span);
                sections.push(Section { line, span, kind, keys: Vec::new() });
            } else if name != "Match" {
                let id = reading.line(span);
                reading.lost(id, "it orders and shapes no packets");
                lost = Some(id);
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            reading.unknown((line, span), "line of a .network file", &["[Section]", "Key=Value"]);
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let end = span.end;
        let word = Word { text: value.to_owned(), span: Span { start: end - value.len(), end } };
        match inside {
            "Match" if key == "Name" => {
                // The first of several names, without the `*` of a pattern.
                let name = value.split_whitespace().next();
                device = name.map(|name| name.trim_end_matches('*').to_owned());
            }
            "Match" => {}
            _ if lost.is_some() => {}
            _ => match sections.last_mut() {
                Some(section) => section.keys.push((key.to_owned(), word)),
                None => reading.unknown((line, span), "line before a section", &["[Match]"]),
            },
        }
    }
    (sections, device)
}

impl Section {
    fn text(&self, key: &str) -> Option<&str> {
        self.keys.iter().rev().find(|row| row.0 == key).map(|row| row.1.text.as_str())
    }

    fn is_at_root(&self) -> bool {
        self.text("Parent").is_none_or(|parent| parent == "root")
    }

    /// Returns the section as a command of tc.
    fn words(&self, device: &str, reading: &mut Reading) -> Option<Vec<Word>> {
        let one = |text: &str| Word { text: text.to_owned(), span: self.span };
        let object = if self.kind.is_class { "class" } else { "qdisc" };
        let mut words = vec![one(object), one("add"), one("dev"), one(device)];
        let (mut place, mut options) = (Vec::new(), Vec::new());
        for (key, word) in &self.keys {
            match key.as_str() {
                "Parent" if word.text == "root" => {}
                "Parent" if ["ingress", "clsact"].contains(&word.text.as_str()) => {
                    place.push(word.clone());
                }
                "Parent" => place.extend([one("parent"), word.clone()]),
                "Handle" => {
                    let text = format!("{}:", word.text.trim_end_matches(':'));
                    place.extend([one("handle"), Word { text, span: word.span }]);
                }
                "ClassId" => place.extend([one("classid"), word.clone()]),
                _ if !self.kind.is_known => {}
                _ => {
                    let known = self.kind.keys.iter().find(|row| row.0 == key);
                    let Some((_, value)) = known else {
                        let keys: Vec<&str> = self.kind.keys.iter().map(|row| row.0).collect();
                        reading.unknown((key, word.span), "key of this section", &keys);
                        return None;
                    };
                    options.extend(value.words(word, reading)?);
                }
            }
        }
        if self.is_at_root() {
            let root = if self.kind.is_class {
                vec![one("parent"), one("root")]
            } else {
                vec![one("root")]
            };
            words.extend(root);
        }
        words.extend(place);
        words.push(one(self.kind.tc));
        if self.kind.tc == "cake" {
            // systemd sends each key by itself; for tc the order of these words counts.
            options.sort_by_key(|word| match word.text.as_str() {
                "raw" => 0,
                "autorate-ingress" => 2,
                _ => 1,
            });
        }
        words.extend(options);
        Some(words)
    }
}

impl Value {
    fn words(&self, word: &Word, reading: &mut Reading) -> Option<Vec<Word>> {
        let one = |text: String| Word { text, span: word.span };
        let text = word.text.as_str();
        let pair = |name: &str, value: Option<String>| {
            value.map(|value| vec![one(name.to_owned()), one(value)])
        };
        let (what, found) = match self {
            Self::Rate(name) => {
                let bits = multiple(text, 1000).map(|bits| format!("{bits}bit"));
                ("a rate such as 20M", pair(name, bits))
            }
            Self::Size(name) => {
                let bytes = multiple(text, 1024).map(|bytes| format!("{bytes}b"));
                ("a size such as 15K", pair(name, bytes))
            }
            Self::Bytes(name) => {
                let bytes = multiple(text, 1024).map(|bytes| bytes.to_string());
                ("a size such as 15K", pair(name, bytes))
            }
            Self::Time(name) => {
                let time = nanoseconds(text).map(|time| format!("{}us", time / 1000));
                ("a time such as 5ms", pair(name, time))
            }
            Self::Seconds(name) => {
                let time = nanoseconds(text).map(|time| (time / 1_000_000_000).to_string());
                ("a time such as 10s", pair(name, time))
            }
            Self::Plain(name) => ("a value", pair(name, Some(text.to_owned()))),
            Self::List(name) => {
                let words = std::iter::once(*name).chain(text.split_whitespace());
                ("values", Some(words.map(|word| one(word.to_owned())).collect()))
            }
            Self::Flag(yes, no) => {
                let is = |list: &[&str]| list.iter().any(|word| text.eq_ignore_ascii_case(word));
                let word = if is(&YES) { Some(*yes) } else { is(&NO).then_some(*no) };
                // A word that does not exist is the default of tc.
                let words = |word: &str| match word {
                    "" => Vec::new(),
                    word => vec![one(word.to_owned())],
                };
                ("yes or no", word.map(words))
            }
            Self::Choice(rows) => {
                let row = rows.iter().find(|row| row.0 == text);
                ("one of the values of this key", row.map(|row| vec![one(row.1.to_owned())]))
            }
        };
        if found.is_none() {
            bad_value(word, what, reading);
        }
        found
    }
}

/// Puts each class behind its parent, which HTB looks up when it makes the class: each time the
/// first command that waits for no other one; in a loop of parents, the first of all.
fn parents_first(commands: Vec<Command>) -> Vec<Command> {
    let turns = Turns::new(&commands);
    let mut open: Vec<_> = commands.into_iter().map(Some).collect();
    turns.filter_map(|at| open[at].take()).collect()
}

/// Returns the word behind `key`.
fn after<'c>(command: &'c Command, key: &str) -> Option<&'c str> {
    let at = command.words.iter().position(|word| word.text == key)?;
    command.words.get(at + 1).map(|word| word.text.as_str())
}

/// The commands that are still to come, by number; each takes logarithmic time.
struct Turns {
    /// The class that each command makes, by number.
    made: Vec<Option<usize>>,
    /// By class, how many commands still make it, and those that wait for them.
    makers: Vec<(usize, Vec<usize>)>,
    open: BTreeSet<usize>,
    ready: BTreeSet<usize>,
}

impl Turns {
    fn new(commands: &[Command]) -> Self {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let made: Vec<_> = commands
            .iter()
            .map(|one| {
                let next = numbers.len();
                Some(*numbers.entry(after(one, "classid")?).or_insert(next))
            })
            .collect();
        let mut makers = vec![(0, Vec::new()); numbers.len()];
        made.iter().flatten().for_each(|&class| makers[class].0 += 1);
        let mut ready = BTreeSet::new();
        for (at, one) in commands.iter().enumerate() {
            let parent = after(one, "parent").filter(|_| one.words[0].text == "class");
            match parent.and_then(|parent| numbers.get(parent)) {
                Some(&class) => makers[class].1.push(at),
                None => drop(ready.insert(at)),
            }
        }
        Self { made, makers, open: (0..commands.len()).collect(), ready }
    }
}

impl Iterator for Turns {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = *self.ready.first().or_else(|| self.open.first())?;
        self.open.remove(&at);
        self.ready.remove(&at);
        if let Some(class) = self.made[at] {
            let (left, waiting) = &mut self.makers[class];
            *left -= 1;
            if *left == 0 {
                self.ready.extend(waiting.drain(..).filter(|at| self.open.contains(at)));
            }
        }
        Some(at)
    }
}

/// Parses a number with a suffix that stands for a power of `base`.
fn multiple(text: &str, base: u64) -> Option<u64> {
    let (millionths, suffix) = decimal(text)?;
    let power = ["", "K", "M", "G", "T"].iter().position(|word| *word == suffix.trim())?;
    scaled(millionths, base.checked_pow(power as u32)?)
}

/// Parses a span of time such as `1s 500ms`.
fn nanoseconds(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text.trim(), 0_u64);
    while !rest.is_empty() {
        let (millionths, after) = decimal(rest)?;
        let after = after.trim_start();
        let length = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = after.split_at(length);
        let unit = TIMES.iter().find(|row| row.0.contains(&unit))?.1;
        sum = sum.checked_add(scaled(millionths, unit)?)?;
        rest = next.trim_start();
    }
    Some(sum)
}

const YES: [&str; 6] = ["1", "yes", "y", "true", "t", "on"];
const NO: [&str; 6] = ["0", "no", "n", "false", "f", "off"];
/// Units of time in nanoseconds.
const TIMES: [(&[&str], u64); 6] = [
    (&["ns", "nsec"], 1),
    (&["us", "usec"], 1_000),
    (&["ms", "msec"], 1_000_000),
    (&["", "s", "sec", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "minute", "minutes"], 60_000_000_000),
    (&["h", "hr", "hour", "hours"], 3_600_000_000_000),
];
const BANDS: [Key; 4] = [
    ("Bands", Value::Plain("bands")),
    ("StrictBands", Value::Plain("strict")),
    ("QuantumBytes", Value::List("quanta")),
    ("PriorityMap", Value::List("priomap")),
];
const PACKETS: Key = ("PacketLimit", Value::Plain("limit"));
const BYTES: Key = ("LimitBytes", Value::Size("limit"));
const CODEL: [Key; 4] = [
    ("TargetSec", Value::Time("target")),
    ("IntervalSec", Value::Time("interval")),
    ("ECN", Value::Flag("ecn", "noecn")),
    ("CEThresholdSec", Value::Time("ce_threshold")),
];
const PACED: [Key; 9] = [
    PACKETS,
    ("FlowLimit", Value::Plain("flow_limit")),
    ("QuantumBytes", Value::Bytes("quantum")),
    ("InitialQuantumBytes", Value::Bytes("initial_quantum")),
    ("MaximumRate", Value::Rate("maxrate")),
    ("Buckets", Value::Plain("buckets")),
    ("OrphanMask", Value::Plain("orphan_mask")),
    ("Pacing", Value::Flag("pacing", "nopacing")),
    ("CEThresholdSec", Value::Time("ce_threshold")),
];
const CAKE: [Key; 14] = [
    ("Bandwidth", Value::Rate("bandwidth")),
    ("AutoRateIngress", Value::Flag("autorate-ingress", "")),
    ("OverheadBytes", Value::Plain("overhead")),
    ("MPUBytes", Value::Bytes("mpu")),
    ("CompensationMode", Value::Choice(&[("none", "noatm"), ("atm", "atm"), ("ptm", "ptm")])),
    ("UseRawPacketSize", Value::Flag("raw", "")),
    (
        "FlowIsolationMode",
        Value::Choice(&[
            ("none", "flowblind"),
            ("src-host", "srchost"),
            ("dst-host", "dsthost"),
            ("hosts", "hosts"),
            ("flows", "flows"),
            ("dual-src-host", "dual-srchost"),
            ("dual-dst-host", "dual-dsthost"),
            ("triple", "triple-isolate"),
        ]),
    ),
    ("NAT", Value::Flag("nat", "nonat")),
    (
        "PriorityQueueingPreset",
        Value::Choice(&[
            ("besteffort", "besteffort"),
            ("precedence", "precedence"),
            ("diffserv8", "diffserv8"),
            ("diffserv4", "diffserv4"),
            ("diffserv3", "diffserv3"),
        ]),
    ),
    ("FirewallMark", Value::Plain("fwmark")),
    ("Wash", Value::Flag("wash", "nowash")),
    ("SplitGSO", Value::Flag("split-gso", "no-split-gso")),
    ("RTTSec", Value::Time("rtt")),
    (
        "AckFilter",
        Value::Choice(&[
            ("yes", "ack-filter"),
            ("true", "ack-filter"),
            ("no", "no-ack-filter"),
            ("false", "no-ack-filter"),
            ("aggressive", "ack-filter-aggressive"),
        ]),
    ),
];
const BUCKET: [Key; 7] = [
    ("Rate", Value::Rate("rate")),
    ("BurstBytes", Value::Size("burst")),
    BYTES,
    ("LatencySec", Value::Time("latency")),
    ("PeakRate", Value::Rate("peakrate")),
    ("MTUBytes", Value::Size("mtu")),
    ("MPUBytes", Value::Bytes("mpu")),
];
const HTB_CLASS: [Key; 8] = [
    ("Priority", Value::Plain("prio")),
    ("QuantumBytes", Value::Size("quantum")),
    ("MTUBytes", Value::Size("mtu")),
    ("OverheadBytes", Value::Plain("overhead")),
    ("Rate", Value::Rate("rate")),
    ("CeilRate", Value::Rate("ceil")),
    ("BufferBytes", Value::Size("burst")),
    ("CeilBufferBytes", Value::Size("cburst")),
];
const HTB: [Key; 2] =
    [("DefaultClass", Value::Plain("default")), ("RateToQuantum", Value::Plain("r2q"))];
const QUICK_CLASS: [Key; 2] =
    [("Weight", Value::Plain("weight")), ("MaxPacketBytes", Value::Size("maxpkt"))];
const FLOWS: [Key; 8] = {
    let [target, interval, ecn, threshold] = CODEL;
    let flows = ("Flows", Value::Plain("flows"));
    let quantum = ("QuantumBytes", Value::Bytes("quantum"));
    let memory = ("MemoryLimitBytes", Value::Size("memory_limit"));
    [PACKETS, flows, quantum, memory, target, interval, ecn, threshold]
};
const ONE: [Key; 5] = {
    let [target, interval, ecn, threshold] = CODEL;
    [PACKETS, target, interval, ecn, threshold]
};

const fn qdisc(name: &'static str, tc: &'static str, keys: &'static [Key]) -> Kind {
    Kind { name, tc, is_class: false, keys, is_known: true }
}

const fn class(name: &'static str, tc: &'static str, keys: &'static [Key]) -> Kind {
    Kind { name, tc, is_class: true, keys, is_known: true }
}

/// The sections of systemd.network(5) about disciplines; those that Weir has not are lost by their
/// kind.
const SECTIONS: [Kind; 27] = [
    qdisc("CAKE", "cake", &CAKE),
    qdisc("TokenBucketFilter", "tbf", &BUCKET),
    qdisc("HierarchyTokenBucket", "htb", &HTB),
    class("HierarchyTokenBucketClass", "htb", &HTB_CLASS),
    qdisc("DeficitRoundRobinScheduler", "drr", &[]),
    class("DeficitRoundRobinSchedulerClass", "drr", &[("QuantumBytes", Value::Size("quantum"))]),
    qdisc("QuickFairQueueing", "qfq", &[]),
    class("QuickFairQueueingClass", "qfq", &QUICK_CLASS),
    qdisc("FairQueueingControlledDelay", "fq_codel", &FLOWS),
    qdisc("ControlledDelay", "codel", &ONE),
    qdisc("PIE", "pie", &[PACKETS]),
    qdisc("StochasticFairnessQueueing", "sfq", &[("PerturbPeriodSec", Value::Seconds("perturb"))]),
    qdisc("PFIFO", "pfifo", &[PACKETS]),
    qdisc("BFIFO", "bfifo", &[BYTES]),
    qdisc("PFIFOHeadDrop", "pfifo_head_drop", &[PACKETS]),
    qdisc("PFIFOFast", "pfifo_fast", &[]),
    qdisc("QDisc", "ingress", &[]),
    lost("NetworkEmulator", "netem"),
    lost("FlowQueuePIE", "fq_pie"),
    lost("StochasticFairBlue", "sfb"),
    qdisc("EnhancedTransmissionSelection", "ets", &BANDS),
    lost("GenericRandomEarlyDetection", "gred"),
    qdisc("FairQueueing", "fq", &PACED),
    lost("TrivialLinkEqualizer", "teql0"),
    lost("ClassfulMultiQueueing", "mq"),
    lost("BandMultiQueueing", "multiq"),
    lost("HeavyHitterFilter", "hhf"),
];

const fn lost(name: &'static str, tc: &'static str) -> Kind {
    Kind { name, tc, is_class: false, keys: &[], is_known: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::random::Random;
    use weir_policy::finding::Source;

    fn commands(rows: &[(u32, u32)]) -> Vec<Command> {
        let mut reading = Reading::new(Source::new("f", ""));
        let line = reading.line(Span::default());
        let command = |&(id, parent): &(u32, u32)| {
            let text = format!("class add dev a parent 1:{parent} classid 1:{id} htb");
            let word = |text: &str| Word { text: text.to_owned(), span: Span::default() };
            Command { line, words: text.split(' ').map(word).collect() }
        };
        rows.iter().map(command).collect()
    }

    /// Takes the first command whose parent no open one makes, by looking at all of them.
    fn plain(mut open: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        let mut sorted = Vec::new();
        while !open.is_empty() {
            let waits = |row: &(u32, u32)| open.iter().any(|other| other.0 == row.1);
            let at = open.iter().position(|row| !waits(row)).unwrap_or(0);
            sorted.push(open.remove(at));
        }
        sorted
    }

    #[test]
    fn parents_come_first_as_in_a_plain_search() {
        let mut random = Random::new(7, 0);
        for _ in 0..300 {
            let count = 1 + random.below(12);
            // Forests, loops, classes that are made twice and parents that are nowhere.
            let row = |_| (random.below(12), random.below(14));
            let rows: Vec<(u32, u32)> = (0..count).map(row).collect();
            let sorted = parents_first(commands(&rows));
            let number = |one: &Command, key| {
                after(one, key).and_then(|id| id[2..].parse().ok()).expect("it has both")
            };
            let found: Vec<_> =
                sorted.iter().map(|one| (number(one, "classid"), number(one, "parent"))).collect();
            assert_eq!(found, plain(rows));
        }
    }
}
