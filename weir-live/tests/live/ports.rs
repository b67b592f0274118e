//! Ports on real interfaces: kernel TCP and UDP between private networks, across a first-in
//! first-out bridge of two ports. Needs root or user namespaces; otherwise the tests are skipped
//! and counted, or fail if WEIR_REQUIRE_LIVE=1.

#![allow(unsafe_code)]

use crate::sorting;
use crate::support::bridge;
use crate::support::raw;
use weir_testbed::rows::{self, Need};

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bridge::{Bridge, Report};
use libtest_mimic::Failed;
use weir_live::netlink::{LinkState, Mac, Netlink};
use weir_live::netns::{self, NetNs};
use weir_live::pool::FramePool;
use weir_live::port::{self, BATCH, PortConfig, PortState};
use weir_live::privilege::Privilege;
use weir_live::wait::WaitPolicy;
use weir_testbed::{END, Host, LEFT, RIGHT, Testbed, TestbedConfig};

pub type Outcome = Result<(), Failed>;
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
    ("a_pulled_cable_is_reported_and_taken_up_again", a_pulled_cable_is_taken_up_again),
    ("a_port_that_moves_away_and_back_is_taken_up_again", || moves_away_and_back(200)),
    ("a_port_that_moves_away_and_back_at_once_is_too", || moves_away_and_back(0)),
    ("the_other_direction_continues", the_other_direction_continues),
    ("a_port_set_down_carries_on_when_set_up", a_port_set_down_carries_on_when_set_up),
    ("a_full_ring_counts_what_it_lost", a_full_ring_counts_what_it_lost),
    ("a_command_starts_as_root_of_its_own_networks", a_command_starts_in_a_user_namespace),
    ("a_blocking_bridge_forwards_too", a_blocking_bridge_forwards_too),
    ("a_missing_interface_is_named", a_missing_interface_is_named),
    ("interfaces_take_their_settings", interfaces_take_their_settings),
    ("networks_are_not_seen_outside_and_leave_nothing", networks_leave_nothing),
    ("each_class_comes_by_its_own_ring", sorting::each_class_comes_by_its_own_ring),
    ("an_xdp_program_sorts_alike", sorting::an_xdp_program_sorts_alike),
    ("the_kernel_takes_the_longest_program", sorting::the_kernel_takes_the_longest_program),
    ("received_stamps_are_monotonic_and_recent", received_stamps_are_recent),
];

const MEGABYTES: usize = 8 << 20;
pub const PLAIN: TestbedConfig =
    TestbedConfig { mtu: 1500, offloads: false, static_neighbours: true };
const JUMBO: TestbedConfig = TestbedConfig { mtu: 9000, offloads: true, static_neighbours: true };

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("ports", TESTS, &[Need::PrivateNetworks])
}

fn tcp(address: fn(Host) -> IpAddr, config: TestbedConfig, bytes: usize) -> Outcome {
    let testbed = Testbed::new(config)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    transfer(&testbed, address, bytes)?;
    let report = bridge.stop();
    expect_clean(&report)?;
    let left = report.counters[0];
    let expected = config.offloads;
    expect(left.super_packets > 0, expected, "super-packets were cut", &report)?;
    expect(left.checksums_completed > 0, expected, "checksums were completed", &report)?;
    expect(left.received_bytes as usize > bytes, true, "all bytes crossed", &report)
}

/// Sends `bytes` from client to server, and a digest back.
fn transfer(testbed: &Testbed, address: fn(Host) -> IpAddr, bytes: usize) -> Outcome {
    let listener = testbed.server.run(|| TcpListener::bind((address(Host::Server), 0)))??;
    let to = listener.local_addr()?;
    let server = thread::spawn(move || -> std::io::Result<u64> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received)?;
        stream.write_all(&digest(&received).to_be_bytes())?;
        Ok(received.len() as u64)
    });
    let content: Vec<u8> = (0..bytes as u64).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    let mut stream = testbed.client.run(|| TcpStream::connect_timeout(&to, PATIENCE))??;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&content)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    let count = server.join().expect("the server does not panic")?;
    if count != bytes as u64 || u64::from_be_bytes(answer) != digest(&content) {
        return Err(format!("{count} of {bytes} bytes arrived, or changed bytes").into());
    }
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(20);

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn udp_crosses_at_every_size() -> Outcome {
    for config in [TestbedConfig::default(), PLAIN] {
        let testbed = Testbed::new(config)?;
        let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
        for address in [Host::ip4, Host::ip6] {
            for size in [0, 1, 2, 3, 17, 18, 511, 1000, 1451, 1452] {
                udp_echo(&testbed, address, size)?;
            }
        }
        expect_clean(&bridge.stop())?;
    }
    Ok(())
}

