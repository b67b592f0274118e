//! The parts of a report that only networks have: per outlet, processor and tap.

use super::control::AutorateReport;
use super::engine::Engine;
use super::plan::OutletId;
use super::signalling::SignallingReport;
use super::tap::TapReport;
use crate::behind::BehindReport;
use crate::bins::{Bins, BinsReport};
use crate::classes::{ClassSums, class_table, shown};
use crate::meter::{DROPPED, LEFT, SENT};
use crate::report::{ClassReport, Conservation, LinkReport, Report, source_report};
use crate::run::Runner;
use serde::Serialize;
use std::fmt;
use weir_core::units::{Duration, Rate};
use weir_trace::driver::waiting::Length;
use weir_trace::explain::Explained;
use weir_trace::shown::bits_per_second;

/// The figures of a network.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NetworkReport {
    /// Every direction of every link, in the order of declaration, the way back second.
    pub outlets: Vec<OutletReport>,
    /// Every node whose forwarding costs something.
    pub processors: Vec<ProcessorReport>,
    /// The records of the taps.
    pub taps: Vec<TapReport>,
    /// Datagrams of which some pieces arrived, but not all in time.
    pub incomplete: u64,
    /// The reservations, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signalling: Option<SignallingReport>,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OutletReport {
    /// The name of the link.
    pub link: String,
    /// The node whose outlet it is.
    pub from: String,
    /// The node that it leads to.
    pub to: String,
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The driver between the scheduler and the wire.
    pub driver: &'static str,
    /// The rate of the line.
    #[serde(rename = "rate_bps", serialize_with = "bits_per_second")]
    pub rate: Rate,
    /// The part of the time in which the line was sending.
    pub utilisation: f64,
    /// The bottleneck behind it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindReport>,
    /// The rate, if a controller or a trace sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autorate: Option<AutorateReport>,
    /// Packets lost behind the wire, by the bottleneck and the link's `loss`.
    pub lost: u64,
    /// How often the scheduler was polled.
    pub runs: u64,
    /// How often more than one leaf had packets then.
    pub contended: u64,
    /// Every class, as in the report of one link.
    #[serde(serialize_with = "shown")]
    pub classes: Vec<ClassReport>,
    /// The queue of each leaf, since the last change of plan.
    pub queues: Vec<QueueReport>,
    /// The bytes that each class sent over time, if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bins: Option<BinsReport>,
}

/// The queue of a leaf over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueReport {
    /// The name of the class.
    pub class: String,
    /// How many packets waited on average.
    pub mean: f64,
    /// The most that waited.
    pub max: u32,
    /// The part of the time in which nothing waited.
    pub empty: f64,
    /// How often the scheduler was polled while packets waited in this leaf only.
    #[serde(skip)]
    pub alone: u64,
}

/// The processor of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProcessorReport {
    /// The name of the node.
    pub node: String,
    /// Packets that it forwarded.
    pub forwarded: u64,
    /// Packets that found the input queue full.
    pub dropped: u64,
}

impl NetworkReport {
    /// The outlet of the link called `link` that leads away from the node called `from`.
    pub fn outlet(&self, link: &str, from: &str) -> Option<&OutletReport> {
        self.outlets.iter().find(|outlet| outlet.link == link && outlet.from == from)
    }
}

impl OutletReport {
    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// The queue of the leaf called `name`.
    pub fn queue(&self, name: &str) -> Option<&QueueReport> {
        self.queues.iter().find(|queue| queue.class == name)
    }

    /// The part of the scheduler's runs that found more than one leaf with packets.
    pub fn contended_share(&self) -> f64 {
        self.contended as f64 / self.runs.max(1) as f64
    }
}

