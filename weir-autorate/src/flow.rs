//! A connection that is followed, and its part of a measure.

use crate::clock::SenderClock;
use crate::frame::{FlowId, Segment, Way};
use crate::round::{Round, Seen};
use crate::saved::saved;
use weir_core::state::{Reader, State, StateError, Writer};
use weir_core::units::{Duration, Instant};

/// A connection that is followed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub id: FlowId,
    /// Which of the flows that had this place it is.
    pub generation: u16,
    /// The gap in what was read before its last frame.
    pub gap: u32,
    /// Whether it is among the active ones.
    pub is_active: bool,
    /// The frames of each way.
    pub seen: [Seen; 2],
    /// The round trips of probes of each way: behind the modem, and towards the hosts.
    pub rounds: [Round; 2],
    clock: SenderClock,
    /// [rfc8289 §5] One packet that did not wait shows that no queue stands: so the delay is the
    /// least of an interval. The least of this one, and of the last one that found something.
    pub found: Found,
    pub latest: Found,
    /// Payload of each way, and what of it was missing, since the last interval.
    pub data: [u32; 2],
    pub missing: [u32; 2],
    /// The last acknowledgement of what went up.
    acked: u32,
}

saved!(Flow {
    id,
    generation,
    gap,
    is_active,
    seen,
    rounds,
    clock,
    found,
    latest,
    data,
    missing,
    acked
});

impl State for FlowId {
    fn save(&self, to: &mut Writer) {
        (self.key, self.host, self.peer).save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let mut parts = (0, 0, 0);
        parts.load(from)?;
        (self.key, self.host, self.peer) = parts;
        Ok(())
    }
}

/// The delays of a flow in nanoseconds; the largest number for none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// When the last round trip ended, and the last way down.
    pub trip_at: Instant,
    pub down_at: Instant,
    /// The round trip.
    pub trip: u64,
    /// Above the least round trip.
    pub delay: u64,
    /// Above the least way down.
    pub down: u64,
}

saved!(Found { trip_at, down_at, trip, delay, down });

impl Default for Found {
    fn default() -> Self {
        let (trip_at, down_at) = (Instant::ZERO, Instant::ZERO);
        Self { trip_at, down_at, trip: u64::MAX, delay: u64::MAX, down: u64::MAX }
    }
}

/// The result of reading a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// The place of the probe that its frame is: the estimator must know when it leaves.
    pub probe: Option<usize>,
    /// Whether anything was found that an interval counts.
    pub is_active: bool,
}

impl Flow {
    pub fn new(id: FlowId, generation: u16, gap: u32) -> Self {
        Self { id, generation, gap, ..Self::default() }
    }

    /// Returns when its last frame passed.
    pub fn last(&self) -> Instant {
        self.seen[0].at.max(self.seen[1].at)
    }

    /// Is read no more, or not for a while: what is under way is forgotten.
    pub fn pause(&mut self) {
        self.is_active = false;
        self.rounds.iter_mut().for_each(Round::abandon);
        self.seen.iter_mut().for_each(|seen| seen.is_started = false);
        (self.found, self.latest) = Default::default();
    }

    /// Reads a frame that arrived at `at`. `gap` counts the gaps in what was read: after one, what
    /// a frame leaves out was not read, rather than lost.
    #[inline]
    pub fn read(&mut self, at: Instant, way: Way, segment: &Segment, gap: u32) -> Told {
        let (here, back) = (way as usize, way.opposite() as usize);
        if self.gap != gap {
            self.gap = gap;
            self.seen.iter_mut().for_each(|seen| seen.is_started = false);
        }
        let mut told = Told::default();
        let since = self.seen[here].gap_before(at, segment);
        if let Some(trip) = self.rounds[back].answer(at, segment, since) {
            let delay = self.rounds[back].add(at, trip);
            if way == Way::Down {
                self.found.add(at, trip, delay);
                self.clock.note_excess(delay);
            }
            told.is_active = true;
        }
        told.probe = self.rounds[here].begin(at, segment, &self.seen[here]);
        let (hole, again) = self.seen[here].note(at, segment);
        if let Segment::Tcp(tcp) = segment {
            if let Some(ack) = tcp.ack.filter(|_| way == Way::Down) {
                if tcp.payload == 0 && ack == self.acked {
                    self.rounds[back].stand_still();
                }
                self.acked = ack;
            }
            if again {
                self.rounds[here].spoil(tcp);
            }
            let missing = if again && way == Way::Up { tcp.payload } else { hole };
            self.data[here] = self.data[here].saturating_add(tcp.payload);
            self.missing[here] = self.missing[here].saturating_add(missing);
            if let Some(stamp) = tcp.stamp.filter(|_| way == Way::Down) {
                self.time(at, stamp.value);
            }
        }
        told.is_active |= told.probe.is_some() || self.data != [0; 2];
        told
    }

