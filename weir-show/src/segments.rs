//! The picture of a TCP source: its congestion window and what is under way, what it sent again,
//! and its round trips over time.

use crate::picture::{Content, Key, Part};
use crate::plot::{Kind, Plot, Style};
use weir_sim::segments::{SegmentRow, Segments};

/// Returns the part of a picture that shows these segments.
pub fn part(segments: &Segments) -> Part {
    let rows: Vec<_> = thinned(segments.rows.iter().filter(|row| row.from_sender).collect());
    let points = |value: fn(&SegmentRow) -> f64| {
        rows.iter().map(|row| (seconds(row), value(row))).collect::<Vec<_>>()
    };
    let windows =
        Plot::new(Kind::Steps, "Congestion window and bytes under way, KB", "time, s", "")
            .drawn(WINDOW, points(|row| row.cwnd as f64 / 1e3), Style::Line(0))
            .drawn(FLIGHT, points(|row| row.in_flight as f64 / 1e3), Style::Line(1))
            .drawn(
                THRESHOLD,
                points(|row| row.ssthresh.map_or(f64::NAN, kilobytes)),
                Style::Broken(2),
            );
    let again = rows.iter().filter(|row| row.again.is_some());
    let begin = rows.first().map(|row| (seconds(row), 0.0));
    let end = rows.last().map(|row| (seconds(row), again.clone().count() as f64));
    let counted = again.zip(1..).map(|(row, count)| (seconds(row), f64::from(count)));
    let counted = begin.into_iter().chain(counted).chain(end).collect();
    let sent = Plot::new(Kind::Steps, "Segments sent again, in all", "time, s", "").drawn(
        AGAIN,
        counted,
        Style::Line(3),
    );
    let round_trips = Plot::new(Kind::Steps, "Smoothed round trip, ms", "time, s", "").drawn(
        "round trip",
        points(|row| row.srtt.as_nanos() as f64 / 1e6),
        Style::Line(0),
    );
    let key = |name: &str, style| Key { name: name.to_owned(), style };
    let notes = match segments.omitted {
        0 => Vec::new(),
        more => vec![format!("{more} segments more are not shown.")],
    };
    Part {
        title: "Connections of the source that is followed".to_owned(),
        keys: vec![
            key(WINDOW, Style::Line(0)),
            key(FLIGHT, Style::Line(1)),
            key(THRESHOLD, Style::Broken(2)),
            key(AGAIN, Style::Line(3)),
        ],
        content: Content::Plots(vec![windows, sent, round_trips]),
        notes,
    }
}

/// Leaves out rows so that as many remain as a picture can show; what is sent again remains.
fn thinned(rows: Vec<&SegmentRow>) -> Vec<&SegmentRow> {
    let step = rows.len().div_ceil(POINTS_MAX).max(1);
    let keeps = |(place, row): &(usize, &SegmentRow)| place % step == 0 || row.again.is_some();
    rows.into_iter().enumerate().filter(keeps).map(|(_, row)| row).collect()
}

fn seconds(row: &SegmentRow) -> f64 {
    row.at.as_nanos() as f64 / 1e9
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}

/// Points of a line, beside those of what is sent again.
const POINTS_MAX: usize = 4000;
const WINDOW: &str = "congestion window";
const FLIGHT: &str = "under way";
const THRESHOLD: &str = "threshold of slow start";
const AGAIN: &str = "sent again";
