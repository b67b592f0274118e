//! The configuration of an endpoint: a table of named values, no constant elsewhere.
//!
//! `profile.rs` has the tables. A field's comment names Linux's sysctl or constant where there is
//! one.

use weir_core::units::{Bytes, Duration};

/// Everything that an endpoint may do differently.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The largest IP packet.
    pub mtu: u16,
    /// The bytes of an IP header: 20 for IPv4, 40 for IPv6.
    pub ip_header: u16,
    /// The maximum segment size that the SYN announces; without it, what the MTU leaves.
    pub mss: Option<u16>,
    /// Whether selective acknowledgements are offered [rfc2018] (`tcp_sack`).
    pub sack: bool,
    /// Whether duplicates are reported [rfc2883] (`tcp_dsack`).
    pub dsack: bool,
    /// Whether timestamps are offered [rfc7323 §3] (`tcp_timestamps`).
    pub timestamps: bool,
    /// The shift of the windows announced [rfc7323 §2]; without it, windows are not scaled.
    pub window_scale: Option<u8>,
    /// The receiver's and the sender's buffers.
    pub buffers: BufferPolicy,
    /// The congestion window of a new connection (`TCP_INIT_CWND`).
    pub initial_window: InitialWindow,
    /// By how much an acknowledgement lets the window grow in slow start.
    pub slow_start: SlowStart,
    /// The congestion controller (`tcp_congestion_control`).
    pub congestion: Congestion,
    /// The constants and variants of CUBIC.
    pub cubic: Cubic,
    /// Whether congestion is notified by marks (`tcp_ecn`).
    pub ecn: EcnMode,
    /// When accurate ECN's option is sent (`tcp_ecn_option`).
    pub accurate_option: AccurateOption,
    /// Whether a path that changes the marks of a handshake ends their use (`tcp_ecn_fallback`).
    pub ecn_fallback: bool,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// The bounds and the computation of the retransmission timeout.
    pub rto: RtoPolicy,
    /// How often something is sent again.
    pub retries: Retries,
    /// When data is acknowledged.
    pub acks: AckPolicy,
    /// How fast and in which bursts segments leave.
    pub limits: RateLimits,
    /// Whether small segments wait for an acknowledgement [rfc9293 §3.7.4].
    pub nagle: bool,
    /// Whether the window shrinks when nothing was sent for a timeout [rfc5681 §4.1]
    /// (`tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// Whether the window grows only if it was filled (`tcp_is_cwnd_limited`; compare
    /// [rfc7661]).
    pub window_validation: bool,
    /// How long a closed connection waits for old segments (`TCP_TIMEWAIT_LEN`).
    pub time_wait: Duration,
}

/// The buffers of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct BufferPolicy {
    /// The window of a new connection (half of `tcp_rmem[1]`, as Linux counts overhead).
    pub receive: Bytes,
    /// The largest window (half of `tcp_rmem[2]`).
    pub receive_max: Bytes,
    /// Whether the window grows from the one to the other as the application reads
    /// (`tcp_moderate_rcvbuf`).
    pub autotuning: bool,
    /// The bytes that the application may write ahead of acknowledgements (`tcp_wmem[2]`).
    pub send: Bytes,
}

/// The congestion window of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// This many segments; at least one.
    Segments(u32),
    /// This many bytes, rounded up to segments.
    Bytes(Bytes),
    /// The segments in 14600 bytes, at least two and at most ten [rfc6928 §2].
    Rfc6928,
    /// Two to four segments by their size [rfc5681 §3.1].
    Rfc5681,
}

/// By how much an acknowledgement lets the congestion window grow in slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowStart {
    /// By the segments that it acknowledges; with a limit as in [rfc3465 §2.2], at most so many.
    Bytes {
        /// The segments of growth at most; Linux has no limit.
        limit: Option<u32>,
    },
    /// By one segment.
    Acks,
}

/// The rules by which the window changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// The receiver's window alone limits the sender.
    None,
    /// Reno, with the increments of [rfc5681].
    Reno,
    /// CUBIC [rfc9438].
    Cubic,
    /// BBR version 3 [bbr3].
    Bbr,
    /// DCTCP [rfc8257].
    Dctcp,
    /// Prague, for L4S [prague].
    Prague,
}

