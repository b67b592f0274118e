//! Exports rules as filters of the kernel, each with a priority of its own, in match order [linux,
//! algorithms §11.3].

use super::Filters;
use super::writer::Writer;
use weir_core::classify::{
    Details, FlagTest, IcmpTest, LengthRange, Match, PortRange, Prefix, Rule, VlanTest,
};
use weir_core::ids::MeterId;
use weir_core::packet::{Dscp, EtherType, MacAddress, Pcp, Protocol};
use weir_core::police::{Action, MeterPlan};
use weir_core::units::Bytes;

/// The version of IP that a filter matches, or any frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Any,
    Four,
    Six,
    Other(EtherType),
}

/// One filter, with single values where a rule has several.
#[derive(Clone, Copy)]
struct Single<'m> {
    layer: Layer,
    protocol: Option<Protocol>,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    ports: [Option<PortRange>; 2],
    dscp: Option<Dscp>,
    macs: [Option<MacAddress>; 2],
    pcp: Option<Pcp>,
    flags: Option<FlagTest>,
    icmp: Option<IcmpTest>,
    length: Option<LengthRange>,
    rule: &'m Match,
}

/// Writes the filters, and one for all other packets where the discipline has no default.
pub(super) fn write(writer: &mut Writer<'_>, filters: Filters) {
    let policy = writer.policy;
    let tried = policy.search.order.arrange(policy.rules.clone());
    let mut prio = 0_u32;
    for (declared, rule) in &tried {
        let what = format!("rule {} of class `{}`", declared + 1, policy.leaf_name(rule.leaf));
        let class = policy.link.tree.class_of(rule.leaf);
        let id = writer.ids[class.index()].clone();
        if id.is_empty() || writer.root == "1:" && policy.link.tree.leaf_count() == 1 {
            continue;
        }
        if let Some(why) = impossible(&rule.matches, filters) {
            writer.lose(what, why);
            continue;
        }
        let singles = singles(&rule.matches);
        if singles.len() > SINGLES_MAX {
            writer.lose(what, format!("it stands for more than {SINGLES_MAX} filters"));
            continue;
        }
        let police = police(rule, &what, writer);
        let conditions = singles.iter().flat_map(|one| {
            let layer = one.layer;
            texts(one, filters).into_iter().map(move |text| (text, layer))
        });
        for (conditions, layer) in conditions {
            prio += 1;
            if prio >= PRIO_MAX {
                writer.lose(what, format!("the kernel orders at most {PRIO_MAX} filters"));
                return;
            }
            let (device, root) = (writer.device, writer.root);
            let (protocol, conditions) = conditions;
            let police = police.text(layer);
            writer.command(format!(
                "filter add dev {device} parent {root} protocol {protocol} prio {prio} \
                 {conditions}{police} classid {id}"
            ));
        }
    }
    default_filter(writer, filters);
}

/// DRR drops packets that no filter takes.
fn default_filter(writer: &mut Writer<'_>, filters: Filters) {
    let leaf = writer.policy.default.leaf;
    let meters = &writer.policy.link.leaf_meters;
    if meters.get(leaf.index()).is_some_and(Option::is_some) {
        let what = format!("`police` or `set_dscp` of class `{}`", writer.policy.leaf_name(leaf));
        writer.lose(what, "packets that no rule takes come there without a filter");
    }
    if writer.policy.link.scheduler != "drr" {
        return;
    }
    let class = writer.policy.link.tree.class_of(writer.policy.default.leaf);
    let id = writer.ids[class.index()].clone();
    let all = match filters {
        Filters::Flower => "matchall",
        Filters::U32 => "u32 match u32 0 0",
    };
    let (device, root) = (writer.device, writer.root);
    writer.command(format!(
        "filter add dev {device} parent {root} protocol all prio {PRIO_MAX} {all} classid {id}"
    ));
}

