//! The staged faults, and what is checked of each.

use super::oracle::{self, Grid};
use serde::Deserialize;
use weir_core::units::{Instant, Quantity};
use weir_sim::read;
use weir_trace::load::{Load, Stage};
use weir_trace::remedy::{Bounds, Condition, Judged, Proposal, Search, Tally};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

/// A policy with a fault, staged for the search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The fault, in words.
    pub name: String,
    promise: String,
    /// A setting and a value with which the promise holds; absent if there is none.
    pub known: Option<(String, String)>,
    policy: String,
    scenario: String,
}

/// A proposal, and how many times as large it is as the smallest change.
pub type Compared = (Proposal, f64);

/// Returns the cases.
///
/// # Errors
/// When the rows are no TOML.
pub fn cases() -> Result<Vec<Case>, String> {
    let cases: Cases = toml::from_str(CASES).map_err(|error| error.to_string())?;
    Ok(cases.case)
}

impl Case {
    /// Looks for a change, and compares it with what the oracle finds on `grid`; `None` where no
    /// change exists, and none is proposed.
    ///
    /// # Errors
    /// When the case is not staged right, or what is proposed is wrong.
    pub fn compare(&self, grid: Grid) -> Result<Option<Compared>, String> {
        let load = self.load(&self.policy)?;
        let seen = tally(&load)?;
        let mut conditions = vec![Condition::read(&self.promise, &load)?];
        conditions.extend(Condition::of_policy(&load, &seen));
        let judged: Vec<Judged> = conditions.iter().map(|one| one.judge(&seen)).collect();
        if judged[0].kept != Some(false) {
            return Err(format!("`{}` is not broken: {:?}", self.promise, judged[0].measured));
        }
        let search = Search::new(&load, &conditions, &seen, Bounds::default())?;
        let remedy = search.remedy(0, judged[0].clone());
        let known = self.known.as_ref().map(|known| size_of(&search, known)).transpose()?;
        if remedy.is_cut {
            return Err("the search reached a bound".to_owned());
        }
        match (remedy.proposals.into_iter().next(), known) {
            (Some(best), Some(known)) => {
                self.apply(&load, &best, (&conditions, &judged))?;
                let least = oracle::least(&search, grid, best.size.max(known), best.size);
                let least = least.map_or(known, |least| least.min(known)).min(best.size);
                let ratio = best.size / least;
                Ok(Some((best, ratio)))
            }
            (None, None) => match oracle::least(&search, grid, f64::INFINITY, f64::INFINITY) {
                Some(size) => Err(format!("nothing is proposed, but a change of {size} keeps it")),
                None => Ok(None),
            },
            (Some(best), None) => Err(format!("proposes {best:?}, but no change was staged")),
            (None, Some(_)) => Err("proposes nothing".to_owned()),
        }
    }

    /// Simulates the sources with the proposed text of the policy, from the beginning.
    fn apply(
        &self,
        load: &Load,
        best: &Proposal,
        (conditions, judged): (&[Condition], &[Judged]),
    ) -> Result<(), String> {
        let settings = weir_policy::setting::all(&self.policy, &load.stages[0].policy)?;
        let setting = settings.iter().find(|setting| setting.name() == best.setting);
        let value: Quantity = best.to.parse().map_err(|error| format!("{}: {error}", best.to))?;
        let text = setting.ok_or("no such setting")?.rewrite(&self.policy, value)?;
        let seen = tally(&self.load(&text)?)?;
        for (place, (condition, before)) in conditions.iter().zip(judged).enumerate() {
            let after = condition.judge(&seen);
            let must = place == 0 || before.kept == Some(true);
            if must && after.kept != Some(true) {
                return Err(format!("applied, it breaks `{}`: {after:?}", condition.that));
            }
        }
        Ok(())
    }

    /// Returns what the sources offer to the link of a policy.
    fn load(&self, text: &str) -> Result<Load, String> {
        let stage = Stage::new(Instant::ZERO, "policy.toml", text)?;
        let none = &weir_policy::file::none;
        let bytes = self.scenario.as_bytes();
        let outcome = read::parse_with(bytes, &self.name, none, &stage.policy);
        let first = outcome.findings.first().map(|finding| finding.message.clone());
        let scenario = outcome.plan.ok_or_else(|| first.unwrap_or_default())?;
        weir_sim::load::of_scenario(&scenario, text)
    }
}

/// Returns the size of the change that a case names, which must keep the promise.
fn size_of(search: &Search<'_>, (name, value): &(String, String)) -> Result<f64, String> {
    let place = search.settings().iter().position(|setting| setting.name() == *name);
    let place = place.ok_or_else(|| format!("there is no setting `{name}`"))?;
    let value: Quantity = value.parse().map_err(|error| format!("{value}: {error}"))?;
    let tried = search.tried(place, value).ok_or("the known change is no policy")?;
    if !search.keeps(&tried, 0) {
        let kept = tried.judged.iter().map(|row| (&row.that, row.measured, row.kept));
        return Err(format!("the known change does not keep it: {:?}", kept.collect::<Vec<_>>()));
    }
    Ok(search.settings()[place].size(value))
}

fn tally(load: &Load) -> Result<Tally, String> {
    Tally::of(load, &load.plans(), true).map_err(|error| error.to_string())
}

const CASES: &str = include_str!("cases.toml");
