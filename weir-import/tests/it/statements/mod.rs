//! Every statement and option that `docs/import.md` lists, one row each: its text, its fate, a part
//! of the note, and what the policy then says.

mod altq;
mod libreqos;
mod mqc;
mod pf;
mod routeros;
mod sqm;
mod systemd;
mod tc;

use weir_core::units::Rate;
use weir_import::import::{self, Fate, Options};
use weir_policy::policy;

const KEPT: Fate = Fate::Kept;
const CLOSE: Fate = Fate::Approximated;
const LOST: Fate = Fate::Lost;

/// A statement, its fate, a part of the note, and a part of the policies, with `'` for `"` and `; `
/// for the end of a line. The policies must lack a part that begins with `!`.
type Row = (&'static str, Fate, &'static str, &'static str);

/// Puts each statement in the place of `@` in `file`, and checks its fate and the policies, each of
/// which must check. Statements beside it are not compared.
fn check(language: &str, file: &str, rows: &[Row]) {
    let before = file.split('@').next().expect("there is a first part");
    let line = 1 + before.matches('\n').count();
    for &(statement, fate, note, wanted) in rows {
        let text = file.replace('@', statement);
        let language = import::find(language).expect("rows name languages");
        let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
        let import = outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings));
        let policies: Vec<&str> = import.policies.iter().map(|one| one.policy.as_str()).collect();
        for text in &policies {
            let outcome = policy::parse(text, "p");
            assert!(!outcome.failed(), "{text}\n{:#?}", outcome.findings);
            // Only tc itself may have classes that cannot borrow.
            let stuck = outcome.findings.iter().any(|found| found.code == "W148");
            assert!(language.name == "tc" || !stuck, "{text}\n{:#?}", outcome.findings);
        }
        let all = policies.concat().replace('"', "'").replace('\n', "; ");
        let found = import.lines.iter().find(|found| found.place.line == line);
        let found = found.unwrap_or_else(|| panic!("`{statement}` has no fate"));
        assert_eq!(found.fate, fate, "`{statement}`: {}", found.note);
        // Each note is on a line of its own.
        let notes = found.note.replace('\n', "; ");
        assert!(notes.contains(note), "`{statement}`: {notes}");
        let says = match wanted.strip_prefix('!') {
            Some(absent) => !all.contains(absent),
            None => all.contains(wanted),
        };
        assert!(says, "`{statement}`: {wanted}\nin {all}");
    }
}

#[test]
fn the_rate_of_an_interface() {
    let no_rate = "tc qdisc add dev a root handle 1: prio\n";
    let shaper = "tc qdisc add dev a root tbf rate 5mbit burst 2k limit 9k\n";
    let tree = "tc qdisc add dev a root handle 1: htb default 1\n\
                tc class add dev a parent 1: classid 1:1 htb rate 3mbit\n\
                tc class add dev a parent 1: classid 1:2 htb rate 4mbit ceil 5mbit\n";
    let altq = "interface a bandwidth 2M fifoq\n";
    let rows = [
        // What the file says, else 1 Gbit/s.
        ("tc", no_rate, None, "1 Gbit/s"),
        ("tc", shaper, None, "5 Mbit/s"),
        ("tc", tree, None, "7 Mbit/s"),
        ("tc", &tree.replace("5mbit", "9mbit"), None, "9 Mbit/s"),
        ("altq", altq, None, "2 Mbit/s"),
        ("altq", "interface a fifoq\n", None, "1 Gbit/s"),
        // `--rate` replaces no rate that the file has.
        ("tc", no_rate, Some(8), "8 Mbit/s"),
        ("tc", shaper, Some(8), "5 Mbit/s"),
        ("tc", tree, Some(8), "7 Mbit/s"),
        ("altq", altq, Some(8), "2 Mbit/s"),
        ("altq", "interface a fifoq\n", Some(8), "8 Mbit/s"),
    ];
    for (language, text, rate, wanted) in rows {
        let rate = rate.and_then(|mbit: u64| Rate::new(mbit * 1_000_000));
        let options = Options { rate, device: None, ..Options::default() };
        let language = import::find(language).expect("rows name languages");
        let import = import::read(language, text.as_bytes(), "f", &options).plan;
        let policy = &import.expect("rows are right").policies[0].policy;
        let wanted = format!("[link]\nrate = \"{wanted}\"\n");
        assert!(policy.contains(&wanted), "{text}: {wanted}\nin {policy}");
    }
}

