//! BBR version 3: a model of the path, its bandwidth and its least round trip, sets rate and window
//! [bbr3], draft-ietf-ccwg-bbr; the names of the steps are the draft's.
//!
//! Loss bounds the model: more than 2 % in a round trip says that too much was on the way. The
//! draft's response for each lost packet is made for each acknowledgement, of what was lost since
//! the newest acknowledged segment was sent, as Linux does. Invariant: the window is at least four
//! segments.

use super::{CongestionControl, CongestionWindow, Sample};
use crate::config::Config;
use crate::report::CaState;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};

/// The states of BBR's state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    Drain,
    ProbeDown,
    ProbeCruise,
    ProbeRefill,
    ProbeUp,
    ProbeRtt,
}

#[derive(Debug)]
pub struct Bbr {
    phase: Phase,
    random: Option<Random>,
    round: Round,
    loss_round: Round,
    /// Whether something was lost in the present round of losses.
    lost_in_round: bool,
    full_bandwidth: u64,
    full_count: u32,
    full_reached: bool,
    /// The largest bandwidths of this cycle and of the one before, in bytes a second.
    bandwidths: [u64; 2],
    bandwidth_short: Option<u64>,
    bandwidth_latest: u64,
    /// Bounds on what is on the way, in segments.
    inflight_short: Option<u32>,
    inflight_long: Option<u32>,
    inflight_latest: u32,
    least: Option<Duration>,
    least_at: Instant,
    probe_least: Option<Duration>,
    probe_least_at: Instant,
    probe_done_at: Option<Instant>,
    prior_window: u32,
    /// Aggregation of acknowledgements: what comes beyond the bandwidth.
    extra: [u32; 2],
    extra_from: Instant,
    extra_acked: u32,
    cycle_at: Instant,
    rounds_since_probe: u32,
    wait: Duration,
    up_rounds: u32,
    up_count: u32,
    up_acked: u32,
    /// Losses belong to a probe for more.
    probing: bool,
}

/// A round trip, counted by what is delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    end: u64,
    started: bool,
    count: u64,
}

impl Round {
    fn update(&mut self, sample: &Sample) {
        self.started = sample.acked > 0 && sample.prior_delivered >= self.end;
        if self.started {
            self.restart(sample);
            self.count += 1;
        }
    }

    fn restart(&mut self, sample: &Sample) {
        self.end = sample.delivered;
    }
}

impl Bbr {
    pub(super) fn new(_config: &Config) -> Self {
        Self {
            phase: Phase::Startup,
            random: None,
            round: Round::default(),
            loss_round: Round::default(),
            lost_in_round: false,
            full_bandwidth: 0,
            full_count: 0,
            full_reached: false,
            bandwidths: [0; 2],
            bandwidth_short: None,
            bandwidth_latest: 0,
            inflight_short: None,
            inflight_long: None,
            inflight_latest: 0,
            least: None,
            least_at: Instant::ZERO,
            probe_least: None,
            probe_least_at: Instant::ZERO,
            probe_done_at: None,
            prior_window: 0,
            extra: [0; 2],
            extra_from: Instant::ZERO,
            extra_acked: 0,
            cycle_at: Instant::ZERO,
            rounds_since_probe: 0,
            wait: Duration::from_secs(2),
            up_rounds: 0,
            up_count: u32::MAX,
            up_acked: 0,
            probing: false,
        }
    }

    fn draw(&mut self, sample: &Sample, bound: u32) -> u32 {
        let seed = sample.now.as_nanos() ^ sample.una;
        self.random.get_or_insert_with(|| Random::new(seed, 0)).below(bound)
    }

    fn max_bandwidth(&self) -> u64 {
        self.bandwidths[0].max(self.bandwidths[1])
    }

    fn bandwidth(&self) -> u64 {
        self.max_bandwidth().min(self.bandwidth_short.unwrap_or(u64::MAX))
    }

    /// Pacing gain and window gain, in hundredths [bbr3 §5.1].
    fn gains(&self) -> Gains {
        let (pacing, window) = match self.phase {
            Phase::Startup => (277, 200),
            Phase::Drain => (50, 200),
            Phase::ProbeDown => (90, 200),
            Phase::ProbeCruise | Phase::ProbeRefill => (100, 200),
            Phase::ProbeUp => (125, 225),
            Phase::ProbeRtt => (100, 50),
        };
        Gains { pacing, window }
    }

