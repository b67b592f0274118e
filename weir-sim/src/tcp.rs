//! TCP: a sender and a receiver, each a whole smoltcp stack, in simulated time.
//!
//! What the sender emits goes through the link, what the receiver emits comes back over the return
//! path. smoltcp counts microseconds: it is called with the current microsecond, rounded down, and
//! woken at the first nanosecond of one, so it is never early. Invariant: whenever
//! [`Connection::serve`] returns, the applications have nothing left to read or write.

use crate::random::Random;
use crate::scenario::{Congestion, InitialWindow, SlowStart, Tcp, WINDOW_MAX};
use crate::schedule::Transfers;
use crate::script::{Turn, Turns};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{self as stack, CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Packet};
use smoltcp::wire::{Ipv6Packet, TcpPacket, TcpSeqNumber};
use weir_core::units::{Bytes, Duration, Instant};

/// The sender or the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

/// A sender and a receiver, and the transfer between them.
pub(crate) struct Connection {
    plan: Tcp,
    transfers: Transfers,
    /// The present transfer.
    turn: Turn,
    endpoints: (IpEndpoint, IpEndpoint),
    hosts: [Host; 2],
    emitted: Vec<Vec<u8>>,
    /// Counts connections, so that packets of an earlier one are known as such.
    pub number: u32,
    transfer: Progress,
    retransmitted: u64,
}

/// The progress of the present connection.
#[derive(Clone, Copy, Debug)]
struct Progress {
    open: bool,
    started: Instant,
    /// Bytes yet to be given to the sender's stack; `None` without end.
    unsent: Option<u64>,
    received: u64,
    /// Segments that the receiver got, until it holds back acknowledgements.
    quick: u32,
    /// The end of the newest segment sent.
    newest: Option<TcpSeqNumber>,
}

/// The result of serving a host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// Bytes that reached the receiving application.
    pub received: u64,
    /// The duration of a transfer that was completed now.
    pub completed: Option<Duration>,
    /// When the host must be served again, if nothing comes before and it is not already planned.
    pub wake: Option<Instant>,
}

struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// The IP and TCP headers of a packet.
    headers: u16,
    /// The earliest wake-up that is planned.
    wake: Option<Instant>,
}

impl Connection {
    /// A connection not yet open. The two addresses are of one family.
    pub fn new(plan: Tcp, ends: (IpEndpoint, IpEndpoint), mut random: Random) -> Self {
        let host = |address, random: &mut Random| Host::new(&plan, address, random);
        let hosts = [host(ends.0.addr, &mut random), host(ends.1.addr, &mut random)];
        let transfer = Progress {
            open: false,
            started: Instant::ZERO,
            unsent: None,
            received: 0,
            quick: 0,
            newest: None,
        };
        Self {
            transfers: Transfers::new(&plan, None, random),
            plan,
            turn: Turn { bytes: None, pause: None },
            endpoints: ends,
            hosts,
            emitted: Vec::new(),
            number: 0,
            transfer,
            retransmitted: 0,
        }
    }

    /// Returns a connection that is not yet open, whose transfers a model of an application gives.
    pub fn with_work(self, work: Box<dyn Turns>) -> Self {
        Self { transfers: self.transfers.with_work(work), ..self }
    }

    /// Opens a connection for the next transfer, if there is one, in place of an earlier
    /// connection. Serve the sender next.
    pub fn open(&mut self, now: Instant) {
        let Some(turn) = self.transfers.next() else { return };
        self.turn = turn;
        self.number += 1;
        let (local, remote) = self.endpoints;
        let [sender, receiver] = &mut self.hosts;
        receiver.renew(&self.plan);
        sender.renew(&self.plan);
        receiver.socket().listen(remote).expect("the socket is new and the port is not 0");
        if self.plan.quick_acks > 0 {
            receiver.socket().set_ack_delay(None);
        }
        let socket = sender.sockets.get_mut::<Socket>(sender.socket);
        socket
            .connect(sender.interface.context(), remote, local)
            .expect("the socket is new and addresses and ports are set");
        self.transfer = Progress {
            open: true,
            started: now,
            unsent: turn.bytes.map(Bytes::get),
            received: 0,
            quick: 0,
            newest: None,
        };
    }

    /// Gives the sender no more data; the data in its buffer is still sent.
    pub fn close(&mut self) {
        self.transfer.unsent = Some(0);
    }

    /// How long the receiver's packets travel.
    pub fn return_delay(&self) -> Duration {
        self.plan.return_delay
    }

    /// The pause until the next transfer, if there is to be one.
    pub fn think(&self) -> Option<Duration> {
        self.turn.pause
    }

