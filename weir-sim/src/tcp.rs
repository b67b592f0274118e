//! TCP: a sender and a receiver, each a [`weir_tcp::Endpoint`], and the applications above them.
//!
//! Segments of the sender go through the link, those of the receiver come back over the return
//! path. The sending application writes a whole transfer at once, the receiving one reads whatever
//! is there. Invariant: that of [`Transport`].

use crate::connections::Connections;
use crate::conversation::{Deed, Talk};
use crate::packets::Content;
use crate::random::Random;
use crate::scenario::Tcp;
use crate::schedule::Transfers;
use crate::script::{Playback, Turn, Turns};
use crate::segments::{Place, Segments};
use crate::transport::{Alarm, Served, Side, Transport};
use std::sync::Arc;
use weir_core::units::{Bytes, Duration, Instant};
use weir_tcp::{Config, Endpoint, SeqNumber, State};

/// A sender and a receiver, and the transfer between them.
pub(crate) struct Connection {
    config: Arc<Config>,
    return_delay: Duration,
    transfers: Transfers,
    /// The transfer of the present connection.
    turn: Turn,
    /// The conversation of the applications, in place of a transfer.
    talk: Option<Talk>,
    hosts: [Host; 2],
    number: u32,
    progress: Progress,
    did: Connections,
    /// The segments that the hosts send, if they are recorded.
    noted: Option<Box<Segments>>,
}

/// The progress of the present connection.
#[derive(Clone, Copy, Debug)]
struct Progress {
    started: Instant,
    /// The sending application has written all that it will write.
    written: bool,
    /// It is to write no more.
    stopped: bool,
    received: u64,
}

struct Host {
    endpoint: Endpoint,
    /// The initial sequence number of its first connection.
    initial: u32,
    alarm: Alarm,
}

impl Connection {
    /// A connection not yet open, over IP headers of this length.
    pub fn new(plan: &Tcp, ip_header: u16, mut random: Random) -> Self {
        let config = Arc::new(plan.simulated(ip_header));
        let mut host = || {
            let initial = random.bits() as u32;
            let endpoint = Endpoint::listen(Arc::clone(&config), SeqNumber(initial));
            Host { endpoint, initial, alarm: Alarm::default() }
        };
        let hosts = [host(), host()];
        let (started, none) = (Instant::ZERO, Turn { bytes: None, pause: None });
        Self {
            transfers: Transfers::new(plan.transfer, None, random),
            config,
            return_delay: plan.return_delay,
            turn: none,
            talk: plan.conversation.as_ref().map(Talk::new),
            hosts,
            number: 0,
            progress: Progress { started, written: false, stopped: false, received: 0 },
            did: Connections::default(),
            noted: None,
        }
    }

    /// Returns a connection that is not yet open, whose transfers a model of an application gives.
    pub fn with_work(self, work: Box<dyn Turns>) -> Self {
        Self { transfers: self.transfers.with_work(work), ..self }
    }

    /// Notes each segment from now on.
    pub fn note_segments(&mut self) {
        self.noted = Some(Box::default());
    }

    /// Returns the segments noted, if they were.
    pub fn take_segments(&mut self) -> Option<Segments> {
        self.noted.take().map(|noted| *noted)
    }

    /// Returns what this and earlier connections did until `now`, and counts from there on anew.
    pub fn take_report(&mut self, now: Instant) -> Connections {
        let [sender, receiver] = &mut self.hosts;
        let (sent, received) =
            (sender.endpoint.take_report(now), receiver.endpoint.take_report(now));
        self.did.add(&sent, &received);
        std::mem::take(&mut self.did)
    }

    fn send(&mut self, now: Instant, out: &mut Vec<Content>) {
        let progress = self.progress;
        let endpoint = &mut self.hosts[Side::Sender as usize].endpoint;
        if progress.stopped && (!progress.written || self.turn.bytes.is_none()) {
            endpoint.close();
        } else if !progress.written && endpoint.state() == State::Established {
            // The SYN's acknowledgement is acknowledged before the application learns of it.
            self.emit(now, Side::Sender, out);
            self.write();
        }
        self.emit(now, Side::Sender, out);
    }

    /// Writes the whole transfer.
    fn write(&mut self) {
        self.progress.written = true;
        let endpoint = &mut self.hosts[Side::Sender as usize].endpoint;
        match self.turn.bytes {
            None => endpoint.write_forever(),
            Some(bytes) => {
                endpoint.write(bytes.get());
                endpoint.close();
            }
        }
    }

    fn emit(&mut self, now: Instant, side: Side, out: &mut Vec<Content>) {
        let connection = self.number;
        let initial = self.hosts.each_ref().map(|host| host.initial(connection).0);
        let endpoint = &mut self.hosts[side as usize].endpoint;
        while let Some(segment) = endpoint.emit(now) {
            self.did.retransmitted += u64::from(segment.again.is_some());
            if let Some(noted) = &mut self.noted {
                let initial = [initial[side as usize], initial[1 - side as usize]];
                noted.note(Place { at: now, connection, side, initial }, &segment, endpoint);
            }
            out.push(Content::Segment(segment));
        }
    }

