//! Measures the effect of a queue's weight, by dropper and by how the card reports completions
//! `[quadros]`.
//!
//! A row is one run of the experiment's scenario with a weight for the third queue and a dropper;
//! the first queue has weight 100. Historic runs have a card that reports to the driver only when a
//! whole chain of packets is sent, sound ones a card that reports each packet [algorithms §13.4].
//! With the setting `switches` the rows are one run, in which weight and dropper are switched; a
//! live sheet switches a running `weir up`.

mod live;
mod switches;
mod taken;

use super::Experiment;
use crate::claims::{Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_sim::{Report, Scenario};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "quadros",
    summary: "two floods through fair queueing: the effects of weight, dropper and card",
    measure: Some(measure),
    own: None,
};

/// One run of the scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Such as `1000` or `1000-tail`; figures begin with it.
    name: String,
    /// The scenario's file; by default that of the era.
    file: Option<String>,
    /// The weight of the third queue.
    weight: u32,
    /// The dropper of the queues: `longest` or `tail`.
    dropper: String,
    /// The weight of the third queue that the dropper takes, if it is another.
    dropper_weight: Option<u32>,
    /// The value of each other `$name`.
    #[serde(default)]
    fill: BTreeMap<String, String>,
}

/// Selects a figure of both queues.
type Pick = fn(&Queues) -> [f64; 2];

/// The results of both queues.
struct Queues {
    /// In packets a second.
    sent: [f64; 2],
    dropped: [f64; 2],
    /// Milliseconds in the queue.
    delay: [f64; 2],
    /// Packets that wait, on average.
    length: [f64; 2],
    /// The most that wait.
    most: [f64; 2],
    /// Percent of the scheduler's runs that find packets in both.
    both: f64,
    /// Percent of the scheduler's runs that find packets in this one only.
    alone: [f64; 2],
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let rows: Vec<Row> = run.setting("row")?;
    let mut measured = Measured::default();
    if let Ok(seconds) = run.setting("switches") {
        let measure = if run.sheet.live { live::measure } else { switches::measure };
        measure(run, &rows, seconds, &mut measured)?;
        measured.setup = Some(setup(run));
        return Ok(measured);
    }
    let mut all = Vec::with_capacity(rows.len());
    for row in &rows {
        let scenario = row.scenario(run)?;
        let report = weir_sim::run(&scenario, &mut |_| {}).map_err(|error| error.to_string())?;
        if !report.conservation.holds {
            return Err(format!("{}: packets are not all accounted for", row.name));
        }
        let queues = Queues::of(&report, &scenario)?;
        queues.figures(&row.name, &mut measured);
        taken::figures(row, &report, &mut measured);
        all.push(queues);
        measured.setup = Some(setup(run));
    }
    show(run, &rows, &all, &mut measured);
    Ok(measured)
}

impl Row {
    fn scenario(&self, run: &Run<'_>) -> Result<Scenario, String> {
        let [weight, one, three] = self.queues();
        // What the sheet fills for all rows, a row may fill otherwise.
        let common: BTreeMap<String, String> = match run.sheet.settings.get("fill") {
            Some(_) => run.setting("fill")?,
            None => BTreeMap::new(),
        };
        let all: BTreeMap<&String, &String> = common.iter().chain(&self.fill).collect();
        let mut values: Vec<(&str, &str)> =
            all.into_iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        values.extend([("weight", weight.as_str()), ("queue1", &one), ("queue3", &three)]);
        let file = self.file.clone().unwrap_or_else(|| format!("{}.toml", run.era.name()));
        run.scenario(&file, &values)
    }

    /// Returns the weight of the third queue, and how packets wait in the first and in the third.
    fn queues(&self) -> [String; 3] {
        let queue = |weight: u32| match self.dropper.as_str() {
            "tail" => "{ dropper = \"tail\", limit = \"50 packets\" }".to_owned(),
            _ => format!("{{ dropper = \"longest\", limit = \"64 KiB\", weight = {weight} }}"),
        };
        let third = self.dropper_weight.unwrap_or(self.weight);
        [self.weight.to_string(), queue(100), queue(third)]
    }
}

