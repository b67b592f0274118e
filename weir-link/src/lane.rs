//! One direction of a bridge: classification, a link, and what waits for the interface behind it.
//!
//! No frame is lost before it is classified for want of room: each leaf has a reserve of frames
//! that no other leaf can take, so what must be shed is shed where it is too much.
//! Invariant: each frame that a lane accepted waits for its turn, is in the link's queue, or is in
//! the outbox; and each frame that it lost is counted once, by leaf and cause.
//!
//! Tables by leaf have one row more, for leaves that a change removed (`lane/change.rs`): frames of
//! theirs that were in the outbox then, and what was counted of them.

pub(crate) mod change;
pub(crate) mod join;

use std::sync::Arc;

use weir_core::account::{Count, HISTOGRAMS_MAX, Histogram};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, Packet, Pending};
use weir_core::packet::{Headers, LinkType, UnreadCounts, write_traffic_class};
use weir_core::parameter::BuildError;
use weir_core::sched::{Borrowed, Regulation};
use weir_core::units::{Duration, Instant};

use weir_policy::Policy;
use weir_trace::record::{self, Fate, Step};

use crate::alarm::LeafMeasures;
use crate::pool::{FrameId, FramePool};
use crate::port::{BATCH, Port, Received};
use crate::recorder::Steps;
use crate::sorter::SortPlan;
use crate::status::{Found, LaneLabels, LeafCounts, Shape};
use weir_host::error::{Result, SystemError};
use weir_host::wait::monotonic_ns;

/// The policy of one direction of a bridge.
pub struct LaneConfig {
    /// The name in reports.
    pub name: String,
    /// The indices of the ports whose frames it takes.
    pub from: Vec<usize>,
    /// The index of the port where they leave.
    pub to: usize,
    /// The names of the leaves, in their order.
    pub leaf_names: Vec<String>,
    /// Chooses the leaf of a frame.
    pub classifier: Classifier,
    /// The link that shapes the frames.
    pub link: Box<dyn AnyLink>,
    /// Which leaves have a ring of their own at the ports.
    pub sorting: Option<SortPlan>,
    /// The most frames that it holds.
    pub frames_max: u32,
    /// For each leaf, the age from which its frames are dropped instead of sent; empty if they
    /// never are.
    pub sojourn_max: Vec<Duration>,
    /// Its classes, as readers of the status are told.
    pub shape: Arc<Shape>,
}

impl LaneConfig {
    /// The lane of `policy` from some ports to another, with [`FRAMES_MAX_DEFAULT`] frames and no
    /// limit of age.
    ///
    /// # Errors
    /// When the link cannot be built.
    pub fn new(name: &str, (from, to): (Vec<usize>, usize), policy: &Policy) -> Result<Self> {
        let refused = |error: BuildError| {
            SystemError::refused("build the policy", error.message, "see `weir check`")
        };
        let leaves = (0..policy.link.tree.leaf_count() as u32).map(LeafId);
        Ok(Self {
            name: name.to_owned(),
            from,
            to,
            leaf_names: leaves.map(|leaf| policy.leaf_name(leaf).to_owned()).collect(),
            classifier: policy.classifier(),
            link: policy.link.build().map_err(refused)?,
            sorting: Some(SortPlan::of_policy(policy)),
            frames_max: FRAMES_MAX_DEFAULT,
            sojourn_max: Vec::new(),
            shape: Arc::new(Shape::of(policy)),
        })
    }
}

/// The frames that a lane may hold, unless told otherwise.
pub const FRAMES_MAX_DEFAULT: u32 = 8192;

