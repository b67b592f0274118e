//! The metrics of a run: names such as `voice.delay.p99`, read off its report.
//!
//! `CLASS.rate` (bit/s), `CLASS.delay.p50|p90|p99|max|mean` (seconds), `CLASS.loss` (a part),
//! `CLASS.drops` and `CLASS.backlog` (packets, the latter at the end), `link.utilisation` (a part),
//! and of a source `source.NAME.goodput` (bit/s), `source.NAME.loss` and `source.NAME.delay.…`. In
//! a network these classes and this link are the main outlet's; `link.behind.used` (a part),
//! `link.behind.p50|p95|p99` (seconds) and `link.behind.drops` are of the bottleneck behind a link,
//! `source.NAME.behind.p95` is what packets of a source took there. `link.NAME.CLASS.…` and
//! `link.NAME.utilisation` are those of a link, `link.NAME.back.…` those of its way back.

use weir_sim::behind::{BehindDelays, BehindReport};
use weir_sim::network::plan::Network;
use weir_sim::report::Delays;
use weir_sim::{Report, Scenario};

/// A figure of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The name in tables: `voice.delay.p99`.
    pub name: String,
    subject: Subject,
    figure: Figure,
    /// The outlet of a network; `None` for the main one.
    outlet: Option<usize>,
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
    Behind(Behind),
}

/// A figure of a bottleneck behind a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Used,
    Drops,
    P50,
    P95,
    P99,
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
        let metric =
            |subject, figure| Self { name: name.to_owned(), subject, figure, outlet: None };
        let of_link = FIGURES.iter().filter(|row| row.1.is_of_link());
        let alone = |row: &&(&str, Figure)| name.strip_prefix(LINK) == Some(row.0);
        if let Some((_, figure)) = of_link.clone().find(alone) {
            return Ok(metric(Subject::Link, *figure));
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
                    || matches!(figure, Figure::Behind(behind) if behind.is_delay())
            }
            Subject::Class(of) if figure.is_of_link() => of.starts_with(LINK),
            _ => figure != Figure::Goodput,
        };
        match fits {
            true => Ok(metric(subject, figure)),
            false => Err(format!("`{name}`: a source has goodput, loss and delay, a class others")),
        }
    }

    /// Finds it in the scenario; `own` are the outlets of a network whose classes need no link's
    /// name, if they are not the main one's.
    ///
    /// # Errors
    /// When there is no such class, source or link, or its outlet is not known.
    pub fn resolve(&mut self, scenario: &Scenario, own: &[usize]) -> Result<(), String> {
        let told = |why: String| format!("`{}`: {why}", self.name);
        let network = scenario.network.as_deref();
        if let (Some(network), Subject::Class(path)) = (network, &self.subject)
            && let Some((outlet, class)) = outlet_of(network, path)
        {
            self.outlet = Some(outlet);
            self.subject = match (class, self.figure) {
                ("", figure) if figure.is_of_link() => Subject::Link,
                ("", _) => return Err(told(NO_CLASS.to_owned())),
                (class, _) => Subject::Class(class.to_owned()),
            };
        } else if network.is_some() && !matches!(self.subject, Subject::Source(_)) {
            self.outlet = match (own, &self.subject) {
                (_, Subject::Link) | ([], _) => None,
                ([only], _) => Some(*only),
                _ => return Err(told(SEVERAL.to_owned())),
            };
        }
        let (kind, name, found) = match &self.subject {
            Subject::Link => return Ok(()),
            Subject::Class(name) => ("class", name, self.has_class(scenario, name)),
            Subject::Source(name) => {
                let found = scenario.sources.iter().any(|source| source.name == *name);
                ("source", name, found)
            }
        };
        match found {
            true if self.figure.is_of_link() && !matches!(self.subject, Subject::Source(_)) => {
                Err(told("only a link has this figure".to_owned()))
            }
            true => Ok(()),
            false => {
                Err(told(format!("the scenario has no {kind} `{name}`{}", elsewhere(network))))
            }
        }
    }

    fn has_class(&self, scenario: &Scenario, name: &str) -> bool {
        let place = scenario.network.as_deref().zip(self.outlet);
        let outlet = place.map(|(network, at)| &network.links[at / 2].outlets[at % 2]);
        // The queueing of the main outlet is the scenario's.
        let own = outlet.and_then(|outlet| outlet.queueing.as_ref());
        let link = own.map_or(&scenario.link, |own| &own.link);
        link.tree.classes().any(|(_, class)| class.name == name)
    }

    /// Returns its value in a run; `None` if there was nothing to measure.
    pub fn of(&self, report: &Report) -> Option<f64> {
        let outlet = match self.outlet {
            Some(place) => Some(report.network.as_ref()?.outlets.get(place)?),
            None => None,
        };
        match &self.subject {
            Subject::Link => {
                let behind = outlet.map_or(&report.behind, |own| &own.behind).as_ref();
                match self.figure {
                    Figure::Behind(figure) => figure.of(behind?),
                    _ => Some(outlet.map_or(report.link.utilisation, |own| own.utilisation)),
                }
            }
            Subject::Class(name) => {
                let row = outlet.map_or_else(|| report.class(name), |own| own.class(name))?;
                let (offered, dropped) = (row.offered.packets, row.dropped.total.packets);
                match self.figure {
                    Figure::Rate => Some(row.sent.bits_per_second as f64),
                    Figure::Loss => part(dropped, offered),
                    Figure::Drops => Some(dropped as f64),
                    Figure::Backlog => Some(row.backlog.packets as f64),
                    Figure::Delay(quantile) => delay(&row.delay, quantile),
                    Figure::Utilisation | Figure::Goodput | Figure::Behind(_) => None,
                }
            }
            Subject::Source(name) => {
                let row = report.source(name)?;
                match self.figure {
                    Figure::Goodput => Some(row.goodput_bps as f64),
                    Figure::Loss => part(row.lost.packets, row.sent.packets),
                    Figure::Delay(quantile) => delay(&row.delay, quantile),
                    Figure::Behind(figure) => {
                        let rows = &report.behind.as_ref()?.sources;
                        figure.quantile(&rows.iter().find(|row| row.name == *name)?.delay)
                    }
                    _ => None,
                }
            }
        }
    }

    /// Returns the unit in which it is shown, and how many of them its own unit is.
    pub fn shown(&self) -> (&'static str, f64) {
        match self.figure {
            Figure::Rate | Figure::Goodput => ("Mbit/s", 1e-6),
            Figure::Delay(_) => ("ms", 1e3),
            Figure::Behind(behind) if behind.is_delay() => ("ms", 1e3),
            Figure::Behind(Behind::Used) => ("%", 100.0),
            Figure::Behind(_) => ("packets", 1.0),
            Figure::Drops | Figure::Backlog => ("packets", 1.0),
            Figure::Utilisation | Figure::Loss => ("%", 100.0),
        }
    }
}

