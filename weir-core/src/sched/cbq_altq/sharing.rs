//! Which class may send: ALTQ's top-level rule, its estimator, suspension and waking
//! [algorithms §3.5-3.11].
//!
//! Invariant: no timer fires before `soonest`.

use super::class::{Class, Classes, Meter, NONE};
use super::clock::{FAR, Stamp, Ticks, micros_of};
use super::params::{Cap, Switches, mtu};
use super::rounds::Circle;
use super::spec::{FILTER_BITS, Limits};
use crate::ids::LeafId;
use crate::parameter::BuildError;
use crate::sched::{Regulation, Tree, Why};
use crate::state::state;
use crate::units::Instant;

pub(super) struct Sharing {
    pub classes: Classes,
    pub switches: Switches,
    /// The greatest depth that may lend; depths grow from the leaves up.
    pub cutoff: u8,
    /// The estimated end of transmission of all that was sent.
    pub ifnow: Stamp,
    /// The most that `ifnow` may run ahead of the clock, in µs.
    ahead_max: i64,
    /// ns per byte of the root, which ALTQ uses as the link's.
    link_ns: i64,
    ticks: Ticks,
    /// No suspended class is woken by its timer before this instant.
    soonest: Instant,
}

/// The permission to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Permission {
    /// The lender, if the class is overlimit.
    pub lender: Option<u32>,
}

impl Sharing {
    /// Builds the classes of `tree`; none has sent yet.
    pub fn build(tree: &Tree, switches: Switches) -> Result<Self, BuildError> {
        let classes = Classes::build(tree, &switches)?;
        let link_ns = classes.place(classes.root as u32).limits.ns;
        let packet_nanos = mtu(tree) as i64 * link_ns;
        let divisor = if packet_nanos > AHEAD_SLOW { 4 } else { 1 };
        Ok(Self {
            classes,
            switches,
            cutoff: CUTOFF_OPEN,
            ifnow: Stamp::UNSET,
            ahead_max: packet_nanos / 1000 * AHEAD_PACKETS / divisor,
            link_ns,
            ticks: Ticks::per_second(switches.hz),
            soonest: Instant::MAX,
        })
    }

    /// [algorithms §3.5] Records that a packet arrives for `leaf`: if the leaf or a lender of it is
    /// not overlimit, the cutoff falls to the depth of that class.
    pub fn arrive(&mut self, now: Stamp, leaf: LeafId) {
        let class = self.classes.of_leaf(leaf);
        let before = |at: &u32| self.classes.at(*at).undertime() < now;
        let below = |at: &u32| self.classes.place(*at).depth < self.cutoff;
        // The first two rules: for the class itself, and for a lender of one that is overlimit.
        let left_out = self.switches.rule_left_out;
        let mut found = self.classes.lenders(class).take_while(below).find(before);
        if left_out == 1 || left_out == 2 {
            let is_left_out = |at: &u32| (*at as usize == class) == (left_out == 1);
            found = found.filter(|at| !is_left_out(at));
        }
        self.cutoff = found.map_or(self.cutoff, |at| self.classes.place(at).depth);
    }

    /// [algorithms §3.7] Lets the parent lend, overlimit or not: `efficient`.
    pub fn lend_anyway(&mut self, class: usize) -> Permission {
        let lender = self.classes.list[class].parent;
        self.cutoff = self.classes.place(lender).depth;
        Permission { lender: Some(lender) }
    }

    /// [algorithms §3.6] Returns a permission if the class may send. A class that may not is
    /// suspended, unless the cutoff alone forbids it.
    pub fn permit(&mut self, now: Stamp, class: usize) -> Option<Permission> {
        let own = Some(Permission { lender: None });
        let this = &self.classes.list[class];
        let undertime = this.undertime();
        if !undertime.is_set() {
            return own;
        }
        if this.sleeps() {
            if now < undertime {
                return None;
            }
            self.wake(class, now.instant());
            return own;
        }
        let (mut at, mut top) = (class as u32, None);
        while now < self.classes.at(at).undertime() {
            let Some(above) = self.classes.lender(at) else {
                self.suspend(now, class, top);
                return None;
            };
            if self.classes.place(above).depth > self.cutoff {
                return None;
            }
            (at, top) = (above, Some(above));
        }
        Some(Permission { lender: (at != class as u32).then_some(at) })
    }

