//! A queue that marks as for classic senders, in a policy that serves L4S elsewhere
//! [rfc9331 §5.1]: a Prague sender whose packets come to it takes each mark for a small one, and no
//! rule keeps them out.

use super::classic_marks::marks;
use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::packet::Ecn;
use weir_core::queue::DROPPERS;

pub(super) static CODE: Code = Code {
    id: "W168",
    severity: Severity::Warning,
    title: "classic marks beside a queue for L4S",
    source: Some("rfc9331 §5.1"),
};

/// Reports each leaf whose dropper marks but knows no L4S, if another one knows it, unless rules
/// send ECT(1) elsewhere, or to this leaf, which is another trap.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Some((_, serving)) = subject.leaves().find(|(_, class)| knows_l4s(class)) else { return };
    if subject.rules.iter().any(|rule| rule.matches.ecn == Some(Ecn::Ect1)) {
        return;
    }
    for (_, class) in subject.leaves().filter(|(_, class)| marks(class) && !knows_l4s(class)) {
        let message = format!(
            "its dropper `{}` marks packets with ECT(1) as seldom as those of classic senders, who \
             yield more to each mark; class `{}` has a queue for them",
            class.queue.dropper, serving.name
        );
        let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
        let may_stop =
            dropper.is_some_and(|row| row.parameters.iter().any(|one| one.name == "ecn"));
        let stop = if may_stop { "`ecn = false` in its queue, or " } else { "" };
        let cure = format!(
            "write {stop}a queue for L4S here, too, or send ECT(1) to a class that has one by a \
             rule"
        );
        let span = class.queue_parameter_span(Some("ecn"));
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns whether the class's queue tells senders of L4S from others.
pub(super) fn knows_l4s(class: &ClassDraft<'_>) -> bool {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
    dropper.is_some_and(|dropper| dropper.parameters.iter().any(|row| row.name == "identifier"))
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "40 Mbit/s"
scheduler = "drr"

[class.web]
match = { dport = 443 }
queue = { dropper = "red", ecn = true }

[class.rest]
default = true
queue = { dropper = "dualpi2" }
"#,
    replace: "ecn = true",
    by: "ecn = false",
};
