//! Sends the packets of sources at their instants.
//!
//! One thread sends what does not listen: it takes the stream whose next packet is due first, and
//! gives the kernel all its packets that are due in one call. Each TCP source has a thread of its
//! own (`transfer.rs`). Invariant: the instant of a packet is the start plus its place in the
//! schedule, however late earlier packets were, so lateness never adds up.

use crate::arrivals::Delays;
use crate::frame::FrameMaker;
use crate::mark::{Clock, Kind, Mark};
use crate::neighbour;
use crate::outlet::{Outlet, RawPort, receiver};
use crate::transfer::{self, Transfer};
use serde::Serialize;
use socket2::Socket;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::iter::Peekable;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_core::account::Histogram;
use weir_core::units;
use weir_host::batch::{BATCH_MAX, realtime_ahead_ns, send_batch};
use weir_host::error::{Result, SystemError};
use weir_host::socket::unacknowledged;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns, set_exact_timers};
use weir_policy::table::Table;
use weir_sim::scenario::{Source, Traffic};
use weir_sim::schedule::{Packets, Schedule};

/// The streams to send, and how.
#[derive(Clone, Debug)]
pub struct SendPlan {
    /// The sources; stream 1 is the first.
    pub sources: Vec<Source>,
    /// The number of the first stream.
    pub first_stream: u32,
    /// Another seed is another run.
    pub seed: u64,
    /// After this time no packet is due any more, and late ones are given up.
    pub duration: Duration,
    /// The most packets of each stream.
    pub packets_max: Option<u64>,
    /// Whether to send as fast as possible, whatever the instants are.
    pub flood: bool,
    /// Send whole frames on an interface, not datagrams on sockets.
    pub raw: Option<RawPort>,
    /// The clock of send times.
    pub clock: Clock,
    /// How to wait for an instant.
    pub wait: WaitPolicy,
    /// Whether sockets take the source port of the headers; the kernel chooses one if not.
    pub own_ports: bool,
    /// The number of the interface to which a link-local receiver's address belongs; 0 for others.
    pub zone: u32,
}

/// Streams that are being sent.
pub struct Sender {
    shared: Arc<Shared>,
    packets: Option<JoinHandle<Vec<SentStream>>>,
    transfers: Vec<JoinHandle<SentStream>>,
}

/// The state that threads and their owner share.
#[derive(Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    /// The connections that are open, by their descriptors.
    connections: Mutex<BTreeMap<RawFd, Socket>>,
}

/// A connection that is open: what its socket still holds is not counted as acknowledged.
pub(crate) struct Open<'s> {
    shared: &'s Shared,
    number: RawFd,
}

impl Shared {
    /// Counts a connection as open until the result is dropped.
    pub fn open(&self, socket: &Socket) -> io::Result<Open<'_>> {
        let socket = socket.try_clone()?;
        let number = socket.as_raw_fd();
        self.connections().insert(number, socket);
        Ok(Open { shared: self, number })
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<RawFd, Socket>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.connections().remove(&self.number);
    }
}

/// The packets that were sent.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendReport {
    /// Each stream, in the order of the sources.
    pub streams: Vec<SentStream>,
}

/// The packets that were sent of one stream.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SentStream {
    /// The name of its source.
    pub name: String,
    /// The kind of its source.
    pub kind: &'static str,
    /// The number in its marks.
    pub stream: u32,
    /// `udp`, `tcp` or `raw`.
    pub transport: &'static str,
    /// The address of the receiver.
    pub to: String,
    /// Packets that the system took; for TCP, transfers that were received in whole.
    pub packets: u64,
    /// Bytes of their frames; for TCP, of the payload.
    pub bytes: u64,
    /// Packets that the system refused; for TCP, transfers that failed.
    pub refused: u64,
    /// Packets that came due and were not sent before the end, or were not given to the system: it
    /// took earlier ones too slowly. There may be more.
    pub unsent: u64,
    /// Whether no station answered for the receiver's address, so that nothing reached it.
    pub unanswered: bool,
    /// Packets without room for a mark, which have no number either: the receiver cannot tell
    /// whether one is lost.
    pub unmarked: u64,
    /// Why the system refused the last one.
    pub error: Option<String>,
    /// How late packets were given to the system; for TCP, how long transfers took.
    pub late: Delays,
}

