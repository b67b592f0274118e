//! Sweeps of a small scenario: equal tables whatever did the runs, in which order, and however often
//! it was stopped.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_sweep::{Axis, Design, Done, Journal, Spec, Summary, Sweep, local, table};

const SCENARIO: &str = r#"
duration = "200 ms"
seed = 5
[policy]
link = { rate = "1 Mbit/s", scheduler = "drr" }
[policy.class.voice]
match = [{ dport = 5004 }]
[policy.class.rest]
default = true
[[source]]
name = "call"
kind = "poisson"
dport = 5004
size = "125 B"
rate = "200 kbit/s"
[[source]]
name = "flood"
kind = "poisson"
size = "1000 B"
rate = "2 Mbit/s"
"#;

fn spec(axes: &[(&str, Value)], replications: u64, metrics: &[&str]) -> Spec {
    let axis = |(key, values): &(&str, Value)| Axis {
        key: (*key).to_owned(),
        values: values.as_array().cloned().expect("a list"),
    };
    Spec {
        name: None,
        scenario: SCENARIO.to_owned(),
        files: BTreeMap::new(),
        design: Design { axes: axes.iter().map(axis).collect(), ..Design::default() },
        replications,
        metrics: metrics.iter().map(|name| (*name).to_owned()).collect(),
        seed: None,
        policy: None,
        trace: None,
    }
}

fn small() -> Sweep {
    let axes = [
        ("policy.link.rate", json!(["1 Mbit/s", "2 Mbit/s"])),
        ("source.flood.rate", json!(["500 kbit/s", "2 Mbit/s"])),
    ];
    let metrics = ["voice.delay.p99", "rest.rate", "link.utilisation", "source.flood.loss"];
    Sweep::new(spec(&axes, 3, &metrics)).expect("it can be run")
}

fn by_number(rows: Vec<Done>) -> BTreeMap<usize, Done> {
    rows.into_iter().map(|row| (row.run, row)).collect()
}

fn all(sweep: &Sweep) -> BTreeMap<usize, Done> {
    by_number(sweep.run(&(0..sweep.runs()).collect::<Vec<_>>(), &mut || ()))
}

/// A table in each form of this build.
const FORMS: &[&str] =
    if cfg!(feature = "parquet") { &["table.csv", "table.parquet"] } else { &["table.csv"] };

#[test]
fn a_run_depends_on_its_number_alone() {
    let sweep = Arc::new(small());
    let expected = all(&sweep);
    assert_eq!((sweep.runs(), sweep.seed()), (12, 5));
    for threads in [1, 3] {
        let batches = local::batches(&(0..12).rev().collect::<Vec<_>>(), 0.5, threads);
        let mut found = BTreeMap::new();
        let mut keep = |rows: Vec<Done>| {
            found.extend(by_number(rows));
            Ok(())
        };
        let never = AtomicBool::new(false);
        assert_eq!(local::run(&sweep, batches, threads, &never, &mut keep), Ok(()));
        assert_eq!(found, expected, "{threads} threads");
    }
}

#[test]
fn values_are_those_of_the_same_scenario_run_by_hand() {
    let sweep = small();
    let text = SCENARIO.replace("rate = \"2 Mbit/s\"", "rate = \"500 kbit/s\"");
    let read = |_: &Path| Err(std::io::Error::other("there is no file"));
    let parsed = weir_sim::read::parse(text.as_bytes(), "scenario.toml", &read);
    let mut scenario = parsed.plan.expect("it has no errors");
    scenario.seed = 7;
    let report = weir_sim::run(&scenario, &mut |_| ()).expect("it runs");
    let delay = report.class("voice").expect("it is there").delay.p99.as_nanos() as f64 / 1e9;
    // The first point, its third replication.
    let done = sweep.run(&[2], &mut || ());
    assert_eq!(done[0].values[0], Some(delay));
    assert_eq!(done[0].values[2], Some(report.link.utilisation));
}

