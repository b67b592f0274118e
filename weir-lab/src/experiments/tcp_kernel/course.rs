//! The course of a bulk transfer, as a packet trace before and behind a link shows it.

use std::collections::BTreeSet;
use weir_bench::score::trace::{Segment, Sent};

/// The figures of a packet trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Segments that left the link, without those that left twice, in a second. Their payload says
    /// less: the kernel's have timestamps, which take 12 bytes.
    pub rate: f64,
    /// The part of all segments that was dropped, without the first flight with losses.
    pub lost: f64,
    /// The part of all segments that was sent again although an earlier copy was not dropped.
    pub in_vain: f64,
    /// Segments before the first that was dropped.
    pub until_loss: f64,
    /// Segments dropped in one flight: the mean over all but the first time.
    pub at_once: f64,
    /// The mean time from one flight with losses to the next, in s.
    pub period_s: f64,
    /// The least under way between two flights with losses as a part of what was under way when
    /// the first loss came: the median. Segments that come at once count with the last of them,
    /// since the kernel sends several at a time.
    pub kept: f64,
    /// The longest time in which no segment left the link, in ms.
    pub silence_ms: f64,
    /// Segments in the link over time in s, thinned.
    pub under_way: Vec<(f64, f64)>,
}

/// A flight in which segments were dropped.
struct Flight {
    began_ns: u64,
    dropped: u32,
    under_way: u32,
    least: u32,
}

/// Finds which segments left a link that keeps their order; what only the second trace has is left
/// out.
pub fn matched(offered: &[Segment], left: &[Segment]) -> Vec<Sent> {
    let known: BTreeSet<u32> = offered.iter().map(|segment| segment.sequence).collect();
    let mut left = left.iter().filter(|out| known.contains(&out.sequence)).peekable();
    let fate = |segment: &Segment| {
        let found = left.next_if(|out| out.sequence == segment.sequence);
        Sent { segment: *segment, left: found.map(|out| out.at_ns) }
    };
    offered.iter().map(fate).collect()
}

impl Course {
    /// Counts what a trace shows; segments are in the order in which the link took them up.
    ///
    /// # Errors
    /// When there are too few segments to say anything.
    pub fn of(sent: &[Sent]) -> Result<Self, String> {
        let ends = departures(sent);
        let (Some(first), Some(begin), Some(end)) = (sent.first(), ends.first(), ends.last())
        else {
            return Err("no segment left the link".to_owned());
        };
        let span_s = (end - begin).max(1) as f64 / 1e9;
        let mut walk = Walk::default();
        for (place, one) in sent.iter().enumerate() {
            let next = sent.get(place + 1).map_or(u64::MAX, |next| next.segment.at_ns);
            walk.step(first.segment, one, &ends, next);
        }
        let at_first = walk.flights.first().map_or(0, |flight| flight.dropped);
        let all = sent.len() as f64;
        let gaps = ends.windows(2).map(|pair| pair[1] - pair[0]);
        let mut course = Self {
            rate: walk.delivered.len() as f64 / span_s,
            lost: f64::from(walk.dropped - at_first) / all,
            in_vain: f64::from(walk.in_vain) / all,
            until_loss: f64::from(walk.until_loss.unwrap_or(walk.place)),
            period_s: span_s,
            silence_ms: gaps.max().unwrap_or(0) as f64 / 1e6,
            under_way: walk.under_way,
            ..Self::default()
        };
        course.count(&walk.flights);
        Ok(course)
    }

    /// Takes over what the flights with losses have in common.
    fn count(&mut self, flights: &[Flight]) {
        let [first, later @ .., last] = flights else { return };
        let later: Vec<&Flight> = later.iter().chain([last]).collect();
        let count = later.len() as f64;
        self.period_s = (last.began_ns - first.began_ns) as f64 / 1e9 / count;
        self.at_once = later.iter().map(|flight| f64::from(flight.dropped)).sum::<f64>() / count;
        let part = |flight: &Flight| f64::from(flight.least) / f64::from(flight.under_way.max(1));
        // The last one may not have come to its least yet.
        let mut parts: Vec<f64> = flights[..flights.len() - 1].iter().map(part).collect();
        parts.sort_by(f64::total_cmp);
        self.kept = parts.get(parts.len() / 2).copied().unwrap_or(0.0);
    }
}

/// A walk through a trace.
#[derive(Default)]
struct Walk {
    place: u32,
    /// The end of the newest segment, from the first.
    highest: u64,
    /// Segments that have left.
    gone: usize,
    dropped: u32,
    in_vain: u32,
    delivered: BTreeSet<u64>,
    flights: Vec<Flight>,
    /// A loss behind this sequence number is one of the next flight.
    recovered: u64,
    until_loss: Option<u32>,
    under_way: Vec<(f64, f64)>,
}

