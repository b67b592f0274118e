//! `weir demo` as a user runs it: the real program, short, in its functional part. Whether the
//! promises on time and rates hold depends on other load of the machine; that all counts balance,
//! that voice loses nothing and that nothing is left behind does not. Without the privilege the
//! live tests are skipped, or fail if WEIR_REQUIRE_LIVE=1.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weir_testbed::rows::{self, Need};

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("demo", TESTS, &[Need::PrivateNetworks])
}

const TESTS: &[(&str, fn() -> rows::Outcome)] = &[
    ("live_and_simulated_balance_and_voice_loses_nothing", || {
        Ok(live_and_simulated_balance_and_voice_loses_nothing())
    }),
    ("the_page_of_a_run_has_what_the_run_tells_live_and_simulated", || {
        Ok(the_page_of_a_run_has_what_the_run_tells_live_and_simulated())
    }),
    ("an_interrupt_ends_it_cleanly", || Ok(an_interrupt_ends_it_cleanly())),
    ("the_printed_policy_is_accepted_by_the_program", || {
        Ok(the_printed_policy_is_accepted_by_the_program())
    }),
    ("a_measurement_too_short_or_too_long_is_refused_with_the_range", || {
        Ok(a_measurement_too_short_or_too_long_is_refused_with_the_range())
    }),
];

/// Starts the program.
fn demo(arguments: &[&str]) -> Child {
    command(arguments).spawn().expect("the program starts")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("demo").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts the program with a folder of its own for what it keeps while it runs.
fn demo_in(folder: &Path, arguments: &[&str]) -> Child {
    command(arguments).env("TMPDIR", folder).spawn().expect("the program starts")
}

/// Checks that of a demo that has ended no process and no file is left.
fn check_gone(process: u32, folder: &Path) {
    let own = process.to_string();
    let is_link = |arguments: &str| {
        let words: Vec<_> = arguments.split('\0').collect();
        words.windows(2).any(|pair| pair == ["--ends-with", own.as_str()])
    };
    let all = std::fs::read_dir("/proc").expect("Linux lists processes").flatten();
    let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| is_link(line)).count(), 0, "the link is gone");
    let left = std::fs::read_dir(folder).expect("it was just made").count();
    assert_eq!(left, 0, "files are gone");
}

/// Waits for its end and returns its output; kills it if it does not end.
fn finish(mut child: Child, patience: Duration) -> (ExitStatus, String, String) {
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status,
            None if start.elapsed() > patience => {
                child.kill().expect("a child can be killed");
                panic!("the demo did not end within {patience:?}");
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let (mut out, mut error) = (String::new(), String::new());
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("piped").read_to_string(&mut error).expect("text");
    (status, out, error)
}

/// Returns whether the program lacks the privilege, so that there is nothing to test.
fn is_skipped(error: &str) -> bool {
    let lacks = error.contains("private networks need");
    let required = std::env::var_os("WEIR_REQUIRE_LIVE").is_some_and(|value| value == "1");
    assert!(!(lacks && required), "{error}");
    if lacks {
        println!("skipped: {error}");
    }
    lacks
}

/// Returns the interfaces of this network.
fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").expect("Linux lists interfaces");
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    text.lines().filter_map(name).collect()
}

/// Checks what does not depend on other load, unless that delays the bridge altogether.
fn check_side(outcome: &Value, side: &str) {
    let totals = &outcome[side];
    assert_eq!(totals["conservation"]["holds"], true, "{totals}");
    assert!(totals["utilisation"].as_f64() > Some(0.8), "{totals}");
    assert_eq!(totals["web"]["failed"], 0, "{totals}");
    let voice = &outcome["classes"][0];
    assert_eq!(voice["name"], "voice");
    assert_eq!(voice[side]["dropped"], 0, "{voice}");
    assert!(voice[side]["sent"].as_u64() > Some(100), "{voice}");
}

fn live_and_simulated_balance_and_voice_loses_nothing() {
    let (before, folder) = (interfaces(), tempfile::tempdir().expect("a folder"));
    let child = demo_in(folder.path(), &["--seconds", "3", "--format", "json"]);
    let process = child.id();
    let (status, out, error) = finish(child, Duration::from_secs(60));
    if is_skipped(&error) {
        return;
    }
    assert!(matches!(status.code(), Some(0 | 1)), "{status}: {error}");
    let outcome: Value = serde_json::from_str(&out).expect("the outcome is JSON");
    check_side(&outcome, "simulated");
    if outcome["stalls"] == 0 {
        check_side(&outcome, "live");
        assert_eq!(outcome["listener"]["lost"], 0, "{}", outcome["listener"]);
        assert_eq!(outcome["later"]["set"]["voice_dropped"], 0, "{}", outcome["later"]);
    }
    check_later(&outcome["later"]);
    assert!(outcome["differences"].is_array(), "{outcome}");
    assert_eq!(outcome["live"]["conservation"]["holds"], true, "{}", outcome["live"]);
    let failed = outcome["checks"].as_array().expect("there are checks").iter();
    let failed = failed.filter(|check| check["held"] != true).count();
    assert_eq!(status.code(), Some(i32::from(failed > 0)), "{}", outcome["checks"]);
    assert_eq!(interfaces(), before);
    check_gone(process, folder.path());
}

