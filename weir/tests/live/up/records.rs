//! Records of a running link: made under load, replayed to the bit, and ended without harm to the
//! link by a full disk and by a reader that stops.

use super::{LINE, TRANSFER, Test, api, called, class_at, exchange, plan, transfer};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{Ended, Flood, Host, PATIENCE, Process, Scene, until};
use weir_trace::capture::CaptureReader;

pub const TESTS: &[Test] = &[
    ("a_record_under_load_replays_to_the_bit", || a_record_under_load_replays("")),
    ("a_record_with_workers_replays_to_the_bit", || a_record_under_load_replays("workers = 2")),
    ("a_record_with_shared_ports_replays_to_the_bit", || {
        a_record_under_load_replays("workers = 4")
    }),
    ("trains_keep_the_rate_and_a_record_of_them_replays_to_the_bit", trains),
    ("a_record_ended_by_a_signal_is_whole", a_record_ended_by_a_signal_is_whole),
    ("a_full_disk_ends_the_record_and_not_the_link", a_full_disk_ends_the_record),
    ("a_reader_that_stops_ends_the_record_and_not_the_link", a_reader_that_stops),
    ("a_record_across_changes_of_the_policy_replays_to_the_bit", a_record_across_changes),
    ("a_snapshot_of_the_ring_replays_to_the_bit", a_snapshot_replays),
    ("records_by_http_replay_to_the_bit", records_by_http),
];

const RECORD: &[&str] = &["record", "--control", "weir.sock", "-o", "r.pcapng"];

/// Runs the program with these arguments, and as JSON.
fn run(scene: &Scene, arguments: &[&str]) -> Result<(Ended, Value), Failed> {
    let ended = scene.weir(&[&["--format", "json"], arguments].concat())?;
    let value = serde_json::from_str(&ended.stdout)
        .map_err(|error| format!("{error}: {arguments:?} {ended:?}"))?;
    Ok((ended, value))
}

/// Starts to record, and waits until something is in the file: what there is to write is written
/// in large parts.
pub(super) fn record(scene: &Scene) -> Result<Process, Failed> {
    let arguments = [&["--format", "json"], RECORD].concat();
    let recording = Process::start(&mut scene.command(&arguments))?;
    let path = scene.path("r.pcapng");
    let client = scene.testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    until("the record begins", || {
        // Whether one arrives is the flood's affair.
        (0..20).all(|_| client.send_to(&[0; 160], (Host::Server.ip4(), 5004)).is_ok())
            && fs::metadata(&path).is_ok_and(|file| file.len() > 0)
    })?;
    Ok(recording)
}

/// Ends a record as a terminal does.
pub(super) fn interrupt(mut recording: Process) -> Outcome {
    recording.signal("INT")?;
    let ended = recording.wait_for_output()?;
    assert!(ended.status.success(), "{ended:?}");
    Ok(())
}

/// Replays the record; returns what was the same.
pub(super) fn replayed(scene: &Scene) -> Result<Value, Failed> {
    let (output, value) = run(scene, &["replay", "--record", "r.pcapng"])?;
    assert!(output.status.success(), "{output:?}");
    assert!(value["difference"].is_null() && value["fault"].is_null(), "{value}");
    Ok(value)
}

fn a_record_under_load_replays(deployment: &str) -> Outcome {
    let mut scene = plan(LINE).deployment(deployment).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let dropped = |status: &Status| -> u64 {
        class_at(status, 1).dropped.iter().map(|(_, amount)| amount.packets).sum()
    };
    scene.await_status("the class is full", |status| dropped(status) > 0)?;
    let mut recording = record(&scene)?;
    let known = dropped(&scene.status()?);
    scene.await_status("more are dropped", |status| dropped(status) > known + 100)?;
    recording.signal("INT")?;
    let ended = recording.wait_for_output()?;
    assert!(ended.status.success(), "{ended:?}");
    let saved: Value = serde_json::from_str(&ended.stdout)?;
    drop(flood);
    let report = replayed(&scene)?;
    let lane = &report["directions"][0];
    let count = |key: &str| lane[key].as_u64().unwrap_or_default();
    assert_eq!(lane["direction"], "upload");
    assert!(count("departures") > 0 && count("drops") > 100, "{report}");
    // The way back is shaped by nothing, and recorded all the same.
    assert_eq!(report["directions"][1]["direction"], "from outside", "{report}");
    let bytes = fs::read(scene.path("r.pcapng"))?;
    let mut capture = CaptureReader::new(bytes.as_slice())?;
    let mut frames = 0;
    while let Some(frame) = capture.next_frame() {
        frames += u64::from(!frame?.bytes.is_empty());
    }
    assert_eq!(Some(frames), saved["frames"].as_u64());
    let names: Vec<_> = capture.interfaces().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["upload", "from outside"]);
    scene.stop()?;
    Ok(())
}

