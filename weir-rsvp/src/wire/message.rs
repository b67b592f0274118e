//! Messages: the common header and, for each type, what its objects mean [rfc2205 §3.1].
//!
//! Parsing is two steps: bytes to objects, objects to a body. The order of objects is free as
//! [rfc2205 §3.1] wants it of a reader, but for flow descriptors, where order has the meaning.

use std::net::IpAddr;

use super::codes::{Cause, ErrorSpec};
use super::error::{Fault, WireError};
use super::object::{Carried, HEADER as OBJECT_HEADER, Object, Parsed, class};
use super::reader::Reader;
use super::types::{Filter, Hello, Hop, Identified, MessageId, Receipt, Session, Style};
use crate::integrity::Integrity;
use crate::intserv::{Adspec, Flowspec, Service, Tspec};
use weir_core::packet::Checksum;

/// A message of RSVP, with the objects that are common to all types.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// The IP TTL with which it was sent.
    pub ttl: u8,
    /// The sender understands `[rfc2961]`: bundles, acknowledgements, summary refreshes.
    pub capable: bool,
    /// Sequence number and digest.
    pub integrity: Option<Integrity>,
    /// Acknowledgements of messages that its sender received.
    pub receipts: Vec<Receipt>,
    /// MESSAGE_ID, if it has one.
    pub id: Option<Identified>,
    /// Objects of unknown classes that travel on.
    pub carried: Vec<Carried>,
    /// Why the message is to be refused with an error, if it holds something unknown.
    pub refused: Option<Cause>,
    /// The part that depends on the message type.
    pub body: Body,
}

/// The message type, with its objects.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// A sender is there.
    Path(Path),
    /// A receiver requests or refreshes a reservation.
    Resv(Resv),
    /// A Path failed; travels to the sender.
    PathErr(PathError),
    /// A Resv failed; travels to the receivers.
    ResvErr(ResvError),
    /// A sender withdraws.
    PathTear(PathTear),
    /// A reservation is released.
    ResvTear(ResvTear),
    /// A reservation is confirmed.
    ResvConf(Confirmation),
    /// Several messages to one neighbour.
    Bundle(Vec<Message>),
    /// Receipts alone, without other contents.
    Ack,
    /// Refreshes of what earlier messages said.
    Srefresh(Vec<MessageId>),
    /// A neighbour is alive.
    Hello(Hello),
    /// A receiver asks for proof that the sender is alive.
    Challenge(Vec<u8>),
    /// The answer to a challenge.
    Response(Vec<u8>),
    /// A Path or Resv with an object of an unknown type in place of one that it needs.
    Unread(Unread),
    /// A PathErr or ResvErr for such a message; where it arrives, it means nothing more.
    Refusal(Unread, ErrorSpec),
}

/// The parts of a Path or Resv that an error for it repeats, although an object that it needs is of
/// an unknown type.
#[derive(Clone, PartialEq, Debug)]
pub struct Unread {
    /// It is a Resv, not a Path.
    pub is_resv: bool,
    /// The object of an unknown type, as it came.
    pub unknown: Carried,
    /// The hop that sent it; in a ResvErr this node, and none in a PathErr.
    pub hop: Option<Hop>,
    session: Option<(Session, bool)>,
    style: Option<Style>,
}

/// Announces a sender; travels towards the receivers.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// The session to which it sends.
    pub session: Session,
    /// The session's flag `E_Police`: the next hop polices the flow.
    pub police: bool,
    /// The previous hop: each node writes its own address.
    pub hop: Hop,
    /// Its refresh period in milliseconds.
    pub period: u32,
    /// POLICY_DATA objects, whose contents are not read.
    pub policies: Vec<Vec<u8>>,
    /// The sender and its traffic.
    pub sender: SenderDescriptor,
}

