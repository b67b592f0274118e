//! Plots a comparison: the rate of each leaf beside its ideal, the delays of its packets, and for
//! each scheduler its share error, drops, fairness and cost.

use crate::axis::number;
use crate::chart::{Area, FINE, Failure, fine, text};
use crate::look::{COLOURS, GREY};
use crate::picture::{Content, Key, Part, Picture, width};
use crate::plot::{Kind, Plot, Reach, Style};
use crate::tracks::spread;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use weir_sim::compare::{Comparison, Leaf, Measured};
use weir_sim::replicate::Estimate;
use weir_sim::timeline::Tracks;

/// Returns the picture. `tracks` are those of the first run under each scheduler that has a result.
///
/// # Errors
/// When there is nothing to draw, or too much.
pub fn picture(comparison: &Comparison, tracks: &[(String, Tracks)]) -> Result<Picture, String> {
    let measured =
        comparison.rows.iter().filter_map(|row| Some((row.scheduler, row.result.clone()?)));
    let measured: Vec<(&'static str, Measured)> = measured.collect();
    let leaves = measured.first().map_or(0, |row| row.1.leaves.len());
    if leaves == 0 {
        return Err("there is no result to draw".to_owned());
    }
    if leaves * measured.len() > BARS_MAX {
        let bars = leaves * measured.len();
        return Err(format!(
            "{leaves} classes under {} schedulers are {bars} bars, a picture shows {BARS_MAX}; \
             name fewer schedulers",
            measured.len()
        ));
    }
    let place = comparison.outlet.as_ref().map(|(link, from)| format!("{link} from {from}, "));
    let about = format!(
        "{}written for {}, seed {}",
        place.unwrap_or_default(),
        comparison.written_for,
        comparison.seed
    );
    let keys =
        measured.iter().enumerate().map(|(index, row)| scheduler_key(index, row.0)).collect();
    let replications = comparison.replications;
    let painter = Box::new(move |area: &Area<'_>| {
        let rows: Vec<(&str, &Measured)> = measured.iter().map(|row| (row.0, &row.1)).collect();
        paint(area, replications, &rows)
    });
    let content = Content::Painted(2 * PANEL + SUMS_HEIGHT, painter);
    let sums = Part { title: String::new(), keys, content, notes: Vec::new() };
    let parts = std::iter::once(sums).chain(over_time(tracks)).collect();
    Ok(Picture { title: comparison.scenario.clone(), about, parts })
}

fn scheduler_key(index: usize, name: &str) -> Key {
    let style = if index < COLOURS.len() { Style::Line(index) } else { Style::Broken(index) };
    Key { name: name.to_owned(), style }
}

/// Draws, a plot a class, what it sent and how long its packets took under each scheduler.
fn over_time(tracks: &[(String, Tracks)]) -> Option<Part> {
    let first = &tracks.first()?.1;
    let mut classes: Vec<&str> = first.classes.iter().map(|track| track.name.as_str()).collect();
    let more = classes.len().saturating_sub(CLASSES_MAX);
    classes.truncate(CLASSES_MAX);
    let plots = classes.iter().map(|class| [sent(class, tracks), delays(class, tracks)]);
    let plots = alike(plots.collect());
    let mut notes = vec![format!(
        "One run under each scheduler, bins of {} s. {COVERED}",
        number(first.step_s)
    )];
    if more > 0 {
        notes.push(format!("{more} classes more are left out here."));
    }
    let keys = tracks.iter().enumerate().map(|(index, row)| scheduler_key(index, &row.0)).collect();
    let title = "Class by class over time".to_owned();
    Some(Part { title, keys, content: Content::Plots(plots), notes })
}

/// Gives the plots of one question one scale, so that classes can be compared.
fn alike(pairs: Vec<[Plot; 2]>) -> Vec<Plot> {
    let points = |question: usize| {
        let all = pairs.iter().flat_map(move |pair| &pair[question].series);
        all.flat_map(|series| &series.points).filter(|it| it.0.is_finite() && it.1.is_finite())
    };
    let top = points(0).map(|point| point.1).fold(0.0, f64::max);
    let delays = || points(1).map(|point| point.0).filter(|delay| *delay > 0.0);
    let (low, high) = (delays().fold(f64::MAX, f64::min), delays().fold(0.0, f64::max));
    let reach = (low < high).then_some((low, high));
    let shared = |[mut sent, mut delays]: [Plot; 2]| {
        sent.reach.y = Some(top);
        delays.reach.x = reach;
        [sent, delays]
    };
    pairs.into_iter().flat_map(shared).collect()
}

