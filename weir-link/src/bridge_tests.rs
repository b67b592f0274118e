//! Tests of the run loop, over ports in memory and with instants that the test chooses.

use std::fs;
use std::path::Path;

use super::*;
use crate::port::mem::{Cable, Mem};
use crate::status::tests::allocations;
use weir_core::random::Random;

/// `voice` has port 1 and `bulk` the rest, at 1 Gbit/s with room for `limit` packets each.
fn policy(limit: u32) -> weir_policy::Policy {
    let text = format!(
        "[link]\nrate = \"1 Gbit/s\"\nscheduler = \"priq\"\n\
         [class.voice]\npriority = 1\nqueue = {{ limit = \"{limit} packets\" }}\n\
         match = [{{ proto = \"udp\", dport = 1 }}]\n\
         [class.bulk]\ndefault = true\npriority = 0\nqueue = {{ limit = \"{limit} packets\" }}\n"
    );
    let outcome = weir_policy::parse(&text, "policy.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

/// A bridge of ports in memory with two rings each, and a lane from each to the next.
struct Scene {
    bridge: Bridge,
    cables: Vec<Cable>,
    /// When the bridge was made.
    start: u64,
}

impl Scene {
    fn new(ports: usize, limit: u32, frames_max: u32) -> Self {
        let (mems, cables): (Vec<_>, Vec<_>) =
            (0..ports).map(|number| Mem::new(&format!("mem{number}"), 2)).unzip();
        let policy = policy(limit);
        let lane = |to: usize| {
            let from = (0..ports).filter(|from| *from != to).collect();
            let lane = LaneConfig::new("lane", (from, to), &policy).expect("the policy is sound");
            LaneConfig { frames_max, sojourn_max: vec![Duration::from_millis(1000); 2], ..lane }
        };
        let port = |(number, mem)| BridgePort {
            number: InterfaceId(number),
            source: PortSource::Open(Box::new(mem)),
        };
        let bridge = Bridge::open(BridgeConfig {
            ports: (0..).zip(mems).map(port).collect(),
            lanes: (0..ports).map(lane).collect(),
            wait: WaitPolicy::Spin,
            lag_max: Duration::from_millis(100),
            cpu: None,
            workers: 1,
            passes_carrier: false,
            intake: true,
        });
        Self { bridge: bridge.expect("ports in memory open"), cables, start: monotonic_ns() }
    }

    fn turn(&mut self, at_us: u64) {
        self.bridge.turn(Instant::from_nanos(self.start + at_us * 1000));
    }

    /// Lets a frame of a station arrive, for another and for this port of UDP.
    fn deliver(&self, (port, ring): (usize, usize), at_us: u64, (to, dport): (u8, u16)) {
        let frame = frame(port as u8, to, dport);
        self.cables[port].deliver(ring, self.start + at_us * 1000, frame);
    }

    /// Checks that every frame is somewhere, and returns the status.
    fn check(&mut self) -> Status {
        let status = self.bridge.status();
        let received: u64 = status.ports.iter().map(|port| port.received).sum();
        let kept: u64 = status.ports.iter().flat_map(|port| &port.kept).map(|kept| kept.1).sum();
        let classes = || status.lanes.iter().flat_map(|lane| &lane.classes);
        let offered: u64 = classes().map(|class| class.offered.packets).sum();
        let pool: u64 = classes().map(|class| class.lost[0].1 + class.lost[1].1).sum();
        let waiting: u64 = self.bridge.lanes.iter().map(|lane| lane.held() as u64).sum();
        // A frame for all goes to each other port; some wait before the link.
        let copies = received * (self.cables.len() as u64 - 2);
        let seen = offered + pool + kept;
        assert!(seen <= received + copies && received <= seen + waiting, "{status:?}");
        assert_eq!(status.frames_max - status.frames_free, waiting, "{status:?}");
        status
    }
}

/// A datagram from station `from` to station `to`.
fn frame(from: u8, to: u8, dport: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0, 9, (dport >> 8) as u8, dport as u8, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn dport(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[36], frame[37]])
}

#[test]
fn frames_of_several_rings_count_in_the_order_in_which_they_came() {
    let mut scene = Scene::new(2, 100, 512);
    for (ring, at) in [(0, 10), (1, 5), (0, 30), (1, 20), (0, 40), (1, 35)] {
        scene.deliver((0, ring), at, (9, 100 + at as u16));
    }
    scene.turn(50);
    let order: Vec<_> = scene.cables[1].take_sent().iter().map(|sent| dport(sent)).collect();
    assert_eq!(order, [105, 110, 120, 130, 135, 140]);
    scene.check();
}

/// The rows say what a loop does before a turn that is late, and how many stalls that counts.
#[test]
fn a_late_turn_is_a_stall_only_if_frames_may_have_waited_for_the_loop() {
    type Before = fn(&mut Scene, &Intake);
    let rows: [(&str, Before, u64); 5] = [
        ("the first turn", |_, _| {}, 0),
        ("one of many", |scene, _| scene.turn(100), 1),
        (
            "nothing comes in",
            |scene, intake| {
                scene.turn(100);
                intake.want(false);
                scene.bridge.follow_intake(intake);
                scene.turn(200);
            },
            0,
        ),
        (
            "the intake was opened",
            |scene, intake| {
                scene.turn(100);
                intake.want(false);
                scene.bridge.follow_intake(intake);
                scene.turn(200);
                intake.want(true);
                scene.bridge.follow_intake(intake);
            },
            0,
        ),
        (
            "it was opened, and then the loop hung",
            |scene, intake| {
                intake.want(false);
                scene.bridge.follow_intake(intake);
                intake.want(true);
                scene.bridge.follow_intake(intake);
                scene.turn(200);
            },
            1,
        ),
    ];
    for (what, before, stalls) in rows {
        let mut scene = Scene::new(2, 100, 512);
        before(&mut scene, &Intake::default());
        scene.turn(900_000);
        assert_eq!(scene.bridge.stalls, stalls, "{what}");
        assert_eq!(scene.bridge.watch.stalled == Duration::ZERO, stalls == 0, "{what}");
    }
}

#[test]
fn a_class_with_a_ring_of_its_own_waits_for_no_flood() {
    let mut scene = Scene::new(2, 100_000, 100_000);
    // 50 000 frames a millisecond apart from nothing: far more than a turn takes.
    for number in 0..50_000u64 {
        scene.deliver((0, 0), number / 100, (9, 2));
    }
    let mut voices = 0;
    for turn in 0..100u64 {
        let at = 500 + turn * 100;
        scene.deliver((0, 1), at, (9, 1));
        scene.turn(at + 50);
        let sent = scene.cables[1].take_sent();
        voices += sent.iter().filter(|sent| dport(sent) == 1).count();
        // For the first 4 ms the loop still makes up for what came before.
        if turn > 50 {
            assert_eq!(voices as u64, turn + 1, "at turn {turn} a frame waits behind the flood");
        }
    }
    assert!(scene.cables[0].waiting(0) > 40_000, "the flood still waits in its own ring");
    scene.check();
}

#[test]
fn a_class_that_may_queue_more_than_the_pool_holds_takes_no_frames_of_others() {
    let mut scene = Scene::new(2, 20_000, 1024);
    scene.cables[1].set_room(0);
    for at in 0..20 {
        (0..200).for_each(|_| scene.deliver((0, 0), at * 10, (9, 2)));
        scene.deliver((0, 1), at * 10, (9, 1));
        (0..5).for_each(|turn| scene.turn(at * 10 + turn));
    }
    let status = scene.check();
    let [voice, bulk] = status.lanes[1].classes.as_slice() else { panic!("two classes") };
    let lost = |class: &crate::status::ClassStatus| class.lost[0].1;
    assert_eq!((voice.offered.packets, lost(voice)), (20, 0), "{status:?}");
    assert!(lost(bulk) > 2000, "{bulk:?}");
}

#[test]
fn old_packets_are_dropped_and_counted_after_a_stall() {
    let mut scene = Scene::new(2, 100, 512);
    // The test's clock is behind the real one: what came long ago is stale by now.
    scene.start -= 5_000_000_000;
    scene.deliver((0, 0), 0, (9, 2));
    scene.start += 5_000_000_000;
    scene.deliver((0, 0), 0, (9, 2));
    scene.turn(10);
    assert_eq!(scene.cables[1].take_sent().len(), 1);
    let status = scene.check();
    let stale =
        status.lanes[1].classes[1].lost.iter().find(|(cause, _)| cause == "stale on arrival");
    assert_eq!(stale.map(|(_, frames)| *frames), Some(1), "{status:?}");
    assert_eq!(status.lanes[1].classes[1].sojourn_max_us, Some(1e6), "the age is told");
}

/// A process may be stopped between the beginning of a turn and what it sends at its end.
#[test]
fn a_frame_that_grew_old_within_a_turn_is_not_sent() {
    let mut scene = Scene::new(2, 100, 512);
    scene.start -= 5_000_000_000;
    scene.deliver((0, 0), 0, (9, 2));
    scene.turn(10);
    assert_eq!(scene.cables[1].take_sent().len(), 0);
    let status = scene.check();
    let stale = status.lanes[1].classes[1].dropped.iter().find(|(cause, _)| cause == "stale");
    assert_eq!(stale.map(|(_, frames)| frames.packets), Some(1), "{status:?}");
}

#[test]
fn a_station_is_found_and_unknown_ones_get_a_copy_everywhere() {
    let mut scene = Scene::new(3, 100, 512);
    // 2 is unknown: to both others. Then it answers from port 2: to port 0 alone. Then it is known.
    let rows = [((0, 2), [0, 1, 1]), ((2, 0), [1, 0, 0]), ((0, 2), [0, 0, 1]), ((0, 0), [0, 0, 0])];
    for (step, ((from, to), expected)) in rows.into_iter().enumerate() {
        scene.deliver((from, 0), step as u64 * 100, (to, 2));
        scene.turn(step as u64 * 100 + 50);
        let sent = [0, 1, 2].map(|port: usize| scene.cables[port].take_sent().len());
        assert_eq!(sent, expected, "step {step}");
    }
    let status = scene.check();
    assert_eq!(status.ports[0].kept[0], ("local".to_owned(), 1));
}

#[test]
fn no_frame_is_lost_sight_of_whatever_arrives_and_however_busy_ports_are() {
    for seed in 0..8 {
        let mut random = Random::new(seed, 0);
        let mut scene = Scene::new(2 + seed as usize % 2, 50, 96);
        let ports = scene.cables.len() as u32;
        let mut at = [0u64; 6];
        for step in 0..300u64 {
            for _ in 0..random.below(40) {
                let (port, ring) = (random.below(ports) as usize, random.below(2) as usize);
                let last = &mut at[port * 2 + ring];
                *last = (*last).max(step * 20) + u64::from(random.below(3));
                let to = (random.below(5) as u8, random.below(3) as u16);
                scene.deliver((port, ring), *last, to);
            }
            let busy = random.below(ports) as usize;
            scene.cables[busy].set_room(random.below(80) as usize);
            scene.turn(step * 20 + 20);
            scene.check();
        }
        scene.cables.iter().for_each(|cable| cable.set_room(usize::MAX));
        (0..2000).for_each(|turn| scene.turn(6_000 + turn * 100));
        let status = scene.check();
        assert_eq!(status.frames_free, status.frames_max, "all left: {status:?}");
    }
}

/// A busy port takes `room` frames, and the rest of 40 is flushed from the outbox. Where the frames
/// come from the future, the link holds what it could not send within 5 us, and that is flushed.
#[test]
fn a_drain_sends_what_it_can_and_counts_the_rest_as_flushed() {
    // It ends as soon as nothing waits.
    let (short, long) = (Duration::from_millis(20), Duration::from_millis(20_000));
    let rows = [(usize::MAX, 0, 40..41), (7, 0, 7..8), (0, 0, 0..1), (usize::MAX, 9, 2..30)];
    for (room, ahead_s, sent) in rows {
        let mut scene = Scene::new(2, 100, 512);
        scene.start += ahead_s * 1_000_000_000;
        (0..40).for_each(|_| scene.deliver((0, 0), 0, (1, 2)));
        scene.cables[1].set_room(room);
        scene.turn(5);
        let patience = if sent.start == 40 { long } else { short };
        scene.bridge.drain(patience).expect("it can wait");
        let status = scene.bridge.status();
        let class = &status.lanes[1].classes[1];
        let flushed = class.dropped.iter().find(|(cause, _)| cause == "flushed");
        let flushed = flushed.map_or(0, |(_, amount)| amount.packets);
        assert_eq!(class.sent.packets + flushed, 40, "{class:?}");
        assert_eq!((class.offered.packets, class.backlog.packets), (40, 0), "{class:?}");
        assert!(sent.contains(&class.sent.packets), "{class:?}");
    }
}

/// Counts are copied while frames pass; none of it takes or frees memory once each class has had
/// its first counts in both snapshots.
#[test]
fn copying_counts_for_readers_takes_no_memory() {
    let mut scene = Scene::new(2, 100, 512);
    let (board, mut publisher) = (Board::new(), Publisher::new(&scene.bridge));
    for step in 0..100u64 {
        scene.deliver((0, 0), step * 2000, (9, 2));
        scene.turn(step * 2000 + 50);
        board.request_mark();
        let before = allocations();
        let now = Instant::from_nanos(scene.start + step * 2_000_000 + 100_000);
        publisher.publish(now, &mut scene.bridge, &board);
        assert!(step < 20 || allocations() == before, "step {step}");
    }
    let status = board.latest().expect("counts were published");
    // A snapshot begins 10 ms after the last at the earliest.
    assert!(status.lanes[1].classes[1].sent.packets > 90, "{status:?}");
}

/// Each of its ten lines names what does it: `Type::function` (`file`).
#[test]
fn the_page_on_this_loop_names_functions_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = root.join("docs/internals/run-loop.md");
    let page = fs::read_to_string(page).expect("the repository has the page");
    let mut rest = page.as_str();
    for number in 1..=10 {
        let (_, from) = rest.split_once(&format!("\n{number}. ")).expect("ten lines in order");
        let end = from.find(&format!("\n{}. ", number + 1)).or_else(|| from.find("\n\n"));
        let line = &from[..end.unwrap_or(from.len())];
        rest = &from[line.len()..];
        let parts: Vec<_> = line.split('`').collect();
        let named = parts.windows(3).filter(|parts| parts[1].trim() == "(").collect::<Vec<_>>();
        assert!(!named.is_empty(), "line {number} names what does it");
        for parts in named {
            let (name, file) = (parts[0].rsplit("::").next().unwrap_or_default(), parts[2]);
            let text = fs::read_to_string(root.join(file));
            let has = text.is_ok_and(|text| text.contains(&format!("fn {name}(")));
            assert!(has, "line {number}: `{}` is in `{file}`", parts[0]);
        }
    }
}

