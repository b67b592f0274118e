//! Reads the `[[promise]]` tables: conditions on results, each under a scenario.
//!
//! ```text
//! promise  = measure comparison goal
//! measure  = CLASS "." metric | "fairness" | "link.behind." ( "used" | "p50" | "p95" | "p99" )
//! metric   = "rate" | "delay." ( "p50" | "p90" | "p99" | "max" | "mean" ) | "drops" | "loss"
//!          | "backlog.max"
//! comparison = "<" | "<=" | ">" | ">="
//! goal     = quantity | measure | share "of" measure
//! ```
//!
//! `weir test` simulates the scenario and measures. Invariant: a goal has the dimension of its
//! measure.

use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::{Table, suggest};
use std::collections::BTreeMap;
use std::fmt;
use weir_core::ids::ClassId;
use weir_core::sched::Tree;
use weir_core::units::Quantity;

/// A promise of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The condition as written, such as `voice.delay.p99 < 10 ms`.
    pub that: String,
    /// The scenario in which it must hold: a file, relative to the policy.
    pub under: String,
    /// The condition as read.
    pub promised: Promised<ClassId>,
}

/// A condition on results; `C` identifies a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Promised<C> {
    /// The measured quantity.
    pub measure: Measure<C>,
    /// How it is compared.
    pub comparison: Comparison,
    /// The goal it is compared with.
    pub goal: Goal<C>,
}

/// A measure of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure<C> {
    /// A metric of one class.
    Class(C, Metric),
    /// Jain's index of the leaves' rates, each relative to what it is due: 1 is fair.
    Fairness,
    /// A metric of the bottleneck behind the link.
    Behind(Behind),
}

/// A metric of the bottleneck behind the link: a modem whose capacity may vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// The part of its capacity that was used.
    Used,
    /// The delay there that this many of a thousand packets do not exceed, in seconds.
    Delay(u16),
}

/// A metric of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// The rate that it sends, in bit/s.
    Rate,
    /// The delay that this many of a thousand packets do not exceed, in seconds.
    Delay(u16),
    /// The mean delay in seconds.
    DelayMean,
    /// The number of packets dropped.
    Drops,
    /// The fraction of offered packets that are dropped.
    Loss,
    /// The largest backlog, in bytes.
    BacklogMax,
}

/// How a measure is compared with its goal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// `<`: the measure is less than its goal.
    Below,
    /// `<=`: the measure is not more than its goal.
    AtMost,
    /// `>`: the measure is more than its goal.
    Above,
    /// `>=`: the measure is not less than its goal.
    AtLeast,
}

/// The goal that a measure is compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal<C> {
    /// A value in the unit of the measure.
    Value(f64),
    /// A part of another measure, as a factor.
    Part(f64, Measure<C>),
}

/// A promise whose classes are still names.
pub(super) struct PromiseDraft<'a> {
    that: &'a str,
    under: &'a str,
    span: Span,
    promised: Promised<&'a str>,
}

impl Metric {
    /// Every metric with its word.
    pub const ALL: [(&'static str, Metric); 9] = [
        ("rate", Metric::Rate),
        ("delay.p50", Metric::Delay(500)),
        ("delay.p90", Metric::Delay(900)),
        ("delay.p99", Metric::Delay(990)),
        ("delay.max", Metric::Delay(1000)),
        ("delay.mean", Metric::DelayMean),
        ("drops", Metric::Drops),
        ("loss", Metric::Loss),
        ("backlog.max", Metric::BacklogMax),
    ];

    /// Returns the value of a quantity in the metric's unit, if the dimension fits.
    fn value(self, quantity: Quantity) -> Option<f64> {
        Some(match (self, quantity) {
            (Metric::Rate, Quantity::Rate(rate)) => rate.bits_per_second() as f64,
            (Metric::Delay(_) | Metric::DelayMean, Quantity::Duration(time)) => {
                time.as_nanos() as f64 / 1e9
            }
            (Metric::Drops, Quantity::Packets(packets)) => f64::from(packets),
            (Metric::Drops | Metric::Loss, Quantity::Number(number)) => number as f64,
            (Metric::Loss, Quantity::Share(share)) => f64::from(share.ppb()) / 1e9,
            (Metric::BacklogMax, Quantity::Bytes(bytes)) => bytes.get() as f64,
            _ => return None,
        })
    }

    /// Returns an example of a value.
    fn example(self) -> &'static str {
        match self {
            Metric::Rate => "10 Mbit/s",
            Metric::Delay(_) | Metric::DelayMean => "10 ms",
            Metric::Drops => "100 packets",
            Metric::Loss => "1 %",
            Metric::BacklogMax => "18 KB",
        }
    }
}

