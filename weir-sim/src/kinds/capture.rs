//! `capture`: packets of a capture, or of a list of arrivals, at their recorded times.
//!
//! The first frame of a capture is sent when the source starts; a list's times count from there. A
//! frame counts with its length on the captured link, as in a replay. All packets have the headers
//! that the source writes, or with `flows = true` those that were captured: then each flow of the
//! capture is a source of its own, `NAME/1` and so on. A list has flows of source ports that follow
//! each other. Invariant: what is sent is what was recorded up to the source's stop, and recorded
//! times that run backwards are sent with the latest before them.

use super::records::{self, Record};
use super::{Context, Kind, Part, Player, Script, Step, plain};
use crate::random::Random;
use crate::read::codes;
use crate::read::keys::SourceKind;
use crate::replay::{frame_length, headers};
use crate::scenario::{LENGTH_MAX, Traffic};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::packet::{FlowKey, Headers, UnreadCounts};
use weir_core::units::Duration;
use weir_policy::codes as common;
use weir_policy::file::FILE_BYTES_MAX;
use weir_policy::finding::Report;
use weir_policy::keys::{Key, MUST, Values, key};
use weir_policy::reader::Node;
use weir_trace::capture::{CaptureReader, is_capture};

/// Packets at recorded times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded(Arc<[Record]>);

impl Recorded {
    /// These, in the order of time.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| record.at);
        Self(records.into())
    }
}

impl Script for Recorded {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Player> {
        Box::new(Playing { records: Arc::clone(&self.0), next: 0, now: 0 })
    }

    fn held_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

#[derive(Debug)]
struct Playing {
    records: Arc<[Record]>,
    next: usize,
    now: u64,
}

impl Player for Playing {
    fn next(&mut self, _: &mut Random) -> Option<Step> {
        let record = self.records.get(self.next)?;
        let after = Duration::from_nanos(record.at - self.now);
        self.now = record.at;
        let step = Step { after, length: record.length, datagram: self.next as u32 };
        self.next += 1;
        Some(step)
    }
}

/// Arrivals with the headers of each flow, if they were captured.
#[derive(Default)]
struct Recording {
    records: Vec<Record>,
    headers: Vec<Headers>,
    /// Frames whose IP header cannot be read.
    unread: UnreadCounts,
    /// Indices in `headers`, by a key that is quick to compare.
    places: BTreeMap<(u32, Option<u8>), Vec<u32>>,
}

impl Recording {
    /// The number of the flow with these headers.
    fn flow(&mut self, headers: Headers) -> u32 {
        let headers = headers.in_common();
        let places = self
            .places
            .entry((headers.flow(FlowKey::Connection), headers.traffic_class))
            .or_default();
        let known = places.iter().find(|&&place| self.headers[place as usize] == headers);
        if let Some(&place) = known {
            return place;
        }
        let place = self.headers.len() as u32;
        places.push(place);
        self.headers.push(headers);
        place
    }
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let Context { table, headers, files, report, .. } = context;
    let flows = table.value("flows", report);
    let node = table.required("file", report)?;
    let (name, bytes) = files.read(&node, report)?;
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("{name} has more than {FILE_BYTES_MAX} bytes");
        let cure = "compress it, cut it, or take it through `weir replay`";
        report.push(node.draft(&common::TOO_LARGE, message).cure(cure));
        return None;
    }
    let recording = match is_capture(&bytes) {
        true => frames(&bytes, flows?),
        false => arrivals(&bytes, **headers, flows?),
    };
    let recording = match recording {
        Ok(recording) => recording,
        Err(fault) => {
            let cure = "write a capture, or lines of `time,length` or `time,length,flow`";
            let message = format!("{name}: {fault}");
            report.push(node.draft(&codes::NO_ARRIVALS, message).cure(cure));
            return None;
        }
    };
    parts(recording, flows?, (&node, &name), report)
}

