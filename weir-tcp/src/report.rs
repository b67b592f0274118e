//! Counters of a connection, and the limits of its sender; and a view like Linux's `tcp_info`.

use weir_core::units::{Duration, Instant};

/// Why data was sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Acknowledgements showed its loss.
    Loss,
    /// The retransmission timeout expired.
    Timeout,
    /// A probe for a lost tail [rfc8985 §7].
    Probe,
}

/// The state of congestion control (`TCP_CA_Open` and so on).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum CaState {
    /// No loss, mark or reordering is at hand.
    #[default]
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window shrinks because of a mark.
    Cwr,
    /// Fast recovery: lost segments are sent again.
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

/// Counters of a connection, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Connections that came to be open: 0 or 1 of one.
    pub established: u32,
    /// SYNs sent again, with acknowledgement or without.
    pub syns_again: u32,
    /// Segments with data sent, those sent again included.
    pub data_segments: u64,
    /// Segments with data or a FIN sent again as acknowledgements showed their loss.
    pub lost: u64,
    /// Segments sent again after a timeout.
    pub timed_out: u64,
    /// Segments sent again, or for the first time, to probe for a lost tail.
    pub probes: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u32,
    /// Timeouts and recoveries that proved to be needless and were undone.
    pub undone: u32,
    /// Segments that the other side reported to have come twice.
    pub duplicates: u64,
    /// Segments with data that came and were discarded, as their timestamp was older than that of
    /// one before [rfc7323 §5].
    pub too_old: u64,
    /// Reductions of the window because of marks.
    pub mark_reductions: u32,
    /// Congestion marks on packets received.
    pub marks_received: u64,
    /// Congestion marks that the other side reported.
    pub marks_echoed: u64,
    /// Bytes that the other side acknowledged.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub received: u64,
    /// How long each limit held the sender back.
    pub limits: Limits,
}

impl Report {
    /// Adds what another connection did.
    pub fn add(&mut self, other: &Report) {
        self.established += other.established;
        self.syns_again += other.syns_again;
        self.data_segments += other.data_segments;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.probes += other.probes;
        self.timeouts += other.timeouts;
        self.undone += other.undone;
        self.duplicates += other.duplicates;
        self.too_old += other.too_old;
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

/// The limit of the sender at the moment, and since when.
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
