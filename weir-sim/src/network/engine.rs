//! The run of a network: events in order, each packet from link to link.
//!
//! A packet that a scheduler hands out is known to arrive at the next node when its last bit is on
//! the wire and the link's delay has passed; that is an event. So every outlet is advanced at the
//! instants at which something happens there, and nothing is advanced past a later arrival.
//!
//! Invariant: every packet that was made and has not ended waits in a queue, is on a wire, in a
//! processor, or is a piece that its receiver has taken.

use super::autorate::{Autorates, Offered};
use super::cpu::Processor;
use super::echoes;
use super::fragments::{Arrived, CONGESTED, Reassembly, cut};
use super::lanes::{Lane, UDP_HEADER, lanes};
use super::outlet::Outlet;
use super::parcel::Parcel;
use super::plan::{Network, NodeId, OutletId};
use super::signalling::{self, Signals};
use crate::behind::step_of;
use crate::bins::Bins;
use crate::change::ChangeReport;
use crate::events::Events;
use crate::frame;
use crate::interval::Interval;
use crate::meter::{DROPPED, LEFT, SENT, SourceMeter, add};
use crate::packets::{Content, Packets};
use crate::random::Random;
use crate::run::{RunError, Runner, check_names, flow_number};
use crate::scenario::{Scenario, Source};
use crate::transport::{Processing, Served, Side, Transport};
use crate::watch::{REST_MAX, Subject, Tell, Watch};
use std::borrow::Cow;
use weir_core::classify::Classifier;
use weir_core::ids::Handle;
use weir_core::link::Packet;
use weir_core::packet::{Headers, Segment};
use weir_core::units::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The report begins here.
    Count,
    /// Report the progress to the caller.
    Progress,
    /// An outlet changes to another plan.
    Change(u32),
    /// An open-loop source sends.
    Send(u32),
    /// A source opens its next connection.
    Open(u32),
    /// A source of connections stops.
    Close(u32),
    /// A stack's timer is due.
    Wake(u32, Side),
    /// Something is due at an outlet.
    Outlet(u32),
    /// A packet reaches the node at the end of its link.
    Arrive(Handle),
    /// A receiver answers with this packet.
    Answer(Handle),
    /// A processor has forwarded a packet.
    Cpu(u32),
    /// The senders of a reservation announce what they send.
    Announce(u32),
    /// The applications of a reservation end it.
    Withdraw(u32),
    /// Something is due at a node's RSVP.
    Poll(u32),
    /// An interval of the controllers of rates ends.
    Interval,
    /// The capacity changes that the rate of an outlet follows.
    Follow(u32),
}

/// A network in operation.
pub(crate) struct Engine<'a> {
    pub scenario: &'a Scenario,
    pub network: &'a Network,
    pub outlets: Vec<Outlet<'a>>,
    pub classifiers: Vec<Classifier>,
    pub lanes: Vec<Lane>,
    pub processors: Vec<Option<Processor>>,
    /// The outlets of each node whose driver is started by what the node receives.
    started_by: Vec<Vec<OutletId>>,
    pub events: Events<Event>,
    pub runners: Vec<Runner>,
    /// When the receiver of each source answers.
    processing: Vec<Processing>,
    pub meters: Vec<SourceMeter>,
    parcels: Packets<Parcel>,
    pub reassembly: Reassembly,
    pub changes: Vec<ChangeReport>,
    pub counting: bool,
    pub end: Instant,
    /// Packets made and ended; pieces count as packets.
    pub made: u64,
    pub ended: u64,
    /// Packets on their way to the next node.
    pub flying: u64,
    /// Pieces that receivers hold of incomplete datagrams.
    datagrams: u32,
    /// Packets of an endpoint on their way to its first link.
    sending: Vec<Content>,
    /// Called for each packet, if the caller of the run wants that.
    packets_told: Option<Tell<'a>>,
    /// The function is also called for packets that wait at the end.
    rest_told: bool,
    /// The signalling, while it does not act.
    pub signals: Option<Box<Signals<'a>>>,
    /// Stand for messages and for echoes, which no source of the scenario sends.
    unnamed: [Source; 2],
    pub autorates: Autorates,
}

