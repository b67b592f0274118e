//! The laws: what must hold for every registered scheduler under any workload.
//!
//! `WEIR_LAWS` sets the number of random workloads for each scheduler (10 000 if absent). A failure
//! prints the seed of the workload; add it to `SEEDS` so that it always runs first.

mod common;

use common::{Random, random_length, random_meter_id, random_plan, random_tree};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_core::account::{Account, Count};
use weir_core::event::{Departure, Poll, Verdict};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::queue::{AnyDropper, Dropper, Place, QueuePlan};
use weir_core::sched::{Entry, Head, SCHEDULERS, Scheduler, Selection};
use weir_core::units::{Bytes, Duration, Instant};

/// Seeds of workloads that once failed.
const SEEDS: &[u64] = &[];

/// Steps of one workload: enough to fill, drain and refill a few queues.
const STEPS: u64 = 60;

fn workloads() -> u64 {
    let text = std::env::var("WEIR_LAWS").unwrap_or_default();
    text.parse().unwrap_or(10_000)
}

/// Runs `law` for every scheduler and seed; a panic is reported with both.
fn for_all(name: &str, law: fn(&Entry, u64) -> bool) {
    for entry in SCHEDULERS {
        let keyword = entry.descriptor.keyword;
        let mut built = 0u64;
        let mut seed = 0u64;
        let mut seeds = SEEDS.iter().copied();
        while built < workloads() {
            let current = seeds.next().unwrap_or_else(|| {
                seed += 1;
                seed
            });
            match catch_unwind(AssertUnwindSafe(|| law(entry, current))) {
                Ok(ran) => built += u64::from(ran),
                Err(_) => panic!("{keyword} breaks the law `{name}` with seed {current}"),
            }
            // A plan may be refused with an error; a scheduler must not refuse most plans.
            assert!(seed < 1000 + 4 * workloads(), "{keyword} refuses most plans");
        }
    }
}

#[test]
fn a_scheduler_keeps_the_contract() {
    for_all("contract", contract);
}

#[test]
fn a_link_conserves_keeps_order_and_never_depends_on_the_timer() {
    for_all("link", link_laws);
}

/// A plain model of the leaves around a scheduler.
struct Model {
    scheduler: Box<dyn Scheduler + Send>,
    leaves: Vec<VecDeque<Head>>,
    now: Instant,
    work_conserving: bool,
    exact_wake: bool,
    probes: u32,
}

