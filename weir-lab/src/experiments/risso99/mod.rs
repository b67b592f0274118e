//! Simulates a router with two incoming links and one outgoing link, whose scheduler cannot see the
//! driver behind it `[risso99]`.
//!
//! A row is one run of a scenario with its own values. Rates are those of IP packets, as the link
//! charges them. Results beyond rates and queues are read from taps.

mod behind;
mod pauses;
mod taps;

use super::Experiment;
use crate::claims::{Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_core::link::LinkPlan;
use weir_core::sched::Tree;
use weir_sim::network::{Network, OutletReport};
use weir_sim::{Report, Scenario, Watch};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "risso99",
    summary: "an ATM router: rates and queues of classes, packets on the link",
    measure: Some(measure),
    own: None,
};

/// One run of a scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Such as `new-100-big`; figures begin with it.
    name: String,
    /// The scenario's file; by default that of the era.
    file: Option<String>,
    /// The line of the plot that it belongs to.
    #[serde(default)]
    line: String,
    /// Its position on that line.
    #[serde(default)]
    x: f64,
    /// The value of each `$name`.
    #[serde(default)]
    fill: BTreeMap<String, String>,
}

/// The figures of each row that are plotted and printed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    /// Figures without the name of their row.
    figures: Vec<String>,
    /// The label of the horizontal axis.
    axis: String,
    /// The label of the vertical axis.
    label: String,
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let rows: Vec<Row> = run.setting(run.era.name())?;
    let shown: Shown = run.setting("shown")?;
    let explains = run.sheet.settings.contains_key("explain");
    let mut measured = Measured::default();
    for row in &rows {
        let scenario = row.scenario(run)?;
        let watch = Watch { slowest: explains.then_some(0), ..Watch::default() };
        let report = weir_sim::run_watched(&scenario, watch, &mut |_| {});
        let report = report.map_err(|error| error.to_string())?;
        if !report.conservation.holds {
            return Err(format!("{}: packets are not all accounted for", row.name));
        }
        row.figures(&report, &scenario, &mut measured)?;
        measured.setup = Some(setup(&scenario));
    }
    if run.sheet.settings.contains_key("ratios") {
        for ratio in run.setting::<Vec<Ratio>>("ratios")? {
            ratio.figure(&mut measured);
        }
    }
    shown.add(run, &rows, &mut measured);
    Ok(measured)
}

/// A figure that is one figure divided by another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratio {
    name: String,
    of: String,
    to: String,
}

impl Ratio {
    /// Adds it if there are both.
    fn figure(self, measured: &mut Measured) {
        if let (Some(of), Some(to)) = (measured.value(&self.of), measured.value(&self.to))
            && to > 0.0
        {
            measured.figure(self.name, of / to, "");
        }
    }
}

impl Row {
    fn scenario(&self, run: &Run<'_>) -> Result<Scenario, String> {
        // What the sheet fills for all rows, a row may fill otherwise.
        let common: BTreeMap<String, String> = match run.sheet.settings.get("fill") {
            Some(_) => run.setting("fill")?,
            None => BTreeMap::new(),
        };
        let all: BTreeMap<&String, &String> = common.iter().chain(&self.fill).collect();
        let values: Vec<(&str, &str)> =
            all.into_iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let file = self.file.clone().unwrap_or_else(|| format!("{}.toml", run.era.name()));
        run.scenario(&file, &values)
    }

