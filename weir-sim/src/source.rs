//! Open-loop sources: CBR, Poisson, on/off, and the scripts of models.
//!
//! Invariant: the instants of a source never go back, and a rate is exact over time, since
//! fractions of a nanosecond carry over from packet to packet.

use crate::interval::Interval;
use crate::random::Random;
use crate::scenario::{Period, Sizes, Spacing};
use crate::script::{Player, Step};
use weir_core::account::Count;
use weir_core::units::{Bytes, Duration, Instant, Share};

/// A packet that a source sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sending {
    /// The instant at which it is sent.
    pub at: Instant,
    /// The length of the frame.
    pub length: u32,
    /// Which datagram of the source it is a part of, if that matters.
    pub datagram: u32,
}

/// A source whose packets do not depend on the network.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    random: Random,
    sizes: Sizes,
    rhythm: Rhythm,
    /// When the next packet is sent.
    at: Instant,
    stop: Instant,
    /// Fraction of a nanosecond not yet waited, in parts of the rate.
    rest: u64,
    /// The last length and the distance after it: the same again needs no division.
    last: (u32, (Duration, u64, u64)),
}

/// How a source finds the distance to its next packet.
#[derive(Debug)]
pub(crate) enum Rhythm {
    Even {
        spacing: Spacing,
        jitter: Share,
    },
    Exponential {
        mean: Duration,
    },
    OnOff {
        spacing: Spacing,
        on: Period,
        off: Period,
        until: Instant,
    },
    /// A script, and the packet that it sends next.
    Scripted(Box<dyn Player>, Step),
}

impl OpenLoop {
    pub(crate) fn new(
        random: Random,
        sizes: Sizes,
        rhythm: Rhythm,
        Interval { start, end: stop }: Interval,
    ) -> Self {
        let mut source = Self {
            random,
            sizes,
            rhythm,
            at: start,
            stop,
            rest: 0,
            last: (0, (Duration::ZERO, 0, 1)),
        };
        source.begin();
        source
    }

    /// Poisson traffic has no packet at its start, on/off traffic begins with an on period.
    fn begin(&mut self) {
        match &mut self.rhythm {
            Rhythm::Even { .. } => {}
            Rhythm::Exponential { mean } => {
                self.at = self.at.after(self.random.exponential(*mean));
            }
            Rhythm::OnOff { on, until, .. } => *until = self.at.after(on.draw(&mut self.random)),
            Rhythm::Scripted(..) => self.play(),
        }
    }

    /// Advances to the next packet of a script; after the last there is no instant.
    fn play(&mut self) {
        let Rhythm::Scripted(player, next) = &mut self.rhythm else { return };
        self.at = match player.next(&mut self.random) {
            Some(step) => {
                *next = step;
                self.at.after(step.after)
            }
            None => Instant::MAX,
        };
    }

    /// Which datagram of the source the next packet is a part of, if that matters.
    #[inline]
    pub(crate) fn datagram(&self) -> u32 {
        match &self.rhythm {
            Rhythm::Scripted(_, step) => step.datagram,
            _ => 0,
        }
    }

