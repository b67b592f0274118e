//! Second opinions on a live run: what iperf3 measures of its own traffic through the same link,
//! and what `weir measure` finds in two captures of Weir's traffic, one before the link and one
//! behind it.
//!
//! Figures of each scenario of `live.toml`: `SCENARIO.goodput` and `SCENARIO.iperf3.goodput`
//! (kbit/s of payload), and of datagrams `SCENARIO.loss` and `SCENARIO.iperf3.loss` (%), and the
//! delays `SCENARIO.p50` and `.p99` (ms) in the link, behind `recv.` from the sender's call to the
//! receiver and behind `captures.` between the captures, with `SCENARIO.captures.loss`. Where
//! iperf3 is not installed its figures are missing, and the rows say so.

use super::Experiment;
use super::papers_live::goodput;
use crate::claims::{Measured, Run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use weir_bench::rig;
use weir_bench::score::trace::{Tap, captures};
use weir_bench::score::{LiveRun, Pair, Side};
use weir_host::error::SystemError;
use weir_sim::replay::InterfaceMap;
use weir_testbed::{Failure, Host, Process, Testbed};
use weir_trace::capture::CaptureReader;
use weir_traffic::measure::{MeasureOptions, MeasureReport, measure as compare};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "second-live",
    summary: "what iperf3 and `weir measure` say of a live run",
    measure: Some(measure),
    own: None,
};

/// Measures each pair with a second tool; [`rig::prepare`] must be called before.
fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let seconds: u64 = run.setting("seconds")?;
    let options: BTreeMap<String, String> = run.setting("iperf3")?;
    let mut measured = Measured::default();
    let mut table = Vec::new();
    for pair in Pair::read_all(run.text("live.toml")?, Duration::from_secs(seconds))? {
        let name = pair.name.clone();
        let mut own = Opinion::default();
        if pair.has_tcp() {
            own.goodput = goodput(&pair.live()?.received);
        } else {
            let (live, captured) = captured(&pair)?;
            own = Opinion::of(&live).ok_or_else(|| format!("{name}: nothing was received"))?;
            delays(&name, &live, &captured, &mut measured)?;
            measured.figure(format!("{name}.loss"), own.loss, "%");
        }
        measured.figure(format!("{name}.goodput"), own.goodput, "kbit/s");
        let words = options.get(&name).map_or("", String::as_str);
        let cells = match iperf3(&pair, words, seconds) {
            Ok(other) => {
                measured.figure(format!("{name}.iperf3.goodput"), other.goodput, "kbit/s");
                measured.figure(format!("{name}.iperf3.loss"), other.loss, "%");
                [own.goodput, other.goodput, own.loss, other.loss].map(|it| format!("{it:.2}"))
            }
            Err(Absent::Program) => {
                measured.missing.insert(format!("{name}.iperf3."), NOT_INSTALLED.to_owned());
                let own = [own.goodput, own.loss].map(|it| format!("{it:.2}"));
                [own[0].clone(), String::new(), own[1].clone(), String::new()]
            }
            Err(Absent::Result(why)) => return Err(format!("{name}: {why}")),
        };
        table.push([vec![name], cells.to_vec()].concat());
    }
    let columns = ["traffic", "Weir's, kbit/s", "iperf3's", "Weir's lost %", "iperf3's"];
    measured.table("Second opinions", &columns, table);
    Ok(measured)
}

/// The figures of one way of measuring.
#[derive(Default)]
struct Opinion {
    /// Payload that arrived, in kbit/s.
    goodput: f64,
    /// In percent.
    loss: f64,
}

/// Why iperf3 gave no opinion.
enum Absent {
    Program,
    Result(String),
}

impl Opinion {
    /// Returns what `weir recv` counted of the only stream of datagrams.
    fn of(live: &LiveRun) -> Option<Self> {
        let stream = live.received.streams.first()?;
        let lost = stream.lost.unwrap_or(0) as f64;
        let arrived = (stream.packets - stream.duplicated) as f64;
        Some(Self {
            goodput: goodput(&live.received),
            loss: 100.0 * lost / (lost + arrived).max(1.0),
        })
    }
}

