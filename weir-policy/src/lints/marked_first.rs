//! A class that goes before others, takes packets by their DSCP alone and has one queue for all
//! [rfc3246 §4]: whoever marks its packets so fills it, at the cost of all others in it.

use super::{Subject, about, set};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use std::collections::BTreeSet;
use weir_core::classify::{Match, Rule};
use weir_core::ids::LeafId;
use weir_core::parameter::Parameter;
use weir_core::queue::{DROPPERS, SHORT_KEY};
use weir_core::sched::Service;

pub(super) static CODE: Code = Code {
    id: "W157",
    severity: Severity::Warning,
    title: "a class that goes first, chosen by DSCP alone, with one queue for all",
    source: Some("rfc3246 §4"),
};

/// Reports each leaf of the first rank that anybody may fill.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let rank = |leaf: usize| match &subject.service {
        Service::Ranks(ranks) => Some(ranks[leaf]),
        Service::Buckets(buckets) => Some(buckets.leaves[leaf].rank),
        _ => None,
    };
    let all: Option<Vec<u32>> = subject.leaves().map(|(leaf, _)| rank(leaf)).collect();
    let Some((first, last)) = all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)))
    else {
        return;
    };
    let marked = by_mark(subject.rules);
    for (leaf, class) in subject.leaves() {
        let goes_first = first < last && rank(leaf) == Some(first);
        if !goes_first || is_guarded(class) || !marked.contains(&LeafId(leaf as u32)) {
            continue;
        }
        let message = "it goes before others, and packets choose it by their DSCP alone: 1 sender \
                       that marks all it sends delays and drops what others have in it";
        let cure = format!(
            "write `{SHORT_KEY} = \"flows\"`, police it, or add the `src` or the ports of those \
             that may use it"
        );
        let fix = class.queue_span.is_none().then(|| set(class, SHORT_KEY, "flows"));
        let span = class.match_span.unwrap_or(class.span);
        report.push(about(&CODE, class, span, message.to_owned()).cure(cure).fix(fix));
    }
}

/// Returns whether flows of the class have queues of their own, or it is policed, or it declares
/// what it is offered.
fn is_guarded(class: &ClassDraft<'_>) -> bool {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
    let is_limit = |row: &Parameter| row.name == "limit";
    let shares = dropper.is_some_and(|dropper| dropper.parameters.iter().all(is_limit));
    !shares
        || class.police.is_some()
        || class.spread.is_some()
        || class.demand.demand.arrival.is_some()
}

/// Returns the leaves that have rules, all of which test the DSCP alone.
fn by_mark(rules: &[Rule]) -> BTreeSet<LeafId> {
    let alone = |rule: &Rule| {
        let rest = |own: &Match| Match { dscps: Vec::new(), ..own.clone() } == Match::default();
        let own = &rule.matches;
        !own.dscps.is_empty() && rest(own) && rule.target().meter.is_none()
    };
    let (marked, others): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| alone(rule));
    let leaves = |rules: Vec<&Rule>| rules.iter().map(|rule| rule.target().leaf).collect();
    let (marked, others): (BTreeSet<_>, BTreeSet<_>) = (leaves(marked), leaves(others));
    &marked - &others
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.voice]
match = { dscp = "ef" }
rate = "5 Mbit/s"

[class.rest]
default = true
rate = "5 Mbit/s"
prio = 1
"#,
    replace: r#"match = { dscp = "ef" }"#,
    by: r#"match = { dscp = "ef" }
isolate = "flows""#,
};
