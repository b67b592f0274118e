//! The rate of forwarding 60-byte IP packets through private networks: the bridge of `weir up`, and
//! beside it in the same run the kernel's bridge, alone and with HTB.
//!
//! A generator on the first processor sends UDP frames as fast as it can, to a random port of those
//! that the classes match; the bridge of `weir up` has the second processor. What the kernel
//! forwards, it forwards on the generator's processor, unless receive packet steering (RPS) moves
//! it to the second. Frames are counted at the receiver's interface.
//!
//! The sender is often slower than the bridge of `weir up`, whose loop then polls in vain for part
//! of the time. So the rate that is compared with `fifo` is that of the time in which the loop
//! worked, as its status says (`busy_ns`): what it would forward if frames never ceased, or more,
//! since few frames at a time cost more each.
//!
//! The processor time a frame is what all processors together did in that time by `/proc/stat`
//! (user, system, interrupts), over the frames that arrived: generator, forwarder and the kernel of
//! the receiver, without the polling in vain. It is the fair figure, since a second processor also
//! costs. Other work on the machine counts too, so [`Report::other_work`] says how much there was.
//!
//! A bridge with workers has more threads than a small machine has processors beside the sender.
//! So each thread's own time for a frame is measured as well: where each has a processor, the
//! slowest bounds the rate, and [`Row::most_kpps`] is that bound.

use super::figure::Figure;
use super::{median, yardstick};
use crate::rig::{self, Htb};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_core::parameter::Scope;
use weir_core::queue::DROPPERS;
use weir_core::random::Random;
use weir_host::error::SystemError;
use weir_host::wait::monotonic_ns;
use weir_link::bridge::{BridgeConfig, BridgePort};
use weir_link::pool::{FrameId, FramePool};
use weir_link::port::{self, BATCH, KINDS, PortConfig};
use weir_link::status::Status;
use weir_policy::Policy;
use weir_policy::deployment::PORT_KINDS;
use weir_testbed::{END, LEFT, RIGHT, Testbed};

/// The schedulers that are measured beside `fifo` unless others are named.
pub const SCHEDULERS: [&str; 4] = ["htb", "cbq", "hfsc", "drr"];
/// The numbers of classes of each.
pub const CLASSES: [usize; 2] = [100, 10_000];
/// The queues of a leaf that are measured beside the plain one.
pub const QUEUES: [&str; 4] = ["dualpi2", "fq-codel", "isolate", "cake"];
/// Each class has a port of its own, and there are no more.
pub const CLASSES_MAX: usize = 50_000;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keywords of schedulers beside `fifo`.
    pub schedulers: Vec<String>,
    /// Numbers of classes of each.
    pub classes: Vec<usize>,
    /// Keywords of droppers: with any of them, only these queues are measured, each in the one
    /// class of `fifo`, with packets of [`FLOWS`] flows.
    pub queues: Vec<String>,
    /// Threads that receive and send, with which the forwarders are measured once more; none below
    /// 2.
    pub workers: usize,
    /// Of all measurements together; what comes on top of it, [`about`] knows.
    pub seconds: f64,
    /// Rounds, of which the median is taken.
    pub rounds: usize,
}

/// The results of all measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors of this machine.
    pub processors: usize,
    /// How many processors other work kept busy just before: only a quiet machine gives ratios that
    /// repeat.
    pub other_work: f64,
    /// A row for each forwarder.
    pub rows: Vec<Row>,
}

