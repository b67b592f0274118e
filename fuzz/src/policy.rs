//! Target `policy`: reads any bytes as a policy, and as a deployment whose policies are known.
//!
//! Every finding points into the text and can be shown; a policy without errors builds its link.

use weir_core::classify::{Rule, Target};
use weir_policy::diff::standings;
use weir_policy::finding::{Finding, Outcome, Place, RELATED_MAX, Source};
use weir_policy::policy::Policy;
use weir_policy::{deployment, policy as policies, render};

/// Checks the input as both kinds of file, as the list of a template, and its second half as the
/// policy or the list of its first.
pub fn policy(input: &[u8]) {
    let (top, below) = input.split_at(input.len() / 2);
    let outcome = policies::parse_bytes(input, "policy.toml", None, &|_| Ok(LIST.to_vec()));
    check_findings(&outcome);
    if let Some(policy) = &outcome.plan {
        check_policy(policy);
    }
    check_findings(&deployment::parse(input, "deployment.toml", &|_| Ok(POLICY.to_vec())));
    for name in ["list.csv", "list.toml"] {
        let template = TEMPLATE.replace("LIST", name);
        check_list(template.as_bytes(), input);
    }
    check_list(top, below);
    check_findings(&deployment::parse(top, "deployment.toml", &|_| Ok(below.to_vec())));
}

/// Checks a policy whose templates have this list.
fn check_list(policy: &[u8], list: &[u8]) {
    let outcome = policies::parse_bytes(policy, "policy.toml", None, &|_| Ok(list.to_vec()));
    check_findings(&outcome);
    if let Some(policy) = &outcome.plan {
        check_policy(policy);
    }
}

pub(crate) fn check_findings<T>(outcome: &Outcome<T>) {
    assert_eq!(outcome.plan.is_some(), !outcome.failed(), "a plan, or an error that says why not");
    for finding in &outcome.findings {
        check_place(&finding.place, &outcome.sources);
        check_words(finding);
    }
    let shown = render::render(&outcome.findings, &outcome.sources, false);
    let all_shown = outcome.findings.iter().all(|finding| shown.contains(finding.code));
    assert!(all_shown, "every finding is shown");
}

fn check_place(place: &Place, sources: &[Source]) {
    let inside = |source: &Source| source.text().get(place.span.start..place.span.end).is_some();
    let mut named = sources.iter().filter(|source| source.name() == place.file);
    assert!(named.any(inside), "{place:?} is in a file that was read");
    assert!(place.line > 0 && place.column > 0, "{place:?} counts from one");
}

fn check_words(finding: &Finding) {
    assert!(!finding.message.is_empty(), "{finding:?} says what is wrong");
    assert!(finding.related.len() <= RELATED_MAX, "{finding:?} is bounded");
}

fn check_policy(policy: &Policy) {
    let leaves = policy.link.tree.leaf_count();
    let targets = policy.rules.iter().map(Rule::target).chain([policy.default]);
    for Target { leaf, spread, .. } in targets {
        let width = spread.map_or(1, |spread| spread.queues as usize);
        assert!(leaf.index() + width <= leaves, "rules and the default lead to leaves");
    }
    assert_eq!(policy.link.queues.len(), leaves, "every leaf has a queue");
    drop(policy.classifier());
    check_bounds(policy);
    if policy.link.packets_max <= PACKETS_MAX {
        policy.link.build().map(drop).expect("a checked policy builds");
    }
}

/// Checks that every bound is unknown or a number, never NaN.
fn check_bounds(policy: &Policy) {
    assert_eq!(policy.demands.len(), policy.link.queues.len(), "every leaf has its demands");
    for standing in standings(policy).iter().map(|row| &row.1) {
        let numbers = standing.figures().into_iter().filter_map(|figure| figure.1);
        numbers.for_each(|number| assert!(number >= 0.0, "{standing:?}"));
    }
}

/// Larger stores only use memory.
const PACKETS_MAX: u32 = 1 << 17;
/// The policy that another file names.
pub(crate) const POLICY: &[u8] =
    b"[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.rest]\ndefault = true\n";
/// The list that a policy names.
const LIST: &[u8] = b"name,address,plan\nanna,192.0.2.1,gold\nben,192.0.2.2,gold\n";
/// A policy with a list called `LIST`.
const TEMPLATE: &str = r#"
[link]
rate = "100 Mbit/s"
scheduler = "htb"
[plan.gold]
rate = "1 Mbit/s"
[template.row]
list = "LIST"
name = "{name}"
class.rate = "{plan.rate}"
class.match = [{ dst = ["{address}"] }]
[class.rest]
default = true
rate = "1 Mbit/s"
"#;
