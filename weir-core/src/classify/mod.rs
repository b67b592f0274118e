//! The classifier: which leaf a packet goes to.
//!
//! **The rule.** Rules are tried in one total order and the first that matches decides; if none
//! matches, the default leaf takes the packet. The order is that of declaration unless the plan
//! names another (`order.rs`); longer prefixes and exact addresses do not go before rules declared
//! earlier.
//!
//! **Fragments.** Only a datagram's first fragment has ports. Under [`FragmentPolicy::Follow`] the
//! later ones go where the first went, so that a port rule takes whole datagrams [risso99 §7.1]. A
//! later fragment whose first was not seen is matched on its own headers, without ports.
//!
//! An algorithm is a file with a line in the macro call at the end of this one. It is built from
//! rules in match order and returns the place of the first that matches. It has no state between
//! packets; order, fragments, the default, the reasons and the flow cache (`flow_cache.rs`) are
//! implemented once for all algorithms.
//!
//! **Several threads.** The rules and their flow cache are a part of their own, [`Lookup`], which
//! needs no packet before this one. Another thread may look a packet up in the same [`Rules`] and
//! pass on the decision, and [`Classifier::classify_found`] goes on from there.

mod altq_fragments;
mod checkpoint;
pub mod cover;
pub mod details;
pub mod flow_cache;
pub mod fragments;
pub mod hash;
pub mod joined;
pub mod joined_covers;
pub mod key;
pub mod lookup;
pub mod macs;
pub mod marks;
pub mod order;
pub mod rule;
pub mod services;
pub mod tags;
pub mod tuples;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::{LeafId, MeterId};
use crate::packet::{Addresses, FlowKey, Fragment, Headers};
use crate::parameter::BuildError;
use crate::units::Instant;

pub use details::{Details, FlagTest, IcmpTest, LengthRange};
pub use flow_cache::{FLOWS_DEFAULT, FLOWS_MAX};
pub use fragments::FragmentLimits;
pub use hash::{AltqHash, Spread};
pub use joined::RuleSet;
pub use lookup::{Lookup, Rules};
pub use marks::MarkTest;
pub use order::MatchOrder;
pub use rule::{InterfaceId, Match, PortRange, Prefix, Rule, Target};
pub use services::service_port;
pub use tags::VlanTest;

use altq_fragments::AltqFragments;
use fragments::{FragmentKey, FragmentTable};
use joined::JoinedRules;
use key::Key;

/// Sends packets to leaves.
#[derive(Clone, Debug)]
pub struct Classifier {
    lookup: Lookup,
    order: MatchOrder,
    default: Target,
    fragments: Fragments,
    /// Rules of classes that joined later.
    joined: Option<Box<JoinedRules>>,
}

/// How rules are searched; [`Default`] applies to a policy that does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassifierPlan {
    /// The keyword of the algorithm.
    pub algorithm: &'static str,
    /// The order in which rules are tried.
    pub order: MatchOrder,
    /// How fragments are classified.
    pub fragments: FragmentPolicy,
    /// Flows in the flow cache, for an algorithm that uses one; 0 for none.
    pub flows: u32,
    /// Seeds the flow cache's hash; no decision depends on it.
    pub seed: u64,
}

impl Default for ClassifierPlan {
    fn default() -> ClassifierPlan {
        ClassifierPlan {
            algorithm: CLASSIFIERS[0].keyword,
            order: MatchOrder::default(),
            fragments: FragmentPolicy::default(),
            flows: FLOWS_DEFAULT,
            seed: 0,
        }
    }
}

#[derive(Clone, Debug)]
enum Fragments {
    Alone,
    Follow(FragmentTable),
    AltqBroken,
    AltqFixed(AltqFragments),
}

impl Classifier {
    /// Builds a classifier that tries `rules` in order and falls back to `default`, with the
    /// default algorithm and without a flow cache.
    pub fn new(
        rules: Vec<Rule>,
        default: impl Into<Target>,
        fragments: FragmentPolicy,
    ) -> Classifier {
        let plan = ClassifierPlan { fragments, flows: 0, ..ClassifierPlan::default() };
        Classifier::build(rules, default, &plan).expect("the first algorithm is registered")
    }

