//! Packets that grew old in a stall are dropped: by every scheduler, the old ones and no others.

use crate::common;

use common::seeds::seeds;
use common::{Random, random_plan, random_tree};
use weir_core::event::DropReason;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::sched::SCHEDULERS;
use weir_core::units::{Duration, Instant};

#[test]
fn what_is_older_than_its_leaf_allows_is_dropped_and_the_rest_leaves() {
    for entry in SCHEDULERS {
        let mut stale = 0;
        for seed in seeds(200) {
            println!("{}, seed {seed}", entry.descriptor.keyword);
            let mut random = Random::new(seed);
            let tree = random_tree(&mut random, entry.descriptor);
            let plan = random_plan(&mut random, entry.descriptor, tree);
            if plan.build().is_ok() {
                stale += check(&plan, &mut random);
            }
        }
        assert!(stale > 100, "{}: only {stale} were old", entry.descriptor.keyword);
    }
}

/// Offers packets for 60 ms, stalls until 100 ms, and allows an age of 50 to 90 ms by leaf; returns
/// how many were dropped for their age.
fn check(plan: &LinkPlan, random: &mut Random) -> u64 {
    let mut link = plan.build().expect("it built before");
    let leaves = plan.tree.leaf_count() as u32;
    let millis = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let age = |leaf: LeafId| Duration::from_millis(50 + u64::from(leaf.0) % 5 * 10);
    let mut out = Vec::new();
    for handle in 0..120u32 {
        let leaf = LeafId(random.between(0, u64::from(leaves) - 1) as u32);
        let now = millis(u64::from(handle) / 2);
        link.advance(now, &mut out);
        link.offer(now, leaf, Packet::new(Handle(handle), 700));
    }
    let (now, mut stale, mut dropped) = (millis(100), 0, 0);
    link.take_dropped(&mut |_| dropped += 1);
    link.forfeit_before(now);
    link.drop_older(&|leaf| now.before(age(leaf)));
    link.take_dropped(&mut |packet| {
        assert_eq!(packet.reason, DropReason::Stale);
        assert!(now.since(packet.arrived) > age(packet.leaf), "{packet:?} was not old");
        stale += 1;
    });
    let mut late = Vec::new();
    let mut next = Some(now);
    for _ in 0..10_000 {
        let Some(at) = next else { break };
        next = link.advance(at, &mut late);
    }
    link.take_dropped(&mut |_| dropped += 1);
    assert_eq!(out.len() + late.len() + link.backlog() as usize + dropped + stale as usize, 120);
    assert!(link.account().leaves().iter().all(|leaf| leaf.is_conserved()));
    // Flow queues hand out packets of several flows: there the first is not always the oldest.
    let is_old =
        |packet: &&weir_core::event::Departure| now.since(packet.arrived) > age(packet.leaf);
    let in_order = plan.queues.iter().all(|queue| queue.places_of_flows().0 == 0);
    assert!(!in_order || late.iter().find(is_old).is_none(), "an old packet left: {late:?}");
    stale
}
