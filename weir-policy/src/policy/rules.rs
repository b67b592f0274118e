//! Reads the `match` tables: rules in the order of the file; reports rules that decide nothing.

use super::class::{self, ClassDraft};
use super::police::Meters;
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::reader::{Node, Table, list};
use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;
use weir_core::classify::details::icmp_names;
use weir_core::classify::marks::MARK_DIGITS;
use weir_core::classify::{
    Details, IcmpTest, InterfaceId, MarkTest, Match, MatchOrder, PortRange, Prefix, Rule, VlanTest,
    cover,
};
use weir_core::ids::{LeafId, MeterId};
use weir_core::packet::{Dscp, EtherType, Protocol};

/// Reads the rules of all leaves, and numbers the interfaces in them.
pub(super) fn read_all(
    classes: &[ClassDraft<'_>],
    (ports, order): (Option<&[String]>, MatchOrder),
    police: &mut Meters,
    report: &mut Report,
) -> (Vec<Rule>, Vec<String>) {
    let mut reading = Reading {
        names: ports.map(<[String]>::to_vec).unwrap_or_default(),
        fixed: ports.is_some(),
        prefixes: 0,
        combinations: 0,
        police: Some(police),
        order,
    };
    let (mut rules, mut spans) = (Vec::new(), Vec::new());
    for (leaf, class) in class::leaves(classes) {
        for node in &class.matches {
            if rules.len() == RULES_MAX {
                let message = format!("there are more than {RULES_MAX} rules");
                let cure = "write prefixes and port ranges instead of single values";
                report.push(Draft::new(&codes::TOO_MANY, node.span(), message).cure(cure));
                return (Vec::new(), reading.names);
            }
            let errors = report.errors();
            let Some(rule) = read(node, (class, leaf), &mut reading, report) else { continue };
            if report.errors() > errors {
                // The rule is not what was meant, so skip what it covers.
                continue;
            }
            rules.push(rule);
            spans.push(node.span());
        }
    }
    check_reach(&rules, &spans, order, report);
    (rules, reading.names)
}

/// Reads the rules of a class that joins as `leaf`, where rules may name these interfaces.
pub(super) fn read_joining(
    (class, leaf): (&ClassDraft<'_>, LeafId),
    interfaces: &[String],
    report: &mut Report,
) -> Vec<Rule> {
    let mut reading = Reading {
        names: interfaces.to_vec(),
        fixed: true,
        prefixes: 0,
        combinations: 0,
        police: None,
        order: MatchOrder::First,
    };
    let nodes = class.matches.iter();
    nodes.filter_map(|node| read(node, (class, leaf), &mut reading, report)).collect()
}

/// State shared by all rules: interfaces by number, which follow the first mention unless a
/// deployment gave them, a count of prefixes, meters, and the match order.
struct Reading<'p> {
    names: Vec<String>,
    fixed: bool,
    prefixes: usize,
    /// Combinations of the values in the lists of rules.
    combinations: usize,
    /// `None` for a class that joins, which has no meters.
    police: Option<&'p mut Meters>,
    order: MatchOrder,
}

impl Reading<'_> {
    fn number(&mut self, node: &Node<'_>, report: &mut Report) -> Option<InterfaceId> {
        let name = node.name(report)?;
        let found = self.names.iter().position(|known| known == name);
        if found.is_none() && self.fixed {
            let known: Vec<_> = self.names.iter().map(String::as_str).collect();
            let message = format!("the deployment has no port `{name}`");
            let cure = format!("write one of {}", list(&known));
            report.push(node.draft(&codes::UNKNOWN_INTERFACE, message).cure(cure));
            return None;
        }
        let index = found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u16::try_from(index).ok().map(InterfaceId)
    }

    /// Reads a mark. A deployment's frames come from packet sockets, which do not know marks.
    fn mark(&mut self, node: &Node<'_>, report: &mut Report) -> Option<MarkTest> {
        let mark: MarkTest = node.parsed(report)?;
        if self.fixed && !mark.accepts(0) {
            let message = "the rule matches no packet: a port's packets come from a packet socket, \
                           which knows no marks";
            let cure = "write the conditions for which the firewall sets the mark";
            report.push(node.draft(&codes::NO_MARKS, message).cure(cure));
        }
        Some(mark)
    }

    /// Reads what happens to the rule's packets before the queue, if not what happens to those of
    /// its class.
    fn meter(
        &mut self,
        table: &mut Table<'_>,
        class: &ClassDraft<'_>,
        report: &mut Report,
    ) -> Option<MeterId> {
        let (police, set_dscp) = (table.field("police"), table.field("set_dscp"));
        let node = police.as_ref().or(set_dscp.as_ref())?;
        let Some(meters) = &mut self.police else {
            let message = format!("class `{}` joins and cannot have `{}`", class.name, node.key());
            let cure = "write it in a class without `place`";
            report.push(node.draft(&codes::NO_PLACE, message).cure(cure));
            return None;
        };
        let own = set_dscp.as_ref().and_then(|node| node.parsed::<Dscp>(report));
        if police.is_none() && class.police.is_some() {
            let message = format!(
                "has no meter, and its packets would pass that of class `{}` by",
                class.name
            );
            let cure = "write `set_dscp` in the class, or a `police` in the rule as well";
            report.push(node.draft(&codes::REFUSED, message).cure(cure));
            return None;
        }
        let dscp = own.or(class.set_dscp.and_then(|written| written.0));
        meters.read(police.as_ref(), dscp, node.span(), report)
    }

    /// Counts the combinations of values that a rule stands for; reports too many.
    fn count(&mut self, matches: &Match, node: &Node<'_>, report: &mut Report) -> Option<()> {
        let lists = [
            matches.source_ports.len(),
            matches.destination_ports.len(),
            matches.dscps.len(),
            matches.source_macs.len(),
            matches.destination_macs.len(),
            matches.mark.map_or(1, mark_ranges),
            matches.details.as_ref().map_or(1, |details| details.combinations()),
        ];
        let own =
            lists.iter().fold(1, |product: usize, count| product.saturating_mul(*count.max(&1)));
        self.combinations = self.combinations.saturating_add(own);
        if self.combinations <= COMBINATIONS_MAX {
            return Some(());
        }
        let message = format!(
            "the rules stand for more than {COMBINATIONS_MAX} combinations of the values in their \
             lists"
        );
        let cure = "write ranges of ports, or fewer values in lists";
        report.push(Draft::new(&codes::TOO_MANY, node.span(), message).cure(cure));
        None
    }

    /// Reads one prefix or several. Reports an empty list, since it would match every packet.
    fn prefixes(&mut self, node: Option<Node<'_>>, report: &mut Report) -> Vec<Prefix> {
        let Some(node) = node else { return Vec::new() };
        let nodes = node.one_or_many();
        if nodes.is_empty() {
            let cure = "write a prefix, or remove the key to match any address";
            report.push(node.draft(&codes::BAD_VALUE, "is an empty list").cure(cure));
        }
        self.prefixes = self.prefixes.saturating_add(nodes.len());
        if self.prefixes > PREFIXES_MAX {
            let message = format!("the rules have more than {PREFIXES_MAX} prefixes");
            report.push(node.draft(&codes::TOO_MANY, message).cure("write shorter prefixes"));
            return Vec::new();
        }
        nodes.iter().filter_map(|node| node.parsed(report)).collect()
    }
}

