//! Traffic control: which flows an interface should have, and what its answers change
//! [rfc2205 §3.11.2, rfc2209 §2].

use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::Instant;

use super::action::{Action, Control, FlowId, Police, Removal, Request};
use super::outbox::{Call, Outbox};
use super::resv::Failure;
use super::state::{Flow, Reserved, SessionState, Wanted};
use crate::intserv::{Flowspec, Tspec};
use crate::wire::{Cause, Filter, Priority, Style};

/// A reservation that traffic control refused.
struct Refused {
    interface: InterfaceId,
    sender: Option<Filter>,
    /// The reservations that were asked for: those up to this generation.
    generation: u64,
    cause: Cause,
}

impl SessionState {
    /// Requests from traffic control each flow that the reservations need and that is not
    /// installed, and removes the others.
    pub fn reconcile_flows(&mut self, removal: Removal, out: &mut Outbox) {
        for reserved in self.reservations.iter_mut().filter(|reserved| reserved.from.is_none()) {
            // A receiver of this host needs no flow: its packets do not leave.
            reserved.admitted = Some(reserved.wanted.clone());
        }
        let wanted = self.wanted_flows();
        self.remove_flows(&wanted, removal, out);
        for (interface, sender) in wanted {
            let request = self.request(interface, sender);
            let generation = self.generation;
            let place = |flow: &&mut Flow| flow.interface == interface && flow.sender == sender;
            let flow = match self.flows.iter_mut().find(place) {
                Some(flow) => flow,
                None => {
                    let id = out.next_flow();
                    let (installed, asked, refused) = (None, None, None);
                    self.flows.push(Flow { id, interface, sender, installed, asked, refused });
                    self.flows.last_mut().expect("one was pushed")
                }
            };
            flow.request_change(request, generation, out);
        }
        self.admit_unchanged();
    }

    /// The places of flows: with FF one a sender, else one an interface.
    fn wanted_flows(&self) -> Vec<(InterfaceId, Option<Filter>)> {
        let place = |reserved: &Reserved| {
            let interface = reserved.from?.interface;
            let fixed = reserved.style == Style::Fixed;
            Some((interface, reserved.wanted.filters.first().copied().filter(|_| fixed)))
        };
        let mut places: Vec<_> = self.reservations.iter().filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn remove_flows(
        &mut self,
        wanted: &[(InterfaceId, Option<Filter>)],
        removal: Removal,
        out: &mut Outbox,
    ) {
        self.flows.retain(|flow| {
            let keep = wanted.contains(&(flow.interface, flow.sender));
            if !keep && (flow.installed.is_some() || flow.asked.is_some()) {
                out.act(Action::Control(Control::Remove(flow.id, removal)));
            }
            keep
        });
    }

    /// The reservations that share the flow at a place.
    fn sharers(
        &self,
        interface: InterfaceId,
        sender: Option<Filter>,
    ) -> impl Iterator<Item = &Reserved> {
        self.reservations.iter().filter(move |reserved| reserved.is_at(interface, sender))
    }

    /// Merges what the next hops on an interface want; there is at least one.
    fn request(&self, interface: InterfaceId, sender: Option<Filter>) -> Request {
        let sharers: Vec<&Reserved> = self.sharers(interface, sender).collect();
        let flowspecs = sharers.iter().map(|reserved| reserved.wanted.flowspec);
        let upper = |one: Flowspec, other: Flowspec| one.upper(&other).unwrap_or(one);
        let flowspec = flowspecs.reduce(upper).expect("a place comes from a reservation");
        let style = sharers[0].style;
        let mut filters: Vec<Filter> = sharers
            .iter()
            .flat_map(|reserved| self.reached(reserved.from, &reserved.wanted))
            .map(|(filter, _)| *filter)
            .collect();
        filters.sort_unstable();
        filters.dedup();
        let police = self.police(&filters, &flowspec);
        // [rfc2209 §2] The effective Tspec: what senders send, at most what is reserved.
        let tspecs = filters.iter().map(|filter| self.senders[filter].tspec);
        let sent = tspecs.reduce(|one, other| one.sum(&other));
        let tspec = sent.map_or(*flowspec.tspec(), |sent| least(flowspec.tspec(), &sent));
        let mut hops: Vec<IpAddr> =
            sharers.iter().filter_map(|reserved| Some(reserved.from?.hop.address)).collect();
        hops.sort_unstable();
        hops.dedup();
        let policies = sharers.iter().flat_map(|reserved| &reserved.opaque.policies);
        let priority = policies.filter_map(|data| Priority::of_policy(data)).max();
        let session = self.key;
        Request { session, interface, style, flowspec, tspec, filters, police, hops, priority }
    }

    fn police(&self, filters: &[Filter], flowspec: &Flowspec) -> Police {
        let entry = filters.iter().any(|filter| self.senders[filter].police);
        let larger = |filter: &Filter| {
            self.reserved_for(filter).any(|(_, other)| !flowspec.at_least(&other))
        };
        Police { entry, merge: filters.len() > 1, branch: filters.iter().any(larger) }
    }

    /// A reservation that changed nothing of its flow needs no answer.
    fn admit_unchanged(&mut self) {
        for flow in &self.flows {
            if flow.asked.is_none() && flow.installed.is_some() {
                for reserved in &mut self.reservations {
                    if reserved.is_at(flow.interface, flow.sender) {
                        reserved.admitted = Some(reserved.wanted.clone());
                    }
                }
            }
        }
    }

    /// Takes the answer of traffic control; returns whether the flow is one of this session.
    pub fn answer(
        &mut self,
        call: Call<'_>,
        id: FlowId,
        answer: Result<(), Cause>,
        out: &mut Outbox,
    ) -> bool {
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.id == id) else { return false };
        let Some(asked) = flow.asked.take() else { return false };
        let (request, generation) = *asked;
        let (interface, sender) = (flow.interface, flow.sender);
        match answer {
            Ok(()) => {
                flow.installed = Some(request);
                self.admit(interface, sender, generation);
            }
            Err(cause) => {
                flow.refused = Some(Box::new((request, generation)));
                let refused = Refused { interface, sender, generation, cause };
                self.refuse(call.now, refused, out);
            }
        }
        self.reconcile(call, out);
        self.confirm_settled(call, out);
        true
    }

