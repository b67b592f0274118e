//! Law: however many workers there are, and however they take turns, the loop decides what it
//! decides without them.
//!
//! Each share of a port stands for a worker that has a part of the flows. It looks at its frames at
//! instants of its own, passes all or some of them on, and says how far it came. What leaves the
//! link and what it drops is then the same as where all frames come by one ring as soon as they
//! arrive. Workers look frames up in the rules that they know, and halfway another policy comes
//! into force while frames are on their way that were looked up in the rules of before.
//! Stamps differ: frames that arrive at the same instant have no order of their own.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::thread;

use super::*;
use crate::lane::change::{LaneChange, Way};
use crate::port::mem::{Cable, Mem};
use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;
use weir_policy::Policy;

#[path = "../../../weir-trace/tests/it/common/policies.rs"]
mod policies;

/// The ports where frames arrive; they leave by the next one.
const INPUTS: usize = 2;
/// When the loads begin: schedulers round instants, and so would decide otherwise at another time.
const START_NS: u64 = 1 << 50;
/// The station that all frames are for.
const STATION: u8 = 9;

/// A frame that arrives.
struct Offered {
    at_us: u64,
    port: usize,
    flow: u32,
    bytes: Vec<u8>,
}

/// A bridge from two ports with so many shares each to a third one.
struct Scene {
    bridge: Bridge,
    cables: Vec<Cable>,
}

impl Scene {
    fn new(policy: &Policy, shares: usize) -> Self {
        let ports = INPUTS + 1;
        let (mems, cables): (Vec<_>, Vec<_>) =
            (0..ports).map(|number| Mem::in_parts(&format!("mem{number}"), 1, shares)).unzip();
        let forth = LaneConfig::new("forth", ((0..INPUTS).collect(), INPUTS), policy);
        let forth = LaneConfig { frames_max: FRAMES, ..forth.expect("the policy is sound") };
        let port = |(number, mem)| BridgePort {
            number: InterfaceId(number),
            source: PortSource::Open(Box::new(mem)),
        };
        let bridge = Bridge::open(BridgeConfig {
            ports: (0..).zip(mems).map(port).collect(),
            lanes: vec![forth],
            wait: WaitPolicy::Spin,
            lag_max: Duration::from_secs(3600),
            cpu: None,
            workers: 1,
            passes_carrier: false,
            intake: true,
        });
        let mut scene = Self { bridge: bridge.expect("ports in memory open"), cables };
        // The bridge learns where the station is.
        scene.cables[INPUTS].deliver(0, START_NS, bytes(0, 0, (STATION, 1), 60));
        scene.turn(0);
        scene
    }

    fn turn(&mut self, at_us: u64) {
        self.bridge.turn(Instant::from_nanos(START_NS + at_us * 1000));
    }

    /// Puts the second policy in force, in place of the first.
    fn change(&mut self, policies: (&Policy, &Policy)) {
        let lane = &mut self.bridge.lanes[0];
        let way = Way { policy: policies.1, sojourn_max: &[], train_max: &[], frames_max: FRAMES };
        let change = LaneChange::prepare(lane.labels(), policies.0, way);
        let mut change = change.expect("the policy is sound");
        lane.change(&mut change, &mut self.bridge.pool);
        self.bridge.pass_on_rules();
    }

    fn pass(&self, ring: usize, offered: &Offered) {
        let at_ns = START_NS + offered.at_us * 1000;
        self.cables[offered.port].deliver(ring, at_ns, offered.bytes.clone());
    }

    /// Serves the link until it is empty; returns what left it, and what each class dropped.
    fn end(mut self, last_us: u64) -> (Vec<Vec<u8>>, Vec<u64>) {
        for step in 0..100 {
            self.turn(last_us + step * 100_000);
        }
        let status = self.bridge.status();
        let dropped = status.lanes[0].classes.iter().map(|class| {
            class.dropped.iter().map(|(_, amount)| amount.packets).sum::<u64>()
                + class.lost.iter().map(|(_, frames)| frames).sum::<u64>()
        });
        (self.cables[INPUTS].take_sent(), dropped.collect())
    }
}

