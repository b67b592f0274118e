//! The kernel's TCP and the simulated one on the same path, by packet trace: how CUBIC's window
//! grows between losses and shrinks after them, and how selective acknowledgements repair a flight.
//!
//! Live, two captures show when each segment reached the link and when it left it, and a third the
//! acknowledgements; the simulation reports both times of its own segments. Both traces are counted
//! by the same rules (`Course`). The simulated receiver acknowledges as many segments one by one at
//! first as the kernel's did.

mod course;

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use course::{Course, matched};
use weir_bench::score::Pair;
use weir_bench::score::trace::{self, Acks, Tap, has_timestamps, segments};
use weir_core::units::Bytes;
use weir_show::{Kind, Plot};
use weir_sim::Host;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tcp-kernel",
    summary: "the kernel's TCP and the simulated one on one path, by packet trace: losses, window",
    measure: None,
    own: Some(Own { draws: true, ..Own::live(run) }),
};

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for pair in Pair::read_all(SCENARIOS, rows.options.duration)? {
        if !rows.options.wants(&pair.name) {
            continue;
        }
        let (live, acks, timestamps) = live(&pair)?;
        let simulated = simulated(&pair, acks.quick, timestamps)?;
        rows.add(acknowledged(&pair.name, acks));
        rows.extend(compared(&pair.name, &live, &simulated));
        rows.results.plots.push(plot(&pair.name, &live, &simulated));
    }
    rows.results.notes.push(NOTE.to_owned());
    Ok(())
}

/// Returns the transfer's course on real packets, how its receiver acknowledges, and whether the
/// segments have timestamps.
fn live(pair: &Pair) -> Result<(Course, Acks, bool), String> {
    let taps = [Tap::Before, Tap::Behind, Tap::Back];
    let (_, [before, behind, back]) = trace::captures(pair, taps)?;
    let [offered, left] = [segments(&before, PORT)?, segments(&behind, PORT)?];
    let failed = |why: String| format!("{}: {why}", pair.name);
    let course = Course::of(&matched(&offered, &left)).map_err(failed)?;
    let timestamps = has_timestamps(&before, PORT)?;
    Ok((course, Acks::of(&back, PORT, PAYLOAD).map_err(failed)?, timestamps))
}

fn acknowledged(name: &str, Acks { quick, later }: Acks) -> Row {
    let text = format!("{quick} segments one by one, then one for {later:.2} on average");
    Row::shown(format!("{name}: acknowledged"), text)
}

/// Returns the transfer's course in the simulation, with a receiver that acknowledges this many
/// segments one by one, and with timestamps or without.
fn simulated(pair: &Pair, quick_acks: u32, timestamps: bool) -> Result<Course, String> {
    // The kernel's window grows beyond every queue here, and so may the simulated one.
    let window = Some(Bytes::new(WINDOW));
    let (quick_acks, timestamps) = (Some(quick_acks), Some(timestamps));
    let host = Host { window, quick_acks, timestamps, ..Host::default() };
    let sent = trace::simulated(pair, &host, PORT)?;
    Course::of(&sent).map_err(|why| format!("{}: {why}", pair.name))
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
const WINDOW: u64 = 500_000;
/// Of a full segment of the kernel's, which has timestamps.
const PAYLOAD: u64 = 1448;
const NOTE: &str = "Segments of the transfer that are in the queue or on the line.";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_scenario_loses_segments_and_repairs_them_in_the_simulation() {
        let pairs = Pair::read_all(SCENARIOS, Duration::from_secs(5));
        for pair in pairs.unwrap_or_else(|error| panic!("{error}")) {
            let course = simulated(&pair, 16, true).unwrap_or_else(|why| panic!("{why}"));
            let rows = compared(&pair.name, &course, &course);
            assert!(rows.iter().all(|row| row.holds), "{rows:?}");
            assert!(course.at_once >= 1.0, "{}: {rows:?}", pair.name);
            assert!(course.rate > 300.0, "{}: {rows:?}", pair.name);
        }
    }
}
