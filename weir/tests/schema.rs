//! `weir schema` compared with policies, and with the keys that the reader knows.
//!
//! Python's `jsonschema` validates, as an editor's checker would: a Rust library would take minutes
//! to build. Without it the tests that need it print so and pass, unless `WEIR_REQUIRE_JSONSCHEMA`
//! is set; the keys are compared in any case.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_core::classify::MatchOrder;
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched::SCHEDULERS;
use weir_policy::policy;

fn schema() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("schema").output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Returns the schema's objection to each value, if any; `None` without a validator.
fn objections(values: Vec<Value>) -> Option<Vec<Option<String>>> {
    let python = Command::new("python3")
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = python.ok().map(|mut python| {
        let input = serde_json::json!({ "schema": schema(), "values": values });
        let mut stdin = python.stdin.take().expect("it is piped");
        // Without the library the program ends before it reads.
        let _ = stdin.write_all(input.to_string().as_bytes());
        drop(stdin);
        python.wait_with_output().expect("it ends")
    });
    match output.filter(|output| output.status.code() != Some(NO_LIBRARY)) {
        Some(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(serde_json::from_slice(&output.stdout).expect("it is JSON"))
        }
        None => {
            let required = std::env::var_os("WEIR_REQUIRE_JSONSCHEMA").is_some();
            assert!(!required, "there is no python3 with jsonschema");
            println!("skipped: there is no python3 with jsonschema");
            None
        }
    }
}

const NO_LIBRARY: i32 = 77;
const VALIDATE: &str = "\
import json, sys
try:
    from jsonschema import Draft202012Validator as Validator
except ImportError:
    sys.exit(77)
given = json.load(sys.stdin)
Validator.check_schema(given['schema'])
validator = Validator(given['schema'])
first = lambda value: next((error.message[:300] for error in validator.iter_errors(value)), None)
print(json.dumps([first(value) for value in given['values']]))
";

/// Returns TOML as an editor's schema checker sees it.
fn value(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    json(toml::Value::Table(table))
}

fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Boolean(flag) => Value::from(flag),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Datetime(instant) => Value::from(instant.to_string()),
        toml::Value::Array(array) => array.into_iter().map(json).collect(),
        toml::Value::Table(table) => {
            let rows = table.into_iter().map(|(key, value)| (key, json(value)));
            Value::Object(rows.collect::<Map<_, _>>())
        }
    }
}

/// Returns the TOML files of a folder, with their texts.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let paths = fs::read_dir(folder).expect("it is in the tree");
    let paths = paths.map(|entry| entry.expect("it can be listed").path());
    let policies = paths.filter(|path| path.extension().is_some_and(|kind| kind == "toml"));
    policies.map(|path| (path.clone(), fs::read_to_string(path).expect("it is text"))).collect()
}

#[test]
fn policies_conform_and_other_files_do_not() {
    let folders =
        ["examples", "examples/promises", "examples/sim", "examples/walk", "examples/wisp"];
    let files: Vec<_> = folders.iter().flat_map(|folder| files(folder)).collect();
    let values: Vec<_> = files.iter().map(|(_, text)| value(text)).collect();
    // Deployments and scenarios are in the same folders.
    let is_policy = |value: &Value| value.get("link").is_some_and(Value::is_object);
    let policies: Vec<_> = values.iter().map(is_policy).collect();
    let count = policies.iter().filter(|is_policy| **is_policy).count();
    assert!(count >= 10 && policies.len() - count >= 6, "{count} of {}", policies.len());
    let Some(objections) = objections(values) else { return };
    for (((path, _), objection), is_policy) in files.iter().zip(objections).zip(policies) {
        assert_eq!(objection.is_none(), is_policy, "{}: {objection:?}", path.display());
    }
}

/// A trap is a policy that parses, and mostly beyond a schema's checks.
#[test]
fn traps_conform() {
    let files = files("weir-policy/tests/traps").into_iter();
    let mut traps: Vec<_> = files.map(|(path, text)| (path.display().to_string(), text)).collect();
    for (code, trap) in weir_policy::traps() {
        traps.push((code.id.to_owned(), trap.policy.to_owned()));
        traps.push((format!("{}, cured", code.id), trap.policy.replace(trap.replace, trap.by)));
    }
    let Some(objections) = objections(traps.iter().map(|(_, text)| value(text)).collect()) else {
        return;
    };
    for ((name, _), objection) in traps.iter().zip(objections) {
        assert_eq!(objection, None, "{name}");
    }
}

const RIGHT: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'htb'\nmtu = 1500\nrtt = '20 ms'\n\
                     [link.htb]\nr2q = 10\n\
                     [class.a]\nrate = '100 kbit/s'\nprio = 3\ndefault = true\ndelay = '9 s'\n\
                     arrival = { rate = '1 Mbit/s', burst = '3 KiB' }\nqueues = 8\nhash = 'full'\n\
                     police = { rate = '1 Mbit/s', depth = '9 KB', out = 'drop' }\n\
                     queue = { dropper = 'codel', target = '5 ms', limit = '9 packets' }\n\
                     match = [{ proto = 'udp', dport = 53, dscp = 46, src = '10.0.0.0/8' }]\n";

