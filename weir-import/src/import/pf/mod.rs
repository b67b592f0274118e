//! Imports `pf.conf`: ALTQ's queues, `altq on ... queue { ... }`, and the newer `queue ... on ...
//! bandwidth`, with macros, lists, and rules that assign queues [altq, algorithms §3.3, §11.2].

mod limits;
mod rules;
mod text;

use super::altq_classes::{AltqClass, Curve, Discipline, Early, lower};
use super::lines::{LineId, Reading};
use super::sketch::{Key, Sketch, quoted};
use super::words::{Word, Words, decimal, number, scaled};
use super::{Language, Options};
use rules::{PfRule, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use weir_policy::codes;
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language =
    Language { name: "pf", summary: "a pf.conf with queues", read };

/// The contents of a file.
#[derive(Default)]
struct File {
    interfaces: Vec<Altq>,
    queues: Vec<Queue>,
    rules: Vec<PfRule>,
    tables: BTreeMap<String, Vec<Word>>,
    /// The anchors that are open, the outermost first.
    anchors: Vec<PfRule>,
}

/// `altq on`, or the root of a tree of the newer kind.
struct Altq {
    name: Word,
    line: LineId,
    discipline: Discipline,
    bandwidth: u64,
    early: Early,
    ecn: bool,
    /// The values of CoDel, where the file sets them.
    thresholds: Vec<Key>,
    limit: u64,
    /// The names of the queues at the top.
    top: Vec<Word>,
    /// OpenBSD's newer `queue`, without `altq`.
    is_new: bool,
}

/// A queue as declared, possibly for several interfaces.
#[derive(Clone)]
struct Queue {
    name: Word,
    line: LineId,
    /// Its only interfaces, if it names some.
    on: Option<Interfaces>,
    bandwidth: Bandwidth,
    min: Option<Bandwidth>,
    max: Option<Bandwidth>,
    /// A higher rate for some milliseconds, of `bandwidth`, `min` and `max`.
    bursts: [Option<(Bandwidth, u64)>; 3],
    class: AltqClass,
    limit: Option<u64>,
    children: Vec<Word>,
    /// Its parent, which only the newer kind names.
    parent: Option<Word>,
    /// Flows that take turns, with CoDel for each.
    flows: Option<u64>,
    quantum: Option<u64>,
}

/// Interfaces, or all others.
#[derive(Clone)]
struct Interfaces {
    names: Vec<Word>,
    others: bool,
}

impl Interfaces {
    /// Whether `name` is one of them; a group of interfaces is that interface if it is the only
    /// one with queues.
    fn contains(&self, name: &str, is_only: bool) -> bool {
        let is_it = |one: &Word| one.text == name || is_only && is_group(&one.text);
        self.names.iter().any(is_it) != self.others
    }

    /// Returns the first name of a group, whose interfaces the file does not tell.
    fn group(&self) -> Option<&str> {
        self.names.iter().map(|word| word.text.as_str()).find(|name| is_group(name))
    }
}

/// Whether it names a group of interfaces: the name of an interface ends in its number.
fn is_group(name: &str) -> bool {
    !name.ends_with(|last: char| last.is_ascii_digit() || last == ')')
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bandwidth {
    Bits(u64),
    /// Millionths of a percent of the parent's bandwidth.
    Percent(u64),
}

impl Bandwidth {
    fn of(self, parent: u64) -> u64 {
        match self {
            Bandwidth::Bits(bits) => bits,
            Bandwidth::Percent(part) => {
                let bits = u128::from(parent) * u128::from(part) / 100_000_000;
                u64::try_from(bits).unwrap_or(u64::MAX)
            }
        }
    }
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut file = File::default();
    for (line, words) in text::statements(text, reading) {
        statement(&mut Words::new(words), line, &mut file, reading);
    }
    check_parents(&file, reading);
    if reading.report.failed() {
        return Vec::new();
    }
    let mut sketches = Vec::new();
    let mut used = vec![false; file.rules.len()];
    for altq in &file.interfaces {
        sketches.extend(sketch(altq, &file, (options, &mut used), reading));
    }
    for (rule, used) in file.rules.iter().zip(used) {
        if !used {
            let group = rule.group().filter(|_| file.interfaces.len() > 1);
            let note = match group {
                Some(group) => {
                    format!("which interfaces are in group `{group}` is not in the file")
                }
                None => "it sends nothing out of an interface with queues".to_owned(),
            };
            reading.lost(rule.line, note);
        }
    }
    sketches
}

fn statement(words: &mut Words, line: LineId, file: &mut File, reading: &mut Reading) {
    let Some(first) = words.take() else { return };
    match first.text.as_str() {
        "altq" => drop(altq(words, line, file, reading)),
        "queue" => drop(queue(words, line, file, reading)),
        kind @ ("pass" | "match") => {
            let rule = rules::read(words, (line, kind == "match"), &file.tables, reading);
            let inside = |rule: PfRule| file.anchors.iter().rev().fold(rule, PfRule::inside);
            file.rules.extend(rule.map(inside));
        }
        text::ANCHOR => anchor(words, line, file, reading),
        "}" if words.peek().is_none() && file.anchors.pop().is_some() => {}
        "block" => reading.lost(line, "Weir does not filter: it sends every packet"),
        "table" => drop(table(words, line, file, reading)),
        "set" | "scrub" | "nat" | "rdr" | "binat" | "no" | "anchor" | "nat-anchor"
        | "rdr-anchor" | "binat-anchor" | "load" | "antispoof" | "include" | "nat-to" | "af-to"
        | "state-defaults" | "ether" => {
            reading.lost(line, "it assigns no queue");
        }
        other => reading.unknown((other, first.span), "statement", &STATEMENTS),
    }
}

/// `anchor ["NAME"] [CONDITIONS] {`, whose rules follow up to the brace that closes it.
fn anchor(words: &mut Words, line: LineId, file: &mut File, reading: &mut Reading) {
    if words.peek().is_some_and(|word| !ANCHOR_WORDS.contains(&word)) {
        words.take();
    }
    let mut rule = rules::read(words, (line, false), &file.tables, reading);
    if rule.as_mut().is_some_and(|rule| std::mem::take(&mut rule.quick)) {
        let note = "`quick` of an anchor is left out: rules behind it are evaluated, too";
        reading.approximated(line, note);
    }
    // Also where it has an error, so that its end is found.
    file.anchors.push(rule.unwrap_or_else(|| PfRule::nothing(line)));
}

/// `altq on IF [SCHEDULER] [bandwidth B] [qlimit N] [tbrsize N] queue LIST`.
fn altq(words: &mut Words, line: LineId, file: &mut File, reading: &mut Reading) -> Option<()> {
    words.value("`on`", |word| (word == "on").then_some(()), reading)?;
    let interfaces = text::list(words, "an interface", reading)?;
    let (mut discipline, mut bandwidth, mut limit) = (None, None, 0);
    let mut all = AltqClass::new("", None, line);
    let mut top = Vec::new();
    let mut written = Once::default();
    while let Some(word) = words.take() {
        written.check(&word, &["bandwidth", "qlimit", "tbrsize", "queue"], reading)?;
        match word.text.as_str() {
            "cbq" | "hfsc" | "priq" | "fairq" | "codel" | "codelq" => {
                discipline = Some(scheduler(&word.text));
                parenthesised(words, &mut all, reading)?;
            }
            "bandwidth" => bandwidth = Some(words.value(A_BANDWIDTH, bits, reading)?),
            "qlimit" => limit = words.value(A_LIMIT, within(0..=LIMIT_MAX), reading)?,
            "tbrsize" => {
                let size = within(0..=u32::MAX.into());
                words.value("a number of bytes up to 4294967295", size, reading)?;
                reading.approximated(line, "`tbrsize` is left out: the link paces each packet");
            }
            "queue" => top = names(text::list(words, "a queue", reading)?, reading)?,
            other => {
                reading.unknown((other, word.span), "option of altq", &ALTQ_WORDS);
                return None;
            }
        }
    }
    let is_single = discipline == Some(Discipline::Codel);
    if is_single {
        all.early = Early::Codel;
        top.clear();
    }
    let (Some(discipline), true) = (discipline, is_single || !top.is_empty()) else {
        let lacks = if discipline.is_none() { "a scheduler" } else { "`queue`" };
        let message = format!("`altq on` lacks {lacks}");
        let cure = "write `cbq`, `hfsc`, `priq` or `fairq`, and the queues at the top";
        reading.error(&codes::INCOMPLETE, reading.span(line), message, cure);
        return None;
    };
    for name in interfaces {
        if file.interfaces.len() >= INTERFACES_MAX {
            reading.lost(line, format!("the file has more than {INTERFACES_MAX} interfaces"));
            return None;
        }
        if file.interfaces.iter().any(|one| one.name.text == name.text) {
            let message = format!("interface `{}` has two `altq`", name.text);
            reading.error(&codes::DECLARED_TWICE, name.span, message, "keep one of them");
            continue;
        }
        let top = top.clone();
        let bandwidth = bandwidth.unwrap_or(0);
        let is_new = false;
        file.interfaces.push(Altq {
            name,
            line,
            discipline,
            bandwidth,
            early: all.early,
            ecn: all.ecn,
            thresholds: all.thresholds.clone(),
            limit: if limit == 0 { LIMIT_DEFAULT } else { limit },
            top,
            is_new,
        });
    }
    Some(())
}

/// The words that a statement has had.
#[derive(Default)]
struct Once(BTreeSet<String>);

impl Once {
    /// Reports a word of `single` that comes a second time, which pfctl refuses.
    fn check(&mut self, word: &Word, single: &[&str], reading: &mut Reading) -> Option<()> {
        let is_single = single.contains(&word.text.as_str());
        if !is_single || self.0.insert(word.text.clone()) {
            return Some(());
        }
        let message = format!("`{}` is written twice", word.text);
        reading.error(&codes::DECLARED_TWICE, word.span, message, "keep one of them");
        None
    }
}

/// Reports names of queues that pf reads as numbers, or that are too long for it.
fn names(words: Vec<Word>, reading: &mut Reading) -> Option<Vec<Word>> {
    for word in &words {
        if word.text.bytes().all(|byte| byte.is_ascii_digit()) || word.text.len() > QUEUE_NAME_MAX {
            super::words::bad_value(word, "the name of a queue, with a letter", reading);
            return None;
        }
    }
    Some(words)
}

fn scheduler(word: &str) -> Discipline {
    match word {
        "hfsc" => Discipline::Hfsc,
        "priq" => Discipline::Priq,
        "fairq" => Discipline::Fairq,
        "codel" | "codelq" => Discipline::Codel,
        _ => Discipline::Cbq,
    }
}

/// Reads `(OPTIONS)` behind a scheduler.
fn parenthesised(words: &mut Words, class: &mut AltqClass, reading: &mut Reading) -> Option<()> {
    if !words.accept("(") {
        return Some(());
    }
    let mut written = Once::default();
    loop {
        let word = words.need("an option, or `)`", reading)?;
        written.check(&word, &["realtime", "linkshare", "upperlimit"], reading)?;
        match word.text.as_str() {
            ")" => return Some(()),
            "," => {}
            "default" => class.default = true,
            "borrow" => class.borrow = true,
            "red" => class.early = Early::Red,
            "rio" => class.early = Early::Rio,
            "codel" => {
                class.early = Early::Codel;
                parenthesised(words, class, reading)?;
            }
            "target" | "interval" => {
                let value = words.value("milliseconds", within(1..=60_000), reading)?;
                let key = if word.text == "target" { "target" } else { "interval" };
                class.thresholds.push((key, quoted(&format!("{value} ms"))));
            }
            "buckets" => class.buckets = Some(words.value("a number", number, reading)?),
            "hogs" => {
                words.value(A_BANDWIDTH, bandwidth, reading)?;
                let note = "`hogs` is left out: no flow goes before the turn of another";
                reading.approximated(class.line, note);
            }
            "ecn" => {
                class.ecn = true;
                if class.early == Early::No {
                    class.early = Early::Red;
                }
            }
            "wrr" | "root" | "control" => {}
            "prr" | "cleardscp" | "flowvalve" | "flowvalves" => {
                reading.approximated(class.line, format!("`{}` is left out", word.text));
            }
            "minburst" | "maxburst" | "pktsize" | "maxpktsize" => {
                words.value("a number", number, reading)?;
                reading.approximated(class.line, format!("`{}` is left out", word.text));
            }
            "realtime" | "linkshare" | "upperlimit" => {
                let curve = curve(words, reading)?;
                match word.text.as_str() {
                    "realtime" => class.real_time = Some(curve),
                    "linkshare" => class.link_share = Some(curve),
                    _ => class.upper_limit = Some(curve),
                }
            }
            other => {
                reading.unknown((other, word.span), "option of a queue", &OPTIONS);
                return None;
            }
        }
    }
}

/// Reads `R` or `(M1 D M2)`; percentages are marked in the upper half and resolved with the parent.
fn curve(words: &mut Words, reading: &mut Reading) -> Option<Curve> {
    if !words.accept("(") {
        return Some(Curve::straight(words.value(A_BANDWIDTH, packed, reading)?));
    }
    let m1 = words.value(A_BANDWIDTH, packed, reading)?;
    words.accept(",");
    let d = words.value("milliseconds", number, reading)?;
    words.accept(",");
    let m2 = words.value(A_BANDWIDTH, packed, reading)?;
    words.value("`)`", |word| (word == ")").then_some(()), reading)?;
    Some(Curve { m1, d, m2 })
}

/// Packs a bandwidth into one number: percentages have the top bit set.
fn packed(text: &str) -> Option<u64> {
    match bandwidth(text)? {
        Bandwidth::Bits(bits) => Some(bits & !PERCENT),
        Bandwidth::Percent(part) => Some(part | PERCENT),
    }
}

fn unpacked(curve: Option<Curve>, parent: u64) -> Option<Curve> {
    let of = |rate: u64| match rate & PERCENT {
        0 => rate,
        _ => Bandwidth::Percent(rate & !PERCENT).of(parent),
    };
    curve.map(|curve| Curve { m1: of(curve.m1), m2: of(curve.m2), ..curve })
}

/// `queue NAME [on IF] [OPTIONS] [{ CHILDREN }]`.
fn queue(words: &mut Words, line: LineId, file: &mut File, reading: &mut Reading) -> Option<()> {
    let name = words.need("the name of a queue", reading)?;
    names(vec![name.clone()], reading)?;
    let mut queue = Queue {
        class: AltqClass::new(&name.text, None, line),
        name,
        line,
        on: None,
        bandwidth: WHOLE,
        min: None,
        max: None,
        bursts: [None; 3],
        limit: None,
        children: Vec::new(),
        parent: None,
        flows: None,
        quantum: None,
    };
    let mut written = Once::default();
    while let Some(word) = words.take() {
        written.check(&word, &QUEUE_WORDS, reading)?;
        match word.text.as_str() {
            "on" => {
                let others = words.accept("!");
                let names = text::list(words, "an interface", reading)?;
                queue.on = Some(Interfaces { names, others });
            }
            "{" => queue.children = names(text::rest_of_list(words, "a queue", reading)?, reading)?,
            _ if queue_option(&word, words, &mut queue, reading)? => {}
            other if !OPTION_LIKE.contains(&other) && words.peek().is_none() => {
                queue.children = names(vec![word.clone()], reading)?;
            }
            other => {
                reading.unknown((other, word.span), "option of a queue", &QUEUE_WORDS);
                return None;
            }
        }
    }
    own_child(&queue, reading)?;
    add_root(&queue, file);
    if file.queues.len() >= QUEUES_MAX || queue.children.len() > QUEUES_MAX {
        let message = format!("the file has more than {QUEUES_MAX} queues");
        reading.error(&codes::TOO_MANY, queue.name.span, message, "split it up");
        return None;
    }
    file.queues.push(queue);
    Some(())
}

/// Reports a queue that is a child of its own.
fn own_child(queue: &Queue, reading: &mut Reading) -> Option<()> {
    let near = queue.children.iter().chain(&queue.parent);
    let Some(own) = near.into_iter().find(|one| one.text == queue.name.text) else {
        return Some(());
    };
    let message = format!("queue `{}` is a child of its own", own.text);
    reading.error(&codes::INCONSISTENT, own.span, message, "name another queue");
    None
}

/// Without `altq`, a queue on an interface without a parent is the root of one.
fn add_root(queue: &Queue, file: &mut File) {
    let Some(on) = queue.on.as_ref().filter(|on| !on.others && queue.parent.is_none()) else {
        return;
    };
    for name in &on.names {
        let declared = file.interfaces.iter().any(|one| one.name.text == name.text);
        if declared || file.interfaces.len() >= INTERFACES_MAX {
            continue;
        }
        file.interfaces.push(Altq {
            name: name.clone(),
            line: queue.line,
            discipline: Discipline::Hfsc,
            bandwidth: queue.max.unwrap_or(queue.bandwidth).of(0),
            early: Early::No,
            ecn: false,
            thresholds: Vec::new(),
            limit: LIMIT_DEFAULT,
            top: vec![queue.name.clone()],
            is_new: true,
        });
    }
}

/// Reads an option of a queue; returns `Some(false)` for any other word.
fn queue_option(
    word: &Word,
    words: &mut Words,
    queue: &mut Queue,
    reading: &mut Reading,
) -> Option<bool> {
    match word.text.as_str() {
        "," => {}
        "parent" => queue.parent = Some(words.need("the name of a queue", reading)?),
        "bandwidth" => {
            queue.bandwidth = words.value(A_BANDWIDTH, bandwidth, reading)?;
            queue.bursts[0] = burst(words, reading)?;
        }
        "min" => {
            queue.min = Some(words.value(A_BANDWIDTH, bandwidth, reading)?);
            queue.bursts[1] = burst(words, reading)?;
        }
        "max" => {
            queue.max = Some(words.value(A_BANDWIDTH, bandwidth, reading)?);
            queue.bursts[2] = burst(words, reading)?;
        }
        "priority" => {
            let priority = |text: &str| number(text).filter(|priority| *priority < 16);
            let what = "a priority from 0 to 15, or to 7 with cbq";
            queue.class.priority = Some(words.value(what, priority, reading)?);
        }
        "qlimit" => {
            // pf takes 0 for none.
            let limit = words.value(A_LIMIT, within(0..=LIMIT_MAX), reading)?;
            queue.limit = Some(limit).filter(|limit| *limit > 0);
        }
        "cbq" | "hfsc" | "priq" | "fairq" => {
            parenthesised(words, &mut queue.class, reading)?;
        }
        "codel" => {
            queue.class.early = Early::Codel;
            parenthesised(words, &mut queue.class, reading)?;
        }
        "default" => queue.class.default = true,
        "flows" => {
            let what = "a number of flows from 1 to 32767";
            queue.flows = Some(words.value(what, within(1..=32_767), reading)?);
        }
        "quantum" => {
            let what = "a number of bytes from 1 to 65535";
            queue.quantum = Some(words.value(what, within(1..=65_535), reading)?);
        }
        _ => return Some(false),
    }
    Some(true)
}

/// `burst B for Nms`.
#[expect(clippy::option_option, reason = "no burst is not an error")]
fn burst(words: &mut Words, reading: &mut Reading) -> Option<Option<(Bandwidth, u64)>> {
    if !words.accept("burst") {
        return Some(None);
    }
    let rate = words.value(A_BANDWIDTH, bandwidth, reading)?;
    words.value("`for`", |word| (word == "for").then_some(()), reading)?;
    let milliseconds = |text: &str| number(text.strip_suffix("ms")?);
    Some(Some((rate, words.value("a time such as 100ms", milliseconds, reading)?)))
}

/// Parses a whole number of this range.
fn within(range: RangeInclusive<u64>) -> impl Fn(&str) -> Option<u64> {
    move |text| number(text).filter(|number| range.contains(number))
}

/// `table <NAME> [OPTIONS] { ADDRESSES }`.
fn table(words: &mut Words, line: LineId, file: &mut File, reading: &mut Reading) -> Option<()> {
    words.value("`<`", |word| (word == "<").then_some(()), reading)?;
    let name = words.need("the name of a table", reading)?;
    let mut addresses = Vec::new();
    while let Some(word) = words.take() {
        if word.text == "{" {
            addresses.extend(text::rest_of_list(words, "an address", reading)?);
        }
        if word.text == "file" {
            reading.approximated(line, "the addresses of a table's file are not read");
        }
    }
    file.tables.insert(name.text, addresses);
    Some(())
}

/// Reports queues without a parent.
fn check_parents(file: &File, reading: &mut Reading) {
    let mut listed: Vec<&str> = Vec::new();
    for words in file.interfaces.iter().map(|one| &one.top) {
        listed.extend(words.iter().map(|word| word.text.as_str()));
    }
    for queue in &file.queues {
        listed.extend(queue.children.iter().map(|word| word.text.as_str()));
    }
    let declared: BTreeSet<&str> =
        file.queues.iter().map(|queue| queue.name.text.as_str()).collect();
    let listed: BTreeSet<&str> = listed.into_iter().collect();
    let open: Vec<&str> = listed.difference(&declared).copied().take(SHOWN_MAX).collect();
    for queue in &file.queues {
        if let Some(parent) = &queue.parent {
            if !declared.contains(parent.text.as_str()) {
                let names = declared.iter().copied();
                reading.undeclared((&parent.text, parent.span), "queue", names);
            }
        } else if !listed.contains(queue.name.text.as_str()) {
            let message = format!("queue `{}` has no parent", queue.name.text);
            let cure = match open.is_empty() {
                true => "name it in `altq on` or in the list of another queue".to_owned(),
                false => format!(
                    "name it in a list; listed and not declared are: {}",
                    weir_policy::reader::list(&open)
                ),
            };
            reading.error(&codes::UNDECLARED, queue.name.span, message, cure);
        }
    }
}

fn sketch(
    altq: &Altq,
    file: &File,
    (options, used): (&Options, &mut [bool]),
    reading: &mut Reading,
) -> Option<Sketch> {
    let mut sketch = Sketch::new(&altq.name.text, altq.name.span);
    sketch.rate = altq.bandwidth;
    sketch.rate_or(options, altq.line, reading);
    if altq.discipline == Discipline::Codel {
        let mut all = AltqClass::new("all", None, altq.line);
        (all.default, all.early, all.ecn) = (true, altq.early, altq.ecn);
        (all.limit, all.thresholds) = (altq.limit, altq.thresholds.clone());
        lower(altq.discipline, vec![all], &mut sketch, reading);
        return Some(sketch);
    }
    let mut tree = Tree { altq, file, classes: Vec::new() };
    for name in &altq.top {
        tree.add(name, None, sketch.rate, reading);
    }
    tree.check_limits(sketch.rate, reading);
    let mut classes = tree.classes;
    let Some(default) = classes.iter().position(|class| class.default) else {
        let message = format!("no queue of `{}` is the default", altq.name.text);
        reading.error(
            &codes::INCONSISTENT,
            altq.name.span,
            message,
            "write `default` in one of them",
        );
        return None;
    };
    if let Some(other) = classes.iter().skip(default + 1).find(|class| class.default) {
        let message =
            format!("queues `{}` and `{}` are the default", classes[default].name, other.name);
        let span = reading.span(other.line);
        reading.error(&codes::INCONSISTENT, span, message, "write `default` in one of them");
        return None;
    }
    let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let is_only = file.interfaces.len() == 1;
    let place = Place { interface: &altq.name.text, is_only, names: &names, default };
    let reached = place.assign(&file.rules, &mut classes, reading);
    used.iter_mut().zip(reached).for_each(|(used, reached)| *used |= reached);
    if classes.iter().map(|class| class.rules.len()).sum::<usize>() > RULES_MAX {
        let message = format!("the rules stand for more than {RULES_MAX} cases");
        reading.error(&codes::TOO_MANY, altq.name.span, message, "write ranges of ports");
        return None;
    }
    lower(altq.discipline, classes, &mut sketch, reading);
    Some(sketch)
}

/// The classes of an interface, collected from the top down.
struct Tree<'f> {
    altq: &'f Altq,
    file: &'f File,
    classes: Vec<AltqClass>,
}

impl Tree<'_> {
    /// Adds a queue and those below it; terminates, since none is added twice.
    fn add(&mut self, name: &Word, parent: Option<usize>, bandwidth: u64, reading: &mut Reading) {
        if self.classes.iter().any(|class| class.name == name.text) {
            return;
        }
        let here = |queue: &&Queue| {
            queue.on.as_ref().is_none_or(|on| on.contains(&self.altq.name.text, false))
        };
        let mut named = self.file.queues.iter().filter(|queue| queue.name.text == name.text);
        let Some(queue) = named.find(here) else {
            let note = format!("queue `{}` is listed, but not declared: left out", name.text);
            return reading.approximated(self.altq.line, note);
        };
        let depth = std::iter::successors(parent, |at| self.classes[*at].parent).count();
        if depth >= weir_core::sched::DEPTH_MAX {
            return reading.lost(queue.line, "it is deeper than Weir allows");
        }
        let own = queue.bandwidth.of(bandwidth);
        let class = self.class(queue, parent, (own, bandwidth), reading);
        let index = self.classes.len();
        self.classes.push(class);
        let file = self.file;
        for child in &queue.children {
            self.add(child, Some(index), own, reading);
        }
        let below = |other: &&Queue| other.parent.as_ref().is_some_and(|one| one.text == name.text);
        for child in file.queues.iter().filter(below) {
            self.add(&child.name, Some(index), own, reading);
        }
    }

    fn class(
        &self,
        queue: &Queue,
        parent: Option<usize>,
        (own, above): (u64, u64),
        reading: &mut Reading,
    ) -> AltqClass {
        let mut class = queue.class.clone();
        class.parent = parent;
        class.bandwidth = own;
        class.limit = queue.limit.unwrap_or(self.altq.limit);
        if class.early == Early::No {
            (class.early, class.ecn) = (self.altq.early, self.altq.ecn);
            class.thresholds.clone_from(&self.altq.thresholds);
        }
        let is_cbq = self.altq.discipline == Discipline::Cbq;
        if is_cbq && let Some(priority) = class.priority.filter(|priority| *priority > 7) {
            let message = format!("a priority of {priority} is above 7");
            let span = queue.name.span;
            reading.error(&codes::BAD_IMPORT_VALUE, span, message, "write 0 to 7");
        }
        if self.altq.discipline == Discipline::Hfsc {
            class.priority = None;
            class.real_time = unpacked(class.real_time, above);
            class.upper_limit = unpacked(class.upper_limit, above);
            class.link_share =
                unpacked(class.link_share, above).or(Some(curve_of(own, queue.bursts[0], above)));
            // A rate of 0 guarantees nothing.
            if let Some(min) = queue.min.map(|min| min.of(above)).filter(|min| *min > 0) {
                class.real_time = Some(curve_of(min, queue.bursts[1], above));
            }
            if let Some(max) = queue.max {
                class.upper_limit = Some(curve_of(max.of(above), queue.bursts[2], above));
            }
        }
        if let Some(flows) = queue.flows {
            class.early = Early::Flows;
            class.thresholds.push(("flows", flows.to_string()));
            let quantum = queue.quantum.map(|quantum| quoted(&format!("{quantum} B")));
            class.thresholds.extend(quantum.map(|quantum| ("quantum", quantum)));
        } else if queue.quantum.is_some() {
            reading.approximated(queue.line, "`quantum` is left out: it is for `flows`");
        }
        if self.altq.is_new && parent.is_none() {
            // The root is the interface: it may have all of it.
            class.upper_limit = None;
        }
        class
    }
}

