//! Reads rules that assign queues, and converts them [algorithms §11.2].
//!
//! pf stores a connection's queue in its state. Weir decides packet by packet, so a rule for
//! packets that come in by the queue's own interface is converted to one for the replies, with both
//! ends exchanged. Of several rules [`decide`](super::decide) says which counts.

use super::super::altq_classes::AltqClass;
use super::super::conditions::{Addresses, CASES_MAX, Conditions, Ranges, Version};
use super::super::decide::{COMPARED_MAX, DECISIONS_MAX, Decision, Decisions, Queues, Step};
use super::super::lines::{LineId, Reading};
use super::super::options::Effect::{Flag, Number, Read};
use super::super::options::{Kind, Table};
use super::super::sketch::{Key, Rule, quoted};
use super::super::words::{Word, Words, bad_value, decimal, number};
use super::{Interfaces, interfaces, text};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use weir_core::classify::service_port;
use weir_core::packet::{Dscp, Protocol};
use weir_policy::codes;
use weir_policy::reader::suggest;

/// The addresses of each table.
pub(super) type Tables = BTreeMap<String, Vec<Word>>;

/// A rule that passes packets, or that only matches them.
#[derive(Clone, Default)]
pub(super) struct PfRule {
    pub line: LineId,
    is_match: bool,
    direction: Direction,
    pub quick: bool,
    /// Each of these has the interface; none means all.
    on: Vec<Interfaces>,
    /// `None` if they cannot be expressed, which was reported.
    conditions: Option<Conditions>,
    queue: Option<Word>,
    /// The queue for acknowledgements and packets that request low delay.
    second: Option<Word>,
    /// The code point with which its packets leave.
    code_point: Option<Dscp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Direction {
    In,
    Out,
    #[default]
    Both,
}

/// A rule that is being read.
struct Draft {
    rule: PfRule,
    conditions: Conditions,
    /// The first reason why it cannot be converted.
    lost: Option<String>,
    tables: Rc<Tables>,
}

pub(super) fn read(
    words: &mut Words,
    (line, is_match): (LineId, bool),
    tables: &Rc<Tables>,
    reading: &mut Reading,
) -> Option<PfRule> {
    let rule = PfRule { is_match, ..PfRule::nothing(line) };
    let (conditions, tables) = (Conditions::default(), Rc::clone(tables));
    let mut draft = Draft { rule, conditions, lost: None, tables };
    let known = PARTS.words();
    while let Some(word) = words.rest().first().cloned() {
        match word.text.as_str() {
            "," => drop(words.take()),
            part if known.contains(&part) => PARTS.take(&mut draft, line, words, reading)?,
            "!" => {
                words.take();
                draft.lose("negated conditions cannot be expressed");
            }
            part if suggest(part, &known).starts_with("did you mean") => {
                reading.unknown((part, word.span), PARTS.noun, &known);
                return None;
            }
            _ => {
                draft.lose(&format!("Weir does not read `{}` in a rule", cut(&word)));
                while words.take().is_some() {}
            }
        }
    }
    match draft.lost {
        Some(why) => reading.lost(line, why),
        None => draft.rule.conditions = Some(draft.conditions),
    }
    Some(draft.rule)
}

impl Draft {
    /// Keeps the first reason.
    fn lose(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
    }
}

/// Skips `( ... )`.
fn options(_: &mut Draft, words: &mut Words, _: &mut Reading) -> Option<()> {
    skip_parentheses(words);
    Some(())
}

/// `keep state`, with or without options.
fn state(_: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    words.need("`state`", reading)?;
    skip_parentheses(words);
    Some(())
}

fn flags(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    words.need("flags such as S/SA", reading)?;
    reading.noted(draft.rule.line, "`flags` choose the first packet of a connection");
    Some(())
}

fn label(_: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    words.accept("(");
    words.need("a name", reading)?;
    words.accept(")");
    Some(())
}

fn divert(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let note = format!("`{}` is left out: Weir forwards every packet", words.taken().text);
    words.need("an address", reading)?;
    if words.accept("port") {
        words.need("a port", reading)?;
    }
    reading.approximated(draft.rule.line, note);
    Some(())
}

fn route(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let note = format!("`{}` is left out: Weir does not route", words.taken().text);
    reading.approximated(draft.rule.line, note);
    match words.peek() {
        Some("(" | "{") => skip_parentheses(words),
        Some(next) if !PARTS.words().contains(&next) => drop(words.take()),
        _ => {}
    }
    while words.peek().is_some_and(|word| POOL.split(' ').any(|one| one == word)) {
        words.take();
    }
    Some(())
}

/// Skips a condition that Weir does not have, with its value: `8 code 0`, `{ root, != 5 }`,
/// `>= 1000`.
fn foreign(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let condition = words.taken().text.clone();
    draft.lose(&format!("Weir's rules cannot match `{condition}`"));
    if condition == "fragment" {
        return Some(());
    }
    while words.peek().is_some_and(is_operator) {
        words.take();
    }
    let mut values = text::list(words, "a value", reading)?;
    if words.accept("code") {
        values.push(words.need("a code", reading)?);
    }
    let Some(row) = NUMBERS.iter().find(|row| row.0 == condition) else { return Some(()) };
    values.iter().try_for_each(|value| in_range(value, row, reading))
}

/// Reads `icmp-type 8 code 0`, `icmp6-type { toobig, unreach code port-unr }`.
fn icmp(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let condition = words.taken().text.clone();
    let row = NUMBERS.iter().find(|row| row.0 == condition)?;
    let types = if condition == "icmp-type" { ICMP_TYPES } else { ICMP6_TYPES };
    let mut values = text::list(words, "a type", reading)?;
    if words.peek() == Some("code") {
        values.extend([words.take()?, words.need("a code", reading)?]);
    }
    let mut found: Vec<(u128, u128)> = Vec::new();
    let mut rest = values.iter().peekable();
    while let Some(word) = rest.next() {
        in_range(word, row, reading)?;
        let named = types.iter().find(|row| row.0 == word.text).map(|row| row.1);
        let Some(kind) = named.or_else(|| number(&word.text)) else {
            draft.lose(&format!("the number of `{condition} {}` is not known", cut(word)));
            continue;
        };
        let first = u128::from(kind) << 8;
        let code = rest.next_if(|next| next.text == "code").and_then(|_| rest.next());
        let Some(code) = code else {
            found.push((first, first | 0xff));
            continue;
        };
        in_range(code, row, reading)?;
        let named = ICMP_CODES.iter().find(|row| (row.0, row.1) == (code.text.as_str(), kind));
        match named.map(|row| row.2).or_else(|| number(&code.text)) {
            Some(code) => found.push((first | u128::from(code), first | u128::from(code))),
            None => draft.lose(&format!("the number of code `{}` is not known", cut(code))),
        }
    }
    draft.conditions.icmp = Some(Ranges::of(found));
    Some(())
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
            "prio" => {
                match words.peek() {
                    Some("(") => skip_parentheses(words),
                    _ => drop(words.take()),
                }
                let note = "`set prio` is left out: it would need a priority in the packet, where \
                            Weir has that of the class, and a priority written into the VLAN tag, \
                            which Weir does not change";
                reading.approximated(rule.line, note);
            }
            "tos" => {
                let tos = words.value(TOS.0, TOS.1, reading)?;
                // pf leaves the bits beside the code point of IPv4 as they are, if none is written.
                rule.code_point = u8::try_from(tos).ok().map(Dscp::of_traffic_class);
                if tos & 3 != 0 {
                    reading.approximated(rule.line, "`set tos` gives the upper six bits alone");
                }
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

/// Reads protocols; a name that is not known loses the rule.
fn protocols(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let mut found = Vec::new();
    for word in text::list(words, "a protocol", reading)? {
        let own = PROTOCOLS.iter().find(|row| row.0 == word.text).map(|row| row.1);
        let named = || word.text.parse::<Protocol>().ok().map(|known| known.0.into());
        match own.or_else(|| number(&word.text)).or_else(named) {
            Some(number) if number < 256 => found.push((number.into(), number.into())),
            Some(_) => {
                bad_value(&word, "a protocol such as tcp, or its number up to 255", reading);
                return None;
            }
            None => draft.lose(&format!("the number of protocol `{}` is not known", cut(&word))),
        }
    }
    draft.conditions.protocols = Some(Ranges::of(found));
    Some(())
}

/// Returns as much of a word as a message shows.
fn cut(word: &Word) -> String {
    word.text.chars().take(40).collect()
}

fn on(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    draft.rule.on = vec![interfaces(words, reading)?];
    Some(())
}

/// Reads addresses and ports behind `from` or `to`.
fn end(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let (is_from, mut found) = (words.taken().text == "from", None);
    if words.peek().is_none_or(|word| word != "port") {
        let mut is_negated = false;
        while words.accept("!") {
            is_negated = !is_negated;
        }
        match words.peek() {
            Some("(") => {
                skip_parentheses(words);
                if words.peek().is_some_and(|word| word.starts_with('/')) {
                    words.take();
                }
                draft.lose("an interface's own address is not known here");
            }
            Some("<") => found = table(draft, words, reading)?,
            _ => {
                let mut listed = text::list(words, "an address, or `any`", reading)?;
                if words.accept("-") {
                    let last = words.need("an address", reading)?;
                    listed.extend([Word { text: "-".to_owned(), ..last.clone() }, last]);
                }
                found = addresses(draft, &listed, reading)?;
            }
        }
        if is_negated {
            found = found.map(|found| found.not());
            if found.is_none() {
                draft.lose("no address is left of those that are not `any`");
            }
        }
    }
    let ports = if words.accept("port") { Some(ports(draft, words, reading)?) } else { None };
    let conditions = &mut draft.conditions;
    match is_from {
        true => (conditions.sources, conditions.source_ports) = (found, ports),
        false => (conditions.destinations, conditions.destination_ports) = (found, ports),
    }
    Some(())
}

/// Reads alternatives, each of which may be negated; `None` inside is any.
#[expect(clippy::option_option, reason = "any address is not an error")]
fn addresses(
    draft: &mut Draft,
    listed: &[Word],
    reading: &mut Reading,
) -> Option<Option<Addresses>> {
    let is_any = listed.iter().any(|word| ["any", "all"].contains(&word.text.as_str()));
    let mut sum = Addresses::default();
    for Entry { is_negated, addresses, .. } in entries(draft, listed, reading)? {
        sum = sum.or(&if is_negated { addresses.not() } else { addresses });
    }
    if sum == Addresses::default() && !is_any {
        draft.lose("it matches no address");
    }
    Some((!is_any).then_some(sum))
}

/// Reads the addresses of a table, of which the longest prefix decides.
#[expect(clippy::option_option, reason = "any address is not an error")]
fn table(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<Option<Addresses>> {
    words.expect("<", reading)?;
    let name = words.need("the name of a table", reading)?;
    words.expect(">", reading)?;
    let tables = Rc::clone(&draft.tables);
    let Some(listed) = tables.get(&name.text) else {
        draft.lose(&format!("the addresses of table `{}` are not in the file", name.text));
        return Some(None);
    };
    let mut entries = entries(draft, listed, reading)?;
    entries.sort_by_key(|entry| entry.length);
    let mut sum = Addresses::default();
    for Entry { is_negated, addresses, .. } in &entries {
        sum = if *is_negated { sum.without(addresses) } else { sum.or(addresses) };
    }
    if sum == Addresses::default() {
        draft.lose(&format!("table `{}` has no address", name.text));
    }
    Some(Some(sum))
}

/// A network, a host, or a range of a list.
struct Entry {
    /// The bits of its prefix.
    length: u64,
    is_negated: bool,
    addresses: Addresses,
}

/// Reads the entries of a list but for `any`.
fn entries(draft: &mut Draft, listed: &[Word], reading: &mut Reading) -> Option<Vec<Entry>> {
    let (mut found, mut is_negated) = (Vec::new(), false);
    let mut rest = listed.iter().peekable();
    while let Some(word) = rest.next() {
        match word.text.as_str() {
            "!" => is_negated = !is_negated,
            "any" | "all" => {}
            text => {
                let last = rest.next_if(|next| next.text == "-").and_then(|_| rest.next());
                let one = match last {
                    Some(last) => between(text, &last.text),
                    None => network(word, reading)?,
                };
                match one {
                    Some((length, addresses)) => {
                        found.push(Entry { length, is_negated, addresses });
                    }
                    None => {
                        draft.lose(&format!("the address of `{}` is not known here", cut(word)));
                    }
                }
                is_negated = false;
            }
        }
    }
    Some(found)
}

fn between(first: &str, last: &str) -> Option<(u64, Addresses)> {
    Some((0, Addresses::between(first.parse().ok()?, last.parse().ok()?)?))
}

/// Reads a network or a host, with the length of its prefix; an inner `None` is a name. Reports a
/// mask that its address cannot have.
#[expect(clippy::option_option, reason = "a name is not an error")]
fn network(word: &Word, reading: &mut Reading) -> Option<Option<(u64, Addresses)>> {
    let (address, length) = match word.text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word.text.as_str(), None),
    };
    let Ok(address) = address.parse::<IpAddr>() else { return Some(None) };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(most), number);
    let found = length.and_then(|length| Some((length, Addresses::network(address, length)?)));
    if found.is_none() {
        bad_value(word, &format!("a network with a mask of at most {most} bits"), reading);
    }
    found.map(Some)
}

/// Reads a port, a list, `A:B`, `A >< B`, `A <> B`, or an operator and ports.
fn ports(draft: &mut Draft, words: &mut Words, reading: &mut Reading) -> Option<Ranges> {
    let mut listed = Vec::new();
    while words.peek().is_some_and(is_operator) {
        listed.extend(words.take());
    }
    listed.extend(text::list(words, "a port", reading)?);
    if words.peek().is_some_and(is_operator) {
        while words.peek().is_some_and(is_operator) {
            listed.extend(words.take());
        }
        listed.push(words.need("a port", reading)?);
    }
    // Each port with the operator before it; in a list that may stand between two ports, too.
    let (mut entries, mut operator) = (Vec::new(), String::new());
    for word in &listed {
        match is_operator(&word.text) {
            true => operator.push_str(&word.text),
            false => entries.push((std::mem::take(&mut operator), word)),
        }
    }
    if let Some(last) = listed.last().filter(|_| !operator.is_empty()) {
        bad_value(last, "a port", reading);
        return None;
    }
    let mut found = Ranges::default();
    let mut rest = entries.iter().peekable();
    while let Some((operator, word)) = rest.next() {
        let range = port_range(draft, word, reading)?;
        let is_between = |next: &&(String, &Word)| ["><", "<>"].contains(&next.0.as_str());
        found = found.or(&match rest.next_if(is_between) {
            Some((between, word)) => {
                between_ports(range.0, port_range(draft, word, reading)?.0, between)
            }
            None => operated(range, operator),
        });
    }
    if found == Ranges::default() {
        draft.lose("it matches no port");
    }
    Some(found)
}

fn is_operator(word: impl AsRef<str>) -> bool {
    ["=", "!", "<", ">"].contains(&word.as_ref())
}

/// Returns the ports that an operator in front of a port, or of a range of them, stands for.
fn operated((first, last): (u16, u16), operator: &str) -> Ranges {
    let all = |first: u16, last: u16| Ranges::of([(first.into(), last.into())]);
    match operator {
        "!=" | "!" => all(first, last).not(u16::MAX.into()),
        "<" => first.checked_sub(1).map_or_else(Ranges::default, |last| all(0, last)),
        "<=" => all(0, first),
        ">" => first.checked_add(1).map_or_else(Ranges::default, |first| all(first, u16::MAX)),
        ">=" => all(first, u16::MAX),
        _ => all(first, last),
    }
}

/// Returns the ports of `A >< B`, between both, or of `A <> B`, outside of both.
fn between_ports(first: u16, last: u16, operator: &str) -> Ranges {
    let inside = |first: u32, last: u32| Ranges::of([(first.into(), last.into())]);
    let (first, last) = (u32::from(first), u32::from(last));
    match operator {
        "><" if last > first => inside(first + 1, last - 1),
        "><" => Ranges::default(),
        _ => inside(first, last).not(u16::MAX.into()),
    }
}

/// Reads a port or two with `:` between; a name that is not known loses the rule.
fn port_range(draft: &mut Draft, word: &Word, reading: &mut Reading) -> Option<(u16, u16)> {
    let is_name = |text: &str| text.starts_with(|first: char| first.is_ascii_alphabetic());
    let one = |text: &str| service_port(text).or_else(|| u16::try_from(number(text)?).ok());
    let (first, last) = word.text.split_once(':').unwrap_or((&word.text, &word.text));
    if let (Some(first), Some(last)) = (one(first), one(last))
        && first <= last
    {
        return Some((first, last));
    }
    if is_name(first) && one(first).is_none() || is_name(last) && one(last).is_none() {
        draft.lose(&format!("the port of service `{}` is not known here", cut(word)));
        return Some((0, 0));
    }
    bad_value(word, "a port, a service's name, or two ports as in 80:90", reading);
    None
}

fn tos(text: &str) -> Option<u64> {
    match text {
        "lowdelay" => Some(0x10),
        "throughput" => Some(0x08),
        "reliability" => Some(0x04),
        _ => match number(text) {
            Some(byte) => Some(byte).filter(|byte| *byte < 256),
            None => text.parse::<Dscp>().ok().map(|dscp| (dscp.code() << 2).into()),
        },
    }
}

impl PfRule {
    /// A rule that matches no packet.
    pub(super) fn nothing(line: LineId) -> Self {
        Self { line, ..Self::default() }
    }

