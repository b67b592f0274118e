//! QUIC: a sender and a receiver, each an endpoint of quinn-proto, and the applications above.
//!
//! A whole stack in simulated time: quinn takes instants as arguments, and what it draws comes from
//! seeds of the source. Only the cryptography is [ours](handshake), as that of TLS draws from the
//! system and its results are never looked at. The sender is the client; it opens one stream a
//! connection, writes the transfer to it, and closes the connection when all is acknowledged.
//! Segmentation offload and the discovery of the MTU are off: a packet is a datagram, and none is
//! longer than the MTU. Invariant: that of [`Transport`], and the receiving application reads every
//! byte once and in order, which is checked.

mod handshake;
mod talking;

use crate::figures::Delays;
use crate::network::fragments::CONGESTED;
use crate::packets::Content;
use crate::random::Random;
use crate::scenario::{InitialWindow, Quic, QuicCongestion};
use crate::schedule::Transfers;
use crate::script::{Playback, Turn, Turns};
use crate::transport::{Alarm, Served, Side, Transport};
use bytes::{Bytes, BytesMut};
use handshake::Null;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, NoneTokenStore, PathStats,
    ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time;
use talking::Talking;
use weir_core::account::Histogram;
use weir_core::units::{Duration, Instant};
use weir_policy::table::Table;

/// A sender and a receiver, and the transfer between them.
pub(crate) struct Connection {
    plan: Quic,
    /// The longest payload of a datagram.
    payload_max: u16,
    transport: Arc<TransportConfig>,
    clock: Clock,
    transfers: Transfers,
    /// The transfer of the present connection.
    turn: Turn,
    /// The conversation of the applications, in place of a transfer.
    talking: Option<Talking>,
    hosts: [Host; 2],
    number: u32,
    progress: Progress,
    done: Done,
}

/// The progress of the present connection.
#[derive(Clone, Copy, Debug)]
struct Progress {
    started: Instant,
    /// Bytes that the sending application has written, and whether it has written the last.
    written: u64,
    finished: bool,
    /// It is to write no more.
    stopped: bool,
    received: u64,
    /// When the sender connects anew, if the receiver has not confirmed the handshake by then.
    confirmed_by: Option<Instant>,
    /// The sender may send data that the receiver can read.
    is_open: bool,
    /// How long it waits for that.
    patience: Duration,
}

/// An end of the connection.
struct Host {
    random: Random,
    alarm: Alarm,
    /// There from the first connection on.
    endpoint: Option<Endpoint>,
    /// There once the endpoint has one.
    connection: Option<(ConnectionHandle, quinn_proto::Connection)>,
    stream: Option<StreamId>,
}

/// The sums of a source's connections since the report began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    connections: u64,
    established: u64,
    packets: u64,
    lost: u64,
    congestion_events: u64,
    marks: u64,
    rtts: Histogram,
}

/// The counts of the senders of a source over QUIC.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct QuicReport {
    /// Connections begun, those for a transfer whose handshake was not confirmed in time included.
    pub connections: u64,
    /// Connections whose handshake the senders completed.
    pub established: u64,
    /// Packets that the senders sent; one datagram may hold two while a connection opens.
    pub packets: u64,
    /// Of them, those that the senders took for lost.
    pub lost: u64,
    /// Reductions of the window because of losses or marks.
    pub congestion_events: u64,
    /// Packets that came to the receivers with a congestion mark.
    pub marks: u64,
    /// Smoothed round trips, whenever a packet came to a sender.
    #[serde(rename = "smoothed_rtt_us")]
    pub rtts: Delays,
    /// Transfers completed: from opening the connection to the last byte.
    #[serde(rename = "transfer_us")]
    pub transfers: Delays,
}

/// Simulated instants as quinn's, of which only differences count.
#[derive(Clone, Copy, Debug)]
struct Clock {
    zero: time::Instant,
}

impl Connection {
    /// A connection not yet open, over IP headers of this length, whose transfers `work` gives, or
    /// else the plan.
    pub fn new(
        plan: &Quic,
        ip_header: u16,
        work: Option<Box<dyn Turns>>,
        mut random: Random,
    ) -> Self {
        let payload_max = (plan.mtu.get() - ip_header - UDP_HEADER).min(PAYLOAD_MAX);
        let hosts = ["sender", "receiver"].map(|name| Host {
            random: Random::stream(random.bits(), name),
            alarm: Alarm::default(),
            endpoint: None,
            connection: None,
            stream: None,
        });
        let progress = Progress::new(Instant::ZERO);
        Self {
            plan: plan.clone(),
            payload_max,
            transport: Arc::new(transport_config(plan, payload_max)),
            clock: Clock::new(),
            transfers: Transfers::new(plan.transfer, work, random),
            turn: Turn { bytes: None, pause: None },
            talking: plan.conversation.as_ref().map(Talking::new),
            hosts,
            number: 0,
            progress,
            done: Done::default(),
        }
    }

