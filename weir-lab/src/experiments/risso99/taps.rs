//! Figures from taps: runs of a class, rates over short windows, packets that overtake.

use super::configured;
use crate::claims::{Kind, Measured, Plot};
use std::collections::{BTreeMap, VecDeque};
use weir_core::sched::Tree;
use weir_sim::Scenario;
use weir_sim::network::{TapClass, TapReport, TapRow};

/// Adds for each tap `ROW.POINT.rate`, the highest rate over 200 ms `peak`, by how much what passes
/// in 5 ms varies, `uneven`, the mean error of
/// shares over 100 ms `share-error`, the `longest` run of any class, the `shortest-pause` and
/// `longest-pause`; for each class its `longest` and `mean` run, and how many packets of others
/// pass, at most `most-ahead` and on average `ahead`, while a packet waits that found its queue
/// empty; for each source how many packets arrive `reordered`.
pub fn figures(row: &str, taps: &[TapReport], scenario: &Scenario, measured: &mut Measured) {
    let tree = &scenario.link.tree;
    let queue = taps.iter().find(|tap| tap.point == "discipline").unwrap_or(&EMPTY);
    let predecessors = predecessors(queue);
    for tap in taps {
        let name = format!("{row}.{}", tap.point);
        for (place, class) in tap.classes.iter().enumerate().filter(|(_, class)| class.runs > 0) {
            let name = format!("{name}.{}", class.name);
            let mean = class.packets as f64 / class.runs as f64;
            measured.figure(format!("{name}.longest"), class.longest as f64, "packets");
            measured.figure(format!("{name}.mean"), mean, "packets");
            let ahead = ahead(tap, place as u32, &predecessors);
            if !ahead.is_empty() {
                let most = ahead.iter().copied().max().unwrap_or(0);
                let mean = ahead.iter().sum::<usize>() as f64 / ahead.len() as f64;
                measured.figure(format!("{name}.most-ahead"), most as f64, "packets");
                measured.figure(format!("{name}.ahead"), mean, "packets");
            }
        }
        measured.figure(format!("{name}.round"), round(tap), "bytes");
        let longest = tap.classes.iter().map(|class| class.longest).max().unwrap_or(0);
        measured.figure(format!("{name}.longest"), longest as f64, "packets");
        for (place, source) in scenario.sources.iter().enumerate() {
            let name = format!("{name}.{}.reordered", source.name);
            measured.figure(name, reordered(tap, place as u32) as f64, "packets");
        }
        rates(&name, tap, measured);
        pauses(&name, tap, tree, measured);
        if let Some(error) = share_error(tap, tree) {
            measured.figure(format!("{name}.share-error"), error, "points");
        }
        plot(&name, tap, measured);
    }
}

/// Returns the bytes that all classes together send in a turn each, on average.
fn round(tap: &TapReport) -> f64 {
    let classes = tap.classes.iter().enumerate().filter(|(_, class)| class.runs > 0);
    let turn = |(place, class): (usize, &TapClass)| {
        let own = tap.rows.iter().filter(|row| row.class == place as u32);
        own.map(|row| bits(row) / 8.0).sum::<f64>() / class.runs as f64
    };
    classes.map(turn).sum()
}

static EMPTY: TapReport = TapReport {
    link: String::new(),
    from: String::new(),
    point: "",
    packets: 0,
    classes: Vec::new(),
    rows: Vec::new(),
};

/// By class and arrival: when the scheduler handed out the preceding packet of the class.
type Predecessors = BTreeMap<(u32, u64), u64>;

fn predecessors(queue: &TapReport) -> Predecessors {
    let mut last = BTreeMap::new();
    let mut predecessors = Predecessors::new();
    for row in &queue.rows {
        if let Some(before) = last.insert(row.class, row.at.as_nanos()) {
            predecessors.insert((row.class, row.arrived.as_nanos()), before);
        }
    }
    predecessors
}

/// Returns for each packet of `class` that found its queue empty how many others passed while it
/// waited.
fn ahead(tap: &TapReport, class: u32, predecessors: &Predecessors) -> Vec<usize> {
    let alone = |row: &TapRow| {
        let arrived = row.arrived.as_nanos();
        predecessors.get(&(class, arrived)).is_some_and(|&before| before <= arrived)
    };
    let passed = |row: &TapRow| {
        // Rows are in the order of `at`.
        let from = tap.rows.partition_point(|other| other.at <= row.arrived);
        let to = tap.rows.partition_point(|other| other.at < row.at);
        tap.rows[from..to.max(from)].iter().filter(|other| other.class != class).count()
    };
    tap.rows.iter().filter(|row| row.class == class && alone(row)).map(passed).collect()
}

/// Bits of the IP packet: a row's length is a frame's.
fn bits(row: &TapRow) -> f64 {
    f64::from(row.length.saturating_sub(ETHERNET)) * 8.0
}

