//! Durations and rates of a link that is in order: what a user waits for, and what a class gets.

use super::POLICY;
use crate::program::plan;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use weir_testbed::{Flood, Found, Host, PATIENCE, PortKind, Result, Stream, StreamConfig, signal};

/// Something that is measured many times, and the most that its median may be, in `unit`.
pub(super) struct Figure {
    pub subject: &'static str,
    pub goal: f64,
    pub unit: &'static str,
    pub measure: fn() -> Result<f64>,
}

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        subject: "a change by `weir set`, from the request until it is in force",
        goal: 50.0,
        unit: "ms",
        measure: change,
    },
    Figure {
        subject: "a stop by SIGTERM, with nothing queued",
        goal: 500.0,
        unit: "ms",
        measure: stop,
    },
    Figure {
        subject: "the oldest packet sent after a stall of 3 s, sojourn_max = 200 ms, packet sockets",
        goal: 1000.0,
        unit: "ms",
        measure: || oldest(PortKind::AfPacket),
    },
    Figure {
        subject: "the oldest packet sent after a stall of 3 s, sojourn_max = 200 ms, AF_XDP",
        goal: 1000.0,
        unit: "ms",
        measure: || oldest(PortKind::AfXdp),
    },
    Figure {
        subject: "the worst delay of a declared class beside a flood, above its bound",
        goal: 100.0,
        unit: "ms",
        measure: above_the_bound,
    },
    Figure {
        subject: "what one TCP transfer misses of its class's 10 Mbit/s, headers counted",
        goal: 5.0,
        unit: "%",
        measure: missed_by_tcp,
    },
];

/// As the answer of the command says.
fn change() -> Result<f64> {
    let scene = plan(POLICY)?.start()?;
    let printed = scene.called(&["set", "link.rate=20 Mbit/s", "--format", "json"])?;
    let answer: serde_json::Value =
        serde_json::from_str(&printed).map_err(|error| format!("{error}: {printed}"))?;
    let took = answer["took_us"].as_f64().ok_or_else(|| format!("no time: {printed}"))?;
    Ok(took / 1e3)
}

fn stop() -> Result<f64> {
    let mut scene = plan(POLICY)?.start()?;
    let start = Instant::now();
    scene.stop()?;
    Ok(ms(start.elapsed()))
}

/// The forwarder is stopped while packets come, and goes on.
fn oldest(kind: PortKind) -> Result<f64> {
    let deployment = "watchdog = \"20 s\"\nsojourn_max = \"200 ms\"";
    let scene = plan(POLICY)?.ports(kind).deployment(deployment).start()?;
    let stream = Stream::numbered(&scene.testbed, StreamConfig::default())?;
    stream.await_another()?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "STOP")?;
    thread::sleep(STALLED);
    signal(forwarder, "CONT")?;
    stream.await_another()?;
    Ok(ms(worst_delay(&stream.finish()?)))
}

/// A sleep is never shorter than requested, so the class sends less than it declares.
fn above_the_bound() -> Result<f64> {
    let parsed = weir_policy::parse(DECLARED, "policy.toml").plan.ok_or("a policy with errors")?;
    let bounds = weir_policy::calculus::bounds(&parsed.link, &parsed.demands);
    let bound = bounds[0].delay.ok_or("a class of htb that declares has a bound")?;
    let scene = plan(DECLARED)?.start()?;
    let flood = Flood::start(&scene.testbed, 1400)?;
    let is_full =
        |status: &weir_link::status::Status| !status.lanes[0].classes[1].dropped.is_empty();
    scene.await_status("the flood fills its queue", is_full)?;
    let voice = StreamConfig { per_second: 250, length: 160, ..StreamConfig::default() };
    let stream = Stream::numbered(&scene.testbed, voice)?;
    thread::sleep(BESIDE);
    drop(stream.finish()?);
    drop(flood);
    let worst_us = scene.status()?.lanes[0].classes[0].delay.max_us;
    Ok((worst_us / 1e3 - bound * 1e3).max(0.0))
}

/// Seconds of a transfer beyond its slow start.
fn missed_by_tcp() -> Result<f64> {
    let scene = plan(&POLICY.replace("50 Mbit/s", "10 Mbit/s"))?.start()?;
    let listener = scene.testbed.server.run(|| TcpListener::bind((Host::Server.ip4(), 0)))??;
    let to = listener.local_addr()?;
    let server = thread::spawn(move || -> std::io::Result<u64> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        std::io::copy(&mut stream, &mut std::io::sink())
    });
    let mut stream = scene.testbed.client.run(|| TcpStream::connect_timeout(&to, PATIENCE))??;
    stream.set_write_timeout(Some(PATIENCE))?;
    let start = Instant::now();
    let bytes = vec![0; TRANSFER];
    stream.write_all(&bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let arrived = server.join().map_err(|_| "the server panicked")??;
    let seconds = start.elapsed().as_secs_f64();
    // Of 1514 bytes on the line, which Weir counts, 1448 are data.
    let rate = arrived as f64 * 8.0 * 1514.0 / 1448.0 / seconds;
    Ok((1.0 - rate / 10e6) * 100.0)
}

/// Returns the longest time from the sending to the arrival of those that arrived.
fn worst_delay(found: &Found) -> Duration {
    let delay = |(number, sent_ns): (u64, &u64)| {
        found.arrived_ns(number).map(|at_ns| at_ns.saturating_sub(*sent_ns))
    };
    let delays = (0..).zip(found.sent_ns()).filter_map(delay);
    Duration::from_nanos(delays.max().unwrap_or_default())
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const STALLED: Duration = Duration::from_secs(3);
const BESIDE: Duration = Duration::from_secs(2);
/// Four seconds at 10 Mbit/s.
const TRANSFER: usize = 5 << 20;

const DECLARED: &str = r#"
[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.voice]
rate = "2 Mbit/s"
match = [{ proto = "udp", dport = "5004" }]
arrival = { rate = "1 Mbit/s", burst = "3000 B" }

[class.rest]
rate = "8 Mbit/s"
prio = 1
default = true
queue = { limit = "400 packets" }
"#;
