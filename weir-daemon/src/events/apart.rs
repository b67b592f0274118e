//! A writer with a thread of its own, so that threads with an event to write never wait for a disk.
//!
//! Invariant: each event reaches the writer once and in order, or is counted in the gap that is
//! reported at its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::write::Writer;
use weir_host::error::{Result, SystemError};
use weir_link::events::{EVENTS_MAX, Event};

/// Hands events to a writer in another thread.
#[derive(Debug)]
pub struct Apart {
    /// `None` once nothing follows.
    queue: Option<SyncSender<Entry>>,
    /// Closed when the thread has ended.
    end: Receiver<()>,
    /// Events for which the queue had no room, since the last that had.
    missed: u64,
    /// The number of missed events at the end of the queue, which no entry reports.
    last_missed: Arc<AtomicU64>,
    /// How long the last events may take.
    patience: Duration,
}

/// A message to the thread: how many events are missing here, and the next one.
struct Entry {
    missed: u64,
    event: Event,
}

impl Apart {
    /// Opens a writer in a thread of its own; `what` names it.
    ///
    /// # Errors
    /// When it cannot be opened, does not open within `patience`, or the system gives no thread.
    pub fn open<W: Writer>(
        what: &str,
        patience: Duration,
        open: impl FnOnce() -> Result<W> + Send + 'static,
    ) -> Result<Self> {
        let (queue, entries) = sync_channel(EVENTS_MAX);
        let (opened, outcome) = sync_channel(1);
        let (ended, end) = sync_channel(0);
        let last_missed = Arc::new(AtomicU64::new(0));
        let last = Arc::clone(&last_missed);
        let work = move || {
            // It is closed when this thread ends, whatever happens.
            let _ended: SyncSender<()> = ended;
            match open() {
                // Nobody listens any more if it took too long.
                Ok(writer) if opened.send(Ok(())).is_ok() => write(writer, &entries, &last),
                Ok(_) => {}
                Err(error) => drop(opened.send(Err(error))),
            }
        };
        let failed = |cause| SystemError::new(format!("open {what}"), cause);
        thread::Builder::new().name("log".to_owned()).spawn(work).map_err(failed)?;
        match outcome.recv_timeout(patience) {
            Ok(outcome) => outcome?,
            Err(_) => {
                let why = format!("it did not open within {} ms", patience.as_millis());
                let cure = "see whether its disk or network works";
                return Err(SystemError::refused(format!("open {what}"), why, cure));
            }
        }
        Ok(Self { queue: Some(queue), end, missed: 0, last_missed, patience: LAST_PATIENCE })
    }

    /// When it is dropped, the last events are not waited for: they are written if this process
    /// goes on.
    pub fn hurry(&mut self) {
        self.patience = Duration::ZERO;
    }
}

impl Writer for Apart {
    fn write(&mut self, event: &Event) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(Entry { missed: self.missed, event: event.clone() }) {
            Ok(()) => self.missed = 0,
            Err(_) => self.missed += 1,
        }
    }

    fn miss(&mut self, count: u64, _why: &str) {
        self.missed += count;
    }
}

impl Drop for Apart {
    /// Lets the thread write what waits, unless that takes too long.
    fn drop(&mut self) {
        self.last_missed.store(self.missed, Ordering::Release);
        self.queue = None;
        // Nothing is sent by this way: it is closed in time, or the writer hangs.
        let _hangs = self.end.recv_timeout(self.patience);
    }
}

