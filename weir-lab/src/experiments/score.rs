//! The score of the simulation: twenty-one scenarios, fixed beforehand, live and simulated with
//! what a probe says that this host adds, and without it.
//!
//! The goals of each class: the median delay within 15 % or 0.3 ms of the measured, the 99th
//! percentile within 25 % or 1 ms, the rate within 1 %. A deviation is in parts of what is allowed.

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_bench::score::calibrate::{self, Calibration};
use weir_bench::score::{Pair, SCENARIOS, Side};
use weir_show::{Kind, Plot};
use weir_sim::Host;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "score",
    summary: "20 scenarios live and simulated, with what this host adds and without: delays, rates",
    measure: None,
    own: Some(Own { draws: true, ..Own::live(run) }),
};

type Classes = BTreeMap<String, Side>;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let options = rows.options;
    let mut pairs = Pair::read_all(SCENARIOS, options.duration)?;
    pairs.retain(|pair| options.wants(&pair.name));
    if pairs.is_empty() {
        return Ok(());
    }
    let calibration = calibrate::probe(options.duration.clamp(PROBE_MIN, PROBE_MAX))?;
    rows.add(Row::shown("calibration".to_owned(), calibrated(&calibration)));
    let mut pictures = Pictures::default();
    for pair in pairs {
        rows.extend(measure(&pair, &calibration.host, &mut pictures)?);
    }
    (rows.results.plots, rows.results.notes) = pictures.done();
    Ok(())
}

fn calibrated(calibration: &Calibration) -> String {
    let Calibration { port_us, path_us, host, load, .. } = calibration;
    let window = host.window.map_or(0, |window| window.get() / 1000);
    let acks = calibration.quick_acks;
    format!(
        "port {:.0} us (p99 {:.0}), path {:.0} us (p99 {:.0}), window {window} KB, {acks} segments \
         acknowledged one by one, load {load:.2}",
        port_us[0], port_us[1], path_us[0], path_us[1]
    )
}

fn measure(pair: &Pair, host: &Host, pictures: &mut Pictures) -> Result<Vec<Row>, String> {
    let live = pair.live()?.classes;
    let with = pair.simulate(host)?;
    let without = pair.simulate(&Host::default())?;
    let mut rows = Vec::new();
    for (class, measured) in &live {
        let simulated = with.get(class).cloned().unwrap_or_default();
        rows.extend(judged(&format!("{}: {class}", pair.name), measured, &simulated));
    }
    let (better, worse) = (score(&live, &with), score(&live, &without));
    pictures.add(&pair.name, [worse, better], &rows);
    let parts = [
        ("window", Host { window: host.window, ..Host::default() }),
        ("timestamps", Host { timestamps: host.timestamps, ..Host::default() }),
        ("acknowledgements", Host { quick_acks: host.quick_acks, ..Host::default() }),
        ("path", Host { forward: host.forward, back: host.back, ..Host::default() }),
        ("port", Host { port: host.port, ..Host::default() }),
    ];
    let mut text = format!("{better:.2} with, {worse:.2} without; alone");
    for (name, part) in parts {
        text += &format!(" {name} {:.2}", score(&live, &pair.simulate(&part)?));
    }
    let subject = format!("{}: score", pair.name);
    rows.push(match pair.has_tcp() {
        true => Row {
            holds: better < worse,
            ..Row::off(subject, (text, format!("< {worse:.2}")), better, worse)
        },
        false => Row::shown(subject, text),
    });
    Ok(rows)
}

/// The picture of each scenario: both scores, and the furthest class of each figure.
#[derive(Default)]
struct Pictures {
    names: Vec<String>,
    scores: [Vec<f64>; 2],
    furthest: [Vec<f64>; 3],
}

impl Pictures {
    fn add(&mut self, name: &str, scores: [f64; 2], rows: &[Row]) {
        self.names.push(name.to_owned());
        self.scores.iter_mut().zip(scores).for_each(|(all, score)| all.push(score));
        for (all, figure) in self.furthest.iter_mut().zip(FIGURES) {
            let of = rows.iter().filter(|row| row.subject.ends_with(figure));
            all.push(of.map(|row| row.deviation).fold(0.0, f64::max));
        }
    }

    /// Returns the plots, and which scenario each number is.
    fn done(self) -> (Vec<Plot>, Vec<String>) {
        let numbers: Vec<String> =
            (1..=self.names.len()).map(|number| number.to_string()).collect();
        let plot = |title: &str| {
            let plot = Plot::new(Kind::Bars, title, "scenario", "parts of what is allowed");
            plot.named(numbers.iter().map(String::as_str))
        };
        let [without, with] = self.scores;
        let score = plot("Score: all deviations, mean");
        let score = score.with_values("not calibrated", &without).with_values("calibrated", &with);
        let figures = ["Median delay", "99th percentile of the delay", "Rate"];
        let figures = figures.iter().zip(&self.furthest).map(|(title, furthest)| {
            plot(&format!("{title}, furthest class")).with_values("calibrated", furthest)
        });
        let plots = std::iter::once(score).chain(figures).collect();
        let notes =
            self.names.iter().zip(&numbers).map(|(name, number)| format!("{number}: {name}"));
        (plots, notes.collect())
    }
}

