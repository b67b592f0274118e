//! Odd frames and faults: each row runs once across the kernel's bridge and once across Weir's, with
//! the same frames, and what arrives at the other host is compared byte for byte. After each, the
//! counters of Weir account for every frame, super-packets counted as the frames they are cut into.
//! Needs root or user namespaces.

#![allow(unsafe_code)]

mod faults;
mod frames;
mod kinds;
mod lab;

use crate::support::lanes;
use lab::{CLIENT, Heard, Lab, Outcome, SERVER, Through};
use weir_link::status::Status;
use weir_testbed::TestbedConfig;
use weir_testbed::rows;

/// A kind of frame or fault.
struct Row {
    name: &'static str,
    mtu: u32,
    script: fn(&mut Lab) -> Outcome,
    /// Whether the kernels of the hosts send frames of their own, too.
    is_chatty: bool,
    /// Frames that only the kernel's bridge forwards, and that only Weir's does.
    only: [usize; 2],
    /// Why the two bridges differ.
    why: &'static str,
    /// As `only`, of the kernel's bridge and what carries frames on while Weir is dead.
    open: [usize; 2],
}

#[rustfmt::skip]
const SAME: Row =
    Row { name: "", mtu: 1500, script: |_| Ok(()), is_chatty: false, only: [0, 0], why: "", open: [0, 0] };

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "short_frames", script: kinds::short, ..SAME },
    Row { name: "full_frames", script: kinds::full, ..SAME },
    Row { name: "jumbo_frames", script: kinds::jumbo, mtu: 9000, ..SAME },
    Row { name: "vlan_tags", script: kinds::vlan, ..SAME },
    Row { name: "full_frames_with_several_tags", script: kinds::full_tags, mtu: 1508, ..SAME },
    Row { name: "full_frames_with_an_802_1ad_tag", script: kinds::full_ad, ..SAME },
    Row { name: "full_frames_with_two_tags", script: kinds::full_two, ..SAME },
    Row { name: "llc_and_snap", script: kinds::llc, ..SAME },
    Row { name: "pppoe", script: kinds::pppoe, ..SAME },
    Row { name: "mpls", script: kinds::mpls, ..SAME },
    Row { name: "odd_ethertypes", script: kinds::ethertypes, ..SAME },
    Row { name: "broadcasts_and_groups", script: kinds::groups, ..SAME },
    Row { name: "reserved_groups", script: kinds::reserved, only: [0, 15],
          why: "two ports are a cable: LACP, LLDP and the like cross Weir; the kernel keeps them",
          open: [0, 15], ..SAME },
    Row { name: "bad_sources", script: kinds::bad_sources, only: [0, 2],
          why: "the kernel refuses a group or zero as source; a cable does not", open: [0, 2], ..SAME },
    Row { name: "group_reports", script: kinds::group_reports, ..SAME },
    Row { name: "wrong_checksums", script: kinds::wrong_checksums, ..SAME },
    Row { name: "wrong_ip_headers", script: kinds::wrong_ip, ..SAME },
    Row { name: "ip4_fragments", script: kinds::fragments, ..SAME },
    Row { name: "ip6_extension_headers", script: kinds::extensions, ..SAME },
    Row { name: "unfinished_checksums", script: kinds::unfinished, ..SAME },
    Row { name: "super_packets_tcp4", script: kinds::super_tcp4, ..SAME },
    Row { name: "super_packets_tcp6", script: kinds::super_tcp6, ..SAME },
    Row { name: "super_packets_udp", script: kinds::super_udp, ..SAME },
    Row { name: "super_packets_vxlan", script: kinds::super_vxlan, is_chatty: true, ..SAME },
    Row { name: "super_packets_beyond_64_kib", script: kinds::super_big, ..SAME },
    Row { name: "for_a_port_itself", script: faults::for_a_port, ..SAME },
    Row { name: "stations_on_one_side", script: faults::one_side, open: [0, 1], ..SAME },
    Row { name: "stations_that_move", script: faults::moves, open: [0, 8], ..SAME },
    Row { name: "a_flood_of_addresses", script: faults::flood, ..SAME },
    Row { name: "a_shorter_mtu_behind", script: faults::shorter_mtu, only: [1, 0],
          why: "veth measures a tag that is in the frame, and not one beside it", ..SAME },
    Row { name: "mtu_raised_and_lowered", script: faults::mtu_changes, ..SAME },
    Row { name: "a_cable_pulled_and_plugged", script: faults::cable, only: [0, 10],
          why: "a new interface of the name is no member of the kernel's bridge",
          open: [0, 10], ..SAME },
    Row { name: "a_port_set_down_and_up", script: faults::down, ..SAME },
    Row { name: "a_port_renamed", script: faults::renamed, ..SAME },
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    use rows::{Need, Row as Test};
    let through = |row: &'static Row, through: Through, prefix: &str| {
        let name = format!("odd_frames::{prefix}{}", row.name);
        Test::of(name, move || check(row, through))
    };
    let plain = move |row| through(row, Through::Weir, "");
    let workers = move |row| through(row, Through::Workers, "workers_");
    let open = |row: &'static Row| {
        let test = Test::of(format!("odd_frames::open_{}", row.name), move || check_open(row));
        test.needs(&[Need::Root])
    };
    let is_super = |row: &&'static Row| row.name.starts_with("super_packets");
    let whole = ROWS.iter().filter(is_super);
    let whole = whole.map(move |row| through(row, Through::Whole, "whole_"));
    let faults = [
        Test::new("odd_frames::carrier_is_passed_on", faults::carrier_is_passed_on),
        Test::new("odd_frames::tcp_in_vxlan", faults::tcp_in_vxlan),
    ];
    let others = ROWS.iter().flat_map(move |row| [workers(row), open(row)]);
    ROWS.iter().map(plain).chain(faults).chain(others).chain(whole)
}

