//! Values at the ends of their ranges: no scheduler panics, divides by zero or loops without end.
//!
//! The fuzz target `scheduler` tests parameters at the ends of their ranges; the policy's reader
//! refuses those beyond (`weir-policy/tests/ranges.rs`).

use crate::common;

use common::{Random, random_plan, random_tree};
use weir_core::event::Poll;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::sched::{SCHEDULERS, Tree};
use weir_core::units::{Bytes, Duration, Instant, Rate};

/// Random trees for each row and scheduler.
const TREES: u64 = 40;
/// Polls after each jump: more than the packets that wait.
const POLLS: usize = 300;

struct Row {
    rate: u64,
    lengths: &'static [u32],
    /// `None` for the bound of random plans.
    packets_max: Option<u32>,
    /// How far the clock jumps, after all packets are offered, repeatedly.
    jump: Duration,
}

const YEAR: Duration = Duration::from_secs(366 * 86_400);
const SLOWEST: u64 = 1;
const FASTEST: u64 = 400_000_000_000;
const USUAL: u64 = 10_000_000;

#[test]
fn extreme_rates_lengths_bounds_and_clocks_are_served() {
    let row = |rate, lengths, packets_max, jump| Row { rate, lengths, packets_max, jump };
    let second = Duration::from_secs(1);
    check(row(SLOWEST, &[0, 1, 65_535], None, YEAR));
    check(row(SLOWEST, &[1_514], None, second));
    check(row(FASTEST, &[0, 1, 65_535], None, Duration::from_nanos(1)));
    check(row(FASTEST, &[65_535], None, YEAR));
    check(row(USUAL, &[0], None, second));
    check(row(USUAL, &[65_535], None, second));
    check(row(USUAL, &[0, 1_514, 65_535], Some(0), second));
    check(row(USUAL, &[0, 1_514, 65_535], Some(1), second));
    check(row(USUAL, &[0, 1_514, 65_535], None, Duration::from_nanos(u64::MAX)));
}

/// A frame longer than any port offers. Counts of bytes grow by 4 GiB a packet; 2^63 takes two
/// thousand million of these, so they cannot overflow in a test or in a century.
#[test]
fn a_frame_of_four_gigabytes_overflows_nothing() {
    let jump = Duration::from_secs(3600);
    check(Row { rate: FASTEST, lengths: &[u32::MAX], packets_max: Some(4), jump });
}

fn check(row: Row) {
    for entry in SCHEDULERS {
        let plans = (0..TREES).filter_map(|seed| {
            let mut random = Random::new(seed);
            let drawn = random_tree(&mut random, entry.descriptor);
            let classes = drawn.classes().map(|(_, class)| class.clone()).collect();
            let rate = Rate::new(row.rate).expect("rows hold no zero");
            let params = drawn.params().clone();
            let tree = Tree::new(rate, Bytes::new(65_549), params, classes).expect("as drawn");
            let mut plan = random_plan(&mut random, entry.descriptor, tree);
            plan.packets_max = row.packets_max.unwrap_or(plan.packets_max);
            plan.build().is_ok().then_some(plan)
        });
        let built = plans.inspect(|plan| play(plan, &row)).count();
        // At the slowest rate a refusal is acceptable too.
        let enough = built as u64 > TREES / 8 || row.rate == SLOWEST;
        assert!(enough, "{} refuses most plans: {built} built", entry.descriptor.keyword);
    }
}

/// Fills the leaves and polls after every jump; then once more at ten times the pause.
fn play(plan: &LinkPlan, row: &Row) {
    let mut link = plan.build().expect("it built before");
    let mut now = Instant::ZERO;
    let mut offered = 0;
    for _ in 0..2 {
        for (index, leaf) in (0..plan.tree.leaf_count() as u32).cycle().take(40).enumerate() {
            let length = row.lengths[index % row.lengths.len()];
            link.offer(now, LeafId(leaf), Packet::new(Handle(offered), length));
            offered += 1;
        }
        for _ in 0..4 {
            poll(&mut *link, plan, now);
            now = now.after(row.jump);
        }
    }
    let account = link.account();
    let sum: u64 = account.leaves().iter().map(|leaf| leaf.offered.packets).sum();
    assert_eq!(sum, u64::from(offered), "every packet is counted");
}

fn poll(link: &mut dyn AnyLink, plan: &LinkPlan, now: Instant) {
    for _ in 0..POLLS {
        match link.poll(now) {
            Poll::Packet(departure) => assert!(departure.at == now && departure.arrived <= now),
            Poll::At(instant) => {
                assert!(instant > now || now == Instant::MAX, "`At` is in the future");
                return;
            }
            Poll::Idle => {
                assert_eq!(link.backlog(), 0, "a link with a backlog is not idle");
                break;
            }
        }
    }
    let account = link.account();
    assert!(account.leaves().iter().all(|leaf| leaf.is_conserved()));
    assert!(link.backlog() <= plan.packets_max, "no more packets wait than the limit");
}