fn read(
    node: &Node<'_>,
    (class, leaf): (&ClassDraft<'_>, LeafId),
    reading: &mut Reading<'_>,
    report: &mut Report,
) -> Option<Rule> {
    let mut table = node.table(report)?.named(("a rule of class", class.name));
    let protocol = table.field("proto").and_then(|node| node.parsed(report));
    let details = details(&mut table, protocol, report);
    let vlan = table.field("vlan").and_then(|node| node.parsed(report));
    let matches = Match {
        // Conditions that say the same of all packets, so that a rule that covers another is found.
        protocol: protocol.or((!details.tcp_flags.is_empty()).then_some(Protocol::TCP)),
        sources: reading.prefixes(table.field("src"), report),
        destinations: reading.prefixes(table.field("dst"), report),
        source_ports: merged(values(table.field("sport"), report)),
        destination_ports: merged(values(table.field("dport"), report)),
        dscps: distinct(values(table.field("dscp"), report)),
        ecn: table.field("ecn").and_then(|node| node.parsed(report)),
        vlan: vlan.or((!details.pcps.is_empty()).then_some(VlanTest::Tagged)),
        vlan_inner: table.field("vlan_inner").and_then(|node| node.parsed(report)),
        ethertype: table.field("ethertype").and_then(|node| node.parsed(report)),
        interface: table.field("interface").and_then(|node| reading.number(&node, report)),
        source_macs: distinct(values(table.field("src_mac"), report)),
        destination_macs: distinct(values(table.field("dst_mac"), report)),
        mark: table.field("mark").and_then(|node| reading.mark(&node, report)),
        details: details.boxed(),
    };
    reading.count(&matches, node, report)?;
    let meter = reading.meter(&mut table, class, report);
    let sort_key = sort_key(&mut table, reading.order, report);
    table.finish(report);
    check_possible(&matches, &table, node.span(), report);
    let flow = class.queue.flow_key();
    Some(Rule { matches, leaf, meter, spread: class.spread, flow, sort_key })
}

/// Reads conditions on the priority of a tag, TCP's flags, messages of ICMP and the length.
fn details(table: &mut Table<'_>, protocol: Option<Protocol>, report: &mut Report) -> Details {
    let icmp = table.field("icmp_type");
    let tests = match (&icmp, protocol.filter(|protocol| !icmp_names(*protocol).is_empty())) {
        (None, _) => Vec::new(),
        (Some(_), Some(protocol)) => {
            values_by(icmp, report, |text| IcmpTest::parse(protocol, text))
        }
        (Some(node), None) => {
            let message = "needs the protocol: IPv4 and IPv6 have types of their own";
            let cure = "write `proto = \"icmp\"` or `proto = \"icmpv6\"` in the same rule";
            report.push(node.draft(&codes::BAD_VALUE, message).cure(cure));
            Vec::new()
        }
    };
    Details {
        pcps: distinct(values(table.field("pcp"), report)),
        tcp_flags: distinct(values(table.field("tcp_flags"), report)),
        icmp: distinct(tests),
        lengths: distinct(values(table.field("length"), report)),
    }
}

/// Reads one value or several. Reports an empty list, since it would match every packet.
fn values<T: FromStr>(node: Option<Node<'_>>, report: &mut Report) -> Vec<T>
where
    T::Err: Display,
{
    values_by(node, report, T::from_str)
}

fn values_by<T, E: Display>(
    node: Option<Node<'_>>,
    report: &mut Report,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Vec<T> {
    let Some(node) = node else { return Vec::new() };
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        let cure = "write a value, or remove the key to match any";
        report.push(node.draft(&codes::BAD_VALUE, "is an empty list").cure(cure));
    }
    nodes.iter().filter_map(|node| node.parsed_by(report, &parse)).collect()
}

/// Returns the ranges of digits that a mark may have, multiplied: few unless single bits of many
/// digits are tested.
fn mark_ranges(mark: MarkTest) -> usize {
    (0..MARK_DIGITS).map(|place| mark.digits(place).len()).product()
}

/// Returns each value once, in order.
fn distinct<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns the same ports in as few ranges as can be, in order, so that a rule that covers another
/// has a range that covers each of the other's.
fn merged(mut ranges: Vec<PortRange>) -> Vec<PortRange> {
    ranges.sort_unstable_by_key(|range| (range.first(), range.last()));
    let mut merged: Vec<PortRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let joins = |before: &&mut PortRange| range.first() <= before.last().saturating_add(1);
        match merged.last_mut().filter(joins) {
            Some(before) => {
                let last = before.last().max(range.last());
                *before = PortRange::new(before.first(), last).expect("its end only rises");
            }
            None => merged.push(range),
        }
    }
    merged
}

/// Reads the sort key of the match order. Reports the key of another order.
fn sort_key(table: &mut Table<'_>, order: MatchOrder, report: &mut Report) -> Option<u32> {
    for other in MatchOrder::ALL.into_iter().filter(|other| *other != order) {
        let Some((name, _, _, _)) = other.sort_key() else { continue };
        let Some(node) = table.has(name).then(|| table.field(name)).flatten() else { continue };
        let word = other.keyword();
        let message = format!("has an effect only with `match_order = \"{word}\"`");
        let cure = format!("remove it, or write `match_order = \"{word}\"` in [link]");
        report.push(node.draft(&codes::UNKNOWN_KEY, message).cure(cure).fix(node.removal()));
    }
    let (name, min, max, _) = order.sort_key()?;
    let number = table.field(name)?.number(min.into(), max.into(), report)?;
    Some(number as u32)
}

/// Reports conditions that exclude each other.
fn check_possible(matches: &Match, table: &Table<'_>, span: Span, report: &mut Report) {
    let Some(why) = impossible(matches) else { return };
    let message = format!("{} matches no packet: {why}", table.name());
    let cure = "remove the condition that is not intended";
    report.push(Draft::new(&codes::NEVER_MATCHES, span, message).cure(cure));
}

fn impossible(matches: &Match) -> Option<String> {
    let portless = matches.protocol.filter(|protocol| !protocol.has_ports());
    if let Some(protocol) = portless.filter(|_| matches.needs_ports()) {
        return Some(format!("protocol {protocol} has no ports"));
    }
    if let Some(why) = matches.details.as_ref().and_then(|details| unmet(matches, details)) {
        return Some(why.to_owned());
    }
    let family = |prefixes: &[Prefix], v4: bool| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.network().is_ipv4() == v4)
    };
    let possible = |v4| family(&matches.sources, v4) && family(&matches.destinations, v4);
    if !possible(true) && !possible(false) {
        return Some("source and destination are of different IP versions".to_owned());
    }
    if matches.vlan == Some(VlanTest::Untagged)
        && matches.vlan_inner.is_some_and(|vlan| vlan != VlanTest::Untagged)
    {
        return Some("a frame without a tag has no inner one".to_owned());
    }
    let wanted = matches.ethertype?;
    match wanted {
        EtherType::IPV4 if possible(true) => None,
        EtherType::IPV6 if possible(false) => None,
        EtherType::IPV4 | EtherType::IPV6 => Some(format!("its addresses are not {wanted}")),
        _ if needs_ip(matches) => {
            Some(format!("a frame of ethertype {wanted} is not an IP packet"))
        }
        _ => None,
    }
}

