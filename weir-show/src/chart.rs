//! Draws a plot into an area. The legend is beside it, so that it never covers a point.

use crate::axis::Axis;
use crate::look::{COLOURS, FONT, GREY, css};
use crate::plot::{Kind, Plot, Series, Style};
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A part of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
pub(crate) type Failure = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), Failure>;
type Points = Vec<(f64, f64)>;

/// Where a drawn plot has its axes, in the picture's own pixels, and what they show.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    /// The left, upper, right and lower edge.
    pub edges: [f64; 4],
    /// The horizontal axis, in the values of the plot.
    pub x: Axis,
    /// The vertical axis, in the values of the plot.
    pub y: Axis,
}

/// The axes of a plot.
struct Axes {
    x: Axis,
    y: Axis,
}

/// Draws a plot with its title into an area; without a title if that stands elsewhere.
pub(crate) fn draw(area: &Area<'_>, plot: &Plot, titled: bool) -> Result<Frame, Failure> {
    let axes = axes(plot);
    let left = match plot.kind {
        Kind::Points => NAMES_WIDTH,
        _ if plot.y.is_empty() => NUMBERS_WIDTH,
        _ => NUMBERS_WIDTH + LABEL_WIDTH,
    };
    let head = if titled { TITLE_HEIGHT } else { 0 };
    if titled {
        area.draw(&Text::new(
            plot.title.clone(),
            (fine(14) as i32, fine(4) as i32),
            text(15, &BLACK),
        ))?;
    }
    let bottom = match (plot.x.is_empty(), plot.names.is_empty()) {
        (true, true) => 22,
        (true, false) => 40,
        _ => 36,
    };
    let mut chart = ChartBuilder::on(area)
        .margin(fine(4))
        .margin_top(fine(8 + head))
        .margin_right(fine(16))
        .x_label_area_size(fine(bottom))
        .y_label_area_size(fine(left))
        .build_cartesian_2d(axes.x.clone(), axes.y.clone())?;
    draw_mesh(&mut chart, plot, &axes)?;
    let mut below = Vec::new();
    for index in 0..plot.series.len() {
        draw_series(&mut chart, plot, index, &axes, &mut below)?;
    }
    draw_names(area, &chart, plot)?;
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let px = |at: i32| f64::from(at) / f64::from(FINE);
    let edges = [px(columns.start), px(rows.start), px(columns.end), px(rows.end)];
    Ok(Frame { edges, x: axes.x, y: axes.y })
}

fn draw_mesh(chart: &mut Chart<'_, '_>, plot: &Plot, Axes { x, y }: &Axes) -> Drawn {
    let classes = plot.kind == Kind::Points;
    let at_x = |place: &f64| if plot.names.is_empty() { x.text(*place) } else { String::new() };
    let at_y = |place: &f64| if classes { class(plot, place) } else { y.text(*place) };
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1).stroke_width(FINE))
        .axis_style(BLACK.mix(0.45).stroke_width(FINE))
        .set_all_tick_mark_size(fine(3))
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&at_x)
        .y_label_formatter(&at_y)
        .label_style(text(13, &GREY))
        .axis_desc_style(text(13, &BLACK));
    if !plot.names.is_empty() {
        // The names are drawn below, each in the middle of its group.
        mesh.disable_x_mesh().x_labels(0);
    }
    if !x.log {
        mesh.disable_x_mesh();
    }
    mesh.draw()
}

/// Draws names of groups under the axis; where they are too many for one line, alternately in two.
fn draw_names(area: &Area<'_>, chart: &Chart<'_, '_>, plot: &Plot) -> Drawn {
    let Some(longest) = plot.names.iter().map(|name| name.chars().count()).max() else {
        return Ok(());
    };
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let (left, top) = area.get_base_pixel();
    let room = (columns.end - columns.start) as usize / fine(1) as usize / plot.names.len();
    let lines = (longest * LETTER_WIDTH).div_ceil(room.max(1)).clamp(1, 3);
    for (index, name) in plot.names.iter().enumerate() {
        let (x, _) = chart.backend_coord(&(index as f64, 0.0));
        let y = rows.end + fine(5 + (index % lines) as u32 * 11) as i32;
        let style = text(if lines > 1 { 10 } else { 13 }, &GREY);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(name.clone(), (x - left, y - top), style))?;
    }
    Ok(())
}

/// Returns the class whose packets are drawn at this height.
fn class(plot: &Plot, y: &f64) -> String {
    let here =
        |series: &&Series| series.points.first().is_some_and(|point| (point.1 - y).abs() < 1e-9);
    plot.series.iter().find(here).map(|series| series.name.clone()).unwrap_or_default()
}

