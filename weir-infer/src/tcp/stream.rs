//! One direction of a connection as a point sees it: which bytes are new, which come again, and
//! which are missing.
//!
//! Bytes have offsets, from 0 for the first byte of data (midstream: the first that was seen), so
//! sequence numbers that wrap are no trouble. Invariant: holes are disjoint, in order, and below
//! `next`.

use weir_core::units::{Duration, Instant};

/// The bytes of one direction.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The sequence number of offset 0.
    start: Option<u32>,
    /// The offset behind the highest byte that was seen or acknowledged.
    pub next: u64,
    holes: Vec<Hole>,
    /// When a new byte came last.
    pub last_new: Option<Instant>,
    /// When any data came last.
    pub last_any: Option<Instant>,
    /// The longest data of a segment.
    pub longest: u32,
    /// The data of the last segment with new bytes.
    pub latest: u32,
    /// Segments with data.
    pub segments: u64,
    /// The segments that came again or late.
    pub again: Repeats,
}

/// The segments of a stream that brought no new highest byte, by their probable cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repeats {
    /// The bytes had passed, and were lost behind the point, or the sender believed so.
    pub behind: u64,
    /// Of those, the ones that the receiver waited for: a sender that gives all up after a timeout
    /// sends much again that had only been late.
    pub awaited: u64,
    /// The bytes had not passed: they were lost before the point.
    pub before: u64,
    /// The bytes had not passed, and came so soon that they were only overtaken.
    pub overtaken: u64,
    /// The bytes had been acknowledged.
    pub needless: u64,
    /// Segments whose numbers are far from all others.
    pub implausible: u64,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u64,
    to: u64,
    since: Instant,
}

/// The progress that the data of a segment is for its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Bytes from the first offset up to the second are new.
    New(u64, u64),
    /// They were sent again up to this offset, after a loss.
    Again(u64),
    /// They came late or a second time without a loss, or a probe of one byte.
    Late,
}

impl Stream {
    /// The first byte of data has this sequence number.
    pub fn begin(&mut self, seq: u32) {
        if self.start.is_none() {
            self.start = Some(seq);
        }
    }

    /// Returns the offset of a number; none before the first byte, and none that is far away.
    pub fn offset(&self, seq: u32) -> Option<u64> {
        let near = self.start?.wrapping_add(self.next as u32);
        let distance = i64::from(seq.wrapping_sub(near) as i32);
        let offset = self.next.checked_add_signed(distance)?;
        (distance <= JUMP_MAX).then_some(offset)
    }

    /// Bytes up to `to` have passed elsewhere: they were acknowledged, and not seen.
    pub fn skip_to(&mut self, to: u64, at: Instant) {
        if to > self.next {
            self.next = to;
            self.last_new = Some(at);
        }
    }

    /// Takes the data of a segment, of which `acked` is acknowledged; `round_trip` is the shortest
    /// one that is known.
    pub fn advance(&mut self, seq: u32, length: u32, at: Instant, known: Known) -> Progress {
        self.begin(seq);
        let Some(from) = self.offset(seq) else {
            self.again.implausible += 1;
            return Progress::Late;
        };
        let to = from + u64::from(length);
        self.segments += 1;
        self.longest = self.longest.max(length);
        self.last_any = Some(at);
        if to > self.next {
            let new = from.max(self.next);
            if from > self.next && self.holes.len() < HOLES_MAX {
                self.holes.push(Hole { from: self.next, to: from, since: at });
            }
            self.next = to;
            self.latest = length;
            self.last_new = Some(at);
            return Progress::New(new, to);
        }
        // A keep-alive, or a probe of a closed window.
        if length <= 1 && to == self.next && known.acked >= from {
            return Progress::Late;
        }
        match self.fill(from, to) {
            Some(since) if at.since(since) < known.round_trip.min(OVERTAKEN_MAX) => {
                self.again.overtaken += 1;
                Progress::Late
            }
            Some(_) => {
                self.again.before += 1;
                Progress::Again(to)
            }
            None if to <= known.acked => {
                self.again.needless += 1;
                Progress::Late
            }
            None => {
                self.again.behind += 1;
                self.again.awaited += u64::from(from == known.acked);
                Progress::Again(to)
            }
        }
    }

    /// Takes bytes out of the holes; returns since when the first of these holes was there.
    fn fill(&mut self, from: u64, to: u64) -> Option<Instant> {
        let place = self.holes.iter().position(|hole| hole.from < to && from < hole.to)?;
        let hole = self.holes[place];
        let rest =
            [Hole { to: from.min(hole.to), ..hole }, Hole { from: to.max(hole.from), ..hole }];
        let rest = rest.into_iter().filter(|hole| hole.from < hole.to);
        self.holes.splice(place..=place, rest);
        Some(hole.since)
    }
}

/// The state of a connection when a segment comes.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The offset up to which bytes are acknowledged.
    pub acked: u64,
    /// The shortest round trip so far.
    pub round_trip: Duration,
}

/// Bound: missing parts of a stream that are remembered; what comes to fill others counts as lost
/// behind the point.
const HOLES_MAX: usize = 64;
/// No window is larger [rfc7323 §2.2], so a number further ahead is none of this connection.
const JUMP_MAX: i64 = 1 << 30;
/// Later than this a missing segment is one that was sent again.
const OVERTAKEN_MAX: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives segments (ms, number, bytes) to a stream from just below the wrap of numbers.
    fn check(acked: u64, segments: &[(u64, u32, u32)], data: &[Progress], again: Repeats) {
        let mut stream = Stream::default();
        let first = u32::MAX - 999;
        stream.begin(first);
        let known = Known { acked, round_trip: Duration::from_millis(8) };
        let found: Vec<Progress> = segments
            .iter()
            .map(|&(ms, seq, length)| {
                let at = Instant::from_nanos(ms * 1_000_000);
                stream.advance(first.wrapping_add(seq), length, at, known)
            })
            .collect();
        assert_eq!((&found[..], stream.again), (data, again));
    }

    #[test]
    fn what_comes_again_was_lost_before_or_behind_the_point_or_was_overtaken() {
        use Progress::{Again, Late, New};
        let none = Repeats::default();
        let steady = [(0, 0, 1000), (1, 1000, 1000)];
        check(0, &steady, &[New(0, 1000), New(1000, 2000)], none);
        let hole = |ms| [(0, 0, 1000), (1, 2000, 1000), (ms, 1000, 1000)];
        let before = Repeats { before: 1, ..none };
        check(0, &hole(50), &[New(0, 1000), New(2000, 3000), Again(2000)], before);
        let overtaken = Repeats { overtaken: 1, ..none };
        check(0, &hole(3), &[New(0, 1000), New(2000, 3000), Late], overtaken);
        let twice = [(0, 0, 1000), (40, 0, 1000)];
        check(0, &twice, &[New(0, 1000), Again(1000)], Repeats { behind: 1, awaited: 1, ..none });
        check(1000, &twice, &[New(0, 1000), Late], Repeats { needless: 1, ..none });
        // Half of it is new; a keep-alive; a number from nowhere.
        check(0, &[(0, 0, 1000), (9, 500, 1000)], &[New(0, 1000), New(1000, 1500)], none);
        check(1000, &[(0, 0, 1000), (9, 999, 1)], &[New(0, 1000), Late], none);
        let far = Repeats { implausible: 1, ..none };
        check(0, &[(0, 0, 1000), (9, 0x5000_0000, 1)], &[New(0, 1000), Late], far);
    }
}
