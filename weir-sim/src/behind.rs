//! The bottleneck behind a link: a modem's queue in front of a line whose capacity varies, and what
//! is measured there.
//!
//! A packet comes to it when its last bit has left the link in front. What becomes of it is known
//! then ([`Bottleneck`]), so it needs no event. Invariant: what came is what was sent, what was
//! dropped and what still waits.

use crate::figures::rate;
use crate::interval::Interval;
use serde::Serialize;
use std::fmt;
use weir_core::account::Histogram;
use weir_core::link::Framing;
use weir_core::units::{Bytes, Duration, Instant};
use weir_policy::table::{Table, megabits, millis};
use weir_trace::capacity::{Bottleneck, Buffer, Capacity};
use weir_trace::shown::{micros, seconds};

/// A bottleneck behind a link.
#[derive(Clone, PartialEq, Debug)]
pub struct Behind {
    /// The capacity of its line.
    pub capacity: Capacity,
    /// The most that its queue holds.
    pub buffer: Buffer,
    /// The bytes that it sends for a frame.
    pub framing: Framing,
}

/// The measurements of a bottleneck.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct BehindReport {
    /// The bit/s that the line could have sent while it counted.
    pub capacity_bps: u64,
    /// The bit/s that it sent.
    pub used_bps: u64,
    /// The part of the capacity that was used, 0 to 1; 0 without any.
    pub used: f64,
    /// Packets that came, and of them those that its queue had no room for.
    pub packets: u64,
    /// See `packets`.
    pub dropped: u64,
    /// The most bytes that waited.
    pub backlog_max: u64,
    /// How long packets took there, their own transmission included.
    #[serde(rename = "delay_us")]
    pub delay: BehindDelays,
    /// The same of each source whose packets came there.
    pub sources: Vec<BehindSource>,
    /// The whole run, warm-up included.
    pub over_time: OverTime,
}

/// A distribution of delays; quantiles are interpolated in buckets 3 % wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BehindDelays {
    /// How many were measured.
    pub count: u64,
    /// The median.
    #[serde(serialize_with = "micros")]
    pub p50: Duration,
    /// 95 % took no longer.
    #[serde(serialize_with = "micros")]
    pub p95: Duration,
    /// 99 % took no longer.
    #[serde(serialize_with = "micros")]
    pub p99: Duration,
    /// The longest.
    #[serde(serialize_with = "micros")]
    pub max: Duration,
    /// The mean.
    #[serde(serialize_with = "micros")]
    pub mean: Duration,
}

/// A source at the bottleneck.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BehindSource {
    /// The name of the source.
    pub name: String,
    /// Its packets that were dropped there.
    pub dropped: u64,
    /// How long the others took there.
    #[serde(rename = "delay_us")]
    pub delay: BehindDelays,
}

/// A bottleneck over time, in steps of equal width.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct OverTime {
    /// The width of a step.
    #[serde(rename = "step_s", serialize_with = "seconds")]
    pub step: Duration,
    /// Bytes that the line could send.
    pub capacity_bytes: Vec<u64>,
    /// Bytes that it sent; a packet counts when its last bit is sent.
    pub used_bytes: Vec<u64>,
    /// The most bytes that waited when a packet came.
    pub backlog_bytes: Vec<u64>,
    /// The longest delay of a packet that came, in µs.
    pub delay_max_us: Vec<u64>,
}

/// A bottleneck in operation, in a simulation or in front of real packets.
pub struct RunningBehind {
    queue: Bottleneck,
    framing: Framing,
    window: Interval,
    sources: Vec<SourceSums>,
    all: SourceSums,
    sent_bytes: u64,
    backlog_max: u64,
    over_time: OverTime,
}

#[derive(Clone, Default)]
struct SourceSums {
    packets: u64,
    dropped: u64,
    delays: Histogram,
}

impl RunningBehind {
    /// An empty one; the report covers a run from its warm-up to its end.
    pub fn reporting(plan: &Behind, (warmup, duration): (Duration, Duration)) -> Self {
        Self::new(plan, Interval::reported(warmup, duration))
    }

    /// An empty one; the report covers `window`.
    pub(crate) fn new(plan: &Behind, window: Interval) -> Self {
        let capacity = plan.capacity.clone();
        let length = window.end.as_nanos().max(1);
        let step = step_of(window.end).as_nanos();
        let count = length.div_ceil(step);
        let at = |step_no: u64| Instant::from_nanos((step_no * step).min(length));
        let possible = |place| capacity.between(at(place), at(place + 1)).get();
        let zeros = vec![0; count as usize];
        let over_time = OverTime {
            step: Duration::from_nanos(step),
            capacity_bytes: (0..count).map(possible).collect(),
            used_bytes: zeros.clone(),
            backlog_bytes: zeros.clone(),
            delay_max_us: zeros,
        };
        Self {
            queue: Bottleneck::new(capacity, plan.buffer),
            framing: plan.framing,
            window,
            sources: Vec::new(),
            all: SourceSums::default(),
            sent_bytes: 0,
            backlog_max: 0,
            over_time,
        }
    }

