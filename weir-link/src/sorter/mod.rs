//! The sorter: programs that let the kernel choose a ring for each frame, by the policy's rules.
//!
//! A flood in one class then overflows only the ring of that class, before any of Weir's own code
//! runs. The classifier stays the authority: a frame that came by any ring is classified again.
//!
//! **The rule.** A frame goes to a ring other than 0 only if the classifier certainly sends it to
//! the leaf of that ring. Ring 0 takes the default class, leaves without a ring of their own, and
//! frames of which a program cannot be certain:
//! - frames that are not plain: more than two VLAN tags, IPv6 extension headers, PPPoE, MPLS, SNAP,
//!   headers that are cut short or make no sense;
//! - fragments, where they follow the first of their datagram: the first as well, since those
//!   behind it would overtake it if they came by another ring;
//! - frames that a rule may take which tests a mark, or a code point that is restored behind the
//!   ring, and those that a hash spreads over leaves.
//!
//! A [`SortPlan`] is made once for a direction's policy; a [`Sorting`] is made for each port that
//! feeds the direction, since rules may name the port, and the authority of the port makes a
//! program from that. `cases.rs` reads the rules, `graph.rs` joins them
//! to a decision graph, and `cbpf.rs` and `ebpf.rs` write that as programs for AF_PACKET and XDP.
//! `tests.rs` compares the programs, run by an interpreter, with the classifier.

mod cases;
mod cbpf;
mod ebpf;
mod graph;
pub mod interpret;
mod places;
mod ranges;
mod search;
mod sorting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cases::{Case, Family, Field, conditions, prune};
use ebpf::End;
pub(crate) use ebpf::add_queue;
use graph::Graph;
pub(crate) use places::Places;
pub use places::SHARES_MAX;
use serde::{Deserialize, Serialize};
pub use sorting::Sorting;
use weir_core::classify::{FragmentPolicy, InterfaceId, MatchOrder, Rule, Target};
use weir_core::ids::LeafId;
use weir_core::packet::{EtherType, Protocol};
use weir_core::tree::ClassSpec;
use weir_host::bpf::{Code, Map};
use weir_policy::deployment::Direction;
use weir_policy::policy::{Measure, Metric, Policy};

/// The parameters of a sorter.
#[derive(Clone, Debug, PartialEq)]
pub struct SortConfig {
    /// The rules as declared.
    pub rules: Vec<Rule>,
    /// The order in which they are tried.
    pub order: MatchOrder,
    /// How fragments are classified.
    pub fragments: FragmentPolicy,
    /// Where frames go that no rule matches.
    pub default: Target,
    /// Each leaf's claim to a ring of its own, by number.
    pub ring_priorities: Vec<RingPriority>,
    /// Whether frames get another code point before they are classified.
    pub restores_dscp: bool,
}

/// How much a leaf needs a ring of its own. Greater ones get one first, and of equal ones the
/// earlier leaf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct RingPriority {
    /// The leaf has a bound on delay or loss.
    pub bounded: bool,
    /// Its priority; greater is served earlier.
    pub priority: u64,
}

/// Which leaf has which ring, and the cases to sort by.
#[derive(Clone, Debug)]
pub struct SortPlan {
    /// The ring of each leaf, by number. Only ring 0 is shared.
    pub ring_of_leaf: Vec<u8>,
    /// The number of rings, ring 0 included, and with those between that no leaf has any more.
    pub rings: usize,
    /// Leaves that are not sorted, or not all of their frames, and why. A leaf may occur twice.
    pub unsorted: Vec<(LeafId, Reason)>,
    /// The rules in match order, each with its ring.
    rules: Vec<(Rule, u8)>,
    later: Later,
    /// Whether the code point of a frame is not the one by which it is classified.
    restores_dscp: bool,
}

/// A program for one port.
#[derive(Clone, Debug)]
pub struct Sorter<T> {
    /// The instructions in the form that the kind of port loads.
    pub code: T,
    /// Leaves with a ring some of whose rules had no room, so that their frames go to ring 0.
    pub cut: Vec<LeafId>,
}

