//! A ceiling that nothing can reach [algorithms §5.2]: above the link, or above the parent's.

use super::{Subject, about, span};
use crate::finding::{Code, Report};
use crate::policy::class::ClassDraft;
use weir_core::units::Rate;

/// Reports each class whose ceiling is above the lowest that stands over it.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        for name in NAMES {
            let Some(own) = class.written.params.rate(name) else { continue };
            let (above, owner) = above(subject, class, name);
            if own <= above {
                continue;
            }
            let message = format!("it may never send {own}, since {owner} sends {above} at most");
            let cure = format!("write `{name} = \"{above}\"` or less, or take it out");
            report.push(about(code, class, span(class, name), message).cure(cure));
        }
    }
}

/// The ceiling of the parent, or the link's rate, and whose it is.
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
