//! Imports RouterOS: `/queue simple`, with the kinds of `/queue type`. One policy for uploads and
//! one for downloads: a class of `htb` a queue, chosen by the addresses of its `target`.
//!
//! Simple queues are tried from the first to the last, and children before the rest of their
//! parent. What no queue takes is not limited there. `/queue tree` becomes a policy for each
//! interface at the top of a tree: what its marks mean is in `marks.rs`.

mod marks;

use super::lines::{LineId, Reading};
use super::sketch::{Class, Key, Rule, Sketch, quoted, rate_value};
use super::words::{Word, bad_value, number, split_quoted, with_letter};
use super::{Fate, Language, Options};
use marks::Marks;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_policy::codes;
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language =
    Language { name: "routeros", summary: "an export of RouterOS with `/queue simple`", read };

/// A simple queue, with the values of uploads and of downloads.
struct Queue {
    line: LineId,
    name: String,
    parent: Option<String>,
    /// The interface that its target is.
    device: Option<String>,
    /// The addresses of its target; none is any.
    targets: Vec<String>,
    /// The addresses of its other end; none is any.
    others: Vec<String>,
    /// The rate that it has in bit/s, or 0.
    least: [u64; 2],
    /// The rate that it may have in bit/s, or 0 for any.
    most: [u64; 2],
    priority: [u64; 2],
    queues: [String; 2],
    /// The marks of its packets, if it is one of a tree.
    marks: Option<Vec<String>>,
}

impl Queue {
    /// Returns whether its packets are those that no rule marks.
    fn takes_rest(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.iter().any(|mark| mark == NO_MARK))
    }
}

/// The values of a line `add`.
type Values = BTreeMap<String, Word>;

#[derive(Default)]
struct File {
    queues: Vec<Queue>,
    /// The queue of each name of `/queue type`.
    types: BTreeMap<String, (Vec<Key>, Option<&'static str>)>,
    marks: Marks,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut file = File::default();
    let mut menu = String::new();
    for words in statements(text) {
        file.statement(words, &mut menu, reading);
    }
    let mut sketches = Vec::new();
    file.marks.report(&file.queues, reading);
    for (device, one) in file.by_device() {
        if let Some(device) = device.as_ref().filter(|_| one.queues[0].marks.is_some()) {
            sketches.push(one.sketch(0, device.clone(), options, reading));
            continue;
        }
        if device.is_some() {
            let note = "downloads leave by the interface, uploads arrive there";
            reading.noted(one.queues[0].line, note);
        }
        let name = |side: usize| match &device {
            Some(device) => format!("{device}-{}", SIDES[side]),
            None => SIDES[side].to_owned(),
        };
        sketches.extend((0..2).map(|side| one.sketch(side, name(side), options, reading)));
    }
    sketches
}

/// Splits the text into the words of each line; a line that ends in a backslash continues behind
/// the blanks of the next one.
fn statements(text: &str) -> Vec<Vec<Word>> {
    let mut statements = Vec::new();
    let (mut joined, mut places) = (String::new(), Vec::new());
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end();
        let (body, goes_on) = body.strip_suffix('\\').map_or((body, false), |body| (body, true));
        let blanks = if joined.is_empty() { 0 } else { body.len() - body.trim_start().len() };
        places.extend((blanks..body.len()).map(|at| offset + at));
        joined.push_str(&body[blanks..]);
        offset += line.len();
        if goes_on {
            continue;
        }
        let place = |at: usize| places.get(at).copied().unwrap_or(offset);
        let mut words = split_quoted(&joined, 0);
        for word in &mut words {
            let (start, end) = (place(word.span.start), place(word.span.end.saturating_sub(1)) + 1);
            word.span = Span { start, end: end.max(start) };
        }
        statements.extend((!words.is_empty()).then_some(words));
        joined.clear();
        places.clear();
    }
    statements
}

