//! The `[link]` table: rate, scheduler and its parameters, framing, sizes.

use super::class::{ClassDraft, OVERSUBSCRIBE};
use super::classifier;
use super::places::{self, PlacesDraft};
use super::values::{Basis, Written, size};
use crate::codes;
use crate::finding::{Draft, Fix, Report, Span};
use crate::reader::{Node, Table, unknown_key};
use weir_core::classify::ClassifierPlan;
use weir_core::link::{Charge, Coding, Framing, PACKETS_MAX_DEFAULT};
use weir_core::parameter::{Scope, Value};
use weir_core::queue::{Limit, QueuePlan};
use weir_core::sched::{Descriptor, Entry, SCHEDULERS};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate};

/// The contents of `[link]`; `None` where a key is missing or wrong.
pub(crate) struct LinkSection {
    pub span: Span,
    pub rate: Option<Rate>,
    pub rate_span: Span,
    pub scheduler: Option<&'static Entry>,
    pub written: Written,
    pub framing: Framing,
    pub charge: Charge,
    pub buffer: Bytes,
    pub buffer_span: Option<Span>,
    /// Whether the rate follows that at which packets arrive.
    pub follows_arrivals: bool,
    /// The round-trip time of the paths through the link, for lints.
    pub rtt: Option<Duration>,
    pub fragments_span: Option<Span>,
    mtu: u32,
    pub seed: u64,
    pub classifier: ClassifierPlan,
    packets_max: Option<(u32, Span)>,
    /// The places for classes that join directly under the link.
    pub places: Option<PlacesDraft>,
}

impl LinkSection {
    pub(super) fn read(table: Table<'_>, report: &mut Report) -> Self {
        let mut table = table.named("[link]");
        let rate_node = table.required("rate", report);
        let scheduler =
            table.required("scheduler", report).and_then(|node| scheduler(&node, report));
        let overhead = table.field("overhead");
        let charge = table.field("charge").and_then(|node| node.choice(&["wire", "frame"], report));
        let mtu = table.field("mtu").and_then(|node| mtu(&node, report));
        let buffer = table.field("buffer");
        let buffer_span = buffer.as_ref().map(Node::span);
        let buffer = buffer.and_then(|node| size(&node, 0, BUFFER_MAX, report));
        let follows = table.field("follows_arrivals").and_then(|node| node.flag(report));
        let fragments_span = table.field("fragments").map(|node| node.span());
        let rtt = table.field("rtt").and_then(|node| node.duration(report));
        let packets_max = table.field("packets_max").and_then(|node| packets_max(&node, report));
        let seed = table.field("seed").and_then(|node| node.number(0, i64::MAX as u64, report));
        let classifier = classifier::read(&mut table, report);
        let rate_span = rate_node.as_ref().map_or(table.span(), Node::span);
        let rate = rate_node.and_then(|node| node.rate(report));
        let basis = Basis { descriptor: scheduler.map(|entry| entry.descriptor), rate };
        let places = table.field("places").and_then(|node| PlacesDraft::read(&node, basis, report));
        let oversubscribes = table.field(OVERSUBSCRIBE).and_then(|node| node.flag(report));
        let mut written = parameters(&mut table, basis, report);
        if oversubscribes == Some(true) {
            written.params.set(OVERSUBSCRIBE, Value::Flag(true));
        }
        Self {
            span: table.span(),
            rate_span,
            rate,
            scheduler,
            written,
            framing: overhead.and_then(|node| framing(&node, report)).unwrap_or(Framing::FRAME),
            charge: if charge == Some("frame") { Charge::Frame } else { Charge::Wire },
            mtu: mtu.unwrap_or(MTU_DEFAULT),
            buffer: buffer.unwrap_or(Bytes::ZERO),
            buffer_span,
            follows_arrivals: follows == Some(true),
            rtt,
            fragments_span,
            seed: seed.unwrap_or(0),
            classifier: ClassifierPlan { seed: seed.unwrap_or(0), ..classifier },
            packets_max,
            places,
        }
    }

    /// Returns the scheduler, and the rate that percentages in classes are parts of.
    pub(super) fn basis(&self) -> Basis {
        Basis { descriptor: self.scheduler.map(|entry| entry.descriptor), rate: self.rate }
    }

    /// Returns the charged length of the largest packet.
    pub(super) fn packet_max(&self) -> Bytes {
        Bytes::new(self.charge.of(self.framing, self.mtu + ETHERNET_HEADER).into())
    }

