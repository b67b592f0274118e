//! A thousand reservations that come and go on two routers under load, beside numbered packets of
//! flows with and without a reservation and of a flow with guaranteed service.
//!
//! The same load crosses the same routers first without any change. A packet that is lost or
//! overtaken in the second run alone is so by the changes. What a ring of the kernel had no room
//! for is counted apart: there the machine was too slow to take a packet at all.
//!
//! RFC 2212 bounds the delay of a flow that keeps to its Tspec. The other flows catch up after
//! their thread woke late, so several of their bursts may leave at once. The guaranteed flow waits
//! between its bursts instead, however late it is: a burst is a full bucket, and when the next one
//! leaves, the bucket is full again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_host::wait::monotonic_ns;
use weir_rsvp::intserv::{Adspec, Flowspec, Rspec, queueing_delay_max};
use weir_rsvp::node::Event;
use weir_rsvp::{Session, Tspec};
use weir_testbed::{Flood, FloodConfig};
use weir_traffic::mark::{Clock, Kind, MARK_BYTES, Mark};
use weir_traffic::source;

use super::scene::{Plan, Scene};
use super::{none, text};
use crate::experiments::flooded::lost;
use crate::rows::{Options, Row};
use crate::streams::{Counts, Streams, delay_max_ms, received};

/// The beginning of the rows.
pub(super) const NAME: &str = "changes";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, String> {
    let plan = Plan {
        routers: ROUTERS,
        policy: POLICY,
        rsvp: "",
        // A message that is lost on the way is there a second later.
        period: weir_core::units::Duration::from_secs(1),
        reduction: false,
    };
    let mut scene = Scene::start(&plan)?;
    let bound = guarantee(&mut scene)?;
    for number in 0..FLOWS {
        let session = Session::udp(scene.receiver_address(), FIRST + number);
        scene.sender.announce(session, TSPEC)?;
    }
    let spell = options.duration.max(SPELL_MIN);
    let quiet = measure(&mut scene, spell, |scene, until| {
        scene.run(until.saturating_duration_since(Instant::now()));
        Ok(0)
    })?;
    let changed = measure(&mut scene, spell, change)?;
    scene.until_admitted((1, PATIENCE), |_, _| Ok(()))?;
    Ok(rows(&quiet, &changed, bound))
}

fn rows(quiet: &Measured, changed: &Measured, bound: f64) -> Vec<Row> {
    let subject = |what: &str| format!("{NAME}: {what}");
    let both = |of: fn(&Measured) -> u64| format!("{} and {}", of(quiet), of(changed));
    let ms = |of: &Measured| of.delay_us / 1e3;
    vec![
        Row::at_least(
            subject("reservations that came, and went, on both routers"),
            changed.changes as f64,
            f64::from(CHANGES),
            "reservations",
        ),
        Row::shown(
            subject("numbered packets sent, without and with changes"),
            both(|one| one.sent),
        ),
        none(subject("packets lost by the changes"), changed.lost, "packets"),
        Row::shown(subject("packets lost without changes"), format!("{} packets", quiet.lost)),
        Row::shown(
            subject("packets that a ring had no room for, without and with changes"),
            both(|one| one.overrun),
        ),
        none(subject("packets reordered by the changes"), changed.reordered, "packets"),
        Row::shown(
            subject("packets reordered without changes"),
            format!("{} packets", quiet.reordered),
        ),
        Row::at_most(
            subject("delay of the guaranteed flow, longest"),
            ms(changed),
            (bound / 10.0).ceil() / 100.0,
            "ms",
        ),
        Row::shown(
            subject("delay of the guaranteed flow without changes, longest"),
            format!("{:.1} ms", ms(quiet)),
        ),
        Row::shown(subject("where packets were lost"), changed.places.clone()),
    ]
}

/// The numbered packets of a run, and where they were lost.
struct Measured {
    sent: u64,
    lost: u64,
    overrun: u64,
    reordered: u64,
    /// The longest of the guaranteed flow.
    delay_us: f64,
    changes: u32,
    places: String,
}

/// Reserves for the flow with guaranteed service; returns the bound on its delay in microseconds.
fn guarantee(scene: &mut Scene) -> Result<f64, String> {
    let session = Session::udp(scene.receiver_address(), GUARANTEED);
    scene.sender.announce(session, BURSTS)?;
    let start = Instant::now();
    let mut bound = None;
    while start.elapsed() < PATIENCE {
        for event in scene.turn().receiver {
            match event {
                Event::Path { adspec: Some(adspec), .. } if bound.is_none() => {
                    bound = Some(bound_of(&adspec)?);
                    let rspec = Rspec { rate: BURSTS.rate, slack: 0 };
                    scene.receiver.reserve(session, Flowspec::Guaranteed(BURSTS, rspec))?;
                }
                Event::Confirmed { .. } => {
                    return bound.ok_or_else(|| "it was confirmed unasked".to_owned());
                }
                Event::ResvError { error, .. } => {
                    return Err(format!("the guaranteed flow was refused: {error:?}"));
                }
                _ => {}
            }
        }
    }
    Err("the guaranteed flow got no reservation".to_owned())
}