/// One direction of a bridge, at work.
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) from: Vec<usize>,
    pub(crate) to: usize,
    leaf_names: Vec<String>,
    classifier: Classifier,
    link: Box<dyn AnyLink>,
    room: Room,
    sojourn_max: Vec<Duration>,
    /// The time of this turn.
    clock: Instant,
    /// For each ring of its ports, the leaf that has it.
    ring_leaves: Vec<Option<LeafId>>,
    /// The time from the kernel's stamp to handing the frame to the other interface; empty beyond
    /// [`HISTOGRAMS_MAX`] leaves.
    delays: Vec<Histogram>,
    /// Classified frames that the link has not been offered yet, and the link's time.
    pending: Pending,
    /// The outbox.
    departures: Vec<Departure>,
    /// What a record gets of this turn.
    steps: Steps,
    /// The instant at which the link must be served again.
    next: Option<Instant>,
    /// Since when frames have waited in a ring all the time.
    behind_since: Option<Instant>,
    /// Frames whose IP header could not be read.
    unread: UnreadCounts,
    /// For each leaf, frames that left with another traffic class than they arrived with.
    marked: Vec<u64>,
    /// Frames lost outside the link.
    losses: LossBook,
    /// Frames that the link dropped after a stall because they were too old.
    forfeited: u64,
    /// Whether the frames that wait are given up: see [`Lane::flush`].
    flushed: bool,
    limits: Limits,
    shape: Arc<Shape>,
    /// The leaf of the first place, and the number of the class that has each place.
    first_place: usize,
    tenants: Vec<u32>,
    /// What classes that left each place had borrowed.
    borrowed_before: Vec<Borrowed>,
    /// Since when the policy is in force.
    since: Instant,
}

/// A cause for which a lane loses a frame outside its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The leaf had its reserve of frames, and the shared rest was taken.
    Pool,
    /// It waited too long for a busy interface.
    BusyPort,
    /// It was too old when it was taken from its ring.
    StaleOnArrival,
    /// It was too old when the interface was to send it.
    Stale,
    /// The interface did not send it: no link, or too long for it.
    NotSent,
    /// The forwarder ended before its turn came.
    Flushed,
}

impl Loss {
    /// All causes, in the order of [`Losses`].
    pub const ALL: [Self; 6] = [
        Self::Pool,
        Self::StaleOnArrival,
        Self::BusyPort,
        Self::Stale,
        Self::NotSent,
        Self::Flushed,
    ];
    /// Those that come before the link, so that it was never offered the frame.
    pub(crate) const BEFORE: [Self; 2] = [Self::Pool, Self::StaleOnArrival];
    /// Those that come after the link, which counts the frame as sent.
    pub(crate) const AFTER: [Self; 4] = [Self::BusyPort, Self::Stale, Self::NotSent, Self::Flushed];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::BusyPort => "busy port",
            Self::StaleOnArrival => "stale on arrival",
            Self::Stale => "stale",
            Self::NotSent => "not sent",
            Self::Flushed => "flushed",
        }
    }
}

/// Frames lost, by [`Loss`].
pub type Losses = [Count; Loss::ALL.len()];

impl Lane {
    pub(crate) fn new(config: LaneConfig) -> Self {
        let leaves = config.leaf_names.len();
        let tenants = config.shape.tenants().numbers();
        Self {
            first_place: config.shape.tenants().first(),
            borrowed_before: vec![Borrowed::default(); tenants.len()],
            tenants,
            name: config.name,
            from: config.from,
            to: config.to,
            room: Room::new(config.frames_max, leaves),
            sojourn_max: config.sojourn_max,
            clock: Instant::ZERO,
            ring_leaves: ring_leaves(config.sorting.as_ref()),
            marked: vec![0; leaves + 1],
            losses: LossBook::new(leaves),
            forfeited: 0,
            leaf_names: config.leaf_names,
            classifier: config.classifier,
            link: config.link,
            delays: histograms(leaves),
            pending: Pending::at(Instant::ZERO, Instant::ZERO, BATCH),
            departures: Vec::with_capacity(BATCH),
            steps: Steps::default(),
            next: None,
            behind_since: None,
            unread: UnreadCounts::default(),
            flushed: false,
            limits: Limits::new(leaves),
            shape: config.shape,
            since: Instant::from_nanos(monotonic_ns()),
        }
    }

