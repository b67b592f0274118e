//! A share that rounds to nothing [risso99 §6.3]: whole per cents ran out at a hundred classes, and
//! the class with none was served only when it could borrow.

use super::{Subject, about, rate};
use crate::finding::{Code, Report};

/// Reports each class whose share of its parent is less than a bit a second.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
    for class in subject.classes {
        let Some((Some(share), span)) = class.share else { continue };
        let above = subject.parent(class).and_then(rate).unwrap_or(subject.link_rate());
        let exact = above.bits_per_second() as f64 * f64::from(share.ppb()) / 1e9;
        if exact >= 1.0 {
            continue;
        }
        let message = format!(
            "its share of {above} is {exact:.3} bit/s, which counts as {}",
            rate(class).map_or("nothing".to_owned(), |rate| rate.to_string())
        );
        let least = 1e9 / above.bits_per_second() as f64 * 100.0 / 1e9;
        let cure = format!("write a share of at least {least:.9} %, or a `rate`");
        report.push(about(code, class, span, message).cure(cure));
    }
}
