//! The page on a running link: a process of its own, which tells what the status tells, takes tokens
//! and changes, and whose death costs nothing.

use super::deaths::until;
use super::told::configure;
use super::{Outcome, PATIENCE, Scene, Test, bind, flood_of, signal};
use crate::processes::children;
use libtest_mimic::Failed;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_live::netlink::Netlink;
use weir_live::status::Status;
use weir_testbed::Host;

pub const TESTS: &[Test] = &[
    ("the_stream_of_the_page_says_what_the_status_says", the_stream_is_right),
    ("the_page_takes_tokens_and_changes_and_has_no_rights", tokens_and_changes),
    ("the_death_of_the_page_loses_no_frame", a_death_costs_nothing),
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
pub fn scene(name: &str) -> Result<(Scene, String), Failed> {
    let mut scene = Scene::new(name, POLICY)?;
    configure(&scene, &format!("web = \"{ADDRESS}\"\nring = \"8 MiB\""))?;
    scene.testbed.weir.run(|| Netlink::open()?.set_up("lo", true))??;
    scene.start()?;
    let path = scene.folder.join("weir.token");
    until("the token is there", || path.exists())?;
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

/// A class that is always backlogged, so that all figures are steady. Where the machine lets the
/// flood pause, the windows of both differ, and it is tried again.
fn the_stream_is_right() -> Outcome {
    let (mut scene, token) = scene("page-stream")?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood_of(&scene.testbed, &done, 1200)?;
    let dropped = |status: &Status| {
        status.lanes[0].classes[1].dropped.iter().any(|(_, amount)| amount.packets > 100)
    };
    scene.await_status("the flood fills its queue", dropped)?;
    // What happened before it was full is gone from the last second.
    drop(samples(&scene, &token, 5)?);
    let mut compared = Err(Failed::from("it was not tried"));
    let start = Instant::now();
    while start.elapsed() < STEADY_MAX {
        compared = compare(&scene, &token);
        if compared.is_ok() {
            break;
        }
    }
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    compared?;
    let about = ask(&scene, &token, "GET /view/about", "")?;
    let classes = about["directions"][0]["classes"].as_array().into_iter().flatten();
    let names: Vec<_> = classes.filter_map(|class| class["name"].as_str()).collect();
    assert_eq!(names, ["all", "voice", "rest"], "{about}");
    assert_eq!(about["abilities"]["change"], true, "{about}");
    scene.stop()?;
    assert!(!scene.folder.join("weir.token").exists(), "the token goes with the page");
    Ok(())
}

/// Compares what the page tells with the status.
fn compare(scene: &Scene, token: &str) -> Outcome {
    let samples = samples(scene, token, 6)?;
    let status = scene.status()?;
    let history = ask(scene, token, "GET /view/history?direction=upload", "")?;
    let heat = ask(scene, token, "GET /view/heat?class=rest", "")?;
    let rest = &status.lanes[0].classes[1];
    let recent = rest.recent.ok_or("the last second is known")?;
    let sample = samples.last().ok_or("samples")?;
    let last = &sample["classes"][2];
    let near = |what: &str, told: &Value, wanted: f64, part: f64| -> Outcome {
        let told = told.as_f64().unwrap_or(f64::NAN);
        if (told - wanted).abs() <= wanted * part {
            return Ok(());
        }
        Err(format!("{what}: {told} and {wanted}: {sample}").into())
    };
    near("sent", &last[0], recent.second.sent_bps, 0.01)?;
    near("the ceiling", &last[0], 5e6, 0.01)?;
    // Each has an instant of its own, and packets come and go between them.
    near("backlog", &last[2], rest.backlog.bytes as f64, 0.05)?;
    near("the median delay", &last[3], recent.delay.p50_us, 0.05)?;
    near("borrowed", &last[6], 1e6, 0.05)?;
    near("the sum", &sample["classes"][0][0], 5e6, 0.01)?;
    near("the lender, `all`", &sample["loans"][0][1], 0.0, 0.0)?;
    let sent = history["classes"]["rest"]["sent_bps"].as_array().ok_or("a series")?;
    near("history", sent.last().ok_or("a second")?, recent.second.sent_bps, 0.01)?;
    let counts = heat["counts"].as_array().and_then(|counts| counts.last());
    let counts = counts.and_then(Value::as_array).ok_or("bins")?;
    let packets: u64 = counts.iter().filter_map(Value::as_u64).sum();
    let ends: Vec<_> = heat["t"].as_array().into_iter().flatten().rev().take(2).collect();
    let seconds = ends[0].as_f64().zip(ends[1].as_f64()).map(|(end, begin)| (end - begin) / 1e3);
    let wanted = recent.second.sent_pps * seconds.ok_or("two seconds")?;
    near("packets of the heat map", &json!(packets), wanted, 0.02)
}

/// Returns the process of the page.
fn page(scene: &Scene) -> Result<u32, Failed> {
    let is_page = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"web")
    };
    children(scene.keeper()?).into_iter().find(is_page).ok_or_else(|| "there is no page".into())
}

fn tokens_and_changes() -> Outcome {
    let (mut scene, token) = scene("page-tokens")?;
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
    let printed = scene.weir(&["view", "--control", "weir.sock"]).output()?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
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
    let status = fs::read_to_string(format!("/proc/{}/status", page(&scene)?))?;
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

fn a_death_costs_nothing() -> Outcome {
    let (mut scene, token) = scene("page-death")?;
    let server = bind(&scene.testbed.server, Host::Server.ip4(), 5004)?;
    server.set_read_timeout(Some(PATIENCE))?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    let (old, forwarder) = (page(&scene)?, scene.status()?.processes);
    // Few are on their way at a time: a pause of the machine fills no queue and no socket.
    for number in 0..DATAGRAMS {
        for _ in 0..ON_THEIR_WAY {
            client.send_to(&[0; 100], (Host::Server.ip4(), 5004))?;
        }
        if number == DATAGRAMS / 4 {
            signal(old, "KILL")?;
        }
        for _ in 0..ON_THEIR_WAY {
            server.recv(&mut [0; 200]).map_err(|error| format!("{number}: {error}"))?;
        }
        thread::sleep(Duration::from_millis(2));
    }
    until("another page", || page(&scene).is_ok_and(|now| now != old))?;
    until("it answers with the same token", || ask(&scene, &token, "GET /view/about", "").is_ok())?;
    assert_eq!(scene.status()?.processes, forwarder, "the link went on");
    let start = Instant::now();
    let printed = scene.stop()?;
    assert!(printed.contains("the page on `link` ended"), "{printed}");
    assert!(start.elapsed() < PATIENCE);
    Ok(())
}

/// How often a few datagrams are sent.
const DATAGRAMS: usize = 500;
/// Datagrams on their way at a time.
const ON_THEIR_WAY: usize = 4;
/// How long figures are compared until the machine was steady for a second.
const STEADY_MAX: Duration = Duration::from_secs(90);
