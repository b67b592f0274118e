//! Paced flows: when their packets leave, how flows and bands share, and what a leaf does to others
//! while none of its packets is due.

use std::collections::BTreeMap;
use weir_core::change::Change;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Instant, Rate};

const LEAF: LeafId = LeafId(0);
const FAST: u64 = 400_000_000_000;
/// 1000 bytes take a millisecond.
const PACED: &[(&str, &str)] =
    &[("maxrate", "8 Mbit/s"), ("quantum", "1000 B"), ("initial_quantum", "1000 B")];
const US: u64 = 1_000;

/// A link of two leaves, the first of them with `fq`, and the keys of its queue.
fn plan(scheduler: &'static str, rate: u64, rows: &[(&'static str, &'static str)]) -> LinkPlan {
    let class =
        |name: &str| ClassSpec { name: name.to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(rate).expect("not zero");
    let classes = vec![class("a"), class("b")];
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), classes).expect("a tree");
    let mut plan = LinkPlan::new(scheduler, tree);
    let mut params = Params::new();
    for &(name, text) in rows {
        let value = match name {
            "bands" => Value::Choice(text),
            _ => Value::Quantity(text.parse().expect("rows hold quantities")),
        };
        params.set(name, value);
    }
    plan.queues = vec![QueuePlan { dropper: "fq", params }, QueuePlan::default()];
    plan
}

/// A packet: when it comes in microseconds, its flow, its length and its traffic class.
type Row = (u64, u32, u32, u8);

fn arrivals(rows: &[Row]) -> Vec<Arrival> {
    let arrival = |(number, &(at, flow, length, traffic_class)): (usize, &Row)| {
        let packet = Packet { flow, traffic_class, ..Packet::new(Handle(number as u32), length) };
        Arrival { at: Instant::from_nanos(at * US), leaf: LEAF, packet }
    };
    rows.iter().enumerate().map(arrival).collect()
}

/// Serves all until a minute later.
fn serve(plan: &LinkPlan, arrivals: &[Arrival]) -> Vec<Departure> {
    let mut link = plan.build().expect("builds");
    let mut out = Vec::new();
    link.serve(arrivals, Instant::from_nanos(60_000_000 * US), &mut out);
    out
}

/// The packets in the order in which they leave, with the microseconds, "2@1000".
fn order(out: &[Departure]) -> String {
    let one = |row: &Departure| {
        let mark = if row.mark.written().is_some() { "!" } else { "" };
        format!("{}{mark}@{}", row.handle.0, row.at.as_nanos() / US)
    };
    out.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_packet_leaves_when_its_flow_is_due() {
    let three = &[(0, 1, 1000, 0), (0, 1, 1000, 0), (0, 1, 1000, 0)];
    let with = |more: &[(&'static str, &'static str)]| [PACED, more].concat();
    // keys, packets, departures
    let rows: [(Vec<_>, &[Row], &str); 9] = [
        (with(&[]), three, "0@0 1@1000 2@2000"),
        // A newcomer may send its first quantum at once.
        (with(&[("initial_quantum", "3000 B")]), three, "0@0 1@0 2@0"),
        (
            with(&[("initial_quantum", "2000 B")]),
            &[(0, 1, 1000, 0), (0, 1, 1000, 0), (0, 1, 1000, 0), (0, 2, 1000, 0)],
            "0@0 1@0 3@0 2@1000",
        ),
        // At a low rate it waits after each packet, by its length.
        (
            with(&[("low_rate_threshold", "8 Mbit/s")]),
            &[(0, 1, 500, 0), (0, 1, 500, 0), (0, 1, 500, 0)],
            "0@0 1@500 2@1000",
        ),
        // Above it a quantum counts at least.
        (with(&[]), &[(0, 1, 500, 0), (0, 1, 500, 0), (0, 1, 500, 0)], "0@0 1@0 2@1000"),
        // Flows do not wait for each other.
        (
            with(&[]),
            &[(0, 1, 1000, 0), (0, 1, 1000, 0), (500, 2, 1000, 0), (500, 2, 1000, 0)],
            "0@0 2@500 1@1000 3@1500",
        ),
        // A flow that was idle for less than its pause waits for the rest of it.
        (with(&[]), &[(0, 1, 1000, 0), (300, 1, 1000, 0)], "0@0 1@1000"),
        // A packet that comes later than it may leave shortens the next pause, by half at most.
        (
            with(&[]),
            &[(0, 1, 1000, 0), (1400, 1, 1000, 0), (1400, 1, 1000, 0), (2000, 1, 1000, 0)],
            "0@0 1@1400 2@2000 3@3000",
        ),
        // The longest pause is a second.
        (
            vec![("maxrate", "8 bit/s"), ("initial_quantum", "256 B")],
            &[(0, 1, 1000, 0), (0, 1, 1000, 0)],
            "0@0 1@1000000",
        ),
    ];
    for (keys, packets, expected) in rows {
        // Whether the next packet is looked at before its turn or not.
        for scheduler in ["fifo", "drr", "priq", "wfq"] {
            let out = serve(&plan(scheduler, FAST, &keys), &arrivals(packets));
            assert_eq!(order(&out), expected, "{scheduler} {keys:?}");
        }
    }
}

#[test]
fn other_leaves_send_while_none_of_its_packets_is_due() {
    // 1000 bytes take 100 us on the line.
    let both: Vec<Row> = (0..3).map(|_| (0, 1, 1000, 0)).collect();
    let mut all = arrivals(&both);
    for number in 10..30 {
        let packet = Packet::new(Handle(number), 1000);
        all.push(Arrival { at: Instant::ZERO, leaf: LeafId(1), packet });
    }
    for scheduler in ["priq", "fifo", "drr", "wfq"] {
        let out = serve(&plan(scheduler, 80_000_000, PACED), &all);
        assert_eq!(out.len(), 23, "{scheduler}");
        // While the other leaf has packets.
        let mut places = out.iter().zip(0u64..22);
        let line_busy = places.all(|(row, place)| row.at.as_nanos() <= place * 101 * US);
        assert!(line_busy, "{scheduler}: {}", order(&out));
        let own: Vec<_> = out.iter().filter(|row| row.leaf == LEAF).collect();
        let gaps = own.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_nanos() / US);
        // Behind a packet that others held up, the pause is half as long.
        assert!(gaps.clone().all(|gap| gap >= 500), "{scheduler}: {:?}", gaps.collect::<Vec<_>>());
    }
}

