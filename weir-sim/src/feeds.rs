//! What sources send next, some packets ahead of each: made in a loop of its own, where a source's
//! state stays near.
//!
//! Invariant: packets come out as the source would send them one by one.

use crate::run::Runner;
use crate::source::Sending;
use weir_core::units::Instant;

/// The packets made ahead, of every source.
#[derive(Debug)]
pub(crate) struct Feeds {
    /// As many places a source.
    packets: Vec<Sending>,
    /// Of each source, the place of the next one and the end of those that are made.
    spans: Vec<(u32, u32)>,
    each: usize,
}

impl Feeds {
    /// Of so many sources; the first packets are made.
    pub fn new(runners: &mut [Runner]) -> Self {
        let each = (PACKETS_MAX / runners.len().max(1)).clamp(EACH_MIN, EACH_MAX);
        let packets = vec![Sending::default(); each * runners.len()];
        let mut feeds = Self { packets, spans: vec![(0, 0); runners.len()], each };
        for (source, runner) in runners.iter_mut().enumerate() {
            feeds.refill(source, runner);
        }
        feeds
    }

    /// When `source` sends its next packet, if it has one.
    pub fn next_at(&self, source: u32) -> Option<Instant> {
        let (next, end) = self.spans[source as usize];
        (next < end).then(|| self.packets[next as usize].at)
    }

    /// Takes the next packet of `source`, which has one; answers it and when the one after it is
    /// sent.
    #[inline]
    pub fn take(&mut self, source: u32, runners: &mut [Runner]) -> (Sending, Option<Instant>) {
        let (next, end) = self.spans[source as usize];
        let packet = self.packets[next as usize];
        if next + 1 < end {
            self.spans[source as usize].0 = next + 1;
            return (packet, Some(self.packets[next as usize + 1].at));
        }
        self.refill(source as usize, &mut runners[source as usize]);
        (packet, self.next_at(source))
    }

    fn refill(&mut self, source: usize, runner: &mut Runner) {
        let first = source * self.each;
        let made = match runner {
            Runner::Open(open) => open.send_some(&mut self.packets[first..first + self.each]),
            Runner::Tcp(_) => 0,
        };
        self.spans[source] = (first as u32, (first + made) as u32);
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
            let mut feeds = Feeds::new(&mut runners);
            for number in 0..3 * EACH_MAX {
                let at = plain.next_at();
                assert_eq!(feeds.next_at(0), at, "case {case}, packet {number}");
                let Some(at) = at else { break };
                let sending = Sending { at, datagram: plain.datagram(), length: plain.send() };
                assert_eq!(feeds.take(0, &mut runners), (sending, plain.next_at()));
            }
        }
    }
}
