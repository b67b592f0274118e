//! The delivery rate, measured for each segment that arrives (`tcp_rate.c`).
//!
//! A sample is what was delivered between the sending of a segment and its acknowledgement, over
//! the longer one of the intervals of sending and of acknowledging.

use crate::scoreboard::{Sent, Snapshot};
use weir_core::units::{Duration, Instant};

/// The state of deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// All segments delivered so far.
    pub delivered: u64,
    /// Segments of these that were marked.
    pub delivered_marked: u64,
    /// All segments considered lost so far.
    pub lost: u64,
    delivered_at: Instant,
    /// When the first segment of the present sample was sent.
    first_sent: Instant,
    /// The number of delivered segments until which the application limits the rate; 0: it does
    /// not.
    pub app_limited_until: u64,
    /// The snapshot of the newest segment that the present acknowledgement delivered.
    newest: Option<(Snapshot, Instant)>,
}

/// The rate of delivery that one acknowledgement shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSample {
    pub snapshot: Snapshot,
    pub delivered: u64,
    pub interval: Duration,
    pub valid: bool,
}

impl Rate {
    /// Returns the snapshot for a segment that is sent now, with `in_flight` on the way before it;
    /// `first` if all before it is acknowledged.
    pub fn snapshot(&mut self, now: Instant, in_flight: u32, first: bool) -> Snapshot {
        if first {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            in_flight: in_flight + 1,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Takes a segment that arrived (`tcp_rate_skb_delivered`).
    pub fn deliver(&mut self, sent: &Sent, now: Instant) {
        self.delivered += 1;
        self.delivered_at = now;
        let newer =
            self.newest.is_none_or(|(snapshot, _)| sent.snapshot.delivered >= snapshot.delivered);
        if newer {
            self.newest = Some((sent.snapshot, sent.at));
            self.first_sent = sent.at;
        }
    }

    /// Returns what was delivered when the newest segment of this acknowledgement was sent.
    pub fn prior_delivered(&self) -> Option<u64> {
        self.newest.map(|(snapshot, _)| snapshot.delivered)
    }

    /// Ends an acknowledgement; returns its sample (`tcp_rate_gen`).
    pub fn sample(&mut self, now: Instant, rtt_min: Option<Duration>) -> RateSample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some((snapshot, sent_at)) = self.newest.take() else { return RateSample::default() };
        let sending = sent_at.since(snapshot.first_sent);
        let acking = now.since(snapshot.delivered_at);
        let interval = sending.max(acking);
        let delivered = self.delivered - snapshot.delivered;
        // An interval below the least round trip is a lie of compressed acknowledgements.
        let valid = interval > Duration::ZERO && rtt_min.is_none_or(|least| interval >= least);
        RateSample { snapshot, delivered, interval, valid }
    }
}
