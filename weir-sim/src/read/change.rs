//! The `[[change]]` entries: from when on the link has another policy.

use super::{Place, Policies, Times, bounded, codes, keys, network, rows};
use crate::change::PlanChange;
use crate::network::plan::OutletId;
use crate::scenario::INTERFACE_NONE;
use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_policy::finding::{Report, Span};
use weir_policy::policy::Policy;
use weir_policy::reader::{Node, Table};

/// Reads all changes of what `place` is in the beginning.
pub(super) fn read_all(
    top: &mut Table<'_>,
    times: Option<Times>,
    place: Place<'_>,
    policies: &mut Policies<'_>,
    report: &mut Report,
) -> Vec<PlanChange> {
    let Some(node) = top.field("change") else { return Vec::new() };
    let nodes = rows(&node, ("changes", CHANGES_MAX), report).unwrap_or_default();
    let mut before: Option<(Duration, Span)> = None;
    let mut changes = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let Some(table) = node.table(report) else { continue };
        let mut table = table.with_keys(keys::CHANGES);
        let at = table.required("at", report);
        let at = at.and_then(|node| instant(&node, times, &mut before, report));
        let named = table.required("policy", report);
        let policy = named.as_ref().and_then(|node| policies.read(node, report));
        let outlet = outlet(&mut table, place, report);
        table.finish(report);
        let (Some(at), Some(named), Some(policy)) = (at, named, policy) else { continue };
        let Some(outlet) = outlet else { continue };
        let first = match place {
            Place::Link(policy) => policy,
            Place::Network(network) => network.and_then(|network| network.policies.get(&outlet)),
        };
        let name = if named.is_table() { None } else { named.name(report) };
        let moment = (Instant::ZERO.after(at), name.unwrap_or(INLINE));
        changes.push(PlanChange { outlet, ..PlanChange::to(policy, moment, first) });
    }
    changes
}

/// Which outlet of a network changes.
fn outlet(table: &mut Table<'_>, place: Place<'_>, report: &mut Report) -> Option<OutletId> {
    match place {
        Place::Link(_) => Some(OutletId(0)),
        Place::Network(None) => {
            table.field("link");
            table.field("from");
            None
        }
        Place::Network(Some(read)) => {
            let nodes: Vec<_> = read.network.nodes.iter().map(|node| node.name.as_str()).collect();
            network::find_outlet(table, &read.network.links, &nodes, report)
        }
    }
}

/// When a change happens: within the run, and after the one before.
fn instant(
    node: &Node<'_>,
    times: Option<Times>,
    before: &mut Option<(Duration, Span)>,
    report: &mut Report,
) -> Option<Duration> {
    let at = bounded(node, report)?;
    if let Some((duration, ..)) = times.filter(|times| at == Duration::ZERO || at >= times.0) {
        let message = format!("a change at {at} is not within the run of {duration}");
        let cure = format!("write a time above 0 s and below {duration}");
        report.push(node.draft(&codes::CHANGE_OUTSIDE, message).cure(cure));
        return None;
    }
    if let Some((earlier, span)) = before.filter(|before| before.0 >= at) {
        let message = format!("this change at {at} is not later than the one before");
        let draft = node.draft(&codes::CHANGE_ORDER, message);
        let draft = draft.related(span, format!("which is at {earlier}"));
        report.push(draft.cure("write the changes in the order of time, each at its own"));
    }
    *before = Some((at, node.span()));
    Some(at)
}

impl PlanChange {
    /// Returns the change of a link to a policy. Sources name interfaces as the policy `first`
    /// does.
    pub fn to(policy: Policy, (at, name): (Instant, &str), first: Option<&Policy>) -> Self {
        let names = first.map_or(&[][..], |first| &first.interfaces);
        let id = |name: &String| {
            let place = policy.interfaces.iter().position(|other| other == name);
            place.map_or(INTERFACE_NONE, |place| InterfaceId(place as u16))
        };
        Self {
            at,
            policy: name.to_owned(),
            classifier: policy.classifier(),
            heir: policy.default.leaf,
            outlet: OutletId(0),
            interfaces: names.iter().map(id).collect(),
            link: policy.link,
        }
    }
}

/// Bound: changes of a scenario; one with more is refused. Each is a whole policy.
pub const CHANGES_MAX: usize = 1000;
/// The name in reports of a policy that is written in the scenario itself.
const INLINE: &str = "[change.policy]";