impl<'a> Engine<'a> {
    pub fn new(scenario: &'a Scenario, network: &'a Network) -> Result<Self, RunError> {
        if scenario.warmup >= scenario.duration {
            return Err(RunError::NothingCounts(scenario.warmup, scenario.duration));
        }
        check_names(&scenario.sources)?;
        let window = Interval::reported(scenario.warmup, scenario.duration);
        let (mut lanes, count) = (lanes(scenario, network)?, scenario.sources.len());
        let autorates = Autorates::new(network, step_of(window.end), (count, &mut lanes));
        let mut engine = Self {
            scenario,
            network,
            outlets: Vec::with_capacity(2 * network.links.len()),
            classifiers: Vec::with_capacity(2 * network.links.len()),
            lanes,
            processors: network.nodes.iter().map(|node| node.cpu.map(Processor::new)).collect(),
            started_by: vec![Vec::new(); network.nodes.len()],
            events: Events::new(),
            runners: Vec::with_capacity(scenario.sources.len()),
            processing: Processing::all(scenario),
            // The last are those of messages and of echoes.
            meters: vec![SourceMeter::default(); count + 2],
            parcels: Packets::default(),
            reassembly: Reassembly::default(),
            changes: Vec::new(),
            counting: false,
            end: window.end,
            made: 0,
            ended: 0,
            flying: 0,
            datagrams: 0,
            sending: Vec::new(),
            packets_told: None,
            rest_told: false,
            signals: None,
            unnamed: [signalling::source(), echoes::source()],
            autorates,
        };
        engine.build_outlets(window)?;
        engine.events.push(window.start, Event::Count);
        for (index, change) in scenario.changes.iter().enumerate() {
            change.link.build().map_err(RunError::Link)?;
            if change.outlet.index() >= engine.outlets.len() {
                return Err(RunError::Network("a change names a link that it lacks".to_owned()));
            }
            engine.events.push(change.at, Event::Change(index as u32));
        }
        engine.events.push(Instant::ZERO, Event::Progress);
        for (index, source) in scenario.sources.iter().enumerate() {
            engine.start(index as u32, source)?;
        }
        engine.begin_signalling()?;
        engine.begin_autorates();
        Ok(engine)
    }

    fn build_outlets(&mut self, window: Interval) -> Result<(), RunError> {
        let network = self.network;
        for place in 0..2 * network.links.len() as u32 {
            let id = OutletId(place);
            let (link, end) = network.outlet(id);
            let plan = &link.outlets[end];
            let (queueing, classifier) = match &plan.queueing {
                Some(own) => (&own.link, own.classifier.clone()),
                None => (&self.scenario.link, self.scenario.classifier.clone()),
            };
            let random = Random::stream(self.scenario.seed, &format!("wire {place}"));
            let outlet = Outlet::new(plan, queueing, window, random).map_err(RunError::Link)?;
            self.outlets.push(outlet);
            self.classifiers.push(classifier);
            if plan.driver.starts_on_receive() {
                self.started_by[link.ends[end].0 as usize].push(id);
            }
            for lane in &mut self.lanes {
                lane.classify(id, &mut self.classifiers[id.index()], |interface| interface);
            }
        }
        for tap in &network.taps {
            self.outlets[tap.outlet.index()].tap(*tap);
        }
        Ok(())
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
        self.events.push(source.start, Event::Open(index));
        if let Some(stop) = source.stop {
            self.events.push(stop, Event::Close(index));
        }
        Ok(())
    }

    /// Reports what `watch` requests from now on.
    pub fn watch(&mut self, watch: Watch<'a>) -> Result<(), RunError> {
        if let Some(runner) = watch.flow.and_then(|at| self.runners.get_mut(at)) {
            runner.note_segments();
        }
        if watch.objects {
            self.meters.iter_mut().for_each(|meter| meter.objects = Some(Vec::new()));
        }
        if let Some(slowest) = watch.slowest {
            self.outlets[self.network.main.index()].explain(slowest);
        }
        if let Some(width) = watch.bins {
            let all = Bins::of(self.scenario, width).ok_or(RunError::Bins(width))?;
            for (outlet, bins) in self.outlets.iter_mut().zip(all) {
                outlet.log.bins = Some(bins);
            }
        }
        self.packets_told = watch.packets;
        self.rest_told = watch.rest;
        Ok(())
    }

