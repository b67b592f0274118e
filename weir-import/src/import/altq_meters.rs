//! Converts ALTQ's conditioners to `police` tables [altq, algorithms §10].

use super::altq_classes::bits;
use super::lines::Reading;
use super::sketch::{Key, inline, quoted, rate_value};
use super::words::{Words, bytes, number};
use weir_policy::codes;

pub(super) struct Conditioner {
    pub name: String,
    pub action: Action,
}

/// The treatment of a packet by a conditioner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Pass,
    Drop,
    /// Sets this code point.
    Mark(u8),
    Meter(Meter),
}

/// A meter, as keys of `police`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    keys: Vec<Key>,
    /// The key of each outcome, and what is done then.
    outcomes: Vec<(&'static str, Action)>,
    /// The bucket of a meter that has only that one.
    bucket: Option<Bucket>,
}

/// A token bucket: its rate in bit/s and its depth in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    rate: u64,
    depth: u64,
}

/// Reads `<ACTION>`, with nested ones.
pub(super) fn action(words: &mut Words, reading: &mut Reading) -> Option<Action> {
    nested(words, reading, 0)
}

fn nested(words: &mut Words, reading: &mut Reading, depth: usize) -> Option<Action> {
    words.expect("<", reading)?;
    let kind = words.need("an action", reading)?;
    if depth == DEPTH_MAX {
        let message = format!("actions within actions are deeper than {DEPTH_MAX}");
        reading.error(&codes::TOO_DEEP, kind.span, message, "remove some");
        return None;
    }
    let action = match kind.text.as_str() {
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "mark" => {
            let byte = |text: &str| number(text).filter(|value| *value < 256);
            Action::Mark((words.value("a byte", byte, reading)? >> 2) as u8)
        }
        "tbmeter" => {
            let bucket = bucket(words, reading)?;
            let outcomes = several(&["in", "out"], words, reading, depth)?;
            let keys = [bucket.keys(["rate", "depth"]), vec![lazy()]].concat();
            Action::Meter(Meter { keys, outcomes, bucket: Some(bucket) })
        }
        "trtcm" => {
            let (committed, peak) = (bucket(words, reading)?, bucket(words, reading)?);
            let outcomes = several(&COLOURS, words, reading, depth)?;
            let aware = words.accept("coloraware");
            if !aware {
                words.accept("colorblind");
            }
            let mut keys = two_rates(committed, peak);
            keys.extend(aware.then(|| ("colour_aware", "true".to_owned())));
            Action::Meter(Meter { keys, outcomes, bucket: None })
        }
        "tswtcm" => {
            let mut keys = vec![("meter", quoted("tswtcm"))];
            keys.push(("rate", rate_value(rate(words, reading)?)));
            keys.push(("peak_rate", rate_value(rate(words, reading)?)));
            let window = words.value("milliseconds", number, reading)?.max(1);
            keys.push(("window", quoted(&format!("{window} ms"))));
            let outcomes = several(&COLOURS, words, reading, depth)?;
            Action::Meter(Meter { keys, outcomes, bucket: None })
        }
        other => {
            reading.unknown((other, kind.span), "action", &ACTIONS);
            return None;
        }
    };
    words.expect(">", reading)?;
    Some(action)
}

/// Reads an action for each key.
fn several(
    keys: &[&'static str],
    words: &mut Words,
    reading: &mut Reading,
    depth: usize,
) -> Option<Vec<(&'static str, Action)>> {
    keys.iter().map(|key| Some((*key, nested(words, reading, depth + 1)?))).collect()
}

fn bucket(words: &mut Words, reading: &mut Reading) -> Option<Bucket> {
    let rate = rate(words, reading)?;
    Some(Bucket { rate, depth: words.value("a depth in bytes such as 64K", bytes, reading)? })
}

fn rate(words: &mut Words, reading: &mut Reading) -> Option<u64> {
    words.value("a rate in bit/s such as 10M", bits, reading)
}

/// Returns the equivalent `police` table; none if every packet passes unchanged.
pub(super) fn police(action: &Action) -> Result<Option<String>, ()> {
    let keys = match action {
        Action::Pass => return Ok(None),
        // A bucket that holds one byte is never in profile, and both outcomes are equal.
        Action::Drop | Action::Mark(_) => {
            let both = simple(action)?;
            let keys = Bucket { rate: 1, depth: 1 }.keys(["rate", "depth"]);
            [keys, vec![("in", both.clone()), ("out", both)]].concat()
        }
        Action::Meter(meter) => {
            let (mut keys, mut outcomes) = (meter.keys.clone(), meter.outcomes.clone());
            // Two buckets in a row, the larger first, are a meter of two rates [algorithms §10].
            if let [(_, Action::Meter(inner)), (_, red)] = meter.outcomes.as_slice()
                && let (Some(peak), Some(committed)) = (meter.bucket, inner.bucket)
            {
                let inner = inner.outcomes.iter().map(|row| row.1.clone());
                outcomes = COLOURS.into_iter().zip(inner.chain([red.clone()])).collect();
                keys = two_rates(committed, peak);
            }
            for (key, action) in &outcomes {
                keys.push((key, simple(action)?));
            }
            keys
        }
    };
    Ok(Some(inline(&keys)))
}

fn two_rates(committed: Bucket, peak: Bucket) -> Vec<Key> {
    let (committed, peak) =
        (committed.keys(["rate", "depth"]), peak.keys(["peak_rate", "peak_depth"]));
    [vec![("meter", quoted("trtcm"))], committed, peak, vec![lazy()]].concat()
}

fn lazy() -> Key {
    ("lazy", "true".to_owned())
}

impl Bucket {
    fn keys(self, [rate, depth]: [&'static str; 2]) -> Vec<Key> {
        let bytes = quoted(&format!("{} B", self.depth.clamp(1, 1 << 30)));
        vec![(rate, rate_value(self.rate)), (depth, bytes)]
    }
}

/// Returns an action that is not a meter.
fn simple(action: &Action) -> Result<String, ()> {
    match action {
        Action::Pass => Ok(quoted("pass")),
        Action::Drop => Ok(quoted("drop")),
        Action::Mark(code) => Ok(quoted(&format!("mark {code}"))),
        _ => Err(()),
    }
}

const ACTIONS: [&str; 6] = ["pass", "drop", "mark", "tbmeter", "trtcm", "tswtcm"];
const COLOURS: [&str; 3] = ["green", "yellow", "red"];
/// Bound: actions within actions of a conditioner of ALTQ; deeper ones are refused.
const DEPTH_MAX: usize = 8;
