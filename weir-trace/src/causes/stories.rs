//! The delay of single packets, divided.

use super::Ask;
use crate::explain::Parts;
use crate::load::{Event, Happened, Load};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::explain::Sojourn;
use weir_core::ids::LeafId;
use weir_core::sched::Regulation;
use weir_core::units::{Duration, Instant};

/// How the delay of one packet divides.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Story {
    /// Its number among the packets of its class, from 1.
    pub number: u64,
    /// The name of its class.
    pub class: String,
    /// When it was offered, in seconds from the start of the load.
    pub offered_s: f64,
    /// The length that the policy charges, in bytes.
    pub bytes: u32,
    /// From the offer until it left or was dropped, in ms; [`Within::with_host`] counts the run
    /// loop, too.
    pub total_ms: f64,
    /// The parts, in ms.
    pub parts_ms: Parts<f64>,
    /// The class whose rule held it back, if one did, and the rule.
    pub regulated_by: Option<(String, &'static str)>,
    /// The class that lent for it.
    pub lender: Option<String>,
    /// Packets of its own class that left while it waited.
    pub own: Turns,
    /// Packets of each other class that left while it waited.
    pub others: BTreeMap<String, Turns>,
    /// How the link's rate changed while it waited, if a controller changed it.
    pub rates: Option<Rates>,
    /// How late the run loop handed it out, in ms, if that was recorded.
    pub host_ms: Option<f64>,
    /// How long the port then took, in ms, if that was recorded.
    pub port_ms: Option<f64>,
    /// Why it was dropped, if it was.
    pub dropped: Option<&'static str>,
}

/// A cell of a heat map: packets that left or were dropped in `(from, to]`, after a delay in
/// `[delay_min, delay_max)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Within {
    /// The beginning, which is not part of it.
    pub from: Instant,
    /// The end, which is part of it.
    pub to: Instant,
    /// The shortest delay, which is part of it.
    pub delay_min: Duration,
    /// The delay above all others.
    pub delay_max: Duration,
    /// Whether how late the run loop handed a packet out counts, as in the status of a link.
    pub with_host: bool,
}

/// Changes of a link's rate by a controller ([`Event::Rate`]), in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Rates {
    /// How many there were.
    pub changes: u64,
    /// The lowest that was set.
    pub least_bps: u64,
    /// The one that was set last.
    pub last_bps: u64,
}

/// Packets sent, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Turns {
    /// Packets that left.
    pub packets: u64,
    /// The bytes that the policy charges for them.
    pub bytes: u64,
}

/// Collects what stories are made of.
pub(super) struct Stories<'a> {
    load: &'a Load,
    ask: Ask,
    stage: usize,
    /// For each leaf of the stage, the number of its class, and whether it was asked for.
    leaves: Vec<(usize, bool)>,
    names: Vec<String>,
    /// How many packets of each class were offered.
    offered: Vec<u64>,
    /// The number of each packet in its class.
    numbers: Vec<u64>,
    /// How many packets that were asked for were offered, and the place of the one with the number.
    asked: (u64, Option<usize>),
    /// Instant, class and bytes of each departure.
    left: Vec<(Instant, u32, u32)>,
    /// The packets to tell of, the slowest first.
    chosen: Vec<Chosen>,
    /// How many packets ended that fit what was asked for.
    matched: u64,
}

/// A packet to tell of: its sojourn, its class, the classes that held it back and that lent.
struct Chosen {
    sojourn: Sojourn,
    /// Its delay as it is asked for.
    total: Duration,
    class: usize,
    regulator: Option<String>,
    lender: Option<String>,
}

