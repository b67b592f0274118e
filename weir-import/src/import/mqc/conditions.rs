//! Class-maps and access lists as conditions.

use super::super::conditions::{Addresses, Conditions, Ranges, Version};
use super::super::lines::{LineId, Reading};
use super::super::words::{Words, number};
use super::File;
use std::net::{IpAddr, Ipv4Addr};

/// Conditions of which a packet has to meet one.
pub(super) type Rules = Vec<Conditions>;

/// The conditions that a packet of a class meets, all or one of them.
#[derive(Default)]
pub(super) struct ClassMap {
    /// Whether one condition is enough.
    pub any: bool,
    conditions: Vec<(LineId, Condition)>,
}

enum Condition {
    Rules(Rules),
    /// The entries of an access list.
    List(String),
    Map(String),
    Not(Box<Condition>),
    /// Weir has no such condition.
    Lost,
}

/// An access list: the packets that each entry permits or denies; the first entry that a packet
/// meets decides.
#[derive(Default)]
pub(super) struct AccessList {
    entries: Vec<(bool, Conditions)>,
}

impl ClassMap {
    /// Reads the words behind `match`.
    pub(super) fn condition(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        let condition = condition(words, line, reading).unwrap_or(Condition::Lost);
        self.conditions.push((line, condition));
    }
}

