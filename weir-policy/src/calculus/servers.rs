//! The server of each leaf, from what its scheduler guarantees. One function for each [`Service`].
//!
//! Each function is the argument of the source that it cites, for the worst case of that service.
//! The content of a queue at an instant is served as [`Server::standing`] says, arrivals under an
//! arrival curve as [`Server::fresh`]. Sums over all leaves are computed once, so the cost is
//! linear in the leaves.

use super::curves::{Slopes, overload};
use super::server::{Lost, Server, Serving};
use super::{Line, Traffic};
use std::collections::BTreeMap;
use weir_core::sched::Service;
use weir_core::sched::service::{Bucket, Curve, Rounds, Weighted};
use weir_core::units::{Duration, Rate};

/// Returns the server of each leaf; `None` where nothing is guaranteed.
pub(super) fn servers(service: &Service, line: &Line, traffic: &[Traffic]) -> Vec<Option<Server>> {
    match service {
        Service::Unknown => vec![None; traffic.len()],
        Service::Arrivals { shaper } => arrivals(*shaper, line, traffic),
        Service::Ranks(ranks) => by_rank(ranks, line, traffic),
        Service::Rounds(rounds) => in_rounds(rounds, line, traffic),
        Service::Fluid(leaves) => fluid(leaves, line),
        Service::Buckets(buckets) => by_bucket(&buckets.leaves, line),
        Service::Curves(curves) => by_curve(curves, line),
        Service::Deadline(patience) => deadline(*patience, line, traffic),
    }
}

fn bytes_per_second(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 8.0
}

/// All packets wait in one line: a packet waits for all that are in it. A leaf without an arrival
/// curve may fill its queue; one with a curve adds what arrives in the meantime.
fn arrivals(shaper: Option<Rate>, line: &Line, traffic: &[Traffic]) -> Vec<Option<Server>> {
    let rate = shaper.map_or(line.rate, |rate| bytes_per_second(rate).min(line.rate));
    let mut sums = (0.0, 0.0, 0.0);
    for leaf in traffic {
        match leaf.arrival {
            Some((burst, rate)) => (sums.0, sums.1) = (sums.0 + burst, sums.1 + rate),
            None => sums.2 += leaf.limit,
        }
    }
    let (bursts, rates, queues) = sums;
    // The tokens that the shaper may have spent before, and the packet on the line.
    let behind = line.packet / rate + if shaper.is_some() { line.time(line.packet) } else { 0.0 };
    let full = (rates < rate).then(|| (bursts + queues) / (rate - rates) + behind);
    let declared = (queues == 0.0 && rates <= rate).then(|| bursts / rate + behind);
    let delay = declared.or(full);
    let server = |leaf: &Traffic| {
        let own = leaf.arrival.map_or(0.0, |arrival| arrival.1);
        let left = if queues == 0.0 { rate - (rates - own) } else { own };
        let delay = delay?;
        let fixed = Serving::Fixed { rate: left, delay };
        Some(Server { fresh: fixed, standing: Some(fixed) })
    };
    traffic.iter().map(server).collect()
}

