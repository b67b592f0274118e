//! A configured packet size that differs much from the real one [risso99 §6.3]: the estimator takes
//! each packet for one of that size, so short packets get less than their share and long ones more.

use super::{Subject, about, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;

pub(super) static CODE: Code = Code {
    id: "W132",
    severity: Severity::Warning,
    title: "a configured packet size that differs much from the real one",
    source: Some("risso99 §6.3"),
};

/// Reports each leaf whose `packetsize` is more than twice, or less than half, of its real packets.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    if subject.row("packetsize").is_none() {
        return;
    }
    let mtu = subject.plan.tree.mtu();
    for (_, class) in subject.leaves() {
        let Some(real) = class.demand.demand.typical_packet.map(|bytes| bytes.get()) else {
            continue;
        };
        let configured = class.written.params.bytes("packetsize").unwrap_or(mtu).get();
        if configured <= real.saturating_mul(FAR) && real <= configured.saturating_mul(FAR) {
            continue;
        }
        let effect = if real < configured { "less" } else { "more" };
        let message = format!(
            "it is set up for packets of {configured} B and sends {real} B, {:.2} times as long, \
             so it gets {effect} than its rate",
            real as f64 / configured as f64
        );
        let cure = format!("write `packetsize = \"{real} B\"`");
        report.push(about(&CODE, class, span(class, "packetsize"), message).cure(cure));
    }
}

/// At a third of the configured size a quarter of the rate was lost [risso99 §6.3].
const FAR: u64 = 2;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "2 Mbit/s"
scheduler = "cbq-altq"

[class.a]
match = { dscp = "ef" }
rate = "500 kbit/s"
packetsize = "1500 B"
typical_packet = "64 B"

[class.b]
default = true
rate = "1.5 Mbit/s"
"#,
    replace: r#"packetsize = "1500 B""#,
    by: r#"packetsize = "64 B""#,
};
