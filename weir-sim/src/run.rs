//! The run: events in order, one link, everything counted.
//!
//! Sources that do not listen need no event after their packet is offered: what becomes of it is
//! known when it leaves the link. TCP does listen, so with TCP the link is never advanced past the
//! moment at which a departure could come back as an arrival: a packet that leaves at t is received
//! no earlier than t plus the link's delay.

mod ahead;
mod error;

pub use error::RunError;

use crate::behind::RunningBehind;
use crate::bins::Bins;
use crate::change::ChangeReport;
use crate::classes::{ClassSums, phase_start};
use crate::detailed::Detailed;
use crate::events::Events;
use crate::interval::Interval;
use crate::kinds::{Datagram, Step};
use crate::losses::Losses;
use crate::meter::{DROPPED, LEFT, LinkMeter, SENT, SourceMeter, add};
use crate::network;
use crate::packets::{Content, Flight, Packets};
use crate::quic;
use crate::random::Random;
use crate::report::{Report, Results};
use crate::scenario::{Mtu, Scenario, Sizes, Source, Traffic};
use crate::segments::Segments;
use crate::source::{OpenLoop, Rhythm};
use crate::tcp::Connection;
use crate::transport::{Processing, Served, Side, Transport};
use crate::watch::{REST_MAX, Watch, Watching};
use std::net::IpAddr;
use weir_core::change::Change;
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::event::{Departure, Dropped};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Arrival, LinkPlan, Packet};
use weir_core::packet::{Addresses, FlowKey, Headers, Protocol};
use weir_core::sched::Kin;
use weir_core::units::{Duration, Instant};
use weir_trace::drive::Drive;
use weir_trace::explain::Explained;

/// Simulates `scenario`. Calls `progress` with the simulated time a hundred times on the way.
///
/// # Errors
/// When the scenario contradicts itself; see [`RunError`].
pub fn run(scenario: &Scenario, progress: &mut dyn FnMut(Duration)) -> Result<Report, RunError> {
    run_watched(scenario, Watch::default(), progress)
}

/// As [`run`], and explains why packets waited; the report names the `slowest` slowest ones.
///
/// # Errors
/// As [`run`].
pub fn run_explained(
    scenario: &Scenario,
    slowest: usize,
    progress: &mut dyn FnMut(Duration),
) -> Result<Report, RunError> {
    run_watched(scenario, Watch { slowest: Some(slowest), ..Watch::default() }, progress)
}

/// As [`run`], and tells what `watch` asks for; in a network, of every outlet, but why packets
/// waited of the main one.
///
/// # Errors
/// As [`run`].
pub fn run_watched<'a>(
    scenario: &'a Scenario,
    watch: Watch<'a>,
    progress: &mut dyn FnMut(Duration),
) -> Result<Report, RunError> {
    let (scenario, watch) = (&scenario.seeded(), watch.shortened());
    if let Some(network) = &scenario.network {
        return network::run(scenario, network, watch, progress);
    }
    let mut run = Run::new(scenario)?;
    run.watch(watch)?;
    if run.can_run_ahead() {
        run.all_ahead(progress);
    } else {
        run.all(progress);
    }
    Ok(run.report())
}

/// As [`run`], and returns beside the report the most bytes that waited in each leaf while it
/// counted; after a change of the link no more is noted, in a network nothing. That asks the
/// link's account with every packet.
///
/// # Errors
/// As [`run`].
pub fn run_noting_peaks(
    scenario: &Scenario,
    progress: &mut dyn FnMut(Duration),
) -> Result<(Report, Vec<u64>), RunError> {
    let scenario = &scenario.seeded();
    if let Some(network) = &scenario.network {
        return Ok((network::run(scenario, network, Watch::default(), progress)?, Vec::new()));
    }
    let mut run = Run::new(scenario)?;
    run.peaks = Some(vec![0; scenario.link.tree.leaf_count()]);
    run.all(progress);
    let peaks = run.peaks.take().unwrap_or_default();
    Ok((run.report(), peaks))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The report begins here.
    Count,
    /// Report the progress to the caller.
    Progress,
    /// The link changes to another plan.
    Change(u32),
    /// An open-loop source sends.
    Send(u32),
    /// A source opens its next connection.
    Open(u32),
    /// A source of connections is given no more to send.
    Close(u32),
    /// A packet reaches the receiver of a connection.
    Deliver(Handle),
    /// A packet comes back to the sender of a connection.
    Return(Handle),
    /// A timer of an endpoint ends.
    Wake(u32, Side),
}

