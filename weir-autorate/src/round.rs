//! A round trip on one side of Weir: a frame that leaves, and the first one that answers it.
//!
//! A few probes of a flow are under way at a time, which gives a few samples each round trip.

use crate::baseline::Baseline;
use crate::frame::{Segment, TcpSegment};
use crate::saved::saved;
use weir_core::units::{Duration, Instant};

/// The round trips of a flow behind one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    probes: [Probe; PROBES],
    /// The place of the latest one.
    latest: u8,
    /// The probes that have left and are not answered, as bits.
    left: u16,
    /// The least round trip, in nanoseconds.
    pub base: Baseline,
    /// When the first sample came.
    pub first: Instant,
    /// Samples, up to 255.
    pub count: u8,
    /// How long the latest probe that left had waited in the link's own queue.
    waited: Duration,
}

saved!(Round { probes, latest, left, base, first, count, waited });

/// A frame that leaves, and what answers it.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    state: u8,
    /// Which answers count, as bits.
    asks: u8,
    spin: bool,
    /// The acknowledgement that answers.
    ack: u32,
    /// The echo that answers.
    echo: u32,
    /// When the frame left; when it arrived, until it has left.
    at: Instant,
}

saved!(Probe { state, asks, spin, ack, echo, at });

/// The last frames of a flow in the way of its probes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub is_started: bool,
    /// The end of the highest sequence number.
    pub top: u32,
    /// The last timestamp.
    pub stamp: u32,
    pub has_stamp: bool,
    pub spin: bool,
    pub has_spin: bool,
    /// When the last frame arrived.
    pub at: Instant,
}

saved!(Seen { is_started, top, stamp, has_stamp, spin, has_spin, at });

impl Round {
    /// Begins a probe with a frame that arrived at `at`, if the last one is old enough and an
    /// answer would tell; returns its place if it did. `seen` is what came before in its way.
    #[inline]
    pub fn begin(&mut self, at: Instant, segment: &Segment, seen: &Seen) -> Option<usize> {
        let age = at.since(self.probes[usize::from(self.latest)].at);
        // Most frames are told by the first.
        if age < SPACING || age < self.spacing() {
            return None;
        }
        let is_free = |place: &usize| {
            let old = &self.probes[*place];
            old.state == IDLE || at.since(old.at) >= PROBE_MAX
        };
        let after = usize::from(self.latest) + 1;
        let place = (after..after + PROBES).map(|place| place % PROBES).find(is_free)?;
        let (asks, ack, echo, spin) = asked(segment, seen)?;
        self.probes[place] = Probe { state: ARRIVED, asks, spin, ack, echo, at };
        self.left &= !(1 << place);
        self.latest = place as u8;
        Some(place)
    }

    /// Notes that the frame of the probe at this place left at `at`. Frames of a flow leave in
    /// their order, so those that arrived before it and have not left never will: they were
    /// dropped.
    pub fn leave(&mut self, at: Instant, place: usize) {
        let arrived = self.probes[place].at;
        if self.probes[place].state != ARRIVED {
            return;
        }
        for probe in &mut self.probes {
            if probe.state == ARRIVED && probe.at < arrived {
                probe.state = IDLE;
            }
        }
        self.waited = at.since(arrived);
        (self.probes[place].state, self.probes[place].at) = (LEFT, at);
        self.left |= 1 << place;
    }

    /// Forgets the probes that are under way.
    pub fn abandon(&mut self) {
        self.probes.iter_mut().for_each(|probe| probe.state = IDLE);
        self.left = 0;
    }

    /// Returns the least time between two probes: those under way are spread over the time that one
    /// takes, its wait in the link's own queue included, so that answers come all the time.
    fn spacing(&self) -> Duration {
        let base = self.base.value().unwrap_or_default().max(0) as u64;
        let takes = self.waited.as_nanos().saturating_add(base).min(TRIP_MAX.as_nanos());
        SPACING.max(Duration::from_nanos(takes / (PROBES as u64 - 1)))
    }

    /// Notes that `segment` was sent again: its acknowledgement may be that of either [Karn's rule,
    /// rfc6298 §3].
    #[inline]
    pub fn spoil(&mut self, segment: &TcpSegment) {
        let end = segment.seq.wrapping_add(segment.payload);
        for probe in &mut self.probes {
            if probe.asks & ASKS_ACK != 0 && !is_after(end, probe.ack) {
                probe.asks |= SPOILED;
            }
        }
    }

    /// Returns the round trip of the latest probe that a frame which arrived at `at` answers. `gap`
    /// is the time since the frame before it ([`Seen::gap_before`]).
    #[inline]
    pub fn answer(&mut self, at: Instant, segment: &Segment, gap: Duration) -> Option<Duration> {
        let mut least: Option<Duration> = None;
        let mut left = self.left;
        while left != 0 {
            let place = left.trailing_zeros() as usize % PROBES;
            left &= left - 1;
            let probe = &mut self.probes[place];
            let trip = at.since(probe.at);
            if let Some(counts) = probe.is_answered(segment, trip, gap) {
                probe.state = IDLE;
                self.left &= !(1 << place);
                let counts = counts && trip < TRIP_MAX;
                least = if counts { Some(least.map_or(trip, |l| l.min(trip))) } else { least };
            }
        }
        least
    }

