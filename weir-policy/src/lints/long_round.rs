//! Too many classes for the delay that is wanted from a round robin [drr95 §4]: a packet that has
//! just missed its turn waits for a turn of everybody else.

use super::{Subject, about, seconds};
use crate::calculus;
use crate::finding::{Code, Draft, Report};
use crate::policy::class::ClassDraft;
use weir_core::sched::Service;

/// Whether the turns of the others alone take longer than the leaf wants to wait.
pub(super) fn is_too_long(subject: &Subject<'_, '_>, leaf: usize, wanted: f64) -> bool {
    let Service::Rounds(_) = &subject.service else { return false };
    subject.bounds[leaf].alone_packet.is_some_and(|bound| bound > wanted)
}

/// Reports each leaf that wants less.
pub(super) fn check(code: &'static Code, subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(delay) = class.demand.demand.delay else { continue };
        if !is_too_long(subject, leaf, delay.as_nanos() as f64 / 1e9) {
            continue;
        }
        report.push_error(|| draft(code, subject, (leaf, class)));
    }
}

fn draft(
    code: &'static Code,
    subject: &Subject<'_, '_>,
    (leaf, class): (usize, &ClassDraft<'_>),
) -> Draft {
    let delay = class.demand.demand.delay.unwrap_or_default();
    let count = subject.plan.tree.leaf_count();
    let turn = |leaf| seconds(subject.turn(leaf).unwrap_or(0), subject.link_rate());
    let round: f64 = (0..count).map(turn).sum();
    let bound = subject.bounds[leaf].alone_packet.unwrap_or(f64::INFINITY);
    let message = format!(
        "a round of {count} classes lasts {}, so a packet takes up to {}, not {delay}",
        calculus::shown(round),
        calculus::shown(bound)
    );
    let cure = "give it less company, the others smaller turns, or choose a scheduler whose \
                delay does not grow with the classes";
    let span = class.demand.span("delay").unwrap_or(class.span);
    about(code, class, span, message).cure(cure)
}
