//! The results of a stream: datagrams that arrived, were lost or came twice.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The datagrams that were sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// When each number was sent.
    at_ns: Vec<u64>,
    /// When the kernel refused to send.
    refused_ns: Vec<u64>,
    /// From one turn of the sender to the next, at first.
    interval_ns: u64,
}

/// The datagrams that arrived.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// For each number the instant of its first arrival; [`ABSENT`] if it did not arrive.
    at_ns: Vec<u64>,
    /// Different numbers that arrived.
    pub count: u64,
    repeated: u64,
    reordered: u64,
    /// Datagrams for which the receiver had no room.
    pub overruns: u32,
}

/// The results of a stream: every datagram is known by its number, from 0.
pub struct Found {
    /// Datagrams that the sender's kernel took.
    pub sent: u64,
    /// Different ones that arrived.
    pub arrived: u64,
    /// Arrivals of one that had arrived before.
    pub repeated: u64,
    /// First arrivals of one after a later one.
    pub reordered: u64,
    /// How often the sender's kernel refused one, as while the interface was down.
    pub refused: u64,
    /// Datagrams without a number that were sent behind the last, of the same flow; the first that
    /// arrived ended the stream.
    pub marks: u64,
    sent_ns: Vec<u64>,
    refused_ns: Vec<u64>,
    interval_ns: u64,
    arrived_ns: Vec<u64>,
    overruns: u32,
}

/// A time without arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// From this instant of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// To this instant of the same clock.
    pub to_ns: u64,
    /// Its length without the longest pause of the sender.
    pub length_ns: u64,
}

impl Sent {
    pub fn every(interval_ns: u64) -> Self {
        Self { interval_ns, ..Self::default() }
    }

    pub fn note(&mut self, at_ns: u64) {
        self.at_ns.push(at_ns);
    }

    pub fn note_refused(&mut self, at_ns: u64) {
        self.refused_ns.push(at_ns);
    }

    /// Returns how many were sent, which is the next number.
    pub fn count(&self) -> u64 {
        self.at_ns.len() as u64
    }
}

impl Arrived {
    pub fn note(&mut self, number: u64, at_ns: u64) {
        let index = usize::try_from(number).expect("numbers are bounded");
        let is_behind = index < self.at_ns.len();
        if !is_behind {
            self.at_ns.resize(index + 1, ABSENT);
        }
        if self.at_ns[index] != ABSENT {
            self.repeated += 1;
            return;
        }
        self.at_ns[index] = at_ns;
        self.count += 1;
        self.reordered += u64::from(is_behind);
    }

    /// Returns one more than the highest number that arrived.
    pub fn beyond(&self) -> u64 {
        self.at_ns.len() as u64
    }
}

impl Found {
    pub(super) fn new(sent: Sent, arrived: Arrived, marks: u64) -> Self {
        assert!(arrived.beyond() <= sent.count(), "what arrived was sent: {arrived:?}");
        let count = sent.count();
        let mut arrived_ns = arrived.at_ns;
        arrived_ns.resize(sent.at_ns.len(), ABSENT);
        Self {
            sent: count,
            arrived: arrived.count,
            repeated: arrived.repeated,
            reordered: arrived.reordered,
            refused: sent.refused_ns.len() as u64,
            marks,
            sent_ns: sent.at_ns,
            refused_ns: sent.refused_ns,
            interval_ns: sent.interval_ns,
            arrived_ns,
            overruns: arrived.overruns,
        }
    }

    /// Returns how many did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent - self.arrived
    }

    /// Returns the numbers that did not arrive, as runs in order.
    pub fn missing(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (number, at_ns) in (0..).zip(&self.arrived_ns) {
            match runs.last_mut() {
                _ if *at_ns != ABSENT => {}
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        runs
    }

    /// Returns when each number was sent, in ns of CLOCK_MONOTONIC.
    pub fn sent_ns(&self) -> &[u64] {
        &self.sent_ns
    }

    /// Returns when a number first arrived, by the stamp of the receiver's kernel, in ns of
    /// CLOCK_MONOTONIC; nothing if it did not.
    pub fn arrived_ns(&self, number: u64) -> Option<u64> {
        let at_ns = self.arrived_ns.get(usize::try_from(number).ok()?)?;
        (*at_ns != ABSENT).then_some(*at_ns)
    }

    /// Returns the longest time without an arrival while it was sent.
    pub fn longest_gap(&self) -> Duration {
        let present = self.arrived_ns.iter().filter(|at_ns| **at_ns != ABSENT);
        let edges = [self.sent_ns.first(), self.sent_ns.last()].into_iter().flatten();
        let mut instants: Vec<u64> = present.chain(edges).copied().collect();
        instants.sort_unstable();
        let gaps = instants.windows(2).map(|pair| pair[1] - pair[0]);
        Duration::from_nanos(gaps.max().unwrap_or_default())
    }

    /// Returns the times of at least `least` without an arrival, behind the first one. The last of
    /// them ends when the sender last tried. Its pauses are no gaps of a link.
    pub fn gaps(&self, least: Duration) -> Vec<Gap> {
        let least_ns = least.as_nanos() as u64;
        let all = self.sent_ns.iter().copied().zip(self.arrived_ns.iter().copied());
        let arrivals = all.filter(|(_, at_ns)| *at_ns != ABSENT);
        let last = self.sent_ns.last().max(self.refused_ns.last()).map(|at_ns| (*at_ns, *at_ns));
        let next = arrivals.clone().skip(1).chain(last);
        let spans = arrivals.zip(next).filter(|((_, from), (_, to))| *to >= from + least_ns);
        let gaps = spans.map(|((sent_ns, from_ns), (next_ns, to_ns))| {
            let pause_ns = self.longest_pause(sent_ns, next_ns);
            Gap { from_ns, to_ns, length_ns: (to_ns - from_ns).saturating_sub(pause_ns) }
        });
        gaps.filter(|gap| gap.length_ns >= least_ns).collect()
    }

    /// Returns by how much the sender was late at most, from one turn to another.
    fn longest_pause(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = |all: &[u64]| {
            let [start, end] = [from_ns, to_ns + 1].map(|at| all.partition_point(|it| *it < at));
            all[start..end].to_vec()
        };
        let mut turns = [within(&self.sent_ns), within(&self.refused_ns)].concat();
        turns.sort_unstable();
        let longest = turns.windows(2).map(|pair| pair[1] - pair[0]).max();
        longest.unwrap_or_default().saturating_sub(self.interval_ns)
    }

    /// Returns how many the receiver had no room for.
    pub(super) fn overruns(&self) -> u32 {
        self.overruns
    }
}

/// The counts; there are too many instants to print.
impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing();
        f.debug_struct("Found")
            .field("sent", &self.sent)
            .field("arrived", &self.arrived)
            .field("repeated", &self.repeated)
            .field("reordered", &self.reordered)
            .field("refused", &self.refused)
            .field("marks", &self.marks)
            .field("longest_gap", &self.longest_gap())
            .field("runs_missing", &missing.len())
            .field("first_missing", &missing.get(..missing.len().min(PRINTED_MAX)))
            .finish_non_exhaustive()
    }
}

