//! `weir reserve` on two hosts with a router of `weir up` between them, in private networks: a
//! reservation by two commands is a class on the router, real packets get its rate, one that does
//! not fit says why, and `release` takes it back at once; also with a bridge in place of the router
//! (`reserve/bridged.rs`), and with a group (`reserve/groups.rs`). Needs root, as host ports do; otherwise
//! the tests are skipped and counted, or fail if WEIR_REQUIRE_LIVE=1.

mod bridged;
#[path = "reserve/groups.rs"]
mod group;
use crate::processes;
use crate::support::groups;
use crate::support::reserving;
use weir_testbed::rows::{self, Need};

use libtest_mimic::Failed;
use processes::signal;
use reserving::{PATIENCE, address, connect, route_to_all};
use serde_json::Value;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_live::netns::NetNs;

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("two_commands_make_a_class_until_it_is_released", two_commands_make_a_class),
    ("what_does_not_fit_is_refused_in_words", what_does_not_fit_is_refused),
    ("a_command_that_is_killed_reserves_until_its_state_expires", a_killed_command_expires),
    ("guaranteed_service_is_asked_for_by_its_delay", guaranteed_service_by_delay),
    ("keys_are_needed_where_the_router_has_some", keys_are_needed),
    ("wrong_input_is_told", wrong_input_is_told),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    let tests = [TESTS, bridged::TESTS, group::TESTS];
    tests.into_iter().flat_map(|tests| rows::table("reserve", tests, &[Need::Root]))
}

const NODES: usize = 3;
const SENDER: usize = 0;
const ROUTER: usize = 1;
const RECEIVER: usize = 2;
const CLASS: &str = "rsvp-10_2_0_3-17-5004-10_1_0_1-4000";
const SEND: &str = "send 10.2.0.3:5004 --from 10.1.0.1:4000 --rate 800kbit/s --bucket 4000B \
                    --packet-min 1000B --packet-max 1000B";
const KEY: &str = "7 sha256 00112233445566778899aabbccddeeff\n";

/// Sender, router, receiver.
struct Scene {
    folder: PathBuf,
    networks: Vec<NetNs>,
    router: Option<Child>,
    hosts: Vec<Reserving>,
}

/// A `weir reserve` at work.
struct Reserving {
    child: Child,
    log: PathBuf,
}