#[test]
fn wrong_policies_are_refused() {
    let rows = [
        // Unknown keys, in each table.
        ("[link]", "[link]\nraet = '1 Mbit/s'"),
        ("r2q", "q2r"),
        ("prio = 3", "priority = 3"),
        ("burst =", "brust ="),
        ("depth", "depht"),
        ("target", "traget"),
        ("dport", "dprot"),
        ("[link.htb]\nr2q = 10", "[link.cbq]"),
        ("[class.a]", "[klass.a]"),
        ("[class.a]", "[class.'a b']"),
        // Values of another type.
        ("'1 Mbit/s'\nscheduler", "10\nscheduler"),
        ("default = true", "default = 'yes'"),
        ("mtu = 1500", "mtu = true"),
        ("'9 s'\narrival", "9\narrival"),
        ("dscp = 46", "dscp = true"),
        ("src = '10.0.0.0/8'", "src = []"),
        ("match = [{", "match = [1, {"),
        // Unknown words and units, or of another dimension.
        ("'htb'", "'hbt'"),
        ("'codel'", "'codle'"),
        ("hash = 'full'", "hash = 'fill'"),
        ("'20 ms'", "'20 Mbit/s'"),
        ("'3 KiB'", "'3 mbps'"),
        ("'9 packets'", "'9 ms'"),
        // Numbers out of range.
        ("prio = 3", "prio = 9"),
        ("mtu = 1500", "mtu = 60"),
        ("queues = 8", "queues = 2049"),
        ("dscp = 46", "dscp = 64"),
        ("dport = 53", "dport = 65536"),
        ("r2q = 10", "r2q = 0"),
        // Missing keys.
        ("rate = '1 Mbit/s'\nscheduler", "scheduler"),
        ("'1 Mbit/s', burst", "'1 Mbit/s', bursts"),
    ];
    let wrong: Vec<String> = rows.iter().map(|(from, to)| RIGHT.replacen(from, to, 1)).collect();
    for text in &wrong {
        assert_ne!(text, RIGHT);
        // The refusal has a reason: the reader finds an error, too.
        assert!(policy::parse(text, "wrong").failed(), "{text}");
    }
    let right = policy::parse(RIGHT, "right");
    assert!(!right.failed(), "{:#?}", right.findings);
    let values = std::iter::once(RIGHT).chain(wrong.iter().map(String::as_str)).map(value);
    let Some(objections) = objections(values.collect()) else { return };
    assert_eq!(objections[0], None);
    for (text, objection) in wrong.iter().zip(&objections[1..]) {
        assert!(objection.is_some(), "{text}");
    }
}

/// Returns the keys that the reader lists for the unknown key `zzz`, by their table.
fn known(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let outcome = policy::parse(text, "p");
    let about = outcome.findings.iter().filter(|finding| finding.message.contains("`zzz`"));
    let row = |message: &str| {
        let (owner, rest) = message.split_once(" has no ").expect("the message has this form");
        let (_, list) = rest.split_once("; it has ").expect("the message has this form");
        let keys = list.split('`').skip(1).step_by(2).map(str::to_owned);
        (owner.to_owned(), keys.collect())
    };
    about.map(|finding| row(&finding.message)).collect()
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

#[test]
fn it_has_the_keys_that_the_reader_knows_and_no_others() {
    let schema = schema();
    for entry in SCHEDULERS {
        let keyword = entry.descriptor.keyword;
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = '{keyword}'\nzzz = 1\n\
             ['link'.'{keyword}']\nzzz = 1\n[class.a]\nzzz = 1\nmatch = [{{ zzz = 1 }}]\n"
        );
        let branches = schema["oneOf"].as_array().expect("it is one of several");
        let of_link = |branch: &Value| branch["properties"]["link"]["properties"].clone();
        let mut branches = branches.iter();
        let branch = branches.find(|branch| of_link(branch)["scheduler"]["const"] == keyword);
        let branch = branch.unwrap_or_else(|| panic!("{keyword} has no branch"));
        let link = of_link(branch);
        let mut class = keys(&branch["properties"]["class"]["additionalProperties"]["properties"]);
        // The reader knows these only if one of them is written.
        class.retain(|key| key != "hash" && key != "queues");
        let mut rule = keys(&schema["$defs"]["rule"]["properties"]);
        for order in MatchOrder::ALL {
            rule.retain(|key| order.sort_key().is_none_or(|row| row.0 != *key));
        }
        let wanted = [
            ("[link]".to_owned(), keys(&link)),
            (format!("[link.{keyword}]"), keys(&link[keyword]["properties"])),
            ("class `a`".to_owned(), class),
            ("a rule of class `a`".to_owned(), rule),
        ];
        let known = known(&text);
        assert_eq!(known.len(), wanted.len(), "{known:?}");
        for row in wanted {
            assert!(known.contains(&row), "{row:?} is not in {known:?}");
        }
    }
}

#[test]
fn it_has_the_parameters_of_queues_and_meters() {
    let schema = schema();
    let check = |key: &str, part: &str, keyword: &str, text: &str| {
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'fifo'\n[class.a]\ndefault = true\n{text}\n"
        );
        let branches = schema["$defs"][part]["anyOf"].as_array().expect("it is one of several");
        let branch = branches.iter().find(|row| row["properties"][key]["const"] == keyword);
        let wanted = keys(&branch.expect("each has its branch")["properties"]);
        assert_eq!(known(&text)[0].1, wanted, "{keyword}");
    };
    for row in DROPPERS {
        let keyword = row.keyword;
        check(
            "dropper",
            "queue",
            keyword,
            &format!("queue = {{ dropper = '{keyword}', zzz = 1 }}"),
        );
    }
    for row in METERS {
        let keyword = row.keyword;
        check("meter", "police", keyword, &format!("police = {{ meter = '{keyword}', zzz = 1 }}"));
    }
}
