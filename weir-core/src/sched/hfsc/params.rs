//! The parameters of HFSC, and the curves that they give a class [algorithms §6.1].

use super::runtime::Spec;
use crate::ids::ClassId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::sched::Tree;
use crate::sched::service::Curve;
use crate::units::{Dimension, Rate};

/// The table of the descriptor.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "rate",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Rate),
        default: Some("none"),
        summary: "Real-time and link-share curve in one: what the class may always send.",
    },
    Parameter {
        name: "delay",
        scope: Scope::Leaf,
        kind: Kind::Quantity(Dimension::Duration),
        default: Some("the time of `packet` at `rate`"),
        summary: "After a pause its first packet is out within this time, which `rate` may exceed.",
    },
    Parameter {
        name: "packet",
        scope: Scope::Leaf,
        kind: Kind::Size(1, PACKET_MAX),
        default: Some("the largest packet"),
        summary: "The longest packet that `delay` is to hold for.",
    },
    curve_rate("rt_m1", Scope::Leaf, "0, with `rt_d`", "Real-time curve: its first slope."),
    curve_time("rt_d", Scope::Leaf, "Real-time curve: how long its first slope lasts."),
    curve_rate("rt_m2", Scope::Leaf, "rate", "Real-time curve: its slope for ever after."),
    curve_rate("ls_m1", Scope::Class, "0, with `ls_d`", "Link-share curve: its first slope."),
    curve_time("ls_d", Scope::Class, "Link-share curve: how long its first slope lasts."),
    curve_rate("ls_m2", Scope::Class, "as `rate`", "Link-share curve: its slope for ever after."),
    curve_rate("ul_m1", Scope::Class, "0, with `ul_d`", "Upper limit: its first slope."),
    curve_time("ul_d", Scope::Class, "Upper limit: how long its first slope lasts."),
    curve_rate("ul_m2", Scope::Class, "no limit", "Upper limit: its slope for ever after."),
    Parameter {
        name: "limit_credit",
        scope: Scope::Link,
        kind: Kind::Choice(&["bounded", "linux", "altq"]),
        default: Some("bounded"),
        summary: "How much an active class that sends less than its upper limit may make good: what \
                  its turn may cost it, everything, or a largest packet or nothing.",
    },
    Parameter {
        name: "rules",
        scope: Scope::Link,
        kind: Kind::Choice(&["exact", "linux"]),
        default: Some("exact"),
        summary: "Exact curves, or Linux's: ticks of 64 ns, whole bytes, and its order of equals.",
    },
];

const fn curve_rate(
    name: &'static str,
    scope: Scope,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    let kind = Kind::Quantity(Dimension::Rate);
    Parameter { name, scope, kind, default: Some(default), summary }
}

const fn curve_time(name: &'static str, scope: Scope, summary: &'static str) -> Parameter {
    let kind = Kind::Quantity(Dimension::Duration);
    Parameter { name, scope, kind, default: Some("0 s"), summary }
}

/// The curves of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClassPlan {
    pub(super) real_time: Option<Spec>,
    pub(super) link_share: Option<Spec>,
    pub(super) upper_limit: Option<Spec>,
}

/// The parameters of one curve.
struct Names {
    m1: &'static str,
    d: &'static str,
    m2: &'static str,
}

impl ClassPlan {
    pub(super) fn new(tree: &Tree, id: ClassId) -> Result<Self, BuildError> {
        let leaf = tree.leaf_of(id).is_some();
        let common = common_curve(tree, id)?;
        let real_time = curve(tree, id, REAL_TIME)?;
        if !leaf && real_time.is_some() {
            let cure = "has children, which real-time curves are for; write them there";
            return Err(refusal(tree, id, "rt_m2", cure));
        }
        let plan = Self {
            real_time: real_time.or(common.filter(|_| leaf)),
            link_share: curve(tree, id, LINK_SHARE)?.or(common),
            upper_limit: curve(tree, id, UPPER_LIMIT)?,
        };
        plan.check(tree, id)?;
        Ok(plan)
    }

    /// The curve that is kept whatever others do.
    pub(super) fn guarantee(&self) -> Option<Curve> {
        self.real_time.map(|Spec { m1, d, m2 }| Curve { m1, d, m2 })
    }

