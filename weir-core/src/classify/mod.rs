//! Which leaf a packet belongs to.
//!
//! **The rule.** Rules are tried in the order of their declaration and the first that matches
//! decides; if none does, the default leaf. There is no other order: neither longer prefixes nor
//! exact addresses go before what stands earlier (as they do in ALTQ, `algorithms.md` §11.1).
//!
//! **Fragments.** Only a datagram's first fragment has ports. Under [`FragmentPolicy::Follow`] the
//! later ones go where the first went, so that a port rule takes whole datagrams [risso99 §7.1].
//! A later fragment whose first was not seen is matched on its own headers: rules without ports,
//! else the default.
//!
//! | algorithm | file | what |
//! | --- | --- | --- |
//! | linear | `linear.rs` | tries every rule in order; the oracle for any faster one |
//!
//! An algorithm is built from a list of [`Rule`] and answers `first_match(interface, headers)` with
//! the index of the rule that decides. It keeps no state between packets; fragments, the default
//! and the reasons are this file's, once for all algorithms.

pub mod fragments;
pub mod hash;
pub mod linear;
pub mod rule;

use alloc::vec::Vec;

use crate::ids::LeafId;
use crate::packet::{Fragment, Headers};
use crate::units::Instant;

pub use fragments::FragmentLimits;
pub use rule::{InterfaceId, Match, PortRange, Prefix, Rule};

use fragments::{FragmentKey, FragmentTable};
use linear::LinearRules;

/// Sends packets to leaves.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: LinearRules,
    default: LeafId,
    fragments: Option<FragmentTable>,
}

impl Classifier {
    /// A classifier that tries `rules` in order and falls back to `default`.
    pub fn new(rules: Vec<Rule>, default: LeafId, fragments: FragmentPolicy) -> Classifier {
        let fragments = match fragments {
            FragmentPolicy::EachAlone => None,
            FragmentPolicy::Follow(limits) => Some(FragmentTable::new(limits)),
        };
        Classifier { rules: LinearRules::new(rules), default, fragments }
    }

    /// The leaf of a packet that came in by `interface`, and why.
    ///
    /// `now` only serves to forget fragments; it need not be monotonic.
    pub fn classify(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Classified {
        match headers.fragment {
            Fragment::None => self.by_rules(interface, headers),
            Fragment::First(id) => self.first_fragment(now, interface, headers, id),
            Fragment::Later(id) => {
                self.followed(now, headers, id).unwrap_or_else(|| self.by_rules(interface, headers))
            }
        }
    }

    fn by_rules(&self, interface: InterfaceId, headers: &Headers) -> Classified {
        match self.rules.first_match(interface, headers) {
            Some((index, leaf)) => Classified { leaf, reason: Reason::Rule(index) },
            None => Classified { leaf: self.default, reason: Reason::Default },
        }
    }

    fn first_fragment(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        headers: &Headers,
        id: u32,
    ) -> Classified {
        let classified = self.by_rules(interface, headers);
        if let (Some(table), Some(key)) = (&mut self.fragments, FragmentKey::of(headers, id)) {
            // Also when the default took it: its later fragments might match a rule without ports.
            table.remember(now, key, classified.leaf);
        }
        classified
    }

    fn followed(&self, now: Instant, headers: &Headers, id: u32) -> Option<Classified> {
        let key = FragmentKey::of(headers, id)?;
        let leaf = self.fragments.as_ref()?.recall(now, &key)?;
        Some(Classified { leaf, reason: Reason::Fragment })
    }
}

/// Where a packet goes, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classified {
    /// The leaf to offer it to.
    pub leaf: LeafId,
    /// What decided.
    pub reason: Reason,
}

/// What decided where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The rule at this place in the list, from 0.
    Rule(usize),
    /// The first fragment of its datagram went there.
    Fragment,
    /// No rule matched.
    Default,
}

/// What becomes of fragments after the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentPolicy {
    /// Each is matched on its own headers: without ports.
    EachAlone,
    /// They go where their first fragment went.
    Follow(FragmentLimits),
}

impl Default for FragmentPolicy {
    fn default() -> FragmentPolicy {
        FragmentPolicy::Follow(FragmentLimits::default())
    }
}
