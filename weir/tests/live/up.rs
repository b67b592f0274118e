//! `weir up` and `weir status` as a user runs them: the real program between private networks, with
//! real kernel traffic. Needs root or user namespaces; otherwise the tests are skipped and counted,
//! or fail if WEIR_REQUIRE_LIVE=1.

mod api;
mod asked;
mod before;
mod bridges;
mod changed;
mod classes;
mod deaths;
mod events;
mod page;
mod probe;
use crate::processes;
use weir_testbed::rows::{self, Need};
mod records;
mod replayed;
mod screen;
mod told;

use libtest_mimic::Failed;
use processes::{children, signal};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::packet::Headers;
use weir_live::netns::NetNs;
use weir_live::pool::FramePool;
use weir_live::port::{self, BATCH, PortConfig};
use weir_live::status::Status;
use weir_testbed::{END, Host, LEFT, Netlink, RIGHT, Testbed, TestbedConfig};

type Outcome = Result<(), Failed>;
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
    ("kernel_tcp_fills_its_class_over_ipv4_and_ipv6", kernel_tcp_fills_its_class),
    ("a_declared_class_keeps_its_bound_beside_a_flood", a_declared_class_keeps_its_bound),
    ("frames_of_a_pppoe_session_reach_their_class_and_unread_ones_are_counted", frames_in_frames),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    let tests = [
        TESTS,
        api::TESTS,
        asked::TESTS,
        before::TESTS,
        bridges::TESTS,
        changed::TESTS,
        classes::TESTS,
        events::TESTS,
        told::TESTS,
        deaths::TESTS,
        records::TESTS,
        screen::TESTS,
        page::TESTS,
        replayed::TESTS,
    ];
    tests.into_iter().flat_map(|tests| rows::table("up", tests, &[Need::PrivateNetworks]))
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

/// A folder of its own, the networks, and the program between them.
struct Scene {
    folder: PathBuf,
    testbed: Testbed,
    child: Option<Child>,
}