/// Returns why a packet that satisfies the other conditions cannot satisfy these.
fn unmet(matches: &Match, details: &Details) -> Option<&'static str> {
    if !details.tcp_flags.is_empty() && matches.protocol != Some(Protocol::TCP) {
        return Some("only TCP has flags");
    }
    if !details.pcps.is_empty() && matches.vlan == Some(VlanTest::Untagged) {
        return Some("a frame without a tag has no priority in it");
    }
    None
}

fn needs_ip(matches: &Match) -> bool {
    matches.protocol.is_some()
        || matches.needs_ports()
        || !matches.dscps.is_empty()
        || matches.ecn.is_some()
        || !matches.sources.is_empty()
        || !matches.destinations.is_empty()
        || matches.details.as_ref().is_some_and(|details| !details.lengths.is_empty())
}

/// Reports rules that decide nothing, since earlier ones take all their packets.
fn check_reach(rules: &[Rule], spans: &[Span], order: MatchOrder, report: &mut Report) {
    let (declared, tried): (Vec<u32>, Cow<'_, [Rule]>) = match order {
        MatchOrder::First => ((0..rules.len() as u32).collect(), Cow::Borrowed(rules)),
        _ => {
            let (declared, tried) = order.arrange(rules.to_vec()).into_iter().unzip();
            (declared, Cow::Owned(tried))
        }
    };
    // An order may try a rule in parts; it is reached if one of them is.
    let mut parts = vec![0_u32; rules.len()];
    for &place in &declared {
        parts[place as usize] += 1;
    }
    for (covered, by) in cover::covered(&tried) {
        let (place, by) = (declared[covered] as usize, declared[by] as usize);
        parts[place] -= 1;
        if parts[place] > 0 {
            continue;
        }
        let message = "this rule decides nothing: an earlier one takes all its packets";
        report.push(
            Draft::new(&codes::SHADOWED, spans[place], message)
                .related(spans[by], "the earlier rule")
                .cure("put it before the earlier rule, or remove it"),
        );
    }
}

/// Bound: rules of a policy; one with more is refused. More would be a file larger than Weir reads.
const RULES_MAX: usize = 1 << 18;
/// Bound: combinations of values of all rules together; a policy with more is refused.
const COMBINATIONS_MAX: usize = 1 << 20;
/// Bound: prefixes of all rules together; a policy with more is refused.
const PREFIXES_MAX: usize = 1 << 20;
