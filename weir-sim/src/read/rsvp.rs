//! `[rsvp]` and the `[[reservation]]` entries: how nodes of a network signal, and who reserves.

use super::source::read_or;
use super::{Times, bounded, codes, keys, network};
use crate::change::PlanChange;
use crate::network::plan::OutletId;
use crate::network::signalling::plan::{
    RESERVATIONS_MAX, RETUNES_MAX, Reservation, SENDERS_MAX, Signalling,
};
use crate::network::signalling::{joins, model};
use crate::scenario::Source;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_core::packet::{Addresses, Headers};
use weir_core::units::{Bytes, Duration, Instant};
use weir_policy::codes as common;
use weir_policy::deployment::EXCESSES;
use weir_policy::finding::{Draft, Report, Span};
use weir_policy::policy::Policy;
use weir_policy::reader::{Node, Table, list, suggest};
use weir_rsvp::intserv::{Rspec, Tspec};
use weir_rsvp::node::Timers;
use weir_rsvp::receiver::Asked;
use weir_rsvp::wire::{Filter, Session, Style};

/// The sources and changes of a scenario, which reservations must fit.
pub(super) struct Others<'s> {
    pub sources: &'s [Source],
    pub changes: &'s [PlanChange],
}

/// Reads the signalling of a network, if it has any, and gives the outlets that have the class for
/// reservations all places of their policies.
pub(super) fn read(
    top: &mut Table<'_>,
    times: Option<Times>,
    read: Option<&mut network::Read>,
    Others { sources, changes }: Others<'_>,
    report: &mut Report,
) -> Option<()> {
    let (section, rows) = (top.field("rsvp"), top.field("reservation"));
    let (section, rows) = match (section, rows) {
        (None, None) => return Some(()),
        (Some(section), None) => {
            let cure = "write a table `[[reservation]]`, or take it out";
            report.push(section.draft(&codes::NEEDLESS, "no flow is reserved").cure(cure));
            return None;
        }
        (None, Some(rows)) => {
            let message = "reservations need a table `[rsvp]`";
            let cure = "write `[rsvp]` with the class that they go below";
            report.push(rows.draft(&codes::ONE_OF, message).cure(cure));
            return None;
        }
        (Some(section), Some(rows)) => (section, rows),
    };
    let mut signalling = section_of(&section, read.as_deref(), report)?;
    let read = read?;
    if let Some(change) = changes.iter().find(|row| signalling.policies.contains_key(&row.outlet)) {
        let (link, from) = read.network.outlet_names(change.outlet);
        let message =
            format!("link `{link}` from `{from}` takes reservations and changes its policy");
        let cure = "take the change out, or give the other policy to another link";
        report.push(section.draft(&codes::EXCLUSIVE, message).cure(cure));
        return None;
    }
    let nodes = super::rows(&rows, ("of them", RESERVATIONS_MAX), report)?;
    let mut names = BTreeMap::new();
    for node in &nodes {
        let duration = times.map(|times| times.0);
        let row = reservation(node, (&mut names, sources), duration, report);
        signalling.reservations.extend(row);
    }
    expand(read, &signalling);
    read.network.signalling = Some(Box::new(signalling));
    Some(())
}

/// Gives outlets a leaf for each place.
fn expand(read: &mut network::Read, signalling: &Signalling) {
    for (&outlet, policy) in &signalling.policies {
        let link = &mut read.network.links[outlet.index() / 2];
        let own = link.outlets[outlet.index() % 2].queueing.as_deref_mut();
        let queueing = own.unwrap_or(&mut read.main);
        let framing = queueing.link.framing;
        queueing.link = policy.link.clone();
        queueing.link.framing = framing;
        queueing.classifier = policy.classifier();
    }
}

