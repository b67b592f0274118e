//! The run loop: ports, a policy for each direction, one thread.
//!
//! Frames are offered at the instant at which the kernel received them, and the link is polled at
//! the instants at which the line would have fallen idle. So a loop that wakes late makes the same
//! decisions as one that wakes in time (ARCHITECTURE.md, "Time"): only its frames are late, all at
//! once. Invariant: each frame of the pool is free, held by a port, or held by a lane.

mod change;
mod echoes;
#[cfg(test)]
mod laws;
mod rates;
mod watch;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::account::Histogram;
use weir_core::classify::InterfaceId;
use weir_core::queue::HostAccounts;
use weir_core::units::{Duration, Instant};

use crate::authority::AuthorityClient;
use crate::change::Inbox;
use crate::intake::{Done, Intake, IntakeRequest};
use crate::lane::{Lane, Turn};
pub use crate::lane::{LaneConfig, Varies};
use crate::offload::SEGMENTS_MAX;
use crate::pool::FramePool;
use crate::port::worker::{Reopen, Workers};
use crate::port::{self, BATCH, Port, PortConfig, PortState, Reached, Received, Room, worker};
use crate::recorder::Taps;
use crate::sorter::Sorting;
use crate::stations::{Route, Stations};
use crate::status::{
    Board, Head, Kept, Labels, LaneLabels, LeafCounts, PortCounts, Publisher, Source, Status,
    port_names,
};
use echoes::Echoes;
use rates::Rates;
use watch::Watch;
use weir_host::carrier::CarrierPass;
use weir_host::error::{Result, SystemError};
use weir_host::robust::Word;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns, pin_to_cpu, set_exact_timers};

/// Bound: ports of one bridge; one with more is refused.
pub const PORTS_MAX: usize = 8;

/// A bridge between interfaces.
pub struct BridgeConfig {
    /// The ports, by their places in the lanes.
    pub ports: Vec<BridgePort>,
    /// The policies. Each way from a port to another belongs to one of them.
    pub lanes: Vec<LaneConfig>,
    /// How the loop waits.
    pub wait: WaitPolicy,
    /// After a stall longer than this the line starts anew instead of sending the backlog at once.
    pub lag_max: Duration,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// How many threads receive and send for the ports, beside the loop that decides; with less
    /// than 2 the loop does all. Where they are more than the ports, several share one.
    pub workers: usize,
    /// Whether a port is set down while those that its frames go to have no carrier.
    pub passes_carrier: bool,
    /// Whether the ports take frames from the start; [`crate::status::Board`] opens and closes
    /// their intake later.
    pub intake: bool,
}

/// A port of a bridge to be.
pub struct BridgePort {
    /// The number by which rules name it.
    pub number: InterfaceId,
    /// The port, or how to open it.
    pub source: PortSource,
}

impl BridgeConfig {
    /// Returns the room that the ports take together, with the longest slot among them, where their
    /// interfaces have these MTUs.
    pub(crate) fn room(&self, mtu: impl Fn(&str) -> usize) -> Room {
        let of = |(index, port): (usize, &BridgePort)| match &port.source {
            PortSource::Config(config) => {
                let (sorting, shares) = (port.sorting(index, &self.lanes), self.shares(index));
                let config = PortConfig { sorting, shares, ..config.clone() };
                port::room(&config, mtu(&config.interface))
            }
            PortSource::Open(port) => port.room(),
        };
        let rooms = self.ports.iter().enumerate().map(of).enumerate();
        let of_workers = |(index, room)| match self.has_workers() {
            true => worker::room(room, self.shares(index)),
            false => room,
        };
        rooms.map(of_workers).fold(Room::default(), Room::with)
    }

    /// Returns how many threads may share a port.
    pub(crate) fn shares(&self, index: usize) -> usize {
        worker::shares(self.workers, self.ports.len(), index)
    }

    /// Whether other threads receive and send for the ports.
    pub(crate) fn has_workers(&self) -> bool {
        self.workers >= 2
    }
}

/// Returns the frames of the pool of a bridge whose ports may hold so many.
pub(crate) fn pool_frames(held_max: usize, lanes: &[LaneConfig]) -> usize {
    held_max + lanes.iter().map(|lane| lane.frames_max as usize).sum::<usize>() + IN_HAND_MAX
}

