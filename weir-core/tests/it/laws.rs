//! The laws: what must hold for every registered scheduler under any workload.
//!
//! [`common::seeds`] says how many random workloads each scheduler gets, and the first seed. A
//! failure prints the seed of the workload; add it to `SEEDS` so that it always runs first.

use crate::common;

use common::{BUSY_LEAVES, Random, busy_leaf, large_plan, large_tree};
use common::{random_length, random_meter_id, random_plan, random_tree, seeds};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_core::account::{Account, Count};
use weir_core::event::{Departure, Poll, Verdict};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::queue::{AnyDropper, Dropper, Place, QueuePlan};
use weir_core::sched::{Entry, Head, SCHEDULERS, Scheduler, Selection, Tree};
use weir_core::units::{Bytes, Duration, Instant};

/// Seeds of workloads that once failed.
const SEEDS: &[u64] = &[];

/// Leaves of the large trees.
const LEAVES: [usize; 3] = [1_000, 10_000, 100_000];

/// How large the trees of a law are.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// At most a dozen classes.
    Small,
    /// This many leaves, of which a few get half of the packets.
    Large(usize),
}

impl Size {
    /// Draws a tree; `None` if the scheduler refuses what was drawn.
    fn tree(self, random: &mut Random, entry: &Entry) -> Option<Tree> {
        match self {
            Size::Small => Some(random_tree(random, entry.descriptor)),
            Size::Large(leaves) => large_tree(random, entry.descriptor, leaves),
        }
    }

    fn plan(self, random: &mut Random, entry: &Entry) -> Option<LinkPlan> {
        let tree = self.tree(random, entry)?;
        Some(match self {
            Size::Small => random_plan(random, entry.descriptor, tree),
            Size::Large(_) => large_plan(random, entry.descriptor, tree),
        })
    }

    /// Steps of one workload: enough to fill, drain and refill a few queues.
    fn steps(self) -> u64 {
        match self {
            Size::Small => 60,
            Size::Large(_) => 2_000,
        }
    }

    fn leaf(self, random: &mut Random, leaves: usize) -> LeafId {
        let index = match self {
            Size::Large(_) if random.one_in(2) => {
                busy_leaf(random.between(0, BUSY_LEAVES as u64 - 1) as usize, leaves)
            }
            _ => random.between(0, leaves as u64 - 1) as usize,
        };
        LeafId(index as u32)
    }

    /// Whether the account is compared after this step. An account lists every leaf, so for large
    /// trees only few are read.
    fn audits(self, step: usize) -> bool {
        match self {
            Size::Small => true,
            Size::Large(_) => step.is_multiple_of(500),
        }
    }
}

/// A law: runs a workload of this size and seed; returns false if the scheduler refuses its plan.
type Law = fn(&Entry, u64, Size) -> bool;

/// Runs `law` for every scheduler and seed.
fn for_all(name: &str, law: Law) {
    let (laws, first) = (seeds::laws(), seeds::first());
    for entry in SCHEDULERS {
        let (mut built, mut tried) = (0u64, 0u64);
        let mut rows = SEEDS.iter().copied();
        while built < laws {
            let seed = rows.next().unwrap_or_else(|| {
                tried += 1;
                first.wrapping_add(tried)
            });
            built += u64::from(holds((name, law), entry, seed, Size::Small));
            // A plan may be refused with an error; a scheduler must not refuse most plans.
            let keyword = entry.descriptor.keyword;
            assert!(tried < 1000 + 4 * laws, "{keyword} refuses most plans");
        }
    }
}

/// Runs `law` on large trees for every scheduler: each of them holds 100 000 leaves. On a change
/// each scheduler has one tree, and the first seed decides how large it is.
fn for_large(name: &str, law: Law) {
    let is_change = seeds::laws() <= seeds::LAWS;
    for (number, entry) in SCHEDULERS.iter().enumerate() {
        let one = (seeds::first() as usize).wrapping_add(number) % LEAVES.len();
        let sizes = if is_change { &LEAVES[one..=one] } else { &LEAVES[..] };
        for &leaves in sizes {
            let mut seeds = 1..100;
            let ran = seeds.any(|seed| holds((name, law), entry, seed, Size::Large(leaves)));
            assert!(ran, "{} refuses {leaves} leaves", entry.descriptor.keyword);
        }
    }
}

