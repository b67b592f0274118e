//! Drivers between a scheduler and the wire, with their faults `[algorithms §13.2, §13.4]`.
//!
//! A driver's start routine takes packets from the scheduler as long as the driver has room. It is
//! called on an arrival for which no packet was dropped, when packets have left the wire, at the
//! end of a wait that the scheduler named, and by some drivers on incoming packets. The line of the
//! link has unlimited room here, unless the model is the line itself; since packets behind the
//! scheduler stay in order and the wire is idle only when none is there, its instants are those of
//! the wire.
//!
//! Invariant: a packet that was handed out is in the list or in the card, until its last bit is
//! sent.

pub mod model;
pub mod waiting;

use model::{Complete, Driver as Model};
use std::collections::VecDeque;
use weir_core::change::Change;
use weir_core::event::{Departure, Poll};
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Graft, LinkPlan, Packet};
use weir_core::parameter::BuildError;
use weir_core::sched::RefitError;
use weir_core::units::{Bytes, Duration, Instant};

/// A link whose packets a driver takes.
pub struct Driver {
    /// The link from which the driver takes packets.
    pub link: Box<dyn AnyLink>,
    model: Model,
    tick: Option<Duration>,
    /// Handed out by the scheduler, not yet in the card.
    software: VecDeque<Departure>,
    software_bytes: u64,
    /// In the card, the first of them on the wire: when each is sent, and its length.
    card: VecDeque<(Instant, u64)>,
    card_bytes: u64,
    /// Places of a ring that are taken, by packets that are sent too.
    ring_taken: u32,
    /// When a wait that the scheduler named ends.
    wake: Option<Instant>,
}

/// Receives the events of a driver as they happen.
pub trait Outcome {
    /// The scheduler is about to be polled.
    fn asked(&mut self);
    /// The scheduler handed out a packet.
    fn handed_out(&mut self, departure: &Departure);
    /// It left the list in software.
    fn left_software(&mut self, at: Instant, departure: &Departure);
    /// Packets may have been dropped; returns whether any was.
    fn settle(&mut self, link: &mut dyn AnyLink) -> bool;
}

impl Driver {
    /// A driver of the link of a plan. A wait that the scheduler names ends with the first `tick`
    /// that is not before its end.
    ///
    /// # Errors
    /// As [`LinkPlan::build`].
    pub fn new(plan: &LinkPlan, model: Model, tick: Option<Duration>) -> Result<Self, BuildError> {
        Ok(Self { tick, ..Self::of(driven(plan, model).build()?, model) })
    }

    /// A driver of a link with a plan of [`driven`], which waits ends exactly; it holds no packet.
    pub fn of(link: Box<dyn AnyLink>, model: Model) -> Self {
        Self {
            link,
            model,
            tick: None,
            software: VecDeque::new(),
            software_bytes: 0,
            card: VecDeque::new(),
            card_bytes: 0,
            ring_taken: 0,
            wake: None,
        }
    }

    /// When it acts by itself next.
    pub fn due(&self) -> Option<Instant> {
        let sent = self.card.front().map(|row| row.0);
        match (sent, self.wake) {
            (Some(sent), Some(wake)) => Some(sent.min(wake)),
            (sent, wake) => sent.or(wake),
        }
    }

    /// Does what is due up to `until`, included.
    pub fn advance(&mut self, until: Instant, out: &mut impl Outcome) {
        while let Some(at) = self.due().filter(|&at| at <= until) {
            self.act(at, out);
        }
    }

    /// A wait that ends starts it, and packets that are sent by `at` make room.
    fn act(&mut self, at: Instant, out: &mut impl Outcome) {
        // Two interrupts at one instant are two calls, and the clock's comes before the card's: it
        // finds the packets that are sent just then still there.
        if self.wake.take_if(|wake| *wake <= at).is_some() {
            self.start(at, out);
        }
        let mut completed = false;
        while let Some(&(_, length)) = self.card.front().filter(|row| row.0 <= at) {
            self.card.pop_front();
            self.card_bytes -= length;
            completed |= self.completes();
        }
        if completed {
            self.fill_card(at, out);
            self.start(at, out);
        }
    }

