//! Series of a load: numbers that can be computed by hand, sums that balance, and the packets of a
//! cell of a heat map.

use crate::common::recording;

use recording::{Recording, policy};
use weir_core::ids::LeafId;
use weir_core::link::{Arrival, Packet};
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};
use weir_trace::causes::{self, Ask, Within};
use weir_trace::load::{Load, Outcome, Stage};
use weir_trace::series::{CELLS_MAX, Series, Window, edges};

/// 8 Mbit/s: a byte a microsecond.
const POLICY: &str = "
[link]
rate = '8 Mbit/s'
scheduler = 'htb'
[class.all]
rate = '8 Mbit/s'
[class.a]
parent = 'all'
rate = '800 kbit/s'
ceil = '8 Mbit/s'
burst = '1600 B'
queue = { limit = '3 packets' }
match = [{ proto = 'udp' }]
[class.b]
parent = 'all'
rate = '800 kbit/s'
burst = '1600 B'
default = true
";

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A load of packets of 1000 bytes: leaf and ms; 0 is `a`, 1 is `b`.
fn load(packets: &[(u32, u64)]) -> Load {
    let packet = |(place, &(leaf, millis)): (usize, &(u32, u64))| Arrival {
        at: at(millis),
        leaf: LeafId(leaf),
        packet: Packet::new(Load::handle(place), 1000),
    };
    let stage = Stage::new(Instant::ZERO, "p.toml", POLICY).expect("a sound policy");
    let arrivals = packets.iter().enumerate().map(packet).collect();
    Load::new(stage, arrivals, (Instant::ZERO, at(100)))
}

fn series(load: &Load, (from, to): (u64, u64), step: u64) -> Series {
    let window = Window { from: at(from), to: at(to), step: Duration::from_millis(step) };
    Series::of(load, &load.plans(), window, &mut |_| {}).expect("it is small")
}

#[test]
fn bins_hold_what_happened_in_them() {
    // The line takes the first at once, three wait, one is dropped. They leave at 10, 11, 12 and
    // 13 ms; from the second on `all` lends, since `a` has tokens for 1600 bytes.
    let load = load(&[(0, 10), (0, 10), (0, 10), (0, 10), (0, 10), (1, 30)]);
    let series = series(&load, (0, 40), 11);
    let class = |name: &str| series.class(name).unwrap_or_else(|| panic!("{name}"));
    let a = class("a");
    assert_eq!(series.window.bins(), 4, "the last is shorter");
    assert_eq!(a.offered, [5000, 0, 0, 0]);
    assert_eq!(a.sent, [2000, 2000, 0, 0], "what leaves when a bin ends belongs to it");
    assert_eq!(a.backlog, [2000, 0, 0, 0]);
    assert_eq!(a.drops["full"], [1, 0, 0, 0]);
    assert_eq!(a.delay_p50, [Some(0), Some(2_000_000), None, None]);
    assert_eq!(a.delay_p99, [Some(1_000_000), Some(3_000_000), None, None]);
    assert_eq!(class("all").sent, [2000, 2000, 1000, 0]);
    assert_eq!((class("all").borrowed.clone(), series.packets), (vec![0; 4], 6));
    assert_eq!(a.borrowed.iter().sum::<u64>(), 2000, "{:?}", series.loans);
    assert!(series.loans.iter().all(|lent| series.classes[lent.lender].name == "all"));
    let all = series.window.inside(None, None);
    let heat = series.heat(0, a, all.clone());
    let place = |micros: f64| heat.edges_us.partition_point(|&edge| edge <= micros) - 1;
    assert_eq!(heat.counts[0][0], 1, "a delay of none is below the first edge");
    assert_eq!(heat.counts[0][place(1000.0)], 1);
    assert_eq!(heat.counts[1][place(2000.0)] + heat.counts[1][place(3000.0)], 2);
    let history = series.history(1_000_000, 2, all);
    assert_eq!(history.t, [12.0, 23.0, 34.0, 41.0]);
    assert_eq!(history.classes.len(), 2, "the largest are kept");
    assert_eq!(history.classes["a"].sent_bps[0], Some(2000.0 * 8.0 / 0.011));
    let whole = series.history(0, 3, series.window.inside(None, None));
    let dropped = whole.classes["b"].dropped_pps[0].expect("it is known");
    assert!(dropped == 0.0 && dropped.is_sign_positive(), "no drops are written as 0.0");
    let part = series.history(1_000_000, 2, series.window.inside(Some(at(12)), Some(at(39))));
    assert_eq!(part.t, [23.0, 34.0]);
    assert_eq!(part.classes["a"].offered_bps, history.classes["a"].offered_bps[1..3]);
    assert_eq!(
        part.loans.len(),
        history.loans.iter().filter(|loan| loan.t == 1 || loan.t == 2).count()
    );
}

