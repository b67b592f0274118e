//! The explanations of a scheduler: why a packet waited, what a leaf borrowed, and what the
//! scheduler guarantees.
//!
//! Everything has a default, so a scheduler without limits and loans writes an empty `impl`.
//! Invariant: nothing here changes a scheduler.

use super::loans::Borrowed;
use super::service::Service;
use crate::ids::{ClassId, LeafId};
use crate::state::state;
use crate::tree::Tree;
use crate::units::Instant;

/// Methods by which a scheduler explains its decisions.
pub trait Explains {
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

    /// Returns what it guarantees each leaf of `tree`, whatever the others do; `tree` must build.
    fn service(_tree: &Tree) -> Service
    where
        Self: Sized,
    {
        Service::Unknown
    }
}

/// The cause for which the first packet of a leaf waited, apart from other leaves' turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Why {
    /// From when on its own limits and those of its ancestors would have let it be sent. If none
    /// held it back, [`Instant::ZERO`]; later than now if it still may not be sent.
    pub released: Instant,
    /// The limit that held it back until then.
    pub regulation: Regulation,
    /// The class whose limit that was: so many levels above the leaf's own class.
    pub level: u8,
    /// The class that lends for it; `None` if it is sent at its own account.
    pub lender: Option<ClassId>,
}

/// A limit that can hold a packet back although the line is free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Regulation {
    /// No limit held it back.
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

state!(
    enum Regulation {
        None,
        Tokens,
        Undertime,
        Ceiling,
        UpperLimit,
    }
);
