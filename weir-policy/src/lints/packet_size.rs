//! A configured packet size far from the real one [risso99 §6.3]: the estimator takes each packet
//! for one of that size, so short packets get less than their share and long ones more.

use super::{Subject, about, span};
use crate::finding::{Code, Report};

/// Reports each leaf whose `packetsize` is more than twice, or less than half, of what it sends.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
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
        report.push(about(code, class, span(class, "packetsize"), message).cure(cure));
    }
}

/// At a third of the configured size a quarter of the rate was lost [risso99 §6.3].
const FAR: u64 = 2;