/// The bound that a receiver computes from what the path tells.
fn bound_of(adspec: &Adspec) -> Result<f64, String> {
    let path = adspec.guaranteed.filter(|path| !path.broken && !adspec.general.broken);
    let why = || format!("a router offers no guaranteed service: {adspec:?}");
    let path = path.ok_or_else(why)?;
    let queueing = queueing_delay_max(&BURSTS, BURSTS.rate, path.total);
    Ok(queueing + f64::from(adspec.general.latency))
}

/// Lets reservations come and go until then; returns how many did both. One has come once its
/// sender hears of it: both routers have its class then.
fn change(scene: &mut Scene, until: Instant) -> Result<u32, String> {
    let start = Instant::now();
    let spell = until.saturating_duration_since(start);
    let gap = spell / (CHANGES + BESIDE + 1);
    let mut standing = BTreeSet::new();
    let (mut asked, mut released) = (0, 0);
    let port = |number: u32| FIRST + number as u16 % FLOWS;
    while (released < CHANGES || !standing.is_empty()) && start.elapsed() < spell + PATIENCE {
        let due = (start.elapsed().as_nanos() / gap.as_nanos().max(1)) as u32;
        if asked < CHANGES.min(due) && !standing.contains(&port(asked)) {
            let session = Session::udp(scene.receiver_address(), port(asked));
            scene.receiver.reserve(session, Flowspec::ControlledLoad(TSPEC))?;
            asked += 1;
        } else if released < asked && released + BESIDE < due && standing.contains(&port(released))
        {
            scene.receiver.release(Session::udp(scene.receiver_address(), port(released)));
            released += 1;
        }
        let heard = scene.turn();
        for event in heard.sender {
            if let Event::Reserved { session, reservation } = event {
                match reservation {
                    Some(_) => standing.insert(session.port),
                    None => standing.remove(&session.port),
                };
            }
        }
        if let Some(refused) = heard.receiver.into_iter().find(is_refusal) {
            return Err(format!("a reservation was refused: {refused:?}"));
        }
    }
    Ok(released)
}

fn is_refusal(event: &Event) -> bool {
    matches!(event, Event::ResvError { .. })
}

/// Sends the load for a while, with `changes` meanwhile.
fn measure(
    scene: &mut Scene,
    spell: Duration,
    changes: impl FnOnce(&mut Scene, Instant) -> Result<u32, String>,
) -> Result<Measured, String> {
    let to = scene.receiver_address();
    let before = losses(scene)?;
    let ports: Vec<u16> = [STREAM].into_iter().chain(FIRST..FIRST + FLOWS).collect();
    let heard = [&[GUARANTEED], ports.as_slice()].concat();
    let sources = ports.iter().map(|port| stream(to, *port)).collect::<Result<_, String>>()?;
    let (left, from) = (&scene.networks[0], scene.sender_address());
    let right = scene.networks.last().ok_or("there is no network")?;
    let guaranteed = left.run(|| UdpSocket::bind((from, 0))).map_err(text)?.map_err(text)?;
    let streams = Streams::start([left, right], &heard, sources, spell + LEAD * 2);
    let streams = streams.map_err(text)?;
    // More than the class of bulk may send.
    let pause = Duration::from_millis(10);
    let config = FloodConfig { ports: vec![BULK], length: 1000, burst: BURST, pause };
    let flood = Flood::between(left, to, config)?;
    let stop = AtomicBool::new(false);
    let (changed, bursts) = thread::scope(|scope| {
        let bursts = scope.spawn(|| send_bursts(&guaranteed, to, &stop));
        scene.run(LEAD);
        let changed = changes(scene, Instant::now() + spell);
        scene.run(LEAD);
        stop.store(true, Ordering::Relaxed);
        (changed, bursts.join().expect("the thread of bursts does not panic"))
    });
    drop(flood);
    let (sent, receiver) = streams.sent();
    let received = received(receiver);
    let after = losses(scene)?;
    let counts = Counts::of(&sent, &received, bursts);
    let delay_us = 1e3 * delay_max_ms(&received, Some(BURSTS_STREAM));
    Ok(count(&counts, delay_us, (&before, &after), changed?))
}

