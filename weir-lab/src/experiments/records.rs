//! Records, live: each of 20 records of a link under twice its rate replays to the bit, over all
//! schedulers; and what recording costs the loop.
//!
//! The cost is the time that the loop works for a frame with a record to that without, which is
//! measured in turns within one run of one bridge. A record that the writer cannot follow ends by
//! itself, so a record that is whole has every frame.

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_bench::rig::{self, Flow, Forwarder, Setup};
use weir_core::sched::SCHEDULERS;
use weir_core::units::Rate;
use weir_host::error::SystemError;
use weir_link::recorder::{self, Session};
use weir_link::status::{Board, Status};
use weir_policy::Policy;
use weir_testbed::Testbed;
use weir_trace::record::{End, File, Head, LaneHead, RecordReader, RecordWriter};
use weir_trace::recorded;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "records",
    summary: "records of a link under load: replayed to the bit, and what recording costs the loop",
    measure: None,
    own: Some(Own::live(run)),
};

/// The records of all schedulers together, or more, so that each has one.
const RECORDS: usize = 20;
/// Of the link, in Mbit/s; twice as much is offered.
const LINK_MBIT: u64 = 20;
/// The most processor time more that a frame takes while it is recorded, in percent.
const COST_PERCENT: f64 = 15.0;
/// Measurements with and without a record.
const PAIRS: u32 = 5;
const FRAME: usize = 60;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for number in 0..RECORDS.max(SCHEDULERS.len()) {
        let scheduler = SCHEDULERS[number % SCHEDULERS.len()].descriptor.keyword;
        let subject = format!("record {} of {scheduler}", number + 1);
        rows.measure(&subject, |options| {
            let (text, policy) = policy_of(scheduler)?;
            identical(subject.clone(), &text, &policy, options.duration).map(Some)
        })?;
    }
    rows.measure(COST, |options| cost(options.duration))
}

/// Returns a policy of this scheduler that it takes: with rates, with shares, or with neither.
fn policy_of(scheduler: &str) -> Result<(String, Policy), String> {
    let class = |name: &str, keys: &str| format!("[class.{name}]\n{keys}\n");
    let link = format!("[link]\nrate = '{LINK_MBIT} Mbit/s'\nscheduler = '{scheduler}'\n");
    let first = format!("match = [{{ proto = 'udp', dport = {} }}]\n", rig::FIRST_PORT);
    let of = |one: &str, other: &str| {
        link.clone()
            + &class("first", &format!("{first}{one}"))
            + &class("rest", &format!("default = true\n{other}"))
    };
    let texts = [
        of("rate = '8 Mbit/s'", "rate = '12 Mbit/s'"),
        of("share = '40 %'", "share = '60 %'"),
        of("", ""),
    ];
    let read = |text: String| weir_policy::parse(&text, NAME).plan.map(|policy| (text, policy));
    texts.into_iter().find_map(read).ok_or_else(|| format!("no policy fits {scheduler}"))
}

/// Records a link under load, and makes the record again.
fn identical(
    subject: String,
    text: &str,
    policy: &Policy,
    duration: Duration,
) -> Result<Row, String> {
    let each = Rate::new(LINK_MBIT * 1_000_000).ok_or("the rate is zero")?;
    let flows = [0, 1].map(|flow| Flow { port: rig::FIRST_PORT + flow, rate: each });
    let record = |testbed: &Testbed, board: &Board| {
        let setup = setup(policy, &flows, Duration::from_millis(500), duration);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                // Queues are full by then, so that the state matters with which it begins.
                thread::sleep(setup.warmup);
                write(session(board), &head_of(text), &is_over)
            });
            let measured = rig::measure(&setup, testbed, both_on(rig::cpus().1));
            is_over.store(true, Ordering::Relaxed);
            let written = writing.join().expect("the writer does not panic");
            measured.map(|_| written)
        })
    };
    let (bytes, _) = between(policy, record).map_err(|error| error.to_string())?;
    let reader = RecordReader::new(bytes.as_slice()).map_err(|error| error.to_string())?;
    let report = recorded::replay(reader).map_err(|error| error.to_string())?;
    let ways = &report.directions;
    let departures: u64 = ways.iter().map(|way| way.departures).sum();
    let drops: u64 = ways.iter().map(|way| way.drops).sum();
    let measured = match &report.difference {
        Some(difference) => difference.to_string(),
        None if report.is_identical() && report.is_whole => {
            format!("identical: {departures} departures, {drops} drops")
        }
        None => report.to_string(),
    };
    let wrong = if report.is_identical() && report.is_whole && drops > 0 { 0.0 } else { 1.0 };
    Ok(Row::off(subject, (measured, "identical".to_owned()), wrong, 0.0))
}

