//! The history of each class of a load, in bins: rates, backlog, delays, drops, loans.
//!
//! [`Series::of`] replays a [`Load`] and sums what happens in a [`Window`]. The window `(from, to]`
//! excludes its beginning and includes its end, and so does each bin: what happens at the instant
//! at which a bin ends belongs to it. Delays are exact: a quantile is the delay of one packet.
//! Invariant: the bins of a class sum to what it did in the window, and a class above others is
//! their sum, at any instant of a change, too.

mod history;
mod rows;

pub use history::{ClassHistory, ClassPoint, Heat, History, Loan, wall_ms};
pub use rows::Rows;

use crate::load::{Detail, Happened, Load, Runs, Ticks};
use std::collections::BTreeMap;
use std::ops::Range;
use weir_core::event::{Departure, DropReason, Dropped};
use weir_core::explain::Sojourn;
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::parameter::BuildError;
use weir_core::units::{Duration, Instant};

/// Which time is looked at, and how finely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its beginning, which is not part of it.
    pub from: Instant,
    /// Its end, which is part of it.
    pub to: Instant,
    /// The width of a bin.
    pub step: Duration,
}

/// The history of each class in a window.
#[derive(Clone, Debug)]
pub struct Series {
    /// The time, and its bins.
    pub window: Window,
    /// Every class, in the order in which they were first declared.
    pub classes: Vec<ClassSeries>,
    /// Loans between classes, by bin.
    pub loans: Vec<Lent>,
    /// Packets that left in the window or were dropped there.
    pub packets: u64,
    /// How often a driver asked the scheduler, if one did.
    pub runs: Option<Runs>,
}

/// The history of one class, bin after bin.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassSeries {
    /// The name of the class.
    pub name: String,
    /// Charged bytes that were sent.
    pub sent: Vec<u64>,
    /// Charged bytes that were offered.
    pub offered: Vec<u64>,
    /// Charged bytes that wait at the end of the bin.
    pub backlog: Vec<u64>,
    /// Charged bytes that were sent on loan.
    pub borrowed: Vec<u64>,
    /// The delay in ns that half of the packets sent do not exceed; `None` where none was sent.
    pub delay_p50: Vec<Option<u64>>,
    /// The delay in ns that 99 of 100 packets sent do not exceed.
    pub delay_p99: Vec<Option<u64>>,
    /// Packets that were dropped, by reason.
    pub drops: BTreeMap<&'static str, Vec<u32>>,
    /// Packets that left, and the sum of their delays in ns.
    pub left: (u64, u64),
    /// The packets sent by bin of time and of delay, where there are any, in this order.
    heat: Vec<(u32, u8, u32)>,
}

/// The bytes that a class sent on loan in a bin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lent {
    /// The number of the bin.
    pub bin: usize,
    /// The place of the class that borrowed.
    pub borrower: usize,
    /// The place of the class that lent.
    pub lender: usize,
    /// The bytes that the policy charges for them.
    pub bytes: u64,
}

impl Window {
    /// Returns the number of bins.
    pub fn bins(&self) -> usize {
        let nanos = self.to.since(self.from.min(self.to)).as_nanos();
        nanos.div_ceil(self.step.as_nanos().max(1)).max(1) as usize
    }

    /// Returns the bin of an instant; `None` outside the window.
    pub fn bin(&self, at: Instant) -> Option<usize> {
        let is_inside = at > self.from && at <= self.to;
        let nanos = || at.since(self.from).as_nanos() - 1;
        is_inside.then(|| (nanos() / self.step.as_nanos().max(1)) as usize)
    }

    /// Returns when a bin ends.
    pub fn end(&self, bin: usize) -> Instant {
        let nanos = self.step.as_nanos().saturating_mul(bin as u64 + 1);
        self.from.after(Duration::from_nanos(nanos)).min(self.to)
    }

    /// Returns the length of a bin in seconds; the last may be shorter than the others.
    pub fn seconds(&self, bin: usize) -> f64 {
        let begin = self.step.as_nanos().saturating_mul(bin as u64);
        let begin = self.from.after(Duration::from_nanos(begin)).min(self.to);
        self.end(bin).since(begin).as_nanos().max(1) as f64 / 1e9
    }

    /// Returns the bins whose ends are from `from` to `to`.
    pub fn inside(&self, from: Option<Instant>, to: Option<Instant>) -> Range<usize> {
        let ends = |is_before: &dyn Fn(Instant) -> bool| {
            (0..self.bins()).take_while(|&bin| is_before(self.end(bin))).count()
        };
        let first = from.map_or(0, |from| ends(&|end| end < from));
        let last = to.map_or(self.bins(), |to| ends(&|end| end <= to));
        first..last.max(first)
    }

