//! The ports `host` and `wire` frame by frame: whatever a machine sends and receives crosses them
//! unchanged, once, and stays for whom it was. Needs root, since programs in the kernel take it.

#![allow(unsafe_code)]

use crate::support::bridge;
use crate::support::raw;
use weir_testbed::rows::{self, Failed, Need};

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};

use bridge::Bridge;
use raw::Raw;
use weir_core::packet::Checksum;
use weir_host::wait::WaitPolicy;
use weir_link::port::{PortConfig, PortState};
use weir_testbed::{END, Host, Netlink, PATIENCE, RIGHT, Testbed, TestbedConfig, until};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("frames_with_any_tags_cross_both_ways", frames_with_any_tags_cross_both_ways),
    ("a_frame_for_another_station_stays_one", a_frame_for_another_station_stays_one),
    ("an_interface_that_moves_away_and_back_is_cut_open_again", || moves_away_and_back(false)),
    ("one_that_is_away_for_a_while_is_cut_open_again", || moves_away_and_back(true)),
    ("a_pair_that_is_set_down_is_set_up_again", || pair_is_mended(set_down)),
    ("a_pair_that_is_removed_is_made_again", || pair_is_mended(Netlink::delete_link)),
    ("what_other_programs_send_into_a_tap_is_dropped", what_others_send_is_dropped),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("host", TESTS, &[Need::Root])
}

/// The router's address on the server's network.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// A machine whose interface [`RIGHT`] is cut open, and the server beyond it.
struct Scene {
    testbed: Testbed,
    bridge: Bridge,
}

impl Scene {
    fn new() -> Result<Self, Failed> {
        let testbed = Testbed::new(TestbedConfig::default())?;
        let mut netlink = Netlink::open_in(&testbed.weir)?;
        netlink.add_address(RIGHT, ROUTER.into(), 24)?;
        let port = |kind: &str| PortConfig { kind: kind.to_owned(), ..PortConfig::new(RIGHT) };
        let ports = [port("host"), port("wire")];
        let bridge = Bridge::start_on(&testbed, WaitPolicy::Hybrid, ports)?;
        Ok(Self { testbed, bridge })
    }
}

fn frames_with_any_tags_cross_both_ways() -> Outcome {
    let scene = Scene::new()?;
    let server = scene.testbed.server.run(|| Raw::open(END))??;
    let machine = scene.testbed.weir.run(|| Raw::open(RIGHT))??;
    let tags: [&[u16]; 4] =
        [&[], &[0x8100, 0xa123], &[0x88a8, 0x0064, 0x8100, 0x0007], &[0x8100, 1, 0x8100, 2]];
    for (number, tags) in tags.iter().enumerate() {
        let mut frame = [[0x03; 6], [0x02, 0, 0, 0, 9, 9]].concat();
        tags.iter().chain(&[0x88b5]).for_each(|word| frame.extend(word.to_be_bytes()));
        frame.extend([number as u8; 60]);
        let is_it = |bytes: &[u8]| bytes == frame;
        let last = [&frame[..], &[0xff]].concat();
        // A packet socket sees what arrives as it came, and as Weir released it.
        server.send(&frame)?;
        server.send(&last)?;
        let copies = machine.count_until(&last, is_it)? + machine.count_until(&last, is_it)?;
        assert_eq!(copies, 2, "the frame comes back once");
        for sent in [&frame, &last] {
            scene.testbed.weir.run(|| raw::send_queued(RIGHT, sent))??;
        }
        assert_eq!(server.count_until(&last, is_it)?, 1, "the frame leaves once");
    }
    let report = scene.bridge.stop();
    for counters in report.counters {
        assert!(counters.received >= tags.len() as u64, "each frame came by both: {counters:?}");
    }
    Ok(())
}

/// An interface that hears everything must not take what it hears for its own.
fn a_frame_for_another_station_stays_one() -> Outcome {
    let scene = Scene::new()?;
    let receiver = scene.testbed.weir.run(|| UdpSocket::bind((ROUTER, 9)))??;
    let server = scene.testbed.server.run(|| Raw::open(END))??;
    let mac = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.mac.ok_or("it has a MAC")?;
    server.send(&datagram([0x02, 0, 0, 0, 9, 9], 1))?;
    server.send(&datagram(mac.0, 2))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let (_, from) = receiver.recv_from(&mut [0; 8])?;
    assert_eq!(from.port(), 2, "the first one was for another station");
    scene.bridge.stop();
    Ok(())
}