/// Answers get the code point of what they answer, whose way has no policy, and then the class of
/// that code point; with shares a worker has looked them up before.
#[test]
fn a_frame_is_classified_by_the_code_point_that_it_gets() {
    let text = "[link]\nrate = '1 Gbit/s'\nscheduler = 'drr'\n\
                [class.voice]\nmatch = [{ dscp = 'ef' }]\n[class.rest]\ndefault = true\n";
    let policy = weir_policy::parse(text, "policy.toml").plan.expect("the policy is sound");
    for (restores, shares, voices) in [(false, 1, 0), (true, 1, 1), (true, 2, 1)] {
        let (mems, cables): (Vec<_>, Vec<_>) =
            (0..2).map(|number| Mem::in_parts(&format!("mem{number}"), 1, shares)).unzip();
        let lane = |(from, to)| {
            let lane = LaneConfig::new("lane", (vec![from], to), &policy);
            let restores_dscp = restores && to == 0;
            LaneConfig { restores_dscp, ..lane.expect("the policy is sound") }
        };
        let port = |(number, mem)| BridgePort {
            number: InterfaceId(number),
            source: PortSource::Open(Box::new(mem)),
        };
        let bridge = Bridge::open(BridgeConfig {
            ports: (0..).zip(mems).map(port).collect(),
            lanes: [(0, 1), (1, 0)].map(lane).into(),
            wait: WaitPolicy::Spin,
            lag_max: Duration::from_millis(100),
            cpu: None,
            workers: 1,
            passes_carrier: false,
            intake: true,
        });
        let mut scene =
            Scene { bridge: bridge.expect("ports in memory open"), cables, start: monotonic_ns() };
        let (mut up, mut down) = (frame(0, 1, 80), frame(1, 0, 9));
        up[15] = 46 << 2;
        down[34..36].copy_from_slice(&80u16.to_be_bytes());
        // The connection is not known yet.
        for (at, port, bytes) in [(0, 1, &down), (10, 0, &up), (20, 1, &down)] {
            scene.cables[port].deliver(0, scene.start + at * 1000, bytes.clone());
            (1..5).for_each(|later| scene.turn(at + 2 * later));
        }
        let classes: Vec<_> = scene.cables[0].take_sent().iter().map(|sent| sent[15]).collect();
        assert_eq!(classes, [0, up[15] * voices], "{shares}");
        let sent = |class: usize| scene.bridge.lanes[1].counts(class).account.sent.packets;
        assert_eq!([sent(0), sent(1)], [voices, 2 - voices].map(u64::from), "{shares}");
    }
}
