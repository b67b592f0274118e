//! Objects: the parts of a message [rfc2205 §3.1.2, Appendix A].
//!
//! An object is 4 bytes of length, class and type, and its contents. What a node does with a class
//! that it does not know follows from the class number's two high bits [rfc2205 §3.10].

use std::net::IpAddr;

use super::codes::{Cause, ErrorSpec};
use super::error::Fault;
use super::reader::Reader;
use super::types::{EPOCH_MAX, FLOW_LABEL_MAX};
use super::types::{Filter, Hello, Hop, Identified, MessageId, Receipt, Select, Session, Style};
use crate::integrity::{Digest, Integrity};
use crate::intserv::{Adspec, Flowspec, Tspec, format};

/// Classes that this node knows.
pub mod class {
    /// Padding; its contents mean nothing.
    pub const NULL: u8 = 0;
    pub const SESSION: u8 = 1;
    pub const HOP: u8 = 3;
    pub const INTEGRITY: u8 = 4;
    pub const TIME_VALUES: u8 = 5;
    pub const ERROR_SPEC: u8 = 6;
    pub const SCOPE: u8 = 7;
    pub const STYLE: u8 = 8;
    pub const FLOWSPEC: u8 = 9;
    pub const FILTER_SPEC: u8 = 10;
    pub const SENDER_TEMPLATE: u8 = 11;
    pub const SENDER_TSPEC: u8 = 12;
    pub const ADSPEC: u8 = 13;
    pub const POLICY_DATA: u8 = 14;
    pub const RESV_CONFIRM: u8 = 15;
    pub const HELLO: u8 = 22;
    pub const MESSAGE_ID: u8 = 23;
    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK.
    pub const MESSAGE_ID_ACK: u8 = 24;
    pub const MESSAGE_ID_LIST: u8 = 25;
    pub const CHALLENGE: u8 = 64;
}

/// An object whose contents were read.
#[derive(Clone, PartialEq, Debug)]
pub enum Object {
    /// SESSION, with its flag `E_Police`.
    Session(Session, bool),
    Hop(Hop),
    Integrity(Integrity),
    /// TIME_VALUES: the refresh period in milliseconds.
    TimeValues(u32),
    ErrorSpec(ErrorSpec),
    /// SCOPE: addresses of senders, of one family.
    Scope(Vec<IpAddr>),
    Style(Style),
    Flowspec(Flowspec),
    FilterSpec(Filter),
    SenderTemplate(Filter),
    SenderTspec(Tspec),
    Adspec(Adspec),
    /// POLICY_DATA, which this node carries and does not read.
    PolicyData(Vec<u8>),
    /// RESV_CONFIRM: the receiver that wants to know.
    ResvConfirm(IpAddr),
    Hello(Hello),
    MessageId(Identified),
    /// MESSAGE_ID_ACK or MESSAGE_ID_NACK.
    Receipt(Receipt),
    MessageIdList(Vec<MessageId>),
    /// CHALLENGE: the cookie.
    Challenge(Vec<u8>),
    /// An object of an unknown class that is passed on as it is.
    Carried(Carried),
}

/// An object of an unknown class 11bbbbbb: it travels with what the message causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The class number, at least 192.
    pub class: u8,
    /// The type within the class.
    pub kind: u8,
    /// Its contents: a multiple of 4 bytes.
    pub bytes: Vec<u8>,
}

impl Carried {
    /// An object as it came, with its header.
    pub(super) fn of_object(bytes: &[u8]) -> Self {
        let (header, contents) = bytes.split_at(HEADER);
        Self { class: header[2], kind: header[3], bytes: contents.to_vec() }
    }
}

/// The result of reading an object.
#[derive(Clone, PartialEq, Debug)]
pub enum Parsed {
    /// The object is one that this node knows or passes on.
    Object(Object),
    /// Nothing: padding, or an unknown class that is to be ignored.
    Ignored,
    /// The message is to be refused for this reason, with an error to the node that caused it.
    Refused(Cause),
}

impl Object {
    /// Parses the contents of an object.
    pub fn parse(class: u8, kind: u8, contents: &[u8]) -> Result<Parsed, Fault> {
        let mut reader = Reader::new(contents);
        let Some(parsed) = parse_known(class, kind, &mut reader)? else {
            return Ok(unknown(class, kind, contents));
        };
        if !reader.is_empty() {
            return Err(Fault::Trailing(reader.len()));
        }
        Ok(parsed)
    }

