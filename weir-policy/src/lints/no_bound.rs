//! A delay that nobody can vouch for: nothing is known that this scheduler does for the class
//! whatever the others do.

use super::{Subject, about};
use crate::finding::{Code, Report};

/// Reports each leaf with a delay and without a guarantee.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(delay) = class.demand.demand.delay else { continue };
        if subject.bounds[leaf].guaranteed.is_some() {
            continue;
        }
        let message = format!(
            "under `{}` others may keep it waiting for as long as they like, so no bound says \
             whether {delay} is kept",
            subject.plan.scheduler
        );
        let cure = "declare `arrival` for those that go before it, choose another scheduler, or \
                    state a `[[promise]]` and simulate it";
        let span = class.demand.span("delay").unwrap_or(class.span);
        report.push(about(code, class, span, message).cure(cure));
    }
}
