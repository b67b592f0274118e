//! The law of checkpoints: a link that continues from one decides as the link that was saved, to
//! the bit, for every scheduler with any droppers, flow queues, shared limits and meters.
//!
//! [`common::seeds`] says how many random workloads there are: each scheduler gets a quarter of those
//! in `laws.rs`, since each is run several times.

use crate::common;

use common::{Random, plan_with_places, random_graft};
use common::{random_length, random_meter_id, random_plan, random_rate, random_tree, seeds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_core::account::LeafAccount;
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped, Poll, Verdict};
use weir_core::explain::Sojourn;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::packet::Host;
use weir_core::queue::QueuePlan;
use weir_core::sched::{Entry, SCHEDULERS};
use weir_core::state::{Reader, StateError, Writer, forge};
use weir_core::units::{Bytes, Duration, Instant, Rate};

/// Calls before the checkpoint, at most, and after it.
const CALLS: u64 = 120;

/// Makes calls on links, the same on each.
struct Driver {
    random: Random,
    plan: LinkPlan,
    now: Instant,
    next: u32,
}

/// Everything that a call returned, and what happened meanwhile.
#[derive(PartialEq, Debug, Default)]
struct Outcome {
    verdict: Option<Verdict>,
    poll: Option<Poll>,
    next: Option<Instant>,
    departures: Vec<Departure>,
    dropped: Vec<Dropped>,
    sojourns: Vec<Sojourn>,
    accounts: Vec<LeafAccount>,
    backlog: u32,
}

/// A call, with all that it needs.
#[derive(Clone, Debug)]
enum Call {
    Offer(LeafId, Packet),
    Poll,
    Serve(Vec<Arrival>),
    Forfeit(Instant),
    SetRate(Rate),
    DropOlder(Instant),
    Explain(bool),
    TakeDropped,
    TakeSojourns,
}

impl Driver {
    fn new(entry: &Entry, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = if entry.refits && random.one_in(3) {
            plan_with_places(&mut random, entry.descriptor)
        } else {
            let tree = random_tree(&mut random, entry.descriptor);
            random_plan(&mut random, entry.descriptor, tree)
        };
        Self { random, plan, now: Instant::ZERO, next: 0 }
    }

    fn packet(&mut self) -> (LeafId, Packet) {
        let random = &mut self.random;
        let leaves = self.plan.tree.leaf_count() as u64;
        let mut draws = (0..100).map(|_| LeafId(random.between(0, leaves - 1) as u32));
        let leaf = draws.find(|&leaf| !self.plan.tree.is_vacant(leaf)).unwrap_or_default();
        let (traffic_class, flow) = (random.next() as u8, random.between(0, 9) as u32);
        let packet = Packet {
            traffic_class,
            flow,
            host: Host::from_bits(u128::from(flow / 3)),
            meter: random_meter_id(random).filter(|_| !self.plan.meters.is_empty()),
            ..Packet::new(Handle(self.next), random_length(random))
        };
        self.next += 1;
        (leaf, packet)
    }

    /// Advances time by some packets' transmission, seldom by much more.
    fn wait(&mut self) {
        let gap = self.plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos();
        let most = if self.random.one_in(20) { 1 << 36 } else { 4 * gap.clamp(1, 1 << 40) };
        self.now = self.now.after(Duration::from_nanos(self.random.wide(1, most)));
    }

    fn call(&mut self) -> Call {
        match self.random.between(0, 20) {
            0..=6 => {
                let (leaf, packet) = self.packet();
                Call::Offer(leaf, packet)
            }
            7..=9 => Call::Poll,
            10..=14 => {
                let mut arrivals = Vec::new();
                for _ in 0..self.random.between(0, 8) {
                    let (leaf, packet) = self.packet();
                    arrivals.push(Arrival { at: self.now, leaf, packet });
                    if self.random.one_in(2) {
                        self.wait();
                    }
                }
                Call::Serve(arrivals)
            }
            15 => {
                self.wait();
                Call::Forfeit(self.now)
            }
            16 => {
                Call::DropOlder(self.now.before(Duration::from_nanos(self.random.wide(1, 1 << 30))))
            }
            17 => Call::Explain(self.random.one_in(2)),
            18 => Call::TakeDropped,
            19 => Call::SetRate(random_rate(&mut self.random, &self.plan)),
            _ => Call::TakeSojourns,
        }
    }

