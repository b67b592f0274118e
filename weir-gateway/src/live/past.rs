//! The last 15 minutes: a frame for each second, and the events.
//!
//! Invariant: there are at most [`FRAMES_MAX`] frames and [`MARKS_MAX`] marks, and frames hold at
//! most [`CELLS_MAX`] counts of delays; the oldest delays are forgotten first.

use super::tally::{Between, ClassBetween, WayBetween};
use super::tree::Tree;
use crate::http::Fault;
use crate::json::{Direction, Mark, SpanQuery};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_core::account::Histogram;
use weir_core::units::Duration;

/// Frames and events, the oldest first, bounded in number.
#[derive(Default)]
pub struct Past {
    /// The classes that are shown now.
    tree: Option<Arc<Tree>>,
    frames: VecDeque<Arc<Frame>>,
    marks: VecDeque<Mark>,
    /// Counts of delays in all frames.
    cells: usize,
    /// Since when the link's ring has packets, in milliseconds since 1970.
    pub kept: Option<f64>,
    /// Why there is no status.
    absence: Option<String>,
}

/// One second of a link.
#[derive(Debug)]
pub struct Frame {
    /// The end of the second, in milliseconds since 1970.
    pub t: f64,
    pub tree: Arc<Tree>,
    pub ways: Vec<WayFrame>,
}

/// One second of a direction. Places are those of classes in the tree.
#[derive(Debug, Default)]
pub struct WayFrame {
    pub points: Vec<Option<Point>>,
    /// Place, reason and packets a second.
    pub drops: Vec<(u32, Arc<str>, f32)>,
    /// Borrower, lender (`None` for the link) and bits a second.
    pub loans: Vec<(u32, Option<u32>, f32)>,
    /// Packets by class and bin of the heat map, in the order of classes.
    pub delays: Vec<Cell>,
}

/// One second of a class.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub sent_bps: f32,
    pub offered_bps: f32,
    pub backlog_bytes: f32,
    /// Not a number where no packet left.
    pub p50_us: f32,
    pub p99_us: f32,
    pub dropped_pps: f32,
    pub borrowed_bps: f32,
}

/// Packets of a class with a delay of one bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub class: u32,
    pub bin: u8,
    pub packets: u32,
}

impl Past {
    /// Returns the directions, and the span of time that is kept.
    pub fn shown(&self) -> Result<(Vec<Direction>, f64, f64), Fault> {
        let Some(tree) = &self.tree else {
            let why = self.absence.as_deref().unwrap_or("the link was not asked yet");
            return Err(Fault::new(503, format!("no status of the link yet: {why}")));
        };
        let end = |frame: Option<&Arc<Frame>>| frame.map_or(0.0, |frame| frame.t);
        let from = end(self.frames.front()) - f64::from(STEP_MS);
        let directions = tree.ways.iter().map(|way| way.shown.clone()).collect();
        Ok((directions, from.max(0.0), end(self.frames.back())))
    }

    /// Shows these classes from now on.
    pub fn show(&mut self, tree: &Arc<Tree>) {
        (self.tree, self.absence) = (Some(Arc::clone(tree)), None);
    }

    /// Notes why the link does not answer; returns whether it answered before.
    pub fn lose(&mut self, why: &str) -> bool {
        self.absence.replace(why.to_owned()).is_none()
    }

    /// Notes that the link answers.
    pub fn find(&mut self) {
        self.absence = None;
    }

    /// Adds what happened in a second.
    pub fn add(&mut self, tree: &Arc<Tree>, between: &Between) {
        let frame = Frame::of(tree, between);
        self.cells += frame.cells();
        self.frames.push_back(Arc::new(frame));
        while self.frames.len() > FRAMES_MAX {
            let first = self.frames.pop_front();
            self.cells -= first.map_or(0, |frame| frame.cells());
        }
        let mut oldest = 0;
        while self.cells > CELLS_MAX && oldest + 1 < self.frames.len() {
            let frame = &mut self.frames[oldest];
            self.cells -= frame.cells();
            *frame = Arc::new(frame.without_delays());
            oldest += 1;
        }
    }

    /// Adds an event; beyond [`MARKS_MAX`] the oldest is forgotten.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push_back(mark);
        while self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// Returns the frames that end in a span of time.
    pub fn frames(&self, from: Option<f64>, to: Option<f64>) -> Vec<Arc<Frame>> {
        let frames = self.frames.iter().filter(|frame| is_within(frame.t, from, to));
        frames.map(Arc::clone).collect()
    }

    /// Returns what happened in a span of time.
    pub fn marks(&self, query: &SpanQuery) -> Vec<Mark> {
        let marks = self.marks.iter().filter(|mark| is_within(mark.t, query.from, query.to));
        marks.cloned().collect()
    }
}

fn is_within(t: f64, from: Option<f64>, to: Option<f64>) -> bool {
    from.is_none_or(|from| t >= from) && to.is_none_or(|to| t <= to)
}

impl Frame {
    fn of(tree: &Arc<Tree>, between: &Between) -> Self {
        let ways = between.ways.iter().map(WayFrame::of).collect();
        Self { t: between.t, tree: Arc::clone(tree), ways }
    }

    fn cells(&self) -> usize {
        self.ways.iter().map(|way| way.delays.len()).sum()
    }

