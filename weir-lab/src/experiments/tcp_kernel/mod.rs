//! The kernel's TCP and the simulated one on the same path, by packet trace: how CUBIC's window
//! grows between losses and shrinks after them, and how selective acknowledgements repair a flight.
//!
//! Live, two captures show when each segment reached the link and when it left it; the simulation
//! reports both times of its own segments. Both traces are counted by the same rules (`Course`).

mod course;

use super::second_live::captures;
use super::{Experiment, Own};
use crate::rig;
use crate::rows::{Options, Results, Row};
use crate::score::Pair;
use course::{Course, Segment, Sent, matched, segment};
use weir_core::units::Bytes;
use weir_plot::{Kind, Plot};
use weir_sim::capture::CaptureReader;
use weir_sim::{Host, Watch};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tcp-kernel",
    summary: "the kernel's TCP and the simulated one on one path, by packet trace: losses, window",
    measure: None,
    own: Some(Own { draws: true, ..Own::live(run) }),
};

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Results, String> {
    let _first = rig::prepare()?;
    // The kernel's window grows beyond every queue here, and so may the simulated one.
    let host = Host { window: Some(Bytes::new(WINDOW)), ..Host::default() };
    let mut results = Results::default();
    for pair in Pair::read_all(SCENARIOS, options.duration)? {
        if !options.wants(&pair.name) {
            continue;
        }
        let (live, simulated) = (live(&pair)?, simulated(&pair, &host)?);
        let rows = compared(&pair.name, &live, &simulated);
        rows.iter().for_each(&mut *progress);
        results.rows.extend(rows);
        results.plots.push(plot(&pair.name, &live, &simulated));
    }
    results.notes.push(NOTE.to_owned());
    Ok(results)
}

/// Returns the transfer's course on real packets.
fn live(pair: &Pair) -> Result<Course, String> {
    let (_, [before, behind]) = captures(pair)?;
    let [offered, left] = [segments(&before)?, segments(&behind)?];
    Course::of(&matched(&offered, &left)).map_err(|why| format!("{}: {why}", pair.name))
}

/// Returns the transfer's segments in a capture.
fn segments(capture: &[u8]) -> Result<Vec<Segment>, String> {
    let mut reader = CaptureReader::new(capture).map_err(|error| error.to_string())?;
    let mut segments = Vec::new();
    while let Some(frame) = reader.next_frame() {
        let frame = frame.map_err(|error| error.to_string())?;
        let packet = frame.bytes.get(ETHERNET..).unwrap_or_default();
        segments.extend(segment(frame.timestamp, packet, PORT));
    }
    Ok(segments)
}

/// Returns the transfer's course in the simulation.
fn simulated(pair: &Pair, host: &Host) -> Result<Course, String> {
    let mut scenario = pair.scenario.clone();
    host.apply(&mut scenario);
    let mut sent = Vec::new();
    let mut tell = |fate: &weir_sim::Fate<'_>| {
        let arrived = fate.arrived.as_nanos();
        if let Some(segment) = fate.packet.and_then(|packet| segment(arrived, packet, PORT)) {
            let left = fate.dropped.is_none().then_some(fate.at.as_nanos());
            sent.push(Sent { segment, left });
        }
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", pair.name);
    weir_sim::run_watched(&scenario, watch, &mut |_| {}).map_err(|error| failed(&error))?;
    sent.sort_by_key(|sent| sent.segment.at_ns);
    Course::of(&sent).map_err(|why| failed(&why))
}

/// Returns what both have to have in common.
fn compared(name: &str, live: &Course, simulated: &Course) -> Vec<Row> {
    let row = |what: &str, unit: &str, value: fn(&Course) -> f64, (part, amount): (f64, f64)| {
        let (measured, expected) = (value(live), value(simulated));
        let off = (measured - expected).abs() / (measured * part).max(amount);
        let texts = (format!("{measured:.2} {unit}"), format!("{expected:.2} {unit}"));
        Row::off(format!("{name}: {what}"), texts, off, 1.0)
    };
    vec![
        row("rate", "segments/s", |course| course.rate, (0.01, 0.0)),
        row("lost", "%", |course| course.lost * 100.0, (0.25, 0.1)),
        row("sent twice in vain", "%", |course| course.in_vain * 100.0, (0.0, 0.1)),
        row("until the first loss", "segments", |course| course.until_loss, (0.5, 50.0)),
        row("lost at once", "segments", |course| course.at_once, (0.25, 1.0)),
        row("from loss to loss", "s", |course| course.period_s, (0.2, 0.05)),
        row("least under way after a loss", "of before", |course| course.kept, (0.0, 0.1)),
        row("longest silence", "ms", |course| course.silence_ms, (0.0, 50.0)),
    ]
}

/// Shows the segments under way in the link.
fn plot(name: &str, live: &Course, simulated: &Course) -> Plot {
    Plot::new(Kind::Steps, name, "time in s", "segments in the link")
        .with("kernel", live.under_way.clone())
        .with("simulated", simulated.under_way.clone())
}

/// The text of the scenarios.
const SCENARIOS: &str = include_str!("scenarios.toml");
const PORT: u16 = 5004;
const ETHERNET: usize = 14;
const WINDOW: u64 = 500_000;
const NOTE: &str = "Segments of the transfer that are in the queue or on the line.";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_scenario_loses_segments_and_repairs_them_in_the_simulation() {
        let pairs = Pair::read_all(SCENARIOS, Duration::from_secs(5));
        for pair in pairs.unwrap_or_else(|error| panic!("{error}")) {
            let host = Host { window: Some(Bytes::new(WINDOW)), ..Host::default() };
            let course = simulated(&pair, &host).unwrap_or_else(|why| panic!("{why}"));
            let rows = compared(&pair.name, &course, &course);
            assert!(rows.iter().all(|row| row.holds), "{rows:?}");
            assert!(course.at_once >= 1.0, "{}: {rows:?}", pair.name);
            assert!(course.rate > 300.0, "{}: {rows:?}", pair.name);
        }
    }
}
