//! A class too slow for its packets [algorithms §3.3]: ALTQ stores the time of one in 31 bits of
//! nanoseconds, and other packets wait for it for seconds.

use super::{Subject, about, rate, seconds, span, tiny_share};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W136",
    severity: Severity::Warning,
    title: "a class too slow for its packets",
    source: Some("algorithms §3.3"),
};

/// Reports each leaf whose largest packet takes longer.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (_, class) in subject.leaves() {
        let mtu = subject.plan.tree.mtu();
        let packet = class.written.params.bytes("maxpacketsize").unwrap_or(mtu).get();
        let Some(rate) = rate(class) else { continue };
        let time = seconds(packet, rate);
        // Another lint reports a share that rounds to zero.
        let is_nothing = tiny_share::exact(subject, class).is_some_and(|exact| exact < 1.0);
        if time <= LONGEST || is_nothing {
            continue;
        }
        let least = Rate::new((packet as f64 * 8.0 / LONGEST) as u64 + 1).unwrap_or(Rate::MIN);
        let message = format!(
            "at {rate} a packet of {packet} B takes {time:.1} s, longer than {LONGEST:.2} s"
        );
        let cure = format!("write at least `{least}`, or a smaller `mtu` in [link]");
        report.push(about(&CODE, class, span(class, "rate"), message).cure(cure));
    }
}

/// 2^31 ns, in seconds.
const LONGEST: f64 = 2.147_483_648;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.a]
match = { dscp = "ef" }
rate = "4 kbit/s"

[class.b]
default = true
rate = "9 Mbit/s"
"#,
    replace: r#"rate = "4 kbit/s""#,
    by: r#"rate = "8 kbit/s""#,
};
