//! The server: a thread that accepts clients, and a thread for each client, which answers from the
//! run loops' boards; one more computes what the loops did in the last seconds.
//!
//! Invariant: whatever clients do, at most [`CLIENTS_MAX`] are served at once beside
//! [`BEHALF_MAX`] that act for clients of the API, each for a bounded time between requests and for
//! an answer, and each takes a bounded amount of memory. Nothing here opens a file or a socket once
//! the server runs.

mod meet;
mod talk;
#[cfg(test)]
mod tests;
mod wire;

use crate::listen::{self, Bound};
use crate::places::own_uid;
use crate::printable::printable;
use crate::protocol::{Answer, Request};
use crate::service::{Cause, Peer, Refused, Service};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_host::peer;
use weir_link::status::{Board, History};
use wire::Stream;

/// Why the conversation with a client ended.
pub type Refusal = (Cause, String);

/// A server at work; it ends when it is dropped.
pub struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Computes rates and delays of the last seconds.
    history: Option<History>,
    /// The socket's file, where the server made it itself.
    bound: Option<Bound>,
}

/// The state that the threads of a server share.
pub(crate) struct Shared {
    pub service: Service,
    /// Whether an answer of very many classes is under way.
    large: Turn,
    /// Clients that read events as they happen.
    streams: Arc<AtomicUsize>,
    /// Connections that act for clients of the API.
    on_behalf: Arc<AtomicUsize>,
}

impl Server {
    /// Listens at `path` and answers from these loops' boards; removes the socket at the end.
    ///
    /// # Errors
    /// When another link answers there, or the path cannot be bound; the text says what to do.
    pub fn start(path: &Path, boards: Vec<Arc<Board>>) -> Result<Self, String> {
        let (bound, listener) = listen::bind(path, None)?;
        let started = Self::on(listener, Service::of(boards, own_uid()));
        let mut server =
            started.map_err(|error| format!("cannot serve {}: {error}", path.display()))?;
        server.bound = Some(bound);
        Ok(server)
    }

    /// Serves clients of a listener that another process may have bound, and whose file is left
    /// alone. Once it returns, the server's threads need poll, accept4, getsockopt, setsockopt,
    /// recvfrom, read, write, sendmsg, shutdown and close, and what threads and memory take:
    /// clone3, mmap, munmap, mprotect, madvise, futex, rseq, set_robust_list, sigaltstack, prctl
    /// (the name).
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub fn on(listener: UnixListener, service: Service) -> io::Result<Self> {
        // A client that disconnects at once must not let the thread wait for the next.
        fcntl_setfl(&listener, fcntl_getfl(&listener)? | OFlags::NONBLOCK)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let history = History::begin(service.boards.clone())?;
        let (stopped, shared) = (Arc::clone(&stop), Arc::new(Shared::of(service)));
        let work = move || serve(&listener, &shared, &stopped);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread), history: Some(history), bound: None })
    }
}

/// Reads any bytes as the line of a client: for the fuzz target.
pub fn exercise(line: &[u8]) {
    match talk::read(line) {
        Ok(request) => {
            let text = serde_json::to_vec(&request).expect("a request is JSON");
            assert_eq!(talk::read(&text).ok(), Some(request.clone()), "it is read as written");
            if let Request::Status(query) = &request
                && query.check().is_ok()
            {
                let _any = query.matches("home-7/web") || query.matches("");
            }
        }
        Err((_, text)) => assert!(text.len() < 1500, "a refusal is short: {text}"),
    }
}

impl Server {
    /// Accepts no further clients, and ends the conversations once answers that are on their way
    /// have left.
    pub fn finish(&self) {
        // An eventfd takes any number below 2^64 - 1.
        let _written = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finish();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the link itself is unharmed.
            drop(thread.join());
        }
        drop(self.history.take());
        drop(self.bound.take());
    }
}

/// A client that is being served.
struct Client {
    stream: Arc<Stream>,
    thread: JoinHandle<()>,
}

/// Accepts clients, each on a thread of its own so that none waits for another, until stopped.
fn serve(listener: &UnixListener, shared: &Arc<Shared>, stop: &OwnedFd) {
    let mut clients: Vec<Client> = Vec::with_capacity(CLIENTS_MAX);
    loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is tried again.
        let _count = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            break;
        }
        accept(listener, &mut clients, shared);
    }
    end(clients);
}

/// Ends the conversations. An answer that is on its way may still leave: that of a restart, for
/// example, comes just before the end.
fn end(clients: Vec<Client>) {
    clients.iter().for_each(|client| client.stream.end_reading());
    let start = Instant::now();
    let is_answering = |client: &Client| !client.thread.is_finished();
    while clients.iter().any(is_answering) && start.elapsed() < LAST_ANSWERS {
        std::thread::sleep(LAST_LOOK);
    }
    for client in clients {
        client.stream.end();
        // A panic of the thread was printed when it happened; the link itself is unharmed.
        drop(client.thread.join());
    }
}