/// The points in which implementations of CUBIC differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Cubic {
    /// The part of the window that remains after a loss, in 1024ths (Linux: 717).
    pub beta_1024: u32,
    /// The constant C in 1024ths of a segment per s³ (Linux: 410).
    pub c_1024: u32,
    /// Whether a flow that lost before it reached its old window gives way [rfc9438 §4.7].
    pub fast_convergence: bool,
    /// Whether the window grows at least as Reno's would [rfc9438 §4.3] (`tcp_friendliness`).
    pub friendly: bool,
    /// How long a computed growth is used while the window stays (Linux: HZ/32).
    pub refresh: Duration,
    /// The least segments acknowledged for one of growth, so that the window grows at most by half
    /// in a round trip (Linux: 2).
    pub count_min: u32,
    /// As many at most before the first loss (Linux: 20; the RFC has no such rule).
    pub count_unknown: Option<u32>,
    /// When slow start ends before a loss.
    pub hystart: Option<HyStart>,
}

/// When slow start ends before a loss (`hystart_update`).
#[derive(Clone, PartialEq, Debug)]
pub struct HyStart {
    /// The least window, in segments (`hystart_low_window`).
    pub window_min: u32,
    /// Whether a long train of acknowledgements ends it (`hystart_detect` & 1).
    pub train: bool,
    /// Whether a delay ends it (`hystart_detect` & 2).
    pub delay: bool,
    /// The gap between acknowledgements of a train (`hystart_ack_delta_us`).
    pub gap_max: Duration,
    /// The samples of a round before its delay counts (`HYSTART_MIN_SAMPLES`).
    pub samples_min: u32,
    /// The least delay that counts (`HYSTART_DELAY_MIN`).
    pub delay_min: Duration,
    /// The delay that always counts (`HYSTART_DELAY_MAX`).
    pub delay_max: Duration,
}

/// Whether congestion is notified by marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// It is neither asked for nor granted (`tcp_ecn` = 0).
    Off,
    /// It is granted [rfc3168] but not asked for (`tcp_ecn` = 2).
    Passive,
    /// It is asked for and granted [rfc3168] (`tcp_ecn` = 1).
    Active,
    /// Accurate ECN is asked for and granted [rfc9768] (`tcp_ecn` = 3).
    Accurate,
    /// Accurate ECN is granted, and classic ECN is asked for (`tcp_ecn` = 4).
    AccurateClassic,
    /// Accurate ECN is granted, but nothing is asked for (`tcp_ecn` = 5).
    AccuratePassive,
}

/// When accurate ECN's option is sent, after the other side sent one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccurateOption {
    /// The option is never sent.
    Off,
    /// When counters have changed.
    Demanded,
    /// The option is in every segment.
    #[default]
    Full,
}

/// How losses are found and repaired.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovery {
    /// Whether losses are found by time [rfc8985] (`tcp_recovery` & 1).
    pub rack: bool,
    /// Whether duplicates widen RACK's reordering window (not `tcp_recovery` & 2).
    pub rack_adapts: bool,
    /// Whether that window is zero after the threshold of duplicates (not `tcp_recovery` & 4).
    pub rack_threshold: bool,
    /// RACK's recoveries that a widened window lasts (`TCP_RACK_RECOVERY_THRESH`).
    pub rack_persist: u8,
    /// Whether a lost tail is probed for [rfc8985 §7] (`tcp_early_retrans`).
    pub tail_probe: bool,
    /// Whether the window shrinks in proportion [rfc6937] (`tcp_cwnd_reduction`).
    pub prr: bool,
    /// Whether PRR sends a segment more after a safe acknowledgement [rfc9937] (Linux since 5.13
    /// with `FLAG_SND_UNA_ADVANCED`).
    pub prr_safe_ack: bool,
    /// Whether a timeout may prove to be spurious [rfc5682] (`tcp_frto`).
    pub frto: bool,
    /// Whether a reduction is undone when the repair proves to be needless [rfc4015].
    pub undo: bool,
    /// The duplicate acknowledgements that prove a loss (`tcp_reordering`).
    pub duplicates: u32,
    /// The largest value to which reordering raises that (`tcp_max_reordering`).
    pub duplicates_max: u32,
    /// Whether the first duplicate acknowledgements let new segments leave [rfc3042].
    pub limited_transmit: bool,
    /// Whether partial acknowledgements keep up a recovery without SACK [rfc6582].
    pub partial_acks: bool,
    /// Whether fast recovery exists; without it, a fast retransmission starts slow start (Tahoe).
    pub fast_recovery: bool,
}

