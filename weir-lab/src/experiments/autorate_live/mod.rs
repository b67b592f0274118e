//! A rate that follows a line, on real packets and simulated: the same line, policies and
//! controller, with a bulk connection and a call each way.
//!
//! Live, `weir up` with `autorate` stands between the kernel's TCP and a line that a thread plays
//! ([`line`]). Simulated, it is the scenario of `weir lab run autorate` with these sources. Both
//! report what was used of the capacity, and how long the call waited behind the link, by the same
//! code. Losses fall where chance lets them, and behind an outage a timer decides who comes back
//! when, so each line is run several times, with bulk connections that begin a little later each
//! time, and medians are compared.

mod line;

use super::autorate::cells::{self, Cell, Contender, MODEM, Way};
use super::autorate::lines::{Line, lines};
use super::autorate::mixes::CALLS_AND_CUBIC;
use super::{Experiment, Own};
use crate::parallel;
use crate::program;
use crate::rows::{Options, Row, Rows};
use line::{LinePlan, RunningLine, far_host};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use weir_core::link::Framing;
use weir_core::packet::Addresses;
use weir_core::units::{Bytes, Duration, Instant};
use weir_host::netns::NetNs;
use weir_sim::Host as Calibration;
use weir_sim::behind::Behind;
use weir_sim::network::Control;
use weir_sim::scenario::{Scenario, Source};
use weir_testbed::{Host, Scene, TestbedConfig};
use weir_traffic::{ReceivePlan, Receiver, SendPlan, Sender};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "autorate-live",
    summary: "a rate that follows recorded lines, live and simulated: use, a call's delay",
    measure: None,
    own: Some(Own::live(run)),
};

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let wanted = |line: &Line| LINES.contains(&line.name.as_str());
    lines()?
        .iter()
        .filter(|line| wanted(line))
        .try_for_each(|line| rows.measure(&line.name, |options| measure(line, options)))
}

/// Runs a line live and simulated, several times each; returns the figures of both ways.
fn measure(line: &Line, options: &Options) -> Result<Vec<Row>, String> {
    let rounds: Vec<u32> = (0..SIMULATED).collect();
    let simulated =
        parallel::each(&rounds, |round| cells::simulated(&scenario(line, *round, options)?))?;
    let mut live = Vec::new();
    for round in 0..LIVE {
        live.push(play(line, &scenario(line, round, options)?)?);
    }
    let of = |all: &[Both], way: Way| -> Vec<Cell> {
        all.iter().map(|both| both[way as usize].1).collect()
    };
    let rows = [Way::Up, Way::Down].into_iter().flat_map(|way| {
        let subject = format!("{}, {}", line.name, way.word());
        compared(&subject, &of(&live, way), &of(&simulated, way))
    });
    Ok(rows.collect())
}

/// The figures of a run.
type Both = [(Way, Cell); 2];

/// Makes the scenario of a round.
fn scenario(line: &Line, round: u32, options: &Options) -> Result<Scenario, String> {
    let mut scenario = cells::scenario(line, &CALLS_AND_CUBIC, CONTENDER)?;
    let measured = Duration::from_nanos(options.duration.as_nanos() as u64);
    scenario.duration = scenario.warmup.plus(measured);
    let later = Duration::from_nanos(LATER.as_nanos() * u64::from(round));
    for source in &mut scenario.sources {
        if source.traffic.tcp().is_some() {
            source.start = Instant::ZERO.after(later);
        }
    }
    // As the kernel's, whose window grows beyond every queue here.
    let window = Some(Bytes::new(WINDOW));
    let (quick_acks, timestamps) = (Some(QUICK_ACKS), Some(true));
    Calibration { window, quick_acks, timestamps, ..Calibration::default() }.apply(&mut scenario);
    Ok(scenario)
}

/// Runs a scenario live; returns the figures of both ways.
fn play(line: &Line, scenario: &Scenario) -> Result<Both, String> {
    let (up, down) = (Deployed::of(line, Way::Up)?, Deployed::of(line, Way::Down)?);
    let download = "[direction.download]\nfrom = \"outside\"\nto = \"inside\"\n\
                    policy = \"down.toml\"\n";
    let tables = [download, &up.autorate("upload"), &down.autorate("download")].concat();
    let networks = TestbedConfig { offloads: false, has_ipv6: false, ..TestbedConfig::default() };
    let plan = program::plan_first(&up.policy)?.tables(&tables).networks(networks);
    let mut scene = plan.prepare().map_err(String::from)?;
    scene.write("down.toml", &down.policy).map_err(String::from)?;
    scene.start().map_err(String::from)?;
    let reports = carry(&scene, line, scenario)?;
    scene.stop().map_err(String::from)?;
    let [up, down] = reports;
    Ok([(Way::Up, cells::figures(&up, "call")?), (Way::Down, cells::figures(&down, "call")?)])
}