/// A datagram of so many bytes with a number.
fn bytes(number: u32, flow: u32, (from, to): (u8, u8), length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((length as u16 - 14).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0, 9, 0, flow as u8]);
    frame.extend((length as u16 - 34).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(length, 0);
    frame
}

/// Frames of some flows that come in bursts and pauses, at instants that all differ.
fn load(random: &mut Random) -> Vec<Offered> {
    let (mut at_us, mut load) = (10, Vec::new());
    for number in 0..300 {
        let pause = if random.below(12) == 0 { 20_000 } else { 1_200 };
        at_us += 1 + u64::from(random.below(pause));
        let (flow, port) = (random.below(8), random.below(INPUTS as u32) as usize);
        let length = 60 + random.below(policies::MTU - 60) as usize;
        let bytes = bytes(number, flow, (1 + port as u8, STATION), length);
        load.push(Offered { at_us, port, flow, bytes });
    }
    load
}

/// The frames that left the link, and how many each class dropped.
type Outcome = (Vec<Vec<u8>>, Vec<u64>);

/// The policy at first, and the one after [`change_us`].
type Policies<'a> = (&'a Policy, &'a Policy);

/// Returns when the policy changes; frames of the [`ON_THE_WAY_US`] before are on their way then.
fn change_us(load: &[Offered]) -> u64 {
    load[load.len() / 2].at_us + 10
}

/// Runs a load where frames come by one ring, when they arrive, and the loop takes so many at once.
fn without_workers(policies: Policies<'_>, load: &[Offered], at_once: usize) -> Outcome {
    let mut scene = Scene::new(policies.0, 1);
    let change_us = change_us(load);
    let (before, after) = load.split_at(load.partition_point(|one| one.at_us <= change_us));
    let seen = before.partition_point(|one| one.at_us + ON_THE_WAY_US <= change_us);
    let (before, on_the_way) = before.split_at(seen);
    let take = |scene: &mut Scene, load: &[Offered]| {
        for offered in load.chunks(at_once) {
            offered.iter().for_each(|offered| scene.pass(0, offered));
            scene.turn(offered.last().map_or(0, |last| last.at_us));
        }
    };
    take(&mut scene, before);
    scene.turn(change_us - ON_THE_WAY_US);
    on_the_way.iter().for_each(|offered| scene.pass(0, offered));
    scene.change(policies);
    scene.turn(change_us);
    take(&mut scene, after);
    scene.end(load.last().map_or(0, |last| last.at_us) + LOOK_US)
}

/// Runs it with a worker for each part of the flows of each port.
fn with_workers(
    policies: Policies<'_>,
    load: &[Offered],
    workers: usize,
    random: &mut Random,
) -> Outcome {
    let mut scene = Scene::new(policies.0, workers);
    let mut waiting: Vec<Vec<&Offered>> = vec![Vec::new(); INPUTS * workers];
    for offered in load.iter().rev() {
        waiting[offered.port * workers + offered.flow as usize % workers].push(offered);
    }
    let mut looked_us = vec![0; waiting.len()];
    pass_all(&scene, &mut waiting, 0);
    let last_us = load.last().map_or(0, |last| last.at_us) + LOOK_US;
    let change_us = change_us(load);
    let (mut now_us, mut changes_us) = (0, Some(change_us - ON_THE_WAY_US));
    while now_us < last_us {
        now_us += 1 + u64::from(random.below(200));
        if let Some(at_us) = changes_us.take_if(|at_us| *at_us <= now_us) {
            // All workers look at both instants, so that the loop has the same frames then.
            pass_all(&scene, &mut waiting, at_us);
            scene.turn(at_us);
            pass_all(&scene, &mut waiting, change_us);
            scene.change(policies);
            scene.turn(change_us);
            looked_us.fill(change_us);
            now_us = change_us;
            continue;
        }
        for (worker, waiting) in waiting.iter_mut().enumerate() {
            // One that the loop waits for no longer would be late.
            if random.below(3) != 0 && now_us - looked_us[worker] < LOOK_US {
                continue;
            }
            let (port, ring) = (worker / workers, worker % workers);
            let may_stop = now_us - looked_us[worker] < LOOK_US;
            let mut behind = None;
            while let Some(next) = waiting.pop_if(|next| next.at_us <= now_us) {
                scene.pass(ring, next);
                if may_stop && random.below(4) == 0 {
                    behind = Some(next.at_us);
                    break;
                }
            }
            let reached = match behind.filter(|_| !waiting.is_empty()) {
                // It does not look further, so the loop must not either.
                Some(at_us) => Reached::Looked(START_NS + at_us * 1000),
                None => {
                    looked_us[worker] = now_us;
                    Reached::Looked(START_NS + now_us * 1000)
                }
            };
            scene.cables[port].set_reached(ring, reached);
        }
        if random.below(2) == 0 {
            scene.turn(now_us);
        }
    }
    scene.cables.iter().for_each(|cable| {
        (0..workers).for_each(|ring| cable.set_reached(ring, Reached::All));
    });
    scene.end(last_us)
}

