//! High priority, a small share and borrowing together [algorithms §3.18]: where ancestors lend
//! although others still wait for their own rate, the class that is served first borrows all of it.

use super::{Subject, about, rate, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use std::collections::BTreeMap;

pub(super) static CODE: Code = Code {
    id: "W138",
    severity: Severity::Warning,
    title: "priority, a small share and borrowing together",
    source: Some("algorithms §3.18"),
};

/// Reports each leaf that combines all three.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    if subject.row("borrow").is_none() || lends_in_order(subject) {
        return;
    }
    let mut lowest = BTreeMap::new();
    for (_, class) in subject.leaves() {
        let least = lowest.entry(class.above).or_insert(u64::MAX);
        *least = (*least).min(priority(class));
    }
    for (_, class) in subject.leaves() {
        let above = subject.parent(class).and_then(rate).unwrap_or(subject.link_rate());
        let Some(own) = rate(class) else { continue };
        let part = own.bits_per_second() as f64 / above.bits_per_second() as f64;
        let borrows = borrows(subject, class);
        if part >= SMALL || !borrows || priority(class) <= lowest[&class.above] {
            continue;
        }
        let message = format!(
            "it has {:.1} % of its parent's rate, precedes its siblings and borrows, so it \
             may take as much as it likes from all of them",
            part * 100.0
        );
        let cure = "write `borrow = false`, a larger rate, or the priority of its siblings";
        report.push(about(&CODE, class, span(class, "priority"), message).cure(cure));
    }
}

/// Returns whether no ancestor lends while a class waits for its own rate: the formal rule, the
/// first choice.
fn lends_in_order(subject: &Subject<'_, '_>) -> bool {
    let written = subject.plan.tree.params().choice("sharing");
    let formal = |word: &str| word == "formal";
    let default = subject.row("sharing").and_then(|row| row.default);
    written.or(default).is_some_and(formal)
}

fn borrows(subject: &Subject<'_, '_>, class: &ClassDraft<'_>) -> bool {
    let default = || subject.row("borrow").and_then(|row| row.default) == Some("true");
    class.written.params.flag("borrow").unwrap_or_else(default)
}

fn priority(class: &ClassDraft<'_>) -> u64 {
    class.written.params.number("priority").unwrap_or(PRIORITY_DEFAULT)
}

/// A tenth of the parent: typical of a class for calls or control traffic.
const SMALL: f64 = 0.1;
const PRIORITY_DEFAULT: u64 = 1;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "cbq"

[link.cbq]
sharing = "top-level"

[class.a]
match = { dscp = "ef" }
rate = "100 kbit/s"
priority = 7

[class.b]
default = true
rate = "9 Mbit/s"
"#,
    replace: "priority = 7",
    by: "priority = 7\nborrow = false",
};
