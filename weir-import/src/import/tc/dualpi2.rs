//! Reads `dualpi2` as `tc` writes it [linux sch_dualpi2, q_dualpi2.c]. tc computes the gains from
//! round trips by itself; the policy has what comes out.

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted};
use super::super::words::{Word, Words};
use super::disciplines::{
    A_SIZE, A_TIME, duration, packets, size_u32, unsigned, whole_microseconds,
};
use weir_policy::codes;
use weir_policy::finding::Span;

/// The options that are written.
#[derive(Default)]
struct Written {
    keys: Vec<Key>,
    limit: Option<u64>,
    memory: u64,
    /// The largest and the usual round trip in microseconds; 0 for none.
    rtt_max: u64,
    rtt_usual: u64,
    /// Where the last of both is written.
    rtt_at: Span,
}

/// The PI controller for given round trips: times in microseconds, gains in 256ths of a Hz.
struct Control {
    target: u64,
    update: u64,
    alpha: u64,
    beta: u64,
}

/// Reads `dualpi2 limit PACKETS target TIME ...`.
pub(super) fn read(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let mut one = Written::default();
    while let Some(word) = words.take() {
        let is_read = one.value(&word, words, line, reading)? || one.flag(&word.text);
        if !is_read {
            let text = word.text.as_str();
            reading.unknown((text, word.span), "option of dualpi2", &KNOWN);
            return None;
        }
    }
    one.control(line, reading)?;
    let usual = one.limit.unwrap_or(LIMIT).saturating_mul(2 * FRAME).min(u32::MAX.into());
    if one.memory > 0 && one.memory != usual {
        reading.approximated(line, "`memlimit` is left out: `limit` counts");
    }
    let mut keys = vec![("dropper", quoted("dualpi2")), ("rules", quoted("linux"))];
    keys.extend(one.limit.map(|limit| ("limit", packets(limit))));
    keys.append(&mut one.keys);
    Some(keys)
}

impl Written {
    /// Reads an option with a value; false for another word.
    fn value(
        &mut self,
        word: &Word,
        words: &mut Words,
        line: LineId,
        reading: &mut Reading,
    ) -> Option<bool> {
        let key = match word.text.as_str() {
            "limit" => {
                let limit = words.value(A_COUNT, unsigned, reading)?;
                self.limit = some(limit, word, line, reading);
                None
            }
            "memlimit" => {
                self.memory = words.value(A_SIZE, size_u32, reading)?;
                None
            }
            "target" => {
                let target = words.value(A_TIME, whole_microseconds, reading)?;
                some(target, word, line, reading).map(|target| ("target", duration(target)))
            }
            "tupdate" => {
                let update = words.value(A_TIME, whole_microseconds, reading)?;
                let update = some(update, word, line, reading);
                update.map(|update| ("update", self::update(update, line, reading)))
            }
            "alpha" => Some(("alpha", words.value(A_GAIN, gain, reading)?.to_string())),
            "beta" => Some(("beta", words.value(A_GAIN, gain, reading)?.to_string())),
            "coupling_factor" => {
                Some(("coupling", words.value(A_BYTE, byte, reading)?.to_string()))
            }
            "step_thresh" => {
                let step = step(word, words, line, reading)?;
                // The last one counts, whatever its unit is.
                self.keys
                    .retain(|key| step.is_none() || !["step", "step_packets"].contains(&key.0));
                step
            }
            "classic_protection" => {
                let share = words.value("a percentage from 0 to 100", per_cent, reading)?;
                Some(("protection", share.to_string()))
            }
            "min_qlen_step" => {
                let floor = words.value(A_COUNT, unsigned, reading)?.min(PACKETS_MAX);
                if floor > 0 {
                    let note = "`min_qlen_step` counts packets that arrive, here those that leave";
                    reading.approximated(line, note);
                }
                (floor > 0).then(|| ("step_floor", floor.to_string()))
            }
            "max_rtt" | "typical_rtt" => {
                let rtt = words.value(A_TIME, whole_microseconds, reading)? / 1_000;
                let is_max = word.text == "max_rtt";
                let into = if is_max { &mut self.rtt_max } else { &mut self.rtt_usual };
                (*into, self.rtt_at) = (rtt, words.taken().span);
                None
            }
            _ => return Some(false),
        };
        self.keys.extend(key);
        Some(true)
    }

    /// Reads an option without a value; false for another word.
    fn flag(&mut self, text: &str) -> bool {
        let key = match text {
            "l4s_ect" => ("identifier", quoted("ect1")),
            "any_ect" => ("identifier", quoted("ect")),
            "drop_on_overload" => ("overload", quoted("drop")),
            "overflow" => ("overload", quoted("mark")),
            "drop_enqueue" => ("early", "true".to_owned()),
            "drop_dequeue" => {
                self.keys.retain(|key| key.0 != "early");
                return true;
            }
            // Weir sends frames.
            "split_gso" | "no_split_gso" => return true,
            _ => return false,
        };
        self.keys.push(key);
        true
    }

