//! The cost of viewers: a link of `weir up` carries a flood while ten viewers look at its page, one
//! of them stalled, or while its metrics are scraped. It may lose no frame by that, and its
//! processor time a frame may grow by 3 % at most.
//!
//! Spells with and without them alternate on one link, and the median of the ratios of neighbours
//! counts, so that a machine which becomes slower or faster meanwhile changes little.

use super::flooded::{FRAMES_PER_SECOND, Flooded, losses, lost, passed};
use super::processes::processor_ns;
use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_bench::rig;
use weir_gateway::api;
use weir_link::status::Status;
use weir_testbed::has_argument;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "viewers",
    summary: "frames lost and processor time at 300 000 frames a second while ten viewers look",
    measure: None,
    own: Some(Own::live(run)),
};

/// The viewers of a case.
struct Look {
    name: &'static str,
    classes: u32,
    /// Lines of the deployment.
    extra: &'static str,
    /// The work of each viewer until it is told to stop; it counts the answers.
    each: &'static [fn(&Flooded, &AtomicBool, &AtomicU64)],
}

const LOOKS: [Look; 2] = [
    Look {
        name: "10 viewers, one stalled",
        classes: 200,
        extra: "web = \"127.0.0.1:8480\"\n",
        each: &[stalled, viewer, viewer, viewer, viewer, viewer, viewer, viewer, viewer, viewer],
    },
    Look { name: "a scrape a second", classes: 1000, extra: "", each: &[scraper] },
];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    LOOKS
        .iter()
        .try_for_each(|look| rows.measure(look.name, |options| measure(look, options.duration)))
}

/// The frames and processor time of the link so far.
struct Spent {
    frames: u64,
    lost: u64,
    /// Processor time of its keeper and forwarder, in ns, without that of waiting awake.
    link_ns: f64,
    /// Processor time of the page's process.
    page_ns: f64,
    at: Instant,
}

/// The cost of a spell.
struct Spell {
    ns_a_frame: f64,
    lost: u64,
    /// The part of a processor that the page's process took.
    page: f64,
}

fn measure(look: &Look, duration: Duration) -> Result<Vec<Row>, String> {
    let link = Flooded::start(look.classes, look.extra)?;
    let rate = if duration < FLOODED_FROM { FEW_PER_SECOND } else { FRAMES_PER_SECOND };
    let flood = link.begin_flood(None, rate)?;
    let answers = AtomicU64::new(0);
    let some = |turn: u32| (turn % 2 == 1).then_some(&answers);
    let pairs = pairs(duration);
    let each = duration.div_f64(f64::from(pairs)).max(SPELL_MIN);
    let spells = (0..2 * pairs).map(|turn| spell(look, &link, (some(turn), each)));
    let spells = spells.collect::<Result<Vec<_>, String>>();
    let report = flood.finish();
    let (spells, status) = (spells?, link.settled()?);
    let mut ratios: Vec<f64> =
        spells.chunks(2).map(|pair| pair[1].ns_a_frame / pair[0].ns_a_frame).collect();
    ratios.sort_by(f64::total_cmp);
    let more = (ratios[ratios.len() / 2] - 1.0) * 100.0;
    let range = (ratios[0] - 1.0) * 100.0..=(ratios[ratios.len() - 1] - 1.0) * 100.0;
    let of = |looked: bool| spells.iter().skip(usize::from(looked)).step_by(2);
    let median = |looked: bool, value: fn(&Spell) -> f64| {
        let mut values: Vec<f64> = of(looked).map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let sum = |looked: bool| of(looked).map(|spell| spell.lost).sum::<u64>();
    let name = look.name;
    let cost = format!(
        "{:.0} ns, {:+.1} % ({:+.1} to {:+.1})",
        median(true, |spell| spell.ns_a_frame),
        more,
        range.start(),
        range.end()
    );
    let without = format!("{:.0} ns", median(false, |spell| spell.ns_a_frame));
    let rate = report.sent as f64 / report.seconds;
    let page = median(true, |spell| spell.page) * 100.0;
    let all = report.sent.saturating_sub(passed(&status));
    Ok(vec![
        Row::at_most(format!("{name}: frames lost meanwhile"), sum(true) as f64, 0.0, "frames"),
        Row::shown(format!("{name}: frames lost without"), format!("{} frames", sum(false))),
        Row::shown(
            format!("{name}: lost in all"),
            format!("{all} of {}; {}", report.sent, losses(&status)),
        ),
        Row::shown(format!("{name}: frames sent"), format!("{rate:.0} a second")),
        Row::off(format!("{name}: processor time a frame"), (cost, without), more, MORE_PERCENT),
        Row::shown(format!("{name}: the page's process"), format!("{page:.1} % of a processor")),
        Row::at_least(
            format!("{name}: answers"),
            answers.into_inner() as f64,
            f64::from(pairs),
            "answers",
        ),
    ])
}

/// Returns how many spells there are with those who look, and without.
fn pairs(duration: Duration) -> u32 {
    let fit = duration.as_secs() / PAIR_SECONDS;
    u32::try_from(fit).unwrap_or(PAIRS_MAX).clamp(PAIRS_MIN, PAIRS_MAX)
}

/// A spell without those who look, or with them, whose answers are then counted.
fn spell(
    look: &Look,
    link: &Flooded,
    (answers, duration): (Option<&AtomicU64>, Duration),
) -> Result<Spell, String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for each in answers.iter().flat_map(|_| look.each) {
            scope.spawn(|| {
                // Browsers are on other machines: here they leave the link its processor.
                let _anywhere = rig::pin_traffic();
                answers.iter().for_each(|answers| each(link, &stop, answers));
            });
        }
        thread::sleep(SETTLE);
        let before = spent(link);
        thread::sleep(duration);
        let after = spent(link);
        stop.store(true, Ordering::Relaxed);
        let (before, after) = (before?, after?);
        let frames = after.frames.saturating_sub(before.frames);
        if frames == 0 {
            return Err("no frame passed the link".to_owned());
        }
        let seconds = (after.at - before.at).as_secs_f64();
        Ok(Spell {
            ns_a_frame: (after.link_ns - before.link_ns) / frames as f64,
            lost: after.lost - before.lost,
            page: (after.page_ns - before.page_ns) / 1e9 / seconds,
        })
    })
}