/// Runs one workload; a panic is reported with the scheduler, the seed and the size.
fn holds((name, law): (&str, Law), entry: &Entry, seed: u64, size: Size) -> bool {
    let keyword = entry.descriptor.keyword;
    catch_unwind(AssertUnwindSafe(|| law(entry, seed, size))).unwrap_or_else(|_| {
        panic!("{keyword} breaks the law `{name}` with seed {seed} (WEIR_SEED={seed:x}), {size:?}")
    })
}

#[test]
fn a_scheduler_keeps_the_contract() {
    for_all("contract", contract);
}

#[test]
fn the_laws_hold_on_large_trees() {
    for_large("contract", contract);
    for_large("link", link_laws);
    for_large("serve", serve);
    for_large("explain", explain);
}

#[test]
fn a_link_conserves_keeps_order_and_never_depends_on_the_timer() {
    for_all("link", link_laws);
}

/// A plain model of the leaves around a scheduler.
struct Model {
    scheduler: Box<dyn Scheduler + Send>,
    leaves: Vec<VecDeque<Head>>,
    /// Packets in all leaves.
    backlog: usize,
    now: Instant,
    work_conserving: bool,
    exact_wake: bool,
    probes: u32,
}

fn contract(entry: &Entry, seed: u64, size: Size) -> bool {
    let mut random = Random::new(seed);
    let Some(tree) = size.tree(&mut random, entry) else { return false };
    let Ok(scheduler) = (entry.build)(&tree) else { return false };
    let mut model = Model {
        scheduler,
        leaves: vec![VecDeque::new(); tree.leaf_count()],
        backlog: 0,
        now: Instant::ZERO,
        work_conserving: entry.descriptor.promises.work_conserving,
        exact_wake: entry.descriptor.promises.exact_wake,
        probes: 0,
    };
    let gap = tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 50);
    for _ in 0..size.steps() {
        match random.between(0, 9) {
            0..=4 => model.enqueue(&mut random, size),
            5..=7 => drop(model.serve()),
            8 => model.drop_head(&mut random, size),
            _ => model.wait(random.wide(1, gap.saturating_mul(8))),
        }
        if random.one_in(200) {
            model.wait(Duration::from_secs(366 * 86_400).as_nanos());
        }
    }
    model.drain();
    true
}

impl Model {
    fn wait(&mut self, nanos: u64) {
        self.now = self.now.after(Duration::from_nanos(nanos));
    }

    fn enqueue(&mut self, random: &mut Random, size: Size) {
        let id = size.leaf(random, self.leaves.len());
        let leaf = id.index();
        for _ in 0..random.between(1, 4) {
            let length = Bytes::new(u64::from(random_length(random)));
            let head = Head { length, arrived: self.now };
            self.scheduler.offered(self.now, id);
            if self.leaves[leaf].is_empty() {
                self.scheduler.enqueued(self.now, id, head);
            } else {
                self.scheduler.joined(self.now, id, length);
            }
            self.leaves[leaf].push_back(head);
            self.backlog += 1;
        }
    }

    fn drop_head(&mut self, random: &mut Random, size: Size) {
        let leaf = size.leaf(random, self.leaves.len());
        let queue = &mut self.leaves[leaf.index()];
        if queue.pop_front().is_some() {
            self.backlog -= 1;
            self.scheduler.head_changed(self.now, leaf, queue.front().copied());
        }
    }

    /// Calls `select` and checks its result; returns true if a packet was sent.
    fn serve(&mut self) -> bool {
        let selection = self.scheduler.select(self.now);
        assert_eq!(selection, self.scheduler.select(self.now), "a second call returns the same");
        match selection {
            Selection::Idle => assert_eq!(self.backlog, 0, "backlog implies not idle"),
            Selection::At(instant) => {
                assert!(instant > self.now, "`At` is in the future");
                assert!(self.backlog > 0, "`At` implies a backlog");
                assert!(!self.work_conserving, "it promised to be work conserving");
                // Half way, or a nanosecond before.
                self.probes += 1;
                let wait = instant.since(self.now).as_nanos();
                let between = if self.probes.is_multiple_of(2) { wait / 2 } else { wait - 1 };
                if between > 0 && instant < Instant::MAX && self.exact_wake {
                    let early =
                        self.scheduler.select(self.now.after(Duration::from_nanos(between)));
                    assert!(!matches!(early, Selection::Leaf(_)), "`At` came later than the truth");
                    self.wait(between);
                }
            }
            Selection::Leaf(leaf) => {
                let queue = &mut self.leaves[leaf.index()];
                let head = queue.pop_front().expect("a selected leaf is backlogged");
                self.backlog -= 1;
                let next = queue.front().copied();
                self.scheduler.charge(self.now, leaf, head.length, next);
                return true;
            }
        }
        false
    }