    /// Returns what this and earlier connections did, and counts from here on anew.
    pub fn take_report(&mut self) -> Done {
        let now = self.hosts[Side::Sender as usize].path();
        let mut done = std::mem::take(&mut self.done);
        done.add(now);
        self.done.subtract(now);
        done
    }

    /// Lets the sender connect, in place of an earlier connection.
    fn connect(&mut self, now: Instant) {
        self.number += 1;
        self.done.connections += 1;
        self.done.add(self.hosts[Side::Sender as usize].path());
        for host in &mut self.hosts {
            host.restart(self.payload_max, &self.transport);
        }
        if let Some(talking) = &mut self.talking {
            talking.restart();
        }
        let client = self.client() as usize;
        self.hosts[client].connect(self.clock.at(now), &self.transport);
    }

    /// Returns the host that opens connections.
    fn client(&self) -> Side {
        self.talking.as_ref().map_or(Side::Sender, Talking::client)
    }

    /// Lets the sender connect anew if the receiver has not confirmed the handshake in time. That
    /// is more than patience: where quinn's congestion control holds back what was lost of the
    /// handshake, since data that the receiver cannot read yet are under way, a connection would
    /// never go on. Each time it waits twice as long, as the path may just be slow.
    fn check_confirmed(&mut self, now: Instant) {
        let Some(until) = self.progress.confirmed_by else { return };
        let client = self.client() as usize;
        let Some((_, connection)) = &self.hosts[client].connection else { return };
        let may_send = !connection.is_handshaking() && !connection.is_closed();
        if !self.progress.is_open && may_send {
            self.progress.is_open = true;
            self.done.established += 1;
        }
        let is_confirmed = connection.stats().frame_rx.handshake_done > 0;
        if is_confirmed || connection.is_closed() {
            self.progress.confirmed_by = None;
        } else if now >= until {
            let Progress { started, stopped, patience, .. } = self.progress;
            let patience = patience.plus(patience);
            let confirmed_by = Some(now.after(patience));
            let anew = Progress { started, stopped, patience, ..Progress::new(now) };
            self.progress = Progress { confirmed_by, ..anew };
            self.connect(now);
        }
    }

    /// Lets the endpoint of `side` receive a datagram.
    fn receive(&mut self, now: time::Instant, side: Side, datagram: (Vec<u8>, u8)) -> Vec<u8> {
        let (bytes, ecn) = datagram;
        let host = &mut self.hosts[side as usize];
        let endpoint = host.endpoint.as_mut().expect("the connection is open");
        let mut answer = Vec::new();
        let ecn = EcnCodepoint::from_bits(ecn);
        let bytes = BytesMut::from(Bytes::from(bytes));
        match endpoint.handle(now, PEER, None, ecn, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut host.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = endpoint.accept(incoming, now, &mut answer, None);
                host.connection = accepted.ok();
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        answer
    }

    /// Lets both applications and the endpoint of `side` do all they can; returns the bytes that
    /// reached the receiving application.
    fn work(&mut self, now: time::Instant, side: Side, out: &mut Vec<Content>) -> u64 {
        let mut received = 0;
        loop {
            match side {
                Side::Sender => self.write(now),
                Side::Receiver => received += self.read(),
            }
            let before = out.len();
            let ecn = self.plan.ecn;
            self.hosts[side as usize].emit(now, (self.payload_max, ecn), out);
            if out.len() == before {
                return received;
            }
        }
    }

    /// The sending application writes what the connection takes.
    fn write(&mut self, now: time::Instant) {
        let (progress, turn) = (&mut self.progress, self.turn);
        let host = &mut self.hosts[Side::Sender as usize];
        let Some((_, connection)) = &mut host.connection else { return };
        while let Some(event) = connection.poll() {
            if let Event::Stream(StreamEvent::Finished { .. }) = event {
                connection.close(now, VarInt::from_u32(0), Bytes::new());
            }
        }
        if progress.finished || connection.is_closed() {
            return;
        }
        let begun = progress.written > 0;
        if progress.stopped && !begun {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
            return;
        }
        host.stream = host.stream.or_else(|| connection.streams().open(Dir::Uni));
        let Some(id) = host.stream else { return };
        let mut stream = connection.send_stream(id);
        let stopped = progress.stopped && turn.bytes.is_none();
        let end = turn.bytes.map_or(u64::MAX, |bytes| bytes.get());
        while !stopped && progress.written < end {
            let mut chunk = [pattern(progress.written, end - progress.written)];
            let Ok(written) = stream.write_chunks(&mut chunk) else { return };
            progress.written += written.bytes as u64;
        }
        progress.finished = true;
        stream.finish().expect("it is finished once");
    }

    /// The receiving application reads what is there; returns how many bytes.
    fn read(&mut self) -> u64 {
        let host = &mut self.hosts[Side::Receiver as usize];
        let Some((_, connection)) = &mut host.connection else { return 0 };
        while connection.poll().is_some() {}
        host.stream = host.stream.or_else(|| connection.streams().accept(Dir::Uni));
        let Some(id) = host.stream else { return 0 };
        let mut stream = connection.recv_stream(id);
        // The stream is gone once all was read.
        let Ok(mut chunks) = stream.read(true) else { return 0 };
        let before = self.progress.received;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            check_pattern(self.progress.received, &chunk.bytes);
            self.progress.received += chunk.bytes.len() as u64;
        }
        // It says whether the window is to be announced; `work` sends in any case.
        let _ = chunks.finalize();
        self.progress.received - before
    }