    /// Makes a call; returns what came of it.
    fn make(&self, link: &mut dyn AnyLink, call: &Call) -> Outcome {
        let mut outcome = Outcome::default();
        match call {
            Call::Offer(leaf, packet) => {
                outcome.verdict = Some(link.offer(self.now, *leaf, *packet));
            }
            Call::Poll => outcome.poll = Some(link.poll(self.now)),
            Call::Serve(arrivals) => {
                outcome.next = link.serve(arrivals, self.now, &mut outcome.departures);
            }
            Call::Forfeit(instant) => link.forfeit_before(*instant),
            Call::SetRate(rate) => link.set_rate(self.now, *rate),
            Call::DropOlder(oldest) => link.drop_older(&|_| *oldest),
            Call::Explain(on) => link.explain(self.now, *on),
            Call::TakeDropped => link.take_dropped(&mut |row| outcome.dropped.push(row)),
            Call::TakeSojourns => link.take_sojourns(&mut |all| outcome.sojourns.extend(all)),
        }
        let account = link.account();
        outcome.accounts = account.leaves().to_vec();
        outcome.accounts.push(*account.retired());
        outcome.backlog = link.backlog();
        outcome
    }

    /// Adds, retunes or removes a leaf, if that can be done so.
    fn graft(&mut self, link: &mut dyn AnyLink, step: u64) {
        let graft = random_graft(&mut self.random, &self.plan, format!("grafted{step}"));
        _ = graft.apply(&mut self.plan, link, self.now);
    }

    /// Changes the link to another plan of the same scheduler or another.
    fn change(&mut self, link: &mut Box<dyn AnyLink>) {
        let random = &mut self.random;
        let any = random.between(0, SCHEDULERS.len() as u64 - 1) as usize;
        let keyword =
            if random.one_in(2) { self.plan.scheduler } else { SCHEDULERS[any].descriptor.keyword };
        let descriptor = weir_core::sched::find(keyword).expect("registered").descriptor;
        let tree = random_tree(random, descriptor);
        let to = random_plan(random, descriptor, tree);
        if to.build().is_err() {
            return;
        }
        let heir = LeafId(random.between(0, to.tree.leaf_count() as u64 - 1) as u32);
        let change = Change { from: &self.plan, to: &to, heir };
        change.apply(link, self.now).expect("it builds");
        self.plan = to;
    }
}

fn saved(link: &dyn AnyLink) -> Vec<u8> {
    let mut to = Writer::new();
    link.save(&mut to);
    to.into_bytes()
}

/// The law; returns false if the scheduler refuses the drawn plan.
fn continues(entry: &Entry, seed: u64) -> bool {
    let mut driver = Driver::new(entry, seed);
    let Ok(mut link) = driver.plan.build() else { return false };
    let (changes, grafts) = (driver.random.one_in(4), driver.random.one_in(2));
    for step in 0..driver.random.between(0, CALLS) {
        let call = driver.call();
        if step % 2 == 0 {
            driver.wait();
        }
        driver.make(&mut *link, &call);
        if changes && step % 40 == 20 {
            driver.change(&mut link);
        }
        if grafts && step % 10 == 5 {
            driver.graft(&mut *link, step);
        }
    }
    let bytes = saved(&*link);
    // A leaf may have been retuned to what the tree refuses to build anew.
    let Ok(mut again) = driver.plan.build() else { return false };
    let mut from = Reader::new(&bytes);
    assert_eq!(again.load(&mut from), Ok(()));
    assert!(from.rest().is_empty(), "a checkpoint is read to its end");
    assert_eq!(saved(&*again), bytes, "a checkpoint that was loaded is saved as it was");
    for step in 0..CALLS {
        let call = driver.call();
        if step % 2 == 0 {
            driver.wait();
        }
        let expected = driver.make(&mut *link, &call);
        let outcome = driver.make(&mut *again, &call);
        assert_eq!(outcome, expected, "step {step}: {call:?}");
    }
    driver.now = driver.now.after(Duration::from_secs(1 << 33));
    let last = Call::Serve(Vec::new());
    assert_eq!(driver.make(&mut *again, &last), driver.make(&mut *link, &last), "the rest");
    true
}

/// Runs a law for every scheduler and seed.
fn for_all(law: fn(&Entry, u64) -> bool) {
    let (laws, first) = (seeds::laws().div_ceil(4), seeds::first());
    let only = std::env::var("WEIR_SCHEDULER").ok();
    let is_meant = |entry: &&Entry| only.as_ref().is_none_or(|it| it == entry.descriptor.keyword);
    for entry in SCHEDULERS.iter().filter(is_meant) {
        let keyword = entry.descriptor.keyword;
        let (mut built, mut tried) = (0, 0);
        while built < laws {
            tried += 1;
            let seed = first.wrapping_add(tried);
            let ran = catch_unwind(AssertUnwindSafe(|| law(entry, seed)));
            built += u64::from(ran.unwrap_or_else(|_| panic!("{keyword} with seed {seed}")));
            assert!(tried < 1000 + 4 * laws, "{keyword} refuses most plans");
        }
    }
}

