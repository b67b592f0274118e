//! `weir send`, `weir recv` and `weir measure` as a user runs them, with `weir up` between two
//! private networks. Needs root or user namespaces.

use std::fs;

use serde_json::Value;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_testbed::rows::{self, Failed, Need, Outcome, Row};
use weir_testbed::{Host, Process, Scene, until, until_ok};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("datagrams_cross_a_bridge_without_loss_over_ipv4", || crosses("10.77.0.2", CBR, 0)),
    ("datagrams_cross_a_bridge_without_loss_over_ipv6", || crosses("fd77::2", CBR, 0)),
    ("a_class_that_is_too_small_loses_what_the_report_says", || crosses("10.77.0.2", TOO_MUCH, 1)),
    ("raw_frames_cross_a_bridge", || crosses("10.77.0.2", RAW, 0)),
    ("transfers_cross_a_bridge", || crosses("10.77.0.2", FILES, 0)),
    ("the_sources_of_a_scenario_are_sent_together", a_scenario),
    ("wrong_arguments_are_explained", wrong_arguments),
    ("too_much_traffic_is_cut_off_over_sockets", || is_cut_off("")),
    ("too_much_traffic_is_cut_off_in_raw_frames", || is_cut_off(RAW_PORT)),
    ("a_receiver_that_nobody_answers_for_is_told", unanswered),
    ("a_link_local_receiver_is_reached", link_local),
    ("a_signal_ends_both_with_a_report", a_signal),
    ("a_line_is_tried_and_compared_with_what_it_was_before", a_line_is_tried),
];

/// A call of 200 bytes a packet.
const CBR: &str = "cbr interval=1ms payload=160B --packets 300 --dport 5004";
/// Twice what the link has.
const TOO_MUCH: &str = "poisson rate=20Mbit/s size=1000B --seconds 0.5 --dport 9";
const RAW_PORT: &str = "--raw eth0 --to-mac 02:00:00:00:77:02";
const RAW: &str = "cbr interval=1ms size=90B src=10.77.0.1 --packets 300 --raw eth0 \
                   --to-mac 02:00:00:00:77:02 --dport 5004";
const FILES: &str = "ftp file=50KB files=3 pause=10ms --seconds 10 --dport 80";

const POLICY: &str = r#"
[link]
rate = "10 Mbit/s"
scheduler = "drr"
[class.voice]
match = [{ proto = "udp", dport = "5004" }]
queue = { limit = "1000 packets" }
[class.rest]
default = true
queue = { limit = "20 packets" }
"#;

/// Makes two hosts, and the program between them, which does not run yet.
fn prepared() -> Result<Scene, Failed> {
    Ok(Scene::plan(env!("CARGO_BIN_EXE_weir"), POLICY).prepare()?)
}

/// As [`prepared`], and the program runs.
fn started() -> Result<Scene, Failed> {
    Ok(Scene::plan(env!("CARGO_BIN_EXE_weir"), POLICY).start()?)
}

/// Starts `weir` in a network.
fn weir(scene: &Scene, place: &NetNs, words: &str) -> Result<Process, Failed> {
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok(Process::start_in(place, &mut scene.command(&words))?)
}

/// Waits until so many packets of the call have left the bridge.
fn await_crossed(scene: &Scene, count: u64) -> Outcome {
    let what = format!("{count} packets leave the bridge");
    let is_good = |all: &Status| all.lanes[0].classes[0].sent.packets >= count;
    Ok(scene.await_status(&what, is_good).map(drop)?)
}

/// Starts a receiver and waits until it receives.
fn receiver(scene: &Scene, words: &str) -> Result<Process, Failed> {
    let words = format!("--format json recv {words}");
    let process = weir(scene, &scene.testbed.server, &words)?;
    until_ok("it receives", || {
        let said = process.stderr();
        if said.starts_with("weir: receiving ") { Ok(()) } else { Err(said) }
    })?;
    Ok(process)
}

/// Sends to its end; returns the report.
fn send(scene: &Scene, words: &str) -> Result<Value, Failed> {
    let words = format!("--format json send {words}");
    report(weir(scene, &scene.testbed.client, &words)?)
}

/// Returns what a process reports that ends well.
fn report(mut process: Process) -> Result<Value, Failed> {
    let ended = process.wait_for_output()?;
    if !ended.status.success() {
        return Err(format!("{ended:?}").into());
    }
    Ok(serde_json::from_str(&ended.stdout)?)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(u64::MAX)
}

