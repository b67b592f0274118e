//! `weir lab run htb-kernel` as a user runs it, in its shortest live part: Weir's HTB shares a tree
//! as the kernel's does, and nothing is left behind. Without the privilege the test is skipped, or
//! fails if WEIR_REQUIRE_LIVE=1.

use serde_json::Value;
use std::process::Command;

/// Returns the interfaces of this network and the number of named namespaces.
fn traces() -> (Vec<String>, usize) {
    let text = std::fs::read_to_string("/proc/net/dev").expect("Linux lists interfaces");
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    let named = std::fs::read_dir("/run/netns").map_or(0, Iterator::count);
    (text.lines().filter_map(name).collect(), named)
}

/// Returns the rows of one run, or why there are none.
fn run() -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let only = "30 Mbit/s 1500 B, all backlogged";
    command.args(["--format", "json", "lab", "run", "htb-kernel", "--seconds", "2"]);
    let output = command.args(["--only", only]).output().expect("the program runs");
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).expect("rows are JSON"))
}

#[test]
fn weir_shares_a_tree_as_the_kernel_does() {
    let before = traces();
    let mut far_off = Vec::new();
    // A machine that stalls for long spoils a run, the kernel's figures as well as Weir's.
    for _ in 0..TRIES {
        let rows = match run() {
            Ok(rows) => rows,
            Err(why) => {
                let required = std::env::var_os("WEIR_REQUIRE_LIVE").is_some_and(|it| it == "1");
                let lacks = LACKING.iter().any(|lack| why.contains(lack));
                assert!(lacks && !required, "{why}");
                println!("skipped: {why}");
                return;
            }
        };
        assert_eq!(traces(), before, "nothing is left behind");
        assert_eq!(rows.len(), 10, "the total and four classes, each twice: {rows:?}");
        let off = |row: &Value| row["deviation"].as_f64().expect("a number").abs() > PERCENT;
        far_off = rows.into_iter().filter(off).collect();
        if far_off.is_empty() {
            return;
        }
    }
    panic!("off by more than {PERCENT} % in {TRIES} runs: {far_off:?}");
}

/// Wider than the experiment's own 1 %, which is a claim about an idle machine.
const PERCENT: f64 = 3.0;
const TRIES: u32 = 3;
/// What a machine may lack: privilege, the commands, the kernel's scheduler.
const LACKING: [&str; 3] = ["private networks need", "install iproute2", "use a kernel that"];
