//! A driver's buffer that holds more than a class may have in flight [risso99 §5.4]: packets there
//! are beyond the scheduler's reach, and a TCP flow waits there instead of in its queue.

use super::{Subject, about, rate};
use crate::codes::{Code, Severity};
use crate::finding::Report;

pub(super) static CODE: Code = Code {
    id: "W130",
    severity: Severity::Warning,
    title: "a driver's buffer larger than a class's part of the data in flight",
    source: Some("risso99 §5.4"),
};

/// Reports the class whose part of the path's capacity the buffer exceeds most.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let (buffer, link) = (subject.plan.buffer.get(), subject.link);
    let (Some(span), Some(rtt)) = (link.buffer_span, link.rtt) else { return };
    let leaves = subject.leaves().filter_map(|(_, class)| Some((rate(class)?, class)));
    let Some((rate, class)) = leaves.min_by_key(|row| row.0) else { return };
    let share = rate.bytes_in(rtt).get();
    if buffer <= share {
        return;
    }
    let message = format!(
        "the line's buffer of {buffer} B holds more than the {share} B that {rate} have in flight \
         in {rtt}, so its packets wait where no class matters"
    );
    let cure = format!("write `buffer = \"{share} B\"` or less, or set the driver's own limit");
    report.push(about(&CODE, class, span, message).related(class.span, "the class").cure(cure));
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "2 Mbit/s"
scheduler = "cbq"
buffer = "52 KB"
rtt = "9 ms"

[class.a]
match = { dscp = "ef" }
rate = "500 kbit/s"

[class.b]
default = true
rate = "1.5 Mbit/s"
"#,
    replace: r#"buffer = "52 KB""#,
    by: r#"buffer = "500 B""#,
};
