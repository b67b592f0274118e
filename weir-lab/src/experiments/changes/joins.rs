//! Classes that join a link and leave it, one a request, beside very many that stay, under load and
//! beside a probe.
//!
//! Each request is checked and made as `weir class` does it, by one thread, one after the other.
//! Streams of numbered datagrams cross the link meanwhile: those of classes that stay lose nothing
//! and keep their order.

use super::none;
use super::random::lost_before;
use super::scene::{FIRST, Scene, is_balanced, slow_classes, total};
use crate::rows::{Options, Row};
use crate::streams::{Counts, Streams, delay_max_ms, received};
use std::time::{Duration, Instant};
use weir_link::status::Status;
use weir_testbed::Host;
use weir_traffic::{ReceiveReport, SendReport, source};

/// The beginning of the rows.
pub(super) const NAME: &str = "joins";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let mut scene = Scene::start(&policy())?;
    // Two streams have a class that joined, and stays.
    for number in 0..2 {
        let table = table(number, STREAM + 2 + number as u16);
        scene.join(&[], &(table + "rate = \"1 Mbit/s\"\n"))?;
    }
    let ports: Vec<u16> = std::iter::once(PROBE).chain(STREAM..STREAM + STREAMS).collect();
    let sources = ports.iter().map(|port| stream(*port)).collect::<Result<_, String>>()?;
    let duration = options.duration + LEAD * 2;
    let streams = Streams::start(scene.ends(), &ports, sources, duration);
    let streams = streams.map_err(|error| error.to_string())?;
    // More than the classes that stay and those that come and go may send, to each in turn.
    let filled = (0..BACKLOGGED).flat_map(|number| [FIRST + number, CHURN + number]).collect();
    let flood = scene.flood(filled, BURST)?;
    std::thread::sleep(LEAD);
    let churned = churn(&mut scene, options.duration);
    drop(flood);
    let (sent, receiver) = streams.sent();
    let churned = churned?;
    scene.drain()?;
    Ok(rows(&churned, &sent, &received(receiver), &scene.status()?))
}

fn rows(
    churned: &Churned,
    sent: &SendReport,
    received: &ReceiveReport,
    status: &Status,
) -> Vec<Row> {
    let lane = &status.lanes[0];
    let subject = |what: &str| format!("{NAME}: beside {CLASSES} classes, {what}");
    let books = lane.classes.iter().chain(lane.removed.as_deref());
    let wrong = books.filter(|class| !is_balanced(class)).count() as u64;
    let Counts { sent, lost, duplicated, reordered, .. } = Counts::of(sent, received, 0);
    let rate = churned.requests as f64 / churned.time.as_secs_f64();
    let micros = |time: Duration| format!("{:.0} us", time.as_secs_f64() * 1e6);
    vec![
        Row::shown(
            subject("requests, each a class that joins or leaves"),
            churned.requests.to_string(),
        ),
        Row::at_least(subject("requests a second, one after the other"), rate, 1000.0, "a second"),
        Row::shown(subject("a request, mean"), micros(churned.mean())),
        Row::shown(subject("a request, longest"), micros(churned.longest)),
        Row::shown(
            subject("a request, processor time of the thread that makes it, mean"),
            micros(churned.busy / churned.requests.max(1)),
        ),
        Row::shown(subject("packets of streams sent"), sent.to_string()),
        none(subject("packets lost"), lost, "packets"),
        none(
            subject("packets lost that nothing counts"),
            lost.saturating_sub(counted_lost(status)),
            "packets",
        ),
        none(subject("packets that arrived twice"), duplicated, "packets"),
        none(subject("packets reordered"), reordered, "packets"),
        none(subject("classes whose books are not exact"), wrong, "classes"),
        Row::shown(
            subject("packets of classes that left"),
            lane.removed.as_ref().map_or(0, |removed| removed.offered.packets).to_string(),
        ),
        Row::shown(
            subject("packets sent in all"),
            total(lane, |class| class.sent).packets.to_string(),
        ),
        Row::at_most(
            subject("the probe's delay, longest"),
            // The first of the sources.
            delay_max_ms(received, Some(1)),
            10.0,
            "ms",
        ),
    ]
}

