//! Every trap that reading a policy reports has a policy with only this trap, and a cured one
//! without findings: `traps/CODE-slug.toml` and `traps/CODE-slug.cured.toml`. A lint has both in
//! its own file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weir_policy::finding::Finding;
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
