//! The lines of the experiment: windows of public traces, and models with a seed.

use weir_core::units::{Duration, Share};
use weir_trace::capacity::{Capacity, End, Model, parse};

/// A line whose capacity varies.
pub struct Line {
    /// Its name in rows.
    pub name: String,
    /// Its capacity from the server to the host.
    pub down: Capacity,
    /// Its capacity from the host to the server: the same, another half of a minute later.
    pub up: Capacity,
}

impl Line {
    fn of(name: String, whole: Capacity, start: u64) -> Option<Line> {
        let window = |start| {
            let from = whole.clone().starting_at(Duration::from_secs(start));
            from.window(LENGTH, End::Loop)
        };
        Some(Line { name, down: window(start)?, up: window(start + 30)? })
    }
}

/// Returns all lines.
///
/// # Errors
/// When a trace cannot be read.
pub fn lines() -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (name, text, starts) in TRACES {
        let whole = parse(text.as_bytes(), End::Loop).map_err(|why| format!("{name}: {why}"))?;
        for start in *starts {
            let line = Line::of(format!("{name} at {start} s"), whole.clone(), *start);
            lines.push(line.ok_or_else(|| format!("{name} is too short"))?);
        }
    }
    for (name, model) in models() {
        let whole = model.capacity(SEED, Duration::from_secs(600));
        let line = whole.and_then(|whole| Line::of(format!("model {name}"), whole, 0));
        lines.push(line.ok_or_else(|| format!("the model {name} has no capacity"))?);
    }
    Ok(lines)
}

fn models() -> [(&'static str, Model); 3] {
    let seconds = Duration::from_secs;
    let rates = (1..=9).map(|step| step * 5 * MBIT).collect();
    let noise = Share::from_ppb(100_000_000).unwrap_or_default();
    let (most, least, period) = (50 * MBIT, 10 * MBIT, seconds(60));
    [
        ("gilbert", Model::Gilbert { good: (40 * MBIT, seconds(6)), bad: (8 * MBIT, seconds(3)) }),
        ("markov", Model::Markov { rates, stay: seconds(1) }),
        ("diurnal", Model::Diurnal { most, least, period, noise }),
    ]
}

/// A name, a text, and where windows of it begin.
type Trace = (&'static str, &'static str, &'static [u64]);

macro_rules! traces {
    ($($name:literal: $starts:expr,)*) => {
        &[$(($name, include_str!(concat!("traces/", $name, ".csv")), &$starts),)*]
    };
}

/// `traces/README.md` names the sources.
const TRACES: &[Trace] = traces! {
    "att-lte-driving-down": [0, 65],
    "tmobile-lte-driving-down": [0, 65],
    "tmobile-umts-driving-down": [0],
    "verizon-lte-short-down": [0, 65],
    "verizon-lte-short-up": [0],
    "5g-att-down-1": [0, 120],
    "5g-tm-down-1": [0],
    "5g-vz-down-1": [0],
    "starlink-moving-down-1": [0, 120],
    "starlink-moving-down-3": [0],
    "starlink-moving-up-1": [0],
    "starlink-roam-down-1": [0, 120],
};
/// The length of a window.
pub const LENGTH: Duration = Duration::from_secs(60);
const MBIT: u64 = 1_000_000;
/// Of the models.
const SEED: u64 = 46;