#[test]
fn edges_of_delays_are_eight_a_decade() {
    let edges = edges();
    assert_eq!((edges[0], edges[8], edges[64]), (1000, 10_000, 100_000_000_000));
    assert!(edges.is_sorted() && edges.len() == 65);
}

#[test]
fn too_many_bins_are_refused_with_the_cure() {
    let load = load(&[(0, 10)]);
    let step = Duration::from_nanos(at(100).as_nanos() / CELLS_MAX);
    let window = Window { from: at(0), to: at(100), step };
    let refused = Series::of(&load, &load.plans(), window, &mut |_| {}).expect_err("too many");
    assert!(refused.contains("take wider bins"), "{refused}");
}

fn recorded(scheduler: &str, seed: u64, is_later: bool) -> (Load, Outcome) {
    let mut random = Random::new(seed, 0);
    let text = policy(scheduler, "codel", "linear", &mut random);
    let recording = Recording::new(&text, seed).expect("a sound policy");
    let bytes = if is_later { recording.later() } else { recording }.run(200, None);
    Load::with_outcome(bytes.as_slice(), None).expect("it holds packets")
}

#[test]
fn the_bins_of_a_record_sum_to_what_it_says() {
    for (scheduler, seed) in [("htb", 31), ("hfsc", 32), ("drr", 33), ("cbq", 34)] {
        let (load, outcome) = recorded(scheduler, seed, seed % 2 == 0);
        let (from, to, step) = (Instant::ZERO, load.end, Duration::from_millis(7));
        let mut all = 0;
        let series = Series::of(&load, &load.plans(), Window { from, to, step }, &mut |_| all += 1);
        let series = series.expect("it is small");
        let tree = &load.stages[0].policy.link.tree;
        let top = tree.classes().filter(|row| row.1.parent.is_none());
        let top: Vec<_> = top.filter_map(|row| series.class(&row.1.name)).collect();
        let sent: u64 = top.iter().flat_map(|class| &class.sent).sum();
        let charged: u64 = outcome.departures.iter().map(|left| left.charged.get()).sum();
        assert_eq!(sent, charged, "{scheduler}");
        let drops: u32 = top.iter().flat_map(|class| class.drops.values().flatten()).sum();
        assert_eq!(drops as usize, outcome.drops.len(), "{scheduler}");
        assert_eq!(series.packets as usize, outcome.departures.len() + outcome.drops.len());
        assert!(drops > 100 && all > series.packets, "{drops} drops");
    }
}

#[test]
fn a_cell_of_the_heat_map_has_as_many_packets_as_it_counts() {
    let (load, _) = recorded("htb", 35, false);
    let (from, to) = (load.start, load.end);
    let window = Window { from, to, step: Window::step_for(load.duration(), 20) };
    let series = Series::of(&load, &load.plans(), window, &mut |_| {}).expect("it is small");
    let class = series.classes.iter().max_by_key(|class| class.sent.iter().sum::<u64>());
    let class = class.expect("there are classes");
    let (heat, edges) = (series.heat(0, class, series.window.inside(None, None)), edges());
    let mut cells = 0;
    for (bin, counts) in heat.counts.iter().enumerate() {
        for (cell, &count) in counts.iter().enumerate().filter(|row| *row.1 > 0).take(3) {
            let begin = if bin == 0 { from } else { window.end(bin - 1) };
            let lowest = if cell == 0 { 0 } else { edges[cell] };
            let within = Within {
                from: begin,
                to: window.end(bin),
                delay_min: Duration::from_nanos(lowest),
                delay_max: Duration::from_nanos(edges[cell + 1]),
                with_host: false,
            };
            let name = Some(class.name.clone());
            let ask = Ask { class: name, worst: 1000, within: Some(within), packet: None };
            let found = causes::packets(&load, &ask).expect("it builds");
            let sent = found.stories.iter().filter(|story| story.dropped.is_none());
            // What waited when the record began is no packet of it.
            let sent = sent.count();
            assert!(sent <= count as usize && found.matched as usize == found.stories.len());
            assert!(bin == 0 || sent == count as usize, "{sent} of {count} in {bin}, {cell}");
            for story in &found.stories {
                let parts: f64 = story.parts_ms.named().iter().map(|part| part.1).sum();
                assert!((parts - story.total_ms).abs() < 1e-6, "{story:?}");
            }
            cells += 1;
        }
    }
    assert!(cells > 10, "{cells}");
}
