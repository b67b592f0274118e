//! Distributing rules over tables: few tables, and few rules in each bucket.
//!
//! The tables are made one after the other from the patterns that are left. Candidates are the
//! shapes of the largest tuples and coarser ones; the shape with the best score wins, where a
//! pattern that shares its bucket counts little. A pattern whose bucket is full waits for the next
//! table. Rules that no mask separates share a bucket of any length: those that differ only in
//! ranges of ports that share no leading bits.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::Decision;
use super::super::key::{Bits, Family, Service, Single, field_words, leading, words_of};
use super::super::rule::{Match, PortRange, Prefix, Rule};
use super::{
    BLOCK, Block, CHUNK, Conditions, Link, PARTIAL, PLACES, Pattern, Slot, Table, Tables, Tuples,
    Words,
};

/// Whether patterns that an earlier rule repeats exactly are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// They are left out, since they never decide.
    LeftOut,
    Included,
}

pub(super) fn tuples(rules: &[Rule], targets: &[u32], repeats: Repeats) -> Tuples {
    let mut drafts = Drafts { links: alloc::vec![(0, 0)], ..Drafts::default() };
    let mut known_links = BTreeMap::from([((0, 0), 0)]);
    for (rule, number) in rules.iter().zip(0..) {
        // Rules that test stations or marks are in lists of their own, but may cover others.
        if repeats == Repeats::LeftOut && rule.matches.tests_beside() {
            continue;
        }
        let target = targets.get(number as usize).copied().unwrap_or_default();
        drafts.add(&rule.matches, Decision::new(number, target), &mut known_links);
    }
    Tuples {
        any: tables(drafts.any, None, repeats),
        v4: tables(drafts.v4, Some(Family::V4), repeats),
        v6: tables(drafts.v6, Some(Family::V6), repeats),
        links: drafts.links,
        listed: drafts.listed,
    }
}

/// Patterns that are not yet in a table.
#[derive(Default)]
struct Drafts {
    any: Vec<Draft<0>>,
    v4: Vec<Draft<1>>,
    v6: Vec<Draft<4>>,
    links: Vec<Link>,
    listed: Vec<(u32, Match)>,
}

struct Draft<const WORDS: usize> {
    shape: Shape,
    /// The value of the fields, for hashing.
    fields: [u64; 2],
    pattern: Pattern<WORDS>,
}

/// The bits that a pattern tests: prefix lengths, and bits of fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Shape {
    source: u8,
    destination: u8,
    fields: [u64; 2],
}

impl Drafts {
    fn add(&mut self, matches: &Match, decision: Decision, known_links: &mut BTreeMap<Link, u16>) {
        let mut partial = false;
        if matches.sources.is_empty() && matches.destinations.is_empty() {
            let (singles, left_out) = singles(matches);
            for single in singles {
                let (fields, conditions) = self.conditions(matches, single, known_links);
                let conditions = conditions.partial_if(left_out);
                partial |= conditions.is_partial();
                let any = (Bits::ANY, Bits::ANY);
                self.any.push(draft(None, any, fields, conditions.of(decision)));
            }
        } else {
            for family in [Family::V4, Family::V6] {
                partial |= self.add_of_family(family, matches, decision, known_links);
            }
        }
        if partial {
            self.listed.push((decision.rank(), matches.clone()));
        }
    }

    /// Adds the rule's patterns of one family; returns whether they are partial.
    fn add_of_family(
        &mut self,
        family: Family,
        matches: &Match,
        decision: Decision,
        known_links: &mut BTreeMap<Link, u16>,
    ) -> bool {
        let sources = of_family(&matches.sources, family);
        let destinations = of_family(&matches.destinations, family);
        let mut pairs = pairs(&sources, &destinations);
        let (mut singles, mut left_out) = singles(matches);
        left_out |= pairs.len() < sources.len() * destinations.len();
        if pairs.len().saturating_mul(singles.len()) > PATTERNS_MAX {
            left_out |= pairs.len() > 1 && singles.len() > 1;
            match pairs.len() >= singles.len() {
                true => singles = alloc::vec![hull(&singles)],
                false => pairs = alloc::vec![(common(&sources), common(&destinations))],
            }
        }
        let mut partial = false;
        for single in singles {
            let (fields, conditions) = self.conditions(matches, single, known_links);
            let conditions = conditions.partial_if(left_out).of(decision);
            partial |= conditions.is_partial() && !pairs.is_empty();
            for &pair in &pairs {
                match family {
                    Family::V4 => self.v4.push(draft(Some(family), pair, fields, conditions)),
                    Family::V6 => self.v6.push(draft(Some(family), pair, fields, conditions)),
                }
            }
        }
        partial
    }

