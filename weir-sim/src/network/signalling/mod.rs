//! RSVP in a network: each node runs the protocol's own state machine, and its messages travel the
//! links as packets beside all others.
//!
//! The engine is the driver of the nodes ([`weir_rsvp::Node`]), as a router's process is of a live
//! one: it carries messages, tells the time, and changes the classes of an outlet as traffic
//! control asks. [`plan`] says who reserves what, `host` acts for the applications, `control` keeps
//! the classes, `carrier` finds their way. Invariant: nothing but messages tells a node
//! of another.

mod built;
mod carrier;
mod control;
mod host;
pub mod plan;
mod report;

pub(crate) use built::model;
pub use control::Counts;
pub(crate) use control::joins;
pub use report::{ReservationReport, ReservingReport, SignallingReport};

use super::engine::{Engine, Event};
use super::lanes::Lane;
use super::parcel::Parcel;
use super::plan::{NodeId, OutletId};
use crate::packets::Content;
use crate::random::Random;
use crate::run::RunError;
use crate::scenario::{Sizes, Source, Spacing, Traffic};
use carrier::Ways;
use control::{Step, TrafficControl};
use host::Application;
use plan::Signalling;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_core::link::LinkPlan;
use weir_core::packet::Headers;
use weir_core::queue::{Limit, QueuePlan};
use weir_core::units::{Bytes, Instant, Rate};
use weir_rsvp::intserv::{Characterization, Terms};
use weir_rsvp::ip;
use weir_rsvp::node::{
    Action, Arrival, Call, Control, FlowId, InterfaceParams, Limits, Node, NodeParams, Packet, Poll,
};
use weir_rsvp::wire::{Cause, Session};

/// The signalling of a network in operation.
pub(crate) struct Signals<'a> {
    pub plan: &'a Signalling,
    speakers: Vec<Speaker>,
    ways: Ways,
    applications: Vec<Application>,
    /// The reservation of each session.
    sessions: BTreeMap<Session, usize>,
    /// Traffic control of each outlet that has the class for reservations.
    controls: BTreeMap<OutletId, TrafficControl>,
    random: Random,
    /// Messages that were lost on links.
    lost: u64,
}

/// A node that speaks RSVP.
struct Speaker {
    node: Node,
    /// When it is to be polled next, as far as that is planned.
    planned: Option<Instant>,
}

impl<'a> Engine<'a> {
    /// Begins the signalling that the network's plan wants, if it wants any.
    ///
    /// # Errors
    /// When an outlet has no room for reservations.
    pub(super) fn begin_signalling(&mut self) -> Result<(), RunError> {
        let Some(plan) = self.network.signalling.as_deref() else { return Ok(()) };
        let mut controls = BTreeMap::new();
        for (&outlet, policy) in &plan.policies {
            let mut policy = policy.clone();
            policy.link.framing = self.outlets[outlet.index()].plan.framing;
            let (link, _) = self.network.outlet(outlet);
            let control = TrafficControl::new(plan, policy, link.mtu);
            controls.insert(outlet, control.map_err(RunError::Network)?);
        }
        let ways = Ways::new(self.network, plan);
        let speakers = (0..self.network.nodes.len() as u32).map(|node| {
            let node = NodeId(node);
            let params = self.speaker(plan, node, ways.outlets(node), &controls);
            Speaker { node: Node::new(params), planned: None }
        });
        let signals = Signals {
            plan,
            speakers: speakers.collect(),
            applications: host::applications(self.network, plan),
            sessions: plan.reservations.iter().map(|row| row.session).zip(0..).collect(),
            ways,
            controls,
            random: Random::stream(self.scenario.seed, "messages of rsvp"),
            lost: 0,
        };
        for (index, row) in plan.reservations.iter().enumerate() {
            let index = index as u32;
            self.events.push(row.start, Event::Announce(index));
            for (at, _) in &row.retunes {
                self.events.push(*at, Event::Announce(index));
            }
            if let Some(stop) = row.stop {
                self.events.push(stop, Event::Withdraw(index));
            }
        }
        self.signals = Some(Box::new(signals));
        Ok(())
    }

