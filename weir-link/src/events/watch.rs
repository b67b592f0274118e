//! Finds the faults of a bridge from its counters, at the looks of its run loop.
//!
//! Pure code: the loop reads ports, lanes and clocks, and passes what it read. Invariant: a look
//! that finds nothing allocates nothing, and takes a time that does not depend on the number of
//! classes.

use weir_core::units::{Duration, Instant};

pub(crate) use super::fault::Moment;
use super::fault::{Fault, Manner, Observation};
use super::{About, Event, Kind, Limiter, Reporter};
use crate::port::{PortCounters, PortState, RINGS_MAX};

/// The counts and states of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortReading<'a> {
    pub interface: &'a str,
    pub state: PortState,
    pub mtu: usize,
    pub counters: &'a PortCounters,
    /// Frames for which there was no copy for lack of room in the pool.
    pub no_copy: u64,
    /// Whether frames wait because the port takes none.
    pub is_blocked: bool,
    /// Frames that were dropped because the port took none for long.
    pub busy: u64,
}

/// The counts and states of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneReading<'a> {
    pub name: &'a str,
    pub is_behind: bool,
    /// Frames lost because the lane held as many as it may.
    pub pool: u64,
}

/// The counts and states of the loop itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopReading {
    /// How often it stalled.
    pub stalls: u64,
    /// For how long it stalled the last time.
    pub stalled: Duration,
    /// Frames dropped because they were too old.
    pub stale: u64,
    /// By how much the system woke the loop late, beyond [`LATE_MIN`] each time; a sum.
    pub late: Duration,
}

/// The watch over a bridge.
#[derive(Debug)]
pub(crate) struct Monitor {
    reporter: Reporter,
    limiter: Limiter,
    ports: Vec<PortWatch>,
    lanes: Vec<LaneWatch>,
    own: LoopWatch,
    clock: Option<Moment>,
}

impl Monitor {
    /// Watches ports, each with what comes by its rings, and this many lanes. `name` names the
    /// bridge.
    pub(crate) fn new(
        reporter: Reporter,
        name: String,
        rings: Vec<Vec<Option<String>>>,
        lanes: usize,
    ) -> Self {
        Self {
            reporter,
            limiter: Limiter::default(),
            ports: rings.into_iter().map(PortWatch::new).collect(),
            lanes: (0..lanes).map(|_| LaneWatch::new()).collect(),
            own: LoopWatch::new(name),
            clock: None,
        }
    }

    /// Port number `index` is another one of the interface of an earlier port, which tells of that:
    /// each event of the interface comes once.
    pub(crate) fn share_interface(&mut self, index: usize) {
        self.ports[index].shares_interface = true;
    }

    /// From now on names the rings of port number `index` so; `names` becomes what they were.
    pub(crate) fn name_rings(&mut self, index: usize, names: &mut RingNames) {
        std::mem::swap(&mut self.ports[index].ring_names, names);
    }

    /// Begins a look: compares the clocks, and tells what was left out.
    pub(crate) fn begin(&mut self, moment: Moment) {
        self.observe_clock(moment);
        let reporter = &self.reporter;
        self.limiter.report_left_out(moment.wall_ns, &mut |event| reporter.push(event));
    }

    /// Looks at port number `index`.
    pub(crate) fn port(&mut self, index: usize, moment: Moment, reading: &PortReading<'_>) {
        let once = Once { limiter: &mut self.limiter, reporter: &self.reporter, moment };
        self.ports[index].observe(once, reading);
    }

    /// Looks at lane number `index`.
    pub(crate) fn lane(&mut self, index: usize, moment: Moment, reading: &LaneReading<'_>) {
        self.lanes[index].observe(moment, reading, &self.reporter);
    }

    /// Looks at the loop.
    pub(crate) fn own(&mut self, moment: Moment, reading: &LoopReading) {
        self.own.observe(moment, reading, &self.reporter);
    }

    /// Ends the faults that are no states, and tells what was left out: nothing more follows.
    pub(crate) fn finish(&mut self, moment: Moment) {
        let reporter = &self.reporter;
        self.limiter.report_rest(moment.wall_ns, &mut |event| reporter.push(event));
        let ports = self.ports.iter_mut().flat_map(PortWatch::faults);
        let lanes = self.lanes.iter_mut().flat_map(|lane| [&mut lane.behind, &mut lane.pool.fault]);
        let own = [&mut self.own.stall, &mut self.own.late];
        for fault in ports.chain(lanes).chain(own) {
            fault.finish(moment, &self.reporter);
        }
    }

