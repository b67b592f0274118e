//! The messages of `weir up`: as JSON, of a processor that is not there, and after two signals.

use super::{POLICY, Test, call, called, edit, exchange, fails, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_host::watch;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{Scene, children, signal, until, until_some};

pub const TESTS: &[Test] = &[
    ("json_has_one_object_a_line", json_has_one_object_a_line),
    ("a_processor_that_is_not_there_starts_nothing", a_missing_processor_starts_nothing),
    ("a_user_that_is_not_there_starts_nothing", a_missing_user_starts_nothing),
    ("a_restart_follows_what_the_file_says_of_the_keeper", keys_of_the_keeper),
    ("two_signals_at_once_are_one_stop", two_signals_at_once_are_one_stop),
    ("a_reader_that_does_not_read_holds_up_nothing", a_reader_that_does_not_read),
    ("only_the_loop_is_a_real_time_thread", only_the_loop_is_real_time),
];

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
    let mut scene = plan(POLICY).deployment("pool = \"64 packets\"").prepare()?;
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
    let scene = plan(POLICY).deployment("cpu = 1023").prepare()?;
    let ended = fails(&scene, "link.toml", 2)?;
    let err = ended.stderr;
    assert_eq!(ended.stdout, "", "{err}");
    let says = ["CPU 1023", "`cpu` or `cpus`", "may run on CPU"];
    assert!(says.iter().all(|part| err.contains(part)), "{err}");
    assert!(!scene.socket().exists(), "nothing listens");
    Ok(())
}

/// In a private network the test is root, so the forwarder would become that user.
fn a_missing_user_starts_nothing() -> Outcome {
    let scene = plan(POLICY).deployment("user = \"no-such-user\"").prepare()?;
    let ended = fails(&scene, "link.toml", 2)?;
    let err = ended.stderr;
    assert_eq!(ended.stdout, "", "{err}");
    assert!(err.contains("`no-such-user`") && err.contains("getent passwd"), "{err}");
    assert!(!scene.socket().exists(), "nothing listens");
    let checked = scene.weir(&["check", "link.toml"])?;
    let text = checked.stdout;
    assert_eq!(checked.status.code(), Some(0), "another machine may have it: {text}");
    assert!(text.contains("warning: there is no user `no-such-user` here"), "{text}");
    Ok(())
}

/// Settings that the keeper itself uses change with the file, too.
fn keys_of_the_keeper() -> Outcome {
    let mut scene = plan(POLICY).deployment("log = \"first.log\"\ndrain = \"1 s\"").start()?;
    let mode = || fs::metadata(scene.socket()).map(|there| there.mode() & 0o777);
    assert_eq!(mode()?, 0o600);
    edit(&scene, "link.toml", "first.log", "second.log")?;
    edit(&scene, "link.toml", "\"1 s\"", "\"0 s\"\ncontrol_group = \"root\"")?;
    called(&scene, &["restart"])?;
    until("the group may", || mode().is_ok_and(|mode| mode == 0o660))?;
    let log = |name: &str| scene.read(name).unwrap_or_default();
    until("the new log has the start", || log("second.log").contains("forwards for `link`"))?;
    assert!(!log("first.log").contains("forwards for `link`"), "{}", log("first.log"));
    // A log that cannot be written refuses the restart, and nothing else changes.
    edit(&scene, "link.toml", "second.log", "nowhere/x.log")?;
    let refused = call(&scene, &["restart"])?;
    let why = refused.stderr;
    assert!(refused.status.code() == Some(2) && why.contains("make its folder"), "{why}");
    until("the log tells that", || log("second.log").contains("nowhere/x.log"))?;
    scene.stop()?;
    Ok(())
}

/// While the process is stopped, signals wait, and it gets both at once.
fn two_signals_at_once_are_one_stop() -> Outcome {
    let mut scene = plan(POLICY).start()?;
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
    let scene = plan(POLICY).prepare()?;
    let (mut reader, writer) = std::io::pipe()?;
    fill(&writer)?;
    let mut command = scene.command(&["up", "link.toml"]);
    command.stdout(writer);
    // The scene would read it.
    let mut keeper = Keeper(scene.testbed.weir.run(move || command.spawn())??);
    scene.await_status("the link answers", |_| true)?;
    exchange(&scene.testbed, 5004, 3)?;
    replace_forwarder(&scene, &keeper)?;
    // As much as there is, and no more: the pipe stays open.
    let read = reader.read(&mut vec![0; 1 << 20])?;
    assert!(read > 4096, "{read} bytes were there");
    replace_forwarder(&scene, &keeper)?;
    signal(keeper.0.id(), "TERM")?;
    until("the keeper ends", || keeper.0.try_wait().is_ok_and(|ended| ended.is_some()))?;
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    // The start and the first death were not taken, the second death was.
    assert!(text.contains("events lost: "), "{text}");
    assert!(!text.contains("status on") && text.contains("died: process"), "{text}");
    Ok(())
}

/// A keeper whose standard output is this test's. What it leaves is ended with the scene.
struct Keeper(Child);

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Writes until nothing fits any more.
fn fill(writer: &PipeWriter) -> Outcome {
    let mut filler =
        Command::new("yes").stdout(writer.try_clone()?).stderr(Stdio::null()).spawn()?;
    let full = || watch::writable(writer.as_fd(), Duration::ZERO).is_ok_and(|can| !can);
    let filled = until("the pipe is full", full);
    filler.kill()?;
    filler.wait()?;
    Ok(filled?)
}

/// Kills the forwarder and waits for the next one.
fn replace_forwarder(scene: &Scene, keeper: &Keeper) -> Outcome {
    let newest = || children(keeper.0.id()).last().copied();
    let old = newest().ok_or("it has a forwarder")?;
    signal(old, "KILL")?;
    until_some("another forwarder", || newest().filter(|now| *now != old))?;
    scene.await_status("it answers", |_| true)?;
    Ok(())
}

fn only_the_loop_is_real_time() -> Outcome {
    let mut scene = plan(POLICY).deployment("priority = \"realtime\"").start()?;
    let tasks = fs::read_dir(format!("/proc/{}/task", scene.forwarder()?))?;
    // sched(7): field 41 of `stat` is the class, by which 1 is SCHED_FIFO; the name ends at `)`.
    let class = |task: std::io::Result<fs::DirEntry>| -> Option<bool> {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (name, fields) = stat.rsplit_once(") ")?;
        // Workers do a part of the loop's work, and are as it is.
        if name.contains("(worker-") {
            return None;
        }
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
