//! A report of `weir sim` as a source: what its bins tell of each class over time.
//!
//! A report has what was sent, in `bins` (`--bins WIDTH`), and sums over the whole run; what it
//! does not have is `None`. Time is simulated, from 1970 on. In a network each outlet is a
//! direction.
//! Invariant: a report is a file of at most `BYTES_MAX`, and is read once.

use crate::http::Fault;
use crate::json::{
    Abilities, About, Class, ClassHistory, Direction, Heat, HeatQuery, History, HistoryQuery, Mark,
    SpanQuery,
};
use crate::source::Source;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use weir_control::protocol::Right;
use weir_host::wait::realtime_ns;

/// A report in a file.
pub struct Report {
    name: String,
    ways: Vec<(Direction, Bins)>,
    marks: Vec<Mark>,
}

/// The part of a report that the page reads; docs/sim-report.md describes the whole.
#[derive(Deserialize)]
struct Written {
    scenario: String,
    link: WrittenLink,
    classes: Vec<WrittenClass>,
    #[serde(default)]
    changes: Vec<WrittenChange>,
    bins: Option<Bins>,
    network: Option<WrittenNetwork>,
}

#[derive(Deserialize)]
struct WrittenLink {
    scheduler: String,
    rate_bps: f64,
}

#[derive(Deserialize)]
struct WrittenClass {
    name: String,
    parent: Option<String>,
    leaf: bool,
}

#[derive(Deserialize)]
struct WrittenChange {
    at_s: f64,
    policy: String,
    scheduler: String,
}

#[derive(Deserialize)]
struct WrittenNetwork {
    outlets: Vec<WrittenOutlet>,
}

#[derive(Deserialize)]
struct WrittenOutlet {
    link: String,
    from: String,
    to: String,
    scheduler: String,
    rate_bps: f64,
    classes: Vec<WrittenClass>,
    bins: Option<Bins>,
}

#[derive(Clone, Default, Deserialize)]
struct Bins {
    width_s: f64,
    classes: Vec<BinsOfClass>,
}

#[derive(Clone, Deserialize)]
struct BinsOfClass {
    name: String,
    bytes: Vec<u64>,
}

impl Report {
    /// The report at this path.
    ///
    /// # Errors
    /// When it cannot be read, is no report, or has no bins; the text says what to do.
    pub fn open(path: &Path) -> Result<Self, String> {
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| of(&error))?;
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| of(&error))?;
        let file = path.file_name().unwrap_or(path.as_os_str());
        Self::of_bytes(&file.display().to_string(), &bytes).map_err(|error| of(&error))
    }

    /// The report of these bytes.
    ///
    /// # Errors
    /// As [`Report::open`].
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() as u64 > BYTES_MAX {
            return Err(format!("a report of more than {} MiB is not shown", BYTES_MAX >> 20));
        }
        let written: Written = serde_json::from_slice(bytes).map_err(|error| {
            let error: String = error.to_string().chars().take(QUOTED_MAX).collect();
            format!("this is no report of `weir sim --format json`: {error}")
        })?;
        let Written { scenario, link, classes, changes, bins, network } = written;
        let outlets = network.map(|network| network.outlets).unwrap_or_default();
        let way = |place: (String, String, String), link: WrittenLink, classes: Vec<_>| {
            let (name, from, to) = place;
            let WrittenLink { scheduler, rate_bps } = link;
            let all = classes.len();
            let classes = tree(classes);
            let (policy, left_out) = (String::new(), (all - classes.len()) as u64);
            Direction { name, from, to, rate_bps, scheduler, policy, left_out, classes }
        };
        let own = || (scenario.clone(), "sources".to_owned(), "receivers".to_owned());
        let mut ways = Vec::new();
        if outlets.is_empty() {
            ways.push((way(own(), link, classes), bins));
        }
        for outlet in outlets {
            let WrittenOutlet { link, from, to, scheduler, rate_bps, classes, bins } = outlet;
            let place = (format!("{link} from {from}"), from, to);
            ways.push((way(place, WrittenLink { scheduler, rate_bps }, classes), bins));
        }
        let ways: Vec<_> = ways.into_iter().filter_map(|(way, bins)| Some((way, bins?))).collect();
        check(&ways)?;
        let mark = |change: WrittenChange| Mark {
            t: change.at_s * 1e3,
            kind: "policy-changed".to_owned(),
            text: format!("{} ({})", change.policy, change.scheduler),
            level: "notice".to_owned(),
        };
        let marks = changes.into_iter().map(mark).collect();
        Ok(Self { name: name.to_owned(), ways, marks })
    }

    fn way(&self, name: Option<&str>) -> Result<&(Direction, Bins), Fault> {
        let mut ways = self.ways.iter();
        ways.find(|row| name.is_none_or(|name| row.0.name == name)).ok_or_else(|| {
            let known: Vec<_> = self.ways.iter().map(|row| row.0.name.as_str()).collect();
            Fault::new(404, format!("there is no such direction; there are {}", known.join(", ")))
        })
    }
}

