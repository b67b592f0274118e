//! Leaf queues and droppers, which decide which packets are admitted and which are dropped. One
//! file a dropper, one line in the registry. Any leaf may have any dropper.

mod average;
mod droppers;
mod drops;
mod entry;
mod flows;
mod hosts;
mod lateness;
mod paced;
mod pair;
mod red_linux;
mod ring;
mod shared;
mod store;
mod tins;
#[cfg(test)]
mod trial;

pub use entry::{Entry as QueueEntry, Label};
pub use flows::{FlowQueues, Surplus};
pub use hosts::{HostAccount, HostAccounts};
pub use shared::Membership;
pub use store::Queues;

use entry::Entry;

use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Parameter, Params, Scope};
use crate::state::{Reader, State, StateError, Writer};
use crate::units::{Bytes, Instant, Quantity, Rate};

/// The most that a leaf may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// At most this many packets.
    Packets(u32),
    /// At most this many charged bytes.
    Bytes(Bytes),
}

/// A limit in eight bytes, with the unit in the lowest bit; a link may have a million idle leaves,
/// each with a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedLimit(u64);

/// A packet, as a dropper sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// The instant at which the packet was offered to the link.
    pub arrived: Instant,
    /// DSCP and ECN, as the packet arrived or as a policer marked it.
    pub traffic_class: u8,
    /// The hash of its flow, or where hosts have flows its number; 0 if the flow is unknown.
    pub flow: u16,
}

/// A dropper's decision on an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It joins the queue.
    Accept,
    /// It is queued, marked as having met congestion. Only for packets that can be marked.
    Mark,
    /// It is dropped, for this reason.
    Refuse(DropReason),
    /// The waiting packet at this position, 0 for the first, is dropped; then the dropper is called
    /// again, and must not refuse.
    Evict(u32, DropReason),
    /// If the waiting packet at this position, 0 for the first, is of the same flow, both are
    /// dropped, for this reason; else [`Dropper::admit_unlike`] decides.
    Compare(u32, DropReason),
}

/// A dropper's decision on the first packet of its leaf, whose turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// It is sent.
    Send,
    /// It leaves marked. Only for packets that can be marked.
    Mark,
    /// It is dropped, and the scheduler selects anew.
    Drop(DropReason),
}

/// A number that a dropper's decisions rest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The name of the number, with its unit if it has one, as in "average in bytes".
    pub what: &'static str,
    /// Its value in thousandths.
    pub thousandths: u64,
}

/// Decides about admission to one leaf. `backlog` is what waits there: without the arriving packet,
/// but with the departing one.
pub trait Dropper {
    /// Decides about an arriving packet.
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission;

    /// Decides about an arriving packet that was compared with one of another flow.
    fn admit_unlike(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    /// Decides about the first packet when its turn has come.
    #[inline]
    fn release(&mut self, _now: Instant, _first: Candidate, _backlog: Count) -> Release {
        Release::Send
    }

    /// Notifies the dropper that the last packet left: the leaf is idle from `now` on.
    #[inline]
    fn emptied(&mut self, _now: Instant) {}

    /// Returns a backlog up to which, with the arriving packet, it accepts and releases everything,
    /// so that the queue need not call it. With `None` the queue calls it for every packet.
    fn admits_all_below(&self) -> Option<Limit> {
        None
    }

    /// Returns the number that its decisions rest on, for people; `None` if it decides by the
    /// backlog alone.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// Returns whether it has no state, so that one dropper can serve all leaves with equal plans.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// Returns whether its state stays right when the rate of the link changes.
    fn outlives_rate(&self) -> bool {
        false
    }

    /// Returns the limit that its leaf shares with others, if it does: then a packet may be dropped
    /// from any of them after `admit` accepted one. Such a dropper must return `None` from
    /// `admits_all_below`.
    fn membership(&self) -> Option<Membership> {
        None
    }

    /// Returns whether its leaf may hold packets of which none may leave yet.
    fn paces(&self) -> bool {
        false
    }

    /// Returns the flow queues of its leaf, if it separates flows: these determine which packet is
    /// first and which are dropped when the limit is exceeded. Such a dropper must return `None`
    /// from `admits_all_below`.
    fn flows(&self) -> Option<&FlowQueues> {
        None
    }

    /// Returns [`Dropper::flows`] for mutation.
    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        None
    }
}

/// A leaf and its link, as a dropper sees them when it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The leaf whose dropper is built.
    pub leaf: LeafId,
    /// The rate of the link.
    pub rate: Rate,
    /// The MTU in charged bytes.
    pub mtu: Bytes,
    /// The seed of the link; random draws depend on it and the number of the leaf.
    pub seed: u64,
}

/// The registry's entry for a dropper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropperDescriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence for lists and the reference.
    pub summary: &'static str,
    /// Its parameters, in the `queue` table of a leaf.
    pub parameters: &'static [Parameter],
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
}

