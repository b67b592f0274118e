//! Reads the classification keys of `[link]`: algorithm, match order, fragments.

use crate::codes;
use crate::finding::Report;
use crate::reader::{Node, Table};
use weir_core::classify::{
    CLASSIFIERS, ClassifierPlan, FragmentLimits, FragmentPolicy, MatchOrder,
};

/// Reads `classifier`, `match_order` and `fragments`.
pub(super) fn read(table: &mut Table<'_>, report: &mut Report) -> ClassifierPlan {
    let mut plan = ClassifierPlan::default();
    if let Some(node) = table.field("classifier") {
        let words: Vec<_> = CLASSIFIERS.iter().map(|row| row.keyword).collect();
        plan.algorithm = node.choice(&words, report).unwrap_or(plan.algorithm);
    }
    if let Some(node) = table.field("match_order") {
        let word = node.choice(&MatchOrder::ALL.map(MatchOrder::keyword), report);
        let order = MatchOrder::ALL.into_iter().find(|order| Some(order.keyword()) == word);
        plan.order = order.unwrap_or_default();
    }
    if let Some(node) = table.field("fragments") {
        plan.fragments = fragments(&node, report).unwrap_or_default();
    }
    plan
}

/// Reads a word, or `{ entries, timeout }` for a table of another size.
fn fragments(node: &Node<'_>, report: &mut Report) -> Option<FragmentPolicy> {
    if !node.is_table() {
        return match node.choice(&FRAGMENTS, report)? {
            "none" => Some(FragmentPolicy::EachAlone),
            "altq-broken" => Some(FragmentPolicy::AltqBroken),
            "altq-fixed" => Some(FragmentPolicy::AltqFixed),
            _ => Some(FragmentPolicy::default()),
        };
    }
    let mut table = node.table(report)?.named("the fragment table");
    let default = FragmentLimits::default();
    let entries = table.field("entries").map(|node| node.number(0, u32::MAX.into(), report));
    let timeout = table.field("timeout").map(|node| node.duration(report));
    table.finish(report);
    let entries = entries.unwrap_or(Some(default.entries().into()))? as u32;
    match FragmentLimits::new(entries, timeout.unwrap_or(Some(default.timeout()))?) {
        Ok(limits) => Some(FragmentPolicy::Follow(limits)),
        Err(error) => {
            report.push(node.draft(&codes::OUT_OF_RANGE, &error).cure(error.cure()));
            None
        }
    }
}

const FRAGMENTS: [&str; 4] = ["cache", "none", "altq-broken", "altq-fixed"];
