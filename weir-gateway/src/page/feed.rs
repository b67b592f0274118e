//! The present state, for all readers of the stream.
//!
//! Invariant: the feed holds the last sample of each direction and the last `EVENTS_MAX` events,
//! however many read it and however slowly. A reader keeps numbers of what it has read; what was
//! replaced meanwhile is counted for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Sends the present state to all readers, from one thread.
#[derive(Default)]
pub struct Feed {
    latest: Mutex<Latest>,
    changed: Condvar,
    /// Wakes tasks in the same way.
    notify: Notify,
    readers: AtomicUsize,
}

#[derive(Default)]
struct Latest {
    /// The number of the last sample.
    samples: u64,
    /// The last sample of each direction, by name, as JSON.
    sample: Vec<(String, Arc<str>)>,
    /// How often what is shown has changed.
    abouts: u64,
    /// The number of events that ever came.
    events: u64,
    /// The last of them: name and JSON.
    recent: VecDeque<(String, Arc<str>)>,
}

/// How far a reader has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    samples: u64,
    abouts: u64,
    events: u64,
}

/// The next message for a reader: names of events of the stream, each with its data.
#[derive(Debug, Default)]
pub struct News {
    /// The events of the stream.
    pub parts: Vec<(String, Arc<str>)>,
    /// Samples and events that it can never read.
    pub lost: u64,
}

/// A reader; it counts as one until it is dropped.
pub struct Reader<'a> {
    feed: &'a Feed,
    direction: Option<String>,
    place: Place,
}

impl Feed {
    /// Returns whether there is a reader.
    pub fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// Begins to read what comes from now on, samples of this direction or of the first one.
    pub fn read(&self, direction: Option<String>) -> Reader<'_> {
        self.readers.fetch_add(1, Ordering::Relaxed);
        // The collector may sleep while there is no reader.
        self.changed.notify_all();
        let latest = self.lock();
        let Latest { samples, abouts, events, .. } = *latest;
        Reader { feed: self, direction, place: Place { samples, abouts, events } }
    }

    /// Puts the samples of all directions in, each with the name of its direction.
    pub fn put_samples(&self, sample: Vec<(String, Arc<str>)>) {
        let mut latest = self.lock();
        latest.samples += 1;
        latest.sample = sample;
        drop(latest);
        self.wake_readers();
    }

    /// Says that what is shown has changed: that the answer of `/view/about` is another one.
    pub fn put_about(&self) {
        self.lock().abouts += 1;
        self.wake_readers();
    }

    /// Puts an event in: its name in the stream, and its data.
    pub fn put_event(&self, name: &str, data: String) {
        let mut latest = self.lock();
        if latest.recent.len() == EVENTS_MAX {
            latest.recent.pop_front();
        }
        latest.events += 1;
        latest.recent.push_back((name.to_owned(), data.into()));
        drop(latest);
        self.wake_readers();
    }

    /// Waits up to `patience` until a reader comes, if there is none.
    pub fn wait_for_reader(&self, patience: Duration) {
        let is_unread = |_: &mut Latest| !self.is_read();
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_unread);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn wake_readers(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<'_> {
    /// Waits up to `patience` until there is something to read.
    pub async fn wait(&self, patience: Duration) {
        // One that is told between the look and the wait wakes it, too.
        let mut notified = std::pin::pin!(self.feed.notify.notified());
        notified.as_mut().enable();
        let is_quiet = self.feed.lock().place() == self.place;
        if is_quiet {
            // Without news it looks again.
            let _late = tokio::time::timeout(patience, notified).await;
        }
    }

    /// Returns what came since the last call; waits for it up to `patience`.
    pub fn next(&mut self, patience: Duration) -> News {
        let place = self.place;
        let is_quiet = |latest: &mut Latest| latest.place() == place;
        let waited = self.feed.changed.wait_timeout_while(self.feed.lock(), patience, is_quiet);
        let (latest, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut news = News::default();
        if latest.abouts > place.abouts {
            news.parts.push(("about".to_owned(), "{}".into()));
        }
        let new = (latest.events - place.events) as usize;
        let held = new.min(latest.recent.len());
        news.lost = (new - held) as u64;
        news.parts.extend(latest.recent.iter().skip(latest.recent.len() - held).cloned());
        if latest.samples > place.samples {
            news.lost += latest.samples - place.samples - 1;
            let named = |(name, _): &&(String, Arc<str>)| {
                self.direction.as_ref().is_none_or(|direction| direction == name)
            };
            let sample = latest.sample.iter().find(named);
            news.parts.extend(sample.map(|(_, data)| ("sample".to_owned(), Arc::clone(data))));
        }
        self.place = latest.place();
        news
    }
}

impl Latest {
    fn place(&self) -> Place {
        Place { samples: self.samples, abouts: self.abouts, events: self.events }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.feed.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events that are held for readers.
const EVENTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(news: &News) -> String {
        let name = |(name, data): &(String, Arc<str>)| format!("{name}{data}");
        news.parts.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_slow_reader_gets_the_last_sample_and_the_number_of_those_that_it_missed() {
        let feed = Feed::default();
        let sample = |number: u32| vec![("up".to_owned(), format!("{number}").into())];
        feed.put_samples(sample(0));
        assert!(!feed.is_read());
        let mut reader = feed.read(Some("up".to_owned()));
        let mut other = feed.read(Some("down".to_owned()));
        assert!(feed.is_read());
        assert_eq!(names(&reader.next(Duration::ZERO)), "", "it began behind that one");
        (1..=3).for_each(|number| feed.put_samples(sample(number)));
        feed.put_about();
        feed.put_event("event", "!".to_owned());
        let news = reader.next(Duration::ZERO);
        assert_eq!((names(&news).as_str(), news.lost), ("about{} event! sample3", 2));
        let news = reader.next(Duration::ZERO);
        assert_eq!((names(&news).as_str(), news.lost), ("", 0));
        (0..=EVENTS_MAX).for_each(|number| feed.put_event("e", number.to_string()));
        let news = reader.next(Duration::ZERO);
        assert_eq!((news.parts.len(), news.lost), (EVENTS_MAX, 1));
        assert!(names(&other.next(Duration::ZERO)).starts_with("about{} e1"));
        drop((reader, other));
        assert!(!feed.is_read());
    }
}
