//! Counts what arrives on UDP and TCP ports, or as frames on an interface.
//!
//! One thread reads all UDP sockets and the interface; one accepts TCP connections and each of
//! these has a thread. Receive stamps are the kernel's, by CLOCK_REALTIME, converted to the clock
//! that a mark names. Invariant: a packet that the receiver itself had no room for is counted in
//! `overruns`, so that a loss of the receiver is not taken for a loss of the network.

use crate::arrivals::{Arrival, Arrivals, ReceivedStream};
use crate::mark::{Clock, Kind, MARK_BYTES, Mark};
use crate::transfer::{TURN, patiently};
use serde::Serialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_core::packet::{Addresses, Headers, Protocol as Transport};
use weir_host::batch::{
    BATCH_MAX, FrameSocket, Inbox, VNET_HEADER, enlarge_receive_buffer, realtime_ahead_ns,
    stamp_received,
};
use weir_host::error::{Result, SystemError};
use weir_host::netlink::Netlink;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns};
use weir_policy::table::{Table, millis};

/// The ports or the interface to receive on.
#[derive(Clone, Debug)]
pub struct ReceivePlan {
    /// UDP ports; with `raw`, the destination ports of frames that count, or all if empty.
    pub udp: Vec<u16>,
    /// TCP ports on which transfers are taken.
    pub tcp: Vec<u16>,
    /// Receive frames of this interface, not UDP sockets.
    pub raw: Option<String>,
    /// Room for packets that wait, in each socket.
    pub buffer: u32,
}

/// A receiver that runs.
pub struct Receiver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Where it listens, in the order of UDP, then TCP ports.
    listening: Vec<SocketAddr>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
    tally: Mutex<Tally>,
}

/// The packets that arrived so far.
#[derive(Default)]
struct Tally {
    streams: BTreeMap<Key, Arrivals>,
    overruns: u64,
    others: u64,
    refused: u64,
}

/// A stream: its transport, its sender, its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    transport: &'static str,
    from: SocketAddr,
    stream: Option<u32>,
}

/// The packets that arrived.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReceiveReport {
    /// Each stream, by transport, sender and number.
    pub streams: Vec<ReceivedStream>,
    /// Packets that the receiver had no room for: losses of its own.
    pub overruns: u64,
    /// Packets of streams beyond the most that are told apart.
    pub others: u64,
    /// Connections beyond the most that are served at once.
    pub refused: u64,
}

impl ReceivePlan {
    /// These ports, over UDP and TCP.
    pub fn ports(ports: &[u16]) -> Self {
        Self { udp: ports.to_vec(), tcp: ports.to_vec(), raw: None, buffer: BUFFER_DEFAULT }
    }

    /// UDP packets to these ports, or to all if there is none, in frames of an interface.
    pub fn raw(interface: &str, ports: &[u16]) -> Self {
        let raw = Some(interface.to_owned());
        Self { udp: ports.to_vec(), tcp: Vec::new(), raw, buffer: BUFFER_DEFAULT }
    }
}

impl Receiver {
    /// Opens the sockets in this thread's namespace and begins to count.
    ///
    /// # Errors
    /// When a port is taken or the interface cannot be opened.
    pub fn start(plan: &ReceivePlan) -> Result<Self> {
        let mut inlets = Vec::new();
        let mut listening = Vec::new();
        if let Some(interface) = &plan.raw {
            let index = Netlink::open()?.link(interface)?.index;
            let socket = FrameSocket::receiver(interface, index, false)?;
            enlarge_receive_buffer(socket.as_fd(), plan.buffer);
            stamp_received(socket.as_fd())?;
            inlets.push(Inlet::Raw { socket, ports: plan.udp.clone() });
        } else {
            for &port in &plan.udp {
                let (socket, at) = bind(port, Type::DGRAM)?;
                enlarge_receive_buffer(socket.as_fd(), plan.buffer);
                stamp_received(socket.as_fd())?;
                listening.push(at);
                inlets.push(Inlet::Udp { socket, lost: 0 });
            }
        }
        let mut listeners = Vec::new();
        for &port in &plan.tcp {
            let (socket, at) = bind(port, Type::STREAM)?;
            listening.push(at);
            listeners.push(TcpListener::from(socket));
        }
        Self::spawn(inlets, listeners, listening)
    }

