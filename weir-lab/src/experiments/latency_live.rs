//! The delay that forwarding adds to a packet on an idle link: 1000 packets/s through the bridge of
//! `weir up` with each policy of waiting, and beside it in the same run through the kernel's
//! bridge.
//!
//! A packet carries the instant before it was sent, and the receiver's kernel stamps its arrival,
//! so the delay contains sending as well. The sender sleeps between packets: intervals vary by as
//! much as its timer is late. The processor time is that of this process, sender and receiver
//! included, so that policies can be compared; `none` has no forwarder and shows how much of the
//! delay and of the time belongs to the two ends.

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;
use weir_bench::rig::{self, Forwarder};
use weir_core::account::Histogram;
use weir_host::error::SystemError;
use weir_host::wait::{CpuTimeOf, WaitPolicy, cpu_time, monotonic_ns, set_exact_timers};
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig};
use weir_testbed::{END, Host, Testbed};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "latency-live",
    summary: "delay of 1000 packets/s on an idle link, by policy of waiting, beside the kernel",
    measure: None,
    own: Some(Own::live(run)),
};

/// The forwarders, and the most that the median may be, in µs.
const ROWS: [(&str, Option<WaitPolicy>, f64); 4] = [
    ("the kernel's bridge", None, f64::INFINITY),
    ("spin", Some(WaitPolicy::Spin), 20.0),
    ("hybrid", Some(WaitPolicy::Hybrid), 60.0),
    ("block", Some(WaitPolicy::Block), f64::INFINITY),
];
const PACKETS_PER_SECOND: u64 = 1000;

/// The delays of one run, and the share of a processor that this process used.
struct Sample {
    delays: Histogram,
    sent: u64,
    processor_percent: f64,
}

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    ROWS.into_iter().try_for_each(|(name, wait, limit)| {
        rows.measure(name, |options| {
            let sample = measure(wait, options.duration)?;
            Ok::<_, SystemError>(judged(name, &sample, limit))
        })
    })
}

fn measure(wait: Option<WaitPolicy>, duration: Duration) -> Result<Sample, SystemError> {
    let lines = [];
    let forwarder = match wait {
        Some(wait) => Forwarder::unshaped(wait)?,
        None => Forwarder::Kernel(&lines),
    };
    let (sample, _) = rig::between(forwarder, |testbed, _| drive(testbed, duration))?;
    Ok(sample)
}

/// Sends, while another thread receives.
fn drive(testbed: &Testbed, duration: Duration) -> Result<Sample, SystemError> {
    let packets = (duration.as_secs_f64() * PACKETS_PER_SECOND as f64) as u64;
    let spent = cpu_time(CpuTimeOf::Process);
    let delays = thread::scope(|scope| {
        let until = monotonic_ns() + duration.as_nanos() as u64 + DRAIN_NS;
        let receiver = scope.spawn(move || testbed.server.run(|| receive(until))?);
        let sender = scope.spawn(move || testbed.client.run(|| send(packets))?);
        sender.join().expect("the sender does not panic")?;
        receiver.join().expect("the receiver does not panic")
    })?;
    let spent = cpu_time(CpuTimeOf::Process) - spent;
    let processor_percent = 100.0 * spent.as_secs_f64() / duration.as_secs_f64();
    Ok(Sample { delays, sent: packets, processor_percent })
}

/// Sends this many packets at their rate, each with the instant at which it is sent.
fn send(packets: u64) -> Result<(), SystemError> {
    let failed = |cause| SystemError::new("send packets with stamps", cause);
    rig::pin_traffic()?;
    set_exact_timers()?;
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    socket.connect(SocketAddr::new(Host::Server.ip4(), rig::FIRST_PORT)).map_err(failed)?;
    let start = monotonic_ns() + HEAD_START_NS;
    for number in 0..packets {
        let due = start + number * 1_000_000_000 / PACKETS_PER_SECOND;
        thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_ns())));
        socket.send(&[MARK, monotonic_ns()].map(u64::to_be_bytes).concat()).map_err(failed)?;
    }
    Ok(())
}

/// Receives until then, and returns the delays by the kernel's stamps.
fn receive(until: u64) -> Result<Histogram, SystemError> {
    rig::pin_traffic()?;
    // Without it the server's kernel would refuse each packet by ICMP.
    let _listening = UdpSocket::bind(SocketAddr::new(Host::Server.ip4(), rig::FIRST_PORT))
        .map_err(|cause| SystemError::new("listen for packets", cause))?;
    let mut port = port::open(PortConfig::new(END))?;
    let mut pool = FramePool::for_mtu(BATCH as u32, port.mtu());
    let (mut frames, mut delays) = (Vec::with_capacity(BATCH), Histogram::new());
    while monotonic_ns() < until {
        port.receive(0, BATCH, &mut pool, &mut frames);
        for received in frames.drain(..) {
            if let Some(sent_ns) = stamp(pool.bytes(received.frame)) {
                let delay = received.at_ns.saturating_sub(sent_ns);
                delays.record(weir_core::units::Duration::from_nanos(delay));
            }
            pool.release(received.frame);
        }
        thread::sleep(RECEIVE_PAUSE);
    }
    Ok(delays)
}

/// Returns the stamp at the end of a packet of this experiment.
fn stamp(frame: &[u8]) -> Option<u64> {
    let (head, stamp) = frame.split_last_chunk()?;
    let (_, mark) = head.split_last_chunk()?;
    (u64::from_be_bytes(*mark) == MARK).then(|| u64::from_be_bytes(*stamp))
}

/// The rows of one forwarder: a claim on the median, the rest for information.
fn judged(name: &str, sample: &Sample, limit: f64) -> Vec<Row> {
    let micros = |permille| sample.delays.quantile(permille).value.as_nanos() as f64 / 1e3;
    let lost = sample.sent - sample.delays.count().min(sample.sent);
    let shown = format!(
        "p90 {:.1} us, p99 {:.1} us, {lost} of {} lost, {:.1} % of a processor",
        micros(900),
        micros(990),
        sample.sent,
        sample.processor_percent
    );
    let median = micros(500);
    let middle = match limit.is_finite() {
        true => Row::at_most(format!("{name}: p50"), median, limit, "us"),
        false => Row::shown(format!("{name}: p50"), format!("{median:.1} us")),
    };
    vec![middle, Row::shown(name.to_owned(), shown)]
}

/// "weirstmp", as a number.
const MARK: u64 = 0x7765_6972_7374_6d70;
const HEAD_START_NS: u64 = 200_000_000;
const DRAIN_NS: u64 = 300_000_000;
const RECEIVE_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_packet_with_the_mark_has_a_stamp() {
        let packet = |mark: u64| [&[7; 42][..], &mark.to_be_bytes(), &9u64.to_be_bytes()].concat();
        assert_eq!(stamp(&packet(MARK)), Some(9));
        assert_eq!(stamp(&packet(MARK + 1)), None);
        assert_eq!(stamp(&[0; 12]), None);
    }

    #[test]
    fn the_median_is_judged_and_what_is_lost_is_shown() {
        let mut delays = Histogram::new();
        delays.record(weir_core::units::Duration::from_micros(30));
        let sample = Sample { delays, sent: 3, processor_percent: 1.0 };
        for (limit, holds) in [(60.0, true), (20.0, false), (f64::INFINITY, true)] {
            let rows = judged("x", &sample, limit);
            assert_eq!(rows[0].holds, holds, "{limit}");
            assert!(rows[1].measured.contains("2 of 3 lost"), "{}", rows[1].measured);
        }
    }
}
