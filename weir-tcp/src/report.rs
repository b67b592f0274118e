//! What a connection did: counters, round trips, what limited it; and a view like Linux's
//! `tcp_info`.

use weir_core::units::{Duration, Instant};

/// Why data was sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Acknowledgements showed its loss.
    Loss,
    /// A timeout.
    Timeout,
    /// A probe for a lost tail [rfc8985 §7].
    Probe,
}

/// The state of congestion control (`TCP_CA_Open` and so on).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window shrinks because of a mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// How long something else than the path limited the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Nothing was there to send, while the connection was open.
    pub application: Duration,
    /// The receiver's window was full.
    pub receiver: Duration,
    /// The congestion window, pacing or the host's queue was full.
    pub congestion: Duration,
}

/// Round trips measured, in a histogram of four steps an octave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtts {
    counts: [u16; BUCKETS],
}

/// What a connection did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Segments with data sent, those sent again included.
    pub data_segments: u64,
    /// Segments sent again as acknowledgements showed their loss.
    pub lost: u64,
    /// Segments sent again after a timeout.
    pub timed_out: u64,
    /// Segments sent again, or for the first time, to probe for a lost tail.
    pub probes: u64,
    /// Timeouts.
    pub timeouts: u32,
    /// Timeouts and recoveries that proved to be needless and were undone.
    pub undone: u32,
    /// Segments that the other side reported to have come twice.
    pub duplicates: u64,
    /// Reductions of the window because of marks.
    pub mark_reductions: u32,
    /// Congestion marks on packets received.
    pub marks_received: u64,
    /// Congestion marks that the other side reported.
    pub marks_echoed: u64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub received: u64,
    /// What limited the sender.
    pub limits: Limits,
    /// Round trips.
    pub rtts: Rtts,
}

impl Report {
    /// Adds what another connection did, but its round trips.
    pub fn add(&mut self, other: &Report) {
        self.data_segments += other.data_segments;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.probes += other.probes;
        self.timeouts += other.timeouts;
        self.undone += other.undone;
        self.duplicates += other.duplicates;
        self.mark_reductions += other.mark_reductions;
        self.marks_received += other.marks_received;
        self.marks_echoed += other.marks_echoed;
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        let (sum, more) = (&mut self.limits, &other.limits);
        sum.application = sum.application.plus(more.application);
        sum.receiver = sum.receiver.plus(more.receiver);
        sum.congestion = sum.congestion.plus(more.congestion);
    }

    /// Returns the segments sent again, for any cause.
    pub const fn retransmitted(&self) -> u64 {
        self.lost + self.timed_out + self.probes
    }
}

/// A view like Linux's `tcp_info`, in its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// `tcpi_ca_state`.
    pub ca_state: CaState,
    /// `tcpi_retransmits`: timeouts in a row.
    pub retransmits: u8,
    /// `tcpi_probes`: probes of a zero window in a row.
    pub probes: u8,
    /// `tcpi_backoff`.
    pub backoff: u8,
    /// `tcpi_rto`.
    pub rto: Duration,
    /// `tcpi_snd_mss`.
    pub snd_mss: u32,
    /// `tcpi_unacked`, in segments.
    pub unacked: u32,
    /// `tcpi_sacked`, in segments.
    pub sacked: u32,
    /// `tcpi_lost`, in segments.
    pub lost: u32,
    /// `tcpi_retrans`, in segments.
    pub retrans: u32,
    /// `tcpi_rtt`: the smoothed round trip.
    pub srtt: Duration,
    /// `tcpi_rttvar`: its mean deviation.
    pub rttvar: Duration,
    /// `tcpi_min_rtt`.
    pub min_rtt: Duration,
    /// `tcpi_snd_ssthresh`, in segments; `0x7fffffff` before the first loss.
    pub snd_ssthresh: u32,
    /// `tcpi_snd_cwnd`, in segments.
    pub snd_cwnd: u32,
    /// `tcpi_reordering`.
    pub reordering: u32,
    /// `tcpi_reord_seen`.
    pub reord_seen: u32,
    /// `tcpi_total_retrans`.
    pub total_retrans: u64,
    /// `tcpi_rcv_space`: the window offered.
    pub rcv_wnd: u32,
    /// `tcpi_snd_wnd`: the window of the other side.
    pub snd_wnd: u32,
    /// `tcpi_delivered`, in segments.
    pub delivered: u64,
    /// `tcpi_delivered_ce`, in segments.
    pub delivered_ce: u64,
    /// `tcpi_delivered_e0_bytes`: bytes that the other side reports to have come as ECT(0).
    pub delivered_e0_bytes: u32,
    /// `tcpi_delivered_ce_bytes`: those that came marked.
    pub delivered_ce_bytes: u32,
    /// `tcpi_delivered_e1_bytes`: those that came as ECT(1).
    pub delivered_e1_bytes: u32,
    /// `tcpi_pacing_rate`, in bytes a second.
    pub pacing_rate: u64,
    /// `tcpi_notsent_bytes`.
    pub notsent: u64,
}

