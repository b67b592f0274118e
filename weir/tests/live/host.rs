//! `weir up` with `ports = { host = … }`: a router shapes its own traffic and what it forwards and
//! translates. Real kernel traffic between private networks. Needs root, since programs in the
//! kernel take it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::up::memory::{self, Case};
use crate::up::restored::{self, EF};
use serde_json::{Map, Value};
use weir_control::client;
use weir_control::protocol::{Answer, Request, Since};
use weir_core::packet::Headers;
use weir_host::bpf::{Code, Hook, Kind, Program};
use weir_host::ethtool;
use weir_host::netns::NetNs;
use weir_host::wait::usable_cpus;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig};
use weir_link::status::Status;
use weir_testbed::rows::{self, Failed, Named, Need, Outcome, Row};
use weir_testbed::{
    END, Ends, Host, LEFT, Netlink, PATIENCE, RIGHT, Scene, Stream, StreamConfig, Testbed,
    TestbedConfig, firewall, has_drops, is_alive, signal, until, until_some,
};

const TESTS: &[Named] = &[
    ("udp_never_exceeds_the_rate_of_its_direction", udp_never_exceeds_the_rate),
    ("tcp_arrives_whole_below_the_rate_through_translation_too", tcp_arrives_whole),
    ("a_connection_outlives_start_stop_and_kill", a_connection_outlives_start_stop_and_kill),
    ("neighbours_broadcasts_and_ipv6_pass", neighbours_broadcasts_and_ipv6_pass),
    ("a_renamed_interface_with_longer_frames_is_followed", a_changed_interface_is_followed),
    ("an_interface_that_comes_back_is_shaped_again", an_interface_that_comes_back_is_shaped),
    ("what_cannot_be_shaped_is_refused", what_cannot_be_shaped_is_refused),
    ("a_new_keeper_takes_over", a_new_keeper_takes_over),
    ("a_host_takes_no_more_memory_than_check_says", within_the_estimate),
    ("a_code_point_comes_back_through_translation", a_code_point_comes_back),
    ("hosts_have_their_own_addresses_before_the_translation", hosts_have_their_own_addresses),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("host", TESTS, &[Need::Root])
}

/// Megabits a second, of upload and of download.
const RATES: [u64; 2] = [20, 30];
const UP: usize = 0;
const DOWN: usize = 1;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
const ROUTER_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// Another address of the client.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 3);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// A client behind a router that translates to its address towards the server; `weir up` runs on
/// the router and shapes its interface towards the server, [`RIGHT`].
struct Router {
    scene: Scene,
    /// The number of the interface, whatever its name.
    index: u32,
}

impl Router {
    fn new() -> Result<Self, Failed> {
        let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
        let testbed = Testbed::new(config)?;
        testbed.client.run(|| -> Outcome {
            let mut netlink = Netlink::open()?;
            netlink.add_address(END, CLIENT.into(), 24)?;
            Ok(netlink.add_route(SERVER.into(), 32, ROUTER_INSIDE.into())?)
        })??;
        testbed.weir.run(make_router)??;
        let index = Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index;
        let scene = Scene::plan(env!("CARGO_BIN_EXE_weir"), "").prepare_in(testbed)?;
        for (name, rate) in ["up", "down"].iter().zip(RATES) {
            let policy = format!(
                "[link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"drr\"\n[class.all]\n\
                 default = true\nqueue = {{ limit = \"300 packets\" }}\n"
            );
            scene.write(&format!("{name}.toml"), &policy)?;
        }
        // A veth pair keeps the order of the frames of one processor only.
        let cpu = usable_cpus()?[0];
        let deployment = format!(
            "[deployment]\nports = {{ host = \"{RIGHT}\" }}\ncontrol = \"{}\"\ncpu = {cpu}\n\
             [direction.upload]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"up.toml\"\n\
             [direction.download]\nfrom = \"wire\"\nto = \"host\"\npolicy = \"down.toml\"\n",
            scene.socket().display()
        );
        scene.write("link.toml", &deployment)?;
        Ok(Self { scene, index })
    }

    fn started() -> Result<Self, Failed> {
        let mut router = Self::new()?;
        router.scene.start()?;
        Ok(router)
    }

    /// Ends the link as a service manager does, and checks that nothing of it is left.
    fn stop(&mut self) -> Outcome {
        self.scene.stop()?;
        self.await_no_taps()
    }