impl File {
    fn statement(&mut self, words: Vec<Word>, menu: &mut String, reading: &mut Reading) {
        let (first, last) = (words[0].span, words[words.len() - 1].span);
        let span = Span { start: first.start, end: last.end };
        let is_verb = |word: &Word| VERBS.contains(&word.text.as_str());
        let is_menu = words[0].text.starts_with('/');
        let at = words.iter().position(is_verb);
        if is_menu {
            let path = &words[..at.unwrap_or(words.len())];
            let parts = path.iter().flat_map(|word| word.text.split('/'));
            *menu = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        }
        let of_queues = menu.starts_with("queue") || marks::MENUS.contains(&menu.as_str());
        let Some(at) = at.filter(|at| is_menu || *at == 0) else {
            if is_menu && !of_queues {
                let line = reading.line(span);
                reading.lost(line, "this menu has no queue");
            } else if !is_menu && of_queues {
                let line = reading.line(span);
                reading.lost(line, "a script: Weir runs none; give what `/export` prints");
            }
            return;
        };
        if !of_queues {
            if is_menu {
                let line = reading.line(span);
                reading.lost(line, "this menu has no queue");
            }
            return;
        }
        let line = reading.line(span);
        if words[at].text != "add" {
            return reading.lost(line, "it changes a queue that the file does not show");
        }
        let values: Values = words[at + 1..].iter().filter_map(value).collect();
        match menu.as_str() {
            "queue simple" => drop(self.simple(&values, (line, span), reading)),
            "queue type" => self.kind(&values, line, reading),
            "queue tree" => drop(self.tree(&values, (line, span), reading)),
            menu if marks::MENUS.contains(&menu) => self.marks.read(menu, &values, line, reading),
            _ => reading.lost(line, "this menu has no queue"),
        }
    }

    fn simple(
        &mut self,
        values: &Values,
        (line, span): (LineId, Span),
        reading: &mut Reading,
    ) -> Option<()> {
        let text = |key: &str| values.get(key).map(|word| word.text.as_str()).unwrap_or_default();
        self.counts(text("disabled"), line, reading)?;
        if !text("packet-marks").is_empty() {
            reading.lost(line, OF_MARKS);
            return None;
        }
        for (key, word) in values {
            left_out(key, word, line, reading);
        }
        let pair = |key: &str, otherwise: u64, parse: fn(&str) -> Option<u64>, r: &mut Reading| {
            pair(values.get(key), otherwise, parse, r)
        };
        let least = pair("limit-at", 0, rate, reading)?;
        let most = pair("max-limit", 0, rate, reading)?;
        let priority = pair("priority", 8, |text| number(text).filter(|one| *one <= 8), reading)?;
        let kinds = match text("queue") {
            "" => "default-small/default-small",
            text => text,
        };
        let (up, down) = kinds.split_once('/').unwrap_or((kinds, kinds));
        let target = if values.contains_key("target") { "target" } else { "target-addresses" };
        let (targets, device) = addresses(text(target), "target", line, reading);
        let (others, _) = addresses(text("dst"), "dst", line, reading);
        let name = match text("name") {
            "" => format!("queue{}", self.queues.len() + 1),
            name => name.to_owned(),
        };
        self.named_once(&name, span, reading)?;
        let parent =
            Some(text("parent").to_owned()).filter(|name| !["", "none"].contains(&name.as_str()));
        let queues = [up.to_owned(), down.to_owned()];
        self.queues.push(Queue {
            line,
            name,
            parent,
            device,
            targets,
            others,
            least,
            most,
            priority,
            queues,
            marks: None,
        });
        Some(())
    }

    /// Tells of a queue that is disabled or one too many, which is lost.
    fn counts(&self, disabled: &str, line: LineId, reading: &mut Reading) -> Option<()> {
        if self.queues.len() >= QUEUES_MAX {
            reading.lost(line, format!("the file has more than {QUEUES_MAX} queues"));
            return None;
        }
        if disabled == "yes" {
            reading.lost(line, "it is disabled");
            return None;
        }
        Some(())
    }

