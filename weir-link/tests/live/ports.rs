//! Ports on real interfaces: kernel TCP and UDP between private networks, across a first-in
//! first-out bridge of two ports. Needs root or user namespaces.

#![allow(unsafe_code)]

use crate::sorting;
use crate::support::bridge;
use crate::support::raw::Raw;
use crate::support::traffic::{echo, ends, super_packets, transfer};
use weir_testbed::rows::{self, Need, Row};

use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread;

use bridge::Bridge;
use weir_host::netlink::{LinkState, Mac};
use weir_host::netns::{self, NetNs};
use weir_host::wait::WaitPolicy;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig, PortState};
use weir_testbed::{END, Host, LEFT, Netlink, RIGHT, Testbed, TestbedConfig, until, until_ok};

pub use rows::Outcome;
type Test = (&'static str, fn() -> Outcome);

#[rustfmt::skip]
const TESTS: &[Test] = &[
    ("tcp4_crosses_with_offloads_on", || tcp(Host::ip4, TestbedConfig::default(), MEGABYTES)),
    ("tcp6_crosses_with_offloads_on", || tcp(Host::ip6, TestbedConfig::default(), MEGABYTES)),
    ("tcp4_crosses_with_offloads_off", || tcp(Host::ip4, PLAIN, MEGABYTES)),
    ("tcp6_crosses_with_offloads_off", || tcp(Host::ip6, PLAIN, MEGABYTES)),
    ("tcp4_crosses_with_jumbo_frames", || tcp(Host::ip4, JUMBO, MEGABYTES)),
    ("udp_crosses_at_every_size", udp_crosses_at_every_size),
    ("udp_super_packets_cross_as_frames", udp_super_packets_cross_as_frames),
    ("arp_and_neighbour_discovery_cross", arp_and_neighbour_discovery_cross),
    ("vlan_tags_survive", vlan_tags_survive),
    ("a_pulled_cable_is_reported_and_taken_up_again", || pulled_cable(PACKET)),
    ("a_port_that_moves_away_and_back_is_taken_up_again", || moves_away_and_back(PACKET, true)),
    ("a_port_that_moves_away_and_back_at_once_is_too", || moves_away_and_back(PACKET, false)),
    ("the_other_direction_continues", the_other_direction_continues),
    ("a_port_set_down_carries_on_when_set_up", || set_down_and_up(PACKET)),
    ("a_port_that_is_renamed_is_never_gone", || never_gone(PACKET)),
    ("a_full_ring_counts_what_it_lost", a_full_ring_counts_what_it_lost),
    ("a_blocking_bridge_forwards_too", a_blocking_bridge_forwards_too),
    ("a_missing_interface_is_named", a_missing_interface_is_named),
    ("interfaces_take_their_settings", interfaces_take_their_settings),
    ("each_class_comes_by_its_own_ring", sorting::each_class_comes_by_its_own_ring),
    ("the_kernel_takes_the_longest_program", sorting::the_kernel_takes_the_longest_program),
    ("received_stamps_are_monotonic_and_recent", received_stamps_are_recent),
];

const MEGABYTES: usize = 8 << 20;
const RENAMES: usize = 500;
pub const PLAIN: TestbedConfig = TestbedConfig {
    mtu: 1500,
    offloads: false,
    static_neighbours: true,
    has_ipv6: true,
    queues: 1,
};
const JUMBO: TestbedConfig =
    TestbedConfig { mtu: 9000, offloads: true, static_neighbours: true, has_ipv6: true, queues: 1 };

const PACKET: &str = "afpacket";

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    const OTHERS: &[Row] = &[
        Row::new("ports::a_command_starts_as_root_of_its_own_networks", a_command_starts_as_root)
            .needs(&[Need::UserNamespaces]),
        // It looks at all that this process has open.
        Row::new("ports::networks_are_not_seen_outside_and_leave_nothing", networks_leave_nothing)
            .alone(),
        Row::new("ports::an_xdp_program_sorts_alike", sorting::an_xdp_program_sorts_alike)
            .needs(&[Need::AfXdp]),
        Row::new("ports::the_kernel_takes_the_longest_xdp_program", sorting::longest_xdp_program)
            .needs(&[Need::AfXdp]),
    ];
    let tests = rows::table("ports", TESTS, &[Need::PrivateNetworks]);
    tests.chain(OTHERS.iter().cloned())
}

/// Starts a bridge between two ports of this kind.
fn start(testbed: &Testbed, kind: &str) -> weir_host::error::Result<Bridge> {
    let port = |name| PortConfig { kind: kind.to_owned(), ..PortConfig::new(name) };
    Bridge::start_on(testbed, WaitPolicy::Hybrid, [port(LEFT), port(RIGHT)])
}

