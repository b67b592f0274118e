//! The history of each class: throughput, backlog, delays and drops in bins of equal width.
//!
//! A run reports each packet once, when it leaves or is dropped; from its two instants follows when
//! it waited, so the backlog of a bin is its exact mean. Bins begin [`STEP_MIN`] wide, and become
//! wider by whole factors when there are more than [`BINS_MAX`]; so memory is bounded however long
//! a run is, and every width is a round number. Invariant: the bins of a class sum to its totals.

use crate::network::plan::OutletId;
use crate::scenario::Scenario;
use crate::watch::{Fate, Place, places};
use std::collections::BTreeMap;
use weir_core::account::{Histogram, Sparse};
use weir_core::event::DropReason;
use weir_core::link::LinkPlan;
use weir_core::units::{Duration, Instant};
use weir_trace::series::{ClassHistory, ClassPoint};

/// The history of the classes of one link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tracks {
    /// The heading: a scenario, a capture, a link.
    pub title: String,
    /// Further facts in words, such as scheduler and seed.
    pub about: String,
    /// The width of a bin, in seconds.
    pub step_s: f64,
    /// The rate of the line, in bit/s, and from which second on.
    pub rate_bps: Vec<(f64, f64)>,
    /// Each class with a queue, in the order of the policy.
    pub classes: Vec<Track>,
    /// Notes for the reader, a sentence each.
    pub notes: Vec<String>,
}

/// A class in a picture.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Track {
    /// The name of the class.
    pub name: String,
    /// Its values for each bin; of loans nothing is known.
    pub history: ClassHistory,
    /// The distribution of all delays: µs, and the part of the packets, 0 to 1, that took at most
    /// that.
    pub delays: Vec<(f64, f64)>,
    /// Packets dropped in all, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// Tracks that are being made.
#[derive(Debug)]
pub struct Timeline {
    /// The bins' width in ns.
    step: u64,
    /// Whether the caller chose it.
    is_fixed: bool,
    rows: Vec<Row>,
    places: BTreeMap<String, usize>,
    /// The bin of the latest packet.
    now: usize,
    /// When the latest packet left.
    latest: Instant,
}

#[derive(Debug, Default)]
struct Row {
    name: String,
    cells: Vec<Cell>,
    /// The delays of the present bin.
    present: Histogram,
    delays: Histogram,
    drops: BTreeMap<String, u64>,
}

/// One class in one bin.
#[derive(Clone, Debug, Default)]
struct Cell {
    offered: u64,
    sent: u64,
    dropped: u64,
    /// The backlog at the start of the bin less that at the start of the bin before.
    change: i64,
    /// Bytes times ns that waited, in addition to what waited at the start of the bin.
    area: i128,
    delays: Sparse,
}

/// The passage of a packet through its leaf, as a track needs it.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The class of its leaf.
    pub class: &'a str,
    /// When it was offered.
    pub arrived: Instant,
    /// When it left or was dropped.
    pub at: Instant,
    /// The bytes that the policy charges for it.
    pub bytes: u64,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<DropReason>,
}