/// An XDP program that lacks its end. It can be finished for each port anew.
#[derive(Clone, Debug)]
pub struct XdpSorter {
    graphs: [Graph; 3],
    later: Later,
}

/// Why frames of a leaf go to ring 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Other leaves have all rings.
    Rings,
    /// A rule of the leaf tests a firewall's mark.
    Mark,
    /// An earlier rule of another leaf tests a mark, and may take the same frames.
    BehindMark,
    /// A rule of the leaf tests the code point, which is restored behind the ring.
    CodePoint,
    /// An earlier rule of another leaf does so, and may take the same frames.
    BehindCodePoint,
    /// A rule spreads packets over several leaves by a hash.
    Spread,
    /// The program has room for some of the leaf's rules only.
    Room,
}

/// How a later fragment can be sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Later {
    /// Not enough: it goes where the first fragment went, and so all come by ring 0.
    Unknown,
    /// It is classified by its own headers, without ports.
    Portless,
}

impl SortConfig {
    /// The rules of a policy, and what it promises.
    pub fn of_policy(policy: &Policy) -> SortConfig {
        // Classes at places come and go, and share ring 0.
        let fixed = policy.rules.iter().filter(|rule| rule.leaf < policy.first_place);
        let mut ring_priorities = ring_priorities(policy);
        ring_priorities.truncate(policy.first_place.index());
        SortConfig {
            rules: fixed.cloned().collect(),
            order: policy.search.order,
            fragments: policy.search.fragments,
            default: policy.default,
            ring_priorities,
            restores_dscp: false,
        }
    }

    /// Those of a direction.
    pub fn of_direction(direction: &Direction) -> SortConfig {
        let restores_dscp = direction.restores_dscp;
        SortConfig { restores_dscp, ..SortConfig::of_policy(&direction.policy) }
    }
}

impl SortPlan {
    /// Gives rings to the leaves that want them most and that the kernel can tell apart.
    pub fn new(config: SortConfig) -> SortPlan {
        SortPlan::after(config, &[])
    }

    /// As [`SortPlan::new`], after a plan whose rings these leaves had: each that gets a ring again
    /// keeps its own.
    pub fn after(config: SortConfig, before: &[Option<LeafId>]) -> SortPlan {
        let leaves = config.ring_priorities.len();
        let arranged = config.order.arrange(config.rules).into_iter();
        let rules: Vec<Rule> = arranged.map(|(_, rule)| rule).take(RULES_MAX).collect();
        let mut plan = SortPlan {
            ring_of_leaf: vec![0; leaves],
            rings: 1,
            unsorted: Vec::new(),
            rules: Vec::new(),
            later: match config.fragments {
                FragmentPolicy::EachAlone | FragmentPolicy::AltqBroken => Later::Portless,
                FragmentPolicy::Follow(_) | FragmentPolicy::AltqFixed => Later::Unknown,
            },
            restores_dscp: config.restores_dscp,
        };
        plan.give_rings(&rules, config.default, &config.ring_priorities, before);
        plan.note_rules(&rules);
        let ring = |rule: &Rule| if plan.is_certain(rule) { plan.ring(rule.leaf) } else { 0 };
        plan.rules = rules.iter().map(|rule| (rule.clone(), ring(rule))).collect();
        plan.note_leaves_behind();
        plan.unsorted.sort_unstable();
        plan.unsorted.dedup();
        plan
    }

    /// The plan of a direction with this policy.
    pub fn of_policy(policy: &Policy) -> SortPlan {
        SortPlan::new(SortConfig::of_policy(policy))
    }

    /// Returns the ring of a leaf.
    pub fn ring(&self, leaf: LeafId) -> u8 {
        self.ring_of_leaf.get(leaf.index()).copied().unwrap_or(0)
    }

    /// Returns the leaf that has a ring to itself; none for ring 0.
    pub fn leaf(&self, ring: usize) -> Option<LeafId> {
        let is_ring = |one: &u8| *one != 0 && usize::from(*one) == ring;
        self.ring_of_leaf.iter().position(is_ring).map(|leaf| LeafId(leaf as u32))
    }

    /// Returns the leaf of each ring.
    pub fn leaves_of_rings(&self) -> Vec<Option<LeafId>> {
        (0..self.rings).map(|ring| self.leaf(ring)).collect()
    }