impl Rtts {
    /// Counts a round trip. When a bucket is full, all are halved, which keeps the quantiles.
    pub(crate) fn count(&mut self, rtt: Duration) {
        let bucket = &mut self.counts[bucket(rtt.as_nanos())];
        *bucket += 1;
        if *bucket == u16::MAX {
            for count in &mut self.counts {
                *count /= 2;
            }
        }
    }

    /// Returns the round trips, each as the middle of its bucket, and how often it was measured.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u16)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|row| *row.1 > 0);
        counted.map(|(bucket, count)| {
            let width = 1 << (FIRST_OCTAVE + bucket as u32 / 4 - 2);
            (Duration::from_nanos(upper(bucket) - width / 2), *count)
        })
    }

    /// Returns the round trip that `thousandths` of all did not exceed, to a fifth; `None` without
    /// any.
    pub fn quantile(&self, thousandths: u32) -> Option<Duration> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = (total * u64::from(thousandths)).div_ceil(1000).max(1);
        let mut sum = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            sum += u64::from(*count);
            if sum >= wanted {
                return Some(Duration::from_nanos(upper(bucket)));
            }
        }
        None
    }
}

impl Default for Rtts {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

/// Returns the bucket of this many nanoseconds: the octave and the two bits after the first.
fn bucket(nanos: u64) -> usize {
    let octave = (nanos | 1).ilog2().max(FIRST_OCTAVE);
    let step = nanos >> (octave - 2) & 3;
    (((octave - FIRST_OCTAVE) as usize) * 4 + step as usize).min(BUCKETS - 1)
}

/// Returns the end of a bucket in nanoseconds.
const fn upper(bucket: usize) -> u64 {
    let octave = FIRST_OCTAVE + bucket as u32 / 4;
    ((bucket as u64 % 4) + 5) << (octave - 2)
}

/// Round trips below 2^13 ns, 8 µs, share buckets with it.
const FIRST_OCTAVE: u32 = 13;
/// Up to 2^33 ns, 8.6 s.
const BUCKETS: usize = 80;

/// What limits the sender at the moment, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    pub cause: Limit,
    pub since: Instant,
}

/// A cause for which nothing more is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    Closed,
    Application,
    Receiver,
    Congestion,
}

impl Limiter {
    /// Charges the time since the last change, and notes the cause from now on.
    pub fn change(&mut self, now: Instant, cause: Limit, limits: &mut Limits) {
        let spent = now.since(self.since);
        let place = match self.cause {
            Limit::Closed => None,
            Limit::Application => Some(&mut limits.application),
            Limit::Receiver => Some(&mut limits.receiver),
            Limit::Congestion => Some(&mut limits.congestion),
        };
        if let Some(place) = place {
            *place = place.plus(spent);
        }
        (self.cause, self.since) = (cause, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_fifth() {
        let mut rtts = Rtts::default();
        assert_eq!(rtts.quantile(500), None);
        for millis in 1..=100_000 {
            rtts.count(Duration::from_micros(millis));
        }
        for (thousandths, micros) in [(100, 10_000), (500, 50_000), (990, 99_000)] {
            let found = rtts.quantile(thousandths).expect("counted").as_nanos() / 1000;
            assert!((micros * 9 / 10..micros * 5 / 4).contains(&found), "{thousandths}: {found}");
        }
    }
}
