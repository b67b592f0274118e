//! HTB as the rules define it [algorithms §5.3-5.5]: ordered sets, maps, wide integers, no
//! optimisation.
//!
//! It shares with the scheduler only the unit of tokens (2^-26 ns, a byte's cost rounded up) and
//! the order of events at one instant (by class number), which the rules leave open. With a
//! [`Kernel`] it is the historic variant.

use std::collections::{BTreeMap, BTreeSet};
use weir_core::ids::{ClassId, LeafId};
use weir_core::sched::{Head, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Instant};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Cant,
    May,
    Can,
}

#[derive(Clone)]
struct Class {
    parent: Option<usize>,
    level: usize,
    rate: u128,
    ceil: u128,
    tokens: i128,
    ctokens: i128,
    buffer: i128,
    cbuffer: i128,
    checkpoint: u64,
    mode: Mode,
    activity: BTreeSet<usize>,
    event: Option<u64>,
    prio: usize,
    quantum: i128,
    deficit: [i128; 8],
    feeds: BTreeMap<usize, Ring>,
}

/// An ordered set with a pointer, and the class that it pointed at when that class left.
#[derive(Clone, Default)]
struct Ring {
    members: BTreeSet<usize>,
    pointer: Option<usize>,
    last: Option<usize>,
}

/// The state of the historic variant: ticks of 10^9 / hz ns, whole for the hz of the tests.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub tick: u64,
    pub hysteresis: bool,
    pub rtab: bool,
}

pub struct Oracle {
    kernel: Option<Kernel>,
    classes: Vec<Class>,
    class_of_leaf: Vec<usize>,
    leaf_of_class: BTreeMap<usize, LeafId>,
    rows: BTreeMap<(usize, usize), Ring>,
    waits: [BTreeSet<(u64, usize)>; 8],
    /// The level at which the leaf last selected is served.
    pub level: usize,
}

const UNIT: i128 = 1 << 26;
const MBUFFER: i128 = 60_000_000_000 * UNIT;

fn cost(rate: u128, bytes: u64) -> i128 {
    (8_000_000_000 * UNIT as u128).div_ceil(rate) as i128 * i128::from(bytes)
}

impl Oracle {
    pub fn new(tree: &Tree, kernel: Option<Kernel>) -> Self {
        let class = |(id, _)| Class::new(tree, id, kernel);
        let classes: Vec<Class> = tree.classes().map(class).collect();
        Self {
            kernel,
            classes,
            class_of_leaf: tree.leaves().map(|(leaf, _)| tree.class_of(leaf).index()).collect(),
            leaf_of_class: tree
                .leaves()
                .map(|(leaf, _)| (tree.class_of(leaf).index(), leaf))
                .collect(),
            rows: BTreeMap::new(),
            waits: Default::default(),
            level: 0,
        }
    }

    /// The mode rule [§5.4], `diff` after the checkpoint.
    fn mode(&self, class: usize, diff: i128) -> (Mode, i128) {
        let class = &self.classes[class];
        let lag = self.kernel.is_some_and(|kernel| kernel.hysteresis);
        let low = if lag && class.mode != Mode::Cant { -class.cbuffer } else { 0 };
        let high = if lag && class.mode == Mode::Can { -class.buffer } else { 0 };
        if class.ctokens + diff < low {
            (Mode::Cant, -(class.ctokens + diff))
        } else if class.tokens + diff >= high {
            (Mode::Can, 0)
        } else {
            (Mode::May, -(class.tokens + diff))
        }
    }

    fn diff(&self, class: usize, now: u64) -> i128 {
        (i128::from(now - self.classes[class].checkpoint) * UNIT).min(MBUFFER)
    }

    fn change_mode(&mut self, class: usize, diff: i128) -> i128 {
        let (mode, wait) = self.mode(class, diff);
        if mode != self.classes[class].mode {
            let active = self.classes[class].activity.clone();
            if !active.is_empty() && self.classes[class].mode != Mode::Cant {
                self.deactivate(class, active.clone());
            }
            self.classes[class].mode = mode;
            if !active.is_empty() && mode != Mode::Cant {
                self.activate(class, active);
            }
        }
        wait
    }

