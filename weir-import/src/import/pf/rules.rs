//! Converts rules that assign queues [algorithms §11.2].
//!
//! pf stores a connection's queue in its state, and of all rules that match a connection's first
//! packet the last decides, or the first with `quick`. Weir decides packet by packet and by the
//! first rule. So a rule for packets that come in by the queue's own interface is converted to one
//! for the replies, with both ends exchanged; rules with `quick` go first, the others in reverse
//! order.

use super::super::altq::with_tos;
use super::super::altq_classes::AltqClass;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, Rule, quoted};
use super::super::words::{Word, Words, bad_value, decimal, number};
use super::text;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_core::classify::service_port;
use weir_core::packet::Dscp;
use weir_policy::reader::suggest;

/// A rule that passes packets.
pub(super) struct PfRule {
    pub line: LineId,
    position: usize,
    direction: Direction,
    quick: bool,
    /// The interfaces; empty means all.
    on: Vec<String>,
    conditions: Option<Conditions>,
    queue: Option<Word>,
    /// The queue for acknowledgements and packets that request low delay.
    second: Option<Word>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
    Both,
}

/// The conditions of a rule; each list is an alternative.
#[derive(Default)]
struct Conditions {
    version: Option<&'static str>,
    protocols: Vec<u64>,
    sources: Vec<String>,
    destinations: Vec<String>,
    source_ports: Vec<String>,
    destination_ports: Vec<String>,
    tos: Option<u8>,
}

/// Why a rule cannot be converted.
type Lost = String;

pub(super) fn read(
    words: &mut Words,
    (line, position): (LineId, usize),
    tables: &BTreeMap<String, Vec<Word>>,
    reading: &mut Reading,
) -> Option<PfRule> {
    let mut rule = PfRule {
        line,
        position,
        direction: Direction::Both,
        quick: false,
        on: Vec::new(),
        conditions: None,
        queue: None,
        second: None,
    };
    let mut conditions = Conditions::default();
    let mut lost = None;
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "," => {}
            "in" => rule.direction = Direction::In,
            "out" => rule.direction = Direction::Out,
            "quick" => rule.quick = true,
            "on" => rule.on = interfaces(words, &mut lost, reading)?,
            "inet" => conditions.version = Some("ipv4"),
            "inet6" => conditions.version = Some("ipv6"),
            "proto" => {
                for word in text::list(words, "a protocol", reading)? {
                    conditions.protocols.push(protocol(&word, reading)?);
                }
            }
            "all" => {}
            "from" => {
                let from = endpoint(words, tables, &mut lost, reading)?;
                (conditions.sources, conditions.source_ports) = from;
            }
            "to" => {
                let to = endpoint(words, tables, &mut lost, reading)?;
                (conditions.destinations, conditions.destination_ports) = to;
            }
            "tos" => conditions.tos = Some(words.value("a byte or `lowdelay`", tos, reading)?),
            "queue" => assigned(words, &mut rule, reading)?,
            "set" => set(words, &mut rule, reading)?,
            _ => further(&word, words, &mut lost, line, reading)?,
        }
    }
    match lost {
        Some(why) => reading.lost(line, why),
        None => rule.conditions = Some(conditions),
    }
    Some(rule)
}

fn interfaces(
    words: &mut Words,
    lost: &mut Option<Lost>,
    reading: &mut Reading,
) -> Option<Vec<String>> {
    if words.accept("!") {
        *lost = Some("a negated interface cannot be expressed".to_owned());
    }
    let names = text::list(words, "an interface", reading)?;
    Some(names.into_iter().map(|word| word.text).collect())
}

