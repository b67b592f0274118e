//! The run where nobody listens: what sources send does not depend on what becomes of it, so their
//! packets are known before the link has served earlier ones.
//!
//! Three steps in turn, each a loop of its own over some packets: sources send, the link serves
//! ([`crate::drive::Drive::serve`], one dynamic call), departures and drops are counted. Invariant:
//! the link sees the same calls at the same instants as when each packet is an event, so reports
//! are the same to the byte; whoever has to be told of packets one by one gets that plain run.

use super::{Event, Run};
use crate::feeds::Feeds;
use crate::packets::{Flight, PACKED_SOURCES_MAX};
use crate::scenario::{Source, Traffic};
use crate::senders::{SENDERS_END, SENDERS_MAX, Senders};
use crate::source::Sending;
use weir_core::link::{Arrival, Packet};
use weir_core::units::{Duration, Instant};

impl Run<'_> {
    /// Whether nothing asks for packets one by one.
    pub(super) fn can_run_ahead(&self) -> bool {
        let is_watched = self.state.watching.is_some() || self.state.explained.is_some();
        let listens = self.listening || is_watched || self.peaks.is_some();
        !listens && self.runners.len() <= SENDERS_MAX && self.end <= SENDERS_END
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
        let mut feeds = Feeds::new(&mut self.runners);
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
        }
        progress(self.scenario.duration);
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
        let mut sent = [(0, Sending::default()); AHEAD];
        loop {
            let count = self.take_first(until, senders, feeds, &mut sent);
            for &(source, sending) in &sent[..count] {
                self.arrive_ahead(source, sending);
            }
            self.serve_link();
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
        out: &mut [(u32, Sending)],
    ) -> usize {
        let mut count = 0;
        for place in out {
            let Some(source) = senders.first_before(until) else { break };
            let (sending, next) = feeds.take(source, &mut self.runners);
            senders.replace_first(source, next);
            *place = (source, sending);
            count += 1;
        }
        count
    }

    #[inline]
    fn arrive_ahead(&mut self, source: u32, sending: Sending) {
        let Sending { at, length, datagram } = sending;
        let flight = Flight { source, length, connection: datagram };
        let state = &mut self.state;
        let handle = if state.packed { flight.pack() } else { state.packets.insert(flight) };
        let leaf = state.offered(flight);
        let lane = &state.lanes[source as usize];
        let (traffic_class, meter) = (lane.traffic_class, lane.meter);
        let packet = Packet { handle, length, flow: source, traffic_class, meter };
        self.arrivals.push(Arrival { at, leaf, packet });
    }

    /// Lets the link serve the packets that arrived, and counts what leaves and what is dropped.
    fn serve_link(&mut self) {
        let state = &mut self.state;
        self.drive.serve(&self.arrivals, |departure| {
            state.count_departure(departure);
            state.release(departure.handle);
        });
        self.arrivals.clear();
        self.settle_drops();
    }
}

/// So many packets are sent before the link serves them: few enough to stay in the nearest cache.
const AHEAD: usize = 64;