    /// Reports the packets that wait at the end, if the watch wants them: the report must be made.
    pub fn tell_rest(&mut self) {
        if self.packets_told.is_none() || !self.rest_told {
            return;
        }
        for id in (0..self.outlets.len() as u32).map(OutletId) {
            let outlet = &mut self.outlets[id.index()];
            outlet.log.leaving = outlet.rest(self.end.after(REST_MAX));
            outlet.log.dropped.clear();
            self.tell(id);
        }
    }

    pub fn all(&mut self, progress: &mut dyn FnMut(Duration)) {
        while let Some((at, event)) = self.events.first().filter(|row| row.0 < self.end) {
            self.events.pop();
            match event {
                Event::Count => self.begin_report(at),
                Event::Progress => {
                    progress(at.since(Instant::ZERO));
                    let step = Duration::from_nanos(self.scenario.duration.as_nanos() / 100 + 1);
                    self.events.push(at.after(step), Event::Progress);
                }
                Event::Change(index) => self.change(at, index as usize),
                Event::Send(source) => self.send(at, source),
                Event::Outlet(index) => self.act(at, OutletId(index)),
                Event::Arrive(handle) => self.arrive(at, handle),
                Event::Answer(handle) => self.answer(at, handle),
                Event::Cpu(node) => self.forwarded(at, node),
                Event::Interval => self.interval(at),
                Event::Follow(index) => self.follow(at, OutletId(index)),
                Event::Announce(_) | Event::Withdraw(_) | Event::Poll(_) => self.signal(at, event),
                _ => self.connection_event(at, event),
            }
        }
        progress(self.scenario.duration);
    }

    fn begin_report(&mut self, at: Instant) {
        for place in 0..self.outlets.len() {
            self.outlets[place].advance(at);
            self.settle(OutletId(place as u32));
            self.outlets[place].begin_report(at);
        }
        self.counting = true;
        for (meter, runner) in self.meters.iter_mut().zip(&mut self.runners) {
            runner.report(at, meter);
        }
    }

    fn change(&mut self, at: Instant, index: usize) {
        let scenario = self.scenario;
        let change = &scenario.changes[index];
        let id = change.outlet;
        self.outlets[id.index()].advance(at);
        self.settle(id);
        let outlet = &mut self.outlets[id.index()];
        let (from, before) = outlet.change(at, (Cow::Borrowed(&change.link), change.heir));
        let mut report = ChangeReport::new(change, &from.tree, &before);
        report.lost = outlet.log.dropped.len() as u64;
        self.classifiers[id.index()] = change.classifier.clone();
        for lane in &mut self.lanes {
            let classifier = &mut self.classifiers[id.index()];
            lane.classify(id, classifier, |interface| change.interface(interface));
        }
        self.changes.push(report);
        self.settle(id);
        self.keep_rate(at, id);
    }

    fn send(&mut self, at: Instant, source: u32) {
        let Runner::Open(runner) = &mut self.runners[source as usize] else {
            unreachable!("only open-loop sources have this event")
        };
        let (datagram, length) = (runner.datagram(), runner.send());
        if let Some(next) = runner.next_at() {
            self.events.push(next, Event::Send(source));
        }
        let parcel = Parcel { length, connection: datagram, ..Parcel::of(source, false) };
        self.emit(at, parcel, Content::Nothing);
    }

    /// Sends a packet from a node.
    pub fn emit(&mut self, at: Instant, parcel: Parcel, content: Content) {
        let lane = &self.lanes[parcel.lane()];
        let mut traffic_class = lane.headers.traffic_class.unwrap_or(0);
        if let Some(mark) = content.mark() {
            traffic_class = traffic_class & !3 | mark;
        }
        let parcel = Parcel { sent: at, traffic_class, ..parcel };
        if !parcel.back {
            let meter = &mut self.meters[parcel.source as usize];
            meter.total[SENT] += 1;
            if self.counting {
                add(&mut meter.sent, parcel.length);
            }
        }
        let handle = self.make(parcel, content);
        self.forward(at, handle);
    }

    pub fn make(&mut self, parcel: Parcel, content: Content) -> Handle {
        self.made += 1;
        if content.is_nothing() {
            return self.parcels.insert(parcel);
        }
        self.parcels.insert_with(parcel, content)
    }

