//! The simulator beside ns-2 `[ns2]`, in one run: delivered packets per second of wall clock.
//!
//! `peers.md` §3: three classes of 50, 30 and 20 % under a root of 98 % of a 100 Mbit/s link, each
//! with a CBR source on the link's own node that sends 500-byte packets at 130 % of the class's
//! share, every interval up to half longer or shorter. ns-2 and each scheduler take turns on one
//! CPU, since the machine's speed drifts; medians are compared. CPU time is shown beside: it leaves
//! out what other programs took away, but the claim is on the wall clock.

use super::{Experiment, Options, Row};
use std::io::{ErrorKind, Write};
use std::process::Command;
use std::time::{Duration, Instant as Clock};
use tempfile::NamedTempFile;
use weir_live::wait::{CpuTimeOf, cpu_time, pin_to_cpu};
use weir_sim::{Scenario, read};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "simulator-speed",
    summary: "delivered packets per wall second beside ns-2's, which must be installed",
    live: false,
    run,
};

/// A scheduler and how its classes are written.
struct Subject {
    scheduler: &'static str,
    root: &'static str,
    /// The keys of a class with this percentage of the link.
    leaf: fn(u64) -> String,
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
struct Timing {
    delivered: u64,
    wall: Duration,
    cpu: Duration,
}

/// ns-2 with its script.
struct Peer {
    script: NamedTempFile,
    /// CPU time to start and read the script, which does not count.
    start: Duration,
}

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let mut scenarios = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| options.wants(subject.scheduler)) {
        scenarios.push(scenario(subject)?);
    }
    if scenarios.is_empty() {
        return Ok(Vec::new());
    }
    let peer = Peer::new()?;
    let mut theirs = Vec::new();
    let mut ours = vec![Vec::new(); scenarios.len()];
    for _ in 0..ROUNDS {
        theirs.push(pinned(|| peer.run(SECONDS))?);
        for (scenario, timings) in scenarios.iter().zip(&mut ours) {
            timings.push(pinned(|| simulate(scenario))?);
        }
    }
    let mut rows = Vec::new();
    for (scenario, timings) in scenarios.iter().zip(&ours) {
        check_same_work(scenario, timings[0].delivered, theirs[0].delivered)?;
        rows.push(compare(scenario.link.scheduler, timings, &theirs));
        progress(&rows[rows.len() - 1]);
    }
    Ok(rows)
}

fn compare(scheduler: &str, ours: &[Timing], theirs: &[Timing]) -> Row {
    let per_second = |timing: &Timing| timing.delivered as f64 / timing.wall.as_secs_f64();
    let per_cpu_second = |timing: &Timing| timing.delivered as f64 / timing.cpu.as_secs_f64();
    let [mine, peer] = [ours, theirs].map(|timings| median(timings, per_second));
    let [mine_cpu, peer_cpu] = [ours, theirs].map(|timings| median(timings, per_cpu_second));
    let figures = format!(
        "{:.2} M/s to {:.2} M/s; by CPU time {:.2} x, {:.2} M/s to {:.2} M/s",
        mine / 1e6,
        peer / 1e6,
        mine_cpu / peer_cpu,
        mine_cpu / 1e6,
        peer_cpu / 1e6,
    );
    let row = Row::ratio(scheduler.to_owned(), mine / peer, RATIO_MIN);
    Row { measured: format!("{} ({figures})", row.measured), ..row }
}

