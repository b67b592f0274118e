//! Which packets go to another class: the regions in which two lists of rules decide differently.
//!
//! A packet that matches no changed rule is decided by the longest common part of both lists, so
//! equally by both. So only regions of changed rules are examined; each is cut along the rules of
//! both lists that overlap it until one rule of each decides all that is left. Invariant: the
//! returned regions are disjoint and hold exactly the packets that move, unless the search was
//! given up (`WORK_MAX`), which is reported.

use super::region::Region;
use crate::policy::Policy;
use std::collections::BTreeMap;
use weir_core::classify::{Rule, Spread, Target};

/// Packets that go from one class to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Move {
    /// The class of the first policy.
    pub from: String,
    /// The class of the second policy.
    pub to: String,
    /// The packets, in disjoint regions.
    pub regions: Vec<Region>,
}

/// All packets that move.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moves {
    /// Moves, by old and new class.
    pub moves: Vec<Move>,
    /// The names of the interfaces that regions number.
    pub interfaces: Vec<String>,
    /// Whether the search ended early and there may be more.
    pub given_up: bool,
}

/// A rule, as compared.
#[derive(Clone, PartialEq)]
struct Row {
    regions: Vec<Region>,
    target: usize,
}

/// One list of rules.
struct List {
    rows: Vec<Row>,
    default: usize,
}

/// The classes that both lists decide for.
#[derive(Default)]
struct Names {
    of: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Names {
    fn number(&mut self, policy: &Policy, target: Target) -> usize {
        let class = policy.leaf_name(target.leaf);
        let name = match target.spread {
            None => class.to_owned(),
            Some(Spread { queues, hash }) => {
                let class = class.strip_suffix("-0").unwrap_or(class);
                format!("{class} ({queues} queues by {hash:?})")
            }
        };
        let next = self.of.len();
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.of.push(name.clone());
            next
        })
    }
}

/// Returns the packets that `new` sends to another class than `old`.
pub fn moves(old: &Policy, new: &Policy) -> Moves {
    let mut interfaces = old.interfaces.clone();
    for name in &new.interfaces {
        if !interfaces.contains(name) {
            interfaces.push(name.clone());
        }
    }
    let mut names = Names::default();
    let lists = [old, new].map(|policy| list(policy, &interfaces, &mut names));
    let mut search = Search { lists: &lists, found: BTreeMap::new(), work: 0 };
    if lists[0].default == lists[1].default {
        search.changed_regions();
    } else {
        search.decide_from(Region::ALL);
    }
    let given_up = search.work > WORK_MAX;
    let moved = search.found.into_iter().map(|((from, to), regions)| Move {
        from: names.of[from].clone(),
        to: names.of[to].clone(),
        regions: joined(regions),
    });
    Moves { moves: moved.collect(), interfaces, given_up }
}

fn list(policy: &Policy, interfaces: &[String], names: &mut Names) -> List {
    let arranged = policy.search.order.arrange(policy.rules.clone());
    let row = |(_, rule): (u32, Rule)| {
        let interface = rule.matches.interface.and_then(|id| {
            let name = policy.interfaces.get(usize::from(id.0))?;
            interfaces.iter().position(|other| other == name)
        });
        let regions = Region::of(&rule.matches, interface.map(|at| at as u16));
        Row { regions, target: names.number(policy, rule.target()) }
    };
    let rows = arranged.into_iter().map(row).collect();
    List { rows, default: names.number(policy, policy.default) }
}

struct Search<'l> {
    lists: &'l [List; 2],
    found: BTreeMap<(usize, usize), Vec<Region>>,
    work: usize,
}

/// The rules of both lists that overlap a region, as places in their lists.
type Candidates = [Vec<u32>; 2];

