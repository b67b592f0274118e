//! Traffic control for schedulers whose classes cannot join one by one: each flow changes the whole
//! link. It is that of ALTQ's RSVP daemon [risso99 §7.2].
//!
//! A flow gets a leaf with the token rate as its rate; all else is as in the first leaf below the
//! class for reservations, so that neither packet size nor priority follow the flow. Invariant: the
//! link has the policy's own leaves first, then those of flows in the order of their numbers.

use super::control::Step;
use std::collections::BTreeMap;
use weir_core::classify::{Classifier, Match, PortRange, Prefix, Rule};
use weir_core::ids::{ClassId, LeafId};
use weir_core::link::LinkPlan;
use weir_core::packet::Protocol;
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Quantity, Rate};
use weir_policy::Policy;
use weir_rsvp::admission;
use weir_rsvp::node::{FlowId, Request};
use weir_rsvp::wire::{Cause, Filter, Select, Style};

/// A policy and the flows that it was built for.
pub(super) struct Built {
    policy: Policy,
    parent: ClassId,
    /// The scheduler's parameters of a flow's leaf.
    params: Params,
    queue: QueuePlan,
    /// The most that flows may have together, in bit/s.
    room: u64,
    flows: BTreeMap<FlowId, Flow>,
}

/// A flow that was admitted.
#[derive(Clone)]
struct Flow {
    name: String,
    rate: Rate,
    matches: Vec<Match>,
}

/// Returns the first leaf below a class, if it has one.
pub(crate) fn model(policy: &Policy, class: ClassId) -> Option<LeafId> {
    let tree = &policy.link.tree;
    tree.leaves().find(|(_, spec)| spec.parent == Some(class)).map(|row| row.0)
}

impl Built {
    /// # Errors
    /// When the class is not there, has no rate, or no leaf is below it.
    pub fn new(policy: Policy, class: &str) -> Result<Self, String> {
        let parent = policy.class(class).ok_or_else(|| format!("no class is called `{class}`"))?;
        let tree = &policy.link.tree;
        let model = model(&policy, parent).ok_or_else(|| {
            format!("class `{class}` has no leaf whose parameters those of flows could be")
        })?;
        let rate = |class: ClassId| tree.class(class).params.rate("rate");
        let whole = rate(parent).ok_or_else(|| format!("class `{class}` has no rate"))?;
        let below = tree.classes().filter(|(_, spec)| spec.parent == Some(parent));
        let taken: u64 = below.filter_map(|row| rate(row.0)).map(Rate::bits_per_second).sum();
        let room = whole.bits_per_second().saturating_sub(taken);
        let params = tree.leaf(model).params.clone();
        let queue = policy.link.queues[model.index()].clone();
        Ok(Self { policy, parent, params, queue, room, flows: BTreeMap::new() })
    }

    pub fn room(&self) -> u64 {
        self.room
    }

    /// Returns the sum of the flows' rates, in bit/s.
    pub fn reserved(&self) -> u64 {
        self.flows.values().map(|flow| flow.rate.bits_per_second()).sum()
    }

    /// Admits a flow whose rate fits beside those of all others.
    pub fn ask(&mut self, id: FlowId, request: &Request) -> Result<Step, Cause> {
        if request.flowspec.service() == weir_rsvp::intserv::Service::Guaranteed {
            return Err(Cause::SERVICE_UNSUPPORTED);
        }
        let bits = (f64::from(request.flowspec.tspec().rate) * 8.0).ceil() as u64;
        let rate = Rate::new(bits).ok_or(Cause::BAD_FLOWSPEC)?;
        let before = self.flows.get(&id).map_or(0, |flow| flow.rate.bits_per_second());
        if self.reserved() - before + bits > self.room {
            return Err(Cause::BANDWIDTH);
        }
        let matches = matches(request).ok_or(Cause::SERVICE_UNSUPPORTED)?;
        let flow = Flow { name: admission::name(request), rate, matches };
        let former = self.flows.insert(id, flow);
        self.step().ok_or_else(|| {
            match former {
                Some(flow) => self.flows.insert(id, flow),
                None => self.flows.remove(&id),
            };
            Cause::SYSTEM
        })
    }

    /// Removes a flow; returns the change of the link, if it was there.
    pub fn remove(&mut self, id: FlowId) -> Option<Step> {
        self.flows.remove(&id)?;
        self.step()
    }

    /// The change to the link with all flows; none if it cannot be built.
    fn step(&self) -> Option<Step> {
        let Policy { link, rules, default, search, .. } = &self.policy;
        let own = link.tree.leaf_count() as u32;
        let mut specs: Vec<ClassSpec> = link.tree.classes().map(|row| row.1.clone()).collect();
        let (mut queues, mut rules) = (link.queues.clone(), rules.clone());
        for (flow, leaf) in self.flows.values().zip(own..) {
            let mut params = self.params.clone();
            params.set("rate", Value::Quantity(Quantity::Rate(flow.rate)));
            let (name, parent) = (flow.name.clone(), Some(self.parent));
            specs.push(ClassSpec { name, parent, params });
            queues.push(self.queue.clone());
            let rule = |matches: &Match| Rule::new(matches.clone(), LeafId(leaf));
            rules.extend(flow.matches.iter().map(rule));
        }
        let (rate, mtu, params) = (link.tree.rate(), link.tree.mtu(), link.tree.params().clone());
        let tree = Tree::new(rate, mtu, params, specs).ok()?;
        let plan = LinkPlan { tree, queues, ..link.clone() };
        plan.build().ok()?;
        let classifier = Classifier::build(rules, *default, search).ok()?;
        Some(Step::Plan(Box::new(plan), Box::new(classifier), default.leaf))
    }
}

/// The conditions on the packets of a flow; none where no rule has such.
fn matches(request: &Request) -> Option<Vec<Match>> {
    let session = request.session;
    let ports = |port: u16| if port == 0 { Vec::new() } else { vec![PortRange::single(port)] };
    let host = |address: std::net::IpAddr| {
        Prefix::new(address, if address.is_ipv4() { 32 } else { 128 }).ok()
    };
    let whole = Match {
        destinations: vec![host(session.destination)?],
        protocol: Some(Protocol(session.protocol)),
        destination_ports: ports(session.port),
        ..Match::default()
    };
    if request.style == Style::Wildcard {
        return Some(vec![whole]);
    }
    let of = |filter: &Filter| {
        let Select::Port(port) = filter.select else { return None };
        let sources = vec![host(filter.source)?];
        Some(Match { sources, source_ports: ports(port), ..whole.clone() })
    };
    request.filters.iter().map(of).collect()
}
