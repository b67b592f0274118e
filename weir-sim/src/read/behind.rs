//! The tables `behind`, of a bottleneck behind a link, and `rate`, of a capacity that varies.

use super::files::Files;
use super::{bounded, codes, keys};
use crate::behind::Behind;
use weir_core::link::Framing;
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Share};
use weir_policy::codes as common;
use weir_policy::finding::{Draft, Report};
use weir_policy::reader::{Node, Table};
use weir_trace::capacity::{self, Buffer, Capacity, End, Model, RATE_MAX};

/// Reads a bottleneck.
pub(super) fn behind(node: &Node<'_>, files: &Files<'_>, report: &mut Report) -> Option<Behind> {
    let mut table = node.table(report)?.named("what is behind the link").with_keys(keys::BEHINDS);
    let rate = table.required("rate", report).and_then(|node| rate(&node, files, report));
    let buffer = match table.field("buffer") {
        Some(node) => buffer(&node, report),
        None => Some(BUFFER_DEFAULT),
    };
    let framing = match table.field("framing") {
        Some(node) => node.one_of(Framing::PRESETS, report),
        None => Some(Framing::FRAME),
    };
    table.finish(report);
    Some(Behind { capacity: rate?, buffer: buffer?, framing: framing? })
}

/// Reads a rate that is a number, a trace or a model.
pub(super) fn rate(node: &Node<'_>, files: &Files<'_>, report: &mut Report) -> Option<Capacity> {
    if !node.is_table() {
        let rate = node.rate(report)?.bits_per_second();
        return Capacity::constant(rate).or_else(|| too_fast(node, report));
    }
    let mut table = node.table(report)?.named("the capacity").with_keys(keys::CAPACITIES);
    let (trace, model) = (table.field("trace"), table.has("model"));
    let read = match (&trace, model) {
        (Some(trace), false) => of_trace(trace, &mut table, files, report),
        (None, true) => of_model(node, &mut table, report),
        (Some(trace), true) => {
            table.field("model");
            let draft = trace.draft(&codes::EXCLUSIVE, "excludes `model`");
            report.push(draft.cure("take one of the two out"));
            None
        }
        (None, false) => {
            let draft = node.draft(&codes::ONE_OF, "has neither `trace` nor `model`");
            report.push(draft.cure("write `trace = \"lte.csv\"`, or a model such as `gilbert`"));
            None
        }
    };
    table.finish(report);
    read
}

fn of_trace(
    node: &Node<'_>,
    table: &mut Table<'_>,
    files: &Files<'_>,
    report: &mut Report,
) -> Option<Capacity> {
    let loops: Option<bool> = table.value("loop", report);
    let start = table.value_by("start", report, bounded);
    let (name, bytes) = files.read(node, report)?;
    let end = if loops? { End::Loop } else { End::Stop };
    match capacity::parse(&bytes, end) {
        Ok(capacity) => Some(capacity.starting_at(start?)),
        Err(error) => {
            let message = format!("{name}: {error}");
            let cure = "write lines of `ms,kbit_s`, mahimahi's lines, or netem-trace's JSON";
            report.push(node.draft(&codes::NO_CAPACITY, message).cure(cure));
            None
        }
    }
}

fn of_model(node: &Node<'_>, table: &mut Table<'_>, report: &mut Report) -> Option<Capacity> {
    let seed = table.value("seed", report);
    let length = table.value_by("length", report, bounded);
    let model = match table.word("model", report)? {
        "gilbert" => {
            let state = |table: &mut Table<'_>, rate, lasts, report: &mut Report| {
                Some((bits(table, rate, report), table.value_by(lasts, report, bounded)?))
            };
            let good = state(table, "good", "good_for", report);
            let bad = state(table, "bad", "bad_for", report);
            let ((good, good_for), (bad, bad_for)) = (good?, bad?);
            Model::Gilbert { good: (good?, good_for), bad: (bad?, bad_for) }
        }
        "markov" => {
            let rates = table.required("rates", report).and_then(|node| node.elements(report));
            let stay = table.value_by("stay", report, bounded);
            let rates = rates?.iter().map(|node| any_rate(node, report)).collect::<Option<_>>();
            Model::Markov { rates: rates?, stay: stay? }
        }
        _ => {
            let (most, least) = (bits(table, "most", report), bits(table, "least", report));
            let period = table.value_by("period", report, bounded);
            let noise = match table.field("noise") {
                Some(node) => node.share(report),
                None => Some(Share::default()),
            };
            Model::Diurnal { most: most?, least: least?, period: period?, noise: noise? }
        }
    };
    model.capacity(seed?, length?).or_else(|| too_fast(node, report))
}

/// Reads a rate that must be written.
fn bits(table: &mut Table<'_>, key: &'static str, report: &mut Report) -> Option<u64> {
    let node = table.required(key, report)?;
    any_rate(&node, report)
}

/// A rate of a model, in bit/s.
fn any_rate(node: &Node<'_>, report: &mut Report) -> Option<u64> {
    node.rate(report).map(weir_core::units::Rate::bits_per_second)
}

fn too_fast(node: &Node<'_>, report: &mut Report) -> Option<Capacity> {
    let message = format!("is not within {} Tbit/s", RATE_MAX / 1_000_000_000_000);
    let cure = "write rates and times of a line that there is";
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

fn buffer(node: &Node<'_>, report: &mut Report) -> Option<Buffer> {
    let dimensions = &[Dimension::Bytes, Dimension::Packets, Dimension::Duration];
    let buffer = match node.quantity_of(dimensions, report)? {
        Quantity::Packets(packets) => Buffer::Packets(packets),
        Quantity::Duration(time) => Buffer::Time(time),
        Quantity::Bytes(bytes) => Buffer::Bytes(bytes.get()),
        _ => return None,
    };
    let is_empty = [Buffer::Packets(0), Buffer::Bytes(0), Buffer::Time(Duration::ZERO)];
    if is_empty.contains(&buffer) {
        let draft = Draft::new(&common::OUT_OF_RANGE, node.span(), "a buffer holds something");
        report.push(draft.cure("write what may wait, such as `250 KB`"));
        return None;
    }
    Some(buffer)
}

/// The limit of a plain queue, as a buffer.
pub(super) fn of_queue(queue: Quantity) -> Buffer {
    match queue {
        Quantity::Packets(packets) => Buffer::Packets(packets),
        Quantity::Bytes(bytes) => Buffer::Bytes(bytes.get()),
        _ => BUFFER_DEFAULT,
    }
}

/// The queue of a modem that nothing is said of.
const BUFFER_DEFAULT: Buffer = Buffer::Bytes(Bytes::new(250_000).get());