/// Reads parts of a rule that are not conditions, or that Weir does not have.
fn further(
    word: &Word,
    words: &mut Words,
    lost: &mut Option<Lost>,
    line: LineId,
    reading: &mut Reading,
) -> Option<()> {
    let text = word.text.as_str();
    match text {
        "keep" | "modulate" | "synproxy" => {
            words.need("`state`", reading)?;
            skip_parentheses(words);
        }
        "no" => drop(words.need("`state`", reading)?),
        "log" | "log-all" => skip_parentheses(words),
        "flags" => {
            words.need("flags such as S/SA", reading)?;
            reading.noted(line, "`flags` choose the first packet of a connection");
        }
        "allow-opts" | "return" | "once" => {}
        "label" | "tag" | "rtable" | "rtableid" | "max-mss" | "ridentifier" | "max-pkt-rate" => {
            words.accept("(");
            words.need("a name", reading)?;
            words.accept(")");
        }
        "scrub" => skip_parentheses(words),
        "divert-to" | "divert-packet" => {
            words.need("an address", reading)?;
            if words.accept("port") {
                words.need("a port", reading)?;
            }
            reading.approximated(line, format!("`{text}` is left out: Weir forwards every packet"));
        }
        "route-to" | "reply-to" | "dup-to" | "nat-to" | "rdr-to" | "binat-to" | "af-to" => {
            reading.approximated(line, format!("`{text}` is left out: Weir does not route"));
            match words.peek() {
                Some("(" | "{") => skip_parentheses(words),
                Some(next) if !RULE_WORDS.contains(&next) => drop(words.take()),
                _ => {}
            }
            while words.peek().is_some_and(|word| POOL.contains(&word)) {
                words.take();
            }
        }
        "user" | "group" | "os" | "icmp-type" | "icmp6-type" | "probability" | "tagged"
        | "received-on" | "fragment" | "prio" => {
            lose(lost, &format!("Weir's rules cannot match `{text}`"));
            if text != "fragment" {
                value(text, words, reading)?;
            }
        }
        "!" => lose(lost, "negated conditions cannot be expressed"),
        other if suggest(other, &RULE_WORDS).starts_with("did you mean") => {
            reading.unknown((other, word.span), "part of a rule", &RULE_WORDS);
            return None;
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            lose(lost, &format!("Weir does not read `{shown}` in a rule"));
            while words.take().is_some() {}
        }
    }
    Some(())
}

/// Keeps the first reason.
fn lose(lost: &mut Option<Lost>, why: &str) {
    lost.get_or_insert_with(|| why.to_owned());
}

/// Skips the value of a condition: `8 code 0`, `{ root, != 5 }`, `>= 1000`.
fn value(condition: &str, words: &mut Words, reading: &mut Reading) -> Option<()> {
    while words.peek().is_some_and(|word| ["=", "!", "<", ">"].contains(&word)) {
        words.take();
    }
    let mut values = text::list(words, "a value", reading)?;
    if words.accept("code") {
        values.push(words.need("a code", reading)?);
    }
    let Some(row) = NUMBERS.iter().find(|row| row.0 == condition) else { return Some(()) };
    values.iter().try_for_each(|value| in_range(value, row, reading))
}

/// Reports a number that pfctl refuses; names pass.
fn in_range(value: &Word, &(condition, max): &(&str, u64), reading: &mut Reading) -> Option<()> {
    let part = condition == "probability";
    let is_number = value.text.starts_with(|first: char| first.is_ascii_digit());
    let read = match decimal(&value.text) {
        Some((millionths, "%")) if part => Some(millionths / 100),
        Some((millionths, "")) if part => Some(millionths),
        _ if part => None,
        _ => number(&value.text),
    };
    if !is_number || read.is_some_and(|number| number <= max) {
        return Some(());
    }
    let what = match part {
        true => "a probability up to 100%".to_owned(),
        false => format!("a number of `{condition}` up to {max}"),
    };
    bad_value(value, &what, reading);
    None
}

/// Skips `( ... )` or `{ ... }`, if it comes next.
fn skip_parentheses(words: &mut Words) {
    if !words.peek().is_some_and(|word| ["(", "{"].contains(&word)) {
        return;
    }
    let mut depth = 0_usize;
    while let Some(word) = words.take() {
        depth += usize::from(["(", "{"].contains(&word.text.as_str()));
        depth = depth.saturating_sub(usize::from([")", "}"].contains(&word.text.as_str())));
        if depth == 0 {
            return;
        }
    }
}