/// The results of one forwarder.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// A description of the forwarder.
    pub forwarder: String,
    /// The kind of its ports; `None` for the kernel's bridge.
    pub port: Option<String>,
    /// Its scheduler; `None` for the kernel's bridge without one.
    pub scheduler: Option<String>,
    /// The number of its classes.
    pub classes: usize,
    /// The dropper of its class, where queues are measured.
    pub queue: Option<String>,
    /// Frames forwarded per second, in thousands.
    pub kpps: f64,
    /// Frames offered per second, in thousands.
    pub offered_kpps: f64,
    /// The ratio of the rate at which it would forward all the time to that of `fifo` on the same
    /// kind of port in the same round: a sender that is slower than both hides no difference. For
    /// the kernel's bridge, of the rates as they were, to the first kind.
    pub ratio: f64,
    /// Processor time for a frame that arrived, in µs, all processors together, without what a loop
    /// polls in vain.
    pub processor_micros: f64,
    /// The time that the loop worked for a frame, in µs; 0 for the kernel's bridge.
    pub busy_micros: f64,
    /// The processor time for a frame of the worker that needs most, in µs; 0 without workers.
    /// Where there are processors enough they poll, and that counts, too.
    pub worker_micros: f64,
    /// Frames per second, in thousands, at which the slowest thread of Weir is full; 0 for the
    /// kernel's bridge.
    pub most_kpps: f64,
    /// The goal of the ratio, if there is one.
    pub goal: Option<f64>,
    /// Why it was not measured.
    pub not_measured: Option<String>,
}

