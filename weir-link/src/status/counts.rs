//! The counts that the run loop copies for readers: plain numbers, in memory that is allocated
//! beforehand.
//!
//! Names and other things that do not change are in [`Labels`], once. Making texts of both is the
//! readers' work.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use weir_autorate::Reason;
use weir_core::account::{Count, Histogram, LeafAccount};
use weir_core::event::{DropReason, Marked};
use weir_core::ids::LeafId;
use weir_core::packet::UnreadCounts;
use weir_core::queue::HostAccounts;
use weir_core::sched::Borrowed;
use weir_core::units::{Duration, Instant, Rate};

use super::history::{Lent, Recents};
use super::leaves::CountsOfLeaves;
use super::shape::{Inner, Shape};
use super::sums::LaneSums;
use super::{
    Amount, AutorateStatus, ClassStatus, Delays, Found, HostsStatus, LaneStatus, Loan, PortStatus,
    Recent, Status, Sums, Tenant,
};
use crate::lane::{Loss, Losses};
use crate::port::{PortCounters, PortState};
use crate::stations::Route;

/// Names and numbers that change only with the policy of a bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    /// When the ports were opened.
    pub started: Instant,
    pub frames_max: u64,
    pub lanes: Vec<LaneLabels>,
    /// For each port its kind, and why it is of no better one.
    pub ports: Vec<(&'static str, String)>,
}

/// Names and numbers that change only with the policy of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneLabels {
    pub name: String,
    /// The indices of its ports.
    pub from: Vec<usize>,
    pub to: usize,
    /// The names of its leaves.
    pub leaves: Vec<String>,
    pub sojourn_max: Vec<Duration>,
    pub train_max: Vec<u32>,
    /// For each ring of its ports, the leaf that has it.
    pub rings: Vec<Option<LeafId>>,
    /// Its classes, and since when they are in force.
    pub shape: Arc<Shape>,
    pub since: Instant,
    /// Whether delays are measured.
    pub has_delays: bool,
}

impl LaneLabels {
    /// Returns the name of the leaf that has this ring of the lane's ports.
    pub(crate) fn ring_class(&self, ring: usize) -> Option<String> {
        let leaf = self.rings.get(ring).copied().flatten()?;
        self.leaves.get(leaf.index()).cloned()
    }
}

/// The counts of a bridge.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub labels: Arc<Labels>,
    /// When its first count was read.
    pub begun: Instant,
    /// When its last count was read.
    pub ended: Instant,
    /// The newest request that it meets.
    pub ticket: u64,
    pub head: Head,
    /// The leaves of all lanes, in their order.
    pub leaves: CountsOfLeaves,
    /// Their delays; `None` where they are not measured.
    pub delays: Vec<Option<Box<Histogram>>>,
    /// Whether counts of hosts are copied; and those of each leaf, by its number, in order.
    pub has_hosts: bool,
    pub hosts: Vec<(usize, HostAccounts)>,
}

/// Counts that exist once in a bridge, and not for each leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub stalls: u64,
    pub busy_ns: u64,
    pub polling_ns: u64,
    pub frames_free: u64,
    pub ports: Vec<PortCounts>,
    /// One row a lane.
    pub unread: Vec<UnreadCounts>,
    /// For each lane, what was counted of leaves that changes removed.
    pub removed: Vec<LeafCounts>,
    pub found: Vec<Found>,
    /// Rates that follow the capacity of a line.
    pub rates: Vec<Option<RateCounts>>,
}

/// A rate that follows the capacity of a line, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateCounts {
    pub rate: Rate,
    pub delay: Option<Duration>,
    pub round_trip: Option<Duration>,
    pub target: Duration,
    pub flows: u32,
    pub reason: Reason,
}

#[derive(Clone, Debug)]
pub(crate) struct PortCounts {
    pub interface: String,
    pub state: PortState,
    pub counters: PortCounters,
    pub rings: usize,
    /// The threads that receive and send for it; 0 if the loop does.
    pub workers: usize,
    pub kept: Kept,
}

/// Frames of a port that were not forwarded although nothing was wrong with them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub local: u64,
    pub host: u64,
    pub reserved: u64,
    pub no_way: u64,
    /// Copies for further ports, for which the pool had no slot.
    pub copies: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafCounts {
    pub account: LeafAccount,
    pub losses: Losses,
    pub marked: Marked,
    pub borrowed: Borrowed,
    pub overlimit_ns: u64,
    /// The number of the class that has the place; 0 for a leaf that is no place, or if none has.
    pub tenant: u32,
}

