//! The sending side of a connection: its state, and what an acknowledgement does to it.
//!
//! The order of steps is Linux's `tcp_ack`: selective blocks, the queue, RACK's window, probes, the
//! state machine (`recovery/mod.rs`), timers, the rate sample, the congestion window. Invariant:
//! `una <= next <= end + 1`, and every byte between `una` and `next` is in the scoreboard.

use crate::cc::{CongestionWindow, Controller, SSTHRESH_INFINITE};
use crate::config::{Config, SlowStart};
use crate::ecn::{Delivered, EcnSender};
use crate::rate::Rate;
use crate::recovery::{Episode, Rack, Tail};
use crate::report::{CaState, Cause, Limit, Limiter, Report};
use crate::rtt::Rtt;
use crate::scoreboard::{EVER, LOST, RETRANSMITTED, SACKED, Scoreboard, Sent};
use crate::segment::AccEcn;
use crate::seq::Range;
use crate::timers::Timer;
use alloc::sync::Arc;
use weir_core::units::{Duration, Instant};

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    pub config: Arc<Config>,
    pub board: Scoreboard,
    pub now: Instant,
    /// The first position not acknowledged.
    pub una: u64,
    /// The next position to be sent for the first time.
    pub next: u64,
    /// The position after the last byte that the application wrote.
    pub end: u64,
    /// Where the newest write ended, for the push flag.
    pub pushed: u64,
    /// The end of the newest segment that was not full (`snd_sml`).
    pub small_end: u64,
    pub closing: bool,
    pub peer: PeerWindow,
    pub mss: u32,
    pub sack_ok: bool,
    pub cwnd: CongestionWindow,
    pub usage: Usage,
    pub controller: Controller,
    pub state: CaState,
    pub rtt: Rtt,
    /// The newest round trip measured, until the driver asks for it.
    pub newest_rtt: Option<Duration>,
    pub rack: Rack,
    pub tail: Tail,
    pub episode: Episode,
    pub rate: Rate,
    pub ecn: EcnSender,
    pub timer: Option<(Instant, Timer)>,
    /// Timeouts in a row, or probes of a zero window in a row.
    pub retries: u8,
    pub probes: u8,
    /// Degree of reordering, in segments (`reordering`).
    pub reordering: u32,
    pub reorder_seen: u32,
    /// Paced segments leave no earlier.
    pub departure: Instant,
    /// When data was sent last.
    pub sent_at: Instant,
    /// Bytes in the host's queue.
    pub queued: u64,
    /// The application wrote, or the window changed, since something was sent.
    pub written: bool,
    /// Something that is to leave whatever the windows say.
    pub forced: Option<Forced>,
    /// The timestamp that the newest acknowledgement echoed.
    pub echo: Option<u32>,
    pub limiter: Limiter,
    pub report: Report,
}

/// The window of the other side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerWindow {
    /// The first position that may not be sent.
    pub edge: u64,
    pub size: u32,
    pub max: u32,
    pub scale: u8,
    /// The sequence number of the segment that set it (`snd_wl1`).
    pub set_by: u64,
}

/// How far the congestion window was used (`tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub limited: bool,
    pub flight_max: u32,
    pub round_end: u64,
    pub used: u32,
    pub at: Instant,
    /// Something left since the last look.
    pub sent: bool,
}

/// Segments that leave whatever the windows say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forced {
    /// The first segment again, after a timeout.
    Timeout,
    /// A probe for a lost tail.
    TailProbe,
    /// A probe of a zero window: what fits, or nothing.
    WindowProbe,
}

/// The contents of an acknowledgement, in positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub ack: u64,
    pub seq: u64,
    pub window: u32,
    /// The echoed timestamp, if any.
    pub echo: Option<u32>,
    pub blocks: [Range; 4],
    pub block_count: usize,
    /// The segment has data or a FIN.
    pub has_data: bool,
    /// A mark is echoed.
    pub echoes_mark: bool,
    /// The counter of accurate ECN.
    pub ace: Option<u8>,
    /// The option of accurate ECN.
    pub option: Option<AccEcn>,
    /// The timestamp is newer than those before.
    pub newer: bool,
}

