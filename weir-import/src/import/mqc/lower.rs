//! Converts a policy-map, with those below its classes, to a tree of classes of `htb`.

use super::super::Options;
use super::super::conditions::Conditions;
use super::super::decide::with_exceptions;
use super::super::lines::Reading;
use super::super::sketch::{Class, Rule, Sketch, inline, quoted, rate_value, show_rate};
use super::conditions::{Rules, both, rules};
use super::{File, Interface, PolicyClass, PolicyMap, Share};
use weir_policy::finding::Span;

/// The class and the rate that a level of classes stands below.
struct Above {
    class: Option<usize>,
    /// The rate that its classes share in bit/s.
    rate: u64,
    /// Which packets come to it.
    rules: Rules,
    depth: usize,
}

/// A tree while it is built.
struct Tree<'f> {
    file: &'f File,
    sketch: Sketch,
    /// The conditions of packets and their classes, the first that match count.
    given: Vec<(Conditions, usize)>,
}

/// The interface that has a policy-map.
struct Place<'f> {
    name: &'f str,
    span: Span,
    rate: Option<u64>,
}

/// Everything that a tree is built from.
struct Tables<'f> {
    file: &'f File,
    options: &'f Options,
}

/// Returns a policy for each interface with a policy of departing packets.
pub(super) fn sketches(file: &File, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut sketches = Vec::new();
    for one in &file.interfaces {
        let Some((name, line)) = &one.output else { continue };
        let Some(map) = file.policies.iter().find(|map| map.name == *name) else {
            reading.lost(*line, format!("the file has no policy-map `{name}`"));
            continue;
        };
        let given = options.rate.map(|rate| rate.bits_per_second());
        let rate = one.rate.or(given).or_else(|| rate_of(one, reading));
        let place = Place { name: &one.name, span: one.span, rate };
        sketches.extend(sketch(&Tables { file, options }, map, &place, reading));
    }
    if sketches.is_empty() {
        let child = |map: &&PolicyMap| {
            let mut classes = file.policies.iter().flat_map(|one| &one.classes);
            classes.any(|class| class.child.as_ref() == Some(&map.name))
        };
        for map in file.policies.iter().filter(|map| !child(map)) {
            let note = "no interface of the file has it: a policy of its own name";
            reading.noted(map.line, note);
            let place = Place { name: &map.name, span: reading.span(map.line), rate: None };
            sketches.extend(sketch(&Tables { file, options }, map, &place, reading));
        }
    }
    sketches
}

/// Returns the rate of an interface by its kind.
fn rate_of(one: &Interface, reading: &mut Reading) -> Option<u64> {
    let row = KINDS.iter().find(|row| one.name.to_lowercase().starts_with(row.0))?;
    let rate = show_rate(row.1);
    let note = format!("no `bandwidth` is written: it is taken as {rate}, as the router does");
    reading.noted(one.line, note);
    Some(row.1)
}

fn sketch(
    tables: &Tables<'_>,
    map: &PolicyMap,
    place: &Place<'_>,
    reading: &mut Reading,
) -> Option<Sketch> {
    let (Tables { file, options }, Place { name, span, rate }) = (tables, place);
    let mut sketch = Sketch::new(*name, *span);
    sketch.scheduler = "htb";
    sketch.rate = rate.unwrap_or(0);
    let mut map = map;
    // A shaper of all packets with classes below it is the link.
    while let [all] = map.classes.as_slice()
        && all.name == DEFAULT
        && let (Some(Share::Bits(bits)), Some(child)) = (all.shape, &all.child)
        && let Some(below) = file.policies.iter().find(|one| one.name == *child)
        && below.name != map.name
    {
        sketch.rate = if sketch.rate == 0 { bits } else { bits.min(sketch.rate) };
        reading.noted(all.line, "its shaper is the rate of the link");
        map = below;
    }
    sketch.rate_or(options, map.line, reading);
    if map.classes.is_empty() {
        reading.lost(map.line, "it has no classes");
        return None;
    }
    let rules = vec![Conditions::default()];
    let above = Above { class: None, rate: sketch.rate, rules, depth: 0 };
    let mut tree = Tree { file, sketch, given: Vec::new() };
    tree.level(map, &above, reading);
    tree.write();
    tree.sketch.under_link(map.line);
    Some(tree.sketch)
}

