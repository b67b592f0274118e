//! The report of a run: classes, sources, the line, and the balance.
//!
//! `docs/sim-report.md` describes the JSON. Numbers cover the time after the warm-up; the balance
//! covers the whole run. Invariant: equal runs print equal bytes.

use crate::behind::BehindReport;
use crate::bins::{BinsReport, quoted};
use crate::change::ChangeReport;
pub use crate::classes::ClassReport;
pub use crate::connections::{Limited, TcpReport};
pub use crate::figures::{Amount, Delays, Dropped, Object};

use crate::classes::{ClassSums, class_table, shown};
use crate::figures::rate;
use crate::host::Calibrated;
use crate::meter::{DROPPED, LEFT, LinkMeter, SENT, SourceMeter};
use crate::network::NetworkReport;
use crate::quic::QuicReport;
use crate::scenario::{Scenario, Source};
use crate::script::Playback;
use crate::segments::Segments;
use serde::Serialize;
use std::fmt;
use weir_core::account::{Account, LeafAccount};
use weir_core::ids::LeafId;
use weir_core::sched::Tree;
use weir_core::units::{Duration, Rate};
use weir_policy::table::{Table, megabits, millis};
use weir_trace::explain::ExplainReport;
use weir_trace::shown::{bits_per_second, seconds};

/// The results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The name of the scenario.
    pub scenario: String,
    /// The seed of the run.
    pub seed: u64,
    /// The calibration of a host that was in force, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Calibrated>,
    /// How long was simulated.
    #[serde(rename = "duration_s", serialize_with = "seconds")]
    pub duration: Duration,
    /// How much of that does not count.
    #[serde(rename = "warmup_s", serialize_with = "seconds")]
    pub warmup: Duration,
    /// The figures of the line.
    pub link: LinkReport,
    /// The bottleneck behind the link, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindReport>,
    /// Every class in the order of declaration, by name; an interior class is the sum of its
    /// leaves. Queues of a hash without packets are not written.
    #[serde(serialize_with = "shown")]
    pub classes: Vec<ClassReport>,
    /// Every source in the order of declaration.
    pub sources: Vec<SourceReport>,
    /// How the link changed on the way, in the order of time.
    pub changes: Vec<ChangeReport>,
    /// Why packets waited, if that was requested.
    pub explain: Option<ExplainReport>,
    /// The bytes that each class sent in each bin of time, if that was requested.
    pub bins: Option<BinsReport>,
    /// The segments of a source, if that was requested.
    #[serde(skip)]
    pub segments: Option<Segments>,
    /// Whether every packet is accounted for.
    pub conservation: Conservation,
    /// In a network: every outlet, processor and tap; `link` and `classes` are the main outlet's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
}

/// The figures of a line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkReport {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The rate of the line.
    #[serde(rename = "rate_bps", serialize_with = "bits_per_second")]
    pub rate: Rate,
    /// The part of the time in which the line was sending.
    pub utilisation: f64,
}

/// The figures of one source.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SourceReport {
    /// The name of the source.
    pub name: String,
    /// The keyword of its traffic.
    pub kind: &'static str,
    /// The class that its packets go to.
    pub class: String,
    /// Frames offered to the link.
    pub sent: Amount,
    /// Frames that reached the receiver.
    pub received: Amount,
    /// Frames that links dropped.
    pub lost: Amount,
    /// Bytes that reached the receiving application, per second: payload, each byte once.
    pub goodput_bps: u64,
    /// From the sender to the last bit at the receiver.
    #[serde(rename = "delay_us")]
    pub delay: Delays,
    /// The connections, if it is TCP.
    pub tcp: Option<TcpReport>,
    /// The connections, if it is QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicReport>,
    /// How playback went in the whole run, if it is video that is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub playback: Option<Playback>,
    /// The transfers or exchanges that it completed, if that was requested; at most a million.
    #[serde(skip)]
    pub objects: Vec<Object>,
}

/// The balance of the whole run, warm-up included, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Conservation {
    /// The balance holds: each leaf in packets and bytes, and its sources against it.
    pub holds: bool,
    /// Packets that sources offered.
    pub offered: u64,
    /// Packets that were handed to the line.
    pub sent: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that wait at the end.
    pub backlog: u64,
}

/// The results that a run hands to its report.
pub(crate) struct Results<'a> {
    /// The tree of the last plan.
    pub tree: &'a Tree,
    /// The link's own account.
    pub account: Account,
    /// The service of each class until the last change.
    pub classes: ClassSums,
    /// The line, and what each class got since.
    pub link: &'a LinkMeter,
    /// The measurements of each source.
    pub meters: &'a [SourceMeter],
    /// The leaf of each source under the last plan.
    pub leaves: Vec<LeafId>,
    /// The changes of the link in the run.
    pub changes: Vec<ChangeReport>,
    /// The parts of sojourns, if they were requested.
    pub explain: Option<ExplainReport>,
}