    /// Appends the object's bytes.
    pub fn build(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend([0; HEADER]);
        let (class, kind) = self.contents(bytes);
        let length = u16::try_from(bytes.len() - start).expect("objects are bounded below 64 KiB");
        bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
        bytes[start + 2] = class;
        bytes[start + 3] = kind;
    }

    /// Appends the contents; returns class and type.
    fn contents(&self, bytes: &mut Vec<u8>) -> (u8, u8) {
        match self {
            Object::Session(session, police) => session_contents(bytes, session, *police),
            Object::Hop(hop) => hop_contents(bytes, hop),
            Object::Integrity(integrity) => integrity_contents(bytes, integrity),
            Object::TimeValues(period) => (class::TIME_VALUES, put_u32(bytes, *period)),
            Object::ErrorSpec(error) => error_contents(bytes, error),
            Object::Scope(senders) => scope_contents(bytes, senders),
            Object::Style(style) => (class::STYLE, put_u32(bytes, style.bits())),
            Object::Flowspec(flowspec) => {
                format::build_flowspec(bytes, flowspec);
                (class::FLOWSPEC, 2)
            }
            Object::FilterSpec(filter) => (class::FILTER_SPEC, filter_contents(bytes, filter)),
            Object::SenderTemplate(sender) => {
                (class::SENDER_TEMPLATE, filter_contents(bytes, sender))
            }
            Object::SenderTspec(tspec) => {
                format::build_tspec(bytes, tspec);
                (class::SENDER_TSPEC, 2)
            }
            Object::Adspec(adspec) => {
                format::build_adspec(bytes, adspec);
                (class::ADSPEC, 2)
            }
            Object::PolicyData(data) => (class::POLICY_DATA, put_padded(bytes, data)),
            Object::ResvConfirm(receiver) => (class::RESV_CONFIRM, put_address(bytes, *receiver)),
            Object::Hello(hello) => {
                put_u32(bytes, hello.source);
                put_u32(bytes, hello.destination);
                (class::HELLO, if hello.answers { 2 } else { 1 })
            }
            Object::MessageId(identified) => {
                put_id(bytes, identified.id, identified.acknowledge);
                (class::MESSAGE_ID, 1)
            }
            Object::Receipt(receipt) => {
                put_id(bytes, receipt.id, false);
                (class::MESSAGE_ID_ACK, if receipt.known { 1 } else { 2 })
            }
            Object::MessageIdList(ids) => {
                put_u32(bytes, ids.first().map_or(0, |id| id.epoch & EPOCH_MAX));
                for id in ids {
                    put_u32(bytes, id.number);
                }
                (class::MESSAGE_ID_LIST, 1)
            }
            Object::Challenge(cookie) => (class::CHALLENGE, put_padded(bytes, cookie)),
            Object::Carried(carried) => {
                put_padded(bytes, &carried.bytes);
                (carried.class, carried.kind)
            }
        }
    }
}

/// [rfc2205 §3.10] A class 0bbbbbbb is refused, 10bbbbbb ignored, 11bbbbbb carried on. An unknown
/// type of a known class is refused.
fn unknown(class: u8, kind: u8, contents: &[u8]) -> Parsed {
    let known = (class::SESSION..=class::RESV_CONFIRM).contains(&class) && class != 2
        || (class::HELLO..=class::MESSAGE_ID_LIST).contains(&class)
        || class == class::CHALLENGE;
    match class >> 6 {
        _ if known => Parsed::Refused(Cause::unknown_type(class, kind)),
        0b10 => Parsed::Ignored,
        0b11 => Parsed::Object(Object::Carried(Carried { class, kind, bytes: contents.to_vec() })),
        _ => Parsed::Refused(Cause::unknown_class(class, kind)),
    }
}

