//! HTB's accuracy against burst, packet size, rate and load `[benita]`.
//!
//! A row is one run of the experiment's scenario, historic or sound, with its own burst, frame and
//! offered rate. Frames are the generator's: four bytes of check sequence longer than what the
//! kernel sees [algorithms §0.4].

use super::Experiment;
use crate::claims::{Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use weir_sim::{Report, Scenario};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "benita",
    summary: "HTB: the rate sent, by burst, packet size, rate and load",
    measure: Some(measure),
    own: None,
};

/// One run of the scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Such as `15k-512-32`; figures begin with it.
    name: String,
    /// The line of the plot that it belongs to.
    line: String,
    /// Its position on that line.
    x: f64,
    /// The length of the generator's frames.
    frame: u32,
    /// That of each source's, where they differ.
    #[serde(default)]
    frames: Vec<u32>,
    /// The class's rate in Mbit/s.
    rate: f64,
    /// The rate of each source, in Mbit/s of the generator's frames.
    offered: Vec<f64>,
    /// The value of `$burst` in the policy.
    burst: String,
    /// Replaces `$kernel`: deviations from `htb-2.6.5`'s defaults.
    #[serde(default = "defaults")]
    kernel: String,
    /// The scenario's file; by default that of the era.
    file: Option<String>,
    /// The packets that each source sends before the next one's turn, if they take turns on one
    /// port; they replace `$on1` and so on.
    #[serde(default)]
    bursts: Vec<u32>,
    /// Replaces `$cpu`: what a packet takes of the processor.
    #[serde(default)]
    cpu: String,
}

fn defaults() -> String {
    "{}".to_owned()
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let rows: Vec<Row> = run.setting("row")?;
    let axis: String = run.setting("axis")?;
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    let mut plot = Plot::new(Kind::Lines, &title, &axis, "out in Mbit/s");
    let mut measured = Measured::default();
    let (mut table, mut outs) = (Vec::new(), Vec::new());
    for row in &rows {
        let scenario = row.scenario(run)?;
        let report = weir_sim::run(&scenario, &mut |_| {}).map_err(|error| error.to_string())?;
        let out = row.figures(&report, &scenario, &mut measured);
        outs.push(out);
        match plot.series.iter_mut().find(|series| series.name == row.line) {
            Some(series) => series.points.push((row.x, out)),
            None => plot = plot.with(&row.line, vec![(row.x, out)]),
        }
        let offered: f64 = row.offered.iter().sum();
        let cells =
            [&row.burst, &row.frame.to_string(), &format!("{offered}"), &format!("{out:.2}")];
        table.push(cells.map(String::clone).to_vec());
        measured.setup = Some(setup(&scenario));
    }
    let highest = outs.iter().copied().fold(f64::MIN, f64::max);
    let lowest = outs.iter().copied().fold(f64::MAX, f64::min);
    measured.figure("spread", highest - lowest, "Mbit/s");
    let columns = ["burst", "frame in B", "in, Mbit/s", "out, Mbit/s"];
    measured.plot(plot).table(&title, &columns, table);
    Ok(measured)
}

impl Row {
    fn scenario(&self, run: &Run<'_>) -> Result<Scenario, String> {
        let size = |frame: u32| format!("{} B", frame - CHECK_SEQUENCE);
        let interval = |(source, mbit): (usize, &f64)| {
            format!("{:.0} ns", f64::from(self.frame(source)) * 8e3 / mbit)
        };
        let intervals: Vec<String> = self.offered.iter().enumerate().map(interval).collect();
        let sizes = (0..self.offered.len()).map(|source| size(self.frame(source)));
        let sizes: Vec<String> = sizes.collect();
        let rate = format!("{} kbit/s", self.rate * 1e3);
        let plain = size(self.frame);
        let mut values = vec![
            ("size", plain.as_str()),
            ("burst", &self.burst),
            ("rate", &rate),
            ("kernel", &self.kernel),
        ];
        values.extend(INTERVALS.into_iter().zip(intervals.iter().map(String::as_str)));
        values.extend(SIZES.into_iter().zip(sizes.iter().map(String::as_str)));
        values.push(("cpu", &self.cpu));
        let turns = self.turns();
        values.extend(turns.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let file = self.file.clone().unwrap_or_else(|| format!("{}.toml", run.era.name()));
        run.scenario(&file, &values)
    }

    /// Returns the length of the frames of a source.
    fn frame(&self, source: usize) -> u32 {
        self.frames.get(source).copied().unwrap_or(self.frame)
    }

    /// Returns `interval`, that of the packets of all sources, and `on1`, `off1`, `start1` and so
    /// on: a source sends its burst, and waits for those of the others.
    fn turns(&self) -> Vec<(String, String)> {
        let sum: f64 = self.offered.iter().sum();
        let interval = f64::from(self.frame) * 8e3 / sum;
        let all: u32 = self.bursts.iter().sum();
        let mut values = vec![("interval".to_owned(), format!("{interval:.0} ns"))];
        let mut before = 0;
        for (number, &burst) in (1..).zip(&self.bursts) {
            // It stops half an interval after its last packet.
            let on = (f64::from(burst) - 0.5) * interval;
            let off = (f64::from(all - burst) + 0.5) * interval;
            let start = f64::from(before) * interval;
            before += burst;
            for (name, nanos) in [("on", on), ("off", off), ("start", start)] {
                values.push((format!("{name}{number}"), format!("{nanos:.0} ns")));
            }
        }
        values
    }

    /// Adds `NAME.out`, the rate sent in Mbit/s of the generator's frames, `NAME.SOURCE` of each
    /// source, and `NAME.SOURCE.in`, what it offered; returns the first.
    fn figures(&self, report: &Report, scenario: &Scenario, measured: &mut Measured) -> f64 {
        let seconds =
            scenario.duration.as_nanos().saturating_sub(scenario.warmup.as_nanos()) as f64 / 1e9;
        let mut out = 0.0;
        for (index, source) in report.sources.iter().enumerate() {
            let bits = f64::from(self.frame(index)) * 8.0;
            let mbit = |packets: u64| packets as f64 * bits / seconds / 1e6;
            let rate = mbit(source.received.packets);
            measured.figure(format!("{}.{}", self.name, source.name), rate, "Mbit/s");
            let offered = mbit(source.sent.packets);
            measured.figure(format!("{}.{}.in", self.name, source.name), offered, "Mbit/s");
            out += rate;
        }
        measured.figure(format!("{}.out", self.name), out, "Mbit/s");
        measured.figure(format!("{}.ratio", self.name), out / self.rate, "");
        out
    }
}

fn setup(scenario: &Scenario) -> Setup {
    let mut setup = Setup::default();
    for source in &scenario.sources {
        setup = setup.edge(&source.name, "Linux, eth0", "100 Mbit/s Ethernet");
    }
    let label = format!("100 Mbit/s, {}", scenario.link.scheduler);
    setup.edge("Linux, eth0", "generator, port 2", &label).tree(&scenario.link.tree)
}

/// The names in the scenario for the interval of each source's packets, and for their length.
const INTERVALS: [&str; 4] = ["interval1", "interval2", "interval3", "interval4"];
const SIZES: [&str; 4] = ["size1", "size2", "size3", "size4"];
/// Bytes of a frame that the kernel does not see.
const CHECK_SEQUENCE: u32 = 4;