/// A sender and the traffic that it announces.
#[derive(Clone, PartialEq, Debug)]
pub struct SenderDescriptor {
    /// SENDER_TEMPLATE: its address and port.
    pub template: Filter,
    /// SENDER_TSPEC: a Path has one.
    pub tspec: Option<Tspec>,
    /// ADSPEC: the properties of the path so far.
    pub adspec: Option<Adspec>,
}

/// Requests a reservation; travels towards the senders.
#[derive(Clone, PartialEq, Debug)]
pub struct Resv {
    /// The session that is received.
    pub session: Session,
    /// The next hop, with the handle of the Path that it answers.
    pub hop: Hop,
    /// Its refresh period in milliseconds.
    pub period: u32,
    /// The receiver that wants a confirmation.
    pub confirm: Option<IpAddr>,
    /// Senders that a wildcard reservation reaches; empty if there is no SCOPE.
    pub scope: Vec<IpAddr>,
    /// POLICY_DATA objects, whose contents are not read.
    pub policies: Vec<Vec<u8>>,
    /// The style and the flow descriptors.
    pub reservation: Reservation,
}

/// Style and flow descriptors.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    /// How the senders share the reservation.
    pub style: Style,
    /// The flow descriptors: one for WF and SE, any number for FF.
    pub descriptors: Vec<Descriptor>,
}

/// A flowspec with the senders that it is for.
#[derive(Clone, PartialEq, Debug)]
pub struct Descriptor {
    /// The flowspec; a teardown may leave it out.
    pub flowspec: Option<Flowspec>,
    /// The senders: none for WF, one for FF, any number for SE.
    pub filters: Vec<Filter>,
}

/// Reports a Path that failed.
#[derive(Clone, PartialEq, Debug)]
pub struct PathError {
    /// The session of the Path.
    pub session: Session,
    /// The error, and the node that found it.
    pub error: ErrorSpec,
    /// POLICY_DATA objects, whose contents are not read.
    pub policies: Vec<Vec<u8>>,
    /// The sender whose Path failed.
    pub sender: Option<SenderDescriptor>,
}

/// Reports a Resv that failed.
#[derive(Clone, PartialEq, Debug)]
pub struct ResvError {
    /// The session of the Resv.
    pub session: Session,
    /// The previous hop, which sends it.
    pub hop: Hop,
    /// The error, and the node that found it.
    pub error: ErrorSpec,
    /// The SCOPE of the Resv that failed.
    pub scope: Vec<IpAddr>,
    /// POLICY_DATA objects, whose contents are not read.
    pub policies: Vec<Vec<u8>>,
    /// The descriptors that failed.
    pub reservation: Reservation,
}

/// Withdraws a sender.
#[derive(Clone, PartialEq, Debug)]
pub struct PathTear {
    /// The session to which it sent.
    pub session: Session,
    /// The previous hop: each node writes its own address.
    pub hop: Hop,
    /// The sender that goes; without it all from this hop.
    pub sender: Option<SenderDescriptor>,
}

/// Releases a reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct ResvTear {
    /// The session that was received.
    pub session: Session,
    /// The node that sends the message.
    pub hop: Hop,
    /// The SCOPE of a wildcard reservation.
    pub scope: Vec<IpAddr>,
    /// The descriptors that are released.
    pub reservation: Reservation,
}

/// Confirms a reservation to its receiver.
#[derive(Clone, PartialEq, Debug)]
pub struct Confirmation {
    /// The session that is received.
    pub session: Session,
    /// The node that confirms.
    pub error: ErrorSpec,
    /// The receiver that asked.
    pub receiver: IpAddr,
    /// The descriptors that are confirmed.
    pub reservation: Reservation,
}

/// Message types with their numbers [rfc2205 §3.1.1, rfc2961, rfc3097, rfc3209].
pub const KINDS: [(u8, &str); 13] = [
    (PATH, "Path"),
    (RESV, "Resv"),
    (PATH_ERR, "PathErr"),
    (RESV_ERR, "ResvErr"),
    (PATH_TEAR, "PathTear"),
    (RESV_TEAR, "ResvTear"),
    (RESV_CONF, "ResvConf"),
    (BUNDLE, "Bundle"),
    (ACK, "Ack"),
    (SREFRESH, "Srefresh"),
    (HELLO, "Hello"),
    (CHALLENGE, "Integrity Challenge"),
    (RESPONSE, "Integrity Response"),
];

