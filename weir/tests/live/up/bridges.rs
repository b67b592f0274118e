//! Deployments of more than two ports, of ports with delay and loss, of several bridges, and
//! packets that grew old.

use super::deaths::until;
use super::{Outcome, PATIENCE, POLICY, Scene, Test, bind, flood, send_until_received, signal};
use libtest_mimic::Failed;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_live::ethtool;
use weir_live::netlink::{Mac, VethEnd};
use weir_live::netns::NetNs;
use weir_live::status::Status;
use weir_live::wait::monotonic_ns;
use weir_testbed::{END, Host, LEFT, Netlink, RIGHT, Testbed};

pub const TESTS: &[Test] = &[
    ("several_ports_feed_one_link", several_ports_feed_one_link),
    ("a_port_delays_and_loses_what_leaves_by_it", a_port_delays_and_loses),
    ("two_bridges_run_in_one_process", two_bridges_run_in_one_process),
    ("packets_that_grew_old_in_a_stall_are_dropped_as_stale", old_packets_are_stale),
    ("none_in_a_ring_is_delivered_old_after_a_stall", || nothing_old_after_stall("afpacket")),
    ("nor_one_that_came_by_af_xdp", || nothing_old_after_stall("afxdp")),
];

/// A host of a test besides the two of the testbed, and its cable to a port of Weir.
fn add_host(testbed: &Testbed, port: &str, number: u8) -> Result<NetNs, Failed> {
    let host = NetNs::new()?;
    let mut weir = Netlink::open_in(&testbed.weir)?;
    let mac = |kind| Mac([2, 0, 0, 0, kind, number]);
    let end = VethEnd { name: END, namespace: &host, mac: mac(0x77) };
    weir.add_veth(end, VethEnd { name: port, namespace: &testbed.weir, mac: mac(0x78) }, 1500)?;
    testbed.weir.run(|| ethtool::set_ipv6(port, false))??;
    weir.set_up(port, true)?;
    host.run(|| -> Result<(), weir_live::error::SystemError> {
        let mut netlink = Netlink::open()?;
        netlink.set_up("lo", true)?;
        netlink.set_up(END, true)?;
        netlink.add_address(END, address(number), 24)
    })??;
    Ok(host)
}

fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, number))
}

/// Replaces the scene's deployment: `ports`, then the rest.
fn deploy(scene: &Scene, ports: &str, rest: &str) -> Outcome {
    let control = scene.folder.join("weir.sock");
    let text = format!("[deployment]\nports = {{ {ports} }}\ncontrol = {control:?}\n{rest}");
    fs::write(scene.folder.join("link.toml"), text)?;
    Ok(())
}

/// Sends datagrams until `count` arrived; the first ones may wait for ARP.
fn exchange(from: &NetNs, to: (&NetNs, IpAddr), port: u16, count: usize) -> Outcome {
    exchange_within(PATIENCE, from, to, (port, count))
}

/// As [`exchange`]; each must arrive within `patience`.
fn exchange_within(
    patience: Duration,
    from: &NetNs,
    to: (&NetNs, IpAddr),
    (port, count): (u16, usize),
) -> Outcome {
    let receiver = bind(to.0, to.1, port)?;
    let sender = from.run(|| UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0))))??;
    receiver.set_read_timeout(Some(patience))?;
    for _ in 0..count {
        sender.send_to(&[0; 160], (to.1, port))?;
        receiver.recv(&mut [0; 200])?;
    }
    Ok(())
}