/// The three figures of a class beside the simulated ones.
fn judged(subject: &str, live: &Side, simulated: &Side) -> Vec<Row> {
    let figure = |what: &str, part: f64, tolerance: (f64, f64)| {
        let (measured, expected) = (live.quantile_ms(part), simulated.quantile_ms(part));
        let off = off(measured, expected, tolerance);
        let texts = (format!("{measured:.3} ms"), format!("{expected:.3} ms"));
        Row::off(format!("{subject} {what}"), texts, off, 1.0)
    };
    let rate = off(live.rate_bps, simulated.rate_bps, (RATE, 0.0));
    let mbit = |side: &Side| format!("{:.3} Mbit/s", side.rate_bps / 1e6);
    let shown = format!(
        "{:.2} % lost, simulated {:.2} %; distance {:.2}",
        live.loss * 100.0,
        simulated.loss * 100.0,
        live.distance(simulated)
    );
    vec![
        figure("p50", 0.5, P50),
        figure("p99", 0.99, P99),
        Row::off(format!("{subject} rate"), (mbit(live), mbit(simulated)), rate, 1.0),
        Row::shown(format!("{subject} loss"), shown),
    ]
}

/// The difference in parts of what is allowed, which is a part of the measured or an amount.
fn off(measured: f64, simulated: f64, (part, amount): (f64, f64)) -> f64 {
    (simulated - measured).abs() / (measured * part).max(amount).max(f64::MIN_POSITIVE)
}

/// The mean of all differences of a scenario, in parts of what is allowed.
fn score(live: &Classes, simulated: &Classes) -> f64 {
    let none = Side::default();
    let of = |(class, live): (&String, &Side)| {
        let simulated = simulated.get(class).unwrap_or(&none);
        let delay =
            |part, tolerance| off(live.quantile_ms(part), simulated.quantile_ms(part), tolerance);
        (delay(0.5, P50) + delay(0.99, P99) + off(live.rate_bps, simulated.rate_bps, (RATE, 0.0)))
            / 3.0
    };
    live.iter().map(of).sum::<f64>() / live.len().max(1) as f64
}

/// The part of the measured value and the milliseconds by which delays may differ.
const P50: (f64, f64) = (0.15, 0.3);
const P99: (f64, f64) = (0.25, 1.0);
const RATE: f64 = 0.01;
/// The ends of the subjects of [`judged`].
const FIGURES: [&str; 3] = [" p50", " p99", " rate"];
const PROBE_MIN: Duration = Duration::from_secs(6);
const PROBE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn side(delay_us: f64, rate_bps: f64) -> Side {
        Side { rate_bps, loss: 0.0, delays_us: vec![(delay_us, 100)] }
    }

    #[test]
    fn a_class_holds_within_a_part_or_an_amount() {
        let holds = |live, simulated| -> Vec<bool> {
            judged("x", &live, &simulated).iter().map(|row| row.holds).collect()
        };
        assert_eq!(holds(side(100.0, 1e6), side(390.0, 1.009e6)), [true; 4]);
        assert_eq!(holds(side(100.0, 1e6), side(410.0, 1.011e6)), [false, true, false, true]);
        assert_eq!(holds(side(10_000.0, 1e6), side(11_400.0, 1e6)), [true; 4]);
        assert_eq!(holds(side(10_000.0, 1e6), side(12_600.0, 1e6)), [false, false, true, true]);
    }

    #[test]
    fn the_picture_shows_the_furthest_class_of_each_scenario() {
        let mut pictures = Pictures::default();
        let near = judged("one: a", &side(100.0, 1e6), &side(400.0, 1e6));
        let far = judged("one: b", &side(100.0, 1e6), &side(100.0, 2e6));
        pictures.add("one", [3.0, 0.5], &[near, far].concat());
        let (plots, notes) = pictures.done();
        assert_eq!(notes, ["1: one"]);
        let heights = |plot: &Plot| -> Vec<f64> {
            let points = plot.series.iter().flat_map(|series| &series.points);
            points.map(|point| (point.1 * 1e6).round() / 1e6).collect()
        };
        assert_eq!(heights(&plots[0]), [3.0, 0.5]);
        assert_eq!(heights(&plots[1]), [1.0]);
        assert_eq!(heights(&plots[3]), [100.0]);
    }

    #[test]
    fn the_score_is_a_mean_over_classes_and_figures() {
        let of = |delay| BTreeMap::from([("a".to_owned(), side(delay, 1e6))]);
        assert_eq!(score(&of(1000.0), &of(1000.0)), 0.0);
        // 0.6 ms are twice what p50 may differ by, and 0.6 of what p99 may.
        assert!((score(&of(1000.0), &of(1600.0)) - (2.0 + 0.6) / 3.0).abs() < 1e-9);
        assert!(score(&of(1000.0), &BTreeMap::new()) > 30.0);
    }
}
