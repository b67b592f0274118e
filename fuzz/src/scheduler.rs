//! Target `scheduler`: makes any sequence of calls on a link of any plan, and checks the laws.
//!
//! The input is the keyword of a scheduler and a line feed, a plan, then calls. One link takes them
//! packet by packet. Where it is polled at the instants that it names, as an idle line would, a
//! second link serves the same arrivals in series, sometimes with explanations: the departures must
//! be equal. Where it is polled at instants of the input, as a driver may, only the laws are
//! checked.

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

/// Returns the scheduler of this keyword; every other text also selects one.
pub fn named(keyword: &[u8]) -> &'static Entry {
    let is_named = |entry: &&Entry| entry.descriptor.keyword.as_bytes() == keyword;
    let sum = keyword.iter().fold(0usize, |sum, &byte| sum * 7 % 1009 + usize::from(byte));
    SCHEDULERS.iter().find(is_named).unwrap_or(&SCHEDULERS[sum % SCHEDULERS.len()])
}

/// Two links, and all events of their packets.
struct Play {
    plan: LinkPlan,
    single: Box<dyn AnyLink>,
    /// The second link; absent where the first is polled as a driver may.
    served: Option<Box<dyn AnyLink>>,
    /// Arrivals that the second link has not served yet.
    series: Vec<Arrival>,
    /// Departures of the first link since the second last served.
    departures: Vec<Departure>,
    now: Instant,
    /// The instant at which the first link must be polled.
    due: Instant,
    /// The fate of each packet.
    fates: Vec<Fate>,
    /// The packets that wait in each leaf, in order.
    leaves: Vec<Waiting>,
    /// Leaves with flow queues: they preserve order in each flow only.
    apart: Vec<Apart>,
    /// Whether some leaf ever had flow queues. Then packets that arrived at one instant may have
    /// changed places.
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

/// Which packets of a leaf may overtake each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Apart {
    None,
    /// Those of different flows.
    Flows,
    /// Also those of one flow, by their traffic classes, which meters may change.
    Classes,
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
        let build = || plan.build().expect("a drawn plan builds");
        let apart = flows_apart(&plan);
        let is_driver = draw.one_in(4);
        Some(Self {
            ever_apart: apart.iter().any(|one| *one != Apart::None),
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
                self.poll_until(self.now);
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

    /// Polls once; returns when to poll again, which is now if a packet left. Does not poll before
    /// the link is due, unless a driver does.
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

    /// Makes the second link serve the arrivals up to now; compares its departures with the
    /// first's.
    fn serve(&mut self) {
        self.poll_until(self.now);
        let Some(served) = &mut self.served else { return };
        let mut out = Vec::new();
        let next = served.serve(&self.series, self.now, &mut out);
        assert_eq!(out, self.departures, "a series is served as single calls are");
        assert_eq!(next.is_some(), served.backlog() > 0, "it returns whether a packet waits");
        self.series.clear();
        self.departures.clear();
        self.check_served();
    }

    /// Checks that the second link dropped what the first did, and that its sojourns add up.
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

    /// Checks a poll that returned no packet.
    fn later(&self, poll: Poll) -> Option<Instant> {
        let Poll::At(instant) = poll else {
            assert_eq!(self.single.backlog(), 0, "a link with a backlog is not idle");
            return None;
        };
        assert!(instant > self.now || self.now == Instant::MAX, "`At` is in the future");
        assert!(self.single.backlog() > 0, "`At` implies a backlog");
        Some(instant)
    }

    fn left(&mut self, departure: Departure) {
        let Departure { handle, leaf, at, arrived, .. } = departure;
        assert!(at == self.now && arrived <= at, "it leaves now, after it arrived");
        let waiting = &mut self.leaves[leaf.index()];
        let place = waiting.iter().position(|row| row.handle == handle);
        let row = waiting.remove(place.expect("only a waiting packet leaves, and once"));
        let flow = row.expect("its place was just found").flow;
        assert!(self.ever_apart || place == Some(0), "a departing packet was first in its leaf");
        let is_apart = |row: &Row| match self.apart[leaf.index()] {
            Apart::None => false,
            Apart::Flows => row.flow != flow,
            Apart::Classes => true,
        };
        let goes_after = |row: &Row| row.arrived >= arrived || is_apart(row);
        assert!(waiting.iter().all(goes_after), "a departing packet was first in its leaf or flow");
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
            let row = leaf.remove(place.expect("only a waiting packet is dropped, and once"));
            assert_eq!(
                row.map(|row| row.arrived),
                Some(dropped.arrived),
                "its arrival is unchanged"
            );
            fates[packet.0 as usize] = Fate::Dropped;
        });
    }

