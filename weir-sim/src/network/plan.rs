//! The plan of a network: nodes, links between them, and the drivers between scheduler and wire.
//!
//! A link has two outlets, one at each end: queueing, a driver, the wire to the other end. One of
//! them, the main one, queues by the scenario's own policy; others have theirs, or a plain queue.

pub use weir_trace::driver::model::{Complete, Driver};

use super::control::Control;
use super::disturbance::Disturbance;
use super::signalling::plan::Signalling;
use crate::behind::Behind;
use weir_core::classify::Classifier;
use weir_core::link::LinkPlan;
use weir_core::units::{Duration, Share};

/// Nodes, and links between them.
#[derive(Clone, Debug)]
pub struct Network {
    /// The hosts and routers.
    pub nodes: Vec<Node>,
    /// The links, at most one between any two nodes.
    pub links: Vec<NetworkLink>,
    /// The outlet that queues by the scenario's own policy.
    pub main: OutletId,
    /// The outlets that a policy was written for, in order; others have a plain queue.
    pub policies: Vec<OutletId>,
    /// Where the sequence of packets is taken down.
    pub taps: Vec<TapPlan>,
    /// How nodes reserve for flows, if they do.
    pub signalling: Option<Box<Signalling>>,
    /// Disturbances of what controllers of rates see.
    pub disturbance: Disturbance,
}

/// A node by its place among the nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// One end of a link: 2 n leads from the first end of link n to the second, 2 n + 1 back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OutletId(pub u32);

/// Between which hosts a source's packets travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
}

/// A host or a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The name in reports.
    pub name: String,
    /// The node forwards packets of others.
    pub router: bool,
    /// The time that forwarding takes; none without it.
    pub cpu: Option<Cpu>,
}

/// The time that a router's processor spends on packets `[algorithms §13.5]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// On each packet that comes in, before all other work.
    pub receive: Duration,
    /// On each packet that goes out.
    pub base: Duration,
    /// On each byte of the IP packet.
    pub per_byte: Duration,
    /// On each ATM cell of it.
    pub per_cell: Duration,
    /// On each class of the outlet.
    pub per_class: Duration,
    /// How many packets wait to be forwarded at most: the IP input queue.
    pub queue: u32,
}

/// A link: both of its directions.
#[derive(Clone, Debug)]
pub struct NetworkLink {
    /// The name in reports.
    pub name: String,
    /// The nodes that it joins.
    pub ends: [NodeId; 2],
    /// The largest IP packet that it carries; larger ones are cut.
    pub mtu: u32,
    /// From the first end to the second, and back.
    pub outlets: [OutletPlan; 2],
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct OutletPlan {
    /// How packets queue for it; without it, as the scenario's own policy says.
    pub queueing: Option<Box<Queueing>>,
    /// The names of the links that rules know as interfaces, in the order of their numbers.
    pub interfaces: Vec<String>,
    /// A bottleneck at the end of the wire.
    pub behind: Option<Box<Behind>>,
    /// How its rate varies; without it, the rate is that of its plan.
    pub control: Option<Box<Control>>,
    /// How long each host takes to answer that a controller of its rate may ask: from the other end
    /// of the link and back there.
    pub reflectors: Vec<Duration>,
    /// From the last bit on the wire, or from the bottleneck, to its arrival.
    pub delay: Duration,
    /// The part of the packets that is lost on the way, each by chance.
    pub loss: Share,
    /// Each packet travels longer by a random time up to this, and may overtake others.
    pub jitter: Duration,
    /// The driver between the scheduler and the wire.
    pub driver: Driver,
    /// The period of the kernel's clock: a wait that the scheduler names ends with the first tick
    /// that is not before its end. Without a period, it ends exactly.
    pub tick: Option<Duration>,
}

/// A policy of an outlet.
#[derive(Clone, Debug)]
pub struct Queueing {
    /// Scheduler, queues, rate and framing.
    pub link: LinkPlan,
    /// Which leaf a packet goes to.
    pub classifier: Classifier,
}

/// Where the sequence of packets is taken down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapPlan {
    /// The outlet whose packets are recorded.
    pub outlet: OutletId,
    /// The place behind which packets are recorded.
    pub point: Point,
    /// How many packets at most, at most [`TAP_ROWS_MAX`]; those after the warm-up, the first ones.
    pub rows: u32,
}

/// A point on a packet's way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// When the scheduler has handed it out.
    Discipline,
    /// When it leaves the list in software for the card; without such a list, at once.
    Software,
    /// When its last bit is on the wire.
    Wire,
}

impl Network {
    /// The link of an outlet, and which of its two it is.
    pub fn outlet(&self, id: OutletId) -> (&NetworkLink, usize) {
        (&self.links[id.0 as usize / 2], id.0 as usize % 2)
    }

    /// The names of an outlet's link and of the node that it leads away from.
    pub fn outlet_names(&self, id: OutletId) -> (&str, &str) {
        let (link, end) = self.outlet(id);
        (&link.name, &self.nodes[link.ends[end].0 as usize].name)
    }

    /// The outlet of the link called `link` that leads away from the node called `from`.
    pub fn find_outlet(&self, link: &str, from: &str) -> Option<OutletId> {
        let place = self.links.iter().position(|row| row.name == link)?;
        let ends = self.links[place].ends;
        let end = ends.iter().position(|end| self.nodes[end.0 as usize].name == from)?;
        Some(OutletId((2 * place + end) as u32))
    }

    /// The node called `name`.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        let place = self.nodes.iter().position(|node| node.name == name)?;
        Some(NodeId(place as u32))
    }
}

impl OutletId {
    /// Its place among all outlets.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Cpu {
    /// Forwarding costs nothing, and 50 packets wait for it at most.
    pub const FREE: Cpu = Cpu {
        receive: Duration::ZERO,
        base: Duration::ZERO,
        per_byte: Duration::ZERO,
        per_cell: Duration::ZERO,
        per_class: Duration::ZERO,
        queue: INPUT_QUEUE_DEFAULT,
    };

    /// Returns the time for an IP packet of `length` that goes to an outlet with `classes` classes.
    pub(crate) fn forwarding(&self, length: u32, classes: usize) -> Duration {
        // [algorithms §13.1] Trailer and LLC/SNAP are 8 bytes each, a cell carries 48.
        let cells = length.saturating_add(16).div_ceil(48);
        let times = |cost: Duration, count: u64| cost.as_nanos().saturating_mul(count);
        let parts = [
            self.base.as_nanos(),
            times(self.per_byte, length.into()),
            times(self.per_cell, cells.into()),
            times(self.per_class, classes as u64),
        ];
        Duration::from_nanos(parts.into_iter().fold(0, u64::saturating_add))
    }
}

impl Point {
    /// The word in scenarios and reports.
    pub const fn keyword(self) -> &'static str {
        match self {
            Point::Discipline => "discipline",
            Point::Software => "software",
            Point::Wire => "wire",
        }
    }
}

/// Bound: nodes of a network; a scenario with more is refused.
pub const NODES_MAX: usize = 1000;
/// Bound: links of a network; a scenario with more is refused.
pub const LINKS_MAX: usize = 4000;
/// Bound: taps of a network; a scenario with more is refused.
pub const TAPS_MAX: usize = 100;
/// Bound: packets that all taps of a scenario record together; a scenario with more is refused.
pub const TAP_ROWS_MAX: u32 = 1 << 22;
/// The number of packets that a tap records by default.
pub const TAP_ROWS_DEFAULT: u32 = 100_000;
/// `[algorithms §13.4]` The IP input queue of BSD.
pub const INPUT_QUEUE_DEFAULT: u32 = 50;