fn check(row: &'static Row, through: Through) -> Outcome {
    let kernel = run(row, Through::Kernel)?;
    let weir = run(row, through)?;
    compare((&kernel, &weir), row.only, row.why)?;
    let status = weir.status.ok_or("Weir has a status")?;
    if through == Through::Whole {
        let sent = status.lanes[CLIENT].classes[0].sent.packets;
        let frames = status.ports[SERVER].sent;
        // Only TCP passes whole.
        let is_whole = if row.name.contains("tcp") { sent < frames } else { sent <= frames };
        return if is_whole { Ok(()) } else { Err(format!("{sent} of {frames} frames").into()) };
    }
    let received = [CLIENT, SERVER].map(|at| status.ports[at].received + status.ports[at].lost_in);
    let more = received.iter().zip(&weir.sent).all(|(received, sent)| received >= sent);
    balance(through, &status, if row.is_chatty && more { received } else { weir.sent })
}

/// As [`check`], for what carries frames on while Weir is dead.
fn check_open(row: &'static Row) -> Outcome {
    let (kernel, open) = (run(row, Through::Kernel)?, run(row, Through::Fallback)?);
    compare((&kernel, &open), row.open, "nothing is learned, and two ports are a cable")
}

fn run(row: &Row, through: Through) -> Outcome<Heard> {
    let config = TestbedConfig { mtu: row.mtu, ..TestbedConfig::default() };
    let mut lab = Lab::new(through, config, false)?;
    (row.script)(&mut lab)?;
    let mut heard = lab.stop()?;
    if row.is_chatty {
        // Their group reports come at random times.
        heard.frames.iter_mut().for_each(|all| all.retain(|frame| !frame.starts_with(GROUPS)));
    }
    Ok(heard)
}

/// The destination of group reports and of neighbour discovery begins so.
const GROUPS: &[u8] = &[0x33, 0x33];

