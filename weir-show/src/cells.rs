//! Draws values as cells: a row for each series, a column for each name, and the darker the larger.

use crate::axis::Axis;
use crate::chart::{Area, Failure, Frame, fine, text};
use crate::look::{COLOURS, GREY};
use crate::plot::{Plot, Series};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A rectangle in pixels as they are drawn.
#[derive(Clone, Copy)]
struct Place {
    left: i32,
    top: i32,
    width: i32,
    height: i32,
}

/// Draws a plot with its title into an area; without a title if that stands elsewhere.
pub(crate) fn draw(area: &Area<'_>, plot: &Plot, titled: bool) -> Result<Frame, Failure> {
    let px = |pixels: u32| fine(pixels) as i32;
    let head = if titled { HEAD } else { 0 };
    if titled {
        let title = Text::new(plot.title.clone(), (px(14), px(4)), text(15, &BLACK));
        area.draw(&title)?;
    }
    let (width, height) = area.dim_in_pixel();
    let (left, top) = (px(ROWS), px(head + 8));
    let (columns, rows) = (plot.names.len().max(1) as i32, plot.series.len().max(1) as i32);
    let cell = Place {
        left,
        top,
        width: (width as i32 - left - px(12)) / columns,
        height: (height as i32 - top - px(BOTTOM)) / rows,
    };
    for (row, series) in plot.series.iter().enumerate() {
        let y = cell.top + cell.height * row as i32 + cell.height / 2;
        write(area, &series.name, (left - px(8), y), HPos::Right)?;
        for &(column, value) in series.points.iter().filter(|point| point.1.is_finite()) {
            let place = cell.at(column as i32, row as i32);
            draw_cell(area, &place, value, part(plot, value))?;
        }
    }
    let below = top + cell.height * rows + px(10);
    for (column, name) in plot.names.iter().enumerate() {
        let x = left + cell.width * column as i32 + cell.width / 2;
        write(area, name, (x, below), HPos::Center)?;
    }
    write(area, &plot.x, (left + cell.width * columns / 2, below + px(14)), HPos::Center)?;
    let edges = [left, top, left + cell.width * columns, top + cell.height * rows];
    let axis = |places: i32| Axis::new(-0.5, f64::from(places) - 0.5, 8);
    let edges = edges.map(|edge| f64::from(edge) / f64::from(fine(1)));
    Ok(Frame { edges, x: axis(columns), y: axis(rows) })
}

impl Place {
    /// Returns the place so many columns to the right and rows below.
    fn at(self, column: i32, row: i32) -> Self {
        Self { left: self.left + self.width * column, top: self.top + self.height * row, ..self }
    }
}

/// Draws a value into its cell; `part` is how dark that is, from 0 to 1.
fn draw_cell(area: &Area<'_>, cell: &Place, value: f64, part: f64) -> Result<(), Failure> {
    let Place { left, top, width, height } = *cell;
    let gap = fine(1) as i32;
    let corners = [(left, top), (left + width - gap, top + height - gap)];
    let fill = COLOURS[0].mix(0.08 + 0.6 * part).filled();
    area.draw(&Rectangle::new(corners, fill))?;
    let digits = if value.abs() < 10.0 { 2 } else { 1 };
    let middle = (left + width / 2, top + height / 2);
    let style = text(13, &BLACK).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(format!("{value:.digits$}"), middle, style))
}

fn write(area: &Area<'_>, name: &str, at: (i32, i32), side: HPos) -> Result<(), Failure> {
    let style = text(13, &GREY).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(name.to_owned(), at, style))
}

/// Returns where a value stands between the least and the largest of the plot, from 0 to 1.
fn part(plot: &Plot, value: f64) -> f64 {
    let points = plot.series.iter().flat_map(|Series { points, .. }| points);
    let values = points.map(|point| point.1).filter(|value| value.is_finite());
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if high > low { (value - low) / (high - low) } else { 0.0 }
}

/// Room above, for the title; left, for the names of rows; and below, for those of columns.
const HEAD: u32 = 22;
const ROWS: u32 = 90;
const BOTTOM: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Kind;
    use crate::svg;

    #[test]
    fn each_value_is_written_in_its_cell_and_a_missing_one_leaves_it_empty() {
        let plot = Plot::new(Kind::Cells, "t", "round trip", "").named(["a", "b"]);
        let plot = plot.with("one", vec![(0.0, 1.5), (1.0, f64::NAN)]);
        let plot = plot.with("two", vec![(0.0, 12.5), (1.0, 7.0)]);
        let svg = svg(&plot).expect("it draws");
        for text in ["1.50", "12.5", "7.00", "one", "two", "round trip"] {
            assert!(svg.contains(&format!(">\n{text}\n<")), "{text}: {svg}");
        }
        assert!(!svg.contains("NaN"));
        assert_eq!((part(&plot, 1.5), part(&plot, 12.5)), (0.0, 1.0));
    }
}