/// A source that runs, by its kind.
pub(crate) enum Runner {
    Open(OpenLoop),
    Tcp(Box<Connection>),
    Quic(Box<quic::Connection>),
}

impl Runner {
    /// Sets up what `source` sends.
    pub(crate) fn new(seed: u64, source: &Source) -> Result<Self, RunError> {
        let random = Random::stream(seed, &source.name);
        let traffic = &source.traffic;
        if !traffic.connects() {
            return Ok(Runner::Open(open_loop(source, random)));
        }
        let refuse = |why| RunError::Endpoints(source.name.clone(), why);
        let ip_header = check_endpoints(&source.headers, traffic).map_err(refuse)?;
        let work = traffic.work().map(|work| work.start());
        if let Some(plan) = traffic.quic() {
            let connection = quic::Connection::new(plan, ip_header, work, random);
            return Ok(Runner::Quic(Box::new(connection)));
        }
        let tcp = traffic.tcp().expect("a connection is of QUIC or of TCP");
        let connection = Connection::new(tcp, ip_header, random);
        Ok(Runner::Tcp(Box::new(match work {
            Some(work) => connection.with_work(work),
            None => connection,
        })))
    }

    /// The connection of a source that has one.
    pub(crate) fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Runner::Tcp(connection) => connection.as_mut(),
            Runner::Quic(connection) => connection.as_mut(),
            Runner::Open(_) => unreachable!("only a source of connections has this event"),
        }
    }

    /// Notes each segment from now on, if it is TCP.
    pub(crate) fn note_segments(&mut self) {
        if let Runner::Tcp(connection) = self {
            connection.note_segments();
        }
    }

    /// Returns the segments noted, if they were.
    pub(crate) fn take_segments(&mut self) -> Option<Segments> {
        match self {
            Runner::Tcp(connection) => connection.take_segments(),
            _ => None,
        }
    }

    /// Writes what the connections did until `now` to the source's meter, and counts anew.
    pub(crate) fn report(&mut self, now: Instant, meter: &mut SourceMeter) {
        match self {
            Runner::Tcp(connection) => {
                meter.tcp = Some(connection.take_report(now));
                meter.playback = connection.playback(now);
            }
            Runner::Quic(connection) => {
                meter.quic = Some(connection.take_report());
                meter.playback = connection.playback(now);
            }
            Runner::Open(_) => {}
        }
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    drive: Drive,
    events: Events<Event>,
    runners: Vec<Runner>,
    /// When the receiver of each source answers.
    processing: Vec<Processing>,
    state: State<'a>,
    /// Whether packets that leave can cause arrivals.
    listening: bool,
    end: Instant,
    /// Packets of an endpoint on their way to the link or back.
    sending: Vec<Content>,
    /// Packets offered since drops were last counted, and after how many they are.
    unsettled: u32,
    unsettled_max: u32,
    /// The plan that the link has.
    plan: &'a LinkPlan,
    /// The service of each class until the last change.
    classes: ClassSums,
    changes: Vec<ChangeReport>,
    /// The most bytes that waited in each leaf, where the caller wants them.
    peaks: Option<Vec<u64>>,
}

/// The state that departures and drops change; apart from the link, which reports them.
struct State<'a> {
    packets: Packets,
    /// Whether each handle is a [`Flight`] itself, so that no packet needs a slot.
    packed: bool,
    meters: Vec<SourceMeter>,
    /// Per source: leaf, bytes of a frame in front of its payload, and whether it listens.
    lanes: Vec<Lane>,
    /// Of each source of connections: the lane of packets with each codepoint of ECN.
    marked_lanes: Vec<Option<Box<MarkedLanes>>>,
    /// Where rules test what differs between packets of a flow.
    detailed: Option<Box<Detailed>>,
    link: LinkMeter,
    /// The bottleneck behind the link.
    behind: Option<Box<RunningBehind>>,
    /// Losses of sources behind the link, if one has any.
    losses: Option<Box<Losses>>,
    delay: Duration,
    window: Interval,
    counting: bool,
    /// Departures that become arrivals.
    arriving: Vec<(Instant, Handle)>,
    /// Why packets waited, where the caller wants it.
    explained: Option<Explained>,
    /// Where packets and bins are reported, where the caller wants them.
    watching: Option<Box<Watching<'a>>>,
}

