//! The page on a running link: a process of its own, which tells what the status tells, takes tokens
//! and changes, and whose death costs nothing.

use super::{SLOW, Test, called, class_at, dropped, plan};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use weir_link::status::Status;
use weir_testbed::Netlink;
use weir_testbed::rows::Outcome;
use weir_testbed::{Flood, PATIENCE, Scene, Stream, children, signal, until, until_ok};

pub const TESTS: &[Test] = &[
    ("the_stream_of_the_page_says_what_the_status_says", the_stream_is_right),
    ("the_page_takes_tokens_and_changes_and_has_no_rights", tokens_and_changes),
    ("the_death_of_the_page_loses_no_frame", a_death_costs_nothing),
    ("a_page_that_hangs_is_told_in_the_status_and_started_again", a_hang_is_noticed),
];

const ADDRESS: &str = "127.0.0.1:8480";

const POLICY: &str = r#"
[link]
rate = "5 Mbit/s"
scheduler = "htb"

[class.all]
rate = "5 Mbit/s"

[class.voice]
parent = "all"
rate = "1 Mbit/s"
match = [{ proto = "udp", dport = "5004" }]

[class.rest]
parent = "all"
rate = "4 Mbit/s"
ceil = "5 Mbit/s"
default = true
"#;

/// A running link with a page, and the page's token.
pub fn scene() -> Result<(Scene, String), Failed> {
    let deployment = format!("web = \"{ADDRESS}\"\nring = \"8 MiB\"\nsojourn_max = \"none\"");
    let mut scene = plan(POLICY).deployment(&deployment).prepare()?;
    scene.testbed.weir.run(|| Netlink::open()?.set_up("lo", true))??;
    scene.start()?;
    let path = scene.path("weir.token");
    until("the token is there", || fs::read(&path).is_ok_and(|text| text.ends_with(b"\n")))?;
    let mode = fs::metadata(&path)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for this user only");
    let url = fs::read_to_string(path)?;
    let token = url.trim().rsplit("#token=").next().unwrap_or_default().to_owned();
    assert!(url.starts_with(&format!("http://{ADDRESS}/#token=")) && token.len() == 64, "{url}");
    until("the page answers", || ask(&scene, &token, "GET /view/about", "").is_ok())?;
    Ok((scene, token))
}

/// Returns status and body of the answer to a request, sent in the network of the link.
fn asked(scene: &Scene, headers: &str, request: &str, body: &str) -> Result<(u16, String), Failed> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let text = format!(
        "{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n{kind}{headers}\r\n{body}",
        body.len()
    );
    let talk = move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(ADDRESS)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(text.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = scene.testbed.weir.run(talk)??;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    Ok((status.ok_or("an answer has a status")?, body.unwrap_or_default()))
}

/// Returns the answer to a request with the token, which is met.
pub fn ask(scene: &Scene, token: &str, request: &str, body: &str) -> Result<Value, Failed> {
    let headers = format!("Host: {ADDRESS}\r\nAuthorization: Bearer {token}\r\n");
    match asked(scene, &headers, request, body)? {
        (200, body) => Ok(serde_json::from_str(&body)?),
        (status, body) => Err(format!("{request}: {status} {body}").into()),
    }
}

/// Returns so many samples of the stream.
fn samples(scene: &Scene, token: &str, count: usize) -> Result<Vec<Value>, Failed> {
    let request = format!(
        "GET /view/stream?direction=upload HTTP/1.1\r\nHost: {ADDRESS}\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    let stream = scene.testbed.weir.run(move || -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(ADDRESS)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    })??;
    let (mut samples, mut is_sample) = (Vec::new(), false);
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(data) = line.strip_prefix("data: ").filter(|_| is_sample) {
            samples.push(serde_json::from_str(data)?);
        }
        if samples.len() == count {
            return Ok(samples);
        }
        if let Some(name) = line.strip_prefix("event: ") {
            is_sample = name == "sample";
        }
    }
    Err("the stream has ended".into())
}