    /// Kills the keeper and then the forwarder, which goes on without it.
    fn kill(&mut self) -> Outcome {
        let (keeper, forwarder) = (self.scene.keeper()?, self.scene.forwarder()?);
        signal(keeper, "KILL")?;
        self.scene.process()?.wait_for_exit()?;
        signal(forwarder, "KILL")?;
        until("the forwarder is gone", || !is_alive(forwarder))?;
        self.await_no_taps()
    }

    fn await_no_taps(&self) -> Outcome {
        let mut netlink = Netlink::open_in(&self.scene.testbed.weir)?;
        let mut has = |side| netlink.link(&format!("weir-{side}{}", self.index)).is_ok();
        Ok(until("the kernel removes the taps", || !has("host") && !has("wire"))?)
    }

    /// Waits until a direction has sent what its rate lets pass in seconds, and checks that so much
    /// took no less time by the link's own clock.
    fn never_exceeds_the_rate(&self, way: usize) -> Outcome {
        let sent = |status: &Status| status.lanes[way].classes[0].sent.bytes;
        let first = self.scene.status()?;
        let wanted = sent(&first) + RATES[way] * 125_000 * SECONDS;
        let last = self.scene.await_status("the link sends", |now| sent(now) >= wanted)?;
        // At the first instant the link may have been behind its clock, and made up for it since.
        let time_ns = last.uptime_ns - first.begun_ns + BEHIND_NS;
        let bits = 8 * (sent(&last) - sent(&first));
        let most = RATES[way] * time_ns / 1000;
        assert!(bits <= most, "{bits} bits in {time_ns} ns at {} Mbit/s", RATES[way]);
        Ok(())
    }

    /// Runs `weir up` to its end, which must be a refusal; returns its words.
    fn refusal(&self, deployment: &str) -> Result<String, Failed> {
        self.scene.write("other.toml", deployment)?;
        let ended = self.scene.weir_inside(&["up", "other.toml"])?;
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        Ok(ended.stderr)
    }
}

/// Forwards, translates, checks that answers would leave by the interface that a packet came by,
/// and accepts nothing from an interface of another name.
fn make_router() -> Outcome {
    let mut netlink = Netlink::open()?;
    netlink.set_up("lo", true)?;
    netlink.add_address(LEFT, ROUTER_INSIDE.into(), 24)?;
    netlink.add_address(RIGHT, ROUTER.into(), 24)?;
    ethtool::set_ipv6(RIGHT, true)?;
    netlink.add_address(RIGHT, ROUTER6.parse()?, 64)?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1")?;
    Ok(firewall::protect_router(RIGHT, &[LEFT, RIGHT, "outer", "lo"])?)
}

const ROUTER6: &str = "fd77::fe";

fn within_the_estimate() -> Outcome {
    let Router { scene, .. } = Router::new()?;
    for file in ["up.toml", "down.toml"] {
        scene.write(file, &memory::classes(9, "htb"))?;
    }
    let to = [SERVER.into(), ROUTER.into()];
    let directions = &[Some("upload"), Some("download")];
    Case { name: "a host's 10 classes both ways", scene, to, directions }.compare()
}

/// The router and the server flood each other; what is too much is dropped, and the rest arrives
/// once and in order.
fn udp_never_exceeds_the_rate() -> Outcome {
    let mut router = Router::started()?;
    let Testbed { weir, server, .. } = &router.scene.testbed;
    let ways: [(&NetNs, &NetNs, IpAddr); 2] =
        [(weir, server, SERVER.into()), (server, weir, ROUTER.into())];
    for (way, (from, to, address)) in ways.into_iter().enumerate() {
        let ends = Ends { from, to, address };
        // Datagrams that wait until the neighbour is known leave while later ones pass them by.
        let calm = StreamConfig { port: 5004, per_second: 50, length: 100 };
        Stream::between(ends, calm)?.finish()?;
        let config = StreamConfig { per_second: 20_000, length: 1000, ..calm };
        let flood = Stream::between(ends, config)?;
        router.never_exceeds_the_rate(way)?;
        let drops = |status: &Status| has_drops(&status.lanes[way].classes[0]);
        router.scene.await_status("what is too much is dropped", drops)?;
        let found = flood.finish()?;
        assert_eq!((found.repeated, found.reordered), (0, 0), "{found:?}");
        let is_empty = |status: &Status| status.lanes[way].classes[0].backlog.packets == 0;
        let status = router.scene.await_status("the queue is empty", is_empty)?;
        let class = &status.lanes[way].classes[0];
        assert!(class.sent.packets >= found.arrived, "what arrived was sent: {class:?}, {found:?}");
        let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
        assert_eq!(class.offered.packets, class.sent.packets + dropped, "{class:?}");
    }
    router.stop()
}