fn impossible(matches: &Match, filters: Filters) -> Option<&'static str> {
    if matches.interface.is_some() {
        return Some("the kernel's egress does not know Weir's port by which a packet came in");
    }
    let id = matches.vlan.and_then(VlanTest::id);
    // `vlan_id` with `vlan_ethtype` takes frames with one tag.
    let single = matches.vlan_inner == Some(VlanTest::Untagged) && id.is_some();
    if matches.vlan_inner.is_some() && !(single && matches.ethertype.is_some()) {
        return Some("the inner tag of two is not written");
    }
    if matches.tests_macs() && filters == Filters::U32 {
        return Some("u32 matches from the IP header on, not the Ethernet header; flower does");
    }
    let any = Details::default();
    let details = matches.details.as_deref().unwrap_or(&any);
    if filters == Filters::U32 && !details.pcps.is_empty() {
        return Some("u32 cannot match VLAN tags; flower can");
    }
    if filters == Filters::Flower && !details.lengths.is_empty() {
        return Some("flower matches no length; u32 does");
    }
    // The kernel knows these frames by the priority in their tag.
    if matches.vlan == Some(VlanTest::Tagged) && details.pcps.is_empty() {
        return Some("a filter for frames with any VLAN tag is not written");
    }
    if matches.mark.is_some_and(|mark| mark.value() == 0) {
        return Some("the kernel has no filter for packets whose mark is 0");
    }
    if matches.mark.is_some() && has_more_than_mark(matches) {
        return Some("a filter on a mark tests nothing else");
    }
    if matches.vlan == Some(VlanTest::Untagged) && layers(matches) == [Layer::Any] {
        return Some("the kernel tells frames without a tag by their protocol only");
    }
    if id.is_some() && filters == Filters::U32 {
        return Some("u32 cannot match VLAN tags; flower can");
    }
    None
}

/// Returns the filters of a rule: one for each combination of version, protocol and listed values.
fn singles(matches: &Match) -> Vec<Single<'_>> {
    let mut out = Vec::new();
    for layer in layers(matches) {
        let of_layer = |prefix: &&Prefix| match layer {
            Layer::Four => prefix.network().is_ipv4(),
            Layer::Six => prefix.network().is_ipv6(),
            _ => true,
        };
        let either = |prefixes: &[Prefix]| -> Vec<Option<Prefix>> {
            match prefixes.is_empty() {
                true => vec![None],
                false => prefixes.iter().filter(of_layer).copied().map(Some).collect(),
            }
        };
        let (sources, destinations) = (either(&matches.sources), either(&matches.destinations));
        let pairs = sources.iter().flat_map(|&one| destinations.iter().map(move |&two| (one, two)));
        let pairs: Vec<_> = pairs.take(SINGLES_MAX + 1).collect();
        for protocol in protocols(matches) {
            let single = |&(source, destination): &(Option<Prefix>, Option<Prefix>)| Single {
                layer,
                protocol,
                source,
                destination,
                ports: [None; 2],
                dscp: None,
                macs: [None; 2],
                pcp: None,
                flags: None,
                icmp: None,
                length: None,
                rule: matches,
            };
            out.extend(pairs.iter().map(single));
        }
    }
    with_lists(out, matches)
}

/// Returns each filter with each combination of the values in the rule's lists.
fn with_lists<'m>(singles: Vec<Single<'m>>, matches: &Match) -> Vec<Single<'m>> {
    let singles = with_each(singles, &matches.source_ports, |one, port| one.ports[0] = Some(port));
    let singles =
        with_each(singles, &matches.destination_ports, |one, port| one.ports[1] = Some(port));
    let singles = with_each(singles, &matches.dscps, |one, dscp| one.dscp = Some(dscp));
    let singles = with_each(singles, &matches.source_macs, |one, mac| one.macs[0] = Some(mac));
    let singles = with_each(singles, &matches.destination_macs, |one, mac| one.macs[1] = Some(mac));
    let Some(details) = matches.details.as_deref() else { return singles };
    let singles = with_each(singles, &details.pcps, |one, pcp| one.pcp = Some(pcp));
    let singles = with_each(singles, &details.tcp_flags, |one, flags| one.flags = Some(flags));
    let singles = with_each(singles, &details.icmp, |one, icmp| one.icmp = Some(icmp));
    with_each(singles, &details.lengths, |one, length| one.length = Some(length))
}