fn udp_echo(testbed: &Testbed, address: fn(Host) -> IpAddr, size: usize) -> Outcome {
    let bind = |host: Host| testbed.namespace(host).run(|| UdpSocket::bind((address(host), 0)));
    let (client, server) = (bind(Host::Client)??, bind(Host::Server)??);
    let content: Vec<u8> = (0..size).map(|n| (n * 7) as u8).collect();
    let to: SocketAddr = server.local_addr()?;
    client.send_to(&content, to)?;
    let mut bytes = vec![0; size + 1];
    server.set_read_timeout(Some(PATIENCE))?;
    client.set_read_timeout(Some(PATIENCE))?;
    let (len, from) = server.recv_from(&mut bytes)?;
    server.send_to(&bytes[..len], from)?;
    let (len, _) = client.recv_from(&mut bytes)?;
    if bytes[..len] == content {
        Ok(())
    } else {
        Err(format!("{size} bytes came back as {len}").into())
    }
}

fn udp_super_packets_cross_as_frames() -> Outcome {
    const SIZE: usize = 1000;
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    for address in [Host::ip4, Host::ip6] {
        let bind = |host: Host| testbed.namespace(host).run(|| UdpSocket::bind((address(host), 0)));
        let (client, server) = (bind(Host::Client)??, bind(Host::Server)??);
        raw::set_udp_segment(&client, SIZE as u16)?;
        server.set_read_timeout(Some(PATIENCE))?;
        let content: Vec<u8> = (0..20_500u32).map(|n| (n / 3) as u8).collect();
        client.send_to(&content, server.local_addr()?)?;
        let mut arrived: Vec<u8> = Vec::new();
        let mut bytes = [0; 2 * SIZE];
        while arrived.len() < content.len() {
            let len = server.recv(&mut bytes)?;
            arrived.extend(&bytes[..len]);
        }
        if arrived != content {
            return Err("datagrams changed on the way".into());
        }
    }
    let report = bridge.stop();
    expect_clean(&report)?;
    expect(report.counters[0].super_packets >= 2, true, "super-packets were cut", &report)
}

fn arp_and_neighbour_discovery_cross() -> Outcome {
    let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
    let testbed = Testbed::new(config)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    udp_echo(&testbed, Host::ip4, 100)?;
    udp_echo(&testbed, Host::ip6, 100)?;
    expect_clean(&bridge.stop())
}

fn vlan_tags_survive() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    let sender = testbed.client.run(|| raw::Raw::open(END))??;
    let receiver = testbed.server.run(|| raw::Raw::open(END))??;
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
        let seen =
            receiver.receive_until(PATIENCE, |seen| seen.ends_with(&frame[frame.len() - 60..]))?;
        if seen != frame {
            return Err(format!("tags {tags:04x?}: sent {frame:02x?}, arrived {seen:02x?}").into());
        }
    }
    expect_clean(&bridge.stop())
}

fn a_pulled_cable_is_taken_up_again() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    udp_echo(&testbed, Host::ip4, 100)?;
    testbed.disconnect(Host::Server)?;
    bridge.until("the port is gone", |seen| seen.states[1].last() == Some(&PortState::Gone))?;
    testbed.connect(Host::Server)?;
    bridge.until("the port is back", |seen| seen.states[1].last() == Some(&PortState::Up))?;
    udp_echo(&testbed, Host::ip4, 100)?;
    transfer(&testbed, Host::ip6, 100_000)?;
    let report = bridge.stop();
    // Having come back, it may be seen before it is set up.
    let mut states = report.states[1].clone();
    states.retain(|state| *state != PortState::Down);
    let expected = [PortState::Up, PortState::Gone, PortState::Up];
    expect(states == expected, true, "the right port was up, gone and up", &report)?;
    expect(report.states[0] == [PortState::Up], true, "the left port stayed up", &report)?;
    expect(report.counters[1].rebinds == 1, true, "one rebind", &report)
}

/// It returns under the same number, so the number does not tell.
fn moves_away_and_back(away_ms: u64) -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    udp_echo(&testbed, Host::ip4, 100)?;
    for times in 1..=2 {
        let index = Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index;
        testbed.move_away_and_back(Host::Server, Duration::from_millis(away_ms))?;
        assert_eq!(Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index, index);
        bridge.until("the port is back", |seen| {
            seen.counters[1].rebinds == times && seen.states[1].last() == Some(&PortState::Up)
        })?;
        udp_echo(&testbed, Host::ip4, 100)?;
    }
    let report = bridge.stop();
    expect(report.states[1].last() == Some(&PortState::Up), true, "it is up", &report)?;
    expect(report.counters[1].rebinds == 2, true, "two rebinds", &report)
}

