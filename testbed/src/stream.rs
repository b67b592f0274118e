//! Numbered datagrams from one host to another: which arrived, when, and how often.
//!
//! Two threads send and receive. Invariant: a number is used once, and only for a datagram that the
//! sender's kernel took; so what is missing in the end was lost behind it.

mod found;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_host::batch::{self, BATCH_MAX, Inbox};
use weir_host::netns::NetNs;
use weir_host::wait::{
    WaitPolicy, Waiter, monotonic_ns, pin_to_cpu, set_exact_timers, usable_cpus,
};

use crate::{Host, Result, Testbed, until, until_ok, until_seen};
use found::{Arrived, Sent};

pub use found::{Found, Gap};

/// The datagrams of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// The port of the receiver.
    pub port: u16,
    /// Datagrams a second, at even intervals; 0 for a pause.
    pub per_second: u32,
    /// The payload of each in bytes, at least 16.
    pub length: usize,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self { port: 5004, per_second: 1000, length: 64 }
    }
}

/// Between which hosts a stream runs.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The network of the sender.
    pub from: &'a NetNs,
    /// The network of the receiver.
    pub to: &'a NetNs,
    /// The address to which datagrams are sent.
    pub address: IpAddr,
}

/// A stream that runs, until [`Stream::finish`].
#[derive(Debug)]
pub struct Stream {
    progress: Arc<Progress>,
    /// Of the sender: what is sent behind the last number goes by the same flow.
    socket: UdpSocket,
    identity: u64,
    sender: Option<JoinHandle<Sent>>,
    /// The datagrams that were sent, once the sender has ended.
    all: Option<Sent>,
    receiver: Option<JoinHandle<Result<Arrived>>>,
}

/// The state that the threads share with the test.
#[derive(Debug, Default)]
struct Progress {
    per_second: AtomicU32,
    length: AtomicUsize,
    sent: AtomicU64,
    arrived: AtomicU64,
    /// One more than the highest number that arrived.
    beyond: AtomicU64,
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
}

impl Stream {
    /// Starts to send from the client to the server.
    ///
    /// # Errors
    /// As the system says.
    pub fn numbered(testbed: &Testbed, config: StreamConfig) -> Result<Self> {
        let (from, to) = (&testbed.client, &testbed.server);
        Self::between(Ends { from, to, address: Host::Server.ip4() }, config)
    }

    /// Starts to send between these hosts.
    ///
    /// # Errors
    /// As the system says.
    pub fn between(ends: Ends<'_>, config: StreamConfig) -> Result<Self> {
        let server = bind(ends.to, ends.address, config.port)?;
        batch::stamp_received(server.as_fd())?;
        batch::enlarge_receive_buffer(server.as_fd(), RECEIVE_BYTES);
        let any = match ends.address {
            IpAddr::V4(_) => "0.0.0.0:0",
            IpAddr::V6(_) => "[::]:0",
        };
        let socket = ends.from.run(|| UdpSocket::bind(any))??;
        socket.connect(SocketAddr::new(ends.address, config.port))?;
        socket.set_nonblocking(true)?;
        let number = STREAMS.fetch_add(1, Ordering::Relaxed);
        let identity = u64::from(process::id()) << 32 | number;
        let progress = Arc::new(Progress::default());
        progress.change(config.per_second, config.length);
        let (sending, receiving) = (Arc::clone(&progress), Arc::clone(&progress));
        let sends = socket.try_clone()?;
        let sender = thread::spawn(move || send(&sends, identity, &sending));
        let receiver = thread::spawn(move || receive(&server, identity, &receiving));
        let (sender, receiver) = (Some(sender), Some(receiver));
        Ok(Self { progress, socket, identity, sender, all: None, receiver })
    }

