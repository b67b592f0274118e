//! The latency of a way while nothing is sent and under load, and what the load got.
//!
//! The load is some endless TCP sources of the simulator ([`Sender`]) to a receiver (`weir recv`).
//! A probe is a connection to the same port: from the call until the other kernel has answered, one
//! round trip. It is a flow of its own, as a new page or call would be. Probes go one after the
//! other, and one that is not answered counts with the time that was waited for it, so no delay is
//! overlooked because it was long.

use crate::sender::{SendPlan, Sender};
use crate::source::source;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The measurement of a way.
#[derive(Clone, Copy, Debug)]
pub struct LoadedPlan {
    /// The address of the receiver.
    pub to: IpAddr,
    /// Its TCP port.
    pub port: u16,
    /// The number of the interface to which a link-local address belongs; 0 for others.
    pub zone: u32,
    /// The number of the first stream of the load: a receiver tells streams apart by it, so that
    /// another measurement needs another one.
    pub first_stream: u32,
    /// How many TCP connections load the way.
    pub flows: u16,
    /// For how long the way is probed without load, then with it.
    pub idle: Duration,
    /// See `idle`.
    pub load: Duration,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedReport {
    /// The receiver.
    pub to: String,
    /// How long the load lasted, in seconds.
    pub seconds: f64,
    /// Before the load.
    pub idle: Latency,
    /// Under it.
    pub loaded: Latency,
    /// By how much the load raised the latency, in ms: its mean under load less its median without.
    pub added_ms: f64,
    /// The rate of the load, in Mbit/s: the bytes that the receiver's kernel acknowledged, without
    /// the first fifth of the time, in which the connections start.
    pub mbit_s: f64,
}

/// Round trips, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The number of probes.
    pub probes: u64,
    /// Those that were not answered within a second.
    pub lost: u64,
    /// The median.
    pub p50_ms: f64,
    /// 95 in 100 are shorter.
    pub p95_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The mean.
    pub mean_ms: f64,
}

