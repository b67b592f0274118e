//! Every trap that reading a policy reports has a policy with only this trap, and a cured one
//! without findings: `traps/CODE-slug.toml` and `traps/CODE-slug.cured.toml`. A lint has both in
//! its own file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weir_policy::finding::Finding;
use weir_policy::fix;
use weir_policy::{codes, file, parse, policy};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traps")
}

fn findings(name: &str) -> Vec<Finding> {
    let path = folder().join(name);
    let bytes = file::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    policy::parse_bytes(&bytes, name, None, &file::none).findings
}

/// Returns the names of the traps, without `.toml`.
fn traps() -> Vec<String> {
    let names = fs::read_dir(folder()).expect("it is in the tree");
    let names = names.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.map(|name| name.into_string().expect("it is text"));
    names
        .filter(|name| !name.ends_with(".cured.toml"))
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect()
}

#[test]
fn a_trap_is_the_only_finding_and_its_cure_leaves_none() {
    for trap in traps() {
        let found = findings(&format!("{trap}.toml"));
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        let wanted = trap.split('-').next().expect("it begins with a code");
        assert_eq!(codes, [wanted], "{trap}: {found:#?}");
        let cured = findings(&format!("{trap}.cured.toml"));
        assert!(cured.is_empty(), "{trap}, cured: {cured:#?}");
    }
}

#[test]
fn a_finding_has_place_and_cure() {
    for trap in traps() {
        let finding = findings(&format!("{trap}.toml")).remove(0);
        assert!(!finding.cure.is_empty(), "{trap}: {finding:#?}");
        assert!(finding.place.line > 1, "{trap}: {finding:#?}");
        // Errors of a kind of queue or of a promise have no source in the literature.
        let sourced = ["W113", "W120", "W121", "W122", "W123"];
        assert!(!sourced.contains(&&trap[..4]) || finding.source.is_some(), "{trap}");
    }
}

#[test]
fn every_trap_has_its_pair() {
    let with_pair: BTreeSet<_> = traps().iter().map(|trap| trap[..4].to_owned()).collect();
    let is_trap = |id: &str| matches!(id, "W113" | "W114") || ("W120".."W200").contains(&id);
    let codes = codes::ALL.iter().map(|code| code.id).filter(|id| is_trap(id));
    let without: Vec<_> = codes.filter(|id| !with_pair.contains(*id)).collect();
    assert!(without.is_empty(), "{without:?} have no policy in tests/traps");
}

#[test]
fn a_lint_finds_only_its_trap_and_its_cure_leaves_none() {
    for (code, trap) in weir_policy::traps() {
        let found = parse(trap.policy, code.id).findings;
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [code.id], "{found:#?}");
        assert_eq!(trap.policy.matches(trap.replace).count(), 1, "{}", code.id);
        let cured = parse(&trap.policy.replace(trap.replace, trap.by), code.id).findings;
        assert!(cured.is_empty(), "{}, cured: {cured:#?}", code.id);
    }
}

#[test]
fn a_finding_of_a_lint_has_place_cure_source_and_figure() {
    for (code, trap) in weir_policy::traps() {
        let finding = parse(trap.policy, code.id).findings.remove(0);
        assert!(!finding.cure.is_empty(), "{finding:#?}");
        assert!(finding.place.line > 1, "{finding:#?}");
        assert_eq!(finding.source, code.source, "{finding:#?}");
        let has_figure = finding.message.chars().any(|c| c.is_ascii_digit());
        assert!(has_figure || code.source.is_none(), "{finding:#?}");
    }
}

