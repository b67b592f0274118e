//! Leaf queues and droppers: who is admitted, who makes room. One file a dropper, one line in the
//! registry. Any leaf may carry any dropper.

mod average;
mod droppers;
mod drops;
mod entry;
mod flows;
mod lateness;
mod shared;
mod store;
#[cfg(test)]
mod trial;

pub use entry::{Entry as QueueEntry, Label};
pub use flows::{FlowQueues, Surplus};
pub use shared::Membership;
pub use store::Queues;

use entry::Entry;

use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::parameter::{BuildError, Kind, Parameter, Params, Scope};
use crate::units::{Bytes, Instant, Quantity, Rate};

/// How much a leaf may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// At most so many packets.
    Packets(u32),
    /// At most so many charged bytes.
    Bytes(Bytes),
}

/// A limit in eight bytes, with the unit in the lowest bit: of a million idle leaves each carries
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PackedLimit(u64);

/// What a dropper sees of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// When the link was offered it.
    pub arrived: Instant,
    /// DSCP and ECN, as the packet came or as a policer marked it.
    pub traffic_class: u8,
}

/// What a dropper says to an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may wait.
    Accept,
    /// It may wait, marked as having met congestion. Only for packets that can be marked.
    Mark,
    /// It is dropped.
    Refuse(DropReason),
    /// The waiting packet at this position, 0 for the first, is dropped; then the dropper is asked
    /// again, and having made room it does not refuse.
    Evict(u32, DropReason),
}

/// What a dropper says to the first packet of its leaf, whose turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// It leaves.
    Send,
    /// It leaves marked. Only for packets that can be marked.
    Mark,
    /// It is dropped, and the scheduler selects anew.
    Drop(DropReason),
}

/// Decides about admission to one leaf. `backlog` is what waits there: without the arriving packet,
/// but with the departing one.
pub trait Dropper {
    /// What becomes of an arriving packet.
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission;

    /// What becomes of the first packet when its turn has come.
    #[inline]
    fn release(&mut self, _now: Instant, _first: Candidate, _backlog: Count) -> Release {
        Release::Send
    }

    /// The last packet left: the leaf is idle from `now` on.
    #[inline]
    fn emptied(&mut self, _now: Instant) {}

    /// A backlog up to which, with the arriving packet, it accepts and releases everything: then it
    /// is not asked at all. `None` has it asked for every packet.
    fn unasked_below(&self) -> Option<Limit> {
        None
    }

    /// Whether it decides by what it is told alone, so that one can serve all leaves that are
    /// planned alike.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// What it says of the limit that its leaf shares with others, if it does: then a packet may be
    /// dropped from any of them after `admit` accepted one. Such a dropper has to be asked always
    /// (see `unasked_below`).
    fn membership(&self) -> Option<Membership> {
        None
    }

    /// The queues of its leaf's flows, if it keeps flows apart: then they say which packet is first
    /// and what has to go when they hold too much. Such a dropper has to be asked always (see
    /// `unasked_below`).
    fn flows(&self) -> Option<&FlowQueues> {
        None
    }

    /// The same, to be changed.
    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        None
    }
}

/// What a dropper may know of its place when it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The leaf.
    pub leaf: LeafId,
    /// The rate of the link.
    pub rate: Rate,
    /// The charged length of the largest packet.
    pub mtu: Bytes,
    /// The seed of the link: every random draw comes from it and the number of the leaf.
    pub seed: u64,
}

/// What the registry knows of a dropper without building one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropperDescriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its parameters, in the `queue` table of a leaf.
    pub parameters: &'static [Parameter],
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
}

/// A dropper that can be registered.
pub trait DropperDiscipline: Dropper + Sized {
    /// What the registry knows of it.
    const DESCRIPTOR: DropperDescriptor;

    /// Builds it.
    ///
    /// # Errors
    /// When values contradict each other; the message names value, limit and cure.
    fn build(params: &Params, place: Place) -> Result<Self, BuildError>;
}