/// [risso99 Figure 1] Two networks share the link to a third.
fn several_ports_feed_one_link() -> Outcome {
    let mut scene = Scene::new("feed", POLICY)?;
    let guest = add_host(&scene.testbed, "guests", 3)?;
    deploy(
        &scene,
        &format!("inside = \"{LEFT}\", guests = \"guests\", outside = \"{RIGHT}\""),
        "[direction.upload]\nfrom = [\"inside\", \"guests\"]\nto = \"outside\"\n\
         policy = \"policy.toml\"\n",
    )?;
    scene.start()?;
    let bed = &scene.testbed;
    exchange(&bed.client, (&bed.server, Host::Server.ip4()), 5004, 20)?;
    exchange(&guest, (&bed.server, Host::Server.ip4()), 5004, 30)?;
    exchange(&bed.server, (&guest, address(3)), 5004, 10)?;
    exchange(&bed.client, (&guest, address(3)), 5004, 10)?;
    let status = scene.status()?;
    let upload = status.lanes.iter().find(|lane| lane.name == "upload").ok_or("it has a lane")?;
    assert_eq!(upload.from, format!("{LEFT}, guests"));
    assert_eq!(upload.classes[0].sent.packets, 50, "only what leaves by that link: {status:?}");
    scene.stop()?;
    Ok(())
}

fn a_port_delays_and_loses() -> Outcome {
    const SENT: u64 = 400;
    let mut scene = Scene::new("delay", POLICY)?;
    deploy(
        &scene,
        &format!(
            "inside = \"{LEFT}\", \
             outside = {{ interface = \"{RIGHT}\", delay = \"25 ms\", loss = \"10 %\", seed = 7 }}"
        ),
        "",
    )?;
    scene.start()?;
    let bed = &scene.testbed;
    let server = bind(&bed.server, Host::Server.ip4(), 5004)?;
    let client = bed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    server.set_read_timeout(Some(Duration::from_millis(100)))?;
    // Each says when it was sent.
    let age = || -> Option<Duration> {
        let mut bytes = [0; 8];
        server.recv(&mut bytes).ok()?;
        Some(Duration::from_nanos(monotonic_ns() - u64::from_be_bytes(bytes)))
    };
    let mut ages = Vec::new();
    for _ in 0..SENT / 4 {
        for _ in 0..4 {
            client.send_to(&monotonic_ns().to_be_bytes(), (Host::Server.ip4(), 5004))?;
        }
        // A lost one is not waited for for long: the next four follow.
        ages.extend((0..4).map_while(|_| age()));
    }
    let start = Instant::now();
    let lost = loop {
        ages.extend(std::iter::from_fn(age));
        let status = scene.status()?;
        let causes = &status.ports[1].lost_out_by_cause;
        let lost = causes.iter().find(|(name, _)| name == "impairment");
        let lost = lost.map_or(0, |(_, frames)| *frames);
        if ages.len() as u64 + lost >= SENT || start.elapsed() > PATIENCE {
            break lost;
        }
    };
    let (arrived, shortest) = (ages.len() as u64, ages.iter().min().ok_or("none arrived")?);
    assert!(*shortest >= Duration::from_millis(25), "one arrived after {shortest:?}");
    // A frame of neighbour discovery may be lost, too.
    assert!((SENT..SENT + 5).contains(&(arrived + lost)), "{arrived} arrived, {lost} were lost");
    assert!((15..=75).contains(&lost), "about a tenth: {lost}");
    scene.stop()?;
    Ok(())
}

fn two_bridges_run_in_one_process() -> Outcome {
    let mut scene = Scene::new("two", POLICY)?;
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
    send_until_received(&scene.testbed, 5004, 5)?;
    exchange(&east, (&west, address(5)), 5004, 9)?;
    let status = scene.status()?;
    let sent = |name: &str| {
        let lane = status.lanes.iter().find(|lane| lane.name == name);
        lane.map(|lane| lane.classes[0].sent.packets)
    };
    assert_eq!((sent("first"), sent("second")), (Some(5), Some(9)), "{status:?}");
    assert_eq!((status.ports.len(), status.lanes.len()), (4, 4));
    // The two are apart: from one no frame comes into the other.
    let (from, to) = (&scene.testbed.client, (&west, address(5)));
    let stranger = exchange_within(Duration::from_secs(3), from, to, (5004, 1));
    assert!(stranger.is_err(), "the bridges are joined");
    let text = scene.stop()?;
    assert!(text.contains("are bridged; "), "{text}");
    Ok(())
}

