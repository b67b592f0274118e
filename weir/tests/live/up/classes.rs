//! Classes that join a running link and leave it, as a user lets them.

use super::deaths::until;
use super::{Outcome, Scene, Test, children, send_until_received, signal};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use weir_control::client;
use weir_control::protocol::{Answer, Request, Tables};
use weir_live::status::{ClassStatus, Status};

pub const TESTS: &[Test] = &[
    ("classes_join_and_leave_with_their_rules_and_counts", come_and_go),
    ("a_class_that_cannot_join_changes_nothing_and_says_why", refused),
    ("classes_that_joined_outlive_a_reload_a_death_and_a_restart", outlive),
    ("a_record_over_classes_that_join_and_leave_replays_to_the_bit", recorded),
    ("a_flood_of_requests_fills_neither_history_nor_log", flooded),
];

/// A link with places for calls.
const POLICY: &str = "[link]\nrate = \"50 Mbit/s\"\nscheduler = \"htb\"\n\
    [class.rest]\nrate = \"10 Mbit/s\"\nceil = \"50 Mbit/s\"\ndefault = true\n\
    [class.calls]\nrate = \"20 Mbit/s\"\n\
    places = { count = 50, queue = { limit = \"40 packets\" } }\n\
    [class.operator]\nparent = \"calls\"\nrate = \"1 Mbit/s\"\n\
    match = { proto = \"udp\", dport = \"5004\" }\n";

fn table(name: &str, port: u16) -> String {
    format!(
        "[class.{name}]\nparent = \"calls\"\nrate = \"200 kbit/s\"\n\
         match = {{ proto = \"udp\", dport = \"{port}\" }}\n"
    )
}

fn weir(scene: &Scene, words: &[&str]) -> Result<(i32, String), Failed> {
    let output = scene.weir(&[words, &["--control", "weir.sock"]].concat()).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok((output.status.code().unwrap_or(-1), text))
}

/// The words must exit with this code and print these parts.
fn check(scene: &Scene, words: &[&str], code: i32, parts: &[&str]) -> Outcome {
    let said = weir(scene, words)?;
    let has = parts.iter().all(|part| said.1.contains(part));
    assert!(said.0 == code && has, "{words:?}: {} {}", said.0, said.1);
    Ok(())
}

/// Adds the class `name` for datagrams to `port`.
fn add(scene: &Scene, name: &str, port: u16, parts: &[&str]) -> Outcome {
    fs::write(scene.folder.join("class.toml"), table(name, port))?;
    check(scene, &["class", "add", "class.toml"], 0, parts)
}

fn class<'a>(status: &'a Status, name: &str) -> Option<&'a ClassStatus> {
    status.lanes[0].classes.iter().find(|class| class.name == name)
}

fn sent(status: &Status, name: &str) -> Option<u64> {
    class(status, name).map(|class| class.sent.packets)
}

fn names(status: &Status) -> Vec<&str> {
    status.lanes[0].classes.iter().map(|class| class.name.as_str()).collect()
}

fn log(scene: &Scene) -> Result<Vec<Value>, Failed> {
    let said = weir(scene, &["log", "--format", "json"])?;
    let log: Value = serde_json::from_str(&said.1)?;
    Ok(log["changes"].as_array().ok_or("a list")?.clone())
}

