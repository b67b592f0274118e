//! The answers about a place: rows for completion, hover, classes, outline and hints.

use crate::client::{Client, edited, uri};
use serde_json::{Value, json};

const PATH: &str = "/d/p.toml";
const POLICY: &str = r#"[link]
rate = "20 Mbit/s"
scheduler = "htb"

[class.line]
rate = "20 Mbit/s"

[class.voice]
parent = "line"
share = "15 %"
match = { proto = "udp", dport = "5004-5010" }

[class.voice.queue]
limit = "20 packets"

[class.rest]
parent = "line"
rate = "10 Mbit/s"
default = true

[[promise]]
that = "voice.delay.p99 < 5 ms"
under = "s.toml"
"#;
const SCENARIO: &str = "policy = \"p.toml\"\nduration = \"1 s\"\n\n[[source]]\nname = \"s\"\n\
                        kind = \"cbr\"\nclass = \"voice\"\nrate = \"1 Mbit/s\"\nsize = \"100 B\"\n";
const SWEEP: &str = "scenario = \"s.toml\"\nreplications = 1\nmetrics = [\"voice.delay.p99\"]\n\
                     [grid]\n\"policy.class.voice.share\" = [\"10 %\"]\n";
const FILES: &[(&str, &str)] = &[(PATH, POLICY), ("/d/s.toml", SCENARIO)];

/// Checks which labels are offered where a text ends at `|`.
fn check_completion(text: &str, wanted: &[&str]) {
    let mut client = Client::start(&[]);
    let plain = text.replacen('|', "", 1);
    client.open(PATH, &plain);
    let found = client.at("textDocument/completion", PATH, (&plain, text), json!({}));
    let labels: Vec<_> =
        found.as_array().expect("a list").iter().map(|one| &one["label"]).collect();
    assert_eq!(labels, wanted, "{text}");
}

#[test]
fn keys_words_names_and_units_are_completed() {
    check_completion("[link]\nsch|\n[class.a]\n", &["rate", "scheduler"]);
    check_completion("[link]\nscheduler = |\n[class.a]\n", &["htb", "drr"]);
    check_completion("[link]\nscheduler = \"|\"\n[class.a]\n", &["htb", "drr"]);
    let drr = "[link]\nscheduler = \"drr\"\n[class.a]\n";
    check_completion(&format!("{drr}q|"), &["default", "parent", "quantum", "queue"]);
    check_completion(&format!("{drr}queue = {{ |"), &["dropper", "limit"]);
    check_completion(&format!("{drr}queue = {{ dropper = \"red\", |"), &["min"]);
    check_completion(&format!("{drr}[class.b]\nparent = |"), &["a", "b"]);
    check_completion(&format!("{drr}default = |"), &["true", "false"]);
    check_completion(&format!("{drr}[cl|"), &["class", "link"]);
    check_completion(&format!("{drr}[class.|"), &["a"]);
    check_completion(
        "[link]\nrate = \"2|\n[class.a]\n",
        &[
            "2 bit/s",
            "2 kbit/s",
            "2 Mbit/s",
            "2 Gbit/s",
            "2 Tbit/s",
            "2 B/s",
            "2 kB/s",
            "2 MB/s",
            "2 GB/s",
            "10 Mbit/s",
        ],
    );
    let source = "duration = \"1 s\"\n[[source]]\nkind = \"cbr\"\n[[source]]\nkind = \"tcp\"\n";
    check_completion(&format!("{source}|"), &["mss"]);
    check_completion("# a rate|\n[link]\n", &[]);
}

#[test]
fn what_is_completed_replaces_what_was_typed() {
    let text = "[link]\nscheduler = \"h\"\n[class.a]\n";
    let mut client = Client::start(&[]);
    client.open(PATH, text);
    let found = client.at("textDocument/completion", PATH, (text, "\"h"), json!({}));
    let edits = json!([found[0]["textEdit"]]);
    assert_eq!(edited(text, &edits), text.replace("\"h\"", "\"htb\""));
}

/// Checks that the hover at a place contains every one of `wanted`.
fn check_hover(part: &str, wanted: &[&str]) {
    let mut client = Client::start(FILES);
    client.open(PATH, POLICY);
    let found = client.at("textDocument/hover", PATH, (POLICY, part), json!({}));
    let text = found["contents"]["value"].as_str().unwrap_or_default();
    assert!(wanted.iter().all(|word| text.contains(word)), "{part}: {found}");
}

#[test]
fn a_key_a_word_and_a_class_are_explained() {
    check_hover("20 Mbit", &["The rate of the line.", "It must be written."]);
    check_hover("scheduler = \"h|tb", &["scheduler `htb`:", "Source: "]);
    check_hover("sched|uler", &["Which class sends next."]);
    check_hover("rest]\nparent = \"li|ne", &["The class above it."]);
    check_hover("[class.vo|ice]", &["class `voice`", "| at least Mbit/s | 3.000 |", "delay ms"]);
}

