//! `weir demo` as a user runs it: the real program, short, in its functional part. Whether the
//! promises on time and rates hold depends on the machine; that all counts balance, that what is
//! told agrees and that nothing is left behind does not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use weir_control::client;
use weir_control::protocol::Query;
use weir_link::status::Status;
use weir_testbed::rows::{self, Need, Outcome, Row};
use weir_testbed::{Ended, Process, Result, until_ok};

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    let live = rows::table("demo", TESTS, &[Need::PrivateNetworks]);
    live.chain(rows::table("demo", WITHOUT_NETWORKS, &[]))
}

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("live_and_simulated_balance", live_and_simulated_balance),
    ("the_page_of_a_run_has_what_the_run_tells_live_and_simulated", the_page_has_what_is_told),
    ("a_link_to_play_with_has_traffic_in_each_class_until_an_interrupt", play_goes_on),
    ("an_interrupt_of_the_measurement_ends_it_cleanly", || check_interrupt("60", measures)),
    ("an_interrupt_after_rates_were_set_ends_it_cleanly", || check_interrupt("1", has_changed)),
];

const WITHOUT_NETWORKS: &[Test] = &[
    ("the_printed_policy_is_accepted_by_the_program", the_printed_policy_is_accepted),
    ("a_measurement_too_short_or_too_long_is_refused_with_the_range", a_wrong_time_is_refused),
];

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("demo").args(arguments);
    command
}

/// Starts the program with a folder of its own for what it keeps while it runs.
fn demo_in(folder: &Path, arguments: &[&str]) -> Result<Process> {
    Process::start(demo(arguments).env("TMPDIR", folder))
}

/// Runs the program to its end.
fn ended(arguments: &[&str]) -> Result<Ended> {
    Process::start(&mut demo(arguments))?.wait_for_output()
}

/// Checks that of a demo that has ended no process and no file is left.
fn check_gone(process: u32, folder: &Path) {
    let own = process.to_string();
    let is_link = |arguments: &str| {
        let words: Vec<_> = arguments.split('\0').collect();
        words.windows(2).any(|pair| pair == ["--ends-with", own.as_str()])
    };
    let all = fs::read_dir("/proc").expect("Linux lists processes").flatten();
    let lines = all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| is_link(line)).count(), 0, "the link is gone");
    let left = fs::read_dir(folder).expect("it was just made").count();
    assert_eq!(left, 0, "files are gone");
}

/// Returns how many of the promises of an outcome did not hold: then the program ends with 1.
fn failed(outcome: &Value) -> usize {
    let checks = outcome["checks"].as_array().expect("there are checks");
    checks.iter().filter(|check| check["held"] != true).count()
}

/// Returns the interfaces of this network.
fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").expect("Linux lists interfaces");
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    text.lines().filter_map(name).collect()
}

fn live_and_simulated_balance() -> Outcome {
    let (before, folder) = (interfaces(), tempfile::tempdir()?);
    let mut process = demo_in(folder.path(), &["--seconds", "3", "--format", "json"])?;
    let ended = process.wait_for_output()?;
    let outcome: Value = serde_json::from_str(&ended.stdout).map_err(|_| format!("{ended:?}"))?;
    assert_eq!(ended.status.code(), Some(i32::from(failed(&outcome) > 0)), "{ended:?}");
    for side in ["live", "simulated"] {
        let totals = &outcome[side];
        assert_eq!(totals["conservation"]["holds"], true, "{side}: {totals}");
        let voice = &outcome["classes"][0];
        assert_eq!(voice["name"], "voice");
        assert!(voice[side]["sent"].as_u64() > Some(0), "{side}: {voice}");
    }
    // The simulation has the machine of its own clock.
    assert!(outcome["simulated"]["utilisation"].as_f64() > Some(0.8), "{outcome}");
    assert_eq!(outcome["simulated"]["web"]["failed"], 0, "{outcome}");
    assert_eq!(outcome["classes"][0]["simulated"]["dropped"], 0, "{outcome}");
    check_later(&outcome["later"]);
    assert!(outcome["differences"].is_array(), "{outcome}");
    assert_eq!(interfaces(), before);
    check_gone(process.id(), folder.path());
    Ok(())
}

/// Checks what was done to the link after the measurement.
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
    assert!(replay["departures"].as_u64() > Some(0), "{replay}");
}

