//! `cargo xtask figures`: measures every figure of the README and the documentation, and prints it
//! with its goal and the verdict. Single parts can be named.
//!
//! A part runs a command, which prints the table and exits with 0 if every goal is met and with 1
//! if one is missed. The parts need a quiet machine, and what `--list` names.

use crate::mutants;
use crate::nostd::target_directory;
use crate::view;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A part: its name, the figure that it measures, and the command.
struct Part {
    name: &'static str,
    measures: &'static str,
    run: fn(&Path) -> Verdict,
}

/// The outcome of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every goal is met.
    Holds,
    /// A goal is missed.
    Missed,
    /// It could not be measured.
    Unmeasured(String),
    /// It needs what only a user can give; one that asked for it by name is told so.
    LeftOut(&'static str),
}

/// The parts; first those whose figures are in README.
const PARTS: [Part; 48] = [
    Part {
        name: "bench",
        measures: "the cost of a packet to the plainest scheduler's, up to a million leaves (2 min)",
        run: |root| weir(root, &["bench", "--goals"]),
    },
    Part {
        name: "live",
        measures: "forwarding through private networks beside the kernel (2 min; root)",
        run: |root| weir(root, &["bench", "--live", "--seconds", "60"]),
    },
    Part {
        name: "workers",
        measures: "every live row of a link with a worker for each port (10 min; root)",
        run: |root| live_rows_with(root, WORKERS),
    },
    Part {
        name: "shares",
        measures: "every live row of a link with two workers for each port (10 min; root)",
        run: |root| live_rows_with(root, SHARES),
    },
    Part {
        name: "overload",
        measures: "a guaranteed class while bulk floods the bridge, case by case (8 min; root)",
        run: |root| weir(root, &["lab", "run", "overload", "--seconds", "30"]),
    },
    Part {
        name: "faults",
        measures: "a link while interfaces vanish, processes die and disks fill up (70 min; root)",
        run: |root| weir(root, &["lab", "run", "faults", "--seconds", "3600"]),
    },
    Part {
        name: "durations",
        measures: "gaps while processes die or are restarted, 20 times each, median and worst (8 min; root)",
        run: |root| weir(root, &["lab", "run", "durations"]),
    },
    Part {
        name: "rates",
        measures: "shaped rates, 1 Mbit/s to 1 Gbit/s, beside the kernel's HTB (4 min; root)",
        run: |root| weir(root, &["lab", "run", "shaping-live"]),
    },
    Part {
        name: "latency",
        measures: "the delay on an idle link beside the kernel's bridge (1 min; root)",
        run: |root| weir(root, &["lab", "run", "latency-live"]),
    },
    Part {
        name: "fast-tcp",
        measures: "TCP at 10 Gbit/s beside the kernel's bridge with its HTB (1 min; root)",
        run: |root| weir(root, &["lab", "run", "fast-tcp"]),
    },
    Part {
        name: "lines",
        measures: "a rate that follows recorded lines, live beside simulated (16 min; root)",
        run: |root| weir(root, &["lab", "run", "autorate-live", "--seconds", "55"]),
    },
    Part {
        name: "peers",
        measures: "schedulers beside DPDK's rte_sched, reported (5 min; installs DPDK as root)",
        run: |root| program(root, Path::new("bench/peers"), &["rte"]),
    },
    Part {
        name: "simulators",
        measures: "the simulator beside ns-2 and ns-3 (5 min; installs them as root)",
        run: |root| program(root, Path::new("bench/peers"), &["simulators"]),
    },
    Part {
        name: "memory",
        measures: "bytes an idle class and a waiting packet",
        run: |root| weir(root, &["bench", "--memory"]),
    },
    Part {
        name: "footprint",
        measures: "the memory of ten links after 500 changes beside `weir check` (20 min; root)",
        run: |root| {
            let test =
                ["--release", "--package", "weir", "--test", "live", "memory_than_check_says"];
            live_test(root, &test, SETS)
        },
    },
    Part {
        name: "circuits",
        measures: "circuits that come and go a thousand a second beside 10 000 classes (2 min; root)",
        run: |root| {
            let test = ["--release", "--package", "weir", "--test", "live", "come_and_go_cost"];
            live_test(root, &[&test[..], &["--", "--nocapture"]].concat(), "WEIR_CIRCUITS=30000")
        },
    },
    Part {
        name: "classify",
        measures: "the cost of a classification by up to 100 000 rules",
        run: |root| weir(root, &["bench", "--classify"]),
    },
    Part {
        name: "check",
        measures: "the time of `weir check` for 50 000 classes",
        run: |root| weir(root, &["bench", "--check"]),
    },
    Part {
        name: "reload",
        measures: "the time of a change of a link with 50 000 classes",
        run: |root| weir(root, &["bench", "--reload"]),
    },
    Part {
        name: "explain",
        measures: "the cost of explaining why packets wait",
        run: |root| weir(root, &["bench", "--explain"]),
    },
    Part {
        name: "autorate",
        measures: "what a rate that varies adds to a frame, and its memory",
        run: |root| weir(root, &["bench", "--autorate"]),
    },
    Part {
        name: "proposals",
        measures: "the change that explain proposes on 26 staged faults, beside the smallest (3 min)",
        run: |root| weir(root, &["lab", "run", "explain"]),
    },
    Part {
        name: "profile",
        measures: "instructions of a class alone and among 99 idle ones (valgrind)",
        run: |root| weir(root, &["bench", "--profile"]),
    },
    Part {
        name: "lab",
        measures: "the experiments of the papers and Weir's own (10 min; root for the live ones)",
        run: |root| weir(root, &["lab", "run", "all"]),
    },
    Part {
        name: "papers",
        measures: "the papers on real packets beside the calibrated simulation (7 min; root)",
        run: |root| weir(root, &["lab", "run", "--live", "all"]),
    },
    Part {
        name: "score",
        measures: "20 scenarios live and simulated, class by class (8 min; root)",
        run: |root| weir(root, &["lab", "run", "score"]),
    },
    Part {
        name: "import",
        measures: "1000 random scripts of tc and of the shell, in the kernel and imported (20 min; root)",
        run: |root| live_test(root, &["--package", "weir", "--test", "live", "tc_"], SCRIPTS),
    },
    Part {
        name: "twin",
        measures: "400 random tc scripts with filters of all kinds, in an emulated kernel (5 min; root)",
        run: |root| program(root, Path::new("bench/twin/run.sh"), &[]),
    },
    Part {
        name: "decisions",
        measures: "Linux's qdiscs in an emulated kernel beside Weir, packet by packet (4 min; root)",
        run: |root| program(root, Path::new("bench/twin/decisions/run.sh"), &[]),
    },
    Part {
        name: "view",
        measures: "the page in a browser beside the link's own numbers (7 min; installs Chromium as root)",
        run: view::run,
    },
    Part {
        name: "bounds",
        measures: "the least rates of 1000 random policies beside the worst of many runs (15 min)",
        run: |root| {
            live_test(root, &["--package", "weir-sim", "--test", "it", "at_least::"], POLICIES)
        },
    },
    Part {
        name: "small-bursts",
        measures: "bounds of 1000 policies with small bursts beside the worst found (4 min)",
        run: |root| {
            let test =
                ["--package", "weir-sim", "--test", "it", "small_bursts::", "--", "--nocapture"];
            live_test(root, &test, SMALL_BURSTS)
        },
    },
    Part {
        name: "flent",
        measures: "Flent from PyPI opens Weir's files and draws them (3 min; needs PyPI)",
        run: |root| program(root, Path::new("bench/flent/run.sh"), &[]),
    },
    Part {
        name: "rsvp",
        measures: "RSVP messages beside tshark, tcpdump and scapy (1 min; installs them as root)",
        run: |root| program(root, Path::new("bench/rsvp"), &[]),
    },
    Part {
        name: "sweep",
        measures: "sweeps of 10 000 runs, by threads and by Ray, and killed ones (30 min; needs PyPI)",
        run: |root| program(root, Path::new("bench/sweep/run.sh"), &[]),
    },
    Part {
        name: "tune",
        measures: "tuning of ten staged policies beside an exhaustive search (15 min; needs PyPI)",
        run: |root| program(root, Path::new("bench/tune/run.sh"), &[]),
    },
    Part {
        name: "whatif",
        measures: "infer from 1 GB, forecasts of 5 minutes at 100 Mbit/s, 1000 damaged captures (10 min)",
        run: |root| program(root, Path::new("bench/whatif/run.sh"), &[]),
    },
    Part {
        name: "lsp",
        measures: "from a keystroke to the diagnostics of a policy of 5000 classes (10 s)",
        run: |root| program(root, Path::new("bench/lsp/run.sh"), &[]),
    },
    Part {
        name: "top",
        measures: "from a key to the screen of `weir top`, 2 x 5000 classes (1 min; root)",
        run: |root| program(root, Path::new("bench/top/run.sh"), &[]),
    },
    Part {
        name: "home",
        measures: "what `weir init` promises, on real packets: shares, a ping, a call (4 min; root)",
        run: |root| program(root, Path::new("bench/home/run.sh"), &[]),
    },
    Part {
        name: "notebooks",
        measures: "three notebooks: HTB's accuracy, delay over load, an evening tuned (20 min; needs PyPI)",
        run: |root| program(root, Path::new("notebooks/run.sh"), &[]),
    },
    Part {
        name: "packetdrill",
        measures: "packetdrill scripts replayed against weir-tcp (1 s; --scripts FOLDER, fetched by you)",
        run: |_| Verdict::LeftOut(NO_SCRIPTS),
    },
    Part {
        name: "laws",
        measures: "laws, oracles and round trips on 100 000 random workloads each (hours)",
        run: laws,
    },
    Part {
        name: "fuzz",
        measures: "each fuzz target on 200 000 mutations of its seeds, without an engine (20 min)",
        run: |root| live_test(root, &["--package", "weir-fuzz"], "WEIR_FUZZ=200000"),
    },
    Part {
        name: "pages",
        measures: "the pages of docs/lab and the report beside all experiments that are not slow (6 min)",
        run: |root| {
            let pages = ["--package", "weir-lab", "--test", "it", "--", "--include-ignored"];
            live_test(root, &pages, "WEIR_SEED=0")
        },
    },
    Part {
        name: "instructions",
        measures: "instructions of a fixed workload beside the counts in the repository (5 min; valgrind)",
        run: |root| weir(root, &["bench", "--instructions", "--compare", INSTRUCTIONS]),
    },
    Part {
        name: "rustdoc",
        measures: "the documentation of all items, private ones too, without a warning (3 min)",
        run: rustdoc,
    },
    Part {
        name: "mutants",
        measures: "how many of 100 mutants of the core and the import survive the tests (hours)",
        run: |root| mutants::run(root, mutants::SAMPLE),
    },
];

