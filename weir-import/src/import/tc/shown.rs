//! Reads what `tc qdisc show`, `tc class show` and `tc filter show` print, as text and as JSON, and
//! writes it as the commands that would make it [linux].
//!
//! tc prints most options under the words by which it takes them; `SKIPPED` and `RENAMED` have the
//! others. Text is rounded: a rate above a million has three digits less, and so has the policy.

use super::super::words::Word;
use super::actions::munged;
use super::shown_queues;
use super::units::{rate, size, written_burst};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use weir_policy::finding::Span;

/// A discipline, a class or a filter that is in force.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub span: Span,
    object: &'static str,
    kind: String,
    /// The handle of a discipline, the number of a class.
    id: String,
    device: Option<String>,
    parent: Option<String>,
    words: Vec<String>,
}

impl Shown {
    /// Reads the first line of a statement of text; none if no `show` prints it.
    pub(super) fn begin(line: &str, span: Span) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next()?, words.next()?);
        let object = OBJECTS.into_iter().find(|object| *object == first)?;
        let mut one = Self::empty(object, span);
        if object == "filter" {
            if !["parent", "protocol", "dev"].contains(&second) {
                return None;
            }
            one.words = std::iter::once(second).chain(words).map(str::to_owned).collect();
            return Some(one);
        }
        let id = words.next()?;
        if !id.contains(':') {
            return None;
        }
        (one.kind, one.id) = (second.to_owned(), id.to_owned());
        one.words = words.map(str::to_owned).collect();
        Some(one)
    }

    fn empty(object: &'static str, span: Span) -> Self {
        let (kind, id, device, parent, words) = Default::default();
        Self { span, object, kind, id, device, parent, words }
    }

    /// Reads a further line of the statement, which tc indents.
    pub(super) fn further(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let added = match (self.object, words.as_slice()) {
            ("qdisc", ["linklayer" | "overhead" | "mpu", ..]) => {
                self.words.splice(0..0, ["stab".to_owned()]);
                let at = 1..1;
                self.words.splice(at, words.iter().take(6).map(|word| (*word).to_owned()));
                return;
            }
            // `-s` counts behind it.
            ("filter", ["match", pair, "at", place, ..]) => {
                let Some((value, mask)) = pair.split_once('/') else { return };
                format!("match u32 0x{value} 0x{mask} at {place}")
            }
            ("filter", ["mark", value, mask, ..]) => format!("match mark {value} {mask}"),
            ("filter", ["hash", "mask", mask, "at", place]) => {
                format!("hashkey mask 0x{mask} at {place}")
            }
            ("filter", ["offset", moved, "at", place, rest @ ..]) => {
                let (mask, shift) = moved.split_once(">>").unwrap_or((moved, "0"));
                format!("offset at {place} mask {mask} shift {shift} {}", rest.join(" "))
            }
            ("filter", ["police", _, rest @ ..]) => policer("police", rest),
            ("filter", ["action", "order", _, "police", _, rest @ ..]) => {
                policer("action police", rest)
            }
            ("filter", ["action", "order", _, kind, ..]) => format!("action {kind}"),
            ("filter", ["key", _, "at", place, command, value, "mask", kept]) => {
                rewritten(place, [command, value, kept])
            }
            ("filter", [word, _]) if FLOWER.contains(word) => line.to_owned(),
            ("filter", [expression, ..]) if is_basic(expression) => format!("match {line}"),
            ("qdisc", words) => match shown_queues::further(&self.kind, words) {
                Some(added) => added,
                None => return,
            },
            _ => return,
        };
        self.words.extend(added.split_whitespace().map(str::to_owned));
    }

    /// Returns whether a line that is not indented belongs to it and has figures alone.
    pub(super) fn has_figures(&self, line: &str) -> bool {
        self.object == "qdisc" && shown_queues::is_figures(&self.kind, line)
    }

    /// Reads an object of JSON.
    fn of_table(table: &[(String, Node)], span: Span) -> Self {
        let text = |key: &str| {
            let found = table.iter().find(|row| row.0 == key).map(|row| &row.1);
            found.and_then(
                |node| if let Node::Text(text) = node { Some(text.clone()) } else { None },
            )
        };
        let object = match () {
            () if text("class").is_some() => "class",
            () if text("protocol").is_some() || text("pref").is_some() => "filter",
            () => "qdisc",
        };
        let mut one = Self::empty(object, span);
        one.kind = text("class").or_else(|| text("kind")).unwrap_or_default();
        one.id = text("handle").unwrap_or_default();
        let named = ["class", "kind", "handle"];
        // Figures stand beside the options.
        let is_figure = |key: &str| object == "qdisc" && !QDISC.contains(&key);
        let rest =
            table.iter().filter(|row| !named.contains(&row.0.as_str()) && !is_figure(&row.0));
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        for (key, node) in rest {
            match node {
                Node::Table(rows) if key == "options" && object == "qdisc" => {
                    rows.iter().for_each(|(key, node)| node.option(&one.kind, key, &mut tail));
                }
                _ if key == "options" => node.write(key, &mut tail, 0),
                _ => node.write(key, &mut head, 0),
            }
        }
        if object == "filter" {
            head.push(one.kind.clone());
        }
        let words = head.iter().chain(&tail).flat_map(|words| words.split_whitespace());
        one.words = words.map(str::to_owned).collect();
        one
    }

    /// Takes the place, the device and what stands for nothing out of the words.
    fn finish(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        let mut out: Vec<String> = Vec::new();
        if let Some(at) = words.iter().position(|word| word == "stab") {
            let rest = words.split_off(at);
            let (stab, after) = split_stab(&rest);
            out.extend(stab.iter().cloned());
            words.extend(after.iter().cloned());
        }
        let kind = if self.object == "class" { "class" } else { self.kind.as_str() };
        let skipped = |word: &str| {
            let row = SKIPPED.iter().find(|row| row.0 == word);
            row.is_some_and(|row| row.1.is_empty() || row.1.contains(&kind))
        };
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let text = word.as_str();
            if skipped(text) {
                let _value = words.next();
                continue;
            }
            match text {
                // `(rule hit 9 success 9)`.
                "(rule" => while words.next().is_some_and(|word| !word.ends_with(')')) {},
                "dev" => self.device = words.next(),
                "root" => self.parent = Some("root".to_owned()),
                "parent" => self.parent = words.next(),
                "key" if self.object == "filter" => {
                    let rest: Vec<String> = words.by_ref().take(4).collect();
                    if let [_, table, _, bucket] = rest.as_slice() {
                        out.extend(["ht".to_owned(), format!("{table}:{bucket}:")]);
                    }
                }
                // `ht divisor 256`, unlike `ht 4:9:`.
                "ht" if words.peek().is_some_and(|next| next == "divisor") => {}
                _ if FLAGS.contains(&text) => {}
                _ => out.push(value_of(out.last().map_or("", String::as_str), text)),
            }
        }
        self.words = out;
    }

    /// Returns the words of its commands; none for what the kernel made by itself.
    fn commands(&self, device: &str) -> Vec<Vec<String>> {
        let parts = match self.object {
            "qdisc" => shown_queues::commands(&self.kind, split_stab(&self.words).1),
            _ => vec![self.words.clone()],
        };
        let actions = std::iter::once("add").chain(std::iter::repeat("change"));
        let command = |(action, words): (&str, Vec<String>)| self.command(device, action, &words);
        actions.zip(parts).filter_map(command).collect()
    }

    fn command(&self, device: &str, action: &str, options: &[String]) -> Option<Vec<String>> {
        let parent = self.parent.as_deref();
        let mut words = vec![self.object.to_owned(), action.to_owned(), "dev".to_owned()];
        words.push(device.to_owned());
        match (self.object, parent) {
            ("qdisc", _) if ["ingress", "clsact"].contains(&self.kind.as_str()) => {}
            (_, None) => {}
            ("class", Some("root")) => {
                let major = self.id.split(':').next().unwrap_or_default();
                words.extend(["parent".to_owned(), format!("{major}:")]);
            }
            (_, Some("root")) => words.push("root".to_owned()),
            (_, Some(parent)) => words.extend(["parent".to_owned(), parent.to_owned()]),
        }
        match self.object {
            "qdisc" if ["0:", ""].contains(&self.id.as_str()) => return None,
            "qdisc" => {
                words.extend(["handle".to_owned(), self.id.clone()]);
                words.extend(split_stab(&self.words).0.iter().cloned());
                words.push(self.kind.clone());
                words.extend(options.iter().cloned());
            }
            // The root of hfsc is shown as a class without a number.
            "class" if !CLASSES.contains(&self.kind.as_str()) || self.id.ends_with(':') => {
                return None;
            }
            "class" => {
                words.extend(["classid".to_owned(), self.id.clone(), self.kind.clone()]);
                words.extend(self.words.iter().cloned());
                written_bursts(&mut words);
            }
            _ => words.extend(filter(&self.words)?),
        }
        Some(words)
    }
}