/// The seconds of the page add up to the totals of the status, whenever the machine lets which of
/// them run.
fn the_stream_is_right() -> Outcome {
    let (mut scene, token) = scene()?;
    let history = || ask(&scene, &token, "GET /view/history?direction=upload", "");
    // What was sent before its first look is in no second of the page.
    until("the page has looked twice", || {
        history().is_ok_and(|history| history["t"].as_array().is_some_and(|ends| ends.len() >= 2))
    })?;
    let before = class_at(&scene.status()?, 1).clone();
    let flood = Flood::start(&scene.testbed, 1200)?;
    await_loan(&scene, &token)?;
    let is_full = |status: &Status| dropped(class_at(status, 1), "full") > 100;
    scene.await_status("the flood fills its queue", is_full)?;
    drop(flood);
    let is_idle = |status: &Status| class_at(status, 1).backlog.packets == 0;
    let status = scene.await_status("all has left", is_idle)?;
    let rest = class_at(&status, 1);
    let packets = rest.sent.packets - before.sent.packets;
    let sums = [
        ("sent_bps", 8.0 * (rest.sent.bytes - before.sent.bytes) as f64),
        ("offered_bps", 8.0 * (rest.offered.bytes - before.offered.bytes) as f64),
        ("dropped_pps", dropped(rest, "full") as f64),
    ];
    for (name, wanted) in sums {
        until_ok(&format!("the page comes to all of {name}"), || {
            let history = history().map_err(|why| format!("{why:?}"))?;
            let found = sum(&history, name).unwrap_or(f64::NAN);
            let is_near = (found - wanted).abs() <= wanted * ROUNDED;
            if is_near { Ok(()) } else { Err(format!("{found}, not {wanted}: {history}")) }
        })?;
    }
    until_ok("the heat map has each packet", || {
        let heat = ask(&scene, &token, "GET /view/heat?class=rest", "");
        let heat = heat.map_err(|why| format!("{why:?}"))?;
        let counts = heat["counts"].as_array().into_iter().flatten();
        let counts = counts.filter_map(Value::as_array).flatten();
        let found: u64 = counts.filter_map(Value::as_u64).sum();
        let is_all = (packets..packets + NEIGHBOURS_MAX).contains(&found);
        if is_all { Ok(()) } else { Err(format!("{found}, not {packets}: {heat}")) }
    })?;
    let about = ask(&scene, &token, "GET /view/about", "")?;
    let classes = about["directions"][0]["classes"].as_array().into_iter().flatten();
    let names: Vec<_> = classes.filter_map(|class| class["name"].as_str()).collect();
    assert_eq!(names, ["all", "voice", "rest"], "{about}");
    assert_eq!(about["abilities"]["change"], true, "{about}");
    scene.stop()?;
    assert!(!scene.path("weir.token").exists(), "the token goes with the page");
    Ok(())
}

/// Returns what a series of the class `rest` comes to: each value holds since the one before.
fn sum(history: &Value, name: &str) -> Option<f64> {
    let numbers = |list: &Value| -> Option<Vec<f64>> {
        Some(list.as_array()?.iter().map(|value| value.as_f64().unwrap_or_default()).collect())
    };
    let (ends, values) = (numbers(&history["t"])?, numbers(&history["classes"]["rest"][name])?);
    let seconds = ends.windows(2).map(|pair| (pair[1] - pair[0]) / 1e3);
    Some(seconds.zip(values.iter().skip(1)).map(|(seconds, value)| seconds * value).sum())
}

/// Waits for a sample in which `rest` borrows. In each, `all` has what its classes have.
fn await_loan(scene: &Scene, token: &str) -> Outcome {
    until_ok("the class borrows", || {
        let samples = samples(scene, token, 4).map_err(|why| format!("{why:?}"))?;
        let value = |sample: &Value, class: usize, column: usize| {
            sample["classes"][class][column].as_f64().unwrap_or(f64::NAN)
        };
        for sample in &samples {
            let [all, voice, rest] = [0, 1, 2].map(|class| value(sample, class, 0));
            assert!((all - voice - rest).abs() <= all * ROUNDED, "{sample}");
        }
        let last = samples.last().ok_or("no sample")?;
        // It has 4 Mbit/s of its own.
        let (sent, borrowed) = (value(last, 2, 0), value(last, 2, 6));
        let borrows = sent > 4.2e6 && borrowed > 0.2e6;
        if borrows { Ok(()) } else { Err(last.to_string()) }
    })?;
    Ok(())
}

/// Returns the process of the gateway.
pub fn gateway(scene: &Scene) -> Result<u32, Failed> {
    let is_gateway = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"gateway")
    };
    children(scene.keeper()?)
        .into_iter()
        .find(is_gateway)
        .ok_or_else(|| "there is no gateway".into())
}

