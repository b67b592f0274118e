//! Tests of workers, over ports in memory.

use std::time::{Duration, Instant};

use super::*;
use crate::pool::{FrameId, FramePool};
use crate::port::mem::{Cable, Mem};
use crate::port::{PortCounters, Reached, Received};
use weir_core::random::Random;

const SLOTS_ALL: u32 = 16_384;

/// Two ports in memory that workers have, as the loop sees them.
struct Scene {
    ports: Vec<Box<dyn Port>>,
    cables: Vec<Cable>,
    pool: FramePool,
}

impl Scene {
    fn new(workers: usize) -> Self {
        let (mems, cables): (Vec<_>, Vec<_>) =
            (0..2).map(|number| Mem::new(&format!("mem{number}"), 2)).unzip();
        let given = mems.into_iter().zip(&cables).map(|(mem, cable)| {
            let (name, cable) = (mem.interface().to_owned(), cable.clone());
            let reopen = move || -> Result<Box<dyn Port>> { Ok(Box::new(cable.port(&name))) };
            (Box::new(mem) as Box<dyn Port>, Some(Arc::new(reopen) as _))
        });
        let employed = Workers::employ(given.collect(), workers, true);
        let (mut workers, mut ports) = employed.expect("there are descriptors");
        let mut pool = FramePool::for_mtu(SLOTS_ALL, 1500);
        ports.iter_mut().for_each(|port| port.attach(&mut pool).expect("it has a view"));
        workers.start(WaitPolicy::Block).expect("there are threads");
        Self { ports, cables, pool }
    }

    /// Takes what arrived at a port.
    fn receive(&mut self, port: usize) -> Vec<Received> {
        let mut received = Vec::new();
        self.ports[port].reclaim(&mut self.pool);
        for ring in 0..2 {
            self.ports[port].receive(ring, BATCH, &mut self.pool, &mut received);
        }
        received
    }

    /// Waits until something is so.
    fn wait_until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(60), "it becomes so");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn counters(&mut self, port: usize) -> PortCounters {
        self.ports[port].counters()
    }

    /// The slots that are free, away, or in the loop's hands.
    fn check(&self, in_hand: usize) {
        let away: usize = self.ports.iter().map(|port| port.held()).sum();
        assert_eq!(self.pool.free_count() + away + in_hand, SLOTS_ALL as usize);
    }
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60 + number as usize % 1000];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Frames go from the one port to the other as the loop takes them, in the order of each ring, and
/// none is lost, changed or doubled, however the loop and its workers take turns.
#[test]
fn frames_pass_unchanged_and_in_order() {
    for workers in [1, 2, 3] {
        let mut scene = Scene::new(workers);
        let mut random = Random::new(workers as u64, 0);
        let mut next = [0u32; 2];
        let mut waiting: Vec<FrameId> = Vec::new();
        let mut sent = Vec::new();
        while sent.len() < 20_000 {
            for (ring, next) in next.iter_mut().enumerate() {
                for _ in 0..random.bits() % 40 {
                    let number = *next * 2 + ring as u32;
                    scene.cables[0].deliver(ring, u64::from(*next) + 1, frame(number));
                    *next += 1;
                }
            }
            waiting.extend(scene.receive(0).iter().map(|received| received.frame));
            assert!(scene.receive(1).is_empty(), "nothing arrives there");
            if random.bits().is_multiple_of(3) {
                let most = waiting.len().min(BATCH);
                let taken = scene.ports[1].send(&mut scene.pool, &waiting[..most]).taken;
                waiting.drain(..taken);
            }
            scene.check(waiting.len());
            sent.extend(scene.cables[1].take_sent());
        }
        let number = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        for ring in 0..2 {
            let of_ring = sent.iter().filter(|bytes| number(bytes) % 2 == ring);
            let numbers: Vec<_> = of_ring.clone().map(|bytes| number(bytes) / 2).collect();
            assert!(numbers.iter().enumerate().all(|(at, found)| at as u32 == *found), "{ring}");
            assert!(of_ring.clone().all(|bytes| *bytes == frame(number(bytes))));
        }
        // The worker keeps a bounded number of slots while nothing moves.
        scene.wait_until(|scene| {
            scene.receive(1);
            scene.ports[1].held() <= SLOTS + SENDING_MAX
        });
    }
}

/// A flood in one ring leaves room for the other, and the loop learns that more wait.
#[test]
fn a_ring_holds_up_no_other() {
    let mut scene = Scene::new(2);
    for number in 0..3000 {
        scene.cables[0].deliver(0, u64::from(number) + 1, frame(number));
    }
    scene.wait_until(|scene| scene.cables[0].waiting(0) <= 3000 - RECEIVED_MAX);
    scene.cables[0].deliver(1, 9000, frame(77));
    let mut received = Vec::new();
    scene.wait_until(|scene| {
        scene.ports[0].receive(1, BATCH, &mut scene.pool, &mut received);
        !received.is_empty()
    });
    assert_eq!(scene.pool.bytes(received[0].frame), frame(77));
    let mut of_flood = Vec::new();
    let reached = scene.ports[0].receive(0, BATCH, &mut scene.pool, &mut of_flood);
    assert_eq!(reached, Reached::Behind(64), "all up to this stamp");
}

