//! The steps of a lane, as bytes and back.
//!
//! A step is a tag and fields of a fixed length; three kinds end in bytes with their length before
//! them. Invariant: what [`Step::write`] writes, [`Step::read`] reads as the same step.

use super::fields::{TakeFields, put_counted};
use super::file_head::{File, put_durations, put_files, take_durations, take_files};
use super::{HEADER_BYTES, HEADER_BYTES_MAX};
use weir_core::classify::InterfaceId;
use weir_core::event::{Departure, DropReason, Dropped, Mark};
use weir_core::ids::{Handle, LeafId, MeterId};
use weir_core::link::{self, Packet};
use weir_core::packet::{Headers, Host};
use weir_core::units::{Bytes, Duration, Instant, Rate};

/// The next event in a lane. Steps up to the next [`Step::Serve`], [`Step::Forfeit`],
/// [`Step::DropOlder`], [`Step::Change`], [`Step::Joins`] or [`Step::Rate`] that say what the core
/// did belong to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The state of link and classifier here: a lane begins with it, unless both are new.
    Checkpoint {
        /// The latest instant that was passed to the link.
        now: Instant,
        /// The latest instant that was passed to the classifier.
        classified: Instant,
        /// The state, as `weir_core::state` saves it: link, then classifier.
        state: &'a [u8],
    },
    /// A frame came: it was classified, and waits to be offered by the rule of
    /// [`weir_core::link::Pending`].
    Arrival(Arrival<'a>),
    /// The link was offered what is due, and served.
    Serve {
        /// Up to this instant.
        until: Instant,
    },
    /// The link handed a packet out.
    Departure(Departure),
    /// The link dropped a packet.
    Dropped(Dropped),
    /// After a stall, the link gave up what it could have sent before.
    Forfeit {
        /// The instant before which it gave up sending.
        before: Instant,
    },
    /// After a stall, the link dropped what was older than the limits of its leaves.
    DropOlder {
        /// The instant from which ages count back.
        clock: Instant,
    },
    /// The link changed to another policy.
    Change(Box<Change>),
    /// Classes joined the link, were retuned, or left it.
    Joins(Box<Joins>),
    /// The link sends at another rate from now on.
    Rate {
        /// When it changed.
        at: Instant,
        /// The rate.
        rate: Rate,
    },
    /// A frame was lost outside the link.
    Lost(Loss),
    /// A frame was really handed to the port.
    Sent {
        /// The handle that its departure has.
        handle: Handle,
        /// When the port had taken it.
        at: Instant,
    },
    /// The record ends; for all lanes.
    End(End),
}

/// A frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The instant of the offer.
    pub at: Instant,
    /// The port where it came in.
    pub port: InterfaceId,
    /// The leaf that the classifier chose.
    pub leaf: LeafId,
    /// The packet as offered.
    pub packet: Packet,
    /// Whether it was offered, and whether it was classified in this record.
    pub fate: Fate,
    /// Its first bytes: all that parsing reads.
    pub headers: &'a [u8],
}

/// The fate of a frame in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was classified, and waits to be offered.
    Offered,
    /// It was classified, and then lost for the cause that the next step names.
    Refused,
    /// It waits to be offered, and was classified before the record began.
    Resumed,
}

/// A change to another policy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Change {
    /// When the link changed.
    pub at: Instant,
    /// The name of the policy among `files`.
    pub policy: String,
    /// The policy, and every file that it names.
    pub files: Vec<File>,
    /// The ages from which frames are dropped from now on: see [`super::LaneHead::sojourn_max`].
    pub sojourn_max: Vec<Duration>,
    /// The user who requested the change.
    pub user: String,
    /// The reason that the user gave.
    pub reason: String,
}

/// Classes that joined, were retuned, or left.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Joins {
    /// When the link changed.
    pub at: Instant,
    /// The names of those that left, which they did first.
    pub removed: Vec<String>,
    /// The tables of the others, with their places.
    pub tables: String,
    /// The user who requested the change.
    pub user: String,
    /// The reason that the user gave.
    pub reason: String,
}

/// A frame that was lost outside the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The handle that its arrival has.
    pub handle: Handle,
    /// The leaf for which it was meant.
    pub leaf: LeafId,
    /// The cause: see [`Loss::name`].
    pub cause: u8,
    /// The length of the frame in bytes.
    pub length: u32,
    /// When it was lost.
    pub at: Instant,
}

/// Why a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user who recorded ended it.
    Asked,
    /// The time that was asked for is over.
    Time,
    /// It is a snapshot: what came later is not in it.
    Snapshot,
    /// The writer did not follow: the disk is slow or full, or who reads is.
    Behind,
    /// The process of the link ended.
    Stopped,
    /// The state of a link does not fit the buffer.
    State,
}