#[test]
fn traces_are_values_as_others() {
    let behind = "[behind]\nrate = { trace = \"slow.csv\" }\nbuffer = \"200 ms\"\n[[source]]";
    let metrics =
        ["link.behind.used", "link.behind.p95", "link.behind.drops", "source.call.behind.p99"];
    let mut spec = spec(&[("behind.rate.trace", json!(["slow.csv", "fast.csv"]))], 1, &metrics);
    spec.scenario = spec.scenario.replacen("[[source]]", behind, 1);
    for (name, text) in [("slow.csv", "0,500\n100,250\n"), ("fast.csv", "0,9000\n100,8000\n")] {
        spec.files.insert(name.into(), text.as_bytes().to_vec());
    }
    let rows = all(&Sweep::new(spec).expect("it can be run"));
    let [slow, fast] = [&rows[&0], &rows[&1]].map(|done| {
        done.values.iter().map(|value| value.expect("it is measured")).collect::<Vec<_>>()
    });
    assert!(slow[0] > 0.8 && fast[0] < 0.3, "{} {}", slow[0], fast[0]);
    assert!(slow[1] > 0.05 && fast[1] < 0.01, "{} {}", slow[1], fast[1]);
    assert!(slow[2] > 0.0 && fast[2] == 0.0);
    assert!(slow[3] > fast[3]);
}

#[test]
fn a_trace_takes_the_place_of_the_capacity() {
    let behind = "[behind]\nrate = \"1 Mbit/s\"\nbuffer = \"200 ms\"\n[[source]]";
    let with = |trace: &str, behind: &str| {
        let mut spec = spec(&[], 1, &["link.behind.used"]);
        spec.scenario = spec.scenario.replacen("[[source]]", behind, 1);
        spec.trace = Some(trace.into());
        for (name, text) in [("slow.csv", "0,500\n100,250\n"), ("fast.csv", "0,9000\n100,8000\n")] {
            spec.files.insert(name.into(), text.as_bytes().to_vec());
        }
        spec.files.insert("none.csv".into(), b"a, b".to_vec());
        Sweep::new(spec).map(|sweep| all(&sweep)[&0].values[0].expect("it is measured"))
    };
    let [slow, fast] = ["slow.csv", "fast.csv"].map(|trace| with(trace, behind));
    assert!(slow.is_ok_and(|used| used > 0.8) && fast.is_ok_and(|used| used < 0.3));
    for (trace, behind, wanted) in [
        ("slow.csv", "[[source]]", "has no bottleneck for the trace slow.csv; write `[behind]`"),
        ("none.csv", behind, "none.csv: "),
        ("gone.csv", behind, "gone.csv is not among the files"),
    ] {
        assert!(with(trace, behind).is_err_and(|why| why.contains(wanted)), "{wanted}");
    }
}

#[test]
fn a_sweep_that_was_killed_goes_on_behind_its_last_whole_line() {
    FORMS.iter().for_each(|form| goes_on(form));
}