    /// Returns the limit on waiting packets: as written, else the sum of the queues' limits.
    pub(super) fn packets_max(&self, classes: &[ClassDraft<'_>]) -> u32 {
        let wanted =
            self.limits_sum(classes).clamp(u64::from(PACKETS_MAX_DEFAULT), PACKETS_MAX_MAX);
        self.packets_max.map_or(wanted as u32, |(packets, _)| packets)
    }

    /// Reports sizes that are too small for a packet, or for all queues.
    pub(super) fn check_sizes(&self, classes: &[ClassDraft<'_>], report: &mut Report) {
        let packet = self.packet_max();
        for class in classes {
            check_class(class, packet, report);
        }
        let sum = self.limits_sum(classes);
        let packets_max = self.packets_max(classes);
        if sum > u64::from(packets_max) {
            let message = format!(
                "the queues may hold {sum} packets together, the link {packets_max}; \
                 when it is full, packets of every class are dropped"
            );
            let span = self.packets_max.map_or(self.span, |(_, span)| span);
            let cure =
                format!("lower the limits of queues, or write `packets_max = \"{sum} packets\"`");
            let fix = Fix::set(&["link", "packets_max"], format_args!("{sum} packets"));
            report.push(Draft::new(&codes::STORE_TOO_SMALL, span, message).cure(cure).fix([fix]));
        }
    }
}

impl LinkSection {
    /// Returns the packets that all queues together may hold, those of places among them.
    fn limits_sum(&self, classes: &[ClassDraft<'_>]) -> u64 {
        let places = places::drafts(self, classes);
        let places =
            places.map(|(_, draft)| limit(&draft.queue).saturating_mul(draft.count.into()));
        limits_sum(classes).saturating_add(places.fold(0, u64::saturating_add))
    }
}

fn scheduler(node: &Node<'_>, report: &mut Report) -> Option<&'static Entry> {
    let words: Vec<_> = SCHEDULERS.iter().map(|entry| entry.descriptor.keyword).collect();
    weir_core::sched::find(node.choice(&words, report)?)
}

fn mtu(node: &Node<'_>, report: &mut Report) -> Option<u32> {
    let mtu = match node.quantity_of(&[Dimension::Bytes, Dimension::Number], report)? {
        Quantity::Bytes(bytes) => bytes.get(),
        Quantity::Number(number) => number,
        _ => return None,
    };
    if (MTU_MIN..=MTU_MAX).contains(&mtu) {
        return Some(mtu as u32);
    }
    let message = format!("{mtu} is not in {MTU_MIN}..={MTU_MAX}");
    let cure = "write the largest IP packet of the line, such as 1500";
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    None
}

fn packets_max(node: &Node<'_>, report: &mut Report) -> Option<(u32, Span)> {
    let packets = node.packets(report)?;
    if (1..=PACKETS_MAX_MAX).contains(&u64::from(packets)) {
        return Some((packets, node.span()));
    }
    let message = format!("{packets} packets is not in 1..={PACKETS_MAX_MAX}");
    report.push(node.draft(&codes::OUT_OF_RANGE, message).cure("leave it out to fit the queues"));
    None
}

/// Reads a preset, or `{ bytes, minimum, cell, ptm }`.
fn framing(node: &Node<'_>, report: &mut Report) -> Option<Framing> {
    if !node.is_table() {
        let words: Vec<_> = Framing::PRESETS.iter().map(|row| row.0).collect();
        let word = node.choice(&words, report)?;
        return Framing::PRESETS.iter().find(|row| row.0 == word).map(|row| row.1);
    }
    let mut table = node.table(report)?.named("the overhead");
    let added = table.field("bytes").map(|node| added(&node, report));
    let minimum = table.field("minimum").map(|node| node.number(0, MTU_MAX, report));
    let cell = table.field("cell").map(|node| node.number(ATM_PAYLOAD, ATM_PAYLOAD, report));
    let ptm = table.field("ptm");
    let coded = ptm.as_ref().and_then(|node| node.flag(report)).unwrap_or(false);
    if let (Some(ptm), true) = (&ptm, coded && cell.is_some()) {
        let message = "a line sends cells or has the coding of PTM, not both";
        report.push(ptm.draft(&codes::OUT_OF_RANGE, message).cure("take `cell` or `ptm` out"));
    }
    table.finish(report);
    Some(Framing {
        added: added.unwrap_or(Some(0))?,
        minimum: minimum.unwrap_or(Some(0))? as u32,
        coding: match (cell, coded) {
            (Some(_), _) => Coding::Cells(ATM_CELL),
            (None, true) => Coding::Ptm,
            (None, false) => Coding::Plain,
        },
    })
}

/// Reads a number of bytes, negative where the line carries less than the frame.
fn added(node: &Node<'_>, report: &mut Report) -> Option<i32> {
    let added: Option<i32> = node.integer(report)?.try_into().ok();
    let added = added.filter(|added| ADDED.contains(added));
    if added.is_none() {
        let message = format!("is not in {}..={}", ADDED.start(), ADDED.end());
        let cure = "write the bytes that the line adds to a frame without check sequence";
        report.push(node.draft(&codes::OUT_OF_RANGE, message).cure(cure));
    }
    added
}

/// Reads the scheduler's own table `[link.KEYWORD]`. Also finishes `[link]`: reports a table for
/// another scheduler and unknown keys.
fn parameters(
    table: &mut Table<'_>,
    Basis { descriptor, rate }: Basis,
    report: &mut Report,
) -> Written {
    let written = descriptor.map(|descriptor| own_parameters(table, descriptor, rate, report));
    let known = |key: &str| SCHEDULERS.iter().any(|entry| entry.descriptor.keyword == key);
    for node in table.unasked() {
        match descriptor {
            _ if !known(node.key()) => report.push(unknown_key(&node, &table.known())),
            Some(own) => report.push(other_scheduler(&node, own.keyword)),
            None => {}
        }
    }
    written.unwrap_or_default()
}

fn own_parameters(
    table: &mut Table<'_>,
    descriptor: &'static Descriptor,
    rate: Option<Rate>,
    report: &mut Report,
) -> Written {
    let rows = descriptor.parameters;
    let own = table.field(descriptor.keyword).and_then(|node| node.table(report));
    let name = format!("[link.{}]", descriptor.keyword);
    let mut written = Written::default();
    if let Some(own) = own {
        let mut own = own.named(name.clone());
        written = Written::read(&mut own, rows, &[Scope::Link], rate, report);
        own.finish(report);
    }
    let required = rows.iter().filter(|row| row.scope == Scope::Link);
    written.check_required(&name, table.span(), required, report);
    written
}

fn other_scheduler(node: &Node<'_>, keyword: &str) -> Draft {
    let message = format!("[link.{}] is written, but the scheduler is `{keyword}`", node.key());
    let cure = format!("remove it, or write `scheduler = \"{}\"`", node.key());
    Draft::new(&codes::OTHER_SCHEDULER, node.key_span(), message).cure(cure)
}

pub(super) fn check_class(class: &ClassDraft<'_>, packet: Bytes, report: &mut Report) {
    let below = |name: &&str| class.written.params.bytes(name).is_some_and(|size| size < packet);
    for name in PER_PACKET.iter().filter(|name| below(name)) {
        let size = class.written.params.bytes(name).unwrap_or_default();
        let message = format!(
            "class `{}`: a {name} of {size} is below the largest packet, which is charged {packet}",
            class.name
        );
        let span = class.written.span(name).unwrap_or(class.span);
        report.push(
            Draft::new(&codes::BELOW_PACKET, span, message)
                .cure(format!("write at least `{packet}`, or a smaller `mtu` in [link]"))
                .fix([Fix::set(&["class", class.name, name], packet)]),
        );
    }
    let Some(span) = class.limit_span() else { return };
    match class.queue.limit() {
        Limit::Packets(0) | Limit::Bytes(Bytes::ZERO) => report.push(
            Draft::new(
                &codes::ZERO_LIMIT,
                span,
                format!("class `{}`: its queue has a limit of 0", class.name),
            )
            .cure("write at least `1 packet`")
            .fix([Fix::set(&["class", class.name, "queue", "limit"], "1 packet")]),
        ),
        Limit::Bytes(bytes) if bytes < packet => report.push(
            Draft::new(
                &codes::LIMIT_BELOW_PACKET,
                span,
                format!(
                    "class `{}`: a packet charged {packet} never fits into a queue of {bytes}",
                    class.name
                ),
            )
            .cure(format!("write at least `{packet}`"))
            .fix([Fix::set(&["class", class.name, "queue", "limit"], packet)]),
        ),
        _ => {}
    }
}

/// Returns the packets that all queues together may hold.
fn limits_sum(classes: &[ClassDraft<'_>]) -> u64 {
    let all = |class: &ClassDraft<'_>| limit(&class.queue).saturating_mul(class.width().into());
    let leaves = classes.iter().filter(|class| !class.interior && class.place.is_none());
    leaves.map(all).fold(0, u64::saturating_add)
}

/// Returns the packets that a queue may hold.
fn limit(queue: &QueuePlan) -> u64 {
    match queue.limit() {
        Limit::Packets(packets) => u64::from(packets),
        Limit::Bytes(bytes) => bytes.get() / PACKET_TYPICAL,
    }
}

/// Parameters that should cover the largest packet, under any scheduler.
const PER_PACKET: &[&str] = &["burst", "cburst", "quantum"];
const MTU_DEFAULT: u32 = 1500;
/// [RFC 791 §3.2] Every line carries packets of 68 bytes.
const MTU_MIN: u64 = 68;
const MTU_MAX: u64 = 65_535;
const ETHERNET_HEADER: u32 = 14;
/// The payload of a cell; other cell sizes are not supported.
const ATM_PAYLOAD: u64 = 48;
const ATM_CELL: u32 = 53;
/// The range of bytes that framings add or remove: CAKE may take 64 off the IP packet, which the
/// Ethernet header stands before.
const ADDED: std::ops::RangeInclusive<i32> = -64 - ETHERNET_HEADER as i32..=256;
/// A larger buffer would be a queue that no dropper sees.
const BUFFER_MAX: u64 = 64 << 20;
/// Entries for this many packets take half a gigabyte.
const PACKETS_MAX_MAX: u64 = 1 << 24;
/// The packet size by which a queue in bytes is converted: the mean of common traffic mixes.
const PACKET_TYPICAL: u64 = 500;