/// In place of an instant.
const ABSENT: u64 = u64::MAX;
/// The most runs of missing numbers that a message has.
const PRINTED_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Number n is sent at n ms; `arrivals` are numbers in order, each half a ms after it was sent.
    fn found(sent: u64, arrivals: &[u64]) -> Found {
        let mut all = Sent::default();
        (0..sent).for_each(|number| all.note(number * 1_000_000));
        let mut arrived = Arrived::default();
        arrivals.iter().for_each(|number| arrived.note(*number, number * 1_000_000 + 500_000));
        Found::new(all, arrived, 1)
    }

    #[test]
    fn each_number_is_counted_as_what_became_of_it() {
        // Sent, arrivals; arrived, repeated, reordered, and the runs that are missing.
        type Row<'a> = (u64, &'a [u64], (u64, u64, u64), &'a [(u64, u64)]);
        let rows: [Row<'_>; 6] = [
            (0, &[], (0, 0, 0), &[]),
            (3, &[0, 1, 2], (3, 0, 0), &[]),
            (3, &[], (0, 0, 0), &[(0, 3)]),
            (6, &[1, 2, 4], (3, 0, 0), &[(0, 1), (3, 4), (5, 6)]),
            (3, &[0, 2, 1, 2, 2], (3, 2, 1), &[]),
            (4, &[3, 3, 0], (2, 1, 1), &[(1, 3)]),
        ];
        for (sent, arrivals, counts, missing) in rows {
            let found = found(sent, arrivals);
            assert_eq!((found.arrived, found.repeated, found.reordered), counts, "{arrivals:?}");
            let runs: Vec<_> = missing.iter().map(|(start, end)| *start..*end).collect();
            assert_eq!(found.missing(), runs, "{arrivals:?}");
            let lost: u64 = runs.iter().map(|run| run.end - run.start).sum();
            assert_eq!((found.sent, found.lost()), (sent, lost), "{arrivals:?}");
        }
    }

    #[test]
    fn a_gap_may_be_at_either_end_and_an_order_changes_none() {
        let rows: [(u64, &[u64], u64); 5] = [
            (0, &[], 0),
            (11, &[], 10_000),
            (11, &[0, 9, 10], 9_000),
            (11, &[0, 1], 8_500),
            (4, &[2, 0, 3, 1], 1_000),
        ];
        for (sent, arrivals, micros) in rows {
            let gap = found(sent, arrivals).longest_gap();
            assert_eq!(gap, Duration::from_micros(micros), "{arrivals:?}");
        }
    }

    #[test]
    fn a_gap_does_not_contain_the_pauses_of_the_sender() {
        let even: Vec<u64> = (100..200).collect();
        let all: Vec<u64> = (0..100).collect();
        let cut: Vec<u64> = (100..110).chain(160..170).collect();
        let rows = [
            (&even, 0..0, all.clone(), vec![]),
            // Numbers 10 to 59 are lost.
            (&even, 0..0, [&all[..10], &all[60..]].concat(), vec![51_000_000]),
            // Nothing after number 9 comes.
            (&even, 0..0, all[..10].to_vec(), vec![89_500_000]),
            // The sender itself pauses.
            (&cut, 0..0, all[..20].to_vec(), vec![]),
            // The kernel refuses what it would send.
            (&cut, 110..160, all[..20].to_vec(), vec![51_000_000]),
        ];
        for (turns, refused, arrivals, expected) in rows {
            let mut sent = Sent::every(1_000_000);
            turns.iter().for_each(|ms| sent.note(ms * 1_000_000));
            refused.for_each(|ms| sent.note_refused(ms * 1_000_000));
            let mut arrived = Arrived::default();
            let at_ns = |number: u64| turns[number as usize] * 1_000_000 + 500_000;
            arrivals.iter().for_each(|number| arrived.note(*number, at_ns(*number)));
            let gaps = Found::new(sent, arrived, 1).gaps(Duration::from_millis(10));
            let lengths: Vec<u64> = gaps.iter().map(|gap| gap.length_ns).collect();
            assert_eq!(lengths, expected, "{arrivals:?}");
        }
    }

    #[test]
    #[should_panic(expected = "what arrived was sent")]
    fn nothing_arrives_that_was_not_sent() {
        found(2, &[2]);
    }
}
