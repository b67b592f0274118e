//! A ceiling above the rate of a class without a parent [algorithms §5.5]: only ancestors lend, so
//! it has its rate and no more, and the link idles behind full queues.

use super::{Subject, about, rate, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use weir_core::units::Rate;

/// See the module.
pub(super) static CODE: Code = Code {
    id: "W148",
    severity: Severity::Warning,
    title: "a ceiling of a class that has no parent to borrow from",
    source: Some("algorithms §5.5"),
};

/// Reports the first class without parent whose ceiling is above its rate, and names the others.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    if subject.row("ceil").is_none() {
        return;
    }
    let tops = || subject.classes.iter().filter(|class| class.above.is_none());
    let hopes = |class: &&ClassDraft<'_>| {
        let ceil = class.written.params.rate("ceil");
        ceil.zip(rate(class)).is_some_and(|(ceil, rate)| ceil > rate)
    };
    let mut short = tops().filter(hopes);
    let Some(class) = short.next() else { return };
    let (Some(own), Some(ceil)) = (rate(class), class.written.params.rate("ceil")) else { return };
    let link = subject.link_rate();
    let message = format!(
        "it never reaches its ceil of {ceil}: it has no parent to borrow from, so it sends at most \
         its rate, {own}, also while the rest of the link, {}, is idle",
        percent(own, link)
    );
    let names: Vec<_> = tops().take(NAMES_MAX + 1).map(|class| class.name).collect();
    let cure = cure(&names, subject, link);
    let mut draft = about(&CODE, class, span(class, "ceil"), message).cure(cure);
    for other in short {
        draft = draft.related(span(other, "ceil"), format!("`{}` has none, either", other.name));
    }
    report.push(draft);
}

/// Returns the part of the link that `own` leaves.
fn percent(own: Rate, link: Rate) -> String {
    let part = own.bits_per_second() as f64 / link.bits_per_second() as f64;
    format!("{:.0} %", (1.0 - part).max(0.0) * 100.0)
}

fn cure(tops: &[&str], subject: &Subject<'_, '_>, link: Rate) -> String {
    let taken = |name: &&str| subject.classes.iter().any(|class| class.name == *name);
    let root = ROOTS.iter().find(|name| !taken(name)).unwrap_or(&ROOTS[0]);
    let list = match tops {
        [one] => format!("`{one}`"),
        few if few.len() <= NAMES_MAX => {
            few.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
        _ => "every class without a parent".to_owned(),
    };
    format!(
        "add `[class.{root}]` with `rate = \"{link}\"`, and write `parent = \"{root}\"` in {list}"
    )
}

/// The most classes that a cure names.
const NAMES_MAX: usize = 8;
/// Names for the parent of all classes.
const ROOTS: [&str; 3] = ["link", "line", "root"];

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.a]
match = { dscp = "ef" }
rate = "3 Mbit/s"
ceil = "10 Mbit/s"

[class.b]
default = true
rate = "3.5 Mbit/s"
ceil = "10 Mbit/s"
"#,
    replace: "ceil = \"10 Mbit/s\"\n\n[class.b]",
    by: "ceil = \"10 Mbit/s\"\nparent = \"link\"\n\n[class.link]\nrate = \"10 Mbit/s\"\n\n\
         [class.b]\nparent = \"link\"",
};
