//! A scenario live and simulated: the same policy and the same sources, in the loop of `weir up`
//! between private networks with the kernel's TCP, and in virtual time.
//!
//! [`SCENARIOS`] are the scenarios of `weir lab run score`; [`calibrate`] measures what this host
//! adds, by traffic of its own, and [`trace`] follows TCP by captures. Invariant: both sides report
//! the window after the warm-up.

pub mod calibrate;
pub mod trace;

use crate::rig::{self, Forwarder};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};
use weir_core::account::Histogram;
use weir_host::error::SystemError;
use weir_link::status::{Board, ClassStatus, Status};
use weir_sim::scenario::{EcnMode, Scenario, Traffic};
use weir_sim::{Host, Watch, read};
use weir_testbed::{Host as End, RIGHT, Testbed};
use weir_traffic::{ReceivePlan, ReceiveReport, Receiver, SendPlan, Sender};

/// Returns the kernel's number for what is not its default.
fn tcp_ecn(mode: EcnMode) -> Option<&'static str> {
    match mode {
        EcnMode::Off | EcnMode::Passive => None,
        EcnMode::Active => Some("1"),
        EcnMode::Accurate => Some("3"),
        EcnMode::AccurateClassic => Some("4"),
        EcnMode::AccuratePassive => Some("5"),
    }
}

/// Of the network of the process that writes it.
const TCP_ECN: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// The text of the scenarios, which were fixed before any of them was run.
pub const SCENARIOS: &str = include_str!("scenarios.toml");

/// A scenario to compare.
#[derive(Clone)]
pub struct Pair {
    /// The traffic, the scheduler, and the rate of the link in Mbit/s.
    pub name: String,
    /// The scenario, to the address of the server.
    pub scenario: Scenario,
    policy: weir_policy::Policy,
    /// Lines of `tc` for the port [`RIGHT`] that make the kernel shape alike; may be none.
    kernel: Vec<String>,
}

/// The figures of a class in the measured window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Its rate by charged length, in bit/s.
    pub rate_bps: f64,
    /// The part of its packets that were dropped.
    pub loss: f64,
    /// The delay in the link of each packet, in µs, ascending, each with a count.
    pub delays_us: Vec<(f64, u64)>,
}

/// The figures of a live run.
pub struct LiveRun {
    /// Each class that had traffic.
    pub classes: BTreeMap<String, Side>,
    /// The most bytes that waited in the link at once.
    pub backlog_max: u64,
    /// The processor time that a frame took in the loop, in ns.
    pub frame_ns: f64,
    /// The report of the receiver.
    pub received: ReceiveReport,
}

impl Pair {
    /// Reads all scenarios of a text, each this long after a warm-up, or as long as its own
    /// `seconds` say.
    ///
    /// # Errors
    /// When the text is not one of scenarios.
    pub fn read_all(text: &str, measured: Duration) -> Result<Vec<Self>, String> {
        let top: toml::Table = text.parse().map_err(|error| format!("scenarios: {error}"))?;
        let list = top.get("scenario").and_then(toml::Value::as_array);
        let list = list.ok_or("scenarios: there is no [[scenario]]")?;
        list.iter().map(|one| Self::of(one, measured)).collect()
    }

