//! The next packets of each source, generated several at a time in a loop of their own, so that a
//! source's state stays in the cache, and in the form in which the link is offered them.
//!
//! Invariant: packets come out as the source would send them one by one, and at the end of time
//! nothing is sent. A generated packet counts as sent; [`Feeds::left`] returns those that are not
//! sent yet.

use crate::meter::{SENT, SourceMeter, add};
use crate::packets::{Flight, Packets};
use crate::run::{Lane, Runner};
use crate::source::Sending;
use std::iter::repeat_n;
use weir_core::account::Count;
use weir_core::ids::Handle;
use weir_core::link::{Arrival, Packet};
use weir_core::units::Instant;

/// The packets made ahead, of every source.
#[derive(Debug)]
pub(crate) struct Feeds {
    /// An equal number of places for each source. The content of a place always belongs to its
    /// source; only the instant and the parts that follow from the length change.
    packets: Vec<Arrival>,
    nexts: Vec<Next>,
    each: usize,
}

/// The generated packets of a source.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// When the packet behind the next one is sent. The order of sources depends on it, so it is
    /// read early.
    behind: Instant,
    /// The place of the next packet.
    place: u32,
    /// The end of those that are made.
    end: u32,
}

/// The sources whose packets are made, and where they count.
pub(crate) struct Supply<'a> {
    /// The sources that run.
    pub runners: &'a mut [Runner],
    /// The measurements of each.
    pub meters: &'a mut [SourceMeter],
    /// Where the packets of each go.
    pub lanes: &'a [Lane],
    /// Where packets have their slots; `None` where the handle of a packet is the packet.
    pub slots: Option<&'a mut Packets>,
    /// Whether the report has begun.
    pub counting: bool,
}

impl Feeds {
    /// Generates the first packets of all sources of `supply`.
    pub fn new(supply: &mut Supply<'_>) -> Self {
        let sources = supply.runners.len();
        let each = (PACKETS_MAX / sources.max(1)).clamp(EACH_MIN, EACH_MAX);
        let none = |lane: &Lane| lane.arrival(Instant::MAX, Handle(0), 0);
        let packets = supply.lanes.iter().flat_map(|lane| repeat_n(none(lane), each)).collect();
        let next = Next { behind: Instant::MAX, place: 0, end: 0 };
        let mut feeds = Self { packets, nexts: vec![next; sources], each };
        for source in 0..sources {
            feeds.fill(source, 0, supply);
        }
        feeds
    }

    /// Moves the next packet of `source`, which has one, to `out`; returns when the one after it is
    /// sent, the end of time if there is none.
    #[inline(always)]
    pub fn take(&mut self, source: usize, out: &mut Arrival, supply: &mut Supply<'_>) -> Instant {
        let next = &mut self.nexts[source];
        let (place, behind) = (next.place, next.behind);
        *out = self.packets[place as usize];
        let second = place + 2;
        if second < next.end {
            next.place = place + 1;
            next.behind = self.packets[second as usize].at;
        } else {
            self.refill(source, supply);
        }
        behind
    }

    /// Returns the packets of each source that were generated and are not sent.
    pub fn left(&self) -> impl Iterator<Item = Count> {
        self.nexts.iter().map(|next| {
            let left = &self.packets[next.place as usize..next.end as usize];
            let mut count = Count::default();
            let sent = left.iter().filter(|packet| packet.at < Instant::MAX);
            sent.for_each(|arrival| add(&mut count, arrival.packet.length));
            count
        })
    }

    /// Leads what is made to other lanes.
    pub fn lead(&mut self, lanes: &[Lane]) {
        for (packets, lane) in self.packets.chunks_mut(self.each).zip(lanes) {
            for arrival in packets {
                let Packet { handle, length, .. } = arrival.packet;
                *arrival = lane.arrival(arrival.at, handle, length);
            }
        }
    }

    /// The first of the two packets of a source that are left is taken: the other becomes first
    /// of new ones.
    #[inline(never)]
    fn refill(&mut self, source: usize, supply: &mut Supply<'_>) {
        let last = self.nexts[source].end as usize - 1;
        self.packets[source * self.each] = self.packets[last];
        self.fill(source, 1, supply);
    }