/// Returns each filter with each value; the filters themselves if there is no value.
fn with_each<'m, T: Copy>(
    singles: Vec<Single<'m>>,
    values: &[T],
    set: impl Fn(&mut Single<'m>, T),
) -> Vec<Single<'m>> {
    if values.is_empty() {
        return singles;
    }
    let set = &set;
    let each = |one: Single<'m>| {
        values.iter().map(move |value| {
            let mut one = one;
            set(&mut one, *value);
            one
        })
    };
    singles.into_iter().flat_map(each).take(SINGLES_MAX + 1).collect()
}

fn layers(matches: &Match) -> Vec<Layer> {
    match matches.ethertype {
        Some(EtherType::IPV4) => return vec![Layer::Four],
        Some(EtherType::IPV6) => return vec![Layer::Six],
        Some(other) => return vec![Layer::Other(other)],
        None => {}
    }
    let ip = matches.protocol.is_some()
        || matches.needs_ports()
        || !matches.dscps.is_empty()
        || matches.ecn.is_some()
        || !matches.sources.is_empty()
        || !matches.destinations.is_empty()
        || matches.details.as_ref().is_some_and(|details| !details.lengths.is_empty());
    match matches.protocol {
        // ICMP is of IPv4, and ICMPv6 of IPv6: tc refuses them elsewhere.
        Some(Protocol::ICMP) => vec![Layer::Four],
        Some(Protocol::ICMPV6) => vec![Layer::Six],
        _ if ip => vec![Layer::Four, Layer::Six],
        _ => vec![Layer::Any],
    }
}

/// Ports need a protocol there: without one, each that has ports.
fn protocols(matches: &Match) -> Vec<Option<Protocol>> {
    match matches.protocol {
        None if matches.needs_ports() => [6, 17, 132].map(|one| Some(Protocol(one))).to_vec(),
        protocol => vec![protocol],
    }
}

/// Returns whether a rule on a mark tests more than the mark, the version of IP and that there is
/// no tag.
fn has_more_than_mark(matches: &Match) -> bool {
    let rest = Match { mark: None, ethertype: None, vlan: None, ..matches.clone() };
    rest != Match::default() || !matches!(matches.vlan, None | Some(VlanTest::Untagged))
}

/// Returns the text behind `protocol`, and the conditions; `handle` precedes the kind of filter.
fn texts(one: &Single<'_>, filters: Filters) -> Vec<(String, String)> {
    if let Some(mark) = one.rule.mark {
        let mask =
            if mark.mask() == u32::MAX { String::new() } else { format!("/{:#x}", mark.mask()) };
        return vec![(layer_word(one.layer), format!("handle {:#x}{mask} fw", mark.value()))];
    }
    match filters {
        Filters::Flower => vec![flower(one)],
        Filters::U32 => u32_filters(one),
    }
}

fn layer_word(layer: Layer) -> String {
    match layer {
        Layer::Any => "all".to_owned(),
        Layer::Four => "ip".to_owned(),
        Layer::Six => "ipv6".to_owned(),
        Layer::Other(ethertype) => format!("{:#06x}", ethertype.0),
    }
}

fn flower(one: &Single<'_>) -> (String, String) {
    let mut text = String::from("flower");
    let mut protocol = layer_word(one.layer);
    let vlan = one.rule.vlan.and_then(VlanTest::id);
    if vlan.is_some() || one.pcp.is_some() {
        text.extend(vlan.map(|vlan| format!(" vlan_id {vlan}")));
        text.extend(one.pcp.map(|pcp| format!(" vlan_prio {pcp}")));
        if one.layer != Layer::Any {
            text.push_str(&format!(" vlan_ethtype {protocol}"));
        }
        protocol = "802.1Q".to_owned();
    }
    if let Some(number) = one.protocol {
        let named = NAMED.iter().find(|row| row.0 == number.0).map(|row| row.1.to_owned());
        // Numbers there are hexadecimal, whatever precedes them.
        text.push_str(&format!(
            " ip_proto {}",
            named.unwrap_or_else(|| format!("{:#04x}", number.0))
        ));
    }
    for (word, prefix) in [("src_ip", one.source), ("dst_ip", one.destination)] {
        text.extend(prefix.map(|prefix| format!(" {word} {prefix}")));
    }
    for (word, range) in ["src_port", "dst_port"].into_iter().zip(one.ports) {
        text.extend(range.map(|range| format!(" {word} {range}")));
    }
    if let Some(flags) = one.flags {
        text.push_str(&format!(" tcp_flags {:#x}/{:#x}", flags.value(), flags.mask()));
    }
    if let Some(icmp) = one.icmp {
        text.push_str(&format!(" type {}", icmp.number));
        text.extend(icmp.code.map(|code| format!(" code {code}")));
    }
    for (word, mac) in ["src_mac", "dst_mac"].into_iter().zip(one.macs) {
        text.extend(mac.map(|mac| format!(" {word} {mac}")));
    }
    let (value, mask) = traffic_class(one);
    if mask > 0 {
        text.push_str(&format!(" ip_tos {value:#04x}/{mask:#04x}"));
    }
    if text == "flower" && protocol == "all" {
        text = "matchall".to_owned();
    }
    (protocol, text)
}

