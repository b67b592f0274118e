//! A plot as SVG. The legend stands beside it, in HTML, so that it never covers a point.

use crate::claims::{Kind, Plot, Series};
use plotters::chart::ChartContext;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws it; `None` if there is nothing to draw.
pub fn svg(plot: &Plot) -> Option<String> {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    points().next()?;
    let mut text = String::new();
    // Writing to a text cannot fail.
    draw(plot, &mut text).ok()?;
    Some(text)
}

/// The colour of the nth series, as CSS.
pub fn colour_name(index: usize, series: &Series) -> String {
    let RGBColor(red, green, blue) = colour(index, series);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn draw(plot: &Plot, text: &mut String) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (x, y) = ranges(plot);
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;
    for (index, series) in plot.series.iter().enumerate() {
        draw_series(&mut chart, plot, index, series)?;
    }
    root.present()
}

fn draw_series(chart: &mut Chart<'_, '_>, plot: &Plot, index: usize, series: &Series) -> Drawn {
    let colour = colour(index, series);
    let points = thinned(&series.points);
    if is_paper(series) && plot.kind != Kind::Bars {
        chart.draw_series(points.into_iter().map(|point| Cross::new(point, 4, colour)))?;
        return Ok(());
    }
    match plot.kind {
        Kind::Lines => {
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            if points.len() <= MARKED_MAX {
                let dots = points.into_iter().map(|point| Circle::new(point, 3, colour.filled()));
                chart.draw_series(dots)?;
            }
        }
        Kind::Steps => {
            chart.draw_series(LineSeries::new(steps(&points), colour.stroke_width(2)))?;
        }
        Kind::Points => {
            let dots = points.into_iter().map(|point| Circle::new(point, 2, colour.filled()));
            chart.draw_series(dots)?;
        }
        Kind::Bars => {
            let width = 0.8 / plot.series.len() as f64;
            let left = width * index as f64 - 0.4;
            let bars = points.into_iter().map(|(x, y)| {
                let corners = [(x + left, 0.0), (x + left + width, y)];
                Rectangle::new(corners, colour.filled())
            });
            chart.draw_series(bars)?;
        }
    }
    Ok(())
}

/// Each value is held until the next.
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

/// Evenly fewer points than a plot can show.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    points.iter().step_by(each).filter(finite).copied().collect()
}

/// What the axes span: all points, and zero on the vertical one.
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
    // Dots and bars at the ends need room.
    let room = if plot.kind == Kind::Bars { 0.6 } else { (right - left) * 0.02 };
    (left - room..right + room, bottom..top + (top - bottom) * 0.05)
}

fn is_paper(series: &Series) -> bool {
    series.name.starts_with("paper")
}

fn colour(index: usize, series: &Series) -> RGBColor {
    if is_paper(series) { BLACK } else { COLOURS[index % COLOURS.len()] }
}

const SIZE: (u32, u32) = (620, 330);
const FONT: &str = "sans-serif";
/// More points are thinned out: a plot is 620 pixels wide.
const POINTS_MAX: usize = 4000;
/// Lines of no more points have them marked.
const MARKED_MAX: usize = 60;
/// Okabe and Ito's colours, which people who do not see red and green apart can tell apart.
const COLOURS: [RGBColor; 7] = [
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
    fn every_kind_draws_whatever_the_points() {
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
    fn a_value_is_held_until_the_next() {
        let points = [(1.0, 5.0), (2.0, 7.0)];
        assert_eq!(steps(&points), [(1.0, 5.0), (2.0, 5.0), (2.0, 7.0)]);
    }
}
