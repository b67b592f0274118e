//! The plot of a comparison: what each leaf sent beside its ideal, and how long its packets waited.

use super::{Comparison, Leaf, Measured};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// The plot as SVG.
///
/// # Errors
/// When there is nothing to draw, or it cannot be drawn.
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
        draw(&area, &comparison.scenario, &measured).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Failure = Box<dyn std::error::Error>;

fn draw(area: &Area<'_>, scenario: &str, measured: &[(&str, &Measured)]) -> Result<(), Failure> {
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(HEIGHT / 2);
    let all = || measured.iter().flat_map(|row| &row.1.leaves);
    let most = |of: fn(&Leaf) -> f64| all().map(of).fold(1e-3, f64::max);
    let rate = |leaf: &Leaf| leaf.sent_bps / 1e6;
    let ideal: fn(&Leaf) -> f64 = |leaf| leaf.ideal_bps / 1e6;
    let top = most(rate).max(most(ideal)) * 1.15;
    let title = format!("{scenario}: sent, and the fluid ideal (black)");
    let rates = Panel { title, unit: "Mbit/s", value: rate, mark: Some(ideal) };
    rates.draw(&upper, 0.0..top, measured, top)?;
    let delay: fn(&Leaf) -> f64 = |leaf| leaf.delay_p99_us.max(1.0);
    let top = most(delay) * 3.0;
    let title = "delay that 99 % of packets do not exceed".to_owned();
    let delays = Panel { title, unit: "µs", value: delay, mark: None };
    delays.draw(&lower, (1.0..top).log_scale(), measured, top)?;
    area.present()?;
    Ok(())
}

/// One set of bars: a group for each leaf, in it a bar for each scheduler.
struct Panel {
    title: String,
    unit: &'static str,
    value: fn(&Leaf) -> f64,
    /// A line across each bar.
    mark: Option<fn(&Leaf) -> f64>,
}

impl Panel {
    fn draw<Y>(
        &self,
        area: &Area<'_>,
        range: Y,
        measured: &[(&str, &Measured)],
        top: f64,
    ) -> Result<(), Failure>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let leaves = &measured[0].1.leaves;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(10)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..leaves.len() as f64, range)?;
        chart.configure_mesh().disable_x_mesh().disable_x_axis().y_desc(self.unit).draw()?;
        for (index, (scheduler, result)) in measured.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            let span = |place: usize| bar(place, index, measured.len());
            let bars = result.leaves.iter().enumerate().map(|(place, leaf)| {
                let (left, right) = span(place);
                Rectangle::new([(left, FLOOR), (right, (self.value)(leaf))], colour.filled())
            });
            let legend = move |(x, y): (i32, i32)| {
                Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled())
            };
            chart.draw_series(bars)?.label(*scheduler).legend(legend);
            let Some(mark) = self.mark else { continue };
            chart.draw_series(result.leaves.iter().enumerate().map(|(place, leaf)| {
                let (left, right) = span(place);
                PathElement::new([(left, mark(leaf)), (right, mark(leaf))], BLACK.stroke_width(2))
            }))?;
        }
        chart.draw_series(leaves.iter().enumerate().map(|(place, leaf)| {
            Text::new(leaf.name.clone(), (place as f64 + MARGIN, top * 0.97), ("sans-serif", 14))
        }))?;
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        Ok(())
    }
}

/// From where to where the bar of the scheduler `index` of `count` reaches in the group `place`.
fn bar(place: usize, index: usize, count: usize) -> (f64, f64) {
    let width = (1.0 - 2.0 * MARGIN) / count as f64;
    let left = place as f64 + MARGIN + width * index as f64;
    (left, left + width * 0.9)
}

const WIDTH: u32 = 900;
const HEIGHT: u32 = 760;
const BAR_WIDTH: u32 = 12;
const LEAVES_MAX: usize = 64;
const MARGIN: f64 = 0.08;
/// Where bars begin: below every value, also on a logarithmic scale.
const FLOOR: f64 = 1e-3;