/// Where the packets of a source go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    leaf: LeafId,
    /// The properties that all its packets share: flow, DSCP and ECN, the meter of the rule that
    /// leads to the leaf.
    packet: Packet,
    /// Bytes of a frame in front of a UDP payload.
    headers: u32,
    listens: bool,
    /// The datagrams, if each may be several frames.
    datagram: Option<Datagram>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, RunError> {
        if scenario.warmup >= scenario.duration {
            return Err(RunError::NothingCounts(scenario.warmup, scenario.duration));
        }
        check_names(&scenario.sources)?;
        let drive = Drive::new(&scenario.link).map_err(RunError::Link)?;
        let window = Interval::reported(scenario.warmup, scenario.duration);
        let leaves = scenario.link.tree.leaf_count();
        let mut run = Self {
            scenario,
            drive,
            events: Events::new(),
            runners: Vec::with_capacity(scenario.sources.len()),
            processing: Processing::all(scenario),
            state: State {
                packets: Packets::default(),
                packed: false,
                meters: vec![SourceMeter::default(); scenario.sources.len()],
                lanes: lanes(&scenario.sources, &scenario.classifier, |interface| interface),
                marked_lanes: marked_lanes(&scenario.sources, &scenario.classifier, |it| it),
                detailed: Detailed::new(&scenario.sources, &scenario.classifier, |it| it),
                link: LinkMeter::new(leaves, window),
                behind: behind(scenario, window),
                losses: Losses::of(scenario).map(Box::new),
                delay: scenario.delay,
                window,
                counting: false,
                arriving: Vec::new(),
                explained: None,
                watching: None,
            },
            listening: false,
            end: window.end,
            sending: Vec::new(),
            unsettled: 0,
            unsettled_max: UNSETTLED_MAX,
            plan: &scenario.link,
            classes: ClassSums::default(),
            changes: Vec::new(),
            peaks: None,
        };
        run.events.push(window.start, Event::Count);
        for (index, change) in scenario.changes.iter().enumerate() {
            change.link.build().map_err(RunError::Link)?;
            run.events.push(change.at, Event::Change(index as u32));
        }
        run.events.push(Instant::ZERO, Event::Progress);
        for (index, source) in scenario.sources.iter().enumerate() {
            run.start(index as u32, source)?;
        }
        Ok(run)
    }

    fn start(&mut self, index: u32, source: &Source) -> Result<(), RunError> {
        let runner = Runner::new(self.scenario.seed, source)?;
        if let Runner::Open(open) = &runner {
            if let Some(at) = open.next_at() {
                self.events.push(at, Event::Send(index));
            }
            self.runners.push(runner);
            return Ok(());
        }
        self.runners.push(runner);
        self.listening = true;
        self.events.push(source.start, Event::Open(index));
        if let Some(stop) = source.stop {
            self.events.push(stop, Event::Close(index));
        }
        Ok(())
    }

    fn watch(&mut self, watch: Watch<'a>) -> Result<(), RunError> {
        let tree = &self.scenario.link.tree;
        if let Some(runner) = watch.flow.and_then(|at| self.runners.get_mut(at)) {
            runner.note_segments();
        }
        if watch.objects {
            self.state.meters.iter_mut().for_each(|meter| meter.objects = Some(Vec::new()));
        }
        if let Some(slowest) = watch.slowest {
            self.drive.explain();
            self.state.explained = Some(Explained::new(tree, slowest));
        }
        let bins = |width| Bins::of(self.scenario, width).ok_or(RunError::Bins(width));
        let bins = watch.bins.map(bins).transpose()?.and_then(|mut all| all.pop());
        if bins.is_some() || watch.packets.is_some() {
            // A watch is shown each drop at once.
            self.unsettled_max = 1;
            let (packets, sources) = (watch.packets, self.scenario.sources.as_slice());
            let rest = watch.rest;
            let watching = Watching { bins, packets, rest, tree, sources };
            self.state.watching = Some(Box::new(watching));
        }
        Ok(())
    }

    fn all(&mut self, progress: &mut dyn FnMut(Duration)) {
        while let Some(at) = self.advance_to_event() {
            let (_, event) = self.events.first().expect("an event is due");
            if let Event::Send(source) = event {
                // The source's next event takes the place of this one.
                self.send(at, source);
                self.deliver();
                continue;
            }
            self.events.pop();
            self.happen(at, event, progress);
        }
        progress(self.scenario.duration);
    }

    /// Handles an event that is no packet of an open-loop source.
    fn happen(&mut self, at: Instant, event: Event, progress: &mut dyn FnMut(Duration)) {
        match event {
            Event::Count => self.begin_report(at),
            Event::Change(index) => self.change(at, index as usize),
            Event::Progress => {
                progress(at.since(Instant::ZERO));
                let step = Duration::from_nanos(self.scenario.duration.as_nanos() / 100 + 1);
                self.events.push(at.after(step), Event::Progress);
            }
            _ => self.connection_event(at, event),
        }
    }

    /// Lets the link send all that leaves before the next event, whose time is answered; at the end
    /// of the run there is none.
    #[inline]
    fn advance_to_event(&mut self) -> Option<Instant> {
        loop {
            let event = self.events.next_at().filter(|&at| at < self.end);
            let until = event.unwrap_or(self.end);
            let Some(due) = self.drive.due().filter(|&due| due <= until) else { return event };
            // See the head of this file.
            let safe = if self.listening { until.min(due.after(self.state.delay)) } else { until };
            self.advance(safe);
            self.deliver();
        }
    }

    /// Lets the link send what leaves up to `until`.
    #[inline]
    fn advance(&mut self, until: Instant) {
        for departure in self.drive.serve(&[], until) {
            self.state.departed(departure);
        }
    }

    /// Makes departures to sources that listen arrivals.
    fn deliver(&mut self) {
        for (at, handle) in self.state.arriving.drain(..) {
            self.events.push(at, Event::Deliver(handle));
        }
    }

    #[inline]
    fn send(&mut self, at: Instant, source: u32) {
        let Runner::Open(runner) = &mut self.runners[source as usize] else {
            unreachable!("only open-loop sources have this event")
        };
        let connection = runner.datagram();
        let length = runner.send();
        match runner.next_at() {
            Some(next) => self.events.replace_first(next, Event::Send(source)),
            None => drop(self.events.pop()),
        }
        let flight = Flight { source, length, connection };
        let handle = self.state.packets.insert(flight);
        let arrival = self.state.lanes[source as usize].arrival(at, handle, length);
        let arrival = self.detailed(source, &Content::Nothing, arrival);
        self.offer(at, arrival, flight);
    }

    /// Returns the arrival of a packet where its own headers lead it, if rules test those.
    #[inline]
    fn detailed(&mut self, number: u32, content: &Content, arrival: Arrival) -> Arrival {
        let Some(detailed) = &mut self.state.detailed else { return arrival };
        let (headers, found) = detailed.find((number, self.scenario), content, arrival);
        let (host, meter) = (headers.host(found.flow), found.meter);
        let flow = flow_number(number, &headers, found.flow);
        let packet = Packet { flow, host, meter, ..arrival.packet };
        Arrival { leaf: found.leaf, packet, ..arrival }
    }

    /// Offers a packet to the link at `at`.
    #[inline]
    fn offer(&mut self, at: Instant, arrival: Arrival, flight: Flight) {
        self.state.offered(flight);
        for departure in self.drive.serve(&[arrival], at) {
            self.state.departed(departure);
        }
        if self.peaks.is_some() {
            self.note_peak(arrival.leaf);
        }
        // No source reacts to a drop itself, so drops are counted in groups.
        self.unsettled += 1;
        if self.unsettled >= self.unsettled_max {
            self.settle_drops();
        }
    }

    #[cold]
    fn note_peak(&mut self, leaf: LeafId) {
        let Some(peaks) = &mut self.peaks else { return };
        if self.state.counting && self.changes.is_empty() {
            let waiting = self.drive.account().leaf(leaf).backlog.bytes;
            peaks[leaf.index()] = peaks[leaf.index()].max(waiting);
        }
    }

    fn settle_drops(&mut self) {
        self.unsettled = 0;
        let (state, drive) = (&mut self.state, &mut self.drive);
        drive.take_dropped(&mut |dropped| state.dropped(&dropped));
        if let Some(explained) = &mut state.explained {
            let counting = state.counting;
            drive.take_sojourns(&mut |all| {
                if counting {
                    all.iter().for_each(|sojourn| explained.add(sojourn));
                }
            });
        }
    }

    /// The link changes to another plan, and what was counted under the old one is put away.
    fn change(&mut self, at: Instant, index: usize) {
        self.settle_drops();
        let scenario = self.scenario;
        let change = &scenario.changes[index];
        let before = self.drive.account();
        if self.state.counting {
            self.classes.add(&self.plan.tree, before.leaves(), &self.state.link);
        }
        let mut report = ChangeReport::new(change, &self.plan.tree, &before);
        let plans = Change { from: self.plan, to: &change.link, heir: change.heir };
        self.drive.change(at, plans).expect("the plan was built before the run");
        let kin = Kin::by_name(&self.plan.tree, &change.link.tree);
        let start = phase_start(&before, &self.drive.account(), &kin);
        self.state.link.restart(start);
        self.plan = &change.link;
        if let Some(watching) = &mut self.state.watching {
            watching.change(&change.link.tree);
        }
        if let Some(explained) = &mut self.state.explained {
            explained.change(&change.link.tree);
        }
        let dropped =
            |meters: &[SourceMeter]| meters.iter().map(|meter| meter.total[DROPPED]).sum();
        let lost: u64 = dropped(&self.state.meters);
        self.settle_drops();
        report.lost = dropped(&self.state.meters) - lost;
        let interface = |interface| change.interface(interface);
        self.state.lanes = lanes(&scenario.sources, &change.classifier, interface);
        self.state.marked_lanes = marked_lanes(&scenario.sources, &change.classifier, interface);
        self.state.detailed = Detailed::new(&scenario.sources, &change.classifier, interface);
        self.changes.push(report);
    }

    fn begin_report(&mut self, at: Instant) {
        self.settle_drops();
        self.state.counting = true;
        self.state.link.before = self.drive.account().leaves().to_vec();
        for (meter, runner) in self.state.meters.iter_mut().zip(&mut self.runners) {
            runner.report(at, meter);
        }
    }

    fn connection_event(&mut self, at: Instant, event: Event) {
        match event {
            Event::Open(source) if self.scenario.sources[source as usize].has_stopped(at) => {}
            Event::Open(source) => {
                self.transport(source).open(at);
                self.serve(at, source, Side::Receiver, Content::Nothing);
                self.serve(at, source, Side::Sender, Content::Nothing);
            }
            Event::Close(source) => {
                self.transport(source).close();
                self.serve(at, source, Side::Sender, Content::Nothing);
            }
            Event::Deliver(handle) => self.arrive(at, handle, Side::Receiver),
            Event::Return(handle) => self.arrive(at, handle, Side::Sender),
            Event::Wake(source, side) if self.transport(source).wakes(side, at) => {
                self.serve(at, source, side, Content::Nothing);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, at: Instant, handle: Handle, side: Side) {
        let flight = self.state.packets.get(handle);
        let content = self.state.packets.take(handle);
        // A packet of an earlier connection means nothing to this one.
        if self.transport(flight.source).number() == flight.connection {
            self.serve(at, flight.source, side, content);
        }
    }

    /// Lets one endpoint work and sends what it emits on its way.
    fn serve(&mut self, at: Instant, source: u32, side: Side, content: Content) {
        let connection = self.runners[source as usize].transport();
        let served = connection.serve(at, side, content, &mut self.sending);
        let (number, return_delay) = (connection.number(), connection.return_delay());
        let think = served.completed.and_then(|took| connection.think(took));
        self.note(at, source, side, &served);
        if let Some(think) = think {
            self.events.push(at.after(think), Event::Open(source));
        }
        let mut sending = std::mem::take(&mut self.sending);
        for content in sending.drain(..) {
            let length = self.state.lanes[source as usize].length(&content);
            let flight = Flight { source, length, connection: number };
            let mark = content.mark().unwrap_or(0);
            let own =
                if self.state.detailed.is_some() { content.clone() } else { Content::Nothing };
            let handle = self.state.packets.insert_with(flight, content);
            if side == Side::Sender {
                let arrival = self.state.marked_lane(source, mark).arrival(at, handle, length);
                let arrival = self.detailed(source, &own, arrival);
                self.offer(at, arrival, flight);
            } else {
                let answered = self.processing[source as usize].done(at);
                self.events.push(answered.after(return_delay), Event::Return(handle));
            }
        }
        self.sending = sending;
        self.deliver();
    }

    fn note(&mut self, at: Instant, source: u32, side: Side, served: &Served) {
        if let Some(wake) = served.wake {
            self.events.push(wake, Event::Wake(source, side));
        }
        if let Some(wake) = served.wake_other {
            self.events.push(wake, Event::Wake(source, side.other()));
        }
        let meter = &mut self.state.meters[source as usize];
        if self.state.counting {
            meter.goodput += served.received;
            if let Some(took) = served.completed {
                meter.completed(at, took);
            }
        }
        debug_assert!(at < self.end, "nothing happens after the end");
    }

    fn transport(&mut self, source: u32) -> &mut dyn Transport {
        self.runners[source as usize].transport()
    }

    fn report(mut self) -> Report {
        self.settle_drops();
        let segments = self.runners.iter_mut().find_map(Runner::take_segments);
        for (meter, runner) in self.state.meters.iter_mut().zip(&mut self.runners) {
            runner.report(self.end, meter);
        }
        let results = Results {
            tree: &self.plan.tree,
            account: self.drive.account(),
            classes: std::mem::take(&mut self.classes),
            link: &self.state.link,
            meters: &self.state.meters,
            leaves: self.state.lanes.iter().map(|lane| lane.leaf).collect(),
            changes: std::mem::take(&mut self.changes),
            explain: self.state.explained.as_ref().map(Explained::report),
        };
        let report = Report::new(self.scenario, results);
        let names = self.scenario.sources.iter().map(|source| source.name.as_str());
        let behind = self.state.behind.as_ref().map(|behind| behind.report(names));
        self.tell_rest();
        let bins = self.state.watching.and_then(|watching| watching.bins).map(Bins::report);
        Report { bins, segments, behind, ..report }
    }

    /// Reports the packets that wait at the end, if the watch wants them.
    fn tell_rest(&mut self) {
        let Some(mut watching) = self.state.watching.take() else { return };
        if watching.rest {
            let bins = watching.bins.take();
            for departure in self.drive.serve(&[], self.end.after(REST_MAX)) {
                let flight = self.state.flight(departure.handle);
                watching.departed(departure, flight, &self.state.packets);
            }
            watching.bins = bins;
        }
        self.state.watching = Some(watching);
    }
}

impl State<'_> {
    #[inline]
    fn offered(&mut self, flight: Flight) {
        let meter = &mut self.meters[flight.source as usize];
        meter.total[SENT] += 1;
        if self.counting {
            add(&mut meter.sent, flight.length);
        }
    }

    fn dropped(&mut self, dropped: &Dropped) {
        let handle = dropped.handle;
        let flight = self.flight(handle);
        if let Some(watching) = &mut self.watching {
            watching.dropped(dropped, flight, &self.packets);
        }
        let source = flight.source as usize;
        let meter = &mut self.meters[source];
        meter.total[DROPPED] += 1;
        if self.counting {
            add(&mut meter.dropped, flight.length);
        }
        self.release(handle, source);
    }

    /// The packet that a handle stands for.
    #[inline]
    fn flight(&self, handle: Handle) -> Flight {
        if self.packed { Flight::unpack(handle) } else { self.packets.get(handle) }
    }

    /// A packet is gone.
    #[inline]
    fn release(&mut self, handle: Handle, source: usize) {
        if self.lanes[source].listens {
            self.packets.take(handle);
        } else if !self.packed {
            self.packets.remove(handle);
        }
    }

    /// The lane of a connection's packets with this codepoint of ECN.
    fn marked_lane(&self, source: u32, codepoint: u8) -> &Lane {
        let marked = self.marked_lanes[source as usize].as_deref();
        &marked.expect("a source of connections has them")[usize::from(codepoint & 3)]
    }

    #[inline]
    fn departed(&mut self, departure: &Departure) {
        let (flight, received_at) = self.count_departure(departure);
        if let Some(watching) = &mut self.watching {
            watching.departed(departure, flight, &self.packets);
        }
        let source = flight.source as usize;
        let Some(received_at) = received_at.filter(|_| self.lanes[source].listens) else {
            return self.release(departure.handle, source);
        };
        if let Some(traffic_class) = departure.mark.written() {
            self.packets.set_mark(departure.handle, traffic_class);
        }
        self.arriving.push((received_at, departure.handle));
    }

    /// Counts a departure; returns the packet, which keeps its slot, and when it is received.
    #[inline]
    fn count_departure(&mut self, departure: &Departure) -> (Flight, Option<Instant>) {
        self.link.departed(departure, self.counting);
        let flight = self.flight(departure.handle);
        let source = flight.source as usize;
        let Some(received_at) = self.passage(departure, flight) else {
            let meter = &mut self.meters[source];
            meter.total[LEFT] += 1;
            if self.counting {
                add(&mut meter.dropped, flight.length);
            }
            return (flight, None);
        };
        let counts = self.counts(received_at);
        let meter = &mut self.meters[source];
        meter.total[LEFT] += 1;
        if counts {
            meter.received(flight.length, received_at.since(departure.arrived));
            meter.goodput(flight, &self.lanes[source]);
        }
        (flight, Some(received_at))
    }

    /// Returns when a packet that left is received; `None` if it is lost behind the link.
    #[inline(always)]
    fn passage(&mut self, departure: &Departure, flight: Flight) -> Option<Instant> {
        let sent = match &mut self.behind {
            None => departure.finished,
            Some(behind) => {
                behind.pass(departure.finished, flight.length, flight.source as usize)?
            }
        };
        if let Some(losses) = &mut self.losses
            && losses.loses(flight.source as usize)
        {
            return None;
        }
        Some(sent.after(self.delay))
    }

    /// Whether a packet that is received then counts in the report.
    #[inline(always)]
    fn counts(&self, received_at: Instant) -> bool {
        received_at > self.window.start && received_at <= self.window.end
    }
}

