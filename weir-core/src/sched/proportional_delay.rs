//! Proportional delay: the class goes first that has waited longest for what its parameter allows.
//!
//! The hybrid of Dovrolis, Stiliadis and Ramanathan `[dovrolis02]`, and its bounded form by
//! Nieminen and others `[nieminen §2.B]`; the rules are [algorithms §8.3]. Each class i has a
//! parameter δ; the line goes to the class with the largest (g·average + (1 − g)·waiting) / δ, the
//! first of equals. So delays keep the ratios of δ under load. With `BOUNDED` the first class goes
//! before all once its packet has waited too long.
//!
//! Ties, and the estimators other than the exponential average, follow [algorithms §8.3].
//! Times are nanoseconds; averages are stored times 2^gamma, so that a step loses no precision.
//! Quotients are compared by cross products: a waiting time counts for at most 13 days
//! (2^50 ns), so a product needs 50 + 16 bits of a scaled average, 30 of `g` and 30 of δ, and fits
//! 128. Invariant: averages stay below 2^50 ns. A choice compares all classes, so its cost grows
//! with their number.

use super::{Head, Kin, Scheduler, Selection, Tree, Waiting};
use crate::ids::LeafId;
use crate::parameter::{Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant, Share};
use alloc::vec::Vec;

/// Proportional delay; the first class has a bound if `BOUNDED`.
pub struct ProportionalDelay<const BOUNDED: bool> {
    classes: Vec<Class>,
    rule: Rule,
    /// How long a packet of the first class may wait before it goes first.
    bound: Duration,
    backlogged: u32,
}

/// How waiting times are weighed and averaged.
#[derive(Clone, Copy)]
struct Rule {
    /// The part of the average, of 10^9.
    long_term: u32,
    /// An average moves by 2^-gamma of the difference.
    gamma: u32,
    estimator: Estimator,
}

/// How an average follows the measured values.
#[derive(Clone, Copy)]
enum Estimator {
    /// By a fixed part of the difference.
    Ewma,
    /// As `Ewma`, but each busy period of a class begins with its first waiting time. Ratios
    /// suffer: where `Ewma` gives 4 at 99 % load, this gives 2.4 to 3.6.
    Restart,
    /// By a part that grows with the error relative to the average.
    ProportionalError,
}

struct Class {
    /// Its delay in relation to the others' δ.
    delta: u32,
    /// The average of its packets' waiting times, times 2^gamma, in ns.
    average: u128,
    /// When its first packet arrived, if one waits.
    arrived: Option<Instant>,
    /// The class sent nothing since it became backlogged.
    fresh: bool,
}

impl<const BOUNDED: bool> ProportionalDelay<BOUNDED> {
    /// Reads the parameters of the tree; the first class goes before all after `bound`.
    pub(super) fn new(tree: &Tree, bound: Duration) -> Self {
        let params = tree.params();
        let ratio = params.number("ratio").unwrap_or(RATIO_DEFAULT).clamp(1, RATIO_MAX);
        let (mut classes, mut default) = (Vec::with_capacity(tree.leaf_count()), 1u64);
        for (_, class) in tree.leaves() {
            let delta = class.params.number("ddp").unwrap_or(default).clamp(1, DDP_MAX) as u32;
            classes.push(Class { delta, average: 0, arrived: None, fresh: false });
            default = (default * ratio).min(DDP_MAX);
        }
        let long_term = match params.quantity("g") {
            Some(crate::units::Quantity::Share(share)) => share.ppb(),
            _ => G_DEFAULT_PPB,
        };
        let estimator = match params.choice("estimator") {
            Some("restart") => Estimator::Restart,
            Some("pe") => Estimator::ProportionalError,
            _ => Estimator::Ewma,
        };
        let gamma = params.number("gamma").unwrap_or(GAMMA_DEFAULT).min(GAMMA_MAX) as u32;
        let rule = Rule { long_term, gamma, estimator };
        Self { classes, rule, bound, backlogged: 0 }
    }

    /// Takes over the averages of classes that were there before.
    pub(super) fn take_over(&mut self, old: &Self, kin: &Kin) {
        for (new, was) in kin.leaves() {
            let average = old.classes[was.index()].average >> old.rule.gamma;
            self.classes[new.index()].average = average << self.rule.gamma;
        }
    }

    /// Whether averages are within their bound.
    fn is_sound(&self) -> bool {
        let within = |class: &Class| class.average >> self.rule.gamma <= u128::from(WAIT_MAX);
        self.classes.iter().all(within)
    }

