//! Changes of a running link, as a user makes them.

use super::{POLICY, SLOW, Test, await_another, exchange, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use weir_link::status::{ClassStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{Flood, Host, PATIENCE, Process, Scene, Stream, signal, until, until_seen};

pub const TESTS: &[Test] = &[
    ("a_change_is_in_force_at_once_and_counts_go_on", counts_go_on),
    ("a_wrong_change_changes_nothing_and_says_why", wrong_changes),
    ("a_subscriber_of_a_list_is_set_by_its_name", a_subscriber),
    ("a_dry_run_prints_the_difference", dry_run),
    ("a_change_on_trial_returns_unless_it_is_confirmed", trials),
    ("a_change_on_trial_returns_also_after_a_refused_restart", returned_in_the_end),
    ("a_broken_guard_undoes_a_change", guarded),
    ("the_policy_in_force_is_told_and_may_be_kept", told),
    ("files_are_put_in_force_by_reload_and_by_sighup", reloaded),
    ("a_forwarder_that_dies_is_followed_by_one_with_the_policy_in_force", death),
    ("a_class_that_is_guaranteed_by_a_change_has_its_ring_at_once", rings_follow),
];

/// The result of a command: its exit code, and its output.
struct Said {
    code: i32,
    text: String,
}

fn say(scene: &Scene, arguments: &[&str]) -> Result<Said, Failed> {
    let (verb, rest) = arguments.split_first().ok_or("a verb")?;
    let arguments = [&[*verb, "--control", "weir.sock"], rest].concat();
    let ended = scene.weir(&arguments)?;
    let text = ended.stdout + &ended.stderr;
    Ok(Said { code: ended.status.code().unwrap_or(-1), text })
}

/// As [`say`]; it must exit with this code and print these parts.
fn check(scene: &Scene, arguments: &[&str], code: i32, parts: &[&str]) -> Outcome {
    let said = say(scene, arguments)?;
    let has = parts.iter().all(|part| said.text.contains(part));
    assert!(said.code == code && has, "{arguments:?}: {} {}", said.code, said.text);
    Ok(())
}

fn json(scene: &Scene, arguments: &[&str]) -> Result<Value, Failed> {
    let said = say(scene, &[arguments, &["--format", "json"]].concat())?;
    serde_json::from_str(&said.text).map_err(|error| format!("{error}: {}", said.text).into())
}

/// Returns what made each change, the oldest first.
fn origins(scene: &Scene) -> Result<Vec<String>, Failed> {
    let log = json(scene, &["log"])?;
    let changes = log["changes"].as_array().ok_or("a list")?;
    Ok(changes.iter().filter_map(|change| Some(change["by"].as_str()?.to_owned())).collect())
}

fn class<'a>(status: &'a Status, name: &str) -> Option<&'a ClassStatus> {
    status.lanes[0].classes.iter().find(|class| class.name == name)
}

fn sent(status: &Status, name: &str) -> Option<u64> {
    class(status, name).map(|class| class.sent.packets)
}

/// The policy that is printed after a change is one that a file may hold: reading it changes
/// nothing.
fn told() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let before = json(&scene, &["log", "--policy"])?;
    check(&scene, &["set", "link.rate=40 Mbit/s"], 0, &["change"])?;
    let after = json(&scene, &["log", "--policy"])?;
    let way = |told: &Value, key: &str| told["directions"][0][key].clone();
    assert_ne!(way(&before, "identity"), way(&after, "identity"));
    assert!(way(&before, "since_ns").as_u64() < way(&after, "since_ns").as_u64(), "{after}");
    let status = scene.status()?;
    assert_eq!(way(&after, "identity"), status.lanes[0].policy.identity.as_str());
    let text = say(&scene, &["log", "--policy", "--direction", "upload"])?.text;
    let begins = format!("# policy.toml: upload; identity {}", status.lanes[0].policy.identity);
    assert!(text.starts_with(&begins) && text.contains("40 Mbit/s"), "{text}");
    scene.write("policy.toml", &text)?;
    check(&scene, &["reload", "--dry-run"], 0, &["nothing"])?;
    check(&scene, &["log", "--policy", "--direction", "x"], 2, &["the link has upload"])?;
    // Where nothing can be printed, the change is made, and standard error says so.
    let full = fs::File::options().write(true).open("/dev/full")?;
    let arguments = ["set", "--control", "weir.sock", "link.rate=30 Mbit/s"];
    let output = scene.command(&arguments).stdout(full).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("change 3 was made"), "{said}");
    assert_eq!(origins(&scene)?, ["start", "set", "set"]);
    scene.stop()?;
    Ok(())
}