impl Timeline {
    /// An empty timeline, with these classes first; bins are `step` wide, or as wide as the time
    /// needs.
    pub fn new<'a>(classes: impl Iterator<Item = &'a str>, step: Option<Duration>) -> Self {
        let mut new = Self {
            step: step.unwrap_or(STEP_MIN).as_nanos().max(1),
            is_fixed: step.is_some(),
            rows: Vec::new(),
            places: BTreeMap::new(),
            now: 0,
            latest: Instant::ZERO,
        };
        classes.for_each(|name| {
            new.place(name);
        });
        new
    }

    /// An empty timeline of the leaves of a link.
    pub fn of_link(plan: &LinkPlan, step: Option<Duration>) -> Self {
        let tree = &plan.tree;
        let name = |(leaf, _)| tree.class(tree.class_of(leaf)).name.as_str();
        Self::new(tree.leaves().map(name), step)
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        // All classes beyond the bound share the last row.
        if self.rows.len() > CLASSES_MAX {
            return CLASSES_MAX;
        }
        let place = self.rows.len();
        let name = if place == CLASSES_MAX { OTHERS } else { name };
        self.rows.push(Row { name: name.to_owned(), ..Row::default() });
        self.places.insert(name.to_owned(), place);
        place
    }

    /// Adds a packet. Packets come in the order in which they leave.
    pub fn add(&mut self, passage: Passage<'_>) {
        let place = self.place(passage.class);
        self.reach(passage.at.as_nanos());
        self.latest = self.latest.max(passage.at);
        let (step, now) = (self.step, self.now);
        let row = &mut self.rows[place];
        row.wait(step, passage.arrived.as_nanos(), passage.bytes as i64);
        row.wait(step, passage.at.as_nanos(), -(passage.bytes as i64));
        row.cell((passage.arrived.as_nanos() / step) as usize).offered += passage.bytes;
        if let Some(reason) = passage.dropped {
            row.cell(now).dropped += 1;
            *row.drops.entry(reason.name().to_owned()).or_default() += 1;
            return;
        }
        row.cell(now).sent += passage.bytes;
        row.present.record(passage.at.since(passage.arrived));
    }

    /// Adds a packet that still waits at the end.
    pub fn add_waiting(&mut self, class: &str, arrived: Instant, bytes: u64) {
        let (step, place) = (self.step, self.place(class));
        let row = &mut self.rows[place];
        row.wait(step, arrived.as_nanos(), bytes as i64);
        row.cell((arrived.as_nanos() / step) as usize).offered += bytes;
    }

    /// Returns when the latest packet left.
    pub fn latest(&self) -> Instant {
        self.latest
    }

    /// Goes on to the bin of an instant.
    fn reach(&mut self, nanos: u64) {
        while !self.is_fixed && nanos / self.step >= BINS_MAX as u64 {
            self.close();
            let factor = if self.step.to_string().starts_with('1') { 2 } else { 5 };
            self.rows.iter_mut().for_each(|row| row.widen(self.step, factor));
            self.step *= factor;
            self.now = (self.now as u64 / factor) as usize;
        }
        let bin = ((nanos / self.step) as usize).min(FIXED_BINS_MAX);
        if bin > self.now {
            self.close();
            self.now = bin;
        }
    }

    /// Puts the delays of the present bin away.
    fn close(&mut self) {
        let now = self.now;
        for row in self.rows.iter_mut().filter(|row| row.present.count() > 0) {
            row.close(now);
        }
    }

    /// Returns the tracks of the time up to `end`.
    pub fn finish(mut self, end: Instant) -> Tracks {
        self.reach(end.as_nanos());
        self.close();
        let step = self.step;
        let count = end.as_nanos().div_ceil(step).clamp(1, FIXED_BINS_MAX as u64) as usize;
        // What leaves at the very end is in the last bin.
        let classes = self.rows.into_iter().map(|row| row.finish(step, count, end)).collect();
        let step_s = step as f64 / 1e9;
        Tracks { step_s, classes, ..Tracks::default() }
    }
}

impl Row {
    fn cell(&mut self, bin: usize) -> &mut Cell {
        let bin = bin.min(FIXED_BINS_MAX);
        if bin >= self.cells.len() {
            self.cells.resize(bin + 1, Cell::default());
        }
        &mut self.cells[bin]
    }

    /// From `nanos` on `bytes` more wait.
    fn wait(&mut self, step: u64, nanos: u64, bytes: i64) {
        let bin = (nanos / step) as usize;
        let rest = (bin as u64 + 1) * step - nanos;
        self.cell(bin).area += i128::from(bytes) * i128::from(rest);
        self.cell(bin + 1).change += bytes;
    }

    fn close(&mut self, bin: usize) {
        self.delays.merge(&self.present);
        let present = std::mem::take(&mut self.present);
        let cell = self.cell(bin);
        let mut sum = present;
        sum.merge_sparse(&cell.delays);
        cell.delays = sum.sparse_since(&Histogram::new());
    }

