//! Reservation state: Resv, ResvTear, ResvErr and ResvConf, and refreshes upstream [rfc2209 §2].

use std::net::IpAddr;

use weir_core::units::Instant;

use super::action::{Arrival, Event};
use super::outbox::{Call, Outbox, To};
use super::params::Limits;
use super::path::{is_older, millis, period};
use super::state::{Blockade, Neighbour, OpaqueObjects, Reserved, SessionState, Upstream, Wanted};
use crate::intserv::Flowspec;
use crate::wire::{Body, Carried, Cause, Confirmation, Descriptor, ErrorSpec, Filter, Hop};
use crate::wire::{Message, MessageId, Reservation, Resv, ResvError, ResvTear, Style};

/// The part of a reservation that failed.
pub(super) struct Failure<'a> {
    pub reserved: &'a Reserved,
    /// The flowspec and filters that were requested.
    pub failed: &'a Wanted,
    /// Whether what stood before remains.
    pub in_place: bool,
}

impl<'a> Failure<'a> {
    /// A reservation of which nothing remains.
    pub fn gone(reserved: &'a Reserved) -> Self {
        Self { reserved, failed: &reserved.wanted, in_place: false }
    }
}

/// The flow descriptors that failed, as a ResvErr names them.
struct Failed {
    reservation: Reservation,
    /// The senders to which a reservation of the wildcard style is scoped.
    scope: Vec<IpAddr>,
}

impl SessionState {
    /// Takes a Resv that came from a next hop [rfc2209 §2 "RESV message arrives"].
    pub fn resv(&mut self, call: Call<'_>, from: Neighbour, message: &Message, out: &mut Outbox) {
        let Body::Resv(resv) = &message.body else { return };
        let style = resv.reservation.style;
        let learns = call.now < out.params.timers.learns_until;
        if let Some(cause) = self.resv_fault(from, style, message.refused) {
            if learns && cause == Cause::NO_PATH {
                return;
            }
            self.refuse_resv(call.now, (from, resv), cause, out);
            return;
        }
        let lifetime = out.params.timers.lifetime(period(resv.period));
        for descriptor in &resv.reservation.descriptors {
            let Some(wanted) = wanted(descriptor, &resv.scope) else { continue };
            let (wanted, verdict) = self.checked(Some(from), style, wanted, out);
            let mut reserved = Reserved::new(Some(from), style, wanted);
            reserved.confirm = resv.confirm;
            reserved.opaque.policies.clone_from(&resv.policies);
            reserved.opaque.carried.clone_from(&message.carried);
            reserved.expires = Some(call.now.after(lifetime));
            reserved.came_as = message.id.map(|id| id.id);
            match verdict {
                Ok(()) => self.put(call.now, reserved, out),
                Err(Cause::NO_SENDER) if learns => {}
                Err(cause) => {
                    self.refuse_reservation(call.now, Failure::gone(&reserved), cause, out);
                }
            }
        }
        self.reconcile(call, out);
        self.confirm_settled(call, out);
    }

    /// Refuses a whole Resv: a ResvErr for each descriptor.
    fn refuse_resv(
        &self,
        now: Instant,
        (from, resv): (Neighbour, &Resv),
        cause: Cause,
        out: &mut Outbox,
    ) {
        let Some(to) = out.neighbour(from.interface, from.hop.address) else { return };
        let error = ErrorSpec { node: to.source, in_place: false, not_guilty: false, cause };
        let style = resv.reservation.style;
        for descriptor in &resv.reservation.descriptors {
            out.counts.refused += 1;
            let reservation = Reservation { style, descriptors: vec![descriptor.clone()] };
            let failed = Failed { reservation, scope: resv.scope.clone() };
            self.send_error(now, from, error, failed, out);
        }
    }

    /// Sends a ResvErr to a next hop.
    fn send_error(
        &self,
        now: Instant,
        from: Neighbour,
        error: ErrorSpec,
        failed: Failed,
        out: &mut Outbox,
    ) {
        let Some(to) = out.neighbour(from.interface, from.hop.address) else { return };
        let hop = Hop { address: to.source, handle: from.hop.handle };
        let Failed { reservation, scope } = failed;
        let (session, policies) = (self.key, Vec::new());
        let error = ResvError { session, hop, error, scope, policies, reservation };
        out.send_news(now, to, (Body::ResvErr(error), &[]), None);
    }