/// The bridge that forwards.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Forwarder {
    /// The bridge of `weir up`.
    Weir { port: &'static str, scheduler: String, classes: usize, workers: usize },
    /// The bridge of `weir up` with one class, whose queue has this dropper.
    Queue { port: &'static str, dropper: String },
    /// The kernel's, with HTB if there are classes.
    Kernel { classes: usize, steered: bool },
}

/// The results of one round.
#[derive(Clone, Copy, Default)]
struct Sample {
    kpps: f64,
    offered_kpps: f64,
    processor_micros: f64,
    busy_micros: f64,
    worker_micros: f64,
}

/// Measures every forwarder; `progress` receives the measurement that begins, the number done and
/// the number of all. Must be called before the process has a second thread.
///
/// # Errors
/// When private networks cannot be made (the text says what is missing), or a bridge fails.
pub fn measure(
    options: &Options,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<Report, String> {
    let _first = rig::prepare()?;
    let forwarders = forwarders(options);
    let all = forwarders.len() * options.rounds.max(1);
    let duration = Duration::from_secs_f64((options.seconds / all as f64).max(SECONDS_MIN));
    let processors = thread::available_parallelism().map_or(1, Into::into);
    let other_work = other_work().map_err(|error| error.to_string())?;
    let mut samples = vec![Vec::new(); forwarders.len()];
    let mut done = 0;
    for _ in 0..options.rounds.max(1) {
        for (forwarder, samples) in forwarders.iter().zip(&mut samples) {
            progress(&forwarder.to_string(), done, all);
            samples.push(measure_one(forwarder, duration, processors)?);
            done += 1;
        }
    }
    let row = |(forwarder, rounds): (&Forwarder, &Vec<_>)| {
        let fifo = forwarders.iter().position(|other| other.is_fifo_for(forwarder)).unwrap_or(0);
        let fifo: Vec<_> =
            samples[fifo].iter().map(|one| one.as_ref().copied().unwrap_or_default()).collect();
        row(forwarder, rounds, &fifo)
    };
    let rows = forwarders.iter().zip(&samples).map(row).collect();
    Ok(Report { processors, other_work, rows })
}

/// Returns how many measurements there are, and about how long they take with what is set up for
/// each, on a quiet machine.
pub fn about(options: &Options) -> (usize, Duration) {
    let forwarders = forwarders(options);
    let set_up = |forwarder: &Forwarder| {
        let classes = match forwarder {
            Forwarder::Weir { classes, .. } => *classes,
            Forwarder::Queue { .. } | Forwarder::Kernel { .. } => 0,
        };
        SET_UP + SET_UP_OF_CLASS * classes as u32
    };
    let rounds = options.rounds.max(1);
    let all = forwarders.len() * rounds;
    let measured = Duration::from_secs_f64(options.seconds.max(SECONDS_MIN * all as f64));
    (all, measured + forwarders.iter().map(set_up).sum::<Duration>() * rounds as u32)
}

/// Returns the rows with goals, as figures, and what the goals say of processor time.
pub fn figures(report: &Report) -> Vec<Figure> {
    let figure = |row: &Row| {
        let what = format!("{}: rate to `fifo`", row.forwarder);
        Some(Figure::at_least(what, row.goal?, row.ratio))
    };
    let micros = |port: Option<&str>| {
        let is_it = |row: &&Row| {
            let measured = row.not_measured.is_none() && row.port.as_deref() == port;
            measured && row.scheduler.as_deref() == Some("htb") && row.classes == KERNEL_CLASSES
        };
        report.rows.iter().find(is_it).map(|row| row.processor_micros)
    };
    let costs = [
        ("afxdp: processor time to that of afpacket", Some("afpacket"), GOAL_AFXDP),
        ("afxdp: processor time to that of the kernel's bridge", None, GOAL_KERNEL),
    ];
    let cost = |(what, other, goal): (&str, Option<&str>, f64)| {
        let what = format!("{what}, htb, {KERNEL_CLASSES} classes");
        Some(Figure::at_most(what, goal, micros(Some("afxdp"))? / micros(other)?))
    };
    let costs = costs.into_iter().filter_map(cost);
    report.rows.iter().filter_map(figure).chain(costs).chain(worker_figures(report)).collect()
}

/// Returns what workers are to gain and may cost, beside one thread in the same run.
fn worker_figures(report: &Report) -> Vec<Figure> {
    let is_worked = |row: &&Row| row.not_measured.is_none() && row.worker_micros > 0.0;
    let mut figures = Vec::new();
    for row in report.rows.iter().filter(is_worked).filter(|row| row.classes == GOALS[0].0) {
        let Some(scheduler) = row.scheduler.as_deref() else { continue };
        let what = |what: &str| format!("{}: {what}", row.forwarder);
        if GOAL_LOOP_SCHEDULERS.contains(&scheduler) {
            figures.push(Figure::at_most(what("us of the loop"), GOAL_LOOP, row.busy_micros));
        }
        let is_alone = |other: &&Row| {
            let same = (&other.port, &other.scheduler, other.classes);
            other.worker_micros == 0.0 && same == (&row.port, &row.scheduler, row.classes)
        };
        if scheduler == "htb"
            && let Some(alone) = report.rows.iter().find(is_alone)
        {
            let gain = row.most_kpps / alone.most_kpps;
            figures.push(Figure::at_least(what("most frames, to one thread"), GOAL_GAIN, gain));
            let cost = row.processor_micros / alone.processor_micros;
            let cost_of = what("processor time, to one thread");
            figures.push(Figure::at_most(cost_of, GOAL_WORKERS, cost));
        }
    }
    figures
}

/// Every kind of port begins with `fifo`, with which the others are compared.
fn forwarders(options: &Options) -> Vec<Forwarder> {
    let mut all = Vec::new();
    let kinds = || PORT_KINDS.iter().filter(|port| **port != "auto");
    if !options.queues.is_empty() {
        for port in kinds() {
            let queues =
                [DROPPERS[0].keyword].into_iter().chain(options.queues.iter().map(|q| &**q));
            all.extend(
                queues.map(|dropper| Forwarder::Queue { port, dropper: dropper.to_owned() }),
            );
        }
        return all;
    }
    for port in kinds() {
        for workers in [1, options.workers].into_iter().take(1 + usize::from(options.workers > 1)) {
            let mut add = |scheduler: &str, classes| {
                let scheduler = scheduler.to_owned();
                all.push(Forwarder::Weir { port, scheduler, classes, workers });
            };
            add(yardstick(), 1);
            for &classes in &options.classes {
                options.schedulers.iter().for_each(|scheduler| add(scheduler, classes));
            }
        }
    }
    for steered in [false, true] {
        all.extend([0, KERNEL_CLASSES].map(|classes| Forwarder::Kernel { classes, steered }));
    }
    all
}

impl Sample {
    /// Adds what the loop says of its time.
    fn of_loop(self, status: &Status) -> Self {
        let frames: u64 = status.ports.iter().map(|port| port.sent).sum();
        let micros = |ns: u64| ns as f64 / 1e3 / frames.max(1) as f64;
        Self {
            processor_micros: self.processor_micros - micros(status.polling_ns),
            busy_micros: micros(status.busy_ns),
            ..self
        }
    }

    /// The rate, in thousands of frames a second, at which the slowest thread is full.
    fn most_kpps(&self) -> f64 {
        match self.busy_micros.max(self.worker_micros) {
            0.0 => 0.0,
            slowest => 1e3 / slowest,
        }
    }

    /// Its rate to another's: while they worked if both are loops, else as it was.
    fn ratio_to(&self, other: &Self) -> f64 {
        match self.busy_micros {
            0.0 => self.kpps / other.kpps.max(1e-9),
            busy => other.busy_micros / busy,
        }
    }
}

/// A forwarder's medians over the rounds, and its ratio to `fifo` in each.
fn row(forwarder: &Forwarder, rounds: &[Result<Sample, String>], fifo: &[Sample]) -> Row {
    let samples: Vec<&Sample> = rounds.iter().filter_map(|round| round.as_ref().ok()).collect();
    let not_measured = rounds.iter().find_map(|round| round.as_ref().err().cloned());
    let middle = |of: &dyn Fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(|sample| of(sample)).collect();
        if values.is_empty() { 0.0 } else { median(&mut values) }
    };
    let ratio = |(round, fifo): (&Result<Sample, String>, &Sample)| {
        round.as_ref().ok().map(|sample| sample.ratio_to(fifo))
    };
    let mut ratios: Vec<f64> = rounds.iter().zip(fifo).filter_map(ratio).collect();
    let ratio = if ratios.is_empty() { 0.0 } else { median(&mut ratios) };
    let (port, scheduler, classes) = match forwarder {
        Forwarder::Weir { port, scheduler, classes, .. } => {
            (Some((*port).to_owned()), Some(scheduler.clone()), *classes)
        }
        Forwarder::Queue { port, .. } => {
            (Some((*port).to_owned()), Some(yardstick().to_owned()), 1)
        }
        Forwarder::Kernel { classes: 0, .. } => (None, None, 0),
        Forwarder::Kernel { classes, .. } => (None, Some("htb".to_owned()), *classes),
    };
    let queue = match forwarder {
        Forwarder::Queue { dropper, .. } => Some(dropper.clone()),
        _ => None,
    };
    Row {
        forwarder: forwarder.to_string(),
        port,
        scheduler,
        classes,
        queue,
        kpps: middle(&|sample| sample.kpps),
        offered_kpps: middle(&|sample| sample.offered_kpps),
        ratio,
        processor_micros: middle(&|sample| sample.processor_micros),
        busy_micros: middle(&|sample| sample.busy_micros),
        worker_micros: middle(&|sample| sample.worker_micros),
        most_kpps: middle(&Sample::most_kpps),
        goal: forwarder.goal(),
        not_measured,
    }
}

impl Forwarder {
    /// Whether the other one is compared with this: `fifo` with the plain queue on its kind of
    /// port, or on the first.
    fn is_fifo_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Queue { port, dropper }, Self::Queue { port: of_other, .. }) => {
                dropper == DROPPERS[0].keyword && of_other == port
            }
            (
                Self::Weir { port, classes: 1, workers: 1, .. },
                Self::Weir { port: of_other, .. },
            ) => of_other == port,
            (Self::Weir { classes: 1, workers: 1, .. }, Self::Kernel { .. }) => true,
            _ => false,
        }
    }

    /// Returns the least rate that is its goal, to that of `fifo`.
    fn goal(&self) -> Option<f64> {
        match self {
            Self::Weir { scheduler, classes, workers: 1, .. } => {
                let (_, goal) = GOALS.into_iter().find(|(of, _)| of == classes)?;
                GOAL_SCHEDULERS.contains(&scheduler.as_str()).then_some(goal)
            }
            Self::Queue { dropper, .. } => {
                GOAL_QUEUES.contains(&dropper.as_str()).then_some(GOAL_QUEUE)
            }
            _ => None,
        }
    }

    /// Ports to which frames go; as many as classes match.
    fn ports(&self) -> usize {
        match self {
            Self::Weir { classes, .. } => *classes,
            Self::Queue { .. } => FLOWS,
            Self::Kernel { .. } => KERNEL_CLASSES,
        }
    }

    /// Returns its policy; `None` for the kernel's bridge.
    fn policy(&self) -> Option<Result<Policy, String>> {
        match self {
            Self::Weir { scheduler, classes, .. } => {
                Some(policy(scheduler, *classes, DROPPERS[0].keyword))
            }
            Self::Queue { dropper, .. } => Some(policy(yardstick(), 1, dropper)),
            Self::Kernel { .. } => None,
        }
    }
}

