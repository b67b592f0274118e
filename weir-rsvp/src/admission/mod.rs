//! Admission: which reservations a link takes, and the classes that they become.
//!
//! A reservation becomes a class at a place of a policy. It is admitted if the rates of all fit
//! into the class that has the places, if no neighbour has more than its limit, and if the bounds
//! of `weir check --bounds` keep what every guaranteed reservation, and every class of the policy
//! that declares its arrivals and wants a delay, was promised. Nothing here carries anything out:
//! the caller lets the class join its link.
//!
//! Invariant: the policy here is the one with exactly the classes of `flows`; what was refused left
//! no trace.

mod class;
mod promise;

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::ids::{ClassId, LeafId};
use weir_core::units::Duration;
use weir_policy::Policy;
use weir_policy::deployment::{Excess, NeighbourLimit, Rsvp};
use weir_policy::policy::{JoinRequest, Seating};

use crate::intserv::{Characterization, Flowspec, Service, Terms};
use crate::node::{FlowId, Request};
use crate::wire::{Cause, Priority};
use class::Wanted;
use promise::Promises;

pub use class::{PREFIX, name};

/// The settings of admission on one interface.
#[derive(Clone, PartialEq, Debug)]
pub struct AdmissionParams {
    /// The class whose places reservations take.
    pub class: String,
    /// The treatment of packets beyond the reserved rate.
    pub excess: Excess,
    /// The term D; without one, that which a reservation alone gets.
    pub delay: Option<Duration>,
    /// The most that the reservations of one neighbour may have together.
    pub neighbour: NeighbourLimit,
    /// Whether a reservation may take the place of one with a lower priority `[rfc3181]`.
    pub preemption: bool,
    /// The largest IP packet.
    pub mtu: u32,
    /// Bytes of a frame in front of its IP header: 14 on Ethernet.
    pub header: u32,
}

/// Why a reservation is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The error that neighbours receive.
    pub cause: Cause,
    /// The reason in words, for the operator.
    pub why: String,
}

/// The class that an admitted reservation gets.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The name of its class.
    pub name: String,
    /// The table of that class, without its place.
    pub table: String,
    /// The changes of the policy and its link, in this order.
    pub seatings: Vec<Seating>,
    /// The reservations whose place it takes: they are gone.
    pub preempted: Vec<FlowId>,
}

/// Admits reservations to a link.
#[derive(Clone, Debug)]
pub struct Admission {
    params: AdmissionParams,
    policy: Policy,
    parent: ClassId,
    /// The most that reservations may have together, in bit/s.
    room: u64,
    /// The sum of the rates of `flows`, in bit/s.
    reserved: u64,
    flows: BTreeMap<FlowId, Flow>,
    neighbours: BTreeMap<IpAddr, Share>,
    promises: Promises,
    terms: Option<Terms>,
}

#[derive(Clone, Debug)]
struct Flow {
    name: String,
    leaf: LeafId,
    /// Bit/s of the link.
    rate: u64,
    hops: Vec<IpAddr>,
    priority: Priority,
}

/// The sum of a neighbour's reservations; the rate is in bit/s.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    count: u32,
    rate: u64,
}

impl AdmissionParams {
    /// Takes the settings of a deployment, for an interface with this MTU.
    pub fn of(rsvp: &Rsvp, mtu: u32, header: u32) -> Self {
        Self {
            class: rsvp.class.clone(),
            excess: rsvp.excess,
            delay: rsvp.delay,
            neighbour: rsvp.neighbour,
            preemption: rsvp.preemption,
            mtu,
            header,
        }
    }
}

impl Admission {
    /// Admission to the link of a policy, whose class must have places and a rate.
    ///
    /// # Errors
    /// When the class has none; the text says what to do.
    pub fn new(policy: Policy, params: AdmissionParams) -> Result<Self, String> {
        let policy = policy.with_places();
        let class = &params.class;
        let parent = policy.class(class).ok_or_else(|| {
            format!("the policy has no class `{class}`; name one that has `places`")
        })?;
        if policy.link.tree.vacancy(Some(parent)).is_none() {
            return Err(format!("class `{class}` has no free place; write more `places` in it"));
        }
        let tree = &policy.link.tree;
        let rate = |class: ClassId| tree.class(class).params.rate("rate");
        let whole = rate(parent).ok_or_else(|| {
            format!("class `{class}` has no rate of which reservations have parts; write one")
        })?;
        // Places that no class has have no name.
        let others = tree
            .classes()
            .filter(|(_, child)| child.parent == Some(parent) && !child.name.is_empty());
        let others: u64 =
            others.filter_map(|(id, _)| rate(id)).map(|rate| rate.bits_per_second()).sum();
        let room = whole.bits_per_second().saturating_sub(others);
        let promises = Promises::of(&policy);
        let mut admission = Self {
            params,
            policy,
            parent,
            room,
            reserved: 0,
            flows: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            promises,
            terms: None,
        };
        admission.terms = promise::terms(&admission);
        Ok(admission)
    }