    /// Notes that what was sent before is missing at the other end: acknowledgements stand still
    /// until it has come, whatever stands in the modem.
    #[inline]
    pub fn stand_still(&mut self) {
        self.probes.iter_mut().for_each(|probe| probe.asks |= SPOILED);
    }

    /// Returns when the two oldest probes left that an acknowledgement must answer.
    pub fn awaited(&self) -> [Option<Instant>; 2] {
        if self.left == 0 {
            return [None; 2];
        }
        let asked =
            |probe: &&Probe| probe.state == LEFT && probe.asks & (ASKS_ACK | SPOILED) == ASKS_ACK;
        self.probes.iter().filter(asked).fold([None; 2], |oldest, probe| match oldest {
            [None, _] => [Some(probe.at), None],
            [Some(first), _] if probe.at < first => [Some(probe.at), Some(first)],
            [first, second] => {
                [first, Some(second.map_or(probe.at, |at: Instant| at.min(probe.at)))]
            }
        })
    }

    /// Adds a sample to the least round trip; returns by how much it exceeds that.
    pub fn add(&mut self, at: Instant, trip: Duration) -> u64 {
        if self.count == 0 {
            self.first = at;
        }
        self.count = self.count.saturating_add(1);
        self.base.add(at, trip.as_nanos() as i64)
    }
}

impl Probe {
    /// Returns whether a segment answers it, and if so whether the time that it took counts.
    #[inline]
    fn is_answered(&self, segment: &Segment, trip: Duration, gap: Duration) -> Option<bool> {
        // An answer that carries data may have waited for a program. One that came long after the
        // frame before it probably did.
        let is_prompt = gap.as_nanos() <= trip.as_nanos() / 2;
        match segment {
            Segment::Tcp(tcp) => {
                let by_ack = self.asks & ASKS_ACK != 0
                    && tcp.ack.is_some_and(|ack| !is_after(self.ack, ack));
                let by_echo = self.asks & ASKS_ECHO != 0
                    && tcp.stamp.is_some_and(|stamp| !is_after(self.echo, stamp.echo));
                let is_echo = by_echo && tcp.stamp.is_some_and(|stamp| stamp.echo == self.echo);
                let acks = by_ack && self.asks & SPOILED == 0;
                (by_ack || by_echo).then_some(acks || is_echo && is_prompt)
            }
            Segment::Quic(bit) => {
                (self.asks & ASKS_SPIN != 0 && *bit == self.spin).then_some(is_prompt)
            }
            Segment::Other => None,
        }
    }
}

impl Seen {
    /// Returns the time from the frame before to one that arrived at `at`. What is sent again may
    /// have waited for a timer of its sender, as if there had been no frame before.
    #[inline]
    pub fn gap_before(&self, at: Instant, segment: &Segment) -> Duration {
        match segment {
            Segment::Tcp(tcp) if self.is_again(tcp) => Duration::from_nanos(u64::MAX),
            _ => at.since(self.at),
        }
    }

    /// Returns whether a segment was sent before. [rfc9293 §3.8.4] A probe of a silent peer
    /// repeats one byte and is no retransmission.
    fn is_again(&self, tcp: &TcpSegment) -> bool {
        let end = tcp.seq.wrapping_add(tcp.payload);
        self.is_started && !tcp.is_reset && tcp.payload > 1 && !is_after(end, self.top)
    }

    /// Notes a frame that arrived at `at`; returns the bytes that it leaves out before it, and
    /// whether it was sent again.
    #[inline]
    pub fn note(&mut self, at: Instant, segment: &Segment) -> (u32, bool) {
        self.at = at;
        match segment {
            Segment::Tcp(tcp) => {
                if let Some(stamp) = tcp.stamp {
                    (self.stamp, self.has_stamp) = (stamp.value, true);
                }
                self.advance(tcp)
            }
            Segment::Quic(bit) => {
                (self.spin, self.has_spin) = (*bit, true);
                (0, false)
            }
            Segment::Other => (0, false),
        }
    }

    fn advance(&mut self, tcp: &TcpSegment) -> (u32, bool) {
        let end = tcp.seq.wrapping_add(tcp.payload);
        if !self.is_started || tcp.is_reset {
            (self.is_started, self.top) = (true, end);
            return (0, false);
        }
        if tcp.payload == 0 {
            return (0, false);
        }
        if !is_after(end, self.top) {
            return (0, self.is_again(tcp));
        }
        let hole = tcp.seq.wrapping_sub(self.top);
        self.top = end;
        (if hole < HOLE_MAX { hole } else { 0 }, false)
    }
}

