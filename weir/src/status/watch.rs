//! `weir status --watch`: the last second of a link, again and again, for pipes.

use super::fetch;
use crate::output::{Exit, Format, Output};
use std::fmt::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use weir_control::protocol::Query;
use weir_live::signals::StopSignal;
use weir_live::status::{ClassStatus, LaneStatus, Status};
use weir_sim::shown::{Table, millis};

/// Shows the link until it ends, until a signal, or until the reader closes the pipe.
pub fn watch(
    find: impl Fn() -> Result<PathBuf, String>,
    query: &Query,
    interval: Duration,
    output: &Output,
) -> Exit {
    let stop = match StopSignal::install() {
        Ok(stop) => stop,
        Err(error) => return output.refuse(&error.to_string()),
    };
    output.json_by_line();
    let (mut due, mut shown, mut failures) = (Instant::now(), 0_u64, 0);
    while !stop.requested() && !output.is_closed() {
        match fetch(&find, query) {
            Ok(status) => {
                failures = 0;
                shown += 1;
                match output.format {
                    Format::Json => output.json(&status),
                    Format::Text => output.text(&text(&status)),
                }
            }
            Err(error) if shown == 0 => return output.refuse(&error),
            // A restart leaves no gap as a rule; a death and its replacement do.
            Err(error) if failures == FAILURES_MAX => {
                output.warn(&format!("the link has ended: {error}"));
                return Exit::Clean;
            }
            Err(_) => failures += 1,
        }
        due = (due + interval).max(Instant::now());
        while Instant::now() < due && !stop.requested() {
            thread::sleep(due.saturating_duration_since(Instant::now()).min(LOOK));
        }
    }
    Exit::Clean
}

/// Formats the last second of a link for people.
fn text(status: &Status) -> String {
    let mut text = String::new();
    let seconds = status.uptime_ns as f64 / 1e9;
    let frame = status.frame_ns / 1e3;
    let _ = writeln!(text, "up {seconds:.1} s, {frame:.2} us of processor time a frame");
    for lane in &status.lanes {
        let _ = writeln!(text, "{}: {} to {}\n{}", lane.name, lane.from, lane.to, classes(lane));
    }
    text
}

fn classes(lane: &LaneStatus) -> Table {
    let mut table = Table::new([
        "class", "Mbit/s", "of 1 min", "pps", "lost/s", "borrowed", "over %", "queue", "p50 ms",
        "p99 ms", "jitter",
    ]);
    lane.classes.iter().for_each(|class| table.row(row(class)));
    table
}

fn row(class: &ClassStatus) -> Vec<String> {
    let Some(recent) = &class.recent else {
        let rest = std::iter::repeat_n("-".to_owned(), 10);
        return std::iter::once(class.name.clone()).chain(rest).collect();
    };
    let mega = |bps: f64| format!("{:.3}", bps / 1e6);
    let has_delays = recent.delay_packets > 0;
    let delay = |micros: f64| if has_delays { millis(micros) } else { "-".to_owned() };
    vec![
        class.name.clone(),
        mega(recent.second.sent_bps),
        mega(recent.minute.sent_bps),
        format!("{:.0}", recent.second.sent_pps),
        format!("{:.0}", recent.second.lost_pps),
        mega(recent.second.borrowed_bps),
        format!("{:.0}", recent.overlimit * 100.0),
        recent.queue_packets.map_or("-".to_owned(), |packets| format!("{packets:.1}")),
        delay(recent.delay.p50_us),
        delay(recent.delay.p99_us),
        delay(recent.jitter_us),
    ]
}

/// Times that a link may fail to answer before it has ended.
const FAILURES_MAX: u32 = 2;
/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_live::status::{Rates, Recent};

    #[test]
    fn a_row_shows_the_last_second_and_dashes_before_there_is_one() {
        let recent = Recent {
            second: Rates { sent_bps: 2.5e6, lost_pps: 7.0, ..Rates::default() },
            delay_packets: 3,
            jitter_us: 1500.0,
            overlimit: 0.25,
            ..Recent::default()
        };
        let class = |recent| ClassStatus { name: "voice".to_owned(), recent, ..Default::default() };
        let check = |recent, wanted: &[&str]| {
            let lane = LaneStatus { classes: vec![class(recent)], ..LaneStatus::default() };
            let text = text(&Status { lanes: vec![lane], frame_ns: 1234.0, ..Status::default() });
            let row: Vec<_> = text
                .lines()
                .find(|line| line.starts_with("voice"))
                .into_iter()
                .flat_map(str::split_whitespace)
                .map(str::to_owned)
                .collect();
            assert!(text.starts_with("up 0.0 s, 1.23 us"), "{text}");
            assert_eq!(row, wanted, "{text}");
        };
        check(None, &["voice", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"]);
        let wanted =
            ["voice", "2.500", "0.000", "0", "7", "0.000", "25", "-", "0.000", "0.000", "1.500"];
        check(Some(recent), &wanted);
        check(Some(Recent { delay_packets: 0, ..recent }), &[&wanted[..8], &["-"; 3]].concat());
    }
}