/// The meaning of an acknowledgement: the `FLAG_`s of `tcp_ack`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    pub data: bool,
    pub window_update: bool,
    pub acked: bool,
    pub retransmitted_acked: bool,
    pub sacked: bool,
    pub echo: bool,
    pub una_advanced: bool,
    /// Something that was never sent again arrived, of before the recovery.
    pub original_acked: bool,
    pub duplicate_reported: bool,
    /// The duplicate is that of a tail probe.
    pub tail_duplicate: bool,
    pub lost_again: bool,
    pub set_timer: bool,
    /// The acknowledgement of a lone segment may have been delayed.
    pub maybe_delayed: bool,
    /// Segments reported as marked.
    pub marked: u32,
}

impl Findings {
    /// `FLAG_NOT_DUP`.
    pub fn is_no_duplicate(&self) -> bool {
        self.data || self.window_update || self.acked
    }
}

/// Collects what the segments acknowledged by one acknowledgement say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub una_before: u64,
    pub highest_before: u64,
    pub delivered_before: u64,
    pub lost_before: u64,
    pub in_flight_before: u32,
    pub sacked_before: u32,
    /// Whether what was under way at a timeout is not acknowledged yet.
    pub after_timeout: bool,
    first_acked: Option<Instant>,
    last_acked: Option<Instant>,
    pub first_sacked: Option<Instant>,
    pub last_sacked: Option<Instant>,
    /// The lowest position that filled a gap without being sent again.
    pub reordered: u64,
    acked_count: u32,
    pub rtt: Option<Duration>,
}