/// Draws a series; `below` is the upper edge of the areas drawn so far.
fn draw_series(
    chart: &mut Chart<'_, '_>,
    plot: &Plot,
    index: usize,
    axes: &Axes,
    below: &mut Points,
) -> Drawn {
    let series = &plot.series[index];
    let (colour, origin) = (colour(plot, index), Origin::of(series));
    if series.style == Some(Style::Limit) {
        let points = steps(&placed(&series.points, axes, true));
        let line = DashedLineSeries::new(points, fine(5), fine(4), BLACK.stroke_width(FINE));
        return chart.draw_series(line).map(drop);
    }
    if plot.kind == Kind::Stacked {
        return draw_area(chart, series, colour, below);
    }
    if plot.kind == Kind::Lines && series.style.is_some() {
        return draw_styled(chart, series, colour, axes);
    }
    let points = placed(&thinned(&series.points), axes, true);
    if origin == Origin::Paper && plot.kind != Kind::Bars {
        let cross = |point| Cross::new(point, fine(5), colour.stroke_width(2 * FINE));
        return chart.draw_series(points.into_iter().map(cross)).map(drop);
    }
    // The eighth line has the colour of the first, and is dashed.
    let broken = origin == Origin::Ideal || index >= COLOURS.len();
    match plot.kind {
        Kind::Lines => {
            let few = points.len() <= MARKED_MAX;
            draw_line(chart, points.clone(), colour, broken)?;
            if few {
                let dot = |point| Circle::new(point, fine(3), colour.filled());
                chart.draw_series(points.into_iter().map(dot))?;
            }
        }
        Kind::Steps => draw_line(chart, steps(&points), colour, broken)?,
        Kind::Points => {
            let dot = |point| Circle::new(point, fine(2), colour.filled());
            chart.draw_series(points.into_iter().map(dot))?;
        }
        Kind::Bars => draw_bars(chart, plot, index, points)?,
        Kind::Stacked | Kind::Cells => {}
    }
    Ok(())
}

fn draw_bars(chart: &mut Chart<'_, '_>, plot: &Plot, index: usize, points: Points) -> Drawn {
    let (colour, origin) = (colour(plot, index), Origin::of(&plot.series[index]));
    let width = 0.8 / plot.series.len() as f64;
    let left = width * index as f64 - 0.4;
    let corners = |(x, y)| [(x + left + width * 0.04, 0.0), (x + left + width * 0.96, y)];
    if origin == Origin::Measured {
        let bar = |point| Rectangle::new(corners(point), colour.filled());
        return chart.draw_series(points.into_iter().map(bar)).map(drop);
    }
    let bar = |point| hollow(corners(point), colour);
    chart.draw_series(points.into_iter().map(bar)).map(drop)
}

/// Returns a rectangle without a filling; the library draws the edges of its own too thin.
fn hollow<S: Into<ShapeStyle>>(
    [(left, bottom), (right, top)]: [(f64, f64); 2],
    colour: S,
) -> PathElement<(f64, f64)> {
    let edge = vec![(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)];
    PathElement::new(edge, colour.into().stroke_width(3 * FINE / 2))
}

/// Draws an area upon those before it, and moves `below` to its upper edge.
fn draw_area(
    chart: &mut Chart<'_, '_>,
    series: &Series,
    colour: RGBColor,
    below: &mut Points,
) -> Drawn {
    if below.is_empty() {
        *below = series.points.iter().map(|point| (point.0, 0.0)).collect();
    }
    let sum = |(point, base): (&(f64, f64), &(f64, f64))| (base.0, base.1 + point.1);
    let above: Points = series.points.iter().zip(below.iter()).map(sum).collect();
    if series.points.iter().any(|point| point.1 > 0.0) {
        let edge = steps(&above).into_iter().chain(steps(below).into_iter().rev());
        let area = Polygon::new(edge.collect::<Points>(), colour.mix(0.85).filled());
        chart.draw_series([area])?;
    }
    *below = above;
    Ok(())
}

/// Draws a line whose style is given, in pieces where points lack.
fn draw_styled(chart: &mut Chart<'_, '_>, series: &Series, colour: RGBColor, axes: &Axes) -> Drawn {
    let points = placed(&series.points, axes, false);
    let pieces = points.split(|point| !point.0.is_finite() || !point.1.is_finite());
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        let piece = piece.to_vec();
        match series.style {
            Some(Style::Dots(_)) => {
                let dot = |point| Circle::new(point, fine(3), colour.filled());
                chart.draw_series(piece.into_iter().map(dot))?;
            }
            _ if piece.len() == 1 => {
                let dot = Circle::new(piece[0], FINE + FINE / 2, colour.filled());
                chart.draw_series([dot])?;
            }
            Some(Style::Broken(_)) => {
                let style = colour.stroke_width(FINE);
                chart.draw_series(DashedLineSeries::new(piece, fine(3), fine(3), style))?;
            }
            _ => {
                let style = colour.stroke_width(FINE * 7 / 4);
                chart.draw_series(LineSeries::new(piece, style))?;
            }
        }
    }
    Ok(())
}

