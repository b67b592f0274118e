//! Measures voice, video, web and files through delay-bounded proportional delay, CBQ and
//! priorities `[nieminen]`.
//!
//! A run has each scheduler at each load; the load is the offered rate divided by the line's, as in
//! the paper. The CBQ of historic runs is ALTQ's, that of sound ones this program's, both with
//! deficit round robin. Figures are `LOAD.SCHEDULER.CLASS.QUANTITY`, where CBQ is `cbq`.
//! `LOAD.SCHEDULER.reversed` counts neighbouring classes of which the first has the longer median,
//! `LOAD.SCHEDULER.CLASS.near` is the part of half seconds in which a class has its guarantee
//! within 5 %.
//!
//! With the setting `variant` the sheet varies what the paper leaves open: each has its load, and
//! other texts of sources or another safety margin of the delay bound; its name replaces `LOAD`.
//!
//! With the setting `overhead_us` packets pass a stage behind the scheduler that takes this time
//! for each, and twice for one that was sent on loan [algorithms §13.5]; it delays no other packet.
//! `LOAD.SCHEDULER.lent` is the part of packets on loan, `LOAD.SCHEDULER.raised` how much longer
//! packets take with the stage, both in percent.

use super::Experiment;
use crate::claims::{Era, Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_core::units::Duration;
use weir_sim::report::ClassReport;
use weir_sim::{Report, Scenario, Watch};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nieminen",
    summary: "voice, video, web and files: proportional delay, CBQ, priorities",
    measure: Some(measure),
    own: None,
};

/// A variant of load, sources and margin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    /// Figures begin with it.
    name: String,
    /// The offered rate as a percentage of the line's.
    load: u32,
    /// Other texts of sources, without their ending: the file that replaces each of [`SOURCES`].
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Replaces `$margin`, the safety margin of the delay bound.
    #[serde(default = "none")]
    margin: String,
}

fn none() -> String {
    "0 ms".to_owned()
}

/// The results of each class in one run.
struct Classes {
    scheduler: &'static str,
    /// Milliseconds in the queue: median, mean, 99th percentile, maximum.
    delays: [[f64; 4]; 4],
    /// In Mbit/s, as sent.
    rates: [f64; 4],
    /// Mbit/s in each bin.
    bins: [Vec<f64>; 4],
    /// The mean delay of all packets in ms, and the part of them that was sent on loan.
    all: (f64, f64),
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for variant in variants(run)? {
        let mut all = Vec::new();
        for scheduler in SCHEDULERS {
            let classes = Classes::measure(run, &variant, scheduler)?;
            classes.figures(&variant, &mut measured);
            if let Ok(overhead) = run.setting("overhead_us") {
                classes.raised(&variant, overhead, &mut measured);
            }
            all.push(classes);
        }
        show(run, &variant, &all, &mut measured);
    }
    measured.setup = Some(setup(run));
    Ok(measured)
}

/// Returns the loads of the sheet as they are, and its variants.
fn variants(run: &Run<'_>) -> Result<Vec<Variant>, String> {
    let loads: Vec<u32> = run.setting("loads")?;
    let plain = |load: u32| Variant {
        name: load.to_string(),
        load,
        files: BTreeMap::new(),
        margin: none(),
    };
    let mut variants: Vec<Variant> = loads.into_iter().map(plain).collect();
    if run.sheet.settings.contains_key("variant") {
        variants.extend(run.setting::<Vec<Variant>>("variant")?);
    }
    Ok(variants)
}

impl Classes {
    fn measure(run: &Run<'_>, variant: &Variant, scheduler: &'static str) -> Result<Self, String> {
        let scenario = scenario(run, variant, scheduler)?;
        let slowest = run.setting::<f64>("overhead_us").is_ok().then_some(0);
        let watch = Watch { bins: Some(BIN), slowest, ..Watch::default() };
        let report = weir_sim::run_watched(&scenario, watch, &mut |_| {});
        let report = report.map_err(|error| error.to_string())?;
        if !report.conservation.holds {
            let name = &variant.name;
            return Err(format!("{scheduler}, {name}: packets are not all accounted for"));
        }
        Self::of(&report, scheduler)
    }

    fn of(report: &Report, scheduler: &'static str) -> Result<Self, String> {
        let bins = report.bins.as_ref().ok_or("no bins")?;
        let warmup = report.warmup.as_nanos() / BIN.as_nanos();
        let mut this = Self {
            scheduler,
            delays: [[0.0; 4]; 4],
            rates: [0.0; 4],
            bins: [const { Vec::new() }; 4],
            all: all(report),
        };
        for (index, name) in CLASSES.into_iter().enumerate() {
            let missing = || format!("no class `{name}`");
            let class = report.class(name).ok_or_else(missing)?;
            let delay = &class.delay;
            this.delays[index] = [delay.p50, delay.mean, delay.p99, delay.max]
                .map(|delay| delay.as_nanos() as f64 / 1e6);
            this.rates[index] = class.sent.bits_per_second as f64 / 1e6;
            let row = bins.classes.iter().find(|row| row.name == name).ok_or_else(missing)?;
            let counted = row.bytes.iter().skip(warmup as usize);
            let megabits = |&bytes: &u64| bytes as f64 * 8e3 / BIN.as_nanos() as f64;
            this.bins[index] = counted.map(megabits).collect();
        }
        Ok(this)
    }

