//! Times of events as text: RFC 3339 in UTC, and durations of a fitting unit.

/// Returns nanoseconds since 1970 as RFC 3339 text in UTC, with nine digits behind the point, so
/// that texts sort as times do.
pub fn rfc3339(at_ns: u64) -> String {
    let (seconds, nanos) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// As [`rfc3339`], without the part of a second, for people.
pub fn rfc3339_s(at_ns: u64) -> String {
    let text = rfc3339(at_ns);
    text.split_once('.').map_or(text.clone(), |(second, _)| format!("{second}Z"))
}

/// Reads what [`rfc3339`] writes, or a time of fewer digits; `None` for any other text.
pub fn read_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, sign| -> Option<[u64; 3]> {
        let parts: Option<Vec<u64>> = text.split(sign).map(|part| part.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let (time, part) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let is_sound = (1970..YEAR_MAX).contains(&year) && (1..=12).contains(&month);
    let is_time = hour < 24 && minute < 60 && second < 60 && (1..=9).contains(&part.len());
    if !is_sound || !is_time || !(1..=31).contains(&day) {
        return None;
    }
    let february = if year_days(year) == 366 { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: u64 = lengths[..month as usize - 1].iter().sum();
    let days = (1970..year).map(year_days).sum::<u64>() + before + day - 1;
    let nanos = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000_000 + nanos)
}

/// Nanoseconds of later years do not fit.
const YEAR_MAX: u64 = 2500;

/// Returns year, month and day of a day, counted from 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= year_days(year) {
        days -= year_days(year);
        year += 1;
    }
    let february = if year_days(year) == 366 { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn year_days(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if is_leap { 366 } else { 365 }
}

/// Returns a duration for people: milliseconds below a second, and seconds below a minute.
pub(super) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{:.1} ms", ns as f64 / 1e6),
        1..60 => format!("{:.1} s", ns as f64 / 1e9),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_its_date_in_utc() {
        let rows = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999999Z"),
            (1_741_000_496_120_000_000, "2025-03-03T11:14:56.120000000Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
        ];
        for (at_ns, wanted) in rows {
            assert_eq!(rfc3339(at_ns), wanted);
            assert_eq!(read_rfc3339(wanted), Some(at_ns));
        }
        assert_eq!(read_rfc3339("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        for wrong in ["", "Z", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00", "x-1-1T0:0:0Z"] {
            assert_eq!(read_rfc3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_duration_has_a_fitting_unit() {
        let rows = [
            (0, "0.0 ms"),
            (12_300_000, "12.3 ms"),
            (1_500_000_000, "1.5 s"),
            (61_900_000_000, "1 min 1 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ];
        for (ns, wanted) in rows {
            assert_eq!(duration(ns), wanted);
        }
    }
}