    /// Returns a sentence for each reason why leaves are not sorted, or not all of their frames, at
    /// these interfaces, with some of their names. What has no room in a program for packet sockets
    /// is told; that for AF_XDP sockets is about as long.
    pub fn notes(
        &self,
        interfaces: &[InterfaceId],
        name: impl Fn(LeafId) -> String,
    ) -> Vec<String> {
        let mut leaves: BTreeMap<Reason, BTreeSet<LeafId>> = BTreeMap::new();
        for (leaf, reason) in &self.unsorted {
            leaves.entry(*reason).or_default().insert(*leaf);
        }
        let cut: BTreeSet<LeafId> =
            interfaces.iter().flat_map(|interface| self.classic(*interface).cut).collect();
        if !cut.is_empty() {
            leaves.insert(Reason::Room, cut);
        }
        let note = |(reason, leaves): (&Reason, &BTreeSet<LeafId>)| {
            let named = leaves.iter().take(NAMES_MAX).map(|leaf| format!("`{}`", name(*leaf)));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match leaves.len().saturating_sub(NAMES_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("frames of {named}{more} come by the ring that classes share: {reason}")
        };
        leaves.iter().map(note).collect()
    }

    /// Returns the classic program for frames that came in by `interface`: for PACKET_FANOUT_CBPF,
    /// its result is the ring. It has at most [`INSTRUCTIONS_MAX`] instructions.
    pub fn classic(&self, interface: InterfaceId) -> Sorter<Vec<libc::sock_filter>> {
        let (graphs, cut) = self.fit_classic(interface);
        Sorter { code: cbpf::assemble(&graphs, self.later, &Places::in_order(1)), cut }
    }

    /// Returns the XDP program for frames that came in by `interface`. It has at most
    /// [`INSTRUCTIONS_MAX`] instructions.
    pub fn xdp(&self, interface: InterfaceId) -> Sorter<XdpSorter> {
        let (graphs, cut) = self.fit_xdp(interface);
        Sorter { code: XdpSorter { graphs, later: self.later }, cut }
    }

    fn fit_classic(&self, interface: InterfaceId) -> ([Graph; 3], Vec<LeafId>) {
        let assemble = |graphs: &_| cbpf::assemble(graphs, self.later, &Places::in_order(1));
        self.fit(interface, |graphs| assemble(graphs).len() + SPREAD_LEN)
    }

    fn fit_xdp(&self, interface: InterfaceId) -> ([Graph; 3], Vec<LeafId>) {
        let assemble = |graphs: &[Graph; 3]| ebpf::assemble(graphs, self.later, End::Number);
        self.fit(interface, |graphs| assemble(graphs).len() + END_LEN)
    }

    /// Returns the graphs of as many rules as have room in a program, and the leaves that have
    /// other rules.
    fn fit(
        &self,
        interface: InterfaceId,
        len: impl Fn(&[Graph; 3]) -> usize,
    ) -> ([Graph; 3], Vec<LeafId>) {
        let cases = Family::ALL.map(|family| prune(self.cases(family, Some(interface))));
        let of_first = |rules: usize| {
            [0, 1, 2].map(|family: usize| {
                let len = cases[family].partition_point(|case| case.rule < rules);
                Graph::new(&cases[family][..len], Family::ALL[family])
            })
        };
        let fits = |rules: usize| len(&of_first(rules)) <= INSTRUCTIONS_MAX;
        let mut rules = self.rules.len();
        if !fits(rules) {
            // No rules always fit; each step halves what is unknown.
            let mut too_many = rules;
            rules = 0;
            while rules + 1 < too_many {
                let middle = rules.midpoint(too_many);
                *(if fits(middle) { &mut rules } else { &mut too_many }) = middle;
            }
        }
        let beyond = cases.iter().flatten().filter(|case| case.rule >= rules && case.ring != 0);
        let mut cut: Vec<LeafId> = beyond.map(|case| case.leaf).collect();
        cut.sort_unstable();
        cut.dedup();
        (of_first(rules), cut)
    }

    fn cases(&self, family: Family, interface: Option<InterfaceId>) -> Vec<Case> {
        let case = |(place, (rule, ring)): (usize, &(Rule, u8))| {
            let mut conditions = conditions(&rule.matches, family, interface)?;
            // It may be any at the classifier, as a mark.
            conditions.retain(|row| !(self.restores_dscp && row.0 == Field::Dscp));
            Some(Case { rule: place, leaf: rule.leaf, conditions, ring: *ring })
        };
        self.rules.iter().enumerate().filter_map(case).collect()
    }

    fn give_rings(
        &mut self,
        rules: &[Rule],
        default: Target,
        ring_priorities: &[RingPriority],
        before: &[Option<LeafId>],
    ) {
        let mut has_rule = vec![false; ring_priorities.len()];
        for rule in rules.iter().filter(|rule| self.is_certain(rule)) {
            if let Some(has_rule) = has_rule.get_mut(rule.leaf.index()) {
                *has_rule = true;
            }
        }
        let by_default = default.leaf.index()..default.leaf.index() + leaves_of(&default);
        let sortable = |leaf: &usize| has_rule[*leaf] && !by_default.contains(leaf);
        let mut leaves: Vec<usize> = (0..ring_priorities.len()).filter(sortable).collect();
        leaves.sort_by_key(|leaf| std::cmp::Reverse(ring_priorities[*leaf]));
        let without = leaves.split_off(leaves.len().min(RINGS_MAX - 1));
        let kept = |ring: &usize| before.get(*ring).copied().flatten().map(LeafId::index);
        for ring in 1..RINGS_MAX {
            if let Some(leaf) = kept(&ring).filter(|leaf| leaves.contains(leaf)) {
                self.ring_of_leaf[leaf] = ring as u8;
            }
        }
        let mut free =
            (1..RINGS_MAX).filter(|ring| kept(ring).is_none_or(|leaf| !leaves.contains(&leaf)));
        for leaf in &leaves {
            if self.ring_of_leaf[*leaf] == 0 {
                self.ring_of_leaf[*leaf] = free.next().expect("a ring for each") as u8;
            }
        }
        self.rings = 1 + self.ring_of_leaf.iter().copied().max().map_or(0, usize::from);
        let note = |leaf| (LeafId(leaf as u32), Reason::Rings);
        self.unsorted.extend(without.into_iter().map(note));
    }

    fn note_rules(&mut self, rules: &[Rule]) {
        for rule in rules {
            self.unsorted.extend(self.unknown(rule).map(|(reason, _)| (rule.leaf, reason)));
            if leaves_of(&rule.target()) > 1 {
                self.unsorted.push((rule.leaf, Reason::Spread));
            }
        }
    }

    fn note_leaves_behind(&mut self) {
        for family in Family::ALL {
            let mut before: Vec<(Case, Reason)> = Vec::new();
            for case in self.cases(family, None) {
                if let Some((_, reason)) = self.unknown(&self.rules[case.rule].0) {
                    before.push((case, reason));
                } else if case.ring != 0 {
                    let first = before.iter().find(|(earlier, _)| !earlier.is_apart(&case));
                    self.unsorted.extend(first.map(|(_, reason)| (case.leaf, *reason)));
                }
            }
        }
    }

    /// Returns whether the frames that a rule takes are known from their bytes, and go to one leaf.
    fn is_certain(&self, rule: &Rule) -> bool {
        self.unknown(rule).is_none() && leaves_of(&rule.target()) == 1
    }

    /// Returns why a program does not know which frames a rule takes, and why it then does not know
    /// those of rules behind it; `None` if it does.
    fn unknown(&self, rule: &Rule) -> Option<(Reason, Reason)> {
        if rule.matches.mark.is_some_and(|mark| mark.mask() != 0) {
            return Some((Reason::Mark, Reason::BehindMark));
        }
        let is_restored = self.restores_dscp && !rule.matches.dscps.is_empty();
        is_restored.then_some((Reason::CodePoint, Reason::BehindCodePoint))
    }
}

impl XdpSorter {
    /// Returns the program that hands each frame to the socket at the place of its receive queue
    /// and ring in `sockets`. Those without a socket go to the kernel's stack.
    pub fn redirect(&self, sockets: &Map) -> Code {
        ebpf::assemble(&self.graphs, self.later, End::Redirect(sockets))
    }

