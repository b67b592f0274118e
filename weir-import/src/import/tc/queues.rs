//! Reads `choke`, `gred` and `sfb` as `tc` writes them [linux]. What tc computes from a
//! burst and a bandwidth, the policy has as weight and as the pause that halves the average.

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted};
use super::super::words::{Word, Words};
use super::disciplines::{A_RATE, A_SIZE, bytes, duration, packets, size_u32, unsigned};
use super::shown_queues::SHOWN;
use super::units::rate;

/// Reads `choke limit PACKETS bandwidth RATE ...`.
pub(super) fn choke(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let (mut limit, mut bandwidth, mut min, mut max, mut burst) = (0, 0, 0, 0, 0);
    let mut probability = 20_000;
    let (mut ecn, mut shown) = (false, false);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "limit" => limit = words.value(A_COUNT, unsigned, reading)?,
            "bandwidth" => bandwidth = words.value(A_RATE, rate, reading)?,
            "min" => min = words.value(A_COUNT, unsigned, reading)?,
            "max" => max = words.value(A_COUNT, unsigned, reading)?,
            "burst" => burst = words.value(A_COUNT, unsigned, reading)?,
            "probability" => probability = words.value(A_PART, part, reading)?,
            "ecn" => ecn = true,
            SHOWN => shown = true,
            other => return unknown(other, &word, ("choke", &CHOKE), reading),
        }
    }
    if limit == 0 || bandwidth < 8 && !shown {
        reading.lost(line, "a choke needs `limit` and `bandwidth`");
        return None;
    }
    // tc's defaults.
    max = if max == 0 { limit / 4 } else { max };
    min = if min == 0 { max / 3 } else { min };
    burst = if burst == 0 { (2 * min + max) / 3 } else { burst };
    let log = weight_log(burst, min as f64);
    let Some(log) = log.filter(|_| 0 < min && min < max && max <= limit) else {
        reading.lost(line, "tc refuses these thresholds or this burst");
        return None;
    };
    let mut keys = vec![("dropper", quoted("choke")), ("limit", packets(limit))];
    keys.extend([("min", min.to_string()), ("max", max.to_string())]);
    keys.push(("pmax", percent(probability)));
    keys.push(("weight", (1u64 << log).to_string()));
    if shown {
        reading.approximated(line, HIDDEN);
    } else {
        keys.push(("halves", duration(halves(log, bandwidth))));
    }
    keys.extend(ecn.then(|| ("ecn", "true".to_owned())));
    Some(keys)
}

/// Returns the logarithm of the weight with which a burst of packets passes [linux tc_red.c].
fn weight_log(burst: u64, min: f64) -> Option<i32> {
    let over = burst as f64 + 1.0 - min;
    let fits = |log: &i32| {
        let part = 0.5_f64.powi(*log);
        over <= (1.0 - (1.0 - part).powf(burst as f64)) / part
    };
    if over < 1.0 { None } else { (1..20).find(fits) }
}

/// Returns the pause that halves the average in the kernel, in nanoseconds: tc computes the table
/// in ticks of 64 ns, and the kernel looks microseconds up in it.
fn halves(log: i32, bandwidth: u64) -> u64 {
    let ticks = PACKET * 8.0 / bandwidth as f64 * 1e9 / TICK;
    let decay = -(1.0 - 0.5_f64.powi(log)).ln();
    (ticks / decay * 1000.0) as u64
}

/// Returns the burst and the bandwidth in bit/s by which tc computes this weight and pause; `None`
/// for a weight that no burst has.
pub(in super::super) fn burst_of(weight: u64, min: f64, pause: u64) -> Option<(u64, u64)> {
    let log = weight.max(1).ilog2() as i32;
    let from = min.ceil() as u64;
    let burst = (from..from + 100_000).find(|burst| weight_log(*burst, min) == Some(log))?;
    let decay = -(1.0 - 0.5_f64.powi(log)).ln();
    Some((burst, bandwidth_of(pause.max(1) as f64 * decay)))
}

/// Returns the bandwidth in bit/s by which the kernel takes a packet to last for a time in
/// nanoseconds.
pub(in super::super) fn bandwidth_of(packet: f64) -> u64 {
    ((PACKET * 8.0 * 1e9 / TICK / packet * 1000.0) as u64).max(8)
}

/// A virtual queue of `gred` as it is written.
#[derive(Default)]
struct Virtual {
    number: Option<u64>,
    limit: u64,
    min: u64,
    max: u64,
    packet: u64,
    burst: u64,
    bandwidth: u64,
    priority: Option<u64>,
    probability: Option<u64>,
    /// Whether it is what tc shows, without burst and bandwidth.
    shown: bool,
    flags: Vec<Key>,
}

