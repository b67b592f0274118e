//! Tests of the link as a whole.

use super::*;
use crate::ids::Handle;
use crate::parameter::Params;
use crate::sched::{Calls, Changes, Explains, Head, Scheduler, Selection, Tree, Waiting};
use crate::sched::{ClassSpec, Cost, Descriptor, Promises};
use crate::state::state;
use crate::units::{Quantity, Rate};
use alloc::string::ToString;

fn link(rate: u64, leaves: usize) -> Box<dyn AnyLink> {
    let class =
        |index: usize| ClassSpec { name: index.to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(rate).expect("not zero");
    let classes = (0..leaves).map(class).collect();
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), classes).expect("a tree");
    LinkPlan::new("fifo", tree).build().expect("builds")
}

fn packet(handle: u32, length: u32) -> Packet {
    Packet::new(Handle(handle), length)
}

#[test]
fn the_line_sends_back_to_back_and_never_early() {
    let mut link = link(24_000_000_000, 1);
    for handle in 0..30 {
        link.offer(Instant::ZERO, LeafId(0), packet(handle, 1));
    }
    let mut out = Vec::new();
    assert_eq!(link.advance(Instant::from_nanos(5), &mut out), Some(Instant::from_nanos(6)));
    // A third of a nanosecond each: three start per nanosecond, none before its turn.
    let starts: Vec<_> = out.iter().map(|departure| departure.at.as_nanos()).collect();
    assert_eq!(starts, [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
}

#[test]
fn a_late_caller_changes_no_decision() {
    let rows: [&[u64]; 3] = [&[9_000_000], &[1, 2, 700_000, 9_000_000], &[5_000_000, 9_000_000]];
    let mut runs = rows.map(|wakes| {
        let mut link = link(10_000_000, 2);
        for handle in 0..6 {
            link.offer(Instant::ZERO, LeafId(handle % 2), packet(handle, 1000));
        }
        let mut out = Vec::new();
        for &wake in wakes {
            link.advance(Instant::from_nanos(wake), &mut out);
        }
        out
    });
    runs.rotate_left(1);
    assert_eq!(runs[0].len(), 6);
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[1], runs[2]);
}

#[test]
fn a_link_that_is_called_after_a_stall_goes_on_from_then() {
    type Stall = fn(&mut dyn AnyLink, Instant);
    let stalls: [Stall; 2] =
        [|link, later| link.forfeit_before(later), |link, later| link.explain(later, true)];
    for stall in stalls {
        let mut link = link(8_000_000, 1);
        for handle in 0..3 {
            link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000));
        }
        let mut out = Vec::new();
        assert_eq!(link.advance(Instant::ZERO, &mut out), Some(Instant::from_nanos(1_000_000)));
        // The second was due a millisecond after the first, and is late.
        let later = Instant::from_nanos(5_000_000);
        stall(link.as_mut(), later);
        link.advance(later, &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(out[1].at, later);
    }
}

#[test]
fn wire_lengths_follow_the_framing() {
    let rows = [
        (Framing::FRAME, 60, 60),
        (Framing::FRAME, 0, 1),
        (Framing::ETHERNET, 42, 84),
        (Framing::ETHERNET, 1514, 1538),
        (Framing::IP, 1514, 1500),
        (Framing::ATM, 54, 106),
        (Framing::ATM, 1514, 1696),
        (Framing::AAL5, 1514, 1536),
        (Framing::PPPOE, 1514, 1546),
        (Framing::PPPOE, 42, 84),
        (Framing::DOCSIS, 42, 64),
        (Framing::DOCSIS, 1514, 1518),
        // 1522 bytes are 23 times 64 and a part, 56 and 57 bytes one part and one and a part.
        (Framing::PTM, 1514, 1522 + 24),
        (Framing::PTM, 56, 64 + 1),
        (Framing::PTM, 57, 65 + 2),
        (Framing::PPPOE_PTM, 1514, 1530 + 24),
        (Framing::PPPOE_ATM, 1514, 33 * 53),
    ];
    for (framing, length, wire) in rows {
        assert_eq!(framing.wire_length(length), wire, "{framing:?} {length}");
    }
}

/// A train is charged as the frames that it is: bytes of it all and of each frame but the last,
/// and the lengths of the frames.
#[test]
fn a_train_has_the_length_of_its_frames_on_the_wire() {
    let rows: [(u32, u16, &[u32]); 6] = [
        (1514, 0, &[1514]),
        (1514, 1514, &[1514]),
        (3028, 1514, &[1514, 1514]),
        (3082, 1514, &[1514, 1514, 54]),
        (60, 7, &[7, 7, 7, 7, 7, 7, 7, 7, 4]),
        (0, 1514, &[0]),
    ];
    for (length, train, frames) in rows {
        let packet = Packet { train, ..packet(0, length) };
        assert_eq!(packet.frames() as usize, frames.len(), "{length} {train}");
        for (_, framing) in Framing::PRESETS {
            let wire = frames.iter().map(|frame| framing.wire_length(*frame)).sum::<u32>();
            assert_eq!(framing.wire_length_of(&packet), wire, "{framing:?} {length} {train}");
        }
    }
}