impl std::fmt::Display for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Weir { port, scheduler, classes, workers } => {
                write!(f, "{port}, {scheduler}")?;
                if *classes > 1 {
                    write!(f, ", {classes} classes")?;
                }
                if *workers > 1 { write!(f, ", {workers} workers") } else { Ok(()) }
            }
            Self::Queue { port, dropper } => write!(f, "{port}, {}, queue {dropper}", yardstick()),
            Self::Kernel { classes, steered } => {
                f.write_str("the kernel's bridge")?;
                if *classes > 0 {
                    write!(f, ", HTB, {classes} classes")?;
                }
                f.write_str(if *steered { ", by RPS" } else { "" })
            }
        }
    }
}

/// One measurement. What the kernel refuses is in the inner result: it may lack a module.
fn measure_one(
    forwarder: &Forwarder,
    duration: Duration,
    processors: usize,
) -> Result<Result<Sample, String>, String> {
    let text = |error: SystemError| error.to_string();
    let ports = forwarder.ports();
    match forwarder {
        Forwarder::Weir { port, .. } | Forwarder::Queue { port, .. } => {
            let policy = forwarder.policy().expect("the bridge of `weir up` has a policy")?;
            let config = bridge_config(port, &policy).map_err(text)?;
            let workers =
                if let Forwarder::Weir { workers, .. } = forwarder { *workers } else { 1 };
            let config = Box::new(BridgeConfig { workers, ..config });
            let drive = |testbed: &Testbed, _: Option<&_>| drive(testbed, ports, duration);
            let sample = rig::between(rig::Forwarder::Weir(config), drive);
            match sample.map(|(sample, status)| sample.of_loop(&status)).map_err(text) {
                // This kind of port may need more than the machine or the user has.
                Err(why) if *port != KINDS[0].keyword => Ok(Err(why)),
                sample => sample.map(Ok),
            }
        }
        Forwarder::Kernel { steered: true, .. } if processors < 2 => {
            Ok(Err("there is no second processor".to_owned()))
        }
        Forwarder::Kernel { classes, steered } => {
            let testbed = rig::quiet_testbed().map_err(text)?;
            let ready = || kernel_bridge(*classes, *steered);
            if let Err(error) = testbed.weir.run(ready).and_then(|made| made) {
                return Ok(Err(error.to_string()));
            }
            drive(&testbed, ports, duration).map(Ok).map_err(text)
        }
    }
}