/// Checks what was done to the link after the measurement, as far as it does not depend on other
/// load.
fn check_later(later: &Value) {
    let (set, explain, replay) = (&later["set"], &later["explain"], &later["replay"]);
    assert_eq!(set["classes"].as_array().map(Vec::len), Some(2), "{set}");
    assert!(set["what"].as_str().is_some_and(|what| what.contains("video rate")), "{set}");
    assert!(explain["sentence"].as_str().is_some_and(|text| text.starts_with("voice's packet")));
    let parts = explain["parts_ms"].as_object().expect("the delay has parts").values();
    let sum: f64 = parts.filter_map(Value::as_f64).sum();
    let total = explain["total_ms"].as_f64().expect("it waited");
    assert!(total > 0.0 && (sum - total).abs() < 1e-6, "{explain}");
    assert_eq!((&replay["identical"], &replay["changes"]), (&true.into(), &1.into()), "{replay}");
    assert!(replay["departures"].as_u64() > Some(100), "{replay}");
}

/// The page of a run has what its outcome tells, live and simulated.
fn the_page_of_a_run_has_what_the_run_tells_live_and_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = demo_in(folder.path(), &["--seconds", "3", "--view", "--format", "json"]);
    let process = child.id();
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || {
        let line = lines.next()?.expect("it is text");
        Some(serde_json::from_str::<Value>(&line).expect("each line is JSON"))
    };
    let Some(outcome) = line() else {
        let mut error = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut error).expect("text");
        child.wait().expect("a child can be waited for");
        assert!(is_skipped(&error), "{error}");
        return;
    };
    let served = line().expect("the address comes after the outcome");
    let url = served["url"].as_str().expect("an address").to_owned();
    let about = view(&url, "/view/about");
    assert_eq!(about["directions"][0]["name"], "forth", "{about}");
    let beside = view(&url, "/view/beside?direction=forth");
    for class in outcome["classes"].as_array().expect("classes") {
        let name = class["name"].as_str().expect("a name");
        for side in ["live", "simulated"] {
            let row = &beside[side][name];
            // From the end of the warm-up to that of the measurement: bins of 0.2 s.
            let row = row["sent_bps"].as_array().unwrap_or_else(|| panic!("{side} {name}: {row}"));
            assert!(row.len() >= 45, "{side} {name} has {} bins", row.len());
            let measured = row[10..25].iter().filter_map(Value::as_f64).sum::<f64>() / 15.0;
            let told = class[side]["rate_bps"].as_f64().expect("a rate");
            // Live, the traffic begins a moment after the record; a busy machine delays it.
            let slack = if side == "live" { 0.25 } else { 0.05 };
            assert!((measured / told - 1.0).abs() < slack, "{side} {name}: {measured}, {told}");
        }
    }
    // The rates that were set while it ran are those of both.
    let marks = view(&url, "/view/events");
    let kinds = marks.as_array().expect("a list").iter().map(|mark| &mark["kind"]);
    assert_eq!(kinds.filter(|kind| *kind == "policy-changed").count(), 1, "{marks}");
    for (class, grows) in [("video", true), ("bulk", false)] {
        let row = beside["simulated"][class]["sent_bps"].as_array().expect("bins");
        let mean =
            |part: &[Value]| part.iter().filter_map(Value::as_f64).sum::<f64>() / part.len() as f64;
        let (before, after) = (mean(&row[10..25]), mean(&row[row.len() - 10..row.len() - 1]));
        assert_eq!(after > before * 1.1, grows, "{class}: {before}, {after}");
        assert_eq!(after < before * 0.9, !grows, "{class}: {before}, {after}");
    }
    let kill = Command::new("kill").args(["-INT", &process.to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status,
            None if start.elapsed() > Duration::from_secs(60) => {
                child.kill().expect("a child can be killed");
                panic!("the page is served on after Ctrl-C");
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    check_gone(process, folder.path());
}

/// Asks the page at this address.
fn view(url: &str, path: &str) -> Value {
    let (address, token) = url.split_once("/#token=").expect("the address has the token");
    let host = address.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(host).expect("the page is served");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    serde_json::from_str(body).expect("it is JSON")
}

/// In the measurement, and while rates change.
fn an_interrupt_ends_it_cleanly() {
    let before = interfaces();
    thread::scope(|scope| {
        scope.spawn(|| check_interrupt("60", Duration::from_millis(1500)));
        scope.spawn(|| check_interrupt("1", Duration::from_millis(5000)));
    });
    assert_eq!(interfaces(), before);
}

fn check_interrupt(seconds: &str, after: Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let child = demo_in(folder.path(), &["--seconds", seconds]);
    let process = child.id();
    thread::sleep(after);
    let kill = Command::new("kill").args(["-INT", &process.to_string()]).status();
    let sent = kill.expect("kill runs").success();
    let (status, out, error) = finish(child, Duration::from_secs(60));
    if is_skipped(&error) {
        return;
    }
    assert!(sent, "the demo ended by itself: {error}");
    assert_eq!(status.code(), Some(130), "{error}");
    assert!(error.contains("interrupted") && out.is_empty(), "{out}{error}");
    check_gone(process, folder.path());
}

fn the_printed_policy_is_accepted_by_the_program() {
    let (status, policy, _) = finish(demo(&["--policy"]), Duration::from_secs(20));
    assert!(status.success());
    let path = std::env::temp_dir().join(format!("weir-demo-{}.toml", std::process::id()));
    std::fs::write(&path, policy).expect("a temporary file can be written");
    let check = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(&path).status();
    std::fs::remove_file(&path).expect("it was just written");
    assert!(check.expect("the program starts").success());
}

fn a_measurement_too_short_or_too_long_is_refused_with_the_range() {
    for seconds in ["0", "61", "x"] {
        let (status, _, error) = finish(demo(&["--seconds", seconds]), Duration::from_secs(20));
        assert_eq!(status.code(), Some(2), "{seconds}");
        assert!(error.contains(seconds) && (error.contains("1..=60") || seconds == "x"), "{error}");
    }
}
