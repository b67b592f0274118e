//! Merging: the reservation for previous hops, from those of next hops [rfc2205 §2.2, §3.5].
//!
//! Pure: it reads a session's state and changes nothing.

use std::net::IpAddr;

use super::state::{Neighbour, OpaqueObjects, Reserved, SessionState};
use crate::intserv::Flowspec;
use crate::wire::{Descriptor, Filter, Reservation, Style};

/// The Resv that a previous hop should have.
#[derive(Clone, PartialEq, Debug)]
pub struct Desired {
    pub reservation: Reservation,
    /// With WF to multicast: the senders that the reservation is for.
    pub scope: Vec<IpAddr>,
    pub opaque: OpaqueObjects,
}

/// Returns the flowspec that goes upstream for these, where `failed` has been refused there.
///
/// [rfc2205 §3.5] What is at least as much as failed is left out, so that a killer reservation does
/// not deny service to the smaller ones. If nothing else is left, the smallest is tried.
pub fn merged(flowspecs: &[Flowspec], failed: Option<&Flowspec>) -> Option<Flowspec> {
    let Some(failed) = failed else { return bound(flowspecs, Flowspec::upper) };
    let free: Vec<Flowspec> =
        flowspecs.iter().filter(|flowspec| !flowspec.at_least(failed)).copied().collect();
    match bound(&free, Flowspec::upper) {
        None => bound(flowspecs, Flowspec::lower),
        // Two that are less in different ways can add up to what failed again.
        Some(upper) if upper.at_least(failed) => bound(&free, Flowspec::lower),
        upper => upper,
    }
}

/// Folds flowspecs of one service; one of another service is left out, and `admissible` refuses it
/// before it gets here.
fn bound(
    flowspecs: &[Flowspec],
    join: fn(&Flowspec, &Flowspec) -> Option<Flowspec>,
) -> Option<Flowspec> {
    let join = |one: Flowspec, other: Flowspec| join(&one, &other).unwrap_or(one);
    flowspecs.iter().copied().reduce(join)
}

impl SessionState {
    /// Returns the previous hops of the senders; `None` is this host.
    pub fn previous_hops(&self) -> Vec<Option<Neighbour>> {
        let mut hops: Vec<_> = self.senders.values().map(|sender| sender.from).collect();
        hops.sort_unstable();
        hops.dedup();
        hops
    }

    /// Returns what a previous hop should know of the reservations that are admitted.
    pub fn desired(&self, from: Option<Neighbour>) -> Option<Desired> {
        let style = self.style()?;
        let descriptors: Vec<Descriptor> = match style {
            Style::Fixed => self.distinct(from),
            Style::Shared | Style::Wildcard => self.shared(style, from).into_iter().collect(),
        };
        if descriptors.is_empty() {
            return None;
        }
        let (scope, opaque) = (self.scope(style, from), self.opaque(from));
        Some(Desired { reservation: Reservation { style, descriptors }, scope, opaque })
    }

    /// Returns the objects that travel with the reservations for senders behind a previous hop: a
    /// node that reads no policy hands all of them on, each once [rfc2205 §3.10].
    fn opaque(&self, from: Option<Neighbour>) -> OpaqueObjects {
        let mut all = OpaqueObjects::default();
        for (reserved, _) in self.behind(from).flat_map(|filter| self.reserved_for(filter)) {
            let OpaqueObjects { policies, carried } = &reserved.opaque;
            add_some(&mut all.policies, policies, Vec::len);
            add_some(&mut all.carried, carried, |one| one.bytes.len());
        }
        all
    }

    /// The senders of this host, or behind the previous hop.
    fn behind(&self, from: Option<Neighbour>) -> impl Iterator<Item = &Filter> {
        self.senders.iter().filter(move |(_, sender)| sender.from == from).map(|(filter, _)| filter)
    }

    /// The admitted reservations that reach a sender; with their flowspecs.
    pub fn reserved_for(&self, filter: &Filter) -> impl Iterator<Item = (&Reserved, Flowspec)> {
        let sender = self.senders.get(filter);
        self.reservations.iter().filter_map(move |reserved| {
            let admitted = reserved.admitted.as_ref()?;
            let leaves = sender?.leaves_by(reserved.from.map(|from| from.interface));
            (leaves && admitted.names(filter)).then_some((reserved, admitted.flowspec))
        })
    }

