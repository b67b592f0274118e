//! Imports `altq.conf`: interfaces, classes, filters and conditioners [altq, algorithms §3.2, §10,
//! §11.1].
//!
//! Filters keep ALTQ's order: those for one destination first, then by `ruleno`, then the newest.

use super::altq_classes::{AltqClass, Curve, Discipline, Early, lower};
use super::altq_meters::{self, Conditioner};
use super::lines::{LineId, Reading};
use super::sketch::{Class, Key, Order, Rule, Sketch, quoted};
use super::words::{Word, Words, bad_value, bytes, decimal, number, split, with_letter};
use super::{Language, Options};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_policy::codes;

pub(super) const LANGUAGE: Language =
    Language { name: "altq", summary: "an altq.conf of ALTQ's altqd", read };

/// The discipline of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A tree of classes.
    Tree(Discipline),
    /// One queue, or flows by hash.
    Single,
    /// Conditioners without a queueing discipline.
    None,
}

struct Interface {
    sketch: Sketch,
    line: LineId,
    kind: Kind,
    classes: Vec<AltqClass>,
    control: bool,
    conditioners: Vec<Conditioner>,
    /// The rules of an interface with conditioners only.
    metered: Vec<Rule>,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut early = Thresholds::default();
    for (position, words) in statements(text).into_iter().enumerate() {
        let mut words = Words::new(words);
        let line = reading.line(words.span());
        let Some(first) = words.take() else { continue };
        match first.text.as_str() {
            "interface" => {
                let one = interface(&mut words, (line, &early), &interfaces, reading);
                interfaces.extend(one);
            }
            "class" => class(&mut words, (line, &early), &mut interfaces, reading),
            "red" => drop(early.read(&mut words, &RED, false, reading)),
            "rio" => drop(early.read(&mut words, &RIO, true, reading)),
            "conditioner" => conditioner(&mut words, line, &mut interfaces, reading),
            "filter" => {
                let at = FilterLine { line, position, six: false };
                filter(&mut words, at, &mut interfaces, reading);
            }
            "filter6" => {
                let at = FilterLine { line, position, six: true };
                filter(&mut words, at, &mut interfaces, reading);
            }
            word => reading.unknown((word, first.span), "command", &COMMANDS),
        }
    }
    interfaces.into_iter().filter_map(|one| finish(one, options, reading)).collect()
}

/// The thresholds of RED and RIO in what the file declares from here on.
#[derive(Default)]
struct Thresholds {
    red: Vec<Key>,
    rio: Vec<Key>,
}

impl Thresholds {
    /// Reads `red MIN MAX INV_PMAX`, or `rio` with three times as many.
    fn read(
        &mut self,
        words: &mut Words,
        names: &[&'static str],
        rio: bool,
        reading: &mut Reading,
    ) -> Option<()> {
        let mut keys = Vec::new();
        for name in names {
            let value = words.value("a number", number, reading)?;
            keys.extend((value > 0).then(|| (*name, value.to_string())));
        }
        *(if rio { &mut self.rio } else { &mut self.red }) = keys;
        Some(())
    }

    fn of(&self, early: Early) -> Vec<Key> {
        match early {
            Early::Red => self.red.clone(),
            Early::Rio => self.rio.clone(),
            _ => Vec::new(),
        }
    }
}

/// Splits the text into the words of each line; a line that ends in a backslash continues.
fn statements(text: &str) -> Vec<Vec<Word>> {
    let mut statements = Vec::new();
    let mut open: Vec<Word> = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        open.extend(split(line, offset, &['<', '>', '[', ']']));
        offset += line.len();
        if open.last().is_some_and(|word| word.text == "\\") {
            open.pop();
        } else if !open.is_empty() {
            statements.push(std::mem::take(&mut open));
        }
    }
    statements.extend((!open.is_empty()).then_some(open));
    statements
}

