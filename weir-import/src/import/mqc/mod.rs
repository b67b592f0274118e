//! Imports Cisco's modular QoS: `class-map`, `policy-map` and `service-policy`, with access lists.
//! One policy for each interface that has a `service-policy output`, or for each uppermost
//! `policy-map` of a file without interfaces.
//!
//! Classes become those of `htb`: a bandwidth is a rate, a shaper a ceiling, and `priority` goes
//! first within its rate. The first class of a policy that a packet matches takes it.

mod conditions;
mod lower;
mod police;

use super::lines::{LineId, Reading};
use super::sketch::{Key, Sketch, quoted};
use super::words::{Word, Words, bad_value, decimal, number};
use super::{Language, Options};
use conditions::{AccessList, ClassMap};
use police::Police;
use std::collections::BTreeMap;
use weir_core::packet::Dscp;
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language =
    Language { name: "mqc", summary: "a configuration of Cisco IOS with policy-maps", read };

/// A part of a file that is indented below its first line.
enum Block {
    Other,
    ClassMap(String),
    Policy(usize),
    Interface(usize),
    AccessList(String),
}

/// The contents of a file.
#[derive(Default)]
struct File {
    class_maps: BTreeMap<String, ClassMap>,
    lists: BTreeMap<String, AccessList>,
    policies: Vec<PolicyMap>,
    interfaces: Vec<Interface>,
}

struct PolicyMap {
    name: String,
    line: LineId,
    classes: Vec<PolicyClass>,
}

struct Interface {
    name: String,
    line: LineId,
    span: Span,
    /// In bit/s.
    rate: Option<u64>,
    /// The policy of departing packets.
    output: Option<(String, LineId)>,
}

/// A rate: bits in a second, or a part of what there is, in millionths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    Bits(u64),
    Percent(u64),
    /// A part of what the others leave, in relation to other classes.
    Ratio(u64),
}

/// The actions for packets that a class-map of this name takes.
struct PolicyClass {
    name: String,
    line: LineId,
    /// It goes first, within this share.
    priority: Option<(u64, Option<Share>)>,
    bandwidth: Option<Share>,
    remaining: Option<Share>,
    shape: Option<Share>,
    police: Option<Police>,
    set_dscp: Option<Dscp>,
    queue: Vec<Key>,
    child: Option<String>,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut file = File::default();
    let mut block = Block::Other;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let words = words_of(line, offset);
        offset += line.len();
        if let Some(words) = words {
            file.line(Words::new(words), &mut block, reading);
        }
    }
    if reading.report.failed() {
        return Vec::new();
    }
    lower::sketches(&file, options, reading)
}

/// Splits a line; `!` begins a comment.
fn words_of(line: &str, offset: usize) -> Option<Vec<Word>> {
    if line.trim_start().starts_with('!') {
        return None;
    }
    let start = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let place = |word: &str| {
        let start = offset + start(word);
        Word { text: word.to_owned(), span: Span { start, end: start + word.len() } }
    };
    let words: Vec<Word> = line.split_whitespace().map(place).collect();
    (!words.is_empty()).then_some(words)
}

impl File {
    /// Reads a line: one that begins a block, or one of the block that is open.
    fn line(&mut self, mut words: Words, block: &mut Block, reading: &mut Reading) {
        let span = words.span();
        let Some(first) = words.take() else { return };
        match first.text.as_str() {
            "class-map" => *block = self.class_map(&mut words, span, reading),
            "policy-map" => {
                let line = reading.line(span);
                let name = words.rest().last().map_or_else(String::new, |word| word.text.clone());
                self.policies.push(PolicyMap { name, line, classes: Vec::new() });
                *block = Block::Policy(self.policies.len() - 1);
            }
            "interface" => {
                let name: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
                let line = reading.line(span);
                let name = name.concat();
                self.interfaces.push(Interface { name, line, span, rate: None, output: None });
                *block = Block::Interface(self.interfaces.len() - 1);
            }
            "access-list" => {
                let line = reading.line(span);
                let name = words.take().map_or_else(String::new, |word| word.text);
                self.lists.entry(name).or_default().entry(&mut words, line, reading);
            }
            "ip" | "ipv6" if words.accept("access-list") => {
                words.accept("extended");
                words.accept("standard");
                reading.line(span);
                *block = Block::AccessList(words.take().map_or_else(String::new, |word| word.text));
            }
            _ => self.inside(first, words, span, (block, reading)),
        }
    }