/// Packets that are sent through the bridge to an address arrive, less `lost_least` packets at
/// least.
fn crosses(to: &str, words: &str, lost_least: u64) -> Outcome {
    let scene = started()?;
    let receiver = receiver(&scene, "--port 5004 --port 9 --port 80 --seconds 60")?;
    let sent = send(&scene, &format!("{to} {words}"))?;
    let received = report(receiver)?;
    let (sent, received) = (&sent["streams"][0], &received["streams"][0]);
    let (count, lost) = (number(received, "packets"), number(received, "lost"));
    let found = format!("sent {sent:#}, received {received:#}");
    let whole = count + lost == number(sent, "packets");
    let expected = if lost_least == 0 { lost == 0 } else { lost >= lost_least };
    let measured = number(&received["delay"], "count") == count;
    if whole && expected && measured && count > 0 { Ok(()) } else { Err(found.into()) }
}

fn a_scenario() -> Outcome {
    let scene = started()?;
    let scenario = "policy = 'policy.toml'\nduration = '0.4 s'\n\
        [[source]]\nname = 'call'\nkind = 'cbr'\ninterval = '2 ms'\npayload = '160 B'\n\
        dport = 5004\nsport = 6001\n\
        [[source]]\nname = 'page'\nkind = 'tcp'\nbytes = '20 KB'\ndport = 80\n";
    scene.write("mix.toml", scenario)?;
    let receiver = receiver(&scene, "--port 5004 --port 80 --seconds 60 --streams 2")?;
    let sent = send(&scene, &format!("{} --scenario mix.toml", Host::Server.ip4()))?;
    let received = report(receiver)?;
    let found = format!("sent {sent:#}, received {received:#}");
    let counts = |report: &Value| -> Vec<u64> {
        let streams = report["streams"].as_array().cloned().unwrap_or_default();
        let mut counts: Vec<_> = streams.iter().map(|stream| number(stream, "packets")).collect();
        counts.sort_unstable();
        counts
    };
    let from_port = received["streams"].to_string().contains("10.77.0.1:6001");
    // One that came due while the machine made the sender pause at the end was not sent.
    let streams = sent["streams"].as_array().into_iter().flatten();
    let unsent: u64 = streams.map(|stream| number(stream, "unsent")).sum();
    let wanted = [1, 200_u64.saturating_sub(unsent).max(1)];
    let good = counts(&sent) == wanted && counts(&received) == wanted && from_port;
    if good { Ok(()) } else { Err(found.into()) }
}

fn wrong_arguments() -> Outcome {
    let scene = prepared()?;
    for (words, part) in [
        ("send 10.77.0.2", "required"),
        ("send 10.77.0.2 cbr size=100B", "has none of"),
        ("send 10.77.0.2 cbr size", "KEY=VALUE"),
        ("send 10.77.0.2 cbr dst=1.2.3.4", "first argument"),
        ("send 10.77.0.2 cube rate=1Mbit/s", "cube"),
        ("send 10.77.0.2 cbr rate=1Mbit/s size=100B --raw eth0", "--to-mac"),
        ("send 10.77.0.2 cbr rate=1Mbit/s size=100B --seconds 0", "at least 1ms"),
        ("send 10.77.0.2 ftp --raw eth0 --to-mac 02:00:00:00:77:02", "connection"),
        ("send 10.77.0.2 --scenario policy.toml", "is a policy, not a scenario"),
        ("send localhost cbr rate=1Mbit/s size=100B", "names are not looked up"),
        ("send fe80::1 cbr rate=1Mbit/s size=100B", "fe80::1%eth0"),
        ("send fe80::1%nosuch0 cbr rate=1Mbit/s size=100B", "nosuch0"),
        ("send 10.77.0.2 cbr rate=1Mbit/s size=1B", "size = '42 B'"),
        ("send fd77::2 cbr rate=1Mbit/s size=61B", "size = '62 B'"),
        ("recv --raw nosuch0", "nosuch0"),
        ("recv --port 0", "0"),
    ] {
        let output = weir(&scene, &scene.testbed.client, words)?.wait_for_output()?;
        let said = &output.stderr;
        if output.status.code() != Some(2) || !said.contains(part) {
            return Err(format!("{words}: {:?}: {said}", output.status).into());
        }
    }
    Ok(())
}

/// More than any machine sends is cut off at the end, and what was not sent is told.
fn is_cut_off(way: &str) -> Outcome {
    let scene = prepared()?;
    let words = "10.77.0.2 cbr rate=1000Gbit/s size=100B src=10.77.0.1 --seconds 0.5";
    let sent = send(&scene, &format!("{words} {way}"))?;
    let unsent = number(&sent["streams"][0], "unsent");
    if unsent > 1000 && unsent < u64::MAX { Ok(()) } else { Err(format!("{sent:#}").into()) }
}

fn unanswered() -> Outcome {
    let scene = prepared()?;
    let words = "send 10.77.0.77 cbr rate=1Mbit/s size=100B --seconds 0.5";
    let output = weir(&scene, &scene.testbed.client, words)?.wait_for_output()?;
    let said = &output.stderr;
    let is_told = said.contains("no station answers for 10.77.0.77");
    let is_failed = output.status.code() == Some(2);
    if is_told && is_failed { Ok(()) } else { Err(format!("{output:?}").into()) }
}

