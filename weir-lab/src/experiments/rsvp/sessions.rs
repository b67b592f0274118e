//! Ten thousand sessions on a router: set-ups a second, what refreshing them takes of a processor,
//! and memory.
//!
//! A set-up is whole: the sender announces, the receiver hears and reserves, the router admits, the
//! class joins the link, and the receiver gets its confirmation. So many are on their way at once
//! as a receiver's socket has room for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use weir_rsvp::Tspec;
use weir_rsvp::intserv::Flowspec;
use weir_rsvp::node::Event;
use weir_rsvp::wire::Session;

use super::scene::{Heard, Plan, Scene};
use super::text;
use crate::experiments::processes::{own_memory, processor_ns};
use crate::rows::{Options, Row};

/// The beginning of the rows.
pub(super) const NAME: &str = "sessions";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let policy = policy();
    let mut scene = start(&policy, false)?;
    let before = memory(&scene)?;
    let set_up = set_up(&mut scene)?;
    let admitted = scene.reservations(1)?.admitted;
    let after = memory(&scene)?;
    // In 1.5 periods each state is refreshed at least once [rfc2205 §3.7].
    let spell = options.duration.max(Duration::from_secs(45));
    let refreshed = refresh(&mut scene, spell)?;
    let began = Instant::now();
    for number in 0..SESSIONS {
        scene.receiver.release(session(&scene, number));
        if number % WINDOW as u32 == 0 {
            scene.turn();
        }
    }
    scene.until_admitted((0, PATIENCE), |_, _| Ok(()))?;
    let released = began.elapsed();
    drop(scene);
    let a_second = |time: Duration| f64::from(SESSIONS) / time.as_secs_f64();
    let each =
        |(before, after): (u64, u64)| after.saturating_sub(before) as f64 / f64::from(SESSIONS);
    let (speaker, forwarder) = (each((before.0, after.0)), each((before.1, after.1)));
    let mut rows = vec![
        Row::at_least(subject("admitted"), admitted as f64, f64::from(SESSIONS), "reservations"),
        Row::at_least(subject("set-ups a second"), a_second(set_up.whole), 200.0, "a second"),
        Row::shown(
            subject("set-ups a second, first and last thousand"),
            format!("{:.0} and {:.0} a second", set_up.first, set_up.last),
        ),
        Row::shown(subject("released, a second"), format!("{:.0} a second", a_second(released))),
        Row::at_most(
            subject("refreshed each 30 s, both processes"),
            refreshed.speaker + refreshed.forwarder,
            3.0,
            "% of a core",
        ),
        Row::shown(
            subject("refreshed each 30 s, messages in and out"),
            format!("{:.0} a second", refreshed.messages),
        ),
        Row::shown(
            subject("refreshed each 30 s, the process of reservations and the forwarder"),
            format!("{:.1} and {:.1} % of a core", refreshed.speaker, refreshed.forwarder),
        ),
        Row::at_most(
            subject("memory of a session, both processes"),
            (speaker + forwarder) / 1024.0,
            4.0,
            "KiB",
        ),
        Row::shown(
            subject("memory of a session, the process of reservations"),
            format!("{:.1} KiB", speaker / 1024.0),
        ),
        Row::shown(
            subject("memory of a session's class, the forwarder"),
            format!("{:.1} KiB", forwarder / 1024.0),
        ),
    ];
    rows.extend(summaries(&policy, spell)?);
    Ok(rows)
}

fn subject(what: &str) -> String {
    format!("{NAME}: {SESSIONS} on a router, {what}")
}

/// Measures the cost of refreshing where all nodes acknowledge messages and refresh by identifiers.
fn summaries(policy: &str, spell: Duration) -> Result<[Row; 2], String> {
    let mut scene = start(policy, true)?;
    set_up(&mut scene)?;
    let refreshed = refresh(&mut scene, spell)?;
    Ok([
        Row::at_most(
            subject("refreshed each 30 s by summary refreshes, both processes"),
            refreshed.speaker + refreshed.forwarder,
            3.0,
            "% of a core",
        ),
        Row::shown(
            subject("refreshed each 30 s by summary refreshes, messages in and out"),
            format!("{:.0} a second", refreshed.messages),
        ),
    ])
}

/// A router between two hosts; with `reduction` all use summary refreshes `[rfc2961]`.
fn start(policy: &str, reduction: bool) -> Result<Scene, String> {
    let period = weir_core::units::Duration::from_secs(30);
    Scene::start(&Plan { routers: 1, policy, rsvp: "", period, reduction })
}