    /// Makes packets of a source behind those that it has; one at the end of time stands for all
    /// that it does not send.
    fn fill(&mut self, source: usize, has: usize, supply: &mut Supply<'_>) {
        let first = source * self.each;
        let places = &mut self.packets[first..first + self.each];
        let new = &mut places[has..];
        let lane = &supply.lanes[source];
        let number = source as u32;
        let made = match (&mut supply.runners[source], &mut supply.slots) {
            (Runner::Open(open), None) => open.send_some(new, |place, sending| {
                let Sending { at, length, .. } = sending;
                place.at = at;
                // Most often what was in its place had the same length, and so is the same.
                if place.packet.length != length {
                    let flight = Flight { source: number, length, connection: 0 };
                    *place = lane.arrival(at, flight.pack(), length);
                }
            }),
            (Runner::Open(open), Some(slots)) => open.send_some(new, |place, sending| {
                let Sending { at, length, datagram } = sending;
                let flight = Flight { source: number, length, connection: datagram };
                *place = lane.arrival(at, slots.insert(flight), length);
            }),
            (Runner::Tcp(_) | Runner::Quic(_), _) => Count::default(),
        };
        // At the end of time: never.
        new[made.packets as usize..].iter_mut().for_each(|none| none.at = Instant::MAX);
        let meter = &mut supply.meters[source];
        meter.total[SENT] += made.packets;
        if supply.counting {
            meter.sent = meter.sent.plus(made);
        }
        let (behind, end) = (places[1].at, (first + self.each) as u32);
        self.nexts[source] = Next { behind, place: first as u32, end };
    }
}

/// The packets of a source that are generated at once; fewer where all of them together would
/// exceed the first-level cache.
const EACH_MAX: usize = 32;
const EACH_MIN: usize = 8;
const PACKETS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use crate::random::Random;
    use crate::scenario::{Period, Sizes, Spacing};
    use crate::source::{OpenLoop, Rhythm};
    use weir_core::ids::LeafId;
    use weir_core::units::{Duration, Rate, Share};

    fn share(percent: u64) -> Share {
        Share::from_ppb(percent * 10_000_000).expect("a part")
    }

    /// A source that stops after two milliseconds or never.
    fn source(rhythm: u32, sizes: &Sizes, ends: bool) -> OpenLoop {
        let rate = Rate::new(77_777_777).expect("not zero");
        let spacing = Spacing::rate(rate);
        let mean = Duration::from_micros(40);
        let start = Instant::from_nanos(1234);
        let rhythm = match rhythm {
            0 => Rhythm::Even { spacing, jitter: Share::default() },
            1 => Rhythm::Even { spacing, jitter: share(50) },
            2 => Rhythm::Exponential { mean },
            _ => Rhythm::OnOff {
                spacing,
                on: Period::Exponential(mean),
                off: Period::Constant(mean),
                until: start,
            },
        };
        let stop = if ends { start.after(Duration::from_millis(2)) } else { Instant::MAX };
        OpenLoop::new(
            Random::stream(5, "feeds"),
            sizes.clone(),
            rhythm,
            Interval { start, end: stop },
        )
    }

    /// Where nothing is classified.
    const LANE: Lane = Lane::to(LeafId(3));

    #[test]
    fn packets_made_ahead_are_those_sent_one_by_one() {
        let one = Sizes::fixed(500).expect("a frame");
        let two = Sizes::mixed(&[(64, share(30)), (1500, share(70))]).expect("a whole");
        for case in 0..32 {
            let sizes = if case % 2 > 0 { &one } else { &two };
            let make = || source(case / 4 % 4, sizes, case & 2 > 0);
            let (mut plain, mut runners) = (make(), vec![Runner::Open(make())]);
            let mut meters = vec![SourceMeter::default()];
            let mut packets = Packets::default();
            let supply = &mut Supply {
                runners: &mut runners,
                meters: &mut meters,
                lanes: &[LANE],
                slots: (case < 16).then_some(&mut packets),
                counting: true,
            };
            let mut feeds = Feeds::new(supply);
            let mut sent = Count::default();
            for number in 0..3 * EACH_MAX {
                let Some(at) = plain.next_at() else { break };
                let (connection, length) = (plain.datagram(), plain.send());
                let flight = Flight { source: 0, length, connection };
                add(&mut sent, length);
                let next = plain.next_at().unwrap_or(Instant::MAX);
                let mut taken = LANE.arrival(Instant::MAX, Handle(0), 0);
                assert_eq!(feeds.take(0, &mut taken, supply), next, "case {case}, {number}");
                let handle = taken.packet.handle;
                let slot = supply.slots.as_ref().map_or(flight, |slots| slots.get(handle));
                let handle = if supply.slots.is_some() { handle } else { flight.pack() };
                assert_eq!((taken, slot), (LANE.arrival(at, handle, length), flight));
                let left = feeds.left().next().expect("of the source");
                assert_eq!(supply.meters[0].sent, sent.plus(left));
                assert_eq!(supply.meters[0].total[SENT], sent.packets + left.packets);
            }
        }
    }
}
