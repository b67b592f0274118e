//! Compares the simulator with ns-2 `[ns2]` and ns-3 `[ns3]`: delivered packets per second of wall
//! clock; and two cores with one.
//!
//! The set-up: classes of 50, 30 and 20 %, or a thousand equal ones, under a root of 98 % of a
//! 100 Mbit/s link, each with a CBR source on the link's own node that sends 500-byte packets at
//! 130 % of the class's share, every interval up to half longer or shorter. ns-3 has no scheduler
//! that divides a link by rates, so it gets the most similar one (a queue a class under strict
//! priority) and the cheapest one (no queue but the device's). Peer and simulator alternate on one
//! CPU, since the machine's speed drifts; the ratio is taken in each turn, and their median is
//! compared with the claim. CPU time is shown beside it: it excludes the time of other programs,
//! but the claim is about the wall clock.

mod peer;

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use peer::{Peer, Program};
use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as Clock};
use weir_host::wait::{CpuTimeOf, cpu_time, pin_to_cpu};
use weir_sim::{Scenario, read, replicate};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "simulator-speed",
    summary: "delivered packets per wall second beside ns-2's, which must be installed, and ns-3's",
    measure: None,
    own: Some(Own::simulated(run)),
};

/// A scheduler, a peer, and the claimed ratio of speeds.
struct Comparison {
    subject: &'static str,
    scheduler: &'static str,
    classes: usize,
    peer: Program,
    /// The simulated time of the peer; about a second or two of work.
    peer_seconds: f64,
    minimum: f64,
}

/// The time of one run.
#[derive(Clone, Copy, Debug)]
struct Timing {
    delivered: u64,
    /// The simulated time, in seconds.
    seconds: f64,
    wall: Duration,
    cpu: Duration,
}

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for comparison in COMPARISONS {
        rows.measure(comparison.subject, |_| beside(comparison).map(Some))?;
    }
    rows.measure(REPLICATIONS, |_| on_two_cores().map(Some))
}

/// Measures Weir and the peer alternately.
fn beside(comparison: &Comparison) -> Result<Row, String> {
    let Comparison { scheduler, classes, peer, .. } = *comparison;
    let scenario = scenario(scheduler, classes, SECONDS)?;
    let Some(program) = Peer::find(peer)? else {
        let why = format!("not measured: no program for {}; bench/peers builds it", peer.name());
        return Ok(Row::shown(comparison.subject.to_owned(), why));
    };
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let theirs = pinned(|| program.run(comparison.peer_seconds))?;
        let ours = pinned(|| simulate(&scenario, SECONDS))?;
        check_same_work(scheduler, &ours, &theirs)?;
        rounds.push((ours, theirs));
    }
    Ok(compare(comparison.subject, comparison.minimum, &rounds))
}

fn compare(subject: &str, minimum: f64, rounds: &[(Timing, Timing)]) -> Row {
    let over = |of: &dyn Fn(&Timing, &Timing) -> f64| {
        median(rounds.iter().map(|(ours, theirs)| of(ours, theirs)).collect())
    };
    let row = Row::ratio(
        subject.to_owned(),
        over(&|ours, theirs| ours.speed() / theirs.speed()),
        minimum,
    );
    let figures = format!(
        "{:.2} M/s to {:.3} M/s; by CPU time {:.2} x",
        over(&|ours, _| ours.speed()) / 1e6,
        over(&|_, theirs| theirs.speed()) / 1e6,
        over(&|ours, theirs| ours.cpu_speed() / theirs.cpu_speed()),
    );
    Row { measured: format!("{} ({figures})", row.measured), ..row }
}

impl Timing {
    /// Returns packets per second of wall clock.
    fn speed(&self) -> f64 {
        self.delivered as f64 / self.wall.as_secs_f64()
    }

