//! Classes that join a running link and leave it, as a user lets them.

use super::{Test, await_another, edit, exchange, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Tables};
use weir_link::status::{ClassStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{Process, Scene, signal, until};

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
    let ended = scene.weir(&[words, &["--control", "weir.sock"]].concat())?;
    Ok((ended.status.code().unwrap_or(-1), ended.stdout + &ended.stderr))
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
    scene.write("class.toml", &table(name, port))?;
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
    let mut scene = plan(POLICY).start()?;
    exchange(&scene.testbed, 5100, 3)?;
    let before = scene.status()?;
    assert_eq!(names(&before), ["rest", "operator"], "places are no classes");
    let identity = before.lanes[0].policy.identity.clone();
    add(&scene, "ann", 5100, &["change 2", "classes: 1 added"])?;
    add(&scene, "bob", 5101, &["change 2", "classes: 1 added"])?;
    exchange(&scene.testbed, 5100, 7)?;
    exchange(&scene.testbed, 5101, 4)?;
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
    scene.write("class.toml", &retuned)?;
    check(&scene, &["class", "add", "class.toml"], 0, &["change 2", "classes: 1 retuned"])?;
    check(
        &scene,
        &["set", "class.bob.rate=400kbit/s"],
        0,
        &["change 3", "bob rate", "400 kbit/s"],
    )?;
    exchange(&scene.testbed, 5100, 1)?;
    let status = scene.await_status("it goes on", |status| sent(status, "ann") == Some(8))?;
    for (name, rate) in [("ann", "300 kbit/s"), ("bob", "400 kbit/s")] {
        let class = class(&status, name).ok_or("it is there")?;
        assert_eq!(class.parameters, [("rate".to_owned(), rate.to_owned())]);
    }
    check(&scene, &["class", "remove", "ann"], 0, &["change 4", "classes: 1 removed"])?;
    exchange(&scene.testbed, 5100, 2)?;
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
    let mut scene = plan(POLICY).start()?;
    let before = scene.status()?.lanes[0].policy.identity.clone();
    let add = |text: &str, code: i32, parts: &[&str]| -> Outcome {
        scene.write("class.toml", text)?;
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
    let mut scene = plan(POLICY).start()?;
    add(&scene, "ann", 5100, &["change 2"])?;
    add(&scene, "bob", 5101, &["change 2"])?;
    check(&scene, &["class", "remove", "ann"], 0, &["change 2"])?;
    let is_there = |status: &Status| names(status) == ["rest", "operator", "bob"];
    edit(&scene, "policy.toml", "50 Mbit/s", "40 Mbit/s")?;
    check(&scene, &["reload"], 0, &["40 Mbit/s"])?;
    scene.await_status("reloaded", is_there)?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "KILL")?;
    await_another(&scene, forwarder)?;
    scene.await_status("the next one has them", is_there)?;
    check(&scene, &["restart"], 0, &[])?;
    scene.await_status("restarted", is_there)?;
    exchange(&scene.testbed, 5101, 3)?;
    scene.await_status("its rule holds", |status| sent(status, "bob") == Some(3))?;
    check(&scene, &["class", "remove", "bob"], 0, &["classes: 1 removed"])?;
    scene.stop()?;
    Ok(())
}

fn recorded() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    add(&scene, "ann", 5100, &["change 2"])?;
    add(&scene, "bob", 5101, &["change 2"])?;
    check(&scene, &["class", "remove", "ann"], 0, &["change 2"])?;
    let words = ["record", "--control", "weir.sock", "-o", "r.pcapng"];
    let mut recording = Process::start(&mut scene.command(&words))?;
    let path = scene.path("r.pcapng");
    until("the record begins", || {
        // What there is to write is written in large parts.
        exchange(&scene.testbed, 5101, 20).is_ok()
            && fs::metadata(&path).is_ok_and(|file| file.len() > 0)
    })?;
    for (port, name) in [(5102, "cat"), (5103, "dan")] {
        exchange(&scene.testbed, 5101, 5)?;
        exchange(&scene.testbed, port, 5)?;
        add(&scene, name, port, &["change 2"])?;
        exchange(&scene.testbed, port, 5)?;
    }
    check(&scene, &["class", "remove", "bob", "cat"], 0, &["2 removed"])?;
    exchange(&scene.testbed, 5102, 5)?;
    // One that comes back does so at another place.
    add(&scene, "cat", 5102, &["change 2"])?;
    exchange(&scene.testbed, 5102, 5)?;
    // Each is given after another turn of the loop, which hands on what it did in a turn at its end.
    (0..2).try_for_each(|_| scene.status().map(drop))?;
    recording.signal("INT")?;
    let recorded = recording.wait_for_output()?;
    assert!(recorded.status.success(), "{recorded:?}");
    let output = scene.weir(&["--format", "json", "replay", "--record", "r.pcapng"])?;
    let replayed: Value = serde_json::from_str(&output.stdout)?;
    assert!(output.status.success() && replayed["difference"].is_null(), "{replayed}");
    assert_eq!(replayed["directions"][0]["changes"], 4, "{replayed}");
    scene.stop()?;
    Ok(())
}

/// Each request lets a class join and, once forty are there, the oldest of them leave. The changes
/// are one entry of the history and few events, and what is there in the end is what was asked for.
fn flooded() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let socket = scene.socket();
    for call in 0..REQUESTS {
        let left = call.checked_sub(STAY).map(|left| format!("c{left}"));
        let request = Request::Class {
            direction: None,
            add: Some(Tables::Text(table(&format!("c{call}"), 6000 + call))),
            remove: left.into_iter().collect(),
            dry_run: false,
            reason: "calls".to_owned(),
        };
        match client::call(&socket, &request)? {
            Answer::Changed(changed) if changed.errors == 0 => {}
            answer => return Err(format!("{call}: {answer:?}").into()),
        }
    }
    let mut wanted: Vec<String> =
        (REQUESTS - STAY..REQUESTS).map(|call| format!("c{call}")).collect();
    wanted.extend(["operator".to_owned(), "rest".to_owned()]);
    wanted.sort();
    scene.await_status("those that stay are there", |status| {
        let mut names = names(status);
        names.sort_unstable();
        names == wanted
    })?;
    let last = REQUESTS - 1;
    exchange(&scene.testbed, 6000 + last, 2)?;
    let name = format!("c{last}");
    scene.await_status("the last one's rule holds", |status| sent(status, &name) == Some(2))?;
    let log = log(&scene)?;
    let joined = log.iter().filter(|row| row["by"] == "class").count();
    assert!(joined == 1 && log.len() == 2, "{log:?}");
    let text = scene.stop()?;
    let told = text.matches("has other policies").count();
    assert!((1..=CHANGES_TOLD_MAX).contains(&told), "{told} times: {text}");
    Ok(())
}

const REQUESTS: u16 = 300;
/// Classes that are there at a time.
const STAY: u16 = 40;
/// The most events of the changes: docs/events.md has the fifth of one kind in a minute as the last.
const CHANGES_TOLD_MAX: usize = 5;
