//! The cost of real packets, and the behaviour of a forwarder that gets more than it can take
//! [risso99 §6.2, Tables 4 and 5, Figure 20]: the loop of `weir up` with schedulers beside its
//! FIFO, and the kernel's bridge with and without HTB.
//!
//! One UDP flow floods the forwarder, as in the paper. The cost of a packet in Weir is the time
//! that the loop worked for it, before all other programs (`priority = "realtime"`); schedulers are
//! compared with FIFO round by round, and figures are medians. Beside the kernel counts the
//! processor time of this program's threads, sender included, for each packet that arrived, at half
//! of what was forwarded at most: the kernel forwards in the sender's calls, and so is never
//! offered more than it can take. It counts as this kernel counts it: one that counts interrupts
//! apart (`IRQ_TIME_ACCOUNTING`) leaves part of its own work out.
//!
//! Figures, with `FORWARDER` one of `fifo`, `cbq`, `cbq-altq`, `htb`, `kernel.fifo`, `kernel.htb`:
//! `FORWARDER.SIZE.loop` (µs), `FORWARDER.SIZE.less` (% fewer packets than FIFO),
//! `FORWARDER.classes` (cost beside the most classes, in parts of that with one), `FORWARDER.most`
//! (packets/s), `.below` (% of half of a flood's), `.kept` (what is forwarded of a flood, in % of
//! what is of just as much as the forwarder can take) and `.processor` (µs).

use super::{Experiment, processes};
use crate::claims::{Kind, Measured, Plot, Run};
use serde::Deserialize;
use std::fmt::Write;
use std::thread;
use std::time::Duration;
use weir_bench::bench::median;
use weir_bench::rig::{self, Htb};
use weir_host::error::SystemError;
use weir_host::wait::monotonic_ns;
use weir_link::status::{Board, Status};
use weir_testbed::{Host, RIGHT, Testbed};
use weir_traffic::flood::{Flood, FloodPlan};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cost-live",
    summary: "cost and overload on real packets: the loop of `weir up`, and the kernel",
    measure: Some(measure),
    own: None,
};

/// The settings of a sheet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// How often each measurement is made.
    rounds: usize,
    /// How long each is.
    milliseconds: u64,
    /// Lengths of the IP packet.
    sizes: Vec<u32>,
    /// Classes of the case with many.
    classes: usize,
    /// Loads beside the flood, in parts of the most that was forwarded.
    loads: Vec<f64>,
}

/// The bridge that forwards.
#[derive(Clone, Copy)]
enum Forwarder {
    /// The loop of `weir up` with this scheduler.
    Weir(&'static str),
    /// The kernel's bridge with this discipline.
    Kernel(&'static str),
}

/// The figures of one run.
#[derive(Clone, Copy, Default)]
struct Sample {
    /// In packets a second.
    offered: f64,
    arrived: f64,
    /// The time that the loop worked for a packet, in µs; 0 for the kernel.
    loop_us: f64,
    /// Processor time for a packet that arrived, in µs.
    processor_us: f64,
}

/// Measures cost and overload; [`rig::prepare`] must be called before.
fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let settings: Settings = toml::Value::Table(run.sheet.settings.clone())
        .try_into()
        .map_err(|error| format!("{}: {error}", run.sheet.id))?;
    let mut measured = Measured::default();
    settings.cost(&mut measured)?;
    settings.overload(&mut measured)?;
    Ok(measured)
}

impl Settings {
    /// Measures what a packet costs in Weir: Tables 4 and 5.
    fn cost(&self, measured: &mut Measured) -> Result<(), String> {
        let mut table = Vec::new();
        for &size in &self.sizes {
            let cases: Vec<_> = SCHEDULERS.iter().map(|name| (*name, size, 1)).collect();
            let rounds = self.rounds(&cases)?;
            let of = |value: &dyn Fn(&[f64]) -> f64| middle(rounds.iter().map(|it| value(it)));
            for (place, name) in SCHEDULERS.iter().enumerate() {
                let cost = of(&|round| round[place]);
                let less = of(&|round| (1.0 - round[0] / round[place]) * 100.0);
                measured.figure(format!("{name}.{size}.loop"), cost, "us");
                measured.figure(format!("{name}.{size}.less"), less, "%");
                let cells = [format!("{cost:.2}"), format!("{:.0}", 1e6 / cost)];
                let first = [(*name).to_owned(), size.to_string(), "1".to_owned()];
                table.push([first.to_vec(), cells.to_vec(), vec![format!("{less:.1}")]].concat());
            }
        }
        let size = self.sizes.first().copied().unwrap_or(SIZE);
        let shaped = &SCHEDULERS[1..];
        let pair = |name: &&'static str| [(*name, size, 1), (*name, size, self.classes)];
        let cases: Vec<_> = shaped.iter().flat_map(pair).collect();
        let rounds = self.rounds(&cases)?;
        for (place, name) in shaped.iter().enumerate() {
            let more = middle(rounds.iter().map(|it| it[2 * place + 1] / it[2 * place]));
            let cost = middle(rounds.iter().map(|it| it[2 * place + 1]));
            measured.figure(format!("{name}.classes"), more, "");
            let cells = [format!("{cost:.2}"), format!("{:.0}", 1e6 / cost), String::new()];
            let first = [(*name).to_owned(), size.to_string(), self.classes.to_string()];
            table.push([first.to_vec(), cells.to_vec()].concat());
        }
        let title = "Cost of a packet in the loop of `weir up`";
        let columns =
            ["scheduler", "bytes of IP", "classes", "µs", "packets/s", "less than FIFO, %"];
        measured.table(title, &columns, table);
        Ok(())
    }

