//! The figures of one run under a scheduler, and their means over several.

use super::{Leaf, Measured};
use crate::replicate::{Estimate, micros};
use crate::report::Report;
use serde::{Serialize, Serializer};

/// The figures of one run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figures {
    pub(super) utilisation: f64,
    pub(super) leaves: Vec<LeafFigures>,
}

/// One leaf in one run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LeafFigures {
    name: String,
    sent: f64,
    ideal: f64,
    /// Delays in µs, and by how much each may be wrong: of the median and of 99 %.
    delays: [(f64, f64); 2],
    dropped: u64,
    offered: u64,
}

impl LeafFigures {
    /// The figures of the class `name`, to which the fluid ideal gives `ideal` bit/s.
    pub(super) fn of(name: &str, report: &Report, ideal: f64) -> Self {
        let row = report.class(name);
        let delays = row.map(|row| {
            let delay = &row.delay;
            [(delay.p50, delay.resolution[0]), (delay.p99, delay.resolution[2])]
        });
        let micros = |(value, resolution)| (micros(value), micros(resolution));
        Self {
            name: name.to_owned(),
            sent: row.map_or(0, |row| row.sent.bits_per_second) as f64,
            ideal,
            delays: delays.map_or([(0.0, 0.0); 2], |delays| delays.map(micros)),
            dropped: row.map_or(0, |row| row.dropped.total.packets),
            offered: row.map_or(0, |row| row.offered.packets),
        }
    }
}

impl Figures {
    fn sum(&self, of: fn(&LeafFigures) -> u64) -> f64 {
        self.leaves.iter().map(of).sum::<u64>() as f64
    }

    /// Half the sum of what leaves have too much or too little, as a part of the ideal's sum.
    fn share_error(&self) -> f64 {
        let ideal: f64 = self.leaves.iter().map(|leaf| leaf.ideal).sum();
        let wrong: f64 = self.leaves.iter().map(|leaf| (leaf.sent - leaf.ideal).abs()).sum();
        if ideal > 0.0 { wrong / 2.0 / ideal } else { 0.0 }
    }

    /// `[jain84]`: the square of the sum by the sum of the squares, over how many there are.
    fn fairness(&self) -> f64 {
        let wanted = self.leaves.iter().filter(|leaf| leaf.ideal > 0.0);
        let parts: Vec<f64> = wanted.map(|leaf| leaf.sent / leaf.ideal).collect();
        let (sum, squares) = parts
            .iter()
            .fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
        if squares > 0.0 { sum * sum / squares / parts.len() as f64 } else { 1.0 }
    }
}

/// The means over `runs`, without cost; `None` without runs.
pub(super) fn over(runs: &[Figures]) -> Option<Measured> {
    let first = runs.first()?;
    // Runs that are one run have no interval.
    let runs = if runs.iter().all(|run| run == first) { &runs[..1] } else { runs };
    let over =
        |of: &dyn Fn(&Figures) -> f64| Estimate::of(&runs.iter().map(of).collect::<Vec<_>>());
    let leaf = |place: usize| {
        let of = |of: fn(&LeafFigures) -> f64| over(&|run| of(&run.leaves[place]));
        let delay = |which: usize| {
            let wrong = over(&|run| run.leaves[place].delays[which].1).mean;
            over(&|run| run.leaves[place].delays[which].0).widened(wrong)
        };
        Leaf {
            name: first.leaves[place].name.clone(),
            sent_bps: of(|leaf| leaf.sent),
            ideal_bps: of(|leaf| leaf.ideal),
            delay_p50_us: delay(0),
            delay_p99_us: delay(1),
            dropped: of(|leaf| leaf.dropped as f64),
        }
    };
    Some(Measured {
        share_error: over(&Figures::share_error),
        fairness: over(&Figures::fairness),
        dropped: over(&|run| run.sum(|leaf| leaf.dropped)),
        offered: over(&|run| run.sum(|leaf| leaf.offered)),
        loss: over(&|run| run.sum(|leaf| leaf.dropped) / run.sum(|leaf| leaf.offered).max(1.0)),
        utilisation: over(&|run| run.utilisation),
        cost: None,
        leaves: (0..first.leaves.len()).map(leaf).collect(),
    })
}

/// Serializes a figure: a number of one run, a mean with its interval of several.
pub(super) fn figure<S: Serializer>(figure: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    match figure.within {
        None => serializer.serialize_f64(figure.mean),
        Some(_) => figure.serialize(serializer),
    }
}

/// As [`figure`], of a count, which is whole in one run.
pub(super) fn count<S: Serializer>(count: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    match count.within {
        None => serializer.serialize_u64(count.mean as u64),
        Some(_) => count.serialize(serializer),
    }
}
