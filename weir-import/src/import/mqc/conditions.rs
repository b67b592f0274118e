//! Class-maps and access lists as rules of a policy.

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted};
use super::super::words::{Words, number};
use super::File;
use std::net::{IpAddr, Ipv4Addr};

/// Rules of which a packet has to match one.
pub(super) type Rules = Vec<Vec<Key>>;

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
    /// Weir has no such condition.
    Lost,
}

/// An access list: the rules of its permits.
#[derive(Default)]
pub(super) struct AccessList {
    rules: Rules,
}

impl ClassMap {
    /// Reads the words behind `match`.
    pub(super) fn condition(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        let condition = condition(words, line, reading).unwrap_or(Condition::Lost);
        self.conditions.push((line, condition));
    }
}

fn condition(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Condition> {
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
    let dscps = |codes: Option<Vec<u8>>| {
        let codes: Vec<String> = codes?.iter().map(u8::to_string).collect();
        Some(Condition::Rules(vec![vec![("dscp", format!("[{}]", codes.join(", ")))]]))
    };
    let found = match field {
        "any" => Some(Condition::Rules(vec![Vec::new()])),
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
            Some(Condition::Rules(vec![vec![("vlan", vlan.to_string())]]))
        }
        "protocol" => {
            let row = PROTOCOLS.iter().find(|row| row.0 == rest.first().map_or("", |text| text));
            let Some((name, keys)) = row else {
                return lost("Weir does not look into packets for an application", reading);
            };
            if keys.iter().any(|key| key.0 == "dport") {
                let note = format!("`{name}` is known by its port here, not by what it sends");
                reading.approximated(line, note);
            }
            let key = |row: &(&'static str, &str)| (row.0, row.1.to_owned());
            Some(Condition::Rules(vec![keys.iter().map(key).collect()]))
        }
        "rtp" => {
            let first = number(rest.first()?)?;
            let last = first.checked_add(number(rest.get(1)?)?)?.min(65_535);
            let range = quoted(&format!("{first}-{last}"));
            reading.approximated(line, "odd ports of the range match, too");
            let keys = vec![("proto", "17".to_owned()), ("dport", range)];
            Some(Condition::Rules(vec![keys]))
        }
        "not" => return lost("Weir's rules have no `not`", reading),
        _ => return lost(&format!("Weir's rules cannot match `{field}`"), reading),
    };
    found.or_else(|| {
        reading.lost(line, "its values are not known here");
        Some(Condition::Lost)
    })
}

impl AccessList {
    /// Reads `permit PROTOCOL SOURCE [PORTS] DESTINATION [PORTS] [dscp D]`, or a standard entry.
    pub(super) fn entry(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) {
        match words.take().map_or_else(String::new, |word| word.text).as_str() {
            "remark" | "description" => {}
            "permit" => match permit(words) {
                Some(keys) => self.rules.push(keys),
                None => reading.lost(line, "Weir's rules cannot match a part of it"),
            },
            "deny" => {
                let why = "Weir's rules have no `deny`: what it takes out of the list stays in it";
                reading.lost(line, why);
            }
            _ => reading.lost(line, "it is no entry of an access list"),
        }
    }
}

fn permit(words: &mut Words) -> Option<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    let first = words.peek()?;
    let protocol = TRANSPORTS.iter().find(|row| row.0 == first).map(|row| row.1);
    let protocol = protocol.or_else(|| number(first).map(Some).filter(|one| *one < Some(256)));
    let is_standard = protocol.is_none();
    if let Some(protocol) = protocol {
        words.take();
        keys.extend(protocol.map(|number| ("proto", number.to_string())));
    }
    for (address, port) in [("src", "sport"), ("dst", "dport")] {
        if is_standard && address == "dst" {
            break;
        }
        let prefix = prefix(words)?;
        keys.extend(prefix.map(|prefix| (address, quoted(&prefix))));
        if let Some(range) = ports(words)? {
            keys.push((port, range));
        }
    }
    while let Some(word) = words.take() {
        let value = match word.text.as_str() {
            "log" | "log-input" => continue,
            "dscp" => vec![dscp(&words.take()?.text.to_lowercase())?],
            "precedence" => precedence(&words.take()?.text.to_lowercase())?,
            _ => return None,
        };
        let codes: Vec<String> = value.iter().map(u8::to_string).collect();
        keys.push(("dscp", format!("[{}]", codes.join(", "))));
    }
    Some(keys)
}

