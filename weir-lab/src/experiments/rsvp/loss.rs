//! Half of all messages lost, of those that leave a host and of those that come to it.
//!
//! [rfc2205 §3.7] State is told anew after 0.5 R to 1.5 R, and lives (K + 0.5) 1.5 R without that.
//! So a message is passed after one period more for each time that it is lost, what was lost is in
//! place a refresh a hop and direction after the last loss, and what is released goes after one
//! lifetime a hop at the latest, even if no teardown arrives.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_rsvp::intserv::Flowspec;
use weir_rsvp::node::Event;
use weir_rsvp::{Session, Tspec};

use super::scene::{Heard, Plan, Scene};
use crate::rows::{Options, Row};

/// The beginning of the rows.
pub(super) const NAME: &str = "loss";

pub(super) fn run(_: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (name, reduction) in [("plain", false), ("acknowledged", true)] {
        rows.extend(measure(name, reduction)?);
    }
    Ok(rows)
}

fn measure(name: &str, reduction: bool) -> Result<Vec<Row>, String> {
    let plan = Plan {
        routers: 1,
        policy: POLICY,
        rsvp: "",
        period: weir_core::units::Duration::from_millis(PERIOD.as_millis() as u64),
        reduction,
    };
    let mut scene = Scene::start(&plan)?;
    lose(&mut scene, HALF);
    for number in 0..SESSIONS {
        let session = session(&scene, number);
        scene.sender.announce(session, TSPEC)?;
    }
    let mut set_up = set_up(&mut scene)?;
    lose(&mut scene, 0);
    let all = u64::from(SESSIONS);
    let whole = scene.until_admitted((all, PATIENCE), reserve)?;
    lose(&mut scene, HALF);
    for number in 0..SESSIONS {
        scene.receiver.release(session(&scene, number));
    }
    let gone = scene.until_admitted((0, PATIENCE), |_, _| Ok(()))?;
    set_up.sort_unstable();
    let lost = scene.sender.lost() + scene.receiver.lost();
    let subject = |what: &str| format!("{NAME}: {name}, {what}");
    let periods = |time: Duration| time.as_secs_f64() / PERIOD.as_secs_f64();
    let median = set_up.get(set_up.len() / 2).copied().unwrap_or(PATIENCE);
    let last = set_up.last().copied().unwrap_or(PATIENCE);
    Ok(vec![
        Row::shown(subject("messages lost"), lost.to_string()),
        Row::shown(subject("set-up, median"), format!("{:.1} R", periods(median))),
        Row::at_most(subject("set-up, longest"), periods(last), TRIES_MAX * 1.5, "R"),
        Row::at_most(
            subject("all in place, after the last loss"),
            periods(whole),
            1.5 * PASSES + SLACK,
            "R",
        ),
        Row::at_most(
            subject("all gone, after their release"),
            periods(gone),
            LIFETIME + SLACK,
            "R",
        ),
    ])
}

/// Reserves for each flow once it is heard of, until the sender has heard of a reservation for
/// each; returns how long each took from the announcement.
fn set_up(scene: &mut Scene) -> Result<Vec<Duration>, String> {
    let start = Instant::now();
    let mut reserved: BTreeMap<u16, Duration> = BTreeMap::new();
    while reserved.len() < SESSIONS as usize {
        let mut heard = scene.turn();
        let sender = std::mem::take(&mut heard.sender);
        reserve(scene, heard)?;
        for event in sender {
            if let Event::Reserved { session, reservation: Some(_) } = event {
                reserved.entry(session.port).or_insert_with(|| start.elapsed());
            }
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{} of {SESSIONS} flows have a reservation", reserved.len()));
        }
    }
    Ok(reserved.into_values().collect())
}

/// Reserves for flows that the receiver hears of. Path state may expire under loss, and the
/// reservation with it: then the next Path is one of a new flow.
fn reserve(scene: &mut Scene, heard: Heard) -> Result<(), String> {
    for event in heard.receiver {
        if let Event::Path { session, .. } = event {
            scene.receiver.reserve(session, Flowspec::ControlledLoad(TSPEC))?;
        }
    }
    Ok(())
}

fn lose(scene: &mut Scene, per_mille: u32) {
    scene.sender.lose(per_mille);
    scene.receiver.lose(per_mille);
}

fn session(scene: &Scene, number: u32) -> Session {
    Session::udp(scene.receiver_address(), FIRST + number as u16)
}

const POLICY: &str = "[link]\nrate = \"100 Mbit/s\"\nscheduler = \"htb\"\noverhead = \"ethernet\"\n\
    [class.reserved]\nrate = \"50 Mbit/s\"\nplaces = { count = 300 }\n\
    [class.signals]\nparent = \"reserved\"\nrate = \"5 Mbit/s\"\nmatch = { proto = \"46\" }\n\
    [class.rest]\nrate = \"40 Mbit/s\"\ndefault = true\n";
const TSPEC: Tspec =
    Tspec { rate: 1000.0, bucket: 1500.0, peak: f32::INFINITY, packet_min: 100, packet_max: 500 };
const SESSIONS: u32 = 200;
const FIRST: u16 = 10_000;
/// Half of all: 500 of 1000 messages.
const HALF: u32 = 500;
/// The refresh period R.
const PERIOD: Duration = Duration::from_millis(500);
/// Path and Resv, on two hops each.
const PASSES: f64 = 4.0;
/// So many messages pass four times, except in one of 10^4 runs of 200 sessions: the binomial
/// distribution of 34 trials has 7 x 10^-7 up to three successes.
const TRIES_MAX: f64 = 34.0;
/// (K + 0.5) 1.5 with K = 3, in R.
const LIFETIME: f64 = 5.25;
/// For looking at the router each 20 ms, and for a machine with other work.
const SLACK: f64 = 0.5;
const PATIENCE: Duration = Duration::from_secs(60);