fn write(mut writer: impl Writer, entries: &Receiver<Entry>, last_missed: &AtomicU64) {
    let tell = |missed, writer: &mut dyn Writer| {
        if missed > 0 {
            writer.miss(missed, "it took lines more slowly than they came");
        }
    };
    loop {
        let next = match writer.is_behind() {
            true => entries.recv_timeout(AGAIN),
            false => entries.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(Entry { missed, event }) => {
                tell(missed, &mut writer);
                writer.write(&event);
            }
            Err(RecvTimeoutError::Timeout) => writer.tell_again(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    tell(last_missed.load(Ordering::Acquire), &mut writer);
}

/// How often a writer that is behind tries again while nothing else comes.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the last events may take.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use weir_link::events::{About, Kind};

    const LONG: Duration = Duration::from_secs(20);

    /// Says that it has an event, and writes it once it is allowed to.
    struct Slow {
        begun: SyncSender<()>,
        allowed: Receiver<()>,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl Slow {
        fn note(&self, text: String) {
            self.written.lock().expect("no panic").push(text);
        }
    }

    impl Writer for Slow {
        fn write(&mut self, event: &Event) {
            let _ended = self.begun.send(());
            let _ended = self.allowed.recv();
            self.note(event.subject.clone());
        }

        fn miss(&mut self, count: u64, _why: &str) {
            self.note(format!("{count} missing"));
        }
    }

    #[test]
    fn a_writer_that_hangs_holds_up_nothing_and_what_does_not_fit_is_counted() {
        let (begun, is_begun) = sync_channel(0);
        let (allow, allowed) = sync_channel(0);
        let written = Arc::new(Mutex::new(Vec::new()));
        let slow = Slow { begun, allowed, written: Arc::clone(&written) };
        let mut log = Apart::open("the log", LONG, || Ok(slow)).expect("it opens");
        log.patience = LONG;
        let mut write = |number: usize| {
            let subject = number.to_string();
            log.write(&Event::now(Kind::PortDown, About { subject: &subject, ..About::default() }));
        };
        // It hangs at the first, and a queue of others waits.
        write(0);
        is_begun.recv().expect("it writes");
        (1..=EVENTS_MAX + 5).for_each(&mut write);
        // Room for one more.
        allow.send(()).expect("it waits");
        is_begun.recv().expect("it writes the next");
        (EVENTS_MAX + 6..EVENTS_MAX + 10).for_each(&mut write);
        drop((allow, is_begun));
        drop(log);
        let texts = written.lock().expect("no panic");
        let numbers = (0..=EVENTS_MAX).map(|number| number.to_string());
        let after = ["5 missing".to_owned(), (EVENTS_MAX + 6).to_string(), "3 missing".to_owned()];
        assert_eq!(*texts, numbers.chain(after).collect::<Vec<_>>());
    }

    /// Fails until it is told again.
    struct Behind(bool, SyncSender<&'static str>);

    impl Writer for Behind {
        fn write(&mut self, _: &Event) {
            self.0 = true;
            let _ended = self.1.send("in vain");
        }

        fn miss(&mut self, _: u64, _: &str) {}

        fn is_behind(&self) -> bool {
            self.0
        }

        fn tell_again(&mut self) {
            self.0 = false;
            let _ended = self.1.send("told");
        }
    }

    #[test]
    fn one_that_is_behind_tells_it_though_nothing_else_comes() {
        let (tell, told) = sync_channel(2);
        let mut log = Apart::open("the log", LONG, || Ok(Behind(false, tell))).expect("it opens");
        log.write(&Event::now(Kind::PortDown, About::default()));
        assert_eq!([told.recv_timeout(LONG), told.recv_timeout(LONG)], [Ok("in vain"), Ok("told")]);
    }

    #[test]
    fn one_that_cannot_be_opened_says_why() {
        let refused = || Err::<Slow, _>(SystemError::refused("open it", "it is Sunday", ""));
        let error = Apart::open("the log", LONG, refused).expect_err("it is refused");
        assert!(error.to_string().contains("it is Sunday"), "{error}");
        let (_never, hang) = sync_channel::<()>(0);
        let hangs = move || {
            let _end = hang.recv();
            Err::<Slow, _>(SystemError::refused("open it", "it ended", ""))
        };
        let error = Apart::open("the log", Duration::ZERO, hangs).expect_err("it hangs");
        assert!(error.to_string().contains("it did not open within 0 ms"), "{error}");
    }
}
