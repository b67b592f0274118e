//! `minburst` above `maxburst` [algorithms §3.2]: ALTQ lowers it silently [risso99 §6.4].

use super::{Subject, about, seconds, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;

pub(super) static CODE: Code = Code {
    id: "W133",
    severity: Severity::Warning,
    title: "a smallest burst above the largest",
    source: Some("risso99 §6.4"),
};

/// Reports each class whose `minburst` does not take effect.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        let Some((least, most)) = bursts(subject, class).filter(|(least, most)| least > most)
        else {
            continue;
        };
        let message = format!(
            "a minburst of {least} packets is above its maxburst of {most}, and is lowered to that"
        );
        let cure = format!("write `minburst = {most}`, or raise `maxburst` to {least}");
        report.push(about(&CODE, class, span(class, "minburst"), message).cure(cure));
    }
}

/// Returns `minburst` and `maxburst` of a class that sets the first [algorithms §3.2].
pub(super) fn bursts(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> Option<(u64, u64)> {
    let least = class.written.params.number("minburst")?;
    let most = class.written.params.number("maxburst");
    Some((least, most.unwrap_or_else(|| default_most(subject, class))))
}

/// 4 packets on a slow class, 16 on a fast one.
fn default_most(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> u64 {
    let Some(rate) = super::rate(class) else { return 16 };
    let packet = subject.plan.tree.mtu().get();
    // The distance of its packets at its rate, less their time on the line.
    let apart = seconds(packet, rate) - seconds(packet, subject.link_rate());
    if apart > 0.010 { 4 } else { 16 }
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "2 Mbit/s"
scheduler = "cbq-altq"

[class.a]
match = { dscp = "ef" }
rate = "500 kbit/s"
minburst = 10
maxburst = 4

[class.b]
default = true
rate = "1.5 Mbit/s"
"#,
    replace: "minburst = 10",
    by: "minburst = 2",
};