    /// Returns what the link offers to reservations, for an interface of this latency.
    pub fn offers(&self, latency: Option<u32>) -> Characterization {
        // [rfc2215 §3.3] The largest packets, which have the least overhead.
        let dearness = self.dearness(self.params.mtu, self.params.mtu);
        // [rfc2212] The next hop serves a packet once its last bit is there, so each hop adds a
        // largest packet at rate R to what it keeps by itself.
        let passed = |terms: Terms| terms.plus(Terms { c: self.params.mtu, d: 0 });
        Characterization {
            bandwidth: (self.room as f64 / 8.0 / dearness) as f32,
            latency,
            mtu: self.params.mtu,
            guaranteed: self.terms.map(passed),
            controlled_load: true,
        }
    }

    /// Returns how many reservations there are, and what they have of what they may have, in
    /// bit/s.
    pub fn load(&self) -> (usize, u64, u64) {
        (self.flows.len(), self.reserved, self.room)
    }

    /// Returns the name of a reservation's class.
    pub fn class_of(&self, flow: FlowId) -> Option<&str> {
        self.flows.get(&flow).map(|flow| flow.name.as_str())
    }

    /// Returns what a reservation's class has, in bit/s of the link.
    pub fn rate_of(&self, flow: FlowId) -> Option<u64> {
        self.flows.get(&flow).map(|flow| flow.rate)
    }

    /// Returns the policy with the classes of all reservations.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Admits a reservation that is new, or changed.
    ///
    /// # Errors
    /// When it does not fit; then all is as before.
    pub fn admit(&mut self, id: FlowId, request: &Request) -> Result<Admitted, Refusal> {
        let first = match self.admit_beside(id, request) {
            Err(refusal) if self.params.preemption && refusal.cause.is_admission() => refusal,
            result => return result,
        };
        let own = request.priority.unwrap_or_default();
        let below =
            |flow: &(&FlowId, &Flow)| *flow.0 != id && flow.1.priority.defending < own.preempting;
        let mut weaker: Vec<_> = self.flows.iter().filter(below).map(|row| *row.0).collect();
        // The weakest first, of equal ones the newest.
        weaker.sort_by_key(|flow| (self.flows[flow].priority.defending, std::cmp::Reverse(flow.0)));
        let mut trial = self.clone();
        let (mut seatings, mut preempted) = (Vec::new(), Vec::new());
        for flow in weaker {
            seatings.extend(trial.remove(flow));
            preempted.push(flow);
            if let Ok(admitted) = trial.admit_beside(id, request) {
                seatings.extend(admitted.seatings);
                *self = trial;
                return Ok(Admitted { seatings, preempted, ..admitted });
            }
        }
        Err(first)
    }

    /// Admits a reservation beside all others.
    fn admit_beside(&mut self, id: FlowId, request: &Request) -> Result<Admitted, Refusal> {
        self.check_form(request)?;
        let wanted = Wanted::of(request, self);
        self.check_sums(id, &wanted, request)?;
        let joining = JoinRequest { remove: &[], tables: &wanted.table, name: "the reservation" };
        let outcome = self.policy.seat(&joining);
        let seating = outcome.plan.and_then(|rows| rows.into_iter().next()).ok_or_else(|| {
            let found = outcome.findings.iter().map(|finding| finding.message.as_str());
            let why = found.collect::<Vec<_>>().join("; ");
            refusal(Cause::SYSTEM, format!("no class for the reservation: {why}"))
        })?;
        let leaf = seating.leaf;
        let own = self.flows.get(&id).map(|flow| flow.leaf);
        if seating.was_there && own != Some(leaf) {
            let why = format!("another reservation has the class `{}`", seating.name);
            return Err(refusal(Cause::SYSTEM, why));
        }
        let former = self.policy.seating(leaf);
        self.policy.follow(&seating);
        let former_promise = self.promises.set(leaf, wanted.promise);
        if let Err(refusal) = self.promises.check(&self.policy) {
            self.policy.follow(&former);
            self.promises.set(leaf, former_promise);
            return Err(refusal);
        }
        self.forget(id);
        self.remember(
            id,
            Flow {
                name: seating.name.clone(),
                leaf,
                rate: wanted.rate.bits_per_second(),
                hops: request.hops.clone(),
                priority: request.priority.unwrap_or_default(),
            },
        );
        let Wanted { name, table, .. } = wanted;
        Ok(Admitted { name, table, seatings: vec![seating], preempted: Vec::new() })
    }

