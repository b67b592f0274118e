//! docs/lab-format.md describes each key of `[settings]` that a sheet has, and none that no code
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Keys = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_settings_of_every_sheet_are_described() {
    let described = described();
    let mut missing = BTreeSet::new();
    for sheet in sheets() {
        let text = fs::read_to_string(&sheet).expect("it is there");
        let sheet: toml::Table = text.parse().expect("it is TOML");
        let family = sheet.get("measure").and_then(toml::Value::as_str).unwrap_or_default();
        let settings = sheet.get("settings").and_then(toml::Value::as_table);
        let own = described.get(family);
        for (key, value) in settings.into_iter().flatten() {
            let is_described = |key: &str| own.is_some_and(|keys| keys.contains(key));
            collect(key, value, &is_described, &mut |key| {
                missing.insert(format!("{family}: {key}"));
            });
        }
    }
    assert!(missing.is_empty(), "docs/lab-format.md lacks {missing:#?}");
}

#[test]
fn what_is_described_is_read() {
    let described = described();
    assert!(described.len() >= 10, "{described:?}");
    for (family, keys) in described {
        let code = code(&family);
        assert!(code.contains(&format!("name: \"{family}\"")), "there is no family {family}");
        for key in keys {
            let parts = key.split('.').map(|part| part.trim_end_matches("[]"));
            for part in parts {
                // The keys of an era's rows are read by the name of the era.
                let is_era = ["historic", "sound"].contains(&part);
                let is_read = is_era && code.contains("run.setting(run.era.name())")
                    || [format!("{part}:"), format!("\"{part}\"")]
                        .iter()
                        .any(|text| code.contains(text.as_str()));
                assert!(is_read, "{family}: no code reads `{part}` of `{key}`");
            }
        }
    }
}

/// Tells each key that is not described; a table that is described as a whole has free keys.
fn collect(
    key: &str,
    value: &toml::Value,
    is_described: &dyn Fn(&str) -> bool,
    tell: &mut dyn FnMut(String),
) {
    let rows: Vec<&toml::Table> = match value {
        toml::Value::Table(table) => vec![table],
        toml::Value::Array(rows) => rows.iter().filter_map(toml::Value::as_table).collect(),
        _ => Vec::new(),
    };
    if is_described(key) {
        return;
    }
    if rows.is_empty() {
        return tell(key.to_owned());
    }
    let dots = if value.is_array() { "[]." } else { "." };
    for (name, value) in rows.into_iter().flatten() {
        collect(&format!("{key}{dots}{name}"), value, is_described, tell);
    }
}

/// Returns the keys of each family that the page describes.
fn described() -> Keys {
    let page = fs::read_to_string(root().join("docs/lab-format.md")).expect("it is there");
    let (_, part) = page.split_once("## The settings of each family").expect("it has this part");
    let part = part.split("\n## ").next().unwrap_or_default();
    let mut keys = Keys::new();
    let mut family = String::new();
    for line in part.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            name.clone_into(&mut family);
        }
        let cell = line.strip_prefix("| `").and_then(|rest| rest.split(" | ").next());
        let names = cell.unwrap_or_default().split("`, `").map(|name| name.trim_end_matches('`'));
        let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
        keys.entry(family.clone()).or_default().extend(names);
    }
    keys.remove("");
    keys
}

/// Returns the sheets of all papers.
fn sheets() -> Vec<PathBuf> {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let rows = fs::read_dir(path).expect("it can be listed");
        rows.map(|row| row.expect("it can be read").path()).filter(|path| path.is_dir()).collect()
    };
    let papers = folders(&root().join("papers"));
    let sheets = papers.iter().flat_map(|paper| folders(paper));
    let sheets: Vec<_> =
        sheets.map(|folder| folder.join("claims.toml")).filter(|path| path.is_file()).collect();
    assert!(sheets.len() > 80, "{sheets:?}");
    sheets
}

/// Returns the code of a family: its file, or those of its folder.
fn code(family: &str) -> String {
    let place = root().join("weir-lab/src/experiments").join(family.replace('-', "_"));
    let file = place.with_extension("rs");
    if file.is_file() {
        return fs::read_to_string(file).expect("it can be read");
    }
    let rows = fs::read_dir(place).expect("it is a folder");
    let files = rows.map(|row| row.expect("it can be read").path()).filter(|path| path.is_file());
    files.map(|path| fs::read_to_string(path).expect("it can be read")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
