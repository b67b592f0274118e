//! Reads the `police` tables of classes and rules: a meter, its parameters, and the action of each
//! outcome; and `set_dscp`, which gives a code point to all packets that pass.

use super::class::ClassDraft;
use super::values::Written;
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::{Node, list, suggest};
use weir_core::ids::MeterId;
use weir_core::link::LinkPlan;
use weir_core::packet::Dscp;
use weir_core::parameter::Scope;
use weir_core::police::{Action, AnyMeter, METERS, MeterPlan};
use weir_core::units::Rate;

/// The meters of a policy, collected while reading.
#[derive(Default)]
pub(super) struct Meters {
    plans: Vec<MeterPlan>,
    /// The rate of the link, of which a meter's may be a percentage.
    link: Option<Rate>,
    of_leaf: Vec<Option<MeterId>>,
}

impl Meters {
    /// Reads the meters of the classes.
    pub(super) fn of_classes(
        classes: &[ClassDraft<'_>],
        link: Option<Rate>,
        report: &mut Report,
    ) -> Self {
        let mut meters = Self { link, ..Self::default() };
        for class in classes.iter().filter(|class| !class.interior) {
            let dscp = class.set_dscp.and_then(|written| written.0);
            let id = meters.read(class.police.as_ref(), dscp, class.span, report);
            // All queues of a class share one meter.
            meters.of_leaf.extend((0..class.width()).map(|_| id));
        }
        meters
    }

    /// Reads a `police` table, if there is one, and adds the code point that packets get which
    /// pass; returns the number of the meter. `span` is what it belongs to.
    pub(super) fn read(
        &mut self,
        police: Option<&Node<'_>>,
        dscp: Option<Dscp>,
        span: Span,
        report: &mut Report,
    ) -> Option<MeterId> {
        let plan = match (police, dscp) {
            (None, None) => return None,
            (None, Some(dscp)) => MeterPlan::mark_all(dscp),
            (Some(node), None) => plan(node, self.link, report)?,
            (Some(node), Some(dscp)) => plan(node, self.link, report)?.marking(dscp),
        };
        let same = plan.is_stateless().then(|| self.plans.iter().position(|one| *one == plan));
        if let Some(id) = same.flatten().and_then(MeterId::from_index) {
            return Some(id);
        }
        let span = police.map_or(span, Node::key_span);
        let Some(id) = MeterId::from_index(self.plans.len()) else {
            let message = format!("there are more than {} meters", MeterId::MAX);
            let draft = Draft::new(&codes::TOO_MANY, span, message);
            report.push(draft.cure("police classes instead of rules"));
            return None;
        };
        if let Err(error) = AnyMeter::build(&plan, id, 0) {
            let (message, cure) = error.message.rsplit_once("; ").unwrap_or((&error.message, ""));
            let span = police.map_or(span, Node::span);
            report.push(Draft::new(&codes::REFUSED, span, message).cure(cure));
            return None;
        }
        self.plans.push(plan);
        Some(id)
    }

    /// Moves them to the plan of the link.
    pub(super) fn give_to(self, link: &mut LinkPlan) {
        link.meters = self.plans;
        link.leaf_meters = self.of_leaf;
    }
}

/// Reads `police = { meter, parameters, outcomes }`.
fn plan(node: &Node<'_>, link: Option<Rate>, report: &mut Report) -> Option<MeterPlan> {
    let errors = report.errors();
    let mut table = node.table(report)?.named("the police");
    let words: Vec<_> = METERS.iter().map(|row| row.keyword).collect();
    let word = match table.field("meter") {
        None => Some(METERS[0].keyword),
        Some(node) => node.choice(&words, report),
    };
    let meter = METERS.iter().find(|row| Some(row.keyword) == word)?;
    let written = Written::read(&mut table, meter.parameters, &[Scope::Meter], link, report);
    let mut actions = Vec::new();
    for &(outcome, _) in meter.outcomes {
        let Some(node) = table.field(outcome) else { continue };
        actions.extend(node.parsed::<Action>(report).map(|action| (outcome, action)));
    }
    for node in table.unasked() {
        let (known, key) = (table.known(), node.key());
        let message =
            format!("meter `{}` has no parameter `{key}`; it has {}", meter.keyword, list(&known));
        let draft = Draft::new(&codes::UNSUPPORTED_PARAMETER, node.key_span(), message);
        report.push(draft.cure(suggest(key, &known)).fix(node.corrected(&known)));
    }
    let owner = format!("meter `{}`", meter.keyword);
    written.check_required(&owner, node.key_span(), meter.parameters, report);
    let is_right = report.errors() == errors;
    is_right.then_some(MeterPlan { meter: meter.keyword, params: written.params, actions })
}
