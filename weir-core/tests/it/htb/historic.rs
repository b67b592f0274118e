//! The variant of Linux 2.6.5: worked departures, the table that explains the paper, the formula.

use crate::htb::world::{Leaves, build};
use weir_core::ids::LeafId;
use weir_core::parameter::{Params, Value};
use weir_core::sched::{ClassSpec, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Instant, Quantity, Rate};

const K: u64 = 1000;
const M: u64 = 1_000_000;

/// The kernel and its single class, whose rate equals its ceil and whose buckets are equal.
#[derive(Clone, Copy)]
struct Machine {
    hz: u64,
    hysteresis: bool,
    rate: u64,
    burst: u64,
}

impl Machine {
    fn scheduler(self) -> Box<dyn Scheduler + Send> {
        let mut link = Params::new().with("hz", Quantity::Number(self.hz));
        link.set("hysteresis", Value::Flag(self.hysteresis));
        let burst = Quantity::Bytes(Bytes::new(self.burst));
        let rate = Rate::new(self.rate).expect("not zero");
        let params = Params::new()
            .with("rate", Quantity::Rate(rate))
            .with("burst", burst)
            .with("cburst", burst);
        let class = ClassSpec { name: "all".to_owned(), parent: None, params };
        let line = Rate::new(1000 * M).expect("not zero");
        let tree = Tree::new(line, Bytes::new(1514), link, vec![class]).expect("one class");
        build("htb-2.6.5", &tree)
    }

    /// Returns the instants, in ns, at which an infinitely fast line sends packets of `length`
    /// until `end`. At the start 1000 wait; more arrive `interval` apart, or one for each packet
    /// sent if it is 0.
    fn departures(self, length: u64, interval: u64, end: u64) -> Vec<u64> {
        let (mut scheduler, mut leaves) = (self.scheduler(), Leaves::new(1));
        let (mut now, mut next_arrival, mut sent) = (0, interval, Vec::new());
        let leaf = LeafId(0);
        for _ in 0..1000 {
            let head = leaves.push(leaf, length);
            scheduler.enqueued(Instant::ZERO, leaf, head);
        }
        while now <= end {
            let instant = Instant::from_nanos(now);
            let wake = match scheduler.select(instant) {
                Selection::Leaf(leaf) => {
                    let bytes = Bytes::new(leaves.0[0].pop_front().expect("it waits"));
                    if interval == 0 {
                        leaves.push(leaf, length);
                    }
                    scheduler.charge(instant, leaf, bytes, leaves.head(leaf));
                    sent.push(now);
                    continue;
                }
                Selection::At(at) => at.as_nanos(),
                Selection::Idle => u64::MAX,
            };
            if interval == 0 || wake < next_arrival {
                now = wake;
                continue;
            }
            now = next_arrival;
            next_arrival += interval;
            // The queue holds 1000 packets.
            if leaves.0[0].len() < 1000 {
                let was_empty = leaves.0[0].is_empty();
                let head = leaves.push(leaf, length);
                if was_empty {
                    scheduler.enqueued(Instant::from_nanos(now), leaf, head);
                }
            }
        }
        sent
    }
}

/// Checks the first departures, in ms, of 1000-byte packets that all wait from the start: 1 Mbit/s
/// and 2000 bytes of burst.
fn check_worked(hz: u64, hysteresis: bool, expected: &[u64]) {
    let machine = Machine { hz, hysteresis, rate: M, burst: 2000 };
    let sent = machine.departures(1000, 0, 1_000 * M);
    let real: Vec<f64> = sent[..expected.len()].iter().map(|&at| at as f64 / 1e6).collect();
    let expected: Vec<f64> = expected.iter().map(|&ms| ms as f64).collect();
    assert_eq!(real, expected, "{hz} Hz, hysteresis {hysteresis}");
}

#[test]
fn hysteresis_sends_one_bucket_more_and_then_waits_for_both() {
    // [algorithms §5.8] On a clock whose ticks coincide with the events, and on one of 10 ms.
    for hz in [125, 1000] {
        check_worked(hz, false, &[0, 0, 0, 8, 16, 24, 32]);
        check_worked(hz, true, &[0, 0, 0, 0, 0, 24, 24, 24, 48, 48, 48, 72]);
    }
    // By hand: the scheduler sees 8 ms of debt after 10, 4 ms of debt after 20 and so on: it
    // accumulates 2, 4, 6 and 8 ms, and 8 let a second packet go.
    check_worked(100, false, &[0, 0, 0, 10, 20, 30, 40, 40, 50]);
}