/// Runs the named parts, or all of them; returns whether every goal is met.
pub fn run(root: &Path, names: &[&str]) -> bool {
    if let Some(unknown) = names.iter().find(|name| !PARTS.iter().any(|part| part.name == **name)) {
        eprintln!(
            "figures: no part is called `{unknown}`; `cargo xtask figures --list` names them"
        );
        return false;
    }
    let mut outcomes = Vec::new();
    for part in PARTS.iter().filter(|part| names.is_empty() || names.contains(&part.name)) {
        println!("\n== {}: {}", part.name, part.measures);
        let start = Instant::now();
        let verdict = (part.run)(root);
        outcomes.push((part.name, start.elapsed(), verdict));
    }
    summarise(&outcomes);
    let bears = |verdict: &Verdict| match verdict {
        Verdict::LeftOut(_) => names.is_empty(),
        other => *other == Verdict::Holds,
    };
    outcomes.iter().all(|(_, _, verdict)| bears(verdict))
}

/// Runs the part `mutants` with a sample of `number` mutants.
pub fn run_mutants(root: &Path, number: &str) -> bool {
    let Ok(sample) = number.parse() else {
        eprintln!("figures: --sample {number}: a number of mutants");
        return false;
    };
    let start = Instant::now();
    let verdict = mutants::run(root, sample);
    summarise(&[("mutants", start.elapsed(), verdict.clone())]);
    verdict == Verdict::Holds
}