/// How fast sessions were set up.
struct SetUp {
    whole: Duration,
    /// Sessions a second, of the first thousand.
    first: f64,
    last: f64,
}

/// Sets all sessions up.
fn set_up(scene: &mut Scene) -> Result<SetUp, String> {
    let (mut next, mut confirmed) = (0, BTreeSet::new());
    let (start, mut marks) = (Instant::now(), Vec::new());
    while confirmed.len() < SESSIONS as usize {
        while next < SESSIONS && (next as usize) < confirmed.len() + WINDOW {
            let session = session(scene, next);
            scene.sender.announce(session, TSPEC)?;
            next += 1;
        }
        let Heard { receiver, .. } = scene.turn();
        for event in receiver {
            match event {
                Event::Path { session, .. } => {
                    scene.receiver.reserve(session, Flowspec::ControlledLoad(TSPEC))?;
                }
                Event::Confirmed { session, .. } => {
                    confirmed.insert(session.port);
                    if confirmed.len() % 1000 == 0 {
                        marks.push(start.elapsed());
                    }
                }
                Event::ResvError { error, .. } => {
                    return Err(format!("a reservation was refused: {error:?}"));
                }
                _ => {}
            }
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{} of {SESSIONS} were confirmed", confirmed.len()));
        }
    }
    marks.dedup();
    let thousand = |time: Duration| 1000.0 / time.as_secs_f64();
    let last = marks[marks.len() - 1] - marks[marks.len() - 2];
    Ok(SetUp { whole: start.elapsed(), first: thousand(marks[0]), last: thousand(last) })
}

/// The cost of refreshing all sessions.
struct Refreshed {
    /// Percent of a processor.
    speaker: f64,
    forwarder: f64,
    /// Messages a second.
    messages: f64,
}

fn refresh(scene: &mut Scene, spell: Duration) -> Result<Refreshed, String> {
    let (speaker, forwarder) = scene.processes(1)?;
    let spent = || -> Result<(f64, f64), String> {
        Ok((processor_ns(speaker).map_err(text)?, processor_ns(forwarder).map_err(text)?))
    };
    let count = |scene: &Scene| -> Result<u64, String> {
        let told = scene.reservations(1)?;
        Ok(told.received + told.sent)
    };
    let (messages, before, start) = (count(scene)?, spent()?, Instant::now());
    let waited = scene.status(1)?.polling_ns;
    scene.run(spell);
    let (after, seconds) = (spent()?, start.elapsed().as_secs_f64());
    // The forwarder's loop waits awake for deadlines; that is no work.
    let waited = (scene.status(1)?.polling_ns - waited) as f64;
    let percent = |ns: f64| ns / 1e9 / seconds * 100.0;
    Ok(Refreshed {
        speaker: percent(after.0 - before.0),
        forwarder: percent((after.1 - before.1 - waited).max(0.0)),
        messages: (count(scene)? - messages) as f64 / seconds,
    })
}

/// Returns the memory of the two processes that have a part.
fn memory(scene: &Scene) -> Result<(u64, u64), String> {
    let (speaker, forwarder) = scene.processes(1)?;
    Ok((own_memory(speaker).map_err(text)?, own_memory(forwarder).map_err(text)?))
}

fn session(scene: &Scene, number: u32) -> Session {
    Session::udp(scene.receiver_address(), FIRST + number as u16)
}

/// A line with places for all.
fn policy() -> String {
    format!(
        "[link]\nrate = \"1 Gbit/s\"\nscheduler = \"htb\"\noverhead = \"ethernet\"\n\
         [class.reserved]\nrate = \"900 Mbit/s\"\nplaces = {{ count = {SESSIONS} }}\n\
         [class.signals]\nparent = \"reserved\"\nrate = \"20 Mbit/s\"\n\
         match = {{ proto = \"46\" }}\n\
         [class.rest]\nrate = \"50 Mbit/s\"\ndefault = true\n"
    )
}

/// 8 kbit/s in packets of 100 to 500 bytes.
const TSPEC: Tspec =
    Tspec { rate: 1000.0, bucket: 1500.0, peak: f32::INFINITY, packet_min: 100, packet_max: 500 };
const SESSIONS: u32 = 10_000;
/// Set-ups on their way at once.
const WINDOW: usize = 64;
/// The port of the first session.
const FIRST: u16 = 10_000;
const PATIENCE: Duration = Duration::from_secs(240);