/// [algorithms §7] Higher ranks send first; a rank with an undeclared leaf may take all.
fn by_rank(ranks: &[u32], line: &Line, traffic: &[Traffic]) -> Vec<Option<Server>> {
    let mut sums: BTreeMap<u32, (f64, f64, u32)> = BTreeMap::new();
    for (rank, leaf) in ranks.iter().zip(traffic) {
        let (burst, rate) = leaf.arrival.unwrap_or((0.0, f64::INFINITY));
        let sum = sums.entry(*rank).or_default();
        *sum = (sum.0 + burst, sum.1 + rate, sum.2 + 1);
    }
    let mut above = (0.0, 0.0);
    let mut higher = BTreeMap::new();
    for (&rank, &(burst, rate, _)) in &sums {
        higher.insert(rank, above);
        above = (above.0 + burst, above.1 + rate);
    }
    let behind = longest_behind(ranks, traffic);
    let server = |(rank, leaf): (&u32, &Traffic)| {
        let ((bursts, rates), own) = (higher[rank], leaf.arrival.unwrap_or((0.0, 0.0)));
        let peers = sums[rank];
        let alone = peers.2 == 1;
        // Peers alternate packet by packet, which is no better than precedence if they declare
        // arrivals.
        let others = if alone { (0.0, 0.0) } else { (peers.0 - own.0, peers.1 - own.1) };
        let (bursts, rates) = (bursts + others.0, rates + others.1);
        let rate = line.rate - rates;
        if rate <= 0.0 || rate.is_nan() {
            return None;
        }
        // A packet of a later rank that is being sent; earlier ones of its own arrived with it.
        let late = (bursts + behind[rank]) / rate;
        // Others may have waited before, for no longer than one packet takes; that may be its own.
        let waited = (bursts + rates * line.time(line.packet)) / rate;
        let standing = (bursts + line.packet) / rate + waited;
        let fresh = Serving::Late { rate, late };
        Some(Server { fresh, standing: Some(Serving::Late { rate, late: standing }) })
    };
    ranks.iter().zip(traffic).map(server).collect()
}

/// Returns for each rank the longest packet of the ranks after it.
fn longest_behind(ranks: &[u32], traffic: &[Traffic]) -> BTreeMap<u32, f64> {
    let mut longest: BTreeMap<u32, f64> = BTreeMap::new();
    for (&rank, leaf) in ranks.iter().zip(traffic) {
        let packet = longest.entry(rank).or_default();
        *packet = packet.max(leaf.packet);
    }
    let mut behind = 0.0;
    for packet in longest.values_mut().rev() {
        let own = *packet;
        *packet = behind;
        behind = own.max(behind);
    }
    longest
}

/// [drr95 §4] One visit of each other leaf before each visit of this one; and once, a packet that
/// its deficit does not cover or that overdraws it.
fn in_rounds(rounds: &Rounds, line: &Line, traffic: &[Traffic]) -> Vec<Option<Server>> {
    // Where turns count packets, a visit of others has their longest, its own the shortest.
    let visit = |(&gain, leaf): (&u64, &Traffic)| {
        gain as f64 * if rounds.in_packets { leaf.packet } else { 1.0 }
    };
    let short = if rounds.in_packets { line.shortest } else { 1.0 };
    let slack = |leaf: &Traffic| if rounds.in_packets { 0.0 } else { leaf.packet };
    // A leaf that owes nothing after it was empty may overdraw each of its visits.
    let each = if rounds.overdraws && rounds.forgets { line.packet_time } else { 0.0 };
    let whole: f64 = rounds.gains.iter().zip(traffic).map(visit).sum();
    let slacks: f64 = traffic.iter().map(slack).sum();
    let count = rounds.gains.len() as f64 - 1.0;
    let server = |row: (&u64, &Traffic)| {
        let (&gain, traffic) = row;
        let others = (whole - visit(row)).max(0.0);
        let others = line.time(others) + count * each;
        // Also its own packet that is being sent when it joins the end of the round again.
        let late = line.time((slacks - slack(traffic)).max(0.0) + traffic.packet);
        let serving = Serving::Rounds {
            gain: gain as f64 * short,
            debt: if rounds.overdraws { traffic.packet } else { 0.0 },
            others,
            late,
            line: line.rate,
        };
        // This many packets take as many visits, however short they are.
        let counted = traffic.packets.filter(|_| rounds.in_packets).map(|packets| {
            let visits = (packets / gain as f64).ceil().max(1.0);
            let delay = late + visits * others + line.time(packets * traffic.packet);
            Serving::Fixed { rate: serving.rate(), delay }
        });
        Some(Server { fresh: serving, standing: counted.or(Some(serving)) })
    };
    rounds.gains.iter().zip(traffic).map(server).collect()
}

