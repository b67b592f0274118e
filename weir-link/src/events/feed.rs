//! The latest events, for clients that read them while the link runs, and the faults that last.
//!
//! Invariant: at most [`FEED_MAX`] events are held, however slow readers are. A reader keeps the
//! number of the last event that it read; what was forgotten since then is counted for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Event, Role, rfc3339};
use crate::status::FaultStatus;
use weir_host::wait::realtime_ns;

/// Bound: events that are remembered for clients; the oldest goes.
pub const FEED_MAX: usize = 1024;
/// Bound: faults that last and are remembered; further ones are not.
pub const FAULTS_MAX: usize = 256;

/// The latest events, bounded in number, for readers in any thread.
#[derive(Debug)]
pub struct Feed {
    /// When it began: numbers of another feed mean nothing here.
    epoch: u64,
    latest: Mutex<Latest>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Latest {
    /// The number of events that were ever put in.
    count: u64,
    /// The last of them.
    events: VecDeque<Arc<Event>>,
    /// Those that began a fault which has not ended.
    faults: Vec<Arc<Event>>,
}

/// The place of a reader: it has read events up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    epoch: u64,
    /// The number of the last event that was read, counted from 1; 0: none.
    number: u64,
}

/// The events after a place, for a reader.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// Events that it can never read: they were forgotten before.
    pub lost: u64,
    /// The events, each with its place.
    pub events: Vec<(Place, Arc<Event>)>,
}

impl Default for Feed {
    fn default() -> Self {
        let latest = Mutex::new(Latest::default());
        Self { epoch: realtime_ns() / 1000, latest, changed: Condvar::new() }
    }
}

impl Feed {
    /// Puts an event in, and forgets the oldest one if there is no room. For threads that do not
    /// forward: it takes a lock.
    pub fn push(&self, event: Event) {
        let mut latest = self.lock();
        if latest.events.len() == FEED_MAX {
            latest.events.pop_front();
        }
        latest.count += 1;
        let event = Arc::new(event);
        latest.follow(&event);
        latest.events.push_back(event);
        drop(latest);
        self.changed.notify_all();
    }

    /// Returns the faults that last, the oldest first.
    pub fn faults(&self) -> Vec<FaultStatus> {
        let fault = |event: &Arc<Event>| FaultStatus {
            event: event.kind.keyword().to_owned(),
            since: rfc3339(event.at_ns),
            text: event.text(),
        };
        self.lock().faults.iter().map(fault).collect()
    }

    /// Returns the place before the first event.
    pub fn start(&self) -> Place {
        Place { epoch: self.epoch, number: 0 }
    }

    /// Returns the place after the newest event.
    pub fn end(&self) -> Place {
        Place { epoch: self.epoch, number: self.lock().count }
    }