fn draw_line(chart: &mut Chart<'_, '_>, points: Points, colour: RGBColor, broken: bool) -> Drawn {
    let style = colour.stroke_width(2 * FINE);
    if broken {
        chart.draw_series(DashedLineSeries::new(points, fine(6), fine(4), style))?;
    } else {
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(())
}

/// Holds each value until the next.
fn steps(points: &[(f64, f64)]) -> Points {
    let mut steps: Points = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        if let Some(&(_, before)) = steps.last() {
            steps.push((x, before));
        }
        steps.push((x, y));
    }
    steps
}

/// Returns points in the drawn scale; `finite` leaves out those that have no place there.
fn placed(points: &[(f64, f64)], Axes { x, y }: &Axes, finite: bool) -> Points {
    let placed = points.iter().map(|point| (x.place(point.0), y.place(point.1)));
    placed.filter(|point| !finite || (point.0.is_finite() && point.1.is_finite())).collect()
}

/// Thins points evenly to as many as a plot can show.
fn thinned(points: &[(f64, f64)]) -> Points {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    points.iter().step_by(each).filter(finite).copied().collect()
}

/// Returns the axes: all points, and zero on the vertical one unless it is logarithmic or begins
/// elsewhere.
fn axes(plot: &Plot) -> Axes {
    let points = || plot.series.iter().flat_map(|series| thinned(&series.points));
    let (mut left, mut right) = ends(points().map(|point| point.0), plot.log_x);
    if let Some((low, high)) = plot.reach.x {
        (left, right) = (left.min(low), right.max(high));
    }
    let sums = stacked(plot);
    let heights = points().map(|point| point.1).chain(sums).chain(plot.reach.y);
    let (bottom, top) = ends(heights, plot.log_y);
    let y = if plot.log_y {
        Axis::log(bottom / 1.3, top * 1.3)
    } else {
        vertical(plot, bottom.min(plot.reach.bottom.unwrap_or(0.0)), top)
    };
    if plot.log_x {
        return Axes { x: Axis::log(left, right.max(left * 1.1)), y };
    }
    if !plot.names.is_empty() {
        return Axes { x: Axis::new(-0.6, plot.names.len() as f64 - 0.4, 8), y };
    }
    let (left, right) = if left < right { (left, right) } else { (left - 1.0, left + 1.0) };
    // Dots and bars at the ends need room.
    let room = match plot.kind {
        Kind::Bars => 0.6,
        Kind::Points | Kind::Stacked => 0.0,
        _ if plot.reach.x.is_some() => 0.0,
        _ => (right - left) * 0.02,
    };
    Axes { x: Axis::new(left - room, right + room, 8), y }
}

fn vertical(plot: &Plot, bottom: f64, top: f64) -> Axis {
    let top = if top > bottom { top } else { bottom + 1.0 };
    // Classes are at whole numbers, with room for their names above and below.
    if plot.kind == Kind::Points {
        let marks = (0..plot.series.len() + 2).map(|place| place as f64).collect();
        return Axis { low: bottom, high: top + 1.0, marks, log: false };
    }
    Axis::new(bottom, top + (top - bottom) * 0.05, 6)
}

/// Returns the heights of areas upon each other.
fn stacked(plot: &Plot) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    let areas = plot.series.iter().filter(|series| series.style != Some(Style::Limit));
    for series in areas.filter(|_| plot.kind == Kind::Stacked) {
        sums.resize(sums.len().max(series.points.len()), 0.0);
        sums.iter_mut().zip(&series.points).for_each(|(sum, point)| *sum += point.1);
    }
    sums
}

/// Returns the least and greatest of values that have a place on the axis; 0 and 1 without any.
fn ends(values: impl Iterator<Item = f64>, log: bool) -> (f64, f64) {
    let fits = |value: &f64| value.is_finite() && (!log || *value > 0.0);
    let ends = values.filter(fits).fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    ends.unwrap_or(if log { (0.1, 1.0) } else { (0.0, 1.0) })
}

/// The origin of a series' values, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Of a run or a measurement: any other name.
    Measured,
    /// The paper's own: `paper: X` beside `X`.
    Paper,
    /// The fluid ideal's: `ideal of X` beside `X`.
    Ideal,
}

impl Origin {
    fn of(series: &Series) -> Self {
        match series.name.as_str() {
            _ if series.style.is_some() => Origin::Measured,
            name if name.starts_with("paper") => Origin::Paper,
            name if name.starts_with(IDEAL) => Origin::Ideal,
            _ => Origin::Measured,
        }
    }
}

