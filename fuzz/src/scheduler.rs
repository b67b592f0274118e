//! Target `scheduler`: any sequence of calls on a link of any plan, with the laws checked.
//!
//! The input is the keyword of a scheduler and a line feed, a plan, then calls. One link takes them
//! packet by packet. Where it is polled at the instants that it names, as an idle line would, a
//! second link serves the same arrivals in series, at times explained: what leaves is the same.
//! Where it is polled when the input says, as a driver may, the laws are checked alone.

use crate::draw::Draw;
use crate::plan::{dropper_of, meter_id, plan};
use std::collections::VecDeque;
use weir_core::change::Change;
use weir_core::event::{Departure, Poll, Verdict};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::queue::Dropper;
use weir_core::sched::{Entry, Kin, SCHEDULERS, Tree};
use weir_core::units::{Bytes, Duration, Instant};

/// Plays the calls of an input.
pub fn scheduler(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (keyword, rest) = input.split_at(end);
    let mut draw = Draw::new(rest.get(1..).unwrap_or_default());
    let Some(mut play) = Play::new(&mut draw, named(keyword)) else { return };
    for _ in 0..CALLS_MAX {
        if draw.is_done() {
            break;
        }
        play.call(&mut draw);
    }
    play.check();
    play.drain();
    play.check();
}

/// The scheduler of this keyword; every other text names one as well.
fn named(keyword: &[u8]) -> &'static Entry {
    let is_named = |entry: &&Entry| entry.descriptor.keyword.as_bytes() == keyword;
    let sum = keyword.iter().fold(0usize, |sum, &byte| sum * 7 % 1009 + usize::from(byte));
    SCHEDULERS.iter().find(is_named).unwrap_or(&SCHEDULERS[sum % SCHEDULERS.len()])
}

/// Two links, and everything that happened to their packets.
struct Play {
    plan: LinkPlan,
    single: Box<dyn AnyLink>,
    /// The second link; absent where the first is polled as a driver may.
    served: Option<Box<dyn AnyLink>>,
    /// What the second link has still to serve.
    series: Vec<Arrival>,
    /// What left the first link since the second served.
    departures: Vec<Departure>,
    now: Instant,
    /// When the first link wants to be polled.
    due: Instant,
    /// Where each packet is.
    fates: Vec<Fate>,
    /// What waits in each leaf, in order.
    leaves: Vec<Waiting>,
    /// Which leaves keep flows apart: order is kept in each flow only.
    apart: Vec<bool>,
    /// Whether some leaf ever did. Then packets that came at one instant may have changed places.
    ever_apart: bool,
    explained: bool,
}

/// Packets of a leaf, each with its arrival.
type Waiting = VecDeque<Row>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    arrived: Instant,
    handle: Handle,
    flow: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Waits,
    Left,
    Dropped,
}

impl Play {
    fn new(draw: &mut Draw<'_>, entry: &Entry) -> Option<Self> {
        let plan = plan(draw, entry)?;
        let build = || plan.build().expect("a plan that is drawn builds");
        let apart = flows_apart(&plan);
        let is_driver = draw.one_in(4);
        Some(Self {
            ever_apart: apart.contains(&true),
            apart,
            single: build(),
            served: (!is_driver).then(build),
            series: Vec::new(),
            departures: Vec::new(),
            due: Instant::ZERO,
            leaves: vec![Waiting::new(); plan.tree.leaf_count()],
            plan,
            now: Instant::ZERO,
            fates: Vec::new(),
            explained: false,
        })
    }

    fn call(&mut self, draw: &mut Draw<'_>) {
        let (call, several) = (draw.byte() % 16, 1 + draw.index(8));
        match call {
            0..=4 => self.offer(draw, 1),
            5 => self.offer(draw, several),
            6 | 7 => drop(self.poll()),
            8 => self.serve(),
            9..=11 => self.wait(draw),
            12 => self.explain(),
            13 => self.change(draw),
            14 => self.forfeit(draw),
            _ => self.check(),
        }
    }

    fn offer(&mut self, draw: &mut Draw<'_>, count: usize) {
        let leaves = self.plan.tree.leaf_count();
        let first = self.fates.len();
        let packets: Vec<_> = (0..count)
            .map(|index| {
                let (leaf, length) = (draw.leaf(leaves), length(draw));
                let flow = draw.index(FLOWS) as u32;
                let (traffic_class, meter) = (draw.byte(), meter_id(draw));
                let handle = Handle((first + index) as u32);
                let meter = meter.filter(|_| !self.plan.meters.is_empty());
                (leaf, Packet { flow, traffic_class, meter, ..Packet::new(handle, length) })
            })
            .collect();
        for (leaf, packet) in packets {
            if self.served.is_some() {
                while self.poll() == Some(self.now) && self.single.backlog() > 0 {}
                self.series.push(Arrival { at: self.now, leaf, packet });
            }
            let Packet { handle, flow, .. } = packet;
            self.fates.push(Fate::Waits);
            self.leaves[leaf.index()].push_back(Row { arrived: self.now, handle, flow });
            let verdict = self.single.offer(self.now, leaf, packet);
            self.due = self.now;
            self.take_dropped();
            let fate = self.fates[packet.handle.0 as usize];
            assert_eq!(verdict == Verdict::Queued, fate == Fate::Waits, "the verdict is true");
        }
    }

