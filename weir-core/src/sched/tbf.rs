//! One token bucket over the whole link, packets in order of arrival [algorithms §5.8].
//!
//! The token bucket filter of Alexey Kuznetsov, in Linux `[linux]`: a packet goes when the bucket,
//! which fills at `rate` and holds `burst`, has its length in tokens, and with `peakrate` also a
//! second bucket of `mtu` bytes. Linux drops a packet longer than the bucket at its arrival. A
//! scheduler of Weir drops nothing, so here such a packet goes when the bucket is full and leaves
//! it in debt: nothing stalls, and the rate holds.
//!
//! Tokens are counted as the instant at which the bucket is full. In any time τ at most rate τ +
//! burst leave, or the longest packet if that is more than the burst. Invariant: a bucket is never
//! faster than its rate, and `full_at` is at most a burst and a packet after now.

use super::{
    Calls, Changes, Cost, Descriptor, Discipline, Explains, Head, Kin, Promises, Regulation,
    Scheduler, Service, Waiting,
};
use super::{Selection, Tree, Why};
use crate::ids::LeafId;
use crate::order::arrivals::Arrivals;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, FineInstant, Instant, Pace, Rate};
use alloc::vec::Vec;

/// One token bucket for all.
pub struct Tbf {
    arrivals: Arrivals,
    /// The charged length of the first packet of each leaf.
    heads: Vec<Bytes>,
    bucket: Bucket,
    peak: Option<Bucket>,
    /// The leaf that was selected, until something changes for it, and since when it had tokens.
    selected: Option<(LeafId, Instant)>,
}

/// Tokens, counted as the time until the bucket is full.
#[derive(Clone, Copy)]
struct Bucket {
    pace: Pace,
    depth: Bytes,
    full_at: FineInstant,
}

impl Discipline for Tbf {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "tbf",
        summary: "One token bucket for the whole link, packets in order of arrival.",
        parameters: PARAMETERS,
        sources: &["linux sch_tbf", "algorithms §5.8"],
        promises: Promises {
            work_conserving: false,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Constant,
        },
    };

    const CALLS: Calls = Calls { polls_empty_leaves: true, per_packet: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let params = tree.params();
        let rate = params.rate("rate").unwrap_or(tree.rate());
        let burst = params.bytes("burst").unwrap_or(rate.bytes_in(BURST_TIME).plus(tree.mtu()));
        let peak = params.rate("peakrate");
        if let Some(peak) = peak.filter(|&peak| peak < rate) {
            let message = alloc::format!(
                "peakrate {peak} is below the rate {rate}, which could never be reached; raise \
                 `peakrate` or lower `rate`"
            );
            return Err(BuildError::in_link("peakrate", message));
        }
        let mtu = params.bytes("mtu").unwrap_or(tree.mtu());
        Ok(Self {
            arrivals: Arrivals::new(tree.leaf_count()),
            heads: alloc::vec![Bytes::ZERO; tree.leaf_count()],
            bucket: Bucket::new(rate, burst),
            peak: peak.map(|peak| Bucket::new(peak, mtu)),
            selected: None,
        })
    }
}

impl Scheduler for Tbf {
    #[inline]
    fn enqueued(&mut self, _now: Instant, leaf: LeafId, head: Head) {
        self.arrivals.push(leaf);
        self.heads[leaf.index()] = head.length;
    }

    #[inline]
    fn joined(&mut self, _now: Instant, leaf: LeafId, _length: Bytes) {
        self.arrivals.push(leaf);
    }

    #[inline]
    fn select(&mut self, now: Instant) -> Selection {
        let Some(leaf) = self.arrivals.first() else { return Selection::Idle };
        let released = self.released(leaf);
        self.selected = Some((leaf, released));
        if released <= now { Selection::Leaf(leaf) } else { Selection::At(released) }
    }

    /// [linux sch_tbf] The next packet leaves its queue when the one before it is sent, and waits
    /// for tokens outside.
    #[inline]
    fn looks_at(&self) -> Option<LeafId> {
        self.selected.map(|row| row.0)
    }

    #[inline]
    fn charge(&mut self, now: Instant, leaf: LeafId, sent: Bytes, next: Option<Head>) {
        debug_assert!(self.selected.is_none_or(|row| row.0 == leaf), "the selected leaf sends");
        self.arrivals.pop();
        self.selected = None;
        self.heads[leaf.index()] = next.map_or(Bytes::ZERO, |head| head.length);
        self.bucket.charge(now, sent);
        if let Some(peak) = &mut self.peak {
            peak.charge(now, sent);
        }
    }