/// The queue of one leaf, as planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePlan {
    /// The keyword of the dropper.
    pub dropper: &'static str,
    /// The dropper's parameters.
    pub params: Params,
}

impl Limit {
    /// The parameter `limit`, or the default that `descriptor` gives it.
    pub fn from_params(params: &Params, descriptor: &DropperDescriptor) -> Limit {
        let default = || descriptor.parameters.iter().find(|row| row.name == LIMIT)?.default;
        let written = params.quantity(LIMIT);
        match written.or_else(|| default()?.parse().ok()) {
            Some(Quantity::Packets(packets)) => Limit::Packets(packets),
            Some(Quantity::Bytes(bytes)) => Limit::Bytes(bytes),
            _ => Limit::Packets(u32::MAX),
        }
    }

    /// Whether a packet charged `arriving` fits beside `backlog`.
    pub fn fits(self, arriving: Bytes, backlog: Count) -> bool {
        match self {
            Limit::Packets(packets) => backlog.packets < u64::from(packets),
            Limit::Bytes(bytes) => Bytes::new(backlog.bytes).plus(arriving) <= bytes,
        }
    }
}

impl QueuePlan {
    /// How much the leaf may hold.
    pub fn limit(&self) -> Limit {
        let descriptor = DROPPERS.iter().find(|row| row.keyword == self.dropper);
        Limit::from_params(&self.params, descriptor.unwrap_or(&DROPPERS[0]))
    }
}

impl PackedLimit {
    /// Packs `limit`; more than 2^63 bytes count as so many.
    const fn new(limit: Limit) -> Self {
        match limit {
            Limit::Packets(packets) => Self((packets as u64) << 1),
            Limit::Bytes(bytes) => {
                let most = u64::MAX >> 1;
                let bytes = bytes.get();
                Self((if bytes < most { bytes } else { most }) << 1 | 1)
            }
        }
    }

    const fn limit(self) -> Limit {
        match self.0 & 1 {
            0 => Limit::Packets((self.0 >> 1) as u32),
            _ => Limit::Bytes(Bytes::new(self.0 >> 1)),
        }
    }
}

impl Candidate {
    /// Whether the packet can be marked instead of dropped: its sender understands ECN.
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

        /// What every dropper says of itself; the first is the default.
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

        impl Dropper for AnyDropper {
            #[inline]
            fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.admit(now, arriving, backlog),)*
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

            fn unasked_below(&self) -> Option<Limit> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.unasked_below(),)*
                }
            }

            fn keeps_nothing(&self) -> bool {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.keeps_nothing(),)*
                }
            }

            fn membership(&self) -> Option<Membership> {
                match self {
                    $(AnyDropper::$name(dropper) => dropper.membership(),)*
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
}

// Each leaf carries one, and a link may have a million: larger state belongs into a box.
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

/// The bits of a traffic class that say whether congestion can be and was signalled; all set, it
/// was `[rfc3168]`.
pub const ECN_MASK: u8 = 0b11;

/// The name of the row that [`limit`] makes.
const LIMIT: &str = "limit";

/// The row that every dropper with a limit has in its table.
const fn limit(default: &'static str) -> Parameter {
    Parameter {
        name: LIMIT,
        scope: Scope::Queue,
        kind: Kind::Limit,
        default: Some(default),
        summary: "What the leaf holds at most, in packets or bytes.",
    }
}

/// A further row of a dropper's table.
const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, scope: Scope::Queue, kind, default: Some(default), summary }
}

/// The row of droppers that can mark.
const ECN: Parameter = row(
    "ecn",
    Kind::Flag,
    "false",
    "Whether packets of senders that understand ECN are marked instead of dropped early.",
);

/// How many packets wait, as a number that can be drawn below.
const fn packets(backlog: Count) -> u32 {
    if backlog.packets < u32::MAX as u64 { backlog.packets as u32 } else { u32::MAX - 1 }
}

/// Refuses a plan in which `name` does not go with another value.
fn refused<T>(name: &'static str, message: alloc::string::String) -> Result<T, BuildError> {
    Err(BuildError::in_link(name, message))
}
