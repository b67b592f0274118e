//! Tests of a whole lane, and what the tests of its parts share.

use std::sync::Arc;

use super::change::{LaneChange, Way};
use super::*;
use crate::port::mem::{Cable, Mem};
use crate::status::Shape;
use weir_core::classify::InterfaceId;
use weir_core::random::Random;
use weir_core::units::Duration;
use weir_policy::Policy;

/// Classes of a link of 8 Mbit/s, which sends a byte in a microsecond: the first has port 1 of UDP,
/// the next port 2, and so on; the last one has the rest.
pub(crate) fn policy_of(names: &[&str]) -> Policy {
    let mut text = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"priq\"\n".to_owned();
    for (number, name) in (1..).zip(names) {
        let matches = match number == names.len() {
            true => "default = true".to_owned(),
            false => format!("match = [{{ proto = \"udp\", dport = {number} }}]"),
        };
        text += &format!("[class.{name}]\npriority = {}\n{matches}\n", names.len() - number);
    }
    let outcome = weir_policy::parse(&text, "policy.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

/// `a` has port 1 and `b` the rest.
pub(crate) fn policy() -> Policy {
    policy_of(&["a", "b"])
}

/// A datagram of 60 bytes for this port of UDP.
pub(crate) fn frame(dport: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 9, (dport >> 8) as u8, dport as u8, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// The labels of a lane of a policy, with no age.
pub(crate) fn labels(policy: &Policy) -> LaneLabels {
    let leaves = (0..policy.link.tree.leaf_count() as u32).map(LeafId);
    LaneLabels {
        leaves: leaves.map(|leaf| policy.leaf_name(leaf).to_owned()).collect(),
        shape: Arc::new(Shape::of(policy)),
        has_delays: true,
        ..LaneLabels::default()
    }
}

pub(crate) fn us(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// Trains of up to three frames of 60 bytes in three of up to four leaves.
const TRAINS: [u32; 3] = [65_535, 0, 180];

/// A lane before a port in memory.
struct Scene {
    lane: Lane,
    pool: FramePool,
    port: Mem,
    cable: Cable,
    accepted: u64,
}

impl Scene {
    fn new(policy: &Policy, frames_max: u32) -> Self {
        let config = LaneConfig::new("lane", (vec![0], 1), policy).expect("the policy is sound");
        let (port, cable) = Mem::new("mem", 1);
        let lane = Lane::new(LaneConfig { frames_max, ..config });
        Self { lane, pool: FramePool::for_mtu(frames_max + 256, 1500), port, cable, accepted: 0 }
    }

    fn accept(&mut self, at: u64, dport: u16) {
        self.accept_segments(at, dport, 1);
    }

    /// Has so many segments of one super-packet arrive.
    fn accept_segments(&mut self, at: u64, dport: u16, count: usize) {
        let (bytes, at_ns) = (frame(dport), us(at).as_nanos());
        let first = self.pool.number_segments(count);
        let mut received: Vec<_> = (first..first + count as u32)
            .map(|number| {
                let frame = self.pool.insert(&bytes).expect("the pool has a frame in hand");
                self.pool.set_segment(frame, number);
                Received::new(frame, at_ns, &self.pool)
            })
            .collect();
        self.lane.accept(us(at), (&mut received, InterfaceId(0)), &mut self.pool);
        self.accepted += count as u64;
    }

    fn turn(&mut self, at: u64) {
        self.lane.turn(
            Turn { now: us(at), seen: None, looked: None },
            &mut self.pool,
            &mut self.port,
        );
    }

    /// Takes the ports of UDP of the frames that were sent.
    fn sent(&mut self) -> Vec<u16> {
        let frames = self.cable.take_sent();
        frames.iter().map(|sent| u16::from_be_bytes([sent[36], sent[37]])).collect()
    }

    /// Returns the frames that left, were dropped or were lost, of all leaves and those removed;
    /// each has 60 bytes.
    fn gone(&self) -> u64 {
        let leaves = self.lane.labels().leaves.len();
        let counts = (0..leaves).map(|leaf| self.lane.counts(leaf)).chain([self.lane.retired()]);
        let gone = |counts: LeafCounts| {
            let before = Loss::BEFORE.map(|cause| counts.losses[cause as usize].bytes);
            let account = counts.account;
            account.sent.bytes + account.dropped_total().bytes + before.iter().sum::<u64>()
        };
        counts.map(gone).sum::<u64>() / 60
    }
}

/// Segments of 60 bytes come, of which so many bytes pass as one packet: the frames that leave with
/// each packet, while the line sends a byte in a microsecond.
#[test]
fn segments_pass_as_one_packet_as_far_as_the_class_lets_them() {
    let rows: [(usize, u32, &[usize]); 8] = [
        (1, 0, &[1]),
        (3, 0, &[1, 1, 1]),
        (3, 119, &[1, 1, 1]),
        (3, 120, &[2, 1]),
        (7, 200, &[3, 3, 1]),
        (4, 65_535, &[4]),
        (BATCH, 65_535, &[BATCH]),
        (BATCH + 2, 65_535, &[BATCH, 2]),
    ];
    for (count, train_max, packets) in rows {
        let mut scene = Scene::new(&policy(), 256);
        scene.lane.books.labels.train_max = vec![0, train_max];
        scene.accept_segments(0, 2, count);
        let used = scene.pool.capacity() - scene.pool.free_count();
        assert_eq!((scene.lane.held(), used), (count, count), "{count} {train_max}");
        let mut at = 0;
        for frames in packets {
            scene.turn(at);
            assert_eq!(scene.sent().len(), *frames, "{count} {train_max}, at {at}");
            at += 60 * *frames as u64;
        }
        assert_eq!((scene.lane.held(), scene.pool.free_count()), (0, scene.pool.capacity()));
        let sent = scene.lane.counts(1).account.sent;
        assert_eq!((sent.packets, sent.bytes), (packets.len() as u64, 60 * count as u64));
    }
}

/// The rows say what arrives (port of UDP, instant) before each turn, and what has left after it.
#[test]
fn one_turn_serves_what_was_accepted_and_sends_what_leaves() {
    type Step<'a> = (&'a [(u16, u64)], u64, &'a [u16]);
    let steps: [Step<'_>; 6] = [
        // The line is idle; then a frame takes 60 us, and `a` comes first.
        (&[(2, 0)], 0, &[2]),
        (&[(2, 10), (1, 20), (1, 30)], 40, &[]),
        (&[], 60, &[1]),
        // A late turn sends what has become due meanwhile.
        (&[], 190, &[1, 2]),
        // Frames count at their own instants, whatever their order.
        (&[(2, 310), (1, 300)], 320, &[1]),
        (&[], 1000, &[2]),
    ];
    let mut scene = Scene::new(&policy(), 64);
    for (number, (arrivals, at, expected)) in steps.into_iter().enumerate() {
        arrivals.iter().for_each(|(dport, at)| scene.accept(*at, *dport));
        scene.turn(at);
        assert_eq!(scene.sent(), expected, "step {number}");
    }
    assert_eq!((scene.lane.held(), scene.pool.free_count()), (0, scene.pool.capacity()));
}

/// Frames before the link, in it and behind it, of leaves that stay, move, go and come.
#[test]
fn no_frame_is_lost_sight_of_over_random_changes_of_the_policy() {
    const POLICIES: [&[&str]; 5] =
        [&["a", "b"], &["b", "a"], &["a", "c", "b"], &["d"], &["a", "b", "c", "d"]];
    for seed in 0..30 {
        let mut random = Random::new(seed, 0);
        let mut policy = policy_of(POLICIES[0]);
        let mut scene = Scene::new(&policy, 64);
        scene.lane.books.labels.train_max = TRAINS.to_vec();
        for step in 0..200u64 {
            let at = step * 50;
            for _ in 0..random.below(5) {
                let segments = 1 + random.below(4) * random.below(2);
                scene.accept_segments(at, 1 + random.below(4) as u16, segments as usize);
            }
            scene.cable.set_room(random.below(4) as usize);
            if random.below(4) == 0 {
                let new = policy_of(POLICIES[random.below(5) as usize]);
                let ages = vec![Duration::from_secs(1_000_000_000); new.link.tree.leaf_count()];
                let way =
                    Way { policy: &new, sojourn_max: &ages, train_max: &TRAINS, frames_max: 64 };
                let change = LaneChange::prepare(scene.lane.labels(), &policy, way);
                let mut change = change.expect("the policy is sound");
                let held = scene.lane.held() as u64 + scene.gone();
                scene.lane.change(&mut change, &mut scene.pool);
                let now = scene.lane.held() as u64 + scene.gone();
                assert_eq!(now, held, "seed {seed}, step {step}");
                policy = new;
            }
            // Asserts that each frame has its room.
            scene.turn(at + 25);
            let used = scene.pool.capacity() - scene.pool.free_count();
            assert_eq!(scene.lane.held(), used, "seed {seed}, step {step}");
        }
        scene.cable.set_room(usize::MAX);
        scene.turn(1_000_000);
        assert_eq!(scene.lane.held(), 0);
        assert_eq!(scene.gone(), scene.accepted, "seed {seed}");
    }
}

#[test]
fn what_a_lane_gives_up_is_counted_once() {
    let mut scene = Scene::new(&policy(), 64);
    scene.cable.set_room(0);
    (0..10).for_each(|_| scene.accept(0, 2));
    scene.turn(150);
    assert_eq!((scene.lane.held(), scene.lane.outbox.len()), (10, 3));
    scene.lane.flush(us(150), &mut scene.pool);
    // Those in the link stay there, and are counted as if they had gone.
    assert_eq!((scene.lane.held(), scene.lane.outbox.len()), (7, 0));
    let counts = scene.lane.counts(1);
    assert_eq!(counts.losses[Loss::Flushed as usize].packets, 10);
    assert_eq!(counts.account.backlog.packets, 0);
    let free = scene.pool.free_count();
    assert_eq!(free, scene.pool.capacity() - 7);
}
