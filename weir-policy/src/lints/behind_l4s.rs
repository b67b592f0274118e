//! A driver's buffer behind a queue for L4S that takes longer to send than the queue lets packets
//! wait [risso99 §5.4]: a full buffer is a FIFO without marks, so all packets wait there, and
//! those of L4S as long as the others.

use super::classic_beside::knows_l4s;
use super::{Subject, about, seconds};
use crate::codes::{Code, Severity};
use crate::finding::{Fix, Report};

pub(super) static CODE: Code = Code {
    id: "W169",
    severity: Severity::Warning,
    title: "a deep buffer behind a queue for L4S",
    source: Some("risso99 §5.4"),
};

/// Reports the first leaf with a queue for L4S, if the buffer behind holds more than [`PACKETS`]
/// and takes longer than the delay at which the queue marks.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Some(span) = subject.link.buffer_span else { return };
    let Some((_, class)) = subject.leaves().find(|(_, class)| knows_l4s(class)) else { return };
    let buffer = subject.plan.buffer.get();
    let written = class.queue.params.duration("step");
    let step = written.map_or(STEP, |step| step.as_nanos() as f64 / 1e9);
    let least = PACKETS * subject.plan.tree.mtu().get();
    let time = seconds(buffer, subject.link_rate());
    if buffer <= least || time <= step {
        return;
    }
    let fits = (step * subject.link_rate().bits_per_second() as f64 / 8.0) as u64;
    let most = fits.max(least);
    let message = format!(
        "the line's buffer of {buffer} B takes {:.1} ms, and nothing marks there, so packets of \
         L4S wait longer behind their queue than the {:.1} ms that they wait in it",
        time * 1e3,
        step * 1e3
    );
    let cure = format!("write `buffer = \"{most} B\"` or less, or set the driver's own limit");
    let draft = about(&CODE, class, span, message).related(class.span, "the class").cure(cure);
    report.push(draft.fix([Fix::set(&["link", "buffer"], format_args!("{most} B"))]));
}

/// The delay in seconds at which a queue for L4S marks, if it says nothing else.
const STEP: f64 = 0.001;
/// Packets that a buffer may always hold.
const PACKETS: u64 = 2;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "40 Mbit/s"
scheduler = "fifo"
buffer = "64 KB"

[class.all]
default = true
queue = { dropper = "dualpi2" }
"#,
    replace: r#"buffer = "64 KB""#,
    by: r#"buffer = "4500 B""#,
};
