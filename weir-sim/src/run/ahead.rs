//! The run where no source reacts to the link: what sources send does not depend on what becomes of
//! it, so their packets are known before the link has served earlier ones.
//!
//! Three steps in turn, each a loop of its own over some packets: sources send, the link serves
//! ([`weir_trace::drive::Drive::serve`], one dynamic call), departures and drops are counted.
//! Invariant: the link sees the same calls at the same instants as when each packet is an event, so
//! reports are the same to the byte; a watch of single packets gets that plain run.

use super::{Event, Lane, Run, State};
use crate::feeds::{Feeds, Supply};
use crate::meter::{DROPPED, LEFT, SENT, add};
use crate::packets::{Flight, PACKED_LENGTH_MAX, PACKED_SOURCES_MAX};
use crate::scenario::{Source, Traffic};
use crate::senders::{SENDERS_MAX, Senders};
use weir_core::account::Count;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, Packet};
use weir_core::units::{Duration, Instant};

impl Run<'_> {
    /// Whether nothing asks for packets one by one.
    pub(super) fn can_run_ahead(&self) -> bool {
        let is_watched = self.state.watching.is_some() || self.state.explained.is_some();
        let is_behind = self.state.behind.is_some();
        let listens = self.listening || is_watched || is_behind || self.peaks.is_some();
        !listens && self.runners.len() <= SENDERS_MAX
    }

    /// Whether all packets are so plain that their handles can say all of them, and that what the
    /// application gets is what they hold behind their headers.
    fn can_pack(&self) -> bool {
        let lengths = |source: &Source| match &source.traffic {
            Traffic::Cbr { sizes, .. } | Traffic::Poisson { sizes, .. } => Some(sizes.range()),
            Traffic::OnOff { sizes, .. } => Some(sizes.range()),
            _ => None,
        };
        let lanes = self.scenario.sources.iter().zip(&self.state.lanes);
        let is_plain = |(source, lane): (&Source, &Lane)| {
            let (least, most) = lengths(source).unwrap_or_default();
            least >= lane.headers && most <= PACKED_LENGTH_MAX
        };
        self.runners.len() <= PACKED_SOURCES_MAX && lanes.into_iter().all(is_plain)
    }

    /// As [`Run::all`], which is the plain way to do the same.
    pub(super) fn all_ahead(&mut self, progress: &mut dyn FnMut(Duration)) {
        self.state.packed = self.can_pack();
        let mut feeds = Feeds::new(&mut self.supply());
        let mut senders = self.take_senders();
        loop {
            // Whatever else happens at an instant comes before what is sent then.
            let event = self.events.next_at().filter(|&at| at < self.end);
            let until = event.unwrap_or(self.end);
            self.send_before(until, (&mut senders, &mut feeds));
            self.advance(until);
            if event.is_none() {
                break;
            }
            let (at, event) = self.events.pop().expect("an event is due");
            self.happen(at, event, progress);
            match event {
                Event::Count => {
                    // What was made before and is sent from now on.
                    for (meter, left) in self.state.meters.iter_mut().zip(feeds.left()) {
                        meter.sent = left;
                    }
                }
                Event::Change(_) => feeds.lead(&self.state.lanes),
                _ => {}
            }
        }
        for (meter, left) in self.state.meters.iter_mut().zip(feeds.left()) {
            meter.total[SENT] -= left.packets;
            meter.sent.packets -= left.packets;
            meter.sent.bytes -= left.bytes;
        }
        if self.state.packed {
            for (meter, lane) in self.state.meters.iter_mut().zip(&self.state.lanes) {
                let Count { packets, bytes } = meter.received;
                meter.goodput = bytes - packets * u64::from(lane.headers);
            }
        }
        progress(self.scenario.duration);
    }

    fn supply(&mut self) -> Supply<'_> {
        let State { meters, counting, lanes, packets, packed, .. } = &mut self.state;
        let slots = (!*packed).then_some(packets);
        Supply { runners: &mut self.runners, meters, lanes, slots, counting: *counting }
    }

    /// Takes the first packets of all sources out of the events.
    fn take_senders(&mut self) -> Senders {
        let (mut sends, mut others) = (Vec::new(), Vec::new());
        while let Some((at, event)) = self.events.pop() {
            match event {
                Event::Send(source) => sends.push((at, source)),
                _ => others.push((at, event)),
            }
        }
        for (at, event) in others {
            self.events.push(at, event);
        }
        Senders::new(self.runners.len(), sends.into_iter())
    }

    /// Everything that is sent before `until`, and what leaves until the last of it arrives.
    fn send_before(&mut self, until: Instant, (senders, feeds): (&mut Senders, &mut Feeds)) {
        let nothing = Arrival { at: until, leaf: LeafId(0), packet: Packet::new(Handle(0), 0) };
        let mut arrivals = [nothing; AHEAD];
        loop {
            let count = self.take_first(until, senders, feeds, &mut arrivals);
            self.serve_link(&arrivals[..count]);
            if count < AHEAD {
                return;
            }
        }
    }

    /// The next packets before `until` of all sources, as many as have room in `out`.
    // A loop of its own, so that nothing in it goes through memory.
    #[inline(never)]
    fn take_first(
        &mut self,
        until: Instant,
        senders: &mut Senders,
        feeds: &mut Feeds,
        out: &mut [Arrival; AHEAD],
    ) -> usize {
        let supply = &mut self.supply();
        senders.take(until, out, |source, place| feeds.take(source as usize, place, supply))
    }

    /// Lets the link serve the packets that arrived, and counts what leaves and what is dropped.
    fn serve_link(&mut self, arrivals: &[Arrival]) {
        let state = &mut self.state;
        let Some(last) = arrivals.last() else { return };
        let departures = self.drive.serve(arrivals, last.at);
        if state.packed {
            state.count_departures::<true>(departures);
        } else {
            state.count_departures::<false>(departures);
        }
        if state.packed {
            self.drive.take_dropped(&mut |dropped| state.drop_packed(dropped.handle));
        } else {
            self.drive.take_dropped(&mut |dropped| state.dropped(&dropped));
        }
    }
}

