//! Proportional delay under random load: the bound of the first class, conservation, the ratios
//! [algorithms §8.5].

use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::random::Random;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Duration, Instant, Quantity, Rate};

/// 10 Mbit/s: a byte takes 0.8 µs.
const BITS: u64 = 10_000_000;
const NS_PER_BYTE: u64 = 800;

/// Instant, class and length.
type Arrivals = Vec<(u64, u32, u32)>;

/// Poisson arrivals of `packets` packets that load the line by `percent`, divided among classes in
/// proportion to `parts` (of packets), with lengths drawn from `lengths`.
fn poisson(seed: u64, percent: f64, parts: &[u32], lengths: &[u32], packets: u32) -> Arrivals {
    let mut random = Random::new(seed, 0);
    let mean = lengths.iter().sum::<u32>() as f64 / lengths.len() as f64;
    let interval = mean * NS_PER_BYTE as f64 * 100.0 / percent;
    let mut now = 0.0;
    let arrival = |_| {
        let even = ((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        now -= even.ln() * interval;
        let mut part = random.below(parts.iter().sum());
        let class = parts.iter().position(|&size| {
            let found = part < size;
            part = part.saturating_sub(size);
            found
        });
        let length = lengths[random.below(lengths.len() as u32) as usize];
        (now as u64, class.expect("a part of the whole") as u32, length)
    };
    (0..packets).map(arrival).collect()
}

/// Returns the departures in order; asserts that no packet is dropped.
fn run(scheduler: &'static str, link: Params, leaves: u32, arrivals: &Arrivals) -> Vec<Departure> {
    let class =
        |index: u32| ClassSpec { name: index.to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(BITS).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1500), link, (0..leaves).map(class).collect());
    let mut plan = LinkPlan::new(scheduler, tree.expect("flat"));
    let limit = Params::new().with("limit", Quantity::Packets(1 << 20));
    plan.queues.fill(QueuePlan { dropper: "tail", params: limit });
    plan.packets_max = 1 << 20;
    let mut link = plan.build().expect("builds");
    let mut out = Vec::new();
    for &(at, class, length) in arrivals {
        let now = Instant::from_nanos(at);
        link.advance(now, &mut out);
        link.offer(now, LeafId(class), Packet::new(Handle(0), length));
    }
    while let Some(next) = link.advance(out.last().expect("something left").finished, &mut out) {
        assert!(next > out.last().expect("something left").at, "time advances");
    }
    assert_eq!(out.len(), arrivals.len(), "nothing is dropped");
    out
}

/// Returns the mean waiting time of each class, in ns.
fn means(departures: &[Departure], leaves: u32) -> Vec<f64> {
    let mean = |leaf: u32| {
        let own = departures.iter().filter(|departure| departure.leaf == LeafId(leaf));
        let (sum, count) = own.fold((0.0, 0.0), |(sum, count), departure| {
            (sum + departure.at.since(departure.arrived).as_nanos() as f64, count + 1.0)
        });
        sum / count
    };
    (0..leaves).map(mean).collect()
}

/// Returns the ratios of the mean waiting times of the classes after the first, at 99 % load.
fn ratios(estimator: &'static str, seed: u64, lengths: &[u32]) -> Vec<f64> {
    let arrivals = poisson(seed, 99.0, &[1, 1, 1, 1], lengths, 1_000_000);
    let mut params = Params::new();
    params.set("estimator", Value::Choice(estimator));
    // Without the first class, which must wait for about one packet in any case.
    let means = means(&run("hpd", params, 4, &arrivals), 4);
    let ratios = means[1..].windows(2).map(|pair| pair[1] / pair[0]).collect();
    println!("{estimator}, seed {seed}: {means:.0?} ns, ratios {ratios:.3?}");
    ratios
}

#[test]
fn under_heavy_load_delays_keep_their_ratios() {
    for (estimator, seed, lengths) in [
        ("ewma", 1, &[1000][..]),
        ("ewma", 2, &[64, 576, 1500]),
        ("ewma", 3, &[1000]),
        ("pe", 1, &[1000]),
    ] {
        for ratio in ratios(estimator, seed, lengths) {
            assert!((3.6..=4.4).contains(&ratio), "{estimator}, seed {seed}: {ratio}");
        }
    }
}

#[test]
fn averages_that_start_anew_keep_the_order_but_not_the_ratios() {
    let ratios = ratios("restart", 1, &[1000]);
    assert!(ratios.iter().all(|&ratio| ratio > 1.0), "{ratios:?}");
    assert!(ratios[0] < 3.0, "{ratios:?}: the header says that it does not");
}

#[test]
fn weighted_waiting_times_are_conserved() {
    // The sum of length times waiting time is equal for every work-conserving order, up to the
    // rounding of instants to nanoseconds.
    let work = |departures: &[Departure]| -> u128 {
        let one = |departure: &Departure| {
            let waited = departure.at.since(departure.arrived).as_nanos();
            u128::from(waited) * u128::from(departure.charged.get())
        };
        departures.iter().map(one).sum()
    };
    for (seed, percent) in [(1, 50.0), (2, 80.0), (3, 95.0), (4, 120.0)] {
        let lengths = [64, 200, 576, 1500];
        let arrivals = poisson(seed, percent, &[1, 2, 4, 3], &lengths, 100_000);
        let bytes: u128 = arrivals.iter().map(|arrival| u128::from(arrival.2)).sum();
        let plain = work(&run("fifo", Params::new(), 4, &arrivals));
        for scheduler in ["hpd", "dbhpd"] {
            let own = work(&run(scheduler, Params::new(), 4, &arrivals));
            println!("{scheduler} {percent} %: {own} against {plain}");
            assert!(own.abs_diff(plain) <= bytes * 2, "{scheduler} {percent} %: {own} {plain}");
        }
    }
}

/// With `d_max` and `t_safe` (ms) no packet of another class leaves while one of the first is
/// overdue; so it starts within the bound, plus one packet and its own class's earlier overdue
/// packets.
fn check_bound(d_max: u64, t_safe: u64, percent: f64, parts: &[u32]) {
    let millis = |millis| Quantity::Duration(Duration::from_millis(millis));
    let params = Params::new().with("d_max", millis(d_max)).with("t_safe", millis(t_safe));
    let lengths = [64, 576, 1500];
    let arrivals = poisson(7, percent, parts, &lengths, 100_000);
    let departures = run("dbhpd", params, parts.len() as u32, &arrivals);
    let bound = (d_max - t_safe) * 1_000_000;
    let (mut by_rule_1, mut worst) = (0, 0);
    let mut first: Vec<&Departure> = Vec::new();
    for departure in departures.iter().filter(|departure| departure.leaf == LeafId(0)) {
        first.push(departure);
    }
    let mut next = 0;
    for departure in &departures {
        if departure.leaf != LeafId(0) {
            let waiting = first.get(next).filter(|head| head.arrived <= departure.at);
            let overdue =
                waiting.is_some_and(|head| departure.at.since(head.arrived).as_nanos() > bound);
            assert!(!overdue, "{departure:?} leaves before an overdue packet");
            continue;
        }
        let waited = departure.at.since(departure.arrived).as_nanos();
        worst = worst.max(waited);
        // Packets of its class that were overdue earlier and had not started then.
        let due = departure.arrived.as_nanos() + bound;
        let ahead = first[..next].iter().rev().take_while(|own| own.at.as_nanos() > due);
        let ahead: u64 = ahead.map(|own| own.charged.get() * NS_PER_BYTE).sum();
        let longest = 1500 * NS_PER_BYTE;
        assert!(waited <= bound + longest + ahead + 1, "{departure:?} is late");
        by_rule_1 += u64::from(waited > bound);
        next += 1;
    }
    println!("d_max {d_max} t_safe {t_safe} {percent} %: {by_rule_1} overdue, worst {worst} ns");
    assert!(by_rule_1 > 100, "only {by_rule_1} packets tried the bound");
}

#[test]
fn the_first_class_starts_within_its_bound() {
    check_bound(5, 0, 98.0, &[1, 2, 4, 3]);
    check_bound(5, 2, 98.0, &[1, 2, 4, 3]);
    // Overload, and a first class that is most of it: its own packets are ahead.
    check_bound(5, 1, 110.0, &[1, 2, 4, 3]);
    check_bound(20, 0, 105.0, &[9, 1]);
}
