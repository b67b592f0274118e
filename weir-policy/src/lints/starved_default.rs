//! A default class that priority starves [algorithms §7]: as long as a higher rank has packets it
//! sends nothing, and neither does any traffic without a rule: ARP, routing, forgotten services.

use super::{Subject, about};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use weir_core::sched::Service;

pub(super) static CODE: Code = Code {
    id: "W145",
    severity: Severity::Warning,
    title: "a default class that priority starves",
    source: Some("algorithms §7"),
};

/// Reports the default class if a class of higher rank without a limit precedes it.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let Service::Ranks(ranks) = &subject.service else { return };
    let Some((at, default)) = subject.leaves().find(|(_, class)| class.default.is_some()) else {
        return;
    };
    let unlimited = subject.leaves().filter(|(leaf, class)| {
        ranks[*leaf] < ranks[at]
            && class.demand.demand.arrival.is_none()
            && class.police.is_none()
            && !class.matches.is_empty()
    });
    let Some((leaf, other)) = unlimited.min_by_key(|(leaf, _)| ranks[*leaf]) else { return };
    let distance = ranks[at] - ranks[leaf];
    let plural = if distance == 1 { "" } else { "s" };
    let message = format!(
        "`{}` precedes it by {distance} rank{plural} and may take all {}, so what no rule matches \
         may wait for ever",
        other.name,
        subject.link_rate()
    );
    let cure = "police that class, declare its `arrival`, or raise the default class";
    let span = default.default.unwrap_or(default.span);
    report
        .push(about(&CODE, default, span, message).related(other.span, "it goes first").cure(cure));
}

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "priq"

[class.a]
match = { dscp = "ef" }
isolate = "flows"
priority = 7

[class.b]
default = true
priority = 1
"#,
    replace: "priority = 7",
    by: r#"priority = 7
arrival = { rate = "1 Mbit/s", burst = "3000 B" }"#,
};
