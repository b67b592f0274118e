//! The picture of a paper at the head of the report: historic beside sound beside the paper's own
//! values.
//!
//! A paper's sheet names the experiment. If its claims give at least [`VALUES_MIN`] values of
//! figures in one unit, these are bars: historic, sound, the paper's. Where the paper gives none
//! but a model of Weir does, the third bar is the model's, and is called so. Otherwise the first
//! plot of the experiment is shown once for each era, with one scale, and the paper's values in
//! both.

use super::html::beside_paper;
use crate::claims::{Claim, Era, Kind, Measured, Outcome, Paper, Plot, Target};
use weir_show::Reach;

/// Returns the plots that stand for a paper, with their headings; none if nothing was measured.
pub(super) fn plots(paper: &Paper, outcomes: &[Outcome<'_>]) -> Vec<Plot> {
    let own = |outcome: &&Outcome<'_>| outcome.sheet.paper == paper.key;
    let named = |outcome: &&Outcome<'_>| Some(outcome.id) == paper.picture.as_deref();
    let mut found: Vec<&Outcome<'_>> = outcomes.iter().filter(own).filter(named).collect();
    if found.is_empty() {
        // Only a part of the paper was run.
        let first = outcomes.iter().find(own).map(|outcome| outcome.id);
        found = outcomes.iter().filter(|outcome| Some(outcome.id) == first).collect();
    }
    let whose = [Whose::Paper, Whose::Model];
    if let Some(bars) = whose.iter().find_map(|whose| bars(&found, *whose)) {
        return vec![bars];
    }
    let mut plots: Vec<Plot> = found.iter().filter_map(|outcome| first_plot(outcome)).collect();
    let most = |plot: &Plot| {
        let values = plot.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        values.filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let top = plots.iter().map(most).fold(0.0, f64::max);
    plots.iter_mut().for_each(|plot| plot.reach = Reach { y: Some(top), ..plot.reach });
    plots
}

/// Returns the first plot of a run, with the paper's values and its era in the heading.
fn first_plot(outcome: &Outcome<'_>) -> Option<Plot> {
    let plot = outcome.measured.as_ref().ok()?.plots.first()?;
    let plot = beside_paper(outcome.sheet, outcome.era, plot);
    Some(Plot { title: format!("{}, {}", plot.title, outcome.era.name()), ..plot })
}

/// The origin of the value beside a measured one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Paper,
    Model,
}

impl Whose {
    /// Returns whose the value of a claim is; `None` if it is a goal of Weir. How near a value is
    /// to come to one of a table is a goal; the value is the paper's.
    fn of(claim: &Claim) -> Option<Self> {
        match claim.from.as_str() {
            from if from.contains("model") => Some(Self::Model),
            from if from.starts_with("Weir's goal") && !from.contains(" Table ") => None,
            _ => Some(Self::Paper),
        }
    }

    /// Returns how the picture calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Model => "Weir's model of the paper's set-up",
        }
    }
}

/// Returns the values that the paper or a model gives as bars beside those that were measured.
fn bars(outcomes: &[&Outcome<'_>], whose: Whose) -> Option<Plot> {
    let sheet = outcomes.first()?.sheet;
    let measured = |era: Era| {
        let run = outcomes.iter().find(|outcome| outcome.era == era)?;
        run.measured.as_ref().ok()
    };
    let (historic, sound) = (measured(Era::Historic), measured(Era::Sound));
    let any = historic.or(sound)?;
    let valued =
        |claim: &&Claim| given(claim).is_some_and(|(figure, _)| any.value(figure).is_some());
    let own = |claim: &&Claim| claim.era.include(Era::Historic) && Whose::of(claim) == Some(whose);
    let mut claims: Vec<&Claim> = sheet.claims.iter().filter(valued).filter(own).collect();
    let unit = |claim: &Claim| given(claim).map(|(figure, _)| any.figures[figure].unit.clone());
    let first = claims.first().and_then(|claim| unit(claim))?;
    claims.retain(|claim| unit(claim).as_ref() == Some(&first));
    claims.truncate(VALUES_MAX);
    if claims.len() < VALUES_MIN {
        return None;
    }
    let names: Vec<&str> = claims.iter().filter_map(|claim| Some(given(claim)?.0)).collect();
    let short = without_common(&names);
    let title = format!("{}: {}", sheet.id, sheet.title);
    let mut plot = Plot::new(Kind::Bars, &title, "", &first).named(short.iter().copied());
    let points = |of: &dyn Fn(usize) -> Option<f64>| {
        (0..names.len()).filter_map(|place| Some((place as f64, of(place)?))).collect::<Vec<_>>()
    };
    for (name, run) in [("historic", historic), ("sound", sound)] {
        let value = |place: usize| run.and_then(|run: &Measured| run.value(names[place]));
        plot = plot.with(name, points(&value));
    }
    Some(plot.with(whose.name(), points(&|place| Some(given(claims[place])?.1))))
}

/// Returns names without the words that all of them begin or end with.
fn without_common<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let words = |name: &&'a str| name.split_inclusive(['.', '-']).count();
    let fewest = names.iter().map(words).min().unwrap_or(1);
    let begins = |count: usize| {
        let begin =
            |name: &&'a str| name.split_inclusive(['.', '-']).take(count).collect::<String>();
        let first = names.first().map(begin).unwrap_or_default();
        names.iter().all(|name| name.starts_with(&first)).then_some(first.len())
    };
    let begin = (1..fewest).rev().find_map(begins).unwrap_or(0);
    let names: Vec<&str> = names.iter().map(|name| &name[begin..]).collect();
    let end = names.first().and_then(|first| Some(&first[first.rfind(['.', '-'])?..]));
    let end = end.filter(|end| names.iter().all(|name| name.ends_with(end))).unwrap_or_default();
    names.iter().map(|name| &name[..name.len() - end.len()]).collect()
}

/// Returns the figure and the value of a claim that gives one.
fn given(claim: &Claim) -> Option<(&str, f64)> {
    match (&claim.figure, &claim.value) {
        (Some(figure), Some(Target::Number(value))) => Some((figure, *value)),
        _ => None,
    }
}

/// Values that are worth bars.
const VALUES_MIN: usize = 2;
/// Values that have room.
const VALUES_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_called_what_it_is() {
        let set = crate::claims::PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        let whose = |id: &str| -> Vec<Option<Whose>> {
            let sheet = set.sheets.iter().find(|sheet| sheet.id == id).expect("an experiment");
            sheet.claims.iter().filter(|claim| given(claim).is_some()).map(Whose::of).collect()
        };
        let count = |all: &[Option<Whose>], one| all.iter().filter(|it| **it == Some(one)).count();
        let models = whose("W-3");
        assert!(count(&models, Whose::Model) >= VALUES_MIN, "{models:?}");
        assert_eq!(count(&models, Whose::Paper), 0, "{models:?}");
        let table = whose("H-1");
        assert!(count(&table, Whose::Paper) >= VALUES_MIN, "{table:?}");
    }

    #[test]
    fn names_lose_what_all_have_in_common() {
        let check = |names: &[&str], expected: &[&str]| {
            assert_eq!(without_common(names), expected);
        };
        check(&["pps.5", "pps.10", "pps.100"], &["5", "10", "100"]);
        check(
            &["15k-512-32.out", "15k-512-50.out", "30k-64-9.out"],
            &["15k-512-32", "15k-512-50", "30k-64-9"],
        );
        check(&["priq", "dbhpd"], &["priq", "dbhpd"]);
        check(&["a.x", "a.x"], &["x", "x"]);
        check(&[], &[]);
    }
}
