//! A quantile over many flows in which no host and no peer counts for more than one flow.
//!
//! A queue in the modem delays all flows, a slow peer or a far server only its own: the quantile
//! lies below the middle. Invariant: with at most [`SHARE`] of the weight, hostile flows move the
//! result only between values of others.

use alloc::vec::Vec;

/// The values of a flow, with its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub host: u32,
    pub peer: u32,
    /// Up to [`WEIGHT_MAX`].
    pub weight: u32,
    /// A value for each question; [`NONE`] where the flow says nothing.
    pub values: [u64; QUESTIONS],
}

/// Bounds the weight of each host, and then of each peer, to that of one flow.
pub(crate) fn bound_weights(samples: &mut [Sample]) {
    bound_by(samples, |sample| sample.host);
    bound_by(samples, |sample| sample.peer);
}

fn bound_by(samples: &mut [Sample], key: fn(&Sample) -> u32) {
    samples.sort_unstable_by_key(key);
    for group in samples.chunk_by_mut(|one, other| key(one) == key(other)) {
        let sum: u32 = group.iter().map(|sample| sample.weight).sum();
        if sum > WEIGHT_MAX {
            let scaled = |weight: u32| (weight * WEIGHT_MAX).div_ceil(sum);
            group.iter_mut().for_each(|sample| sample.weight = scaled(sample.weight));
        }
    }
}

/// Returns the weight of the samples that answer a question.
pub(crate) fn weight(samples: &[Sample], question: usize) -> u32 {
    let told = samples.iter().filter(|sample| sample.values[question] != NONE);
    told.map(|sample| sample.weight).sum()
}

/// Returns the value below which `share` percent of the weight lies; `None` without any.
pub(crate) fn quantile(
    samples: &[Sample],
    question: usize,
    share: u32,
    order: &mut Vec<(u64, u32)>,
) -> Option<u64> {
    order.clear();
    let told = samples.iter().map(|sample| (sample.values[question], sample.weight));
    order.extend(told.filter(|(value, _)| *value != NONE));
    order.sort_unstable();
    let whole: u32 = order.iter().map(|(_, weight)| weight).sum();
    let mut below = 0;
    let found = order.iter().find(|(_, weight)| {
        below += weight;
        below * 100 > whole * share
    });
    found.or(order.last()).map(|(value, _)| *value)
}

/// The value of a flow that says nothing.
pub(crate) const NONE: u64 = u64::MAX;
/// The values: delay in both ways together, in each, round trip, the delay of both ways without
/// what is missed, losses in each.
pub(crate) const QUESTIONS: usize = 7;
/// The weight of a flow whose least delay is well known, and the most of a host or a peer.
pub(crate) const WEIGHT_MAX: u32 = 256;
/// The percentage of the weight below the result.
pub(crate) const SHARE: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(host: u32, peer: u32, value: u64) -> Sample {
        Sample { host, peer, weight: WEIGHT_MAX, values: [value; QUESTIONS] }
    }

    #[test]
    fn one_host_with_many_flows_counts_for_one() {
        let hostile = (0..200).map(|peer| sample(1, 100 + peer, 900));
        let mut samples: Vec<_> =
            hostile.chain((2..5).map(|host| sample(host, host, u64::from(host)))).collect();
        bound_weights(&mut samples);
        let found = quantile(&samples, 0, SHARE, &mut Vec::new());
        assert!(found.is_some_and(|value| value < 5), "{found:?}");
    }

    #[test]
    fn one_slow_peer_counts_for_one() {
        let slow = (0..50).map(|host| sample(100 + host, 1, 700));
        let mut samples: Vec<_> = slow.chain((2..5).map(|peer| sample(peer, peer, 10))).collect();
        bound_weights(&mut samples);
        assert_eq!(quantile(&samples, 0, SHARE, &mut Vec::new()), Some(10));
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(quantile(&[], 0, SHARE, &mut Vec::new()), None);
        assert_eq!(quantile(&[sample(1, 1, NONE)], 0, SHARE, &mut Vec::new()), None);
    }
}