    /// Builds the classifier of a plan.
    ///
    /// # Errors
    /// When no algorithm has the plan's keyword.
    pub fn build(
        rules: Vec<Rule>,
        default: impl Into<Target>,
        plan: &ClassifierPlan,
    ) -> Result<Classifier, BuildError> {
        let descriptor = CLASSIFIERS.iter().find(|row| row.keyword == plan.algorithm);
        let descriptor = descriptor.ok_or_else(|| unknown_classifier(plan.algorithm))?;
        let arranged = plan.order.arrange(rules);
        let cached = descriptor.cached && !arranged.is_empty();
        let flows = if cached { plan.flows } else { 0 };
        let rules = Rules::new(descriptor.keyword, arranged, (flows, plan.seed));
        Ok(Classifier {
            lookup: Lookup::new(Arc::new(rules), FLOWS_MAX),
            order: plan.order,
            default: default.into(),
            fragments: Fragments::new(plan.fragments),
            joined: None,
        })
    }

    /// Returns the leaves over which packets are spread by a hash.
    pub fn spread_leaves(&self) -> impl Iterator<Item = LeafId> {
        let targets = self.rules().targets().iter().chain([&self.default]);
        let spread = targets.filter_map(|target| Some((target.leaf.0, target.spread?.queues)));
        spread.flat_map(|(first, queues)| (first..first.saturating_add(queues)).map(LeafId))
    }

    /// Replaces the rules. Leaves keep their numbers, and later fragments still follow a first
    /// fragment that came before the change. Takes time in proportion to the rules.
    pub fn replace_rules(&mut self, rules: Vec<Rule>) {
        let rules = self.rules().with(self.order.arrange(rules));
        self.lookup.replace(Arc::new(rules));
    }

    /// Returns the rules, for another thread to look packets up in.
    pub fn rules(&self) -> &Arc<Rules> {
        self.lookup.rules()
    }

    /// Makes room for the rules of so many classes that join later, whose leaves begin with
    /// `first`. Their rules are tried behind those that the classifier has, in the order of the
    /// leaves.
    pub fn reserve(&mut self, first: LeafId, places: usize) {
        self.joined = (places > 0).then(|| Box::new(JoinedRules::new(first, places)));
    }

    /// Returns whether [`Classifier::join`] has room for these rules.
    ///
    /// # Errors
    /// When it has none; the text has the bound and the cure.
    pub fn fits(&self, leaf: LeafId, rules: &RuleSet) -> Result<(), String> {
        let joined = self.joined.as_ref().ok_or("no class can join: there is no place")?;
        joined.fits(leaf, rules)
    }

    /// Gives `leaf` these rules, which fit; returns those that it had. Allocates and frees nothing.
    pub fn join(&mut self, leaf: LeafId, rules: Arc<RuleSet>) -> Option<Arc<RuleSet>> {
        self.joined.as_mut()?.replace(leaf, Some(rules))
    }

    /// Takes the rules from `leaf` and returns them; later fragments do not go there any more.
    /// Takes time in proportion to its rules and to the table of fragments.
    pub fn leave(&mut self, leaf: LeafId) -> Option<Arc<RuleSet>> {
        if let Fragments::Follow(table) = &mut self.fragments {
            table.forget(leaf);
        }
        self.joined.as_mut()?.replace(leaf, None)
    }

    /// Returns whether a rule has details, so that packets of a flow may go to several leaves.
    pub fn tests_details(&self) -> bool {
        self.rules().tests_details()
            || self.joined.as_ref().is_some_and(|joined| joined.tests_details())
    }

    /// Returns the most tables that the algorithm looks into for one packet.
    pub fn tables(&self) -> usize {
        self.rules().tables()
    }

    /// Returns the leaf of a packet that came in by `interface`, and why.
    ///
    /// `now` is used only to forget fragments; it need not be monotonic.
    #[inline]
    pub fn classify(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        headers: &Headers,
    ) -> Classified {
        match headers.fragment {
            Fragment::None => self.by_rules(interface, headers),
            Fragment::First(id) => self.first_fragment(now, interface, headers, id),
            Fragment::Later { id, more } => {
                self.later_fragment(now, interface, headers, (id, more))
            }
        }
    }

    #[inline]
    fn by_rules(&mut self, interface: InterfaceId, headers: &Headers) -> Classified {
        let found = self.lookup.search(interface, headers);
        self.decided(interface, headers, found)
    }

    /// As [`Classifier::classify`], of a packet that [`Lookup::find`] looked up in the same rules.
    #[inline]
    pub fn classify_found(
        &self,
        interface: InterfaceId,
        headers: &Headers,
        found: Decision,
    ) -> Classified {
        self.decided(interface, headers, found)
    }