    /// [algorithms §3.10] Suspends an overlimit class; `top` is the last class that might have
    /// lent, which is overlimit, too.
    fn suspend(&mut self, now: Stamp, class: usize, top: Option<u32>) {
        // The offtime is the lender's, unless that one is as far overlimit as it can be.
        let floored = |at: &u32| {
            self.classes.at(*at).meter().avgidle == self.classes.place(*at).limits.minidle
        };
        let offtime_of = top.filter(|at| !floored(at)).map_or(class, |at| at as usize);
        let offtime = self.classes.place(offtime_of as u32).limits.offtime;
        let delay = if self.switches.offtime_replaces {
            self.delay_replaced(now, class, offtime)
        } else {
            self.delay_added(now, class, offtime)
        };
        let Some(delay) = delay else { return };
        let class = &mut self.classes.list[class];
        // The next tick may follow at once, so a short wait takes two.
        let ticks = if delay > TICKS_MIN * self.ticks.micros() {
            self.ticks.until(class.undertime(), now)
        } else {
            TICKS_MIN
        };
        let timer = self.ticks.fires(now, ticks);
        class.suspend(timer);
        self.soonest = self.soonest.min(timer);
    }

    /// ALTQ 1.x: adds the offtime, and subtracts the delay that the average alone demands. A class
    /// whose undertime is before the estimated end of transmission is not suspended.
    fn delay_added(&mut self, now: Stamp, class: usize, offtime: i64) -> Option<i64> {
        let class = &mut self.classes.list[class];
        let meter = class.meter();
        let corrected = self.switches.overtime_correction;
        let overtime = if corrected { now.max(self.ifnow) } else { now };
        let delay = meter.undertime.since(overtime);
        if delay <= 0 {
            return None;
        }
        let undertime = meter.undertime.plus(offtime).plus((31 * meter.avgidle) >> FILTER_BITS);
        let slips = self.switches.tv_negative_slip;
        class.set_undertime(if slips { undertime.slipped() } else { undertime.settled() });
        Some(delay + offtime)
    }

    /// ALTQ 2.0 and later: replaces the packet's time by the offtime if that is longer.
    fn delay_replaced(&mut self, now: Stamp, class: usize, offtime: i64) -> Option<i64> {
        let class = &mut self.classes.list[class];
        let meter = class.meter();
        let delay = meter.undertime.since(now);
        let extra = (offtime - meter.last_packet_time).max(0);
        class.set_undertime(meter.undertime.plus(extra));
        Some(delay + extra)
    }

    /// [algorithms §3.11] Wakes the classes whose timers have fired; returns how many fired at
    /// `now`.
    pub fn fire_timers(&mut self, now: Instant) -> u32 {
        if now < self.soonest {
            return 0;
        }
        let mut just_now = 0;
        for class in 0..self.classes.list.len() {
            let Class { event, .. } = self.classes.list[class];
            if self.classes.list[class].sleeps() && event <= now {
                self.wake(class, event);
                just_now += u32::from(event == now);
            }
        }
        self.soonest = self.first_timer().unwrap_or(Instant::MAX);
        just_now
    }

    /// Returns when the first timer fires.
    fn first_timer(&self) -> Option<Instant> {
        self.classes.list.iter().filter(|class| class.sleeps()).map(|class| class.event).min()
    }

    /// Returns whether the watchdog calls the driver at `now`.
    pub fn is_watched(&self, now: Stamp) -> bool {
        self.switches.watchdog && self.ticks.is_watched(now)
    }

    fn wake(&mut self, class: usize, at: Instant) {
        let class = &mut self.classes.list[class];
        class.wake(at);
        if self.switches.wake_clears_undertime {
            class.set_undertime(Stamp::UNSET);
        }
    }