/// `interface NAME [bandwidth BPS] [tbrsize BYTES] [DISCIPLINE [OPTIONS]]`.
fn interface(
    words: &mut Words,
    (line, early): (LineId, &Thresholds),
    known: &[Interface],
    reading: &mut Reading,
) -> Option<Interface> {
    let name = words.need("the name of an interface", reading)?;
    if known.len() >= INTERFACES_MAX {
        reading.lost(line, format!("the file has more than {INTERFACES_MAX} interfaces"));
        return None;
    }
    if known.iter().any(|one| one.sketch.interface == name.text) {
        let message = format!("interface `{}` is declared twice", name.text);
        reading.error(&codes::DECLARED_TWICE, name.span, message, "keep one of the two");
        return None;
    }
    let mut one = Interface {
        sketch: Sketch::new(&name.text, name.span),
        line,
        kind: Kind::None,
        classes: Vec::new(),
        control: false,
        conditioners: Vec::new(),
        metered: Vec::new(),
    };
    one.sketch.order = Order::Altq;
    let mut flows = Flows::default();
    while let Some(word) = words.take() {
        let tree = match word.text.as_str() {
            "bandwidth" => {
                one.sketch.rate = words.value(A_RATE, bits, reading)?;
                continue;
            }
            "tbrsize" => {
                words.value("a size such as 64K", bytes, reading)?;
                reading.approximated(line, "`tbrsize` is left out: the link paces each packet");
                continue;
            }
            "cbq" | "cbq-wrr" | "cbq-prr" => Kind::Tree(Discipline::Cbq),
            "hfsc" => Kind::Tree(Discipline::Hfsc),
            "priq" => Kind::Tree(Discipline::Priq),
            _ => {
                interface_option(&word, words, &mut one, &mut flows, reading)?;
                continue;
            }
        };
        one.kind = tree;
        if word.text == "cbq-prr" {
            one.sketch.parameters.push(("general", quoted("prr")));
        }
    }
    flows.give_to(early, &mut one);
    Some(one)
}

/// The values from which a discipline without classes makes its one class.
#[derive(Default)]
struct Flows {
    scheduler: Option<&'static str>,
    queue: Vec<Key>,
    early: Early,
    hash: Option<String>,
    queues: Option<u64>,
    size: Option<u64>,
    limit: Option<u64>,
}

impl Flows {
    fn give_to(mut self, early: &Thresholds, one: &mut Interface) {
        let Some(scheduler) = self.scheduler else { return };
        for key in early.of(self.early) {
            if self.queue.iter().all(|(name, _)| *name != key.0) {
                self.queue.push(key);
            }
        }
        one.kind = Kind::Single;
        one.sketch.scheduler = scheduler;
        let mut class = Class::new("all", None, one.line);
        class.default = true;
        class.queue = self.queue;
        if let Some(hash) = self.hash {
            class.name = "flows".to_owned();
            class.leaf_keys =
                vec![("hash", quoted(&hash)), ("queues", self.queues.unwrap_or(256).to_string())];
            let size = self.size.unwrap_or(64 << 10).max(1500);
            class.queue =
                vec![("dropper", quoted("longest")), ("limit", quoted(&format!("{size} B")))];
        } else if let Some(limit) = self.limit {
            class.queue.push(("limit", quoted(&format!("{} packets", limit.max(1)))));
        }
        one.sketch.classes.push(class);
    }
}

