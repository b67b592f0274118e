//! A queue that divides a rate among its tins, and counts on another one than its class may have
//! [algorithms §9.20]: the thresholds of tins then mean nothing, and quanta and targets are those
//! of another line.

use super::{Subject, about, set};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::parameter::Parameter;
use weir_core::queue::DROPPERS;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W170",
    severity: Severity::Warning,
    title: "a queue that counts on another rate than its class may have",
    source: Some("algorithms §9.20"),
};

/// Reports each leaf whose queue counts on more than [`FAR`] times what the class may send, or on
/// less than that part of it.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves().filter(|row| divides_a_rate(row.1)) {
        let written = class.queue.params.rate("rate");
        let counted = written.unwrap_or(subject.link_rate());
        let most = subject.rates().alone.get(leaf).copied().flatten();
        let Some(most) = most.and_then(|bits| Rate::new(bits as u64)) else { continue };
        let (counted_bits, bits) = (counted.bits_per_second(), most.bits_per_second());
        let is_near =
            counted_bits <= bits.saturating_mul(FAR) && bits <= counted_bits.saturating_mul(FAR);
        if is_near {
            continue;
        }
        let whose = if written.is_some() { "" } else { ", the rate of the link" };
        let message = format!(
            "its queue counts on {counted}{whose}, and the class may send {most} at most: tins \
             have parts of what it counts on"
        );
        let cure = format!("write `rate = \"{most}\"` in its queue");
        let span = class.queue_parameter_span(written.map(|_| "rate"));
        let draft = about(&CODE, class, span, message).cure(cure);
        report.push(draft.fix([set(class, "queue.rate", most.to_string())]));
    }
}

/// Whether the queue of a class divides a rate that it knows.
fn divides_a_rate(class: &ClassDraft<'_>) -> bool {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper);
    let has = |name| {
        dropper.is_some_and(|it| it.parameters.iter().any(|row: &Parameter| row.name == name))
    };
    has("rate") && has("tins") && class.queue.params.flag("unlimited") != Some(true)
}

/// With four times the rate, the part of a call's tin, a quarter, is the whole line.
const FAR: u64 = 4;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "100 Mbit/s"
scheduler = "htb"

[class.line]
rate = "100 Mbit/s"

[class.house]
parent = "line"
match = { dst = "192.0.2.7" }
rate = "10 Mbit/s"
queue = { rate = "100 Mbit/s", dropper = "cake" }

[class.rest]
parent = "line"
default = true
rate = "90 Mbit/s"
"#,
    replace: r#"{ rate = "100 Mbit/s","#,
    by: r#"{ rate = "10 Mbit/s","#,
};