    fn activate(&mut self, class: usize, mut mask: BTreeSet<usize>) {
        let mut at = class;
        while self.classes[at].mode == Mode::May && !mask.is_empty() {
            let Some(parent) = self.classes[at].parent else { break };
            for prio in mask.clone() {
                let feed = self.classes[parent].feeds.entry(prio).or_default();
                if !feed.members.is_empty() {
                    mask.remove(&prio);
                }
                feed.members.insert(at);
            }
            self.classes[parent].activity.extend(&mask);
            at = parent;
        }
        if self.classes[at].mode == Mode::Can {
            for prio in mask {
                let level = self.classes[at].level;
                self.rows.entry((level, prio)).or_default().members.insert(at);
            }
        }
    }

    fn deactivate(&mut self, class: usize, mut mask: BTreeSet<usize>) {
        let mut at = class;
        while self.classes[at].mode == Mode::May && !mask.is_empty() {
            let Some(parent) = self.classes[at].parent else { break };
            for prio in std::mem::take(&mut mask) {
                let feed = self.classes[parent].feeds.get_mut(&prio).expect("a feed");
                if feed.pointer == Some(at) {
                    feed.last = Some(at);
                    feed.pointer = None;
                }
                feed.members.remove(&at);
                if feed.members.is_empty() {
                    mask.insert(prio);
                }
            }
            for prio in &mask {
                self.classes[parent].activity.remove(prio);
            }
            at = parent;
        }
        if self.classes[at].mode == Mode::Can {
            for prio in mask {
                let level = self.classes[at].level;
                let row = self.rows.get_mut(&(level, prio)).expect("a row");
                if row.pointer == Some(at) {
                    row.advance();
                }
                row.members.remove(&at);
            }
        }
    }

    fn events(&mut self, level: usize, now: u64) {
        while let Some(&(key, class)) = self.waits[level].first() {
            if key > now {
                return;
            }
            self.waits[level].pop_first();
            let wait = self.change_mode(class, self.diff(class, now));
            if self.classes[class].mode != Mode::Can {
                self.wait(class, now, wait);
            } else {
                self.classes[class].event = None;
            }
        }
    }

    fn wait(&mut self, class: usize, now: u64, wait: i128) {
        let nanos = ((wait + UNIT - 1) / UNIT).max(1) as u64;
        let key = match self.kernel {
            Some(Kernel { tick, .. }) => (now / tick + nanos.div_ceil(tick)) * tick,
            None => now + nanos,
        };
        self.classes[class].event = Some(key);
        self.waits[self.classes[class].level].insert((key, class));
    }

    /// Follows the pointers: a stack of rings, the row first.
    fn lookup(&mut self, level: usize, prio: usize) -> usize {
        let mut stack: Vec<Option<usize>> = vec![None];
        loop {
            let top = stack[stack.len() - 1];
            let ring = self.ring(level, prio, top);
            if let (None, Some(last)) = (ring.pointer, ring.last) {
                ring.pointer = ring.members.range(last..).next().copied();
            }
            ring.last = None;
            let Some(at) = ring.pointer else {
                ring.pointer = ring.members.first().copied();
                assert!(ring.pointer.is_some(), "a ring on the way has members");
                if stack.len() > 1 {
                    stack.pop();
                    let above = stack[stack.len() - 1];
                    self.ring(level, prio, above).advance();
                }
                continue;
            };
            if self.classes[at].level == 0 {
                return at;
            }
            stack.push(Some(at));
        }
    }

    fn ring(&mut self, level: usize, prio: usize, class: Option<usize>) -> &mut Ring {
        match class {
            Some(class) => self.classes[class].feeds.entry(prio).or_default(),
            None => self.rows.entry((level, prio)).or_default(),
        }
    }
}

impl Ring {
    fn advance(&mut self) {
        let pointer = self.pointer.expect("a pointer that moves on is set");
        self.pointer = self.members.range(pointer + 1..).next().copied();
    }
}

