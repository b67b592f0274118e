//! Frames as series over time: what `/view/history` and `/view/heat` tell.

use super::past::{BINS, Frame, Point, STEP_MS, WayFrame, edges_us};
use super::tree::Way;
use crate::http::Fault;
use crate::json::{ClassHistory, Heat, HeatQuery, History, HistoryQuery, Loan};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_trace::series::ClassPoint;

/// Frames of one interval; none where nothing is known.
struct Interval<'a> {
    /// Its end, in milliseconds.
    t: f64,
    frames: Vec<(&'a Way, &'a WayFrame)>,
}

/// Returns classes over time.
pub fn history(frames: &[Arc<Frame>], query: &HistoryQuery) -> Result<History, Fault> {
    let step = query.step.unwrap_or(STEP_MS);
    if step == 0 || !step.is_multiple_of(STEP_MS) {
        return Err(Fault::bad(format!("`step` is a multiple of {STEP_MS}; {step} is none")));
    }
    let intervals = intervals(frames, query.direction.as_deref(), step)?;
    let mut history = History::default();
    for (place, interval) in intervals.iter().enumerate() {
        history.t.push(interval.t);
        add_points(&mut history, interval, place);
        add_drops(&mut history, interval, place);
        add_loans(&mut history, interval, place);
    }
    // Where a class was not told of, nothing is known.
    let length = history.t.len();
    let classes = history.classes.values_mut();
    classes.for_each(|class| class.resize(length, ClassPoint::default()));
    let drops = history.drops.values_mut().flat_map(BTreeMap::values_mut);
    drops.for_each(|values| values.resize(length, None));
    Ok(history)
}

/// Returns the delays of a class over time.
pub fn heat(frames: &[Arc<Frame>], query: &HeatQuery) -> Result<Heat, Fault> {
    let intervals = intervals(frames, query.direction.as_deref(), STEP_MS)?;
    let mut heat = Heat { edges_us: edges_us(), ..Heat::default() };
    let mut is_known = frames.is_empty();
    for interval in intervals {
        let mut counts = vec![0; BINS.into()];
        for (way, frame) in &interval.frames {
            let classes = &way.shown.classes;
            let Some(place) = classes.iter().position(|it| it.name == query.class) else {
                continue;
            };
            is_known = true;
            let begin = frame.delays.partition_point(|cell| (cell.class as usize) < place);
            let own = frame.delays[begin..].iter().take_while(|it| it.class as usize == place);
            own.for_each(|cell| counts[usize::from(cell.bin)] += u64::from(cell.packets));
        }
        heat.t.push(interval.t);
        heat.counts.push(counts);
    }
    if is_known {
        return Ok(heat);
    }
    Err(Fault::new(404, format!("there is no class `{}`; /view/about lists them", query.class)))
}

/// Returns the intervals of a direction, with one in which nothing is known in each gap.
fn intervals<'a>(
    frames: &'a [Arc<Frame>],
    direction: Option<&str>,
    step: u32,
) -> Result<Vec<Interval<'a>>, Fault> {
    let (step, mut last) = (f64::from(step), None::<f64>);
    let mut all: Vec<Interval<'_>> = Vec::new();
    for frame in frames {
        let Some(way) = way_of(frame, direction) else { continue };
        let is_gap = last.is_some_and(|last| frame.t - last > GAP_MS);
        if let (true, Some(last)) = (is_gap, last) {
            all.push(Interval { t: last + f64::from(STEP_MS), frames: Vec::new() });
        }
        last = Some(frame.t);
        match all.last_mut() {
            Some(open) if !open.frames.is_empty() && has_room(open, step) => {
                open.t = frame.t;
                open.frames.push(way);
            }
            _ => all.push(Interval { t: frame.t, frames: vec![way] }),
        }
    }
    if all.is_empty()
        && let (Some(name), Some(frame)) = (direction, frames.last())
    {
        let known: Vec<_> = frame.tree.ways.iter().map(|way| way.shown.name.as_str()).collect();
        let text = format!("there is no direction `{name}`; there are {}", known.join(", "));
        return Err(Fault::new(404, text));
    }
    Ok(all)
}

