//! The table of kinds, and what the detectors make of counters that a test invents.

use super::fault::Moment;
use super::watch::{LaneReading, LoopReading, Monitor, PortReading};
use super::*;
use crate::port::{PortCounters, PortState, RINGS_MAX};
use weir_core::units::{Duration, Instant};

/// Returns the table of kinds as docs/events.md prints it.
fn table() -> String {
    let mut rows = String::from("| event | severity | begins, ends | sentence |\n");
    rows += "| --- | --- | --- | --- |\n";
    for kind in KINDS {
        let role = match kind.role() {
            Role::Once => String::new(),
            Role::Begins => "begins".to_owned(),
            Role::Ends(begun) => format!("ends `{}`", begun.keyword()),
        };
        let (keyword, severity) = (kind.keyword(), kind.severity().keyword());
        let sentence = kind.sentence().replace('`', "");
        rows += &format!("| `{keyword}` | {severity} | {role} | {sentence} |\n");
    }
    rows
}

#[test]
fn every_kind_is_in_the_document() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.md");
    let document = std::fs::read_to_string(path).expect("it is in the tree");
    let wanted = table();
    assert!(document.contains(&wanted), "docs/events.md should hold this table:\n{wanted}");
}

#[test]
fn each_kind_that_begins_a_fault_has_one_that_ends_it() {
    for kind in KINDS {
        let ends = KINDS.iter().filter(|end| end.role() == Role::Ends(*kind)).count();
        assert_eq!(ends, usize::from(kind.role() == Role::Begins), "{}", kind.keyword());
        if let Role::Ends(begun) = kind.role() {
            assert_eq!(begun.role(), Role::Begins, "{}", kind.keyword());
        }
        let same = KINDS.iter().filter(|other| other.keyword() == kind.keyword()).count();
        assert_eq!(same, 1, "{}", kind.keyword());
    }
}

#[test]
fn each_sentence_can_be_filled_in() {
    for kind in KINDS {
        let about = About { subject: "SUBJECT", class: "CLASS", detail: "DETAIL", measured: None };
        let text = Event::now(*kind, about).text();
        let says_what = ["SUBJECT", "DETAIL", "events lost: 0"];
        let says_what = says_what.iter().any(|what| text.contains(what));
        assert!(says_what && !text.contains(['{', '}']), "{text}");
    }
}

#[test]
fn an_event_is_one_line_of_json() {
    let about =
        About { subject: "eth0", class: "voice", detail: "class `voice`", ..About::default() };
    let began = Event { fault: Some(7), ..Event::at(Kind::OverrunBegan, 1_000_000_000, about) };
    let wanted = r#"{"event":"overrun-began","time":"1970-01-01T00:00:01.000000000Z","severity":"warning","subject":"eth0","class":"voice","text":"the receive ring of `eth0` for class `voice` is full, and frames are lost","fault":7,"count":0,"times":1}"#;
    assert_eq!(began.json(), wanted);
    let ended = Event { times: 3, ..began.end(3_500_000_000, 1) };
    let wanted = r#"{"event":"overrun-ended","time":"1970-01-01T00:00:03.500000000Z","severity":"notice","subject":"eth0","class":"voice","text":"the receive ring of `eth0` for class `voice` has room again; lost in 2.5 s: 1 frame (it came 3 times)","fault":7,"since":"1970-01-01T00:00:01.000000000Z","duration_s":2.5,"count":1,"times":3}"#;
    assert_eq!(ended.json(), wanted);
    // As the forwarder sends it to the keeper.
    let sent = serde_json::to_string(&ended).expect("an event is JSON");
    assert_eq!(serde_json::from_str::<Event>(&sent).expect("it is whole"), ended);
}

