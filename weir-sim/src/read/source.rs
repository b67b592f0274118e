//! One `[[source]]`: the headers of its packets, and its traffic.

pub(crate) use super::bounded;
use super::files::Files;
use super::values::{Address, Number};
use super::{Place, codes, keys, network, quic, tcp};
use crate::kinds::{self, Carrier, Context, Part};
use crate::network::plan::{Ends, NodeId, OutletId};
use crate::network::route;
use crate::scenario::{
    INTERFACE_NONE, LENGTH_MAX, Mtu, Pareto, Period, SIZES_MAX, Sizes, Source, Spacing, Traffic,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_core::classify::details::icmp_names;
use weir_core::classify::{IcmpTest, InterfaceId};
use weir_core::packet::{
    Addresses, Dscp, Ecn, Headers, IcmpType, MacAddress, Macs, Pcp, Ports, Protocol, Transport,
    VlanId, VlanTag,
};
use weir_core::units::{Bytes, Duration, Instant};
use weir_policy::codes as common;
use weir_policy::finding::{Draft, Report, Span};
use weir_policy::reader::{Node, Table, list, suggest};

/// The context that all sources share.
pub(super) struct Reading<'a> {
    names: BTreeMap<String, Span>,
    duration: Option<Duration>,
    place: Place<'a>,
    files: &'a Files<'a>,
}

/// The part of a source that is read before its traffic.
struct Known<'h> {
    headers: Option<&'h Headers>,
    /// The protocol that carries its data.
    carrier: Carrier,
    mtu: Option<Mtu>,
}

impl<'a> Reading<'a> {
    pub fn new(duration: Option<Duration>, place: Place<'a>, files: &'a Files<'a>) -> Self {
        Self { names: BTreeMap::new(), duration, place, files }
    }

    /// Reads a source, or several that a capture holds; `None` if there is an error.
    pub fn read(&mut self, node: &Node<'_>, report: &mut Report) -> Option<Vec<Source>> {
        let mut table = node.table(report)?.with_keys(keys::SOURCE);
        let name = table.required("name", report).and_then(|node| self.name(&node, report));
        if let Some(name) = &name {
            table = table.named(format!("source `{name}`"));
            // A renamed table still knows that the key was read.
        }
        let kind = table.required("kind", report);
        let kind = kind.and_then(|node| node.choice(&keywords(), report));
        if let Some(row) = keys::sources().find(|row| Some(row.keyword) == kind) {
            table.add_keys(row.keys);
        }
        let carrier = carrier(kind, &mut table, report).unwrap_or(Carrier::Datagrams);
        let way = self.way(&mut table, report);
        let headers = self.headers(&mut table, carrier, way.addresses, report);
        let interface = self.interface(&mut table, report);
        let class = table.field("class");
        let span = self.span(&mut table, report);
        let known = Known { headers: headers.as_ref(), carrier, mtu: way.mtu };
        let parts = kind.and_then(|kind| self.parts(kind, &mut table, known, report));
        if kind.is_some() {
            table.finish(report);
        }
        way.check(&headers, report, &table);
        if let (Some(class), Some(headers)) = (class, &headers) {
            self.check_class(&class, &way, (headers, interface), report);
        }
        let headers = headers?;
        let traffic = parts.as_ref().and_then(|parts| parts.first().map(|part| &part.traffic));
        if let Some(traffic) = traffic.filter(|traffic| traffic.connects()) {
            check_connection(&headers, traffic, &table, report);
        }
        let ((start, stop), name) = (span?, name?);
        let ends = way.ends;
        let source = |part: Part| {
            let headers = part.headers.unwrap_or(headers);
            let suffix = part.suffix.map(|suffix| format!("/{suffix}"));
            let name = name.clone() + suffix.as_deref().unwrap_or("");
            Source { name, headers, interface, start, stop, traffic: part.traffic, ends }
        };
        let sources: Vec<_> = parts?.into_iter().map(source).collect();
        self.check_count(&sources, &table, report);
        for source in sources.iter().filter(|source| source.name != name) {
            self.add_name(&source.name, node.span(), report)?;
        }
        Some(sources)
    }

