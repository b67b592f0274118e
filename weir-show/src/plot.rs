//! A plot as data: series of points, and how they are drawn.

use serde::{Deserialize, Deserializer, Serialize};

/// A plot, with all that is needed to draw it. A stored result is read again for a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plot {
    /// The heading, which names the paper's figure or table.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x: String,
    /// The label of the vertical axis, with its unit.
    pub y: String,
    /// The kind of plot.
    pub kind: Kind,
    /// Names at 0, 1 and so on of the horizontal axis, in place of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// Whether the horizontal axis is logarithmic; then only points above 0 are drawn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic; then only points above 0 are drawn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_y: bool,
    /// Where axes end at least, even if no point is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reach: Reach,
}

/// Where axes end at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The left and right ends.
    pub x: Option<(f64, f64)>,
    /// The upper end, in the values of the plot.
    pub y: Option<f64>,
    /// Where the vertical axis begins at most, where zero would leave no room for differences.
    pub bottom: Option<f64>,
}

/// The kind of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Points are joined by lines.
    Lines,
    /// Each value is held until the next point.
    Steps,
    /// Single points: packets on a link over time, with the class as height, which has the name of
    /// the series.
    Points,
    /// Bars side by side; x counts the groups from 0.
    Bars,
    /// Cells, a row for each series, whose colour is the value; x counts the columns from 0.
    Cells,
    /// Areas upon each other, with the same x in each series; held until the next point.
    Stacked,
}

/// One line of a plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// The name in the legend; names that begin with `paper` are drawn as the paper's own.
    pub name: String,
    /// In the order of x; a point that is not finite interrupts a line.
    #[serde(deserialize_with = "points")]
    pub points: Vec<(f64, f64)>,
    /// How it is drawn, if its name does not say that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<Style>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Style {
    /// A line in the colour of this number.
    Line(usize),
    /// A thin broken line in the colour of this number.
    Broken(usize),
    /// Dots in the colour of this number, which no line joins.
    Dots(usize),
    /// A black broken line in steps: a limit, not a measurement.
    Limit,
}

impl Plot {
    /// A plot without series.
    pub fn new(kind: Kind, title: &str, x: &str, y: &str) -> Self {
        let text = str::to_owned;
        Self {
            title: text(title),
            x: text(x),
            y: text(y),
            kind,
            names: Vec::new(),
            series: Vec::new(),
            log_x: false,
            log_y: false,
            reach: Reach::default(),
        }
    }

    /// Sets names along the horizontal axis.
    #[must_use]
    pub fn named<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { names: names.into_iter().map(str::to_owned).collect(), ..self }
    }

    /// Adds a series of points in the default style.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.into(), points, style: None });
        self
    }

    /// Adds a series that is drawn in this way.
    #[must_use]
    pub fn drawn(self, name: impl Into<String>, points: Vec<(f64, f64)>, style: Style) -> Self {
        let mut plot = self.with(name, points);
        plot.series.iter_mut().last().expect("it was just added").style = Some(style);
        plot
    }

    /// Adds a series whose nth value is at n, from 1.
    #[must_use]
    pub fn with_values(self, name: impl Into<String>, values: &[f64]) -> Self {
        self.with(name, (1..).map(f64::from).zip(values.iter().copied()).collect())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads points; JSON has `null` for a number that is not finite.
fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points = Vec::<(Option<f64>, Option<f64>)>::deserialize(from)?;
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    Ok(points.into_iter().map(|(x, y)| (number(x), number(y))).collect())
}