impl Search<'_> {
    /// Examines the regions of the rules that are not in the common part, each packet once.
    fn changed_regions(&mut self) {
        let mut done: Vec<Region> = Vec::new();
        for (list, place) in changed(self.lists) {
            for region in &self.lists[list].rows[place].regions {
                self.work += done.len();
                let mut parts = vec![*region];
                for earlier in &done {
                    parts = parts.iter().flat_map(|part| part.without(earlier)).collect();
                }
                parts.into_iter().for_each(|part| self.decide_from(part));
                done.push(*region);
                if self.work > WORK_MAX {
                    return;
                }
            }
        }
    }

    fn decide_from(&mut self, region: Region) {
        self.work += self.lists.iter().map(|list| list.rows.len()).sum::<usize>();
        let all = [0, 1].map(|list: usize| (0..self.lists[list].rows.len() as u32).collect());
        let within = self.within(&region, &all);
        let mut open = vec![(region, within)];
        while let Some((region, candidates)) = open.pop() {
            if self.work > WORK_MAX {
                return;
            }
            open.extend(self.decide(region, &candidates));
        }
    }

    /// Decides a region, or cuts it into parts that are easier to decide.
    fn decide(&mut self, region: Region, candidates: &Candidates) -> Vec<(Region, Candidates)> {
        self.work += 1 + candidates[0].len() + candidates[1].len();
        if self.same(candidates) {
            return Vec::new();
        }
        let mut deciders = [0, 1].map(|list: usize| self.lists[list].default);
        for list in [0, 1] {
            let Some(&first) = candidates[list].first() else { continue };
            let row = &self.lists[list].rows[first as usize];
            deciders[list] = row.target;
            if row.regions.iter().any(|part| part.covers(&region)) {
                continue;
            }
            let reaches = row.regions.iter().find_map(|part| part.meet(&region));
            let cut = reaches.expect("a candidate overlaps the region");
            let mut parts = region.without(&cut);
            parts.push(cut);
            let with = |part: Region| (part, self.within(&part, candidates));
            return parts.into_iter().map(with).collect();
        }
        if let Some(region) = region.possible().filter(|_| deciders[0] != deciders[1]) {
            self.found.entry((deciders[0], deciders[1])).or_default().push(region);
        }
        Vec::new()
    }

    /// Returns the candidates that overlap `region`, up to one that takes all of it.
    fn within(&self, region: &Region, candidates: &Candidates) -> Candidates {
        [0, 1].map(|list: usize| {
            let mut within = Vec::new();
            for &place in &candidates[list] {
                let regions = &self.lists[list].rows[place as usize].regions;
                if regions.iter().any(|part| part.meet(region).is_some()) {
                    within.push(place);
                }
                if regions.iter().any(|part| part.covers(region)) {
                    break;
                }
            }
            within
        })
    }

    /// Returns whether both lists continue with the same rules.
    fn same(&self, candidates: &Candidates) -> bool {
        let rows = |list: usize| {
            let row = move |&place: &u32| &self.lists[list].rows[place as usize];
            candidates[list].iter().map(row)
        };
        let length = candidates[0].len() == candidates[1].len();
        length && self.lists[0].default == self.lists[1].default && rows(0).eq(rows(1))
    }
}

/// Returns the rules that are not in a longest common part of both lists, as list and place.
fn changed(lists: &[List; 2]) -> Vec<(usize, usize)> {
    let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, row) in lists[1].rows.iter().enumerate().rev() {
        places.entry(key(row)).or_default().push(place);
    }
    // Equal rules are paired in their order; pairs that do not cross are common.
    let pairs: Vec<_> = lists[0]
        .rows
        .iter()
        .enumerate()
        .filter_map(|(place, row)| Some((place, places.get_mut(&key(row))?.pop()?)))
        .collect();
    let mut common = [vec![false; lists[0].rows.len()], vec![false; lists[1].rows.len()]];
    for at in longest_rise(&pairs) {
        common[0][pairs[at].0] = true;
        common[1][pairs[at].1] = true;
    }
    let changed = |list: usize| {
        let row = move |(place, is_common): (usize, &bool)| (!is_common).then_some((list, place));
        common[list].iter().enumerate().filter_map(row)
    };
    changed(0).chain(changed(1)).collect()
}

/// Returns a sort key that is equal for equal rows.
fn key(row: &Row) -> String {
    format!("{:?} {}", row.regions, row.target)
}

/// Returns the places of a longest part of `pairs` whose second numbers rise.
fn longest_rise(pairs: &[(usize, usize)]) -> Vec<usize> {
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (at, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end: &usize| pairs[end].1 < pair.1);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut rise: Vec<_> = std::iter::successors(ends.last().copied(), |&at| before[at]).collect();
    rise.reverse();
    rise
}

/// Merges regions that form one box.
fn joined(mut regions: Vec<Region>) -> Vec<Region> {
    if regions.len() > JOINED_MAX {
        return regions;
    }
    let mut at = 0;
    while at < regions.len() {
        let join = (0..regions.len())
            .filter(|&other| other != at)
            .find_map(|other| Some((other, regions[at].joined(&regions[other])?)));
        match join {
            Some((other, both)) => {
                regions[at] = both;
                regions.swap_remove(other);
                // Terminates: each merge removes a region.
                at = 0;
            }
            None => at += 1,
        }
    }
    regions
}

/// The most rules and regions examined before the search is given up: some seconds.
const WORK_MAX: usize = 50_000_000;
/// More regions than this are returned unmerged.
const JOINED_MAX: usize = 500;
