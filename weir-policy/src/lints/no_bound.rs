//! A delay without any known bound: the scheduler guarantees the class nothing against the others.

use super::{Subject, about, short_delay};
use crate::calculus;
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
    // Of such curves another finding is made.
    if short_delay::any(subject) {
        return;
    }
    let (why, cure) = reason(subject);
    for (leaf, class) in subject.leaves() {
        let Some(delay) = class.demand.demand.delay else { continue };
        if subject.bounds[leaf].proven.is_some() {
            continue;
        }
        let message = format!("{why}, so no bound says whether {delay} is met");
        let span = class.demand.span("delay").unwrap_or(class.span);
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns why there is no bound, and what to do.
fn reason(subject: &Subject<'_, '_>) -> (String, &'static str) {
    let Some(overload) = calculus::above_slowest_line(subject.plan) else {
        let why = format!("under `{}` others may delay it without limit", subject.plan.scheduler);
        let cure = "declare `arrival` for the classes that precede it, choose another scheduler, \
                    or state a `[[promise]]` and simulate it";
        return (why, cure);
    };
    let (sum, sends) = overload.words();
    let why = format!(
        "{overload} the real-time curves of all classes ask for {sum} together, and the line sends \
         {sends}"
    );
    (why, "write a longer `delay`, a shorter `packet` or a lower rate for the steepest of them")
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
