//! Reads the status of a link, again and again, on a thread of its own: a link that answers late
//! delays no key. A key that asks for other classes wakes it.

use super::sessions::SESSIONS_ASKED;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use weir_control::client;
use weir_control::protocol::{Answer, Query, Request, Reservations};
use weir_link::status::Status;

/// A reading of a link.
pub enum Update {
    /// The whole status.
    Status(Box<Status>),
    /// Its reservations, if it takes any.
    Reservations(Option<Box<Reservations>>),
    /// It does not answer, for this reason.
    Lost(String),
}

/// The thread that reads. It ends some time after this is dropped.
pub struct Reader {
    updates: Receiver<Update>,
    find: Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>,
    queries: Sender<Query>,
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
        let (queries, asked) = channel();
        let finds = Arc::clone(&find);
        let read = move || {
            let link = Link { find: &*finds, query, pause: 0 };
            work(link, &send, interval, &asked);
        };
        thread::Builder::new().name("reader".to_owned()).spawn(read)?;
        Ok(Self { updates, find, queries })
    }

    /// Returns what was read since the last call.
    pub fn updates(&self) -> impl Iterator<Item = Update> + '_ {
        self.updates.try_iter()
    }

    /// Asks for these classes from now on, at once.
    pub fn ask(&self, query: Query) {
        // A thread that has ended said why.
        let _ended = self.queries.send(query);
    }

    /// Returns the socket of the link.
    pub fn find(&self) -> Result<PathBuf, String> {
        (self.find)()
    }
}

/// The link, as the thread asks it.
struct Link<'a> {
    find: &'a dyn Fn() -> Result<PathBuf, String>,
    query: Query,
    /// For how many looks it is not asked for reservations.
    pause: u32,
}

impl Link<'_> {
    fn status(&self) -> Result<Status, String> {
        (self.find)().and_then(|socket| client::status(&socket, &self.query))
    }

    /// Returns its reservations; one that takes none is asked again after some looks, since it may
    /// have been started again.
    fn reservations(&mut self) -> Option<Reservations> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let request = Request::Reservations { limit: Some(SESSIONS_ASKED) };
        match (self.find)().and_then(|socket| client::call(&socket, &request)) {
            Ok(Answer::Reservations(found)) => Some(*found),
            _ => {
                self.pause = PAUSE;
                None
            }
        }
    }
}

fn work(
    mut link: Link<'_>,
    send: &SyncSender<Update>,
    interval: Duration,
    asked: &Receiver<Query>,
) {
    let mut due = Instant::now();
    loop {
        let updates = match link.status() {
            Ok(status) => {
                let found = Update::Reservations(link.reservations().map(Box::new));
                vec![Update::Status(Box::new(status)), found]
            }
            Err(error) => vec![Update::Lost(error)],
        };
        for update in updates {
            if send.send(update).is_err() {
                return;
            }
        }
        if Instant::now() >= due {
            due = (due + interval).max(Instant::now());
        }
        match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
            // Of several only the last is still wanted.
            Ok(query) => link.query = asked.try_iter().last().unwrap_or(query),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Updates that wait for a screen that is not drawn.
const UPDATES_MAX: usize = 4;
/// Looks between two questions for reservations to a link that takes none.
const PAUSE: u32 = 10;
