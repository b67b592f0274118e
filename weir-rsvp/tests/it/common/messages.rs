//! Random messages of every type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_core::random::Random;
use weir_rsvp::intserv::{
    Adspec, ControlledLoadPath, Flowspec, General, GuaranteedPath, OtherService, Overrides, Rspec,
    Terms, Tspec,
};
use weir_rsvp::wire::{
    Body, Carried, Cause, Confirmation, Descriptor, EPOCH_MAX, ErrorSpec, FLOW_LABEL_MAX, Filter,
    Hello, Hop, Identified, Message, MessageId, Path, PathError, PathTear, Receipt, Reservation,
    Resv, ResvError, ResvTear, SenderDescriptor, Session, Style,
};

/// Draws messages. Those of one seed are equal on every machine.
pub struct Draw {
    random: Random,
    v4: bool,
}

impl Draw {
    /// Draws by a seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed, 0), v4: true }
    }

    /// Draws a message of this type of address family: all addresses of a message are of one.
    pub fn message(&mut self, kind: u8, v4: bool) -> Message {
        self.v4 = v4;
        let ttl = self.below(256) as u8;
        let body = self.body(kind);
        let mut message = Message::new(ttl, body);
        message.capable = self.one_in(2);
        if kind <= 7 {
            message.carried = self.some(2, Self::carried);
            message.id = self.maybe(Self::identified);
        }
        if kind != 12 && kind != 20 && kind != 25 && kind != 26 {
            message.receipts = self.some(3, Self::receipt);
        }
        message
    }

    fn body(&mut self, kind: u8) -> Body {
        match kind {
            1 => Body::Path(self.path()),
            2 => Body::Resv(self.resv()),
            3 => Body::PathErr(self.path_error()),
            4 => Body::ResvErr(self.resv_error()),
            5 => Body::PathTear(self.path_tear()),
            6 => Body::ResvTear(self.resv_tear()),
            7 => Body::ResvConf(self.confirmation()),
            12 => Body::Bundle((0..self.between(1, 4)).map(|_| self.bundled()).collect()),
            13 => Body::Ack,
            15 => {
                let epoch = self.below(EPOCH_MAX);
                let count = self.between(1, 20);
                Body::Srefresh((0..count).map(|_| self.id(epoch)).collect())
            }
            20 => {
                let (source, destination) = (self.number(), self.number());
                Body::Hello(Hello { answers: self.one_in(2), source, destination })
            }
            25 => Body::Challenge(self.bytes(16)),
            26 => Body::Response(self.bytes(16)),
            _ => unreachable!("tests draw the types that exist"),
        }
    }

    fn bundled(&mut self) -> Message {
        let kind = 1 + self.below(7) as u8;
        let v4 = self.v4;
        self.message(kind, v4)
    }

    fn path(&mut self) -> Path {
        Path {
            session: self.session(),
            police: self.one_in(2),
            hop: self.hop(),
            period: self.number(),
            policies: self.some(2, |draw| draw.bytes(12)),
            sender: self.sender(),
        }
    }

    fn sender(&mut self) -> SenderDescriptor {
        let template = self.filter();
        let adspec = self.maybe(Self::adspec);
        SenderDescriptor { template, tspec: Some(self.tspec()), adspec }
    }

    fn resv(&mut self) -> Resv {
        Resv {
            session: self.session(),
            hop: self.hop(),
            period: self.number(),
            confirm: self.maybe(Self::address),
            scope: self.some(3, Self::address),
            policies: self.some(2, |draw| draw.bytes(8)),
            reservation: self.reservation(),
        }
    }

    fn path_error(&mut self) -> PathError {
        PathError {
            session: self.session(),
            error: self.error(),
            policies: self.some(2, |draw| draw.bytes(4)),
            sender: self.maybe(Self::sender),
        }
    }

    fn resv_error(&mut self) -> ResvError {
        let mut reservation = self.reservation();
        reservation.descriptors.truncate(1);
        ResvError {
            session: self.session(),
            hop: self.hop(),
            error: self.error(),
            scope: self.some(3, Self::address),
            policies: Vec::new(),
            reservation,
        }
    }

    fn path_tear(&mut self) -> PathTear {
        PathTear { session: self.session(), hop: self.hop(), sender: self.maybe(Self::sender) }
    }

    fn resv_tear(&mut self) -> ResvTear {
        ResvTear {
            session: self.session(),
            hop: self.hop(),
            scope: self.some(3, Self::address),
            reservation: self.reservation(),
        }
    }

    fn confirmation(&mut self) -> Confirmation {
        Confirmation {
            session: self.session(),
            error: self.error(),
            receiver: self.address(),
            reservation: self.reservation(),
        }
    }

    fn reservation(&mut self) -> Reservation {
        let style = [Style::Wildcard, Style::Fixed, Style::Shared][self.below(3) as usize];
        let (descriptors, filters) = match style {
            Style::Wildcard => (1, 0),
            Style::Fixed => (self.between(1, 4), 1),
            Style::Shared => (1, self.between(1, 4)),
        };
        let descriptor = |draw: &mut Draw| Descriptor {
            flowspec: Some(draw.flowspec()),
            filters: (0..filters).map(|_| draw.filter()).collect(),
        };
        Reservation { style, descriptors: (0..descriptors).map(|_| descriptor(self)).collect() }
    }

    fn error(&mut self) -> ErrorSpec {
        let causes = [Cause::BANDWIDTH, Cause::NO_PATH, Cause::STYLE_CONFLICT, Cause::BAD_TSPEC];
        ErrorSpec {
            node: self.address(),
            in_place: self.one_in(2),
            not_guilty: self.one_in(2),
            cause: causes[self.below(4) as usize],
        }
    }

    fn session(&mut self) -> Session {
        Session { destination: self.address(), protocol: 17, port: self.below(65_536) as u16 }
    }

    fn filter(&mut self) -> Filter {
        match self.address() {
            IpAddr::V6(source) if self.one_in(3) => {
                Filter::labelled(source, self.below(FLOW_LABEL_MAX))
            }
            source => Filter::new(source, self.below(65_536) as u16),
        }
    }

    fn hop(&mut self) -> Hop {
        Hop { address: self.address(), handle: self.number() }
    }

    fn address(&mut self) -> IpAddr {
        let (high, low) = (u128::from(self.random.bits()), u128::from(self.random.bits()));
        if self.v4 {
            return Ipv4Addr::from(low as u32).into();
        }
        Ipv6Addr::from(high << 64 | low).into()
    }

    fn tspec(&mut self) -> Tspec {
        let peak = if self.one_in(4) { f32::INFINITY } else { self.amount() };
        let (rate, bucket) = (self.amount(), self.amount());
        Tspec { rate, bucket, peak, packet_min: self.below(1500), packet_max: self.number() }
    }

    fn flowspec(&mut self) -> Flowspec {
        let tspec = self.tspec();
        if self.one_in(2) {
            return Flowspec::ControlledLoad(tspec);
        }
        Flowspec::Guaranteed(tspec, Rspec { rate: self.amount(), slack: self.number() })
    }

    fn adspec(&mut self) -> Adspec {
        let general = General {
            broken: self.one_in(2),
            hops: self.number(),
            bandwidth: self.amount(),
            latency: self.number(),
            mtu: self.number(),
        };
        let guaranteed = self.maybe(|draw| GuaranteedPath {
            broken: draw.one_in(2),
            total: draw.terms(),
            since: draw.terms(),
            overrides: draw.overrides(),
        });
        let controlled_load = self.maybe(|draw| ControlledLoadPath {
            broken: draw.one_in(2),
            overrides: draw.overrides(),
        });
        let others = self.some(1, |draw| OtherService {
            number: 6,
            broken: draw.one_in(2),
            bytes: Vec::new(),
        });
        Adspec { general, guaranteed, controlled_load, others }
    }

    fn terms(&mut self) -> Terms {
        Terms { c: self.number(), d: self.number() }
    }

    fn overrides(&mut self) -> Overrides {
        Overrides {
            hops: self.maybe(Self::number),
            bandwidth: self.maybe(Self::amount),
            latency: self.maybe(Self::number),
            mtu: self.maybe(Self::number),
        }
    }

    fn carried(&mut self) -> Carried {
        // Classes that no registry gives a form.
        Carried { class: 248 + self.below(8) as u8, kind: 1, bytes: self.bytes(8) }
    }

    fn identified(&mut self) -> Identified {
        let epoch = self.below(EPOCH_MAX);
        Identified { id: self.id(epoch), acknowledge: self.one_in(2) }
    }

    fn receipt(&mut self) -> Receipt {
        let epoch = self.below(EPOCH_MAX);
        let id = self.id(epoch);
        Receipt { id, known: self.one_in(2) }
    }

    fn id(&mut self, epoch: u32) -> MessageId {
        MessageId { epoch, number: self.number() }
    }

    fn amount(&mut self) -> f32 {
        (self.below(1 << 24) as f32) * 10_f32.powi(self.below(6) as i32)
    }

    fn number(&mut self) -> u32 {
        self.random.bits() as u32
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number() as u8).collect()
    }

    fn some<T>(&mut self, most: u32, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }

    fn maybe<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(2).then(|| one(self))
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound)
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}