    /// Returns the first group of interfaces that it names.
    pub(super) fn group(&self) -> Option<&str> {
        self.on.iter().find_map(Interfaces::group)
    }

    /// Adds the conditions of an anchor around it.
    pub(super) fn inside(mut self, anchor: &Self) -> Self {
        self.direction = match (self.direction, anchor.direction) {
            (own, Direction::Both) => own,
            (Direction::Both, around) => around,
            (own, around) if own == around => own,
            _ => {
                // No packet goes both ways.
                self.conditions = None;
                self.direction
            }
        };
        self.on.extend(anchor.on.iter().cloned());
        self.conditions = match (self.conditions, &anchor.conditions) {
            (Some(own), Some(around)) => own.and(around),
            _ => None,
        };
        self
    }
}

/// The queues of an interface, as rules find them.
pub(super) struct Place<'p> {
    pub interface: &'p str,
    /// Whether no other interface has queues, so that a group of interfaces is this one.
    pub is_only: bool,
    /// The names of the classes.
    pub names: &'p [String],
    pub default: usize,
}

impl Place<'_> {
    fn has(&self, on: &[Interfaces]) -> bool {
        on.iter().all(|on| on.contains(self.interface, self.is_only))
    }

    /// Returns the queues that a rule names; a name that the interface lacks is its default.
    fn queues(&self, rule: &PfRule) -> Option<Queues> {
        let find = |word: &Word| self.names.iter().position(|name| *name == word.text);
        let queue = rule.queue.as_ref()?;
        let second = rule.second.as_ref().and_then(find);
        Some(Queues(find(queue).unwrap_or(self.default), second))
    }

    /// Returns the rules for packets, with the conditions that `of` gives.
    fn steps<'r>(
        rules: &'r [PfRule],
        given: impl Fn(&PfRule) -> Option<Queues>,
        of: impl Fn(&'r PfRule, &'r Conditions) -> Option<Conditions>,
    ) -> Vec<Step> {
        let step = |(at, rule): (usize, &'r PfRule)| {
            let conditions = of(rule, rule.conditions.as_ref()?)?;
            let PfRule { is_match, quick, .. } = *rule;
            Some(Step { conditions, is_match, quick, queue: given(rule), rule: at })
        };
        rules.iter().enumerate().filter_map(step).collect()
    }

    /// Decides about packets by what rules give: queues, or code points by their numbers.
    fn decide(&self, rules: &[PfRule], given: impl Fn(&PfRule) -> Option<Queues>) -> Decided {
        let replies = Self::steps(rules, &given, |rule, conditions| {
            let here = rule.direction == Direction::In && !rule.on.is_empty();
            (here && self.has(&rule.on)).then(|| conditions.reversed())
        });
        let leaving = Self::steps(rules, &given, |rule, conditions| {
            let out = rule.direction != Direction::In && self.has(&rule.on);
            out.then(|| conditions.clone())
        });
        // Packets that came in elsewhere keep their queue on the way out.
        let elsewhere = Self::steps(rules, &given, |rule, conditions| {
            let other = rule.on.is_empty() && rule.direction == Direction::In
                || rule.direction != Direction::Out && !self.has(&rule.on);
            (other && given(rule).is_some()).then(|| conditions.clone())
        });
        let of_replies = Decisions::of(&replies, &[]);
        let both = Decisions::of(&leaving, &elsewhere);
        let is_cut = of_replies.is_cut || both.is_cut;
        // Without ports replies look like new connections, so these go last, and a rule without a
        // queue says nothing of them.
        let (mut list, last): (Vec<_>, Vec<_>) =
            of_replies.list.into_iter().partition(|decision| decision.conditions.has_ports());
        list.extend(both.list);
        list.extend(last.into_iter().take_while(|decision| decision.queue.is_some()));
        Decided { replies, leaving, elsewhere, list, is_cut }
    }

    /// Adds rules to the classes; returns which rules of the file they come from.
    pub(super) fn assign(
        &self,
        rules: &[PfRule],
        classes: &mut [AltqClass],
        reading: &mut Reading,
    ) -> Vec<bool> {
        let queues = self.decide(rules, |rule| self.queues(rule));
        let number = |dscp: Dscp| Queues(dscp.code().into(), None);
        let code_points = self.decide(rules, |rule| rule.code_point.map(number));
        let used = self.used(rules, (&queues, &code_points));
        let joined = join(queues.list, &code_points.list);
        if queues.is_cut || code_points.is_cut || joined.len() > DECISIONS_MAX {
            let message = "the rules decide about too many cases together";
            let span = rules.first().map(|rule| reading.span(rule.line)).unwrap_or_default();
            reading.error(&codes::TOO_MANY, span, message, "write ranges of ports");
            return used;
        }
        let mut writer = Writer { rules, classes, rank: 0, default: self.default };
        for (decision, code_point) in &joined {
            writer.write(decision, *code_point, reading);
        }
        self.note(rules, (&queues.replies, &queues.elsewhere), reading);
        Self::note_code_points(rules, &code_points, reading);
        used
    }

    /// Returns for each rule of the file whether it says something of packets here.
    fn used(&self, rules: &[PfRule], (queues, code_points): (&Decided, &Decided)) -> Vec<bool> {
        // Conditions that cannot be expressed were reported when they were read.
        let mut used: Vec<_> = rules.iter().map(|rule| rule.conditions.is_none()).collect();
        for step in &queues.leaving {
            used[step.rule] = self.is_known(&rules[step.rule]);
        }
        let others = |decided: &Decided| {
            let steps = decided.replies.iter().chain(&decided.elsewhere);
            steps.filter(|step| step.queue.is_some()).map(|step| step.rule).collect::<Vec<_>>()
        };
        for rule in others(queues) {
            used[rule] |= self.is_known(&rules[rule]);
        }
        others(code_points).into_iter().for_each(|rule| used[rule] = true);
        used
    }

    /// Whether the queue that a rule names is one of the interface, if it names one.
    fn is_known(&self, rule: &PfRule) -> bool {
        rule.queue.as_ref().is_none_or(|queue| self.names.contains(&queue.text))
    }

    fn note(
        &self,
        rules: &[PfRule],
        (replies, elsewhere): (&[Step], &[Step]),
        reading: &mut Reading,
    ) {
        let named = |step: &&Step| step.queue.is_some() && self.is_known(&rules[step.rule]);
        for step in replies.iter().filter(named) {
            let note = "the replies to arriving packets go to the queue: ends are exchanged";
            reading.noted(rules[step.rule].line, note);
        }
        for step in elsewhere.iter().filter(named).filter(|step| !rules[step.rule].on.is_empty()) {
            reading.approximated(rules[step.rule].line, COMES_IN);
        }
        for rule in rules.iter().filter(|rule| self.has(&rule.on)) {
            if let Some(group) = rule.group().filter(|_| self.is_only) {
                let note = format!("the group `{group}` is taken to be `{}`", self.interface);
                reading.approximated(rule.line, note);
            }
        }
    }

    fn note_code_points(rules: &[PfRule], code_points: &Decided, reading: &mut Reading) {
        for step in code_points.replies.iter().filter(|step| step.queue.is_some()) {
            let note = "the replies to arriving packets get the code point; for these packets \
                        themselves write `set_dscp` in the policy of the other direction";
            reading.approximated(rules[step.rule].line, note);
        }
        // Those with a queue are noted for it.
        let alone = code_points.elsewhere.iter().map(|step| &rules[step.rule]);
        for rule in alone.filter(|rule| rule.queue.is_none() && !rule.on.is_empty()) {
            reading.approximated(rule.line, COMES_IN);
        }
    }
}

