//! Policers and markers: what happens before the queue to packets above a rate [algorithms §10].
//!
//! A [`Meter`] returns each packet's outcome, *in* or *out*, or a colour, by tokens or an average;
//! an [`Action`] for each outcome says what happens to the packet. One file a meter, one line in
//! the registry. A meter belongs to a class or to a rule; the rule's own takes precedence. It
//! counts the charged length and never holds a packet back. Invariant: a packet meets one meter at
//! most.

mod bucket;

use crate::ids::{LeafId, MeterId};
use crate::packet::{Dscp, FieldError};
use crate::parameter::{BuildError, Parameter, Params};
use crate::state::{Reader, State, StateError, Writer, state};
use crate::units::{Bytes, Instant};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The treatment of packets with some outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// It goes on as it is.
    Pass,
    /// It is dropped before it reaches its leaf.
    Drop,
    /// It goes on with this DSCP; its ECN field stays.
    Mark(Dscp),
}

/// The properties of a packet that a meter uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metered {
    /// The length that schedulers charge.
    pub length: Bytes,
    /// The octet of DSCP and ECN.
    pub traffic_class: u8,
}

/// Decides whether packets conform to a rate.
pub trait Meter {
    /// Returns the packet's outcome, as its place in [`MeterDescriptor::outcomes`].
    fn measure(&mut self, now: Instant, packet: Metered) -> usize;
}

/// The registry's entry for a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterDescriptor {
    /// The keyword in a policy.
    pub keyword: &'static str,
    /// One sentence for lists and the reference.
    pub summary: &'static str,
    /// Its parameters, in the `police` table of a class or rule.
    pub parameters: &'static [Parameter],
    /// Its outcomes, from best to worst, each with its default action.
    pub outcomes: &'static [(&'static str, Action)],
    /// Keys of `docs/sources.md` with sections.
    pub sources: &'static [&'static str],
}

/// A meter that can be registered.
pub trait MeterDiscipline: Meter + State + Sized {
    /// Its entry in the registry.
    const DESCRIPTOR: MeterDescriptor;

    /// Builds the meter; one that draws random numbers draws them from the stream `id` of `seed`.
    ///
    /// # Errors
    /// When values contradict each other; the message names value, limit and cure.
    fn build(params: &Params, id: MeterId, seed: u64) -> Result<Self, BuildError>;
}

/// A meter with its actions, as planned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MeterPlan {
    /// The keyword of the meter.
    pub meter: &'static str,
    /// The meter's parameters, by keyword.
    pub params: Params,
    /// Actions that are not the default, by the outcome's name.
    pub actions: Vec<(&'static str, Action)>,
}

/// The treatment of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// It goes on unchanged.
    Pass,
    /// It goes on with this traffic class.
    Mark(u8),
    /// It is dropped before it reaches its leaf.
    Drop,
}

/// All meters of a link.
pub struct Police {
    meters: Vec<Policer>,
    /// The meter of each leaf that has one; leaves beyond the end have none.
    of_leaf: Vec<Option<MeterId>>,
}

struct Policer {
    meter: AnyMeter,
    actions: [Action; OUTCOMES_MAX],
}

impl MeterPlan {
    /// A meter with its default actions.
    pub const fn new(meter: &'static str, params: Params) -> Self {
        Self { meter, params, actions: Vec::new() }
    }

    /// Gives this code point to packets that would go on as they are.
    pub fn marking(mut self, dscp: Dscp) -> Self {
        let descriptor = METERS.iter().find(|row| row.keyword == self.meter);
        for (name, default) in descriptor.map_or(&[][..], |row| row.outcomes) {
            if self.action(name, *default) == Action::Pass {
                self.actions.retain(|row| row.0 != *name);
                self.actions.push((name, Action::Mark(dscp)));
            }
        }
        self
    }

    /// Returns the code point that every packet gets, if that is all that happens to packets.
    pub fn marks_all(&self) -> Option<Dscp> {
        let descriptor = METERS.iter().find(|row| row.keyword == self.meter)?;
        let &[(name, default)] = descriptor.outcomes else { return None };
        match self.action(name, default) {
            Action::Mark(dscp) => Some(dscp),
            Action::Pass | Action::Drop => None,
        }
    }

    /// Returns whether two plans of it may be one meter: it remembers nothing of packets.
    pub fn is_stateless(&self) -> bool {
        let descriptor = METERS.iter().find(|row| row.keyword == self.meter);
        descriptor.is_some_and(|row| row.parameters.is_empty())
    }

    /// Returns the action of the outcome `name`, whose default is `default`.
    fn action(&self, name: &str, default: Action) -> Action {
        self.actions.iter().find(|row| row.0 == name).map_or(default, |row| row.1)
    }
}