fn policer(head: &str, rest: &[&str]) -> String {
    let known = |pair: &&[&str]| ["rate", "burst", "mtu", "action", "peakrate"].contains(&pair[0]);
    let pairs: Vec<String> = rest
        .chunks(2)
        .filter(|pair| pair.len() == 2)
        .filter(known)
        .map(|pair| {
            let word = if pair[0] == "action" { "conform-exceed" } else { pair[0] };
            format!("{word} {}", pair[1])
        })
        .collect();
    format!("{head} {}", pairs.join(" "))
}

/// Returns a key of `pedit`, `ipv4+0: val VALUE mask KEPT`, as a script would write it.
fn rewritten(place: &str, [command, value, kept]: [&str; 3]) -> String {
    let (header, place) = place.split_once('+').unwrap_or(("network", place));
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let place = place.trim_end_matches(':');
    match (place.parse(), hex(value), hex(kept)) {
        (Ok(place), Some(value), Some(kept)) if command == "val" => {
            munged(header, place, value, kept)
        }
        _ => format!("munge offset {place}"),
    }
}

fn is_basic(word: &str) -> bool {
    ["cmp(", "meta(", "u32(", "NOT", "(cmp"].iter().any(|begin| word.starts_with(begin))
}

/// Returns a value behind the word `before`, or a word, as tc takes it.
fn value_of(before: &str, text: &str) -> String {
    if let Some(bare) = shown_queues::bare(before, text) {
        return bare;
    }
    let renamed = RENAMED.iter().find(|row| row.0 == text);
    renamed.map_or(text, |row| row.1).to_owned()
}