/// The note on rules for packets that came in elsewhere.
const COMES_IN: &str = "the interface by which its packets come in is left out";

/// The decisions of rules about packets at an interface.
struct Decided {
    /// Rules for packets that come in here, for the packets that go back.
    replies: Vec<Step>,
    leaving: Vec<Step>,
    /// Rules for packets that came in elsewhere.
    elsewhere: Vec<Step>,
    /// The first decision whose conditions hold counts.
    list: Vec<Decision>,
    is_cut: bool,
}

/// Joins decisions about queues with those about code points, so that the first that holds has
/// both.
fn join(queues: Vec<Decision>, code_points: &[Decision]) -> Vec<(Decision, Option<Dscp>)> {
    let of = |decision: &Decision| {
        decision.queue.and_then(|number| Dscp::new(u8::try_from(number.0).ok()?).ok())
    };
    // Behind the last that sets one, none is set whichever holds.
    let last = code_points.iter().rposition(|decision| decision.queue.is_some());
    let code_points = &code_points[..last.map_or(0, |last| last + 1)];
    let mut joined = Vec::new();
    for decision in queues {
        let mut is_whole = false;
        for one in code_points {
            let Some(conditions) = decision.conditions.and(&one.conditions) else { continue };
            is_whole = conditions == decision.conditions;
            joined.push((Decision { conditions, ..decision }, of(one)));
            if is_whole || joined.len() > DECISIONS_MAX {
                break;
            }
        }
        if !is_whole {
            joined.push((decision, None));
        }
        if joined.len() > DECISIONS_MAX {
            return joined;
        }
    }
    // Packets of no decision are those of the default queue.
    let near = joined.len().saturating_sub(COMPARED_MAX)..joined.len();
    for one in code_points {
        let is_decided = |known: &(Decision, _)| known.0.conditions.covers(&one.conditions);
        if !joined[near.clone()].iter().any(is_decided) {
            let (conditions, rule) = (one.conditions.clone(), one.rule);
            joined.push((Decision { conditions, queue: None, rule }, of(one)));
        }
    }
    joined
}