    /// Returns the error for which the whole message is refused.
    fn resv_fault(&self, from: Neighbour, style: Style, refused: Option<Cause>) -> Option<Cause> {
        let other_hops = |reserved: &&Reserved| reserved.from != Some(from);
        let mut others = self.reservations.iter().filter(other_hops);
        match () {
            () if refused.is_some() => refused,
            () if self.senders.is_empty() => Some(Cause::NO_PATH),
            () if others.any(|reserved| reserved.style != style) => Some(Cause::STYLE_CONFLICT),
            () => None,
        }
    }

    /// Checks a descriptor. Filters without a sender are taken out; none left is an error.
    pub fn checked(
        &self,
        from: Option<Neighbour>,
        style: Style,
        mut wanted: Wanted,
        out: &Outbox,
    ) -> (Wanted, Result<(), Cause>) {
        let named: Vec<Filter> = self.reached(from, &wanted).map(|(filter, _)| *filter).collect();
        if named.is_empty() {
            return (wanted, Err(Cause::NO_SENDER));
        }
        if style != Style::Wildcard {
            wanted.filters = named.clone();
        }
        let flowspec = wanted.flowspec;
        let offers = from.and_then(|from| out.interface(from.interface)).map(|one| one.offers);
        let mut others = named
            .iter()
            .flat_map(|filter| self.reserved_for(filter))
            .filter(|(reserved, _)| reserved.from != from);
        let fault = match () {
            () if flowspec.fault().is_some() => flowspec.fault(),
            // [rfc2205 Appendix B] A packet that does not fit the link cannot be reserved for.
            () if offers.is_some_and(|offers| flowspec.tspec().packet_max > offers.mtu) => {
                Some(Cause::MTU)
            }
            () if others.any(|(_, other)| other.service() != flowspec.service()) => {
                Some(Cause::SERVICE_CONFLICT)
            }
            () => None,
        };
        (wanted, fault.map_or(Ok(()), Err))
    }

    /// Puts a reservation into the table, in place of the one that it refreshes or changes. With FF
    /// a neighbour has one for each sender; else one.
    pub fn put(&mut self, now: Instant, mut reserved: Reserved, out: &mut Outbox) {
        let style = reserved.style;
        // The receiver changed its style: its reservations of before are gone.
        let from = reserved.from;
        self.reservations.retain(|other| other.from != from || other.style == style);
        let same = |other: &&mut Reserved| {
            let same_sender = other.wanted.filters == reserved.wanted.filters;
            other.from == from && (style != Style::Fixed || same_sender)
        };
        let Some(known) = self.reservations.iter_mut().find(same) else {
            if self.is_full(&out.params.limits) {
                out.counts.full += 1;
                self.refuse_reservation(now, Failure::gone(&reserved), Cause::SYSTEM, out);
                return;
            }
            self.generation += 1;
            reserved.generation = self.generation;
            self.reservations.push(reserved);
            return;
        };
        if known.wanted != reserved.wanted {
            self.generation += 1;
            known.generation = self.generation;
        }
        known.wanted = reserved.wanted;
        known.opaque = reserved.opaque;
        (known.expires, known.came_as) = (reserved.expires, reserved.came_as);
        known.confirm = reserved.confirm.or(known.confirm);
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.reservations.len() >= limits.reservations
    }

    /// Reports to a next hop that its reservation failed.
    pub(super) fn refuse_reservation(
        &self,
        now: Instant,
        failure: Failure<'_>,
        cause: Cause,
        out: &mut Outbox,
    ) {
        let Failure { reserved, failed, in_place } = failure;
        out.counts.refused += 1;
        let Some(node) = out.own_address(self.key.destination) else { return };
        let error = ErrorSpec { node, in_place, not_guilty: false, cause };
        self.report_error(now, (reserved, failed), error, out);
    }