    /// Removes a packet that ends here; returns its content.
    fn end(&mut self, handle: Handle) -> Content {
        self.ended += 1;
        self.parcels.take(handle)
    }

    /// Offers a packet to the outlet of its next link, in pieces if it exceeds the MTU.
    fn forward(&mut self, at: Instant, handle: Handle) {
        let parcel = self.parcels.get(handle);
        let lane = &self.lanes[parcel.lane()];
        let mtu = lane.mtu(&parcel, self.network);
        if parcel.length - lane.link_header.min(parcel.length) <= mtu {
            return self.offer(at, handle, parcel);
        }
        let pieces = cut(parcel, lane, mtu, self.datagrams);
        self.datagrams = self.datagrams.wrapping_add(u32::from(parcel.piece.is_none()));
        let mut content = self.end(handle);
        for piece in pieces {
            let handle = self.make(piece, std::mem::take(&mut content));
            self.offer(at, handle, piece);
        }
    }

    fn offer(&mut self, at: Instant, handle: Handle, parcel: Parcel) {
        let lane = &self.lanes[parcel.lane()];
        let id = lane.hops[usize::from(parcel.hop)].outlet;
        let classifier = &mut self.classifiers[id.index()];
        let content = self.parcels.content(handle);
        let found = lane.leaf(at, (&parcel, content), classifier);
        let own = parcel.source | u32::from(parcel.back) << 31;
        let flow = flow_number(own, &lane.headers, found.flow);
        let Parcel { length, traffic_class, .. } = parcel;
        let host = lane.headers.host(found.flow);
        let meter = found.meter;
        let packet = Packet { handle, length, train: 0, flow, host, traffic_class, meter };
        let before = usize::from(parcel.hop).checked_sub(1).map(|hop| lane.hops[hop].outlet);
        let source = self.scenario.sources.get(parcel.source as usize);
        let offered = Offered { handle, parcel: &parcel, source, content };
        self.autorates.arrived(at, (id, before), offered);
        let outlet = &mut self.outlets[id.index()];
        if outlet.link_mut().reads_segments(found.leaf) {
            let (headers, mut bytes) = (&lane.headers, Vec::new());
            frame::write(headers, length, content, None, &mut bytes);
            outlet
                .link_mut()
                .note(handle, Segment::of_frame(&bytes, &Headers::parse_ethernet(&bytes)));
        }
        outlet.offer(at, found.leaf, packet);
        self.settle(id);
    }

    fn act(&mut self, at: Instant, id: OutletId) {
        let outlet = &mut self.outlets[id.index()];
        if outlet.planned == Some(at) {
            outlet.planned = None;
            outlet.advance(at);
            self.settle(id);
        }
    }

    /// Processes the events of an outlet, and plans its next one.
    pub fn settle(&mut self, id: OutletId) {
        let outlet = &mut self.outlets[id.index()];
        for (tap, at, departure) in outlet.log.tapped.drain(..) {
            let parcel = self.parcels.get(departure.handle);
            let packet = (parcel.source, parcel.length);
            outlet.log.taps[tap].record((at, departure.arrived), departure.leaf, packet);
        }
        if self.packets_told.is_some() {
            self.tell(id);
        }
        let outlet = &mut self.outlets[id.index()];
        let mut lost = Vec::new();
        for departure in outlet.log.leaving.drain(..) {
            if let Some(traffic_class) = departure.mark.written() {
                self.parcels.packet_mut(departure.handle).traffic_class = traffic_class;
            }
            let parcel = self.parcels.get(departure.handle);
            let frame = (parcel.length, parcel.source);
            let left = (departure.handle, parcel.length);
            self.autorates.left(departure.at, id, left);
            if let Some(arrives) = outlet.passage.arrival(departure.finished, frame) {
                self.events.push(arrives, Event::Arrive(departure.handle));
                self.flying += 1;
            } else {
                outlet.passage.lost += u64::from(self.counting);
                lost.push(departure.handle);
            }
        }
        let mut dropped = std::mem::take(&mut outlet.log.dropped);
        self.autorates.dropped(id, dropped.len() as u64);
        if let Some(due) = outlet.due()
            && outlet.planned.is_none_or(|planned| planned > due)
        {
            outlet.planned = Some(due);
            self.events.push(due, Event::Outlet(id.0));
        }
        for dropped in dropped.drain(..) {
            self.lose(dropped.handle);
        }
        self.outlets[id.index()].log.dropped = dropped;
        for handle in lost {
            self.lose(handle);
        }
    }