fn interface_option(
    word: &Word,
    words: &mut Words,
    one: &mut Interface,
    flows: &mut Flows,
    reading: &mut Reading,
) -> Option<()> {
    let line = one.line;
    let threshold = THRESHOLDS.iter().find(|row| row.0 == word.text);
    if let Some((_, key)) = threshold.filter(|_| flows.early != Early::No) {
        let value = words.value("a number", number, reading)?.max(1);
        flows.queue.push((key, value.to_string()));
        return Some(());
    }
    match word.text.as_str() {
        "efficient" => one.sketch.parameters.push(("efficient", "true".to_owned())),
        "wfq" => {
            flows.scheduler = Some("altq-wfq");
            flows.hash.get_or_insert_with(|| "dstaddr".to_owned());
        }
        "fifoq" => flows.scheduler = Some("fifo"),
        "red" => {
            single(flows, "red-altq");
            flows.early = Early::Red;
        }
        "rio" => {
            single(flows, "rio");
            flows.early = Early::Rio;
        }
        "blue" => single(flows, "blue"),
        "jobs" => {
            let why =
                "Weir has no joint buffer management and scheduling, so the interface is left out";
            reading.lost(line, why);
            one.kind = Kind::None;
        }
        "nqueues" => flows.queues = Some(words.value("a number of queues", number, reading)?),
        "qsize" => flows.size = Some(words.value("a size such as 64K", bytes, reading)?),
        "qlimit" => flows.limit = Some(words.value("a number of packets", number, reading)?),
        "hash" => {
            let hash = words.need("`dstaddr`, `full` or `srcport`", reading)?;
            if !HASHES.contains(&hash.text.as_str()) {
                reading.unknown((&hash.text, hash.span), "hash", &HASHES);
                return None;
            }
            flows.hash = Some(hash.text);
        }
        "ecn" => flows.queue.push(("ecn", "true".to_owned())),
        "cleardscp" | "flowvalve" => {
            reading
                .approximated(line, format!("`{}` is left out: Weir has no such step", word.text));
        }
        "thmin" | "thmax" | "weight" | "invpmax" | "maxpmark" | "holdtime" | "packetsize"
        | "pkttime" | "separate" => {
            words.value("a number", number, reading)?;
            reading.approximated(line, format!("`{}` is left at its default", word.text));
        }
        other => {
            reading.unknown((other, word.span), "option of an interface", &INTERFACE_WORDS);
            return None;
        }
    }
    Some(())
}

fn single(flows: &mut Flows, dropper: &str) {
    flows.scheduler = Some("fifo");
    flows.queue = vec![("dropper", quoted(dropper))];
}

/// `class DISCIPLINE INTERFACE NAME PARENT OPTIONS`.
fn class(
    words: &mut Words,
    (line, early): (LineId, &Thresholds),
    known: &mut [Interface],
    reading: &mut Reading,
) {
    let Some(kind) = words.need("a discipline", reading) else { return };
    if !DISCIPLINES.contains(&kind.text.as_str()) {
        return reading.unknown((&kind.text, kind.span), "discipline with classes", &DISCIPLINES);
    }
    let Some(one) = the_interface(words, known, reading) else { return };
    let Kind::Tree(discipline) = one.kind else {
        return reading.lost(line, "its interface has no discipline with classes that Weir has");
    };
    let Some(name) = words.need("the name of a class", reading) else { return };
    if one.classes.len() >= CLASSES_MAX {
        return reading.lost(line, format!("`{}` has more than {CLASSES_MAX} classes", name.text));
    }
    let mut class = AltqClass::new(&name.text, None, line);
    if one.classes.iter().any(|other| other.name == name.text) {
        let message = format!("class `{}` is declared twice", name.text);
        return reading.error(&codes::DECLARED_TWICE, name.span, message, "rename one of them");
    }
    let Some(parent) = words.need("the parent's name, or NULL", reading) else { return };
    let top = ["NULL", "null"].contains(&parent.text.as_str())
        || discipline != Discipline::Cbq && parent.text == "root";
    if !top {
        class.parent = one.classes.iter().position(|other| other.name == parent.text);
        if class.parent.is_none() {
            let names = one.classes.iter().map(|other| other.name.as_str());
            return reading.undeclared((&parent.text, parent.span), "class", names);
        }
    }
    let options = ClassOptions::default();
    let mut draft = ClassDraft { class, options, link: one.sketch.rate };
    while let Some(word) = words.take() {
        if class_option(&word, words, &mut draft, reading).is_none() {
            return;
        }
    }
    draft.class.thresholds = early.of(draft.class.early);
    add_class(one, draft, discipline, reading);
}

/// Values that are computed once the line is read.
#[derive(Default)]
struct ClassOptions {
    control: bool,
    packets: Option<u64>,
    packet_size: Option<u64>,
    delay: Option<u64>,
    limit: Option<u64>,
}