    /// Returns the finest width of these, from fine to coarse, of which the window has at most
    /// `bins` bins.
    pub fn step_for(length: Duration, bins: u64) -> Duration {
        let fits = |step: &&Duration| length.as_nanos().div_ceil(step.as_nanos()) <= bins.max(1);
        let coarse = || Duration::from_nanos(length.as_nanos().div_ceil(bins.max(1)).max(1));
        STEPS.iter().find(fits).copied().unwrap_or_else(coarse)
    }
}

impl Series {
    /// Replays `load` with a plan for each stage and sums what happens in the window; `each` is
    /// told everything that happens, also before it.
    ///
    /// # Errors
    /// When a plan does not build, or the bins would be more than [`CELLS_MAX`].
    pub fn of(
        load: &Load,
        plans: &[LinkPlan],
        window: Window,
        each: &mut dyn FnMut(&Happened<'_>),
    ) -> Result<Self, String> {
        let cells = cells(plans).saturating_mul(window.bins() as u64);
        if cells > CELLS_MAX || window.step == Duration::ZERO {
            return Err(format!(
                "{} bins of {} are {cells} numbers of each kind for all classes, of at most \
                 {CELLS_MAX}; take wider bins or a shorter time",
                window.bins(),
                window.step
            ));
        }
        let mut summing = Summing::new(load, plans, window);
        let detail = Detail {
            explained: true,
            ticks: Some(Ticks { first: window.end(0), step: window.step }),
            stop: Some(window.to),
            ..Detail::default()
        };
        let waiting = load.replay(plans, detail, &mut |happened| {
            each(&happened);
            summing.note(&happened);
        });
        waiting.map_err(|error: BuildError| error.message)?;
        Ok(summing.finish())
    }

    /// Returns the class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassSeries> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// The numbers of each kind that a bin of all classes has.
fn cells(plans: &[LinkPlan]) -> u64 {
    plans.iter().map(|plan| plan.tree.classes().count() as u64).sum()
}

/// Series that are being summed.
struct Summing<'a> {
    load: &'a Load,
    plans: &'a [LinkPlan],
    series: Series,
    stage: usize,
    rows: Rows,
    /// The delays of the bin in hand, for each class.
    delays: Vec<Vec<u64>>,
    bin: usize,
    loans: BTreeMap<(usize, usize, usize), u64>,
    edges: Vec<u64>,
}

impl<'a> Summing<'a> {
    fn new(load: &'a Load, plans: &'a [LinkPlan], window: Window) -> Self {
        let (classes, loans) = (Vec::new(), Vec::new());
        let mut this = Self {
            load,
            plans,
            series: Series { window, classes, loans, packets: 0, runs: None },
            stage: 0,
            rows: Rows::default(),
            delays: Vec::new(),
            bin: 0,
            loans: BTreeMap::new(),
            edges: edges(),
        };
        this.enter(0);
        this
    }

    /// The classes of this stage count from now on; classes of one name are one class.
    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        let bins = self.series.window.bins();
        let new = self.rows.enter(&self.plans[stage].tree).iter();
        self.series.classes.extend(new.map(|name| ClassSeries::empty(name, bins)));
        self.delays.resize(self.series.classes.len(), Vec::new());
    }

    fn note(&mut self, happened: &Happened<'_>) {
        match happened {
            Happened::Stage(stage) => self.enter(*stage),
            Happened::Offered(arrival) => {
                let bytes = u64::from(self.plans[self.stage].charged_for(&arrival.packet));
                self.add(arrival.at, arrival.leaf, |class, bin| class.offered[bin] += bytes);
            }
            Happened::Left(left) => self.left(left),
            Happened::Dropped(dropped, _) => self.dropped(dropped),
            Happened::Waited(sojourn) => self.lent(sojourn),
            Happened::Ran(runs) => self.ran(*runs),
            Happened::Tick(at, backlog) => self.tick(*at, backlog),
        }
    }

    /// Adds to a leaf's class and all above it, in the bin of an instant.
    fn add(&mut self, at: Instant, leaf: LeafId, add: impl Fn(&mut ClassSeries, usize)) {
        let Some(bin) = self.series.window.bin(at) else { return };
        for &row in self.rows.of_leaf(leaf) {
            add(&mut self.series.classes[row], bin);
        }
    }

    fn left(&mut self, left: &Departure) {
        let bytes = left.charged.get();
        // What a driver holds is sent later than the scheduler handed it out.
        let sent = if self.load.driver.is_some() { left.finished } else { left.at };
        self.add(sent, left.leaf, |class, bin| class.sent[bin] += bytes);
        let Some(bin) = self.series.window.bin(left.at) else { return };
        while self.bin < bin {
            self.finish_bin();
        }
        self.series.packets += 1;
        let delay = left.at.since(left.arrived).as_nanos();
        for &row in self.rows.of_leaf(left.leaf) {
            self.delays[row].push(delay);
            let (packets, sum) = self.series.classes[row].left;
            self.series.classes[row].left = (packets + 1, sum + delay);
        }
    }