    fn without_delays(&self) -> Self {
        let way = |way: &WayFrame| WayFrame {
            points: way.points.clone(),
            drops: way.drops.clone(),
            loans: way.loans.clone(),
            delays: Vec::new(),
        };
        let (t, tree) = (self.t, Arc::clone(&self.tree));
        Self { t, tree, ways: self.ways.iter().map(way).collect() }
    }
}

impl WayFrame {
    fn of(between: &WayBetween) -> Self {
        let mut way = Self::default();
        for (place, class) in between.classes.iter().enumerate() {
            way.points.push(class.as_ref().map(Point::of));
            let Some(class) = class else { continue };
            let lost = class.dropped.iter();
            way.drops.extend(lost.map(|(why, rate)| (place as u32, Arc::clone(why), *rate as f32)));
            way.add_delays(place as u32, class);
        }
        let loan = |(borrower, lender, bps): &(usize, Option<usize>, f64)| {
            (*borrower as u32, lender.map(|lender| lender as u32), *bps as f32)
        };
        way.loans = between.loans.iter().map(loan).collect();
        way
    }

    fn add_delays(&mut self, class: u32, between: &ClassBetween) {
        let begin = self.delays.len();
        for (end, count) in between.delays.iter().flatten() {
            let (bin, packets) = (bin_of(*end), u32::try_from(*count).unwrap_or(u32::MAX));
            match self.delays[begin..].last_mut() {
                Some(last) if last.bin == bin => {
                    last.packets = last.packets.saturating_add(packets)
                }
                _ => self.delays.push(Cell { class, bin, packets }),
            }
        }
    }
}

impl Point {
    fn of(class: &ClassBetween) -> Self {
        let delay = |per_mille| class.quantile_us(per_mille).map_or(f32::NAN, |us| us as f32);
        Self {
            sent_bps: class.sent_bps as f32,
            offered_bps: class.offered_bps as f32,
            backlog_bytes: class.backlog_bytes as f32,
            p50_us: delay(500),
            p99_us: delay(990),
            dropped_pps: class.dropped_pps() as f32,
            borrowed_bps: class.borrowed_bps as f32,
        }
    }
}

/// Returns the edges of the bins of the heat map in µs: four bins in each power of two. What is
/// shorter than the first edge is in the first bin, and what is longer than the last in the last.
pub fn edges_us() -> Vec<f64> {
    (0..=BINS).map(|edge| 2f64.powf(f64::from(edge) / BINS_OCTAVE)).collect()
}

/// Returns the bin of a delay whose longest is this, in ns: that of the middle.
fn bin_of(end_ns: u64) -> u8 {
    let begin = Histogram::shortest(Duration::from_nanos(end_ns)).as_nanos().min(end_ns);
    let middle_us = (begin as f64 + end_ns as f64) / 2e3;
    // `f64` to `u8` saturates.
    ((middle_us.max(1.0).log2() * BINS_OCTAVE) as u8).min(BINS - 1)
}

/// The number of bins of the heat map: from 1 µs to 16.8 s.
pub const BINS: u8 = 96;
const BINS_OCTAVE: f64 = 4.0;
/// The time between two frames.
pub const STEP_MS: u32 = 1000;
/// Bound: seconds of the page's history; the oldest go.
const FRAMES_MAX: usize = 900;
/// Bound: events of the page's history; the oldest go. More than in 15 minutes of trouble.
const MARKS_MAX: usize = 4096;
/// Bound: counts of delays in the page's history, 64 MiB of them; the oldest seconds lose theirs.
const CELLS_MAX: usize = 5 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_in_the_bin_between_its_edges() {
        let edges = edges_us();
        for end_ns in [1_000, 1_500, 33_000, 1_000_000, 12_345_678, 9_999_999_999] {
            let bin = usize::from(bin_of(end_ns));
            let us = end_ns as f64 / 1e3;
            assert!(edges[bin] <= us * 1.02 && us * 0.97 < edges[bin + 1], "{us}: bin {bin}");
        }
        assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
    }

    #[test]
    fn the_oldest_frames_and_delays_are_forgotten() {
        let tree = Arc::new(Tree::default());
        let mut past = Past::default();
        // Ends of bins of the histogram, far apart.
        let delays = (0..64).map(|bit| ((1u64 << (bit % 33 + 5)) - 1, 1));
        let class = ClassBetween { delays: Some(delays.collect()), ..ClassBetween::default() };
        let ways = vec![WayBetween { classes: vec![Some(class); 2000], ..WayBetween::default() }];
        for t in 0..FRAMES_MAX + 5 {
            let ways = if t < 100 { ways.clone() } else { Vec::new() };
            past.add(&tree, &Between { t: t as f64, ways });
            assert!(past.cells <= CELLS_MAX);
        }
        let frames = past.frames(None, Some(99.0));
        assert_eq!((past.frames.len(), frames.len()), (FRAMES_MAX, 95));
        assert!(frames[0].cells() == 0 && frames[94].cells() > 0);
        (0..MARKS_MAX + 1).for_each(|t| past.mark(Mark { t: t as f64, ..Mark::default() }));
        assert_eq!(past.marks(&SpanQuery { to: Some(1.0), ..SpanQuery::default() }).len(), 1);
    }
}
