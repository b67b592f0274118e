//! A single leaf around a dropper, for the droppers' tests: slow and obvious.

use super::{
    Admission, AnyDropper, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN_MASK,
    Place, QueuePlan, Release,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::ids::LeafId;
use crate::parameter::{Kind, Params, Value};
use crate::random::Random;
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::string::String;
use alloc::vec::Vec;

/// A leaf with a dropper under test.
pub(super) struct Trial<D> {
    pub dropper: D,
    pub waiting: Vec<Candidate>,
    /// Drops, with their instants.
    pub dropped: Vec<(Instant, DropReason)>,
    /// Packets that were marked.
    pub marked: usize,
    pub now: Instant,
    /// The flow of packets that are offered.
    pub flow: u16,
}

impl<D: DropperDiscipline> Trial<D> {
    /// A leaf of a line of 10 Mbit/s.
    pub(super) fn new(params: &Params) -> Self {
        let dropper = D::build(params, PLACE).expect("the parameters are valid together");
        let (waiting, dropped) = (Vec::new(), Vec::new());
        Self { dropper, waiting, dropped, marked: 0, now: Instant::ZERO, flow: 1 }
    }
}

impl<D: DropperDiscipline> Trial<D> {
    /// Returns why the dropper cannot be built.
    pub(super) fn refusal(params: &Params) -> String {
        D::build(params, PLACE).err().map(|error| error.message).unwrap_or_default()
    }
}

impl<D: Dropper> Trial<D> {
    fn backlog(&self) -> Count {
        let bytes = self.waiting.iter().map(|packet| packet.length.get()).sum();
        Count { packets: self.waiting.len() as u64, bytes }
    }

    /// Advances `now`.
    pub(super) fn pause(&mut self, micros: u64) {
        self.now = self.now.after(Duration::from_micros(micros));
    }

    /// Offers a packet; returns whether it was queued.
    pub(super) fn offer(&mut self, length: u64, traffic_class: u8) -> bool {
        let arrived = self.now;
        let flow = self.flow;
        let mut packet = Candidate { length: Bytes::new(length), arrived, traffic_class, flow };
        let mut evicted = false;
        let mut admission = self.dropper.admit(self.now, packet, self.backlog());
        for _ in 0..=self.waiting.len() {
            if let Admission::Compare(position, reason) = admission {
                if self.waiting[position as usize].flow == flow {
                    self.waiting.remove(position as usize);
                    self.dropped.extend([(self.now, reason); 2]);
                    return false;
                }
                admission = self.dropper.admit_unlike(self.now, packet, self.backlog());
            }
            match admission {
                Admission::Accept => {}
                Admission::Mark => {
                    assert!(packet.is_markable(), "only markable packets are marked");
                    packet.traffic_class |= ECN_MASK;
                    self.marked += 1;
                }
                Admission::Refuse(reason) => {
                    assert!(!evicted, "a dropper that made room admits");
                    self.dropped.push((self.now, reason));
                    return false;
                }
                Admission::Evict(position, reason) => {
                    self.waiting.remove(position as usize);
                    self.dropped.push((self.now, reason));
                    evicted = true;
                    admission = self.dropper.admit(self.now, packet, self.backlog());
                    continue;
                }
                Admission::Compare(..) => panic!("a packet is compared once"),
            }
            self.waiting.push(packet);
            return true;
        }
        panic!("the dropper evicts without end");
    }

    /// Sends the first packet that is not dropped; returns how long it waited, or nothing.
    pub(super) fn serve(&mut self) -> Option<Duration> {
        while let Some(&first) = self.waiting.first() {
            let release = self.dropper.release(self.now, first, self.backlog());
            self.waiting.remove(0);
            if self.waiting.is_empty() {
                self.dropper.emptied(self.now);
            }
            match release {
                Release::Drop(reason) => {
                    self.dropped.push((self.now, reason));
                    continue;
                }
                Release::Mark => {
                    assert!(first.is_markable(), "only markable packets are marked");
                    self.marked += 1;
                }
                Release::Send => {}
            }
            return Some(self.now.since(first.arrived));
        }
        None
    }
}

/// Makes parameters from numbers and flags.
pub(super) fn params(numbers: &[(&'static str, &str)], flags: &[(&'static str, bool)]) -> Params {
    let mut params = Params::new();
    for &(name, text) in numbers {
        params.set(name, Value::Quantity(text.parse().expect("rows hold quantities")));
    }
    for &(name, flag) in flags {
        params.set(name, Value::Flag(flag));
    }
    params
}

#[test]
fn every_dropper_obeys_its_limit_and_is_deterministic() {
    // A shared limit binds all members together: see `shared.rs`. That of flow queues: see
    // `flows.rs`.
    let own = |row: &&DropperDescriptor| {
        row.parameters.iter().all(|row| row.name != "limit" || row.kind == Kind::Limit)
    };
    let alone = |row: &&DropperDescriptor| {
        let plan = QueuePlan { dropper: row.keyword, params: Params::new() };
        AnyDropper::build(&plan, PLACE).expect("defaults are valid").flows().is_none()
    };
    for descriptor in super::DROPPERS.iter().filter(own).filter(alone) {
        for (limit, seed) in [("15 packets", 1), ("40 packets", 2), ("1000 B", 3), ("40 KB", 4)] {
            let plan =
                QueuePlan { dropper: descriptor.keyword, params: params(&[("limit", limit)], &[]) };
            let (first, again) = (loaded(&plan, seed), loaded(&plan, seed));
            assert_eq!(first, again, "{}: same calls, same decisions", descriptor.keyword);
        }
    }
}

/// Offers four packets for each three that leave; returns the drops.
fn loaded(plan: &QueuePlan, seed: u64) -> Vec<(Instant, DropReason)> {
    let mut random = Random::new(seed, 0);
    let dropper = AnyDropper::build(plan, PLACE).expect("a limit alone is enough");
    let (waiting, dropped) = (Vec::new(), Vec::new());
    let mut trial = Trial { dropper, waiting, dropped, marked: 0, now: Instant::ZERO, flow: 1 };
    for _ in 0..3000 {
        trial.pause(u64::from(random.below(1500)));
        trial.flow = 1 + random.below(4) as u16;
        trial.offer(u64::from(random.below(1600)), random.below(256) as u8);
        let backlog = trial.backlog();
        let length = Bytes::new(1);
        let one_less = Count {
            packets: backlog.packets.saturating_sub(1),
            bytes: backlog.bytes.saturating_sub(1),
        };
        assert!(plan.limit().fits(length, one_less), "{}: {backlog:?}", plan.dropper);
        if random.below(4) < 3 {
            trial.serve();
        }
    }
    trial.dropped
}

const PLACE: Place = Place {
    leaf: LeafId(0),
    rate: match Rate::new(10_000_000) {
        Some(rate) => rate,
        None => panic!("not zero"),
    },
    mtu: Bytes::new(1514),
    seed: 1,
};
