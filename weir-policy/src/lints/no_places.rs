//! Places under a scheduler that builds its classes together: no class can join.

use super::Subject;
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Report};
use crate::policy::places;
use crate::reader::list;
use weir_core::sched::{self, SCHEDULERS};

pub(super) static CODE: Code = Code {
    id: "W149",
    severity: Severity::Warning,
    title: "places that no class can take under this scheduler",
    source: None,
};

/// Reports places that are of no use.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let refits = sched::find(subject.plan.scheduler).is_some_and(|entry| entry.refits);
    let first = places::drafts(subject.link, subject.classes).next();
    let Some((_, draft)) = first.filter(|_| !refits) else { return };
    let message = format!(
        "scheduler `{}` builds its classes together, so no class can take a place",
        subject.plan.scheduler
    );
    let able = SCHEDULERS.iter().filter(|entry| entry.refits);
    let able: Vec<_> = able.map(|entry| entry.descriptor.keyword).collect();
    let cure = format!("take `places` out, or choose one of {}", list(&able));
    report.push(Draft::new(&CODE, draft.span, message).cure(cure));
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "qfq"
places = 10

[class.a]
match = { dscp = "ef" }

[class.b]
default = true
"#,
    replace: "places = 10\n",
    by: "",
};