impl Class {
    fn new(tree: &Tree, id: ClassId, kernel: Option<Kernel>) -> Self {
        let params = &tree.class(id).params;
        let bits = |name: &str| params.rate(name).map(|rate| rate.bits_per_second());
        let rate = bits("rate").expect("rows have a rate");
        let ceil = bits("ceil").unwrap_or(rate);
        let mtu = tree.mtu().get();
        let burst = |name: &str, rate: u64| {
            let bytes = params.bytes(name).map(|bytes| bytes.get());
            let bytes = bytes.unwrap_or(match kernel {
                Some(Kernel { tick, .. }) => rate / 8 / (1_000_000_000 / tick) + 1600,
                None => rate / 8 / 250 + mtu.max(1600),
            });
            cost(u128::from(rate), bytes).min(MBUFFER)
        };
        let quantum = (rate / 8 / 10).clamp(1000, 200_000);
        let quantum = if kernel.is_some() { quantum } else { quantum.max(mtu) };
        let quantum = params.bytes("quantum").map_or(quantum, |bytes| bytes.get());
        Self {
            parent: tree.class(id).parent.map(|parent| parent.index()),
            level: tree.leaf_of(id).map_or(8 - tree.path(id).count(), |_| 0),
            rate: rate.into(),
            ceil: ceil.into(),
            tokens: burst("burst", rate),
            ctokens: burst("cburst", ceil),
            buffer: burst("burst", rate),
            cbuffer: burst("cburst", ceil),
            checkpoint: 0,
            mode: Mode::Can,
            activity: BTreeSet::new(),
            event: None,
            prio: params.number("prio").unwrap_or(0) as usize,
            quantum: quantum.into(),
            deficit: [0; 8],
            feeds: BTreeMap::new(),
        }
    }
}

impl Scheduler for Oracle {
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, _head: Head) {
        let class = self.class_of_leaf[leaf.index()];
        if self.classes[class].activity.is_empty() {
            let mask = BTreeSet::from([self.classes[class].prio]);
            self.classes[class].activity = mask.clone();
            self.activate(class, mask);
        }
    }

    fn select(&mut self, now: Instant) -> Selection {
        let now = now.as_nanos();
        if self.class_of_leaf.iter().all(|&class| self.classes[class].activity.is_empty()) {
            return Selection::Idle;
        }
        for level in 0..8 {
            self.events(level, now);
            for prio in 0..8 {
                if self.rows.get(&(level, prio)).is_some_and(|row| !row.members.is_empty()) {
                    self.level = level;
                    let class = self.lookup(level, prio);
                    return Selection::Leaf(self.leaf_of_class[&class]);
                }
            }
        }
        let next = self.waits.iter().filter_map(|queue| queue.first()).min();
        let next = next.expect("a leaf is backlogged").0;
        let Some(Kernel { tick, .. }) = self.kernel else {
            return Selection::At(Instant::from_nanos(next));
        };
        let seconds = if self.waits.iter().all(|queue| !queue.is_empty()) { 5 } else { 1 };
        let patience = (now / tick + (seconds * 1_000_000_000u64).div_ceil(tick)) * tick;
        Selection::At(Instant::from_nanos(next.min(patience)))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        let (now_nanos, bytes) = (now.as_nanos(), sent.get());
        let class = self.class_of_leaf[leaf.index()];
        let (level, prio) = (self.level, self.classes[class].prio);
        self.classes[class].deficit[level] -= i128::from(bytes);
        if self.classes[class].deficit[level] < 0 {
            self.classes[class].deficit[level] += self.classes[class].quantum;
            let above = (level > 0).then_some(self.classes[class].parent).flatten();
            self.ring(level, prio, above).advance();
        }
        self.head_changed(now, leaf, next);
        let bytes = match self.kernel {
            Some(Kernel { rtab: true, .. }) => (bytes / 8).min(255) * 8,
            _ => bytes,
        };
        let mut at = Some(class);
        while let Some(x) = at {
            let diff = self.diff(x, now_nanos);
            let class = &mut self.classes[x];
            if class.level >= level {
                let full = (class.tokens + diff).min(class.buffer);
                class.tokens = (full - cost(class.rate, bytes)).max(1 - MBUFFER);
            } else {
                class.tokens += diff;
            }
            let full = (class.ctokens + diff).min(class.cbuffer);
            class.ctokens = (full - cost(class.ceil, bytes)).max(1 - MBUFFER);
            class.checkpoint = now_nanos;
            let old = class.mode;
            let wait = self.change_mode(x, 0);
            let class = &mut self.classes[x];
            if old != class.mode {
                if let Some(key) = class.event.take() {
                    self.waits[class.level].remove(&(key, x));
                }
                if class.mode != Mode::Can {
                    self.wait(x, now_nanos, wait);
                }
            }
            at = self.classes[x].parent;
        }
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        let class = self.class_of_leaf[leaf.index()];
        if head.is_none() {
            let mask = std::mem::take(&mut self.classes[class].activity);
            if !mask.is_empty() {
                self.deactivate(class, mask);
            }
        }
    }
}
