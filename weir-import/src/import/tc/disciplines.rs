//! Reads queueing disciplines and their classes, as `tc` writes them `[linux]`.

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted, rate_value};
use super::super::words::{Word, Words, decimal, number};
use super::units::{base0, rate, size, time};
use weir_core::link::{Coding, Framing};

/// The overhead of a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Overhead {
    pub bytes: i64,
    pub minimum: u64,
    pub coding: Coding,
}

/// A queueing discipline with the options that are translated.
#[derive(Clone, Debug, Default)]
pub(super) struct Discipline {
    pub kind: String,
    /// The minor number of the default class.
    pub default: Option<u16>,
    pub overhead: Overhead,
    /// Whether the overhead counts from the IP header, on any device.
    pub from_ip: bool,
    /// Whether the rate follows that at which packets arrive.
    pub follows_arrivals: bool,
    /// The rate of a `tbf` in bit/s, or the `bandwidth` of a `cbq`.
    pub rate: u64,
    /// The number of bands of a `prio` or `ets`, and the band of ordinary packets.
    pub bands: u64,
    pub ordinary: u64,
    /// The strict bands of an `ets`, and the quanta of those behind them.
    pub strict: u64,
    pub quanta: Vec<u64>,
    /// Keys and values of `[link.SCHEDULER]`.
    pub parameters: Vec<Key>,
    /// The queue of a discipline without classes.
    pub queue: Vec<Key>,
}

/// A service curve of `hfsc`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Curve {
    pub m1: u64,
    pub d: u64,
    pub m2: u64,
}

/// The options of a class, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassOptions {
    pub kind: String,
    pub rate: Option<u64>,
    pub ceil: Option<u64>,
    pub burst: Option<u64>,
    pub cburst: Option<u64>,
    /// The packet of which the default bursts consist.
    pub mtu: Option<u64>,
    pub quantum: Option<u64>,
    pub prio: Option<u64>,
    pub weight: Option<u64>,
    /// The `maxpkt` of a class of `qfq`.
    pub longest: Option<u64>,
    pub bounded: bool,
    pub real_time: Option<Curve>,
    pub link_share: Option<Curve>,
    pub upper_limit: Option<Curve>,
    pub overhead: Overhead,
}

impl Discipline {
    /// Returns whether two virtual queues of a `gred` take a packet to last for other times.
    pub(super) fn has_another_pause(&self, other: &Discipline) -> bool {
        let of = |one: &Discipline| {
            one.queue.iter().find(|key| key.0 == "pkttime").map(|key| key.1.clone())
        };
        of(self).zip(of(other)).is_some_and(|(one, other)| one != other)
    }

    /// Takes over what a `change` says; that of a `gred` is one of its virtual queues.
    pub(super) fn change(&mut self, new: Discipline) {
        let before = std::mem::replace(self, new);
        if self.kind != "gred" || self.queue.iter().any(|key| key.0 == "dropper") {
            return;
        }
        let new = std::mem::replace(&mut self.queue, before.queue);
        self.queue.retain(|old| new.iter().all(|key| key.0 != old.0));
        self.queue.extend(new);
    }
}