    /// Reads the traffic of one source or several.
    fn parts(
        &self,
        kind: &'static str,
        table: &mut Table<'_>,
        Known { headers, carrier, mtu }: Known<'_>,
        report: &mut Report,
    ) -> Option<Vec<Part>> {
        let Some(model) = kinds::find(kind) else {
            let before = headers.map_or(0, front);
            return traffic(kind, table, (before, mtu), report).map(Part::only);
        };
        let headers = headers.unwrap_or(&Headers::UNKNOWN);
        (model.read)(&mut Context { table, headers, carrier, mtu, files: self.files, report })
    }

    fn name(&mut self, node: &Node<'_>, report: &mut Report) -> Option<String> {
        let name = node.name(report)?.to_owned();
        self.add_name(&name, node.span(), report)?;
        Some(name)
    }

    fn add_name(&mut self, name: &str, span: Span, report: &mut Report) -> Option<()> {
        if let Some(first) = self.names.insert(name.to_owned(), span) {
            let message = format!("two sources are called `{name}`");
            report.push(
                Draft::new(&codes::NAME_TWICE, span, message)
                    .related(first, "the first one")
                    .cure("give each a name of its own"),
            );
            return None;
        }
        Some(())
    }

    fn headers(
        &self,
        table: &mut Table<'_>,
        carrier: Carrier,
        default: [IpAddr; 2],
        report: &mut Report,
    ) -> Option<Headers> {
        let protocol = read_or(table.field("proto"), carrier.protocol(), report, Node::parsed);
        let addresses = addresses(table, default, report);
        // Each source is a flow of its own, unless it says otherwise.
        let own = PORT_FIRST + ((self.names.len().max(1) - 1) % PORTS) as u64;
        let sport = table.written("sport", report).map(|sport| sport.unwrap_or(own));
        let dport = table.value::<u64>("dport", report);
        let dscp = read_or(table.field("dscp"), None, report, |node, report| {
            node.parsed::<Dscp>(report).map(Some)
        });
        // The endpoints of a connection write ECN themselves; with them, the key says how.
        let field = if carrier != Carrier::Datagrams { None } else { table.field("ecn") };
        let ecn = read_or(field, None, report, |node, report| node.parsed::<Ecn>(report).map(Some));
        let vlan = read_or(table.field("vlan"), None, report, |node, report| {
            node.parsed::<VlanId>(report).map(Some)
        });
        let pcp = read_or(table.field("pcp"), None, report, |node, report| {
            node.parsed::<Pcp>(report).map(Some)
        });
        let station =
            |node: &Node<'_>, report: &mut Report| node.parsed::<MacAddress>(report).map(Some);
        let source_mac = read_or(table.field("src_mac"), None, report, station);
        let destination_mac = read_or(table.field("dst_mac"), None, report, station);
        let mark = table.value::<u64>("mark", report);
        let protocol = protocol?;
        let icmp = read_or(table.field("icmp_type"), None, report, |node, report| {
            message(node, protocol, report).map(Some)
        });
        let ports = Ports { source: sport? as u16, destination: dport? as u16 };
        let mut headers = Headers::of_flow(addresses?, protocol, ports);
        if !protocol.has_ports() {
            headers.ports = None;
        }
        let code = dscp?.map_or(0, Dscp::code) << 2;
        headers.traffic_class = Some(code | ecn?.map_or(0, |ecn| ecn as u8));
        headers.vlan = tag(vlan?, pcp?);
        headers.transport = icmp?.map_or(Transport::Unknown, |test| {
            let code = test.code.unwrap_or(0);
            Transport::Icmp(IcmpType { number: test.number, code })
        });
        headers.macs = stations(source_mac?, destination_mac?);
        headers.mark = mark? as u32;
        Some(headers)
    }

    fn interface(&self, table: &mut Table<'_>, report: &mut Report) -> InterfaceId {
        // In a network packets come by links, and rules name these.
        let Place::Link(policy) = self.place else { return INTERFACE_NONE };
        let Some(node) = table.field("interface") else { return INTERFACE_NONE };
        let known = policy.map(|policy| &policy.interfaces);
        let (Some(name), Some(known)) = (node.name(report), known) else {
            return INTERFACE_NONE;
        };
        if let Some(index) = known.iter().position(|interface| interface == name) {
            return InterfaceId(index as u16);
        }
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let message =
            format!("no rule of the policy names `{name}`; its rules name {}", list(&known));
        report.push(node.draft(&codes::UNKNOWN_INTERFACE, message).cure(suggest(name, &known)));
        INTERFACE_NONE
    }