    /// Polls once; returns when to come again, which is now if a packet left. Not before the link
    /// wants to be polled, unless a driver does.
    fn poll(&mut self) -> Option<Instant> {
        if self.served.is_some() && self.due > self.now {
            return (self.single.backlog() > 0).then_some(self.due);
        }
        let poll = self.single.poll(self.now);
        self.take_dropped();
        let next = match poll {
            Poll::Packet(departure) => {
                self.left(departure);
                Some(self.now)
            }
            Poll::At(_) | Poll::Idle => self.later(poll),
        };
        self.due = next.unwrap_or(Instant::MAX);
        next
    }

    /// The second link serves what arrived, up to now; it hands out what left the first.
    fn serve(&mut self) {
        self.poll_until(self.now);
        let Some(served) = &mut self.served else { return };
        let mut out = Vec::new();
        let next = served.serve(&self.series, self.now, &mut out);
        assert_eq!(out, self.departures, "a series is served as single calls are");
        assert_eq!(next.is_some(), served.backlog() > 0, "it says whether something waits");
        self.series.clear();
        self.departures.clear();
        self.check_served();
    }

    /// The second link dropped what the first did; its sojourns add up.
    fn check_served(&mut self) {
        let (fates, Some(served)) = (&self.fates, &mut self.served) else { return };
        served.take_dropped(&mut |dropped| {
            let fate = fates[dropped.handle.0 as usize];
            assert_eq!(fate, Fate::Dropped, "both drop the same");
        });
        let check = |sojourn: &Sojourn| {
            let parts =
                [sojourn.own_leaf(), sojourn.line_busy(), sojourn.regulated(), sojourn.others()];
            let sum = parts.iter().fold(Duration::ZERO, |sum, &part| sum.plus(part));
            assert_eq!(sum, sojourn.total(), "the parts sum to the whole: {sojourn:?}");
        };
        served.take_sojourns(&mut |all| all.iter().for_each(check));
    }

    /// What an answer without a packet has to be.
    fn later(&self, poll: Poll) -> Option<Instant> {
        let Poll::At(instant) = poll else {
            assert_eq!(self.single.backlog(), 0, "a backlog is not idle");
            return None;
        };
        assert!(instant > self.now || self.now == Instant::MAX, "`At` is in the future");
        assert!(self.single.backlog() > 0, "only a backlog is worth waiting for");
        Some(instant)
    }

    fn left(&mut self, departure: Departure) {
        let Departure { handle, leaf, at, arrived, .. } = departure;
        assert!(at == self.now && arrived <= at, "it leaves now, after it came");
        let waiting = &mut self.leaves[leaf.index()];
        let place = waiting.iter().position(|row| row.handle == handle);
        let row = waiting.remove(place.expect("only what waits leaves, and once"));
        let flow = row.expect("its place was just found").flow;
        assert!(self.ever_apart || place == Some(0), "what leaves waited first in its leaf");
        let goes_after =
            |row: &Row| row.arrived >= arrived || (self.apart[leaf.index()] && row.flow != flow);
        assert!(waiting.iter().all(goes_after), "what leaves waited first in its leaf or flow");
        self.fates[handle.0 as usize] = Fate::Left;
        if self.served.is_some() {
            self.departures.push(departure);
        }
    }

    fn take_dropped(&mut self) {
        let (fates, leaves) = (&mut self.fates, &mut self.leaves);
        self.single.take_dropped(&mut |dropped| {
            let (leaf, packet) = (&mut leaves[dropped.leaf.index()], dropped.handle);
            let place = leaf.iter().position(|row| row.handle == packet);
            let row = leaf.remove(place.expect("only what waits is dropped, and once"));
            assert_eq!(row.map(|row| row.arrived), Some(dropped.arrived), "it keeps its arrival");
            fates[packet.0 as usize] = Fate::Dropped;
        });
    }

    /// Time goes on: by the time that packets take, up to years, or to the end; in between links
    /// are polled when they want to be.
    fn wait(&mut self, draw: &mut Draw<'_>) {
        let gap = self.plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().max(1);
        let nanos = match draw.byte() {
            0..=15 => draw.wide(1, 100 * YEAR),
            16..=17 => u64::MAX,
            18..=63 => draw.wide(1, 1_000_000_000),
            _ => draw.wide(1, gap.saturating_mul(16)),
        };
        let until = self.now.after(Duration::from_nanos(nanos));
        if self.served.is_some() || draw.one_in(2) {
            self.poll_until(until);
        }
        self.now = until;
    }