/// Sends the traffic of a scenario through a link and a line.
fn carry(
    scene: &Scene,
    line: &Line,
    scenario: &Scenario,
) -> Result<[weir_sim::behind::BehindReport; 2], String> {
    let told = |error: weir_host::error::SystemError| error.to_string();
    let far = far_host(&scene.testbed).map_err(told)?;
    let behind = [&line.up, &line.down].map(|capacity| Behind {
        capacity: capacity.clone(),
        buffer: MODEM,
        framing: Framing::ETHERNET,
    });
    let span = (scenario.warmup, scenario.duration);
    let plan = LinePlan { behind, delay: PATH, span };
    let running = RunningLine::start(&scene.testbed.server, plan).map_err(told)?;
    let ends = [&scene.testbed.client, &far];
    for end in ends {
        widen(end)?;
    }
    let receivers = ends.map(|end| receive(end, scenario));
    let [one, other] = receivers;
    let receivers = [one?, other?];
    running.begin();
    let senders = [send(ends[0], scenario, Host::Client)?, send(ends[1], scenario, Host::Server)?];
    thread::sleep(std::time::Duration::from_nanos(scenario.duration.as_nanos()) + SLACK);
    senders.iter().for_each(Sender::stop);
    senders.into_iter().for_each(|sender| drop(sender.finish()));
    drop(receivers);
    running.stop().map_err(told)
}

/// Lets a host's TCP have windows beyond every queue here.
fn widen(host: &NetNs) -> Result<(), String> {
    let sizes = format!("4096 131072 {}", 2 * WINDOW);
    for name in ["tcp_rmem", "tcp_wmem"] {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let written = host.run(|| std::fs::write(&path, &sizes)).map_err(|why| why.to_string())?;
        written.map_err(|why| format!("set {path}: {why}"))?;
    }
    Ok(())
}

fn receive(host: &NetNs, scenario: &Scenario) -> Result<Receiver, String> {
    let ports = scenario.sources.iter().filter_map(|source| source.headers.ports);
    let ports: BTreeSet<u16> = ports.map(|ports| ports.destination).collect();
    let plan = ReceivePlan::ports(&ports.into_iter().collect::<Vec<_>>());
    let started = host.run(|| Receiver::start(&plan)).map_err(|why| why.to_string())?;
    started.map_err(|why| why.to_string())
}

/// Sends what a host sends in a scenario.
fn send(network: &NetNs, scenario: &Scenario, host: Host) -> Result<Sender, String> {
    let (name, to) = match host {
        Host::Client => ("up", Host::Server.ip4()),
        Host::Server => ("down", Host::Client.ip4()),
    };
    let own = scenario.sources.iter().filter(|source| source.name.ends_with(name));
    let sources: Vec<Source> = own.map(|source| to_host(source, (host.ip4(), to))).collect();
    let duration = std::time::Duration::from_nanos(scenario.duration.as_nanos()) + SLACK;
    let plan = SendPlan { duration, ..SendPlan::new(sources) };
    let started = network.run(|| Sender::start(&plan)).map_err(|why| why.to_string())?;
    started.map_err(|why| why.to_string())
}

/// Returns a source of a network with the addresses of real hosts.
fn to_host(source: &Source, (from, to): (IpAddr, IpAddr)) -> Source {
    let mut source = source.clone();
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        source.headers.addresses = Addresses::V4 { source: from, destination: to };
    }
    source
}

/// A direction of the deployment.
struct Deployed {
    policy: String,
    keys: String,
}

impl Deployed {
    fn of(line: &Line, way: Way) -> Result<Self, String> {
        let capacity = if way == Way::Up { &line.up } else { &line.down };
        let (rate, control) = CONTENDER.plan(capacity, way)?;
        let Some(Control::Controller(plan)) = control else {
            return Err("it is no controller".to_owned());
        };
        let limits = plan.limits;
        let rates = [("min", limits.min()), ("base", limits.base()), ("max", limits.max())];
        let rates =
            rates.map(|(key, rate)| format!("{key} = \"{} bit/s\"\n", rate.bits_per_second()));
        let target = limits.target().as_nanos() / 1_000;
        let controller = weir_autorate::controller::CONTROLLERS[plan.controller].name;
        let keys =
            format!("{}target = \"{target} us\"\ncontroller = \"{controller}\"\n", rates.concat());
        Ok(Self { policy: cells::policy(rate), keys })
    }

    fn autorate(&self, direction: &str) -> String {
        format!("\n[direction.{direction}.autorate]\n{}", self.keys)
    }
}

/// A figure of runs, and by which part or amount live and simulated medians may differ.
struct Figure {
    name: &'static str,
    unit: &'static str,
    of: fn(&Cell) -> f64,
    goal: Option<(f64, f64)>,
}

const FIGURES: [Figure; 3] = [
    Figure { name: "capacity used", unit: "%", of: |cell| cell.used, goal: Some((0.05, 0.0)) },
    Figure { name: "call's p50", unit: "ms", of: |cell| cell.delays[0], goal: None },
    Figure { name: "call's p95", unit: "ms", of: |cell| cell.delays[1], goal: Some((0.15, 3.0)) },
];

/// The figures of a way, live beside simulated.
fn compared(subject: &str, live: &[Cell], simulated: &[Cell]) -> Vec<Row> {
    FIGURES.iter().map(|figure| figure.compared(subject, live, simulated)).collect()
}

