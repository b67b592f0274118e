//! The applications of the hosts: senders announce, the receiver reserves for senders that
//! announced themselves, as a live one does ([`weir_rsvp::receiver`]), and both end.

use super::Signals;
use super::plan::{Reservation, Signalling};
use crate::network::plan::{Ends, Network, NodeId};
use crate::network::route;
use std::collections::BTreeSet;
use weir_core::units::{Duration, Instant};
use weir_rsvp::intserv::Adspec;
use weir_rsvp::node::{Announcement, Call, Event};
use weir_rsvp::receiver::{Receiver, Receiving};
use weir_rsvp::wire::{ErrorSpec, Style};

/// The applications of one reservation.
pub(super) struct Application {
    /// The time is between start and stop.
    pub wants: bool,
    began: Instant,
    ended: Option<Instant>,
    receiver: Receiver,
    /// The names of the leaves that it had.
    pub classes: BTreeSet<String>,
    /// When the receiver first learned that the reservation stands.
    pub confirmed: Option<Instant>,
    /// Errors that came back to sender or receiver.
    pub errors: u64,
    pub last_error: Option<String>,
    /// The largest bound on the delay of a packet that the receiver computed, in microseconds.
    pub bound: Option<f64>,
    /// How many flows traffic control has when all is in place, and how many it has.
    needed: usize,
    has: usize,
    since: Instant,
    /// How long all was in place.
    in_place: Duration,
    /// When it first was.
    pub complete: Option<Instant>,
}

/// The applications of all reservations.
pub(super) fn applications(network: &Network, plan: &Signalling) -> Vec<Application> {
    let application = |row: &Reservation| {
        let routes = row.senders.iter().filter_map(|sender| {
            let ends = Ends { from: sender.0, to: row.receiver };
            route(network, ends)
        });
        let mut outlets: Vec<_> =
            routes.flatten().filter(|outlet| plan.policies.contains_key(outlet)).collect();
        if row.style != Style::Fixed {
            let all: BTreeSet<_> = outlets.into_iter().collect();
            outlets = all.into_iter().collect();
        }
        let asks = Receiving::all(row.style, row.service);
        Application {
            wants: false,
            began: row.start,
            ended: None,
            receiver: Receiver::new(row.session, plan.addresses[row.receiver.0 as usize], asks),
            classes: BTreeSet::new(),
            confirmed: None,
            errors: 0,
            last_error: None,
            bound: None,
            needed: outlets.len(),
            has: 0,
            since: row.start,
            in_place: Duration::ZERO,
            complete: None,
        }
    };
    plan.reservations.iter().map(application).collect()
}

impl Signals<'_> {
    /// The senders of a reservation announce what they send from now on; returns their hosts.
    pub fn announce(&mut self, at: Instant, index: usize) -> Vec<NodeId> {
        let row = &self.plan.reservations[index];
        self.applications[index].wants = true;
        for (host, sender) in &row.senders {
            let routes = self.ways.at(*host);
            let announcement = Announcement {
                session: row.session,
                sender: *sender,
                tspec: row.tspec_at(at),
                adspec: Some(Adspec::at_sender(f32::MAX, u32::from(u16::MAX))),
                ttl: TTL,
                police: true,
            };
            let node = &mut self.speakers[host.0 as usize].node;
            if let Err(error) = node.announce(Call::new(at, &routes), announcement) {
                self.applications[index].fail(error.to_string());
            }
        }
        row.senders.iter().map(|sender| sender.0).collect()
    }

    /// Senders and receiver of a reservation end; returns their hosts.
    pub fn withdraw(&mut self, at: Instant, index: usize) -> Vec<NodeId> {
        let row = &self.plan.reservations[index];
        let application = &mut self.applications[index];
        application.end(at);
        let routes = self.ways.at(row.receiver);
        application
            .receiver
            .end(Call::new(at, &routes), &mut self.speakers[row.receiver.0 as usize].node);
        for (host, sender) in &row.senders {
            let routes = self.ways.at(*host);
            let node = &mut self.speakers[host.0 as usize].node;
            // What is not there needs no end.
            let _ = node.withdraw(Call::new(at, &routes), row.session, *sender);
        }
        row.senders.iter().map(|sender| sender.0).chain([row.receiver]).collect()
    }

    /// An application learns something from its host's node.
    pub fn tell(&mut self, at: Instant, node: NodeId, event: Event) {
        let session = match &event {
            Event::Path { session, .. }
            | Event::PathGone { session, .. }
            | Event::Reserved { session, .. }
            | Event::PathError { session, .. }
            | Event::ResvError { session, .. }
            | Event::Confirmed { session, .. } => session,
        };
        let Some(&index) = self.sessions.get(session) else { return };
        let application = &mut self.applications[index];
        match event {
            Event::Path { sender, tspec, adspec, .. } => {
                application.receiver.note_sender(sender, tspec, adspec);
                self.claim(at, index, node);
            }
            Event::PathGone { sender, .. } => {
                application.receiver.forget(&sender);
                self.claim(at, index, node);
            }
            Event::PathError { error, .. } | Event::ResvError { error, .. } => {
                application.refused(&error);
            }
            Event::Confirmed { .. } => {
                application.confirmed.get_or_insert(at);
            }
            Event::Reserved { .. } => {}
        }
    }

    /// The receiver reserves for the senders that it knows, if that is news.
    fn claim(&mut self, at: Instant, index: usize, node: NodeId) {
        let row = &self.plan.reservations[index];
        let application = &mut self.applications[index];
        if !application.wants || node != row.receiver {
            return;
        }
        let routes = self.ways.at(node);
        let receiver = &mut application.receiver;
        let done = receiver.claim(Call::new(at, &routes), &mut self.speakers[node.0 as usize].node);
        let bound = receiver.asked().and_then(|wanted| wanted.delay_max);
        application.bound = application.bound.into_iter().chain(bound).reduce(f64::max);
        if let Err(why) = done {
            application.fail(why);
        }
    }
}

impl Application {
    fn refused(&mut self, error: &ErrorSpec) {
        self.fail(format!("{} at {}", error.cause, error.node));
    }

    fn fail(&mut self, why: String) {
        self.errors += 1;
        self.last_error = Some(why);
    }

    /// Traffic control has as many flows more of it.
    pub fn installed(&mut self, at: Instant, more: i32) {
        self.pass(at);
        self.has = self.has.saturating_add_signed(more as isize);
        if self.wants && self.is_complete() {
            self.complete.get_or_insert(at);
        }
    }

    fn end(&mut self, at: Instant) {
        self.pass(at);
        self.ended = Some(at);
        self.wants = false;
    }

    fn is_complete(&self) -> bool {
        self.needed > 0 && self.has >= self.needed
    }

    fn pass(&mut self, at: Instant) {
        if self.wants && self.is_complete() {
            self.in_place = self.in_place.plus(at.since(self.since));
        }
        self.since = at;
    }

    /// The part of the time between start and stop in which all of it was in place, up to `end`.
    pub fn part_in_place(&mut self, end: Instant) -> f64 {
        self.pass(end);
        let whole = self.ended.unwrap_or(end).since(self.began.min(end));
        self.in_place.as_nanos() as f64 / whole.as_nanos().max(1) as f64
    }

    /// How long after its start something was so.
    pub fn after_start(&self, at: Option<Instant>) -> Option<Duration> {
        at.map(|at| at.since(self.began))
    }

    /// Whether all of it is in place.
    pub fn stands(&self) -> bool {
        self.wants && self.is_complete()
    }
}

/// Of packets of applications; more than any way has links in most networks.
const TTL: u8 = 255;