fn goes_on(form: &str) {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let sweep = small();
    let expected = all(&sweep);
    let whole = folder.path().join("whole").join(form);
    fs::create_dir(whole.parent().expect("it has a folder")).expect("it can be made");
    table::write(&whole, &sweep, &expected).expect("it can be written");
    let path = folder.path().join(form);
    let place = Journal::place(&path);
    let rows: Vec<Done> = expected.values().cloned().collect();
    let (mut journal, done) = Journal::open(&path, &sweep).expect("it can be made");
    assert!(done.is_empty());
    assert!(Journal::open(&path, &sweep).is_err_and(|why| why.contains("another sweep writes")));
    journal.add(&rows[..4]).expect("it can be written");
    journal.add(&rows[4..7]).expect("it can be written");
    drop(journal);
    let text = fs::read(&place).expect("it is there");
    let starts: Vec<usize> =
        (0..text.len()).filter(|&place| text[place] == b'\n').map(|place| place + 1).collect();
    // Killed after any byte: what is left of a line is done again, and nothing is there twice.
    for cut in 0..=text.len() {
        fs::write(&place, &text[..cut]).expect("it can be cut");
        let lines = starts.iter().filter(|&&start| start <= cut).count();
        let (mut journal, mut done) = Journal::open(&path, &sweep).expect("it is ours");
        assert_eq!(done.len(), [0, 0, 4, 7][lines], "after {cut} bytes");
        if cut % 97 != 0 {
            continue;
        }
        let left: Vec<usize> = (0..sweep.runs()).filter(|run| !done.contains_key(run)).collect();
        let again = sweep.run(&left, &mut || ());
        journal.add(&again).expect("it can be written");
        done.extend(by_number(again));
        table::write(&path, &sweep, &done).expect("it can be written");
        journal.remove().expect("it is there");
        assert_eq!(fs::read(&path).ok(), fs::read(&whole).ok(), "the tables are equal to the byte");
        assert_eq!(table::read(&path, &sweep), Ok(Some(expected.clone())));
        fs::remove_file(&path).expect("it is there");
    }
}

#[test]
fn the_runs_of_a_damaged_line_are_done_again_and_no_others() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let path = folder.path().join("table.csv");
    let place = Journal::place(&path);
    let sweep = small();
    let rows: Vec<Done> = all(&sweep).into_values().collect();
    let (mut journal, _) = Journal::open(&path, &sweep).expect("it can be made");
    rows.chunks(4).for_each(|batch| journal.add(batch).expect("it can be written"));
    drop(journal);
    let whole = fs::read(&place).expect("it is there");
    let head = whole.iter().position(|&byte| byte == b'\n').expect("it has a first line");
    for damaged in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 1 << (damaged % 7);
        fs::write(&place, bytes).expect("it can be written");
        let opened = Journal::open(&path, &sweep);
        if damaged <= head {
            let why = opened.expect_err("it cannot be told from another sweep's");
            assert!(why.contains("damaged; remove it"), "byte {damaged}: {why}");
            continue;
        }
        let (_, done) = opened.expect("it is ours");
        assert!(done.values().all(|row| rows[row.run] == *row), "byte {damaged}");
        // A line break that is damaged takes the next line with it.
        let lost = if whole[damaged] == b'\n' { 4..=8 } else { 4..=4 };
        assert!(lost.contains(&(rows.len() - done.len())), "byte {damaged}: {} left", done.len());
    }
}

#[test]
fn another_sweeps_journal_or_table_is_left_alone() {
    FORMS.iter().for_each(|form| is_left_alone(form));
}

fn is_left_alone(form: &str) {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let path = folder.path().join(form);
    let (one, other) = (small(), Sweep::new(spec(&[], 2, &["voice.rate"])).expect("it can be run"));
    assert_ne!(one.identity(), other.identity());
    drop(Journal::open(&path, &one).expect("it can be made"));
    let before = fs::read(Journal::place(&path)).expect("it is there");
    assert!(Journal::open(&path, &other).is_err_and(|why| why.contains("by another sweep")));
    assert_eq!(fs::read(Journal::place(&path)).ok(), Some(before));
    // Nor is a file that is none of ours, with a whole line or without.
    for text in ["precious notes", "precious notes\n"] {
        fs::write(Journal::place(&path), text).expect("it can be written");
        assert!(Journal::open(&path, &one).is_err_and(|why| why.contains("by another sweep")));
        assert_eq!(fs::read_to_string(Journal::place(&path)).ok().as_deref(), Some(text));
    }
    fs::remove_file(Journal::place(&path)).expect("it is there");
    fs::create_dir(Journal::place(&path)).expect("it can be made");
    assert!(Journal::open(&path, &one).is_err_and(|why| why.contains("no regular file")));
    table::write(&path, &one, &all(&one)).expect("it can be written");
    assert!(table::read(&path, &other).is_err_and(|why| why.contains("of another sweep")));
    fs::write(&path, "no table").expect("it can be written");
    let beside = folder.path().join("table.csv-metadata.json");
    fs::remove_file(&beside).ok();
    assert!(table::read(&path, &one).is_err_and(|why| why.contains("of another sweep")));
}

