//! A rate that follows the capacity of a line: kernel TCP through `weir up`, and behind it a modem,
//! which is the kernel's token bucket with a queue of its own.

mod line;

use super::{Test, plan};
use line::{Conversation, Distant, Modem, Traffic, client};
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;
use weir_host::netlink::Mac;
use weir_link::status::{AutorateStatus, ClassStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{
    CableEnd, END, Ends, Host, Netlink, Result, Scene, Stream, StreamConfig, TestbedConfig,
    connect, has_drops, until, until_ok,
};

pub const TESTS: &[Test] = &[
    ("a_rate_follows_the_modem_and_returns_to_its_base_when_blind", a_rate_follows),
    ("the_rate_of_uploads_follows_the_modem_down_and_back", uploads_follow),
    ("a_line_that_stands_still_costs_no_guaranteed_packet_and_comes_back", line_stands_still),
    ("reflectors_tell_where_nothing_does_and_dead_ones_leave_the_base", reflectors_tell),
    ("reflectors_tell_by_ipv6_too", reflectors_tell_by_ipv6),
    ("the_round_trip_behind_the_link_is_the_kernel_s_own", round_trips_agree),
    (
        "the_round_trip_behind_the_link_is_the_kernel_s_own_in_a_full_buffer",
        round_trips_agree_in_a_full_buffer,
    ),
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

/// Super-packets would be longer than the modem's burst.
const PLAIN: TestbedConfig = TestbedConfig {
    mtu: 1500,
    offloads: false,
    static_neighbours: true,
    has_ipv6: true,
    queues: 1,
};

fn a_rate_follows() -> Outcome {
    let scene = plan(POLICY).both_ways().tables(VARIES).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(PLAIN).start()?;
    Modem::DOWN.add(&scene, 20)?;
    let traffic = Traffic::start(&scene)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    Modem::DOWN.change(&scene, 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    Modem::DOWN.change(&scene, 20)?;
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

const UPLOAD_VARIES: &str = r#"
[direction.upload.autorate]
min = "4 Mbit/s"
base = "8 Mbit/s"
max = "60 Mbit/s"
"#;

fn uploads_follow() -> Outcome {
    let scene = plan(POLICY).both_ways().tables(UPLOAD_VARIES).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(PLAIN).start()?;
    let distant = Distant::behind(&scene)?;
    Modem::UP.add(&scene, 20)?;
    let traffic = Traffic::between(client(&scene), distant.end())?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    Modem::UP.change(&scene, 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    Modem::UP.change(&scene, 20)?;
    await_rate(&scene, "the rate follows up again", |varies| varies.rate_bps > 13_000_000)?;
    scene.await_logged("behind the link")?;
    traffic.stop();
    replay(&scene)?;
    scene.stop()?;
    Ok(())
}

/// `min` carries what is guaranteed.
const GUARANTEED: &str = r#"
[link]
rate = "4 Mbit/s"
scheduler = "htb"

[class.voice]
rate = "1 Mbit/s"
ceil = "4 Mbit/s"
prio = 0
match = [{ proto = "udp", dport = "5004" }]

[class.rest]
rate = "3 Mbit/s"
ceil = "4 Mbit/s"
prio = 1
default = true
queue = { dropper = "fq-codel" }
"#;

fn line_stands_still() -> Outcome {
    let scene = plan(GUARANTEED).both_ways().tables(UPLOAD_VARIES).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(PLAIN).start()?;
    let distant = Distant::behind(&scene)?;
    let modem = Modem { bytes: 250_000, ..Modem::UP };
    modem.add(&scene, 20)?;
    let traffic = Traffic::between(client(&scene), distant.end())?;
    let (from, to) = (client(&scene).namespace, distant.end());
    let ends = Ends { from, to: to.namespace, address: to.address };
    let config = StreamConfig { per_second: 50, ..StreamConfig::default() };
    let voice = Stream::between(ends, config)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    modem.halt(&scene)?;
    // The rate falls, and is the base where nothing has come for long.
    await_rate(&scene, "the rate falls", |varies| varies.rate_bps <= 8_000_000)?;
    let sent = voice.sent();
    until("two seconds of voice are sent", || voice.sent() >= sent + 100)?;
    modem.change(&scene, 20)?;
    // Those from before wait for timers that have grown meanwhile.
    let fresh = Traffic::between(client(&scene), distant.end())?;
    await_rate(&scene, "the rate comes back", |varies| varies.rate_bps > 13_000_000)?;
    let is_lost =
        |class: &ClassStatus| has_drops(class) || class.lost.iter().any(|(_, count)| *count > 0);
    let status = scene.status()?;
    let classes = status.lanes.iter().flat_map(|lane| &lane.classes);
    let voices: Vec<_> = classes.filter(|class| class.name == "voice").collect();
    assert!(!voices.is_empty() && !voices.iter().any(|class| is_lost(class)), "{voices:?}");
    voice.finish()?;
    [traffic, fresh].into_iter().for_each(Traffic::stop);
    scene.stop()?;
    Ok(())
}

/// Networks in which hosts are asked.
struct Asked {
    /// Hosts at the server's end.
    hosts: [IpAddr; 3],
    /// Between the client and Weir's machine: that, the client's end and Weir's.
    office: [IpAddr; 3],
    /// That of the hosts.
    network: IpAddr,
    /// The lengths of prefixes of the office and of the hosts' network.
    prefixes: [u8; 2],
    /// The client's address there.
    client: IpAddr,
    /// The files that make the client route, and that make the server not answer.
    files: [&'static str; 2],
}

fn by_ipv4() -> Asked {
    Asked {
        hosts: [3, 4, 5].map(|host| IpAddr::from([10, 77, 0, host])),
        office: [0, 1, 2].map(|host| IpAddr::from([10, 98, 0, host])),
        network: IpAddr::from([10, 77, 0, 0]),
        prefixes: [24, 24],
        client: Host::Client.ip4(),
        files: ["ipv4/ip_forward", "ipv4/icmp_echo_ignore_all"],
    }
}

fn by_ipv6() -> Asked {
    let host = |network, host| IpAddr::from(Ipv6Addr::new(network, 0, 0, 0, 0, 0, 0, host));
    Asked {
        hosts: [3, 4, 5].map(|number| host(0xfd77, number)),
        office: [0, 1, 2].map(|number| host(0xfd98, number)),
        network: host(0xfd77, 0),
        prefixes: [64, 64],
        client: Host::Client.ip6(),
        files: ["ipv6/conf/all/forwarding", "ipv6/icmp/echo_ignore_all"],
    }
}

fn reflectors_tell() -> Outcome {
    hosts_tell(&by_ipv4())
}

fn reflectors_tell_by_ipv6() -> Outcome {
    hosts_tell(&by_ipv6())
}

/// Without timestamps a download by TCP tells nothing.
fn hosts_tell(asked: &Asked) -> Outcome {
    let [one, two, three] = asked.hosts;
    let [_, ignore] = asked.files;
    let probes = format!("probes = [\"{one}\", \"{two}\", \"{three}\"]\n");
    let scene = plan(POLICY).both_ways().tables(&(VARIES.to_owned() + &probes));
    let scene = scene.deployment("ring = \"8 MiB\"").networks(PLAIN);
    let mut scene = scene.prepare()?;
    for host in [Host::Client, Host::Server] {
        let plain = || std::fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0");
        scene.testbed.namespace(host).run(plain)??;
    }
    manage(&scene, asked)?;
    scene.start()?;
    Modem::DOWN.add(&scene, 20)?;
    let traffic = Traffic::start(&scene)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    Modem::DOWN.change(&scene, 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    scene.await_logged("by 3 reflectors")?;
    Modem::DOWN.change(&scene, 20)?;
    await_rate(&scene, "the rate follows up again", |varies| varies.rate_bps > 13_000_000)?;
    let ignores = || std::fs::write(format!("/proc/sys/net/{ignore}"), "1");
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
fn manage(scene: &Scene, asked: &Asked) -> Outcome {
    let Asked { hosts, office: [office, near, far], network, prefixes, client: own, .. } = *asked;
    let [route, _] = asked.files;
    let (client, server) = (&scene.testbed.client, scene.testbed.namespace(Host::Server));
    let end = |namespace, name, host: u8, addresses| {
        let mac = Mac([2, 0, 0, 0, 0x98, host]);
        CableEnd { namespace, name, mac, addresses }
    };
    let addresses = [[(near, prefixes[0])], [(far, prefixes[0])]];
    let ends = [
        end(client, "office", 1, addresses[0].as_slice()),
        end(&scene.testbed.weir, "office", 2, addresses[1].as_slice()),
    ];
    connect(ends, 1500)?;
    client.run(|| std::fs::write(format!("/proc/sys/net/{route}"), "1"))??;
    Netlink::open_in(&scene.testbed.weir)?.add_route(network, prefixes[1], near)?;
    let mut server = Netlink::open_in(server)?;
    server.add_route(office, prefixes[0], own)?;
    for host in hosts {
        server.add_address(END, host, prefixes[1])?;
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

/// Small windows fill a part of the modem's queue, and steadily.
fn round_trips_agree() -> Outcome {
    let scene = stays()?;
    let small = || std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 16384");
    scene.testbed.client.run(small)??;
    compare_round_trips(scene, 400_000)
}

/// Large windows fill all of the 100 ms that it holds.
fn round_trips_agree_in_a_full_buffer() -> Outcome {
    compare_round_trips(stays()?, 250_000)
}

fn stays() -> Result<Scene> {
    let scene = plan(POLICY).both_ways().tables(STAYS).deployment("ring = \"8 MiB\"");
    scene.networks(PLAIN).start()
}

/// A queue stands in the modem: the link and the kernel of a client in conversation measure the
/// same round trip.
fn compare_round_trips(mut scene: Scene, bytes: u32) -> Outcome {
    let distant = Distant::behind(&scene)?;
    let modem = Modem { bytes, ..Modem::DOWN };
    modem.add(&scene, 20)?;
    let traffic = Traffic::between(distant.end(), client(&scene))?;
    // A conversation that loses packets while connections begin has a round trip that is a timer's.
    scene.await_status("a queue stands", |status| {
        round_trip(status).is_some_and(|millis| millis > STANDS_MS)
    })?;
    let conversation = Conversation::start(&scene, &distant)?;
    agree(&scene)?;
    traffic.stop();
    conversation.stop();
    scene.stop()?;
    Ok(())
}

/// Compares the kernel's round trip with the link's at many moments.
fn agree(scene: &Scene) -> Outcome {
    let (mut kernel, mut errors, mut last) = (Vec::new(), Vec::new(), 0.0);
    while errors.len() < MOMENTS {
        let (trip, own) = until_ok("another round trip", || {
            let status = scene.status().map_err(String::from)?;
            let trip = round_trip(&status).filter(|trip| *trip != last).ok_or("none")?;
            Ok::<_, String>((trip, kernel_round_trip(scene)?))
        })?;
        last = trip;
        kernel.push(own);
        errors.push((trip - own).abs());
    }
    let [kernel, error] = [kernel, errors].map(median);
    println!("kernel {kernel:.2} ms, the link differs by {error:.2} ms");
    assert!(error < (kernel * 0.05).max(1.0), "kernel {kernel:.2} ms, {error:.2} ms apart");
    Ok(())
}

/// Returns the round trip in ms that the link found.
fn round_trip(status: &Status) -> Option<f64> {
    let varies = status.lanes.iter().find_map(|lane| lane.autorate.as_ref());
    varies.and_then(|varies| varies.round_trip_us).map(|micros| micros / 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A longer round trip is that of a queue.
const STANDS_MS: f64 = 40.0;
/// How many errors a median is of.
const MOMENTS: usize = 60;

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

/// Waits until the rate that varies is as it should be; it is within its range all the time.
fn await_rate(scene: &Scene, what: &str, is_good: impl Fn(&AutorateStatus) -> bool) -> Outcome {
    scene.await_status(what, |status: &Status| {
        let varies = status.lanes.iter().find_map(|lane| lane.autorate.as_ref());
        let varies = varies.expect("a direction varies");
        assert!((4_000_000..=60_000_000).contains(&varies.rate_bps), "{varies:?}");
        is_good(varies)
    })?;
    Ok(())
}
