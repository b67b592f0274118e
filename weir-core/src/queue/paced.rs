//! Turns of flows of which each may have a largest rate, in up to three bands [linux sch_fq]
//! [algorithms §9.22].
//!
//! A flow that becomes backlogged joins the *new* list of its band with what is left of its credit.
//! The new list goes before the old one. A flow that has used up its credit gains a quantum and
//! goes to the end of the old list. One whose first packet is not due yet leaves the lists until it
//! is; then it joins the old list. Bands share by weights: the band in turn sends while it has
//! credit. Invariant: a flow that holds a packet is listed or waits for its instant, never both.

use super::Entry;
use crate::account::Count;
use crate::order::lists::Lists;
use crate::state::{Reader, State, StateError, Writer, load_rows, save_rows, state};
use crate::units::{Bytes, Duration, Instant, Rate};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The turns, and what waits for its instant.
pub(super) struct Paced {
    plan: PacedPlan,
    /// By the flow's number; the unknown flow has no turns.
    members: Vec<Member>,
    /// The new and the old list of each band.
    lists: Lists,
    /// The flows that wait for an instant, in the order of these, and of their coming.
    delayed: BTreeMap<(Instant, u64), u32>,
    /// The number of flows that have waited so.
    serial: u64,
    /// The band in turn.
    band: u64,
    /// Bytes that each band may still send in its turn.
    credits: [i64; BANDS],
    /// The packets of each band.
    waiting: [Count; BANDS],
    now: Instant,
    /// Whether the packet that was chosen last left later than it may without a mark.
    is_late: bool,
}

/// The rules of the turns.
#[derive(Clone, Copy)]
pub(super) struct PacedPlan {
    pub quantum: i64,
    /// The credit of a flow that was not seen before.
    pub quantum_first: i64,
    /// The time after which an idle flow has a whole quantum again.
    pub refill: Duration,
    pub rate: Option<Rate>,
    /// A flow at this rate or below is paced packet by packet.
    pub rate_low: u64,
    /// How long after its instant a packet leaves unmarked.
    pub late: Option<Duration>,
    /// The bytes that each band sends in its turn; absent if there is one band.
    pub weights: Option<[i64; BANDS]>,
}

/// A packet, as the turns see it.
#[derive(Clone, Copy)]
pub(super) struct PacedPacket {
    pub arrived: Instant,
    pub charged: u32,
    pub traffic_class: u8,
}

/// A flow.
#[derive(Clone, Copy, Default)]
struct Member {
    credit: i64,
    /// Before this instant it sends nothing; the start of time if it was never held.
    next: Instant,
    /// When it was found empty.
    idle_since: Instant,
    band: u64,
    /// With its instant its key among those that wait.
    serial: Option<u64>,
}

impl PacedPacket {
    /// Returns what the turns see of a packet.
    pub(super) const fn of(entry: &Entry) -> Self {
        let (arrived, charged) = (entry.arrived, entry.charged);
        Self { arrived, charged, traffic_class: entry.label.traffic_class() }
    }
}

impl Paced {
    pub(super) fn new(plan: PacedPlan) -> Self {
        Self {
            plan,
            members: Vec::new(),
            lists: Lists::new(2 * BANDS, 0),
            delayed: BTreeMap::new(),
            serial: 0,
            band: 0,
            credits: [0; BANDS],
            waiting: [Count::default(); BANDS],
            now: Instant::ZERO,
            is_late: false,
        }
    }

    /// Adds a flow, whose number is one more than the last one's.
    pub(super) fn add(&mut self) {
        let (credit, idle_since) = (self.plan.quantum_first, self.now);
        self.members.push(Member { credit, idle_since, ..Member::default() });
        self.lists.add_item();
    }

    /// Records that time passed.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Returns the packets that wait in the band of a packet with this traffic class.
    pub(super) fn in_band(&self, traffic_class: u8) -> Count {
        self.waiting[self.plan.band(traffic_class) as usize]
    }