/// [parekh93 §IV] As in the fluid, plus a constant delay.
fn fluid(leaves: &[Weighted], line: &Line) -> Vec<Option<Server>> {
    let whole: f64 = leaves.iter().map(|leaf| leaf.weight as f64).sum();
    let server = |leaf: &Weighted| {
        let rate = line.rate * leaf.weight as f64 / whole;
        // All that was handed out ahead of the line may be its own.
        let ahead = leaf.ahead.get() as f64 + line.buffer * line.rate;
        let late = line.time(leaf.late.get() as f64);
        let standing = Serving::Late { rate, late: late + ahead / rate };
        Some(Server { fresh: Serving::Late { rate, late }, standing: Some(standing) })
    };
    leaves.iter().map(server).collect()
}

/// Sums over the leaves of one rank.
#[derive(Clone, Copy, Default)]
struct Rank {
    /// The bytes that they may send at once, with the packet that overdraws each burst.
    bursts: f64,
    rates: f64,
    /// The time of one visit of each; `None` if turns are unknown.
    turns: Option<f64>,
}

impl Rank {
    fn plus(self, other: Rank) -> Rank {
        Rank {
            bursts: self.bursts + other.bursts,
            rates: self.rates + other.rates,
            turns: self.turns.zip(other.turns).map(|(one, other)| one + other),
        }
    }

    fn of(bucket: &Bucket, line: &Line) -> Rank {
        Rank {
            bursts: bucket.burst.get() as f64 + line.packet,
            rates: bytes_per_second(bucket.rate),
            turns: bucket.turn.map(|turn| turn.get() as f64 + line.packet),
        }
    }
}

/// [algorithms §5.6] A leaf is either beyond its rate, and then was served, or within it, and then
/// only others within theirs precede it: their bursts first, or their turns if those are shorter.
fn by_bucket(buckets: &[Bucket], line: &Line) -> Vec<Option<Server>> {
    let zero = Rank { turns: Some(0.0), ..Rank::default() };
    let mut ranks: BTreeMap<u32, Rank> = BTreeMap::new();
    for bucket in buckets {
        let sum = ranks.entry(bucket.rank).or_insert(zero);
        *sum = sum.plus(Rank::of(bucket, line));
    }
    let mut above = zero;
    let mut higher = BTreeMap::new();
    for (&rank, &sum) in &ranks {
        higher.insert(rank, above);
        above = above.plus(sum);
    }
    let server = |bucket: &Bucket| {
        let own = Rank::of(bucket, line);
        let ranks = (higher[&bucket.rank], ranks[&bucket.rank]);
        let wait = wait(bucket, own, ranks, line)?;
        let serving = Serving::Bucket {
            rate: own.rates,
            debt: bucket.debt.get() as f64,
            wait,
            burst: bucket.saves.get() as f64,
            lost: lost(bucket, own, ranks, line),
        };
        Some(Server { fresh: serving, standing: Some(serving) })
    };
    buckets.iter().map(server).collect()
}

/// Returns how long a leaf within its rate waits at most, beyond the time at that rate.
fn wait(bucket: &Bucket, own: Rank, (higher, peers): (Rank, Rank), line: &Line) -> Option<f64> {
    let left = line.rate - higher.rates;
    let blind = left - (peers.rates - own.rates);
    // The packet on the line, possibly its own, cannot be recalled.
    let sending = line.packet;
    if blind < own.rates * (1.0 - 1e-9) {
        return None;
    }
    let bursts = (sending + higher.bursts + peers.bursts - own.bursts) / blind;
    let in_turn = peers.turns.zip(bucket.turn).and_then(|(turns, turn)| {
        let (turn, others) = (turn.get() as f64, turns - own.turns.unwrap_or(0.0));
        // The others' turns without the overdraft, which occurs once.
        let share = turn / (turn + others);
        let keeps_up = left * share >= own.rates;
        let first = (sending + higher.bursts + others) / left;
        keeps_up.then_some(first + line.packet / own.rates)
    });
    Some(in_turn.map_or(bursts, |in_turn| in_turn.min(bursts)))
}

