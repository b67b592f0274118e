//! Rates that a controller decides, as on a running link: frames that pass the node in front of a
//! modem are shown to [`weir_autorate`], and what it decides is done to the outlets there.
//!
//! An outlet with a bottleneck behind it is the upload's; one without is the download's, and shapes
//! what has passed a bottleneck before. Invariant: a packet has a ticket at most while it is
//! between its arrival at the node and its departure there.

use super::control::{AutorateReport, Control};
use super::disturbance::Disturbance;
use super::echoes::Echoes;
use super::engine::{Engine, Event};
use super::lanes::Lane;
use super::parcel::Parcel;
use super::plan::{Network, OutletId};
use crate::packets::Content;
use crate::scenario::Source;
use std::collections::BTreeMap;
use weir_autorate::controller::CONTROLLERS;
use weir_autorate::{
    Autorate, FlowId, Frame, INTERVAL, Segment, Shaper, Stamp, TcpSegment, Ticket, Way,
};
use weir_core::ids::Handle;
use weir_core::units::{Duration, Instant, Rate};
use weir_tcp::Flags;

/// The controlled outlets of a network.
#[derive(Default)]
pub(crate) struct Autorates {
    control: Option<Autorate>,
    /// The outlets by way.
    outlets: [Option<OutletId>; 2],
    tickets: BTreeMap<Handle, Ticket>,
    disturbance: Disturbance,
    /// The reflectors behind the outlet of the upload, if it has any.
    pub echoes: Option<Echoes>,
    shapers: [Shaper; 2],
    /// The outlets that follow a capacity.
    following: Vec<OutletId>,
    /// Of each outlet that is controlled or follows.
    rows: BTreeMap<OutletId, Row>,
    /// The width of a step of reports.
    step: Duration,
}

#[derive(Default)]
struct Row {
    controller: &'static str,
    rate: u64,
    changes: u64,
    reasons: BTreeMap<&'static str, u64>,
    rates: Vec<u64>,
}

/// A packet that is offered to an outlet.
#[derive(Clone, Copy)]
pub(crate) struct Offered<'a> {
    pub handle: Handle,
    pub parcel: &'a Parcel,
    /// Its source; messages have none.
    pub source: Option<&'a Source>,
    pub content: &'a Content,
}

impl Autorates {
    /// Those of a network with so many sources, to whose lanes those of echoes are added; `step` is
    /// the width of the steps of reports.
    pub fn new(
        network: &Network,
        step: Duration,
        (sources, lanes): (usize, &mut Vec<Lane>),
    ) -> Self {
        let disturbance = network.disturbance.clone();
        let mut new = Self { step, disturbance, ..Self::default() };
        let mut plans = [None; 2];
        let mut nominal = [0; 2];
        for id in (0..2 * network.links.len() as u32).map(OutletId) {
            let (link, end) = network.outlet(id);
            let plan = &link.outlets[end];
            let row = |controller| Row { controller, ..Row::default() };
            match plan.control.as_deref() {
                None => {}
                Some(Control::Follow(..)) => {
                    new.following.push(id);
                    new.rows.insert(id, row(ORACLE));
                }
                Some(Control::Controller(own)) => {
                    let way = if plan.behind.is_some() { Way::Up } else { Way::Down };
                    let name = CONTROLLERS.get(own.controller).map_or("", |known| known.name);
                    plans[way as usize] = Some(*own);
                    new.outlets[way as usize] = Some(id);
                    nominal[way as usize] = own.limits.base().bits_per_second();
                    new.rows.insert(id, row(name));
                }
            }
        }
        if plans.iter().any(Option::is_some) {
            let start = new.disturbance.stamp(Instant::ZERO);
            let up = new.outlets[Way::Up as usize];
            new.echoes = up.and_then(|up| Echoes::new(network, up, sources, lanes));
            let count = new.echoes.as_ref().map_or(0, Echoes::count);
            new.control = Some(Autorate::with_reflectors(plans, nominal, (start, count)));
        }
        new
    }

