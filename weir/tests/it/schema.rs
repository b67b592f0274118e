//! `weir schema` compared with the examples, with the keys that the readers know, and with the
//! pages in `docs/reference/`.
//!
//! Which files conform is a test of `weir-python`, which has a validator.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
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
        match keyword {
            "ttcp" => known.extend(source("transport = 'udp'\n")),
            "video" => known.extend(source("transport = 'tcp'\n")),
            _ => {}
        }
        // The reader knows these only with others.
        let without: &[&str] = match keyword {
            "tcp" | "quic" => &["from", "to", "distribution", "shape"],
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
