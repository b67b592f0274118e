//! One run in which weight and dropper are switched, as the paper's authors did by a button.
//!
//! Each row is a phase of the run. What a phase inherits from the one before does not count: its
//! first tenth is left out.

use super::{NAMES, Row};
use crate::claims::{Kind, Measured, Plot, Run};
use weir_sim::{Fate, Watch};

/// The counts of a phase, of each queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Phase {
    pub sent: [u64; 2],
    pub dropped: [u64; 2],
    /// The sum of what packets that were sent waited, in nanoseconds.
    pub waited: [u64; 2],
}

/// Measures a run whose phases last so many seconds; adds `PHASE.sent1`, `PHASE.ratio` and so on.
pub(super) fn measure(
    run: &Run<'_>,
    rows: &[Row],
    seconds: f64,
    measured: &mut Measured,
) -> Result<(), String> {
    let mut changes = String::new();
    for (number, row) in rows.iter().enumerate().skip(1) {
        let at = format!("{} ms", number as f64 * seconds * 1e3);
        let [weight, one, three] = row.queues();
        let values =
            [("at", at.as_str()), ("weight", &weight), ("queue1", &one), ("queue3", &three)];
        changes += &run.filled("change.toml", &values)?;
    }
    let first = rows.first().ok_or("no phase")?;
    let [weight, one, three] = first.queues();
    let duration = format!("{} ms", rows.len() as f64 * seconds * 1e3);
    let values = [
        ("duration", duration.as_str()),
        ("changes", &changes),
        ("weight", &weight),
        ("queue1", &one),
        ("queue3", &three),
    ];
    let scenario = run.scenario(&format!("{}.toml", run.era.name()), &values)?;
    let main = scenario.network.as_ref().map(|network| network.main);
    let mut phases = vec![Phase::default(); rows.len()];
    let mut tell = |fate: &Fate<'_>| {
        if Some(fate.outlet) == main {
            count(&mut phases, seconds, fate);
        }
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    weir_sim::run_watched(&scenario, watch, &mut |_| {}).map_err(|error| error.to_string())?;
    let mut table = Vec::new();
    for (row, phase) in rows.iter().zip(&phases) {
        table.push(phase.figures(&row.name, seconds * (1.0 - LEFT_OUT), measured));
    }
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    let shown = [("packets a second", "sent"), ("ms", "mean delay in the queue")];
    for (column, (unit, what)) in shown.into_iter().enumerate() {
        let names = rows.iter().map(|row| row.name.as_str());
        let plot = Plot::new(Kind::Bars, &format!("{title}: {what}"), "phase", unit).named(names);
        let points = |queue: usize| {
            let value = |(x, row): (usize, &[[f64; 2]; 3])| (x as f64, row[column][queue]);
            table.iter().enumerate().map(value).collect()
        };
        measured.plot(plot.with("queue 1", points(0)).with("queue 3", points(1)));
    }
    let pair = |pair: [f64; 2]| format!("{:.1} / {:.1}", pair[0], pair[1]);
    let cells = |(row, values): (&Row, &[[f64; 2]; 3])| {
        std::iter::once(row.name.clone()).chain(values.map(pair)).collect()
    };
    let columns = ["phase", "sent 1/3, packets/s", "delay, ms", "dropped, packets/s"];
    measured.table(&title, &columns, rows.iter().zip(&table).map(cells).collect());
    Ok(())
}

pub(super) fn count(phases: &mut [Phase], seconds: f64, fate: &Fate<'_>) {
    let at = fate.at.as_nanos() as f64 / 1e9 / seconds;
    let Some(queue) = NAMES.iter().position(|name| *name == fate.class) else { return };
    let Some(phase) = phases.get_mut(at as usize).filter(|_| at.fract() >= LEFT_OUT) else {
        return;
    };
    if fate.dropped.is_some() {
        phase.dropped[queue] += 1;
    } else {
        phase.sent[queue] += 1;
        phase.waited[queue] += fate.at.since(fate.arrived).as_nanos();
    }
}

impl Phase {
    /// Adds its figures, which are of so many seconds; returns packets sent a second, delays in ms
    /// and packets dropped a second.
    pub fn figures(&self, name: &str, seconds: f64, measured: &mut Measured) -> [[f64; 2]; 3] {
        let per_second = |count: u64| count as f64 / seconds;
        let mean = |queue: usize| self.waited[queue] as f64 / self.sent[queue].max(1) as f64 / 1e6;
        let values = [self.sent.map(per_second), [mean(0), mean(1)], self.dropped.map(per_second)];
        let names = [("sent", "packets/s"), ("delay", "ms"), ("dropped", "packets/s")];
        for ([one, three], (what, unit)) in values.into_iter().zip(names) {
            measured.figure(format!("{name}.{what}1"), one, unit);
            measured.figure(format!("{name}.{what}3"), three, unit);
        }
        let ratio = self.sent[1] as f64 / self.sent[0].max(1) as f64;
        measured.figure(format!("{name}.ratio"), ratio, "");
        values
    }
}

/// The part of each phase that is left out.
pub(super) const LEFT_OUT: f64 = 0.1;