    /// Reads a line of the open block.
    fn inside(
        &mut self,
        first: Word,
        mut words: Words,
        span: Span,
        (block, reading): (&mut Block, &mut Reading),
    ) {
        match block {
            Block::ClassMap(name) if first.text == "match" => {
                let line = reading.line(span);
                let map = self.class_maps.entry(name.clone()).or_default();
                map.condition(&mut words, line, reading);
            }
            Block::Policy(at) if first.text == "class" => {
                let name = words.rest().last().map_or_else(String::new, |word| word.text.clone());
                let line = reading.line(span);
                self.policies[*at].classes.push(PolicyClass::new(name, line));
            }
            Block::Policy(at) => {
                let class = self.policies[*at].classes.last_mut();
                if let Some(class) = class.filter(|_| !ENDS.contains(&first.text.as_str())) {
                    let line = reading.line(span);
                    let _: Option<()> = class.action(&first, &mut words, line, reading);
                }
            }
            Block::Interface(at) => {
                let one = &mut self.interfaces[*at];
                let _: Option<()> = one.line(&first, &mut words, span, reading);
            }
            Block::AccessList(name) if !ENDS.contains(&first.text.as_str()) => {
                let line = reading.line(span);
                // A number before the action is its place.
                let mut words = match number(&first.text) {
                    Some(_) => words,
                    None => Words::new([&[first], words.rest()].concat()),
                };
                self.lists.entry(name.clone()).or_default().entry(&mut words, line, reading);
            }
            _ => {}
        }
    }

    /// `class-map [match-any | match-all] NAME`.
    fn class_map(&mut self, words: &mut Words, span: Span, reading: &mut Reading) -> Block {
        reading.line(span);
        let any = words.rest().iter().any(|word| word.text == "match-any");
        let name = words.rest().last().map_or_else(String::new, |word| word.text.clone());
        self.class_maps.entry(name.clone()).or_default().any = any;
        Block::ClassMap(name)
    }
}

impl Interface {
    fn line(
        &mut self,
        first: &Word,
        words: &mut Words,
        span: Span,
        reading: &mut Reading,
    ) -> Option<()> {
        match first.text.as_str() {
            "bandwidth" => {
                let line = reading.line(span);
                let Some(rate) = words.peek().and_then(number) else {
                    reading.lost(line, "it is no rate of the interface");
                    return None;
                };
                self.rate = rate.checked_mul(1000).filter(|rate| *rate > 0);
            }
            "service-policy" => {
                let line = reading.line(span);
                let direction = words.need("`input` or `output`", reading)?;
                if direction.text != "output" {
                    let why = "it is for arriving packets: they have their own direction, and \
                               `police`";
                    reading.lost(line, why);
                    return None;
                }
                self.output = Some((words.need("the name of a policy", reading)?.text, line));
            }
            _ => {}
        }
        Some(())
    }
}

impl PolicyClass {
    fn new(name: String, line: LineId) -> Self {
        let (priority, bandwidth, remaining, shape) = (None, None, None, None);
        let (police, set_dscp, queue, child) = (None, None, Vec::new(), None);
        Self { name, line, priority, bandwidth, remaining, shape, police, set_dscp, queue, child }
    }

    /// Reads what happens to the packets of the class.
    fn action(
        &mut self,
        first: &Word,
        words: &mut Words,
        line: LineId,
        reading: &mut Reading,
    ) -> Option<()> {
        match first.text.as_str() {
            "priority" => {
                let mut level = 1;
                if words.accept("level") {
                    level = words.value("a level", number, reading)?;
                }
                let rate = match words.peek() {
                    Some(_) => Some(share(words, 1000, reading)?),
                    None => None,
                };
                self.priority = Some((level, rate));
            }
            "bandwidth" if words.accept("remaining") => {
                self.remaining = Some(share(words, 1000, reading)?);
            }
            "bandwidth" => self.bandwidth = Some(share(words, 1000, reading)?),
            "shape" => {
                let peak = words.accept("peak");
                words.accept("average");
                if peak {
                    reading.approximated(line, "`peak` is taken as `average`");
                }
                self.shape = Some(share(words, 1, reading)?);
            }
            "police" => self.police = Some(Police::read(words, line, reading)?),
            "conform-action" | "exceed-action" | "violate-action" => match &mut self.police {
                Some(police) => police.action(&first.text, words, line, reading),
                None => reading.lost(line, "there is no `police` before it"),
            },
            "queue-limit" => self.limit(words, line, reading)?,
            "fair-queue" => {
                self.queue.push(("dropper", quoted("fq-codel")));
                reading.approximated(line, "flows take turns, as in fq-codel");
            }
            "random-detect" => self.early_drops(words, line, reading),
            "service-policy" => {
                self.child = Some(words.need("the name of a policy", reading)?.text);
            }
            "set" => self.mark(words, line, reading),
            "drop" => reading.lost(line, "Weir does not filter: it sends every packet"),
            _ => reading.lost(line, "Weir has no such action of a class"),
        }
        Some(())
    }

