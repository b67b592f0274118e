//! Delays that were promised, and whether the policy keeps them: the bounds of network calculus.

use std::collections::BTreeMap;

use weir_core::ids::LeafId;
use weir_core::units::{Bytes, Rate};
use weir_policy::Policy;
use weir_policy::calculus;
use weir_policy::policy::{Arrival, Demand};

use super::{Admission, Refusal, refusal};
use crate::intserv::Terms;
use crate::wire::Cause;

/// The delays that leaves were promised, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    delays: BTreeMap<LeafId, f64>,
}

impl Promises {
    /// Takes each delay that a class of the policy demands and its bound keeps.
    pub(super) fn of(policy: &Policy) -> Self {
        let bounds = calculus::bounds(&policy.link, &policy.demands);
        let wanted = policy.demands.iter().zip(bounds).enumerate();
        let kept = wanted.filter_map(|(leaf, (demand, bound))| {
            let wanted = demand.delay?.as_nanos() as f64 / 1e9;
            let is_kept = bound.delay.is_some_and(|delay| delay <= wanted);
            is_kept.then_some((LeafId(leaf as u32), wanted))
        });
        Self { delays: kept.collect() }
    }

    /// Notes a leaf's promise, or that it has none any more; returns the former one.
    pub(super) fn set(&mut self, leaf: LeafId, delay: Option<f64>) -> Option<f64> {
        match delay {
            Some(delay) => self.delays.insert(leaf, delay),
            None => self.delays.remove(&leaf),
        }
    }

    /// Checks that the policy keeps all.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), Refusal> {
        if self.delays.is_empty() {
            return Ok(());
        }
        let bounds = calculus::bounds(&policy.link, &policy.demands);
        let broken = self.delays.iter().find(|(leaf, wanted)| {
            let bound = bounds[leaf.index()].delay;
            bound.is_none_or(|bound| bound > **wanted * PRECISION)
        });
        let Some((leaf, wanted)) = broken else { return Ok(()) };
        let name = policy.leaf_name(*leaf);
        let found = bounds[leaf.index()].delay.map_or("none".to_owned(), calculus::shown);
        let why = format!(
            "the delay bound of class `{name}` would be {found}, and it has {}",
            calculus::shown(*wanted)
        );
        Err(refusal(Cause::DELAY, why))
    }
}

/// Returns the terms C and D: how much later than in a pipe of its rate a packet of a reservation
/// that is alone leaves. C follows from two rates; a term that the deployment gives takes D's
/// place.
pub(super) fn terms(admission: &Admission) -> Option<Terms> {
    let most = Rate::new(admission.room)?;
    let least = Rate::new((admission.room / 64).max(8))?;
    let packet = admission.policy.link.tree.mtu().get();
    let late = |rate: Rate| {
        let mut policy = admission.policy.clone();
        let leaf = policy.link.tree.vacancy(Some(admission.parent))?;
        let (params, queue) = (admission.params_at(rate), admission.places().queue.clone());
        policy.link.replace_leaf(leaf, "probe".to_owned(), params, queue);
        let arrival = Some(Arrival { rate, burst: Bytes::new(packet) });
        policy.demands[leaf.index()] = Demand { arrival, ..Demand::default() };
        let bound = calculus::bounds(&policy.link, &policy.demands)[leaf.index()];
        let bytes_per_second = rate.bits_per_second() as f64 / 8.0;
        Some((bound.delay? - packet as f64 / bytes_per_second, bytes_per_second))
    };
    let ((fast, high), (slow, low)) = (late(most)?, late(least)?);
    let c = ((slow - fast) / (1.0 / low - 1.0 / high)).max(0.0);
    let c = if c < 0.5 { 0.0 } else { c.ceil() };
    let d = match admission.params.delay {
        Some(delay) => delay.as_nanos() as f64 / 1e3,
        None => ((fast - c / high).max(slow - c / low).max(0.0) * 1e6).ceil(),
    };
    Some(Terms { c: c as u32, d: d as u32 })
}

/// Bounds are enlarged by a millionth for the rounding of their computation.
const PRECISION: f64 = 1.0 + 2e-6;