    /// BBRInflight: the product of bandwidth and least round trip, times a gain, in segments.
    fn inflight(&self, bandwidth: u64, gain: u64, mss: u32) -> u32 {
        let Some(least) = self.least else { return WINDOW_INITIAL };
        let bytes = u128::from(bandwidth) * u128::from(least.as_nanos()) / 1_000_000_000;
        let segments = (bytes * u128::from(gain)).div_ceil(100 * u128::from(mss.max(1)));
        let segments = (segments as u64).min(1 << 24) as u32;
        // Room for segments that wait in hosts.
        segments.saturating_add(2).max(WINDOW_MIN)
            + if self.phase == Phase::ProbeUp { 2 } else { 0 }
    }

    /// BBRUpdateLatestDeliverySignals, BBRUpdateMaxBw.
    fn update_bandwidth(&mut self, sample: &Sample, mss: u32) {
        self.round.update(sample);
        self.loss_round.update(sample);
        if self.round.started {
            self.rounds_since_probe += 1;
        }
        if sample.rate_delivered == 0 || sample.interval == Duration::ZERO {
            return;
        }
        let bytes = u128::from(sample.rate_delivered) * u128::from(mss);
        let rate = (bytes * 1_000_000_000 / u128::from(sample.interval.as_nanos())) as u64;
        self.bandwidth_latest = self.bandwidth_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(sample.rate_delivered as u32);
        if rate >= self.max_bandwidth() || !sample.app_limited {
            self.bandwidths[0] = self.bandwidths[0].max(rate);
        }
    }

    /// BBRUpdateCongestionSignals, BBRAdaptLowerBoundsFromCongestion [bbr3 §5.5.10].
    fn update_lower_bounds(&mut self, sample: &Sample) {
        self.lost_in_round |= sample.lost > 0;
        if !self.loss_round.started {
            return;
        }
        let probes = matches!(self.phase, Phase::ProbeRefill | Phase::ProbeUp | Phase::Startup);
        if self.lost_in_round && !probes {
            let bandwidth = self.bandwidth_short.unwrap_or(self.max_bandwidth());
            self.bandwidth_short = Some(self.bandwidth_latest.max(bandwidth * BETA / 100));
            let inflight = u64::from(self.inflight_short.unwrap_or(sample.prior_in_flight));
            let kept = (inflight * BETA / 100) as u32;
            self.inflight_short = Some(self.inflight_latest.max(kept));
        }
        self.lost_in_round = false;
        (self.bandwidth_latest, self.inflight_latest) = (0, 0);
    }

    /// BBRUpdateACKAggregation.
    fn update_aggregation(&mut self, sample: &Sample, window: &CongestionWindow) {
        let elapsed = sample.now.since(self.extra_from).as_nanos();
        let bytes = u128::from(self.bandwidth()) * u128::from(elapsed) / 1_000_000_000;
        let expected = (bytes / u128::from(window.mss.max(1))).min(1 << 30) as u32;
        if self.extra_acked <= expected {
            (self.extra_acked, self.extra_from) = (0, sample.now);
        }
        self.extra_acked += sample.acked;
        let over = if elapsed == 0 { 0 } else { self.extra_acked.saturating_sub(expected) };
        if self.round.started && self.round.count.is_multiple_of(10) {
            self.extra = [0, self.extra[0]];
        }
        self.extra[0] = self.extra[0].max(over.min(window.segments));
    }

    /// BBRCheckFullBWReached, BBRCheckStartupHighLoss [bbr3 §5.3.1].
    fn check_full(&mut self, sample: &Sample) {
        if self.full_reached || !self.round.started {
            return;
        }
        let high_loss = sample.state == CaState::Recovery && self.too_high(sample);
        if high_loss && self.round.count > 1 {
            self.full_reached = true;
            let target = self.inflight_latest.max(sample.sent_in_flight);
            self.inflight_long = Some(target);
        }
        if sample.app_limited {
            return;
        }
        if self.max_bandwidth() * 4 >= self.full_bandwidth * 5 {
            (self.full_bandwidth, self.full_count) = (self.max_bandwidth(), 0);
            return;
        }
        self.full_count += 1;
        self.full_reached |= self.full_count >= 3;
    }

    /// IsInflightTooHigh: more than 2 % of what was on the way is lost.
    fn too_high(&self, sample: &Sample) -> bool {
        let lost = sample.lost_total.saturating_sub(sample.prior_lost);
        sample.lost > 0 && lost * 50 > u64::from(sample.sent_in_flight)
    }