#[test]
fn flows_take_turns_by_bytes_and_a_flow_has_its_share_of_places() {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..200 {
        rows.push((0, 1, 1500, 0));
        rows.extend([(0, 2, 300, 0); 5]);
    }
    let keys = [("flow_limit", "150"), ("quantum", "1500 B"), ("initial_quantum", "1500 B")];
    let out = serve(&plan("fifo", 10_000_000, &keys), &arrivals(&rows));
    // Of one flow 150 packets wait, and the first of all is sent at once.
    assert_eq!(out.len(), 301);
    let bytes = |flow: u32, part: &[Departure]| -> u64 {
        let own = part.iter().filter(|row| rows[row.handle.0 as usize].1 == flow);
        own.map(|row| row.charged.get()).sum()
    };
    let part = &out[..120];
    assert!(bytes(1, part).abs_diff(bytes(2, part)) <= 3000, "{}", order(part));
}

#[test]
fn bands_share_by_their_weights() {
    let rows: Vec<Row> = (0..900)
        .map(|number| (0, number % 3, 1000, [0x10, 0, 0x08][number as usize % 3]))
        .collect();
    let keys = [
        ("bands", "tos"),
        ("flow_limit", "1000"),
        ("weight0", "30000"),
        ("weight1", "20000"),
        ("weight2", "10000"),
    ];
    let out = serve(&plan("fifo", 10_000_000, &keys), &arrivals(&rows));
    assert_eq!(out.len(), 900);
    let mut sent = BTreeMap::new();
    for row in &out[..480] {
        *sent.entry(row.handle.0 % 3).or_insert(0u32) += 1;
    }
    // [linux] A newcomer begins in the band of the packet before it, so not all is even at once.
    let shares: Vec<u32> = sent.into_values().collect();
    let is_near = shares.iter().zip([240u32, 160, 80]).all(|(&own, part)| part.abs_diff(own) < 10);
    assert!(is_near, "{shares:?}");
    // One band holds so many packets.
    let keys = [("bands", "tos"), ("flow_limit", "1000"), ("band_limit", "50")];
    assert_eq!(serve(&plan("fifo", 10_000_000, &keys), &arrivals(&rows)).len(), 151);
}

#[test]
fn a_packet_that_leaves_late_is_marked() {
    let rows = [(0, 1, 1250, 0), (0, 1, 1250, 2), (0, 1, 1250, 0), (0, 1, 1250, 1)];
    let out = serve(&plan("fifo", 10_000_000, &[("ce_threshold", "1500 us")]), &arrivals(&rows));
    assert_eq!(order(&out), "0@0 1@1000 2@2000 3!@3000");
}

#[test]
fn a_change_and_a_checkpoint_keep_what_waits() {
    for scheduler in ["fifo", "drr", "priq", "wfq"] {
        let plan = plan(scheduler, FAST, PACED);
        let rows = [(0, 1, 1000, 0), (0, 1, 1000, 0), (0, 2, 1000, 0), (0, 2, 1000, 0)];
        let expected = "0@0 2@0 1@1000 3@1000";
        let half = Instant::from_nanos(500 * US);
        let end = Instant::from_nanos(60_000_000 * US);
        let mut out = Vec::new();
        let mut link = plan.build().expect("builds");
        let next = link.serve(&arrivals(&rows), half, &mut out);
        assert_eq!(next, Some(Instant::from_nanos(1000 * US)), "{scheduler}");
        let mut saved = Writer::new();
        link.save(&mut saved);
        let mut again = plan.build().expect("builds");
        again.load(&mut Reader::new(saved.bytes())).expect("it was saved");
        let mut loaded = out.clone();
        again.advance(end, &mut loaded);
        assert_eq!(order(&loaded), expected, "{scheduler}, loaded");
        // The plan is the same, so the dropper stays, with when its flows are due.
        Change { from: &plan, to: &plan, heir: LEAF }.apply(&mut link, half).expect("builds");
        link.advance(end, &mut out);
        assert_eq!(order(&out), expected, "{scheduler}, changed");
        assert!(link.account().leaves().iter().all(|leaf| leaf.is_conserved()));
    }
}