/// Measures a way; `meanwhile` is called at the end of the load, while it still lasts, and
/// `is_stopped` ends the measurement early.
///
/// # Errors
/// When nothing receives there, or the system refuses a socket or a thread; `Ok(None)` if it was
/// stopped.
pub fn measure<T>(
    plan: &LoadedPlan,
    meanwhile: impl FnOnce() -> T,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<(LoadedReport, T)>, String> {
    let to = plan.address();
    TcpStream::connect_timeout(&to, FIRST_MAX).map_err(|error| {
        let place = format!("{} port {}", plan.to, plan.port);
        format!(
            "nothing receives at {place}: {error}; start `weir recv --port {}` there",
            plan.port
        )
    })?;
    let idle = probe(to, Instant::now() + plan.idle, is_stopped);
    let sender = Sender::start(&plan.send_plan()?).map_err(|error| error.to_string())?;
    let end = Instant::now() + plan.load;
    // A probe may wait for long; the rate is measured beside it.
    let (loaded, (warm, before)) = thread::scope(|scope| {
        let counted = scope.spawn(|| {
            thread::sleep(plan.load / 5);
            (Instant::now(), sender.acknowledged())
        });
        let loaded = probe(to, end, is_stopped);
        (loaded, counted.join().expect("it does not panic"))
    });
    // In this order: a pause between the two makes the rate smaller, never larger.
    let bytes = sender.acknowledged().saturating_sub(before);
    let seconds = warm.elapsed().as_secs_f64().max(1e-9);
    let seen = meanwhile();
    sender.stop();
    let stopped = is_stopped();
    let sent = sender.finish();
    if stopped {
        return Ok(None);
    }
    if let Some(why) = sent.streams.iter().find_map(|stream| stream.error.as_ref()) {
        return Err(format!("the load failed: {why}"));
    }
    let (idle, loaded) = (Latency::of(&idle), Latency::of(&loaded));
    let report = LoadedReport {
        to: to.to_string(),
        seconds: plan.load.as_secs_f64(),
        idle,
        loaded,
        added_ms: (loaded.mean_ms - idle.p50_ms).max(0.0),
        mbit_s: bytes as f64 * 8.0 / 1e6 / seconds,
    };
    Ok(Some((report, seen)))
}

impl LoadedPlan {
    fn address(&self) -> SocketAddr {
        match self.to {
            IpAddr::V4(_) => SocketAddr::new(self.to, self.port),
            IpAddr::V6(to) => SocketAddrV6::new(to, self.port, 0, self.zone).into(),
        }
    }

    fn send_plan(&self) -> Result<SendPlan, String> {
        let port = self.port.to_string();
        let load = |number| source(&format!("load-{number}"), "tcp", self.to, &[("dport", &port)]);
        let sources = (1..=self.flows).map(load).collect::<Result<Vec<_>, _>>()?;
        // It is stopped when the time is over; the rest is for a machine that is late.
        let duration = self.load + LATE_MAX;
        let Self { first_stream, zone, .. } = *self;
        Ok(SendPlan { first_stream, duration, zone, ..SendPlan::new(sources) })
    }
}

/// Probes until an instant. Returns how long each probe took, `None` for one that was not answered.
fn probe(to: SocketAddr, until: Instant, is_stopped: &dyn Fn() -> bool) -> Vec<Option<Duration>> {
    let mut probes = Vec::new();
    while Instant::now() < until && probes.len() < PROBES_MAX && !is_stopped() {
        let begun = Instant::now();
        let is_answered = match TcpStream::connect_timeout(&to, PROBE_MAX) {
            Ok(_) => true,
            // An answer, too.
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
        };
        probes.push(is_answered.then(|| begun.elapsed()));
        thread::sleep(PACE.saturating_sub(begun.elapsed()));
    }
    probes
}

impl Latency {
    fn of(probes: &[Option<Duration>]) -> Self {
        let time = |probe: &Option<Duration>| probe.unwrap_or(PROBE_MAX).as_secs_f64() * 1e3;
        let mut times: Vec<f64> = probes.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        let Some(last) = times.len().checked_sub(1) else { return Self::default() };
        let at = |per_cent: usize| times[last * per_cent / 100];
        Self {
            probes: times.len() as u64,
            lost: probes.iter().filter(|probe| probe.is_none()).count() as u64,
            p50_ms: at(50),
            p95_ms: at(95),
            max_ms: times[last],
            mean_ms: times.iter().sum::<f64>() / times.len() as f64,
        }
    }
}

/// Between the beginnings of two probes that are answered sooner.
const PACE: Duration = Duration::from_millis(25);
/// How long a probe waits: then the kernel sends its request again, and the time says nothing more.
const PROBE_MAX: Duration = Duration::from_secs(1);
const FIRST_MAX: Duration = Duration::from_secs(3);
const LATE_MAX: Duration = Duration::from_secs(5);
/// Bound: probes of a measurement; then it ends early, after hours.
const PROBES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks median, 95 in 100, longest and mean, in ms, and how many were lost.
    fn check(probes: &[Option<u64>], wanted: [f64; 4], lost: u64) {
        let probes: Vec<_> = probes.iter().map(|ms| ms.map(Duration::from_millis)).collect();
        let found = Latency::of(&probes);
        let times = [found.p50_ms, found.p95_ms, found.max_ms, found.mean_ms];
        assert_eq!((times, found.lost), (wanted, lost), "{probes:?}");
    }

    #[test]
    fn a_probe_without_an_answer_counts_with_the_time_that_was_waited() {
        check(&[], [0.0; 4], 0);
        check(&[Some(3)], [3.0; 4], 0);
        check(&[Some(30), None, Some(10), Some(20)], [20.0, 30.0, 1000.0, 265.0], 1);
    }
}
