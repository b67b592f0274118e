//! A burst too small for the rate and the kernel's timer [algorithms §5.10]: a class that is served
//! once a tick gets no more than its burst in each.

use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W135",
    severity: Severity::Warning,
    title: "a burst too small for rate and timer",
    source: Some("algorithms §5.10"),
};

/// Reports each class whose written burst is used up before the next tick.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Some(hz) = subject.link_number("hz").filter(|&hz| hz > 0) else { return };
    // With hysteresis a class may go a whole burst below zero.
    let slack = match subject.row("hysteresis") {
        Some(_) if subject.plan.tree.params().flag("hysteresis") != Some(false) => 2,
        _ => 1,
    };
    let timer = Timer { hz, slack };
    for class in subject.classes {
        for (rate, burst) in [("rate", "burst"), ("ceil", "cburst")] {
            check_one(class, rate, burst, timer, report);
        }
    }
}

/// The timer of the kernel that the parameters emulate.
#[derive(Clone, Copy)]
struct Timer {
    /// Its ticks in a second.
    hz: u64,
    /// The bursts that a class may send in a tick.
    slack: u64,
}

fn check_one(
    class: &ClassDraft<'_>,
    rate_name: &str,
    name: &str,
    Timer { hz, slack }: Timer,
    report: &mut Report,
) {
    let params = &class.written.params;
    let (Some(rate), Some(burst)) = (params.rate(rate_name), params.bytes(name)) else { return };
    let needed = (rate.bits_per_second() / 8).div_ceil(hz * slack);
    if burst.get() >= needed {
        return;
    }
    let reached = burst.get().saturating_mul(8 * hz * slack);
    let reached = Rate::new(reached).unwrap_or(Rate::MIN);
    let message = format!(
        "a {name} of {burst} lasts for a tick of 1/{hz} s only up to {reached}, not for its \
         {rate_name} of {rate}"
    );
    let cure = format!("write `{name} = \"{needed} B\"` or more, or a larger `hz`");
    let span = class.written.span(name).unwrap_or(class.span);
    report.push(about(&CODE, class, span, message).cure(cure));
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "100 Mbit/s"
scheduler = "htb-2.6.5"

[link."htb-2.6.5"]
hz = 100

[class.a]
match = { dscp = "ef" }
rate = "40 Mbit/s"
burst = "15 KB"

[class.b]
default = true
rate = "50 Mbit/s"
"#,
    replace: r#"burst = "15 KB""#,
    by: r#"burst = "25 KB""#,
};
