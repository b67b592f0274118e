//! A running link that is changed a thousand times under load loses no packet and keeps their
//! order.

use crate::common;

use common::{Random, plan_with_places, random_graft, random_length, random_rate};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::change::Change;
use weir_core::event::{DropReason, Verdict};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::queue::{Limit, QueuePlan};
use weir_core::sched::{Entry, SCHEDULERS};
use weir_core::units::{Bytes, Duration, Instant};

/// Changes in one run, and grafts, which come before each.
const CHANGES: u32 = 1_000;
/// Grafts before a change, at most.
const GRAFTS: u64 = 4;
/// Offers between two changes.
const OFFERS: u32 = 12;

/// A link under load, and everything that happened to its packets.
struct Load {
    random: Random,
    plan: LinkPlan,
    link: Box<dyn AnyLink>,
    now: Instant,
    /// The class that each packet was offered to.
    offered: Vec<String>,
    waiting: BTreeSet<Handle>,
    /// The last packet that left, by the class it was offered to and the class it left from.
    last: BTreeMap<(String, String), Handle>,
    left: u64,
    dropped: u64,
    explained: u64,
    changes: u32,
    grafts: u32,
    grafted: u32,
}

impl Load {
    fn new(entry: &Entry, seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let plan = plan_with_places(&mut random, entry.descriptor);
        let mut link = plan.build().ok()?;
        link.explain(Instant::ZERO, true);
        Some(Self {
            random,
            plan,
            link,
            now: Instant::ZERO,
            offered: Vec::new(),
            waiting: BTreeSet::new(),
            last: BTreeMap::new(),
            left: 0,
            dropped: 0,
            explained: 0,
            changes: 0,
            grafts: 0,
            grafted: 0,
        })
    }

    fn class(&self, leaf: LeafId) -> String {
        self.plan.tree.class(self.plan.tree.class_of(leaf)).name.clone()
    }

    fn offer(&mut self) {
        let leaf = LeafId(self.random.between(0, self.plan.tree.leaf_count() as u64 - 1) as u32);
        if self.plan.tree.is_vacant(leaf) {
            return;
        }
        let handle = Handle(self.offered.len() as u32);
        self.offered.push(self.class(leaf));
        let packet = Packet::new(handle, random_length(&mut self.random));
        self.waiting.insert(handle);
        let verdict = self.link.offer(self.now, leaf, packet);
        let dropped = self.take_dropped(DropReason::Reconfigured, false);
        assert_eq!(verdict == Verdict::Queued, !dropped.contains(&handle));
    }

    /// Checks drops, which have this reason only if `expected`; returns their packets.
    fn take_dropped(&mut self, reason: DropReason, expected: bool) -> Vec<Handle> {
        let mut handles = Vec::new();
        self.link.take_dropped(&mut |dropped| {
            assert_eq!(dropped.reason == reason, expected, "dropped for the right reason");
            handles.push(dropped.handle);
        });
        for handle in &handles {
            assert!(self.waiting.remove(handle), "only a waiting packet is dropped, and once");
        }
        self.dropped += handles.len() as u64;
        handles
    }

    /// Advances time and checks departures.
    fn advance(&mut self) {
        let gap = self.plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos();
        let gap = gap.clamp(1, 1 << 40);
        self.now = self.now.after(Duration::from_nanos(self.random.wide(1, 4 * gap)));
        if self.random.one_in(8) {
            let rate = random_rate(&mut self.random, &self.plan);
            self.link.set_rate(self.now, rate);
        }
        let mut departures = Vec::new();
        self.link.advance(self.now, &mut departures);
        for departure in departures {
            assert!(
                self.waiting.remove(&departure.handle),
                "only a waiting packet leaves, and once"
            );
            let from = self.offered[departure.handle.0 as usize].clone();
            let last = self.last.insert((from, self.class(departure.leaf)), departure.handle);
            assert!(last < Some(departure.handle), "order inside a leaf");
            self.left += 1;
        }
        self.take_dropped(DropReason::Reconfigured, false);
    }

