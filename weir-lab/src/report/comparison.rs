//! Plots a comparison: the rate of each leaf beside its ideal, the delays of its packets, and for
//! each scheduler its share error, drops, fairness and cost.

use super::plot::COLOURS;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use weir_sim::compare::{Comparison, Leaf, Measured};
use weir_sim::replicate::Estimate;

/// Returns the plot as SVG.
///
/// # Errors
/// When there is nothing to draw, or drawing fails.
pub fn svg(comparison: &Comparison) -> Result<String, String> {
    let measured =
        comparison.rows.iter().filter_map(|row| Some((row.scheduler, row.result.as_ref()?)));
    let measured: Vec<(&str, &Measured)> = measured.collect();
    let leaves = measured.first().map_or(0, |row| row.1.leaves.len());
    if leaves == 0 {
        return Err("there is no result to draw".to_owned());
    }
    if leaves > LEAVES_MAX {
        return Err(format!("{leaves} classes are more than a plot shows, {LEAVES_MAX}"));
    }
    let mut text = String::new();
    {
        let width = WIDTH.max(leaves as u32 * measured.len() as u32 * BAR_WIDTH);
        let area = SVGBackend::with_string(&mut text, (width, HEIGHT)).into_drawing_area();
        draw(&area, comparison, &measured).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = Box<dyn std::error::Error>;
type Rows<'a> = [(&'a str, &'a Measured)];

fn draw(area: &Area<'_>, comparison: &Comparison, measured: &Rows<'_>) -> Result<(), Failure> {
    area.fill(&WHITE)?;
    let (head, rest) = area.split_vertically(HEAD);
    let (rates, rest) = rest.split_vertically(PANEL);
    let (delays, sums) = rest.split_vertically(PANEL);
    legend(&head, comparison, measured)?;
    let all = || measured.iter().flat_map(|row| &row.1.leaves);
    let most = |of: Of| all().map(|leaf| upper(of(leaf))).fold(1e-3, f64::max);
    let sent: Of = |leaf| leaf.sent_bps.times(1e-6);
    let ideal: Of = |leaf| leaf.ideal_bps.times(1e-6);
    let top = most(sent).max(most(ideal)) * 1.1;
    let title = match comparison.replications {
        1 => "sent; the line is the fluid ideal",
        _ => "sent, with its 95 % confidence interval; the line is the fluid ideal",
    };
    let panel = Panel { title, unit: "Mbit/s", value: sent, beside: Beside::Line(ideal) };
    panel.draw(&rates, 0.0..top, measured)?;
    let half: Of = |leaf| in_ms(leaf.delay_p50_us);
    let most_wait: Of = |leaf| in_ms(leaf.delay_p99_us);
    let title = "delay: half of the packets within the filled bar, 99 % within the frame";
    let panel = Panel { title, unit: "ms", value: half, beside: Beside::Frame(most_wait) };
    let top = most(most_wait) * 2.0;
    panel.draw(&delays, (LEAST_MS..top).log_scale(), measured)?;
    let sums = sums.split_evenly((1, SUMS.len()));
    for (area, (title, of)) in sums.iter().zip(SUMS) {
        sum(area, title, of, measured)?;
    }
    area.present()?;
    Ok(())
}

/// Draws the name of the scenario, and the colour of each scheduler.
fn legend(area: &Area<'_>, comparison: &Comparison, measured: &Rows<'_>) -> Result<(), Failure> {
    let place = comparison.outlet.as_ref().map(|(link, from)| format!(" at {link} from {from}"));
    let title = format!("{}{}", comparison.scenario, place.unwrap_or_default());
    area.draw(&Text::new(title, (14, 8), (FONT, 17)))?;
    let mut x = 14;
    for (index, (scheduler, _)) in measured.iter().enumerate() {
        area.draw(&Rectangle::new([(x, 36), (x + 11, 47)], colour(index).filled()))?;
        area.draw(&Text::new((*scheduler).to_owned(), (x + 16, 35), (FONT, 14)))?;
        x += 34 + scheduler.len() as i32 * 9;
    }
    Ok(())
}

/// One set of bars: a group for each leaf, in it a bar for each scheduler.
struct Panel {
    title: &'static str,
    unit: &'static str,
    value: Of,
    beside: Beside,
}

/// The additional mark at each bar.
enum Beside {
    /// A line across it.
    Line(Of),
    /// A frame around it.
    Frame(Of),
}

impl Panel {
    fn draw<Y>(&self, area: &Area<'_>, range: Y, measured: &Rows<'_>) -> Result<(), Failure>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let leaves = &measured[0].1.leaves;
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 15))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..leaves.len() as f64, range)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().x_labels(0).light_line_style(TRANSPARENT).y_desc(self.unit);
        mesh.y_labels(6).label_style((FONT, 13)).axis_desc_style((FONT, 13)).draw()?;
        for (index, (_, result)) in measured.iter().enumerate() {
            let colour = colour(index);
            let rows = result.leaves.iter().enumerate();
            let rows = rows.map(|(place, leaf)| (bar(place, index, measured.len()), leaf));
            chart.draw_series(rows.clone().map(|((left, right), leaf)| {
                let corners = [(left, FLOOR), (right, (self.value)(leaf).mean)];
                Rectangle::new(corners, colour.filled())
            }))?;
            let whiskers = rows.clone().flat_map(|(place, leaf)| {
                let also = match self.beside {
                    Beside::Line(_) => None,
                    Beside::Frame(of) => Some(of(leaf)),
                };
                let all = [Some((self.value)(leaf)), also].into_iter().flatten();
                all.filter_map(move |estimate| whisker(place, estimate))
            });
            chart.draw_series(whiskers)?;
            match self.beside {
                Beside::Line(of) => chart.draw_series(rows.map(|((left, right), leaf)| {
                    let ends = vec![(left, of(leaf).mean), (right, of(leaf).mean)];
                    PathElement::new(ends, BLACK.stroke_width(2)).into_dyn()
                }))?,
                Beside::Frame(of) => chart.draw_series(rows.map(|((left, right), leaf)| {
                    let corners = [(left, FLOOR), (right, of(leaf).mean)];
                    Rectangle::new(corners, colour.stroke_width(2)).into_dyn()
                }))?,
            };
        }
        let bottom = chart.plotting_area().get_pixel_range().1.end;
        for (place, leaf) in leaves.iter().enumerate() {
            let (x, _) = chart.backend_coord(&(place as f64 + 0.5, FLOOR));
            // The chart's pixels are those of the whole plot; an area draws from its own corner.
            let (left, top) = area.get_base_pixel();
            let style = TextStyle::from((FONT, 14).into_font());
            let style = style.pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(leaf.name.clone(), (x - left, bottom + 6 - top), style))?;
        }
        Ok(())
    }
}