    fn of(value: &toml::Value, measured: Duration) -> Result<Self, String> {
        let table = value.as_table().ok_or("scenarios: a scenario is a table")?;
        let text = |key: &str| table.get(key).ok_or(format!("scenarios: `{key}` is missing"));
        let name = text("name")?.as_str().unwrap_or_default().to_owned();
        let policy = toml::to_string(text("policy")?).map_err(|error| error.to_string())?;
        let policy = rig::policy(&policy).map_err(|error| format!("{name}: {error}"))?;
        let written = text("source")?.as_array().cloned().unwrap_or_default();
        let mut sources = Vec::new();
        for source in &written {
            sources.extend(copies(source).map_err(|error| format!("{name}: {error}"))?);
        }
        for source in sources.iter_mut().filter_map(toml::Value::as_table_mut) {
            source.insert("dst".to_owned(), End::Server.ip4().to_string().into());
        }
        let mut top = toml::Table::new();
        top.insert("policy".to_owned(), "policy.toml".into());
        let own = table.get("seconds").map(|value| {
            let seconds = value.as_integer().and_then(|seconds| u64::try_from(seconds).ok());
            seconds.map(Duration::from_secs).ok_or(format!("{name}: `seconds` is no whole number"))
        });
        let whole = (own.transpose()?.unwrap_or(measured) + WARMUP).as_millis();
        top.insert("duration".to_owned(), format!("{whole} ms").into());
        top.insert("warmup".to_owned(), format!("{} ms", WARMUP.as_millis()).into());
        top.insert("source".to_owned(), sources.into());
        let top = toml::to_string(&top).map_err(|error| error.to_string())?;
        let none = |_: &Path| -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) };
        let outcome = read::parse_with(top.as_bytes(), &name, &none, &policy);
        let why = || weir_policy::render::render(&outcome.findings, &outcome.sources, false);
        let scenario = outcome.plan.as_ref().cloned().ok_or_else(why)?;
        let lines = table.get("kernel").and_then(toml::Value::as_str).unwrap_or_default();
        let kernel = lines.lines().map(|line| line.replace("RIGHT", RIGHT)).collect();
        Ok(Self { name, scenario, policy, kernel })
    }

    /// Returns whether a source uses TCP.
    pub fn has_tcp(&self) -> bool {
        let uses = |traffic: &Traffic| matches!(traffic, Traffic::Tcp(_) | Traffic::Transfers(..));
        self.scenario.sources.iter().any(|source| uses(&source.traffic))
    }

    /// Simulates it on a host.
    ///
    /// # Errors
    /// When the scenario cannot be run.
    pub fn simulate(&self, host: &Host) -> Result<BTreeMap<String, Side>, String> {
        let mut scenario = self.scenario.clone();
        host.apply(&mut scenario);
        // The same bins as live.
        let mut delays: BTreeMap<String, Histogram> = BTreeMap::new();
        let warmup = scenario.warmup.as_nanos();
        let mut tell = |fate: &weir_sim::Fate<'_>| {
            if fate.dropped.is_none() && fate.at.as_nanos() >= warmup {
                let delay = fate.at.since(fate.arrived).as_nanos() + host.port.as_nanos();
                let class = delays.entry(fate.class.to_owned()).or_default();
                class.record(weir_core::units::Duration::from_nanos(delay));
            }
        };
        let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
        let report = weir_sim::run_watched(&scenario, watch, &mut |_| {});
        let report = report.map_err(|error| format!("{}: {error}", self.name))?;
        let side = |(name, delays): (String, Histogram)| {
            let class = report.class(&name);
            let offered = class.map_or(0, |class| class.offered.packets);
            let dropped = class.map_or(0, |class| class.dropped.total.packets);
            let side = Side {
                rate_bps: class.map_or(0.0, |class| class.sent.bits_per_second as f64),
                loss: dropped as f64 / offered.max(1) as f64,
                delays_us: micros(delays.counts().map(|(end, count)| (end.as_nanos(), count))),
            };
            (name, side)
        };
        Ok(delays.into_iter().map(side).collect())
    }

    /// Runs it live; call [`rig::prepare`] first.
    ///
    /// # Errors
    /// When the networks cannot be made or traffic cannot be sent.
    pub fn live(&self) -> Result<LiveRun, String> {
        let run = || -> Result<LiveRun, SystemError> {
            let (run, _) = rig::between(self.forwarder()?, |testbed, board| {
                self.drive(testbed, board.expect("the bridge has a board"))
            })?;
            Ok(run)
        };
        run().map_err(|error| format!("{}: {error}", self.name))
    }

    /// Returns the bridge that follows the policy.
    pub fn forwarder(&self) -> Result<Forwarder<'static>, SystemError> {
        let back = rig::policy(
            "[link]\nrate = \"10 Gbit/s\"\nscheduler = \"fifo\"\n[class.all]\ndefault = true\n",
        )?;
        Forwarder::weir(&self.policy, &back)
    }

    /// Returns the policy of the link.
    pub fn policy(&self) -> &weir_policy::Policy {
        &self.policy
    }

    /// Returns whether the kernel can shape alike.
    pub fn has_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// Runs it live with the kernel's scheduler; call [`rig::prepare`] first.
    ///
    /// # Errors
    /// When the networks cannot be made, `tc` fails, or traffic cannot be sent.
    pub fn live_in_kernel(&self) -> Result<ReceiveReport, String> {
        let length = Duration::from_nanos(self.scenario.duration.as_nanos());
        let traffic = |testbed: &Testbed, _: Option<&Board>| {
            self.send(testbed, || {
                thread::sleep(length);
                Ok(())
            })
        };
        let run = rig::between(Forwarder::Kernel(&self.kernel), traffic);
        let (((), received), _) = run.map_err(|error| format!("{}: {error}", self.name))?;
        Ok(received)
    }

    /// Sends the traffic of the scenario through a bridge that runs.
    pub fn drive(&self, testbed: &Testbed, board: &Board) -> Result<LiveRun, SystemError> {
        let (watched, received) = self.send(testbed, || self.watch(board))?;
        let (classes, backlog_max, frame_ns) = watched;
        Ok(LiveRun { classes, backlog_max, frame_ns, received })
    }

    /// Sends from one host to the other while `watch` runs.
    fn send<T>(
        &self,
        testbed: &Testbed,
        watch: impl FnOnce() -> Result<T, SystemError>,
    ) -> Result<(T, ReceiveReport), SystemError> {
        let ports = self.scenario.sources.iter().filter_map(|source| source.headers.ports);
        let ports: BTreeSet<u16> = ports.map(|ports| ports.destination).collect();
        let ports: Vec<u16> = ports.into_iter().collect();
        let receive = ReceivePlan::ports(&ports);
        self.set_marks(testbed)?;
        let receiver = testbed.server.run(|| Receiver::start(&receive))??;
        let whole = Duration::from_nanos(self.scenario.duration.as_nanos());
        let sources = self.scenario.sources.clone();
        let plan = SendPlan { duration: whole + SLACK, ..SendPlan::new(sources) };
        let sender = testbed.client.run(|| Sender::start(&plan))??;
        let watched = watch();
        sender.stop();
        sender.finish();
        receiver.wait_ended(SLACK);
        Ok((watched?, receiver.finish()))
    }

    /// Lets the kernel's TCP ask for marks in place of losses, if a source's does.
    fn set_marks(&self, testbed: &Testbed) -> Result<(), SystemError> {
        let tcps = self.scenario.sources.iter().filter_map(|source| source.traffic.tcp());
        let modes: BTreeSet<&str> = tcps.filter_map(|tcp| tcp_ecn(tcp.config.ecn)).collect();
        for mode in modes {
            for network in [&testbed.client, &testbed.server] {
                let written = network.run(|| std::fs::write(TCP_ECN, mode))?;
                written.map_err(|cause| SystemError::new(format!("set {TCP_ECN}"), cause))?;
            }
        }
        Ok(())
    }

    /// Returns what each class did after the warm-up, the most bytes that waited at once, and the
    /// processor time of a frame in ns.
    fn watch(&self, board: &Board) -> Result<(BTreeMap<String, Side>, u64, f64), SystemError> {
        let whole = Duration::from_nanos(self.scenario.duration.as_nanos());
        thread::sleep(WARMUP);
        let none = || SystemError::refused("read the status", "the loop hangs", "try again");
        let before = board.mark(PATIENCE).ok_or_else(none)?;
        let (mut backlog_max, end) = (0, Instant::now() + (whole - WARMUP));
        while Instant::now() < end {
            thread::sleep(STEP.min(end.saturating_duration_since(Instant::now())));
            let waiting = board.ask(PATIENCE).map_or(0, |status| backlog(&status));
            backlog_max = backlog_max.max(waiting);
        }
        let after = board.ask_with_bins(PATIENCE).ok_or_else(none)?;
        Ok((classes(&before, &after), backlog_max, frame_ns(&before, &after)))
    }
}

