//! The output of `weir status`: the links of this machine and their classes.

use super::{POLICY, Test, exchange, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{Scene, until_ok};

pub const TESTS: &[Test] = &[
    ("a_link_is_found_by_its_name_and_listed", a_link_is_found_by_its_name),
    ("a_query_chooses_classes_in_the_link", a_query_chooses_classes),
];

/// The socket is where the user's sockets are, whatever the environment of `weir up` says.
fn a_link_is_found_by_its_name() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let name = format!("test-{}", std::process::id());
    let text = scene.read("link.toml")?;
    let control = text.lines().find(|line| line.starts_with("control")).ok_or("it has one")?;
    scene.write("link.toml", &text.replace(control, &format!("name = \"{name}\"")))?;
    let mut command = scene.command(&["up", "link.toml"]);
    command.env("XDG_RUNTIME_DIR", scene.path("session"));
    scene.spawn(command)?;
    let status: Status = serde_json::from_value(until_ok("it answers by its name", || {
        json(&scene, &["status", &name]).map_err(|why| format!("{why:?}"))
    })?)?;
    assert_eq!(status.lanes[0].name, "upload");
    let links = json(&scene, &["status"])?;
    let links = links["links"].as_array().ok_or("a list")?;
    let link = links.iter().find(|link| link["name"] == name.as_str()).ok_or("it is listed")?;
    assert_eq!(link["state"], "running", "{link}");
    let listed = scene.weir(&["status"])?;
    assert!(listed.stdout.contains(&name), "{listed:?}");
    let socket = link["control"].as_str().ok_or("a path")?.to_owned();
    scene.stop()?;
    assert!(!fs::exists(&socket)?, "{socket} is removed with its link");
    let text = scene.weir(&["status", &name])?.stderr;
    assert!(text.contains(&format!("no link named `{name}` runs")), "{text}");
    Ok(())
}

fn a_query_chooses_classes() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    exchange(&scene.testbed, 5004, 5)?;
    let check = |arguments: &[&str], wanted: &[&str]| -> Outcome {
        let all = [&["status", "--control", "weir.sock"], arguments].concat();
        let status: Status = serde_json::from_value(json(&scene, &all)?)?;
        let lane = &status.lanes[0];
        let names: Vec<_> = lane.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!((names.as_slice(), lane.left_out), (wanted, 2 - wanted.len() as u64));
        Ok(())
    };
    check(&[], &["voice", "rest"])?;
    check(&["--class", "v*"], &["voice"])?;
    check(&["--limit", "1"], &["voice"])?;
    check(&["--top", "9", "--sort", "drops", "--class", "?est"], &["rest"])?;
    let wrong: [(&[&str], i32, &str); 3] = [
        (&["--sort", "name"], 2, "rate"),
        (&["--limit", "100001"], 2, "100000"),
        (&["--class", "nothing"], 1, "no class matches `nothing`"),
    ];
    for (arguments, code, wanted) in wrong {
        let refused = scene.weir(&[&["status", "--control", "weir.sock"], arguments].concat())?;
        let says = refused.stderr.contains(wanted);
        assert!(refused.status.code() == Some(code) && says, "{refused:?}");
    }
    scene.stop()?;
    Ok(())
}

/// Runs a command that prints one value.
fn json(scene: &Scene, arguments: &[&str]) -> Result<Value, Failed> {
    let ended = scene.weir(&[arguments, &["--format", "json"]].concat())?;
    if !ended.status.success() {
        return Err(ended.stderr.into());
    }
    Ok(serde_json::from_str(&ended.stdout)?)
}
