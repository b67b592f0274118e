//! One run: a host and a server, Weir's two shapers between them, and a modem that varies.
//!
//! ```text
//! host ── lan ── weir ── wan ── server
//!           <- down    up ->
//! ```
//!
//! The upload's shaper stands in front of the modem. The download's stands behind the provider's
//! queue, as every shaper of a home's download does. Both have a class of calls before all others.

use super::lines::Line;
use super::mixes::Mix;
use std::io;
use std::path::Path;
use weir_autorate::controller::named;
use weir_autorate::{Limits, Plan};
use weir_core::units::{Duration, Rate};
use weir_sim::behind::{Behind, BehindReport};
use weir_sim::network::Control;
use weir_sim::scenario::Scenario;
use weir_sim::{read, run};
use weir_trace::capacity::{Buffer, Capacity, End};

/// The rule that sets the rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    /// A controller of this name.
    Controller(&'static str),
    /// The mean of the capacity.
    Mean,
    /// The rate below which the capacity is for 5 % of the time.
    Least,
    /// One that knows the capacity. A download's shaper is behind the queue that it has to keep
    /// short, so its oracle takes 5 % less.
    Oracle,
    /// One that knows the capacity of [`LATE`] before, and takes four fifths of it: about what can
    /// be known from answers that take a round trip.
    LateOracle,
}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the host to the server.
    Up,
    /// From the server to the host.
    Down,
}

/// The figures of a direction in a run.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The part of the capacity that was used, in percent.
    pub used: f64,
    /// The quantiles of the call's delay at the bottleneck, in ms: half, 95 %, 99 %.
    pub delays: [f64; 3],
    /// The part of the time, in percent, in which a packet waited there longer than the target.
    pub above: f64,
}

impl Way {
    /// The word in rows.
    pub const fn word(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }
}

impl Contender {
    /// All, in the order of rows.
    pub const ALL: [Contender; 6] = [
        Contender::Controller("delay-target"),
        Contender::Controller("cake-autorate"),
        Contender::Mean,
        Contender::Least,
        Contender::Oracle,
        Contender::LateOracle,
    ];

    /// The word in rows.
    pub const fn word(self) -> &'static str {
        match self {
            Contender::Controller(name) => name,
            Contender::Mean => "fixed at the mean",
            Contender::Least => "fixed at the 5th percentile",
            Contender::Oracle => "oracle",
            Contender::LateOracle => "oracle 100 ms late",
        }
    }

    /// Returns the rate of the policy, and how it varies.
    pub fn plan(self, capacity: &Capacity, way: Way) -> Result<(Rate, Option<Control>), String> {
        let rate = |bits: u64| Rate::new(bits.max(RATE_MIN)).unwrap_or(Rate::MIN);
        let mean = rate(capacity.mean());
        Ok(match self {
            Contender::Mean => (mean, None),
            Contender::Least => (rate(capacity.percentile(5)), None),
            Contender::Oracle => {
                let known = part_of(capacity, if way == Way::Up { 100 } else { 95 })?;
                (mean, Some(Control::Follow(known, rate(RATE_MIN))))
            }
            Contender::LateOracle => {
                let known = part_of(capacity, if way == Way::Up { 80 } else { 76 })?;
                let before = known.period().as_nanos().saturating_sub(LATE.as_nanos());
                let known = known.starting_at(Duration::from_nanos(before));
                (mean, Some(Control::Follow(known, rate(RATE_MIN))))
            }
            Contender::Controller(name) => {
                let controller = named(name).ok_or("no such controller")?;
                let (min, base) = (rate(capacity.mean() / 10), rate(capacity.mean() / 2));
                let limits = Limits::new(min, base, rate(capacity.peak()), TARGET);
                let limits = limits.ok_or("the limits contradict each other")?;
                (mean, Some(Control::Controller(Plan { limits, controller })))
            }
        })
    }
}

/// Returns so many percent of a capacity.
fn part_of(capacity: &Capacity, percent: u64) -> Result<Capacity, String> {
    let steps = capacity.steps().map(|(lasts, bits)| (lasts, bits * percent / 100));
    Capacity::new(steps, End::Loop).ok_or_else(|| "it has no capacity".to_owned())
}

/// Runs a line with a load and a contender; returns the figures of both ways.
///
/// # Errors
/// When the scenario cannot be made or run.
pub fn cell(line: &Line, mix: &Mix, contender: Contender) -> Result<[(Way, Cell); 2], String> {
    simulated(&scenario(line, mix, contender)?)
}