    /// Removes a reservation; returns what is done to the link, if there was such a reservation.
    pub fn remove(&mut self, id: FlowId) -> Option<Seating> {
        let Flow { name, leaf, .. } = self.forget(id)?;
        let seating = Seating { name, leaf, class: None, was_there: true };
        self.policy.follow(&seating);
        self.promises.set(leaf, None);
        Some(seating)
    }

    /// Refuses what no policy could give.
    fn check_form(&self, request: &Request) -> Result<(), Refusal> {
        let tspec = request.flowspec.tspec();
        if tspec.packet_max > self.params.mtu {
            let (packet, mtu) = (tspec.packet_max, self.params.mtu);
            let why = format!("packets of {packet} B are larger than the MTU of {mtu} B");
            return Err(refusal(Cause::MTU, why));
        }
        if request.flowspec.service() == Service::Guaranteed && self.terms.is_none() {
            let why = "the policy bounds no delay of a reservation".to_owned();
            return Err(refusal(Cause::SERVICE_UNSUPPORTED, why));
        }
        if let Some(cause) = request.flowspec.fault() {
            let what = tspec.fault().unwrap_or("service rate below the token rate");
            return Err(refusal(cause, format!("the flowspec describes no flow: {what}")));
        }
        self.check_rate(request)?;
        if !class::is_matched(request) {
            let why = "a flow label is no condition of a rule".to_owned();
            return Err(refusal(Cause::SERVICE_UNSUPPORTED, why));
        }
        Ok(())
    }

    /// Refuses a rate that the link does not have, also where the sender sends less: nothing stands
    /// behind it.
    fn check_rate(&self, request: &Request) -> Result<(), Refusal> {
        let packets = request.flowspec.tspec();
        let asked = match &request.flowspec {
            Flowspec::ControlledLoad(tspec) => tspec.rate,
            Flowspec::Guaranteed(tspec, rspec) => rspec.rate.max(tspec.rate),
        };
        let dearness = self.dearness(packets.packet_min, packets.packet_max);
        let (bits, link) = (f64::from(asked) * 8.0 * dearness, self.policy.link.tree.rate());
        if bits > link.bits_per_second() as f64 {
            let why = format!("{asked:e} B/s would be more than the whole link, {link}");
            return Err(refusal(Cause::BANDWIDTH, why));
        }
        Ok(())
    }

    /// Refuses what is more than the class, or a neighbour, may have.
    fn check_sums(&self, id: FlowId, wanted: &Wanted, request: &Request) -> Result<(), Refusal> {
        let rate = wanted.rate.bits_per_second();
        let own = self.flows.get(&id);
        let before = own.map_or(0, |flow| flow.rate);
        let sum = (self.reserved - before).saturating_add(rate);
        if sum > self.room {
            let (class, room) = (&self.params.class, self.room);
            let why = format!("{sum} bit/s would be more than the {room} bit/s of class `{class}`");
            return Err(refusal(Cause::BANDWIDTH, why));
        }
        let NeighbourLimit { rate: rate_max, count: count_max } = self.params.neighbour;
        for hop in &request.hops {
            let share = self.neighbours.get(hop).copied().unwrap_or_default();
            let known = own.filter(|flow| flow.hops.contains(hop));
            let count = share.count - u32::from(known.is_some()) + 1;
            let sum = (share.rate - known.map_or(0, |flow| flow.rate)).saturating_add(rate);
            if count_max.is_some_and(|most| count > most) {
                let why = format!("neighbour {hop} would have {count} reservations");
                return Err(refusal(Cause::BANDWIDTH, why));
            }
            if rate_max.is_some_and(|most| sum > most.bits_per_second()) {
                let why = format!("neighbour {hop} would have reserved {sum} bit/s");
                return Err(refusal(Cause::BANDWIDTH, why));
            }
        }
        Ok(())
    }

    fn remember(&mut self, id: FlowId, flow: Flow) {
        self.reserved += flow.rate;
        for hop in &flow.hops {
            let share = self.neighbours.entry(*hop).or_default();
            (share.count, share.rate) = (share.count + 1, share.rate + flow.rate);
        }
        self.flows.insert(id, flow);
    }

    fn forget(&mut self, id: FlowId) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        self.reserved -= flow.rate;
        for hop in &flow.hops {
            let share = self.neighbours.get_mut(hop).expect("a flow of it was counted");
            (share.count, share.rate) = (share.count - 1, share.rate - flow.rate);
            if share.count == 0 {
                self.neighbours.remove(hop);
            }
        }
        Some(flow)
    }
}

fn refusal(cause: Cause, why: String) -> Refusal {
    Refusal { cause, why }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.cause, self.why)
    }
}

/// The service rate of a flowspec in bytes a second: R, or the token rate of what is sent.
fn service_rate(request: &Request) -> f32 {
    match &request.flowspec {
        Flowspec::ControlledLoad(_) => request.tspec.rate,
        Flowspec::Guaranteed(_, rspec) => rspec.rate,
    }
}
