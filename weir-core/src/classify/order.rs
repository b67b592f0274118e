//! The order in which rules are tried, as a total order: [`MatchOrder::arrange`] sorts them once,
//! so that every algorithm supports every order and needs to find only the first match.
//!
//! - `first`: as declared.
//! - `altq`: rules for one IPv4 destination, then all others; among each, `ruleno` descending, then
//!   the newest first [altq, algorithms §11.1].
//! - `u32`: `prio` ascending, then as declared [algorithms §11.3].
//!
//! ALTQ looks first into the hash bucket of the packet's destination. Two rules for different
//! destinations never take one packet, so all these buckets can be one sequence. ALTQ hashes IPv6
//! filters by flow label, which rules here do not test, so none of them goes first. An ALTQ filter
//! has one destination; a rule with several becomes several filters, and may occur in both parts.
//!
//! Linux gives a filter without `prio` one less than it gave the one before; here it is
//! [`PRIO_DEFAULT`] for all of them, so they stay in the order of declaration.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::rule::{Prefix, Rule};

/// The order in which rules are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MatchOrder {
    /// In the order of the policy.
    #[default]
    First,
    /// In the order in which ALTQ's classifier tries filters.
    Altq,
    /// As filters of Linux's `tc`.
    U32,
}

impl MatchOrder {
    /// Every order, for lists and tests.
    pub const ALL: [MatchOrder; 3] = [MatchOrder::First, MatchOrder::Altq, MatchOrder::U32];

    /// The keyword in a policy.
    pub const fn keyword(self) -> &'static str {
        match self {
            MatchOrder::First => "first",
            MatchOrder::Altq => "altq",
            MatchOrder::U32 => "u32",
        }
    }

    /// Returns the name of the rule's key that this order sorts by, its bounds, and its default.
    pub const fn sort_key(self) -> Option<(&'static str, u32, u32, u32)> {
        match self {
            MatchOrder::First => None,
            MatchOrder::Altq => Some(("ruleno", 0, i32::MAX as u32, 0)),
            MatchOrder::U32 => Some(("prio", 1, u16::MAX as u32, PRIO_DEFAULT)),
        }
    }

    /// Returns the rules in match order, each with its place in `rules`.
    pub fn arrange(self, rules: Vec<Rule>) -> Vec<(u32, Rule)> {
        let mut rows: Vec<(u32, Rule)> = (0..).zip(rules).collect();
        let default = self.sort_key().map_or(0, |(_, _, _, default)| default);
        let sort_key = |rule: &Rule| rule.sort_key.unwrap_or(default);
        match self {
            MatchOrder::First => {}
            MatchOrder::Altq => {
                let pieces = rows.into_iter().flat_map(by_destination);
                rows = pieces.collect();
                rows.sort_by_key(|(declared, rule)| {
                    let wildcard = !rule.matches.destinations.iter().any(is_host);
                    (wildcard, Reverse(sort_key(rule)), Reverse(*declared))
                });
            }
            MatchOrder::U32 => rows.sort_by_key(|(declared, rule)| (sort_key(rule), *declared)),
        }
        rows
    }
}

/// Splits a rule into its part for single destinations and its part for all others.
fn by_destination((declared, rule): (u32, Rule)) -> impl Iterator<Item = (u32, Rule)> {
    let (hosts, blocks): (Vec<Prefix>, Vec<Prefix>) =
        rule.matches.destinations.iter().partition(|prefix| is_host(prefix));
    let mixed = !hosts.is_empty() && !blocks.is_empty();
    let part = |destinations: Vec<Prefix>| {
        let mut part = rule.clone();
        part.matches.destinations = destinations;
        (declared, part)
    };
    let parts = if mixed { [Some(part(hosts)), Some(part(blocks))] } else { [None, None] };
    let whole = (!mixed).then_some((declared, rule));
    whole.into_iter().chain(parts.into_iter().flatten())
}

/// Returns whether the prefix is one IPv4 address.
fn is_host(prefix: &Prefix) -> bool {
    prefix.network().is_ipv4() && prefix.prefix_len() == 32
}

/// The priority that Linux gives to the first filter without `prio`.
pub const PRIO_DEFAULT: u32 = 0xc000;
