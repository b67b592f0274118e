//! Records of a running link: made under load, replayed to the bit, and ended without harm to the
//! link by a full disk and by a reader that stops.

use super::deaths::until;
use super::told::configure;
use super::{LINE, Outcome, PATIENCE, Scene, Test, children, flood, send_until_received, signal};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_sim::capture::CaptureReader;

pub const TESTS: &[Test] = &[
    ("a_record_under_load_replays_to_the_bit", a_record_under_load_replays),
    ("a_record_ended_by_a_signal_is_whole", a_record_ended_by_a_signal_is_whole),
    ("a_full_disk_ends_the_record_and_not_the_link", a_full_disk_ends_the_record),
    ("a_reader_that_stops_ends_the_record_and_not_the_link", a_reader_that_stops),
    ("a_record_across_changes_of_the_policy_replays_to_the_bit", a_record_across_changes),
    ("a_snapshot_of_the_ring_replays_to_the_bit", a_snapshot_replays),
    ("records_by_http_replay_to_the_bit", records_by_http),
];

const RECORD: &[&str] = &["record", "--control", "weir.sock", "-o", "r.pcapng"];

/// Runs the program with these arguments, and as JSON.
fn run(scene: &Scene, arguments: &[&str]) -> Result<(Output, Value), Failed> {
    let output = scene.weir(&[&["--format", "json"], arguments].concat()).output()?;
    let value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {arguments:?} {output:?}"))?;
    Ok((output, value))
}

/// A flood that ends when it is dropped.
struct Flood(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl Flood {
    fn new(scene: &Scene) -> Result<Self, Failed> {
        let done = Arc::new(AtomicBool::new(false));
        let flooding = flood(&scene.testbed, &done)?;
        Ok(Self(done, Some(flooding)))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(flooding) = self.1.take() {
            flooding.join().expect("the flood does not panic");
        }
    }
}

/// Replays the record; returns what was the same.
fn replayed(scene: &Scene) -> Result<Value, Failed> {
    let (output, value) = run(scene, &["replay", "--record", "r.pcapng"])?;
    assert!(output.status.success(), "{output:?}");
    assert!(value["difference"].is_null() && value["fault"].is_null(), "{value}");
    Ok(value)
}

fn a_record_under_load_replays() -> Outcome {
    let mut scene = Scene::new("record", LINE)?;
    scene.start()?;
    let flood = Flood::new(&scene)?;
    let drops = |status: &super::Status| {
        status.lanes[0].classes[1].dropped.iter().any(|(_, amount)| amount.packets > 0)
    };
    scene.await_status("the class is full", drops)?;
    let (output, saved) = run(&scene, &[RECORD, &["--seconds", "1"]].concat())?;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(saved["end"], "its time is over", "{saved}");
    drop(flood);
    let report = replayed(&scene)?;
    let lane = &report["directions"][0];
    let count = |key: &str| lane[key].as_u64().unwrap_or_default();
    assert_eq!(lane["direction"], "upload");
    assert!(count("departures") > 100 && count("drops") > 100, "{report}");
    // The way back is shaped by nothing, and recorded all the same.
    assert_eq!(report["directions"][1]["direction"], "from outside", "{report}");
    let bytes = fs::read(scene.folder.join("r.pcapng"))?;
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

/// Rates, another scheduler with one class more, and back to the first.
fn a_record_across_changes() -> Outcome {
    let mut scene = Scene::new("record-changes", LINE)?;
    scene.start()?;
    let flood = Flood::new(&scene)?;
    let recording = scene.weir(RECORD).spawn()?;
    let path = scene.folder.join("r.pcapng");
    until("the record begins", || fs::metadata(&path).is_ok_and(|file| file.len() > 0))?;
    let change = |arguments: &[&str]| -> Outcome {
        let output = scene.weir(&[arguments, &["--control", "weir.sock"]].concat()).output()?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(())
    };
    change(&["set", "class.web.rate=9 Mbit/s"])?;
    let policy = scene.folder.join("policy.toml");
    let other = "[link]\nrate = '30 Mbit/s'\nscheduler = 'drr'\n[class.more]\n\
                 match = [{ proto = 'udp', dport = 9 }]\n[class.rest]\ndefault = true\n";
    fs::write(&policy, other)?;
    change(&["reload"])?;
    fs::write(&policy, LINE)?;
    change(&["reload"])?;
    // Each is given after another turn of the loop, which hands on what it did in a turn at its end.
    (0..2).try_for_each(|_| scene.status().map(drop))?;
    signal(recording.id(), "INT")?;
    let output = recording.wait_with_output()?;
    assert!(output.status.success(), "{output:?}");
    drop(flood);
    let report = replayed(&scene)?;
    assert_eq!(report["directions"][0]["changes"], 3, "{report}");
    scene.stop()?;
    Ok(())
}

fn a_record_ended_by_a_signal_is_whole() -> Outcome {
    let mut scene = Scene::new("record-stop", LINE)?;
    scene.start()?;
    let recording = scene.weir(RECORD).spawn()?;
    let path = scene.folder.join("r.pcapng");
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
        send_until_received(&scene.testbed, 5004, 20)?;
        thread::sleep(Duration::from_millis(20));
    }
    signal(recording.id(), "INT")?;
    let output = recording.wait_with_output()?;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(replayed(&scene)?["end"], "it was ended");
    scene.stop()?;
    Ok(())
}

fn a_full_disk_ends_the_record() -> Outcome {
    let mut scene = Scene::new("record-full", LINE)?;
    scene.start()?;
    let flood = Flood::new(&scene)?;
    let to_full = ["record", "--control", "weir.sock", "-o", "/dev/full", "--seconds", "30"];
    let (output, saved) = run(&scene, &to_full)?;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(saved["fault"].as_str().is_some_and(|text| text.contains("space")), "{saved}");
    drop(flood);
    send_until_received(&scene.testbed, 5004, 20)?;
    let text = scene.stop()?;
    assert!(text.contains("ended before its time"), "{text}");
    Ok(())
}

fn a_reader_that_stops() -> Outcome {
    let mut scene = Scene::new("record-stopped", LINE)?;
    scene.start()?;
    let mut client = UnixStream::connect(scene.folder.join("weir.sock"))?;
    client.write_all(b"{\"call\":\"record\"}\n")?;
    client.read_exact(&mut [0; 8])?;
    let flood = Flood::new(&scene)?;
    // More than the buffer of the loop and of the socket hold: `children` says that it lives.
    let sent = |status: &super::Status| status.lanes[0].classes[1].offered.packets > 400_000;
    let start = Instant::now();
    while !sent(&scene.status()?) && start.elapsed() < 3 * PATIENCE {
        thread::sleep(Duration::from_millis(100));
    }
    drop(flood);
    assert_eq!(children(scene.keeper()?).len(), 1, "the forwarder is the first one still");
    send_until_received(&scene.testbed, 5004, 20)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let mut rest = Vec::new();
    client.read_to_end(&mut rest)?;
    let text = scene.stop()?;
    assert!(text.contains("ended before its time"), "{text}");
    Ok(())
}

fn a_snapshot_replays() -> Outcome {
    let mut scene = Scene::new("snapshot", LINE)?;
    configure(&scene, "ring = \"8 MiB\"")?;
    scene.start()?;
    let flood = Flood::new(&scene)?;
    let sent = |status: &super::Status| status.lanes[0].classes[1].offered.packets > 100_000;
    let start = Instant::now();
    while !sent(&scene.status()?) && start.elapsed() < 3 * PATIENCE {
        thread::sleep(Duration::from_millis(100));
    }
    let arguments = ["snapshot", "--control", "weir.sock", "-o", "r.pcapng"];
    let (output, saved) = run(&scene, &arguments)?;
    drop(flood);
    assert!(output.status.success(), "{output:?}");
    assert!(saved["bytes"].as_u64().is_some_and(|bytes| bytes < 32 << 20), "{saved}");
    let report = replayed(&scene)?;
    assert_eq!(report["end"], "it is a snapshot");
    assert!(report["directions"][0]["checkpoints"].as_u64() > Some(1), "{report}");
    to_standard_output(&scene)?;
    scene.stop()?;
    Ok(())
}

/// A record goes down a pipe as well, and what is said of it goes elsewhere.
fn to_standard_output(scene: &Scene) -> Outcome {
    let to_pipe = ["snapshot", "--control", "weir.sock", "-o", "-"];
    let output = scene.weir(&to_pipe).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("standard output: "), "{text}");
    fs::write(scene.folder.join("r.pcapng"), &output.stdout)?;
    assert_eq!(replayed(scene)?["end"], "it is a snapshot");
    let (output, value) = run(scene, &to_pipe)?;
    assert_eq!(output.status.code(), Some(2), "{value}");
    assert!(!scene.folder.join("-").exists(), "no file is called `-`");
    Ok(())
}

