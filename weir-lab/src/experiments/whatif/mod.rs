//! Forecasts against the truth: real kernel traffic runs live under a policy and under another one;
//! `weir whatif` gets the record of the first and forecasts the second.
//!
//! Judged by application: throughput, the 99th percentile of the delay, and the completion of
//! objects. Beside the forecast stand what an open-loop replay of the same packets says, and that
//! all stays as it was. The list of pairs was fixed before any was run ([`pairs`]).

mod habits;
mod kept;
mod live;
mod pairs;
mod quic;

use super::{Experiment, Own};
use crate::rows::{Options as Wanted, Row, Rows};
use live::DOWN;
use pairs::{FURTHER, PAIRS, Pair};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use weir_core::units;
use weir_infer::whatif::{Trial, ask};
use weir_infer::{Grouping, Inferred, Input, Options, infer};
use weir_policy::Policy;
use weir_sim::whatif::{self, Measure, Question, Tally, Under, WhatIf};
use weir_sim::{Scenario, read};
use weir_trace::capture::{CaptureLink, CaptureRecord, CaptureWriter, Interface};
use weir_trace::record::{Fate, RecordReader, Step};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "whatif",
    summary: "forecasts for another policy from a record, beside the live truth of 38 pairs",
    measure: None,
    own: Some(Own { keeps_records: true, ..Own::live(run) }),
};

/// The figures that are judged, and the most that the median error may be.
const JUDGED: [(Measure, &str, f64); 3] = [
    (Measure::Throughput, "throughput", 0.05),
    (Measure::DelayP99, "p99 delay", 0.15),
    (Measure::CompletionP50, "completion of objects", 0.15),
];
/// The least part of true values within the error bar.
const WITHIN: f64 = 0.8;
const REPLICATIONS: usize = 3;
/// The beginning of the rows that sum up the second list.
const FURTHER_NAME: &str = "BBR, QUIC, players: ";

/// A figure of an application in a pair: the truth, and what was said before.
#[derive(Clone, Debug)]
struct Point {
    application: String,
    measure: Measure,
    truth: f64,
    forecast: f64,
    bar: Option<f64>,
    stays: Option<f64>,
    open_loop: Option<f64>,
}

type Figures = BTreeMap<(String, Measure), f64>;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    judge(rows, &PAIRS, "")?;
    judge(rows, &FURTHER, FURTHER_NAME)
}

/// Judges the pairs of a list, whose summary has this name.
fn judge(rows: &mut Rows<'_>, pairs: &[Pair], list: &str) -> Result<(), String> {
    let mut points = Vec::new();
    for pair in pairs {
        let name = pair.name();
        rows.measure(&name, |options| {
            let found = points_of(pair, options)?;
            let shown: Vec<Row> = found.iter().map(|point| point.row(&name)).collect();
            points.extend(found);
            Ok::<_, String>(shown)
        })?;
    }
    if !points.is_empty() {
        let named = |row: Row| Row { subject: format!("{list}{}", row.subject), ..row };
        rows.extend(summary(&points).into_iter().map(named));
    }
    Ok(())
}

/// Runs both policies live, and forecasts the second from the first.
fn points_of(pair: &Pair, options: &Wanted) -> Result<Vec<Point>, String> {
    let texts = pair.policies.map(|policy| policy.text(pair.rate));
    let [was, then] = kept::records(pair, &texts, options)?;
    let policies = texts.map(|text| weir_policy::parse(&text, "pair.toml").plan);
    let [Some(first), Some(second)] = policies else {
        return Err("a policy of the pair has errors".to_owned());
    };
    let forecast = answer(&was, &[&first, &second], REPLICATIONS)?;
    let truth = captured(&answer(&then, &[&second], 1)?);
    let stays = captured(&forecast);
    let open_loop = open_loop(&was, &second)?;
    let mut points = Vec::new();
    for group in forecast.groups.iter().filter(|group| group.by == BY) {
        for row in &group.rows {
            let key = (group.name.clone(), row.measure);
            let judged = JUDGED.iter().any(|judged| judged.0 == row.measure);
            let told = row.forecasts.first().and_then(|told| Some((told.value?, told.bar)));
            let (Some(truth), Some((forecast, bar)), true) = (truth.get(&key), told, judged) else {
                continue;
            };
            points.push(Point {
                application: group.name.clone(),
                measure: row.measure,
                truth: *truth,
                forecast,
                bar,
                stays: stays.get(&key).copied(),
                open_loop: open_loop.get(&key).copied(),
            });
        }
    }
    Ok(points)
}

