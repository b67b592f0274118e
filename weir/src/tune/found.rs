//! The result of the search: its table, its picture, and the settings for a link.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_control::protocol::Setting;
use weir_policy::table::Table;
use weir_show::{Content, Key, Kind, Part, Picture, Plot, Style};

/// The output of `python -m weir tune --json`; docs/tuning.md describes it.
#[derive(Serialize, Deserialize)]
pub struct Found {
    /// Whether the pick keeps every condition with fresh seeds, too.
    pub met: bool,
    /// The changes, their effect on each class, and the condition that binds.
    pub words: String,
    /// The policy with the values of the pick, and a comment beside each.
    pub policy: String,
    /// The values that change.
    changes: Map<String, Value>,
    /// The conditions, with the results of the pick in the proof.
    pub conditions: Vec<Wanted>,
    /// The policy's own promises that are no conditions.
    promises: Vec<Promise>,
    /// The objectives, each with its unit.
    objectives: Vec<String>,
    /// How many runs prove the pick.
    runs: u64,
    /// How many runs the search had.
    search_runs: u64,
    /// The number of the pick among the candidates.
    pick: i64,
    /// The candidates that keep all conditions and that none exceeds in every figure.
    front: Vec<Candidate>,
    /// All that were tried.
    tried: Vec<Candidate>,
}

/// A condition, and what came of it.
#[derive(Serialize, Deserialize)]
pub struct Wanted {
    /// The condition as it was given.
    pub condition: String,
    /// The worst value with the policy as it was, in the condition's unit.
    before: Option<f64>,
    /// The worst value with the pick.
    after: Option<f64>,
    /// The part of the limit that is to spare; below 0 it is broken.
    spare: f64,
    /// The longest delay of any traffic within the declared arrivals, if that decides it.
    bound: Option<f64>,
    /// The scenario, if it is a promise of the policy.
    under: Option<String>,
    /// Whether a running link can measure it.
    pub guard: bool,
}

/// A promise of the policy that only a test decides, such as one about fairness.
#[derive(Serialize, Deserialize)]
struct Promise {
    that: String,
    under: String,
    /// The verdict of `weir test` on the policy as it was.
    before: String,
    /// The verdict on the pick.
    after: String,
}

/// Values that were tried.
#[derive(Serialize, Deserialize)]
struct Candidate {
    number: i64,
    values: Map<String, Value>,
    kept: bool,
    /// The worst value of each condition's metric, in the condition's unit.
    results: Vec<Option<f64>>,
    /// The mean of each objective, in its unit.
    objectives: Vec<Option<f64>>,
}

impl Found {
    /// Returns the front and the pick as a table: values, results of conditions, and objectives.
    pub fn table(&self) -> Table {
        let keys: Vec<&String> =
            self.tried.first().into_iter().flat_map(|row| row.values.keys()).collect();
        let head = std::iter::once("candidate".to_owned())
            .chain(keys.iter().map(|key| (*key).clone()))
            .chain(self.conditions.iter().map(|row| row.condition.clone()))
            .chain(self.objectives.iter().cloned());
        let mut table = Table::new(head);
        let listed = self.front.iter().any(|row| row.number == self.pick);
        let pick = self.tried.iter().filter(|row| !listed && row.number == self.pick);
        for row in self.front.iter().chain(pick) {
            let chosen = match (row.number == self.pick, self.met) {
                (true, true) => " (picked)",
                (true, false) => " (nearest)",
                (false, _) => "",
            };
            let figures = row.results.iter().chain(&row.objectives).map(|value| figure(*value));
            let cells = std::iter::once(format!("{}{chosen}", row.number))
                .chain(keys.iter().map(|key| plain(&row.values[*key])))
                .chain(figures);
            table.row(cells);
        }
        table
    }

    /// Returns the settings of a running link.
    pub fn settings(&self, direction: Option<&str>) -> Vec<Setting> {
        let setting = |(key, value): (&String, &Value)| Setting {
            direction: direction.map(str::to_owned),
            key: key.clone(),
            value: plain(value),
        };
        self.changes.iter().map(setting).collect()
    }

    /// Returns a picture of all candidates: the first figure over each of the others.
    pub fn picture(&self) -> Picture {
        let conditions = self.conditions.iter().map(|row| row.condition.as_str());
        let names: Vec<&str> =
            self.objectives.iter().map(String::as_str).chain(conditions).collect();
        let others = names.iter().enumerate().skip(1).take(PLOTS_MAX);
        let mut plots: Vec<Plot> =
            others.map(|(place, name)| self.plot(names[0], name, place)).collect();
        if plots.is_empty() {
            // With a single figure the order of trials is the other one.
            plots.extend(names.first().map(|name| self.plot(name, "candidate", usize::MAX)));
        }
        let keys =
            KINDS.map(|(name, style)| Key { name: name.to_owned(), style }).into_iter().collect();
        let notes = vec![format!(
            "Conditions: the worst of all runs of a candidate; objectives: the mean. The pick is \
             proved by {} runs with other seeds.",
            self.runs
        )];
        let content = Content::Plots(plots);
        let part = Part { title: String::new(), keys, content, notes };
        let about = format!("{} candidates", self.tried.len());
        Picture { title: "Tuning".to_owned(), about, parts: vec![part] }
    }

    fn plot(&self, y: &str, x: &str, place: usize) -> Plot {
        let point = |row: &Candidate| {
            let figures: Vec<_> = row.objectives.iter().chain(&row.results).copied().collect();
            let x = figures.get(place).map_or(Some(row.number as f64), |value| *value);
            (x.unwrap_or(f64::NAN), figures[0].unwrap_or(f64::NAN))
        };
        let series = [
            dots(self.tried.iter().filter(|row| !row.kept).map(point)),
            dots(self.tried.iter().filter(|row| row.kept).map(point)),
            dots(self.front.iter().map(point)),
            dots(self.tried.iter().filter(|row| row.number == self.pick).map(point)),
        ];
        let plot = Plot::new(Kind::Lines, y, x, "");
        let kinds = KINDS.into_iter().zip(series);
        kinds.fold(plot, |plot, ((name, style), points)| plot.drawn(name, points, style))
    }
}

/// The names of candidates in the picture, with their styles.
const KINDS: [(&str, Style); 4] = [
    ("a condition is broken", Style::Broken(6)),
    ("all conditions are kept", Style::Line(0)),
    ("none exceeds it in every figure", Style::Line(2)),
    ("picked", Style::Line(1)),
];
/// The most plots of a picture.
const PLOTS_MAX: usize = 8;

/// Returns points that no line joins: a point that is not finite interrupts it.
fn dots(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    points.flat_map(|point| [point, (f64::NAN, f64::NAN)]).collect()
}

/// Writes a figure at four digits.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(String::new, weir_show::number)
}

/// Writes a value as a policy's text does, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