    /// [rfc2205 §2.2] FF: for each sender the largest that any next hop wants.
    fn distinct(&self, from: Option<Neighbour>) -> Vec<Descriptor> {
        let descriptor = |filter: &Filter| {
            let flowspecs: Vec<_> =
                self.reserved_for(filter).map(|(_, flowspec)| flowspec).collect();
            let flowspec = merged(&flowspecs, self.failed(from, Some(*filter)))?;
            Some(Descriptor { flowspec: Some(flowspec), filters: vec![*filter] })
        };
        self.behind(from).filter_map(descriptor).collect()
    }

    /// WF and SE: the largest that any next hop wants of a sender behind this hop; with SE for all
    /// senders that some next hop names.
    fn shared(&self, style: Style, from: Option<Neighbour>) -> Option<Descriptor> {
        let mut flowspecs = Vec::new();
        let mut filters = Vec::new();
        for filter in self.behind(from) {
            let before = flowspecs.len();
            flowspecs.extend(self.reserved_for(filter).map(|(_, flowspec)| flowspec));
            if flowspecs.len() > before && style == Style::Shared {
                filters.push(*filter);
            }
        }
        let flowspec = merged(&flowspecs, self.failed(from, None))?;
        Some(Descriptor { flowspec: Some(flowspec), filters })
    }

    /// [rfc2205 §3.4] The senders behind a previous hop that some next hop's WF reservation is for,
    /// so that a reservation does not travel round a loop.
    fn scope(&self, style: Style, from: Option<Neighbour>) -> Vec<IpAddr> {
        if style != Style::Wildcard || !self.key.is_multicast() {
            return Vec::new();
        }
        let reserved = |filter: &&Filter| self.reserved_for(filter).next().is_some();
        let mut scope: Vec<_> = self.behind(from).filter(reserved).map(|one| one.source).collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    }

    /// Returns the flowspec that a previous hop refused.
    fn failed(&self, from: Option<Neighbour>, sender: Option<Filter>) -> Option<&Flowspec> {
        let mut blockades = self.blockades.iter();
        let blockade =
            blockades.find(|blockade| Some(blockade.from) == from && blockade.sender == sender);
        blockade.map(|blockade| &blockade.flowspec)
    }
}

/// Adds what is not there yet, up to the bounds.
fn add_some<T: PartialEq + Clone>(all: &mut Vec<T>, some: &[T], size: impl Fn(&T) -> usize) {
    let mut bytes: usize = all.iter().map(&size).sum();
    for one in some {
        let fits = all.len() < OPAQUE_MAX && bytes + size(one) <= OPAQUE_BYTES_MAX;
        if fits && !all.contains(one) {
            bytes += size(one);
            all.push(one.clone());
        }
    }
}

/// Bound: objects of a kind that travel unread with a merged reservation; further ones are left
/// out.
const OPAQUE_MAX: usize = 16;
/// Bound: bytes of these objects together; an object that exceeds them is left out. As many as one
/// message may bring.
const OPAQUE_BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intserv::Tspec;

    fn load(rate: f32, bucket: f32) -> Flowspec {
        let (packet_min, packet_max) = (64, 1500);
        let tspec = Tspec { rate, bucket, peak: f32::INFINITY, packet_min, packet_max };
        Flowspec::ControlledLoad(tspec)
    }

    #[test]
    fn a_killer_reservation_does_not_starve_a_smaller_one() {
        let (small, large) = (load(10.0, 3000.0), load(100.0, 9000.0));
        assert_eq!(merged(&[small, large], None), Some(large));
        assert_eq!(merged(&[small, large], Some(&large)), Some(small));
        assert_eq!(merged(&[large], Some(&large)), Some(large), "alone it is tried again");
        let wide = load(5.0, 9000.0);
        let both = load(10.0, 9000.0);
        assert_eq!(merged(&[small, wide], None), Some(both));
        assert_eq!(merged(&[small, wide], Some(&both)), Some(load(5.0, 3000.0)));
        assert_eq!(merged(&[], Some(&both)), None);
    }
}