impl Scene {
    fn new(name: &str, reserved: u32, more: &str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("weir-res-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let networks: Vec<NetNs> = (0..NODES).map(|_| NetNs::new()).collect::<Result<_, _>>()?;
        (0..NODES - 1).try_for_each(|cable| connect(&networks, cable))?;
        for (node, network) in networks.iter().enumerate() {
            network.run(|| route_to_all(node, NODES))??;
        }
        let deployment = format!(
            "[deployment]\nports = {{ host = \"right\" }}\ncontrol = \"{}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\nrefresh = \"500 ms\"\n{more}\
             [direction.out]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"out.toml\"\n",
            folder.join("r.sock").display()
        );
        Self::of(folder, networks, &deployment, reserved)
    }

    /// A link of this deployment in the network in the middle.
    fn of(
        folder: PathBuf,
        networks: Vec<NetNs>,
        deployment: &str,
        reserved: u32,
    ) -> Result<Self, Failed> {
        let policy = format!(
            "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"hfsc\"\noverhead = \"ethernet\"\n\
             [class.reserved]\nrate = \"{reserved} Mbit/s\"\n\
             places = {{ count = 100, rate = \"1 kbit/s\" }}\n\
             [class.signals]\nparent = \"reserved\"\nrate = \"100 kbit/s\"\n\
             match = {{ proto = \"46\" }}\n\
             [class.rest]\nrate = \"1 Mbit/s\"\ndefault = true\n"
        );
        fs::write(folder.join("out.toml"), policy)?;
        fs::write(folder.join("r.toml"), deployment)?;
        fs::write(folder.join("keys"), KEY)?;
        // The router takes only keys that nobody else may read.
        fs::set_permissions(folder.join("keys"), fs::Permissions::from_mode(0o600))?;
        let mut scene = Self { folder, networks, router: None, hosts: Vec::new() };
        let log = fs::File::create(scene.folder.join("r.log"))?;
        let mut command = scene.weir(&["up", "r.toml"]);
        command.stdout(log.try_clone()?).stderr(log);
        scene.router = Some(scene.networks[ROUTER].run(move || command.spawn())??);
        scene.until("the router takes reservations", Self::takes_reservations)?;
        Ok(scene)
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(&self.folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `weir reserve` with these words on a host to its end.
    fn run(&self, node: usize, words: &str) -> Result<Output, Failed> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = self.weir(&[&["reserve"], words.as_slice()].concat());
        Ok(self.networks[node].run(move || command.output())??)
    }

    /// Starts `weir reserve` on a host; returns its place among `hosts`.
    fn start(&mut self, node: usize, words: &str) -> Result<usize, Failed> {
        let log = self.folder.join(format!("h{}.log", self.hosts.len()));
        let file = fs::File::create(&log)?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = self.weir(&[&["reserve", "--format", "json"], words.as_slice()].concat());
        command.stdout(file.try_clone()?).stderr(file);
        let child = self.networks[node].run(move || command.spawn())??;
        self.hosts.push(Reserving { child, log });
        Ok(self.hosts.len() - 1)
    }

    /// What a host told of an event.
    fn told(&self, host: usize, event: &str) -> Option<Value> {
        let text = fs::read_to_string(&self.hosts[host].log).unwrap_or_default();
        let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        values.into_iter().find(|value| value["event"] == event)
    }

    /// Waits for a host's end; returns its exit code.
    fn end(&mut self, host: usize) -> Result<Option<i32>, Failed> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.hosts[host].child.try_wait()? {
                return Ok(status.code());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("host {host} does not end: {}", self.logs()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let hosts: Vec<_> = self.hosts.iter().map(|host| read(&host.log)).collect();
        format!("{}\n{}", hosts.join("\n"), read(&self.folder.join("r.log")))
    }

    /// The names of the router's classes of reservations.
    fn classes(&self) -> Result<Vec<String>, Failed> {
        let output = self.weir(&["--format", "json", "status", "--control", "r.sock"]).output()?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let lanes = status["lanes"].as_array().cloned().unwrap_or_default();
        let classes =
            lanes.iter().flat_map(|lane| lane["classes"].as_array().cloned().unwrap_or_default());
        let names = classes.filter_map(|class| class["name"].as_str().map(str::to_owned));
        Ok(names.filter(|name| name.starts_with("rsvp-")).collect())
    }

    fn takes_reservations(&self) -> bool {
        let words = ["status", "--control", "r.sock", "--reservations"];
        self.weir(&words).output().is_ok_and(|output| output.status.success())
    }

    fn has(&self, wanted: &[&str]) -> bool {
        self.classes().is_ok_and(|names| names == wanted)
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Outcome {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > PATIENCE {
                return Err(format!("{what}: {:?}\n{}", self.classes(), self.logs()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for mut host in self.hosts.drain(..) {
            drop(host.child.kill());
            drop(host.child.wait());
        }
        self.router.take().into_iter().for_each(processes::end);
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn two_commands_make_a_class() -> Outcome {
    let mut scene = Scene::new("class", 8, "")?;
    let sender = scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004")?;
    scene.until("it is accepted", |scene| scene.told(receiver, "accepted").is_some())?;
    let accepted = scene.told(receiver, "accepted").ok_or("it was")?;
    assert_eq!(accepted["by"], "10.1.0.1", "the sender's host confirms: {accepted}");
    let asked = scene.told(receiver, "asked").ok_or_else(|| scene.logs())?;
    assert_eq!((&asked["service"], &asked["rate"]), (&"controlled-load".into(), &1e5.into()));
    scene.until("the sender hears it", |scene| scene.told(sender, "reserved").is_some())?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    real_packets_get_the_rate(&scene, address(true, ROUTER, RECEIVER))?;

    // A second command does not disturb the first one's.
    let other = scene.start(SENDER, "send 10.2.0.3:6000 --rate 80kbit/s --packet-max 500B")?;
    let test = scene.run(RECEIVER, "receive 10.2.0.3:6000 --test")?;
    assert_eq!(test.status.code(), Some(0), "{test:?}");
    let text = String::from_utf8_lossy(&test.stdout);
    assert!(text.contains("accepted: 10.1.0.1 confirms the reservation"), "{text}");
    scene.until("the trial is over", |scene| scene.has(&[CLASS]))?;
    assert_eq!(scene.told(receiver, "refused"), None, "{}", scene.logs());
    let twice = scene.run(RECEIVER, "receive 10.2.0.3:5004")?;
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");

    let list = String::from_utf8(scene.run(RECEIVER, "list")?.stdout)?;
    assert!(list.contains("UDP 10.2.0.3 5004") && list.contains("800 kbit/s"), "{list}");
    assert!(!list.contains("sends"), "the other host's commands are not listed: {list}");
    let release = scene.run(RECEIVER, "release 10.2.0.3:5004")?;
    assert_eq!(release.status.code(), Some(0), "{release:?}");
    // Its state would live for 157 s.
    scene.until("it is released", |scene| scene.has(&[]))?;
    assert_eq!(scene.end(receiver)?, Some(0));
    scene.until("the sender hears it", |scene| scene.told(sender, "not-reserved").is_some())?;
    let release = scene.run(SENDER, "release --all --format json")?;
    let value: Value = serde_json::from_slice(&release.stdout)?;
    assert_eq!(value["released"].as_array().map(Vec::len), Some(2), "{value}");
    assert_eq!((scene.end(sender)?, scene.end(other)?), (Some(0), Some(0)));
    Ok(())
}

const COUNT: usize = 150;
/// Runs tried until the machine lets no queue before the link overflow.
const ATTEMPTS: usize = 15;

/// While another flow fills the link, packets within the reservation all arrive.
fn real_packets_get_the_rate(scene: &Scene, receiver: IpAddr) -> Outcome {
    let mut arrived = Vec::new();
    while arrived.last() != Some(&COUNT) {
        assert!(arrived.len() < ATTEMPTS, "of {COUNT} within the reservation: {arrived:?}");
        arrived.push(count_beside_a_flood(scene, receiver)?);
    }
    Ok(())
}

fn count_beside_a_flood(scene: &Scene, receiver: IpAddr) -> Result<usize, Failed> {
    const PAYLOAD: usize = 972;
    let [from, to] = [SENDER, RECEIVER].map(|node| &scene.networks[node]);
    let target: SocketAddr = (receiver, 5004).into();
    let receiver = to.run(|| UdpSocket::bind(target))??;
    receiver.set_read_timeout(Some(Duration::from_secs(2)))?;
    let sender = from.run(|| UdpSocket::bind((address(true, 0, 0), 4000)))??;
    let flood = from.run(|| UdpSocket::bind((address(true, 0, 0), 0)))??;
    let other = SocketAddr::new(target.ip(), 9);
    let done = AtomicBool::new(false);
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // 40 Mbit/s; a full socket is no failure of this test.
                (0..50).for_each(|_| drop(flood.send_to(&[0; 1000], other)));
                thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            // 100 kB/s of IP packets, as is reserved.
            for _ in 0..COUNT {
                drop(sender.send_to(&[1; PAYLOAD], target));
                thread::sleep(Duration::from_millis(10));
            }
        });
        let mut bytes = [0; PAYLOAD];
        let received = (0..COUNT).take_while(|_| receiver.recv(&mut bytes).is_ok()).count();
        done.store(true, Ordering::Relaxed);
        received
    });
    Ok(received)
}

fn what_does_not_fit_is_refused() -> Outcome {
    let mut scene = Scene::new("refused", 1, "")?;
    scene.start(SENDER, &SEND.replace("800kbit/s", "2Mbit/s"))?;
    let refused = scene.run(RECEIVER, "receive 10.2.0.3:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = String::from_utf8_lossy(&refused.stdout);
    let why = "refused by 10.2.0.2: admission refused: the bandwidth is not available (code 1";
    assert!(text.contains(why), "{text}");
    assert!(scene.has(&[]), "{:?}", scene.classes());
    // Less than is announced fits.
    let fits = scene.run(RECEIVER, "receive 10.2.0.3:5004 --rate 500kbit/s --test")?;
    assert_eq!(fits.status.code(), Some(0), "{fits:?}");
    Ok(())
}

fn a_killed_command_expires() -> Outcome {
    let mut scene = Scene::new("killed", 8, "")?;
    scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004 --refresh 500ms --style se")?;
    let class = CLASS.trim_end_matches("-10_1_0_1-4000");
    scene.until("it is a class", |scene| scene.has(&[class]))?;
    let start = Instant::now();
    signal(scene.hosts[receiver].child.id(), "KILL")?;
    scene.until("it expires", |scene| scene.has(&[]))?;
    let elapsed = start.elapsed();
    // A period of 500 ms lets state live for 2.625 s after the last refresh.
    assert!(elapsed > Duration::from_secs(1), "soft state lives for some periods: {elapsed:?}");
    let list = String::from_utf8(scene.run(RECEIVER, "list")?.stdout)?;
    assert!(list.starts_with("no command"), "a command that died is not listed: {list}");
    Ok(())
}

fn guaranteed_service_by_delay() -> Outcome {
    let mut scene = Scene::new("delay", 8, "")?;
    scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004 --delay 40ms")?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    let asked = scene.told(receiver, "asked").ok_or_else(|| scene.logs())?;
    assert_eq!(asked["service"], "guaranteed", "{asked}");
    // 4000 bytes in 40 ms are 100 kB/s, and the router's own terms take more.
    assert!(asked["rate"].as_f64().is_some_and(|rate| rate > 1e5), "{asked}");
    assert!(asked["delay_us"].as_f64().is_some_and(|delay| delay <= 40_000.0), "{asked}");
    drop(scene.run(RECEIVER, "release --all")?);
    let never = scene.run(RECEIVER, "receive 10.2.0.3:5004 --delay 1us")?;
    assert_eq!(never.status.code(), Some(1), "{never:?}");
    let text = String::from_utf8_lossy(&never.stdout);
    assert!(text.contains("not possible: no rate keeps a delay"), "{text}");
    Ok(())
}

fn keys_are_needed() -> Outcome {
    let mut scene = Scene::new("keys", 8, "key_file = \"keys\"\n")?;
    let v6 = "send [fd02::3]:5004 --rate 800kbit/s --tcp --key-file keys";
    scene.start(SENDER, v6)?;
    scene.start(SENDER, &v6.replace("5004", "5005"))?;
    let receive = "receive [fd02::3]:5004 --tcp --key-file keys --style wf";
    let first = scene.start(RECEIVER, receive)?;
    scene.until("it is accepted", |scene| scene.told(first, "accepted").is_some())?;
    // Several commands sign for one address.
    let second = scene.run(RECEIVER, &receive.replace("5004", "5005 --test"))?;
    assert_eq!(second.status.code(), Some(0), "{second:?} {}", scene.logs());
    scene.until("it is a class", |scene| {
        scene.classes().is_ok_and(|names| names.len() == 1 && names[0].ends_with("-6-5004"))
    })?;
    let unsigned = scene.run(RECEIVER, "receive [fd02::3]:5005 --tcp --wait 1s")?;
    assert_eq!(unsigned.status.code(), Some(1), "{unsigned:?}");
    let text = String::from_utf8_lossy(&unsigned.stderr);
    assert!(text.contains("answered") || text.contains("announced"), "{text}");
    Ok(())
}

fn wrong_input_is_told() -> Outcome {
    let scene = Scene::new("wrong", 8, "")?;
    let rows = [
        (RECEIVER, "receive 10.9.9.9:5004", "the addresses of this host are 10.2.0.3"),
        (SENDER, "send 10.1.0.1:5004 --rate 1Mbit/s", "needs no reservation"),
        (SENDER, "send 10.2.0.3:5004 --rate 1Mbit/s --from 10.9.9.9", "--from"),
        (SENDER, "send 10.2.0.3:5004 --rate 1Mbit/s --interface eth7", "this host has right"),
        (SENDER, "send 10.2.0.3:5004 --rate 1Mbit/s --from fd01::1", "IP version"),
        (SENDER, "send 10.2.0.3:5004 --rate 1Mbit/s --key-file r.toml", "line 1"),
        (SENDER, "send 10.2.0.3:5004 --rate 1Mbit/s --key-file none", "cannot read none"),
        (SENDER, "send 10.77.0.3:5004 --rate 1Mbit/s", "find the way to 10.77.0.3"),
        (SENDER, "release 10.2.0.3:5004", "`weir reserve list`"),
    ];
    for (node, words, wanted) in rows {
        let output = scene.run(node, words)?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(wanted), "{words}: {text}");
    }
    Ok(())
}