impl Behind {
    /// Every metric with its word behind `link.behind.`, as in sweeps.
    pub const ALL: [(&'static str, Behind); 4] = [
        ("used", Behind::Used),
        ("p50", Behind::Delay(500)),
        ("p95", Behind::Delay(950)),
        ("p99", Behind::Delay(990)),
    ];

    /// Returns its word.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    fn value(self, quantity: Quantity) -> Option<f64> {
        match (self, quantity) {
            (Behind::Used, Quantity::Share(share)) => Some(f64::from(share.ppb()) / 1e9),
            (Behind::Delay(_), Quantity::Duration(time)) => Some(time.as_nanos() as f64 / 1e9),
            _ => None,
        }
    }
}

impl Comparison {
    /// Every comparison with its sign; longer signs first.
    const ALL: [(&'static str, Comparison); 4] = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Below),
        (">", Comparison::Above),
    ];

    /// Returns whether the comparison of `measured` with `goal` holds.
    pub fn holds(self, measured: f64, goal: f64) -> bool {
        match self {
            Comparison::Below => measured < goal,
            Comparison::AtMost => measured <= goal,
            Comparison::Above => measured > goal,
            Comparison::AtLeast => measured >= goal,
        }
    }

    /// Returns whether less is better.
    pub fn wants_less(self) -> bool {
        matches!(self, Comparison::Below | Comparison::AtMost)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Self::ALL.iter().find(|row| row.1 == *self);
        f.pad(row.map_or("", |row| row.0))
    }
}

impl<C> Promised<C> {
    /// Maps the classes; `None` if `of` returns none for one of them.
    pub fn map<D>(self, mut of: impl FnMut(C) -> Option<D>) -> Option<Promised<D>> {
        let measure = self.measure.map(&mut of)?;
        let goal = match self.goal {
            Goal::Value(value) => Goal::Value(value),
            Goal::Part(part, other) => Goal::Part(part, other.map(&mut of)?),
        };
        Some(Promised { measure, comparison: self.comparison, goal })
    }
}

impl<C> Measure<C> {
    fn map<D>(self, of: &mut impl FnMut(C) -> Option<D>) -> Option<Measure<D>> {
        Some(match self {
            Measure::Class(class, metric) => Measure::Class(of(class)?, metric),
            Measure::Fairness => Measure::Fairness,
            Measure::Behind(metric) => Measure::Behind(metric),
        })
    }

    fn value(&self, quantity: Quantity) -> Option<f64> {
        match (self, quantity) {
            (Measure::Class(_, metric), quantity) => metric.value(quantity),
            (Measure::Fairness, Quantity::Share(share)) => Some(f64::from(share.ppb()) / 1e9),
            (Measure::Fairness, Quantity::Number(number)) => Some(number as f64),
            (Measure::Fairness, _) => None,
            (Measure::Behind(metric), quantity) => metric.value(quantity),
        }
    }

    fn example(&self) -> &'static str {
        match self {
            Measure::Class(_, metric) => metric.example(),
            Measure::Fairness | Measure::Behind(Behind::Used) => "95 %",
            Measure::Behind(Behind::Delay(_)) => "10 ms",
        }
    }
}

/// Reads a promise; the error says what is wrong and, after `; `, the cure.
///
/// # Errors
/// When the text is not a promise.
pub fn read(text: &str) -> Result<Promised<&str>, String> {
    let Some(at) = text.find(['<', '>']) else {
        let cure = "write it like `voice.delay.p99 < 10 ms`";
        return Err(format!("there is no comparison; {cure}"));
    };
    let rest = &text[at..];
    let found = Comparison::ALL.iter().find(|row| rest.starts_with(row.0));
    let &(sign, comparison) = found.ok_or("there is no comparison; write `<` or `>`")?;
    let measure = measure(text[..at].trim())?;
    let goal = goal(rest[sign.len()..].trim(), &measure)?;
    Ok(Promised { measure, comparison, goal })
}

