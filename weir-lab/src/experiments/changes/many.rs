//! Very many classes, read anew while many of them are backlogged, beside a probe.

use super::scene::{self, FIRST, Scene, slow_classes};
use crate::rows::{Options, Row};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testbed::Host;
use weir_traffic::{ReceivePlan, Receiver, SendPlan, Sender, source};

/// The beginning of the rows.
pub(super) const NAME: &str = "many";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let text = |error: weir_host::error::SystemError| error.to_string();
    let subject = |what: &str| format!("{NAME}: {CLASSES} classes, {what}");
    let read = Instant::now();
    let mut scene = Scene::start(&policy(0))?;
    let started = read.elapsed();
    let plan = ReceivePlan { tcp: Vec::new(), ..ReceivePlan::ports(&[PROBE]) };
    let receiver = scene.testbed.server.run(|| Receiver::start(&plan)).map_err(text)?;
    let receiver = receiver.map_err(text)?;
    let keys = [("payload", "100 B"), ("interval", "1 ms"), ("dport", "900")];
    let probe = source("probe", "cbr", Host::Server.ip4(), &keys)?;
    let client = scene.testbed.client.run(|| UdpSocket::bind("0.0.0.0:0"));
    let client = client.map_err(text)?.map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    let mut quiet = 0.0;
    let (mut prepare, mut parse) = (Duration::ZERO, Duration::ZERO);
    let mut force = Duration::ZERO;
    let mut backlogged = 0;
    let received = std::thread::scope(|scope| {
        scope.spawn(|| fill(&client, &stop));
        let measure = || -> Result<_, String> {
            std::thread::sleep(Duration::from_secs(2));
            let duration = options.duration.max(Duration::from_secs(4)) * 2;
            let plan = SendPlan { duration, ..SendPlan::new(vec![probe]) };
            let sender = scene.testbed.client.run(|| Sender::start(&plan)).map_err(text)?;
            let sender = sender.map_err(text)?;
            std::thread::sleep(Duration::from_secs(1));
            quiet = delay_max(&receiver.report());
            let start = Instant::now();
            let mut round = 1;
            while start.elapsed() < options.duration || round == 1 {
                let reading = Instant::now();
                let new = scene::read(&policy(round))?;
                parse = parse.max(reading.elapsed());
                let lane = scene.counts()?;
                backlogged = lane.classes.iter().filter(|class| class.backlog.packets > 0).count();
                let took = scene.change(new)?;
                prepare = prepare.max(took.prepare);
                force = force.max(took.force);
                round += 1;
            }
            std::thread::sleep(Duration::from_millis(500));
            drop(sender.finish());
            Ok((round - 1, receiver.finish()))
        };
        let measured = measure();
        stop.store(true, Ordering::Relaxed);
        measured
    });
    let (rounds, received) = received?;
    let gap = delay_max(&received);
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

/// Returns the longest delay of the probe, in ms.
fn delay_max(report: &weir_traffic::ReceiveReport) -> f64 {
    report.streams.iter().map(|stream| stream.delay.max_us / 1e3).fold(0.0, f64::max)
}

/// Sends more than the line takes, to each of so many classes in turn.
fn fill(client: &UdpSocket, stop: &AtomicBool) {
    let mut port = FIRST;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            // A full socket loses it, which is as good as a queue that does.
            let _lost = client.send_to(&[0; 1000], (Host::Server.ip4(), port));
            port = if port + 1 == FIRST + BACKLOGGED { FIRST } else { port + 1 };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
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
const BURST: u32 = 30;