impl Body {
    /// Returns the session that it is about, if it is about one.
    pub const fn session(&self) -> Option<Session> {
        match self {
            Body::Path(path) => Some(path.session),
            Body::Resv(resv) => Some(resv.session),
            Body::PathErr(error) => Some(error.session),
            Body::ResvErr(error) => Some(error.session),
            Body::PathTear(tear) => Some(tear.session),
            Body::ResvTear(tear) => Some(tear.session),
            Body::ResvConf(confirmation) => Some(confirmation.session),
            _ => None,
        }
    }
}

impl Message {
    /// A message with this body and nothing else.
    pub fn new(ttl: u8, body: Body) -> Self {
        let (receipts, carried) = (Vec::new(), Vec::new());
        let (integrity, id, refused) = (None, None, None);
        Self { ttl, capable: false, integrity, receipts, id, carried, refused, body }
    }

    /// Parses a message, which is all of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Message, WireError> {
        parse(bytes, true)
    }

    /// Returns the bytes of the message. An `integrity` is written with the digest that it holds
    /// and without a checksum, for the digest protects more [rfc2747 §4.1].
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[0] = VERSION << 4 | if self.capable { CAPABLE } else { 0 };
        bytes[1] = self.kind().0;
        bytes[4] = self.ttl;
        self.objects().iter().for_each(|object| object.build(&mut bytes));
        if let Body::Bundle(messages) = &self.body {
            messages.iter().for_each(|message| bytes.extend(message.build()));
        }
        // A longer one is no message, which a length of 0 says, and is not sent.
        let length = u16::try_from(bytes.len()).unwrap_or(0);
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
        if self.integrity.is_none() {
            let sum = checksum(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    /// Returns the message type: number and name.
    pub fn kind(&self) -> (u8, &'static str) {
        let number = match &self.body {
            Body::Path(_) => PATH,
            Body::Resv(_) => RESV,
            Body::PathErr(_) => PATH_ERR,
            Body::ResvErr(_) => RESV_ERR,
            Body::PathTear(_) => PATH_TEAR,
            Body::ResvTear(_) => RESV_TEAR,
            Body::ResvConf(_) => RESV_CONF,
            Body::Bundle(_) => BUNDLE,
            Body::Ack => ACK,
            Body::Srefresh(_) => SREFRESH,
            Body::Hello(_) => HELLO,
            Body::Challenge(_) => CHALLENGE,
            Body::Response(_) => RESPONSE,
            Body::Unread(Unread { is_resv: false, .. }) => PATH,
            Body::Unread(_) => RESV,
            Body::Refusal(Unread { is_resv: false, .. }, _) => PATH_ERR,
            Body::Refusal(..) => RESV_ERR,
        };
        *KINDS.iter().find(|(kind, _)| *kind == number).expect("every body has its row")
    }

    /// The objects in the order that [rfc2205 §3.1] recommends.
    fn objects(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        objects.extend(self.integrity.clone().map(Object::Integrity));
        objects.extend(self.receipts.iter().copied().map(Object::Receipt));
        objects.extend(self.id.map(Object::MessageId));
        match &self.body {
            Body::Path(path) => path.objects(&mut objects),
            Body::Resv(resv) => resv.objects(&mut objects),
            Body::PathErr(error) => error.objects(&mut objects),
            Body::ResvErr(error) => error.objects(&mut objects),
            Body::PathTear(tear) => tear.objects(&mut objects),
            Body::ResvTear(tear) => tear.objects(&mut objects),
            Body::ResvConf(confirmation) => confirmation.objects(&mut objects),
            Body::Srefresh(ids) => ids
                .chunk_by(|one, next| one.epoch == next.epoch)
                .for_each(|ids| objects.push(Object::MessageIdList(ids.to_vec()))),
            Body::Hello(hello) => objects.push(Object::Hello(*hello)),
            Body::Challenge(cookie) | Body::Response(cookie) => {
                objects.push(Object::Challenge(cookie.clone()));
            }
            Body::Unread(unread) => unread.objects(None, &mut objects),
            Body::Refusal(unread, error) => unread.objects(Some(*error), &mut objects),
            Body::Ack | Body::Bundle(_) => {}
        }
        objects.extend(self.carried.iter().cloned().map(Object::Carried));
        objects
    }
}

/// The Internet checksum of a message whose checksum field counts as 0.
pub fn checksum(message: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    let (before, rest) = message.split_at(message.len().min(CHECKSUM_AT));
    sum.add(before);
    sum.add(rest.get(size_of::<u16>()..).unwrap_or_default());
    // [rfc2205 §3.1.1] 0 means that no checksum was sent.
    sum.finish_nonzero()
}

/// Parses a message, or one inside a bundle, where no other bundle may be.
///
/// [rfc2961 §3.1] A bundle holds whole messages, behind an optional INTEGRITY and receipts. The
/// length of such an object has a first byte of 0, where a message has its version.
fn parse(bytes: &[u8], bundles: bool) -> Result<Message, WireError> {
    let whole = |fault| WireError { offset: 0, fault };
    let mut reader = Reader::new(bytes);
    let (kind, mut message) = parse_header(&mut reader, bytes).map_err(whole)?;
    let is_bundle = kind == BUNDLE && bundles;
    let (mut objects, mut unknown) = (Vec::new(), None);
    let mut offset = HEADER;
    while offset < bytes.len() && !(is_bundle && bytes[offset] != 0) {
        let parsed = next_object(&mut reader).map_err(|fault| WireError { offset, fault })?;
        let in_front = matches!(parsed, Parsed::Object(Object::Integrity(_) | Object::Receipt(_)));
        let end = bytes.len() - reader.len();
        match parsed {
            _ if is_bundle && !in_front => {
                return Err(WireError { offset, fault: Fault::Misplaced("object of a bundle") });
            }
            Parsed::Object(object) if objects.len() < OBJECTS_MAX => objects.push(object),
            Parsed::Object(_) => {
                let fault = Fault::TooMany { what: "objects", limit: OBJECTS_MAX };
                return Err(WireError { offset, fault });
            }
            Parsed::Ignored => {}
            Parsed::Refused(cause) => {
                message.refused = message.refused.or(Some(cause));
                unknown = unknown.or_else(|| Some(Carried::of_object(&bytes[offset..end])));
            }
        }
        offset = end;
    }
    let mut parts = Parts::default();
    let put = |object| parts.put(object, &mut message).err();
    let faults: Vec<Fault> = objects.into_iter().filter_map(put).collect();
    message.body = match is_bundle {
        true => Body::Bundle(messages(bytes, offset)?),
        false => parts.read(kind, faults.first().copied(), unknown).map_err(whole)?,
    };
    Ok(message)
}

/// Reads the common header; returns the type, and a message that is yet without body.
fn parse_header(reader: &mut Reader<'_>, bytes: &[u8]) -> Result<(u8, Message), Fault> {
    let first = reader.u8()?;
    if first >> 4 != VERSION {
        return Err(Fault::Version(first >> 4));
    }
    let kind = reader.u8()?;
    let sum = reader.u16()?;
    let ttl = reader.u8()?;
    reader.u8()?;
    let length = usize::from(reader.u16()?);
    if length != bytes.len() {
        return Err(Fault::Length { found: length, have: bytes.len() });
    }
    let computed = checksum(bytes);
    if sum != 0 && sum != computed {
        return Err(Fault::Checksum { found: sum, computed });
    }
    let mut message = Message::new(ttl, Body::Ack);
    message.capable = first & CAPABLE != 0;
    Ok((kind, message))
}

fn next_object(reader: &mut Reader<'_>) -> Result<Parsed, Fault> {
    let length = reader.u16()?;
    let (class, kind) = (reader.u8()?, reader.u8()?);
    let contents = usize::from(length).checked_sub(OBJECT_HEADER).filter(|len| len % 4 == 0);
    let contents = reader.take(contents.ok_or(Fault::ObjectLength(length))?)?;
    Object::parse(class, kind, contents)
}

/// The messages of a bundle from this byte on.
fn messages(bytes: &[u8], mut at: usize) -> Result<Vec<Message>, WireError> {
    let mut messages = Vec::new();
    while at < bytes.len() {
        let within = |fault| WireError { offset: at, fault };
        let rest = &bytes[at..];
        let mut reader = Reader::new(rest);
        let length = reader.take(6).and_then(|_| reader.u16()).map_err(within)?;
        let length = usize::from(length);
        if length < HEADER || length > rest.len() {
            return Err(within(Fault::Length { found: length, have: rest.len() }));
        }
        if messages.len() == BUNDLE_MAX {
            return Err(within(Fault::TooMany { what: "messages in a bundle", limit: BUNDLE_MAX }));
        }
        let inner = parse(&rest[..length], false);
        let outer = |error: WireError| WireError { offset: at + error.offset, ..error };
        messages.push(inner.map_err(outer)?);
        at += length;
    }
    Ok(messages)
}

/// Objects by class, each class once, before they become a body.
#[derive(Default)]
struct Parts {
    session: Option<(Session, bool)>,
    hop: Option<Hop>,
    period: Option<u32>,
    error: Option<ErrorSpec>,
    scope: Vec<IpAddr>,
    style: Option<Style>,
    descriptors: Vec<Descriptor>,
    template: Option<Filter>,
    tspec: Option<Tspec>,
    adspec: Option<Adspec>,
    policies: Vec<Vec<u8>>,
    confirm: Option<IpAddr>,
    ids: Vec<MessageId>,
    hello: Option<Hello>,
    cookie: Option<Vec<u8>>,
}

impl Parts {
    /// Takes an object; those that any message may have go to `message`.
    fn put(&mut self, object: Object, message: &mut Message) -> Result<(), Fault> {
        match object {
            Object::Session(session, police) => once(&mut self.session, (session, police))?,
            Object::Hop(hop) => once(&mut self.hop, hop)?,
            Object::Integrity(integrity) => once(&mut message.integrity, integrity)?,
            Object::TimeValues(period) => once(&mut self.period, period)?,
            Object::ErrorSpec(error) => once(&mut self.error, error)?,
            Object::Scope(senders) => self.scope.extend(senders),
            Object::Style(style) => once(&mut self.style, style)?,
            Object::Flowspec(flowspec) => {
                let filters = Vec::new();
                self.descriptors.push(Descriptor { flowspec: Some(flowspec), filters });
            }
            Object::FilterSpec(filter) => self.put_filter(filter)?,
            Object::SenderTemplate(sender) => once(&mut self.template, sender)?,
            Object::SenderTspec(tspec) => once(&mut self.tspec, tspec)?,
            Object::Adspec(adspec) => once(&mut self.adspec, adspec)?,
            Object::PolicyData(data) => self.policies.push(data),
            Object::ResvConfirm(receiver) => once(&mut self.confirm, receiver)?,
            Object::Hello(hello) => once(&mut self.hello, hello)?,
            Object::MessageId(id) => once(&mut message.id, id)?,
            Object::Receipt(receipt) => message.receipts.push(receipt),
            Object::MessageIdList(ids) => self.ids.extend(ids),
            Object::Challenge(cookie) => once(&mut self.cookie, cookie)?,
            Object::Carried(carried) => message.carried.push(carried),
        }
        Ok(())
    }

    /// [rfc2205 §3.1.4] A filter belongs to the flowspec before it; FF may leave out a flowspec
    /// that equals the one before.
    fn put_filter(&mut self, filter: Filter) -> Result<(), Fault> {
        let style = self.style.ok_or(Fault::Misplaced("FILTER_SPEC before STYLE"))?;
        match self.descriptors.last_mut() {
            Some(last) if style == Style::Shared || last.filters.is_empty() => {
                last.filters.push(filter);
            }
            last => {
                let flowspec = last.and_then(|last| last.flowspec);
                self.descriptors.push(Descriptor { flowspec, filters: vec![filter] });
            }
        }
        Ok(())
    }

    /// The body, or what an error for the message repeats, if what it lacks can be the object of an
    /// `unknown` type.
    fn read(self, kind: u8, fault: Option<Fault>, unknown: Option<Carried>) -> Result<Body, Fault> {
        let (hop, session, style, error) = (self.hop, self.session, self.style, self.error);
        let fault = match fault.map_or_else(|| self.body(kind), Err) {
            Ok(body) => return Ok(body),
            Err(fault) => fault,
        };
        let Some(unknown) = unknown else { return Err(fault) };
        let is_resv = [RESV, RESV_ERR].contains(&kind);
        let lacks = |class| match class {
            class::SESSION => session.is_none(),
            class::STYLE => is_resv && style.is_none(),
            _ => false,
        };
        // [rfc2205 §3.1.8] An error has a session, and for a Resv a style.
        let is_whole = [class::SESSION, class::STYLE]
            .into_iter()
            .all(|class| !lacks(class) || unknown.class == class);
        let explains = lacks(unknown.class);
        let hop = hop.filter(|_| kind != PATH_ERR);
        let unread = Unread { is_resv, unknown, hop, session, style };
        match (kind, error) {
            _ if !is_whole || hop.is_none() && kind != PATH_ERR => Err(fault),
            (PATH | RESV, _) => Ok(Body::Unread(unread)),
            (PATH_ERR | RESV_ERR, Some(error)) if explains => Ok(Body::Refusal(unread, error)),
            _ => Err(fault),
        }
    }

    fn body(self, kind: u8) -> Result<Body, Fault> {
        match kind {
            PATH => self.path().map(Body::Path),
            RESV => self.resv().map(Body::Resv),
            PATH_ERR => self.path_error().map(Body::PathErr),
            RESV_ERR => self.resv_error().map(Body::ResvErr),
            PATH_TEAR => self.path_tear().map(Body::PathTear),
            RESV_TEAR => self.resv_tear().map(Body::ResvTear),
            RESV_CONF => self.confirmation().map(Body::ResvConf),
            ACK => Ok(Body::Ack),
            SREFRESH if self.ids.is_empty() => Err(Fault::Missing("MESSAGE_ID LIST")),
            SREFRESH => Ok(Body::Srefresh(self.ids)),
            HELLO => self.hello.map(Body::Hello).ok_or(Fault::Missing("HELLO")),
            CHALLENGE => self.cookie.map(Body::Challenge).ok_or(Fault::Missing("CHALLENGE")),
            RESPONSE => self.cookie.map(Body::Response).ok_or(Fault::Missing("CHALLENGE")),
            kind => Err(Fault::Kind(kind)),
        }
    }

    fn session(&self) -> Result<(Session, bool), Fault> {
        self.session.ok_or(Fault::Missing("SESSION"))
    }

    fn hop(&self) -> Result<Hop, Fault> {
        self.hop.ok_or(Fault::Missing("RSVP_HOP"))
    }

    fn period(&self) -> Result<u32, Fault> {
        self.period.ok_or(Fault::Missing("TIME_VALUES"))
    }

    fn error(&self) -> Result<ErrorSpec, Fault> {
        self.error.ok_or(Fault::Missing("ERROR_SPEC"))
    }

    fn sender(&mut self) -> Option<SenderDescriptor> {
        let (tspec, adspec) = (self.tspec, self.adspec.take());
        self.template.map(|template| SenderDescriptor { template, tspec, adspec })
    }

    /// Checks that flow descriptors have the form of their style.
    fn reservation(&mut self) -> Result<Reservation, Fault> {
        let style = self.style.ok_or(Fault::Missing("STYLE"))?;
        let descriptors = std::mem::take(&mut self.descriptors);
        let filters = |wanted: fn(usize) -> bool| {
            descriptors.iter().all(|descriptor| wanted(descriptor.filters.len()))
        };
        let fits = match style {
            Style::Wildcard => descriptors.len() <= 1 && filters(|filters| filters == 0),
            Style::Shared => descriptors.len() <= 1 && filters(|filters| filters > 0),
            Style::Fixed => filters(|filters| filters == 1),
        };
        if !fits {
            return Err(Fault::Misplaced("flow descriptor that its style does not have"));
        }
        Ok(Reservation { style, descriptors })
    }

    fn path(mut self) -> Result<Path, Fault> {
        let (session, police) = self.session()?;
        let (hop, period) = (self.hop()?, self.period()?);
        let sender = self.sender().ok_or(Fault::Missing("SENDER_TEMPLATE"))?;
        Ok(Path { session, police, hop, period, policies: self.policies, sender })
    }

    fn resv(mut self) -> Result<Resv, Fault> {
        let (session, _) = self.session()?;
        let (hop, period) = (self.hop()?, self.period()?);
        let reservation = self.reservation()?;
        let Parts { confirm, scope, policies, .. } = self;
        Ok(Resv { session, hop, period, confirm, scope, policies, reservation })
    }

    fn path_error(mut self) -> Result<PathError, Fault> {
        let (session, _) = self.session()?;
        let (error, sender) = (self.error()?, self.sender());
        Ok(PathError { session, error, policies: self.policies, sender })
    }

    fn resv_error(mut self) -> Result<ResvError, Fault> {
        let (session, _) = self.session()?;
        let (hop, error) = (self.hop()?, self.error()?);
        let reservation = self.reservation()?;
        let Parts { scope, policies, .. } = self;
        Ok(ResvError { session, hop, error, scope, policies, reservation })
    }

    fn path_tear(mut self) -> Result<PathTear, Fault> {
        let (session, _) = self.session()?;
        Ok(PathTear { session, hop: self.hop()?, sender: self.sender() })
    }

    fn resv_tear(mut self) -> Result<ResvTear, Fault> {
        let (session, _) = self.session()?;
        let (hop, reservation) = (self.hop()?, self.reservation()?);
        Ok(ResvTear { session, hop, scope: self.scope, reservation })
    }

    fn confirmation(mut self) -> Result<Confirmation, Fault> {
        let (session, _) = self.session()?;
        let error = self.error()?;
        let receiver = self.confirm.ok_or(Fault::Missing("RESV_CONFIRM"))?;
        Ok(Confirmation { session, error, receiver, reservation: self.reservation()? })
    }
}

/// Sets what a message has once.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Fault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::Misplaced("second object of a class that occurs once")),
    }
}

