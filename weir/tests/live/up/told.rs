//! What `weir up` tells: as JSON, of a processor that is not there, and after two signals.

use super::deaths::until;
use super::{Outcome, POLICY, Scene, Test, send_until_received, signal};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_live::keeper::watch;
use weir_live::status::Status;

pub const TESTS: &[Test] = &[
    ("json_has_one_object_a_line", json_has_one_object_a_line),
    ("a_processor_that_is_not_there_starts_nothing", a_missing_processor_starts_nothing),
    ("a_user_that_is_not_there_starts_nothing", a_missing_user_starts_nothing),
    ("a_restart_follows_what_the_file_says_of_the_keeper", keys_of_the_keeper),
    ("two_signals_at_once_are_one_stop", two_signals_at_once_are_one_stop),
    ("a_reader_that_does_not_read_holds_up_nothing", a_reader_that_does_not_read),
    ("only_the_loop_is_a_real_time_thread", only_the_loop_is_real_time),
];

/// Writes `line` into `[deployment]`.
pub fn configure(scene: &Scene, line: &str) -> Outcome {
    let path = scene.folder.join("link.toml");
    let text = fs::read_to_string(&path)?.replace("[direction", &format!("{line}\n[direction"));
    Ok(fs::write(&path, text)?)
}

/// Returns the event of each line, and the last line.
fn events(text: &str) -> Result<(Vec<String>, Value), Failed> {
    let values: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let values = values.map_err(|error| format!("{error}: {text}"))?;
    // What happens to a running link has a time, and a row of docs/events.md.
    let plain = values.iter().filter(|value| value["time"].is_null());
    let event = |value: &Value| value["event"].as_str().unwrap_or("none").to_owned();
    Ok((plain.map(event).collect(), values.last().cloned().unwrap_or_default()))
}

/// The pool is smaller than the queues, which is a finding.
fn json_has_one_object_a_line() -> Outcome {
    let mut scene = Scene::new("json", POLICY)?;
    configure(&scene, "pool = \"64 packets\"")?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let text = scene.stop()?;
    let (mut names, last) = events(&text)?;
    // The machine decides what there is to warn of.
    names.retain(|name| name != "warning" && name != "note");
    assert_eq!(names, ["finding", "started", "stopped"], "{text}");
    let status: Status = serde_json::from_value(last["status"].clone())?;
    assert_eq!((status.ports.len(), status.lanes[0].name.as_str()), (2, "upload"));
    Ok(())
}

fn a_missing_processor_starts_nothing() -> Outcome {
    let scene = Scene::new("cpu", POLICY)?;
    configure(&scene, "cpu = 1023")?;
    let output = scene.run_up()?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out), (Some(2), ""), "{err}");
    let says = ["CPU 1023", "`cpu` or `cpus`", "may run on CPU"];
    assert!(says.iter().all(|part| err.contains(part)), "{err}");
    assert!(!scene.folder.join("weir.sock").exists(), "nothing listens");
    Ok(())
}

/// In a private network the test is root, so the forwarder would become that user.
fn a_missing_user_starts_nothing() -> Outcome {
    let scene = Scene::new("user", POLICY)?;
    configure(&scene, "user = \"no-such-user\"")?;
    let output = scene.run_up()?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out), (Some(2), ""), "{err}");
    assert!(err.contains("`no-such-user`") && err.contains("getent passwd"), "{err}");
    assert!(!scene.folder.join("weir.sock").exists(), "nothing listens");
    let checked = scene.weir(&["check", "link.toml"]).output()?;
    let text = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "another machine may have it: {text}");
    assert!(text.contains("warning: there is no user `no-such-user` here"), "{text}");
    Ok(())
}