    /// Reports the packets that left an outlet or were dropped there, before they are processed.
    fn tell(&mut self, id: OutletId) {
        let Some(tell) = &mut self.packets_told else { return };
        let Outlet { plan, log, .. } = &self.outlets[id.index()];
        let (lanes, parcels) = (&self.lanes, &self.parcels);
        let (sources, unnamed) = (&self.scenario.sources, &self.unnamed);
        let source = |place: usize| match sources.get(place) {
            Some(source) => source,
            None => &unnamed[place - sources.len()],
        };
        let mut tell_of = |handle: Handle, told: &dyn Fn(Subject<'_>, Tell<'_>)| {
            let parcel = parcels.get(handle);
            let headers = lanes[parcel.lane()].headers_of(&parcel);
            let subject = Subject {
                outlet: id,
                tree: &plan.tree,
                source: source(parcel.source as usize),
                headers: &headers,
                length: parcel.length,
                // The first piece holds the content of the whole datagram.
                content: match parcel.piece {
                    None => parcels.content(handle),
                    Some(_) => &Content::Nothing,
                },
            };
            told(subject, tell);
        };
        for departure in &log.leaving {
            tell_of(departure.handle, &|subject, tell| tell(&subject.sent(departure)));
        }
        for dropped in &log.dropped {
            tell_of(dropped.handle, &|subject, tell| tell(&subject.dropped(dropped)));
        }
    }

    /// A packet is dropped.
    fn lose(&mut self, handle: Handle) {
        self.autorates.forget(handle);
        let parcel = self.parcels.get(handle);
        if !parcel.back {
            let meter = &mut self.meters[parcel.source as usize];
            meter.total[DROPPED] += 1;
            if self.counting {
                add(&mut meter.dropped, parcel.length);
            }
        }
        self.end(handle);
    }

    /// A packet reaches the next node.
    fn arrive(&mut self, at: Instant, handle: Handle) {
        self.flying -= 1;
        let parcel = self.parcels.packet_mut(handle);
        parcel.hop += 1;
        let parcel = *parcel;
        let lane = &self.lanes[parcel.lane()];
        let (link, end) = self.network.outlet(lane.hops[usize::from(parcel.hop) - 1].outlet);
        let node = link.ends[1 - end];
        for place in 0..self.started_by[node.0 as usize].len() {
            let id = self.started_by[node.0 as usize][place];
            self.outlets[id.index()].received(at);
            self.settle(id);
        }
        let lane = &self.lanes[parcel.lane()];
        let Some(next) = lane.hops.get(usize::from(parcel.hop)) else {
            return self.receive(at, handle, parcel);
        };
        let classes = self.outlets[next.outlet.index()].plan.tree.classes().len();
        let length = parcel.length.saturating_sub(lane.link_header);
        let Some(processor) = &mut self.processors[node.0 as usize] else {
            return self.forward(at, handle);
        };
        let cost = processor.cost(length, classes);
        if !processor.receive(at, handle, cost) {
            processor.dropped += u64::from(self.counting);
            self.lose(handle);
        }
        self.plan_processor(node);
    }

    fn plan_processor(&mut self, node: NodeId) {
        let Some(processor) = &mut self.processors[node.0 as usize] else { return };
        // Interrupts only delay what is done, so an event that is planned comes early, not late.
        if processor.planned.is_none()
            && let Some(due) = processor.due()
        {
            processor.planned = Some(due);
            self.events.push(due, Event::Cpu(node.0));
        }
    }

    fn forwarded(&mut self, at: Instant, node: u32) {
        let processor = self.processors[node as usize].as_mut();
        let processor = processor.expect("only a node with a processor has this event");
        processor.planned = None;
        if let Some(handle) = processor.forward(at) {
            processor.forwarded += u64::from(self.counting);
            self.forward(at, handle);
        }
        self.plan_processor(NodeId(node));
    }