/// Returns whether another frame still belongs to an interval: frames are counted, since they do
/// not come at even instants.
fn has_room(interval: &Interval<'_>, step: f64) -> bool {
    (interval.frames.len() as f64 + 1.0) * f64::from(STEP_MS) <= step
}

fn way_of<'a>(frame: &'a Frame, direction: Option<&str>) -> Option<(&'a Way, &'a WayFrame)> {
    let is_it = |(way, _): &(&Way, &WayFrame)| {
        direction.is_none_or(|direction| way.shown.name == direction)
    };
    frame.tree.ways.iter().zip(&frame.ways).find(is_it)
}

fn add_points(history: &mut History, interval: &Interval<'_>, place: usize) {
    let mut sums: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for (way, frame) in &interval.frames {
        for (class, point) in way.shown.classes.iter().zip(&frame.points) {
            sums.entry(&class.name).or_default().extend(point);
        }
    }
    for (name, points) in sums {
        let class: &mut ClassHistory = history.classes.entry(name.to_owned()).or_default();
        // It may have come late.
        class.resize(place, ClassPoint::default());
        class.push(joined(&points));
    }
}

fn add_drops(history: &mut History, interval: &Interval<'_>, place: usize) {
    let count = interval.frames.len() as f64;
    for (way, frame) in &interval.frames {
        for (class, reason, rate) in &frame.drops {
            let name = &way.shown.classes[*class as usize].name;
            let reasons = history.drops.entry(name.clone()).or_default();
            let values = reasons.entry(reason.to_string()).or_default();
            // Reasons are told only where packets were dropped.
            values.resize(place.max(values.len()), Some(0.0));
            if values.len() == place {
                values.push(Some(0.0));
            }
            let sum = values[place].unwrap_or(0.0) + f64::from(*rate) / count;
            values[place] = Some(rounded(sum, 1e3));
        }
    }
}

fn add_loans(history: &mut History, interval: &Interval<'_>, place: usize) {
    let count = interval.frames.len() as f64;
    let mut sums: BTreeMap<(&str, Option<&str>), f64> = BTreeMap::new();
    for (way, frame) in &interval.frames {
        let name = |class: u32| way.shown.classes[class as usize].name.as_str();
        for (borrower, lender, bps) in &frame.loans {
            *sums.entry((name(*borrower), lender.map(name))).or_default() +=
                f64::from(*bps) / count;
        }
    }
    let loan = |((borrower, lender), bps): ((&str, Option<&str>), f64)| Loan {
        t: place,
        borrower: borrower.to_owned(),
        lender: lender.map(str::to_owned),
        bps: bps.round(),
    };
    history.loans.extend(sums.into_iter().map(loan));
}

/// Returns an interval: the means of rates, the last backlog, the largest quantiles.
fn joined(points: &[Point]) -> ClassPoint {
    let mean = |of: fn(&Point) -> f32, digits: f64| {
        let sum: f64 = points.iter().map(|point| f64::from(of(point))).sum();
        (!points.is_empty()).then(|| rounded(sum / points.len() as f64, digits))
    };
    let largest = |of: fn(&Point) -> f32| {
        let known = points.iter().map(of).filter(|us| !us.is_nan());
        known.reduce(f32::max).map(|us| rounded(f64::from(us), 10.0))
    };
    ClassPoint {
        sent_bps: mean(|point| point.sent_bps, 1.0),
        offered_bps: mean(|point| point.offered_bps, 1.0),
        backlog_bytes: points.last().map(|point| f64::from(point.backlog_bytes)),
        p50_us: largest(|point| point.p50_us),
        p99_us: largest(|point| point.p99_us),
        dropped_pps: mean(|point| point.dropped_pps, 1e3),
        borrowed_bps: mean(|point| point.borrowed_bps, 1.0),
    }
}

