//! Single leaves that are added, retuned and removed leave a link that is the link of its plan.

use crate::common;

use common::{Random, any_leaf, any_parent, plan_with_places, random_graft, random_length};
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Arrival, Change, Graft, LinkPlan, Packet};
use weir_core::sched::{Entry, RefitError, SCHEDULERS};
use weir_core::state::{Reader, Writer};
use weir_core::units::{Bytes, Duration, Instant};

/// Grafts in a run.
const GRAFTS: u32 = 40;
/// Batches of arrivals in a run.
const BATCHES: u32 = 200;
/// Plans of each scheduler.
const PLANS: u64 = 150;

/// The schedulers that can be refitted.
fn entries() -> impl Iterator<Item = &'static Entry> {
    SCHEDULERS.iter().filter(|entry| entry.refits)
}

/// Plans until as many were found as are tested.
fn plans(entry: &Entry) -> impl Iterator<Item = (Random, LinkPlan)> {
    let draw = |seed| {
        let mut random = Random::new(seed);
        let plan = plan_with_places(&mut random, entry.descriptor);
        plan.build().is_ok().then_some((random, plan))
    };
    (0..).filter_map(draw).take(PLANS as usize)
}

/// Draws a batch of arrivals after `now`; at most a few at one instant.
fn arrivals(
    random: &mut Random,
    plan: &LinkPlan,
    now: &mut Instant,
    next: &mut u32,
) -> Vec<Arrival> {
    let gap = plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 40);
    let mut rows = Vec::new();
    for _ in 0..random.between(0, 6) {
        if random.one_in(2) {
            *now = now.after(Duration::from_nanos(random.wide(1, 4 * gap)));
        }
        let leaf = any_leaf(random, plan);
        if plan.tree.is_vacant(leaf) {
            continue;
        }
        let packet = Packet::new(Handle(*next), random_length(random));
        *next += 1;
        rows.push(Arrival { at: *now, leaf, packet });
    }
    *now = now.after(Duration::from_nanos(random.wide(1, 4 * gap)));
    rows
}

/// Serves both links the same arrivals and checks that they decide the same.
fn serve_both(
    links: &mut [Box<dyn AnyLink>; 2],
    arrivals: &[Arrival],
    until: Instant,
    what: &dyn Fn() -> String,
) {
    let [mut one, mut other]: [Vec<Departure>; 2] = [Vec::new(), Vec::new()];
    links[0].serve(arrivals, until, &mut one);
    links[1].serve(arrivals, until, &mut other);
    assert_eq!(one, other, "{}", what());
    let dropped = links.each_mut().map(|link| {
        let mut rows = Vec::new();
        link.take_dropped(&mut |row| rows.push(row));
        rows
    });
    assert_eq!(dropped[0], dropped[1], "{}", what());
}

#[test]
fn grafts_of_an_idle_link_do_what_whole_changes_do() {
    for entry in entries() {
        let keyword = entry.descriptor.keyword;
        let (mut done, mut whole) = (0, 0u32);
        for (index, (mut random, mut plan)) in plans(entry).enumerate() {
            let build = || plan.build().expect("it was built before");
            let mut links = [build(), build()];
            for number in 0..GRAFTS {
                let before = plan.clone();
                let graft = random_graft(&mut random, &plan, format!("grafted{number}"));
                let shown = format!("{graft:?}");
                match graft.apply(&mut plan, &mut *links[0], Instant::ZERO) {
                    Ok(_) => done += 1,
                    Err(error) => {
                        whole += u32::from(matches!(error, RefitError::NeedsChange(_)));
                        assert_eq!(before, plan, "{keyword} {index}: {error} {shown}");
                        continue;
                    }
                }
                let change = Change { from: &before, to: &plan, heir: LeafId(0) };
                let changed = change.apply(&mut links[1], Instant::ZERO);
                assert_eq!(changed, Ok(()), "{keyword} {index}: {shown}");
            }
            // What arrives at the instant of a change counts as having waited.
            let (mut now, mut next) = (Instant::from_nanos(1), 0);
            for batch in 0..BATCHES {
                let arrivals = arrivals(&mut random, &plan, &mut now, &mut next);
                let what = || format!("{keyword} {index}, batch {batch}: {:?}", plan.tree);
                serve_both(&mut links, &arrivals, now, &what);
            }
        }
        println!("{keyword}: {done} grafts, {whole} need a change");
        assert!(done > 5 * PLANS as u32, "{keyword}: {done} of {whole}");
    }
}