/// The identity of a stream in reports.
impl SentStream {
    pub(crate) fn new(source: &Source, stream: u32, transport: &'static str, to: String) -> Self {
        Self {
            name: source.name.clone(),
            kind: source.traffic.keyword(),
            stream,
            transport,
            to,
            packets: 0,
            bytes: 0,
            refused: 0,
            unsent: 0,
            unanswered: false,
            unmarked: 0,
            error: None,
            late: Delays::default(),
        }
    }
}

impl SendPlan {
    /// These sources for ten seconds, over sockets.
    pub fn new(sources: Vec<Source>) -> Self {
        Self {
            sources,
            first_stream: 1,
            seed: weir_sim::read::SEED_DEFAULT,
            duration: Duration::from_secs(10),
            packets_max: None,
            flood: false,
            raw: None,
            clock: Clock::default(),
            wait: WaitPolicy::Block,
            own_ports: false,
            zone: 0,
        }
    }
}

impl Sender {
    /// Opens the sockets in this thread's namespace and begins to send.
    ///
    /// # Errors
    /// When a socket or the interface cannot be opened, or a stream has no receiver.
    pub fn start(plan: &SendPlan) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let raw = plan.raw.as_ref().map(|port| Ok((port, port.open()?))).transpose()?;
        let start_ns = monotonic_ns() + START_NS;
        let (mut streams, mut transfers) = (Vec::new(), Vec::new());
        for (index, source) in plan.sources.iter().enumerate() {
            let number = plan.first_stream + index as u32;
            match Schedule::new(plan.seed, source) {
                Schedule::Transfers(_) if source.traffic.quic().is_some() => {
                    let why =
                        format!("source `{}` needs QUIC, which only simulations have", source.name);
                    let cure = "choose another kind, or `transport = \"tcp\"`";
                    return Err(SystemError::refused("send QUIC", why, cure));
                }
                Schedule::Transfers(_) if converses(source) => {
                    let why = format!(
                        "source `{}` has a conversation, which only simulations have",
                        source.name
                    );
                    let cure = "write `bytes` and `think` in its place";
                    return Err(SystemError::refused("send a conversation", why, cure));
                }
                Schedule::Transfers(_) if plan.raw.is_some() => {
                    let why = format!("source `{}` needs a connection", source.name);
                    let cure = "choose a kind that does not use TCP, or send over sockets";
                    return Err(SystemError::refused("send TCP in raw frames", why, cure));
                }
                Schedule::Transfers(turns) => {
                    let transfer = Transfer::new(plan, source, (number, start_ns), turns)?;
                    transfers.push(transfer);
                }
                Schedule::Packets(packets) => {
                    let outlet = match &raw {
                        Some((port, (socket, own))) => Outlet::Raw {
                            socket: Arc::clone(socket),
                            maker: FrameMaker::new(&source.headers, port.to, *own),
                        },
                        None => {
                            let own = source.headers.ports.map(|ports| ports.source);
                            let own = own.filter(|_| plan.own_ports);
                            Outlet::udp(&source.headers, own, plan.zone)?
                        }
                    };
                    streams.push(Stream::new(plan, source, (number, outlet), packets)?);
                }
            }
        }
        Self::spawn(plan, start_ns, shared, (streams, transfers))
    }

    fn spawn(
        plan: &SendPlan,
        start_ns: u64,
        shared: Arc<Shared>,
        (streams, transfers): (Vec<Stream>, Vec<Transfer>),
    ) -> Result<Self> {
        let failed = |cause| SystemError::new("start a thread", cause);
        let mut sender = Self { shared: Arc::clone(&shared), packets: None, transfers: Vec::new() };
        if !streams.is_empty() {
            let ahead_ns = if plan.clock == Clock::Realtime { realtime_ahead_ns() } else { 0 };
            let sending = Sending {
                streams,
                start_ns,
                end_ns: end_ns(plan, start_ns),
                flood: plan.flood,
                clock: (plan.clock, ahead_ns),
                waiter: Waiter::new(plan.wait, &[]),
                shared: Arc::clone(&shared),
                batch: vec![Vec::new(); BATCH_MAX],
            };
            let named = thread::Builder::new().name("weir-send".to_owned());
            sender.packets = Some(named.spawn(move || sending.run()).map_err(failed)?);
        }
        for transfer in transfers {
            let shared = Arc::clone(&shared);
            let named = thread::Builder::new().name("weir-send-tcp".to_owned());
            let run = move || transfer::run(transfer, &shared);
            sender.transfers.push(named.spawn(run).map_err(failed)?);
        }
        Ok(sender)
    }

    /// Returns how many packets (not transfers) and bytes were sent so far.
    pub fn sent(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.shared.packets), load(&self.shared.bytes))
    }

    /// Returns how many of the bytes of transfers the receiver's kernel has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        let open = self.shared.connections();
        let held = open.values().filter_map(|socket| unacknowledged(socket.as_fd()).ok());
        let held: u64 = held.sum();
        self.sent().1.saturating_sub(held)
    }

    /// Returns whether everything is sent.
    pub fn is_done(&self) -> bool {
        let packets = self.packets.as_ref().is_none_or(JoinHandle::is_finished);
        packets && self.transfers.iter().all(JoinHandle::is_finished)
    }

    /// Sends nothing more but the end marks.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until everything is sent, the end marks too; returns what was.
    ///
    /// # Panics
    /// If a thread of the sender did.
    pub fn finish(self) -> SendReport {
        let mut streams = Vec::new();
        if let Some(thread) = self.packets {
            streams.extend(thread.join().expect("the sending thread does not panic"));
        }
        for thread in self.transfers {
            streams.push(thread.join().expect("a sending thread does not panic"));
        }
        streams.sort_by_key(|stream| stream.stream);
        SendReport { streams }
    }
}

