//! A link whose rate is far above what its classes may use together [algorithms §5.5]: nothing is
//! then lent or shared, so the rate of the link, or those of the classes, is not what was meant.

use super::{Subject, rate};
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Report};
use crate::policy::class::ClassDraft;
use weir_core::sched::Service;
use weir_core::sched::service::Excess;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W158",
    severity: Severity::Warning,
    title: "a link far above what its classes may use",
    source: Some("algorithms §5.5"),
};

/// Reports a link that has more than [`FAR`] times what all classes at the top may send.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Service::Buckets(buckets) = &subject.service else { return };
    if buckets.excess != Excess::Turns {
        return;
    }
    let most = |class: &ClassDraft<'_>| {
        let most = class.written.params.rate("ceil").or(rate(class)).map(Rate::bits_per_second);
        most.unwrap_or(0).saturating_mul(class.width().into())
    };
    let top = subject.classes.iter().filter(|class| class.above.is_none());
    let sum = top.map(most).fold(0, u64::saturating_add);
    let Some(sum) = Rate::new(sum) else { return };
    if sum.bits_per_second().saturating_mul(FAR) >= subject.link_rate().bits_per_second() {
        return;
    }
    let message = format!(
        "the link has {}, and its classes together may send {sum}, since it lends nothing itself",
        subject.link_rate()
    );
    let cure = "write the rate of the line, or a class of that rate with `parent` in the others";
    report.push(Draft::new(&CODE, subject.link.rate_span, message).cure(cure));
}

/// How many times its classes' rates a link may have.
const FAR: u64 = 10;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "1 Gbit/s"
scheduler = "htb"

[class.a]
match = { dport = 80 }
rate = "5 Mbit/s"

[class.b]
default = true
rate = "5 Mbit/s"
"#,
    replace: r#"rate = "1 Gbit/s""#,
    by: r#"rate = "10 Mbit/s""#,
};
