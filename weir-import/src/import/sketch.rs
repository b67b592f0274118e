//! A policy converted from another language, completed to Weir's rules and then written as TOML.
//!
//! Weir's classes with children hold no packets; other schedulers' do. Such a class gets a child of
//! its own, `NAME-own`, which holds its packets.

use super::Options;
use super::lines::{LineId, Reading};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use weir_core::units::Rate;
use weir_policy::codes;
use weir_policy::finding::Span;

/// A key and its value as TOML.
pub(super) type Key = (&'static str, String);

/// A rule, and its place among all of the policy's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub keys: Vec<Key>,
    /// The rank, by which [`Order`] sorts rules.
    pub rank: u64,
}

/// The order in which rules are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    /// By rank, the smallest first.
    #[default]
    First,
    /// As in ALTQ: larger ranks first, after the destination.
    Altq,
}

/// A policy that is not complete yet.
#[derive(Debug)]
pub(super) struct Sketch {
    pub interface: String,
    /// The first mention of the interface in the file.
    pub span: Span,
    /// In bit/s.
    pub rate: u64,
    pub scheduler: &'static str,
    /// Further keys of `[link]`.
    pub link: Vec<Key>,
    /// Keys and values of `[link.SCHEDULER]`.
    pub parameters: Vec<Key>,
    pub classes: Vec<Class>,
    pub order: Order,
    /// Whether rates may together be more than there is.
    pub oversubscribed: bool,
}

/// A class of a sketch.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub name: String,
    /// An index of `Sketch::classes`.
    pub parent: Option<usize>,
    pub line: LineId,
    /// Bits per second; the scheduler's `rate` of the class.
    pub rate: Option<u64>,
    /// Keys that any class may have.
    pub keys: Vec<Key>,
    /// Keys that only a leaf may have.
    pub leaf_keys: Vec<Key>,
    pub queue: Vec<Key>,
    /// Keys, and keys of a leaf, that follow from the rate in the file; written if the class gets
    /// another rate.
    pub from_rate: (Vec<Key>, Vec<Key>),
    pub default: bool,
    pub rules: Vec<Rule>,
}

impl Class {
    pub(super) fn new(name: impl Into<String>, parent: Option<usize>, line: LineId) -> Self {
        let name = name.into();
        let (keys, leaf_keys, queue, from_rate, rules) = Default::default();
        let (rate, default) = (None, false);
        Self { name, parent, line, rate, keys, leaf_keys, queue, from_rate, default, rules }
    }
}

impl Class {
    /// Writes what follows from the rate in the file, unless the file writes it.
    fn pin(&mut self, leaf: bool) {
        let (keys, leaf_keys) = std::mem::take(&mut self.from_rate);
        add_missing(&mut self.keys, keys);
        if leaf {
            add_missing(&mut self.leaf_keys, leaf_keys);
        }
    }
}

fn add_missing(into: &mut Vec<Key>, keys: Vec<Key>) {
    for key in keys {
        if into.iter().all(|(name, _)| *name != key.0) {
            into.insert(0, key);
        }
    }
}

impl Sketch {
    pub(super) fn new(interface: impl Into<String>, span: Span) -> Self {
        Self {
            interface: interface.into(),
            span,
            rate: 0,
            scheduler: "fifo",
            link: Vec::new(),
            parameters: Vec::new(),
            classes: Vec::new(),
            order: Order::First,
            oversubscribed: false,
        }
    }

    /// Sets the rate where the file gives none: that of the options, or else a gigabit per second.
    pub(super) fn rate_or(&mut self, options: &Options, line: LineId, reading: &mut Reading) {
        if self.rate > 0 {
            return;
        }
        self.rate = options.rate.map_or(RATE_DEFAULT, Rate::bits_per_second);
        if options.rate.is_none() {
            let note = format!(
                "the file gives no rate for `{}`: {} is assumed; set it with `--rate`",
                self.interface,
                show_rate(self.rate)
            );
            reading.approximated(line, note);
        }
    }

