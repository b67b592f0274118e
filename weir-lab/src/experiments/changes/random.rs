//! Random changes, one after another, under load.

use super::none;
use super::scene::{self, Scene, is_balanced, total};
use crate::rows::{Options, Row};
use crate::streams::{Counts, Streams, received};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use weir_core::random::Random;
use weir_link::status::{ClassStatus, LaneStatus, Status};
use weir_testbed::Host;
use weir_traffic::{ReceiveReport, SendReport, source};

/// The beginning of the rows.
pub(super) const NAME: &str = "random";

/// The changes that were made, and their faults.
#[derive(Default)]
struct Found {
    changes: u64,
    /// Drafts with errors, which change nothing.
    refused: u64,
    /// Changes after which the books of a class were not exact, or a sum went back.
    wrong_books: u64,
    prepare: Duration,
    /// From asking the loop until it had changed, for each change.
    force: Vec<Duration>,
}

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let mut random = Random::new(SEED, 0);
    let mut scene = Scene::start(&draft(&mut random))?;
    let ports: Vec<u16> = (0..STREAMS).map(port).collect();
    let sources = ports.iter().map(|port| stream(*port)).collect::<Result<_, String>>()?;
    let duration = options.duration + LEAD * 2;
    let streams = Streams::start(scene.ends(), &ports, sources, duration);
    let streams = streams.map_err(|error| error.to_string())?;
    std::thread::sleep(LEAD);
    let found = change_all(&mut scene, &mut random, options.duration);
    let (sent, receiver) = streams.sent();
    let found = found?;
    scene.drain()?;
    let received = received(receiver);
    let status = scene.status()?;
    let mut rows = rows(&found, &sent, &received, &status.lanes[0]);
    rows.extend(frames(&status));
    Ok(rows)
}

/// Compares the books with what the ports counted: every frame, the marks at the ends of streams
/// among them.
fn frames(status: &Status) -> [Row; 2] {
    let (lane, ports) = (&status.lanes[0], &status.ports);
    let subject = |what: &str| format!("{NAME}: {what}");
    let before: u64 = lane.classes.iter().chain(lane.removed.as_deref()).map(lost_before).sum();
    let kept: u64 = ports[0].kept.iter().map(|(_, count)| count).sum();
    let offered = total(lane, |class| class.offered).packets + before + kept;
    let sent = total(lane, |class| class.sent).packets;
    [
        none(
            subject("frames that came and are not in the books"),
            ports[0].received.abs_diff(offered),
            "frames",
        ),
        none(
            subject("frames that the books sent and no port did"),
            ports[1].sent.abs_diff(sent),
            "frames",
        ),
    ]
}

/// Returns the frames of a class that were lost before the link; not those of a ring, which no port
/// received.
pub(super) fn lost_before(class: &ClassStatus) -> u64 {
    let lost = class.lost.iter().filter(|(cause, _)| cause != "ring overrun");
    lost.map(|(_, count)| count).sum()
}

/// Makes changes until the time is over, and looks at the books after each.
fn change_all(scene: &mut Scene, random: &mut Random, time: Duration) -> Result<Found, String> {
    let (mut found, start) = (Found::default(), Instant::now());
    let mut before = scene.counts()?;
    while found.changes < CHANGES && start.elapsed() < time {
        let Ok(new) = scene::read(&draft(random)) else {
            found.refused += 1;
            continue;
        };
        let took = scene.change(new)?;
        found.changes += 1;
        found.prepare += took.prepare;
        found.force.push(took.prepare + took.force);
        let now = scene.counts()?;
        found.wrong_books += u64::from(!goes_on(&before, &now));
        before = now;
    }
    Ok(found)
}

/// Returns whether the books are exact and no sum went back.
fn goes_on(before: &LaneStatus, now: &LaneStatus) -> bool {
    let is_exact = now.classes.iter().chain(now.removed.as_deref()).all(is_balanced);
    let sum =
        |lane: &LaneStatus| [total(lane, |class| class.sent), total(lane, |class| class.offered)];
    let sums = sum(before).into_iter().zip(sum(now));
    is_exact && { sums }.all(|(old, new)| old.packets <= new.packets && old.bytes <= new.bytes)
}