fn condition(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Condition> {
    if words.accept("not") {
        return condition(words, line, reading).map(|one| match one {
            Condition::Lost => Condition::Lost,
            one => Condition::Not(Box::new(one)),
        });
    }
    let first = words.need("a condition", reading)?;
    let mut field = first.text.as_str();
    let next = if field == "ip" || field == "ipv6" { words.take() } else { None };
    if let Some(next) = &next {
        field = next.text.as_str();
    }
    let rest: Vec<String> = words.rest().iter().map(|word| word.text.to_lowercase()).collect();
    let lost = |why: &str, reading: &mut Reading| {
        reading.lost(line, why);
        Some(Condition::Lost)
    };
    let one = |conditions| Some(Condition::Rules(vec![conditions]));
    let dscps = |codes: Option<Vec<u8>>| one(of_dscps(codes?));
    let found = match field {
        "any" => one(Conditions::default()),
        "dscp" => dscps(rest.iter().map(|text| dscp(text)).collect()),
        "precedence" => {
            dscps(rest.iter().map(|text| precedence(text)).try_fold(Vec::new(), |mut all, one| {
                all.extend(one?);
                Some(all)
            }))
        }
        "access-group" => {
            let name = words.rest().last()?.text.clone();
            Some(Condition::List(name))
        }
        "class-map" => Some(Condition::Map(words.rest().last()?.text.clone())),
        "vlan" => {
            let vlan = number(rest.first()?).filter(|vlan| *vlan < 4095)?;
            one(Conditions { vlans: single(vlan), ..Conditions::default() })
        }
        "protocol" => {
            let row = PROTOCOLS.iter().find(|row| row.0 == rest.first().map_or("", |text| text));
            let Some(&(name, version, protocol, port)) = row else {
                return lost("Weir does not look into packets for an application", reading);
            };
            if port.is_some() {
                let note = format!("`{name}` is known by its port here, not by what it sends");
                reading.approximated(line, note);
            }
            one(Conditions {
                version,
                protocols: protocol.and_then(single),
                destination_ports: port.and_then(single),
                ..Conditions::default()
            })
        }
        "rtp" => {
            let first = number(rest.first()?)?;
            let last = first.checked_add(number(rest.get(1)?)?)?.min(65_535);
            reading.approximated(line, "odd ports of the range match, too");
            let destination_ports = Some(Ranges::of([(first.into(), last.into())]));
            one(Conditions { protocols: single(17), destination_ports, ..Conditions::default() })
        }
        _ => return lost(&format!("Weir's rules cannot match `{field}`"), reading),
    };
    found.or_else(|| {
        reading.lost(line, "its values are not known here");
        Some(Condition::Lost)
    })
}

impl AccessList {
    /// Reads `permit | deny PROTOCOL SOURCE [PORTS] DESTINATION [PORTS] [dscp D]`, or a standard
    /// entry.
    pub(super) fn entry(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        match words.take().map_or_else(String::new, |word| word.text).as_str() {
            "remark" | "description" => {}
            action @ ("permit" | "deny") => match entry(words) {
                Some(conditions) => self.entries.push((action == "permit", conditions)),
                None => reading.lost(line, "Weir's rules cannot match a part of it"),
            },
            _ => reading.lost(line, "it is no entry of an access list"),
        }
    }

    /// Returns what its entries permit.
    fn rules(&self) -> Rules {
        let (mut rules, mut denied) = (Rules::new(), Rules::new());
        for (permits, conditions) in &self.entries {
            match permits {
                true => rules.extend(without(vec![conditions.clone()], &denied)),
                false => denied.push(conditions.clone()),
            }
        }
        rules.truncate(RULES_MAX + 1);
        rules
    }
}

/// Reads an entry behind `permit` or `deny`.
fn entry(words: &mut Words) -> Option<Conditions> {
    let mut found = Conditions::default();
    let first = words.peek()?;
    let protocol = TRANSPORTS.iter().find(|row| row.0 == first).map(|row| row.1);
    let protocol = protocol.or_else(|| number(first).map(Some).filter(|one| *one < Some(256)));
    let is_standard = protocol.is_none();
    if let Some(protocol) = protocol {
        words.take();
        found.protocols = protocol.and_then(single);
    }
    (found.sources, found.source_ports) = (prefix(words)?, ports(words)?);
    if !is_standard {
        (found.destinations, found.destination_ports) = (prefix(words)?, ports(words)?);
    }
    while let Some(word) = words.take() {
        let value = match word.text.as_str() {
            "log" | "log-input" => continue,
            "dscp" => vec![dscp(&words.take()?.text.to_lowercase())?],
            "precedence" => precedence(&words.take()?.text.to_lowercase())?,
            _ => return None,
        };
        found.dscps = of_dscps(value).dscps;
    }
    Some(found)
}

/// Conditions of packets with one of these DSCPs.
fn of_dscps(codes: Vec<u8>) -> Conditions {
    let codes = codes.into_iter().map(|code| (code.into(), code.into()));
    Conditions { dscps: Some(Ranges::of(codes)), ..Conditions::default() }
}

/// A range of one number.
fn single(number: u64) -> Option<Ranges> {
    Some(Ranges::of([(number.into(), number.into())]))
}

/// Reads `any`, `host A`, `A WILDCARD` or `A/LENGTH`; an inner `None` is any.
#[expect(clippy::option_option, reason = "any address is not an error")]
fn prefix(words: &mut Words) -> Option<Option<Addresses>> {
    let word = words.take()?.text;
    if word == "any" {
        return Some(None);
    }
    if word == "host" {
        let host: IpAddr = words.take()?.text.parse().ok()?;
        return Some(Addresses::between(host, host));
    }
    if let Some((host, length)) = word.split_once('/') {
        let length = number(length)?;
        return Addresses::network(host.parse().ok()?, length)
            .map(|all| (length > 0).then_some(all));
    }
    let address: Ipv4Addr = word.parse().ok()?;
    let wildcard = words.peek().and_then(|word| word.parse::<Ipv4Addr>().ok());
    let mask = !u32::from(wildcard.unwrap_or(Ipv4Addr::UNSPECIFIED));
    if wildcard.is_some() {
        words.take();
    }
    let length = mask.leading_ones();
    if mask.count_ones() != length {
        return None;
    }
    let all = Addresses::network(address.into(), length.into())?;
    Some((length > 0).then_some(all))
}

/// Reads `eq P ...`, `neq P`, `range P P`, `gt P` or `lt P`; an inner `None` is any port.
#[expect(clippy::option_option, reason = "any port is not an error")]
fn ports(words: &mut Words) -> Option<Option<Ranges>> {
    let word = words.peek().unwrap_or_default().to_owned();
    if !["eq", "neq", "range", "gt", "lt"].contains(&word.as_str()) {
        return Some(None);
    }
    words.take();
    let first = u128::from(port(&words.take()?.text)?);
    let mut all = vec![match word.as_str() {
        "range" => (first, port(&words.take()?.text)?.into()),
        "gt" => (first + 1, 65_535),
        "lt" => (0, first.checked_sub(1)?),
        _ => (first, first),
    }];
    while let Some(next) = words.peek().and_then(port).filter(|_| word.ends_with("eq")) {
        words.take();
        all.push((next.into(), next.into()));
    }
    let all = Ranges::of(all);
    Some(Some(if word == "neq" { all.not(65_535) } else { all }))
}

fn port(text: &str) -> Option<u16> {
    let named = PORTS.iter().find(|row| row.0 == text).map(|row| row.1);
    named.or_else(|| text.parse().ok())
}

/// Parses a DSCP by its name or number.
fn dscp(text: &str) -> Option<u8> {
    let digit = |text: &str| text.parse::<u8>().ok();
    if let Some(class) = text.strip_prefix("cs").and_then(digit) {
        return (class < 8).then_some(class * 8);
    }
    if let Some(number) = text.strip_prefix("af").and_then(digit) {
        let (class, drop) = (number / 10, number % 10);
        return ((1..5).contains(&class) && (1..4).contains(&drop)).then_some(class * 8 + drop * 2);
    }
    match text {
        "ef" => Some(46),
        "default" | "be" => Some(0),
        _ => digit(text).filter(|number| *number < 64),
    }
}

/// Returns the DSCPs of an IP precedence.
fn precedence(text: &str) -> Option<Vec<u8>> {
    let named = PRECEDENCES.iter().position(|name| *name == text);
    let number = named.map(|at| at as u8).or_else(|| text.parse().ok()).filter(|at| *at < 8)?;
    Some((number * 8..number * 8 + 8).collect())
}

/// Returns the rules of a class-map of this name; none if a part of it that counts is lost.
pub(super) fn rules(file: &File, name: &str, depth: usize, reading: &mut Reading) -> Option<Rules> {
    let map = file.class_maps.get(name).filter(|_| depth < DEPTH_MAX)?;
    let any = || vec![Conditions::default()];
    let mut all: Option<Rules> = Some(if map.any { Vec::new() } else { any() });
    for (line, condition) in &map.conditions {
        let one = condition.rules(file, (*line, depth), reading);
        all = match (all, one, map.any) {
            (Some(all), Some(one), true) => Some([all, one].concat()),
            (all, None, true) => all,
            (Some(all), Some(one), false) => Some(both(&all, &one)),
            (_, _, false) | (None, _, true) => None,
        };
    }
    all.filter(|rules| rules.len() <= RULES_MAX)
}

impl Condition {
    /// Returns the rules of the packets that it means; none if Weir cannot match them.
    fn rules(
        &self,
        file: &File,
        (line, depth): (LineId, usize),
        reading: &mut Reading,
    ) -> Option<Rules> {
        match self {
            Condition::Rules(rules) => Some(rules.clone()),
            Condition::Lost => None,
            Condition::Map(name) => rules(file, name, depth + 1, reading),
            Condition::List(name) => {
                let list = file.lists.get(name);
                if list.is_none() {
                    reading.lost(line, format!("the file has no access list `{name}`"));
                }
                list.map(AccessList::rules)
            }
            Condition::Not(one) => {
                let others = one.rules(file, (line, depth), reading)?;
                if others.iter().any(|one| one.vlans.is_some()) {
                    reading.lost(line, "Weir's rules take one VLAN, and no list of others");
                    return None;
                }
                Some(without(vec![Conditions::default()], &others))
            }
        }
    }
}

/// Returns the rules of packets that match a rule of each list.
pub(super) fn both(one: &Rules, two: &Rules) -> Rules {
    let pairs = one.iter().flat_map(|one| two.iter().map(move |two| (one, two)));
    pairs.filter_map(|(one, two)| one.and(two)).take(RULES_MAX + 1).collect()
}

/// Returns the rules of packets that match one of `rules` and none of `others`.
fn without(rules: Rules, others: &Rules) -> Rules {
    let leave = |rest: Rules, other: &Conditions| {
        rest.iter().flat_map(|one| one.without(other)).take(RULES_MAX + 1).collect()
    };
    others.iter().fold(rules, leave)
}

/// Bound: class-maps inside one another; deeper ones match nothing.
const DEPTH_MAX: usize = 16;
/// Bound: rules of a class; a class with more is lost.
const RULES_MAX: usize = 4096;
/// A protocol that `match protocol` names: its ethertype, number and port.
type Named = (&'static str, Option<Version>, Option<u64>, Option<u64>);

const PROTOCOLS: [Named; 14] = [
    ("ip", Some(Version::Four), None, None),
    ("ipv6", Some(Version::Six), None, None),
    ("arp", Some(Version::Arp), None, None),
    ("icmp", None, Some(1), None),
    ("tcp", None, Some(6), None),
    ("udp", None, Some(17), None),
    ("http", None, Some(6), Some(80)),
    ("secure-http", None, Some(6), Some(443)),
    ("dns", None, Some(17), Some(53)),
    ("ssh", None, Some(6), Some(22)),
    ("telnet", None, Some(6), Some(23)),
    ("smtp", None, Some(6), Some(25)),
    ("ntp", None, Some(17), Some(123)),
    ("sip", None, Some(17), Some(5060)),
];
/// Protocols of an access list; `ip` is any.
const TRANSPORTS: [(&str, Option<u64>); 9] = [
    ("ip", None),
    ("ipv6", None),
    ("icmp", Some(1)),
    ("igmp", Some(2)),
    ("tcp", Some(6)),
    ("udp", Some(17)),
    ("gre", Some(47)),
    ("esp", Some(50)),
    ("ospf", Some(89)),
];
/// Ports that an access list calls by name.
const PORTS: [(&str, u16); 16] = [
    ("ftp-data", 20),
    ("ftp", 21),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("www", 80),
    ("pop3", 110),
    ("ntp", 123),
    ("snmp", 161),
    ("bgp", 179),
    ("isakmp", 500),
    ("syslog", 514),
    ("non500-isakmp", 4500),
];
const PRECEDENCES: [&str; 8] = [
    "routine",
    "priority",
    "immediate",
    "flash",
    "flash-override",
    "critical",
    "internet",
    "network",
];
