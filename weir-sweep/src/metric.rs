//! The metrics of a run: names such as `voice.delay.p99`, read off its report.
//!
//! `CLASS.rate` (bit/s), `CLASS.delay.p50|p90|p99|max|mean` (seconds), `CLASS.loss` (a part),
//! `CLASS.drops` and `CLASS.backlog` (packets, the latter at the end), `link.utilisation` (a part),
//! and of a source `source.NAME.goodput` (bit/s), `source.NAME.loss` and `source.NAME.delay.…`.

use weir_sim::report::Delays;
use weir_sim::{Report, Scenario};

/// A figure of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The name in tables: `voice.delay.p99`.
    pub name: String,
    subject: Subject,
    figure: Figure,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Subject {
    Link,
    Class(String),
    Source(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    Utilisation,
    Rate,
    Goodput,
    Loss,
    Drops,
    Backlog,
    Delay(Quantile),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quantile {
    P50,
    P90,
    P99,
    Max,
    Mean,
}

impl Metric {
    /// Reads a name.
    ///
    /// # Errors
    /// When it is no metric; names what there is.
    pub fn parse(name: &str) -> Result<Self, String> {
        let metric = |subject, figure| Self { name: name.to_owned(), subject, figure };
        if name == "link.utilisation" {
            return Ok(metric(Subject::Link, Figure::Utilisation));
        }
        let found = FIGURES.iter().find_map(|(end, figure)| {
            let subject = name.strip_suffix(end)?.strip_suffix('.')?;
            (!subject.is_empty()).then_some((subject, *figure))
        });
        let Some((subject, figure)) = found else {
            let known: Vec<_> = FIGURES.iter().map(|row| row.0).collect();
            return Err(format!(
                "`{name}` is no metric: write link.utilisation, or a class and one of {}, such as \
                 `voice.delay.p99`; `source.NAME` is a source",
                known.join(", ")
            ));
        };
        let subject = match subject.strip_prefix("source.") {
            Some(source) => Subject::Source(source.to_owned()),
            None => Subject::Class(subject.to_owned()),
        };
        let fits = match &subject {
            Subject::Source(_) => {
                matches!(figure, Figure::Goodput | Figure::Loss | Figure::Delay(_))
            }
            _ => figure != Figure::Goodput,
        };
        match fits {
            true => Ok(metric(subject, figure)),
            false => Err(format!("`{name}`: a source has goodput, loss and delay, a class others")),
        }
    }

    /// Says what the scenario lacks for it.
    ///
    /// # Errors
    /// When there is no such class or source.
    pub fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let (kind, name, found) = match &self.subject {
            Subject::Link => return Ok(()),
            Subject::Class(name) => {
                let found = scenario.link.tree.classes().any(|(_, class)| class.name == *name);
                ("class", name, found)
            }
            Subject::Source(name) => {
                let found = scenario.sources.iter().any(|source| source.name == *name);
                ("source", name, found)
            }
        };
        match found {
            true => Ok(()),
            false => Err(format!("`{}`: the scenario has no {kind} `{name}`", self.name)),
        }
    }

    /// Returns its value in a run; `None` if there was nothing to measure.
    pub fn of(&self, report: &Report) -> Option<f64> {
        match &self.subject {
            Subject::Link => Some(report.link.utilisation),
            Subject::Class(name) => {
                let row = report.class(name)?;
                let (offered, dropped) = (row.offered.packets, row.dropped.total.packets);
                match self.figure {
                    Figure::Rate => Some(row.sent.bits_per_second as f64),
                    Figure::Loss => part(dropped, offered),
                    Figure::Drops => Some(dropped as f64),
                    Figure::Backlog => Some(row.backlog.packets as f64),
                    Figure::Delay(quantile) => delay(&row.delay, quantile),
                    Figure::Utilisation | Figure::Goodput => None,
                }
            }
            Subject::Source(name) => {
                let row = report.source(name)?;
                match self.figure {
                    Figure::Goodput => Some(row.goodput_bps as f64),
                    Figure::Loss => part(row.lost.packets, row.sent.packets),
                    Figure::Delay(quantile) => delay(&row.delay, quantile),
                    _ => None,
                }
            }
        }
    }
}

fn part(of: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| of as f64 / all as f64)
}

fn delay(delays: &Delays, quantile: Quantile) -> Option<f64> {
    let value = match quantile {
        Quantile::P50 => delays.p50,
        Quantile::P90 => delays.p90,
        Quantile::P99 => delays.p99,
        Quantile::Max => delays.max,
        Quantile::Mean => delays.mean,
    };
    (delays.count > 0).then(|| value.as_nanos() as f64 / 1e9)
}

/// How a name ends, and what that is.
const FIGURES: [(&str, Figure); 10] = [
    ("rate", Figure::Rate),
    ("delay.p50", Figure::Delay(Quantile::P50)),
    ("delay.p90", Figure::Delay(Quantile::P90)),
    ("delay.p99", Figure::Delay(Quantile::P99)),
    ("delay.max", Figure::Delay(Quantile::Max)),
    ("delay.mean", Figure::Delay(Quantile::Mean)),
    ("loss", Figure::Loss),
    ("drops", Figure::Drops),
    ("backlog", Figure::Backlog),
    ("goodput", Figure::Goodput),
];
