//! A queue longer than the wanted delay [parekh93 §IV]: packets in a full queue wait longer, and
//! the class declares nothing that keeps it from filling.

use super::late::wanted;
use super::{Subject, about};
use crate::calculus;
use crate::codes::{Code, Severity};
use crate::finding::Report;
use weir_core::queue::Limit;

pub(super) static CODE: Code = Code {
    id: "W144",
    severity: Severity::Warning,
    title: "a queue longer than the wanted delay",
    source: Some("parekh93 §IV"),
};

/// Reports each leaf whose full queue takes longer than its delay, which it could meet otherwise.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(wanted) = wanted(subject, leaf, class) else { continue };
        if wanted.bound.is_none_or(|bound| bound > wanted.delay) {
            continue;
        }
        if class.demand.demand.arrival.is_some()
            || wanted.full.is_some_and(|full| full <= wanted.delay)
        {
            continue;
        }
        let (limit, delay) =
            (shown(class.queue.limit()), class.demand.demand.delay.unwrap_or_default());
        let full = wanted.full.map_or("for ever".to_owned(), calculus::shown);
        let message =
            format!("its queue of {limit} may take {full}, longer than the {delay} it wants");
        let cure = "write a smaller `limit`, or `arrival = { rate, burst }` for what it is offered";
        let span = class.queue_parameter_span(Some("limit"));
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

fn shown(limit: Limit) -> String {
    match limit {
        Limit::Packets(packets) => format!("{packets} packets"),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "wf2q+"

[class.a]
match = { dscp = "ef" }
weight = 4
delay = "10 ms"
queue = { limit = "50 packets" }

[class.b]
default = true
"#,
    replace: r#"queue = { limit = "50 packets" }"#,
    by: r#"queue = { limit = "4 packets" }"#,
};
