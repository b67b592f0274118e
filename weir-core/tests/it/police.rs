//! Police in a link: packets are policed before the dropper and counted, and marks reach the
//! departure.

use weir_core::event::{Departure, DropReason, Verdict};
use weir_core::ids::{Handle, LeafId, MeterId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::Params;
use weir_core::police::MeterPlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Instant, Rate};

/// The example of the source, 1 Mbit/s and 3000 bytes, at 0, 0, 0 and 12 ms, in a class of 1
/// Gbit/s. Returns the verdicts and the departures.
fn run(out: &str, own: Option<MeterId>) -> (Vec<Verdict>, Vec<Departure>) {
    let params = Params::new()
        .with("rate", "1 Mbit/s".parse().expect("a rate"))
        .with("depth", "3000 B".parse().expect("a size"));
    let actions = vec![("out", out.parse().expect("an action"))];
    run_by(MeterPlan { meter: "tbmeter", params, actions }, own)
}

/// The same packets by this meter.
fn run_by(meter: MeterPlan, own: Option<MeterId>) -> (Vec<Verdict>, Vec<Departure>) {
    let class = ClassSpec { name: "all".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(1_000_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
    let mut plan = LinkPlan::new("fifo", tree);
    plan.meters = vec![meter];
    plan.leaf_meters = vec![MeterId::from_index(0)];
    let mut link = plan.build().expect("builds");
    let (mut verdicts, mut departures) = (Vec::new(), Vec::new());
    for (handle, millis) in [0, 0, 0, 12].into_iter().enumerate() {
        let now = Instant::from_nanos(millis * 1_000_000);
        link.advance(now, &mut departures);
        let packet = Packet::new(Handle(handle as u32), 1500);
        let packet = Packet { traffic_class: 0b01, meter: own, ..packet };
        verdicts.push(link.offer(now, LeafId(0), packet));
    }
    link.advance(Instant::from_nanos(1_000_000_000), &mut departures);
    let account = link.account();
    let leaf = account.leaf(LeafId(0));
    assert!(leaf.is_conserved());
    let policed = leaf.dropped[DropReason::Policed as usize];
    assert_eq!(policed, leaf.dropped_total());
    let mut dropped = 0;
    link.take_dropped(&mut |_| dropped += 1);
    assert_eq!((leaf.offered.packets, policed.packets), (4, dropped));
    (verdicts, departures)
}

#[test]
fn without_a_meter_every_packet_leaves_with_the_mark_and_its_ecn_field() {
    for (text, written) in [("mark cs1", Some(8 << 2 | 1)), ("mark cs0", None), ("pass", None)] {
        let actions = vec![("all", text.parse().expect("an action"))];
        let meter = MeterPlan { meter: "unmetered", params: Params::new(), actions };
        let (verdicts, departures) = run_by(meter, None);
        assert_eq!(verdicts, [Verdict::Queued; 4], "{text}");
        let marks: Vec<_> = departures.iter().map(|packet| packet.mark.written()).collect();
        assert_eq!(marks, [written; 4], "{text}");
    }
}

#[test]
fn packets_that_are_out_are_dropped_and_counted() {
    let (verdicts, departures) = run("drop", None);
    let policed = Verdict::Dropped(DropReason::Policed);
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, policed, Verdict::Queued]);
    let sent: Vec<_> = departures.iter().map(|packet| packet.handle.0).collect();
    assert_eq!(sent, [0, 1, 3]);
}

#[test]
fn packets_that_are_out_leave_marked() {
    let (verdicts, departures) = run("mark af12", None);
    assert_eq!(verdicts, [Verdict::Queued; 4]);
    let marks: Vec<_> = departures.iter().map(|packet| packet.mark.written()).collect();
    // AF12 is code point 12; the ECN field stays.
    assert_eq!(marks, [None, None, Some(12 << 2 | 0b01), None]);
}

#[test]
fn packets_that_are_out_may_pass() {
    let (verdicts, departures) = run("pass", None);
    assert_eq!(verdicts, [Verdict::Queued; 4]);
    assert!(departures.iter().all(|packet| packet.mark.written().is_none()));
}

#[test]
fn a_rule_may_name_the_same_meter() {
    let (verdicts, _) = run("drop", MeterId::from_index(0));
    assert_eq!(verdicts[2], Verdict::Dropped(DropReason::Policed));
}