#[test]
fn a_rehearsed_graft_does_to_a_loaded_link_what_the_graft_does() {
    for entry in entries() {
        let keyword = entry.descriptor.keyword;
        let (mut done, mut refused) = (0, 0);
        for (index, (mut random, mut plan)) in plans(entry).enumerate() {
            let build = || plan.build().expect("it was built before");
            let (mut links, mut twin) = ([build(), build()], build());
            let mut other = plan.clone();
            let (mut now, mut next) = (Instant::from_nanos(1), 0);
            for number in 0..BATCHES {
                let arrivals = arrivals(&mut random, &plan, &mut now, &mut next);
                let what = || format!("{keyword} {index}, batch {number}: {:?}", plan.tree);
                serve_both(&mut links, &arrivals, now, &what);
                let graft = random_graft(&mut random, &plan, format!("grafted{number}"));
                let shown = format!("{graft:?}");
                let mut tried = plan.clone();
                let Ok(mut prepared) = graft.clone().rehearse(&mut tried, &mut *twin, 16) else {
                    continue;
                };
                let mut alike = other.clone();
                let one = prepared.apply(&tried, &mut *links[0], now);
                let two = graft.apply(&mut alike, &mut *links[1], now);
                assert_eq!(one, two.clone().map(drop), "{keyword} {index}: {shown}");
                if two.is_err() {
                    // A leaf that shares its limit: the twin begins anew.
                    twin = plan.build().expect("it was built before");
                    refused += 1;
                    continue;
                }
                (plan, other) = (tried, alike);
                assert_eq!(plan, other, "{keyword} {index}: {shown}");
                done += 1;
            }
            let saved = links.each_mut().map(|link| {
                let mut to = Writer::new();
                link.save(&mut to);
                to.into_bytes()
            });
            assert_eq!(saved[0], saved[1], "{keyword} {index}");
        }
        println!("{keyword}: {done} grafts, {refused} refused");
        assert!(done > 5 * PLANS as u32, "{keyword}: {done}");
    }
}

#[test]
fn a_leaf_that_joins_under_load_is_one_that_was_always_idle() {
    for entry in entries() {
        let keyword = entry.descriptor.keyword;
        for (index, (mut random, plan)) in plans(entry).enumerate() {
            let mut places = plan.clone();
            // One link has classes from the start where the other has places until later.
            let mut names = 0;
            let mut full = plan.clone();
            let mut scratch = full.build().expect("it was built before");
            let mut grafts = Vec::new();
            while names < 6 {
                names += 1;
                let parent = any_parent(&mut random, &full);
                let Some(leaf) = full.tree.vacancy(parent) else { continue };
                let params = full.tree.leaf(leaf).params.clone();
                let queue = full.queues[leaf.index()].clone();
                let name = format!("grafted{names}");
                let graft = Graft::Add { parent, name, params, queue };
                if graft.clone().apply(&mut full, &mut *scratch, Instant::ZERO).is_ok() {
                    grafts.push(graft);
                }
            }
            let mut links = [full.build().expect("built"), places.build().expect("built")];
            let (mut now, mut next) = (Instant::ZERO, 0);
            let mut grafts = grafts.into_iter().peekable();
            for batch in 0..BATCHES {
                let arrivals = arrivals(&mut random, &places, &mut now, &mut next);
                let what = || format!("{keyword} {index}, batch {batch}: {:?}", full.tree);
                serve_both(&mut links, &arrivals, now, &what);
                if let Some(graft) = grafts.next_if(|_| random.one_in(9)) {
                    graft.apply(&mut places, &mut *links[1], now).expect("as the place");
                }
            }
            assert_eq!(grafts.next().is_none(), places == full);
            // The plan is that of the link: what it saves, a link of the plan continues.
            let mut to = Writer::new();
            links[1].save(&mut to);
            links[0] = places.build().expect("built");
            let loaded = links[0].load(&mut Reader::new(&to.into_bytes()));
            assert_eq!(loaded, Ok(()), "{keyword} {index}");
            for batch in 0..BATCHES / 4 {
                let arrivals = arrivals(&mut random, &places, &mut now, &mut next);
                let what = || format!("{keyword} {index}, loaded {batch}: {:?}", places.tree);
                serve_both(&mut links, &arrivals, now, &what);
            }
        }
    }
}