impl Figure {
    /// Whether links have it, and classes do not.
    const fn is_of_link(self) -> bool {
        matches!(self, Figure::Utilisation | Figure::Behind(_))
    }
}

impl Behind {
    const fn is_delay(self) -> bool {
        matches!(self, Behind::P50 | Behind::P95 | Behind::P99)
    }

    fn of(self, report: &BehindReport) -> Option<f64> {
        match self {
            Behind::Used => Some(report.used),
            Behind::Drops => Some(report.dropped as f64),
            _ => self.quantile(&report.delay),
        }
    }

    fn quantile(self, delays: &BehindDelays) -> Option<f64> {
        let value = match self {
            Behind::P50 => delays.p50,
            Behind::P95 => delays.p95,
            Behind::P99 => delays.p99,
            Behind::Used | Behind::Drops => return None,
        };
        (delays.count > 0).then(|| value.as_nanos() as f64 / 1e9)
    }
}

/// Returns the outlet that `link.NAME.back.CLASS` names, and the class; it is empty of a link.
fn outlet_of<'p>(network: &Network, path: &'p str) -> Option<(usize, &'p str)> {
    let rest = path.strip_prefix(LINK)?;
    let after = |rest: &'p str, key: &str| match rest.strip_prefix(key)? {
        "" => Some(""),
        rest => rest.strip_prefix('.'),
    };
    let found = network.links.iter().enumerate();
    let found = found.filter_map(|(place, link)| Some((place, link, after(rest, &link.name)?)));
    // Of two names of which one begins the other, the longer one is meant.
    let (place, _, rest) = found.max_by_key(|(_, link, _)| link.name.len())?;
    Some(match after(rest, "back") {
        Some(class) => (2 * place + 1, class),
        None => (2 * place, rest),
    })
}

/// Says how classes of other outlets are named.
fn elsewhere(network: Option<&Network>) -> &'static str {
    match network {
        Some(_) => " at its main outlet; write `link.NAME.CLASS`, or `link.NAME.back.CLASS`",
        None => "",
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
const FIGURES: [(&str, Figure); 16] = [
    ("behind.used", Figure::Behind(Behind::Used)),
    ("behind.drops", Figure::Behind(Behind::Drops)),
    ("behind.p50", Figure::Behind(Behind::P50)),
    ("behind.p95", Figure::Behind(Behind::P95)),
    ("behind.p99", Figure::Behind(Behind::P99)),
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
    ("utilisation", Figure::Utilisation),
];
/// The beginning of what a link of a network has.
const LINK: &str = "link.";
/// Why a link has no other figures.
const NO_CLASS: &str = "a link has `utilisation`, and its classes have the others; write \
                        `link.NAME.CLASS`";
/// Why a class is not found where several links have the policy.
const SEVERAL: &str = "several links have this policy; write `link.NAME.CLASS`, or \
                       `link.NAME.back.CLASS`";
