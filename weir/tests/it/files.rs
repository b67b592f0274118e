//! Files that the command writes: complete or not there at all, and never in place of an input.

use crate::common::kinds;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use weir_testbed::{Process, until};

/// A scenario that no machine simulates within a test.
const LONG: &str = "policy = 'policy.toml'\nduration = '1000000 s'\n[[source]]\nname = 'a'\n\
    kind = 'cbr'\nrate = '0.9 Mbit/s'\nsize = '64 B'\n";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("is readable");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("is readable").file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

/// Returns the bytes that a process has written so far.
fn written(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/io")).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Starts `weir sim long.toml` with `option`, stops it by `signal` once it has written much, and
/// checks that the folder is as before.
fn check_stopped(option: &str, signal: &str) {
    let folder = kinds::folder();
    fs::write(folder.path().join("long.toml"), LONG).expect("is writable");
    let before = names(folder.path());
    let words = format!("sim long.toml --memory 64GB {option} out");
    let mut command = kinds::command(&folder, &words);
    let mut process = Process::start(&mut command).expect("weir starts");
    let has_written = || written(process.id()) >= 1_000_000;
    until("it writes while it runs", has_written).expect("it writes much");
    process.signal(signal).expect("it runs");
    let status = process.wait_for_exit().expect("it ends");
    assert!(!status.success(), "{option} {signal}");
    assert_eq!(names(folder.path()), before, "{option} {signal}");
}

#[test]
fn a_command_that_is_stopped_leaves_no_file() {
    check_stopped("--parquet", "INT");
    check_stopped("--trace", "TERM");
    check_stopped("--parquet", "KILL");
}

/// Files that name others: a policy with a list, and a scenario with that policy and arrivals.
const NAMING: &[(&str, &str)] = &[
    (
        "template.toml",
        "link = { rate = '1 Mbit/s', scheduler = 'drr' }\n[class.all]\ndefault = true\n\
         [template.host]\nlist = 'hosts.csv'\nname = 'h{id}'\nclass.match = { dst = '{ip}' }\n",
    ),
    (
        "naming.toml",
        "policy = 'template.toml'\nduration = '1 s'\n[[source]]\nname = 'a'\n\
         kind = 'capture'\nfile = 'arrivals.csv'\n",
    ),
    ("arrivals.csv", "0.1,500\n"),
];

/// Runs a command, given as words, in a folder with a file of each kind, with `input` as standard
/// input; it exits 2, says `said`, and changes no file.
fn check_refused(words: &str, input: Option<&str>, said: &str) {
    let folder = kinds::folder();
    let link = folder.path().join("linked.pcap");
    fs::hard_link(folder.path().join("capture.pcap"), link).expect("links work");
    for (name, text) in NAMING {
        fs::write(folder.path().join(name), text).expect("is writable");
    }
    fs::create_dir(folder.path().join("sub")).expect("is writable");
    let contents = || {
        let read = |name: String| (fs::read(folder.path().join(&name)).ok(), name);
        names(folder.path()).into_iter().map(read).collect::<Vec<_>>()
    };
    let before = contents();
    let mut command = kinds::command(&folder, words);
    if let Some(name) = input {
        command.stdin(File::open(folder.path().join(name)).expect("is there"));
    }
    let output = command.output().expect("weir starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}: {text}");
    assert!(text.contains(said), "{words}: {text}");
    assert!(!text.contains(".weir-"), "{words}: {text}");
    assert_eq!(contents(), before, "{words}");
}

#[test]
fn an_input_is_never_written_over_and_errors_name_the_users_file() {
    let input = Some("capture.pcap");
    check_refused("replay policy.toml - -o capture.pcap", input, "-o capture.pcap is an input");
    check_refused("replay policy.toml - --drops linked.pcap", input, "linked.pcap is an input");
    check_refused("replay policy.toml capture.pcap -o linked.pcap", None, "is an input");
    check_refused("sim scenario.toml --json scenario.toml", None, "--json scenario.toml is an");
    check_refused(
        "sim scenario.toml --json x --trace x",
        None,
        "--json x and --trace x are one file; name two",
    );
    let words = "compare scenario.toml --schedulers fifo --json scenario.toml";
    check_refused(words, None, "--json scenario.toml is an input");
    check_refused("import tc set-up.sh --out set-up.sh", None, "--out set-up.sh is an input");
    check_refused("sim scenario.toml --parquet away/x", None, "cannot write away/x: No such file");
    check_refused("sim scenario.toml --trace /dev/full", None, "cannot write /dev/full: No space");
    check_refused("sim scenario.toml --parquet /dev/full", None, "cannot write /dev/full: No");
    check_refused("replay policy.toml capture.pcap -o /dev/full", None, "cannot write /dev/full");
}

#[test]
fn a_file_that_an_input_names_is_never_written_over() {
    let said = "template.toml is an input";
    check_refused("sim naming.toml --json template.toml", None, said);
    check_refused("sim naming.toml --bins 1s --csv hosts.csv", None, "--csv hosts.csv is an input");
    check_refused("sim naming.toml --trace arrivals.csv", None, "arrivals.csv is an input");
    check_refused("sim naming.toml --parquet sub/../arrivals.csv", None, "arrivals.csv is an");
    check_refused("compare naming.toml --schedulers drr --json template.toml", None, said);
    check_refused("compare naming.toml --schedulers drr --json hosts.csv", None, "is an input");
    check_refused("replay template.toml capture.pcap -o hosts.csv", None, "-o hosts.csv is an");
    check_refused("replay template.toml capture.pcap --drops hosts.csv", None, "--drops hosts.csv");
    check_refused("convert template.toml --scheduler wf2q+ -o hosts.csv", None, "is an input");
    let words = "tune policy.toml --goal g --over naming.toml --out template.toml";
    check_refused(words, None, "--out template.toml is an input");
    let words = "tune policy.toml --goal g --over scenario.toml --traces hosts.csv --out hosts.csv";
    check_refused(words, None, "--out hosts.csv is an input");
    let words = "tune policy.toml --goal g --over scenario.toml --traces away --out tuned.toml";
    check_refused(words, None, "cannot read away");
    let words = "lab archive R-EFF --add hosts.csv --out hosts.csv";
    check_refused(words, None, "hosts.csv: it is an input");
}

#[test]
fn what_cannot_be_written_is_refused_before_the_work() {
    let said = "cannot write away/x: No such file";
    check_refused("lab report R-EFF --out away/x", None, said);
    check_refused("lab archive R-EFF --out away/x", None, said);
    check_refused("tune policy.toml --goal g --over scenario.toml --out away/x", None, said);
    let words = "lab archive R-EFF --add hosts.csv --add ./hosts.csv";
    check_refused(words, None, "two files to add are called `hosts.csv`; rename one");
}

#[test]
fn two_outputs_are_never_one_file_however_they_are_spelt() {
    let check = |words: &str, said: &str| check_refused(words, None, said);
    check("replay policy.toml capture.pcap -o x --drops ./x", "-o x and --drops ./x are one file");
    check("replay policy.toml capture.pcap -o sub/../x --drops x", "sub/../x and --drops x are");
    check("sim scenario.toml --json ./sub/x --trace sub/x", "are one file; name two");
}

/// Checks, in a folder where `pipe` is a pipe, that `words` name in a finding what is no file.
fn check_pipe(words: &str, changed: (&str, &str, &str)) {
    let folder = kinds::folder();
    for (name, text) in NAMING {
        fs::write(folder.path().join(name), text).expect("is writable");
    }
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    let (name, from, to) = changed;
    let path = folder.path().join(name);
    let text = fs::read_to_string(&path).expect("is there");
    assert!(text.contains(from), "{name}: {from}");
    fs::write(&path, text.replace(from, to)).expect("is writable");
    // If the command reads the pipe, it reads nothing, and does not wait.
    std::thread::spawn(|| File::options().write(true).open(pipe).map(drop));
    let output = kinds::command(&folder, words).output().expect("weir starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{words}: {text}");
    let said = format!("cannot read {to}: it is a pipe, a socket or a device");
    assert!(text.contains(&said), "{words}: {text}");
}

#[test]
fn a_pipe_is_not_read_in_place_of_a_file_that_a_file_names() {
    check_pipe("check template.toml", ("template.toml", "hosts.csv", "pipe"));
    check_pipe("check scenario.toml", ("scenario.toml", "policy.toml", "pipe"));
    check_pipe("sim naming.toml", ("naming.toml", "arrivals.csv", "/dev/stdin"));
    check_pipe("check deployment.toml", ("deployment.toml", "policy.toml", "pipe"));
}
