//! A capture through a policy: frames arrive when they were captured, and leave when the link lets
//! them.
//!
//! The link is the simulator's and the live one's; here a capture says when what arrives. Choices:
//!
//! - **Time.** Virtual time is zero at the first frame. Written timestamps are the instants at
//!   which the link hands frames out, on the capture's own clock: a frame that did not wait keeps
//!   its timestamp, and the difference of the timestamps is its delay. A frame earlier than one
//!   before it arrives together with that one.
//! - **Length.** A frame counts with its length on the captured link, however little of it was
//!   captured. Framing starts from an Ethernet frame without check sequence, so a frame without
//!   that header counts as if it had one of [`ETHERNET_HEADER`] bytes in place of its own.
//! - **Faults.** What precedes a fault in the capture is replayed to its last departure.
//!
//! Memory is bounded, whatever the capture claims: by the link's store in frames, by
//! [`HELD_BYTES_MAX`] in bytes; where a class declares what it is offered, [`Keeping`] notes each
//! frame, up to its own bound. Frames are offered in series of `SERIES`, or fewer where their bytes
//! have no room. Invariant: the frames held are the packets that wait in the link and those of the
//! series that is being read.

mod interfaces;
mod report;

pub use interfaces::{InterfaceMap, UnknownInterface};
pub use report::{CaptureReport, FaultReport, ReplayReport};

use crate::interval::Interval;
use crate::keeping::Keeping;
use crate::meter::LinkMeter;
use crate::timeline::{Passage, Timeline};
use slab::Slab;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use weir_core::classify::Classifier;
use weir_core::event::{Departure, Dropped};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, Packet};
use weir_core::packet::{Headers, LinkType, Unread, UnreadCounts, write_traffic_class};
use weir_core::parameter::BuildError;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_trace::capture::{
    CaptureFrame, CaptureLink, CaptureReader, CaptureRecord, CaptureWriter, Interface,
    PACKET_BYTES_MAX,
};
use weir_trace::drive::Drive;
use weir_trace::explain::Explained;

/// Where frames go that leave the replay. Without a writer they are only counted.
pub struct Outputs<W> {
    /// For frames that the link sent.
    pub departures: Option<CaptureWriter<W>>,
    /// For frames that it dropped, with the instant of that.
    pub drops: Option<CaptureWriter<W>>,
    /// For what each class did over time.
    pub timeline: Option<Timeline>,
}

/// Why a replay stopped; a fault of the capture is no such reason.
#[derive(Debug)]
pub enum ReplayError {
    /// The link cannot be built.
    Link(BuildError),
    /// An output cannot be written.
    Write(io::Error),
}

/// Replays what `reader` yields through `policy`, up to the capture's end or fault and then until
/// nothing waits.
///
/// # Errors
/// When the link cannot be built or an output cannot be written; a capture's fault is reported.
pub fn replay<W: Write>(
    policy: &Policy,
    interfaces: &InterfaceMap,
    reader: &mut CaptureReader<'_>,
    outputs: &mut Outputs<W>,
) -> Result<ReplayReport, ReplayError> {
    Run::new(policy, interfaces, outputs)?.all(reader)
}

/// As [`replay`], and explains why frames waited; the report names the `slowest` slowest ones.
///
/// # Errors
/// As [`replay`].
pub fn replay_explained<W: Write>(
    policy: &Policy,
    interfaces: &InterfaceMap,
    reader: &mut CaptureReader<'_>,
    outputs: &mut Outputs<W>,
    slowest: usize,
) -> Result<ReplayReport, ReplayError> {
    let mut run = Run::new(policy, interfaces, outputs)?;
    run.drive.explain();
    run.state.explained = Some(Explained::new(&policy.link.tree, slowest));
    run.all(reader)
}

/// A frame that waits in the link.
struct Waiting {
    interface: u32,
    /// How its bytes begin, if Weir reads that.
    link_type: Option<LinkType>,
    original_length: u32,
    /// As the link was offered it.
    length: u32,
    bytes: Box<[u8]>,
}

struct Run<'a, W> {
    interfaces: &'a InterfaceMap,
    classifier: Classifier,
    drive: Drive,
    /// The instant of the latest arrival.
    now: Instant,
    state: State<'a, W>,
}

/// The state that departures and drops change; apart from the link, which reports them.
struct State<'a, W> {
    policy: &'a Policy,
    outputs: &'a mut Outputs<W>,
    waiting: Slab<Waiting>,
    held_bytes: usize,
    held_bytes_max: usize,
    /// The timestamp of the first frame: virtual time zero.
    origin: Option<u64>,
    meter: LinkMeter,
    /// When the last bit is on the wire.
    finished: Instant,
    counts: Counts,
    comment: String,
    /// Why frames waited, where the caller wants it.
    explained: Option<Explained>,
    /// Compares them with their bounds, if a class declares its arrivals.
    keeping: Option<Keeping<'a>>,
    /// The first failure to write; after it nothing is written.
    failed: Option<io::Error>,
}

