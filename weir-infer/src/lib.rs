//! Inference: from a capture or a record to what its applications wanted.
//!
//! [`infer()`] reads frames once, in the order of time, and keeps of a connection what later
//! questions need, never its payload. [`Inferred`] has for each flow the exchanges of its
//! application and the properties of its transport and path, or the packets themselves where the
//! flow does not react; [`Inferred::scenario`] writes that as an ordinary scenario, in which
//! sources react. Nothing here does I/O beside reading what it is given. Invariant: each byte that
//! was read is in exactly one row of [`Counts`].
#![forbid(unsafe_code)]

mod anonymous;
mod beyond;
mod datagrams;
mod flows;
mod frame;
mod input;
mod load;
mod named;
pub mod observed;
mod population;
pub mod reacting;
mod replayed;
mod report;
mod scenario;
mod shared;
mod shown;
pub mod tcp;
mod text;
mod uncertain;
mod users;
pub mod whatif;

pub use datagrams::{OpenLoop, Quic, Steady};
pub use flows::{FLOWS_MAX, PACKETS_MAX};
pub use input::Input;
pub use load::Load;
pub use named::{Named, Policies, policies};
pub use replayed::Beside;
pub use report::{Counts, Reason, Row};

use anonymous::Anonymous;
use flows::{Content, Flow, Passed, Table, Way};
use frame::Odd;
use input::Varied;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tcp::{Connection, Method, RoundTrip, Tcp};
use weir_core::packet::Protocol;
use weir_core::units::{Duration, Instant, Rate};

/// How to infer, and how to write what was found.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name of the scenario, and the beginning of the names of files beside it.
    pub name: String,
    /// The policy's file, as the scenario names it; without one the link is a queue.
    pub policy: Option<String>,
    /// The rate of that link; without one it is that of the record's policy, or the busiest tenth
    /// of a second.
    pub rate: Option<Rate>,
    /// The rates of the policies of a record's directions.
    pub recorded: BTreeMap<String, Rate>,
    /// The direction of a record whose link it is; without one, that with most bytes.
    pub direction: Option<String>,
    /// Whether alike connections become one group.
    pub grouping: Grouping,
    /// Replace addresses by a function of this secret, and leave names out.
    pub anonymous: Option<u64>,
}

/// Whether alike connections become one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grouping {
    /// With more than [`POPULATION_FROM`] flows.
    #[default]
    Auto,
    /// Never.
    Exact,
    /// Always.
    Population,
}

/// The result of an inference.
#[derive(Clone, Debug, Serialize)]
pub struct Inferred {
    /// The flows whose packets pass the link, in the order of their first frames.
    pub flows: Vec<FlowOf>,
    /// The bytes of each kind of flows.
    pub counts: Counts,
    /// Warnings for the reader, in sentences.
    pub notes: Vec<String>,
    /// The fault that ended the reading, if one did.
    pub fault: Option<String>,
    /// From the first frame to the last.
    #[serde(rename = "duration_s", serialize_with = "shown::seconds")]
    pub duration: Duration,
    /// The rate of the link in bit/s: as given, that of the record's policy, or what the busiest
    /// tenth of a second had.
    #[serde(rename = "rate_bps")]
    pub rate: u64,
    /// The direction of a record whose link it is.
    pub direction: Option<String>,
    #[serde(skip)]
    options: Options,
}

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowOf {
    /// Its name in the scenario.
    pub name: String,
    /// The end whose packets pass the link.
    pub source: SocketAddr,
    /// The other end.
    pub destination: SocketAddr,
    /// The protocol of IP.
    pub protocol: u8,
    /// The VLAN; 0 without a tag.
    pub vlan: u16,
    /// The code point of the source's packets.
    pub dscp: u8,
    /// When it begins, from the first frame.
    #[serde(rename = "start_s", serialize_with = "shown::seconds")]
    pub start: Duration,
    /// When its last frame passed.
    #[serde(rename = "end_s", serialize_with = "shown::seconds")]
    pub end: Duration,
    /// Frames of source and destination.
    pub packets: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Its application and transport, or why its packets are sent again.
    pub model: Model,
    /// Properties that limit what can be known of it.
    pub marks: Vec<Mark>,
    /// The connection of the same user before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    #[serde(skip)]
    rows: Vec<datagrams::Row>,
    #[serde(skip)]
    origin: Instant,
}