fn come_and_go() -> Outcome {
    let mut scene = Scene::new("joins", POLICY)?;
    scene.start()?;
    send_until_received(&scene.testbed, 5100, 3)?;
    let before = scene.status()?;
    assert_eq!(names(&before), ["rest", "operator"], "places are no classes");
    let identity = before.lanes[0].policy.identity.clone();
    add(&scene, "ann", 5100, &["change 2", "classes: 1 added"])?;
    add(&scene, "bob", 5101, &["change 2", "classes: 1 added"])?;
    send_until_received(&scene.testbed, 5100, 7)?;
    send_until_received(&scene.testbed, 5101, 4)?;
    let status = scene.await_status("both are counted", |status| {
        (sent(status, "ann"), sent(status, "bob")) == (Some(7), Some(4))
    })?;
    assert_eq!(names(&status), ["rest", "operator", "ann", "bob"]);
    let ann = class(&status, "ann").ok_or("ann is there")?;
    assert_eq!((ann.share_bps, ann.delay.max_us > 0.0), (Some(2e5), true));
    assert_eq!(status.lanes[0].inner[ann.parent.ok_or("a parent")? as usize].name, "calls");
    assert_ne!(status.lanes[0].policy.identity, identity);
    // Retuned, its counts go on; by `weir set`, too, which changes the whole policy.
    let retuned = table("ann", 5100).replace("200 kbit/s", "300 kbit/s");
    fs::write(scene.folder.join("class.toml"), retuned)?;
    check(&scene, &["class", "add", "class.toml"], 0, &["change 2", "classes: 1 retuned"])?;
    check(
        &scene,
        &["set", "class.bob.rate=400kbit/s"],
        0,
        &["change 3", "bob rate", "400 kbit/s"],
    )?;
    send_until_received(&scene.testbed, 5100, 1)?;
    let status = scene.await_status("it goes on", |status| sent(status, "ann") == Some(8))?;
    for (name, rate) in [("ann", "300 kbit/s"), ("bob", "400 kbit/s")] {
        let class = class(&status, name).ok_or("it is there")?;
        assert_eq!(class.parameters, [("rate".to_owned(), rate.to_owned())]);
    }
    check(&scene, &["class", "remove", "ann"], 0, &["change 4", "classes: 1 removed"])?;
    send_until_received(&scene.testbed, 5100, 2)?;
    let gone = |status: &Status| class(status, "ann").is_none();
    let status = scene.await_status("ann is gone", gone)?;
    let removed = status.lanes[0].removed.as_ref().ok_or("ann was counted")?;
    assert_eq!((removed.sent.packets, removed.offered.packets), (8, 8));
    assert_eq!(sent(&status, "bob"), Some(4));
    // The next one gets her place, and begins at nothing.
    add(&scene, "cat", 5102, &["change 4", "classes: 1 added"])?;
    let status = scene.await_status("cat is there", |status| class(status, "cat").is_some())?;
    assert_eq!(
        (names(&status), sent(&status, "cat")),
        (vec!["rest", "operator", "cat", "bob"], Some(0))
    );
    let log = log(&scene)?;
    let told: Vec<_> = log.iter().map(|row| (row["by"].as_str(), row["what"].as_str())).collect();
    assert_eq!(told[1], (Some("class"), Some("classes: 2 added, 1 retuned")));
    assert_eq!(told[3], (Some("class"), Some("classes: 1 added, 1 removed")));
    scene.stop()?;
    Ok(())
}

fn refused() -> Outcome {
    let mut scene = Scene::new("unjoined", POLICY)?;
    scene.start()?;
    let before = scene.status()?.lanes[0].policy.identity.clone();
    let folder = scene.folder.clone();
    let add = |text: &str, code: i32, parts: &[&str]| -> Outcome {
        fs::write(folder.join("class.toml"), text)?;
        check(&scene, &["class", "add", "class.toml"], code, parts)
    };
    let nothing = "nothing was changed";
    add(&table("operator", 1), 1, &["W166", "has a class `operator` already", nothing])?;
    add(&table("ann", 1).replace("200 kbit/s", "20 Mbit/s"), 1, &["W113", "21 Mbit/s", nothing])?;
    add(&table("ann", 1).replace("rate", "rat"), 1, &["W010", "no key `rat`", nothing])?;
    add(&table("ann", 1).replace("calls", "rest"), 1, &["class `rest` has none", nothing])?;
    // No place has this priority.
    add(&(table("ann", 1) + "prio = 5\n"), 2, &["class `ann`", "priority", "weir reload"])?;
    add(&table("ann", 1), 0, &["change 2"])?;
    check(
        &scene,
        &["class", "add", "class.toml", "--dry-run"],
        0,
        &["would change: classes: 1 retuned"],
    )?;
    check(&scene, &["class", "remove", "bob"], 1, &["no class `bob` at a place", nothing])?;
    check(&scene, &["class", "remove", "rest"], 1, &["weir reload", nothing])?;
    check(&scene, &["class", "remove", "ann"], 0, &["change 2"])?;
    assert_eq!(scene.status()?.lanes[0].policy.identity, before);
    check(&scene, &["set", "link.scheduler=qfq"], 1, &[nothing])?;
    scene.stop()?;
    Ok(())
}

