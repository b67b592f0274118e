//! Numbered datagrams from the client to the server: which arrived, when, and how often.

use super::canary::Pause;
use super::link::text;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_live::batch::{self, Inbox};
use weir_live::wait::{WaitPolicy, Waiter, monotonic_ns, set_exact_timers};
use weir_testbed::{Host, Testbed};

/// The ports of the probe, which has a class of its own, and of other traffic.
pub(super) const PROBE_PORT: u16 = 5004;
pub(super) const LOAD_PORT: u16 = 5005;
/// A turn of the sender.
pub(super) const TURN_NS: u64 = 1_000_000;

/// A sender and its receiver, each a thread.
pub(super) struct Stream {
    flags: Arc<Flags>,
    sender: JoinHandle<Result<Sent, String>>,
    receiver: JoinHandle<Result<Arrived, String>>,
}

#[derive(Default)]
struct Flags {
    /// Datagrams a turn.
    burst: AtomicU32,
    /// Bytes of each.
    length: AtomicU32,
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
}

/// The instants at which turns were sent, and how many datagrams.
#[derive(Default)]
struct Sent {
    turns_ns: Vec<u64>,
    datagrams: u64,
}

/// What arrived.
#[derive(Default)]
struct Arrived {
    /// For each number the instant of its first arrival; 0 if it did not arrive.
    at_ns: Vec<u64>,
    twice: u64,
}

/// What became of a stream.
#[derive(Default)]
pub(super) struct Outcome {
    /// When each datagram was sent; empty if there were several a turn.
    pub(super) sent_ns: Vec<u64>,
    /// When it arrived; 0 if it did not.
    pub(super) at_ns: Vec<u64>,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// Datagrams that arrived again.
    pub(super) twice: u64,
}

/// A time without arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Its length without the pauses of the sender.
    pub(super) length_ns: u64,
}

impl Stream {
    /// One datagram a turn: 1 kHz.
    pub(super) fn probe(testbed: &Testbed) -> Result<Self, String> {
        Self::start(testbed, PROBE_PORT, (1, 64))
    }

    /// Starts with this many datagrams a turn, each of this many bytes.
    pub(super) fn start(
        testbed: &Testbed,
        port: u16,
        (burst, length): (u32, u32),
    ) -> Result<Self, String> {
        let to = SocketAddr::new(Host::Server.ip4(), port);
        let server = testbed.server.run(|| UdpSocket::bind(to)).map_err(text)?.map_err(text)?;
        let open = || UdpSocket::bind("0.0.0.0:0");
        let client = testbed.client.run(open).map_err(text)?.map_err(text)?;
        batch::stamp_received(server.as_fd()).map_err(text)?;
        batch::enlarge_receive_buffer(server.as_fd(), RECEIVE_BYTES);
        client.connect(to).map_err(text)?;
        let flags = Arc::new(Flags::default());
        flags.burst.store(burst, Ordering::Relaxed);
        flags.length.store(length, Ordering::Relaxed);
        let (sending, receiving) = (Arc::clone(&flags), Arc::clone(&flags));
        Ok(Self {
            sender: std::thread::spawn(move || send(&client, &sending)),
            receiver: std::thread::spawn(move || receive(&server, &receiving)),
            flags,
        })
    }

    /// Sends this many datagrams a turn from now on, each of this many bytes.
    pub(super) fn set_load(&self, (burst, length): (u32, u32)) {
        self.flags.length.store(length, Ordering::Relaxed);
        self.flags.burst.store(burst, Ordering::Relaxed);
    }

    /// Stops sending, waits for what is on its way, and returns what became of all.
    pub(super) fn finish(self) -> Result<Outcome, String> {
        self.flags.stop_sending.store(true, Ordering::Relaxed);
        let sent = self.sender.join().map_err(|_| "the sender panicked")??;
        std::thread::sleep(ON_ITS_WAY);
        self.flags.stop_receiving.store(true, Ordering::Relaxed);
        let arrived = self.receiver.join().map_err(|_| "the receiver panicked")??;
        Ok(Outcome {
            arrived: arrived.at_ns.iter().filter(|at| **at > 0).count() as u64,
            at_ns: arrived.at_ns,
            sent_ns: sent.turns_ns,
            sent: sent.datagrams,
            twice: arrived.twice,
        })
    }
}

fn send(socket: &UdpSocket, flags: &Flags) -> Result<Sent, String> {
    set_exact_timers().map_err(text)?;
    socket.set_nonblocking(true).map_err(text)?;
    let mut sent = Sent::default();
    let mut due = monotonic_ns();
    while !flags.stop_sending.load(Ordering::Relaxed) {
        let now = monotonic_ns();
        if due > now {
            std::thread::sleep(Duration::from_nanos(due - now));
        } else if now - due > LATE_MAX_NS {
            // What a pause left undone is not made up for.
            due = now;
        }
        due += TURN_NS;
        let burst = flags.burst.load(Ordering::Relaxed);
        let mut bytes = vec![0; flags.length.load(Ordering::Relaxed).max(8) as usize];
        sent.turns_ns.push(monotonic_ns());
        for _ in 0..burst {
            bytes[..8].copy_from_slice(&sent.datagrams.to_be_bytes());
            // While the interface is down there is nothing to wait for: the number is lost.
            let _lost = socket.send(&bytes);
            sent.datagrams += 1;
        }
    }
    Ok(sent)
}