impl Lane {
    /// One to `leaf`, of frames without headers.
    #[cfg(test)]
    pub(crate) const fn to(leaf: LeafId) -> Self {
        let packet = Packet::new(Handle(0), 0);
        Self { leaf, packet, headers: 0, listens: false, datagram: None }
    }

    /// A packet that goes there.
    #[inline(always)]
    pub(crate) const fn arrival(&self, at: Instant, handle: Handle, length: u32) -> Arrival {
        Arrival { at, leaf: self.leaf, packet: Packet { handle, length, ..self.packet } }
    }

    /// The length of a frame with what an endpoint sent.
    fn length(&self, content: &Content) -> u32 {
        self.headers - UDP_HEADER + content.payload()
    }
}

impl SourceMeter {
    /// Counts a frame of this length that is received and how long it took.
    #[inline(always)]
    fn received(&mut self, length: u32, took: Duration) {
        add(&mut self.received, length);
        self.delays.record(took);
    }

    /// Counts what the application gets of it.
    #[inline(always)]
    fn goodput(&mut self, flight: Flight, lane: &Lane) {
        self.goodput += match lane.datagram {
            _ if lane.listens => 0,
            Some(datagram) => self.reassembly.add(flight.connection, datagram),
            None => u64::from(flight.length.saturating_sub(lane.headers)),
        };
    }
}