fn curve_of(rate: u64, burst: Option<(Bandwidth, u64)>, parent: u64) -> Curve {
    match burst {
        Some((first, d)) => Curve { m1: first.of(parent), d, m2: rate },
        None => Curve::straight(rate),
    }
}

/// `10Mb`, `1.5Mb`, `33600b`, `100M`, `10%`.
fn bandwidth(text: &str) -> Option<Bandwidth> {
    let (millionths, unit) = decimal(text)?;
    if unit == "%" {
        return (millionths <= 100_000_000).then_some(Bandwidth::Percent(millionths));
    }
    let unit = match unit.strip_suffix(['b', 'B']).unwrap_or(unit) {
        "" => 1,
        "K" | "k" => 1_000,
        "M" | "m" => 1_000_000,
        "G" | "g" => 1_000_000_000,
        _ => return None,
    };
    Some(Bandwidth::Bits(scaled(millionths, unit)?))
}

/// A part of the interface's own rate is 0: only the machine knows that rate.
fn bits(text: &str) -> Option<u64> {
    bandwidth(text).map(|bandwidth| bandwidth.of(0))
}

fn join(first: Span, last: Span) -> Span {
    Span { start: first.start.min(last.start), end: first.end.max(last.end) }
}

/// Bound: interfaces of a file of pf; further ones are reported as lost.
const INTERFACES_MAX: usize = 256;
/// Bound: queues of a file of pf; a file with more is refused.
const QUEUES_MAX: usize = 4096;
/// Names shown of those that would fit.
const SHOWN_MAX: usize = 16;
/// Bound: rules of an interface of pf, with lists expanded; a file with more is refused.
const RULES_MAX: usize = 1 << 16;
const PERCENT: u64 = 1 << 63;
/// The bandwidth of a queue that names none.
const WHOLE: Bandwidth = Bandwidth::Percent(100_000_000);
/// The packets of a queue that names no limit, and of one that names most.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 65_535;
const A_LIMIT: &str = "a number of packets up to 65535";
const A_BANDWIDTH: &str = "a bandwidth such as 10Mb or 20%";
/// The longest name of a queue in pf.
const QUEUE_NAME_MAX: usize = 63;
/// Words of a rule that may follow `anchor` where the anchor has no name.
const ANCHOR_WORDS: [&str; 9] =
    ["in", "out", "quick", "on", "inet", "inet6", "proto", "from", "to"];
