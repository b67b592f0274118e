//! The status of a running bridge, and how another thread requests it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_core::account::{Account, Count, Histogram};
use weir_core::event::DropReason;
use weir_core::ids::LeafId;
use weir_core::packet::UnreadCounts;

use crate::intake::Intake;
use crate::port::{Port, PortState};

/// The status of a bridge at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Time since the ports were opened.
    pub uptime_ns: u64,
    /// Times the loop slept too long and the line started anew.
    pub stalls: u64,
    /// Free frames in the pool.
    pub frames_free: u64,
    /// All frames of the pool.
    pub frames_max: u64,
    /// The two interfaces.
    pub ports: Vec<PortStatus>,
    /// The two directions of the bridge.
    pub lanes: Vec<LaneStatus>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its name.
    pub interface: String,
    /// The keyword of its kind.
    #[serde(default)]
    pub kind: String,
    /// Why `auto` chose no better kind, if so.
    #[serde(default)]
    pub why: String,
    /// `up`, `down` or `gone`.
    pub state: String,
    /// Frames received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Frames lost on arrival: ring full, pool empty, too long, checksum.
    pub lost_in: u64,
    /// Frames lost on sending: no link, refused, too long.
    pub lost_out: u64,
    /// Frames lost on arrival, by cause.
    #[serde(default)]
    pub lost_in_by_cause: Vec<(String, u64)>,
    /// Frames lost on sending, by cause.
    #[serde(default)]
    pub lost_out_by_cause: Vec<(String, u64)>,
    /// Frames not forwarded although nothing was wrong with them, by cause: their station is on
    /// the same side (`local`), is the host itself, ...
    #[serde(default)]
    pub kept: Vec<(String, u64)>,
    /// Frames lost because a ring was full, for each ring.
    #[serde(default)]
    pub ring_overruns: Vec<u64>,
    /// Times the interface came back.
    pub rebinds: u64,
}

/// One direction of the bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneStatus {
    /// Its name.
    pub name: String,
    /// The interface that it reads.
    pub from: String,
    /// The interface that it writes.
    pub to: String,
    /// Frames whose IP header could not be read, by the name of the cause.
    #[serde(default)]
    pub unread: Vec<(String, u64)>,
    /// Its leaves.
    pub classes: Vec<ClassStatus>,
}

/// One leaf.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Packets offered.
    pub offered: Amount,
    /// Packets sent.
    pub sent: Amount,
    /// Frames sent with another traffic class than they arrived with.
    #[serde(default)]
    pub marked: u64,
    /// Packets dropped, by reason.
    pub dropped: Vec<(String, Amount)>,
    /// Frames that were lost before the link, and so not offered, by cause.
    #[serde(default)]
    pub lost: Vec<(String, u64)>,
    /// After a stall, frames older than this are dropped as stale, in µs; `None` if none are.
    #[serde(default)]
    pub sojourn_max_us: Option<f64>,
    /// Packets that wait.
    pub backlog: Amount,
    /// Delay from the kernel's receive stamp to sending, since the start or the last mark.
    pub delay: Delays,
}

/// Packets and charged bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Charged bytes.
    pub bytes: u64,
}

/// Delays in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// The median.
    pub p50_us: f64,
    /// Nine in ten are shorter.
    pub p90_us: f64,
    /// 99 in 100 are shorter.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

/// The place where the loop posts its status when another thread asks for it.
#[derive(Default)]
pub struct Board {
    asked: AtomicBool,
    marking: AtomicBool,
    posted: Mutex<Posted>,
    changed: Condvar,
    /// Whether the bridge's ports take frames.
    pub intake: Intake,
}

#[derive(Default)]
struct Posted {
    generation: u64,
    status: Status,
}

impl Board {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Posts a status if a thread asked for it; called by the loop. The argument of `status` says
    /// whether the measurement of delays restarts after it.
    pub fn answer(&self, status: impl FnOnce(bool) -> Status) {
        if !self.asked.swap(false, Ordering::Acquire) {
            return;
        }
        let status = status(self.marking.swap(false, Ordering::Relaxed));
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        posted.generation += 1;
        posted.status = status;
        self.changed.notify_all();
    }

    /// As [`Board::ask`], and the measurement of delays restarts after it. Counters continue, so
    /// that they still balance; take differences.
    pub fn mark(&self, patience: Duration) -> Option<Status> {
        self.marking.store(true, Ordering::Relaxed);
        self.ask(patience)
    }