    fn spawn(
        inlets: Vec<Inlet>,
        listeners: Vec<TcpListener>,
        listening: Vec<SocketAddr>,
    ) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut receiver = Self { shared: Arc::clone(&shared), threads: Vec::new(), listening };
        let failed = |cause| SystemError::new("start a thread", cause);
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        if !inlets.is_empty() {
            let of_thread = Arc::clone(&shared);
            let run = move || receive(inlets, &of_thread);
            receiver.threads.push(named("weir-recv").spawn(run).map_err(failed)?);
        }
        for listener in listeners {
            let of_thread = Arc::clone(&shared);
            let run = move || accept(&listener, &of_thread);
            receiver.threads.push(named("weir-recv-tcp").spawn(run).map_err(failed)?);
        }
        Ok(receiver)
    }

    /// Returns where it listens: the UDP ports, then the TCP ports.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Returns what arrived so far.
    pub fn report(&self) -> ReceiveReport {
        let tally = self.shared.tally();
        let streams = tally.streams.iter().map(|(key, arrivals)| {
            let Key { transport, from, stream } = *key;
            let tcp = transport == "tcp";
            let from = if tcp { from.ip().to_string() } else { from.to_string() };
            arrivals.report(transport, from, stream)
        });
        ReceiveReport {
            streams: streams.collect(),
            overruns: tally.overruns,
            others: tally.others,
            refused: tally.refused,
        }
    }

    /// Returns whether streams came and every one that has marks has ended.
    pub fn has_ended(&self) -> bool {
        self.have_ended(1)
    }

    /// Returns whether at least this many streams have ended, and none that has marks has not.
    pub fn have_ended(&self, streams: usize) -> bool {
        let tally = self.shared.tally();
        let marked = tally.streams.iter().filter(|(key, _)| key.stream.is_some());
        let (ended, open): (Vec<_>, Vec<_>) =
            marked.partition(|(_, arrivals)| arrivals.has_ended());
        open.is_empty() && ended.len() >= streams
    }

    /// Waits until every stream has ended and late packets had a moment to come, at most for
    /// `time`; returns whether they ended.
    pub fn wait_ended(&self, time: Duration) -> bool {
        let start = Instant::now();
        while !self.has_ended() {
            if start.elapsed() >= time {
                return false;
            }
            thread::sleep(TURN.min(time));
        }
        thread::sleep(LATE_MAX);
        true
    }

    /// Stops and returns what arrived.
    ///
    /// # Panics
    /// If a thread of the receiver did.
    pub fn finish(mut self) -> ReceiveReport {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a receiving thread does not panic");
        }
        while self.shared.connections.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        self.report()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// The counts of a stream; `None` beyond the most that are told apart.
    fn stream(&mut self, key: Key) -> Option<&mut Arrivals> {
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&key) {
            self.others += 1;
            return None;
        }
        Some(self.streams.entry(key).or_default())
    }
}

/// Where packets come from that do not need a connection.
enum Inlet {
    Udp { socket: Socket, lost: u32 },
    Raw { socket: FrameSocket, ports: Vec<u16> },
}

/// Reads all inlets until the receiver stops.
fn receive(mut inlets: Vec<Inlet>, shared: &Shared) {
    let descriptors = inlets.iter().map(|inlet| match inlet {
        Inlet::Udp { socket, .. } => socket.as_raw_fd(),
        Inlet::Raw { socket, .. } => socket.as_fd().as_raw_fd(),
    });
    let mut waiter = Waiter::new(WaitPolicy::Block, &descriptors.collect::<Vec<_>>());
    let raw = inlets.iter().any(|inlet| matches!(inlet, Inlet::Raw { .. }));
    let slot = if raw { RAW_SLOT } else { UDP_SLOT };
    let mut inbox = Inbox::new(BATCH_MAX, slot);
    // What came before the stop still counts, however long the thread was not run.
    let mut last = false;
    loop {
        let mut count = 0;
        for inlet in &mut inlets {
            count += inlet.take(&mut inbox, shared);
        }
        if count > 0 {
            continue;
        }
        if last {
            return;
        }
        last = shared.stops();
        let now = monotonic_ns();
        let _ = waiter.wait(now, Some(now + if last { 1 } else { TURN.as_nanos() as u64 }));
    }
}

impl Inlet {
    /// Counts the packets that wait, up to a batch; returns how many.
    fn take(&mut self, inbox: &mut Inbox, shared: &Shared) -> usize {
        let socket = match &*self {
            Self::Udp { socket, .. } => socket.as_fd(),
            Self::Raw { socket, .. } => socket.as_fd(),
        };
        // An error message that came back is no packet; the next call goes on.
        let count = inbox.receive(socket).unwrap_or(0);
        let clocks = Clocks { ahead_ns: realtime_ahead_ns() };
        let mut tally = shared.tally();
        match self {
            Self::Udp { lost, .. } => {
                for index in 0..count {
                    let message = inbox.message(index);
                    let seen = message.overruns.unwrap_or(*lost);
                    tally.overruns += u64::from(seen.wrapping_sub(*lost));
                    *lost = seen;
                    let Some(from) = message.from else { continue };
                    let stamp = clocks.stamp(message.stamp_ns);
                    tally.count("udp", from, (message.bytes, message.whole as u64), stamp);
                }
            }
            Self::Raw { socket, ports } => {
                for index in 0..count {
                    let message = inbox.message(index);
                    let stamp = clocks.stamp(message.stamp_ns);
                    count_frame(&mut tally, message.bytes, ports, stamp);
                }
                if count == 0 {
                    tally.overruns += socket.overruns();
                }
            }
        }
        count
    }
}

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
#[derive(Clone, Copy)]
struct Clocks {
    ahead_ns: i64,
}