/// A class whose line is being read.
struct ClassDraft {
    class: AltqClass,
    options: ClassOptions,
    /// The rate of its interface in bit/s.
    link: u64,
}

fn class_option(
    word: &Word,
    words: &mut Words,
    draft: &mut ClassDraft,
    reading: &mut Reading,
) -> Option<()> {
    let ClassDraft { class, options, link } = draft;
    let (line, link) = (class.line, *link);
    match word.text.as_str() {
        "borrow" => class.borrow = true,
        "default" => class.default = true,
        "control" => options.control = true,
        "priority" => class.priority = Some(words.value("a priority", priority, reading)?),
        "pbandwidth" => class.bandwidth = part(link, words.value(A_PERCENTAGE, percent, reading)?),
        "exactbandwidth" => class.bandwidth = words.value(A_RATE, bits, reading)?,
        "pshare" => {
            let share = part(link, words.value(A_PERCENTAGE, percent, reading)?);
            class.link_share = Some(Curve::straight(share));
        }
        "bandwidth" => {
            let curve = Some(Curve::straight(words.value(A_RATE, bits, reading)?));
            (class.real_time, class.link_share) = (curve, curve);
        }
        "ulimit" => class.upper_limit = Some(Curve::straight(words.value(A_RATE, bits, reading)?)),
        "grate" => class.real_time = Some(Curve::straight(words.value(A_RATE, bits, reading)?)),
        "[" => curve(words, class, reading)?,
        "qlimit" => options.limit = Some(words.value("a number of packets", number, reading)?),
        "maxdelay" => options.delay = Some(words.value("milliseconds", number, reading)?),
        "maxburst" => {
            options.packets = Some(words.value("a number of packets", number, reading)?)
        }
        "packetsize" => options.packet_size = Some(words.value(A_SIZE, number, reading)?),
        "minburst" | "maxpacketsize" => {
            words.value("a number", number, reading)?;
            let why = "Weir's class-based queueing charges each packet by its length";
            reading.approximated(line, format!("`{}` is left out: {why}", word.text));
        }
        "maxidle" | "minidle" | "offtime" => {
            words.need("a number", reading)?;
            let why = "the number is one of `cbq-altq`; Weir's class-based queueing has no such \
                       limit";
            reading.approximated(line, format!("`{}` is left out: {why}", word.text));
        }
        "red" => class.early = Early::Red,
        "rio" => class.early = Early::Rio,
        "ecn" => (class.early, class.ecn) = (Early::Red, true),
        "flowvalve" => {
            class.early = Early::Red;
            reading.approximated(line, "`flowvalve` is left out: Weir has no such filter");
        }
        "cleardscp" => {
            reading.approximated(line, "`cleardscp` is left out: marks stay as they are");
        }
        "admission" => {
            let kind = words.need("`none` or `cntlload`", reading)?;
            if kind.text != "none" {
                reading
                    .approximated(line, "`admission` is left out: Weir has no admission control");
            }
        }
        other => {
            reading.unknown((other, word.span), "option of a class", &CLASS_WORDS);
            return None;
        }
    }
    Some(())
}

/// `[KIND M1 D M2]`, behind its bracket.
fn curve(words: &mut Words, class: &mut AltqClass, reading: &mut Reading) -> Option<()> {
    let kind = words.need("`sc`, `rt`, `ls` or `ul`", reading)?;
    let m1 = words.value(A_RATE, bits, reading)?;
    let d = words.value("milliseconds", number, reading)?;
    let m2 = words.value(A_RATE, bits, reading)?;
    let curve = Some(Curve { m1, d, m2 });
    match kind.text.as_str() {
        "sc" => (class.real_time, class.link_share) = (curve, curve),
        "rt" => class.real_time = curve,
        "ls" => class.link_share = curve,
        "ul" => class.upper_limit = curve,
        other => {
            reading.unknown((other, kind.span), "service curve", &["sc", "rt", "ls", "ul"]);
            return None;
        }
    }
    words.value("`]`", |word| (word == "]").then_some(()), reading)
}

