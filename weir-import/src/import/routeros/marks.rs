//! The marks that `/ip firewall mangle` gives packets, as conditions: a queue of a tree has the
//! packets of a mark.
//!
//! Rules are tried in order; each that matches gives its mark, and one without `passthrough` ends
//! the search. The mark of a connection stands for the packets of both directions that meet the
//! rule which gives it.

use super::super::conditions::{Addresses, Conditions, Ranges, Version};
use super::super::decide::{Decisions, Queues, Step};
use super::super::lines::{LineId, Reading};
use super::super::sketch::Key;
use super::super::words::number;
use super::{Queue, Values};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The rules of the firewall that give marks.
#[derive(Clone, Default)]
pub(super) struct Marks {
    rules: Vec<Mangle>,
    /// The conditions of the packets of each connection's mark.
    connections: BTreeMap<String, Vec<Conditions>>,
    /// By name, the addresses that `src-address-list` and `dst-address-list` compare.
    lists: BTreeMap<String, Addresses>,
}

/// A rule that marks packets.
#[derive(Clone)]
struct Mangle {
    line: LineId,
    mark: String,
    quick: bool,
    /// The interface by which its packets leave.
    leaves_by: Option<String>,
    conditions: Vec<Conditions>,
}

impl Marks {
    /// Reads a line of a menu of [`MENUS`].
    pub(super) fn read(
        &mut self,
        menu: &str,
        values: &Values,
        line: LineId,
        reading: &mut Reading,
    ) {
        let text = |key: &str| values.get(key).map(|word| word.text.as_str()).unwrap_or_default();
        if menu.ends_with("address-list") {
            let all = addresses(text("address"));
            let list = self.lists.entry(text("list").to_owned()).or_default();
            match all {
                Some(all) => *list = list.or(&all),
                None => reading.lost(line, "it is no address"),
            }
            return;
        }
        if text("disabled") == "yes" {
            return reading.lost(line, "it is disabled");
        }
        let action = text("action");
        if !["mark-packet", "mark-connection"].contains(&action) {
            return reading.lost(line, "it gives packets no mark");
        }
        let conditions = match self.conditions(menu, values) {
            Ok(conditions) => conditions,
            Err(key) => {
                return reading.lost(line, format!("Weir's rules cannot match `{key}`"));
            }
        };
        if action == "mark-connection" {
            let both = conditions.iter().flat_map(|one| [one.clone(), one.reversed()]);
            let all = self.connections.entry(text("new-connection-mark").to_owned()).or_default();
            all.extend(both);
            return reading.approximated(line, OF_CONNECTIONS);
        }
        if values.contains_key("in-interface") {
            reading.approximated(line, "`in-interface` is left out: a policy is for one direction");
        }
        self.rules.push(Mangle {
            line,
            mark: text("new-packet-mark").to_owned(),
            quick: text("passthrough") == "no",
            leaves_by: values.get("out-interface").map(|word| word.text.clone()),
            conditions,
        });
    }

    /// Returns the conditions of a rule, of which packets meet one; else the key of one that Weir
    /// does not have.
    fn conditions(&self, menu: &str, values: &Values) -> Result<Vec<Conditions>, String> {
        let mut one = Conditions::default();
        if menu.starts_with("ipv6") {
            one.version = Some(Version::Six);
        }
        let mut any = vec![Conditions::default()];
        let of_connection = values.contains_key("new-connection-mark");
        for (key, word) in values {
            let lost = || key.clone();
            let (text, negated) = word
                .text
                .strip_prefix('!')
                .map_or((word.text.as_str(), false), |text| (text, true));
            let ranges = |found: Option<Ranges>, most: u128| match (found, negated) {
                (Some(found), true) => Some(found.not(most)),
                (found, _) => found,
            };
            let whole = |found: Option<Addresses>| match (found, negated) {
                (Some(found), true) => Some(found.not()),
                (found, _) => found,
            };
            match key.as_str() {
                "protocol" => one.protocols = Some(ranges(protocol(text), 255).ok_or_else(lost)?),
                "dscp" => one.dscps = Some(ranges(numbers(text, 63), 63).ok_or_else(lost)?),
                "src-port" => {
                    one.source_ports = Some(ranges(numbers(text, PORT), PORT).ok_or_else(lost)?);
                }
                "dst-port" => {
                    let found = ranges(numbers(text, PORT), PORT);
                    one.destination_ports = Some(found.ok_or_else(lost)?);
                }
                "port" => {
                    let found = Some(ranges(numbers(text, PORT), PORT).ok_or_else(lost)?);
                    let source_ports = found.clone();
                    any = vec![
                        Conditions { source_ports, ..Conditions::default() },
                        Conditions { destination_ports: found, ..Conditions::default() },
                    ];
                }
                "src-address" => one.sources = Some(whole(addresses(text)).ok_or_else(lost)?),
                "dst-address" => one.destinations = Some(whole(addresses(text)).ok_or_else(lost)?),
                "src-address-list" => {
                    one.sources = Some(whole(self.lists.get(text).cloned()).ok_or_else(lost)?);
                }
                "dst-address-list" => {
                    one.destinations = Some(whole(self.lists.get(text).cloned()).ok_or_else(lost)?);
                }
                "connection-mark" if !negated => {
                    any = self.connections.get(text).cloned().ok_or_else(lost)?;
                }
                key if PASSED.contains(&key) => {}
                // Any packet may be the one by which the firewall first sees the connection.
                "connection-state" if of_connection => {}
                _ => return Err(lost()),
            }
        }
        Ok(any.iter().filter_map(|more| one.and(more)).collect())
    }