    fn figures(&self, variant: &Variant, measured: &mut Measured) {
        let (name, load) = (format!("{}.{}", variant.name, self.scheduler), variant.load);
        for (index, class) in CLASSES.into_iter().enumerate() {
            for (quantity, delay) in QUANTITIES.into_iter().zip(self.delays[index]) {
                measured.figure(format!("{name}.{class}.{quantity}"), delay, "ms");
            }
            measured.figure(format!("{name}.{class}.rate"), self.rates[index], "Mbit/s");
            let peak = peak(&self.bins[index], guarantee(index, load));
            measured.figure(format!("{name}.{class}.peak"), peak, "");
            let near = near(&self.bins[index], guarantee(index, load));
            measured.figure(format!("{name}.{class}.near"), near, "%");
            let varies = 100.0 * deviation(&self.bins[index]);
            measured.figure(format!("{name}.{class}.varies"), varies, "%");
        }
        let reversed = self.delays.windows(2).filter(|pair| pair[0][0] > pair[1][0]).count();
        measured.figure(format!("{name}.reversed"), reversed as f64, "");
        let [voip, video, http, ftp] = self.rates;
        let (real, rest) = (voip + video, http + ftp);
        measured.figure(format!("{name}.rt.rate"), real, "Mbit/s");
        measured.figure(format!("{name}.nrt.rate"), rest, "Mbit/s");
        measured.figure(format!("{name}.nrt.part"), rest / (real + rest) * 100.0, "%");
    }
}

impl Classes {
    /// Adds the effect of the stage that takes `overhead` µs.
    fn raised(&self, variant: &Variant, overhead: f64, measured: &mut Measured) {
        let (name, (delay, lent)) = (format!("{}.{}", variant.name, self.scheduler), self.all);
        let raised = overhead / 1e3 * (1.0 + lent) / delay;
        measured.figure(format!("{name}.delay"), delay, "ms");
        measured.figure(format!("{name}.lent"), 100.0 * lent, "%");
        measured.figure(format!("{name}.raised"), 100.0 * raised, "%");
    }
}

/// Returns the mean delay of all packets in ms, and the part on loan as explained.
fn all(report: &Report) -> (f64, f64) {
    let leaves = || CLASSES.into_iter().filter_map(|name| report.class(name));
    let packets: f64 = leaves().map(|class| class.delay.count as f64).sum();
    let millis = |class: &ClassReport| class.delay.mean.as_nanos() as f64 / 1e6;
    let sum: f64 = leaves().map(|class| class.delay.count as f64 * millis(class)).sum();
    let explained = report.explain.iter().flat_map(|explain| &explain.classes);
    let explained = explained.filter(|class| CLASSES.contains(&class.name.as_str()));
    let (mut sent, mut lent) = (0u64, 0u64);
    for class in explained {
        sent += class.packets;
        lent += class.lenders.values().sum::<u64>();
    }
    (sum / packets.max(1.0), lent as f64 / sent.max(1) as f64)
}

/// Returns the rate around which most bins are, as a part of the guarantee: the middle of the
/// interval of a tenth of the guarantee that holds the most bins, tried every hundredth; the first
/// of equals.
fn peak(bins: &[f64], guarantee: f64) -> f64 {
    let parts: Vec<f64> = bins.iter().map(|rate| rate / guarantee).collect();
    let count_around =
        |middle: f64| parts.iter().filter(|&&part| (part - middle).abs() <= 0.05).count();
    let mut best = (0, 0.0);
    for hundredth in 5..=300 {
        let middle = f64::from(hundredth) / 100.0;
        let count = count_around(middle);
        if count > best.0 {
            best = (count, middle);
        }
    }
    best.1
}

/// Returns the percentage of bins whose rate is within a twentieth of the guarantee.
fn near(bins: &[f64], guarantee: f64) -> f64 {
    let within = |rate: &&f64| (*rate / guarantee - 1.0).abs() <= 0.05;
    100.0 * bins.iter().filter(within).count() as f64 / bins.len().max(1) as f64
}