    /// [algorithms §3.9] Updates the estimators of `class`, which sent a packet of `length`, and of
    /// its ancestors.
    pub fn update(&mut self, now: Stamp, class: usize, length: i64) {
        if self.switches.at_completion {
            self.ifnow = now;
        } else {
            self.advance_ifnow(now, micros_of(length * self.link_ns));
        }
        let base = if self.switches.undertime_from_end { self.ifnow } else { now };
        let mut at = class as u32;
        while at != NONE {
            let (class, plan) = self.classes.at_with_plan(at as usize);
            let underlimit = class.estimate(&plan.place.limits, self.ifnow, base, length);
            if underlimit && class.sleeps() {
                class.wake(now.instant());
            }
            at = class.parent;
        }
    }

    /// Adds the time of a packet to the estimated end of transmission.
    fn advance_ifnow(&mut self, now: Stamp, packet_time: i64) {
        if now >= self.ifnow {
            self.ifnow = now.plus(packet_time);
            return;
        }
        let ahead = self.ifnow.since(now);
        self.ifnow = match self.switches.cap {
            Cap::Clamp if ahead + packet_time >= self.ahead_max => now.plus(self.ahead_max),
            Cap::Reset if ahead + packet_time >= self.ahead_max => now,
            _ => self.ifnow.plus(packet_time),
        };
    }

    /// [algorithms §3.9] Moves the cutoff after `class` sent what `lender` lent.
    pub fn depart(&mut self, now: Stamp, class: usize, lender: u32, circles: &[Circle]) {
        let depth = self.classes.place(lender).depth;
        if self.cutoff < depth {
            return;
        }
        let backlog = self.classes.list[class].backlog;
        let ends =
            backlog <= self.switches.depart_packets || now < self.classes.at(lender).undertime();
        self.cutoff = if ends { self.unsatisfied_depth(now, circles) } else { depth };
    }

    /// Returns the depth of the first class that is not satisfied, in ALTQ's order of search.
    fn unsatisfied_depth(&self, now: Stamp, circles: &[Circle]) -> u8 {
        let mut classes =
            circles.iter().rev().flat_map(|circle| circle.since_active(&self.classes));
        let found = classes.find(|&class| !self.is_satisfied(now, class));
        found.map_or(CUTOFF_OPEN, |class| self.classes.place(class).depth)
    }

    fn is_satisfied(&self, now: Stamp, class: u32) -> bool {
        let this = self.classes.at(class);
        if now < this.undertime() {
            return true;
        }
        if self.classes.place(class).depth == 0 {
            return this.sleeps() || this.backlog == 0;
        }
        self.classes.children(class).all(|child| self.is_satisfied(now, child))
    }

    /// Returns when the driver is called next, if nothing arrives and no class may send now.
    ///
    /// The watchdog calls it every ten ticks as long as a packet waits. A call before the earliest
    /// undertime changes nothing, so it is left out. Without a watchdog such a call is the last
    /// resort of a class that waits and is not suspended.
    pub fn called_next(&self, now: Stamp) -> Instant {
        let timer = self.first_timer();
        if !self.switches.watchdog
            && let Some(timer) = timer
        {
            return timer;
        }
        if self.switches.one_packet_a_call && !self.switches.watchdog {
            // Nothing calls the driver then; since each packet sent does, that time never comes.
            return now.plus(FAR).instant();
        }
        let waiting = (0..self.classes.list.len()).filter(|&at| self.classes.list[at].backlog > 0);
        let earliest = waiting.map(|class| self.undertime_of(class).micros()).min();
        let watchdog = self.ticks.watchdog(now, earliest.unwrap_or(0));
        timer.map_or(watchdog, |timer| timer.min(watchdog))
    }

