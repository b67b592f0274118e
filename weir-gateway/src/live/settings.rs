//! The settings that the policies of a link have, and the effect of a change, computed from their
//! texts.

use super::reading::Reading;
use crate::http::Fault;
use crate::json::{Knob, Predict, Predicted, Prediction, Promises, SettingChange};
use crate::promises;
use serde_json::Value;
use std::collections::BTreeMap;
use weir_control::protocol::{Changed, Request, Setting, Terms};
use weir_control::texts;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_policy::calculus::{self, Effective};
use weir_policy::deployment::{Deployment, Direction};
use weir_policy::diff::{self, Difference};
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::knobs;
use weir_policy::policy::Policy;

/// Returns what can be set in the policy of a direction, the first one without a name.
pub fn knobs(reading: &Reading, direction: Option<&str>) -> Result<Vec<Knob>, Fault> {
    let way = way(reading.deployment()?, direction)?;
    let name = way.path.display().to_string();
    let text = reading
        .texts
        .file(&name)
        .ok_or_else(|| Fault::new(500, format!("the link does not tell the text of `{name}`")))?;
    let all = knobs::all(&text, &way.policy).map_err(|why| Fault::new(500, why))?;
    Ok(all.into_iter().map(knob).collect())
}

/// Returns what the policy of a direction promises, the first one without a name.
pub fn promises(reading: &Reading, direction: Option<&str>) -> Result<Promises, Fault> {
    Ok(promises::of(&way(reading.deployment()?, direction)?.policy))
}

/// A setting as the page has it.
pub fn knob(knob: knobs::Knob) -> Knob {
    Knob {
        key: knob.key,
        class: knob.class,
        parameter: knob.parameter,
        summary: knob.summary.to_owned(),
        unit: knob.unit.to_owned(),
        value: knob.written,
        number: knob.number,
        min: knob.range.map(|(min, _)| min),
        max: knob.range.map(|(_, max)| max),
        choices: knob.choices,
        default: knob.default.to_owned(),
    }
}

/// Returns the request that lets the link say what a change would lead to.
pub fn dry_run(predict: &Predict) -> Request {
    let terms = Terms { dry_run: true, ..Terms::default() };
    Request::Set { settings: settings(&predict.settings), terms }
}

/// Returns settings as the link takes them.
pub fn settings(changes: &[SettingChange]) -> Vec<Setting> {
    let setting = |change: &SettingChange| Setting {
        direction: change.direction.clone(),
        key: change.key.clone(),
        value: change.value.clone(),
    };
    changes.iter().map(setting).collect()
}

/// Returns what a change of what was read would lead to, of which the link said this.
pub fn predict(
    reading: &Reading,
    predict: &Predict,
    changed: &Changed,
) -> Result<Prediction, Fault> {
    let before = reading.deployment()?;
    let known = &reading.outcome.findings;
    let (standing, findings) = apart(changed.findings.clone(), known);
    let mut prediction = Prediction {
        errors: changed.errors,
        findings,
        standing,
        difference: difference(changed, predict.direction.as_deref()),
        classes: Vec::new(),
    };
    if changed.errors > 0 {
        return Ok(prediction);
    }
    let edited = texts::edited(&reading.texts, before, &settings(&predict.settings));
    let after = Reading::new(edited.map_err(Fault::bad)?);
    let direction = predict.direction.as_deref();
    let after = after.deployment()?;
    let policies = (&way(before, direction)?.policy, &way(after, direction)?.policy);
    prediction.classes = classes(policies);
    Ok(prediction)
}

/// Returns what another text of a policy would lead to; `known` are the findings of its own.
pub fn predict_text(
    before: &Policy,
    known: &[Finding],
    after: Outcome<Policy>,
) -> Result<Prediction, Fault> {
    let errors = after.count(Severity::Error);
    let found: Result<Vec<_>, _> = after.findings.iter().map(serde_json::to_value).collect();
    let found = found.map_err(|error| Fault::new(500, error.to_string()))?;
    let (standing, findings) = apart(found, known);
    let mut prediction = Prediction { errors, findings, standing, ..Prediction::default() };
    if let Some(after) = after.plan {
        prediction.difference = diff::text(&Difference::between(before, &after));
        prediction.classes = classes((before, &after));
    }
    Ok(prediction)
}

/// Divides findings into those that are known and those that are new.
fn apart(findings: Vec<Value>, known: &[Finding]) -> (Vec<Value>, Vec<Value>) {
    let is_known = |found: &Value| {
        known.iter().any(|it| found["code"] == it.code && found["message"] == it.message.as_str())
    };
    findings.into_iter().partition(is_known)
}

fn difference(changed: &Changed, direction: Option<&str>) -> String {
    let ways = changed.directions.iter();
    let wanted = ways.filter(|way| direction.is_none_or(|name| way.direction == name));
    let texts: Vec<_> = wanted.map(|way| way.text.as_str()).collect();
    if texts.is_empty() { changed.what.clone() } else { texts.concat() }
}

fn way<'a>(deployment: &'a Deployment, name: Option<&str>) -> Result<&'a Direction, Fault> {
    let mut ways = deployment.directions.iter();
    ways.find(|way| name.is_none_or(|name| way.name == name)).ok_or_else(|| {
        let known: Vec<_> = deployment.directions.iter().map(|way| way.name.as_str()).collect();
        Fault::new(404, format!("there is no such direction; there are {}", known.join(", ")))
    })
}