impl Walk {
    /// Takes the next segment; the one behind it comes at `next_ns`.
    fn step(&mut self, first: Segment, one: &Sent, ends: &[u64], next_ns: u64) {
        let Segment { at_ns, sequence, bytes } = one.segment;
        let sequence = unwrapped(first.sequence, sequence, self.highest);
        let is_new = sequence + u64::from(bytes) > self.highest;
        self.highest = self.highest.max(sequence + u64::from(bytes));
        self.gone += ends[self.gone..].iter().take_while(|end| **end <= at_ns).count();
        let under_way = (self.place - self.dropped).saturating_sub(self.gone as u32);
        let now_s = at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
        if self.under_way.last().is_none_or(|point| now_s - point.0 > STEP_S) {
            self.under_way.push((now_s, f64::from(under_way)));
        }
        self.in_vain += u32::from(!is_new && self.delivered.contains(&sequence));
        if one.left.is_none() {
            self.lose(sequence, one.segment, under_way);
        } else {
            self.delivered.insert(sequence);
            let is_last = next_ns.saturating_sub(at_ns) > AT_ONCE_NS;
            if let Some(flight) = self.flights.last_mut().filter(|_| is_last) {
                flight.least = flight.least.min(under_way);
            }
        }
        self.place += 1;
    }

    fn lose(&mut self, sequence: u64, segment: Segment, under_way: u32) {
        self.until_loss.get_or_insert(self.place);
        self.dropped += 1;
        match self.flights.last_mut() {
            Some(flight) if sequence < self.recovered => flight.dropped += 1,
            _ => {
                let (began_ns, least) = (segment.at_ns, under_way);
                self.flights.push(Flight { began_ns, dropped: 1, under_way, least });
                // All that may be under way by then: the sender learns of it a round trip later.
                self.recovered = self.highest + u64::from(under_way) * u64::from(segment.bytes);
            }
        }
    }
}

/// Returns when segments left, in order.
fn departures(sent: &[Sent]) -> Vec<u64> {
    let mut ends: Vec<u64> = sent.iter().filter_map(|one| one.left).collect();
    ends.sort_unstable();
    ends
}

/// Returns the distance of a sequence number from the first, which may be more than 32 bits hold.
fn unwrapped(base: u32, sequence: u32, near: u64) -> u64 {
    let low = u64::from(sequence.wrapping_sub(base));
    let turn = 1 << 32;
    let candidates = [0, 1].map(|further| (near / turn + further) * turn + low);
    let before = candidates[0].checked_sub(turn);
    let all = before.into_iter().chain(candidates);
    all.min_by_key(|candidate| candidate.abs_diff(near)).unwrap_or(low)
}

/// Segments that are closer come at once: less than a segment takes at 50 Mbit/s.
const AT_ONCE_NS: u64 = 200_000;
/// The distance between two points of a picture.
const STEP_S: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_ms: u64, number: u32, left_ms: Option<u64>) -> Sent {
        let segment = Segment { at_ns: at_ms * 1_000_000, sequence: number * 1000, bytes: 1000 };
        Sent { segment, left: left_ms.map(|at| at * 1_000_000) }
    }

    #[test]
    fn a_dropped_segment_is_one_that_does_not_leave() {
        let offered: Vec<Segment> =
            [0, 1, 2, 1, 3].map(|number| sent(0, number, None).segment).into();
        let left: Vec<Segment> = [9, 0, 2, 1, 3].map(|number| sent(9, number, None).segment).into();
        let fates = matched(&offered, &left);
        let fates: Vec<bool> = fates.iter().map(|one| one.left.is_some()).collect();
        assert_eq!(fates, [true, false, true, true, true]);
    }

    #[test]
    fn losses_of_one_flight_count_as_one_and_a_copy_too_many_as_in_vain() {
        // Four under way; 3 and 4 are lost, repaired, 2 comes once more; then 20 and 21 are lost.
        let mut trace = vec![
            sent(0, 0, Some(10)),
            sent(0, 1, Some(20)),
            sent(0, 2, Some(30)),
            sent(0, 3, None),
            sent(10, 4, None),
            sent(20, 5, Some(40)),
            sent(40, 3, Some(50)),
            sent(41, 4, Some(60)),
            sent(42, 2, Some(70)),
        ];
        trace.extend((6..20).map(|number| {
            let at = 70 + u64::from(number - 6) * 10;
            sent(at, number, Some(at + 10))
        }));
        trace.push(sent(210, 20, None));
        trace.push(sent(220, 21, Some(230)));
        let course = Course::of(&trace).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((course.until_loss, course.at_once), (3.0, 1.0), "{course:?}");
        assert!((course.lost - 1.0 / 25.0).abs() < 1e-9, "{course:?}");
        assert!((course.in_vain - 1.0 / 25.0).abs() < 1e-9, "{course:?}");
        assert!((course.period_s - 0.21).abs() < 1e-9, "{course:?}");
        assert_eq!(course.kept, 0.0, "the queue ran empty: {course:?}");
        assert_eq!(course.silence_ms, 20.0, "{course:?}");
        assert!((course.rate - 21.0 / 0.22).abs() < 1e-9, "21 in 220 ms: {course:?}");
    }

    #[test]
    fn sequence_numbers_begin_again_at_4_gb() {
        let base = 4_000_000_000;
        assert_eq!(unwrapped(base, base, 0), 0);
        assert_eq!(unwrapped(base, base.wrapping_add(500_000_000), 499_000_000), 500_000_000);
        let far = (1_u64 << 32) + 5;
        assert_eq!(unwrapped(base, base.wrapping_add(5), (1 << 32) - 10), far);
        assert_eq!(unwrapped(base, base.wrapping_sub(10), far), (1 << 32) - 10);
    }

    #[test]
    fn a_trace_without_segments_says_so() {
        assert!(Course::of(&[]).is_err());
        assert!(Course::of(&[sent(0, 0, None), sent(1, 1, None)]).is_err());
    }
}
