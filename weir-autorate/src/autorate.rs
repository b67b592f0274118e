//! The rates of a link's two directions: one estimator, and a controller for each.

use crate::controller::{Controller, Decision, Limits, Reason};
use crate::estimator::{Estimator, INTERVAL};
use crate::frame::{Frame, Way};
use crate::measure::{Measure, Shaper};
use crate::reflectors::Echo;
use crate::table::Ticket;
use alloc::boxed::Box;
use weir_core::packet::Headers;
use weir_core::state::{Reader, State, StateError, Writer};
use weir_core::units::{Duration, Instant, Rate};

/// The control of a direction's rate; one for each [`Way`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Between which rates, and for which delay.
    pub limits: Limits,
    /// Its place in [`crate::controller::CONTROLLERS`].
    pub controller: usize,
}

/// A rate that was decided at the end of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The direction.
    pub way: Way,
    /// The rate until now.
    pub from: Rate,
    /// The rate from now on; it may be the same.
    pub to: Rate,
    /// Why.
    pub reason: Reason,
    /// For how long the delay has been above the target.
    pub above: Duration,
    /// The measure by which it was decided.
    pub measure: Measure,
}

/// The rates of a link.
pub struct Autorate {
    estimator: Estimator,
    directors: [Option<Director>; 2],
    last: Instant,
}

/// The controller of a direction, with the rules that hold for each controller.
pub struct Director {
    plan: Plan,
    controller: Box<dyn Controller>,
    rate: Rate,
    /// When something was measured last.
    told: Instant,
    /// Since when the delay has been above the target.
    above: Option<Instant>,
    /// The rate when nothing was measured any more.
    blind_from: Option<Rate>,
}

impl Autorate {
    /// The rates of a link from `start` on; a direction without a plan keeps its rate, which is
    /// `nominal` in bit/s. One that is smaller than the other's base counts by that.
    pub fn new(plans: [Option<Plan>; 2], nominal: [u64; 2], start: Instant) -> Self {
        Self::with_reflectors(plans, nominal, (start, 0))
    }

    /// As [`Autorate::new`], with so many reflectors that may be asked ([`Autorate::echo`]).
    pub fn with_reflectors(
        plans: [Option<Plan>; 2],
        nominal: [u64; 2],
        (start, reflectors): (Instant, usize),
    ) -> Self {
        let own = |plan: Plan| plan.limits.base().bits_per_second();
        let usual = plans.iter().flatten().map(|plan| own(*plan)).max().unwrap_or_default();
        let base = |way: usize| plans[way].map_or(nominal[way].max(usual), own);
        Self {
            estimator: Estimator::new([base(0), base(1)], reflectors),
            directors: plans.map(|plan| plan.map(|plan| Director::new(plan, start))),
            last: start,
        }
    }

    /// See [`Estimator::frame`].
    #[inline]
    pub fn frame(
        &mut self,
        at: Instant,
        way: Way,
        headers: &Headers,
        bytes: &[u8],
    ) -> Option<Ticket> {
        self.estimator.frame(at, way, headers, bytes)
    }

    /// See [`Estimator::arrive`].
    pub fn arrive(&mut self, at: Instant, way: Way, frame: &Frame) -> Option<Ticket> {
        self.estimator.arrive(at, way, frame)
    }

    /// See [`Estimator::leave`].
    #[inline]
    pub fn leave(&mut self, at: Instant, ticket: Ticket) {
        self.estimator.leave(at, ticket);
    }

    /// Returns the echo to send now that an interval has ended, if there is one: nothing that
    /// passes tells the delay, and the line is loaded.
    pub fn echo(&mut self) -> Option<Echo> {
        self.estimator.echo()
    }

    /// Notes that the echo with this number left towards the modem at `at`.
    pub fn echo_left(&mut self, at: Instant, number: u16) {
        self.estimator.echo_left(at, number);
    }

    /// Notes that the answer to the echo with this number arrived at `at`.
    pub fn echoed(&mut self, at: Instant, number: u16) {
        self.estimator.echoed(at, number);
    }

    /// Returns the rate of a direction now, if it is controlled.
    pub fn rate(&self, way: Way) -> Option<Rate> {
        self.directors[way as usize].as_ref().map(|director| director.rate)
    }