    fn head_changed(&mut self, _now: Instant, leaf: LeafId, head: Option<Head>) {
        self.arrivals.drop_from(leaf);
        self.selected = None;
        self.heads[leaf.index()] = head.map_or(Bytes::ZERO, |head| head.length);
    }
}

impl Explains for Tbf {
    #[inline]
    fn why(&self, _now: Instant, leaf: LeafId, from: Instant) -> Why {
        match self.selected {
            Some((selected, released)) if selected == leaf => held_until(released, from),
            _ => self.why_unselected(leaf, from),
        }
    }

    fn service(tree: &Tree) -> Service {
        let rate = tree.params().rate("rate").unwrap_or(tree.rate());
        Service::Arrivals { shaper: Some(rate) }
    }
}

impl Changes for Tbf {
    fn inherit(&mut self, _now: Instant, old: &Self, _kin: &Kin) {
        // The buckets belong to the link, whatever happened to its classes.
        self.bucket.take_over(&old.bucket);
        if let (Some(peak), Some(old)) = (&mut self.peak, &old.peak) {
            peak.take_over(old);
        }
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        let length = |head: Option<Head>| head.map_or(Bytes::ZERO, |head| head.length);
        self.arrivals.agrees(waiting.packets)
            && waiting.all(|leaf, head| self.heads[leaf] == length(head))
    }
}

impl Tbf {
    /// See [`Scheduler::why`]: of a packet that is dropped.
    #[cold]
    fn why_unselected(&self, leaf: LeafId, from: Instant) -> Why {
        held_until(self.released(leaf), from)
    }

    /// The instant from which on both buckets have tokens for the first packet of `leaf`.
    #[inline]
    fn released(&self, leaf: LeafId) -> Instant {
        let head = self.heads[leaf.index()];
        let peak = self.peak.map_or(FineInstant::ZERO, |peak| peak.conforms_at(head));
        self.bucket.conforms_at(head).max(peak).round_up()
    }
}

/// Why a packet waited that had tokens from `released` on.
#[inline]
fn held_until(released: Instant, from: Instant) -> Why {
    if released <= from {
        return Why::FREE;
    }
    Why { released, regulation: Regulation::Tokens, ..Why::FREE }
}

impl Bucket {
    /// Returns a full bucket.
    fn new(rate: Rate, depth: Bytes) -> Self {
        Self { pace: Pace::of(rate), depth, full_at: FineInstant::ZERO }
    }

    /// Returns the instant from which on there are tokens for `length`, or the bucket is full.
    #[inline]
    fn conforms_at(&self, length: Bytes) -> FineInstant {
        self.full_at.before(self.pace, self.depth.minus(length))
    }

    #[inline]
    fn charge(&mut self, now: Instant, length: Bytes) {
        // Full within this very nanosecond: its fraction counts, or a bucket of one packet would
        // lose up to a nanosecond with each.
        let full = self.full_at.round_up() < now;
        let start = if full { FineInstant::from_instant(now) } else { self.full_at };
        self.full_at = start.after(self.pace, length);
    }

    /// Takes over the tokens of another bucket as times: a debt of 5 ms stays a debt of 5 ms, and
    /// no credit exceeds the depth.
    fn take_over(&mut self, old: &Bucket) {
        let full_at = old.full_at.after(self.pace, self.depth);
        self.full_at = full_at.before(old.pace, old.depth);
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "rate",
        scope: Scope::Link,
        kind: Kind::Quantity(Dimension::Rate),
        default: Some("the rate of the link"),
        summary: "The rate of the link in the long run.",
    },
    Parameter {
        name: "burst",
        scope: Scope::Link,
        kind: Kind::Size(1, BURST_MAX),
        default: Some("4 ms of rate + the largest packet"),
        summary: "Bytes that may leave at once after a pause; a longer packet waits for all of it.",
    },
    Parameter {
        name: "peakrate",
        scope: Scope::Link,
        kind: Kind::Quantity(Dimension::Rate),
        default: Some("as fast as the line"),
        summary: "How fast a burst may leave; at least the rate.",
    },
    Parameter {
        name: "mtu",
        scope: Scope::Link,
        kind: Kind::Size(1, BURST_MAX),
        default: Some("the largest packet"),
        summary: "Bytes that may leave at once at the peak rate.",
    },
];