/// Runs the part `packetdrill` with the scripts in `folder`.
pub fn run_packetdrill(root: &Path, folder: &str) -> bool {
    let start = Instant::now();
    // A path counts from where the command was called.
    let folder = match std::path::absolute(folder) {
        Ok(path) if path.is_dir() => path,
        _ => {
            eprintln!("figures: --scripts {folder}: there is no such folder");
            return false;
        }
    };
    let folder = folder.display().to_string();
    let cargo = ["run", "--locked", "--quiet", "--package", "weir-packetdrill", "--", &folder];
    let verdict = program(root, Path::new("cargo"), &cargo);
    summarise(&[("packetdrill", start.elapsed(), verdict.clone())]);
    verdict == Verdict::Holds
}

/// Prints the names of the parts and what they measure.
pub fn list() -> bool {
    PARTS.iter().for_each(|part| println!("{:<12} {}", part.name, part.measures));
    true
}

fn summarise(outcomes: &[(&str, Duration, Verdict)]) {
    println!("\n== summary");
    for (name, spent, verdict) in outcomes {
        let outcome = match verdict {
            Verdict::Holds => "every goal is met",
            Verdict::Missed => "a goal is MISSED: see its table",
            Verdict::Unmeasured(why) => why,
            Verdict::LeftOut(why) => why,
        };
        println!("{name:<12}{:>8.1} s  {outcome}", spent.as_secs_f64());
    }
}