/// The world of the detectors: one port with two rings, one lane, and the loop; and a further port
/// of the same interface, of which nothing is told that the first tells.
struct World {
    interface: &'static str,
    state: PortState,
    mtu: usize,
    counters: PortCounters,
    no_copy: u64,
    is_blocked: bool,
    busy: u64,
    is_behind: bool,
    pool: u64,
    own: LoopReading,
    wall_ahead_ms: u64,
}

type Change = fn(&mut World);

/// The subject of a row, when the world changes and how, and the events that are wanted.
type Row = (&'static str, &'static [(u64, Change)], &'static [&'static str]);

/// Changes the world at these milliseconds, looks every 100 ms until 500 ms behind the last (and at
/// the changes, as for a port's state), and checks the events: when they happened, kind, subject,
/// and at the end of a fault its duration in ms, count, and times.
fn check(what: &str, changes: &[(u64, Change)], expected: &[&str]) {
    let end = changes.last().map_or(0, |(at, _)| at + 500);
    let reported = play(changes, end, |_| {});
    let lines: Vec<_> = reported.iter().map(line).collect();
    assert_eq!(lines, expected, "{what}");
    check_pairs(what, &reported);
}

/// Returns the events until `end`; calls `each` before every look.
fn play(changes: &[(u64, Change)], end: u64, each: impl Fn(&mut World)) -> Vec<Event> {
    let (reporter, mut log) = log();
    let rings = vec![vec![None, Some("voice".to_owned())], Vec::new()];
    let mut monitor = Monitor::new(reporter, "`eth0` and `eth1`".to_owned(), rings, 1);
    monitor.share_interface(1);
    let mut world = World {
        interface: "eth0",
        state: PortState::Up,
        mtu: 1500,
        counters: PortCounters::default(),
        no_copy: 0,
        is_blocked: false,
        busy: 0,
        is_behind: false,
        pool: 0,
        own: LoopReading { stalls: 0, stalled: Duration::ZERO, stale: 0, late: Duration::ZERO },
        wall_ahead_ms: START_MS,
    };
    let mut reported = Vec::new();
    for at in 0..=end {
        let due = changes.iter().filter(|(when, _)| *when == at);
        let changed = due.map(|(_, change)| change(&mut world)).count() > 0;
        if changed || at % 100 == 0 {
            each(&mut world);
            observe(&mut monitor, &world, at);
            log.take(|event| reported.push(event));
        }
    }
    monitor.finish(moment(&world, end));
    log.take(|event| reported.push(event));
    reported
}

fn moment(world: &World, at_ms: u64) -> Moment {
    let now = Instant::from_nanos((at_ms + 1000) * 1_000_000);
    Moment { now, wall_ns: (world.wall_ahead_ms + at_ms) * 1_000_000 }
}

fn observe(monitor: &mut Monitor, world: &World, at_ms: u64) {
    let moment = moment(world, at_ms);
    monitor.begin(moment);
    let World { interface, state, mtu, counters, no_copy, is_blocked, busy, .. } = world;
    let reading = PortReading {
        interface,
        state: *state,
        mtu: *mtu,
        counters,
        no_copy: *no_copy,
        is_blocked: *is_blocked,
        busy: *busy,
    };
    monitor.port(0, moment, &reading);
    let rebinds = counters.rebinds;
    let counters = &PortCounters { rebinds, ..PortCounters::default() };
    let other = PortReading { counters, no_copy: 0, is_blocked: false, busy: 0, ..reading };
    monitor.port(1, moment, &other);
    let (is_behind, pool) = (world.is_behind, world.pool);
    monitor.lane(0, moment, &LaneReading { name: "upload", is_behind, pool });
    monitor.own(moment, &world.own);
}

fn line(event: &Event) -> String {
    let at = event.at_ns as i64 / 1_000_000 - START_MS as i64;
    let mut line = format!("{at} {} {}", event.kind.keyword(), event.subject);
    if !event.class.is_empty() {
        line += &format!("/{}", event.class);
    }
    if let Some(duration) = event.duration_ns {
        line += &format!(" {} ms, {}", duration / 1_000_000, event.count);
    }
    if event.times > 1 {
        line += &format!(", {} times", event.times);
    }
    line
}