/// Reads the table `[rsvp]`.
fn section_of(
    node: &Node<'_>,
    read: Option<&network::Read>,
    report: &mut Report,
) -> Option<Signalling> {
    let mut table = node.table(report)?.named("[rsvp]").with_keys(keys::SIGNALLING);
    let class = table.required("class", report);
    let refresh = table.value_by("refresh", report, bounded);
    let excess = table.one_of("excess", EXCESSES, report);
    let delay = table.field("delay").map(|node| bounded(&node, report));
    let reduction = table.value("reduction", report);
    let loss = table.value("loss", report);
    let from = table.value_by("loss_from", report, bounded);
    let until = table.field("loss_until").map(|node| bounded(&node, report));
    table.finish(report);
    let class = class?;
    let name = class.name(report)?;
    let read = read?;
    let policies = reserving(read, (&class, name), report)?;
    let at = |offset: Duration| Instant::ZERO.after(offset);
    let until = until.map_or(Some(Instant::MAX), |until| until.map(at))?;
    Some(Signalling {
        timers: Timers { period: refresh?, ..Timers::default() },
        reduction: reduction?,
        loss: loss?,
        lossy: (at(from?), until),
        class: name.to_owned(),
        excess: excess?,
        delay: delay.map_or(Some(None), |read| Some(Some(read?)))?,
        policies,
        addresses: read.addresses.clone(),
        reservations: Vec::new(),
    })
}

/// The policies with the class, with all their places.
fn reserving(
    read: &network::Read,
    (node, name): (&Node<'_>, &str),
    report: &mut Report,
) -> Option<BTreeMap<OutletId, Policy>> {
    let with_class: Vec<_> =
        read.policies.iter().filter(|(_, policy)| policy.class(name).is_some()).collect();
    let refuse = |message: String, cure: &str| node.draft(&codes::NO_PLACES, message).cure(cure);
    if with_class.is_empty() {
        let classes: Vec<_> = read
            .policies
            .values()
            .flat_map(|policy| policy.link.tree.classes().map(|(_, class)| class.name.as_str()))
            .collect();
        let message = format!("no policy of the network has a class `{name}`");
        report.push(refuse(message, &suggest(name, &classes)));
        return None;
    }
    let mut policies = BTreeMap::new();
    for (&outlet, policy) in with_class {
        let (link, from) = read.network.outlet_names(outlet);
        let class = policy.class(name);
        let can_join = joins(policy);
        if !can_join && model(policy, class?).is_none() {
            let message = format!("class `{name}` of link `{link}` has no leaf, from `{from}`");
            let cure = "write a class below it, which those of reservations are like";
            report.push(refuse(message, cure));
            return None;
        }
        if can_join && !policy.places.iter().any(|places| places.parent == class) {
            let message = format!("class `{name}` of link `{link}` has no places, from `{from}`");
            report.push(refuse(message, "write `places = 100` in the class"));
            return None;
        }
        if policy.link.tree.class(class?).params.rate("rate").is_none() {
            let message = format!("class `{name}` of link `{link}` has no rate, from `{from}`");
            report.push(refuse(message, "write `rate` in the class"));
            return None;
        }
        policies.insert(outlet, policy.clone().with_places());
    }
    Some(policies)
}

/// Reads one `[[reservation]]`.
fn reservation(
    node: &Node<'_>,
    (names, sources): (&mut BTreeMap<Session, Span>, &[Source]),
    duration: Option<Duration>,
    report: &mut Report,
) -> Option<Reservation> {
    let mut table = node.table(report)?.named("a reservation").with_keys(keys::RESERVATIONS);
    let name = table.field("name");
    let own_name = name.as_ref().map(|node| node.name(report));
    let flows = table.required("flow", report);
    let style = table.one_of("style", STYLES, report);
    let start = table.value_by("start", report, bounded);
    let stop = table.field("stop").map(|node| bounded(&node, report));
    let tspec = tspec(&mut table, None, report);
    let service = service(&mut table, report);
    let retunes = table.field("retune");
    let retunes = retunes
        .map_or(Some(Vec::new()), |node| retunes_of(&node, tspec.as_ref()?, duration, report));
    table.finish(report);
    let flows = flows?;
    let sources = named(&flows, sources, report)?;
    let (first, headers) = sources.first().map(|source| (*source, &source.headers))?;
    let (session, _) = ends(headers)?;
    let receiver = first.ends?.to;
    if let Some(other) = sources.iter().find(|source| {
        source.ends.map(|ends| ends.to) != Some(receiver)
            || ends(&source.headers).map(|ends| ends.0) != Some(session)
    }) {
        let message = format!("`{}` and `{}` go to two sessions", first.name, other.name);
        let cure = "name flows to one address, protocol and destination port";
        report.push(flows.draft(&codes::OTHER_SESSION, message).cure(cure));
        return None;
    }
    if let Some(earlier) = names.insert(session, table.span()) {
        let message = format!("two reservations are of the session to {session}");
        let draft = Draft::new(&codes::OTHER_SESSION, table.span(), message);
        let cure = "name all its flows in one reservation, or give a flow another port";
        report.push(draft.related(earlier, "the first one").cure(cure));
        return None;
    }
    let senders =
        sources.iter().filter_map(|source| Some((source.ends?.from, ends(&source.headers)?.1)));
    let senders: Vec<_> = senders.collect();
    let at = |offset: Duration| Instant::ZERO.after(offset);
    let stop = stop.map_or(Some(None), |stop| stop.map(|stop| Some(at(stop))))?;
    Some(Reservation {
        name: own_name.map_or(Some(first.name.as_str()), |name| name)?.to_owned(),
        session,
        receiver,
        senders,
        style: style?,
        tspec: tspec?,
        service: service?,
        start: at(start?),
        stop,
        retunes: retunes?,
    })
}

/// The sources that `flow` names: one, or several.
fn named<'s>(
    flows: &Node<'_>,
    sources: &'s [Source],
    report: &mut Report,
) -> Option<Vec<&'s Source>> {
    let nodes = flows.one_or_many();
    if nodes.is_empty() || nodes.len() > SENDERS_MAX {
        let message = format!("{} flows are not 1 to {SENDERS_MAX}", nodes.len());
        report.push(flows.draft(&common::OUT_OF_RANGE, message).cure("name a source"));
        return None;
    }
    let mut found = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let name = node.name(report)?;
        let Some(source) = sources.iter().find(|source| source.name == name) else {
            let known: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
            let shown = list(&known[..known.len().min(SHOWN_MAX)]);
            let message = format!("no source is called `{name}`; there are {shown}");
            report.push(node.draft(&codes::UNKNOWN_SOURCE, message).cure(suggest(name, &known)));
            return None;
        };
        found.push(source);
    }
    Some(found)
}