/// Where a bridge gets a port from.
#[expect(clippy::large_enum_variant, reason = "there are few, and for a moment only")]
pub enum PortSource {
    /// It opens it in its thread's network namespace.
    Config(PortConfig),
    /// It was opened before.
    Open(Box<dyn Port>),
}

impl BridgeConfig {
    /// Has the ports ask the keeper of their deployment for what needs privilege, and begin with a
    /// closed intake, until the keeper says that it is their turn.
    pub fn through(mut self, client: &AuthorityClient) -> Self {
        for port in &mut self.ports {
            if let PortSource::Config(config) = &mut port.source {
                config.through = Some(client.for_port(usize::from(port.number.0)));
            }
        }
        Self { intake: false, ..self }
    }

    /// Takes the ports, each with the sorting that its lane wants, and as many shares as it may
    /// have.
    pub(crate) fn sorted_ports(&mut self) -> Vec<BridgePort> {
        let count = self.ports.len();
        let ports = std::mem::take(&mut self.ports).into_iter().enumerate();
        let ready = |(index, port): (usize, BridgePort)| {
            let shares = worker::shares(self.workers, count, index);
            port.sorted_for(index, &self.lanes).shared_by(shares)
        };
        ports.map(ready).collect()
    }
}

impl BridgePort {
    /// The port that `config` describes, under this number.
    pub fn new(number: u16, config: PortConfig) -> Self {
        Self { number: InterfaceId(number), source: PortSource::Config(config) }
    }

    /// Two interfaces as ports 0 and 1.
    pub fn two(interfaces: [&str; 2]) -> Vec<Self> {
        let port = |(number, name)| Self::new(number, PortConfig::new(name));
        (0..).zip(interfaces).map(port).collect()
    }

    /// Returns what it is opened by, unless it was before.
    fn config(&self) -> Option<&PortConfig> {
        match &self.source {
            PortSource::Config(config) => Some(config),
            PortSource::Open(_) => None,
        }
    }

    /// Returns how the port sorts frames: as the only lane that it feeds wants it, if only into one
    /// ring as yet. Where it feeds several, a ring would have to belong to leaves of all of them:
    /// there is one ring.
    fn sorting(&self, index: usize, lanes: &[LaneConfig]) -> Option<Sorting> {
        let mut fed = lanes.iter().filter(|lane| lane.from.contains(&index));
        let plan = match (fed.next(), fed.next()) {
            (Some(lane), None) => lane.sorting.as_ref(),
            _ => None,
        };
        Some(Sorting::of(plan?, self.number))
    }

    fn sorted_for(mut self, index: usize, lanes: &[LaneConfig]) -> Self {
        let sorting = self.sorting(index, lanes);
        if let (Some(sorting), PortSource::Config(config)) = (sorting, &mut self.source) {
            config.sorting = Some(sorting);
        }
        self
    }

    fn shared_by(mut self, threads: usize) -> Self {
        if let PortSource::Config(config) = &mut self.source {
            config.shares = threads;
        }
        self
    }

    fn open(self, intake: bool) -> Result<OpenPort> {
        let sorting = match &self.source {
            PortSource::Config(config) => config.sorting.clone(),
            PortSource::Open(_) => None,
        };
        let (port, why, reopen) = match self.source {
            PortSource::Config(config) => {
                let config = PortConfig { intake, ..config };
                let again = PortConfig { intake: false, ..config.clone() };
                let reopen: Reopen = Some(Arc::new(move || port::open(again.clone())));
                let (port, why) = port::open_saying_why(config)?;
                (port, why, reopen)
            }
            PortSource::Open(mut port) => {
                port.set_intake(intake)?;
                (port, String::new(), None)
            }
        };
        Ok(OpenPort { number: self.number, port, reopen, why, sorting, kept: Kept::default() })
    }
}

/// A port at work.
struct OpenPort {
    number: InterfaceId,
    port: Box<dyn Port>,
    /// How a worker opens it again.
    reopen: Reopen,
    /// Why it is of no better kind.
    why: String,
    /// How it sorts frames, until another thread may change that.
    sorting: Option<Sorting>,
    kept: Kept,
}