fn bridge_config(kind: &str, policy: &Policy) -> Result<BridgeConfig, SystemError> {
    let port = |(number, interface)| {
        let kind = kind.to_owned();
        BridgePort::new(number, PortConfig { kind, ..PortConfig::new(interface) })
    };
    let lanes = [rig::policy_lane(0, policy)?, rig::policy_lane(1, policy)?];
    let ports = (0..).zip([LEFT, RIGHT]).map(port).collect();
    Ok(BridgeConfig { ports, ..rig::bridge_config(lanes, rig::cpus().0) })
}

/// Classes that match a port each and together fill a link that is never full; below a class for
/// all of them where the scheduler is hierarchical. Each has this dropper.
fn policy(scheduler: &str, classes: usize, dropper: &str) -> Result<Policy, String> {
    let entry = weir_core::sched::find(scheduler)
        .ok_or_else(|| format!("no scheduler is called `{scheduler}`"))?;
    let parameters = entry.descriptor.parameters;
    let has = |name| parameters.iter().any(|row| row.name == name && row.scope == Scope::Class);
    let mut text = format!("[link]\nrate = '{LINK_MBIT} Mbit/s'\nscheduler = '{scheduler}'\n");
    let mut common = format!("queue = {{ dropper = '{dropper}', limit = '1000 packets' }}\n");
    let rate = |mbit: usize| match (has("rate"), has("share")) {
        (true, _) => format!("rate = '{mbit} Mbit/s'\n"),
        (_, true) => format!("share = '{:.4} %'\n", mbit as f64 * 100.0 / LINK_MBIT as f64),
        _ => String::new(),
    };
    if entry.descriptor.promises.hierarchical {
        text += &format!("[class.all]\n{}", rate(LINK_MBIT));
        common += "parent = 'all'\n";
    }
    if has("ceil") {
        common += &format!("ceil = '{LINK_MBIT} Mbit/s'\n");
    }
    common += &rate((LINK_MBIT * 95 / 100 / (classes + 1)).max(1));
    if classes > 1 {
        for class in 0..classes {
            let port = usize::from(rig::FIRST_PORT) + class;
            let rule = format!("match = [{{ proto = 'udp', dport = {port} }}]\n");
            // A text can always grow.
            write!(text, "[class.c{class}]\n{common}{rule}").unwrap_or_default();
        }
    }
    text += &format!("[class.rest]\n{common}default = true\n");
    rig::policy(&text).map_err(|error| error.to_string())
}