fn measure(text: &str) -> Result<Measure<&str>, String> {
    if text == "fairness" {
        return Ok(Measure::Fairness);
    }
    if let Some(word) = text.strip_prefix(BEHIND) {
        let words = Behind::ALL.map(|row| row.0);
        return match Behind::ALL.iter().find(|row| row.0 == word) {
            Some(&(_, metric)) => Ok(Measure::Behind(metric)),
            None => Err(format!("`{}` is not a metric; {}", shown(word), suggest(word, &words))),
        };
    }
    let words: Vec<_> = Metric::ALL.iter().map(|row| row.0).collect();
    let Some((class, word)) = text.split_once('.').filter(|row| !row.0.is_empty()) else {
        let example = "write `fairness` or a class with a point, such as `voice.rate`";
        return Err(format!("`{}` is not a measure; {example}", shown(text)));
    };
    match Metric::ALL.iter().find(|row| row.0 == word) {
        Some(&(_, metric)) => Ok(Measure::Class(class, metric)),
        None => Err(format!("`{}` is not a metric; {}", shown(word), suggest(word, &words))),
    }
}

fn goal<'t>(text: &'t str, of: &Measure<&'t str>) -> Result<Goal<&'t str>, String> {
    if let Some((part, other)) = text.split_once(" of ") {
        let Ok(Quantity::Share(share)) = part.trim().parse() else {
            return Err(format!("`{}` is not a share; write it like `90 %`", shown(part.trim())));
        };
        let other = comparable(measure(other.trim())?, of)?;
        return Ok(Goal::Part(f64::from(share.ppb()) / 1e9, other));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Goal::Part(1.0, comparable(measure(text)?, of)?));
    }
    let quantity = text.parse::<Quantity>().map_err(|error| error.to_string())?;
    let value = of.value(quantity);
    let wrong =
        || format!("`{}` does not fit the measure; write it like `{}`", shown(text), of.example());
    value.map(Goal::Value).ok_or_else(wrong)
}

/// Whether both measures have the same unit.
fn comparable<'t>(
    other: Measure<&'t str>,
    of: &Measure<&'t str>,
) -> Result<Measure<&'t str>, String> {
    if other.example() == of.example() {
        return Ok(other);
    }
    Err("the two measures have different units; compare measures of one unit".to_owned())
}

/// Shortens a text for a message.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// Reads the tables; classes are not known yet.
pub(super) fn read_all<'a>(top: &mut Table<'a>, report: &mut Report) -> Vec<PromiseDraft<'a>> {
    let Some(node) = top.field("promise") else { return Vec::new() };
    let elements = node.elements(report).unwrap_or_default();
    if elements.len() > PROMISES_MAX {
        let message = format!("there are more than {PROMISES_MAX} promises");
        report.push(node.draft(&codes::TOO_MANY, message).cure("keep those that matter"));
        return Vec::new();
    }
    let one = |element: &crate::reader::Node<'a>, report: &mut Report| {
        let mut table = element.table(report)?;
        let that = table.required("that", report);
        let under = table.required("under", report).and_then(|node| node.name(report));
        table.finish(report);
        let (that, under) = (that?, under?);
        let text = that.name(report)?;
        match read(text) {
            Ok(promised) => Some(PromiseDraft { that: text, under, span: that.span(), promised }),
            Err(error) => {
                let (message, cure) = error.rsplit_once("; ").unwrap_or((&error, ""));
                report.push(that.draft(&codes::BAD_PROMISE, message).cure(cure));
                None
            }
        }
    };
    elements.iter().filter_map(|element| one(element, report)).collect()
}

/// Looks up the classes of the promises in `tree`.
pub(super) fn resolve(
    drafts: Vec<PromiseDraft<'_>>,
    tree: &Tree,
    report: &mut Report,
) -> Vec<Promise> {
    if drafts.is_empty() {
        return Vec::new();
    }
    let names: BTreeMap<_, _> =
        tree.classes().map(|(id, class)| (class.name.as_str(), id)).collect();
    let mut promises = Vec::with_capacity(drafts.len());
    for PromiseDraft { that, under, span, promised } in drafts {
        let mut missing = None;
        let promised = promised.map(|name| {
            let id = names.get(name).copied();
            missing = missing.or(id.is_none().then_some(name));
            id
        });
        if let Some(name) = missing {
            let known: Vec<_> = names.keys().take(SUGGESTED_MAX).copied().collect();
            let message = format!("there is no class `{}` for a promise", shown(name));
            let draft = Draft::new(&codes::PROMISE_WITHOUT_CLASS, span, message);
            report.push(draft.cure(suggest(name, &known)));
        }
        let (that, under) = (that.to_owned(), under.to_owned());
        promises.extend(promised.map(|promised| Promise { that, under, promised }));
    }
    promises
}