    /// Records that a packet joined a flow, which is 0 if it is unknown.
    pub(super) fn join(&mut self, flow: u32, packet: PacedPacket) {
        self.at(packet.arrived);
        let band = self.count(packet);
        let Some(member) = self.members.get_mut(flow as usize).filter(|_| flow > 0) else { return };
        if member.serial.is_none() && !self.lists.contains(flow) {
            let idle = self.now.since(member.idle_since);
            // [linux] A debt stays: it is compared as a number without a sign.
            if idle > self.plan.refill && member.credit >= 0 {
                member.credit = member.credit.max(self.plan.quantum);
            }
            // [linux] In the band of the packet before this one.
            self.lists.push(list(member.band, NEW), flow);
        }
        member.band = band;
    }

    /// Counts a packet that waits; returns its band.
    pub(super) fn count(&mut self, packet: PacedPacket) -> u64 {
        let band = self.plan.band(packet.traffic_class);
        let waiting = &mut self.waiting[band as usize];
        *waiting = waiting.plus(Count { packets: 1, bytes: u64::from(packet.charged) });
        band
    }

    /// Records that a packet was taken out of the chain of its flow.
    pub(super) fn took(&mut self, packet: PacedPacket) {
        let waiting = &mut self.waiting[self.plan.band(packet.traffic_class) as usize];
        waiting.packets -= 1;
        waiting.bytes -= u64::from(packet.charged);
    }

    /// Returns the flow whose turn it is, and charges it for its first packet, which `first`
    /// returns; `None` if none is due before [`Paced::not_before`].
    pub(super) fn choose(&mut self, first: impl Fn(u32) -> Option<PacedPacket>) -> Option<u32> {
        self.end_delays();
        let mut passed = 0u32;
        // Terminates: debts end, and other rounds take a flow out of its list.
        loop {
            let (band, age) = self.turn()?;
            let flow = self.lists.pop(list(band, age))?;
            let member = &mut self.members[flow as usize];
            if member.credit <= 0 {
                member.credit += self.plan.quantum;
                self.lists.push(list(member.band, OLD), flow);
                passed += 1;
                if passed.is_multiple_of(PASSED_MAX) {
                    self.skip_rounds(band);
                }
                continue;
            }
            let Some(packet) = first(flow) else {
                self.found_empty(flow, age);
                continue;
            };
            let due = packet.arrived.max(member.next);
            if self.now < due {
                member.next = due;
                self.delay(flow);
                continue;
            }
            self.is_late = self.plan.late.is_some_and(|most| self.now.since(due) > most);
            self.lists.push_first(list(band, age), flow);
            self.charge(flow, band, packet.charged);
            return Some(flow);
        }
    }

