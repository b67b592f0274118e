//! A ceiling that is never reached [algorithms §5.2]: above the link's rate, or above the parent's.

use super::{Subject, about, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W143",
    severity: Severity::Warning,
    title: "a ceiling above the link or the parent's",
    source: Some("algorithms §5.2"),
};

/// Reports each class whose ceiling is above the lowest of its ancestors'.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        for name in NAMES {
            let Some(own) = class.written.params.rate(name) else { continue };
            let (above, owner) = above(subject, class, name);
            if own <= above {
                continue;
            }
            let message = format!("it may never send {own}, since {owner} sends at most {above}");
            let cure = format!("write `{name} = \"{above}\"` or less, or remove it");
            report.push(about(&CODE, class, span(class, name), message).cure(cure));
        }
    }
}

/// Returns the ceiling of the parent, or the link's rate, and the name of its owner.
fn above(subject: &Subject<'_, '_>, class: &ClassDraft<'_>, name: &str) -> (Rate, String) {
    let link = (subject.link_rate(), "the link".to_owned());
    let Some(parent) = subject.parent(class) else { return link };
    match parent.written.params.rate(name).filter(|&ceiling| ceiling < link.0) {
        Some(ceiling) => (ceiling, format!("class `{}`", parent.name)),
        None => link,
    }
}

/// The last slope of an upper limit is a ceiling.
const NAMES: [&str; 2] = ["ceil", "ul_m2"];

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.line]
rate = "10 Mbit/s"

[class.a]
parent = "line"
match = { dscp = "ef" }
rate = "6 Mbit/s"
ceil = "12 Mbit/s"

[class.b]
parent = "line"
default = true
rate = "4 Mbit/s"
"#,
    replace: r#"ceil = "12 Mbit/s""#,
    by: r#"ceil = "10 Mbit/s""#,
};
