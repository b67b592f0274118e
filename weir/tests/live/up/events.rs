//! Events of `weir up`: each fault that a test causes is told once, with its beginning and its end.

use super::{POLICY, Test, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{Flood, Host, LEFT, Netlink, PATIENCE, Scene, signal, until_ok};

pub const TESTS: &[Test] = &[
    ("an_interface_that_is_set_down_is_told", || check(set_down, DOWN)),
    ("an_interface_that_is_down_when_the_link_stops_is_not_told_as_up", a_stop_while_down),
    ("an_interface_that_vanishes_is_told", || check(unplug, GONE)),
    ("an_interface_that_is_renamed_is_told", || check(rename, RENAMED)),
    ("an_interface_whose_mtu_changes_is_told", || check(change_mtu, &["mtu-changed left"])),
    ("a_stall_and_the_overrun_that_it_causes_are_told", || check(stall, STALL)),
    ("an_alarm_runs_its_program_and_tells_its_webhook", an_alarm_acts),
    ("an_alarm_ends_with_the_forwarder_that_told_of_it", an_alarm_of_the_dead_ends),
    ("a_request_that_is_refused_is_told", || check(ask_nonsense, REFUSED)),
    ("a_log_on_a_full_disk_is_told_in_the_status_until_it_has_room", a_full_log),
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

/// Starts a link, lets `act` cause a fault, and checks what is told: in the log while it runs, and
/// on standard output.
fn check(act: fn(&mut Scene) -> Outcome, expected: &[&str]) -> Outcome {
    let deployment = format!("log = \"{LOG}\"\nwatchdog = \"20 s\"");
    let mut scene = plan(POLICY).deployment(&deployment).prepare()?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    await_lines(&scene, &[])?;
    act(&mut scene)?;
    let whole = [START, expected].concat();
    await_lines(&scene, expected)?;
    let text = scene.stop()?;
    let logged = read(&scene.read(LOG)?, &whole)?;
    let printed = read(&text, &whole)?;
    assert_eq!(lines(&logged), whole, "the log: {logged:?}");
    assert_eq!(lines(&printed), whole, "standard output: {text}");
    check_pairs(&logged);
    check_counts(&printed, &text)
}

/// Sends the control socket a line that is no request.
fn ask_nonsense(scene: &mut Scene) -> Outcome {
    let mut socket = UnixStream::connect(scene.socket())?;
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

/// The overruns that were reported of a ring are those that the last status counts.
fn check_counts(events: &[Value], text: &str) -> Outcome {
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let ended = |event: &&Value| event["event"] == "overrun-ended";
    let told: u64 = events.iter().filter(ended).filter_map(|event| event["count"].as_u64()).sum();
    let rings = last["status"]["ports"][0]["ring_overruns"].as_array().cloned();
    let counted: u64 = rings.unwrap_or_default().iter().filter_map(Value::as_u64).sum();
    assert_eq!(told, counted, "{text}");
    Ok(())
}

/// Waits until the log has those of the start and these lines, and no others.
fn await_lines(scene: &Scene, wanted: &[&str]) -> Outcome {
    let whole = [START, wanted].concat();
    until_ok(&format!("{wanted:?} are told"), || {
        let found = read(&scene.read(LOG).unwrap_or_default(), &whole);
        let found = found.map_err(|why| format!("{why:?}"))?;
        if lines(&found) == whole { Ok(()) } else { Err(format!("{found:?}")) }
    })?;
    Ok(())
}

/// Reads objects of JSON, one a line; only events of links, and none that the machine decides.
fn read(text: &str, wanted: &[&str]) -> Result<Vec<Value>, Failed> {
    // The last line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let values: Result<Vec<Value>, _> = whole.lines().map(serde_json::from_str).collect();
    let mut values = values.map_err(|error| format!("{error}: {text}"))?;
    let machine = ["wake-ups-late", "wake-ups-in-time", "clock-stepped", "behind", "caught-up"];
    let is_ours = |event: &str| !machine.contains(&event);
    values.retain(|value| value.get("severity").is_some());
    values.retain(|value| value["event"].as_str().is_some_and(is_ours));
    // It names the process.
    values.retain(|value| value["event"] != "privilege-dropped");
    // The machine stalls whatever it likes; where a stall is wanted, it is the longest.
    let stalls = values.iter().filter(|value| value["event"] == "stall-over");
    let time = |value: &Value| value["duration_s"].as_f64().unwrap_or_default();
    let longest = stalls.max_by(|one, other| time(one).total_cmp(&time(other)));
    let is_wanted = wanted.iter().any(|line| line.starts_with("stall"));
    let kept = longest.filter(|_| is_wanted).map(|stall| stall["fault"].clone());
    let is_stall =
        |value: &Value| value["event"].as_str().is_some_and(|it| it.starts_with("stall"));
    values.retain(|value| !is_stall(value) || kept.as_ref() == Some(&value["fault"]));
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
    leave_down(scene)?;
    Ok(Netlink::open_in(&scene.testbed.weir)?.set_up(LEFT, true)?)
}

/// Whether an interface is down once nobody watches it, nobody can say.
fn a_stop_while_down() -> Outcome {
    let mut scene = plan(POLICY).deployment(&format!("log = \"{LOG}\"")).prepare()?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    leave_down(&mut scene)?;
    scene.stop()?;
    let logged = read(&scene.read(LOG)?, &[])?;
    assert_eq!(lines(&logged), [START, DOWN].concat(), "{logged:?}");
    check_pairs(&logged);
    let last = &logged[2];
    assert_eq!(last["unseen"], true, "{last}");
    let text = last["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("no longer watched") && !text.contains("again"), "{text}");
    Ok(())
}

fn leave_down(scene: &mut Scene) -> Outcome {
    Netlink::open_in(&scene.testbed.weir)?.set_up(LEFT, false)?;
    await_lines(scene, &DOWN[..1])
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

/// The ring of the class has 512 slots. The machine hardly stalls for as long by itself.
fn stall(scene: &mut Scene) -> Outcome {
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    for _ in 0..2000 {
        client.send_to(&[0; 64], (Host::Server.ip4(), 5004))?;
    }
    thread::sleep(STALLED);
    Ok(signal(forwarder, "CONT")?)
}

/// A link with an alarm, which ends its deployment; it is not started yet.
fn alarming() -> Result<Scene, Failed> {
    let deployment = format!("log = \"{LOG}\"\nwatchdog = \"20 s\"");
    let plan = plan(&POLICY.replace("50 Mbit/s", RATE)).deployment(&deployment);
    Ok(plan.tables(ALARM).prepare()?)
}

/// A flood is more than the line sends, so the default class has a backlog while it lasts, and for
/// seconds after that. The webhook does not accept the first message.
fn an_alarm_acts() -> Outcome {
    let mut scene = alarming()?;
    let (program, seen) = (scene.path("page.sh"), scene.path("page.log"));
    let script = "#!/bin/sh\necho \"$WEIR_ALARM $WEIR_CLASS $WEIR_STATE $WEIR_LIMIT $1\" >> ";
    fs::write(&program, format!("{script}{}\n", seen.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Netlink::open_in(&scene.testbed.weir)?.set_up("lo", true)?;
    let listener = scene.testbed.weir.run(|| TcpListener::bind("127.0.0.1:0"))??;
    listener.set_nonblocking(true)?;
    let webhook = format!("http://{}/alarm?x=1", listener.local_addr()?);
    let acts = format!("run = [\"{}\", \"two words\"]\nwebhook = \"{webhook}\"", program.display());
    let text = scene.read("link.toml")?;
    scene.write("link.toml", &format!("{text}{acts}\n"))?;
    let posted = thread::spawn(move || [500, 204, 204].map(|status| answer(&listener, status)));
    begin_and_end(&mut scene)?;
    let posted = posted.join().expect("the webhook does not panic");
    let posted: Result<Vec<_>, _> = posted.into_iter().collect();
    let wanted = ["alarm-began", "alarm-began", "alarm-ended"];
    assert_eq!(posted?, wanted.map(|event| format!("POST /alarm?x=1 HTTP/1.1 {event}")));
    scene.stop()?;
    let wanted = "busy rest began 5000 B two words\nbusy rest ended 5000 B two words\n";
    assert_eq!(fs::read_to_string(seen)?, wanted);
    Ok(())
}

/// Lets a flood begin the alarm, and its end end it.
fn begin_and_end(scene: &mut Scene) -> Outcome {
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let flood = Flood::start(&scene.testbed, 64)?;
    await_alarms(scene, &["alarm-began busy/rest"])?;
    drop(flood);
    await_alarms(scene, &["alarm-began busy/rest", "alarm-ended busy/rest"])
}

/// Its line would be busy for seconds more.
fn an_alarm_of_the_dead_ends() -> Outcome {
    let mut scene = alarming()?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let flood = Flood::start(&scene.testbed, 64)?;
    await_alarms(&scene, &["alarm-began busy/rest"])?;
    drop(flood);
    signal(scene.forwarder()?, "KILL")?;
    await_alarms(&scene, &["alarm-began busy/rest", "alarm-ended busy/rest"])?;
    scene.stop()?;
    Ok(())
}

/// Waits until the log has these events of alarms, and no others.
fn await_alarms(scene: &Scene, wanted: &[&str]) -> Outcome {
    until_ok(&format!("{wanted:?} are told"), || {
        let found =
            read(&scene.read(LOG).unwrap_or_default(), &[]).map_err(|why| format!("{why:?}"))?;
        let mut lines = lines(&found);
        lines.retain(|line| line.starts_with("alarm-"));
        if lines == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })?;
    Ok(())
}

/// Takes one request and answers it; returns its first line and the event in its body.
fn answer(listener: &TcpListener, status: u16) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let (mut stream, _) = until_ok("a request", || listener.accept())?;
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
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

/// Where the link writes what it tells.
const LOG: &str = "link.log";
/// How long a forwarder is stopped.
const STALLED: Duration = Duration::from_secs(2);
/// A full queue keeps this line busy for seconds: no pause of the flood ends an alarm.
const RATE: &str = "300 kbit/s";
const ALARM: &str = "[deployment.alarm.busy]\nwhen = \"rest.backlog.max > 5 KB\"\nfor = \"1 s\"";

/// To a file on a full disk, /dev/full is the same.
fn a_full_log() -> Outcome {
    let mut scene = plan(POLICY).deployment(&format!("log = \"{LOG}\"")).prepare()?;
    symlink("/dev/full", scene.path(LOG))?;
    scene.start()?;
    let is_told = |status: &Status| status.faults.iter().any(|fault| fault.event == "log-failed");
    scene.await_status("the status tells that the log is full", is_told)?;
    let text = scene.weir(&["status", "--control", "weir.sock"])?.stdout;
    assert!(text.contains("cannot be written") && text.contains("No space left"), "{text}");
    // A new forwarder did not see it happen.
    signal(scene.forwarder()?, "KILL")?;
    scene.await_status("also a new forwarder tells", is_told)?;
    fs::remove_file(scene.path(LOG))?;
    ask_nonsense(&mut scene)?;
    scene.await_status("it is over with the next line", |status| !is_told(status))?;
    let text = scene.read(LOG)?;
    assert!(text.contains("lines are missing in"), "{text}");
    scene.stop()?;
    Ok(())
}
