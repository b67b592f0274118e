//! The decision graph of a list of cases: each node reads one word of a field and goes on by it.
//!
//! Neighbouring cases that differ in one field are one group: its other conditions are tested once,
//! and then one search over the ranges of that field finds the first case that has its number. A
//! frame that a group does not take goes on to the next; ring 0 is behind the last.
//!
//! Invariant: nodes lead only to nodes that stand before them in the list, so a program that has
//! them in reverse order jumps only forward.

use super::cases::{Case, Conditions, Family, Field};
use super::ranges::RangeMap;
use serde::{Deserialize, Serialize};

/// Which fields some decision reads that few rules test: a program reads no others of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Reads {
    pub pcp: bool,
    pub tcp_flags: bool,
    pub icmp: bool,
}

impl Reads {
    /// Returns those that these graphs read.
    pub fn of(graphs: &[Graph; 3]) -> Reads {
        let reads = |field| graphs.iter().any(|graph| graph.reads(field));
        Reads {
            pcp: reads(Field::Pcp),
            tcp_flags: reads(Field::TcpFlags),
            icmp: reads(Field::Icmp),
        }
    }
}

/// Where a decision leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Goal {
    /// The frame goes to this ring.
    Ring(u8),
    /// The node at this place decides.
    Node(usize),
}

/// A decision by one word of a field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    /// The field of which it reads one word.
    pub field: Field,
    /// Which of its words, from the highest.
    pub word: u32,
    /// Ranges of numbers, in order and apart, and where each leads.
    pub arms: Vec<(u32, u32, Goal)>,
    /// Where all other numbers lead.
    pub otherwise: Goal,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Graph {
    /// The nodes, the last decision first.
    pub nodes: Vec<Node>,
    pub start: Goal,
}

impl Graph {
    /// Returns the graph of the cases of a family.
    pub fn new(cases: &[Case], family: Family) -> Graph {
        let mut graph = Graph { nodes: Vec::new(), start: Goal::Ring(0) };
        for group in groups(cases).iter().rev() {
            graph.start = graph.group(group, family);
        }
        graph
    }

    /// Returns whether a decision reads this field.
    pub fn reads(&self, field: Field) -> bool {
        self.nodes.iter().any(|node| node.field == field)
    }

    /// Adds the nodes of a group before `start`; returns the first of them.
    fn group(&mut self, group: &Group<'_>, family: Family) -> Goal {
        let (next, first) = (self.start, &group.cases[0]);
        let Some(last) = first.conditions.last() else {
            // Nothing leads to what comes later.
            self.nodes.clear();
            return Goal::Ring(first.ring);
        };
        let varying = group.varying.unwrap_or(last.0);
        let mut map = RangeMap::default();
        for case in group.cases {
            let ranges = case.conditions.iter().find(|row| row.0 == varying);
            map.fill(&ranges.expect("every case of a group has the field").1, case.ring);
        }
        let arms = map.into_joined().into_iter();
        let arms: Vec<_> = arms.map(|(low, high, ring)| (low, high, Goal::Ring(ring))).collect();
        let mut goal = self.switch((varying, 0), varying.words(family), arms, next);
        for (field, ranges) in first.conditions.iter().rev().filter(|row| row.0 != varying) {
            let arms = ranges.each().iter().map(|&(low, high)| (low, high, goal)).collect();
            goal = self.switch((*field, 0), field.words(family), arms, next);
        }
        goal
    }

    /// Adds nodes that find a number among ranges of `words` words, from the word given on; returns
    /// the first of them.
    fn switch(
        &mut self,
        (field, word): (Field, u32),
        words: u32,
        ranges: Vec<(u128, u128, Goal)>,
        otherwise: Goal,
    ) -> Goal {
        let mut arms = Vec::new();
        for (low, high, part) in parts(ranges, words - 1) {
            let goal = match part {
                Part::Whole(goal) => goal,
                Part::Below(ranges) => self.switch((field, word + 1), words - 1, ranges, otherwise),
            };
            arms.push((low, high, goal));
        }
        self.nodes.push(Node { field, word, arms, otherwise });
        Goal::Node(self.nodes.len() - 1)
    }
}

/// The goals behind one value of the first word.
enum Part {
    /// Nothing: the first word suffices.
    Whole(Goal),
    /// The goal, by these ranges.
    Below(Vec<(u128, u128, Goal)>),
}