    /// Puts a class with the link's rate above all classes of `htb`, of which those at the top
    /// could not borrow; to be called when no class is added any more.
    pub(super) fn under_link(&mut self, line: LineId) {
        let mut link = Class::new("link", None, line);
        link.rate = Some(self.rate);
        for class in &mut self.classes {
            class.parent = Some(class.parent.map_or(0, |parent| parent + 1));
        }
        self.classes.insert(0, link);
    }

    /// Completes it to a policy that Weir accepts.
    pub(super) fn complete(&mut self, reading: &mut Reading) {
        self.rate = self.rate.max(1);
        if self.classes.len() > CLASSES_MAX {
            let message = format!("`{}` has more than {CLASSES_MAX} classes", self.interface);
            reading.error(&codes::TOO_MANY, self.span, message, "split the file up");
            return;
        }
        self.give_interior_classes_leaves(reading);
        match self.oversubscribed {
            true => self.oversubscribe(),
            false => self.fit_rates(reading),
        }
        self.correct_names(reading);
        self.order_rules(reading);
    }

    /// Rules are tried class after class; where that is not the file's order, each rule gets a sort
    /// key.
    fn order_rules(&mut self, reading: &mut Reading) {
        let mut ranks: Vec<u64> = self
            .classes
            .iter()
            .flat_map(|class| class.rules.iter().map(|rule| rule.rank))
            .collect();
        let altq = self.order == Order::Altq;
        if altq && !ranks.is_empty() {
            self.link.push(("match_order", quoted("altq")));
        }
        if ranks.is_sorted() {
            return;
        }
        ranks.sort_unstable();
        ranks.dedup();
        if !altq {
            self.link.push(("match_order", quoted("u32")));
            if ranks.len() > PRIO_MAX {
                let message = format!("more than {PRIO_MAX} rules have an order of their own");
                reading.error(&codes::TOO_MANY, self.span, message, "split the file up");
            }
        }
        let key = if altq { "ruleno" } else { "prio" };
        for rule in self.classes.iter_mut().flat_map(|class| &mut class.rules) {
            let place = ranks.partition_point(|rank| *rank < rule.rank) + 1;
            rule.keys.push((key, place.to_string()));
        }
    }

    /// Writes `oversubscribe` where rates are together more than there is.
    fn oversubscribe(&mut self) {
        let mut sums: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for class in &self.classes {
            let sum = sums.entry(class.parent).or_default();
            *sum = sum.saturating_add(class.rate.unwrap_or(0));
        }
        for (parent, sum) in sums {
            let whole = parent.map_or(Some(self.rate), |at| self.classes[at].rate);
            if whole.is_none_or(|whole| sum <= whole) {
                continue;
            }
            let keys = match parent {
                Some(at) => &mut self.classes[at].keys,
                None => &mut self.link,
            };
            keys.push(("oversubscribe", "true".to_owned()));
        }
    }

    fn give_interior_classes_leaves(&mut self, reading: &mut Reading) {
        let parents: BTreeSet<usize> = self.classes.iter().filter_map(|one| one.parent).collect();
        for index in parents {
            let class = &mut self.classes[index];
            let holds = class.default || !class.rules.is_empty();
            let own = Class {
                name: format!("{}-own", class.name),
                parent: Some(index),
                leaf_keys: std::mem::take(&mut class.leaf_keys),
                queue: std::mem::take(&mut class.queue),
                default: std::mem::take(&mut class.default),
                rules: std::mem::take(&mut class.rules),
                ..class.clone()
            };
            if holds {
                let note = format!(
                    "classes with children hold no packets here: `{}` holds its own packets",
                    own.name
                );
                reading.approximated(own.line, note);
                self.add_own(own, index);
            }
        }
    }

    /// Gives the class's own leaf the rest of its children's rate, or a hundredth if that is more.
    fn add_own(&mut self, mut own: Class, parent: usize) {
        if let Some(rate) = self.classes[parent].rate {
            let siblings = self.classes.iter().filter(|class| class.parent == Some(parent));
            let taken = siblings.filter_map(|class| class.rate).fold(0, u64::saturating_add);
            own.rate = Some(rate.saturating_sub(taken).max(rate / 100).max(1));
        }
        self.classes.push(own);
    }

