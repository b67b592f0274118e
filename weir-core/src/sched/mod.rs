//! Schedulers: which leaf sends next, or when one may. One file an algorithm, one line in the
//! registry.
//!
//! A scheduler decides the order of leaves. It holds no packet and does not classify: the queue
//! layer holds packets, so droppers, limits and accounts exist once.
//!
//! An author implements [`Scheduler`], whose first four methods are required, names and builds it
//! in [`Discipline`], and says in [`Changes::agrees`] what it relies on. The rest of [`Changes`],
//! and all of [`Explains`], may be left out: then a changed plan starts the scheduler anew, and the
//! link does not say why packets wait.

mod changes;
mod explains;
mod loans;
mod proportional_delay;
mod refit;
pub mod service;
#[cfg(test)]
mod twins;

pub use crate::packet::Head;
pub use crate::parameter::RefitError;
pub use crate::tree::{ClassSpec, DEPTH_MAX, Kin, Tree, TreeError};
pub use changes::{Changes, Waiting};
pub use explains::{Explains, Regulation, Why};
pub use loans::Borrowed;
pub use refit::Refit;
pub use service::Service;

use crate::ids::LeafId;
use crate::parameter::{BuildError, Parameter};
use crate::state::State;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// The decision of a scheduler at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// This leaf may send its first packet now.
    Leaf(LeafId),
    /// No leaf may send before this instant, which is later than now, unless a packet arrives.
    At(Instant),
    /// No leaf holds a packet.
    Idle,
}

/// Decides the order of leaves. Time never goes back from one call to the next.
///
/// After `select` has named a leaf the caller either lets it send and calls `charge`, or reports a
/// changed head; a second `select` at the same instant returns the same selection.
pub trait Scheduler {
    /// `leaf`, which was empty, accepted the packet `head`.
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head);

    /// Selects the leaf that may send now, or says when one may.
    fn select(&mut self, now: Instant) -> Selection;

    /// `leaf`, just selected, sent a packet charged `sent`; `next` waits there now.
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>);

    /// One packet that waited in `leaf` was dropped, the first or another; `head` is first now.
    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>);

    /// `leaf`, which was not empty, accepted one more packet, of `length`.
    #[inline]
    fn joined(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {}

    /// Returns the leaf whose first packet it takes out to look at it, after `select` said that it
    /// may not leave yet, as Linux's token bucket does. The dropper of the leaf decides about the
    /// packet at once, and not when it leaves.
    #[inline]
    fn looks_at(&self) -> Option<LeafId> {
        None
    }

    /// `leaf` was offered a packet, accepted or not. Comes before `enqueued` and `joined`.
    #[inline]
    fn offered(&mut self, _now: Instant, _leaf: LeafId) {}

    /// The packet of `leaf` charged `length` has left the wire. Called only for schedulers that set
    /// [`Calls::completions`].
    fn completed(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {}

    /// The line was free and found that no packet waits in any leaf. Called once before the next
    /// packet is offered.
    #[inline]
    fn found_nothing(&mut self) {}

    /// Returns whether the line, since `leaf` is empty, looked for a packet there before it took
    /// one of another leaf, or found none at all. Called only for schedulers that set
    /// [`Calls::polls_empty_leaves`].
    fn asked_in_vain(&self, _leaf: LeafId) -> bool {
        false
    }
}

/// How the cost of a packet grows with the number of leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// It does not depend on the number of leaves.
    Constant,
    /// It grows with the logarithm.
    Logarithmic,
    /// It grows in proportion: for an oracle, not for many leaves.
    Linear,
}

/// Properties that a scheduler promises; the laws check them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// Some leaf may send whenever one waits.
    pub work_conserving: bool,
    /// Classes may have children.
    pub hierarchical: bool,
    /// `At` names the first instant at which a leaf may send. A scheduler that emulates a
    /// kernel's clock tick does not promise it: it names the next tick, and might have sent a
    /// little earlier.
    pub exact_wake: bool,
    /// How the cost of a packet grows with the number of leaves.
    pub cost: Cost,
}