    /// Lets the application of `side` read and write what the conversation has now, and the host
    /// send it.
    fn converse(&mut self, now: Instant, side: Side, out: &mut Vec<Content>) -> Served {
        let mut served = Served::default();
        let state = self.hosts[side as usize].endpoint.state();
        let talk = self.talk.as_mut().expect("it converses");
        if talk.is_opening() && side == talk.client() && state == State::Established {
            talk.open(now);
            // As for a transfer, the handshake ends before the application learns of it.
            self.emit(now, side, out);
        }
        let Self { talk, hosts, progress, .. } = self;
        let talk = talk.as_mut().expect("it converses");
        let endpoint = &mut hosts[side as usize].endpoint;
        let read = endpoint.read(u64::MAX);
        served.completed = talk.read(now, side, read);
        if side == Side::Receiver {
            served.received = read;
            progress.received += read;
        }
        while let Some(deed) = talk.next(now, side) {
            match deed {
                Deed::Write(bytes) => {
                    endpoint.write(bytes);
                }
                Deed::Close => endpoint.close(),
            }
        }
        if endpoint.is_finished() {
            endpoint.close();
        }
        let [own, other] = [side, side.other()].map(|side| talk.due(side));
        self.emit(now, side, out);
        let host = &mut self.hosts[side as usize];
        let due = host.endpoint.next_wake().into_iter().chain(own).min();
        served.wake = host.alarm.plan(now, due);
        served.wake_other = self.hosts[side.other() as usize].alarm.plan(now, other);
        served
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
        self.number += 1;
        self.did.begun += 1;
        let [sender, receiver] = &mut self.hosts;
        self.did.add(&sender.endpoint.take_report(now), &receiver.endpoint.take_report(now));
        if let Some(talk) = &mut self.talk {
            talk.reopen();
        }
        let client = self.talk.as_ref().map_or(Side::Sender, Talk::client);
        for side in [client, client.other()] {
            let (host, config) = (&mut self.hosts[side as usize], Arc::clone(&self.config));
            let initial = host.initial(self.number);
            host.endpoint = match side == client {
                true => Endpoint::connect(config, now, initial),
                false => Endpoint::listen(config, initial),
            };
        }
        self.progress = Progress { started: now, written: false, stopped: false, received: 0 };
    }

    fn close(&mut self) {
        self.progress.stopped = true;
        if let Some(talk) = &mut self.talk {
            talk.stop();
        }
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn return_delay(&self) -> Duration {
        self.return_delay
    }

    fn think(&mut self, took: Duration) -> Option<Duration> {
        match &self.talk {
            Some(talk) => talk.reopens(),
            None => self.transfers.pause(self.turn, took),
        }
    }

    fn wakes(&mut self, side: Side, at: Instant) -> bool {
        self.hosts[side as usize].alarm.counts(at)
    }

    fn serve(
        &mut self,
        now: Instant,
        side: Side,
        content: Content,
        out: &mut Vec<Content>,
    ) -> Served {
        if self.number == 0 {
            return Served::default();
        }
        let endpoint = &mut self.hosts[side as usize].endpoint;
        match &content {
            Content::Segment(segment) => endpoint.receive(now, segment),
            _ => endpoint.wake(now),
        }
        if let (Side::Sender, Some(rtt)) = (side, endpoint.take_rtt()) {
            self.did.rtts.record(rtt);
        }
        if self.talk.is_some() {
            return self.converse(now, side, out);
        }
        let mut served = Served::default();
        match side {
            Side::Sender => self.send(now, out),
            Side::Receiver => {
                // Reading comes before sending, so that an acknowledgement offers the whole window.
                served.received = endpoint.read(u64::MAX);
                if endpoint.is_finished() {
                    endpoint.close();
                }
                self.progress.received += served.received;
                self.emit(now, side, out);
            }
        }
        let host = &mut self.hosts[side as usize];
        served.wake = host.alarm.plan(now, host.endpoint.next_wake());
        served.completed = self.progress.completed(now, served.received, self.turn);
        served
    }
}

impl Progress {
    /// Returns how long the transfer takes already, if its last byte is still to come.
    fn ongoing(&self, now: Instant, turn: Turn) -> Option<Duration> {
        let whole = turn.bytes.map(Bytes::get)?;
        (self.received < whole).then(|| now.since(self.started))
    }