fn receive(socket: &UdpSocket, flags: &Flags) -> Result<Arrived, String> {
    let mut inbox = Inbox::new(64, 64);
    let mut waiter = Waiter::new(WaitPolicy::Block, &[socket.as_raw_fd()]);
    let mut arrived = Arrived::default();
    while !flags.stop_receiving.load(Ordering::Relaxed) {
        let count = inbox.receive(socket.as_fd()).map_err(text)?;
        if count == 0 {
            waiter.wait(monotonic_ns(), None).map_err(text)?;
        }
        let ahead = batch::realtime_ahead_ns();
        for index in 0..count {
            let message = inbox.message(index);
            let stamp = message.stamp_ns.map(|stamp| stamp.saturating_add_signed(-ahead));
            if let Some(number) = message.bytes.first_chunk() {
                arrived.note(u64::from_be_bytes(*number), stamp.unwrap_or_else(monotonic_ns));
            }
        }
    }
    Ok(arrived)
}

impl Arrived {
    fn note(&mut self, number: u64, at_ns: u64) {
        let Ok(index) = usize::try_from(number) else { return };
        if index >= self.at_ns.len() {
            self.at_ns.resize(index + 1, 0);
        }
        match self.at_ns[index] {
            0 => self.at_ns[index] = at_ns,
            _ => self.twice += 1,
        }
    }
}

impl Outcome {
    /// Returns the times without an arrival of at least `least_ns`, of a stream of one datagram a
    /// turn; the last one runs to the last turn.
    pub(super) fn gaps(&self, least_ns: u64) -> Vec<Gap> {
        let arrivals: Vec<(usize, u64)> = self
            .at_ns
            .iter()
            .enumerate()
            .filter_map(|(number, at)| (*at > 0).then_some((number, *at)))
            .collect();
        let last = self.sent_ns.last().copied().unwrap_or_default();
        let end = (self.sent_ns.len().saturating_sub(1), last);
        let next = arrivals.iter().skip(1).copied().chain([end]);
        let gaps = arrivals.iter().zip(next).map(|((from, from_ns), (to, to_ns))| {
            let pause = self.longest_pause(*from, to);
            let length_ns = to_ns.saturating_sub(*from_ns).saturating_sub(pause);
            Gap { from_ns: *from_ns, to_ns, length_ns }
        });
        gaps.filter(|gap| gap.length_ns >= least_ns).collect()
    }

    /// Returns by how much the sender was late at most, between these numbers.
    fn longest_pause(&self, from: usize, to: usize) -> u64 {
        let turns = self.sent_ns.get(from..=to).unwrap_or_default();
        let pauses = turns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        pauses.max().unwrap_or_default().saturating_sub(TURN_NS)
    }

    /// Returns how many arrived in this time.
    pub(super) fn arrived_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        // 0 stands for one that did not arrive.
        let span = from_ns.max(1)..to_ns;
        self.at_ns.iter().filter(|at| span.contains(*at)).count() as u64
    }
}

impl Gap {
    /// Returns whether a part of it is in this time.
    pub(super) fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns < to_ns && from_ns < self.to_ns
    }

    /// Returns its length without the times in which the system let nothing run on a processor.
    pub(super) fn without(&self, pauses: &[Pause]) -> u64 {
        let during = pauses.iter().map(|pause| {
            pause.to_ns.min(self.to_ns).saturating_sub(pause.from_ns.max(self.from_ns))
        });
        self.length_ns.saturating_sub(during.sum())
    }
}

const RECEIVE_BYTES: u32 = 4 << 20;
const ON_ITS_WAY: Duration = Duration::from_millis(300);
const LATE_MAX_NS: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// One datagram a turn of 1 ms; `arrived` says which of them came, half a turn later.
    fn outcome(turns: &[u64], arrived: &[usize]) -> Outcome {
        let sent_ns: Vec<u64> = turns.iter().map(|ms| ms * 1_000_000).collect();
        let mut at_ns = vec![0; turns.len()];
        arrived.iter().for_each(|number| at_ns[*number] = sent_ns[*number] + 500_000);
        Outcome { sent_ns, at_ns, ..Outcome::default() }
    }

    #[test]
    fn a_gap_does_not_contain_the_pauses_of_the_sender() {
        let even: Vec<u64> = (100..200).collect();
        let all: Vec<usize> = (0..100).collect();
        let rows = [
            (even.clone(), all.clone(), vec![]),
            // Numbers 10 to 59 are lost.
            (even.clone(), [&all[..10], &all[60..]].concat(), vec![51_000_000]),
            // Nothing after number 9 comes.
            (even, all[..10].to_vec(), vec![89_500_000]),
            // The sender itself pauses.
            ((100..110).chain(160..170).collect(), (0..20).collect(), vec![]),
        ];
        for (turns, arrived, expected) in rows {
            let gaps = outcome(&turns, &arrived).gaps(10_000_000);
            let lengths: Vec<u64> = gaps.iter().map(|gap| gap.length_ns).collect();
            assert_eq!(lengths, expected, "{arrived:?}");
        }
    }

    #[test]
    fn what_the_system_caused_is_taken_off_a_gap() {
        let gap = Gap { from_ns: 100, to_ns: 200, length_ns: 100 };
        let rows = [((0, 50), 100), ((50, 130), 70), ((150, 160), 90), ((0, 300), 0)];
        for ((from_ns, to_ns), left) in rows {
            assert_eq!(gap.without(&[Pause { from_ns, to_ns }]), left, "{from_ns} to {to_ns}");
        }
    }

    #[test]
    fn a_second_arrival_is_counted() {
        let mut arrived = Arrived::default();
        for number in [0, 2, 2, 1, 2] {
            arrived.note(number, 7);
        }
        assert_eq!((arrived.twice, arrived.at_ns.len()), (2, 3));
    }
}