    fn admit(&mut self, interface: InterfaceId, sender: Option<Filter>, generation: u64) {
        for reserved in &mut self.reservations {
            if reserved.is_at(interface, sender) && reserved.generation <= generation {
                reserved.admitted = Some(reserved.wanted.clone());
            }
        }
    }

    /// [rfc2205 §3.1.8] The reservations that asked for more are told; what stood before remains
    /// (`InPlace`), and what is new goes.
    fn refuse(&mut self, now: Instant, refused: Refused, out: &mut Outbox) {
        let Refused { interface, sender, generation, cause } = refused;
        let mut reservations = std::mem::take(&mut self.reservations);
        reservations.retain_mut(|reserved| {
            let asked = reserved.is_at(interface, sender) && reserved.generation <= generation;
            if !asked || reserved.is_settled() {
                return true;
            }
            let failed = reserved.wanted.clone();
            reserved.confirm = None;
            let former = reserved.admitted.clone();
            let failure = Failure { reserved, failed: &failed, in_place: former.is_some() };
            self.refuse_reservation(now, failure, cause, out);
            former.map(|former: Wanted| reserved.wanted = former).is_some()
        });
        self.reservations = reservations;
    }

    /// Traffic control takes an admitted flow back: its reservations go [rfc2205 §2.4].
    pub fn preempt(&mut self, call: Call<'_>, id: FlowId, cause: Cause, out: &mut Outbox) -> bool {
        let Some(at) = self.flows.iter().position(|flow| flow.id == id) else { return false };
        let Flow { interface, sender, .. } = self.flows.swap_remove(at);
        let mut reservations = std::mem::take(&mut self.reservations);
        reservations.retain(|reserved| {
            let hit = reserved.is_at(interface, sender);
            if hit {
                self.refuse_reservation(call.now, Failure::gone(reserved), cause, out);
            }
            !hit
        });
        self.reservations = reservations;
        self.reconcile(call, out);
        true
    }
}

impl Reserved {
    /// Returns whether the flow at this place is for it.
    fn is_at(&self, interface: InterfaceId, sender: Option<Filter>) -> bool {
        self.from.is_some_and(|from| from.interface == interface)
            && sender.is_none_or(|sender| self.wanted.filters.contains(&sender))
    }
}

impl Flow {
    /// Requests a change, unless traffic control has it, has refused it since a reservation last
    /// changed, or a reply is still due.
    fn request_change(&mut self, request: Request, generation: u64, out: &mut Outbox) {
        let refused = self.refused.as_deref();
        let is_refused =
            refused.is_some_and(|(what, then)| *what == request && *then == generation);
        if is_refused || self.asked.is_some() || self.installed.as_ref() == Some(&request) {
            return;
        }
        let control = match self.installed {
            None => Control::Add(self.id, request.clone()),
            Some(_) => Control::Modify(self.id, request.clone()),
        };
        self.asked = Some(Box::new((request, generation)));
        out.act(Action::Control(control));
    }
}

/// The Tspec of traffic that both allow: the smaller rates, and packets of either.
fn least(reserved: &Tspec, sent: &Tspec) -> Tspec {
    Tspec { packet_min: reserved.packet_min.min(sent.packet_min), ..reserved.lower(sent) }
}