fn median(timings: &[Timing], of: impl Fn(&Timing) -> f64) -> f64 {
    let mut values: Vec<f64> = timings.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Who delivers fewer packets would be compared at a lighter task.
fn check_same_work(scenario: &Scenario, ours: u64, theirs: u64) -> Result<(), String> {
    let apart = (ours as f64 / theirs as f64 - 1.0).abs();
    if apart <= DELIVERED_TOLERANCE {
        return Ok(());
    }
    let scheduler = scenario.link.scheduler;
    Err(format!(
        "`{scheduler}` delivered {ours} packets and ns-2 {theirs}, more than {:.0} % apart: the \
         two did not simulate the same, so their speeds cannot be compared",
        DELIVERED_TOLERANCE * 100.0
    ))
}

/// Works on a thread of its own that stays on one CPU, as do the programs that it starts.
fn pinned<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let on_cpu = || {
        pin_to_cpu(CPU).map_err(|error| error.to_string())?;
        work()
    };
    let result = std::thread::scope(|scope| scope.spawn(on_cpu).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn simulate(scenario: &Scenario) -> Result<Timing, String> {
    let (begin, cpu) = (Clock::now(), cpu_time(CpuTimeOf::Process));
    let report = weir_sim::run(scenario, &mut |_| {}).map_err(|error| error.to_string())?;
    let (wall, cpu) = (begin.elapsed(), cpu_time(CpuTimeOf::Process).saturating_sub(cpu));
    if !report.conservation.holds {
        let scheduler = scenario.link.scheduler;
        return Err(format!("`{scheduler}`: {}", report.conservation));
    }
    let delivered = report.sources.iter().map(|source| source.received.packets).sum();
    Ok(Timing { delivered, wall, cpu })
}

impl Peer {
    fn new() -> Result<Self, String> {
        let refuse = |error: std::io::Error| format!("cannot write ns-2's script: {error}");
        let mut script = NamedTempFile::with_suffix(".tcl").map_err(refuse)?;
        script.write_all(NS2_SCRIPT.as_bytes()).map_err(refuse)?;
        let mut peer = Self { script, start: Duration::ZERO };
        peer.start = pinned(|| peer.run(0.001))?.cpu;
        Ok(peer)
    }

    /// Simulates some seconds; the wall clock is ns-2's own, from the first event to the last.
    fn run(&self, seconds: f64) -> Result<Timing, String> {
        let cpu = cpu_time(CpuTimeOf::Children);
        let mut command = Command::new("ns");
        let output = command.arg(self.script.path()).arg(seconds.to_string()).output();
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "ns-2 is not installed: no program `ns`; `apt-get install ns2` \
                                    installs it on Debian and Ubuntu"
                .to_owned(),
            _ => format!("cannot run `ns`: {error}"),
        })?;
        let used = cpu_time(CpuTimeOf::Children).saturating_sub(cpu);
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(delivered)), Some(Ok(micros))) = (numbers.next(), numbers.next()) else {
            let fault = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`ns` did not answer a count and a time: {text}{fault}"));
        };
        let (wall, cpu) = (Duration::from_micros(micros), used.saturating_sub(self.start));
        Ok(Timing { delivered, wall, cpu })
    }
}

fn scenario(subject: &Subject) -> Result<Scenario, String> {
    let Subject { scheduler, root, leaf } = subject;
    let mut text = format!(
        "duration = \"{SECONDS} s\"\ndelay = \"5 ms\"\n\n\
         [policy.link]\nrate = \"100 Mbit/s\"\nscheduler = \"{scheduler}\"\n\n{root}\n"
    );
    for (index, percent) in PERCENTS.into_iter().enumerate() {
        let (keys, port, default) = (leaf(percent), FIRST_PORT + index, index == 0);
        text += &format!(
            "[policy.class.class{index}]\n{keys}queue = {{ limit = \"50 packets\" }}\n\
             match = [{{ proto = \"udp\", dport = \"{port}\" }}]\n{}\n\
             [[source]]\nname = \"source{index}\"\nkind = \"cbr\"\ndport = {port}\n\
             size = \"500 B\"\nrate = \"{} kbit/s\"\njitter = \"50 %\"\n\n",
            if default { "default = true\n" } else { "" },
            percent * 1300,
        );
    }
    let no_file = |_: &std::path::Path| Err(ErrorKind::NotFound.into());
    let outcome = read::parse(text.as_bytes(), "simulator-speed.toml", &no_file);
    let findings = format!("the scenario is wrong: {:?}", outcome.findings);
    outcome.plan.ok_or(findings)
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        scheduler: "cbq",
        root: "[policy.class.root]\nrate = \"98 Mbit/s\"\n",
        leaf: |percent| format!("parent = \"root\"\nrate = \"{} kbit/s\"\n", percent * 980),
    },
    Subject {
        scheduler: "htb",
        root: "[policy.class.root]\nrate = \"98 Mbit/s\"\nceil = \"98 Mbit/s\"\n",
        leaf: |percent| {
            let keys = "parent = \"root\"\nceil = \"98 Mbit/s\"\n";
            format!(
                "{keys}rate = \"{} kbit/s\"\nquantum = \"{} B\"\n",
                percent * 980,
                percent * 100
            )
        },
    },
    Subject {
        scheduler: "drr",
        root: "",
        leaf: |percent| format!("quantum = \"{} B\"\n", percent * 100),
    },
];
const PERCENTS: [u64; 3] = [50, 30, 20];
const FIRST_PORT: usize = 5000;
/// The claim: at least so many times ns-2's packets per second.
const RATIO_MIN: f64 = 5.0;
/// A link held at its root's 98 % delivers 2 % less than one that is not.
const DELIVERED_TOLERANCE: f64 = 0.03;
/// Turns; of each, the median counts.
const ROUNDS: usize = 7;
/// Simulated: a million packets.
const SECONDS: f64 = 40.0;
/// Where both run.
const CPU: usize = 0;

