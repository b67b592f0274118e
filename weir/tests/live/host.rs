//! `weir up` with `ports = { host = … }`: a router shapes its own traffic and what it forwards and
//! translates. Real kernel traffic between private networks. Needs root, since programs in the
//! kernel take it; otherwise the tests are skipped and counted, or fail if WEIR_REQUIRE_LIVE=1.

use crate::processes;
use weir_testbed::rows::{self, Need};

use libtest_mimic::Failed;
use processes::{children, signal};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_live::bpf::{Code, Hook, Kind, Program};
use weir_live::ethtool;
use weir_live::netns::NetNs;
use weir_live::status::Status;
use weir_testbed::{END, Host, LEFT, Netlink, RIGHT, Testbed, TestbedConfig, firewall};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("udp_takes_the_rate_of_each_direction", udp_takes_the_rate_of_each_direction),
    ("tcp_takes_the_rate_through_translation_too", tcp_takes_the_rate_through_translation_too),
    ("a_connection_outlives_start_stop_and_kill", a_connection_outlives_start_stop_and_kill),
    ("neighbours_broadcasts_and_ipv6_pass", neighbours_broadcasts_and_ipv6_pass),
    ("a_renamed_interface_with_longer_frames_is_followed", a_changed_interface_is_followed),
    ("an_interface_that_comes_back_is_shaped_again", an_interface_that_comes_back_is_shaped),
    ("what_cannot_be_shaped_is_refused", what_cannot_be_shaped_is_refused),
    ("a_new_keeper_takes_over", a_new_keeper_takes_over),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("host", TESTS, &[Need::Root])
}

/// Megabits a second, of upload and of download.
const RATES: [u64; 2] = [20, 30];
const UP: usize = 0;
const DOWN: usize = 1;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
const ROUTER_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// A client behind a router that translates to its address towards the server; `weir up` runs on
/// the router and shapes its interface towards the server, [`RIGHT`].
struct Scene {
    folder: PathBuf,
    testbed: Testbed,
    child: Option<Child>,
    /// The number of the interface, whatever its name.
    index: u32,
}

