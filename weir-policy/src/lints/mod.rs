//! Traps of the literature and of the field: what a policy may say although it hardly means it.
//!
//! A lint is a function in a file of this folder and a line in the macro call at the end of this
//! one. It sees the whole checked policy and reports what it finds under the code of its line, with
//! the figure that shows the trap, the cure and, by the code, the source. It asks for parameters by
//! their names, so it holds for every scheduler or dropper that has them.
//! `tests/traps/` has a policy for each code that triggers just that, and one that is cured.

use crate::calculus::{self, Bound};
use crate::finding::{Code, Draft, Report, Span};
use crate::policy::class::{self, ClassDraft};
use crate::policy::link::LinkSection;
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
    /// What the scheduler does for each leaf.
    pub(crate) service: Service,
    /// The bounds of each leaf; none if nobody asked for a delay.
    pub(crate) bounds: Vec<Bound>,
}

/// Reports every trap.
pub(crate) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    for (code, lint) in LINTS {
        lint(code, subject, report);
    }
}

/// A lint, which reports under the code of its line.
type Lint = fn(&'static Code, &Subject<'_, '_>, &mut Report);

impl<'s, 'a> Subject<'s, 'a> {
    /// The subject that a policy is.
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
        Self { link, classes, plan, rules, search, service, bounds }
    }

    /// The leaf classes, each with the number of its first leaf.
    fn leaves(&self) -> impl Iterator<Item = (usize, &'s ClassDraft<'a>)> {
        class::leaves(self.classes).map(|(leaf, class)| (leaf.index(), class))
    }

    /// The row of the scheduler's table that has this name.
    fn row(&self, name: &str) -> Option<&'static Parameter> {
        let entry = sched::find(self.plan.scheduler)?;
        entry.descriptor.parameters.iter().find(|row| row.name == name)
    }

    /// The link's parameter of this name as written, or its default if that is a quantity.
    fn link_number(&self, name: &str) -> Option<u64> {
        let row = self.row(name).filter(|row| row.scope == Scope::Link)?;
        let written = self.plan.tree.params().number(name);
        written.or_else(|| row.default?.parse().ok())
    }

    /// The charged bytes that a leaf sends in a turn of its scheduler, if it takes turns.
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

    fn link_rate(&self) -> Rate {
        self.plan.tree.rate()
    }

    /// The class above.
    fn parent(&self, class: &ClassDraft<'_>) -> Option<&'s ClassDraft<'a>> {
        let parent = class.above?;
        self.classes.get(parent)
    }
}

/// The rate of a class.
fn rate(class: &ClassDraft<'_>) -> Option<Rate> {
    class.written.params.rate("rate")
}

/// Where a parameter of a class is written, or else the class.
fn span(class: &ClassDraft<'_>, name: &str) -> Span {
    class.written.span(name).unwrap_or(class.span)
}

/// A finding about a class.
fn about(code: &'static Code, class: &ClassDraft<'_>, at: Span, message: String) -> Draft {
    Draft::new(code, at, format!("class `{}`: {message}", class.name))
}

/// The time of `bytes` at `rate` in seconds.
fn seconds(bytes: u64, rate: Rate) -> f64 {
    bytes as f64 * 8.0 / rate.bits_per_second() as f64
}

/// The quantity that a parameter's default is, if it is one.
fn default_quantity(row: &Parameter) -> Option<Quantity> {
    row.default?.parse().ok()
}

macro_rules! lints {
    ($($module:ident::$check:ident => $code:ident,)*) => {
        $(mod $module;)*

        /// Every lint with the code that it reports.
        const LINTS: &[(&Code, Lint)] = &[$((&crate::codes::$code, $module::$check),)*];
    };
}

lints! {
    buffer::check => BUFFER_OVER_SHARE,
    threshold::check => THRESHOLD_BELOW_TURN,
    packet_size::check => PACKET_SIZE_FAR,
    crossed_bursts::check => BURSTS_CROSSED,
    costly_bursts::check => BURST_COSTS,
    tick::check => BURST_BELOW_TICK,
    slow::check => CLASS_TOO_SLOW,
    tiny_share::check => SHARE_IS_NOTHING,
    borrowing_priority::check => PRIORITY_BORROWS,
    window::check => WINDOW_TOO_SMALL,
    long_round::check => ROUND_TOO_LONG,
    fragments::check => FRAGMENTS_LEAVE,
    turned_round::check => WEIGHT_TURNED_ROUND,
    ceiling::check => CEILING_ABOVE,
    long_queue::check => QUEUE_TOO_LONG,
    starved_default::check => DEFAULT_STARVED,
    late::check => DELAY_NOT_KEPT,
    no_bound::check => DELAY_UNKNOWN,
}