    fn dropped(&mut self, dropped: &Dropped) {
        let bins = self.series.window.bins();
        let reason: DropReason = dropped.reason;
        self.series.packets += u64::from(self.series.window.bin(dropped.at).is_some());
        self.add(dropped.at, dropped.leaf, |class, bin| {
            let row = class.drops.entry(reason.name()).or_insert_with(|| vec![0; bins]);
            row[bin] += 1;
        });
    }

    fn ran(&mut self, more: Runs) {
        let runs = self.series.runs.get_or_insert_default();
        runs.all += more.all;
        runs.contended += more.contended;
    }

    fn lent(&mut self, sojourn: &Sojourn) {
        let lender = sojourn.lender.filter(|_| sojourn.dropped.is_none());
        let lender = lender.and_then(|class| self.rows.of_class(class));
        let bin = self.series.window.bin(sojourn.at);
        let (Some(lender), Some(bin)) = (lender, bin) else { return };
        let place = self.load.place(sojourn.handle);
        let packet = place.map(|place| &self.load.arrivals[place].packet);
        let bytes = packet.map_or(0, |packet| self.plans[self.stage].charged_for(packet).into());
        // A class above the lender borrowed nothing.
        let path = self.rows.of_leaf(sojourn.leaf);
        for &row in path.iter().take_while(|&&row| row != lender) {
            self.series.classes[row].borrowed[bin] += bytes;
        }
        if let Some(&borrower) = path.first() {
            *self.loans.entry((bin, borrower, lender)).or_default() += bytes;
        }
    }

    fn tick(&mut self, at: Instant, backlog: &[u64]) {
        let Some(bin) = self.series.window.bin(at) else { return };
        for (leaf, bytes) in (0..).map(LeafId).zip(backlog) {
            for &row in self.rows.of_leaf(leaf) {
                self.series.classes[row].backlog[bin] += bytes;
            }
        }
    }

    /// Turns the delays of the bin in hand into quantiles and counts.
    fn finish_bin(&mut self) {
        for (class, delays) in self.series.classes.iter_mut().zip(&mut self.delays) {
            if delays.is_empty() {
                continue;
            }
            delays.sort_unstable();
            class.delay_p50[self.bin] = quantile(delays, 500);
            class.delay_p99[self.bin] = quantile(delays, 990);
            let mut rest = delays.as_slice();
            while let Some(&least) = rest.first() {
                let cell = self.edges.partition_point(|&edge| edge <= least);
                let end = self.edges.get(cell).copied().unwrap_or(u64::MAX);
                let count = rest.partition_point(|&delay| delay < end).max(1);
                let cell = cell.saturating_sub(1).min(self.edges.len() - 2);
                class.count(self.bin as u32, cell as u8, count as u32);
                rest = &rest[count..];
            }
            delays.clear();
        }
        self.bin += 1;
    }

    fn finish(mut self) -> Series {
        self.finish_bin();
        let lent = |((bin, borrower, lender), bytes)| Lent { bin, borrower, lender, bytes };
        self.series.loans = self.loans.into_iter().map(lent).collect();
        self.series
    }
}

impl ClassSeries {
    fn empty(name: &str, bins: usize) -> Self {
        let zeros = || vec![0; bins];
        Self {
            name: name.to_owned(),
            sent: zeros(),
            offered: zeros(),
            backlog: zeros(),
            borrowed: zeros(),
            delay_p50: vec![None; bins],
            delay_p99: vec![None; bins],
            drops: BTreeMap::new(),
            left: (0, 0),
            heat: Vec::new(),
        }
    }

    /// Adds packets to a cell; those below the first edge and above the last count in the cells
    /// beside these.
    fn count(&mut self, bin: u32, cell: u8, packets: u32) {
        match self.heat.last_mut() {
            Some(last) if (last.0, last.1) == (bin, cell) => last.2 += packets,
            _ => self.heat.push((bin, cell, packets)),
        }
    }
}

/// Returns the delay that so many of a thousand packets do not exceed: the smallest that suits.
fn quantile(sorted: &[u64], part: u64) -> Option<u64> {
    let rank = (sorted.len() as u64 * part).div_ceil(1000).max(1) - 1;
    sorted.get(rank as usize).copied()
}

/// Returns the edges of the bins of delays in ns: eight a decade from 1 µs to 100 s.
pub fn edges() -> Vec<u64> {
    let edge = |number: u32| libm::round(libm::pow(10.0, 3.0 + f64::from(number) / 8.0)) as u64;
    (0..=EDGES).map(edge).collect()
}

/// The widths of bins to choose from.
const STEPS: [Duration; 12] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];
/// The bins of delays.
const EDGES: u32 = 64;
/// Bound: bins of all classes of a series; a request for more is refused.
pub const CELLS_MAX: u64 = 1 << 20;