    /// Returns what the loop worked for a packet, in µs, in each round by case.
    fn rounds(&self, cases: &[(&'static str, u32, usize)]) -> Result<Vec<Vec<f64>>, String> {
        let one = |&(name, size, classes): &(&'static str, u32, usize)| {
            Ok(self.sample(Forwarder::Weir(name), (size, classes), None)?.loop_us)
        };
        (0..self.rounds.max(1)).map(|_| cases.iter().map(one).collect()).collect()
    }

    /// Offers more and more: Figure 20.
    fn overload(&self, measured: &mut Measured) -> Result<(), String> {
        let size = self.sizes.first().copied().unwrap_or(SIZE);
        let title = "Forwarded against offered";
        let mut plot = Plot::new(Kind::Lines, title, "offered, packets/s", "packets/s");
        let mut table = Vec::new();
        for forwarder in FORWARDERS {
            let name = forwarder.name();
            let samples = self.loads(forwarder, size)?;
            let flood = &samples[samples.len() - 1];
            let full = &samples[if forwarder.is_weir() { 1 } else { samples.len() - 1 }];
            let kept =
                middle(flood.iter().zip(full).map(|(most, full)| most.arrived / full.arrived));
            let samples: Vec<Sample> =
                samples.iter().map(|rounds| Sample::middle(rounds)).collect();
            let half = samples[0];
            let most = samples.iter().map(|sample| sample.arrived).fold(0.0, f64::max);
            measured.figure(format!("{name}.most"), most, "packets/s");
            measured.figure(format!("{name}.below"), 100.0 * half.arrived / half.offered, "%");
            measured.figure(format!("{name}.kept"), 100.0 * kept, "%");
            measured.figure(format!("{name}.processor"), half.processor_us, "us");
            let points = samples.iter().map(|sample| (sample.offered, sample.arrived)).collect();
            plot = plot.with(&name, points);
            let row = |sample: &Sample| {
                let Sample { offered, arrived, loop_us, processor_us } = sample;
                let rates = [format!("{offered:.0}"), format!("{arrived:.0}")];
                let times = [format!("{loop_us:.2}"), format!("{processor_us:.2}")];
                [vec![name.clone()], rates.to_vec(), times.to_vec()].concat()
            };
            table.extend(samples.iter().map(row));
        }
        let columns = ["forwarder", "offered, packets/s", "arrived", "loop, µs", "processors, µs"];
        measured.plot(plot).table(title, &columns, table);
        Ok(())
    }

    /// Returns the samples of each round: at half of what is forwarded of a flood, at each load,
    /// and of the flood.
    fn loads(&self, forwarder: Forwarder, size: u32) -> Result<Vec<Vec<Sample>>, String> {
        let loads = if forwarder.is_weir() { self.loads.as_slice() } else { &[] };
        let parts: Vec<f64> = std::iter::once(HALF).chain(loads.iter().copied()).collect();
        let mut samples = vec![Vec::new(); parts.len() + 1];
        for _ in 0..self.rounds.max(1) {
            let flood = self.sample(forwarder, (size, 1), None)?;
            for (part, samples) in parts.iter().zip(&mut samples) {
                let rate = (part * flood.arrived).max(1.0) as u64;
                samples.push(self.sample(forwarder, (size, 1), Some(rate))?);
            }
            samples[parts.len()].push(flood);
        }
        Ok(samples)
    }

    /// Floods a forwarder that has so many classes, all or at a rate.
    fn sample(
        &self,
        forwarder: Forwarder,
        (size, classes): (u32, usize),
        rate: Option<u64>,
    ) -> Result<Sample, String> {
        let duration = Duration::from_millis(self.milliseconds);
        let run = || -> Result<Sample, SystemError> {
            let lines = tc_lines(forwarder);
            let made = match forwarder {
                Forwarder::Kernel(_) => rig::Forwarder::Kernel(&lines),
                Forwarder::Weir(scheduler) => {
                    let forth = rig::policy(&policy(scheduler, classes))?;
                    let back = rig::policy(&policy(SCHEDULERS[0], 1))?;
                    rig::Forwarder::weir(&forth, &back)?.first()
                }
            };
            let drive = |testbed: &Testbed, board: Option<&Board>| {
                let plan = rig::flood_past(Host::Client, rig::FIRST_PORT, size + ETHERNET, rate);
                drive(testbed, board, &plan, duration)
            };
            Ok(rig::between(made, drive)?.0)
        };
        run().map_err(|error| format!("{}: {error}", forwarder.name()))
    }
}

impl Forwarder {
    fn is_weir(self) -> bool {
        matches!(self, Self::Weir(_))
    }

    fn name(self) -> String {
        match self {
            Self::Weir(scheduler) => scheduler.to_owned(),
            Self::Kernel(discipline) => format!("kernel.{discipline}"),
        }
    }
}

impl Sample {
    /// Returns the median of each value.
    fn middle(rounds: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| middle(rounds.iter().map(value));
        Self {
            offered: of(|sample| sample.offered),
            arrived: of(|sample| sample.arrived),
            loop_us: of(|sample| sample.loop_us),
            processor_us: of(|sample| sample.processor_us),
        }
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(&mut values.collect::<Vec<_>>())
}

/// Sends while it measures, on the processor that the loop does not have.
fn drive(
    testbed: &Testbed,
    board: Option<&Board>,
    plan: &FloodPlan,
    duration: Duration,
) -> Result<Sample, SystemError> {
    let start = || {
        rig::pin_traffic()?;
        Flood::start(plan)
    };
    let flood = testbed.client.run(start)??;
    let sample = testbed.server.run(|| watch(board, &flood, duration)).and_then(|sample| sample);
    flood.finish();
    sample
}

/// Counts packets and time over `duration`, after a warm-up.
fn watch(board: Option<&Board>, flood: &Flood, duration: Duration) -> Result<Sample, SystemError> {
    let look = || -> Result<(u64, u64, u64, f64, Status), SystemError> {
        let hangs = || SystemError::refused("read the status", "the loop hangs", "try again");
        let status = match board {
            Some(board) => board.ask(PATIENCE).ok_or_else(hangs)?,
            None => Status::default(),
        };
        let failed = |cause| SystemError::new("read the time of this program's threads", cause);
        let worked = processes::processor_ns(std::process::id()).map_err(failed)?;
        Ok((monotonic_ns(), rig::received_frames()?, flood.sent(), worked, status))
    };
    thread::sleep(WARMUP);
    let before = look()?;
    thread::sleep(duration);
    let after = look()?;
    let seconds = (after.0 - before.0) as f64 / 1e9;
    let arrived = (after.1 - before.1) as f64;
    let frames = |status: &Status| status.ports.iter().map(|port| port.sent).sum::<u64>();
    let forwarded = frames(&after.4) - frames(&before.4);
    let busy = (after.4.busy_ns - before.4.busy_ns) as f64;
    let polling = (after.4.polling_ns - before.4.polling_ns) as f64;
    Ok(Sample {
        offered: (after.2 - before.2) as f64 / seconds,
        arrived: arrived / seconds,
        loop_us: busy / 1e3 / forwarded.max(1) as f64,
        processor_us: (after.3 - before.3 - polling) / 1e3 / arrived.max(1.0),
    })
}

/// A link that is never full, and the class of the flow beside classes without traffic. `cbq-altq`
/// counts a byte as at least 1 ns, so the link has no more than that.
fn policy(scheduler: &str, classes: usize) -> String {
    let mut text = format!("[link]\nrate = \"{LINK_MBIT} Mbit/s\"\nscheduler = \"{scheduler}\"\n");
    let queue = "queue = { limit = \"1000 packets\" }\n";
    if scheduler == SCHEDULERS[0] {
        return text + "[class.rest]\ndefault = true\n" + queue;
    }
    let class = |name: &str, mbit: u64, rest: &str| {
        format!("[class.{name}]\nparent = \"root\"\nrate = \"{mbit} Mbit/s\"\n{rest}\n{queue}")
    };
    let rule = |number: usize| {
        let port = usize::from(rig::FIRST_PORT) + number;
        format!("match = [{{ proto = \"udp\", dport = {port} }}]")
    };
    text += &format!("[class.root]\nrate = \"{LINK_MBIT} Mbit/s\"\n");
    text += &class("c0", FLOW_MBIT, &rule(0));
    for number in 1..classes {
        // A text can always grow.
        write!(text, "{}", class(&format!("c{number}"), OTHER_MBIT, &rule(number)))
            .unwrap_or_default();
    }
    text + &class("rest", OTHER_MBIT, "default = true")
}

/// The kernel's set-up that does the same.
fn tc_lines(forwarder: Forwarder) -> Vec<String> {
    let Forwarder::Kernel(discipline) = forwarder else { return Vec::new() };
    if discipline == SCHEDULERS[0] {
        return vec![format!("qdisc add dev {RIGHT} root pfifo limit 1000")];
    }
    let terms = |mbit: u64| format!("rate {mbit}mbit quantum 1514");
    let htb = Htb::new(3).class(0, 1, &terms(LINK_MBIT)).class(1, 2, &terms(FLOW_MBIT));
    let htb = htb.class(1, 3, &terms(OTHER_MBIT)).queue(2, 1000).queue(3, 1000);
    htb.flow(rig::FIRST_PORT, 2).lines()
}

/// With FIFO first, with which the others are compared.
const SCHEDULERS: [&str; 4] = ["fifo", "cbq", "cbq-altq", "htb"];
const FORWARDERS: [Forwarder; 6] = [
    Forwarder::Weir("fifo"),
    Forwarder::Weir("cbq"),
    Forwarder::Weir("cbq-altq"),
    Forwarder::Weir("htb"),
    Forwarder::Kernel("fifo"),
    Forwarder::Kernel("htb"),
];
const SIZE: u32 = 60;
const ETHERNET: u32 = 14;
/// The load at which nothing is lost, in parts of the most that is forwarded.
const HALF: f64 = 0.5;
const LINK_MBIT: u64 = 8000;
const FLOW_MBIT: u64 = 4000;
const OTHER_MBIT: u64 = 10;
const WARMUP: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_has_a_class_of_its_own_in_every_policy() {
        for scheduler in SCHEDULERS {
            for classes in [1, 100] {
                let text = policy(scheduler, classes);
                let policy = rig::policy(&text).unwrap_or_else(|error| panic!("{error}"));
                let leaves = if scheduler == "fifo" { 1 } else { classes + 1 };
                assert_eq!(policy.link.tree.leaf_count(), leaves, "{scheduler}");
            }
        }
    }

    #[test]
    fn a_sample_is_the_median_of_each_value() {
        let sample = |offered, arrived| Sample { offered, arrived, ..Sample::default() };
        let rounds = [sample(3.0, 1.0), sample(1.0, 2.0), sample(2.0, 9.0)];
        let middle = Sample::middle(&rounds);
        assert_eq!((middle.offered, middle.arrived), (2.0, 2.0));
    }
}