    /// Checks a loaded state: the first packets are those that `waiting` has.
    pub(super) fn knows(&self, waiting: &Waiting<'_>) -> bool {
        let arrived = |head: Option<Head>| head.map(|head| head.arrived);
        self.backlogged as usize == waiting.leaves()
            && waiting.all(|leaf, head| self.classes[leaf].arrived == arrived(head))
    }

    /// [algorithms §8.3, rule 1] Returns whether the first class goes before all.
    fn overdue(&self, now: Instant) -> bool {
        let arrived = self.classes.first().and_then(|class| class.arrived);
        BOUNDED && arrived.is_some_and(|arrived| now.since(arrived) > self.bound)
    }

    fn set_head(&mut self, leaf: LeafId, head: Option<Head>) {
        let class = &mut self.classes[leaf.index()];
        self.backlogged -= u32::from(class.arrived.is_some());
        self.backlogged += u32::from(head.is_some());
        class.fresh |= class.arrived.is_none();
        class.arrived = head.map(|head| head.arrived);
    }
}

impl<const BOUNDED: bool> Scheduler for ProportionalDelay<BOUNDED> {
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, head: Head) {
        self.set_head(leaf, Some(head));
    }

    fn select(&mut self, now: Instant) -> Selection {
        if self.backlogged == 0 {
            return Selection::Idle;
        }
        if self.overdue(now) {
            return Selection::Leaf(LeafId(0));
        }
        // [algorithms §8.3, rule 2] The largest quotient, the first of equals.
        let mut best: Option<(LeafId, u128, u32)> = None;
        for (index, class) in self.classes.iter().enumerate() {
            let Some(arrived) = class.arrived else { continue };
            let merit = self.rule.merit(class.average, waited(now, arrived));
            let beats = |&(_, other, delta): &(LeafId, u128, u32)| {
                merit * u128::from(delta) > other * u128::from(class.delta)
            };
            if best.as_ref().is_none_or(beats) {
                best = Some((LeafId(index as u32), merit, class.delta));
            }
        }
        best.map_or(Selection::Idle, |(leaf, ..)| Selection::Leaf(leaf))
    }

    fn charge(&mut self, now: Instant, leaf: LeafId, _sent: Bytes, next: Option<Head>) {
        let class = &mut self.classes[leaf.index()];
        let arrived = class.arrived.expect("a selected leaf has a first packet");
        let fresh = core::mem::take(&mut class.fresh);
        class.average = self.rule.follow(class.average, waited(now, arrived), fresh);
        self.set_head(leaf, next);
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.set_head(leaf, head);
    }
}

impl Rule {
    /// Returns the numerator of a class's quotient, times 2^gamma and 10^9.
    fn merit(self, average: u128, waited: u64) -> u128 {
        let now = u128::from(waited) << self.gamma;
        u128::from(self.long_term) * average + u128::from(PPB - self.long_term) * now
    }

    /// [algorithms §8.3, rule 3] Returns an average, times 2^gamma, after a packet that waited.
    fn follow(self, average: u128, waited: u64, fresh: bool) -> u128 {
        let whole = average >> self.gamma;
        let waited = u128::from(waited);
        match self.estimator {
            Estimator::Restart if fresh => waited << self.gamma,
            Estimator::Ewma | Estimator::Restart => average + waited - whole,
            Estimator::ProportionalError => {
                let error = waited.abs_diff(whole);
                // γ times error / average, at most 1, of the error; below 2^100.
                let step = (error * error / whole.max(ERROR_BASE)).min(error << self.gamma);
                if waited > whole { average + step } else { average - step }
            }
        }
    }
}

/// Returns how long a packet has waited, in ns, at most 13 days.
fn waited(now: Instant, arrived: Instant) -> u64 {
    now.since(arrived).as_nanos().min(WAIT_MAX)
}