#[test]
fn a_table_with_a_damaged_bit_is_refused() {
    FORMS.iter().for_each(|form| is_refused_damaged(form, form));
    is_refused_damaged("table.csv", "table.csv-metadata.json");
}

/// One byte of so many is damaged; it has no factor of 2, so that each bit is.
const STEP: usize = 11;

/// Damages one file of a table, which is `form`.
fn is_refused_damaged(form: &str, file: &str) {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let (table, path) = (folder.path().join(form), folder.path().join(file));
    let sweep = small();
    table::write(&table, &sweep, &all(&sweep)).expect("it can be written");
    let whole = fs::read(&path).expect("it is there");
    let (mut tried, mut damaged) = (0, 0);
    // Other places with each commit.
    let seed = std::env::var("WEIR_SEED").unwrap_or_default();
    let first = u64::from_str_radix(&seed, 16).unwrap_or(0) as usize % STEP;
    for place in (first..whole.len()).step_by(STEP) {
        tried += 1;
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).expect("it can be written");
        let why = table::read(&table, &sweep).expect_err("a bit is another one");
        assert!(why.contains(form), "byte {place}: {why}");
        damaged += usize::from(why.contains("is damaged") && why.contains("remove it"));
    }
    // Where the place of the checksum itself cannot be found, it looks like a file of another kind.
    assert!(damaged * 2 > tried, "{damaged} of {tried}");
    fs::write(&path, whole).expect("it can be written");
    assert_eq!(table::read(&table, &sweep), Ok(Some(all(&sweep))));
}

#[test]
fn a_table_with_a_missing_run_is_not_written() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let path = folder.path().join("table.csv");
    let sweep = small();
    let mut done = all(&sweep);
    done.remove(&6);
    assert_eq!(table::write(&path, &sweep, &done), Err("run 6 is missing".to_owned()));
    assert!(!path.exists());
}

#[test]
fn a_point_that_cannot_be_run_has_its_findings_and_the_others_their_figures() {
    let axes = [("policy.link.scheduler", json!(["drr", "nosuch"]))];
    let sweep = Sweep::new(spec(&axes, 2, &["voice.rate"])).expect("one point can be run");
    let done = all(&sweep);
    assert_eq!(done.len(), 4);
    for run in 0..2 {
        assert!(done[&run].error.is_none() && done[&run].values[0].is_some());
        let error = done[&(run + 2)].error.as_deref().unwrap_or_default();
        assert!(error.contains("nosuch"), "{error}");
    }
    let summary = Summary::of(&sweep, &done);
    assert_eq!((summary.points[1].runs, summary.points[1].results[0]), (0, None));
}

#[test]
fn the_first_point_need_not_be_one_that_can_be_run() {
    let axes = [("policy.link.scheduler", json!(["nosuch", "drr"]))];
    let sweep = Sweep::new(spec(&axes, 1, &["voice.rate"])).expect("one point can be run");
    let done = all(&sweep);
    assert!(done[&0].error.is_some() && done[&1].values[0].is_some());
    let axes = [("policy.link.scheduler", json!(["nosuch", "neither"]))];
    let refused = Sweep::new(spec(&axes, 1, &["voice.rate"])).err().unwrap_or_default();
    assert!(refused.contains("nosuch"), "{refused}");
}