/// Returns the standard deviation of rates as a part of their mean.
fn deviation(rates: &[f64]) -> f64 {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

fn scenario(run: &Run<'_>, variant: &Variant, scheduler: &str) -> Result<Scenario, String> {
    let mut sources = String::new();
    let counts: BTreeMap<String, u32> = match run.sheet.settings.get("sources") {
        Some(_) => run.setting("sources")?,
        None => BTreeMap::new(),
    };
    for (file, count) in SOURCES {
        let count = counts.get(file).copied().unwrap_or(count);
        let file = variant.files.get(file).map_or(file, String::as_str);
        let file = &format!("{file}.toml");
        for number in 0..count {
            let start = format!("{} ms", number * 7);
            sources += &run.filled(file, &[("number", &number.to_string()), ("start", &start)])?;
            sources.push('\n');
        }
    }
    let rate =
        |percent: u64| format!("{} bit/s", OFFERED / u64::from(variant.load.max(1)) * percent);
    let rates = [100, 30, 70, 10, 20, 40].map(rate);
    let cbq = match run.era {
        Era::Historic => "cbq-altq",
        Era::Sound => "cbq",
    };
    let words = match run.era {
        Era::Historic => "{ preset = \"altq3\", hz = 1000, general = \"drr\" }",
        Era::Sound => "{ general = \"drr\" }",
    };
    let values = [
        ("link", rates[0].as_str()),
        ("realtime", &rates[1]),
        ("rest", &rates[2]),
        ("voip", &rates[3]),
        ("video", &rates[4]),
        ("http", &rates[5]),
        ("cbq", cbq),
        ("words", words),
        ("margin", &variant.margin),
        ("sources", &sources),
    ];
    run.scenario(&format!("{scheduler}.toml"), &values)
}

/// Returns the rate that CBQ guarantees a class, in Mbit/s.
fn guarantee(class: usize, load: u32) -> f64 {
    [10.0, 20.0, 40.0, 30.0][class] * OFFERED as f64 / 1e6 / f64::from(load.max(1))
}

fn show(run: &Run<'_>, variant: &Variant, all: &[Classes], measured: &mut Measured) {
    let Variant { name, load, .. } = variant;
    let which = if *name == load.to_string() { String::new() } else { format!("{name}, ") };
    let title = format!("{}: {which}{load} % load", run.sheet.id);
    let mut plot =
        Plot::new(Kind::Bars, &format!("{title}: mean delay in the queue"), "class", "ms")
            .named(CLASSES);
    let mut rows = Vec::new();
    for classes in all {
        let points = classes.delays.iter().enumerate().map(|(x, delay)| (x as f64, delay[1]));
        plot = plot.with(classes.scheduler, points.collect());
        for (index, class) in CLASSES.into_iter().enumerate() {
            let delays = classes.delays[index].map(|delay| format!("{delay:.2}"));
            let rate = format!("{:.3}", classes.rates[index]);
            let mut row = vec![classes.scheduler.to_owned(), class.to_owned(), rate];
            row.extend(delays);
            rows.push(row);
        }
    }
    for (index, class) in CLASSES.into_iter().enumerate() {
        let title = format!("{title}: delays of {class}");
        let mut delays =
            Plot::new(Kind::Bars, &title, "delay in the queue", "ms").named(QUANTITIES);
        for classes in all {
            let points = classes.delays[index].into_iter().enumerate();
            delays = delays.with(classes.scheduler, points.map(|(x, y)| (x as f64, y)).collect());
        }
        measured.plot(delays);
    }
    let columns = ["scheduler", "class", "Mbit/s", "median, ms", "mean", "99 %", "longest"];
    measured.plot(plot).table(&title, &columns, rows);
    for classes in all.iter().filter(|classes| classes.scheduler != "priq") {
        let title = format!("{title}: bandwidth, {}", classes.scheduler);
        let mut plot = Plot::new(Kind::Steps, &title, "time after the warm-up in s", "Mbit/s");
        for (name, bins) in CLASSES.into_iter().zip(&classes.bins) {
            let at = |(bin, &rate): (usize, &f64)| (bin as f64 * BIN.as_nanos() as f64 / 1e9, rate);
            plot = plot.with(name, bins.iter().enumerate().map(at).collect());
        }
        measured.plot(plot);
    }
}

fn setup(run: &Run<'_>) -> Setup {
    let cbq = match run.era {
        Era::Historic => "cbq-altq with drr",
        Era::Sound => "cbq with drr",
    };
    Setup::default()
        .edge("30 calls, 4 films, web readers, 10 file senders", "router", "10 Mbit/s offered")
        .edge("router", "sink", &format!("10 Mbit/s divided by the load; dbhpd, {cbq}, priq"))
        .class("root", None, "100 %")
        .class("realtime", Some("root"), "30 %")
        .class("rest", Some("root"), "70 %")
        .class("voip", Some("realtime"), "10 %, 15 packets")
        .class("video", Some("realtime"), "20 %, 15 packets")
        .class("http", Some("rest"), "40 %, 80 packets")
        .class("ftp", Some("rest"), "30 %, 200 packets")
}

/// The scenarios of an experiment, without their ending.
const SCHEDULERS: [&str; 3] = ["dbhpd", "cbq", "priq"];
/// The classes of the scenarios, in the paper's order.
const CLASSES: [&str; 4] = ["voip", "video", "http", "ftp"];
/// The names of [`Classes::delays`].
const QUANTITIES: [&str; 4] = ["p50", "mean", "p99", "max"];
/// Texts of sources without their ending, and the number of each unless the setting `sources` has
/// another.
const SOURCES: [(&str, u32); 4] = [("call", 30), ("film", 4), ("pages", 1), ("file", 10)];
/// The offered rate, in bit/s.
const OFFERED: u64 = 10_000_000;
/// The width of bins of rates.
const BIN: Duration = Duration::from_micros(500_000);