/// The words before a metric of the bottleneck behind the link.
const BEHIND: &str = "link.behind.";
const SHOWN_MAX: usize = 64;
/// Names compared to suggest one for an unknown name.
const SUGGESTED_MAX: usize = 64;
/// Bound: promises of a policy; one with more is refused. Each promise is simulated several times.
const PROMISES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: Result<Promised<&str>, &str>) {
        let read = read(text);
        match wanted {
            Ok(wanted) => assert_eq!(read, Ok(wanted), "{text}"),
            Err(part) => {
                let error = read.expect_err(text);
                assert!(error.contains(part), "{text}: {error}");
                assert!(error.contains("; "), "{text}: {error} has no cure");
            }
        }
    }

    fn promised<'t>(
        measure: Measure<&'t str>,
        comparison: Comparison,
        goal: Goal<&'t str>,
    ) -> Result<Promised<&'t str>, &'static str> {
        Ok(Promised { measure, comparison, goal })
    }

    #[test]
    fn promises_are_read_or_say_what_is_wrong() {
        use Comparison::{Above, AtLeast, AtMost, Below};
        let of = |name, metric| Measure::Class(name, metric);
        let p99 = of("voice", Metric::Delay(990));
        check("voice.delay.p99 < 10 ms", promised(p99, Below, Goal::Value(0.010)));
        check("voice.delay.p99<=10 ms", promised(p99, AtMost, Goal::Value(0.010)));
        check(
            " a-1.rate >= 1 Mbit/s ",
            promised(of("a-1", Metric::Rate), AtLeast, Goal::Value(1e6)),
        );
        check("a.drops <= 0 packets", promised(of("a", Metric::Drops), AtMost, Goal::Value(0.0)));
        check("a.loss < 1 %", promised(of("a", Metric::Loss), Below, Goal::Value(0.01)));
        check(
            "a.backlog.max < 9 KB",
            promised(of("a", Metric::BacklogMax), Below, Goal::Value(9e3)),
        );
        check("fairness > 95 %", promised(Measure::Fairness, Above, Goal::Value(0.95)));
        let behind = |metric| Measure::Behind(metric);
        let p95 = behind(Behind::Delay(950));
        check("link.behind.p95 < 20 ms", promised(p95, Below, Goal::Value(0.020)));
        let used = behind(Behind::Used);
        check("link.behind.used >= 80 %", promised(used, AtLeast, Goal::Value(0.8)));
        check("link.behind.p90 < 20 ms", Err("`p90` is not a metric"));
        check("link.behind.used > 20 ms", Err("does not fit the measure; write it like `95 %`"));
        let video = of("video", Metric::Rate);
        check(
            "a.rate > 90 % of video.rate",
            promised(of("a", Metric::Rate), Above, Goal::Part(0.9, video)),
        );
        check(
            "a.rate > video.rate",
            promised(of("a", Metric::Rate), Above, Goal::Part(1.0, video)),
        );
        check("", Err("no comparison"));
        check("voice.rate", Err("no comparison"));
        check("voice > 3", Err("is not a measure"));
        check(".rate > 3 bit/s", Err("is not a measure"));
        check("voice.delay > 3 ms", Err("`delay` is not a metric"));
        check("voice.rate > 3 ms", Err("does not fit the measure; write it like `10 Mbit/s`"));
        check("voice.rate > ", Err("is not a measure"));
        check("a.rate > 3 of b.rate", Err("is not a share"));
        check("a.rate > 3 % of b.drops", Err("different units"));
        check("a.rate > 3 mbps", Err("mbps"));
    }

    #[test]
    fn comparisons_are_exact_at_the_goal() {
        for (sign, comparison) in Comparison::ALL {
            assert_eq!(comparison.to_string(), sign);
            assert_eq!(comparison.holds(1.0, 1.0), sign.ends_with('='), "{sign}");
            assert_eq!(comparison.holds(0.5, 1.0), comparison.wants_less(), "{sign}");
        }
    }
}