    fn named_once(&self, name: &str, span: Span, reading: &mut Reading) -> Option<()> {
        if self.queues.iter().any(|one| one.name == name) {
            let message = format!("two queues are called `{name}`");
            reading.error(&codes::DECLARED_TWICE, span, message, "rename one of them");
            return None;
        }
        Some(())
    }

    /// Reads a queue of a tree, which is for one direction: what leaves by the interface at its
    /// top.
    fn tree(
        &mut self,
        values: &Values,
        (line, span): (LineId, Span),
        reading: &mut Reading,
    ) -> Option<()> {
        let text = |key: &str| values.get(key).map(|word| word.text.as_str()).unwrap_or_default();
        self.counts(text("disabled"), line, reading)?;
        for (key, word) in values.iter().filter(|row| row.0 != "packet-mark") {
            left_out(key, word, line, reading);
        }
        let one = |key: &str, otherwise: u64, parse: fn(&str) -> Option<u64>, r: &mut Reading| {
            pair(values.get(key), otherwise, parse, r)
        };
        let least = one("limit-at", 0, rate, reading)?;
        let most = one("max-limit", 0, rate, reading)?;
        let priority = one("priority", 8, |text| number(text).filter(|one| *one <= 8), reading)?;
        let name = match text("name") {
            "" => format!("queue{}", self.queues.len() + 1),
            name => name.to_owned(),
        };
        self.named_once(&name, span, reading)?;
        let above = text("parent").to_owned();
        if above.is_empty() {
            reading.lost(line, "a queue of a tree needs a `parent`");
            return None;
        }
        let inside = self.queues.iter().any(|one| one.marks.is_some() && one.name == above);
        let (parent, device) = if inside { (Some(above), None) } else { (None, Some(above)) };
        let kind = if values.contains_key("queue") { text("queue") } else { "default-small" };
        let marks = text("packet-mark").split(',').filter(|mark| !mark.is_empty());
        let marks = Some(marks.map(str::to_owned).collect());
        let (targets, others) = Default::default();
        let queues = [kind.to_owned(), kind.to_owned()];
        self.queues.push(Queue {
            line,
            name,
            parent,
            device,
            targets,
            others,
            least,
            most,
            priority,
            queues,
            marks,
        });
        Some(())
    }

