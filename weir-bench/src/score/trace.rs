//! TCP by packet trace: captures around a live link, and the segments and acknowledgements in them;
//! of a simulated link the same.

use super::{LiveRun, Pair};
use crate::rig;
use etherparse::{LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;
use weir_host::error::SystemError;
use weir_host::netns::NetNs;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig};
use weir_link::status::Board;
use weir_sim::{Content, Host, Watch};
use weir_testbed::{END, LEFT, RIGHT, Testbed};
use weir_trace::capture::{CaptureLink, CaptureReader, CaptureRecord, CaptureWriter, Interface};

/// Where frames are captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tap {
    /// Frames that the link receives from the client.
    Before,
    /// Frames that the server receives.
    Behind,
    /// Frames that the link receives from the server.
    Back,
}

/// A segment with payload where the link takes it up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// When the link received it, in ns.
    pub at_ns: u64,
    /// The sequence number of its first byte.
    pub sequence: u32,
    /// Its payload in bytes.
    pub bytes: u32,
}

/// A segment, and when it left the link; `None` if it was dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// The segment as the link received it.
    pub segment: Segment,
    /// When it left, in ns.
    pub left: Option<u64>,
}

/// How a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Acks {
    /// Segments that it acknowledges one by one at first.
    pub quick: u32,
    /// Segments that an acknowledgement is for on average after that.
    pub later: f64,
}

impl Acks {
    /// Reads it off a capture of one connection from this port, with segments of this payload.
    ///
    /// # Errors
    /// When nothing is acknowledged.
    pub fn of(capture: &[u8], port: u16, payload: u64) -> Result<Self, String> {
        let numbers = acknowledged(capture, port)?;
        Self::counted(&numbers, payload).ok_or_else(|| "nothing was acknowledged".to_owned())
    }

    fn counted(numbers: &[u32], payload: u64) -> Option<Self> {
        let steps = numbers.windows(2).map(|pair| u64::from(pair[1].wrapping_sub(pair[0])));
        // One that acknowledges nothing new offers more window.
        let steps: Vec<u64> = steps.filter(|step| (1..=STEP_MAX).contains(step)).collect();
        let quick = steps.iter().take_while(|step| **step <= payload).count();
        let later = &steps[quick..];
        let bytes: u64 = later.iter().sum();
        let later = bytes as f64 / payload as f64 / later.len().max(1) as f64;
        (!steps.is_empty()).then_some(Self { quick: quick as u32, later })
    }
}

/// Runs a scenario live with a capture at each of these places.
///
/// # Errors
/// When the networks cannot be made, or traffic cannot be sent or captured.
pub fn captures<const N: usize>(
    pair: &Pair,
    taps: [Tap; N],
) -> Result<(LiveRun, [Vec<u8>; N]), String> {
    let run = || -> Result<(LiveRun, [Vec<u8>; N]), SystemError> {
        Ok(rig::between(pair.forwarder()?, |testbed, board| drive(pair, testbed, board, taps))?.0)
    };
    run().map_err(|error| format!("{}: {error}", pair.name))
}

/// Sends while frames are captured.
fn drive<const N: usize>(
    pair: &Pair,
    testbed: &Testbed,
    board: Option<&Board>,
    taps: [Tap; N],
) -> Result<(LiveRun, [Vec<u8>; N]), SystemError> {
    let (stop, open) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let taps = taps.map(|tap| {
            let (network, interface) = tap.place(testbed);
            let (stop, open) = (&stop, &open);
            scope.spawn(move || network.run(|| capture(interface, open, stop))?)
        });
        let is_ready = || open.load(Ordering::Relaxed) == taps.len();
        while !is_ready() && !taps.iter().any(ScopedJoinHandle::is_finished) {
            thread::sleep(PAUSE);
        }
        let live = pair.drive(testbed, board.expect("the bridge has a board"));
        stop.store(true, Ordering::Relaxed);
        let mut captures = [const { Vec::new() }; N];
        for (capture, tap) in captures.iter_mut().zip(taps) {
            *capture = tap.join().expect("a capture does not panic")?;
        }
        Ok((live?, captures))
    })
}

