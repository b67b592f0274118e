//! `weir-lab run` as a user runs it, live experiments in their shortest form: what they count holds
//! on any machine, and nothing is left behind. What they measure is for `cargo xtask figures`.

use std::fs;
use std::process::{Command, ExitCode};

use serde_json::Value;
use weir_testbed::rows::{self, Completion, Failed, Need, Row};

fn main() -> ExitCode {
    rows::main(EXPERIMENTS.iter().map(|(name, experiment, needs)| {
        Row::ignorable(*name, move || check(experiment)).needs(needs)
    }))
}

/// A live experiment in short, and which of its rows say what holds on any machine.
struct Experiment {
    name: &'static str,
    only: &'static str,
    seconds: &'static str,
    is_counted: fn(&Value) -> bool,
}

const EXPERIMENTS: &[(&str, Experiment, &[Need])] = &[
    (
        "a_tree_is_shared_beside_the_kernel",
        Experiment {
            name: "htb-kernel",
            only: "30 Mbit/s 1500 B, all backlogged",
            seconds: "2",
            // How near both come to their rates is the machine's affair.
            is_counted: |_| false,
        },
        &[Need::Root, Need::Program("tc")],
    ),
    (
        "a_link_stands_each_fault_once",
        // Gaps and memory are claims about an idle machine and a long run: they have a limit. A
        // pause of the machine is one stop more.
        Experiment {
            name: "faults",
            only: "soak",
            seconds: "20",
            is_counted: |row| {
                let stops = row["subject"].as_str().is_some_and(|text| text.contains("is stopped"));
                row["limit"].as_f64() == Some(0.0) && !stops
            },
        },
        &[Need::PrivateNetworks],
    ),
    (
        "random_changes_lose_and_repeat_nothing",
        Experiment {
            name: "changes",
            only: "random",
            seconds: "5",
            // Where the machine makes its queues wait, the kernel loses frames before and behind
            // the link; other rows hold the link's books to what its ports counted.
            is_counted: |row| {
                let is_lost = |text: &str| text.ends_with("packets lost that no limit dropped");
                !measures(row, "ms") && !row["subject"].as_str().is_some_and(is_lost)
            },
        },
        &[Need::PrivateNetworks],
    ),
    (
        "classes_that_join_and_leave_lose_nothing_untold",
        Experiment {
            name: "changes",
            only: "joins",
            seconds: "3",
            // A loop that the machine makes pause loses frames, and counts them.
            is_counted: |row| {
                let is_lost = |text: &str| text.ends_with("packets lost");
                let is_lost = row["subject"].as_str().is_some_and(is_lost);
                !measures(row, "ms") && !measures(row, "a second") && !is_lost
            },
        },
        &[Need::PrivateNetworks],
    ),
    (
        "recorded_lines_are_played_to_a_rate_that_follows_them",
        Experiment {
            name: "autorate-live",
            only: "driving",
            seconds: "2",
            // Two seconds of a line say nothing of the figures.
            is_counted: |_| false,
        },
        &[Need::PrivateNetworks, Need::Program("ip")],
    ),
    (
        "all_who_look_are_answered",
        Experiment {
            name: "viewers",
            only: "",
            seconds: "1",
            is_counted: |row| measures(row, "answers"),
        },
        &[Need::PrivateNetworks],
    ),
];

fn measures(row: &Value, unit: &str) -> bool {
    row["measured"].as_str().is_some_and(|text| text.ends_with(unit))
}

/// Returns the interfaces of this network and the number of named namespaces.
fn traces() -> (Vec<String>, usize) {
    let text = fs::read_to_string("/proc/net/dev").expect("Linux lists interfaces");
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    let named = fs::read_dir("/run/netns").map_or(0, Iterator::count);
    (text.lines().filter_map(name).collect(), named)
}

fn check(experiment: &Experiment) -> Result<Completion, Failed> {
    let Experiment { name, only, seconds, is_counted } = experiment;
    let before = traces();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    command.args(["--format", "json", "run", name, "--seconds", seconds, "--only", only]);
    let ended = command.output()?;
    let Ok(rows) = serde_json::from_slice::<Vec<Value>>(&ended.stdout) else {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let lacks = LACKING.iter().any(|lack| said.contains(lack));
        let is_required = std::env::var_os("WEIR_REQUIRE_LIVE").is_some_and(|value| value == "1");
        return match lacks && !is_required {
            true => Ok(Completion::ignored_with(said)),
            false => Err(format!("{}: {said}", ended.status).into()),
        };
    };
    // Somebody else's may have gone meanwhile.
    let (interfaces, named) = traces();
    let left: Vec<_> = interfaces.iter().filter(|name| !before.0.contains(name)).collect();
    assert!(left.is_empty() && named <= before.1, "left behind: {left:?}, {named} namespaces");
    assert!(rows.len() >= 10, "every row is there: {rows:?}");
    let at_fault: Vec<_> =
        rows.iter().filter(|row| is_counted(row) && row["holds"] != true).collect();
    assert!(at_fault.is_empty(), "{at_fault:#?}");
    Ok(Completion::Completed)
}

/// The parts that a machine may lack beside those that are looked for before: the kernel's
/// scheduler, the program `weir`.
const LACKING: [&str; 3] = ["install iproute2", "use a kernel that", "starts the program `weir`"];