/// Returns the lines from 1 of a list of locations, with the last letter of the file's stem.
fn lines(locations: &Value) -> Vec<String> {
    let row = |one: &Value| {
        let file = one["uri"].as_str().unwrap_or_default();
        let line = one["range"]["start"]["line"].as_u64().unwrap_or_default() + 1;
        format!("{}{line}", &file[file.len() - "x.toml".len()..file.len() - ".toml".len()])
    };
    locations.as_array().expect("a list").iter().map(row).collect()
}

#[test]
fn a_class_is_found_from_its_uses_and_they_from_it() {
    let mut client = Client::start(FILES);
    client.open(PATH, POLICY);
    client.open("/d/s.toml", SCENARIO);
    client.open("/d/w.toml", SWEEP);
    let rows = [
        ("/d/p.toml", POLICY, "parent = \"li|ne"),
        ("/d/p.toml", POLICY, "\"voi|ce.delay"),
        ("/d/s.toml", SCENARIO, "class = \"vo|ice"),
        ("/d/w.toml", SWEEP, "[\"voi|ce."),
        ("/d/w.toml", SWEEP, "class.vo|ice"),
    ];
    let wanted = ["p5", "p8", "p8", "p8", "p8"];
    for ((path, text, part), wanted) in rows.into_iter().zip(wanted) {
        let found = client.at("textDocument/definition", path, (text, part), json!({}));
        assert_eq!(lines(&found), [wanted], "{part}");
    }
    let mut uses = |declaration: bool| {
        let context = json!({ "context": { "includeDeclaration": declaration } });
        let found = client.at("textDocument/references", PATH, (POLICY, "[class.vo|ice]"), context);
        lines(&found)
    };
    assert_eq!(uses(true), ["p8", "p13", "p22", "s7", "w3", "w5"]);
    assert_eq!(uses(false), ["p22", "s7", "w3", "w5"]);
}

#[test]
fn a_class_is_renamed_in_every_file_that_uses_it() {
    let mut client = Client::start(FILES);
    client.open(PATH, POLICY);
    client.open("/d/w.toml", SWEEP);
    let mut rename = |part: &str, new: &str| {
        client.at("textDocument/rename", PATH, (POLICY, part), json!({ "newName": new }))
    };
    let found = rename("\"voi|ce.delay", "calls");
    for (path, text) in [(PATH, POLICY), ("/d/s.toml", SCENARIO), ("/d/w.toml", SWEEP)] {
        let new = edited(text, &found["changes"][uri(path)]);
        assert_eq!(new, text.replace("voice", "calls"), "{path}");
    }
    let found = rename("[class.vo|ice]", "über");
    let new = edited(POLICY, &found["changes"][uri(PATH)]);
    assert!(new.contains("[class.\"über\".queue]") && new.contains("\"über.delay"), "{new}");
    let refused = [
        ("[class.vo|ice]", "rest", "already"),
        ("[class.vo|ice]", "a b", "letters"),
        ("sched|uler", "x", "only classes"),
    ];
    for (part, new, why) in refused {
        let found = rename(part, new);
        assert!(found["error"].as_str().is_some_and(|text| text.contains(why)), "{found}");
    }
}

#[test]
fn the_outline_is_the_tree_of_classes() {
    fn shown(symbols: &Value) -> Vec<String> {
        let row = |one: &Value| {
            let below = shown(&one["children"]).join(", ");
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            format!("{} ({}) [{below}]", text("name"), text("detail"))
        };
        symbols.as_array().into_iter().flatten().map(row).collect()
    }
    let mut client = Client::start(FILES);
    client.open(PATH, POLICY);
    let params = json!({ "textDocument": { "uri": uri(PATH) } });
    let found = client.request("textDocument/documentSymbol", params);
    assert_eq!(
        shown(&found),
        [
            "link (20 Mbit/s htb) []",
            "line (20 Mbit/s) [voice (15 %) [], rest (10 Mbit/s) []]",
            "promise voice.delay.p99 < 5 ms () []",
        ]
    );
    let looped =
        "[class.a]\nparent = \"b\"\n[class.b]\nparent = \"a\"\n[class.c]\nparent = \"c\"\n";
    client.open("/d/x.toml", looped);
    let params = json!({ "textDocument": { "uri": uri("/d/x.toml") } });
    let found = client.request("textDocument/documentSymbol", params);
    assert_eq!(shown(&found), ["b () [a () []]", "c () []"]);
}

#[test]
fn hints_say_what_a_share_a_rule_and_a_class_come_to() {
    let mut client = Client::start(FILES);
    client.open(PATH, POLICY);
    let range = json!({
        "start": { "line": 6, "character": 0 }, "end": { "line": 11, "character": 0 },
    });
    let params = json!({ "textDocument": { "uri": uri(PATH) }, "range": range });
    let found = client.request("textDocument/inlayHint", params);
    let rows: Vec<_> = found
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            format!("{} {}", one["position"]["line"], one["label"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(
        rows[0].starts_with("7 delay ≤ ") && rows[0].ends_with("at least 3.000 Mbit/s"),
        "{rows:?}"
    );
    assert_eq!(rows[1..], ["9 = 3.000 Mbit/s", "10 (proto 17, dport 5004-5010)"]);
}