/// A histogram of delays, as far as readers are told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delay {
    quantiles: [Duration; 3],
    max: Duration,
    mean: Duration,
}

impl LaneLabels {
    /// Returns an empty histogram for each leaf whose delays are measured, with its memory.
    fn delays(&self) -> impl Iterator<Item = Option<Box<Histogram>>> + '_ {
        let histogram = || self.has_delays.then(|| Box::new(Histogram::with_room()));
        self.leaves.iter().map(move |_| histogram())
    }
}

impl Snapshot {
    /// A snapshot with room for everything, so that nothing is allocated when it is filled.
    pub fn new(labels: &Arc<Labels>) -> Self {
        let leaves = labels.lanes.iter().map(|lane| lane.leaves.len()).sum();
        // Each with room for a name, which a clone would not have.
        let ports = labels.ports.iter().map(|_| PortCounts::default()).collect();
        let unread = vec![UnreadCounts::default(); labels.lanes.len()];
        let removed = vec![LeafCounts::default(); labels.lanes.len()];
        let found = vec![Found::default(); labels.lanes.len()];
        let rates = vec![None; labels.lanes.len()];
        Self {
            labels: Arc::clone(labels),
            begun: Instant::ZERO,
            ended: Instant::ZERO,
            ticket: 0,
            head: Head { ports, unread, removed, found, rates, ..Head::default() },
            leaves: CountsOfLeaves::new(leaves),
            delays: labels.lanes.iter().flat_map(LaneLabels::delays).collect(),
            has_hosts: false,
            hosts: Vec::new(),
        }
    }

    /// Returns the delays of a leaf.
    pub(super) fn delay(&self, number: usize) -> Delay {
        self.delays[number].as_deref().map_or_else(Delay::default, Delay::of)
    }

    /// Returns everything but the classes, at `now`; each direction has those that `rows` returns
    /// for its index and its first leaf.
    pub(super) fn status(
        &self,
        now: Instant,
        recents: Option<&Recents>,
        mut rows: impl FnMut(usize, usize) -> Rows,
    ) -> Status<Rows> {
        let (head, labels) = (&self.head, &self.labels);
        let ports = head.ports.iter().zip(&labels.ports);
        let ports = ports.map(|(port, (kind, _))| (port.interface.as_str(), *kind));
        let names = port_names(&ports.collect::<Vec<_>>());
        let mut first = 0;
        let mut lane = |(index, lane): (usize, &LaneLabels)| {
            let classes = rows(index, first);
            first += lane.leaves.len();
            let from: Vec<_> = lane.from.iter().map(|port| names[*port].as_str()).collect();
            LaneStatus {
                name: lane.name.clone(),
                from: from.join(", "),
                to: names[lane.to].clone(),
                unread: unread_causes(&head.unread[index]),
                removed: removed(&head.removed[index]),
                left_out: classes.left_out(),
                sums: classes.sums,
                inner: classes.inner.rows.clone(),
                policy: lane.shape.policy(now.since(lane.since).as_nanos()),
                whole_trains: lane.train_max.iter().filter(|longest| **longest > 0).count() as u64,
                found: head.found[index],
                autorate: head.rates[index].map(AutorateStatus::from),
                classes,
            }
        };
        let since = |instant: Instant| instant.since(labels.started).as_nanos();
        Status {
            processes: None,
            kept_ns: None,
            uptime_ns: since(self.ended),
            begun_ns: since(self.begun),
            age_ns: now.since(self.ended).as_nanos(),
            stalls: head.stalls,
            busy_ns: head.busy_ns,
            polling_ns: head.polling_ns,
            frames_free: head.frames_free,
            frames_max: labels.frames_max,
            ports: head.ports.iter().zip(&labels.ports).map(port_status).collect(),
            lanes: labels.lanes.iter().enumerate().map(&mut lane).collect(),
            faults: Vec::new(),
            frame_ns: recents.map_or(0.0, |recents| recents.frame_ns),
            windows: recents.map(|recents| recents.windows(now)).unwrap_or_default(),
        }
    }

    /// Returns how many frames full rings lost of each leaf of a lane that has a ring of its own.
    pub fn overruns(&self, lane: usize) -> Vec<(LeafId, u64)> {
        let lane = &self.labels.lanes[lane];
        let of_ring = |ring: usize| {
            let ports = lane.from.iter().map(|port| &self.head.ports[*port]);
            let counts = ports.filter(|port| ring < port.rings);
            counts.map(|port| port.counters.ring_overruns[ring]).sum()
        };
        let rings = lane.rings.iter().enumerate();
        rings.filter_map(|(ring, leaf)| leaf.map(|leaf| (leaf, of_ring(ring)))).collect()
    }
}