const BURST_TIME: Duration = Duration::from_millis(4);
/// A terabyte, as elsewhere; at 1 bit/s that is 2^103 units, which fit an instant.
const BURST_MAX: u64 = 1 << 40;

state!(Tbf { arrivals, heads, bucket, selected; some: peak });
state!(Bucket { full_at; kept: pace, depth });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::random::Random;
    use crate::sched::ClassSpec;
    use crate::units::Quantity;
    use alloc::collections::VecDeque;
    use alloc::string::{String, ToString};

    const M: u64 = 1_000_000;

    fn tree(params: Params, names: &[&str]) -> Tree {
        let class =
            |name: &&str| ClassSpec { name: name.to_string(), parent: None, params: Params::new() };
        let rate = Rate::new(1_000 * M).expect("not zero");
        let classes = names.iter().map(class).collect();
        Tree::new(rate, Bytes::new(1500), params, classes).expect("flat")
    }

    /// `rate` and `peakrate` in bit/s, `burst` and `mtu` in bytes; 0 is not written.
    fn params(rate: u64, burst: u64, peakrate: u64, mtu: u64) -> Params {
        let mut params = Params::new();
        for (name, bits) in [("rate", rate), ("peakrate", peakrate)] {
            if let Some(rate) = Rate::new(bits) {
                params = params.with(name, Quantity::Rate(rate));
            }
        }
        for (name, bytes) in [("burst", burst), ("mtu", mtu)] {
            if bytes > 0 {
                params = params.with(name, Quantity::Bytes(Bytes::new(bytes)));
            }
        }
        params
    }

    /// A letter and a length for each packet, all at 0: the letters and instants (µs) at which they
    /// leave, each with the instant since when `why` says it might have.
    fn check(params: Params, packets: &[(char, u64)], expected: &str) {
        let mut tbf = Tbf::build(&tree(params, &["a", "b"])).expect("builds");
        let mut waiting = [VecDeque::new(), VecDeque::new()];
        let head = |length| Head { length: Bytes::new(length), arrived: Instant::ZERO };
        for &(letter, length) in packets {
            let index = letter as usize - 'a' as usize;
            let leaf = LeafId(index as u32);
            match waiting[index].is_empty() {
                true => tbf.enqueued(Instant::ZERO, leaf, head(length)),
                false => tbf.joined(Instant::ZERO, leaf, Bytes::new(length)),
            }
            waiting[index].push_back(length);
        }
        let (mut now, mut words) = (Instant::ZERO, String::new());
        loop {
            match tbf.select(now) {
                Selection::Idle => break,
                Selection::At(at) => now = at,
                Selection::Leaf(leaf) => {
                    let why = tbf.why(now, leaf, Instant::ZERO);
                    let held = why.regulation == Regulation::Tokens;
                    assert_eq!(held, now > Instant::ZERO, "what was held was held by tokens");
                    assert_eq!(why.released, now, "nothing else holds a packet in front");
                    let length = waiting[leaf.index()].pop_front().expect("it waits");
                    let next = waiting[leaf.index()].front().map(|&length| head(length));
                    tbf.charge(now, leaf, Bytes::new(length), next);
                    let (letter, micros) = (char::from(b'a' + leaf.0 as u8), now.as_nanos() / 1000);
                    words += &alloc::format!("{letter}{micros} ");
                }
            }
        }
        assert_eq!(words.trim_end(), expected);
    }

    #[test]
    fn a_bucket_of_two_packets_lets_two_out_at_once() {
        // [algorithms §5.8]
        let packets =
            [('a', 1000), ('a', 1000), ('b', 1000), ('a', 1000), ('b', 1000), ('b', 1000)];
        check(params(M, 2000, 0, 0), &packets, "a0 a0 b8000 a16000 b24000 b32000");
    }

    #[test]
    fn a_packet_longer_than_the_bucket_waits_for_all_of_it_and_leaves_a_debt() {
        // Full at 0; a debt of 1000 bytes, which the next pays, which needs 500 more.
        let packets = [('a', 3000), ('b', 500), ('a', 3000), ('b', 100)];
        check(params(M, 2000, 0, 0), &packets, "a0 b12000 a28000 b36800");
    }

    #[test]
    fn a_burst_leaves_at_the_peak_rate() {
        // At 4 Mbit/s a packet takes 2 ms; what is earned meanwhile makes the burst longer.
        let packets = [('a', 1000); 6];
        check(params(M, 3000, 4 * M, 1000), &packets, "a0 a2000 a4000 a8000 a16000 a24000");
    }

    #[test]
    fn a_peak_below_the_rate_is_refused_with_the_cure() {
        let error = Tbf::build(&tree(params(2 * M, 0, M, 0), &["a"])).err().expect("refused");
        assert_eq!(error.parameter, Some("peakrate"));
        assert!(error.message.contains("peakrate 1 Mbit/s is below the rate 2 Mbit/s"), "{error}");
    }

    /// Checks departures against tokens counted in 10^-9 bit, to two nanoseconds.
    fn check_oracle(seed: u64) {
        let mut random = Random::new(seed, 0);
        let rate = 1 + u64::from(random.below(1_000_000_000));
        let burst = 1 + u64::from(random.below(5_000));
        let mut tbf = Tbf::build(&tree(params(rate, burst, 0, 0), &["a"])).expect("builds");
        let unit = 8_000_000_000i128;
        let cap = i128::from(burst) * unit;
        let (mut tokens, mut at) = (cap, 0u64);
        for _ in 0..200 {
            let length = u64::from(random.below(3_000));
            let head = Head { length: Bytes::new(length), arrived: Instant::from_nanos(at) };
            tbf.enqueued(head.arrived, LeafId(0), head);
            let short = (i128::from(length) * unit).min(cap) - tokens;
            let wait = (short.max(0) as u128).div_ceil(u128::from(rate)) as u64;
            let real = match tbf.select(head.arrived) {
                Selection::At(instant) => instant,
                _ => head.arrived,
            };
            assert!(real.as_nanos().abs_diff(at + wait) <= 2, "seed {seed}: {real:?} {at} {wait}");
            assert_eq!(tbf.select(real), Selection::Leaf(LeafId(0)));
            tbf.charge(real, LeafId(0), head.length, None);
            let pause = u64::from(random.below(20_000_000));
            let elapsed = real.as_nanos() - at;
            tokens = (tokens + i128::from(elapsed) * i128::from(rate)).min(cap);
            tokens -= i128::from(length) * unit;
            tokens = (tokens + i128::from(pause) * i128::from(rate)).min(cap);
            at = real.as_nanos() + pause;
        }
    }

    #[test]
    fn it_agrees_with_tokens_counted_one_by_one() {
        (0..500).for_each(check_oracle);
    }

    #[test]
    fn a_bucket_of_one_packet_loses_no_rate_at_400_gigabit() {
        let rate = 400_000 * M;
        let mut tbf = Tbf::build(&tree(params(rate, 64, 0, 0), &["a"])).expect("builds");
        let head = Head { length: Bytes::new(64), arrived: Instant::ZERO };
        tbf.enqueued(Instant::ZERO, LeafId(0), head);
        let mut now = Instant::ZERO;
        let mut sent = 0u64;
        while now < Instant::from_nanos(M) {
            match tbf.select(now) {
                Selection::At(at) => now = at,
                _ => {
                    tbf.joined(now, LeafId(0), head.length);
                    tbf.charge(now, LeafId(0), head.length, Some(head));
                    sent += 64 * 8;
                }
            }
        }
        let ideal = rate / 1000;
        assert!(sent.abs_diff(ideal) <= ideal / 100_000 + 1024, "{sent} of {ideal}");
    }

    #[test]
    fn a_change_forgives_no_debt_and_gives_no_burst() {
        // 3000 bytes used 2000 of burst and 8 ms more. The next rate, bucket, and its departure.
        for (rate, burst, micros) in [(M, 2000, 16_000), (2 * M, 2000, 12_000), (M, 9000, 16_000)] {
            let before = tree(params(M, 2000, 0, 0), &["a"]);
            let after = tree(params(rate, burst, 0, 0), &["b"]);
            let mut old = Tbf::build(&before).expect("builds");
            let head = |length| Head { length: Bytes::new(length), arrived: Instant::ZERO };
            old.enqueued(Instant::ZERO, LeafId(0), head(3000));
            old.charge(Instant::ZERO, LeafId(0), Bytes::new(3000), None);
            let mut new = Tbf::build(&after).expect("builds");
            new.inherit(Instant::ZERO, &old, &Kin::by_name(&before, &after));
            new.enqueued(Instant::ZERO, LeafId(0), head(1000));
            let at = Instant::from_nanos(micros * 1000);
            assert_eq!(new.select(Instant::ZERO), Selection::At(at), "{rate} {burst}");
        }
    }
}