    /// Polls at every instant up to `until` at which a link wants to be; true if nothing waits.
    fn poll_until(&mut self, until: Instant) -> bool {
        let (mut turns, mut since) = (0, self.now);
        loop {
            let waited = self.single.backlog();
            let Some(next) = self.poll() else { return true };
            turns += 1;
            if self.single.backlog() < waited {
                (turns, since) = (0, self.now);
            }
            if turns > TURNS_MAX {
                // A scheduler that emulates a kernel's ticks wakes at each; they are not so near each other.
                let gone = self.now.since(since);
                assert!(gone >= TURNS_TIME, "it keeps promising and never sends");
                return false;
            }
            if next > until || (next == self.now && turns > 0) {
                return false;
            }
            self.now = next;
        }
    }

    fn explain(&mut self) {
        self.serve();
        self.explained = !self.explained;
        let explained = self.served.as_mut().unwrap_or(&mut self.single);
        explained.explain(self.now, self.explained);
    }

    fn forfeit(&mut self, draw: &mut Draw<'_>) {
        self.serve();
        let back = Duration::from_nanos(draw.wide(0, 1_000_000_000));
        for link in [&mut self.single].into_iter().chain(&mut self.served) {
            link.forfeit_before(self.now.before(back));
        }
    }

    /// Changes both links to another plan, of another scheduler perhaps.
    fn change(&mut self, draw: &mut Draw<'_>) {
        let same = draw.one_in(2);
        let index = draw.index(SCHEDULERS.len());
        let entry = if same { named(self.plan.scheduler.as_bytes()) } else { &SCHEDULERS[index] };
        let Some(to) = plan(draw, entry) else { return };
        let heir = draw.leaf(to.tree.leaf_count());
        self.serve();
        let change = Change { from: &self.plan, to: &to, heir };
        for link in [&mut self.single].into_iter().chain(&mut self.served) {
            change.apply(link, self.now).expect("a plan that is drawn builds");
        }
        self.due = self.now;
        self.leaves = moved(&self.leaves, [&self.plan.tree, &to.tree], heir);
        self.apart = flows_apart(&to);
        self.ever_apart |= self.apart.contains(&true);
        self.plan = to;
        self.take_dropped();
        self.check_served();
    }

    /// Everything offered is sent, dropped or waits, by the accounts of both links and by ours.
    fn check(&mut self) {
        self.serve();
        let count = |of: Fate| self.fates.iter().filter(|fate| **fate == of).count();
        let ours = [Fate::Left, Fate::Dropped, Fate::Waits].map(count);
        for link in [&self.single].into_iter().chain(&self.served) {
            let account = link.account();
            let all = account.leaves().iter().chain([account.retired()]);
            let sums = all.fold([0; 3], |[sent, dropped, backlog], leaf| {
                assert!(leaf.is_conserved(), "offered = sent + dropped + backlog");
                let dropped = dropped + leaf.dropped_total().packets as usize;
                let backlog = backlog + leaf.backlog.packets as usize;
                [sent + leaf.sent.packets as usize, dropped, backlog]
            });
            assert_eq!(sums, ours, "sent, dropped and backlog");
            assert_eq!(link.backlog() as usize, ours[2], "the backlog is what waits");
            for (leaf, waiting) in account.leaves().iter().zip(&self.leaves) {
                assert_eq!(leaf.backlog.packets as usize, waiting.len(), "what waits in a leaf");
            }
        }
    }

    /// All that waits leaves, unless time ends before.
    fn drain(&mut self) {
        let drained = self.poll_until(Instant::MAX);
        assert!(drained || self.single.backlog() > 0, "it knows that all is sent");
    }
}

/// What waits in the leaves after a change: that of leaves that are gone has gone to the heir, all
/// in the order of arrival.
fn moved(old: &[Waiting], [from, to]: [&Tree; 2], heir: LeafId) -> Vec<Waiting> {
    let mut homes = vec![heir; old.len()];
    Kin::by_name(from, to).leaves().for_each(|(new, old)| homes[old.index()] = new);
    let mut new = vec![Waiting::new(); to.leaf_count()];
    for (waiting, home) in old.iter().zip(homes) {
        new[home.index()].extend(waiting);
    }
    for waiting in &mut new {
        waiting.make_contiguous().sort_by_key(|row| row.arrived);
    }
    new
}

/// Which leaves of a plan keep flows apart.
fn flows_apart(plan: &LinkPlan) -> Vec<bool> {
    plan.queues.iter().map(|queue| dropper_of(queue, &plan.tree).flows().is_some()).collect()
}

/// A length that packets have, or one at an end of what ports hand on.
fn length(draw: &mut Draw<'_>) -> u32 {
    match draw.byte() {
        0..=31 => 0,
        32..=63 => 65_535,
        64..=159 => 1_514,
        byte => 42 + u32::from(byte - 160) * 16,
    }
}

const CALLS_MAX: usize = 400;
const FLOWS: usize = 4;
/// Answers without a packet, one after the other.
const TURNS_MAX: usize = 2_000;
/// The least time that as many take.
const TURNS_TIME: Duration = Duration::from_millis(2);
/// In nanoseconds.
const YEAR: u64 = 366 * 86_400 * 1_000_000_000;