/// Adds what the link, the receiver and the captures say of delays.
fn delays(
    name: &str,
    live: &LiveRun,
    captured: &MeasureReport,
    measured: &mut Measured,
) -> Result<(), String> {
    let link: &Side = live.classes.values().next().ok_or("no class had traffic")?;
    let stream = live.received.streams.first().ok_or("nothing was received")?;
    let class = captured.classes.first().ok_or("the captures have no packet in common")?;
    measured.figure(format!("{name}.captures.loss"), class.lost_percent, "%");
    let rows = [
        ("", link.quantile_ms(0.5), link.quantile_ms(0.99)),
        ("recv.", stream.delay.p50_us / 1e3, stream.delay.p99_us / 1e3),
        ("captures.", class.delay_p50_us / 1e3, class.delay_p99_us / 1e3),
    ];
    let mut table = Vec::new();
    for (who, p50, p99) in rows {
        measured.figure(format!("{name}.{who}p50"), p50, "ms");
        measured.figure(format!("{name}.{who}p99"), p99, "ms");
        let whose = if who.is_empty() { "link" } else { who.trim_end_matches('.') };
        table.push(vec![whose.to_owned(), format!("{p50:.3}"), format!("{p99:.3}")]);
    }
    measured.table(&format!("Delays of {name}"), &["measured by", "p50 ms", "p99 ms"], table);
    Ok(())
}

/// Runs a scenario live; returns what `weir measure` finds in captures on both sides of the link.
fn captured(pair: &Pair) -> Result<(LiveRun, MeasureReport), String> {
    let (live, captures) = captures(pair, [Tap::Before, Tap::Behind])?;
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", pair.name);
    let mut readers = Vec::new();
    for bytes in &captures {
        readers.push(CaptureReader::new(bytes.as_slice()).map_err(|error| told(&error))?);
    }
    let [before, behind] = readers.as_mut_slice() else { return Err(told(&"a capture is gone")) };
    let map = InterfaceMap::new(pair.policy(), &[]).map_err(|error| told(&error))?;
    let report = compare(pair.policy(), &map, [before, behind], &MeasureOptions::default());
    match report.faults.first() {
        Some(fault) => Err(told(fault)),
        None => Ok((live, report)),
    }
}

/// Returns what iperf3 measures of its own traffic through the link of a scenario, with these
/// further options.
fn iperf3(pair: &Pair, words: &str, seconds: u64) -> Result<Opinion, Absent> {
    if Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err(Absent::Program);
    }
    let told = |error: SystemError| Absent::Result(error.to_string());
    let drive = |testbed: &Testbed, _: Option<&_>| {
        let failed = |why: Failure| SystemError::refused("run iperf3", why.to_string(), "");
        let mut serve = Command::new(PROGRAM);
        serve.args(["--server", "--one-off"]);
        let _server = Process::start_in(&testbed.server, &mut serve).map_err(failed)?;
        thread::sleep(START);
        let mut send = Command::new(PROGRAM);
        send.args(["--json", "--connect-timeout", "2000", "--time", &seconds.to_string()]);
        send.args(["--client", &Host::Server.ip4().to_string()]).args(words.split_whitespace());
        let mut client = Process::start_in(&testbed.client, &mut send).map_err(failed)?;
        // The patience with it begins when it should end.
        thread::sleep(Duration::from_secs(seconds));
        Ok(client.wait_for_output().map_err(failed)?.stdout)
    };
    let text = rig::between(pair.forwarder().map_err(told)?, drive).map_err(told)?.0;
    read(&text).map_err(|why| Absent::Result(format!("iperf3: {why}")))
}

/// Reads what `iperf3 --json` printed.
fn read(text: &str) -> Result<Opinion, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(why) = value["error"].as_str() {
        return Err(why.to_owned());
    }
    let received = &value["end"]["sum_received"];
    let bits = received["bits_per_second"].as_f64().ok_or("it says nothing of the receiver")?;
    // TCP has no such figure.
    let loss = received["lost_percent"].as_f64().unwrap_or(0.0);
    Ok(Opinion { goodput: bits / 1e3, loss })
}

const PROGRAM: &str = "iperf3";
const NOT_INSTALLED: &str = "iperf3 is not installed: install the package `iperf3` for a second \
                             opinion.";
const START: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_printed_is_read() {
        let udp = r#"{"end": {"sum_received": {"bits_per_second": 29e6, "lost_percent": 25.5}}}"#;
        let opinion = read(udp).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((opinion.goodput, opinion.loss), (29_000.0, 25.5));
        let tcp = r#"{"end": {"sum_received": {"bits_per_second": 28e6}}}"#;
        assert_eq!(read(tcp).map(|it| (it.goodput, it.loss)), Ok((28_000.0, 0.0)));
        let refused = r#"{"end": {}, "error": "unable to connect"}"#;
        assert_eq!(read(refused).err().as_deref(), Some("unable to connect"));
        assert!(read("{}").is_err() && read("").is_err());
    }
}
