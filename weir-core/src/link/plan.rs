//! The plan of a link: its classes, the queue of each leaf, and which lengths count.

use super::{AnyLink, Framing, Link};
use crate::ids::{LeafId, MeterId};
use crate::packet::Packet;
use crate::parameter::BuildError;
use crate::police::MeterPlan;
use crate::queue::QueuePlan;
use crate::sched::{self, Discipline};
use crate::state::PlanHasher;
use crate::tree::Tree;
use crate::units::Bytes;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The length that schedulers charge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Charge {
    /// The length on the wire.
    #[default]
    Wire,
    /// The length of the frame.
    Frame,
}

impl Charge {
    /// Returns the bytes charged for a frame of `length` bytes, at least 1.
    #[inline(always)]
    pub const fn of(self, framing: Framing, length: u32) -> u32 {
        match self {
            Self::Wire => framing.wire_length(length),
            Self::Frame if length == 0 => 1,
            Self::Frame => length,
        }
    }
}

/// Everything that a link is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkPlan {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The classes, and the rate of the line.
    pub tree: Tree,
    /// The queue of each leaf, in the order of leaves.
    pub queues: Vec<QueuePlan>,
    /// How the length on the wire follows from the length of a frame.
    pub framing: Framing,
    /// The length that schedulers charge.
    pub charge: Charge,
    /// Bytes that may be handed out before the line has sent earlier ones: the buffer of a driver.
    /// With 0 the next packet is chosen when the line falls idle.
    pub buffer: Bytes,
    /// The most packets that wait in all leaves together.
    pub packets_max: u32,
    /// The meters that police packets before their queue.
    pub meters: Vec<MeterPlan>,
    /// The meter of each leaf, if it has one; leaves beyond the end have none.
    pub leaf_meters: Vec<Option<MeterId>>,
    /// Seeds the random numbers of droppers and hashes.
    pub seed: u64,
    /// Whether the rate of the link follows the rate at which packets arrive, from that of the
    /// plan on: for a link behind the bottleneck.
    pub follows_arrivals: bool,
}

impl LinkPlan {
    /// A plan with the defaults: frame lengths, no buffer, 100 packets a leaf.
    pub fn new(scheduler: &'static str, tree: Tree) -> Self {
        let queues = alloc::vec![QueuePlan::default(); tree.leaf_count()];
        Self {
            scheduler,
            tree,
            queues,
            framing: Framing::FRAME,
            charge: Charge::Wire,
            buffer: Bytes::ZERO,
            packets_max: PACKETS_MAX_DEFAULT,
            meters: Vec::new(),
            leaf_meters: Vec::new(),
            seed: 0,
            follows_arrivals: false,
        }
    }

    /// Returns the bytes that the link charges for a frame of `length` bytes, at least 1.
    pub const fn charged(&self, length: u32) -> u32 {
        self.charge.of(self.framing, length)
    }

    /// Returns the bytes that the link charges for a packet, at least 1.
    pub const fn charged_for(&self, packet: &Packet) -> u32 {
        match self.charge {
            Charge::Wire => self.framing.wire_length_of(packet),
            Charge::Frame => self.charge.of(self.framing, packet.length),
        }
    }

    /// Returns a number that another plan has too only by an accident of one in 2^64: checkpoints
    /// bear it. Each leaf adds to it, so it follows a graft without the other leaves.
    pub fn fingerprint(&self) -> u64 {
        let Self {
            scheduler,
            tree,
            queues: _,
            framing,
            charge,
            buffer,
            packets_max,
            meters,
            leaf_meters,
            seed,
            follows_arrivals,
        } = self;
        let parents: Vec<_> = tree.classes().filter(|row| tree.leaf_of(row.0).is_none()).collect();
        let link = (tree.rate(), tree.mtu(), tree.params(), parents);
        let rest = (framing, charge, buffer, packets_max, meters, leaf_meters, seed);
        let leaves = tree.leaves().map(|(leaf, _)| self.leaf_fingerprint(leaf));
        let whole = PlanHasher::of(&(scheduler, link, rest));
        // Checkpoints of plans without it are as old as the key.
        let whole = whole.wrapping_add(u64::from(*follows_arrivals));
        leaves.fold(whole, u64::wrapping_add)
    }

    /// Returns what a leaf adds to the fingerprint, so that it can be replaced without the others.
    pub(super) fn leaf_fingerprint(&self, leaf: LeafId) -> u64 {
        let class = self.tree.class_of(leaf);
        PlanHasher::of(&(leaf, class, self.tree.class(class), &self.queues[leaf.index()]))
    }
}

/// Builds a link around each scheduler of the registry, so that hot calls are monomorphic.
macro_rules! link_builders {
    ($($module:ident::$name:ident,)*) => {
        impl LinkPlan {
            /// Builds the link.
            ///
            /// # Errors
            /// When the scheduler is not registered, or it or a dropper refuses the plan.
            pub fn build(&self) -> Result<Box<dyn AnyLink>, BuildError> {
                $(if self.scheduler == sched::$module::$name::DESCRIPTOR.keyword {
                    let scheduler = sched::$module::$name::build(&self.tree)?;
                    return Ok(Box::new(Link::new(self, scheduler)?));
                })*
                let message = alloc::format!("no scheduler is called `{}`", self.scheduler);
                Err(BuildError::in_link("scheduler", message))
            }
        }
    };
}

sched::each_scheduler!(link_builders);

/// Bound: packets that wait in a link without `packets_max`; a further one is dropped. 2 MiB of
/// entries.
pub const PACKETS_MAX_DEFAULT: u32 = 1 << 16;