fn traffic_class(one: &Single<'_>) -> (u8, u8) {
    let (dscp, dscp_mask) = one.dscp.map_or((0, 0), |dscp| (dscp.code() << 2, 0xfc));
    let (ecn, ecn_mask) = one.rule.ecn.map_or((0, 0), |ecn| (ecn as u8, 3));
    (dscp | ecn, dscp_mask | ecn_mask)
}

/// Returns a filter for each pair of blocks of the port ranges.
fn u32_filters(one: &Single<'_>) -> Vec<(String, String)> {
    let protocol = layer_word(one.layer);
    let ip = if one.layer == Layer::Six { "ip6" } else { "ip" };
    let mut text = String::from("u32");
    if let Some(number) = one.protocol {
        text.push_str(&format!(" match {ip} protocol {} 0xff", number.0));
    }
    for (word, prefix) in [("src", one.source), ("dst", one.destination)] {
        text.extend(prefix.map(|prefix| format!(" match {ip} {word} {prefix}")));
    }
    let (value, mask) = traffic_class(one);
    if mask > 0 {
        let field = if ip == "ip6" { "priority" } else { "tos" };
        text.push_str(&format!(" match {ip} {field} {value:#04x} {mask:#04x}"));
    }
    text.push_str(&transport(one));
    let mut out = Vec::new();
    let lengths = lengths(one);
    let pairs = blocks(one.ports[0]).into_iter().flat_map(|source| {
        blocks(one.ports[1]).into_iter().map(move |destination| (source, destination))
    });
    for (source, destination) in pairs {
        for length in &lengths {
            let mut text = text.clone() + length;
            for (word, block) in [("sport", source), ("dport", destination)] {
                let (port, mask) = block;
                if mask > 0 {
                    text.push_str(&format!(" match {ip} {word} {port} {mask:#06x}"));
                }
            }
            if text == "u32" {
                text.push_str(" match u32 0 0");
            }
            out.push((protocol.clone(), text));
        }
    }
    out
}

/// Returns the conditions on TCP's flags and the type of a message, which the kernel finds behind a
/// header of IP without options.
fn transport(one: &Single<'_>) -> String {
    let six = one.layer == Layer::Six;
    let mut text = String::new();
    if let Some(flags) = one.flags {
        let at = if six { 53 } else { 33 };
        text.push_str(&format!(" match u8 {:#04x} {:#04x} at {at}", flags.value(), flags.mask()));
    }
    if let Some(icmp) = one.icmp {
        let ip = if six { "ip6" } else { "ip" };
        text.push_str(&format!(" match {ip} icmp_type {} 0xff", icmp.number));
        text.extend(icmp.code.map(|code| format!(" match {ip} icmp_code {code} 0xff")));
    }
    text
}

/// Returns the conditions on the length, one for each block of lengths; an IPv6 header has that of
/// the payload.
fn lengths(one: &Single<'_>) -> Vec<String> {
    let Some(range) = one.length else { return vec![String::new()] };
    let (at, before) = if one.layer == Layer::Six { (4, 40) } else { (2, 0) };
    let least = |length: u32| length.saturating_sub(before).min(u16::MAX.into()) as u16;
    if range.last() < before {
        return Vec::new();
    }
    let own = PortRange::new(least(range.first()), least(range.last())).ok();
    let text = |(value, mask): (u16, u16)| match mask {
        0 => String::new(),
        _ => format!(" match u16 {value} {mask:#06x} at {at}"),
    };
    blocks(own).into_iter().map(text).collect()
}

