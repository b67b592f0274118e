//! Reads the status of a link, again and again, on a thread of its own: a link that answers late
//! delays no key.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use weir_control::client;
use weir_control::protocol::Query;
use weir_live::status::Status;

/// What was read of a link.
pub enum Update {
    /// Its status.
    Status(Box<Status>),
    /// It does not answer, for this reason.
    Lost(String),
}

/// The thread that reads. It ends some time after this is dropped.
pub struct Reader {
    updates: Receiver<Update>,
    find: Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>,
    ends: Arc<AtomicBool>,
}

impl Reader {
    /// Begins to read the link whose socket `find` finds.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        find: impl Fn() -> Result<PathBuf, String> + Send + Sync + 'static,
        query: Query,
        interval: Duration,
    ) -> io::Result<Self> {
        let (send, updates) = sync_channel(UPDATES_MAX);
        let find: Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync> = Arc::new(find);
        let ends = Arc::new(AtomicBool::new(false));
        let (ended, finds) = (Arc::clone(&ends), Arc::clone(&find));
        let read = move || {
            let status = || finds().and_then(|socket| client::status(&socket, &query));
            work(&status, &send, interval, &ended);
        };
        thread::Builder::new().name("reader".to_owned()).spawn(read)?;
        Ok(Self { updates, find, ends })
    }

    /// Returns what was read since the last call.
    pub fn updates(&self) -> impl Iterator<Item = Update> + '_ {
        self.updates.try_iter()
    }

    /// Returns the socket of the link.
    pub fn find(&self) -> Result<PathBuf, String> {
        (self.find)()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn work(
    status: &dyn Fn() -> Result<Status, String>,
    send: &SyncSender<Update>,
    interval: Duration,
    ended: &AtomicBool,
) {
    let mut due = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        let update = match status() {
            Ok(status) => Update::Status(Box::new(status)),
            Err(error) => Update::Lost(error),
        };
        if send.send(update).is_err() {
            return;
        }
        due = (due + interval).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Updates that wait for a screen that is not drawn.
const UPDATES_MAX: usize = 2;