impl Police {
    /// Builds the meters of `plans`; the first has the number 0.
    ///
    /// # Errors
    /// When a keyword is not registered, a meter refuses its parameters, or there are too many.
    pub fn new(
        plans: &[MeterPlan],
        of_leaf: &[Option<MeterId>],
        seed: u64,
    ) -> Result<Self, BuildError> {
        let policer = |(index, plan): (usize, &MeterPlan)| {
            let id = MeterId::from_index(index).ok_or_else(too_many)?;
            let descriptor = METERS.iter().find(|row| row.keyword == plan.meter);
            let outcomes = descriptor.map_or(&[][..], |row| row.outcomes);
            let mut actions = [Action::Pass; OUTCOMES_MAX];
            for (action, &(name, default)) in actions.iter_mut().zip(outcomes) {
                *action = plan.action(name, default);
            }
            Ok(Policer { meter: AnyMeter::build(plan, id, seed)?, actions })
        };
        let meters = plans.iter().enumerate().map(policer).collect::<Result<_, _>>()?;
        Ok(Self { meters, of_leaf: of_leaf.to_vec() })
    }

    /// Takes over the meters of `old` that stay as they are, with their state; `stays` tells by
    /// number.
    pub fn inherit(&mut self, old: &mut Self, stays: &[bool]) {
        for ((policer, old), stays) in self.meters.iter_mut().zip(&mut old.meters).zip(stays) {
            if *stays {
                core::mem::swap(policer, old);
            }
        }
    }

    /// Returns what happens to a packet on its way to `leaf`, by the meter `own` of its rule or
    /// else that of the leaf.
    pub fn judge(
        &mut self,
        now: Instant,
        leaf: LeafId,
        own: Option<MeterId>,
        packet: Metered,
    ) -> Judgement {
        let of_leaf = || self.of_leaf.get(leaf.index()).copied().flatten();
        let Some(id) = own.or_else(of_leaf) else { return Judgement::Pass };
        let Some(policer) = self.meters.get_mut(id.index()) else { return Judgement::Pass };
        match policer.actions[policer.meter.measure(now, packet)] {
            Action::Pass => Judgement::Pass,
            Action::Drop => Judgement::Drop,
            Action::Mark(dscp) => {
                let marked = dscp.code() << 2 | packet.traffic_class & ECN_MASK;
                if marked == packet.traffic_class {
                    return Judgement::Pass;
                }
                Judgement::Mark(marked)
            }
        }
    }
}

state!(Police { meters; kept: of_leaf });
state!(Policer { meter; kept: actions });

impl FromStr for Action {
    type Err = FieldError;

    /// Reads `pass`, `drop`, or `mark` and a DSCP.
    fn from_str(text: &str) -> Result<Action, FieldError> {
        match text.split_once(' ') {
            None if text == "pass" => Ok(Action::Pass),
            None if text == "drop" => Ok(Action::Drop),
            Some(("mark", dscp)) => Ok(Action::Mark(dscp.trim_start().parse()?)),
            _ => Err(FieldError::new(
                "action",
                text,
                "is not an action of a policer",
                "write pass, drop, or mark with a DSCP, such as mark af12",
            )),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Pass => f.write_str("pass"),
            Action::Drop => f.write_str("drop"),
            Action::Mark(dscp) => write!(f, "mark {dscp}"),
        }
    }
}

macro_rules! meters {
    ($($module:ident::$name:ident,)*) => {
        $(pub mod $module;)*

        /// A meter of any kind.
        pub enum AnyMeter {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $name($module::$name),)*
        }

        /// The descriptors of all meters; the first is the default.
        pub const METERS: &[MeterDescriptor] =
            &[$(<$module::$name as MeterDiscipline>::DESCRIPTOR,)*];

        impl AnyMeter {
            /// Builds the meter of a plan.
            ///
            /// # Errors
            /// When the keyword is not registered or the meter refuses its parameters.
            pub fn build(plan: &MeterPlan, id: MeterId, seed: u64) -> Result<Self, BuildError> {
                $(if plan.meter == <$module::$name as MeterDiscipline>::DESCRIPTOR.keyword {
                    return Ok(AnyMeter::$name($module::$name::build(&plan.params, id, seed)?));
                })*
                Err(unknown_meter(plan.meter))
            }
        }

        impl State for AnyMeter {
            fn save(&self, to: &mut Writer) {
                match self {
                    $(AnyMeter::$name(meter) => meter.save(to),)*
                }
            }

            fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
                match self {
                    $(AnyMeter::$name(meter) => meter.load(from),)*
                }
            }
        }

        impl Meter for AnyMeter {
            #[inline]
            fn measure(&mut self, now: Instant, packet: Metered) -> usize {
                match self {
                    $(AnyMeter::$name(meter) => meter.measure(now, packet),)*
                }
            }
        }
    };
}

meters! {
    tbmeter::TbMeter,
    trtcm::TrTcm,
    tswtcm::TswTcm,
    unmetered::Unmetered,
}