    /// Returns the program whose verdict is the ring: for tests.
    pub fn number(&self) -> Code {
        ebpf::assemble(&self.graphs, self.later, End::Number)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Rings => "other classes have all rings",
            Reason::Mark => "a rule tests a mark, which the kernel's sorter does not read",
            Reason::BehindMark => {
                "an earlier rule tests a mark and may take the same frames; write that rule later"
            }
            Reason::CodePoint => "a rule tests the code point, which `restore_dscp` changes later",
            Reason::BehindCodePoint => {
                "an earlier rule tests the code point, which `restore_dscp` changes later, and may \
                 take the same frames; write that rule later"
            }
            Reason::Spread => "a hash spreads them over several classes",
            Reason::Room => "the kernel's sorter has no room for all of their rules; write fewer",
        })
    }
}

/// Returns what each leaf of a policy wants.
fn ring_priorities(policy: &Policy) -> Vec<RingPriority> {
    let tree = &policy.link.tree;
    let promised = |leaf: LeafId| {
        let class = tree.class_of(leaf);
        policy.promises.iter().any(|promise| match promise.promised.measure {
            Measure::Class(of, metric) => of == class && bounds(metric),
            Measure::Fairness | Measure::Behind(_) => false,
        })
    };
    // A scheduler knows one of these parameters. Of `prio`, 0 is served first and is the default.
    let by_prio = tree.leaves().any(|(_, class)| class.params.number("prio").is_some());
    let ring_priority = |(leaf, class): (LeafId, &ClassSpec)| RingPriority {
        bounded: promised(leaf)
            || policy.demands.get(leaf.index()).is_some_and(|demand| demand.delay.is_some()),
        priority: match by_prio {
            true => u64::from(u8::MAX) - class.params.number("prio").unwrap_or(0).min(255),
            false => class.params.number("priority").unwrap_or(1),
        },
    };
    tree.leaves().map(ring_priority).collect()
}

