//! The last seconds of a link, computed from the counts that its loop gives each second.
//!
//! A thread that has time for it ([`History::begin`]) asks for a snapshot a second and compares it
//! with earlier ones; the loop and the readers of the status do nothing for it but copy. Memory is
//! bounded by the number of leaves: counts of an instant and what changed at [`FRAMES`] later ones
//! for the minute, and delays of [`SECONDS`] seconds, of these only the buckets that counted some.
//! A leaf that does nothing takes part in the counts alone.
//! Invariant: all windows end at the same snapshot, and one of other labels begins them anew.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as Patience;

use weir_core::account::{Count, Histogram, Sparse};
use weir_core::sched::{Borrowed, DEPTH_MAX};
use weir_core::units::{Duration, Instant};

use super::board::Board;
use super::counts::{Delay, Labels, LeafCounts, Snapshot};
use super::{Rates, Recent, Windows};

/// The thread that computes the windows of some loops. It ends when this is dropped.
pub struct History {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl History {
    /// Begins to compute the windows of the loops of `boards`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin(boards: Vec<Arc<Board>>) -> std::io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let work = move || {
            let mut pasts: Vec<_> = boards.iter().map(|_| Past::default()).collect();
            let mut due = std::time::Instant::now();
            while !ended.load(Ordering::Relaxed) {
                for (board, past) in boards.iter().zip(&mut pasts) {
                    update(board, past);
                }
                due = (due + PACE).max(std::time::Instant::now());
                std::thread::park_timeout(due.saturating_duration_since(std::time::Instant::now()));
            }
        };
        let thread = std::thread::Builder::new().name("history".to_owned()).spawn(work)?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // One that panicked has told so.
            let _ended = thread.join();
        }
    }
}

fn update(board: &Board, past: &mut Past) {
    // A loop that does not run has done nothing, and keeps its last windows, with their age.
    if let Some(snapshot) = board.newer(PATIENCE) {
        let windows = past.add(&snapshot);
        drop(snapshot);
        if let Some(windows) = windows {
            board.windowed.set(Arc::new(windows));
        }
    }
}

/// Where the windows are left for readers.
#[derive(Default)]
pub(super) struct Windowed(Mutex<Option<Arc<Recents>>>);

impl Windowed {
    fn set(&self, windows: Arc<Recents>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(windows);
    }

    /// Returns the last windows, if they are of a snapshot with these labels.
    pub fn of(&self, labels: &Arc<Labels>) -> Option<Arc<Recents>> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.as_ref().filter(|windows| Arc::ptr_eq(&windows.labels, labels)).map(Arc::clone)
    }
}

/// The windows of a loop.
pub(super) struct Recents {
    labels: Arc<Labels>,
    /// The instant at which all windows end.
    ended: Instant,
    windows: Windows,
    /// As [`super::Status::frame_ns`].
    pub frame_ns: f64,
    /// Of the leaves of all lanes those that did something, in order, and where delays are measured
    /// all.
    leaves: Vec<(u32, (Recent, Lent))>,
    count: usize,
}

/// Bits a second in the last second, by the depth of the lender.
pub(super) type Lent = [f32; DEPTH_MAX];

impl Recents {
    /// Returns the windows, with their age at `now`.
    pub fn windows(&self, now: Instant) -> Windows {
        Windows { age_ns: now.since(self.ended).as_nanos(), ..self.windows }
    }

    /// Returns what leaf number `number` of all lanes did.
    pub fn leaf(&self, number: usize) -> Option<(Recent, Lent)> {
        let place = self.leaves.binary_search_by_key(&(number as u32), |row| row.0);
        let idle = || (number < self.count).then(Default::default);
        place.map_or_else(|_| idle(), |place| Some(self.leaves[place].1))
    }
}

/// Earlier snapshots of a loop.
#[derive(Default)]
struct Past {
    labels: Option<Arc<Labels>>,
    last: Frame,
    /// The counts at the beginning of the minute.
    oldest: Option<(Instant, Vec<Sums>)>,
    /// At each [`STEP`] since then, the counts that had changed since the one before.
    later: VecDeque<(Instant, Vec<(u32, Sums)>)>,
    /// For each leaf, whether its counts changed since the last of these.
    has_moved: Vec<bool>,
    /// For each leaf with a histogram, the durations of each of the last seconds.
    delays: Vec<Option<Box<Delays>>>,
    /// The lengths of these seconds.
    lengths: VecDeque<Duration>,
}