    /// When it starts and stops.
    fn span(
        &self,
        table: &mut Table<'_>,
        report: &mut Report,
    ) -> Option<(Instant, Option<Instant>)> {
        let start = table.value_by("start", report, bounded);
        let stop_node = table.field("stop");
        let stop = read_or(stop_node.clone(), Duration::ZERO, report, bounded);
        let (start, stop) = (start?, stop?);
        let stop = stop_node.map(|_| stop);
        let over = self.duration.is_some_and(|duration| start >= duration);
        if over || stop.is_some_and(|stop| stop <= start) {
            let message = format!("{} never sends: it starts at {start}", table.name());
            let cure = "let it start before it stops and before the scenario ends";
            report.push(Draft::new(&codes::NEVER_SENDS, table.span(), message).cure(cure));
        }
        let at = |offset: Duration| Instant::ZERO.after(offset);
        Some((at(start), stop.map(at)))
    }
}

impl Reading<'_> {
    /// Reports a source that offers more packets than a run gets through in minutes.
    fn check_count(&self, sources: &[Source], table: &Table<'_>, report: &mut Report) {
        let Some(duration) = self.duration else { return };
        let count = |source: &Source| {
            let distance = source.traffic.mean_distance()?;
            Some(duration.as_nanos() / distance.as_nanos().max(1))
        };
        let most = sources.iter().filter_map(count).max().unwrap_or(0);
        if most > PACKETS_MANY {
            let message = format!(
                "{} offers about {most} packets in {duration}, and a run gets through some million \
                 in a second",
                table.name()
            );
            let cure = "write a lower rate, longer packets or a shorter `duration`";
            report.push(Draft::new(&codes::TOO_DENSE, table.span(), message).cure(cure));
        }
    }
}

/// Packets of a source beyond which it is reported.
const PACKETS_MANY: u64 = 200_000_000;

/// Every kind of source.
fn keywords() -> Vec<&'static str> {
    keys::sources().map(|kind| kind.keyword).collect()
}

/// Reads the protocol that carries the data of this kind.
fn carrier(kind: Option<&str>, table: &mut Table<'_>, report: &mut Report) -> Option<Carrier> {
    let kind = kind?;
    match kinds::find(kind) {
        Some(model) => (model.carrier)(table, report),
        None if kind == "tcp" => Some(Carrier::Tcp),
        None if kind == "quic" => Some(Carrier::Quic),
        None => Some(Carrier::Datagrams),
    }
}

/// How a source's packets travel, in a network.
struct Way {
    ends: Option<Ends>,
    route: Vec<OutletId>,
    /// Addresses of packets that name none.
    addresses: [IpAddr; 2],
    /// The MTU of the first link.
    mtu: Option<Mtu>,
    /// The smallest MTU on the way, there or back, and its link.
    least: Option<(u32, String)>,
}

impl Way {
    const NONE: Way =
        Way { ends: None, route: Vec::new(), addresses: ADDRESSES_V4, mtu: None, least: None };

    /// By which interface of its policy packets come to the main outlet, if they do.
    fn comes_to_main(&self, read: &network::Read) -> Option<InterfaceId> {
        let main = read.network.main;
        let place = self.route.iter().position(|&outlet| outlet == main)?;
        let before = place.checked_sub(1).map(|before| self.route[before]);
        let came_by = before.map(|outlet| &read.network.outlet(outlet).0.name);
        let names = &read.policies.get(&main)?.interfaces;
        let place = names.iter().position(|name| Some(name) == came_by);
        Some(place.map_or(INTERFACE_NONE, |place| InterfaceId(place as u16)))
    }

    /// Reports links whose MTU is too small for the packets that cross them.
    fn check(
        &self,
        headers: &Option<Headers>,
        report: &mut Report,
        table: &Table<'_>,
    ) -> Option<()> {
        let (least, link) = self.least.as_ref()?;
        let six = matches!(headers.as_ref()?.addresses, Addresses::V6 { .. });
        if six && *least < IPV6_MTU_MIN {
            let message = format!(
                "{} is IPv6, for which the MTU of link `{link}`, {least} B, is too small",
                table.name()
            );
            let cure = format!("write an MTU of at least {IPV6_MTU_MIN} B, or IPv4 addresses");
            report.push(Draft::new(&codes::LINK_TOO_SMALL, table.span(), message).cure(cure));
        }
        Some(())
    }
}