#[test]
fn findings_name_the_scenarios_file() {
    let axes = [("policy.link.scheduler", json!(["nosuch"]))];
    let refused = |spec| Sweep::new(spec).err().unwrap_or_default();
    let own = refused(spec(&axes, 1, &["voice.rate"]));
    assert!(own.contains("scenario.toml:"), "{own}");
    let named = Spec { name: Some("rush.toml".to_owned()), ..spec(&axes, 1, &["voice.rate"]) };
    let named = refused(named);
    assert!(named.contains("rush.toml:") && !named.contains("scenario.toml"), "{named}");
    let folder = tempfile::tempdir().expect("a place for temporary files");
    fs::write(folder.path().join("rush.toml"), SCENARIO).expect("it can be written");
    let path = folder.path().join("sweep.toml");
    let text = "scenario = 'rush.toml'\nreplications = 1\nmetrics = ['voice.rate']\n\
                [grid]\n'policy.link.scheduler' = ['nosuch']\n";
    fs::write(&path, text).expect("it can be written");
    let told = refused(weir_sweep::file::read(&path).expect("it can be read"));
    assert!(told.contains("rush.toml:") && !told.contains("scenario.toml"), "{told}");
}

/// Two links in a row: the second one is slow, and its policy is a file.
const NETWORK: &str = r#"
duration = "500 ms"
[[node]]
name = "host"
[[node]]
name = "router"
router = true
[[node]]
name = "server"
[[link]]
name = "lan"
ends = ["host", "router"]
policy = "both.toml"
[[link]]
name = "wan"
ends = ["router", "server"]
delay = "5 ms"
policy = "both.toml"   # the same
[[source]]
name = "flood"
kind = "cbr"
from = "host"
to = "server"
size = "1000 B"
rate = "2 Mbit/s"
"#;
const BOTH: &str = "[link]\nrate = \"4 Mbit/s\"\nscheduler = \"drr\"\n\n\
                    [class.bulk]\ndefault = true\n[class.bulk.queue]\nlimit = \"20 packets\"\n";

fn network(axes: &[(&str, Value)], metrics: &[&str]) -> Spec {
    let files = BTreeMap::from([("both.toml".into(), BOTH.as_bytes().to_vec())]);
    Spec { scenario: NETWORK.to_owned(), files, ..spec(axes, 1, metrics) }
}

#[test]
fn a_link_of_a_network_has_values_and_figures_of_its_own() {
    let axes = [("link.wan.policy.link.rate", json!(["4 Mbit/s", "1 Mbit/s"]))];
    let metrics = [
        "bulk.rate",
        "link.lan.bulk.loss",
        "link.wan.bulk.loss",
        "link.wan.utilisation",
        "link.wan.back.utilisation",
    ];
    let sweep = Sweep::new(network(&axes, &metrics)).expect("it can be run");
    let done = all(&sweep);
    let value = |run: usize, metric: usize| done[&run].values[metric].expect("it was measured");
    assert!(value(0, 0) > 1.9e6 && value(1, 0) > 1.9e6, "the first link is as it was: {done:?}");
    assert_eq!((value(0, 1), value(1, 1)), (0.0, 0.0));
    assert_eq!(value(0, 2), 0.0);
    assert!(value(1, 2) > 0.3 && value(1, 3) > 0.95 && value(1, 4) == 0.0, "{done:?}");
    let rows = [
        ("voice.rate", "no class `voice` at its main outlet; write `link.NAME.CLASS`"),
        ("link.wan.rate", "its classes have the others"),
        ("link.wan.bulk.utilisation", "only a link has this figure"),
        ("bulk.utilisation", "a class others"),
    ];
    for (metric, why) in rows {
        let refused = Sweep::new(network(&axes, &[metric])).err().unwrap_or_default();
        assert!(refused.contains(why), "{metric}: {refused}");
    }
}