/// Reads `gred setup vqs N default N ...`, or `gred vq N limit BYTES ...`, whose keys are added to
/// those of the setup.
pub(super) fn gred(
    words: &mut Words,
    (line, waiting): (LineId, u64),
    reading: &mut Reading,
) -> Option<Vec<Key>> {
    if words.accept("setup") {
        return gred_setup(words, (line, waiting), reading);
    }
    let mut one = Virtual::default();
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "vq" | "DP" => one.number = Some(words.value(A_NUMBER, unsigned, reading)?),
            "limit" => one.limit = words.value(A_SIZE, size_u32, reading)?,
            "min" => one.min = words.value(A_SIZE, size_u32, reading)?,
            "max" => one.max = words.value(A_SIZE, size_u32, reading)?,
            "avpkt" => one.packet = words.value(A_SIZE, size_u32, reading)?,
            "burst" => one.burst = words.value(A_COUNT, unsigned, reading)?,
            "bandwidth" => one.bandwidth = words.value(A_RATE, rate, reading)?,
            "prio" => one.priority = Some(words.value(A_NUMBER, unsigned, reading)?.min(255)),
            "probability" => one.probability = Some(words.value(A_PART, part, reading)?),
            "ecn" => one.flags.push(("ecn", "true".to_owned())),
            "harddrop" => one.flags.push(("harddrop", "true".to_owned())),
            SHOWN => {
                one.shown = true;
                reading.approximated(line, HIDDEN);
            }
            other => return unknown(other, &word, ("gred", &GRED), reading),
        }
    }
    let keys = one.keys();
    if keys.is_none() {
        reading.lost(line, "tc refuses these thresholds or this burst, or the queue is above 7");
    }
    keys
}

fn gred_setup(
    words: &mut Words,
    (line, waiting): (LineId, u64),
    reading: &mut Reading,
) -> Option<Vec<Key>> {
    let mut keys = vec![("dropper", quoted("gred")), ("by", quoted("precedence"))];
    let (mut limit, mut queues, mut usual) = (waiting.saturating_mul(FRAME), 8, 0);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "vqs" | "DPs" => queues = words.value(A_NUMBER, unsigned, reading)?,
            "default" => usual = words.value(A_NUMBER, unsigned, reading)?,
            "limit" => limit = words.value(A_SIZE, size_u32, reading)?,
            "grio" | "ecn" | "harddrop" => {
                let name = GRED_FLAGS.iter().find(|name| **name == word.text)?;
                keys.push((name, "true".to_owned()));
            }
            other => return unknown(other, &word, ("gred", &GRED), reading),
        }
    }
    if queues > 8 {
        reading.lost(line, "Weir's `gred` has eight virtual queues, 0 to 7");
    }
    let note = "`tc_index` chooses the queue in the kernel, here the precedence of the DSCP does";
    reading.approximated(line, note);
    keys.push(("default", usual.min(7).to_string()));
    keys.push(("limit", bytes(limit.saturating_mul(queues.clamp(1, 8)))));
    Some(keys)
}

impl Virtual {
    /// Returns its keys as tc computes them; `None` for what tc refuses.
    fn keys(mut self) -> Option<Vec<Key>> {
        let number = self.number.filter(|number| *number < 8)? as usize;
        if self.packet == 0 || self.limit == 0 {
            return None;
        }
        if self.max == 0 {
            self.max = if self.min > 0 { 3 * self.min } else { self.limit / 4 };
        }
        self.min = if self.min == 0 { self.max / 3 } else { self.min };
        if self.burst == 0 {
            self.burst = (2 * self.min + self.max) / (3 * self.packet);
        }
        let log = weight_log(self.burst, self.min as f64 / self.packet as f64)?;
        if self.min == 0 || self.min >= self.max || self.max > self.limit {
            return None;
        }
        let bandwidth = if self.bandwidth == 0 { 10_000_000 } else { self.bandwidth };
        let ticks = self.packet as f64 * 8.0 / bandwidth as f64 * 1e9 / TICK;
        let [min, max, limit, pmax, weight, prio] = GRED_KEYS[number];
        let mut keys = vec![(max, bytes(self.max)), (min, bytes(self.min))];
        keys.extend([(limit, bytes(self.limit)), (weight, (1u64 << log).to_string())]);
        keys.push((pmax, percent(self.probability.unwrap_or(20_000))));
        keys.extend(self.priority.map(|priority| (prio, priority.to_string())));
        keys.extend((!self.shown).then(|| ("pkttime", duration((ticks * 1000.0) as u64))));
        keys.append(&mut self.flags);
        Some(keys)
    }
}

