//! Imports `pf.conf`: ALTQ's queues, `altq on ... queue { ... }`, and the newer `queue ... on ...
//! bandwidth`, with macros, lists, and rules that assign queues [altq, algorithms §3.3, §11.2].

mod limits;
mod rules;
mod text;

use super::altq_classes::{self, AltqClass, Curve, Discipline, Early, lower, part, percent};
use super::lines::{LineId, Reading};
use super::options::Effect::{Flag, LeftOut, Number, Read};
use super::options::{A_NUMBER, A_PRIORITY, Kind, Table};
use super::sketch::{Sketch, quoted};
use super::words::{Word, Words, number, within};
use super::{Language, Options};
use rules::{PfRule, Place};
use std::collections::BTreeSet;
use std::rc::Rc;
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
    tables: Rc<rules::Tables>,
    /// The anchors that are open, the outermost first.
    anchors: Vec<PfRule>,
    /// The statement that is being read.
    line: LineId,
}

/// `altq on`, or the root of a tree of the newer kind.
#[derive(Clone)]
struct Altq {
    name: Word,
    line: LineId,
    discipline: Discipline,
    bandwidth: u64,
    /// The early dropper and the limit of queues that set none.
    all: AltqClass,
    /// The names of the queues at the top.
    top: Vec<Word>,
    /// OpenBSD's newer `queue`, without `altq`.
    is_new: bool,
}

/// A queue as declared, possibly for several interfaces.
#[derive(Clone, Default)]
struct Queue {
    name: Word,
    line: LineId,
    /// Its only interfaces, if it names some.
    on: Option<Interfaces>,
    bandwidth: Bandwidth,
    min: Option<Bandwidth>,
    max: Option<Bandwidth>,
    /// A higher rate for some milliseconds, of `bandwidth`, `min` and `max`.
    bursts: [Option<Burst>; 3],
    class: AltqClass,
    children: Vec<Word>,
    /// Its parent, which only the newer kind names.
    parent: Option<Word>,
    /// Flows that take turns, with CoDel for each.
    flows: Option<u64>,
    quantum: Option<u64>,
}

/// A rate, and the milliseconds that it lasts.
type Burst = (Bandwidth, u64);

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

impl Default for Bandwidth {
    fn default() -> Self {
        WHOLE
    }
}