#[test]
fn a_policy_takes_the_place_of_that_of_a_networks_link() {
    let text = BOTH.replace("bulk", "all");
    let place =
        |path: &str| Some(weir_sweep::Instead { path: path.to_owned(), text: text.clone() });
    let axes = [("policy.link.rate", json!(["1 Mbit/s"]))];
    let run = |metric: &str| {
        let spec = Spec { policy: place("./both.toml"), ..network(&axes, &[metric]) };
        Sweep::new(spec).map(|sweep| all(&sweep)[&0].values[0])
    };
    assert_eq!(run("link.lan.utilisation"), Ok(Some(1.0)), "it has this policy, and its rate");
    let spec = Spec { policy: place("both.toml"), ..network(&axes, &["link.utilisation"]) };
    let places = Sweep::new(spec).map(|sweep| sweep.places());
    assert_eq!(places, Ok(vec!["link.lan.".to_owned(), "link.wan.".to_owned()]));
    let refused = run("all.loss").expect_err("both links have it");
    assert!(refused.contains("several links have this policy"), "{refused}");
    let spec = Spec { policy: place("other.toml"), ..network(&axes, &["all.loss"]) };
    let refused = Sweep::new(spec).err().unwrap_or_default();
    assert!(refused.contains("none has other.toml; write `policy ="), "{refused}");
}