/// Some leaves of a lane, with their counts: they become texts one by one, when they are read.
#[derive(Clone, Debug)]
pub struct Rows {
    labels: Arc<Labels>,
    lane: usize,
    overruns: Vec<(LeafId, u64)>,
    inner: Inner,
    /// The sums over all leaves of the lane.
    sums: Sums,
    rows: Vec<Row>,
}

/// A leaf with its counts.
#[derive(Clone, Debug)]
struct Row {
    leaf: LeafId,
    /// The class, if the leaf is a place.
    tenant: Option<Tenant>,
    counts: LeafCounts,
    delay: Delay,
    recent: Option<(Recent, Lent)>,
    /// See [`ClassStatus::bins`].
    bins: Option<Vec<(u64, u64)>>,
    /// See [`ClassStatus::hosts`].
    hosts: Option<HostsStatus>,
}

impl Rows {
    /// The counts of these leaves of a lane whose first leaf is number `first` of all.
    pub(super) fn new(
        snapshot: &Snapshot,
        recents: Option<&Recents>,
        (lane, first): (usize, usize),
        leaves: impl Iterator<Item = LeafId>,
    ) -> Self {
        let shape = &snapshot.labels.lanes[lane].shape;
        let row = |leaf: LeafId| {
            let number = first + leaf.index();
            let tenant = shape.tenants().of_leaf(leaf, snapshot.leaves.of(number).tenant).ok()?;
            Some(Row {
                leaf,
                tenant,
                counts: *snapshot.leaves.of(number),
                delay: snapshot.delay(number),
                recent: recents.and_then(|recents| recents.leaf(number)),
                bins: None,
                hosts: None,
            })
        };
        let rows: Vec<_> = leaves.filter_map(row).collect();
        let sums = LaneSums::of(snapshot, recents, (lane, first));
        Self {
            labels: Arc::clone(&snapshot.labels),
            lane,
            overruns: snapshot.overruns(lane),
            inner: shape.inner(rows.iter().map(|row| row.leaf), &sums.classes),
            sums: sums.link,
            rows,
        }
    }

    /// Adds the delays in bins, of the same snapshot and place.
    pub(super) fn with_bins(mut self, snapshot: &Snapshot, first: usize) -> Self {
        for row in &mut self.rows {
            let counts = snapshot.delays[first + row.leaf.index()].iter();
            let counts = counts.flat_map(|delays| delays.counts());
            row.bins = Some(counts.map(|(end, count)| (end.as_nanos(), count)).collect());
        }
        self
    }

    /// The same leaves with at most so many hosts of each, of the same snapshot and place.
    pub(super) fn with_hosts(mut self, snapshot: &Snapshot, first: usize, most: u32) -> Self {
        for row in &mut self.rows {
            let number = first + row.leaf.index();
            let at = snapshot.hosts.binary_search_by_key(&number, |hosts| hosts.0);
            row.hosts = at.ok().map(|at| HostsStatus::of(&snapshot.hosts[at].1, most));
        }
        self
    }