impl State<'_> {
    /// Counts a drop as [`State::dropped`] does, of a packet that is its handle.
    #[inline(always)]
    fn drop_packed(&mut self, handle: Handle) {
        let Flight { source, length, .. } = Flight::unpack(handle);
        let meter = &mut self.meters[source as usize];
        meter.total[DROPPED] += 1;
        if self.counting {
            add(&mut meter.dropped, length);
        }
    }

    /// Counts departures of packets that no endpoint receives, as [`State::departed`] would one by
    /// one.
    fn count_departures<const PACKED: bool>(&mut self, departures: &[Departure]) {
        let (Some(first), Some(last)) = (departures.first(), departures.last()) else { return };
        // They are received in their order, so what is true of both ends is true of all.
        let counts = |departure: &Departure| self.counts(departure.finished.after(self.delay));
        if self.counting && counts(first) && counts(last) {
            self.count_some::<PACKED, true>(departures);
        } else {
            self.count_some::<PACKED, false>(departures);
        }
    }

    /// Counts departures; `ALL` where all of them count in the report.
    // A loop for each of the four cases, so that no packet tests the case again.
    #[inline(never)]
    fn count_some<const PACKED: bool, const ALL: bool>(&mut self, departures: &[Departure]) {
        // Copies, so that nothing of them goes through memory.
        let (mut line, delay) = (self.link.line, self.delay);
        for departure in departures {
            if ALL {
                line.departed_inside(departure);
            } else {
                line.departed(departure);
            }
            if ALL || self.counting {
                self.link.handed[departure.leaf.index()].departed(departure);
            }
            let handle = departure.handle;
            let flight = if PACKED { Flight::unpack(handle) } else { self.packets.get(handle) };
            let source = flight.source as usize;
            let received_at = departure.finished.after(delay);
            let counts = ALL || self.counts(received_at);
            let meter = &mut self.meters[source];
            meter.total[LEFT] += 1;
            if counts {
                meter.received(flight.length, received_at.since(departure.arrived));
                if !PACKED {
                    meter.goodput(flight, &self.lanes[source]);
                }
            }
            if !PACKED {
                self.packets.remove(handle);
            }
        }
        self.link.line = line;
    }
}

/// The packets that are sent before the link serves them: few enough to stay in the nearest cache.
const AHEAD: usize = 64;