fn add_class(
    one: &mut Interface,
    ClassDraft { mut class, options, .. }: ClassDraft,
    discipline: Discipline,
    reading: &mut Reading,
) {
    let cbq = discipline == Discipline::Cbq;
    let size = options.packet_size.unwrap_or(MTU).clamp(1, 65_535);
    class.burst = options.packets.filter(|_| cbq).map(|packets| packets.saturating_mul(size));
    class.limit = match (options.limit, options.delay) {
        (Some(limit), _) => limit,
        // [algorithms §3.3] For as many packets of the average size as take the delay at the rate.
        (_, Some(delay)) if delay > 0 => {
            let bits = u128::from(class.bandwidth) * u128::from(delay) / 1000;
            u64::try_from(bits / (8 * u128::from(size))).unwrap_or(u64::MAX).clamp(4, 1 << 20)
        }
        _ if !cbq => 50,
        _ if class.early == Early::No => 30,
        _ => 60,
    };
    let control = options.control || class.name == CONTROL;
    if control && cbq {
        one.control = true;
        class.rules.extend(control_rules());
    }
    if class.default && cbq && !one.control {
        add_control(one, &mut class, reading);
    }
    one.classes.push(class);
}

/// [algorithms §3.2, §3.16] A default class that comes before any control class gives two
/// hundredths of the link to a control class.
fn add_control(one: &mut Interface, default: &mut AltqClass, reading: &mut Reading) {
    let rate = one.sketch.rate / 50;
    let mut control = AltqClass::new(CONTROL, default.parent, default.line);
    control.bandwidth = rate;
    control.priority = Some(6);
    control.limit = 30;
    control.rules = control_rules();
    default.bandwidth = default.bandwidth.saturating_sub(rate);
    one.control = true;
    one.classes.push(control);
    let note = format!(
        "no class for control comes before, so a class `{CONTROL}` gets 2 % of the link from this \
         one for ICMP, IGMP and RSVP, as altqd does it"
    );
    reading.noted(default.line, note);
}

/// The rules for ICMP, IGMP and RSVP.
fn control_rules() -> Vec<Rule> {
    let rule = |proto: u8| Rule { keys: vec![("proto", proto.to_string())], rank: 0 };
    [1, 2, 46].map(rule).to_vec()
}

/// `conditioner INTERFACE NAME <ACTION>`.
fn conditioner(words: &mut Words, line: LineId, known: &mut [Interface], reading: &mut Reading) {
    let Some(one) = the_interface(words, known, reading) else { return };
    let Some(name) = words.need("the name of a conditioner", reading) else { return };
    let Some(action) = altq_meters::action(words, reading) else { return };
    let conditioner = Conditioner { name: name.text, action };
    if one.kind != Kind::None {
        let why = "conditioners act on arriving packets, and this policy is for departing ones: \
                   write `police` in the policy of the other direction";
        reading.lost(line, why);
    } else if altq_meters::police(&conditioner.action).is_err() {
        let why = "only one meter, or two token buckets in a row, can be written as `police`";
        reading.lost(line, why);
    }
    one.conditioners.push(conditioner);
}

/// A line with a filter.
#[derive(Clone, Copy)]
struct FilterLine {
    line: LineId,
    /// How many lines come before it: earlier filters of one number go first.
    position: usize,
    six: bool,
}

/// `filter INTERFACE CLASS [name N] [ruleno N] DST [netmask M] DPORT SRC [netmask M] SPORT PROTO
/// [tos V [tosmask M]] [gpi V]`, and `filter6` with prefixes.
fn filter(words: &mut Words, at: FilterLine, known: &mut [Interface], reading: &mut Reading) {
    let Some(one) = the_interface(words, known, reading) else { return };
    let Some(class) = words.need("the name of a class", reading) else { return };
    let Some((ruleno, rules)) = conditions(words, at, reading) else { return };
    let rank = (ruleno << 32) | at.position as u64;
    let rules = rules.into_iter().map(|keys| Rule { keys, rank });
    if let Some(found) = one.classes.iter_mut().find(|one| one.name == class.text) {
        return found.rules.extend(rules);
    }
    let Some(found) = one.conditioners.iter().find(|one| one.name == class.text) else {
        let names = one.classes.iter().map(|one| one.name.as_str());
        let names = names.chain(one.conditioners.iter().map(|one| one.name.as_str()));
        return reading.undeclared((&class.text, class.span), "class", names);
    };
    match altq_meters::police(&found.action) {
        Ok(police) if one.kind == Kind::None => one.metered.extend(rules.map(|mut rule| {
            rule.keys.extend(police.clone().map(|police| ("police", police)));
            rule
        })),
        _ => reading.lost(at.line, "its conditioner is lost"),
    }
}