    /// Sends a ResvErr to a next hop, or an event to the receiver of this host.
    fn report_error(
        &self,
        now: Instant,
        (reserved, failed): (&Reserved, &Wanted),
        error: ErrorSpec,
        out: &mut Outbox,
    ) {
        let filters = failed.filters.clone();
        let descriptors = vec![Descriptor { flowspec: Some(failed.flowspec), filters }];
        let reservation = Reservation { style: reserved.style, descriptors };
        let session = self.key;
        match reserved.from {
            None => out.event(Event::ResvError { session, error, reservation }),
            Some(from) => {
                let failed = Failed { reservation, scope: failed.scope.clone() };
                self.send_error(now, from, error, failed, out);
            }
        }
    }

    /// Takes a ResvTear: what it names goes.
    pub fn resv_tear(
        &mut self,
        call: Call<'_>,
        from: Neighbour,
        (tear, id): (&ResvTear, Option<MessageId>),
        out: &mut Outbox,
    ) {
        let filters: Vec<Filter> =
            tear.reservation.descriptors.iter().flat_map(|one| one.filters.clone()).collect();
        let before = self.generation;
        self.forget_reservation(from, tear.reservation.style, &filters, id);
        if self.generation == before {
            out.counts.stray += 1;
            return;
        }
        self.reconcile(call, out);
    }

    /// Removes a neighbour's reservations, with FF and SE for these senders, unless they are newer
    /// than the tear [rfc2961 §4.6].
    fn forget_reservation(
        &mut self,
        from: Neighbour,
        style: Style,
        filters: &[Filter],
        id: Option<MessageId>,
    ) {
        let mut changed = false;
        self.reservations.retain_mut(|reserved| {
            let is_hit = reserved.from == Some(from) && reserved.style == style;
            if !is_hit || is_older(id, reserved.came_as) {
                return true;
            }
            let before = reserved.wanted.filters.len();
            let keep = |wanted: &mut Wanted| {
                wanted.filters.retain(|filter| !filters.contains(filter));
            };
            keep(&mut reserved.wanted);
            reserved.admitted.iter_mut().for_each(keep);
            changed |= style == Style::Wildcard || reserved.wanted.filters.len() != before;
            style != Style::Wildcard && !reserved.wanted.filters.is_empty()
        });
        self.generation += u64::from(changed);
    }

    /// Takes a ResvErr [rfc2209 §2 "RESV ERROR message arrives"].
    pub fn resv_error(
        &mut self,
        call: Call<'_>,
        arrival: &Arrival<'_>,
        error: &ResvError,
        out: &mut Outbox,
    ) {
        let hop = error.hop.address;
        let sent_by =
            |from: &Neighbour| from.interface == arrival.interface && from.hop.address == hop;
        let mut hops = self.previous_hops().into_iter().flatten();
        let Some(from) = hops.find(sent_by) else {
            out.counts.stray += 1;
            return;
        };
        let style = error.reservation.style;
        for descriptor in &error.reservation.descriptors {
            let Some(failed) = wanted(descriptor, &error.scope) else { continue };
            if error.error.cause.is_admission() {
                self.blockade(call, from, style, &failed, out);
            }
            for told in self.concerned(from, style, &failed, error.error) {
                self.report_error(call.now, (told.0, &failed), told.1, out);
            }
        }
        self.reconcile(call, out);
    }

    /// [rfc2205 §3.5] Remembers for a while what failed at a previous hop.
    fn blockade(
        &mut self,
        call: Call<'_>,
        from: Neighbour,
        style: Style,
        failed: &Wanted,
        out: &Outbox,
    ) {
        let sender = failed.filters.first().copied().filter(|_| style == Style::Fixed);
        let behind =
            |sender: Filter| self.senders.get(&sender).is_some_and(|one| one.from == Some(from));
        if style == Style::Fixed && !sender.is_some_and(behind) {
            return;
        }
        let until = call.now.after(out.params.timers.blockade());
        let blockade = Blockade { from, sender, flowspec: failed.flowspec, until };
        let same = |known: &&mut Blockade| known.from == from && known.sender == sender;
        match self.blockades.iter_mut().find(same) {
            Some(known) => *known = blockade,
            // With FF one for each sender at most, else one for each previous hop: both bounded.
            None => self.blockades.push(blockade),
        }
    }

