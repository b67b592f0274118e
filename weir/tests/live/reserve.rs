//! `weir reserve` on two hosts with a router of `weir up` between them, in private networks: a
//! reservation by two commands is a class on the router, real packets get its rate, one that does
//! not fit says why, and `release` takes it back at once; also with a bridge in place of the router
//! (`reserve/bridged.rs`), and with a group (`reserve/groups.rs`). Needs root, as host ports do.

mod bridged;
#[path = "reserve/groups.rs"]
mod group;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::reserved::{Crossing, classes, policy, reservations};
use serde_json::Value;
use tempfile::TempDir;
use weir_host::netns::NetNs;
use weir_testbed::reserving::{address, networks};
use weir_testbed::rows::{self, Failed, Need, Outcome, Row};
use weir_testbed::{Ended, Process, end_all, until_ok};

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
pub fn rows() -> impl Iterator<Item = Row> {
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

/// A sender, a router and a receiver.
struct Scene {
    networks: Vec<NetNs>,
    router: Option<Process>,
    /// Each a `weir reserve` at work.
    hosts: Vec<Process>,
    folder: TempDir,
}

impl Scene {
    fn new(reserved: u32, more: &str) -> Result<Self, Failed> {
        Self::routed(networks(NODES)?, reserved, more)
    }

    /// A link of the host port in the network in the middle.
    fn routed(networks: Vec<NetNs>, reserved: u32, more: &str) -> Result<Self, Failed> {
        let deployment = format!(
            "[deployment]\nports = {{ host = \"right\" }}\ncontrol = \"{CONTROL}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\nrefresh = \"500 ms\"\n{more}\
             [direction.out]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"out.toml\"\n",
        );
        Self::of(networks, &deployment, reserved)
    }

    /// A link of this deployment in the network in the middle. Its control socket has the place
    /// [`CONTROL`].
    fn of(networks: Vec<NetNs>, deployment: &str, reserved: u32) -> Result<Self, Failed> {
        let scene =
            Self { networks, router: None, hosts: Vec::new(), folder: tempfile::tempdir()? };
        let socket = scene.socket().display().to_string();
        fs::write(scene.path("out.toml"), policy(reserved))?;
        fs::write(scene.path("r.toml"), deployment.replace(CONTROL, &socket))?;
        fs::write(scene.path("keys"), KEY)?;
        // The router takes only keys that nobody else may read.
        fs::set_permissions(scene.path("keys"), fs::Permissions::from_mode(0o600))?;
        scene.up()
    }

    fn up(mut self) -> Result<Self, Failed> {
        let mut command = self.weir(&["up", "r.toml"]);
        self.router = Some(Process::start_in(&self.networks[ROUTER], &mut command)?);
        let takes = |scene: &Self| reservations(&scene.socket()).is_ok();
        self.until("the router takes reservations", takes)?;
        Ok(self)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("r.sock")
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Runs `weir reserve` with these words on a host to its end.
    fn run(&self, node: usize, words: &str) -> Result<Ended, Failed> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = self.weir(&[&["reserve"], words.as_slice()].concat());
        Ok(Process::start_in(&self.networks[node], &mut command)?.wait_for_output()?)
    }

    /// Starts `weir reserve` on a host; returns its place among `hosts`.
    fn start(&mut self, node: usize, words: &str) -> Result<usize, Failed> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = self.weir(&[&["reserve", "--format", "json"], words.as_slice()].concat());
        self.hosts.push(Process::start_in(&self.networks[node], &mut command)?);
        Ok(self.hosts.len() - 1)
    }

    /// Returns the first event of this name that a host reported.
    fn told(&self, host: usize, event: &str) -> Option<Value> {
        let text = self.hosts[host].stdout();
        let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        values.into_iter().find(|value| value["event"] == event)
    }

    /// Waits until a host tells an event; returns it.
    fn await_told(&self, host: usize, event: &str) -> Result<Value, Failed> {
        let look = || self.told(host, event).ok_or_else(|| self.logs());
        Ok(until_ok(&format!("host {host} tells that it is {event}"), look)?)
    }

    /// Waits for a host's end; returns its exit code.
    fn end(&mut self, host: usize) -> Result<Option<i32>, Failed> {
        Ok(self.hosts[host].wait_for_exit()?.code())
    }

    fn logs(&self) -> String {
        let all = self.hosts.iter().chain(&self.router).map(Process::printed);
        all.collect::<Vec<_>>().join("\n")
    }

    /// The names of the router's classes of reservations.
    fn classes(&self) -> Result<Vec<String>, String> {
        classes(&self.socket())
    }

    fn has(&self, wanted: &[&str]) -> bool {
        self.classes().is_ok_and(|names| names == wanted)
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Outcome {
        let seen = || format!("{:?}\n{}", self.classes(), self.logs());
        Ok(until_ok(what, || if holds(self) { Ok(()) } else { Err(seen()) })?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            host.kill();
        }
        if let Some(mut router) = self.router.take() {
            end_all(&self.networks[ROUTER], &mut router);
        }
    }
}

/// In a deployment, the place of its control socket.
const CONTROL: &str = "CONTROL";

fn two_commands_make_a_class() -> Outcome {
    let mut scene = Scene::new(8, "")?;
    let sender = scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004")?;
    let accepted = scene.await_told(receiver, "accepted")?;
    assert_eq!(accepted["by"], "10.1.0.1", "the sender's host confirms: {accepted}");
    let asked = scene.await_told(receiver, "asked")?;
    assert_eq!((&asked["service"], &asked["rate"]), (&"controlled-load".into(), &1e5.into()));
    scene.await_told(sender, "reserved")?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    packets_cross(&scene, address(true, ROUTER, RECEIVER))?;

    // A second command does not disturb the first one's.
    let other = scene.start(SENDER, "send 10.2.0.3:6000 --rate 80kbit/s --packet-max 500B")?;
    let test = scene.run(RECEIVER, "receive 10.2.0.3:6000 --test")?;
    assert_eq!(test.status.code(), Some(0), "{test:?}");
    let text = &test.stdout;
    assert!(text.contains("accepted: 10.1.0.1 confirms the reservation"), "{text}");
    scene.until("the trial is over", |scene| scene.has(&[CLASS]))?;
    assert_eq!(scene.told(receiver, "refused"), None, "{}", scene.logs());
    let twice = scene.run(RECEIVER, "receive 10.2.0.3:5004")?;
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");

    let list = scene.run(RECEIVER, "list")?.stdout;
    assert!(list.contains("UDP 10.2.0.3 5004") && list.contains("800 kbit/s"), "{list}");
    assert!(!list.contains("sends"), "the other host's commands are not listed: {list}");
    let release = scene.run(RECEIVER, "release 10.2.0.3:5004")?;
    assert_eq!(release.status.code(), Some(0), "{release:?}");
    // Its state would live for 157 s.
    scene.until("it is released", |scene| scene.has(&[]))?;
    assert_eq!(scene.end(receiver)?, Some(0));
    scene.await_told(sender, "not-reserved")?;
    let release = scene.run(SENDER, "release --all --format json")?;
    let value: Value = serde_json::from_str(&release.stdout)?;
    assert_eq!(value["released"].as_array().map(Vec::len), Some(2), "{value}");
    assert_eq!((scene.end(sender)?, scene.end(other)?), (Some(0), Some(0)));
    Ok(())
}

/// While another flow fills the link, packets within the reservation all arrive.
fn packets_cross(scene: &Scene, receiver: IpAddr) -> Outcome {
    let [from, to] = [SENDER, RECEIVER].map(|node| &scene.networks[node]);
    let source = (address(true, 0, 0), 4000).into();
    let crossing = Crossing::open((from, source), (to, (receiver, 5004).into()))?;
    crossing.check(&scene.socket(), || ())
}

fn what_does_not_fit_is_refused() -> Outcome {
    let mut scene = Scene::new(1, "")?;
    scene.start(SENDER, &SEND.replace("800kbit/s", "2Mbit/s"))?;
    let refused = scene.run(RECEIVER, "receive 10.2.0.3:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = &refused.stdout;
    let why = "refused by 10.2.0.2: admission refused: the bandwidth is not available (code 1";
    assert!(text.contains(why), "{text}");
    assert!(scene.has(&[]), "{:?}", scene.classes());
    // Less than is announced fits.
    let fits = scene.run(RECEIVER, "receive 10.2.0.3:5004 --rate 500kbit/s --test")?;
    assert_eq!(fits.status.code(), Some(0), "{fits:?}");
    Ok(())
}

fn a_killed_command_expires() -> Outcome {
    let mut scene = Scene::new(8, "")?;
    scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004 --refresh 500ms --style se")?;
    let class = CLASS.trim_end_matches("-10_1_0_1-4000");
    scene.until("it is a class", |scene| scene.has(&[class]))?;
    scene.hosts[receiver].kill();
    scene.until("it expires", |scene| scene.has(&[]))?;
    scene.until("the router says so", |scene| scene.logs().contains("did not refresh it"))?;
    let list = scene.run(RECEIVER, "list")?.stdout;
    assert!(list.starts_with("no command"), "a command that died is not listed: {list}");
    Ok(())
}

fn guaranteed_service_by_delay() -> Outcome {
    let mut scene = Scene::new(8, "")?;
    scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.2.0.3:5004 --delay 40ms")?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    let asked = scene.await_told(receiver, "asked")?;
    assert_eq!(asked["service"], "guaranteed", "{asked}");
    // 4000 bytes in 40 ms are 100 kB/s, and the router's own terms take more.
    assert!(asked["rate"].as_f64().is_some_and(|rate| rate > 1e5), "{asked}");
    assert!(asked["delay_us"].as_f64().is_some_and(|delay| delay <= 40_000.0), "{asked}");
    drop(scene.run(RECEIVER, "release --all")?);
    let never = scene.run(RECEIVER, "receive 10.2.0.3:5004 --delay 1us")?;
    assert_eq!(never.status.code(), Some(1), "{never:?}");
    let text = &never.stdout;
    assert!(text.contains("not possible: no rate keeps a delay"), "{text}");
    Ok(())
}

fn keys_are_needed() -> Outcome {
    let mut scene = Scene::new(8, "key_file = \"keys\"\n")?;
    let v6 = "send [fd02::3]:5004 --rate 800kbit/s --tcp --key-file keys";
    scene.start(SENDER, v6)?;
    scene.start(SENDER, &v6.replace("5004", "5005"))?;
    let receive = "receive [fd02::3]:5004 --tcp --key-file keys --style wf";
    let first = scene.start(RECEIVER, receive)?;
    scene.await_told(first, "accepted")?;
    // Several commands sign for one address.
    let second = scene.run(RECEIVER, &receive.replace("5004", "5005 --test"))?;
    assert_eq!(second.status.code(), Some(0), "{second:?} {}", scene.logs());
    scene.until("it is a class", |scene| {
        scene.classes().is_ok_and(|names| names.len() == 1 && names[0].ends_with("-6-5004"))
    })?;
    let unsigned = scene.run(RECEIVER, "receive [fd02::3]:5005 --tcp --wait 1s")?;
    assert_eq!(unsigned.status.code(), Some(1), "{unsigned:?}");
    let text = &unsigned.stderr;
    assert!(text.contains("answered") || text.contains("announced"), "{text}");
    Ok(())
}

fn wrong_input_is_told() -> Outcome {
    let scene = Scene::new(8, "")?;
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
        let text = &output.stderr;
        assert_eq!(output.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(wanted), "{words}: {text}");
    }
    Ok(())
}