/// An instant by both clocks: real, monotonic.
type Stamp = (i64, i64);

impl Clocks {
    /// The instant of a kernel's stamp; that of now without one.
    fn stamp(self, real_ns: Option<u64>) -> Stamp {
        let real = real_ns.map_or_else(
            || (monotonic_ns() as i64).saturating_add(self.ahead_ns),
            |real| real as i64,
        );
        (real, real.saturating_sub(self.ahead_ns))
    }
}

/// The instant by the clock of a mark.
fn by_clock(mark: &Mark, (real, monotonic): Stamp) -> i64 {
    if mark.clock == Clock::Realtime { real } else { monotonic }
}

impl Tally {
    /// Counts a packet of which the start of the payload is known.
    fn count(
        &mut self,
        transport: &'static str,
        from: SocketAddr,
        (payload, bytes): (&[u8], u64),
        stamp: Stamp,
    ) {
        let mark = Mark::read(payload);
        let key = Key { transport, from, stream: mark.map(|mark| mark.stream) };
        let Some(arrivals) = self.stream(key) else { return };
        let at_of_mark_ns = mark.map_or(0, |mark| by_clock(&mark, stamp));
        arrivals.packet(&Arrival { mark, bytes, at_ns: stamp.1.max(0) as u64, at_of_mark_ns });
    }
}

/// Counts the UDP packet in a frame, or the packets of a super-packet, that go to one of `ports`.
fn count_frame(tally: &mut Tally, bytes: &[u8], ports: &[u16], stamp: Stamp) -> Option<()> {
    let (offload, frame) = bytes.split_at_checked(VNET_HEADER)?;
    let headers = Headers::parse_ethernet(frame);
    let of_frame = headers.ports.filter(|_| headers.protocol == Some(Transport::UDP))?;
    if !ports.is_empty() && !ports.contains(&of_frame.destination) {
        return None;
    }
    let payload = udp_payload(&headers, frame)?;
    let from = SocketAddr::new(headers.addresses.source()?, of_frame.source);
    let segment = usize::from(u16::from_ne_bytes([offload[4], offload[5]]));
    let is_super = offload[1] & !GSO_ECN == GSO_UDP && segment > 0;
    for part in payload.chunks(if is_super { segment } else { payload.len().max(1) }) {
        tally.count("raw", from, (part, part.len() as u64), stamp);
    }
    if payload.is_empty() {
        tally.count("raw", from, (payload, 0), stamp);
    }
    Some(())
}

/// The payload of a UDP packet without IPv6 extension headers, as its header says how long it is.
pub(crate) fn udp_payload<'f>(headers: &Headers, frame: &'f [u8]) -> Option<&'f [u8]> {
    let packet = frame.get(usize::from(headers.link_len)..)?;
    let header = match headers.addresses {
        Addresses::V4 { .. } => usize::from(packet.first()? & 0x0f) * 4,
        Addresses::V6 { .. } if *packet.get(6)? == Transport::UDP.0 => 40,
        _ => return None,
    };
    // A super-packet may have a length of 0; its bytes are all there.
    let claimed = headers.network_len.map_or(packet.len(), |length| length as usize);
    packet.get(header + UDP_HEADER..claimed.min(packet.len()))
}

/// Opens a socket for both IP versions, or for IPv4 alone where the system has no IPv6.
fn bind(port: u16, kind: Type) -> Result<(Socket, SocketAddr)> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let open = |address: IpAddr| -> io::Result<(Socket, SocketAddr)> {
        let address = SocketAddr::new(address, port);
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        if kind == Type::STREAM {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&SockAddr::from(address))?;
        if kind == Type::STREAM {
            socket.listen(BACKLOG)?;
        }
        socket.set_nonblocking(true)?;
        let at = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok((socket, at))
    };
    let bound = match open(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            open(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        }
        bound => bound,
    };
    let name = if kind == Type::DGRAM { "UDP" } else { "TCP" };
    bound.map_err(|cause| SystemError::new(format!("receive on {name} port {port}"), cause))
}