/// Reads `NAME` or `(NAME, NAME)`.
fn assigned(words: &mut Words, rule: &mut PfRule, reading: &mut Reading) -> Option<()> {
    if !words.accept("(") {
        let name = words.need("the name of a queue", reading)?;
        rule.queue = super::names(vec![name], reading)?.pop();
        return Some(());
    }
    loop {
        let word = words.need("the name of a queue, or `)`", reading)?;
        match word.text.as_str() {
            ")" => return Some(()),
            "," => {}
            _ if rule.queue.is_none() => rule.queue = Some(word),
            _ => rule.second = Some(word),
        }
    }
}

/// Reads `set queue ...`, `set prio N`, `set ( ... )`.
fn set(words: &mut Words, rule: &mut PfRule, reading: &mut Reading) -> Option<()> {
    let open = words.accept("(");
    while let Some(word) = words.take() {
        match word.text.as_str() {
            ")" => return Some(()),
            "," => {}
            "queue" => assigned(words, rule, reading)?,
            "prio" | "tos" => {
                match words.peek() {
                    Some("(") => skip_parentheses(words),
                    _ => drop(words.take()),
                }
                let note = format!("`set {}` is left out", word.text);
                reading.approximated(rule.line, note);
            }
            other => {
                reading.unknown((other, word.span), "thing to set", &["queue", "prio", "tos"]);
                return None;
            }
        }
        if !open {
            return Some(());
        }
    }
    Some(())
}

fn protocol(word: &Word, reading: &mut Reading) -> Option<u64> {
    let known = [
        ("icmp", 1),
        ("igmp", 2),
        ("tcp", 6),
        ("udp", 17),
        ("ipv6", 41),
        ("rsvp", 46),
        ("gre", 47),
        ("esp", 50),
        ("ah", 51),
        ("icmp6", 58),
        ("ipv6-icmp", 58),
        ("ospf", 89),
        ("carp", 112),
        ("vrrp", 112),
        ("sctp", 132),
    ];
    let found = known.iter().find(|row| row.0 == word.text).map(|row| row.1);
    let found = found.or_else(|| number(&word.text)).filter(|number| *number < 256);
    if found.is_none() {
        bad_value(word, "a protocol such as tcp, or its number", reading);
    }
    found
}

/// Reads addresses and ports behind `from` or `to`.
fn endpoint(
    words: &mut Words,
    tables: &BTreeMap<String, Vec<Word>>,
    lost: &mut Option<Lost>,
    reading: &mut Reading,
) -> Option<(Vec<String>, Vec<String>)> {
    let mut addresses = Vec::new();
    if words.peek().is_none_or(|word| word != "port") {
        let mut listed = Vec::new();
        while words.accept("!") {
            *lost = Some("negated addresses cannot be expressed".to_owned());
        }
        match words.peek() {
            Some("(") => {
                skip_parentheses(words);
                if words.peek().is_some_and(|word| word.starts_with('/')) {
                    words.take();
                }
                lose(lost, "an interface's own address is not known here");
            }
            Some("<") => {
                words.take();
                listed = table(words, tables, lost, reading)?;
            }
            _ => listed = text::list(words, "an address, or `any`", reading)?,
        }
        let any = listed.iter().any(|word| ["any", "all"].contains(&word.text.as_str()));
        if words.accept("-") {
            let last = words.need("an address", reading)?;
            listed.extend([Word { text: "-".to_owned(), ..last.clone() }, last]);
        }
        listed.iter().try_for_each(|word| mask(word, reading))?;
        if !any {
            match prefixes(&listed) {
                Ok(found) => addresses = found,
                Err(name) => lose(lost, &format!("the address of `{name}` is not known here")),
            }
        }
    }
    let ports = if words.accept("port") { ports(words, lost, reading)? } else { Vec::new() };
    Some((addresses, ports))
}