/// The lanes of a connection's packets by their codepoint of ECN, which rules may ask for.
type MarkedLanes = [Lane; 4];

/// The bottleneck of a scenario, in operation.
fn behind(scenario: &Scenario, window: Interval) -> Option<Box<RunningBehind>> {
    scenario.behind.as_ref().map(|plan| Box::new(RunningBehind::new(plan, window)))
}

/// The lanes of connections by codepoint.
fn marked_lanes(
    sources: &[Source],
    classifier: &Classifier,
    interface: impl Fn(InterfaceId) -> InterfaceId,
) -> Vec<Option<Box<MarkedLanes>>> {
    let mut classifier = classifier.clone();
    let marked = |(number, source): (usize, &Source)| {
        if !source.traffic.connects() {
            return None;
        }
        let lane = |codepoint| {
            let class = source.headers.traffic_class.unwrap_or(0) & !3 | codepoint;
            let headers = Headers { traffic_class: Some(class), ..source.headers };
            let interface = interface(source.interface);
            lane((number, source), &headers, interface, &mut classifier)
        };
        Some(Box::new([0, 1, 2, 3].map(lane)))
    };
    sources.iter().enumerate().map(marked).collect()
}

/// Returns the number that a packet's flow has at the droppers: that of its source, or one for all
/// sources of a host.
pub(crate) fn flow_number(source: u32, headers: &Headers, key: FlowKey) -> u32 {
    match key {
        FlowKey::Connection | FlowKey::WithinSource | FlowKey::WithinDestination => source,
        _ => headers.flow(key),
    }
}

