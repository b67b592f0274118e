//! Sends a packet for each class, and finds the class in which the kernel counted it.
//!
//! A probe has headers that match a rule; Weir's own classifier decides which class it belongs to,
//! so that Weir's decision is compared with the kernel's.

use super::kernel::show;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::classify::{Classifier, InterfaceId, Match, VlanTest};
use weir_core::ids::LeafId;
use weir_core::packet::{Checksum, EtherType, Headers};
use weir_core::units;
use weir_host::probe;
use weir_import::export::Export;
use weir_import::export::state::packets_sent;
use weir_policy::Policy;

/// The result of the probes of a class.
#[derive(Serialize)]
pub struct Answer {
    /// The class that they were made for.
    pub class: String,
    /// The class in which they were counted.
    pub counted: Option<String>,
    /// Whether both are the same.
    pub right: bool,
    /// Why there was no probe.
    pub note: Option<&'static str>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = &self.class;
        match (&self.counted, self.note) {
            (_, Some(note)) => write!(f, "{class}: not tried: {note}"),
            (Some(_), _) if self.right => write!(f, "{class}: counted there"),
            (Some(other), _) => write!(f, "{class}: counted in `{other}` INSTEAD"),
            (None, _) => write!(f, "{class}: counted NOWHERE"),
        }
    }
}

/// Sends probes for each class that holds packets.
pub fn verify(policy: &Policy, export: &Export, device: &str) -> Result<Vec<Answer>, String> {
    let mut classifier = policy.classifier();
    let leaves = export.classes.iter().filter(|class| class.leaf);
    leaves
        .map(|class| {
            let leaf = policy.leaf(&class.name);
            let frame = leaf.and_then(|leaf| frame_for(leaf, policy, &mut classifier));
            let Some(frame) = frame else {
                let note = Some("no rule leads to it with a packet that Weir can make");
                return Ok(Answer { class: class.name.clone(), counted: None, right: true, note });
            };
            let id = counted(export, device, frame)?;
            let named = id.map(|id| {
                let found = export.classes.iter().find(|class| class.id == id);
                found.map_or(id, |class| class.name.clone())
            });
            let right = named.as_ref() == Some(&class.name);
            Ok(Answer { class: class.name.clone(), counted: named, right, note: None })
        })
        .collect()
}

/// Returns the leaf of the kernel whose count grew most.
fn counted(export: &Export, device: &str, frame: Vec<u8>) -> Result<Option<String>, String> {
    let counts = || -> Result<BTreeMap<String, u64>, String> {
        let all = packets_sent(&show(device, &["-s", "class", "show", "dev", device])?);
        let leaf = |id: &str| export.classes.iter().any(|class| class.leaf && class.id == id);
        Ok(all.into_iter().filter(|(id, _)| leaf(id)).collect())
    };
    let before = counts()?;
    probe::send(device, &vec![frame; PROBES]).map_err(|error| error.to_string())?;
    let start = Instant::now();
    loop {
        let now = counts()?;
        let grown = |(id, count): (&String, &u64)| {
            (count - before.get(id).unwrap_or(&0).min(count), id.clone())
        };
        let most = now.iter().map(grown).max();
        if let Some((_, id)) = most.filter(|(grown, _)| *grown >= PROBES as u64) {
            return Ok(Some(id));
        }
        if start.elapsed() > PATIENCE {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a frame that Weir's classifier sends to `leaf`.
fn frame_for(leaf: LeafId, policy: &Policy, classifier: &mut Classifier) -> Option<Vec<u8>> {
    let rules = policy.rules.iter().filter(|rule| rule.leaf == leaf).map(|rule| &rule.matches);
    let any = Match::default();
    let default = (policy.default.leaf == leaf).then_some(&any);
    rules.chain(default).filter_map(frame).find(|frame| {
        let headers = Headers::parse_ethernet(frame);
        let now = units::Instant::from_nanos(0);
        classifier.classify(now, InterfaceId(0), &headers).leaf == leaf
    })
}

/// Returns a frame that satisfies the conditions.
fn frame(matches: &Match) -> Option<Vec<u8>> {
    // The probe's frames have stations of their own, no tags and no mark, and one length.
    if matches.tests_beside()
        || matches.details.is_some()
        || matches.interface.is_some()
        || [matches.vlan, matches.vlan_inner]
            .into_iter()
            .flatten()
            .any(|vlan| vlan != VlanTest::Untagged)
    {
        return None;
    }
    let six = match matches.ethertype {
        Some(EtherType::IPV6) => true,
        Some(EtherType::IPV4) => false,
        Some(_) => return None,
        None => {
            let named = matches.sources.first().or(matches.destinations.first());
            named.is_some_and(|prefix| prefix.network().is_ipv6())
        }
    };
    let pick = |prefixes: &[weir_core::classify::Prefix], last: u8| -> Option<IpAddr> {
        let fits = |prefix: &&weir_core::classify::Prefix| prefix.network().is_ipv6() == six;
        if prefixes.is_empty() {
            let four = IpAddr::V4(Ipv4Addr::new(198, 51, 100, last));
            return Some(if six { six_of(last) } else { four });
        }
        prefixes.iter().find(fits).map(|prefix| prefix.network())
    };
    let (source, destination) = (pick(&matches.sources, 1)?, pick(&matches.destinations, 2)?);
    let protocol = matches.protocol.map_or(17, |protocol| protocol.0);
    let dscp = matches.dscps.first().map_or(0, |dscp| dscp.code());
    let traffic_class = dscp << 2 | matches.ecn.map_or(0, |ecn| ecn as u8);
    let port = |ranges: &[weir_core::classify::PortRange], otherwise| {
        ranges.first().map_or(otherwise, |range| range.first())
    };
    let ports = [port(&matches.source_ports, 40_000), port(&matches.destination_ports, 40_009)];
    Some(ethernet((source, destination), protocol, traffic_class, ports))
}

fn six_of(last: u8) -> IpAddr {
    let mut octets = [0x20, 1, 0x0d, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[15] = last;
    IpAddr::from(octets)
}

/// Builds Ethernet, IP and the first bytes of a transport header, to a station that does not exist.
fn ethernet(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    traffic_class: u8,
    ports: [u16; 2],
) -> Vec<u8> {
    let mut payload: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    match protocol {
        // A TCP header of five words without flags.
        6 => payload.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]),
        17 => payload.extend([0, (PAYLOAD + 8) as u8, 0, 0]),
        _ => payload = vec![8, 0, 0, 0, 0, 0, 0, 0],
    }
    payload.extend([0; PAYLOAD]);
    let mut frame = vec![2, 0, 0, 0, 0, 0x77, 2, 0, 0, 0, 0, 0x76];
    let length = payload.len() as u16;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, traffic_class];
            header.extend((length + 20).to_be_bytes());
            header.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let mut sum = Checksum::default();
            sum.add(&header);
            header[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(header);
        }
        (source, destination) => {
            frame.extend([0x86, 0xdd, 0x60 | traffic_class >> 4, traffic_class << 4, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            for address in [source, destination] {
                if let IpAddr::V6(address) = address {
                    frame.extend(address.octets());
                }
            }
        }
    }
    frame.extend(payload);
    frame
}

/// Probes for each class, enough to stand out from other traffic.
const PROBES: usize = 5;
const PAYLOAD: usize = 32;
const PATIENCE: Duration = Duration::from_secs(2);