/// A record and a snapshot by HTTP, and a record whose client disconnects.
fn records_by_http() -> Outcome {
    let mut scene = Scene::new("record-http", LINE)?;
    configure(&scene, "ring = \"8 MiB\"")?;
    scene.start()?;
    let flood = Flood::new(&scene)?;
    let sent = |status: &super::Status| status.lanes[0].classes[1].sent.packets > 100;
    scene.await_status("the flood runs", sent)?;
    // A body of HTTP/1.0 has no parts: the connection ends with it.
    let ask = |request: &str| -> Result<UnixStream, Failed> {
        let mut client = UnixStream::connect(scene.folder.join("weir.sock"))?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.write_all(format!("{request} HTTP/1.0\r\n\r\n").as_bytes())?;
        Ok(client)
    };
    for (request, end) in
        [("POST /record?for_ms=1000", "its time is over"), ("GET /snapshot", "it is a snapshot")]
    {
        let mut bytes = Vec::new();
        ask(request)?.read_to_end(&mut bytes)?;
        let head = bytes.windows(4).position(|part| part == b"\r\n\r\n").ok_or("no head")?;
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        assert!(text.contains("200 OK") && text.contains("application/x-pcapng"), "{text}");
        fs::write(scene.folder.join("r.pcapng"), &bytes[head + 4..])?;
        let report = replayed(&scene)?;
        assert_eq!(report["end"], end, "{report}");
        assert!(report["directions"][0]["departures"].as_u64() > Some(0), "{report}");
    }
    let mut client = ask("POST /record?for_ms=3600000")?;
    client.read_exact(&mut [0; 4096])?;
    drop(client);
    drop(flood);
    send_until_received(&scene.testbed, 5004, 20)?;
    let text = scene.stop()?;
    assert!(text.contains("record-ended") || text.contains("ended before its time"), "{text}");
    Ok(())
}
