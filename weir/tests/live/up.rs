//! `weir up` and `weir status` as a user runs them: the real program between private networks, with
//! real kernel traffic.
//!
//! Invariant: a row is right however slow the machine is, and whichever process pauses when.

mod api;
mod asked;
mod before;
mod bridges;
mod changed;
mod circuits;
mod classes;
mod deaths;
mod events;
mod isolated;
pub mod memory;
mod page;
mod records;
mod replayed;
mod restarts;
pub mod restored;
mod screen;
mod shared;
mod stopped;
mod told;
mod varying;

use libtest_mimic::Failed;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;
use weir_core::packet::Headers;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig};
use weir_link::status::{ClassStatus, Status};
use weir_testbed::rows::{Need, Outcome, Row, table};
use weir_testbed::{
    END, Ended, Flood, Host, LEFT, Netlink, PATIENCE, RIGHT, Scene, ScenePlan, Stream,
    StreamConfig, TestbedConfig, exchange, has_drops, is_alive, signal, until,
};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("frames_pass_in_their_class_and_are_counted", frames_pass_in_their_class),
    ("a_wrong_policy_starts_nothing", a_wrong_policy_starts_nothing),
    ("a_missing_interface_is_named", a_missing_interface_is_named),
    ("a_pulled_cable_stops_one_port_and_comes_back", a_pulled_cable_comes_back),
    ("a_flood_delays_no_status_and_loses_no_frame_of_the_pool", a_flood_is_survived),
    ("a_stopped_process_goes_on_after_the_stall", a_stopped_process_goes_on),
    ("a_second_link_does_not_take_the_socket", a_second_link_is_refused),
    ("an_interface_belongs_to_one_deployment_and_is_free_after_a_kill", one_deployment_at_a_time),
    ("an_interface_with_an_address_is_taken_only_on_request", an_address_is_taken_on_request),
    ("marks_reach_the_receiver_with_right_checksums", marks_reach_the_receiver),
    ("short_datagrams_get_a_code_point", short_datagrams_get_a_code_point),
    ("kernel_tcp_is_kept_to_its_class_over_ipv4_and_ipv6", kernel_tcp_is_kept),
    ("a_declared_class_loses_nothing_beside_a_flood", a_declared_class_loses_nothing),
    ("frames_of_a_pppoe_session_reach_their_class_and_unread_ones_are_counted", frames_in_frames),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    let tests = [
        TESTS,
        api::TESTS,
        asked::TESTS,
        before::TESTS,
        bridges::TESTS,
        changed::TESTS,
        circuits::TESTS,
        classes::TESTS,
        deaths::TESTS,
        events::TESTS,
        isolated::TESTS,
        memory::TESTS,
        page::TESTS,
        records::TESTS,
        replayed::TESTS,
        restarts::TESTS,
        restored::TESTS,
        shared::TESTS,
        told::TESTS,
    ];
    let others: [(&[Test], &[Need]); 11] = [
        (varying::TESTS, &[Need::PrivateNetworks, Need::Program("tc")]),
        (api::WITH_PROMETHEUS, &[Need::PrivateNetworks, Need::Program("prometheus")]),
        (bridges::OVER_AF_XDP, &[Need::AfXdp]),
        (circuits::WITH_RADCLIENT, &[Need::PrivateNetworks, Need::Program("radclient")]),
        (deaths::CARRIED, &[Need::Root]),
        (memory::OVER_AF_XDP, &[Need::AfXdp]),
        (restarts::OVER_AF_XDP, &[Need::AfXdp]),
        (shared::OVER_AF_XDP, &[Need::AfXdp]),
        (restarts::TRACED, &[Need::PrivateNetworks, Need::Program("strace")]),
        (shared::STOPPED, &[Need::Root]),
        (screen::TESTS, &[Need::PrivateNetworks, Need::Program("tmux")]),
    ];
    let all = tests.into_iter().map(|tests| (tests, &[Need::PrivateNetworks] as &[Need]));
    all.chain(others).flat_map(|(tests, needs)| table("up", tests, needs))
}

const POLICY: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.voice]
match = [{ proto = "udp", dport = "5004" }]

[class.rest]
default = true
"#;

