//! The settings of a node: its interfaces, timers and limits, and where packets go.

use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};

use crate::integrity::Security;
use crate::intserv::Characterization;

/// The settings with which a node starts.
#[derive(Clone, Debug)]
pub struct NodeParams {
    /// Its interfaces; `InterfaceId(0)` is the first.
    pub interfaces: Vec<InterfaceParams>,
    /// Refresh and retransmission timers.
    pub timers: Timers,
    /// The bounds of its tables.
    pub limits: Limits,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The number of this life of the node in message identifiers: another one after each start
    /// [rfc2961 §4.2]. 24 bits of it count.
    pub epoch: u32,
}

/// An interface on which the node speaks RSVP.
#[derive(Clone, Debug)]
pub struct InterfaceParams {
    /// Its addresses: one of each family that it speaks.
    pub addresses: Vec<IpAddr>,
    /// The properties of the interface, for flows that leave by it.
    pub offers: Characterization,
    /// Keys for its messages; without them, messages are neither signed nor checked.
    pub security: Option<Security>,
    /// Whether all its neighbours understand message identifiers and summary refreshes, which are
    /// used then `[rfc2961]`.
    pub reduction: bool,
    /// Where not all are known to: whether identifiers are used with a neighbour that says itself
    /// that it understands them.
    pub learns_reduction: bool,
}

/// Timers of soft state and of retransmission [rfc2205 §3.7].
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// The refresh period R: 30 s.
    pub period: Duration,
    /// How many refreshes in a row may be lost, less one: K = 3.
    pub lost_max: u32,
    /// How long a changed route settles before Path messages follow it: W = 2 s.
    pub settle: Duration,
    /// How many refresh periods blockade state lives: Kb, which Weir sets to 2.
    pub blockade_periods: u32,
    /// The first wait for an acknowledgement, Rf: 500 ms [rfc2961 §6.2].
    pub retransmit: Duration,
    /// How often a message is sent at most until it is acknowledged, Rl: 3 [rfc2961 §6.2].
    pub attempts_max: u32,
    /// Until then a reservation without its sender is passed over, not refused: a node that begins
    /// while its neighbours hold state learns of senders with their next refresh, and a receiver
    /// that is refused gives up.
    pub learns_until: Instant,
}

/// Bounds of a node's tables.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions of the node.
    pub sessions: usize,
    /// Senders of a session.
    pub senders: usize,
    /// Reservations of a session: one a neighbour, with FF one a neighbour and sender.
    pub reservations: usize,
    /// Messages that wait for an acknowledgement.
    pub unacknowledged: usize,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(30),
            lost_max: 3,
            settle: Duration::from_secs(2),
            blockade_periods: 2,
            retransmit: Duration::from_millis(500),
            attempts_max: 3,
            learns_until: Instant::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 65_536, senders: 48, reservations: 256, unacknowledged: 65_536 }
    }
}

impl Timers {
    /// How long state lives without a refresh: L = (K + 0.5) 1.5 R [rfc2205 §3.7].
    pub fn lifetime(&self, period: Duration) -> Duration {
        let halves = u64::from(self.lost_max) * 2 + 1;
        Duration::from_nanos(period.as_nanos().saturating_mul(halves * 3) / 4)
    }

    /// How long blockade state lives.
    pub fn blockade(&self) -> Duration {
        let periods = u64::from(self.blockade_periods);
        Duration::from_nanos(self.period.as_nanos().saturating_mul(periods))
    }
}

impl InterfaceParams {
    /// An interface that offers controlled load, without integrity and summary refreshes.
    pub fn plain(addresses: Vec<IpAddr>, bandwidth: f32, mtu: u32) -> Self {
        let offers = Characterization {
            bandwidth,
            latency: Some(0),
            mtu,
            guaranteed: None,
            controlled_load: true,
        };
        Self { addresses, offers, security: None, reduction: false, learns_reduction: false }
    }
}

/// Where packets for a destination go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Multicast: the only interface on which packets of the source may arrive. None allows all.
    pub incoming: Option<InterfaceId>,
    /// The interfaces by which they leave: one for unicast.
    pub outgoing: Vec<InterfaceId>,
    /// Whether this node is a destination.
    pub local: bool,
}

/// The routing of a node.
pub trait Routes {
    /// Returns where packets to `destination` go; for multicast this depends on the source.
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route;
}

impl<F: Fn(IpAddr, IpAddr) -> Route> Routes for F {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self(destination, source)
    }
}