fn await_origin(scene: &Scene, origin: &str) -> Outcome {
    let is_last = |all: Vec<String>| all.last().is_some_and(|last| last == origin);
    Ok(until(origin, || origins(scene).is_ok_and(is_last))?)
}

/// Classes come and go while frames pass; what is counted goes on.
fn counts_go_on() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    exchange(&scene.testbed, 5004, 20)?;
    check(&scene, &["set", "link.rate=20Mbit/s"], 0, &["change 2", "50 Mbit/s -> 20 Mbit/s"])?;
    let video = "class.video={ match = [{ proto = \"udp\", dport = \"5006\" }] }";
    check(&scene, &["set", video, "link.scheduler=fifo"], 0, &["change 3", "class video added"])?;
    exchange(&scene.testbed, 5006, 5)?;
    exchange(&scene.testbed, 5004, 1)?;
    let status = scene.status()?;
    assert_eq!((sent(&status, "video"), sent(&status, "voice")), (Some(5), Some(21)));
    assert!(status.lanes[0].removed.is_none(), "{:?}", status.lanes[0].removed);
    check(&scene, &["set", "class.voice="], 0, &["change 4", "class voice removed"])?;
    exchange(&scene.testbed, 5004, 3)?;
    let status = scene.await_status("a new status", |status| class(status, "voice").is_none())?;
    let removed = status.lanes[0].removed.as_ref().ok_or("voice was counted")?;
    assert_eq!((removed.sent.packets, removed.offered.packets), (21, 21));
    assert_eq!(sent(&status, "video"), Some(5));
    assert!(sent(&status, "rest").is_some_and(|count| count >= 3));
    assert_eq!(origins(&scene)?, ["start", "set", "set", "set"]);
    let changed = json(&scene, &["set", "link.rate=21Mbit/s", "--reason", "more to sell"])?;
    println!("in force after {} us", changed["took_us"]);
    assert_eq!(json(&scene, &["log"])?["changes"][4]["reason"], "more to sell");
    let text = scene.stop()?;
    for part in ["has other policies: change 2", "because: more to sell"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(())
}

fn wrong_changes() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let before = scene.read("policy.toml")?;
    check(&scene, &["set", "link.rate=20 mbps"], 1, &["ambiguous", "nothing was changed"])?;
    check(&scene, &["set", "class.rest="], 1, &["no class"])?;
    check(&scene, &["set", "clas.rest.x=1"], 1, &["class"])?;
    check(&scene, &["set", "deployment.cpu=0"], 2, &["cannot change", "weir restart"])?;
    check(&scene, &["set", "deployment.pool=4000 packets"], 2, &["weir restart"])?;
    for (key, value) in [("drain", "20 ms"), ("watchdog", "9 s"), ("ring", "8 MiB")] {
        let refused = format!("deployment.{key} cannot change");
        let set = format!("deployment.{key}={value}");
        check(&scene, &["set", &set], 2, &[&refused, "`weir restart`"])?;
    }
    check(&scene, &["set", "deployment.control=/x"], 2, &["stop the link", "`weir up`"])?;
    check(
        &scene,
        &["set", "deployment.lag_max=1 ns"],
        1,
        &["1 ns is not in 1 ms to 10 s", "leave it out"],
    )?;
    fs::copy(scene.path("link.toml"), scene.path("other.toml"))?;
    let unnamed = ["called `other` and the link `link`", "`name = \"link\"`"];
    check(&scene, &["reload", "other.toml"], 2, &unnamed)?;
    check(&scene, &["set", "link.rate"], 2, &["has no `=`"])?;
    check(&scene, &["set", "down:link.rate=1Mbit/s"], 2, &["the link has upload"])?;
    check(&scene, &["set", "link.rate=9Mbit/s", "--guard", "x.rate > 1"], 2, &["guard `x.rate"])?;
    check(&scene, &["set", "direction.upload="], 2, &["the number of directions cannot"])?;
    let many = ["--guard", "rest.rate > 1 bit/s"].repeat(65);
    let many = [&["set", "link.rate=9Mbit/s"], many.as_slice()].concat();
    check(&scene, &many, 2, &["65 guards are too many"])?;
    check(&scene, &["rollback"], 2, &["no change is left to undo"])?;
    check(&scene, &["rollback", "7"], 2, &["change 7 is not known"])?;
    check(&scene, &["confirm"], 2, &["no change waits"])?;
    check(&scene, &["set", "link.rate=50Mbit/s"], 0, &["nothing changes"])?;
    let guarded = ["set", "link.rate=50Mbit/s", "--guard", "rest.rate > 1 bit/s"];
    check(&scene, &guarded, 0, &["nothing changes"])?;
    assert_eq!(origins(&scene)?, ["start"]);
    assert_eq!(scene.read("policy.toml")?, before);
    scene.stop()?;
    Ok(())
}