    /// Returns when the interval ends: call [`Autorate::end_interval`] then.
    pub fn due(&self) -> Instant {
        self.last.after(INTERVAL)
    }

    /// Ends the interval at `now`, and returns the step of each direction that is controlled.
    pub fn end_interval(&mut self, now: Instant, shapers: &[Shaper; 2]) -> [Option<Step>; 2] {
        if now < self.last {
            self.estimator.forget();
        }
        let length = now.since(self.last);
        self.last = now;
        let measures = self.estimator.end_interval(now, length, shapers);
        let mut rebase = false;
        let steps = Way::ALL.map(|way| {
            let director = self.directors[way as usize].as_mut()?;
            let (step, forgets) = director.step(way, &measures[way as usize]);
            rebase |= forgets;
            Some(step)
        });
        if rebase {
            self.estimator.rebase(now);
        }
        steps
    }
}

impl Director {
    /// A direction that begins with its base.
    pub fn new(plan: Plan, start: Instant) -> Self {
        Self {
            plan,
            controller: crate::controller::build(plan.controller),
            rate: plan.limits.base(),
            told: start,
            above: None,
            blind_from: None,
        }
    }

    /// Decides by what was measured; also returns whether paths have become longer without a queue.
    pub fn step(&mut self, way: Way, measure: &Measure) -> (Step, bool) {
        let (now, from) = (measure.at, self.rate);
        let is_above = measure.delay.is_some_and(|delay| delay > self.plan.limits.target());
        self.above = is_above.then(|| self.above.unwrap_or(now).min(now));
        // A clock that went back is no silence.
        self.told = if measure.delay.is_some() { now } else { self.told.min(now) };
        let silent = now.since(self.told);
        let decision = if silent > BLIND {
            let start = *self.blind_from.get_or_insert(from);
            let rate = self.homeward(start, silent);
            Decision { rate, reason: Reason::Blind, rebase: false }
        } else {
            self.blind_from = None;
            self.controller.decide(&self.plan.limits, from, measure)
        };
        self.rate = self.plan.limits.within(from, decision.rate);
        let above = self.above.map_or(Duration::ZERO, |since| now.since(since));
        let to = self.rate;
        let step = Step { way, from, to, reason: decision.reason, above, measure: *measure };
        (step, decision.rebase)
    }

    /// Returns the rate on the way from `start` to the base, after this much silence.
    fn homeward(&self, start: Rate, silent: Duration) -> Rate {
        let base = i128::from(self.plan.limits.base().bits_per_second());
        let start = i128::from(start.bits_per_second());
        let part = i128::from((silent.as_nanos() - BLIND.as_nanos()).min(RETURN.as_nanos()));
        let rate = start + (base - start) * part / i128::from(RETURN.as_nanos());
        Rate::new(rate.max(1) as u64).unwrap_or(Rate::MIN)
    }
}

impl State for Director {
    fn save(&self, to: &mut Writer) {
        to.number(self.rate.bits_per_second());
        self.told.save(to);
        self.above.save(to);
        self.blind_from.map(Rate::bits_per_second).save(to);
        self.controller.save(to);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let limits = &self.plan.limits;
        let within = |rate: u64| {
            Rate::new(rate)
                .filter(|rate| limits.holds(*rate))
                .ok_or(StateError::Invalid("rate outside its limits"))
        };
        self.rate = within(from.number()?)?;
        self.told.load(from)?;
        self.above.load(from)?;
        let mut blind: Option<u64> = None;
        blind.load(from)?;
        self.blind_from = blind.map(within).transpose()?;
        self.controller.load(from)
    }
}

impl State for Autorate {
    fn save(&self, to: &mut Writer) {
        self.last.save(to);
        self.estimator.save(to);
        self.directors.iter().flatten().for_each(|director| director.save(to));
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.last.load(from)?;
        self.estimator.load(from)?;
        self.directors.iter_mut().flatten().try_for_each(|director| director.load(from))
    }
}

/// Nothing measured for so long is blindness: the rate begins to return to its base.
const BLIND: Duration = Duration::from_millis(1_000);
/// How long the return takes. With [`BLIND`] and an interval it is less than 2 s.
const RETURN: Duration = Duration::from_millis(800);
