//! What sources send next, some packets ahead of each: made in a loop of its own, where a source's
//! state stays near.
//!
//! Invariant: packets come out as the source would send them one by one, and at the end of time
//! nothing is sent. What is made counts as sent; [`Feeds::left`] says of what that is not yet true.

use crate::meter::{SENT, SourceMeter, add};
use crate::run::Runner;
use crate::source::Sending;
use weir_core::account::Count;
use weir_core::units::Instant;

/// The packets made ahead, of every source.
#[derive(Debug)]
pub(crate) struct Feeds {
    /// As many places a source.
    packets: Vec<Sending>,
    nexts: Vec<Next>,
    each: usize,
}

/// What a source sends next.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// When the packet behind the next one is sent. Who sends before whom waits for this, so it is
    /// looked up early.
    behind: Instant,
    /// The place of the next packet.
    place: u32,
    /// The end of those that are made.
    end: u32,
}

/// Whose packets are made, and where they count.
pub(crate) struct Supply<'a> {
    /// The sources.
    pub runners: &'a mut [Runner],
    /// What is measured of each.
    pub meters: &'a mut [SourceMeter],
    /// Whether the report has begun.
    pub counting: bool,
}

impl Feeds {
    /// Of all sources of `supply`; the first packets are made.
    pub fn new(supply: &mut Supply<'_>) -> Self {
        let sources = supply.runners.len();
        let each = (PACKETS_MAX / sources.max(1)).clamp(EACH_MIN, EACH_MAX);
        let packets = vec![Sending::NONE; each * sources];
        let next = Next { behind: Instant::MAX, place: 0, end: 0 };
        let mut feeds = Self { packets, nexts: vec![next; sources], each };
        for source in 0..sources {
            feeds.fill(source, 0, supply);
        }
        feeds
    }

    /// Takes the next packet of `source`, which has one; answers it and when the one after it is
    /// sent, the end of time if there is none.
    #[inline]
    pub fn take(&mut self, source: usize, supply: &mut Supply<'_>) -> (Sending, Instant) {
        let next = &mut self.nexts[source];
        let (place, behind) = (next.place, next.behind);
        let packet = self.packets[place as usize];
        let second = place + 2;
        if second < next.end {
            next.place = place + 1;
            next.behind = self.packets[second as usize].at;
        } else {
            self.refill(source, supply);
        }
        (packet, behind)
    }

    /// What of each source was made and is not sent.
    pub fn left(&self) -> impl Iterator<Item = Count> {
        self.nexts.iter().map(|next| {
            let left = &self.packets[next.place as usize..next.end as usize];
            let mut count = Count::default();
            let sent = left.iter().filter(|packet| packet.at < Instant::MAX);
            sent.for_each(|packet| add(&mut count, packet.length));
            count
        })
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
        let made = match &mut supply.runners[source] {
            Runner::Open(open) => open.send_some(new),
            Runner::Tcp(_) => Count::default(),
        };
        new[made.packets as usize..].fill(Sending::NONE);
        let meter = &mut supply.meters[source];
        meter.total[SENT] += made.packets;
        if supply.counting {
            meter.sent = meter.sent.plus(made);
        }
        let (behind, end) = (places[1].at, (first + self.each) as u32);
        self.nexts[source] = Next { behind, place: first as u32, end };
    }
}

/// So many packets of a source are made at once, fewer where all of them together would not stay
/// in the nearest cache.
const EACH_MAX: usize = 32;
const EACH_MIN: usize = 8;
const PACKETS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::scenario::{Period, Sizes, Spacing};
    use crate::source::{OpenLoop, Rhythm};
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
        OpenLoop::new(Random::stream(5, "feeds"), sizes.clone(), rhythm, (start, stop))
    }

    #[test]
    fn packets_made_ahead_are_those_sent_one_by_one() {
        let one = Sizes::fixed(500).expect("a frame");
        let two = Sizes::mixed(&[(64, share(30)), (1500, share(70))]).expect("a whole");
        for case in 0..16 {
            let make = || source(case / 4, if case % 2 > 0 { &one } else { &two }, case & 2 > 0);
            let (mut plain, mut runners) = (make(), vec![Runner::Open(make())]);
            let mut meters = vec![SourceMeter::default()];
            let supply = &mut Supply { runners: &mut runners, meters: &mut meters, counting: true };
            let mut feeds = Feeds::new(supply);
            let mut sent = Count::default();
            for number in 0..3 * EACH_MAX {
                let Some(at) = plain.next_at() else { break };
                let sending = Sending { at, datagram: plain.datagram(), length: plain.send() };
                add(&mut sent, sending.length);
                let next = plain.next_at().unwrap_or(Instant::MAX);
                let taken = feeds.take(0, supply);
                assert_eq!(taken, (sending, next), "case {case}, packet {number}");
                let left = feeds.left().next().expect("of the source");
                assert_eq!(supply.meters[0].sent, sent.plus(left));
                assert_eq!(supply.meters[0].total[SENT], sent.packets + left.packets);
            }
        }
    }
}
