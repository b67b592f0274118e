//! The measurements of a run beside the link's own account: per source, per class, and of the line.
//!
//! Two ledgers: totals since the beginning, which must balance, and what counts in the report,
//! which begins after the warm-up.

use crate::connections::Connections;
use crate::figures::Object;
use crate::interval::Interval;
use crate::quic::Done;
use crate::script::{Datagram, Playback};
use weir_core::account::{Count, Histogram, LeafAccount};
use weir_core::event::{Departure, DropReason, Marked};
use weir_core::units::{Bytes, Duration, Instant};

/// The measurements of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceMeter {
    /// Since the beginning: packets offered to the link, dropped by it, handed out by it.
    pub total: [u64; 3],
    /// Frames that were offered to the first link.
    pub sent: Count,
    /// Frames that links dropped.
    pub dropped: Count,
    /// Frames whose last bit reached the receiver.
    pub received: Count,
    /// Bytes that reached the receiving application.
    pub goodput: u64,
    /// From offer to the last bit at the receiver.
    pub delays: Histogram,
    /// The sums of its connections, if it is TCP, once the run has ended.
    pub tcp: Option<Connections>,
    /// The sums of its connections, if it is QUIC, once the run has ended.
    pub quic: Option<Done>,
    /// How its playback went, if it plays, once the run has ended.
    pub playback: Option<Playback>,
    /// How long transfers took, from opening the connection to the last byte; or exchanges, from
    /// the first byte of the request.
    pub transfers: Histogram,
    /// Each of them, if the caller wants that.
    pub objects: Option<Vec<Object>>,
    /// The datagram whose fragments are received.
    pub reassembly: Reassembly,
}

impl SourceMeter {
    /// Counts a transfer or an exchange that ended at `at`.
    pub fn completed(&mut self, at: Instant, took: Duration) {
        self.transfers.record(took);
        if let Some(objects) = self.objects.as_mut().filter(|objects| objects.len() < OBJECTS_MAX) {
            objects.push(Object { ended: at, took });
        }
    }
}

/// A receiver of fragments, which arrive in order. An incomplete datagram does not reach the
/// application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reassembly {
    datagram: u32,
    received: u32,
}

impl Reassembly {
    /// Takes a frame of the datagram with this number; returns the datagram's bytes of payload if
    /// this frame completes it.
    pub fn add(&mut self, number: u32, datagram: Datagram) -> u64 {
        if self.datagram != number {
            *self = Self { datagram: number, received: 0 };
        }
        self.received += 1;
        if self.received == datagram.frames { u64::from(datagram.payload) } else { 0 }
    }
}

/// Bound: objects of a source that a report lists one by one; later ones are counted.
const OBJECTS_MAX: usize = 1 << 20;
/// Indices into [`SourceMeter::total`].
pub(crate) const SENT: usize = 0;
pub(crate) const DROPPED: usize = 1;
pub(crate) const LEFT: usize = 2;

/// Packets that left a leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handed {
    /// The time from offer to departure.
    pub delays: Histogram,
    /// Packets that left with another traffic class than they came with.
    pub marked: Marked,
}

/// The measurements of the line and of the classes.
#[derive(Clone, Debug)]
pub(crate) struct LinkMeter {
    /// The account of each leaf when the report began.
    pub before: Vec<LeafAccount>,
    /// The packets that left each leaf since the report began.
    pub handed: Vec<Handed>,
    pub line: LineMeter,
}

/// The measurements of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineMeter {
    window: Interval,
    /// The time for which it was sending.
    pub busy: Duration,
    free_at: Instant,
}

impl LinkMeter {
    pub fn new(leaves: usize, window: Interval) -> Self {
        Self {
            before: vec![LeafAccount::default(); leaves],
            handed: vec![Handed::default(); leaves],
            line: LineMeter { window, busy: Duration::ZERO, free_at: Instant::ZERO },
        }
    }

    /// Begins anew for other leaves, which have counted `before` already; the line's counts
    /// continue.
    pub fn restart(&mut self, before: Vec<LeafAccount>) {
        self.handed = vec![Handed::default(); before.len()];
        self.before = before;
    }

    /// Counts a departure; `counts` says whether the report has begun.
    #[inline]
    pub fn departed(&mut self, departure: &Departure, counts: bool) {
        self.line.departed(departure);
        if counts {
            self.handed[departure.leaf.index()].departed(departure);
        }
    }
}

impl LineMeter {
    /// Counts a departure for the line.
    #[inline(always)]
    pub fn departed(&mut self, departure: &Departure) {
        // With a driver's buffer a packet is handed out while the line still sends another.
        let begin = departure.at.max(self.free_at).max(self.window.start);
        self.busy = self.busy.plus(departure.finished.min(self.window.end).since(begin));
        self.free_at = departure.finished;
    }

    /// Counts the departure of a packet that leaves after the report has begun and is sent before
    /// it ends.
    #[inline(always)]
    pub fn departed_inside(&mut self, departure: &Departure) {
        let begin = departure.at.max(self.free_at);
        self.busy = self.busy.plus(departure.finished.since(begin));
        self.free_at = departure.finished;
    }
}

impl Handed {
    /// Counts a departure for its leaf.
    #[inline(always)]
    pub fn departed(&mut self, departure: &Departure) {
        self.delays.record(departure.at.since(departure.arrived));
        self.marked.count(departure.mark);
    }
}

/// The account of `now` less what was counted `before`; the backlog is that of now.
pub(crate) fn since(now: &LeafAccount, before: &LeafAccount) -> LeafAccount {
    let mut dropped = [Count::default(); DropReason::ALL.len()];
    for (index, count) in dropped.iter_mut().enumerate() {
        *count = less(now.dropped[index], before.dropped[index]);
    }
    LeafAccount {
        offered: less(now.offered, before.offered),
        sent: less(now.sent, before.sent),
        dropped,
        backlog: now.backlog,
    }
}

fn less(now: Count, before: Count) -> Count {
    Count { packets: now.packets - before.packets, bytes: now.bytes - before.bytes }
}

/// Counts a frame of `length`.
#[inline]
pub(crate) fn add(count: &mut Count, length: u32) {
    count.add(Bytes::new(u64::from(length)));
}