/// Answers the packets delivered and the microseconds that took. A CBR source with `random_` makes
/// each interval up to half longer or shorter.
const NS2_SCRIPT: &str = r#"
set seconds [lindex $argv 0]
set sim [new Simulator]
set near [$sim node]
set far [$sim node]
$sim simplex-link $near $far 100Mb 5ms CBQ/WRR
$sim simplex-link $far $near 100Mb 5ms DropTail
set line [$sim link $near $far]
set root [new CBQClass]
$root setparams none 0 0.98 auto 8 2 0
$line insert $root

set flow 0
foreach share {0.5 0.3 0.2} {
    incr flow
    set queue [new Queue/DropTail]
    $queue set limit_ 50
    set class [new CBQClass]
    $class install-queue $queue
    $class setparams $root true [expr {0.98 * $share}] auto 1 1 0
    $line insert $class
    $line bind $class $flow

    set sender [new Agent/UDP]
    $sender set packetSize_ 500
    $sender set fid_ $flow
    set sinks($flow) [new Agent/LossMonitor]
    $sim attach-agent $near $sender
    $sim attach-agent $far $sinks($flow)
    $sim connect $sender $sinks($flow)

    set source [new Application/Traffic/CBR]
    $source set packetSize_ 500
    $source set rate_ [expr {130.0 * $share}]Mb
    $source set random_ 1
    $source attach-agent $sender
    $sim at 0.0 "$source start"
}

proc finish {} {
    global begin sinks
    set micros [expr {[clock microseconds] - $begin}]
    set delivered 0
    foreach flow [array names sinks] {
        incr delivered [$sinks($flow) set npkts_]
    }
    puts "$delivered $micros"
    exit 0
}

$sim at $seconds finish
set begin [clock microseconds]
$sim run
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(millis: u64) -> Timing {
        let wall = Duration::from_millis(millis);
        Timing { delivered: 1000, wall, cpu: wall / 2 }
    }

    #[test]
    fn the_ratio_of_the_medians_decides() {
        let peer = [100, 900, 110].map(timing);
        for (ours, holds) in [([22, 20, 1], true), ([23, 23, 1], false), ([5, 22, 90], true)] {
            let row = compare("x", &ours.map(timing), &peer);
            assert_eq!(row.holds, holds, "{row:?}");
        }
    }

    #[test]
    fn every_scheduler_delivers_what_the_peer_does() {
        for subject in &SUBJECTS {
            let mut scenario = scenario(subject).expect("it is sound");
            scenario.duration = weir_core::units::Duration::from_secs(1);
            let timing = simulate(&scenario).expect("it runs");
            check_same_work(&scenario, timing.delivered, 24_875).expect("the same");
            assert!(check_same_work(&scenario, timing.delivered, 20_000).is_err());
        }
    }
}
