//! Disciplines and classes of a dump as words of `tc` [linux]. Numbers of attributes and places in
//! structures are those of <linux/pkt_sched.h>.

use super::super::cake::ISOLATIONS;
use super::super::queues::{CELLS, burst_of};
use super::super::units::written_burst;
use super::attributes::{Attributes, number};
use super::{Message, STAB, above, handle};
use std::fmt::Write;

/// Writes a discipline: ` root handle 1: htb default 0x30`.
pub(super) fn qdisc(one: &Message<'_>) -> String {
    if ["ingress", "clsact"].contains(&one.kind) {
        return format!(" handle {} {}", handle(one.handle), one.kind);
    }
    let mut text = format!("{} handle {}", above(one.parent), handle(one.handle));
    text += &stab(&one.all.inside(STAB));
    let _ = write!(text, " {}", one.kind);
    let own = Attributes::parse(one.options);
    text += &match one.kind {
        "htb" => htb(&own),
        "hfsc" => default(one.options, 2),
        "tbf" => tbf(&own),
        "prio" => prio(one.options),
        "ets" => ets(&own),
        "pfifo" | "bfifo" | "pfifo_head_drop" => field(one.options, 0, " limit"),
        "sfq" => sfq(one.options),
        "red" => red(&own),
        "choke" => choke(&own),
        "sfb" => sfb(&own),
        "dualpi2" => dualpi2(&own),
        "cake" => cake(&own),
        kind => rows(kind, &own),
    };
    text
}

/// Writes a class as `tc` sets it up: ` parent 1:1 classid 1:10 htb rate 8000000bit`.
pub(super) fn class(one: &Message<'_>) -> Option<String> {
    let own = Attributes::parse(one.options);
    let words = match one.kind {
        "htb" => htb_class(&own)?,
        "hfsc" => curves(&own),
        "drr" | "qfq" => rows(one.kind, &own),
        _ => return None,
    };
    let parent = match one.parent {
        super::ROOT => format!("{:x}:", one.handle >> 16),
        parent => handle(parent),
    };
    Some(format!(" parent {parent} classid {} {}{words}", handle(one.handle), one.kind))
}

fn default(bytes: &[u8], length: usize) -> String {
    number(bytes, 0, length).map_or_else(String::new, |minor| format!(" default {minor:#x}"))
}

/// Writes the number in the four bytes at `at` behind a word.
fn field(bytes: &[u8], at: usize, word: &str) -> String {
    number(bytes, at, 4).map_or_else(String::new, |value| format!("{word} {value}"))
}

/// Reads `struct tc_sizespec`.
fn stab(table: &Attributes<'_>) -> String {
    let Some(base) = table.get(1) else { return String::new() };
    let word = |at| number(base, at, 4).unwrap_or(0) as u32;
    let layer = if word(8) == ATM { "atm" } else { "ethernet" };
    format!(" stab overhead {} mpu {} linklayer {layer}", word(4) as i32, word(12))
}

/// A `struct tc_ratespec`, with the rate behind it where that has an attribute of its own.
struct RateSpec {
    /// In bytes a second.
    rate: u64,
    overhead: u64,
    mpu: u64,
    atm: bool,
}

impl RateSpec {
    fn parse(bytes: &[u8], at: usize, wide: Option<u64>) -> Option<Self> {
        let part = |offset, length| number(bytes, at + offset, length);
        let rate = wide.or_else(|| part(8, 4))?;
        let atm = u32::try_from(part(1, 1)? & 0xf).is_ok_and(|layer| layer == ATM);
        Some(Self { rate, overhead: part(2, 2)?, mpu: part(6, 2)?, atm })
    }

    fn bits(&self) -> u64 {
        self.rate.saturating_mul(8)
    }

    /// Returns the size for tc from which the kernel has these ticks.
    fn burst(&self, ticks: u64) -> u64 {
        written_burst(self.bytes(ticks).max(1), self.bits())
    }