#[test]
fn what_is_found_names_the_lines_that_the_user_wrote() {
    let refused = |axes: &[(&str, Value)]| {
        let why = Sweep::new(network(axes, &["bulk.rate"])).err().unwrap_or_default();
        why.lines().map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    let wrong = refused(&[
        ("link.wan.policy.class.new", json!([{ "weight": 2 }])),
        ("link.wan.policy.class.bulk.queue.limit", json!(["5 parsec"])),
    ]);
    assert!(
        wrong[0].starts_with("with `link.wan.policy.class.new` = {\"weight\":2}, "),
        "{wrong:#?}"
    );
    assert!(wrong.iter().any(|line| line == "--> both.toml:8:9"), "{wrong:#?}");
    assert!(wrong.iter().any(|line| line.contains("both.toml has errors")), "{wrong:#?}");
    assert!(wrong.iter().all(|line| !line.contains("./both.toml")), "{wrong:#?}");
    let wrong = refused(&[("source.flood.start", json!(["1 s"])), ("link.lan.mtu", json!([7]))]);
    assert!(wrong.iter().any(|line| line.starts_with("--> scenario.toml:13:1")), "{wrong:#?}");
    let broken = Spec { scenario: "a = 1\nb = = 2\n".to_owned(), ..network(&[], &["bulk.rate"]) };
    let told = Sweep::new(broken).err().unwrap_or_default();
    assert!(told.contains("--> scenario.toml:2:5"), "{told}");
}

#[test]
fn by_whatever_name_a_scenario_goes_its_table_is_the_same() {
    // The second point cannot be run, and says why in the table.
    let axes = [("source.flood.rate", json!(["2 Mbit/s", "2 parsec"]))];
    let plain = spec(&axes, 1, &["rest.rate"]);
    let named = Spec { name: Some("rush.toml".to_owned()), ..plain.clone() };
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let [plain, named] = [("plain.csv", plain), ("named.csv", named)].map(|(file, spec)| {
        let (sweep, path) = (Sweep::new(spec).expect("it can be run"), folder.path().join(file));
        let done = all(&sweep);
        assert!(done[&1].error.is_some(), "{done:?}");
        table::write(&path, &sweep, &done).expect("it can be written");
        (sweep.identity().to_owned(), fs::read(path).expect("it was written"))
    });
    assert!(plain == named, "{} and {}", plain.0, named.0);
}

#[test]
fn warnings_are_told_once() {
    let axes = [("policy.class.voice.queue.limit", json!(["20 packets", "100 B"]))];
    let warnings = |spec| Sweep::new(spec).expect("it can be run").warnings().to_owned();
    assert_eq!(warnings(spec(&axes, 1, &["voice.rate"])), "");
    let axes = [("policy.class.voice.queue.limit", json!(["100 B"]))];
    let told = warnings(spec(&axes, 1, &["voice.rate"]));
    assert!(told.contains("100"), "{told}");
}

#[test]
fn what_cannot_be_swept_is_refused() {
    let pair = |one: (&str, _), other: (&str, _)| spec(&[one, other], 1, &["voice.rate"]);
    let rates = ("policy.class.voice.rate", json!(["1 Mbit/s", "2 Mbit/s"]));
    let quoted = ("policy.class.\"voice\".rate", json!(["3 Mbit/s"]));
    let rows: [(Spec, &str); 11] = [
        (spec(&[("\"seed\"", json!([1, 2]))], 1, &["voice.rate"]), "`seed` is no key to vary"),
        (pair(rates.clone(), quoted), "one would hide the other; vary one of them"),
        (
            pair(("policy", json!(["one.toml"])), rates),
            "`policy.class.voice.rate` lies in what `policy` replaces",
        ),
        (spec(&[("seed", json!([1, 2]))], 1, &["voice.rate"]), "`seed` is no key to vary"),
        (spec(&[], 1, &["voice.rate", "voice.rate"]), "two columns"),
        (
            spec(
                &[("source.call.dport", json!([1])), ("source.call.dport", json!([2]))],
                1,
                &["voice.rate"],
            ),
            "two columns",
        ),
        (spec(&[], 1, &["nosuch.rate"]), "no class `nosuch`"),
        (spec(&[], 1, &["voice.speed"]), "is no metric"),
        (spec(&[], 0, &["voice.rate"]), "one replication"),
        (spec(&[("source.nosuch.rate", json!([1]))], 1, &["voice.rate"]), "no `source` is called"),
        (spec(&[("policy.link.rate", json!(["5 mbps"]))], 1, &["voice.rate"]), "ambiguous"),
    ];
    for (spec, why) in rows {
        let refused = Sweep::new(spec).err().unwrap_or_default();
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

#[test]
fn a_sweep_that_is_too_large_is_refused_before_anything_is_read_or_made() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    // 64 axes of 1024 values and 2^63 replications: no product fits into a number.
    let long = json!(vec![1; 1024]);
    let keys: Vec<String> = (0..64).map(|place| format!("key{place}")).collect();
    let axes: Vec<(&str, Value)> = keys.iter().map(|key| (key.as_str(), long.clone())).collect();
    let rows = [
        (spec(&axes, 1, &["voice.rate"]), "points, and 1000000 are the most; give fewer values"),
        (spec(&axes[..2], 1, &["voice.rate"]), "the grid has 1048576 points, and 1000000 are"),
        (
            spec(&axes[..1], 1 << 63, &["voice.rate"]),
            "has 9444732965739290427392 runs, 9223372036854775808 replications of each of 1024 \
             points, and 10000000 are the most; write at most 9765 replications",
        ),
    ];
    for (spec, why) in rows {
        // Nothing of the scenario is looked at: it is no TOML.
        let spec = Spec { scenario: "[".to_owned(), ..spec };
        let gathered = spec.clone().gather(folder.path()).expect_err("it is too large");
        assert!(gathered.contains(why), "{why}: {gathered}");
        let made = Sweep::new(spec).err().unwrap_or_default();
        assert_eq!(made, gathered);
    }
    let path = folder.path().join("large.toml");
    let text = "scenario = 'none.toml'\nreplications = 5_000_000_000\nmetrics = ['a.rate']\n\
                [grid]\nduration = ['1 s']\n";
    fs::write(&path, text).expect("it can be written");
    let why = weir_sweep::file::read(&path).expect_err("it is too large");
    assert!(why.contains("large.toml: the sweep has 5000000000 runs"), "{why}");
}

#[test]
fn points_with_the_same_seeds_are_compared_run_by_run() {
    let rates = json!(["1 Mbit/s", "1001 kbit/s"]);
    let sweep = Sweep::new(spec(&[("policy.link.rate", rates)], 8, &["rest.delay.mean"]));
    let sweep = sweep.expect("it can be run");
    let summary = Summary::of(&sweep, &all(&sweep));
    let result = summary.points[1].results[0].expect("it was measured");
    let apart = result.within.expect("there are 8 runs");
    let paired = result.to_first_within.expect("there are 8 pairs");
    assert!(paired < apart / 4.0, "the same arrivals: {paired} beside {apart}");
    assert_eq!(summary.points[0].results[0].and_then(|row| row.to_first), Some(0.0));
}

#[test]
fn files_of_a_scenario_travel_with_it() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let policy =
        "link = { rate = '1 Mbit/s', scheduler = 'drr' }\nclass = { all = { default = true } }\n";
    for name in ["one.toml", "two.toml"] {
        fs::write(folder.path().join(name), policy).expect("it can be written");
    }
    let scenario = "policy = 'one.toml'\nduration = '1 s'\n[[source]]\nname = 'a'\nkind = 'cbr'\n\
                    size = '125 B'\nrate = '100 kbit/s'\n";
    let axes = [("policy", json!(["one.toml", "two.toml"]))];
    let spec = Spec { scenario: scenario.to_owned(), ..spec(&axes, 1, &["all.rate"]) };
    // Wherever it lies itself, they go by the paths that it has.
    let name = Some(folder.path().join("rush.toml").display().to_string());
    let spec = Spec { name, ..spec }.gather(folder.path()).expect("they are there");
    assert!(
        spec.files.keys().map(|path| path.as_path()).eq(["one.toml", "two.toml"].map(Path::new))
    );
    drop(folder);
    Sweep::new(spec.clone()).expect("it can be run");
    let sent = serde_json::to_string(&spec).expect("it is JSON");
    let there = Sweep::new(serde_json::from_str(&sent).expect("it is one")).expect("it can be run");
    let done = all(&there);
    assert_eq!(done[&0].values, done[&1].values);
    assert_eq!(done[&0].values, [Some(100_000.0)]);
}

#[test]
fn the_files_of_a_folder_are_the_values_of_an_axis() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it can be written");
    };
    fs::create_dir(folder.path().join("traces")).expect("it can be made");
    // The slower line comes second, and notes are no trace.
    write("traces/a.csv", "ms,kbit_s\n0,4000\n100,4000\n200,4000\n");
    write("traces/b.csv", "ms,kbit_s\n0,1000\n100,1000\n200,1000\n");
    write("traces/README.md", "whence");
    write("p.toml", "[link]\nrate = '8 Mbit/s'\nscheduler = 'fifo'\n[class.all]\ndefault = true\n");
    write(
        "s.toml",
        "policy = 'p.toml'\nduration = '1 s'\n[behind]\nrate = { trace = 'traces/a.csv' }\n\
         [[source]]\nname = 'flood'\nkind = 'cbr'\nrate = '6 Mbit/s'\nsize = '1000 B'\n",
    );
    let text = |folder: &str| {
        format!(
            "scenario = 's.toml'\nreplications = 1\nmetrics = ['link.behind.p95']\n[grid]\n\
             'behind.rate.trace' = {{ folder = '{folder}' }}\n"
        )
    };
    write("sweep.toml", &text("traces"));
    let path = folder.path().join("sweep.toml");
    let spec = weir_sweep::file::read(&path).expect("it can be read");
    assert_eq!(spec.design.axes[0].values, [json!("traces/a.csv"), json!("traces/b.csv")]);
    let sweep = Sweep::new(spec).expect("it can be run");
    let summary = Summary::of(&sweep, &all(&sweep));
    let late = |point: usize| summary.points[point].results[0].expect("it was measured").mean;
    assert!(late(1) > late(0), "{} s with the faster line, {} s", late(0), late(1));
    write("sweep.toml", &text("none"));
    assert!(weir_sweep::file::read(&path).is_err_and(|why| why.contains("none")));
}