fn unknown_meter(keyword: &str) -> BuildError {
    let mut message = alloc::format!("no meter is called `{keyword}`; there are");
    for descriptor in METERS {
        message.push_str(" `");
        message.push_str(descriptor.keyword);
        message.push('`');
    }
    BuildError::in_link("meter", message)
}

fn too_many() -> BuildError {
    let message = alloc::format!(
        "a link has at most {} meters; police whole classes instead of rules",
        MeterId::MAX
    );
    BuildError::in_link("police", message)
}

/// Makes a row of a meter's parameter table.
const fn row(
    name: &'static str,
    kind: crate::parameter::Kind,
    default: Option<&'static str>,
    summary: &'static str,
) -> Parameter {
    Parameter { name, scope: crate::parameter::Scope::Meter, kind, default, summary }
}

/// The outcomes of meters with three colours.
const COLOURS: &[(&str, Action)] =
    &[("green", Action::Pass), ("yellow", Action::Pass), ("red", Action::Drop)];
/// Their places in `COLOURS`.
const GREEN: usize = 0;
const YELLOW: usize = 1;
const RED: usize = 2;
/// The most outcomes that a meter has.
const OUTCOMES_MAX: usize = 3;
/// The bits of a traffic class that no marker changes `[rfc3168]`.
const ECN_MASK: u8 = 0b11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Value;
    use crate::units::Quantity;

    fn plan(out: Action) -> MeterPlan {
        let mut params = Params::new();
        for (name, text) in [("rate", "1 Mbit/s"), ("depth", "1500 B")] {
            let quantity: Quantity = text.parse().expect("rows hold quantities");
            params.set(name, Value::Quantity(quantity));
        }
        MeterPlan { meter: METERS[0].keyword, params, actions: alloc::vec![("out", out)] }
    }

    #[test]
    fn the_meter_of_a_rule_precedes_that_of_its_class_and_without_both_packets_pass() {
        let id = |index| MeterId::from_index(index);
        let ef = Dscp::new(46).expect("six bits");
        let plans = [plan(Action::Drop), plan(Action::Mark(ef))];
        let mut police = Police::new(&plans, &[None, id(0)], 0).expect("builds");
        let packet = Metered { length: Bytes::new(1500), traffic_class: 0b01 };
        let marked = Judgement::Mark(0xb9);
        // leaf, meter of the rule, what happens to the packet
        let rows = [
            (0, None, Judgement::Pass),
            (2, None, Judgement::Pass),
            (1, None, Judgement::Pass),
            (1, None, Judgement::Drop),
            (1, id(1), Judgement::Pass),
            (1, id(1), marked),
            (0, id(1), marked),
            (0, id(0), Judgement::Drop),
            (0, id(7), Judgement::Pass),
        ];
        for (row, (leaf, own, expected)) in rows.into_iter().enumerate() {
            let judgement = police.judge(Instant::ZERO, LeafId(leaf), own, packet);
            assert_eq!(judgement, expected, "row {row}");
        }
    }

    #[test]
    fn a_code_point_takes_the_place_of_passing() {
        let ef = Dscp::new(46).expect("six bits");
        let marks = |plan: &MeterPlan| {
            let outcomes = [("in", Action::Pass), ("out", Action::Drop)];
            outcomes.map(|(name, default)| plan.action(name, default))
        };
        let rows = [
            (Action::Drop, [Action::Mark(ef), Action::Drop]),
            (Action::Pass, [Action::Mark(ef), Action::Mark(ef)]),
            (
                Action::Mark(Dscp::of_traffic_class(0)),
                [Action::Mark(ef), Action::Mark(Dscp::of_traffic_class(0))],
            ),
        ];
        for (out, wanted) in rows {
            let plan = plan(out).marking(ef);
            assert_eq!(marks(&plan), wanted, "{out}");
            assert_eq!((plan.marks_all(), plan.is_stateless()), (None, false));
        }
        let all = MeterPlan::mark_all(ef);
        assert_eq!((all.marks_all(), all.is_stateless()), (Some(ef), true));
    }

    #[test]
    fn actions_read_as_they_print() {
        for text in ["pass", "drop", "mark af12", "mark ef", "mark 3"] {
            let action: Action = text.parse().expect("rows are actions");
            assert_eq!(alloc::format!("{action}"), text);
        }
        for text in ["", "Pass", "mark", "mark ", "mark 64", "mark af99", "drop it", "mark  ef x"] {
            assert!(text.parse::<Action>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_packet_with_the_mark_is_not_marked_again() {
        let ef = Dscp::new(46).expect("six bits");
        let mut police =
            Police::new(&[plan(Action::Mark(ef))], &[MeterId::from_index(0)], 0).expect("builds");
        let packet = Metered { length: Bytes::new(2000), traffic_class: 0xbb };
        let judgement = police.judge(Instant::ZERO, LeafId(0), None, packet);
        assert_eq!(judgement, Judgement::Pass);
    }
}
