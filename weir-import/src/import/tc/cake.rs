//! Reads `cake`: its shaper, its overhead and its queues for flows and hosts `[linux]`.
//!
//! At the root of a device it is a link with the shaper's rate and a queue of the same name; below
//! a class it is the queue, and its rate limits the class. What Weir does not have is named.

use super::super::lines::{LineId, Reading};
use super::super::sketch::quoted;
use super::super::words::{Words, number};
use super::disciplines::{Discipline, bytes, duration};
use super::units::{base0, rate, size, time};
use weir_core::link::{Coding, Framing};

/// The options that count several words or change another one.
struct Draft {
    /// Where the discipline is written.
    line: LineId,
    /// The time of a round trip in nanoseconds.
    interval: Option<u64>,
    /// The words for tins and for flows and hosts.
    tins: &'static str,
    isolation: &'static str,
    washes: bool,
    /// Which acknowledgements are dropped; empty for none.
    ack_filter: &'static str,
    /// The overhead that tc sends, if a word for it is there, which counts from the IP header but
    /// with `raw`.
    overhead: i64,
    has_overhead: bool,
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
    let (tins, isolation) = (TINS[0], ISOLATIONS[ISOLATIONS.len() - 1]);
    let (interval, memory, washes) = (None, None, false);
    let ack_filter = "";
    let (overhead, has_overhead, raw) = (0, false, false);
    let mut draft = Draft {
        line,
        interval,
        tins,
        isolation,
        washes,
        ack_filter,
        overhead,
        has_overhead,
        raw,
        memory,
    };
    while let Some(word) = words.take() {
        let text = word.text.as_str();
        if let Some(row) = TINS.iter().find(|name| **name == text) {
            draft.tins = row;
        } else if text == "diffserv" {
            draft.tins = "diffserv4";
        } else if let Some(row) = ISOLATIONS.iter().find(|name| **name == text) {
            draft.isolation = row;
        } else if let Some(row) = ACK_FILTERS.iter().find(|row| row.0 == text) {
            draft.ack_filter = row.1;
        } else if let Some(row) = ROUND_TRIPS.iter().find(|row| row.0 == text) {
            draft.interval = Some(row.1);
        } else if let Some(row) = OVERHEADS.iter().find(|row| row.keyword == text) {
            framing(one, &mut draft, row);
        } else if let Some((_, why)) = LOSSES.iter().find(|row| row.0 == text) {
            reading.approximated(line, format!("`{text}` is left out: {why}"));
        } else if text == "autorate-ingress" {
            one.follows_arrivals = true;
        } else if text == "unlimited" {
            shape(one, 0, &draft, reading);
        } else if ["wash", "nowash"].contains(&text) {
            draft.washes = text == "wash";
        } else if !PLAIN.contains(&text) && !valued(text, one, &mut draft, words, reading)? {
            reading.unknown((text, word.span), "option of cake", &known());
            return None;
        }
    }
    finish(one, &draft, reading);
    Some(())
}

/// Sets the rate; none is 0. The last word of the shaper counts, so the rate is a fixed one.
fn shape(one: &mut Discipline, rate: u64, draft: &Draft, reading: &mut Reading) {
    if std::mem::take(&mut one.follows_arrivals) {
        let note = "`autorate-ingress` before the rate does nothing: the last one counts for tc";
        reading.noted(draft.line, note);
    }
    one.rate = rate;
}

/// Returns the options that a mistyped one may have meant.
fn known() -> Vec<&'static str> {
    let filters = ACK_FILTERS.iter().map(|row| row.0);
    VALUED
        .into_iter()
        .chain(TINS)
        .chain(ISOLATIONS)
        .chain(["wash", "nowash", "autorate-ingress"])
        .chain(filters)
        .collect()
}

/// Writes the queue and the overhead of a cake.
fn finish(one: &mut Discipline, draft: &Draft, reading: &mut Reading) {
    one.queue = vec![("dropper", quoted("cake"))];
    one.queue.extend((draft.tins != TINS[0]).then(|| ("tins", quoted(draft.tins))));
    let is_default = ISOLATIONS.last() == Some(&draft.isolation);
    one.queue.extend((!is_default).then(|| ("hash", quoted(draft.isolation))));
    one.queue.extend((one.rate == 0).then(|| ("unlimited", "true".to_owned())));
    if let Some(interval) = draft.interval {
        one.queue.push(("target", duration((interval / 20).max(1000))));
        one.queue.push(("interval", duration(interval.max(1000))));
    }
    one.queue.extend(draft.memory.map(|memory| ("memory", bytes(memory))));
    one.queue.extend(draft.washes.then(|| ("wash", "true".to_owned())));
    let filter = Some(draft.ack_filter).filter(|word| !word.is_empty());
    one.queue.extend(filter.map(|word| ("ack_filter", quoted(word))));
    one.from_ip = draft.has_overhead && !draft.raw;
    let bytes = if one.from_ip { draft.overhead - ETHERNET_HEADER } else { draft.overhead };
    if bytes > OVERHEAD_MAX {
        let note = format!("Weir's overhead is at most {OVERHEAD_MAX} bytes, beside the frame");
        reading.approximated(draft.line, note);
    }
    one.overhead.bytes = bytes.min(OVERHEAD_MAX);
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
        "bandwidth" => {
            let rate = words.value("a rate such as 10mbit", rate, reading)?;
            shape(one, rate, draft, reading);
        }
        "rtt" => draft.interval = Some(words.value("a time such as 100ms", time, reading)?),
        "memlimit" => {
            let memory: u64 = words.value("a size such as 4m", size, reading)?;
            if memory == 0 {
                reading.noted(draft.line, "`memlimit 0` stands for the default");
                draft.memory = None;
                return Some(true);
            }
            if memory < MEMORY_MIN {
                reading.approximated(draft.line, "its memory holds no packet: it is raised");
            }
            draft.memory = Some(memory.max(MEMORY_MIN));
        }
        "mpu" => {
            let shortest = |text: &str| number(text).filter(|bytes| *bytes <= MPU_MAX);
            one.overhead.minimum = words.value("a number from 0 to 256", shortest, reading)?;
        }
        "overhead" => {
            let signed = |text: &str| {
                let (digits, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
                let value = i64::try_from(number(digits)?).ok()? * sign;
                (-64..=256).contains(&value).then_some(value)
            };
            draft.overhead = words.value("a number from -64 to 256", signed, reading)?;
            draft.has_overhead = true;
        }
        "atm" => one.overhead.coding = Framing::ATM.coding,
        "noatm" => one.overhead.coding = Coding::Plain,
        "ptm" => one.overhead.coding = Coding::Ptm,
        "fwmark" => {
            let mask = words.value("a mask", |text| base0(text, u32::MAX), reading)?;
            if mask > 0 {
                reading.approximated(draft.line, "`fwmark` is left out");
            }
        }
        _ => return Some(false),
    }
    Some(true)
}