/// The counts of an instant.
#[derive(Clone, Default)]
struct Frame {
    at: Instant,
    busy_ns: u64,
    received: u64,
    leaves: Vec<Tally>,
}

/// The counts of a leaf from which the last second is computed.
#[derive(Clone, Copy, Default)]
struct Tally {
    sums: Sums,
    borrowed: Borrowed,
    overlimit_ns: u64,
}

/// The counts of a leaf from which any window is computed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    offered: Count,
    sent: Count,
    lost: u64,
    borrowed: u64,
    /// The class that it is of: see [`LeafCounts::tenant`].
    tenant: u32,
}

/// The durations of a leaf.
#[derive(Default)]
struct Delays {
    last: Histogram,
    seconds: VecDeque<Sparse>,
    tenant: u32,
}

impl Past {
    /// Adds a snapshot; returns the windows that end there, if there was one before.
    fn add(&mut self, snapshot: &Snapshot) -> Option<Recents> {
        if !self.labels.as_ref().is_some_and(|labels| Arc::ptr_eq(labels, &snapshot.labels)) {
            *self = Self { labels: Some(Arc::clone(&snapshot.labels)), ..Self::default() };
        }
        let now = Frame::of(snapshot);
        let before = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let second = now.at.since(before.at);
        let leaves = before.leaves.iter().zip(&now.leaves);
        let moved = leaves.map(|(before, now)| before.sums != now.sums);
        self.has_moved.resize(now.leaves.len(), false);
        self.has_moved.iter_mut().zip(moved).for_each(|(has, moved)| *has |= moved);
        if self.oldest.is_none() || second == Duration::ZERO {
            self.remember_delays(snapshot, None);
            self.step();
            return None;
        }
        self.remember_delays(snapshot, Some(second));
        let (began, minute) = self.oldest.as_ref().expect("a minute has begun");
        let length = self.last.at.since(*began);
        let delay = self.lengths.iter().fold(Duration::ZERO, |sum, one| sum.plus(*one));
        let mut scratch = Histogram::new();
        let leaves = self.last.leaves.iter().enumerate();
        let leaves = leaves.filter_map(|(number, now)| {
            // A class that took a place did nothing before.
            let last = before.leaves[number];
            let last = if last.sums.tenant == now.sums.tenant { last } else { Tally::default() };
            let mut recent = Recent {
                second: rates(&last.sums, &now.sums, second),
                minute: rates(&minute[number], &now.sums, length),
                overlimit: part(last.overlimit_ns, now.overlimit_ns, second),
                ..Recent::default()
            };
            if let Some(delays) = &self.delays[number] {
                delays.fill(second, &mut scratch, &mut recent);
            }
            let lent = |depth: usize| {
                let bytes = now.borrowed[depth].saturating_sub(last.borrowed[depth]);
                (bytes as f64 * 8.0 / seconds(second)) as f32
            };
            let row = (recent, std::array::from_fn(lent));
            let is_idle = self.delays[number].is_none() && row == Default::default();
            (!is_idle).then_some((number as u32, row))
        });
        let windows = Windows {
            second_ns: second.as_nanos(),
            minute_ns: length.as_nanos(),
            delay_ns: delay.as_nanos(),
            age_ns: 0,
        };
        let frames = self.last.received.saturating_sub(before.received);
        let busy = self.last.busy_ns.saturating_sub(before.busy_ns);
        let recents = Recents {
            labels: Arc::clone(&snapshot.labels),
            ended: snapshot.ended,
            windows,
            frame_ns: if frames == 0 { 0.0 } else { busy as f64 / frames as f64 },
            leaves: leaves.collect(),
            count: self.last.leaves.len(),
        };
        self.step();
        Some(recents)
    }

    /// Keeps what changed for the minute, if the last time is long enough ago.
    fn step(&mut self) {
        let Frame { at, leaves, .. } = &self.last;
        let Some((oldest, sums)) = &mut self.oldest else {
            self.oldest = Some((*at, leaves.iter().map(|leaf| leaf.sums).collect()));
            return;
        };
        let newest = self.later.back().map_or(*oldest, |newest| newest.0);
        if at.since(newest) < STEP {
            return;
        }
        let each = (0..).zip(leaves).zip(&mut self.has_moved);
        let moved = each.filter_map(|((number, leaf), has_moved)| {
            std::mem::take(has_moved).then_some((number, leaf.sums))
        });
        self.later.push_back((*at, moved.collect()));
        if self.later.len() > FRAMES {
            let (at, moved) = self.later.pop_front().expect("there are some");
            moved.into_iter().for_each(|(number, now)| sums[number as usize] = now);
            *oldest = at;
        }
    }