impl Scene {
    fn new(name: &str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("weir-host-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        for (name, rate) in ["up", "down"].iter().zip(RATES) {
            let policy = format!(
                "[link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"drr\"\n[class.all]\n\
                 default = true\nqueue = {{ limit = \"300 packets\" }}\n"
            );
            fs::write(folder.join(format!("{name}.toml")), policy)?;
        }
        let socket = folder.join("weir.sock");
        let deployment = format!(
            "[deployment]\nports = {{ host = \"{RIGHT}\" }}\ncontrol = \"{}\"\n\
             [direction.upload]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"up.toml\"\n\
             [direction.download]\nfrom = \"wire\"\nto = \"host\"\npolicy = \"down.toml\"\n",
            socket.display()
        );
        fs::write(folder.join("link.toml"), deployment)?;
        let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
        let testbed = Testbed::new(config)?;
        testbed.client.run(|| -> Outcome {
            let mut netlink = Netlink::open()?;
            netlink.add_address(END, CLIENT.into(), 24)?;
            Ok(netlink.add_route(SERVER.into(), 32, ROUTER_INSIDE.into())?)
        })??;
        testbed.weir.run(make_router)??;
        let index = Netlink::open_in(&testbed.weir)?.link(RIGHT)?.index;
        Ok(Self { folder, testbed, child: None, index })
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(&self.folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&mut self) -> Outcome {
        let mut command = self.weir(&["up", "link.toml"]);
        self.child = Some(self.testbed.weir.run(move || command.spawn())??);
        await_true("the link answers", || self.status().is_ok())
    }

    fn status(&self) -> Result<Status, Failed> {
        let output =
            self.weir(&["--format", "json", "status", "--control", "weir.sock"]).output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Ends the program by a signal, and checks that nothing of it is left.
    fn end(&mut self, signal: &str) -> Outcome {
        self.signal(signal)?;
        self.await_end()
    }

    fn signal(&self, name: &str) -> Outcome {
        signal(self.child.as_ref().ok_or("nothing was started")?.id(), name)
    }

    /// Kills the keeper and then the forwarder, which goes on without it.
    fn kill(&self) -> Outcome {
        let keeper = self.child.as_ref().ok_or("nothing was started")?.id();
        let forwarders = children(keeper);
        assert_eq!(forwarders.len(), 1, "one forwards");
        signal(keeper, "KILL")?;
        forwarders.into_iter().try_for_each(|process| signal(process, "KILL"))
    }

    fn await_end(&mut self) -> Outcome {
        self.child.take().ok_or("nothing was started")?.wait()?;
        let mut netlink = Netlink::open_in(&self.testbed.weir)?;
        let mut has = |side| netlink.link(&format!("weir-{side}{}", self.index)).is_ok();
        await_true("the kernel removes the taps", || !has("host") && !has("wire"))
    }

    /// Runs `weir up` to its end, which must be a refusal; returns its words.
    fn refusal(&self, deployment: &str) -> Result<String, Failed> {
        fs::write(self.folder.join("other.toml"), deployment)?;
        let mut command = self.weir(&["up", "other.toml"]);
        let output = self.testbed.weir.run(move || command.output())??;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            processes::end(child);
        }
        drop(fs::remove_dir_all(&self.folder));
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

fn await_true(what: &str, mut good: impl FnMut() -> bool) -> Outcome {
    let start = Instant::now();
    while !good() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The router and the server flood each other; each receives what its direction's link lets pass.
fn udp_takes_the_rate_of_each_direction() -> Outcome {
    let mut scene = Scene::new("udp")?;
    scene.start()?;
    let (router, server) = (&scene.testbed.weir, &scene.testbed.server);
    let ways = [(router, server, SERVER), (server, router, ROUTER)];
    for ((from, to, address), wanted) in ways.into_iter().zip(RATES) {
        one_run_is_near(wanted, || flood_rate(from, to, address))?;
    }
    scene.end("TERM")
}

/// Measures until one run is near: on a busy machine sender or receiver come too late in some runs,
/// but a wrong rate is wrong in all of them.
fn one_run_is_near(wanted: u64, measure: impl Fn() -> Result<f64, Failed>) -> Outcome {
    let mut rates = Vec::new();
    while rates.len() < ATTEMPTS {
        let rate = measure()?;
        if is_near(rate, wanted) {
            return Ok(());
        }
        rates.push(rate);
    }
    Err(format!("Mbit/s: {rates:?} in place of {wanted}").into())
}

fn is_near(rate: f64, wanted: u64) -> bool {
    (rate / wanted as f64 - 1.0).abs() <= 0.02
}

/// Returns the Ethernet bits that arrive, in millions a second.
fn flood_rate(from: &NetNs, to: &NetNs, address: Ipv4Addr) -> Result<f64, Failed> {
    const PAYLOAD: usize = 1000;
    const HEADERS: usize = 8 + 20 + 14;
    const COUNT: u32 = 4000;
    let receiver = to.run(|| UdpSocket::bind((address, 0)))??;
    let sender = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    let at = receiver.local_addr()?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let flood = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            // 400 Mbit/s at most; a full socket is no failure of this test.
            (0..50).for_each(|_| drop(sender.send_to(&[0; PAYLOAD], at)));
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut bytes = [0; PAYLOAD];
    // The queue fills first.
    for _ in 0..200 {
        receive(&receiver, &mut bytes)?;
    }
    let start = Instant::now();
    for _ in 0..COUNT {
        receive(&receiver, &mut bytes)?;
    }
    let elapsed = start.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    flood.join().expect("the flood does not panic");
    Ok(f64::from(COUNT) * (PAYLOAD + HEADERS) as f64 * 8e-6 / elapsed)
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

    /// Waits until `more` bytes than now have arrived; returns Ethernet megabits a second, counted
    /// at the length of full segments.
    fn rate_of(&self, more: u64) -> Result<f64, Failed> {
        const FRAME_TO_PAYLOAD: f64 = 1514.0 / 1448.0;
        let (start, before) = (Instant::now(), self.received());
        await_true("bytes arrive", || self.received() >= before + more)?;
        // In this order, so that a pause between the two makes the rate no higher.
        let bytes = self.received() - before;
        let elapsed = start.elapsed().as_secs_f64();
        Ok(bytes as f64 * FRAME_TO_PAYLOAD * 8e-6 / elapsed)
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

    /// Ends the transfer, and checks that all of it arrived.
    fn finish(self, sink: Sink) -> Outcome {
        self.done.store(true, Ordering::Relaxed);
        let sent = self.thread.join().expect("the source does not panic")?;
        let received = sink.thread.join().expect("the sink does not panic")?;
        assert_eq!(sent, received, "bytes sent and received");
        Ok(())
    }
}

/// Uploads and downloads, of the router itself and of the client behind it.
fn tcp_takes_the_rate_through_translation_too() -> Outcome {
    let mut scene = Scene::new("tcp")?;
    scene.start()?;
    let Testbed { client, weir: router, server, .. } = &scene.testbed;
    // Who has the connection with the server, and which way bytes go.
    for (host, way) in [(router, UP), (client, UP), (router, DOWN)] {
        one_run_is_near(RATES[way], || {
            let ends = [(server, IpAddr::from(SERVER)), (router, IpAddr::from(ROUTER))];
            let sink = Sink::listen(ends[way].0, ends[way].1)?;
            let source = Source::connect([host, server][way], sink.address)?;
            // Slow start fills the queue.
            sink.rate_of(1_000_000)?;
            let rate = sink.rate_of(RATES[way] * 250_000)?;
            source.finish(sink)?;
            Ok(rate)
        })?;
    }
    scene.end("TERM")
}

/// A client behind translation uploads while `weir up` starts, stops, starts and is killed.
fn a_connection_outlives_start_stop_and_kill() -> Outcome {
    let mut scene = Scene::new("kill")?;
    let sink = Sink::listen(&scene.testbed.server, SERVER)?;
    let source = Source::connect(&scene.testbed.client, sink.address)?;
    sink.rate_of(1_000_000)?;
    let port = source.stream.local_addr()?.port();
    let before = connection(&scene.testbed.weir, port)?;
    // The machine may hold up one end by a signal; not each of them.
    let mut shortest = [Duration::MAX; 2];
    for (round, signal) in ["TERM", "KILL"].into_iter().cycle().take(4).enumerate() {
        scene.start()?;
        sink.rate_of(500_000)?;
        // What came while the sink had to pause is counted when it goes on.
        let (mut rates, limit) = (Vec::new(), RATES[UP] as f64 * 1.2);
        while rates.last().is_none_or(|rate| *rate >= limit) {
            assert!(rates.len() < ATTEMPTS, "Mbit/s while it is shaped: {rates:?}");
            rates.push(sink.rate_of(5_000_000)?);
        }
        if signal == "KILL" {
            scene.kill()?;
        } else {
            scene.signal(signal)?;
        }
        let (ended, Testbed { weir: router, server, .. }) = (Instant::now(), &scene.testbed);
        await_true("something passes", || {
            echo(router, server, SERVER.into(), 100, Duration::from_millis(50)).is_ok()
        })?;
        let gap = ended.elapsed();
        println!("{signal}: nothing passes for {gap:?} at most");
        shortest[round % 2] = shortest[round % 2].min(gap);
        scene.await_end()?;
        let unshaped = sink.rate_of(50_000_000)?;
        assert!(unshaped > RATES[UP] as f64 * 1.5, "{unshaped} Mbit/s after {signal}");
        assert_eq!(connection(&scene.testbed.weir, port)?, before, "the tracked connection");
    }
    let is_short = |gap: &Duration| *gap < Duration::from_secs(1);
    assert!(
        shortest.iter().all(is_short),
        "after TERM and after KILL nothing passes: {shortest:?}"
    );
    source.finish(sink)
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
    let mut scene = Scene::new("adopt")?;
    scene.start()?;
    let forwarder = |scene: &Scene| scene.status().ok()?.processes.map(|two| two.forwarder);
    let former = forwarder(&scene).ok_or("it has one")?;
    scene.signal("KILL")?;
    scene.child.take().ok_or("it was started")?.wait()?;
    scene.start()?;
    let is_other = |scene: &Scene| forwarder(scene).is_some_and(|now| now != former);
    await_true("another forwarder", || is_other(&scene))?;
    echo(&scene.testbed.weir, &scene.testbed.server, SERVER.into(), 100, PATIENCE)?;
    assert!(scene.status()?.lanes[UP].classes[0].sent.packets > 0);
    let restarted = scene.weir(&["restart", "--control", "weir.sock"]).output()?;
    assert!(restarted.status.success(), "{restarted:?}");
    scene.end("TERM")
}

/// Neighbours are resolved anew, over IPv4 and IPv6, both ways, and broadcasts arrive once.
fn neighbours_broadcasts_and_ipv6_pass() -> Outcome {
    let mut scene = Scene::new("kinds")?;
    scene.start()?;
    let (router, server) = (&scene.testbed.weir, &scene.testbed.server);
    let rows: [(&NetNs, &NetNs, IpAddr); 6] = [
        (router, server, SERVER.into()),
        (server, router, ROUTER.into()),
        (router, server, Host::Server.ip6()),
        (server, router, ROUTER6.parse()?),
        (router, server, Ipv4Addr::new(10, 77, 0, 255).into()),
        (server, router, Ipv4Addr::new(10, 77, 0, 255).into()),
    ];
    for (from, to, address) in rows {
        echo(from, to, address, 100, PATIENCE).map_err(|error| format!("{address}: {error:?}"))?;
    }
    let (up, down) = (&scene.status()?.lanes[UP], &scene.status()?.lanes[DOWN]);
    let ends = ["host", "wire"].map(|end| format!("{RIGHT} ({end})"));
    assert_eq!([&up.from, &up.to], [&ends[0], &ends[1]]);
    assert!(up.classes[0].sent.packets >= 6 && down.classes[0].sent.packets >= 6);
    scene.end("TERM")
}

/// Sends a datagram and waits for the same one back; none may come twice.
fn echo(from: &NetNs, to: &NetNs, address: IpAddr, len: usize, patience: Duration) -> Outcome {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { "::".parse()? };
    let (server, client) =
        (to.run(|| UdpSocket::bind((any, 0)))??, from.run(|| UdpSocket::bind((any, 0)))??);
    client.set_broadcast(true)?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(patience))?;
    }
    client.send_to(&vec![1; len], (address, server.local_addr()?.port()))?;
    let mut bytes = vec![0; len + 1];
    let (arrived, back) = receive(&server, &mut bytes)?;
    server.send_to(&bytes[..arrived], back)?;
    assert_eq!((arrived, receive(&client, &mut bytes)?.0), (len, len));
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let again = receive(socket, &mut bytes).map_err(|error| error.kind());
        assert!(matches!(again, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{again:?}");
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
    let mut scene = Scene::new("follow")?;
    scene.start()?;
    let Testbed { weir: router, server, .. } = &scene.testbed;
    let mut netlink = Netlink::open_in(router)?;
    netlink.set_up(RIGHT, false)?;
    await_true("it is down", || scene.status().is_ok_and(|all| all.ports[0].state == "down"))?;
    netlink.rename(RIGHT, "outer")?;
    netlink.set_up("outer", true)?;
    let named = |status: Status| {
        status.ports.iter().all(|port| port.interface == "outer" && port.state == "up")
    };
    await_true("the name is followed", || scene.status().is_ok_and(named))?;
    echo(router, server, SERVER.into(), 100, PATIENCE)?;
    netlink.set_mtu("outer", 4000)?;
    Netlink::open_in(server)?.set_mtu(END, 4000)?;
    let sent =
        |scene: &Scene| scene.status().map_or(0, |status| status.lanes[UP].classes[0].sent.packets);
    await_true("long frames pass whole", || {
        let before = sent(&scene);
        echo(router, server, SERVER.into(), 3500, Duration::from_millis(200)).is_ok()
            && sent(&scene) == before + 1
    })?;
    scene.end("TERM")
}

fn an_interface_that_comes_back_is_shaped() -> Outcome {
    let mut scene = Scene::new("back")?;
    scene.start()?;
    let (router, server) = (&scene.testbed.weir, &scene.testbed.server);
    echo(router, server, SERVER.into(), 100, PATIENCE)?;
    scene.testbed.disconnect(Host::Server)?;
    let all = |state: &str| {
        scene.status().is_ok_and(|status| status.ports.iter().all(|port| port.state == state))
    };
    await_true("it is gone", || all("gone"))?;
    scene.testbed.connect(Host::Server)?;
    Netlink::open_in(router)?.add_address(RIGHT, ROUTER.into(), 24)?;
    await_true("it is back", || all("up"))?;
    let before = scene.status()?;
    assert_eq!(before.ports[0].rebinds, 1);
    echo(router, server, SERVER.into(), 100, PATIENCE)?;
    for (lane, before) in scene.status()?.lanes.iter().zip(before.lanes) {
        assert!(lane.classes[0].sent.packets > before.classes[0].sent.packets, "{lane:?}");
    }
    scene.end("TERM")
}

fn what_cannot_be_shaped_is_refused() -> Outcome {
    let mut scene = Scene::new("refused")?;
    let deployment = |interface: &str| {
        format!(
            "[deployment]\nname = \"other\"\nports = {{ host = \"{interface}\" }}\n\
             [direction.up]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"up.toml\"\n"
        )
    };
    let check = |scene: &Scene, interface: &str, wanted: &str| -> Outcome {
        let text = scene.refusal(&deployment(interface))?;
        assert!(text.contains(wanted) && text.contains(interface), "{interface}, {wanted}: {text}");
        Ok(())
    };
    check(&scene, "lo", "not an Ethernet interface")?;
    check(&scene, "nowhere0", "No such device")?;
    scene.start()?;
    check(&scene, RIGHT, "belongs already to the deployment")?;
    echo(&scene.testbed.weir, &scene.testbed.server, SERVER.into(), 100, PATIENCE)?;
    scene.end("TERM")?;
    let mut code = Code::new();
    code.give(XDP_PASS);
    let program = Program::load(Kind::Xdp, "weir_test", &code)?;
    let link = scene.testbed.weir.run(|| program.attach(scene.index, Hook::XdpGeneric))??;
    check(&scene, RIGHT, "an XDP program is attached")?;
    drop(link);
    Ok(())
}

const XDP_PASS: i32 = 2;
const PATIENCE: Duration = Duration::from_secs(30);
/// Runs tried until one is near.
const ATTEMPTS: usize = 30;