#[test]
fn a_link_continues_from_a_checkpoint_as_if_it_had_never_stopped() {
    for_all(continues);
}

/// Changes some bytes of the state in a checkpoint, adds some or takes some out.
fn edit(random: &mut Random, bytes: &mut Vec<u8>) {
    // Kind, version, length and the plan's hash; and the checksum.
    let (start, end) = (18, bytes.len() - 8);
    for _ in 0..random.between(1, 4) {
        let at = random.between(start as u64, end as u64 - 1) as usize;
        match random.between(0, 9) {
            0 => bytes.insert(at, random.next() as u8),
            1 => drop(bytes.remove(at.min(bytes.len() - 9))),
            2 => bytes[at] = random.next() as u8,
            3..=5 => bytes[at] ^= 1 << random.between(0, 7),
            6 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.between(0, 4) as usize],
            7 => drop(bytes.splice(at..at, [0xff; 9])),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    forge(bytes);
}

/// A forged checkpoint is refused, or the link then runs on without a panic.
fn does_no_harm(entry: &Entry, seed: u64) -> bool {
    let mut driver = Driver::new(entry, seed);
    let Ok(mut link) = driver.plan.build() else { return false };
    for step in 0..driver.random.between(0, CALLS) {
        let call = driver.call();
        if step % 2 == 0 {
            driver.wait();
        }
        driver.make(&mut *link, &call);
    }
    let bytes = saved(&*link);
    for _ in 0..20 {
        let mut forged = bytes.clone();
        edit(&mut driver.random, &mut forged);
        let mut link = driver.plan.build().expect("it was built before");
        if link.load(&mut Reader::new(&forged)).is_err() {
            continue;
        }
        // Time does not go back, and a forged now may be anywhere.
        let again = saved(&*link);
        assert_eq!(again, forged, "what is accepted is understood");
        let before = driver.now;
        driver.now = now_of(&forged).max(driver.now);
        for step in 0..30 {
            let call = driver.call();
            if step % 2 == 0 {
                driver.wait();
            }
            driver.make(&mut *link, &call);
        }
        driver.now = before;
    }
    true
}

/// Returns the time of the link in a checkpoint, its first number.
fn now_of(checkpoint: &[u8]) -> Instant {
    let now = Reader::new(&checkpoint[18..]).number();
    Instant::from_nanos(now.expect("it was read before"))
}

#[test]
fn a_forged_checkpoint_is_refused_or_does_no_harm() {
    for_all(does_no_harm);
}

/// A link with packets that wait.
fn busy(plan: &LinkPlan) -> Box<dyn AnyLink> {
    let mut link = plan.build().expect("it builds");
    for handle in 0..20 {
        let leaf = LeafId(handle % plan.tree.leaf_count() as u32);
        link.offer(Instant::ZERO, leaf, Packet::new(Handle(handle), 1000));
    }
    link
}

#[test]
fn a_checkpoint_of_another_plan_is_refused() {
    let mut random = Random::new(1);
    let entry = &SCHEDULERS[0];
    let tree = random_tree(&mut random, entry.descriptor);
    let plan = LinkPlan::new(entry.descriptor.keyword, tree);
    let bytes = saved(&*busy(&plan));
    let load = |plan: &LinkPlan| plan.build().expect("it builds").load(&mut Reader::new(&bytes));
    assert_eq!(load(&plan), Ok(()));
    let mut queues = plan.clone();
    queues.queues[0] = QueuePlan { dropper: "head", params: Default::default() };
    for other in [
        LinkPlan { seed: plan.seed.wrapping_add(1), ..plan.clone() },
        LinkPlan { packets_max: plan.packets_max + 1, ..plan.clone() },
        LinkPlan { scheduler: "drr", ..plan.clone() },
        LinkPlan { buffer: Bytes::new(1), ..plan.clone() },
        queues,
    ] {
        assert_eq!(load(&other), Err(StateError::OtherPlan), "{other:?}");
    }
}

#[test]
fn a_checkpoint_that_was_cut_or_damaged_is_refused() {
    let mut random = Random::new(1);
    let entry = &SCHEDULERS[0];
    let tree = random_tree(&mut random, entry.descriptor);
    let plan = LinkPlan::new(entry.descriptor.keyword, tree);
    let mut bytes = saved(&*busy(&plan));
    let load = |bytes: &[u8]| plan.build().expect("it builds").load(&mut Reader::new(bytes));
    for cut in 0..bytes.len() {
        assert_eq!(load(&bytes[..cut]), Err(StateError::Cut), "{cut} bytes");
    }
    for place in 0..bytes.len() {
        bytes[place] ^= 0x10;
        assert!(load(&bytes).is_err(), "byte {place}");
        bytes[place] ^= 0x10;
    }
}