/// Applies a keyword that stands for an overhead. tc adds up what they say, but for two; `raw`
/// holds whatever follows.
fn framing(one: &mut Discipline, draft: &mut Draft, kind: &LinkKind) {
    let before = if ["raw", "conservative"].contains(&kind.keyword) { 0 } else { draft.overhead };
    draft.overhead = before + kind.bytes;
    draft.has_overhead = true;
    draft.raw |= kind.keyword == "raw";
    if kind.minimum > 0 {
        one.overhead.minimum = kind.minimum;
    }
    one.overhead.coding = kind.coding.unwrap_or(one.overhead.coding);
}

/// A policy's cake has room for a packet at least.
const MEMORY_MIN: u64 = 4096;
/// cake counts its overhead from the IP packet, Weir from the frame.
const ETHERNET_HEADER: i64 = 14;
/// The largest overhead of a policy.
const OVERHEAD_MAX: i64 = 256;
/// The largest `mpu` that tc takes.
const MPU_MAX: u64 = 256;
/// The first is the default.
const TINS: [&str; 5] = ["diffserv3", "besteffort", "precedence", "diffserv4", "diffserv8"];
/// The words for `CAKE_FLOW_NONE` and what follows it, in the order of the kernel's numbers; the
/// last is the default.
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
/// Options with a value, or of the line, that messages list.
const VALUED: [&str; 7] = ["bandwidth", "overhead", "mpu", "atm", "ptm", "rtt", "memlimit"];
/// Options without a value that change nothing.
const PLAIN: [&str; 5] = ["nonat", "split-gso", "no-split-gso", "egress", "via-ethernet"];
/// Options that say which acknowledgements are dropped, and the word of a policy.
const ACK_FILTERS: [(&str, &str); 3] =
    [("no-ack-filter", ""), ("ack-filter", "spare"), ("ack-filter-aggressive", "aggressive")];
/// Options that ask for what Weir does not have, and why not.
const LOSSES: [(&str, &str); 2] = [
    (
        "nat",
        "hosts have the addresses in the frame; shape at the interface towards them, where those \
         are not translated yet, or all hosts behind a translation (NAT) are one",
    ),
    ("ingress", "dropped packets cost the line nothing"),
];
/// Names of round trips, in nanoseconds.
const ROUND_TRIPS: [(&str, u64); 8] = [
    ("datacentre", 100_000),
    ("lan", 1_000_000),
    ("metro", 10_000_000),
    ("regional", 30_000_000),
    ("internet", 100_000_000),
    ("oceanic", 300_000_000),
    ("satellite", 1_000_000_000),
    ("interplanetary", 1_000_000_000_000),
];
/// The codings of [`OVERHEADS`]; some words leave that of another one.
const AS_BEFORE: Option<Coding> = None;
const PLAIN_CODING: Option<Coding> = Some(Coding::Plain);
const PTM: Option<Coding> = Some(Coding::Ptm);
const CELLS: Option<Coding> = Some(Framing::ATM.coding);
/// A kind of link that cake has a keyword for.
struct LinkKind {
    keyword: &'static str,
    /// Bytes in front of the IP header.
    bytes: i64,
    /// The shortest packet on the line, in bytes; 0 leaves that of another word.
    minimum: u64,
    /// The coding that the line adds.
    coding: Option<Coding>,
}

const fn link(keyword: &'static str, bytes: i64, minimum: u64, coding: Option<Coding>) -> LinkKind {
    LinkKind { keyword, bytes, minimum, coding }
}

/// The keywords of links.
const OVERHEADS: [LinkKind; 15] = [
    link("raw", 0, 0, PLAIN_CODING),
    link("conservative", 48, 0, CELLS),
    link("ethernet", 38, 84, AS_BEFORE),
    link("ether-vlan", 4, 0, AS_BEFORE),
    link("docsis", 18, 64, PLAIN_CODING),
    link("pppoe-ptm", 30, 0, PTM),
    link("bridged-ptm", 22, 0, PTM),
    link("pppoa-vcmux", 10, 0, CELLS),
    link("pppoa-llc", 14, 0, CELLS),
    link("pppoe-vcmux", 32, 0, CELLS),
    link("pppoe-llcsnap", 40, 0, CELLS),
    link("bridged-vcmux", 24, 0, CELLS),
    link("bridged-llcsnap", 32, 0, CELLS),
    link("ipoa-vcmux", 8, 0, CELLS),
    link("ipoa-llcsnap", 16, 0, CELLS),
];