    /// Returns how the receiver's playback went until `now`, if it plays.
    pub fn playback(&self, now: Instant) -> Option<Playback> {
        self.transfers.playback(self.progress.ongoing(now, self.turn))
    }
}

impl Transport for Connection {
    fn open(&mut self, now: Instant) {
        let Some(turn) = self.transfers.next() else { return };
        self.turn = turn;
        self.progress = Progress::new(now);
        self.connect(now);
    }

    fn close(&mut self) {
        self.progress.stopped = true;
        if let Some(talking) = &mut self.talking {
            talking.stop();
        }
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn return_delay(&self) -> Duration {
        self.plan.return_delay
    }

    fn think(&mut self, took: Duration) -> Option<Duration> {
        match &self.talking {
            Some(talking) => talking.reopens(),
            None => self.transfers.pause(self.turn, took),
        }
    }

    fn wakes(&mut self, side: Side, at: Instant) -> bool {
        self.hosts[side as usize].alarm.counts(at)
    }

    fn serve(
        &mut self,
        at: Instant,
        side: Side,
        content: Content,
        out: &mut Vec<Content>,
    ) -> Served {
        if self.number == 0 {
            return Served::default();
        }
        let now = self.clock.at(at);
        if let Content::Quic { bytes, ecn } = content {
            self.done.marks += u64::from(side == Side::Receiver && ecn == CONGESTED);
            let answer = self.receive(now, side, (bytes, ecn));
            if !answer.is_empty() {
                out.push(Content::Quic { bytes: answer, ecn: 0 });
            }
            if let (Side::Sender, Some((_, own))) = (side, &self.hosts[side as usize].connection)
                // Before the first acknowledgement it is a guess.
                && own.stats().frame_rx.acks > 0
            {
                self.done.rtts.record(Duration::from_nanos(own.rtt().as_nanos() as u64));
            }
        } else if let Some((_, connection)) = &mut self.hosts[side as usize].connection {
            connection.handle_timeout(now);
        }
        let mut patience = None;
        if side == self.client() {
            self.check_confirmed(at);
            patience = self.progress.confirmed_by;
        }
        if self.talking.is_some() {
            return self.converse(at, (side, patience), out);
        }
        let received = self.work(now, side, out);
        let host = &mut self.hosts[side as usize];
        let due = host.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let due = due.map(|due| self.clock.back(due)).into_iter().chain(patience).min();
        let wake = host.alarm.plan(at, due);
        let completed = self.progress.completed(at, received, self.turn);
        Served { received, completed, wake, ..Served::default() }
    }
}

impl Progress {
    /// That of a connection that is opened now.
    fn new(now: Instant) -> Self {
        Self {
            started: now,
            written: 0,
            finished: false,
            stopped: false,
            received: 0,
            confirmed_by: Some(now.after(PATIENCE)),
            is_open: false,
            patience: PATIENCE,
        }
    }

    /// Returns how long the transfer takes already, if its last byte is still to come.
    fn ongoing(&self, now: Instant, turn: Turn) -> Option<Duration> {
        let whole = turn.bytes?.get();
        (self.received < whole).then(|| now.since(self.started))
    }