/// The lanes of `sources`; rules call their interfaces as `interface` says.
pub(crate) fn lanes(
    sources: &[Source],
    classifier: &Classifier,
    interface: impl Fn(InterfaceId) -> InterfaceId,
) -> Vec<Lane> {
    let mut classifier = classifier.clone();
    let lane = |(number, source): (usize, &Source)| {
        let interface = interface(source.interface);
        lane((number, source), &source.headers, interface, &mut classifier)
    };
    sources.iter().enumerate().map(lane).collect()
}

/// The lane of a source's packets with these headers: all have the same, so one decision serves
/// them all.
fn lane(
    (number, source): (usize, &Source),
    headers: &Headers,
    interface: InterfaceId,
    classifier: &mut Classifier,
) -> Lane {
    let ip_header = match headers.addresses {
        Addresses::V6 { .. } => 40,
        _ => 20,
    };
    let classified = classifier.classify(Instant::ZERO, interface, headers);
    let traffic_class = headers.traffic_class.unwrap_or(0);
    let flow = flow_number(number as u32, headers, classified.flow);
    let meter = classified.meter;
    let host = headers.host(classified.flow);
    let packet = Packet { flow, host, traffic_class, meter, ..Packet::new(Handle(0), 0) };
    Lane {
        leaf: classified.leaf,
        packet,
        headers: source.link_header() + ip_header + UDP_HEADER,
        listens: source.traffic.connects(),
        datagram: source.traffic.datagram(),
    }
}

