//! A rate that follows the capacity of a line: kernel TCP through `weir up`, and behind it a modem,
//! which is the kernel's token bucket with a queue of its own.

use super::{Test, plan};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use weir_host::netlink::Mac;
use weir_link::status::{AutorateStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{
    CableEnd, END, Host, Netlink, PATIENCE, Result, Scene, TestbedConfig, connect, until_ok,
};

pub const TESTS: &[Test] = &[
    ("a_rate_follows_the_modem_and_returns_to_its_base_when_blind", a_rate_follows),
    ("reflectors_tell_where_nothing_does_and_dead_ones_leave_the_base", reflectors_tell),
    ("the_round_trip_behind_the_link_is_the_kernel_s_own", round_trips_agree),
];

const POLICY: &str = r#"
[link]
rate = "4 Mbit/s"
scheduler = "drr"

[class.rest]
default = true
queue = { dropper = "fq-codel" }
"#;

const VARIES: &str = r#"
[direction.download.autorate]
min = "4 Mbit/s"
base = "8 Mbit/s"
max = "60 Mbit/s"
"#;

fn a_rate_follows() -> Outcome {
    // Super-packets would be longer than the modem's burst.
    let networks = TestbedConfig { offloads: false, ..TestbedConfig::default() };
    let scene = plan(POLICY).both_ways().tables(VARIES).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(networks).start()?;
    modem(&scene, "add", 20)?;
    let traffic = Traffic::start(&scene)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    modem(&scene, "change", 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    modem(&scene, "change", 20)?;
    await_rate(&scene, "the rate follows up again", |varies| varies.rate_bps > 13_000_000)?;
    scene.await_logged("behind the link")?;
    traffic.stop();
    await_rate(&scene, "the rate is the base", |varies| {
        varies.rate_bps == 8_000_000 && varies.delay_us.is_none()
    })?;
    replay(&scene)?;
    scene.stop()?;
    Ok(())
}

/// Hosts at the server's end.
const REFLECTORS: [[u8; 4]; 3] = [[10, 77, 0, 3], [10, 77, 0, 4], [10, 77, 0, 5]];

/// Without timestamps a download by TCP tells nothing.
fn reflectors_tell() -> Outcome {
    let networks = TestbedConfig { offloads: false, ..TestbedConfig::default() };
    let [one, two, three] = REFLECTORS.map(Ipv4Addr::from);
    let probes = format!("probes = [\"{one}\", \"{two}\", \"{three}\"]\n");
    let scene = plan(POLICY).both_ways().tables(&(VARIES.to_owned() + &probes));
    let scene = scene.deployment("ring = \"8 MiB\"").networks(networks);
    let mut scene = scene.prepare()?;
    for host in [Host::Client, Host::Server] {
        let plain = || std::fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0");
        scene.testbed.namespace(host).run(plain)??;
    }
    manage(&scene)?;
    scene.start()?;
    modem(&scene, "add", 20)?;
    let traffic = Traffic::start(&scene)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    modem(&scene, "change", 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    scene.await_logged("by 3 reflectors")?;
    modem(&scene, "change", 20)?;
    await_rate(&scene, "the rate follows up again", |varies| varies.rate_bps > 13_000_000)?;
    let ignores = || std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1");
    scene.testbed.namespace(Host::Server).run(ignores)??;
    await_rate(&scene, "the rate is the base", |varies| {
        varies.rate_bps == 8_000_000 && varies.delay_us.is_none()
    })?;
    traffic.stop();
    replay(&scene)?;
    scene.stop()?;
    Ok(())
}

/// Gives Weir's machine a port in the client's network, which routes: what it sends to the hosts at
/// the server's end passes its own link.
fn manage(scene: &Scene) -> Outcome {
    let (client, server) = (&scene.testbed.client, scene.testbed.namespace(Host::Server));
    let end = |namespace, name, host: u8, addresses| {
        let mac = Mac([2, 0, 0, 0, 0x98, host]);
        CableEnd { namespace, name, mac, addresses }
    };
    let [near, far] = [1, 2].map(|host| IpAddr::from([10, 98, 0, host]));
    let addresses = [[(near, 24)], [(far, 24)]];
    let ends = [
        end(client, "office", 1, addresses[0].as_slice()),
        end(&scene.testbed.weir, "office", 2, addresses[1].as_slice()),
    ];
    connect(ends, 1500)?;
    client.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    let network = IpAddr::from([10, 77, 0, 0]);
    Netlink::open_in(&scene.testbed.weir)?.add_route(network, 24, near)?;
    let mut server = Netlink::open_in(server)?;
    server.add_route(IpAddr::from([10, 98, 0, 0]), 24, Host::Client.ip4())?;
    for host in REFLECTORS {
        server.add_address(END, IpAddr::from(host), 24)?;
    }
    Ok(())
}

/// Replays the end of the link's record, which decides the same.
fn replay(scene: &Scene) -> Outcome {
    let record = ["record", "--last", "--control", "weir.sock", "-o", "r.pcapng"];
    let made = scene.weir(&record)?;
    assert!(made.status.success(), "{} {}", made.stdout, made.stderr);
    let again = scene.weir(&["replay", "--record", "r.pcapng"])?;
    assert!(again.status.success(), "it decides the same: {} {}", again.stdout, again.stderr);
    Ok(())
}

/// A rate that stays, above what the modem passes.
const STAYS: &str = r#"
[direction.download.autorate]
min = "60 Mbit/s"
base = "60 Mbit/s"
max = "60 Mbit/s"
"#;

/// A queue stands in the modem, as high as the windows of bulk connections: the link and the kernel
/// of a client in conversation measure the same round trip.
fn round_trips_agree() -> Outcome {
    let networks = TestbedConfig { offloads: false, ..TestbedConfig::default() };
    let scene = plan(POLICY).both_ways().tables(STAYS).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(networks).start()?;
    modem(&scene, "add", 20)?;
    // Small windows fill the modem's queue in part, and steadily.
    let small = || std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 16384");
    scene.testbed.client.run(small)??;
    let conversation = Conversation::start(&scene)?;
    let traffic = Traffic::start(&scene)?;
    let before = agree(&scene, 10.0)?;
    modem(&scene, "change", 10)?;
    agree(&scene, before * 1.2)?;
    traffic.stop();
    conversation.stop();
    scene.stop()?;
    Ok(())
}

/// Waits until the kernel's round trip is so many ms at least, and the link's differs by less than
/// a fifth or 1 ms, in the means of the last pairs; returns the kernel's. The kernel's is smoothed
/// over eight round trips and so comes later than the link's: a pair of one instant differs by what
/// the queue has changed meanwhile, the means of a longer time by less.
fn agree(scene: &Scene, least: f64) -> Result<f64> {
    let mut pairs = Vec::new();
    until_ok("both round trips agree", || {
        let status = scene.status().map_err(String::from)?;
        let varies = status.lanes.iter().find_map(|lane| lane.autorate.as_ref());
        let trip = varies.and_then(|varies| varies.round_trip_us).ok_or("none is measured")?;
        pairs.push((kernel_round_trip(scene)?, trip / 1e3));
        let last = &pairs[pairs.len().saturating_sub(PAIRS)..];
        let mean =
            |of: fn(&(f64, f64)) -> f64| last.iter().map(of).sum::<f64>() / last.len() as f64;
        let (kernel, link) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let pairwise = mean(|pair| (pair.1 - pair.0).abs());
        let told = format!(
            "kernel {kernel:.2} ms, link {link:.2} ms, a pair {pairwise:.2} ms apart, of {} pairs",
            last.len()
        );
        let error = (link - kernel).abs();
        if last.len() < PAIRS || kernel < least || error >= (kernel * 0.2).max(1.0) {
            return Err(told);
        }
        println!("{told}, after {}", pairs.len());
        Ok(kernel)
    })
}

/// Returns the round trip in ms that the client's kernel found for the conversation.
fn kernel_round_trip(scene: &Scene) -> std::result::Result<f64, String> {
    let mut ss = Command::new("ss");
    ss.args(["-tinH", "dport", "=", ":8081"]);
    let ran = scene.testbed.client.run(|| ss.output()).map_err(|why| why.to_string())?;
    let text = String::from_utf8(ran.map_err(|why| why.to_string())?.stdout);
    let text = text.map_err(|why| why.to_string())?;
    let found = text.split_whitespace().find_map(|word| word.strip_prefix("rtt:"));
    let millis = found.and_then(|word| word.split('/').next()?.parse().ok());
    millis.ok_or_else(|| format!("no connection in: {text}"))
}

/// How many pairs of round trips a mean is of.
const PAIRS: usize = 40;

/// A client that sends a few bytes as soon as the last ones have come back.
struct Conversation {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Conversation {
    fn start(scene: &Scene) -> Result<Self> {
        let stops = Arc::new(AtomicBool::new(false));
        let address = (Host::Server.ip4(), 8081);
        let listener = scene.testbed.server.run(|| TcpListener::bind(address))??;
        let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE);
        let mut asks = scene.testbed.client.run(connect)??;
        let (mut answers, _) = listener.accept()?;
        for stream in [&asks, &answers] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
        }
        let stopped = Arc::clone(&stops);
        let talks = move || {
            let mut bytes = [7; 100];
            while !stopped.load(Ordering::Relaxed)
                && asks.write_all(&bytes).and_then(|()| asks.read_exact(&mut bytes)).is_ok()
            {
            }
        };
        let echoes = move || {
            let mut bytes = [0; 100];
            while answers.read_exact(&mut bytes).and_then(|()| answers.write_all(&bytes)).is_ok() {}
        };
        Ok(Self { stops, threads: vec![thread::spawn(talks), thread::spawn(echoes)] })
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Sets the modem's rate in Mbit/s: the server's queue behind Weir's port.
fn modem(scene: &Scene, verb: &str, mbit: u32) -> Outcome {
    let rate = format!("{mbit}mbit");
    let words = ["qdisc", verb, "dev", END, "root", "tbf", "rate", &rate, "burst", "4kb"];
    let mut tc = Command::new("tc");
    tc.args(words).args(["latency", "300ms"]);
    let ended = scene.testbed.namespace(Host::Server).run(|| tc.output())??;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

/// Waits until the download's rate is as it should be; it is within its range all the time.
fn await_rate(scene: &Scene, what: &str, is_good: impl Fn(&AutorateStatus) -> bool) -> Outcome {
    scene.await_status(what, |status: &Status| {
        let varies = status.lanes.iter().find_map(|lane| lane.autorate.as_ref());
        let varies = varies.expect("the download varies");
        assert!((4_000_000..=60_000_000).contains(&varies.rate_bps), "{varies:?}");
        is_good(varies)
    })?;
    Ok(())
}

/// Connections by which the server sends without end.
struct Traffic {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// A sender's own queue holds little of each connection, so there are many.
    const CONNECTIONS: u16 = 24;

    fn start(scene: &Scene) -> Result<Self> {
        let stops = Arc::new(AtomicBool::new(false));
        let address = (Host::Client.ip4(), 8080);
        let listener = scene.testbed.client.run(|| TcpListener::bind(address))??;
        let mut threads = Vec::new();
        for _ in 0..Self::CONNECTIONS {
            let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE);
            let mut sender = scene.testbed.server.run(connect)??;
            sender.set_write_timeout(Some(PATIENCE))?;
            let (mut receiver, _) = listener.accept()?;
            let stopped = Arc::clone(&stops);
            threads.push(thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) && sender.write_all(&[7; 16 << 10]).is_ok() {
                }
            }));
            threads.push(thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while receiver.read(&mut bytes).is_ok_and(|count| count > 0) {}
            }));
        }
        Ok(Self { stops, threads })
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}