    /// Reads a line of `/queue type`.
    fn kind(&mut self, values: &Values, line: LineId, reading: &mut Reading) {
        let text = |key: &str| values.get(key).map(|word| word.text.as_str()).unwrap_or_default();
        let (keys, note) =
            kind(text("kind"), &|key| Some(text(key)).filter(|text| !text.is_empty()));
        if let Some(note) = note {
            reading.approximated(line, note);
        }
        let known =
            ["name", "kind", "pfifo-limit", "bfifo-limit", "pcq-classifier", "fq-codel-limit"];
        for (key, word) in values.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let is_limit = key == "pcq-rate" && word.text != "0";
            if is_limit {
                let note = "each address may send so much and no more: write a class for each, by \
                            hand or by `[template]`, with that `ceil`";
                reading.lost(line, format!("`pcq-rate={}`: {note}", word.text));
            } else if !["0", "0bps", "0s"].contains(&word.text.as_str()) {
                reading.approximated(line, format!("`{key}={}` has no counterpart", word.text));
            }
        }
        self.types.insert(text("name").to_owned(), (keys, note));
    }

    /// Returns the queue of a name: one of the file, or one that RouterOS has.
    fn queue_keys(&self, name: &str, line: LineId, reading: &mut Reading) -> Vec<Key> {
        let own = self.types.get(name).cloned();
        let (keys, note) = own.unwrap_or_else(|| {
            let built_in = BUILT_IN.iter().find(|row| row.0 == name);
            let Some((_, of_kind, option, value)) = built_in else {
                return (
                    limit("50 packets"),
                    Some("the file has no type of this name: 50 packets"),
                );
            };
            kind(of_kind, &|key| Some(*value).filter(|_| key == *option))
        });
        if let Some(note) = note {
            reading.approximated(line, format!("`{name}`: {note}"));
        }
        keys
    }

    /// Returns the queues of each interface that is a target with those below, and the others.
    fn by_device(self) -> Vec<(Option<String>, File)> {
        let mut groups: Vec<(Option<String>, File)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for queue in self.queues {
            let above = queue.parent.as_ref().and_then(|parent| places.get(parent)).copied();
            let found = groups.iter().position(|group| group.0 == queue.device);
            let at = above.or(found).unwrap_or(groups.len());
            if at == groups.len() {
                let (types, marks) = (self.types.clone(), self.marks.clone());
                groups.push((queue.device.clone(), File { queues: Vec::new(), types, marks }));
            }
            places.insert(queue.name.clone(), at);
            groups[at].1.queues.push(queue);
        }
        groups
    }

    fn sketch(
        &self,
        side: usize,
        name: String,
        options: &Options,
        reading: &mut Reading,
    ) -> Sketch {
        let first = self.queues[0].line;
        let mut sketch = Sketch::new(name, reading.span(first));
        sketch.scheduler = "htb";
        sketch.oversubscribed = true;
        // A queue of all packets is the link.
        let whole = self.whole().filter(|queue| queue.most[side] > 0);
        let most = whole.map_or(0, |queue| queue.most[side]);
        let given = options.rate.map_or(most, |rate| rate.bits_per_second());
        sketch.rate = most.min(given);
        sketch.rate_or(options, first, reading);
        let link = sketch.rate;
        let order = self.order();
        for &at in &order {
            let queue = &self.queues[at];
            let parent = queue.parent.as_ref();
            let above = |one: &usize| Some(&self.queues[*one].name) == parent;
            // A circle of parents is broken where it begins.
            let parent_at = order.iter().take(sketch.classes.len()).position(above);
            if parent.is_some() && parent_at.is_none() {
                let note = "its parent is not in the file: it stands at the link";
                reading.approximated(queue.line, note);
            }
            let mut class = Class::new(queue.name.clone(), parent_at, queue.line);
            let most = Some(queue.most[side]).filter(|most| *most > 0);
            let highest = most.unwrap_or(link);
            class.rate = Some(queue.least[side].clamp(LEAST_RATE, highest.max(LEAST_RATE)));
            class.keys.push(("ceil", rate_value(highest.max(LEAST_RATE))));
            let prio = queue.priority[side].max(1) - 1;
            class.leaf_keys.push(("prio", prio.to_string()));
            class.queue = self.queue_keys(&queue.queues[side], queue.line, reading);
            sketch.classes.push(class);
        }
        self.give_rules(side, &order, &mut sketch);
        raise_parents(&mut sketch);
        if let Some(queue) = whole {
            let at = sketch.classes.iter().position(|class| class.line == queue.line);
            let class = &mut sketch.classes[at.unwrap_or_default()];
            (class.default, class.rules) = (true, Vec::new());
            sketch.under_link(first);
            return sketch;
        }
        if let Some(queue) = self.queues.iter().find(|queue| queue.takes_rest()) {
            let at = sketch.classes.iter().position(|class| class.line == queue.line);
            sketch.classes[at.unwrap_or_default()].default = true;
            sketch.under_link(first);
            return sketch;
        }
        let tops = (0..order.len()).filter(|at| sketch.classes[*at].parent.is_none());
        let most = tops.map(|at| Some(self.queues[order[at]].most[side]).filter(|most| *most > 0));
        let taken = most.map(|most| most.unwrap_or(link)).fold(0, u64::saturating_add);
        let mut rest = Class::new("unlimited", None, first);
        rest.rate = Some(link.saturating_sub(taken).max(link / 100).max(1));
        rest.keys.push(("ceil", rate_value(link)));
        rest.default = true;
        let note = "packets of no queue, which RouterOS does not limit, go to class `unlimited`: \
                    it is sure of what the limits of the queues leave";
        reading.approximated(first, note);
        sketch.classes.push(rest);
        sketch.under_link(first);
        sketch
    }

    /// Returns the only queue at the top, if it takes all packets.
    fn whole(&self) -> Option<&Queue> {
        let mut tops = self.queues.iter().filter(|queue| queue.parent.is_none());
        let only = tops.next().filter(|_| tops.next().is_none())?;
        let all = only.targets.is_empty() && only.others.is_empty();
        (all && only.marks.is_none()).then_some(only)
    }

    /// Returns the queues, each behind its parent.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        let known = |name: &String| self.queues.iter().any(|one| one.name == *name);
        // Terminates: each turn adds a queue, or all that are left, whose parents are a circle.
        while order.len() < self.queues.len() {
            let before = order.len();
            for (at, queue) in self.queues.iter().enumerate() {
                let parent = queue.parent.as_ref().filter(|parent| known(parent));
                let there =
                    |parent: &String| order.iter().any(|one| self.queues[*one].name == *parent);
                if !order.contains(&at) && parent.is_none_or(there) {
                    order.push(at);
                }
            }
            if order.len() == before {
                let rest = (0..self.queues.len()).filter(|at| !order.contains(at));
                order.extend(rest.collect::<Vec<_>>());
            }
        }
        order
    }

    /// Gives each class its rules: in the order of the file, children before their parent.
    fn give_rules(&self, side: usize, order: &[usize], sketch: &mut Sketch) {
        let depth = |at: usize| {
            let above = std::iter::successors(Some(at), |at| sketch.classes[*at].parent);
            above.take(order.len()).count() as u64
        };
        // The place of the uppermost queue in the file, then the deepest first.
        let rank = |at: usize| {
            let above = std::iter::successors(Some(at), |at| sketch.classes[*at].parent);
            let top = above.take(order.len()).last().unwrap_or(at);
            let deep = (DEPTH_MAX - depth(at).min(DEPTH_MAX)) << 20;
            ((order[top] as u64) << 32) | deep | order[at] as u64
        };
        let ranks: Vec<u64> = (0..order.len()).map(rank).collect();
        let [own, other] = if side == 0 { ["src", "dst"] } else { ["dst", "src"] };
        if let Some(top) = self.queues.first().filter(|queue| queue.marks.is_some()) {
            let marks = |at: usize| self.queues[order[at]].marks.as_deref().unwrap_or_default();
            for (keys, mark, rank) in self.marks.rules(top.device.as_deref().unwrap_or_default()) {
                let of = |at: &usize| marks(*at).contains(&mark);
                if let Some(at) = (0..order.len()).find(of) {
                    sketch.classes[at].rules.push(Rule { keys, rank });
                }
            }
            return;
        }
        for (at, rank) in ranks.into_iter().enumerate() {
            let queue = &self.queues[order[at]];
            let mut keys = Vec::new();
            for (key, list) in [(own, self.targets(at, order, sketch)), (other, &queue.others)] {
                let all: Vec<String> = list.iter().map(|one| quoted(one)).collect();
                keys.extend((!all.is_empty()).then(|| (key, format!("[{}]", all.join(", ")))));
            }
            sketch.classes[at].rules.push(Rule { keys, rank });
        }
    }

    /// Returns the addresses of a queue, or those of the first above it that has some.
    fn targets(&self, at: usize, order: &[usize], sketch: &Sketch) -> &Vec<String> {
        let above = std::iter::successors(Some(at), |at| sketch.classes[*at].parent);
        let mut all = above.take(order.len()).map(|at| &self.queues[order[at]].targets);
        all.find(|list| !list.is_empty()).unwrap_or(&self.queues[order[at]].targets)
    }
}