    /// Segments with data that were sent again.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Whether the wake-up of `side` at `at` still counts; it does once.
    pub fn wakes(&mut self, side: Side, at: Instant) -> bool {
        let host = &mut self.hosts[side as usize];
        let counts = host.wake == Some(at);
        if counts {
            host.wake = None;
        }
        counts
    }

    /// Lets `side` receive `packet`, if there is one, and do all it can. What it sends is then in
    /// [`Connection::emitted`], written into buffers out of `spare`.
    pub fn serve(
        &mut self,
        now: Instant,
        side: Side,
        packet: Option<&[u8]>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Served {
        if !self.transfer.open {
            return Served::default();
        }
        let micros = Micros::from_micros((now.as_nanos() / 1000) as i64);
        let mtu = usize::from(self.plan.mtu.get());
        let host = &mut self.hosts[side as usize];
        let mut port = Port { packet, spare, emitted: &mut self.emitted, mtu };
        if let Some(packet) = packet {
            if side == Side::Receiver {
                self.transfer.hold_back(&self.plan, packet, host.socket());
            }
            host.interface.poll_ingress_single(micros, &mut port, &mut host.sockets);
        }
        let mut served = Served::default();
        match side {
            Side::Sender => self.transfer.write(host.socket()),
            Side::Receiver => served.received = self.transfer.read(host.socket()),
        }
        // Reading comes before sending, so that an acknowledgement offers the whole window again.
        while host.interface.poll_egress(micros, &mut port, &mut host.sockets) != PollResult::None {
        }
        served.wake = host.plan_wake(now, micros);
        served.completed = self.transfer.completed(now, served.received, self.turn);
        if side == Side::Sender {
            self.count_retransmitted();
        }
        served
    }

    /// The IP packets sent in the last call of [`Connection::serve`], which the caller takes away.
    pub fn emitted(&mut self) -> std::vec::Drain<'_, Vec<u8>> {
        self.emitted.drain(..)
    }

    fn count_retransmitted(&mut self) {
        for bytes in &self.emitted {
            let Some((begin, length)) = segment(bytes) else { continue };
            if length == 0 {
                continue;
            }
            let end = begin + length;
            match self.transfer.newest {
                Some(newest) if end <= newest => self.retransmitted += 1,
                _ => self.transfer.newest = Some(end),
            }
        }
    }
}

impl Progress {
    /// Lets the receiver hold back acknowledgements from the segment in this packet on, if it has
    /// acknowledged as many one by one as a new connection's.
    fn hold_back(&mut self, plan: &Tcp, packet: &[u8], socket: &mut Socket<'_>) {
        let has_data = segment(packet).is_some_and(|(_, length)| length > 0);
        if !has_data || self.quick > plan.quick_acks {
            return;
        }
        if self.quick == plan.quick_acks {
            socket.set_ack_delay(plan.ack_delay.map(micros));
        }
        self.quick += 1;
    }

    /// Fills the sender's buffer with zeros.
    fn write(&mut self, socket: &mut Socket<'_>) {
        while socket.can_send() && self.unsent != Some(0) {
            let unsent = self.unsent.unwrap_or(u64::MAX);
            let fill = |buffer: &mut [u8]| {
                let length = buffer.len().min(usize::try_from(unsent).unwrap_or(usize::MAX));
                buffer[..length].fill(0);
                (length, length as u64)
            };
            let written = socket.send(fill).expect("the socket said that it can send");
            self.unsent = self.unsent.map(|unsent| unsent - written);
        }
        if self.unsent == Some(0) {
            socket.close();
        }
    }

    /// Empties the receiver's buffer; returns how many bytes there were.
    fn read(&mut self, socket: &mut Socket<'_>) -> u64 {
        let mut received = 0;
        while socket.can_recv() {
            let take = |buffer: &mut [u8]| (buffer.len(), buffer.len() as u64);
            received += socket.recv(take).expect("the socket said that it can receive");
        }
        if !socket.may_recv() && socket.is_active() && self.received + received > 0 {
            socket.close();
        }
        self.received += received;
        received
    }

    /// Returns the duration of the transfer if the `received` bytes were its last.
    fn completed(&self, now: Instant, received: u64, turn: Turn) -> Option<Duration> {
        let whole = turn.bytes?.get();
        (received > 0 && self.received == whole).then(|| now.since(self.started))
    }
}