/// The connection that a user had before another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Follows {
    /// Its name.
    pub flow: String,
    /// From the end of its last exchange to the next connection.
    #[serde(rename = "pause_s", serialize_with = "shown::seconds")]
    pub pause: Duration,
}

/// The application of a flow and its transport.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Model {
    /// A connection of TCP; the flag says whether the source opened it.
    Tcp {
        /// Its exchanges, hosts and path.
        #[serde(flatten)]
        tcp: Box<Tcp>,
        /// Whether the source is the client.
        source_is_client: bool,
    },
    /// A connection of QUIC.
    Quic {
        /// Its exchanges.
        #[serde(flatten)]
        quic: Quic,
        /// Whether the source is the client.
        source_is_client: bool,
    },
    /// Constant packets.
    Steady {
        /// Lengths and intervals.
        #[serde(flatten)]
        steady: Steady,
        /// The application.
        of: OpenLoop,
    },
    /// Its packets as they were.
    Replayed {
        /// Why.
        reason: Reason,
    },
}

/// A property of a flow that limits what can be known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// It was open before the first frame: its first bytes and the scale of windows are unknown.
    Midstream,
    /// One direction was captured: the other one follows from acknowledgements.
    OneSided,
    /// Some of its segments were cut before the end of their headers.
    Truncated,
    /// It has a VLAN tag, which the source has, too.
    Vlan,
    /// Which end is inside is unknown: the one that sent more is the source.
    Orientation,
}

