//! Too many classes in a round robin for the wanted delay [drr95 §4]: a packet that has just missed
//! its turn waits for a turn of every other class.

use super::{Subject, about, seconds};
use crate::calculus;
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Report};
use crate::policy::class::ClassDraft;
use weir_core::sched::Service;

pub(super) static CODE: Code = Code {
    id: "W140",
    severity: Severity::Error,
    title: "too many classes in a round for the wanted delay",
    source: Some("drr95 §4"),
};

/// Returns whether the turns of the others alone take longer than the leaf wants to wait.
pub(super) fn is_too_long(subject: &Subject<'_, '_>, leaf: usize, wanted: f64) -> bool {
    let Service::Rounds(_) = &subject.service else { return false };
    subject.bounds[leaf].alone_packet.is_some_and(|bound| bound > wanted)
}

/// Reports each leaf whose wanted delay is shorter.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(delay) = class.demand.demand.delay else { continue };
        if !is_too_long(subject, leaf, delay.as_nanos() as f64 / 1e9) {
            continue;
        }
        report.push_error(|| draft(subject, leaf, class));
    }
}

fn draft(subject: &Subject<'_, '_>, leaf: usize, class: &ClassDraft<'_>) -> Draft {
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
    let cure = "use fewer classes or smaller turns for the others, or choose a scheduler whose \
                delay does not grow with the classes";
    let span = class.demand.span("delay").unwrap_or(class.span);
    about(&CODE, class, span, message).cure(cure)
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "drr"

[class.voice]
delay = "10 ms"
match = { dscp = "ef" }
queue = { limit = "2 packets" }

[class.c0]
match = { dport = 5000 }

[class.c1]
match = { dport = 5001 }

[class.c2]
match = { dport = 5002 }

[class.c3]
match = { dport = 5003 }

[class.c4]
match = { dport = 5004 }

[class.c5]
match = { dport = 5005 }

[class.c6]
match = { dport = 5006 }

[class.c7]
match = { dport = 5007 }

[class.c8]
match = { dport = 5008 }

[class.c9]
match = { dport = 5009 }

[class.c10]
match = { dport = 5010 }

[class.c11]
match = { dport = 5011 }

[class.c12]
match = { dport = 5012 }

[class.c13]
match = { dport = 5013 }

[class.c14]
match = { dport = 5014 }

[class.c15]
match = { dport = 5015 }

[class.c16]
match = { dport = 5016 }

[class.c17]
match = { dport = 5017 }

[class.c18]
match = { dport = 5018 }

[class.c19]
match = { dport = 5019 }

[class.rest]
default = true
"#,
    replace: r#"delay = "10 ms""#,
    by: r#"delay = "120 ms""#,
};
