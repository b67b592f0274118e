//! Imports `altq.conf`: interfaces, classes, filters and conditioners [altq, algorithms §3.2, §10,
//! §11.1].
//!
//! Filters keep ALTQ's order: those for one destination first, then by `ruleno`, then the newest.

use super::altq_classes::{
    AltqClass, Curve, Discipline, Early, OPTIONS, bits, lower, part, percent,
};
use super::altq_meters::{self, Conditioner};
use super::conditions::{Addresses, Conditions, Ranges, Version, with_tos};
use super::lines::{LineId, Reading};
use super::options::Effect::{self, Flag, LeftOut, Number, Read};
use super::options::{A_NUMBER, A_PRIORITY, Kind, Table};
use super::sketch::{Class, Key, Order, Rule, Sketch, quoted};
use super::words::{Word, Words, bytes, number, split, within};
use super::{Language, Options};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_policy::codes;

pub(super) const LANGUAGE: Language =
    Language { name: "altq", summary: "an altq.conf of ALTQ's altqd", read };

/// The discipline of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queueing {
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
    queueing: Queueing,
    classes: Vec<AltqClass>,
    conditioners: Vec<Conditioner>,
    flows: Flows,
    /// The rules of an interface with conditioners only.
    metered: Vec<Rule>,
}

/// The contents of a file.
#[derive(Default)]
struct File {
    interfaces: Vec<Interface>,
    /// The thresholds of RED and RIO in what the file declares from here on.
    red: Vec<Key>,
    rio: Vec<Key>,
    /// The statement that is being read, and how many come before it: earlier filters of one
    /// number go first.
    line: LineId,
    position: usize,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut file = File::default();
    for (position, words) in statements(text).into_iter().enumerate() {
        let mut words = Words::new(words);
        (file.line, file.position) = (reading.line(words.span()), position);
        let line = file.line;
        // A statement with an error was reported.
        let _ = COMMANDS.take(&mut file, line, &mut words, reading);
    }
    file.interfaces.into_iter().filter_map(|one| finish(one, options, reading)).collect()
}