impl Reading<'_> {
    /// `from` and `to`, and the route between them.
    fn way(&self, table: &mut Table<'_>, report: &mut Report) -> Way {
        let Place::Network(read) = self.place else { return Way::NONE };
        let (from, to) = (table.required("from", report), table.required("to", report));
        let (Some(read), Some(from), Some(to)) = (read, from, to) else { return Way::NONE };
        let find = |node: &Node<'_>, report: &mut Report| {
            let name = node.name(report)?;
            let known = read.network.node(name);
            if known.is_none() {
                let names = read.network.nodes.iter().map(|node| node.name.as_str());
                let draft = network::unknown_node(node, name, &names.collect::<Vec<_>>());
                report.push(draft);
            }
            known
        };
        let (from, to) = (find(&from, report), find(&to, report));
        let (Some(from), Some(to)) = (from, to) else { return Way::NONE };
        self.routed(read, Ends { from, to }, table, report)
    }

    fn routed(
        &self,
        read: &network::Read,
        ends: Ends,
        table: &Table<'_>,
        report: &mut Report,
    ) -> Way {
        let there = route(&read.network, ends);
        let back = route(&read.network, Ends { from: ends.to, to: ends.from });
        let (Some(there), Some(back)) = (there, back) else {
            let name = |id: NodeId| &read.network.nodes[id.0 as usize].name;
            let (from, to) = (name(ends.from), name(ends.to));
            let message = format!("{}: no route leads from `{from}` to `{to}`", table.name());
            let cure = "join them by links and routers; only a node with `router = true` forwards";
            report.push(Draft::new(&codes::NO_ROUTE, table.span(), message).cure(cure));
            return Way::NONE;
        };
        let link = |&outlet| {
            let link = read.network.outlet(outlet).0;
            (link.mtu, link.name.clone())
        };
        let address = |id: NodeId| read.addresses[id.0 as usize];
        Way {
            ends: Some(ends),
            addresses: [address(ends.from), address(ends.to)],
            mtu: there.first().and_then(|first| Mtu::new(link(first).0.max(MTU_MIN))),
            least: there.iter().chain(&back).map(link).min(),
            route: there,
        }
    }

    /// Whether packets with these headers, from this interface of one link, go to the class that
    /// the source names; in a network, at its main outlet.
    fn check_class(
        &self,
        node: &Node<'_>,
        way: &Way,
        (headers, interface): (&Headers, InterfaceId),
        report: &mut Report,
    ) -> Option<()> {
        let name = node.name(report)?;
        let (policy, interface) = match self.place {
            Place::Link(policy) => (policy?, Some(interface)),
            Place::Network(read) => {
                let read = read?;
                (read.policies.get(&read.network.main)?, way.comes_to_main(read))
            }
        };
        if policy.class(name).is_none() {
            let names = policy.link.tree.classes().map(|(_, class)| class.name.as_str());
            let names: Vec<_> = names.collect();
            let message = format!("the policy has no class `{name}`; it has {}", list(&names));
            report.push(node.draft(&codes::UNKNOWN_CLASS, message).cure(suggest(name, &names)));
            return None;
        }
        let tree = &policy.link.tree;
        let mut classifier = policy.classifier();
        if classifier.tests_details() {
            // Packets of one source may go to several classes.
            return Some(());
        }
        let leaf =
            interface.map(|interface| classifier.classify(Instant::ZERO, interface, headers).leaf);
        let path = leaf.map(|leaf| tree.path(tree.class_of(leaf)));
        if path.is_some_and(|mut path| path.any(|class| tree.class(class).name == name)) {
            return Some(());
        }
        let message = match leaf {
            Some(leaf) => format!("its packets go to `{}`", policy.leaf_name(leaf)),
            None => "its packets do not pass the link with the policy".to_owned(),
        };
        let cure = "write headers that the rules accept, or correct the rules";
        report.push(node.draft(&codes::OTHER_CLASS, message).cure(cure));
        None
    }
}