/// Begins to record a bridge, and returns once its loop does.
pub(super) fn begin(board: &Board) -> Session {
    let session = session(board);
    while !session.has_begun() {
        thread::sleep(Duration::from_millis(1));
    }
    session
}

fn session(board: &Board) -> Session {
    Session::begin([(&board.recording, 2)])
}

/// Writes a record of a bridge until it is over.
pub(super) fn write(mut session: Session, head: &Head, is_over: &AtomicBool) -> Vec<u8> {
    let writer = RecordWriter::new(Vec::new(), head);
    let mut writer = writer.expect("memory takes all");
    let end = loop {
        let progress = session.pump(&mut writer).expect("memory takes all");
        if let Some(end) = progress.end {
            break end;
        }
        if is_over.load(Ordering::Relaxed) {
            break End::Time;
        }
        if !progress.is_busy {
            thread::sleep(Duration::from_millis(2));
        }
    };
    writer.finish(end).expect("memory takes all")
}

fn head_of(text: &str) -> Head {
    let lane = |name: &str, from: u16| LaneHead {
        name: name.to_owned(),
        from: vec![from],
        to: 1 - from,
        policy: NAME.to_owned(),
        ..LaneHead::default()
    };
    Head {
        epoch_ns: recorder::epoch_ns(),
        lanes: vec![lane("forth", 0), lane("back", 1)],
        files: vec![File { name: NAME.to_owned(), text: text.to_owned() }],
        ..Head::default()
    }
}

/// Runs traffic through a bridge with this policy in both directions.
fn between<T>(
    policy: &Policy,
    traffic: impl FnOnce(&Testbed, &Board) -> Result<T, SystemError>,
) -> Result<(T, Status), SystemError> {
    rig::between(Forwarder::weir(policy, policy)?, |testbed, board| {
        traffic(testbed, board.expect("the bridge has a board"))
    })
}

/// Measures what the loop works for a frame, with and without a record.
fn cost(duration: Duration) -> Result<Vec<Row>, String> {
    let text = "[link]\nrate = '40 Gbit/s'\nscheduler = 'drr'\n\
                [class.first]\nmatch = [{ proto = 'udp', dport = 9000 }]\n\
                [class.rest]\ndefault = true\n";
    let policy = rig::policy(text).map_err(|error| error.to_string())?;
    let rate = Rate::new(FLOOD_PPS / 4 * FRAME as u64 * 8).ok_or("the rate is zero")?;
    let flows = [0, 1, 2, 3].map(|flow| Flow { port: rig::FIRST_PORT + flow, rate });
    let part = duration.max(Duration::from_secs(1)) / 2;
    let measure = |testbed: &Testbed, board: &Board| {
        let setup = setup(&policy, &flows, WARMUP, part * 2 * PAIRS + WARMUP);
        thread::scope(|scope| {
            let sending = scope.spawn(|| rig::measure(&setup, testbed, both_on(rig::cpus().1)));
            thread::sleep(WARMUP);
            let pairs: Vec<_> = (0..PAIRS).map(|_| pair(board, text, part)).collect();
            let measured = sending.join().expect("the sender does not panic")?;
            Ok((pairs, measured.offered_per_second))
        })
    };
    let ((pairs, offered), status) =
        between(&policy, measure).map_err(|error| error.to_string())?;
    let mut ratios: Vec<f64> = pairs.iter().map(|pair| (pair.ratio() - 1.0) * 100.0).collect();
    ratios.sort_by(f64::total_cmp);
    let lost: u64 = pairs.iter().map(|pair| pair.on.lost + pair.off.lost).sum();
    let recorded: u64 = pairs.iter().map(|pair| pair.recorded).sum();
    let forwarded: f64 = pairs.iter().map(|pair| pair.on.per_second).sum::<f64>();
    let forwarded = forwarded / f64::from(PAIRS);
    let whole = pairs.iter().filter(|pair| pair.is_whole).count();
    let micros = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / f64::from(PAIRS);
    let text = format!(
        "{offered:.0} frames/s offered, {forwarded:.0} forwarded; {:.3} us a frame without a \
         record, {:.3} us with one; {lost} frames lost by all; {recorded} recorded; at most \
         {:.1} % more",
        micros(|pair| pair.off.micros),
        micros(|pair| pair.on.micros),
        ratios[ratios.len() - 1],
    );
    let (frames, overruns) = (FLOOD_PPS, status.ports.iter().map(|port| port.lost_in).sum::<u64>());
    Ok(vec![
        Row::shown(format!("{COST}: {frames} frames/s wanted"), text),
        Row::at_most(
            format!("{COST}: processor time a frame more, median of {PAIRS} pairs"),
            ratios[ratios.len() / 2],
            COST_PERCENT,
            "%",
        ),
        Row::at_most(format!("{COST}: frames lost on arrival"), overruns as f64, 0.0, "frames"),
        Row::ratio(format!("{COST}: records that are whole"), whole as f64 / f64::from(PAIRS), 1.0),
    ])
}