/// Reads the options behind `kind`; `waiting` is the device's queue length.
pub(super) fn read(
    kind: &Word,
    words: &mut Words,
    (line, waiting): (LineId, u64),
    reading: &mut Reading,
) -> Option<Discipline> {
    let mut one = Discipline { kind: kind.text.clone(), ..Discipline::default() };
    match kind.text.as_str() {
        "htb" => htb(&mut one, words, line, reading)?,
        "hfsc" => {
            while let Some(word) = words.take() {
                one_of(&word, "default", "option of hfsc", reading)?;
                one.default = Some(words.value("a minor number", minor, reading)?);
            }
        }
        "cbq" => cbq(&mut one, words, line, reading)?,
        "prio" => prio(&mut one, words, line, reading)?,
        "ets" => super::ets::read(&mut one, words, line, reading)?,
        "tbf" => tbf(&mut one, words, line, reading)?,
        "drr" | "qfq" | "mq" => {}
        "cake" => super::cake::read(&mut one, words, line, reading)?,
        "cake_mq" => {
            one.kind = "cake".to_owned();
            reading.approximated(line, "one cake for all queues of the device");
            super::cake::read(&mut one, words, line, reading)?;
        }
        "sfq" => {
            one.queue = sfq(words, line, reading)?;
        }
        "fq_codel" | "codel" | "pie" | "fq_pie" => {
            one.queue = delays(kind, words, line, reading)?;
        }
        "choke" => one.queue = super::queues::choke(words, line, reading)?,
        "gred" => one.queue = super::queues::gred(words, (line, waiting), reading)?,
        "fq" => one.queue = super::fq::read(words, line, reading)?,
        "sfb" => one.queue = super::queues::sfb(words, (line, waiting), reading)?,
        "dualpi2" => one.queue = super::dualpi2::read(words, line, reading)?,
        "red" => one.queue = red(words, line, reading)?,
        "pfifo" | "bfifo" | "pfifo_fast" | "pfifo_head_drop" => {
            one.queue = fifo(kind, waiting, words, line, reading)?;
            if kind.text == "pfifo_fast" {
                reading.approximated(line, "its three bands become one queue");
            }
        }
        other => {
            match UNKNOWN_TO_WEIR.iter().find(|row| row.0.contains(&other)) {
                Some((_, instead)) => {
                    reading.lost(line, format!("Weir has no `{other}`: {instead}"));
                }
                None => reading.unknown((other, kind.span), "queueing discipline", &KINDS),
            }
            return None;
        }
    }
    if let Some(word) = words.take() {
        reading.unknown((&word.text, word.span), "option here", &[]);
        return None;
    }
    keep_last(&mut one.queue);
    keep_last(&mut one.parameters);
    Some(one)
}

/// Keeps the last value of each key, as tc does with an option that is written twice.
fn keep_last(keys: &mut Vec<Key>) {
    let mut at = 0;
    keys.reverse();
    while at < keys.len() {
        let name = keys[at].0;
        let later = keys.split_off(at + 1);
        keys.extend(later.into_iter().filter(|key| key.0 != name));
        at += 1;
    }
    keys.reverse();
}

fn one_of(word: &Word, wanted: &str, what: &str, reading: &mut Reading) -> Option<()> {
    if word.text == wanted {
        return Some(());
    }
    reading.unknown((&word.text, word.span), what, &[wanted]);
    None
}

fn htb(one: &mut Discipline, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "default" => one.default = Some(words.value("a minor number", minor, reading)?),
            "r2q" => {
                let r2q = words.value("a number", number, reading)?.clamp(1, u32::MAX.into());
                one.parameters.push(("r2q", r2q.to_string()));
            }
            "direct_qlen" => {
                words.value("a number of packets", number, reading)?;
                reading.approximated(
                    line,
                    "`direct_qlen` is left out: no packet bypasses the classes",
                );
            }
            "offload" => reading.approximated(line, "`offload` is left out"),
            other => {
                let known = ["default", "r2q", "direct_qlen", "offload"];
                reading.unknown((other, word.span), "option of htb", &known);
                return None;
            }
        }
    }
    Some(())
}

fn cbq(one: &mut Discipline, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "bandwidth" => one.rate = words.value(A_RATE, rate, reading)?,
            "avpkt" | "cell" | "mpu" | "allot" | "ewma" => {
                words.need("a number", reading)?;
                let note =
                    format!("`{}` is left out: each packet is charged its length", word.text);
                reading.approximated(line, note);
            }
            other => {
                let known = ["bandwidth", "avpkt", "cell", "mpu", "allot", "ewma"];
                reading.unknown((other, word.span), "option of cbq", &known);
                return None;
            }
        }
    }
    Some(())
}

/// Reads `bands N priomap P P ...`.
fn prio(
    one: &mut Discipline,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<()> {
    (one.bands, one.ordinary) = (3, 1);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "bands" => {
                let bands = |text: &str| number(text).filter(|bands| (1..=16).contains(bands));
                one.bands = words.value("a number of bands from 1 to 16", bands, reading)?;
            }
            "priomap" => {
                let mut first = None;
                while let Some(band) = words.peek().and_then(number) {
                    words.take();
                    first.get_or_insert(band);
                }
                // Packets without a priority of their own have priority 0.
                one.ordinary = first.unwrap_or(one.ordinary);
            }
            "multiqueue" => {}
            other => {
                let known = ["bands", "priomap"];
                reading.unknown((other, word.span), "option of prio", &known);
                return None;
            }
        }
    }
    one.ordinary = one.ordinary.min(one.bands - 1);
    reading.approximated(line, PRIORITY_MAP);
    Some(())
}