/// Reads the type of an ICMP message; reports one of another protocol.
fn message(node: &Node<'_>, protocol: Protocol, report: &mut Report) -> Option<IcmpTest> {
    if icmp_names(protocol).is_empty() {
        let message = format!("packets of protocol {protocol} have no such type");
        let cure = "write `proto = \"icmp\"` or `proto = \"icmpv6\"`";
        report.push(node.draft(&common::BAD_VALUE, message).cure(cure));
        return None;
    }
    node.parsed_by(report, |text| IcmpTest::parse(protocol, text))
}

/// The tag of a VLAN, or of a priority alone, which has number 0.
fn tag(vlan: Option<VlanId>, pcp: Option<Pcp>) -> Option<VlanTag> {
    let id = vlan.map_or(0, VlanId::id);
    (vlan.is_some() || pcp.is_some())
        .then(|| VlanTag(id | u16::from(pcp.map_or(0, Pcp::code)) << PRIORITY_SHIFT))
}

/// The value read, `default` if the key is not written, `None` if it is wrong.
pub(crate) fn read_or<'a, T>(
    node: Option<Node<'a>>,
    default: T,
    report: &mut Report,
    read: impl FnOnce(&Node<'a>, &mut Report) -> Option<T>,
) -> Option<T> {
    match node {
        Some(node) => read(&node, report),
        None => Some(default),
    }
}

/// Bytes of a frame in front of the payload.
fn front(headers: &Headers) -> u32 {
    let ip = if matches!(headers.addresses, Addresses::V6 { .. }) { 40 } else { 20 };
    let tag = if headers.vlan.is_some() { 4 } else { 0 };
    14 + tag + ip + 8
}

/// Returns the stations of a source that names at least one; the other is that of no card.
fn stations(source: Option<MacAddress>, destination: Option<MacAddress>) -> Option<Macs> {
    let none = MacAddress([0; 6]);
    let macs = Macs { source: source.unwrap_or(none), destination: destination.unwrap_or(none) };
    (source.is_some() || destination.is_some()).then_some(macs)
}

fn addresses(
    table: &mut Table<'_>,
    default: [IpAddr; 2],
    report: &mut Report,
) -> Option<Addresses> {
    let (from, to) = (table.field("src"), table.field("dst"));
    let span = to.as_ref().or(from.as_ref()).map(Node::span);
    let read = |node: Option<Node<'_>>, report: &mut Report| {
        read_or(node, None, report, |node, report| {
            node.parsed::<Address>(report).map(|address| Some(address.0))
        })
    };
    let (from, to) = (read(from, report), read(to, report));
    let (from, to) = (from?, to?);
    // An address that is not written is of the family of the one that is.
    let [default_from, default_to] = match from.or(to) {
        Some(written) if written.is_ipv6() != default[0].is_ipv6() => {
            if written.is_ipv6() {
                ADDRESSES_V6
            } else {
                ADDRESSES_V4
            }
        }
        _ => default,
    };
    match (from.unwrap_or(default_from), to.unwrap_or(default_to)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some(Addresses::V4 { source, destination })
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some(Addresses::V6 { source, destination })
        }
        (from, to) => {
            let message = format!("{from} and {to} are of different IP versions");
            let span = span.unwrap_or(table.span());
            let cure = "write two addresses of one version";
            report.push(Draft::new(&codes::FAMILIES, span, message).cure(cure));
            None
        }
    }
}

/// `front` holds the bytes of a frame before its payload, and the MTU of a network's first link.
fn traffic(
    kind: &str,
    table: &mut Table<'_>,
    (before, mtu): (u32, Option<Mtu>),
    report: &mut Report,
) -> Option<Traffic> {
    if kind == "tcp" {
        return tcp::read(table, mtu, report).map(Traffic::Tcp);
    }
    if kind == "quic" {
        return quic::read(table, mtu, report).map(Traffic::Quic);
    }
    let sizes = sizes(table, before, report);
    let spacing = spacing(table, report);
    Some(match kind {
        "cbr" => {
            let jitter = table.value("jitter", report);
            Traffic::Cbr { sizes: sizes?, spacing: spacing?, jitter: jitter? }
        }
        "poisson" => Traffic::Poisson { sizes: sizes?, spacing: spacing? },
        _ => {
            let (on, off) = (table.required("on", report), table.required("off", report));
            let distribution = Distribution::read(table, report);
            let mut period = |node: Option<Node<'_>>| distribution?.period(&node?, report);
            let (on, off) = (period(on), period(off));
            Traffic::OnOff { sizes: sizes?, spacing: spacing?, on: on?, off: off? }
        }
    })
}