/// The session and the sender of packets with these headers.
fn ends(headers: &Headers) -> Option<(Session, Filter)> {
    let (source, destination): (IpAddr, IpAddr) = match headers.addresses {
        Addresses::V4 { source, destination } => (source.into(), destination.into()),
        Addresses::V6 { source, destination } => (source.into(), destination.into()),
        Addresses::Unknown => return None,
    };
    let ports = headers.ports.map_or((0, 0), |ports| (ports.source, ports.destination));
    let session = Session { destination, protocol: headers.protocol?.0, port: ports.1 };
    Some((session, Filter::new(source, ports.0)))
}

/// Reads a token bucket; what is not written is as `before`.
fn tspec(table: &mut Table<'_>, before: Option<&Tspec>, report: &mut Report) -> Option<Tspec> {
    let bits = |node: &Node<'_>, report: &mut Report| {
        node.rate(report).map(|rate| rate.bits_per_second() as f32 / 8.0)
    };
    let size = |node: &Node<'_>, report: &mut Report| {
        let bytes = node.bytes(report)?.get();
        let fits = u32::try_from(bytes).ok().filter(|bytes| (1..=BUCKET_MAX).contains(bytes));
        if fits.is_none() {
            let message =
                format!("{} is not 1 B to {}", Bytes::new(bytes), Bytes::new(BUCKET_MAX.into()));
            report.push(node.draft(&common::OUT_OF_RANGE, message).cure("write another size"));
        }
        fits
    };
    let rate = match before {
        Some(before) => read_or(table.field("rate"), before.rate, report, bits),
        None => table.required("rate", report).and_then(|node| bits(&node, report)),
    };
    let packet_max = before.map_or(PACKET_MAX_DEFAULT, |before| before.packet_max);
    let packet_max = read_or(table.field("packet_max"), packet_max, report, size);
    let packet_min = before.map_or(PACKET_MIN_DEFAULT, |before| before.packet_min);
    let packet_min = read_or(table.field("packet_min"), packet_min, report, size);
    let burst_node = table.field("burst");
    let burst = match (&burst_node, before) {
        (Some(node), _) => size(node, report).map(|bytes| bytes as f32),
        (None, Some(before)) => Some(before.bucket),
        (None, None) => packet_max.map(|bytes| (2 * bytes) as f32),
    };
    let peak = before.map_or(f32::INFINITY, |before| before.peak);
    let peak = read_or(table.field("peak"), peak, report, bits);
    let tspec = Tspec {
        rate: rate?,
        bucket: burst?,
        peak: peak?,
        packet_min: packet_min?,
        packet_max: packet_max?,
    };
    if let Some(fault) = tspec.fault() {
        let message = format!("such a flow cannot be reserved: {fault}");
        let cure = "let `packet_min` <= `packet_max` <= `burst`, and `rate` <= `peak`";
        report.push(Draft::new(&common::OUT_OF_RANGE, table.span(), message).cure(cure));
        return None;
    }
    Some(tspec)
}