    /// Returns the conditions of one pattern, without addresses and decision.
    fn conditions(
        &mut self,
        matches: &Match,
        single: Single,
        known_links: &mut BTreeMap<Link, u16>,
    ) -> (Fields, Conditions) {
        let (value, mask) = field_words(matches, single);
        let span = |range: Option<PortRange>| {
            range.map_or((0, u16::MAX), |range| (range.first(), range.last() - range.first()))
        };
        let ports = single.ports.map(span);
        // Any ports, but ports must be present, which no range expresses.
        let only_ports = ports == [span(None); 2] && single.ports != [None; 2];
        let left_out = only_ports || matches.details.is_some();
        let conditions = Conditions {
            class: (Service::class(value[0]), Service::class(mask[0])),
            ports,
            link: match left_out {
                true => PARTIAL,
                false => self.link((value[1], mask[1]), known_links),
            },
            ..Conditions::NONE
        };
        (Fields { value, mask }, conditions)
    }

    /// Returns the place of this link, adding it if it is new; [`PARTIAL`] when there are too many.
    fn link(&mut self, link: Link, known: &mut BTreeMap<Link, u16>) -> u16 {
        if let Some(place) = known.get(&link) {
            return *place;
        }
        let place = self.links.len() as u16;
        if place == PARTIAL {
            return PARTIAL;
        }
        self.links.push(link);
        known.insert(link, place);
        place
    }
}

/// Value and mask of both words of fields.
#[derive(Clone, Copy)]
struct Fields {
    value: [u64; 2],
    mask: [u64; 2],
}

/// Returns the prefixes of this family; any address if the rule names no prefix.
fn of_family(prefixes: &[Prefix], family: Family) -> Vec<Bits> {
    if prefixes.is_empty() {
        return alloc::vec![Bits::ANY];
    }
    prefixes.iter().filter(|prefix| Family::of(prefix) == family).map(Bits::of).collect()
}

/// Returns pairs of source and destination that together cover all. Where there would be too many,
/// the longer list is paired with the common bits of the shorter.
fn pairs(sources: &[Bits], destinations: &[Bits]) -> Vec<(Bits, Bits)> {
    let few = sources.len().saturating_mul(destinations.len()) <= PAIRS_MAX;
    if few || sources.len() == 1 || destinations.len() == 1 {
        let with = |&source: &Bits| destinations.iter().map(move |&other| (source, other));
        return sources.iter().flat_map(with).collect();
    }
    if sources.len() >= destinations.len() {
        let common = common(destinations);
        return sources.iter().map(|&source| (source, common)).collect();
    }
    let common = common(sources);
    destinations.iter().map(|&destination| (common, destination)).collect()
}

/// Returns the leading bits in which all agree.
fn common(list: &[Bits]) -> Bits {
    list.iter().copied().reduce(Bits::common).unwrap_or(Bits::ANY)
}

/// Returns combinations of ports and code points that together cover all of the rule's, and whether
/// they cover more. Where there would be too many, only the longest list is expanded.
fn singles(matches: &Match) -> (Vec<Single>, bool) {
    fn each<T: Copy>(list: &[T]) -> Vec<Option<T>> {
        match list.is_empty() {
            true => alloc::vec![None],
            false => list.iter().copied().map(Some).collect(),
        }
    }
    let mut sources = each(&matches.source_ports);
    let mut destinations = each(&matches.destination_ports);
    let mut dscps = each(&matches.dscps);
    let counts = [sources.len(), destinations.len(), dscps.len()];
    let longest = counts.into_iter().max().unwrap_or(1);
    let left_out = counts.into_iter().product::<usize>() > longest.max(PATTERNS_MAX);
    if left_out {
        let kept = counts.iter().position(|count| *count == longest);
        for (place, list) in [&mut sources, &mut destinations].into_iter().enumerate() {
            if kept != Some(place) {
                *list = alloc::vec![span_of(list)];
            }
        }
        if kept != Some(2) {
            dscps = alloc::vec![dscps[0].filter(|_| dscps.len() == 1)];
        }
    }
    let with_source = |&source: &Option<PortRange>| {
        let dscps = &dscps;
        destinations.iter().flat_map(move |&destination| {
            dscps.iter().map(move |&dscp| Single { ports: [source, destination], dscp })
        })
    };
    (sources.iter().flat_map(with_source).collect(), left_out)
}