/// It returns under the same number; the kernel may leave the programs at it, or not.
fn moves_away_and_back(for_a_while: bool) -> Outcome {
    let scene = Scene::new()?;
    let index = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index;
    let elsewhere = scene.testbed.move_away(Host::Server)?;
    if for_a_while {
        let is_gone = |states: &Vec<PortState>| states.last() == Some(&PortState::Gone);
        scene.bridge.until("both ports are gone", |seen| seen.states.iter().all(is_gone))?;
    }
    scene.testbed.move_back(Host::Server, &elsewhere)?;
    assert_eq!(Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index, index);
    frames_pass_by_the_bridge(scene).map(drop)
}

/// Others set down, or remove, what leads from the interface to Weir.
fn pair_is_mended(harm: fn(&mut Netlink, &str) -> weir_host::error::Result<()>) -> Outcome {
    let scene = Scene::new()?;
    let mut netlink = Netlink::open_in(&scene.testbed.weir)?;
    let index = netlink.link(RIGHT)?.index;
    for side in ["host", "wire"] {
        harm(&mut netlink, &format!("weir-{side}{index}"))?;
    }
    for counters in frames_pass_by_the_bridge(scene)?.counters {
        assert!(counters.rebinds > 0, "it was mended: {counters:?}");
    }
    Ok(())
}

fn set_down(netlink: &mut Netlink, name: &str) -> weir_host::error::Result<()> {
    netlink.set_up(name, false)
}

/// In the end frames cross both ways, and by both ports.
fn frames_pass_by_the_bridge(scene: Scene) -> Result<bridge::Report, Failed> {
    let server = scene.testbed.server.run(|| Raw::open(END))??;
    let machine = scene.testbed.weir.run(|| Raw::open(RIGHT))??;
    let header = [[0x03; 6].as_slice(), &[0x02, 0, 0, 0, 9, 9, 0x88, 0xb5]].concat();
    let frame = |number: u32| [&header[..], &number.to_be_bytes(), &[7; 60]].concat();
    let mut copies: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut numbers = 0..;
    until("a frame arrives as it came, and as Weir released it", || {
        drop(server.send(&frame(numbers.next().unwrap_or_default())));
        for seen in std::iter::from_fn(|| machine.take()).filter(|seen| seen.starts_with(&header)) {
            *copies.entry(seen).or_default() += 1;
        }
        copies.values().any(|copies| *copies > 1)
    })?;
    until("a frame leaves", || {
        drop(scene.testbed.weir.run(|| raw::send_queued(RIGHT, &frame(0))));
        std::iter::from_fn(|| server.take()).any(|seen| seen == frame(0))
    })?;
    let report = scene.bridge.stop();
    for counters in report.counters {
        assert!(counters.received > 0, "each frame came by both: {counters:?}");
    }
    Ok(report)
}

/// Returns a frame with an empty datagram from this port of the server to port 9 of the router.
fn datagram(to: [u8; 6], source: u8) -> Vec<u8> {
    let mut frame = [to.as_slice(), &Host::Server.mac().0, &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 254]);
    let mut sum = Checksum::default();
    sum.add(&frame[14..]);
    frame[24..26].copy_from_slice(&sum.finish().to_be_bytes());
    // Without a checksum of its own.
    frame.extend([0, source, 0, 9, 0, 8, 0, 0]);
    frame
}

/// A daemon that sends to every interface must not reach the wire by a tap.
fn what_others_send_is_dropped() -> Outcome {
    let scene = Scene::new()?;
    let index = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index;
    let server = scene.testbed.server.run(|| Raw::open(END))??;
    let frame = [[0xff; 12].as_slice(), &[0x88, 0xb6], &[7; 60]].concat();
    for side in ["host", "wire"] {
        let tap = format!("weir-{side}{index}");
        scene.testbed.weir.run(|| raw::send_queued(&tap, &frame))?.ok();
    }
    let last = [&frame[..], &[0xff]].concat();
    scene.testbed.weir.run(|| raw::send_queued(RIGHT, &last))??;
    assert_eq!(server.count_until(&last, |bytes| bytes == frame)?, 0, "it reaches the wire");
    scene.bridge.stop();
    Ok(())
}