    /// Joins `factor` bins of this width to one.
    fn widen(&mut self, step: u64, factor: u64) {
        let old = std::mem::take(&mut self.cells);
        for (bin, cell) in old.into_iter().enumerate() {
            let place = bin / factor as usize;
            let inner = bin as u64 % factor;
            // A change inside the new bin lasts to its end, and is there at the start of the next.
            let at_start = bin.div_ceil(factor as usize);
            self.cell(at_start).change += cell.change;
            let rest = i128::from(if inner == 0 { 0 } else { (factor - inner) * step });
            let into = self.cell(place);
            into.area += cell.area + i128::from(cell.change) * rest;
            into.offered += cell.offered;
            into.sent += cell.sent;
            into.dropped += cell.dropped;
            if cell.delays.count() > 0 {
                let mut sum = Histogram::new();
                sum.merge_sparse(&into.delays);
                sum.merge_sparse(&cell.delays);
                into.delays = sum.sparse_since(&Histogram::new());
            }
        }
    }

    fn finish(mut self, step: u64, count: usize, end: Instant) -> Track {
        self.cells.resize(self.cells.len().max(count + 1), Cell::default());
        let extra = self.cells.split_off(count);
        let last = self.cells.last_mut().expect("there is a bin");
        // What left at the very end.
        last.sent += extra[0].sent;
        last.dropped += extra[0].dropped;
        let mut track = Track {
            name: self.name,
            drops: self.drops,
            delays: distribution(&self.delays),
            ..Track::default()
        };
        let mut level = 0_i64;
        for (bin, cell) in self.cells.iter().enumerate() {
            let start = bin as u64 * step;
            // The last bin may be cut.
            let width = (end.as_nanos().saturating_sub(start)).clamp(1, step);
            let seconds = width as f64 / 1e9;
            level += cell.change;
            let waited = i128::from(level) * i128::from(step) + cell.area;
            let bps = |bytes: u64| Some(bytes as f64 * 8.0 / seconds);
            let mut delays = Histogram::new();
            delays.merge_sparse(&cell.delays);
            let delay = |per_mille| {
                let micros = delays.quantile(per_mille).value.as_nanos() as f64 / 1e3;
                (delays.count() > 0).then_some(micros)
            };
            track.history.push(ClassPoint {
                offered_bps: bps(cell.offered),
                sent_bps: bps(cell.sent),
                backlog_bytes: Some(waited as f64 / step as f64),
                dropped_pps: Some(cell.dropped as f64 / seconds),
                p50_us: delay(500),
                p99_us: delay(990),
                borrowed_bps: None,
            });
        }
        track
    }
}

/// Returns the points of a distribution: each per mille once, each delay once.
fn distribution(delays: &Histogram) -> Vec<(f64, f64)> {
    if delays.count() == 0 {
        return Vec::new();
    }
    let mut points: Vec<(f64, f64)> = Vec::new();
    for per_mille in 1..=1000_u32 {
        let micros = delays.quantile(per_mille).value.as_nanos() as f64 / 1e3;
        let part = f64::from(per_mille) / 1000.0;
        match points.last_mut() {
            Some(last) if last.0 >= micros => last.1 = part,
            _ => points.push((micros, part)),
        }
    }
    points
}

/// The timelines of a scenario's links, filled from the [`Fate`] of each packet.
#[derive(Debug)]
pub struct Timelines<'a> {
    scenario: &'a Scenario,
    links: Vec<Link<'a>>,
}

/// A link whose tracks are filled.
#[derive(Debug)]
struct Link<'a> {
    outlet: OutletId,
    /// From when on it has which plan.
    plans: Vec<(Instant, &'a LinkPlan)>,
    timeline: Timeline,
}

