//! Times at the command line: `500ms`, `2 min`; and `0.5` for `--seconds`, whose name is the unit.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Parses a time with its unit, such as `60s`, of a millisecond to a year.
///
/// # Errors
/// When it is none, has no unit or is out of range; the text says how to write it.
pub fn time(text: &str) -> Result<Duration, String> {
    within(text, &(LEAST..=YEAR))
}

/// Returns a parser of `--seconds`: a number of seconds, or a time with its unit, within `range`.
pub fn seconds(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse::<f64>() {
        Ok(_) => within(&format!("{} s", text.trim()), &range),
        Err(_) => within(text, &range),
    }
}

/// Parses a time with its unit within a range.
///
/// # Errors
/// When it is none, has no unit or is out of range; the text says how to write it.
pub fn within(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = text.parse::<weir_core::units::Duration>().map_err(|error| error.to_string())?;
    let time = Duration::from_nanos(time.as_nanos());
    match range.contains(&time) {
        true => Ok(time),
        false => Err(format!("at least {:?} and at most {:?}", range.start(), range.end())),
    }
}

/// The shortest time that a link can keep to.
pub const LEAST: Duration = Duration::from_millis(1);
/// The longest time that means anything.
pub const YEAR: Duration = Duration::from_hours(365 * 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_a_unit_or_need_none() {
        let parse = seconds(Duration::from_millis(100)..=Duration::from_secs(60));
        let rows = [
            ("5", Ok(5_000)),
            ("0.5", Ok(500)),
            ("500ms", Ok(500)),
            ("1 min", Ok(60_000)),
            ("0", Err("at least 100ms and at most 60s")),
            ("61", Err("at least 100ms and at most 60s")),
            ("-1", Err("`-1 s` does not start with a number")),
            ("nan", Err("`nan s` does not start with a number")),
            ("five", Err("`five` does not start with a number")),
        ];
        for (text, wanted) in rows {
            match (parse(text), wanted) {
                (Ok(time), Ok(ms)) => assert_eq!(time.as_millis(), ms, "{text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (outcome, _) => panic!("{text}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_time_needs_its_unit() {
        assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
        let why = time("5").expect_err("no unit");
        assert_eq!(why, "`5` has no unit; write it like `5 s`");
        assert!(time("1 us").is_err_and(|why| why.contains("at least 1ms")));
    }
}