fn table(
    words: &mut Words,
    tables: &BTreeMap<String, Vec<Word>>,
    lost: &mut Option<Lost>,
    reading: &mut Reading,
) -> Option<Vec<Word>> {
    let name = words.need("the name of a table", reading)?;
    words.value("`>`", |word| (word == ">").then_some(()), reading)?;
    let Some(found) = tables.get(&name.text) else {
        lose(lost, &format!("the addresses of table `{}` are not in the file", name.text));
        return Some(Vec::new());
    };
    match found.is_empty() {
        // An empty table matches no address; this name resolves to none.
        true => Some(vec![name]),
        false => Some(found.clone()),
    }
}

/// Returns the prefixes of addresses, of networks and of ranges `A - B`, or the first name that is
/// none of them.
fn prefixes(words: &[Word]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = words;
    while let [first, after @ ..] = rest {
        let shown = || first.text.chars().take(40).collect::<String>();
        rest = match after {
            [dash, last, after @ ..] if dash.text == "-" => {
                found.extend(range(&first.text, &last.text).ok_or_else(shown)?);
                after
            }
            _ => {
                found.push(prefix(&first.text).ok_or_else(shown)?);
                after
            }
        };
    }
    Ok(found)
}

/// Returns the prefixes that make up a range of addresses.
fn range(first: &str, last: &str) -> Option<Vec<String>> {
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    let bits = |address: IpAddr| match address {
        IpAddr::V4(one) => u128::from(u32::from(one)),
        IpAddr::V6(one) => u128::from(one),
    };
    let width: u32 = if first.is_ipv4() { 32 } else { 128 };
    let (mut at, end) = (bits(first), bits(last));
    if first.is_ipv4() != last.is_ipv4() || at > end {
        return None;
    }
    let mut found = Vec::new();
    // Terminates: each block is as large as its alignment and the end allow; there are at most two
    // for each bit of an address.
    loop {
        let fits = |size: &u32| *size < 128 && (1 << size) - 1 <= end - at;
        let size = (0..=at.trailing_zeros().min(width)).rev().find(fits).unwrap_or(0);
        let address: IpAddr = match width {
            32 => std::net::Ipv4Addr::from(at as u32).into(),
            _ => std::net::Ipv6Addr::from(at).into(),
        };
        found.push(format!("{address}/{}", width - size));
        match at.checked_add(1 << size).filter(|next| *next <= end) {
            Some(next) => at = next,
            None => return Some(found),
        }
    }
}

/// Reports a network whose mask its address cannot have.
fn mask(word: &Word, reading: &mut Reading) -> Option<()> {
    let address = word.text.split_once('/').map(|parts| parts.0.parse());
    let Some(Ok::<IpAddr, _>(address)) = address else { return Some(()) };
    if prefix(&word.text).is_some() {
        return Some(());
    }
    let bits = if address.is_ipv4() { 32 } else { 128 };
    bad_value(word, &format!("a network with a mask of at most {bits} bits"), reading);
    None
}

fn prefix(text: &str) -> Option<String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(number(length)?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let length =
        u32::try_from(length.unwrap_or(max)).ok().filter(|length| *length <= max as u32)?;
    let network: IpAddr = match address {
        IpAddr::V4(one) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(one) & mask).into()
        }
        IpAddr::V6(one) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(one) & mask).into()
        }
    };
    Some(format!("{network}/{length}"))
}