/// Accepts connections until the receiver stops.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut waiter = Waiter::new(WaitPolicy::Block, &[listener.as_raw_fd()]);
    while !shared.stops() {
        let Ok((stream, from)) = listener.accept() else {
            let now = monotonic_ns();
            let _ = waiter.wait(now, Some(now + TURN.as_nanos() as u64));
            continue;
        };
        let from = SocketAddr::new(from.ip().to_canonical(), 0);
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            shared.tally().refused += 1;
            continue;
        }
        let of_thread = Arc::clone(shared);
        let run = move || {
            // A connection that fails ends as one that was cut.
            let _ = read_transfer(stream, from, &of_thread);
            of_thread.connections.fetch_sub(1, Ordering::Relaxed);
        };
        let named = thread::Builder::new().name("weir-recv-one".to_owned());
        if named.spawn(run).is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            shared.tally().refused += 1;
        }
    }
}

/// Reads one connection to its end: a transfer, or an end mark.
fn read_transfer(mut stream: TcpStream, from: SocketAddr, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TURN))?;
    let clocks = Clocks { ahead_ns: realtime_ahead_ns() };
    let (mut buffer, mut start) = (vec![0; READ_BYTES], Vec::new());
    let (mut mark, mut unread) = (None, 0);
    while !shared.stops() {
        let Some(count) = patiently(|| stream.read(&mut buffer))? else { continue };
        let stamp = clocks.stamp(None);
        let now_ns = stamp.1.max(0) as u64;
        if mark.is_none() && start.len() < MARK_BYTES {
            start.extend_from_slice(&buffer[..count.min(MARK_BYTES - start.len())]);
            mark = Mark::read(&start);
            // Until the mark is whole it is not known whose bytes these are.
            if count > 0 && start.len() < MARK_BYTES {
                unread += count as u64;
                continue;
            }
        }
        let key = Key { transport: "tcp", from, stream: mark.map(|mark| mark.stream) };
        let mut tally = shared.tally();
        let Some(arrivals) = tally.stream(key) else { return Ok(()) };
        match mark {
            Some(mark) if mark.kind == Kind::End => {
                arrivals.packet(&Arrival {
                    mark: Some(mark),
                    bytes: 0,
                    at_ns: now_ns,
                    at_of_mark_ns: 0,
                });
                return Ok(());
            }
            Some(mark) if count == 0 => {
                arrivals.transfer(&mark, by_clock(&mark, stamp));
                return Ok(());
            }
            _ => {
                let whole = count as u64 + std::mem::take(&mut unread);
                arrivals.bytes(whole, now_ns);
                if count == 0 {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

impl fmt::Display for ReceiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "over",
            "from",
            "stream",
            "packets",
            "bytes",
            "lost",
            "reordered",
            "dup",
            "Mbit/s",
            "delay p50 ms",
            "p90 ms",
            "p99 ms",
            "max ms",
        ])
        .words(&[0, 1])
        .identified_by(3)
        .optional(&[6, 7, 9, 10, 11, 12]);
        let known =
            |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        for stream in &self.streams {
            let delay = &stream.delay;
            let times = [delay.p50_us, delay.p90_us, delay.p99_us, delay.max_us];
            let times =
                times.map(|micros| if delay.count == 0 { "-".to_owned() } else { millis(micros) });
            let counts = [stream.reordered.to_string(), stream.duplicated.to_string()];
            let cells = [
                stream.transport.to_owned(),
                stream.from.clone(),
                known(stream.stream.map(u64::from)),
                stream.packets.to_string(),
                stream.bytes.to_string(),
                known(stream.lost),
            ];
            let rate = [format!("{:.3}", stream.goodput_mbit_s)];
            table.row(cells.into_iter().chain(counts).chain(rate).chain(times));
        }
        f.write_str(&table.render(false))?;
        let notes = [
            (self.overruns, "packets were lost in the receiver itself, for want of room"),
            (self.others, "packets came from more streams than are told apart"),
            (self.refused, "connections were refused: too many at once"),
            (
                self.streams.iter().map(|stream| stream.negative_delays).sum(),
                "packets seem to have arrived before they were sent: the clocks differ",
            ),
        ];
        for (count, note) in notes.into_iter().filter(|note| note.0 > 0) {
            write!(f, "\nnote: {count} {note}")?;
        }
        Ok(())
    }
}

/// Bound: streams that a receiver tells apart; packets of further ones are counted together.
pub const STREAMS_MAX: usize = 4096;
/// Bound: TCP connections that a receiver serves at once; further ones are refused.
pub const CONNECTIONS_MAX: usize = 256;
/// Room for a quarter of a second of a million small packets a second.
const BUFFER_DEFAULT: u32 = 128 << 20;
/// How long packets may come after the end mark.
const LATE_MAX: Duration = Duration::from_millis(200);
const BACKLOG: i32 = 128;
const READ_BYTES: usize = 64 << 10;
/// Only the mark of a datagram is read.
const UDP_SLOT: usize = 64;
/// The longest super-packet with its headers.
const RAW_SLOT: usize = VNET_HEADER + 65_535 + 64;
const UDP_HEADER: usize = 8;
/// The type in `virtio_net_hdr` of a super-packet of UDP datagrams.
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