    /// Returns which way a packet goes that is offered to `id` and came by `before`.
    fn way(&self, id: OutletId, before: Option<OutletId>) -> Option<Way> {
        let back = |way: Way| self.outlets[way as usize].map(|outlet| OutletId(outlet.0 ^ 1));
        let known = Way::ALL.into_iter().find(|&way| self.outlets[way as usize] == Some(id));
        known.or_else(|| {
            let came =
                |way: &Way| self.outlets[*way as usize].is_none() && back(way.opposite()) == before;
            before.and_then(|_| Way::ALL.into_iter().find(came))
        })
    }

    /// A packet is offered to the outlet `id`.
    pub fn arrived(
        &mut self,
        at: Instant,
        (id, before): (OutletId, Option<OutletId>),
        offered: Offered<'_>,
    ) {
        let Offered { handle, parcel, source, content } = offered;
        if self.control.is_none() {
            return;
        }
        if let Some(echoes) = &mut self.echoes {
            echoes.arrived(id, handle, parcel);
        }
        let Some(way) = self.way(id, before) else { return };
        let Some(ends) = source.and_then(|source| source.ends) else { return };
        let upward = (way == Way::Up) != parcel.back;
        let (host, peer) = if upward { (ends.from.0, ends.to.0) } else { (ends.to.0, ends.from.0) };
        let key = (u64::from(parcel.source) + 1) << 32 | u64::from(parcel.connection);
        let flow = FlowId { key, host: host + 1, peer: peer + 1 };
        let segment = self.disturbance.lie(at, parcel.source, segment(content));
        let frame = Frame { flow, len: parcel.length, segment };
        let control = self.control.as_mut().expect("it was there");
        if let Some(ticket) = control.arrive(self.disturbance.stamp(at), way, &frame) {
            self.tickets.insert(handle, ticket);
        }
    }

    /// A packet of `length` left the outlet `id`.
    pub fn left(&mut self, at: Instant, id: OutletId, (handle, length): (Handle, u32)) {
        let Some(control) = &mut self.control else { return };
        let stamp = self.disturbance.stamp(at);
        if let Some(ticket) = self.tickets.remove(&handle) {
            control.leave(stamp, ticket);
        }
        if let Some(echoes) = &mut self.echoes {
            echoes.left(stamp, handle, control);
        }
        if let Some(way) = self.outlets.iter().position(|&own| own == Some(id)) {
            self.shapers[way].sent += u64::from(length);
        }
    }

    /// Packets were dropped at the outlet `id`.
    pub fn dropped(&mut self, id: OutletId, packets: u64) {
        if let Some(way) = self.outlets.iter().position(|&own| own == Some(id)) {
            self.shapers[way].dropped += packets;
        }
    }

    /// A packet is no more.
    pub fn forget(&mut self, handle: Handle) {
        if !self.tickets.is_empty() {
            self.tickets.remove(&handle);
        }
        if let Some(echoes) = &mut self.echoes {
            echoes.forget(handle);
        }
    }

    /// The answer to an echo arrived.
    pub fn echoed(&mut self, at: Instant, number: u16) {
        if let Some(control) = &mut self.control {
            control.echoed(self.disturbance.stamp(at), number);
        }
    }

    /// The rate that an outlet has by control.
    fn rate_of(&self, id: OutletId) -> Option<Rate> {
        Rate::new(self.rows.get(&id)?.rate)
    }

    /// Returns the rate of an outlet over time.
    pub fn report(&mut self, id: OutletId, until: Instant) -> Option<AutorateReport> {
        self.note(id, until);
        let row = self.rows.get(&id)?;
        Some(AutorateReport {
            controller: row.controller,
            changes: row.changes.saturating_sub(1),
            reasons: row.reasons.clone(),
            echoes: self.echoes.as_ref().filter(|own| own.outlet == id).map_or(0, |own| own.sent),
            rate_bps: row.rates.clone(),
        })
    }

    /// Notes the rate up to `at`.
    fn note(&mut self, id: OutletId, at: Instant) {
        let count = at.as_nanos().div_ceil(self.step.as_nanos().max(1)) as usize;
        if let Some(row) = self.rows.get_mut(&id).filter(|row| row.rates.len() < count) {
            row.rates.resize(count, row.rate);
        }
    }
}