/// Returns which answers to a segment tell: acknowledgement, echo and spin bit; `None` if none do.
fn asked(segment: &Segment, seen: &Seen) -> Option<(u8, u32, u32, bool)> {
    let tcp = match segment {
        Segment::Tcp(tcp) => tcp,
        Segment::Quic(bit) if seen.has_spin && seen.spin != *bit => {
            return Some((ASKS_SPIN, 0, 0, *bit));
        }
        _ => return None,
    };
    let (mut asks, mut ack, mut echo) = (0, 0, 0);
    let end = tcp.seq.wrapping_add(tcp.payload);
    if tcp.payload > 0 && (!seen.is_started || is_after(end, seen.top)) {
        (asks, ack) = (asks | ASKS_ACK, end);
    }
    // Of frames with one timestamp only the first is told by its echo.
    if let Some(stamp) = tcp.stamp.filter(|stamp| is_new(stamp.value, seen)) {
        (asks, echo) = (asks | ASKS_ECHO, stamp.value);
    }
    (asks != 0).then_some((asks, ack, echo, false))
}

/// Returns whether a sequence number is later than another.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).wrapping_sub(1) < u32::MAX / 2
}

fn is_new(value: u32, seen: &Seen) -> bool {
    !seen.has_stamp || is_after(value, seen.stamp)
}

const IDLE: u8 = 0;
const ARRIVED: u8 = 1;
const LEFT: u8 = 2;
const ASKS_ACK: u8 = 1;
const ASKS_ECHO: u8 = 2;
const ASKS_SPIN: u8 = 4;
const SPOILED: u8 = 8;
/// Bound: probes of a flow that are under way; no further one begins.
pub(crate) const PROBES: usize = 16;
/// The time between two probes of a flow that waits nowhere.
const SPACING: Duration = Duration::from_millis(10);
/// Another probe may take the place of one that was not answered for so long.
const PROBE_MAX: Duration = Duration::from_secs(3);
/// A longer round trip is no measurement.
const TRIP_MAX: Duration = Duration::from_secs(10);
/// Bound: bytes of a hole that can be a loss; more is a forged number.
const HOLE_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Stamp;

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO.after(Duration::from_millis(milliseconds))
    }

    /// A segment of 1000 bytes, or an acknowledgement, with a timestamp.
    fn segment(seq: u32, payload: u32, ack: u32) -> Segment {
        let stamp = Some(Stamp { value: seq, echo: ack });
        Segment::Tcp(TcpSegment { seq, payload, ack: Some(ack), stamp, is_reset: false })
    }

    #[test]
    fn frames_that_were_dropped_in_the_link_do_not_end_the_probes() {
        let (mut round, mut seen) = (Round::default(), Seen::default());
        let mut begun = 0;
        // Of each ten frames one leaves.
        for number in 1..=10 * PROBES as u32 {
            let arrives = at(u64::from(number) * 20);
            let data = segment(number * 1000, 1000, 0);
            let place = round.begin(arrives, &data, &seen);
            seen.note(arrives, &data);
            begun += u32::from(place.is_some());
            if let Some(place) = place.filter(|_| number % 10 == 0) {
                round.leave(arrives.after(Duration::from_millis(5)), place);
                let answer = segment(0, 0, (number + 1) * 1000);
                let trip = round.answer(arrives.after(Duration::from_millis(45)), &answer, SPACING);
                assert_eq!(trip, Some(Duration::from_millis(40)), "{number}");
            }
        }
        assert_eq!(begun, 10 * PROBES as u32);
    }

    #[test]
    fn an_answer_that_is_sent_again_tells_nothing() {
        let (mut round, mut seen) = (Round::default(), Seen::default());
        let data = |seq, echo| {
            let stamp = Some(Stamp { value: 1, echo });
            Segment::Tcp(TcpSegment { seq, payload: 1000, ack: Some(1), stamp, is_reset: false })
        };
        let mut number = 0;
        let mut trip_of = |answer: &Segment| {
            number += 1;
            let asks = segment(number, 0, 1);
            let place = round.begin(at(u64::from(number) * 100), &asks, &Seen::default())?;
            round.leave(at(u64::from(number) * 100), place);
            let arrives = at(u64::from(number) * 100 + 40);
            seen.note(at(u64::from(number) * 100 + 30), &data(1000 * number, number - 1));
            let gap = seen.gap_before(arrives, answer);
            round.answer(arrives, answer, gap)
        };
        assert_eq!(trip_of(&data(2000, 1)), Some(Duration::from_millis(40)), "it is new");
        assert_eq!(trip_of(&data(1000, 2)), None, "it is sent again");
        assert_eq!(trip_of(&data(4000, 3)), Some(Duration::from_millis(40)), "it is new");
    }
}
