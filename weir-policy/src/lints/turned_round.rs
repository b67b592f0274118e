//! Weights that a dropper reverses [quadros §3.1]: where leaves share a limit by weights of their
//! own, a leaf with more of the line may have so much more of the limit that it waits longest.

use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::parameter::Scope;
use weir_core::queue::DROPPERS;

pub(super) static CODE: Code = Code {
    id: "W142",
    severity: Severity::Warning,
    title: "weights whose effect the dropper reverses",
    source: Some("quadros §3.1"),
};

/// A leaf that shares a limit: its part of the line and its part of the limit.
struct Sharer<'s, 'a> {
    class: &'s ClassDraft<'a>,
    line: f64,
    limit: f64,
}

/// Reports the leaf with most of the line, if one with less waits less behind a full queue.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    if !subject.row("weight").is_some_and(|row| row.scope == Scope::Leaf) {
        return;
    }
    let sharers: Vec<_> =
        subject.leaves().filter_map(|(_, class)| sharer(subject, class)).collect();
    let most = sharers.iter().max_by(|one, other| one.line.total_cmp(&other.line));
    let least = sharers.iter().min_by(|one, other| one.line.total_cmp(&other.line));
    let (Some(most), Some(least)) = (most, least) else { return };
    let wait = |sharer: &Sharer<'_, '_>| sharer.limit / sharer.line;
    let ratio = wait(most) / wait(least);
    if most.line <= least.line || ratio <= 1.0 + 1e-9 {
        return;
    }
    let message = format!(
        "it has {:.1} times the weight of `{}` on the line, but {:.1} times on the limit that they \
         share, so behind full queues its packets wait {ratio:.1} times as long",
        most.line / least.line,
        least.class.name,
        most.limit / least.limit
    );
    let cure = "write the same weights in the queues as in the classes, or smaller ratios, or give \
                each leaf a limit of its own";
    let span = most.class.queue_parameter_span(Some("weight"));
    let draft = about(&CODE, most.class, span, message);
    report.push(draft.related(least.class.span, "the class with less weight").cure(cure));
}

fn sharer<'s, 'a>(subject: &Subject<'_, '_>, class: &'s ClassDraft<'a>) -> Option<Sharer<'s, 'a>> {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper)?;
    // Only a shared limit has weights in the queue.
    let shared =
        dropper.parameters.iter().find(|row| row.name == "weight" && shares(dropper.parameters))?;
    let default = |row: Option<&str>| row?.parse().ok();
    let limit = class.queue.params.number("weight").or_else(|| default(shared.default))?;
    let row = subject.row("weight")?;
    let line = class.written.params.number("weight").or_else(|| default(row.default))?;
    Some(Sharer { class, line: line as f64, limit: limit as f64 })
}

/// Early droppers average over a `weight`, too, but those have thresholds.
fn shares(rows: &[weir_core::parameter::Parameter]) -> bool {
    !rows.iter().any(|row| row.name.ends_with("max"))
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "altq-wfq"

[class.a]
match = { dscp = "ef" }
weight = 300
queue = { dropper = "longest", weight = 600 }

[class.b]
default = true
weight = 100
queue = { dropper = "longest", weight = 100 }
"#,
    replace: r#"queue = { dropper = "longest", weight = 600 }"#,
    by: r#"queue = { dropper = "longest", weight = 300 }"#,
};
