//! Deployments of more than two ports, of ports with delay and loss, of several bridges, and
//! packets that grew old.

use super::{POLICY, SLOW, Test, class_at, dropped, exchange, plan};
use libtest_mimic::Failed;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;
use weir_host::ethtool;
use weir_host::netlink::{Mac, VethEnd};
use weir_host::netns::NetNs;
use weir_link::status::{PortStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{
    END, Flood, Host, LEFT, Netlink, PATIENCE, PortKind, RIGHT, Scene, Stream, StreamConfig,
    Testbed, bind, signal, until,
};

pub const TESTS: &[Test] = &[
    ("several_ports_feed_one_link", several_ports_feed_one_link),
    ("a_port_delays_and_loses_what_leaves_by_it", a_port_delays_and_loses),
    ("two_bridges_run_in_one_process", two_bridges_run_in_one_process),
    ("packets_that_grew_old_in_a_stall_are_dropped_as_stale", old_packets_are_stale),
    ("none_in_a_ring_is_delivered_old_after_a_stall", || stale_on_arrival(PortKind::AfPacket)),
];

pub const OVER_AF_XDP: &[Test] = &[
    ("nor_one_that_came_by_af_xdp", || stale_on_arrival(PortKind::AfXdp)),
    ("a_worker_sends_by_af_xdp_for_as_long_as_frames_come", || one_way(PortKind::AfXdp)),
];

/// A host of a test besides the two of the testbed, and its cable to a port of Weir.
fn add_host(testbed: &Testbed, port: &str, number: u8) -> Result<NetNs, Failed> {
    let host = NetNs::new()?;
    let mut weir = Netlink::open_in(&testbed.weir)?;
    let end = VethEnd { name: END, namespace: &host, mac: mac(0x77, number) };
    let port_end = VethEnd { name: port, namespace: &testbed.weir, mac: mac(0x78, number) };
    weir.add_veth(end, port_end, 1500)?;
    testbed.weir.run(|| ethtool::set_ipv6(port, false))??;
    weir.set_up(port, true)?;
    host.run(|| -> Result<(), weir_host::error::SystemError> {
        let mut netlink = Netlink::open()?;
        netlink.set_up("lo", true)?;
        netlink.set_up(END, true)?;
        netlink.add_address(END, address(number), 24)
    })??;
    Ok(host)
}

fn mac(kind: u8, number: u8) -> Mac {
    Mac([2, 0, 0, 0, kind, number])
}

fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, number))
}

/// Replaces the scene's deployment: `ports`, then the rest.
fn deploy(scene: &Scene, ports: &str, rest: &str) -> Outcome {
    let control = scene.socket();
    let text = format!("[deployment]\nports = {{ {ports} }}\ncontrol = {control:?}\n{rest}");
    Ok(scene.write("link.toml", &text)?)
}

/// Sends datagrams until `count` arrived, each once the one before has; the first may wait for ARP.
fn reach(from: &NetNs, to: (&NetNs, IpAddr), port: u16, count: usize) -> Outcome {
    let receiver = bind(to.0, to.1, port)?;
    let sender = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    receiver.set_read_timeout(Some(PATIENCE))?;
    for _ in 0..count {
        sender.send_to(&[0; 160], (to.1, port))?;
        receiver.recv(&mut [0; 200])?;
    }
    Ok(())
}

/// [risso99 Figure 1] Two networks share the link to a third.
fn several_ports_feed_one_link() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let guest = add_host(&scene.testbed, "guests", 3)?;
    deploy(
        &scene,
        &format!("inside = \"{LEFT}\", guests = \"guests\", outside = \"{RIGHT}\""),
        "[direction.upload]\nfrom = [\"inside\", \"guests\"]\nto = \"outside\"\n\
         policy = \"policy.toml\"\n",
    )?;
    scene.start()?;
    let bed = &scene.testbed;
    reach(&bed.client, (&bed.server, Host::Server.ip4()), 5004, 20)?;
    reach(&guest, (&bed.server, Host::Server.ip4()), 5004, 30)?;
    reach(&bed.server, (&guest, address(3)), 5004, 10)?;
    reach(&bed.client, (&guest, address(3)), 5004, 10)?;
    let upload = |status: &Status| {
        let lane = status.lanes.iter().find(|lane| lane.name == "upload");
        lane.map(|lane| (lane.from.clone(), lane.classes[0].sent.packets))
    };
    let wanted = Some((format!("{LEFT}, guests"), 50));
    scene.await_status("only what leaves by that link", |status| upload(status) == wanted)?;
    scene.stop()?;
    Ok(())
}