/// The fifth word of a line of `if_inet6` is the flags of an address (IFA_F_TENTATIVE).
fn is_tentative(line: &str) -> bool {
    let flags = line.split_whitespace().nth(4).unwrap_or_default();
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & 0x40 != 0)
}

fn link_local() -> Outcome {
    let scene = started()?;
    // A host answers for an address once it knows that no other one has it (RFC 4862, 5.4).
    for host in [&scene.testbed.client, &scene.testbed.server] {
        let read = || host.run(|| fs::read_to_string("/proc/thread-self/net/if_inet6"));
        let is_known = |text: &String| !text.lines().any(is_tentative);
        until("it knows its addresses", || matches!(read(), Ok(Ok(text)) if is_known(&text)))?;
    }
    // The address that the kernel makes of the server's Ethernet address.
    let receiver = receiver(&scene, "--port 5004 --seconds 60")?;
    let sent = send(&scene, &format!("fe80::ff:fe00:7702%eth0 {CBR}"))?;
    let received = report(receiver)?;
    let (sent, received) = (&sent["streams"][0], &received["streams"][0]);
    // While the kernel looks for the station, it drops what it has no room for.
    let is_reached = (1..=number(sent, "packets")).contains(&number(received, "packets"));
    if is_reached { Ok(()) } else { Err(format!("sent {sent:#}, received {received:#}").into()) }
}

fn a_signal() -> Outcome {
    let scene = started()?;
    let receiver = receiver(&scene, "--port 5004 --streams 9")?;
    let words = "--format json send 10.77.0.2 voip --dport 5004 --seconds 600";
    let mut sender = weir(&scene, &scene.testbed.client, words)?;
    await_crossed(&scene, 5)?;
    sender.signal("INT")?;
    let output = sender.wait_for_output()?;
    let sent: Value = serde_json::from_str(&output.stdout)?;
    await_crossed(&scene, number(&sent["streams"][0], "packets"))?;
    receiver.signal("INT")?;
    let received = report(receiver)?;
    let found = format!("{:?}: sent {sent:#}, received {received:#}", output.status);
    let count = number(&sent["streams"][0], "packets");
    let good = output.status.code() == Some(130)
        && number(&received["streams"][0], "packets") == count
        && number(&received["streams"][0], "sent") == count;
    if good { Ok(()) } else { Err(found.into()) }
}

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("send", TESTS, &[Need::PrivateNetworks])
}

/// How quick the line is depends on the machine; that there is a measure of all, that a link tells
/// of the load, and that both results stand side by side does not.
fn a_line_is_tried() -> Outcome {
    let scene = started()?;
    let words = "--format json try 10.77.0.2 --seconds 1 --save before.json";
    let none = weir(&scene, &scene.testbed.client, words)?.wait_for_output()?;
    let says = none.stderr.contains("start `weir recv --port 5001` there");
    assert!(none.status.code() == Some(2) && says, "{none:?}");

    // Refused before anything is sent.
    for (words, wanted) in [
        ("try example.org", "the port is `--port`"),
        ("try 10.77.0.2 --save away/x.json", "cannot write away/x.json: No such file"),
    ] {
        let refused = weir(&scene, &scene.testbed.client, words)?.wait_for_output()?;
        let told = refused.stderr.contains(wanted) && !refused.stderr.contains("measuring");
        assert!(refused.status.code() == Some(2) && told, "{refused:?}");
    }

    let receiver = receiver(&scene, "--tcp --streams 8 --seconds 60")?;
    let before = report(weir(&scene, &scene.testbed.client, words)?)?;
    for of in ["idle", "loaded"] {
        assert!(number(&before[of], "probes") > 0, "{before:#}");
        assert!(before[of]["p50_ms"].as_f64() > Some(0.0), "{before:#}");
    }
    // The sender's kernel takes more than the link sends. Counted are the last 0.8 s; for a pause
    // of the machine before them the link makes up, up to its `lag_max` of 0.1 s.
    let rate = before["mbit_s"].as_f64().unwrap_or_default();
    assert!(
        rate > 0.0 && rate <= 10.0 * (0.8 + 0.1) / 0.8 && before["grade"].is_string(),
        "{before:#}"
    );
    let saved: Value = serde_json::from_str(&scene.read("before.json")?)?;
    assert_eq!(saved, before);

    let words = "try 10.77.0.2 --seconds 1 --against before.json --control weir.sock";
    let now = weir(&scene, &scene.testbed.client, words)?.wait_for_output()?;
    for part in ["before", "idle line: median ms", "other side: Mbit/s", "grade", "\nrest"] {
        assert!(now.stdout.contains(part), "{part}: {now:?}");
    }
    let received = report(receiver)?;
    let streams = received["streams"].as_array().cloned().unwrap_or_default();
    let marked = streams.iter().filter(|stream| stream["stream"].is_u64());
    assert_eq!(marked.count(), 8, "{received:#}");
    Ok(())
}