/// A stream that does not listen.
struct Stream {
    outlet: Outlet,
    packets: Peekable<Packets>,
    /// Where each datagram may be several simulated frames: its payload.
    datagram: Option<u32>,
    /// The datagram that was sent last.
    last: Option<u32>,
    end_ns: u64,
    left: u64,
    /// Packets that were written, and those of them that have a mark.
    written: u64,
    number: u64,
    late: Histogram,
    report: SentStream,
}

impl Stream {
    fn new(
        plan: &SendPlan,
        source: &Source,
        (number, outlet): (u32, Outlet),
        packets: Packets,
    ) -> Result<Self> {
        let datagram = match &source.traffic {
            Traffic::Scripted(script) if plan.raw.is_none() => script.datagram(),
            _ => None,
        };
        let (transport, to) = match &plan.raw {
            Some(port) => ("raw", format!("{} on {}", port.to, port.interface)),
            None => ("udp", receiver(&source.headers, plan.zone)?.to_string()),
        };
        let mut packets = packets.peekable();
        check_length(source, &outlet, packets.peek().map_or(u32::MAX, |first| first.length))?;
        Ok(Self {
            outlet,
            packets,
            datagram: datagram.map(|datagram| datagram.payload),
            last: None,
            end_ns: if plan.flood { u64::MAX } else { length_ns(plan) },
            left: plan.packets_max.unwrap_or(u64::MAX),
            written: 0,
            number: 0,
            late: Histogram::new(),
            report: SentStream::new(source, number, transport, to),
        })
    }

    /// When the next packet is due, after the start.
    fn next_ns(&mut self) -> Option<u64> {
        let next = self.packets.peek()?.at.as_nanos();
        (next < self.end_ns && self.left > 0).then_some(next)
    }

    /// Writes the next packet into `out`, unless it is a part of a datagram that was sent; returns
    /// the length of its frame.
    fn write(&mut self, mark: Mark, out: &mut Vec<u8>) -> Option<u32> {
        let sending = self.packets.next()?;
        let mut length = sending.length;
        if let Some(payload) = self.datagram {
            if self.last == Some(sending.datagram) {
                return None;
            }
            self.last = Some(sending.datagram);
            length = self.outlet.marked_length() - crate::mark::MARK_BYTES as u32 + payload;
        }
        // What a capture or a mixture has shorter than the headers is sent as long as these.
        length = length.max(self.outlet.front());
        let marked =
            self.outlet.write(length, &Mark { number: self.number, ..mark }, self.written, out);
        self.report.unmarked += u64::from(!marked);
        self.number += u64::from(marked);
        self.written += 1;
        self.left -= 1;
        Some(length)
    }
}

impl Stream {
    /// Counts the packets that came due and will not be sent, as far as that takes little time.
    fn give_up(&mut self) {
        let until = monotonic_ns().saturating_add(COUNT_MAX_NS);
        while self.next_ns().is_some() {
            self.packets.next();
            self.left -= 1;
            self.report.unsent += 1;
            if self.report.unsent.is_multiple_of(1024) && monotonic_ns() > until {
                return;
            }
        }
    }
}