impl Scene {
    fn new(name: &str, policy: &str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("weir-up-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("policy.toml"), policy)?;
        let deployment = format!(
            "[deployment]\nports = {{ inside = \"{LEFT}\", outside = \"{RIGHT}\" }}\n\
             control = \"{}\"\n\n\
             [direction.upload]\nfrom = \"inside\"\nto = \"outside\"\npolicy = \"policy.toml\"\n",
            folder.join("weir.sock").display()
        );
        fs::write(folder.join("link.toml"), deployment)?;
        let testbed = Testbed::new(TestbedConfig::default())?;
        Ok(Self { folder, testbed, child: None })
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(&self.folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts `weir up` in the network between the hosts and waits until it replies to a status
    /// request.
    fn start(&mut self) -> Outcome {
        self.start_with(&["up", "link.toml"])
    }

    /// As [`Scene::start`], with these arguments.
    fn start_with(&mut self, arguments: &[&str]) -> Outcome {
        let mut command = self.weir(arguments);
        self.child = Some(self.testbed.weir.run(move || command.spawn())??);
        let start = Instant::now();
        while self.status().is_err() {
            if start.elapsed() > PATIENCE {
                return Err(format!("the link does not answer: {}", self.last_words()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends the program where it is; returns what it printed.
    fn last_words(&mut self) -> String {
        let Some(mut child) = self.child.take() else { return "it was not started".to_owned() };
        let forwarders = children(child.id());
        let ended = child.try_wait();
        drop(child.kill());
        forwarders.into_iter().for_each(|process| drop(signal(process, "KILL")));
        let output = child.wait_with_output();
        format!("{ended:?}, {output:?}")
    }

    /// Runs `weir up` to its end, which must come by itself.
    fn run_up(&self) -> Result<Output, Failed> {
        self.run_up_of("link.toml")
    }

    /// As [`Scene::run_up`], of this file.
    fn run_up_of(&self, file: &str) -> Result<Output, Failed> {
        let mut command = self.weir(&["up", file]);
        Ok(self.testbed.weir.run(move || command.output())??)
    }

    fn status(&self) -> Result<Status, Failed> {
        let output =
            self.weir(&["--format", "json", "status", "--control", "weir.sock"]).output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Polls until `good` holds of the status.
    fn await_status(&self, what: &str, good: impl Fn(&Status) -> bool) -> Result<Status, Failed> {
        let start = Instant::now();
        loop {
            match self.status() {
                Ok(status) if good(&status) => return Ok(status),
                found if start.elapsed() > PATIENCE => {
                    return Err(format!("{what}: not within {PATIENCE:?}: {found:?}").into());
                }
                _ => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Sends a signal to the keeper.
    fn signal(&self, name: &str) -> Outcome {
        signal(self.keeper()?, name)
    }

    /// Returns the process that was started.
    fn keeper(&self) -> Result<u32, Failed> {
        Ok(self.child.as_ref().ok_or("nothing was started")?.id())
    }

    /// Returns the process that forwards: the newest child of the keeper.
    fn forwarder(&self) -> Result<u32, Failed> {
        let children = children(self.keeper()?);
        children.last().copied().ok_or_else(|| "the keeper has no forwarder".into())
    }

    /// Stops the program as a service manager would; returns its output.
    fn stop(&mut self) -> Result<String, Failed> {
        self.signal("TERM")?;
        let mut child = self.child.take().ok_or("nothing was started")?;
        let exit = child.wait()?;
        let mut text = String::new();
        child.stdout.take().ok_or("its output was piped")?.read_to_string(&mut text)?;
        assert!(exit.success(), "a signal is a clean end: {exit} {text}");
        assert!(!self.folder.join("weir.sock").exists(), "the socket is removed with its link");
        Ok(text)
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

/// Binds a socket for datagrams. A child that another test starts has copies of all sockets until it
/// runs its program, so the port of one that was closed may be taken for a moment longer.
fn bind(place: &NetNs, address: IpAddr, port: u16) -> Result<UdpSocket, Failed> {
    let start = Instant::now();
    loop {
        match place.run(|| UdpSocket::bind((address, port)))? {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(5));
            }
            bound => return Ok(bound?),
        }
    }
}

/// Sends datagrams from client to server until one arrives; fails after `count`.
fn send_until_received(testbed: &Testbed, port: u16, count: usize) -> Result<(), Failed> {
    let server = bind(&testbed.server, Host::Server.ip4(), port)?;
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    server.set_read_timeout(Some(PATIENCE))?;
    for _ in 0..count {
        client.send_to(&[0; 160], (Host::Server.ip4(), port))?;
        server.recv(&mut [0; 200])?;
    }
    Ok(())
}

fn frames_pass_in_their_class() -> Outcome {
    let mut scene = Scene::new("pass", POLICY)?;
    scene.start()?;
    send_until_received(&scene.testbed, 5004, 20)?;
    send_until_received(&scene.testbed, 5005, 10)?;
    let status = scene.status()?;
    let classes = &status.lanes[0].classes;
    assert_eq!((classes[0].name.as_str(), classes[0].sent.packets), ("voice", 20));
    assert_eq!(classes[1].name, "rest");
    assert!(classes[1].sent.packets >= 10, "ARP may be counted too: {classes:?}");
    assert_eq!(status.lanes[0].name, "upload");
    let text = scene.stop()?;
    assert!(text.contains("voice") && text.contains("status on"), "{text}");
    Ok(())
}

fn a_wrong_policy_starts_nothing() -> Outcome {
    let scene = Scene::new("wrong", &POLICY.replace("50 Mbit/s", "50 mbps"))?;
    let output = scene.run_up()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ambiguous") && text.contains("50 Mbit/s"), "{text}");
    assert!(!scene.folder.join("weir.sock").exists());
    Ok(())
}

fn a_missing_interface_is_named() -> Outcome {
    let scene = Scene::new("missing", POLICY)?;
    let path = scene.folder.join("link.toml");
    fs::write(&path, fs::read_to_string(&path)?.replace(RIGHT, "nowhere0"))?;
    let output = scene.run_up()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("nowhere0"), "{text}");
    Ok(())
}

fn a_pulled_cable_comes_back() -> Outcome {
    let mut scene = Scene::new("cable", POLICY)?;
    scene.start()?;
    send_until_received(&scene.testbed, 5004, 3)?;
    scene.testbed.disconnect(Host::Server)?;
    let gone = |status: &Status| status.ports[1].state == "gone" && status.ports[0].state == "up";
    scene.await_status("the port is gone", gone)?;
    scene.testbed.connect(Host::Server)?;
    scene.await_status("the port is back", |status| status.ports[1].state == "up")?;
    send_until_received(&scene.testbed, 5004, 3)?;
    let status = scene.status()?;
    assert_eq!(status.ports[1].rebinds, 1);
    scene.stop()?;
    Ok(())
}

/// Sends datagrams as fast as the client can, until `done`.
fn flood(testbed: &Testbed, done: &Arc<AtomicBool>) -> Result<thread::JoinHandle<()>, Failed> {
    flood_of(testbed, done, 64)
}

/// As [`flood`], with datagrams of `bytes` bytes.
fn flood_of(
    testbed: &Testbed,
    done: &Arc<AtomicBool>,
    bytes: usize,
) -> Result<thread::JoinHandle<()>, Failed> {
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let ended = Arc::clone(done);
    Ok(thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            // Sending fails while the cable is unplugged.
            drop(client.send_to(&vec![0; bytes], (Host::Server.ip4(), 9)));
        }
    }))
}

fn a_flood_is_survived() -> Outcome {
    let mut scene = Scene::new("flood", POLICY)?;
    scene.start()?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    scene.await_status("the flood has begun", |status| {
        status.lanes[0].classes[1].sent.packets > 0
    })?;
    let offered = |status: &Status| status.lanes[0].classes[1].offered.packets;
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
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    // The program itself also checks the place of each frame at every status request.
    scene.await_status("every frame is free", |status| status.frames_free == status.frames_max)?;
    scene.stop()?;
    Ok(())
}

/// Frames wait while the process is stopped for longer than `lag_max`.
fn a_stopped_process_goes_on() -> Outcome {
    let mut scene = Scene::new("stall", &POLICY.replace("50 Mbit/s", "1 Mbit/s"))?;
    scene.start()?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let waits = |status: &Status| status.lanes[0].classes[1].backlog.packets > 0;
    scene.await_status("frames wait", waits)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    thread::sleep(Duration::from_millis(500));
    signal(forwarder, "CONT")?;
    let after = scene.await_status("the stall is counted", |status| status.stalls > 0)?;
    let sent = |status: &Status| status.lanes[0].classes[1].sent.packets;
    scene.await_status("frames leave again", |status| sent(status) > sent(&after))?;
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    scene.stop()?;
    Ok(())
}

/// Offloads are on and neighbours unknown: super-packets are cut, ARP and ND pass, and TCP gets the
/// rate of its class.
fn kernel_tcp_fills_its_class() -> Outcome {
    let mut scene = Scene::new("tcp", LINE)?;
    let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
    scene.testbed = Testbed::new(config)?;
    scene.start()?;
    for address in [Host::Server.ip4(), Host::Server.ip6()] {
        let listener = scene.testbed.server.run(|| TcpListener::bind((address, 8080)))??;
        let server = thread::spawn(move || -> std::io::Result<u64> {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            std::io::copy(&mut stream, &mut std::io::sink())
        });
        let connect = || TcpStream::connect_timeout(&(address, 8080).into(), PATIENCE);
        let mut client = scene.testbed.client.run(connect)??;
        client.set_write_timeout(Some(PATIENCE))?;
        let start = Instant::now();
        client.write_all(&vec![7; TRANSFER])?;
        drop(client);
        let received = server.join().expect("the server does not panic")?;
        assert_eq!(received, TRANSFER as u64, "{address}");
        // Headers take 4 %; the gain of the first burst and the loss of a slow machine are much
        // smaller.
        let mbit = TRANSFER as f64 * 8e-6 / start.elapsed().as_secs_f64();
        assert!(mbit < 10.2, "{address}: {mbit} Mbit/s in a class of 10");
    }
    let status = scene.status()?;
    let web = &status.lanes[0].classes[0];
    assert!(web.sent.packets > 2 * TRANSFER as u64 / 1500, "frames, not super-packets: {web:?}");
    scene.stop()?;
    Ok(())
}

/// Datagrams to one port exceed their meter and are marked, those to another are dropped.
fn marks_reach_the_receiver() -> Outcome {
    let mut scene = Scene::new("marks", POLICED)?;
    scene.start()?;
    let mut port = scene.testbed.server.run(|| port::open(PortConfig::new(END)))??;
    // A kernel accepts no datagram whose header checksum is wrong.
    send_until_received(&scene.testbed, 5004, 20)?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..7 {
        client.send_to(&[0; 160], (Host::Server.ip4(), 5005))?;
    }
    let dropped = |status: &Status| {
        let dropped = &status.lanes[0].classes[0].dropped;
        dropped.iter().any(|(reason, amount)| reason == "policed" && amount.packets == 7)
    };
    let status = scene.await_status("the others are dropped", dropped)?;
    let voice = &status.lanes[0].classes[0];
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

/// A datagram of a PPPoE session and one behind a label go to their class; the kernel would hand
/// neither to a socket, so the frames are sent as they are.
fn frames_in_frames() -> Outcome {
    let mut scene = Scene::new("unread", POLICY)?;
    scene.start()?;
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

/// The loop may be late by up to `lag_max`, beyond which it counts a stall; the link never is.
/// Behind the flood a packet would wait 0.4 s.
fn a_declared_class_keeps_its_bound() -> Outcome {
    let policy = weir_policy::parse(DECLARED, "policy.toml").plan.ok_or("a policy with errors")?;
    let bounds = weir_policy::calculus::bounds(&policy.link, &policy.demands);
    let bound = bounds[0].delay.ok_or("a class of htb that declares has a bound")?;
    for _ in 0..ATTEMPTS {
        let mut scene = Scene::new("bound", DECLARED)?;
        scene.start()?;
        let done = Arc::new(AtomicBool::new(false));
        let flooding = flood_of(&scene.testbed, &done, 1400)?;
        let dropped = |status: &Status| !status.lanes[0].classes[1].dropped.is_empty();
        scene.await_status("the flood fills its queue", dropped)?;
        let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
        // A sleep is never shorter than requested, so this is at most half of the declared rate.
        for _ in 0..500 {
            client.send_to(&[0; 160], (Host::Server.ip4(), 5004))?;
            thread::sleep(Duration::from_millis(4));
        }
        let status = scene.status()?;
        done.store(true, Ordering::Relaxed);
        flooding.join().expect("the flood does not panic");
        scene.stop()?;
        let [voice, rest] = status.lanes[0].classes.as_slice() else { panic!("two classes") };
        if status.stalls == 0 {
            assert!(voice.sent.packets > 400, "{status:?}");
            // A flood that has to wait for a processor fills no queue.
            if rest.delay.p50_us < 200e3 {
                continue;
            }
            let (worst, lag) = (voice.delay.max_us / 1e6, LAG_MAX.as_secs_f64());
            assert!(worst <= bound + lag, "{worst} s, the bound is {bound} s");
            return Ok(());
        }
    }
    let why = format!("the machine stalled for {LAG_MAX:?}, or let the flood wait");
    Err(format!("{why}, in each of {ATTEMPTS} runs").into())
}

fn a_second_link_is_refused() -> Outcome {
    let mut scene = Scene::new("second", POLICY)?;
    scene.start()?;
    let output = scene.run_up()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("already"), "{text}");
    send_until_received(&scene.testbed, 5004, 1)?;
    scene.stop()?;
    Ok(())
}

fn one_deployment_at_a_time() -> Outcome {
    let mut scene = Scene::new("claim", POLICY)?;
    let text = fs::read_to_string(scene.folder.join("link.toml"))?;
    fs::write(scene.folder.join("other.toml"), text.replace("weir.sock", "other.sock"))?;
    scene.start()?;
    let process = scene.child.as_ref().map(Child::id).unwrap_or_default();
    let output = scene.run_up_of("other.toml")?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let wanted = format!("already to the deployment `link` (process {process})");
    assert!(text.contains(&wanted) && text.contains(LEFT), "{text}");
    send_until_received(&scene.testbed, 5004, 1)?;
    let forwarder = scene.forwarder()?;
    scene.signal("KILL")?;
    scene.child.take().ok_or("it was started")?.wait()?;
    signal(forwarder, "KILL")?;
    // To give back what it holds takes it a moment.
    deaths::until("the forwarder ends", || !deaths::is_alive(forwarder))?;
    fs::rename(scene.folder.join("other.toml"), scene.folder.join("link.toml"))?;
    fs::remove_file(scene.folder.join("weir.sock"))?;
    std::os::unix::fs::symlink("other.sock", scene.folder.join("weir.sock"))?;
    scene.start()?;
    send_until_received(&scene.testbed, 5004, 1)
}

fn an_address_is_taken_on_request() -> Outcome {
    let mut scene = Scene::new("take", POLICY)?;
    Netlink::open_in(&scene.testbed.weir)?.add_address(LEFT, "192.0.2.7".parse()?, 24)?;
    let output = scene.run_up()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [LEFT, "192.0.2.7/24", "--take", "take = true"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    scene.start_with(&["up", "link.toml", "--take"])?;
    send_until_received(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    assert!(text.contains("`left` is taken") && text.contains("192.0.2.7/24"), "{text}");
    Ok(())
}

/// For what must come: to wait longer costs nothing where it comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The default of a deployment without `lag_max`.
const LAG_MAX: Duration = Duration::from_millis(100);
/// Runs tried until one has no stall.
const ATTEMPTS: u32 = 10;
/// Two seconds of the class that carries it.
const TRANSFER: usize = 2_500_000;