impl Bins {
    fn width_ms(&self) -> f64 {
        self.width_s * 1e3
    }

    fn count(&self) -> usize {
        self.classes.iter().map(|class| class.bytes.len()).max().unwrap_or(0)
    }
}

/// # Errors
/// When there is nothing over time, or too much.
fn check(ways: &[(Direction, Bins)]) -> Result<(), String> {
    if ways.is_empty() {
        return Err("the report has no bins, so it has nothing over time; run `weir sim SCENARIO \
                    --bins 1s --json FILE`"
            .to_owned());
    }
    for (way, bins) in ways {
        let (name, width) = (&way.name, bins.width_s);
        if !width.is_finite() || width <= 0.0 {
            return Err(format!(
                "the bins of `{name}` have a width of {width} s; it is a time above 0, as `weir \
                 sim SCENARIO --bins 1s --json FILE` writes it"
            ));
        }
    }
    let classes = ways.iter().flat_map(|row| &row.1.classes);
    let values = classes.map(|class| class.bytes.len()).sum::<usize>();
    if values > VALUES_MAX {
        return Err(format!(
            "the report has {values} values over time, and at most {VALUES_MAX} are shown; run \
             `weir sim` with wider bins"
        ));
    }
    Ok(())
}

/// Returns classes, each behind its parent, as many as are shown.
fn tree(written: Vec<WrittenClass>) -> Vec<Class> {
    let mut below: BTreeMap<Option<String>, Vec<WrittenClass>> = BTreeMap::new();
    for class in written {
        below.entry(class.parent.clone()).or_default().push(class);
    }
    let mut classes: Vec<Class> = Vec::new();
    let mut next: VecDeque<(Option<usize>, WrittenClass)> = VecDeque::new();
    let roots = below.remove(&None).unwrap_or_default();
    next.extend(roots.into_iter().map(|class| (None, class)));
    // Classes of a forged report may be above themselves: they are below no root.
    while let Some((parent, WrittenClass { name, leaf, .. })) = next.pop_front() {
        if classes.len() == CLASSES_MAX {
            break;
        }
        let children = below.remove(&Some(name.clone())).unwrap_or_default();
        next.extend(children.into_iter().map(|class| (Some(classes.len()), class)));
        classes.push(Class { name, parent, leaf, ..Class::default() });
    }
    classes
}

impl Source for Report {
    fn about(&self, _right: Right) -> Result<About, Fault> {
        Ok(About {
            kind: "report".to_owned(),
            name: self.name.clone(),
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            now: realtime_ns() as f64 / 1e6,
            from: 0.0,
            kept: None,
            to: self
                .ways
                .iter()
                .map(|(_, bins)| bins.count() as f64 * bins.width_ms())
                .fold(0.0, f64::max),
            step_ms: self.ways.first().map_or(1.0, |(_, bins)| bins.width_ms()).max(1.0) as u32,
            panics: 0,
            abilities: Abilities::default(),
            directions: self.ways.iter().map(|row| row.0.clone()).collect(),
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        let (_, bins) = self.way(query.direction.as_deref())?;
        let (from, to) = (query.from.unwrap_or(0.0), query.to.unwrap_or(f64::MAX));
        let width_ms = bins.width_ms();
        let end = |bin: &usize| (*bin + 1) as f64 * width_ms;
        let inside: Vec<usize> =
            (0..bins.count()).filter(|bin| end(bin) >= from && end(bin) <= to).collect();
        let mut order: Vec<&BinsOfClass> = bins.classes.iter().collect();
        order.sort_by_key(|class| {
            let bytes = class.bytes.iter();
            std::cmp::Reverse(bytes.fold(0u64, |sum, &bytes| sum.saturating_add(bytes)))
        });
        order.truncate(CLASSES_MAX);
        let class = |class: &&BinsOfClass| {
            let rate =
                |bin: &usize| class.bytes.get(*bin).map(|&bytes| bytes as f64 * 8e3 / width_ms);
            let sent_bps = inside.iter().map(rate).collect();
            let unknown = ClassHistory::unknown(inside.len());
            (class.name.clone(), ClassHistory { sent_bps, ..unknown })
        };
        Ok(History {
            t: inside.iter().map(end).collect(),
            classes: order.iter().map(class).collect(),
            drops: BTreeMap::new(),
            loans: Vec::new(),
        })
    }

    fn heat(&self, _query: &HeatQuery) -> Result<Heat, Fault> {
        Err(Fault::new(
            404,
            "a report has no delays over time; a record of a link has them, and `weir sim --trace` \
             writes every packet",
        ))
    }

    fn events(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        let (from, to) = (query.from.unwrap_or(0.0), query.to.unwrap_or(f64::MAX));
        Ok(self.marks.iter().filter(|mark| mark.t >= from && mark.t <= to).cloned().collect())
    }
}

const BYTES_MAX: u64 = 256 << 20;
/// The most values over time: with them an answer has some 30 MB.
const VALUES_MAX: usize = 2_000_000;
/// The most classes of an answer.
const CLASSES_MAX: usize = 1000;
/// The most characters of a file that come back.
const QUOTED_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"scenario": "two", "link": {"scheduler": "htb", "rate_bps": 8e6},
        "classes": [{"name": "voice", "parent": "line", "leaf": true},
            {"name": "line", "parent": null, "leaf": false}],
        "changes": [{"at_s": 1.5, "policy": "p.toml", "scheduler": "drr"}],
        "bins": {"width_s": 0.5, "classes": [{"name": "line", "bytes": [0, 1000, 500]},
            {"name": "voice", "bytes": [0, 1000, 500]}]}}"#;