/// Returns whether it exchanges requests and responses.
fn converses(source: &Source) -> bool {
    source.traffic.tcp().is_some_and(|tcp| tcp.conversation.is_some())
}

/// Refuses packets of one length that have no room for their headers.
fn check_length(source: &Source, outlet: &Outlet, length: u32) -> Result<()> {
    let is_chosen = matches!(
        source.traffic,
        Traffic::Cbr { .. } | Traffic::Poisson { .. } | Traffic::OnOff { .. }
    );
    let least = outlet.front();
    if !is_chosen || length >= least {
        return Ok(());
    }
    let why = format!("{length} bytes have no room for its headers, which take {least}");
    let cure = format!("write `size = '{least} B'` or more, or a `payload`");
    Err(SystemError::refused(format!("send a packet of source `{}`", source.name), why, cure))
}

/// The thread that sends packets.
struct Sending {
    streams: Vec<Stream>,
    start_ns: u64,
    /// When all ends, by CLOCK_MONOTONIC.
    end_ns: u64,
    flood: bool,
    /// The clock of marks, and how far it is ahead of CLOCK_MONOTONIC.
    clock: (Clock, i64),
    waiter: Waiter,
    shared: Arc<Shared>,
    batch: Vec<Vec<u8>>,
}

impl Sending {
    fn run(mut self) -> Vec<SentStream> {
        // Without it timers are 50 us later, which the report shows.
        let _ = set_exact_timers();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let Some((index, next_ns)) = self.next() else { break };
            let (now, due) = (monotonic_ns(), self.start_ns.saturating_add(next_ns));
            if now >= self.end_ns {
                self.streams.iter_mut().filter(|_| !self.flood).for_each(Stream::give_up);
                break;
            }
            if self.flood {
                self.send(index, (now, u64::MAX));
            } else if due <= now {
                let passed = now - self.start_ns;
                self.send(index, (now, passed));
            } else if self.waiter.wait(now, Some(due)).is_err() {
                break;
            }
        }
        self.end();
        let report = |stream: Stream| {
            let to = &stream.report.to;
            let unanswered = stream.report.transport == "udp" && neighbour::is_unanswered(to);
            SentStream { late: Delays::of(&stream.late), unanswered, ..stream.report }
        };
        self.streams.into_iter().map(report).collect()
    }

    /// The stream whose packet is due first; of several in turn in a flood.
    fn next(&mut self) -> Option<(usize, u64)> {
        let flood = self.flood;
        let next = |(index, stream): (usize, &mut Stream)| {
            let next_ns = stream.next_ns()?;
            Some((if flood { stream.written } else { next_ns }, index, next_ns))
        };
        let first = self.streams.iter_mut().enumerate().filter_map(next).min()?;
        Some((first.1, first.2))
    }

    /// Sends the packets of a stream that are due up to `until_ns` after the start.
    fn send(&mut self, index: usize, (now, until_ns): (u64, u64)) {
        let stream = &mut self.streams[index];
        let mut lengths = [0; BATCH_MAX];
        let mut count = 0;
        let mark = self.clock.mark(Kind::Packet, stream.report.stream, 0);
        while count < BATCH_MAX {
            let Some(next_ns) = stream.next_ns().filter(|&next| next <= until_ns) else { break };
            let Some(length) = stream.write(mark, &mut self.batch[count]) else { continue };
            lengths[count] = length;
            count += 1;
            if !self.flood {
                let late = now.saturating_sub(self.start_ns.saturating_add(next_ns));
                stream.late.record(units::Duration::from_nanos(late));
            }
        }
        let messages: Vec<&[u8]> = self.batch[..count].iter().map(Vec::as_slice).collect();
        let (stop, end_ns) = (&self.shared.stop, self.end_ns);
        let may_wait = || !stop.load(Ordering::Relaxed) && monotonic_ns() < end_ns;
        let outcome = give(&stream.outlet, &messages, may_wait);
        let taken = |place: &usize| outcome.refused >> place & 1 == 0;
        let bytes = (0..outcome.tried).filter(taken).map(|place| u64::from(lengths[place])).sum();
        let packets = outcome.tried as u64 - u64::from(outcome.refused.count_ones());
        stream.report.packets += packets;
        stream.report.bytes += bytes;
        stream.report.refused += outcome.tried as u64 - packets;
        stream.report.unsent += (count - outcome.tried) as u64;
        stream.report.error =
            outcome.error.map(|error| error.to_string()).or(stream.report.error.take());
        self.shared.packets.fetch_add(packets, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sends the receivers the marks of the streams' ends, a few times, since marks can be lost
    /// too.
    fn end(&mut self) {
        let until = monotonic_ns().saturating_add(END_MAX_NS);
        for turn in 0..END_MARKS {
            for stream in &self.streams {
                let mark = self.clock.mark(Kind::End, stream.report.stream, stream.number);
                let out = &mut self.batch[0];
                stream.outlet.write(stream.outlet.marked_length(), &mark, stream.written, out);
                give(&stream.outlet, &[out], || monotonic_ns() < until);
            }
            if turn + 1 < END_MARKS {
                thread::sleep(END_PAUSE);
            }
        }
    }
}

/// Returns when nothing more is sent but end marks. A packet that is due last may be a little late.
fn end_ns(plan: &SendPlan, start_ns: u64) -> u64 {
    let grace = if plan.flood { 0 } else { GRACE_NS };
    start_ns.saturating_add(length_ns(plan)).saturating_add(grace)
}

/// For how long packets are due.
pub(crate) fn length_ns(plan: &SendPlan) -> u64 {
    u64::try_from(plan.duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The clock of marks, and how far it is ahead of CLOCK_MONOTONIC.
pub(crate) trait Marking {
    /// A mark with the time of now.
    fn mark(&self, kind: Kind, stream: u32, number: u64) -> Mark;
}

impl Marking for (Clock, i64) {
    fn mark(&self, kind: Kind, stream: u32, number: u64) -> Mark {
        let sent_ns = monotonic_ns().saturating_add_signed(self.1);
        Mark { kind, clock: self.0, stream, number, sent_ns }
    }
}

/// The outcome of a batch.
#[derive(Default)]
pub(crate) struct Given {
    /// Messages that the system took or refused.
    pub tried: usize,
    /// Bit i is set if it refused message i.
    pub refused: u64,
    pub error: Option<io::Error>,
}

/// Gives the system messages until it took or refused each; waits for room as long as it may.
pub(crate) fn give(outlet: &impl AsFd, messages: &[&[u8]], may_wait: impl Fn() -> bool) -> Given {
    let (mut given, mut tries) = (Given::default(), 0);
    while given.tried < messages.len() {
        match send_batch(outlet.as_fd(), &messages[given.tried..]) {
            Ok(taken) => {
                given.tried += taken;
                tries = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The socket's room is used up: the interface is slower than we are.
                if !may_wait() {
                    break;
                }
                thread::yield_now();
            }
            // An error message of an earlier packet came back; this one was not sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && tries < TRIES => {
                tries += 1;
                given.error = Some(error);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                given.refused |= 1 << given.tried;
                given.tried += 1;
                given.error = Some(error);
            }
        }
    }
    given
}

impl fmt::Display for SendReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "stream", "source", "kind", "over", "to", "packets", "bytes", "refused", "late p50",
            "p99", "max",
        ])
        .words(&[1, 2, 3, 4]);
        for stream in &self.streams {
            let micros = |micros: f64| format!("{micros:.0} us");
            let late = [stream.late.p50_us, stream.late.p99_us, stream.late.max_us].map(micros);
            let [p50, p99, max] = late;
            table.row([
                stream.stream.to_string(),
                stream.name.clone(),
                stream.kind.to_owned(),
                stream.transport.to_owned(),
                stream.to.clone(),
                stream.packets.to_string(),
                stream.bytes.to_string(),
                stream.refused.to_string(),
                p50,
                p99,
                max,
            ]);
        }
        f.write_str(&table.render(false))
    }
}

/// From the call to the first instant: threads start.
const START_NS: u64 = 2_000_000;
/// How often the end of a stream is told.
const END_MARKS: u32 = 5;
const END_PAUSE: Duration = Duration::from_millis(30);
const TRIES: u32 = 3;
/// How late the last packets may be: threads wake late, and a stall is caught up with.
const GRACE_NS: u64 = 50_000_000;
/// How long end marks may wait for room.
const END_MAX_NS: u64 = 300_000_000;
/// How long packets that were not sent are counted.
const COUNT_MAX_NS: u64 = 50_000_000;