const POLICED: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.voice]
match = [
    { proto = "udp", dport = "5004" },
    { proto = "udp", dport = "5005", police = { rate = "1 bit/s", depth = "1 B" } },
]
police = { rate = "1 bit/s", depth = "1 B", out = "mark ef" }
queue = { dropper = "codel" }

[class.rest]
default = true
queue = { dropper = "red" }
"#;

const SHORT: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.short]
match = [{ proto = "udp", dport = "5004", length = "0-100 B" }]
set_dscp = "cs1"

[class.rest]
default = true
"#;

const LINE: &str = r#"
[link]
rate = "40 Mbit/s"
scheduler = "htb"

[class.web]
rate = "10 Mbit/s"
match = [{ proto = "tcp", dport = "8080" }]

[class.rest]
rate = "30 Mbit/s"
default = true
"#;

const DECLARED: &str = r#"
[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.voice]
rate = "2 Mbit/s"
match = [{ proto = "udp", dport = "5004" }]
arrival = { rate = "1 Mbit/s", burst = "3000 B" }

[class.rest]
rate = "8 Mbit/s"
prio = 1
default = true
queue = { limit = "400 packets" }
"#;

/// Plans a link with this policy from client to server.
fn plan(policy: &str) -> ScenePlan {
    Scene::plan(env!("CARGO_BIN_EXE_weir"), policy)
}

/// A slow stream into the class `voice`: a ring holds what comes while a process pauses for seconds.
const SLOW: StreamConfig = StreamConfig { port: 5004, per_second: 100, length: 64 };

/// Runs the deployment of a file to its end, which must come by itself and with this code; returns
/// what it printed.
fn fails(scene: &Scene, file: &str, code: i32) -> Result<Ended, Failed> {
    let ended = scene.weir_inside(&["up", file])?;
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    Ok(ended)
}

/// Replaces a text in a file of the scene.
fn edit(scene: &Scene, file: &str, from: &str, to: &str) -> Outcome {
    let text = scene.read(file)?;
    assert!(text.contains(from), "{file} has no {from}: {text}");
    Ok(scene.write(file, &text.replace(from, to))?)
}

/// Sends a request to the link by the control socket; returns the output.
fn call(scene: &Scene, arguments: &[&str]) -> Result<Ended, Failed> {
    let (verb, rest) = arguments.split_first().ok_or("a verb")?;
    Ok(scene.weir(&[&[*verb, "--control", "weir.sock"], rest].concat())?)
}

/// As [`call`], where it must succeed; returns what it printed on standard output.
fn called(scene: &Scene, arguments: &[&str]) -> Result<String, Failed> {
    let ended = call(scene, arguments)?;
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    Ok(ended.stdout)
}

/// Waits until another forwarder than `old` runs and answers; returns it.
fn await_another(scene: &Scene, old: u32) -> Result<u32, Failed> {
    until("another forwarder", || scene.forwarder().is_ok_and(|now| now != old))?;
    scene.await_status("it answers", |_| true)?;
    Ok(scene.forwarder()?)
}

/// Returns how many frames of a class were dropped for this cause.
fn dropped(class: &ClassStatus, cause: &str) -> u64 {
    let dropped = class.dropped.iter().filter(|(found, _)| found == cause);
    dropped.map(|(_, amount)| amount.packets).sum()
}

/// Returns the class of a status at this place.
fn class_at(status: &Status, index: usize) -> &ClassStatus {
    &status.lanes[0].classes[index]
}

fn frames_pass_in_their_class() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    exchange(&scene.testbed, 5004, 20)?;
    exchange(&scene.testbed, 5005, 10)?;
    // ARP may be counted too.
    let is_counted = |status: &Status| {
        (class_at(status, 0).sent.packets, class_at(status, 1).sent.packets >= 10) == (20, true)
    };
    let status = scene.await_status("each is counted", is_counted)?;
    let names: Vec<_> = status.lanes[0].classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!((status.lanes[0].name.as_str(), names), ("upload", vec!["voice", "rest"]));
    let text = scene.stop()?;
    assert!(text.contains("voice") && text.contains("status on"), "{text}");
    Ok(())
}

fn a_wrong_policy_starts_nothing() -> Outcome {
    let scene = plan(&POLICY.replace("50 Mbit/s", "50 mbps")).prepare()?;
    let text = fails(&scene, "link.toml", 1)?.stdout;
    assert!(text.contains("ambiguous") && text.contains("50 Mbit/s"), "{text}");
    assert!(!scene.socket().exists());
    Ok(())
}

