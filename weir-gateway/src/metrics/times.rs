//! How long requests of HTTP took, as a histogram for each path.

use super::samples::{Family, Kind, Labels, Samples};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_control::protocol::CALLS;

/// The times of all requests so far.
pub(crate) struct Times {
    /// For each request of the table, and for all that are none.
    routes: Vec<Route>,
}

#[derive(Default)]
struct Route {
    /// Requests in the bucket of each bound, and above them all.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self { routes: (0..=CALLS.len()).map(|_| Route::default()).collect() }
    }
}

/// A request that is being answered.
#[derive(Clone)]
pub(crate) struct Took {
    times: Arc<Times>,
    keyword: Option<&'static str>,
    began: Instant,
}

impl Took {
    /// A request of the table, or of a document, that was read just now.
    pub fn begin(times: &Arc<Times>, keyword: Option<&'static str>) -> Self {
        Self { times: Arc::clone(times), keyword, began: Instant::now() }
    }

    /// Counts it: its answer was given to the connection.
    pub fn end(self) {
        self.times.count(self.keyword, self.began.elapsed());
    }
}

impl Times {
    /// Counts a request; `keyword` is of the table, or it is a document.
    pub fn count(&self, keyword: Option<&str>, took: Duration) {
        let index = keyword.and_then(|word| CALLS.iter().position(|call| call.keyword == word));
        let route = &self.routes[index.unwrap_or(CALLS.len())];
        let bucket = BOUNDS.iter().position(|(_, bound)| took <= *bound).unwrap_or(BOUNDS.len());
        route.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        route.sum_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn names() -> Vec<String> {
        ["_bucket", "_count", "_sum"].map(|suffix| format!("{}{suffix}", FAMILY.name)).to_vec()
    }

    /// Writes the histogram of each path that was asked for.
    pub(super) fn write(&self, out: &mut dyn Write, link: &Labels) -> io::Result<()> {
        let mut samples = Samples::begin(out, &FAMILY)?;
        samples.of(link);
        let words = CALLS.iter().map(|call| call.keyword).chain(["document"]);
        for (word, route) in words.zip(&self.routes) {
            let counts: Vec<_> =
                route.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
            let mut total = 0;
            let bounds = BOUNDS.iter().map(|(text, _)| *text).chain(["+Inf"]);
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            for (bound, count) in bounds.zip(counts) {
                total += count;
                samples.suffixed("_bucket", &[("request", word), ("le", bound)], total);
            }
            let sum = route.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
            samples.suffixed("_count", &[("request", word)], total);
            samples.suffixed("_sum", &[("request", word)], sum);
        }
        samples.end()
    }
}

const FAMILY: Family<Times> = Family {
    name: "weir_api_request_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    help: "Time from the head of a request of HTTP to the end of its answer.",
    read: |_, _| {},
};

/// The bounds, as they are written.
const BOUNDS: [(&str, Duration); 7] = [
    ("0.0001", Duration::from_micros(100)),
    ("0.001", Duration::from_millis(1)),
    ("0.01", Duration::from_millis(10)),
    ("0.1", Duration::from_millis(100)),
    ("1.0", Duration::from_secs(1)),
    ("10.0", Duration::from_secs(10)),
    ("60.0", Duration::from_secs(60)),
];