fn count(
    counts: &Counts,
    delay_us: f64,
    (before, after): (&BTreeMap<String, u64>, &BTreeMap<String, u64>),
    changes: u32,
) -> Measured {
    let since = |place: &String, count: &u64| count - before.get(place).copied().unwrap_or(0);
    let new: Vec<_> = after.iter().map(|(place, count)| (place, since(place, count))).collect();
    let overrun: u64 =
        new.iter().filter(|(place, _)| place.contains(RING)).map(|(_, count)| count).sum();
    let words = new.iter().filter(|(_, count)| *count > 0);
    let words: Vec<_> = words.map(|(place, count)| format!("{count} {place}")).collect();
    Measured {
        sent: counts.sent,
        // A ring that ran over may have lost some of these.
        lost: counts.lost.saturating_sub(overrun),
        overrun,
        reordered: counts.reordered,
        delay_us,
        changes,
        places: words.join(", "),
    }
}

/// Returns what the routers lost so far, by place and cause.
fn losses(scene: &Scene) -> Result<BTreeMap<String, u64>, String> {
    let mut all = BTreeMap::new();
    for router in 1..=ROUTERS {
        for (place, count) in lost(&scene.status(router)?) {
            all.insert(format!("{place} of router {router}"), count);
        }
    }
    Ok(all)
}

/// Sends the guaranteed flow; returns how many packets left.
fn send_bursts(socket: &UdpSocket, to: IpAddr, stop: &AtomicBool) -> u64 {
    let mark = |kind, number| {
        let sent_ns = monotonic_ns();
        Mark { kind, clock: Clock::Monotonic, stream: BURSTS_STREAM, number, sent_ns }
    };
    let send = |mark: Mark| {
        let mut payload = [0; BURSTS_PAYLOAD];
        payload[..MARK_BYTES].copy_from_slice(&mark.bytes());
        socket.send_to(&payload, (to, GUARANTEED)).is_ok()
    };
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BURSTS_PACKETS {
            sent += u64::from(send(mark(Kind::Packet, sent)));
        }
        thread::sleep(BURSTS_GAP);
    }
    // A receiver waits for the end; one that it misses costs it a moment.
    let _missed = send(mark(Kind::End, sent));
    sent
}

fn stream(to: IpAddr, port: u16) -> Result<weir_sim::scenario::Source, String> {
    let dport = port.to_string();
    let (kind, keys): (_, &[(&str, &str)]) = match port {
        STREAM => ("cbr", &[("payload", "400 B"), ("interval", "2 ms")]),
        _ => ("cbr", &[("payload", "172 B"), ("interval", "20 ms")]),
    };
    let keys: Vec<_> = keys.iter().copied().chain([("dport", dport.as_str())]).collect();
    source(&format!("to{port}"), kind, to, &keys)
}

/// 30 Mbit/s, of which bulk fills what others leave.
const POLICY: &str = "[link]\nrate = \"30 Mbit/s\"\nscheduler = \"hfsc\"\noverhead = \"ethernet\"\n\
    [class.reserved]\nrate = \"10 Mbit/s\"\nplaces = { count = 200, rate = \"1 kbit/s\" }\n\
    [class.signals]\nparent = \"reserved\"\nrate = \"200 kbit/s\"\nmatch = { proto = \"46\" }\n\
    [class.streams]\nrate = \"3 Mbit/s\"\nmatch = { proto = \"udp\", dport = \"50000\" }\n\
    [class.bulk]\nrate = \"8 Mbit/s\"\nmatch = { proto = \"udp\", dport = \"9\" }\n\
    [class.rest]\nrate = \"8 Mbit/s\"\ndefault = true\n";

/// Four packets at once: 100 kB/s on average, of which half is used.
const BURSTS: Tspec =
    Tspec { rate: 1e5, bucket: 4000.0, peak: f32::INFINITY, packet_min: 1000, packet_max: 1000 };
/// The payload of its packets, of 1000 bytes with the headers of IP and UDP.
const BURSTS_PAYLOAD: usize = 972;
const BURSTS_PACKETS: u32 = 4;
/// Twice the time in which its bucket fills.
const BURSTS_GAP: Duration = Duration::from_millis(80);
/// Its number, which the senders of the other flows do not reach.
const BURSTS_STREAM: u32 = 1000;
/// A flow of 10 kB/s.
const TSPEC: Tspec =
    Tspec { rate: 12e3, bucket: 1500.0, peak: f32::INFINITY, packet_min: 100, packet_max: 1000 };
const ROUTERS: usize = 2;
/// Reservations that come and go.
const CHANGES: u32 = 1000;
/// How many of them stand at once.
const BESIDE: u32 = 25;
/// Flows that they are for, in turn.
const FLOWS: u16 = 50;
const FIRST: u16 = 10_000;
const STREAM: u16 = 50_000;
const GUARANTEED: u16 = 900;
const BULK: u16 = 9;
/// Datagrams each 10 ms: 36 Mbit/s.
const BURST: usize = 45;
const RING: &str = "ring overrun";
const SPELL_MIN: Duration = Duration::from_secs(5);
/// Before the first change and after the last.
const LEAD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);
