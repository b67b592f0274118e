//! The rates of a bridge's links that follow the capacity of the line behind one port.
//!
//! Frames of that port are read in both ways, at their stamps; of those that are probes a table
//! by slots of the pool remembers the ticket until they are sent. Every
//! [`INTERVAL`](weir_autorate::INTERVAL), between two turns, the rates of the lanes are set. A
//! bridge without such lanes has none of this.

use weir_autorate::{Autorate, Plan, Reason, Shaper, Step, Ticket, Way};
use weir_core::units::{Duration, Instant, Rate};

use super::echoes::{Echoes, Passing};
use crate::events::{About, Event, Kind, Reporter};
use crate::lane::{Lane, LaneConfig};
use crate::pool::FramePool;
use crate::port::Received;
use crate::status::RateCounts;
use weir_host::error::{Result, SystemError};

/// The rates behind a port of a bridge.
pub(super) struct Rates {
    autorate: Autorate,
    /// The index of the modem's port.
    modem: usize,
    lanes: [Option<VaryingLane>; 2],
    /// For each slot of the pool the ticket of its frame.
    tickets: Vec<Option<Ticket>>,
    /// Bytes sent since the last interval, by way.
    sent: [u64; 2],
    /// Whether frames waited since the last interval, by way.
    waited: [bool; 2],
    /// Whether the last interval found all rates at their bases and nothing to measure.
    is_at_rest: bool,
    /// Hosts behind the modem that are asked where nothing that passes tells.
    echoes: Option<Echoes>,
}

/// A lane whose rate is set.
struct VaryingLane {
    lane: usize,
    plan: Plan,
    /// Frames that its link had dropped at the last interval.
    dropped: u64,
    counts: RateCounts,
    /// The rate that was told last, and when.
    told: (Rate, Instant),
    /// The largest rise and the largest fall since.
    largest: [Option<Step>; 2],
}

impl Rates {
    /// The rates of these lanes from `now` on; `None` if none of them varies.
    ///
    /// # Errors
    /// When they have two modems, or two lanes the same way.
    pub fn new(
        (lanes, echoes): (&[LaneConfig], Option<Echoes>),
        slots: usize,
        now: Instant,
    ) -> Result<Option<Box<Self>>> {
        let mut varying = [None, None];
        let mut modem = None;
        for (lane, config) in lanes.iter().enumerate() {
            let Some(varies) = config.autorate else { continue };
            let place = &mut varying[varies.way as usize];
            if modem.is_some_and(|modem| modem != varies.modem) || place.is_some() {
                let why = "two directions one way, or two modems, in one bridge";
                let cure = "let one direction to and one from one modem have `autorate`";
                return Err(SystemError::refused("set rates that vary", why, cure));
            }
            modem = Some(varies.modem);
            *place = Some(VaryingLane::new(lane, varies.plan, now));
        }
        let Some(modem) = modem else { return Ok(None) };
        let plans = [0, 1].map(|way| varying[way].as_ref().map(|lane| lane.plan));
        let reflectors = echoes.as_ref().map_or(0, Echoes::count);
        Ok(Some(Box::new(Self {
            autorate: Autorate::with_reflectors(plans, [0; 2], (now, reflectors)),
            modem,
            lanes: varying,
            tickets: vec![None; slots],
            sent: [0; 2],
            waited: [false; 2],
            is_at_rest: false,
            echoes,
        })))
    }

    /// Sets the rates of links that are new.
    pub fn begin(&mut self, lanes: &mut [Lane]) {
        lanes.iter_mut().for_each(Lane::note_left);
        for way in Way::ALL {
            let lane = self.lanes[way as usize].as_ref();
            if let Some((lane, rate)) = lane.zip(self.autorate.rate(way)) {
                lanes[lane.lane].set_rate(rate);
            }
        }
    }