/// Why there is nothing to infer from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// There is no frame; with the fault of the file, if it has one.
    Empty(Option<String>),
    /// The record has no direction of this name; it has these.
    Direction(String, Vec<String>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(None) => f.write_str("it has no frames, so there is nothing to infer from"),
            Self::Empty(Some(fault)) => f.write_str(fault),
            Self::Direction(name, all) if all.is_empty() => {
                write!(f, "a capture has no direction `{name}`; take --direction out")
            }
            Self::Direction(name, all) => {
                write!(f, "the record has no direction `{name}`; it has {}", all.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}

/// Reads all frames and infers what they were; `progress` gets the number of frames from time to
/// time.
///
/// # Errors
/// When there is no frame, or no such direction. A fault behind the first frame is a note.
pub fn infer(
    input: Input<'_>,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Inferred, Error> {
    let mut table = Table::default();
    let mut meter = Meter::default();
    let read = input.read(&mut |seen| {
        let passed = table.add(seen);
        meter.add(seen.at, seen.length, passed);
        if meter.frames.is_multiple_of(PROGRESS_FRAMES) {
            progress(meter.frames);
        }
    });
    let Some(origin) = meter.first else { return Err(Error::Empty(read.fault)) };
    let main = match &options.direction {
        None => meter.main(),
        Some(name) => match read.directions.iter().position(|own| own == name) {
            Some(place) => Some(Way::Lane(place as u16)),
            None => return Err(Error::Direction(name.clone(), read.directions)),
        },
    };
    let neighbours = Neighbours::of(&table.flows);
    let duration = meter.last.since(origin);
    let busiest = meter.busiest(main);
    let of_two = table.of_two();
    let mut flows = Vec::new();
    let mut counts = Counts::default();
    let mut building = Building { origin, main, neighbours: &neighbours, number: 0 };
    for flow in table.flows {
        match building.flow(flow) {
            Ok(flow) => {
                counts.add(&flow);
                flows.push(flow);
            }
            Err(bytes) => counts.elsewhere(bytes),
        }
    }
    counts.left_out(table.left_out);
    shared::first_windows(&mut flows);
    shared::losses(&mut flows);
    users::follow(&mut flows);
    let direction = match main {
        Some(Way::Lane(place)) => read.directions.get(usize::from(place)).cloned(),
        _ => None,
    };
    let recorded = direction.as_ref().and_then(|name| options.recorded.get(name)).copied();
    let known = options.rate.or(recorded);
    let rate = known.map_or(busiest, Rate::bits_per_second);
    let is_guessed = known.is_none() && options.policy.is_none();
    let mut notes = notes(&read, &meter, of_two, is_guessed.then_some(busiest));
    notes.extend(direction.as_ref().and_then(|name| read.varied.get(name)).map(Varied::note));
    if table.not_kept > 0 {
        notes.push(format!(
            "{} packets beyond {PACKETS_MAX} that would be sent again as they were are left out",
            table.not_kept
        ));
    }
    if let Some(secret) = options.anonymous {
        let anonymous = Anonymous::new(secret);
        for end in flows.iter_mut().flat_map(|flow| [&mut flow.source, &mut flow.destination]) {
            *end = anonymous.end(*end);
        }
    }
    let (fault, options) = (read.fault, options.clone());
    Ok(Inferred { flows, counts, notes, fault, duration, rate, direction, options })
}

/// Returns what to tell of the reading; `in_one` and `in_both` count flows of two captures, and
/// `guessed` is a rate that nothing gives.
fn notes(
    read: &input::Read,
    meter: &Meter,
    [in_one, in_both]: [usize; 2],
    guessed: Option<u64>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(fault) = &read.fault {
        notes.push(format!("it ends with a fault, and what precedes that was used: {fault}"));
    }
    if read.hurried > 0 {
        notes.push(format!(
            "the directions of the record are far apart: {} frames may be out of order",
            read.hurried
        ));
    }
    if meter.backward > 0 {
        notes.push(format!("{} frames have times before those of earlier ones", meter.backward));
    }
    if in_both * 2 < in_one {
        notes.push(format!(
            "of {in_one} flows {in_both} are in both captures: are these of one link and one time, \
             with clocks that agree?"
        ));
    }
    if let Some(busiest) = guessed {
        let megabits = busiest as f64 / 1e6;
        notes.push(format!(
            "the rate of the link, {megabits:.3} Mbit/s, is what its busiest tenth of a second \
             had; give --rate or --policy if you know it"
        ));
    }
    notes
}

/// Frames by direction.
#[derive(Default)]
struct Meter {
    frames: u64,
    backward: u64,
    first: Option<Instant>,
    last: Instant,
    /// Bytes of each direction: all, of the present bin, and the most of a bin.
    ways: BTreeMap<Option<Way>, [u64; 3]>,
    bin: u64,
}

impl Meter {
    fn add(&mut self, at: Instant, length: u32, passed: Passed) {
        self.frames += 1;
        self.first.get_or_insert(at);
        self.backward += u64::from(at < self.last);
        self.last = self.last.max(at);
        let bin = at.as_nanos() / BIN.as_nanos();
        if bin != self.bin {
            self.bin = bin;
            for [_, now, most] in self.ways.values_mut() {
                *most = (*most).max(std::mem::take(now));
            }
        }
        if !passed.counts {
            return;
        }
        let row = self.ways.entry(passed.way).or_default();
        row[0] += u64::from(length);
        row[1] += u64::from(length);
    }

    /// Returns the direction with most bytes, if any is known.
    fn main(&self) -> Option<Way> {
        let known = self.ways.iter().filter_map(|(way, row)| Some(((*way)?, row[0])));
        known.max_by_key(|row| row.1).map(|row| row.0)
    }

    /// Returns the bit/s of the busiest bin of a direction.
    fn busiest(&self, main: Option<Way>) -> u64 {
        let most = |way| self.ways.get(&way).map_or(0, |row: &[u64; 3]| row[1].max(row[2]));
        let bytes = most(main).max(if main.is_none() { 0 } else { most(None) });
        (bytes * 8 * (1_000_000_000 / BIN.as_nanos())).max(RATE_MIN)
    }
}

/// The least turnaround of each host over all its connections.
struct Neighbours(BTreeMap<IpAddr, Duration>);

impl Neighbours {
    fn of(flows: &[Flow]) -> Self {
        let mut least = BTreeMap::new();
        for flow in flows {
            let Content::Tcp(connection) = &flow.content else { continue };
            for ((time, _), end) in
                connection.turnarounds().into_iter().zip(by_role(flow, connection))
            {
                let Some(time) = time.filter(|_| !connection.is_one_sided()) else { continue };
                let known = least.entry(end.ip()).or_insert(time);
                *known = time.min(*known);
            }
        }
        Self(least)
    }

    /// Returns the round trip of a connection: a host of which few answers were timed counts with
    /// the least of its other connections.
    fn round_trip(&self, flow: &Flow, connection: &Connection, is_measured: bool) -> RoundTrip {
        let mut by = match (is_measured, connection.is_one_sided()) {
            (_, true) => Method::OneSided,
            (true, _) => Method::Measured,
            (false, _) => Method::Estimated,
        };
        let mut samples = 0;
        let ends = by_role(flow, connection);
        let mut parts = [None; 2];
        for (place, (time, count)) in connection.turnarounds().into_iter().enumerate() {
            samples += count;
            parts[place] = time;
            let known = self.0.get(&ends[place].ip()).copied();
            let is_better = time.is_none_or(|time| known.is_some_and(|known| known < time));
            if by != Method::OneSided && count < SAMPLES_ENOUGH && is_better && known.is_some() {
                (parts[place], by) = (known, Method::Neighbours);
            }
        }
        if parts == [None; 2] {
            by = Method::Unknown;
        }
        RoundTrip { parts, samples, by }
    }
}

/// Returns the ends of client and server.
fn by_role(flow: &Flow, connection: &Connection) -> [SocketAddr; 2] {
    let client = connection.client();
    [flow.key.ends[client], flow.key.ends[1 - client]]
}

/// Makes flows of what passed.
struct Building<'a> {
    origin: Instant,
    main: Option<Way>,
    neighbours: &'a Neighbours,
    number: u64,
}

impl Building<'_> {
    /// Returns what a flow was; or its bytes, if none of its packets pass the link.
    fn flow(&mut self, flow: Flow) -> Result<FlowOf, u64> {
        let known = self.main.and_then(|main| flow.ways.iter().position(|way| *way == Some(main)));
        let is_known = known.is_some();
        let other = flow.ways.iter().flatten().next().is_some();
        let heavier = usize::from(flow.bytes[1] > flow.bytes[0]);
        // A connection of which one direction was seen in the other way has its other end here.
        let opposite = flow.ways.iter().position(|way| way.is_some()).map(|side| 1 - side);
        let is_tcp = matches!(flow.content, Content::Tcp(_));
        let source = match known {
            Some(side) => side,
            None if !other => heavier,
            None if is_tcp => opposite.unwrap_or(heavier),
            None => return Err(flow.bytes.iter().sum()),
        };
        let mut marks = Vec::new();
        if !is_known && !other {
            marks.push(Mark::Orientation);
        }
        if flow.key.vlan != 0 {
            marks.push(Mark::Vlan);
        }
        let mut rows = Vec::new();
        let model = match &flow.content {
            Content::Tcp(connection) => self.tcp(&flow, connection, source, &mut marks),
            Content::Packets(packets) => {
                rows = packets.rows.iter().filter(|row| row.side() == source).copied().collect();
                datagrams(&flow, packets, source)
            }
        };
        let is_connection = matches!(model, Model::Tcp { .. } | Model::Quic { .. });
        let model = match is_connection && !flow.key.ends.iter().all(is_host) {
            true => Model::Replayed { reason: Reason::Ends },
            false => model,
        };
        self.number += 1;
        let pair = |values: [u64; 2]| [values[source], values[1 - source]];
        Ok(FlowOf {
            name: format!("{}-{}", model.word(), self.number),
            source: flow.key.ends[source],
            destination: flow.key.ends[1 - source],
            protocol: flow.key.protocol,
            vlan: flow.key.vlan,
            dscp: flow.classes[source].unwrap_or(0) >> 2,
            start: flow.first.since(self.origin),
            end: flow.last.since(self.origin),
            packets: pair(flow.packets),
            bytes: pair(flow.bytes),
            model,
            marks,
            follows: None,
            rows,
            origin: self.origin,
        })
    }

    fn tcp(
        &self,
        flow: &Flow,
        connection: &Connection,
        source: usize,
        marks: &mut Vec<Mark>,
    ) -> Model {
        let is_measured = connection.has_two_points();
        let round_trip = self.neighbours.round_trip(flow, connection, is_measured);
        if !connection.has_syn() {
            marks.push(Mark::Midstream);
        }
        if connection.is_one_sided() {
            marks.push(Mark::OneSided);
        }
        if flow.unread > 0 {
            marks.push(Mark::Truncated);
        }
        let tcp = Box::new(connection.finish(round_trip));
        Model::Tcp { tcp, source_is_client: connection.client() == source }
    }
}