/// Counts that the capture's totals do not have.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    dropped: u64,
    unread: UnreadCounts,
    /// The first link type that Weir does not read.
    foreign: Option<CaptureLink>,
    unnamed: u64,
    oversize: u64,
    overlong: u64,
    shortened: u64,
    late: u64,
}

impl<'a, W: Write> Run<'a, W> {
    fn new(
        policy: &'a Policy,
        interfaces: &'a InterfaceMap,
        outputs: &'a mut Outputs<W>,
    ) -> Result<Self, ReplayError> {
        let drive = Drive::new(&policy.link).map_err(ReplayError::Link)?;
        let always = Interval::until(Instant::ZERO, None);
        Ok(Self {
            interfaces,
            classifier: policy.classifier(),
            drive,
            now: Instant::ZERO,
            state: State {
                policy,
                outputs,
                waiting: Slab::new(),
                held_bytes: 0,
                held_bytes_max: HELD_BYTES_MAX,
                origin: None,
                meter: LinkMeter::new(policy.link.tree.leaf_count(), always),
                finished: Instant::ZERO,
                counts: Counts::default(),
                comment: String::new(),
                explained: None,
                keeping: Keeping::of_policy(policy),
                failed: None,
            },
        })
    }

    fn all(mut self, reader: &mut CaptureReader<'_>) -> Result<ReplayReport, ReplayError> {
        let mut series = Vec::with_capacity(SERIES);
        let fault = loop {
            match reader.next_frame() {
                Some(Ok(frame)) => {
                    self.now = self.now.max(self.state.virtual_time(frame.timestamp));
                    if series.len() == SERIES || frame.bytes.len() > self.state.room() {
                        self.serve(&series, self.now)?;
                        series.clear();
                    }
                    series.push(self.arrival(&frame));
                    self.state.outputs.describe(reader.interfaces())?;
                }
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        // A capture without frames still has interfaces.
        self.state.outputs.describe(reader.interfaces())?;
        self.serve(&series, HORIZON)?;
        let holding = self.state.keeping.take().map(Keeping::holding);
        Ok(ReplayReport { holding, ..self.report(reader.totals(), fault.as_ref()) })
    }

    /// Classifies `frame` and holds a copy of it until it leaves.
    fn arrival(&mut self, frame: &CaptureFrame<'_>) -> Arrival {
        let headers = headers(frame);
        let interface = self.interfaces.of(&frame.link.name);
        let classified = self.classifier.classify(self.now, interface, &headers);
        let length = frame_length(frame);
        self.state.note(frame, length);
        self.state.counts.unread.add(&headers);
        if interface == InterfaceMap::NONE {
            self.state.counts.unnamed += 1;
        }
        let packet = Packet {
            handle: self.state.hold(frame, length),
            length,
            train: 0,
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        let arrival = Arrival { at: self.now, leaf: classified.leaf, packet };
        self.drive.link_mut().note_frame(&arrival, frame.bytes, &headers);
        arrival
    }

    /// Offers a series of frames, and lets the link send what leaves up to `until`.
    fn serve(&mut self, series: &[Arrival], until: Instant) -> Result<(), ReplayError> {
        let (drive, state) = (&mut self.drive, &mut self.state);
        drive.serve(series, until).iter().for_each(|departure| state.departed(departure));
        drive.take_dropped(&mut |dropped| state.dropped(&dropped));
        if let Some(explained) = &mut state.explained {
            drive.take_sojourns(&mut |all| {
                all.iter().for_each(|sojourn| explained.add(sojourn));
            });
        }
        state.check()
    }
}

impl<W: Write> State<'_, W> {
    /// The virtual time of a timestamp; zero before the first frame's.
    fn virtual_time(&mut self, timestamp: u64) -> Instant {
        let origin = *self.origin.get_or_insert(timestamp);
        let at = Instant::from_nanos(timestamp.saturating_sub(origin));
        self.counts.late += u64::from(at > HORIZON);
        at.min(HORIZON)
    }

    /// Counts what is odd about a frame of `length`.
    fn note(&mut self, frame: &CaptureFrame<'_>, length: u32) {
        let link = &self.policy.link;
        let wire = u64::from(link.framing.wire_length(length));
        self.counts.oversize += u64::from(wire > link.tree.mtu().get());
        self.counts.overlong += u64::from(frame.original_length > PACKET_BYTES_MAX);
        if link_type(frame.link.link_type).is_none() {
            self.counts.foreign.get_or_insert(frame.link.link_type);
        }
    }

    /// Returns how many more bytes of frames can be held.
    fn room(&self) -> usize {
        self.held_bytes_max - self.held_bytes
    }

    /// Holds a copy of `frame`, of which `length` is offered to the link.
    fn hold(&mut self, frame: &CaptureFrame<'_>, length: u32) -> Handle {
        let room = self.room();
        self.counts.shortened += u64::from(frame.bytes.len() > room);
        let bytes = &frame.bytes[..frame.bytes.len().min(room)];
        self.held_bytes += bytes.len();
        let place = self.waiting.insert(Waiting {
            interface: frame.interface,
            link_type: link_type(frame.link.link_type),
            original_length: frame.original_length,
            length,
            bytes: bytes.into(),
        });
        Handle(u32::try_from(place).expect("a link holds at most 2^32 packets"))
    }

    fn release(&mut self, handle: Handle) -> Waiting {
        let frame = self.waiting.remove(handle.0 as usize);
        self.held_bytes -= frame.bytes.len();
        frame
    }

    fn departed(&mut self, departure: &Departure) {
        self.meter.departed(departure, true);
        if let Some(keeping) = &mut self.keeping {
            keeping.sent(departure);
        }
        self.finished = departure.finished;
        self.counts.sent += 1;
        if let Some(timeline) = &mut self.outputs.timeline {
            let class = self.policy.leaf_name(departure.leaf);
            let bytes = departure.charged.get();
            let Departure { arrived, at, .. } = *departure;
            timeline.add(Passage { class, arrived, at, bytes, dropped: None });
        }
        let mut frame = self.release(departure.handle);
        if let (Some(link_type), Some(new)) = (frame.link_type, departure.mark.written()) {
            write_traffic_class(link_type, &mut frame.bytes, new);
        }
        let delay = departure.at.since(departure.arrived);
        self.describe(departure.leaf, delay, format_args!("sent"));
        let timestamp = self.timestamp(departure.at);
        let written = self.outputs.departures.as_mut();
        let result = write(written, &frame, timestamp, &self.comment);
        self.keep_failure(result);
    }

    fn dropped(&mut self, dropped: &Dropped) {
        self.counts.dropped += 1;
        let frame = self.release(dropped.handle);
        if let Some(keeping) = &mut self.keeping {
            keeping.dropped(dropped, frame.length);
        }
        if let Some(timeline) = &mut self.outputs.timeline {
            let class = self.policy.leaf_name(dropped.leaf);
            let bytes = self.policy.link.charged(frame.length).into();
            let Dropped { arrived, at, reason, .. } = *dropped;
            timeline.add(Passage { class, arrived, at, bytes, dropped: Some(reason) });
        }
        let delay = dropped.at.since(dropped.arrived);
        self.describe(dropped.leaf, delay, format_args!("dropped:{}", dropped.reason.name()));
        let timestamp = self.timestamp(dropped.at);
        let result = write(self.outputs.drops.as_mut(), &frame, timestamp, &self.comment);
        self.keep_failure(result);
    }

    /// Puts the comment of a frame together.
    fn describe(&mut self, leaf: LeafId, delay: Duration, verdict: fmt::Arguments<'_>) {
        let class = self.policy.leaf_name(leaf);
        let (micros, nanos) = (delay.as_nanos() / 1000, delay.as_nanos() % 1000);
        self.comment.clear();
        write!(self.comment, "class={class} delay_us={micros}.{nanos:03} verdict={verdict}")
            .expect("text can always grow");
    }

    /// An instant on the capture's clock.
    fn timestamp(&self, at: Instant) -> u64 {
        self.origin.unwrap_or(0).saturating_add(at.as_nanos())
    }

    fn keep_failure(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            *self.outputs = Outputs { departures: None, drops: None, timeline: None };
            self.failed.get_or_insert(error);
        }
    }

    fn check(&mut self) -> Result<(), ReplayError> {
        self.failed.take().map_or(Ok(()), |error| Err(ReplayError::Write(error)))
    }
}

impl<W: Write> Outputs<W> {
    fn describe(&mut self, interfaces: &[Interface]) -> Result<(), ReplayError> {
        for writer in [&mut self.departures, &mut self.drops].into_iter().flatten() {
            writer.describe(interfaces).map_err(ReplayError::Write)?;
        }
        Ok(())
    }
}

fn write<W: Write>(
    writer: Option<&mut CaptureWriter<W>>,
    frame: &Waiting,
    timestamp: u64,
    comment: &str,
) -> io::Result<()> {
    let Some(writer) = writer else { return Ok(()) };
    writer.write(&CaptureRecord {
        timestamp,
        interface: frame.interface,
        original_length: frame.original_length,
        bytes: &frame.bytes,
        comment,
    })
}

fn link_type(link: CaptureLink) -> Option<LinkType> {
    LinkType::from_capture(link.0.into())
}

/// The headers of a captured frame.
pub fn headers(frame: &CaptureFrame<'_>) -> Headers {
    match link_type(frame.link.link_type) {
        Some(link_type) => Headers::parse(link_type, frame.bytes),
        None => Headers { unread: Some(Unread::LinkType), ..Headers::UNKNOWN },
    }
}

/// The length of the Ethernet frame, without check sequence, that carries what this frame carried.
/// Longer than any frame is taken as damage, and would keep the line busy for years.
pub fn frame_length(frame: &CaptureFrame<'_>) -> u32 {
    let link = link_type(frame.link.link_type);
    let header = link.map_or(ETHERNET_HEADER, |link| link.header_len(frame.bytes));
    frame.original_length.min(PACKET_BYTES_MAX).saturating_sub(header) + ETHERNET_HEADER
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => write!(f, "the link cannot be built: {error}"),
            Self::Write(error) => write!(f, "cannot write the departures: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The bytes of an Ethernet header, with which presets of framing reckon.
pub const ETHERNET_HEADER: u32 = 14;

/// Bound: bytes of waiting frames that a replay holds for writing; of further frames only lengths
/// are kept.
pub const HELD_BYTES_MAX: usize = 512 << 20;

/// The frames of a series that the link serves at once.
const SERIES: usize = 32;

/// The latest instant: 292 years after the first frame. Half of what time can tell, so that a wait
/// at the end does not meet the end of time.
const HORIZON: Instant = Instant::from_nanos(u64::MAX / 2);

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of Ethernet frames that came at once and were captured whole.
    fn capture(lengths: &[usize]) -> Vec<u8> {
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
        let link_type = CaptureLink::ETHERNET;
        let interface = Interface { link_type, name: String::new(), snap_length: 0 };
        writer.describe(&[interface]).expect("memory takes all");
        for &length in lengths {
            let bytes = &vec![0; length];
            let original_length = length as u32;
            let (timestamp, interface, comment) = (7, 0, "");
            let record = CaptureRecord { timestamp, interface, original_length, bytes, comment };
            writer.write(&record).expect("memory takes all");
        }
        writer.finish().expect("memory takes all")
    }

    /// Of frames of `lengths`, as many bytes are written as `held_bytes_max` has room for.
    fn check(held_bytes_max: usize, lengths: &[usize], written: &[usize], shortened: u64) {
        let text = "link = { rate = '1 Mbit/s', scheduler = 'fifo' }\n[class.all]\ndefault = true";
        let policy = weir_policy::parse(text, "test.toml").plan.expect("is right");
        let map = InterfaceMap::new(&policy, &[]).expect("no pairs");
        let bytes = capture(lengths);
        let mut reader = CaptureReader::new(&bytes[..]).expect("a good header");
        let departures = CaptureWriter::new(Vec::new()).expect("memory takes all");
        let mut outputs = Outputs { departures: Some(departures), drops: None, timeline: None };
        let mut run = Run::new(&policy, &map, &mut outputs).expect("builds");
        run.state.held_bytes_max = held_bytes_max;
        let report = run.all(&mut reader).expect("memory takes all");
        assert_eq!(report.capture.shortened, shortened);
        assert_eq!(
            report.class("all").map(|all| all.sent.bytes as usize),
            Some(lengths.iter().sum())
        );
        let bytes = outputs.departures.expect("kept").finish().expect("memory takes all");
        let mut reader = CaptureReader::new(&bytes[..]).expect("a good header");
        let mut real = Vec::new();
        while let Some(frame) = reader.next_frame() {
            let frame = frame.expect("a good capture");
            assert_eq!(frame.original_length as usize, lengths[real.len()]);
            real.push(frame.bytes.len());
        }
        assert_eq!(real, written);
    }

    #[test]
    fn what_waits_holds_no_more_bytes_than_there_is_room() {
        // The first leaves before the second comes, so its bytes are free again.
        check(1000, &[600, 600, 400, 300], &[600, 600, 400, 0], 1);
        check(1000, &[1200, 999, 300, 300], &[1000, 999, 1, 0], 3);
        check(1600, &[600, 600, 400, 300], &[600, 600, 400, 300], 0);
    }

    #[test]
    fn the_bytes_of_frames_that_left_are_free_for_the_next_series() {
        let lengths = [100; 2 * SERIES];
        // All come at once, and the line takes one of them before the second series.
        check(100 * (2 * SERIES - 1), &lengths, &lengths, 0);
    }
}
