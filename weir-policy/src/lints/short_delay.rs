//! A delay that shapes a curve, and that is shorter than the link needs to send one packet of the
//! class [stoica97 §IV]: the curve is then steeper than the link.

use super::{Subject, about};
use crate::calculus;
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::units::{Bytes, Duration};

pub(super) static CODE: Code = Code {
    id: "W154",
    severity: Severity::Warning,
    title: "a delay shorter than one packet takes on the link",
    source: Some("stoica97 §IV"),
};

/// Reports each leaf that asks for that.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (_, class) in subject.leaves() {
        let Some((delay, packet, needed)) = missed(subject, class) else { continue };
        let message = format!(
            "it wants a packet of {packet} out within {delay}, and the link alone needs {} to send \
             one",
            calculus::shown(needed)
        );
        let cure = "write a longer `delay`, or `packet` if its packets are shorter than that";
        let span = class.demand.span("delay").unwrap_or(class.span);
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns whether a leaf is reported.
pub(super) fn any(subject: &Subject<'_, '_>) -> bool {
    subject.leaves().any(|(_, class)| missed(subject, class).is_some())
}

/// Returns the delay of a class, its packet and the seconds that this takes, if that is longer.
fn missed(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> Option<(Duration, Bytes, f64)> {
    let delay = class.demand.demand.delay.filter(|_| class.demand.delay_is_parameter)?;
    let packet = class.written.params.bytes("packet").unwrap_or(subject.plan.tree.mtu());
    let needed = subject.link_rate().transmit_time(packet);
    (needed > delay).then(|| (delay, packet, super::seconds(packet.get(), subject.link_rate())))
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "hfsc"

[class.voice]
match = { dscp = "ef" }
rate = "1 Mbit/s"
delay = "1 ms"
arrival = { rate = "1 Mbit/s", burst = "200 B" }

[class.rest]
default = true
rate = "1 Mbit/s"
"#,
    replace: r#"delay = "1 ms""#,
    by: r#"packet = "200 B"
delay = "1 ms""#,
};