/// Returns the rule number and the rules of a filter.
fn conditions(
    words: &mut Words,
    FilterLine { line, six, .. }: FilterLine,
    reading: &mut Reading,
) -> Option<(u64, Vec<Vec<Key>>)> {
    let mut ruleno = 0;
    loop {
        if words.accept("name") {
            words.need("the filter's name", reading)?;
        } else if words.accept("ruleno") {
            let in_range = |text: &str| number(text).filter(|n| *n <= i32::MAX as u64);
            ruleno = words.value("a rule number", in_range, reading)?;
        } else {
            break;
        }
    }
    let mut keys = Vec::new();
    let mut expressible = true;
    let mut address = |key: &'static str, words: &mut Words, reading: &mut Reading| {
        let prefix = if six { prefix6(words, reading)? } else { prefix4(words, reading)? };
        match prefix {
            Address::Any => {}
            Address::Prefix(prefix) => keys.push((key, quoted(&prefix))),
            Address::Holes => expressible = false,
        }
        Some(())
    };
    address("dst", words, reading)?;
    let dport = words.value("a destination port", port, reading)?;
    address("src", words, reading)?;
    let sport = words.value("a source port", port, reading)?;
    let proto = words.value("a protocol's number", protocol, reading)?;
    if !expressible {
        reading.lost(line, "a netmask with holes is not a prefix");
    }
    if keys.is_empty() {
        keys.push(("ethertype", quoted(if six { "ipv6" } else { "ipv4" })));
    }
    keys.extend((proto > 0).then(|| ("proto", proto.to_string())));
    keys.extend((dport > 0).then(|| ("dport", dport.to_string())));
    keys.extend((sport > 0).then(|| ("sport", sport.to_string())));
    let rules = further(words, keys, (line, &mut expressible), reading)?;
    Some((ruleno, if expressible { rules } else { Vec::new() }))
}

/// Reads what may follow the protocol.
fn further(
    words: &mut Words,
    keys: Vec<Key>,
    (line, expressible): (LineId, &mut bool),
    reading: &mut Reading,
) -> Option<Vec<Vec<Key>>> {
    let byte = |text: &str| number(text).filter(|n| *n < 256).map(|n| n as u8);
    let (mut tos, mut mask) = (None, 0xff);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "tos" | "tclass" => tos = Some(words.value("a byte", byte, reading)?),
            "dontwarn" => {}
            "tosmask" | "tclassmask" => mask = words.value("a byte", byte, reading)?,
            "gpi" | "flowlabel" => {
                if words.value("a number", number, reading)? > 0 {
                    let why = format!("Weir's rules cannot match `{}`", word.text);
                    reading.lost(line, why);
                    *expressible = false;
                }
            }
            other => {
                reading.unknown((other, word.span), "condition of a filter", &FILTER_WORDS);
                return None;
            }
        }
    }
    Some(match tos.filter(|tos| *tos > 0) {
        None => vec![keys],
        Some(tos) => with_tos(&keys, tos, mask),
    })
}