/// Has all workers pass on what arrived until then.
fn pass_all(scene: &Scene, waiting: &mut [Vec<&Offered>], at_us: u64) {
    let workers = waiting.len() / INPUTS;
    for (worker, waiting) in waiting.iter_mut().enumerate() {
        let (port, ring) = (worker / workers, worker % workers);
        while let Some(next) = waiting.pop_if(|next| next.at_us <= at_us) {
            scene.pass(ring, next);
        }
        scene.cables[port].set_reached(ring, Reached::Looked(START_NS + at_us * 1000));
    }
}

/// How often a simulated worker looks at least: the loop waits for [`LOOKED_MAX`].
const LOOK_US: u64 = 700;
/// For how long frames are on their way when the policy changes.
const ON_THE_WAY_US: u64 = 5_000;
/// The frames that the lane has room for.
const FRAMES: u32 = 8192;

/// Frames that left, frames that were dropped, and schedulers that decide by the turns of the loop.
type Held = (usize, u64, BTreeSet<&'static str>);

/// Holds schedulers to the law, each on so many loads.
fn hold(schedulers: impl IntoIterator<Item = &'static str>, loads: u64) -> Held {
    let (mut left, mut dropped, mut by_turns) = (0, 0, BTreeSet::new());
    for scheduler in schedulers {
        let mut random = Random::new(45, 0);
        for number in 0..loads {
            let [text, later] = [(); 2].map(|()| policies::text(scheduler, &mut random));
            let [first, second] =
                [&text, &later].map(|text| weir_policy::parse(text, "policy.toml").plan);
            let (Some(first), Some(second)) = (first, second) else { continue };
            let (policies, load) = ((&first, &second), load(&mut random));
            let plain = without_workers(policies, &load, 1);
            if plain != without_workers(policies, &load, 7) {
                by_turns.insert(scheduler);
                continue;
            }
            (left, dropped) = (left + plain.0.len(), dropped + plain.1.iter().sum::<u64>());
            for workers in [1, 2, 3, 8] {
                let worked = with_workers(policies, &load, workers, &mut random);
                let what = format!("{scheduler}, load {number}, {workers} workers");
                assert!(plain == worked, "{what}\n{text}\n{later}");
            }
        }
    }
    (left, dropped, by_turns)
}

#[test]
fn workers_change_no_decision() {
    let loads = std::env::var("WEIR_LAWS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    // By turns, so that the slow ones, which stand together, are on all threads.
    let part = |first: usize| SCHEDULERS.iter().skip(first).step_by(threads);
    let held: Vec<Held> = thread::scope(|scope| {
        let run = |first| {
            scope.spawn(move || hold(part(first).map(|entry| entry.descriptor.keyword), loads))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("the law holds")).collect()
    });
    let left: usize = held.iter().map(|held| held.0).sum();
    let dropped: u64 = held.iter().map(|held| held.1).sum();
    // They read a clock when they are served, as those kernels did.
    let known = |scheduler: &&str| ["cbq-altq", "htb-2.6.5"].contains(scheduler);
    assert!(held.iter().flat_map(|held| &held.2).all(known), "{held:?}");
    assert!(left > 3_000 && dropped > 20, "{left} frames left, {dropped} were dropped");
}
