//! `weir send`, `weir recv` and `weir measure` as a user runs them, with `weir up` between two
//! private networks. Needs root or user namespaces; otherwise the tests are skipped and counted, or
//! fail if WEIR_REQUIRE_LIVE=1.

use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_live::netns::NetNs;
use weir_testbed::rows::{self, Need};
use weir_testbed::{Host, LEFT, RIGHT, Testbed, TestbedConfig};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("datagrams_cross_a_bridge_without_loss_over_ipv4", || crosses("10.77.0.2", CBR, 0)),
    ("datagrams_cross_a_bridge_without_loss_over_ipv6", || crosses("fd77::2", CBR, 0)),
    ("a_class_that_is_too_small_loses_what_the_report_says", || crosses("10.77.0.2", TOO_MUCH, 1)),
    ("raw_frames_cross_a_bridge", || crosses("10.77.0.2", RAW, 0)),
    ("transfers_cross_a_bridge", || crosses("10.77.0.2", FILES, 0)),
    ("the_sources_of_a_scenario_are_sent_together", a_scenario),
    ("wrong_arguments_are_explained", wrong_arguments),
    ("too_much_traffic_ends_in_time_over_sockets", || ends_in_time("")),
    ("too_much_traffic_ends_in_time_in_raw_frames", || ends_in_time(RAW_PORT)),
    ("a_receiver_that_nobody_answers_for_is_told", unanswered),
    ("a_link_local_receiver_is_reached", link_local),
    ("a_signal_ends_both_with_a_report", a_signal),
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

/// Two hosts and the program between them.
struct Scene {
    folder: TempDir,
    testbed: Testbed,
    up: Option<Child>,
}

impl Scene {
    fn new() -> Result<Self, Failed> {
        let folder = TempDir::new()?;
        fs::write(folder.path().join("policy.toml"), POLICY)?;
        let deployment = format!(
            "[deployment]\nports = {{ inside = \"{LEFT}\", outside = \"{RIGHT}\" }}\n\
             control = \"{}\"\n[direction.upload]\nfrom = \"inside\"\nto = \"outside\"\n\
             policy = \"policy.toml\"\n",
            folder.path().join("weir.sock").display()
        );
        fs::write(folder.path().join("link.toml"), deployment)?;
        Ok(Self { folder, testbed: Testbed::new(TestbedConfig::default())?, up: None })
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, place: &NetNs, words: &str) -> Result<Child, Failed> {
        let mut command = self.command(words);
        Ok(place.run(move || command.spawn())??)
    }