    /// Requests the status of several loops, and joins them; `None` if one gives none within
    /// `patience`.
    pub fn ask_all(boards: &[std::sync::Arc<Self>], patience: Duration) -> Option<Status> {
        let all = boards.iter().map(|board| board.ask(patience));
        all.collect::<Option<Vec<_>>>()?.into_iter().reduce(Status::join)
    }

    /// Requests the status and waits for it; `None` if the loop gives none within `patience`.
    pub fn ask(&self, patience: Duration) -> Option<Status> {
        let posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = posted.generation;
        self.asked.store(true, Ordering::Release);
        let (posted, timeout) = self
            .changed
            .wait_timeout_while(posted, patience, |posted| posted.generation == generation)
            .unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out()).then(|| posted.status.clone())
    }
}

impl Status {
    /// Adds the status of another bridge of the same process.
    pub fn join(mut self, other: Self) -> Self {
        self.uptime_ns = self.uptime_ns.max(other.uptime_ns);
        self.stalls += other.stalls;
        self.frames_free += other.frames_free;
        self.frames_max += other.frames_max;
        self.ports.extend(other.ports);
        self.lanes.extend(other.lanes);
        self
    }
}

impl PortStatus {
    /// Returns the status of a port.
    pub fn of(port: &mut dyn Port) -> Self {
        let counters = port.counters();
        let state = match port.state() {
            PortState::Up => "up",
            PortState::Down => "down",
            PortState::Gone => "gone",
        };
        let causes = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
            all.iter().map(|(cause, frames)| ((*cause).to_owned(), *frames)).collect()
        };
        let lost_in = causes(&[
            ("ring overrun", counters.ring_overruns.iter().sum()),
            ("pool", counters.pool_exhausted),
            ("too long", counters.truncated + counters.oversize),
            ("not decodable", counters.unfinished),
        ]);
        let lost_out = causes(&[
            ("refused", counters.send_refused),
            ("too long", counters.send_too_long),
            ("no link", counters.send_no_link),
            ("impairment", counters.impaired),
            ("failed", counters.send_failed),
        ]);
        let sum = |causes: &[(String, u64)]| causes.iter().map(|(_, frames)| frames).sum();
        Self {
            interface: port.interface().to_owned(),
            kind: port.kind().to_owned(),
            why: String::new(),
            state: state.to_owned(),
            received: counters.received,
            received_bytes: counters.received_bytes,
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            lost_in: sum(&lost_in),
            lost_out: sum(&lost_out),
            lost_in_by_cause: lost_in,
            lost_out_by_cause: lost_out,
            kept: Vec::new(),
            ring_overruns: counters.ring_overruns[..port.rings()].to_vec(),
            rebinds: counters.rebinds,
        }
    }
}

impl From<Count> for Amount {
    fn from(count: Count) -> Self {
        Self { packets: count.packets, bytes: count.bytes }
    }
}

impl From<&Histogram> for Delays {
    fn from(histogram: &Histogram) -> Self {
        let micros = |duration: weir_core::units::Duration| duration.as_nanos() as f64 / 1e3;
        Self {
            p50_us: micros(histogram.quantile(500).value),
            p90_us: micros(histogram.quantile(900).value),
            p99_us: micros(histogram.quantile(990).value),
            max_us: micros(histogram.max()),
            mean_us: micros(histogram.mean()),
        }
    }
}

/// Returns the causes for which headers could not be read, each with its number of frames.
pub fn unread_causes(counts: &UnreadCounts) -> Vec<(String, u64)> {
    counts.each().map(|(cause, frames)| (cause.name().to_owned(), frames)).collect()
}

/// Returns the status of the leaves of a lane; without `delays`, as with very many leaves, theirs
/// are zero.
pub fn class_statuses(
    names: &[String],
    account: &Account,
    delays: &[Histogram],
    marked: &[u64],
) -> Vec<ClassStatus> {
    let class = |(index, name): (usize, &String)| {
        let leaf = account.leaf(LeafId(index as u32));
        let reason = |reason: &DropReason| {
            (reason.name().to_owned(), Amount::from(leaf.dropped[*reason as usize]))
        };
        ClassStatus {
            name: name.clone(),
            offered: leaf.offered.into(),
            sent: leaf.sent.into(),
            marked: marked.get(index).copied().unwrap_or(0),
            dropped: DropReason::ALL.iter().map(reason).collect(),
            lost: Vec::new(),
            sojourn_max_us: None,
            backlog: leaf.backlog.into(),
            delay: delays.get(index).map(Delays::from).unwrap_or_default(),
        }
    };
    names.iter().enumerate().map(class).collect()
}
