//! The API under strain: a link of `weir up` with 1000 classes carries a flood while clients of its
//! control socket hang, read slowly, send bodies that are too long and scrape. No frame may be lost
//! that is not lost without them, and a scrape takes less than 10 ms.
//!
//! Each row has networks and a link of its own (`super::flooded`). The sender, the link and the
//! clients share the machine, so a run on a busy one measures that. A row is short in CI:
//! `--seconds 1`.

use super::flooded::{Flooded, losses, passed};
use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_gateway::api;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "api",
    summary: "frames lost at 300 000 a second while clients of the API hang, send too much, scrape",
    measure: None,
    own: Some(Own::live(run)),
};

/// The load of clients, until they are told to stop.
struct Strain {
    name: &'static str,
    work: fn(&Path, &AtomicBool, &Times),
}

/// How long scrapes took.
type Times = Mutex<Vec<Duration>>;

const STRAINS: [Strain; 5] = [
    Strain { name: "no client", work: |_, _, _| {} },
    Strain { name: "1000 idle clients", work: idle },
    Strain { name: "slow readers", work: slow },
    Strain { name: "lines of 10 MB", work: bodies },
    Strain { name: "a scrape a second", work: scrape },
];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    STRAINS.iter().try_for_each(|strain| {
        rows.measure(strain.name, |options| measure(strain, options.duration))
    })
}

/// Measures one strain; returns its rows.
fn measure(strain: &Strain, duration: Duration) -> Result<Vec<Row>, String> {
    let link = Flooded::start(CLASSES, "")?;
    let (stop, times) = (AtomicBool::new(false), Times::default());
    let socket = link.0.socket();
    let sent = thread::scope(|scope| {
        let clients = scope.spawn(|| (strain.work)(&socket, &stop, &times));
        let sent = link.flood(duration);
        stop.store(true, Ordering::Relaxed);
        clients.join().map_err(|_| "a client panicked".to_owned())?;
        sent
    })?;
    let status = link.settled()?;
    let lost = sent.saturating_sub(passed(&status));
    let rate = sent as f64 / duration.as_secs_f64();
    let name = strain.name;
    let mut rows = vec![
        Row::at_most(format!("{name}: frames lost"), lost as f64, 0.0, "frames"),
        Row::shown(format!("{name}: where they were lost"), losses(&status)),
        Row::shown(format!("{name}: frames sent"), format!("{rate:.0} a second")),
    ];
    let mut times = times.into_inner().unwrap_or_default();
    times.sort();
    if let Some(median) = times.get(times.len() / 2) {
        let millis = median.as_secs_f64() * 1e3;
        rows.push(Row::at_most(format!("{name}: median of its time"), millis, SCRAPE_MS, "ms"));
    }
    Ok(rows)
}

/// Clients that connect and send nothing; those that the link turned away come again.
fn idle(socket: &Path, stop: &AtomicBool, _: &Times) {
    while !stop.load(Ordering::Relaxed) {
        let connect = |_| UnixStream::connect(socket).ok();
        let clients: Vec<_> = (0..IDLE_CLIENTS).map(connect).collect();
        thread::sleep(Duration::from_millis(500));
        drop(clients);
    }
}

/// Clients that ask for everything, and for events, and read a byte now and then.
fn slow(socket: &Path, stop: &AtomicBool, _: &Times) {
    let all = "{\"call\":\"status\"}\n";
    let events = "{\"call\":\"events\",\"follow\":true}\n";
    let ask = |text: &str| {
        let mut client = UnixStream::connect(socket).ok()?;
        client.write_all(text.as_bytes()).ok()?;
        client.set_read_timeout(Some(Duration::from_millis(1))).ok()?;
        Some(client)
    };
    let mut clients = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if clients.len() < SLOW_READERS {
            clients.extend(ask(all));
            clients.extend(ask(events));
        }
        clients.retain_mut(|client: &mut UnixStream| {
            let read = client.read(&mut [0]);
            !matches!(read, Ok(0)) && !is_gone(&read)
        });
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_gone(read: &std::io::Result<usize>) -> bool {
    let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
    read.as_ref().is_err_and(|error| !waits.contains(&error.kind()))
}

/// A client that sends 10 MB again and again.
fn bodies(socket: &Path, stop: &AtomicBool, _: &Times) {
    let line = [b" ".repeat(BODY_BYTES).as_slice(), b"{\"call\":\"mark\"}\n"].concat();
    while !stop.load(Ordering::Relaxed) {
        // It is refused, or met: what it is told does not matter here.
        let _answered = UnixStream::connect(socket).and_then(|mut client| {
            client.write_all(&line)?;
            client.read(&mut [0])
        });
    }
}

/// A client that reads the metrics of 1000 classes every second.
fn scrape(socket: &Path, stop: &AtomicBool, times: &Times) {
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let answer = api::ask(socket, "GET", "/metrics", "");
        if answer.is_ok_and(|answer| answer.status == 200)
            && let Ok(mut times) = times.lock()
        {
            times.push(start.elapsed());
        }
        let rest = Duration::from_secs(1).saturating_sub(start.elapsed());
        let end = Instant::now() + rest;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

const CLASSES: u32 = 1000;
const IDLE_CLIENTS: u32 = 1000;
const SLOW_READERS: usize = 12;
const BODY_BYTES: usize = 10 << 20;
/// The longest time of a scrape.
const SCRAPE_MS: f64 = 10.0;