fn tbf(one: &mut Discipline, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
    let (mut latency, mut limit, mut burst) = (None, None, 0);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "rate" => {
                one.rate = words.value(A_RATE, rate, reading)?;
                one.parameters.push(("rate", rate_value(one.rate)));
            }
            "burst" | "buffer" | "maxburst" => {
                burst = words.value(A_SIZE, size_cell, reading)?.clamp(1, 1 << 40);
                one.parameters.push(("burst", quoted(&format!("{burst} B"))));
            }
            "peakrate" => {
                let peak = words.value(A_RATE, rate, reading)?;
                one.parameters.push(("peakrate", rate_value(peak)));
            }
            "mtu" | "minburst" => {
                let mtu = words.value(A_SIZE, size_cell, reading)?.clamp(1, 1 << 40);
                one.parameters.push(("mtu", quoted(&format!("{mtu} B"))));
            }
            "limit" => limit = Some(words.value(A_SIZE, size, reading)?),
            "latency" => latency = Some(words.value(A_TIME, time, reading)?),
            "overhead" | "mpu" | "linklayer" => {
                overhead(&word, words, &mut one.overhead, reading)?;
            }
            other => {
                let known = ["rate", "burst", "limit", "latency", "peakrate", "mtu", "overhead"];
                reading.unknown((other, word.span), "option of tbf", &known);
                return None;
            }
        }
    }
    // [algorithms §5.8] A latency is that of a full queue behind a full bucket.
    let held = latency.map(|latency| {
        let bits = u128::from(one.rate) * u128::from(latency) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX).saturating_add(burst)
    });
    if let Some(limit) = limit.or(held) {
        one.queue = byte_limit(limit);
    }
    if one.rate == 0 {
        reading.lost(line, "a tbf without `rate`");
        return None;
    }
    Some(())
}

/// Reads `sfq`, of which tc takes 0 for none.
fn sfq(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let mut keys = vec![("dropper", quoted("sfq"))];
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "limit" => {
                let limit = words.value("a limit above 1", |text| least(2, text), reading)?;
                keys.extend(packet_limit(limit));
            }
            "divisor" => {
                let known = |one: &u64| *one == 0 || one.is_power_of_two() && *one <= FLOWS_MAX;
                let divisor = |text: &str| unsigned(text).filter(known);
                let divisor = words.value("a power of two up to 65536", divisor, reading)?;
                keys.extend((divisor > 0).then(|| ("divisor", divisor.to_string())));
            }
            "flows" => {
                let flows = words.value("a number", unsigned, reading)?.min(SFQ_FLOWS_MAX);
                keys.extend((flows > 0).then(|| ("flows", flows.to_string())));
            }
            "depth" => {
                let depth = words.value("a number", unsigned, reading)?.min(SFQ_DEPTH_MAX);
                keys.extend((depth > 0).then(|| ("depth", depth.to_string())));
            }
            "quantum" => {
                let quantum = words.value(A_SIZE, size_u32, reading)?;
                let known = quantum.clamp(64, 1 << 30);
                keys.extend((quantum > 0).then(|| ("quantum", bytes(known))));
            }
            "perturb" => {
                let seconds = words.value("a number of seconds", unsigned, reading)?;
                if seconds > 0 {
                    reading.approximated(line, "`perturb` is left out: the hash stays");
                }
            }
            "headdrop" => keys.push(("headdrop", "true".to_owned())),
            "min" | "max" | "avpkt" | "burst" | "probability" | "redflowlimit" => {
                words.need("a number", reading)?;
                reading.approximated(line, "RED in each flow is left out");
            }
            "ecn" | "harddrop" => {}
            other => {
                let known = ["perturb", "quantum", "limit", "divisor", "flows", "depth", "min"];
                reading.unknown((other, word.span), "option of sfq", &known);
                return None;
            }
        }
    }
    Some(keys)
}