    /// Scales down children that are promised more than their parent has, from the top.
    fn fit_rates(&mut self, reading: &mut Reading) {
        let leaves = self.leaves_below();
        let mut below: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for (at, class) in self.classes.iter().enumerate() {
            below.entry(class.parent).or_default().push(at);
        }
        let mut open = vec![None];
        while let Some(parent) = open.pop() {
            let children = below.get(&parent).cloned().unwrap_or_default();
            let whole = match parent {
                Some(parent) => self.classes[parent].rate,
                None => Some(self.rate),
            };
            let rated = |&at: &usize| Some((self.classes[at].rate?, leaves[at]));
            let rates: Vec<(u64, u64)> = children.iter().filter_map(rated).collect();
            let fitted = whole.and_then(|whole| fit(&rates, whole)).unwrap_or_default();
            let rated = children.iter().filter(|&&at| self.classes[at].rate.is_some());
            for (at, rate) in rated.copied().zip(fitted).collect::<Vec<_>>() {
                let leaf = !below.contains_key(&Some(at));
                let class = &mut self.classes[at];
                class.rate = Some(rate);
                class.pin(leaf);
                let note = format!(
                    "it and its siblings are promised more than their parent has: lowered to {}",
                    show_rate(rate)
                );
                reading.approximated(class.line, note);
            }
            open.extend(children.into_iter().map(Some).filter(|at| below.contains_key(at)));
        }
    }

    /// For each class the number of leaves below it; 1 for a leaf.
    fn leaves_below(&self) -> Vec<u64> {
        let mut leaves = vec![0; self.classes.len()];
        let parents: BTreeSet<usize> = self.classes.iter().filter_map(|one| one.parent).collect();
        for leaf in (0..self.classes.len()).filter(|at| !parents.contains(at)) {
            let mut above = Some(leaf);
            while let Some(at) = above {
                leaves[at] += 1;
                above = self.classes[at].parent;
            }
        }
        leaves
    }

    /// Changes names that Weir does not allow, and makes each unique.
    fn correct_names(&mut self, reading: &mut Reading) {
        let mut taken = BTreeSet::new();
        // By name, the number that the next class of it tries: equal ones do not start over.
        let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
        for class in &mut self.classes {
            let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
            let mut name: String =
                class.name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
            while name.len() > NAME_MAX {
                name.pop();
            }
            let base = if name.is_empty() { "class".to_owned() } else { name };
            let mut name = base.clone();
            // Terminates: there are fewer classes than numbers.
            while !taken.insert(name.clone()) {
                let number = numbers.entry(base.clone()).or_insert(2);
                name = format!("{base}-{number}");
                *number += 1;
            }
            if name != class.name {
                reading.approximated(class.line, format!("the class is called `{name}`"));
                class.name = name;
            }
        }
    }

    /// Returns the statement of the class of this name.
    pub(super) fn line_of(&self, name: &str) -> Option<LineId> {
        self.classes.iter().find(|class| class.name == name).map(|class| class.line)
    }

    /// Returns the policy as TOML.
    pub(super) fn to_toml(&self) -> String {
        let mut text = format!("# Interface {}\n[link]\n", self.interface.replace('\n', " "));
        write_key(&mut text, "rate", &quoted(&show_rate(self.rate)));
        write_key(&mut text, "scheduler", &quoted(self.scheduler));
        self.link.iter().for_each(|(key, value)| write_key(&mut text, key, value));
        if !self.parameters.is_empty() {
            let _ = writeln!(text, "\n[link.{}]", self.scheduler);
            self.parameters.iter().for_each(|(key, value)| write_key(&mut text, key, value));
        }
        for class in &self.classes {
            self.write_class(class, &mut text);
        }
        text
    }