/// The bounds and the computation of the retransmission timeout.
#[derive(Clone, PartialEq, Debug)]
pub struct RtoPolicy {
    /// Before the first measurement (`TCP_TIMEOUT_INIT`).
    pub initial: Duration,
    /// The least value (`TCP_RTO_MIN`).
    pub min: Duration,
    /// The largest value (`TCP_RTO_MAX`).
    pub max: Duration,
    /// Whether `min` bounds the deviation, as Linux does, instead of the whole timeout
    /// [rfc6298 §2.4].
    pub min_bounds_deviation: bool,
    /// Added to timeouts of RACK and of probes (`TCP_TIMEOUT_MIN`).
    pub margin: Duration,
    /// The multiple to which the sender's waits are rounded up (`1 / HZ`); zero leaves them as they
    /// are.
    pub tick: Duration,
    /// For how long the least round trip is remembered (`tcp_min_rtt_wlen`).
    pub min_rtt_window: Duration,
}

/// How often something is sent again before the connection ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Retries {
    /// A SYN (`tcp_syn_retries`); of each of these 255 is no limit.
    pub syn: u8,
    /// SYNs that are sent again before the timeout doubles (`tcp_syn_linear_timeouts`).
    pub syn_linear: u8,
    /// A SYN with its acknowledgement (`tcp_synack_retries`).
    pub syn_ack: u8,
    /// Data, and probes of a zero window (`tcp_retries2`).
    pub data: u8,
}

/// When data is acknowledged.
#[derive(Clone, PartialEq, Debug)]
pub struct AckPolicy {
    /// How long an acknowledgement waits at first; `None`: never (`TCP_ATO_MIN`).
    pub delay: Option<Duration>,
    /// How long it waits at most (`TCP_DELACK_MAX`).
    pub delay_max: Duration,
    /// Whether the wait follows the intervals of arrivals, as Linux's does.
    pub adaptive: bool,
    /// Segments of a new connection that are acknowledged one by one (`TCP_MAX_QUICKACKS`), at most
    /// as many as half a window has.
    pub quick: u32,
    /// More than this number of segments not acknowledged ends the wait; Linux: one.
    pub segments: u32,
    /// Whether acknowledgements of a long gap are thinned out.
    pub compression: Option<SackCompression>,
}

/// How acknowledgements with many selective ones are thinned out (`__tcp_ack_snd_check`).
#[derive(Clone, PartialEq, Debug)]
pub struct SackCompression {
    /// The longest wait (`tcp_comp_sack_delay_ns`), also bounded by a twentieth of the round trip.
    pub delay_max: Duration,
    /// As many are held back (`tcp_comp_sack_nr`).
    pub count: u8,
}

/// How fast and in which bursts segments leave.
#[derive(Clone, PartialEq, Debug)]
pub struct RateLimits {
    /// Whether segments are spread over the round trip (`sch_fq`, or a controller that needs it).
    pub pacing: bool,
    /// The pacing rate in slow start, in hundredths of window per round trip
    /// (`tcp_pacing_ss_ratio`).
    pub pacing_slow_start: u32,
    /// The rate of pacing in congestion avoidance, in the same unit (`tcp_pacing_ca_ratio`).
    pub pacing_avoidance: u32,
    /// The segments that leave as one at most; 1 without segmentation offload.
    pub burst: u32,
    /// The least segments of a burst (`tcp_min_tso_segs`).
    pub burst_min: u32,
    /// Bytes that may wait in the host's queue (`tcp_limit_output_bytes`); the driver then reports
    /// departures.
    pub small_queue: Option<Bytes>,
}

impl Config {
    /// Returns the MSS option of a SYN.
    pub fn announced_mss(&self) -> u16 {
        let headers = self.ip_header.saturating_add(20);
        self.mss.unwrap_or(self.mtu.saturating_sub(headers)).max(MSS_MIN)
    }
}

impl InitialWindow {
    /// Returns the segments of a new connection's window.
    pub fn segments(self, mss: u32) -> u32 {
        let mss = mss.max(1);
        match self {
            InitialWindow::Segments(segments) => segments.max(1),
            InitialWindow::Bytes(bytes) => {
                bytes.get().div_ceil(u64::from(mss)).clamp(1, 1 << 20) as u32
            }
            InitialWindow::Rfc6928 => (14_600 / mss).clamp(2, 10),
            InitialWindow::Rfc5681 => match mss {
                ..=1095 => 4,
                1096..=2190 => 3,
                _ => 2,
            },
        }
    }
}

/// The least segment that is believed (`TCP_MIN_MSS`).
pub(crate) const MSS_MIN: u16 = 88;