fn tokens_and_changes() -> Outcome {
    let (mut scene, token) = scene()?;
    let check = |request: &str, headers: &str, wanted: u16| -> Outcome {
        let (status, body) = asked(&scene, headers, request, "")?;
        assert_eq!(status, wanted, "{request} {headers:?}: {body}");
        Ok(())
    };
    let good = format!("Host: {ADDRESS}\r\nAuthorization: Bearer {token}\r\n");
    check("GET /view/about", &good, 200)?;
    check("GET /", &format!("Host: {ADDRESS}\r\n"), 200)?;
    check("GET /view/about", &format!("Host: {ADDRESS}\r\n"), 401)?;
    check("GET /view/about", &good.replace(ADDRESS, "evil.example"), 421)?;
    check("GET /view/about", &format!("{good}Origin: http://evil.example\r\n"), 403)?;
    let printed = called(&scene, &["view"])?;
    assert!(printed.contains(&format!("http://{ADDRESS}/#token={token}")), "{printed}");
    let knobs = ask(&scene, &token, "GET /view/knobs", "")?;
    let knob = |key: &str| {
        let mut knobs = knobs.as_array().into_iter().flatten();
        knobs.find(|knob| knob["key"] == key).cloned()
    };
    let rate = knob("class.voice.rate").ok_or("a knob")?;
    assert_eq!((&rate["number"], &rate["unit"]), (&json!(1e6), &json!("bit/s")), "{rate}");
    let wishes = json!([{ "key": "class.voice.rate", "value": "2 Mbit/s" },
                        { "key": "class.rest.rate", "value": "3 Mbit/s" }]);
    let body = json!({ "direction": "upload", "settings": wishes }).to_string();
    let predicted = ask(&scene, &token, "POST /view/predict", &body)?;
    assert_eq!(predicted["errors"], 0, "{predicted}");
    let classes = predicted["classes"].as_array().into_iter().flatten();
    let mut classes = classes.filter(|class| class["name"] == "voice");
    let voice = classes.next().ok_or("the class")?;
    assert_eq!(voice["share_bps"], json!([1e6, 2e6]), "{predicted}");
    let policy = |status: &Status| status.lanes[0].policy.identity.clone();
    let before = policy(&scene.status()?);
    let body = json!({ "settings": wishes, "terms": { "reason": "by hand" } }).to_string();
    let changed = ask(&scene, &token, "POST /set", &body)?;
    assert_eq!(changed["changed"]["errors"], 0, "{changed}");
    assert_ne!(policy(&scene.status()?), before, "other policies are in force");
    until("the page shows it", || {
        let about = ask(&scene, &token, "GET /view/about", "");
        about.is_ok_and(|about| about["directions"][0]["classes"][1]["share_bps"] == 2e6)
    })?;
    // Events are read after the status, and told a moment after the change.
    until("the page has the event", || {
        let events = ask(&scene, &token, "GET /view/events", "");
        events.is_ok_and(|events| events.to_string().contains("policy-changed"))
    })?;
    let status = fs::read_to_string(format!("/proc/{}/status", gateway(&scene)?))?;
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    assert_eq!((line("NoNewPrivs:"), line("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    assert!(line("CapEff:").trim_matches('0').is_empty(), "{status}");
    let printed = scene.stop()?;
    assert!(!printed.contains(&token) && printed.contains("a page shows the link"), "{printed}");
    Ok(())
}

/// The keeper ends a gateway that gives no sign of life, and starts another one.
fn a_hang_is_noticed() -> Outcome {
    let (mut scene, token) = scene()?;
    let old = gateway(&scene)?;
    signal(old, "STOP")?;
    let told = |status: &Status| status.faults.iter().any(|fault| fault.event == "page-died");
    let status = scene.await_status("the status has it as a fault", told)?;
    assert!(status.faults[0].text.contains("it hangs"), "{:?}", status.faults);
    until("another page", || gateway(&scene).is_ok_and(|now| now != old))?;
    until("it answers", || ask(&scene, &token, "GET /view/about", "").is_ok())?;
    scene.await_status("the fault is over", |status| status.faults.is_empty())?;
    let printed = scene.stop()?;
    assert!(printed.contains("no longer missing"), "{printed}");
    Ok(())
}

fn a_death_costs_nothing() -> Outcome {
    let (mut scene, token) = scene()?;
    let (old, processes) = (gateway(&scene)?, scene.status()?.processes);
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    signal(old, "KILL")?;
    until("another page", || gateway(&scene).is_ok_and(|now| now != old))?;
    until("it answers with the same token", || ask(&scene, &token, "GET /view/about", "").is_ok())?;
    stream.await_another()?;
    let found = stream.finish()?;
    assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    assert_eq!(scene.status()?.processes, processes, "the link went on");
    let printed = scene.stop()?;
    assert!(
        printed.contains("the gateway of `link`, which serves page and API, ended"),
        "{printed}"
    );
    Ok(())
}

/// Ends of seconds are rounded to a ms, and values are short numbers.
const ROUNDED: f64 = 0.02;
/// Frames of neighbour discovery that a host sends in the time of a row.
const NEIGHBOURS_MAX: u64 = 10;