    /// Returns packets per second of CPU time.
    fn cpu_speed(&self) -> f64 {
        self.delivered as f64 / self.cpu.as_secs_f64()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Checks that both deliver the same packets per simulated second, so that neither has an easier
/// task.
fn check_same_work(scheduler: &str, ours: &Timing, theirs: &Timing) -> Result<(), String> {
    let [mine, peer] = [ours, theirs].map(|timing| timing.delivered as f64 / timing.seconds);
    if (mine / peer - 1.0).abs() <= DELIVERED_TOLERANCE {
        return Ok(());
    }
    Err(format!(
        "`{scheduler}` delivered {mine:.0} packets a second and its peer {peer:.0}, more than \
         {:.0} % apart: the two did not simulate the same, so their speeds cannot be compared",
        DELIVERED_TOLERANCE * 100.0
    ))
}

/// Runs replications on one thread and on two, alternately; they must agree to the byte.
fn on_two_cores() -> Result<Row, String> {
    if replicate::cores() < 2 {
        let why = "not measured: this machine has one core".to_owned();
        return Ok(Row::shown(REPLICATIONS.to_owned(), why));
    }
    let (mut ratios, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        let (one, one_says) = replicate_on(1)?;
        let (two, two_says) = replicate_on(2)?;
        if one_says != two_says {
            return Err("replications on two cores differ from those on one".to_owned());
        }
        ratios.push(one / two);
        times[0].push(one);
        times[1].push(two);
    }
    let [one, two] = times.map(median);
    let row = Row::ratio(REPLICATIONS.to_owned(), median(ratios), CORES_RATIO_MIN);
    Ok(Row { measured: format!("{} ({one:.2} s to {two:.2} s)", row.measured), ..row })
}

/// Returns the seconds that the replications take, and their reports.
fn replicate_on(threads: usize) -> Result<(f64, Vec<String>), String> {
    let scenario = scenario("cbq", 3, SECONDS)?;
    let make = move |place: usize| Scenario { seed: place as u64, ..scenario.clone() };
    let begin = Clock::now();
    let stop = AtomicBool::new(false);
    let outcomes = replicate::each(REPLICATION_COUNT, make, threads, &stop, &mut || {});
    let wall = begin.elapsed().as_secs_f64();
    let says = outcomes.into_iter().map(|(_, outcome)| match outcome {
        Ok(report) => Ok(report.to_json()),
        Err(error) => Err(error.to_string()),
    });
    Ok((wall, says.collect::<Result<_, _>>()?))
}

/// Runs `work` on a thread that stays on one CPU, as do the programs that it starts.
fn pinned<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let on_cpu = || {
        pin_to_cpu(CPU).map_err(|error| error.to_string())?;
        work()
    };
    let result = std::thread::scope(|scope| scope.spawn(on_cpu).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn simulate(scenario: &Scenario, seconds: f64) -> Result<Timing, String> {
    let (begin, cpu) = (Clock::now(), cpu_time(CpuTimeOf::Process));
    let report = weir_sim::run(scenario, &mut |_| {}).map_err(|error| error.to_string())?;
    let (wall, cpu) = (begin.elapsed(), cpu_time(CpuTimeOf::Process).saturating_sub(cpu));
    if !report.conservation.holds {
        let scheduler = scenario.link.scheduler;
        return Err(format!("`{scheduler}`: {}", report.conservation));
    }
    let delivered = report.sources.iter().map(|source| source.received.packets).sum();
    Ok(Timing { delivered, seconds, wall, cpu })
}

/// Builds classes of 50, 30 and 20 %, or `classes` equal ones.
fn scenario(scheduler: &str, classes: usize, seconds: f64) -> Result<Scenario, String> {
    let root = match scheduler {
        "cbq" => "[policy.class.root]\nrate = \"98 Mbit/s\"\n",
        "htb" => "[policy.class.root]\nrate = \"98 Mbit/s\"\nceil = \"98 Mbit/s\"\n",
        _ => "",
    };
    let mut text = format!(
        "duration = \"{seconds} s\"\ndelay = \"5 ms\"\n\n\
         [policy.link]\nrate = \"100 Mbit/s\"\nscheduler = \"{scheduler}\"\n\n{root}\n"
    );
    for class in 0..classes {
        // In thousandths of the link.
        let share = if classes == 3 { [500, 300, 200][class] } else { 1000 / classes as u64 };
        let keys = match scheduler {
            "cbq" => format!("parent = \"root\"\nrate = \"{} kbit/s\"\n", share * 98),
            "htb" => format!(
                "parent = \"root\"\nceil = \"98 Mbit/s\"\nrate = \"{} kbit/s\"\n\
                 quantum = \"{} B\"\n",
                share * 98,
                share * 10
            ),
            _ => format!("quantum = \"{} B\"\n", share * 10),
        };
        let (port, rate) = (FIRST_PORT + class, share * 130);
        let default = if class == 0 { "default = true\n" } else { "" };
        text += &format!(
            "[policy.class.class{class}]\n{keys}queue = {{ limit = \"50 packets\" }}\n\
             match = [{{ proto = \"udp\", dport = \"{port}\" }}]\n{default}\n\
             [[source]]\nname = \"source{class}\"\nkind = \"cbr\"\ndport = {port}\n\
             size = \"500 B\"\nrate = \"{rate} kbit/s\"\njitter = \"50 %\"\n\n",
        );
    }
    let no_file = |_: &std::path::Path| Err(ErrorKind::NotFound.into());
    let outcome = read::parse(text.as_bytes(), "simulator-speed.toml", &no_file);
    let findings = format!("the scenario is wrong: {:?}", outcome.findings);
    outcome.plan.ok_or(findings)
}

const fn beside_ns2(subject: &'static str, scheduler: &'static str, minimum: f64) -> Comparison {
    let peer = Program::Ns2(3);
    Comparison { subject, scheduler, classes: 3, peer, peer_seconds: SECONDS, minimum }
}

const fn beside_ns3(subject: &'static str, discipline: &'static str) -> Comparison {
    let peer = Program::Ns3(discipline);
    Comparison { subject, scheduler: "cbq", classes: 3, peer, peer_seconds: 4.0, minimum: 80.0 }
}

const COMPARISONS: &[Comparison] = &[
    beside_ns2("cbq beside ns-2's CBQ", "cbq", 10.0),
    beside_ns2("htb beside ns-2's CBQ", "htb", 5.0),
    beside_ns2("drr beside ns-2's CBQ", "drr", 5.0),
    Comparison {
        subject: "cbq with 1000 classes beside ns-2's CBQ",
        scheduler: "cbq",
        classes: 1000,
        peer: Program::Ns2(1000),
        peer_seconds: 10.0,
        minimum: 15.0,
    },
    beside_ns3("cbq beside ns-3's strict priority", "prio"),
    beside_ns3("cbq beside ns-3 without a queue discipline", "device"),
];
/// The subject of the last row.
const REPLICATIONS: &str = "cbq, replications on two cores beside one";
/// Enough that they take seconds: the start of a thread and other guests of the machine should not
/// decide.
const REPLICATION_COUNT: usize = 32;
/// The claim: the least ratio of the speed of two cores to that of one.
const CORES_RATIO_MIN: f64 = 1.8;
const FIRST_PORT: usize = 5000;
/// A link limited to its root's 98 % delivers 2 % less than one that is not.
const DELIVERED_TOLERANCE: f64 = 0.03;
/// Turns; the median of their ratios counts.
const ROUNDS: usize = 7;
/// Simulated seconds: a million packets.
const SECONDS: f64 = 40.0;
/// The CPU of all runs except the replications.
const CPU: usize = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(millis: u64) -> Timing {
        let wall = Duration::from_millis(millis);
        Timing { delivered: 1000, seconds: 1.0, wall, cpu: wall / 2 }
    }

    #[test]
    fn the_median_of_the_ratios_decides() {
        // Ratios of 5, 4 and 9, and so on: when the machine is slow in a turn, both are slow.
        let rows = [([20, 200, 10], [100, 800, 90], true), ([21, 21, 1], [100, 100, 9], false)];
        for (ours, theirs, holds) in rows {
            let rounds: Vec<_> =
                ours.into_iter().zip(theirs).map(|(a, b)| (timing(a), timing(b))).collect();
            let row = compare("x", 5.0, &rounds);
            assert_eq!(row.holds, holds, "{row:?}");
        }
    }

    #[test]
    fn every_comparison_delivers_as_much_as_the_peer() {
        for Comparison { subject, scheduler, classes, .. } in COMPARISONS {
            let scenario = scenario(scheduler, *classes, 1.0).expect("it is valid");
            let ours = simulate(&scenario, 1.0).expect("it runs");
            let peer = |delivered| Timing { delivered, ..ours };
            check_same_work(scheduler, &ours, &peer(24_875)).expect(subject);
            assert!(check_same_work(scheduler, &ours, &peer(20_000)).is_err());
        }
    }
}
