//! The class that a reservation becomes: its name, its table in the words of policies.
//!
//! Rates and sizes of a Tspec count bytes of IP packets, those of a policy what a packet takes on
//! the link. RFC 2212's minimum policed unit bounds what headers add: it is the shortest packet
//! that a flow is charged for, so no packet of the flow has more overhead in proportion.

use std::fmt::Write;
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use weir_core::parameter::{Params, Value};
use weir_core::queue::Limit;
use weir_core::sched;
use weir_core::units::{Quantity, Rate};
use weir_policy::deployment::{Excess, rate_cap};
use weir_policy::policy::Places;

use super::{Admission, service_rate};
use crate::intserv::{Flowspec, Terms};
use crate::node::Request;
use crate::wire::{Filter, Select, Session, Style};

/// The class that a reservation needs in the policy.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) rate: Rate,
    /// Guaranteed service: the longest delay at this hop, in seconds.
    pub(super) promise: Option<f64>,
}

impl Wanted {
    /// Returns the class for a request; its rates and burst cover the headers below IP, too.
    pub(super) fn of(request: &Request, admission: &Admission) -> Self {
        let tspec = request.tspec;
        let packets = request.flowspec.tspec();
        let dearness = admission.dearness(packets.packet_min, packets.packet_max);
        let bits = |rate: f32| {
            let bits = (f64::from(rate) * 8.0 * dearness).ceil();
            // No bits at all are too few, and what the link does not have was refused.
            Rate::new(bits as u64).unwrap_or(Rate::MIN)
        };
        let reserved = service_rate(request).max(tspec.rate);
        let (rate, token) = (bits(reserved), bits(tspec.rate));
        let burst = (f64::from(tspec.bucket.max(packets.packet_max as f32)) * dearness).ceil();
        let terms = admission.terms.unwrap_or_default();
        let bytes_per_second = rate.bits_per_second() as f64 / 8.0;
        let delay = burst / bytes_per_second + admission.hop_delay(bytes_per_second, terms);
        let is_guaranteed = matches!(request.flowspec, Flowspec::Guaranteed(..));
        let name = name(request);
        let mut table = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            table.write_fmt(text).and_then(|()| table.write_char('\n')).expect("a text takes all");
        };
        line(format_args!("[class.{name}]\nparent = \"{}\"", admission.params.class));
        line(format_args!("rate = \"{} bit/s\"", rate.bits_per_second()));
        if let Some((key, cap)) = admission.cap(rate) {
            line(format_args!("{key} = \"{} bit/s\"", cap.bits_per_second()));
        }
        let (most, sent) = (burst as u64, token.bits_per_second());
        line(format_args!("arrival = {{ rate = \"{sent} bit/s\", burst = \"{most} B\" }}"));
        if is_guaranteed && !admission.has_delay() {
            let nanos = (delay * 1e9).ceil() as u64;
            line(format_args!("delay = \"{nanos} ns\""));
        }
        // What arrives while the burst is served late must find room, too.
        let room = burst + token.bits_per_second() as f64 / 8.0 * delay;
        if let Some(limit) = admission.limit(room.ceil() as u64) {
            line(format_args!("queue = {{ limit = \"{limit} B\" }}"));
        }
        line(format_args!("match = [{}]", rules(request)));
        Self { name, table, rate, promise: is_guaranteed.then_some(delay) }
    }
}

impl Admission {
    /// Returns how many bytes of the link a byte of a flow takes at most, whose packets have from
    /// `least` to `most` bytes.
    pub(super) fn dearness(&self, least: u32, most: u32) -> f64 {
        let link = &self.policy.link;
        let least = least.max(IP_HEADER);
        let charged = |packet: u32| link.charged(packet.saturating_add(self.params.header));
        // Where a line has cells, a packet may just begin one.
        let last = most.max(least).min(least.saturating_add(CELL));
        let of = |packet: u32| f64::from(charged(packet)) / f64::from(packet);
        (least..=last).map(of).fold(1.0, f64::max)
    }

    /// C/R + D in seconds, where `rate` is R in bytes a second of the link.
    pub(super) fn hop_delay(&self, rate: f64, terms: Terms) -> f64 {
        f64::from(terms.c) / rate + f64::from(terms.d) / 1e6
    }

    /// Returns the parameter that keeps a class at most at its rate, or lets it borrow.
    fn cap(&self, rate: Rate) -> Option<(&'static str, Rate)> {
        let entry = sched::find(self.policy.link.scheduler)?;
        let key = rate_cap(entry.descriptor)?;
        let by_default = self.places().params.rate(key);
        let row = entry.descriptor.parameters.iter().find(|row| row.name == key)?;
        match self.params.excess {
            Excess::Police => Some((key, rate)),
            // Where a class without it may not borrow.
            Excess::BestEffort if row.default == Some("rate") => {
                let above = self.policy.link.tree.class(self.parent).params.rate("rate");
                let most = by_default.or(above)?;
                Some((key, most.max(rate)))
            }
            Excess::BestEffort => by_default.map(|most| (key, most.max(rate))),
        }
    }