/// The bounds of a class that follow from its policy alone.
#[derive(Clone, Copy, Default)]
struct Expected {
    share_bps: Option<f64>,
    delay_us: Option<f64>,
    at_least_bps: Option<f64>,
}

/// Returns all classes of two policies, in the order of the second, with what they may expect.
fn classes((before, after): (&Policy, &Policy)) -> Vec<Predicted> {
    let (old, new) = (expected(before), expected(after));
    let known = old.iter().map(|(name, expected)| (name.as_str(), *expected));
    let old_by_name: BTreeMap<_, _> = known.collect();
    let pair =
        |both: (Option<f64>, Option<f64>)| (both.0.is_some() || both.1.is_some()).then_some(both);
    let predicted = |name: &String, was: Expected, is: Expected| Predicted {
        name: name.clone(),
        share_bps: (was.share_bps, is.share_bps),
        delay_bound_us: pair((was.delay_us, is.delay_us)),
        at_least_bps: pair((was.at_least_bps, is.at_least_bps)),
    };
    let now = new.iter().map(|(name, is)| {
        predicted(name, old_by_name.get(name.as_str()).copied().unwrap_or_default(), *is)
    });
    let mut all: Vec<_> = now.collect();
    let stays = |name: &String| new.iter().any(|(other, _)| other == name);
    let gone = old.iter().filter(|(name, _)| !stays(name));
    all.extend(gone.map(|(name, was)| predicted(name, *was, Expected::default())));
    all
}

fn expected(policy: &Policy) -> Vec<(String, Expected)> {
    let plan = &policy.link;
    let tree = &plan.tree;
    let mut all: Vec<_> =
        tree.classes().map(|(_, spec)| (spec.name.clone(), Expected::default())).collect();
    if tree.leaf_count() > LEAVES_MAX {
        return all;
    }
    let shares = Effective::of(plan).greedy;
    let bounds = calculus::bounds(plan, &policy.demands);
    let least = calculus::at_least(plan, &policy.demands);
    let mut sums = vec![Some(0.0); all.len()];
    for (leaf, _) in tree.leaves() {
        let class = tree.class_of(leaf);
        let index = leaf.index();
        add_share(&mut sums, plan, (class, shares[index]));
        let own = &mut all[class.index()].1;
        own.delay_us = bounds[index].delay.map(|seconds| seconds * 1e6);
        own.at_least_bps = least[index].rate;
    }
    all.iter_mut().zip(sums).for_each(|((_, own), sum)| own.share_bps = sum);
    all
}

/// Adds the share of a leaf to that of each class on its path; what is not known has no sum.
fn add_share(sums: &mut [Option<f64>], plan: &LinkPlan, (class, share): (ClassId, Option<f64>)) {
    for class in plan.tree.path(class) {
        let sum = &mut sums[class.index()];
        *sum = sum.zip(share).map(|(sum, share)| sum + share);
    }
}

/// With more leaves nothing is predicted, so that no request takes long.
const LEAVES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::change::history::{File, Texts};

    const POLICY: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n\
        [class.voice]\nrate = '2 Mbit/s'\narrival = { rate = '1 Mbit/s', burst = '10 KB' }\n\
        match = [{ proto = 'udp' }]\n\
        [class.rest]\nrate = '8 Mbit/s'\ndefault = true\n";

    fn reading() -> Reading {
        let deployment = "[deployment]\nname = 'd'\nports = { a = 'a0', b = 'b0' }\n\
                          [direction.up]\nfrom = 'a'\nto = 'b'\npolicy = 'p.toml'\n";
        let file = |name: &str, text: &str| File { name: name.to_owned(), text: text.to_owned() };
        let (deployment, files) = (file("d.toml", deployment), vec![file("p.toml", POLICY)]);
        Reading::new(Texts { deployment, files, ..Texts::default() })
    }

    #[test]
    fn a_change_moves_shares_and_bounds() {
        let change = SettingChange {
            direction: None,
            key: "class.voice.rate".to_owned(),
            value: "4 Mbit/s".to_owned(),
        };
        let rest = SettingChange {
            direction: None,
            key: "class.rest.rate".to_owned(),
            value: "6 Mbit/s".to_owned(),
        };
        let predict = Predict { direction: None, settings: vec![change, rest] };
        let changed = Changed { what: "rates".to_owned(), ..Changed::default() };
        let prediction = super::predict(&reading(), &predict, &changed).expect("it is predicted");
        let names: Vec<_> = prediction.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["voice", "rest"]);
        let near = |value: Option<f64>, wanted: f64| {
            let value = value.expect("it is known");
            assert!((value - wanted).abs() < wanted * 0.01, "{value} {wanted}");
        };
        let voice = &prediction.classes[0];
        near(voice.share_bps.0, 2e6);
        near(voice.share_bps.1, 4e6);
        let (before, after) = voice.delay_bound_us.expect("an arrival has a bound");
        assert!(before.expect("known") > after.expect("known"), "{voice:?}");
        let errors = Changed { errors: 1, ..changed };
        let wrong = super::predict(&reading(), &predict, &errors).expect("it is said");
        assert!(wrong.errors == 1 && wrong.classes.is_empty());
        assert!(knobs(&reading(), Some("down")).is_err());
    }
}
