//! Schedulers: who sends next, or not before when. One file an algorithm, one line in the registry.
//!
//! A scheduler decides the order of leaves. It holds no packet and knows no rule: the queue layer
//! holds packets, so droppers, limits and accounts exist once.

mod id_set;
mod leaf_ring;
pub mod tree;
mod wait_queue;

pub use tree::{ClassSpec, DEPTH_MAX, Tree, TreeError};

use crate::ids::LeafId;
use crate::link::{AnyLink, Link, LinkPlan};
use crate::parameter::{BuildError, Parameter};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// The packet that waits first in a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// When the link was offered the packet.
    pub arrived: Instant,
}

/// The one answer of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// This leaf may send its first packet now.
    Leaf(LeafId),
    /// Nobody may send before this instant, which is later than now, unless something arrives.
    At(Instant),
    /// Nothing waits.
    Idle,
}

/// Decides the order of leaves. Time never goes back from one call to the next.
///
/// After `select` has named a leaf the caller either lets it send and calls `charge`, or reports a
/// changed head; a second `select` at the same instant gives the same answer.
pub trait Scheduler {
    /// `leaf` accepted a packet; `head` is now its first packet, the new one if it was empty.
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head);

    /// Who may send now, or when to ask again.
    fn select(&mut self, now: Instant) -> Selection;

    /// `leaf`, just selected, sent a packet charged `sent`; `next` waits there now.
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>);

    /// The first packet of `leaf` changed without being sent: head drop, purge.
    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>);

    /// `leaf` was offered a packet, accepted or not. Comes before `enqueued`.
    fn offered(&mut self, _now: Instant, _leaf: LeafId) {}

    /// The packet of `leaf` charged `length` has left the wire.
    fn completed(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {}

    /// A boundary of the emulated clock tick has come.
    fn tick(&mut self, _now: Instant) {}
}

/// How the cost of a packet grows with the number of leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Not at all.
    Constant,
    /// With the logarithm.
    Logarithmic,
}

/// What a scheduler promises; the laws hold it to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// Some leaf may send whenever one waits.
    pub work_conserving: bool,
    /// Classes may have children.
    pub hierarchical: bool,
    /// How the cost of a packet grows with the number of leaves.
    pub cost: Cost,
}

/// What the registry knows of a scheduler without building one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
    /// What it promises.
    pub promises: Promises,
}

/// A scheduler that can be registered.
pub trait Discipline: Scheduler + Sized + Send + 'static {
    /// What the registry knows of it.
    const DESCRIPTOR: Descriptor;

    /// Builds it for a tree whose parameters are those of the descriptor.
    ///
    /// # Errors
    /// When values contradict each other or the tree; the message names value, limit and cure.
    fn build(tree: &Tree) -> Result<Self, BuildError>;
}

/// A line of the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What the scheduler says of itself.
    pub descriptor: &'static Descriptor,
    /// Builds the scheduler alone.
    pub build: fn(&Tree) -> Result<Box<dyn Scheduler + Send>, BuildError>,
    /// Builds a whole link around the scheduler, so that hot calls are monomorphic.
    pub link: fn(&LinkPlan) -> Result<Box<dyn AnyLink>, BuildError>,
}

const fn entry<S: Discipline>() -> Entry {
    Entry {
        descriptor: &S::DESCRIPTOR,
        build: |tree| Ok(Box::new(S::build(tree)?)),
        link: |plan| Ok(Box::new(Link::new(plan, S::build(&plan.tree)?)?)),
    }
}

/// The entry with this keyword.
pub fn find(keyword: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().find(|entry| entry.descriptor.keyword == keyword)
}

macro_rules! schedulers {
    ($($module:ident::$name:ident,)*) => {
        $(pub mod $module;)*

        /// Every scheduler.
        pub const SCHEDULERS: &[Entry] = &[$(entry::<$module::$name>(),)*];
    };
}

schedulers! {
    fifo::Fifo,
    priq::Priq,
    htb::Htb,
    drr::Drr,
    cbq::Cbq,
}
