//! The server of the page: a thread that accepts clients, and a thread for each.
//!
//! Invariant: whatever clients do, at most [`CLIENTS_MAX`] are served at once, each for a bounded
//! time between requests and for an answer, and each takes a bounded amount of memory. None of them
//! asks the link by itself for what all see: the source has that. An answer that panics is counted,
//! costs its client the connection, and costs others nothing.

mod answer;
pub mod feed;
mod pass;
mod route;
mod stream;
mod talk;
#[cfg(test)]
mod tests;

use crate::assets;
use crate::source::Source;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
#[cfg(test)]
pub(crate) use talk::answer;
pub use talk::exercise;
use weir_control::http::{self, Site};
use weir_control::server::{Stream, Timed, within};
use weir_control::web::Web;

/// A server at work; it ends when it is dropped.
pub struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of a server share.
pub struct Shared {
    /// What is shown.
    pub source: Arc<dyn Source>,
    /// Who may see it; without it everybody, for tests.
    web: Option<Web>,
    /// Clients that read the stream.
    streams: AtomicUsize,
    /// Requests that take long or ask the link, under way.
    works: AtomicUsize,
    /// Answers that go through all that is kept, until their clients have read them.
    wide: AtomicUsize,
    /// Such answers are made one after the other.
    making: Mutex<()>,
    /// Requests whose answers panicked: each a fault of Weir.
    panics: AtomicU64,
    ending: AtomicBool,
}

impl Server {
    /// Serves what a source shows on the listener of `web`.
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub fn start(web: Web, source: Arc<dyn Source>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (stopped, shared) = (Arc::clone(&stop), Arc::new(Shared::of(source, Some(web))));
        let work = move || serve(&shared, &stopped);
        let thread = std::thread::Builder::new().name("page".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An eventfd takes any number below 2^64 - 1.
        let _written = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            drop(thread.join());
        }
    }
}

/// A client that is being served.
struct Client {
    stream: Arc<Stream>,
    thread: JoinHandle<()>,
}

/// Accepts clients, each on a thread of its own so that none waits for another, until stopped.
fn serve(shared: &Arc<Shared>, stop: &OwnedFd) {
    let Some(web) = &shared.web else { return };
    let mut clients: Vec<Client> = Vec::with_capacity(CLIENTS_MAX);
    // Compressed before the first client waits for it.
    let _page = assets::all();
    loop {
        let mut ready = [
            PollFd::new(web, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is tried again.
        let _count = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            break;
        }
        clients.retain(|client| !client.thread.is_finished());
        match web.accept() {
            Ok(stream) => clients.extend(shared.attend(Stream::Tcp(stream), clients.len())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Without a free descriptor the next try would fail as well.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
    shared.ending.store(true, Ordering::Relaxed);
    for client in clients {
        client.stream.end();
        // A panic of the thread was printed when it happened.
        drop(client.thread.join());
    }
}

impl Shared {
    /// What a server of this source shares.
    pub fn of(source: Arc<dyn Source>, web: Option<Web>) -> Self {
        let [streams, works, wide] = [(); 3].map(|()| AtomicUsize::new(0));
        let (panics, ending) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { source, web, streams, works, wide, making: Mutex::new(()), panics, ending }
    }

    /// Starts a thread for this client, unless `others` are too many already.
    fn attend(self: &Arc<Self>, stream: Stream, others: usize) -> Option<Client> {
        if others >= CLIENTS_MAX {
            // One of TLS is turned away without a word.
            if stream.first_now().is_some_and(|first| first.is_ascii_uppercase()) {
                let text = format!("{CLIENTS_MAX} clients are connected already; try again");
                http::turn_away(&mut Timed::new(&stream, ACCEPT_PAUSE), &text, ACCEPT_PAUSE);
            }
            return None;
        }
        let stream = Arc::new(stream);
        let (own, shared) = (Arc::clone(&stream), Arc::clone(self));
        let work = move || {
            let tls = shared.web.as_ref().and_then(Web::tls);
            // The other owner of the stream keeps it until it sees that this thread has ended.
            let ended = EndsWith(&own);
            // What a client did wrong it is told itself.
            let _refusal = within(&own, tls, talk::REQUEST_PATIENCE, &mut |wire| {
                talk::converse(wire, &shared)
            });
            drop(ended);
        };
        let thread = std::thread::Builder::new().name("viewer".to_owned()).spawn(work).ok()?;
        Some(Client { stream, thread })
    }

    /// Returns what admits requests.
    fn site(&self) -> Site<'_> {
        self.web.as_ref().map_or(Site::Local, Site::Web)
    }

    /// Returns whether the server ends.
    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

/// Ends a connection when it is dropped, also by a panic: no client waits for an ended thread.
struct EndsWith<'a>(&'a Stream);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A place among so many; it is free again when this is dropped.
struct Slot<'a>(&'a AtomicUsize);

impl<'a> Slot<'a> {
    fn take(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let slot = Slot(count);
        (slot.0.fetch_add(1, Ordering::Relaxed) < max).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Clients served at once; a browser opens up to six connections for a page.
pub const CLIENTS_MAX: usize = 64;
/// So many may read the stream, which takes as long as they like.
pub const STREAMS_MAX: usize = 32;
/// Requests at once that ask the link or compute for long.
pub const WORKS_MAX: usize = 4;
/// Answers at once that go through all that is kept.
pub const WIDE_MAX: usize = 16;
/// The pause after a client that could not be accepted, and the longest wait to turn one away.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