/// Builds Weir with its lab and runs it.
fn weir(root: &Path, arguments: &[&str]) -> Verdict {
    let built = program(
        root,
        Path::new("cargo"),
        &[
            "build",
            "--locked",
            "--release",
            "--quiet",
            "--package",
            "weir",
            "--package",
            "weir-lab",
        ],
    );
    if built != Verdict::Holds {
        return Verdict::Unmeasured("weir or its lab does not build".to_owned());
    }
    // In a session of its own it goes before other work on the machine, as a service does; it ends
    // with this program.
    let weir = target_directory(root).join("release/weir").display().to_string();
    let leading = ["setpriv", "--pdeathsig", "KILL", &weir];
    program(root, Path::new("setsid"), &[&leading, arguments].concat())
}

/// Runs the long form of every random test.
fn laws(root: &Path) -> Verdict {
    let run = |(setting, package, tests): &(&str, &str, &[&str])| {
        // The laws of the run loop are beside it.
        let target: &[&str] = if *package == "weir-link" { &["--lib"] } else { &["--test", "it"] };
        // They take half a day without, and keep every assertion.
        let optimised = ["--config", "profile.dev.opt-level=2", "--package", package];
        let test = [&optimised[..], target, &["--"], *tests].concat();
        live_test(root, &test, setting)
    };
    // All run, whatever came of the ones before.
    let verdicts: Vec<Verdict> = LAWS.iter().map(run).collect();
    verdicts.into_iter().find(|verdict| *verdict != Verdict::Holds).unwrap_or(Verdict::Holds)
}

/// Writes the documentation of every item.
fn rustdoc(root: &Path) -> Verdict {
    let cargo =
        ["RUSTDOCFLAGS=-D warnings", "cargo", "doc", "--locked", "--workspace", "--no-deps"];
    let verdict =
        program(root, Path::new("env"), &[&cargo[..], &["--document-private-items"]].concat());
    if verdict == Verdict::Holds { verdict } else { Verdict::Missed }
}

/// Runs all rows of links on real interfaces with so many workers.
fn live_rows_with(root: &Path, workers: &str) -> Verdict {
    let rows = |package| live_test(root, &["--package", package, "--test", "live"], workers);
    let verdicts = ["weir-link", "weir"].map(rows);
    verdicts.into_iter().find(|one| *one != Verdict::Holds).unwrap_or(Verdict::Holds)
}