    /// Returns the reservations whose owners are told of an error that a previous hop sent, and
    /// what they are told: of an admission failure the next hops that asked for at least as much,
    /// or all if none did; a receiver of this host that asked for less is told that it is not
    /// guilty [rfc2205 §3.1.8].
    fn concerned(
        &self,
        from: Neighbour,
        style: Style,
        failed: &Wanted,
        error: ErrorSpec,
    ) -> Vec<(&Reserved, ErrorSpec)> {
        let behind = |filter: &Filter| {
            let sender = self.senders.get(filter);
            sender.is_some_and(|sender| sender.from == Some(from)) && failed.names(filter)
        };
        let hit = |reserved: &&Reserved| {
            reserved.style == style
                && self.reached(reserved.from, &reserved.wanted).any(|(filter, _)| behind(filter))
        };
        let hit: Vec<&Reserved> = self.reservations.iter().filter(hit).collect();
        let is_less = |reserved: &Reserved| !reserved.wanted.flowspec.at_least(&failed.flowspec);
        let some_guilty = hit.iter().any(|reserved| !is_less(reserved));
        let told = hit.into_iter().filter_map(|reserved| {
            let less = error.cause.is_admission() && some_guilty && is_less(reserved);
            let not_guilty = error.not_guilty || less;
            let is_told = !less || reserved.from.is_none();
            is_told.then_some((reserved, ErrorSpec { not_guilty, ..error }))
        });
        told.collect()
    }

    /// Sends reservations that previous hops do not have yet, and tears those that they should
    /// forget [rfc2209 §2 "RESV REFRESH"].
    pub fn reconcile_upstreams(&mut self, call: Call<'_>, out: &mut Outbox) {
        let hops = self.previous_hops();
        let mut upstreams = std::mem::take(&mut self.upstreams);
        upstreams.retain(|upstream| {
            // Its senders are gone, and with them what it knew of reservations.
            let keep = hops.contains(&upstream.from);
            if !keep {
                upstream.id.iter().for_each(|number| out.forget(*number));
            }
            keep
        });
        self.upstreams = upstreams;
        for from in hops {
            self.reconcile_upstream(call, from, out);
        }
    }

    /// Refreshes, and forgets, what is due; returns whether something changed.
    pub fn refresh_reservations(&mut self, call: Call<'_>, out: &mut Outbox) -> bool {
        let now = call.now;
        let before = (self.reservations.len(), self.blockades.len());
        let alive = |reserved: &Reserved| reserved.expires.is_none_or(|expires| expires > now);
        self.reservations.retain(alive);
        self.blockades.retain(|blockade| blockade.until > now);
        let changed = (self.reservations.len(), self.blockades.len()) != before;
        if changed {
            self.reconcile(call, out);
        }
        for at in 0..self.upstreams.len() {
            if self.upstreams[at].from.is_some() && self.upstreams[at].refresh_at <= now {
                self.refresh_upstream(call, at, out);
            }
        }
        changed
    }

    /// Confirms to receivers what stands, and needs nothing more upstream [rfc2205 §2.6].
    pub fn confirm_settled(&mut self, call: Call<'_>, out: &mut Outbox) {
        let upstreams = &self.upstreams;
        let mut settled: Vec<(IpAddr, Reservation)> = Vec::new();
        for reserved in &mut self.reservations {
            if !reserved.is_settled() || upstreams.is_empty() {
                continue;
            }
            let Some(receiver) = reserved.confirm else { continue };
            if reserved.from.is_none() {
                // A receiver of this host asks until an answer comes.
                continue;
            }
            let Wanted { flowspec, filters, .. } = reserved.wanted.clone();
            let descriptors = vec![Descriptor { flowspec: Some(flowspec), filters }];
            settled.push((receiver, Reservation { style: reserved.style, descriptors }));
            reserved.confirm = None;
        }
        for (receiver, reservation) in settled {
            self.confirm(call, receiver, reservation, out);
        }
    }