fn rows(found: &Found, sent: &SendReport, received: &ReceiveReport, lane: &LaneStatus) -> Vec<Row> {
    let subject = |what: &str| format!("{NAME}: {what}");
    let counts = Counts::of(sent, received, 0);
    let reordered = |stays: bool| -> u64 {
        let of =
            received.streams.iter().filter(|one| one.stream.is_some_and(|n| (n <= STAY) == stays));
        of.map(|one| one.reordered).sum()
    };
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for class in lane.classes.iter().chain(lane.removed.as_deref()) {
        let dropped =
            class.dropped.iter().map(|(reason, amount)| (reason.as_str(), amount.packets));
        let lost = class.lost.iter().map(|(cause, count)| (cause.as_str(), *count));
        dropped.chain(lost).for_each(|(why, count)| *reasons.entry(why).or_default() += count);
    }
    let accounted: u64 = reasons.values().sum();
    let mut lost = String::new();
    for (why, count) in reasons.iter().filter(|(_, count)| **count > 0) {
        let _infallible = write!(lost, "{why} {count}, ");
    }
    let mut times = found.force.clone();
    times.sort_unstable();
    let force = |per_mille: usize| {
        let at = (times.len() * per_mille / 1000).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let mean = found.prepare.as_micros() as f64 / 1e3 / found.changes.max(1) as f64;
    vec![
        Row::shown(subject("changes made"), format!("{}", found.changes)),
        Row::shown(subject("drafts refused by the check"), format!("{}", found.refused)),
        none(subject("changes after which books are not exact"), found.wrong_books, "changes"),
        Row::shown(subject("packets sent"), counts.sent.to_string()),
        Row::shown(subject("dropped, by reason"), lost.trim_end_matches(", ").to_owned()),
        none(
            subject("packets lost that no limit dropped"),
            // The marks at the ends may be dropped, too.
            counts.lost.saturating_sub(accounted),
            "packets",
        ),
        none(subject("packets that arrived twice"), counts.duplicated, "packets"),
        none(subject("reordered in streams whose class stays"), reordered(true), "packets"),
        Row::shown(subject("reordered in streams that rules move"), reordered(false).to_string()),
        Row::shown(subject("prepared in, mean"), format!("{mean:.2} ms")),
        Row::at_most(subject("checked text to in force, median"), force(500), 20.0, "ms"),
        Row::shown(subject("checked text to in force, 99 %"), format!("{:.1} ms", force(990))),
        Row::shown(subject("checked text to in force, longest"), format!("{:.1} ms", force(1000))),
    ]
}

fn stream(port: u16) -> Result<weir_sim::scenario::Source, String> {
    let dport = port.to_string();
    let keys = [("payload", "400 B"), ("rate", "4 Mbit/s"), ("dport", dport.as_str())];
    source(&format!("s{port}"), "cbr", Host::Server.ip4(), &keys)
}

fn port(stream: u32) -> u16 {
    6000 + stream as u16
}

/// Writes a random policy. Classes `c0` to `c3` are always there and always have their stream.
fn draft(random: &mut Random) -> String {
    let pick = |random: &mut Random, words: &[&'static str]| -> &'static str {
        words[random.below(words.len() as u32) as usize]
    };
    let scheduler = pick(random, SCHEDULERS);
    let rate = 24 + random.below(30);
    let mut text = format!("[link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"{scheduler}\"\n");
    let has_groups = ["htb", "cbq", "hfsc"].contains(&scheduler) && random.below(2) == 0;
    if has_groups {
        let ceil = if scheduler == "htb" { "ceil = \"100 %\"\n" } else { "" };
        let _infallible = write!(text, "[class.group]\nrate = \"50 %\"\n{ceil}");
    }
    // Two of the streams that may move exchange their classes.
    let shift = random.below(2);
    for number in 0..STREAMS {
        if number >= STAY && random.below(4) == 0 {
            continue;
        }
        let moved =
            if number >= STAY { STAY + (number + shift) % (STREAMS - STAY) } else { number };
        let _infallible = write!(
            text,
            "[class.c{number}]\nmatch = [{{ proto = \"udp\", dport = \"{}\" }}]\n",
            port(moved)
        );
        if number == 0 {
            text += "default = true\n";
        }
        if has_groups && number % 2 == 1 {
            text += "parent = \"group\"\n";
        }
        text += &keys(scheduler, random);
        let (dropper, limit) = (pick(random, DROPPERS), 50 + random.below(2000));
        let queue = format!("queue = {{ dropper = \"{dropper}\", limit = \"{limit} packets\" }}\n");
        text += &queue;
    }
    text
}

/// Returns the keys of a class under this scheduler.
fn keys(scheduler: &str, random: &mut Random) -> String {
    let share = 3 + random.below(7);
    let below = |random: &mut Random, bound| random.below(bound);
    match scheduler {
        "htb" => format!("rate = \"{share} %\"\nceil = \"100 %\"\nprio = {}\n", below(random, 3)),
        "cbq" => format!("rate = \"{share} %\"\npriority = {}\n", below(random, 3)),
        "hfsc" => format!("rate = \"{share} %\"\n"),
        "drr" | "sfq" => format!("quantum = \"{} B\"\n", 1600 + below(random, 6000)),
        "wrr" | "wfq" | "wf2q+" | "qfq" => format!("weight = {}\n", 1 + below(random, 9)),
        "priq" => format!("priority = {}\n", below(random, 4)),
        _ => String::new(),
    }
}

const SCHEDULERS: &[&str] =
    &["fifo", "priq", "htb", "drr", "prr", "wrr", "cbq", "sfq", "qfq", "wf2q+", "wfq", "hfsc"];
const DROPPERS: &[&str] =
    &["tail", "head", "red", "blue", "codel", "pie", "fq-codel", "sfq", "isolate"];
const STREAMS: u32 = 8;
/// The first of them have a class that stays.
const STAY: u32 = 4;
/// As many as the claim says.
const CHANGES: u64 = 10_000;
const SEED: u64 = 21;
/// Before the first change and after the last.
const LEAD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_drafts_are_policies_and_all_schedulers_and_droppers_come() {
        let mut random = Random::new(SEED, 0);
        let drafts: Vec<_> = (0..400).map(|_| draft(&mut random)).collect();
        let good: Vec<_> = drafts.iter().filter(|text| scene::read(text).is_ok()).collect();
        assert!(good.len() > 300, "{}: {:?}", good.len(), scene::read(&drafts[0]).err());
        for word in SCHEDULERS.iter().chain(DROPPERS) {
            let quoted = format!("\"{word}\"");
            let refused = drafts.iter().find(|text| text.contains(&quoted));
            let why = refused.map(|text| (text, scene::read(text).err()));
            assert!(good.iter().any(|text| text.contains(&quoted)), "{word}: {why:?}");
        }
    }
}