impl End {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Asked, Self::Time, Self::Snapshot, Self::Behind, Self::Stopped, Self::State];

    /// Returns the reason in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "it was ended",
            Self::Time => "its time is over",
            Self::Snapshot => "it is a snapshot",
            Self::Behind => "the writer did not follow",
            Self::Stopped => "the link ended",
            Self::State => "the state of the link does not fit the buffer",
        }
    }

    /// Returns whether the record has all that was asked for.
    pub fn is_whole(self) -> bool {
        !matches!(self, Self::Behind | Self::State)
    }
}

impl Loss {
    /// The causes in reports, by [`Loss::cause`].
    pub const CAUSES: [&'static str; 6] =
        ["pool", "busy port", "stale on arrival", "stale", "not sent", "flushed"];

    /// Returns the cause in reports.
    pub fn name(&self) -> &'static str {
        Self::CAUSES.get(usize::from(self.cause)).copied().unwrap_or("unknown")
    }
}

impl Arrival<'_> {
    /// The frame as it is offered.
    pub fn offered(&self) -> link::Arrival {
        link::Arrival { at: self.at, leaf: self.leaf, packet: self.packet }
    }
}

/// Returns the first bytes of a frame that parse as the whole frame does.
pub fn headers_of<'f>(frame: &'f [u8], headers: &Headers) -> &'f [u8] {
    let mut length = HEADER_BYTES;
    while length < frame.len().min(HEADER_BYTES_MAX) {
        let first = &frame[..length];
        // Behind a header of this length nothing is read: no need to try.
        let is_short = usize::from(headers.link_len) + IPV4_AND_TRANSPORT <= length;
        if is_short && headers.unread.is_none() && is_ipv4(headers) {
            return first;
        }
        if Headers::parse_ethernet(first) == *headers {
            return first;
        }
        length *= 2;
    }
    &frame[..frame.len().min(HEADER_BYTES_MAX)]
}

fn is_ipv4(headers: &Headers) -> bool {
    matches!(headers.addresses, weir_core::packet::Addresses::V4 { .. })
}

/// The longest header of IPv4, and what is read of the transport's: ports and TCP's flags.
const IPV4_AND_TRANSPORT: usize = 60 + 20;