/// Parses the contents if class and type are known.
fn parse_known(class: u8, kind: u8, reader: &mut Reader<'_>) -> Result<Option<Parsed>, Fault> {
    let object = match (class, kind) {
        (class::NULL, _) => {
            reader.rest();
            return Ok(Some(Parsed::Ignored));
        }
        (class::SESSION, 1 | 2) => parse_session(kind, reader)?,
        (class::HOP, 1 | 2) => {
            Object::Hop(Hop { address: address(kind, reader)?, handle: reader.u32()? })
        }
        (class::INTEGRITY, 1) => Object::Integrity(parse_integrity(reader)?),
        (class::TIME_VALUES, 1) => Object::TimeValues(reader.u32()?),
        (class::ERROR_SPEC, 1 | 2) => parse_error(kind, reader)?,
        (class::SCOPE, 1 | 2) => Object::Scope(entries(reader, |reader| address(kind, reader))?),
        (class::STYLE, 1) => match Style::of_bits(reader.u32()?) {
            Some(style) => Object::Style(style),
            None => return Ok(Some(Parsed::Refused(Cause::STYLE_UNKNOWN))),
        },
        (class::FLOWSPEC, 2) => match format::parse_flowspec(reader)? {
            Some(flowspec) => Object::Flowspec(flowspec),
            None => return Ok(Some(Parsed::Refused(Cause::SERVICE_UNSUPPORTED))),
        },
        (class::FILTER_SPEC, 1..=3) => Object::FilterSpec(parse_filter(kind, reader)?),
        (class::SENDER_TEMPLATE, 1..=3) => Object::SenderTemplate(parse_filter(kind, reader)?),
        (class::SENDER_TSPEC, 2) => Object::SenderTspec(format::parse_tspec(reader)?),
        (class::ADSPEC, 2) => Object::Adspec(format::parse_adspec(reader)?),
        (class::POLICY_DATA, 1) => Object::PolicyData(reader.rest().to_vec()),
        (class::RESV_CONFIRM, 1 | 2) => Object::ResvConfirm(address(kind, reader)?),
        (class::HELLO, 1 | 2) => {
            let (source, destination) = (reader.u32()?, reader.u32()?);
            Object::Hello(Hello { answers: kind == 2, source, destination })
        }
        (class::MESSAGE_ID, 1) => Object::MessageId(parse_id(reader)?),
        (class::MESSAGE_ID_ACK, 1 | 2) => {
            Object::Receipt(Receipt { id: parse_id(reader)?.id, known: kind == 1 })
        }
        (class::MESSAGE_ID_LIST, 1) => {
            let epoch = reader.u32()? & EPOCH_MAX;
            let id = |reader: &mut Reader<'_>| Ok(MessageId { epoch, number: reader.u32()? });
            Object::MessageIdList(entries(reader, id)?)
        }
        (class::CHALLENGE, 1) => Object::Challenge(reader.rest().to_vec()),
        _ => return Ok(None),
    };
    Ok(Some(Parsed::Object(object)))
}

/// Reads an address; types 1 and 2 of all classes with addresses are IPv4 and IPv6.
fn address(kind: u8, reader: &mut Reader<'_>) -> Result<IpAddr, Fault> {
    Ok(if kind == 1 { reader.ipv4()?.into() } else { reader.ipv6()?.into() })
}

fn parse_session(kind: u8, reader: &mut Reader<'_>) -> Result<Object, Fault> {
    let destination = address(kind, reader)?;
    let protocol = reader.u8()?;
    let police = reader.u8()? & POLICE != 0;
    Ok(Object::Session(Session { destination, protocol, port: reader.u16()? }, police))
}

fn parse_integrity(reader: &mut Reader<'_>) -> Result<Integrity, Fault> {
    let handshake = reader.u8()? & HANDSHAKE != 0;
    reader.u8()?;
    let key = u64::from(reader.u16()?) << 32 | u64::from(reader.u32()?);
    let sequence = reader.u64()?;
    let digest = Digest::of_bytes(reader.rest()).ok_or(Fault::Misplaced("digest"))?;
    Ok(Integrity { handshake, key, sequence, digest })
}

fn parse_error(kind: u8, reader: &mut Reader<'_>) -> Result<Object, Fault> {
    let node = address(kind, reader)?;
    let flags = reader.u8()?;
    let cause = Cause::new(reader.u8()?, reader.u16()?);
    let (in_place, not_guilty) = (flags & IN_PLACE != 0, flags & NOT_GUILTY != 0);
    Ok(Object::ErrorSpec(ErrorSpec { node, in_place, not_guilty, cause }))
}

/// Reads what is left, at least one entry.
fn entries<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut entries = vec![read(reader)?];
    while !reader.is_empty() {
        entries.push(read(reader)?);
    }
    Ok(entries)
}

