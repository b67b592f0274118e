//! A delay that cannot be met, whatever the class itself does [parekh93 §IV]: an error that names
//! the classes in the way.

use super::{Subject, about, long_round};
use crate::calculus;
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Report};
use crate::policy::class::ClassDraft;
use weir_core::sched::Service;

pub(super) static CODE: Code = Code {
    id: "W146",
    severity: Severity::Error,
    title: "a delay that cannot be met",
    source: Some("parekh93 §IV"),
};

/// The delay that a leaf wants, and its bounds.
pub(super) struct Wanted {
    /// The delay in seconds; where it shapes a curve, plus the packet being sent.
    pub(super) delay: f64,
    /// The bound for its declared arrivals, or else for one packet at a time; `None` if there is
    /// none.
    pub(super) bound: Option<f64>,
    /// The bound for a full queue.
    pub(super) full: Option<f64>,
}

/// Returns what the leaf wants, if it wants a delay.
pub(super) fn wanted(
    subject: &Subject<'_, '_>,
    leaf: usize,
    class: &ClassDraft<'_>,
) -> Option<Wanted> {
    let demand = &class.demand.demand;
    let line = calculus::Line::of(subject.plan);
    let sending = line.time(line.packet) + line.buffer;
    let margin = if class.demand.delay_is_parameter { sending } else { 0.0 };
    let delay = calculus::outward(demand.delay?.as_nanos() as f64 / 1e9 + margin, 2e-6);
    let bound = subject.bounds[leaf];
    let own = if demand.arrival.is_some() { bound.delay } else { bound.alone_packet };
    Some(Wanted { delay: delay * (1.0 + 1e-6), bound: own, full: bound.delay })
}

/// Reports each leaf whose bound is longer than its delay.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (leaf, class) in subject.leaves() {
        let Some(wanted) = wanted(subject, leaf, class) else { continue };
        let known = subject.bounds[leaf].proven.is_some();
        if !known || wanted.bound.is_some_and(|bound| bound <= wanted.delay) {
            continue;
        }
        if class.demand.demand.arrival.is_none()
            && long_round::is_too_long(subject, leaf, wanted.delay)
        {
            continue;
        }
        report.push_error(|| conflict(subject, leaf, class, &wanted));
    }
}

fn conflict(
    subject: &Subject<'_, '_>,
    leaf: usize,
    class: &ClassDraft<'_>,
    wanted: &Wanted,
) -> Draft {
    let delay = class.demand.demand.delay.unwrap_or_default();
    let rate = subject.bounds[leaf].proven.unwrap_or(0.0);
    let message = match wanted.bound {
        Some(bound) => format!(
            "{} may take {}, not {delay}, with {rate:.0} bit/s of its own",
            what(class),
            calculus::shown(bound)
        ),
        None => format!(
            "it is offered more than the {rate:.0} bit/s that it is proven to get, so nothing \
             bounds its delay to {delay}"
        ),
    };
    let span = class.demand.span("delay").unwrap_or(class.span);
    let burst = subject.bounds[leaf].better_burst.map(|better| {
        let (keys, delay) = (better.keys(), calculus::shown(better.delay));
        format!("write {keys}, with which it takes {delay}, or ")
    });
    let mut draft = about(&CODE, class, span, message).cure(format!(
        "{}write a longer `delay`, a higher rate for this class, or lower ones for the others",
        burst.unwrap_or_default()
    ));
    for other in rivals(subject, leaf) {
        let other = subject.leaves().find(|row| row.0 == other);
        if let Some((_, other)) = other {
            draft = draft.related(other.span, format!("`{}` precedes it", other.name));
        }
    }
    draft
}

/// Says which packet the bound is of.
fn what(class: &ClassDraft<'_>) -> &'static str {
    match class.demand.demand.arrival {
        Some(_) => "a packet of what it is offered (`arrival`)",
        None => "a packet of the greatest length (`mtu`) that waits alone",
    }
}

/// Returns the leaves that take most of the time, the worst first.
fn rivals(subject: &Subject<'_, '_>, leaf: usize) -> Vec<usize> {
    let weight = |other: usize| match &subject.service {
        Service::Rounds(rounds) => rounds.gains[other],
        Service::Fluid(leaves) => leaves[other].weight,
        Service::Buckets(buckets) => {
            let (leaf, other) = (buckets.leaves[leaf], buckets.leaves[other]);
            if other.rank <= leaf.rank { other.burst.get() } else { 0 }
        }
        Service::Ranks(ranks) if ranks[other] <= ranks[leaf] => u64::MAX - u64::from(ranks[other]),
        Service::Curves(curves) => {
            curves[other].map_or(0, |curve| curve.m1.max(curve.m2.bits_per_second()))
        }
        Service::Arrivals { .. } => 1,
        _ => 0,
    };
    let count = subject.plan.tree.leaf_count();
    let others = (0..count).filter(|&other| other != leaf && weight(other) > 0);
    let mut others: Vec<_> = others.collect();
    others.sort_by_key(|&other| std::cmp::Reverse(weight(other)));
    others.truncate(RIVALS_MAX);
    others
}

/// The most classes named in a message.
const RIVALS_MAX: usize = 4;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.a]
match = { dscp = "ef" }
rate = "500 kbit/s"
delay = "5 ms"

[class.b]
default = true
rate = "9.5 Mbit/s"
"#,
    replace: r#"rate = "500 kbit/s"
delay = "5 ms"

[class.b]
default = true
rate = "9.5 Mbit/s""#,
    by: r#"rate = "8 Mbit/s"
delay = "20 ms"
arrival = { rate = "1 Mbit/s", burst = "3000 B" }

[class.b]
default = true
rate = "2 Mbit/s""#,
};
