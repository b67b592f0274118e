//! What it costs to explain why packets wait: single offers and polls, with and without.
//!
//! The closed loop of the bench, but each packet is offered and polled by itself, for a burst
//! cannot be explained as one. Three links take turns: two that explain nothing, whose ratio says
//! what the machine's noise is worth, and one that explains; taking the sojourns out counts.

use super::{BURST, Effort, Entry, LENGTH, LINK_RATE, Loop, group_of, measure_each, median};
use serde::Serialize;
use std::time::{Duration as Spent, Instant as Clock};
use weir_core::event::Poll;
use weir_core::link::Packet;
use weir_core::units::{Bytes, Rate};

/// The most that explaining may cost, to single offers and polls without.
pub const RATIO_MAX: f64 = 1.25;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet without explanation, the median of the rounds.
    pub nanos: f64,
    /// With it.
    pub explained_nanos: f64,
    /// One link without explanation to another in the same round, the median of the rounds: noise.
    pub noise: f64,
    /// With explanation to without in the same round, the median of the rounds.
    pub ratio: f64,
    /// Whether that is at most [`RATIO_MAX`].
    pub holds: bool,
}

/// Measures every scheduler (or the one named) at each number of leaves.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn measure(
    only: Option<&str>,
    leaves: &[usize],
    effort: Effort,
    progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    measure_each(only, leaves, |entry, count| measure_one(entry, count, effort), progress)
}

fn measure_one(entry: &Entry, leaves: usize, effort: Effort) -> Row {
    let mut loops = [(); 3].map(|()| Loop::new(entry, leaves, group_of(leaves)));
    let now = loops[2].now;
    loops[2].link.explain(now, true);
    for each in &mut loops {
        each.run_singly(effort.packets / 4);
    }
    let [mut nanos, mut explained, mut noises, mut ratios] = [const { Vec::new() }; 4];
    for _ in 0..effort.rounds {
        let [without, again, with] = loops.each_mut().map(|each| each.run_singly(effort.packets));
        nanos.push(without);
        explained.push(with);
        noises.push(again / without);
        ratios.push(with / ((without + again) / 2.0));
    }
    let ratio = median(&mut ratios);
    Row {
        scheduler: entry.descriptor.keyword,
        leaves,
        nanos: median(&mut nanos),
        explained_nanos: median(&mut explained),
        noise: median(&mut noises),
        ratio,
        holds: ratio <= RATIO_MAX,
    }
}

impl Loop {
    /// ns per packet over `packets` packets, each offered and polled by itself; neither the choice
    /// of leaves counts nor the loop's own memory.
    fn run_singly(&mut self, packets: u64) -> f64 {
        let (mut done, mut spent) = (0u64, Spent::ZERO);
        let rate = Rate::new(LINK_RATE).expect("not zero");
        let burst_time = rate.transmit_time(Bytes::new(BURST as u64 * u64::from(LENGTH)));
        while done < packets {
            let start = Clock::now();
            self.poll_singly();
            spent += start.elapsed();
            self.now = self.now.after(burst_time);
            done += self.polled as u64;
            for index in 0..self.polled {
                let packet = Packet::new(self.departures[index].handle, LENGTH);
                let leaf = self.random_leaf();
                self.burst.push((leaf, packet));
            }
            let start = Clock::now();
            for &(leaf, packet) in &self.burst {
                std::hint::black_box(self.link.offer(self.now, leaf, packet));
            }
            spent += start.elapsed();
            self.burst.clear();
        }
        spent.as_nanos() as f64 / done as f64
    }

    /// Polls until nothing more leaves now or a burst has, and takes the sojourns out.
    fn poll_singly(&mut self) {
        self.polled = 0;
        while self.polled < BURST {
            let Poll::Packet(departure) = self.link.poll(self.now) else { break };
            self.departures[self.polled] = departure;
            self.polled += 1;
        }
        let mut sum = 0u64;
        self.link.take_sojourns(&mut |sojourns| {
            sum = sojourns.iter().map(|sojourn| sojourn.own_leaf().as_nanos()).sum();
        });
        std::hint::black_box(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_measured_with_and_without() {
        let effort = Effort { rounds: 1, packets: 1_000 };
        let rows = measure(None, &[10], effort, |_| {}).expect("all are registered");
        assert_eq!(rows.len(), super::super::entries(None).expect("all").len());
        assert!(rows.iter().all(|row| row.nanos > 0.0 && row.ratio > 0.0), "{rows:?}");
        assert!(measure(Some("none"), &[10], effort, |_| {}).is_err());
    }
}
