//! The run loop: two ports, a policy for each direction, one thread.
//!
//! Frames are offered at the instant at which the kernel received them, and the link is polled at
//! the instants at which the line would have fallen idle. So a loop that wakes late makes the same
//! decisions as one that wakes in time (ARCHITECTURE.md, "Time"): only its frames are late, all at
//! once. Invariant: each frame of the pool is free, in a link's queue, or in a lane's outbox.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::account::{HISTOGRAMS_MAX, Histogram};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::event::Departure;
use weir_core::ids::Handle;
use weir_core::link::{AnyLink, Arrival, Packet};
use weir_core::packet::{Headers, LinkType, UnreadCounts, write_traffic_class};
use weir_core::units::{Duration, Instant};

use crate::error::Result;
use crate::pool::{FrameId, FramePool};
use crate::port::{BATCH, Port, PortConfig, Received};
use crate::status::{Board, LaneStatus, PortStatus, Status, class_statuses, unread_causes};
use crate::wait::{WaitPolicy, Waiter, monotonic_ns, pin_to_cpu, set_exact_timers};

/// The policy of one direction of the bridge.
pub struct LaneConfig {
    /// The name in reports.
    pub name: String,
    /// The names of the leaves, in their order.
    pub leaf_names: Vec<String>,
    /// Chooses the leaf of a frame.
    pub classifier: Classifier,
    /// The link that shapes the frames.
    pub link: Box<dyn AnyLink>,
}

/// A bridge between two interfaces.
pub struct BridgeConfig {
    /// The two interfaces.
    pub ports: [PortConfig; 2],
    /// The policies of the two directions: first from the first port to the second.
    pub lanes: [LaneConfig; 2],
    /// The most frames that the bridge holds, both directions together.
    pub frames_max: u32,
    /// How the loop waits.
    pub wait: WaitPolicy,
    /// After a stall longer than this the line starts anew instead of sending the backlog at once.
    pub lag_max: Duration,
    /// The CPU to run on.
    pub cpu: Option<usize>,
}

/// Two open ports and the links between them.
pub struct Bridge {
    ports: [Port; 2],
    lanes: [Lane; 2],
    pool: FramePool,
    wait: WaitPolicy,
    lag_max: Duration,
    cpu: Option<usize>,
    started: Instant,
    /// When this turn should have begun.
    expected: Instant,
    looked: Instant,
    refreshed: Instant,
    stalls: u64,
}

/// One direction of the bridge.
struct Lane {
    name: String,
    leaf_names: Vec<String>,
    classifier: Classifier,
    link: Box<dyn AnyLink>,
    /// The time from the kernel's stamp to handing the frame to the other interface; empty beyond
    /// [`HISTOGRAMS_MAX`] leaves.
    delays: Vec<Histogram>,
    inbox: Vec<Received>,
    arrivals: Vec<Arrival>,
    departures: Vec<Departure>,
    /// The latest instant that was passed to the link.
    now: Instant,
    /// The instant at which the link must be served again.
    next: Option<Instant>,
    /// Frames that waited too long for a busy interface.
    outbox_drops: u64,
    /// Frames whose IP header could not be read.
    unread: UnreadCounts,
    /// For each leaf, frames that left with another traffic class than they arrived with.
    marked: Vec<u64>,
}

impl Bridge {
    /// Opens both ports in this thread's network namespace.
    ///
    /// # Errors
    /// When an interface does not exist or the privilege is missing.
    pub fn open(config: BridgeConfig) -> Result<Self> {
        let [first, second] = config.ports;
        let ports = [Port::open(first)?, Port::open(second)?];
        let mtu = ports[0].mtu().max(ports[1].mtu());
        let now = Instant::from_nanos(monotonic_ns());
        Ok(Self {
            ports,
            lanes: config.lanes.map(Lane::new),
            pool: FramePool::for_mtu(config.frames_max, mtu),
            wait: config.wait,
            lag_max: config.lag_max,
            cpu: config.cpu,
            started: now,
            expected: now,
            looked: now,
            refreshed: now,
            stalls: 0,
        })
    }

