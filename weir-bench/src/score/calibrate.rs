//! `weir calibrate`: what this host adds to a simulated link, by a probe of about 30 s.
//!
//! Two thirds of the probe are small datagrams through an idle link: the delay in the loop beyond
//! the line's, and the way from the application to the loop and from there to the receiving
//! kernel. One third is a bulk transfer through a queue with room for all: what waits there is the
//! window of the kernel's TCP. Captures of that transfer show how many segments it acknowledges one
//! by one before it holds back acknowledgements, and how many it sends at once.

use super::trace::{self, Acks, Segment, Tap, captures};
use super::{LiveRun, Pair};
use serde::Serialize;
use std::time::Duration;
use weir_core::units;
use weir_sim::Host;

/// The measurements of the probe.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// The values that a simulation takes over.
    #[serde(skip)]
    pub host: Host,
    /// The most payload that the kernel's TCP had under way, in bytes.
    pub window_bytes: u64,
    /// How long the probe was, in s.
    pub seconds: f64,
    /// Median and 99th percentile of the delay in the loop on an idle link, beyond the line's.
    pub port_us: [f64; 2],
    /// The processor time of a frame in the loop on an idle link: batch and port. The rest of the
    /// delay is the wake-up.
    pub frame_us: f64,
    /// Median and 99th percentile from the sender's call to the receiver's kernel, without the
    /// delay in the loop and the line's time.
    pub path_us: [f64; 2],
    /// Segments that the kernel's TCP acknowledged one by one when the connection began.
    pub quick_acks: u32,
    /// Segments that an acknowledgement was for on average after that.
    pub segments_an_ack: f64,
    /// The median of the segments that came to the link at once, of the kernel's TCP and of the
    /// simulated one: the kernel joins segments (GSO), and the loop takes them apart.
    pub at_once: [u32; 2],
    /// The load of the machine in the minute before and with the probe.
    pub load: f64,
}

/// Probes for so long; call [`crate::rig::prepare`] first.
///
/// # Errors
/// When the networks cannot be made or nothing arrives.
pub fn probe(length: Duration) -> Result<Calibration, String> {
    let idle = measure(IDLE, length * 2 / 3)?;
    let (pair, live) = &idle;
    let simulated = pair.simulate(&Host::default())?;
    let ours = live.classes.get("all").ok_or("the probe did not reach the link")?;
    let theirs = simulated.get("all").ok_or("the simulated probe did not reach the link")?;
    let port_us =
        [0.5, 0.99].map(|part| (ours.quantile_ms(part) - theirs.quantile_ms(part)).max(0.0) * 1e3);
    let arrived = live.received.streams.first().ok_or("no packet of the probe arrived")?;
    let whole = [arrived.delay.p50_us, arrived.delay.p99_us];
    let path_us =
        [0, 1].map(|index| (whole[index] - ours.quantile_ms([0.5, 0.99][index]) * 1e3).max(0.0));
    let micros = |value: f64| units::Duration::from_nanos((value * 1e3) as u64);
    let bulk = Bulk::measure(length / 3)?;
    let host = Host {
        port: micros(port_us[0]),
        forward: micros(path_us[0]),
        back: micros(path_us[0] + port_us[0]),
        window: Some(bulk.window),
        quick_acks: Some(bulk.acks.quick),
        timestamps: Some(bulk.timestamps),
    };
    Ok(Calibration {
        host,
        window_bytes: bulk.window.get(),
        seconds: length.as_secs_f64(),
        port_us,
        frame_us: live.frame_ns / 1e3,
        path_us,
        quick_acks: bulk.acks.quick,
        segments_an_ack: bulk.acks.later,
        at_once: bulk.at_once,
        load: load(),
    })
}

/// The behaviour of the kernel's TCP in a bulk transfer.
struct Bulk {
    window: units::Bytes,
    timestamps: bool,
    acks: Acks,
    at_once: [u32; 2],
}

impl Bulk {
    fn measure(length: Duration) -> Result<Self, String> {
        let pair = pair(BULK, length)?;
        let (live, [before, back]) = captures(&pair, [Tap::Before, Tap::Back])?;
        let acks = Acks::of(&back, PORT, PAYLOAD)?;
        let window = window(&live);
        let timestamps = trace::has_timestamps(&before, PORT)?;
        let host = Host { window: Some(window), timestamps: Some(timestamps), ..Host::default() };
        let simulated = trace::simulated(&pair, &host, PORT)?;
        let simulated: Vec<Segment> = simulated.iter().map(|sent| sent.segment).collect();
        let at_once = [trace::segments(&before, PORT)?, simulated].map(|all| at_once(&all));
        Ok(Self { window, timestamps, acks, at_once })
    }
}

/// The median number of segments in a row that are closer to each other than the line lets them
/// leave.
fn at_once(segments: &[Segment]) -> u32 {
    let close = |one: &Segment, next: &Segment| next.at_ns.saturating_sub(one.at_ns) < CLOSE_NS;
    let mut rows: Vec<u32> = segments.chunk_by(close).map(|row| row.len() as u32).collect();
    rows.sort_unstable();
    rows.get(rows.len() / 2).copied().unwrap_or(0)
}

