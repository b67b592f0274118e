//! Real-time curves above an upper limit of their class, or of a class above it [stoica97 §IV]: the
//! limit holds only link sharing back, so the class passes it.

use super::{Subject, about, span};
use crate::calculus::{self, Slopes};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use std::collections::BTreeMap;
use weir_core::sched::Service;
use weir_core::units::Duration;

pub(super) static CODE: Code = Code {
    id: "W153",
    severity: Severity::Warning,
    title: "real-time curves above an upper limit",
    source: Some("stoica97 §IV"),
};

/// Reports each class whose upper limit is below the real-time curves of it and of those under it.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Service::Curves(curves) = &subject.service else { return };
    if subject.classes.iter().all(|class| limit(class).is_none()) {
        return;
    }
    // The curves under each class, by its place in the policy.
    let mut under: BTreeMap<usize, Vec<Slopes>> = BTreeMap::new();
    for (leaf, class) in subject.leaves() {
        let Some(curve) = curves[leaf].map(Slopes::from) else { continue };
        check_one(class, &[curve], report);
        let mut above = class.above;
        // Terminates: the tree has no loop.
        while let Some(at) = above {
            let all = under.entry(at).or_default();
            all.extend(std::iter::repeat_n(curve, class.width() as usize));
            above = subject.classes[at].above;
        }
    }
    for (class, curves) in under {
        check_one(&subject.classes[class], &curves, report);
    }
}

fn check_one(class: &ClassDraft<'_>, curves: &[Slopes], report: &mut Report) {
    let Some(limit) = limit(class) else { return };
    let Some(overload) = calculus::overload(curves.iter().copied(), limit) else { return };
    let (sum, allows) = overload.words();
    let whose = match class.interior {
        true => "the real-time curves under it ask",
        false => "its real-time curve asks",
    };
    let message = format!(
        "{overload} {whose} for {sum} and its upper limit allows {allows}; real-time service \
         passes the limit"
    );
    let cure = "lower the real-time slopes, or raise `ul_m2` (and `ul_m1` for `ul_d`)";
    report.push(about(&CODE, class, span(class, "ul_m2"), message).cure(cure));
}

/// Returns the upper limit of a class, if it has one.
fn limit(class: &ClassDraft<'_>) -> Option<Slopes> {
    let params = &class.written.params;
    let m2 = params.rate("ul_m2")?;
    let d = params.duration("ul_d").unwrap_or(Duration::ZERO);
    let m1 = params.rate("ul_m1").map_or(0, |rate| rate.bits_per_second());
    Some(Slopes::of(m1, d, m2))
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "hfsc"

[class.site]
ls_m2 = "5 Mbit/s"
ul_m2 = "5 Mbit/s"

[class.a]
parent = "site"
match = { dport = 80 }
rate = "4 Mbit/s"

[class.b]
parent = "site"
default = true
rate = "2 Mbit/s"
"#,
    replace: r#"ul_m2 = "5 Mbit/s""#,
    by: r#"ul_m2 = "6 Mbit/s""#,
};