    #[test]
    fn the_bins_of_a_report_are_rates_over_time() {
        let report = Report::of_bytes("r.json", REPORT.as_bytes()).expect("it is a report");
        let about = report.about(Right::Read).expect("it is known");
        assert_eq!((about.kind.as_str(), about.to, about.step_ms), ("report", 1500.0, 500));
        let classes = &about.directions[0].classes;
        assert_eq!((classes[0].name.as_str(), classes[1].parent), ("line", Some(0)));
        let query = HistoryQuery { from: Some(1000.0), ..HistoryQuery::default() };
        let history = report.history(&query).expect("it has bins");
        assert_eq!(history.t, [1000.0, 1500.0]);
        assert_eq!(history.classes["voice"].sent_bps, [Some(16_000.0), Some(8_000.0)]);
        assert_eq!(history.classes["voice"].p99_us, [None, None]);
        assert_eq!(report.events(&SpanQuery::default()).expect("it is known").len(), 1);
        assert!(report.heat(&HeatQuery::default()).is_err());
    }

    #[test]
    fn what_is_no_report_is_refused_with_the_cure() {
        let check = |text: &str, said: &str| match Report::of_bytes("r", text.as_bytes()) {
            Err(refused) => assert!(refused.contains(said), "{refused}"),
            Ok(_) => panic!("{text} is taken"),
        };
        check("{}", "no report of `weir sim --format json`");
        check("[", "no report");
        let (before, _) = REPORT.split_once(",\n        \"bins\"").expect("it has bins");
        check(&format!("{before}}}"), "--bins 1s");
        check(&REPORT.replace("0.5,", "0,"), "a width of 0 s");
        check(&REPORT.replace("0.5,", "-1,"), "a width of -1 s");
        let long = format!("[{}0]", "0,".repeat(VALUES_MAX));
        check(&REPORT.replacen("[0, 1000, 500]", &long, 1), "wider bins");
        let circle = REPORT.replace("\"parent\": null", "\"parent\": \"voice\"");
        let report = Report::of_bytes("r", circle.as_bytes()).expect("it has bins");
        assert!(report.about(Right::Read).expect("it is known").directions[0].classes.is_empty());
    }

    #[test]
    fn more_classes_than_are_shown_are_counted() {
        let chain = (1..3000)
            .map(|it| format!(r#", {{"name": "c{it}", "parent": "c{}", "leaf": true}}"#, it - 1));
        let chain: String = chain.collect();
        let first = r#"{"name": "c0", "parent": null, "leaf": false}"#;
        let (before, rest) = REPORT.split_once(r#""classes": ["#).expect("it has classes");
        let (_, after) = rest.split_once("],").expect("they end");
        let text = format!(r#"{before}"classes": [{first}{chain}],{after}"#);
        let report = Report::of_bytes("r", text.as_bytes()).expect("it is a report");
        let direction = &report.about(Right::Read).expect("it is known").directions[0];
        assert_eq!((direction.classes.len(), direction.left_out), (CLASSES_MAX, 2000));
        assert_eq!(direction.classes[999].parent, Some(998));
    }
}