impl Tap {
    fn place(self, testbed: &Testbed) -> (&NetNs, &'static str) {
        match self {
            Tap::Before => (&testbed.weir, LEFT),
            Tap::Behind => (&testbed.server, END),
            Tap::Back => (&testbed.weir, RIGHT),
        }
    }
}

/// Captures what an interface of this thread's network receives, until stopped; counts itself as
/// open once it misses nothing.
fn capture(interface: &str, open: &AtomicUsize, stop: &AtomicBool) -> Result<Vec<u8>, SystemError> {
    let failed = |cause| SystemError::new("write a capture", cause);
    let config = PortConfig { ring_slots: RING_SLOTS, ..PortConfig::new(interface) };
    let mut port = port::open(config)?;
    open.fetch_add(1, Ordering::Relaxed);
    let mut pool = FramePool::for_mtu(BATCH as u32, port.mtu());
    let mut frames = Vec::with_capacity(BATCH);
    let mut writer = CaptureWriter::new(Vec::new()).map_err(failed)?;
    let name = interface.to_owned();
    let described = Interface { link_type: CaptureLink::ETHERNET, name, snap_length: SNAPPED };
    writer.describe(&[described]).map_err(failed)?;
    let (mut room, mut is_last) = (PACKETS_MAX, false);
    loop {
        port.receive(0, BATCH, &mut pool, &mut frames);
        if frames.is_empty() {
            if is_last {
                return writer.finish().map_err(failed);
            }
            // What is in the ring when it ends is captured, too.
            is_last = stop.load(Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        for received in frames.drain(..) {
            let bytes = pool.bytes(received.frame);
            let record = CaptureRecord {
                timestamp: received.at_ns,
                interface: 0,
                original_length: bytes.len() as u32,
                bytes: &bytes[..bytes.len().min(SNAPPED as usize)],
                comment: "",
            };
            if room > 0 {
                writer.write(&record).map_err(failed)?;
                room -= 1;
            }
            pool.release(received.frame);
        }
    }
}

/// Returns the segments with payload to this port in a capture.
///
/// # Errors
/// When it is not a capture.
pub fn segments(capture: &[u8], port: u16) -> Result<Vec<Segment>, String> {
    found(capture, |at_ns, packet| segment(at_ns, packet, port))
}

/// Returns whether the segments with payload to this port have timestamps, in a capture.
///
/// # Errors
/// When it is not a capture.
pub fn has_timestamps(capture: &[u8], port: u16) -> Result<bool, String> {
    let all = found(capture, |at_ns, packet| {
        segment(at_ns, packet, port)?;
        let (_, tcp) = tcp_of(&LaxSlicedPacket::from_ip(packet).ok()?)?;
        let is_stamp = |it| matches!(it, Ok(TcpOptionElement::Timestamp(..)));
        Some(tcp.options_iterator().any(is_stamp))
    })?;
    Ok(!all.is_empty() && all.into_iter().all(|has| has))
}

/// Returns the numbers that the segments from this port acknowledge, in a capture.
fn acknowledged(capture: &[u8], port: u16) -> Result<Vec<u32>, String> {
    found(capture, |_, packet| {
        let (_, tcp) = tcp_of(&LaxSlicedPacket::from_ip(packet).ok()?)?;
        (tcp.source_port() == port && tcp.ack()).then(|| tcp.acknowledgment_number())
    })
}

fn found<T>(capture: &[u8], read: impl Fn(u64, &[u8]) -> Option<T>) -> Result<Vec<T>, String> {
    let mut reader = CaptureReader::new(capture).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame() {
        let frame = frame.map_err(|error| error.to_string())?;
        let packet = frame.bytes.get(ETHERNET..).unwrap_or_default();
        found.extend(read(frame.timestamp, packet));
    }
    Ok(found)
}

/// Reads a segment with payload to this port from an IP packet, of which the end may be missing.
fn segment(at_ns: u64, packet: &[u8], port: u16) -> Option<Segment> {
    let sliced = LaxSlicedPacket::from_ip(packet).ok()?;
    let (length, tcp) = tcp_of(&sliced)?;
    let bytes = length.checked_sub(tcp.header_slice().len())?;
    let is_ours = tcp.destination_port() == port && bytes > 0;
    is_ours.then(|| Segment { at_ns, sequence: tcp.sequence_number(), bytes: bytes as u32 })
}

/// Returns the length of what IPv4 carries, as its header says, and the TCP segment.
fn tcp_of<'a>(sliced: &LaxSlicedPacket<'a>) -> Option<(usize, TcpSlice<'a>)> {
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport.clone() else { return None };
    let Some(LaxNetSlice::Ipv4(ip)) = &sliced.net else { return None };
    let length = usize::from(ip.header().total_len());
    Some((length.checked_sub(usize::from(ip.header().ihl()) * 4)?, tcp))
}

/// Returns the segments to this port that a simulation of the scenario sends on this host.
///
/// # Errors
/// When the scenario cannot be run.
pub fn simulated(pair: &Pair, host: &Host, port: u16) -> Result<Vec<Sent>, String> {
    let mut scenario = pair.scenario.clone();
    host.apply(&mut scenario);
    let mut sent = Vec::new();
    let mut tell = |fate: &weir_sim::Fate<'_>| {
        let arrived = fate.arrived.as_nanos();
        let to_port = fate.headers.ports.is_some_and(|ports| ports.destination == port);
        if let Content::Segment(segment) = fate.content
            && to_port
            && segment.length > 0
        {
            let (sequence, bytes) = (segment.seq.0, segment.length);
            let segment = Segment { at_ns: arrived, sequence, bytes };
            let left = fate.dropped.is_none().then_some(fate.at.as_nanos());
            sent.push(Sent { segment, left });
        }
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    weir_sim::run_watched(&scenario, watch, &mut |_| {})
        .map_err(|error| format!("{}: {error}", pair.name))?;
    sent.sort_by_key(|sent| sent.segment.at_ns);
    Ok(sent)
}

/// The bytes of a packet that `weir measure` compares, and its Ethernet header.
const SNAPPED: u32 = 160;
const RING_SLOTS: usize = 1 << 14;
/// About 200 MB.
const PACKETS_MAX: u64 = 1_000_000;
const PAUSE: Duration = Duration::from_millis(2);
const ETHERNET: usize = 14;
/// More than any window: what is further is behind, or is the number 0 of a reset.
const STEP_MAX: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_segment_with_payload_to_the_port_is_one() {
        assert_eq!(segment(0, &[0x45, 0, 0], 5004), None);
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut packet = Vec::new();
        let builder = builder.tcp(1000, 5004, 77, 8192).ack(9);
        builder.write(&mut packet, &[0; 100]).unwrap_or_else(|error| panic!("{error}"));
        let wanted = Segment { at_ns: 5, sequence: 77, bytes: 100 };
        assert_eq!(segment(5, &packet, 5004), Some(wanted));
        assert_eq!(segment(5, &packet[..60], 5004), Some(wanted), "its end may be missing");
        assert_eq!(segment(5, &packet, 5005), None);
        let sliced = LaxSlicedPacket::from_ip(&packet).unwrap_or_else(|error| panic!("{error}"));
        let (_, tcp) = tcp_of(&sliced).unwrap_or_else(|| panic!("it has a segment"));
        assert_eq!(tcp.acknowledgment_number(), 9);
    }

    #[test]
    fn quick_acknowledgements_end_with_the_first_of_two_segments() {
        let steps = [0, 1448, 1448, 700, 0, 2896, 1448, 2896, 2896];
        let mut number = u32::MAX - 3000;
        let numbers: Vec<u32> = std::iter::once(number)
            .chain(steps.iter().map(|step| {
                number = number.wrapping_add(*step);
                number
            }))
            .collect();
        assert_eq!(Acks::counted(&numbers, 1448), Some(Acks { quick: 3, later: 1.75 }));
        assert_eq!(Acks::counted(&numbers[..1], 1448), None);
    }
}