/// With the server's cable pulled, the server side sends nothing, and what the client sends is
/// counted as not sent; the bridge itself continues.
fn the_other_direction_continues() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    testbed.disconnect(Host::Server)?;
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..50 {
        client.send_to(&[1; 100], (Host::Server.ip4(), 9))?;
        thread::sleep(Duration::from_millis(1));
    }
    bridge.until("they were counted", |seen| seen.counters[1].send_no_link >= 50)?;
    let report = bridge.stop();
    expect(report.counters[0].received >= 50, true, "frames still came in", &report)?;
    expect(report.counters[1].send_no_link >= 50, true, "and were counted", &report)?;
    expect(report.leaked == 0, true, "no frame leaked", &report)
}

fn a_port_set_down_carries_on_when_set_up() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    udp_echo(&testbed, Host::ip4, 100)?;
    netlink.set_up(RIGHT, false)?;
    bridge.until("the port is down", |seen| seen.states[1].last() == Some(&PortState::Down))?;
    netlink.set_up(RIGHT, true)?;
    bridge.until("the port is up", |seen| seen.states[1].last() == Some(&PortState::Up))?;
    udp_echo(&testbed, Host::ip6, 100)?;
    let report = bridge.stop();
    let states = [PortState::Up, PortState::Down, PortState::Up];
    expect(report.states[1] == states, true, "the right port was down for a while", &report)?;
    expect(report.counters[1].rebinds == 0, true, "it is the same interface", &report)
}

fn a_full_ring_counts_what_it_lost() -> Outcome {
    const FRAMES: u64 = 1000;
    let testbed = Testbed::new(PLAIN)?;
    let config = PortConfig { ring_slots: 64, ..PortConfig::new(LEFT) };
    let mut port = testbed.weir.run(|| port::open(config))??;
    let sender = testbed.client.run(|| raw::Raw::open(END))??;
    for _ in 0..FRAMES {
        sender.send(&[0xa5; 200])?;
    }
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let (mut frames, start) = (Vec::new(), Instant::now());
    let mut counters = port.counters();
    // The last frame may still be on its way through the kernel.
    while counters.received + counters.overruns() < FRAMES && start.elapsed() < PATIENCE {
        port.receive(0, BATCH, &mut pool, &mut frames);
        counters = port.counters();
    }
    // Other frames (neighbour discovery) may arrive as well.
    let all = counters.received + counters.overruns();
    if counters.overruns() > 0 && counters.received >= 32 && all < FRAMES + 50 {
        return Ok(());
    }
    Err(format!("{FRAMES} frames into 64 slots: {counters:?}").into())
}

fn a_command_starts_in_a_user_namespace() -> Outcome {
    if !Privilege::detect().user_namespace {
        println!("skipped: 1 live test: no user namespaces here");
        return Ok(());
    }
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
    expect_clean(&bridge.stop())
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
    udp_echo(&testbed, Host::ip4, 100)?;
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
    use weir_live::wait::monotonic_ns;
    let testbed = Testbed::new(PLAIN)?;
    let mut port = testbed.weir.run(|| port::open(PortConfig::new(LEFT)))??;
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let before_ns = monotonic_ns();
    for _ in 0..100 {
        client.send_to(&[1; 100], (Host::Server.ip4(), 9))?;
    }
    let mut frames = Vec::new();
    let start = Instant::now();
    while frames.len() < 100 && start.elapsed() < PATIENCE {
        port.receive(0, BATCH, &mut pool, &mut frames);
    }
    let stamps: Vec<u64> = frames.iter().map(|frame| frame.at_ns).collect();
    let udp = frames.iter().filter(|frame| pool.bytes(frame.frame).len() == 142);
    let recent: Vec<u64> = udp.map(|frame| frame.at_ns).collect();
    let slack_ns = 1_000_000;
    let sorted = stamps.is_sorted();
    let within = recent.iter().all(|at| (before_ns - slack_ns..=monotonic_ns()).contains(at));
    if sorted && within && recent.len() >= 90 {
        return Ok(());
    }
    Err(format!("sorted {sorted}, within {within}, {} frames; {RIGHT} unused", recent.len()).into())
}

fn expect_clean(report: &Report) -> Outcome {
    expect(report.leaked == 0, true, "no frame leaked", report)?;
    for counters in report.counters {
        let lost = counters.unfinished + counters.oversize + counters.truncated;
        let unsent = counters.send_too_long + counters.send_no_link + counters.send_failed;
        expect(lost + unsent == 0, true, "every frame crossed", report)?;
    }
    Ok(())
}

fn expect(found: bool, expected: bool, what: &str, report: &Report) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected}, found {found}; {report:#?}").into())
}