/// Writes decisions as rules of classes.
struct Writer<'w> {
    rules: &'w [PfRule],
    classes: &'w mut [AltqClass],
    rank: u64,
    default: usize,
}

impl Writer<'_> {
    fn write(&mut self, decision: &Decision, code_point: Option<Dscp>, reading: &mut Reading) {
        let line = self.rules[decision.rule].line;
        let Queues(queue, second) = decision.queue.unwrap_or(Queues(self.default, None));
        if let Some(second) = second {
            let note = "empty acknowledgements are TCP packets of at most 80 bytes with ACK set, \
                        so those with very little data go to the second queue, too";
            reading.approximated(line, note);
            let mut rules = decision.conditions.low_delay_rules();
            rules.extend(decision.conditions.acknowledgement_rules());
            self.add(second, rules, code_point);
        }
        let rules = decision.conditions.rules();
        if rules.len() >= CASES_MAX {
            reading.approximated(line, format!("only its first {CASES_MAX} cases are kept"));
        }
        self.add(queue, rules, code_point);
    }

    fn add(&mut self, class: usize, rules: Vec<Vec<Key>>, code_point: Option<Dscp>) {
        self.rank += 1;
        let rank = self.rank;
        let set = code_point.map(|dscp| ("set_dscp", quoted(&dscp.to_string())));
        let with = |mut keys: Vec<Key>| {
            keys.extend(set.clone());
            Rule { keys, rank }
        };
        self.classes[class].rules.extend(rules.into_iter().map(with));
    }
}