/// Compares what arrived across the kernel's bridge and across the other.
fn compare((kernel, other): (&Heard, &Heard), only: [usize; 2], why: &str) -> Outcome {
    if kernel.sent != other.sent {
        let text = format!("sent {:?} across the kernel, then {:?}", kernel.sent, other.sent);
        return Err(text.into());
    }
    let (kernel, other) = (&kernel.frames, &other.frames);
    let [mut only_kernel, mut only_other] = [Vec::new(), Vec::new()];
    for (kernel, other) in kernel.iter().zip(other) {
        only_kernel.extend(without(kernel, other));
        only_other.extend(without(other, kernel));
    }
    if [only_kernel.len(), only_other.len()] != only {
        let show = |frames: &[Vec<u8>]| -> String {
            let text = |frame: &Vec<u8>| {
                format!("\n  {} bytes: {:02x?}", frame.len(), &frame[..frame.len().min(130)])
            };
            frames.iter().take(6).map(text).collect()
        };
        let text = format!(
            "{} and {} of {} and {} frames came only across the kernel and the other, not {only:?} \
             ({why})\nkernel:{}\nother:{}",
            only_kernel.len(),
            only_other.len(),
            kernel[SERVER].len(),
            other[SERVER].len(),
            show(&only_kernel),
            show(&only_other)
        );
        return Err(text.into());
    }
    // Threads that share a port keep the order of each flow, not that among flows.
    let is_in_order = kernel == other || lanes::workers() > 2;
    if only_kernel.is_empty() && only_other.is_empty() && !is_in_order {
        return Err("the frames came in another order".into());
    }
    Ok(())
}

/// Returns the frames of `all` that `others` do not have as often.
fn without(all: &[Vec<u8>], others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut others = others.to_vec();
    let is_missing = |frame: &&Vec<u8>| match others.iter().position(|other| other == *frame) {
        Some(place) => {
            others.swap_remove(place);
            false
        }
        None => true,
    };
    all.iter().filter(is_missing).cloned().collect()
}

/// Checks that each frame that the hosts sent was forwarded, kept or lost for a cause.
fn balance(through: Through, status: &Status, sent: [u64; 2]) -> Outcome {
    let sum = |causes: &[(String, u64)]| causes.iter().map(|(_, frames)| frames).sum::<u64>();
    let mut wrong = Vec::new();
    let mut expect = |what: &str, left: u64, right: u64| {
        if left != right {
            wrong.push(format!("{what}: {left} is not {right}"));
        }
    };
    for (at, (input, output)) in [(CLIENT, SERVER), (SERVER, CLIENT)].into_iter().enumerate() {
        let (port, lane, out) = (&status.ports[input], &status.lanes[at], &status.ports[output]);
        let class = &lane.classes[0];
        let lost = |cause: &str| {
            class.lost.iter().find(|(name, _)| name == cause).map_or(0, |(_, frames)| *frames)
        };
        let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
        let not_sent = class.dropped.iter().find(|(name, _)| name == "not sent");
        let not_sent = not_sent.map_or(0, |(_, amount)| amount.packets);
        let name = &port.interface;
        expect(&format!("{name}: sent by the host"), sent[at], port.received + port.lost_in);
        let before = lost("pool") + lost("stale on arrival");
        let offered = class.offered.packets + before + sum(&port.kept);
        expect(&format!("{name}: received"), port.received, offered);
        let queued = class.sent.packets + dropped + class.backlog.packets;
        expect(&format!("{name}: offered"), class.offered.packets, queued);
        // What a worker could not send had left the link.
        let late = if through == Through::Workers { out.lost_out } else { 0 };
        expect(&format!("{name}: sent by the link"), class.sent.packets, out.sent + late);
        expect(&format!("{name}: not sent"), not_sent + late, out.lost_out);
    }
    expect("frames free", status.frames_free, status.frames_max);
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}\n{status:?}").into()) }
}