/// The properties of a scheduler that the registry knows without building one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence for lists and the reference.
    pub summary: &'static str,
    /// The parameters that a policy may set.
    pub parameters: &'static [Parameter],
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
    /// The properties that the laws check.
    pub promises: Promises,
}

/// How the link calls a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calls {
    /// Whether the link calls [`Scheduler::completed`] for each packet that has left the wire, and
    /// polls again then.
    pub completions: bool,
    /// Whether the scheduler looks at the first packet of a leaf before it selects the leaf. If
    /// not, flow queues in a leaf choose that packet when the leaf is selected.
    pub peeks: bool,
    /// Whether the line, when it is free, looks for a packet in the leaves also while all are
    /// empty, as Linux does where one queue holds all packets. Otherwise, as below classes, an
    /// empty leaf does not notice that the line is idle.
    pub polls_empty_leaves: bool,
    /// Whether a packet that finds the link empty passes flow queues by: it goes first and costs
    /// its flow nothing, as at the root of Linux, also while the line is busy.
    pub passes_empty_leaves: bool,
    /// Whether a change must tell the scheduler of each packet that waits, by
    /// [`Scheduler::joined`]. If not, that method does nothing, and a queue moves to a new plan as
    /// it is.
    pub per_packet: bool,
    /// Whether it compares the ages of packets, and no rate: then its clock is the link's, also
    /// where the link has another rate than its plan.
    pub compares_ages: bool,
}

impl Calls {
    /// The calls of a scheduler that counts no packets and looks at the first one of each leaf.
    pub const DEFAULT: Calls = Calls {
        completions: false,
        peeks: true,
        polls_empty_leaves: false,
        passes_empty_leaves: false,
        per_packet: false,
        compares_ages: false,
    };
}

/// A scheduler that can be registered.
pub trait Discipline: Scheduler + Explains + Changes + State + Send + 'static {
    /// Its entry in the registry.
    const DESCRIPTOR: Descriptor;

    /// How the link calls it.
    const CALLS: Calls = Calls::DEFAULT;

    /// Builds it for a tree whose parameters are those of the descriptor.
    ///
    /// # Errors
    /// When values contradict each other or the tree; the message names value, limit and cure.
    fn build(tree: &Tree) -> Result<Self, BuildError>;
}

/// A line of the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its keyword, parameters and promises.
    pub descriptor: &'static Descriptor,
    /// Builds the scheduler alone.
    pub build: fn(&Tree) -> Result<Box<dyn Scheduler + Send>, BuildError>,
    /// Returns what it guarantees each leaf of a tree that builds, whatever the others do.
    pub service: fn(&Tree) -> Service,
    /// Whether single leaves can be added, removed and retuned while it runs.
    pub refits: bool,
}

const fn entry<S: Discipline>() -> Entry {
    Entry {
        descriptor: &S::DESCRIPTOR,
        build: |tree| Ok(Box::new(S::build(tree)?)),
        service: S::service,
        refits: S::REFITS,
    }
}

/// The entry with this keyword.
pub fn find(keyword: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().find(|entry| entry.descriptor.keyword == keyword)
}

macro_rules! schedulers {
    ($($module:ident::$name:ident,)*) => {
        $(pub mod $module;)*

        /// The descriptors of all schedulers.
        pub const SCHEDULERS: &[Entry] = &[$(entry::<$module::$name>(),)*];

        /// Calls the macro `each` with the list of schedulers.
        macro_rules! each_scheduler {
            ($each:ident) => { $each! { $($module::$name,)* } };
        }
        pub(crate) use each_scheduler;
    };
}

schedulers! {
    fifo::Fifo,
    priq::Priq,
    htb::Htb,
    htb_265::Htb265,
    tbf::Tbf,
    hpd::Hpd,
    dbhpd::Dbhpd,
    drr::Drr,
    ets::Ets,
    fq_codel::FqCodel,
    prr::Prr,
    wrr::Wrr,
    altq_wfq::AltqWfq,
    cbq::Cbq,
    cbq_ref::CbqRef,
    cbq_altq::CbqAltq,
    sfq::Sfq,
    qfq::Qfq,
    qfq_plus::QfqPlus,
    wf2q::Wf2q,
    wfq::Wfq,
    hfsc::Hfsc,
}
