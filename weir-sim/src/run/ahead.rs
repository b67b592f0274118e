//! The run where nobody listens: what sources send does not depend on what becomes of it, so their
//! packets are known before the link has served earlier ones.
//!
//! Three steps in turn, each a loop of its own over some packets: sources send, the link serves
//! ([`crate::drive::Drive::serve`], one dynamic call), departures and drops are counted. Invariant:
//! the link sees the same calls at the same instants as when each packet is an event, so reports
//! are the same to the byte; whoever has to be told of packets one by one gets that plain run.

use super::{Event, Lane, Run, State};
use crate::feeds::{Feeds, Supply};
use crate::meter::SENT;
use crate::packets::{Flight, PACKED_SOURCES_MAX};
use crate::scenario::{Source, Traffic};
use crate::senders::{SENDERS_MAX, Senders};
use crate::source::Sending;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, Packet};
use weir_core::units::{Duration, Instant};

impl Run<'_> {
    /// Whether nothing asks for packets one by one.
    pub(super) fn can_run_ahead(&self) -> bool {
        let is_watched = self.state.watching.is_some() || self.state.explained.is_some();
        let listens = self.listening || is_watched || self.peaks.is_some();
        !listens && self.runners.len() <= SENDERS_MAX
    }

    /// Whether all packets are so plain that their handles can say all of them: lengths of sources
    /// that are no scripts are below 2^16.
    fn can_pack(&self) -> bool {
        let is_plain = |source: &Source| !matches!(source.traffic, Traffic::Scripted(_));
        self.runners.len() <= PACKED_SOURCES_MAX && self.scenario.sources.iter().all(is_plain)
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
            self.drive.advance(until, |departure| self.state.departed(&departure));
            if event.is_none() {
                break;
            }
            let (at, event) = self.events.pop().expect("an event is due");
            self.happen(at, event, progress);
            if event == Event::Count {
                // What was made before and is sent from now on.
                for (meter, left) in self.state.meters.iter_mut().zip(feeds.left()) {
                    meter.sent = left;
                }
            }
        }
        for (meter, left) in self.state.meters.iter_mut().zip(feeds.left()) {
            meter.total[SENT] -= left.packets;
            meter.sent.packets -= left.packets;
            meter.sent.bytes -= left.bytes;
        }
        progress(self.scenario.duration);
    }

    fn supply(&mut self) -> Supply<'_> {
        let State { meters, counting, .. } = &mut self.state;
        Supply { runners: &mut self.runners, meters, counting: *counting }
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
            let count = if self.state.packed {
                self.take_first::<true>(until, senders, feeds, &mut arrivals)
            } else {
                self.take_first::<false>(until, senders, feeds, &mut arrivals)
            };
            self.serve_link(&arrivals[..count]);
            if count < AHEAD {
                return;
            }
        }
    }

    /// The next packets before `until` of all sources, as many as have room in `out`; `PACKED`
    /// where the handle of a packet is the packet.
    // A loop of its own, so that nothing in it goes through memory.
    #[inline(never)]
    fn take_first<const PACKED: bool>(
        &mut self,
        until: Instant,
        senders: &mut Senders,
        feeds: &mut Feeds,
        out: &mut [Arrival; AHEAD],
    ) -> usize {
        let State { lanes, packets, meters, counting, .. } = &mut self.state;
        let lanes = lanes.as_slice();
        let supply = &mut Supply { runners: &mut self.runners, meters, counting: *counting };
        senders.take(until, out, |source, place| {
            let (sending, next) = feeds.take(source as usize, supply);
            let Sending { at, length, datagram } = sending;
            let flight = Flight { source, length, connection: datagram };
            let handle = if PACKED { flight.pack() } else { packets.insert(flight) };
            let Lane { leaf, packet, .. } = lanes[source as usize];
            *place = Arrival { at, leaf, packet: Packet { handle, length, ..packet } };
            next
        })
    }

    /// Lets the link serve the packets that arrived, and counts what leaves and what is dropped.
    fn serve_link(&mut self, arrivals: &[Arrival]) {
        let state = &mut self.state;
        let departures = self.drive.serve(arrivals);
        if state.packed {
            state.count_departures::<true>(departures);
        } else {
            state.count_departures::<false>(departures);
        }
        self.drive.take_dropped(&mut |dropped| self.state.dropped(&dropped));
    }
}

impl State<'_> {
    /// Counts departures of packets for which nobody listens, as [`State::departed`] would one by
    /// one.
    #[inline(never)]
    fn count_departures<const PACKED: bool>(&mut self, departures: &[Departure]) {
        // Copies, so that nothing of them goes through memory.
        let (mut line, counting, delay) = (self.link.line, self.counting, self.delay);
        let (begin, end) = self.window;
        let (handed, lanes) = (self.link.handed.as_mut_slice(), self.lanes.as_slice());
        let meters = self.meters.as_mut_slice();
        for departure in departures {
            line.departed(departure);
            if counting {
                handed[departure.leaf.index()].departed(departure);
            }
            let handle = departure.handle;
            let flight = if PACKED { Flight::unpack(handle) } else { self.packets.get(handle) };
            let source = flight.source as usize;
            let received_at = departure.finished.after(delay);
            let counts = received_at > begin && received_at <= end;
            meters[source].departed(flight, &lanes[source], (departure, received_at, counts));
            if !PACKED {
                self.packets.remove(handle);
            }
        }
        self.link.line = line;
    }
}

/// So many packets are sent before the link serves them: few enough to stay in the nearest cache.
const AHEAD: usize = 64;
