//! The picture of a sweep: each metric over the first key that varies, in the units of its table.
//!
//! A line joins the means of points that differ in that key only; broken lines are the ends of
//! their intervals.

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
    let mut notes = vec![format!("Broken lines: intervals of 95 % ({}).", runs(summary))];
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
                let value = scale * (result.mean + side * result.within.unwrap_or(0.0));
                highest = highest.max(value);
                Some((across.places[*place], value))
            };
            let mut values: Vec<(f64, f64)> = points.iter().filter_map(value).collect();
            values.sort_by(|one, other| one.0.total_cmp(&other.0));
            values
        };
        let [low, mean, high] = [-1.0, 0.0, 1.0].map(&mut line);
        plot = plot.drawn(name.clone(), mean, Style::Line(at));
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
