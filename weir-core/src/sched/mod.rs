//! Schedulers: which leaf sends next, or when one may. One file an algorithm, one line in the
//! registry.
//!
//! A scheduler decides the order of leaves. It holds no packet and does not classify: the queue
//! layer holds packets, so droppers, limits and accounts exist once.

mod loans;
mod proportional_delay;
mod refit;
pub mod service;
#[cfg(test)]
mod twins;

pub use crate::packet::Head;
pub use crate::tree::{ClassSpec, DEPTH_MAX, Kin, Tree, TreeError};
pub use loans::Borrowed;
pub use refit::{Refit, RefitError};
pub use service::Service;

use crate::ids::{ClassId, LeafId};
use crate::parameter::{BuildError, Parameter};
use crate::state::{State, state};
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// What a scheduler decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// This leaf may send its first packet now.
    Leaf(LeafId),
    /// No leaf may send before this instant, which is later than now, unless a packet arrives.
    At(Instant),
    /// No packet waits.
    Idle,
}

/// Decides the order of leaves. Time never goes back from one call to the next.
///
/// After `select` has named a leaf the caller either lets it send and calls `charge`, or reports a
/// changed head; a second `select` at the same instant returns the same selection.
pub trait Scheduler {
    /// `leaf`, which was empty, accepted the packet `head`.
    fn enqueued(&mut self, now: Instant, leaf: LeafId, head: Head);

    /// `leaf`, which was not empty, accepted one more packet, of `length`.
    #[inline]
    fn joined(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {}

    /// Selects the leaf that may send now, or says when one may.
    fn select(&mut self, now: Instant) -> Selection;

    /// `leaf`, just selected, sent a packet charged `sent`; `next` waits there now.
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>);

    /// One packet that waited in `leaf` was dropped, the first or another; `head` is first now.
    fn head_changed(&mut self, now: Instant, leaf: LeafId, head: Option<Head>);

    /// `leaf` was offered a packet, accepted or not. Comes before `enqueued` and `joined`.
    #[inline]
    fn offered(&mut self, _now: Instant, _leaf: LeafId) {}

    /// The packet of `leaf` charged `length` has left the wire. Called only for schedulers that set
    /// [`Discipline::COMPLETIONS`].
    fn completed(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {}

    /// The line was free and found that no packet waits in any leaf. Called once before the next
    /// packet is offered.
    #[inline]
    fn found_nothing(&mut self) {}

    /// Returns why the first packet of `leaf` could not be sent earlier. Called after `select`
    /// returned the leaf and before `charge`, or before a drop; changes nothing. Until `from`
    /// something else held the packet back, so a reason that ended by then may be left out. The
    /// lender is never left out.
    fn why(&self, _now: Instant, _leaf: LeafId, _from: Instant) -> Why {
        Why::FREE
    }

    /// Returns what `leaf` has borrowed so far; nothing for schedulers that do not lend.
    fn borrowed(&self, _leaf: LeafId) -> Borrowed {
        Borrowed::default()
    }
}

/// What held the first packet of a leaf back, apart from others' turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Why {
    /// From when on its own limits and those of its ancestors would have let it be sent. If none
    /// held it back, [`Instant::ZERO`]; later than now if it still may not be sent.
    pub released: Instant,
    /// What held it back until then.
    pub regulation: Regulation,
    /// The class whose limit that was: so many levels above the leaf's own class.
    pub level: u8,
    /// The class that lends for it; `None` if it is sent at its own account.
    pub lender: Option<ClassId>,
}

/// What can hold a packet back although the line is free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Regulation {
    /// Nothing.
    #[default]
    None,
    /// Tokens of its own rate are used up and no class lends.
    Tokens,
    /// Its class, and every class that might lend, is above its share until its undertime.
    Undertime,
    /// A ceiling, its own or an ancestor's.
    Ceiling,
    /// An upper-limit curve, its own or an ancestor's.
    UpperLimit,
}

impl Why {
    /// The packet was not held back, and is sent at its own account.
    pub const FREE: Why =
        Why { released: Instant::ZERO, regulation: Regulation::None, level: 0, lender: None };

    /// Returns whether both agree on the time from `from` on and on the lender.
    pub(crate) fn agrees_from(self, from: Instant, other: Why) -> bool {
        let held = |why: Why| (why.released > from).then_some((why.released, why.regulation));
        self.lender == other.lender && held(self) == held(other)
    }
}

impl Regulation {
    /// All variants, in the order of their numbers.
    pub const ALL: [Regulation; 5] = [
        Regulation::None,
        Regulation::Tokens,
        Regulation::Undertime,
        Regulation::Ceiling,
        Regulation::UpperLimit,
    ];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Regulation::None => "none",
            Regulation::Tokens => "tokens",
            Regulation::Undertime => "undertime",
            Regulation::Ceiling => "ceiling",
            Regulation::UpperLimit => "upper-limit",
        }
    }
}

