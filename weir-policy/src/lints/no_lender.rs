//! A ceiling that no ancestor lends [algorithms §5.5]: that of a class without a parent, which has
//! its rate and no more, and that of a class below one whose own ceiling is its rate because it
//! names none. The link idles behind full queues.

use super::{Subject, about, rate, span};
use crate::codes::{Code, Severity};
use crate::finding::Report;
use crate::policy::class::ClassDraft;
use crate::translate::root::root_name;
use std::collections::BTreeMap;
use weir_core::units::Rate;

pub(super) static CODE: Code = Code {
    id: "W148",
    severity: Severity::Warning,
    title: "a ceiling that no class above lends",
    source: Some("algorithms §5.5"),
};

/// Reports ceilings that no ancestor lends.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    if subject.row("ceil").is_some() {
        tops(subject, report);
        children(subject, report);
    }
}

/// Reports the first class without parent whose ceiling is above its rate, and names the others.
fn tops(subject: &Subject<'_, '_>, report: &mut Report) {
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
    let cure = cure(&top_names(subject), subject, link);
    let mut draft = about(&CODE, class, span(class, "ceil"), message).cure(cure);
    for other in short {
        draft = draft.related(span(other, "ceil"), format!("`{}` has none, either", other.name));
    }
    report.push(draft);
}

/// Reports each class without a ceiling whose children hope for more than its rate, at the first of
/// them, and names the others.
fn children(subject: &Subject<'_, '_>, report: &mut Report) {
    let link = subject.link_rate();
    let mut short: BTreeMap<usize, Vec<(&ClassDraft<'_>, Rate)>> = BTreeMap::new();
    for class in subject.classes {
        let Some(ceil) = class.written.params.rate("ceil") else { continue };
        if let Some(above) = without_ceiling(subject, class, ceil.min(link)) {
            short.entry(above).or_default().push((class, ceil));
        }
    }
    for (above, hopes) in short {
        let above = &subject.classes[above];
        let (Some(own), Some(&(class, ceil))) = (rate(above), hopes.first()) else { continue };
        let message = format!(
            "it never reaches its ceil of {ceil}: `{}` above it names no ceil, so it sends at most \
             its rate, {own}, also while the rest of the link, {}, is idle",
            above.name,
            percent(own, link)
        );
        let most = hopes.iter().map(|hope| hope.1).max().unwrap_or(ceil).min(link);
        let cure = format!(
            "{}, or write at most {own} as the ceil below it, if it shall not send more",
            more(subject, above, most)
        );
        let mut draft = about(&CODE, class, span(class, "ceil"), message).cure(cure);
        for (other, _) in hopes.iter().skip(1).take(NAMES_MAX) {
            draft = draft.related(span(other, "ceil"), format!("nor does `{}`", other.name));
        }
        report.push(draft);
    }
}

/// Returns the nearest ancestor that names no ceiling, so that it sends less than `wanted`.
fn without_ceiling(
    subject: &Subject<'_, '_>,
    class: &ClassDraft<'_>,
    wanted: Rate,
) -> Option<usize> {
    let next = |at: &usize| subject.classes.get(*at)?.above;
    std::iter::successors(class.above, next).find(|at| {
        let one = &subject.classes[*at];
        let named = one.written.params.rate("ceil").is_some();
        !named && rate(one).is_some_and(|own| own < wanted)
    })
}

/// Returns what gives `above` more than its rate.
fn more(subject: &Subject<'_, '_>, above: &ClassDraft<'_>, most: Rate) -> String {
    let ceil = format!("write `ceil = \"{most}\"` in `{}`", above.name);
    if above.above.is_some() {
        return ceil;
    }
    match top_names(subject)[..] {
        [_] => format!("write `rate = \"{}\"` in `{}`", subject.link_rate(), above.name),
        ref tops => format!("{ceil}, and {}", cure(tops, subject, subject.link_rate())),
    }
}

/// Returns the names of classes without a parent, one more than a cure names at most.
fn top_names<'s>(subject: &Subject<'s, '_>) -> Vec<&'s str> {
    let tops = subject.classes.iter().filter(|class| class.above.is_none());
    tops.take(NAMES_MAX + 1).map(|class| class.name).collect()
}

/// Returns the part of the link that `own` leaves.
fn percent(own: Rate, link: Rate) -> String {
    let part = own.bits_per_second() as f64 / link.bits_per_second() as f64;
    format!("{:.0} %", (1.0 - part).max(0.0) * 100.0)
}

fn cure(tops: &[&str], subject: &Subject<'_, '_>, link: Rate) -> String {
    let root = root_name(&|name| subject.classes.iter().any(|class| class.name == name));
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