/// Returns the words of `stab` and the rest.
fn split_stab(words: &[String]) -> (&[String], &[String]) {
    if words.first().is_none_or(|word| word != "stab") {
        return (&[], words);
    }
    let of_stab = |pair: &&[String]| STAB.contains(&pair[0].as_str());
    let pairs = words[1..].chunks(2).take_while(of_stab).count();
    words.split_at((1 + 2 * pairs).min(words.len()))
}

/// Replaces the bursts of the kernel by the sizes from which it has them.
fn written_bursts(words: &mut [String]) {
    for (burst, of) in [("burst", "rate"), ("cburst", "ceil")] {
        let at = |word: &str| words.iter().position(|other| other == word).map(|at| at + 1);
        let Some((at, rate_at)) = at(burst).zip(at(of)) else { continue };
        let bits = words.get(rate_at).and_then(|text| rate(text));
        let bytes = words.get(at).and_then(|text| size(text.split('/').next()?));
        if let Some((bits, bytes)) = bits.zip(bytes).filter(|pair| pair.0 > 0) {
            words[at] = written_burst(bytes, bits).to_string();
        }
    }
}

/// Returns the words of a filter; none for the line that stands for all of a priority, and for a
/// table that the kernel makes by itself.
fn filter(words: &[String]) -> Option<Vec<String>> {
    let at = words.iter().position(|word| KINDS.contains(&word.as_str()))?;
    let (head, tail) = words.split_at(at);
    let has = |word: &str| tail.iter().any(|other| other == word);
    let known = ["handle", "flowid", "classid", "match", "divisor"].into_iter().any(has);
    let id = tail.iter().position(|word| word == "handle").and_then(|at| tail.get(at + 1));
    let own = has("divisor") && id.is_some_and(|id| id.len() == 4 && id.starts_with('8'));
    if !known || own {
        return None;
    }
    // The handle comes before the kind, all else behind it.
    let mut out = head.to_vec();
    out.extend(id.into_iter().flat_map(|id| ["handle".to_owned(), id.clone()]));
    let mut rest = tail.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "handle" => drop(rest.next()),
            "???" => drop(out.pop()),
            _ => out.push(word.clone()),
        }
    }
    // A class comes last, behind what it is for.
    let class = out.iter().position(|word| word == "flowid" || word == "classid");
    if let Some(at) = class.filter(|at| at + 1 < out.len()) {
        let class: Vec<String> = out.drain(at..at + 2).collect();
        let end = out.iter().position(|word| ["police", "action"].contains(&word.as_str()));
        let end = end.unwrap_or(out.len());
        out.splice(end..end, class);
    }
    Some(out)
}