    /// Advances time by the transmission time of packets, up to years, or to the end of time; in
    /// between links are polled when they are due.
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
        if until == Instant::MAX {
            // There is no later instant to wait for, so the result would depend on how often a link
            // is polled.
            self.served = None;
        }
    }

    /// Polls at every instant up to `until` at which a link is due; returns true if nothing waits.
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
                // A scheduler that emulates a kernel's ticks wakes at each; those are further apart
                // than this.
                let elapsed = self.now.since(since);
                assert!(elapsed >= TURNS_TIME, "it returns `At` again and again and never sends");
                // The second link would have to be served at each of these ticks.
                self.served = None;
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
        let distance = Duration::from_nanos(draw.wide(0, 1_000_000_000));
        // After a stall the instant is later than all that the link was called for.
        let instant =
            if draw.one_in(2) { self.now.before(distance) } else { self.now.after(distance) };
        for link in [&mut self.single].into_iter().chain(&mut self.served) {
            link.forfeit_before(instant);
        }
        self.now = self.now.max(instant);
        self.due = self.due.max(self.now);
    }

    /// Changes both links to another plan, possibly of another scheduler.
    fn change(&mut self, draw: &mut Draw<'_>) {
        let same = draw.one_in(2);
        let index = draw.index(SCHEDULERS.len());
        let entry = if same { named(self.plan.scheduler.as_bytes()) } else { &SCHEDULERS[index] };
        let Some(to) = plan(draw, entry) else { return };
        let heir = draw.leaf(to.tree.leaf_count());
        self.serve();
        let change = Change { from: &self.plan, to: &to, heir };
        for link in [&mut self.single].into_iter().chain(&mut self.served) {
            change.apply(link, self.now).expect("a drawn plan builds");
        }
        self.due = self.now;
        self.leaves = moved(&self.leaves, [&self.plan.tree, &to.tree], heir);
        self.apart = flows_apart(&to);
        self.ever_apart |= self.apart.iter().any(|one| *one != Apart::None);
        self.plan = to;
        self.take_dropped();
        self.check_served();
    }

    /// Checks that offered = sent + dropped + backlog, by the accounts of both links and by the
    /// target's.
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

    /// Sends all waiting packets, unless time ends before.
    fn drain(&mut self) {
        let drained = self.poll_until(Instant::MAX);
        assert!(drained || self.single.backlog() > 0, "it is idle once all is sent");
    }
}

/// Returns the packets that wait in the leaves after a change: those of removed leaves went to the
/// heir, all in the order of arrival.
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

/// Returns which packets of each leaf of a plan may overtake each other.
fn flows_apart(plan: &LinkPlan) -> Vec<Apart> {
    let apart = |queue| match dropper_of(queue, &plan.tree).flows() {
        None => Apart::None,
        Some(flows) if flows.separates_classes() => Apart::Classes,
        Some(_) => Apart::Flows,
    };
    plan.queues.iter().map(apart).collect()
}

/// Draws a usual length, or one at an end of the range of ports.
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
/// The most consecutive polls without a packet.
const TURNS_MAX: usize = 2_000;
/// The least time that this many take.
const TURNS_TIME: Duration = Duration::from_millis(2);
/// In nanoseconds.
const YEAR: u64 = 366 * 86_400 * 1_000_000_000;