    /// Returns the delay of the way down, by the sender's clock, if that can be told.
    pub fn down(&self) -> u64 {
        if self.clock.may_hide_queue() { u64::MAX } else { self.latest.down }
    }

    fn time(&mut self, at: Instant, value: u32) {
        if let Some(delay) = self.clock.add(at, value) {
            self.found.down = self.found.down.min(delay);
            self.found.down_at = at;
        }
    }

    /// Returns the delay that an answer that does not come shows by now: nothing has come of this
    /// flow for that much longer than its least round trip.
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        let round = &self.rounds[Way::Up as usize];
        let last = round.awaited()[0]?.max(self.seen[Way::Down as usize].at);
        let (silent, base) = (now.since(last), round.base.value()?);
        let excess = silent.as_nanos().saturating_sub(base.max(0) as u64);
        let counts = excess > SILENT_MIN.as_nanos() && silent < SILENT_MAX;
        counts.then_some(Duration::from_nanos(excess))
    }

    /// Returns by how much an acknowledgement is overdue that cannot be a delayed one: at least
    /// every second segment is acknowledged at once [rfc9293 §3.8.6.3].
    pub fn overdue(&self, now: Instant) -> Option<Duration> {
        let round = &self.rounds[Way::Up as usize];
        let (left, base) = (round.awaited()[1]?, round.base.value()?);
        let age = now.since(left);
        let late = age.as_nanos().saturating_sub(base.max(0) as u64);
        (late > 0 && age < SILENT_MAX).then_some(Duration::from_nanos(late))
    }

    /// Returns whether its least round trip is known well, rather than from a few samples that a
    /// queue may all have delayed.
    pub fn is_mature(&self, now: Instant) -> bool {
        let round = &self.rounds[Way::Up as usize];
        round.count >= SAMPLES_MATURE && now.since(round.first) >= AGE_MATURE
    }

    /// Ends an interval: what was found takes the place of what was found before, part by part, and
    /// what is too old goes.
    pub fn end_interval(&mut self, now: Instant) {
        let found = core::mem::take(&mut self.found);
        let latest = &mut self.latest;
        if found.trip != u64::MAX || now.since(latest.trip_at) >= RECENT {
            (latest.trip, latest.delay, latest.trip_at) = (found.trip, found.delay, found.trip_at);
        }
        if found.down != u64::MAX || now.since(latest.down_at) >= RECENT {
            (latest.down, latest.down_at) = (found.down, found.down_at);
        }
        (self.data, self.missing) = ([0; 2], [0; 2]);
    }

    /// Takes the present for what the path is without a queue.
    pub fn rebase(&mut self, now: Instant) {
        self.clock.forget_offsets();
        if self.latest.trip != u64::MAX && now.since(self.latest.trip_at) < REBASE_MAX {
            let trip = self.latest.trip as i64;
            self.rounds[Way::Up as usize].base.restart(now, trip);
        }
    }
}

impl Found {
    fn add(&mut self, at: Instant, trip: Duration, delay: u64) {
        self.trip_at = at;
        self.trip = self.trip.min(trip.as_nanos());
        self.delay = self.delay.min(delay);
    }
}

/// An answer may be late by a delayed acknowledgement without a queue [rfc9293 §3.8.6.3 allows
/// 500 ms; systems take 40 to 200].
const SILENT_MIN: Duration = Duration::from_millis(250);
/// A peer that is silent for longer may be gone.
const SILENT_MAX: Duration = Duration::from_secs(3);
/// Delays count for so long.
const RECENT: Duration = Duration::from_millis(100);
const SAMPLES_MATURE: u8 = 4;
const AGE_MATURE: Duration = Duration::from_secs(1);
const REBASE_MAX: Duration = Duration::from_secs(1);
