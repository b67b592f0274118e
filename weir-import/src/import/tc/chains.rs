//! Filters below filters: one that leads to a class with children hands its packets to the filters
//! of that class, and packets that those do not match go to the default class [linux, algorithms
//! §11.3].
//!
//! A policy has one list of rules. So each filter of such a class becomes rules with the conditions
//! of the whole path, followed by rules with those of the path alone that lead to the default.

use super::super::lines::Reading;
use super::super::sketch::{Key, Rule, Sketch, quoted};
use super::Handle;
use super::filters::Filter;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::classify::{FlagTest, LengthRange, MarkTest, PortRange, Prefix};

/// The classes to which filters may lead.
#[derive(Clone)]
pub(super) struct Targets<'c> {
    pub ids: &'c [Handle],
    /// The classes with children.
    pub parents: &'c BTreeSet<usize>,
    pub default: usize,
    /// The class of packets that HTB sends past its classes.
    pub direct: Option<usize>,
    /// The root's major number.
    pub root: u16,
    /// Whether only minor numbers count, as in `prio`.
    pub by_minor: bool,
    /// The classes with a discipline of classes below: its major number, and the class of packets
    /// that its filters do not take.
    pub inner: BTreeMap<usize, (u16, usize)>,
}

/// The filters of a device, by the class to which they are attached.
pub(super) struct Chains<'c> {
    to: Targets<'c>,
    of_class: BTreeMap<usize, Vec<Filter>>,
    entered: BTreeSet<usize>,
    rank: u64,
}

impl<'c> Chains<'c> {
    pub(super) fn new(to: Targets<'c>) -> Self {
        let (of_class, entered) = (BTreeMap::new(), BTreeSet::new());
        Self { to, of_class, entered, rank: 0 }
    }

    /// Makes rules of all filters, in match order.
    pub(super) fn lower(
        &mut self,
        filters: Vec<Filter>,
        sketch: &mut Sketch,
        reading: &mut Reading,
    ) {
        let mut top = Vec::new();
        for filter in filters {
            match filter.parent.map(|parent| self.whole(parent)) {
                None => top.push(filter),
                Some(parent) if parent == (self.to.root, 0) => top.push(filter),
                Some(parent) => {
                    let found = self.class(parent).or_else(|| self.outer(parent));
                    match found.filter(|at| self.to.parents.contains(at)) {
                        Some(at) => self.of_class.entry(at).or_default().push(filter),
                        None => {
                            let why = "filters of a discipline below a class are not read";
                            reading.lost(filter.line, why);
                        }
                    }
                }
            }
        }
        for filter in &top {
            self.follow(filter, &[Vec::new()], (0, sketch), reading);
        }
        self.inner_of_default(sketch, reading);
        let unseen = self.of_class.iter().filter(|(at, _)| !self.entered.contains(at));
        for filter in unseen.flat_map(|(_, filters)| filters) {
            reading.lost(filter.line, "no filter leads to its class");
        }
    }

    /// Packets of the default class that has a discipline below meet the filters of that.
    fn inner_of_default(&mut self, sketch: &mut Sketch, reading: &mut Reading) {
        let ends = |at: usize| {
            let mut end = at;
            while let Some(&(_, below)) = self.to.inner.get(&end).filter(|row| row.1 != end) {
                end = below;
            }
            end == self.to.default
        };
        let ways: Vec<usize> = self.to.inner.keys().copied().filter(|at| ends(*at)).collect();
        for at in ways {
            let Some(below) = self.of_class.remove(&at) else { continue };
            self.entered.insert(at);
            for filter in &below {
                self.follow(filter, &[Vec::new()], (1, &mut *sketch), reading);
            }
            self.of_class.insert(at, below);
        }
    }

    /// Returns the class below which the discipline of this handle is.
    fn outer(&self, (major, minor): Handle) -> Option<usize> {
        let found = self.to.inner.iter().find(|row| row.1.0 == major && minor == 0);
        found.map(|row| *row.0)
    }

    /// A major number that names no discipline means the root's.
    fn whole(&self, (major, minor): Handle) -> Handle {
        (if major == 0 { self.to.root } else { major }, minor)
    }

    fn class(&self, id: Handle) -> Option<usize> {
        let same = |other: &Handle| *other == id || self.to.by_minor && other.1 == id.1;
        self.to.ids.iter().position(same)
    }