/// `size`, `payload` or `sizes`.
fn sizes(table: &mut Table<'_>, before: u32, report: &mut Report) -> Option<Sizes> {
    let node = one_of(table, &["size", "payload", "sizes"], report)?;
    match node.key() {
        "size" => Sizes::fixed(length(&node, 0, report)?),
        "payload" => Sizes::fixed(length(&node, before, report)?),
        _ => mixed(&node, report),
    }
}

/// The length of a frame of which `before` bytes are not written.
fn length(node: &Node<'_>, before: u32, report: &mut Report) -> Option<u32> {
    let bytes = node.bytes(report)?;
    let most = LENGTH_MAX - before;
    let fits = u32::try_from(bytes.get()).ok().filter(|bytes| (1..=most).contains(bytes));
    if fits.is_none() {
        let message = format!("{bytes} is not in 1 B to {most} B");
        let cure = "write the length of a frame, without its check sequence";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    }
    fits.map(|bytes| bytes + before)
}

fn mixed(node: &Node<'_>, report: &mut Report) -> Option<Sizes> {
    let nodes = node.elements(report)?;
    if nodes.len() > SIZES_MAX {
        let message = format!("has {} rows, more than {SIZES_MAX}", nodes.len());
        report.push(node.draft(&common::TOO_MANY, message).cure("leave out the rarest"));
        return None;
    }
    let mut rows = Vec::with_capacity(nodes.len());
    for row in &nodes {
        let mut row = row.table(report)?.named("a row of `sizes`").with_keys(keys::SIZES);
        let size = row.required("size", report).and_then(|node| length(&node, 0, report));
        let share = row.required("share", report).and_then(|node| node.share(report));
        row.finish(report);
        rows.push((size?, share?));
    }
    let sizes = Sizes::mixed(&rows);
    if sizes.is_none() {
        let message = "the shares do not make 100 %";
        report.push(node.draft(&codes::NOT_WHOLE, message).cure("let them add up to 100 %"));
    }
    sizes
}

/// Reads `rate` or `interval`.
fn spacing(table: &mut Table<'_>, report: &mut Report) -> Option<Spacing> {
    let node = one_of(table, &["rate", "interval"], report)?;
    if node.key() == "rate" {
        return node.rate(report).map(Spacing::rate);
    }
    let spacing = Spacing::interval(bounded(&node, report)?);
    if spacing.is_none() {
        let cure = "write the time from one packet to the next";
        report.push(node.draft(&common::OUT_OF_RANGE, "must be more than 0 s").cure(cure));
    }
    spacing
}

/// The one of `keys` that is written. That there is none or more than one is a finding.
fn one_of<'a>(
    table: &mut Table<'a>,
    keys: &[&'static str],
    report: &mut Report,
) -> Option<Node<'a>> {
    let mut nodes = keys.iter().filter_map(|key| table.field(key)).collect::<Vec<_>>().into_iter();
    let Some(first) = nodes.next() else {
        let message = format!("{} has none of {}", table.name(), list(keys));
        let cure = format!("write one of {}", list(keys));
        report.push(Draft::new(&codes::ONE_OF, table.span(), message).cure(cure));
        return None;
    };
    if let Some(second) = nodes.next() {
        let message = format!("excludes `{}`", first.key());
        report.push(
            second
                .draft(&codes::EXCLUSIVE, message)
                .related(first.key_span(), "the other one")
                .cure("take one of them out"),
        );
        return None;
    }
    Some(first)
}

/// How periods are distributed around their mean.
#[derive(Clone, Copy)]
pub(crate) enum Distribution {
    Constant,
    Exponential,
    Pareto(f64),
}