impl Path {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, self.police));
        objects.push(Object::Hop(self.hop));
        objects.push(Object::TimeValues(self.period));
        objects.extend(self.policies.iter().cloned().map(Object::PolicyData));
        self.sender.objects(objects);
    }
}

impl SenderDescriptor {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::SenderTemplate(self.template));
        objects.extend(self.tspec.map(Object::SenderTspec));
        objects.extend(self.adspec.clone().map(Object::Adspec));
    }
}

impl Resv {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::Hop(self.hop));
        objects.push(Object::TimeValues(self.period));
        objects.extend(self.confirm.map(Object::ResvConfirm));
        scope(&self.scope, objects);
        objects.extend(self.policies.iter().cloned().map(Object::PolicyData));
        self.reservation.objects(objects);
    }
}

impl Reservation {
    /// Returns the rates of all its flowspecs, in bytes a second.
    pub fn rate(&self) -> f64 {
        self.flowspecs().map(|flowspec| f64::from(flowspec.rate())).sum()
    }

    /// Returns the service, if it has a flowspec.
    pub fn service(&self) -> Option<Service> {
        self.flowspecs().next().map(|flowspec| flowspec.service())
    }

    fn flowspecs(&self) -> impl Iterator<Item = &Flowspec> {
        self.descriptors.iter().filter_map(|one| one.flowspec.as_ref())
    }

    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Style(self.style));
        for descriptor in &self.descriptors {
            objects.extend(descriptor.flowspec.map(Object::Flowspec));
            objects.extend(descriptor.filters.iter().copied().map(Object::FilterSpec));
        }
    }
}