    /// Puts what tc computes from round trips in the place of what is written.
    fn control(&mut self, line: LineId, reading: &mut Reading) -> Option<()> {
        if self.rtt_max == 0 && self.rtt_usual == 0 {
            return Some(());
        }
        let Some(control) = Control::of(self.rtt_max, self.rtt_usual) else {
            let (max, usual) = (self.rtt_max, self.rtt_usual);
            let (message, cure) = if max > 0 && usual > max {
                let message = format!("`typical_rtt` of {usual} us is above `max_rtt`, {max} us");
                (message, "write a typical round trip of at most the largest one")
            } else {
                let message = format!(
                    "with round trips of up to {} us tc's gains are below 1/256 Hz, and it refuses",
                    if max > 0 { max } else { usual.saturating_mul(RATIO) }
                );
                (message, "write a `max_rtt` of at most 4 s, or `alpha` and `beta` themselves")
            };
            reading.error(&codes::BAD_IMPORT_VALUE, self.rtt_at, message, cure);
            return None;
        };
        let computed = ["target", "update", "alpha", "beta"];
        let before = self.keys.len();
        self.keys.retain(|key| !computed.contains(&key.0));
        if self.keys.len() < before {
            let note = "tc ignores `target`, `tupdate`, `alpha` and `beta` beside round trips";
            reading.noted(line, note);
        }
        let Control { target, update, alpha, beta } = control;
        self.keys.push(("target", duration(target * 1_000)));
        self.keys.push(("update", self::update(update * 1_000, line, reading)));
        self.keys.push(("alpha", alpha.to_string()));
        self.keys.push(("beta", beta.to_string()));
        Some(())
    }
}

impl Control {
    /// Computes it as tc does, with constants of single precision; `None` where tc refuses.
    fn of(max: u64, usual: u64) -> Option<Self> {
        let (max, usual) = match (max, usual) {
            (max, 0) => (max, (max / RATIO).max(1)),
            (0, usual) => (usual.saturating_mul(RATIO), usual),
            both => both,
        };
        if usual > max {
            return None;
        }
        let largest = max as f64;
        let update = ((usual as f64).min(largest / 3.0) as u64).max(1);
        let alpha = update as f64 / largest / largest * SECOND * f64::from(0.1_f32);
        let beta = f64::from(0.3_f32) / largest * SECOND;
        let [alpha, beta] = [alpha, beta].map(|gain| (gain * 256.0) as u64);
        let fits = alpha > 0 && beta > 0;
        let [alpha, beta] = [alpha, beta].map(|gain| gain.min(GAIN_MAX));
        fits.then_some(Self { target: usual, update, alpha, beta })
    }
}

/// Reads the threshold of the step: tc tries a time, of which a bare number is in microseconds,
/// and then packets.
fn step(
    word: &Word,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<Option<Key>> {
    let either = |text: &str| match whole_microseconds(text) {
        Some(time) => Some((time, true)),
        None => count(text).map(|count| (count, false)),
    };
    let (value, is_time) =
        words.value("a time such as 1ms, or packets such as 5p", either, reading)?;
    Some(some(value, word, line, reading).map(|value| match is_time {
        true => ("step", duration(value)),
        false => ("step_packets", value.min(PACKETS_MAX).to_string()),
    }))
}

/// Returns a value but for 0, which tc does not send, so the default counts.
fn some(value: u64, word: &Word, line: LineId, reading: &mut Reading) -> Option<u64> {
    if value == 0 {
        reading.noted(line, format!("`{} 0` stands for the default", word.text));
    }
    (value > 0).then_some(value)
}

/// Formats the time between two steps, in nanoseconds.
fn update(time: u64, line: LineId, reading: &mut Reading) -> String {
    if time < UPDATE_MIN {
        reading.approximated(line, "Weir's `update` is at least 1 ms");
    }
    duration(time.max(UPDATE_MIN))
}

/// Parses packets with their unit: `5p`.
fn count(text: &str) -> Option<u64> {
    let digits = UNITS.iter().find_map(|unit| text.strip_suffix(unit))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|count| plain && *count <= u32::MAX.into())
}

/// Parses a gain in Hz, in 256ths; tc reads single precision, and leaves a rest out.
fn gain(text: &str) -> Option<u64> {
    let hertz: f32 = text.parse().ok()?;
    let parts = (f64::from(hertz) * 256.0).floor();
    (parts >= 1.0 && parts.is_finite()).then(|| (parts as u64).min(GAIN_MAX))
}

fn per_cent(text: &str) -> Option<u64> {
    let share: f64 = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (0.0..=100.0).contains(&share).then(|| share.round_ties_even() as u64)
}

fn byte(text: &str) -> Option<u64> {
    unsigned(text).filter(|number| (1..=255).contains(number))
}

const A_COUNT: &str = "a number of packets";
const A_BYTE: &str = "a number from 1 to 255";
const A_GAIN: &str = "a gain in Hz of at least 1/256, such as 0.16";
/// Units of packets, longer ones first where one ends another.
const UNITS: [&str; 5] = ["packets", "packet", "pkts", "pkt", "p"];
/// The largest round trip for the usual one, where one of both is written.
const RATIO: u64 = 6;
/// The microseconds of a second.
const SECOND: f64 = 1e6;
/// The largest gain of a policy.
const GAIN_MAX: u64 = (1 << 23) - 1;
/// Most packets that `dualpi2` counts.
const PACKETS_MAX: u64 = 1 << 24;
/// The shortest time between two steps in nanoseconds.
const UPDATE_MIN: u64 = 1_000_000;
/// The kernel's limit in packets, and the frame of which it makes a limit of memory.
const LIMIT: u64 = 10_000;
const FRAME: u64 = 1514;
const KNOWN: [&str; 14] = [
    "limit",
    "memlimit",
    "target",
    "tupdate",
    "alpha",
    "beta",
    "max_rtt",
    "typical_rtt",
    "coupling_factor",
    "step_thresh",
    "min_qlen_step",
    "classic_protection",
    "drop_on_overload",
    "overflow",
];