/// Returns the blocks, a port and a mask each, that make up a range.
fn blocks(range: Option<PortRange>) -> Vec<(u16, u16)> {
    let Some(range) = range else { return vec![(0, 0)] };
    let (mut at, last) = (u32::from(range.first()), u32::from(range.last()));
    let mut blocks = Vec::new();
    // Terminates: each block advances `at`; a range has at most 30 of them.
    while at <= last {
        let aligned = if at == 0 { 16 } else { at.trailing_zeros().min(16) };
        let fits = (last - at + 1).ilog2();
        let size = 1_u32 << aligned.min(fits);
        blocks.push((at as u16, !((size - 1) as u16)));
        at += size;
    }
    blocks
}

/// The actions behind a filter.
enum Actions {
    None,
    Police(String),
    /// Packets get this code point.
    Mark(Dscp),
}

impl Actions {
    /// Returns the words behind the conditions on packets of this version. The kernel rewrites a
    /// byte wherever it is told to, and then the checksum of the IPv4 header.
    fn text(&self, layer: Layer) -> String {
        let munge = |field: &str, dscp: Dscp| {
            let value = dscp.code() << 2;
            format!(" action pedit ex munge {field} set {value:#04x} retain 0xfc")
        };
        match (self, layer) {
            (Actions::None, _) => String::new(),
            (Actions::Police(text), _) => text.clone(),
            (Actions::Mark(dscp), Layer::Six) => munge("ip6 traffic_class", *dscp),
            (Actions::Mark(dscp), _) => munge("ip dsfield", *dscp) + " pipe action csum ip4h",
        }
    }
}

/// Returns the policer of a rule, or of its class.
fn police(rule: &Rule, what: &str, writer: &mut Writer<'_>) -> Actions {
    let link = &writer.policy.link;
    let of_leaf = || link.leaf_meters.get(rule.leaf.index()).copied().flatten();
    let Some(meter) = rule.meter.or_else(of_leaf) else { return Actions::None };
    if let Some(dscp) = link.meters.get(meter.index()).and_then(MeterPlan::marks_all) {
        let layers = layers(&rule.matches);
        let is_ip = layers.iter().all(|layer| [Layer::Four, Layer::Six].contains(layer));
        if is_ip && rule.matches.mark.is_none() {
            return Actions::Mark(dscp);
        }
        let why = "the kernel rewrites packets of one version of IP, which the rule does not name";
        writer.lose(format!("`set_dscp` of {what}"), why);
        return Actions::None;
    }
    match policer(&link.meters, meter) {
        Some(text) => Actions::Police(text),
        None => {
            writer.lose(
                format!("police of {what}"),
                "only a token bucket that passes or drops can be exported",
            );
            Actions::None
        }
    }
}

fn policer(meters: &[MeterPlan], id: MeterId) -> Option<String> {
    let plan = meters.get(id.index())?;
    let action = |outcome: &str, default: Action| {
        let found = plan.actions.iter().find(|row| row.0 == outcome);
        found.map_or(default, |row| row.1)
    };
    let simple = plan.meter == "tbmeter" && action("in", Action::Pass) == Action::Pass;
    let out = match action("out", Action::Drop) {
        Action::Drop => "drop",
        Action::Pass => "pass",
        Action::Mark(_) => return None,
    };
    let rate = plan.params.rate("rate")?.bits_per_second();
    let depth = crate::import::tc_burst(plan.params.bytes("depth").map_or(1, Bytes::get), rate);
    let text = format!(" action police rate {rate}bit burst {depth} conform-exceed {out}/pass");
    simple.then_some(text)
}

const NAMED: [(u8, &str); 5] =
    [(1, "icmp"), (6, "tcp"), (17, "udp"), (58, "icmpv6"), (132, "sctp")];
/// The last priority of a filter.
const PRIO_MAX: u32 = 65_535;
/// The most filters of one rule.
const SINGLES_MAX: usize = 4096;