/// Cures that a person must choose, with what there is to choose.
const CHOSEN: &[(&str, &str)] = &[
    ("W113", "which of the rates is too high"),
    ("W114", "whether the ceiling or the rate is meant"),
    ("W120", "which packets go to the class, or that there is none"),
    ("W121", "whether the rule goes before the earlier one, or away"),
    ("W122", "which of the conditions is not intended"),
    ("W140", "fewer classes, smaller turns, a longer delay or another scheduler"),
    ("W144", "a shorter queue, or arrivals, which only their sender knows"),
    ("W145", "a policer, arrivals, which only their sender knows, or another priority"),
    ("W146", "a longer delay, or which class gives up some of its rate"),
    ("W147", "arrivals, which only their sender knows, or another scheduler"),
    ("W150", "what is promised"),
    ("W151", "the class that is meant"),
    ("W152", "which class gives up some of its slopes"),
    ("W153", "whether the curves or the limit are meant"),
    ("W158", "whether the link's rate or those of its classes are meant"),
    ("W159", "whether both kinds of sender are to share the class"),
    ("W168", "whether its senders are to be told by marks, or L4S is to have a queue there, too"),
    ("W154", "a longer delay, or the longest packet, which only its sender knows"),
    ("W160", "the list is another file"),
    ("W161", "the column that is meant; the list is another file"),
    ("W162", "the plan that is meant; the list is another file"),
    ("W163", "the value of the row; the list is another file"),
    ("W164", "another name; the list is another file"),
    ("W165", "another address; the list is another file"),
    ("W166", "another place"),
    ("W167", "the class that is meant, or that the exception goes"),
];

#[test]
fn each_fix_of_a_trap_removes_it_and_others_are_chosen_by_a_person() {
    let of_lints =
        weir_policy::traps().map(|(code, trap)| (code.id.to_owned(), trap.policy.into()));
    let of_files = traps().into_iter().map(|name| {
        let path = folder().join(format!("{name}.toml"));
        (name[..4].to_owned(), fs::read_to_string(path).expect("it is in the tree"))
    });
    for (code, text) in of_lints.chain(of_files) {
        let check = |text: &str| parse(text, &code).findings;
        let found = check(&text);
        let finding = found.iter().find(|finding| finding.code == code);
        // Lists are not read here.
        let fixes = finding.map_or(&[][..], |finding| &finding.fixes);
        let is_chosen = CHOSEN.iter().any(|row| row.0 == code);
        let rule = "a trap has a fix, or a row in CHOSEN";
        assert_eq!(fixes.is_empty(), is_chosen, "{code}: {rule}: {found:#?}");
        for fix in fixes {
            let cured = fix::cured((&text, &found), &found[0], fix, &check);
            let cured = cured.unwrap_or_else(|| panic!("{code}: {fix:?} does not cure it"));
            assert!(check(&cured).iter().all(|other| other.code != code), "{code}: {cured}");
        }
    }
}

/// Checks that the first fix of the only finding makes `wanted` of `part` of a policy.
fn check_fix(part: &str, wanted: &str) {
    let policy = format!("[link]\nrate = \"9 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\n{part}\n");
    let found = parse(&policy, "p").findings;
    let fix = found.first().and_then(|finding| finding.fixes.first());
    let fix = fix.unwrap_or_else(|| panic!("{part} has no fix: {found:#?}"));
    let cured = fix.apply(&policy).expect("it is an edit of this text");
    assert_eq!(cured, policy.replace(part, wanted), "{part}");
    assert!(parse(&cured, "p").findings.is_empty(), "{cured}");
}

#[test]
fn all_fixes_that_leave_nothing_to_choose_are_made_at_once() {
    let text = "[link]\nrate = \"9 mbps\"\nschedular = \"htb\"\nmtu = \"1500 B\"\n[class.a]\n\
                rate = \"9 Mbit/s\"\nceil = \"90 Mbit/s\"\nzzzzzzz = 1\ndefault = true\n";
    let check = |text: &str| parse(text, "p").findings;
    // Bits or bytes are a person's choice, and so is what may go.
    let (once, fixed) = fix::all(text, &check);
    assert_eq!(fixed.len(), 1, "{fixed:?}");
    assert!(fixed[0].starts_with("3: ") && fixed[0].contains("scheduler"), "{fixed:?}");
    assert!(once.contains("zzzzzzz = 1") && once.contains("9 mbps"), "{once}");
}

#[test]
fn what_reading_a_value_finds_has_its_fix() {
    let rate = "rate = \"9 Mbit/s\"\ndefault = true";
    check_fix(&format!("{rate}\nquee = {{}}"), &format!("{rate}\nqueue = {{}}"));
    check_fix(&format!("{rate}\nzzzzzzz = 3 # what"), rate);
    check_fix(&format!("{rate}\nqueue = {{ zzzzzzz = 3 }}"), &format!("{rate}\nqueue = {{  }}"));
    check_fix("rate = \"9 mbps\"\ndefault = true", rate);
    check_fix("rate = \"9 Mbit\"\ndefault = true", rate);
    check_fix(&format!("{rate}\nshare = \"10 %\""), rate);
    let queue = |word: &str| format!("{rate}\nqueue = {{ dropper = \"{word}\" }}");
    check_fix(&queue("tial"), &queue("tail"));
}