    /// Returns the events after this place, at most `max`; waits for one up to `patience`. A place
    /// of another feed, of a process before, is read as the start of this one.
    pub fn after(&self, place: Place, max: usize, patience: Duration) -> News {
        let number = if place.epoch == self.epoch { place.number } else { 0 };
        let is_quiet = |latest: &mut Latest| latest.count <= number;
        let (latest, _) = self
            .changed
            .wait_timeout_while(self.lock(), patience, is_quiet)
            .unwrap_or_else(PoisonError::into_inner);
        let forgotten = latest.count - latest.events.len() as u64;
        let lost = forgotten.saturating_sub(number);
        // Within the events that are held, which are few.
        let read = number.max(forgotten).min(latest.count);
        let numbered = (read + 1..).zip(latest.events.iter().skip((read - forgotten) as usize));
        let placed = |(number, event): (u64, &Arc<Event>)| {
            (Place { epoch: self.epoch, number }, Arc::clone(event))
        };
        News { lost, events: numbered.take(max).map(placed).collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latest {
    /// Remembers a fault that begins, and forgets one that ends.
    fn follow(&mut self, event: &Arc<Event>) {
        let role = event.kind.role();
        if role == Role::Once {
            return;
        }
        // A new process may be told again of one that began before it.
        self.faults.retain(|begun| begun.fault != event.fault);
        if role == Role::Begins && self.faults.len() < FAULTS_MAX {
            self.faults.push(Arc::clone(event));
        }
    }
}

impl Place {
    /// Reads a place as its `Display` writes it.
    pub fn read(text: &str) -> Option<Self> {
        let (epoch, number) = text.split_once('-')?;
        Some(Self { epoch: epoch.parse().ok()?, number: number.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{About, Kind};

    /// Puts so many events in, and reads up to `max` after `read`; expects so many lost, and the
    /// first and last number of the rest.
    fn check(pushed: u64, read: u64, max: usize, lost: u64, numbers: Option<(u64, u64)>) {
        let feed = Feed::default();
        for at_ns in 1..=pushed {
            feed.push(Event::at(Kind::PortDown, at_ns, About::default()));
        }
        let place = Place { number: read, ..feed.start() };
        let news = feed.after(place, max, Duration::ZERO);
        let of = |(place, event): &(Place, Arc<Event>)| {
            assert_eq!(place.number, event.at_ns, "each event has its number");
            place.number
        };
        let got = news.events.first().map(of).zip(news.events.last().map(of));
        assert_eq!((news.lost, got), (lost, numbers), "{pushed} {read} {max}");
    }

    #[test]
    fn a_reader_gets_every_event_or_is_reported_how_many_it_missed() {
        let max = FEED_MAX as u64;
        check(0, 0, 10, 0, None);
        check(3, 0, 10, 0, Some((1, 3)));
        check(3, 2, 10, 0, Some((3, 3)));
        check(3, 3, 10, 0, None);
        check(3, 99, 10, 0, None);
        check(9, 0, 4, 0, Some((1, 4)));
        check(max, 0, FEED_MAX, 0, Some((1, max)));
        check(max + 5, 0, FEED_MAX, 5, Some((6, max + 5)));
        check(max + 5, 3, FEED_MAX, 2, Some((6, max + 5)));
        check(max + 5, 5, FEED_MAX, 0, Some((6, max + 5)));
        check(max + 5, 7, 1, 0, Some((8, 8)));
        check(max + 5, u64::MAX, 1, 0, None);
    }

    #[test]
    fn a_fault_is_known_until_it_ends_however_many_events_follow() {
        let feed = Feed::default();
        let about = About { subject: "eth0", ..About::default() };
        let (down, busy) =
            (Event::at(Kind::PortDown, 7, about), Event::at(Kind::PortBusy, 8, about));
        // A process that was told of it before is told again.
        for event in [&down, &busy, &down] {
            feed.push(event.clone());
        }
        (0..FEED_MAX + 1).for_each(|_| feed.push(Event::at(Kind::MtuChanged, 9, about)));
        let known = || feed.faults().into_iter().map(|fault| fault.event).collect::<Vec<_>>();
        assert_eq!(known(), ["port-busy", "port-down"]);
        assert!(feed.faults()[1].text.contains("`eth0` is down"), "{:?}", feed.faults());
        feed.push(busy.end(10, 0));
        feed.push(down.end(10, 0));
        assert!(known().is_empty());
    }

    #[test]
    fn a_place_is_read_as_written_and_one_of_another_process_is_the_start() {
        let feed = Feed::default();
        feed.push(Event::at(Kind::PortUp, 1, About::default()));
        let end = feed.end();
        assert_eq!(Place::read(&end.to_string()), Some(end));
        for wrong in ["", "-", "1", "1-", "-1", "a-1", "1-2-3", "1--2", "99999999999999999999-1"] {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
        let other = Place { epoch: end.epoch + 1, number: 7 };
        assert_eq!(feed.after(other, 9, Duration::ZERO).events.len(), 1);
        assert_eq!(feed.after(end, 9, Duration::ZERO).events.len(), 0);
    }
}