impl Host {
    fn new(plan: &Tcp, address: IpAddress, random: &mut Random) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random.bits();
        let mut none = (Vec::new(), Vec::new());
        let mtu = usize::from(plan.mtu.get());
        let mut port = Port { packet: None, spare: &mut none.0, emitted: &mut none.1, mtu };
        let mut interface = Interface::new(config, &mut port, Micros::ZERO);
        interface.update_ip_addrs(|addresses| {
            // Prefix 0: every address is reached directly.
            addresses.push(IpCidr::new(address, 0)).expect("there is room for one address");
        });
        let mut sockets = SocketSet::new(Vec::new());
        let headers = match address {
            IpAddress::Ipv4(_) => 40,
            IpAddress::Ipv6(_) => 60,
        };
        let socket = sockets.add(new_socket(plan, headers));
        Self { interface, sockets, socket, headers, wake: None }
    }

    /// A new socket in place of the old one.
    fn renew(&mut self, plan: &Tcp) {
        self.sockets.remove(self.socket);
        self.socket = self.sockets.add(new_socket(plan, self.headers));
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Returns when to wake this host, unless an earlier wake-up is planned.
    fn plan_wake(&mut self, now: Instant, micros: Micros) -> Option<Instant> {
        let at = self.interface.poll_at(micros, &self.sockets)?.total_micros();
        let at = Instant::from_nanos(u64::try_from(at).unwrap_or(0).saturating_mul(1000));
        // All that can be done now is done: a stack that wants to run at once waits a microsecond.
        let at = at.max(now.after(Duration::from_micros(1)));
        if self.wake.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.wake = Some(at);
        self.wake
    }
}

fn new_socket(plan: &Tcp, headers: u16) -> Socket<'static> {
    let window = plan.window.get().clamp(1, WINDOW_MAX.get()) as usize;
    let options = if plan.timestamps { TIMESTAMP } else { 0 };
    // The sender holds a window that is under way and another that waits to be sent.
    let held = match plan.slow_start {
        // A segment does not go beyond the end of the ring, so it is one of whole segments.
        SlowStart::Bytes => {
            (2 * window).next_multiple_of((plan.mtu.get() - headers - options).into())
        }
        SlowStart::Acks => 2 * window,
    };
    let (receive, send) = (vec![0; window], vec![0; held]);
    let mut socket = Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send));
    socket.set_congestion_control(match plan.congestion {
        Congestion::None => CongestionControl::None,
        Congestion::Reno => CongestionControl::Reno,
        Congestion::Cubic => CongestionControl::Cubic,
    });
    socket.set_initial_window(match plan.initial_window {
        InitialWindow::Rfc6928 => stack::InitialWindow::Rfc6928,
        InitialWindow::Segments(segments) => stack::InitialWindow::Segments(segments as usize),
        InitialWindow::Bytes(bytes) => stack::InitialWindow::Bytes(bytes.get() as usize),
    });
    socket.set_window_growth(match plan.slow_start {
        SlowStart::Bytes => stack::WindowGrowth::Bytes,
        SlowStart::Acks => stack::WindowGrowth::Acks,
    });
    if plan.sack {
        socket.set_loss_recovery(stack::LossRecovery::Sack);
    }
    if plan.timestamps {
        // Their values tell the stack nothing that it does not know.
        socket.set_tsval_generator(Some(|| 1));
    }
    socket.set_retransmission_timeout_min(micros(plan.rto_min));
    socket.set_ack_delay(plan.ack_delay.map(micros));
    socket
}

fn micros(delay: Duration) -> smoltcp::time::Duration {
    smoltcp::time::Duration::from_micros(delay.as_nanos() / 1000)
}

/// Where the data of a TCP segment begins, and how long it is.
fn segment(bytes: &[u8]) -> Option<(TcpSeqNumber, usize)> {
    let payload = match bytes.first()? >> 4 {
        4 => Ipv4Packet::new_checked(bytes).ok()?.payload(),
        _ => Ipv6Packet::new_checked(bytes).ok()?.payload(),
    };
    let tcp = TcpPacket::new_checked(payload).ok()?;
    Some((tcp.seq_number(), tcp.payload().len()))
}

/// A host's network card: at most one packet comes in, everything sent goes into buffers.
struct Port<'a> {
    packet: Option<&'a [u8]>,
    spare: &'a mut Vec<Vec<u8>>,
    emitted: &'a mut Vec<Vec<u8>>,
    mtu: usize,
}

struct Incoming<'a>(&'a [u8]);

struct Outgoing<'a> {
    spare: &'a mut Vec<Vec<u8>>,
    emitted: &'a mut Vec<Vec<u8>>,
}