/// Checks in how many findings W148 is reported below a link of 20 Mbit/s, and parts of the first
/// one's message and cure.
fn check_lenders(classes: &str, count: usize, says: [&str; 2]) {
    let text = format!("[link]\nrate = \"20 Mbit/s\"\nscheduler = \"htb\"\n{classes}");
    let found = parse(&text, "p").findings;
    let found: Vec<_> = found.iter().filter(|finding| finding.code == "W148").collect();
    assert_eq!(found.len(), count, "{text}{found:#?}");
    let Some(first) = found.first() else { return };
    assert!(first.message.contains(says[0]), "{first:#?}");
    assert!(first.cure.contains(says[1]), "{first:#?}");
}

#[test]
fn ceilings_that_no_class_above_lends_are_found() {
    let class = |name: &str, parent: &str, rates: &str| {
        let parent = if parent.is_empty() { "" } else { &format!("parent = \"{parent}\"\n") };
        let rule = match name {
            "a" => "match = { dport = 80 }\n",
            "b" => "default = true\n",
            _ => "",
        };
        format!("[class.{name}]\n{parent}{}\n{rule}", rates.replace(", ", "\n"))
    };
    let rate = |mbit: u32| format!("rate = \"{mbit} Mbit/s\"");
    let both = |own: u32, ceil: u32| format!("{}, ceil = \"{ceil} Mbit/s\"", rate(own));
    let leaves = |parent: &str, ceil: u32| {
        class("a", parent, &both(4, ceil)) + &class("b", parent, &both(5, ceil))
    };
    let line = |rates: &str, ceil: u32| class("line", "", rates) + &leaves("line", ceil);
    let says = ["`line` above it names no ceil", "write `rate = \"20 Mbit/s\"` in `line`, or"];
    check_lenders(&line(&rate(10), 20), 1, says);
    check_lenders(&line(&rate(10), 11), 1, ["50 %", "at most 10 Mbit/s"]);
    // Nothing above lends less than they hope for; or it names its own ceil.
    check_lenders(&line(&rate(10), 10), 0, [""; 2]);
    check_lenders(&line(&rate(20), 20), 0, [""; 2]);
    check_lenders(&line(&rate(20), 30), 0, [""; 2]);
    check_lenders(&line(&both(10, 20), 20), 1, ["class `line`: it never reaches", "add"]);
    // The class between names none, and the one above it could lend.
    let between = class("line", "", &rate(20)) + &class("mid", "line", &rate(10));
    let says = ["`mid` above it", "write `ceil = \"15 Mbit/s\"` in `mid`, or"];
    check_lenders(&(between.clone() + &leaves("mid", 15)), 1, says);
    let named = class("line", "", &rate(20)) + &class("mid", "line", &both(10, 15));
    check_lenders(&(named + &leaves("mid", 15)), 0, [""; 2]);
    // Two trees: both want a parent.
    let other = class("other", "", &rate(10)) + &class("c", "other", &both(9, 20));
    let other = other + "match = { dport = 81 }\n";
    let says = ["`line` above it", "`ceil = \"20 Mbit/s\"` in `line`, and add `[class.link]`"];
    check_lenders(&(line(&rate(10), 20) + &other), 2, says);
}

/// A cake always marks, and knows no L4S.
#[test]
fn a_cake_marks_as_for_classic_senders() {
    let policy = |first: &str, second: &str| {
        format!(
            "[link]\nrate = '40 Mbit/s'\nscheduler = 'drr'\n[class.a]\n{first}\n\
             queue = {{ dropper = 'cake' }}\n[class.rest]\ndefault = true\n{second}\n"
        )
    };
    let rows = [
        ("match = { ecn = 'ect1' }", "", "W159"),
        ("match = { dport = 443 }", "queue = { dropper = 'dualpi2' }", "W168"),
    ];
    for (first, second, code) in rows {
        let found = parse(&policy(first, second), "p").findings;
        let own: Vec<_> = found.iter().filter(|one| one.code == code).collect();
        assert!(own.len() == 1 && !own[0].cure.contains("ecn = false"), "{code}: {found:#?}");
    }
}