/// Reads `fq_codel`, `codel`, `pie` and `fq_pie`.
fn delays(kind: &Word, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let dropper = kind.text.replace('_', "-");
    let dropper = dropper.as_str();
    let mut keys = vec![("dropper", quoted(dropper))];
    if dropper == "codel" {
        keys.push(("root", quoted("linux")));
    }
    while let Some(word) = words.take() {
        let Some(option) = delay_option(&word.text, dropper) else {
            reading.unknown((&word.text, word.span), "option here", &DELAY_KNOWN);
            return None;
        };
        match option {
            Delay::Flag("", _) => {}
            Delay::Flag(key, value) => keys.push((key, value.to_owned())),
            Delay::Without => {
                reading.approximated(line, format!("`{}` is left out", word.text));
            }
            Delay::LeftOut(what, parse) => {
                words.value(what, parse, reading)?;
                reading.approximated(line, format!("`{}` is left out", word.text));
            }
            Delay::Memory => {
                let memory = words.value(A_SIZE, size_u32, reading)?;
                if memory == 0 {
                    reading.approximated(line, DROPS_ALL);
                }
                keys.push(("memory", bytes(memory.min(MEMORY_MAX))));
            }
            Delay::Number(key, what, parse, show) => match words.value(what, parse, reading)? {
                // tc sends no zero, so the kernel takes its default.
                0 => reading.noted(line, format!("`{} 0` stands for the default", word.text)),
                value => keys.push((key, show(value))),
            },
        }
    }
    if dropper == "pie" && !keys.iter().any(|key| key.0 == "bytes") {
        // The kernel's default, unlike that of RFC 8033.
        keys.push(("bytes", "false".to_owned()));
    }
    Some(keys)
}

/// An option of `fq_codel`, `codel`, `pie` or `fq_pie`.
#[derive(Clone, Copy)]
enum Delay {
    /// A number, of which tc takes 0 for none: its key, what it is, how it is read (which refuses
    /// what tc or the kernel refuses) and written.
    Number(&'static str, &'static str, Parse, Show),
    /// A word that sets a key to a value; without a key it is the default.
    Flag(&'static str, &'static str),
    /// A value that Weir has no key for.
    LeftOut(&'static str, Parse),
    /// A word without a value that Weir has no key for.
    Without,
    /// The memory of all its queues.
    Memory,
}

type Parse = fn(&str) -> Option<u64>;
type Show = fn(u64) -> String;

/// Returns what the word means to a dropper, if it means something.
fn delay_option(word: &str, dropper: &str) -> Option<Delay> {
    let mut rows = DELAYS.iter();
    rows.find(|row| row.0 == word && row.1.contains(&dropper)).map(|row| row.2)
}

fn plain(value: u64) -> String {
    value.to_string()
}

/// Formats a quantum, of which the kernel raises small ones.
fn raised(quantum: u64) -> String {
    bytes(quantum.max(256))
}

fn red(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let mut keys = vec![("dropper", quoted("red"))];
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "limit" => keys.extend(byte_limit(words.value(A_SIZE, size, reading)?)),
            "min" => keys.push(("min", bytes(words.value(A_SIZE, size, reading)?))),
            "max" => keys.push(("max", bytes(words.value(A_SIZE, size, reading)?))),
            "avpkt" => {
                let packet = words.value(A_SIZE, size, reading)?.clamp(1, 65_535);
                keys.push(("packet", quoted(&format!("{packet} B"))));
            }
            "probability" => {
                let part =
                    |text: &str| decimal(text).filter(|row| row.0 <= 1_000_000).map(|row| row.0);
                let part = words.value("a probability from 0 to 1", part, reading)?;
                let percent = format!("{}.{:04} %", part / 10_000, part % 10_000);
                keys.push(("pmax", quoted(&percent)));
            }
            "ecn" => keys.push(("ecn", "true".to_owned())),
            "adaptive" => keys.push(("adaptive", "true".to_owned())),
            "harddrop" | "nodrop" => {}
            "burst" | "bandwidth" => {
                words.need("a number", reading)?;
                let note =
                    format!("`{}` is left out: the average is taken over 500 packets", word.text);
                reading.approximated(line, note);
            }
            other => {
                let known = [
                    "limit",
                    "min",
                    "max",
                    "avpkt",
                    "burst",
                    "probability",
                    "bandwidth",
                    "ecn",
                    "adaptive",
                    "harddrop",
                ];
                reading.unknown((other, word.span), "option of red", &known);
                return None;
            }
        }
    }
    Some(keys)
}