fn spent(link: &Flooded) -> Result<Spent, String> {
    let status: Status = link.0.status()?;
    let forwarder = status.processes.map(|processes| processes.forwarder);
    let own = forwarder.into_iter().chain([link.0.keeper()?]);
    let link_ns = own.map(processor_ns).sum::<Result<f64, _>>().map_err(|why| why.to_string())?;
    let page = link.0.children().into_iter().find(|process| has_argument(*process, "gateway"));
    let page_ns = page.and_then(|process| processor_ns(process).ok()).unwrap_or(0.0);
    Ok(Spent {
        frames: passed(&status),
        lost: lost(&status).values().sum(),
        link_ns: link_ns - status.polling_ns as f64,
        page_ns,
        at: Instant::now(),
    })
}

/// A viewer as a browser is one: it follows the stream, and asks each second for what is new.
fn viewer(link: &Flooded, stop: &AtomicBool, answers: &AtomicU64) {
    let Some((address, token)) = address(&link.page()) else { return };
    let look = || -> io::Result<()> {
        let mut stream = ask(&address, &token, "/view/stream", "text/event-stream")?;
        stream.set_read_timeout(Some(LOOK))?;
        let (mut part, mut next) = ([0; 64 << 10], Instant::now());
        while !stop.load(Ordering::Relaxed) {
            match stream.read(&mut part) {
                Ok(0) => break,
                Err(error) if !is_slow(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
            if Instant::now() >= next {
                next = Instant::now() + Duration::from_secs(1);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let from = now.as_millis().saturating_sub(2000);
                for path in ["/view/history?", "/view/heat?class=rest&"] {
                    let mut answer =
                        ask(&address, &token, &format!("{path}from={from}"), "application/json")?;
                    count(&mut answer, answers)?;
                }
            }
        }
        Ok(())
    };
    // A viewer that fails has looked less; the others go on.
    let _looked = link.0.testbed.weir.run(look);
}

/// A viewer that follows the stream and reads nothing of it.
fn stalled(link: &Flooded, stop: &AtomicBool, _: &AtomicU64) {
    let Some((address, token)) = address(&link.page()) else { return };
    let wait = || {
        let stream = ask(&address, &token, "/view/stream", "text/event-stream");
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        drop(stream);
    };
    let _stalled = link.0.testbed.weir.run(wait);
}

/// Reads the metrics each second.
fn scraper(link: &Flooded, stop: &AtomicBool, answers: &AtomicU64) {
    let socket = link.0.socket();
    while !stop.load(Ordering::Relaxed) {
        let next = Instant::now() + Duration::from_secs(1);
        if api::ask(&socket, "GET", "/metrics", "").is_ok_and(|answer| answer.status == 200) {
            answers.fetch_add(1, Ordering::Relaxed);
        }
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
}

/// Reads an answer to its end, and counts it if it is a good one.
fn count(answer: &mut TcpStream, answers: &AtomicU64) -> io::Result<()> {
    let mut text = Vec::new();
    answer.read_to_end(&mut text)?;
    if text.starts_with(b"HTTP/1.1 200 ") {
        answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn ask(address: &str, token: &str, path: &str, kind: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {kind}\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

/// Returns the address and the token of a page.
fn address(file: &Path) -> Option<(String, String)> {
    let url = fs::read_to_string(file).ok()?;
    let (address, token) = url.trim().strip_prefix("http://")?.split_once("/#token=")?;
    Some((address.to_owned(), token.to_owned()))
}

fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// With less time for a measurement only answers count, and few frames pass: on a machine that does
/// other work, too, a flood would leave those who look no processor.
const FLOODED_FROM: Duration = Duration::from_secs(2);
const FEW_PER_SECOND: u64 = 3000;
/// Spells with and without, one of each in every so many seconds that are asked for.
const PAIR_SECONDS: u64 = 2;
const PAIRS_MIN: u32 = 5;
/// As many make their median certain to about a percent on a machine of two processors.
const PAIRS_MAX: u32 = 40;
/// No spell is shorter.
const SPELL_MIN: Duration = Duration::from_millis(500);
/// The time in which those who look come.
const SETTLE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// By how much the processor time a frame may grow.
const MORE_PERCENT: f64 = 3.0;
