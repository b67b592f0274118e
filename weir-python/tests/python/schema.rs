//! Which files the schemas of `weir schema` take: each right one, and none that is wrong.
//!
//! Python's `jsonschema` validates, as an editor's checker would: a Rust library would take long to
//! build.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};
use weir_policy::policy;
use weir_testbed::rows::{Completion, Failed, Row};

use crate::{installed, is_required, program};

type Test = fn(&Validator) -> Result<(), Failed>;

const TESTS: &[(&str, Test)] = &[
    ("every_example_conforms_to_the_schema_of_its_kind_and_to_no_other", examples_conform),
    ("traps_conform", traps_conform),
    ("wrong_policies_are_refused", wrong_policies),
    ("wrong_deployments_and_scenarios_are_refused", wrong_deployments_and_scenarios),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    TESTS.iter().map(|(name, test)| Row::ignorable(format!("schema::{name}"), move || run(*test)))
}

fn run(test: Test) -> Result<Completion, Failed> {
    match Validator::new() {
        Ok(validator) => test(&validator).map(|()| Completion::Completed),
        Err(why) if is_required() => Err(why.into()),
        Err(why) => Ok(Completion::ignored_with(why)),
    }
}

/// The command whose schemas are tried, and a Python that has the library.
struct Validator {
    weir: PathBuf,
    python: PathBuf,
}

impl Validator {
    fn new() -> Result<Self, String> {
        let weir = program().ok_or("needs the command `weir`: cargo build -p weir")?;
        let (python, _) = installed().as_ref()?;
        let output = Command::new(python).args(["-c", "import jsonschema"]).output();
        let has_library = output.is_ok_and(|output| output.status.success());
        if !has_library {
            return Err("needs jsonschema".to_owned());
        }
        Ok(Self { weir, python: python.clone() })
    }

    /// Returns the objection of the schema of a kind of file to each value, if any.
    fn objections(&self, kind: &str, values: Vec<Value>) -> Result<Vec<Option<String>>, Failed> {
        let output = Command::new(&self.weir).args(["schema", kind]).output()?;
        assert!(output.status.success(), "{output:?}");
        let schema: Value = serde_json::from_slice(&output.stdout)?;
        let mut python = Command::new(&self.python);
        python.args(["-c", VALIDATE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.stderr(Stdio::piped()).spawn()?;
        let input = serde_json::json!({ "schema": schema, "values": values });
        let mut stdin = python.stdin.take().expect("it is piped");
        stdin.write_all(input.to_string().as_bytes())?;
        drop(stdin);
        let output = python.wait_with_output()?;
        assert!(output.status.success(), "{output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

const VALIDATE: &str = "\
import json, sys
from jsonschema import Draft202012Validator as Validator
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

fn examples_conform(validator: &Validator) -> Result<(), Failed> {
    let folders =
        ["examples", "examples/promises", "examples/sim", "examples/walk", "examples/wisp"];
    let files: Vec<_> = folders.iter().flat_map(|folder| files(folder)).collect();
    let values: Vec<_> = files.iter().map(|(_, text)| value(text)).collect();
    for (wanted, least) in [("policy", 10), ("deployment", 2), ("scenario", 6)] {
        let count = values.iter().filter(|value| kind(value) == wanted).count();
        assert!(count >= least, "{count} of {wanted}");
        let objections = validator.objections(wanted, values.clone())?;
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
    Ok(())
}

fn wrong_deployments_and_scenarios(validator: &Validator) -> Result<(), Failed> {
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
        let objections = validator.objections(kind, values)?;
        assert_eq!(objections[0], None);
        let refused = objections[1..].iter().map(Option::is_some);
        assert!(
            refused.clone().all(|refused| refused),
            "{kind}: {:?}",
            refused.collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// A trap is a policy that parses, and mostly beyond a schema's checks.
fn traps_conform(validator: &Validator) -> Result<(), Failed> {
    let files = files("weir-policy/tests/traps").into_iter();
    let mut traps: Vec<_> = files.map(|(path, text)| (path.display().to_string(), text)).collect();
    for (code, trap) in weir_policy::traps() {
        traps.push((code.id.to_owned(), trap.policy.to_owned()));
        traps.push((format!("{}, cured", code.id), trap.policy.replace(trap.replace, trap.by)));
    }
    let values = traps.iter().map(|(_, text)| value(text)).collect();
    let objections = validator.objections("policy", values)?;
    for ((name, _), objection) in traps.iter().zip(objections) {
        assert_eq!(objection, None, "{name}");
    }
    Ok(())
}

const RIGHT: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'htb'\nmtu = 1500\nrtt = '20 ms'\n\
                     [link.htb]\nr2q = 10\n\
                     [class.a]\nrate = '100 kbit/s'\nprio = 3\ndefault = true\ndelay = '9 s'\n\
                     arrival = { rate = '1 Mbit/s', burst = '3 KiB' }\nqueues = 8\nhash = 'full'\n\
                     police = { rate = '1 Mbit/s', depth = '9 KB', out = 'drop' }\n\
                     queue = { dropper = 'codel', target = '5 ms', limit = '9 packets' }\n\
                     match = [{ proto = 'udp', dport = 53, dscp = 46, src = '10.0.0.0/8' }]\n";

fn wrong_policies(validator: &Validator) -> Result<(), Failed> {
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
    let objections = validator.objections("policy", values.collect())?;
    assert_eq!(objections[0], None);
    for (text, objection) in wrong.iter().zip(&objections[1..]) {
        assert!(objection.is_some(), "{text}");
    }
    Ok(())
}