    /// Delivers a packet to the host that it is for.
    fn receive(&mut self, at: Instant, handle: Handle, parcel: Parcel) {
        let mut content = self.end(handle);
        let lane = &self.lanes[parcel.lane()];
        let Some(piece) = parcel.piece else {
            content.set_mark(parcel.traffic_class);
            return self.deliver(at, parcel, content);
        };
        let payload = parcel.length.saturating_sub(lane.front(true));
        let whole = Parcel { length: lane.front(false) + piece.whole, piece: None, ..parcel };
        let marked = parcel.traffic_class & CONGESTED == CONGESTED;
        let arrived = Arrived { piece, payload, marked };
        if let Some(content) = self.reassembly.take(at, arrived, content) {
            self.deliver(at, whole, content);
        }
    }

    /// Handles a complete datagram.
    fn deliver(&mut self, at: Instant, parcel: Parcel, content: Content) {
        let Parcel { source, length, back, .. } = parcel;
        let lane = &self.lanes[parcel.lane()];
        if !back {
            let meter = &mut self.meters[source as usize];
            meter.total[LEFT] += 1;
            if self.counting {
                add(&mut meter.received, length);
                meter.delays.record(at.since(parcel.sent));
                if !lane.listens {
                    let front = lane.front(false) + UDP_HEADER;
                    meter.goodput += match lane.datagram {
                        Some(datagram) => meter.reassembly.add(parcel.connection, datagram),
                        None => u64::from(length.saturating_sub(front)),
                    };
                }
            }
        }
        if self.reflects(at, &parcel) {
            return;
        }
        let lane = &self.lanes[parcel.lane()];
        if let Content::Message(bytes) = &content {
            let outlet = lane.hops.last().expect("a message has come by a link").outlet;
            let (link, end) = self.network.outlet(outlet);
            // The other outlet of the link is the interface by which it comes.
            let interface = OutletId(outlet.0 ^ 1);
            self.hear(at, (link.ends[1 - end], interface), bytes);
        } else if lane.listens {
            let side = if back { Side::Sender } else { Side::Receiver };
            // A packet of an earlier connection of the source does not concern this one.
            if self.transport(source).number() == parcel.connection {
                self.serve(at, source, side, content);
            }
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
            Event::Wake(source, side) if self.transport(source).wakes(side, at) => {
                self.serve(at, source, side, Content::Nothing);
            }
            _ => {}
        }
    }

    fn serve(&mut self, at: Instant, source: u32, side: Side, content: Content) {
        let connection = self.runners[source as usize].transport();
        let served = connection.serve(at, side, content, &mut self.sending);
        let connection_number = connection.number();
        let think = served.completed.and_then(|took| connection.think(took));
        self.note(at, source, side, &served);
        if let Some(think) = think {
            self.events.push(at.after(think), Event::Open(source));
        }
        let front = self.lanes[2 * source as usize].front(false);
        let mut sending = std::mem::take(&mut self.sending);
        for content in sending.drain(..) {
            let parcel = Parcel {
                connection: connection_number,
                length: front + content.payload(),
                ..Parcel::of(source, side == Side::Receiver)
            };
            let leaves = match side {
                Side::Sender => at,
                Side::Receiver => self.processing[source as usize].done(at),
            };
            if leaves > at {
                let handle = self.make(parcel, content);
                self.flying += 1;
                self.events.push(leaves, Event::Answer(handle));
                continue;
            }
            self.emit(at, parcel, content);
        }
        self.sending = sending;
    }

    /// A receiver has processed what it answers.
    fn answer(&mut self, at: Instant, handle: Handle) {
        self.flying -= 1;
        let parcel = self.parcels.get(handle);
        let content = self.end(handle);
        self.emit(at, parcel, content);
    }

    fn note(&mut self, at: Instant, source: u32, side: Side, served: &Served) {
        if let Some(wake) = served.wake {
            self.events.push(wake, Event::Wake(source, side));
        }
        if let Some(wake) = served.wake_other {
            self.events.push(wake, Event::Wake(source, side.other()));
        }
        if self.counting {
            let meter = &mut self.meters[source as usize];
            meter.goodput += served.received;
            if let Some(took) = served.completed {
                meter.completed(at, took);
            }
        }
    }

    fn transport(&mut self, source: u32) -> &mut dyn Transport {
        self.runners[source as usize].transport()
    }
}