const COVERED: &str = "Where a line is not seen, that of a later scheduler covers it.";

fn style(index: usize) -> Style {
    if index < COLOURS.len() { Style::Line(index) } else { Style::Broken(index) }
}

fn sent(class: &str, tracks: &[(String, Tracks)]) -> Plot {
    let mut plot = Plot::new(Kind::Lines, &format!("{class}: sent, Mbit/s"), "time, s", "");
    for (index, (scheduler, tracks)) in tracks.iter().enumerate() {
        let Some(track) = tracks.classes.iter().find(|track| track.name == class) else { continue };
        let step = tracks.step_s;
        let middle = |(bin, bps): (usize, &Option<f64>)| {
            ((bin as f64 + 0.5) * step, bps.unwrap_or(f64::NAN) * 1e-6)
        };
        let sent = &track.history.sent_bps;
        let points = sent.iter().enumerate().map(middle).collect();
        plot.reach.x = Some((0.0, sent.len() as f64 * step));
        plot = plot.drawn(scheduler, points, style(index));
    }
    plot
}

fn delays(class: &str, tracks: &[(String, Tracks)]) -> Plot {
    let title = format!("{class}: packets that took at most so long, %");
    let mut plot = Plot::new(Kind::Lines, &title, "delay, ms", "");
    plot = Plot { log_x: true, reach: Reach { y: Some(100.0), ..Reach::default() }, ..plot };
    for (index, (scheduler, tracks)) in tracks.iter().enumerate() {
        let Some(track) = tracks.classes.iter().find(|track| track.name == class) else { continue };
        plot = plot.drawn(scheduler, spread(track), style(index));
    }
    plot
}

type Rows<'a> = [(&'a str, &'a Measured)];

fn paint(area: &Area<'_>, replications: usize, measured: &Rows<'_>) -> Result<(), Failure> {
    let (rates, rest) = area.split_vertically(fine(PANEL));
    let (delays, sums) = rest.split_vertically(fine(PANEL));
    let all = || measured.iter().flat_map(|row| &row.1.leaves);
    let most = |of: Of| all().map(|leaf| upper(of(leaf))).fold(1e-3, f64::max);
    let sent: Of = |leaf| leaf.sent_bps.times(1e-6);
    let ideal: Of = |leaf| leaf.ideal_bps.times(1e-6);
    let top = most(sent).max(most(ideal)) * 1.1;
    let title = match replications {
        1 => "Sent, Mbit/s; the line is the fluid ideal",
        _ => "Sent, Mbit/s, with its 95 % confidence interval; the line is the fluid ideal",
    };
    let panel = Panel { title, value: sent, beside: Beside::Line(ideal) };
    panel.draw(&rates, 0.0..top, measured)?;
    let half: Of = |leaf| in_ms(leaf.delay_p50_us);
    let most_wait: Of = |leaf| in_ms(leaf.delay_p99_us);
    let title = "Delay, ms: the point is the median, the whisker ends where 99 % of packets are in";
    let panel = Panel { title, value: half, beside: Beside::Whisker(most_wait) };
    let top = most(most_wait) * 2.0;
    let least = all().map(|leaf| half(leaf).mean).fold(top, f64::min) / 2.0;
    panel.draw(&delays, (least..top).log_scale(), measured)?;
    let sums = sums.split_evenly((1, SUMS.len()));
    for (area, (title, of)) in sums.iter().zip(SUMS) {
        sum(area, title, of, measured)?;
    }
    Ok(())
}

/// One set of marks: a group for each leaf, in it a mark for each scheduler. A bar begins at zero,
/// which a logarithmic axis does not have, so there it is a point with a whisker.
struct Panel {
    title: &'static str,
    value: Of,
    beside: Beside,
}

/// The additional mark at each bar.
enum Beside {
    /// A line across it.
    Line(Of),
    /// A whisker up to it; the mark itself is a point.
    Whisker(Of),
}