/// Returns how a legend shows the nth series: its colour as CSS, and its origin.
pub fn legend(plot: &Plot, index: usize) -> (String, Origin) {
    (css(colour(plot, index)), Origin::of(&plot.series[index]))
}

/// A series of the paper or the ideal has the colour of the measured one.
fn colour(plot: &Plot, index: usize) -> RGBColor {
    let series = &plot.series[index];
    match series.style {
        Some(Style::Line(colour) | Style::Broken(colour) | Style::Dots(colour)) => {
            return COLOURS[colour % COLOURS.len()];
        }
        Some(Style::Limit) => return BLACK,
        None => {}
    }
    let of = match Origin::of(series) {
        Origin::Measured => None,
        Origin::Paper => series.name.strip_prefix(PAPER),
        Origin::Ideal => series.name.strip_prefix(IDEAL),
    };
    let own = of.and_then(|of| plot.series.iter().position(|other| other.name == of));
    match (own, Origin::of(series)) {
        (None, Origin::Paper) => BLACK,
        (own, _) => COLOURS[own.unwrap_or(index) % COLOURS.len()],
    }
}

/// Returns a text style of a size in pixels of the picture.
pub(crate) fn text<'a>(size: u32, colour: &'a RGBColor) -> TextStyle<'a> {
    TextStyle::from((FONT, fine(size)).into_font()).color(colour)
}

/// Returns pixels of the picture as those that are drawn.
pub(crate) const fn fine(pixels: u32) -> u32 {
    pixels * FINE
}

/// The library draws at whole pixels, so it draws this many times as large as the picture is.
pub(crate) const FINE: u32 = 4;
const PAPER: &str = "paper: ";
const IDEAL: &str = "ideal of ";
/// Room left of the vertical axis, for numbers and for names of classes.
const NUMBERS_WIDTH: u32 = 48;
const LABEL_WIDTH: u32 = 22;
const NAMES_WIDTH: u32 = 110;
const TITLE_HEIGHT: u32 = 22;
/// The width of a letter of the smaller size.
const LETTER_WIDTH: usize = 7;
/// More points are thinned: a plot is 620 pixels wide.
const POINTS_MAX: usize = 4000;
/// Lines of at most this many points have them marked.
const MARKED_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;

    #[test]
    fn every_kind_draws_any_points() {
        let rows: [&[(f64, f64)]; 4] = [
            &[(0.0, 1.0), (1.0, 2.0), (2.0, 0.5)],
            &[(3.0, 0.0)],
            &[(0.0, f64::NAN), (1.0, 1.0)],
            &[(f64::INFINITY, f64::NAN)],
        ];
        let logs = [(false, false), (true, false), (false, true), (true, true)];
        for kind in [Kind::Lines, Kind::Steps, Kind::Points, Kind::Bars, Kind::Stacked] {
            for (points, (log_x, log_y)) in
                rows.iter().zip(logs).chain(rows.iter().zip([logs[0]; 4]))
            {
                let plot = Plot::new(kind, "t", "x", "y").with("a", points.to_vec());
                let plot = Plot { log_x, log_y, ..plot.with("paper a", points.to_vec()) };
                let plot = plot.drawn("b", points.to_vec(), Style::Broken(1));
                let svg = svg(&plot.drawn("c", points.to_vec(), Style::Limit)).expect("it draws");
                assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{kind:?} {points:?}");
            }
            assert_eq!(svg(&Plot::new(kind, "t", "x", "y").with("a", Vec::new())), None);
        }
    }

    #[test]
    fn a_reference_series_has_the_colour_of_the_measured_one() {
        let plot = Plot::new(Kind::Bars, "t", "run", "y").named(["one", "two"]);
        let plot = ["a", "b", "paper: b", "ideal of a", "paper"]
            .into_iter()
            .fold(plot, |plot, name| plot.with(name, vec![(0.0, 1.0), (1.0, 2.0)]));
        let colours: Vec<RGBColor> = (0..5).map(|index| colour(&plot, index)).collect();
        assert_eq!(colours, [COLOURS[0], COLOURS[1], COLOURS[1], COLOURS[0], BLACK]);
        assert_eq!(legend(&plot, 2).1, Origin::Paper);
        let svg = svg(&plot).expect("it draws");
        assert!(svg.contains(">\none\n<") && svg.contains(">\ntwo\n<"), "{svg}");
    }

    #[test]
    fn a_value_is_held_until_the_next() {
        let points = [(1.0, 5.0), (2.0, 7.0)];
        assert_eq!(steps(&points), [(1.0, 5.0), (2.0, 5.0), (2.0, 7.0)]);
    }
}