/// Returns how many frames the link counted as lost on arrival, or in a class of the streams: a
/// loop that the machine makes pause loses some.
fn counted_lost(status: &Status) -> u64 {
    let of_streams = ["probe", "streams", "j0", "j1"];
    let classes = status.lanes[0].classes.iter();
    let classes = classes.filter(|class| of_streams.contains(&class.name.as_str()));
    let counted = classes.map(|class| {
        let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
        dropped + lost_before(class)
    });
    status.ports[0].lost_in + counted.sum::<u64>()
}

/// The requests that were made, and their times.
#[derive(Default)]
struct Churned {
    requests: u32,
    time: Duration,
    longest: Duration,
    /// Processor time of the thread that makes the requests.
    busy: Duration,
}

impl Churned {
    fn mean(&self) -> Duration {
        self.time / self.requests.max(1)
    }
}

/// Lets classes join and leave in turn until the time is over: each joins beside many that joined
/// before, and the oldest leaves.
fn churn(scene: &mut Scene, time: Duration) -> Result<Churned, String> {
    let start = Instant::now();
    let (mut churned, busy) = (Churned::default(), busy());
    let (mut next, mut oldest) = (2, 2);
    while start.elapsed() < time {
        let began = Instant::now();
        if next - oldest < BESIDE {
            scene.join(&[], &table(next, CHURN + (next % BESIDE) as u16))?;
            next += 1;
        } else {
            scene.join(&[format!("j{oldest}")], "")?;
            oldest += 1;
        }
        churned.longest = churned.longest.max(began.elapsed());
        churned.requests += 1;
    }
    churned.time = start.elapsed();
    churned.busy = self::busy().saturating_sub(busy);
    Ok(churned)
}

/// Returns the processor time of this thread, as proc(5) tells it in `schedstat`.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Returns the table of a class that joins, for this port of the receiver.
fn table(number: u32, port: u16) -> String {
    format!(
        "[class.j{number}]\nparent = \"all\"\nmatch = [{{ proto = \"udp\", dst = \"{}\", dport = \
         \"{port}\" }}]\n",
        Host::Server.ip4()
    )
}

fn stream(port: u16) -> Result<weir_sim::scenario::Source, String> {
    let dport = port.to_string();
    let (name, payload, interval) = match port {
        PROBE => ("probe", "100 B", "1 ms"),
        _ => ("stream", "400 B", "4 ms"),
    };
    let keys = [("payload", payload), ("interval", interval), ("dport", dport.as_str())];
    source(&format!("{name}{port}"), "cbr", Host::Server.ip4(), &keys)
}

/// Writes a policy of very many classes, with places for others.
fn policy() -> String {
    let text = format!(
        "[link]\nrate = \"20 Mbit/s\"\nscheduler = \"htb\"\n\
         [class.probe]\nrate = \"2 Mbit/s\"\nmatch = [{{ proto = \"udp\", dport = \"{PROBE}\" }}]\n\
         [class.streams]\nrate = \"2 Mbit/s\"\n\
         match = [{{ proto = \"udp\", dport = \"{STREAM}-{}\" }}]\n\
         [class.rest]\nrate = \"1 Mbit/s\"\nprio = 1\ndefault = true\n\
         [class.all]\nrate = \"15 Mbit/s\"\n\
         places = {{ count = {PLACES}, rate = \"2 kbit/s\", ceil = \"4 Mbit/s\", prio = 3, \
         queue = {{ limit = \"200 packets\" }} }}\n",
        STREAM + 1
    );
    text + &slow_classes(CLASSES)
}

const CLASSES: u32 = 10_000;
const PLACES: u32 = 1000;
/// How many classes that joined are there at once.
const BESIDE: u32 = 500;
/// The receiver's ports: of classes that come and go, of streams.
const CHURN: u16 = 40_000;
const STREAM: u16 = 50_000;
const PROBE: u16 = 900;
const STREAMS: u16 = 4;
const BACKLOGGED: u16 = 500;
/// Datagrams each 10 ms: 24 Mbit/s.
const BURST: usize = 30;
/// Before the first request and after the last.
const LEAD: Duration = Duration::from_secs(1);