    /// Returns whether `delay` is a parameter of the scheduler, which would shape the class.
    fn has_delay(&self) -> bool {
        let entry = sched::find(self.policy.link.scheduler);
        entry.is_some_and(|entry| entry.descriptor.parameters.iter().any(|row| row.name == "delay"))
    }

    /// Returns the limit of the queue in bytes, unless that of the place is enough.
    fn limit(&self, room: u64) -> Option<u64> {
        let room = room.max(self.policy.link.tree.mtu().get());
        match (self.params.excess, self.places().queue.limit()) {
            (Excess::BestEffort, Limit::Bytes(bytes)) => (bytes.get() < room).then_some(room),
            // As many packets as there are bytes at worst.
            (Excess::BestEffort, Limit::Packets(packets)) => {
                let shortest = self.policy.link.framing.wire_length(IP_HEADER + self.params.header);
                (u64::from(packets) * u64::from(shortest.max(1)) < room)
                    .then_some(room.max(u64::from(packets) * self.policy.link.tree.mtu().get()))
            }
            (Excess::Police, _) => Some(room),
        }
    }

    /// Returns the places that reservations take.
    pub(super) fn places(&self) -> &Places {
        let own = self.policy.places.iter().find(|places| places.parent == Some(self.parent));
        own.expect("the class has places")
    }

    /// Returns the parameters of a class of this rate.
    pub(super) fn params_at(&self, rate: Rate) -> Params {
        let mut params = self.places().params.clone();
        params.set("rate", Value::Quantity(Quantity::Rate(rate)));
        if let Some((key, cap)) = self.cap(rate) {
            params.set(key, Value::Quantity(Quantity::Rate(cap)));
        }
        params
    }
}

/// Returns the name of a request's class: always the same for the same session, and of FF for the
/// same sender, so that classes of a life before are known again.
pub fn name(request: &Request) -> String {
    let Session { destination, protocol, port } = request.session;
    let whole = match (request.style, request.filters.as_slice()) {
        (Style::Fixed, [Filter { source, select }]) => {
            let select = match select {
                Select::Port(port) => u32::from(*port),
                Select::FlowLabel(label) => *label,
            };
            format!("{}-{protocol}-{port}-{}-{select}", plain(destination), plain(*source))
        }
        _ => format!("{}-{protocol}-{port}", plain(destination)),
    };
    let name = format!("{PREFIX}{whole}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    // Two long addresses: half a hash, which no one finds a second pair for.
    let hash = Sha256::digest(whole.as_bytes());
    let half: [u8; 16] = hash[..16].try_into().expect("the hash has 32 bytes");
    format!("{PREFIX}{protocol}-{port}-{}", short(u128::from_be_bytes(half)))
}

/// Returns an address in letters, digits and `_`.
fn plain(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "_")
}

/// Writes a number in base 36, at most 25 digits.
fn short(mut number: u128) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).expect("below 36"));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Returns whether rules can tell the senders of a request from others.
pub(super) fn is_matched(request: &Request) -> bool {
    request.filters.iter().all(|filter| matches!(filter.select, Select::Port(_)))
}

/// Returns the rules: one for each sender, or one for all.
fn rules(request: &Request) -> String {
    let Session { destination, protocol, port } = request.session;
    let to = |text: &mut String| {
        write!(text, "dst = \"{destination}\", proto = \"{protocol}\"").expect("a text takes all");
        if port != 0 {
            write!(text, ", dport = \"{port}\"").expect("a text takes all");
        }
    };
    let rule = |filter: Option<&Filter>| {
        let mut text = "{ ".to_owned();
        if let Some(Filter { source, select }) = filter {
            write!(text, "src = \"{source}\", ").expect("a text takes all");
            if let Select::Port(port @ 1..) = select {
                write!(text, "sport = \"{port}\", ").expect("a text takes all");
            }
        }
        to(&mut text);
        text + " }"
    };
    if request.style == Style::Wildcard || request.filters.is_empty() {
        return rule(None);
    }
    request.filters.iter().map(|filter| rule(Some(filter))).collect::<Vec<_>>().join(", ")
}

/// The longest name of a class.
const NAME_BYTES_MAX: usize = 64;
/// The names of all classes of reservations begin with it.
pub const PREFIX: &str = "rsvp-";
/// [rfc791 §3.1] The shortest packet is a header.
const IP_HEADER: u32 = 20;
/// The payload of an ATM cell.
const CELL: u32 = 48;