fn dry_run() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    scene.write("new.toml", &POLICY.replace("50 Mbit/s", "20 Mbit/s"))?;
    let diff = scene.weir(&["diff", "policy.toml", "new.toml"])?.stdout;
    let said = say(&scene, &["set", "link.rate=20Mbit/s", "--dry-run"])?;
    assert!(said.code == 0 && said.text.trim_end() == diff.trim_end(), "{}\n{diff}", said.text);
    assert_eq!(origins(&scene)?, ["start"]);
    scene.stop()?;
    Ok(())
}

fn trials() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    check(&scene, &["set", "link.rate=20Mbit/s", "--confirm", "1s"], 0, &["weir confirm"])?;
    await_origin(&scene, "returned")?;
    check(&scene, &["set", "link.rate=20Mbit/s", "--dry-run"], 0, &["50 Mbit/s", "20 Mbit/s"])?;
    check(&scene, &["set", "link.rate=30Mbit/s", "--confirm", "60s"], 0, &["change 4"])?;
    check(&scene, &["set", "link.rate=40Mbit/s"], 2, &["change 4 is on trial"])?;
    check(&scene, &["confirm"], 0, &["stays"])?;
    check(&scene, &["set", "link.rate=40Mbit/s", "--confirm", "60s"], 0, &["change 5"])?;
    check(&scene, &["rollback"], 0, &["40 Mbit/s -> 30 Mbit/s"])?;
    let on_trial =
        json(&scene, &["log"])?["changes"].to_string().matches("\"on_trial\":true").count();
    assert_eq!(on_trial, 0, "it was undone");
    check(&scene, &["rollback", "1"], 0, &["30 Mbit/s -> 50 Mbit/s"])?;
    let expected = ["start", "set", "returned", "set", "set", "rollback", "rollback"];
    assert_eq!(origins(&scene)?, expected);
    let text = scene.stop()?;
    for part in ["it was not confirmed", "a change of `link` stays: change 4"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(())
}

/// Returns what the forwarder told of late, which its keeper may not have heard yet.
fn events(scene: &Scene) -> Result<String, Failed> {
    let mut socket = UnixStream::connect(scene.socket())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(b"{\"call\":\"events\"}\n")?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    Ok(line)
}

/// While a restart is on its way nothing can be undone; once it is refused, it is. The keeper is
/// stopped, so the restart is on its way until the forwarder has told that it could not undo.
fn returned_in_the_end() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    scene.write("policy.toml", "[link]\n")?;
    scene.signal("STOP")?;
    check(&scene, &["set", "link.rate=20Mbit/s", "--confirm", "5s"], 0, &["weir confirm"])?;
    let mut command = scene.command(&["restart", "--control", "weir.sock"]);
    let mut restart = Process::start(&mut command)?;
    let is_late = |events: &String| events.contains("the link restarts; try again");
    until_seen("it cannot be undone", || events(&scene).unwrap_or_default(), is_late)?;
    assert_eq!(origins(&scene)?, ["start", "set"]);
    scene.signal("CONT")?;
    assert_eq!(restart.wait_for_exit()?.code(), Some(2));
    await_origin(&scene, "returned")?;
    let text = scene.stop()?;
    assert!(text.contains("the link restarts; try again"), "{text}");
    Ok(())
}

