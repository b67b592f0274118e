//! Converts the classes of ALTQ's disciplines: for `altq.conf` and for the queues of pf, which mean
//! the same classes [altq, algorithms §3.2, §7, §11].

use super::lines::{LineId, Reading};
use super::options::Effect::{Flag, LeftOut};
use super::options::{A_NUMBER, Row};
use super::sketch::{Class, Key, Rule, Sketch, quoted, rate_value};
use super::words::{decimal, with_letter};

/// A queueing discipline of ALTQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Discipline {
    Cbq,
    Hfsc,
    Priq,
    /// Flows of a class by turns `[pf.conf(5) of FreeBSD and DragonFly]`.
    Fairq,
    /// CoDel in one queue, without classes.
    Codel,
}

/// The early dropper of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Early {
    #[default]
    No,
    Red,
    Rio,
    Codel,
    /// FQ-CoDel.
    Flows,
}

/// A service curve: bit/s, milliseconds, bit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Curve {
    pub m1: u64,
    pub d: u64,
    pub m2: u64,
}

/// A class as ALTQ defines it.
#[derive(Clone, Debug, Default)]
pub(super) struct AltqClass {
    pub name: String,
    /// An index of the same list.
    pub parent: Option<usize>,
    pub line: LineId,
    /// Whether it is for the link's own protocols.
    pub control: bool,
    /// In bit/s.
    pub bandwidth: u64,
    pub borrow: bool,
    pub priority: Option<u64>,
    /// The burst in packets, if the file sets one, and the bytes of such a packet.
    pub burst: Option<u64>,
    pub packet_size: Option<u64>,
    /// The milliseconds that a packet may wait, if the file gives them instead of a limit.
    pub delay: Option<u64>,
    /// The rate of its interface in bit/s.
    pub link: u64,
    pub real_time: Option<Curve>,
    pub link_share: Option<Curve>,
    pub upper_limit: Option<Curve>,
    pub early: Early,
    /// Thresholds of the early dropper, where the file sets them.
    pub thresholds: Vec<Key>,
    pub ecn: bool,
    /// The queues for flows of `fairq`.
    pub buckets: Option<u64>,
    /// The limit in packets, if the file sets one.
    pub limit: Option<u64>,
    pub default: bool,
    pub rules: Vec<Rule>,
}

impl AltqClass {
    pub(super) fn new(name: impl Into<String>, parent: Option<usize>, line: LineId) -> Self {
        Self { name: name.into(), parent, line, ..Self::default() }
    }

    /// Returns how long its packets are taken to be: the file says so, or the MTU does.
    pub(super) fn packet_bytes(&self) -> u64 {
        self.packet_size.unwrap_or(MTU).clamp(1, 65_535)
    }

    /// Returns how many packets its queue holds.
    fn packets(&self) -> u64 {
        self.limit.unwrap_or(LIMIT_DEFAULT).max(1)
    }
}

/// Parses a percentage without its sign, in millionths of a percent.
pub(super) fn percent(text: &str) -> Option<u64> {
    let (millionths, rest) = decimal(text)?;
    (rest.is_empty() && millionths <= 100_000_000).then_some(millionths)
}

/// Returns a part of a rate, of as many millionths of a percent.
pub(super) fn part(whole: u64, percent: u64) -> u64 {
    (u128::from(whole) * u128::from(percent) / 100_000_000) as u64
}

/// Parses a rate in bit/s: `10M`, `128K`, `1000000`.
pub(super) fn bits(text: &str) -> Option<u64> {
    with_letter(text, [1_000, 1_000_000, 1_000_000_000])
}

impl Curve {
    /// A curve of one slope.
    pub(super) fn straight(rate: u64) -> Self {
        Self { m1: 0, d: 0, m2: rate }
    }