fn old_packets_are_stale() -> Outcome {
    let policy = POLICY.replace("50 Mbit/s", "1 Mbit/s");
    let policy = format!("{policy}queue = {{ limit = \"5000 packets\" }}\n");
    let mut scene = Scene::new("stale", &policy)?;
    let path = scene.folder.join("link.toml");
    let text = fs::read_to_string(&path)?
        .replace("[direction", "sojourn_max = \"1 s\"\nwatchdog = \"10 s\"\n[direction");
    fs::write(&path, text)?;
    scene.start()?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let waits = |status: &Status| status.lanes[0].classes[1].backlog.packets > 1000;
    scene.await_status("frames wait", waits)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    thread::sleep(Duration::from_millis(2500));
    signal(forwarder, "CONT")?;
    let stale = |status: &Status| {
        let dropped = &status.lanes[0].classes[1].dropped;
        dropped.iter().find(|(cause, _)| cause == "stale").map_or(0, |(_, frames)| frames.packets)
    };
    scene.await_status("the old ones are dropped", |status| stale(status) > 100)?;
    scene.stop()?;
    Ok(())
}

/// Packets that come while the forwarder is stopped wait in the rings of its port. Each says when it
/// was sent, and the receiver knows how old it is.
fn nothing_old_after_stall(kind: &str) -> Outcome {
    let mut scene = Scene::new(kind, POLICY)?;
    let path = scene.folder.join("link.toml");
    let table = |name: &str| format!("{{ interface = \"{name}\", kind = \"{kind}\" }}");
    let text = fs::read_to_string(&path)?
        .replace(&format!("\"{LEFT}\""), &table(LEFT))
        .replace(&format!("\"{RIGHT}\""), &table(RIGHT))
        .replace("[direction", "sojourn_max = \"200 ms\"\nwatchdog = \"10 s\"\n[direction");
    fs::write(&path, text)?;
    scene.start()?;
    let server = bind(&scene.testbed.server, Host::Server.ip4(), 5004)?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let (done, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (stop, ended, count) = (Arc::clone(&done), Arc::clone(&done), Arc::clone(&arrived));
    let sending = thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let now = monotonic_ns().to_be_bytes();
            client.send_to(&now, (Host::Server.ip4(), 5004)).expect("the socket has room");
            thread::sleep(Duration::from_millis(5));
        }
    });
    let stalled = scene.forwarder()?;
    let stalling = thread::spawn(move || {
        let await_more = || {
            let before = arrived.load(Ordering::Relaxed);
            until("packets arrive", || arrived.load(Ordering::Relaxed) > before + 50)
        };
        let outcome = await_more().and_then(|()| {
            signal(stalled, "STOP")?;
            thread::sleep(STALL);
            signal(stalled, "CONT")?;
            // Many times those that the rings held come after them.
            (0..4).try_for_each(|_| await_more())
        });
        done.store(true, Ordering::Relaxed);
        outcome
    });
    server.set_read_timeout(Some(Duration::from_millis(500)))?;
    let (mut ages, mut bytes) = (Vec::new(), [0; 8]);
    loop {
        match server.recv(&mut bytes) {
            Ok(_) => {
                ages.push(Duration::from_nanos(monotonic_ns() - u64::from_be_bytes(bytes)));
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) if ended.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
    }
    stalling.join().expect("it does not panic")?;
    sending.join().expect("the sender does not panic");
    let oldest = ages.iter().max().copied().unwrap_or_default();
    println!("{kind}: {} packets, the oldest {oldest:?}", ages.len());
    // Far above the limit, and far below the stall: the machine may pause twice beside it.
    assert!(ages.len() > 200 && oldest < STALL / 2, "{oldest:?}");
    scene.stop()?;
    Ok(())
}

/// How long a forwarder is stopped.
const STALL: Duration = Duration::from_secs(4);