    /// BBRUpdateProbeBWCyclePhase [bbr3 §5.3.3].
    fn update_phase(&mut self, sample: &Sample, window: &CongestionWindow) {
        if self.phase == Phase::Startup && self.full_reached {
            self.phase = Phase::Drain;
        }
        let full = self.inflight(self.max_bandwidth(), 100, window.mss);
        if self.phase == Phase::Drain && sample.in_flight <= full {
            self.start_down(sample);
        }
        self.adapt_upper_bound(sample, window);
        match self.phase {
            Phase::ProbeDown if self.time_to_probe(sample, window) => self.start_refill(sample),
            Phase::ProbeDown if sample.in_flight <= self.down_target(full) => {
                self.phase = Phase::ProbeCruise;
            }
            Phase::ProbeCruise if self.time_to_probe(sample, window) => self.start_refill(sample),
            Phase::ProbeRefill if self.round.started => {
                self.probing = true;
                self.phase = Phase::ProbeUp;
                self.cycle_at = sample.now;
                (self.full_bandwidth, self.full_count) = (self.max_bandwidth(), 0);
                self.raise_slope(window);
            }
            Phase::ProbeUp => {
                let enough = self.inflight(self.max_bandwidth(), 125, window.mss);
                let held = sample.now.since(self.cycle_at) > self.least.unwrap_or_default();
                if held && sample.in_flight > enough {
                    self.start_down(sample);
                }
            }
            _ => {}
        }
    }

    fn down_target(&self, full: u32) -> u32 {
        let long = self.inflight_long.map_or(u32::MAX, with_headroom);
        full.min(long)
    }

    /// BBRAdaptUpperBounds: loss of a probe bounds it, and a probe without loss raises the bound.
    fn adapt_upper_bound(&mut self, sample: &Sample, window: &CongestionWindow) {
        if self.too_high(sample) {
            if self.probing {
                self.probing = false;
                let target = window.segments.min(self.inflight(self.bandwidth(), 100, window.mss));
                let kept = (u64::from(target) * BETA / 100) as u32;
                if !sample.app_limited {
                    self.inflight_long = Some(sample.sent_in_flight.max(kept));
                }
                if self.phase == Phase::ProbeUp {
                    self.start_down(sample);
                }
            }
            return;
        }
        let Some(long) = self.inflight_long else { return };
        if sample.sent_in_flight > long {
            self.inflight_long = Some(sample.sent_in_flight);
        }
        if self.phase == Phase::ProbeUp && window.filled {
            self.up_acked += sample.acked;
            if self.up_acked >= self.up_count {
                self.inflight_long = Some(long + self.up_acked / self.up_count.max(1));
                self.up_acked %= self.up_count.max(1);
            }
            if self.round.started {
                self.raise_slope(window);
            }
        }
    }

    /// BBRRaiseInflightHiSlope: the bound grows by 1, 2, 4 and so on in a round trip.
    fn raise_slope(&mut self, window: &CongestionWindow) {
        let growth = 1 << self.up_rounds.min(30);
        self.up_rounds += 1;
        self.up_count = (window.segments / growth).max(1);
    }

    /// BBRCheckTimeToProbeBW: after 2 to 3 s, or as many rounds as Reno would need.
    fn time_to_probe(&self, sample: &Sample, window: &CongestionWindow) -> bool {
        let rounds = self.inflight(self.bandwidth(), 100, window.mss).min(ROUNDS_MAX);
        sample.now.since(self.cycle_at) > self.wait || self.rounds_since_probe >= rounds
    }

    fn start_down(&mut self, sample: &Sample) {
        self.phase = Phase::ProbeDown;
        self.probing = false;
        self.up_count = u32::MAX;
        self.loss_round.restart(sample);
        self.cycle_at = sample.now;
        self.rounds_since_probe = self.draw(sample, 2);
        let millis = 2000 + self.draw(sample, 1000);
        self.wait = Duration::from_millis(u64::from(millis));
        // BBRAdvanceMaxBwFilter: a cycle is over.
        self.bandwidths = [0, self.max_bandwidth()];
    }

    fn start_refill(&mut self, sample: &Sample) {
        self.phase = Phase::ProbeRefill;
        (self.bandwidth_short, self.inflight_short) = (None, None);
        (self.up_rounds, self.up_acked) = (0, 0);
        self.round.restart(sample);
        self.rounds_since_probe = 0;
    }

