//! The status of a running bridge, and how other threads read it.
//!
//! The run loop copies raw counts into a snapshot, a bounded part at each look ([`publisher`]), and
//! puts it on a [`board::Board`]. Other threads make [`Status`] of it, whole or of the classes that
//! a [`query::Query`] asks for, with the sums over all ([`Sums`]). So a reader costs the loop the
//! same however much it reads, and neither ever waits for the other.

pub mod board;
mod counts;
mod facts;
mod history;
mod hosts;
mod leaves;
pub mod publisher;
pub mod query;
mod recent;
pub mod reservations;
mod shape;
mod sums;
mod tenants;
#[cfg(test)]
pub(crate) mod tests;

pub use board::Board;
pub use counts::Rows;
pub(crate) use counts::{
    Head, Kept, Labels, LaneLabels, LeafCounts, PortCounts, RateCounts, port_names,
};
pub use facts::Facts;
pub use history::History;
pub use hosts::{HostStatus, HostsStatus};
pub(crate) use publisher::{Publisher, Source};
pub use recent::{Found, InnerStatus, Loan, PolicyStatus, Rates, Recent, Sums, Windows};
pub use shape::Shape;
pub(crate) use tenants::Tenant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_core::account::Count;

/// The status of a bridge. `C` holds the classes of a direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status<C = Vec<ClassStatus>> {
    /// Time from when the ports were opened until the last count was read.
    pub uptime_ns: u64,
    /// Time from when the ports were opened until the first count was read: with few classes all
    /// counts are of one instant, with many each class has its own between these two.
    #[serde(default)]
    pub begun_ns: u64,
    /// Time since the last count was read. It is large where the run loop does not run.
    #[serde(default)]
    pub age_ns: u64,
    /// Times the loop slept too long and the line started anew.
    pub stalls: u64,
    /// Time that the loop spent on frames; of several bridges, the sum.
    #[serde(default)]
    pub busy_ns: u64,
    /// Time that the loop looked for frames in vain in place of sleeping, as `wait` lets it.
    #[serde(default)]
    pub polling_ns: u64,
    /// Free frames in the pool.
    pub frames_free: u64,
    /// All frames of the pool.
    pub frames_max: u64,
    /// How long the ring reaches back; `None` without one, or where it has nothing as yet.
    #[serde(default)]
    pub kept_ns: Option<u64>,
    /// The processes of the link; `None` for one that is a part of another program.
    #[serde(default)]
    pub processes: Option<Processes>,
    /// The interfaces of the bridge, in the order of its ports.
    pub ports: Vec<PortStatus>,
    /// The directions of the bridge.
    pub lanes: Vec<LaneStatus<C>>,
    /// The faults that last; none for a link that is a part of another program.
    #[serde(default)]
    pub faults: Vec<FaultStatus>,
    /// The processor time that a received frame took on average in the last second, in ns.
    #[serde(default)]
    pub frame_ns: f64,
    /// The windows that [`Recent`] tells of.
    #[serde(default)]
    pub windows: Windows,
}

/// The processes of a link, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// The keeper; `None` if it is gone.
    pub keeper: Option<u32>,
    /// The process that forwards frames.
    pub forwarder: u32,
}

/// A fault that lasts, as the event that began it told it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultStatus {
    /// The keyword of the event; docs/events.md lists them.
    pub event: String,
    /// When it began, by RFC 3339.
    pub since: String,
    /// Its sentence.
    pub text: String,
}

/// The state and the counts of one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortStatus {
    /// The name of the interface.
    pub interface: String,
    /// The keyword of its kind.
    #[serde(default)]
    pub kind: String,
    /// Why `auto` chose no better kind, if so.
    #[serde(default)]
    pub why: String,
    /// `up`, `down` or `gone`.
    pub state: String,
    /// Frames that arrived.
    pub received: u64,
    /// The sum of their lengths.
    pub received_bytes: u64,
    /// Frames that left.
    pub sent: u64,
    /// The sum of their lengths.
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
    /// Frames of `received` for each thread that shares the port; empty where one has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received_by_share: Vec<u64>,
    /// Times the interface came back.
    pub rebinds: u64,
    /// Threads that receive and send for it beside the loop; 0 if the loop does.
    #[serde(default)]
    pub workers: u32,
}