    /// Returns where a packet goes for which this was found in the rules.
    #[inline]
    fn decided(&self, interface: InterfaceId, headers: &Headers, found: Decision) -> Classified {
        let rules = self.rules();
        if found == Decision::NONE {
            let joined = self.joined.as_ref().and_then(|all| {
                let (key, _) = rules.key(interface, headers);
                all.first(&key, interface, headers)
            });
            return match joined {
                Some((target, rule)) => {
                    Classified::of(target, headers, Reason::Joined(usize::from(rule)))
                }
                None => Classified::of(self.default, headers, Reason::Default),
            };
        }
        let (target, declared) = rules.target(found);
        Classified::of(target, headers, Reason::Rule(declared as usize))
    }

    fn first_fragment(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        headers: &Headers,
        id: u32,
    ) -> Classified {
        let headers = &self.fragments.seen(headers);
        let classified = self.by_rules(interface, headers);
        let Some(key) = FragmentKey::of(headers, id) else { return classified };
        match &mut self.fragments {
            Fragments::Alone | Fragments::AltqBroken => {}
            // Also when the default took it: later fragments might match a rule without ports.
            Fragments::Follow(table) => table.remember(now, key, classified.target()),
            Fragments::AltqFixed(table) if is_v4(headers) => table.remember(key, headers.ports),
            Fragments::AltqFixed(_) => {}
        }
        classified
    }

    fn later_fragment(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        headers: &Headers,
        (id, more): (u32, bool),
    ) -> Classified {
        let Some(key) = FragmentKey::of(headers, id) else {
            return self.by_rules(interface, headers);
        };
        match &mut self.fragments {
            Fragments::Alone | Fragments::AltqBroken => self.by_rules(interface, headers),
            Fragments::Follow(table) => match table.recall(now, &key) {
                Some(target) => Classified::of(target, headers, Reason::Fragment),
                None => self.by_rules(interface, headers),
            },
            Fragments::AltqFixed(table) => {
                let ports = table.recall(&key, !more);
                self.by_rules(interface, &Headers { ports, ..*headers })
            }
        }
    }
}

fn is_v4(headers: &Headers) -> bool {
    matches!(headers.addresses, Addresses::V4 { .. })
}

impl Fragments {
    fn new(policy: FragmentPolicy) -> Fragments {
        match policy {
            FragmentPolicy::EachAlone => Fragments::Alone,
            FragmentPolicy::Follow(limits) => Fragments::Follow(FragmentTable::new(limits)),
            FragmentPolicy::AltqBroken => Fragments::AltqBroken,
            FragmentPolicy::AltqFixed => Fragments::AltqFixed(AltqFragments::default()),
        }
    }

    /// Returns the headers of a first fragment as the policy's classifier sees them.
    fn seen(&self, headers: &Headers) -> Headers {
        let altq = matches!(self, Fragments::AltqBroken | Fragments::AltqFixed(_));
        let ports = headers.ports.filter(|_| !altq || is_v4(headers));
        Headers { ports, ..*headers }
    }
}

/// Where a packet goes, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classified {
    /// The leaf to offer the packet to.
    pub leaf: LeafId,
    /// The meter of the rule that decided.
    pub meter: Option<MeterId>,
    /// The headers by which the leaf's dropper separates flows: the port passes it to
    /// `headers.flow(..)`.
    pub flow: FlowKey,
    /// Which rule decided, or that none matched.
    pub reason: Reason,
}

impl Classified {
    /// The leaf of a spread rule differs from packet to packet, so it is computed here and no cache
    /// stores it.
    #[inline]
    fn of(target: Target, headers: &Headers, reason: Reason) -> Classified {
        let leaf = match target.spread {
            None => target.leaf,
            Some(spread) => spread.leaf(target.leaf, headers),
        };
        Classified { leaf, meter: target.meter, flow: target.flow, reason }
    }

    /// Returns the target for fragments that follow this packet, whatever their own hash is.
    const fn target(&self) -> Target {
        Target { leaf: self.leaf, meter: self.meter, spread: None, flow: self.flow }
    }
}

/// Why a packet goes to its leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The rule at this place in the list as declared, from 0.
    Rule(usize),
    /// The rule at this place in the list of a class that joined, from 0.
    Joined(usize),
    /// The first fragment of its datagram went there.
    Fragment,
    /// No rule matched, so the packet goes to the default leaf.
    Default,
}