/// A listener that counts what arrives.
struct Sink {
    address: SocketAddr,
    received: Arc<AtomicU64>,
    thread: JoinHandle<std::io::Result<u64>>,
}

impl Sink {
    fn listen(namespace: &NetNs, address: impl Into<IpAddr>) -> Result<Self, Failed> {
        let address: IpAddr = address.into();
        let listener = namespace.run(|| TcpListener::bind((address, 0)))??;
        let (address, received) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&received);
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut bytes = vec![0; 1 << 16];
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return Ok(count.load(Ordering::Relaxed)),
                    Ok(len) => drop(count.fetch_add(len as u64, Ordering::Relaxed)),
                    // As in `receive`.
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        });
        Ok(Self { address, received, thread })
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes more have arrived than now.
    fn await_more(&self, bytes: u64) -> Outcome {
        let wanted = self.received() + bytes;
        Ok(until("bytes arrive", || self.received() >= wanted)?)
    }
}

/// A sender that writes until it is told to stop.
struct Source {
    stream: TcpStream,
    done: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<u64>>,
}

impl Source {
    fn connect(namespace: &NetNs, to: SocketAddr) -> Result<Self, Failed> {
        let mut stream = namespace.run(|| TcpStream::connect_timeout(&to, PATIENCE))??;
        stream.set_write_timeout(Some(PATIENCE))?;
        let done = Arc::new(AtomicBool::new(false));
        let (ended, kept) = (Arc::clone(&done), stream.try_clone()?);
        let thread = thread::spawn(move || {
            let mut sent = 0;
            while !ended.load(Ordering::Relaxed) {
                stream.write_all(&[7; 8192])?;
                sent += 8192;
            }
            stream.shutdown(std::net::Shutdown::Write)?;
            Ok(sent)
        });
        Ok(Self { stream: kept, done, thread })
    }

    /// Ends the transfer, and checks that all of it arrived; returns how much that is.
    fn finish(self, sink: Sink) -> Result<u64, Failed> {
        self.done.store(true, Ordering::Relaxed);
        let sent = self.thread.join().expect("the source does not panic")?;
        let received = sink.thread.join().expect("the sink does not panic")?;
        assert_eq!(sent, received, "bytes sent and received");
        Ok(received)
    }
}

/// Uploads and downloads, of the router itself and of the client behind it.
fn tcp_arrives_whole() -> Outcome {
    let mut router = Router::started()?;
    let Testbed { client, weir, server, .. } = &router.scene.testbed;
    // Who has the connection with the server, and which way bytes go.
    for (host, way) in [(weir, UP), (client, UP), (weir, DOWN)] {
        let ends = [(server, IpAddr::from(SERVER)), (weir, IpAddr::from(ROUTER))];
        let sent = |status: &Status| status.lanes[way].classes[0].sent.bytes;
        let before = sent(&router.scene.status()?);
        let sink = Sink::listen(ends[way].0, ends[way].1)?;
        let source = Source::connect([host, server][way], sink.address)?;
        router.never_exceeds_the_rate(way)?;
        let bytes = source.finish(sink)?;
        let counted = sent(&router.scene.status()?) - before;
        assert!(counted > bytes, "every byte went through the link: {counted} of {bytes}");
    }
    router.stop()
}

/// A client behind translation says EF: what comes back for the router's address has it before it
/// is translated to the client's, and goes to the class of EF.
fn a_code_point_comes_back() -> Outcome {
    let mut router = Router::new()?;
    let scene = &mut router.scene;
    scene.write("down.toml", restored::POLICY)?;
    scene.write("link.toml", &(scene.read("link.toml")? + "restore_dscp = true\n"))?;
    scene.start()?;
    let Testbed { client, server, .. } = &scene.testbed;
    let mut port = client.run(|| port::open(PortConfig::new(END)))??;
    let own = IpAddr::from(CLIENT);
    let marked = restored::datagrams((client, own, EF), (server, SERVER.into(), 0))?;
    let plain = restored::datagrams((client, own, 0), (server, SERVER.into(), EF))?;
    let mut pool = FramePool::for_mtu(4 * BATCH as u32, port.mtu());
    let mut frames = Vec::new();
    port.receive(0, 2 * BATCH, &mut pool, &mut frames);
    for (ends, wanted) in [(marked, EF), (plain, 0)] {
        let headers = frames.iter().map(|one| Headers::parse_ethernet(pool.bytes(one.frame)));
        let is_of = |headers: &Headers| {
            headers.ports.is_some_and(|ports| (ports.source, ports.destination) == ends)
        };
        let found: Vec<_> = headers.filter(is_of).map(|headers| headers.traffic_class).collect();
        assert_eq!(found, [Some(wanted); 5]);
    }
    let voices = |status: &Status| status.lanes[DOWN].classes[0].sent.packets;
    scene.await_status("they have their class", |status| voices(status) == 5)?;
    router.stop()
}