    /// Returns how many leaves of the lane are not among them.
    pub(crate) fn left_out(&self) -> u64 {
        let lane = &self.labels.lanes[self.lane];
        let classes = lane.leaves.len() - lane.shape.tenants().vacant();
        classes.saturating_sub(self.rows.len()) as u64
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there is no leaf.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes the status of each.
    pub fn each(&self) -> impl Iterator<Item = ClassStatus> {
        let lane = &self.labels.lanes[self.lane];
        self.rows.iter().map(move |row| {
            let mut class = class_status(lane, row);
            self.place(lane, row, &mut class);
            // What a ring lost belongs to the leaf that has it; to none where leaves share it.
            let own = self.overruns.iter().filter(|(owner, _)| *owner == row.leaf);
            class.lost.extend(own.map(|(_, frames)| ("ring overrun".to_owned(), *frames)));
            class
        })
    }

    /// Adds where a class is in the tree, and which classes lent to it.
    fn place(&self, lane: &LaneLabels, row: &Row, class: &mut ClassStatus) {
        let above = lane.shape.above(row.leaf);
        class.parent = above.last().and_then(|parent| self.inner.place(*parent));
        let bytes = row.counts.borrowed.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        let loan = |(depth, bytes): (usize, &u64)| Loan {
            // The link has depth 0.
            lender: depth.checked_sub(1).and_then(|at| self.inner.place(*above.get(at)?)),
            bytes: *bytes,
            recent_bps: row.recent.as_ref().map_or(0.0, |(_, lent)| lent[depth].into()),
        };
        class.borrowed = bytes.map(loan).collect();
        let tenant = row.tenant.as_ref().map(|tenant| &tenant.facts);
        if let Some(facts) = tenant.or_else(|| lane.shape.leaf(row.leaf)) {
            (class.share_bps, class.ceiling_bps) = (facts.share_bps, facts.ceiling_bps);
            class.parameters = facts.parameters.to_vec();
        }
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

fn class_status(lane: &LaneLabels, row: &Row) -> ClassStatus {
    let age = lane.sojourn_max.get(row.leaf.index());
    ClassStatus {
        name: match &row.tenant {
            Some(tenant) => tenant.facts.name.clone(),
            None => lane.leaves[row.leaf.index()].clone(),
        },
        sojourn_max_us: age.map(|age| age.as_nanos() as f64 / 1e3),
        delay: row.delay.into(),
        recent: row.recent.map(|(recent, _)| recent),
        bins: row.bins.clone(),
        hosts: row.hosts.clone(),
        ..counted(&row.counts)
    }
}

/// Returns what was counted of removed leaves, if there was any.
fn removed(counts: &LeafCounts) -> Option<Box<ClassStatus>> {
    let is_any = counts.account.offered.packets > 0 || counts.lost_total() > 0;
    is_any.then(|| Box::new(counted(counts)))
}

/// Returns the status of a class without a name and without delays.
fn counted(counts: &LeafCounts) -> ClassStatus {
    let account = &counts.account;
    let reason = |reason: &DropReason| {
        (reason.name().to_owned(), Amount::from(account.dropped[*reason as usize]))
    };
    let mut class = ClassStatus {
        offered: account.offered.into(),
        sent: account.sent.into(),
        marked: counts.marked.packets,
        marked_ecn: counts.marked.congested,
        marked_dscp: counts.marked.recoded,
        dropped: DropReason::ALL.iter().map(reason).collect(),
        backlog: account.backlog.into(),
        overlimit_ns: counts.overlimit_ns,
        ..ClassStatus::default()
    };
    add_losses(&mut class, &counts.losses);
    class
}

/// Adds what a lane lost of a class: what the link was not offered is `lost`, and what it handed
/// out in vain is dropped and not sent.
fn add_losses(class: &mut ClassStatus, losses: &Losses) {
    for cause in Loss::BEFORE {
        class.lost.push((cause.name().to_owned(), losses[cause as usize].packets));
    }
    for cause in Loss::AFTER {
        let amount = losses[cause as usize];
        class.sent.packets -= amount.packets;
        class.sent.bytes -= amount.bytes;
        match class.dropped.iter_mut().find(|(name, _)| name == cause.name()) {
            Some((_, dropped)) => {
                dropped.packets += amount.packets;
                dropped.bytes += amount.bytes;
            }
            None => class.dropped.push((cause.name().to_owned(), amount.into())),
        }
    }
}

impl LeafCounts {
    /// Counts what waits as handed out by the link and lost because the forwarder ends.
    pub fn flushed(mut self) -> Self {
        let backlog = std::mem::take(&mut self.account.backlog);
        self.account.sent = self.account.sent.plus(backlog);
        let flushed = &mut self.losses[Loss::Flushed as usize];
        *flushed = flushed.plus(backlog);
        self
    }

    /// Returns what was sent and not lost behind the link.
    pub fn sent(&self) -> Count {
        Loss::AFTER.iter().fold(self.account.sent, |sent, cause| {
            let Count { packets, bytes } = self.losses[*cause as usize];
            Count { packets: sent.packets - packets, bytes: sent.bytes - bytes }
        })
    }

    /// Returns the frames that were dropped or lost for any reason.
    pub fn lost_total(&self) -> u64 {
        let losses: u64 = self.losses.iter().map(|count| count.packets).sum();
        self.account.dropped_total().packets + losses
    }
}

impl Delay {
    /// Returns what readers are told of a histogram.
    pub fn of(histogram: &Histogram) -> Self {
        if histogram.count() == 0 {
            return Self::default();
        }
        Self {
            quantiles: [500, 900, 990].map(|per_mille| histogram.quantile(per_mille).value),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }

    /// Returns the duration that 99 in 100 do not exceed.
    pub fn p99(&self) -> Duration {
        self.quantiles[2]
    }
}

impl From<RateCounts> for AutorateStatus {
    fn from(counts: RateCounts) -> Self {
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        Self {
            rate_bps: counts.rate.bits_per_second(),
            delay_us: counts.delay.map(micros),
            round_trip_us: counts.round_trip.map(micros),
            target_us: micros(counts.target),
            flows: counts.flows,
            reason: counts.reason.word().to_owned(),
        }
    }
}

impl From<Delay> for Delays {
    fn from(delay: Delay) -> Self {
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let [p50_us, p90_us, p99_us] = delay.quantiles.map(micros);
        Self { p50_us, p90_us, p99_us, max_us: micros(delay.max), mean_us: micros(delay.mean) }
    }
}

impl Default for PortCounts {
    fn default() -> Self {
        Self {
            interface: String::with_capacity(INTERFACE_BYTES),
            state: PortState::Gone,
            counters: PortCounters::default(),
            rings: 0,
            workers: 0,
            kept: Kept::default(),
        }
    }
}

impl Kept {
    /// Counts a frame that went nowhere.
    pub fn count(&mut self, route: Route) {
        match route {
            Route::Local => self.local += 1,
            Route::Host => self.host += 1,
            Route::Reserved => self.reserved += 1,
            Route::Port(_) | Route::Others => self.no_way += 1,
        }
    }

    fn causes(&self) -> [(&'static str, u64); 5] {
        [
            ("local", self.local),
            ("for the host", self.host),
            ("reserved", self.reserved),
            ("no way", self.no_way),
            ("no copy", self.copies),
        ]
    }
}

/// Returns the names of ports, given interface and kind of each: the interface, and the kind where
/// two have the same.
pub(crate) fn port_names(ports: &[(&str, &str)]) -> Vec<String> {
    let is_shared = |name: &str| ports.iter().filter(|(other, _)| *other == name).count() > 1;
    let name = |(interface, kind): &(&str, &str)| {
        if is_shared(interface) { format!("{interface} ({kind})") } else { (*interface).to_owned() }
    };
    ports.iter().map(name).collect()
}

fn port_status((port, (kind, why)): (&PortCounts, &(&'static str, String))) -> PortStatus {
    let counters = &port.counters;
    let state = match port.state {
        PortState::Up => "up",
        PortState::Down => "down",
        PortState::Gone => "gone",
    };
    let lost_in = [
        ("ring overrun", counters.overruns()),
        ("pool", counters.pool_exhausted),
        ("too long", counters.truncated + counters.oversize),
        ("not decodable", counters.unfinished),
    ];
    let lost_out = [
        ("refused", counters.send_refused),
        ("too long", counters.send_too_long),
        ("no link", counters.send_no_link),
        ("impairment", counters.impaired),
        ("failed", counters.send_failed),
        ("worker", counters.worker_failed),
    ];
    let sum = |causes: &[(&str, u64)]| causes.iter().map(|(_, frames)| frames).sum();
    let named = |causes: &[(&str, u64)]| -> Vec<(String, u64)> {
        causes.iter().map(|(cause, frames)| ((*cause).to_owned(), *frames)).collect()
    };
    PortStatus {
        interface: port.interface.clone(),
        kind: (*kind).to_owned(),
        why: why.clone(),
        state: state.to_owned(),
        received: counters.received,
        received_bytes: counters.received_bytes,
        sent: counters.sent,
        sent_bytes: counters.sent_bytes,
        lost_in: sum(&lost_in),
        lost_out: sum(&lost_out),
        lost_in_by_cause: named(&lost_in),
        lost_out_by_cause: named(&lost_out),
        kept: named(&port.kept.causes()),
        ring_overruns: counters.ring_overruns[..port.rings].to_vec(),
        received_by_share: match port.workers {
            0 | 1 => Vec::new(),
            shares => counters.received_by_share[..shares].to_vec(),
        },
        workers: port.workers as u32,
        rebinds: counters.rebinds,
    }
}

/// Returns the causes for which headers could not be read, each with its number of frames.
fn unread_causes(counts: &UnreadCounts) -> Vec<(String, u64)> {
    counts.each().map(|(cause, frames)| (cause.name().to_owned(), frames)).collect()
}

/// More than the name of an interface has (IFNAMSIZ is 16).
const INTERFACE_BYTES: usize = 32;