/// Returns whether a host may have this port and this address.
fn is_host(end: &SocketAddr) -> bool {
    let is_broadcast = matches!(end.ip(), IpAddr::V4(address) if address.is_broadcast());
    let is_address = !end.ip().is_multicast() && !end.ip().is_unspecified() && !is_broadcast;
    end.port() != 0 && is_address
}

/// Returns what a flow of packets was.
fn datagrams(flow: &Flow, packets: &datagrams::Packets, source: usize) -> Model {
    let ports = flow.key.ends.map(|end| end.port());
    let is_udp = flow.key.protocol == Protocol::UDP.0;
    let reason = match flow.odd {
        Some(Odd::NoIp) => Some(Reason::NoIp),
        Some(Odd::Fragment) => Some(Reason::Fragments),
        Some(Odd::Cut) => Some(Reason::Truncated),
        Some(Odd::NoPorts(protocol)) if TUNNELS.contains(&protocol) => Some(Reason::Tunnel),
        Some(Odd::NoPorts(_)) => Some(Reason::NoPorts),
        None if flow.key.protocol == Protocol::TCP.0 => Some(Reason::Truncated),
        None if is_udp && ports.iter().any(|port| TUNNEL_PORTS.contains(port)) => {
            Some(Reason::Tunnel)
        }
        None if !is_udp => Some(Reason::Protocol),
        None => None,
    };
    if let Some(reason) = reason {
        return Model::Replayed { reason };
    }
    if packets.is_quic() {
        let quic = packets.quic();
        let source_is_client = quic.client == source;
        return Model::Quic { quic, source_is_client };
    }
    let of = packets.open_loop(ports);
    match packets.steady(source) {
        Some(steady) => Model::Steady { steady, of },
        None => Model::Replayed { reason: Reason::OpenLoop(of) },
    }
}

