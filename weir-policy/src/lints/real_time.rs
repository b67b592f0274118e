//! Real-time curves that the link cannot keep [stoica97 §IV]: their sum is above it at a bend or in
//! the long run, so some class misses its deadlines, and may lose packets, while all send.

use super::{Subject, short_delay};
use crate::calculus::{self, Slopes};
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Report};
use crate::policy::class::ClassDraft;
use weir_core::sched::Service;

pub(super) static CODE: Code = Code {
    id: "W152",
    severity: Severity::Warning,
    title: "real-time curves that the link cannot keep",
    source: Some("stoica97 §IV"),
};

/// Reports the bend at which all curves together are farthest above the link. Where a class wants a
/// delay, the finding is about that delay.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Service::Curves(curves) = &subject.service else { return };
    let wants_delay = |class: &ClassDraft<'_>| class.demand.demand.delay.is_some();
    if short_delay::any(subject) || subject.leaves().any(|(_, class)| wants_delay(class)) {
        return;
    }
    let line = subject.link_rate().bits_per_second() as f64 / 8.0;
    let Some(overload) = calculus::above_line(subject.plan, line) else { return };
    let (sum, sends) = overload.words();
    let message = format!(
        "{overload} the real-time curves of all classes ask for {sum} together, and the link sends \
         {sends}"
    );
    let cure = "lower the slopes until their sum fits the link; what is not promised can be shared \
                by `ls_m2`";
    let mut draft = Draft::new(&CODE, subject.link.rate_span, message).cure(cure);
    let mut largest: Vec<_> = subject
        .leaves()
        .filter_map(|(leaf, class)| Some((class, curves[leaf].map(Slopes::from)?)))
        .collect();
    let slope = |curve: &Slopes| if curve.d > 0.0 { curve.m1.max(curve.m2) } else { curve.m2 };
    largest.sort_by(|one, other| slope(&other.1).total_cmp(&slope(&one.1)));
    for (class, curve) in largest {
        // The slope with which it has most until the bend.
        let is_first = |at: f64| curve.m1 * curve.d > curve.m2 * (at - curve.d);
        let keys = match overload.at.is_some_and(is_first) {
            true => ["rt_m1", "delay", "rt_m2", "rate"],
            false => ["rt_m2", "rate", "rt_m1", "delay"],
        };
        let key = keys.into_iter().find_map(|key| class.written.span(key));
        draft = draft.related(key.unwrap_or(class.span), format!("`{}`", class.name));
    }
    report.push(draft);
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "hfsc"

[class.a]
match = { dscp = "ef" }
rt_m2 = "8 Mbit/s"
ls_m2 = "5 Mbit/s"

[class.b]
default = true
rt_m2 = "8 Mbit/s"
ls_m2 = "5 Mbit/s"
"#,
    replace: r#"match = { dscp = "ef" }
rt_m2 = "8 Mbit/s""#,
    by: r#"match = { dscp = "ef" }
rt_m2 = "2 Mbit/s""#,
};
