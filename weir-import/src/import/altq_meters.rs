//! Converts ALTQ's conditioners to `police` tables [altq, algorithms §10].

use super::lines::Reading;
use super::sketch::{Key, inline, quoted, rate_value};
use super::words::{Words, bytes, decimal, number, scaled};
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
    TokenBucket {
        bucket: Bucket,
        outcomes: Vec<Action>,
    },
    TwoRates {
        committed: Bucket,
        peak: Bucket,
        outcomes: Vec<Action>,
        aware: bool,
    },
    Window {
        committed: u64,
        peak: u64,
        window: u64,
        outcomes: Vec<Action>,
    },
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
    words.value("`<`", |word| (word == "<").then_some(()), reading)?;
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
            Action::TokenBucket { bucket, outcomes: several(2, words, reading, depth)? }
        }
        "trtcm" => {
            let (committed, peak) = (bucket(words, reading)?, bucket(words, reading)?);
            let outcomes = several(3, words, reading, depth)?;
            let aware = words.accept("coloraware");
            if !aware {
                words.accept("colorblind");
            }
            Action::TwoRates { committed, peak, outcomes, aware }
        }
        "tswtcm" => {
            let (committed, peak) = (rate(words, reading)?, rate(words, reading)?);
            let window = words.value("milliseconds", number, reading)?;
            Action::Window { committed, peak, window, outcomes: several(3, words, reading, depth)? }
        }
        other => {
            reading.unknown((other, kind.span), "action", &ACTIONS);
            return None;
        }
    };
    words.value("`>`", |word| (word == ">").then_some(()), reading)?;
    Some(action)
}

fn several(
    count: usize,
    words: &mut Words,
    reading: &mut Reading,
    depth: usize,
) -> Option<Vec<Action>> {
    (0..count).map(|_| nested(words, reading, depth + 1)).collect()
}

fn bucket(words: &mut Words, reading: &mut Reading) -> Option<Bucket> {
    Some(Bucket { rate: rate(words, reading)?, depth: size(words, reading)? })
}

fn rate(words: &mut Words, reading: &mut Reading) -> Option<u64> {
    let rate = |text: &str| {
        let (millionths, unit) = decimal(text)?;
        let unit = ["", "K", "M", "G"].iter().position(|known| *known == unit.to_uppercase())?;
        scaled(millionths, 1000_u64.pow(unit as u32))
    };
    words.value("a rate in bit/s such as 10M", rate, reading)
}

fn size(words: &mut Words, reading: &mut Reading) -> Option<u64> {
    words.value("a depth in bytes such as 64K", bytes, reading)
}

/// Returns the equivalent `police` table; none if every packet passes unchanged.
pub(super) fn police(action: &Action) -> Result<Option<String>, ()> {
    let lazy = ("lazy", "true".to_owned());
    let keys = match action {
        Action::Pass => return Ok(None),
        // A bucket that holds one byte is never in profile, and both outcomes are equal.
        Action::Drop | Action::Mark(_) => {
            let both = simple(action)?;
            let mut keys = vec![("rate", rate_value(1)), ("depth", quoted("1 B"))];
            keys.extend([("in", both.clone()), ("out", both)]);
            keys
        }
        Action::TokenBucket { bucket, outcomes } => match outcomes.as_slice() {
            // Two buckets in a row, the larger first, are a meter of two rates [algorithms §10].
            [Action::TokenBucket { bucket: inner, outcomes }, red] => {
                let mut outcomes = outcomes.clone();
                outcomes.push(red.clone());
                two_rates(*inner, *bucket, &outcomes, false)?
            }
            outcomes => {
                let Bucket { rate, depth } = *bucket;
                let mut keys =
                    vec![("rate", rate_value(rate)), ("depth", depth_value(depth)), lazy];
                keys.extend(outcome_keys(&["in", "out"], outcomes)?);
                keys
            }
        },
        Action::TwoRates { committed, peak, outcomes, aware } => {
            two_rates(*committed, *peak, outcomes, *aware)?
        }
        Action::Window { committed, peak, window, outcomes } => {
            let mut keys = vec![
                ("meter", quoted("tswtcm")),
                ("rate", rate_value(*committed)),
                ("peak_rate", rate_value(*peak)),
                ("window", quoted(&format!("{} ms", (*window).max(1)))),
            ];
            keys.extend(outcome_keys(&COLOURS, outcomes)?);
            keys
        }
    };
    Ok(Some(inline(&keys)))
}

fn two_rates(
    committed: Bucket,
    peak: Bucket,
    outcomes: &[Action],
    aware: bool,
) -> Result<Vec<Key>, ()> {
    let mut keys = vec![
        ("meter", quoted("trtcm")),
        ("rate", rate_value(committed.rate)),
        ("depth", depth_value(committed.depth)),
        ("peak_rate", rate_value(peak.rate)),
        ("peak_depth", depth_value(peak.depth)),
        ("lazy", "true".to_owned()),
    ];
    keys.extend(aware.then(|| ("colour_aware", "true".to_owned())));
    keys.extend(outcome_keys(&COLOURS, outcomes)?);
    Ok(keys)
}

fn depth_value(bytes: u64) -> String {
    quoted(&format!("{} B", bytes.clamp(1, 1 << 30)))
}

fn outcome_keys(names: &[&'static str], outcomes: &[Action]) -> Result<Vec<Key>, ()> {
    names.iter().zip(outcomes).map(|(name, action)| Ok((*name, simple(action)?))).collect()
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
