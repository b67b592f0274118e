//! `weir check` as a user runs it: exit codes, text and JSON.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).output().expect("the binary runs")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Writes `text` to a file, in cargo's folder for this test.
fn file(name: &str, text: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder is there");
    path.display().to_string()
}

const FAULTY: &[u8] = b"[link]\nrate = '1 mbps'\nscheduler = 'drr'\n[class.a]\ndefault = true\n";

#[test]
fn the_exit_code_is_0_1_or_2() {
    let clean = root().join("examples/home.toml").display().to_string();
    let warned = FAULTY.to_vec();
    let warned = String::from_utf8(warned).expect("it is text").replace("1 mbps", "1 Mbit/s");
    let warned = file("warned.toml", format!("{warned}[class.b]\n").as_bytes());
    let rows: [(&[&str], i32); 6] = [
        (&["check", &clean], 0),
        (&["check", &warned], 0),
        (&["check", &file("faulty.toml", FAULTY)], 1),
        (&["check", &file("bytes.toml", b"\xff\xfe")], 1),
        (&["check", "no/such/file.toml"], 2),
        (&["chekc"], 2),
    ];
    for (arguments, code) in rows {
        let output = weir(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {output:?}");
        assert_eq!(output.stdout.is_empty(), code == 2, "{arguments:?} {output:?}");
        assert_eq!(output.stderr.is_empty(), code != 2, "{arguments:?} {output:?}");
    }
}

#[test]
fn the_kind_of_file_follows_from_its_keys() {
    let rows = [
        ("examples/home-cbq.toml", "policy"),
        ("examples/home.toml", "deployment"),
        ("examples/sim/md1.toml", "scenario"),
    ];
    for (example, kind) in rows {
        let output = weir(&["check", &root().join(example).display().to_string()]);
        let text = String::from_utf8(output.stdout).expect("it is text");
        assert!(text.contains(&format!("{example}: {kind}, 0 errors")), "{text}");
    }
}

#[test]
fn text_shows_code_place_excerpt_and_cure() {
    let name = file("shown.toml", FAULTY);
    let text = String::from_utf8(weir(&["check", &name]).stdout).expect("it is text");
    let place = format!("{name}:2:8");
    for part in
        ["error[W014]", &place, "rate = '1 mbps'", "1 Mbit/s", "1 MB/s", "1 error, 0 warnings"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Checks `value` against the part `schema` of `root`; supports only the words that our schema
/// uses.
fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let part = name.trim_start_matches('#');
        return conforms(value, root.pointer(part).expect("it is defined"), root);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.contains(value).then_some(()).ok_or(format!("{value} not in {words:?}"));
    }
    let named = match value {
        Value::Null => "null",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Bool(_) => "boolean",
    };
    let types = &schema["type"];
    let fits = types == named || types.as_array().is_some_and(|all| all.contains(&named.into()));
    if !fits {
        return Err(format!("{value} is not of type {types}"));
    }
    for element in value.as_array().into_iter().flatten() {
        conforms(element, &schema["items"], root)?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    let required = schema["required"].as_array().expect("objects name their keys");
    if object.len() != required.len() {
        return Err(format!("{value} has other keys than {required:?}"));
    }
    for key in required.iter().filter_map(Value::as_str) {
        let part = object.get(key).ok_or(format!("{value} has no {key}"))?;
        conforms(part, &schema["properties"][key], root)?;
    }
    Ok(())
}

#[test]
fn json_conforms_to_the_schema() {
    let schema = fs::read(root().join("docs/findings.schema.json")).expect("it is in the tree");
    let schema: Value = serde_json::from_slice(&schema).expect("it is JSON");
    let tree = "[link]\nrate = '1 Mbit/s'\nscheduler = 'htb'\n\
                [class.a]\nrate = '2 Mbit/s'\ndefault = true\n";
    let scenario: &[u8] = b"duration = '1 s'\n";
    let rows = [("j1.toml", FAULTY, 1), ("j2.toml", tree.as_bytes(), 1), ("j3.toml", scenario, 1)];
    for (name, text, findings) in rows {
        let output = weir(&["check", "--format", "json", &file(name, text)]);
        let value: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(conforms(&value, &schema, &schema), Ok(()));
        assert_eq!(value["errors"], findings);
    }
    assert!(conforms(&serde_json::json!({"file": 1}), &schema, &schema).is_err());
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let clean = root().join("examples/home.toml");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.arg("check").arg(clean).stdout(full).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.matches("cannot print").count(), 1, "{text}");
}

#[test]
fn bounds_of_a_deployment_are_printed_for_each_direction() {
    let example = root().join("examples/home.toml").display().to_string();
    let text =
        String::from_utf8(weir(&["check", "--bounds", &example]).stdout).expect("it is text");
    let json = weir(&["check", "--bounds", "--format", "json", &example]).stdout;
    let json: Value = serde_json::from_slice(&json).expect("it is JSON");
    let rows = json["bounds"].as_array().expect("there are rows");
    assert_eq!(json["kind"], "deployment");
    for row in rows {
        let [direction, class] = ["direction", "class"].map(|key| row[key].as_str().expect("text"));
        let names = |line: &&str| line.split_whitespace().take(2).eq([direction, class]);
        assert_eq!(text.lines().filter(names).count(), 1, "{direction} {class}: {text}");
        let known = row["at_least_bps"].as_f64() > Some(0.0);
        assert!(known || row["notes"]["at_least_bps"].is_string(), "{row}");
    }
    let ways: std::collections::BTreeSet<_> =
        rows.iter().filter_map(|row| row["direction"].as_str()).collect();
    assert_eq!(ways.len(), 2, "{ways:?}");
    let scenario = root().join("examples/sim/md1.toml").display().to_string();
    let refused = weir(&["check", "--bounds", &scenario]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