    /// Classifies a frame and accepts it, or sheds it if its leaf has too many.
    pub(crate) fn accept(
        &mut self,
        pool: &mut FramePool,
        received: Received,
        headers: &Headers,
        port: InterfaceId,
    ) {
        let at = self.pending.offer_at(Instant::from_nanos(received.at_ns));
        self.unread.add(headers);
        let classify_at = self.pending.classify_at(at);
        let classified = self.classifier.classify(classify_at, port, headers);
        let leaf = classified.leaf;
        let bytes = pool.bytes(received.frame);
        let packet = Packet {
            handle: Handle(received.frame.0),
            length: bytes.len() as u32,
            flow: headers.flow(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        let arrival = Arrival { at, leaf, packet };
        let is_stale = self.oldest(leaf).as_nanos() > received.at_ns;
        let is_refused = is_stale || !self.room.take(leaf);
        if let Some(steps) = self.steps.get() {
            let fate = if is_refused { Fate::Refused } else { Fate::Offered };
            let headers = record::headers_of(bytes, headers);
            record::Arrival { at, port, leaf, packet, fate, headers }.write(steps);
        }
        if is_refused {
            let cause = if is_stale { Loss::StaleOnArrival } else { Loss::Pool };
            self.losses.count(leaf, cause, u64::from(packet.length));
            self.steps.lost(cause, (packet.handle, leaf), packet.length, self.clock);
            pool.release(received.frame);
            return;
        }
        pool.set_stamp(received.frame, received.at_ns);
        self.pending.push(arrival);
    }

    /// Begins a turn at `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.clock = now;
    }

    /// Returns when the oldest frame of `leaf` arrived that may still be sent.
    fn oldest(&self, leaf: LeafId) -> Instant {
        let age = self.sojourn_max.get(leaf.index());
        age.map_or(Instant::ZERO, |age| self.clock.before(*age))
    }

    /// Lets the link serve what arrived and whatever leaves up to now. `seen` is the latest
    /// instant up to which every ring was emptied, if frames still wait in one: the link's time
    /// does not pass it, so that frames count at the instants at which they came. A lane that
    /// stays behind for [`BEHIND_MAX`] is overloaded: then a frame counts when it is taken, and
    /// other frames wait for none.
    pub(crate) fn serve(&mut self, now: Instant, seen: Option<Instant>) {
        self.behind_since = seen.map(|_| self.behind_since.unwrap_or(now));
        let overloaded = self.behind_since.is_some_and(|since| now.since(since) > BEHIND_MAX);
        let last = self.pending.last().unwrap_or(now);
        let until = match seen {
            Some(seen) if !overloaded => seen.max(self.pending.now()),
            _ => now.max(last).max(self.pending.now()),
        };
        let (link, departures) = (&mut self.link, &mut self.departures);
        let before = departures.len();
        let mut offered = 0;
        self.next = self.pending.serve(until, |due| {
            offered = due.len();
            link.serve(due, until, departures)
        });
        self.steps.served(until, offered, &departures[before..]);
    }

    /// Frees the frames that the link dropped, on arrival or when their turn came.
    pub(crate) fn release_dropped(&mut self, pool: &mut FramePool) {
        self.take_dropped(pool);
    }

    /// As [`Lane::release_dropped`]; returns how many there were.
    fn take_dropped(&mut self, pool: &mut FramePool) -> u64 {
        let (room, steps, mut count) = (&mut self.room, &mut self.steps, 0);
        self.link.take_dropped(&mut |dropped| {
            steps.note(&Step::Dropped(dropped));
            room.give_back(dropped.leaf);
            pool.release(FrameId(dropped.handle.0));
            count += 1;
        });
        count
    }

    /// Starts the line anew after a stall, without what is of no use any more.
    pub(crate) fn forfeit_before(&mut self, limit: Instant, pool: &mut FramePool) {
        self.pending.forfeit_before(limit);
        self.link.forfeit_before(limit);
        self.steps.note(&Step::Forfeit { before: limit });
        let (clock, ages) = (self.clock, &self.sojourn_max);
        let oldest = |leaf: LeafId| clock.before(ages[leaf.index()]);
        if !ages.is_empty() {
            self.steps.note(&Step::DropOlder { clock });
            self.link.drop_older(&oldest);
            self.forfeited += self.take_dropped(pool);
        }
    }

    /// Returns when the link must be served again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Returns whether frames wait for a busy interface.
    pub(crate) fn has_outbox(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Returns whether it has been behind its rings for so long that it is overloaded.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind_since.is_some_and(|since| self.clock.since(since) > BEHIND_MAX)
    }

    /// Returns the frames that it lost outside the link for this cause.
    pub(crate) fn lost(&self, cause: Loss) -> u64 {
        self.losses.total[cause as usize]
    }

    /// Returns the frames that were too old to be sent, as after a stall.
    pub(crate) fn stale(&self) -> u64 {
        self.forfeited + self.lost(Loss::Stale) + self.lost(Loss::StaleOnArrival)
    }

    /// Returns how many bytes of a leaf wait.
    pub(crate) fn leaf_backlog(&self, leaf: LeafId) -> u64 {
        self.link.leaf_account(leaf).backlog.bytes
    }

    /// Returns what alarms measure of a leaf.
    pub(crate) fn leaf_measures(&self, leaf: LeafId) -> LeafMeasures {
        let account = self.link.leaf_account(leaf);
        let losses = &self.losses.leaves[leaf.index()];
        let sum = |causes: &[Loss], of: fn(&Count) -> u64| -> u64 {
            causes.iter().map(|cause| of(&losses[*cause as usize])).sum()
        };
        let before = sum(&Loss::BEFORE, |count| count.packets);
        let after = sum(&Loss::AFTER, |count| count.packets);
        LeafMeasures {
            offered: account.offered.packets + before,
            dropped: account.dropped_total().packets + before + after,
            sent_bytes: account.sent.bytes - sum(&Loss::AFTER, |count| count.bytes),
            delays: self.delays.get(leaf.index()).cloned().unwrap_or_default(),
            ..LeafMeasures::default()
        }
    }

    /// Returns the name of the leaf that has this ring of its ports.
    pub(crate) fn ring_class(&self, ring: usize) -> Option<String> {
        let leaf = self.ring_leaves.get(ring).copied().flatten()?;
        self.leaf_names.get(leaf.index()).cloned()
    }

    /// Returns the number of frames that it holds.
    pub(crate) fn held(&self) -> usize {
        self.pending.arrivals().len() + self.link.backlog() as usize + self.departures.len()
    }

    /// Gives the departures to the interface; returns whether it was done with any.
    pub(crate) fn send(&mut self, pool: &mut FramePool, port: &mut dyn Port) -> bool {
        if self.departures.is_empty() {
            return false;
        }
        self.drop_stale(pool);
        let mut done = 0;
        while done < self.departures.len() {
            let batch = done..self.departures.len().min(done + BATCH);
            let taken = self.send_batch(batch.clone(), pool, port);
            done += taken;
            if taken < batch.len() {
                break;
            }
        }
        self.departures.drain(..done);
        self.shed(pool);
        done > 0
    }

    /// Gives these departures to the interface; returns how many it took over.
    fn send_batch(
        &mut self,
        batch: std::ops::Range<usize>,
        pool: &mut FramePool,
        port: &mut dyn Port,
    ) -> usize {
        let batch = &self.departures[batch];
        let mut frames = [FrameId(0); BATCH];
        for (frame, departure) in frames.iter_mut().zip(batch) {
            *frame = FrameId(departure.handle.0);
            if let Some(traffic_class) = departure.mark.written() {
                // May run again if the interface was busy, without effect.
                write_traffic_class(LinkType::Ethernet, pool.bytes_mut(*frame), traffic_class);
            }
        }
        let sent = port.send(pool, &frames[..batch.len()]);
        let now = Instant::from_nanos(monotonic_ns());
        for (index, departure) in batch[..sent.taken].iter().enumerate() {
            let leaf = departure.leaf.index();
            self.room.count_found();
            self.room.give_back(departure.leaf);
            if sent.is_lost(index) {
                self.losses.count(departure.leaf, Loss::NotSent, departure.charged.get());
                self.steps.lost_after(Loss::NotSent, departure, now);
                continue;
            }
            self.steps.note(&Step::Sent { handle: departure.handle, at: now });
            if let Some(delays) = self.delays.get_mut(leaf) {
                // The link may have counted its arrival later: see `serve`.
                let stamp = pool.stamp(FrameId(departure.handle.0));
                delays.record(now.since(Instant::from_nanos(stamp)));
            }
            self.marked[leaf] += u64::from(departure.mark.written().is_some());
        }
        sent.taken
    }

    /// Drops the departures that are too old to be of use.
    fn drop_stale(&mut self, pool: &mut FramePool) {
        if self.sojourn_max.is_empty() {
            return;
        }
        // Not the turn's time: the process may have been stopped since the turn began.
        let clock = self.clock.max(Instant::from_nanos(monotonic_ns()));
        let ages = &self.sojourn_max;
        let is_stale = |pool: &FramePool, departure: &Departure| {
            let age = ages.get(departure.leaf.index());
            let oldest = age.map_or(0, |age| clock.before(*age).as_nanos());
            pool.stamp(FrameId(departure.handle.0)) < oldest
        };
        if !self.departures.iter().any(|departure| is_stale(pool, departure)) {
            return;
        }
        let (room, losses, steps) = (&mut self.room, &mut self.losses, &mut self.steps);
        self.departures.retain(|departure| {
            let is_stale = is_stale(pool, departure);
            if is_stale {
                steps.lost_after(Loss::Stale, departure, clock);
                lose(departure, Loss::Stale, room, losses, pool);
            }
            !is_stale
        });
    }

    /// Drops frames so that the outbox of a busy interface stays bounded.
    fn shed(&mut self, pool: &mut FramePool) {
        let excess = self.departures.len().saturating_sub(OUTBOX_MAX);
        for departure in self.departures.drain(..excess) {
            self.steps.lost_after(Loss::BusyPort, &departure, self.clock);
            lose(&departure, Loss::BusyPort, &mut self.room, &mut self.losses, pool);
        }
    }

    /// Gives up what it holds at `now`: the outbox at once, and what waits in the link from the
    /// next status on. No frame may arrive after that.
    pub(crate) fn flush(&mut self, now: Instant, pool: &mut FramePool) {
        self.serve(now, None);
        self.release_dropped(pool);
        for departure in self.departures.drain(..) {
            self.steps.lost_after(Loss::Flushed, &departure, now);
            lose(&departure, Loss::Flushed, &mut self.room, &mut self.losses, pool);
        }
        self.flushed = true;
    }

    /// Returns what a record gets of this turn.
    pub(crate) fn steps(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// Appends what a record of this lane begins with here: its state, and the frames that wait
    /// to be offered.
    pub(crate) fn checkpoint(&self, out: &mut Vec<u8>) {
        record::state::checkpoint(&self.pending, (self.link.as_ref(), &self.classifier), out);
    }

    /// Returns the number of frames whose header could not be read, by cause.
    pub(crate) fn unread(&self) -> &UnreadCounts {
        &self.unread
    }

    /// Returns what readers of the counts are told once.
    pub(crate) fn labels(&self) -> LaneLabels {
        LaneLabels {
            name: self.name.clone(),
            from: self.from.clone(),
            to: self.to,
            leaves: self.leaf_names.clone(),
            sojourn_max: self.sojourn_max.clone(),
            rings: self.ring_leaves.clone(),
            shape: Arc::clone(&self.shape),
            since: self.since,
            has_delays: !self.delays.is_empty(),
        }
    }

    /// Returns what was counted of leaves that changes removed.
    pub(crate) fn retired(&self) -> LeafCounts {
        let row = self.leaf_names.len();
        LeafCounts {
            account: self.link.retired(),
            losses: self.losses.leaves[row],
            marked: self.marked[row],
            ..LeafCounts::default()
        }
    }

    /// Copies the delays of a leaf; with `mark`, their measurement restarts.
    pub(crate) fn copy_delays(&mut self, leaf: usize, mark: bool, to: &mut Histogram) {
        if let Some(delays) = self.delays.get_mut(leaf) {
            to.copy_from(delays);
            if mark {
                delays.clear();
            }
        }
    }

    /// Returns how many leaves held frames, whenever that was counted.
    pub(crate) fn found(&self) -> Found {
        self.room.found
    }

    /// Looks which leaves their limits hold back, at some of them a call.
    pub(crate) fn sample_limits(&mut self, now: Instant) {
        // The link may be ahead, to the stamp of a frame that just came.
        let (link, now) = (&self.link, now.max(self.pending.now()));
        self.limits.sample(now, |leaf| link.held_by(now, leaf) != Regulation::None);
    }

    /// Returns the place that a leaf is.
    fn place(&self, leaf: usize) -> Option<usize> {
        leaf.checked_sub(self.first_place).filter(|place| *place < self.tenants.len())
    }

    /// Returns what the class of a leaf borrowed.
    fn borrowed(&self, leaf: usize) -> Borrowed {
        let mut all = self.link.borrowed(LeafId(leaf as u32));
        if let Some(place) = self.place(leaf) {
            let before = &self.borrowed_before[place];
            all.iter_mut().zip(before).for_each(|(all, before)| *all = all.saturating_sub(*before));
        }
        all
    }

    /// Returns the counts of a leaf.
    pub(crate) fn counts(&mut self, leaf: usize) -> LeafCounts {
        let counts = LeafCounts {
            account: self.link.leaf_account(LeafId(leaf as u32)),
            losses: self.losses.leaves[leaf],
            marked: self.marked[leaf],
            borrowed: self.borrowed(leaf),
            overlimit_ns: self.limits.held_ns[leaf],
            tenant: self.place(leaf).map_or(0, |place| self.tenants[place]),
        };
        if self.flushed { counts.flushed() } else { counts }
    }
}

/// Frames lost outside a link, for each leaf and in all.
struct LossBook {
    leaves: Vec<Losses>,
    total: [u64; Loss::ALL.len()],
}

impl LossBook {
    fn new(leaves: usize) -> Self {
        Self { leaves: vec![Losses::default(); leaves + 1], total: Default::default() }
    }

    fn count(&mut self, leaf: LeafId, cause: Loss, bytes: u64) {
        let losses = &mut self.leaves[leaf.index()][cause as usize];
        losses.packets += 1;
        losses.bytes += bytes;
        self.total[cause as usize] += 1;
    }
}

/// Returns a histogram for each of so many leaves; none where they would be too many.
fn histograms(leaves: usize) -> Vec<Histogram> {
    vec![Histogram::new(); if leaves <= HISTOGRAMS_MAX { leaves } else { 0 }]
}

fn ring_leaves(sorting: Option<&SortPlan>) -> Vec<Option<LeafId>> {
    let leaves = |plan: &SortPlan| (0..plan.rings).map(|ring| plan.leaf(ring)).collect();
    sorting.map(leaves).unwrap_or_default()
}

/// Frees the frame of a departure that will not be sent, and counts it.
fn lose(
    departure: &Departure,
    cause: Loss,
    room: &mut Room,
    losses: &mut LossBook,
    pool: &mut FramePool,
) {
    room.give_back(departure.leaf);
    losses.count(departure.leaf, cause, departure.charged.get());
    pool.release(FrameId(departure.handle.0));
}

/// The frames that a lane may hold: a reserve for each leaf, and the rest for whoever comes first.
struct Room {
    /// For each leaf, the frames that it holds. The last row is for removed leaves: it counts as if
    /// its reserve were taken, so that it has none.
    held: Vec<u32>,
    reserve: u32,
    /// Frames held beyond the reserves.
    shared: u32,
    shared_max: u32,
    /// The leaves that hold a frame.
    busy: u32,
    found: Found,
}

impl Room {
    fn new(frames_max: u32, leaves: usize) -> Self {
        let reserve = frames_max / 2 / leaves.max(1) as u32;
        let shared_max = frames_max - reserve * leaves as u32;
        let mut held = vec![0; leaves + 1];
        held[leaves] = reserve;
        Self { held, reserve, shared: 0, shared_max, busy: 0, found: Found::default() }
    }

    /// Adds frames that `row` holds from now on, even if that is more than there is room for.
    fn adopt(&mut self, row: usize, frames: u32) {
        let beyond = |held: u32| held.saturating_sub(self.reserve);
        let held = self.held[row];
        self.shared += beyond(held + frames) - beyond(held);
        self.busy += u32::from(held == 0 && frames > 0);
        self.held[row] += frames;
    }

    /// Takes room for a frame of `leaf`; returns whether there was any.
    fn take(&mut self, leaf: LeafId) -> bool {
        let held = &mut self.held[leaf.index()];
        if *held >= self.reserve {
            if self.shared >= self.shared_max {
                return false;
            }
            self.shared += 1;
        }
        if *held == 0 {
            self.found.none += u64::from(self.busy == 0);
            self.busy += 1;
        }
        *held += 1;
        true
    }

    fn give_back(&mut self, leaf: LeafId) {
        let held = &mut self.held[leaf.index()];
        *held -= 1;
        self.shared -= u32::from(*held >= self.reserve);
        self.busy -= u32::from(*held == 0);
    }

    /// Counts, for a frame that leaves, whether other leaves hold frames too.
    fn count_found(&mut self) {
        let is_alone = u64::from(self.busy <= 1);
        self.found.one += is_alone;
        self.found.more += 1 - is_alone;
    }
}

/// For how long limits held each leaf back, by samples: what a sample shows lasts until the next
/// one of the same leaf.
struct Limits {
    held_ns: Vec<u64>,
    /// Since when each leaf is held back, as the last sample showed.
    held_since: Vec<Option<Instant>>,
    /// The next leaf.
    next: usize,
    sampled: Instant,
}

impl Limits {
    fn new(leaves: usize) -> Self {
        let held_since = vec![None; leaves];
        Self { held_ns: vec![0; leaves], held_since, next: 0, sampled: Instant::ZERO }
    }

    /// Looks at the next leaves, unless it did so a moment ago.
    fn sample(&mut self, now: Instant, is_held: impl Fn(LeafId) -> bool) {
        let leaves = self.held_ns.len();
        if now.since(self.sampled) < SAMPLE_INTERVAL || leaves == 0 {
            return;
        }
        self.sampled = now;
        for _ in 0..SAMPLES.min(leaves) {
            let since = &mut self.held_since[self.next];
            if let Some(since) = since.take() {
                self.held_ns[self.next] += now.since(since).as_nanos();
            }
            *since = is_held(LeafId(self.next as u32)).then_some(now);
            self.next = (self.next + 1) % leaves;
        }
    }
}

/// The shortest time between two looks at limits, and the leaves that one look is for: it takes a
/// few microseconds.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);
const SAMPLES: usize = 64;
/// The most frames that wait for a busy interface; beyond, the oldest are dropped.
const OUTBOX_MAX: usize = 1024;
/// How long a lane may stay behind its rings before it counts as overloaded: longer than it takes
/// to work off a full ring.
const BEHIND_MAX: Duration = Duration::from_millis(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_name_each_cause_of_a_loss_as_reports_do() {
        for cause in Loss::ALL {
            assert_eq!(record::Loss::CAUSES[cause as usize], cause.name());
        }
    }

    #[test]
    fn each_leaf_keeps_its_reserve_whatever_the_others_hold() {
        let mut room = Room::new(16, 2);
        let (bulk, voice) = (LeafId(0), LeafId(1));
        let taken = (0..100).filter(|_| room.take(bulk)).count();
        assert_eq!(taken, 12, "its reserve of 4 and the shared 8");
        assert_eq!((0..100).filter(|_| room.take(voice)).count(), 4);
        room.give_back(bulk);
        assert!(room.take(voice) && !room.take(bulk));
        (0..11).for_each(|_| room.give_back(bulk));
        (0..5).for_each(|_| room.give_back(voice));
        assert_eq!((room.shared, room.held.as_slice()), (0, [0, 0, 4].as_slice()));
    }

    #[test]
    fn it_is_counted_whether_one_leaf_holds_frames_or_several() {
        // `a` and `b` take a frame, `A` and `B` send one.
        let rows = [("", [0, 0, 0]), ("aA", [1, 1, 0]), ("aAbB", [2, 2, 0]), ("abAB", [1, 1, 1])];
        for (calls, [none, one, more]) in rows.into_iter().chain([("aabABA", [1, 1, 2])]) {
            let mut room = Room::new(16, 2);
            for call in calls.chars() {
                let leaf = LeafId(u32::from(call.eq_ignore_ascii_case(&'b')));
                if call.is_lowercase() {
                    assert!(room.take(leaf));
                } else {
                    room.count_found();
                    room.give_back(leaf);
                }
            }
            assert_eq!(room.found, Found { none, one, more }, "{calls}");
            assert_eq!(room.busy, 0);
        }
    }

    #[test]
    fn the_time_that_a_leaf_is_held_back_is_what_samples_show() {
        let mut limits = Limits::new(2);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        // Held from the sample at 10 ms to that at 40 ms; the one at 40.5 ms comes too soon.
        for (millis, held) in [(5, false), (10, true), (20, true), (40, false), (60, false)] {
            limits.sample(at(millis), |leaf| held && leaf == LeafId(1));
            limits.sample(at(millis).after(Duration::from_micros(500)), |_| true);
        }
        assert_eq!(limits.held_ns, [0, 30_000_000]);
        let mut many = Limits::new(10 * SAMPLES);
        (0..100).for_each(|millis| many.sample(at(10 + millis), |_| true));
        // Each leaf is looked at each 10 ms.
        assert!(many.held_ns.iter().all(|ns| (80_000_000..=90_000_000).contains(ns)));
    }
}
