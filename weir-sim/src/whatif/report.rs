//! The answer to *what if*, and its tables.

use super::tally::Measure;
use serde::Serialize;
use std::fmt;
use weir_policy::table::Table;

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WhatIf {
    /// The name of the inferred scenario.
    pub scenario: String,
    /// The policy that was in force.
    pub was: String,
    /// The other policies, in the order of the request.
    pub policies: Vec<String>,
    /// The runs under each policy.
    pub replications: usize,
    /// How long the capture is.
    pub seconds: f64,
    /// The flows that were simulated.
    pub flows: usize,
    /// Groups of flows: by class of the policy that was in force, by host, by application.
    pub groups: Vec<Group>,
    /// Flows that the simulation of the known case does not reproduce, the largest first.
    pub unlike: Vec<Unlike>,
    /// Remarks of the inference on the capture.
    pub notes: Vec<String>,
}

/// The figures of a group of flows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Group {
    /// By which property the group was made: `class`, `host` or `application`.
    pub by: &'static str,
    /// Its name.
    pub name: String,
    /// How many flows it has.
    pub flows: usize,
    /// Its figures.
    pub rows: Vec<Row>,
}

/// A figure of a group: in the capture, in the simulation of the known case, and forecast.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub measure: Measure,
    /// The value in the capture, if that tells it.
    pub captured: Option<f64>,
    /// The value in the simulation under the policy that was in force.
    pub simulated: f64,
    /// The error of that simulation: a part of the value, of rates, times and delays; otherwise a
    /// difference.
    pub error: Option<f64>,
    /// The value under each of the other policies.
    pub forecasts: Vec<Forecast>,
}

/// A figure under another policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Forecast {
    /// The policy.
    pub policy: String,
    /// The mean over the runs; `None` if one of them has no such figure: no object completes, or no
    /// packet is sent.
    pub value: Option<f64>,
    /// The error bar: the true value is within this of it with 90 %. `None` if the capture does not
    /// tell how far to trust the figure.
    pub bar: Option<f64>,
    /// Whether that is better than under the policy that was in force.
    pub verdict: Verdict,
}

/// The verdict of a forecast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better by more than the error bar.
    Better,
    /// Worse by more than the error bar.
    Worse,
    /// The error bar is larger than the difference.
    CannotTell,
    /// All runs have what they have under the policy that was in force.
    Same,
}

/// A flow that the simulation of the known case does not reproduce.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unlike {
    /// The name of its source.
    pub flow: String,
    /// The reason.
    pub why: String,
    /// Its bytes in the capture.
    pub bytes: u64,
}

impl Verdict {
    /// Returns the words in tables.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::CannotTell => "cannot tell",
            Self::Same => "the same",
        }
    }
}

impl WhatIf {
    /// Returns the group of a class.
    pub fn class(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.by == "class" && group.name == name)
    }

    /// Returns a table of the groups that were made by this, with a column for each policy.
    pub fn table(&self, by: &str) -> Table {
        let head = [by, "figure", "captured", "simulated"].map(str::to_owned);
        let policies = self.policies.iter().flat_map(|policy| [policy.clone(), String::new()]);
        let mut words = vec![1];
        words.extend((0..self.policies.len()).map(|policy| 5 + 2 * policy));
        let mut table = Table::new(head.into_iter().chain(policies)).identified_by(2).words(&words);
        for group in self.groups.iter().filter(|group| group.by == by) {
            for row in &group.rows {
                table.row(row.cells(&group.name));
            }
        }
        table
    }

    /// Returns what a policy does to the classes: the figures with a verdict, in words.
    fn outcome(&self, policy: &str, verdict: Verdict) -> Vec<String> {
        let classes = self.groups.iter().filter(|group| group.by == "class");
        let rows = classes.flat_map(|group| group.rows.iter().map(move |row| (group, row)));
        let named = |(group, row): (&Group, &Row)| {
            let own = row.forecasts.iter().find(|own| own.policy == policy)?;
            let words = || format!("{} {}", group.name, row.measure.title());
            (own.verdict == verdict).then(words)
        };
        rows.filter_map(named).collect()
    }
}

impl Row {
    fn cells(&self, group: &str) -> Vec<String> {
        let figure = |value: f64| format!("{:.2}", self.measure.shown(value));
        let captured = self.captured.map_or_else(|| "-".to_owned(), figure);
        let simulated = figure(self.simulated);
        let mut cells =
            vec![group.to_owned(), self.measure.title().to_owned(), captured, simulated];
        for forecast in &self.forecasts {
            let bar = forecast.bar.map_or_else(|| "?".to_owned(), figure);
            let value = forecast.value.map(|value| format!("{} ± {bar}", figure(value)));
            cells.push(value.unwrap_or_else(|| "none".to_owned()));
            cells.push(forecast.verdict.words().to_owned());
        }
        cells
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, was, seconds, flows, replications, .. } = self;
        writeln!(f, "{scenario}: {flows} flows of {seconds:.1} s, captured under {was}")?;
        writeln!(
            f,
            "{replications} runs under each policy; ± holds 90 % of true values, if other"
        )?;
        writeln!(f, "policies err as the known case does and by chance\n")?;
        writeln!(f, "{}", self.table("class").render(false))?;
        for policy in &self.policies {
            writeln!(f, "\n{policy}")?;
            for (verdict, title) in [
                (Verdict::Better, "better"),
                (Verdict::Worse, "worse"),
                (Verdict::CannotTell, "cannot tell"),
                (Verdict::Same, "the same"),
            ] {
                let names = self.outcome(policy, verdict);
                if !names.is_empty() {
                    writeln!(f, "  {title}: {}", names.join(", "))?;
                }
            }
        }
        if !self.unlike.is_empty() {
            writeln!(f, "\nnot reproduced: {} of {flows} flows", self.unlike.len())?;
        }
        for Unlike { flow, why, .. } in self.unlike.iter().take(UNLIKE_SHOWN) {
            writeln!(f, "  {flow}: {why}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

/// How many flows that are not reproduced a table names; JSON has all.
const UNLIKE_SHOWN: usize = 12;
