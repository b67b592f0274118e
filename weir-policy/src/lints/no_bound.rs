//! A delay without any known bound: the scheduler guarantees the class nothing against the others.

use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;

pub(super) static CODE: Code = Code {
    id: "W147",
    severity: Severity::Warning,
    title: "a delay for which no bound is known",
    source: None,
};

/// Reports each leaf with a delay and without a guarantee.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(delay) = class.demand.demand.delay else { continue };
        if subject.bounds[leaf].proven.is_some() {
            continue;
        }
        let message = format!(
            "under `{}` others may delay it without limit, so no bound says \
             whether {delay} is met",
            subject.plan.scheduler
        );
        let cure = "declare `arrival` for the classes that precede it, choose another scheduler, \
                    or state a `[[promise]]` and simulate it";
        let span = class.demand.span("delay").unwrap_or(class.span);
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "hpd"

[class.a]
match = { dscp = "ef" }
delay = "10 ms"

[class.b]
default = true
"#,
    replace: r#"scheduler = "hpd"

[class.a]
match = { dscp = "ef" }
delay = "10 ms""#,
    by: r#"scheduler = "fifo"

[class.a]
match = { dscp = "ef" }
delay = "300 ms""#,
};