    fn observe_clock(&mut self, moment: Moment) {
        let Some(before) = self.clock.replace(moment) else { return };
        let passed = moment.now.since(before.now).as_nanos();
        let expected = before.wall_ns.saturating_add(passed);
        let step = moment.wall_ns.abs_diff(expected);
        if step < STEP_MIN.as_nanos() + passed / SLEW {
            return;
        }
        let way = if moment.wall_ns > expected { "forward" } else { "back" };
        let detail = format!("{way} by {}", super::time::duration(step));
        let about = About { subject: "the wall clock", detail: &detail, ..About::default() };
        let mut once = Once { limiter: &mut self.limiter, reporter: &self.reporter, moment };
        once.report(Kind::ClockStepped, about);
    }
}

/// Reports events that belong to no fault, but not too often.
struct Once<'a> {
    limiter: &'a mut Limiter,
    reporter: &'a Reporter,
    moment: Moment,
}

impl Once<'_> {
    fn report(&mut self, kind: Kind, about: About<'_>) {
        if self.limiter.admits(self.moment.wall_ns, kind, about.subject) {
            self.reporter.push(Event::at(kind, self.moment.wall_ns, about));
        }
    }
}

/// A count that grows while a fault lasts. It was 0 when the bridge was opened.
#[derive(Debug)]
struct Growing {
    fault: Fault,
    seen: u64,
}

impl Growing {
    fn new(manner: Manner) -> Self {
        Self { fault: Fault::new(manner), seen: 0 }
    }

    fn observe(&mut self, moment: Moment, total: u64, about: About<'_>, reporter: &Reporter) {
        let grew = total > std::mem::replace(&mut self.seen, total);
        self.fault.observe(moment, Observation::state(moment, grew, total), about, reporter);
    }
}

#[derive(Debug)]
struct PortWatch {
    /// Whether an earlier port tells of the interface.
    shares_interface: bool,
    known: Option<Known>,
    down: Fault,
    gone: Fault,
    busy: Fault,
    busy_lost: u64,
    /// Since when frames wait of which the port takes none, and how many it had sent by then.
    blocked: Option<(Instant, u64)>,
    too_long: Growing,
    pool: Growing,
    rings: Vec<Growing>,
    ring_names: RingNames,
}

/// For each ring: the frames that come by it, as a sentence says it, and its class, if it has one.
pub(crate) type RingNames = Vec<(String, String)>;

/// Returns the names of rings with these classes.
pub(crate) fn ring_names(classes: impl IntoIterator<Item = Option<String>>) -> RingNames {
    let name = |class: Option<String>| match class {
        Some(class) => (format!("class `{class}`"), class),
        None => ("classes without a ring of their own".to_owned(), String::new()),
    };
    classes.into_iter().map(name).collect()
}

/// The last known name and MTU of an interface, and how often it was another one.
#[derive(Debug)]
struct Known {
    interface: String,
    mtu: usize,
    rebinds: u64,
    /// The interface was gone, and has not been up since.
    is_new: bool,
}

impl PortWatch {
    fn new(rings: Vec<Option<String>>) -> Self {
        Self {
            shares_interface: false,
            known: None,
            down: Fault::new(DOWN),
            gone: Fault::new(GONE),
            busy: Fault::new(BUSY),
            busy_lost: 0,
            blocked: None,
            too_long: Growing::new(TOO_LONG),
            pool: Growing::new(POOL),
            rings: rings.iter().map(|_| Growing::new(OVERRUN)).collect(),
            ring_names: ring_names(rings),
        }
    }

    fn faults(&mut self) -> impl Iterator<Item = &mut Fault> {
        let counts = [&mut self.too_long, &mut self.pool].into_iter().chain(&mut self.rings);
        let counted = counts.map(|growing| &mut growing.fault);
        [&mut self.down, &mut self.gone, &mut self.busy].into_iter().chain(counted)
    }