/// Gives a parent the rates of its children, up to its ceiling, as RouterOS does where its own is
/// less.
fn raise_parents(sketch: &mut Sketch) {
    for at in (0..sketch.classes.len()).rev() {
        let children = sketch.classes.iter().filter(|class| class.parent == Some(at));
        let sum = children.filter_map(|class| class.rate).fold(0, u64::saturating_add);
        let ceil = sketch.classes[at].keys.iter().find(|key| key.0 == "ceil");
        let ceil =
            ceil.and_then(|key| key.1.trim_matches('"').parse::<weir_core::units::Rate>().ok());
        let most = ceil.map_or(u64::MAX, |rate| rate.bits_per_second());
        let class = &mut sketch.classes[at];
        class.rate = class.rate.map(|rate| rate.max(sum.min(most)));
    }
}

/// Splits `KEY=VALUE`.
fn value(word: &Word) -> Option<(String, Word)> {
    let (key, value) = word.text.split_once('=')?;
    Some((key.to_owned(), Word { text: value.to_owned(), span: word.span }))
}

/// Reads `UPLOAD/DOWNLOAD`, or one value for both.
fn pair(
    word: Option<&Word>,
    otherwise: u64,
    parse: fn(&str) -> Option<u64>,
    reading: &mut Reading,
) -> Option<[u64; 2]> {
    let Some(word) = word else { return Some([otherwise; 2]) };
    let (up, down) = word.text.split_once('/').unwrap_or((&word.text, &word.text));
    let both = parse(up).zip(parse(down));
    if both.is_none() {
        bad_value(word, "a value for uploads and one for downloads, such as 5M/20M", reading);
    }
    both.map(|(up, down)| [up, down])
}

