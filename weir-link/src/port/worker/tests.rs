//! Tests of workers, over ports in memory.

use std::time::{Duration, Instant};

use super::*;
use crate::pool::{FrameId, FramePool};
use crate::port::mem::{Cable, Mem};
use crate::port::{LaneRules, PortCounters, Reached, Received};
use weir_core::classify::InterfaceId;
use weir_core::ids::LeafId;
use weir_core::packet::Headers;
use weir_core::random::Random;
use weir_core::units;

const SLOTS_ALL: u32 = 16_384;

/// Two ports in memory that workers have, as the loop sees them.
struct Scene {
    ports: Vec<Box<dyn Port>>,
    cables: Vec<Cable>,
    pool: FramePool,
}

impl Scene {
    fn new(workers: usize) -> Self {
        Self::of((0..2).map(|number| Mem::new(&format!("mem{number}"), 2)), workers)
    }

    /// Ports that so many workers each share.
    fn shared(shares: usize) -> Self {
        let port = |number| Mem::shared(&format!("mem{number}"), 2, shares);
        Self::of((0..2).map(port), 2 * shares)
    }

    /// As [`Scene::shared`], of ports whose shares have all rings.
    fn split(shares: usize) -> Self {
        let port = |number| Mem::split(&format!("mem{number}"), 2, shares);
        Self::of((0..2).map(port), 2 * shares)
    }