impl Inferred {
    /// Returns the instant of the first frame; `None` without a flow.
    pub(crate) fn origin(&self) -> Option<Instant> {
        self.flows.first().map(|flow| flow.origin)
    }
}

impl FlowOf {
    /// Returns a flow of no packets between these ends.
    #[cfg(test)]
    pub(crate) fn between(source: SocketAddr, destination: SocketAddr, model: Model) -> Self {
        Self {
            name: String::new(),
            source,
            destination,
            protocol: Protocol::TCP.0,
            vlan: 0,
            dscp: 0,
            start: Duration::ZERO,
            end: Duration::ZERO,
            packets: [0; 2],
            bytes: [0; 2],
            model,
            marks: Vec::new(),
            follows: None,
            rows: Vec::new(),
            origin: Instant::ZERO,
        }
    }

    pub(crate) fn is_replayed(&self) -> bool {
        matches!(self.model, Model::Replayed { .. }) && !self.rows.is_empty()
    }

    /// Returns the packets of the source, in the order of time.
    pub(crate) fn rows(&self) -> &[datagrams::Row] {
        &self.rows
    }

    /// Returns when its first packet was sent, from the first frame.
    pub(crate) fn first_row(&self) -> Duration {
        let first = self.rows.first().map(|row| row.at);
        first.map_or(self.start, |first| first.since(self.origin))
    }
}

impl Model {
    /// Returns the word for names.
    fn word(&self) -> &'static str {
        match self {
            Model::Tcp { .. } => "tcp",
            Model::Quic { .. } => "quic",
            Model::Steady { of, .. } => of.word(),
            Model::Replayed { reason } => reason.word(),
        }
    }
}

/// Flows from which alike connections become one group.
pub const POPULATION_FROM: usize = 2_000;

/// Answers from which a host's own least turnaround counts.
const SAMPLES_ENOUGH: u32 = 16;
/// IP in IP, IPv6 in IPv4, GRE, ESP, AH, Ethernet in IP, L2TP.
const TUNNELS: [u8; 7] = [4, 41, 47, 50, 51, 97, 115];
/// OpenVPN, L2TP, GTP, Teredo, IPsec, VXLAN, Geneve, WireGuard.
const TUNNEL_PORTS: [u16; 9] = [1194, 1701, 2152, 3544, 500, 4500, 4789, 6081, 51820];
const PROGRESS_FRAMES: u64 = 1 << 14;
/// Of the busiest rate.
const BIN: Duration = Duration::from_millis(100);
/// The least rate that a link is given, in bit/s.
const RATE_MIN: u64 = 64_000;