/// Each beginning has at most one end, which follows it and has its number.
fn check_pairs(what: &str, events: &[Event]) {
    let mut open: Vec<&Event> = Vec::new();
    for event in events {
        match event.kind.role() {
            Role::Once => assert_eq!(event.fault, None, "{what}"),
            Role::Begins => {
                assert!(open.iter().all(|other| other.fault != event.fault), "{what}");
                open.push(event);
            }
            Role::Ends(kind) => {
                let place = open.iter().position(|begun| begun.fault == event.fault);
                let begun = open.remove(place.unwrap_or_else(|| panic!("{what}: {event:?}")));
                assert_eq!(begun.kind, kind, "{what}");
            }
        }
    }
}

/// When the wall clock stands at the beginning of a test.
const START_MS: u64 = 1_700_000_000_000;

const UP: Change = |world| world.state = PortState::Up;
const DOWN: Change = |world| world.state = PortState::Down;
const GONE: Change = |world| world.state = PortState::Gone;
const NO_LINK: Change = |world| world.counters.send_no_link += 3;

#[test]
fn a_port_that_is_down_is_reported_once_with_what_was_lost() {
    let rows: &[Row] = &[
        (
            "pulled and put back",
            &[(1000, DOWN), (1500, NO_LINK), (2000, UP)],
            &["1000 port-down eth0", "2000 port-up eth0 1000 ms, 3"],
        ),
        ("still down at the end", &[(1000, DOWN)], &["1000 port-down eth0"]),
        (
            "for a moment",
            &[(1010, DOWN), (1020, NO_LINK), (1040, UP)],
            &["1010 port-down eth0", "1040 port-up eth0 30 ms, 3"],
        ),
        (
            "removed, and made anew",
            &[(1000, DOWN), (1005, GONE), (1500, NO_LINK), (2000, DOWN), (2050, UP)],
            &["1005 port-gone eth0", "2000 port-back eth0 995 ms, 3"],
        ),
        (
            "made anew without a carrier",
            &[(1000, GONE), (2000, DOWN), (3000, UP)],
            &[
                "1000 port-gone eth0",
                "2000 port-back eth0 1000 ms, 0",
                "2000 port-down eth0",
                "3000 port-up eth0 1000 ms, 0",
            ],
        ),
        (
            "down, then removed, then whole",
            &[(1000, DOWN), (2000, GONE), (3000, UP)],
            &[
                "1000 port-down eth0",
                "2000 port-gone eth0",
                "3000 port-back eth0 1000 ms, 0",
                "3000 port-up eth0 2000 ms, 0",
            ],
        ),
    ];
    for (what, changes, expected) in rows {
        check(what, changes, expected);
    }
}

#[test]
fn a_changed_interface_is_reported() {
    let renamed: Change = |world| world.interface = "wan";
    let rebound: Change = |world| {
        world.interface = "wan";
        world.counters.rebinds = 1;
        world.state = PortState::Up;
    };
    check("a new name", &[(1000, renamed)], &["1000 port-renamed wan"]);
    check("a new MTU", &[(1000, |world| world.mtu = 1400)], &["1000 mtu-changed eth0"]);
    check(
        "away and back at once",
        &[(1000, |world| world.counters.rebinds += 1)],
        &["1000 port-taken-up eth0"],
    );
    check(
        "another interface",
        &[(1000, GONE), (2000, rebound)],
        &["1000 port-gone eth0", "2000 port-back wan 1000 ms, 0"],
    );
}