    /// Sends packets that match one of `path` to the filter's target.
    fn follow(
        &mut self,
        filter: &Filter,
        path: &[Vec<Key>],
        (depth, sketch): (usize, &mut Sketch),
        reading: &mut Reading,
    ) {
        // A class that does not exist ends the search, too: the default class has the packet.
        let direct = self.to.direct.filter(|_| filter.target == (self.to.root, 0));
        let at = direct.or_else(|| self.class(filter.target)).unwrap_or(self.to.default);
        let all = path.iter().flat_map(|met| filter.rules.iter().map(move |own| (met, own)));
        let all = all.filter_map(|(met, own)| both(met, own)).take(RULES_MAX + 1);
        let conditions: Vec<Vec<Key>> = all.collect();
        if conditions.len() > RULES_MAX || self.rank > RULES_MAX as u64 || depth > DEPTH_MAX {
            let why = "with the filters that lead to it, it makes too many rules";
            return reading.lost(filter.line, why);
        }
        if !self.to.parents.contains(&at) {
            return self.add(at, conditions, sketch);
        }
        match self.of_class.remove(&at) {
            Some(below) => {
                self.entered.insert(at);
                for filter in &below {
                    self.follow(filter, &conditions, (depth + 1, &mut *sketch), reading);
                }
                self.of_class.insert(at, below);
            }
            None if self.to.inner.contains_key(&at) => {}
            None => {
                let note = "it leads to a class with children and no filters that it could enter, \
                            whose packets the kernel gives to the default class";
                reading.approximated(filter.line, note);
            }
        }
        let default = self.to.inner.get(&at).map_or(self.to.default, |row| row.1);
        self.add(default, conditions, sketch);
    }

    fn add(&mut self, at: usize, conditions: Vec<Vec<Key>>, sketch: &mut Sketch) {
        self.rank += 1;
        let rank = self.rank;
        let rules = conditions.into_iter().map(|keys| Rule { keys, rank });
        sketch.classes[at].rules.extend(rules);
    }
}

/// Returns the conditions of both; `None` if no packet satisfies them.
fn both(one: &[Key], other: &[Key]) -> Option<Vec<Key>> {
    let mut keys = one.to_vec();
    for (key, value) in other {
        match keys.iter_mut().find(|row| row.0 == *key) {
            None => keys.push((*key, value.clone())),
            Some(row) => row.1 = narrower(key, &row.1, value)?,
        }
    }
    Some(keys)
}

/// Returns a value that accepts what both values of a key accept.
fn narrower(key: &str, one: &str, other: &str) -> Option<String> {
    let bare = |value: &str| value.trim_matches('"').to_owned();
    match key {
        _ if one == other => Some(one.to_owned()),
        // The last action is the one nearest to the class.
        "police" | "set_dscp" => Some(other.to_owned()),
        "src" | "dst" => {
            let (first, second): (Prefix, Prefix) =
                (bare(one).parse().ok()?, bare(other).parse().ok()?);
            match (holds(first, second), holds(second, first)) {
                (true, _) => Some(other.to_owned()),
                (_, true) => Some(one.to_owned()),
                _ => None,
            }
        }
        "vlan" | "vlan_inner" => match (bare(one).as_str(), bare(other).as_str()) {
            ("any", "none") | ("none", "any") => None,
            ("any", _) => Some(other.to_owned()),
            (_, "any") => Some(one.to_owned()),
            _ => None,
        },
        "mark" => {
            let (first, second): (MarkTest, MarkTest) =
                (bare(one).parse().ok()?, bare(other).parse().ok()?);
            let agree = (first.value() ^ second.value()) & first.mask() & second.mask() == 0;
            let both = MarkTest::new(first.value() | second.value(), first.mask() | second.mask());
            both.ok().filter(|_| agree).map(|both| quoted(&both.to_string()))
        }
        "tcp_flags" => {
            let (first, second): (FlagTest, FlagTest) =
                (bare(one).parse().ok()?, bare(other).parse().ok()?);
            let agree = (first.value() ^ second.value()) & first.mask() & second.mask() == 0;
            let both = FlagTest::new(first.value() | second.value(), first.mask() | second.mask());
            both.ok().filter(|_| agree).map(|both| quoted(&both.to_string()))
        }
        "length" => {
            let (first, second): (LengthRange, LengthRange) =
                (bare(one).parse().ok()?, bare(other).parse().ok()?);
            let (from, to) = (first.first().max(second.first()), first.last().min(second.last()));
            LengthRange::new(from, to).ok().map(|both| quoted(&both.to_string()))
        }
        "sport" | "dport" => {
            let (first, second): (PortRange, PortRange) =
                (bare(one).parse().ok()?, bare(other).parse().ok()?);
            let (from, to) = (first.first().max(second.first()), first.last().min(second.last()));
            let range = PortRange::new(from, to).ok().filter(|_| from <= to)?;
            Some(quoted(&range.to_string()))
        }
        _ => None,
    }
}

/// Returns whether `outer` contains all addresses of `inner`.
fn holds(outer: Prefix, inner: Prefix) -> bool {
    outer.prefix_len() <= inner.prefix_len() && outer.contains(inner.network())
}

/// Bound: rules that a device's filters become; filters that make more are reported as lost.
const RULES_MAX: usize = 65_000;
/// Bound: filters that lead to one another; deeper ones are reported as lost. As deep as a tree of
/// classes may be; ends a chain that leads back to itself.
const DEPTH_MAX: usize = 8;