/// Returns one range that holds all; any port if one of them is any.
fn span_of(ranges: &[Option<PortRange>]) -> Option<PortRange> {
    let first = ranges.iter().map(|range| range.as_ref().map(PortRange::first)).min().flatten()?;
    let last = ranges.iter().map(|range| range.as_ref().map(PortRange::last)).max().flatten()?;
    PortRange::new(first, last).ok()
}

/// Returns one combination that covers all.
fn hull(singles: &[Single]) -> Single {
    let span = |place: usize| {
        span_of(&singles.iter().map(|single| single.ports[place]).collect::<Vec<_>>())
    };
    let dscp = singles.first().and_then(|single| single.dscp);
    let same = singles.iter().all(|single| single.dscp == dscp);
    Single { ports: [span(0), span(1)], dscp: dscp.filter(|_| same) }
}

fn draft<const WORDS: usize>(
    family: Option<Family>,
    (source, destination): (Bits, Bits),
    fields: Fields,
    conditions: Conditions,
) -> Draft<WORDS> {
    let shape = Shape { source: source.len, destination: destination.len, fields: fields.mask };
    let words = family.map_or([0; 4], |family| words_of(family, source.bits, destination.bits));
    let conditions = Conditions { lens: (source.len, destination.len), ..conditions };
    Draft { shape, fields: fields.value, pattern: Pattern { addresses: cut(words), conditions } }
}

fn cut<const WORDS: usize>(words: [u64; 4]) -> [u64; WORDS] {
    *words.first_chunk().expect("no family has more words")
}

/// Addresses, fields and ports of a pattern, and its rule if the pattern is partial.
type Wanted<const WORDS: usize> = ([u64; WORDS], [u64; 2], [(u16, u16); 2], Option<u32>);

impl<const WORDS: usize> Draft<WORDS> {
    /// Returns the conditions beside the shape, and the rule.
    fn wants(&self) -> (Wanted<WORDS>, u32) {
        let Conditions { ports, decision, .. } = self.pattern.conditions;
        let rule = decision.rank();
        // Partial patterns of two rules may differ in what they leave out.
        let own = self.pattern.conditions.is_partial().then_some(rule);
        ((self.pattern.addresses, self.fields, ports, own), rule)
    }

    fn words(&self) -> Words<WORDS> {
        Words { addresses: self.pattern.addresses, fields: self.fields }
    }
}

impl Shape {
    fn mask<const WORDS: usize>(self, family: Option<Family>) -> Words<WORDS> {
        let (source, destination) = (leading(self.source), leading(self.destination));
        let words = family.map_or([0; 4], |family| words_of(family, source, destination));
        Words { addresses: cut(words), fields: self.fields }
    }

    fn bits(self) -> u32 {
        let fields: u32 = self.fields.iter().map(|word| word.count_ones()).sum();
        fields + u32::from(self.source) + u32::from(self.destination)
    }

    /// Returns whether a table of this shape can hold patterns of the other.
    fn holds(self, other: Shape) -> bool {
        let fields = self.fields.iter().zip(other.fields).all(|(mine, other)| mine & !other == 0);
        fields && self.source <= other.source && self.destination <= other.destination
    }

    /// Returns candidate shapes of tables for this one, from coarse to fine; the last is itself.
    fn coarser(self, family: Option<Family>) -> Vec<Shape> {
        let steps = match family {
            None => [0, 0],
            Some(Family::V4) => [16, 24],
            Some(Family::V6) => [32, 48],
        };
        let down = |len: u8, to: u8| if len >= to { to } else { len & !7 };
        let shape = |source, destination, fields| Shape { source, destination, fields };
        let (none, own) = ([0; 2], self.fields);
        let mut shapes = alloc::vec![shape(0, 0, none)];
        for to in steps {
            let (source, destination) = (down(self.source, to), down(self.destination, to));
            shapes.push(shape(0, destination, none));
            shapes.push(shape(source, 0, none));
            shapes.push(shape(source, destination, none));
        }
        shapes.push(shape(self.source, self.destination, none));
        shapes.push(shape(0, 0, own));
        for to in steps {
            shapes.push(shape(down(self.source, to), down(self.destination, to), own));
        }
        shapes.push(self);
        shapes
    }
}

