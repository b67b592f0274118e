//! Reads `cake`: its shaper, its overhead and its queues for flows and hosts `[linux]`.
//!
//! Weir has no discipline like it. Next to it is a link with the shaper's rate, whose queue lets
//! flows take turns; what that lacks is named.

use super::super::lines::{LineId, Reading};
use super::super::sketch::quoted;
use super::super::words::{Words, number};
use super::disciplines::{Discipline, bytes, duration};
use super::units::{rate, size, time};
use weir_core::link::{Coding, Framing};

/// The options that count several words or change another one.
struct Draft {
    /// Where the discipline is written.
    line: LineId,
    /// The time of a round trip in nanoseconds.
    interval: Option<u64>,
    /// How hosts take turns.
    isolation: Option<&'static Isolation>,
    /// Whether lengths are those of the device, without any overhead.
    raw: bool,
    memory: Option<u64>,
}

/// Reads the options of `cake`.
pub(super) fn read(
    one: &mut Discipline,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<()> {
    let mut draft = Draft { line, interval: None, isolation: None, raw: true, memory: None };
    let (mut tins, mut isolation) = ("diffserv3", "triple-isolate");
    while let Some(word) = words.take() {
        let text = word.text.as_str();
        if let Some(row) = TINS.iter().find(|name| **name == text) {
            tins = row;
        } else if let Some(row) = ISOLATIONS.iter().find(|name| **name == text) {
            isolation = row;
        } else if let Some(row) = ROUND_TRIPS.iter().find(|row| row.0 == text) {
            draft.interval = Some(row.1);
        } else if let Some(row) = OVERHEADS.iter().find(|row| row.keyword == text) {
            framing(one, &mut draft, row);
        } else if LOSSES.contains(&text) {
            reading.approximated(line, format!("`{text}` is left out"));
        } else if !PLAIN.contains(&text) && !valued(text, one, &mut draft, words, reading)? {
            let known = ["bandwidth", "besteffort", "overhead", "mpu", "atm", "rtt", "memlimit"];
            reading.unknown((text, word.span), "option of cake", &known);
            return None;
        }
    }
    if tins != "besteffort" {
        let note = format!("the classes by DSCP of `{tins}` become one");
        reading.approximated(line, note);
    }
    draft.isolation = BY_HOST.iter().find(|row| row.word == isolation);
    let note = match draft.isolation {
        Some(row) if row.flows => {
            format!("hosts take turns by {}, and then the flows of a host", row.by)
        }
        Some(row) => format!("hosts take turns by {}, as flows do in fq-codel", row.by),
        None => "flows take turns as in fq-codel, and hosts do not".to_owned(),
    };
    reading.approximated(line, note);
    finish(one, &draft);
    Some(())
}

/// Writes the queue and the overhead of a cake.
fn finish(one: &mut Discipline, draft: &Draft) {
    one.queue = match draft.isolation {
        Some(row) if row.flows => {
            vec![("dropper", quoted("isolate")), ("isolate", quoted(row.hash))]
        }
        Some(row) => vec![("dropper", quoted("fq-codel")), ("hash", quoted(row.hash))],
        None => vec![("dropper", quoted("fq-codel"))],
    };
    if let Some(interval) = draft.interval {
        one.queue.push(("target", duration((interval / 20).max(1))));
        one.queue.push(("interval", duration(interval.max(1))));
    }
    one.queue.extend(draft.memory.map(|memory| ("memory", bytes(memory))));
    if draft.raw {
        one.overhead.bytes = 0;
    }
    one.from_ip = !draft.raw;
}

/// Reads an option with a value; false for any other word.
fn valued(
    text: &str,
    one: &mut Discipline,
    draft: &mut Draft,
    words: &mut Words,
    reading: &mut Reading,
) -> Option<bool> {
    match text {
        "bandwidth" => one.rate = words.value("a rate such as 10mbit", rate, reading)?,
        "rtt" => draft.interval = Some(words.value("a time such as 100ms", time, reading)?),
        "memlimit" => draft.memory = Some(words.value("a size such as 4m", size, reading)?),
        "mpu" => one.overhead.minimum = words.value("a size", size, reading)?.min(65_535),
        "overhead" => {
            let signed = |text: &str| {
                let (digits, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
                let value = i64::try_from(number(digits)?).ok()? * sign;
                (-64..=256).contains(&value).then_some(value)
            };
            let bytes = words.value("a number from -64 to 256", signed, reading)?;
            one.overhead.bytes = bytes - ETHERNET_HEADER;
            draft.raw = false;
        }
        "atm" => one.overhead.coding = Framing::ATM.coding,
        "noatm" => one.overhead.coding = Coding::Plain,
        "ptm" => one.overhead.coding = Coding::Ptm,
        "fwmark" => {
            words.need("a mask", reading)?;
            reading.approximated(draft.line, "`fwmark` is left out");
        }
        _ => return Some(false),
    }
    Some(true)
}

/// Applies a keyword that stands for an overhead.
fn framing(one: &mut Discipline, draft: &mut Draft, kind: &LinkKind) {
    let LinkKind { keyword, bytes, minimum, coding } = *kind;
    draft.raw = keyword == "raw";
    // This one adds a tag to what was said before.
    if keyword == "ether-vlan" {
        one.overhead.bytes += bytes;
        return;
    }
    one.overhead.bytes = bytes - ETHERNET_HEADER;
    one.overhead.minimum = minimum.max(one.overhead.minimum);
    one.overhead.coding = coding;
}

/// cake counts its overhead from the IP packet, Weir from the frame.
const ETHERNET_HEADER: i64 = 14;
/// A way in which hosts take turns.
struct Isolation {
    /// The word of cake.
    word: &'static str,
    /// The value of `hash`, or of `isolate` where flows take turns as well.
    hash: &'static str,
    /// The address of a host, in a note.
    by: &'static str,
    /// Whether the flows of a host take turns as well.
    flows: bool,
}

/// The words of cake that Weir can follow.
const BY_HOST: [Isolation; 5] = [
    Isolation { word: "srchost", hash: "srcaddr", by: "source", flows: false },
    Isolation { word: "dsthost", hash: "dstaddr", by: "destination", flows: false },
    Isolation {
        word: "hosts",
        hash: "srcaddr,dstaddr",
        by: "source and destination",
        flows: false,
    },
    Isolation { word: "dual-srchost", hash: "flows within srcaddr", by: "source", flows: true },
    Isolation {
        word: "dual-dsthost",
        hash: "flows within dstaddr",
        by: "destination",
        flows: true,
    },
];
const TINS: [&str; 5] = ["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"];
/// The words for `CAKE_FLOW_NONE` and what follows it, in the order of the kernel's numbers.
pub(super) const ISOLATIONS: [&str; 8] = [
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
];
/// Options without a value.
const PLAIN: [&str; 13] = [
    "unlimited",
    "nat",
    "nonat",
    "wash",
    "nowash",
    "split-gso",
    "no-split-gso",
    "ack-filter",
    "ack-filter-aggressive",
    "no-ack-filter",
    "ingress",
    "egress",
    "autorate-ingress",
];
/// The options among these that change something that Weir does not have.
const LOSSES: [&str; 6] =
    ["nat", "wash", "ack-filter", "ack-filter-aggressive", "ingress", "autorate-ingress"];
/// Names of round trips, in nanoseconds.
const ROUND_TRIPS: [(&str, u64); 8] = [
    ("datacentre", 100_000),
    ("lan", 1_000_000),
    ("metro", 10_000_000),
    ("regional", 30_000_000),
    ("internet", 100_000_000),
    ("oceanic", 300_000_000),
    ("satellite", 1_000_000_000),
    ("interplanetary", 3_600_000_000_000),
];
/// The codings of [`OVERHEADS`].
const PLAIN_CODING: Coding = Coding::Plain;
const CELLS: Coding = Framing::ATM.coding;
/// A kind of link that cake has a keyword for.
struct LinkKind {
    keyword: &'static str,
    /// Bytes in front of the IP header.
    bytes: i64,
    /// The shortest packet on the line, in bytes.
    minimum: u64,
    /// The coding that the line adds.
    coding: Coding,
}

const fn link(keyword: &'static str, bytes: i64, minimum: u64, coding: Coding) -> LinkKind {
    LinkKind { keyword, bytes, minimum, coding }
}

/// The keywords of links.
const OVERHEADS: [LinkKind; 15] = [
    link("raw", 14, 0, PLAIN_CODING),
    link("conservative", 48, 0, CELLS),
    link("ethernet", 38, 84, PLAIN_CODING),
    link("ether-vlan", 4, 0, PLAIN_CODING),
    link("docsis", 18, 64, PLAIN_CODING),
    link("pppoe-ptm", 30, 0, Coding::Ptm),
    link("bridged-ptm", 22, 0, Coding::Ptm),
    link("pppoa-vcmux", 10, 0, CELLS),
    link("pppoa-llc", 14, 0, CELLS),
    link("pppoe-vcmux", 32, 0, CELLS),
    link("pppoe-llcsnap", 40, 0, CELLS),
    link("bridged-vcmux", 24, 0, CELLS),
    link("bridged-llcsnap", 32, 0, CELLS),
    link("ipoa-vcmux", 8, 0, CELLS),
    link("ipoa-llcsnap", 16, 0, CELLS),
];