/// Returns the commands for what is shown: disciplines, then classes from the top, then filters.
/// `device` is the device of lines that name none.
pub(super) fn commands(mut shown: Vec<Shown>, device: &str) -> Vec<(Span, Vec<Word>)> {
    shown.iter_mut().for_each(Shown::finish);
    let major = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let mut devices: BTreeMap<String, String> = BTreeMap::new();
    for one in shown.iter().filter(|one| one.object == "qdisc") {
        if let Some(device) = &one.device {
            devices.entry(major(&one.id)).or_insert_with(|| device.clone());
        }
    }
    let name = |one: &Shown| {
        let of = if one.object == "filter" { one.parent.as_deref().unwrap_or("") } else { &one.id };
        let found = one.device.clone().or_else(|| devices.get(&major(of)).cloned());
        found.unwrap_or_else(|| device.to_owned())
    };
    let above: BTreeMap<&str, Option<&str>> = shown
        .iter()
        .filter(|one| one.object == "class")
        .map(|one| (one.id.as_str(), one.parent.as_deref()))
        .collect();
    let rank = |one: &Shown| match (one.object, one.parent.as_deref()) {
        ("qdisc", Some("root") | None) => 0,
        ("qdisc", _) => 1,
        ("class", _) => 2 + depth(one, &above),
        _ => usize::MAX,
    };
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.sort_by_cached_key(|at| rank(&shown[*at]));
    let commands = |at: usize| {
        let one = &shown[at];
        let word = |text: String| Word { text, span: one.span };
        let words = one.commands(&name(one)).into_iter();
        words.map(move |words| (one.span, words.into_iter().map(word).collect()))
    };
    order.into_iter().flat_map(commands).collect()
}

/// Returns how many classes are above one.
fn depth(class: &Shown, above: &BTreeMap<&str, Option<&str>>) -> usize {
    let mut next = class.parent.as_deref();
    for depth in 0..DEPTH_MAX {
        match next.and_then(|next| above.get(next)) {
            Some(parent) => next = *parent,
            None => return depth,
        }
    }
    DEPTH_MAX
}

/// A value of JSON. tc writes a key of an object several times, which a map would lose.
enum Node {
    Text(String),
    Number(String),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Writes a key and its value as words.
    fn write(&self, key: &str, out: &mut Vec<String>, depth: usize) {
        let named = key.to_owned();
        match self {
            _ if depth > DEPTH_MAX => {}
            Self::Table(rows) if key == "match" => {
                let of = |key: &str| Self::of(rows, key);
                let at = of("offmask") + &of("off");
                let words = format!("match u32 0x{} 0x{} at {at}", of("value"), of("mask"));
                out.extend(words.split_whitespace().map(str::to_owned));
            }
            Self::Table(rows) if Self::of(rows, "kind") == "csum" => out.push("csum".to_owned()),
            Self::Table(rows) if Self::of(rows, "kind") == "pedit" => {
                out.push("pedit".to_owned());
                let list = rows.iter().find(|row| row.0 == "keys").map(|row| &row.1);
                let Some(Self::List(keys)) = list else { return };
                for key in keys {
                    let Self::Table(key) = key else { continue };
                    let place = format!("{}+{}", Self::of(key, "htype"), Self::of(key, "offset"));
                    let command = if Self::of(key, "cmd") == "set" { "val" } else { "add" };
                    let (value, kept) = (Self::of(key, "val"), Self::of(key, "mask"));
                    let words = rewritten(&place, [command, &value, &kept]);
                    out.extend(words.split_whitespace().map(str::to_owned));
                }
            }
            Self::Table(rows) => {
                if !["options", "keys", ""].contains(&key) {
                    out.push(named);
                }
                rows.iter().for_each(|(key, node)| node.write(key, out, depth + 1));
            }
            Self::List(list) if key == "actions" => {
                for node in list {
                    out.push("action".to_owned());
                    node.write("", out, depth + 1);
                }
            }
            Self::List(list) => {
                out.push(named);
                out.extend(list.iter().map(Node::text));
            }
            Self::Flag(true) => out.push(named),
            Self::Flag(false) => {}
            Self::Number(_) | Self::Text(_) => match key {
                "key_ht" => out.extend(["ht".to_owned(), self.text() + ":"]),
                "bkt" => out.last_mut().into_iter().for_each(|last| *last += &(self.text() + ":")),
                "ht_divisor" => out.extend(["divisor".to_owned(), self.text()]),
                "hash_mask" => out.push(format!("hashkey mask 0x{}", self.text())),
                "hash_off" => out.push(format!("at {}", self.text())),
                _ if RATES.contains(&key) && matches!(self, Self::Number(_)) => {
                    out.extend([named, self.text() + "bps"]);
                }
                _ => out.extend([named, self.text()]),
            },
        }
    }

    /// Writes an option of a discipline.
    fn option(&self, kind: &str, key: &str, out: &mut Vec<String>) {
        let value = match self {
            Self::Flag(flag) => flag.to_string(),
            _ => self.text(),
        };
        if let Some(words) = shown_queues::option(kind, key, &value) {
            return out.extend(words.split_whitespace().map(str::to_owned));
        }
        match self {
            Self::List(queues) if kind == "gred" && key == "vqs" => {
                for queue in queues {
                    let Self::Table(rows) = queue else { continue };
                    let known = rows.iter().filter(|row| VQ.contains(&row.0.as_str()));
                    known.for_each(|(key, node)| node.write(key, out, 1));
                }
            }
            _ => self.write(key, out, 1),
        }
    }