/// Gives the ports to workers.
fn employ(ports: &mut Vec<OpenPort>, config: &BridgeConfig) -> Result<Workers> {
    let (given, rest): (Vec<_>, Vec<_>) = std::mem::take(ports)
        .into_iter()
        .map(|OpenPort { number, port, reopen, why, sorting, kept }| {
            ((port, reopen), (number, why, sorting, kept))
        })
        .unzip();
    let (workers, given) = Workers::employ(given, config.workers, config.intake)?;
    ports.extend(given.into_iter().zip(rest).map(|(port, (number, why, sorting, kept))| {
        OpenPort { number, port, reopen: None, why, sorting, kept }
    }));
    Ok(workers)
}

/// How far the rings of a port were emptied.
#[derive(Clone, Copy, Default)]
struct Reach {
    /// The latest instant up to which all were, if frames still wait in one.
    seen: Option<Instant>,
    /// When a worker looked last, the ring at which that is longest ago.
    looked: Option<Instant>,
}

impl Reach {
    fn join(&mut self, reached: Reached, now: Instant) {
        let earlier = |place: &mut Option<Instant>, at_ns| {
            let at = Instant::from_nanos(at_ns);
            *place = Some(place.map_or(at, |before| before.min(at)));
        };
        match reached {
            Reached::All => {}
            Reached::Behind(at_ns) => earlier(&mut self.seen, at_ns),
            // A worker that waits for its processor holds up nobody.
            Reached::Looked(at_ns) if now.since(Instant::from_nanos(at_ns)) > LOOKED_MAX => {}
            Reached::Looked(at_ns) => earlier(&mut self.looked, at_ns),
        }
    }
}

/// Ports and the links between them.
pub struct Bridge {
    ports: Vec<OpenPort>,
    workers: Workers,
    has_workers: bool,
    lanes: Vec<Lane>,
    routes: Routes,
    pool: FramePool,
    stations: Stations,
    inbox: Vec<Received>,
    wait: WaitPolicy,
    lag_max: Duration,
    cpu: Option<usize>,
    carrier: Option<CarrierPass>,
    started: Instant,
    /// When this turn should have begun.
    expected: Instant,
    upkept: Instant,
    refreshed: Instant,
    stalls: u64,
    /// Whether the time before the next turn is none in which frames waited for the loop: it is the
    /// first one, or the intake was just opened.
    is_beginning: bool,
    /// How long turns took that found work, and those that looked for it in vain without a sleep.
    busy_ns: u64,
    polling_ns: u64,
    watch: Watch,
    intake: bool,
    /// The last request about the intake that was followed.
    followed: Option<IntakeRequest>,
    /// The rates that follow the capacity of a line.
    rates: Option<Box<Rates>>,
    /// Recorders of the lanes' steps.
    taps: Option<Box<Taps>>,
    /// Where changes of its policies are offered.
    inbox_of_changes: Option<Inbox>,
    /// The loop holds it while the intake is open, so that the kernel carries frames on as soon as
    /// the loop dies.
    word: Option<Word>,
}

/// The index of the lane from one port to another.
type Routes = [[Option<usize>; PORTS_MAX]; PORTS_MAX];

impl Bridge {
    /// Opens the ports in this thread's network namespace.
    ///
    /// # Errors
    /// When an interface does not exist, the privilege is missing, there are too few or too many
    /// ports, or a way from one to another has two lanes.
    pub fn open(mut config: BridgeConfig) -> Result<Self> {
        let routes = routes(config.ports.len(), &config.lanes)?;
        let echoes = Echoes::of(config.ports.iter().filter_map(BridgePort::config));
        let ports = config.sorted_ports().into_iter();
        let mut ports = ports.map(|port| port.open(config.intake)).collect::<Result<Vec<_>>>()?;
        let (mut workers, has_workers) = (Workers::default(), config.has_workers());
        if has_workers {
            workers = employ(&mut ports, &config)?;
        }
        let room = room_of(&ports);
        let frames = u32::try_from(pool_frames(room.held_max, &config.lanes)).unwrap_or(u32::MAX);
        let mut pool = match room.shares_memory {
            true => FramePool::new_shared(frames, room.slot_len),
            false => FramePool::new(frames, room.slot_len),
        };
        for port in &mut ports {
            port.port.attach(&mut pool)?;
        }
        let carrier = config.passes_carrier.then(|| carrier_pass(&routes, ports.len()));
        if carrier.is_some() {
            // Whether that is allowed is seen now rather than when a cable is pulled.
            ports.iter_mut().try_for_each(|port| port.port.set_up(true))?;
        }
        let now = Instant::from_nanos(monotonic_ns());
        let mut rates = Rates::new((&config.lanes, echoes), pool.capacity(), now)?;
        let mut lanes: Vec<_> = config.lanes.into_iter().map(Lane::new).collect();
        if let Some(rates) = &mut rates {
            rates.begin(&mut lanes);
        }
        let mut stations = Stations::new(ports.len());
        for (index, port) in ports.iter().enumerate() {
            stations.set_own(index, port.port.address());
        }
        let mut bridge = Self {
            ports,
            workers,
            has_workers,
            stations,
            carrier,
            rates,
            lanes,
            routes,
            pool,
            inbox: Vec::with_capacity(IN_HAND_MAX),
            wait: config.wait,
            lag_max: config.lag_max,
            cpu: config.cpu,
            started: now,
            expected: now,
            upkept: now,
            refreshed: now,
            stalls: 0,
            is_beginning: true,
            busy_ns: 0,
            polling_ns: 0,
            watch: Watch::default(),
            intake: config.intake,
            followed: None,
            taps: None,
            inbox_of_changes: None,
            word: None,
        };
        bridge.pass_on_rules();
        Ok(bridge)
    }