/// Reads a port, a list, `A:B`, or an operator and ports.
fn ports(words: &mut Words, lost: &mut Option<Lost>, reading: &mut Reading) -> Option<Vec<String>> {
    let mut operator = String::new();
    while words.peek().is_some_and(|word| ["=", "!", "<", ">"].contains(&word)) {
        operator.extend(words.take().map(|word| word.text));
    }
    let listed = text::list(words, "a port", reading)?;
    let mut ports = Vec::new();
    let mut pending = operator;
    for word in listed {
        if ["=", "!", "<", ">"].contains(&word.text.as_str()) {
            pending.push_str(&word.text);
            continue;
        }
        let Some((first, last)) = port_range(&word.text) else {
            bad_value(&word, "a port, a service's name, or two ports as in 80:90", reading);
            return None;
        };
        let range = match pending.as_str() {
            "" | "=" => (first, last),
            "<" => (0, first.saturating_sub(1)),
            "<=" => (0, first),
            ">" => (first.saturating_add(1), u16::MAX),
            ">=" => (first, u16::MAX),
            _ => {
                *lost = Some(format!("ports with `{pending}` cannot be expressed"));
                (first, last)
            }
        };
        pending.clear();
        ports.push(match range {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{}-{}", first.min(last), last.max(first)),
        });
    }
    if words.peek().is_some_and(|word| ["<", ">"].contains(&word)) {
        // `A >< B` and `A <> B`.
        while words.peek().is_some_and(|word| ["<", ">"].contains(&word)) {
            words.take();
        }
        words.need("a port", reading)?;
        *lost = Some("ports between two others cannot be expressed: write `A:B`".to_owned());
    }
    Some(ports)
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let one = |text: &str| service_port(text).or_else(|| u16::try_from(number(text)?).ok());
    match text.split_once(':') {
        Some((first, last)) => Some((one(first)?, one(last)?)).filter(|(a, b)| a <= b),
        None => one(text).map(|port| (port, port)),
    }
}

fn tos(text: &str) -> Option<u8> {
    match text {
        "lowdelay" => Some(0x10),
        "throughput" => Some(0x08),
        "reliability" => Some(0x04),
        _ => match number(text) {
            Some(number) => u8::try_from(number).ok(),
            None => text.parse::<Dscp>().ok().map(|dscp| dscp.code() << 2),
        },
    }
}

impl PfRule {
    /// Adds its rules to the queues of `interface`; returns false if it assigns none of them.
    pub(super) fn assign(
        &self,
        interface: &str,
        (names, default): (&[String], usize),
        classes: &mut [AltqClass],
        reading: &mut Reading,
    ) -> bool {
        let Some(conditions) = &self.conditions else { return true };
        let own = self.on.is_empty() || self.on.iter().any(|on| on == interface);
        let replies = self.direction == Direction::In && own && !self.on.is_empty();
        // Packets that came in elsewhere keep their queue on the way out.
        let reaches = own || self.direction != Direction::Out && self.queue.is_some();
        if !reaches {
            return false;
        }
        let find = |word: &Word| names.iter().position(|name| *name == word.text);
        let (queue, second) = match &self.queue {
            Some(word) => match find(word) {
                Some(at) => (at, self.second.as_ref().and_then(find)),
                None => return false,
            },
            None if replies || self.direction == Direction::In => return false,
            None => (default, None),
        };
        let group = match replies {
            true if conditions.has_ports() => 0,
            true => 2,
            false => 1,
        };
        let place = match self.quick {
            true => self.position,
            false => POSITIONS - self.position.min(POSITIONS - 1),
        };
        let rank = (group << 60) | ((u64::from(!self.quick)) << 59) | (place as u64) << 1;
        if replies {
            let note = "the replies to arriving packets go to the queue: ends are exchanged";
            reading.noted(self.line, note);
        }
        if !own {
            let note = "the interface by which its packets come in is left out";
            reading.approximated(self.line, note);
        }
        if let Some(second) = second {
            let note = "empty acknowledgements are not recognised: only packets that request low \
                        delay go to the second queue";
            reading.approximated(self.line, note);
            let rules = conditions.rules(replies, None);
            // pf tests one bit, which EF has, too.
            let low_delay = rules.iter().flat_map(|keys| with_tos(keys, LOW_DELAY, LOW_DELAY));
            let rules = low_delay.map(|keys| Rule { keys, rank });
            classes[second].rules.extend(rules);
        }
        let rules = conditions.rules(replies, conditions.tos);
        if rules.len() >= RULES_MAX {
            reading.approximated(self.line, format!("only its first {RULES_MAX} cases are kept"));
        }
        classes[queue].rules.extend(rules.into_iter().map(|keys| Rule { keys, rank: rank + 1 }));
        true
    }
}

