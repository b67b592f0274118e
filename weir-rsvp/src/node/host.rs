//! The calls of applications of this host: announce and withdraw as senders, reserve and release as
//! receivers, in the manner of RAPI [rfc2205 §3.11.1].

use std::net::IpAddr;

use super::action::HostError;
use super::outbox::{Call, Outbox};
use super::state::{Reserved, Sender, SessionState, Wanted};
use crate::intserv::{Adspec, Tspec};
use crate::wire::{Descriptor, Filter, Priority, Reservation, Session, Style};

/// A sender of this host.
#[derive(Clone, PartialEq, Debug)]
pub struct Announcement {
    /// The session that it sends to.
    pub session: Session,
    /// Its address and port.
    pub sender: Filter,
    /// The most that it sends.
    pub tspec: Tspec,
    /// The properties of the path, as far as this host knows; none if receivers need not know.
    pub adspec: Option<Adspec>,
    /// The IP TTL of its data packets, which its Path messages have, too.
    pub ttl: u8,
    /// Whether the first router is to police its flow (`E_Police`).
    pub police: bool,
}

/// A receiver of this host.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// The session that it receives.
    pub session: Session,
    /// The reservation that it requests.
    pub reservation: Reservation,
    /// Its address, if it wants to know when the reservation stands.
    pub confirm: Option<IpAddr>,
    /// Which reservations it takes the place of, and which take its place `[rfc3181]`.
    pub priority: Option<Priority>,
}

impl SessionState {
    /// Takes a sender of this host, new or changed.
    pub fn announce(
        &mut self,
        call: Call<'_>,
        announcement: Announcement,
        out: &mut Outbox,
    ) -> Result<(), HostError> {
        let Announcement { session, sender: filter, tspec, adspec, ttl, police } = announcement;
        if tspec.fault().is_some() {
            return Err(HostError::Unsound(crate::wire::Cause::BAD_TSPEC));
        }
        if filter.source.is_ipv4() != session.destination.is_ipv4() {
            return Err(HostError::Family);
        }
        let is_new = !self.senders.contains_key(&filter);
        if is_new && self.senders.len() >= out.params.limits.senders {
            return Err(HostError::Full);
        }
        let mut sender = Sender {
            from: None,
            tspec,
            adspec: adspec.map(Box::new),
            policies: Vec::new(),
            carried: Vec::new(),
            police,
            ttl,
            outgoing: Vec::new(),
            local: false,
            expires: None,
            refresh_at: call.now,
            came_as: None,
            former: None,
            message_ids: Vec::new(),
        };
        sender.follow(&call.route(session.destination, filter.source), None);
        self.replace_sender(call, filter, sender, out);
        self.reconcile(call, out);
        Ok(())
    }

    /// A sender of this host goes.
    pub fn withdraw(
        &mut self,
        call: Call<'_>,
        filter: &Filter,
        out: &mut Outbox,
    ) -> Result<(), HostError> {
        if self.senders.get(filter).is_none_or(|sender| sender.from.is_some()) {
            return Err(HostError::NoSender);
        }
        self.remove_sender(call.now, filter, out);
        self.reconcile(call, out);
        Ok(())
    }

    /// Takes what a receiver of this host reserves, in place of what it reserved before.
    pub fn claim(
        &mut self,
        call: Call<'_>,
        claim: Claim,
        out: &mut Outbox,
    ) -> Result<(), HostError> {
        let Reservation { style, descriptors } = &claim.reservation;
        let mut others = self.reservations.iter().filter(|reserved| reserved.from.is_some());
        if others.any(|reserved| reserved.style != *style) {
            return Err(HostError::Style);
        }
        let mut wanted = Vec::new();
        for descriptor in descriptors {
            wanted.push(self.claimed(*style, descriptor, out)?);
        }
        if wanted.len() + self.reservations.len() > out.params.limits.reservations {
            return Err(HostError::Full);
        }
        let keep: Vec<Filter> = wanted.iter().flat_map(|one| one.filters.clone()).collect();
        self.reservations.retain(|reserved| {
            let same = reserved.style == *style && style != &Style::Fixed;
            let kept = reserved.wanted.filters.iter().all(|filter| keep.contains(filter));
            reserved.from.is_some() || same || reserved.style == *style && kept
        });
        for wanted in wanted {
            let mut reserved = Reserved::new(None, *style, wanted);
            reserved.confirm = claim.confirm;
            reserved.opaque.policies = claim.priority.map(Priority::policy).into_iter().collect();
            self.put(call.now, reserved, out);
        }
        self.reconcile(call, out);
        Ok(())
    }

    fn claimed(
        &self,
        style: Style,
        descriptor: &Descriptor,
        out: &Outbox,
    ) -> Result<Wanted, HostError> {
        let fits = match style {
            Style::Wildcard => descriptor.filters.is_empty(),
            Style::Fixed => descriptor.filters.len() == 1,
            Style::Shared => !descriptor.filters.is_empty(),
        };
        let flowspec = descriptor.flowspec.filter(|_| fits).ok_or(HostError::Form)?;
        let (filters, scope) = (descriptor.filters.clone(), Vec::new());
        let wanted = Wanted { flowspec, filters, scope };
        let (wanted, verdict) = self.checked(None, style, wanted, out);
        match verdict {
            Ok(()) => Ok(wanted),
            Err(crate::wire::Cause::NO_SENDER) => Err(HostError::NoSender),
            Err(cause) => Err(HostError::Unsound(cause)),
        }
    }

    /// A receiver of this host reserves no more.
    pub fn release(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<(), HostError> {
        let before = self.reservations.len();
        self.reservations.retain(|reserved| reserved.from.is_some());
        if self.reservations.len() == before {
            return Err(HostError::NoSender);
        }
        self.reconcile(call, out);
        Ok(())
    }
}
