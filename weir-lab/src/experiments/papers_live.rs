//! The papers' experiments on real packets: the loop of `weir up` between private networks, with
//! the traffic of `weir send` and the kernel's TCP, beside the simulation of the same scenario
//! with what a probe says that this host adds.
//!
//! A sheet with `live = true` has its scenarios in `live.toml`, in the form of the score's.
//! Figures: `SCENARIO.CLASS.rate` (kbit/s by charged length), `.p50`, `.p99`, `.max` (ms in the
//! link) and `.loss` (%), the same behind `simulated.`, and `SCENARIO.rate` of all classes.
//! `SCENARIO.CLASS.apart` is the largest distance between the measured and the simulated
//! distribution of delays (0 to 1), `SCENARIO.apart` the mean of all classes'. `SCENARIO.error` is
//! the largest difference of a class from its written rate (%), and `SCENARIO.SOURCE.goodput` is
//! what arrived of a source (kbit/s of payload, from its first packet to its last).
//! `rates` is the series of all classes' rates, each as a percentage of the simulated. Where the
//! scenario has lines for the kernel, `SCENARIO.goodput` and `SCENARIO.kernel.goodput` (kbit/s of
//! payload) compare both.

use super::{Experiment, risso99};
use crate::claims::{Kind, Measured, Plot, Run};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;
use weir_bench::score::calibrate::{self, Calibration};
use weir_bench::score::{Pair, Side};
use weir_traffic::{ReceiveReport, SendPlan};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "papers-live",
    summary: "a paper's experiments on real packets, beside the calibrated simulation",
    measure: Some(measure),
    own: None,
};

/// Measures each pair live; [`weir_bench::rig::prepare`] must be called before.
fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let seconds: u64 = run.setting("seconds")?;
    let host = calibration()?.host;
    let mut measured = Measured::default();
    let (mut rates, mut rows) = (Vec::new(), Vec::new());
    for pair in Pair::read_all(run.text("live.toml")?, Duration::from_secs(seconds))? {
        let live = pair.live()?;
        let simulated = pair.simulate(&host)?;
        figures(&pair.name, &live.classes, &mut measured);
        figures(&format!("simulated.{}", pair.name), &simulated, &mut measured);
        measured.figure(format!("{}.error", pair.name), error(&pair, &live.classes), "%");
        sources(&pair, &live.received, &mut measured);
        let mut apart = 0.0;
        for (class, side) in &live.classes {
            let beside = simulated.get(class).cloned().unwrap_or_default();
            let distance = side.distance(&beside);
            apart += distance / live.classes.len() as f64;
            measured.figure(format!("{}.{class}.apart", pair.name), distance, "");
            rates.push(100.0 * side.rate_bps / beside.rate_bps.max(f64::MIN_POSITIVE));
            rows.push(row(&format!("{}: {class}", pair.name), side, &beside));
        }
        measured.figure(format!("{}.apart", pair.name), apart, "");
        if pair.has_kernel() {
            let kernel = pair.live_in_kernel()?;
            measured.figure(format!("{}.goodput", pair.name), goodput(&live.received), "kbit/s");
            measured.figure(format!("{}.kernel.goodput", pair.name), goodput(&kernel), "kbit/s");
        }
    }
    let numbered = |values: Vec<f64>| values.into_iter().enumerate();
    let points = numbered(rates.clone()).map(|(place, value)| (place as f64, value)).collect();
    let names = rows.iter().map(|row| row[0].as_str());
    let plot = Plot::new(Kind::Bars, "Rates as a part of the simulated", "class", "%");
    measured.plot(plot.named(names).with("live", points));
    measured.series("rates", rates);
    measured.table("Live beside simulated", &COLUMNS, rows);
    Ok(measured)
}

/// One probe serves all sheets of a run.
pub(super) fn calibration() -> Result<&'static Calibration, String> {
    static PROBED: OnceLock<Result<Calibration, String>> = OnceLock::new();
    PROBED.get_or_init(|| calibrate::probe(PROBE)).as_ref().map_err(Clone::clone)
}

fn figures(name: &str, classes: &BTreeMap<String, Side>, measured: &mut Measured) {
    let mut total = 0.0;
    for (class, side) in classes {
        let rate = side.rate_bps / 1e3;
        total += rate;
        measured.figure(format!("{name}.{class}.rate"), rate, "kbit/s");
        for (figure, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            measured.figure(format!("{name}.{class}.{figure}"), side.quantile_ms(part), "ms");
        }
        measured.figure(format!("{name}.{class}.loss"), side.loss * 100.0, "%");
    }
    measured.figure(format!("{name}.rate"), total, "kbit/s");
}

/// Returns the largest difference of a class from its written rate in percent.
fn error(pair: &Pair, classes: &BTreeMap<String, Side>) -> f64 {
    let tree = &pair.policy().link.tree;
    let off = |(class, side): (&String, &Side)| {
        let wanted = risso99::configured(tree, class)?;
        Some((side.rate_bps / wanted - 1.0).abs() * 100.0)
    };
    classes.iter().filter_map(off).fold(0.0, f64::max)
}

/// Adds what arrived of each source; of one that never arrived, 0.
fn sources(pair: &Pair, received: &ReceiveReport, measured: &mut Measured) {
    let first = SendPlan::new(Vec::new()).first_stream;
    for (number, source) in (first..).zip(&pair.scenario.sources) {
        let own = received.streams.iter().filter(|stream| stream.stream == Some(number));
        let goodput = own.map(|stream| stream.goodput_mbit_s * 1e3).sum();
        measured.figure(format!("{}.{}.goodput", pair.name, source.name), goodput, "kbit/s");
    }
}