/// Returns how many frames a port lost on purpose.
fn impaired(port: &PortStatus) -> u64 {
    let lost = port.lost_out_by_cause.iter().filter(|(cause, _)| cause == "impairment");
    lost.map(|(_, frames)| *frames).sum()
}

/// The port loses by its own draws, which begin with `seed`; what it counts is what does not
/// arrive, and nothing arrives earlier than the delay.
fn a_port_delays_and_loses() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let outside = "delay = \"25 ms\", loss = \"10 %\", seed = 7";
    let ports = format!("inside = \"{LEFT}\", outside = {{ interface = \"{RIGHT}\", {outside} }}");
    deploy(&scene, &ports, "sojourn_max = \"none\"")?;
    scene.start()?;
    let stream = Stream::numbered(&scene.testbed, StreamConfig { per_second: 200, ..SLOW })?;
    until("many are sent", || stream.sent() >= 400)?;
    let found = stream.finish()?;
    let ages = (0..found.sent).filter_map(|number| {
        let index = usize::try_from(number).ok()?;
        found.arrived_ns(number)?.checked_sub(found.sent_ns()[index])
    });
    let shortest = Duration::from_nanos(ages.min().ok_or("none arrived")?);
    assert!(shortest >= Duration::from_millis(25), "one arrived after {shortest:?}");
    assert_eq!((found.repeated, found.reordered), (0, 0), "{found:?}");
    let status = scene.status()?;
    let (lost, sent) = (impaired(&status.ports[1]), found.lost());
    // Marks behind the stream, and a frame of neighbour discovery, may be lost, too.
    let others = found.marks + NEIGHBOURS_MAX;
    assert!(0 < sent && sent <= lost && lost <= sent + others, "{lost} counted: {found:?}");
    assert!(found.arrived > 0 && impaired(&status.ports[0]) == 0, "{status:?}");
    scene.stop()?;
    Ok(())
}

fn two_bridges_run_in_one_process() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let east = add_host(&scene.testbed, "east", 4)?;
    let west = add_host(&scene.testbed, "west", 5)?;
    let direction = |name: &str, from: &str, to: &str| {
        format!("[direction.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\npolicy = \"policy.toml\"\n")
    };
    deploy(
        &scene,
        &format!("a = \"{LEFT}\", east = \"east\", b = \"{RIGHT}\", west = \"west\""),
        &[direction("first", "a", "b"), direction("second", "east", "west")].concat(),
    )?;
    scene.start()?;
    exchange(&scene.testbed, 5004, 5)?;
    reach(&east, (&west, address(5)), 5004, 9)?;
    let sent = |status: &Status, name: &str| {
        let lane = status.lanes.iter().find(|lane| lane.name == name);
        lane.map(|lane| lane.classes[0].sent.packets)
    };
    let both = |status: &Status| (sent(status, "first"), sent(status, "second"));
    let status =
        scene.await_status("each is counted", |status| both(status) == (Some(5), Some(9)))?;
    assert_eq!((status.ports.len(), status.lanes.len()), (4, 4));
    // The two are apart: what the first one floods does not come to `west`, and what is sent there
    // later does.
    let receiver = bind(&west, address(5), 5004)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let client = &scene.testbed.client;
    Netlink::open_in(client)?.add_neighbour(END, address(5), mac(0x77, 5))?;
    let stranger = client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..5 {
        stranger.send_to(&[0; 160], (address(5), 5004))?;
    }
    scene.await_status("it leaves by the first", |status| sent(status, "first") == Some(10))?;
    let friend = east.run(|| UdpSocket::bind((address(4), 0)))??;
    friend.send_to(&[0; 160], (address(5), 5004))?;
    let (_, from) = receiver.recv_from(&mut [0; 200])?;
    assert_eq!(from.ip(), address(4), "the bridges are joined");
    let text = scene.stop()?;
    assert!(text.contains("are bridged; "), "{text}");
    Ok(())
}