    /// A frame of `length` bytes of a source comes at `at`; returns when its last bit is sent,
    /// `None` if it is dropped.
    pub fn pass(&mut self, at: Instant, length: u32, source: usize) -> Option<Instant> {
        let length = self.framing.wire_length(length);
        let sent = self.queue.offer(at, length);
        let backlog = self.queue.backlog(at).bytes;
        let place = self.place(at);
        let highest = &mut self.over_time.backlog_bytes[place];
        *highest = backlog.max(*highest);
        if let Some(sent) = sent {
            let longest = &mut self.over_time.delay_max_us[place];
            *longest = (sent.since(at).as_nanos() / 1_000).max(*longest);
            if sent <= self.window.end {
                let place = self.place(sent);
                self.over_time.used_bytes[place] += u64::from(length);
                let counts = sent > self.window.start;
                self.sent_bytes += if counts { u64::from(length) } else { 0 };
            }
        }
        if at >= self.window.start {
            self.backlog_max = backlog.max(self.backlog_max);
            if source >= self.sources.len() {
                self.sources.resize(source + 1, SourceSums::default());
            }
            self.sources[source].count(at, sent);
            self.all.count(at, sent);
        }
        sent
    }

    fn place(&self, at: Instant) -> usize {
        let place = at.as_nanos() / self.over_time.step.as_nanos();
        (place as usize).min(self.over_time.used_bytes.len() - 1)
    }

    /// Returns what was measured; `names` are those of the sources, in order.
    pub fn report<'n>(&self, names: impl Iterator<Item = &'n str>) -> BehindReport {
        let span = self.window.end.since(self.window.start);
        let possible = self.queue.capacity().between(self.window.start, self.window.end);
        let sources = names.zip(&self.sources).filter(|(_, sums)| sums.packets > 0);
        let source = |(name, sums): (&str, &SourceSums)| BehindSource {
            name: name.to_owned(),
            dropped: sums.dropped,
            delay: BehindDelays::of(&sums.delays),
        };
        BehindReport {
            capacity_bps: rate(possible.get(), span),
            used_bps: rate(self.sent_bytes, span),
            used: part(Bytes::new(self.sent_bytes), possible),
            packets: self.all.packets,
            dropped: self.all.dropped,
            backlog_max: self.backlog_max,
            delay: BehindDelays::of(&self.all.delays),
            sources: sources.map(source).collect(),
            over_time: self.over_time.clone(),
        }
    }
}

/// Returns the width of the steps over time of a run that ends then.
pub(crate) fn step_of(end: Instant) -> Duration {
    let step = end.as_nanos().max(1).div_ceil(STEPS);
    Duration::from_nanos(step.next_multiple_of(STEP_UNIT.as_nanos()))
}

fn part(sent: Bytes, possible: Bytes) -> f64 {
    match possible {
        Bytes::ZERO => 0.0,
        possible => sent.get() as f64 / possible.get() as f64,
    }
}

impl SourceSums {
    fn count(&mut self, at: Instant, sent: Option<Instant>) {
        self.packets += 1;
        match sent {
            Some(sent) => self.delays.record(sent.since(at)),
            None => self.dropped += 1,
        }
    }
}

impl BehindDelays {
    fn of(delays: &Histogram) -> Self {
        let [p50, p95, p99] = [500, 950, 990].map(|part| delays.quantile(part).value);
        let (max, mean) = (delays.max(), delays.mean());
        Self { count: delays.count(), p50, p95, p99, max, mean }
    }

    fn cells(&self) -> [String; 5] {
        [self.p50, self.p95, self.p99, self.max, self.mean].map(|delay| {
            if self.count == 0 { "-".to_owned() } else { millis(delay.as_nanos() as f64 / 1e3) }
        })
    }
}

impl fmt::Display for BehindReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [capacity, used] = [self.capacity_bps, self.used_bps].map(|rate| megabits(rate as f64));
        writeln!(
            f,
            "behind the link: {used} of {capacity} Mbit/s used ({:.1} %), at most {} B waited",
            self.used * 100.0,
            self.backlog_max
        )?;
        let head = ["behind", "packets", "dropped", "p50 ms", "p95", "p99", "max", "mean"];
        let mut table = Table::new(head);
        let all = ("all", self.packets, self.dropped, &self.delay);
        let each = self
            .sources
            .iter()
            .map(|row| (row.name.as_str(), row.delay.count + row.dropped, row.dropped, &row.delay));
        for (name, packets, dropped, delay) in each.chain([all]) {
            let mut row = vec![name.to_owned(), packets.to_string(), dropped.to_string()];
            row.extend(delay.cells());
            table.row(row);
        }
        write!(f, "{table}")
    }
}

/// The steps over time.
const STEPS: u64 = 600;
/// A step is so long, or several times so long.
const STEP_UNIT: Duration = Duration::from_millis(10);