impl<'a> Timelines<'a> {
    /// Empty timelines of the links that have a policy, the main one first, at most [`LINKS_MAX`];
    /// bins are `step` wide, or as wide as the time needs.
    pub fn of(scenario: &'a Scenario, step: Option<Duration>) -> Self {
        let outlets = match &scenario.network {
            None => vec![OutletId(0)],
            Some(network) => {
                let others = network.policies.iter().filter(|id| **id != network.main);
                std::iter::once(network.main).chain(others.copied()).collect()
            }
        };
        let plans = scenario.plans();
        let link = |outlet: OutletId| {
            let changes = scenario.changes.iter().filter(|change| change.outlet == outlet);
            let times = std::iter::once(Instant::ZERO).chain(changes.map(|change| change.at));
            let plans: Vec<_> = times.zip(plans[outlet.index()].iter().copied()).collect();
            Link { outlet, timeline: Timeline::of_link(plans[0].1, step), plans }
        };
        let links = outlets.into_iter().take(LINKS_MAX).map(link).collect();
        Self { scenario, links }
    }

    /// Adds a packet to the track of its class.
    pub fn add(&mut self, fate: &Fate<'_>) {
        let outlet = |link: &&mut Link<'_>| link.outlet == fate.outlet;
        let Some(link) = self.links.iter_mut().find(outlet) else { return };
        let end = Instant::ZERO.after(self.scenario.duration);
        let plan = link.plan_at(fate.arrived);
        let bytes = u64::from(plan.charged(fate.length));
        if fate.at > end {
            return link.timeline.add_waiting(fate.class, fate.arrived, bytes);
        }
        let Fate { class, arrived, at, dropped, .. } = *fate;
        link.timeline.add(Passage { class, arrived, at, bytes, dropped });
    }

    /// Returns the place of each link, as tables of packets have it.
    pub fn places(&self) -> Vec<Place> {
        let all = places(self.scenario);
        self.links.iter().map(|link| all[link.outlet.index()].clone()).collect()
    }

    /// Returns the names of the links: in a network where each begins and ends, else that of the
    /// scenario.
    fn names(&self) -> Vec<String> {
        let named = |(link, from): Place| match self.scenario.network {
            Some(_) => format!("{link} from {from}"),
            None => self.scenario.name.clone(),
        };
        self.places().into_iter().map(named).collect()
    }

    /// Returns the tracks of each link.
    pub fn finish(self) -> Vec<Tracks> {
        let (scenario, end) = (self.scenario, Instant::ZERO.after(self.scenario.duration));
        let names = self.names();
        let tracks = |(link, name): (Link<'_>, String)| {
            let rate = |row: &(Instant, &LinkPlan)| {
                (row.0.as_nanos() as f64 / 1e9, row.1.tree.rate().bits_per_second() as f64)
            };
            let rate_bps = link.plans.iter().map(rate).collect();
            let scheduler = link.plans[0].1.scheduler;
            let place = match &scenario.network {
                Some(_) => format!("{name}, "),
                None => String::new(),
            };
            let about = format!(
                "{place}{scheduler} at {}, seed {}",
                link.plans[0].1.tree.rate(),
                scenario.seed
            );
            let title = scenario.name.clone();
            Tracks { title, about, rate_bps, ..link.timeline.finish(end) }
        };
        self.links.into_iter().zip(names).map(tracks).collect()
    }
}

impl<'a> Link<'a> {
    fn plan_at(&self, at: Instant) -> &'a LinkPlan {
        let begun = self.plans.iter().rev().find(|row| row.0 <= at);
        begun.unwrap_or(&self.plans[0]).1
    }
}

/// The narrowest bins.
pub const STEP_MIN: Duration = Duration::from_nanos(1_000_000);
/// Bound: bins of a picture unless the caller chooses their width; with more, bins become wider.
pub const BINS_MAX: usize = 256;
/// Bound: bins of a width that the caller chose; what is later counts in the last.
pub const FIXED_BINS_MAX: usize = 4096;
/// Bound: classes with tracks of their own; further ones share one track.
pub const CLASSES_MAX: usize = 1024;
/// Bound: links of a network that are drawn; further ones are not.
pub const LINKS_MAX: usize = 8;
/// The name of the row of all further classes.
const OTHERS: &str = "other classes";
