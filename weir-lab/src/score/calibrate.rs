//! `weir calibrate`: what this host adds to a simulated link, by a probe of about 30 s.
//!
//! Two thirds of the probe are small datagrams through an idle link: the delay in the loop beyond
//! the line's, and the way from the application to the loop and from there to the receiving
//! kernel. One third is a bulk transfer through a queue with room for all: what waits there is the
//! window of the kernel's TCP.

use super::{LiveRun, Pair};
use serde::Serialize;
use std::time::Duration;
use weir_core::units;
use weir_sim::Host;

/// What the probe measured.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// What a simulation takes over.
    #[serde(skip)]
    pub host: Host,
    /// The most payload that the kernel's TCP had under way, in bytes.
    pub window_bytes: u64,
    /// How long the probe was, in s.
    pub seconds: f64,
    /// Median and 99th percentile of the delay in the loop on an idle link, beyond the line's.
    pub port_us: [f64; 2],
    /// Median and 99th percentile from the sender's call to the receiver's kernel, without the
    /// delay in the loop and the line's time.
    pub path_us: [f64; 2],
    /// The load of the machine in the minute before and with the probe.
    pub load: f64,
}

/// Probes for so long; call [`crate::rig::prepare`] first.
///
/// # Errors
/// When the networks cannot be made or nothing arrives.
pub fn probe(length: Duration) -> Result<Calibration, String> {
    let idle = measure(IDLE, length * 2 / 3)?;
    let bulk = measure(BULK, length / 3)?;
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
    let window = window(&bulk.1);
    let host = Host {
        port: micros(port_us[0]),
        forward: micros(path_us[0]),
        back: micros(path_us[0] + port_us[0]),
        window: Some(window),
    };
    let (seconds, window_bytes) = (length.as_secs_f64(), window.get());
    Ok(Calibration { host, window_bytes, seconds, port_us, path_us, load: load() })
}

fn measure(text: &str, length: Duration) -> Result<(Pair, LiveRun), String> {
    let pair = Pair::read_all(text, length.saturating_sub(super::WARMUP))?;
    let pair = pair.into_iter().next().ok_or("the probe has no scenario")?;
    let live = pair.live()?;
    Ok((pair, live))
}

/// What waited at most, without the headers.
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
        let Host { port, forward, back, window } = self.host;
        let micros = |delay: units::Duration| format!("{:.1} us", delay.as_nanos() as f64 / 1e3);
        let window = window.map_or(0, units::Bytes::get);
        format!(
            "# What this host adds to a simulated link: `weir calibrate`, {:.0} s, load {:.2}.\n\
             [host]\n\
             # From the kernel's stamp to the send call on an idle link, beyond the line:\n\
             # wake-up, batch, port. Median; 99 of 100 packets took at most {:.1} us.\n\
             port = \"{}\"\n\
             # From the sender's call to the stamp, and from the send call to the receiver's\n\
             # kernel.\n\
             # Median; 99 of 100 packets took at most {:.1} us.\n\
             forward = \"{}\"\n\
             # The same for acknowledgements, with the loop: the probe cannot tell both ways\n\
             # apart.\n\
             back = \"{}\"\n\
             # The most payload that the kernel's TCP had under way in a queue with room for all.\n\
             window = \"{window} B\"\n",
            self.seconds,
            self.load,
            self.port_us[1],
            micros(port),
            self.path_us[1],
            micros(forward),
            micros(back),
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
/// Of a full segment with timestamps.
const PAYLOAD: u64 = 1448;
const FRAME: u64 = 1514;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_calibration_is_what_a_simulation_reads() {
        let micros = units::Duration::from_micros;
        let (port, forward, back) = (micros(41), micros(87), micros(128));
        let window = Some(units::Bytes::new(3_000_000));
        let host = Host { port, forward, back, window };
        let (port_us, path_us) = ([41.0, 300.0], [87.0, 500.0]);
        let calibration = Calibration {
            host,
            window_bytes: 3_000_000,
            seconds: 30.0,
            port_us,
            path_us,
            load: 1.5,
        };
        let text = calibration.to_toml();
        let outcome = weir_sim::host::parse(text.as_bytes(), "host.toml");
        assert_eq!(outcome.plan, Some(host), "{text}");
        assert!(text.contains("load 1.50") && text.contains("300.0 us"), "{text}");
    }
}