impl Conditions {
    fn has_ports(&self) -> bool {
        !self.source_ports.is_empty() || !self.destination_ports.is_empty()
    }

    /// Returns a rule for each protocol and pair of ports; `exchanged` for the reverse direction.
    fn rules(&self, exchanged: bool, tos: Option<u8>) -> Vec<Vec<Key>> {
        let mut names = ["src", "dst", "sport", "dport"];
        if exchanged {
            names = ["dst", "src", "dport", "sport"];
        }
        let or_any = |list: &[String]| match list.is_empty() {
            true => vec![None],
            false => list.iter().cloned().map(Some).collect::<Vec<_>>(),
        };
        let mut protocols: Vec<Option<u64>> = self.protocols.iter().copied().map(Some).collect();
        if protocols.is_empty() {
            protocols.push(None);
        }
        let mut rules = Vec::new();
        for protocol in protocols {
            for source in or_any(&self.source_ports) {
                for destination in or_any(&self.destination_ports) {
                    if rules.len() >= RULES_MAX {
                        return rules;
                    }
                    let ports = [source.clone(), destination];
                    rules.push(self.rule(protocol, ports, names, tos));
                }
            }
        }
        rules
    }

    fn rule(
        &self,
        protocol: Option<u64>,
        ports: [Option<String>; 2],
        names: [&'static str; 4],
        tos: Option<u8>,
    ) -> Vec<Key> {
        let mut keys = Vec::new();
        if self.sources.is_empty() && self.destinations.is_empty() {
            keys.extend(self.version.map(|version| ("ethertype", quoted(version))));
        }
        for (name, prefixes) in [(names[0], &self.sources), (names[1], &self.destinations)] {
            let all: Vec<String> = prefixes.iter().map(|prefix| quoted(prefix)).collect();
            match all.as_slice() {
                [] => {}
                [one] => keys.push((name, one.clone())),
                several => keys.push((name, format!("[{}]", several.join(", ")))),
            }
        }
        keys.extend(protocol.map(|number| ("proto", number.to_string())));
        let ports = [names[2], names[3]].into_iter().zip(ports);
        keys.extend(ports.filter_map(|(name, port)| Some((name, quoted(&port?)))));
        if let Some(tos) = tos {
            keys.push(("dscp", (tos >> 2).to_string()));
        }
        keys
    }
}

/// The bit of the traffic class that requests low delay.
const LOW_DELAY: u8 = 0x10;
/// How pf chooses among several addresses.
const POOL: [&str; 9] = [
    "round-robin",
    "random",
    "source-hash",
    "bitmask",
    "sticky-address",
    "static-port",
    "least-states",
    "endpoint-independent",
    "prefer-ipv6-nexthop",
];
/// Conditions with numbers, and the largest that pfctl takes; a probability in millionths.
const NUMBERS: [(&str, u64); 6] = [
    ("user", u32::MAX as u64 - 1),
    ("group", u32::MAX as u64 - 1),
    ("icmp-type", 255),
    ("icmp6-type", 255),
    ("prio", 7),
    ("probability", 1_000_000),
];
const RULE_WORDS: [&str; 24] = [
    "in",
    "out",
    "quick",
    "on",
    "inet",
    "inet6",
    "proto",
    "all",
    "from",
    "to",
    "port",
    "tos",
    "queue",
    "set",
    "keep",
    "modulate",
    "synproxy",
    "no",
    "log",
    "flags",
    "label",
    "tag",
    "route-to",
    "probability",
];
/// Bound: cases of one rule of pf with lists; only the first are kept, and that is reported.
const RULES_MAX: usize = 1024;
/// More than the number of statements.
const POSITIONS: usize = 1 << 20;