    fn write_class(&self, class: &Class, text: &mut String) {
        // TOML allows names of these letters without quotes; others need them.
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = match class.name.chars().all(bare) {
            true => class.name.clone(),
            false => quoted(&class.name),
        };
        let _ = writeln!(text, "\n[class.{name}]");
        if let Some(parent) = class.parent {
            write_key(text, "parent", &quoted(&self.classes[parent].name));
        }
        if let Some(rate) = class.rate {
            write_key(text, "rate", &quoted(&show_rate(rate)));
        }
        for (key, value) in class.keys.iter().chain(&class.leaf_keys) {
            write_key(text, key, value);
        }
        if !class.queue.is_empty() {
            write_key(text, "queue", &inline(&class.queue));
        }
        if class.default {
            write_key(text, "default", "true");
        }
        if !class.rules.is_empty() {
            text.push_str("match = [\n");
            for rule in &class.rules {
                let _ = writeln!(text, "    {},", inline(&rule.keys));
            }
            text.push_str("]\n");
        }
    }
}

/// Scales (rate, least) pairs so that the rates add up to `whole` at most and each keeps its least;
/// `None` if they fit already. The largest rates give up what the small ones keep.
fn fit(rates: &[(u64, u64)], whole: u64) -> Option<Vec<u64>> {
    let sum: u128 = rates.iter().map(|&(rate, _)| u128::from(rate)).sum();
    if sum <= u128::from(whole) {
        return None;
    }
    let scaled = |rate: u64| (u128::from(rate) * u128::from(whole) / sum) as u64;
    let mut fitted: Vec<u64> = rates.iter().map(|&(rate, least)| scaled(rate).max(least)).collect();
    let mut excess = fitted.iter().fold(0, |sum: u64, rate| sum.saturating_add(*rate));
    excess = excess.saturating_sub(whole);
    let mut order: Vec<usize> = (0..fitted.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(fitted[at]));
    for at in order {
        let cut = excess.min(fitted[at].saturating_sub(rates[at].1));
        fitted[at] -= cut;
        excess -= cut;
    }
    Some(fitted)
}

fn write_key(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

/// Formats an inline table.
pub(super) fn inline(keys: &[Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    match keys.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", keys.join(", ")),
    }
}

/// Formats a text as TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => drop(write!(quoted, "\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a rate as policies write it; a rate of zero becomes 1 bit/s, Weir's least.
pub(super) fn show_rate(bits_per_second: u64) -> String {
    match Rate::new(bits_per_second) {
        Some(rate) => rate.to_string(),
        None => "1 bit/s".to_owned(),
    }
}

/// Formats a rate as a value.
pub(super) fn rate_value(bits_per_second: u64) -> String {
    quoted(&show_rate(bits_per_second))
}

/// Names with `-own` and a number appended stay below the 64 bytes of a class's name.
const NAME_MAX: usize = 48;
/// Bound: classes of an imported interface; a file with more is refused.
const CLASSES_MAX: usize = 1 << 15;
/// The most rules that Linux's order can distinguish.
const PRIO_MAX: usize = 65_535;
/// The assumed rate of an interface without one.
const RATE_DEFAULT: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::fit;

    /// Each rate has the least after it.
    fn check(rates: &[(u64, u64)], whole: u64, fitted: Option<&[u64]>) {
        assert_eq!(fit(rates, whole).as_deref(), fitted, "{rates:?} in {whole}");
    }

    #[test]
    fn rates_are_scaled_to_fit_and_keep_their_least() {
        check(&[(5, 1), (5, 1)], 10, None);
        check(&[(10, 1), (30, 1)], 20, Some(&[5, 15]));
        check(&[(1, 1), (1, 1), (1_000, 1)], 4, Some(&[1, 1, 2]));
        check(&[(1, 1), (1, 1), (9, 2)], 4, Some(&[1, 1, 2]));
        check(&[(100, 3), (1, 1), (1, 1), (100, 1)], 6, Some(&[3, 1, 1, 1]));
        check(&[(u64::MAX, 1), (u64::MAX, 1)], 7, Some(&[3, 3]));
    }
}
