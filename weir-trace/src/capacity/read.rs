//! Texts of capacities: mahimahi's lines, tables of steps, and netem-trace's JSON.
//!
//! - mahimahi: each line is a millisecond in which one packet of 1504 bytes may leave; the last one
//!   ends the trace. Here the packet's bytes are spread over that millisecond.
//! - A table: a line of names, then a line a step. One column is the time at which a step begins
//!   (`ms`, `s`, `time_ms`, `seconds` …) or how long it lasts (`duration`, `duration_ms` …), one is
//!   the rate (`kbit_s`, `mbps`, `bw` …); a value may have its own unit, as in `12Mbps`. Other
//!   columns are passed over. Without names the columns are `ms,kbit_s`. The last step of a table
//!   of times is as long as the one before it.
//! - JSON: see [`super::json`].
//!
//! Which it is follows from the text. Nothing here trusts it: a line that means nothing is an error
//! with its number.

use super::text::{CapacityError, Row, SECOND, bits, nanos};
use super::{Capacity, End, RATE_MAX, STEPS_MAX, json};
use weir_core::units::Duration;

/// Reads a capacity in any of the formats.
///
/// # Errors
/// When a line is not of its format, or there is no step, or there are more than
/// [`STEPS_MAX`](super::STEPS_MAX).
pub fn parse(text: &[u8], end: End) -> Result<Capacity, CapacityError> {
    let text = str::from_utf8(text).map_err(|error| {
        let line = text[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
        CapacityError::at(line, "is not UTF-8")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let steps = if text.trim_start().starts_with(['{', '[']) {
        json::steps(text)?
    } else if lines(text).next().is_some_and(|(_, line)| line.contains([',', ';', '\t'])) {
        table(text)?
    } else {
        mahimahi(text)?
    };
    let wrong = "no step lasts, or they last more than a hundred years";
    Capacity::new(steps, end).ok_or_else(|| CapacityError::whole(wrong))
}

/// The lines that hold something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn mahimahi(text: &str) -> Result<Vec<Row>, CapacityError> {
    let mut rows: Vec<Row> = Vec::new();
    // Milliseconds that rows cover, and packets in the last of them.
    let (mut covered, mut packets) = (0u64, 0u64);
    for (number, line) in lines(text) {
        let millis = line.parse::<u64>().ok().filter(|&millis| millis <= MILLIS_MAX);
        let Some(millis) = millis else {
            let wrong = format!("{:?} is not a millisecond at which a packet may leave", cut(line));
            return Err(CapacityError::at(number, wrong));
        };
        // The packet of millisecond m leaves in the millisecond that ends there.
        let ends = millis.max(1);
        if ends < covered {
            let wrong = format!("{millis} ms is before the line above it");
            return Err(CapacityError::at(number, wrong));
        }
        if ends > covered {
            push(&mut rows, (1, packets)).map_err(|wrong| CapacityError::at(number, wrong))?;
            if ends - covered > 1 {
                rows.push((Duration::from_millis(ends - covered - 1), 0));
            }
            (covered, packets) = (ends, 0);
        }
        packets += 1;
    }
    push(&mut rows, (1, packets)).map_err(CapacityError::whole)?;
    Ok(rows)
}

/// Adds a millisecond with so many packets, if there are any.
fn push(rows: &mut Vec<Row>, (millis, packets): (u64, u64)) -> Result<(), &'static str> {
    if packets == 0 {
        return Ok(());
    }
    let rate = packets.saturating_mul(PACKET_BITS * 1_000);
    if rate > RATE_MAX {
        return Err("more packets leave in a millisecond than at 10 Tbit/s");
    }
    rows.push((Duration::from_millis(millis), rate));
    if rows.len() > STEPS_MAX { Err("there are too many steps") } else { Ok(()) }
}

fn table(text: &str) -> Result<Vec<Row>, CapacityError> {
    let mut all = lines(text).peekable();
    let mut columns = Columns::DEFAULT;
    if let Some((number, line)) = all.peek().copied()
        && line.starts_with(|first: char| first.is_alphabetic() || first == '"')
    {
        columns = Columns::of(line).map_err(|wrong| CapacityError::at(number, wrong))?;
        all.next();
    }
    // What the column of time says in each row, and the rate.
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for (number, line) in all {
        let row = columns.row(line).map_err(|wrong| CapacityError::at(number, wrong))?;
        if columns.begins && rows.last().is_some_and(|last| row.0 <= last.0) {
            return Err(CapacityError::at(number, "does not begin after the step above it"));
        }
        if rows.len() == STEPS_MAX {
            return Err(CapacityError::at(number, "is one step too many"));
        }
        rows.push(row);
    }
    if !columns.begins {
        return Ok(rows.iter().map(|row| (Duration::from_nanos(row.0), row.1)).collect());
    }
    let last = match rows[..] {
        [.., before, last] => last.0 - before.0,
        _ => SECOND,
    };
    let ends = rows.iter().skip(1).map(|row| row.0);
    let ends = ends.chain(rows.last().map(|row| row.0.saturating_add(last)));
    let steps = rows.iter().zip(ends);
    Ok(steps.map(|(row, ends)| (Duration::from_nanos(ends - row.0), row.1)).collect())
}

/// Where the columns of a table are.
struct Columns {
    time: usize,
    /// Nanoseconds in a unit of it.
    time_unit: u64,
    /// Whether it says when a step begins, not how long it lasts.
    begins: bool,
    rate: usize,
    /// bit/s in a unit of it.
    rate_unit: u64,
}

impl Columns {
    const DEFAULT: Columns =
        Columns { time: 0, time_unit: 1_000_000, begins: true, rate: 1, rate_unit: 1_000 };

    fn of(line: &str) -> Result<Self, String> {
        let (mut time, mut rate) = (None, None);
        for (place, name) in cells(line).enumerate() {
            let name = name.to_ascii_lowercase();
            let known = |rows: &[(&str, u64)]| {
                rows.iter().find(|row| row.0 == name).map(|row| (place, row.1))
            };
            let begins = known(BEGINS).map(|(place, unit)| (place, unit, true));
            let lasts = known(LASTS).map(|(place, unit)| (place, unit, false));
            time = time.or(begins).or(lasts);
            rate = rate.or(known(RATES));
        }
        match (time, rate) {
            (Some((time, time_unit, begins)), Some((rate, rate_unit))) => {
                Ok(Self { time, time_unit, begins, rate, rate_unit })
            }
            (None, _) => Err("no column is a time, such as `ms` or `duration_s`".to_owned()),
            _ => Err("no column is a rate, such as `kbit_s` or `mbps`".to_owned()),
        }
    }

    fn row(&self, line: &str) -> Result<(u64, u64), String> {
        if line.split(SEPARATORS).any(is_part) {
            let wrong = "has a number with a separator in quotes, such as \"5,000\": write 5000";
            return Err(wrong.to_owned());
        }
        let cell = |place| cells(line).nth(place).ok_or_else(|| "has too few columns".to_owned());
        let (time, rate) = (cell(self.time)?, cell(self.rate)?);
        let wrong = |text: &str, what| format!("{:?} is not {what}", cut(text));
        let time = nanos(time, self.time_unit).ok_or_else(|| wrong(time, "a time"))?;
        let rate =
            bits(rate, self.rate_unit).ok_or_else(|| wrong(rate, "a rate up to 10 Tbit/s"))?;
        Ok((time, rate))
    }
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(SEPARATORS).map(|cell| cell.trim().trim_matches('"'))
}

/// Returns whether a quotation begins or ends in a cell, but not both.
fn is_part(cell: &str) -> bool {
    let cell = cell.trim();
    cell == "\"" || cell.starts_with('"') != cell.ends_with('"')
}

const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The start of a text, for messages.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The bits of a mahimahi packet.
const PACKET_BITS: u64 = 1504 * 8;
/// A hundred years.
const MILLIS_MAX: u64 = 100 * 365 * 86_400 * 1_000;
/// Names of columns that say when a step begins, with the nanoseconds of their unit.
const BEGINS: &[(&str, u64)] = &[
    ("ms", 1_000_000),
    ("time_ms", 1_000_000),
    ("timestamp_ms", 1_000_000),
    ("s", SECOND),
    ("time_s", SECOND),
    ("time", SECOND),
    ("timestamp", SECOND),
    ("seconds", SECOND),
    ("us", 1_000),
    ("time_us", 1_000),
];
/// Names of columns that say how long a step lasts.
const LASTS: &[(&str, u64)] = &[
    ("duration", SECOND),
    ("duration_s", SECOND),
    ("duration_ms", 1_000_000),
    ("length_s", SECOND),
    ("length_ms", 1_000_000),
];
/// Names of columns of rates, with the bit/s of their unit.
const RATES: &[(&str, u64)] = &[
    ("bit_s", 1),
    ("bps", 1),
    ("bw", 1),
    ("bandwidth", 1),
    ("rate", 1),
    ("kbit_s", 1_000),
    ("kbps", 1_000),
    ("mbit_s", 1_000_000),
    ("mbps", 1_000_000),
];
#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::random::Random;
    use weir_core::units::Instant;

    /// The steps of a text: milliseconds and kbit/s.
    fn check(text: &str, expected: &[(u64, u64)]) {
        let capacity = parse(text.as_bytes(), End::Loop).expect(text);
        let steps = capacity.steps();
        let rows: Vec<_> =
            steps.map(|(lasts, rate)| (lasts.as_nanos() / 1_000_000, rate / 1_000)).collect();
        assert_eq!(rows, expected, "{text}");
    }

    #[test]
    fn each_format_is_known_by_its_text() {
        check("ms,kbit_s\n0,100\n10,0\n30,200\n", &[(10, 100), (20, 0), (20, 200)]);
        check("0,100\n10,100\n", &[(20, 100)]);
        check("time_s;mbps\n0;1.5\n0.25;2\n", &[(250, 1_500), (250, 2_000)]);
        check("duration,bw\n1s 500ms,12Mbps\n2s,800kbps\n", &[(1_500, 12_000), (2_000, 800)]);
        check("node,duration_ms,mbit_s\na,10,1\nb,20,2\n", &[(10, 1_000), (20, 2_000)]);
        check("0,7\n", &[(1_000, 7)]);
        // 1504 bytes in a millisecond are 12.032 Mbit/s.
        check("1\n1\n2\n5\n", &[(1, 24_064), (1, 12_032), (2, 0), (1, 12_032)]);
        check("# comment\n0\n1\n3\n", &[(1, 24_064), (1, 0), (1, 12_032)]);
    }

    #[test]
    fn json_of_netem_trace_is_read() {
        let fixed = |bps, secs| {
            format!(
                r#"{{"StaticBwConfig":{{"bw":{{"gbps":0,"bps":{bps}}},"duration":{{"secs":{secs},"nanos":0}}}}}}"#
            )
        };
        let (one, two) = (fixed(12_000_000, 1), fixed(24_000_000, 2));
        check(&one, &[(1_000, 12_000)]);
        let repeated = |count| {
            format!(r#"{{"RepeatedBwPatternConfig":{{"pattern":[{one},{two}],"count":{count}}}}}"#)
        };
        check(&repeated(0), &[(1_000, 12_000), (2_000, 24_000)]);
        check(&repeated(2), &[(1_000, 12_000), (2_000, 24_000), (1_000, 12_000), (2_000, 24_000)]);
        let compact =
            r#"{"TraceBwConfig":{"pattern":[["25ms",["2Mbps","4Mbps"]],["50ms",["1Mbps"]]]}}"#;
        check(compact, &[(25, 2_000), (25, 4_000), (50, 1_000)]);
        let human = r#"{"StaticBwConfig":{"bw":"1Gbps 2Mbps","duration":"1m"}}"#;
        check(human, &[(60_000, 1_002_000)]);
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_line() {
        let rows = [
            ("", "no step lasts, or they last more than a hundred years"),
            ("ms,kbit_s\n", "no step lasts, or they last more than a hundred years"),
            ("ms,colour\n0,1\n", "line 1: no column is a rate, such as `kbit_s` or `mbps`"),
            ("when,kbps\n0,1\n", "line 1: no column is a time, such as `ms` or `duration_s`"),
            ("0,1\n5,2\n5,3\n", "line 3: does not begin after the step above it"),
            ("0,1\n5\n", "line 2: has too few columns"),
            ("0,1\n5,\"5,000\"\n", "line 2: has a number with a separator in quotes"),
            ("0,1\n5,-2\n", "line 2: \"-2\" is not a rate up to 10 Tbit/s"),
            ("0,1\n5,1.2.3\n", "line 2: \"1.2.3\" is not a rate up to 10 Tbit/s"),
            ("1\n\n2\nx\n", "line 4: \"x\" is not a millisecond at which a packet may leave"),
            ("5\n4\n", "line 2: 4 ms is before the line above it"),
            ("99999999999999999\n", "line 1: \"99999999999999999\" is not a millisecond"),
            ("{\"a\":1}", "`a` is not a model of rates that Weir knows"),
            ("{", "is not JSON"),
        ];
        for (text, expected) in rows {
            let error = parse(text.as_bytes(), End::Loop).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(
            parse(b"1\n\xff\n", End::Loop).expect_err("no text").to_string().contains("line 2")
        );
    }

    /// Seeds with bytes exchanged, taken out and put in are read or refused.
    #[test]
    fn hostile_bytes_are_refused_and_do_no_harm() {
        let seeds: [&[u8]; 5] = [
            include_bytes!("../../../fuzz/corpus/capacity/mahimahi.seed"),
            include_bytes!("../../../fuzz/corpus/capacity/table.seed"),
            include_bytes!("../../../fuzz/corpus/capacity/units.seed"),
            include_bytes!("../../../fuzz/corpus/capacity/static.seed"),
            include_bytes!("../../../fuzz/corpus/capacity/repeated.seed"),
        ];
        let mut read = 0;
        for seed in 0..20_000 {
            let mut random = Random::new(seed, 0);
            let mut bytes = seeds[seed as usize % seeds.len()].to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u32) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.bits() as u8,
                    1 => bytes[at] = b"0123456789.,{}[]\"\n"[random.below(18) as usize],
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"9,\n\"0"[random.below(5) as usize]),
                }
            }
            for end in [End::Loop, End::Stop] {
                let Ok(capacity) = parse(&bytes, end) else { continue };
                read += 1;
                let at = Instant::from_nanos(random.bits() >> random.below(64));
                let work = capacity.work_at(at);
                let sent = capacity.instant_of(work);
                assert!(sent.is_none_or(|sent| sent <= at), "{seed}");
                assert!(capacity.next_change(at).is_none_or(|next| next > at), "{seed}");
                assert!(capacity.percentile(50) <= capacity.peak(), "{seed}");
            }
        }
        assert!(read > 1_000, "{read}");
    }
}
