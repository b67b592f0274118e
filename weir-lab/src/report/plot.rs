//! Draws a plot as SVG. The legend is beside it, in HTML, so that it never covers a point.

use crate::claims::{Kind, Plot, Series};
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Returns the SVG; `None` if there is nothing to draw.
pub fn svg(plot: &Plot) -> Option<String> {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    points().next()?;
    let mut text = String::new();
    // Writing to a text cannot fail.
    draw(plot, &mut text).ok()?;
    Some(text)
}

/// Returns how a legend shows the nth series: its colour as CSS, and its origin.
pub fn legend(plot: &Plot, index: usize) -> (String, Origin) {
    let RGBColor(red, green, blue) = colour(plot, index);
    (format!("#{red:02x}{green:02x}{blue:02x}"), Origin::of(&plot.series[index]))
}

/// The origin of a series' values, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Measured.
    Measured,
    /// The paper's own: `paper: X` beside `X`.
    Paper,
    /// The fluid ideal's: `ideal of X` beside `X`.
    Ideal,
}

impl Origin {
    fn of(series: &Series) -> Self {
        match series.name.as_str() {
            name if name.starts_with("paper") => Origin::Paper,
            name if name.starts_with(IDEAL) => Origin::Ideal,
            _ => Origin::Measured,
        }
    }
}

fn draw(plot: &Plot, text: &mut String) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (x, y) = ranges(plot);
    let left = if plot.kind == Kind::Points { NAMES_WIDTH } else { NUMBERS_WIDTH };
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(44)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    let classes = plot.kind == Kind::Points;
    let at_x = |x: &f64| if plot.names.is_empty() { number(x) } else { name(&plot.names, x) };
    let at_y = |y: &f64| if classes { class(plot, y) } else { number(y) };
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&at_x)
        .y_label_formatter(&at_y)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14));
    if !plot.names.is_empty() {
        // The names are drawn below, each in the middle of its group.
        mesh.disable_x_mesh().x_labels(0);
    }
    if classes {
        mesh.y_labels(plot.series.len() + 2);
    }
    mesh.draw()?;
    for index in 0..plot.series.len() {
        draw_series(&mut chart, plot, index)?;
    }
    draw_names(&root, &chart, plot)?;
    root.present()
}

/// Draws names of groups under the axis; where they are too many for one line, alternately in two.
fn draw_names(root: &Area<'_>, chart: &Chart<'_, '_>, plot: &Plot) -> Drawn {
    let Some(longest) = plot.names.iter().map(|name| name.chars().count()).max() else {
        return Ok(());
    };
    let bottom = chart.plotting_area().get_pixel_range().1.end;
    let room = (SIZE.0 - NUMBERS_WIDTH) as usize / plot.names.len();
    let lines = (longest * LETTER_WIDTH).div_ceil(room.max(1)).clamp(1, 3);
    for (index, name) in plot.names.iter().enumerate() {
        let (x, _) = chart.backend_coord(&(index as f64, 0.0));
        let y = bottom + 5 + (index % lines) as i32 * 11;
        let size = if lines > 1 { 10 } else { 13 };
        let style = TextStyle::from((FONT, size).into_font());
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(name.clone(), (x, y), style))?;
    }
    Ok(())
}

/// Formats a number without trailing zeros, large ones in thousands.
fn number(value: &f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn name(names: &[String], x: &f64) -> String {
    let whole = x.fract().abs() < 1e-9 && *x >= 0.0;
    names.get(*x as usize).filter(|_| whole).cloned().unwrap_or_default()
}

/// Returns the class whose packets are drawn at this height.
fn class(plot: &Plot, y: &f64) -> String {
    let here =
        |series: &&Series| series.points.first().is_some_and(|point| (point.1 - y).abs() < 1e-9);
    plot.series.iter().find(here).map(|series| series.name.clone()).unwrap_or_default()
}

fn draw_series(chart: &mut Chart<'_, '_>, plot: &Plot, index: usize) -> Drawn {
    let series = &plot.series[index];
    let (colour, origin) = (colour(plot, index), Origin::of(series));
    let points = thinned(&series.points);
    if origin == Origin::Paper && plot.kind != Kind::Bars {
        let crosses = points.into_iter().map(|point| Cross::new(point, 5, colour.stroke_width(2)));
        chart.draw_series(crosses)?;
        return Ok(());
    }
    // The eighth line has the colour of the first, and is dashed.
    let broken = origin == Origin::Ideal || index >= COLOURS.len();
    match plot.kind {
        Kind::Lines => {
            let few = points.len() <= MARKED_MAX;
            draw_line(chart, points.clone(), colour, broken)?;
            if few {
                let dots = points.into_iter().map(|point| Circle::new(point, 3, colour.filled()));
                chart.draw_series(dots)?;
            }
        }
        Kind::Steps => draw_line(chart, steps(&points), colour, broken)?,
        Kind::Points => {
            let dots = points.into_iter().map(|point| Circle::new(point, 2, colour.filled()));
            chart.draw_series(dots)?;
        }
        Kind::Bars => {
            let width = 0.8 / plot.series.len() as f64;
            let left = width * index as f64 - 0.4;
            let style = match origin {
                Origin::Measured => colour.filled(),
                _ => colour.stroke_width(2),
            };
            let bars = points.into_iter().map(|(x, y)| {
                let corners = [(x + left + width * 0.04, 0.0), (x + left + width * 0.96, y)];
                Rectangle::new(corners, style)
            });
            chart.draw_series(bars)?;
        }
    }
    Ok(())
}

fn draw_line(
    chart: &mut Chart<'_, '_>,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    broken: bool,
) -> Drawn {
    let style = colour.stroke_width(2);
    if broken {
        chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
    } else {
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(())
}

/// Holds each value until the next.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        if let Some(&(_, before)) = steps.last() {
            steps.push((x, before));
        }
        steps.push((x, y));
    }
    steps
}