/// How the cost of a packet grows with the number of leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// It is constant.
    Constant,
    /// It grows with the logarithm.
    Logarithmic,
    /// It grows in proportion: for an oracle, not for many leaves.
    Linear,
}

/// What a scheduler promises; the laws hold it to that.
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
pub trait Discipline: Scheduler + State + Sized + Send + 'static {
    /// What the registry knows of it.
    const DESCRIPTOR: Descriptor;

    /// Whether the link calls [`Scheduler::completed`] for each packet that has left the wire, and
    /// polls again then.
    const COMPLETIONS: bool = false;

    /// Whether it looks at the first packet of a leaf before it selects the leaf. If not, flow
    /// queues in a leaf choose that packet when the leaf is selected.
    const PEEKS: bool = true;

    /// Whether the line, when it is free, looks for a packet in the leaves also while all are
    /// empty, as Linux does where one queue holds all packets. Otherwise, as below classes, an
    /// empty leaf does not notice that the line is idle.
    const ASKS_EMPTY_LEAVES: bool = false;

    /// Whether a change must tell it of each packet that waits, by [`Scheduler::joined`]. If not,
    /// that method does nothing, and a queue moves to a new plan as it is.
    const PER_PACKET: bool = false;

    /// Whether single leaves can be refitted while it runs.
    const REFITS: bool = false;

    /// Builds it for a tree whose parameters are those of the descriptor.
    ///
    /// # Errors
    /// When values contradict each other or the tree; the message names value, limit and cure.
    fn build(tree: &Tree) -> Result<Self, BuildError>;

    /// Takes over from `old`, built from another tree, the state of the classes that both trees
    /// have according to `kin`: balances, tokens, virtual times. Called once, right after `build`;
    /// then `enqueued` is called for every leaf in which packets wait, and with
    /// [`Discipline::PER_PACKET`] also `joined` for every packet behind the first. Without it,
    /// classes start anew.
    fn inherit(&mut self, _now: Instant, _old: &Self, _kin: &Kin) {}

    /// Follows the parameters of `leaf`, which are others in `tree` than before; no packet waits in
    /// it. After that it decides as one that was built from the tree. A leaf that is not new keeps
    /// what [`Discipline::inherit`] would take over. Called only with [`Discipline::REFITS`].
    ///
    /// # Errors
    /// When it takes a whole change, or the values contradict each other; then nothing is changed.
    fn refit(
        &mut self,
        _now: Instant,
        _tree: &Tree,
        _leaf: LeafId,
        _refit: Refit<'_>,
    ) -> Result<(), RefitError> {
        Err(RefitError::NeedsChange("the scheduler builds its classes together"))
    }

    /// Whether its state, loaded from a checkpoint, can be that of a scheduler whose leaves hold
    /// what waits. Checks whatever its other functions rely on, so that a forged checkpoint is
    /// refused here and does no harm later.
    fn agrees(&self, _waiting: &Waiting<'_>) -> bool {
        true
    }

    /// Returns what it guarantees each leaf of `tree`, whatever the others do; `tree` must build.
    fn service(_tree: &Tree) -> Service {
        Service::Unknown
    }
}

/// What waits in the leaves when a checkpoint is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'w> {
    /// The time of the link.
    pub now: Instant,
    /// The first packet of each leaf, as the scheduler was told of it.
    pub heads: &'w [Option<Head>],
    /// The number of packets in each leaf.
    pub packets: &'w [u32],
}

impl Waiting<'_> {
    /// Returns whether `is_so` holds for each leaf: its number, and its first packet.
    pub(crate) fn all(&self, mut is_so: impl FnMut(usize, Option<Head>) -> bool) -> bool {
        self.heads.iter().enumerate().all(|(leaf, &head)| is_so(leaf, head))
    }

    /// Returns the number of leaves in which packets wait.
    pub(crate) fn leaves(&self) -> usize {
        self.heads.iter().flatten().count()
    }
}

/// A line of the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The scheduler's descriptor.
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
    fq_codel::FqCodel,
    prr::Prr,
    wrr::Wrr,
    altq_wfq::AltqWfq,
    cbq::Cbq,
    cbq_ref::CbqRef,
    cbq_altq::CbqAltq,
    sfq::Sfq,
    qfq::Qfq,
    wf2q::Wf2q,
    wfq::Wfq,
    hfsc::Hfsc,
}

state!(
    enum Regulation {
        None,
        Tokens,
        Undertime,
        Ceiling,
        UpperLimit,
    }
);