/// A source, or one for each flow.
fn parts(
    recording: Recording,
    flows: bool,
    (node, name): (&Node<'_>, &str),
    report: &mut Report,
) -> Option<Vec<Part>> {
    let Recording { records, headers, unread, .. } = recording;
    for (cause, frames) in unread.each() {
        let what = cause.what();
        let message = format!("{name}: {frames} of {} frames {what}", records.len());
        let cure = "no rule about addresses, ports or DSCP matches them; `weir replay` says more";
        report.push(node.draft(&codes::UNREAD_HEADERS, message).cure(cure));
    }
    if records.is_empty() {
        let cure = "write a file with at least one";
        let message = format!("{name} has no arrival");
        report.push(node.draft(&codes::NO_ARRIVALS, message).cure(cure));
        return None;
    }
    let traffic = |records| Traffic::Scripted(Arc::new(Recorded::new(records)));
    if !flows {
        return Some(Part::only(traffic(records)));
    }
    if headers.len() > RECORD_FLOWS_MAX {
        let message = format!("{name} has {} flows, more than {RECORD_FLOWS_MAX}", headers.len());
        let cure = "take `flows` out, so that all are one source, or cut the capture";
        report.push(node.draft(&common::TOO_MANY, message).cure(cure));
        return None;
    }
    let mut each = vec![Vec::new(); headers.len()];
    for record in records {
        each[record.flow as usize].push(record);
    }
    let part = |(index, (records, headers)): (usize, (Vec<Record>, Headers))| Part {
        suffix: Some((index + 1).to_string()),
        headers: Some(headers),
        traffic: traffic(records),
    };
    Some(each.into_iter().zip(headers).enumerate().map(part).collect())
}

/// The frames of a capture.
fn frames(bytes: &[u8], flows: bool) -> Result<Recording, String> {
    let mut reader = CaptureReader::new(bytes).map_err(|error| error.to_string())?;
    let mut recording = Recording::default();
    let (mut origin, mut latest) = (None, 0);
    while let Some(frame) = reader.next_frame() {
        let frame = frame.map_err(|error| error.to_string())?;
        if recording.records.len() == RECORDS_MAX {
            return Err(format!("there are more than {RECORDS_MAX} frames"));
        }
        let origin = *origin.get_or_insert(frame.timestamp);
        latest = latest.max(frame.timestamp.saturating_sub(origin));
        let length = frame_length(&frame).clamp(1, LENGTH_MAX);
        let mut flow = 0;
        if flows {
            let headers = headers(&frame);
            recording.unread.add(&headers);
            flow = recording.flow(headers);
        }
        recording.records.push(Record { at: latest, length, flow });
        if recording.headers.len() > RECORD_FLOWS_MAX {
            break;
        }
    }
    Ok(recording)
}

/// The arrivals of a list, whose flows have source ports after that of `headers`.
fn arrivals(bytes: &[u8], headers: Headers, flows: bool) -> Result<Recording, String> {
    let mut records = records::parse(bytes).map_err(|fault| fault.to_string())?;
    let mut recording = Recording::default();
    if flows {
        let mut numbers = BTreeMap::new();
        for record in &mut records {
            let next = numbers.len() as u32;
            record.flow = *numbers.entry(record.flow).or_insert(next);
        }
        let with_port = |flow: usize| {
            let ports = headers.ports.map(|mut ports| {
                ports.source = ports.source.wrapping_add(flow as u16);
                ports
            });
            Headers { ports, ..headers }
        };
        let most = numbers.len().min(RECORD_FLOWS_MAX + 1);
        recording.headers = (0..most).map(with_port).collect();
    }
    recording.records = records;
    Ok(recording)
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: plain, read };
const SOURCE: SourceKind =
    SourceKind { keyword: KEYWORD, summary: "Recorded packets at their times.", keys: &[KEYS] };
const KEYS: &[Key] = &[
    key(
        "file",
        Values::Text,
        MUST,
        "A capture, or lines of `time,length,flow`; relative to this file.",
    ),
    key("flows", Values::Flag, "false", "Whether each flow is a source of its own."),
];
const KEYWORD: &str = "capture";
/// Bound: packets of one recording, 16 bytes each; a scenario with more is refused.
pub const RECORDS_MAX: usize = 1 << 22;
/// Bound: flows of one recording that are sources of their own; a scenario with more is refused.
pub const RECORD_FLOWS_MAX: usize = 4096;