fn guarded() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let slow = ["set", "link.rate=20Mbit/s", "--guard", "voice.delay.p99 < 1 ns"];
    check(&scene, &slow, 0, &["on trial for 60 s"])?;
    until("the guard is broken", || {
        exchange(&scene.testbed, 5004, 5).is_ok() && origins(&scene).is_ok_and(|all| all.len() == 3)
    })?;
    assert_eq!(origins(&scene)?, ["start", "set", "returned"]);
    let text = scene.stop()?;
    assert!(text.contains("guard `voice.delay.p99 < 1 ns` in `upload`: it was"), "{text}");
    Ok(())
}

fn reloaded() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let path = scene.path("policy.toml");
    check(&scene, &["set", "link.rate=20Mbit/s"], 0, &["change 2"])?;
    fs::write(&path, POLICY.replace("50 Mbit/s", "30 Mbit/s"))?;
    let replaces = "it replaces what `weir set` changed: 2";
    check(&scene, &["reload"], 0, &["20 Mbit/s -> 30 Mbit/s", replaces])?;
    fs::write(&path, POLICY.replace("50 Mbit/s", "40 Mbit/s"))?;
    scene.signal("HUP")?;
    await_origin(&scene, "reload")?;
    until("SIGHUP", || origins(&scene).is_ok_and(|all| all.len() == 4))?;
    // Other files than those that the link was started with.
    scene.write("other.toml", &POLICY.replace("50 Mbit/s", "60 Mbit/s"))?;
    let other = scene.read("link.toml")?;
    let other = other.replace("policy.toml", "other.toml");
    let other = other.replace("[deployment]", "[deployment]\nname = \"link\"");
    scene.write("link2.toml", &other)?;
    check(&scene, &["reload", "link2.toml"], 0, &["40 Mbit/s -> 60 Mbit/s"])?;
    fs::write(scene.path("link2.toml"), other.replace("from = \"inside\"", "from = \"in\""))?;
    check(&scene, &["reload", "link2.toml"], 1, &["link2.toml", "nothing was changed"])?;
    check(&scene, &["reload", "absent.toml"], 2, &["cannot read absent.toml"])?;
    fs::rename(&path, scene.path("moved.toml"))?;
    check(&scene, &["reload"], 2, &["it names policy.toml: No such file"])?;
    fs::write(&path, "[link]\n")?;
    scene.signal("HUP")?;
    scene.await_logged("goes on with the policies that it has: policy.toml:1:1: error[")?;
    let expected = ["start", "set", "reload", "reload", "reload"];
    assert_eq!(origins(&scene)?, expected);
    scene.stop()?;
    Ok(())
}

fn death() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let video = "class.video={ match = [{ proto = \"udp\", dport = \"5006\" }] }";
    check(&scene, &["set", video], 0, &["change 2"])?;
    let kill = |scene: &Scene| -> Outcome {
        let old = scene.forwarder()?;
        signal(old, "KILL")?;
        await_another(scene, old).map(drop)
    };
    kill(&scene)?;
    exchange(&scene.testbed, 5006, 5)?;
    let status = scene.await_status("video", |status| sent(status, "video") == Some(5))?;
    assert_eq!(status.lanes[0].classes.len(), 3);
    // One on trial goes with its process.
    check(&scene, &["set", "class.video=", "--confirm", "60s"], 0, &["change 3"])?;
    kill(&scene)?;
    await_origin(&scene, "returned")?;
    assert_eq!(origins(&scene)?, ["start", "set", "set", "returned"]);
    scene.await_status("video is back", |status| class(status, "video").is_some())?;
    check(&scene, &["rollback", "1"], 0, &["class video removed"])?;
    scene.stop()?;
    Ok(())
}

const LISTED: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "htb"

[class.rest]
rate = "30 Mbit/s"
default = true