fn rate(text: &str) -> Option<u64> {
    with_letter(text, [1_000, 1_000_000, 1_000_000_000])
}

/// Reads addresses, or the interface that stands for them; no addresses are any.
fn addresses(
    text: &str,
    key: &str,
    line: LineId,
    reading: &mut Reading,
) -> (Vec<String>, Option<String>) {
    let mut found = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (host, length) = part.split_once('/').unwrap_or((part, ""));
        let Ok(address) = host.parse::<IpAddr>() else {
            if key == "target" && part == text {
                return (Vec::new(), Some(part.to_owned()));
            }
            let shown: String = part.chars().take(SHOWN_MAX).collect();
            reading.approximated(line, format!("`{key}={shown}` is left out: it is no address"));
            continue;
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        match length {
            "0" => return (Vec::new(), None),
            "" => found.push(part.to_owned()),
            text if number(text).is_some_and(|length| length <= most) => {
                found.push(part.to_owned());
            }
            _ => reading.approximated(line, format!("`{part}` is left out: it is no network")),
        }
    }
    (found, None)
}

/// Returns the queue of a kind with its options, and what differs.
fn kind<'v>(
    name: &str,
    option: &dyn Fn(&str) -> Option<&'v str>,
) -> (Vec<Key>, Option<&'static str>) {
    let count = |key: &str, otherwise: u64| {
        option(key).and_then(number).unwrap_or(otherwise).clamp(1, 1_000_000)
    };
    match name {
        "bfifo" => {
            let bytes = count("bfifo-limit", 15_000).max(1500);
            (limit(&format!("{bytes} B")), None)
        }
        "sfq" => (vec![("dropper", quoted("sfq"))], None),
        "fq-codel" => (vec![("dropper", quoted("fq-codel"))], None),
        "codel" => (vec![("dropper", quoted("codel"))], None),
        "cake" => {
            let note = "cake becomes flows by turns, as in fq-codel";
            (vec![("dropper", quoted("fq-codel"))], Some(note))
        }
        "pcq" => {
            let by = option("pcq-classifier").unwrap_or("src-address,dst-address");
            let hash = match (by.contains("src-address"), by.contains("dst-address")) {
                (true, false) => "srcaddr",
                (false, true) => "dstaddr",
                _ => "srcaddr,dstaddr",
            };
            let keys = vec![("dropper", quoted("fq-codel")), ("hash", quoted(hash))];
            (keys, Some("addresses take turns, as flows do in fq-codel"))
        }
        "red" => (limit("60 packets"), Some("RED becomes a queue of 60 packets")),
        _ => {
            let packets = count("pfifo-limit", 50);
            let unit = if packets == 1 { "packet" } else { "packets" };
            (limit(&format!("{packets} {unit}")), None)
        }
    }
}

