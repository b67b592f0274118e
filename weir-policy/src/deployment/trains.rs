//! Which super-packets pass a direction whole.
//!
//! A train of frames that passes as one packet cannot be overtaken in its midst. So with `auto`
//! only such pass whole as take less than a millisecond at the rate of their class, guaranteed or,
//! where it has none, the line's. A meter's bucket counts frames: what it would police is cut.

use super::SuperPackets;
use crate::calculus;
use crate::policy::Policy;
use weir_core::units::Bytes;

/// Returns for each leaf the longest train, in bytes, that passes as one packet.
pub(super) fn of_policy(policy: &Policy, wanted: SuperPackets) -> Vec<u32> {
    let leaves = policy.link.tree.leaf_count();
    match wanted {
        SuperPackets::Cut => Vec::new(),
        // A bucket is as deep as frames need.
        _ if !policy.link.meters.is_empty() => Vec::new(),
        SuperPackets::Whole => vec![TRAIN_MAX; leaves],
        SuperPackets::Auto => {
            let line = policy.link.tree.rate().bits_per_second() as f64 / 8.0;
            let longest = |rate: f64| (rate * TIME_MAX_S).min(TRAIN_MAX.into()) as u32;
            if longest(line) < 2 * FRAME_USUAL {
                return Vec::new();
            }
            let rates = calculus::guaranteed(&policy.link, &policy.demands).into_iter();
            let longest = rates.map(|rate| longest(rate.unwrap_or(line)));
            longest.map(|bytes| if bytes < 2 * FRAME_USUAL { 0 } else { bytes }).collect()
        }
    }
}

/// Returns the policy with trains of up to these lengths as its longest packets.
pub(super) fn demanded(policy: &Policy, train_max: &[u32]) -> Policy {
    let mut policy = policy.clone();
    let framing = policy.link.framing;
    let added = |length: u32| u64::from(framing.wire_length(length).saturating_sub(length));
    let most = FRAMES_MAX * added(1).max(added(FRAME_USUAL));
    for (demand, length) in policy.demands.iter_mut().zip(train_max).filter(|row| *row.1 > 0) {
        demand.train = Some(Bytes::new(u64::from(*length) + most));
    }
    policy
}

/// Bound: bytes of a train; what is longer passes as several. No interface cuts more by default.
const TRAIN_MAX: u32 = 65_535;
/// Bound: frames of a train; those behind begin another.
pub const FRAMES_MAX: u64 = 64;
/// A frame of the usual MTU; with less than two there is no train.
const FRAME_USUAL: u32 = 1514;
/// How long the longest train may take.
const TIME_MAX_S: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rate: &str, voice: &str) -> Policy {
        let text = format!(
            "[link]\nrate = '{rate}'\nscheduler = 'drr'\n[class.voice]\n{voice}\n\
             match = [{{ dport = 5004 }}]\n[class.rest]\ndefault = true\n"
        );
        let outcome = crate::parse(&text, "policy.toml");
        outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
    }

    #[test]
    fn a_train_takes_less_than_a_millisecond_unless_all_pass_whole() {
        use SuperPackets::{Auto, Cut, Whole};
        let rows: [(&str, SuperPackets, &[u32]); 5] = [
            ("10 Gbit/s", Cut, &[]),
            ("10 Mbit/s", Whole, &[65_535; 2]),
            ("10 Gbit/s", Auto, &[65_535; 2]),
            // Half of the line for each of two equal classes, less what rounding up costs.
            ("200 Mbit/s", Auto, &[12_500; 2]),
            ("10 Mbit/s", Auto, &[]),
        ];
        for (rate, wanted, longest) in rows {
            assert_eq!(of_policy(&policy(rate, ""), wanted), longest, "{rate} {wanted:?}");
        }
        let policed = "police = { meter = 'tbmeter', rate = '1 Mbit/s', depth = '10 KB' }";
        assert_eq!(of_policy(&policy("10 Gbit/s", policed), Whole), [], "meters count frames");
    }

    #[test]
    fn a_bound_knows_the_longest_train() {
        let policy = policy("1 Gbit/s", "arrival = { rate = '1 Mbit/s', burst = '1 KB' }");
        let delay = |policy: &Policy| {
            let bounds = calculus::bounds(&policy.link, &policy.demands);
            bounds[0].delay.expect("it has a bound")
        };
        let whole = demanded(&policy, &[0, 65_535]);
        // The others' train takes 524 us of the line.
        let longer = delay(&whole) - delay(&policy);
        assert!((500e-6..1200e-6).contains(&longer), "{longer}");
        assert_eq!(delay(&demanded(&policy, &[])), delay(&policy));
    }
}