    /// Names the rules whose mark no queue has.
    pub(super) fn report(&self, queues: &[Queue], reading: &mut Reading) {
        let has = |mark: &String| {
            queues.iter().any(|one| one.marks.as_ref().is_some_and(|marks| marks.contains(mark)))
        };
        for rule in self.rules.iter().filter(|rule| !has(&rule.mark)) {
            reading.noted(rule.line, "no queue of a tree has its mark");
        }
    }

    /// Returns the rules of what leaves by an interface in their order, each with its mark and its
    /// rank; `global` is any.
    pub(super) fn rules(&self, device: &str) -> Vec<(Vec<Key>, String, u64)> {
        let leaves = |rule: &&Mangle| {
            device == "global" || rule.leaves_by.as_ref().is_none_or(|other| other == device)
        };
        let mut steps = Vec::new();
        for (at, rule) in self.rules.iter().enumerate().filter(|row| leaves(&row.1)) {
            steps.extend(rule.conditions.iter().map(|conditions| Step {
                conditions: conditions.clone(),
                is_match: false,
                quick: rule.quick,
                queue: Some(Queues(at, None)),
                rule: at,
            }));
        }
        let decided = Decisions::of(&steps, &[]).list;
        let rules = decided.iter().flat_map(|one| {
            one.conditions.rules().into_iter().map(|keys| (keys, self.rules[one.rule].mark.clone()))
        });
        (1..).zip(rules).map(|(rank, (keys, mark))| (keys, mark, rank)).collect()
    }
}

fn protocol(text: &str) -> Option<Ranges> {
    let named = PROTOCOLS.iter().find(|row| row.0 == text).map(|row| row.1);
    let own = named.or_else(|| number(text).filter(|one| *one < 256))?;
    Some(Ranges::of([(own.into(), own.into())]))
}

/// Reads `80,443,1000-2000`.
fn numbers(text: &str, most: u128) -> Option<Ranges> {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?.into(), number(last)?.into());
        (first <= last && last <= most).then_some((first, last))
    };
    Some(Ranges::of(text.split(',').map(one).collect::<Option<Vec<_>>>()?))
}

/// Reads an address, a network or `FIRST-LAST`.
fn addresses(text: &str) -> Option<Addresses> {
    if let Some((first, last)) = text.split_once('-') {
        return Addresses::between(first.parse().ok()?, last.parse().ok()?);
    }
    match text.split_once('/') {
        Some((host, length)) => Addresses::network(host.parse().ok()?, number(length)?),
        None => {
            let host: IpAddr = text.parse().ok()?;
            Addresses::between(host, host)
        }
    }
}

/// The menus whose lines say what marks mean.
pub(super) const MENUS: [&str; 4] = [
    "ip firewall mangle",
    "ipv6 firewall mangle",
    "ip firewall address-list",
    "ipv6 firewall address-list",
];
/// Keys that change nothing of which packets of a link a rule matches.
const PASSED: [&str; 13] = [
    "action",
    "chain",
    "comment",
    "disabled",
    "log",
    "log-prefix",
    "passthrough",
    "new-packet-mark",
    "new-connection-mark",
    "in-interface",
    "out-interface",
    "in-interface-list",
    "place-before",
];
const PROTOCOLS: [(&str, u64); 7] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("ipsec-esp", 50),
    ("icmpv6", 58),
];
const PORT: u128 = 65_535;
const OF_CONNECTIONS: &str = "the mark of a connection stands for the packets of both directions \
                              that meet the rule, decided packet by packet";
