//! Rates that change while a link runs: shares stay, time scales, and the rate of the plan changes
//! nothing.

use crate::common;

use common::{Random, random_length, random_plan, random_rate, random_tree};
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Entry, SCHEDULERS, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Duration, Instant, Quantity, Rate};

const MBIT: u64 = 1_000_000;

fn rate(bits: u64) -> Rate {
    Rate::new(bits).expect("not zero")
}

/// Plans that build, one for each scheduler and seed.
fn plans(seeds: u64) -> impl Iterator<Item = (&'static Entry, LinkPlan, Random)> {
    let all = SCHEDULERS.iter().flat_map(move |entry| (0..seeds).map(move |seed| (entry, seed)));
    all.filter_map(|(entry, seed)| {
        let mut random = Random::new(seed);
        let tree = random_tree(&mut random, entry.descriptor);
        let plan = random_plan(&mut random, entry.descriptor, tree);
        plan.build().is_ok().then_some((entry, plan, random))
    })
}

fn gap(plan: &LinkPlan) -> u64 {
    plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 40)
}

#[test]
fn the_rate_that_a_link_has_changes_nothing_to_the_bit() {
    for (entry, plan, mut random) in plans(40) {
        let [mut plain, mut set] = [(); 2].map(|()| plan.build().expect("it builds"));
        let mut now = Instant::ZERO;
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for handle in 0..200 {
            now = now.after(Duration::from_nanos(random.wide(1, 2 * gap(&plan))));
            if random.one_in(3) {
                set.set_rate(now, plan.tree.rate());
            }
            let leaf = LeafId(random.between(0, plan.tree.leaf_count() as u64 - 1) as u32);
            let packet = Packet::new(Handle(handle), random_length(&mut random));
            plain.advance(now, &mut one);
            set.advance(now, &mut two);
            assert_eq!(plain.offer(now, leaf, packet), set.offer(now, leaf, packet));
        }
        assert_eq!(one, two, "{}", entry.descriptor.keyword);
    }
}

#[test]
fn whatever_rates_are_set_no_packet_is_lost_and_order_is_kept() {
    for (entry, plan, mut random) in plans(40) {
        let keyword = entry.descriptor.keyword;
        let mut link = plan.build().expect("it builds");
        let (mut now, mut out) = (Instant::ZERO, Vec::new());
        for handle in 0..300 {
            now = now.after(Duration::from_nanos(random.wide(1, 2 * gap(&plan))));
            link.advance(now, &mut out);
            if random.one_in(4) {
                let before = link.account();
                let rate = random_rate(&mut random, &plan);
                link.set_rate(now, rate);
                assert_eq!(link.rate(), rate);
                assert_eq!(link.account().leaves(), before.leaves(), "{keyword}: none is lost");
            }
            let leaf = LeafId(random.between(0, plan.tree.leaf_count() as u64 - 1) as u32);
            link.offer(now, leaf, Packet::new(Handle(handle), random_length(&mut random)));
        }
        let in_order =
            |pair: &[Departure]| pair[0].at <= pair[1].at && pair[0].finished <= pair[1].finished;
        assert!(out.windows(2).all(in_order), "{keyword}: time never goes back");
        let account = link.account();
        assert!(account.leaves().iter().all(|leaf| leaf.is_conserved()), "{keyword}");
    }
}

/// Two leaves, `a` promised 30 % and `b` 70 %, each up to the whole line.
fn two_leaves(scheduler: &'static str, line: u64) -> LinkPlan {
    let class = |(name, share): (&str, u64)| {
        let own = Quantity::Rate(rate(line / 100 * share));
        let params = match scheduler {
            "htb" => Params::new().with("rate", own).with("ceil", Quantity::Rate(rate(line))),
            _ => Params::new().with("weight", Quantity::Number(share)),
        };
        ClassSpec { name: name.into(), parent: None, params }
    };
    let classes = [("a", 30), ("b", 70)].map(class).into();
    let tree = Tree::new(rate(line), Bytes::new(1000), Params::new(), classes);
    LinkPlan::new(scheduler, tree.expect("a tree"))
}

/// Keeps both leaves backlogged until `until`; returns the bytes of each that left after `from`.
fn saturated(link: &mut dyn AnyLink, from: Instant, until: Instant) -> [u64; 2] {
    let (mut bytes, mut out, mut now) = ([0; 2], Vec::new(), from);
    while now < until {
        for leaf in [0, 1] {
            link.offer(now, LeafId(leaf), Packet::new(Handle(0), 1000));
        }
        now = now.after(Duration::from_micros(100)).min(until);
        link.advance(now, &mut out);
        for departure in out.drain(..) {
            bytes[departure.leaf.index()] += departure.charged.get();
        }
    }
    bytes
}