/// One direction of the bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneStatus<C = Vec<ClassStatus>> {
    /// The name of the direction.
    pub name: String,
    /// The interface that it reads.
    pub from: String,
    /// The interface that it writes.
    pub to: String,
    /// Frames whose IP header could not be read, by the name of the cause.
    #[serde(default)]
    pub unread: Vec<(String, u64)>,
    /// Its leaves, or those that were asked for.
    pub classes: C,
    /// The number of leaves that are not among them.
    #[serde(default)]
    pub left_out: u64,
    /// The sums over all its leaves, also those left out.
    #[serde(default)]
    pub sums: Sums,
    /// The sums of leaves that changes of the policy removed, without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Box<ClassStatus>>,
    /// The classes above its leaves, each behind its parent.
    #[serde(default)]
    pub inner: Vec<InnerStatus>,
    /// Identity, scheduler and rate of the policy in force.
    #[serde(default)]
    pub policy: PolicyStatus,
    /// How many leaf classes of the policy take the segments of a super-packet as one packet.
    #[serde(default)]
    pub whole_trains: u64,
    /// How many classes had frames inside.
    #[serde(default)]
    pub found: Found,
    /// The rate that follows the capacity of a line; `None` where the rate is the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autorate: Option<AutorateStatus>,
}

/// A rate that follows the capacity of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AutorateStatus {
    /// The rate now, in bit/s.
    pub rate_bps: u64,
    /// How long frames wait behind the link above the least, in µs; `None` if nothing tells.
    pub delay_us: Option<f64>,
    /// How long they may, in µs.
    pub target_us: f64,
    /// The round trip behind the link, from its modem's port and back, queues included, in µs;
    /// `None` if nothing tells.
    #[serde(default)]
    pub round_trip_us: Option<f64>,
    /// The flows that told.
    pub flows: u32,
    /// Why it was changed last: `steady` at the start, then
    /// `delay`, `loss`, `load`, `idle`, `blind` or `path`.
    pub reason: String,
}

impl AutorateStatus {
    /// Returns delay and reason, as people read them.
    pub fn text(&self) -> String {
        let target = self.target_us / 1e3;
        match self.delay_us {
            Some(delay) => {
                let (delay, reason) = (delay / 1e3, &self.reason);
                let trip = self.round_trip_us.map(|trip| trip / 1e3);
                let trip = trip.map_or_else(String::new, |trip| format!(", RTT {trip:.1} ms"));
                let why = format!("{} flows{trip}; changed for: {reason}", self.flows);
                format!("{delay:.0} ms behind of {target:.0} ({why})")
            }
            None => format!("nothing tells the delay behind (changed for: {})", self.reason),
        }
    }
}

/// The counts of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassStatus {
    /// The name of the class.
    pub name: String,
    /// Packets offered to the leaf.
    pub offered: Amount,
    /// Packets that left.
    pub sent: Amount,
    /// Frames sent with another traffic class than they arrived with.
    #[serde(default)]
    pub marked: u64,
    /// Of these, frames that a dropper marked by their ECN field.
    #[serde(default)]
    pub marked_ecn: u64,
    /// Of these, frames that left with another DSCP.
    #[serde(default)]
    pub marked_dscp: u64,
    /// Packets dropped, by reason.
    pub dropped: Vec<(String, Amount)>,
    /// Frames that were lost before the link, and so not offered, by cause.
    #[serde(default)]
    pub lost: Vec<(String, u64)>,
    /// After a stall, frames older than this are dropped as stale, in µs; `None` if none are.
    #[serde(default)]
    pub sojourn_max_us: Option<f64>,
    /// Packets that wait in the leaf.
    pub backlog: Amount,
    /// Delay from the kernel's receive stamp to sending, since the start or the last mark.
    pub delay: Delays,
    /// The place of its parent in [`LaneStatus::inner`]; `None` directly below the link.
    #[serde(default)]
    pub parent: Option<u32>,
    /// The rate that it gets while all classes want more, in bit/s; its rate where that depends on
    /// the traffic, `None` where it has none.
    #[serde(default)]
    pub share_bps: Option<f64>,
    /// The most that it may have by its own limits, in bit/s; `None` without one.
    #[serde(default)]
    pub ceiling_bps: Option<f64>,
    /// Its parameters, by name, as a policy writes their values.
    #[serde(default)]
    pub parameters: Vec<(String, String)>,
    /// The bytes that it sent on the account of others, by lender.
    #[serde(default)]
    pub borrowed: Vec<Loan>,
    /// For how long packets waited and limits, its own or those of classes above it, held them
    /// back, since the start; measured by samples.
    #[serde(default)]
    pub overlimit_ns: u64,
    /// Its rates and delays in the last seconds; `None` in the first second.
    #[serde(default)]
    pub recent: Option<Recent>,
    /// How many packets had which delay, since the start or the last mark, if that was asked for:
    /// of each bin that counted any, the longest delay in ns and the count. From 32 ns on a bin is
    /// 1/32 of a power of two wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins: Option<Vec<(u64, u64)>>,
    /// Its hosts, if that was asked for and hosts take turns in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsStatus>,
}