    /// Has the loop hold this word while its intake is open.
    pub fn hold_while_open(&mut self, word: Word) {
        self.word = Some(word);
    }

    /// Returns what the operator should see to at the interfaces, each with its cure.
    pub fn warnings(&self) -> Vec<String> {
        self.ports.iter().flat_map(|port| port.port.warnings()).collect()
    }

    /// Returns why ports of kind `auto` are of no better kind.
    pub fn notes(&self) -> Vec<String> {
        let reasons = self.ports.iter().filter(|port| !port.why.is_empty());
        reasons.map(|port| format!("{}: {}", port.port.interface(), port.why)).collect()
    }

    /// Forwards until `stop` is set. `wake` are descriptors that end a sleep, and that the loop
    /// empties: signals, control.
    ///
    /// # Errors
    /// When the thread cannot be pinned or the system refuses to wait.
    pub fn run(&mut self, stop: &AtomicBool, wake: &[RawFd], board: &Board) -> Result<()> {
        // They have other processors.
        self.wait = self.workers.start(self.wait)?;
        if let Some(cpu) = self.cpu {
            pin_to_cpu(cpu)?;
        }
        set_exact_timers()?;
        let word = self.word.clone();
        let _watched = word.as_ref().map(Word::watch).transpose()?;
        let mut descriptors = self.descriptors(wake);
        let mut waiter = Waiter::new(self.wait, &descriptors);
        let mut publisher = Publisher::new(self);
        let mut now = monotonic_ns();
        board.intake.report(Done { number: 0, is_open: self.intake, by_all: true });
        while !stop.load(Ordering::Relaxed) {
            if self.follow_intake(&board.intake) {
                now = monotonic_ns();
            }
            if self.change_if_offered(&mut publisher) {
                descriptors = self.descriptors(wake);
                waiter = Waiter::new(self.wait, &descriptors);
            }
            if let Some(new) = board.recording.take() {
                Taps::add(&mut self.taps, new, &mut self.lanes);
            }
            let worked = self.turn(Instant::from_nanos(now));
            if !worked || self.is_upkeep_due(Instant::from_nanos(now), &publisher) {
                self.upkept = Instant::from_nanos(now);
                publisher.publish(self.upkept, self, board);
                self.lanes.iter_mut().for_each(|lane| lane.sample_limits(self.upkept));
                let waited = &descriptors[..descriptors.len() - wake.len()];
                if self.refresh_ports(Instant::from_nanos(now), &waiter, waited) {
                    descriptors = self.descriptors(wake);
                    waiter = Waiter::new(self.wait, &descriptors);
                }
            }
            if worked {
                waiter.worked(now);
                let began = std::mem::replace(&mut now, monotonic_ns());
                self.busy_ns += now - began;
                continue;
            }
            let upkeep = publisher.deadline().map(Instant::as_nanos);
            let deadline = self.deadline(now).into_iter().chain(upkeep).min();
            let wakes = self.workers.wakes_at(&waiter, now, deadline);
            self.expected = Instant::from_nanos(wakes);
            let began = now;
            now = self.workers.wait(&mut waiter, now, deadline)?;
            self.count_lateness(Instant::from_nanos(now));
            let first = descriptors.len() - wake.len();
            let woken = (0..wake.len()).filter(|index| waiter.is_ready(first + index));
            woken.for_each(|index| quiet(wake[index]));
            if wakes == began {
                self.polling_ns += now - began;
            }
        }
        self.finish_observing();
        publisher.end(Instant::from_nanos(now), self, board);
        Ok(())
    }