    /// Returns how many were sent so far.
    pub fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }

    /// Returns how many different ones arrived so far.
    pub fn arrived(&self) -> u64 {
        self.progress.arrived.load(Ordering::Acquire)
    }

    /// Sends so many a second from now on, each with a payload of so many bytes.
    pub fn change(&self, per_second: u32, length: usize) {
        self.progress.change(per_second, length);
    }

    /// Waits until one arrives that was sent after this call.
    ///
    /// # Errors
    /// When none arrives.
    pub fn await_another(&self) -> Result<()> {
        // The sender may have sent this number already, and not have told yet.
        let next = self.sent();
        let look = || (self.sent(), self.progress.beyond.load(Ordering::Acquire));
        let what = format!("a datagram behind number {next} arrives (sent, next after the last)");
        until_seen(&what, look, |(_, beyond)| *beyond > next + 1).map(drop)
    }

    /// Stops sending, and goes on to receive; returns how many were sent.
    pub fn stop_sending(&mut self) -> u64 {
        self.progress.stop_sending.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            self.all = Some(joined(sender));
        }
        self.sent()
    }

    /// Stops sending, waits until what is on its way has arrived, and returns what became of all.
    ///
    /// Marks are sent by the same flow, behind the last number, until one of them arrives. A link
    /// keeps the order of a flow, so by then every number has arrived or was lost. Where two
    /// forwarders may hold datagrams at once, await the end of the former one first.
    ///
    /// # Errors
    /// When no mark arrives, or the receiver had no room for what arrived: then the counts would
    /// not say what the link lost.
    pub fn finish(mut self) -> Result<Found> {
        self.stop_sending();
        let mut marks = 0;
        let receiver = self.receiver.as_ref().expect("it finishes once");
        let mark = [self.identity.to_be_bytes(), MARK.to_be_bytes()].concat();
        let awaited = until("a mark behind the last datagram arrives", || {
            // While an interface is down nothing is sent.
            marks += u64::from(!receiver.is_finished() && self.socket.send(&mark).is_ok());
            receiver.is_finished()
        });
        let found = self.found(marks)?;
        awaited.map_err(|why| format!("{why}: {found:?}"))?;
        match found.overruns() {
            0 => Ok(found),
            lost => Err(format!("the receiver had no room for {lost} datagrams: {found:?}").into()),
        }
    }

    /// As [`Stream::finish`], of a link that may carry nothing any more: no mark is awaited. What
    /// is still on its way, or had no room at the receiver, counts as lost.
    ///
    /// # Errors
    /// As the system says.
    pub fn cut_off(mut self) -> Result<Found> {
        self.stop_sending();
        self.found(0)
    }

    /// Stops receiving, after sending was stopped.
    fn found(&mut self, marks: u64) -> Result<Found> {
        self.progress.stop_receiving.store(true, Ordering::Relaxed);
        let sent = self.all.take().expect("it was sent");
        let receiver = self.receiver.take().expect("it finishes once");
        Ok(Found::new(sent, joined(receiver)?, marks))
    }
}

impl Progress {
    fn change(&self, per_second: u32, length: usize) {
        self.length.store(length, Ordering::Relaxed);
        self.per_second.store(per_second, Ordering::Relaxed);
    }

    fn interval_ns(&self) -> Option<u64> {
        1_000_000_000_u64.checked_div(self.per_second.load(Ordering::Relaxed).into())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.progress.stop_sending.store(true, Ordering::Relaxed);
        self.progress.stop_receiving.store(true, Ordering::Relaxed);
        // A test that panicked has said why.
        drop(self.sender.take().map(JoinHandle::join));
        drop(self.receiver.take().map(JoinHandle::join));
    }
}

/// Binds a socket for datagrams. A child that another test starts has copies of all sockets until
/// it runs its program, so the port of one that was closed may be taken for a moment longer.
///
/// # Errors
/// As the system says, and when another socket keeps the port.
pub fn bind(place: &NetNs, address: IpAddr, port: u16) -> Result<UdpSocket> {
    let look = || match place.run(|| UdpSocket::bind((address, port))) {
        Ok(Err(error)) if error.kind() == ErrorKind::AddrInUse => Err(error),
        bound => Ok(bound),
    };
    let bound = until_ok(&format!("port {port} is free"), look)?;
    Ok(bound??)
}