impl<'a> Step<'a> {
    /// Appends the step as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Step::Checkpoint { now, classified, state } => {
                out.push(CHECKPOINT);
                put_instants(out, [*now, *classified]);
                put_counted(out, state);
            }
            Step::Arrival(arrival) => arrival.write(out),
            Step::Serve { until } => put_tagged(out, SERVE, *until),
            Step::Departure(departure) => put_departure(out, departure),
            Step::Dropped(dropped) => put_dropped(out, dropped),
            Step::Forfeit { before } => put_tagged(out, FORFEIT, *before),
            Step::DropOlder { clock } => put_tagged(out, DROP_OLDER, *clock),
            Step::Change(change) => {
                out.push(CHANGE);
                change.write(out);
            }
            Step::Joins(joins) => {
                out.push(JOINS);
                joins.write(out);
            }
            Step::Rate { at, rate } => {
                put_tagged(out, RATE, *at);
                out.extend_from_slice(&rate.bits_per_second().to_le_bytes());
            }
            Step::Lost(loss) => {
                out.push(LOST);
                put_numbers(out, [loss.handle.0, loss.leaf.0, loss.length]);
                out.push(loss.cause);
                put_instants(out, [loss.at]);
            }
            Step::Sent { handle, at } => {
                put_tagged(out, SENT, *at);
                put_numbers(out, [handle.0]);
            }
            Step::End(end) => out.extend_from_slice(&[END, *end as u8]),
        }
    }

    /// Returns the instant to which the step takes the link, if it does.
    pub fn instant(&self) -> Option<Instant> {
        match self {
            Step::Checkpoint { now, .. } => Some(*now),
            Step::Arrival(arrival) => Some(arrival.at),
            Step::Serve { until } => Some(*until),
            Step::Forfeit { before } => Some(*before),
            Step::DropOlder { clock } => Some(*clock),
            Step::Change(change) => Some(change.at),
            Step::Joins(joins) => Some(joins.at),
            Step::Rate { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Takes a step from the front of `fields`; `None` if they do not begin with one.
    pub fn read(fields: &mut &'a [u8]) -> Option<Self> {
        Some(match fields.u8()? {
            CHECKPOINT => Step::Checkpoint {
                now: take_instant(fields)?,
                classified: take_instant(fields)?,
                state: fields.counted()?,
            },
            ARRIVAL => {
                let arrival = Arrival::read(fields)?;
                let length = fields.u16()?;
                Step::Arrival(Arrival { headers: fields.part(length.into())?, ..arrival })
            }
            SERVE => Step::Serve { until: take_instant(fields)? },
            DEPARTURE => Step::Departure(take_departure(fields)?),
            DROPPED => Step::Dropped(take_dropped(fields)?),
            FORFEIT => Step::Forfeit { before: take_instant(fields)? },
            DROP_OLDER => Step::DropOlder { clock: take_instant(fields)? },
            CHANGE => Step::Change(Box::new(Change::read(fields)?)),
            JOINS => Step::Joins(Box::new(Joins::read(fields)?)),
            RATE => {
                let (at, bits) = (take_instant(fields)?, fields.array().map(u64::from_le_bytes)?);
                Step::Rate { at, rate: Rate::new(bits)? }
            }
            LOST => Step::Lost(Loss {
                handle: Handle(fields.u32()?),
                leaf: LeafId(fields.u32()?),
                length: fields.u32()?,
                cause: fields.u8()?,
                at: take_instant(fields)?,
            }),
            SENT => Step::Sent { at: take_instant(fields)?, handle: Handle(fields.u32()?) },
            END => Step::End(*End::ALL.get(usize::from(fields.u8()?))?),
            _ => return None,
        })
    }
}

impl<'a> Arrival<'a> {
    /// Appends it as a step.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let headers = &self.headers[..self.headers.len().min(HEADER_BYTES_MAX)];
        out.push(ARRIVAL);
        let (fields, length) = self.fields();
        out.extend_from_slice(&fields[..length]);
        out.extend_from_slice(&(headers.len() as u16).to_le_bytes());
        out.extend_from_slice(headers);
    }

    /// Returns all but the bytes of the frame, and how many bytes that is: a train's length of
    /// frames and a host come behind the others.
    #[inline]
    pub(crate) fn fields(&self) -> ([u8; ARRIVAL_BYTES_MAX], usize) {
        let packet = &self.packet;
        let meter = packet.meter.map_or(0, |meter| meter.index() as u16 + 1);
        let mut fields = [0; ARRIVAL_BYTES_MAX];
        fields[..8].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        fields[8..12].copy_from_slice(&self.leaf.0.to_le_bytes());
        fields[12..16].copy_from_slice(&packet.handle.0.to_le_bytes());
        fields[16..20].copy_from_slice(&packet.length.to_le_bytes());
        fields[20..24].copy_from_slice(&packet.flow.to_le_bytes());
        fields[24..26].copy_from_slice(&meter.to_le_bytes());
        fields[26..28].copy_from_slice(&self.port.0.to_le_bytes());
        fields[28] = packet.traffic_class;
        fields[29] = self.fate as u8;
        let mut end = ARRIVAL_BYTES;
        if packet.train != 0 {
            fields[29] |= IS_TRAIN;
            fields[end..end + 2].copy_from_slice(&packet.train.to_le_bytes());
            end += 2;
        }
        if packet.host != Host::NONE {
            fields[29] |= HAS_HOST;
            fields[end..end + 16].copy_from_slice(&packet.host.to_bits().to_le_bytes());
            end += 16;
        }
        (fields, end)
    }

    /// Takes all but the bytes of the frame.
    pub(crate) fn read(fields: &mut &[u8]) -> Option<Self> {
        let at = take_instant(fields)?;
        let leaf = LeafId(fields.u32()?);
        let (handle, length, flow) = (Handle(fields.u32()?), fields.u32()?, fields.u32()?);
        let meter = match fields.u16()? {
            0 => None,
            number => Some(MeterId::from_index(usize::from(number) - 1)?),
        };
        let port = InterfaceId(fields.u16()?);
        let (traffic_class, fate) = (fields.u8()?, fields.u8()?);
        let train = match fate & IS_TRAIN {
            0 => 0,
            _ => fields.u16().filter(|each| *each > 0)?,
        };
        let host = match fate & HAS_HOST {
            0 => Host::NONE,
            _ => Host::from_bits(fields.array().map(u128::from_le_bytes).filter(|bits| *bits > 0)?),
        };
        let packet = Packet { handle, length, train, flow, host, traffic_class, meter };
        let fate = *Fate::ALL.get(usize::from(fate & !(HAS_HOST | IS_TRAIN)))?;
        Some(Self { at, port, leaf, packet, fate, headers: &[] })
    }

    /// Returns it without the bytes of the frame.
    pub(crate) fn bare(self) -> Arrival<'static> {
        Arrival { headers: &[], ..self }
    }
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::Offered, Self::Refused, Self::Resumed];
}

impl Change {
    fn write(&self, out: &mut Vec<u8>) {
        put_instants(out, [self.at]);
        put_counted(out, self.policy.as_bytes());
        put_files(out, &self.files);
        put_durations(out, &self.sojourn_max);
        put_counted(out, self.user.as_bytes());
        put_counted(out, self.reason.as_bytes());
    }