/// Runs a test with a setting of its own; its output stays visible.
fn live_test(root: &Path, test: &[&str], setting: &str) -> Verdict {
    let cargo = ["WEIR_REQUIRE_LIVE=1", setting, "cargo", "test", "--locked"];
    let verdict = program(root, Path::new("env"), &[&cargo, test].concat());
    // cargo ends with 101 if a test fails.
    match verdict {
        Verdict::Unmeasured(_) => Verdict::Missed,
        other => other,
    }
}

/// Runs a program whose output goes straight to the terminal; its exit code is the verdict.
pub fn program(root: &Path, program: &Path, arguments: &[&str]) -> Verdict {
    let is_ours = program.components().count() > 1;
    let path = if is_ours { root.join(program) } else { program.to_path_buf() };
    let status = Command::new(path).current_dir(root).args(arguments).status();
    let shown = program.display();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => Verdict::Holds,
        Ok(Some(1)) => Verdict::Missed,
        Ok(_) => Verdict::Unmeasured(format!("not measured: `{shown}` says why above")),
        Err(error) => Verdict::Unmeasured(format!("not measured: cannot run {shown}: {error}")),
    }
}

/// The long forms of random tests: a setting, a package, and modules of its tests.
const LAWS: &[(&str, &str, &[&str])] = &[
    (
        "WEIR_LAWS=100000",
        "weir-core",
        &["laws::", "checkpoint::", "stale::", "loans::", "hfsc::random"],
    ),
    ("WEIR_LAWS=5000", "weir-core", &["fluid::", "htb::random", "classifiers::", "classify::"]),
    ("WEIR_LAWS=100000", "weir-rsvp", &["oracle::", "messages::"]),
    ("WEIR_LAWS=100000", "weir-policy", &["diff::"]),
    ("WEIR_LAWS=100000", "weir-import", &["import::a_round_trip"]),
    ("WEIR_PF=10000", "weir-import", &["pf_as_pf::"]),
    ("WEIR_LAWS=10000", "weir-tcp", &["laws::", "theory::"]),
    ("WEIR_LAWS=10000", "weir-link", &["bridge::laws::"]),
    ("WEIR_BOUNDS=10000", "weir-sim", &["bounds::"]),
    ("WEIR_EFFECTIVE=10000", "weir-sim", &["effective::"]),
    ("WEIR_LAWS=10000", "weir-sim", &["autorate_laws::"]),
    ("WEIR_AUTORATE_TRACES=10000", "weir-autorate", &["laws::", "hardships::"]),
];

/// Why the part `packetdrill` cannot run by itself: its scripts are under the GPL.
const NO_SCRIPTS: &str = "left out: the scripts are not part of this repository; fetch them, \
     and name their folder with `figures packetdrill --scripts FOLDER`";

/// The instruction counts of the repository.
const INSTRUCTIONS: &str = "bench/instructions.json";

/// The workers of each link of the testbed: one a port, or two.
const WORKERS: &str = "WEIR_WORKERS=2";
const SHARES: &str = "WEIR_WORKERS=4";

/// How many scripts the kernel and the import are compared on.
const SCRIPTS: &str = "WEIR_TC_SCRIPTS=1000";

/// How many policies the least rates are compared on.
const POLICIES: &str = "WEIR_AT_LEAST=1000";
/// How many policies with small bursts are tried.
const SMALL_BURSTS: &str = "WEIR_SMALL_BURSTS=1000";
/// The changes of each link whose memory is measured.
const SETS: &str = "WEIR_SETS=500";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_a_verdict() {
        let root = Path::new("/");
        let shell = |script| program(root, Path::new("sh"), &["-c", script]);
        assert_eq!(shell("exit 0"), Verdict::Holds);
        assert_eq!(shell("exit 1"), Verdict::Missed);
        assert!(matches!(shell("exit 2"), Verdict::Unmeasured(_)));
        let missing = program(root, Path::new("no-such-program"), &[]);
        assert!(matches!(missing, Verdict::Unmeasured(_)));
    }

    #[test]
    fn an_unknown_part_runs_nothing() {
        assert!(!run(Path::new("/"), &["benhc"]));
    }
}
