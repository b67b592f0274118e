//! The delays and limits that a host adds to a simulated link, as `weir calibrate` measures them.
//!
//! The file has a table `[host]`; each key has a unit, and a key that is missing adds nothing.

use crate::Scenario;
use crate::read::bounded;
use crate::scenario::{QUICK_ACKS_MAX, Traffic, WINDOW_MAX};
use serde::{Serialize, Serializer};
use std::fmt;
use weir_core::units::{Bytes, Duration};
use weir_policy::finding::{Outcome, Report};
use weir_policy::reader::{self, Node};
use weir_trace::shown::micros;

/// The delays and limits that a host adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Host {
    /// From the kernel's stamp of an arrival to the call that sends it, on an idle link: wake-up,
    /// batch and port. In a simulation the link needs no time for that.
    #[serde(rename = "port_us", serialize_with = "micros", skip_serializing_if = "is_zero")]
    pub port: Duration,
    /// The time of a packet from the sending application to the link and from there to the
    /// receiving host.
    #[serde(rename = "forward_us", serialize_with = "micros", skip_serializing_if = "is_zero")]
    pub forward: Duration,
    /// The time of a packet that comes back to a TCP sender.
    #[serde(rename = "back_us", serialize_with = "micros", skip_serializing_if = "is_zero")]
    pub back: Duration,
    /// The window of the kernel's TCP: what it has under way if no loss stops it.
    #[serde(rename = "window_bytes", serialize_with = "bytes", skip_serializing_if = "no_bytes")]
    pub window: Option<Bytes>,
    /// Segments that the kernel's TCP acknowledges one by one when a connection begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick_acks: Option<u32>,
    /// Whether the kernel's TCP adds a timestamp to each segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<bool>,
}

/// A calibration that was in force in a run: what made its results besides the scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Calibrated {
    /// The name of its file.
    pub file: String,
    /// The values of the file; in JSON without the keys that add nothing.
    #[serde(flatten)]
    pub host: Host,
}

fn is_zero(duration: &Duration) -> bool {
    *duration == Duration::ZERO
}

fn no_bytes(bytes: &Option<Bytes>) -> bool {
    bytes.is_none()
}

fn bytes<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&bytes.map(Bytes::get))
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { port, forward, back, window, quick_acks, timestamps } = &self.host;
        let times = [("port", port), ("forward", forward), ("back", back)];
        let times = times.iter().filter(|(_, time)| !is_zero(time));
        let mut values: Vec<String> = times.map(|(key, time)| format!("{key} {time}")).collect();
        values.extend(window.map(|window| format!("window {window}")));
        values.extend(quick_acks.map(|count| format!("quick_acks {count}")));
        values.extend(timestamps.map(|flag| format!("timestamps {flag}")));
        let nothing = if values.is_empty() { "adds nothing" } else { "" };
        write!(f, "{}: {}{nothing}", self.file, values.join(", "))
    }
}

impl Host {
    /// Lets the simulation do what this host does: packets take longer to their receivers, and
    /// acknowledgements back, and each TCP receiver has the kernel's window and acknowledges as the
    /// kernel's, in place of the scenario's. The delay of [`Host::port`] is no part of a
    /// simulation; add it to delays.
    pub fn apply(&self, scenario: &mut Scenario) {
        scenario.delay = scenario.delay.plus(self.forward);
        for source in &mut scenario.sources {
            let tcp = match &mut source.traffic {
                Traffic::Tcp(tcp) | Traffic::Transfers(tcp, _) => tcp,
                // QUIC's receiver is no kernel's.
                Traffic::Quic(quic) | Traffic::QuicTransfers(quic, _) => {
                    quic.return_delay = quic.return_delay.plus(self.back);
                    continue;
                }
                _ => continue,
            };
            tcp.return_delay = tcp.return_delay.plus(self.back);
            if let Some(window) = self.window {
                tcp.set_window(window);
            }
            if let Some(segments) = self.quick_acks {
                tcp.set_quick_acks(segments);
            }
            tcp.config.timestamps = self.timestamps.unwrap_or(tcp.config.timestamps);
        }
    }
}

/// Reads the file `name` of a calibration.
pub fn parse(bytes: &[u8], name: &str) -> Outcome<Host> {
    reader::read(name, bytes, |top, report| {
        let node = top.required("host", report)?;
        let mut table = node.table(report)?;
        let mut delay = |key: &'static str, report: &mut Report| match table.field(key) {
            Some(node) => bounded(&node, report),
            None => Some(Duration::ZERO),
        };
        let (port, forward) = (delay("port", report), delay("forward", report));
        let back = delay("back", report);
        let window = match table.field("window") {
            Some(node) => window(&node, report).map(Some),
            None => Some(None),
        };
        let quick_acks = match table.field("quick_acks") {
            Some(node) => node.number(0, QUICK_ACKS_MAX.into(), report).map(|it| Some(it as u32)),
            None => Some(None),
        };
        let timestamps = match table.field("timestamps") {
            Some(node) => node.flag(report).map(Some),
            None => Some(None),
        };
        table.finish(report);
        let (port, forward, back) = (port?, forward?, back?);
        let (window, quick_acks, timestamps) = (window?, quick_acks?, timestamps?);
        Some(Host { port, forward, back, window, quick_acks, timestamps })
    })
}

fn window(node: &Node<'_>, report: &mut Report) -> Option<Bytes> {
    let bytes = node.bytes(report)?;
    if (1..=WINDOW_MAX.get()).contains(&bytes.get()) {
        return Some(bytes);
    }
    let message = format!("{bytes} is not in 1 B to {WINDOW_MAX}");
    let cure = "measure it again with `weir calibrate`";
    report.push(node.draft(&weir_policy::codes::OUT_OF_RANGE, message).cure(cure));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_is_read_and_a_key_that_is_none_is_named() {
        let text = "[host]\nport = \"40 us\"\nforward = \"90 us\"\nwindow = \"3 MB\"\n\
                    quick_acks = 16\ntimestamps = true\n";
        let outcome = parse(text.as_bytes(), "host.toml");
        let host = outcome.plan.unwrap_or_default();
        assert_eq!(
            (host.port, host.forward),
            (Duration::from_micros(40), Duration::from_micros(90))
        );
        assert_eq!((host.back, host.window), (Duration::ZERO, Some(Bytes::new(3_000_000))));
        assert_eq!((host.quick_acks, host.timestamps), (Some(16), Some(true)));
        let wrong = parse(b"[host]\nlatency = \"1 ms\"\n", "host.toml");
        let found = &wrong.findings[0].message;
        assert!(
            found.contains("`port`, `forward`, `back`, `window`, `quick_acks`, `timestamps`"),
            "{found}"
        );
    }
}