    /// Returns before which instant no packet is due, after a choice in vain.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|(key, _)| key.0)
    }

    /// Returns whether a choice may change anything before [`Paced::not_before`].
    pub(super) fn has_turns(&self) -> bool {
        (0..2 * BANDS).any(|list| self.lists.first(list).is_some())
    }

    /// Returns the number of flows that wait for their instants.
    pub(super) fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// Returns whether the packet that was chosen last is to be marked.
    pub(super) const fn is_late(&self) -> bool {
        self.is_late
    }

    /// Forgets the packets, and with them the turns; what flows may send stays.
    pub(super) fn forget_packets(&mut self) {
        for list in 0..2 * BANDS {
            while self.lists.pop(list).is_some() {}
        }
        self.delayed.clear();
        self.members.iter_mut().for_each(|member| member.serial = None);
        self.waiting = [Count::default(); BANDS];
    }

    /// Puts the flows that are due into their lists.
    fn end_delays(&mut self) {
        while let Some((&(at, serial), &flow)) = self.delayed.first_key_value()
            && at <= self.now
        {
            self.delayed.remove(&(at, serial));
            let member = &mut self.members[flow as usize];
            member.serial = None;
            self.lists.push(list(member.band, OLD), flow);
        }
    }

    /// Returns the band and the list whose turn it is; `None` if no flow is listed.
    fn turn(&mut self) -> Option<(u64, usize)> {
        let listed = |lists: &Lists, band: u64| {
            [NEW, OLD].into_iter().find(|&age| lists.first(list(band, age)).is_some())
        };
        let Some(weights) = self.plan.weights else {
            return listed(&self.lists, 0).map(|age| (0, age));
        };
        let mut idle = 0;
        // Terminates: a band without credit gains its weight in each round.
        while idle <= BANDS {
            let credit = self.credits[self.band as usize];
            let age = listed(&self.lists, self.band);
            if let Some(age) = age.filter(|_| credit > 0) {
                return Some((self.band, age));
            }
            self.band = (self.band + 1) % BANDS as u64;
            let weight = weights[self.band as usize];
            let credit = &mut self.credits[self.band as usize];
            *credit = (*credit + weight).min(weight);
            idle = if *credit > 0 { idle + 1 } else { 0 };
        }
        None
    }

    /// Gives each flow of a band, if none may send, the quanta of all further rounds in which that
    /// is so, at once.
    #[cold]
    fn skip_rounds(&mut self, band: u64) {
        let lists = || [NEW, OLD].into_iter().flat_map(|age| self.lists.iter(list(band, age)));
        let most = lists().map(|flow| self.members[flow as usize].credit).max().unwrap_or(1);
        if most > 0 || self.lists.first(list(band, NEW)).is_some() {
            return;
        }
        let gain = most.unsigned_abs() as i64 / self.plan.quantum * self.plan.quantum;
        for flow in self.lists.iter(list(band, OLD)) {
            self.members[flow as usize].credit += gain;
        }
    }

    /// Records that a flow of a list, taken out of it, holds no packet: it passes through the old
    /// list, so that it cannot come back at once as a newcomer while others wait.
    fn found_empty(&mut self, flow: u32, age: usize) {
        let member = &mut self.members[flow as usize];
        let old = list(member.band, OLD);
        // [linux] Before 6.7 it leaves where no other waits.
        let others = self.plan.weights.is_some() || self.lists.first(old).is_some();
        match age == NEW && others {
            true => self.lists.push(old, flow),
            false => member.idle_since = self.now,
        }
    }

    /// Lets a flow, which is in no list, wait for its instant.
    fn delay(&mut self, flow: u32) {
        self.serial += 1;
        let member = &mut self.members[flow as usize];
        member.serial = Some(self.serial);
        self.delayed.insert((member.next, self.serial), flow);
    }

    /// Charges a flow, and the band in whose turn it sends, for a packet.
    fn charge(&mut self, flow: u32, band: u64, charged: u32) {
        let member = &mut self.members[flow as usize];
        member.credit -= i64::from(charged);
        self.credits[band as usize] -= i64::from(charged);
        let Some(rate) = self.plan.rate else { return };
        let mut length = u64::from(charged);
        if rate.bits_per_second() <= self.plan.rate_low {
            member.credit = 0;
        } else {
            length = length.max(self.plan.quantum.unsigned_abs());
            if member.credit > 0 {
                return;
            }
        }
        let mut pause = pause(length, rate);
        if member.next > Instant::ZERO {
            // A packet that left late shortens the pause behind it, by half at most.
            pause -= self.now.since(member.next).as_nanos().min(pause / 2);
        }
        member.next = self.now.after(Duration::from_nanos(pause));
    }

    /// Whether this can be the state of a leaf in whose chains so many packets wait.
    pub(super) fn is_sound(&self, chained: u64, waits: impl Fn(usize) -> bool) -> bool {
        let within = |credit: i64| credit.unsigned_abs() <= CREDIT_MAX;
        let counted: u64 = self.waiting.iter().map(|count| count.packets).sum();
        let known = if self.plan.weights.is_some() { BANDS } else { 1 };
        let mut others = 2 * known..2 * BANDS;
        let no_others = others.all(|list| self.lists.first(list).is_none());
        let mut members = self.members.iter().enumerate().skip(1);
        let listed = members.all(|(flow, member)| {
            within(member.credit)
                && member.band < known as u64
                && match (member.serial, self.lists.contains(flow as u32)) {
                    (Some(_), is_listed) => !is_listed && waits(flow),
                    (None, is_listed) => is_listed || !waits(flow),
                }
        });
        let unknown = self.members.first().is_none_or(|member| member.serial.is_none());
        let bands = self.credits.iter().all(|&credit| within(credit));
        let unlisted = self.members.is_empty() || !self.lists.contains(0);
        let lists = no_others && unlisted && self.band < known as u64;
        counted == chained && listed && unknown && bands && lists
    }
}