impl Panel {
    fn draw<Y>(&self, area: &Area<'_>, range: Y, measured: &Rows<'_>) -> Result<(), Failure>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let leaves = &measured[0].1.leaves;
        area.draw(&Text::new(self.title, (fine(14) as i32, fine(4) as i32), text(15, &BLACK)))?;
        let mut chart = ChartBuilder::on(area)
            .margin(fine(8))
            .margin_top(fine(30))
            .x_label_area_size(fine(24))
            .y_label_area_size(fine(48))
            .build_cartesian_2d(0.0..leaves.len() as f64, range)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().x_labels(0).light_line_style(TRANSPARENT);
        mesh.bold_line_style(BLACK.mix(0.1).stroke_width(FINE));
        mesh.axis_style(BLACK.mix(0.45).stroke_width(FINE)).set_all_tick_mark_size(fine(3));
        mesh.y_labels(6).y_label_formatter(&number_of).label_style(text(13, &GREY)).draw()?;
        for (index, (_, result)) in measured.iter().enumerate() {
            let colour = colour(index);
            let rows = result.leaves.iter().enumerate();
            let rows = rows.map(|(place, leaf)| (bar(place, index, measured.len()), leaf));
            let whiskers = rows.clone().flat_map(|(place, leaf)| {
                let also = match self.beside {
                    Beside::Line(_) => None,
                    Beside::Whisker(of) => Some(of(leaf)),
                };
                let all = [Some((self.value)(leaf)), also].into_iter().flatten();
                all.filter_map(move |estimate| whisker(place, estimate))
            });
            match self.beside {
                Beside::Line(of) => {
                    chart.draw_series(rows.clone().map(|((left, right), leaf)| {
                        let corners = [(left, FLOOR), (right, (self.value)(leaf).mean)];
                        Rectangle::new(corners, colour.filled())
                    }))?;
                    chart.draw_series(rows.clone().map(|((left, right), leaf)| {
                        let ends = vec![(left, of(leaf).mean), (right, of(leaf).mean)];
                        PathElement::new(ends, BLACK.stroke_width(2 * FINE))
                    }))?;
                }
                Beside::Whisker(of) => {
                    chart.draw_series(rows.clone().map(|(place, leaf)| {
                        let ends = [(self.value)(leaf).mean, of(leaf).mean];
                        PathElement::new(stem(place, ends), colour.stroke_width(2 * FINE))
                    }))?;
                    chart.draw_series(rows.map(|((left, right), leaf)| {
                        let at = ((left + right) / 2.0, (self.value)(leaf).mean);
                        Circle::new(at, fine(4), colour.filled())
                    }))?;
                }
            }
            chart.draw_series(whiskers)?;
        }
        let bottom = chart.plotting_area().get_pixel_range().1.end;
        for (place, leaf) in leaves.iter().enumerate() {
            let (x, _) = chart.backend_coord(&(place as f64 + 0.5, FLOOR));
            // The chart's pixels are those of the whole plot; an area draws from its own corner.
            let (left, top) = area.get_base_pixel();
            let style = text(14, &GREY).pos(Pos::new(HPos::Center, VPos::Top));
            let at = (x - left, bottom + fine(6) as i32 - top);
            area.draw(&Text::new(leaf.name.clone(), at, style))?;
        }
        Ok(())
    }
}

/// Draws a figure of each scheduler as a bar.
fn sum(area: &Area<'_>, title: &str, of: Sum, measured: &Rows<'_>) -> Result<(), Failure> {
    let top = measured.iter().filter_map(|row| of(row.1)).map(upper).fold(1e-3, f64::max) * 1.1;
    area.draw(&Text::new(title, (fine(14) as i32, fine(4) as i32), text(14, &BLACK)))?;
    let mut chart = ChartBuilder::on(area)
        .margin(fine(8))
        .margin_top(fine(28))
        .x_label_area_size(fine(NAMES_HEIGHT))
        .y_label_area_size(fine(46))
        .build_cartesian_2d(0.0..measured.len() as f64, 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().disable_x_axis().light_line_style(TRANSPARENT);
    mesh.bold_line_style(BLACK.mix(0.1).stroke_width(FINE));
    mesh.axis_style(BLACK.mix(0.45).stroke_width(FINE)).set_all_tick_mark_size(fine(3));
    mesh.y_labels(5).y_label_formatter(&number_of).label_style(text(12, &GREY)).draw()?;
    for (index, (_, result)) in measured.iter().enumerate() {
        if let Some(value) = of(result) {
            let (left, right) = (index as f64 + 0.1, index as f64 + 0.9);
            let corners = [(left, 0.0), (right, value.mean)];
            chart.draw_series([Rectangle::new(corners, colour(index).filled())])?;
            chart.draw_series(whisker((left, right), value))?;
        }
    }
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let (left, top) = area.get_base_pixel();
    let room = (columns.end - columns.start) as u32 / fine(1) / measured.len().max(1) as u32;
    let longest = measured.iter().map(|row| width(row.0, 10)).max().unwrap_or(0);
    let lines = longest.div_ceil(room.max(1)).clamp(1, NAMES_LINES) as usize;
    for (index, (name, _)) in measured.iter().enumerate() {
        let (x, _) = chart.backend_coord(&(index as f64 + 0.5, 0.0));
        let y = rows.end + fine(4 + (index % lines) as u32 * 11) as i32;
        let style = text(10, &GREY).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new((*name).to_owned(), (x - left, y - top), style))?;
    }
    Ok(())
}