    /// Returns what held `class` back; `lender` lends if it is sent now.
    pub fn why(&self, now: Stamp, class: usize, lender: Option<u32>) -> Why {
        let own = &self.classes.list[class];
        let until = match lender {
            Some(lender) => self.classes.at(lender).undertime(),
            None if now < own.undertime() => self.undertime_of(class),
            None => own.undertime(),
        };
        let mut released = if until.is_set() { until.instant() } else { Instant::ZERO };
        if lender.is_none() && now >= own.undertime() && !own.sleeps() {
            released = released.max(own.event);
        }
        if released == Instant::ZERO && lender.is_none() {
            return Why::FREE;
        }
        let lender = lender.and_then(|lender| self.classes.name(lender));
        Why { released, regulation: Regulation::Undertime, level: 0, lender }
    }

    /// Takes over the estimators of `old` for pairs of a new class and an old one.
    pub fn inherit(&mut self, old: &Self, pairs: impl Iterator<Item = (usize, usize)>) {
        let roots = (self.classes.root, old.classes.root);
        let named = |sharing: &Self, class: usize| sharing.classes.name(class as u32).is_some();
        let nameless = !named(self, roots.0) && !named(old, roots.1);
        self.ifnow = old.ifnow;
        for (new, before) in pairs.chain(nameless.then_some(roots)) {
            let (class, plan) = self.classes.at_with_plan(new);
            let before = &old.classes.list[before];
            let Limits { minidle, maxidle, .. } = plan.place.limits;
            let avgidle = before.meter().avgidle.clamp(minidle, maxidle);
            class.set_meter(Meter { avgidle, ..before.meter() });
            if before.sleeps() {
                class.suspend(before.event);
                self.soonest = self.soonest.min(before.event);
            } else {
                class.wake(before.event);
            }
        }
    }

    /// Returns the first instant at which a class may be permitted, if its timer does not fire
    /// before.
    pub fn undertime_of(&self, class: usize) -> Stamp {
        let own = self.classes.list[class].undertime();
        let lenders = self.classes.lenders(class).map(|at| self.classes.at(at).undertime());
        if self.classes.list[class].sleeps() { own } else { lenders.min().unwrap_or(own) }
    }

    /// Whether no timer is overlooked.
    pub fn is_sound(&self) -> bool {
        self.first_timer().is_none_or(|timer| self.soonest <= timer)
    }
}

impl Class {
    /// Computes the average idle time after a packet that ends at `ifnow`, and the undertime, which
    /// counts from `base`; returns whether the class is underlimit.
    fn estimate(&mut self, limits: &Limits, ifnow: Stamp, base: Stamp, length: i64) -> bool {
        let mut meter = self.meter();
        let idle = ifnow.since(meter.last);
        if idle >= FAR {
            meter.avgidle = limits.maxidle;
        }
        let packet_time = micros_of(length * limits.ns);
        meter.avgidle += idle - packet_time - (meter.avgidle >> FILTER_BITS);
        let underlimit = meter.avgidle > 0;
        if underlimit {
            meter.avgidle = meter.avgidle.min(limits.maxidle);
            meter.undertime = Stamp::UNSET;
        } else {
            meter.avgidle = meter.avgidle.max(limits.minidle);
            // The time in which the average comes back to zero [algorithms §3.9].
            let back = packet_time + ((-31 * meter.avgidle) >> FILTER_BITS);
            meter.undertime = base.plus(back);
        }
        meter.last = ifnow;
        meter.last_packet_time = packet_time;
        self.set_meter(meter);
        underlimit
    }
}

/// The cutoff that forbids nothing: every class has a smaller depth.
pub(super) const CUTOFF_OPEN: u8 = 32;
/// The most by which the estimated end of transmission runs ahead, in largest packets; a quarter of
/// that where such a packet takes more than 10 ms [algorithms §3.9].
const AHEAD_PACKETS: i64 = 16;
const AHEAD_SLOW: i64 = 10_000_000;
/// The shortest suspension in ticks, which lasts between one and two tick lengths.
const TICKS_MIN: i64 = 2;

state!(Sharing {
    classes, cutoff, ifnow, soonest; kept: switches, ahead_max, link_ns, ticks
});
