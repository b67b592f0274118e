//! Events of `weir up`: each fault that a test causes is told once, with its beginning and its end.

use super::{Outcome, PATIENCE, POLICY, Scene, Test, flood, signal};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_testbed::{Host, LEFT, Netlink};

pub const TESTS: &[Test] = &[
    ("an_interface_that_is_set_down_is_told", || check("down", set_down, DOWN)),
    ("an_interface_that_vanishes_is_told", || check("gone", unplug, GONE)),
    ("an_interface_that_is_renamed_is_told", || check("renamed", rename, RENAMED)),
    ("an_interface_whose_mtu_changes_is_told", || check("mtu", change_mtu, &["mtu-changed left"])),
    ("a_stall_and_the_overrun_that_it_causes_are_told", || check("stall", stall, STALL)),
    ("an_alarm_runs_its_program_and_tells_its_webhook", an_alarm_acts),
    ("an_alarm_ends_with_the_forwarder_that_told_of_it", an_alarm_of_the_dead_ends),
    ("a_request_that_is_refused_is_told", || check("refused", ask_nonsense, REFUSED)),
];

const START: &[&str] = &["policy-loaded upload"];
const DOWN: &[&str] = &["port-down left", "port-up left"];
const GONE: &[&str] = &["port-gone left", "port-back left"];
const RENAMED: &[&str] = &["port-down left", "port-renamed lan0", "port-up lan0"];
const STALL: &[&str] = &[
    "overrun-began left/voice",
    "stall `left` and `right`",
    "stall-over `left` and `right`",
    "overrun-ended left/voice",
];
const REFUSED: &[&str] = &["control-refused user 0"];
/// Shorter stalls are the machine's; in seconds.
const STALL_MIN: f64 = 2.0;

/// Starts a link, lets `act` cause a fault, and checks what is told: in the log while it runs, and
/// on standard output.
fn check(name: &str, act: fn(&mut Scene) -> Outcome, expected: &[&str]) -> Outcome {
    let mut scene = Scene::new(&format!("events-{name}"), POLICY)?;
    configure(&scene, &format!("log = \"{}\"\nwatchdog = \"20 s\"", log_path(&scene)))?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    await_lines(&scene, &[])?;
    act(&mut scene)?;
    let whole = [START, expected].concat();
    await_lines(&scene, expected)?;
    let text = scene.stop()?;
    let logged = read(&fs::read_to_string(log_path(&scene))?)?;
    let printed = read(&text)?;
    assert_eq!(lines(&logged), whole, "the log: {logged:?}");
    assert_eq!(lines(&printed), whole, "standard output: {text}");
    check_pairs(&logged);
    check_counts(&printed, &text)
}

