//! Very many classes, read anew while many of them are backlogged, beside a probe.

use super::scene::{self, FIRST, Scene, slow_classes};
use crate::rows::{Options, Row};
use crate::streams::{Streams, delay_max_ms};
use std::time::{Duration, Instant};
use weir_testbed::Host;
use weir_traffic::source;

/// The beginning of the rows.
pub(super) const NAME: &str = "many";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let text = |error: weir_host::error::SystemError| error.to_string();
    let subject = |what: &str| format!("{NAME}: {CLASSES} classes, {what}");
    let read = Instant::now();
    let mut scene = Scene::start(&policy(0))?;
    let started = read.elapsed();
    let ports = (FIRST..FIRST + BACKLOGGED).collect();
    let flood = scene.flood(ports, BURST)?;
    std::thread::sleep(Duration::from_secs(2));
    let keys = [("payload", "100 B"), ("interval", "1 ms"), ("dport", "900")];
    let probe = source("probe", "cbr", Host::Server.ip4(), &keys)?;
    let duration = options.duration.max(Duration::from_secs(4)) * 2;
    let streams = Streams::start(scene.ends(), &[PROBE], vec![probe], duration).map_err(text)?;
    std::thread::sleep(Duration::from_secs(1));
    let quiet = delay_max_ms(&streams.report(), None);
    let changed = change_all(&mut scene, options.duration)?;
    std::thread::sleep(Duration::from_millis(500));
    let (_, receiver) = streams.sent();
    let received = receiver.finish();
    drop(flood);
    let Changed { rounds, backlogged, parse, prepare, force } = changed;
    let gap = delay_max_ms(&received, None);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(vec![
        Row::shown(subject("started in"), format!("{:.0} ms", ms(started))),
        Row::shown(subject("read anew, times"), rounds.to_string()),
        Row::shown(subject("backlogged"), backlogged.to_string()),
        Row::shown(subject("the files checked in, longest"), format!("{:.0} ms", ms(parse))),
        Row::at_most(subject("prepared beside the loop in, longest"), ms(prepare), 1000.0, "ms"),
        Row::shown(subject("made by the loop in, longest"), format!("{:.1} ms", ms(force))),
        Row::shown(subject("the probe's delay before, longest"), format!("{quiet:.1} ms")),
        Row::at_most(subject("the probe's delay over the changes, longest"), gap, 10.0, "ms"),
    ])
}

/// The longest times of the changes, and their effect.
#[derive(Default)]
struct Changed {
    rounds: u32,
    /// Classes with a backlog before the last change.
    backlogged: usize,
    parse: Duration,
    prepare: Duration,
    force: Duration,
}

/// Reads the policy anew until the time is over, and once at least.
fn change_all(scene: &mut Scene, time: Duration) -> Result<Changed, String> {
    let (mut changed, start) = (Changed::default(), Instant::now());
    while start.elapsed() < time || changed.rounds == 0 {
        changed.rounds += 1;
        let reading = Instant::now();
        let new = scene::read(&policy(changed.rounds))?;
        changed.parse = changed.parse.max(reading.elapsed());
        let classes = scene.counts()?.classes;
        changed.backlogged = classes.iter().filter(|class| class.backlog.packets > 0).count();
        let took = scene.change(new)?;
        changed.prepare = changed.prepare.max(took.prepare);
        changed.force = changed.force.max(took.force);
    }
    Ok(changed)
}

/// Writes a policy of very many classes; one class differs from round to round.
fn policy(round: u32) -> String {
    let text = format!(
        "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n\
         [class.probe]\nrate = \"2 Mbit/s\"\nmatch = [{{ proto = \"udp\", dport = \"{PROBE}\" }}]\n\
         [class.rest]\nrate = \"1 Mbit/s\"\nprio = 1\ndefault = true\n\
         [class.all]\nrate = \"7 Mbit/s\"\n\
         [class.round{round}]\nparent = \"all\"\nrate = \"100 bit/s\"\nprio = 3\n"
    );
    text + &slow_classes(CLASSES)
}

const CLASSES: u32 = 50_000;
const BACKLOGGED: u16 = 1000;
const PROBE: u16 = 900;
/// Datagrams each 10 ms: 24 Mbit/s.
const BURST: usize = 30;