#[test]
fn what_a_ring_or_a_pool_loses_is_counted_from_beginning_to_end() {
    let rows: &[Row] = &[
        (
            "a ring of a class",
            &[
                (1000, |world| world.counters.ring_overruns[1] = 5),
                (1900, |world| world.counters.ring_overruns[1] = 12),
                (3000, |_| ()),
            ],
            &["1000 overrun-began eth0/voice", "1900 overrun-ended eth0/voice 900 ms, 12"],
        ),
        (
            "two rings, twice the first",
            &[
                (1000, |world| world.counters.ring_overruns = [1; RINGS_MAX]),
                (3000, |world| world.counters.ring_overruns[0] += 2),
                (5000, |_| ()),
            ],
            &[
                "1000 overrun-began eth0",
                "1000 overrun-began eth0/voice",
                "1000 overrun-ended eth0 0 ms, 1",
                "1000 overrun-ended eth0/voice 0 ms, 1",
                "3000 overrun-began eth0",
                "3000 overrun-ended eth0 0 ms, 2",
            ],
        ),
        (
            "still full when the loop ends",
            &[(1000, |world| world.counters.ring_overruns[0] = 9)],
            &["1000 overrun-began eth0", "1000 overrun-ended eth0 0 ms, 9"],
        ),
        (
            "the pool of a direction, and that of a bridge",
            &[
                (1000, |world| world.pool = 4),
                (1200, |world| world.counters.pool_exhausted = 2),
                (1300, |world| world.no_copy = 1),
                (3000, |_| ()),
            ],
            &[
                "1000 pool-exhausted upload",
                "1200 pool-exhausted eth0",
                "1000 pool-available upload 0 ms, 4",
                "1300 pool-available eth0 100 ms, 3",
            ],
        ),
        (
            "too long, on both ways",
            &[
                (1000, |world| world.counters.send_too_long = 2),
                (1500, |world| world.counters.oversize = 1),
                (3000, |_| ()),
            ],
            &["1000 frames-too-long eth0", "1500 frames-fit eth0 500 ms, 3"],
        ),
    ];
    for (what, changes, expected) in rows {
        check(what, changes, expected);
    }
}

#[test]
fn a_loop_that_cannot_follow_is_reported() {
    let rows: &[Row] = &[
        (
            "behind for long",
            &[(1000, |world| world.is_behind = true), (2000, |world| world.is_behind = false)],
            &["1000 behind upload", "1900 caught-up upload 900 ms, 0"],
        ),
        (
            "behind for a moment",
            &[(1000, |world| world.is_behind = true), (1100, |world| world.is_behind = false)],
            &[],
        ),
        (
            "a stall, and what became stale by it",
            &[
                (1350, |world| {
                    world.own.stalls = 1;
                    world.own.stalled = Duration::from_millis(350);
                    world.own.stale = 6;
                }),
                (1380, |world| world.own.stale = 8),
            ],
            &["1000 stall `eth0` and `eth1`", "1350 stall-over `eth0` and `eth1` 350 ms, 8"],
        ),
        (
            "a port that takes nothing",
            &[
                (1000, |world| world.is_blocked = true),
                (1500, |world| world.busy = 7),
                (2000, |world| world.is_blocked = false),
                (4000, |_| ()),
            ],
            &["1000 port-busy eth0", "1900 port-free eth0 900 ms, 7"],
        ),
        (
            "a port that takes some",
            &[
                (1000, |world| world.is_blocked = true),
                (1100, |world| world.counters.sent = 1),
                (1200, |world| world.counters.sent = 2),
                (1250, |world| world.is_blocked = false),
            ],
            &[],
        ),
    ];
    for (what, changes, expected) in rows {
        check(what, changes, expected);
    }
}