fn contract(entry: &Entry, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let tree = random_tree(&mut random, entry.descriptor);
    let Ok(scheduler) = (entry.build)(&tree) else { return false };
    let mut model = Model {
        scheduler,
        leaves: vec![VecDeque::new(); tree.leaf_count()],
        now: Instant::ZERO,
        work_conserving: entry.descriptor.promises.work_conserving,
        exact_wake: entry.descriptor.promises.exact_wake,
        probes: 0,
    };
    let gap = tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 50);
    for _ in 0..STEPS {
        match random.between(0, 9) {
            0..=4 => model.enqueue(&mut random),
            5..=7 => drop(model.serve()),
            8 => model.drop_head(&mut random),
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

    fn backlog(&self) -> usize {
        self.leaves.iter().map(VecDeque::len).sum()
    }

    fn enqueue(&mut self, random: &mut Random) {
        let leaf = random.between(0, self.leaves.len() as u64 - 1) as usize;
        for _ in 0..random.between(1, 4) {
            let length = Bytes::new(u64::from(random_length(random)));
            let (id, head) = (LeafId(leaf as u32), Head { length, arrived: self.now });
            self.scheduler.offered(self.now, id);
            if self.leaves[leaf].is_empty() {
                self.scheduler.enqueued(self.now, id, head);
            } else {
                self.scheduler.joined(self.now, id, length);
            }
            self.leaves[leaf].push_back(head);
        }
    }

    fn drop_head(&mut self, random: &mut Random) {
        let leaf = random.between(0, self.leaves.len() as u64 - 1) as usize;
        if self.leaves[leaf].pop_front().is_some() {
            let head = self.leaves[leaf].front().copied();
            self.scheduler.head_changed(self.now, LeafId(leaf as u32), head);
        }
    }

    /// Calls `select` and checks its result; returns true if a packet was sent.
    fn serve(&mut self) -> bool {
        let selection = self.scheduler.select(self.now);
        assert_eq!(selection, self.scheduler.select(self.now), "a second call returns the same");
        match selection {
            Selection::Idle => assert_eq!(self.backlog(), 0, "backlog implies not idle"),
            Selection::At(instant) => {
                assert!(instant > self.now, "`At` is in the future");
                assert!(self.backlog() > 0, "`At` implies a backlog");
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
        while self.backlog() > 0 {
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

fn link_laws(entry: &Entry, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let tree = random_tree(&mut random, entry.descriptor);
    let plan = random_plan(&mut random, entry.descriptor, tree);
    let arrivals = random_arrivals(&mut random, &plan);
    let Ok(link) = plan.build() else { return false };
    let exact = run(link, &arrivals, None);
    let again = run(plan.build().expect("it built before"), &arrivals, None);
    assert_eq!(exact, again, "same calls, same decisions");
    let late = run(plan.build().expect("it built before"), &arrivals, Some(Random::new(seed)));
    assert_eq!(exact, late, "waking early, late or often changes nothing");
    order_is_kept(&exact, &plan, &arrivals);
    true
}

#[test]
fn a_series_is_served_as_single_offers_and_polls_at_the_same_instants_are() {
    for_all("serve", |entry, seed| {
        let mut random = Random::new(seed);
        let tree = random_tree(&mut random, entry.descriptor);
        let mut plan = random_plan(&mut random, entry.descriptor, tree);
        if random.one_in(2) {
            plan.buffer = Bytes::new(random.wide(1, 20_000));
        }
        let (Ok(mut single), Ok(mut served)) = (plan.build(), plan.build()) else { return false };
        let mut logs = [(); 2].map(|()| (Vec::new(), Vec::new()));
        let mut at = Instant::ZERO;
        let arrivals = random_arrivals(&mut random, &plan);
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
            assert_eq!(single.account().leaves(), served.account().leaves());
        }
        let end = at.after(Duration::from_secs(2));
        poll_until(&mut *single, &mut at, end, &mut logs[0].0);
        served.advance(end, &mut logs[1].0);
        assert_eq!(logs[0].0, logs[1].0);
        true
    });
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
    for_all("explain", |entry, seed| {
        let mut random = Random::new(seed);
        let tree = random_tree(&mut random, entry.descriptor);
        let plan = random_plan(&mut random, entry.descriptor, tree);
        let arrivals = random_arrivals(&mut random, &plan);
        let (Ok(silent), Ok(mut link)) = (plan.build(), plan.build()) else { return false };
        link.explain(Instant::ZERO, true);
        let mut sojourns = Vec::new();
        let log = run_with(link, &arrivals, None, &mut |sojourn| sojourns.push(*sojourn));
        assert_eq!(log, run(silent, &arrivals, None), "explaining changes no decision");
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
    });
}

type Arrivals = Vec<(Instant, LeafId, Packet)>;

fn random_arrivals(random: &mut Random, plan: &LinkPlan) -> Arrivals {
    let leaves = plan.tree.leaf_count() as u64;
    let gap = plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 50);
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    for handle in 0..STEPS as u32 {
        if !random.one_in(3) {
            now = now.after(Duration::from_nanos(random.wide(1, gap.saturating_mul(2))));
        }
        let leaf = LeafId(random.between(0, leaves - 1) as u32);
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
fn run(link: Box<dyn AnyLink>, arrivals: &Arrivals, wakes: Option<Random>) -> Log {
    run_with(link, arrivals, wakes, &mut |_| {})
}

/// Runs the arrivals and drains as [`run`] does; passes sojourns to `each`.
fn run_with(
    mut link: Box<dyn AnyLink>,
    arrivals: &Arrivals,
    mut wakes: Option<Random>,
    each: &mut dyn FnMut(&Sojourn),
) -> Log {
    let mut log = Log { departures: vec![], verdicts: vec![], dropped: vec![] };
    let mut last = Instant::ZERO;
    for &(now, leaf, packet) in arrivals {
        if let Some(random) = wakes.as_mut().filter(|_| now > last) {
            let part = random.between(0, now.since(last).as_nanos());
            link.advance(last.after(Duration::from_nanos(part)), &mut log.departures);
        }
        link.advance(now, &mut log.departures);
        log.verdicts.push(link.offer(now, leaf, packet));
        link.take_dropped(&mut |dropped| log.dropped.push(dropped.handle));
        let conserved = link.account().leaves().iter().all(|leaf| leaf.is_conserved());
        assert!(conserved, "offered = sent + dropped + backlog");
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
    let count = |leaf: usize, handles: &mut dyn Iterator<Item = u32>| {
        let lengths = handles
            .map(|handle| &arrivals[handle as usize])
            .filter(|(_, of, _)| of.index() == leaf)
            .map(|(_, _, packet)| u64::from(packet.length.max(1)));
        lengths.fold((0, 0), |(packets, bytes), length| (packets + 1, bytes + length))
    };
    for (index, leaf) in account.leaves().iter().enumerate() {
        let offered = count(index, &mut (0..arrivals.len() as u32));
        let sent = count(index, &mut log.departures.iter().map(|departure| departure.handle.0));
        let dropped = count(index, &mut log.dropped.iter().map(|handle| handle.0));
        let pair = |count: Count| (count.packets, count.bytes);
        assert_eq!(pair(leaf.offered), offered, "packets offered");
        assert_eq!(pair(leaf.sent), sent, "packets sent");
        assert_eq!(pair(leaf.dropped_total()), dropped, "packets dropped");
    }
}

/// Checks that inside a leaf, or inside a flow of a leaf with flow queues, packets leave in the
/// order of their offers, and never before them.
fn order_is_kept(log: &Log, plan: &LinkPlan, arrivals: &Arrivals) {
    let apart: Vec<bool> = plan.queues.iter().map(|queue| keeps_flows_apart(queue, plan)).collect();
    let mut last: std::collections::BTreeMap<(LeafId, Option<u32>), Handle> = Default::default();
    for departure in &log.departures {
        assert!(departure.at >= departure.arrived, "it leaves after it arrived");
        let packet = &arrivals[departure.handle.0 as usize].2;
        let flow = apart[departure.leaf.index()].then_some(packet.flow);
        let earlier = last.insert((departure.leaf, flow), departure.handle);
        assert!(earlier < Some(departure.handle), "order inside a leaf");
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