    fn of(ports: impl Iterator<Item = (Mem, Cable)>, workers: usize) -> Self {
        let (mems, cables): (Vec<_>, Vec<_>) = ports.unzip();
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
        for queue in 0..self.ports[port].queues() {
            self.ports[port].receive(queue, BATCH, &mut self.pool, &mut received);
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

/// A worker looks frames up in the rules that it was told last, so does one in the place of another,
/// and none looks a fragment up.
#[test]
fn frames_are_looked_up_in_the_rules_told_last() {
    let mut scene = Scene::new(2);
    let policy = crate::lane::tests::policy_of(&["a", "b", "c"]);
    let classifier = policy.classifier();
    let told =
        |number| LaneRules { number, port: InterfaceId(0), rules: Arc::clone(classifier.rules()) };
    let is_by = |scene: &mut Scene, number: u32, dport: u16| {
        let frame = crate::lane::tests::frame(dport);
        scene.cables[0].deliver(0, 1, frame.clone());
        let mut received = Vec::new();
        scene.wait_until(|scene| {
            scene.ports[0].refresh();
            received = scene.receive(0);
            !received.is_empty()
        });
        scene.pool.release(received[0].frame);
        let headers = Headers::parse_ethernet(&frame);
        let found = received[0].found.by(number)?;
        let ahead = classifier.classify_found(InterfaceId(0), &headers, found);
        assert_eq!(
            ahead,
            classifier.clone().classify(units::Instant::ZERO, InterfaceId(0), &headers)
        );
        Some(ahead.leaf)
    };
    assert_eq!(is_by(&mut scene, 1, 1), None, "it knows no rules");
    for number in 1..=4 {
        scene.ports[0].look_up_in(&told(number));
        // The worker takes them up at a turn of its own.
        scene.wait_until(|scene| is_by(scene, number, 2) == Some(LeafId(1)));
        assert_eq!(is_by(&mut scene, number, 3), Some(LeafId(2)), "the default");
    }
    scene.cables[0].set_hanging(true);
    scene.wait_until(|scene| scene.cables[0].has_hung());
    scene.wait_until(|scene| is_by(scene, 4, 2) == Some(LeafId(1)));
    scene.cables[0].set_hanging(false);
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

/// A numbered datagram of a flow.
fn datagram(flow: u32, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0];
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9]);
    frame.extend((5000 + flow as u16).to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Returns the flow and the number of such a datagram.
fn told(datagram: &[u8]) -> (u32, u32) {
    let flow = u16::from_be_bytes([datagram[36], datagram[37]]) - 5000;
    let number = &datagram[42..46];
    (flow.into(), u32::from_be_bytes([number[0], number[1], number[2], number[3]]))
}

/// Flows that come by the shares of a port, or by the ring of a class, which may be shared, leave by those of another
/// one, each in its order.
#[test]
fn flows_pass_by_shares_in_their_order() {
    const FLOWS: u32 = 24;
    for (shares, queues) in [(2, 3), (3, 4), (2, 4), (3, 6)] {
        let is_split = queues == 2 * shares;
        let mut scene = if is_split { Scene::split(shares) } else { Scene::shared(shares) };
        assert_eq!((scene.ports[0].rings(), scene.ports[0].shares()), (2, shares));
        assert_eq!(scene.ports[0].queues(), queues);
        let mut random = Random::new(shares as u64, 1);
        let mut next = [0; FLOWS as usize];
        let (mut waiting, mut sent, mut at_ns) = (Vec::new(), Vec::new(), 0);
        while sent.len() < 10_000 {
            for _ in 0..random.bits() % 60 {
                let flow = random.below(FLOWS);
                at_ns += 1;
                let queue = flow as usize % queues;
                let number = &mut next[flow as usize];
                scene.cables[0].deliver(queue, at_ns, datagram(flow, *number));
                *number += 1;
            }
            waiting.extend(scene.receive(0).iter().map(|received| received.frame));
            let most = waiting.len().min(BATCH);
            let taken = scene.ports[1].send(&mut scene.pool, &waiting[..most]).taken;
            waiting.drain(..taken);
            scene.receive(1);
            scene.check(waiting.len());
            sent.extend(scene.cables[1].take_sent());
        }
        let mut found = [0; FLOWS as usize];
        for bytes in &sent {
            let (flow, number) = told(bytes);
            assert_eq!(number, found[flow as usize], "flow {flow}");
            found[flow as usize] += 1;
        }
        assert!(found.iter().all(|count| *count > 100), "{found:?}");
    }
}

/// Which flows leave by which share is up to them; none leaves by two.
#[test]
fn flows_have_numbers_of_their_own() {
    let number = |bytes: &[u8]| spread::flow(&weir_core::packet::Headers::parse_ethernet(bytes));
    let numbers: std::collections::BTreeSet<_> =
        (0..200).map(|flow| number(&datagram(flow, 1))).collect();
    assert!(numbers.len() > 100, "{} numbers", numbers.len());
    for shares in 2..=SHARES_MAX {
        let mut counts = vec![0; shares];
        (0..4000).for_each(|flow| counts[usize::from(number(&datagram(flow, 1))) % shares] += 1);
        assert!(counts.iter().all(|count| *count > 2000 / shares), "{counts:?}");
    }
    for flow in 0..20 {
        assert_eq!(number(&datagram(flow, 1)), number(&datagram(flow, 2)));
        let mut fragment = datagram(flow, 1);
        fragment[20] = 0x20;
        assert_eq!(number(&fragment), 0);
    }
    assert_eq!(number(&frame(3)), 0);
}

/// The worker of a share hangs: the flows of the other share pass meanwhile, in and out, and its
/// own do again when another has its place.
#[test]
fn a_share_that_hangs_holds_up_no_other() {
    let mut scene = Scene::shared(2);
    scene.wait_until(|scene| {
        scene.receive(0);
        scene.cables[0].deliver(1, 1, datagram(1, 0));
        scene.receive(0).iter().any(|received| received.at_ns == 1)
    });
    scene.cables[0].set_hanging(true);
    scene.wait_until(|scene| scene.cables[0].has_hung());
    // The one that hangs never sends its part of these, and has no room for all of them: what its
    // queue does not take is lost once it is known to stand still, and the others' go on.
    let (mut number, mut passed) = (0, 0);
    scene.wait_until(|scene| {
        for _ in 0..BATCH {
            let flow = number % 16;
            let Some(frame) = scene.pool.insert(&datagram(flow, number / 16)) else { break };
            let headers = weir_core::packet::Headers::parse_ethernet(scene.pool.bytes(frame));
            scene.pool.set_flow(frame, spread::flow(&headers));
            match scene.ports[0].send(&mut scene.pool, &[frame]).taken {
                0 => {
                    scene.pool.release(frame);
                    break;
                }
                _ => number += 1,
            }
        }
        scene.receive(0);
        assert_eq!(scene.ports[0].refresh(), crate::port::PortState::Up, "the other share is");
        passed += scene.cables[0].take_sent().len();
        passed > 3 * SENDING_MAX
    });
    scene.cables[0].deliver(1, 100, datagram(1, 1));
    scene.wait_until(|scene| {
        scene.ports[0].refresh();
        scene.receive(0).iter().any(|received| received.at_ns == 100)
    });
    assert!(scene.counters(0).worker_failed > 0, "what it was to send");
    scene.cables[0].set_hanging(false);
    scene.wait_until(|scene| {
        scene.receive(0);
        scene.ports[0].held() <= 2 * SLOTS
    });
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