/// Runs a scenario of [`scenario`]; returns the figures of both ways.
///
/// # Errors
/// When it cannot be run.
pub fn simulated(scenario: &Scenario) -> Result<[(Way, Cell); 2], String> {
    let report = run(scenario, &mut |_| {}).map_err(|why| why.to_string())?;
    let network = report.network.ok_or("it is a network")?;
    let figures = |from: &str, call: &str| {
        let outlet = network.outlet("wan", from).and_then(|outlet| outlet.behind.as_ref());
        figures(outlet.ok_or("the modem is missing")?, call)
    };
    Ok([(Way::Up, figures("weir", "call-up")?), (Way::Down, figures("server", "call-down")?)])
}

/// Returns the figures of a way at whose bottleneck the source `call` was heard.
///
/// # Errors
/// When it was not.
pub fn figures(behind: &BehindReport, call: &str) -> Result<Cell, String> {
    let source = behind.sources.iter().find(|source| source.name == call);
    let delay = source.ok_or("the call never came to the modem")?.delay;
    let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
    let target = TARGET.as_nanos() / 1_000;
    let longest = behind.over_time.delay_max_us.iter();
    let late = longest.clone().filter(|&&micros| micros > target).count();
    Ok(Cell {
        used: behind.used * 100.0,
        delays: [delay.p50, delay.p95, delay.p99].map(millis),
        above: late as f64 * 100.0 / longest.len().max(1) as f64,
    })
}

/// Makes the scenario of a line with a load and a contender.
///
/// # Errors
/// When the contender has no rate there.
pub fn scenario(line: &Line, mix: &Mix, contender: Contender) -> Result<Scenario, String> {
    let (up, up_control) = contender.plan(&line.up, Way::Up)?;
    let (down, down_control) = contender.plan(&line.down, Way::Down)?;
    let files = |path: &Path| match path.to_str() {
        Some("up.toml") => Ok(policy(up).into_bytes()),
        Some("down.toml") => Ok(policy(down).into_bytes()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let text = format!("{SCENARIO}{}", mix.sources);
    let outcome = read::parse(text.as_bytes(), "autorate.toml", &files);
    let first = outcome.findings.first().map(|finding| finding.message.clone());
    let mut scenario = outcome.plan.ok_or_else(|| first.unwrap_or_default())?;
    let network = scenario.network.as_mut().ok_or("it is a network")?;
    let behind = |capacity: &Capacity| {
        let framing = weir_core::link::Framing::ETHERNET;
        Some(Box::new(Behind { capacity: capacity.clone(), buffer: MODEM, framing }))
    };
    // From lan's first end, the host, to weir; then back; then wan, from weir to the server.
    let [lan, wan] = &mut network.links[..] else { return Err("it has two links".to_owned()) };
    lan.outlets[1].control = down_control.map(Box::new);
    wan.outlets[0].control = up_control.map(Box::new);
    wan.outlets[0].behind = behind(&line.up);
    wan.outlets[1].behind = behind(&line.down);
    Ok(scenario)
}

/// Returns a policy with this rate, whose calls go first.
pub fn policy(rate: Rate) -> String {
    let part = |percent: u64| rate.bits_per_second() * percent / 100;
    let rate = rate.bits_per_second();
    format!(
        "[link]\nrate = \"{rate} bit/s\"\nscheduler = \"htb\"\noverhead = \"ethernet\"\n\
         [class.line]\nrate = \"{rate} bit/s\"\n\
         [class.calls]\nparent = \"line\"\nrate = \"{} bit/s\"\nceil = \"{rate} bit/s\"\nprio = 0\n\
         match = [{{ dport = 5004 }}]\n\
         [class.rest]\nparent = \"line\"\nrate = \"{} bit/s\"\nceil = \"{rate} bit/s\"\nprio = 1\n\
         isolate = \"flows\"\ndefault = true\n",
        part(20),
        part(80)
    )
}

/// The delay behind the link that is allowed.
pub const TARGET: Duration = Duration::from_millis(15);
/// By how much the late oracle is late.
const LATE: Duration = Duration::from_millis(100);
/// No rate is lower.
const RATE_MIN: u64 = 200_000;
/// The queue of the modem and of the provider: bloated, as such queues are.
pub const MODEM: Buffer = Buffer::Time(Duration::from_millis(600));
const SCENARIO: &str = r#"
duration = "60 s"
warmup = "5 s"

[[node]]
name = "host"
[[node]]
name = "weir"
router = true
[[node]]
name = "server"

[[link]]
name = "lan"
ends = ["host", "weir"]
rate = "1 Gbit/s"
back = { policy = "down.toml" }

[[link]]
name = "wan"
ends = ["weir", "server"]
policy = "up.toml"
delay = "15 ms"
back = { rate = "400 Gbit/s", delay = "15 ms", queue = "1000 packets" }

[[source]]
name = "call-up"
kind = "cbr"
dport = 5004
payload = "160 B"
interval = "20 ms"
from = "host"
to = "server"

[[source]]
name = "call-down"
kind = "cbr"
dport = 5004
payload = "160 B"
interval = "20 ms"
from = "server"
to = "host"
"#;