    fn bytes(&self, ticks: u64) -> u64 {
        let bytes = (u128::from(ticks) * TICK * u128::from(self.rate) + HALF) / SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn framing(&self) -> String {
        let mut text = String::new();
        for (word, value) in [("overhead", self.overhead), ("mpu", self.mpu)] {
            if value > 0 {
                let _ = write!(text, " {word} {value}");
            }
        }
        text + if self.atm { " linklayer atm" } else { "" }
    }
}

fn htb(own: &Attributes<'_>) -> String {
    let Some(globals) = own.get(2) else { return String::new() };
    let r2q = field(globals, 4, " r2q");
    default(globals.get(8..12).unwrap_or(&[]), 4) + &r2q
}

fn htb_class(own: &Attributes<'_>) -> Option<String> {
    let all = own.get(1)?;
    let rate = RateSpec::parse(all, 0, own.number(6))?;
    let ceil = RateSpec::parse(all, 12, own.number(7))?;
    let word = |at| number(all, at, 4);
    let mut text = format!(" rate {}bit ceil {}bit", rate.bits(), ceil.bits());
    let _ = write!(text, " burst {} cburst {}", rate.burst(word(24)?), ceil.burst(word(28)?));
    // A class with children has neither; the kernel shows what they were.
    let (quantum, level, prio) = (word(32)?, word(36)?, word(40)?);
    if level == 0 {
        let _ = write!(text, " prio {prio} quantum {quantum}");
    }
    Some(text + &rate.framing())
}

/// Writes the three service curves, each `struct tc_service_curve`.
fn curves(own: &Attributes<'_>) -> String {
    let mut text = String::new();
    for (kind, word) in [(1, "rt"), (2, "ls"), (3, "ul")] {
        let Some(curve) = own.get(kind) else { continue };
        let part = |at| number(curve, at, 4).unwrap_or(0);
        let (first, time, second) = (part(0) * 8, part(4), part(8) * 8);
        let _ = write!(text, " {word} m1 {first}bit d {time}us m2 {second}bit");
    }
    text
}

fn tbf(own: &Attributes<'_>) -> String {
    let Some(all) = own.get(1) else { return String::new() };
    let word = |at| number(all, at, 4).unwrap_or(0);
    let Some(rate) = RateSpec::parse(all, 0, own.number(4)) else { return String::new() };
    let bytes = rate.bytes(word(28));
    let mut text = format!(" rate {}bit burst {bytes} limit {}", rate.bits(), word(24));
    let peak = RateSpec::parse(all, 12, own.number(5)).filter(|peak| peak.rate > 0);
    if let Some(peak) = peak {
        let _ = write!(text, " peakrate {}bit mtu {}", peak.bits(), peak.bytes(word(32)).max(1));
    }
    text + &rate.framing()
}

fn prio(options: &[u8]) -> String {
    let map = options.get(4..20).unwrap_or(&[]).iter();
    let map: String = map.map(|band| format!(" {band}")).collect();
    field(options, 0, " bands") + " priomap" + &map
}

fn ets(own: &Attributes<'_>) -> String {
    let mut text = String::new();
    for (kind, word) in [(1, "bands"), (2, "strict")] {
        if let Some(number) = own.number(kind).filter(|number| *number > 0) {
            let _ = write!(text, " {word} {number}");
        }
    }
    for (kind, word) in [(3, " quanta"), (5, " priomap")] {
        let numbers = own.list(kind);
        text += if numbers.is_empty() { "" } else { word };
        for number in numbers {
            let _ = write!(text, " {number}");
        }
    }
    text
}

fn sfq(options: &[u8]) -> String {
    let mut text = field(options, 0, " quantum") + &field(options, 8, " limit");
    text += &(field(options, 12, " divisor") + &field(options, 16, " flows"));
    text += &field(options, 20, " depth");
    let period = number(options, 4, 4).unwrap_or(0);
    if period > 0 {
        let _ = write!(text, " perturb {period}");
    }
    let head = number(options, 24, 4).is_some_and(|head| head > 0);
    text + if head { " headdrop" } else { "" }
}

fn red(own: &Attributes<'_>) -> String {
    let Some(all) = own.get(1) else { return String::new() };
    let mut text = field(all, 0, " limit") + &field(all, 4, " min") + &field(all, 8, " max");
    if let Some(most) = own.number(3) {
        let _ = write!(text, " probability {:.6}", most as f64 / f64::from(u32::MAX));
    }
    let flags = number(all, 15, 1).unwrap_or(0);
    let words = [(1, " ecn"), (2, " harddrop"), (4, " adaptive")];
    words.iter().filter(|row| flags & row.0 > 0).for_each(|row| text.push_str(row.1));
    text
}

/// The kernel does not tell the table of pauses, but the size of its cells.
fn choke(own: &Attributes<'_>) -> String {
    let Some(all) = own.get(1) else { return String::new() };
    let mut text = field(all, 0, " limit") + &field(all, 4, " min") + &field(all, 8, " max");
    if let Some(most) = own.number(3) {
        let _ = write!(text, " probability {:.6}", most as f64 / f64::from(u32::MAX));
    }
    let byte = |at| number(all, at, 1).unwrap_or(0).min(31);
    let pause = (CELLS << byte(14)) * 1000 / 31;
    let min = number(all, 4, 4).unwrap_or(0);
    if let Some((burst, bandwidth)) = burst_of(1 << byte(12), min as f64, pause) {
        let _ = write!(text, " burst {burst} bandwidth {bandwidth}bit");
    }
    text + if byte(15) & 1 > 0 { " ecn" } else { "" }
}

/// Writes `struct tc_sfb_qopt`, whose probabilities are in 65535ths.
fn sfb(own: &Attributes<'_>) -> String {
    let Some(all) = own.get(1) else { return String::new() };
    let mut text = field(all, 0, " rehash") + &field(all, 4, " db");
    text += &(field(all, 8, " max") + &field(all, 12, " target"));
    for (at, word) in [(16, "increment"), (20, "decrement")] {
        let part = number(all, at, 4).unwrap_or(0) as f64 / f64::from(u16::MAX);
        let _ = write!(text, " {word} {part:.6}");
    }
    text += &(field(all, 24, " limit") + &field(all, 28, " penalty_rate"));
    text + &field(all, 32, " penalty_burst")
}

fn dualpi2(own: &Attributes<'_>) -> String {
    let mut text = rows("dualpi2", own);
    for (kind, word) in [(5, "alpha"), (6, "beta")] {
        if let Some(gain) = own.number(kind) {
            let _ = write!(text, " {word} {}", gain as f64 / 256.0);
        }
    }
    let is = |kind, value| own.number(kind).is_some_and(|number| number == value);
    text += if is(11, 0) { " overflow" } else { " drop_on_overload" };
    text += if is(12, 1) { " drop_enqueue" } else { " drop_dequeue" };
    text + if is(14, 3) { " any_ect" } else { " l4s_ect" }
}

fn cake(own: &Attributes<'_>) -> String {
    let mut text = match own.number(2) {
        Some(rate) if rate > 0 => format!(" bandwidth {}bit", rate.saturating_mul(8)),
        _ => " unlimited".to_owned(),
    };
    let named = |kind: u16, words: &[&str]| -> String {
        let at = own.number(kind).and_then(|at| usize::try_from(at).ok());
        let word = at.and_then(|at| words.get(at)).copied().unwrap_or("");
        if word.is_empty() { String::new() } else { format!(" {word}") }
    };
    let modes = ["diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"];
    text += &named(3, &modes);
    text += &named(5, &ISOLATIONS);
    for (kind, words) in [
        (11, ["", "nat"].as_slice()),
        (13, &["", "wash"]),
        (15, &["", "ingress"]),
        (16, &["", "ack-filter", "ack-filter-aggressive"]),
        (9, &["", "autorate-ingress"]),
        (4, &["noatm", "atm", "ptm"]),
    ] {
        text += &named(kind, words);
    }
    if let Some(time) = own.number(7) {
        let _ = write!(text, " rtt {time}us");
    }
    match (own.get(12).is_some(), own.number(6)) {
        (false, Some(bytes)) => drop(write!(text, " overhead {}", bytes as u32 as i32)),
        _ => text.push_str(" raw"),
    }
    for (kind, word) in [(14, "mpu"), (10, "memlimit"), (18, "fwmark")] {
        if let Some(value) = own.number(kind).filter(|value| *value > 0) {
            let _ = write!(text, " {word} {value}");
        }
    }
    text
}

/// Writes the attributes of a kind that has a word for each.
fn rows(kind: &str, own: &Attributes<'_>) -> String {
    let mut text = String::new();
    for (_, attribute, word, form) in ROWS.iter().filter(|row| row.0 == kind) {
        let Some(value) = own.number(*attribute) else { continue };
        match form {
            Form::Plain => drop(write!(text, " {word} {value}")),
            Form::Packets => drop(write!(text, " {word} {value}p")),
            Form::Microseconds => drop(write!(text, " {word} {value}us")),
            // The kernel's word for none.
            Form::Bytes | Form::Threshold if value == u64::from(u32::MAX) => {}
            Form::Bytes => drop(write!(text, " {word} {value}bps")),
            Form::Threshold => drop(write!(text, " {word} {value}us")),
            Form::Flag(without) => {
                let word = if value > 0 { word } else { without };
                if !word.is_empty() {
                    let _ = write!(text, " {word}");
                }
            }
        }
    }
    text
}

/// How an attribute is written.
enum Form {
    Plain,
    /// With the unit of packets.
    Packets,
    Microseconds,
    /// Microseconds; left out where the largest number stands for none.
    Threshold,
    /// Bytes in a second; left out where the largest number stands for none.
    Bytes,
    /// The word stands alone; the other one where the value is 0.
    Flag(&'static str),
}

/// The kinds with an attribute for each option: the kind, the attribute, its word and its form.
const ROWS: &[(&str, u16, &str, Form)] = &[
    ("fq_codel", 2, "limit", Form::Plain),
    ("fq_codel", 5, "flows", Form::Plain),
    ("fq_codel", 6, "quantum", Form::Plain),
    ("fq_codel", 1, "target", Form::Microseconds),
    ("fq_codel", 3, "interval", Form::Microseconds),
    ("fq_codel", 9, "memory_limit", Form::Plain),
    ("fq_codel", 7, "ce_threshold", Form::Microseconds),
    ("fq_codel", 4, "ecn", Form::Flag("noecn")),
    ("codel", 2, "limit", Form::Plain),
    ("codel", 1, "target", Form::Microseconds),
    ("codel", 3, "interval", Form::Microseconds),
    ("codel", 5, "ce_threshold", Form::Microseconds),
    ("codel", 4, "ecn", Form::Flag("noecn")),
    ("pie", 2, "limit", Form::Plain),
    ("pie", 1, "target", Form::Microseconds),
    ("pie", 3, "tupdate", Form::Microseconds),
    ("pie", 4, "alpha", Form::Plain),
    ("pie", 5, "beta", Form::Plain),
    ("pie", 6, "ecn", Form::Flag("")),
    ("pie", 7, "bytemode", Form::Flag("")),
    ("fq_pie", 1, "limit", Form::Plain),
    ("fq_pie", 2, "flows", Form::Plain),
    ("fq_pie", 3, "target", Form::Microseconds),
    ("fq_pie", 4, "tupdate", Form::Microseconds),
    ("fq_pie", 5, "alpha", Form::Plain),
    ("fq_pie", 6, "beta", Form::Plain),
    ("fq_pie", 7, "quantum", Form::Plain),
    ("fq_pie", 8, "memory_limit", Form::Plain),
    ("fq_pie", 9, "ecn_prob", Form::Plain),
    ("fq_pie", 10, "ecn", Form::Flag("noecn")),
    ("fq_pie", 11, "bytemode", Form::Flag("nobytemode")),
    ("fq_pie", 12, "dq_rate_estimator", Form::Flag("")),
    ("fq", 1, "limit", Form::Plain),
    ("fq", 2, "flow_limit", Form::Plain),
    ("fq", 3, "quantum", Form::Plain),
    ("fq", 4, "initial_quantum", Form::Plain),
    ("fq", 5, "pacing", Form::Flag("nopacing")),
    ("fq", 7, "maxrate", Form::Bytes),
    ("fq", 9, "refill_delay", Form::Microseconds),
    ("fq", 10, "orphan_mask", Form::Plain),
    ("fq", 11, "low_rate_threshold", Form::Bytes),
    ("fq", 12, "ce_threshold", Form::Threshold),
    ("dualpi2", 1, "limit", Form::Plain),
    ("dualpi2", 3, "target", Form::Microseconds),
    ("dualpi2", 4, "tupdate", Form::Microseconds),
    ("dualpi2", 7, "step_thresh", Form::Packets),
    ("dualpi2", 8, "step_thresh", Form::Microseconds),
    ("dualpi2", 9, "min_qlen_step", Form::Plain),
    ("dualpi2", 10, "coupling_factor", Form::Plain),
    ("dualpi2", 13, "classic_protection", Form::Plain),
    ("drr", 1, "quantum", Form::Plain),
    ("qfq", 1, "weight", Form::Plain),
    ("qfq", 2, "maxpkt", Form::Plain),
];
/// `TC_LINKLAYER_ATM`.
const ATM: u32 = 2;
/// Nanoseconds of a tick, and what divides them.
const TICK: u128 = 64;
const SECOND: u128 = 1_000_000_000;
const HALF: u128 = SECOND / 2;