    /// Forwards until `stop` is set. `wake` are descriptors that end a sleep: signals, control.
    ///
    /// # Errors
    /// When the thread cannot be pinned or the system refuses to wait.
    pub fn run(&mut self, stop: &AtomicBool, wake: &[RawFd], board: &Board) -> Result<()> {
        if let Some(cpu) = self.cpu {
            pin_to_cpu(cpu)?;
        }
        set_exact_timers()?;
        let mut descriptors = vec![self.ports[0].descriptor(), self.ports[1].descriptor()];
        descriptors.extend_from_slice(wake);
        let mut waiter = Waiter::new(self.wait, &descriptors);
        let mut now = monotonic_ns();
        while !stop.load(Ordering::Relaxed) {
            let worked = self.turn(Instant::from_nanos(now));
            // Status requests are answered even if frames never cease.
            if !worked || Instant::from_nanos(now).since(self.looked) >= LOOK_INTERVAL {
                self.looked = Instant::from_nanos(now);
                board.answer(|mark| self.report(mark));
                self.look_after_ports(Instant::from_nanos(now), &waiter);
            }
            if worked {
                waiter.worked(now);
                now = monotonic_ns();
                continue;
            }
            let deadline = self.deadline(now);
            self.expected = Instant::from_nanos(waiter.wakes_at(now, deadline));
            now = waiter.wait(now, deadline)?;
        }
        board.answer(|mark| self.report(mark));
        Ok(())
    }

    /// Receives frames and sends those that are due; returns whether there were any.
    fn turn(&mut self, now: Instant) -> bool {
        if now.since(self.expected) > self.lag_max {
            self.stalls += 1;
            let limit = now.before(self.lag_max);
            self.lanes.iter_mut().for_each(|lane| lane.forfeit_before(limit));
        }
        self.expected = now;
        let mut worked = false;
        for (from, lane) in self.lanes.iter_mut().enumerate() {
            let (input, output) = pair(&mut self.ports, from);
            let taken = input.receive(&mut self.pool, &mut lane.inbox);
            lane.classify(&self.pool, from);
            // While more frames wait in the ring, time has advanced only to the last of these.
            let horizon =
                lane.arrivals.last().filter(|_| taken >= BATCH).map_or(now, |last| last.at);
            lane.serve(horizon);
            lane.release_dropped(&mut self.pool);
            worked |= lane.send(&mut self.pool, output) | (taken > 0);
        }
        worked
    }

    /// Returns when a link, or a busy interface, must be served again.
    fn deadline(&self, now: u64) -> Option<u64> {
        let next = self.lanes.iter().filter_map(|lane| lane.next).min().map(Instant::as_nanos);
        let busy = self.lanes.iter().any(|lane| !lane.departures.is_empty());
        let retry = busy.then_some(now + RETRY_INTERVAL.as_nanos());
        next.into_iter().chain(retry).min()
    }

    /// Checks whether an interface disappeared or came back.
    fn look_after_ports(&mut self, now: Instant, waiter: &Waiter) {
        let due = now.since(self.refreshed) >= REFRESH_INTERVAL;
        for (index, port) in self.ports.iter_mut().enumerate() {
            if due || waiter.has_failed(index) {
                port.refresh();
            }
        }
        if due {
            self.refreshed = now;
        }
    }

    /// Returns the status; with `mark`, the measurement of delays restarts after it.
    fn report(&mut self, mark: bool) -> Status {
        let status = self.status();
        if mark {
            let delays = self.lanes.iter_mut().flat_map(|lane| &mut lane.delays);
            delays.for_each(|delays| *delays = Histogram::new());
        }
        status
    }

    /// Returns the number of frames of the pool that links or outboxes hold.
    fn frames_held(&self) -> u64 {
        let queued = |lane: &Lane| u64::from(lane.link.backlog());
        self.lanes.iter().map(|lane| queued(lane) + lane.departures.len() as u64).sum()
    }

    /// Returns the status.
    pub fn status(&mut self) -> Status {
        let used = (self.pool.capacity() - self.pool.free_count()) as u64;
        debug_assert_eq!(used, self.frames_held(), "a frame is free, queued or in an outbox");
        let now = Instant::from_nanos(monotonic_ns());
        let ports = self.ports.each_mut().map(|port| {
            let counters = port.counters();
            PortStatus::new(port.interface(), port.state(), counters)
        });
        let names = [0, 1].map(|index| self.ports[index].interface().to_owned());
        let lane = |(index, lane): (usize, &Lane)| LaneStatus {
            name: lane.name.clone(),
            from: names[index].clone(),
            to: names[1 - index].clone(),
            outbox_drops: lane.outbox_drops,
            unread: unread_causes(&lane.unread),
            classes: class_statuses(
                &lane.leaf_names,
                &lane.link.account(),
                &lane.delays,
                &lane.marked,
            ),
        };
        Status {
            uptime_ns: now.since(self.started).as_nanos(),
            stalls: self.stalls,
            frames_free: self.pool.free_count() as u64,
            frames_max: self.pool.capacity() as u64,
            ports: ports.into(),
            lanes: self.lanes.iter().enumerate().map(lane).collect(),
        }
    }
}