/// A table while patterns are added.
struct Open {
    shape: Shape,
    members: Vec<u32>,
}

/// Puts all drafts into tables.
fn tables<const WORDS: usize>(
    mut drafts: Vec<Draft<WORDS>>,
    family: Option<Family>,
    repeats: Repeats,
) -> Tables<WORDS> {
    drafts.sort_unstable_by_key(|draft| (draft.shape, draft.wants()));
    if repeats == Repeats::LeftOut {
        drafts.dedup_by_key(|draft| (draft.shape, draft.wants().0));
    }
    let placing = Placing { drafts: &drafts, family };
    let mut rest: Vec<Group> = by_shape(&drafts);
    let mut open = Vec::new();
    while !rest.is_empty() {
        open.push(placing.open(&mut rest, open.len() + 1 == TABLES_MAX));
        rest.retain(|group| !group.members.is_empty());
    }
    let rule = |index: &u32| drafts[*index as usize].pattern.conditions.decision.rank();
    let first = |open: &Open| open.members.iter().map(rule).min().unwrap_or(u32::MAX);
    open.sort_by_cached_key(first);
    let firsts: Vec<u32> = open.iter().map(first).collect();
    close(&open, &drafts, family, &firsts)
}

/// Drafts of one shape.
struct Group {
    shape: Shape,
    members: Vec<u32>,
}

fn by_shape<const WORDS: usize>(drafts: &[Draft<WORDS>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (draft, index) in drafts.iter().zip(0..) {
        match groups.last_mut() {
            Some(group) if group.shape == draft.shape => group.members.push(index),
            _ => groups.push(Group { shape: draft.shape, members: alloc::vec![index] }),
        }
    }
    groups
}

struct Placing<'a, const WORDS: usize> {
    drafts: &'a [Draft<WORDS>],
    family: Option<Family>,
}

impl<const WORDS: usize> Placing<'_, WORDS> {
    /// Takes the patterns of the next table out of `rest`; its shape is the best of those tried.
    /// The `last` table takes everything.
    fn open(&self, rest: &mut [Group], last: bool) -> Open {
        let shape = if last { NOTHING } else { self.best_shape(rest) };
        let mut members = Vec::new();
        let total: usize = rest.iter().map(|group| group.members.len()).sum();
        let mut counts = alloc::vec![0; counters(total)];
        let mask = shape.mask(self.family);
        for group in rest.iter_mut().filter(|group| shape.holds(group.shape)) {
            // Patterns that no mask separates stay together.
            let all = last || shape == group.shape;
            group.members.retain(|&index| {
                let fits = count(&mut counts, &mask, self.draft(index)) > 0 || all;
                if fits {
                    members.push(index);
                }
                !fits
            });
        }
        Open { shape, members }
    }

    /// Returns the shape that holds most of the rest, with few patterns in a bucket.
    fn best_shape(&self, rest: &[Group]) -> Shape {
        let mut largest: Vec<&Group> = rest.iter().collect();
        largest.sort_by_key(|group| Reverse(group.members.len()));
        largest.truncate(GROUPS_TRIED);
        let mut shapes: Vec<Shape> =
            largest.iter().flat_map(|group| group.shape.coarser(self.family)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        let best = shapes.into_iter().max_by_key(|&shape| (self.score(shape, rest), shape.bits()));
        best.unwrap_or(NOTHING)
    }

    /// Returns the score of a table of this shape.
    fn score(&self, shape: Shape, rest: &[Group]) -> u64 {
        let held = || rest.iter().filter(|group| shape.holds(group.shape));
        let total: usize = held().map(|group| group.members.len()).sum();
        let mut counts = alloc::vec![0; counters(total)];
        let mask = shape.mask(self.family);
        let members = held().flat_map(|group| &group.members);
        members.map(|&index| u64::from(count(&mut counts, &mask, self.draft(index)))).sum()
    }

    fn draft(&self, index: u32) -> &Draft<WORDS> {
        &self.drafts[index as usize]
    }
}