/// Thins points evenly to as many as a plot can show.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    points.iter().step_by(each).filter(finite).copied().collect()
}

/// Returns the ranges of the axes: all points, and zero on the vertical one.
fn ranges(plot: &Plot) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
    let points = || plot.series.iter().flat_map(|series| thinned(&series.points));
    let low = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let high = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let (left, right) = (low(&mut points().map(|p| p.0)), high(&mut points().map(|p| p.0)));
    let (bottom, top) =
        (low(&mut points().map(|p| p.1)).min(0.0), high(&mut points().map(|p| p.1)));
    let bottom = if bottom.is_finite() { bottom } else { 0.0 };
    let top = if top > bottom { top } else { bottom + 1.0 };
    let (left, right) = if left < right { (left, right) } else { (left - 1.0, left + 1.0) };
    let (left, right) = if left.is_finite() { (left, right) } else { (0.0, 1.0) };
    if !plot.names.is_empty() {
        return (-0.6..plot.names.len() as f64 - 0.4, bottom..top + (top - bottom) * 0.05);
    }
    // Classes are at whole numbers, with room for their names above and below.
    if plot.kind == Kind::Points {
        return (left..right, bottom..top + 1.0);
    }
    // Dots and bars at the ends need room.
    let room = if plot.kind == Kind::Bars { 0.6 } else { (right - left) * 0.02 };
    (left - room..right + room, bottom..top + (top - bottom) * 0.05)
}

/// A series of the paper or the ideal has the colour of the measured one.
fn colour(plot: &Plot, index: usize) -> RGBColor {
    let series = &plot.series[index];
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

const PAPER: &str = "paper: ";
const IDEAL: &str = "ideal of ";
const SIZE: (u32, u32) = (620, 330);
/// Room left of the vertical axis, for numbers and for names of classes.
const NUMBERS_WIDTH: u32 = 70;
const NAMES_WIDTH: u32 = 110;
/// The width of a letter of the smaller size.
const LETTER_WIDTH: usize = 7;
const FONT: &str = "sans-serif";
/// More points are thinned: a plot is 620 pixels wide.
const POINTS_MAX: usize = 4000;
/// Lines of at most this many points have them marked.
const MARKED_MAX: usize = 60;
/// Okabe and Ito's colours, which colour-blind people can distinguish.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_draws_any_points() {
        let rows: [&[(f64, f64)]; 4] = [
            &[(0.0, 1.0), (1.0, 2.0), (2.0, 0.5)],
            &[(3.0, 0.0)],
            &[(0.0, f64::NAN), (1.0, 1.0)],
            &[(f64::INFINITY, f64::NAN)],
        ];
        for kind in [Kind::Lines, Kind::Steps, Kind::Points, Kind::Bars] {
            for points in rows {
                let plot = Plot::new(kind, "t", "x", "y").with("a", points.to_vec());
                let svg = svg(&plot.with("paper a", points.to_vec())).expect("it draws");
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
    fn numbers_are_as_short_as_possible() {
        let rows = [(120.0, "120"), (0.25, "0.25"), (-0.0, "0"), (1e6, "1000000")];
        for (value, text) in rows {
            assert_eq!(number(&value), text);
        }
    }

    #[test]
    fn a_value_is_held_until_the_next() {
        let points = [(1.0, 5.0), (2.0, 7.0)];
        assert_eq!(steps(&points), [(1.0, 5.0), (2.0, 5.0), (2.0, 7.0)]);
    }
}