/// The page of a run has what its outcome tells, live and simulated.
fn the_page_has_what_is_told() -> Outcome {
    let folder = tempfile::tempdir()?;
    let arguments = ["--seconds", "3", "--view", "--format", "json"];
    let mut process = demo_in(folder.path(), &arguments)?;
    // The address comes after the outcome.
    let (outcome, served) = until_ok("the page is served", || {
        let lines: Vec<Value> =
            process.stdout().lines().flat_map(serde_json::from_str::<Value>).collect();
        match lines.as_slice() {
            [outcome, served, ..] => Ok((outcome.clone(), served.clone())),
            _ => Err(process.printed()),
        }
    })?;
    let url = served["url"].as_str().ok_or("it has an address")?.to_owned();
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
            // Live, the traffic begins a moment after the record, which a busy machine makes long.
            let is_near = (measured / told - 1.0).abs() < 0.05;
            assert!(side == "live" || is_near, "{name}: {measured}, {told}");
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
    process.signal("INT")?;
    let status = process.wait_for_exit()?;
    assert_eq!(status.code(), Some(i32::from(failed(&outcome) > 0)), "{}", process.printed());
    check_gone(process.id(), folder.path());
    Ok(())
}

/// A link to play with has packets of each class, keeps them, and goes with an interrupt.
fn play_goes_on() -> Outcome {
    let (before, folder) = (interfaces(), tempfile::tempdir()?);
    let mut process = demo_in(folder.path(), &["--play", "--format", "json"])?;
    let url = until_ok("the page is served", || {
        let served = serde_json::from_str::<Value>(process.stdout().trim());
        let url = served.ok().and_then(|line| Some(line["url"].as_str()?.to_owned()));
        url.ok_or_else(|| process.printed())
    })?;
    let page = url.strip_suffix("&tour").ok_or("the address asks for the tour")?;
    until_ok("each class has sent", || {
        let history = view(page, "/view/history");
        let sent = |name: &str| {
            let rates = history["classes"][name]["sent_bps"].as_array();
            rates.is_some_and(|all| all.iter().any(|rate| rate.as_f64() > Some(0.0)))
        };
        let names = ["call", "video", "web", "backup", "flood", "guest"];
        if names.into_iter().all(sent) { Ok(()) } else { Err(process.printed()) }
    })?;
    let about = view(page, "/view/about");
    assert!(about["kept"].is_number(), "packets can be explained: {about}");
    let told = view(page, "/view/promises");
    assert_eq!(told["promises"].as_array().map(Vec::len), Some(4), "{told}");
    process.signal("INT")?;
    assert_eq!(process.wait_for_exit()?.code(), Some(0), "{}", process.printed());
    assert_eq!(interfaces(), before);
    check_gone(process.id(), folder.path());
    Ok(())
}

/// Requests a path of the page at this address.
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

/// Interrupts a demo once its link is in this state.
fn check_interrupt(seconds: &str, is_there: fn(&mut Option<Status>, &Status) -> bool) -> Outcome {
    let (before, folder) = (interfaces(), tempfile::tempdir()?);
    let mut process = demo_in(folder.path(), &["--seconds", seconds])?;
    let mut first = None;
    until_ok("it is there", || match status(folder.path()) {
        Some(status) if is_there(&mut first, &status) => Ok(()),
        _ if process.is_alive() => Err(String::new()),
        _ => Err(process.printed()),
    })?;
    process.signal("INT")?;
    let ended = process.wait_for_output()?;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("interrupted") && ended.stdout.is_empty(), "{ended:?}");
    assert_eq!(interfaces(), before);
    check_gone(process.id(), folder.path());
    Ok(())
}

/// Returns the status of a demo's link, from the folder of what it keeps.
fn status(folder: &Path) -> Option<Status> {
    let sockets = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path().join("weir.sock"));
    sockets
        .filter(|socket| socket.exists())
        .find_map(|socket| client::status(&socket, &Query::default()).ok())
}

/// Returns whether the measurement has begun: two seconds of a call went before it.
fn measures(_: &mut Option<Status>, now: &Status) -> bool {
    now.lanes.first().is_some_and(|lane| lane.classes[0].sent.packets > 150)
}

/// Returns whether the link has another policy than at first.
fn has_changed(first: &mut Option<Status>, now: &Status) -> bool {
    let identity = |status: &Status| status.lanes.first().map(|lane| lane.policy.identity.clone());
    identity(first.get_or_insert_with(|| now.clone())) != identity(now)
}

fn the_printed_policy_is_accepted() -> Outcome {
    let printed = ended(&["--policy"])?;
    assert!(printed.status.success(), "{printed:?}");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.toml");
    fs::write(&path, printed.stdout)?;
    let check = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(&path).output()?;
    assert!(check.status.success(), "{check:?}");
    Ok(())
}

fn a_wrong_time_is_refused() -> Outcome {
    for seconds in ["0", "61", "x"] {
        let Ended { status, stderr, .. } = ended(&["--seconds", seconds])?;
        assert_eq!(status.code(), Some(2), "{seconds}");
        let is_told = stderr.contains("at most 60s") || seconds == "x";
        assert!(stderr.contains(seconds) && is_told, "{stderr}");
    }
    Ok(())
}