/// How fragments after the first are classified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentPolicy {
    /// Each is matched on its own headers, which have no ports.
    EachAlone,
    /// They go where their first fragment went.
    Follow(FragmentLimits),
    /// As in ALTQ until 2001: a table that never finds anything [algorithms §11.1].
    AltqBroken,
    /// As in ALTQ since then: they get the ports of their first fragment, if it is among the last
    /// eight and they come in order [algorithms §11.1].
    AltqFixed,
}

impl Default for FragmentPolicy {
    fn default() -> FragmentPolicy {
        FragmentPolicy::Follow(FragmentLimits::default())
    }
}

/// The rank of a rule and the place of its target, in one word; the lower of two decisions has the
/// rule that is tried earlier. An algorithm stores the target beside the rule, so that it need not
/// fetch the rule's own memory once it has found the decision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Decision(u64);

impl Decision {
    /// No rule; compares greater than every rule's decision.
    pub const NONE: Decision = Decision(u64::MAX);

    /// Returns the decision of a rule.
    pub const fn new(rank: u32, target: u32) -> Decision {
        Decision((rank as u64) << 32 | target as u64)
    }

    /// Returns the rule's place in match order.
    #[inline]
    pub const fn rank(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the place of the rule's target.
    #[inline]
    pub const fn target(self) -> u32 {
        self.0 as u32
    }

    /// Returns itself if `it` is true, else `NONE`; without a branch.
    #[inline]
    const fn only_if(self, it: bool) -> Decision {
        Decision(self.0 | (it as u64).wrapping_sub(1))
    }
}

/// An algorithm that finds the first rule to match.
pub trait RuleSearch: Sized {
    /// The algorithm's entry in the registry.
    const DESCRIPTOR: ClassifierDescriptor;

    /// Builds the search from the rules in match order, and the places of their targets.
    fn build(rules: &[Rule], targets: &[u32]) -> Self;

    /// Returns the first rule that accepts the packet, whose key is `key`.
    fn first_match(&self, key: &Key, interface: InterfaceId, headers: &Headers)
    -> Option<Decision>;

    /// Returns the most tables that it looks into for one packet.
    fn tables(&self) -> usize;
}

/// The registry's entry for an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassifierDescriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence for lists of classifiers and the reference.
    pub summary: &'static str,
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
    /// Whether a flow cache is used in front of it.
    pub cached: bool,
}

macro_rules! classifiers {
    ($($module:ident::$name:ident,)*) => {
        $(pub mod $module;)*

        /// The descriptors of all algorithms; the first is the default.
        pub const CLASSIFIERS: &[ClassifierDescriptor] =
            &[$(<$module::$name as RuleSearch>::DESCRIPTOR,)*];

        /// An algorithm of any kind.
        #[derive(Clone, Debug)]
        enum AnySearch {
            $($name($module::$name),)*
        }

        impl AnySearch {
            /// Builds the algorithm of this keyword, which is registered.
            fn build(keyword: &str, rules: &[Rule], targets: &[u32]) -> AnySearch {
                $(if keyword == <$module::$name as RuleSearch>::DESCRIPTOR.keyword {
                    return AnySearch::$name($module::$name::build(rules, targets));
                })*
                unreachable!("a plan's keyword was looked up before")
            }

            fn keyword(&self) -> &'static str {
                match self {
                    $(AnySearch::$name(_) => <$module::$name as RuleSearch>::DESCRIPTOR.keyword,)*
                }
            }

            fn tables(&self) -> usize {
                match self {
                    $(AnySearch::$name(search) => search.tables(),)*
                }
            }

            #[inline]
            fn first_match(
                &self,
                key: &Key,
                interface: InterfaceId,
                headers: &Headers,
            ) -> Option<Decision> {
                match self {
                    $(AnySearch::$name(search) => search.first_match(key, interface, headers),)*
                }
            }
        }
    };
}

classifiers! {
    tuple_space::TupleSpace,
    linear::LinearRules,
}

fn unknown_classifier(keyword: &str) -> BuildError {
    let known: Vec<String> = CLASSIFIERS.iter().map(|row| format!("`{}`", row.keyword)).collect();
    let known = known.join(", ");
    BuildError::in_link("classifier", format!("no classifier is called `{keyword}`; write {known}"))
}