impl Unread {
    /// The objects of the message, as far as it was read, or of an error for it.
    fn objects(&self, error: Option<ErrorSpec>, objects: &mut Vec<Object>) {
        let unknown = || Object::Carried(self.unknown.clone());
        let known = |(session, police)| Object::Session(session, police && error.is_none());
        objects.push(self.session.map_or_else(unknown, known));
        objects.extend(self.hop.map(Object::Hop));
        objects.extend(error.map(Object::ErrorSpec));
        objects.extend(self.style.map(Object::Style));
        let is_due = error.is_none() || self.unknown.class == class::STYLE;
        objects.extend((is_due && self.session.is_some()).then(unknown));
    }
}

impl PathError {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::ErrorSpec(self.error));
        objects.extend(self.policies.iter().cloned().map(Object::PolicyData));
        self.sender.iter().for_each(|sender| sender.objects(objects));
    }
}

impl ResvError {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::Hop(self.hop));
        objects.push(Object::ErrorSpec(self.error));
        scope(&self.scope, objects);
        objects.extend(self.policies.iter().cloned().map(Object::PolicyData));
        self.reservation.objects(objects);
    }
}

impl PathTear {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::Hop(self.hop));
        self.sender.iter().for_each(|sender| sender.objects(objects));
    }
}

