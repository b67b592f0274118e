//! Simulates the network of ns-2's CBQ tests, on a clock of floats as in ns-2.
//!
//! Sources send over access links of 10 Mbit/s and 5 ms to the router with the shared link. Events
//! at one instant happen in the order in which they were planned, as in ns-2's calendar; and
//! instants are sums of floats as there, so ties are broken the same way.

use super::scenario::{Scenario, Source};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use weir_core::ids::LeafId;
use weir_core::sched::cbq_ref::{Answer, CbqRef};
use weir_core::sched::{Changes, Discipline, Kin, Tree};
use weir_core::units::Instant;

/// A packet that the shared link began to send.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: f64,
    pub finished: f64,
    pub flow: usize,
}

/// Runs a scenario; returns what the shared link sent, in order.
///
/// # Errors
/// When the scheduler refuses the tree.
pub fn run(scenario: &Scenario) -> Result<Vec<Sent>, String> {
    let mut network = Network::new(scenario)?;
    let end = scenario.seconds as f64;
    while let Some(Reverse(next)) = network.agenda.pop() {
        if next.at >= end {
            break;
        }
        network.now = next.at;
        network.happen(next.event)?;
    }
    Ok(network.sent)
}

struct Network<'a> {
    scenario: &'a Scenario,
    now: f64,
    agenda: BinaryHeap<Reverse<Entry>>,
    planned: u64,
    /// For each source whether it is on, and how many times it was switched.
    on: Vec<(bool, u64)>,
    accesses: Vec<Access>,
    scheduler: CbqRef,
    tree: &'a Tree,
    /// The packets that wait in each leaf.
    queues: Vec<VecDeque<(usize, u32)>>,
    /// Whether the shared link sends, or is about to poll.
    busy: bool,
    bandwidth: f64,
    sent: Vec<Sent>,
}

/// The link from a source to the router.
#[derive(Default)]
struct Access {
    queue: VecDeque<usize>,
    busy: bool,
}

/// An event of the simulated network.
enum Event {
    Switch(usize),
    /// A source sends, unless it was switched since.
    Send(usize, u64),
    AccessIdle(usize),
    Arrive(usize),
    Change(usize),
    /// The shared link polls for a packet.
    Look,
}

/// An event with its time; earlier first, and at one instant in the order of planning.
struct Entry {
    at: f64,
    number: u64,
    event: Event,
}

impl<'a> Network<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, String> {
        let accesses = scenario.sources.iter().map(|source| source.access + 1).max().unwrap_or(0);
        let mut this = Self {
            scenario,
            now: 0.0,
            agenda: BinaryHeap::new(),
            planned: 0,
            on: vec![(false, 0); scenario.sources.len()],
            accesses: std::iter::repeat_with(Access::default).take(accesses).collect(),
            scheduler: CbqRef::build(&scenario.tree).map_err(|error| error.to_string())?,
            tree: &scenario.tree,
            queues: vec![VecDeque::new(); scenario.tree.leaf_count()],
            busy: false,
            bandwidth: scenario.tree.rate().bits_per_second() as f64,
            sent: Vec::new(),
        };
        for (index, source) in scenario.sources.iter().enumerate() {
            for &at in &source.switched {
                this.plan(at, Event::Switch(index));
            }
        }
        for (index, change) in scenario.changes.iter().enumerate() {
            this.plan(change.at, Event::Change(index));
        }
        Ok(this)
    }

    fn plan(&mut self, at: f64, event: Event) {
        self.planned += 1;
        self.agenda.push(Reverse(Entry { at, number: self.planned, event }));
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Switch(source) => {
                let (on, times) = self.on[source];
                self.on[source] = (!on, times + 1);
                if !on {
                    self.send(source);
                }
            }
            Event::Send(source, times) if self.on[source].1 == times => self.send(source),
            Event::Send(..) => {}
            Event::AccessIdle(access) => self.access_next(access),
            Event::Arrive(source) => self.arrive(source),
            Event::Change(change) => self.change(change)?,
            Event::Look => self.look(),
        }
        Ok(())
    }

    fn source(&self, source: usize) -> &'a Source {
        &self.scenario.sources[source]
    }

    /// A source sends a packet and plans the next.
    fn send(&mut self, source: usize) {
        let Source { access, interval, .. } = *self.source(source);
        let link = &mut self.accesses[access];
        if link.queue.len() + 1 < ACCESS_LIMIT {
            link.queue.push_back(source);
        }
        if !link.busy {
            self.access_next(access);
        }
        self.plan(self.now + interval, Event::Send(source, self.on[source].1));
    }

    /// An access link sends its next packet.
    fn access_next(&mut self, access: usize) {
        let next = self.accesses[access].queue.pop_front();
        self.accesses[access].busy = next.is_some();
        if let Some(source) = next {
            let time = 8.0 * f64::from(self.source(source).size) / ACCESS_RATE;
            self.plan(self.now + (time + ACCESS_DELAY), Event::Arrive(source));
            self.plan(self.now + time, Event::AccessIdle(access));
        }
    }

    /// A packet arrives at the router. A drop-tail queue of ns-2 holds one less than its limit.
    fn arrive(&mut self, source: usize) {
        let Source { leaf, size, .. } = *self.source(source);
        self.scheduler.rules().offered(self.now, leaf);
        let queue = &mut self.queues[leaf.index()];
        if queue.len() + 1 < self.scenario.limits[leaf.index()] {
            queue.push_back((source, size));
            if queue.len() == 1 {
                self.scheduler.rules().enqueued(self.now, leaf);
            } else {
                self.scheduler.rules().joined(leaf);
            }
        }
        if !self.busy {
            self.busy = true;
            self.plan(self.now, Event::Look);
        }
    }

    /// The shared link polls for a packet and sends it.
    fn look(&mut self) {
        let Answer::Leaf(leaf, _) = self.scheduler.rules().select(self.now) else {
            self.busy = false;
            return;
        };
        let queue = &mut self.queues[leaf.index()];
        let (flow, size) = queue.pop_front().expect("a selected leaf is backlogged");
        let more = !queue.is_empty();
        self.scheduler.rules().charge(self.now, leaf, u64::from(size), more);
        let finished = self.now + 8.0 * f64::from(size) / self.bandwidth;
        self.sent.push(Sent { at: self.now, finished, flow });
        self.plan(finished, Event::Look);
    }

    /// Replaces the scheduler by one with other shares.
    fn change(&mut self, change: usize) -> Result<(), String> {
        let tree = &self.scenario.changes[change].tree;
        let mut scheduler = CbqRef::build(tree).map_err(|error| error.to_string())?;
        let kin = Kin::by_name(self.tree, tree);
        scheduler.inherit(Instant::from_nanos((self.now * 1e9) as u64), &self.scheduler, &kin);
        for (queue, leaf) in self.queues.iter().zip(0..) {
            for position in 0..queue.len() {
                if position == 0 {
                    scheduler.rules().enqueued(self.now, LeafId(leaf));
                } else {
                    scheduler.rules().joined(LeafId(leaf));
                }
            }
        }
        (self.scheduler, self.tree) = (scheduler, tree);
        Ok(())
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.number.cmp(&other.number))
    }
}

/// In bit/s.
const ACCESS_RATE: f64 = 10e6;
/// In seconds.
const ACCESS_DELAY: f64 = 0.005;
/// ns-2's default limit of a queue.
const ACCESS_LIMIT: usize = 50;