impl Distribution {
    /// `distribution`, and `shape` with Pareto's.
    pub fn read(table: &mut Table<'_>, report: &mut Report) -> Option<Self> {
        let word = table.word("distribution", report)?;
        let shape = table.field("shape");
        match (word, shape) {
            ("pareto", None) => Some(Distribution::Pareto(SHAPE_DEFAULT)),
            ("pareto", Some(node)) => {
                let shape = node.parsed::<Number>(report)?.0;
                if Pareto::new(Duration::ZERO, shape).is_none() {
                    let message = format!("{shape} is not above 1 and at most 100");
                    let cure = "write 1.5, for example; at 1 or less there is no mean";
                    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
                    return None;
                }
                Some(Distribution::Pareto(shape))
            }
            (_, Some(node)) => {
                let cure = "write `distribution = \"pareto\"`, or take `shape` out";
                report.push(node.draft(&codes::NEEDLESS, "means nothing here").cure(cure));
                None
            }
            ("constant", None) => Some(Distribution::Constant),
            _ => Some(Distribution::Exponential),
        }
    }

    pub fn period(self, node: &Node<'_>, report: &mut Report) -> Option<Period> {
        self.of(bounded(node, report)?)
    }

    /// The period with this mean.
    pub fn of(self, mean: Duration) -> Option<Period> {
        Some(match self {
            Distribution::Constant => Period::Constant(mean),
            Distribution::Exponential => Period::Exponential(mean),
            Distribution::Pareto(shape) => Period::Pareto(Pareto::new(mean, shape)?),
        })
    }
}

pub(crate) fn mtu(node: &Node<'_>, report: &mut Report) -> Option<Mtu> {
    let bytes = node.bytes(report)?;
    let mtu = u32::try_from(bytes.get()).ok().and_then(Mtu::new);
    if mtu.is_none() {
        let message = format!("{bytes} is not in 576 B to 65535 B");
        let cure = "write the length of the largest IP packet, such as `1500 B`";
        report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    }
    mtu
}

fn check_connection(headers: &Headers, traffic: &Traffic, table: &Table<'_>, report: &mut Report) {
    let Err(why) = crate::run::check_endpoints(headers, traffic) else { return };
    let message = format!("{}: {why}", table.name());
    let cure = if why.contains("MTU") {
        "write a larger `mtu`"
    } else {
        "write `src`, `dst`, `sport` and `dport` of two hosts, and leave `proto` out"
    };
    report.push(Draft::new(&codes::TCP_HEADERS, table.span(), message).cure(cure));
}

/// A size from a byte to `most`; without it, the default of its row.
pub(crate) fn amount(
    table: &mut Table<'_>,
    name: &'static str,
    most: u64,
    report: &mut Report,
) -> Option<u64> {
    let usual: Bytes = table.row(name).default.parse().expect("the default is a size");
    amount_or(table.field(name), usual.get(), most, report)
}

/// A size from a byte to `most`; without it, `usual`.
pub(crate) fn amount_or(
    node: Option<Node<'_>>,
    usual: u64,
    most: u64,
    report: &mut Report,
) -> Option<u64> {
    let Some(node) = node else { return Some(usual) };
    let bytes = node.bytes(report)?;
    if (1..=most).contains(&bytes.get()) {
        return Some(bytes.get());
    }
    let message = format!("{bytes} is not in 1 B to {}", Bytes::new(most));
    let cure = format!("write {}, for example", Bytes::new(usual));
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

/// A distance in time: more than nothing.
pub(crate) fn spread(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let duration = bounded(node, report)?;
    if duration == Duration::ZERO {
        let cure = "write a time";
        report.push(node.draft(&common::OUT_OF_RANGE, "must be more than 0 s").cure(cure));
        return None;
    }
    Some(duration)
}

/// A number with a fraction between two bounds, both included.
pub(crate) fn fraction(
    node: &Node<'_>,
    (least, most): (f64, f64),
    report: &mut Report,
) -> Option<f64> {
    let number = node.parsed::<Number>(report)?.0;
    if (least..=most).contains(&number) {
        return Some(number);
    }
    let message = format!("{number} is not in {least} to {most}");
    let cure = format!("write {least}, for example");
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

const MTU_MIN: u32 = 576;
const IPV6_MTU_MIN: u32 = 1280;
/// Heavy-tailed with a mean: the shape that is usual for on and off times of the Web.
const SHAPE_DEFAULT: f64 = 1.5;
/// Source ports of sources that name none: the dynamic ones.
const PORT_FIRST: u64 = 49_152;
const PORTS: usize = 16_384;
/// Where the priority begins in a tag.
const PRIORITY_SHIFT: u16 = 13;
/// Addresses of sources that name none: those reserved for documentation.
const ADDRESSES_V4: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))];
const ADDRESSES_V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1)),
];