/// Makes the rules of packets whose traffic class agrees with `tos` under `mask`: one for each
/// value of the ECN field, with all DSCPs.
pub(super) fn with_tos(keys: &[Key], tos: u8, mask: u8) -> Vec<Vec<Key>> {
    let agrees = |mask: u8, wanted: u8| move |value: &u8| value & mask == wanted & mask;
    let ecns: Vec<Option<u8>> = match mask & 3 {
        0 => vec![None],
        ecn => (0..4).filter(agrees(ecn, tos)).map(Some).collect(),
    };
    let dscps: Vec<String> = match mask >> 2 {
        0 => Vec::new(),
        dscp => (0..64).filter(agrees(dscp, tos >> 2)).map(|dscp: u8| dscp.to_string()).collect(),
    };
    let dscp = match dscps.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    };
    let rule = |ecn: Option<u8>| {
        let mut keys = keys.to_vec();
        keys.extend(dscp.clone().map(|dscp| ("dscp", dscp)));
        keys.extend(ecn.map(|ecn| ("ecn", quoted(ECN[usize::from(ecn)]))));
        keys
    };
    ecns.into_iter().map(rule).collect()
}

enum Address {
    Any,
    Prefix(String),
    Holes,
}

fn prefix4(words: &mut Words, reading: &mut Reading) -> Option<Address> {
    let word = words.need("an address, or 0", reading)?;
    let Some(address) = address4(&word.text) else {
        bad_value(&word, "an IPv4 address, or 0", reading);
        return None;
    };
    let mut mask = if address == 0 { 0 } else { u32::MAX };
    if words.accept("netmask") {
        let masked = |text: &str| address4(text).or_else(|| number(text)?.try_into().ok());
        mask = words.value("a netmask", masked, reading)?;
    }
    let length = mask.leading_ones();
    Some(match length {
        _ if mask.count_ones() != length => Address::Holes,
        0 => Address::Any,
        _ => Address::Prefix(format!("{}/{length}", Ipv4Addr::from(address & mask))),
    })
}

fn address4(text: &str) -> Option<u32> {
    match text {
        "0" => Some(0),
        _ => text.parse::<Ipv4Addr>().ok().map(u32::from),
    }
}

fn prefix6(words: &mut Words, reading: &mut Reading) -> Option<Address> {
    let word = words.need("an IPv6 address, or ::0", reading)?;
    let (address, length) = match word.text.split_once('/') {
        Some((address, length)) => (address, number(length).filter(|length| *length <= 128)),
        None => (word.text.as_str(), Some(128)),
    };
    let address = if address == "0" { "::" } else { address };
    let (Ok(address), Some(length)) = (address.parse::<Ipv6Addr>(), length) else {
        bad_value(&word, "an IPv6 address with or without /LENGTH, or ::0", reading);
        return None;
    };
    if address.is_unspecified() || length == 0 {
        return Some(Address::Any);
    }
    let mask = u128::MAX.checked_shl(128 - length as u32).unwrap_or(0);
    let network = Ipv6Addr::from(u128::from(address) & mask);
    Some(Address::Prefix(format!("{network}/{length}")))
}

fn the_interface<'i>(
    words: &mut Words,
    known: &'i mut [Interface],
    reading: &mut Reading,
) -> Option<&'i mut Interface> {
    let word = words.need("the name of an interface", reading)?;
    match known.iter().position(|one| one.sketch.interface == word.text) {
        Some(index) => Some(&mut known[index]),
        None => {
            let names = known.iter().map(|one| one.sketch.interface.as_str());
            reading.undeclared((&word.text, word.span), "interface", names);
            None
        }
    }
}

fn finish(mut one: Interface, options: &Options, reading: &mut Reading) -> Option<Sketch> {
    if one.kind == Kind::None {
        if one.metered.is_empty() {
            return None;
        }
        let mut class = Class::new("all", None, one.line);
        class.default = true;
        class.rules = one.metered;
        one.sketch.classes.push(class);
    }
    one.sketch.rate_or(options, one.line, reading);
    if let Kind::Tree(discipline) = one.kind {
        if !one.classes.iter().any(|class| class.default) {
            let message = format!("no class of `{}` is the default", one.sketch.interface);
            let cure = "write `default` in one of its classes";
            reading.error(&codes::INCONSISTENT, one.sketch.span, message, cure);
            return None;
        }
        lower(discipline, one.classes, &mut one.sketch, reading);
    }
    Some(one.sketch)
}