    /// Returns the duration of the transfer if the `received` bytes were its last.
    fn completed(&self, now: Instant, received: u64, turn: Turn) -> Option<Duration> {
        let whole = turn.bytes.map(Bytes::get)?;
        (received > 0 && self.received == whole).then(|| now.since(self.started))
    }
}

impl Host {
    /// The initial sequence number of a connection.
    fn initial(&self, number: u32) -> SeqNumber {
        SeqNumber(self.initial.wrapping_add(number.wrapping_mul(INITIAL_STEP)))
    }
}

/// How far apart the initial sequence numbers of connections are; any odd number far from 0 does.
const INITIAL_STEP: u32 = 0x9e37_79b1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Congestion, InitialWindow, RTO_MIN_RFC6298, SlowStart, Transfer};
    use std::collections::BTreeMap;
    use weir_tcp::Recovery;

    /// A plan with changes.
    fn plan(change: impl FnOnce(&mut Config)) -> Tcp {
        let mut tcp = Tcp::default();
        change(&mut tcp.config);
        tcp
    }

    /// Repairs losses by duplicate acknowledgements.
    fn without_sack(config: &mut Config) {
        (config.sack, config.dsack, config.recovery) = (false, false, Recovery::bsd());
        (config.rto.min, config.rto.min_bounds_deviation) = (RTO_MIN_RFC6298, false);
    }

    /// Sends 40 kB over a line of 10 ms each way; returns the lengths of the segments of each
    /// flight, which is what leaves at one instant.
    fn flights(plan: Tcp) -> Vec<Vec<u32>> {
        let transfer = Some(Transfer { bytes: Bytes::new(40_000), think: None });
        sent(Tcp { transfer, ..plan }, &[]).0.into_values().collect()
    }

    /// Sends a transfer over such a line, which loses the data segments of these numbers, from 0
    /// on; returns the lengths of those that leave at each instant, and the milliseconds that it took.
    fn sent(plan: Tcp, lost: &[usize]) -> (BTreeMap<Instant, Vec<u32>>, u64) {
        let mut connection = Connection::new(&plan, 20, Random::stream(1, "test"));
        let mut flights = BTreeMap::<_, Vec<u32>>::new();
        let mut emitted = Vec::new();
        let first = (Side::Sender, Content::Nothing);
        let mut events = BTreeMap::from([((Instant::ZERO, 0), first)]);
        connection.open(Instant::ZERO);
        let (mut events_ever, mut segments) = (0, 0);
        while let Some(((now, _), (side, content))) = events.pop_first() {
            if content.is_nothing() && now > Instant::ZERO && !connection.wakes(side, now) {
                continue;
            }
            let served = connection.serve(now, side, content, &mut emitted);
            let other = side.other();
            for content in emitted.drain(..) {
                let Content::Segment(segment) = &content else { panic!("it sends segments") };
                if segment.length > 0 {
                    flights.entry(now).or_default().push(segment.length);
                    segments += 1;
                    if lost.contains(&(segments - 1)) {
                        continue;
                    }
                }
                events_ever += 1;
                let arrival = now.after(Duration::from_millis(10));
                events.insert((arrival, events_ever), (other, content));
            }
            if let Some(at) = served.wake {
                events_ever += 1;
                events.insert((at, events_ever), (side, Content::Nothing));
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
            let plan = plan(|config| {
                config.slow_start = SlowStart::Acks;
                config.initial_window = InitialWindow::Segments(4);
                config.acks.quick = quick_acks;
            });
            flights(plan)[1].len()
        };
        // Each acknowledgement of the first four lets one more leave.
        assert_eq!([0, 2, 4, 16].map(second), [6, 7, 8, 8]);
    }

    #[test]
    fn a_timestamp_takes_12_bytes_of_each_segment() {
        for slow_start in [SlowStart::Acks, SlowStart::Bytes { limit: None }] {
            let sizes = flights(plan(|config| {
                (config.timestamps, config.slow_start) = (true, slow_start);
            }));
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
            for change in [|_: &mut Config| {}, without_sack] {
                let plan = plan(change).with_window(Bytes::new(500_000));
                sent(Tcp { transfer, ..plan }, &lost);
            }
        }
    }

    /// 40 segments with losses in one flight, by each way to repair them.
    fn took(sack: bool, lost: &[usize]) -> (usize, u64) {
        let transfer = Some(Transfer { bytes: Bytes::new(40 * 1460), think: None });
        let plan = if sack { Tcp::default() } else { plan(without_sack) };
        let (flights, took) = sent(Tcp { transfer, ..plan }, lost);
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
            let flights = flights(Tcp::default().with_congestion(congestion));
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
        let small = plan(|config| {
            config.initial_window = InitialWindow::Bytes(Bytes::new(2048));
            (config.slow_start, config.congestion) = (SlowStart::Acks, Congestion::Reno);
        });
        let counts: Vec<_> = flights(small).iter().map(Vec::len).collect();
        assert!(counts.len() > 4 && counts[0] == 2, "{counts:?}");
        let four = plan(|config| config.initial_window = InitialWindow::Segments(4));
        let counts: Vec<_> = flights(four).iter().map(Vec::len).collect();
        assert_eq!(counts, [4, 8, 16]);
    }
}