/// At the interface towards the hosts, as `weir init` writes it, both directions tell two hosts
/// apart without CAKE's `nat`; behind the translation they are one, as `weir check` says.
fn hosts_have_their_own_addresses() -> Outcome {
    let by_source = "[link]\nrate = \"20 Mbit/s\"\nscheduler = \"drr\"\n[class.hosts]\n\
                     default = true\nisolate = \"flows within srcaddr\"\n";
    for (interface, shown, hidden) in [
        (LEFT, vec![CLIENT, SECOND], [ROUTER, ROUTER_INSIDE]),
        (RIGHT, vec![ROUTER], [CLIENT, SECOND]),
    ] {
        let mut router = Router::new()?;
        let scene = &mut router.scene;
        let Testbed { client, weir, .. } = &scene.testbed;
        Netlink::open_in(client)?.add_address(END, SECOND.into(), 24)?;
        let index = Netlink::open_in(weir)?.link(interface)?.index;
        let rates = ["--down", "10 Mbit/s", "--up", "50 Mbit/s", "--link", "fibre"];
        let written = scene.weir(&[&["init", "--host", interface], &rates[..]].concat())?;
        assert!(written.status.success(), "{written:?}");
        let control = format!("[deployment]\ncontrol = \"{}\"\n", scene.socket().display());
        let deployment = scene.read("deployment.toml")?.replace("[deployment]\n", &control);
        scene.write("link.toml", &deployment)?;
        if interface == RIGHT {
            scene.write("upload.toml", by_source)?;
        }
        let checked = scene.weir(&["check", "link.toml"])?;
        assert_eq!(checked.stdout.contains("W220"), interface == RIGHT, "{checked:?}");
        scene.start()?;
        let Testbed { client, server, .. } = &scene.testbed;
        for host in [CLIENT, SECOND] {
            restored::datagrams((client, host.into(), 0), (server, SERVER.into(), 0))?;
        }
        let arguments = ["--format", "json", "status", "--hosts", "5", "--control", "weir.sock"];
        let status: Status = serde_json::from_str(&scene.weir(&arguments)?.stdout)?;
        let ways: &[&str] = if interface == LEFT { &["download", "upload"] } else { &["upload"] };
        let lanes = status.lanes.iter().filter(|lane| ways.contains(&lane.name.as_str()));
        assert_eq!(lanes.clone().count(), ways.len());
        for lane in lanes {
            let hosts = lane.classes.iter().filter_map(|class| class.hosts.as_ref());
            let rows: Vec<_> = hosts.flat_map(|hosts| &hosts.rows).collect();
            let has = |host: &Ipv4Addr| rows.iter().any(|row| row.address == host.to_string());
            assert!(shown.iter().all(has) && !hidden.iter().any(has), "{}: {rows:?}", lane.name);
        }
        scene.stop()?;
        router.index = index;
        router.await_no_taps()?;
    }
    Ok(())
}

/// A client behind translation uploads while `weir up` starts, stops, starts and is killed.
fn a_connection_outlives_start_stop_and_kill() -> Outcome {
    let mut router = Router::new()?;
    let sink = Sink::listen(&router.scene.testbed.server, SERVER)?;
    let source = Source::connect(&router.scene.testbed.client, sink.address)?;
    sink.await_more(1_000_000)?;
    let port = source.stream.local_addr()?.port();
    let before = connection(&router.scene.testbed.weir, port)?;
    for end in [Router::stop, Router::kill, Router::stop, Router::kill] {
        router.scene.start()?;
        router.never_exceeds_the_rate(UP)?;
        end(&mut router)?;
        sink.await_more(1_000_000)?;
        assert_eq!(connection(&router.scene.testbed.weir, port)?, before, "as it is tracked");
    }
    source.finish(sink).map(drop)
}