    /// Serves until nothing waits: no leaf starves, and none waits past the end of time.
    fn drain(&mut self) {
        let mut idle_turns = 0;
        while self.backlog > 0 {
            if self.serve() {
                idle_turns = 0;
                continue;
            }
            idle_turns += 1;
            assert!(idle_turns < 10_000, "it returns `At` again and again and never sends");
            match self.scheduler.select(self.now) {
                Selection::At(Instant::MAX) => return,
                Selection::At(instant) => self.now = instant,
                Selection::Leaf(_) | Selection::Idle => {}
            }
        }
        assert_eq!(self.scheduler.select(self.now), Selection::Idle, "it knows that all is sent");
    }
}

/// The events of a link in one run.
#[derive(PartialEq, Debug)]
struct Log {
    departures: Vec<Departure>,
    verdicts: Vec<Verdict>,
    dropped: Vec<Handle>,
}

fn link_laws(entry: &Entry, seed: u64, size: Size) -> bool {
    let mut random = Random::new(seed);
    let Some(plan) = size.plan(&mut random, entry) else { return false };
    let arrivals = random_arrivals(&mut random, &plan, size);
    let Ok(link) = plan.build() else { return false };
    let exact = run(link, &arrivals, size, None);
    let again = run(plan.build().expect("it built before"), &arrivals, size, None);
    assert_eq!(exact, again, "same calls, same decisions");
    let late =
        run(plan.build().expect("it built before"), &arrivals, size, Some(Random::new(seed)));
    assert_eq!(exact, late, "waking early, late or often changes nothing");
    order_is_kept(&exact, &plan, &arrivals);
    true
}

#[test]
fn a_series_is_served_as_single_offers_and_polls_at_the_same_instants_are() {
    for_all("serve", serve);
}

fn serve(entry: &Entry, seed: u64, size: Size) -> bool {
    let mut random = Random::new(seed);
    let Some(mut plan) = size.plan(&mut random, entry) else { return false };
    if random.one_in(2) {
        plan.buffer = Bytes::new(random.wide(1, 20_000));
    }
    let (Ok(mut single), Ok(mut served)) = (plan.build(), plan.build()) else { return false };
    let mut logs = [(); 2].map(|()| (Vec::new(), Vec::new()));
    let mut at = Instant::ZERO;
    let arrivals = random_arrivals(&mut random, &plan, size);
    for (index, series) in arrivals.chunks(7).enumerate() {
        for &(now, leaf, packet) in series {
            poll_until(&mut *single, &mut at, now, &mut logs[0].0);
            single.offer(now, leaf, packet);
            at = now;
        }
        let arrival = |&(at, leaf, packet): &_| Arrival { at, leaf, packet };
        let stamped: Vec<_> = series.iter().map(arrival).collect();
        let following = arrivals.get(7 * (index + 1)).map_or(Instant::MAX, |row| row.0);
        let until = at.after(Duration::from_nanos(random.wide(0, 1 << 30))).min(following);
        poll_until(&mut *single, &mut at, until, &mut logs[0].0);
        let next = served.serve(&stamped, until, &mut logs[1].0);
        assert_eq!(next.is_some(), served.backlog() > 0, "it returns whether a packet waits");
        single.take_dropped(&mut |dropped| logs[0].1.push(dropped));
        served.take_dropped(&mut |dropped| logs[1].1.push(dropped));
        assert_eq!(logs[0], logs[1]);
        if size.audits(index) {
            assert_eq!(single.account().leaves(), served.account().leaves());
        }
    }
    let end = at.after(Duration::from_secs(2));
    poll_until(&mut *single, &mut at, end, &mut logs[0].0);
    served.advance(end, &mut logs[1].0);
    assert_eq!(logs[0].0, logs[1].0);
    true
}

/// Polls a link at `at`, then at the instants that it returns, up to `until`.
fn poll_until(link: &mut dyn AnyLink, at: &mut Instant, until: Instant, out: &mut Vec<Departure>) {
    loop {
        match link.poll(*at) {
            Poll::Packet(departure) => out.push(departure),
            Poll::At(instant) if instant <= until && instant > *at => *at = instant,
            Poll::At(_) | Poll::Idle => return,
        }
    }
}

