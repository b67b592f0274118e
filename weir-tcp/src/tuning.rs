//! The receiver's window: how much is offered, and how the buffer grows with what is read.
//!
//! Linux's `__tcp_select_window`, `tcp_grow_window` and dynamic right-sizing
//! (`tcp_rcv_space_adjust`): in a round trip the application reads so much, so twice that is
//! offered. Invariant: the right edge of the window never moves back [rfc9293 §3.8.6].

use crate::config::Config;
use crate::receiver::Receiver;
use crate::segment::Segment;
use weir_core::units::{Duration, Instant};

/// The state of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The buffer, without overhead (`window_clamp`).
    pub clamp: u64,
    /// The most that is offered for now (`rcv_ssthresh`).
    pub threshold: u64,
    /// The bytes that the application read in the last round trip.
    space: u64,
    measured_from: u64,
    measured_at: Instant,
    /// Eight times the round trip as the receiver sees it, in ns.
    rtt_8: u64,
    window_rtt_end: u64,
    window_rtt_at: Option<Instant>,
    /// The sender's smoothed round trip and timeout, for waits.
    pub smoothed: Duration,
    pub timeout: Duration,
}

impl Tuning {
    pub fn new(config: &Config) -> Self {
        let initial = config.buffers.receive.get();
        Self {
            clamp: initial,
            threshold: initial,
            space: initial.min(10 * u64::from(config.announced_mss())).max(1),
            measured_from: 1,
            measured_at: Instant::ZERO,
            rtt_8: 0,
            window_rtt_end: 0,
            window_rtt_at: None,
            smoothed: Duration::ZERO,
            timeout: config.rto.initial,
        }
    }

    /// Returns the round trip for thinning acknowledgements out.
    pub fn rtt(&self) -> Duration {
        let own = Duration::from_nanos(self.rtt_8 / 8);
        if self.smoothed == Duration::ZERO { own } else { own.min(self.smoothed) }
    }
}

impl Receiver {
    /// Returns the window field of a segment sent now (`tcp_select_window`).
    pub fn select_window(&mut self) -> u16 {
        let offered = self.window_offered();
        let window = self.window_available().max(offered);
        self.window = window;
        self.window_from = self.next;
        (window >> self.scale).min(0xffff) as u16
    }

    /// Returns what remains of the window offered last (`tcp_receive_window`).
    pub fn window_offered(&self) -> u32 {
        let edge = self.window_from + u64::from(self.window);
        edge.saturating_sub(self.next).min(u64::from(u32::MAX)) as u32
    }

    /// Returns the first position that the peer may not send.
    pub fn edge(&self) -> u64 {
        self.next + u64::from(self.window_offered())
    }

    /// Returns the window that could be offered (`__tcp_select_window`).
    pub fn window_available(&self) -> u32 {
        let full = self.tuning.clamp;
        let mut free = full.saturating_sub(self.buffered());
        let segment = u64::from(self.ack.segment).min(full);
        let unit = 1u64 << self.scale;
        if free < full / 2 {
            free -= free % unit;
            // A silly window is none [rfc9293 §3.8.6.2.2].
            if free < full / 16 || free < segment {
                return 0;
            }
        }
        free = free.min(self.tuning.threshold);
        let most = 0xffff_u64 << self.scale;
        if self.scale > 0 {
            return free.next_multiple_of(unit).min(most) as u32;
        }
        let window = u64::from(self.window);
        if window + segment <= free || window > free {
            free -= free % segment.max(1);
            return free.min(most) as u32;
        }
        window.min(most) as u32
    }

    /// Lets the offer grow towards the buffer, by what arrives (`tcp_grow_window`).
    pub fn grow_window(&mut self) {
        let step = 2 * u64::from(self.config.announced_mss());
        if self.tuning.threshold < self.tuning.clamp {
            self.tuning.threshold = (self.tuning.threshold + step).min(self.tuning.clamp);
        }
    }

    /// Measures the round trip, by timestamps or by the time that a window takes
    /// (`tcp_rcv_rtt_measure`).
    pub fn measure_rtt(&mut self, segment: &Segment) {
        let echo = segment.timestamps.map_or(0, |stamps| stamps.echo);
        if self.timestamps_ok && echo != 0 && segment.length >= self.ack.segment {
            let age = crate::sender::timestamp(self.now).wrapping_sub(echo);
            if age < 1 << 20 {
                let sample = u64::from(age.max(1)) * 1_000_000;
                let known = self.tuning.rtt_8;
                self.tuning.rtt_8 =
                    if known == 0 { sample * 8 } else { known - known / 8 + sample };
            }
            return;
        }
        if self.timestamps_ok {
            return;
        }
        if let Some(at) = self.tuning.window_rtt_at {
            if self.next < self.tuning.window_rtt_end {
                return;
            }
            let sample = self.now.since(at).as_nanos().max(1) * 8;
            let known = self.tuning.rtt_8;
            self.tuning.rtt_8 = if known == 0 { sample } else { known.min(sample) };
        }
        self.tuning.window_rtt_end = self.next + u64::from(self.window);
        self.tuning.window_rtt_at = Some(self.now);
    }

    /// Lets the buffer grow when the application reads (`tcp_rcv_space_adjust`).
    pub fn tune(&mut self) {
        let tuning = &mut self.tuning;
        if tuning.rtt_8 == 0 || self.now.since(tuning.measured_at).as_nanos() < tuning.rtt_8 / 8 {
            return;
        }
        let copied = self.read - tuning.measured_from;
        if copied > tuning.space {
            if self.config.buffers.autotuning {
                let segment = u64::from(self.config.announced_mss());
                let twice = 2 * copied + 16 * segment;
                // A sender in slow start sends still more in the next round.
                let growth = u128::from(twice) * u128::from(copied - tuning.space);
                let growth = (growth / u128::from(tuning.space)).min(1 << 32) as u64;
                let wanted = (twice + 2 * growth).min(self.config.buffers.receive_max.get());
                tuning.clamp = tuning.clamp.max(wanted);
            }
            tuning.space = copied;
        }
        (tuning.measured_from, tuning.measured_at) = (self.read, self.now);
    }
}
