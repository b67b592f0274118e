//! The page of a running link replays what the link did of late, in its process without rights.

use super::Test;
use super::page::{ask, scene};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use weir_testbed::rows::Outcome;
use weir_testbed::{Scene, Stream, StreamConfig, until};

pub const TESTS: &[Test] =
    &[("the_page_explains_packets_and_forks_what_the_link_did", packets_and_forks)];

/// More datagrams than its queue takes, for as long as the ring is asked for, and no more than the
/// ring holds: what is forked ends with the record, and the class has something to send until then.
fn packets_and_forks() -> Outcome {
    let (mut scene, token) = scene()?;
    let stream = Stream::numbered(&scene.testbed, TWICE_THE_RATE)?;
    the_ring_is_replayed(&scene, &token)?;
    drop(stream);
    scene.stop()?;
    Ok(())
}

/// The packets of the ring, and forks of it: the process of the page replays what the link did.
fn the_ring_is_replayed(scene: &Scene, token: &str) -> Outcome {
    let request = "GET /view/packets?class=rest&direction=upload&limit=5";
    let mut found = Value::Null;
    until("the ring has many packets", || {
        found = ask(scene, token, request, "").unwrap_or_default();
        found["left_out"].as_u64() > Some(1000)
    })?;
    let packets = found["packets"].as_array().ok_or("packets")?;
    assert_eq!(packets.len(), 5, "{found}");
    for packet in packets {
        let parts = packet["parts_us"].as_object().ok_or("parts")?.iter();
        // A running link counts what the run loop added, as its status does.
        let parts = parts.filter(|part| part.0.as_str() != "port");
        let sum: f64 = parts.filter_map(|part| part.1.as_f64()).sum();
        let total = packet["total_us"].as_f64().ok_or("a delay")?;
        // One that found no room has waited for nothing.
        let has_waited = total > 1e3 || packet["dropped"] == "full";
        assert!((sum - total).abs() < 1e-3 && has_waited, "{packet}");
    }
    // In the middle of the packets: the ring may have seconds of calm behind them.
    let offered = packets.iter().filter_map(|packet| packet["offered"].as_f64());
    let begin = found["covers"][0].as_f64().ok_or("a time")?;
    let at = (offered.fold(f64::INFINITY, f64::min) - 0.5).max(begin);
    let fork = |settings: Value| -> Result<Value, Failed> {
        let body = json!({ "direction": "upload", "at": at, "seconds": 1.0, "settings": settings });
        ask(scene, token, "POST /view/fork", &body.to_string())
    };
    let same = fork(json!([]))?;
    assert_eq!((&same["identical"], &same["recorded"]), (&json!(true), &same["forked"]), "{same}");
    assert!(same["packets"].as_u64() > Some(50), "{}", same["packets"]);
    let other = fork(json!([{ "key": "class.rest.ceil", "value": "4 Mbit/s" }]))?;
    let sent = |future: &str| {
        let rates = other[future]["rest"]["sent_bps"].as_array().into_iter().flatten();
        rates.into_iter().filter_map(Value::as_f64).sum::<f64>()
    };
    assert!(other["identical"] == false && sent("forked") < sent("recorded"), "{other}");
    Ok(())
}

/// The link has 5 Mbit/s.
const TWICE_THE_RATE: StreamConfig = StreamConfig { port: 7000, per_second: 1000, length: 1200 };
