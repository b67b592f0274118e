//! `weir bench --live` as a user meets it: short. Figures are not asserted, as they depend on what
//! else the machine does.

use std::fs;
use std::process::Command;

use serde_json::Value;
use weir_testbed::Process;
use weir_testbed::rows::{self, Named, Need, Outcome, Row};

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("bench", TESTS, &[Need::PrivateNetworks])
}

const TESTS: &[Named] =
    &[("frames_are_forwarded_beside_the_kernel_and_nothing_is_left", frames_are_forwarded)];

/// The interfaces of this network.
fn interfaces() -> String {
    let text = fs::read_to_string("/proc/net/dev").expect("Linux lists interfaces");
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect()
}

fn frames_are_forwarded() -> Outcome {
    let before = interfaces();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "--live", "--scheduler", "drr", "--leaves", "10", "--seconds", "1"]);
    command.args(["--rounds", "1", "--format", "json"]);
    let ended = Process::start(&mut command)?.wait_for_output()?;
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout)?;
    let rows = report["rows"].as_array().ok_or("there is a row for each forwarder")?;
    // One class and ten on each kind of port, and the kernel's bridge in four ways.
    assert_eq!(rows.len(), 2 * 3 + 4, "{report}");
    for row in rows {
        assert!(row["kpps"].is_number() || row["not_measured"].is_string(), "{row}");
    }
    // How many frames pass is the machine's affair, but not that some do.
    let forwards = |row: &&Value| row["port"].is_string() && row["kpps"].as_f64() > Some(0.0);
    assert!(rows.iter().any(|row| forwards(&row)), "{report}");
    assert_eq!(interfaces(), before);
    Ok(())
}