    /// Adds `ROW.rate` of the whole link, `ROW.CLASS.rate` and so on of each class,
    /// `ROW.SOURCE.goodput` of each source, `ROW.SOURCE.rate` of the class that its packets went
    /// to, with the setting `explain` also `ROW.CLASS.regulated`, the part of the time in which its
    /// first packet waited since the class was overlimit, and the figures of taps.
    fn figures(
        &self,
        report: &Report,
        scenario: &Scenario,
        measured: &mut Measured,
    ) -> Result<(), String> {
        let network = report.network.as_ref().ok_or("the scenario is no network")?;
        let outlet = network.outlets.iter().find(|outlet| outlet.classes.len() > 1);
        let outlet = outlet.ok_or("no link has classes")?;
        self.classes(outlet, &scenario.link.tree, measured);
        measured.figure(format!("{}.idle", self.name), 100.0 * (1.0 - outlet.utilisation), "%");
        let contended = 100.0 * outlet.contended_share();
        measured.figure(format!("{}.contended", self.name), contended, "%");
        for source in &report.sources {
            let name = format!("{}.{}", self.name, source.name);
            let goodput = source.goodput_bps as f64 / 1e3;
            measured.figure(format!("{name}.goodput"), goodput, "kbit/s");
            let received = source.received.packets as f64;
            measured.figure(format!("{name}.received"), received, "packets");
            if let Some(rate) = rate_of_class(outlet, &source.class) {
                measured.figure(format!("{name}.rate"), rate, "kbit/s");
            }
        }
        let span = (report.duration.as_nanos() - report.warmup.as_nanos()) as f64;
        for class in report.explain.iter().flat_map(|explain| &explain.classes) {
            let held = class.parts.undertime.mean.as_nanos() as f64 * class.packets as f64;
            let name = format!("{}.{}.regulated", self.name, class.name);
            measured.figure(name, 100.0 * held / span, "%");
        }
        taps::figures(&self.name, &network.taps, scenario, measured);
        behind::figures(&self.name, &network.taps, measured);
        pauses::figures(&self.name, &network.taps, &scenario.link.tree, measured);
        Ok(())
    }

    /// Of the link it also adds the `error`, the largest relative difference of a class from its
    /// rate in percent, the `ratio` of the first class to the second, and the `spread`, of the
    /// fastest to the slowest.
    fn classes(&self, outlet: &OutletReport, tree: &Tree, measured: &mut Measured) {
        let (mut rates, mut error) = (Vec::new(), 0.0f64);
        for class in outlet.classes.iter().filter(|class| class.leaf) {
            let name = format!("{}.{}", self.name, class.name);
            let rate = class.sent.bits_per_second as f64 / 1e3;
            rates.push(rate);
            measured.figure(format!("{name}.rate"), rate, "kbit/s");
            measured.figure(format!("{name}.offered"), class.offered.packets as f64, "packets");
            let delay = class.delay.mean.as_nanos() as f64 / 1e6;
            measured.figure(format!("{name}.delay"), delay, "ms");
            let most = class.delay.max.as_nanos() as f64 / 1e6;
            measured.figure(format!("{name}.delay-most"), most, "ms");
            if let Some(queue) = outlet.queue(&class.name) {
                measured.figure(format!("{name}.queue"), queue.mean, "packets");
                measured.figure(format!("{name}.empty"), 100.0 * queue.empty, "%");
            }
            if let Some(wanted) = configured(tree, &class.name) {
                error = error.max((rate * 1e3 / wanted - 1.0).abs() * 100.0);
            }
        }
        measured.figure(format!("{}.rate", self.name), rates.iter().sum(), "kbit/s");
        measured.figure(format!("{}.error", self.name), error, "%");
        let most = rates.iter().copied().fold(0.0, f64::max);
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        if let [first, second, ..] = rates[..]
            && least > 0.0
        {
            measured.figure(format!("{}.ratio", self.name), first / second, "");
            measured.figure(format!("{}.spread", self.name), most / least, "");
        }
    }
}

/// Returns what a class sent, in kbit/s.
fn rate_of_class(outlet: &OutletReport, name: &str) -> Option<f64> {
    let class = outlet.classes.iter().find(|class| class.name == name)?;
    Some(class.sent.bits_per_second as f64 / 1e3)
}

