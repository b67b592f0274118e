//! The promises of a policy, and those that it could make: for a page that says whether all is
//! well.
//!
//! A class's `delay` counts as a promise on its 99 % delay, as a page measures it. Offers are the
//! bounds of `weir check --bounds`, rounded outwards.

use crate::json::{PartOf, Promise, Promises};
use weir_core::ids::ClassId;
use weir_policy::calculus;
use weir_policy::policy::{Comparison, Goal, Measure, Metric, Policy};

/// Returns the promises of a policy, and those that its bounds allow in addition.
pub fn of(policy: &Policy) -> Promises {
    let mut promises = delays(policy);
    promises.extend(policy.promises.iter().map(|promise| {
        let (class, metric) = measured(policy, promise.promised.measure);
        let (goal, part_of) = match promise.promised.goal {
            Goal::Value(value) => (Some(in_units(promise.promised.measure, value)), None),
            Goal::Part(part, other) => {
                let (class, metric) = measured(policy, other);
                (None, Some(PartOf { part, class, metric }))
            }
        };
        Promise {
            that: promise.that.clone(),
            under: Some(promise.under.clone()),
            comparison: promise.promised.comparison.to_string(),
            class,
            metric,
            goal,
            part_of,
        }
    }));
    let mut offers = offers(policy);
    let is_promised = |offer: &Promise| {
        let same =
            |own: &&Promise| own.class == offer.class && word(&own.metric) == word(&offer.metric);
        promises.iter().any(|own| same(&own))
    };
    offers.retain(|offer| !is_promised(offer));
    Promises { promises, offers }
}

/// Returns what the classes' `delay` says.
fn delays(policy: &Policy) -> Vec<Promise> {
    let tree = &policy.link.tree;
    let wanted = tree.leaves().zip(&policy.demands);
    let wanted = wanted.filter_map(|((_, class), demand)| {
        let delay = demand.delay?;
        Some(Promise {
            that: format!("{}: delay = \"{delay}\"", class.name),
            under: None,
            class: Some(class.name.clone()),
            metric: P99.to_owned(),
            comparison: Comparison::AtMost.to_string(),
            goal: Some(delay.as_nanos() as f64 / 1e3),
            part_of: None,
        })
    });
    wanted.collect()
}

/// Returns the promises that the bounds of each leaf keep.
fn offers(policy: &Policy) -> Vec<Promise> {
    let (plan, demands) = (&policy.link, &policy.demands);
    if plan.tree.leaf_count() > LEAVES_MAX {
        return Vec::new();
    }
    let bounds = calculus::bounds(plan, demands);
    let least = calculus::at_least(plan, demands);
    let mut offers = Vec::new();
    for (leaf, class) in plan.tree.leaves().filter(|row| !row.1.name.is_empty()) {
        let index = leaf.index();
        let offer = |metric: &str, comparison: Comparison, goal: f64, written: String| Promise {
            that: format!("{}.{metric} {comparison} {written}", class.name),
            under: None,
            class: Some(class.name.clone()),
            metric: metric.to_owned(),
            comparison: comparison.to_string(),
            goal: Some(goal),
            part_of: None,
        };
        // That of a full queue says more of the queue than of the class.
        if let Some(seconds) = bounds[index].delay.filter(|_| !bounds[index].is_of_queue) {
            let tenths = (seconds * 1e4).ceil();
            let written = format!("{} ms", tenths / 10.0);
            offers.push(offer(MAX, Comparison::AtMost, tenths * 100.0, written));
        }
        if let Some(rate) = least[index].rate.filter(|rate| *rate >= 1e3) {
            let kbits = (rate / 1e3).floor();
            let written = format!("{kbits} kbit/s");
            offers.push(offer(RATE, Comparison::AtLeast, kbits * 1e3, written));
        }
    }
    offers
}

/// Returns the class and the word of a measure.
fn measured(policy: &Policy, measure: Measure<ClassId>) -> (Option<String>, String) {
    let (class, metric) = match measure {
        Measure::Class(class, metric) => (class, metric),
        Measure::Fairness => return (None, "fairness".to_owned()),
        Measure::Behind(metric) => return (None, format!("link.behind.{}", metric.word())),
    };
    let word = Metric::ALL.iter().find(|row| row.1 == metric).map_or("", |row| row.0);
    (Some(policy.link.tree.class(class).name.clone()), word.to_owned())
}

/// Returns a goal as the page has it: delays in µs.
fn in_units(measure: Measure<ClassId>, value: f64) -> f64 {
    match measure {
        Measure::Class(_, Metric::Delay(_) | Metric::DelayMean) => value * 1e6,
        _ => value,
    }
}

/// Returns what is measured, without the quantile.
fn word(metric: &str) -> &str {
    metric.split('.').next().unwrap_or(metric)
}

/// With more leaves nothing is offered, so that no request takes long.
const LEAVES_MAX: usize = 4096;
const P99: &str = "delay.p99";
const MAX: &str = "delay.max";
const RATE: &str = "rate";

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::policy::read_promise;

    const POLICY: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n\
        [class.voice]\nrate = '1 Mbit/s'\nceil = '2 Mbit/s'\ndelay = '30 ms'\n\
        arrival = { rate = '500 kbit/s', burst = '1514 B' }\nmatch = [{ proto = 'udp' }]\n\
        [class.rest]\nrate = '9 Mbit/s'\nceil = '10 Mbit/s'\nprio = 1\ndefault = true\n";

    fn check(more: &str, promised: &[(&str, f64)], offered: &[&str]) {
        let text = format!("{POLICY}{more}");
        let outcome = weir_policy::parse(&text, "p.toml");
        let policy = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
        let Promises { promises, offers } = of(&policy);
        let rows: Vec<_> =
            promises.iter().map(|row| (row.that.as_str(), row.goal.unwrap_or(0.0))).collect();
        assert_eq!(rows, promised, "{more}");
        let words: Vec<_> =
            offers.iter().map(|row| row.that.split(' ').next().unwrap_or("")).collect();
        assert_eq!(words, offered, "{more}: {offers:?}");
        for offer in &offers {
            assert!(read_promise(&offer.that).is_ok(), "{offer:?}");
        }
    }

    #[test]
    fn promises_are_told_and_bounds_are_offered_where_none_is() {
        let delay = ("voice: delay = \"30 ms\"", 30_000.0);
        check("", &[delay], &["voice.rate", "rest.rate"]);
        let promise = "[[promise]]\nthat = 'rest.rate > 7 Mbit/s'\nunder = 'x.toml'\n";
        check(promise, &[delay, ("rest.rate > 7 Mbit/s", 7e6)], &["voice.rate"]);
        let part = "[[promise]]\nthat = 'voice.loss <= rest.loss'\nunder = 'x.toml'\n";
        check(part, &[delay, ("voice.loss <= rest.loss", 0.0)], &["voice.rate", "rest.rate"]);
    }
}
