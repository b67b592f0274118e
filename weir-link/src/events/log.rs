//! The way of events out of the run loop: a bounded queue that neither blocks nor takes a lock.
//!
//! Invariant: each event that was pushed is taken once, or counted in `shed` and told as such.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{About, Event, Kind};
use weir_host::wait::realtime_ns;

/// Bound: events that wait to be written; further ones are counted.
pub const EVENTS_MAX: usize = 1024;

/// Returns both ends of a queue of events.
pub fn log() -> (Reporter, EventLog) {
    let (sender, queue) = sync_channel(EVENTS_MAX);
    let shared = Arc::new(Shared::default());
    (Reporter { queue: sender, shared: Arc::clone(&shared) }, EventLog { queue, shared })
}

/// The end that takes events in; each thread has its own.
#[derive(Clone, Debug)]
pub struct Reporter {
    queue: SyncSender<Event>,
    shared: Arc<Shared>,
}

/// The end from which events are taken to be written.
#[derive(Debug)]
pub struct EventLog {
    queue: Receiver<Event>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Events for which the queue had no room.
    shed: AtomicU64,
    /// Of threads that do not forward.
    limiter: Mutex<Limiter>,
}

impl Reporter {
    /// Queues an event, or counts it if too many wait. It never waits: the queue is without locks
    /// as long as the other end polls it, as [`EventLog::take`] does.
    pub fn push(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(event) {
            self.shared.shed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues an event that happens now, unless its kind came too often of late for this subject.
    /// For threads that do not forward: it takes a lock.
    pub fn once(&self, kind: Kind, about: About<'_>) {
        let event = Event::now(kind, about);
        let mut limiter = self.shared.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        if limiter.admits(event.at_ns, kind, about.subject) {
            self.push(event);
        }
    }
}

impl EventLog {
    /// Takes what waits, in order, and then what was left out. Call it every 100 ms or so.
    pub fn take(&mut self, mut write: impl FnMut(Event)) {
        while let Ok(event) = self.queue.try_recv() {
            write(event);
        }
        let shed = self.shared.shed.swap(0, Ordering::Relaxed);
        if shed > 0 {
            write(lost(shed));
        }
        let mut limiter = self.shared.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.report_left_out(realtime_ns(), &mut write);
    }

    /// As [`EventLog::take`], for the last time: what was left out is told now.
    pub fn take_last(&mut self, mut write: impl FnMut(Event)) {
        self.take(&mut write);
        let mut limiter = self.shared.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.report_rest(realtime_ns(), &mut write);
    }
}

/// Returns the event that says how many were lost.
pub fn lost(count: u64) -> Event {
    let about = About { subject: "events", ..About::default() };
    Event { count, ..Event::now(Kind::EventsLost, about) }
}

/// Leaves out events of a kind that come too often of one subject, and says how many.
#[derive(Debug, Default)]
pub struct Limiter {
    known: Vec<Known>,
}

/// Events of one kind and subject within [`LIMITER_WINDOW_NS`].
#[derive(Debug)]
struct Known {
    kind: Kind,
    subject: String,
    since_ns: u64,
    reported: u64,
    left_out: u64,
}

impl Limiter {
    /// Returns whether an event may be told; counts it if not.
    pub fn admits(&mut self, at_ns: u64, kind: Kind, subject: &str) -> bool {
        let is_it = |known: &&mut Known| known.kind == kind && known.subject == subject;
        if let Some(known) = self.known.iter_mut().find(is_it) {
            if known.reported < REPORTED_MAX {
                known.reported += 1;
                return true;
            }
            known.left_out += 1;
            return false;
        }
        if self.known.len() == SUBJECTS_MAX {
            self.known.retain(|known| known.left_out > 0 || !known.is_over(at_ns));
        }
        if self.known.len() == SUBJECTS_MAX {
            // Too many subjects at once: the last one stands for all further ones.
            self.known[SUBJECTS_MAX - 1].left_out += 1;
            return false;
        }
        let subject = subject.to_owned();
        self.known.push(Known { kind, subject, since_ns: at_ns, reported: 1, left_out: 0 });
        true
    }

    /// Reports the events that were left out in windows that are over.
    pub fn report_left_out(&mut self, at_ns: u64, write: &mut impl FnMut(Event)) {
        self.known.retain(|known| {
            let is_over = known.is_over(at_ns);
            if is_over {
                known.report_left_out(at_ns, write);
            }
            !is_over
        });
    }

    /// Reports the events that were left out, at the end.
    pub fn report_rest(&mut self, at_ns: u64, write: &mut impl FnMut(Event)) {
        self.known.drain(..).for_each(|known| known.report_left_out(at_ns, write));
    }
}

impl Known {
    fn report_left_out(&self, at_ns: u64, write: &mut impl FnMut(Event)) {
        if self.left_out > 0 {
            let (subject, detail) = (self.subject.as_str(), self.kind.keyword());
            let about = About { subject, detail, ..About::default() };
            let event = Event::at(Kind::EventsLeftOut, at_ns, about);
            write(Event { count: self.left_out, ..event });
        }
    }

    fn is_over(&self, at_ns: u64) -> bool {
        at_ns.abs_diff(self.since_ns) >= LIMITER_WINDOW_NS
    }
}

/// Returns a number for a fault that begins at `at_ns`: microseconds, so that every reader of JSON
/// holds it exactly, and later ones are larger.
pub(super) fn fault_number(at_ns: u64) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let after = |last: u64| (last + 1).max(at_ns / 1000);
    let update = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
    update.map_or(0, after)
}

/// Of one kind and subject at most this many events are told in a window.
const REPORTED_MAX: u64 = 5;
/// The window in which they are counted.
const LIMITER_WINDOW_NS: u64 = 60_000_000_000;
/// Bound: kinds and subjects of events that a limiter tells apart; events of further ones are
/// counted together.
const SUBJECTS_MAX: usize = 256;