impl Engine<'_> {
    /// The report, after the run.
    pub fn report(mut self) -> Report {
        let segments = self.runners.iter_mut().find_map(Runner::take_segments);
        for (meter, runner) in self.meters.iter_mut().zip(&mut self.runners) {
            runner.report(self.end, meter);
        }
        let span = self.scenario.duration.as_nanos() - self.scenario.warmup.as_nanos();
        let span = Duration::from_nanos(span);
        let conservation = self.conservation();
        let outlets: Vec<_> = (0..self.outlets.len()).map(|at| self.outlet(at, span)).collect();
        let main = &outlets[self.network.main.index()];
        let scenario = self.scenario;
        let sources = scenario.sources.iter().zip(&self.meters).enumerate();
        let sources = sources.map(|(place, (source, meter))| {
            source_report(source, meter, &self.class_of(place), span)
        });
        let explained = &self.outlets[self.network.main.index()].log.explained;
        let report = Report {
            bins: main.bins.clone(),
            segments,
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            host: None,
            duration: scenario.duration,
            warmup: scenario.warmup,
            link: LinkReport {
                scheduler: scenario.link.scheduler,
                rate: scenario.link.tree.rate(),
                utilisation: main.utilisation,
            },
            classes: main.classes.clone(),
            sources: sources.collect(),
            changes: std::mem::take(&mut self.changes),
            explain: explained.as_ref().map(Explained::report),
            conservation,
            behind: main.behind.clone(),
            network: Some(NetworkReport {
                processors: self.processor_reports(),
                taps: self.tap_reports(),
                incomplete: self.reassembly.given_up,
                signalling: self.signalling_report(span),
                outlets,
            }),
        };
        self.tell_rest();
        report
    }

    fn outlet(&mut self, place: usize, span: Duration) -> OutletReport {
        let (link, end) = self.network.outlet(OutletId(place as u32));
        let node = |end: usize| self.network.nodes[link.ends[end].0 as usize].name.clone();
        let scenario = self.scenario;
        let (first, classifier) = match &link.outlets[end].queueing {
            Some(own) => (&own.link.tree, &own.classifier),
            None => (&scenario.link.tree, &scenario.classifier),
        };
        let outlet = &mut self.outlets[place];
        let account = outlet.account();
        let mut classes: ClassSums = std::mem::take(&mut outlet.classes);
        classes.add(&outlet.plan.tree, account.leaves(), &outlet.log.meter);
        classes.mark_hashed(first, classifier);
        for change in scenario.changes.iter().filter(|change| change.outlet.index() == place) {
            classes.mark_hashed(&change.link.tree, &change.classifier);
        }
        let lengths = outlet.log.waiting.until(self.end);
        let bins = outlet.log.bins.take().map(Bins::report);
        let nanos = span.as_nanos() as f64;
        let queue =
            |(length, (_, class)): (&Length, (_, &weir_core::sched::ClassSpec))| QueueReport {
                class: class.name.clone(),
                mean: length.area as f64 / nanos,
                max: length.max,
                empty: length.empty as f64 / nanos,
                alone: length.alone,
            };
        let queues = lengths.iter().zip(outlet.plan.tree.leaves());
        let queues = queues.filter(|(_, (_, class))| !class.name.is_empty());
        OutletReport {
            link: link.name.clone(),
            from: node(end),
            to: node(1 - end),
            scheduler: outlet.plan.scheduler,
            driver: link.outlets[end].driver.keyword(),
            rate: outlet.plan.tree.rate(),
            utilisation: outlet.log.meter.line.busy.as_nanos() as f64 / nanos,
            behind: outlet.passage.behind.as_ref().map(|behind| {
                behind.report(scenario.sources.iter().map(|source| source.name.as_str()))
            }),
            autorate: self.autorates.report(OutletId(place as u32), self.end),
            lost: outlet.passage.lost,
            runs: outlet.log.runs[0],
            contended: outlet.log.runs[1],
            classes: classes.report(span),
            queues: queues.map(queue).collect(),
            bins,
        }
    }

    /// The class of a source's packets at the main outlet, else at the first on their way.
    fn class_of(&self, source: usize) -> String {
        let lane = &self.lanes[2 * source];
        let hops = &lane.hops;
        let main = hops.iter().find(|hop| hop.outlet == self.network.main);
        let Some(hop) = main.or(hops.first()) else { return String::new() };
        let tree = &self.outlets[hop.outlet.index()].plan.tree;
        let found = hop.found(lane.headers.traffic_class.unwrap_or(0));
        tree.class(tree.class_of(found.leaf)).name.clone()
    }

    fn processor_reports(&self) -> Vec<ProcessorReport> {
        let rows = self.processors.iter().zip(&self.network.nodes);
        let row = |(processor, node): (&Option<super::cpu::Processor>, &super::plan::Node)| {
            let processor = processor.as_ref()?;
            let (forwarded, dropped) = (processor.forwarded, processor.dropped);
            Some(ProcessorReport { node: node.name.clone(), forwarded, dropped })
        };
        rows.filter_map(row).collect()
    }

    fn signalling_report(&mut self, span: Duration) -> Option<SignallingReport> {
        let meter = &self.meters[self.scenario.sources.len()];
        let signals = self.signals.as_mut()?;
        Some(signals.report(self.network, (meter, span, self.end)))
    }

    fn tap_reports(&mut self) -> Vec<TapReport> {
        let mut reports = Vec::with_capacity(self.network.taps.len());
        for plan in &self.network.taps {
            let (link, end) = self.network.outlet(plan.outlet);
            let from = &self.network.nodes[link.ends[end].0 as usize].name;
            // An outlet has its taps in the order of the plan.
            let tap = self.outlets[plan.outlet.index()].log.taps.remove(0);
            reports.push(tap.report(&link.name, from, self.end));
        }
        reports
    }

    /// The balance: of each outlet by itself, and of packets made and ended in all.
    fn conservation(&self) -> Conservation {
        let mut waiting = 0;
        let mut holds = true;
        for outlet in &self.outlets {
            let own = Conservation::of(&outlet.account());
            holds &= own.holds;
            waiting += own.backlog;
        }
        let processors = self.processors.iter().flatten();
        let processing: usize = processors.map(super::cpu::Processor::under_way).sum();
        let inside = waiting + self.flying + processing as u64;
        let sum = |of: usize| self.meters.iter().map(|meter| meter.total[of]).sum();
        Conservation {
            holds: holds && self.made == self.ended + inside,
            offered: sum(SENT),
            sent: sum(LEFT),
            dropped: sum(DROPPED),
            backlog: inside,
        }
    }
}

