//! Packets of L4S in a queue that marks as for classic senders [rfc9331 §4.1, §5.1]: a Prague
//! sender takes each mark for a small one, and answers by less than another would, so that it takes
//! the line from all others in the queue, and its own delay is that of the classic target.

use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use std::collections::BTreeSet;
use weir_core::packet::Ecn;
use weir_core::parameter::Value;
use weir_core::queue::DROPPERS;

pub(super) static CODE: Code = Code {
    id: "W159",
    severity: Severity::Warning,
    title: "packets of L4S in a queue with classic marks",
    source: Some("rfc9331 §5.1"),
};

/// Reports each leaf to which a rule sends ECT(1), and whose dropper marks but knows no L4S.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let ect1 = subject.rules.iter().filter(|rule| rule.matches.ecn == Some(Ecn::Ect1));
    let wanting: BTreeSet<_> = ect1.map(|rule| rule.leaf.index()).collect();
    for (_, class) in subject.leaves().filter(|(leaf, _)| wanting.contains(leaf)) {
        let Some(dropper) = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper) else {
            continue;
        };
        if !marks(class) {
            continue;
        }
        let message = format!(
            "a rule sends packets with ECT(1) to it, and its dropper `{}` marks them as seldom as \
             those of classic senders, who yield more to each mark",
            dropper.keyword
        );
        let cure = "write `dropper = \"dualpi2\"` in its queue, and no rule for ECT(1): both kinds \
                    of sender share the class then";
        let span = class.queue_parameter_span(Some("ecn"));
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns whether the class's dropper marks packets of senders that understand ECN.
pub(super) fn marks(class: &ClassDraft<'_>) -> bool {
    if let Some(Value::Flag(marks)) = class.queue.params.value("ecn") {
        return marks;
    }
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
    let Some(dropper) = dropper else { return false };
    match dropper.parameters.iter().find(|row| row.name == "ecn") {
        Some(row) => row.default == Some("true"),
        // Queues with tins always mark.
        None => dropper.parameters.iter().any(|row| row.name == "tins"),
    }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "40 Mbit/s"
scheduler = "drr"

[class.l4s]
match = { ecn = "ect1" }
queue = { dropper = "codel", ecn = true }

[class.rest]
default = true
"#,
    replace: r#"queue = { dropper = "codel", ecn = true }"#,
    by: r#"queue = { dropper = "dualpi2" }"#,
};