    /// Returns whether readers and ports must be looked after although frames never cease.
    fn is_upkeep_due(&self, now: Instant, publisher: &Publisher) -> bool {
        let is_due = publisher.deadline().is_some_and(|deadline| deadline <= now);
        is_due || now.since(self.upkept) >= LOOK_INTERVAL
    }

    /// Closes the intake, sends what rings and lanes hold for up to `patience`, and drops the rest
    /// as flushed.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn drain(&mut self, patience: Duration) -> Result<()> {
        for port in &mut self.ports {
            // Frames of one that cannot are taken until the time is over.
            let _taken = port.port.set_intake(false);
        }
        let mut now = monotonic_ns();
        let end = now.saturating_add(patience.as_nanos());
        let mut waiter = Waiter::new(self.wait, &self.descriptors(&[]));
        while now < end {
            if self.turn(Instant::from_nanos(now)) {
                waiter.worked(now);
                now = monotonic_ns();
            } else if self.is_busy() {
                let deadline = self.deadline(now).map_or(end, |deadline| deadline.min(end));
                let wakes = self.workers.wakes_at(&waiter, now, Some(deadline));
                self.expected = Instant::from_nanos(wakes);
                now = self.workers.wait(&mut waiter, now, Some(deadline))?;
            } else {
                break;
            }
        }
        for lane in &mut self.lanes {
            lane.flush(Instant::from_nanos(now), &mut self.pool);
        }
        Taps::hand_over(&mut self.taps, &mut self.lanes);
        // Its records end here.
        self.taps = None;
        self.await_workers(&mut waiter);
        Ok(())
    }

    /// Lets workers send what they were given, for it counts as sent.
    fn await_workers(&mut self, waiter: &mut Waiter) {
        let mut now = monotonic_ns();
        let end = now + SENDING_MAX.as_nanos();
        let is_busy = |port: &OpenPort| port.port.deadline().is_some();
        while self.has_workers && now < end && self.ports.iter().any(is_busy) {
            now = waiter.pause(now, now + RETRY_INTERVAL.as_nanos());
        }
    }

    /// Returns whether frames wait to be sent.
    fn is_busy(&self) -> bool {
        let waits = |port: &OpenPort| port.port.deadline().is_some();
        self.lanes.iter().any(|lane| lane.held() > 0) || self.ports.iter().any(waits)
    }

    /// Opens or closes the intake of the ports as another thread wants it. A port that cannot yet
    /// says so by its state, and tries again when it is refreshed. Returns whether it did
    /// something, which may take long.
    fn follow_intake(&mut self, intake: &Intake) -> bool {
        let request = intake.wanted();
        let Some(request) = request.filter(|_| request != self.followed) else { return false };
        self.followed = Some(request);
        self.is_beginning |= request.open && !self.intake;
        self.intake = request.open;
        // Never held while another bridge may take frames.
        self.word.iter().filter(|_| !request.open).for_each(Word::release);
        let mut by_all = true;
        for port in &mut self.ports {
            by_all &= port.port.set_intake(request.open).is_ok();
        }
        self.word.iter().filter(|_| request.open).for_each(Word::hold);
        intake.report(Done { number: request.number, is_open: request.open, by_all });
        true
    }

    fn descriptors(&self, wake: &[RawFd]) -> Vec<RawFd> {
        let ports = self.ports.iter().flat_map(|port| port.port.descriptors());
        ports.chain(self.workers.descriptor()).chain(wake.iter().copied()).collect()
    }

    /// Receives frames and sends those that are due; returns whether there were any.
    fn turn(&mut self, now: Instant) -> bool {
        self.restart_after_stall(now);
        (self.expected, self.is_beginning) = (now, false);
        let mut worked = false;
        let mut reach = [Reach::default(); PORTS_MAX];
        for (port, reach) in (0..self.ports.len()).zip(&mut reach) {
            self.ports[port].port.reclaim(&mut self.pool);
            worked |= self.receive(now, port, reach);
        }
        for lane in &mut self.lanes {
            // While more frames wait in a ring, time has advanced only to the last one taken.
            let LaneLabels { from, to, .. } = lane.labels();
            let reach = |of: fn(&Reach) -> Option<Instant>| {
                from.iter().filter_map(|port| of(&reach[*port])).min()
            };
            let turn = Turn { now, seen: reach(|reach| reach.seen), looked: reach(|r| r.looked) };
            let port = self.ports[*to].port.as_mut();
            worked |= lane.turn(turn, &mut self.pool, port);
        }
        if let Some(rates) = &mut self.rates {
            rates.turn(now, &mut self.lanes, self.watch.reporter());
        }
        if self.taps.is_some() {
            Taps::hand_over(&mut self.taps, &mut self.lanes);
        }
        worked
    }

    /// Starts the lines anew if the loop is late by more than `lag_max`.
    fn restart_after_stall(&mut self, now: Instant) {
        let late = now.since(self.expected);
        if late <= self.lag_max {
            return;
        }
        self.count_stall(late);
        let limit = now.before(self.lag_max);
        for lane in &mut self.lanes {
            lane.restart(now, limit, &mut self.pool);
        }
    }

    /// Notes a stall, if frames may have waited for the loop.
    fn count_stall(&mut self, length: Duration) {
        let is_idle = !self.intake && !self.is_busy();
        if !self.is_beginning && !is_idle {
            self.stalls += 1;
            self.watch.stalled = length;
        }
    }

    /// Empties the rings of a port as far as one turn allows, and hands each frame to the lane it
    /// takes; returns whether there were any. `reach` becomes how far all rings were emptied.
    fn receive(&mut self, now: Instant, port: usize, reach: &mut Reach) -> bool {
        let mut worked = false;
        for queue in self.first_queue(port)..self.ports[port].port.queues() {
            assert!(self.inbox.is_empty(), "the frames of a queue are distributed before the next");
            let input = &mut self.ports[port].port;
            let reached = input.receive(queue, BATCH, &mut self.pool, &mut self.inbox);
            assert!(self.inbox.len() < BATCH + SEGMENTS_MAX, "a turn takes what it asked for");
            assert!(
                self.inbox.is_sorted_by_key(|received| received.at_ns),
                "the stamps of a queue never go back"
            );
            worked |= !self.inbox.is_empty();
            reach.join(reached, now);
            self.distribute(now, port);
        }
        worked
    }

    /// Returns the first queue to take frames from. Where workers send, a lane may hand out frames
    /// faster than its port's worker takes them: then those of ring 0 wait there, and what it has
    /// no room for is lost of its class; rings of guaranteed classes go on.
    fn first_queue(&self, port: usize) -> usize {
        let is_fed = |lane: &&Lane| lane.labels().from.contains(&port);
        let is_jammed = || self.lanes.iter().filter(is_fed).any(Lane::is_jammed);
        if self.has_workers && is_jammed() { self.ports[port].port.shares() } else { 0 }
    }

    /// Hands each frame of the inbox to the lanes of the ports that it goes to.
    fn distribute(&mut self, now: Instant, port: usize) {
        let mut inbox = std::mem::take(&mut self.inbox);
        let mut rest = inbox.as_mut_slice();
        while !rest.is_empty() {
            let count = self.segments(rest);
            let (one, behind) = rest.split_at_mut(count);
            self.forward(now, port, one);
            rest = behind;
        }
        inbox.clear();
        self.inbox = inbox;
    }

    /// Returns how many leading frames are segments of one super-packet, in order; 1 if the first
    /// is none.
    fn segments(&self, received: &[Received]) -> usize {
        let follows = |pair: &&[Received]| self.pool.follows(pair[1].frame, pair[0].frame);
        1 + received.windows(2).take_while(follows).count()
    }

    /// Hands frames to the lanes of the ports that they go to; several are segments of one
    /// super-packet.
    fn forward(&mut self, now: Instant, port: usize, received: &mut [Received]) {
        let Received { at_ns, headers, .. } = &received[0];
        let route = self.stations.route(headers.macs, port, Instant::from_nanos(*at_ns));
        let OpenPort { number, kept, .. } = &mut self.ports[port];
        let ends = match route {
            Route::Port(to) => to..to + 1,
            Route::Others => 0..PORTS_MAX,
            Route::Local | Route::Host | Route::Reserved => 0..0,
        };
        let mut ways = self.routes[port][ends.clone()].iter().flatten();
        let Some(first) = ways.next() else {
            for one in &*received {
                kept.count(route);
                self.pool.release(one.frame);
            }
            return;
        };
        if let Some(rates) = &mut self.rates {
            let ends = (port, self.lanes[*first].labels().to);
            received.iter().for_each(|one| rates.read(one, ends, &self.pool));
        }
        for back in ends.filter_map(|to| self.routes[to][port]) {
            self.lanes[back].note_other_way(&received[0]);
        }
        for way in ways {
            for one in &*received {
                let Some(frame) = self.pool.copy(one.frame) else {
                    kept.copies += 1;
                    continue;
                };
                let mut copied = [Received { frame, ..*one }];
                self.lanes[*way].accept(now, (&mut copied, *number), &mut self.pool);
            }
        }
        self.lanes[*first].accept(now, (received, *number), &mut self.pool);
    }

    /// Returns when a link, a port, or a busy interface must be served again.
    fn deadline(&self, now: u64) -> Option<u64> {
        let lanes = self.lanes.iter().filter_map(|lane| lane.deadline()).map(Instant::as_nanos);
        let ports = self.ports.iter().filter_map(|port| port.port.deadline());
        let due = self.rates.as_ref().and_then(|rates| rates.due()).map(Instant::as_nanos);
        let busy = self.lanes.iter().any(Lane::has_outbox);
        let retry = busy.then_some(now + RETRY_INTERVAL.as_nanos());
        lanes.chain(ports).chain(retry).chain(due).min()
    }

    /// Checks whether an interface disappeared, came back or changed; returns whether descriptors
    /// are others than those that the loop waits for.
    fn refresh_ports(&mut self, now: Instant, waiter: &Waiter, waited: &[RawFd]) -> bool {
        if now.since(self.refreshed) < REFRESH_INTERVAL && !waiter.has_failed() {
            return false;
        }
        self.refreshed = now;
        let mut changed = false;
        for (index, port) in self.ports.iter_mut().enumerate() {
            let before = port.port.state();
            if port.port.refresh() != before {
                // Behind a cable that was pulled, or another interface, may be other stations.
                self.stations.forget(index);
                self.stations.set_own(index, port.port.address());
                changed = true;
            }
        }
        self.observe_faults(now, changed);
        if let Some(carrier) = &mut self.carrier {
            let up: Vec<_> =
                self.ports.iter().map(|port| port.port.state() == PortState::Up).collect();
            carrier.follow(now, &up, |port, up| self.ports[port].port.set_up(up).is_ok());
        }
        let slot = room_of(&self.ports).slot_len;
        if slot > self.pool.slot_len() {
            self.pool.grow(slot);
            for port in &mut self.ports {
                // A port that cannot share the new memory says so by its state, and tries again.
                let _tries_again = port.port.attach(&mut self.pool);
            }
        }
        waited != self.descriptors(&[])
    }

    /// Returns the number of frames of the pool that lanes and ports hold.
    fn frames_held(&self) -> usize {
        let ports = self.ports.iter().map(|port| port.port.held()).sum::<usize>();
        ports + self.lanes.iter().map(Lane::held).sum::<usize>()
    }

    /// Returns the names of the ports.
    fn names(&self) -> Vec<String> {
        let ports = self.ports.iter().map(|port| (port.port.interface(), port.port.kind()));
        port_names(&ports.collect::<Vec<_>>())
    }

    /// Returns the status at once: for callers whose frames may wait for it.
    pub fn status(&mut self) -> Status {
        let board = Board::new();
        let now = Instant::from_nanos(monotonic_ns());
        Publisher::new(self).end(now, self, &board);
        board.latest().expect("the status was published")
    }
}