impl Engine<'_> {
    /// Sets the rates at the start, and plans what follows.
    pub fn begin_autorates(&mut self) {
        if self.autorates.control.is_some() {
            self.events.push(Instant::ZERO.after(INTERVAL), Event::Interval);
            for way in Way::ALL {
                let rate = self.autorates.control.as_ref().and_then(|control| control.rate(way));
                let id = self.autorates.outlets[way as usize];
                if let Some((id, rate)) = id.zip(rate) {
                    self.set_rate(Instant::ZERO, id, rate);
                }
            }
        }
        for id in self.autorates.following.clone() {
            self.follow(Instant::ZERO, id);
        }
    }

    /// The capacity changed that an outlet's rate follows.
    pub fn follow(&mut self, at: Instant, id: OutletId) {
        let (link, end) = self.network.outlet(id);
        let Some(Control::Follow(capacity, least)) = link.outlets[end].control.as_deref() else {
            return;
        };
        let rate = Rate::new(capacity.rate_at(at)).unwrap_or(Rate::MIN).max(*least);
        if let Some(next) = capacity.next_change(at) {
            self.events.push(next, Event::Follow(id.0));
        }
        self.set_rate(at, id, rate);
    }

    /// An interval ends.
    pub fn interval(&mut self, at: Instant) {
        let outlets = self.autorates.outlets;
        for way in Way::ALL {
            let Some(id) = outlets[way as usize] else { continue };
            self.outlets[id.index()].advance(at);
            self.settle(id);
            let waits = self.outlets[id.index()].waits();
            self.autorates.shapers[way as usize].is_limited = waits;
        }
        let shapers = std::mem::take(&mut self.autorates.shapers);
        let Some(control) = &mut self.autorates.control else { return };
        let steps = control.end_interval(self.autorates.disturbance.stamp(at), &shapers);
        let echo = control.echo();
        self.events.push(at.after(INTERVAL), Event::Interval);
        for step in steps.into_iter().flatten() {
            let Some(id) = outlets[step.way as usize] else { continue };
            if let Some(row) = self.autorates.rows.get_mut(&id) {
                *row.reasons.entry(step.reason.word()).or_default() += 1;
            }
            self.set_rate(at, id, step.to);
        }
        if let Some((echo, echoes)) = echo.zip(self.autorates.echoes.as_mut()) {
            let question = echoes.question(echo);
            self.emit(at, question, Content::Nothing);
        }
    }

    /// Returns whether a packet that has come to its end is an echo, which a reflector answers, or
    /// the answer, which is taken.
    pub fn reflects(&mut self, at: Instant, parcel: &Parcel) -> bool {
        let Some(echoes) = self.autorates.echoes.as_ref().filter(|own| own.owns(parcel)) else {
            return false;
        };
        if parcel.back {
            self.autorates.echoed(at, parcel.connection as u16);
            return true;
        }
        let (answer, takes) = echoes.answer(parcel);
        let handle = self.make(answer, Content::Nothing);
        self.flying += 1;
        self.events.push(at.after(takes), Event::Answer(handle));
        true
    }

    /// Gives an outlet its rate again after its plan has changed.
    pub fn keep_rate(&mut self, at: Instant, id: OutletId) {
        if let Some(rate) = self.autorates.rate_of(id) {
            self.outlets[id.index()].set_rate(at, rate);
        }
    }

    fn set_rate(&mut self, at: Instant, id: OutletId, rate: Rate) {
        self.autorates.note(id, at);
        let Some(row) = self.autorates.rows.get_mut(&id) else { return };
        if row.rate == rate.bits_per_second() {
            return;
        }
        row.rate = rate.bits_per_second();
        row.changes += 1;
        self.outlets[id.index()].advance(at);
        self.settle(id);
        self.outlets[id.index()].set_rate(at, rate);
        self.settle(id);
    }
}

/// Returns the fields of a simulated packet that say something of delays.
fn segment(content: &Content) -> Segment {
    let Content::Segment(segment) = content else { return Segment::Other };
    let stamp = segment.timestamps.map(|stamp| Stamp { value: stamp.value, echo: stamp.echo });
    Segment::Tcp(TcpSegment {
        seq: segment.seq.0,
        ack: segment.flags.has(Flags::ACK).then_some(segment.ack.0),
        stamp,
        payload: segment.sequence_len() as u32,
        is_reset: segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST),
    })
}

/// The name of one that knows the trace.
const ORACLE: &str = "oracle";