    fn observe(&mut self, mut once: Once<'_>, reading: &PortReading<'_>) {
        if !self.shares_interface {
            self.observe_state(&once, reading);
            self.observe_name(&mut once, reading);
        }
        let (moment, reporter) = (once.moment, once.reporter);
        self.observe_sending(moment, reading, reporter);
        let counters = reading.counters;
        let about = About { subject: reading.interface, ..About::default() };
        let too_long = counters.truncated + counters.oversize + counters.send_too_long;
        self.too_long.observe(moment, too_long, about, reporter);
        self.pool.observe(moment, counters.pool_exhausted + reading.no_copy, about, reporter);
        for (ring, (growing, (detail, class))) in
            self.rings.iter_mut().zip(&self.ring_names).enumerate().take(RINGS_MAX)
        {
            let about = About { detail, class, ..about };
            growing.observe(moment, counters.ring_overruns[ring], about, reporter);
        }
    }

    /// An interface that is removed is down first. One that comes back may need a moment until it
    /// is up, which is no fault of its own.
    fn observe_state(&mut self, once: &Once<'_>, reading: &PortReading<'_>) {
        let (moment, lost) = (once.moment, reading.counters.send_no_link);
        let about = About { subject: reading.interface, ..About::default() };
        let is_gone = reading.state == PortState::Gone;
        self.gone.observe(moment, Observation::state(moment, is_gone, lost), about, once.reporter);
        let is_new = self.known.as_ref().is_some_and(|known| known.is_new);
        let is_down = match reading.state {
            PortState::Down => true,
            PortState::Gone => self.down.is_reported(),
            PortState::Up => false,
        };
        if is_gone || is_new && !is_down {
            self.down.dismiss();
        }
        self.down.observe(moment, Observation::state(moment, is_down, lost), about, once.reporter);
    }

    fn observe_name(&mut self, once: &mut Once<'_>, reading: &PortReading<'_>) {
        let is_gone = reading.state == PortState::Gone;
        let rebinds = reading.counters.rebinds;
        let Some(known) = &mut self.known else {
            let (interface, mtu) = (reading.interface.to_owned(), reading.mtu);
            self.known = Some(Known { interface, mtu, rebinds, is_new: is_gone });
            return;
        };
        let was_new = known.is_new;
        known.is_new = is_gone || was_new && reading.state != PortState::Up;
        if is_gone {
            return;
        }
        let subject = reading.interface;
        if known.interface != subject {
            let detail = std::mem::replace(&mut known.interface, subject.to_owned());
            if known.rebinds == rebinds {
                once.report(
                    Kind::PortRenamed,
                    About { subject, detail: &detail, ..About::default() },
                );
            }
        }
        // Where it was gone, its return says that already.
        if known.rebinds != rebinds && !was_new {
            once.report(Kind::PortTakenUp, About { subject, ..About::default() });
        }
        known.rebinds = rebinds;
        if known.mtu != reading.mtu {
            let detail = format!("{} bytes; it was {}", reading.mtu, known.mtu);
            known.mtu = reading.mtu;
            once.report(Kind::MtuChanged, About { subject, detail: &detail, ..About::default() });
        }
    }

    /// A port is busy if it refused frames, or if frames wait and it took none for a while.
    fn observe_sending(&mut self, moment: Moment, reading: &PortReading<'_>, reporter: &Reporter) {
        let (sent, lost) = (reading.counters.sent, reading.busy + reading.counters.send_refused);
        let refused = lost > std::mem::replace(&mut self.busy_lost, lost);
        self.blocked = match self.blocked {
            _ if reading.state != PortState::Up || !reading.is_blocked => None,
            Some(blocked) if blocked.1 == sent => Some(blocked),
            _ => Some((moment.now, sent)),
        };
        let blocked = self.blocked.map(|(since, _)| since);
        let blocked = blocked.filter(|since| moment.now.since(*since) >= BLOCKED_MIN);
        let observation =
            Observation { since: blocked.or(refused.then_some(moment.now)), total: lost };
        let about = About { subject: reading.interface, ..About::default() };
        self.busy.observe(moment, observation, about, reporter);
    }
}

#[derive(Debug)]
struct LaneWatch {
    behind: Fault,
    pool: Growing,
}

impl LaneWatch {
    fn new() -> Self {
        Self { behind: Fault::new(BEHIND), pool: Growing::new(POOL) }
    }