/// Checks that an error, or a lost or approximated statement, says `wanted`.
fn check_bound(language: &str, text: &str, wanted: &str) {
    let language = import::find(language).expect("rows name languages");
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    let mut says: Vec<String> =
        outcome.findings.iter().map(|one| format!("{} {}", one.code, one.message)).collect();
    let lines = outcome.plan.into_iter().flat_map(|import| import.lines);
    says.extend(lines.map(|line| format!("{} {}", line.fate.name(), line.note)));
    assert!(says.iter().any(|one| one.contains(wanted)), "{wanted}: {says:.3?}");
}

#[test]
fn bounds_of_files() {
    let statements = "set skip on lo0\n".repeat((1 << 17) + 1);
    check_bound("pf", &statements, "W018 the file has more than 131072 statements");
    let class = |index: usize| format!("class priq en0 c{index} root\n");
    let classes: String = (0..4096).map(class).collect();
    let text = format!("interface en0 bandwidth 1M priq\nclass priq en0 d root default\n{classes}");
    check_bound("altq", &text, "lost `c4094` has more than 4095 classes");
    let class = |minor| format!("class add dev a parent 1: classid 1:{minor:x} htb rate 1kbit\n");
    let classes: String = (1..4098).map(class).collect();
    let text = format!("qdisc add dev a root handle 1: htb default 1\n{classes}");
    check_bound("tc", &text, "lost the device has more than 4096 of them");
    let queue = |index: usize| format!("queue q{index} parent root bandwidth 1K\n");
    let queues: String = (0..4096).map(queue).collect();
    let text = format!("queue root on em0 bandwidth 1M default\n{queues}");
    check_bound("pf", &text, "W018 the file has more than 4096 queues");
    let words = format!("tc qdisc add dev a root pfifo\nx{}\n", " y".repeat(512));
    check_bound("tc", &words, "lost it has more than 512 words");
    let macros = format!("w = \"{}\"\n{}", "x ".repeat(1024), "set $w\n".repeat(1025));
    check_bound("pf", &macros, "W018 with macros the file has more than 1048576 words");
}

#[test]
fn bounds_of_rules() {
    // No two of these ports follow each other, so each is a case of its own.
    let list = |from: usize| (0..64).map(|at| format!("{} ", from + 2 * at)).collect::<String>();
    let rule = |at: usize| {
        let (from, to) = (list(1000), list(2000));
        format!("pass out proto tcp from 10.0.0.{at} port {{ {from}}} to port {{ {to}}} queue q\n")
    };
    let head = "altq on em0 priq bandwidth 1Mb queue q\nqueue q priq(default)\n";
    check_bound(
        "pf",
        &format!("{head}{}", rule(0)),
        "approximated only its first 1024 cases are kept",
    );
    let rules: String = (0..65).map(rule).collect();
    check_bound("pf", &format!("{head}{rules}"), "W018 the rules stand for more than 65536 cases");
}

#[test]
fn a_comment_may_end_a_file() {
    let language = import::find("pf").expect("it is a language");
    let text = "queue root on em0 bandwidth 1M default # the end";
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    assert_eq!(outcome.plan.map(|import| import.policies.len()), Some(1));
}

#[test]
fn a_note_is_written_once() {
    let language = import::find("tc").expect("it is a language");
    let text = "qdisc add dev a root handle 1: htb default 1\n\
                class add dev a parent 1: classid 1:1 htb rate 1mbit\n\
                filter add dev a parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff \
                police rate 1mbit burst 10k peakrate 2mbit peakrate 2mbit flowid 1:1\n";
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    let lines = outcome.plan.expect("a policy").lines;
    let notes: Vec<_> = lines.iter().filter(|line| line.note.contains("peakrate")).collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].note.matches("peakrate").count(), 1, "{}", notes[0].note);
}
