//! The picture of what classes did over time: what each sent, what waited, what was dropped, and
//! how long packets took.
//!
//! A picture shows [`SERIES_MAX`] classes at most. Where there are more, those that were offered
//! most keep their lines, and all others are one, whose delays are the longest of theirs.

use crate::picture::{Content, Key, Part, Picture};
use crate::plot::{Kind, Plot, Reach, Style};
use std::borrow::Cow;
use weir_sim::timeline::{Track, Tracks};
use weir_trace::series::ClassHistory;

/// Returns the picture of these links.
pub fn picture(all: &[Tracks]) -> Picture {
    let several = all.len() > 1;
    let part = |tracks: &Tracks| Part {
        title: if several { tracks.about.clone() } else { String::new() },
        ..part(tracks)
    };
    let about = match all {
        [one] => one.about.clone(),
        _ => String::new(),
    };
    let title = all.first().map(|tracks| tracks.title.clone()).unwrap_or_default();
    Picture { title, about, parts: all.iter().map(part).collect() }
}

fn part(tracks: &Tracks) -> Part {
    let shown = shown(tracks);
    let view = View { tracks, shown: &shown };
    let mut keys: Vec<Key> = shown.iter().enumerate().map(key).collect();
    if !tracks.rate_bps.is_empty() {
        keys.push(Key { name: "rate of the line".to_owned(), style: Style::Limit });
    }
    let plots = vec![
        view.stacked("Sent, one class upon another, Mbit/s", |class| &class.sent_bps, 1e-6),
        view.lines("Sent by each class, Mbit/s", |class| &class.sent_bps, 1e-6),
        view.lines("Backlog, KB", |class| &class.backlog_bytes, 1e-3),
        view.stacked("Dropped, packets a second", |class| &class.dropped_pps, 1.0),
        view.delays(),
        view.distribution(),
    ];
    Part { title: String::new(), keys, content: Content::Plots(plots), notes: notes(tracks) }
}

fn key((place, track): (usize, &Cow<'_, Track>)) -> Key {
    Key { name: track.name.clone(), style: Style::Line(place) }
}

/// A row of a class.
type Row = fn(&ClassHistory) -> &Vec<Option<f64>>;

/// The tracks of a link, and those of them that are drawn.
struct View<'a> {
    tracks: &'a Tracks,
    shown: &'a [Cow<'a, Track>],
}

impl View<'_> {
    fn axis(&self, kind: Kind, title: &str) -> Plot {
        let bins = self.shown.first().map_or(0, |track| track.history.sent_bps.len());
        let end = bins as f64 * self.tracks.step_s;
        let reach = Reach { x: Some((0.0, end)), ..Reach::default() };
        Plot { reach, ..Plot::new(kind, title, "time, s", "") }
    }

    /// Returns points at the starts of bins, and one at the end of the last.
    fn held(&self, values: &[Option<f64>], unit: f64) -> Vec<(f64, f64)> {
        let step = self.tracks.step_s;
        let all = values.iter().chain(values.last()).enumerate();
        all.map(|(bin, value)| (bin as f64 * step, value.unwrap_or(f64::NAN) * unit)).collect()
    }

    /// Returns points in the middle of bins.
    fn middle(&self, values: impl Iterator<Item = f64>, unit: f64) -> Vec<(f64, f64)> {
        let step = self.tracks.step_s;
        values.enumerate().map(|(bin, value)| ((bin as f64 + 0.5) * step, value * unit)).collect()
    }

    fn stacked(&self, title: &str, of: Row, unit: f64) -> Plot {
        let plot = self.shown.iter().enumerate().fold(
            self.axis(Kind::Stacked, title),
            |plot, (place, track)| {
                plot.drawn(&track.name, self.held(of(&track.history), unit), Style::Line(place))
            },
        );
        if unit == 1.0 || self.tracks.rate_bps.is_empty() {
            return plot;
        }
        let mut rate: Vec<_> =
            self.tracks.rate_bps.iter().map(|row| (row.0, row.1 * unit)).collect();
        let end = plot.reach.x.map_or(0.0, |reach| reach.1);
        rate.extend(rate.last().map(|last| (end, last.1)));
        plot.drawn("rate of the line", rate, Style::Limit)
    }

    fn lines(&self, title: &str, of: Row, unit: f64) -> Plot {
        let tracks = self.shown.iter().enumerate();
        tracks.fold(self.axis(Kind::Lines, title), |plot, (place, track)| {
            let values = of(&track.history).iter().map(|value| value.unwrap_or(f64::NAN));
            let points = self.middle(values, unit);
            plot.drawn(&track.name, points, Style::Line(place))
        })
    }

    /// Draws quantiles of delays over time.
    fn delays(&self) -> Plot {
        let title = "Delay, ms: 99 in 100 packets (lines) and half of them (dashes) took less";
        let mut plot = Plot { log_y: true, ..self.axis(Kind::Lines, title) };
        for (place, track) in self.shown.iter().enumerate() {
            let points = |values: &[Option<f64>]| {
                let values = values.iter().map(|value| value.map_or(f64::NAN, at_least));
                self.middle(values, 1e-3)
            };
            let (half, most) = (points(&track.history.p50_us), points(&track.history.p99_us));
            plot = plot.drawn(format!("{}, half", track.name), half, Style::Broken(place));
            plot = plot.drawn(&track.name, most, Style::Line(place));
        }
        plot
    }

    /// Draws the distribution of delays.
    fn distribution(&self) -> Plot {
        let title = "Packets that took at most so long, %";
        let mut plot = Plot::new(Kind::Lines, title, "delay, ms", "");
        plot = Plot { log_x: true, reach: Reach { y: Some(100.0), ..Reach::default() }, ..plot };
        for (place, track) in self.shown.iter().enumerate() {
            plot = plot.drawn(&track.name, spread(track), Style::Line(place));
        }
        plot
    }
}