fn a_missing_interface_is_named() -> Outcome {
    let scene = plan(POLICY).prepare()?;
    edit(&scene, "link.toml", RIGHT, "nowhere0")?;
    let text = fails(&scene, "link.toml", 2)?.stderr;
    assert!(text.contains("nowhere0"), "{text}");
    Ok(())
}

fn a_pulled_cable_comes_back() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    exchange(&scene.testbed, 5004, 3)?;
    scene.testbed.disconnect(Host::Server)?;
    let gone = |status: &Status| status.ports[1].state == "gone" && status.ports[0].state == "up";
    scene.await_status("the port is gone", gone)?;
    scene.testbed.connect(Host::Server)?;
    scene.await_status("the port is back", |status| status.ports[1].state == "up")?;
    exchange(&scene.testbed, 5004, 3)?;
    let status = scene.status()?;
    assert_eq!(status.ports[1].rebinds, 1);
    scene.stop()?;
    Ok(())
}

fn a_flood_is_survived() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let sent = |status: &Status| class_at(status, 1).sent.packets;
    scene.await_status("the flood has begun", |status| sent(status) > 0)?;
    let offered = |status: &Status| class_at(status, 1).offered.packets;
    let mut last = 0;
    for _ in 0..10 {
        // Where there are few processors, the flood may have to wait for the requests.
        let goes_on = |status: &Status| offered(status) > last;
        last = offered(&scene.await_status("the flood continues", goes_on)?);
    }
    scene.testbed.disconnect(Host::Server)?;
    scene.await_status("the port is gone", |status| status.ports[1].state == "gone")?;
    scene.testbed.connect(Host::Server)?;
    scene.await_status("the port is back", |status| status.ports[1].state == "up")?;
    drop(flood);
    // The program itself also checks the place of each frame at every status request.
    let is_free = |status: &Status| status.frames_free == status.frames_max;
    let status = scene.await_status("every frame is free", is_free)?;
    for class in &status.lanes[0].classes {
        let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
        let known = class.sent.packets + dropped + class.backlog.packets;
        assert_eq!(class.offered.packets, known, "{class:?}");
    }
    scene.stop()?;
    Ok(())
}

/// Frames wait while the process is stopped for longer than `lag_max`.
fn a_stopped_process_goes_on() -> Outcome {
    let mut scene = plan(&POLICY.replace("50 Mbit/s", "1 Mbit/s")).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let waits = |status: &Status| class_at(status, 1).backlog.packets > 0;
    let before = scene.await_status("frames wait", waits)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    thread::sleep(5 * LAG_MAX);
    signal(forwarder, "CONT")?;
    let is_counted = |status: &Status| status.stalls > before.stalls;
    let after = scene.await_status("the stall is counted", is_counted)?;
    let sent = |status: &Status| class_at(status, 1).sent.packets;
    scene.await_status("frames leave again", |status| sent(status) > sent(&after))?;
    drop(flood);
    assert_eq!(scene.forwarder()?, forwarder);
    scene.stop()?;
    Ok(())
}

/// Offloads are on and neighbours unknown: super-packets are cut, ARP and ND pass, and TCP gets no
/// more than the rate of its class. A slow machine only makes it less.
fn kernel_tcp_is_kept() -> Outcome {
    let networks = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
    let mut scene = plan(LINE).networks(networks).start()?;
    for address in [Host::Server.ip4(), Host::Server.ip6()] {
        let start = std::time::Instant::now();
        transfer(&scene, address)?;
        // Headers take 4 %; the gain of the first burst is much smaller.
        let mbit = TRANSFER as f64 * 8e-6 / start.elapsed().as_secs_f64();
        assert!(mbit < 10.2, "{address}: {mbit} Mbit/s in a class of 10");
    }
    let status = scene.status()?;
    let web = class_at(&status, 0);
    assert!(web.sent.packets > 2 * TRANSFER as u64 / 1500, "frames, not super-packets: {web:?}");
    scene.stop()?;
    Ok(())
}