fn measure(text: &str, length: Duration) -> Result<(Pair, LiveRun), String> {
    let pair = pair(text, length)?;
    let live = pair.live()?;
    Ok((pair, live))
}

fn pair(text: &str, length: Duration) -> Result<Pair, String> {
    let pairs = Pair::read_all(text, length.saturating_sub(super::WARMUP))?;
    pairs.into_iter().next().ok_or_else(|| "the probe has no scenario".to_owned())
}

/// Returns the most payload that waited in the link.
fn window(live: &LiveRun) -> units::Bytes {
    units::Bytes::new((live.backlog_max * PAYLOAD / FRAME).max(PAYLOAD))
}

/// Returns the load of the last minute; 0 where the kernel does not tell it.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

impl Calibration {
    /// Returns the file that `weir sim --host` reads.
    pub fn to_toml(&self) -> String {
        let Host { port, forward, back, window, quick_acks, timestamps } = self.host;
        let micros = |delay: units::Duration| format!("{:.1} us", delay.as_nanos() as f64 / 1e3);
        let window = window.map_or(0, units::Bytes::get);
        format!(
            "# What this host adds to a simulated link: `weir calibrate`, {:.0} s, load {:.2}.\n{}\
             [host]\n\
             # From the kernel's stamp to the send call on an idle link, beyond the line.\n\
             # Median; 99 of 100 packets took at most {:.1} us. Of the median, {:.1} us are\n\
             # processor time of a frame (batch and port), the rest is the wake-up.\n\
             port = \"{}\"\n\
             # From the sender's call to the stamp, and from the send call to the receiver's\n\
             # kernel; 0 where that is below what the probe tells apart.\n\
             # Median; 99 of 100 packets took at most {:.1} us.\n\
             forward = \"{}\"\n\
             # The same for acknowledgements, with the loop: the probe cannot tell both ways\n\
             # apart.\n\
             back = \"{}\"\n\
             # The most payload that the kernel's TCP had under way in a queue with room for all.\n\
             # It grows as long as nothing is lost: a longer probe finds more.\n\
             # It came to the link {} segments at once (median), in the simulation {}.\n\
             window = \"{window} B\"\n\
             # Segments that the kernel's TCP acknowledged one by one when the connection began;\n\
             # after that an acknowledgement was for {:.2} on average.\n\
             quick_acks = {}\n\
             # Whether its segments had timestamps, 12 bytes each.\n\
             timestamps = {}\n",
            self.seconds,
            self.load,
            if self.load > BUSY {
                "# The machine was busy: measure again when it is idle.\n"
            } else {
                ""
            },
            self.port_us[1],
            self.frame_us.min(port.as_nanos() as f64 / 1e3),
            micros(port),
            self.path_us[1],
            micros(forward),
            micros(back),
            self.at_once[0],
            self.at_once[1],
            self.segments_an_ack,
            quick_acks.unwrap_or(0),
            timestamps.unwrap_or(false),
        )
    }
}

const IDLE: &str = r#"
[[scenario]]
name = "idle"
policy = { link = { rate = "1 Gbit/s", scheduler = "fifo" }, class = { all = { default = true } } }
[[scenario.source]]
name = "small"
kind = "poisson"
payload = "160 B"
interval = "2 ms"
dport = 5004
"#;
const BULK: &str = r#"
[[scenario]]
name = "bulk"
[scenario.policy]
link = { rate = "20 Mbit/s", scheduler = "fifo" }
class = { all = { default = true, queue = { dropper = "tail", limit = "4000 packets" } } }
[[scenario.source]]
name = "bulk"
kind = "tcp"
dport = 5004
"#;
/// A load above which a probe of this machine measures others' work, too.
const BUSY: f64 = 1.0;
/// Of a full segment with timestamps.
const PAYLOAD: u64 = 1448;
const FRAME: u64 = 1514;
const PORT: u16 = 5004;
/// Less than a segment takes on the line of the bulk transfer, 0.6 ms.
const CLOSE_NS: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_calibration_is_what_a_simulation_reads() {
        let micros = units::Duration::from_micros;
        let (port, forward, back) = (micros(41), micros(87), micros(128));
        let window = Some(units::Bytes::new(3_000_000));
        let (quick_acks, timestamps) = (Some(16), Some(true));
        let host = Host { port, forward, back, window, quick_acks, timestamps };
        let calibration = Calibration {
            host,
            window_bytes: 3_000_000,
            seconds: 30.0,
            port_us: [41.0, 300.0],
            frame_us: 1.2,
            path_us: [87.0, 500.0],
            quick_acks: 16,
            segments_an_ack: 2.0,
            at_once: [2, 3],
            load: 1.5,
        };
        let text = calibration.to_toml();
        let outcome = weir_sim::host::parse(text.as_bytes(), "host.toml");
        assert_eq!(outcome.plan, Some(host), "{text}");
        for part in ["load 1.50", "300.0 us", "1.2 us", "2 segments at once", "simulation 3."] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn segments_at_once_are_counted_by_the_median() {
        let segment = |at_us: u64| Segment { at_ns: at_us * 1000, sequence: 0, bytes: 1448 };
        let segments = [0, 1, 1000, 1001, 1002, 3000, 3100].map(segment);
        assert_eq!((at_once(&segments), at_once(&[])), (2, 0));
    }
}