    /// `set [ip] {dscp | precedence} VALUE`.
    fn mark(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        words.accept("ip");
        let texts: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
        let dscp = match texts.as_slice() {
            ["dscp", value] => dscp_of(value),
            ["precedence", value] => number(value)
                .filter(|value| *value < 8)
                .map(|value| Dscp::of_traffic_class((value << 5) as u8)),
            _ => return reading.lost(line, "Weir sets no other field of a packet than the DSCP"),
        };
        match dscp {
            Some(dscp) => self.set_dscp = Some(dscp),
            None => reading.lost(line, "the code point is not known"),
        }
    }

    /// `random-detect [dscp-based | ecn | {dscp | precedence} VALUE MIN MAX [DENOMINATOR]]`: one
    /// pair of thresholds for all packets, that of ordinary ones.
    fn early_drops(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        let texts: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
        let red = |name, value: String| (name, value);
        let plain = || {
            let packets = |name, count: u64| red(name, quoted(&format!("{count} packets")));
            let own = quoted("red");
            vec![red("dropper", own), packets("min", 20), packets("max", 40)]
        };
        if !self.queue.iter().any(|key| key.0 == "dropper") {
            self.queue.extend(plain());
            reading.approximated(line, "RED with one pair of thresholds for all packets");
        }
        match texts.as_slice() {
            [] | ["dscp-based" | "prec-based"] => {}
            ["ecn"] => self.queue.push(red("ecn", "true".to_owned())),
            ["dscp", "default" | "0", rest @ ..] | ["precedence", "0", rest @ ..] => {
                let numbers: Vec<u64> = rest.iter().filter_map(|text| number(text)).collect();
                let [min, max, rest @ ..] = numbers.as_slice() else {
                    return reading.lost(line, "it has no thresholds");
                };
                let chance = 100.0 / (*rest.first().unwrap_or(&10)).max(1) as f64;
                let chance = quoted(&format!("{chance:.3} %"));
                let packets = |count: u64| quoted(&format!("{} packets", count.max(2)));
                let own = [("min", packets(*min)), ("max", packets(*max)), ("pmax", chance)];
                self.queue.retain(|key| own.iter().all(|one| one.0 != key.0));
                self.queue.extend(own);
            }
            _ => reading.approximated(line, "thresholds of other packets are left out"),
        }
    }

    /// `queue-limit N [packets | bytes | ms]`.
    fn limit(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
        let Some(count) = words.peek().and_then(number).map(|count| count.clamp(1, 1 << 30)) else {
            reading.lost(line, "a limit for some packets of a queue is not in a policy");
            return None;
        };
        words.take();
        let limit = match words.peek() {
            Some("bytes") => format!("{count} B"),
            Some("ms" | "us") => {
                reading.lost(line, "Weir's queues are limited in packets or bytes");
                return None;
            }
            _ if count == 1 => "1 packet".to_owned(),
            _ => format!("{count} packets"),
        };
        self.queue.push(("limit", quoted(&limit)));
        Some(())
    }
}

/// Parses a code point as the router writes it.
fn dscp_of(text: &str) -> Option<Dscp> {
    match text {
        "default" => Some(Dscp::of_traffic_class(0)),
        _ => text.parse().ok(),
    }
}

/// Reads a rate in units of `unit` bit/s, `percent N` or `ratio N`.
fn share(words: &mut Words, unit: u64, reading: &mut Reading) -> Option<Share> {
    if words.accept("ratio") {
        let ratio = |text: &str| number(text).filter(|ratio| (1..=65_536).contains(ratio));
        return words.value("a ratio up to 65536", ratio, reading).map(Share::Ratio);
    }
    if words.accept("percent") {
        let percent = |text: &str| {
            let (millionths, rest) = decimal(text)?;
            (rest.is_empty() && millionths <= 100_000_000).then_some(millionths)
        };
        return words.value("a percentage", percent, reading).map(Share::Percent);
    }
    let word = words.need("a rate", reading)?;
    let named = words.peek().and_then(|unit| UNITS.iter().find(|row| row.0 == unit));
    let bits = named.map_or_else(
        || number(&word.text).and_then(|rate| rate.checked_mul(unit)),
        |row| number(&word.text).and_then(|rate| rate.checked_mul(row.1)),
    );
    if named.is_some() {
        words.take();
    }
    if bits.is_none() {
        bad_value(&word, "a rate", reading);
    }
    bits.map(Share::Bits)
}

/// Units behind a rate, in bit/s.
const UNITS: [(&str, u64); 4] =
    [("bps", 1), ("kbps", 1_000), ("mbps", 1_000_000), ("gbps", 1_000_000_000)];
/// Lines that end a block.
const ENDS: [&str; 5] = ["exit", "end", "end-policy-map", "end-class-map", "description"];