/// Splits ranges of numbers by their first word, behind which are `below` words.
fn parts(ranges: Vec<(u128, u128, Goal)>, below: u32) -> Vec<(u32, u32, Part)> {
    let mut parts: Vec<(u32, u32, Part)> = Vec::new();
    let shift = 32 * below;
    let rest_max = (1_u128 << shift) - 1;
    let push_below = |parts: &mut Vec<(u32, u32, Part)>, word: u32, range| match parts.last_mut() {
        Some((_, last, Part::Below(ranges))) if *last == word => ranges.push(range),
        _ => parts.push((word, word, Part::Below(vec![range]))),
    };
    for (low, high, goal) in ranges {
        let (mut first, mut last) = ((low >> shift) as u64, (high >> shift) as u64);
        let (low_rest, high_rest) = (low & rest_max, high & rest_max);
        if first == last && (low_rest, high_rest) != (0, rest_max) {
            push_below(&mut parts, first as u32, (low_rest, high_rest, goal));
            continue;
        }
        if low_rest != 0 {
            push_below(&mut parts, first as u32, (low_rest, rest_max, goal));
            first += 1;
        }
        let tail = (high_rest != rest_max).then_some(last);
        // The first word is below the last here, so the last is not 0.
        last -= u64::from(tail.is_some());
        if first <= last {
            parts.push((first as u32, last as u32, Part::Whole(goal)));
        }
        if let Some(word) = tail {
            push_below(&mut parts, word as u32, (0, high_rest, goal));
        }
    }
    parts
}

/// Neighbouring cases whose conditions are equal but for one field.
struct Group<'a> {
    cases: &'a [Case],
    varying: Option<Field>,
}

fn groups(cases: &[Case]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    let mut from = 0;
    while from < cases.len() {
        let mut varying = None;
        let mut to = from + 1;
        while let Some(case) = cases.get(to) {
            let differing = difference(&cases[from].conditions, &case.conditions);
            match (differing, varying) {
                (Some(None), _) => {}
                (Some(Some(field)), None) => varying = Some(field),
                (Some(Some(field)), Some(other)) if field == other => {}
                _ => break,
            }
            to += 1;
        }
        groups.push(Group { cases: &cases[from..to], varying });
        from = to;
    }
    groups
}

/// Returns the field in which two lists of conditions differ, if any; `None` if they differ in more
/// than one, or do not test the same fields.
fn difference(one: &Conditions, other: &Conditions) -> Option<Option<Field>> {
    let same_fields = one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0);
    let mut differing = one.iter().zip(other).filter(|(a, b)| a.1 != b.1).map(|(a, _)| a.0);
    let field = differing.next();
    (same_fields && differing.next().is_none()).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorter::ranges::Ranges;
    use weir_core::ids::LeafId;

    /// Follows a graph for packets whose source is `number`, which has four words.
    fn ring(graph: &Graph, number: u128) -> u8 {
        let mut goal = graph.start;
        loop {
            let place = match goal {
                Goal::Ring(ring) => return ring,
                Goal::Node(place) => place,
            };
            let node = &graph.nodes[place];
            let word = (number >> (96 - 32 * node.word)) as u32;
            let arm = node.arms.iter().find(|arm| (arm.0..=arm.1).contains(&word));
            goal = arm.map_or(node.otherwise, |arm| arm.2);
        }
    }

    #[test]
    fn ranges_of_long_numbers_are_split_by_words() {
        const WORD: u128 = 1 << 32;
        const MAX: u128 = u128::MAX;
        let rows: &[&[(u128, u128)]] = &[
            &[(1, WORD)],
            &[(WORD - 1, WORD)],
            &[(0, WORD - 1), (WORD + 1, 3 * WORD - 1)],
            &[(1, 1), (3, WORD * WORD), (WORD * WORD + 5, MAX - 1)],
            &[(1, MAX - 1)],
            &[(0, MAX)],
            &[(MAX, MAX)],
            &[(WORD * WORD * WORD - 1, WORD * WORD * WORD)],
        ];
        for ranges in rows {
            let conditions = vec![(Field::Source, Ranges::of(ranges.iter().copied()))];
            let case = Case { rule: 0, leaf: LeafId(0), conditions, ring: 1 };
            let graph = Graph::new(&[case], Family::V6);
            let ends = ranges.iter().flat_map(|range| [range.0, range.1]);
            for number in ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]) {
                let within = ranges.iter().any(|range| (range.0..=range.1).contains(&number));
                assert_eq!(ring(&graph, number), u8::from(within), "{number:#x} in {ranges:x?}");
            }
        }
    }
}