/// Reads `red MIN MAX INV_PMAX`, or `rio` with three times as many; 0 stands for the default.
fn thresholds(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let is_red = words.taken().text == "red";
    let mut keys = Vec::new();
    for (_, key) in if is_red { &THRESHOLDS[..3] } else { &THRESHOLDS[4..] } {
        let value = words.value("a number", number, reading)?;
        keys.extend((value > 0).then(|| (*key, value.to_string())));
    }
    *(if is_red { &mut file.red } else { &mut file.rio }) = keys;
    Some(())
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
fn interface(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let name = words.need("the name of an interface", reading)?;
    if file.interfaces.len() >= INTERFACES_MAX {
        reading.lost(file.line, format!("the file has more than {INTERFACES_MAX} interfaces"));
        return None;
    }
    if file.interfaces.iter().any(|one| one.sketch.interface == name.text) {
        let message = format!("interface `{}` is declared twice", name.text);
        reading.error(&codes::DECLARED_TWICE, name.span, message, "keep one of the two");
        return None;
    }
    let mut one = Interface {
        sketch: Sketch::new(&name.text, name.span),
        line: file.line,
        queueing: Queueing::None,
        classes: Vec::new(),
        conditioners: Vec::new(),
        flows: Flows::default(),
        metered: Vec::new(),
    };
    one.sketch.order = Order::Altq;
    while let Some(word) = words.peek() {
        let threshold = THRESHOLDS.iter().find(|row| row.0 == word);
        if let Some((_, key)) = threshold.filter(|_| one.flows.early != Early::No) {
            words.take();
            let value = words.value("a number", number, reading)?.max(1);
            one.flows.queue.push((key, value.to_string()));
            continue;
        }
        INTERFACE.take(&mut one, file.line, words, reading)?;
    }
    std::mem::take(&mut one.flows).give_to(file, &mut one);
    file.interfaces.push(one);
    Some(())
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
    /// One queue with this dropper.
    fn single(&mut self, dropper: &str, early: Early) {
        self.scheduler = Some("fifo");
        self.queue = vec![("dropper", quoted(dropper))];
        self.early = early;
    }

    fn give_to(mut self, file: &File, one: &mut Interface) {
        let Some(scheduler) = self.scheduler else { return };
        for key in file.thresholds(self.early) {
            if self.queue.iter().all(|(name, _)| *name != key.0) {
                self.queue.push(key);
            }
        }
        one.queueing = Queueing::Single;
        one.sketch.scheduler = scheduler;
        let mut class = Class::new("all", None, one.line);
        class.default = true;
        class.queue = self.queue;
        if scheduler == "altq-wfq" {
            let hash = self.hash.as_deref().unwrap_or("dstaddr");
            class.name = "flows".to_owned();
            class.leaf_keys =
                vec![("hash", quoted(hash)), ("queues", self.queues.unwrap_or(256).to_string())];
            let size = self.size.unwrap_or(64 << 10).max(1500);
            class.queue =
                vec![("dropper", quoted("longest")), ("limit", quoted(&format!("{size} B")))];
        } else if let Some(limit) = self.limit {
            class.queue.push(("limit", quoted(&format!("{} packets", limit.max(1)))));
        }
        one.sketch.classes.push(class);
    }
}

impl File {
    fn thresholds(&self, early: Early) -> Vec<Key> {
        match early {
            Early::Red => self.red.clone(),
            Early::Rio => self.rio.clone(),
            _ => Vec::new(),
        }
    }
}

fn tree(one: &mut Interface, words: &mut Words, _: &mut Reading) -> Option<()> {
    one.queueing = Queueing::Tree(match words.taken().text.as_str() {
        "hfsc" => Discipline::Hfsc,
        "priq" => Discipline::Priq,
        _ => Discipline::Cbq,
    });
    let general = (words.taken().text == "cbq-prr").then(|| ("general", quoted("prr")));
    one.sketch.parameters.extend(general);
    Some(())
}

fn jobs(one: &mut Interface, _: &mut Words, reading: &mut Reading) -> Option<()> {
    let why = "Weir has no joint buffer management and scheduling, so the interface is left out";
    reading.lost(one.line, why);
    one.queueing = Queueing::None;
    Some(())
}

fn hash(one: &mut Interface, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let hash = words.need("`dstaddr`, `full` or `srcport`", reading)?;
    if !HASHES.contains(&hash.text.as_str()) {
        reading.unknown((&hash.text, hash.span), "hash", &HASHES);
        return None;
    }
    one.flows.hash = Some(hash.text);
    Some(())
}

/// `class DISCIPLINE INTERFACE NAME PARENT OPTIONS`.
fn class(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let line = file.line;
    let kind = words.need("a discipline", reading)?;
    if !DISCIPLINES.contains(&kind.text.as_str()) {
        reading.unknown((&kind.text, kind.span), "discipline with classes", &DISCIPLINES);
        return None;
    }
    let at = the_interface(words, &file.interfaces, reading)?;
    let one = &file.interfaces[at];
    let Queueing::Tree(discipline) = one.queueing else {
        reading.lost(line, "its interface has no discipline with classes that Weir has");
        return None;
    };
    let name = words.need("the name of a class", reading)?;
    if one.classes.len() >= CLASSES_MAX {
        reading.lost(line, format!("`{}` has more than {CLASSES_MAX} classes", name.text));
        return None;
    }
    if one.classes.iter().any(|other| other.name == name.text) {
        let message = format!("class `{}` is declared twice", name.text);
        reading.error(&codes::DECLARED_TWICE, name.span, message, "rename one of them");
        return None;
    }
    let mut class = AltqClass::new(&name.text, None, line);
    let parent = words.need("the parent's name, or NULL", reading)?;
    let top = ["NULL", "null"].contains(&parent.text.as_str())
        || discipline != Discipline::Cbq && parent.text == "root";
    if !top {
        class.parent = one.classes.iter().position(|other| other.name == parent.text);
        if class.parent.is_none() {
            let names = one.classes.iter().map(|other| other.name.as_str());
            reading.undeclared((&parent.text, parent.span), "class", names);
            return None;
        }
    }
    class.link = one.sketch.rate;
    CLASS.take_all(&mut class, line, words, reading)?;
    class.thresholds = file.thresholds(class.early);
    add_class(&mut file.interfaces[at], class, discipline, reading);
    Some(())
}

/// `[KIND M1 D M2]`, behind its bracket.
fn curve(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let kind = words.need("`sc`, `rt`, `ls` or `ul`", reading)?;
    let m1 = words.value(A_RATE.0, bits, reading)?;
    let d = words.value("milliseconds", number, reading)?;
    let m2 = words.value(A_RATE.0, bits, reading)?;
    let curve = Some(Curve { m1, d, m2 });
    match kind.text.as_str() {
        "sc" => class.guarantee(curve),
        "rt" => class.real_time = curve,
        "ls" => class.link_share = curve,
        "ul" => class.upper_limit = curve,
        other => {
            reading.unknown((other, kind.span), "service curve", &["sc", "rt", "ls", "ul"]);
            return None;
        }
    }
    words.expect("]", reading)
}

impl AltqClass {
    /// Its share, which is guaranteed.
    fn guarantee(&mut self, curve: Option<Curve>) {
        (self.real_time, self.link_share) = (curve, curve);
    }
}

/// A curve of one slope.
#[expect(clippy::unnecessary_wraps, reason = "a class may have none")]
fn line(rate: u64) -> Option<Curve> {
    Some(Curve::straight(rate))
}

fn flowvalve(class: &mut AltqClass, _: &mut Words, reading: &mut Reading) -> Option<()> {
    class.early = Early::Red;
    reading.approximated(class.line, "`flowvalve` is left out: Weir has no such filter");
    Some(())
}

fn admission(class: &mut AltqClass, words: &mut Words, reading: &mut Reading) -> Option<()> {
    if words.need("`none` or `cntlload`", reading)?.text != "none" {
        let note = "`admission` is left out: Weir has no admission control";
        reading.approximated(class.line, note);
    }
    Some(())
}

fn add_class(
    one: &mut Interface,
    mut class: AltqClass,
    discipline: Discipline,
    reading: &mut Reading,
) {
    let cbq = discipline == Discipline::Cbq;
    let of_delay = |delay: u64| {
        // [algorithms §3.3] For as many packets of the average size as take the delay at the rate.
        let bits = u128::from(class.bandwidth) * u128::from(delay) / 1000;
        let packets = bits / (8 * u128::from(class.packet_bytes()));
        u64::try_from(packets).unwrap_or(u64::MAX).clamp(4, 1 << 20)
    };
    let delay = class.delay.filter(|delay| *delay > 0);
    class.limit = class.limit.or(delay.map(of_delay)).or(match class.early {
        _ if !cbq => None,
        Early::No => Some(30),
        _ => Some(60),
    });
    class.control |= class.name == CONTROL;
    if class.control && cbq {
        class.rules.extend(control_rules());
    }
    let controlled = class.control || one.classes.iter().any(|class| class.control);
    if class.default && cbq && !controlled {
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
    control.limit = Some(30);
    control.control = true;
    control.rules = control_rules();
    default.bandwidth = default.bandwidth.saturating_sub(rate);
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
fn conditioner(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let at = the_interface(words, &file.interfaces, reading)?;
    let name = words.need("the name of a conditioner", reading)?.text;
    let action = altq_meters::action(words, reading)?;
    let one = &mut file.interfaces[at];
    if one.queueing != Queueing::None {
        let why = "conditioners act on arriving packets, and this policy is for departing ones: \
                   write `police` in the policy of the other direction";
        reading.lost(file.line, why);
    } else if altq_meters::police(&action).is_err() {
        let why = "only one meter, or two token buckets in a row, can be written as `police`";
        reading.lost(file.line, why);
    }
    one.conditioners.push(Conditioner { name, action });
    Some(())
}

/// A filter whose line is being read.
struct Filter {
    line: LineId,
    tos: u64,
    mask: u64,
    /// Whether Weir's rules can say it.
    is_expressible: bool,
}

impl Filter {
    fn lose(&mut self, why: &str, reading: &mut Reading) {
        reading.lost(self.line, why);
        self.is_expressible = false;
    }
}

/// `filter INTERFACE CLASS [name N] [ruleno N] DST [netmask M] DPORT SRC [netmask M] SPORT PROTO
/// [tos V [tosmask M]] [gpi V]`, and `filter6` with prefixes.
fn filter(file: &mut File, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let is_six = words.taken().text == "filter6";
    let at = the_interface(words, &file.interfaces, reading)?;
    let class = words.need("the name of a class", reading)?;
    let (mut filter, mut ruleno) =
        (Filter { line: file.line, tos: 0, mask: 0xff, is_expressible: true }, 0);
    loop {
        if words.accept("name") {
            words.need("the filter's name", reading)?;
        } else if words.accept("ruleno") {
            ruleno = words.value("a rule number", within::<0, { i32::MAX as u64 }>, reading)?;
        } else {
            break;
        }
    }
    let rules = conditions(&mut filter, is_six, words, reading)?;
    let rules = if filter.is_expressible { rules } else { Vec::new() };
    let rank = (ruleno << 32) | file.position as u64;
    let rules = rules.into_iter().map(|keys| Rule { keys, rank });
    let one = &mut file.interfaces[at];
    if let Some(found) = one.classes.iter_mut().find(|one| one.name == class.text) {
        found.rules.extend(rules);
        return Some(());
    }
    let Some(found) = one.conditioners.iter().find(|one| one.name == class.text) else {
        let names = one.classes.iter().map(|one| one.name.as_str());
        let names = names.chain(one.conditioners.iter().map(|one| one.name.as_str()));
        reading.undeclared((&class.text, class.span), "class", names);
        return None;
    };
    match altq_meters::police(&found.action) {
        Ok(police) if one.queueing == Queueing::None => {
            one.metered.extend(rules.map(|mut rule| {
                rule.keys.extend(police.clone().map(|police| ("police", police)));
                rule
            }))
        }
        _ => reading.lost(file.line, "its conditioner is lost"),
    }
    Some(())
}

/// Reads a field of which Weir's rules know only that it is not compared.
fn other_field(filter: &mut Filter, words: &mut Words, reading: &mut Reading) -> Option<()> {
    let why = format!("Weir's rules cannot match `{}`", words.taken().text);
    if words.value("a number", number, reading)? > 0 {
        filter.lose(&why, reading);
    }
    Some(())
}

/// Returns the rules of a filter.
fn conditions(
    filter: &mut Filter,
    is_six: bool,
    words: &mut Words,
    reading: &mut Reading,
) -> Option<Vec<Vec<Key>>> {
    let one = |number: u64| (number > 0).then(|| Ranges::of([(number.into(), number.into())]));
    let (version, prefix) = match is_six {
        true => (Version::Six, prefix6 as Prefix),
        false => (Version::Four, prefix4 as Prefix),
    };
    let mut found = Conditions { version: Some(version), ..Conditions::default() };
    found.destinations = prefix(filter, words, reading)?;
    found.destination_ports =
        one(words.value("a destination port", within::<0, 65_535>, reading)?);
    found.sources = prefix(filter, words, reading)?;
    found.source_ports = one(words.value("a source port", within::<0, 65_535>, reading)?);
    found.protocols = one(words.value("a protocol's number", protocol, reading)?);
    FILTER.take_all(filter, filter.line, words, reading)?;
    let (tos, mask) = (filter.tos as u8, filter.mask as u8);
    Some(match tos {
        0 => found.rules(),
        _ => found.rules().iter().flat_map(|keys| with_tos(keys, tos, mask)).collect(),
    })
}

/// Reads an address with its mask, if it has one; an inner `None` is any.
type Prefix = fn(&mut Filter, &mut Words, &mut Reading) -> Option<Option<Addresses>>;

#[expect(clippy::option_option, reason = "any address is not an error")]
fn prefix4(
    filter: &mut Filter,
    words: &mut Words,
    reading: &mut Reading,
) -> Option<Option<Addresses>> {
    let address = words.value("an IPv4 address, or 0", address4, reading)?;
    let mut mask = if address == 0 { 0 } else { u32::MAX };
    if words.accept("netmask") {
        let masked = |text: &str| address4(text).or_else(|| number(text)?.try_into().ok());
        mask = words.value("a netmask", masked, reading)?;
    }
    let length = mask.leading_ones();
    if mask.count_ones() != length {
        filter.lose("a netmask with holes is not a prefix", reading);
    }
    let network = || Addresses::network(Ipv4Addr::from(address).into(), length.into());
    Some((length > 0).then(network).flatten())
}

fn address4(text: &str) -> Option<u32> {
    match text {
        "0" => Some(0),
        _ => text.parse::<Ipv4Addr>().ok().map(u32::from),
    }
}

#[expect(clippy::option_option, reason = "any address is not an error")]
fn prefix6(_: &mut Filter, words: &mut Words, reading: &mut Reading) -> Option<Option<Addresses>> {
    let parse = |text: &str| {
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        let address: Ipv6Addr = if address == "0" { "::" } else { address }.parse().ok()?;
        Some((address, number(length).filter(|length| *length <= 128)?))
    };
    let what = "an IPv6 address with or without /LENGTH, or ::0";
    let (address, length) = words.value(what, parse, reading)?;
    let is_any = address.is_unspecified() || length == 0;
    Some((!is_any).then(|| Addresses::network(address.into(), length)).flatten())
}

fn the_interface(words: &mut Words, known: &[Interface], reading: &mut Reading) -> Option<usize> {
    let word = words.need("the name of an interface", reading)?;
    let found = known.iter().position(|one| one.sketch.interface == word.text);
    if found.is_none() {
        let names = known.iter().map(|one| one.sketch.interface.as_str());
        reading.undeclared((&word.text, word.span), "interface", names);
    }
    found
}

fn finish(mut one: Interface, options: &Options, reading: &mut Reading) -> Option<Sketch> {
    if one.queueing == Queueing::None {
        if one.metered.is_empty() {
            return None;
        }
        let mut class = Class::new("all", None, one.line);
        class.default = true;
        class.rules = one.metered;
        one.sketch.classes.push(class);
    }
    one.sketch.rate_or(options, one.line, reading);
    if let Queueing::Tree(discipline) = one.queueing {
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

fn protocol(text: &str) -> Option<u64> {
    let named = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("icmp6", 58)];
    let known = named.iter().find(|row| row.0 == text).map(|row| row.1);
    known.or_else(|| number(text)).filter(|protocol| *protocol < 256)
}

const COMMANDS: Table<File> = Table {
    noun: "command",
    lists: &[&[
        ("interface", Read(interface)),
        ("class", Read(class)),
        ("filter filter6", Read(filter)),
        ("conditioner", Read(conditioner)),
        ("red rio", Read(thresholds)),
    ]],
};
/// Options of an interface with one early dropper, and the keys that they become: of RED, and of
/// the three of RIO.
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
const INTERFACE: Table<Interface> = Table {
    noun: "option of an interface",
    lists: &[&[
        ("bandwidth", Number(A_RATE, |one, rate| one.sketch.rate = rate)),
        ("tbrsize", LeftOut(Some(BYTES), "is left out: the link paces each packet")),
        ("cbq cbq-wrr cbq-prr hfsc priq", Read(tree)),
        ("wfq", Flag(|one| one.flows.scheduler = Some("altq-wfq"))),
        ("fifoq", Flag(|one| one.flows.scheduler = Some("fifo"))),
        ("red", Flag(|one| one.flows.single("red-altq", Early::Red))),
        ("rio", Flag(|one| one.flows.single("rio", Early::Rio))),
        ("blue", Flag(|one| one.flows.single("blue", Early::No))),
        ("jobs", Read(jobs)),
        ("efficient", Flag(|one| one.sketch.parameters.push(("efficient", "true".to_owned())))),
        ("nqueues", Number(QUEUES, |one, queues| one.flows.queues = Some(queues))),
        ("qsize", Number(BYTES, |one, size| one.flows.size = Some(size))),
        ("qlimit", Number(PACKETS, |one, limit| one.flows.limit = Some(limit))),
        ("hash", Read(hash)),
        ("ecn", Flag(|one| one.flows.queue.push(("ecn", "true".to_owned())))),
        ("cleardscp flowvalve", LeftOut(None, "is left out: Weir has no such step")),
        ("thmin thmax weight invpmax maxpmark holdtime packetsize pkttime separate", DEFAULT),
    ]],
};
const DEFAULT: Effect<Interface> = LeftOut(Some(A_NUMBER), "is left at its default");
const CLASS: Table<AltqClass> = Table {
    noun: "option of a class",
    lists: &[
        OPTIONS,
        &[
            ("ecn", Flag(|class| (class.early, class.ecn) = (Early::Red, true))),
            ("flowvalve", Read(flowvalve)),
            ("admission", Read(admission)),
            ("priority", Number(A_PRIORITY, |class, priority| class.priority = Some(priority))),
            ("pbandwidth", Number(PERCENT, |class, of| class.bandwidth = part(class.link, of))),
            ("exactbandwidth", Number(A_RATE, |class, rate| class.bandwidth = rate)),
            ("pshare", Number(PERCENT, |class, of| class.link_share = line(part(class.link, of)))),
            ("bandwidth", Number(A_RATE, |class, rate| class.guarantee(line(rate)))),
            ("ulimit", Number(A_RATE, |class, rate| class.upper_limit = line(rate))),
            ("grate", Number(A_RATE, |class, rate| class.real_time = line(rate))),
            ("[", Read(curve)),
            ("qlimit", Number(PACKETS, |class, limit| class.limit = Some(limit))),
            ("maxdelay", Number(MILLISECONDS, |class, delay| class.delay = Some(delay))),
            ("maxburst", Number(PACKETS, |class, packets| class.burst = Some(packets))),
            ("packetsize", Number(A_SIZE, |class, bytes| class.packet_size = Some(bytes))),
            ("maxidle minidle offtime", LeftOut(Some(A_VALUE), OF_CBQ_ALTQ)),
        ],
    ],
};
const OF_CBQ_ALTQ: &str = "is left out: the number is one of `cbq-altq`; Weir's class-based \
                           queueing has no such limit";
const FILTER: Table<Filter> = Table {
    noun: "condition of a filter",
    lists: &[&[
        ("tos tclass", Number(A_BYTE, |filter, tos| filter.tos = tos)),
        ("tosmask tclassmask", Number(A_BYTE, |filter, mask| filter.mask = mask)),
        ("dontwarn", Flag(|_| ())),
        ("gpi flowlabel", Read(other_field)),
    ]],
};
const DISCIPLINES: [&str; 3] = ["cbq", "hfsc", "priq"];
const HASHES: [&str; 3] = ["dstaddr", "full", "srcport"];
const A_RATE: Kind = ("a rate in bit/s such as 10M or 128K", bits);
const PERCENT: Kind =
    ("a percentage from 0 to 100", |text| percent(text.strip_suffix('%').unwrap_or(text)));
const A_SIZE: Kind = ("a size in bytes", number);
const BYTES: Kind = ("a size such as 64K", bytes);
const A_BYTE: Kind = ("a byte", within::<0, 255>);
const A_VALUE: Kind = ("a number", |_| Some(0));
const MILLISECONDS: Kind = ("milliseconds", number);
const PACKETS: Kind = ("a number of packets", number);
const QUEUES: Kind = ("a number of queues", number);
/// Bound: interfaces of a file of ALTQ; further ones are reported as lost.
const INTERFACES_MAX: usize = 256;
/// Bound: classes of an interface of ALTQ; further ones are reported as lost.
const CLASSES_MAX: usize = 4095;
const CONTROL: &str = "ctl_class";