fn number_of(value: &f64) -> String {
    number(*value)
}

/// Returns the upper end of an interval.
fn upper(estimate: Estimate) -> f64 {
    estimate.mean + estimate.within.unwrap_or(0.0)
}

/// Returns a delay in milliseconds, at least the least that is shown.
fn in_ms(micros: Estimate) -> Estimate {
    let ms = micros.times(1e-3);
    Estimate { mean: ms.mean.max(LEAST_MS), ..ms }
}

/// Returns the line from a point up to the end of its whisker, with a cap.
fn stem((left, right): (f64, f64), [low, high]: [f64; 2]) -> Vec<(f64, f64)> {
    let (middle, half) = ((left + right) / 2.0, (right - left) / 5.0);
    vec![(middle, low), (middle, high), (middle - half, high), (middle + half, high)]
}

/// Returns the interval of an estimate as a line in the middle of its bar, if it has one.
fn whisker((left, right): (f64, f64), estimate: Estimate) -> Option<PathElement<(f64, f64)>> {
    let within = estimate.within?;
    let (middle, half) = ((left + right) / 2.0, (right - left) / 6.0);
    let (low, high) = ((estimate.mean - within).max(FLOOR), estimate.mean + within);
    let cap = |at: f64| [(middle, at), (middle - half, at), (middle + half, at), (middle, at)];
    let line = [cap(low), cap(high)].concat();
    Some(PathElement::new(line, BLACK.stroke_width(FINE)))
}

/// Returns the horizontal extent of the bar of scheduler `index` of `count` in the group `place`.
fn bar(place: usize, index: usize, count: usize) -> (f64, f64) {
    let width = (1.0 - 2.0 * MARGIN) / count as f64;
    let left = place as f64 + MARGIN + width * index as f64;
    (left, left + width * 0.9)
}

/// Returns the colour of a scheduler, lighter when colours repeat.
fn colour(index: usize) -> RGBAColor {
    COLOURS[index % COLOURS.len()].mix(if index < COLOURS.len() { 1.0 } else { 0.5 })
}

/// A figure of a scheduler, if it has it.
type Sum = fn(&Measured) -> Option<Estimate>;
/// A figure of a leaf.
type Of = fn(&Leaf) -> Estimate;
const SUMS: [(&str, Sum); 4] = [
    ("Share error, %", |result| Some(result.share_error.times(100.0))),
    ("Dropped, % of offered", |result| Some(result.loss.times(100.0))),
    ("Fairness index", |result| Some(result.fairness)),
    ("Cost, times the plainest", |result| result.cost.map(|mean| Estimate { mean, within: None })),
];
const PANEL: u32 = 260;
const SUMS_HEIGHT: u32 = 210;
/// Room for the names of schedulers under a panel, in this many lines.
const NAMES_HEIGHT: u32 = 38;
const NAMES_LINES: u32 = 3;
/// Bound: bars of a comparison; one with more is refused. More would be too narrow to see.
const BARS_MAX: usize = 160;
/// Classes that are drawn over time.
const CLASSES_MAX: usize = 8;
const MARGIN: f64 = 0.08;
/// The least delay shown.
const LEAST_MS: f64 = 1e-3;
/// The lower end of bars: below every value, also on a logarithmic scale.
const FLOOR: f64 = 1e-4;