    /// Returns the settings of the RSVP node at `node`.
    fn speaker(
        &self,
        plan: &Signalling,
        node: NodeId,
        outlets: &[OutletId],
        controls: &BTreeMap<OutletId, TrafficControl>,
    ) -> NodeParams {
        let is_router = self.network.nodes[node.0 as usize].router;
        let interface = |&outlet: &OutletId| {
            let (link, end) = self.network.outlet(outlet);
            let queueing = &self.outlets[outlet.index()].plan;
            let rate = queueing.tree.rate().bits_per_second() as f32 / 8.0;
            // A host's own queue delays a flow by what it may hold. A router's may lose a flow.
            let own = (!is_router).then(|| Terms { c: 0, d: full_queues(queueing, link.mtu) });
            let micros = link.outlets[end].delay.as_nanos().div_ceil(1000);
            let latency = Some(u32::try_from(micros).unwrap_or(u32::MAX));
            let plain = Characterization {
                bandwidth: rate,
                latency,
                mtu: link.mtu,
                guaranteed: own,
                controlled_load: !is_router,
            };
            let control = controls.get(&outlet);
            let offers = control.map_or(plain, |control| control.offers(latency, link.mtu));
            InterfaceParams {
                addresses: vec![plan.addresses[node.0 as usize]],
                offers,
                security: None,
                reduction: plan.reduction,
                learns_reduction: false,
            }
        };
        let name = &self.network.nodes[node.0 as usize].name;
        NodeParams {
            interfaces: outlets.iter().map(interface).collect(),
            timers: plan.timers,
            limits: Limits::default(),
            seed: Random::stream(self.scenario.seed, &format!("rsvp of {name}")).bits(),
            epoch: node.0 + 1,
        }
    }

    /// Handles an event of the signalling.
    pub(super) fn signal(&mut self, at: Instant, event: Event) {
        let Some(mut signals) = self.signals.take() else { return };
        match event {
            Event::Poll(node) => {
                let speaker = &mut signals.speakers[node as usize];
                if speaker.planned == Some(at) {
                    speaker.planned = None;
                    self.poll(at, &mut signals, NodeId(node));
                }
            }
            Event::Announce(index) => {
                let hosts = signals.announce(at, index as usize);
                hosts.into_iter().for_each(|node| self.poll(at, &mut signals, node));
            }
            Event::Withdraw(index) => {
                let hosts = signals.withdraw(at, index as usize);
                hosts.into_iter().for_each(|node| self.poll(at, &mut signals, node));
            }
            _ => {}
        }
        self.signals = Some(signals);
    }

    /// A message reaches a node, by the link of `outlet`, one of the node's own.
    pub(super) fn hear(&mut self, at: Instant, (node, outlet): (NodeId, OutletId), bytes: &[u8]) {
        let Some(mut signals) = self.signals.take() else { return };
        let interface = signals.ways.interface(outlet);
        if let Some(ip::Headers { source, destination, ttl, message, .. }) = ip::read(bytes) {
            let arrival = Arrival { interface, source, destination, ttl, bytes: &bytes[message] };
            let routes = signals.ways.at(node);
            signals.speakers[node.0 as usize].node.receive(Call::new(at, &routes), arrival);
            self.poll(at, &mut signals, node);
        }
        self.signals = Some(signals);
    }

    /// Carries out what a node wants, and plans when it is asked next.
    fn poll(&mut self, at: Instant, signals: &mut Signals<'a>, node: NodeId) {
        loop {
            let speaker = &mut signals.speakers[node.0 as usize];
            match speaker.node.poll(Call::new(at, &signals.ways.at(node))) {
                Poll::Action(Action::Send(packet)) => self.send_message(at, signals, node, packet),
                Poll::Action(Action::Control(control)) => {
                    self.control(at, signals, node, control);
                }
                Poll::Action(Action::Event(event)) => signals.tell(at, node, event),
                Poll::At(due) => {
                    if speaker.planned.is_none_or(|planned| planned > due) {
                        speaker.planned = Some(due);
                        self.events.push(due, Event::Poll(node.0));
                    }
                    return;
                }
                Poll::Idle => return,
            }
        }
    }

    fn send_message(
        &mut self,
        at: Instant,
        signals: &mut Signals<'a>,
        node: NodeId,
        packet: Packet,
    ) {
        let Signals { plan, ways, random, lost, .. } = signals;
        let (from, until) = plan.lossy;
        if at >= from && at < until && random.below(1_000_000_000) < u64::from(plan.loss.ppb()) {
            *lost += 1;
            return;
        }
        let Some((lane, is_new)) = ways.lane(self.network, &mut self.lanes, (node, &packet)) else {
            // No node has the address; a router would drop it, too.
            *lost += 1;
            return;
        };
        let row = &mut self.lanes[lane as usize];
        if is_new {
            for place in 0..row.hops.len() {
                let outlet = row.hops[place].outlet;
                row.classify(outlet, &mut self.classifiers[outlet.index()], |interface| interface);
            }
        }
        let bytes = ip::write(&packet);
        let length = bytes.len() as u32 + row.link_header;
        let source = self.scenario.sources.len() as u32;
        let parcel = Parcel { source, lane, length, ..Parcel::default() };
        self.emit(at, parcel, Content::Message(bytes));
    }