    /// A packet is sent; whether that causes an interrupt.
    fn completes(&mut self) -> bool {
        match self.model {
            Model::Fxp { complete: Complete::Chain, .. } => {
                let all_sent = self.card.is_empty();
                if all_sent {
                    self.ring_taken = 0;
                }
                all_sent
            }
            _ => {
                self.ring_taken = self.ring_taken.saturating_sub(1);
                true
            }
        }
    }

    /// Offers a packet at `at`, up to which it has been advanced.
    pub fn offer(&mut self, at: Instant, leaf: LeafId, packet: Packet, out: &mut impl Outcome) {
        self.link.offer(at, leaf, packet);
        let dropped = out.settle(self.link.as_mut());
        // [algorithms §3.5] An arrival for which a packet was dropped does not start the driver;
        // but a driver that nothing else will start would never send again.
        if !dropped || self.due().is_none() {
            self.start(at, out);
        }
    }

    /// The node received a packet.
    pub fn received(&mut self, at: Instant, out: &mut impl Outcome) {
        if self.model.starts_on_receive() {
            self.start(at, out);
        }
    }

    /// The link gets another plan; start the driver next.
    ///
    /// # Errors
    /// As [`Change::apply`]; then the link is as it was.
    pub fn change(&mut self, at: Instant, change: Change<'_>) -> Result<(), BuildError> {
        let to = driven(change.to, self.model);
        self.wake = None;
        Change { from: change.from, to: &to, heir: change.heir }.apply(&mut self.link, at)
    }

    /// Something is done to one leaf of the link, whose plan this is; start the driver next.
    ///
    /// # Errors
    /// As [`Graft::apply`]; then nothing changed.
    pub fn graft(
        &mut self,
        at: Instant,
        plan: &mut LinkPlan,
        graft: Graft,
    ) -> Result<(), RefitError> {
        graft.apply(plan, self.link.as_mut(), at)?;
        self.wake = None;
        Ok(())
    }

    /// The start routine of the driver: takes packets from the link while there is room.
    pub fn start(&mut self, at: Instant, out: &mut impl Outcome) {
        while self.link.backlog() > 0 && self.has_room() {
            out.asked();
            let answer = self.link.poll(at);
            out.settle(self.link.as_mut());
            match answer {
                Poll::Packet(departure) => self.take(at, departure, out),
                Poll::At(instant) => {
                    self.wake = Some(self.on_tick(instant));
                    return;
                }
                Poll::Idle => break,
            }
            if let Model::En { drain: false, .. } = self.model {
                return;
            }
        }
        if self.link.backlog() == 0 {
            self.wake = None;
            if self.has_room() {
                // It polls once more, and finds nothing.
                out.asked();
            }
        }
    }

    fn has_room(&self) -> bool {
        match self.model {
            Model::Line => true,
            Model::En { software, .. } => self.software_bytes <= software.get(),
            Model::Fxp { ring, .. } => self.ring_taken < ring,
        }
    }

    fn take(&mut self, at: Instant, departure: Departure, out: &mut impl Outcome) {
        out.handed_out(&departure);
        self.ring_taken += 1;
        self.software_bytes += departure.charged.get();
        self.software.push_back(departure);
        self.fill_card(at, out);
    }

    /// Moves packets from the list to the card while they fit; into an empty card any packet does.
    fn fill_card(&mut self, at: Instant, out: &mut impl Outcome) {
        let room = match self.model {
            Model::En { hardware, .. } => hardware.get(),
            _ => u64::MAX,
        };
        while let Some(first) = self.software.front() {
            let length = first.charged.get();
            if !self.card.is_empty() && self.card_bytes.saturating_add(length) > room {
                return;
            }
            out.left_software(at, first);
            self.card.push_back((first.finished, length));
            self.card_bytes += length;
            self.software_bytes -= length;
            self.software.pop_front();
        }
    }

    /// The first tick that is not before `instant`.
    fn on_tick(&self, instant: Instant) -> Instant {
        let Some(tick) = self.tick.map(Duration::as_nanos).filter(|&tick| tick > 0) else {
            return instant;
        };
        let ticks = instant.as_nanos().div_ceil(tick);
        ticks.checked_mul(tick).map_or(Instant::MAX, Instant::from_nanos)
    }
}

/// The plan of a link whose pace the driver sets.
pub fn driven(plan: &LinkPlan, model: Model) -> LinkPlan {
    match model {
        Model::Line => plan.clone(),
        _ => LinkPlan { buffer: Bytes::new(u64::MAX), ..plan.clone() },
    }
}