fn outlive() -> Outcome {
    let mut scene = Scene::new("outlive", POLICY)?;
    scene.start()?;
    add(&scene, "ann", 5100, &["change 2"])?;
    add(&scene, "bob", 5101, &["change 2"])?;
    check(&scene, &["class", "remove", "ann"], 0, &["change 2"])?;
    let is_there = |status: &Status| names(status) == ["rest", "operator", "bob"];
    let path = scene.folder.join("policy.toml");
    fs::write(&path, fs::read_to_string(&path)?.replace("50 Mbit/s", "40 Mbit/s"))?;
    check(&scene, &["reload"], 0, &["40 Mbit/s"])?;
    scene.await_status("reloaded", is_there)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "KILL")?;
    let keeper = scene.keeper()?;
    until("another forwarder", || children(keeper).last().is_some_and(|now| *now != forwarder))?;
    until("it answers", || scene.status().is_ok_and(|status| is_there(&status)))?;
    check(&scene, &["restart"], 0, &[])?;
    until("restarted", || scene.status().is_ok_and(|status| is_there(&status)))?;
    send_until_received(&scene.testbed, 5101, 3)?;
    scene.await_status("its rule holds", |status| sent(status, "bob") == Some(3))?;
    check(&scene, &["class", "remove", "bob"], 0, &["classes: 1 removed"])?;
    scene.stop()?;
    Ok(())
}

fn recorded() -> Outcome {
    let mut scene = Scene::new("joined-record", POLICY)?;
    scene.start()?;
    add(&scene, "ann", 5100, &["change 2"])?;
    add(&scene, "bob", 5101, &["change 2"])?;
    check(&scene, &["class", "remove", "ann"], 0, &["change 2"])?;
    let words = ["record", "--control", "weir.sock", "-o", "r.pcapng"];
    let recording = scene.weir(&words).spawn()?;
    let path = scene.folder.join("r.pcapng");
    until("the record begins", || {
        // What there is to write is written in large parts.
        send_until_received(&scene.testbed, 5101, 20).is_ok()
            && fs::metadata(&path).is_ok_and(|file| file.len() > 0)
    })?;
    for (port, name) in [(5102, "cat"), (5103, "dan")] {
        send_until_received(&scene.testbed, 5101, 5)?;
        send_until_received(&scene.testbed, port, 5)?;
        add(&scene, name, port, &["change 2"])?;
        send_until_received(&scene.testbed, port, 5)?;
    }
    check(&scene, &["class", "remove", "bob", "cat"], 0, &["2 removed"])?;
    send_until_received(&scene.testbed, 5102, 5)?;
    // Each is given after another turn of the loop, which hands on what it did in a turn at its end.
    (0..2).try_for_each(|_| scene.status().map(drop))?;
    signal(recording.id(), "INT")?;
    let recorded = recording.wait_with_output()?;
    assert!(recorded.status.success(), "{recorded:?}");
    let output = scene.weir(&["--format", "json", "replay", "--record", "r.pcapng"]).output()?;
    let replayed: Value = serde_json::from_slice(&output.stdout)?;
    assert!(output.status.success() && replayed["difference"].is_null(), "{replayed}");
    assert_eq!(replayed["directions"][0]["changes"], 3, "{replayed}");
    scene.stop()?;
    Ok(())
}

fn flooded() -> Outcome {
    let mut scene = Scene::new("flooded", POLICY)?;
    scene.start()?;
    let socket = scene.folder.join("weir.sock");
    let request = |add: Option<String>, remove: Vec<String>| Request::Class {
        direction: None,
        add: add.map(Tables::Text),
        remove,
        dry_run: false,
        reason: "calls".to_owned(),
    };
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for call in 0..REQUESTS {
        let remove = if call < 40 { Vec::new() } else { vec![format!("c{}", call - 40)] };
        let add = Some(table(&format!("c{call}"), 6000 + call as u16));
        let began = Instant::now();
        match client::call(&socket, &request(add, remove))? {
            Answer::Changed(changed) if changed.errors == 0 => {}
            answer => return Err(format!("{call}: {answer:?}").into()),
        }
        slowest = slowest.max(began.elapsed());
    }
    let rate = f64::from(REQUESTS) / start.elapsed().as_secs_f64();
    println!(
        "{rate:.0} requests a second, each a class that joins and one that leaves; the slowest \
              took {slowest:?}"
    );
    let log = log(&scene)?;
    assert!(log.len() <= 3, "{log:?}");
    let status = scene.await_status("the last is there", |status| {
        class(status, &format!("c{}", REQUESTS - 1)).is_some()
    })?;
    assert_eq!(status.lanes[0].classes.len(), 42);
    let text = scene.stop()?;
    assert!(text.matches("has other policies").count() <= 3, "{text}");
    Ok(())
}

const REQUESTS: u32 = 300;