/// The parts of a rule.
const PARTS: Table<Draft> = Table {
    noun: "part of a rule",
    lists: &[&[
        ("in", Flag(|draft| draft.rule.direction = Direction::In)),
        ("out", Flag(|draft| draft.rule.direction = Direction::Out)),
        ("quick", Flag(|draft| draft.rule.quick = true)),
        ("on", Read(on)),
        ("inet", Flag(|draft| draft.conditions.version = Some(Version::Four))),
        ("inet6", Flag(|draft| draft.conditions.version = Some(Version::Six))),
        ("proto", Read(protocols)),
        ("from to", Read(end)),
        ("tos", Number(TOS, |draft, tos| draft.conditions.tos = u8::try_from(tos).ok())),
        ("queue", Read(|draft, words, reading| assigned(words, &mut draft.rule, reading))),
        ("set", Read(|draft, words, reading| set(words, &mut draft.rule, reading))),
        ("all allow-opts return once", Flag(|_| ())),
        ("keep modulate synproxy", Read(state)),
        ("no", Read(|_, words, reading| words.need("`state`", reading).map(drop))),
        ("log log-all scrub", Read(options)),
        ("flags", Read(flags)),
        ("label tag rtable rtableid max-mss ridentifier max-pkt-rate", Read(label)),
        ("divert-to divert-packet", Read(divert)),
        ("route-to reply-to dup-to nat-to rdr-to binat-to af-to", Read(route)),
        ("icmp-type icmp6-type", Read(icmp)),
        ("user group os probability tagged", Read(foreign)),
        ("received-on fragment prio", Read(foreign)),
    ]],
};
const TOS: Kind = (
    "a byte, a DSCP such as `af41`, `cs1` or `ef`, or `lowdelay`, `throughput` or `reliability`",
    tos,
);
/// Names of protocols in `/etc/protocols` beside those of [`Protocol`].
const PROTOCOLS: [(&str, u64); 11] = [
    ("ipencap", 4),
    ("egp", 8),
    ("igp", 9),
    ("ipsec-esp", 50),
    ("ipsec-ah", 51),
    ("mobile", 55),
    ("icmp6", 58),
    ("eigrp", 88),
    ("etherip", 97),
    ("ipcomp", 108),
    ("carp", 112),
];
/// Names of types of messages in pfctl.
const ICMP_TYPES: &[(&str, u64)] = &[
    ("echorep", 0),
    ("unreach", 3),
    ("squench", 4),
    ("redir", 5),
    ("althost", 6),
    ("echoreq", 8),
    ("routeradv", 9),
    ("routersol", 10),
    ("timex", 11),
    ("paramprob", 12),
    ("timereq", 13),
    ("timerep", 14),
    ("inforeq", 15),
    ("inforep", 16),
    ("maskreq", 17),
    ("maskrep", 18),
];
const ICMP6_TYPES: &[(&str, u64)] = &[
    ("unreach", 1),
    ("toobig", 2),
    ("timex", 3),
    ("paramprob", 4),
    ("echoreq", 128),
    ("echorep", 129),
    ("groupqry", 130),
    ("listqry", 130),
    ("grouprep", 131),
    ("listenrep", 131),
    ("groupterm", 132),
    ("listendone", 132),
    ("routersol", 133),
    ("routeradv", 134),
    ("neighbrsol", 135),
    ("neighbradv", 136),
    ("redir", 137),
];
/// Names of codes in pfctl, with the type of IPv4 and the number.
const ICMP_CODES: &[(&str, u64, u64)] = &[
    ("net-unr", 3, 0),
    ("host-unr", 3, 1),
    ("proto-unr", 3, 2),
    ("port-unr", 3, 3),
    ("needfrag", 3, 4),
    ("srcfail", 3, 5),
    ("net-prohib", 3, 9),
    ("host-prohib", 3, 10),
    ("filter-prohib", 3, 13),
    ("redir-net", 5, 0),
    ("redir-host", 5, 1),
    ("transit", 11, 0),
    ("reassemb", 11, 1),
    ("badhead", 12, 0),
    ("optmiss", 12, 1),
];
/// How pf chooses among several addresses.
const POOL: &str = "round-robin random source-hash bitmask sticky-address static-port \
                    least-states endpoint-independent prefer-ipv6-nexthop";
/// Conditions with numbers, and the largest that pfctl takes; a probability in millionths.
const NUMBERS: [(&str, u64); 6] = [
    ("user", u32::MAX as u64 - 1),
    ("group", u32::MAX as u64 - 1),
    ("icmp-type", 255),
    ("icmp6-type", 255),
    ("prio", 7),
    ("probability", 1_000_000),
];
