//! The packets that are sent again as they were, as captures beside the scenario.
//!
//! A frame is written with its headers alone. Invariant: a file holds no more flows and packets
//! than a source of the kind `capture` takes.

use crate::FlowOf;
use crate::Inferred;
use std::net::{IpAddr, SocketAddr};
use weir_core::packet::{Addresses, Headers, Ports, Protocol, VlanTag};
use weir_sim::kinds::{RECORD_FLOWS_MAX, RECORDS_MAX};
use weir_sim::{Content, frame};
use weir_trace::capture::{CaptureLink, CaptureRecord, CaptureWriter, Interface};

/// A capture beside a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    /// The name of the file, without a folder.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The flows of one file, and when its first packet is sent.
pub(crate) struct Part<'a> {
    pub name: String,
    pub flows: Vec<&'a FlowOf>,
}

impl Inferred {
    /// Returns the captures that the scenario names, which belong into its folder.
    pub fn beside(&self) -> Vec<Beside> {
        let write = |part: Part<'_>| Beside { bytes: written(&part.flows), name: part.name };
        self.parts().into_iter().map(write).collect()
    }

    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        let mut room = (0, 0);
        for flow in self.flows.iter().filter(|flow| flow.is_replayed()) {
            let packets = flow.rows().len().min(RECORDS_MAX);
            if room.0 == 0 || room.1 < packets {
                let number = parts.len() + 1;
                let name = format!("{}.packets-{number}.pcapng", self.name());
                parts.push(Part { name, flows: Vec::new() });
                room = (RECORD_FLOWS_MAX, RECORDS_MAX);
            }
            room = (room.0 - 1, room.1 - packets);
            parts.last_mut().expect("there is one").flows.push(flow);
        }
        parts
    }
}

/// Returns a capture of the packets of these flows.
fn written(flows: &[&FlowOf]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let link_type = CaptureLink::ETHERNET;
    let interface = Interface { link_type, name: String::new(), snap_length: 0 };
    writer.describe(&[interface]).expect("memory takes all");
    let mut rows: Vec<_> = flows
        .iter()
        .enumerate()
        .flat_map(|(place, flow)| flow.rows().iter().take(RECORDS_MAX).map(move |row| (row, place)))
        .collect();
    rows.sort_by_key(|(row, place)| (row.at, *place));
    let heads: Vec<Headers> = flows.iter().map(|flow| headers(flow)).collect();
    let mut bytes = Vec::new();
    for (row, place) in rows {
        let length = row.length();
        frame::write(&heads[place], length, &Content::Nothing, None, &mut bytes);
        let record = CaptureRecord {
            timestamp: row.at.as_nanos(),
            interface: 0,
            original_length: length.max(bytes.len() as u32),
            bytes: &bytes,
            comment: "",
        };
        writer.write(&record).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}

/// Returns the headers of a flow's packets.
fn headers(flow: &FlowOf) -> Headers {
    let ports = Ports { source: flow.source.port(), destination: flow.destination.port() };
    let addresses = addresses(flow.source, flow.destination);
    let mut headers = Headers::of_flow(addresses, Protocol(flow.protocol), ports);
    if !Protocol(flow.protocol).has_ports() {
        headers.ports = None;
    }
    headers.vlan = (flow.vlan != 0).then_some(VlanTag(flow.vlan));
    headers.traffic_class = Some(flow.dscp << 2);
    headers
}

fn addresses(source: SocketAddr, destination: SocketAddr) -> Addresses {
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => Addresses::Unknown,
    }
}
