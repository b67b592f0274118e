//! The traffic of the overload: bulk as fast as asked, and packets of the guaranteed class anywhere
//! among it, from one thread; at the other end the guaranteed packets are counted one by one.

use super::{BULK_PORT, IP_LENGTH, VOICE_PORT};
use crate::rig;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_core::account::Histogram;
use weir_core::random::Random;
use weir_live::batch::{self, BATCH_MAX, FrameSocket, Inbox};
use weir_live::error::SystemError;
use weir_live::netlink::Netlink;
use weir_live::testbed::{END, Host};
use weir_live::wait::{monotonic_ns, pin_to_cpu, set_exact_timers};

/// How bulk is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bulk {
    /// 60-byte packets, this many a second.
    Rate(f64),
    /// 60-byte packets, as many as the generator can.
    All,
    /// Super-packets that are cut into packets of this payload, as many as the generator can.
    Segments(u16),
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offered {
    pub(super) bulk_per_second: f64,
    pub(super) voice: u64,
}

/// What arrived of the guaranteed class.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) packets: u64,
    pub(super) delays: Histogram,
}

/// Sends until stopped; for a thread of the client's network.
pub(super) fn send(bulk: Bulk, stop: &AtomicBool) -> Result<Offered, SystemError> {
    let mut sender = Sender::new(bulk)?;
    let (start, mut random) = (monotonic_ns(), Random::new(SEED, 0));
    let (mut sent, mut voice) = (0u64, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let now = monotonic_ns();
        let seconds = (now - start) as f64 / 1e9;
        let due = match bulk {
            Bulk::Rate(rate) => ((rate * seconds) as u64).saturating_sub(sent),
            Bulk::All | Bulk::Segments(_) => u64::MAX,
        };
        let due = due.min(BATCH_MAX as u64 - 1) as usize;
        let voice_due = (seconds * VOICE_PER_SECOND) as u64 > voice;
        if due == 0 && !voice_due {
            thread::sleep(PAUSE);
            continue;
        }
        // In a batch the guaranteed packet may have any place.
        let place = random.below(due as u32 + 1) as usize;
        if voice_due {
            sent += sender.bulk(place)?;
            sender.voice(voice)?;
            voice += 1;
            sent += sender.bulk(due - place)?;
        } else {
            sent += sender.bulk(due)?;
        }
    }
    let seconds = (monotonic_ns() - start) as f64 / 1e9;
    Ok(Offered { bulk_per_second: sent as f64 / seconds, voice })
}

/// Floods towards the client from a thread of the server's network: 60-byte packets to a station
/// that does not exist.
pub(super) fn send_back(stop: &AtomicBool) -> Result<(), SystemError> {
    let mut sender = Sender::new(Bulk::All)?;
    while !stop.load(Ordering::Relaxed) {
        sender.bulk(BATCH_MAX)?;
    }
    Ok(())
}

struct Sender {
    frames: FrameSocket,
    bulk: Vec<u8>,
    voice: Vec<u8>,
    /// The socket that sends super-packets, and how many packets one becomes.
    segments: Option<(UdpSocket, Vec<u8>, u64)>,
}

impl Sender {
    fn new(bulk: Bulk) -> Result<Self, SystemError> {
        rig::cpus().1.map_or(Ok(()), pin_to_cpu)?;
        set_exact_timers()?;
        let length = ETHERNET + IP_LENGTH as usize;
        let mut voice = rig::frame(VOICE_PORT, length);
        voice[..6].copy_from_slice(&Host::Server.mac().0);
        // Without a checksum, since each packet has other bytes.
        voice[CHECKSUM..][..2].fill(0);
        let segments = match bulk {
            Bulk::Segments(payload) => Some(segments(payload)?),
            Bulk::Rate(_) | Bulk::All => None,
        };
        let index = Netlink::open()?.link(END)?.index;
        let frames = FrameSocket::sender(END, index)?;
        Ok(Self { frames, bulk: rig::frame(BULK_PORT, length), voice, segments })
    }