#[test]
fn every_sojourn_is_explained_to_the_nanosecond() {
    for_all("explain", explain);
}

fn explain(entry: &Entry, seed: u64, size: Size) -> bool {
    let mut random = Random::new(seed);
    let Some(plan) = size.plan(&mut random, entry) else { return false };
    let arrivals = random_arrivals(&mut random, &plan, size);
    let (Ok(silent), Ok(mut link)) = (plan.build(), plan.build()) else { return false };
    link.explain(Instant::ZERO, true);
    let mut sojourns = Vec::new();
    let log = run_with(link, &arrivals, size, None, &mut |sojourn| sojourns.push(*sojourn));
    assert_eq!(log, run(silent, &arrivals, size, None), "explaining changes no decision");
    assert_eq!(sojourns.len(), log.departures.len() + log.dropped.len(), "each has a reason");
    for sojourn in &sojourns {
        let parts =
            [sojourn.own_leaf(), sojourn.line_busy(), sojourn.regulated(), sojourn.others()];
        let sum = parts.iter().fold(Duration::ZERO, |sum, &part| sum.plus(part));
        assert_eq!(sum, sojourn.total(), "the parts sum to the whole: {sojourn:?}");
        if entry.descriptor.promises.work_conserving {
            assert_eq!(sojourn.regulated(), Duration::ZERO, "no packet is held back");
        }
        let class = plan.tree.class_of(sojourn.leaf);
        let above = |lender| plan.tree.path(class).any(|class| class == lender);
        assert!(sojourn.lender.is_none_or(above), "an ancestor lends");
    }
    true
}

type Arrivals = Vec<(Instant, LeafId, Packet)>;

fn random_arrivals(random: &mut Random, plan: &LinkPlan, size: Size) -> Arrivals {
    let leaves = plan.tree.leaf_count();
    let gap = plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 50);
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    for handle in 0..size.steps() as u32 {
        if !random.one_in(3) {
            now = now.after(Duration::from_nanos(random.wide(1, gap.saturating_mul(2))));
        }
        let leaf = size.leaf(random, leaves);
        let length = random_length(random);
        let traffic_class = random.between(0, 255) as u8;
        let meter = random_meter_id(random);
        let flow = random.between(0, 3) as u32;
        let packet = Packet { traffic_class, meter, flow, ..Packet::new(Handle(handle), length) };
        arrivals.push((now, leaf, packet));
    }
    arrivals
}

/// Runs the arrivals and drains; with `wakes` the link is also woken at random instants in between.
fn run(link: Box<dyn AnyLink>, arrivals: &Arrivals, size: Size, wakes: Option<Random>) -> Log {
    run_with(link, arrivals, size, wakes, &mut |_| {})
}

/// Runs the arrivals and drains as [`run`] does; passes sojourns to `each`.
fn run_with(
    mut link: Box<dyn AnyLink>,
    arrivals: &Arrivals,
    size: Size,
    mut wakes: Option<Random>,
    each: &mut dyn FnMut(&Sojourn),
) -> Log {
    let mut log = Log { departures: vec![], verdicts: vec![], dropped: vec![] };
    let mut last = Instant::ZERO;
    for (step, &(now, leaf, packet)) in arrivals.iter().enumerate() {
        if let Some(random) = wakes.as_mut().filter(|_| now > last) {
            let part = random.between(0, now.since(last).as_nanos());
            link.advance(last.after(Duration::from_nanos(part)), &mut log.departures);
        }
        link.advance(now, &mut log.departures);
        log.verdicts.push(link.offer(now, leaf, packet));
        link.take_dropped(&mut |dropped| log.dropped.push(dropped.handle));
        if size.audits(step) {
            let conserved = link.account().leaves().iter().all(|leaf| leaf.is_conserved());
            assert!(conserved, "offered = sent + dropped + backlog");
        }
        last = now;
    }
    for _ in 0..100_000 {
        let before = log.departures.len();
        let next = link.advance(last, &mut log.departures);
        match next {
            Some(Instant::MAX) | None => break,
            Some(instant) => last = instant,
        }
        assert!(log.departures.len() > before || next > Some(Instant::ZERO));
    }
    // Droppers may also drop packets that waited too long.
    link.take_dropped(&mut |dropped| log.dropped.push(dropped.handle));
    link.take_sojourns(&mut |all| all.iter().for_each(&mut *each));
    let account = link.account();
    assert!(account.leaves().iter().all(|leaf| leaf.is_conserved()));
    let sent: u64 = account.leaves().iter().map(|leaf| leaf.sent.packets).sum();
    assert_eq!(sent, log.departures.len() as u64, "every departure is counted");
    let dropped: u64 = account.leaves().iter().map(|leaf| leaf.dropped_total().packets).sum();
    assert_eq!(dropped, log.dropped.len() as u64, "every drop is reported");
    counts_are_true(&account, arrivals, &log);
    log
}