/// Returns the rate of a class as written, in bit/s.
pub(super) fn configured(tree: &Tree, name: &str) -> Option<f64> {
    let (_, class) = tree.classes().find(|(_, class)| class.name == name)?;
    Some(class.params.rate("rate")?.bits_per_second() as f64)
}

impl Shown {
    /// Adds a line for each of the rows' lines and each figure, and a table of all.
    fn add(&self, run: &Run<'_>, rows: &[Row], measured: &mut Measured) {
        let title = format!("{}: {}, {}", run.sheet.id, run.sheet.title, run.era.name());
        let plots = match self.axis.as_str() {
            "run" => self.bars(&title, rows, measured),
            _ => vec![self.lines(&title, rows, measured)],
        };
        let has = |figure: &&String| {
            rows.iter().any(|row| measured.value(&format!("{}.{figure}", row.name)).is_some())
        };
        let figures: Vec<&String> = self.figures.iter().filter(has).collect();
        let cells = |row: &Row| {
            let value = |figure: &String| measured.value(&format!("{}.{figure}", row.name));
            let print =
                |value: Option<f64>| value.map_or_else(String::new, |it| format!("{it:.2}"));
            let values = figures.iter().map(|figure| print(value(figure)));
            std::iter::once(row.name.clone()).chain(values).collect()
        };
        let table = rows.iter().map(cells).collect();
        let mut columns = vec!["run"];
        columns.extend(figures.iter().map(|figure| figure.as_str()));
        if !figures.is_empty() {
            measured.table(&title, &columns, table);
        }
        measured.plots.extend(plots);
    }

    /// Makes a group of bars for each row; figures of one unit share a plot.
    fn bars(&self, title: &str, rows: &[Row], measured: &Measured) -> Vec<Plot> {
        let mut plots: Vec<Plot> = Vec::new();
        for figure in &self.figures {
            let found = |(place, row): (usize, &Row)| {
                let found = measured.figures.get(&format!("{}.{figure}", row.name))?;
                Some((place as f64, found))
            };
            let found: Vec<_> = rows.iter().enumerate().filter_map(found).collect();
            let Some(&(_, first)) = found.first() else { continue };
            let unit = if first.unit.is_empty() { "ratio" } else { &first.unit };
            let points = found.iter().map(|&(x, figure)| (x, figure.mean)).collect();
            let place = plots.iter().position(|plot| plot.y == unit).unwrap_or_else(|| {
                let names = rows.iter().map(|row| row.name.as_str());
                plots.push(Plot::new(Kind::Bars, title, "run", unit).named(names));
                plots.len() - 1
            });
            plots[place] = plots[place].clone().with(figure, points);
        }
        plots
    }

    fn lines(&self, title: &str, rows: &[Row], measured: &Measured) -> Plot {
        let mut plot = Plot::new(Kind::Lines, title, &self.axis, &self.label);
        for figure in &self.figures {
            for row in rows {
                let Some(value) = measured.value(&format!("{}.{figure}", row.name)) else {
                    continue;
                };
                let name = match self.figures.len() {
                    1 => row.line.clone(),
                    _ => format!("{} {figure}", row.line),
                };
                match plot.series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push((row.x, value)),
                    None => plot = plot.with(name, vec![(row.x, value)]),
                }
            }
        }
        plot
    }
}

fn setup(scenario: &Scenario) -> Setup {
    let mut setup = Setup::default();
    if let Some(network) = &scenario.network {
        setup = edges(setup, network, &scenario.link);
    }
    setup.tree(&scenario.link.tree)
}

fn edges(mut setup: Setup, network: &Network, main: &LinkPlan) -> Setup {
    for link in &network.links {
        let [from, to] = link.ends.map(|end| network.nodes[end.0 as usize].name.as_str());
        let plan = link.outlets[0].queueing.as_ref().map_or(main, |own| &own.link);
        let label = format!("{}: {}, {}", link.name, plan.tree.rate(), plan.scheduler);
        setup = setup.edge(from, to, &label);
    }
    setup
}
