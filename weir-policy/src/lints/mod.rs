//! Traps of the literature and of practice: what a policy may say but hardly intends.
//!
//! A lint is a file of this folder and a line in the macro call at the end of this one. The file
//! has its code, with title and source, which `docs/findings.md` prints; `check`, which sees the
//! whole checked policy and reports the trap with its figure and the cure; and a policy that
//! triggers only this lint, with its cure. A lint reads parameters by their names, so it applies to
//! every scheduler or dropper that has them.

use crate::calculus::{self, Bound, Effective};
use crate::codes::Code;
use crate::finding::{Draft, Fix, Report, Span};
use crate::policy::class::{self, ClassDraft};
use crate::policy::link::LinkSection;
use std::cell::OnceCell;
use std::fmt::Display;
use weir_core::classify::{ClassifierPlan, Rule};
use weir_core::link::LinkPlan;
use weir_core::parameter::{Parameter, Scope};
use weir_core::sched::{self, Service};
use weir_core::units::{Quantity, Rate};

/// A checked policy, as lints see it.
pub(crate) struct Subject<'s, 'a> {
    pub(crate) link: &'s LinkSection,
    pub(crate) classes: &'s [ClassDraft<'a>],
    pub(crate) plan: &'s LinkPlan,
    pub(crate) rules: &'s [Rule],
    pub(crate) search: &'s ClassifierPlan,
    /// The service that the scheduler guarantees the leaves.
    pub(crate) service: Service,
    /// The bounds of each leaf; empty if no class wants a delay.
    pub(crate) bounds: Vec<Bound>,
    /// The rates in the long run, once a lint asked for them.
    rates: OnceCell<Effective>,
}

/// An example of what a lint reports.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// A policy in which this lint finds something and no other does.
    pub policy: &'static str,
    /// The part of it that is wrong.
    pub replace: &'static str,
    /// The text that cures it.
    pub by: &'static str,
}

/// Returns the code of each lint and an example of what it reports.
pub fn traps() -> impl Iterator<Item = (&'static Code, Trap)> {
    TRAPS.iter().copied()
}

pub(crate) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for lint in LINTS {
        lint(subject, report);
    }
}

/// Reports a trap wherever it occurs in the policy.
type Lint = fn(&Subject<'_, '_>, &mut Report);

impl<'s, 'a> Subject<'s, 'a> {
    /// Prepares a policy for lints.
    pub(crate) fn new(
        link: &'s LinkSection,
        classes: &'s [ClassDraft<'a>],
        plan: &'s LinkPlan,
        (rules, search): (&'s [Rule], &'s ClassifierPlan),
    ) -> Self {
        let demands: Vec<_> = class::demands(classes);
        let wanted = demands.iter().any(|demand| demand.delay.is_some());
        let bounds = if wanted { calculus::bounds(plan, &demands) } else { Vec::new() };
        let service = calculus::service(plan);
        let rates = OnceCell::new();
        Self { link, classes, plan, rules, search, service, bounds, rates }
    }

    /// Returns the leaf classes, each with the number of its first leaf.
    fn leaves(&self) -> impl Iterator<Item = (usize, &'s ClassDraft<'a>)> {
        class::leaves(self.classes).map(|(leaf, class)| (leaf.index(), class))
    }

    /// Returns the parameter of the scheduler with this name.
    fn row(&self, name: &str) -> Option<&'static Parameter> {
        let entry = sched::find(self.plan.scheduler)?;
        entry.descriptor.parameters.iter().find(|row| row.name == name)
    }

    /// Returns the link's parameter of this name as written, or its default if that is a quantity.
    fn link_number(&self, name: &str) -> Option<u64> {
        let row = self.row(name).filter(|row| row.scope == Scope::Link)?;
        let written = self.plan.tree.params().number(name);
        written.or_else(|| row.default?.parse().ok())
    }

    /// Returns the charged bytes that a leaf sends in a turn of its scheduler, if it takes turns.
    fn turn(&self, leaf: usize) -> Option<u64> {
        let packet = self.plan.tree.mtu().get();
        match &self.service {
            Service::Rounds(rounds) => {
                let unit = if rounds.in_packets { packet } else { 1 };
                Some(rounds.gains.get(leaf)?.saturating_mul(unit))
            }
            Service::Buckets(buckets) => Some(buckets.leaves.get(leaf)?.turn?.get()),
            _ => None,
        }
    }

    /// Returns the rates of the leaves in the long run.
    fn rates(&self) -> &Effective {
        self.rates.get_or_init(|| Effective::of(self.plan))
    }

    fn link_rate(&self) -> Rate {
        self.plan.tree.rate()
    }

    /// Returns the class above, if it was read.
    fn parent(&self, class: &ClassDraft<'_>) -> Option<&'s ClassDraft<'a>> {
        let parent = class.above?;
        self.classes.get(parent)
    }
}

/// Returns the rate of a class.
fn rate(class: &ClassDraft<'_>) -> Option<Rate> {
    class.written.params.rate("rate")
}

/// Returns where a parameter of a class is written, or else the class.
fn span(class: &ClassDraft<'_>, name: &str) -> Span {
    class.written.span(name).unwrap_or(class.span)
}

/// Makes a finding about a class.
fn about(code: &'static Code, class: &ClassDraft<'_>, at: Span, message: String) -> Draft {
    Draft::new(code, at, format!("class `{}`: {message}", class.name))
}

/// Makes the edit that writes a key of a class; a point leads into a table such as `queue.min`.
fn set(class: &ClassDraft<'_>, key: &str, value: impl Display) -> Fix {
    let parts: Vec<_> = ["class", class.name].into_iter().chain(key.split('.')).collect();
    Fix::set(&parts, value)
}

/// Returns the time of `bytes` at `rate` in seconds.
fn seconds(bytes: u64, rate: Rate) -> f64 {
    bytes as f64 * 8.0 / rate.bits_per_second() as f64
}

/// Returns a parameter's default if it is a quantity.
fn default_quantity(row: &Parameter) -> Option<Quantity> {
    row.default?.parse().ok()
}

macro_rules! lints {
    ($($module:ident,)*) => {
        $(mod $module;)*

        /// The checks of all modules of this folder.
        const LINTS: &[Lint] = &[$($module::check,)*];

        /// The code of every lint.
        pub(crate) const CODES: &[&Code] = &[$(&$module::CODE,)*];

        /// The code and the trap of every lint.
        const TRAPS: &[(&Code, Trap)] = &[$((&$module::CODE, $module::TRAP),)*];
    };
}

lints! {
    buffer,
    threshold,
    packet_size,
    crossed_bursts,
    costly_bursts,
    tick,
    slow,
    tiny_share,
    borrowing_priority,
    window,
    long_round,
    fragments,
    turned_round,
    ceiling,
    long_queue,
    starved_default,
    late,
    no_bound,
    no_lender,
    no_places,
    real_time,
    above_limit,
    short_delay,
    missed_turns,
    deep_queue,
    marked_first,
    idle_link,
    classic_marks,
    classic_beside,
    behind_l4s,
    counted_rate,
    no_time,
}