/// Checks that counts equal the events, leaf by leaf, in packets and bytes.
fn counts_are_true(account: &Account, arrivals: &Arrivals, log: &Log) {
    let count = |handles: &mut dyn Iterator<Item = u32>| {
        let mut leaves = vec![Count::default(); account.leaves().len()];
        for (_, leaf, packet) in handles.map(|handle| &arrivals[handle as usize]) {
            let count = &mut leaves[leaf.index()];
            count.packets += 1;
            count.bytes += u64::from(packet.length.max(1));
        }
        leaves
    };
    let offered = count(&mut (0..arrivals.len() as u32));
    let sent = count(&mut log.departures.iter().map(|departure| departure.handle.0));
    let dropped = count(&mut log.dropped.iter().map(|handle| handle.0));
    for (index, leaf) in account.leaves().iter().enumerate() {
        assert_eq!(leaf.offered, offered[index], "packets offered");
        assert_eq!(leaf.sent, sent[index], "packets sent");
        assert_eq!(leaf.dropped_total(), dropped[index], "packets dropped");
    }
}

/// Checks that inside a leaf, or inside a flow of a leaf with flow queues, packets leave in the
/// order of their offers, and never before them. Where the traffic class separates a flow, which a
/// meter may change, packets of one class before and after it are in order.
fn order_is_kept(log: &Log, plan: &LinkPlan, arrivals: &Arrivals) {
    let apart: Vec<bool> = plan.queues.iter().map(|queue| keeps_flows_apart(queue, plan)).collect();
    let sorts = |queue: &QueuePlan| ["cake", "dualpi2"].contains(&queue.dropper);
    let hides = |queue: &QueuePlan| !plan.meters.is_empty() && queue.params.value("wash").is_some();
    let mut last = std::collections::BTreeMap::new();
    for departure in &log.departures {
        assert!(departure.at >= departure.arrived, "it leaves after it arrived");
        let queue = &plan.queues[departure.leaf.index()];
        let packet = &arrivals[departure.handle.0 as usize].2;
        let mut flow = apart[departure.leaf.index()].then_some(packet.flow);
        if queue.dropper == "dualpi2" {
            // Its queues are those of traffic classes, as the packets have them in the leaf.
            if departure.mark.written().is_some() {
                continue;
            }
            flow = Some(packet.traffic_class.into());
        }
        let class = packet.traffic_class;
        let left = departure.mark.written().unwrap_or(class);
        let classes = sorts(queue).then_some((class, left >> 2));
        let earlier = last.insert((departure.leaf, flow, classes), departure.handle);
        assert!(earlier < Some(departure.handle) || hides(queue), "order inside a leaf");
    }
    for pair in log.departures.windows(2) {
        assert!(
            pair[0].at <= pair[1].at && pair[0].finished <= pair[1].finished,
            "time never goes back"
        );
    }
}

fn keeps_flows_apart(queue: &QueuePlan, plan: &LinkPlan) -> bool {
    let (rate, mtu) = (plan.tree.rate(), plan.tree.mtu());
    let place = Place { leaf: LeafId(0), rate, mtu, seed: plan.seed };
    AnyDropper::build(queue, place).expect("it built before").flows().is_some()
}

#[test]
#[should_panic(expected = "time never goes back")]
fn a_clock_that_goes_back_is_a_bug_of_the_caller() {
    let mut random = Random::new(1);
    let tree = random_tree(&mut random, SCHEDULERS[0].descriptor);
    let mut link = LinkPlan::new("fifo", tree).build().expect("fifo takes any flat tree");
    link.poll(Instant::from_nanos(2));
    link.poll(Instant::from_nanos(1));
}
