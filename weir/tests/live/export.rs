//! `weir export tc --apply --verify` as a user runs it: the kernel's own disciplines in a private
//! network. Needs root or user namespaces and `tc`.

use std::fs;
use std::process::Command;

use weir_testbed::rows::{self, Failed, Need, Outcome, Row};
use weir_testbed::{Ended, Process, RIGHT, Testbed, TestbedConfig};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("an_export_is_set_up_read_back_and_tried", an_export_is_set_up),
    ("what_was_changed_since_is_found", what_was_changed_is_found),
    ("a_missing_device_is_named", a_missing_device_is_named),
    ("nothing_is_set_up_without_apply", nothing_is_set_up_without_apply),
];

const POLICY: &str = r#"
[link]
rate = "20 Mbit/s"
scheduler = "htb"
overhead = "ethernet"

[class.line]
rate = "20 Mbit/s"

[class.voice]
parent = "line"
rate = "2 Mbit/s"
ceil = "4 Mbit/s"
prio = 0
queue = { limit = "30 packets" }
match = [{ proto = "udp", dport = "5004-5010" }, { dscp = "ef" }]

[class.six]
parent = "line"
rate = "3 Mbit/s"
prio = 1
match = [{ src = "2001:db8:8::/48", proto = "tcp" }]

[class.rest]
parent = "line"
rate = "15 Mbit/s"
ceil = "20 Mbit/s"
prio = 2
default = true
"#;

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("export", TESTS, &[Need::PrivateNetworks, Need::Program("tc")])
}

/// Runs a program in the network between the hosts.
fn inside(testbed: &Testbed, program: &str, arguments: &[&str]) -> Result<Ended, Failed> {
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(Process::start_in(&testbed.weir, &mut command)?.wait_for_output()?)
}

fn export(testbed: &Testbed, device: &str, options: &[&str]) -> Result<(String, i32), Failed> {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, POLICY)?;
    let policy = policy.to_str().ok_or("a path of text")?;
    let mut arguments = vec!["export", "tc", policy, "--dev", device, "--filters", "u32"];
    arguments.extend(options);
    let output = inside(testbed, env!("CARGO_BIN_EXE_weir"), &arguments)?;
    Ok((output.stdout + &output.stderr, output.status.code().unwrap_or(-1)))
}

fn expect((text, code): (String, i32), wanted: i32, parts: &[&str]) -> Outcome {
    let missing = parts.iter().find(|part| !text.contains(**part));
    match missing {
        None if code == wanted => Ok(()),
        _ => Err(format!("exit {code}, not {wanted}, or without {missing:?}:\n{text}").into()),
    }
}

fn an_export_is_set_up() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let parts = [
        "the kernel's state is as exported",
        "voice: counted there",
        "six: counted there",
        "rest: counted there",
    ];
    expect(export(&testbed, RIGHT, &["--apply", "--verify"])?, 0, &parts)?;
    // An earlier set-up is replaced.
    expect(export(&testbed, RIGHT, &["--apply"])?, 0, &parts[..1])
}

fn what_was_changed_is_found() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    expect(export(&testbed, RIGHT, &["--apply"])?, 0, &["as exported"])?;
    // The first filter of all now sends everything to the voice class.
    let filter = [
        "filter", "add", "dev", RIGHT, "parent", "1:", "protocol", "all", "u32", "match", "u32",
        "0", "0", "classid", "1:2",
    ];
    let removed = inside(&testbed, "tc", &["filter", "del", "dev", RIGHT, "parent", "1:"])?;
    let added = inside(&testbed, "tc", &filter)?;
    if !removed.status.success() || !added.status.success() {
        return Err((removed.stderr + &added.stderr).into());
    }
    let parts = [
        "voice: counted there",
        "six: counted in `voice` INSTEAD",
        "rest: counted in `voice` INSTEAD",
    ];
    expect(export(&testbed, RIGHT, &["--verify"])?, 1, &parts)
}

fn a_missing_device_is_named() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    expect(export(&testbed, "nowhere", &["--apply"])?, 2, &["nowhere"])
}

fn nothing_is_set_up_without_apply() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let written = export(&testbed, RIGHT, &[])?;
    expect(
        written,
        0,
        &["tc qdisc add dev right root handle 1: htb default 4", "# class 1:2 is voice"],
    )?;
    let shown = inside(&testbed, "tc", &["class", "show", "dev", RIGHT])?;
    match shown.stdout.is_empty() {
        true => Ok(()),
        false => Err("classes were set up".into()),
    }
}