/// The kernel's bridge with HTB towards the receiver if there are classes; for a thread of its
/// network.
fn kernel_bridge(classes: usize, steered: bool) -> Result<(), SystemError> {
    rig::kernel_bridge(&[])?;
    let [a, b, c, d, e, f] = rig::NO_STATION;
    let station = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    rig::command("bridge", &format!("fdb add {station} dev {RIGHT} master static"))?;
    if classes > 0 {
        let failed = |cause| SystemError::new("write the classes of HTB", cause);
        let file = tempfile::NamedTempFile::new().map_err(failed)?;
        std::fs::write(file.path(), htb(classes)).map_err(failed)?;
        rig::command("tc", &format!("-batch {}", file.path().display()))?;
    }
    if steered { steer() } else { Ok(()) }
}

/// The lines of `tc` for HTB with a class for each port, which u32 classifies.
fn htb(classes: usize) -> String {
    let rate = (LINK_MBIT * 95 / 100 / (classes + 1)).max(1);
    let terms = format!("rate {LINK_MBIT}mbit burst 1mb cburst 1mb");
    let each = format!("rate {rate}mbit ceil {LINK_MBIT}mbit quantum 1514 burst 100k cburst 1mb");
    let mut htb = Htb::new(0xfff).class(0, 0xffe, &terms);
    for (port, id) in (rig::FIRST_PORT..).zip(1..=classes as u32) {
        htb = htb.class(0xffe, id, &each).flow(port, id);
    }
    htb.class(0xffe, 0xfff, &each).lines().join("\n") + "\n"
}

/// Moves what the ports receive to the second processor. The switch lies in a file system that
/// shows the network in which it was mounted, so it is mounted for one shell alone.
fn steer() -> Result<(), SystemError> {
    let action = "move forwarding to the second processor (RPS)";
    let mut script = "mount -t sysfs none /sys".to_owned();
    for port in [LEFT, RIGHT] {
        script += &format!(" && echo 2 > /sys/class/net/{port}/queues/rx-0/rps_cpus");
    }
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let output = output.map_err(|cause| SystemError::new(action, cause))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(SystemError::refused(action, why, "run it as root"))
}

/// Floods the testbed and watches what arrives.
fn drive(testbed: &Testbed, ports: usize, duration: Duration) -> Result<Sample, SystemError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| testbed.client.run(|| flood(ports, &stop))?);
        let sample = testbed.server.run(|| watch(duration)).and_then(|sample| sample);
        stop.store(true, Ordering::Relaxed);
        let offered_kpps = sender.join().expect("the generator does not panic")?;
        Ok(Sample { offered_kpps, ..sample? })
    })
}

/// Frames and processor time over `duration`, after a warm-up.
fn watch(duration: Duration) -> Result<Sample, SystemError> {
    thread::sleep(WARMUP);
    let (from, frames, busy) = (monotonic_ns(), rig::received_frames()?, busy_micros()?);
    let workers = workers_ns();
    thread::sleep(duration);
    let (until, more, busier) = (monotonic_ns(), rig::received_frames()?, busy_micros()?);
    let received = (more - frames) as f64;
    let worked = |(worker, ns): (&String, &u64)| ns - workers.get(worker).unwrap_or(ns);
    let slowest = workers_ns().iter().map(worked).max().unwrap_or(0);
    Ok(Sample {
        kpps: received * 1e6 / (until - from) as f64,
        processor_micros: (busier - busy) / received.max(1.0),
        worker_micros: slowest as f64 / 1e3 / received.max(1.0),
        ..Sample::default()
    })
}

