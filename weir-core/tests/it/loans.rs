//! The loans that a link reports are those of its packets, one by one.

use crate::common;

use common::seeds::seeds;
use common::{Random, random_tree};
use std::collections::BTreeMap;
use weir_core::event::Poll;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::sched::{Borrowed, SCHEDULERS, Tree};
use weir_core::units::{Bytes, Duration, Instant};

/// Sends packets of random leaves, and returns what left with its charged length, and what the
/// explainer says was lent, by leaf and depth.
fn drive(link: &mut dyn AnyLink, tree: &Tree, random: &mut Random) -> Vec<Borrowed> {
    let leaves = tree.leaf_count();
    let mut lent = vec![Borrowed::default(); leaves];
    let mut charged: BTreeMap<u32, u64> = BTreeMap::new();
    let packet_time = tree.rate().transmit_time(Bytes::new(1000)).as_nanos().clamp(1, 1 << 50);
    let mut now = Instant::ZERO;
    for handle in 0..PACKETS {
        // About what the line takes, so that some leaves wait and others do not.
        now = now.after(Duration::from_nanos(random.between(0, 2 * packet_time)));
        let leaf = LeafId(random.between(0, leaves as u64 - 1) as u32);
        let (length, handle) = (random.between(64, 1500) as u32, Handle(handle));
        let packet = Packet::new(handle, length);
        let _verdict = link.offer(now, leaf, packet);
        while let Poll::Packet(departure) = link.poll(now) {
            charged.insert(departure.handle.0, departure.charged.get());
        }
        link.take_sojourns(&mut |sojourns| {
            for sojourn in sojourns.iter().filter(|sojourn| sojourn.dropped.is_none()) {
                let depth = sojourn.lender.map(|lender| tree.path(lender).count());
                if let Some(depth) = depth {
                    lent[sojourn.leaf.index()][depth] += charged[&sojourn.handle.0];
                }
            }
        });
    }
    lent
}

#[test]
fn what_leaves_borrow_is_what_their_packets_were_lent() {
    for entry in SCHEDULERS {
        let keyword = entry.descriptor.keyword;
        let (mut driven, mut loans) = (0, 0);
        for seed in seeds(SEEDS) {
            let mut random = Random::new(seed);
            let tree = random_tree(&mut random, entry.descriptor);
            let Ok(mut link) = LinkPlan::new(keyword, tree.clone()).build() else { continue };
            link.explain(Instant::ZERO, true);
            let lent = drive(link.as_mut(), &tree, &mut random);
            driven += 1;
            for (leaf, _) in tree.leaves() {
                let told = link.borrowed(leaf);
                // The link has no id, so no packet names it as its lender.
                assert_eq!(told[1..], lent[leaf.index()][1..], "{keyword}, seed {seed}, {leaf:?}");
                let sent = link.leaf_account(leaf).sent.bytes;
                assert!(told.iter().sum::<u64>() <= sent, "{keyword}, seed {seed}: {told:?}");
                loans += u64::from(told.iter().any(|bytes| *bytes > 0));
            }
        }
        let lends = ["htb", "htb-2.6.5", "cbq", "cbq-ref", "cbq-altq"].contains(&keyword);
        assert!(driven > 0, "{keyword}");
        assert_eq!(loans > 0, lends, "{keyword}: {loans} leaves of {driven} links borrowed");
    }
}

const PACKETS: u32 = 400;
const SEEDS: u64 = 100;