/// A dropper that can be registered.
pub trait DropperDiscipline: Dropper + State + Sized {
    /// Its entry in the registry.
    const DESCRIPTOR: DropperDescriptor;

    /// Builds it.
    ///
    /// # Errors
    /// When values contradict each other; the message names value, limit and cure.
    fn build(params: &Params, place: Place) -> Result<Self, BuildError>;
}

/// The queue of one leaf, as planned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueuePlan {
    /// The keyword of the dropper.
    pub dropper: &'static str,
    /// The dropper's parameters, by keyword.
    pub params: Params,
}

impl Limit {
    /// Returns the parameter `limit`, or the default in `descriptor`.
    pub fn from_params(params: &Params, descriptor: &DropperDescriptor) -> Limit {
        let default = || descriptor.parameters.iter().find(|row| row.name == LIMIT)?.default;
        let written = params.quantity(LIMIT);
        match written.or_else(|| default()?.parse().ok()) {
            Some(Quantity::Packets(packets)) => Limit::Packets(packets),
            Some(Quantity::Bytes(bytes)) => Limit::Bytes(bytes),
            _ => Limit::Packets(u32::MAX),
        }
    }

    /// Returns whether a packet charged `arriving` fits beside `backlog`.
    pub fn fits(self, arriving: Bytes, backlog: Count) -> bool {
        match self {
            Limit::Packets(packets) => backlog.packets < u64::from(packets),
            Limit::Bytes(bytes) => Bytes::new(backlog.bytes).plus(arriving) <= bytes,
        }
    }
}

impl QueuePlan {
    /// Returns whether its limit is one that leaves share.
    pub fn shares_limit(&self) -> bool {
        self.example().is_some_and(|dropper| dropper.membership().is_some())
    }

    /// Returns whether the leaf may hold packets of which none may leave yet.
    pub fn paces(&self) -> bool {
        !self.params.is_empty() && self.example().is_some_and(|dropper| dropper.paces())
    }

    /// Returns how many flows, and hosts, its tables hold at most; they grow as these come.
    pub fn places_of_flows(&self) -> (u32, u32) {
        let dropper = self.example();
        dropper.as_ref().and_then(Dropper::flows).map_or((0, 0), FlowQueues::places)
    }

    /// Builds the dropper for some leaf: what is asked of it does not depend on its place.
    fn example(&self) -> Option<AnyDropper> {
        let (leaf, rate, mtu) = (LeafId(0), Rate::MIN, Bytes::new(1_500));
        AnyDropper::build(self, Place { leaf, rate, mtu, seed: 0 }).ok()
    }

    /// Returns the most that the leaf may hold.
    pub fn limit(&self) -> Limit {
        let descriptor = DROPPERS.iter().find(|row| row.keyword == self.dropper);
        Limit::from_params(&self.params, descriptor.unwrap_or(&DROPPERS[0]))
    }

    /// Returns whether the dropper looks into the segments of the packets that wait:
    /// [`AnyLink::reads_segments`](crate::link::AnyLink::reads_segments).
    pub fn reads_segments(&self) -> bool {
        let reads = |dropper: &AnyDropper| dropper.flows().is_some_and(FlowQueues::reads_segments);
        self.example().as_ref().is_some_and(reads)
    }

    /// Returns what the dropper takes for a flow; rules pass it to the port with each packet.
    pub fn flow_key(&self) -> FlowKey {
        let written = self.params.choice(HASH).or(self.params.choice(SHORT_KEY));
        let descriptor = DROPPERS.iter().find(|row| row.keyword == self.dropper);
        let default = || descriptor?.parameters.iter().find(|row| row.name == HASH)?.default;
        written.or_else(default).map(FlowKey::of_word).unwrap_or_default()
    }
}

impl PackedLimit {
    /// Packs `limit`; more than 2^63 bytes count as 2^63.
    pub(crate) const fn new(limit: Limit) -> Self {
        match limit {
            Limit::Packets(packets) => Self((packets as u64) << 1),
            Limit::Bytes(bytes) => {
                let most = u64::MAX >> 1;
                let bytes = bytes.get();
                Self((if bytes < most { bytes } else { most }) << 1 | 1)
            }
        }
    }

    pub(crate) const fn limit(self) -> Limit {
        match self.0 & 1 {
            0 => Limit::Packets((self.0 >> 1) as u32),
            _ => Limit::Bytes(Bytes::new(self.0 >> 1)),
        }
    }
}

impl Candidate {
    /// Returns whether the packet can be marked instead of dropped: its sender understands ECN.
    pub const fn is_markable(&self) -> bool {
        self.traffic_class & ECN_MASK != 0
    }
}

impl Default for QueuePlan {
    fn default() -> Self {
        Self { dropper: DROPPERS[0].keyword, params: Params::new() }
    }
}

