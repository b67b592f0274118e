//! Long bursts of a regulated class reduce its rate [risso99 §6.4]: it pays for each with one long
//! pause, and what timer ticks and an empty queue lose of that is not recovered.

use super::crossed_bursts::bursts;
use super::{Subject, about, rate, seconds, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;

pub(super) static CODE: Code = Code {
    id: "W134",
    severity: Severity::Warning,
    title: "a burst that costs throughput",
    source: Some("risso99 §6.4"),
};

/// Reports each class that pauses for the time of that many packets or more.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let link = subject.link_rate();
    for class in subject.classes {
        let (Some((least, most)), Some(rate)) = (bursts(subject, class), rate(class)) else {
            continue;
        };
        let holds = least.min(most);
        if holds < COSTLY {
            continue;
        }
        let size = class.written.params.bytes("packetsize").unwrap_or(subject.plan.tree.mtu());
        // [algorithms §3.3] offtime, from the gain of the estimator.
        let part = (rate.bits_per_second() as f64 / link.bits_per_second() as f64).min(1.0);
        let steps = GAIN.powf(holds.min(STEPS_MAX) as f64 - 1.0);
        let apart = seconds(size.get(), link) * (1.0 - part) / part;
        let pause = apart * (1.0 + (1.0 - steps) / steps / (1.0 - GAIN));
        let message = format!(
            "with a minburst of {holds} packets it pauses for {:.1} ms when it has overdrawn its \
             rate; with 5 packets 4 % of the rate were lost, with 10 packets 6 %",
            pause * 1e3
        );
        let cure = "write `minburst = 2`, and a larger `maxburst` for bursts after a silence";
        report.push(about(&CODE, class, span(class, "minburst"), message).cure(cure));
    }
}

/// [risso99 §6.4] From here on a class was measured to lose more than 3 %.
const COSTLY: u64 = 5;
/// [algorithms §3.3] 1 - 1/32.
const GAIN: f64 = 31.0 / 32.0;
/// A longer pause counts as endless.
const STEPS_MAX: u64 = 1000;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "2 Mbit/s"
scheduler = "cbq-altq"

[class.a]
match = { dscp = "ef" }
rate = "500 kbit/s"

[class.b]
default = true
rate = "1.5 Mbit/s"
minburst = 10
"#,
    replace: "minburst = 10",
    by: "minburst = 2",
};