/// Returns a distribution in ms and per cent; the fastest packets, less than 1 %, are left out, or
/// one of them would take half of a logarithmic axis.
pub(crate) fn spread(track: &Track) -> Vec<(f64, f64)> {
    let shown = track.delays.iter().filter(|point| point.1 >= 0.01);
    shown.map(|point| (at_least(point.0) * 1e-3, point.1 * 100.0)).collect()
}

/// A logarithmic axis has no zero: a packet that did not wait is drawn at the least delay.
fn at_least(micros: f64) -> f64 {
    micros.max(DELAY_MIN_US)
}

/// Says what was dropped, and why.
fn notes(tracks: &Tracks) -> Vec<String> {
    let row = |track: &Track| {
        let causes: Vec<_> =
            track.drops.iter().map(|(reason, packets)| format!("{packets} {reason}")).collect();
        (!causes.is_empty()).then(|| format!("{}: {}", track.name, causes.join(", ")))
    };
    let rows: Vec<_> = tracks.classes.iter().filter_map(row).collect();
    let more = rows.len().saturating_sub(NOTES_MAX);
    let mut text = rows.into_iter().take(NOTES_MAX).collect::<Vec<_>>().join("; ");
    if more > 0 {
        text += &format!("; and {more} classes more");
    }
    if text.is_empty() {
        text = "none".to_owned();
    }
    let step = crate::number(tracks.step_s);
    let bins = format!("Bins of {step} s. Packets dropped: {text}.");
    tracks.notes.iter().cloned().chain([bins]).collect()
}

/// Returns the classes that are drawn.
fn shown(tracks: &Tracks) -> Vec<Cow<'_, Track>> {
    let is_idle =
        |track: &&Track| track.history.offered_bps.iter().flatten().all(|bps| *bps == 0.0);
    let busy: Vec<&Track> = tracks.classes.iter().filter(|track| !is_idle(track)).collect();
    let all = if busy.is_empty() { tracks.classes.iter().collect() } else { busy };
    if all.len() <= SERIES_MAX {
        return all.into_iter().map(Cow::Borrowed).collect();
    }
    let offered = |track: &Track| track.history.offered_bps.iter().flatten().sum::<f64>();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|one, other| offered(all[*other]).total_cmp(&offered(all[*one])));
    let mut first: Vec<usize> = order[..SERIES_MAX - 1].to_vec();
    first.sort_unstable();
    let others = order[SERIES_MAX - 1..].iter().map(|place| all[*place]);
    let mut shown: Vec<_> = first.iter().map(|place| Cow::Borrowed(all[*place])).collect();
    shown.push(Cow::Owned(joined(&others.collect::<Vec<_>>())));
    shown
}

/// Returns several classes as one.
fn joined(classes: &[&Track]) -> Track {
    let mut all = Track { name: format!("{} other classes", classes.len()), ..Track::default() };
    let add = |sums: &mut Vec<Option<f64>>, values: &[Option<f64>]| {
        sums.resize(sums.len().max(values.len()), Some(0.0));
        let pairs = sums.iter_mut().zip(values);
        pairs.for_each(|(sum, value)| *sum = sum.zip(*value).map(|(sum, value)| sum + value));
    };
    let most = |highest: &mut Vec<Option<f64>>, values: &[Option<f64>]| {
        highest.resize(highest.len().max(values.len()), None);
        let pairs = highest.iter_mut().zip(values);
        // Nothing is less than any delay.
        pairs.for_each(|(most, value)| {
            *most = if value > most { *value } else { *most };
        });
    };
    for ClassHistory {
        sent_bps, offered_bps, backlog_bytes, p50_us, p99_us, dropped_pps, ..
    } in classes.iter().map(|track| &track.history)
    {
        add(&mut all.history.offered_bps, offered_bps);
        add(&mut all.history.sent_bps, sent_bps);
        add(&mut all.history.backlog_bytes, backlog_bytes);
        add(&mut all.history.dropped_pps, dropped_pps);
        most(&mut all.history.p50_us, p50_us);
        most(&mut all.history.p99_us, p99_us);
    }
    all
}

/// Bound: lines of a picture, each with a colour of its own; the smallest are joined to one.
pub const SERIES_MAX: usize = crate::look::COLOURS.len();
/// Classes whose drops are named.
const NOTES_MAX: usize = 4;
/// The least delay that is drawn.
const DELAY_MIN_US: f64 = 1.0;