#[test]
fn trouble_with_clocks_is_reported() {
    check(
        "set forward, and back",
        &[
            (1000, |world| world.wall_ahead_ms += 3_600_000),
            (2000, |world| world.wall_ahead_ms -= 3_600_000),
        ],
        &["3601000 clock-stepped the wall clock", "2000 clock-stepped the wall clock"],
    );
    // 20 ms late in each 100 ms, for 8 s.
    let late = |world: &mut World| {
        let is_late = world.counters.received == 0;
        let by = if is_late { 20 } else { 0 };
        world.own.late = Duration::from_nanos(world.own.late.as_nanos() + by * 1_000_000);
    };
    let better: Change = |world| world.counters.received = 1;
    let reported = play(&[(8050, better)], 16_000, late);
    let lines: Vec<_> = reported.iter().map(line).collect();
    let expected = ["1000 wake-ups-late", "8000 wake-ups-in-time"];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    assert!(lines.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    // A short time is no trouble.
    assert_eq!(play(&[(2050, better)], 8_000, late), []);
}

#[test]
fn a_cable_that_flaps_makes_few_events() {
    // Down and up in turn every 300 ms for a minute, and then whole.
    let flap: Vec<(u64, Change)> =
        (0..200).map(|turn| (turn * 300 + 50, if turn % 2 == 0 { DOWN } else { UP })).collect();
    let reported = play(&flap, 90_000, |_| {});
    check_pairs("flapping", &reported);
    let ends: Vec<_> = reported.iter().filter(|event| event.kind == Kind::PortUp).collect();
    assert_eq!((reported.len(), ends.len()), (12, 6), "{reported:?}");
    assert_eq!(ends.iter().map(|event| event.times).sum::<u64>(), 100, "none is left out");
}

#[test]
fn an_event_that_comes_too_often_is_left_out_and_counted() {
    let (reporter, mut log) = log();
    for _ in 0..100 {
        let about = About { subject: "uid 1000", detail: "too long", ..About::default() };
        reporter.once(Kind::ControlRefused, about);
    }
    let mut reported = 0;
    log.take(|_| reported += 1);
    assert_eq!(reported, 5);
    // The link ends before the minute does.
    let mut last = Vec::new();
    log.take_last(|event| last.push((event.kind, event.count)));
    assert_eq!(last, [(Kind::EventsLeftOut, 95)]);
    log.take_last(|event| panic!("it was told once: {event:?}"));
    let mut limiter = Limiter::default();
    let admitted = (0..100).filter(|_| limiter.admits(0, Kind::MtuChanged, "eth0")).count();
    let mut left_out = Vec::new();
    limiter.report_left_out(59_999_999_999, &mut |event| left_out.push(event));
    assert_eq!((admitted, left_out.len()), (5, 0));
    limiter.report_left_out(60_000_000_000, &mut |event| left_out.push(event));
    assert_eq!((left_out.len(), left_out[0].count), (1, 95));
    assert!(limiter.admits(60_000_000_000, Kind::MtuChanged, "eth0"), "it may come again");
    // Hostile subjects fill no memory.
    let admitted = (0..1000)
        .filter(|user| limiter.admits(60_000_000_000, Kind::ControlRefused, &user.to_string()))
        .count();
    assert_eq!(admitted, 255);
}

#[test]
fn a_queue_that_nothing_empties_counts_what_it_sheds() {
    let (reporter, mut log) = log();
    for _ in 0..EVENTS_MAX + 7 {
        reporter.push(Event::now(Kind::MtuChanged, About { subject: "eth0", ..About::default() }));
    }
    let mut reported = Vec::new();
    log.take(|event| reported.push(event));
    let last = reported.last().map(|event| (event.kind, event.count));
    assert_eq!((reported.len(), last), (EVENTS_MAX + 1, Some((Kind::EventsLost, 7))));
    log.take(|event| panic!("it was told once: {event:?}"));
}

#[test]
fn an_end_says_how_many_frames_were_lost_or_that_none_was() {
    for (count, words) in [(0, ": none"), (1, ": 1 frame"), (2, ": 2 frames")] {
        let about = About { subject: "`a` and `b`", ..About::default() };
        let event = Event { count, ..Event::now(Kind::StallOver, about) };
        assert!(event.text().ends_with(words), "{}", event.text());
    }
}