/// Returns whether a promise about this metric needs packets that arrive in time, or at all.
fn bounds(metric: Metric) -> bool {
    match metric {
        Metric::Delay(_) | Metric::DelayMean | Metric::Drops | Metric::Loss => true,
        Metric::Rate | Metric::BacklogMax => false,
    }
}

fn leaves_of(target: &Target) -> usize {
    target.spread.map_or(1, |spread| spread.queues.max(1) as usize)
}

/// Bound: rings of one port; the leaves of lower priority share ring 0.
pub const RINGS_MAX: usize = 8;
/// Bound: instructions of a sorting program, the most that the kernel takes of a classic one
/// (BPF_MAXINSNS); frames of the rules left out go to ring 0.
pub const INSTRUCTIONS_MAX: usize = 4096;
/// Instructions that an XDP program's end has more if it redirects.
const END_LEN: usize = 8;
/// Bound: instructions that a classic program has more if it spreads flows over shares; frames of
/// rules for which that leaves no room go to ring 0.
pub const SPREAD_LEN: usize = 400;
/// Names in one note.
const NAMES_MAX: usize = 4;
/// Bound: rules that a sorting program is made from; frames of later ones go to ring 0.
pub const RULES_MAX: usize = 16_384;

/// Protocols whose headers begin with two ports.
const PORTED: [Protocol; 5] =
    [Protocol::TCP, Protocol::UDP, Protocol::SCTP, Protocol::UDP_LITE, Protocol::DCCP];

/// Bits that only fragments of IPv4 have set `[rfc791 §3.1]`: those of the offset, which the first
/// one does not have, and with them `more fragments`.
const FRAGMENT_OFFSET: u32 = 0x1fff;
const FRAGMENT: u32 = 0x3fff;

/// Ethertypes behind which an IP header or a third tag may be that no program looks for.
const UNSEEN: [EtherType; 6] = [
    EtherType::PPPOE_SESSION,
    EtherType::MPLS,
    EtherType::MPLS_MULTICAST,
    EtherType::VLAN,
    EtherType::VLAN_SERVICE,
    EtherType::VLAN_OLD,
];