/// Sends [`TRANSFER`] bytes by TCP; all must arrive.
fn transfer(scene: &Scene, address: IpAddr) -> Outcome {
    let listener = scene.testbed.server.run(|| TcpListener::bind((address, 8080)))??;
    let server = thread::spawn(move || -> std::io::Result<(usize, bool)> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok((bytes.len(), bytes.iter().all(|byte| *byte == 7)))
    });
    let connect = || TcpStream::connect_timeout(&(address, 8080).into(), PATIENCE);
    let mut client = scene.testbed.client.run(connect)??;
    client.set_write_timeout(Some(PATIENCE))?;
    client.write_all(&vec![7; TRANSFER])?;
    drop(client);
    let received = server.join().expect("the server does not panic")?;
    assert_eq!(received, (TRANSFER, true), "{address}");
    Ok(())
}

/// Datagrams to one port exceed their meter and are marked, those to another are dropped.
fn marks_reach_the_receiver() -> Outcome {
    let mut scene = plan(POLICED).start()?;
    let mut port = scene.testbed.server.run(|| port::open(PortConfig::new(END)))??;
    // A kernel accepts no datagram whose header checksum is wrong.
    exchange(&scene.testbed, 5004, 20)?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..7 {
        client.send_to(&[0; 160], (Host::Server.ip4(), 5005))?;
    }
    let are_dropped = |status: &Status| dropped(class_at(status, 0), "policed") == 7;
    let status = scene.await_status("the others are dropped", are_dropped)?;
    let voice = class_at(&status, 0);
    assert_eq!((voice.marked, voice.sent.packets), (20, 20), "{voice:?}");
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let mut frames = Vec::new();
    port.receive(0, 4 * BATCH, &mut pool, &mut frames);
    let headers = frames.iter().map(|frame| Headers::parse_ethernet(pool.bytes(frame.frame)));
    let is_ours = |headers: &Headers| headers.ports.is_some_and(|ports| ports.destination == 5004);
    let marks: Vec<_> = headers.filter(is_ours).map(|headers| headers.traffic_class).collect();
    assert_eq!(marks, [Some(0xb8); 20]);
    scene.stop()?;
    Ok(())
}

/// Short datagrams of a flow have a class of their own, which gives them a code point; the kernel
/// sorts them by their length, and accepts what arrives.
fn short_datagrams_get_a_code_point() -> Outcome {
    let mut scene = plan(SHORT).start()?;
    let mut port = scene.testbed.server.run(|| port::open(PortConfig::new(END)))??;
    let ends = [Host::Client.ip4(), Host::Client.ip6()].into_iter();
    for (own, to) in ends.zip([Host::Server.ip4(), Host::Server.ip6()]) {
        let server = scene.testbed.server.run(|| UdpSocket::bind((to, 5004)))??;
        server.set_read_timeout(Some(PATIENCE))?;
        let client = scene.testbed.client.run(|| UdpSocket::bind((own, 0)))??;
        for length in [10, 500, 10, 500, 10] {
            client.send_to(&vec![0; length], (to, 5004))?;
        }
        // A kernel accepts no datagram whose header checksum is wrong. Classes send in any order.
        let mut lengths = Vec::new();
        for _ in 0..5 {
            lengths.push(server.recv(&mut [0; 600])?);
        }
        lengths.sort_unstable();
        assert_eq!(lengths, [10, 10, 10, 500, 500], "{to}");
    }
    let counted = |status: &Status| class_at(status, 0).sent.packets == 6;
    let status = scene.await_status("the short ones have their class", counted)?;
    assert_eq!(class_at(&status, 0).marked, 6);
    let mut pool = FramePool::for_mtu(256, port.mtu());
    let mut frames = Vec::new();
    port.receive(0, 4 * BATCH, &mut pool, &mut frames);
    let headers = frames.iter().map(|frame| Headers::parse_ethernet(pool.bytes(frame.frame)));
    let is_ours = |headers: &Headers| headers.ports.is_some_and(|ports| ports.destination == 5004);
    let mut marks: Vec<_> = headers
        .filter(is_ours)
        .map(|headers| (headers.traffic_class, headers.network_len))
        .collect();
    marks.sort_unstable();
    let cs1 = Some(8 << 2);
    let long =
        [(Some(0), Some(528)), (Some(0), Some(528)), (Some(0), Some(548)), (Some(0), Some(548))];
    let short = [38, 38, 38, 58, 58, 58].map(|length| (cs1, Some(length)));
    assert_eq!(marks, [&long[..], &short[..]].concat());
    scene.stop()?;
    Ok(())
}