#[test]
fn the_buffer_lets_packets_out_ahead_of_the_line() {
    let mut plan = LinkPlan::new("fifo", {
        let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
        let rate = Rate::new(8_000_000).expect("not zero");
        Tree::new(rate, Bytes::new(1000), Params::new(), alloc::vec![class]).expect("a tree")
    });
    plan.buffer = Bytes::new(2000);
    let mut link = plan.build().expect("builds");
    for handle in 0..4 {
        link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000));
    }
    let mut out = Vec::new();
    link.advance(Instant::from_nanos(3_000_000), &mut out);
    let rows: Vec<_> =
        out.iter().map(|d| (d.at.as_nanos() / 1000, d.finished.as_nanos() / 1000)).collect();
    assert_eq!(rows, [(0, 1000), (0, 2000), (0, 3000), (1000, 4000)]);
}

#[test]
fn the_dropper_below_a_token_bucket_decides_when_the_bucket_looks() {
    let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(8_000_000_000).expect("not zero");
    let params = Params::new()
        .with("rate", Quantity::Rate(Rate::new(8_000).expect("not zero")))
        .with("burst", Quantity::Bytes(Bytes::new(1000)));
    let tree = Tree::new(rate, Bytes::new(1000), params, alloc::vec![class]).expect("a tree");
    let mut plan = LinkPlan::new("tbf", tree);
    plan.queues[0].dropper = "codel";
    let mut link = plan.build().expect("builds");
    for handle in 0..9 {
        link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000));
    }
    // A packet a second. The bucket looks at the third one after a second, when CoDel begins to
    // wait for an interval, and at the fourth after two: too late. It would drop the third one
    // if it decided when that leaves.
    let mut dropped = Vec::new();
    for (second, sent) in [(0, 1), (1, 1), (2, 1), (3, 1)] {
        let mut out = Vec::new();
        link.advance(Instant::from_nanos(second * 1_000_000_000 + 1_000_000), &mut out);
        assert_eq!(out.len(), sent, "in second {second}");
        link.take_dropped(&mut |packet| dropped.push((second, packet.handle.0)));
    }
    assert_eq!(dropped[0], (2, 3));
}

/// Serves one leaf, returns an instant every 10 µs, and records the completions.
struct Recorder {
    waits: u32,
    completions: Vec<(u64, u64)>,
}

state!(Recorder { waits; kept: completions });

impl Discipline for Recorder {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "recorder",
        summary: "Serves when the wire is empty.",
        parameters: &[],
        sources: &[],
        promises: Promises {
            work_conserving: false,
            hierarchical: false,
            exact_wake: false,
            cost: Cost::Constant,
        },
    };

    const CALLS: Calls = Calls { completions: true, ..Calls::DEFAULT };

    fn build(_tree: &Tree) -> Result<Self, BuildError> {
        Ok(Self { waits: 0, completions: Vec::new() })
    }
}

impl Scheduler for Recorder {
    fn enqueued(&mut self, _now: Instant, _leaf: LeafId, _head: Head) {
        self.waits = 1;
    }

    fn joined(&mut self, _now: Instant, _leaf: LeafId, _length: Bytes) {
        self.waits += 1;
    }

    fn select(&mut self, now: Instant) -> Selection {
        match (self.waits, now.as_nanos() % 10_000) {
            (0, _) => Selection::Idle,
            (_, 0) => Selection::Leaf(LeafId(0)),
            (_, part) => Selection::At(Instant::from_nanos(now.as_nanos() + 10_000 - part)),
        }
    }

    fn charge(&mut self, _now: Instant, _leaf: LeafId, _sent: Bytes, _next: Option<Head>) {
        self.waits -= 1;
    }

    fn head_changed(&mut self, _now: Instant, _leaf: LeafId, _head: Option<Head>) {
        self.waits -= 1;
    }

    fn completed(&mut self, now: Instant, _leaf: LeafId, length: Bytes) {
        self.completions.push((now.as_nanos(), length.get()));
    }
}

impl Explains for Recorder {}

impl Changes for Recorder {
    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        waiting.packets.iter().sum::<u32>() == self.waits
    }
}

#[test]
fn a_scheduler_with_completions_is_notified_of_each_at_its_instant_and_polled_then() {
    let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(8_000_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1000), Params::new(), alloc::vec![class]);
    let mut plan = LinkPlan::new("fifo", tree.expect("a tree"));
    plan.buffer = Bytes::new(2000);
    let mut link =
        Link::new(&plan, Recorder { waits: 0, completions: Vec::new() }).expect("builds");
    for handle in 0..4 {
        link.offer(Instant::ZERO, LeafId(0), packet(handle, 1000 + handle));
    }
    let mut out = Vec::new();
    // At 1 ns the buffer has room for a third, but by then no leaf may send until 10 us.
    let next = link.advance(Instant::from_nanos(500), &mut out);
    assert_eq!((out.len(), next), (2, Some(Instant::from_nanos(1000))));
    let next = link.advance(Instant::from_nanos(1000), &mut out);
    assert_eq!(next, Some(Instant::from_nanos(2001)), "polled when a packet has left");
    assert_eq!(link.scheduler.completions, [(1000, 1000)]);
    link.advance(Instant::from_nanos(30_000), &mut out);
    link.poll(Instant::from_nanos(90_000));
    assert_eq!(
        link.scheduler.completions,
        [(1000, 1000), (2001, 1001), (11_002, 1002), (12_005, 1003)]
    );
}