macro_rules! droppers {
    ($($module:ident::$name:ident,)*) => {
        $(pub mod $module;)*

        /// A dropper of any kind: dispatch is a jump, not a pointer to code.
        pub enum AnyDropper {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $name($module::$name),)*
        }

        /// The descriptors of all droppers; the first is the default.
        pub const DROPPERS: &[DropperDescriptor] =
            &[$(<$module::$name as DropperDiscipline>::DESCRIPTOR,)*];

        impl AnyDropper {
            /// Builds the dropper of a plan.
            ///
            /// # Errors
            /// When the keyword is not registered or the dropper refuses its parameters.
            pub fn build(plan: &QueuePlan, place: Place) -> Result<Self, BuildError> {
                $(if plan.dropper == <$module::$name as DropperDiscipline>::DESCRIPTOR.keyword {
                    return Ok(AnyDropper::$name($module::$name::build(&plan.params, place)?));
                })*
                Err(unknown_dropper(plan.dropper))
            }
        }

        impl State for AnyDropper {
            fn save(&self, to: &mut Writer) {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.save(to),)*
                }
            }

            fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.load(from),)*
                }
            }
        }

        impl Dropper for AnyDropper {
            #[inline]
            fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.admit(now, arriving, backlog),)*
                }
            }

            fn admit_unlike(
                &mut self,
                now: Instant,
                arriving: Candidate,
                backlog: Count,
            ) -> Admission {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.admit_unlike(now, arriving, backlog),)*
                }
            }

            #[inline]
            fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.release(now, first, backlog),)*
                }
            }

            #[inline]
            fn emptied(&mut self, now: Instant) {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.emptied(now),)*
                }
            }

            fn admits_all_below(&self) -> Option<Limit> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.admits_all_below(),)*
                }
            }

            fn reading(&self) -> Option<Reading> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.reading(),)*
                }
            }

            fn keeps_nothing(&self) -> bool {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.keeps_nothing(),)*
                }
            }

            fn outlives_rate(&self) -> bool {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.outlives_rate(),)*
                }
            }

            fn membership(&self) -> Option<Membership> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.membership(),)*
                }
            }

            fn paces(&self) -> bool {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.paces(),)*
                }
            }

            #[inline]
            fn flows(&self) -> Option<&FlowQueues> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.flows(),)*
                }
            }

            #[inline]
            fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.flows_mut(),)*
                }
            }
        }
    };
}

droppers! {
    tail::Tail,
    head::Head,
    longest::Longest,
    red_altq::RedAltq,
    red::Red,
    rio::Rio,
    blue::Blue,
    codel::CoDel,
    pie::Pie,
    fq_codel::FqCodel,
    sfq::Sfq,
    isolate::Isolate,
    choke::Choke,
    fq_pie::FqPie,
    sfb::Sfb,
    dualpi2::DualPi2,
    cake::Cake,
    gred::Gred,
    fq::Fq,
}

// Each leaf has one, and a link may have a million leaves: box larger state.
const _: () = assert!(size_of::<AnyDropper>() <= 16);

fn unknown_dropper(keyword: &str) -> BuildError {
    let mut message = alloc::format!("no dropper is called `{keyword}`; there are");
    for descriptor in DROPPERS {
        message.push_str(" `");
        message.push_str(descriptor.keyword);
        message.push('`');
    }
    BuildError::in_link("dropper", message)
}

/// The ECN bits of a traffic class; both set mean that congestion was experienced `[rfc3168]`.
pub const ECN_MASK: u8 = 0b11;

/// The parameter of a dropper that a class may write itself, without a table for its queue: then
/// its queue has the dropper with this parameter.
pub const SHORT_KEY: &str = "isolate";

/// The parameter of a dropper that says what a flow is.
const HASH: &str = "hash";
/// The name of the row that [`limit`] makes.
const LIMIT: &str = "limit";

/// The parameter row of every dropper with a limit.
const fn limit(default: &'static str) -> Parameter {
    Parameter {
        name: LIMIT,
        scope: Scope::Queue,
        kind: Kind::Limit,
        default: Some(default),
        summary: "The most that the leaf holds, in packets or bytes.",
    }
}

/// Makes a further row of a dropper's table.
const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, scope: Scope::Queue, kind, default: Some(default), summary }
}

/// The parameter row of droppers that can mark.
const ECN: Parameter = row(
    "ecn",
    Kind::Flag,
    "false",
    "Whether packets of senders that understand ECN are marked instead of dropped early.",
);

/// Returns the number of packets that wait, capped to 32 bits.
const fn packets(backlog: Count) -> u32 {
    if backlog.packets < u32::MAX as u64 { backlog.packets as u32 } else { u32::MAX - 1 }
}

/// Refuses a plan in which `name` conflicts with another value.
fn refused<T>(name: &'static str, message: alloc::string::String) -> Result<T, BuildError> {
    Err(BuildError::in_link(name, message))
}