/// Super-packets of the kernel's TCP pass whole, at the rate of their class. They have at least two
/// frames each, but for the last of a burst.
fn trains() -> Outcome {
    let mut scene = plan(LINE).deployment("super_packets = \"whole\"").start()?;
    let recording = record(&scene)?;
    let start = std::time::Instant::now();
    transfer(&scene, Host::Server.ip4())?;
    let mbit = TRANSFER as f64 * 8e-6 / start.elapsed().as_secs_f64();
    assert!(mbit < 10.2, "{mbit} Mbit/s in a class of 10");
    interrupt(recording)?;
    let web = class_at(&scene.status()?, 0).sent;
    assert!(web.bytes > TRANSFER as u64, "{web:?}");
    assert!(web.packets < 3 * TRANSFER as u64 / 1500 / 4, "trains, not frames: {web:?}");
    let report = replayed(&scene)?;
    assert!(report["directions"][0]["departures"].as_u64() >= Some(web.packets), "{report}");
    scene.stop()?;
    Ok(())
}

/// Rates, another scheduler with one class more, and back to the first.
fn a_record_across_changes() -> Outcome {
    let mut scene = plan(LINE).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let recording = record(&scene)?;
    let change = |arguments: &[&str]| called(&scene, arguments).map(drop);
    change(&["set", "class.web.rate=9 Mbit/s"])?;
    let other = "[link]\nrate = '30 Mbit/s'\nscheduler = 'drr'\n[class.more]\n\
                 match = [{ proto = 'udp', dport = 9 }]\n[class.rest]\ndefault = true\n";
    scene.write("policy.toml", other)?;
    change(&["reload"])?;
    scene.write("policy.toml", LINE)?;
    change(&["reload"])?;
    // Each is given after another turn of the loop, which hands on what it did in a turn at its end.
    (0..2).try_for_each(|_| scene.status().map(drop))?;
    interrupt(recording)?;
    drop(flood);
    let report = replayed(&scene)?;
    assert_eq!(report["directions"][0]["changes"], 3, "{report}");
    scene.stop()?;
    Ok(())
}

fn a_record_ended_by_a_signal_is_whole() -> Outcome {
    let mut scene = plan(LINE).start()?;
    interrupt(record(&scene)?)?;
    assert_eq!(replayed(&scene)?["end"], "it was ended");
    scene.stop()?;
    Ok(())
}

fn a_full_disk_ends_the_record() -> Outcome {
    let mut scene = plan(LINE).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let to_full = ["record", "--control", "weir.sock", "-o", "/dev/full", "--seconds", "3600"];
    let (output, saved) = run(&scene, &to_full)?;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(saved["fault"].as_str().is_some_and(|text| text.contains("space")), "{saved}");
    drop(flood);
    exchange(&scene.testbed, 5004, 20)?;
    let text = scene.stop()?;
    assert!(text.contains("ended before its time"), "{text}");
    Ok(())
}

fn a_reader_that_stops() -> Outcome {
    let mut scene = plan(LINE).start()?;
    let forwarder = scene.forwarder()?;
    let mut client = UnixStream::connect(scene.socket())?;
    client.write_all(b"{\"call\":\"record\"}\n")?;
    client.read_exact(&mut [0; 8])?;
    let flood = Flood::start(&scene.testbed, 64)?;
    // Nothing else ends it than that nobody reads it, and what the buffers hold is full.
    scene.await_logged("ended before its time")?;
    drop(flood);
    assert_eq!(scene.forwarder()?, forwarder, "it is the first one still");
    exchange(&scene.testbed, 5004, 20)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let mut rest = Vec::new();
    client.read_to_end(&mut rest)?;
    let text = scene.stop()?;
    assert!(text.contains("ended before its time"), "{text}");
    Ok(())
}

