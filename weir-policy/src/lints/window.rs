//! One TCP flow whose window cannot fill its class [risso99 §5.4]: it never has more in flight than
//! the window, so it sends no more than that in a round trip.

use super::{Subject, about, rate};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W139",
    severity: Severity::Warning,
    title: "a TCP window that cannot fill its class",
    source: Some("risso99 §5.4"),
};

/// Reports each leaf whose `window` is less than its rate has in flight.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Some(rtt) = subject.link.rtt.filter(|rtt| rtt.as_nanos() > 0) else { return };
    for (_, class) in subject.leaves() {
        let (Some(window), Some(rate)) = (class.demand.demand.window, rate(class)) else {
            continue;
        };
        let needed = rate.bytes_in(rtt);
        if window >= needed {
            continue;
        }
        let most = window.get() as f64 * 8e9 / rtt.as_nanos() as f64;
        let most = Rate::new(most as u64).unwrap_or(Rate::MIN);
        let message = format!(
            "a window of {window} over {rtt} carries {most} at most, so one flow leaves the rest \
             of {rate} unused"
        );
        let cure = format!("raise the hosts' window to {needed}, or lower the rate to {most}");
        let span = class.demand.span("window").unwrap_or(class.span);
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"
rtt = "94 ms"

[class.a]
match = { dscp = "ef" }
rate = "6 Mbit/s"
window = "16 KB"

[class.b]
default = true
rate = "4 Mbit/s"
"#,
    replace: r#"window = "16 KB""#,
    by: r#"window = "72 KB""#,
};