#[test]
fn a_worker_that_panics_opens_its_port_again_and_counts_what_it_lost() {
    let mut scene = Scene::new(2);
    for number in 0..10 {
        scene.cables[0].deliver(0, number + 1, frame(number as u32));
    }
    scene.wait_until(|scene| scene.cables[0].waiting(0) == 0);
    scene.cables[0].panic_at_next_receive();
    scene.wait_until(|scene| scene.ports[0].refresh() == crate::port::PortState::Gone);
    // The other worker goes on.
    let sent = scene.pool.insert(&frame(1)).expect("there is a slot");
    assert_eq!(scene.ports[1].send(&mut scene.pool, &[sent]).taken, 1);
    scene.wait_until(|scene| scene.cables[1].take_sent().len() == 1);
    scene.wait_until(|scene| scene.ports[0].refresh() == crate::port::PortState::Up);
    scene.cables[0].deliver(0, 50, frame(11));
    let mut received = Vec::new();
    scene.wait_until(|scene| {
        received.extend(scene.receive(0));
        received.len() == 11
    });
    scene.check(11);
    assert_eq!(scene.counters(0).worker_failed, 0, "none was in the worker's hands");
}

/// Its port is opened anew, what it had passed on is not lost, and its slots come back with it.
#[test]
fn a_worker_that_hangs_is_given_up_and_gives_back_its_slots_when_it_goes_on() {
    let mut scene = Scene::new(2);
    for number in 0..10 {
        scene.cables[0].deliver(0, number + 1, frame(number as u32));
    }
    scene.wait_until(|scene| scene.cables[0].waiting(0) == 0);
    scene.cables[0].set_hanging(true);
    // In its hands, or on their way to it: it sends them never.
    let sent = [scene.pool.insert(&frame(1)).expect("there is a slot")];
    scene.wait_until(|scene| scene.cables[0].has_hung());
    assert_eq!(scene.ports[0].send(&mut scene.pool, &sent).taken, 1);
    scene.cables[0].deliver(0, 50, frame(10));
    scene.wait_until(|scene| scene.ports[0].refresh() == crate::port::PortState::Gone);
    let mut received = Vec::new();
    scene.wait_until(|scene| {
        received.extend(scene.receive(0));
        scene.ports[0].refresh() == crate::port::PortState::Up && received.len() == 11
    });
    assert!(received.is_sorted_by_key(|one| one.at_ns));
    scene.check(11);
    let slots = scene.ports[0].held();
    assert!(slots > SLOTS, "those that hang are counted: {slots}");
    // The other worker went on, and so does the port.
    let other = scene.pool.insert(&frame(2)).expect("there is a slot");
    assert_eq!(scene.ports[1].send(&mut scene.pool, &[other]).taken, 1);
    let more = scene.pool.insert(&frame(3)).expect("there is a slot");
    assert_eq!(scene.ports[0].send(&mut scene.pool, &[more]).taken, 1);
    scene.wait_until(|scene| scene.cables[1].take_sent().len() == 1);
    scene.wait_until(|scene| scene.cables[0].take_sent() == [frame(3)]);
    assert_eq!(scene.counters(0).worker_failed, 1, "what it was to send");
    scene.cables[0].set_hanging(false);
    scene.wait_until(|scene| {
        scene.receive(0);
        scene.ports[0].held() <= SLOTS
    });
    scene.check(11);
}

/// A request to a worker that hangs is not done later.
#[test]
fn a_request_to_a_worker_that_hangs_ends() {
    let mut scene = Scene::new(2);
    scene.cables[0].set_hanging(true);
    scene.wait_until(|scene| scene.cables[0].has_hung());
    assert!(scene.ports[0].set_intake(false).is_err());
    scene.wait_until(|scene| {
        scene.receive(0);
        scene.ports[0].refresh() == crate::port::PortState::Up
    });
    // The one in its place has it from the start.
    scene.cables[0].deliver(0, 1, frame(1));
    assert_eq!(scene.cables[0].waiting(0), 0, "the intake is closed");
    assert!(scene.ports[0].set_intake(true).is_ok());
    scene.cables[0].set_hanging(false);
    scene.wait_until(|scene| {
        scene.receive(0);
        scene.ports[0].held() <= SLOTS
    });
    scene.cables[0].deliver(0, 2, frame(2));
    scene.wait_until(|scene| scene.receive(0).len() == 1);
}

#[test]
fn another_memory_costs_no_frame() {
    let mut scene = Scene::new(2);
    for number in 0..5 {
        scene.cables[0].deliver(0, number + 1, frame(number as u32));
    }
    scene.wait_until(|scene| scene.cables[0].waiting(0) == 0);
    // In the loop's hands: it goes with the pool.
    let mut received = Vec::new();
    scene.wait_until(|scene| {
        scene.ports[0].receive(0, 1, &mut scene.pool, &mut received);
        received.len() == 1
    });
    scene.cables[1].set_room(0);
    let sent = scene.pool.insert(&frame(7)).expect("there is a slot");
    assert_eq!(scene.ports[1].send(&mut scene.pool, &[sent]).taken, 1);
    scene.pool.grow(9000);
    for port in &mut scene.ports {
        port.attach(&mut scene.pool).expect("it has another view");
    }
    scene.cables[1].set_room(usize::MAX);
    scene.cables[0].deliver(0, 50, frame(5));
    scene.wait_until(|scene| {
        received.extend(scene.receive(0));
        received.len() == 6
    });
    for (number, received) in (0..).zip(&received) {
        assert_eq!(scene.pool.bytes(received.frame), frame(number));
    }
    let mut arrived = Vec::new();
    scene.wait_until(|scene| {
        arrived.extend(scene.cables[1].take_sent());
        !arrived.is_empty()
    });
    assert_eq!(arrived, [frame(7)]);
    scene.check(6);
}
