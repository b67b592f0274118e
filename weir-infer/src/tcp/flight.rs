//! The bytes that a sender has under way when it sends, as a point near it sees them: the sender's
//! congestion window, as far as that is what limits it.
//!
//! A segment leaves with those acknowledgements in mind that its sender had received. Timestamps
//! name the newest of them; without them it is any that passed the point a turnaround ago. A round
//! ends when a byte that was sent after its start is acknowledged. Invariant: a [`Reaction`] is a
//! whole recovery with a round before and a round behind it in which the sender went on.

use super::stream::Progress;
use std::collections::VecDeque;
use weir_core::units::{Duration, Instant};

/// The window of one sender.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    acks: VecDeque<Ack>,
    /// Of those that the sender had when it sent last.
    acked: u64,
    allowed: Option<u64>,
    /// Progress that was sent into a window of the receiver that was then full, and all data.
    pub filled: [u64; 2],
    round: Round,
    recovery: Option<Recovery>,
    last_sent: Option<Instant>,
    /// Windows of the rounds since the last recovery.
    windows: Vec<u32>,
    /// Rounds that each of `windows` stands for.
    stride: u32,
    skipped: u32,
    /// The reactions to losses and marks.
    pub reactions: Vec<Reaction>,
    /// Recoveries, and of them those that began with a timeout.
    pub recoveries: u32,
    /// Recoveries after a silence, or that left little of the window.
    pub timeouts: u32,
}

/// The window of a sender before and after a loss or a mark, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reaction {
    /// The most that was under way in the round before.
    pub before: u64,
    /// The most that was under way in the round behind.
    pub after: u64,
    /// The growth of the window in a round, in the rounds before; `None` if these were few.
    pub growth: Option<f64>,
}

/// An acknowledgement on its way to the sender.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it passed.
    pub at: Instant,
    /// Its timestamp.
    pub stamp: Option<u32>,
    /// All below is acknowledged.
    pub offset: u64,
    /// Up to here the receiver has room; `None` if the scale of its windows is unknown.
    pub allowed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    until: u64,
    most: u64,
    before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// It is over once this is acknowledged.
    recover: u64,
    before: u64,
    growth: Option<f64>,
    after: u64,
    /// The round behind it ends when this is acknowledged.
    measured: Option<u64>,
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it passed.
    pub at: Instant,
    /// The bytes that it brought.
    pub data: Progress,
    /// The timestamp that it returned.
    pub echo: Option<u32>,
    /// It says that the window was reduced after a mark.
    pub reduced: bool,
    /// The offset behind all that was sent.
    pub next: u64,
    /// The longest data of a segment.
    pub longest: u32,
}

impl Flight {
    /// An acknowledgement passed on its way to the sender.
    pub fn acknowledged(&mut self, ack: Ack) {
        let is_same = |last: &&mut Ack| last.stamp.is_some() && last.stamp == ack.stamp;
        if let Some(last) = self.acks.back_mut().filter(is_same) {
            *last = Ack { at: last.at, ..ack };
            return;
        }
        if self.acks.len() == ACKS_MAX {
            self.acks.pop_front();
        }
        self.acks.push_back(ack);
    }

    /// A segment with data was sent; `turnaround` is the shortest time from the point to the sender
    /// and back, `round_trip` that of the whole path.
    pub fn sent(&mut self, sent: Sent, turnaround: Duration, round_trip: Duration) {
        self.receive(&sent, turnaround);
        let silence = self.last_sent.map_or(Duration::ZERO, |last| sent.at.since(last));
        self.last_sent = Some(sent.at);
        if let Some(recovery) = &mut self.recovery
            && recovery.measured.is_none()
            && self.acked >= recovery.recover
        {
            recovery.measured = Some(sent.next);
        }
        match sent.data {
            Progress::New(_, to) => {
                if let Some(allowed) = self.allowed {
                    self.filled[0] += u64::from(to + u64::from(sent.longest) > allowed);
                    self.filled[1] += 1;
                }
                self.note(to.saturating_sub(self.acked), sent.next);
                if sent.reduced {
                    self.begin(sent.next);
                }
            }
            Progress::Again(to) => {
                let is_probe = to == sent.next && silence > round_trip;
                if self.recovery.is_none() && !is_probe {
                    self.begin(sent.next);
                }
            }
            Progress::Late => {}
        }
    }

    /// Takes the acknowledgements that the sender had.
    fn receive(&mut self, sent: &Sent, turnaround: Duration) {
        while let Some(ack) = self.acks.front() {
            let is_known = match (ack.stamp, sent.echo) {
                (Some(stamp), Some(echo)) => (echo.wrapping_sub(stamp) as i32) >= 0,
                _ => ack.at.after(turnaround) <= sent.at,
            };
            if !is_known {
                break;
            }
            self.acked = self.acked.max(ack.offset);
            self.allowed = self.allowed.max(ack.allowed);
            self.acks.pop_front();
        }
    }

    /// Notes what is under way with new data.
    fn note(&mut self, window: u64, next: u64) {
        if let Some(recovery) = &mut self.recovery
            && let Some(until) = recovery.measured
        {
            recovery.after = recovery.after.max(window);
            if self.acked >= until {
                let Recovery { before, after, growth, .. } = *recovery;
                self.recovery = None;
                self.end(Reaction { before, after, growth });
            }
        }
        if self.acked >= self.round.until {
            if self.recovery.is_none() {
                self.keep(self.round.most);
            }
            self.round = Round { until: next, most: 0, before: self.round.most };
        }
        self.round.most = self.round.most.max(window);
    }

    fn begin(&mut self, next: u64) {
        if self.recovery.is_some() {
            return;
        }
        self.recoveries += 1;
        let before = self.round.most.max(self.round.before);
        let growth = self.growth().filter(|_| self.recoveries > 1);
        self.windows.clear();
        (self.stride, self.skipped) = (1, 0);
        self.recovery = Some(Recovery { recover: next, before, growth, after: 0, measured: None });
    }

    fn end(&mut self, reaction: Reaction) {
        if (reaction.after as f64) < TIMEOUT_PART * reaction.before as f64 {
            self.timeouts += 1;
        } else if self.reactions.len() < REACTIONS_MAX {
            self.reactions.push(reaction);
        }
    }

    fn keep(&mut self, window: u64) {
        self.skipped += 1;
        if self.skipped < self.stride.max(1) {
            return;
        }
        self.skipped = 0;
        self.windows.push(u32::try_from(window).unwrap_or(u32::MAX));
        if self.windows.len() == WINDOWS_MAX {
            let mut place = 0;
            self.windows.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            self.stride = self.stride.max(1) * 2;
        }
    }

    /// Returns the mean growth in a round since the last recovery, in bytes.
    fn growth(&self) -> Option<f64> {
        // The first round may still repair losses.
        let [_, first, .., last] = self.windows[..] else { return None };
        let rounds = (self.windows.len() - 2) as f64 * f64::from(self.stride.max(1));
        (self.windows.len() >= GROWTH_ROUNDS).then(|| (f64::from(last) - f64::from(first)) / rounds)
    }
}

/// Bound: acknowledgements that no segment has followed yet; the oldest are forgotten.
const ACKS_MAX: usize = 1024;
/// Bound: reactions of one sender that are kept; the first ones suffice.
const REACTIONS_MAX: usize = 256;
/// Bound: windows of rounds between two losses; more are thinned out.
const WINDOWS_MAX: usize = 256;
/// Rounds from which a growth follows.
const GROWTH_ROUNDS: usize = 6;
/// A window of which less than this is left began anew after a timeout.
const TIMEOUT_PART: f64 = 0.35;