/// Returns the answer to what the policies behind the first would have done to a record.
fn answer(record: &[u8], policies: &[&Policy], replications: usize) -> Result<WhatIf, String> {
    let input = || {
        let reader = RecordReader::new(record).map_err(|error| error.to_string())?;
        Ok::<_, String>(Input::Record(reader))
    };
    let options = Options {
        direction: Some(DOWN.to_owned()),
        grouping: Grouping::Exact,
        ..Options::default()
    };
    let inferred: Inferred =
        infer(input()?, &options, &mut |_| {}).map_err(|error| error.to_string())?;
    let named = policies.iter().enumerate();
    let policies: Vec<_> =
        named.map(|(place, policy)| (place.to_string(), (*policy).clone())).collect();
    let threads = weir_sim::replicate::cores();
    let trial = Trial { policies: &policies, replications, threads };
    let stop = AtomicBool::new(false);
    ask((&inferred, input()?), &trial, &stop, &|_| {}).map(|answer| answer.whatif)
}

/// Returns the figures of the record itself, by application.
fn captured(whatif: &WhatIf) -> Figures {
    by_application(whatif, |row| row.captured)
}

fn by_application(whatif: &WhatIf, of: impl Fn(&whatif::Row) -> Option<f64>) -> Figures {
    let groups = whatif.groups.iter().filter(|group| group.by == BY);
    let rows = groups.flat_map(|group| group.rows.iter().map(|row| (group.name.clone(), row)));
    rows.filter_map(|(name, row)| Some(((name, row.measure), of(row)?))).collect()
}

