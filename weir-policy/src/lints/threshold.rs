//! A threshold for early drops below what the leaf sends in a turn [risso99 §5.4]: that much waits
//! between two turns, so packets are dropped without congestion.

use super::{Subject, about, default_quantity};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::queue::DROPPERS;
use weir_core::units::Quantity;

pub(super) static CODE: Code = Code {
    id: "W131",
    severity: Severity::Warning,
    title: "a threshold for early drops below what a turn sends",
    source: Some("risso99 §5.4"),
};

/// Reports each leaf whose `min` is below its turn.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let mtu = subject.plan.tree.mtu().get();
    for (leaf, class) in subject.leaves() {
        let packet = class.demand.demand.typical_packet.map_or(mtu, |bytes| bytes.get());
        let (Some(turn), Some(min)) = (subject.turn(leaf), threshold(class, packet)) else {
            continue;
        };
        if min >= turn {
            continue;
        }
        let message = format!(
            "packets are dropped early from {min} B on, but a turn sends {turn} B, which wait \
             until it comes"
        );
        let cure = format!(
            "write `min = \"{} packets\"` or more in its queue, or a smaller turn",
            turn.div_ceil(packet)
        );
        let span = class.queue_parameter_span(Some("min"));
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns the bytes from which on the leaf drops early, if its dropper has two thresholds.
fn threshold(class: &ClassDraft<'_>, packet: u64) -> Option<u64> {
    let dropper = DROPPERS.iter().find(|row| row.keyword == class.queue.dropper)?;
    let row = |name| dropper.parameters.iter().find(move |row| row.name == name);
    let min = row("max").and(row("min"))?;
    match class.queue.params.quantity("min").or_else(|| default_quantity(min))? {
        Quantity::Packets(packets) => Some(u64::from(packets).saturating_mul(packet)),
        Quantity::Number(packets) => Some(packets.saturating_mul(packet)),
        Quantity::Bytes(bytes) => Some(bytes.get()),
        _ => None,
    }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "drr"

[class.a]
match = { dscp = "ef" }
quantum = "15 KB"
queue = { dropper = "red", min = "5 packets", max = "15 packets" }

[class.b]
default = true
"#,
    replace: r#"quantum = "15 KB""#,
    by: r#"quantum = "6000 B""#,
};