fn limit(text: &str) -> Vec<Key> {
    vec![("limit", quoted(text))]
}

/// Reports what Weir does not have; a value that stands for none is nothing to report.
fn left_out(key: &str, word: &Word, line: LineId, reading: &mut Reading) {
    let is_none = |part: &str| part.trim_end_matches(['s', '0', '.']).is_empty();
    let none = word.text.split('/').all(is_none);
    match KEYS.iter().find(|row| row.0.contains(&key)) {
        Some((_, Fate::Kept, _)) => {}
        Some(_) if none => {}
        Some((_, _, note)) => reading.approximated(line, format!("`{key}` is left out: {note}")),
        None => reading.approximated(line, format!("`{key}` is left out: it is not known here")),
    }
}

const SIDES: [&str; 2] = ["upload", "download"];
const VERBS: [&str; 7] = ["add", "set", "remove", "print", "disable", "enable", "move"];
/// Keys of a simple queue, and what becomes of each.
const KEYS: [(&[&str], Fate, &str); 5] = [
    (
        &[
            "name",
            "target",
            "target-addresses",
            "dst",
            "max-limit",
            "limit-at",
            "priority",
            "parent",
            "queue",
            "disabled",
            "comment",
            "packet-marks",
        ],
        Fate::Kept,
        "",
    ),
    (
        &["burst-limit", "burst-threshold", "burst-time", "bucket-size"],
        Fate::Approximated,
        "a burst here is of bytes, not of an average over seconds",
    ),
    (
        &[
            "total-limit-at",
            "total-max-limit",
            "total-priority",
            "total-queue",
            "total-burst-limit",
            "total-burst-threshold",
            "total-burst-time",
            "total-bucket-size",
        ],
        Fate::Approximated,
        "each direction has its own policy",
    ),
    (&["time"], Fate::Approximated, "the queue counts at all times"),
    (&["place-before"], Fate::Approximated, "queues are tried as the file has them"),
];
/// The types that RouterOS has: kind, option and value.
const BUILT_IN: [(&str, &str, &str, &str); 12] = [
    ("default", "pfifo", "pfifo-limit", "50"),
    ("default-small", "pfifo", "pfifo-limit", "10"),
    ("ethernet-default", "pfifo", "pfifo-limit", "50"),
    ("wireless-default", "sfq", "", ""),
    ("hotspot-default", "sfq", "", ""),
    ("synchronous-default", "red", "", ""),
    ("pcq-upload-default", "pcq", "pcq-classifier", "src-address"),
    ("pcq-download-default", "pcq", "pcq-classifier", "dst-address"),
    ("only-hardware-queue", "pfifo", "pfifo-limit", "50"),
    ("multi-queue-ethernet-default", "pfifo", "pfifo-limit", "50"),
    ("fq-codel-ethernet-default", "fq-codel", "", ""),
    ("fq-codel-default", "fq-codel", "", ""),
];
const OF_MARKS: &str = "its packets have a mark of the router's firewall, which is not in them: \
                        write the conditions of the mark as `match` in a class";
/// The mark of packets that no rule marks.
const NO_MARK: &str = "no-mark";
/// The rate of a queue without `limit-at`.
const LEAST_RATE: u64 = 10_000;
/// Bound: simple queues of a file; further ones are reported as lost.
const QUEUES_MAX: usize = 4096;
/// More queues than stand above one another.
const DEPTH_MAX: u64 = 1 << 11;
/// The most characters of a word in a note.
const SHOWN_MAX: usize = 40;