    /// BBRUpdateMinRTT, BBRCheckProbeRTT [bbr3 §5.3.4].
    fn update_least(&mut self, sample: &Sample, window: &mut CongestionWindow) {
        let now = sample.now;
        let expired = now.since(self.probe_least_at) > Duration::from_secs(5);
        if let Some(rtt) = sample.rtt {
            if expired || self.probe_least.is_none_or(|least| rtt < least) {
                (self.probe_least, self.probe_least_at) = (Some(rtt), now);
            }
            let old = now.since(self.least_at) > Duration::from_secs(10);
            if old || self.least.is_none_or(|least| self.probe_least.unwrap_or(rtt) < least) {
                (self.least, self.least_at) = (self.probe_least, self.probe_least_at);
            }
        }
        if expired && self.phase != Phase::ProbeRtt && self.full_reached {
            self.prior_window = self.prior_window.max(window.segments);
            self.phase = Phase::ProbeRtt;
            self.probe_done_at = None;
        }
        if self.phase != Phase::ProbeRtt {
            return;
        }
        let few = sample.in_flight <= self.probe_window(window.mss);
        match self.probe_done_at {
            None if few => {
                let rounds = Duration::from_millis(200).max(self.least.unwrap_or_default());
                self.probe_done_at = Some(now.after(rounds));
            }
            Some(done) if now >= done => {
                self.probe_least_at = now;
                window.segments = window.segments.max(self.prior_window);
                self.prior_window = 0;
                (self.bandwidth_short, self.inflight_short) = (None, None);
                self.start_down(sample);
                self.phase = Phase::ProbeCruise;
            }
            _ => {}
        }
    }

    fn probe_window(&self, mss: u32) -> u32 {
        self.inflight(self.bandwidth(), 50, mss).max(WINDOW_MIN)
    }

    /// BBRSetPacingRate, BBRSetCwnd [bbr3 §5.6].
    fn set_parameters(&mut self, sample: &Sample, window: &mut CongestionWindow) {
        let gains = self.gains();
        let rate = self.bandwidth().saturating_mul(gains.pacing) / 100 * PACING_SHARE / 100;
        if rate > 0 && (self.full_reached || rate > window.pacing_rate) {
            window.pacing_rate = rate;
        }
        let extra = self.extra[0].max(self.extra[1]);
        let most = self.inflight(self.bandwidth(), gains.window, window.mss) + extra;
        let grown = window.segments.saturating_add(sample.acked);
        if self.full_reached {
            window.segments = grown.min(most);
        } else if window.segments < most || sample.delivered < u64::from(WINDOW_INITIAL) {
            window.segments = grown;
        }
        let bound = match self.phase {
            Phase::ProbeRtt => self.probe_window(window.mss),
            Phase::ProbeCruise => self.inflight_long.map_or(u32::MAX, with_headroom),
            Phase::ProbeDown | Phase::ProbeRefill | Phase::ProbeUp => {
                self.inflight_long.unwrap_or(u32::MAX)
            }
            Phase::Startup | Phase::Drain => u32::MAX,
        };
        let bound = bound.min(self.inflight_short.unwrap_or(u32::MAX));
        window.segments = window.segments.min(bound).clamp(WINDOW_MIN, 1 << 24);
    }
}

/// Gains in hundredths.
struct Gains {
    pacing: u64,
    window: u64,
}

impl CongestionControl for Bbr {
    fn ssthresh(&mut self, window: &CongestionWindow, _now: Instant) -> u32 {
        self.prior_window = self.prior_window.max(window.segments);
        window.ssthresh
    }

    fn on_ack(&mut self, _window: &mut CongestionWindow, _sample: &Sample, _acked: u32) {}

    fn on_sample(&mut self, window: &mut CongestionWindow, sample: &Sample) {
        self.update_bandwidth(sample, window.mss);
        self.update_lower_bounds(sample);
        self.update_aggregation(sample, window);
        self.check_full(sample);
        self.update_phase(sample, window);
        self.update_least(sample, window);
        self.set_parameters(sample, window);
    }

    fn controls(&self) -> bool {
        true
    }

    fn on_timeout(&mut self, window: &mut CongestionWindow) {
        self.prior_window = self.prior_window.max(window.segments);
    }

    fn undo(&mut self, window: &CongestionWindow) -> u32 {
        (self.bandwidth_short, self.inflight_short) = (None, None);
        window.segments.max(self.prior_window)
    }

    fn needs_pacing(&self) -> bool {
        true
    }
}

/// Returns a bound with room for others to grow: 15 % less.
fn with_headroom(bound: u32) -> u32 {
    let headroom = (u64::from(bound) * 15 / 100).max(1) as u32;
    (bound - headroom.min(bound)).max(WINDOW_MIN)
}

/// BBR.Beta, in hundredths.
const BETA: u64 = 70;
/// BBR.MinPipeCwnd.
const WINDOW_MIN: u32 = 4;
/// The window before the first measurement.
const WINDOW_INITIAL: u32 = 10;
/// Reno's rounds between losses that BBR leaves to others at most.
const ROUNDS_MAX: u32 = 63;
/// BBR.PacingMarginPercent: pacing at 99 % lets queues drain.
const PACING_SHARE: u64 = 99;