/// Returns `count` copies of a source; each starts `every` so many milliseconds after the one
/// before, and has its number behind the name.
fn copies(source: &toml::Value) -> Result<Vec<toml::Value>, String> {
    let mut plain = source.as_table().cloned().ok_or("a source is a table")?;
    let Some(count) = plain.remove("count") else { return Ok(vec![plain.into()]) };
    let every = plain.remove("every_ms").map_or(Some(0), |every| every.as_integer());
    let (count, every) =
        count.as_integer().zip(every).ok_or("`count` and `every_ms` are numbers")?;
    let name = plain.get("name").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
    let copy = |number: i64| {
        let mut copy = plain.clone();
        copy.insert("name".to_owned(), format!("{name}{number}").into());
        copy.insert("start".to_owned(), format!("{} ms", number * every).into());
        copy.into()
    };
    Ok((0..count).map(copy).collect())
}

fn backlog(status: &Status) -> u64 {
    status.lanes[0].classes.iter().map(|class| class.backlog.bytes).sum()
}

fn frame_ns(before: &Status, after: &Status) -> f64 {
    let received = |status: &Status| status.ports.iter().map(|port| port.received).sum::<u64>();
    let frames = received(after).saturating_sub(received(before));
    after.busy_ns.saturating_sub(before.busy_ns) as f64 / frames.max(1) as f64
}