/// Returns Mbit/s by the generator's frame sizes, which include four bytes of check sequence that
/// the kernel does not see, from second 1 to second 4 with both ends: 301 ticks of 10 ms in three
/// seconds.
fn figure(machine: Machine, size: u64, offered: u64) -> f64 {
    let interval = (size * 8 * K).checked_div(offered).unwrap_or(0);
    let sent = machine.departures(size - 4, interval, 4_000 * M);
    let counted = sent.iter().filter(|&&at| at >= 1_000 * M).count();
    counted as f64 * size as f64 * 8.0 / 3e6
}

/// Checks one row of the table of [algorithms §5.9] at 30 Mbit/s: 64-byte frames at 32 Mbit/s, then
/// 512 and 1500 bytes at saturation.
fn check_table(hz: u64, hysteresis: bool, kib: u64, expected: [f64; 3]) {
    let machine = Machine { hz, hysteresis, rate: 30 * M, burst: kib * 1024 };
    let offered = [(64, 32), (512, 0), (1500, 0)];
    for ((size, offered), expected) in offered.into_iter().zip(expected) {
        let real = figure(machine, size, offered);
        println!("{hz} Hz, hysteresis {hysteresis}, {kib} KiB, {size} B: {real:.3}, {expected}");
        assert!((real - expected).abs() <= 0.05, "{hz} Hz {kib} KiB {size} B: {real:.3}");
    }
}

#[test]
fn the_table_that_explains_the_paper_is_reproduced() {
    check_table(100, true, 15, [28.2, 25.1, 25.3]);
    check_table(100, true, 18, [32.0, 30.4, 30.1]);
    check_table(100, false, 15, [14.1, 12.7, 13.2]);
    for (hysteresis, kib) in [(false, 15), (false, 18), (true, 15), (true, 18)] {
        check_table(1000, hysteresis, kib, [32.0, 30.5, 30.1]);
    }
}

#[test]
fn a_bucket_smaller_than_a_tick_sends_its_packets_once_a_tick() {
    // [algorithms §5.6] n = floor(b (1 + h) / l) + 1 packets a tick while (1 + h) b / r < T.
    for (hz, hysteresis, rate, burst) in [
        (100, true, 30 * M, 15_000),
        (100, false, 30 * M, 30_000),
        (50, false, 10 * M, 12_345),
        (250, true, 100 * M, 20_000),
        (10, true, M, 2_000),
    ] {
        let machine = Machine { hz, hysteresis, rate, burst };
        for length in [64, 520, 1496] {
            let buckets = if hysteresis { 2 * burst } else { burst };
            assert!(buckets * 8 * hz < rate, "the row is for buckets smaller than a tick");
            let packets = buckets / length + 1;
            let sent = machine.departures(length, 0, 1_000 * M);
            for tick in 1..hz {
                let at = tick * 1_000 * M / hz;
                let real = sent.iter().filter(|&&sent| sent == at).count() as u64;
                assert_eq!(real, packets, "{hz} Hz {hysteresis} {burst} B {length} B, {tick}");
            }
            assert_eq!(sent.len() as u64, packets * (hz + 1), "nothing leaves between ticks");
        }
    }
}

#[test]
fn a_bucket_larger_than_a_tick_sends_its_rate_by_rounded_lengths() {
    // [algorithms §5.6] Otherwise it sends at its rate, by the lengths in the rate table.
    for (hz, hysteresis, burst) in [(100, true, 20_000), (100, false, 40_000), (1000, false, 5_000)]
    {
        let machine = Machine { hz, hysteresis, rate: 30 * M, burst };
        for (length, charged) in [(64u64, 64u64), (71, 64), (1499, 1496)] {
            let sent = machine.departures(length, 0, 11_000 * M);
            let counted = sent.iter().filter(|&&at| at > 1_000 * M).count() as f64;
            let real = counted * length as f64 * 8.0 / 10.0;
            let expected = 30e6 * length as f64 / charged as f64;
            assert!((real / expected - 1.0).abs() < 2e-3, "{hz} {burst} {length}: {real}");
        }
    }
}