impl Device for Port<'_> {
    type RxToken<'a>
        = Incoming<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Outgoing<'a>
    where
        Self: 'a;

    fn receive(&mut self, _now: Micros) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let packet = self.packet.take()?;
        Some((Incoming(packet), Outgoing { spare: self.spare, emitted: self.emitted }))
    }

    fn transmit(&mut self, _now: Micros) -> Option<Outgoing<'_>> {
        Some(Outgoing { spare: self.spare, emitted: self.emitted })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // No bit is corrupted in the simulation.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(length, 0);
        let result = write(&mut bytes);
        self.emitted.push(bytes);
        result
    }
}

/// The option of a segment with a timestamp, with its padding, in bytes [rfc7323 §3].
const TIMESTAMP: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{RTO_MIN_LINUX, RTO_MIN_RFC6298, Transfer};
    use std::collections::BTreeMap;

    /// Sends 40 kB over a line of 10 ms each way; returns the lengths of the segments of each
    /// flight, which is what leaves at one instant.
    fn flights(plan: Tcp) -> Vec<Vec<usize>> {
        let transfer = Some(Transfer { bytes: Bytes::new(40_000), think: None });
        sent(Tcp { transfer, ..plan }, &[]).0.into_values().collect()
    }

    /// Sends a transfer over such a line, which loses the data segments of these numbers, from 0
    /// on; returns the lengths of those that leave at each instant, and the milliseconds that it took.
    fn sent(plan: Tcp, lost: &[usize]) -> (BTreeMap<Instant, Vec<usize>>, u64) {
        let ends = [1, 2].map(|host| IpEndpoint::new(IpAddress::v4(10, 0, 0, host), 1000));
        let random = Random::stream(1, "test");
        let mut connection = Connection::new(plan, ends.into(), random);
        let (mut spare, mut flights) = (Vec::new(), BTreeMap::<_, Vec<usize>>::new());
        let mut events = BTreeMap::from([((Instant::ZERO, 0), (Side::Sender, None))]);
        connection.open(Instant::ZERO);
        let (mut events_ever, mut segments) = (0, 0);
        while let Some(((now, _), (side, packet))) = events.pop_first() {
            if packet.is_none() && now > Instant::ZERO && !connection.wakes(side, now) {
                continue;
            }
            let packet: Option<Vec<u8>> = packet;
            let served = connection.serve(now, side, packet.as_deref(), &mut spare);
            let (other, arrival) = match side {
                Side::Sender => (Side::Receiver, now.after(Duration::from_millis(10))),
                Side::Receiver => (Side::Sender, now.after(Duration::from_millis(10))),
            };
            for bytes in connection.emitted() {
                let (_, length) = segment(&bytes).expect("a stack sends TCP");
                if length > 0 {
                    flights.entry(now).or_default().push(length);
                    segments += 1;
                    if lost.contains(&(segments - 1)) {
                        continue;
                    }
                }
                events_ever += 1;
                events.insert((arrival, events_ever), (other, Some(bytes)));
            }
            if let Some(at) = served.wake {
                events_ever += 1;
                events.insert((at, events_ever), (side, None));
            }
            if let Some(took) = served.completed {
                return (flights, took.as_nanos() / 1_000_000);
            }
        }
        panic!("the transfer does not end: {flights:?}");
    }

    #[test]
    fn the_first_segments_are_acknowledged_one_by_one() {
        let second = |quick_acks| {
            let (slow_start, initial_window) = (SlowStart::Acks, InitialWindow::Segments(4));
            flights(Tcp { quick_acks, slow_start, initial_window, ..Tcp::default() })[1].len()
        };
        // Each acknowledgement of the first four lets one more leave.
        assert_eq!([0, 2, 4, 16].map(second), [6, 7, 8, 8]);
    }

    #[test]
    fn a_timestamp_takes_12_bytes_of_each_segment() {
        for slow_start in [SlowStart::Acks, SlowStart::Bytes] {
            let sizes = flights(Tcp { timestamps: true, slow_start, ..Tcp::default() });
            assert!(sizes.concat().contains(&1448), "{sizes:?}");
            assert!(sizes.concat().iter().all(|size| *size <= 1448), "{sizes:?}");
        }
    }

    /// However many segments are lost, also those that are sent again, some timer goes on.
    #[test]
    fn a_transfer_ends_whatever_is_lost() {
        for run in 0..200 {
            let mut random = Random::stream(run, "losses");
            let percent = 5 + run % 50;
            let lost: Vec<usize> = (0..5000).filter(|_| random.bits() % 100 < percent).collect();
            let transfer = Some(Transfer { bytes: Bytes::new(300_000), think: None });
            for sack in [true, false] {
                let rto_min = if sack { RTO_MIN_LINUX } else { RTO_MIN_RFC6298 };
                let window = Bytes::new(500_000);
                sent(Tcp { transfer, sack, rto_min, window, ..Tcp::default() }, &lost);
            }
        }
    }

    /// 40 segments with losses in one flight, by each way to repair them.
    fn took(sack: bool, lost: &[usize]) -> (usize, u64) {
        let transfer = Some(Transfer { bytes: Bytes::new(40 * 1460), think: None });
        let rto_min = if sack { RTO_MIN_LINUX } else { RTO_MIN_RFC6298 };
        let (flights, took) = sent(Tcp { transfer, sack, rto_min, ..Tcp::default() }, lost);
        (flights.values().map(Vec::len).sum(), took)
    }

    #[test]
    fn selective_acknowledgements_repair_a_flight_in_one_round_trip_and_send_nothing_twice() {
        let (whole, sound) = took(true, &[]);
        assert_eq!((whole, sound), (40, took(false, &[]).1));
        // Alone, together, alternately, the first and the last ones of the second flight.
        let flight = |numbers: &[usize]| -> Vec<usize> { numbers.iter().map(|n| 10 + n).collect() };
        for lost in [&[3][..], &[3, 4, 5], &[0, 2, 4, 6, 8], &[0, 1, 14]] {
            let (sent, took) = took(true, &flight(lost));
            assert_eq!(sent, 40 + lost.len(), "{lost:?}");
            // The repair needs a round trip of 20 ms, and may push the end to a next one.
            assert!(took <= sound + 45, "{lost:?}: {took}, {sound}");
        }
        // By duplicate ones, each loss costs a round trip or more, or a timeout of a second.
        let (_, slow) = took(false, &flight(&[0, 2, 4, 6, 8]));
        assert!(slow >= sound + 80, "{slow}, {sound}");
    }

    #[test]
    fn a_lost_tail_is_probed_for_after_two_round_trips() {
        let (_, sound) = took(true, &[]);
        // The probe shows which of three are lost: it leaves after twice 20 ms, not after 220 ms.
        let (sent, probed) = took(true, &[37, 38, 39]);
        assert_eq!(sent, 43);
        assert!(probed < sound + 130, "{probed}, {sound}");
        // For a single one the peer may hold back an acknowledgement.
        let (sent, alone) = took(true, &[39]);
        assert_eq!(sent, 41);
        assert!((sound + 230..sound + 260).contains(&alone), "{alone}, {sound}");
        let (_, slow) = took(false, &[39]);
        assert!(slow > sound + 900, "{slow}, {sound}");
    }

    #[test]
    fn a_retransmission_that_is_lost_is_sent_again() {
        // Segment 13 is lost, and so is the first one that is sent after its loss was found.
        let transfer = Some(Transfer { bytes: Bytes::new(200 * 1460), think: None });
        let plan = Tcp { transfer, ..Tcp::default() };
        let (_, once) = sent(plan.clone(), &[13]);
        let (flights, twice) = sent(plan, &[13, 28, 29, 30, 31]);
        let total: usize = flights.values().map(Vec::len).sum();
        assert_eq!(total, 205, "{flights:?}");
        assert!(twice < once + 300, "{twice}, {once}");
    }

    #[test]
    fn a_transfer_of_40_kb_leaves_in_flights_of_10_and_18_whole_segments() {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            let flights = flights(Tcp { congestion, ..Tcp::default() });
            let counts: Vec<_> = flights.iter().map(Vec::len).collect();
            assert_eq!(counts, [10, 18], "{congestion:?}");
            let lengths = flights.concat();
            let (last, others) = lengths.split_last().expect("there are 28");
            assert!(others.iter().all(|length| *length == 1460), "{congestion:?} {others:?}");
            assert_eq!(*last, 40_000 - 27 * 1460);
        }
    }

    #[test]
    fn a_connection_may_begin_with_less_and_grow_by_acknowledgements() {
        let initial_window = InitialWindow::Bytes(Bytes::new(2048));
        let (slow_start, congestion) = (SlowStart::Acks, Congestion::Reno);
        let plan = Tcp { initial_window, slow_start, congestion, ..Tcp::default() };
        let counts: Vec<_> = flights(plan).iter().map(Vec::len).collect();
        assert!(counts.len() > 4 && counts[0] == 2, "{counts:?}");
        let initial_window = InitialWindow::Segments(4);
        let counts: Vec<_> =
            flights(Tcp { initial_window, ..Tcp::default() }).iter().map(Vec::len).collect();
        assert_eq!(counts, [4, 8, 16]);
    }
}