impl Sender {
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let mss = u32::from(config.announced_mss());
        let growth_max = match config.slow_start {
            SlowStart::Bytes { limit } => limit.unwrap_or(u32::MAX),
            SlowStart::Acks => 1,
        };
        let controller = Controller::new(&config);
        let cwnd = CongestionWindow {
            segments: config.initial_window.segments(mss),
            count: 0,
            ssthresh: SSTHRESH_INFINITE,
            prior: 0,
            mss,
            filled: false,
            growth_max,
            pacing_rate: 0,
            paced: config.limits.pacing || controller.as_ref().needs_pacing(),
        };
        Self {
            board: Scoreboard::default(),
            now,
            una: 0,
            next: 0,
            end: 1,
            pushed: 1,
            small_end: 0,
            closing: false,
            peer: PeerWindow::default(),
            mss,
            sack_ok: false,
            cwnd,
            usage: Usage::default(),
            controller,
            state: CaState::Open,
            rtt: Rtt::new(&config.rto),
            newest_rtt: None,
            rack: Rack::default(),
            tail: Tail::default(),
            episode: Episode::default(),
            rate: Rate::default(),
            ecn: EcnSender::default(),
            timer: None,
            retries: 0,
            probes: 0,
            reordering: config.recovery.duplicates,
            reorder_seen: 0,
            departure: Instant::ZERO,
            sent_at: now,
            queued: 0,
            written: false,
            forced: None,
            echo: None,
            limiter: Limiter { cause: Limit::Closed, since: now },
            report: Report::default(),
            config,
        }
    }

    /// Takes an acknowledgement (`tcp_ack`). Returns false if it acknowledges what was never sent.
    pub fn acknowledge(&mut self, ack: &Ack) -> bool {
        if ack.ack > self.next {
            return false;
        }
        if ack.has_data && ack.ack == self.una && ack.block_count == 0 && self.board.is_empty() {
            // A segment of the other direction, while nothing of this one is under way.
            self.update_window(ack);
            self.window_opened();
            return true;
        }
        let mut found = Findings { data: ack.has_data, ..Findings::default() };
        self.echo = ack.echo;
        let mut tally = self.tally();
        if ack.ack < self.una {
            self.take_old(ack, &mut found, &mut tally);
            return true;
        }
        found.una_advanced = ack.ack > self.una;
        if found.una_advanced {
            self.retries = 0;
        }
        found.window_update = self.update_window(ack);
        self.take_blocks(ack, &mut found, &mut tally);
        found.echo = ack.echoes_mark;
        self.probes = 0;
        let had_flight = !self.board.is_empty();
        if had_flight {
            self.clean_queue(ack, &mut found, &mut tally);
            self.count_marks(ack, &mut found, &tally);
            self.rack_update_reordering_window();
            self.tail_acknowledged(ack.ack, &found);
            self.alert_if_dubious(&mut found, &tally);
            if found.set_timer {
                self.set_retransmission_timer();
            }
            self.control(ack, &found, &tally);
        } else {
            self.acked_without_flight(ack, &mut found, &tally);
        }
        true
    }

    fn tally(&self) -> Tally {
        Tally {
            una_before: self.una,
            highest_before: self.highest_sacked(),
            delivered_before: self.rate.delivered,
            lost_before: self.rate.lost,
            in_flight_before: self.board.in_flight(),
            sacked_before: self.board.sacked,
            after_timeout: self.state == CaState::Loss,
            first_acked: None,
            last_acked: None,
            first_sacked: None,
            last_sacked: None,
            reordered: self.next,
            acked_count: 0,
            rtt: None,
        }
    }

    /// Returns the end of what was acknowledged selectively (`tcp_highest_sack_seq`).
    pub fn highest_sacked(&self) -> u64 {
        if self.board.sacked == 0 || !self.sack_ok { self.una } else { self.board.highest_sacked }
    }

    /// An acknowledgement that a newer one overtook still carries blocks.
    fn take_old(&mut self, ack: &Ack, found: &mut Findings, tally: &mut Tally) {
        if ack.block_count == 0 {
            return;
        }
        self.take_blocks(ack, found, tally);
        if found.sacked || found.duplicate_reported || self.state != CaState::Open {
            self.alert(found, tally, 0);
        }
        self.control(ack, found, tally);
    }

    fn acked_without_flight(&mut self, ack: &Ack, found: &mut Findings, tally: &Tally) {
        if found.duplicate_reported {
            self.alert(found, tally, 0);
        }
        self.window_opened();
        self.tail_acknowledged(ack.ack, found);
    }

    /// Takes a new window if the segment is newer than the one that set it
    /// (`tcp_may_update_window`).
    fn update_window(&mut self, ack: &Ack) -> bool {
        let newer = ack.ack > self.una
            || ack.seq > self.peer.set_by
            || (ack.seq == self.peer.set_by && ack.window > self.peer.size);
        let changed = newer && ack.window != self.peer.size;
        self.written |= changed;
        if newer {
            self.peer.set_by = ack.seq;
            self.peer.size = ack.window;
            self.peer.max = self.peer.max.max(ack.window);
            // The window may shrink: what is sent is sent.
            self.peer.edge = ack.ack + u64::from(ack.window);
        }
        // Linux counts a window that came with nothing new as no duplicate.
        newer && (changed || ack.ack > self.una || ack.seq != self.peer.set_by)
    }

    /// Takes the blocks of selective acknowledgement (`tcp_sacktag_write_queue`).
    fn take_blocks(&mut self, ack: &Ack, found: &mut Findings, tally: &mut Tally) {
        if !self.sack_ok || ack.block_count == 0 {
            return;
        }
        let duplicate = self.check_duplicate_report(ack, found);
        for (place, block) in ack.blocks[..ack.block_count].iter().enumerate() {
            let is_duplicate = place == 0 && duplicate;
            if is_duplicate {
                self.take_duplicate(*block, tally);
            }
            let block = Range::new(block.start.max(self.una), block.end);
            if block.is_empty() || block.end > self.next || is_duplicate {
                continue;
            }
            if let Some(covered) = self.board.cover(block) {
                let mut number = self.board.number_at(covered.scan.start);
                while let Some(sent) = self.board.get(number).copied() {
                    if sent.start >= covered.scan.end {
                        break;
                    }
                    let whole = Range::new(sent.start, sent.end());
                    if !sent.has(SACKED) && covered.whole.contains(whole) {
                        self.take_sacked(number, found, tally);
                    }
                    number += 1;
                }
            }
        }
        if self.state != CaState::Loss || self.episode.undo_from.is_some() {
            self.check_reordering(tally.reordered);
        }
    }

    /// Takes a segment that arrived out of order (`tcp_sacktag_one`).
    fn take_sacked(&mut self, number: u64, found: &mut Findings, tally: &mut Tally) {
        let highest = self.highest_sacked();
        let Some(sent) = self.board.mark_sacked(number) else { return };
        self.rack_advance(&sent);
        self.rate.deliver(&sent, self.now);
        found.sacked = true;
        if sent.has(RETRANSMITTED | EVER) {
            return;
        }
        if sent.start < highest {
            tally.reordered = tally.reordered.min(sent.start);
        }
        found.original_acked |= sent.end() <= self.episode.end;
        tally.first_sacked.get_or_insert(sent.at);
        tally.last_sacked = Some(sent.at);
    }

    /// Takes everything off the queue that is acknowledged (`tcp_clean_rtx_queue`).
    fn clean_queue(&mut self, ack: &Ack, found: &mut Findings, tally: &mut Tally) {
        let mut reordered = u64::MAX;
        while let Some(sent) = self.board.pop_acked(ack.ack) {
            self.take_acked(&sent, found, tally, &mut reordered);
        }
        self.board.trim(ack.ack);
        if ack.ack > self.una {
            self.report.acknowledged += ack.ack - self.una;
            self.una = ack.ack;
            self.board.forget(ack.ack);
        }
        self.board.highest_sacked = self.board.highest_sacked.max(self.una);
        let sampled = self.sample_rtt(ack, found, tally);
        if found.acked {
            found.set_timer = true;
            if !self.sack_ok {
                self.remove_duplicates(tally.acked_count);
                found.original_acked &= !found.retransmitted_acked;
            } else if reordered < tally.highest_before {
                self.check_reordering_from(reordered, tally.highest_before);
            }
        } else if sampled {
            // [rfc6298 §5] Data sent after the first segment arrived: do not delay its timeout.
            let front = self.board.front().map(|sent| sent.at);
            found.set_timer = tally.last_sacked.zip(front).is_some_and(|(at, front)| at < front);
        }
    }

    fn take_acked(
        &mut self,
        sent: &Sent,
        found: &mut Findings,
        tally: &mut Tally,
        reordered: &mut u64,
    ) {
        found.acked = true;
        tally.acked_count += 1;
        if sent.has(RETRANSMITTED | EVER) {
            found.retransmitted_acked = true;
        } else if !sent.has(SACKED) {
            tally.first_acked.get_or_insert(sent.at);
            tally.last_acked = Some(sent.at);
            *reordered = (*reordered).min(sent.start);
            found.original_acked |= sent.end() <= self.episode.end;
        }
        if !sent.has(SACKED) && self.sack_ok {
            self.rack_advance(sent);
        }
        if !sent.has(SACKED) {
            self.rate.deliver(sent, self.now);
        }
    }

    /// Measures the round trip (`tcp_ack_update_rtt`): never of what was sent again [rfc6298 §3],
    /// unless a timestamp tells the transmissions apart.
    fn sample_rtt(&mut self, ack: &Ack, found: &mut Findings, tally: &mut Tally) -> bool {
        let now = self.now;
        let mut estimate = None;
        if let (Some(first), Some(last), false) =
            (tally.first_acked, tally.last_acked, found.retransmitted_acked)
        {
            estimate = Some(now.since(first));
            tally.rtt = Some(now.since(last));
            let lone = tally.acked_count == 1 && tally.sacked_before == 0 && !found.sacked;
            found.maybe_delayed =
                lone && self.una - tally.una_before < u64::from(self.mss) && self.board.is_empty();
        }
        if let (Some(first), Some(last)) = (tally.first_sacked, tally.last_sacked) {
            estimate = estimate.or(Some(now.since(first)));
            tally.rtt = Some(now.since(last));
        }
        if let (None, Some(echo), true) = (estimate, ack.echo, found.acked) {
            estimate = self.rtt_of_echo(echo);
            tally.rtt = estimate;
        }
        let (Some(estimate), Some(newest)) = (estimate, tally.rtt) else { return false };
        let policy = &self.config.rto;
        let least = self.rtt.min().unwrap_or_default();
        if !(found.maybe_delayed && newest > least && least > Duration::ZERO) {
            self.rtt.sample_min(now, newest, policy);
        }
        self.rtt.sample(estimate, policy, self.una, self.next);
        self.newest_rtt = Some(newest);
        true
    }

    /// Returns the age of an echoed timestamp, at least 1 ms as the clock is no finer.
    fn rtt_of_echo(&self, echo: u32) -> Option<Duration> {
        let age = timestamp(self.now).wrapping_sub(echo);
        (echo != 0 && age < 1 << 30).then(|| Duration::from_millis(u64::from(age.max(1))))
    }

    /// Lets the state machine look at an acknowledgement that is not plain progress
    /// (`tcp_ack_is_dubious`).
    fn alert_if_dubious(&mut self, found: &mut Findings, tally: &Tally) {
        let alarming = found.sacked || found.echo || found.duplicate_reported;
        if found.is_no_duplicate() && !alarming && self.state == CaState::Open {
            return;
        }
        let quiet = !found.una_advanced && !found.is_no_duplicate() && !found.duplicate_reported;
        self.alert(found, tally, u32::from(quiet));
    }

    /// Counts the segments that were reported as marked: by accurate ECN, or all of them.
    fn count_marks(&mut self, ack: &Ack, found: &mut Findings, tally: &Tally) {
        let segments = (self.rate.delivered - tally.delivered_before) as u32;
        let delivered = Delivered {
            segments,
            bytes: (self.una - tally.una_before).min(u64::from(u32::MAX)) as u32,
            mss: self.mss,
            exact: self.sack_ok || matches!(self.state, CaState::Open | CaState::Cwr),
        };
        let progress = found.acked || found.sacked || ack.newer;
        found.marked = match ack.ace {
            Some(ace) if progress => self.ecn.feedback.marks(ace, ack.option, &delivered),
            Some(_) => 0,
            None if found.echo => segments,
            None => 0,
        };
        found.echo |= found.marked > 0;
        self.rate.delivered_marked += u64::from(found.marked);
        self.report.marks_echoed += u64::from(found.marked);
    }

    /// Marks a segment as lost, and counts that.
    pub fn mark_lost(&mut self, number: u64) {
        if self.board.mark_lost(number) {
            self.rate.lost += 1;
        }
    }

    /// Counts a segment that leaves again.
    pub fn count_retransmission(&mut self, cause: Cause) {
        match cause {
            Cause::Loss => self.report.lost += 1,
            Cause::Timeout => self.report.timed_out += 1,
            Cause::Probe => self.report.probes += 1,
        }
    }

    /// Whether any segment that was sent again is not acknowledged (`tcp_any_retrans_done`).
    pub fn any_retransmitted(&self) -> bool {
        self.board.retransmitted > 0
            || self.board.front().is_some_and(|sent| sent.has(EVER))
            || self.board.front().is_some_and(|sent| sent.has(LOST) && sent.has(EVER))
    }
}

/// Returns the clock of the timestamps option: milliseconds, as Linux has.
pub(crate) fn timestamp(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