    fn check(&self, tree: &Tree, id: ClassId) -> Result<(), BuildError> {
        if tree.leaf_of(id).is_none() && self.link_share.is_none() {
            let cure = "has no part of the link to hand on; write `rate` or `ls_m2`";
            return Err(refusal(tree, id, "rate", cure));
        }
        if self.real_time.is_none() && self.link_share.is_none() {
            let cure = "would never send; write `rate`, `rt_m2` or `ls_m2`";
            return Err(refusal(tree, id, "rate", cure));
        }
        if self.upper_limit.is_some() && self.link_share.is_none() {
            let cure = "has an upper limit, which holds only link sharing back, but no link-share \
                        curve; take it out, or write `ls_m2`";
            return Err(refusal(tree, id, "ul_m2", cure));
        }
        Ok(())
    }
}

/// The curve of `rate` and `delay`: so steep at first that a packet is out within the delay.
fn common_curve(tree: &Tree, id: ClassId) -> Result<Option<Spec>, BuildError> {
    let params = &tree.class(id).params;
    let (delay, packet) = (params.duration("delay"), params.bytes("packet"));
    let Some(rate) = params.rate("rate") else {
        let unused = [("delay", delay.is_some()), ("packet", packet.is_some())];
        return match unused.into_iter().find(|row| row.1) {
            Some((name, _)) => {
                let cure = alloc::format!("has a `{name}` but no `rate` that it shapes; write one");
                Err(refusal(tree, id, name, &cure))
            }
            None => Ok(None),
        };
    };
    let Some(delay) = delay else {
        if packet.is_some() {
            let cure = "has a `packet` but no `delay` that it counts for; write one";
            return Err(refusal(tree, id, "packet", cure));
        }
        return Ok(Some(Spec::linear(rate)));
    };
    let packet = packet.unwrap_or(tree.mtu());
    if rate.transmit_time(packet) <= delay {
        return Ok(Some(Spec::linear(rate)));
    }
    // Rounded up: the packet is out within the delay, not just after it.
    let bits = u128::from(packet.get()) * 8 * NANOS_PER_SECOND;
    let m1 = bits.div_ceil(u128::from(delay.as_nanos().max(1)));
    Ok(Some(Spec { m1: u64::try_from(m1).unwrap_or(u64::MAX), d: delay, m2: rate }))
}

/// The curve that is written under `names`, if any of it is.
fn curve(tree: &Tree, id: ClassId, names: Names) -> Result<Option<Spec>, BuildError> {
    let params = &tree.class(id).params;
    let (m1, d) = (params.rate(names.m1), params.duration(names.d));
    let written = params.rate(names.m2);
    if m1.is_none() && d.is_none() && written.is_none() {
        return Ok(None);
    }
    if m1.is_some() && d.is_none() {
        let cure = alloc::format!(
            "has `{}` but not how long it lasts; write `{}`, or take it out",
            names.m1,
            names.d
        );
        return Err(refusal(tree, id, names.m1, &cure));
    }
    let Some(m2) = written.or(params.rate("rate").filter(|_| names.m2 != UPPER_LIMIT.m2)) else {
        let cure = alloc::format!("has half a curve; write `{}`, its last slope", names.m2);
        return Err(refusal(tree, id, names.m2, &cure));
    };
    let m1 = m1.map_or(0, Rate::bits_per_second);
    Ok(Some(d.map_or(Spec::linear(m2), |d| Spec { m1, d, m2 })))
}

fn refusal(tree: &Tree, id: ClassId, parameter: &'static str, cure: &str) -> BuildError {
    let message = alloc::format!("class {}: {cure}", tree.class(id).name);
    BuildError::in_class(id, parameter, message)
}

const REAL_TIME: Names = Names { m1: "rt_m1", d: "rt_d", m2: "rt_m2" };
const LINK_SHARE: Names = Names { m1: "ls_m1", d: "ls_d", m2: "ls_m2" };
const UPPER_LIMIT: Names = Names { m1: "ul_m1", d: "ul_d", m2: "ul_m2" };
const PACKET_MAX: u64 = 65_535;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
