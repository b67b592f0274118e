//! The server: a thread that accepts clients, and a thread for each client, which answers from the
//! run loops' boards.
//!
//! Invariant: whatever clients do, at most [`CLIENTS_MAX`] are served at once, each for a bounded
//! time between requests and for an answer, and each takes a bounded amount of memory. Nothing
//! here opens a file or a socket once the server runs.

mod talk;
#[cfg(test)]
mod tests;

use crate::listen::{self, Bound};
use crate::places::own_uid;
use crate::printable::printable;
use crate::protocol::{Answer, Request};
use crate::service::{Cause, Peer, Refused, Service};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_live::peer;
use weir_live::status::Board;

/// A server at work; it ends when it is dropped.
pub struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// The socket's file, where the server made it itself.
    bound: Option<Bound>,
}

/// What the threads of a server share.
struct Shared {
    service: Service,
    /// Whether an answer of very many classes is under way.
    large: AtomicBool,
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

    /// Answers on a listener that another process may have bound, and whose file is left alone.
    /// Once it returns, the server's threads need poll, accept4, getsockopt, setsockopt, recvfrom,
    /// read, write, sendmsg, shutdown and close, and what threads and memory take: clone3, mmap,
    /// munmap, mprotect, madvise, futex, rseq, set_robust_list, sigaltstack, prctl (the name).
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub fn on(listener: UnixListener, service: Service) -> io::Result<Self> {
        // A client that disconnects at once must not let the thread wait for the next.
        fcntl_setfl(&listener, fcntl_getfl(&listener)? | OFlags::NONBLOCK)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (stopped, shared) =
            (Arc::clone(&stop), Shared { service, large: AtomicBool::new(false) });
        let work = move || serve(&listener, &Arc::new(shared), &stopped);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread), bound: None })
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
        drop(self.bound.take());
    }
}

/// A client that is being served.
struct Client {
    stream: Arc<UnixStream>,
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
        clients.retain(|client| !client.thread.is_finished());
        match listener.accept() {
            Ok((stream, _)) => clients.extend(shared.attend(stream, clients.len())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Without a free descriptor the next try would fail as well.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
    end(clients);
}

/// Ends the conversations. An answer that is on its way may still leave: that of a restart, for
/// example, comes just before the end.
fn end(clients: Vec<Client>) {
    for client in &clients {
        // Ends the client's reading; an error means that it has disconnected already.
        let _ = client.stream.shutdown(Shutdown::Read);
    }
    let start = Instant::now();
    let is_answering = |client: &Client| !client.thread.is_finished();
    while clients.iter().any(is_answering) && start.elapsed() < LAST_ANSWERS {
        std::thread::sleep(LAST_LOOK);
    }
    for client in clients {
        let _ = client.stream.shutdown(Shutdown::Both);
        // A panic of the thread was printed when it happened; the link itself is unharmed.
        drop(client.thread.join());
    }
}

impl Shared {
    /// Starts a thread for this client, unless `others` are too many already.
    fn attend(self: &Arc<Self>, stream: UnixStream, others: usize) -> Option<Client> {
        let peer = Peer { uid: peer::uid(stream.as_fd()).ok() };
        let reserve = if self.service.may_change(&peer) { 0 } else { CLIENTS_RESERVED };
        if others + reserve >= CLIENTS_MAX {
            self.turn_away(&stream, &peer);
            return None;
        }
        let stream = Arc::new(stream);
        let (own, shared) = (Arc::clone(&stream), Arc::clone(self));
        let work = move || {
            if let Err((cause, text)) = talk::converse(&own, &peer, &shared) {
                shared.refuse(&peer, cause, &text);
            }
            // The other owner of the stream keeps it until it sees that this thread has ended.
            let _ = own.shutdown(Shutdown::Both);
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(work).ok()?;
        Some(Client { stream, thread })
    }

    fn turn_away(&self, stream: &UnixStream, peer: &Peer) {
        let text = format!("{CLIENTS_MAX} clients are connected already; try again");
        // The client may have disconnected; a line fits the buffer of a new socket, so this does
        // not wait.
        let _ = stream
            .set_write_timeout(Some(ACCEPT_PAUSE))
            .and_then(|()| talk::send(stream, &Answer::Error(text.clone()), ACCEPT_PAUSE));
        self.refuse(peer, Cause::Busy, &text);
    }

    fn refuse(&self, peer: &Peer, cause: Cause, text: &str) {
        // The client gets the rest.
        let text = printable(text.lines().next().unwrap_or_default()).into_owned();
        (self.service.refused)(Refused { uid: peer.uid, cause, text });
    }

    /// Returns a guard of the one large answer at a time, if there is none.
    fn begin_large(&self) -> Option<Large<'_>> {
        (!self.large.swap(true, Ordering::Acquire)).then_some(Large(&self.large))
    }
}

/// Lets the next large answer begin when it is dropped.
struct Large<'a>(&'a AtomicBool);

impl Drop for Large<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Clients served at once; further ones receive an error that says to try again.
pub const CLIENTS_MAX: usize = 16;
/// So many of them are only for root and the user who runs the link.
pub const CLIENTS_RESERVED: usize = 4;
/// How long answers may take that are on their way when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
const LAST_LOOK: Duration = Duration::from_millis(2);
/// The pause after a client that could not be accepted, and the longest wait to turn one away.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
