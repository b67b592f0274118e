//! The documents and examples that go with the code.

use std::fs;
use std::path::{Path, PathBuf};
use weir_core::classify::services::SERVICES;
use weir_policy::finding::Severity;
use weir_policy::{deployment, every_code, file, policy, reader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the table of codes as docs/findings.md prints it.
fn table() -> String {
    let mut rows = String::from("| code | severity | what | source |\n| --- | --- | --- | --- |\n");
    for code in every_code() {
        let source = code.source.map_or_else(String::new, |source| format!("[{source}]"));
        rows += &format!("| {} | {} | {} | {source} |\n", code.id, code.severity, code.title);
    }
    rows
}

#[test]
fn every_code_is_in_the_document_with_its_meaning() {
    let document = fs::read_to_string(root().join("docs/findings.md")).expect("it is in the tree");
    let wanted = table();
    assert!(
        document.contains(&wanted),
        "docs/findings.md should hold this table; it must equal:\n{wanted}"
    );
}

#[test]
fn every_name_of_a_service_is_in_the_document() {
    let document = fs::read_to_string(root().join("docs/rules.md")).expect("it is in the tree");
    let (_, list) = document.split_once("## Names of services").expect("it has the section");
    let names: Vec<_> = SERVICES.iter().map(|(name, _)| format!("`{name}`")).collect();
    assert_eq!(list.split_whitespace().collect::<Vec<_>>().join(" "), names.join(", "));
}

#[test]
fn no_code_is_given_twice_and_all_are_in_order() {
    let ids: Vec<_> = every_code().iter().map(|code| code.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn every_example_is_clean() {
    let folders = ["examples", "examples/walk", "examples/wisp"];
    let listed = |folder| fs::read_dir(root().join(folder)).expect("it is in the tree");
    let mut count = 0;
    for entry in folders.into_iter().flat_map(listed) {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let bytes = file::read(&path).expect("it can be read");
        let name = path.display().to_string();
        let keys = reader::top_level(&bytes);
        let findings = if deployment::is_deployment(&keys) {
            deployment::parse(&bytes, &name, &|path| file::read(path)).findings
        } else if keys.iter().any(|key| key == "link") {
            policy::parse_bytes(&bytes, &name, None, &file::read).findings
        } else {
            // A scenario: the simulator's tests read it.
            continue;
        };
        let objections: Vec<_> =
            findings.iter().filter(|finding| finding.severity > Severity::Info).collect();
        assert!(objections.is_empty(), "{name}: {objections:#?}");
        count += 1;
    }
    assert!(count >= 8, "only {count} examples were found");
}
