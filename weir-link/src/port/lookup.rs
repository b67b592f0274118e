//! Frames that a worker looks up in the rules of the lane that its port feeds, so that the loop
//! need not.
//!
//! The loop numbers the rules of a lane. A worker passes on the number beside what it found, and
//! the loop looks a frame up again whose rules are not those of now: so no worker waits for a
//! change of the policy, and no frame goes by the rules of before. What depends on other frames, or
//! on classes that joined, the loop decides itself ([`weir_core::classify::lookup`]).

use std::sync::Arc;

use weir_core::classify::{Decision, FLOWS_DEFAULT, InterfaceId, Lookup, Rules};
use weir_core::packet::Headers;

/// The rules of the lane that a port feeds.
#[derive(Clone, Debug)]
pub struct LaneRules {
    /// Other rules of the lane have another number; never 0.
    pub number: u32,
    /// By which rules name the port.
    pub port: InterfaceId,
    /// The rules themselves, which the lane has too.
    pub rules: Arc<Rules>,
}

/// The rule that was found for a frame, and among which rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    number: u32,
    decision: Decision,
}

impl Found {
    /// It was not looked up.
    pub const NOTHING: Self = Self { number: 0, decision: Decision::NONE };

    /// Returns the decision, if it is one of the rules with this number.
    #[inline]
    pub(crate) fn by(self, number: u32) -> Option<Decision> {
        (self.number == number).then_some(self.decision)
    }
}

/// The rules as a worker has them, with a cache of its own.
#[derive(Debug)]
pub(crate) struct FrameLookup {
    number: u32,
    port: InterfaceId,
    lookup: Lookup,
}

impl FrameLookup {
    /// The most bytes of its cache.
    pub const BYTES_MAX: usize = FLOWS_MAX as usize * 72;

    /// Takes these rules up, in place of those before.
    pub fn take_up(before: &mut Option<Self>, LaneRules { number, port, rules }: LaneRules) {
        match before {
            Some(before) => {
                (before.number, before.port) = (number, port);
                before.lookup.replace(rules);
            }
            None => *before = Some(Self { number, port, lookup: Lookup::new(rules, FLOWS_MAX) }),
        }
    }

    /// Looks a frame up.
    #[inline]
    pub fn find(&mut self, headers: &Headers) -> Found {
        let decision = self.lookup.find(self.port, headers);
        decision.map_or(Found::NOTHING, |decision| Found { number: self.number, decision })
    }
}

/// Bound: flows in a worker's cache, whatever the policy wants for the loop's; another one replaces
/// one.
const FLOWS_MAX: u32 = FLOWS_DEFAULT;
