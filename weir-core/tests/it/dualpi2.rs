//! DualPI2 beside the pseudo-code of RFC 9332: `tests/oracle/dualpi2.py` was written from the RFC
//! alone, and printed the runs.

use weir_core::event::Poll;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Instant, Rate};

const RUNS: &str = include_str!("../oracle/dualpi2.txt");

#[test]
fn a_leaf_decides_as_the_appendix_of_the_rfc() {
    let (mut compared, mut marks) = (0, 0);
    for run in RUNS.lines() {
        let (packets, marked) = check(run);
        compared += packets;
        marks += marked;
    }
    assert!(compared > 5_000 && marks > 1_000, "{compared} packets, {marks} marks");
}

/// Returns how many packets left in a run, and how many of them were marked.
fn check(run: &str) -> (u32, u32) {
    let (setup, events) = run.split_once(" | ").expect("STEP RAMP PROTECTION COUPLING | EVENTS");
    let [step, ramp, protection, coupling] = setup.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{setup}")
    };
    let mut params = Params::new();
    let rows = [
        ("step", format!("{step} us")),
        ("ramp", format!("{ramp} us")),
        ("protection", protection.to_string()),
        ("coupling", coupling.to_string()),
    ];
    for (name, text) in rows {
        params.set(name, Value::Quantity(text.parse().expect("rows hold quantities")));
    }
    // The line is the run's: every poll finds it free.
    let class = ClassSpec { name: "a".to_string(), parent: None, params: Params::new() };
    let rate = Rate::new(400_000_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
    let mut plan = LinkPlan::new("fifo", tree);
    plan.queues = vec![QueuePlan { dropper: "dualpi2", params }];
    let mut link = plan.build().expect("builds");
    let (mut offered, mut sent, mut marked) = (0, 0, 0);
    for event in events.split(' ') {
        let place = event.find([':', '>']).expect("AT:ECN:LENGTH or AT>NUMBER");
        let now = Instant::from_nanos(event[..place].parse().expect("a number"));
        let rest = &event[place + 1..];
        if let Some((ecn, length)) = rest.split_once(':') {
            let length = length.parse().expect("a number");
            let traffic_class = ecn.parse().expect("a number");
            let packet = Packet { traffic_class, ..Packet::new(Handle(offered), length) };
            link.offer(now, LeafId(0), packet);
            offered += 1;
            continue;
        }
        let left = match link.poll(now) {
            Poll::Packet(departure) => {
                sent += 1;
                let is_marked = departure.mark.written().is_some();
                marked += u32::from(is_marked);
                format!("{}{}", departure.handle.0, if is_marked { "!" } else { "" })
            }
            _ => "-".to_string(),
        };
        assert_eq!(left, rest, "{setup}, at {now:?}, after {offered} packets");
    }
    (sent, marked)
}