    /// Remembers the delays since the last snapshot.
    fn remember_delays(&mut self, snapshot: &Snapshot, second: Option<Duration>) {
        self.delays.resize_with(snapshot.delays.len(), || None);
        let rows = snapshot.delays.iter().zip(snapshot.leaves.iter());
        for (delays, (now, counts)) in self.delays.iter_mut().zip(rows) {
            let Some(now) = now else { continue };
            let delays = delays.get_or_insert_default();
            if delays.tenant != counts.tenant {
                **delays = Delays { tenant: counts.tenant, ..Delays::default() };
            }
            if second.is_some() {
                delays.seconds.push_back(now.sparse_since(&delays.last));
                forget_first(&mut delays.seconds);
            }
            if now.count() != delays.last.count() {
                delays.last.copy_from(now);
            }
        }
        self.lengths.extend(second);
        forget_first(&mut self.lengths);
    }
}

/// Keeps [`SECONDS`] of a list at the most, the last ones.
fn forget_first<T>(list: &mut VecDeque<T>) {
    while list.len() > SECONDS {
        list.pop_front();
    }
}

impl Frame {
    fn of(snapshot: &Snapshot) -> Self {
        let ports = snapshot.head.ports.iter();
        Self {
            at: snapshot.ended,
            busy_ns: snapshot.head.busy_ns,
            received: ports.map(|port| port.counters.received).sum(),
            leaves: snapshot.leaves.iter().map(Tally::of).collect(),
        }
    }
}

impl Tally {
    fn of(counts: &LeafCounts) -> Self {
        let sums = Sums {
            offered: counts.account.offered,
            sent: counts.sent(),
            lost: counts.lost_total(),
            borrowed: counts.borrowed.iter().fold(0, |sum, bytes| sum.wrapping_add(*bytes)),
            tenant: counts.tenant,
        };
        Self { sums, borrowed: counts.borrowed, overlimit_ns: counts.overlimit_ns }
    }
}

impl Delays {
    /// Adds to `recent` what is known of delays.
    fn fill(&self, second: Duration, scratch: &mut Histogram, recent: &mut Recent) {
        scratch.clear();
        self.seconds.iter().for_each(|second| scratch.merge_sparse(second));
        let waited = self.seconds.back().map_or(0, Sparse::sum_ns);
        recent.queue_packets = Some(waited as f64 / second.as_nanos() as f64);
        recent.delay = Delay::of(scratch).into();
        recent.delay_packets = scratch.count();
        recent.jitter_us = recent.delay.p99_us - recent.delay.p50_us;
    }
}

fn rates(before: &Sums, now: &Sums, length: Duration) -> Rates {
    let nothing = Sums::default();
    let before = if before.tenant == now.tenant { before } else { &nothing };
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds(length);
    Rates {
        offered_pps: rate(before.offered.packets, now.offered.packets),
        offered_bps: 8.0 * rate(before.offered.bytes, now.offered.bytes),
        sent_pps: rate(before.sent.packets, now.sent.packets),
        sent_bps: 8.0 * rate(before.sent.bytes, now.sent.bytes),
        lost_pps: rate(before.lost, now.lost),
        borrowed_bps: 8.0 * rate(before.borrowed, now.borrowed),
    }
}

fn part(before: u64, now: u64, length: Duration) -> f64 {
    (now.saturating_sub(before) as f64 / length.as_nanos() as f64).min(1.0)
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_nanos() as f64 / 1e9).max(1e-9)
}

/// How often windows end.
const PACE: Patience = Patience::from_secs(1);
/// How long the loop may take for a snapshot.
const PATIENCE: Patience = Patience::from_millis(700);
/// The time between the instants of the minute, and how many there are behind the first.
const STEP: Duration = Duration::from_secs(10);
const FRAMES: usize = 6;
/// The seconds whose delays are kept.
const SECONDS: usize = 10;

#[cfg(test)]
mod tests {
    use super::super::counts::LaneLabels;
    use super::*;
    use weir_core::account::LeafAccount;