#[test]
fn shares_stay_and_the_line_is_used_at_every_rate() {
    for scheduler in ["htb", "wf2q+", "wfq"] {
        let plan = two_leaves(scheduler, 40 * MBIT);
        let mut link = plan.build().expect("it builds");
        let mut now = Instant::ZERO;
        saturated(&mut *link, now, now.after(Duration::from_millis(200)));
        for mbit in [40, 10, 75, 3, 40] {
            now = link_time(now);
            link.set_rate(now, rate(mbit * MBIT));
            let until = now.after(Duration::from_secs(1));
            let [a, b] = saturated(&mut *link, now, until);
            now = until;
            let whole = mbit * MBIT / 8;
            assert!((a + b).abs_diff(whole) <= 2_000, "{scheduler} {mbit}: {} of {whole}", a + b);
            let share = a * 100 / (a + b);
            assert!((29..=31).contains(&share), "{scheduler} {mbit}: a has {share} %");
        }
    }
}

/// The first call after the warm-up is at 200 ms.
fn link_time(now: Instant) -> Instant {
    now.max(Instant::from_nanos(200_000_000))
}

#[test]
fn at_twice_the_rate_a_schedule_takes_half_the_time() {
    // Rates of which every pace is a whole number of its units.
    for scheduler in ["htb", "wf2q+", "drr", "fifo", "wfq", "qfq"] {
        let run = |speed: u64| {
            let plan = two_leaves(scheduler, 8 * MBIT);
            let mut link = plan.build().expect("it builds");
            link.set_rate(Instant::ZERO, rate(8 * MBIT * speed));
            let mut random = Random::new(7);
            let (mut now, mut out) = (0, Vec::new());
            for handle in 0..500 {
                now += random.between(0, 1_000) * 2_000;
                let at = Instant::from_nanos(now / speed);
                link.advance(at, &mut out);
                let (leaf, length) = (random.between(0, 1) as u32, random.between(60, 1000));
                link.offer(at, LeafId(leaf), Packet::new(Handle(handle), length as u32));
            }
            out
        };
        let (slow, fast) = (run(1), run(2));
        assert!(slow.len() > 300);
        for (slow, fast) in slow.iter().zip(&fast) {
            assert_eq!(slow.handle, fast.handle, "{scheduler}");
            let halved = slow.at.as_nanos() / 2;
            assert!(fast.at.as_nanos().abs_diff(halved) <= 2, "{scheduler} {slow:?} {fast:?}");
        }
    }
}

#[test]
fn a_packet_on_the_line_is_sent_when_it_said_and_the_next_at_the_new_rate() {
    let mut link = two_leaves("drr", 8 * MBIT).build().expect("it builds");
    for handle in 0..3 {
        link.offer(Instant::ZERO, LeafId(0), Packet::new(Handle(handle), 1000));
    }
    let mut out = Vec::new();
    link.advance(Instant::ZERO, &mut out);
    link.set_rate(Instant::from_nanos(500_000), rate(80 * MBIT));
    link.advance(Instant::from_nanos(10_000_000), &mut out);
    let micros = |departure: &Departure| {
        (departure.at.as_nanos() / 1000, departure.finished.as_nanos() / 1000)
    };
    let rows: Vec<_> = out.iter().map(micros).collect();
    assert_eq!(rows, [(0, 1000), (1000, 1100), (1100, 1200)]);
}

/// Packets in bursts at twice the rate of the plan, each burst after a pause.
fn bursts(plan: &LinkPlan, random: &mut Random) -> Vec<Arrival> {
    let mut now = Instant::from_nanos(1);
    let packets = (0..300).map(|handle| {
        let pause = if handle % 20 == 0 { 20 * gap(plan) } else { gap(plan) / 2 };
        now = now.after(Duration::from_nanos(pause));
        let leaf = LeafId(random.between(0, plan.tree.leaf_count() as u64 - 1) as u32);
        Arrival { at: now, leaf, packet: Packet::new(Handle(handle), 1000) }
    });
    packets.collect()
}

#[test]
fn a_link_that_follows_arrivals_does_so_however_it_is_called_and_wherever_it_goes_on() {
    let mut followed = 0;
    for (entry, plan, mut random) in plans(6) {
        let plan = LinkPlan { follows_arrivals: true, ..plan };
        let arrivals = bursts(&plan, &mut random);
        let [mut whole, mut single, mut begun] = [(); 3].map(|()| plan.build().expect("it builds"));
        let (mut one, mut two, mut three) = (Vec::new(), Vec::new(), Vec::new());
        let end = arrivals.last().expect("there are some").at;
        whole.serve(&arrivals, end, &mut one);
        for arrival in &arrivals {
            single.advance(arrival.at, &mut two);
            single.offer(arrival.at, arrival.leaf, arrival.packet);
        }
        single.advance(end, &mut two);
        let (first, second) = arrivals.split_at(150);
        begun.serve(first, first[149].at, &mut three);
        let mut state = Writer::new();
        begun.save(&mut state);
        let state = state.into_bytes();
        let mut later = plan.build().expect("it builds");
        later.load(&mut Reader::new(&state)).expect("it is its own state");
        later.serve(second, end, &mut three);
        let keyword = entry.descriptor.keyword;
        assert_eq!((&one, whole.rate()), (&two, single.rate()), "{keyword}");
        assert_eq!((&one, whole.rate()), (&three, later.rate()), "{keyword}");
        followed += u32::from(whole.rate() != plan.tree.rate());
    }
    assert!(followed > 20, "{followed} links had another rate at the end");
}