fn tcp(address: fn(Host) -> IpAddr, config: TestbedConfig, bytes: usize) -> Outcome {
    let testbed = Testbed::new(config)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    transfer(&testbed, address, bytes)?;
    let report = bridge.stop();
    report.expect_clean()?;
    let left = report.counters[0];
    let expected = config.offloads;
    report.expect((left.super_packets > 0) == expected, "super-packets were cut")?;
    report.expect((left.checksums_completed > 0) == expected, "checksums were completed")?;
    let joined = report.counters[1].joined;
    report.expect((joined > 0) == expected, "segments that left together were joined")?;
    report.expect(left.received_bytes as usize > bytes, "all bytes crossed")
}

fn udp_crosses_at_every_size() -> Outcome {
    for config in [TestbedConfig::default(), PLAIN] {
        let testbed = Testbed::new(config)?;
        let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
        for address in [Host::ip4, Host::ip6] {
            for size in [0, 1, 2, 3, 17, 18, 511, 1000, 1451, 1452] {
                echo(ends(&testbed, address), size)?;
            }
        }
        bridge.stop().expect_clean()?;
    }
    Ok(())
}

fn udp_super_packets_cross_as_frames() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    super_packets(&testbed)?;
    let report = bridge.stop();
    report.expect_clean()?;
    report.expect(report.counters[0].super_packets >= 2, "super-packets were cut")
}

fn arp_and_neighbour_discovery_cross() -> Outcome {
    let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
    let testbed = Testbed::new(config)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    echo(ends(&testbed, Host::ip6), 100)?;
    bridge.stop().expect_clean()
}

/// A port asks the kernel by name, which may change between two of its questions.
pub fn never_gone(kind: &str) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let config = PortConfig { kind: kind.to_owned(), ..PortConfig::new(LEFT) };
    let mut port = testbed.weir.run(|| port::open(config))??;
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    let renames = thread::spawn(move || -> weir_host::error::Result<()> {
        for _ in 0..RENAMES {
            netlink.rename(LEFT, "west0")?;
            netlink.rename("west0", LEFT)?;
        }
        Ok(())
    });
    while !renames.is_finished() {
        assert_eq!(port.refresh(), PortState::Up);
    }
    renames.join().map_err(|_| "the thread that renames panicked")??;
    assert_eq!(port.counters().rebinds, 0);
    Ok(())
}

fn vlan_tags_survive() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    let sender = testbed.client.run(|| Raw::open(END))??;
    let receiver = testbed.server.run(|| Raw::open(END))??;
    let tags: [&[u16]; 5] = [
        &[],
        &[0x8100, 0xa123],
        &[0x88a8, 0x0064],
        &[0x88a8, 0x0064, 0x8100, 0x0007],
        &[0x8100, 0x0001, 0x8100, 0x0002],
    ];
    for (number, tags) in tags.iter().enumerate() {
        let mut frame = Vec::new();
        frame.extend(Host::Server.mac().0);
        frame.extend(Host::Client.mac().0);
        tags.iter().for_each(|word| frame.extend(word.to_be_bytes()));
        // An ethertype for local experiments: no stack replies to it.
        frame.extend([0x88, 0xb5]);
        frame.extend((0..60).map(|byte| byte + number as u8));
        sender.send(&frame)?;
        let seen = receiver.await_frame(|seen| seen.ends_with(&frame[frame.len() - 60..]))?;
        if seen != frame {
            return Err(format!("tags {tags:04x?}: sent {frame:02x?}, arrived {seen:02x?}").into());
        }
    }
    bridge.stop().expect_clean()
}

/// Waits until the bridge sees that the right port is in this state.
fn await_right(bridge: &Bridge, state: PortState) -> Outcome {
    bridge.until(&format!("{state:?}"), |seen| seen.states[1].last() == Some(&state))
}

pub fn pulled_cable(kind: &str) -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = start(&testbed, kind)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    testbed.disconnect(Host::Server)?;
    await_right(&bridge, PortState::Gone)?;
    testbed.connect(Host::Server)?;
    await_right(&bridge, PortState::Up)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    transfer(&testbed, Host::ip6, 100_000)?;
    let report = bridge.stop();
    // Having come back, it may be seen before it is set up.
    let mut states = report.states[1].clone();
    states.retain(|state| *state != PortState::Down);
    let expected = [PortState::Up, PortState::Gone, PortState::Up];
    report.expect(states == expected, "the right port was up, gone and up")?;
    report.expect(report.states[0] == [PortState::Up], "the left port stayed up")?;
    report.expect(report.counters[1].rebinds == 1, "one rebind")?;
    report.expect(report.leaked == 0, "no frame leaked")
}

