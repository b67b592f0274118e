//! The result of the search: its table, its picture, and the settings for a link.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_control::protocol::Setting;
use weir_policy::table::Table;
use weir_show::{Content, Key, Kind, Part, Picture, Plot, Reach, Style};

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
    /// The value on which it turns, in its unit.
    limit: f64,
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

    /// Returns a picture of the candidates around the front: the first figure over each of the
    /// others, with the limits of conditions.
    pub fn picture(&self) -> Picture {
        let count = self.objectives.len() + self.conditions.len();
        // With a single figure the order of trials is the other one.
        let others: Vec<Option<usize>> = match count {
            0 | 1 => vec![None],
            _ => (1..count).take(PLOTS_MAX).map(Some).collect(),
        };
        let (plots, outside): (Vec<Plot>, Vec<usize>) =
            others.into_iter().map(|other| self.plot(other)).unzip();
        let key = |(name, style): (&str, Style)| Key { name: name.to_owned(), style };
        let keys = KINDS.into_iter().chain([(LIMIT, Style::Limit)]).map(key).collect();
        let mut notes = vec![format!(
            "Conditions: the worst of all runs of a candidate; objectives: the mean. The pick is \
             proved by {} runs with other seeds.",
            self.runs
        )];
        if let Some(most) = outside.into_iter().max().filter(|most| *most > 0) {
            notes.push(format!("Up to {most} candidates far from the front are not drawn."));
        }
        let content = Content::Plots(plots);
        let part = Part { title: String::new(), keys, content, notes };
        let about = format!("{} candidates", self.tried.len());
        Picture { title: "Tuning".to_owned(), about, parts: vec![part] }
    }

    /// Returns a figure of a candidate: its number, or an objective or a condition by its place.
    fn figure(row: &Candidate, place: Option<usize>) -> f64 {
        let Some(place) = place else { return row.number as f64 };
        let mut figures = row.objectives.iter().chain(&row.results);
        figures.nth(place).copied().flatten().unwrap_or(f64::NAN)
    }

    fn name(&self, place: Option<usize>) -> &str {
        let Some(place) = place else { return "candidate" };
        let conditions = self.conditions.iter().map(|row| &row.condition);
        self.objectives.iter().chain(conditions).nth(place).map_or("", String::as_str)
    }

    /// Returns the limit of the condition at this place.
    fn limit(&self, place: Option<usize>) -> Option<f64> {
        Some(self.conditions.get(place?.checked_sub(self.objectives.len())?)?.limit)
    }

    /// Returns what an axis shows: the front, the pick and the limit, with as much room around
    /// them; of candidates by their numbers all.
    fn reach(&self, place: Option<usize>) -> (f64, f64) {
        let rows = self.tried.iter().filter(|row| row.number == self.pick || place.is_none());
        let figures = self.front.iter().chain(rows).map(|row| Self::figure(row, place));
        let ends = figures.chain(self.limit(place)).filter(|value| value.is_finite());
        let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), wider);
        if low > high {
            return (0.0, 1.0);
        }
        let room = ((high - low) / 2.0).max(high.abs() / 20.0).max(f64::MIN_POSITIVE);
        // No figure is below zero.
        ((low - room).max(0.0), high + room)
    }

    /// Returns the plot of the first figure over another one, and how many candidates it leaves
    /// out.
    fn plot(&self, other: Option<usize>) -> (Plot, usize) {
        let first = Some(0);
        let (across, up) = (self.reach(other), self.reach(first));
        let point = |row: &Candidate| (Self::figure(row, other), Self::figure(row, first));
        let inside = |(low, high): (f64, f64), value: f64| (low..=high).contains(&value);
        let is_shown = |(x, y): &(f64, f64)| inside(across, *x) && inside(up, *y);
        let points = |rows: &mut dyn Iterator<Item = &Candidate>| {
            rows.map(point).filter(is_shown).collect::<Vec<_>>()
        };
        let series = [
            points(&mut self.tried.iter().filter(|row| !row.kept)),
            points(&mut self.tried.iter().filter(|row| row.kept)),
            points(&mut self.front.iter()),
            points(&mut self.tried.iter().filter(|row| row.number == self.pick)),
        ];
        let mut plot = Plot::new(Kind::Lines, self.name(first), self.name(other), "");
        let kinds = KINDS.into_iter().zip(series);
        plot = kinds.fold(plot, |plot, ((name, style), points)| plot.drawn(name, points, style));
        if let Some(limit) = self.limit(other) {
            plot = plot.drawn(LIMIT, vec![(limit, up.0), (limit, up.1)], Style::Limit);
        }
        if let Some(limit) = self.limit(first) {
            plot = plot.drawn(LIMIT, vec![(across.0, limit), (across.1, limit)], Style::Limit);
        }
        plot.reach = Reach { x: Some(across), y: Some(up.1), bottom: Some(up.0) };
        let outside = self.tried.iter().map(point).filter(|point| !is_shown(point)).count();
        (plot, outside)
    }
}