impl<'a> Stories<'a> {
    pub fn new(load: &'a Load, ask: &Ask) -> Self {
        let mut this = Self {
            load,
            ask: ask.clone(),
            stage: 0,
            leaves: Vec::new(),
            names: Vec::new(),
            offered: Vec::new(),
            numbers: Vec::with_capacity(load.arrivals.len()),
            asked: (0, None),
            left: Vec::with_capacity(load.arrivals.len()),
            chosen: Vec::new(),
            matched: 0,
        };
        this.enter(0);
        this
    }

    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        let tree = &self.load.stages[stage].policy.link.tree;
        let mut leaves = Vec::with_capacity(tree.leaf_count());
        let known = self.names.iter().cloned().enumerate();
        let mut places: BTreeMap<_, _> = known.map(|(place, name)| (name, place)).collect();
        for (leaf, spec) in tree.leaves() {
            let next = self.names.len();
            let place = *places.entry(spec.name.clone()).or_insert(next);
            if place == next {
                self.names.push(spec.name.clone());
                self.offered.push(0);
            }
            let mut above = tree.path(tree.class_of(leaf)).map(|class| &tree.class(class).name);
            let is_asked = self.ask.class.as_ref().is_none_or(|asked| above.any(|it| it == asked));
            leaves.push((place, is_asked));
        }
        self.leaves = leaves;
    }

    pub fn note(&mut self, happened: &Happened<'_>) {
        match happened {
            Happened::Stage(stage) => self.enter(*stage),
            Happened::Offered(arrival) => self.offered(arrival.leaf),
            Happened::Left(left) => {
                let class = self.leaves[left.leaf.index()].0 as u32;
                let bytes = u32::try_from(left.charged.get()).unwrap_or(u32::MAX);
                self.left.push((left.at, class, bytes));
            }
            Happened::Waited(sojourn) => self.waited(sojourn),
            Happened::Dropped(..) | Happened::Ran(_) | Happened::Tick(..) => {}
        }
    }

    fn offered(&mut self, leaf: LeafId) {
        let (class, is_asked) = self.leaves[leaf.index()];
        self.offered[class] += 1;
        self.numbers.push(self.offered[class]);
        if is_asked {
            self.asked.0 += 1;
            if self.ask.packet == Some(self.asked.0) {
                self.asked.1 = Some(self.numbers.len() - 1);
            }
        }
    }

    /// Keeps the sojourn if it is the one asked for, or one of the slowest. Of equally slow ones
    /// the first stays.
    fn waited(&mut self, sojourn: &Sojourn) {
        let (class, is_asked) = self.leaves[sojourn.leaf.index()];
        let Some(place) = self.load.place(sojourn.handle).filter(|_| is_asked) else { return };
        let most = match self.ask.packet {
            Some(_) if self.asked.1 != Some(place) => return,
            Some(_) => 1,
            None => self.ask.worst,
        };
        let late = self.load.late.get(place).copied().flatten().map(|late| late.0);
        let late = late.filter(|_| self.ask.within.is_some_and(|within| within.with_host));
        let late = late.unwrap_or(Duration::ZERO);
        if self.ask.within.is_some_and(|within| !within.has(sojourn, late)) {
            return;
        }
        self.matched += 1;
        let total = sojourn.total().plus(late);
        let at = self.chosen.partition_point(|row| row.total >= total);
        if at >= most {
            return;
        }
        let tree = &self.load.stages[self.stage].policy.link.tree;
        let name = |class| tree.class(class).name.clone();
        let is_held = sojourn.regulated() > Duration::ZERO;
        let mut path = tree.path(tree.class_of(sojourn.leaf));
        let regulator = path.nth(sojourn.level.into()).filter(|_| is_held).map(name);
        let lender = sojourn.lender.map(name);
        self.chosen.insert(at, Chosen { sojourn: *sojourn, total, class, regulator, lender });
        self.chosen.truncate(most);
    }

    pub fn matched(&self) -> u64 {
        self.matched
    }

    pub fn finish(self) -> Vec<Story> {
        self.chosen.iter().filter_map(|chosen| self.story(chosen)).collect()
    }

    fn story(&self, chosen: &Chosen) -> Option<Story> {
        let Chosen { sojourn, total, class, regulator, lender } = chosen;
        let place = self.load.place(sojourn.handle)?;
        let (own, others) = self.turns(sojourn, *class);
        let rule = (sojourn.regulation != Regulation::None).then(|| sojourn.regulation.name());
        let late = self.load.late.get(place).copied().flatten();
        let start = self.load.start.min(sojourn.arrived);
        Some(Story {
            number: self.numbers[place],
            class: self.names[*class].clone(),
            offered_s: sojourn.arrived.since(start).as_nanos() as f64 / 1e9,
            bytes: self.load.arrivals[place].packet.length,
            total_ms: ms(*total),
            parts_ms: Parts::of(sojourn).map(ms),
            regulated_by: regulator.clone().zip(rule),
            lender: lender.clone(),
            own,
            others,
            rates: self.rates(sojourn),
            host_ms: late.map(|late| ms(late.0)),
            port_ms: late.and_then(|late| late.1).map(ms),
            dropped: sojourn.dropped.map(|reason| reason.name()),
        })
    }

    /// Returns how the rate changed while a packet waited.
    fn rates(&self, sojourn: &Sojourn) -> Option<Rates> {
        let events = &self.load.events;
        let first = events.partition_point(|event| event.0 < sojourn.arrived);
        let until = events.partition_point(|event| event.0 <= sojourn.at);
        let rates = events[first..until.max(first)].iter().filter_map(|event| match event.2 {
            Event::Rate(at, rate) if at > sojourn.arrived && at <= sojourn.at => {
                Some(rate.bits_per_second())
            }
            _ => None,
        });
        rates.fold(None, |before: Option<Rates>, rate| {
            let before = before.unwrap_or(Rates { changes: 0, least_bps: rate, last_bps: rate });
            let (changes, least_bps) = (before.changes + 1, before.least_bps.min(rate));
            Some(Rates { changes, least_bps, last_bps: rate })
        })
    }

    /// Returns what its own class and the others sent while a packet waited.
    fn turns(&self, sojourn: &Sojourn, class: usize) -> (Turns, BTreeMap<String, Turns>) {
        let first = self.left.partition_point(|row| row.0 < sojourn.arrived);
        let until = self.left.partition_point(|row| row.0 < sojourn.at);
        let (mut own, mut others) = (Turns::default(), BTreeMap::new());
        for &(_, of, bytes) in self.left.get(first..until).unwrap_or_default() {
            let turns: &mut Turns = match of as usize {
                of if of == class => &mut own,
                of => others.entry(self.names[of].clone()).or_default(),
            };
            turns.packets += 1;
            turns.bytes += u64::from(bytes);
        }
        (own, others)
    }
}

impl Within {
    fn has(&self, sojourn: &Sojourn, late: Duration) -> bool {
        let (total, at) = (sojourn.total().plus(late), sojourn.at.after(late));
        let in_time = at > self.from && at <= self.to;
        in_time && total >= self.delay_min && total < self.delay_max
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}