impl Source for Bridge {
    fn labels(&self) -> Labels {
        let port = |port: &OpenPort| (port.port.kind(), port.why.clone());
        Labels {
            started: self.started,
            frames_max: self.pool.capacity() as u64,
            lanes: self.lanes.iter().map(|lane| lane.labels().clone()).collect(),
            ports: self.ports.iter().map(port).collect(),
        }
    }

    fn head(&mut self, head: &mut Head) {
        let used = self.pool.capacity() - self.pool.free_count();
        assert_eq!(used, self.frames_held(), "a frame is free, or a port or lane holds it");
        head.stalls = self.stalls;
        (head.busy_ns, head.polling_ns) = (self.busy_ns, self.polling_ns);
        let lent = self.ports.iter().map(|port| port.port.lent()).sum::<usize>();
        head.frames_free = (self.pool.free_count() + lent) as u64;
        for (lane, unread) in self.lanes.iter().zip(&mut head.unread) {
            *unread = *lane.unread();
        }
        for (lane, removed) in self.lanes.iter().zip(&mut head.removed) {
            *removed = lane.retired();
        }
        for (lane, rate) in head.rates.iter_mut().enumerate() {
            *rate = self.rates.as_ref().and_then(|rates| rates.of_lane(lane));
        }
        for (lane, found) in self.lanes.iter().zip(&mut head.found) {
            *found = lane.found();
        }
        for (port, counts) in self.ports.iter_mut().zip(&mut head.ports) {
            port.count(self.has_workers, counts);
        }
    }

