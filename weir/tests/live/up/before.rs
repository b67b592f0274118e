//! The output before a link runs: of `weir doctor` in a private network, and the memory that `weir
//! check` prints, beside what `weir up` then takes.

use super::{POLICY, Test, called, class_at, page, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{Flood, Scene, children};

pub const TESTS: &[Test] = &[
    ("the_doctor_judges_what_a_deployment_needs", the_doctor_judges),
    ("a_small_link_takes_no_more_memory_than_was_said", || memory(2, 120, None)),
    ("a_link_that_was_changed_often_takes_no_more_memory_than_was_said", || {
        memory(1000, 120, None)
    }),
    ("a_large_link_takes_the_memory_that_was_said", || memory(40_000, 1, Some(2))),
    ("a_ring_and_a_page_take_no_more_memory_than_was_said", memory_of_page),
];

/// Runs `weir doctor` in the network between the hosts; returns its exit code and its findings.
fn doctor(scene: &Scene, arguments: &[&str]) -> Result<(Option<i32>, Vec<Value>), Failed> {
    let output = scene.weir_inside(&[&["--format", "json", "doctor"], arguments].concat())?;
    let value: Value = serde_json::from_str(&output.stdout)?;
    let findings = value["findings"].as_array().cloned().unwrap_or_default();
    if value["wakeups"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("no wake-up was measured: {value}").into());
    }
    Ok((output.status.code(), findings))
}

/// Returns the levels of what a check found of an interface.
fn levels<'a>(findings: &'a [Value], check: &str, interface: &str) -> Vec<&'a str> {
    let about = |finding: &&Value| finding["check"] == check && finding["interface"] == interface;
    findings.iter().filter(about).filter_map(|finding| finding["level"].as_str()).collect()
}

fn the_doctor_judges() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let (code, findings) = doctor(&scene, &["link.toml"])?;
    assert_eq!(code, Some(0), "{findings:#?}");
    assert_eq!(levels(&findings, "carrier", "left"), ["good"], "{findings:#?}");
    assert_eq!(levels(&findings, "use", "right"), ["good"], "{findings:#?}");
    assert_eq!(levels(&findings, "driver", "right"), ["note"], "{findings:#?}");
    let tried = findings.iter().find(|finding| finding["check"] == "sorting");
    assert_eq!(tried.map(|finding| &finding["level"]), Some(&"good".into()), "{findings:#?}");
    // The same interfaces, now with a deployment that has them, and with one that cannot.
    scene.start()?;
    let (code, findings) = doctor(&scene, &["--interface", "left", "--interface", "gone0"])?;
    assert_eq!(code, Some(1), "{findings:#?}");
    assert_eq!(levels(&findings, "use", "left"), ["note"], "{findings:#?}");
    assert_eq!(levels(&findings, "interface", "gone0"), ["problem"], "{findings:#?}");
    scene.stop()?;
    Ok(())
}

/// A policy of so many classes.
fn policy(classes: usize) -> String {
    let mut text = "[link]\nrate = \"1 Gbit/s\"\nscheduler = \"drr\"\n".to_owned();
    for class in 1..classes {
        let (high, low) = (class >> 8, class & 0xff);
        write!(text, "\n[class.c{class}]\nmatch = [{{ dst = \"10.0.{high}.{low}\" }}]\n")
            .expect("a text can be written to");
    }
    text + "\n[class.rest]\ndefault = true\n"
}

/// A link of so many classes takes at most the memory that `weir check` prints, also while a status
/// is read and after so many changes; and what it takes from the start is at most `times` what it
/// takes while it is idle.
fn memory(classes: usize, changes: usize, times: Option<u64>) -> Outcome {
    let mut scene = plan(&policy(classes)).prepare()?;
    let (said, value) = said(&scene)?;
    scene.start()?;
    for change in 0..changes {
        called(&scene, &["set", &format!("link.rate={} Mbit/s", 900 + change)])?;
    }
    let (now, most) = resident(scene.keeper()?)?;
    scene.stop()?;
    println!(
        "{classes} classes, {changes} changes: said {said}, resident {now}, at most {most} bytes"
    );
    assert!(most <= said, "{most} bytes, and {said} were said: {value}");
    if let Some(times) = times {
        let said = value["start_bytes"].as_u64().ok_or("no memory at the start is printed")?;
        assert!(said <= times * now, "{now} bytes, and {said} were said: {value}");
    }
    Ok(())
}

/// Returns how many bytes `weir check` says that the link takes, and all that it says of them.
fn said(scene: &Scene) -> Result<(u64, Value), Failed> {
    let output = scene.weir_inside(&["--format", "json", "check", "link.toml"])?;
    let mut value: Value = serde_json::from_str(&output.stdout)?;
    let memory = value["memory"].take();
    let said = memory["total_bytes"].as_u64().ok_or("no memory is printed")?;
    let parts = memory["parts"].as_array().into_iter().flatten();
    let sum: u64 = parts.filter_map(|part| part["bytes"].as_u64()).sum();
    assert_eq!(sum, said, "{memory}");
    Ok((said, memory))
}

/// A link whose ring is full, and whose page has replayed it, takes at most the memory that `weir
/// check` prints.
fn memory_of_page() -> Outcome {
    let (mut scene, token) = page::scene()?;
    let (said, value) = said(&scene)?;
    let parts = value["parts"].as_array().into_iter().flatten();
    let of = |part: &Value| part["name"].as_str().is_some_and(|name| name.contains("ring`"));
    // A part for the ring, and one for its replay.
    assert_eq!(parts.filter(|part| of(part)).count(), 2, "{value}");
    let flood = Flood::start(&scene.testbed, 400)?;
    let offered = |status: &Status| class_at(status, 1).offered.packets;
    scene.await_status("much was recorded", |status| offered(status) > 40_000)?;
    drop(flood);
    let found = page::ask(&scene, &token, "GET /view/packets?limit=1", "")?;
    assert_eq!(found["packets"].as_array().map(Vec::len), Some(1), "{found}");
    let child = scene.keeper()?;
    let (_, most) = resident(child)?;
    for process in children(child) {
        println!("process {process}: {:?} bytes now and at most", resident(process)?);
    }
    scene.stop()?;
    println!("ring and page: said {said}, at most {most} bytes");
    assert!(most <= said, "{most} bytes, and {said} were said: {value}");
    Ok(())
}

/// Returns the resident memory of a process and of its children, now and at most, in bytes, without
/// the pages of its files: how large the program is depends on how it was compiled.
fn resident(process: u32) -> Result<(u64, u64), Failed> {
    let folder = Path::new("/proc").join(process.to_string());
    let status = fs::read_to_string(folder.join("status"))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    let (now, most) = field("VmRSS:").zip(field("VmHWM:")).ok_or("the memory is not told")?;
    let files = field("RssFile:").ok_or("the memory of files is not told")?;
    let mut sum = (now.saturating_sub(files) << 10, most.saturating_sub(files) << 10);
    for child in children(process) {
        let (now, most) = resident(child)?;
        sum = (sum.0 + now, sum.1 + most);
    }
    Ok(sum)
}
