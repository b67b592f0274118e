//! The cost of a packet by the dropper of its leaf, through `road` with one leaf and packets of 64
//! flows, beside the plain queue at the same time.

use super::road::{LINK_RATE, Road, plan_at};
use super::{Effort, Lengths, affordable, median};
use serde::Serialize;
use weir_core::parameter::{Kind, Params, Value};
use weir_core::queue::{DROPPERS, DropperDescriptor, QueuePlan};
use weir_core::sched::SCHEDULERS;
use weir_core::units::Quantity;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the dropper.
    pub dropper: &'static str,
    /// ns per packet, the median of the rounds.
    pub nanos: f64,
    /// The ratio to the plain queue in the same round, the median of the rounds.
    pub ratio: f64,
    /// The least and the largest ratio of a round.
    pub ratios: (f64, f64),
}

/// Returns the droppers that a leaf may have by itself: all but those that share a limit.
pub fn own() -> impl Iterator<Item = &'static DropperDescriptor> {
    DROPPERS.iter().filter(|row| {
        row.parameters.iter().any(|row| row.name == "limit" && row.kind == Kind::Limit)
    })
}

/// Measures every dropper with its defaults, but for a limit that lets all packets wait.
pub fn measure(lengths: Lengths, effort: Effort, mut progress: impl FnMut(&Row)) -> Vec<Row> {
    let plain = &DROPPERS[0];
    let measured = own().map(|row| {
        let (mut subject, mut yardstick) = (road(row, lengths), road(plain, lengths));
        yardstick.run(effort.packets / 4);
        let packets = affordable(&mut subject, effort.packets);
        let (mut nanos, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            let mine = subject.run(packets);
            nanos.push(mine);
            ratios.push(mine / yardstick.run(effort.packets / 2));
        }
        let (nanos, ratio) = (median(&mut nanos), median(&mut ratios));
        // The median has sorted them.
        let ratios = (ratios[0], ratios[ratios.len() - 1]);
        let row = Row { dropper: row.keyword, nanos, ratio, ratios };
        progress(&row);
        row
    });
    measured.collect()
}

fn road(dropper: &DropperDescriptor, lengths: Lengths) -> Road {
    let mut plan = plan_at(LINK_RATE, SCHEDULERS[0].descriptor, 1, 0, PACKETS);
    let mut params = Params::new();
    params.set("limit", Value::Quantity(Quantity::Packets(PACKETS as u32)));
    plan.queues = vec![QueuePlan { dropper: dropper.keyword, params }];
    Road::through(&plan, 1, FLOWS, PACKETS, lengths)
}

/// Packets that circulate.
const PACKETS: usize = 1024;
const FLOWS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dropper_is_measured_and_the_first_is_the_yardstick() {
        let effort = Effort { rounds: 1, packets: 4000 };
        let rows = measure(Lengths::Mixed, effort, |_| {});
        assert_eq!(rows.len(), own().count());
        assert!(rows.iter().all(|row| row.nanos > 0.0 && row.ratio > 0.0), "{rows:?}");
        assert_eq!(rows[0].dropper, DROPPERS[0].keyword);
    }
}