    fn leaf(&mut self, lane: usize, leaf: usize) -> LeafCounts {
        self.lanes[lane].counts(leaf)
    }

    fn hosts(&self, lane: usize, leaf: usize, most: usize) -> Option<HostAccounts> {
        self.lanes[lane].hosts(leaf, most)
    }

    fn delays(&mut self, lane: usize, leaf: usize, mark: bool, to: &mut Histogram) {
        self.lanes[lane].copy_delays(leaf, mark, to);
    }
}

impl OpenPort {
    fn count(&mut self, has_workers: bool, counts: &mut PortCounts) {
        counts.interface.clear();
        counts.interface.push_str(self.port.interface());
        counts.state = self.port.state();
        counts.counters = self.port.counters();
        counts.rings = self.port.rings();
        counts.workers = if has_workers { self.port.shares() } else { 0 };
        counts.kept = self.kept;
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(carrier) = &mut self.carrier {
            carrier.restore(|port, up| self.ports[port].port.set_up(up).is_ok());
        }
    }
}

/// Empties a descriptor that woke the loop, which would else wake it again and again.
fn quiet(readable: RawFd) {
    let mut bytes = [0u8; 64];
    // SAFETY: `bytes` is valid for its length. The caller of [`Bridge::run`] keeps the descriptor
    // open; one that is not is an error of this call, which changes nothing.
    unsafe { libc::read(readable, bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Returns the room that the ports take together.
fn room_of(ports: &[OpenPort]) -> Room {
    ports.iter().map(|port| port.port.room()).fold(Room::default(), Room::with)
}

fn carrier_pass(routes: &Routes, ports: usize) -> CarrierPass {
    let reaches = |from: usize| (0..ports).filter(|to| routes[from][*to].is_some()).collect();
    CarrierPass::new((0..ports).map(reaches).collect())
}

/// Returns the lane of each way from a port to another.
fn routes(ports: usize, lanes: &[LaneConfig]) -> Result<Routes> {
    let refused = |why: String, cure| SystemError::refused("join the ports", why, cure);
    if !(2..=PORTS_MAX).contains(&ports) {
        let why = format!("{ports} ports are not 2 to {PORTS_MAX}");
        return Err(refused(why, "make several bridges"));
    }
    let mut routes = Routes::default();
    for (index, lane) in lanes.iter().enumerate() {
        for from in &lane.from {
            let name = &lane.name;
            if *from >= ports || lane.to >= ports || *from == lane.to {
                return Err(refused(format!("`{name}` names no two ports"), ""));
            }
            if routes[*from][lane.to].replace(index).is_some() {
                return Err(refused(format!("`{name}` shares a way with another"), ""));
            }
        }
    }
    Ok(routes)
}

/// The most frames that are neither in a lane nor in a port: those of one turn of one ring, with
/// the rest of a super-packet, unless that is one of very small segments.
const IN_HAND_MAX: usize = BATCH + 2048;
/// How long ago a worker may have looked for frames for the loop to wait until it does so again.
const LOOKED_MAX: Duration = Duration::from_millis(1);
/// The interval at which requests for the status are noticed while frames keep arriving.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The time after which a busy interface is offered its frames again.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);
/// How long workers may send what they were given when the loop ends.
const SENDING_MAX: Duration = Duration::from_millis(50);
/// The interval at which interfaces are checked while frames keep arriving.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
