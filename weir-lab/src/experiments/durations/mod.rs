//! How long traffic stops while a process of a link dies, is replaced, or is restarted, and what a
//! link that is in order takes its time for: each case many times, with the median beside its goal,
//! and the worst.
//!
//! The link is the real `weir up` between private networks, and carries a thousand numbered
//! datagrams a second. A gap is the longest time between two arrivals, by the stamps of the
//! receiver's kernel. Rows of tests assert what is lost and what is told; how long it takes depends
//! on the machine, so it is measured here.

mod figures;

use super::{Experiment, Own};
use crate::program;
use crate::rows::{Row, Rows};
use figures::{FIGURES, Figure};
use std::time::Duration;
use weir_testbed::{
    PortKind, Result, Scene, ScenePlan, Stream, StreamConfig, is_alive, signal, until,
};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "durations",
    summary: "gaps of traffic while processes of a link die or restart, and other durations",
    measure: None,
    own: Some(Own::live(run)),
};

/// Something that happens to a link, and the most that the median of its gaps may be.
struct Case {
    subject: &'static str,
    goal: Option<Duration>,
    plan: fn(ScenePlan) -> ScenePlan,
    happens: fn(&mut Scene) -> Result<()>,
}

const CASES: &[Case] = &[
    Case {
        subject: "a restart on request",
        goal: Some(Duration::from_millis(50)),
        plan: |plan| plan.ports(PortKind::AfPacket),
        happens: restart,
    },
    Case {
        subject: "a restart on request, AF_XDP ports",
        goal: None,
        plan: |plan| plan.ports(PortKind::AfXdp),
        happens: restart,
    },
    Case {
        subject: "a killed forwarder, closed",
        goal: Some(Duration::from_secs(1)),
        plan: |plan| plan.deployment("on_exit = \"closed\""),
        happens: |scene| replaced(scene, "KILL"),
    },
    Case {
        subject: "an aborted forwarder, closed",
        goal: Some(Duration::from_secs(1)),
        plan: |plan| plan.deployment("on_exit = \"closed\""),
        happens: |scene| replaced(scene, "ABRT"),
    },
    Case {
        subject: "a forwarder that hangs, with a watchdog of 500 ms",
        goal: Some(Duration::from_millis(2500)),
        plan: |plan| plan.deployment("watchdog = \"500 ms\""),
        happens: |scene| replaced(scene, "STOP"),
    },
    Case {
        subject: "a killed forwarder, open: the kernel carries frames meanwhile",
        goal: Some(Duration::from_millis(60)),
        plan: |plan| plan.deployment("on_exit = \"open\""),
        happens: |scene| replaced(scene, "KILL"),
    },
    Case {
        subject: "a killed forwarder, open, and none is to be started",
        goal: Some(Duration::from_millis(60)),
        plan: |plan| plan.deployment("on_exit = \"open\"\nrestart = \"never\""),
        happens: carried_on,
    },
    Case {
        subject: "a killed keeper",
        goal: Some(Duration::from_millis(500)),
        plan: |plan| plan,
        happens: |scene| keeper_dies(scene),
    },
    Case {
        subject: "a killed keeper, and another takes over",
        goal: Some(Duration::from_secs(1)),
        plan: |plan| plan,
        happens: |scene| {
            keeper_dies(scene)?;
            let former = scene.status()?.processes.map(|processes| processes.forwarder);
            scene.start()?;
            until("the former forwarder ends", || !former.is_some_and(is_alive))
        },
    },
];

fn run(rows: &mut Rows<'_>) -> std::result::Result<(), String> {
    let mut measure_all = |subject: &str, goal, unit, measure: &dyn Fn() -> Result<f64>| {
        rows.measure(subject, |_| {
            let found: Result<Vec<f64>> = (0..RUNS).map(|_| measure()).collect();
            found.map(|found| judged(subject, found, goal, unit))
        })
    };
    for case in CASES {
        let goal = case.goal.map(|goal| goal.as_secs_f64() * 1e3);
        measure_all(case.subject, goal, "ms", &|| Ok(gap(case)?.as_secs_f64() * 1e3))?;
    }
    FIGURES.iter().try_for_each(|Figure { subject, goal, unit, measure }| {
        measure_all(subject, Some(*goal), unit, measure)
    })
}

/// Returns the longest gap of a stream while it happens.
fn gap(case: &Case) -> Result<Duration> {
    let mut scene = (case.plan)(program::plan(POLICY)?).start()?;
    let stream = Stream::numbered(&scene.testbed, StreamConfig::default())?;
    stream.await_another()?;
    (case.happens)(&mut scene)?;
    stream.await_another()?;
    Ok(stream.finish()?.longest_gap())
}

fn restart(scene: &mut Scene) -> Result<()> {
    let former = scene.forwarder()?;
    scene.called(&["restart"])?;
    until("the former forwarder ends", || !is_alive(former))
}

fn replaced(scene: &mut Scene, name: &str) -> Result<()> {
    let former = scene.forwarder()?;
    signal(former, name)?;
    scene.await_another_forwarder(former).map(drop)
}

fn carried_on(scene: &mut Scene) -> Result<()> {
    let former = scene.forwarder()?;
    signal(former, "KILL")?;
    until("the forwarder ends", || !is_alive(former))
}

fn keeper_dies(scene: &mut Scene) -> Result<()> {
    scene.signal("KILL")?;
    scene.process()?.wait_for_exit()?;
    scene.await_orphan().map(drop)
}

/// The median is judged, the worst is shown, with how many exceed the goal.
fn judged(name: &str, mut found: Vec<f64>, goal: Option<f64>, unit: &str) -> [Row; 2] {
    found.sort_by(f64::total_cmp);
    let (median, worst) = (found[found.len() / 2], found[found.len() - 1]);
    let subject = |what: &str| format!("{name}: {what} of {}", found.len());
    let median = match goal {
        Some(goal) => Row::at_most(subject("median"), median, goal, unit),
        None => Row::shown(subject("median"), format!("{median:.1} {unit}")),
    };
    let over = goal.map_or(0, |goal| found.iter().filter(|one| **one > goal).count());
    let worst = format!("{worst:.1} {unit}; {over} above the goal");
    [median, Row::shown(subject("worst"), worst)]
}

const POLICY: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.voice]
match = [{ proto = "udp", dport = "5004" }]

[class.rest]
default = true
"#;

/// How often each happens.
const RUNS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_judged_and_the_worst_is_shown() {
        for (found, holds, worst) in [
            ([900.0, 10.0, 20.0], true, "900.0 ms; 1 above the goal"),
            ([60.0, 70.0, 5.0], false, "70.0 ms; 2 above the goal"),
        ] {
            let rows = judged("a gap", found.to_vec(), Some(50.0), "ms");
            assert_eq!((rows[0].holds, rows[1].measured.as_str()), (holds, worst));
        }
    }
}