/// Accepts a client if one waits.
fn accept(listener: &UnixListener, clients: &mut Vec<Client>, shared: &Arc<Shared>) {
    clients.retain(|client| !client.thread.is_finished());
    match listener.accept() {
        Ok((socket, _)) => {
            let others = clients.iter().filter(|client| !client.stream.is_on_behalf()).count();
            clients.extend(shared.attend(Stream::new(socket), others));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // Without a free descriptor the next try would fail as well.
        Err(_) => std::thread::sleep(ACCEPT_PAUSE),
    }
}

impl Shared {
    pub(crate) fn of(service: Service) -> Self {
        let (large, streams) = (Turn::default(), Arc::default());
        Self { service, large, streams, on_behalf: Arc::default() }
    }

    /// Starts a thread for this client, unless `others` are too many already.
    fn attend(self: &Arc<Self>, stream: Stream, others: usize) -> Option<Client> {
        let credentials = peer::credentials(stream.as_fd()).ok();
        let uid = credentials.map(|one| one.uid);
        let peer = Peer { uid, user: uid, token: None };
        // The keeper connects for the gateway, and may need a place however many others have one.
        let process = credentials.and_then(|one| one.process);
        if process.is_some_and(|process| self.service.is_keeper(process)) {
            let Some(place) = self.begin_on_behalf() else {
                self.turn_away(&stream, &peer, BEHALF_MAX);
                return None;
            };
            stream.act_on_behalf();
            return self.start(stream, peer, Some(place));
        }
        let reserve = if self.service.may_change(&peer) { 0 } else { CLIENTS_RESERVED };
        if others + reserve >= CLIENTS_MAX {
            self.turn_away(&stream, &peer, CLIENTS_MAX);
            return None;
        }
        self.start(stream, peer, None)
    }

    fn start(
        self: &Arc<Self>,
        stream: Stream,
        mut peer: Peer,
        place: Option<Slot>,
    ) -> Option<Client> {
        let stream = Arc::new(stream);
        let (own, shared) = (Arc::clone(&stream), Arc::clone(self));
        let work = move || {
            if let Err((cause, text)) = talk::converse(&own, &mut peer, (&shared, place)) {
                shared.refuse(&peer, cause, &text);
            }
            // The other owner of the stream keeps it until it sees that this thread has ended.
            own.end();
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(work).ok()?;
        Some(Client { stream, thread })
    }

    fn turn_away(&self, stream: &Stream, peer: &Peer, clients_max: usize) {
        let text = format!("{clients_max} clients are connected already; try again");
        // The client may have disconnected; an answer fits the buffer of a new socket, so this does
        // not wait.
        let _gone = talk::send(stream, &Answer::Error(text.clone()), ACCEPT_PAUSE);
        self.refuse(peer, Cause::Busy, &text);
    }

    fn refuse(&self, peer: &Peer, cause: Cause, text: &str) {
        // The client gets the rest.
        let line = text.lines().next().unwrap_or_default();
        let cut = line.char_indices().nth(REFUSAL_MAX).map_or(line.len(), |(end, _)| end);
        let text = printable(&line[..cut]).into_owned();
        let is_tcp = peer.token.is_some() && peer.user.is_none();
        (self.service.refused)(Refused { uid: peer.user, is_tcp, cause, text });
    }

    /// Returns a place for a client that reads events as they happen, if there is one.
    fn begin_stream(&self) -> Option<Slot> {
        let place = Slot(Arc::clone(&self.streams));
        (self.streams.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX).then_some(place)
    }

    /// Returns a place among those who act for clients of the API, if there is one.
    fn begin_on_behalf(&self) -> Option<Slot> {
        let slot = Slot(Arc::clone(&self.on_behalf));
        (self.on_behalf.fetch_add(1, Ordering::Relaxed) < BEHALF_MAX).then_some(slot)
    }

    /// Returns a guard of the one large answer at a time, if there is none. The one before ends
    /// shortly after its client has it, and that client may already ask for the next.
    fn begin_large(&self) -> Option<Large<'_>> {
        let taken = self.large.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.large.given_back.wait_timeout_while(taken, LARGE_WAIT, |taken| *taken);
        let (mut taken, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            return None;
        }
        *taken = true;
        Some(Large(&self.large))
    }
}

/// The place of a client that reads events, or of one that acts for a client of the API, until it
/// is dropped.
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The turn of large answers, one at a time.
#[derive(Default)]
struct Turn {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// Lets the next large answer begin when it is dropped.
pub(crate) struct Large<'a>(&'a Turn);

impl Drop for Large<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.given_back.notify_one();
    }
}

/// How long a large answer waits for the one before it, at most.
const LARGE_WAIT: Duration = Duration::from_secs(1);
/// Bound: characters of a refusal that the event tells; the rest is cut off. The gateway tells its
/// own, and may have been taken over.
const REFUSAL_MAX: usize = 400;
/// Bound: clients served at once; further ones receive an error that says to try again.
pub const CLIENTS_MAX: usize = 16;
/// So many of them are only for root and the user who runs the link.
pub const CLIENTS_RESERVED: usize = 4;
/// Bound: connections of the gateway that act for clients of the API, beside the clients served;
/// further ones are turned away. More than it opens at once.
pub const BEHALF_MAX: usize = 48;
/// Bound: clients that read events as they happen; further ones are turned away. They take as long
/// as they like.
pub const STREAMS_MAX: usize = 8;
/// How long answers may take that are on their way when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
const LAST_LOOK: Duration = Duration::from_millis(2);
/// The pause after a client that could not be accepted, and the longest wait to turn one away.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
