//! Congestion control: when the window grows, by how much it shrinks, and how fast segments leave.
//!
//! One algorithm a file and one line in the registry below. A controller sees [`Sample`]s and
//! changes a [`CongestionWindow`]; it holds no segment and does not decide what is lost. Those that
//! set the window at every acknowledgement (BBR) say so by `controls`, as `cong_control` does in
//! Linux.

use crate::config::Config;
use crate::report::CaState;
use alloc::boxed::Box;
use weir_core::units::{Duration, Instant};

mod bbr;
mod cubic;
mod dctcp;
mod none;
mod prague;
mod reno;

/// The slow-start threshold before the first loss (`TCP_INFINITE_SSTHRESH`).
pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// The congestion window, in segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionWindow {
    /// The segments that may be on the way.
    pub segments: u32,
    /// Segments acknowledged for the next segment of growth (`snd_cwnd_cnt`).
    pub count: u32,
    /// Below it is slow start.
    pub ssthresh: u32,
    /// The window before the last reduction.
    pub prior: u32,
    /// Bytes of a segment.
    pub mss: u32,
    /// Whether the window was filled lately (`tcp_is_cwnd_limited`).
    pub filled: bool,
    /// The growth of slow start for one acknowledgement at most, in segments.
    pub growth_max: u32,
    /// Bytes a second at which segments leave; 0 without a limit.
    pub pacing_rate: u64,
    /// Whether segments are paced.
    pub paced: bool,
}

/// The measurements that an acknowledgement gives (`struct rate_sample` and `struct ack_sample`).
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// The first position not acknowledged.
    pub una: u64,
    /// The next position to be sent.
    pub next: u64,
    /// The round trip of the newest segment that was acknowledged.
    pub rtt: Option<Duration>,
    /// The smoothed round trip.
    pub smoothed: Option<Duration>,
    /// The least recent round trip.
    pub rtt_min: Option<Duration>,
    /// Segments newly known to have arrived.
    pub acked: u32,
    /// Of these, segments that came with a congestion mark.
    pub marked: u32,
    /// Segments newly considered lost.
    pub lost: u32,
    /// All segments delivered so far.
    pub delivered: u64,
    /// All segments considered lost so far.
    pub lost_total: u64,
    /// Segments delivered in `interval`; 0 without a rate.
    pub rate_delivered: u64,
    /// The longer one of the intervals of sending and of acknowledging them.
    pub interval: Duration,
    /// The segments that were delivered when the newest acknowledged one was sent.
    pub prior_delivered: u64,
    /// The segments that were considered lost when it was sent.
    pub prior_lost: u64,
    /// The segments that were on the way when it was sent.
    pub sent_in_flight: u32,
    /// Segments on the way before this acknowledgement.
    pub prior_in_flight: u32,
    /// Segments on the way now.
    pub in_flight: u32,
    /// Whether the application limited the sender when it was sent.
    pub app_limited: bool,
    /// The state of congestion control.
    pub state: CaState,
}

/// The rules by which one connection changes its window.
pub trait CongestionControl {
    /// Returns the new slow-start threshold: the window is to be reduced because of a loss or mark.
    fn ssthresh(&mut self, window: &CongestionWindow, now: Instant) -> u32;

    /// Lets the window grow for `acked` segments, outside of reductions.
    fn on_ack(&mut self, window: &mut CongestionWindow, sample: &Sample, acked: u32);

    /// Sees each acknowledgement, before the window changes.
    fn on_sample(&mut self, _window: &mut CongestionWindow, _sample: &Sample) {}

    /// Whether `on_sample` sets the window and the pacing rate.
    fn controls(&self) -> bool {
        false
    }

    /// Fast recovery from a loss began.
    fn on_recovery(&mut self, _window: &mut CongestionWindow) {}

    /// The retransmission timeout expired.
    fn on_timeout(&mut self, _window: &mut CongestionWindow) {}

    /// A segment is sent after nothing was on the way since `idle_since`.
    fn on_restart(&mut self, _now: Instant, _idle_since: Instant) {}

    /// Returns the window after a reduction that proved to be needless.
    fn undo(&mut self, window: &CongestionWindow) -> u32 {
        window.segments.max(window.prior)
    }

    /// Returns whether segments are paced whatever the configuration says.
    fn needs_pacing(&self) -> bool {
        false
    }

    /// Whether marks are echoed one by one, as [rfc8257 §3.2] and L4S need.
    fn exact_marks(&self) -> bool {
        false
    }

    /// Returns whether packets are sent with ECT(1) [rfc9331 §4.1].
    fn is_l4s(&self) -> bool {
        false
    }
}

/// Declares the registry: an enum of the controllers and the calls to them.
macro_rules! controllers {
    ($($name:ident => $module:ident :: $type:ident,)*) => {
        /// A controller of a connection; the large ones are boxed.
        #[derive(Debug)]
        pub(crate) enum Controller {
            $(
                #[doc = concat!("`", stringify!($module), "`.")]
                $name(Box<$module::$type>),
            )*
        }

        impl Controller {
            /// Returns the controller that the configuration names.
            pub fn new(config: &Config) -> Self {
                match config.congestion {
                    $(crate::config::Congestion::$name =>
                        Controller::$name(Box::new($module::$type::new(config))),)*
                }
            }

            /// Returns it as a trait object.
            pub fn as_mut(&mut self) -> &mut dyn CongestionControl {
                match self { $(Controller::$name(controller) => &mut **controller,)* }
            }

            /// Returns it as a trait object that cannot change.
            pub fn as_ref(&self) -> &dyn CongestionControl {
                match self { $(Controller::$name(controller) => &**controller,)* }
            }
        }
    };
}

controllers! {
    None => none::None,
    Reno => reno::Reno,
    Cubic => cubic::Cubic,
    Bbr => bbr::Bbr,
    Dctcp => dctcp::Dctcp,
    Prague => prague::Prague,
}

impl CongestionWindow {
    /// Returns whether the window is below the threshold.
    pub const fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Grows by slow start; returns the segments acknowledged that remain (`tcp_slow_start`).
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let growth = acked.min(self.growth_max).min(self.ssthresh.saturating_sub(self.segments));
        self.segments += growth;
        if self.in_slow_start() { 0 } else { acked - growth.min(acked) }
    }

    /// Grows by a segment for `per` segments acknowledged (`tcp_cong_avoid_ai`).
    pub fn avoid(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.count >= per {
            self.count = 0;
            self.segments += 1;
        }
        self.count += acked;
        if self.count >= per {
            self.segments = self.segments.saturating_add(self.count / per);
            self.count %= per;
        }
        self.segments = self.segments.min(WINDOW_MAX);
    }
}

/// No window is larger, in segments (`snd_cwnd_clamp` is as large).
const WINDOW_MAX: u32 = 1 << 30;
