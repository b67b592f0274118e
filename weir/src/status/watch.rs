//! `weir status --watch`: the last second of a link, again and again: on a terminal in place, for
//! pipes one after the other.

use super::left_out;
use crate::output::{Exit, Format, Output};
use ratatui::crossterm::Command;
use ratatui::crossterm::cursor::MoveTo;
use ratatui::crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, size as terminal_size,
};
use serde::Serialize;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};
use weir_host::signals::StopSignal;
use weir_link::status::{ClassStatus, LaneStatus, Status};
use weir_policy::table::{Table, millis};

/// Shows what `look` returns, in text as `text` writes it, until the link ends, until a signal, or
/// until the reader closes the pipe.
pub fn watch<T: Serialize>(
    look: impl Fn() -> Result<T, String>,
    text: impl Fn(&T) -> String,
    interval: Duration,
    output: &Output,
) -> Exit {
    let stop = match StopSignal::install() {
        Ok(stop) => stop,
        Err(error) => return output.refuse(&error.to_string()),
    };
    output.json_by_line();
    let redraws = output.format == Format::Text && io::stdout().is_terminal();
    let (mut due, mut shown, mut failures) = (Instant::now(), 0_u64, 0);
    while !stop.requested() && !output.is_closed() {
        match look() {
            Ok(seen) => {
                failures = 0;
                shown += 1;
                match output.format {
                    Format::Json => output.json(&seen),
                    Format::Text if redraws => {
                        output.text(&redrawn(&text(&seen), height(), shown == 1));
                    }
                    Format::Text => output.text(&text(&seen)),
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
    if stop.requested() {
        if redraws {
            // Behind what the terminal echoes of the key.
            output.text("\n");
        }
        output.warn("stopped watching; the link goes on");
    }
    Exit::Clean
}

fn height() -> usize {
    terminal_size().map_or(HEIGHT_UNKNOWN, |(_, height)| height.into())
}

/// Returns what puts a text in the place of the one before on a terminal of so many lines. Lines
/// that are too wide are cut there.
fn redrawn(text: &str, height: usize, is_first: bool) -> String {
    let mut all = String::new();
    let mut put = |command: &dyn Fn(&mut String) -> std::fmt::Result| {
        command(&mut all).expect("a string takes what is written");
    };
    if is_first {
        put(&|to| Clear(ClearType::All).write_ansi(to));
    }
    put(&|to| MoveTo(0, 0).write_ansi(to));
    put(&|to| DisableLineWrap.write_ansi(to));
    // The last line stays free for the cursor.
    let room = height.saturating_sub(1).max(1);
    let lines: Vec<&str> = text.lines().collect();
    let fits = if lines.len() > room { room - 1 } else { lines.len() };
    let more = lines.len() - fits;
    let rest = format!("{more} more lines; --class, --top and --limit choose what is shown");
    let rest = (more > 0).then_some(rest.as_str());
    for line in lines[..fits].iter().copied().chain(rest) {
        put(&|to| {
            to.push_str(line);
            Clear(ClearType::UntilNewLine).write_ansi(to)?;
            to.write_char('\n')
        });
    }
    put(&|to| Clear(ClearType::FromCursorDown).write_ansi(to));
    put(&|to| EnableLineWrap.write_ansi(to));
    all
}

/// Formats the last second of a link for people.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    let seconds = status.uptime_ns as f64 / 1e9;
    let frame = status.frame_ns / 1e3;
    let _ = writeln!(text, "up {seconds:.1} s, {frame:.2} us of processor time a frame");
    for lane in &status.lanes {
        let _ = writeln!(text, "{}: {} to {}\n{}", lane.name, lane.from, lane.to, classes(lane));
        text.push_str(&left_out::text(lane));
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
/// Lines of a terminal that does not say how many it has.
const HEIGHT_UNKNOWN: usize = 24;
/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::status::{Rates, Recent};

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
    #[test]
    fn a_text_takes_the_place_of_the_one_before() {
        let visible = |text: &str, height| {
            let drawn = redrawn(text, height, false);
            assert!(drawn.starts_with("\u{1b}[1;1H"), "{drawn:?}");
            let lines: Vec<_> = drawn.lines().map(str::to_owned).collect();
            // Without its sequences.
            let plain = |line: &String| {
                let mut parts = line.split('\u{1b}');
                let first = parts.next().unwrap_or_default().to_owned();
                let rest = parts.map(|part| {
                    part.split_once(|end: char| end.is_ascii_alphabetic()).map_or("", |two| two.1)
                });
                first + &rest.collect::<String>()
            };
            let shown: Vec<String> = lines.iter().map(plain).collect();
            assert!(shown.len() <= height, "{shown:?} of {height}");
            shown
        };
        assert_eq!(visible("one\ntwo\n", 24), ["one", "two", ""]);
        assert_eq!(visible("one\ntwo\nthree\n", 4), ["one", "two", "three", ""]);
        let cut = visible("one\ntwo\nthree\nfour\n", 4);
        assert_eq!(cut[..2], ["one", "two"]);
        assert!(cut[2].starts_with("2 more lines; --class"), "{cut:?}");
        assert!(redrawn("", 1, true).starts_with("\u{1b}[2J"), "the first clears the screen");
    }
}
