//! `minburst` above `maxburst` [algorithms §3.2]: ALTQ lowers it without a word [risso99 §6.4].

use super::{Subject, about, seconds, span};
use crate::finding::{Code, Report};
use crate::policy::class::ClassDraft;

/// Reports each class whose `minburst` is not what will hold.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        let Some((least, most)) = bursts(subject, class).filter(|(least, most)| least > most)
        else {
            continue;
        };
        let message = format!(
            "a minburst of {least} packets is above its maxburst of {most}, and is lowered to that"
        );
        let cure = format!("write `minburst = {most}`, or raise `maxburst` to {least}");
        report.push(about(code, class, span(class, "minburst"), message).cure(cure));
    }
}

/// `minburst` and `maxburst` of a class that has the first written [algorithms §3.2].
pub(super) fn bursts(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> Option<(u64, u64)> {
    let least = class.written.params.number("minburst")?;
    let most = class.written.params.number("maxburst");
    Some((least, most.unwrap_or_else(|| default_most(subject, class))))
}

/// 4 packets on a slow class, 16 on a fast one.
fn default_most(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> u64 {
    let Some(rate) = super::rate(class) else { return 16 };
    let packet = subject.plan.tree.mtu().get();
    // What its packets are apart at its rate, beyond the time on the line.
    let apart = seconds(packet, rate) - seconds(packet, subject.link_rate());
    if apart > 0.010 { 4 } else { 16 }
}