    /// When the next packet is sent, if there is one.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Instant> {
        (self.at < self.stop).then_some(self.at)
    }

    /// The length of the packet sent now; moves on to the next.
    #[inline]
    pub(crate) fn send(&mut self) -> u32 {
        if let Rhythm::Scripted(_, step) = &self.rhythm {
            let length = step.length;
            self.play();
            return length;
        }
        let length = self.sizes.draw(|| self.random.bits());
        match self.rhythm {
            Rhythm::Even { spacing, jitter } => {
                let wait = self.wait(spacing, length);
                let wait = Jittered::new(wait, jitter);
                let drawn = jitter > Share::default();
                let nanos = if drawn { wait.draw(&mut self.random) } else { wait.least };
                self.at = self.at.after(Duration::from_nanos(nanos));
            }
            Rhythm::Exponential { mean } => {
                self.at = self.at.after(self.random.exponential(mean));
            }
            Rhythm::OnOff { spacing, .. } => {
                self.at = self.at.after(self.wait(spacing, length));
                self.pause();
            }
            Rhythm::Scripted(..) => unreachable!("a script has its own lengths"),
        }
        length
    }

    /// The next packets, as many as have room in `out` unless the source ends before, each put
    /// there by `put`; returns how many, and their bytes. The packets are those of single calls.
    #[inline]
    pub(crate) fn send_some<T>(
        &mut self,
        out: &mut [T],
        mut put: impl FnMut(&mut T, Sending),
    ) -> Count {
        if let (&Rhythm::Even { spacing, jitter }, Some(length)) = (&self.rhythm, self.sizes.only())
        {
            let put = |place: &mut T, at| put(place, Sending { at, length, datagram: 0 });
            let waits = Waits::new(spacing.after(length), jitter);
            let packets = if jitter == Share::default() {
                self.send_evenly(waits, out, put, |wait, _| wait.least)
            } else {
                self.send_evenly(waits, out, put, Jittered::draw)
            };
            return Count { packets, bytes: packets * u64::from(length) };
        }
        let mut count = Count::default();
        for place in out {
            let Some(at) = self.next_at() else { break };
            let datagram = self.datagram();
            let length = self.send();
            put(place, Sending { at, length, datagram });
            count.add(Bytes::new(u64::from(length)));
        }
        count
    }

    /// Generates packets of one length, with a random wait before each; returns how many.
    #[inline(always)]
    fn send_evenly<T>(
        &mut self,
        waits: Waits,
        out: &mut [T],
        mut put: impl FnMut(&mut T, Instant),
        draw: impl Fn(Jittered, &mut Random) -> u64,
    ) -> u64 {
        // Local copies, so that the loop does not wait for memory.
        let (mut random, mut at, mut rest) = (self.random.clone(), self.at, self.rest);
        let mut packets = 0;
        for place in out {
            if at >= self.stop {
                break;
            }
            put(place, at);
            packets += 1;
            rest += waits.part;
            let more = rest >= waits.whole;
            rest -= if more { waits.whole } else { 0 };
            let wait = if more { waits.longer } else { waits.shorter };
            at = at.after(Duration::from_nanos(draw(wait, &mut random)));
        }
        (self.random, self.at, self.rest) = (random, at, rest);
        packets
    }

    /// Returns the whole nanoseconds to wait; the fraction carries over to later packets.
    #[inline]
    fn wait(&mut self, spacing: Spacing, length: u32) -> Duration {
        if self.last.0 != length {
            self.last = (length, spacing.after(length));
        }
        let (wait, rest, whole) = self.last.1;
        self.rest += rest;
        if self.rest < whole {
            return wait;
        }
        self.rest -= whole;
        wait.plus(Duration::from_nanos(1))
    }

    /// Past the end of an on period, moves to the start of the next.
    fn pause(&mut self) {
        let Rhythm::OnOff { on, off, ref mut until, .. } = self.rhythm else { return };
        // Ends: a period is never shorter than PERIOD_MIN.
        while self.at >= *until && self.at < self.stop {
            let silence = off.draw(&mut self.random);
            self.at = self.at.max(until.after(silence));
            *until = until.after(silence).after(on.draw(&mut self.random));
        }
    }
}

/// The wait between packets at an even distance: one of two waits that differ by a nanosecond, so
/// that no time is lost.
#[derive(Clone, Copy)]
struct Waits {
    shorter: Jittered,
    longer: Jittered,
    /// The fraction that the shorter lacks, in parts of `whole`.
    part: u64,
    whole: u64,
}

/// A wait that is drawn evenly between two bounds.
#[derive(Clone, Copy)]
struct Jittered {
    least: u64,
    /// The number of possible waits.
    values: u64,
}

impl Jittered {
    /// Around `wait`, up to `jitter` of it shorter or longer.
    #[inline]
    fn new(wait: Duration, jitter: Share) -> Self {
        let (nanos, part, whole) =
            (wait.as_nanos(), u64::from(jitter.ppb()), u64::from(Share::WHOLE.ppb()));
        let reach = match nanos.checked_mul(part) {
            Some(product) => product / whole,
            // In two parts, since the product of the whole does not fit 64 bits.
            None => nanos / whole * part + nanos % whole * part / whole,
        };
        Self { least: nanos - reach, values: 2 * reach + 1 }
    }

    /// Nanoseconds; of no jitter there is nothing to draw.
    #[inline]
    fn draw(self, random: &mut Random) -> u64 {
        self.least + random.below(self.values)
    }
}

impl Waits {
    /// Returns the wait for a distance as [`Spacing::after`] returns it.
    fn new((wait, part, whole): (Duration, u64, u64), jitter: Share) -> Self {
        let longer = Jittered::new(wait.plus(Duration::from_nanos(1)), jitter);
        Self { shorter: Jittered::new(wait, jitter), longer, part, whole }
    }
}