/// Returns the figures of the packets of a record, sent again as they came, under a policy.
fn open_loop(record: &[u8], policy: &Policy) -> Result<Figures, String> {
    let (capture, span) = arrivals(record)?;
    let seconds = span.as_nanos() as f64 / 1e9;
    let text = format!(
        "duration = \"{seconds:.6} s\"\npolicy = \"pair.toml\"\n[[source]]\nname = \"all\"\n\
         kind = \"capture\"\nfile = \"all.pcapng\"\nflows = true\n"
    );
    let file = |path: &Path| match path.ends_with("all.pcapng") {
        true => Ok(capture.clone()),
        false => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let read = read::parse_with(text.as_bytes(), "replay.toml", &file, policy);
    let first = read.findings.first().map(|finding| finding.message.clone());
    let scenario: Scenario = read.plan.ok_or_else(|| first.unwrap_or_default())?;
    let captured = vec![Tally::default(); scenario.sources.len()];
    let policies = [Under { policy: "replay".to_owned(), scenario }];
    let question = Question {
        policies: &policies,
        captured: &captured,
        span,
        replications: 1,
        threads: 1,
        vary: &|_, _| {},
    };
    let stop = AtomicBool::new(false);
    let whatif = whatif::ask(&question, &stop, &|_| {}).map_err(|error| error.to_string())?;
    Ok(by_application(&whatif, |row| Some(row.simulated)))
}

/// Returns a capture of what came to the link towards the client, and how long it is.
fn arrivals(record: &[u8]) -> Result<(Vec<u8>, units::Duration), String> {
    let mut reader = RecordReader::new(record).map_err(|error| error.to_string())?;
    let lane = reader.head().lanes.iter().position(|lane| lane.name == DOWN);
    let mut writer = CaptureWriter::new(Vec::new()).map_err(|error| error.to_string())?;
    let link_type = CaptureLink::ETHERNET;
    let interface = Interface { link_type, name: String::new(), snap_length: 0 };
    writer.describe(&[interface]).map_err(|error| error.to_string())?;
    let (mut first, mut last) = (None, units::Instant::ZERO);
    while let Some((number, step)) = reader.next_step().map_err(|error| error.to_string())? {
        let Step::Arrival(arrival) = step else { continue };
        if Some(number) != lane || arrival.fate == Fate::Resumed {
            continue;
        }
        first.get_or_insert(arrival.at);
        last = arrival.at.max(last);
        let record = CaptureRecord {
            timestamp: arrival.at.as_nanos(),
            interface: 0,
            original_length: arrival.packet.length.max(arrival.headers.len() as u32),
            bytes: arrival.headers,
            comment: "",
        };
        writer.write(&record).map_err(|error| error.to_string())?;
    }
    let first = first.ok_or("nothing came to the link")?;
    let capture = writer.finish().map_err(|error| error.to_string())?;
    Ok((capture, last.since(first)))
}

impl Point {
    /// Returns by which part of the truth a value is wrong.
    fn error(&self, value: f64) -> f64 {
        (value - self.truth).abs() / self.truth.max(self.measure.resolution())
    }

    fn is_within(&self) -> bool {
        self.bar.is_some_and(|bar| (self.forecast - self.truth).abs() <= bar)
    }

    fn row(&self, pair: &str) -> Row {
        let shown = |value: f64| format!("{:.2}", self.measure.shown(value));
        let other = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
        let text = format!(
            "truth {}, forecast {} ± {}, open loop {}, as before {}",
            shown(self.truth),
            shown(self.forecast),
            other(self.bar),
            other(self.open_loop),
            other(self.stays)
        );
        let subject = format!("{pair}: {} {}", self.application, self.measure.title());
        Row::shown(subject, text)
    }
}

/// The medians over all figures, and how many are within their error bars.
fn summary(points: &[Point]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (measure, name, most) in JUDGED {
        let of: Vec<&Point> = points.iter().filter(|point| point.measure == measure).collect();
        if of.is_empty() {
            continue;
        }
        let told = median(of.iter().map(|point| point.error(point.forecast)));
        let stays = median(of.iter().filter_map(|point| Some(point.error(point.stays?))));
        let open = median(of.iter().filter_map(|point| Some(point.error(point.open_loop?))));
        let percent = |part: Option<f64>| {
            part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0))
        };
        let error = told.unwrap_or(f64::INFINITY) * 100.0;
        rows.push(Row::at_most(format!("median error of {name}"), error, most * 100.0, "%"));
        let text = format!("open loop {}, as before {}", percent(open), percent(stays));
        rows.push(Row::shown(format!("median error of {name}, beside"), text));
    }
    let within = points.iter().filter(|point| point.is_within()).count();
    let part = within as f64 / points.len() as f64;
    rows.push(Row::ratio("true values within the error bar".to_owned(), part, WITHIN));
    rows
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Groups that every policy has.
const BY: &str = "application";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_medians_and_how_many_are_within_the_bar() {
        let point = |forecast: f64, bar| Point {
            application: "tcp 1".to_owned(),
            measure: Measure::Throughput,
            truth: 1e6,
            forecast,
            bar: Some(bar),
            stays: Some(2e6),
            open_loop: None,
        };
        let points = [point(1.01e6, 2e4), point(1.02e6, 1e4), point(0.9e6, 2e5)];
        let rows = summary(&points);
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert!(rows[0].holds && (rows[0].deviation - 2.0).abs() < 1e-6, "{rows:?}");
        assert!(rows[1].measured.contains("as before 100.0 %"), "{rows:?}");
        assert!(!rows[2].holds, "two of three are less than 80 %: {rows:?}");
    }
}