fn parse_filter(kind: u8, reader: &mut Reader<'_>) -> Result<Filter, Fault> {
    let source = address(kind, reader)?;
    if kind == 3 {
        let select = Select::FlowLabel(reader.u32()? & FLOW_LABEL_MAX);
        return Ok(Filter { source, select });
    }
    reader.u16()?;
    Ok(Filter { source, select: Select::Port(reader.u16()?) })
}

fn parse_id(reader: &mut Reader<'_>) -> Result<Identified, Fault> {
    let word = reader.u32()?;
    let acknowledge = word >> 24 & u32::from(ACK_DESIRED) != 0;
    let id = MessageId { epoch: word & EPOCH_MAX, number: reader.u32()? };
    Ok(Identified { id, acknowledge })
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) -> u8 {
    bytes.extend(number.to_be_bytes());
    1
}

/// Appends bytes and zeros up to a multiple of 4.
fn put_padded(bytes: &mut Vec<u8>, contents: &[u8]) -> u8 {
    bytes.extend(contents);
    bytes.resize(bytes.len() + contents.len().wrapping_neg() % 4, 0);
    1
}

/// Appends an address; returns the type of its family.
fn put_address(bytes: &mut Vec<u8>, address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => {
            bytes.extend(address.octets());
            1
        }
        IpAddr::V6(address) => {
            bytes.extend(address.octets());
            2
        }
    }
}

fn put_id(bytes: &mut Vec<u8>, id: MessageId, acknowledge: bool) {
    let flags = u32::from(if acknowledge { ACK_DESIRED } else { 0 });
    put_u32(bytes, flags << 24 | id.epoch & EPOCH_MAX);
    put_u32(bytes, id.number);
}

fn session_contents(bytes: &mut Vec<u8>, session: &Session, police: bool) -> (u8, u8) {
    let kind = put_address(bytes, session.destination);
    bytes.extend([session.protocol, if police { POLICE } else { 0 }]);
    bytes.extend(session.port.to_be_bytes());
    (class::SESSION, kind)
}

fn hop_contents(bytes: &mut Vec<u8>, hop: &Hop) -> (u8, u8) {
    let kind = put_address(bytes, hop.address);
    put_u32(bytes, hop.handle);
    (class::HOP, kind)
}

fn integrity_contents(bytes: &mut Vec<u8>, integrity: &Integrity) -> (u8, u8) {
    bytes.extend([if integrity.handshake { HANDSHAKE } else { 0 }, 0]);
    bytes.extend(&integrity.key.to_be_bytes()[2..]);
    bytes.extend(integrity.sequence.to_be_bytes());
    bytes.extend(integrity.digest.bytes());
    (class::INTEGRITY, 1)
}

fn error_contents(bytes: &mut Vec<u8>, error: &ErrorSpec) -> (u8, u8) {
    let kind = put_address(bytes, error.node);
    let in_place = if error.in_place { IN_PLACE } else { 0 };
    let not_guilty = if error.not_guilty { NOT_GUILTY } else { 0 };
    bytes.extend([in_place | not_guilty, error.cause.code]);
    bytes.extend(error.cause.value.to_be_bytes());
    (class::ERROR_SPEC, kind)
}

fn scope_contents(bytes: &mut Vec<u8>, senders: &[IpAddr]) -> (u8, u8) {
    let kinds: Vec<u8> = senders.iter().map(|sender| put_address(bytes, *sender)).collect();
    debug_assert!(kinds.windows(2).all(|pair| pair[0] == pair[1]), "one family a SCOPE");
    (class::SCOPE, kinds.first().copied().unwrap_or(1))
}

fn filter_contents(bytes: &mut Vec<u8>, filter: &Filter) -> u8 {
    let kind = put_address(bytes, filter.source);
    match filter.select {
        Select::Port(port) => {
            put_u32(bytes, port.into());
            kind
        }
        Select::FlowLabel(label) => {
            put_u32(bytes, label & FLOW_LABEL_MAX);
            3
        }
    }
}

/// Bytes of length, class and type.
pub const HEADER: usize = 4;

const POLICE: u8 = 0x01;
const IN_PLACE: u8 = 0x01;
const NOT_GUILTY: u8 = 0x02;
const HANDSHAKE: u8 = 0x01;
const ACK_DESIRED: u8 = 0x01;
