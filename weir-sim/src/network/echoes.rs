//! Echoes of reflectors behind a modem, as those of a running link: asked where nothing that
//! passes tells how long packets wait there.
//!
//! An echo is a packet of the node in front of the modem. It waits in the link by its class, passes
//! the modem, and a while later its answer comes back through the line's other way. As on a running
//! link it is timed where it leaves and where the answer arrives. Invariant: the lanes of echoes
//! follow those of the sources, one there and one back.

use super::lanes::Lane;
use super::parcel::Parcel;
use super::plan::{Network, OutletId};
use crate::scenario::{Sizes, Source, Spacing, Traffic};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_autorate::{Autorate, Echo};
use weir_core::ids::Handle;
use weir_core::packet::{Addresses, Headers, IcmpType, Ports, Protocol, Transport};
use weir_core::units::{Duration, Instant, Rate};

/// The reflectors behind an outlet.
pub(crate) struct Echoes {
    /// The outlet by which they are asked.
    pub outlet: OutletId,
    /// How long each takes to answer.
    takes: Vec<Duration>,
    /// The place of the lane there, before that of the way back.
    lane: u32,
    /// The place of their source, behind those of the scenario and of messages.
    source: u32,
    /// The echoes that wait in the outlet, with their numbers.
    waiting: BTreeMap<Handle, u16>,
    /// Echoes that were sent.
    pub sent: u64,
}

impl Echoes {
    /// Those behind this outlet, if it has any; adds their lanes to those of `sources` sources.
    pub fn new(
        network: &Network,
        outlet: OutletId,
        sources: usize,
        lanes: &mut Vec<Lane>,
    ) -> Option<Self> {
        let (link, end) = network.outlet(outlet);
        let takes = link.outlets[end].reflectors.clone();
        if takes.is_empty() {
            return None;
        }
        let lane = lanes.len() as u32;
        let back = OutletId(outlet.0 ^ 1);
        for (way, number) in [(outlet, REQUEST), (back, REPLY)] {
            lanes.push(Lane::of_messages(network, &[way], headers(number), 0));
        }
        let (waiting, source) = (BTreeMap::new(), sources as u32 + 1);
        Some(Self { outlet, takes, lane, source, waiting, sent: 0 })
    }

    /// Returns how many reflectors there are.
    pub fn count(&self) -> usize {
        self.takes.len()
    }

    /// A packet is offered to the outlet `id`.
    pub fn arrived(&mut self, id: OutletId, handle: Handle, parcel: &Parcel) {
        if parcel.lane == self.lane && id == self.outlet {
            self.waiting.insert(handle, parcel.connection as u16);
        }
    }

    /// A packet left an outlet when the clock showed `at`.
    pub fn left(&mut self, at: Instant, handle: Handle, control: &mut Autorate) {
        if let Some(number) = self.waiting.remove(&handle) {
            control.echo_left(at, number);
        }
    }

    /// A packet is no more.
    pub fn forget(&mut self, handle: Handle) {
        self.waiting.remove(&handle);
    }

    /// Returns the packet of an echo.
    pub fn question(&mut self, echo: Echo) -> Parcel {
        self.sent += 1;
        let (source, lane, connection) = (self.source, self.lane, u32::from(echo.number));
        Parcel { source, lane, connection, length: LENGTH, ..Parcel::default() }
    }

    /// Returns whether a packet is an echo or an answer.
    pub fn owns(&self, parcel: &Parcel) -> bool {
        parcel.source == self.source
    }

    /// Returns the answer of the reflector that an echo came to, and how long it takes.
    pub fn answer(&self, parcel: &Parcel) -> (Parcel, Duration) {
        let takes = self.takes[parcel.connection as usize % self.takes.len()];
        (Parcel { lane: self.lane + 1, back: true, hop: 0, ..*parcel }, takes)
    }
}

/// Returns what stands for the source of echoes, which no source of a scenario sends.
pub(crate) fn source() -> Source {
    let traffic = Traffic::Poisson { sizes: Sizes::NONE, spacing: Spacing::rate(Rate::MIN) };
    Source::new("echo", Headers::UNKNOWN, traffic)
}

fn headers(number: u8) -> Headers {
    let [own, reflector] = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last));
    let (source, destination) = if number == REQUEST { (own, reflector) } else { (reflector, own) };
    let none = Ports { source: 0, destination: 0 };
    let headers = Headers::of_flow(Addresses::V4 { source, destination }, Protocol::ICMP, none);
    let transport = Transport::Icmp(IcmpType { number, code: 0 });
    Headers { ports: None, transport, traffic_class: Some(0), ..headers }
}

/// RFC 792: the messages that ask and answer.
const REQUEST: u8 = 8;
const REPLY: u8 = 0;
/// The frame of an echo with 56 bytes, as `ping` sends it and a running link does.
const LENGTH: u32 = 14 + 20 + 8 + 56;