    /// Returns the duration of the transfer if the `received` bytes were its last.
    fn completed(&self, now: Instant, received: u64, turn: Turn) -> Option<Duration> {
        let whole = turn.bytes?.get();
        (received > 0 && self.received == whole).then(|| now.since(self.started))
    }
}

impl Host {
    /// Begins anew, for another connection.
    fn restart(&mut self, payload_max: u16, transport: &Arc<TransportConfig>) {
        let mut seed = [0; 32];
        for part in seed.chunks_mut(8) {
            part.copy_from_slice(&self.random.bits().to_le_bytes());
        }
        let mut config = EndpointConfig::new(Arc::new(Null));
        config.rng_seed(Some(seed));
        config.max_udp_payload_size(payload_max).expect("the MTU was checked");
        let identifiers = Random::stream(self.random.bits(), "identifiers");
        config.cid_generator(move || Box::new(Identifiers(identifiers.clone())));
        let mut server = ServerConfig::new(Arc::new(Null), Arc::new(Null));
        server.transport_config(Arc::clone(transport));
        let endpoint = Endpoint::new(Arc::new(config), Some(Arc::new(server)), false, None);
        self.endpoint = Some(endpoint);
        (self.connection, self.stream) = (None, None);
    }

    fn connect(&mut self, now: time::Instant, transport: &Arc<TransportConfig>) {
        let mut config = ClientConfig::new(Arc::new(Null));
        config.transport_config(Arc::clone(transport));
        config.token_store(Arc::new(NoneTokenStore));
        // quinn's clients begin with the longest identifier.
        let mut first = [0; 24];
        for part in first.chunks_mut(8) {
            part.copy_from_slice(&self.random.bits().to_le_bytes());
        }
        let first = ConnectionId::new(&first[..IDENTIFIER_MAX]);
        config.initial_dst_cid_provider(Arc::new(move || first));
        let endpoint = self.endpoint.as_mut().expect("it has begun");
        let connected = endpoint.connect(now, config, PEER, "server");
        self.connection = Some(connected.expect("the configuration is sound"));
    }

    /// Sends what there is to send, at most as many bytes of payload in a datagram.
    fn emit(&mut self, now: time::Instant, (most, ecn): (u16, bool), out: &mut Vec<Content>) {
        let Some((handle, connection)) = &mut self.connection else { return };
        let endpoint = self.endpoint.as_mut().expect("it has a connection");
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
            }
            let mut bytes = Vec::with_capacity(usize::from(most));
            let Some(transmit) = connection.poll_transmit(now, 1, &mut bytes) else { return };
            let mark = transmit.ecn.filter(|_| ecn).map_or(0, |codepoint| codepoint as u8);
            out.push(Content::Quic { bytes, ecn: mark });
        }
    }

    /// Returns the counters of the present connection, which quinn never resets.
    fn path(&self) -> PathStats {
        let stats = self.connection.as_ref().map(|(_, connection)| connection.stats().path);
        stats.unwrap_or_default()
    }
}

impl Done {
    fn add(&mut self, path: PathStats) {
        // A report takes out what it has shown before the connection adds its counters again, so
        // that a sum is below zero in between.
        self.packets = self.packets.wrapping_add(path.sent_packets);
        self.lost = self.lost.wrapping_add(path.lost_packets);
        self.congestion_events = self.congestion_events.wrapping_add(path.congestion_events);
    }

    fn subtract(&mut self, path: PathStats) {
        self.packets = self.packets.wrapping_sub(path.sent_packets);
        self.lost = self.lost.wrapping_sub(path.lost_packets);
        self.congestion_events = self.congestion_events.wrapping_sub(path.congestion_events);
    }

    pub fn report(&self, transfers: &Histogram) -> QuicReport {
        QuicReport {
            connections: self.connections,
            established: self.established,
            packets: self.packets,
            lost: self.lost,
            congestion_events: self.congestion_events,
            marks: self.marks,
            rtts: Delays::of(&self.rtts),
            transfers: Delays::of(transfers),
        }
    }
}

impl QuicReport {
    /// The titles of [`QuicReport::cells`].
    pub(crate) fn table() -> Table {
        let head = [
            "QUIC source",
            "opened",
            "of",
            "packets",
            "lost",
            "congestion\nevents",
            "marks",
            "RTT ms\np50",
            "p99",
            "transfers",
        ];
        Table::new(head).optional(&[1, 2, 6, 9])
    }

