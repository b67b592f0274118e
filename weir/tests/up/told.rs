//! What `weir up` tells: as JSON, of a processor that is not there, and after two signals.

use super::{Outcome, POLICY, Scene, Test};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use weir_live::status::Status;

pub const TESTS: &[Test] = &[
    ("json_has_one_object_a_line", json_has_one_object_a_line),
    ("a_processor_that_is_not_there_starts_nothing", a_missing_processor_starts_nothing),
    ("two_signals_at_once_are_one_stop", two_signals_at_once_are_one_stop),
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