/// Reads the service: controlled load, or guaranteed with a rate or a delay.
fn service(table: &mut Table<'_>, report: &mut Report) -> Option<Asked> {
    let service = table.word("service", report);
    let (delay, rate) = (table.field("delay"), table.field("service_rate"));
    let slack = table.field("slack");
    let is_guaranteed = service? == "guaranteed";
    match (is_guaranteed, delay, rate) {
        (false, None, None) if slack.is_none() => Some(Asked::ControlledLoad),
        (true, Some(delay), None) if slack.is_none() => {
            bounded(&delay, report).map(|delay| Asked::Queueing(delay.as_nanos() as f64 / 1e3))
        }
        (true, None, Some(rate)) => {
            let slack = read_or(slack, Duration::ZERO, report, bounded)?;
            let rate = rate.rate(report)?.bits_per_second() as f32 / 8.0;
            let slack = u32::try_from(slack.as_nanos() / 1000).unwrap_or(u32::MAX);
            Some(Asked::Rspec(Rspec { rate, slack }))
        }
        (false, ..) => {
            let message = format!("{}: controlled load has no delay and no rate", table.name());
            let cure = "write `service = \"guaranteed\"`, or take them out";
            report.push(Draft::new(&codes::NEEDLESS, table.span(), message).cure(cure));
            None
        }
        (true, ..) => {
            let message = format!("{}: guaranteed service needs one of `delay`", table.name());
            let message = message + " and `service_rate`";
            let cure = "write `delay = \"20 ms\"`, or `service_rate` with `slack` if you want";
            report.push(Draft::new(&codes::ONE_OF, table.span(), message).cure(cure));
            None
        }
    }
}

/// Reads the Tspecs of later instants, in their order.
fn retunes_of(
    node: &Node<'_>,
    first: &Tspec,
    duration: Option<Duration>,
    report: &mut Report,
) -> Option<Vec<(Instant, Tspec)>> {
    let nodes = super::rows(node, ("of them", RETUNES_MAX), report)?;
    let mut retunes: Vec<(Instant, Tspec)> = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let mut table = node.table(report)?.named("a retune").with_keys(keys::RETUNES);
        let at_node = table.required("at", report)?;
        let at = bounded(&at_node, report)?;
        let before = retunes.last().map_or(*first, |row| row.1);
        let tspec = tspec(&mut table, Some(&before), report)?;
        table.finish(report);
        let at = Instant::ZERO.after(at);
        let late = duration.is_some_and(|duration| at >= Instant::ZERO.after(duration));
        if late || retunes.last().is_some_and(|row| row.0 >= at) {
            let message = "is not later than the one before and within the run";
            let cure = "write them in the order of time";
            report.push(at_node.draft(&codes::CHANGE_ORDER, message).cure(cure));
            return None;
        }
        retunes.push((at, tspec));
    }
    Some(retunes)
}

/// The words of `style`.
pub(super) const STYLES: &[(&str, Style)] =
    &[("FF", Style::Fixed), ("SE", Style::Shared), ("WF", Style::Wildcard)];
/// The largest packet unless the scenario says otherwise: Ethernet's.
const PACKET_MAX_DEFAULT: u32 = 1500;
/// The size as which smaller packets count.
const PACKET_MIN_DEFAULT: u32 = 64;
/// In bytes.
const BUCKET_MAX: u32 = 1 << 30;
/// Names of sources in a finding.
const SHOWN_MAX: usize = 10;
