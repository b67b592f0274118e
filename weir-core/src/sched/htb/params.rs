//! The parameters of HTB, their defaults, and the parsed parameters of a class [algorithms §5.2].

use crate::ids::ClassId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::sched::Tree;
use crate::sched::service::Bucket;
use crate::units::{Bytes, Dimension, Rate};

/// The defaults, which differ between the two forms.
pub(in crate::sched) struct Defaults {
    /// The name in messages.
    pub(in crate::sched) keyword: &'static str,
    /// The frequency of the tick; a default burst is what the rate sends in one tick,
    pub(in crate::sched) tick_hz: u64,
    /// Added to the default burst.
    pub(in crate::sched) burst_low: Bytes,
    /// The least default quantum.
    pub(in crate::sched) quantum_low: Bytes,
}

pub(in crate::sched) const RATE: Parameter = Parameter {
    name: "rate",
    scope: Scope::Class,
    kind: Kind::Quantity(Dimension::Rate),
    default: None,
    summary: "What the class may always send, whatever others do.",
};
pub(in crate::sched) const CEIL: Parameter = Parameter {
    name: "ceil",
    scope: Scope::Class,
    kind: Kind::Quantity(Dimension::Rate),
    default: Some("rate"),
    summary: "The highest rate at which it sends when its ancestors lend; at least its rate.",
};
pub(in crate::sched) const PRIO: Parameter = Parameter {
    name: "prio",
    scope: Scope::Leaf,
    kind: Kind::Number(0, PRIO_MAX),
    default: Some("0"),
    summary: "0 goes first among those that may send at one level.",
};
pub(in crate::sched) const R2Q: Parameter = Parameter {
    name: "r2q",
    scope: Scope::Link,
    kind: Kind::Number(1, u32::MAX as u64),
    default: Some("10"),
    summary: "The divisor of a rate in byte/s that gives the default quantum.",
};

pub(in crate::sched) const fn burst(default: &'static str) -> Parameter {
    Parameter {
        name: "burst",
        scope: Scope::Class,
        kind: Kind::Size(1, BURST_MAX),
        default: Some(default),
        summary: "Bytes that it may send at once at its rate after a pause.",
    }
}

pub(in crate::sched) const fn cburst(default: &'static str) -> Parameter {
    let summary = "Bytes that it may send at once at its ceil after a pause.";
    Parameter { name: "cburst", summary, ..burst(default) }
}

pub(in crate::sched) const fn quantum(default: &'static str) -> Parameter {
    Parameter {
        name: "quantum",
        scope: Scope::Leaf,
        kind: Kind::Size(1, QUANTUM_MAX),
        default: Some(default),
        summary: "Bytes that it sends per turn among siblings that borrow.",
    }
}

/// The rates and bursts of a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassPlan {
    pub(super) own: (Rate, Bytes),
    pub(super) ceiling: (Rate, Bytes),
}

/// The turns of a leaf.
pub(super) struct LeafPlan {
    pub(super) quantum: u32,
    pub(super) priority: u8,
}

impl ClassPlan {
    pub(super) fn new(tree: &Tree, id: ClassId, defaults: &Defaults) -> Result<Self, BuildError> {
        let class = tree.class(id);
        let Some(rate) = class.params.rate("rate") else {
            let message = alloc::format!(
                "class {}: {} needs a `rate` in every class; write the rate it is promised",
                class.name,
                defaults.keyword
            );
            return Err(BuildError::in_class(id, "rate", message));
        };
        let ceil = class.params.rate("ceil").unwrap_or(rate);
        if ceil < rate {
            let message = alloc::format!(
                "class {}: ceil {} bit/s is below its rate {} bit/s, which it could never reach; \
                 raise `ceil` or lower `rate`",
                class.name,
                ceil.bits_per_second(),
                rate.bits_per_second()
            );
            return Err(BuildError::in_class(id, "ceil", message));
        }
        let burst = |name, rate| class.params.bytes(name).unwrap_or(defaults.burst(rate));
        Ok(Self { own: (rate, burst("burst", rate)), ceiling: (ceil, burst("cburst", ceil)) })
    }
}

impl LeafPlan {
    pub(super) fn new(tree: &Tree, id: ClassId, rate: Rate, defaults: &Defaults) -> Self {
        let params = &tree.class(id).params;
        let r2q = tree.params().number("r2q").unwrap_or(R2Q_DEFAULT).max(1);
        let by_rate = (rate.bits_per_second() / 8 / r2q).clamp(QUANTUM_LOW, QUANTUM_HIGH);
        let default = Bytes::new(by_rate).max(defaults.quantum_low);
        let quantum = params.bytes("quantum").unwrap_or(default).get().clamp(1, QUANTUM_MAX);
        let priority = params.number("prio").unwrap_or(0).min(PRIO_MAX);
        Self { quantum: quantum as u32, priority: priority as u8 }
    }
}

impl LeafPlan {
    /// Returns what a leaf may always send; a packet may take its tokens below zero.
    pub(super) fn bucket(tree: &Tree, id: ClassId, defaults: &Defaults) -> Option<Bucket> {
        let ClassPlan { own, ceiling } = ClassPlan::new(tree, id, defaults).ok()?;
        let leaf = Self::new(tree, id, own.0, defaults);
        Some(Bucket {
            rate: own.0,
            burst: own.1,
            // Idle time counts for both buckets, and the smaller overflows first.
            saves: own.1.min(ceiling.1),
            debt: tree.mtu(),
            rank: leaf.priority.into(),
            turn: Some(Bytes::new(leaf.quantum.into())),
        })
    }
}

impl Defaults {
    fn burst(&self, rate: Rate) -> Bytes {
        Bytes::new(rate.bits_per_second() / 8 / self.tick_hz).plus(self.burst_low)
    }
}

/// A terabyte: more than a minute at 100 Gbit/s.
const BURST_MAX: u64 = 1 << 40;
const R2Q_DEFAULT: u64 = 10;
const QUANTUM_LOW: u64 = 1000;
const QUANTUM_HIGH: u64 = 200_000;
/// A deficit and a quantum together fit 32 bits.
const QUANTUM_MAX: u64 = 1 << 30;
const PRIO_MAX: u64 = 7;