/// Returns the addresses and ports by which the router tracks the connection from this port.
fn connection(router: &NetNs, port: u16) -> Result<Vec<String>, Failed> {
    let table = router.run(|| fs::read_to_string("/proc/thread-self/net/nf_conntrack"))??;
    let port = format!("sport={port} ");
    let mut lines = table.lines().filter(|line| line.contains(&port));
    let (line, more) = (lines.next().ok_or("it is not tracked")?, lines.next());
    assert!(more.is_none() && line.contains("ESTABLISHED"), "{table}");
    let is_tuple = |word: &&str| {
        ["src=", "dst=", "sport=", "dport="]
            .contains(&&word[..word.find('=').map_or(0, |at| at + 1)])
    };
    Ok(line.split_whitespace().filter(is_tuple).map(str::to_owned).collect())
}

/// Only one forwarder can have the taps, so the one that it finds ends first; then all is as ever.
fn a_new_keeper_takes_over() -> Outcome {
    let mut router = Router::started()?;
    let former = router.scene.forwarder()?;
    router.scene.signal("KILL")?;
    router.scene.process()?.wait_for_exit()?;
    router.scene.start()?;
    let is_other =
        |status: &Status| status.processes.as_ref().is_some_and(|two| two.forwarder != former);
    router.scene.await_status("another forwarder", is_other)?;
    until("the former one is gone", || !is_alive(former))?;
    let Testbed { weir, server, .. } = &router.scene.testbed;
    echo(weir, server, SERVER.into(), 100)?;
    assert!(router.scene.status()?.lanes[UP].classes[0].sent.packets > 0);
    let restarted = router.scene.weir(&["restart", "--control", "weir.sock"])?;
    assert!(restarted.status.success(), "{restarted:?}");
    router.stop()
}

/// Neighbours are resolved anew, over IPv4 and IPv6, both ways, and broadcasts arrive once.
fn neighbours_broadcasts_and_ipv6_pass() -> Outcome {
    let mut router = Router::started()?;
    let Testbed { weir, server, .. } = &router.scene.testbed;
    let rows: [(&NetNs, &NetNs, IpAddr); 6] = [
        (weir, server, SERVER.into()),
        (server, weir, ROUTER.into()),
        (weir, server, Host::Server.ip6()),
        (server, weir, ROUTER6.parse()?),
        (weir, server, Ipv4Addr::new(10, 77, 0, 255).into()),
        (server, weir, Ipv4Addr::new(10, 77, 0, 255).into()),
    ];
    for (from, to, address) in rows {
        echo(from, to, address, 100).map_err(|error| format!("{address}: {error:?}"))?;
    }
    let (up, down) = (&router.scene.status()?.lanes[UP], &router.scene.status()?.lanes[DOWN]);
    let ends = ["host", "wire"].map(|end| format!("{RIGHT} ({end})"));
    assert_eq!([&up.from, &up.to], [&ends[0], &ends[1]]);
    assert!(up.classes[0].sent.packets >= 12 && down.classes[0].sent.packets >= 12);
    router.stop()
}

/// Two datagrams, one after the other, each come once and come back once.
fn echo(from: &NetNs, to: &NetNs, address: IpAddr, length: usize) -> Outcome {
    echo_within(PATIENCE, (from, to, address), length)
}

fn echo_within(
    patience: Duration,
    (from, to, address): (&NetNs, &NetNs, IpAddr),
    length: usize,
) -> Outcome {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { "::".parse()? };
    let (server, client) =
        (to.run(|| UdpSocket::bind((any, 0)))??, from.run(|| UdpSocket::bind((any, 0)))??);
    client.set_broadcast(true)?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(patience))?;
    }
    let port = server.local_addr()?.port();
    let mut bytes = vec![0; length + 1];
    for number in [1, 2] {
        let sent = vec![number; length];
        client.send_to(&sent, (address, port))?;
        // One that came twice would be in the place of the next.
        let (arrived, back) = receive(&server, &mut bytes)?;
        assert_eq!(bytes[..arrived], sent);
        server.send_to(&sent, back)?;
        let (arrived, _) = receive(&client, &mut bytes)?;
        assert_eq!(bytes[..arrived], sent);
    }
    Ok(())
}