/// Packets and charged bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// The bytes that the policy charges for them.
    pub bytes: u64,
}

/// Delays of packets, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// The median, in µs.
    pub p50_us: f64,
    /// Nine in ten are shorter.
    pub p90_us: f64,
    /// 99 in 100 are shorter.
    pub p99_us: f64,
    /// The longest, in µs.
    pub max_us: f64,
    /// The mean, in µs.
    pub mean_us: f64,
}

impl<C> Status<C> {
    /// Adds the status of another bridge of the same process.
    pub fn join(mut self, other: Self) -> Self {
        self.uptime_ns = self.uptime_ns.max(other.uptime_ns);
        self.begun_ns = self.begun_ns.min(other.begun_ns);
        self.age_ns = self.age_ns.max(other.age_ns);
        self.stalls += other.stalls;
        self.busy_ns += other.busy_ns;
        self.polling_ns += other.polling_ns;
        self.frames_free += other.frames_free;
        self.frames_max += other.frames_max;
        self.ports.extend(other.ports);
        self.lanes.extend(other.lanes);
        self.faults.extend(other.faults);
        self.frame_ns = self.frame_ns.max(other.frame_ns);
        self.windows = self.windows.with(other.windows);
        self
    }

    /// Returns the same status with other classes in each direction.
    fn map<D>(self, mut each: impl FnMut(C) -> D) -> Status<D> {
        let mut lane = |lane: LaneStatus<C>| LaneStatus {
            name: lane.name,
            from: lane.from,
            to: lane.to,
            unread: lane.unread,
            classes: each(lane.classes),
            left_out: lane.left_out,
            sums: lane.sums,
            removed: lane.removed,
            inner: lane.inner,
            policy: lane.policy,
            whole_trains: lane.whole_trains,
            found: lane.found,
            autorate: lane.autorate,
        };
        Status {
            kept_ns: self.kept_ns,
            processes: self.processes,
            uptime_ns: self.uptime_ns,
            begun_ns: self.begun_ns,
            age_ns: self.age_ns,
            stalls: self.stalls,
            busy_ns: self.busy_ns,
            polling_ns: self.polling_ns,
            frames_free: self.frames_free,
            frames_max: self.frames_max,
            ports: self.ports,
            lanes: self.lanes.into_iter().map(&mut lane).collect(),
            faults: self.faults,
            frame_ns: self.frame_ns,
            windows: self.windows,
        }
    }
}

impl Status<Rows> {
    /// Makes the classes' status of their counts.
    pub fn whole(self) -> Status {
        self.map(|rows| rows.each().collect())
    }
}

impl Status {
    /// Calls `each` with every text of the status.
    pub fn each_text(&mut self, each: &mut dyn FnMut(&mut String)) {
        for port in &mut self.ports {
            let named = [&mut port.lost_in_by_cause, &mut port.lost_out_by_cause, &mut port.kept];
            named.into_iter().flatten().for_each(|(cause, _)| each(cause));
            let texts = [&mut port.interface, &mut port.kind, &mut port.why, &mut port.state];
            texts.into_iter().for_each(&mut *each);
        }
        for fault in &mut self.faults {
            [&mut fault.event, &mut fault.since, &mut fault.text].into_iter().for_each(&mut *each);
        }
        for lane in &mut self.lanes {
            lane.unread.iter_mut().for_each(|(cause, _)| each(cause));
            let policy = &mut lane.policy;
            let texts = [&mut lane.name, &mut lane.from, &mut lane.to];
            texts.into_iter().for_each(&mut *each);
            [&mut policy.identity, &mut policy.scheduler].into_iter().for_each(&mut *each);
            lane.autorate.iter_mut().for_each(|varies| each(&mut varies.reason));
            for inner in &mut lane.inner {
                each(&mut inner.name);
                each_parameter(&mut inner.parameters, each);
            }
            for class in lane.classes.iter_mut().chain(lane.removed.as_deref_mut()) {
                each(&mut class.name);
                each_parameter(&mut class.parameters, each);
                class.dropped.iter_mut().for_each(|(reason, _)| each(reason));
                class.lost.iter_mut().for_each(|(cause, _)| each(cause));
                let hosts = class.hosts.iter_mut().flat_map(|hosts| &mut hosts.rows);
                hosts.for_each(|host| each(&mut host.address));
            }
        }
    }
}

fn each_parameter(parameters: &mut [(String, String)], each: &mut dyn FnMut(&mut String)) {
    for (name, value) in parameters {
        each(name);
        each(value);
    }
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl From<Count> for Amount {
    fn from(count: Count) -> Self {
        Self { packets: count.packets, bytes: count.bytes }
    }
}