/// Options of a queue, each at most once.
const QUEUE_WORDS: [&str; 15] = [
    "on",
    "parent",
    "bandwidth",
    "min",
    "max",
    "priority",
    "qlimit",
    "cbq",
    "hfsc",
    "priq",
    "fairq",
    "codel",
    "default",
    "flows",
    "quantum",
];
/// Options of `altq on`.
const ALTQ_WORDS: [&str; 9] =
    ["cbq", "hfsc", "priq", "fairq", "codelq", "bandwidth", "qlimit", "tbrsize", "queue"];
const STATEMENTS: [&str; 14] = [
    "altq",
    "queue",
    "pass",
    "match",
    "block",
    "table",
    "set",
    "scrub",
    "nat",
    "rdr",
    "binat",
    "anchor",
    "load",
    "antispoof",
];
const OPTIONS: [&str; 16] = [
    "default",
    "borrow",
    "red",
    "rio",
    "ecn",
    "codel",
    "target",
    "interval",
    "buckets",
    "hogs",
    "realtime",
    "linkshare",
    "upperlimit",
    "minburst",
    "maxburst",
    "cleardscp",
];
/// Words that look like options and so are not taken for the single child of a queue.
const OPTION_LIKE: [&str; 6] = ["(", ")", "}", "burst", "for", "="];