/// A wait with a timeout is interrupted when the machine stands still for a while.
fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> std::io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The interface gets another name and a larger MTU.
fn a_changed_interface_is_followed() -> Outcome {
    let mut router = Router::started()?;
    let Testbed { weir, server, .. } = &router.scene.testbed;
    let mut netlink = Netlink::open_in(weir)?;
    netlink.set_up(RIGHT, false)?;
    let is_down = |status: &Status| status.ports[0].state == "down";
    router.scene.await_status("it is down", is_down)?;
    netlink.rename(RIGHT, "outer")?;
    netlink.set_up("outer", true)?;
    let is_named = |status: &Status| {
        status.ports.iter().all(|port| port.interface == "outer" && port.state == "up")
    };
    router.scene.await_status("the name is followed", is_named)?;
    echo(weir, server, SERVER.into(), 100)?;
    netlink.set_mtu("outer", 4000)?;
    Netlink::open_in(server)?.set_mtu(END, 4000)?;
    let sent = || router.scene.status().map(|status| status.lanes[UP].classes[0].sent.packets);
    let look = || -> Result<u64, Failed> {
        let before = sent()?;
        echo_within(LOOK, (weir, server, SERVER.into()), 3500)?;
        Ok(sent()? - before)
    };
    until("long frames pass whole", || look().is_ok_and(|frames| frames == 2))?;
    router.stop()
}

fn an_interface_that_comes_back_is_shaped() -> Outcome {
    let mut router = Router::started()?;
    let scene = &router.scene;
    let Testbed { weir, server, .. } = &scene.testbed;
    echo(weir, server, SERVER.into(), 100)?;
    let all = |state: &'static str| {
        move |status: &Status| status.ports.iter().all(|port| port.state == state)
    };
    scene.testbed.disconnect(Host::Server)?;
    scene.await_status("it is gone", all("gone"))?;
    scene.testbed.connect(Host::Server)?;
    Netlink::open_in(weir)?.add_address(RIGHT, ROUTER.into(), 24)?;
    let before = scene.await_status("it is back", all("up"))?;
    assert_eq!(before.ports[0].rebinds, 1);
    let events = until_some("its return is told", || {
        match client::call(&scene.socket(), &Request::Events(Since::default())) {
            Ok(Answer::Events(all)) => Some(all.events).filter(|all| told(all, "port-back") > 0),
            _ => None,
        }
    })?;
    let once = (told(&events, "port-gone"), told(&events, "port-back"));
    assert_eq!(once, (1, 1), "both its ports are of one interface: {events:?}");
    echo(weir, server, SERVER.into(), 100)?;
    for (lane, before) in scene.status()?.lanes.iter().zip(before.lanes) {
        assert!(lane.classes[0].sent.packets > before.classes[0].sent.packets, "{lane:?}");
    }
    router.stop()
}

/// Returns how often this kind is among events.
fn told(events: &[Map<String, Value>], kind: &str) -> usize {
    events.iter().filter(|event| event["event"] == kind).count()
}

fn what_cannot_be_shaped_is_refused() -> Outcome {
    let mut router = Router::new()?;
    let deployment = |interface: &str| {
        format!(
            "[deployment]\nname = \"other\"\nports = {{ host = \"{interface}\" }}\n\
             [direction.up]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"up.toml\"\n"
        )
    };
    let check = |router: &Router, interface: &str, wanted: &str| -> Outcome {
        let text = router.refusal(&deployment(interface))?;
        assert!(text.contains(wanted) && text.contains(interface), "{interface}, {wanted}: {text}");
        Ok(())
    };
    check(&router, "lo", "not an Ethernet interface")?;
    check(&router, "nowhere0", "No such device")?;
    router.scene.start()?;
    check(&router, RIGHT, "belongs already to the deployment")?;
    let Testbed { weir, server, .. } = &router.scene.testbed;
    echo(weir, server, SERVER.into(), 100)?;
    router.stop()?;
    let mut code = Code::new();
    code.give(XDP_PASS);
    let program = Program::load(Kind::Xdp, "weir_test", &code)?;
    let index = router.index;
    let link = router.scene.testbed.weir.run(|| program.attach(index, Hook::XdpGeneric))??;
    check(&router, RIGHT, "an XDP program is attached")?;
    drop(link);
    Ok(())
}

const XDP_PASS: i32 = 2;
/// For how long a direction is looked at, at its rate.
const SECONDS: u64 = 2;
/// A link that is further behind its clock does not make up for it.
const BEHIND_NS: u64 = 1_000_000_000;
/// How long one look waits for a datagram.
const LOOK: Duration = Duration::from_secs(1);