/// Sends at even intervals until it is stopped.
fn send(socket: &UdpSocket, identity: u64, progress: &Progress) -> Sent {
    // Without exact timers the intervals are less even.
    drop(set_exact_timers());
    // Each processor has a queue of what a veth interface takes, so that datagrams of a thread that
    // moves to another may overtake the ones before.
    let cpus = usable_cpus().unwrap_or_default();
    let at = identity as usize % cpus.len().max(1);
    drop(cpus.get(at).map(|cpu| pin_to_cpu(*cpu)));
    let mut bytes = identity.to_be_bytes().to_vec();
    let mut sent = Sent::every(progress.interval_ns().unwrap_or_default());
    let mut due_ns = monotonic_ns();
    while !progress.stop_sending.load(Ordering::Relaxed) && sent.count() < NUMBERS_MAX {
        let now_ns = monotonic_ns();
        let Some(interval_ns) = progress.interval_ns() else {
            thread::sleep(PAUSE);
            continue;
        };
        if due_ns > now_ns {
            thread::sleep(Duration::from_nanos(due_ns - now_ns));
        } else if now_ns - due_ns > LATE_MAX_NS {
            // What a pause left undone is not made up for.
            due_ns = now_ns;
        }
        due_ns += interval_ns;
        bytes.resize(progress.length.load(Ordering::Relaxed).max(HEADER), 0);
        bytes[8..HEADER].copy_from_slice(&sent.count().to_be_bytes());
        let at_ns = monotonic_ns();
        match socket.send(&bytes) {
            Ok(_) => sent.note(at_ns),
            // While an interface is down; the number is still free.
            Err(_) => sent.note_refused(at_ns),
        }
        progress.sent.store(sent.count(), Ordering::Release);
    }
    sent
}

/// Receives until a mark arrives, or it is stopped.
fn receive(socket: &UdpSocket, identity: u64, progress: &Progress) -> Result<Arrived> {
    let mut inbox = Inbox::new(BATCH_MAX, HEADER);
    let mut waiter = Waiter::new(WaitPolicy::Block, &[socket.as_raw_fd()]);
    let mut arrived = Arrived::default();
    while !progress.stop_receiving.load(Ordering::Relaxed) {
        let count = inbox.receive(socket.as_fd())?;
        if count == 0 {
            let now_ns = monotonic_ns();
            waiter.wait(now_ns, Some(now_ns + LOOK_NS))?;
        }
        let ahead_ns = batch::realtime_ahead_ns();
        for index in 0..count {
            let message = inbox.message(index);
            arrived.overruns = arrived.overruns.max(message.overruns.unwrap_or(0));
            let Some(number) = number_in(message.bytes, identity) else { continue };
            if number == MARK {
                return Ok(arrived);
            }
            let stamp_ns = message.stamp_ns.map(|stamp| stamp.saturating_add_signed(-ahead_ns));
            arrived.note(number, stamp_ns.unwrap_or_else(monotonic_ns));
        }
        progress.arrived.store(arrived.count, Ordering::Release);
        progress.beyond.store(arrived.beyond(), Ordering::Release);
    }
    Ok(arrived)
}

/// Returns the number in a datagram, or [`MARK`]; nothing if it is of another stream.
fn number_in(bytes: &[u8], identity: u64) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk()?;
    let number = u64::from_be_bytes(*rest.first_chunk()?);
    let is_ours = u64::from_be_bytes(*head) == identity;
    (is_ours && (number < NUMBERS_MAX || number == MARK)).then_some(number)
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How many streams were started: those of one before may still be on their way.
static STREAMS: AtomicU64 = AtomicU64::new(0);
/// The bytes of a stream's identity and of a number.
const HEADER: usize = 16;
/// The number of a datagram that only says that nothing follows.
const MARK: u64 = u64::MAX;
/// The most datagrams of a stream: at 1 kHz, a day and a half. It then stops.
const NUMBERS_MAX: u64 = 1 << 27;
/// Room for a minute of a stream while the machine lets its receiver wait.
const RECEIVE_BYTES: u32 = 64 << 20;
/// A sender that is later than this does not catch up.
const LATE_MAX_NS: u64 = 20_000_000;
/// How often a sender that sends nothing looks whether it should.
const PAUSE: Duration = Duration::from_millis(1);
/// How often a receiver that gets nothing looks whether it is stopped.
const LOOK_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_of_the_stream_have_a_number() {
        let datagram = |head: u64, number: u64| [head.to_be_bytes(), number.to_be_bytes()].concat();
        let rows = [
            (datagram(7, 3), Some(3)),
            (datagram(7, MARK), Some(MARK)),
            (datagram(8, 3), None),
            (datagram(7, NUMBERS_MAX), None),
            (vec![0; 15], None),
        ];
        for (bytes, expected) in rows {
            assert_eq!(number_in(&bytes, 7), expected, "{bytes:?}");
        }
    }
}