    fn read(fields: &mut &[u8]) -> Option<Self> {
        Some(Self {
            at: take_instant(fields)?,
            policy: fields.text()?,
            files: take_files(fields)?,
            sojourn_max: take_durations(fields)?,
            user: fields.text()?,
            reason: fields.text()?,
        })
    }
}

impl Joins {
    fn write(&self, out: &mut Vec<u8>) {
        put_instants(out, [self.at]);
        put_numbers(out, [self.removed.len() as u32]);
        self.removed.iter().for_each(|name| put_counted(out, name.as_bytes()));
        let texts = [&self.tables, &self.user, &self.reason];
        texts.into_iter().for_each(|text| put_counted(out, text.as_bytes()));
    }

    fn read(fields: &mut &[u8]) -> Option<Self> {
        let at = take_instant(fields)?;
        let count = fields.u32()? as usize;
        // Each has its length before it, so a forged count ends with the bytes.
        let removed = (0..count).map(|_| fields.text()).collect::<Option<_>>()?;
        let (tables, user, reason) = (fields.text()?, fields.text()?, fields.text()?);
        Some(Self { at, removed, tables, user, reason })
    }
}

#[inline]
fn put_departure(out: &mut Vec<u8>, departure: &Departure) {
    let mark = departure.mark.written();
    let mut fixed = [0; 1 + 8 + 4 * 8 + 2];
    fixed[0] = DEPARTURE;
    fixed[1..5].copy_from_slice(&departure.handle.0.to_le_bytes());
    fixed[5..9].copy_from_slice(&departure.leaf.0.to_le_bytes());
    fixed[9..17].copy_from_slice(&departure.charged.get().to_le_bytes());
    fixed[17..25].copy_from_slice(&departure.arrived.as_nanos().to_le_bytes());
    fixed[25..33].copy_from_slice(&departure.at.as_nanos().to_le_bytes());
    fixed[33..41].copy_from_slice(&departure.finished.as_nanos().to_le_bytes());
    (fixed[41], fixed[42]) = (u8::from(mark.is_some()), mark.unwrap_or(0));
    out.extend_from_slice(&fixed);
}

fn take_departure(fields: &mut &[u8]) -> Option<Departure> {
    Some(Departure {
        handle: Handle(fields.u32()?),
        leaf: LeafId(fields.u32()?),
        charged: Bytes::new(fields.u64()?),
        arrived: take_instant(fields)?,
        at: take_instant(fields)?,
        finished: take_instant(fields)?,
        mark: match (fields.u8()?, fields.u8()?) {
            (0, 0) => Mark::new(None),
            (1, written) => Mark::new(Some(written)),
            _ => return None,
        },
    })
}

fn put_dropped(out: &mut Vec<u8>, dropped: &Dropped) {
    out.push(DROPPED);
    put_numbers(out, [dropped.handle.0, dropped.leaf.0]);
    out.push(dropped.reason as u8);
    put_instants(out, [dropped.at, dropped.arrived]);
}

fn take_dropped(fields: &mut &[u8]) -> Option<Dropped> {
    Some(Dropped {
        handle: Handle(fields.u32()?),
        leaf: LeafId(fields.u32()?),
        reason: *DropReason::ALL.get(usize::from(fields.u8()?))?,
        at: take_instant(fields)?,
        arrived: take_instant(fields)?,
    })
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, at: Instant) {
    let mut fixed = [tag; 9];
    fixed[1..].copy_from_slice(&at.as_nanos().to_le_bytes());
    out.extend_from_slice(&fixed);
}

fn put_numbers<const N: usize>(out: &mut Vec<u8>, numbers: [u32; N]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn put_instants<const N: usize>(out: &mut Vec<u8>, instants: [Instant; N]) {
    instants.iter().for_each(|at| out.extend_from_slice(&at.as_nanos().to_le_bytes()));
}

fn take_instant(fields: &mut &[u8]) -> Option<Instant> {
    fields.u64().map(Instant::from_nanos)
}

/// The bytes of [`Arrival::fields`] of a single frame without a host, and with all that may follow.
pub(crate) const ARRIVAL_BYTES: usize = 30;
pub(crate) const ARRIVAL_BYTES_MAX: usize = ARRIVAL_BYTES + 2 + 16;
/// The bits of a fate that say that the length of a train's frames follows, and that a host does.
const IS_TRAIN: u8 = 0x40;
const HAS_HOST: u8 = 0x80;

/// Tags. A tag that was given once is never given another meaning.
const CHECKPOINT: u8 = 1;
const ARRIVAL: u8 = 2;
const SERVE: u8 = 3;
const DEPARTURE: u8 = 4;
const DROPPED: u8 = 5;
const FORFEIT: u8 = 6;
const DROP_OLDER: u8 = 7;
const CHANGE: u8 = 8;
const LOST: u8 = 9;
const SENT: u8 = 10;
const END: u8 = 11;
const JOINS: u8 = 12;
const RATE: u8 = 13;
