//! The processor's prefetch, for a link to read ahead without waiting: see [`weir_core::prefetch`].

use weir_core::prefetch::Prefetch;

/// What this processor has; where there is nothing, links read.
pub fn prefetch() -> Prefetch {
    #[cfg(target_arch = "x86_64")]
    return Prefetch::by(ask);
    #[cfg(not(target_arch = "x86_64"))]
    return Prefetch::default();
}

#[cfg(target_arch = "x86_64")]
fn ask(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which the processor ignores where nothing can be read; it changes nothing
    // that the program can see.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::event::Departure;
    use weir_core::ids::{Handle, LeafId};
    use weir_core::link::{LinkPlan, Packet};
    use weir_core::parameter::Params;
    use weir_core::random::Random;
    use weir_core::sched::{ClassSpec, SCHEDULERS, Tree};
    use weir_core::units::{Bytes, Instant, Rate};

    /// So many leaves that links read ahead.
    const LEAVES: u32 = 5_000;

    /// What leaves a link of `scheduler` in bursts of changing size.
    fn departures(scheduler: &'static str, prefetch: Prefetch) -> Vec<Departure> {
        let rate = Rate::new(1_000_000_000).expect("not zero");
        let class = |leaf: u32| {
            let (name, parent) = (leaf.to_string(), None);
            ClassSpec { name, parent, params: Params::new() }
        };
        let classes = (0..LEAVES).map(class).collect();
        let tree = Tree::new(rate, Bytes::new(1514), Params::new(), classes).expect("a flat tree");
        let mut plan = LinkPlan::new(scheduler, tree);
        plan.buffer = Bytes::new(1 << 20);
        let Ok(mut link) = plan.build() else { return Vec::new() };
        link.lend(prefetch);
        let (mut random, mut now) = (Random::new(7, 0), Instant::ZERO);
        let (mut all, mut burst) = (Vec::new(), Vec::new());
        for handle in 0..40_000 {
            let packet = Packet::new(Handle(handle), 64 + random.below(1_400));
            burst.push((LeafId(random.below(LEAVES)), packet));
            if random.below(30) > 0 {
                continue;
            }
            link.offer_burst(now, &burst);
            burst.clear();
            let mut out = [Departure::default(); 64];
            let most = 1 + random.below(60) as usize;
            let sent = link.poll_burst(now, &mut out[..most]);
            all.extend_from_slice(&out[..sent]);
            now = Instant::from_nanos(now.as_nanos() + u64::from(random.below(200_000)));
        }
        all
    }

    #[test]
    fn what_a_link_decides_does_not_depend_on_how_it_reads_ahead() {
        let mut compared = 0;
        for entry in SCHEDULERS {
            let scheduler = entry.descriptor.keyword;
            let read = departures(scheduler, Prefetch::default());
            assert_eq!(read, departures(scheduler, prefetch()), "{scheduler}");
            compared += usize::from(read.len() > 10_000);
        }
        assert!(compared >= 8, "so few schedulers do without parameters: {compared}");
    }
}