impl Tree<'_> {
    /// Adds the classes of a policy-map.
    fn level(&mut self, map: &PolicyMap, above: &Above, reading: &mut Reading) {
        // The router adds it where the file does not.
        let default = PolicyClass::new(DEFAULT.to_owned(), map.line);
        let has_default = map.classes.iter().any(|class| class.name == DEFAULT);
        let added = (!has_default).then_some(&default);
        let classes: Vec<&PolicyClass> = map.classes.iter().chain(added).collect();
        let mut rates = rates(&classes, above.rate);
        let excess = rates.iter().fold(0, |sum: u64, rate| sum.saturating_add(*rate));
        let excess = excess.saturating_sub(above.rate);
        let largest = (0..rates.len()).max_by_key(|at| rates[*at]).unwrap_or_default();
        if excess > 0 && excess <= above.rate / 500 {
            rates[largest] -= excess;
            let note = "classes without a bandwidth of their own have a thousandth of the rate, \
                        and this one less by it";
            reading.approximated(classes[largest].line, note);
        }
        for (class, rate) in classes.into_iter().zip(rates) {
            self.class(class, rate, above, reading);
        }
    }

    fn class(&mut self, class: &PolicyClass, rate: u64, above: &Above, reading: &mut Reading) {
        let is_default = class.name == DEFAULT;
        let matched = match is_default {
            true => Some(vec![Conditions::default()]),
            false => rules(self.file, &class.name, 0, reading),
        };
        if matched.as_ref().is_none_or(Vec::is_empty) {
            let note = match self.file.class_maps.contains_key(&class.name) {
                true => "Weir cannot match what it matches: no packet leads to it",
                false => "the file has no class-map of this name: no packet leads to it",
            };
            reading.approximated(class.line, note);
        }
        let rules = both(&above.rules, &matched.unwrap_or_default());
        let name = match above.class {
            Some(at) => format!("{}-{}", self.sketch.classes[at].name, class.name),
            None => class.name.clone(),
        };
        let mut lowered = Class::new(name, above.class, class.line);
        let rate = rate.clamp(1, above.rate.max(1));
        lowered.rate = Some(rate);
        let ceil = self.ceil(class, rate, above, reading);
        lowered.keys.push(("ceil", rate_value(ceil)));
        let prio = class.priority.map_or(7, |(level, _)| level.clamp(1, 7) - 1);
        lowered.leaf_keys.push(("prio", prio.to_string()));
        lowered.queue = queue(class);
        let police = class.police.as_ref();
        let police = police.and_then(|one| one.keys((rate, above.rate), reading));
        lowered.leaf_keys.extend(police.map(|keys| ("police", inline(&keys))));
        let dscp = class.set_dscp.map(|dscp| ("set_dscp", quoted(&dscp.to_string())));
        lowered.leaf_keys.extend(dscp);
        self.sketch.classes.push(lowered);
        let at = self.sketch.classes.len() - 1;
        let child = class.child.as_ref().filter(|_| above.depth < DEPTH_MAX);
        let below = child.and_then(|name| self.file.policies.iter().find(|map| map.name == *name));
        if let Some(map) = below.filter(|map| !map.classes.is_empty()) {
            // Its classes share what the class has.
            let rate = if class.shape.is_some() { ceil } else { rate };
            let depth = above.depth + 1;
            return self.level(map, &Above { class: Some(at), rate, rules, depth }, reading);
        }
        if let Some(name) = &class.child {
            reading.lost(class.line, format!("the file has no policy-map `{name}` with classes"));
        }
        self.give(at, rules, is_default);
    }

    /// Gives a leaf its rules; the last class of all takes what no rule matches.
    fn give(&mut self, at: usize, rules: Rules, is_default: bool) {
        let whole = rules.contains(&Conditions::default());
        if is_default && whole && self.sketch.classes.iter().all(|class| !class.default) {
            self.sketch.classes[at].default = true;
            return;
        }
        self.given.extend(rules.into_iter().map(|conditions| (conditions, at)));
    }

    /// Writes the rules of all leaves.
    fn write(&mut self) {
        let default = self.sketch.classes.iter().position(|class| class.default);
        if let Some(default) = default {
            self.given = with_exceptions(&self.given, default);
        }
        let rules = self.given.iter().flat_map(|(conditions, at)| {
            conditions.rules().into_iter().map(move |keys| (*at, keys))
        });
        for (rank, (at, keys)) in (1..).zip(rules) {
            self.sketch.classes[at].rules.push(Rule { keys, rank });
        }
    }

    /// Returns the highest rate of a class.
    fn ceil(&self, class: &PolicyClass, rate: u64, above: &Above, reading: &mut Reading) -> u64 {
        let whole = above.rate.max(rate);
        if let Some(shape) = class.shape {
            return shape.of(above.rate).clamp(rate, whole);
        }
        if class.priority.is_some() && rate < whole {
            let note = "beyond its rate it waits, also where the router would send more of it \
                        while the line is idle, and drop it while the line is full";
            reading.approximated(class.line, note);
            return rate;
        }
        whole
    }
}