/// Reads `any`, `host A`, `A WILDCARD` or `A/LENGTH`; an inner `None` is any.
#[expect(clippy::option_option, reason = "any address is not an error")]
fn prefix(words: &mut Words) -> Option<Option<String>> {
    let word = words.take()?.text;
    if word == "any" {
        return Some(None);
    }
    if word == "host" {
        let host: IpAddr = words.take()?.text.parse().ok()?;
        return Some(Some(host.to_string()));
    }
    if word.contains('/') {
        let (host, length) = word.split_once('/')?;
        host.parse::<IpAddr>().ok()?;
        let length = number(length).filter(|length| *length <= 128)?;
        return Some((length > 0).then_some(word));
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
    let network = Ipv4Addr::from(u32::from(address) & mask);
    Some((length > 0).then(|| format!("{network}/{length}")))
}

/// Reads `eq P ...`, `range P P`, `gt P` or `lt P`; an inner `None` is any port.
#[expect(clippy::option_option, reason = "any port is not an error")]
fn ports(words: &mut Words) -> Option<Option<String>> {
    let word = words.peek().unwrap_or_default().to_owned();
    if !["eq", "range", "gt", "lt"].contains(&word.as_str()) {
        return Some(None);
    }
    words.take();
    let first = port(&words.take()?.text)?;
    let range = match word.as_str() {
        "range" => format!("{first}-{}", port(&words.take()?.text)?.max(first)),
        "gt" => format!("{}-65535", first.checked_add(1)?),
        "lt" => format!("0-{}", first.checked_sub(1)?),
        _ => {
            let mut all = vec![quoted(&first.to_string())];
            while let Some(next) = words.peek().and_then(port) {
                words.take();
                all.push(quoted(&next.to_string()));
            }
            return Some(Some(format!("[{}]", all.join(", "))));
        }
    };
    Some(Some(quoted(&range)))
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
    let mut all: Option<Rules> = if map.any { Some(Vec::new()) } else { Some(vec![Vec::new()]) };
    for (line, condition) in &map.conditions {
        let one = match condition {
            Condition::Rules(rules) => Some(rules.clone()),
            Condition::Lost => None,
            Condition::Map(name) => rules(file, name, depth + 1, reading),
            Condition::List(name) => {
                let list = file.lists.get(name);
                if list.is_none() {
                    reading.lost(*line, format!("the file has no access list `{name}`"));
                }
                list.map(|list| list.rules.clone())
            }
        };
        all = match (all, one, map.any) {
            (Some(all), Some(one), true) => Some([all, one].concat()),
            (all, None, true) => all,
            (Some(all), Some(one), false) => Some(both(&all, &one)),
            (_, _, false) | (None, _, true) => None,
        };
    }
    all.filter(|rules| rules.len() <= RULES_MAX)
}

/// Returns the rules of packets that match a rule of each list.
pub(super) fn both(one: &Rules, two: &Rules) -> Rules {
    let mut rules = Vec::new();
    for (one, two) in one.iter().flat_map(|one| two.iter().map(move |two| (one, two))) {
        if rules.len() > RULES_MAX {
            break;
        }
        let added = two.iter().filter(|key| !one.contains(key));
        let added: Vec<Key> = added.cloned().collect();
        // Two values of one field: no packet has both, as far as they are single ones.
        if added.iter().all(|key| one.iter().all(|other| other.0 != key.0)) {
            rules.push([one.clone(), added].concat());
        }
    }
    rules
}

/// Bound: class-maps inside one another; deeper ones match nothing.
const DEPTH_MAX: usize = 16;
/// Bound: rules of a class; a class with more is lost.
const RULES_MAX: usize = 4096;
const TCP: &[(&str, &str)] = &[("proto", "6")];
/// Protocols that `match protocol` names, and what packets of them have.
const PROTOCOLS: [(&str, &[(&str, &str)]); 14] = [
    ("ip", &[("ethertype", "\"ipv4\"")]),
    ("ipv6", &[("ethertype", "\"ipv6\"")]),
    ("arp", &[("ethertype", "\"arp\"")]),
    ("icmp", &[("proto", "1")]),
    ("tcp", TCP),
    ("udp", &[("proto", "17")]),
    ("http", &[("proto", "6"), ("dport", "\"80\"")]),
    ("secure-http", &[("proto", "6"), ("dport", "\"443\"")]),
    ("dns", &[("proto", "17"), ("dport", "\"53\"")]),
    ("ssh", &[("proto", "6"), ("dport", "\"22\"")]),
    ("telnet", &[("proto", "6"), ("dport", "\"23\"")]),
    ("smtp", &[("proto", "6"), ("dport", "\"25\"")]),
    ("ntp", &[("proto", "17"), ("dport", "\"123\"")]),
    ("sip", &[("proto", "17"), ("dport", "\"5060\"")]),
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