    fn keys(self, names: [&'static str; 3]) -> Vec<Key> {
        let [m1, d, m2] = names;
        let mut keys = Vec::new();
        if self.d > 0 {
            keys.extend((self.m1 > 0).then(|| (m1, rate_value(self.m1))));
            keys.push((d, quoted(&format!("{} ms", self.d))));
        }
        // A curve that ends flat gets the least slope instead: Weir has no rate of zero.
        keys.push((m2, rate_value(self.m2)));
        keys
    }
}

/// Adds `classes` to the sketch.
pub(super) fn lower(
    discipline: Discipline,
    classes: Vec<AltqClass>,
    sketch: &mut Sketch,
    reading: &mut Reading,
) {
    sketch.scheduler = match discipline {
        Discipline::Cbq => "cbq",
        Discipline::Hfsc => "hfsc",
        Discipline::Priq => "priq",
        Discipline::Fairq => "htb",
        Discipline::Codel => "fifo",
    };
    let parents: Vec<Option<usize>> = classes.iter().map(|class| class.parent).collect();
    for (index, class) in classes.into_iter().enumerate() {
        let mut lowered = Class::new(class.name.clone(), class.parent, class.line);
        match discipline {
            Discipline::Cbq => cbq(&class, sketch.rate, &mut lowered, reading),
            Discipline::Hfsc => hfsc(&class, parents.contains(&Some(index)), &mut lowered, reading),
            Discipline::Priq => priq(&class, &mut lowered, reading),
            Discipline::Fairq => fairq(&class, sketch.rate, &mut lowered, reading),
            Discipline::Codel => {}
        }
        lowered.queue = match discipline {
            Discipline::Fairq => flow_queue(&class, reading),
            _ => queue(discipline, &class),
        };
        lowered.default = class.default;
        lowered.rules = class.rules;
        sketch.classes.push(lowered);
    }
    let first = sketch.classes.first().map(|class| class.line);
    if discipline == Discipline::Fairq {
        first.into_iter().for_each(|line| sketch.under_link(line));
    }
}

fn cbq(class: &AltqClass, link: u64, lowered: &mut Class, reading: &mut Reading) {
    let least = (link / 10_000).max(1);
    if class.bandwidth == 0 {
        // [algorithms §3.2] With `borrow` ALTQ gives it a ten-thousandth of the link.
        let note = "no bandwidth: a ten-thousandth of the link instead";
        match class.borrow {
            true => reading.noted(class.line, note),
            false => reading.approximated(class.line, format!("{note}; ALTQ would drop all of it")),
        }
    }
    lowered.rate = Some(if class.bandwidth == 0 { least } else { class.bandwidth });
    if !class.borrow {
        lowered.keys.push(("borrow", "false".to_owned()));
    }
    if let Some(packets) = class.burst {
        let burst = packets.saturating_mul(class.packet_bytes()).max(64);
        lowered.keys.push(("burst", quoted(&format!("{burst} B"))));
    }
    push_priority(class, lowered);
}

fn hfsc(class: &AltqClass, interior: bool, lowered: &mut Class, reading: &mut Reading) {
    if let Some(curve) = class.link_share {
        lowered.keys.extend(curve.keys(["ls_m1", "ls_d", "ls_m2"]));
    }
    if let Some(curve) = class.upper_limit {
        lowered.keys.extend(curve.keys(["ul_m1", "ul_d", "ul_m2"]));
    }
    let Some(curve) = class.real_time else { return };
    if interior {
        let note = "its real-time curve is left out: only classes without children have one";
        reading.approximated(class.line, note);
        return;
    }
    lowered.leaf_keys.extend(curve.keys(["rt_m1", "rt_d", "rt_m2"]));
}

fn priq(class: &AltqClass, lowered: &mut Class, reading: &mut Reading) {
    if lowered.parent.take().is_some() {
        reading.approximated(class.line, "priorities have no hierarchy: its parent is left out");
    }
    push_priority(class, lowered);
}

/// The nearest that Weir has is `htb`: a bandwidth each, and what is left in proportion to them.
fn fairq(class: &AltqClass, link: u64, lowered: &mut Class, reading: &mut Reading) {
    if lowered.parent.take().is_some() {
        reading.approximated(class.line, "`fairq` has no hierarchy: its parent is left out");
    }
    lowered.rate = Some(class.bandwidth.clamp(1, link.max(1)));
    lowered.keys.push(("ceil", rate_value(link)));
    let note = "within their bandwidths queues take turns: which of them is first, by `priority`, \
                is left out";
    reading.approximated(class.line, note);
}

/// The queue of a class whose flows take turns; its limit is that of each flow.
fn flow_queue(class: &AltqClass, reading: &mut Reading) -> Vec<Key> {
    let buckets = class.buckets.unwrap_or(BUCKETS).clamp(1, BUCKETS_MAX);
    let limit = class.packets();
    let total = buckets.saturating_mul(limit);
    let all = ("limit", quoted(&format!("{total} packets")));
    if class.early == Early::Codel {
        let mut keys = vec![("dropper", quoted("fq-codel")), all, ("flows", buckets.to_string())];
        keys.extend(class.thresholds.iter().cloned());
        keys.push(("ecn", class.ecn.to_string()));
        return keys;
    }
    if class.early != Early::No {
        reading.approximated(class.line, "RED in each flow is left out");
    }
    let flows = ("flows", buckets.to_string());
    let (divisor, depth) = (("divisor", buckets.to_string()), ("depth", limit.min(DEPTH_MAX)));
    vec![("dropper", quoted("sfq")), all, flows, divisor, (depth.0, depth.1.to_string())]
}

fn push_priority(class: &AltqClass, lowered: &mut Class) {
    if let Some(priority) = class.priority {
        lowered.leaf_keys.push(("priority", priority.to_string()));
    }
}

/// [algorithms §3.17, §9] The droppers of ALTQ's classes; inside class-based queueing RED is not
/// notified of pauses, and a full queue drops its first packet.
fn queue(discipline: Discipline, class: &AltqClass) -> Vec<Key> {
    let cbq = discipline == Discipline::Cbq;
    let dropper = match class.early {
        Early::Red => "red-altq",
        Early::Rio => "rio",
        Early::Codel => "codel",
        Early::Flows => "fq-codel",
        Early::No if cbq => "head",
        Early::No => "tail",
    };
    let limit = match class.packets() {
        1 => "1 packet".to_owned(),
        packets => format!("{packets} packets"),
    };
    let mut keys = vec![("dropper", quoted(dropper)), ("limit", quoted(&limit))];
    if class.early == Early::Red && cbq {
        keys.push(("notices_idle", "false".to_owned()));
    }
    keys.extend(class.thresholds.iter().cloned());
    if class.ecn && matches!(class.early, Early::Red | Early::Codel) {
        keys.push(("ecn", "true".to_owned()));
    }
    keys
}

/// Options that classes have in both files.
pub(super) const OPTIONS: &[Row<AltqClass>] = &[
    ("borrow", Flag(|class| class.borrow = true)),
    ("default", Flag(|class| class.default = true)),
    ("control", Flag(|class| class.control = true)),
    ("red", Flag(|class| class.early = Early::Red)),
    ("rio", Flag(|class| class.early = Early::Rio)),
    ("cleardscp", LeftOut(None, "is left out: marks stay as they are")),
    ("minburst maxpacketsize maxpktsize", LeftOut(Some(A_NUMBER), BY_LENGTH)),
];
const BY_LENGTH: &str =
    "is left out: Weir's class-based queueing charges each packet by its length";
/// ALTQ's default packet size is the MTU of the interface.
const MTU: u64 = 1500;
/// The packets of a queue that names no limit.
const LIMIT_DEFAULT: u64 = 50;
/// The flows of a queue of `fairq` that names no number, and the most of them.
const BUCKETS: u64 = 256;
const BUCKETS_MAX: u64 = 2048;
/// The most packets of a flow of Weir's `sfq`.
const DEPTH_MAX: u64 = 127;