/// Sends frames to random ports until stopped; thousands of frames a second.
fn flood(ports: usize, stop: &AtomicBool) -> Result<f64, SystemError> {
    rig::pin_traffic()?;
    let config = PortConfig { ring_slots: 64, promiscuous: false, ..PortConfig::new(END) };
    let mut port = port::open(config)?;
    let mut pool = FramePool::new(2 * BATCH as u32, 128);
    let template = rig::frame(rig::FIRST_PORT, FRAME_LENGTH);
    let frames: Vec<FrameId> = (0..BATCH).filter_map(|_| pool.insert(&template)).collect();
    let mut random = Random::new(SEED, 0);
    let (start, mut sent) = (monotonic_ns(), 0u64);
    while !stop.load(Ordering::Relaxed) {
        for &frame in frames.iter().filter(|_| ports > 1) {
            let number = rig::FIRST_PORT + random.below(ports as u32) as u16;
            pool.bytes_mut(frame)[DESTINATION_PORT..][..2].copy_from_slice(&number.to_be_bytes());
        }
        let copies: Vec<_> = frames.iter().filter_map(|frame| pool.copy(*frame)).collect();
        let outcome = port.send(&mut pool, &copies);
        copies[outcome.taken..].iter().for_each(|frame| pool.release(*frame));
        sent += u64::from(outcome.sent());
    }
    Ok(sent as f64 * 1e6 / (monotonic_ns() - start) as f64)
}

/// How many processors are busy while this program rests.
fn other_work() -> Result<f64, SystemError> {
    let (from, busy) = (monotonic_ns(), busy_micros()?);
    thread::sleep(REST);
    Ok((busy_micros()? - busy) * 1e3 / (monotonic_ns() - from) as f64)
}

/// Time that all processors together have worked, in µs, from `/proc/stat`.
fn busy_micros() -> Result<f64, SystemError> {
    let failed = |cause| SystemError::new("read /proc/stat", cause);
    let text = std::fs::read_to_string("/proc/stat").map_err(failed)?;
    let ticks =
        busy_ticks(&text).ok_or_else(|| failed(io::Error::other("it has no `cpu` line")))?;
    Ok(ticks as f64 * TICK_MICROS)
}

/// The processor time of each worker of this process, in ns, by its thread (proc(5), `schedstat`).
fn workers_ns() -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let time = |thread: std::fs::DirEntry| {
        let read = |file| std::fs::read_to_string(thread.path().join(file)).ok();
        read("comm").filter(|name| name.starts_with("worker-"))?;
        let ns = read("schedstat")?.split(' ').next()?.parse().ok()?;
        Some((thread.file_name().to_string_lossy().into_owned(), ns))
    };
    threads.filter_map(time).collect()
}

/// User, nice, system, interrupts and soft interrupts of the first line: neither idle nor stolen.
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, _idle, _io, interrupts, soft, ..] = ticks.as_slice() else {
        return None;
    };
    Some(user + nice + system + interrupts + soft)
}