/// What a keeper itself does changes with the file, too.
fn keys_of_the_keeper() -> Outcome {
    let mut scene = Scene::new("keys", POLICY)?;
    configure(&scene, "log = \"first.log\"\ndrain = \"1 s\"")?;
    scene.start()?;
    let mode = || fs::metadata(scene.folder.join("weir.sock")).map(|there| there.mode() & 0o777);
    assert_eq!(mode()?, 0o600);
    let path = scene.folder.join("link.toml");
    let text = fs::read_to_string(&path)?;
    let changed = text.replace("first.log", "second.log").replace("\"1 s\"", "\"0 s\"");
    fs::write(&path, changed.replace("[direction", "control_group = \"root\"\n[direction"))?;
    let restarted = scene.weir(&["restart", "--control", "weir.sock"]).output()?;
    assert!(restarted.status.success(), "{}", String::from_utf8_lossy(&restarted.stderr));
    until("the group may", || mode().is_ok_and(|mode| mode == 0o660))?;
    let log = |name: &str| fs::read_to_string(scene.folder.join(name)).unwrap_or_default();
    until("the new log has the start", || log("second.log").contains("forwards for `link`"))?;
    assert!(!log("first.log").contains("forwards for `link`"), "{}", log("first.log"));
    // A log that cannot be written refuses the restart, and nothing else changes.
    fs::write(&path, fs::read_to_string(&path)?.replace("second.log", "nowhere/x.log"))?;
    let refused = scene.weir(&["restart", "--control", "weir.sock"]).output()?;
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("make its folder"), "{why}");
    until("the log tells that", || log("second.log").contains("nowhere/x.log"))?;
    scene.stop()?;
    Ok(())
}

/// While the process is stopped, signals wait, and it gets both at once.
fn two_signals_at_once_are_one_stop() -> Outcome {
    let mut scene = Scene::new("signals", POLICY)?;
    scene.start()?;
    scene.signal("STOP")?;
    scene.signal("INT")?;
    scene.signal("TERM")?;
    scene.signal("CONT")?;
    let text = scene.stop()?;
    assert!(text.contains("upload"), "it prints its last status: {text}");
    Ok(())
}

/// The pipe that standard output is has been full since before the start.
fn a_reader_that_does_not_read() -> Outcome {
    let mut scene = Scene::new("deaf", POLICY)?;
    let (mut reader, writer) = std::io::pipe()?;
    fill(&writer)?;
    let mut command = scene.weir(&["up", "link.toml"]);
    command.stdout(writer);
    scene.child = Some(scene.testbed.weir.run(move || command.spawn())??);
    until("the link answers", || scene.status().is_ok())?;
    send_until_received(&scene.testbed, 5004, 3)?;
    replace_forwarder(&scene)?;
    // As much as there is, and no more: the pipe stays open.
    let read = reader.read(&mut vec![0; 1 << 20])?;
    assert!(read > 4096, "{read} bytes were there");
    replace_forwarder(&scene)?;
    scene.signal("TERM")?;
    let mut child = scene.child.take().ok_or("nothing was started")?;
    until("the keeper ends", || child.try_wait().is_ok_and(|ended| ended.is_some()))?;
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    // The start and the first death were not taken, the second death was.
    assert!(text.contains("events lost: "), "{text}");
    assert!(!text.contains("status on") && text.contains("died: process"), "{text}");
    Ok(())
}

/// Writes until nothing fits any more.
fn fill(writer: &PipeWriter) -> Outcome {
    let mut filler =
        Command::new("yes").stdout(writer.try_clone()?).stderr(Stdio::null()).spawn()?;
    let full = || watch::writable(writer.as_fd(), Duration::ZERO).is_ok_and(|can| !can);
    let filled = until("the pipe is full", full);
    filler.kill()?;
    filler.wait()?;
    filled
}

/// Kills the forwarder and waits for the next one.
fn replace_forwarder(scene: &Scene) -> Outcome {
    let old = scene.forwarder()?;
    signal(old, "KILL")?;
    until("another forwarder", || scene.forwarder().is_ok_and(|now| now != old))?;
    until("it answers", || scene.status().is_ok())
}

fn only_the_loop_is_real_time() -> Outcome {
    let mut scene = Scene::new("realtime", POLICY)?;
    configure(&scene, "priority = \"realtime\"")?;
    scene.start()?;
    let tasks = fs::read_dir(format!("/proc/{}/task", scene.forwarder()?))?;
    // sched(7): field 41 of `stat` is the class, by which 1 is SCHED_FIFO; the name ends at `)`.
    let class = |task: std::io::Result<fs::DirEntry>| -> Option<bool> {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let fields = stat.rsplit_once(") ")?.1;
        Some(fields.split(' ').nth(41 - 3)? == "1")
    };
    let classes: Vec<bool> = tasks.filter_map(class).collect();
    let text = scene.stop()?;
    let realtime = classes.iter().filter(|is_fifo| **is_fifo).count();
    // The machine may refuse it, and then it is said.
    let wanted = if text.contains("ordinary class") { 0 } else { 1 };
    assert!(classes.len() > 2 && realtime == wanted, "{classes:?}: {text}");
    Ok(())
}
