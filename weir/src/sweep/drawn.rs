//! The picture of a sweep: each metric over the first key that varies, in the units of its table.
//!
//! A line joins the means of points that differ in that key only, with a dot at each; broken lines
//! are the ends of their intervals.

use serde_json::Value;
use std::collections::BTreeMap;
use weir_core::units::Quantity;
use weir_show::{Content, Key, Kind, Part, Picture, Plot, Reach, Style};
use weir_sweep::Summary;
use weir_sweep::summary::Point;

/// Returns the picture of a finished sweep.
pub fn picture(summary: &Summary) -> Picture {
    let across = Across::of(summary);
    let groups = groups(summary, across.key);
    let (shown, rest) = groups.split_at(groups.len().min(LINES_MAX));
    let plots = (0..summary.metrics.len()).map(|metric| plot(summary, metric, &across, shown));
    let key = |(at, group): (usize, &Group<'_>)| {
        let (name, style) = (group.0.clone(), Style::Line(at));
        Key { name, style }
    };
    let keys = shown.iter().enumerate().filter(|_| groups.len() > 1).map(key).collect();
    let mut notes = vec![format!(
        "Dots: what was measured, the mean of all runs. Broken lines: intervals of 95 % ({}).",
        runs(summary)
    )];
    if !rest.is_empty() {
        notes.push(format!("{} more combinations of values are not drawn.", rest.len()));
    }
    let content = Content::Plots(plots.collect());
    let part = Part { title: String::new(), keys, content, notes };
    let about = format!("{} points", summary.points.len());
    Picture { title: "Sweep".to_owned(), about, parts: vec![part] }
}

/// The horizontal axis.
struct Across {
    /// The key, by its place; none if nothing varies.
    key: Option<usize>,
    label: String,
    /// Where each point is.
    places: Vec<f64>,
    /// The words at 0, 1 and so on, where values are no numbers of one unit.
    names: Vec<String>,
}

impl Across {
    fn of(summary: &Summary) -> Self {
        let differs = |key: &usize| {
            let values = |point: &Point| point.values[*key].clone();
            summary.points.iter().any(|point| values(point) != values(&summary.points[0]))
        };
        let Some(key) = (0..summary.keys.len()).find(differs) else {
            let places = vec![0.0; summary.points.len()];
            return Self { key: None, label: String::new(), places, names: vec![String::new()] };
        };
        let values: Vec<&Value> = summary.points.iter().map(|point| &point.values[key]).collect();
        let label = &summary.keys[key];
        if let Some((places, unit)) = numbers(&values) {
            let label = format!("{label} {unit}").trim_end().to_owned();
            return Self { key: Some(key), label, places, names: Vec::new() };
        }
        let mut names: Vec<String> = Vec::new();
        let mut place = |value: &&Value| {
            let name = word(value);
            let known = names.iter().position(|known| *known == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }) as f64
        };
        let places = values.iter().map(&mut place).collect();
        Self { key: Some(key), label: label.clone(), places, names }
    }
}

/// Returns values as numbers in the unit of the first; `None` if one is of another kind.
fn numbers(values: &[&Value]) -> Option<(Vec<f64>, String)> {
    if let Some(numbers) = values.iter().map(|value| value.as_f64()).collect() {
        return Some((numbers, String::new()));
    }
    let first = values.first()?.as_str()?;
    let is_number = |letter: char| letter.is_ascii_digit() || "._".contains(letter);
    let unit = first.trim_start_matches(is_number);
    let one = amount(&format!("1 {}", unit.trim()))?;
    let numbers = values.iter().map(|value| {
        let (number, kind) = amount(value.as_str()?)?;
        (kind == one.1).then_some(number / one.0)
    });
    Some((numbers.collect::<Option<Vec<f64>>>()?, unit.trim().to_owned()))
}

/// Returns a quantity in the smallest unit of its kind, and the kind.
fn amount(text: &str) -> Option<(f64, &'static str)> {
    Some(match text.parse::<Quantity>().ok()? {
        Quantity::Rate(rate) => (rate.bits_per_second() as f64, "rate"),
        Quantity::Bytes(bytes) => (bytes.get() as f64, "bytes"),
        Quantity::Duration(time) => (time.as_nanos() as f64, "time"),
        Quantity::Packets(packets) => (f64::from(packets), "packets"),
        _ => return None,
    })
}

/// The points that differ in the first key only, with the values of the others.
type Group<'a> = (String, Vec<(usize, &'a Point)>);

fn groups(summary: &Summary, across: Option<usize>) -> Vec<Group<'_>> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (at, point) in summary.points.iter().enumerate() {
        let others = summary.keys.iter().zip(&point.values).enumerate();
        let others = others.filter(|(key, _)| Some(*key) != across);
        let name = others.map(|(_, (key, value))| format!("{key} = {}", word(value)));
        let name = name.collect::<Vec<_>>().join(", ");
        let place = *places.entry(name.clone()).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push((at, point));
    }
    groups
}