/// It returns under the same number, so the number does not tell.
pub fn moves_away_and_back(kind: &str, for_a_while: bool) -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = start(&testbed, kind)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    for times in 1..=2 {
        let index = Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index;
        let elsewhere = testbed.move_away(Host::Server)?;
        if for_a_while {
            await_right(&bridge, PortState::Gone)?;
        }
        testbed.move_back(Host::Server, &elsewhere)?;
        assert_eq!(Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index, index);
        bridge.until("the port is back", |seen| {
            seen.counters[1].rebinds == times && seen.states[1].last() == Some(&PortState::Up)
        })?;
        echo(ends(&testbed, Host::ip4), 100)?;
    }
    let report = bridge.stop();
    report.expect(report.states[1].last() == Some(&PortState::Up), "it is up")?;
    report.expect(report.counters[1].rebinds == 2, "two rebinds")?;
    report.expect(report.leaked == 0, "no frame leaked")
}

/// Sends fifty datagrams towards the right port, which is gone or down: they are counted.
fn expect_no_link(testbed: &Testbed, bridge: &Bridge) -> Outcome {
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..50 {
        client.send_to(&[1; 100], (Host::Server.ip4(), 9))?;
    }
    bridge.until("they were counted", |seen| seen.counters[1].send_no_link >= 50)
}

/// With the server's cable pulled, the server side sends nothing, and what the client sends is
/// counted as not sent; the bridge itself continues.
fn the_other_direction_continues() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    testbed.disconnect(Host::Server)?;
    await_right(&bridge, PortState::Gone)?;
    expect_no_link(&testbed, &bridge)?;
    let report = bridge.stop();
    report.expect(report.counters[0].received >= 50, "frames still came in")?;
    report.expect(report.leaked == 0, "no frame leaked")
}

pub fn set_down_and_up(kind: &str) -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = start(&testbed, kind)?;
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    netlink.set_up(RIGHT, false)?;
    await_right(&bridge, PortState::Down)?;
    expect_no_link(&testbed, &bridge)?;
    testbed.set_port_up(Host::Server)?;
    await_right(&bridge, PortState::Up)?;
    echo(ends(&testbed, Host::ip6), 100)?;
    let report = bridge.stop();
    let states = [PortState::Up, PortState::Down, PortState::Up];
    report.expect(report.states[1] == states, "the right port was down for a while")?;
    report.expect(report.counters[1].rebinds == 0, "it is the same interface")?;
    report.expect(report.leaked == 0, "no frame leaked")
}

fn a_full_ring_counts_what_it_lost() -> Outcome {
    const FRAMES: u64 = 1000;
    let testbed = Testbed::new(PLAIN)?;
    let config = PortConfig { ring_slots: 64, ..PortConfig::new(LEFT) };
    let mut port = testbed.weir.run(|| port::open(config))??;
    let sender = testbed.client.run(|| Raw::open(END))??;
    for _ in 0..FRAMES {
        sender.send(&[0xa5; 200])?;
    }
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let mut frames = Vec::new();
    until_ok(&format!("{FRAMES} frames came into 64 slots, or were lost and counted"), || {
        port.receive(0, BATCH, &mut pool, &mut frames);
        let counters = port.counters();
        let has_all = counters.received + counters.overruns() >= FRAMES;
        let is_full = counters.overruns() > 0 && counters.received >= 32;
        if has_all && is_full { Ok(()) } else { Err(format!("{counters:?}")) }
    })?;
    Ok(())
}

fn a_command_starts_as_root() -> Outcome {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "id -u; readlink /proc/self/ns/user; cat /proc/net/dev"]);
    let output = netns::start_in_user_namespace(&mut command).output()?;
    let text = String::from_utf8(output.stdout)?;
    let own = std::fs::read_link("/proc/self/ns/user")?.to_string_lossy().into_owned();
    let mut lines = text.lines();
    let (user, namespace) = (lines.next(), lines.next());
    let interfaces = names(lines.map(|line| format!("{line}\n")).collect());
    let apart = namespace.is_some_and(|namespace| namespace != own && namespace.contains("user:"));
    // Some kernels give every namespace fallback devices, such as `ifb0`.
    if user == Some("0") && apart && interfaces.iter().any(|name| name == "lo") {
        return Ok(());
    }
    Err(format!("outside {own}; inside {text}").into())
}

fn a_blocking_bridge_forwards_too() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Block)?;
    transfer(&testbed, Host::ip4, 1 << 20)?;
    bridge.stop().expect_clean()
}