impl Report {
    pub(crate) fn new(scenario: &Scenario, results: Results<'_>) -> Self {
        let span = scenario.duration.as_nanos() - scenario.warmup.as_nanos();
        let span = Duration::from_nanos(span);
        let is_split = scenario.classifier.tests_details() || !results.changes.is_empty();
        let conservation = conservation(&results, is_split);
        let Results { tree, account, mut classes, link, meters, leaves, changes, explain } =
            results;
        classes.add(tree, account.leaves(), link);
        classes.mark_hashed(&scenario.link.tree, &scenario.classifier);
        for change in &scenario.changes {
            classes.mark_hashed(&change.link.tree, &change.classifier);
        }
        let class = |leaf| &tree.class(tree.class_of(leaf)).name;
        Self {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            host: None,
            duration: scenario.duration,
            warmup: scenario.warmup,
            link: LinkReport {
                scheduler: scenario.link.scheduler,
                rate: scenario.link.tree.rate(),
                utilisation: link.line.busy.as_nanos() as f64 / span.as_nanos() as f64,
            },
            behind: None,
            classes: classes.report(span),
            sources: (0..meters.len())
                .map(|at| {
                    source_report(&scenario.sources[at], &meters[at], class(leaves[at]), span)
                })
                .collect(),
            changes,
            explain,
            bins: None,
            segments: None,
            conservation,
            network: None,
        }
    }

    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// The source called `name`.
    pub fn source(&self, name: &str) -> Option<&SourceReport> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// The report as JSON, with a line break at its end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a report holds only names and finite numbers") + "\n"
    }
}

pub(crate) fn source_report(
    source: &Source,
    meter: &SourceMeter,
    class: &str,
    span: Duration,
) -> SourceReport {
    SourceReport {
        name: source.name.clone(),
        kind: source.traffic.keyword(),
        class: class.to_owned(),
        sent: Amount::of(meter.sent, span),
        received: Amount::of(meter.received, span),
        lost: Amount::of(meter.dropped, span),
        goodput_bps: rate(meter.goodput, span),
        delay: Delays::of(&meter.delays),
        tcp: meter.tcp.as_ref().map(|did| did.report(&meter.transfers)),
        quic: meter.quic.as_ref().map(|done| done.report(&meter.transfers)),
        playback: meter.playback,
        objects: meter.objects.clone().unwrap_or_default(),
    }
}

fn conservation(results: &Results<'_>, is_split: bool) -> Conservation {
    let account = &results.account;
    let link = Conservation::of(account);
    let mut by_leaf = vec![[0u64; 3]; account.leaves().len()];
    for (meter, leaf) in results.meters.iter().zip(&results.leaves) {
        for (sum, count) in by_leaf[leaf.index()].iter_mut().zip(meter.total) {
            *sum += count;
        }
    }
    let balanced = |(leaf, sums): (&LeafAccount, &[u64; 3])| {
        leaf.offered.packets == sums[SENT]
            && leaf.dropped_total().packets == sums[DROPPED]
            && leaf.sent.packets == sums[LEFT]
    };
    // A change may lead a source to another leaf, and rules some of its packets; then the sums
    // remain.
    let sources_agree = if is_split {
        let sum = |of: usize| by_leaf.iter().map(|sums| sums[of]).sum::<u64>();
        (sum(SENT), sum(DROPPED), sum(LEFT)) == (link.offered, link.dropped, link.sent)
    } else {
        account.leaves().iter().zip(&by_leaf).all(balanced)
    };
    Conservation { holds: link.holds && sources_agree, ..link }
}

impl Conservation {
    /// The balance of the link's own account: it holds if each leaf's does, in packets and bytes.
    pub(crate) fn of(account: &Account) -> Self {
        let leaves = || account.leaves().iter().chain([account.retired()]);
        let sum = |of: fn(&LeafAccount) -> u64| leaves().map(of).sum();
        Self {
            holds: leaves().all(LeafAccount::is_conserved),
            offered: sum(|leaf| leaf.offered.packets),
            sent: sum(|leaf| leaf.sent.packets),
            dropped: sum(|leaf| leaf.dropped_total().packets),
            backlog: sum(|leaf| leaf.backlog.packets),
        }
    }
}