/// The source `source`, which sends regardless of losses, in its time.
pub(crate) fn open_loop(source: &Source, random: Random) -> OpenLoop {
    let span = Interval::until(source.start, source.stop);
    let (sizes, rhythm) = match &source.traffic {
        Traffic::Cbr { sizes, spacing, jitter } => {
            (sizes, Rhythm::Even { spacing: *spacing, jitter: *jitter })
        }
        Traffic::Poisson { sizes, spacing } => {
            (sizes, Rhythm::Exponential { mean: spacing.mean(sizes) })
        }
        Traffic::OnOff { sizes, spacing, on, off } => {
            (sizes, Rhythm::OnOff { spacing: *spacing, on: *on, off: *off, until: span.start })
        }
        Traffic::Scripted(script) => {
            let none = Step { after: Duration::ZERO, length: 0, datagram: 0 };
            (&Sizes::NONE, Rhythm::Scripted(script.start(), none))
        }
        Traffic::Tcp(_)
        | Traffic::Quic(_)
        | Traffic::Transfers(..)
        | Traffic::QuicTransfers(..) => unreachable!("a connection listens"),
    };
    OpenLoop::new(random, sizes.clone(), rhythm, span)
}

/// The length of the IP header of a connection with these headers, or why there can be none.
pub(crate) fn check_endpoints(headers: &Headers, traffic: &Traffic) -> Result<u16, &'static str> {
    let (protocol, mtu) = match (traffic.tcp(), traffic.quic()) {
        (Some(tcp), _) => (Protocol::TCP, tcp.mtu()),
        (_, Some(quic)) => (Protocol::UDP, quic.mtu),
        _ => return Err("its traffic is not that of a connection"),
    };
    if headers.protocol != Some(protocol) {
        let quic = protocol == Protocol::UDP;
        return Err(if quic { "its packets are not UDP's" } else { "its packets are not TCP's" });
    }
    let ports = headers.ports.filter(|ports| ports.source != 0 && ports.destination != 0);
    ports.ok_or("a connection needs two ports that are not 0")?;
    let ends = headers.addresses.source().zip(headers.addresses.destination());
    let (from, to) = ends.ok_or("a connection needs two addresses")?;
    let is_host = |address: IpAddr| {
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !address.is_multicast() && !address.is_unspecified() && !broadcast
    };
    if !is_host(from) || !is_host(to) || from == to {
        return Err("a connection needs the addresses of two hosts");
    }
    check_mtu(from.is_ipv6(), protocol, mtu)
}

fn check_mtu(six: bool, protocol: Protocol, mtu: Mtu) -> Result<u16, &'static str> {
    if six && mtu.get() < IPV6_MTU_MIN {
        return Err("IPv6 needs an MTU of at least 1280 bytes");
    }
    if protocol == Protocol::UDP && mtu.get() < QUIC_MTU_MIN {
        return Err("QUIC over IPv4 needs an MTU of at least 1228 bytes");
    }
    Ok(if six { IPV6_HEADER } else { IPV4_HEADER })
}

pub(crate) fn check_names(sources: &[Source]) -> Result<(), RunError> {
    let mut names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RunError::NameTwice(pair[0].to_owned())),
        None => Ok(()),
    }
}

/// The packets that are offered before drops are counted and their slots are used again.
const UNSETTLED_MAX: u32 = 64;
const UDP_HEADER: u32 = 8;
const IPV4_HEADER: u16 = 20;
const IPV6_HEADER: u16 = 40;
const IPV6_MTU_MIN: u16 = 1280;
/// [rfc9000 §14] A datagram of 1200 bytes and its headers of IPv4 and UDP.
const QUIC_MTU_MIN: u16 = 1228;