/// Numbers of classes, and the least ratio of the rate with them to that with `fifo`.
const GOALS: [(usize, f64); 2] = [(100, 0.95), (10_000, 0.88)];
/// The greatest ratio of processor times: AF_XDP to AF_PACKET, and to the kernel's bridge.
const GOAL_AFXDP: f64 = 0.8;
const GOAL_KERNEL: f64 = 1.0;
/// The most that the loop may work for a frame beside workers, in µs, with these schedulers.
const GOAL_LOOP: f64 = 0.25;
const GOAL_LOOP_SCHEDULERS: [&str; 3] = ["htb", "cbq", "drr"];
/// With workers to one thread: the least rate at which the slowest thread is full, and the greatest
/// processor time of all together.
const GOAL_GAIN: f64 = 1.3;
const GOAL_WORKERS: f64 = 1.1;
const GOAL_SCHEDULERS: [&str; 3] = ["htb", "cbq", "hfsc"];
/// The least ratio of the rate with one of these queues to that with the plain one.
const GOAL_QUEUES: [&str; 2] = ["dualpi2", "cake"];
const GOAL_QUEUE: f64 = 0.9;
/// Flows of the packets where queues are measured, as without frames.
pub const FLOWS: usize = 64;
/// Classes of the kernel's HTB.
const KERNEL_CLASSES: usize = 100;
/// Mbit/s: more than anything here can fill.
const LINK_MBIT: usize = 40_000;
/// An IP packet of 60 bytes in an Ethernet frame.
const FRAME_LENGTH: usize = 74;
/// Where a frame has the destination port.
const DESTINATION_PORT: usize = 14 + 20 + 2;
const WARMUP: Duration = Duration::from_millis(150);
const REST: Duration = Duration::from_millis(300);
/// The time that networks, bridge and warm-up of a measurement take, and what each class adds.
const SET_UP: Duration = Duration::from_millis(600);
const SET_UP_OF_CLASS: Duration = Duration::from_micros(50);
/// The shortest measurement, since `/proc/stat` counts in hundredths of a second.
const SECONDS_MIN: f64 = 0.05;
const TICK_MICROS: f64 = 10_000.0;
const SEED: u64 = 0x77_6569_7232;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_and_gives_each_port_a_class() {
        for entry in weir_core::sched::SCHEDULERS {
            let keyword = entry.descriptor.keyword;
            let policy =
                policy(keyword, 3, "tail").unwrap_or_else(|error| panic!("{keyword}: {error}"));
            assert_eq!(policy.link.tree.leaf_count(), 4, "{keyword}");
            assert_eq!(policy.rules.len(), 3, "{keyword}");
        }
        for dropper in QUEUES {
            let policy = policy(yardstick(), 1, dropper);
            assert!(
                policy.is_ok_and(|policy| policy.link.queues[0].dropper == dropper),
                "{dropper}"
            );
        }
    }

    #[test]
    fn work_is_all_but_idle_and_stolen() {
        let text = "cpu  1 2 4 100 200 8 16 1000 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(busy_ticks(text), Some(31));
        assert_eq!(busy_ticks("cpu  1 2\n"), None);
        assert_eq!(busy_ticks(""), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let scheduler = "htb".to_owned();
        let forwarder = Forwarder::Weir { port: "afpacket", scheduler, classes: 100, workers: 1 };
        // What the loop works for a frame counts, not what the sender sent.
        let sample = |kpps, busy_micros| Sample { kpps, busy_micros, ..Sample::default() };
        let fifo = [sample(1.0, 0.9), sample(1.0, 1.9), sample(1.0, 0.5)];
        let rounds = [sample(90.0, 1.0), sample(190.0, 2.0), sample(50.0, 0.5)];
        let made = row(&forwarder, &rounds.map(Ok), &fifo);
        assert_eq!((made.kpps, made.ratio, made.goal), (90.0, 0.95, Some(0.95)));
        assert_eq!((made.worker_micros, made.most_kpps), (0.0, 1e3));
        let worked = Sample { worker_micros: 2.5, ..sample(90.0, 0.5) };
        assert_eq!(row(&forwarder, &[Ok(worked)], &fifo[..1]).most_kpps, 400.0);
        let kernel = Forwarder::Kernel { classes: 0, steered: false };
        assert_eq!(row(&kernel, &[Ok(sample(2.0, 0.0))], &fifo).ratio, 2.0);
        let queue =
            |dropper: &str| Forwarder::Queue { port: "afpacket", dropper: dropper.to_owned() };
        let one = [Ok(sample(1.0, 1.0))];
        assert_eq!(row(&queue("cake"), &one, &fifo).goal, Some(GOAL_QUEUE));
        assert!(queue("tail").is_fifo_for(&queue("cake")));
        assert!(!queue("cake").is_fifo_for(&queue("tail")));
        let refused = row(&forwarder, &[Err("no module".to_owned())], &fifo);
        assert_eq!(refused.not_measured.as_deref(), Some("no module"));
    }
}