    /// Sends about this many bulk packets; returns how many.
    fn bulk(&mut self, count: usize) -> Result<u64, SystemError> {
        let Some((socket, payload, packets)) = &self.segments else {
            let batch = [self.bulk.as_slice(); BATCH_MAX];
            let taken = batch::send_batch(self.frames.as_fd(), &batch[..count.min(BATCH_MAX)]);
            return Ok(taken.unwrap_or_default() as u64);
        };
        // A refused super-packet is not offered.
        Ok(if count > 0 && socket.send(payload).is_ok() { *packets } else { 0 })
    }

    fn voice(&mut self, number: u64) -> Result<(), SystemError> {
        let mark = [MARK, number, monotonic_ns()].map(u64::to_be_bytes).concat();
        self.voice[PAYLOAD..][..mark.len()].copy_from_slice(&mark);
        // The generator's own interface may be out of room: that packet was never offered.
        for _ in 0..TRIES {
            if batch::send_batch(self.frames.as_fd(), &[&self.voice]).is_ok() {
                return Ok(());
            }
        }
        let why = "the generator's interface takes no packet";
        Err(SystemError::refused("send a guaranteed packet", why, ""))
    }
}

fn segments(payload: u16) -> Result<(UdpSocket, Vec<u8>, u64), SystemError> {
    let failed = |cause| SystemError::new("send super-packets", cause);
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    socket.connect(SocketAddr::new(Host::Server.ip4(), BULK_PORT)).map_err(failed)?;
    batch::set_udp_segment(socket.as_fd(), payload)?;
    let packets = (SUPER_BYTES / usize::from(payload)).min(SEGMENTS_MAX);
    Ok((socket, vec![0; packets * usize::from(payload)], packets as u64))
}

/// Counts guaranteed packets until stopped, and those that wait then; for a thread of the server's
/// network.
pub(super) fn hear(stop: &AtomicBool) -> Result<Heard, SystemError> {
    rig::cpus().1.map_or(Ok(()), pin_to_cpu)?;
    let failed = |cause| SystemError::new("receive guaranteed packets", cause);
    let bind = |port| UdpSocket::bind(SocketAddr::new(Host::Server.ip4(), port)).map_err(failed);
    // Nobody reads what arrives here, but without it the kernel would refuse each packet by ICMP.
    let _bulk = bind(BULK_PORT)?;
    let socket = bind(VOICE_PORT)?;
    batch::enlarge_receive_buffer(socket.as_fd(), BUFFER_BYTES);
    batch::stamp_received(socket.as_fd())?;
    let ahead = batch::realtime_ahead_ns();
    let mut inbox = Inbox::new(BATCH_MAX, 2048);
    let mut heard = Heard { packets: 0, delays: Histogram::new() };
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        let count = inbox.receive(socket.as_fd()).map_err(failed)?;
        for message in (0..count).map(|index| inbox.message(index)) {
            let Some(sent) = stamp(message.bytes) else { continue };
            let arrived = message.stamp_ns.unwrap_or_default().saturating_add_signed(-ahead);
            let delay = arrived.saturating_sub(sent);
            heard.packets += 1;
            heard.delays.record(weir_core::units::Duration::from_nanos(delay));
        }
        if count == 0 && stopped {
            return Ok(heard);
        }
        if count < BATCH_MAX {
            thread::sleep(HEAR_PAUSE);
        }
    }
}

/// Returns when a packet of [`Sender::voice`] was sent.
fn stamp(payload: &[u8]) -> Option<u64> {
    let eight = |at: usize| Some(u64::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    (eight(0)? == MARK).then(|| eight(16))?
}

const VOICE_PER_SECOND: f64 = 1000.0;
const ETHERNET: usize = 14;
/// Where a frame has the checksum of UDP, and the payload.
const CHECKSUM: usize = ETHERNET + 20 + 6;
const PAYLOAD: usize = CHECKSUM + 2;
/// "weirvoic", as a number.
const MARK: u64 = 0x7765_6972_766f_6963;
/// The most bytes of a datagram, and packets of one super-packet.
const SUPER_BYTES: usize = 65_000;
const SEGMENTS_MAX: usize = 64;
const TRIES: usize = 1000;
const PAUSE: Duration = Duration::from_micros(50);
const HEAR_PAUSE: Duration = Duration::from_millis(5);
const BUFFER_BYTES: u32 = 1 << 24;
const SEED: u64 = 0x77_6569_7233;