/// Rounds to so many parts of one, so that no more digits are sent than mean anything.
pub fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// A longer time between two frames is a gap.
const GAP_MS: f64 = 2.5 * STEP_MS as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::past::Past;
    use crate::live::tally::Tally;
    use crate::live::tree::Tree;
    use weir_link::status::{Amount, ClassStatus, LaneStatus, Loan, Status};

    /// A leaf that sent 1000 packets of 125 bytes each second, half of them on the account of the
    /// link, all after 1 ms, while one in ten that came was dropped.
    fn status(second: u64) -> Status {
        let sent = 1000 * second;
        let amount = |packets| Amount { packets, bytes: 125 * packets };
        let class = ClassStatus {
            name: "voice".to_owned(),
            offered: amount(sent + 100 * second),
            sent: amount(sent),
            dropped: vec![
                ("full".to_owned(), amount(100 * second)),
                ("early".to_owned(), amount(0)),
            ],
            borrowed: vec![Loan { lender: None, bytes: 125 * sent / 2, recent_bps: 0.0 }],
            bins: Some(vec![(1_015_807, sent)]),
            ..ClassStatus::default()
        };
        let lane =
            LaneStatus { name: "up".to_owned(), classes: vec![class], ..LaneStatus::default() };
        Status { uptime_ns: second * 1_000_000_000, lanes: vec![lane], ..Status::default() }
    }

    /// The frames of seconds 1 to 10, but for those from 5 to 7.
    fn frames() -> Vec<Arc<Frame>> {
        let tree = Arc::new(Tree::of(&status(0)));
        let tally = |second| Tally::of(&status(second), &tree, second as f64 * 1e3, true);
        let mut past = Past::default();
        for second in (1..=10).filter(|second| !(5..8).contains(second)) {
            let (before, now) = (tally(second - 1), tally(second));
            let seconds = before.seconds_to(&now).expect("one process");
            past.add(&tree, &before.to(&now, seconds));
        }
        past.frames(None, None)
    }

    #[test]
    fn classes_over_time_have_means_and_a_gap() {
        let all = history(&frames(), &HistoryQuery::default()).expect("a direction");
        let seconds = [1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 8000.0, 9000.0, 10_000.0];
        assert_eq!(all.t, seconds);
        let voice = &all.classes["voice"];
        assert_eq!(voice.sent_bps[0], Some(1e6));
        assert_eq!((voice.offered_bps[7], voice.borrowed_bps[7]), (Some(1.1e6), Some(5e5)));
        assert_eq!(voice.sent_bps[4], None, "nothing is known");
        assert_eq!(voice.dropped_pps[1], Some(100.0));
        let p50 = voice.p50_us[0].expect("packets left");
        assert!((p50 - 1000.0).abs() < 20.0, "{p50}");
        assert_eq!(all.drops["voice"]["full"][0], Some(100.0));
        assert!(!all.drops["voice"].contains_key("early"));
        assert_eq!((all.loans.len(), all.loans[0].bps), (7, 5e5));
        let query = HistoryQuery { step: Some(2000), ..HistoryQuery::default() };
        let pairs = history(&frames(), &query).expect("a direction");
        assert_eq!(pairs.t, [2000.0, 4000.0, 5000.0, 9000.0, 10_000.0]);
        assert_eq!(pairs.classes["voice"].sent_bps[0], Some(1e6));
        let wrong = |query| history(&frames(), &query).map_err(|fault| fault.status);
        assert_eq!(wrong(HistoryQuery { step: Some(1), ..HistoryQuery::default() }), Err(400));
        let direction = Some("down".to_owned());
        assert_eq!(wrong(HistoryQuery { direction, ..HistoryQuery::default() }), Err(404));
    }

    #[test]
    fn delays_over_time_are_counted_in_bins() {
        let query = |class: &str| HeatQuery { class: class.to_owned(), ..HeatQuery::default() };
        let heat = super::heat(&frames(), &query("voice")).expect("the class");
        assert_eq!((heat.t.len(), heat.counts[0].iter().sum::<u64>()), (8, 1000));
        let bin = heat.counts[0].iter().position(|count| *count > 0).expect("packets left");
        assert!(heat.edges_us[bin] <= 1000.0 && 1000.0 < heat.edges_us[bin + 1]);
        assert_eq!(heat.counts[4].iter().sum::<u64>(), 0);
        assert_eq!(super::heat(&frames(), &query("x")).map_err(|fault| fault.status), Err(404));
    }
}