impl Queues {
    fn of(report: &Report, scenario: &Scenario) -> Result<Self, String> {
        let nanos = scenario.duration.as_nanos().saturating_sub(scenario.warmup.as_nanos());
        let seconds = nanos as f64 / 1e9;
        let network = report.network.as_ref().ok_or("the scenario is no network")?;
        let outlet = network.outlet("out", "router").ok_or("no link `out` leaves `router`")?;
        let both = outlet.contended_share() * 100.0;
        let none = [0.0; 2];
        let mut this = Self {
            sent: none,
            dropped: none,
            delay: none,
            length: none,
            most: none,
            both,
            alone: none,
        };
        for (index, name) in NAMES.into_iter().enumerate() {
            let class = report.class(name).ok_or_else(|| format!("no class `{name}`"))?;
            let queue = outlet.queue(name).ok_or_else(|| format!("no queue `{name}`"))?;
            this.sent[index] = class.sent.packets as f64 / seconds;
            this.dropped[index] = class.dropped.total.packets as f64 / seconds;
            this.delay[index] = class.delay.mean.as_nanos() as f64 / 1e6;
            this.length[index] = queue.mean;
            this.most[index] = f64::from(queue.max);
            this.alone[index] = 100.0 * queue.alone as f64 / outlet.runs.max(1) as f64;
        }
        Ok(this)
    }

    /// Adds `ROW.sent1`, `ROW.sent3` and so on, `ROW.ratio` of what they sent, `ROW.both`.
    fn figures(&self, row: &str, measured: &mut Measured) {
        let pairs = [
            ("sent", self.sent, "packets/s"),
            ("dropped", self.dropped, "packets/s"),
            ("delay", self.delay, "ms"),
            ("length", self.length, "packets"),
            ("most", self.most, "packets"),
            ("alone", self.alone, "%"),
        ];
        for (name, [one, three], unit) in pairs {
            measured.figure(format!("{row}.{name}1"), one, unit);
            measured.figure(format!("{row}.{name}3"), three, unit);
        }
        measured.figure(format!("{row}.ratio"), self.sent[1] / self.sent[0], "");
        measured.figure(format!("{row}.both"), self.both, "%");
    }
}

fn show(run: &Run<'_>, rows: &[Row], all: &[Queues], measured: &mut Measured) {
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    let shown: [(&str, Pick); 4] = [
        ("sent, packets/s", |queues| queues.sent),
        ("dropped, packets/s", |queues| queues.dropped),
        ("mean delay in the queue, ms", |queues| queues.delay),
        ("mean length of the queue, packets", |queues| queues.length),
    ];
    for (label, pick) in shown {
        let points = |queue: usize| {
            let value = |queues: &Queues| pick(queues)[queue];
            all.iter().enumerate().map(|(group, queues)| (group as f64, value(queues))).collect()
        };
        let title = format!("{title}: {label}");
        let plot = Plot::new(Kind::Bars, &title, "weight of queue 3", label)
            .named(rows.iter().map(|row| row.name.as_str()));
        measured.plot(plot.with("queue 1", points(0)).with("queue 3", points(1)));
    }
    let row = |(row, queues): (&Row, &Queues)| {
        let pair = |values: [f64; 2]| format!("{:.1} / {:.1}", values[0], values[1]);
        let Queues { sent, dropped, delay, length, both, .. } = queues;
        let delay = format!("{:.2} / {:.2}", delay[0], delay[1]);
        let both = format!("{both:.1} %");
        vec![row.name.clone(), pair(*sent), delay, pair(*dropped), pair(*length), both]
    };
    let columns =
        ["weight", "sent 1/3, packets/s", "delay, ms", "dropped, packets/s", "length", "both"];
    measured.table(&title, &columns, rows.iter().zip(all).map(row).collect());
}

fn setup(run: &Run<'_>) -> Setup {
    let card = match run.era.name() {
        "historic" => "100 Mbit/s, altq-wfq, a card that reports whole chains",
        _ => "100 Mbit/s, altq-wfq, a card that reports each packet",
    };
    Setup::default()
        .edge("SOURCE1", "ROUTER", "8245 packets/s of 1478 B")
        .edge("SOURCE2", "ROUTER", "8245 packets/s of 1478 B")
        .edge("ROUTER", "SINK", card)
        .class("queue 1", None, "weight 100")
        .class("queue 3", None, "weight 30 to 1000")
}

/// The classes of the scenario.
const NAMES: [&str; 2] = ["q1", "q3"];
