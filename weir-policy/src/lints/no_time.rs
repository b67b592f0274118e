//! A target or an interval of zero in a queue [rfc8289 §4.3]: every packet that waits at all is
//! late, so the queue drops or marks without congestion.

use super::{Subject, about, set};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use weir_core::units::Duration;

pub(super) static CODE: Code = Code {
    id: "W171",
    severity: Severity::Warning,
    title: "a queue with a time of zero",
    source: Some("rfc8289 §4.3"),
};

/// Reports each such time of a leaf's queue.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (_, class) in subject.leaves() {
        let is_zero = |name: &&str| class.queue.params.duration(name) == Some(Duration::ZERO);
        for name in TIMES.into_iter().filter(is_zero) {
            let message = format!(
                "the `{name}` of its queue is 0: a packet that waits for any time at all is late"
            );
            let cure = format!("leave `{name}` out, or write milliseconds");
            let span = class.queue_parameter_span(Some(name));
            let fix = set(class, &format!("queue.{name}"), "");
            report.push(about(&CODE, class, span, message).cure(cure).fix([fix]));
        }
    }
}

/// The times of droppers that say when a packet is late.
const TIMES: [&str; 3] = ["target", "interval", "step"];

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "fifo"

[class.a]
default = true
queue = { dropper = "codel", target = "0 s" }
"#,
    replace: r#"target = "0 s""#,
    by: r#"target = "5 ms""#,
};