/// Returns a number of counters for `patterns`: enough that few share one by chance.
fn counters(patterns: usize) -> usize {
    (patterns * 4).next_power_of_two().min(COUNTERS_MAX)
}

/// Counts the pattern, if its bucket has room, and returns its score there.
fn count<const WORDS: usize>(counts: &mut [u8], mask: &Words<WORDS>, draft: &Draft<WORDS>) -> u8 {
    let place = (mask.hash_linked(&draft.words()) >> (u64::BITS - counts.len().ilog2())) as usize;
    match counts[place] {
        BUCKET_PATTERNS => 0,
        before => {
            counts[place] += 1;
            if before == 0 { ALONE } else { 1 }
        }
    }
}

/// Builds the finished tables.
fn close<const WORDS: usize>(
    open: &[Open],
    drafts: &[Draft<WORDS>],
    family: Option<Family>,
    firsts: &[u32],
) -> Tables<WORDS> {
    let padded = |firsts: &[u32]| {
        let mut row = [u32::MAX; PLACES];
        row[..firsts.len()].copy_from_slice(firsts);
        row
    };
    let mut tables = Tables {
        tables: Vec::with_capacity(open.len()),
        firsts: firsts.chunks(CHUNK).map(padded).collect(),
        slots: Vec::new(),
        linked: false,
        blocks: Vec::with_capacity(drafts.len() * 3 / 4),
    };
    for open in open {
        tables.add(open.shape.mask(family), open.members.iter().map(|&at| &drafts[at as usize]));
    }
    tables.linked = tables.tables.iter().any(|table| table.mask.fields[1] != 0);
    tables.slots.push(Slot { start: tables.blocks.len() as u32, marks: 0 });
    tables.blocks.shrink_to_fit();
    tables
}

impl<const WORDS: usize> Tables<WORDS> {
    /// Adds a table with these members.
    fn add<'a>(
        &mut self,
        mask: Words<WORDS>,
        members: impl ExactSizeIterator<Item = &'a Draft<WORDS>>,
    ) {
        let (first, count) = (self.slots.len() as u32, members.len().next_power_of_two() as u32);
        let table = Table::new(mask, first, count);
        let mut placed: Vec<(u32, u32, u32, &Pattern<WORDS>)> = Vec::with_capacity(members.len());
        for draft in members {
            let (slot, mark) = table.place(mask.hash_linked(&draft.words()));
            let rule = draft.pattern.conditions.decision.rank();
            placed.push((slot, rule, mark, &draft.pattern));
        }
        placed.sort_unstable_by_key(|&(slot, rule, ..)| (slot, rule));
        let mut placed = placed.into_iter().peekable();
        for slot in first..first + count {
            let mut row = Slot { start: self.blocks.len() as u32, marks: 0 };
            let mut next = || placed.next_if(|row| row.0 == slot);
            while let Some(first) = next() {
                let mut block =
                    [Pattern { addresses: [0; WORDS], conditions: Conditions::NONE }; BLOCK];
                let members = core::iter::once(first).chain(core::iter::from_fn(&mut next));
                for (place, (.., mark, pattern)) in block.iter_mut().zip(members) {
                    row.marks |= 1 << mark;
                    *place = *pattern;
                }
                self.blocks.push(Block(block));
            }
            self.slots.push(row);
        }
        self.tables.push(table);
    }
}

const NOTHING: Shape = Shape { source: 0, destination: 0, fields: [0; 2] };
/// Bound: patterns that share a key while there is a finer mask; further ones go to a table with
/// the finer mask. One packet is compared with all of them in one table.
const BUCKET_PATTERNS: u8 = 8;
/// The score of the first pattern of a bucket, relative to one that shares it: a mask that
/// separates few patterns sends every packet through all of them.
const ALONE: u8 = 8;
/// Bound: tables of one family; the last one takes the rest, and its buckets may be long.
const TABLES_MAX: usize = 64;
/// Tuples whose shapes are tried for the next table.
const GROUPS_TRIED: usize = 4;
/// Bound: pairs of source and destination that one rule is expanded to; a rule with more tests one
/// of them afterwards.
const PAIRS_MAX: usize = 16;
/// The most patterns of one rule, unless a single list is longer.
const PATTERNS_MAX: usize = 32;
/// The counters of a table while it is built: at most one megabyte.
const COUNTERS_MAX: usize = 1 << 20;