impl PacedPlan {
    /// Returns the band of a packet: [linux] of its priority, which follows from two bits of its
    /// TOS where a router sets it (`ip_tos2prio`), by the usual map.
    fn band(&self, traffic_class: u8) -> u64 {
        match traffic_class & TOS_MASK {
            _ if self.weights.is_none() => 0,
            LOW_DELAY => 0,
            BULK => 2,
            _ => 1,
        }
    }
}

/// Returns the number of a list.
const fn list(band: u64, age: usize) -> usize {
    2 * band as usize + age
}

/// Returns the nanoseconds that a flow pauses behind so many bytes, rounded down; a second at most.
fn pause(length: u64, rate: Rate) -> u64 {
    let bytes = (rate.bits_per_second() / 8).max(1);
    (length.saturating_mul(SECOND) / bytes).min(SECOND)
}

/// The lists hold the flows, and say which of them wait for their turns.
impl State for Paced {
    fn save(&self, to: &mut Writer) {
        let Self {
            plan: _,
            members,
            lists,
            delayed: _,
            serial,
            band,
            credits,
            waiting: _,
            now,
            is_late,
        } = self;
        save_rows(members, to);
        lists.save(to);
        serial.save(to);
        band.save(to);
        credits.save(to);
        now.save(to);
        is_late.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let flows = self.members.len();
        load_rows(&mut self.members, from, flows)?;
        if self.members.len() != flows {
            return Err(StateError::Invalid("members of paced flows"));
        }
        self.lists.load(from)?;
        self.serial.load(from)?;
        self.band.load(from)?;
        self.credits.load(from)?;
        self.now.load(from)?;
        self.is_late.load(from)?;
        if self.serial > u64::MAX / 2 {
            return Err(StateError::Invalid("flows that wait"));
        }
        for (flow, member) in self.members.iter().enumerate() {
            let Some(serial) = member.serial else { continue };
            let is_new = self.delayed.insert((member.next, serial), flow as u32).is_none();
            if !is_new || serial > self.serial {
                return Err(StateError::Invalid("flows that wait"));
            }
        }
        Ok(())
    }
}

state!(Member { credit, next, idle_since, band, serial });

/// Bound: bands of FQ; a policy names one or three.
pub(super) const BANDS: usize = 3;
/// Backlogged since short.
const NEW: usize = 0;
/// Backlogged for longer than a turn.
const OLD: usize = 1;
/// The bits of a TOS that Linux turns into a priority.
const TOS_MASK: u8 = 0b1_1000;
const LOW_DELAY: u8 = 0b1_0000;
const BULK: u8 = 0b0_1000;
const SECOND: u64 = 1_000_000_000;
/// Bound: turns of flows without credit in one choice of FQ; then the rounds are skipped in which
/// none may send.
const PASSED_MAX: u32 = 256;
/// No credit is further from zero than a packet of 32 bits and a little more.
const CREDIT_MAX: u64 = 1 << 40;
/// The bytes of a quantum, the least: with less, a large packet would need too many rounds.
pub(super) const QUANTUM_MIN: u64 = 256;
/// The most that a quantum may have.
pub(super) const QUANTUM_MAX: u64 = 1 << 20;
/// The quantum by default: two frames of the usual MTU.
pub(super) const QUANTUM: Bytes = Bytes::new(3028);