fn a_missing_interface_is_named() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    for (interface, part) in
        [("nosuch0", "nosuch0"), ("a-name-of-far-too-many-bytes", "1 to 15"), ("lo", "Ethernet")]
    {
        let opened = testbed.weir.run(|| port::open(PortConfig::new(interface)))?;
        let text = opened.err().map(|error| error.to_string()).unwrap_or_default();
        if !text.contains(part) || !text.contains("ip link") {
            return Err(format!("`{interface}` gave {text:?}").into());
        }
    }
    Ok(())
}

fn interfaces_take_their_settings() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let mut netlink = Netlink::open_in(&testbed.client)?;
    let before = netlink.link(END)?;
    let mac = Mac([0x02, 1, 2, 3, 4, 5]);
    netlink.set_mac(END, mac)?;
    netlink.set_mtu(END, 1400)?;
    netlink.add_route("192.0.2.0".parse()?, 24, Host::Server.ip4())?;
    netlink.add_route("2001:db8::".parse()?, 32, Host::Server.ip6())?;
    let after = netlink.link(END)?;
    let expected = LinkState { mtu: 1400, mac: Some(mac), ..before };
    let read = |path| testbed.client.run(|| std::fs::read_to_string(path));
    let route4 = read("/proc/thread-self/net/route")??.contains("000200C0\t02004D0A");
    let route6 = read("/proc/thread-self/net/ipv6_route")??.contains("20010db8");
    let first_mac = before.mac == Some(Host::Client.mac()) && before.mtu == 1500;
    if !(before.is_up && first_mac && after == expected && route4 && route6) {
        return Err(format!("{before:?}, then {after:?}, routes {route4} {route6}").into());
    }
    let errors = [
        netlink.link("nosuch0").map(|_| ()),
        netlink.set_mtu(END, 7),
        netlink.add_address(END, Host::Client.ip4(), 24),
        netlink.add_route("192.0.2.0".parse()?, 24, "203.0.113.1".parse()?),
    ];
    for (error, part) in errors.into_iter().zip(["`nosuch0`", "to 7", "10.77.0.1/24", "203.0."]) {
        let text = error.err().map(|error| error.to_string()).unwrap_or_default();
        if !text.contains(part) {
            return Err(format!("an error should name {part}: {text:?}").into());
        }
    }
    Ok(())
}

fn networks_leave_nothing() -> Outcome {
    let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").map(names);
    let before = interfaces()?;
    let testbed = Testbed::new(PLAIN)?;
    let inodes = [&testbed.client, &testbed.weir, &testbed.server].map(inode);
    let bridge = Bridge::start(&testbed, WaitPolicy::Block)?;
    echo(ends(&testbed, Host::ip4), 100)?;
    let during = interfaces()?;
    bridge.stop();
    drop(testbed);
    if before != during || before != interfaces()? {
        return Err(format!("outside: {before:?}, then {during:?}").into());
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    for inode in inodes {
        let name = format!("net:[{}]", inode?);
        let held = std::fs::read_dir("/proc/self/fd")?
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|target| target.to_string_lossy() == name);
        if held || mounts.contains(&name) {
            return Err(format!("{name} is still held").into());
        }
    }
    Ok(())
}

fn names(table: String) -> Vec<String> {
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    table.lines().filter_map(name).collect()
}

fn inode(namespace: &NetNs) -> std::io::Result<u64> {
    let file = std::fs::File::from(namespace.as_fd().try_clone_to_owned()?);
    Ok(file.metadata()?.ino())
}

fn received_stamps_are_recent() -> Outcome {
    use weir_host::wait::monotonic_ns;
    let testbed = Testbed::new(PLAIN)?;
    let mut port = testbed.weir.run(|| port::open(PortConfig::new(LEFT)))??;
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let before_ns = monotonic_ns();
    for _ in 0..100 {
        client.send_to(&[1; 100], (Host::Server.ip4(), 9))?;
    }
    let mut frames = Vec::new();
    let (mut stamps, mut recent) = (Vec::new(), Vec::new());
    until("all datagrams arrive", || {
        port.receive(0, BATCH, &mut pool, &mut frames);
        for received in frames.drain(..) {
            stamps.push(received.at_ns);
            if pool.bytes(received.frame).len() == 142 {
                recent.push(received.at_ns);
            }
            pool.release(received.frame);
        }
        recent.len() == 100
    })?;
    // The clocks of kernel and port are two.
    let slack_ns = 1_000_000;
    let within = |at: &u64| (before_ns - slack_ns..=monotonic_ns()).contains(at);
    assert!(stamps.is_sorted(), "{stamps:?}");
    assert!(recent.iter().all(within), "{recent:?} after {before_ns}");
    Ok(())
}