    /// Returns the value of a key as text; nothing where there is no such key.
    fn of(rows: &[(String, Node)], key: &str) -> String {
        let row = rows.iter().find(|row| row.0 == key);
        row.map_or(String::new(), |row| row.1.text())
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) => text.clone(),
            _ => String::new(),
        }
    }
}

/// Reads a document of JSON at the start of `text`; returns what it shows and its length.
pub(super) fn json(text: &str, start: usize) -> Option<(Vec<Shown>, usize)> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Node>();
    let document = documents.next()?.ok()?;
    let length = documents.byte_offset();
    let end = text[..length].find('\n').unwrap_or(length);
    let span = Span { start, end: start + end.max(1) };
    let Node::List(list) = document else { return None };
    let table = |node: &Node| match node {
        Node::Table(rows) => Some(Shown::of_table(rows, span)),
        _ => None,
    };
    Some((list.iter().filter_map(table).collect(), length))
}

impl<'de> serde::Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Flag(false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = entries.next_entry()? {
            rows.push(row);
        }
        Ok(Node::Table(rows))
    }
}

const OBJECTS: [&str; 3] = ["qdisc", "class", "filter"];
/// Disciplines whose classes somebody makes.
const CLASSES: [&str; 4] = ["htb", "hfsc", "drr", "qfq"];
const KINDS: [&str; 10] =
    ["u32", "flower", "basic", "matchall", "fw", "bpf", "route", "flow", "cgroup", "tcindex"];
const STAB: [&str; 5] = ["linklayer", "overhead", "mpu", "mtu", "tsize"];
const RATES: [&str; 10] = [
    "rate",
    "ceil",
    "peakrate",
    "bandwidth",
    "m1",
    "m2",
    "maxrate",
    "avrate",
    "low_rate_threshold",
    "defrate",
];
/// Keys of a discipline in JSON that say what it is, unlike figures.
const QDISC: [&str; 5] = ["dev", "root", "parent", "options", "stab"];
/// Keys of a virtual queue in JSON that are its options.
const VQ: [&str; 10] =
    ["vq", "prio", "limit", "min", "max", "ecn", "harddrop", "ewma", "probability", "Scell_log"];
/// Words that tc prints and does not take, with a value behind each, and the kinds where it is so;
/// none: everywhere.
const SKIPPED: &[(&str, &[&str])] = &[
    ("refcnt", &[]),
    ("leaf", &[]),
    ("level", &["class"]),
    ("chain", &[]),
    ("order", &[]),
    ("ver", &["htb"]),
    ("direct_packets_stat", &["htb"]),
    ("direct_qlen", &["htb"]),
    ("linklayer", &["class", "tbf"]),
    ("mpu", &["class", "tbf"]),
    ("ewma", &["red"]),
    ("Scell_log", &["red"]),
    ("drop_batch", &["fq_codel"]),
    ("eth_type", &[]),
    ("bytes", &[]),
    ("packets", &[]),
    ("drops", &[]),
    ("overlimits", &[]),
    ("requeues", &[]),
    ("backlog", &[]),
    ("qlen", &[]),
    ("rule_hit", &[]),
    ("success", &[]),
];
/// Words without a value that tc prints and does not take.
const FLAGS: [&str; 6] = ["not_in_hw", "in_hw", "offloaded", "terminal", "skip_hw", "noecn_mark"];
/// Words that tc takes under another name.
const RENAMED: [(&str, &str); 6] = [
    ("lat", "latency"),
    ("pref", "prio"),
    ("fh", "handle"),
    ("*flowid", "flowid"),
    ("ftype", "protocol"),
    ("no-split-gso", "split-gso"),
];
/// Words of `flower`, each with a value on a line of its own.
const FLOWER: [&str; 18] = [
    "ip_proto",
    "src_ip",
    "dst_ip",
    "src_port",
    "dst_port",
    "ip_tos",
    "ip_ttl",
    "ip_flags",
    "vlan_id",
    "vlan_prio",
    "vlan_ethtype",
    "src_mac",
    "dst_mac",
    "tcp_flags",
    "type",
    "code",
    "indev",
    "ct_state",
];
/// Bound: classes above one another, and objects of JSON inside one another; deeper ones are left
/// out.
const DEPTH_MAX: usize = 16;