/// The names of candidates in the picture, with their styles.
const KINDS: [(&str, Style); 4] = [
    ("a condition is broken", Style::Dots(6)),
    ("all conditions are kept", Style::Dots(0)),
    ("none exceeds it in every figure", Style::Dots(2)),
    ("picked", Style::Dots(1)),
];
/// The name of lines that conditions must not cross.
const LIMIT: &str = "the limit of a condition";
/// The most plots of a picture.
const PLOTS_MAX: usize = 8;

/// Writes a figure at four digits.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(String::new, weir_show::number)
}

/// Writes a value as a policy's text does, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A search with two objectives and a condition, of which some candidates break the condition
    /// and one is far away.
    fn found() -> Found {
        let row = |number: i64| {
            let part = number as f64;
            let (rate, delay) = (5.0 - part * 0.3, 20.0 / (part + 1.0) + part * 0.2);
            let delay = if number == 11 { 900.0 } else { delay };
            json!({
                "number": number,
                "values": { "class.voice.rate": format!("{number} Mbit/s") },
                "kept": delay < 10.0,
                "results": [delay],
                "objectives": [rate, part / 100.0],
            })
        };
        let tried: Vec<Value> = (0..12).map(row).collect();
        let front: Vec<Value> = [2, 3, 4].map(row).to_vec();
        let value = json!({
            "met": true, "words": "", "policy": "", "changes": {},
            "conditions": [{
                "condition": "voice.delay.p99 < 10 ms", "limit": 10.0, "before": 20.0,
                "after": 7.0, "spare": 0.3, "bound": null, "under": null, "guard": true,
            }],
            "promises": [], "objectives": ["max bulk.rate Mbit/s", "min bulk.loss %"],
            "runs": 20, "search_runs": 3, "pick": 3, "front": front, "tried": tried,
        });
        serde_json::from_value(value).expect("it is what the search prints")
    }

    #[test]
    fn axes_show_the_front_and_limits_are_lines() {
        let found = found();
        let picture = found.picture();
        let part = &picture.parts[0];
        let names: Vec<&str> = part.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((names.len(), names[4]), (5, LIMIT));
        let Content::Plots(plots) = &part.content else { panic!("plots") };
        let labels: Vec<_> =
            plots.iter().map(|plot| (plot.title.as_str(), plot.x.as_str())).collect();
        let first = "max bulk.rate Mbit/s";
        assert_eq!(labels, [(first, "min bulk.loss %"), (first, "voice.delay.p99 < 10 ms")]);
        // The axis of the delay ends near the limit, and leaves out the candidate at 900 ms.
        let delays = &plots[1];
        let (low, high) = delays.reach.x.expect("it is set");
        assert!(low < 4.0 && high > 10.0 && high < 20.0, "{low} to {high}");
        let series = |name: &str| {
            let all = delays.series.iter().filter(|row| row.name == name);
            let points = all.flat_map(|row| row.points.iter().copied());
            points.filter(|point| point.0.is_finite()).collect::<Vec<_>>()
        };
        assert_eq!(series("picked").len(), 1);
        assert_eq!(series("none exceeds it in every figure").len(), 3);
        let limit = series(LIMIT);
        assert!(limit.len() == 2 && limit.iter().all(|point| point.0 == 10.0), "{limit:?}");
        assert!(part.notes.iter().any(|note| note.contains("far from the front are not drawn")));
        let svg = picture.draw().expect("it is drawn").svg;
        for word in ["voice.delay.p99 &lt; 10 ms", "min bulk.loss %", LIMIT, "picked"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