pub(super) const DDP: Parameter = Parameter {
    name: "ddp",
    scope: Scope::Leaf,
    kind: Kind::Number(1, DDP_MAX),
    default: Some("1 for the first class, then ratio times that of the class before"),
    summary: "Its delay in relation to the others' `ddp`; smaller waits less.",
};
pub(super) const RATIO: Parameter = Parameter {
    name: "ratio",
    scope: Scope::Link,
    kind: Kind::Number(1, RATIO_MAX),
    default: Some("4"),
    summary: "The delay of a class in relation to the class before, where no `ddp` is written.",
};
pub(super) const G: Parameter = Parameter {
    name: "g",
    scope: Scope::Link,
    kind: Kind::Quantity(Dimension::Share),
    default: Some("87.5 %"),
    summary: "The part of the average delay in a choice; the rest is the present waiting time.",
};
pub(super) const GAMMA: Parameter = Parameter {
    name: "gamma",
    scope: Scope::Link,
    kind: Kind::Number(0, GAMMA_MAX),
    default: Some("10"),
    summary: "An average moves by 2^-gamma of the difference with each packet.",
};
pub(super) const ESTIMATOR: Parameter = Parameter {
    name: "estimator",
    scope: Scope::Link,
    kind: Kind::Choice(&["ewma", "restart", "pe"]),
    default: Some("ewma"),
    summary: "How averages follow: evenly, anew in each busy period, or by proportional error.",
};

const PPB: u32 = Share::WHOLE.ppb();
const G_DEFAULT_PPB: u32 = 875_000_000;
const GAMMA_DEFAULT: u64 = 10;
const GAMMA_MAX: u64 = 16;
const RATIO_DEFAULT: u64 = 4;
const RATIO_MAX: u64 = 1024;
const DDP_MAX: u64 = 1 << 30;
const WAIT_MAX: u64 = (1 << 50) - 1;
/// An average below a microsecond counts as one where it divides.
const ERROR_BASE: u128 = 1_000;