/// A datagram of a PPPoE session and one behind a label go to their class; the kernel would hand
/// neither to a socket, so the frames are sent as they are.
fn frames_in_frames() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let mut port = scene.testbed.client.run(|| port::open(PortConfig::new(END)))??;
    let datagram = "4500001c 00000000 40110000 0a000001 0a000002 1388138c 00080000";
    let outer = ["8864 1100 0001 001e 0021", "8847 00010140", "88e5 2c00 00000001"];
    let mut pool = FramePool::for_mtu(8, port.mtu());
    for outer in outer {
        let bytes = hex(&format!("020000000001 020000000002 {outer} {datagram}"));
        let frame = pool.insert(&bytes).ok_or("the pool has room")?;
        assert_eq!(port.send(&mut pool, &[frame]).taken, 1);
    }
    // The second of the class may leave a moment after the last frame is counted.
    let counted = |status: &Status| {
        let lane = &status.lanes[0];
        (lane.unread.as_slice(), lane.classes[0].sent.packets) == (&[("macsec".to_owned(), 1)], 2)
    };
    scene.await_status("two of the class, and a frame of MACsec", counted)?;
    let text = scene.stop()?;
    assert!(text.contains("unread headers: 1 (frames that are protected by MACsec)"), "{text}");
    Ok(())
}

/// Reads hexadecimal digits; spaces are for people.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Behind the flood a packet would wait 0.4 s, and find no room now and then.
fn a_declared_class_loses_nothing() -> Outcome {
    let mut scene = plan(DECLARED).start()?;
    let flood = Flood::start(&scene.testbed, 1400)?;
    let is_full = |status: &Status| has_drops(class_at(status, 1));
    scene.await_status("the flood fills its queue", is_full)?;
    // At most half of the declared rate, however late each is sent.
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    until("many are sent", || stream.sent() >= 200)?;
    let found = stream.finish()?;
    drop(flood);
    assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    let status = scene.status()?;
    assert!(!has_drops(class_at(&status, 0)), "{status:?}");
    scene.stop()?;
    Ok(())
}

fn a_second_link_is_refused() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let text = fails(&scene, "link.toml", 2)?.stderr;
    assert!(text.contains("already"), "{text}");
    exchange(&scene.testbed, 5004, 1)?;
    scene.stop()?;
    Ok(())
}

fn one_deployment_at_a_time() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let other = scene.read("link.toml")?.replace("weir.sock", "other.sock");
    scene.write("other.toml", &other)?;
    scene.start()?;
    let text = fails(&scene, "other.toml", 2)?.stderr;
    let wanted = format!("already to the deployment `link` (process {})", scene.keeper()?);
    assert!(text.contains(&wanted) && text.contains(LEFT), "{text}");
    exchange(&scene.testbed, 5004, 1)?;
    let forwarder = scene.forwarder()?;
    scene.signal("KILL")?;
    scene.process()?.wait_for_exit()?;
    signal(forwarder, "KILL")?;
    // To give back what it holds takes it a moment.
    until("the forwarder ends", || !is_alive(forwarder))?;
    scene.write("link.toml", &other)?;
    std::fs::remove_file(scene.socket())?;
    symlink("other.sock", scene.socket())?;
    scene.start()?;
    Ok(exchange(&scene.testbed, 5004, 1)?)
}

fn an_address_is_taken_on_request() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    Netlink::open_in(&scene.testbed.weir)?.add_address(LEFT, "192.0.2.7".parse()?, 24)?;
    let text = fails(&scene, "link.toml", 2)?.stderr;
    for part in [LEFT, "192.0.2.7/24", "--take", "take = true"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    scene.start_with(&["up", "link.toml", "--take"])?;
    exchange(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    assert!(text.contains("`left` is taken") && text.contains("192.0.2.7/24"), "{text}");
    Ok(())
}

/// The default of a deployment without `lag_max`.
const LAG_MAX: Duration = Duration::from_millis(100);
/// Two seconds of the class that carries it.
const TRANSFER: usize = 2_500_000;
