//! A share that rounds to zero [risso99 §6.3]: with whole percents a hundred classes were the most,
//! and a class with 0 % was served only when it could borrow.

use super::{Subject, about, rate};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W137",
    severity: Severity::Warning,
    title: "a share that rounds to zero",
    source: Some("risso99 §6.3"),
};

/// Reports each class whose share of its parent is less than a bit a second.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        let Some(exact) = exact(subject, class).filter(|exact| *exact < 1.0) else { continue };
        let above = above(subject, class);
        let span = class.share.map_or(class.span, |share| share.1);
        let message = format!(
            "its share of {above} is {exact:.3} bit/s, which counts as {}",
            rate(class).map_or("nothing".to_owned(), |rate| rate.to_string())
        );
        let least = 1e9 / above.bits_per_second() as f64 * 100.0 / 1e9;
        let cure = format!("write a share of at least {least:.9} %, or a `rate`");
        report.push(about(&CODE, class, span, message).cure(cure));
    }
}

/// Returns the share of a class before rounding, in bit/s.
pub(super) fn exact(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> Option<f64> {
    let share = class.share?.0?;
    Some(above(subject, class).bits_per_second() as f64 * f64::from(share.ppb()) / 1e9)
}

fn above(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> Rate {
    subject.parent(class).and_then(rate).unwrap_or(subject.link_rate())
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.p]
rate = "64 kbit/s"

[class.none]
parent = "p"
share = "0.0000001 %"
match = { dscp = "ef" }

[class.p-rest]
parent = "p"
rate = "60 kbit/s"
match = { dscp = "cs1" }

[class.b]
default = true
rate = "9 Mbit/s"
"#,
    replace: r#"rate = "64 kbit/s"

[class.none]
parent = "p"
share = "0.0000001 %"
match = { dscp = "ef" }

[class.p-rest]
parent = "p"
rate = "60 kbit/s""#,
    by: r#"rate = "640 kbit/s"

[class.none]
parent = "p"
share = "2 %"
match = { dscp = "ef" }

[class.p-rest]
parent = "p"
rate = "600 kbit/s""#,
};