    fn observe(&mut self, moment: Moment, reading: &LaneReading<'_>, reporter: &Reporter) {
        let about = About { subject: reading.name, ..About::default() };
        self.behind.observe(
            moment,
            Observation::state(moment, reading.is_behind, 0),
            about,
            reporter,
        );
        self.pool.observe(moment, reading.pool, about, reporter);
    }
}

#[derive(Debug)]
struct LoopWatch {
    name: String,
    stall: Fault,
    stalls: u64,
    late: Fault,
    /// When lateness was last judged, and the sum then.
    judged: Option<(Instant, Duration)>,
}

impl LoopWatch {
    fn new(name: String) -> Self {
        Self { name, stall: Fault::new(STALL), stalls: 0, late: Fault::new(LATE), judged: None }
    }

    fn observe(&mut self, moment: Moment, reading: &LoopReading, reporter: &Reporter) {
        let has_stalled = reading.stalls > self.stalls;
        self.stalls = reading.stalls;
        let since = has_stalled.then(|| moment.now.before(reading.stalled));
        let observation = Observation { since, total: reading.stale };
        let detail = since.map(|_| super::time::duration(reading.stalled.as_nanos()));
        let detail = detail.unwrap_or_default();
        let about = About { subject: &self.name, detail: &detail, ..About::default() };
        self.stall.observe(moment, observation, about, reporter);
        self.observe_lateness(moment, reading.late, reporter);
    }

    fn observe_lateness(&mut self, moment: Moment, late: Duration, reporter: &Reporter) {
        let (since, before) = *self.judged.get_or_insert((moment.now, late));
        let passed = moment.now.since(since).as_nanos();
        if passed < LATE_WINDOW.as_nanos() {
            return;
        }
        self.judged = Some((moment.now, late));
        let share = (late.as_nanos() - before.as_nanos()).saturating_mul(100) / passed;
        let is_late = share >= LATE_PERCENT;
        let detail = if is_late { format!("{share} % of the time") } else { String::new() };
        let about = About { subject: &self.name, detail: &detail, ..About::default() };
        self.late.observe(moment, Observation::state(moment, is_late, 0), about, reporter);
    }
}

/// A wake-up is late if it is later than this.
pub(crate) const LATE_MIN: Duration = Duration::from_millis(1);

/// How long a state of a port lasts before it is told: a removed interface is down before it is
/// gone.
const SETTLE: Duration = Duration::from_millis(200);
/// How long a port takes none of the frames that wait before it is busy.
const BLOCKED_MIN: Duration = Duration::from_millis(100);
/// How long a count does not grow before a fault is over.
const CALM: Duration = Duration::from_secs(1);

const DOWN: Manner =
    Manner { kind: Kind::PortDown, patience: SETTLE, calm: Duration::ZERO, is_state: true };
const GONE: Manner = Manner { kind: Kind::PortGone, ..DOWN };
const OVERRUN: Manner =
    Manner { kind: Kind::OverrunBegan, patience: Duration::ZERO, calm: CALM, is_state: false };
const POOL: Manner = Manner { kind: Kind::PoolExhausted, ..OVERRUN };
const TOO_LONG: Manner = Manner { kind: Kind::FramesTooLong, ..OVERRUN };
const BUSY: Manner = Manner { kind: Kind::PortBusy, ..OVERRUN };
const BEHIND: Manner =
    Manner { kind: Kind::Behind, patience: Duration::from_millis(300), ..OVERRUN };
const STALL: Manner =
    Manner { kind: Kind::Stall, patience: Duration::ZERO, calm: SETTLE, is_state: false };
const LATE: Manner = Manner {
    kind: Kind::WakeUpsLate,
    patience: Duration::from_secs(3),
    calm: Duration::from_secs(5),
    is_state: false,
};

/// A step of the wall clock is at least this; less is slewing.
const STEP_MIN: Duration = Duration::from_millis(10);
/// The wall clock is slewed by at most one part in this many.
const SLEW: u64 = 1000;
/// Lateness is judged over this time.
const LATE_WINDOW: Duration = Duration::from_secs(1);
/// Wake-ups are late while lateness takes this part of the time.
const LATE_PERCENT: u64 = 10;