fn plot(summary: &Summary, metric: usize, across: &Across, groups: &[Group<'_>]) -> Plot {
    let (unit, scale) = summary.shown(metric);
    let title = format!("{} {unit}", summary.metrics[metric]);
    let mut plot = Plot::new(Kind::Lines, &title, &across.label, "");
    plot = plot.named(across.names.iter().map(String::as_str));
    let mut highest = 0.0_f64;
    for (at, (name, points)) in groups.iter().enumerate() {
        let mut line = |side: f64| {
            let value = |(place, point): &(usize, &Point)| {
                let result = point.results[metric]?;
                let end = result.mean + side * result.within.unwrap_or(0.0);
                // A delay or a loss is never below zero, whatever an interval of few runs says.
                let value = scale * if result.mean < 0.0 { end } else { end.max(0.0) };
                highest = highest.max(value);
                Some((across.places[*place], value))
            };
            let mut values: Vec<(f64, f64)> = points.iter().filter_map(value).collect();
            values.sort_by(|one, other| one.0.total_cmp(&other.0));
            values
        };
        let [low, mean, high] = [-1.0, 0.0, 1.0].map(&mut line);
        plot = plot.drawn(name.clone(), mean.clone(), Style::Line(at));
        plot = plot.drawn(name.clone(), mean, Style::Dots(at));
        if low != high {
            plot = plot.drawn(name.clone(), low, Style::Broken(at));
            plot = plot.drawn(name.clone(), high, Style::Broken(at));
        }
    }
    plot.reach = Reach { y: Some(highest), ..Reach::default() };
    plot
}

/// Returns how many runs a point has.
fn runs(summary: &Summary) -> String {
    let counts = || summary.points.iter().map(|point| point.runs);
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (1, 1) => "there are none, since each point has one run".to_owned(),
        (least, most) if least == most => format!("{most} runs of each point"),
        (least, most) => format!("{least} to {most} runs of each point"),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The most lines of a plot: so many colours can be told apart.
const LINES_MAX: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_sweep::summary::Result;

    /// A sweep of two keys, of which one is a rate, with a loss whose interval is wider than it.
    fn summary() -> Summary {
        let result = |mean| {
            let within = Some(0.02);
            Some(Result { mean, within, to_first: None, to_first_within: None })
        };
        let point = |rate: &str, weight: u32, mean: f64| Point {
            values: vec![json!(rate), json!(weight)],
            runs: 3,
            error: None,
            results: vec![result(mean)],
        };
        Summary {
            keys: vec!["source.flood.rate".to_owned(), "policy.class.voice.weight".to_owned()],
            metrics: vec!["rest.loss".to_owned()],
            points: vec![
                point("1 Mbit/s", 1, 0.01),
                point("1 Mbit/s", 2, 0.03),
                point("2000 kbit/s", 1, 0.05),
                point("2000 kbit/s", 2, 0.06),
            ],
        }
    }

    #[test]
    fn axes_have_units_and_each_point_a_dot_and_no_interval_is_below_zero() {
        let picture = picture(&summary());
        let part = &picture.parts[0];
        let names: Vec<&str> = part.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["policy.class.voice.weight = 1", "policy.class.voice.weight = 2"]);
        let Content::Plots(plots) = &part.content else { panic!("plots") };
        let plot = &plots[0];
        assert_eq!(
            (plot.title.as_str(), plot.x.as_str()),
            ("rest.loss %", "source.flood.rate Mbit/s")
        );
        // The mean, its dots, and both ends of its interval, in percent.
        let own: Vec<_> = plot.series.iter().filter(|row| row.name == names[0]).collect();
        let finite = |at: usize| -> Vec<(f64, f64)> {
            own[at].points.iter().copied().filter(|point| point.0.is_finite()).collect()
        };
        let near = |at: usize, wanted: [f64; 2]| {
            let found = finite(at);
            assert!(found.iter().map(|point| point.0).eq([1.0, 2.0]), "{found:?}");
            let differs = |(point, wanted): (&(f64, f64), f64)| (point.1 - wanted).abs() > 1e-9;
            assert!(!found.iter().zip(wanted).any(differs), "{at}: {found:?}");
        };
        near(0, [1.0, 5.0]);
        near(1, [1.0, 5.0]);
        near(2, [0.0, 3.0]);
        near(3, [3.0, 7.0]);
        assert_eq!(own[1].style, Some(Style::Dots(0)));
        let svg = picture.draw().expect("it is drawn").svg;
        assert!(svg.contains("source.flood.rate Mbit/s") && svg.contains("3 runs of each point"));
    }
}