fn rates(name: &str, tap: &TapReport, measured: &mut Measured) {
    let [Some(first), Some(last)] = [tap.rows.first(), tap.rows.last()] else {
        return;
    };
    let span = (last.at.as_nanos() - first.at.as_nanos()).max(1);
    // The first packet's bits were sent before the span.
    let sum: f64 = tap.rows[1..].iter().map(bits).sum();
    measured.figure(format!("{name}.rate"), sum * 1e6 / span as f64, "kbit/s");
    let (mut window, mut inside, mut peak) = (VecDeque::new(), 0.0f64, 0.0f64);
    for row in &tap.rows {
        window.push_back(row);
        inside += bits(row);
        while window.front().is_some_and(|old| row.at.as_nanos() - old.at.as_nanos() >= PEAK) {
            inside -= window.pop_front().map_or(0.0, bits);
        }
        peak = peak.max(inside);
    }
    measured.figure(format!("{name}.peak"), peak * 1e6 / PEAK as f64, "kbit/s");
    measured.figure(format!("{name}.uneven"), uneven(tap, first.at.as_nanos(), span), "%");
}

/// Returns the standard deviation of the bits of the whole windows in `span`, in percent of their
/// mean.
fn uneven(tap: &TapReport, start: u64, span: u64) -> f64 {
    let mut windows = vec![0.0f64; (span / SHORT) as usize];
    for row in &tap.rows {
        if let Some(window) = windows.get_mut(((row.at.as_nanos() - start) / SHORT) as usize) {
            *window += bits(row);
        }
    }
    let count = windows.len().max(1) as f64;
    let mean = windows.iter().sum::<f64>() / count;
    let variance = windows.iter().map(|window| (window - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { 100.0 * variance.sqrt() / mean } else { 0.0 }
}

/// Adds times in ms between packets that exceed the time of one and a half packets on the line.
fn pauses(name: &str, tap: &TapReport, tree: &Tree, measured: &mut Measured) {
    let rate = tree.rate().bits_per_second() as f64;
    let pauses = tap.rows.windows(2).filter_map(|pair| {
        let pause = (pair[1].at.as_nanos() - pair[0].at.as_nanos()) as f64 / 1e6;
        (pause > 1.5e3 * bits(&pair[0]) / rate).then_some(pause)
    });
    let (mut shortest, mut longest) = (f64::MAX, 0.0f64);
    for pause in pauses {
        (shortest, longest) = (shortest.min(pause), longest.max(pause));
    }
    if longest > 0.0 {
        measured.figure(format!("{name}.shortest-pause"), shortest, "ms");
    }
    measured.figure(format!("{name}.longest-pause"), longest, "ms");
}

/// Counts packets of a source that pass after one that arrived later.
fn reordered(tap: &TapReport, source: u32) -> usize {
    let mut latest = 0;
    let late = |row: &&TapRow| {
        let arrived = row.arrived.as_nanos();
        latest = latest.max(arrived);
        arrived < latest
    };
    tap.rows.iter().filter(|row| row.source == source).filter(late).count()
}

/// Returns how far the first class's part of each window is from its configured part, on average.
fn share_error(tap: &TapReport, tree: &Tree) -> Option<f64> {
    let rates = tap.classes.iter().map(|class| configured(tree, &class.name));
    let rates: Vec<f64> = rates.collect::<Option<_>>()?;
    let wanted = rates.first()? / rates.iter().sum::<f64>();
    let mut windows: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for row in &tap.rows {
        let [first, all] = windows.entry(row.at.as_nanos() / WINDOW).or_default();
        *first += if row.class == 0 { bits(row) } else { 0.0 };
        *all += bits(row);
    }
    let error = |[first, all]: &[f64; 2]| (first / all.max(1.0) - wanted).abs();
    let sum: f64 = windows.values().map(error).sum();
    (!windows.is_empty()).then(|| 100.0 * sum / windows.len() as f64)
}

/// Plots the packets of the first part of the tap's rows, each at the height of its class.
fn plot(name: &str, tap: &TapReport, measured: &mut Measured) {
    let Some(start) = tap.rows.first().map(|row| row.at.as_nanos()) else {
        return;
    };
    let early = |row: &&TapRow| row.at.as_nanos() - start < SHOWN;
    let seconds = |row: &TapRow| row.at.as_nanos() as f64 / 1e9;
    let title = format!("{name}: packets behind the {}", tap.point);
    let mut points = Plot::new(Kind::Points, &title, "time in s", "class");
    for (place, class) in tap.classes.iter().enumerate() {
        let rows = tap.rows.iter().take_while(early).filter(|row| row.class == place as u32);
        let rows: Vec<_> = rows.map(|row| (seconds(row), (place + 1) as f64)).collect();
        if !rows.is_empty() {
            points = points.with(&class.name, rows);
        }
    }
    let mut sum = 0.0;
    let bytes = tap.rows.iter().take_while(early).map(|row| {
        sum += bits(row) / 8e3;
        (seconds(row), sum)
    });
    let title = format!("{name}: bytes behind the {}", tap.point);
    let bytes =
        Plot::new(Kind::Steps, &title, "time in s", "sum in KB").with(tap.point, bytes.collect());
    measured.plot(points).plot(bytes);
}

/// Bytes of a frame beside the IP packet.
const ETHERNET: u32 = 14;
/// The window of peaks in nanoseconds.
const PEAK: u64 = 200_000_000;
/// The window of unevenness in nanoseconds.
const SHORT: u64 = 5_000_000;
/// The window of shares in nanoseconds.
const WINDOW: u64 = 100_000_000;
/// The drawn part of each tap in nanoseconds.
const SHOWN: u64 = 1_000_000_000;