fn classes(before: &Status, after: &Status) -> BTreeMap<String, Side> {
    let seconds = (after.uptime_ns - before.uptime_ns) as f64 / 1e9;
    let dropped =
        |class: &ClassStatus| class.dropped.iter().map(|row| row.1.packets).sum::<u64>() as f64;
    let rows = before.lanes[0].classes.iter().zip(&after.lanes[0].classes);
    let used = rows.filter(|(before, after)| after.sent.packets > before.sent.packets);
    let side = |(before, after): (&ClassStatus, &ClassStatus)| {
        let bytes = after.sent.bytes - before.sent.bytes;
        let offered = (after.offered.packets - before.offered.packets) as f64;
        let bins = after.bins.clone().unwrap_or_default();
        let side = Side {
            rate_bps: bytes as f64 * 8.0 / seconds,
            loss: (dropped(after) - dropped(before)) / offered.max(1.0),
            delays_us: micros(bins.into_iter()),
        };
        (after.name.clone(), side)
    };
    used.map(side).collect()
}

fn micros(bins: impl Iterator<Item = (u64, u64)>) -> Vec<(f64, u64)> {
    bins.map(|(end, count)| (end as f64 / 1e3, count)).collect()
}

impl Side {
    /// Returns the delay that this part of the packets does not exceed, in ms.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let all: u64 = self.delays_us.iter().map(|(_, count)| count).sum();
        let mut left = (all as f64 * part).ceil() as u64;
        for (delay, count) in &self.delays_us {
            if *count >= left {
                return delay / 1e3;
            }
            left -= count;
        }
        0.0
    }

    /// Returns the largest distance between the distributions of two delays (Kolmogorov, Smirnov).
    pub fn distance(&self, other: &Side) -> f64 {
        let below = |side: &Side, delay: f64| {
            let all: u64 = side.delays_us.iter().map(|(_, count)| count).sum();
            let under = side.delays_us.iter().take_while(|(at, _)| *at <= delay);
            under.map(|(_, count)| count).sum::<u64>() as f64 / all.max(1) as f64
        };
        let edges = self.delays_us.iter().chain(&other.delays_us).map(|(at, _)| *at);
        edges.map(|at| (below(self, at) - below(other, at)).abs()).fold(0.0, f64::max)
    }
}

/// Queues fill and TCP leaves slow start.
pub const WARMUP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);
const SLACK: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_one_scenarios_and_each_runs() {
        let pairs = Pair::read_all(SCENARIOS, Duration::from_millis(500));
        let pairs = pairs.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pairs.len(), 21);
        assert_eq!(pairs.iter().filter(|pair| pair.has_tcp()).count(), 10);
        for pair in pairs {
            let classes = pair.simulate(&Host::default()).unwrap_or_else(|why| panic!("{why}"));
            assert!(!classes.is_empty(), "{}", pair.name);
            assert!(classes.values().all(|side| side.rate_bps > 0.0), "{}", pair.name);
        }
    }

    #[test]
    fn a_source_with_a_count_stands_for_as_many() {
        let source: toml::Table = "name = \"call\"\ncount = 3\nevery_ms = 7\ndport = 5004"
            .parse()
            .unwrap_or_else(|error| panic!("{error}"));
        let all = copies(&source.into()).unwrap_or_else(|error| panic!("{error}"));
        let text = |key: &str| -> Vec<String> {
            all.iter().map(|one| one[key].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(text("name"), ["call0", "call1", "call2"]);
        assert_eq!(text("start"), ["0 ms", "7 ms", "14 ms"]);
        assert!(all.iter().all(|one| one["dport"].as_integer() == Some(5004)));
        let wrong: toml::Table = "count = \"x\"".parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(copies(&wrong.into()).is_err());
    }

    #[test]
    fn quantiles_and_the_distance_of_distributions() {
        let side = |delays: &[(f64, u64)]| Side { delays_us: delays.to_vec(), ..Side::default() };
        let one = side(&[(1000.0, 50), (2000.0, 49), (9000.0, 1)]);
        let other = side(&[(1000.0, 20), (2000.0, 80)]);
        assert_eq!([0.5, 0.51, 0.99, 1.0].map(|part| one.quantile_ms(part)), [1.0, 2.0, 2.0, 9.0]);
        assert!((one.distance(&other) - 0.3).abs() < 1e-9);
        assert_eq!((one.distance(&one), Side::default().quantile_ms(0.5)), (0.0, 0.0));
    }
}