    /// Two leaves, of which the first sent so many packets of 125 bytes, with this delay each.
    fn snapshot(labels: &Arc<Labels>, (second, sent): (u64, u64), delays: &Histogram) -> Snapshot {
        let mut snapshot = Snapshot::new(labels);
        snapshot.ended = Instant::from_nanos(second * 1_000_000_000);
        let count = Count { packets: sent, bytes: 125 * sent };
        let account = LeafAccount { offered: count, sent: count, ..LeafAccount::default() };
        let overlimit_ns = second * 250_000_000;
        let mut leaf = LeafCounts { account, overlimit_ns, ..LeafCounts::default() };
        leaf.borrowed[1] = 125 * sent / 2;
        snapshot.leaves.set(0, leaf);
        snapshot.delays[0].as_mut().expect("they are measured").copy_from(delays);
        snapshot
    }

    fn labels() -> Arc<Labels> {
        let leaves = vec!["voice".to_owned(), "rest".to_owned()];
        let lanes = vec![LaneLabels { leaves, has_delays: true, ..LaneLabels::default() }];
        Arc::new(Labels { lanes, ..Labels::default() })
    }

    #[test]
    fn windows_cover_their_time_and_no_other() {
        let (labels, mut past, mut delays) = (labels(), Past::default(), Histogram::new());
        let mut sent = 0;
        // 100 seconds of 1000 packets with 1 ms each, then 20 of 3000 with 4 ms.
        for second in 0..=120_u64 {
            let (packets, micros) = if second <= 100 { (1000, 1000) } else { (3000, 4000) };
            if second > 0 {
                sent += packets;
                (0..packets).for_each(|_| delays.record(Duration::from_micros(micros)));
            }
            let recents = past.add(&snapshot(&labels, (second, sent), &delays));
            let Some(recents) = recents else {
                assert_eq!(second, 0, "only the first has nothing before it");
                continue;
            };
            let (recent, lent) = recents.leaf(0).expect("the leaf");
            let near = |value: f64, wanted: f64| {
                assert!((value - wanted).abs() <= wanted * 0.04, "{second}: {value} {wanted}");
            };
            near(recent.second.sent_bps, packets as f64 * 1000.0);
            near(recent.second.borrowed_bps, packets as f64 * 500.0);
            near(f64::from(lent[1]), packets as f64 * 500.0);
            near(recent.overlimit, 0.25);
            near(recent.queue_packets.expect("measured"), (packets * micros) as f64 / 1e6);
            // The window of delays is of ten seconds, so it holds old ones for nine.
            near(recent.delay.max_us, if second <= 100 { 1000.0 } else { 4000.0 });
            near(recent.delay.p50_us, if second <= 102 { 1000.0 } else { 4000.0 });
            let old = if second <= 100 { 10.0 } else { (110.0 - second as f64).max(0.0) };
            if second >= 10 {
                let wanted = old * 1000.0 + (10.0 - old) * 3000.0;
                near(recent.delay_packets as f64, wanted);
            }
            near(
                recent.jitter_us,
                if (101..=102).contains(&second) {
                    3000.0
                } else {
                    recent.delay.p99_us - recent.delay.p50_us
                },
            );
            let minute = recents.windows(Instant::from_nanos(second * 1_000_000_000)).minute_ns;
            assert!(minute <= 70_000_000_000 && (second < 60 || minute >= 60_000_000_000));
            if second == 100 || second == 120 {
                let new = if second == 120 { 20.0 * 3000.0 } else { 0.0 };
                let rest = minute as f64 / 1e9 - if second == 120 { 20.0 } else { 0.0 };
                near(recent.minute.sent_pps, (rest * 1000.0 + new) / (minute as f64 / 1e9));
            }
            let (idle, _) = recents.leaf(1).expect("the leaf");
            assert_eq!((idle.second, idle.delay_packets), (Rates::default(), 0));
        }
    }

    #[test]
    fn other_labels_begin_the_windows_anew_and_a_cleared_histogram_is_no_fall() {
        let (one, other) = (labels(), labels());
        let (mut past, mut delays) = (Past::default(), Histogram::new());
        delays.record(Duration::from_millis(1));
        delays.record(Duration::from_millis(1));
        assert!(past.add(&snapshot(&one, (1, 10), &delays)).is_none());
        delays.clear();
        delays.record(Duration::from_millis(1));
        let recents = past.add(&snapshot(&one, (2, 20), &delays)).expect("windows");
        assert_eq!(recents.leaf(0).map(|leaf| leaf.0.delay_packets), Some(1));
        assert!(past.add(&snapshot(&other, (3, 5), &delays)).is_none());
        let board = Board::new();
        board.windowed.set(Arc::new(recents));
        assert!(board.windowed.of(&one).is_some() && board.windowed.of(&other).is_none());
    }
}
