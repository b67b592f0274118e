//! A Prague sender and a CUBIC sender in the two queues of a DualPI2 leaf, over rates and round
//! trips: what the one waits, how they share, and how much of the line they use.
//!
//! The scenario is `examples/sim/l4s.toml` with other numbers. The goals are for 40 Mbit/s and a
//! round trip of 10 ms; the other cells show how far the same defaults carry.

use super::{Experiment, Own};
use crate::parallel;
use crate::rows::{Row, Rows};
use std::io;
use weir_core::units::{Bytes, Duration, Rate};
use weir_show::{Kind, Plot};
use weir_sim::{read, run};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "l4s",
    summary: "Prague beside CUBIC through DualPI2, 4 to 200 Mbit/s and 5 to 100 ms",
    measure: None,
    own: Some(Own { draws: true, ..Own::simulated(run_all) }),
};

/// A line, in Mbit/s, and the round trip without queues, in ms.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    mbits: u64,
    rtt: u64,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The waits of packets of Prague and of CUBIC, p99 in ms.
    waits: [f64; 2],
    /// The rate of Prague over that of CUBIC.
    ratio: f64,
    /// The part of the line that was used, in percent.
    used: f64,
}

fn run_all(rows: &mut Rows<'_>) -> Result<(), String> {
    let all = RATES.into_iter().flat_map(|mbits| RTTS.map(|rtt| Place { mbits, rtt }));
    let places: Vec<Place> = all.filter(|place| rows.options.wants(&place.subject())).collect();
    let cells = parallel::each(&places, Place::measure)?;
    for (place, cell) in places.iter().zip(&cells) {
        rows.add(Row::shown(place.subject(), cell.text()));
        if *place == GOAL {
            let of = |what: &str| format!("{}: {what}", place.subject());
            rows.add(Row::at_most(of("Prague's p99 in the queue"), cell.waits[0], 2.0, "ms"));
            let apart = cell.ratio.max(1.0 / cell.ratio);
            rows.add(Row::at_most(of("rates apart by"), apart, 2.0, "x"));
            rows.add(Row::at_least(of("line used"), cell.used, 95.0, "%"));
        }
    }
    if places.len() == RATES.len() * RTTS.len() {
        rows.results.plots = plots(&cells);
    }
    Ok(())
}

impl Place {
    fn subject(self) -> String {
        format!("{} Mbit/s, {} ms", self.mbits, self.rtt)
    }

    fn measure(&self) -> Result<Cell, String> {
        let way = format!("\"{} us\"", self.rtt * 500);
        let text = EXAMPLE
            .replace("\"40 Mbit/s\"", &format!("\"{} Mbit/s\"", self.mbits))
            .replace("\"5 ms\"", &way);
        let files = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
        let outcome = read::parse(text.as_bytes(), "l4s.toml", &files);
        let first = outcome.findings.first().map(|finding| finding.message.clone());
        let scenario = outcome.plan.ok_or_else(|| first.unwrap_or_default())?;
        let report = run(&scenario, &mut |_| {}).map_err(|why| why.to_string())?;
        let source = |name: &str| report.source(name).ok_or(format!("no source {name}"));
        let (prague, cubic) = (source("prague")?, source("cubic")?);
        let rate = Rate::new(self.mbits * 1_000_000).ok_or("a rate is not zero")?;
        let way = Duration::from_micros(self.rtt * 500).as_nanos()
            + rate.transmit_time(Bytes::new(1514)).as_nanos();
        let waited = |delay: Duration| delay.as_nanos().saturating_sub(way) as f64 / 1e6;
        Ok(Cell {
            waits: [waited(prague.delay.p99), waited(cubic.delay.p99)],
            ratio: prague.goodput_bps as f64 / cubic.goodput_bps.max(1) as f64,
            used: report.link.utilisation * 100.0,
        })
    }
}

impl Cell {
    fn text(&self) -> String {
        let [prague, cubic] = self.waits;
        format!(
            "p99 Prague {prague:.2} ms, CUBIC {cubic:.1} ms; rates {:.2}; line {:.1} %",
            self.ratio, self.used
        )
    }
}

/// Draws each figure over rates and round trips.
fn plots(cells: &[Cell]) -> Vec<Plot> {
    let names = RTTS.map(|rtt| rtt.to_string());
    let draw = |title: &str, of: &dyn Fn(&Cell) -> f64| {
        let plot = Plot::new(Kind::Cells, title, "round trip, ms", "");
        let plot = plot.named(names.iter().map(String::as_str));
        RATES.iter().zip(cells.chunks(RTTS.len())).fold(plot, |plot, (mbits, row)| {
            let points = row.iter().enumerate().map(|(at, cell)| (at as f64, of(cell)));
            plot.with(format!("{mbits} Mbit/s"), points.collect())
        })
    };
    vec![
        draw("Prague's wait in the queue, p99 in ms", &|cell| cell.waits[0]),
        draw("CUBIC's wait in the queue, p99 in ms", &|cell| cell.waits[1]),
        draw("Prague's rate over CUBIC's", &|cell| cell.ratio),
        draw("Line used, %", &|cell| cell.used),
    ]
}

const EXAMPLE: &str = include_str!("../../../examples/sim/l4s.toml");
const RATES: [u64; 6] = [4, 10, 20, 40, 100, 200];
const RTTS: [u64; 5] = [5, 10, 20, 50, 100];
/// The cell that has goals.
const GOAL: Place = Place { mbits: 40, rtt: 10 };