    /// Starts the bridge and waits until it answers.
    fn bridge(&mut self) -> Outcome {
        self.up = Some(self.spawn(&self.testbed.weir, "up link.toml")?);
        let start = Instant::now();
        while !self.command("status --control weir.sock").output()?.status.success() {
            if start.elapsed() > PATIENCE {
                return Err("the bridge does not answer".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until so many packets of the call have left the bridge.
    fn await_crossed(&self, count: u64) -> Outcome {
        let start = Instant::now();
        loop {
            let output = self.command("--format json status --control weir.sock").output()?.stdout;
            let status: Value = serde_json::from_slice(&output)?;
            let crossed = status["lanes"][0]["classes"][0]["sent"]["packets"].as_u64();
            if crossed >= Some(count) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{crossed:?} of {count} packets left the bridge").into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a receiver and waits until it receives.
    fn receiver(&self, words: &str) -> Result<Child, Failed> {
        let mut child = self.spawn(&self.testbed.server, &format!("--format json recv {words}"))?;
        let said = child.stderr.take().ok_or("its errors were piped")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        if line.starts_with("weir: receiving ") { Ok(child) } else { Err(line.into()) }
    }

    /// Sends to its end; returns the report.
    fn send(&self, words: &str) -> Result<Value, Failed> {
        let words = format!("--format json send {words}");
        let output = self.spawn(&self.testbed.client, &words)?.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{words}: {output:?}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let Some(up) = &mut self.up else { return };
        // Without its keeper, a forwarder goes on.
        let forwarders = children(up.id());
        let _ = up.kill();
        let _ = up.wait();
        for process in forwarders {
            let _ = Command::new("kill").args(["-KILL", &process]).status();
        }
    }
}

/// Returns the children of a process.
fn children(process: u32) -> Vec<String> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn report(child: Child) -> Result<Value, Failed> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("{output:?}").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(u64::MAX)
}

fn signal(child: &Child) -> Outcome {
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status()?;
    if sent.success() { Ok(()) } else { Err("the signal was not sent".into()) }
}

/// What is sent through the bridge to an address arrives, less `lost_least` packets at least.
fn crosses(to: &str, words: &str, lost_least: u64) -> Outcome {
    let mut scene = Scene::new()?;
    scene.bridge()?;
    let receiver = scene.receiver("--port 5004 --port 9 --port 80 --seconds 20")?;
    let sent = scene.send(&format!("{to} {words}"))?;
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
    let mut scene = Scene::new()?;
    scene.bridge()?;
    let scenario = "policy = 'policy.toml'\nduration = '0.4 s'\n\
        [[source]]\nname = 'call'\nkind = 'cbr'\ninterval = '2 ms'\npayload = '160 B'\n\
        dport = 5004\nsport = 6001\n\
        [[source]]\nname = 'page'\nkind = 'tcp'\nbytes = '20 KB'\ndport = 80\n";
    fs::write(scene.folder.path().join("mix.toml"), scenario)?;
    let receiver = scene.receiver("--port 5004 --port 80 --seconds 20 --streams 2")?;
    let sent = scene.send(&format!("{} --scenario mix.toml", Host::Server.ip4()))?;
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
    let scene = Scene::new()?;
    for (words, part) in [
        ("send 10.77.0.2", "required"),
        ("send 10.77.0.2 cbr size=100B", "has none of"),
        ("send 10.77.0.2 cbr size", "KEY=VALUE"),
        ("send 10.77.0.2 cbr dst=1.2.3.4", "first argument"),
        ("send 10.77.0.2 cube rate=1Mbit/s", "cube"),
        ("send 10.77.0.2 cbr rate=1Mbit/s size=100B --raw eth0", "--to-mac"),
        ("send 10.77.0.2 cbr rate=1Mbit/s size=100B --seconds 0", "0.001"),
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
        let output = scene.spawn(&scene.testbed.client, words)?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(2) || !said.contains(part) {
            return Err(format!("{words}: {:?}: {said}", output.status).into());
        }
    }
    Ok(())
}

/// More than any machine sends is cut off at the end, and what was not sent is told.
fn ends_in_time(way: &str) -> Outcome {
    let scene = Scene::new()?;
    let start = Instant::now();
    let words = "10.77.0.2 cbr rate=1000Gbit/s size=100B src=10.77.0.1 --seconds 0.5";
    let words = format!("{words} {way}");
    let sent = scene.send(&words)?;
    let took = start.elapsed();
    let unsent = number(&sent["streams"][0], "unsent");
    if took < PATIENCE / 2 && unsent > 1000 && unsent < u64::MAX {
        return Ok(());
    }
    Err(format!("{took:?}: {sent:#}").into())
}

fn unanswered() -> Outcome {
    let scene = Scene::new()?;
    let words = "send 10.77.0.77 cbr rate=1Mbit/s size=100B --seconds 0.5";
    let output = scene.spawn(&scene.testbed.client, words)?.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
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
    let mut scene = Scene::new()?;
    scene.bridge()?;
    // A host answers for an address once it knows that no other one has it (RFC 4862, 5.4).
    for host in [&scene.testbed.client, &scene.testbed.server] {
        while host
            .run(|| fs::read_to_string("/proc/thread-self/net/if_inet6"))??
            .lines()
            .any(is_tentative)
        {
            thread::sleep(Duration::from_millis(20));
        }
    }
    // The address that the kernel makes of the server's Ethernet address.
    let receiver = scene.receiver("--port 5004 --seconds 20")?;
    let sent = scene.send(&format!("fe80::ff:fe00:7702%eth0 {CBR}"))?;
    let received = report(receiver)?;
    let (sent, received) = (&sent["streams"][0], &received["streams"][0]);
    // While the kernel looks for the station, it drops what it has no room for.
    let is_reached = (1..=number(sent, "packets")).contains(&number(received, "packets"));
    if is_reached { Ok(()) } else { Err(format!("sent {sent:#}, received {received:#}").into()) }
}

fn a_signal() -> Outcome {
    let mut scene = Scene::new()?;
    scene.bridge()?;
    let receiver = scene.receiver("--port 5004 --streams 9")?;
    let words = "--format json send 10.77.0.2 voip --dport 5004 --seconds 60";
    let sender = scene.spawn(&scene.testbed.client, words)?;
    scene.await_crossed(5)?;
    signal(&sender)?;
    let output = sender.wait_with_output()?;
    let sent: Value = serde_json::from_slice(&output.stdout)?;
    scene.await_crossed(number(&sent["streams"][0], "packets"))?;
    signal(&receiver)?;
    let received = report(receiver)?;
    let found = format!("{:?}: sent {sent:#}, received {received:#}", output.status);
    let count = number(&sent["streams"][0], "packets");
    let good = output.status.code() == Some(130)
        && number(&received["streams"][0], "packets") == count
        && number(&received["streams"][0], "sent") == count;
    if good { Ok(()) } else { Err(found.into()) }
}

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("send", TESTS, &[Need::PrivateNetworks])
}

const PATIENCE: Duration = Duration::from_secs(30);