    /// Reads a frame on its way from one port to another.
    #[inline]
    pub fn read(&mut self, received: &Received, (from, to): (usize, usize), pool: &FramePool) {
        let way = match (from == self.modem, to == self.modem) {
            (true, _) => Way::Down,
            (_, true) => Way::Up,
            _ => return,
        };
        let Received { frame, at_ns, headers, .. } = received;
        let at = Instant::from_nanos(*at_ns);
        let bytes = pool.bytes(*frame);
        if let Some(echoes) = &mut self.echoes {
            echoes.forget(*frame);
            let passing = Passing { at, way, frame: *frame, headers, bytes };
            echoes.read(&passing, &mut self.autorate);
        }
        let ticket = self.autorate.frame(at, way, headers, bytes);
        if let Some(place) = self.tickets.get_mut(frame.0 as usize) {
            *place = ticket;
        }
    }

    /// Notes what left in a turn, and sets the rates if the interval is over.
    pub fn turn(&mut self, now: Instant, lanes: &mut [Lane], reporter: Option<&Reporter>) {
        for lane in lanes.iter_mut() {
            self.note_left(lane);
        }
        for (way, varying) in self.lanes.iter().enumerate() {
            let load = varying.as_ref().map(|varying| lanes[varying.lane].load());
            self.waited[way] |= load.is_some_and(|(_, waits)| waits);
        }
        if now < self.autorate.due() {
            return;
        }
        let shapers = [0, 1].map(|way| self.shaper(way, lanes));
        let steps = self.autorate.end_interval(now, &shapers);
        if let Some((echoes, echo)) = self.echoes.as_mut().zip(self.autorate.echo()) {
            echoes.send(now, echo);
        }
        self.is_at_rest = true;
        for step in steps.into_iter().flatten() {
            let Some(varying) = &mut self.lanes[step.way as usize] else { continue };
            if step.to != step.from {
                lanes[varying.lane].set_rate(step.to);
            }
            let is_idle = step.measure.delay.is_none() && step.measure.sent == 0;
            self.is_at_rest &= is_idle && step.to == varying.plan.limits.base();
            varying.note(&step);
            if let Some(text) = varying.news(&step) {
                let name = &lanes[varying.lane].labels().name;
                let about = About { subject: name, detail: &text, ..About::default() };
                let event = || Event::now(Kind::RateChanged, about);
                reporter.iter().for_each(|reporter| reporter.push(event()));
            }
        }
    }

    fn note_left(&mut self, lane: &mut Lane) {
        let way = if lane.labels().to == self.modem { Way::Up } else { Way::Down };
        let Self { autorate, tickets, sent, echoes, .. } = self;
        lane.take_left(|left| {
            sent[way as usize] += left.charged;
            let ticket = tickets.get_mut(left.frame.0 as usize).and_then(Option::take);
            if let Some(ticket) = ticket {
                autorate.leave(left.at, ticket);
            }
            if let Some(echoes) = echoes {
                echoes.leave(left.at, left.frame, autorate);
            }
        });
    }

    fn shaper(&mut self, way: usize, lanes: &[Lane]) -> Shaper {
        let mut dropped = 0;
        if let Some(varying) = &mut self.lanes[way] {
            let (all, _) = lanes[varying.lane].load();
            dropped = all.saturating_sub(std::mem::replace(&mut varying.dropped, all));
        }
        Shaper {
            sent: std::mem::take(&mut self.sent[way]),
            dropped,
            is_limited: std::mem::take(&mut self.waited[way]),
        }
    }

    /// Returns when the interval ends; `None` while nothing would come of it.
    pub fn due(&self) -> Option<Instant> {
        (!self.is_at_rest).then(|| self.autorate.due())
    }

    /// Returns what readers of the status are told of a lane.
    pub fn of_lane(&self, lane: usize) -> Option<RateCounts> {
        let varying = self.lanes.iter().flatten().find(|varying| varying.lane == lane);
        varying.map(|varying| varying.counts)
    }
}

impl VaryingLane {
    fn new(lane: usize, plan: Plan, now: Instant) -> Self {
        let (base, target) = (plan.limits.base(), plan.limits.target());
        let counts = RateCounts {
            rate: base,
            delay: None,
            round_trip: None,
            target,
            flows: 0,
            reason: Reason::Steady,
        };
        Self { lane, plan, dropped: 0, counts, told: (base, now), largest: [None; 2] }
    }