/// Sends the control socket a line that is no request.
fn ask_nonsense(scene: &mut Scene) -> Outcome {
    let mut socket = UnixStream::connect(scene.folder.join("weir.sock"))?;
    socket.write_all(b"\x1b[31m\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    assert!(answer.contains("not a request"), "{answer}");
    Ok(())
}

/// Each fault has its beginning and its end, in this order.
fn check_pairs(events: &[Value]) {
    let fault = |event: &Value| event["fault"].as_u64();
    let ends = events.iter().filter(|event| event.get("since").is_some());
    for end in ends {
        let same: Vec<_> = events.iter().filter(|event| fault(event) == fault(end)).collect();
        assert_eq!(same.len(), 2, "{events:?}");
        assert_eq!((&same[1], &same[0]["time"]), (&end, &end["since"]), "{events:?}");
    }
}

/// What was told of a ring is what the last status counts.
fn check_counts(events: &[Value], text: &str) -> Outcome {
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let ended = |event: &&Value| event["event"] == "overrun-ended";
    let told: u64 = events.iter().filter(ended).filter_map(|event| event["count"].as_u64()).sum();
    let rings = last["status"]["ports"][0]["ring_overruns"].as_array().cloned();
    let counted: u64 = rings.unwrap_or_default().iter().filter_map(Value::as_u64).sum();
    assert_eq!(told, counted, "{text}");
    Ok(())
}

/// Writes `line` into `[deployment]`.
fn configure(scene: &Scene, line: &str) -> Outcome {
    let path = scene.folder.join("link.toml");
    let text = fs::read_to_string(&path)?.replacen("[direction", &format!("{line}\n[direction"), 1);
    Ok(fs::write(&path, text)?)
}

fn log_path(scene: &Scene) -> String {
    scene.folder.join("link.log").display().to_string()
}

/// Waits until the log has those of the start and these lines, and no others.
fn await_lines(scene: &Scene, wanted: &[&str]) -> Outcome {
    let start = Instant::now();
    loop {
        let found = read(&fs::read_to_string(log_path(scene)).unwrap_or_default())?;
        if lines(&found) == [START, wanted].concat() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{wanted:?} were not told: {found:?}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads objects of JSON, one a line; only events of links, and none that the machine decides.
fn read(text: &str) -> Result<Vec<Value>, Failed> {
    let values: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let mut values = values.map_err(|error| format!("{error}: {text}"))?;
    let machine = ["wake-ups-late", "wake-ups-in-time", "clock-stepped", "behind", "caught-up"];
    let is_ours = |event: &str| !machine.contains(&event);
    values.retain(|value| value.get("severity").is_some());
    values.retain(|value| value["event"].as_str().is_some_and(is_ours));
    // It names the process.
    values.retain(|value| value["event"] != "privilege-dropped");
    // To take an interface up may take more than the 100 ms that are a stall, and so may whatever
    // else the machine does.
    let is_short =
        |value: &&Value| value["duration_s"].as_f64().is_some_and(|time| time < STALL_MIN);
    let ended = values.iter().filter(|value| value["event"] == "stall-over").filter(is_short);
    let short: Vec<Value> = ended.map(|value| value["fault"].clone()).collect();
    values.retain(|value| value["fault"].is_null() || !short.contains(&value["fault"]));
    Ok(values)
}

/// Returns kind, subject and class of each event.
fn lines(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let line = |event: &Value| match text(event, "class").as_str() {
        "" => format!("{} {}", text(event, "event"), text(event, "subject")),
        class => format!("{} {}/{class}", text(event, "event"), text(event, "subject")),
    };
    events.iter().map(line).collect()
}

fn set_down(scene: &mut Scene) -> Outcome {
    let mut netlink = Netlink::open_in(&scene.testbed.weir)?;
    netlink.set_up(LEFT, false)?;
    await_lines(scene, &["port-down left"])?;
    Ok(netlink.set_up(LEFT, true)?)
}

fn unplug(scene: &mut Scene) -> Outcome {
    scene.testbed.disconnect(Host::Client)?;
    await_lines(scene, &["port-gone left"])?;
    Ok(scene.testbed.connect(Host::Client)?)
}

fn rename(scene: &mut Scene) -> Outcome {
    let mut netlink = Netlink::open_in(&scene.testbed.weir)?;
    netlink.set_up(LEFT, false)?;
    await_lines(scene, &["port-down left"])?;
    netlink.rename(LEFT, "lan0")?;
    await_lines(scene, &["port-down left", "port-renamed lan0"])?;
    Ok(netlink.set_up("lan0", true)?)
}

fn change_mtu(scene: &mut Scene) -> Outcome {
    Ok(Netlink::open_in(&scene.testbed.weir)?.set_mtu(LEFT, 1400)?)
}

/// The ring of the class has 512 slots.
fn stall(scene: &mut Scene) -> Outcome {
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..2000 {
        client.send_to(&[0; 64], (Host::Server.ip4(), 5004))?;
    }
    thread::sleep(Duration::from_secs_f64(STALL_MIN) + Duration::from_millis(500));
    signal(forwarder, "CONT")
}

/// A flood is more than the line sends, so the default class has a backlog while it lasts. The
/// webhook does not accept the first message.
fn an_alarm_acts() -> Outcome {
    let mut scene = Scene::new("alarm", POLICY)?;
    let (program, seen) = (scene.folder.join("page.sh"), scene.folder.join("page.log"));
    let script = "#!/bin/sh\necho \"$WEIR_ALARM $WEIR_CLASS $WEIR_STATE $WEIR_LIMIT $1\" >> ";
    fs::write(&program, format!("{script}{}\n", seen.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Netlink::open_in(&scene.testbed.weir)?.set_up("lo", true)?;
    let listener = scene.testbed.weir.run(|| TcpListener::bind("127.0.0.1:0"))??;
    let webhook = format!("http://{}/alarm?x=1", listener.local_addr()?);
    let alarm = format!(
        "\n[deployment.alarm.busy]\nwhen = \"rest.backlog.max > 5 KB\"\nfor = \"1 s\"\n\
         run = [\"{}\", \"two words\"]\nwebhook = \"{webhook}\"\n",
        program.display()
    );
    let path = scene.folder.join("link.toml");
    fs::write(&path, fs::read_to_string(&path)? + &alarm)?;
    configure(&scene, &format!("log = \"{}\"", log_path(&scene)))?;
    let posted = thread::spawn(move || [500, 204, 204].map(|status| answer(&listener, status)));
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let begun = await_alarms(&scene, &["alarm-began busy/rest"]);
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    begun?;
    await_alarms(&scene, &["alarm-began busy/rest", "alarm-ended busy/rest"])?;
    let posted = posted.join().expect("the webhook does not panic");
    let posted: Result<Vec<_>, _> = posted.into_iter().collect();
    let wanted = ["alarm-began", "alarm-began", "alarm-ended"];
    assert_eq!(posted?, wanted.map(|event| format!("POST /alarm?x=1 HTTP/1.1 {event}")));
    scene.stop()?;
    let wanted = "busy rest began 5000 B two words\nbusy rest ended 5000 B two words\n";
    assert_eq!(fs::read_to_string(seen)?, wanted);
    Ok(())
}

fn an_alarm_of_the_dead_ends() -> Outcome {
    let mut scene = Scene::new("alarm-dead", POLICY)?;
    let alarm = "\n[deployment.alarm.busy]\nwhen = \"rest.backlog.max > 5 KB\"\nfor = \"1 s\"\n";
    let path = scene.folder.join("link.toml");
    fs::write(&path, fs::read_to_string(&path)? + alarm)?;
    configure(&scene, &format!("log = \"{}\"", log_path(&scene)))?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let begun = await_alarms(&scene, &["alarm-began busy/rest"]);
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    begun?;
    signal(scene.forwarder()?, "KILL")?;
    await_alarms(&scene, &["alarm-began busy/rest", "alarm-ended busy/rest"])?;
    scene.stop()?;
    Ok(())
}

fn await_alarms(scene: &Scene, wanted: &[&str]) -> Outcome {
    let start = Instant::now();
    loop {
        let found = read(&fs::read_to_string(log_path(scene)).unwrap_or_default())?;
        let mut lines = lines(&found);
        lines.retain(|line| line.starts_with("alarm-"));
        if lines == wanted {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{wanted:?} were not told: {found:?}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes one request and answers it; returns its first line and the event in its body.
fn answer(listener: &TcpListener, status: u16) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let (mut stream, _) = listener.accept().map_err(text)?;
    let (mut request, mut bytes) = (String::new(), [0; 4096]);
    // Its body is one object without others in it.
    while !request.ends_with('}') {
        let count = stream.read(&mut bytes).map_err(text)?;
        request += &String::from_utf8_lossy(&bytes[..count]);
    }
    write!(stream, "HTTP/1.1 {status} it is\r\n\r\n").map_err(text)?;
    let (head, body) = request.split_once("\r\n\r\n").ok_or("it has no body")?;
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let event = body["event"].as_str().unwrap_or_default();
    Ok(format!("{} {event}", head.lines().next().unwrap_or_default()))
}