fn old_packets_are_stale() -> Outcome {
    let policy = POLICY.replace("50 Mbit/s", "1 Mbit/s");
    let policy = format!("{policy}queue = {{ limit = \"5000 packets\" }}\n");
    let deployment = "sojourn_max = \"1 s\"\nwatchdog = \"20 s\"";
    let mut scene = plan(&policy).deployment(deployment).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let waits = |status: &Status| class_at(status, 1).backlog.packets > 1000;
    scene.await_status("frames wait", waits)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    drop(flood);
    // Longer than they may wait.
    thread::sleep(Duration::from_millis(1500));
    signal(forwarder, "CONT")?;
    let stale = |status: &Status| dropped(class_at(status, 1), "stale");
    let is_stale =
        |status: &Status| stale(status) > 100 && class_at(status, 1).backlog.packets == 0;
    let status = scene.await_status("the old ones are dropped", is_stale)?;
    let rest = class_at(&status, 1);
    let dropped: u64 = rest.dropped.iter().map(|(_, amount)| amount.packets).sum();
    assert_eq!(rest.offered.packets, rest.sent.packets + dropped, "{rest:?}");
    scene.stop()?;
    Ok(())
}

/// Packets that come while the forwarder is stopped wait in the rings of its port. Those that have
/// waited for longer than they may are lost as stale on arrival, and counted.
fn stale_on_arrival(kind: PortKind) -> Outcome {
    let deployment = "sojourn_max = \"500 ms\"\nwatchdog = \"20 s\"";
    let mut scene = plan(POLICY).ports(kind).deployment(deployment).start()?;
    let forwarder = scene.forwarder()?;
    let mut stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    signal(forwarder, "STOP")?;
    let stopped = stream.sent();
    until("some wait in the ring", || stream.sent() > stopped + 30)?;
    let sent = stream.stop_sending();
    // All of them grow too old.
    thread::sleep(Duration::from_secs(1));
    signal(forwarder, "CONT")?;
    let lost = |status: &Status| -> u64 {
        let class = class_at(status, 0);
        let lost = class.lost.iter().filter(|(cause, _)| cause == "stale on arrival");
        dropped(class, "stale") + lost.map(|(_, frames)| *frames).sum::<u64>()
    };
    scene.await_status("the old ones are lost", |status| lost(status) >= 30)?;
    let found = stream.finish()?;
    // What came while it was stopped does not arrive, and what does not arrive is counted.
    let old = (stopped + 1..sent).filter_map(|number| found.arrived_ns(number)).count();
    assert_eq!((old, found.repeated), (0, 0), "sent from {stopped} to {sent}: {found:?}");
    let (lost, missing) = (lost(&scene.status()?), found.lost());
    assert!(missing <= lost && lost <= missing + found.marks, "{lost} counted: {found:?}");
    scene.stop()?;
    Ok(())
}

/// More frames go one way than a worker has slots: each that it sent gives one back.
fn one_way(kind: PortKind) -> Outcome {
    const FRAMES: u64 = 6000;
    let deployment = "workers = 2\nsojourn_max = \"none\"";
    let mut scene = plan(POLICY).ports(kind).deployment(deployment).start()?;
    let config = StreamConfig { port: 5004, per_second: 4000, length: 64 };
    let stream = Stream::numbered(&scene.testbed, config)?;
    until("enough were sent", || stream.sent() > FRAMES)?;
    stream.await_another()?;
    let found = stream.finish()?;
    // On a busy machine a ring may lose some; a worker without slots would lose all from then on.
    assert!(found.lost() < FRAMES / 4 && found.repeated == 0, "{found:?}");
    let whole = |status: &Status| status.frames_free == status.frames_max;
    scene.await_status("each slot is free again", whole)?;
    scene.stop()?;
    Ok(())
}

/// Frames of neighbour discovery that a host sends in the time of a row.
const NEIGHBOURS_MAX: u64 = 10;