impl Lane {
    fn new(config: LaneConfig) -> Self {
        let leaves = config.leaf_names.len();
        let histograms = if leaves <= HISTOGRAMS_MAX { leaves } else { 0 };
        let delays = vec![Histogram::new(); histograms];
        Self {
            name: config.name,
            marked: vec![0; leaves],
            leaf_names: config.leaf_names,
            classifier: config.classifier,
            link: config.link,
            delays,
            inbox: Vec::with_capacity(BATCH),
            arrivals: Vec::with_capacity(BATCH),
            departures: Vec::with_capacity(BATCH),
            now: Instant::ZERO,
            next: None,
            outbox_drops: 0,
            unread: UnreadCounts::default(),
        }
    }

    /// Classifies each frame of the inbox and adds it as an arrival, at its own instant.
    fn classify(&mut self, pool: &FramePool, port: usize) {
        self.arrivals.clear();
        let mut now = self.now;
        for received in self.inbox.drain(..) {
            // A stamp may be a little earlier than the link's time.
            now = now.max(Instant::from_nanos(received.at_ns));
            let bytes = pool.bytes(received.frame);
            let headers = Headers::parse_ethernet(bytes);
            self.unread.add(&headers);
            let length = bytes.len() as u32;
            let classified = self.classifier.classify(now, InterfaceId(port as u16), &headers);
            let packet = Packet {
                handle: Handle(received.frame.0),
                length,
                flow: headers.flow(classified.flow),
                traffic_class: headers.traffic_class.unwrap_or(0),
                meter: classified.meter,
            };
            self.arrivals.push(Arrival { at: now, leaf: classified.leaf, packet });
        }
    }

    /// Frees the frames that the link dropped, on arrival or when their turn came.
    fn release_dropped(&mut self, pool: &mut FramePool) {
        self.link.take_dropped(&mut |dropped| pool.release(FrameId(dropped.handle.0)));
    }

    /// Lets the link serve the arrivals and whatever leaves up to `until`.
    fn serve(&mut self, until: Instant) {
        let last = self.arrivals.last().map_or(self.now, |arrival| arrival.at);
        self.now = until.max(last);
        self.next = self.link.serve(&self.arrivals, until, &mut self.departures);
    }

    fn forfeit_before(&mut self, limit: Instant) {
        self.now = self.now.max(limit);
        self.link.forfeit_before(limit);
    }

    /// Gives the departures to the interface; returns whether it took any.
    fn send(&mut self, pool: &mut FramePool, port: &mut Port) -> bool {
        if self.departures.is_empty() {
            return false;
        }
        let mut frames = [FrameId(0); BATCH];
        let mut done = 0;
        for batch in self.departures.chunks(BATCH) {
            for (frame, departure) in frames.iter_mut().zip(batch) {
                *frame = FrameId(departure.handle.0);
                if let Some(traffic_class) = departure.mark.written() {
                    // May run again if the interface was busy, without effect.
                    let bytes = pool.bytes_mut(*frame);
                    write_traffic_class(LinkType::Ethernet, bytes, traffic_class);
                }
            }
            let sent = port.send(pool, &frames[..batch.len()]);
            let now = Instant::from_nanos(monotonic_ns());
            for departure in &batch[..sent.taken] {
                if let Some(delays) = self.delays.get_mut(departure.leaf.index()) {
                    delays.record(now.since(departure.arrived));
                }
                self.marked[departure.leaf.index()] +=
                    u64::from(departure.mark.written().is_some());
                pool.release(FrameId(departure.handle.0));
            }
            done += sent.taken;
            if sent.taken < batch.len() {
                break;
            }
        }
        self.departures.drain(..done);
        self.shed(pool);
        done > 0
    }

    /// Drops frames so that the outbox of a busy interface stays bounded.
    fn shed(&mut self, pool: &mut FramePool) {
        let excess = self.departures.len().saturating_sub(OUTBOX_MAX);
        for departure in self.departures.drain(..excess) {
            pool.release(FrameId(departure.handle.0));
            self.outbox_drops += 1;
        }
    }
}

/// Returns the port that a lane reads and the one that it writes.
fn pair(ports: &mut [Port; 2], from: usize) -> (&mut Port, &mut Port) {
    let [first, second] = ports;
    if from == 0 { (first, second) } else { (second, first) }
}

/// The most frames that wait for a busy interface; beyond, the oldest are dropped.
const OUTBOX_MAX: usize = 1024;
/// The interval at which status requests are answered while frames keep arriving.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The time after which a busy interface is offered its frames again.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);
/// The interval at which interfaces are checked while frames keep arriving.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