    fn note(&mut self, step: &Step) {
        // A rate that stays is as it is for the reason of the last change.
        let reason = if step.to == step.from { self.counts.reason } else { step.reason };
        self.counts = RateCounts {
            rate: step.to,
            delay: step.measure.delay,
            round_trip: step.measure.round_trip,
            flows: step.measure.flows,
            reason,
            ..self.counts
        };
    }

    /// Returns what is told of a step: once in a while, and only where the rate has become another
    /// one.
    fn news(&mut self, step: &Step) -> Option<String> {
        let change = |step: &Step| step.from.bits_per_second().abs_diff(step.to.bits_per_second());
        let largest = &mut self.largest[usize::from(step.to < step.from)];
        if largest.as_ref().is_none_or(|largest| change(largest) < change(step)) {
            *largest = Some(*step);
        }
        let (before, since) = self.told;
        let (old, new) = (before.bits_per_second(), step.to.bits_per_second());
        let is_other = old.abs_diff(new) > old / 8;
        if !is_other || step.measure.at.since(since) < NEWS_MIN {
            return None;
        }
        self.told = (step.to, step.measure.at);
        let largest = std::mem::take(&mut self.largest);
        let cause = largest[usize::from(new < old)].unwrap_or(*step);
        Some(told(&Step { to: step.to, ..cause }, before, &self.plan))
    }
}

/// Returns a step as text, from the rate that was told before it.
fn told(step: &Step, before: Rate, plan: &Plan) -> String {
    let ms = |time: Duration| time.as_nanos() / 1_000_000;
    let target = ms(plan.limits.target());
    let delay = step.measure.delay.map_or(0, ms);
    let why = match step.reason {
        Reason::Delay if step.above > Duration::ZERO => {
            format!("delay behind the link {delay} ms over {target} for {} ms", ms(step.above))
        }
        Reason::Delay => format!("a queue grows behind the link, delay {delay} ms of {target}"),
        Reason::Loss => "frames are lost behind the link".to_owned(),
        Reason::Load => format!("the load needs it, delay behind the link {delay} ms of {target}"),
        Reason::Idle => "the load is low".to_owned(),
        Reason::Blind => "nothing passes that tells the delay behind the link".to_owned(),
        Reason::Path => format!("paths have become {delay} ms longer"),
        Reason::Steady => format!("delay behind the link {delay} ms of {target}"),
    };
    let flows = match step.measure.flows {
        asked if step.measure.is_asked => format!(", by {asked} reflectors"),
        0 => String::new(),
        1 => ", 1 flow".to_owned(),
        flows => format!(", {flows} flows"),
    };
    format!("rate {before} → {}: {why}{flows}", step.to)
}

/// The least time between two events of a direction.
const NEWS_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_autorate::{Limits, Measure};

    fn mbit(rate: u64) -> Rate {
        Rate::new(rate * 1_000_000).expect("not zero")
    }

    #[test]
    fn what_is_told_of_a_second_is_why_the_rate_changed_most() {
        let target = Duration::from_millis(15);
        let limits = Limits::new(mbit(1), mbit(8), mbit(20), target).expect("they fit");
        let mut lane = VaryingLane::new(0, Plan { limits, controller: 0 }, Instant::ZERO);
        let mut news = |ms: u64, (from, to): (u64, u64), delay: u64| {
            let delay = Duration::from_millis(delay);
            let at = Instant::ZERO.after(Duration::from_millis(ms));
            let measure = Measure { at, delay: Some(delay), flows: 3, ..Measure::default() };
            let reason = if delay > target { Reason::Delay } else { Reason::Load };
            let above = Duration::from_millis(if delay > target { 50 } else { 0 });
            let (from, to, way) = (mbit(from), mbit(to), Way::Up);
            lane.news(&Step { way, from, to, reason, above, measure })
        };
        assert_eq!(news(100, (8, 4), 140), None, "too early");
        assert_eq!(news(500, (4, 5), 2), None, "too early");
        let text = news(1_000, (5, 5), 3).expect("it is another rate than was told");
        let wanted =
            "rate 8 Mbit/s → 5 Mbit/s: delay behind the link 140 ms over 15 for 50 ms, 3 flows";
        assert_eq!(text, wanted);
    }
}