impl Bandwidth {
    fn of(self, parent: u64) -> u64 {
        match self {
            Bandwidth::Bits(bits) => bits,
            Bandwidth::Percent(percent) => part(parent, percent),
        }
    }
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut file = File::default();
    for (line, words) in text::statements(text, reading) {
        file.line = line;
        let mut words = Words::new(words);
        // A statement with an error was reported.
        let _ = match words.peek() {
            Some(text::ANCHOR) => anchor(&mut file, &mut words, reading),
            Some("}") if file.anchors.pop().is_some() => None,
            _ => STATEMENTS.take(&mut file, line, &mut words, reading),
        };
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

/// `pass` and `match`.
fn rule(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let is_match = words.taken().text == "match";
    let rule = rules::read(words, (file.line, is_match), &file.tables, reading)?;
    file.rules.push(file.anchors.iter().rev().fold(rule, PfRule::inside));
    Some(())
}

/// `anchor ["NAME"] [CONDITIONS] {`, whose rules follow up to the brace that closes it.
fn anchor(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    words.take();
    if words.peek().is_some_and(|word| !ANCHOR_WORDS.contains(&word)) {
        words.take();
    }
    let mut rule = rules::read(words, (file.line, false), &file.tables, reading);
    if rule.as_mut().is_some_and(|rule| std::mem::take(&mut rule.quick)) {
        let note = "`quick` of an anchor is left out: rules behind it are evaluated, too";
        reading.approximated(file.line, note);
    }
    // Also where it has an error, so that its end is found.
    file.anchors.push(rule.unwrap_or_else(|| PfRule::nothing(file.line)));
    Some(())
}

fn block(file: &mut File, _: &mut Words, reading: &mut Reading) -> Option<()> {
    reading.lost(file.line, "Weir does not filter: it sends every packet");
    Some(())
}

fn no_queue(file: &mut File, _: &mut Words, reading: &mut Reading) -> Option<()> {
    reading.lost(file.line, "it assigns no queue");
    Some(())
}

/// Reads the interfaces behind `on`.
fn interfaces(words: &mut Words, reading: &mut Reading) -> Option<Interfaces> {
    let others = words.accept("!");
    Some(Interfaces { names: text::list(words, "an interface", reading)?, others })
}

/// `altq on IF [SCHEDULER] [bandwidth B] [qlimit N] [tbrsize N] queue LIST`.
fn altq(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let line = file.line;
    words.expect("on", reading)?;
    let interfaces = text::list(words, "an interface", reading)?;
    let (mut discipline, mut bandwidth, mut top) = (None, 0, Vec::new());
    let mut all = AltqClass::new("", None, line);
    let mut written = Once::default();
    while let Some(word) = words.take() {
        written.check(&word, &["bandwidth", "qlimit", "tbrsize", "queue"], reading)?;
        match word.text.as_str() {
            "cbq" | "hfsc" | "priq" | "fairq" | "codel" | "codelq" => {
                discipline = Some(scheduler(&word.text));
                parenthesised(&mut all, words, reading)?;
            }
            "bandwidth" => bandwidth = words.value(A_BANDWIDTH, bits, reading)?,
            "qlimit" => limit(&mut all, words, reading)?,
            "tbrsize" => {
                let what = "a number of bytes up to 4294967295";
                words.value(what, within::<0, { u32::MAX as u64 }>, reading)?;
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
        let (all, top) = (all.clone(), top.clone());
        let is_new = false;
        file.interfaces.push(Altq { name, line, discipline, bandwidth, all, top, is_new });
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
fn parenthesised(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    if !words.accept("(") {
        return Some(());
    }
    let mut written = Once::default();
    while !words.accept(")") {
        let Some(word) = words.rest().first().cloned() else {
            words.need("an option, or `)`", reading)?;
            return None;
        };
        written.check(&word, &["realtime", "linkshare", "upperlimit"], reading)?;
        if !words.accept(",") {
            OPTIONS.take(class, class.line, words, reading)?;
        }
    }
    Some(())
}

impl AltqClass {
    /// ECN alone asks for RED.
    fn notify(&mut self) {
        self.ecn = true;
        if self.early == Early::No {
            self.early = Early::Red;
        }
    }
}

/// Reads the values of CoDel.
fn time(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let key = if words.taken().text == "target" { "target" } else { "interval" };
    let value = words.value("milliseconds", within::<1, 60_000>, reading)?;
    class.thresholds.push((key, quoted(&format!("{value} ms"))));
    Some(())
}

/// Reads the options of `codel`.
fn codel(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    class.early = Early::Codel;
    parenthesised(class, words, reading)
}

/// Reads `qlimit`, of which pf takes 0 for none.
fn limit(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let limit = words.value("a number of packets up to 65535", within::<0, 65_535>, reading)?;
    class.limit = Some(limit).filter(|limit| *limit > 0);
    Some(())
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
    words.expect(")", reading)?;
    Some(Curve { m1, d, m2 })
}

fn service_curve(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let which = match words.taken().text.as_str() {
        "realtime" => &mut class.real_time,
        "linkshare" => &mut class.link_share,
        _ => &mut class.upper_limit,
    };
    *which = Some(curve(words, reading)?);
    Some(())
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
fn queue(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let name = words.need("the name of a queue", reading)?;
    names(vec![name.clone()], reading)?;
    let (line, class) = (file.line, AltqClass::new(&name.text, None, file.line));
    let mut queue = Queue { name, line, class, ..Queue::default() };
    let known = QUEUE.words();
    let mut written = Once::default();
    while let Some(word) = words.rest().first().cloned() {
        written.check(&word, &known, reading)?;
        let is_last = words.rest().len() == 1;
        let is_option = known.contains(&&*word.text) || OPTION_LIKE.contains(&&*word.text);
        match word.text.as_str() {
            "," => drop(words.take()),
            "{" => queue.children = names(text::list(words, "a queue", reading)?, reading)?,
            _ if is_last && !is_option => {
                queue.children = names(words.take().into_iter().collect(), reading)?
            }
            _ => QUEUE.take(&mut queue, line, words, reading)?,
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
            all: AltqClass::default(),
            top: vec![queue.name.clone()],
            is_new: true,
        });
    }
}

fn on(queue: &mut Queue, words: &mut Words, reading: &mut Reading) -> Option<()> {
    queue.on = Some(interfaces(words, reading)?);
    Some(())
}

fn parent(queue: &mut Queue, words: &mut Words, reading: &mut Reading) -> Option<()> {
    queue.parent = Some(words.need("the name of a queue", reading)?);
    Some(())
}

/// Reads a bandwidth, and `burst B for Nms` behind it.
fn rate(queue: &mut Queue, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let which = words.taken().text.clone();
    let rate = words.value(A_BANDWIDTH, bandwidth, reading)?;
    let mut burst = None;
    if words.accept("burst") {
        let rate = words.value(A_BANDWIDTH, bandwidth, reading)?;
        words.expect("for", reading)?;
        let milliseconds = |text: &str| number(text.strip_suffix("ms")?);
        burst = Some((rate, words.value("a time such as 100ms", milliseconds, reading)?));
    }
    match which.as_str() {
        "min" => (queue.min, queue.bursts[1]) = (Some(rate), burst),
        "max" => (queue.max, queue.bursts[2]) = (Some(rate), burst),
        _ => (queue.bandwidth, queue.bursts[0]) = (rate, burst),
    }
    Some(())
}

/// `table <NAME> [OPTIONS] { ADDRESSES }`.
fn table(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    words.expect("<", reading)?;
    let name = words.need("the name of a table", reading)?;
    let mut addresses = Vec::new();
    while let Some(word) = words.take() {
        if word.text == "{" {
            addresses.extend(text::rest_of_list(words, "an address", reading)?);
        }
        if word.text == "file" {
            reading.approximated(file.line, "the addresses of a table's file are not read");
        }
    }
    Rc::make_mut(&mut file.tables).insert(name.text, addresses);
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
        let mut all = altq.all.clone();
        (all.name, all.default) = ("all".to_owned(), true);
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
        let all = &self.altq.all;
        class.limit = class.limit.or(all.limit);
        if class.early == Early::No {
            (class.early, class.ecn) = (all.early, all.ecn);
            class.thresholds.clone_from(&all.thresholds);
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
    match text.strip_suffix('%') {
        Some(part) => percent(part).map(Bandwidth::Percent),
        None => {
            altq_classes::bits(text.strip_suffix(['b', 'B']).unwrap_or(text)).map(Bandwidth::Bits)
        }
    }
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
const A_BANDWIDTH: &str = "a bandwidth such as 10Mb or 20%";
/// The longest name of a queue in pf.
const QUEUE_NAME_MAX: usize = 63;
/// Words of a rule that may follow `anchor` where the anchor has no name.
const ANCHOR_WORDS: [&str; 9] =
    ["in", "out", "quick", "on", "inet", "inet6", "proto", "from", "to"];
const STATEMENTS: Table<File> = Table {
    noun: "statement",
    lists: &[&[
        ("altq", Read(altq)),
        ("queue", Read(queue)),
        ("pass match", Read(rule)),
        ("block", Read(block)),
        ("table", Read(table)),
        ("set scrub nat rdr binat no anchor nat-anchor rdr-anchor binat-anchor", Read(no_queue)),
        ("load antispoof include nat-to af-to state-defaults ether", Read(no_queue)),
    ]],
};
/// Options of a queue, each at most once.
const QUEUE: Table<Queue> = Table {
    noun: "option of a queue",
    lists: &[&[
        ("on", Read(on)),
        ("parent", Read(parent)),
        ("bandwidth min max", Read(rate)),
        ("priority", Number(A_PRIORITY, |queue, priority| queue.class.priority = Some(priority))),
        ("qlimit", Read(|queue, words, reading| limit(&mut queue.class, words, reading))),
        (
            "cbq hfsc priq fairq",
            Read(|queue, words, reading| parenthesised(&mut queue.class, words, reading)),
        ),
        ("codel", Read(|queue, words, reading| codel(&mut queue.class, words, reading))),
        ("default", Flag(|queue| queue.class.default = true)),
        ("flows", Number(FLOWS, |queue, flows| queue.flows = Some(flows))),
        ("quantum", Number(QUANTUM, |queue, quantum| queue.quantum = Some(quantum))),
    ]],
};
/// Options in parentheses behind a scheduler.
const OPTIONS: Table<AltqClass> = Table {
    noun: "option of a queue",
    lists: &[
        altq_classes::OPTIONS,
        &[
            ("codel", Read(codel)),
            ("target interval", Read(time)),
            ("buckets", Number(A_NUMBER, |class, buckets| class.buckets = Some(buckets))),
            ("hogs", LeftOut(Some(RATE), "is left out: no flow goes before the turn of another")),
            ("ecn", Flag(|class| class.notify())),
            ("wrr root", Flag(|_| ())),
            ("prr flowvalve flowvalves", LeftOut(None, "is left out")),
            ("maxburst pktsize", LeftOut(Some(A_NUMBER), "is left out")),
            ("realtime linkshare upperlimit", Read(service_curve)),
        ],
    ],
};
const RATE: Kind = (A_BANDWIDTH, packed);
const FLOWS: Kind = ("a number of flows from 1 to 32767", within::<1, 32_767>);
const QUANTUM: Kind = ("a number of bytes from 1 to 65535", within::<1, 65_535>);
/// Options of `altq on`.
const ALTQ_WORDS: [&str; 9] =
    ["cbq", "hfsc", "priq", "fairq", "codelq", "bandwidth", "qlimit", "tbrsize", "queue"];
/// Words that look like options and so are not taken for the single child of a queue.
const OPTION_LIKE: [&str; 6] = ["(", ")", "}", "burst", "for", "="];
