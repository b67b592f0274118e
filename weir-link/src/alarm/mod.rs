//! Alarms: conditions on classes that a deployment watches, and what follows when one holds.
//!
//! The run loop leaves what the watched classes count in a gauge, once a second (`gauge.rs`).
//! Another thread computes the measures of that second and compares them ([`Alarms`]); an alarm
//! that begins or ends is an event, and another process runs the program of the alarm or tells its
//! webhook. Invariant: each alarm begins and ends in turn in each direction.

mod condition;
mod gauge;
mod guard;
mod window;

#[cfg(test)]
mod tests;

use weir_core::ids::ClassId;
use weir_core::units::Instant;
use weir_policy::Policy;
use weir_policy::deployment::{Alarm, Deployment};
use weir_policy::policy::{Metric, Promised};

use crate::bridge::Bridge;
use crate::events::fault::{Fault, Manner, Moment, Observation};
use crate::events::{About, Kind, Measured, Reporter};
use condition::{Condition, Second, class_of, measure, metric_of};
pub(crate) use gauge::{Gauge, Gauged, LeafMeasures};
pub use guard::{Broken, Guards};
use weir_host::wait::{monotonic_ns, realtime_ns};
use window::Window;

/// The alarms of a deployment, at work.
#[derive(Debug)]
pub struct Alarms {
    watched: Vec<Watched>,
    reporter: Reporter,
}

/// An alarm in one direction.
#[derive(Debug)]
struct Watched {
    name: String,
    /// The condition as written, the direction, and for how long, for people.
    when: String,
    class: String,
    condition: Condition,
    /// The last measured value and its limit, as text.
    measured: Measured,
    fault: Fault,
}

impl Alarms {
    /// Watches the classes that the alarms of a deployment name; `bridges` are those of the
    /// deployment, in its order, and count for it from now on.
    pub fn watch(deployment: &Deployment, bridges: &mut [Bridge], reporter: Reporter) -> Self {
        let (alarms, gauged) = Self::plan(deployment, reporter);
        bridges.iter_mut().zip(gauged).for_each(|(bridge, gauged)| bridge.gauge(gauged));
        alarms
    }

    /// As [`Alarms::watch`], for bridges that count later: returns what each of them is to count.
    pub(crate) fn plan(deployment: &Deployment, reporter: Reporter) -> (Self, Vec<Gauged>) {
        let mut watched = Vec::new();
        let mut gauged: Vec<_> = deployment.bridges.iter().map(|_| Gauged::default()).collect();
        for alarm in &deployment.alarms {
            for watch in &alarm.watches {
                let condition = Condition::of(watch, deployment, &mut gauged);
                let direction = &deployment.directions[watch.direction];
                let about = (direction.name.as_str(), &direction.policy);
                watched.extend(condition.map(|condition| Watched::new(alarm, about, condition)));
            }
        }
        (Self { watched, reporter }, gauged)
    }

    /// Goes on with alarms that began under the policies before.
    pub fn go_on_from(&mut self, before: Self) {
        for old in before.watched {
            let is_same = |new: &&mut Watched| new.name == old.name && new.when == old.when;
            if let Some(new) = self.watched.iter_mut().find(is_same) {
                (new.fault, new.measured) = (old.fault, old.measured);
            }
        }
    }

    /// Computes what is new, and tells which alarms began or ended. Call it a few times a second,
    /// from a thread that does not forward.
    pub fn check(&mut self) {
        for watched in &mut self.watched {
            if let Some(second) = watched.condition.newer() {
                watched.check(&second, &self.reporter);
            }
        }
    }
}

impl Watched {
    fn new(alarm: &Alarm, (direction, policy): (&str, &Policy), condition: Condition) -> Self {
        let class = class_of(&condition.promised.measure);
        let class = class.map(|class| policy.link.tree.class(class));
        Self {
            name: alarm.name.clone(),
            when: format!("`{}` in `{direction}`", alarm.when),
            class: class.map(|class| class.name.clone()).unwrap_or_default(),
            condition,
            measured: Measured::default(),
            fault: Fault::new(Manner {
                kind: Kind::AlarmBegan,
                patience: alarm.lasts,
                calm: alarm.lasts,
                is_state: false,
            }),
        }
    }

    fn check(&mut self, second: &Second, reporter: &Reporter) {
        let judged = judge(&self.condition.promised, &second.windows);
        let since = judged.holds.then_some(second.since);
        let observation = Observation { since, total: second.dropped };
        let age = Instant::from_nanos(monotonic_ns()).since(second.at).as_nanos();
        let moment = Moment { now: second.at, wall_ns: realtime_ns().saturating_sub(age) };
        // An alarm whose class fell silent ends with what was measured last.
        let verb = if judged.value.is_some() { "is" } else { "was" };
        let Measured { value, limit } = std::mem::take(&mut self.measured);
        self.measured =
            Measured { value: judged.value.unwrap_or(value), limit: judged.limit.unwrap_or(limit) };
        let measured = &self.measured;
        let detail = format!("{}: it {verb} {}", self.when, measured.value);
        let (subject, class) = (self.name.as_str(), self.class.as_str());
        let about = About { subject, class, detail: &detail, measured: Some(measured) };
        self.fault.observe(moment, observation, about, reporter);
    }
}

/// Whether a condition holds in a window, and by which measured value.
#[derive(Debug)]
struct Judged {
    holds: bool,
    /// The measured value, if there was anything to measure, and the limit.
    value: Option<String>,
    limit: Option<String>,
}

/// Compares the measures of a window: that of the class, and that of the class of the goal. What
/// was not measured, because no packet left, does not hold.
fn judge(condition: &Promised<ClassId>, windows: &[Window; 2]) -> Judged {
    let metric = metric_of(condition);
    let (value, goal) = measure(condition, windows);
    // A class that has nothing to send is in no trouble, however little it sends.
    let wants = metric == Metric::Rate && condition.comparison.wants_less();
    let may_hold = !wants || windows[0].waits;
    let holds = match (value, goal) {
        (Some(value), Some(goal)) => may_hold && condition.comparison.holds(value, goal),
        _ => false,
    };
    let text = |value: Option<f64>| value.map(|it| window::text(metric, it));
    Judged { holds, value: text(value), limit: text(goal) }
}
