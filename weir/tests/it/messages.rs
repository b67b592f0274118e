//! The messages of the command about wrong input, word for word: `messages.txt` holds commands,
//! their exit codes and what they print.
//!
//! `WEIR_WRITE=1 cargo test -p weir --test it messages` writes the file anew; read the difference.

use crate::common::kinds;

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Policies and others that have one fault each.
const FAULTY: &[(&str, &str)] = &[
    ("limit-text.toml", "[class.all]\ndefault = true\nqueue = { limit = 'many' }\n"),
    ("limit-unit.toml", "[class.all]\ndefault = true\nqueue = { limit = '10 cells' }\n"),
    ("limit-bare.toml", "[class.all]\ndefault = true\nqueue = { limit = 20 }\n"),
    ("share.toml", "[class.all]\ndefault = true\nshare = '95 %'\nqueues = 64\nhash = 'dstaddr'\n"),
];

/// A folder with files of each kind and faulty ones.
fn folder() -> TempDir {
    let folder = kinds::folder();
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("is writable");
    };
    for (name, classes) in FAULTY {
        let scheduler = if *name == "share.toml" { "htb" } else { "fifo" };
        write(name, &format!("[link]\nrate = '16 Mbit/s'\nscheduler = '{scheduler}'\n{classes}"));
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("is text");
    write("duration.toml", &read("scenario.toml").replace("'1 s'", "'3 fortnights'"));
    write("home!.toml", &read("deployment.toml"));
    let named = "[deployment]\nname = '../x'";
    write("named.toml", &read("deployment.toml").replacen("[deployment]", named, 1));
    write(
        "red.toml",
        &read("deployment.toml").replace("direction.up", "direction.\"\\u001b[31mred\""),
    );
    write(
        "beside.toml",
        "[deployment]\nports = { host = 'a', b = 'c' }\n[direction.up]\nfrom = 'host'\n\
                          to = 'wire'\npolicy = 'policy.toml'\n",
    );
    write("empty.toml", "[deployment]\nports = {}\npool = '1 packets'\n");
    folder
}

/// Returns the command, its exit code and what it prints.
fn shown(folder: &TempDir, words: &str) -> String {
    let output = kinds::command(folder, words).output().expect("weir starts");
    let code = output.status.code().expect("it exits");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let out = out.lines().map(|line| format!("  {}\n", line.trim_end()));
    let err = err.lines().map(|line| format!("! {}\n", line.trim_end()));
    format!("$ weir {words}  # {code}\n{}\n", out.chain(err).collect::<String>())
}

fn snapshot() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages.txt")
}

#[test]
fn messages_are_as_written() {
    let written = fs::read_to_string(snapshot()).expect("the file is there");
    let commands = written.lines().filter_map(|line| line.strip_prefix("$ weir "));
    let commands = commands.map(|line| line.split_once("  #").map_or(line, |parts| parts.0));
    let folder = folder();
    let found: String = commands.map(|words| shown(&folder, words)).collect();
    if std::env::var_os("WEIR_WRITE").is_some() {
        fs::write(snapshot(), &found).expect("is writable");
        return;
    }
    for (found, written) in found.split("$ weir ").zip(written.split("$ weir ")) {
        assert_eq!(found, written, "WEIR_WRITE=1 writes the messages anew");
    }
    assert_eq!(found.lines().count(), written.lines().count());
    assert!(found.matches("$ weir ").count() > 20, "the file has commands");
}