impl ResvTear {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::Hop(self.hop));
        scope(&self.scope, objects);
        self.reservation.objects(objects);
    }
}

impl Confirmation {
    fn objects(&self, objects: &mut Vec<Object>) {
        objects.push(Object::Session(self.session, false));
        objects.push(Object::ErrorSpec(self.error));
        objects.push(Object::ResvConfirm(self.receiver));
        self.reservation.objects(objects);
    }
}

fn scope(senders: &[IpAddr], objects: &mut Vec<Object>) {
    // An object has addresses of one family.
    let families = senders.chunk_by(|one, next| one.is_ipv4() == next.is_ipv4());
    objects.extend(families.map(|family| Object::Scope(family.to_vec())));
}

/// Bytes of the common header.
const HEADER: usize = 8;
/// Where the checksum is in it.
const CHECKSUM_AT: usize = 2;
const VERSION: u8 = 1;
const CAPABLE: u8 = 0x01;

/// Bound: objects of a message of RSVP; one with more is malformed. An IPv6 packet of 1500 bytes
/// holds fewer of any use.
const OBJECTS_MAX: usize = 1024;
/// Bound: messages of a bundle of RSVP; one with more is malformed.
const BUNDLE_MAX: usize = 256;

const PATH: u8 = 1;
const RESV: u8 = 2;
const PATH_ERR: u8 = 3;
const RESV_ERR: u8 = 4;
const PATH_TEAR: u8 = 5;
const RESV_TEAR: u8 = 6;
const RESV_CONF: u8 = 7;
const BUNDLE: u8 = 12;
const ACK: u8 = 13;
const SREFRESH: u8 = 15;
const HELLO: u8 = 20;
/// `[rfc3097]` Not 11, which `[rfc2747]` says.
const CHALLENGE: u8 = 25;
const RESPONSE: u8 = 26;