impl fmt::Display for NetworkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outlet in &self.outlets {
            let OutletReport { link, from, to, scheduler, driver, rate, .. } = outlet;
            let used = outlet.utilisation * 100.0;
            writeln!(f, "{link}, {from} to {to}: {scheduler} at {rate}, driver {driver}")?;
            write!(f, "utilisation: {used:.2} %")?;
            if outlet.lost > 0 {
                write!(f, "; {} packets were lost behind the wire", outlet.lost)?;
            }
            writeln!(f, "\n{}\n", class_table(&outlet.classes))?;
            if let Some(autorate) = &outlet.autorate {
                writeln!(f, "{autorate}\n")?;
            }
            if let Some(behind) = &outlet.behind {
                writeln!(f, "{behind}\n")?;
            }
            if let Some(bins) = outlet.bins.as_ref().filter(|bins| !bins.is_empty()) {
                writeln!(f, "{bins}\n")?;
            }
        }
        for ProcessorReport { node, forwarded, dropped } in &self.processors {
            writeln!(f, "{node} forwarded {forwarded} packets; {dropped} found its queue full")?;
        }
        for tap in &self.taps {
            let TapReport { link, from, point, packets, .. } = tap;
            writeln!(f, "tap at {link}, {from}, {point}: {packets} packets")?;
        }
        if let Some(signalling) = &self.signalling {
            write!(f, "{signalling}")?;
        }
        Ok(())
    }
}
