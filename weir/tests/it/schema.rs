//! `weir schema` compared with the examples, with the keys that the readers know, and with the
//! pages in `docs/reference/`.
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
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_core::classify::MatchOrder;
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched::SCHEDULERS;
use weir_policy::policy;

/// Prints a schema, or its page, as a user does.
fn printed(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("schema").args(arguments).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Returns the schema of policies.
fn schema() -> Value {
    schema_of("policy")
}

fn schema_of(kind: &str) -> Value {
    serde_json::from_slice(&printed(&[kind])).expect("it is JSON")
}

/// Returns the objection of the schema of policies to each value, if any; `None` without a
/// validator.
fn objections(values: Vec<Value>) -> Option<Vec<Option<String>>> {
    objections_of("policy", values)
}

/// As [`objections`], of the schema of a kind of file.
fn objections_of(kind: &str, values: Vec<Value>) -> Option<Vec<Option<String>>> {
    let python = Command::new("python3")
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = python.ok().map(|mut python| {
        let input = serde_json::json!({ "schema": schema_of(kind), "values": values });
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

/// Returns the kind of a file that is right.
fn kind(value: &Value) -> &'static str {
    let has = |key: &str| value.get(key).is_some();
    match value.get("link").is_some_and(Value::is_object) {
        true => "policy",
        false if has("deployment") => "deployment",
        false => "scenario",
    }
}

#[test]
fn every_example_conforms_to_the_schema_of_its_kind_and_to_no_other() {
    let folders =
        ["examples", "examples/promises", "examples/sim", "examples/walk", "examples/wisp"];
    let files: Vec<_> = folders.iter().flat_map(|folder| files(folder)).collect();
    let values: Vec<_> = files.iter().map(|(_, text)| value(text)).collect();
    for (wanted, least) in [("policy", 10), ("deployment", 2), ("scenario", 6)] {
        let count = values.iter().filter(|value| kind(value) == wanted).count();
        assert!(count >= least, "{count} of {wanted}");
        let Some(objections) = objections_of(wanted, values.clone()) else { return };
        for (((path, _), objection), value) in files.iter().zip(objections).zip(&values) {
            let conforms = kind(value) == wanted;
            assert_eq!(
                objection.is_none(),
                conforms,
                "{wanted}, {}: {objection:?}",
                path.display()
            );
        }
    }
}

/// The page of each kind is what the program prints, and `docs/reference/` has them.
#[test]
fn the_reference_is_what_the_schemas_say() {
    for kind in ["policy", "deployment", "scenario"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(kind);
        let path = path.with_extension("md");
        let found = fs::read_to_string(&path).unwrap_or_default();
        let wanted = String::from_utf8(printed(&[kind, "--markdown"])).expect("it is text");
        let cure = format!("weir schema {kind} --markdown > docs/reference/{kind}.md");
        assert!(found == wanted, "the page is old: {cure}");
        let rows = wanted.lines().filter(|line| line.starts_with("| `"));
        let bare: Vec<_> = rows.filter(|row| row.ends_with("|  |")).collect();
        assert!(bare.is_empty(), "keys without a meaning: {bare:#?}");
    }
}

/// Returns the keys of a schema's part, without those that the reader knows only sometimes.
fn keys_without(object: &Value, without: &[&str]) -> BTreeSet<String> {
    let mut keys = keys(object);
    keys.retain(|key| !without.contains(&key.as_str()));
    keys
}

/// Returns the keys that the reader of scenarios or deployments lists for `zzz`, by their table.
fn known_in(text: &str) -> Vec<(String, BTreeSet<String>)> {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("keys-{}.toml", FILES.fetch_add(1, Ordering::Relaxed));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder is there");
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.args(["check", "--format", "json"]).arg(&path).output();
    let output = output.expect("the program starts").stdout;
    let checked: Value = serde_json::from_slice(&output).expect("it is JSON");
    let messages = checked["findings"].as_array().into_iter().flatten();
    let messages = messages.filter_map(|finding| finding["message"].as_str());
    messages.filter(|message| message.contains("`zzz`")).map(listed).collect()
}

const NETWORK: &str = "duration = '1 s'\nzzz = 1\n[[node]]\nname = 'a'\nzzz = 1\n\
                       cpu = { zzz = 1 }\n[[node]]\nname = 'b'\n";
const LINKS: &str = "duration = '1 s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[link]]\n\
                     name = 'l'\nends = ['a', 'b']\nrate = '1 Mbit/s'\nzzz = 1\n[link.back]\n\
                     zzz = 1\n[link.driver]\nmodel = 'MODEL'\nzzz = 1\n";
const TAPS: &str = "duration = '1 s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[link]]\n\
                    name = 'l'\nends = ['a', 'b']\nrate = '1 Mbit/s'\n[[tap]]\nlink = 'l'\n\
                    zzz = 1\n[[change]]\nat = '1 ms'\nlink = 'l'\nzzz = 1\n";

const RSVP: &str = "duration = '1 s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[link]]\n\
                    name = 'l'\nends = ['a', 'b']\n[link.policy.link]\nrate = '9 Mbit/s'\n\
                    scheduler = 'htb'\n[link.policy.class.p]\nrate = '4 Mbit/s'\nplaces = 2\n\
                    [link.policy.class.x]\nparent = 'p'\nrate = '1 kbit/s'\nmatch = [{ dport = 9 }]\n\
                    [link.policy.class.y]\nrate = '4 Mbit/s'\ndefault = true\n[[source]]\n\
                    name = 's'\nkind = 'probe'\nfrom = 'a'\nto = 'b'\n[rsvp]\nclass = 'p'\n\
                    zzz = 1\n[[reservation]]\nflow = 's'\nrate = '1 Mbit/s'\nzzz = 1\n\
                    retune = [{ at = '1 ms', zzz = 1 }]\n";

#[test]
fn scenarios_have_the_keys_that_the_reader_knows_and_no_others() {
    let schema = schema_of("scenario");
    let top = &schema["properties"];
    let items = |table: &str| top[table]["items"]["properties"].clone();
    let found = |text: &str, owner: &str| {
        let known = known_in(text);
        let row = known.iter().find(|row| row.0 == owner);
        row.unwrap_or_else(|| panic!("{owner} is not in {known:?}")).1.clone()
    };
    let networks = ["node", "link", "tap", "rsvp", "reservation"];
    let rsvp = found(RSVP, "[rsvp]");
    assert_eq!(rsvp, keys(&top["rsvp"]["properties"]));
    assert_eq!(found(RSVP, "a reservation"), keys(&items("reservation")));
    let retune = items("reservation")["retune"]["items"]["properties"].clone();
    assert_eq!(found(RSVP, "a retune"), keys(&retune));
    assert_eq!(found("duration = '1 s'\nzzz = 1\n", "the file"), keys_without(top, &networks));
    assert_eq!(found(NETWORK, "the file"), keys(top));
    assert_eq!(found(NETWORK, "node `a`"), keys(&items("node")));
    assert_eq!(found(NETWORK, "the cpu"), keys(&items("node")["cpu"]["properties"]));
    assert_eq!(found(LINKS, "link `l`"), keys(&items("link")));
    let back = keys(&items("link")["back"]["properties"]);
    assert_eq!(found(&LINKS.replace("MODEL", "line"), "the way back of link `l`"), back);
    let mut driver = BTreeSet::new();
    for model in ["line", "en", "fxp"] {
        driver.extend(found(&LINKS.replace("MODEL", model), "the driver"));
    }
    assert_eq!(driver, keys(&items("link")["driver"]["properties"]));
    assert_eq!(found(TAPS, "a tap"), keys(&items("tap")));
    assert_eq!(found(TAPS, "`change`"), keys(&items("change")));
    let kinds = top["source"]["items"]["oneOf"].as_array().expect("it is one of several");
    for kind in kinds {
        let kind = &kind["properties"];
        let keyword = kind["kind"]["const"].as_str().expect("it has a keyword");
        let source = |more: &str| {
            let text = format!("[[source]]\nname = 'a'\nkind = '{keyword}'\nzzz = 1\n{more}");
            found(&format!("duration = '1 s'\n{text}"), "source `a`")
        };
        let mut known = source("");
        if keyword == "ttcp" {
            known.extend(source("transport = 'udp'\n"));
        }
        // The reader knows these only with others.
        let without: &[&str] = match keyword {
            "tcp" => &["from", "to", "distribution", "shape"],
            _ => &["from", "to"],
        };
        assert_eq!(known, keys_without(kind, without), "{keyword}");
    }
}

#[test]
fn deployments_have_the_keys_that_the_reader_knows_and_no_others() {
    let schema = schema_of("deployment");
    let top = &schema["properties"];
    let text = "zzz = 1\n[deployment]\nzzz = 1\nports = { a = 'x', b = { zzz = 1 } }\n[direction.x]\n\
                zzz = 1\n[deployment.alarm.y]\nzzz = 1\n[deployment.rsvp]\nzzz = 1\n";
    let direction = &top["direction"]["additionalProperties"]["properties"];
    let settings = &top["deployment"]["properties"];
    let port = &settings["ports"]["anyOf"][0]["additionalProperties"]["anyOf"][1];
    let wanted = [
        ("the file".to_owned(), keys(top)),
        ("[deployment]".to_owned(), keys(settings)),
        ("port `b`".to_owned(), keys(&port["properties"])),
        ("direction `x`".to_owned(), keys(direction)),
        ("alarm `y`".to_owned(), keys(&settings["alarm"]["additionalProperties"]["properties"])),
        ("[deployment.rsvp]".to_owned(), keys(&settings["rsvp"]["properties"])),
    ];
    assert_eq!(known_in(text), wanted);
}

#[test]
fn wrong_deployments_and_scenarios_are_refused() {
    let deployment = "[deployment]\nports = { a = 'x', b = { interface = 'y', loss = '1 %' } }\n\
                      wait = 'spin'\nlag_max = '5 ms'\nsojourn_max = 'none'\n\
                      watchdog = 'none'\nuser = 'weir'\ncontrol_group = 'adm'\n[deployment.alarm.a]\nwhen = 'x.loss > 1 %'\n\
                      for = '9 s'\nrun = ['/bin/x']\nwebhook = 'http://x'\n\
                      [direction.d]\nfrom = ['a']\nto = 'b'\npolicy = 'p.toml'\n";
    let scenario = "policy = 'p.toml'\nduration = '1 s'\n[[source]]\nname = 'a'\nkind = 'cbr'\n\
                    size = '64 B'\nrate = '1 Mbit/s'\n";
    type Changes = &'static [(&'static str, &'static str)];
    let rows: [(&str, &str, Changes); 2] = [
        (
            "deployment",
            deployment,
            &[
                (", b = { interface = 'y', loss = '1 %' }", ""),
                ("interface = 'y', ", ""),
                ("'1 %'", "'1 s'"),
                ("'none'", "'never'"),
                ("['a']", "[]"),
                ("'spin'", "'spun'"),
                ("watchdog = 'none'", "watchdog = 'forever'"),
                ("'weir'", "'we ir'"),
                ("when = 'x.loss > 1 %'", ""),
                ("'9 s'", "9"),
                ("['/bin/x']", "'/bin/x'"),
                ("'http://x'", "'x'"),
                ("'5 ms'", "5"),
                ("policy = 'p.toml'", ""),
                ("from", "form"),
            ],
        ),
        (
            "scenario",
            scenario,
            &[
                ("duration = '1 s'", ""),
                ("'cbr'", "'crb'"),
                ("'64 B'", "'64 ms'"),
                ("rate", "raet"),
                ("name = 'a'", ""),
            ],
        ),
    ];
    for (kind, right, wrong) in rows {
        let wrong = wrong.iter().map(|(from, to)| {
            assert!(right.contains(from), "{from}");
            value(&right.replacen(from, to, 1))
        });
        let values = std::iter::once(value(right)).chain(wrong).collect();
        let Some(objections) = objections_of(kind, values) else { return };
        assert_eq!(objections[0], None);
        let refused = objections[1..].iter().map(Option::is_some);
        assert!(
            refused.clone().all(|refused| refused),
            "{kind}: {:?}",
            refused.collect::<Vec<_>>()
        );
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
    about.map(|finding| listed(&finding.message)).collect()
}

/// Returns the table and its keys that a message about an unknown key names.
fn listed(message: &str) -> (String, BTreeSet<String>) {
    let (owner, rest) = message.split_once(" has no ").expect("the message has this form");
    let (_, list) = rest.split_once("; it has ").expect("the message has this form");
    let keys = list.split('`').skip(1).step_by(2).map(str::to_owned);
    (owner.to_owned(), keys.collect())
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