/// Draws a figure of each scheduler as a bar.
fn sum(area: &Area<'_>, title: &str, of: Sum, measured: &Rows<'_>) -> Result<(), Failure> {
    let top = measured.iter().filter_map(|row| of(row.1)).map(upper).fold(1e-3, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 14))
        .margin(8)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..measured.len() as f64, 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().disable_x_axis().light_line_style(TRANSPARENT);
    mesh.y_labels(5).label_style((FONT, 12)).draw()?;
    for (index, (_, result)) in measured.iter().enumerate() {
        if let Some(value) = of(result) {
            let (left, right) = (index as f64 + 0.1, index as f64 + 0.9);
            let corners = [(left, 0.0), (right, value.mean)];
            chart.draw_series([Rectangle::new(corners, colour(index).filled())])?;
            chart.draw_series(whisker((left, right), value))?;
        }
    }
    Ok(())
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

/// Returns the interval of an estimate as a line in the middle of its bar, if it has one.
fn whisker((left, right): (f64, f64), estimate: Estimate) -> Option<PathElement<(f64, f64)>> {
    let within = estimate.within?;
    let (middle, half) = ((left + right) / 2.0, (right - left) / 6.0);
    let (low, high) = ((estimate.mean - within).max(FLOOR), estimate.mean + within);
    let cap = |at: f64| [(middle, at), (middle - half, at), (middle + half, at), (middle, at)];
    let line = [cap(low), cap(high)].concat();
    Some(PathElement::new(line, BLACK.stroke_width(1)))
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
    ("share error, %", |result| Some(result.share_error.times(100.0))),
    ("dropped, % of offered", |result| Some(result.loss.times(100.0))),
    ("fairness index", |result| Some(result.fairness)),
    ("cost, fifo = 1", |result| result.cost.map(|mean| Estimate { mean, within: None })),
];
const FONT: &str = "sans-serif";
const WIDTH: u32 = 900;
const HEAD: u32 = 58;
const PANEL: u32 = 270;
const HEIGHT: u32 = HEAD + 2 * PANEL + 200;
const BAR_WIDTH: u32 = 12;
const LEAVES_MAX: usize = 64;
const MARGIN: f64 = 0.08;
/// The least delay shown.
const LEAST_MS: f64 = 1e-3;
/// The lower end of bars: below every value, also on a logarithmic scale.
const FLOOR: f64 = 1e-4;