fn a_snapshot_replays() -> Outcome {
    let mut scene = plan(LINE).deployment("ring = \"8 MiB\"").start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let offered = |status: &Status| class_at(status, 1).offered.packets;
    scene.await_status("the ring is full", |status| offered(status) > 100_000)?;
    let arguments = ["record", "--last", "--control", "weir.sock", "-o", "r.pcapng"];
    let (output, saved) = run(&scene, &arguments)?;
    drop(flood);
    assert!(output.status.success(), "{output:?}");
    // A record of so many frames is twice the ring: it keeps headers and lengths, and of these what
    // differs from the frame before.
    assert!(saved["frames"].as_u64().is_some_and(|frames| frames >= 90_000), "{saved}");
    assert!(saved["bytes"].as_u64().is_some_and(|bytes| bytes > 12 << 20), "{saved}");
    let report = replayed(&scene)?;
    assert_eq!(report["end"], "it is a snapshot");
    assert!(report["directions"][0]["checkpoints"].as_u64() > Some(1), "{report}");
    to_standard_output(&scene)?;
    scene.stop()?;
    Ok(())
}

/// A record goes down a pipe as well, and what is said of it goes elsewhere.
fn to_standard_output(scene: &Scene) -> Outcome {
    let to_pipe = ["record", "--last", "--control", "weir.sock", "-o", "-"];
    // A record is no text.
    let output = scene.command(&to_pipe).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("standard output: "), "{text}");
    fs::write(scene.path("r.pcapng"), &output.stdout)?;
    assert_eq!(replayed(scene)?["end"], "it is a snapshot");
    let (output, value) = run(scene, &to_pipe)?;
    assert_eq!(output.status.code(), Some(2), "{value}");
    assert!(!scene.path("-").exists(), "no file is called `-`");
    Ok(())
}

/// A record and a snapshot by HTTP, and a record whose client disconnects.
fn records_by_http() -> Outcome {
    let mut scene = api::with_api(plan(LINE).deployment("ring = \"8 MiB\""))?;
    scene.start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let sent = |status: &Status| class_at(status, 1).sent.packets > 100;
    scene.await_status("the flood runs", sent)?;
    // A body of HTTP/1.0 has no parts: the connection ends with it.
    let ask = |request: &str| -> Result<TcpStream, Failed> {
        let (host, token) = (api::ADDRESS, api::TOKEN);
        let head = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let text = format!("{request} HTTP/1.0\r\n{head}");
        let begin = move || -> std::io::Result<TcpStream> {
            let mut client = TcpStream::connect(host)?;
            client.set_read_timeout(Some(PATIENCE))?;
            client.write_all(text.as_bytes())?;
            Ok(client)
        };
        Ok(scene.testbed.weir.run(begin)??)
    };
    for (request, end) in
        [("POST /record?for_ms=1000", "its time is over"), ("GET /snapshot", "it is a snapshot")]
    {
        let mut bytes = Vec::new();
        ask(request)?.read_to_end(&mut bytes)?;
        let head = bytes.windows(4).position(|part| part == b"\r\n\r\n").ok_or("no head")?;
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        assert!(text.contains("200 OK") && text.contains("application/x-pcapng"), "{text}");
        fs::write(scene.path("r.pcapng"), &bytes[head + 4..])?;
        let report = replayed(&scene)?;
        assert_eq!(report["end"], end, "{report}");
        assert!(report["directions"][0]["departures"].as_u64() > Some(0), "{report}");
    }
    let mut client = ask("POST /record?for_ms=3600000")?;
    client.read_exact(&mut [0; 4096])?;
    drop(client);
    scene.await_logged("ended before its time")?;
    drop(flood);
    exchange(&scene.testbed, 5004, 20)?;
    scene.stop()?;
    Ok(())
}