    /// Changes the link to a random plan, possibly of another scheduler.
    fn change(&mut self) {
        let entry = &SCHEDULERS[self.random.between(0, SCHEDULERS.len() as u64 - 1) as usize];
        let to = plan_with_places(&mut self.random, entry.descriptor);
        let heir = LeafId(self.random.between(0, to.tree.leaf_count() as u64 - 1) as u32);
        let before = self.link.account();
        let change = Change { from: &self.plan, to: &to, heir };
        if change.apply(&mut self.link, self.now).is_err() {
            assert_eq!(
                self.link.account().leaves(),
                before.leaves(),
                "a refused change has no effect"
            );
            return;
        }
        self.plan = to;
        self.changes += 1;
        self.last.clear();
        self.check_lost();
    }

    /// Adds, retunes or removes a leaf.
    fn graft(&mut self) {
        self.grafts += 1;
        let graft = random_graft(&mut self.random, &self.plan, format!("grafted{}", self.grafts));
        let before = (self.plan.clone(), self.link.backlog());
        if graft.apply(&mut self.plan, &mut *self.link, self.now).is_err() {
            self.take_dropped(DropReason::Reconfigured, false);
            assert_eq!((&self.plan, self.link.backlog()), (&before.0, before.1), "no effect");
            return;
        }
        self.grafted += 1;
        self.check_lost();
    }

    /// Checks that a change dropped only packets for which a limit has no room.
    fn check_lost(&mut self) {
        let waited = self.waiting.len();
        let lost = self.take_dropped(DropReason::Reconfigured, true).len();
        let smallest = self.plan.queues.iter().map(QueuePlan::limit);
        let room = smallest.fold(u64::from(self.plan.packets_max), |room, limit| match limit {
            Limit::Packets(packets) => room.min(u64::from(packets)),
            Limit::Bytes(bytes) => room.min(bytes.get() / 65_535),
        });
        assert!(
            lost == 0 || waited as u64 > room,
            "packets are lost only where a limit requires it"
        );
    }

    /// Checks that offered = sent + dropped + backlog, by the link's account and by the test's.
    fn check(&mut self) {
        let account = self.link.account();
        let all = account.leaves().iter().chain([account.retired()]);
        let sums = all.fold([0; 3], |[sent, dropped, backlog], leaf| {
            assert!(leaf.is_conserved());
            let dropped = dropped + leaf.dropped_total().packets;
            [sent + leaf.sent.packets, dropped, backlog + leaf.backlog.packets]
        });
        assert_eq!(sums, [self.left, self.dropped, self.waiting.len() as u64]);
        assert_eq!(self.link.backlog() as usize, self.waiting.len());
        let mut sojourns = 0;
        self.link.take_sojourns(&mut |all| sojourns = all.len() as u64);
        self.explained += sojourns;
        assert_eq!(self.explained, self.left + self.dropped, "each has a reason, once");
    }
}

/// Changes a link of this scheduler as often, and checks after each.
fn run(index: usize, entry: &Entry, changes: u32) {
    let mut loads = (index as u64 * 100..).filter_map(|seed| Load::new(entry, seed));
    let mut load = loads.next().expect("some plan builds");
    while load.changes < changes {
        for _ in 0..OFFERS {
            load.offer();
            load.advance();
        }
        for _ in 0..load.random.between(0, GRAFTS) {
            load.graft();
            load.offer();
            load.check();
        }
        load.change();
        load.check();
    }
    assert!(load.grafted > changes / 4, "{} grafts", load.grafted);
}

#[test]
fn a_thousand_changes_under_load_lose_nothing() {
    SCHEDULERS.iter().enumerate().for_each(|(index, entry)| run(index, entry, CHANGES));
}

#[test]
fn ten_thousand_changes_of_one_link_lose_nothing() {
    run(SCHEDULERS.len(), &SCHEDULERS[0], 10 * CHANGES);
}