    /// Traffic control is asked for something.
    fn control(&mut self, at: Instant, signals: &mut Signals<'a>, node: NodeId, control: Control) {
        let (flow, request) = match control {
            Control::Remove(flow, _) => return self.remove_flow(at, signals, (node, flow)),
            Control::Add(flow, request) | Control::Modify(flow, request) => (flow, request),
        };
        let outlet = signals.ways.outlet(node, request.interface);
        let answer = match signals.controls.get_mut(&outlet) {
            // The flow passes as it is.
            None => Ok(()),
            Some(control) => {
                let is_new = !control.has(flow);
                control.ask(flow, &request).map(|asked| {
                    let lost = self.carry_out(at, outlet, asked.steps);
                    control.counts.lost += lost;
                    (i32::from(is_new), asked.preempted)
                })
            }
            .map(|(more, preempted)| {
                signals.installed(at, &request.session, more);
                if let Some(&index) = signals.sessions.get(&request.session) {
                    signals.applications[index]
                        .classes
                        .insert(weir_rsvp::admission::name(&request));
                }
                for (flow, session) in preempted {
                    signals.installed(at, &session, -1);
                    let routes = signals.ways.at(node);
                    let speaker = &mut signals.speakers[node.0 as usize];
                    speaker.node.preempt(Call::new(at, &routes), flow, Cause::PREEMPTED);
                }
            }),
        };
        let routes = signals.ways.at(node);
        let speaker = &mut signals.speakers[node.0 as usize];
        // A flow that is gone by now is removed by a later action.
        speaker.node.answer(Call::new(at, &routes), flow, answer);
    }

    fn remove_flow(
        &mut self,
        at: Instant,
        signals: &mut Signals<'a>,
        (node, flow): (NodeId, FlowId),
    ) {
        for place in 0..signals.ways.outlets(node).len() {
            let outlet = signals.ways.outlets(node)[place];
            let Some(control) = signals.controls.get_mut(&outlet) else { continue };
            if let Some((session, step)) = control.remove(flow) {
                control.counts.lost += self.carry_out(at, outlet, step.into_iter().collect());
                signals.installed(at, &session, -1);
            }
        }
    }

    /// Does what flows want to the link of an outlet; returns how many packets that lost.
    fn carry_out(&mut self, at: Instant, id: OutletId, steps: Vec<Step>) -> u64 {
        self.outlets[id.index()].advance(at);
        self.settle(id);
        let mut lost = 0;
        for step in steps {
            let outlet = &mut self.outlets[id.index()];
            let classifier = &mut self.classifiers[id.index()];
            match step {
                Step::Seat(grafts, seating) => {
                    for graft in grafts {
                        outlet.graft(at, graft).expect("classes can join a link that has places");
                    }
                    let rules = seating.rules();
                    let moved = |lane: &&mut Lane| {
                        let own = rules.as_ref().map_or(&[][..], |rules| rules.rules());
                        lane.is_moved(id, seating.leaf, own)
                    };
                    let moved: Vec<_> = self.lanes.iter_mut().filter(moved).collect();
                    match rules.clone() {
                        Some(rules) => drop(classifier.join(seating.leaf, rules)),
                        None => drop(classifier.leave(seating.leaf)),
                    }
                    moved.into_iter().for_each(|lane| lane.classify(id, classifier, |known| known));
                }
                Step::Plan(plan, rules, heir) => {
                    outlet.change(at, (Cow::Owned(*plan), heir));
                    *classifier = *rules;
                    for lane in &mut self.lanes {
                        lane.classify(id, classifier, |known| known);
                    }
                }
            }
            lost += outlet.log.dropped.len() as u64;
            self.settle(id);
        }
        lost
    }
}

impl Signals<'_> {
    /// Traffic control of an outlet has as many flows of a session more.
    fn installed(&mut self, at: Instant, session: &Session, more: i32) {
        if let Some(&index) = self.sessions.get(session) {
            self.applications[index].installed(at, more);
        }
    }
}

/// The time in microseconds that an outlet takes for all that its queues may hold and a packet, the
/// longest ones that the link carries.
fn full_queues(plan: &LinkPlan, mtu: u32) -> u32 {
    let packet = u64::from(plan.framing.wire_length(mtu + ETHERNET_HEADER));
    let bytes = |queue: &QueuePlan| match queue.limit() {
        Limit::Packets(packets) => u64::from(packets).saturating_mul(packet),
        Limit::Bytes(bytes) => bytes.get(),
    };
    let sum = plan.queues.iter().map(bytes).fold(packet, u64::saturating_add);
    let nanos = plan.tree.rate().transmit_time(Bytes::new(sum)).as_nanos();
    u32::try_from(nanos.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Bytes of a frame in front of its IP packet.
const ETHERNET_HEADER: u32 = 14;

/// Stands for messages where packets have a source.
pub(super) fn source() -> Source {
    let spacing = Spacing::rate(Rate::MIN);
    let traffic = Traffic::Poisson { sizes: Sizes::NONE, spacing };
    Source::new("rsvp", Headers::UNKNOWN, traffic)
}