/// Reads `[limit N]`; without, the device's queue length counts.
fn fifo(
    kind: &Word,
    waiting: u64,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<Vec<Key>> {
    let limit = match kind.text != "pfifo_fast" && words.accept("limit") {
        true => Some(words.value("a limit up to 4294967295", size_u32, reading)?),
        false => None,
    };
    if limit == Some(0) {
        reading.approximated(line, DROPS_ALL);
    }
    let keys = match (kind.text.as_str(), limit) {
        ("bfifo", limit) => byte_limit(limit.unwrap_or(waiting.saturating_mul(FRAME))),
        ("pfifo_fast", _) => packet_limit(waiting.saturating_mul(3)),
        (_, limit) => packet_limit(limit.unwrap_or(waiting)),
    };
    let head = (kind.text == "pfifo_head_drop").then(|| ("dropper", quoted("head")));
    Some(head.into_iter().chain(keys).collect())
}

/// Returns the queue of a class without a discipline of its own.
pub(super) fn packet_limit(waiting: u64) -> Vec<Key> {
    vec![("limit", packets(waiting.max(1)))]
}

pub(super) fn packets(limit: u64) -> String {
    let limit = limit.min(u32::MAX.into());
    quoted(&format!("{limit} {}", if limit == 1 { "packet" } else { "packets" }))
}

pub(super) fn bytes(size: u64) -> String {
    quoted(&format!("{} B", size.clamp(1, 1 << 40)))
}

fn byte_limit(limit: u64) -> Vec<Key> {
    vec![("limit", bytes(limit))]
}

/// Formats a time as a value.
pub(super) fn duration(ns: u64) -> String {
    let text = match ns {
        0 => "1 ns".to_owned(),
        ns if ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{} us", ns / 1_000),
        ns => format!("{ns} ns"),
    };
    quoted(&text)
}

/// Reads the options of a class behind `kind`.
pub(super) fn class_options(
    kind: &Word,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<ClassOptions> {
    let mut options = ClassOptions { kind: kind.text.clone(), ..ClassOptions::default() };
    if !CLASSFUL.contains(&kind.text.as_str()) {
        reading.unknown((&kind.text, kind.span), "discipline with classes", &CLASSFUL);
        return None;
    }
    while let Some(word) = words.take() {
        let known = match kind.text.as_str() {
            "htb" => htb_option(&word, words, &mut options, reading)?,
            "hfsc" => hfsc_option(&word, words, &mut options, reading)?,
            "drr" => quantum_option(&word, words, &mut options, reading)?,
            "qfq" => qfq_option(&word, words, &mut options, reading)?,
            _ => cbq_option(&word, words, &mut options, line, reading)?,
        };
        if !known {
            let row = CLASS_WORDS.iter().find(|row| row.0 == kind.text);
            let words = row.map_or(&[][..], |row| row.1);
            reading.unknown((&word.text, word.span), "option of this class", words);
            return None;
        }
    }
    Some(options)
}

fn htb_option(
    word: &Word,
    words: &mut Words,
    options: &mut ClassOptions,
    reading: &mut Reading,
) -> Option<bool> {
    match word.text.as_str() {
        "rate" => options.rate = Some(words.value(A_RATE, rate, reading)?),
        "ceil" => options.ceil = Some(words.value(A_RATE, rate, reading)?),
        "burst" | "buffer" | "maxburst" => {
            options.burst = Some(words.value(A_SIZE, size_cell, reading)?);
        }
        "cburst" | "cbuffer" | "cmaxburst" => {
            options.cburst = Some(words.value(A_SIZE, size_cell, reading)?);
        }
        "prio" => options.prio = Some(words.value("a priority", number, reading)?.min(7)),
        "mtu" => options.mtu = Some(words.value("a number of bytes", number, reading)?),
        "overhead" | "mpu" | "linklayer" => overhead(word, words, &mut options.overhead, reading)?,
        _ => return quantum_option(word, words, options, reading),
    }
    Some(true)
}

fn quantum_option(
    word: &Word,
    words: &mut Words,
    options: &mut ClassOptions,
    reading: &mut Reading,
) -> Option<bool> {
    if word.text != "quantum" {
        return Some(false);
    }
    options.quantum = Some(words.value(A_SIZE, size, reading)?.clamp(64, 1 << 30));
    Some(true)
}

fn qfq_option(
    word: &Word,
    words: &mut Words,
    options: &mut ClassOptions,
    reading: &mut Reading,
) -> Option<bool> {
    match word.text.as_str() {
        "weight" => {
            let weight = |text: &str| number(text).filter(|weight| (1..=1024).contains(weight));
            options.weight = Some(words.value("a weight from 1 to 1024", weight, reading)?);
        }
        "maxpkt" => {
            let longest = |text: &str| size(text).filter(|size| (512..=65_536).contains(size));
            options.longest = Some(words.value("a size from 512 to 65536", longest, reading)?);
        }
        _ => return Some(false),
    }
    Some(true)
}

fn hfsc_option(
    word: &Word,
    words: &mut Words,
    options: &mut ClassOptions,
    reading: &mut Reading,
) -> Option<bool> {
    let slots: &mut [&mut Option<Curve>] = match word.text.as_str() {
        "sc" => &mut [&mut options.real_time, &mut options.link_share],
        "rt" => &mut [&mut options.real_time],
        "ls" => &mut [&mut options.link_share],
        "ul" => &mut [&mut options.upper_limit],
        _ => return Some(false),
    };
    let curve = curve(words, reading)?;
    for slot in slots {
        **slot = Some(curve);
    }
    Some(true)
}

/// Reads `[m1 R d T] m2 R` or `[umax S dmax T] rate R`.
fn curve(words: &mut Words, reading: &mut Reading) -> Option<Curve> {
    let mut curve = Curve::default();
    let mut unit = 0;
    loop {
        if words.accept("m1") {
            curve.m1 = words.value(A_RATE, rate, reading)?;
        } else if words.accept("d") || words.accept("dmax") {
            curve.d = words.value(A_TIME, time, reading)?;
        } else if words.accept("umax") {
            unit = words.value(A_SIZE, size, reading)?;
        } else {
            break;
        }
    }
    let m2 = |word: &str| ["m2", "rate"].contains(&word).then_some(());
    words.value("`m2` or `rate`", m2, reading)?;
    curve.m2 = words.value(A_RATE, rate, reading)?;
    if unit > 0 && curve.d > 0 {
        // The first `umax` bytes leave within `dmax`: a steeper slope, or a later one.
        let slope = u128::from(unit) * 8_000_000_000 / u128::from(curve.d);
        let slope = u64::try_from(slope).unwrap_or(u64::MAX);
        if slope >= curve.m2 {
            curve.m1 = slope;
        } else {
            let unit_time = u128::from(unit) * 8_000_000_000 / u128::from(curve.m2.max(1));
            curve.d = curve.d.saturating_sub(u64::try_from(unit_time).unwrap_or(u64::MAX));
            curve.m1 = 0;
        }
    }
    Some(curve)
}

fn cbq_option(
    word: &Word,
    words: &mut Words,
    options: &mut ClassOptions,
    line: LineId,
    reading: &mut Reading,
) -> Option<bool> {
    match word.text.as_str() {
        "rate" => options.rate = Some(words.value(A_RATE, rate, reading)?),
        "prio" => options.prio = Some(words.value("a priority", number, reading)?),
        "bounded" => options.bounded = true,
        "borrow" | "sharing" => {}
        "isolated" => reading.approximated(line, "`isolated` is left out: its unused rate is lent"),
        "bandwidth" | "allot" | "avpkt" | "weight" | "cell" | "mpu" | "maxburst" | "minburst"
        | "minidle" | "ewma" | "split" | "defmap" | "estimator" => {
            words.need("a value", reading)?;
            let note = format!("`{}` is left out: each packet is charged its length", word.text);
            reading.approximated(line, note);
        }
        _ => return Some(false),
    }
    Some(true)
}

/// Reads `stab overhead N mpu N linklayer KIND ...`.
pub(super) fn stab(words: &mut Words, stab: &mut Overhead, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.peek() {
        match word {
            "overhead" | "mpu" | "linklayer" => {
                let word = words.take()?;
                overhead(&word, words, stab, reading)?;
            }
            "mtu" | "tsize" => {
                words.take();
                words.value("a number", number, reading)?;
            }
            _ => break,
        }
    }
    Some(())
}

fn overhead(
    word: &Word,
    words: &mut Words,
    into: &mut Overhead,
    reading: &mut Reading,
) -> Option<()> {
    let signed = |text: &str| {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let value = i64::try_from(number(digits)?).ok()? * sign;
        (-64..=256).contains(&value).then_some(value)
    };
    match word.text.as_str() {
        "overhead" => into.bytes = words.value("a number from -64 to 256", signed, reading)?,
        "mpu" => into.minimum = words.value(A_SIZE, size, reading)?.min(65_535),
        _ => {
            let kind = words.need("`ethernet` or `atm`", reading)?;
            let cells = ["atm", "adsl"].contains(&kind.text.as_str());
            into.coding = if cells { Framing::ATM.coding } else { Coding::Plain };
        }
    }
    Some(())
}

/// Parses a size, with or without the length of a cell behind a slash.
fn size_cell(text: &str) -> Option<u64> {
    size(text.split('/').next()?)
}

/// Parses a size of at most 32 bits, as tc takes it for a limit.
pub(super) fn size_u32(text: &str) -> Option<u64> {
    size(text).or_else(|| unsigned(text)).filter(|size| *size <= u32::MAX.into())
}

/// Parses a whole number of at most 32 bits.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    base0(text, u32::MAX).map(u64::from)
}

fn least(min: u64, text: &str) -> Option<u64> {
    unsigned(text).filter(|number| *number >= min)
}

fn most(max: u64, text: &str) -> Option<u64> {
    unsigned(text).filter(|number| *number <= max)
}

/// Parses a time in nanoseconds, of which tc passes whole microseconds.
pub(super) fn whole_microseconds(text: &str) -> Option<u64> {
    time(text).map(|ns| ns / 1_000 * 1_000)
}

fn minor(text: &str) -> Option<u16> {
    let digits = text.rsplit(':').next()?;
    u16::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
}

/// The largest frame of Ethernet, by which the kernel turns packets into bytes.
const FRAME: u64 = 1514;
/// The most flows of `sfq` at a time, and the most packets of each.
const SFQ_FLOWS_MAX: u64 = 65_408;
const SFQ_DEPTH_MAX: u64 = 127;
/// The kernel's upper limits for `fq_codel`: flows, also for the divisor of `sfq`, a quantum and
/// memory in bytes.
const FLOWS_MAX: u64 = 65_536;
const QUANTUM_MAX: u64 = 1 << 20;
const MEMORY_MAX: u64 = 1 << 31;
pub(super) const PRIORITY_MAP: &str = "`priomap` sorts by the sender's priority, which Weir does \
     not see: packets that no filter takes go to the band of ordinary packets";
const DROPS_ALL: &str = "the kernel drops every packet at a limit of 0; Weir has no limit below 1";
pub(super) const A_RATE: &str = "a rate such as 10mbit";
pub(super) const A_SIZE: &str = "a size such as 15k";
pub(super) const A_TIME: &str = "a time such as 5ms";
const CLASSFUL: [&str; 5] = ["htb", "hfsc", "drr", "qfq", "cbq"];
const KINDS: [&str; 24] = [
    "fq",
    "gred",
    "choke",
    "sfb",
    "fq_pie",
    "dualpi2",
    "ets",
    "qfq",
    "cake",
    "htb",
    "hfsc",
    "cbq",
    "prio",
    "tbf",
    "drr",
    "sfq",
    "fq_codel",
    "codel",
    "pie",
    "red",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "pfifo_head_drop",
];
/// Disciplines of the kernel without a counterpart in Weir, and what to do instead.
const UNKNOWN_TO_WEIR: [(&[&str], &str); 9] = [
    (&["netem"], "it imitates a path; `weir sim` has paths with a delay and with losses"),
    (
        &["mqprio"],
        "it gives queues of the device to the sender's priorities, which Weir does not see, and \
         the device orders them; `mq`, with a policy for each queue, and `ets` are read",
    ),
    (
        &["multiq"],
        "a link has one queue towards the device; `mq` is read, with a policy for each queue",
    ),
    (
        &["taprio"],
        "its gates open by a clock that all bridges of the network share, and Weir follows passed \
         time; `ets` is read, for the same classes without a schedule",
    ),
    (
        &["cbs"],
        "it shapes a class of audio and video by credits of its queue in the device; `tbf` and the \
         `ceil` of `htb` are read, which limit a class alike",
    ),
    (
        &["etf"],
        "it sends what this machine itself sends at the times that sockets stamp, and a bridge \
         sees no such stamp; `fq` is read, which paces flows",
    ),
    (
        &["skbprio", "dsmark"],
        "it sorts by marks within this machine (`tc_index`, priorities); a class for each kind of \
         packet, as in `prio`, and `red` below it are read",
    ),
    (&["hhf"], "`fq_codel`, `sfb` and `choke` are read, which hold flows that flood"),
    (&["noqueue", "plug", "teql0", "teql", "atm", "bpf"], "it orders no packets by class"),
];
const CLASS_WORDS: [(&str, &[&str]); 5] = [
    ("qfq", &["weight", "maxpkt"]),
    (
        "htb",
        &[
            "rate",
            "ceil",
            "burst",
            "cburst",
            "prio",
            "quantum",
            "mtu",
            "overhead",
            "mpu",
            "linklayer",
        ],
    ),
    ("hfsc", &["sc", "rt", "ls", "ul"]),
    ("drr", &["quantum"]),
    (
        "cbq",
        &[
            "rate",
            "prio",
            "bounded",
            "isolated",
            "bandwidth",
            "allot",
            "avpkt",
            "weight",
            "cell",
            "maxburst",
        ],
    ),
];

/// The droppers of [`DELAYS`].
const ALL: &[&str] = &["fq-codel", "codel", "pie", "fq-pie"];
const BUT_FQ_PIE: &[&str] = &["fq-codel", "codel", "pie"];
const CODELS: &[&str] = &["fq-codel", "codel"];
const FQS: &[&str] = &["fq-codel", "fq-pie"];
const FQ_CODEL: &[&str] = &["fq-codel"];
const PIES: &[&str] = &["pie", "fq-pie"];
const PIE: &[&str] = &["pie"];
const FQ_PIE: &[&str] = &["fq-pie"];
const A_PER_CENT: &str = "a number from 0 to 100";
const A_GAIN: &str = "a number from 0 to 32";
/// The options of `fq_codel`, `codel`, `pie` and `fq_pie`, and which of them have each.
const DELAYS: &[(&str, &[&str], Delay)] = &[
    (
        "limit",
        ALL,
        Delay::Number("limit", "a number of packets up to 4294967295", unsigned, packets),
    ),
    ("target", ALL, Delay::Number("target", A_TIME, whole_microseconds, duration)),
    ("interval", CODELS, Delay::Number("interval", A_TIME, whole_microseconds, duration)),
    ("tupdate", PIES, Delay::Number("update", A_TIME, whole_microseconds, duration)),
    ("alpha", PIES, Delay::Number("alpha", A_GAIN, |text| most(32, text), plain)),
    ("beta", PIES, Delay::Number("beta", A_GAIN, |text| most(32, text), plain)),
    (
        "flows",
        FQS,
        Delay::Number(
            "flows",
            "a number of flows up to 65536",
            |text| most(FLOWS_MAX, text),
            plain,
        ),
    ),
    (
        "quantum",
        FQ_CODEL,
        Delay::Number(
            "quantum",
            "a number of bytes up to 1048576",
            |text| most(QUANTUM_MAX, text),
            raised,
        ),
    ),
    (
        "quantum",
        FQ_PIE,
        Delay::Number(
            "quantum",
            "a number of bytes up to 1048576",
            |text| size(text).filter(|size| *size <= QUANTUM_MAX),
            |quantum| bytes(quantum.max(64)),
        ),
    ),
    ("memory_limit", FQ_CODEL, Delay::Memory),
    ("memory_limit", FQ_PIE, Delay::LeftOut(A_SIZE, size_u32)),
    ("ecn_prob", FQ_PIE, Delay::Number("ecn_max", A_PER_CENT, |text| most(100, text), plain)),
    ("dq_rate_estimator", PIE, Delay::Flag("estimator", "\"rate\"")),
    ("dq_rate_estimator", FQ_PIE, Delay::Without),
    ("no_dq_rate_estimator", PIES, Delay::Flag("", "")),
    ("ecn", ALL, Delay::Flag("ecn", "true")),
    ("noecn", ALL, Delay::Flag("ecn", "false")),
    ("bytemode", PIES, Delay::Flag("bytes", "true")),
    ("nobytemode", PIES, Delay::Flag("bytes", "false")),
    ("ce_threshold", BUT_FQ_PIE, Delay::LeftOut(A_TIME, time)),
    ("drop_batch", BUT_FQ_PIE, Delay::LeftOut("a number", unsigned)),
];
/// Those of them that a finding about another word names.
const DELAY_KNOWN: [&str; 8] =
    ["limit", "target", "interval", "flows", "quantum", "memory_limit", "ecn", "noecn"];