/// Reads `sfb`, in which tc counts times in milliseconds.
pub(super) fn sfb(
    words: &mut Words,
    (line, waiting): (LineId, u64),
    reading: &mut Reading,
) -> Option<Vec<Key>> {
    let mut keys = vec![("dropper", quoted("sfb"))];
    let (mut limit, mut max, mut target) = (0, 0, 0);
    while let Some(word) = words.take() {
        let key = match word.text.as_str() {
            "limit" => {
                limit = words.value(A_COUNT, unsigned, reading)?;
                continue;
            }
            "max" => {
                max = words.value(A_COUNT, unsigned, reading)?;
                continue;
            }
            "target" => {
                target = words.value(A_COUNT, unsigned, reading)?;
                continue;
            }
            "rehash" => ("rehash", millis(words.value(MILLISECONDS, unsigned, reading)?)),
            "db" => ("warmup", millis(words.value(MILLISECONDS, unsigned, reading)?)),
            "increment" => ("increment", percent(words.value(A_PART, part, reading)?)),
            "decrement" => ("decrement", percent(words.value(A_PART, part, reading)?)),
            "penalty_rate" => ("penalty_rate", count(words, reading)?),
            "penalty_burst" => ("penalty_burst", count(words, reading)?),
            other => return unknown(other, &word, ("sfb", &SFB), reading),
        };
        keys.push(key);
    }
    // What tc makes of one that is missing, and the kernel of no limit.
    max = match (max, target) {
        (0, 0) => 25,
        (0, target) => (target * 5).div_ceil(4),
        (max, _) => max,
    };
    target = if target == 0 { (max * 4).div_ceil(5) } else { target };
    if target > max {
        reading.approximated(line, "no bin has `target` packets where a flow has `max` at most");
        target = max;
    }
    keys.push(("limit", packets(if limit == 0 { waiting.max(1) } else { limit })));
    let within = |count: u64| count.clamp(1, 65_535).to_string();
    keys.extend([("max", within(max)), ("target", within(target))]);
    Some(keys)
}

fn count(words: &mut Words, reading: &mut Reading) -> Option<String> {
    words.value(A_NUMBER, unsigned, reading).map(|number| number.min(1_000_000).to_string())
}

fn unknown(
    other: &str,
    word: &Word,
    (kind, known): (&str, &[&str]),
    reading: &mut Reading,
) -> Option<Vec<Key>> {
    reading.unknown((other, word.span), &format!("option of {kind}"), known);
    None
}

/// Parses a probability, in millionths; tc also prints `4.57771e-05`.
fn part(text: &str) -> Option<u64> {
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let share: f64 = text.parse().ok().filter(|_| is_plain)?;
    (share <= 1.0).then(|| (share * 1e6).round() as u64)
}

/// Formats millionths as a share.
fn percent(millionths: u64) -> String {
    quoted(&format!("{}.{:04} %", millionths / 10_000, millionths % 10_000))
}

fn millis(millis: u64) -> String {
    if millis == 0 {
        // The kernel then never takes another hash, or fills no bins before.
        return quoted("0 s");
    }
    duration(millis.saturating_mul(1_000_000))
}

/// The part of 31 halvings in a cell of tc's table, which is between 256 and 512.
pub(super) const CELLS: u64 = 384;
const A_COUNT: &str = "a number of packets";
const A_NUMBER: &str = "a number";
const MILLISECONDS: &str = "a number of milliseconds, without a unit";
const A_PART: &str = "a probability from 0 to 1";
/// The packet by which tc computes weights and pauses.
const PACKET: f64 = 1000.0;
/// A tick of the kernel in nanoseconds.
const TICK: f64 = 64.0;
/// The largest packet as tc takes it, of which the device's queue length counts.
const FRAME: u64 = 1514;
const HIDDEN: &str = "tc shows neither burst nor bandwidth: their defaults count; `tc -d` shows \
     what they follow from";
const GRED_FLAGS: [&str; 3] = ["grio", "ecn", "harddrop"];
const GRED: [&str; 16] = [
    "setup",
    "vqs",
    "DPs",
    "default",
    "grio",
    "vq",
    "DP",
    "limit",
    "min",
    "max",
    "avpkt",
    "burst",
    "probability",
    "bandwidth",
    "prio",
    "ecn",
];
/// The keys of each virtual queue.
const GRED_KEYS: [[&str; 6]; 8] = [
    ["min_0", "max_0", "limit_0", "pmax_0", "weight_0", "prio_0"],
    ["min_1", "max_1", "limit_1", "pmax_1", "weight_1", "prio_1"],
    ["min_2", "max_2", "limit_2", "pmax_2", "weight_2", "prio_2"],
    ["min_3", "max_3", "limit_3", "pmax_3", "weight_3", "prio_3"],
    ["min_4", "max_4", "limit_4", "pmax_4", "weight_4", "prio_4"],
    ["min_5", "max_5", "limit_5", "pmax_5", "weight_5", "prio_5"],
    ["min_6", "max_6", "limit_6", "pmax_6", "weight_6", "prio_6"],
    ["min_7", "max_7", "limit_7", "pmax_7", "weight_7", "prio_7"],
];
const CHOKE: [&str; 7] = ["limit", "bandwidth", "min", "max", "burst", "probability", "ecn"];
const SFB: [&str; 9] = [
    "limit",
    "max",
    "target",
    "rehash",
    "db",
    "increment",
    "decrement",
    "penalty_rate",
    "penalty_burst",
];