[template.subscriber]
list = [{ id = "anna", port = "5004" }, { id = "ben", port = "5006" }]
name = "s-{id}"
class.rate = "10 Mbit/s"
class.match = [{ proto = "udp", dport = "{port}" }]
"#;

fn a_subscriber() -> Outcome {
    let mut scene = plan(LISTED).start()?;
    check(&scene, &["set", "class.s-ben.ceil=40Mbit/s"], 0, &["s-ben ceil rate -> 40"])?;
    let status = scene.status()?;
    let ceil = |name: &str| {
        let parameters = &class(&status, name)?.parameters;
        parameters.iter().find(|(key, _)| key == "ceil").map(|(_, value)| value.clone())
    };
    assert_eq!((ceil("s-ben"), ceil("s-anna")), (Some("40 Mbit/s".to_owned()), None));
    scene.stop()?;
    Ok(())
}

/// Seven classes have all rings; `voice`, behind them, shares that of the default class unless it
/// is guaranteed a delay.
fn crowded() -> String {
    let class = |number: u16| {
        let port = 6000 + number;
        format!(
            "[class.c{number}]\nrate = \"1 Mbit/s\"\n\
             match = [{{ proto = \"udp\", dport = \"{port}\" }}]\n"
        )
    };
    let others: String = (1..=7).map(class).collect();
    format!(
        "[link]\nrate = \"50 Mbit/s\"\nscheduler = \"htb\"\n{others}\
         [class.voice]\nrate = \"10 Mbit/s\"\n\
         arrival = {{ rate = \"1 Mbit/s\", burst = \"30000 B\" }}\n\
         match = [{{ proto = \"udp\", dport = \"5004\" }}]\n\
         [class.rest]\nrate = \"20 Mbit/s\"\ndefault = true\n"
    )
}

/// A class has a ring of its own from the change on that guarantees it a delay, up to the one that
/// does not any more; and nothing is lost or overtaken meanwhile.
fn rings_follow() -> Outcome {
    let patient = "watchdog = \"60 s\"\nlag_max = \"10 s\"\nsojourn_max = \"none\"";
    let mut scene = plan(&crowded()).deployment(patient).start()?;
    let forwarder = scene.forwarder()?;
    assert!(voice_of_a_flood(&scene)? < VOICE, "it shares the ring of the flood");
    for (value, has_ring) in [("100 ms", true), ("", false), ("90 ms", true)] {
        let stream = Stream::numbered(&scene.testbed, SLOW)?;
        until("many are sent", || stream.sent() >= 100)?;
        check(&scene, &["set", &format!("class.voice.delay={value}")], 0, &["change"])?;
        until("many more are sent", || stream.sent() >= 200)?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
        let arrived = voice_of_a_flood(&scene)?;
        assert_eq!(arrived == VOICE, has_ring, "{arrived} of {VOICE} with delay \"{value}\"");
    }
    assert_eq!(scene.forwarder()?, forwarder, "nothing was restarted");
    scene.stop()?;
    Ok(())
}

/// Floods the default class, and then sends to `voice`, while the forwarder takes nothing; returns
/// how many packets of `voice` it finds in its rings.
fn voice_of_a_flood(scene: &Scene) -> Result<u64, Failed> {
    let counts = |status: &Status| {
        let offered = |name: &str| class(status, name).map_or(0, |class| class.offered.packets);
        let lost: u64 = status.ports[0].ring_overruns.iter().sum();
        (offered("voice"), offered("rest") + lost)
    };
    let before = counts(&scene.status()?);
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    for (port, count) in [(Flood::PORT, FLOOD), (5004, VOICE)] {
        for _ in 0..count {
            client.send_to(&[0; 64], (Host::Server.ip4(), port))?;
        }
    }
    signal(forwarder, "CONT")?;
    let is_whole = |status: &Status| {
        let (voice, others) = counts(status);
        voice + others >= before.0 + before.1 + FLOOD + VOICE
    };
    let status = scene.await_status("each frame is taken, or lost and counted", is_whole)?;
    Ok(counts(&status).0 - before.0)
}

/// More packets than the ring that classes share has slots, and fewer than that of a class has.
const FLOOD: u64 = 3000;
const VOICE: u64 = 300;