    /// Sends a ResvConf to a receiver.
    fn confirm(
        &self,
        call: Call<'_>,
        receiver: IpAddr,
        reservation: Reservation,
        out: &mut Outbox,
    ) {
        let session = self.key;
        let Some(node) = out.own_address(receiver) else { return };
        let cause = Cause::CONFIRMATION;
        let error = ErrorSpec { node, in_place: false, not_guilty: false, cause };
        let confirmation = Confirmation { session, error, receiver, reservation };
        send_confirmation(call, &confirmation, &[], out);
    }

    /// A confirmation for a receiver of this host.
    pub fn confirmed(&mut self, confirmation: &Confirmation, out: &mut Outbox) {
        for reserved in self.reservations.iter_mut().filter(|reserved| reserved.from.is_none()) {
            reserved.confirm = None;
        }
        out.event(Event::Confirmed { session: self.key, node: confirmation.error.node });
    }
}

/// Sends a ResvConf one hop further to its receiver [rfc2205 §3.1.9].
pub fn send_confirmation(
    call: Call<'_>,
    confirmation: &Confirmation,
    carried: &[Carried],
    out: &mut Outbox,
) {
    let receiver = confirmation.receiver;
    let route = call.route(receiver, confirmation.error.node);
    let Some(interface) = route.outgoing.first() else {
        out.counts.stray += 1;
        return;
    };
    let Some(mut to) = out.neighbour(*interface, receiver) else { return };
    to.alert = true;
    let body = Body::ResvConf(confirmation.clone());
    out.send_news(call.now, to, (body, carried), None);
}

impl SessionState {
    fn reconcile_upstream(&mut self, call: Call<'_>, from: Option<Neighbour>, out: &mut Outbox) {
        let desired = self.desired(from);
        let at = self.upstreams.iter().position(|upstream| upstream.from == from);
        let Some(desired) = desired else {
            if let Some(at) = at {
                self.tear_upstream(call, at, out);
            }
            return;
        };
        let at = at.unwrap_or_else(|| self.add_upstream(call, from, desired.reservation.style));
        let upstream = &mut self.upstreams[at];
        let same = upstream.sent == desired.reservation && upstream.scope == desired.scope;
        if same && upstream.opaque == desired.opaque {
            return;
        }
        let before = std::mem::replace(&mut upstream.sent, desired.reservation);
        (upstream.scope, upstream.opaque) = (desired.scope, desired.opaque);
        if let Some(gone) = difference(&before, &upstream.sent) {
            let scope = upstream.scope.clone();
            self.send_tear(call, from, gone, scope, out);
        }
        self.report_upstream(call, at, out);
    }

    fn add_upstream(&mut self, call: Call<'_>, from: Option<Neighbour>, style: Style) -> usize {
        let sent = Reservation { style, descriptors: Vec::new() };
        let (scope, opaque, id) = (Vec::new(), OpaqueObjects::default(), None);
        self.upstreams.push(Upstream { from, sent, scope, opaque, refresh_at: call.now, id });
        self.upstreams.len() - 1
    }

    /// Nothing is reserved any more of what a previous hop knew.
    fn tear_upstream(&mut self, call: Call<'_>, at: usize, out: &mut Outbox) {
        let upstream = self.upstreams.swap_remove(at);
        upstream.id.iter().for_each(|number| out.forget(*number));
        if upstream.from.is_none() {
            out.event(Event::Reserved { session: self.key, reservation: None });
            return;
        }
        self.send_tear(call, upstream.from, upstream.sent, upstream.scope, out);
    }

    fn send_tear(
        &self,
        call: Call<'_>,
        from: Option<Neighbour>,
        reservation: Reservation,
        scope: Vec<IpAddr>,
        out: &mut Outbox,
    ) {
        let Some(from) = from else { return };
        let Some(to) = out.neighbour(from.interface, from.hop.address) else { return };
        let hop = Hop { address: to.source, handle: from.hop.handle };
        let tear = ResvTear { session: self.key, hop, scope, reservation };
        out.send_news(call.now, to, (Body::ResvTear(tear), &[]), None);
    }

