//! The ports `host` and `wire` frame by frame: whatever a machine sends and receives crosses them
//! unchanged, once, and stays for whom it was. Needs root, since programs in the kernel take it;
//! otherwise the tests are skipped and counted, or fail if WEIR_REQUIRE_LIVE=1.

#![allow(unsafe_code)]

use crate::support::bridge;
use crate::support::raw;
use weir_testbed::rows::{self, Need};

use std::cell::Cell;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use bridge::Bridge;
use libtest_mimic::Failed;
use weir_live::netlink::Netlink;
use weir_live::port::PortConfig;
use weir_live::wait::WaitPolicy;
use weir_testbed::{END, Host, RIGHT, Testbed, TestbedConfig};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("frames_with_any_tags_cross_both_ways", frames_with_any_tags_cross_both_ways),
    ("a_frame_for_another_station_stays_one", a_frame_for_another_station_stays_one),
    ("an_interface_that_moves_away_and_back_is_cut_open_again", || moves_away_and_back(0)),
    ("one_that_is_away_for_a_while_is_cut_open_again", || moves_away_and_back(200)),
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
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for what is on its way.
const SILENCE: Duration = Duration::from_millis(200);

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
    let server = scene.testbed.server.run(|| raw::Raw::open(END))??;
    let machine = scene.testbed.weir.run(|| raw::Raw::open(RIGHT))??;
    let tags: [&[u16]; 4] =
        [&[], &[0x8100, 0xa123], &[0x88a8, 0x0064, 0x8100, 0x0007], &[0x8100, 1, 0x8100, 2]];
    for (number, tags) in tags.iter().enumerate() {
        let mut frame = [[0x03; 6], [0x02, 0, 0, 0, 9, 9]].concat();
        tags.iter().chain(&[0x88b5]).for_each(|word| frame.extend(word.to_be_bytes()));
        frame.extend([number as u8; 60]);
        let is_it = |bytes: &[u8]| bytes == frame;
        // A packet socket sees what arrives as it came, and as Weir released it.
        server.send(&frame)?;
        let copies = Cell::new(0);
        machine.receive_until(PATIENCE, |bytes| {
            copies.set(copies.get() + u32::from(is_it(bytes)));
            copies.get() == 2
        })?;
        machine.receive_until(SILENCE, is_it).expect_err("the frame comes back once");
        scene.testbed.weir.run(|| raw::send_queued(RIGHT, &frame))??;
        server.receive_until(PATIENCE, is_it)?;
        server.receive_until(SILENCE, is_it).expect_err("the frame leaves once");
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
    let server = scene.testbed.server.run(|| raw::Raw::open(END))??;
    let mac = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.mac.ok_or("it has a MAC")?;
    server.send(&datagram([0x02, 0, 0, 0, 9, 9]))?;
    receiver.set_read_timeout(Some(SILENCE))?;
    receiver.recv(&mut [0; 8]).expect_err("it was for another station");
    server.send(&datagram(mac.0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    receiver.recv(&mut [0; 8])?;
    scene.bridge.stop();
    Ok(())
}

/// It returns under the same number; the kernel may leave the programs at it, or not.
fn moves_away_and_back(away_ms: u64) -> Outcome {
    let scene = Scene::new()?;
    let index = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index;
    scene.testbed.move_away_and_back(Host::Server, Duration::from_millis(away_ms))?;
    assert_eq!(Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index, index);
    frames_pass_by_the_bridge(scene).map(drop)
}

/// Others set down, or remove, what leads from the interface to Weir.
fn pair_is_mended(harm: fn(&mut Netlink, &str) -> weir_live::error::Result<()>) -> Outcome {
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

fn set_down(netlink: &mut Netlink, name: &str) -> weir_live::error::Result<()> {
    netlink.set_up(name, false)
}

/// After some time frames cross both ways, and by both ports.
fn frames_pass_by_the_bridge(scene: Scene) -> Result<bridge::Report, Failed> {
    std::thread::sleep(3 * SILENCE);
    let server = scene.testbed.server.run(|| raw::Raw::open(END))??;
    let machine = scene.testbed.weir.run(|| raw::Raw::open(RIGHT))??;
    let frame = [[0x03; 6].as_slice(), &[0x02, 0, 0, 0, 9, 9, 0x88, 0xb5], &[7; 60]].concat();
    let is_it = |bytes: &[u8]| bytes == frame;
    server.send(&frame)?;
    let copies = Cell::new(0);
    // As it came, and as Weir released it.
    machine.receive_until(PATIENCE, |bytes| {
        copies.set(copies.get() + u32::from(is_it(bytes)));
        copies.get() == 2
    })?;
    scene.testbed.weir.run(|| raw::send_queued(RIGHT, &frame))??;
    server.receive_until(PATIENCE, is_it)?;
    let report = scene.bridge.stop();
    for counters in report.counters {
        assert!(counters.received > 0, "each frame came by both: {counters:?}");
    }
    Ok(report)
}

/// Returns a frame with an empty datagram from the server to port 9 of the router.
fn datagram(to: [u8; 6]) -> Vec<u8> {
    let mut frame = [to.as_slice(), &Host::Server.mac().0, &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 254]);
    let words = frame[14..].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    // Without a checksum of its own.
    frame.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    frame
}

/// A daemon that sends to every interface must not reach the wire by a tap.
fn what_others_send_is_dropped() -> Outcome {
    let scene = Scene::new()?;
    let index = Netlink::open_in(&scene.testbed.weir)?.link(RIGHT)?.index;
    let server = scene.testbed.server.run(|| raw::Raw::open(END))??;
    let frame = [[0xff; 12].as_slice(), &[0x88, 0xb6], &[7; 60]].concat();
    for side in ["host", "wire"] {
        let tap = format!("weir-{side}{index}");
        scene.testbed.weir.run(|| raw::send_queued(&tap, &frame))?.ok();
    }
    let seen = server.receive_until(SILENCE, |bytes| bytes == frame);
    seen.expect_err("it does not reach the wire");
    scene.bridge.stop();
    Ok(())
}