/// Parses a rate in bit/s: `10M`, `128K`, `1000000`.
fn bits(text: &str) -> Option<u64> {
    with_letter(text, [1_000, 1_000_000, 1_000_000_000])
}

/// Parses a percentage, in millionths of a percent.
fn percent(text: &str) -> Option<u64> {
    let (millionths, rest) = decimal(text)?;
    (["", "%"].contains(&rest) && millionths <= 100_000_000).then_some(millionths)
}

fn part(whole: u64, percent: u64) -> u64 {
    (u128::from(whole) * u128::from(percent) / 100_000_000) as u64
}

fn priority(text: &str) -> Option<u64> {
    number(text).filter(|priority| *priority < 16)
}

fn port(text: &str) -> Option<u64> {
    number(text).filter(|port| *port <= 65_535)
}

fn protocol(text: &str) -> Option<u64> {
    let named = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("icmp6", 58)];
    let known = named.iter().find(|row| row.0 == text).map(|row| row.1);
    known.or_else(|| number(text)).filter(|protocol| *protocol < 256)
}

const COMMANDS: [&str; 7] =
    ["interface", "class", "filter", "filter6", "conditioner", "red", "rio"];
/// The parameters that statements `red` and `rio` set, in their order.
const RED: [&str; 3] = ["min", "max", "inv_pmax"];
const RIO: [&str; 9] = [
    "low_min",
    "low_max",
    "low_inv_pmax",
    "medium_min",
    "medium_max",
    "medium_inv_pmax",
    "high_min",
    "high_max",
    "high_inv_pmax",
];
/// Options of an interface with one early dropper, and the keys that they become.
const THRESHOLDS: [(&str, &str); 13] = [
    ("thmin", "min"),
    ("thmax", "max"),
    ("invpmax", "inv_pmax"),
    ("weight", "weight"),
    ("lo_thmin", "low_min"),
    ("lo_thmax", "low_max"),
    ("lo_invpmax", "low_inv_pmax"),
    ("med_thmin", "medium_min"),
    ("med_thmax", "medium_max"),
    ("med_invpmax", "medium_inv_pmax"),
    ("hi_thmin", "high_min"),
    ("hi_thmax", "high_max"),
    ("hi_invpmax", "high_inv_pmax"),
];
const DISCIPLINES: [&str; 3] = ["cbq", "hfsc", "priq"];
const HASHES: [&str; 3] = ["dstaddr", "full", "srcport"];
const INTERFACE_WORDS: [&str; 18] = [
    "bandwidth",
    "tbrsize",
    "cbq",
    "cbq-wrr",
    "cbq-prr",
    "hfsc",
    "priq",
    "wfq",
    "fifoq",
    "red",
    "rio",
    "blue",
    "jobs",
    "efficient",
    "nqueues",
    "qsize",
    "qlimit",
    "hash",
];
const CLASS_WORDS: [&str; 25] = [
    "bandwidth",
    "ulimit",
    "borrow",
    "default",
    "control",
    "priority",
    "pbandwidth",
    "exactbandwidth",
    "pshare",
    "grate",
    "[",
    "qlimit",
    "maxdelay",
    "maxburst",
    "minburst",
    "packetsize",
    "maxpacketsize",
    "maxidle",
    "minidle",
    "offtime",
    "red",
    "rio",
    "ecn",
    "flowvalve",
    "cleardscp",
];
const FILTER_WORDS: [&str; 6] = ["tos", "tosmask", "tclass", "tclassmask", "gpi", "flowlabel"];
/// The four values of the ECN field, as policies call them.
const ECN: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];
const A_RATE: &str = "a rate in bit/s such as 10M or 128K";
const A_PERCENTAGE: &str = "a percentage from 0 to 100";
const A_SIZE: &str = "a size in bytes";
/// Bound: interfaces of a file of ALTQ; further ones are reported as lost.
const INTERFACES_MAX: usize = 256;
/// Bound: classes of an interface of ALTQ; further ones are reported as lost.
const CLASSES_MAX: usize = 4095;
const CONTROL: &str = "ctl_class";
/// ALTQ's default packet size is the MTU of the interface.
const MTU: u64 = 1500;