impl fmt::Display for Conservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conservation { holds, offered, sent, dropped, backlog } = self;
        let verdict = if *holds { "holds" } else { "FAILS" };
        if *offered != sent + dropped + backlog {
            // A network counts datagrams, fragments and acknowledgements, each where it is.
            return write!(
                f,
                "{verdict}: offered {offered}, received {sent}, dropped {dropped}, inside {backlog}"
            );
        }
        write!(
            f,
            "{verdict}: offered {offered} = sent {sent} + dropped {dropped} + backlog {backlog}"
        )
    }
}

impl Report {
    /// The bins as lines of `start_s,class,bytes`, of a network `start_s,link,from,class,bytes`; if
    /// there are any.
    pub fn bins_csv(&self) -> Option<String> {
        let bins = self.bins.as_ref()?;
        let network = self.network.as_ref();
        Some(network.map_or_else(|| bins.to_csv(), NetworkReport::bins_csv))
    }
}

impl NetworkReport {
    /// Returns the rows of all outlets, one outlet after the other.
    fn bins_csv(&self) -> String {
        let mut text = "start_s,link,from,class,bytes\n".to_owned();
        for outlet in &self.outlets {
            if let Some(bins) = &outlet.bins {
                let place = format!("{},{},", quoted(&outlet.link), quoted(&outlet.from));
                bins.lines(&place, &mut text);
            }
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = Duration::from_nanos(self.duration.as_nanos() - self.warmup.as_nanos());
        writeln!(
            f,
            "{}: {} at {}, seed {}",
            self.scenario, self.link.scheduler, self.link.rate, self.seed
        )?;
        if let Some(host) = &self.host {
            writeln!(f, "host: {host}")?;
        }
        writeln!(f, "counted: {counted} after a warm-up of {}", self.warmup)?;
        writeln!(f, "utilisation: {:.2} %\n", self.link.utilisation * 100.0)?;
        writeln!(f, "{}\n", class_table(&self.classes))?;
        writeln!(f, "{}\n", self.source_table())?;
        if let Some(behind) = self.behind.as_ref().filter(|_| self.network.is_none()) {
            writeln!(f, "{behind}\n")?;
        }
        for connections in [self.tcp_table(), self.quic_table(), self.playback_table()] {
            if !connections.is_empty() {
                writeln!(f, "{connections}\n")?;
            }
        }
        for change in &self.changes {
            writeln!(f, "{change}\n")?;
        }
        if let Some(explain) = &self.explain {
            writeln!(f, "{explain}\n")?;
        }
        // A network shows them with each outlet.
        if let Some(bins) = self.bins.as_ref().filter(|_| self.network.is_none()) {
            writeln!(f, "{bins}\n")?;
        }
        if let Some(network) = &self.network {
            writeln!(f, "{network}")?;
        }
        writeln!(f, "conservation, warm-up included, {}", self.conservation)
    }
}

impl Report {
    fn source_table(&self) -> Table {
        let head = [
            "source",
            "kind",
            "class",
            "sent",
            "received",
            "lost",
            "goodput\nMbit/s",
            "p50 ms",
            "p90",
            "p99",
            "max",
            "mean",
        ];
        let mut table = Table::new(head).words(&[1, 2]);
        for source in &self.sources {
            let mut row = vec![
                source.name.clone(),
                source.kind.to_owned(),
                source.class.clone(),
                source.sent.packets.to_string(),
                source.received.packets.to_string(),
                source.lost.packets.to_string(),
                megabits(source.goodput_bps as f64),
            ];
            row.extend(source.delay.cells());
            table.row(row);
        }
        table
    }

    /// A row for each source over TCP.
    fn tcp_table(&self) -> Table {
        let mut table = TcpReport::table();
        for source in &self.sources {
            if let Some(tcp) = &source.tcp {
                table.row(tcp.cells(&source.name));
            }
        }
        table
    }

    /// A row for each source whose receiver plays what it fetches.
    fn playback_table(&self) -> Table {
        let head = ["playback", "start-up ms", "stalls", "stalled ms"];
        let mut table = Table::new(head);
        for source in &self.sources {
            if let Some(Playback { startup, stalls, stalled }) = source.playback {
                let millis = |time: Duration| millis(time.as_nanos() as f64 / 1e3);
                let startup = startup.map_or_else(|| "never".to_owned(), millis);
                let stalled = millis(stalled);
                table.row([source.name.clone(), startup, stalls.to_string(), stalled]);
            }
        }
        table
    }

    /// A row for each source over QUIC.
    fn quic_table(&self) -> Table {
        let mut table = QuicReport::table();
        for source in &self.sources {
            if let Some(quic) = &source.quic {
                table.row(quic.cells(&source.name));
            }
        }
        table
    }
}