    /// Sends the merged reservation to a previous hop, or as an event to the senders of this host.
    pub fn report_upstream(&mut self, call: Call<'_>, at: usize, out: &mut Outbox) {
        let refresh_at = out.next_refresh(call.now);
        let upstream = &mut self.upstreams[at];
        upstream.refresh_at = refresh_at;
        let Some(from) = upstream.from else {
            let reservation = Some(upstream.sent.clone());
            out.event(Event::Reserved { session: self.key, reservation });
            return;
        };
        upstream.id.take().iter().for_each(|number| out.forget(*number));
        let Some((to, resv)) = self.resv_message(at, from, out) else { return };
        let carried = &self.upstreams[at].opaque.carried;
        let id = out.send_news(call.now, to, (resv, carried), Some(self.key));
        self.upstreams[at].id = id;
    }

    fn refresh_upstream(&mut self, call: Call<'_>, at: usize, out: &mut Outbox) {
        let upstream = &self.upstreams[at];
        let from = upstream.from.expect("only a previous hop is refreshed");
        let confirms = self.confirm_for(from).is_some();
        let id = upstream.id.filter(|number| !confirms && out.summarise(from.interface, *number));
        if id.is_some() {
            self.upstreams[at].refresh_at = out.next_refresh(call.now);
            return;
        }
        self.report_upstream(call, at, out);
    }

    fn resv_message(&mut self, at: usize, from: Neighbour, out: &mut Outbox) -> Option<(To, Body)> {
        let to = out.neighbour(from.interface, from.hop.address)?;
        let confirm = self.take_confirm(from);
        let upstream = &self.upstreams[at];
        let resv = Resv {
            session: self.key,
            hop: Hop { address: to.source, handle: from.hop.handle },
            period: millis(out.params.timers.period),
            confirm,
            scope: upstream.scope.clone(),
            policies: upstream.opaque.policies.clone(),
            reservation: upstream.sent.clone(),
        };
        Some((to, Body::Resv(resv)))
    }

    /// The receiver that waits for a confirmation from this hop.
    fn confirm_for(&self, from: Neighbour) -> Option<IpAddr> {
        let behind = |reserved: &&Reserved| {
            let mut reached = self.reached(reserved.from, &reserved.wanted);
            reached.any(|(_, sender)| sender.from == Some(from)) && reserved.is_settled()
        };
        self.reservations.iter().filter(behind).find_map(|reserved| reserved.confirm)
    }

    /// Takes the request for a confirmation: the node upstream answers it. A receiver of this host
    /// asks again with each refresh, until an answer comes.
    fn take_confirm(&mut self, from: Neighbour) -> Option<IpAddr> {
        let receiver = self.confirm_for(from)?;
        for reserved in self.reservations.iter_mut().filter(|reserved| reserved.from.is_some()) {
            reserved.confirm = reserved.confirm.filter(|other| *other != receiver);
        }
        Some(receiver)
    }
}

/// Returns the request of a descriptor; none without a flowspec.
fn wanted(descriptor: &Descriptor, scope: &[IpAddr]) -> Option<Wanted> {
    let flowspec: Flowspec = descriptor.flowspec?;
    Some(Wanted { flowspec, filters: descriptor.filters.clone(), scope: scope.to_vec() })
}

/// Returns the part of `before` that is not in `now`, for a ResvTear.
fn difference(before: &Reservation, now: &Reservation) -> Option<Reservation> {
    let kept: Vec<Filter> = now.descriptors.iter().flat_map(|one| one.filters.clone()).collect();
    let style = before.style;
    let gone = |descriptor: &Descriptor| {
        let flowspec = descriptor.flowspec;
        let mut filters = descriptor.filters.clone();
        filters.retain(|filter| style != now.style || !kept.contains(filter));
        let whole = style == Style::Wildcard && style != now.style;
        (whole || !filters.is_empty()).then_some(Descriptor { flowspec, filters })
    };
    let descriptors: Vec<_> = before.descriptors.iter().filter_map(gone).collect();
    (!descriptors.is_empty()).then_some(Reservation { style, descriptors })
}