/// Returns the time that a leaf loses in pauses longer than its burst lasts, if that is bounded.
///
/// While the leaf is within its rate only others within theirs precede it, but for one packet. The
/// longest such time takes all their bursts; the leaf then sends its burst and a packet, and loses
/// the rest. The others earn what they sent before that can happen again.
fn lost(bucket: &Bucket, own: Rank, (higher, peers): (Rank, Rank), line: &Line) -> Option<Lost> {
    let (rates, bursts) =
        (higher.rates + peers.rates - own.rates, higher.bursts + peers.bursts - own.bursts);
    let left = line.rate - rates;
    let burst = bucket.saves.get() as f64;
    let saved = burst + 2.0 * line.packet;
    // Else the packet on the line alone may cost a burst, at no cost to the others.
    if left <= 0.0 || burst * line.rate < own.rates * saved {
        return None;
    }
    let longest = (bursts + saved) / left;
    let each = (longest - burst / own.rates).max(0.0) / (bursts + rates * longest);
    Some(Lost { once: each * bursts, part: each * rates })
}

/// [stoica97 §IV] By the deadline plus one largest packet, if all curves fit.
fn by_curve(curves: &[Option<Curve>], line: &Line) -> Vec<Option<Server>> {
    let sum = curves.iter().flatten().map(|curve| Slopes::from(*curve));
    if overload(sum, Slopes::straight(line.rate)).is_some() {
        return vec![None; curves.len()];
    }
    let late = line.time(line.packet);
    let server = |curve: &Option<Curve>| {
        let Curve { m1, d, m2 } = (*curve)?;
        let (m1, m2) = (m1 as f64 / 8.0, bytes_per_second(m2));
        let d = d.as_nanos() as f64 / 1e9;
        let fresh = Serving::Curve { m1, d, m2, late };
        // The next bytes of a curve take longest where it is flattest; service ahead of the curve
        // is subtracted.
        let flat = if m1 < m2 { d } else { 0.0 };
        let standing = Serving::Late { rate: m2, late: late + flat + line.packet / m2 };
        Some(Server { fresh, standing: Some(standing) })
    };
    curves.iter().map(server).collect()
}

/// [nieminen §2.B] After this wait a packet of the first leaf precedes all others, except earlier
/// packets of its own leaf and the one being sent.
fn deadline(patience: Duration, line: &Line, traffic: &[Traffic]) -> Vec<Option<Server>> {
    let late = patience.as_nanos() as f64 / 1e9 + line.time(line.packet);
    let first = Serving::Late { rate: line.rate, late };
    let server = |(leaf, _)| (leaf == 0).then_some(Server { fresh: first, standing: Some(first) });
    traffic.iter().enumerate().map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::units::Bytes;

    /// A leaf of 3.5 Mbit/s and one of 6 Mbit/s that precedes it share 9.5 Mbit/s. The other, silent
    /// for a while, sends its burst and a packet, 15 140 B, so the first is within its rate for
    /// (15 140 + 6056 + 3028) / 437 500 = 55.369 ms, of which its burst covers 13.842 ms. Meanwhile
    /// the other sends 56 667 B, which it earns in 75.556 ms: 54.96 % of the time is lost.
    #[test]
    fn a_burst_that_is_too_short_is_lost_again_and_again() {
        let bucket = |rate, burst, rank| Bucket {
            rate: Rate::new(rate).expect("not zero"),
            burst: Bytes::new(burst),
            saves: Bytes::new(burst),
            debt: Bytes::new(1514),
            rank,
            turn: None,
        };
        let (packet, packet_time) = (1514.0, 1514.0 / 1_187_500.0);
        let line = Line { rate: 1_187_500.0, packet, packet_time, shortest: 34.0, buffer: 0.0 };
        let servers = by_bucket(&[bucket(3_500_000, 6056, 1), bucket(6_000_000, 13_626, 0)], &line);
        let rates: Vec<_> = servers.iter().flatten().map(|it| it.fresh.rate() * 8.0).collect();
        assert!((rates[0] / 3.5e6 - 0.4504).abs() < 1e-3, "{rates:?}");
        assert!((rates[1] / 6e6 - 1.0).abs() < 1e-6, "{rates:?}");
    }
}