impl Share {
    pub(super) fn of(self, rate: u64) -> u64 {
        match self {
            Self::Bits(bits) => bits,
            Self::Percent(part) => {
                (u128::from(rate) * u128::from(part) / 100_000_000).try_into().unwrap_or(u64::MAX)
            }
            Self::Ratio(_) => 0,
        }
    }
}

/// Returns the rate of each class of a level that shares `whole`.
fn rates(classes: &[&PolicyClass], whole: u64) -> Vec<u64> {
    let promised = |class: &&PolicyClass| {
        let policed = class.police.as_ref().map(|police| police.rate);
        let rate = match class.priority {
            Some((_, share)) => share.or(policed).map_or(whole / 100, |share| share.of(whole)),
            None => class.bandwidth.map_or(0, |share| share.of(whole)),
        };
        rate.min(whole)
    };
    let mut rates: Vec<u64> = classes.iter().map(promised).collect();
    let taken = rates.iter().fold(0_u64, |sum, rate| sum.saturating_add(*rate));
    let rest = whole.saturating_sub(taken);
    let remaining = shares_of_rest(classes);
    let ratios = remaining.iter().map(|share| match share {
        Some(Share::Ratio(ratio)) => *ratio,
        _ => 0,
    });
    let (ratios, mut left) = (ratios.sum::<u64>().max(1), rest);
    for (share, rate) in remaining.iter().zip(&mut rates) {
        let part = match share {
            Some(Share::Ratio(ratio)) => {
                (u128::from(rest) * u128::from(*ratio) / u128::from(ratios)) as u64
            }
            Some(share) => share.of(rest),
            None => continue,
        };
        *rate = part.min(left);
        left -= *rate;
    }
    // What no class is promised belongs to those that ask for nothing.
    let asks = |(class, share): (&&PolicyClass, &Option<Share>)| {
        class.bandwidth.is_some() || share.is_some() || class.priority.is_some()
    };
    let asking: Vec<bool> = classes.iter().zip(&remaining).map(asks).collect();
    let count = asking.iter().filter(|asks| !**asks).count() as u64;
    for (asks, rate) in asking.into_iter().zip(&mut rates) {
        if !asks {
            *rate = left / count.max(1);
        }
        *rate = (*rate).max((whole / 1000).max(1));
    }
    rates
}

/// Returns the part of the rest that each class has. Where others have ratios, that of a class
/// without one is 1.
fn shares_of_rest(classes: &[&PolicyClass]) -> Vec<Option<Share>> {
    let is_ratio = |class: &&PolicyClass| matches!(class.remaining, Some(Share::Ratio(_)));
    let ratios = classes.iter().any(is_ratio);
    let share = |class: &&PolicyClass| {
        let free = class.bandwidth.is_none() && class.priority.is_none();
        class.remaining.or_else(|| (ratios && free).then_some(Share::Ratio(1)))
    };
    classes.iter().map(share).collect()
}

fn queue(class: &PolicyClass) -> Vec<super::Key> {
    let mut keys = class.queue.clone();
    if keys.iter().all(|key| key.0 != "limit") && keys.is_empty() {
        keys.push(("limit", quoted(LIMIT)));
    }
    keys.sort_by_key(|key| key.0 != "dropper");
    keys.dedup_by_key(|key| key.0);
    keys
}

const DEFAULT: &str = "class-default";
/// The queue of a class that names no limit.
const LIMIT: &str = "64 packets";
/// Bound: policy-maps inside one another; deeper ones are lost.
const DEPTH_MAX: usize = 8;
/// The rates of interfaces by the first two letters of their names, whole or shortened.
const KINDS: [(&str, u64); 8] = [
    ("fa", 100_000_000),
    ("gi", 1_000_000_000),
    ("te", 10_000_000_000),
    ("tw", 25_000_000_000),
    ("fo", 40_000_000_000),
    ("hu", 100_000_000_000),
    ("et", 10_000_000),
    ("se", 1_544_000),
];