/// The loop without a record, and with one.
struct Pair {
    off: Worked,
    on: Worked,
    /// Frames of the record.
    recorded: u64,
    is_whole: bool,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.on.micros / self.off.micros.max(1e-9)
    }
}

/// The work of the loop in a time.
struct Worked {
    /// In µs a frame.
    micros: f64,
    per_second: f64,
    lost: u64,
}

fn pair(board: &Board, text: &str, part: Duration) -> Pair {
    let off = worked(board, part);
    let is_over = AtomicBool::new(false);
    let (on, bytes) = thread::scope(|scope| {
        let writing = scope.spawn(|| write(session(board), &head_of(text), &is_over));
        let on = worked(board, part);
        is_over.store(true, Ordering::Relaxed);
        (on, writing.join().expect("the writer does not panic"))
    });
    let report = RecordReader::new(bytes.as_slice()).ok().and_then(|it| recorded::replay(it).ok());
    let report = report.unwrap_or_default();
    let recorded = report.directions.iter().map(|way| way.arrivals).sum();
    Pair { off, on, recorded, is_whole: report.is_whole && report.is_identical() }
}

fn worked(board: &Board, part: Duration) -> Worked {
    let look = || board.ask(PATIENCE).unwrap_or_default();
    let before = look();
    thread::sleep(part);
    let after = look();
    let of = |status: &Status| {
        let sent: u64 = status.ports.iter().map(|port| port.sent).sum();
        let lost: u64 = status.ports.iter().map(|port| port.lost_in + port.lost_out).sum();
        (sent, lost, status.busy_ns)
    };
    let ((sent, lost, busy), (sent_after, lost_after, busy_after)) = (of(&before), of(&after));
    let frames = (sent_after - sent).max(1) as f64;
    Worked {
        micros: (busy_after - busy) as f64 / 1e3 / frames,
        per_second: frames / part.as_secs_f64(),
        lost: lost_after - lost,
    }
}

fn setup<'a>(
    policy: &'a Policy,
    flows: &'a [Flow],
    warmup: Duration,
    duration: Duration,
) -> Setup<'a> {
    Setup {
        policy,
        flows,
        frame_length: if warmup == WARMUP { FRAME } else { FRAME_UNDER_LOAD },
        warmup,
        duration,
    }
}

fn both_on(cpu: Option<usize>) -> (Option<usize>, Option<usize>) {
    (cpu, cpu)
}

const COST: &str = "the cost of a record";
const NAME: &str = "experiment.toml";
const FLOOD_PPS: u64 = 300_000;
const FRAME_UNDER_LOAD: usize = 500;
const WARMUP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