fn row(name: &str, live: &Side, simulated: &Side) -> Vec<String> {
    let pair =
        |value: fn(&Side) -> f64| [live, simulated].map(|side| format!("{:.2}", value(side)));
    let values = [
        pair(|side| side.rate_bps / 1e3),
        pair(|side| side.quantile_ms(0.5)),
        pair(|side| side.quantile_ms(0.99)),
        pair(|side| side.loss * 100.0),
    ];
    std::iter::once(name.to_owned()).chain(values.into_iter().flatten()).collect()
}

/// Returns the payload of all streams in kbit/s, over the time of the longest: another one may have
/// lost every packet for a while.
pub(super) fn goodput(received: &ReceiveReport) -> f64 {
    let seconds = received.streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let bytes: u64 = received.streams.iter().map(|stream| stream.bytes).sum();
    if seconds > 0.0 { bytes as f64 * 8e-3 / seconds } else { 0.0 }
}

const PROBE: Duration = Duration::from_secs(12);
const COLUMNS: [&str; 9] = [
    "class",
    "kbit/s",
    "simulated",
    "p50 ms",
    "simulated",
    "p99 ms",
    "simulated",
    "lost %",
    "simulated",
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_bench::rig;
    use weir_import::export::{self, Filters};
    use weir_import::import::{self, Options};
    use weir_sim::Host;

    const BENITA: &str = include_str!("../../../papers/benita/benita-live/live.toml");
    const MEASURED: Duration = Duration::from_secs(2);

    /// Reads lines of `tc` for a link of 1 Gbit/s, as the policies of the sheet have it: the import
    /// takes the rate of the classes for that of the link.
    fn imported(lines: &str) -> String {
        let tc = import::find("tc").unwrap_or_else(|| panic!("tc is a language"));
        let outcome = import::read(tc, lines.as_bytes(), "kernel", &Options::default());
        let import = outcome.plan.unwrap_or_else(|| panic!("{lines}: {:?}", outcome.findings));
        let lost = import.lines.iter().filter(|line| line.fate == import::Fate::Lost);
        assert_eq!(lost.count(), 0, "{lines}: {:?}", import.lines);
        let policy = &import.policies[0].policy;
        let (head, rate) = policy.split_once("rate = ").unwrap_or_else(|| panic!("{policy}"));
        let rest = rate.split_once('\n').map_or("", |(_, rest)| rest);
        format!("{head}rate = \"1 Gbit/s\"\n{rest}")
    }

    fn exported(policy: &str) -> String {
        let read = rig::policy(policy).unwrap_or_else(|error| panic!("{error}"));
        let exported = export::to_tc(&read, "RIGHT", Filters::U32);
        let exported = exported.unwrap_or_else(|error| panic!("{error}"));
        assert!(exported.lost.is_empty(), "{policy}: {:?}", exported.lost);
        exported.batch()
    }

    /// Returns the scenario with a policy in the place of its own.
    fn with(scenario: &toml::Value, policy: &str) -> Pair {
        let mut scenario = scenario.clone();
        let policy: toml::Table = policy.parse().unwrap_or_else(|error| panic!("{error}"));
        let table = scenario.as_table_mut().unwrap_or_else(|| panic!("a scenario is a table"));
        table.insert("policy".to_owned(), policy.into());
        let text = toml::to_string(&toml::Table::from_iter([(
            "scenario".to_owned(),
            toml::Value::from(vec![scenario]),
        )]));
        let text = text.unwrap_or_else(|error| panic!("{error}"));
        let pairs = Pair::read_all(&text, MEASURED).unwrap_or_else(|error| panic!("{error}"));
        pairs[0].clone()
    }

    fn sides(pair: &Pair) -> Vec<Side> {
        let classes = pair.simulate(&Host::default()).unwrap_or_else(|error| panic!("{error}"));
        classes.into_values().collect()
    }

    /// The kernel's commands beside a policy are imported as that policy, and the export of that is
    /// imported alike.
    #[test]
    fn the_kernels_lines_of_benita_are_the_policies_beside_them() {
        let top: toml::Table = BENITA.parse().unwrap_or_else(|error| panic!("{error}"));
        let scenarios = top["scenario"].as_array().unwrap_or_else(|| panic!("there are some"));
        let own = Pair::read_all(BENITA, MEASURED).unwrap_or_else(|error| panic!("{error}"));
        let mut tried = 0;
        for (scenario, own) in scenarios.iter().zip(&own) {
            let Some(lines) = scenario.get("kernel").and_then(toml::Value::as_str) else {
                continue;
            };
            let policy = imported(lines);
            // The export writes what tc leaves out; a further one changes nothing.
            let again = imported(&exported(&policy));
            assert_eq!(imported(&exported(&again)), again, "{}", own.name);
            assert_eq!(sides(&with(scenario, &again)), sides(&with(scenario, &policy)));
            let (own_sides, other) = (sides(own), sides(&with(scenario, &policy)));
            assert_eq!(own_sides.len(), other.len(), "{}: {policy}", own.name);
            for (one, other) in own_sides.iter().zip(&other) {
                let part = other.rate_bps / one.rate_bps;
                assert!((part - 1.0).abs() < 0.001, "{}: {part}\n{policy}", own.name);
                assert!((other.loss - one.loss).abs() < 0.001, "{}: {policy}", own.name);
            }
            tried += 1;
        }
        assert!(tried >= 9, "every scenario of HTB was tried: {tried}");
    }
}