    pub(crate) fn cells(&self, name: &str) -> Vec<String> {
        let counts = [
            self.established,
            self.connections,
            self.packets,
            self.lost,
            self.congestion_events,
            self.marks,
        ];
        let [p50, _, p99, ..] = self.rtts.cells();
        let mut cells = vec![name.to_owned()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.extend([p50, p99]);
        cells.push(self.transfers.count.to_string());
        cells
    }
}

impl Clock {
    fn new() -> Self {
        // There is no other way to make one. quinn goes back from the beginning of a connection by
        // some round trips, which not every system can represent near its start.
        Self { zero: time::Instant::now() + time::Duration::from_secs(SECONDS_BEFORE) }
    }

    fn at(self, at: Instant) -> time::Instant {
        self.zero + time::Duration::from_nanos(at.as_nanos())
    }

    fn back(self, at: time::Instant) -> Instant {
        Instant::ZERO.after(Duration::from_nanos(at.duration_since(self.zero).as_nanos() as u64))
    }
}

/// Gives connections identifiers that the source's seed determines.
struct Identifiers(Random);

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.bits().to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        IDENTIFIER
    }

    fn cid_lifetime(&self) -> Option<time::Duration> {
        None
    }
}

/// Returns the settings of both ends, for datagrams of this payload.
fn transport_config(plan: &Quic, payload_max: u16) -> TransportConfig {
    let window = VarInt::from_u64(plan.window.get()).expect("windows are below 2^62 bytes");
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(window)
        .receive_window(window)
        // The receiver's window holds the sender back, not the sender's own buffer.
        .send_window(2 * plan.window.get())
        .initial_mtu(payload_max)
        .min_mtu(payload_max)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        // No connection is given up.
        .max_idle_timeout(None)
        .congestion_controller_factory(controller(plan, payload_max));
    if let Some(delay) = plan.ack_delay {
        let mut acks = AckFrequencyConfig::default();
        acks.max_ack_delay(Some(time::Duration::from_nanos(delay.as_nanos())));
        if delay == Duration::ZERO {
            acks.ack_eliciting_threshold(VarInt::from_u32(0));
        }
        config.ack_frequency_config(Some(acks));
    }
    config
}

fn controller(plan: &Quic, payload_max: u16) -> Arc<dyn ControllerFactory + Send + Sync> {
    let payload = u64::from(payload_max);
    let initial = match plan.initial_window {
        InitialWindow::Segments(packets) => u64::from(packets) * payload,
        InitialWindow::Bytes(bytes) => bytes.get(),
        // [rfc9002 §7.2]
        InitialWindow::Rfc6928 | InitialWindow::Rfc5681 => {
            (10 * payload).min(INITIAL_WINDOW.max(2 * payload))
        }
    };
    match plan.congestion {
        QuicCongestion::Cubic => {
            let mut config = CubicConfig::default();
            config.initial_window(initial);
            Arc::new(config)
        }
        QuicCongestion::Reno => {
            let mut config = NewRenoConfig::default();
            config.initial_window(initial);
            Arc::new(config)
        }
    }
}

/// Up to `most` bytes of what the sending application writes, from this place on.
fn pattern(place: u64, most: u64) -> Bytes {
    let from = (place % PERIOD as u64) as usize;
    let length = most.min((PATTERN.len() - from) as u64) as usize;
    Bytes::from_static(&PATTERN[from..from + length])
}

/// Checks that these bytes are those of this place.
fn check_pattern(mut place: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let expected = pattern(place, bytes.len() as u64);
        let (found, rest) = bytes.split_at(expected.len());
        assert!(found == expected, "the receiver reads what the sender wrote");
        (place, bytes) = (place + expected.len() as u64, rest);
    }
}

/// A prime, so that packets of no length hide an exchange of two.
const PERIOD: usize = 251;
static PATTERN: [u8; PERIOD * 256] = {
    let mut bytes = [0; PERIOD * 256];
    let mut place = 0;
    while place < bytes.len() {
        bytes[place] = (place % PERIOD) as u8;
        place += 1;
    }
    bytes
};
/// The other end, for quinn: with one connection it makes no difference.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 443);
/// [rfc9000 §16] quinn writes the length of a long packet as a number of two bytes.
const PAYLOAD_MAX: u16 = (1 << 14) - 1;
const UDP_HEADER: u16 = 8;
/// [rfc9002 §7.2]
const INITIAL_WINDOW: u64 = 14_720;
/// The length of connection identifiers, as quinn's.
const IDENTIFIER: usize = 8;
/// [rfc9000 §17.2]
const IDENTIFIER_MAX: usize = 20;
/// How long a sender waits for the receiver to confirm its first handshake.
const PATIENCE: Duration = Duration::from_secs(10);
const SECONDS_BEFORE: u64 = 1 << 20;