impl Figure {
    /// Returns the medians of both, and whether they agree. Where not even the middle half of the
    /// simulated runs agrees with its own median, chance decides, and nothing is judged.
    fn compared(&self, subject: &str, live: &[Cell], simulated: &[Cell]) -> Row {
        let Self { name, unit, of, goal } = self;
        let [live, simulated] = [live, simulated].map(|cells| {
            let mut values: Vec<f64> = cells.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        let each: Vec<String> = live.iter().map(|value| format!("{value:.1}")).collect();
        let [least, low, median, high, most] =
            [0, 25, 50, 75, 100].map(|percent| quantile(&simulated, percent));
        let found = quantile(&live, 50);
        let measured = format!("{found:.1} {unit} ({})", each.join(", "));
        let expected = format!("{median:.1} {unit} ({least:.1} to {most:.1})");
        let subject = format!("{subject}: {name}");
        let Some((part, amount)) = *goal else {
            return Row::shown(subject, format!("{measured}, simulated {expected}"));
        };
        let off = |value: f64| {
            (value - median).abs() / (median * part).max(amount).max(f64::MIN_POSITIVE)
        };
        let is_certain = off(low).max(off(high)) <= 1.0;
        let limit = if is_certain { 1.0 } else { f64::INFINITY };
        Row::off(subject, (measured, expected), off(found), limit)
    }
}

/// Returns a quantile of values in order.
fn quantile(values: &[f64], percent: usize) -> f64 {
    let last = values.len().saturating_sub(1);
    values.get((last * percent + 50) / 100).copied().unwrap_or(f64::NAN)
}

/// The lines: such that two processors carry them in an ordinary build.
const LINES: [&str; 5] = [
    "att-lte-driving-down at 0 s",
    "tmobile-lte-driving-down at 0 s",
    "verizon-lte-short-down at 65 s",
    "starlink-moving-up-1 at 0 s",
    "model gilbert",
];
const CONTENDER: Contender = Contender::Controller("delay-target");
/// Runs of a line on real packets.
const LIVE: u32 = 3;
/// Simulated runs of a line, which cost less. The first of them are those on real packets.
const SIMULATED: u32 = 24;
/// By how much the bulk connections of a round begin later than those of the round before.
const LATER: Duration = Duration::from_millis(137);
/// From the bottleneck to the other end, as in the scenario.
const PATH: Duration = Duration::from_millis(15);
/// The window of TCP, in bytes.
const WINDOW: u64 = 8_000_000;
/// Segments that the kernel acknowledges one by one at first.
const QUICK_ACKS: u32 = 16;
/// From the end of what is reported to the end of the traffic.
const SLACK: std::time::Duration = std::time::Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(used: f64, p95: f64) -> Cell {
        Cell { used, delays: [p95 / 2.0, p95, p95], above: 0.0 }
    }

    #[test]
    fn medians_agree_within_a_part_or_an_amount() {
        let rows = |live: Cell, simulated: &[Cell]| compared("x", &[live; 3], simulated);
        let holds = |live: Cell, simulated: Cell| -> [bool; 2] {
            let rows = rows(live, &[simulated; 3]);
            [rows[0].holds, rows[2].holds]
        };
        assert_eq!(holds(cell(90.0, 12.0), cell(94.0, 14.9)), [true, true]);
        assert_eq!(holds(cell(89.0, 12.0), cell(94.0, 16.0)), [false, false]);
        assert_eq!(holds(cell(94.0, 110.0), cell(94.0, 100.0)), [true, true]);
        assert_eq!(holds(cell(94.0, 116.0), cell(94.0, 100.0)), [true, false]);
        // Simulated runs that differ as much among themselves judge nothing.
        let apart = [30.0, 31.0, 70.0, 75.0, 76.0].map(|used| cell(used, 20.0));
        let rows = rows(cell(30.0, 40.0), &apart);
        assert!(rows[0].holds && rows[0].limit.is_infinite(), "{rows:?}");
        assert!(!rows[2].holds && rows[2].limit.is_finite(), "{rows:?}");
    }

    #[test]
    fn its_lines_are_there_and_can_be_deployed() {
        let lines = lines().unwrap_or_else(|why| panic!("{why}"));
        let own: Vec<_> = lines.iter().filter(|line| LINES.contains(&line.name.as_str())).collect();
        assert_eq!(own.len(), LINES.len());
        let options = Options { duration: std::time::Duration::from_secs(5), ..Options::default() };
        for line in own {
            let up = Deployed::of(line, Way::Up).unwrap_or_else(|why| panic!("{why}"));
            assert!(up.autorate("upload").contains("controller = \"delay-target\""));
            let scenario = scenario(line, 1, &options).unwrap_or_else(|why| panic!("{why}"));
            let names = ["up", "down"].map(|way| {
                scenario.sources.iter().filter(|source| source.name.ends_with(way)).count()
            });
            assert_eq!(names, [2, 2], "a call and a bulk connection each way");
        }
    }
}
