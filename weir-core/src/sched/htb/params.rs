//! The parameters of HTB, their defaults, and what a class is built from [algorithms §5.2].

use crate::ids::ClassId;
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::sched::Tree;
use crate::units::{Bytes, Dimension, Rate};

/// The table of the descriptor.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "rate",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Rate),
        default: None,
        summary: "What the class may always send, whatever others do.",
    },
    Parameter {
        name: "ceil",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Rate),
        default: Some("rate"),
        summary: "The most it may send when its ancestors lend; at least its rate.",
    },
    Parameter {
        name: "burst",
        scope: Scope::Class,
        kind: Kind::Size(1, BURST_MAX),
        default: Some("4 ms of rate + 1600 B"),
        summary: "Bytes that it may send at once at its rate after a pause.",
    },
    Parameter {
        name: "cburst",
        scope: Scope::Class,
        kind: Kind::Size(1, BURST_MAX),
        default: Some("4 ms of ceil + 1600 B"),
        summary: "Bytes that it may send at once at its ceil after a pause.",
    },
    Parameter {
        name: "quantum",
        scope: Scope::Leaf,
        kind: Kind::Size(1, QUANTUM_MAX),
        default: Some("rate in byte/s / r2q, 1000 B to 200000 B, at least the largest packet"),
        summary: "Bytes that it sends per turn among siblings that borrow.",
    },
    Parameter {
        name: "prio",
        scope: Scope::Leaf,
        kind: Kind::Number(0, PRIO_MAX),
        default: Some("0"),
        summary: "0 goes first among those that may send at one level.",
    },
    Parameter {
        name: "r2q",
        scope: Scope::Link,
        kind: Kind::Number(1, u32::MAX as u64),
        default: Some("10"),
        summary: "What a rate in byte/s is divided by to give a default quantum.",
    },
];

/// The rates and bursts of a class.
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
    pub(super) fn new(tree: &Tree, id: ClassId) -> Result<Self, BuildError> {
        let class = tree.class(id);
        let Some(rate) = class.params.rate("rate") else {
            let message = alloc::format!(
                "class {}: htb needs a `rate` in every class; write the rate it is promised",
                class.name
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
        let burst =
            |name, rate| class.params.bytes(name).unwrap_or(default_burst(rate, tree.mtu()));
        Ok(Self { own: (rate, burst("burst", rate)), ceiling: (ceil, burst("cburst", ceil)) })
    }
}

impl LeafPlan {
    pub(super) fn new(tree: &Tree, id: ClassId, rate: Rate) -> Self {
        let params = &tree.class(id).params;
        let r2q = tree.params().number("r2q").unwrap_or(R2Q_DEFAULT).max(1);
        let by_rate = (rate.bits_per_second() / 8 / r2q).clamp(QUANTUM_LOW, QUANTUM_HIGH);
        // Below one packet a turn would be a packet whatever the quantum [algorithms §5.10 H4].
        let default = Bytes::new(by_rate.max(tree.mtu().get()));
        let quantum = params.bytes("quantum").unwrap_or(default).get().clamp(1, QUANTUM_MAX);
        let priority = params.number("prio").unwrap_or(0).min(PRIO_MAX);
        Self { quantum: quantum as u32, priority: priority as u8 }
    }
}

/// What tc writes with a tick of 250 Hz: 4 ms of the rate and 1600 B, or the largest packet if that
/// is more, so that a class which is asked late by a packet loses nothing.
fn default_burst(rate: Rate, mtu: Bytes) -> Bytes {
    Bytes::new(rate.bits_per_second() / 8 / TICK_HZ).plus(mtu.max(Bytes::new(BURST_LOW)))
}

const TICK_HZ: u64 = 250;
const BURST_LOW: u64 = 1600;
/// A terabyte: more than a minute at 100 Gbit/s.
const BURST_MAX: u64 = 1 << 40;
const R2Q_DEFAULT: u64 = 10;
const QUANTUM_LOW: u64 = 1000;
const QUANTUM_HIGH: u64 = 200_000;
/// A deficit and a quantum together fit 32 bits.
const QUANTUM_MAX: u64 = 1 << 30;
const PRIO_MAX: u64 = 7;