state!(ProportionalDelay<const BOUNDED: bool> {
    classes, backlogged; kept: rule, bound; check: Self::is_sound
});
state!(Class { average, arrived, fresh; kept: delta });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::{Params, Value};
    use crate::sched::ClassSpec;
    use crate::units::{Quantity, Rate};
    use alloc::string::ToString;

    const BOUND: Duration = Duration::from_millis(5);

    fn tree(leaves: u32, params: Params) -> Tree {
        let class =
            |index: u32| ClassSpec { name: index.to_string(), parent: None, params: Params::new() };
        let classes = (0..leaves).map(class).collect();
        Tree::new(Rate::MIN, Bytes::new(1500), params, classes).expect("flat")
    }

    fn at_micros(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    /// Checks, for averages and waiting times of the first packets at 2 ms, in µs, which class is
    /// served then and at 5.1 ms, when the first class has waited longer than its bound.
    fn check_choice<const BOUNDED: bool>(averages: &[u64], waited: &[u64], expected: [u32; 2]) {
        let tree = tree(averages.len() as u32, Params::new());
        let mut scheduler = ProportionalDelay::<BOUNDED>::new(&tree, BOUND);
        for (index, (&average, &waited)) in averages.iter().zip(waited).enumerate() {
            scheduler.classes[index].average = u128::from(average * 1000) << GAMMA_DEFAULT;
            let arrived = Instant::from_nanos(at_micros(2000).as_nanos() - waited * 1000);
            let head = Head { length: Bytes::new(100), arrived };
            scheduler.enqueued(at_micros(2000), LeafId(index as u32), head);
        }
        let chosen = [2000, 5100].map(|micros| scheduler.select(at_micros(micros)));
        assert_eq!(chosen, expected.map(|leaf| Selection::Leaf(LeafId(leaf))));
    }

    #[test]
    fn the_largest_weighed_delay_goes_unless_the_bound_is_passed() {
        // [algorithms §8.4] 1.125, 1.500, 1.344 and 2.582 ms; at 5.1 ms rule 1.
        let (averages, waited) = ([1000, 6000, 20_000, 160_000], [2000, 6000, 32_000, 202_000]);
        check_choice::<true>(&averages, &waited, [3, 0]);
        check_choice::<false>(&averages, &waited, [3, 3]);
    }

    #[test]
    fn the_first_of_equals_goes() {
        check_choice::<false>(&[1000, 4000, 16_000], &[1000, 4000, 16_000], [0, 0]);
    }

    #[test]
    fn a_packet_exactly_at_its_bound_does_not_go_first_yet() {
        let tree = tree(2, Params::new().with("ratio", Quantity::Number(1)));
        let mut scheduler = ProportionalDelay::<true>::new(&tree, BOUND);
        let head = |arrived| Head { length: Bytes::new(100), arrived };
        scheduler.enqueued(at_micros(0), LeafId(1), head(at_micros(0)));
        scheduler.enqueued(at_micros(10), LeafId(0), head(at_micros(10)));
        for (micros, leaf) in [(5010, 1), (5011, 0)] {
            assert_eq!(scheduler.select(at_micros(micros)), Selection::Leaf(LeafId(leaf)));
        }
    }

    /// Checks an average in µs before and after packets that waited `waits` µs; a busy period is
    /// one packet long, as the class empties with each.
    fn check_average(estimator: &'static str, gamma: u64, before: u64, waits: &[u64], after: f64) {
        let mut params = Params::new().with("gamma", Quantity::Number(gamma));
        params.set("estimator", Value::Choice(estimator));
        let mut scheduler = ProportionalDelay::<false>::new(&tree(1, params), BOUND);
        scheduler.classes[0].average = u128::from(before * 1000) << gamma;
        for &waited in waits {
            let head = Head { length: Bytes::new(100), arrived: at_micros(0) };
            scheduler.enqueued(at_micros(0), LeafId(0), head);
            scheduler.charge(at_micros(waited), LeafId(0), head.length, None);
        }
        let real = (scheduler.classes[0].average >> gamma) as f64 / 1000.0;
        assert!((real - after).abs() < 0.002, "{estimator} {gamma}: {real} instead of {after}");
    }

    #[test]
    fn averages_follow_as_their_estimator_says() {
        // [algorithms §8.4] 6 ms and a packet of 8 ms give 6.001953 ms.
        check_average("ewma", 10, 6000, &[8000], 6001.953);
        check_average("ewma", 10, 6000, &[8000, 0], 6001.953 * 1023.0 / 1024.0);
        check_average("ewma", 0, 6000, &[8000], 8000.0);
        // Steps far below a microsecond are not lost: 1024 of them are about 1 - 1/e of the way.
        check_average("ewma", 10, 0, &[1; 1024], 0.632);
        check_average("restart", 10, 6000, &[8000], 8000.0);
        check_average("restart", 10, 6000, &[8000, 100], 100.0);
        // 1/1024 of 2 ms, times 2 ms / 6 ms; from nothing the step is the whole difference.
        check_average("pe", 10, 6000, &[8000], 6000.651);
        check_average("pe", 10, 0, &[8000], 8000.0);
        check_average("pe", 10, 8000, &[0], 8000.0 - 7.8125);
    }

    #[test]
    fn a_restart_is_once_in_a_busy_period() {
        let mut params = Params::new().with("gamma", Quantity::Number(1));
        params.set("estimator", Value::Choice("restart"));
        let mut scheduler = ProportionalDelay::<false>::new(&tree(1, params), BOUND);
        let head = Head { length: Bytes::new(100), arrived: at_micros(0) };
        scheduler.enqueued(at_micros(0), LeafId(0), head);
        scheduler.charge(at_micros(100), LeafId(0), head.length, Some(head));
        scheduler.charge(at_micros(200), LeafId(0), head.length, Some(head));
        assert_eq!(scheduler.classes[0].average >> 1, 150_000);
    }

    #[test]
    fn averages_outlive_a_change_of_policy() {
        let (before, after) = (tree(3, Params::new()), tree(2, Params::new()));
        let mut old = ProportionalDelay::<true>::new(&before, BOUND);
        old.classes[1].average = 5_000 << GAMMA_DEFAULT;
        let mut new = ProportionalDelay::<true>::new(&after, BOUND);
        new.rule.gamma = 3;
        new.take_over(&old, &Kin::by_name(&before, &after));
        assert_eq!(new.classes[1].average, 5_000 << 3);
        assert_eq!(new.classes[0].average, 0);
    }

    #[test]
    fn the_largest_values_fit() {
        for estimator in [Estimator::Ewma, Estimator::Restart, Estimator::ProportionalError] {
            let rule = Rule { long_term: PPB / 2, gamma: GAMMA_MAX as u32, estimator };
            let mut average = 0;
            for wait in [WAIT_MAX, 0, WAIT_MAX, WAIT_MAX, 1, 0, 0, WAIT_MAX] {
                average = rule.follow(average, wait, false);
                assert!(average >> GAMMA_MAX <= u128::from(WAIT_MAX));
            }
            let full = u128::from(WAIT_MAX) << GAMMA_MAX;
            let merit = rule.merit(full, WAIT_MAX);
            assert!(merit.checked_mul(u128::from(DDP_MAX)).is_some());
        }
    }
}
