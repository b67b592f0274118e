//! The JSON of the crate netem-trace: how it writes its models of rates.
//!
//! An object with one key, the model: `StaticBwConfig` (one rate), `TraceBwConfig` (steps), or
//! `RepeatedBwPatternConfig` (other models, so many times; 0 is for ever). Rates and times are
//! texts such as `12Mbps` and `1s`, or objects as serde writes them. The random models of the crate
//! are not read: what they draw depends on its random numbers.

use super::text::{CapacityError, Row, bits, nanos};
use super::{RATE_MAX, STEPS_MAX};
use serde_json::Value;
use weir_core::units::Duration;

/// Reads the steps of a text.
pub(super) fn steps(text: &str) -> Result<Vec<Row>, CapacityError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| CapacityError::whole(format!("is not JSON: {error}")))?;
    let mut rows = Vec::new();
    model(&value, 0, &mut rows).map_err(CapacityError::whole)?;
    Ok(rows)
}

fn model(value: &Value, depth: usize, rows: &mut Vec<Row>) -> Result<(), String> {
    let Some((name, model)) = value.as_object().and_then(|object| object.iter().next()) else {
        return Err("a model is an object with its name, such as `StaticBwConfig`".to_owned());
    };
    match name.as_str() {
        "StaticBwConfig" => {
            let rate = rate(model.get("bw"))?;
            push(rows, (time(model.get("duration"))?, rate))
        }
        "TraceBwConfig" => trace(model.get("pattern").unwrap_or(model), rows),
        "RepeatedBwPatternConfig" => repeated(model, depth, rows),
        _ => Err(format!(
            "`{}` is not a model of rates that Weir knows: StaticBwConfig, TraceBwConfig, \
             RepeatedBwPatternConfig",
            name.chars().take(40).collect::<String>()
        )),
    }
}

fn repeated(value: &Value, depth: usize, rows: &mut Vec<Row>) -> Result<(), String> {
    if depth == DEPTH_MAX {
        return Err(format!("models are nested deeper than {DEPTH_MAX}"));
    }
    let pattern = value.get("pattern").and_then(Value::as_array);
    let pattern = pattern.ok_or("a repeated pattern has a list `pattern`")?;
    let first = rows.len();
    for inner in pattern {
        model(inner, depth + 1, rows)?;
    }
    let once = rows.len() - first;
    let count = value.get("count").and_then(Value::as_u64).unwrap_or(0).max(1);
    for _ in 1..count {
        if once == 0 {
            break;
        }
        if rows.len() + once > STEPS_MAX {
            return Err(format!("there are more than {STEPS_MAX} steps"));
        }
        rows.extend_from_within(first..first + once);
    }
    Ok(())
}

/// Reads `[[time, [rate, …]], …]`: each rate lasts so long.
fn trace(value: &Value, rows: &mut Vec<Row>) -> Result<(), String> {
    let pattern = value.as_array().ok_or("a trace has a list `pattern`")?;
    for part in pattern {
        let time = time(part.get(0))?;
        let rates = part.get(1).and_then(Value::as_array);
        for value in rates.ok_or("a part of a trace is a time and a list of rates")? {
            push(rows, (time, rate(Some(value))?))?;
        }
    }
    Ok(())
}

fn push(rows: &mut Vec<Row>, row: Row) -> Result<(), String> {
    if rows.len() == STEPS_MAX {
        return Err(format!("there are more than {STEPS_MAX} steps"));
    }
    rows.push(row);
    Ok(())
}

fn time(value: Option<&Value>) -> Result<Duration, String> {
    let found = match value {
        Some(Value::String(text)) => nanos(text, 0),
        Some(Value::Number(millis)) => millis.as_f64().and_then(of_millis),
        Some(Value::Object(parts)) => {
            let part = |key| parts.get(key).and_then(Value::as_u64);
            let whole = part("secs").and_then(|secs| secs.checked_mul(1_000_000_000));
            whole.and_then(|whole| whole.checked_add(part("nanos").unwrap_or(0)))
        }
        _ => None,
    };
    let found = found.ok_or("a time is a text such as `1s`, or `secs` and `nanos`")?;
    Ok(Duration::from_nanos(found))
}

/// A trace of plain numbers has milliseconds.
fn of_millis(millis: f64) -> Option<u64> {
    (0.0..=MILLIS_MAX).contains(&millis).then_some((millis * 1e6) as u64)
}

fn rate(value: Option<&Value>) -> Result<u64, String> {
    let found = match value {
        Some(Value::String(text)) => bits(text, 0),
        Some(Value::Number(megabits)) => {
            let megabits = megabits.as_f64().filter(|rate| (0.0..=1e7).contains(rate));
            megabits.map(|rate| (rate * 1e6) as u64)
        }
        Some(Value::Object(parts)) => {
            let part = |key| parts.get(key).and_then(Value::as_u64);
            let whole = part("gbps").unwrap_or(0).checked_mul(1_000_000_000);
            whole.zip(part("bps")).and_then(|(whole, rest)| whole.checked_add(rest))
        }
        _ => None,
    };
    let found = found.filter(|&rate| rate <= RATE_MAX);
    found.ok_or_else(|| "a rate is a text such as `12Mbps`, or `gbps` and `bps`".to_owned())
}

/// Patterns within patterns.
const DEPTH_MAX: usize = 8;
/// A hundred years.
const MILLIS_MAX: f64 = 100.0 * 365.0 * 86_400.0 * 1e3;
