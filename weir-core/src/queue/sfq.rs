//! Stochastic fairness queueing in one leaf, as in Linux: flows take turns by allotment, and a full
//! leaf drops from its longest flow [mckenney90; linux] [algorithms §9.9].
//!
//! `flows.rs` has the flows, `ring.rs` their turns and lengths. Any scheduler may have such leaves.
//! The scheduler of the same name gives turns to leaves.
//!
//! Linux hashes with a new seed each `perturb` seconds, if that is set; here the hash stays, so
//! packets of a flow stay in their order. Linux's RED in each flow is not here either.
//!
//! Invariant: within a flow packets leave in their order, and in a turn a flow sends a quantum,
//! less what the turn before overdrew, and one packet more at most.

use super::flows::{FlowQueues, Order, Room};
use super::ring::RingPlan;
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, limit, row,
};
use crate::account::Count;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;

/// Flow queues in a ring.
pub struct Sfq {
    flows: Box<FlowQueues>,
}

impl DropperDiscipline for Sfq {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "sfq",
        summary: "Flows of the leaf take turns in a ring; the longest drops when the leaf is full.",
        parameters: &[
            limit("127 packets"),
            row(
                "depth",
                Kind::Number(1, DEPTH_MAX),
                "127",
                "The most packets of a flow; another one is dropped.",
            ),
            row(
                "flows",
                Kind::Number(1, FLOWS_MAX),
                "128",
                "The most flows at a time; a packet of another flow is dropped.",
            ),
            row(
                "divisor",
                Kind::Number(1, DIVISOR_MAX),
                "1024",
                "The number of hash values: flows with the same share a queue.",
            ),
            row(
                "quantum",
                Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                "1514 B",
                "Bytes that a flow may send per round.",
            ),
            row(
                "unit",
                Kind::Size(1, UNIT_MAX),
                "1 B",
                "Turns count lengths in these, rounded up; 8 B in older kernels of Linux.",
            ),
            row(
                "headdrop",
                Kind::Flag,
                "false",
                "Whether a flow drops its first packet, not its last.",
            ),
            row(
                "hash",
                Kind::Choice(FlowKey::WORDS),
                "flow",
                "What a flow is: a connection (`flow`), or all packets from one address, to one, \
                 or between two.",
            ),
        ],
        sources: &["mckenney90", "linux sch_sfq", "algorithms §9.9"],
    };

    fn build(params: &Params, _place: Place) -> Result<Self, BuildError> {
        let number =
            |name, default, most: u64| params.number(name).unwrap_or(default).clamp(1, most) as u32;
        let size = |name, default, least, most| {
            let size = params.bytes(name).unwrap_or(Bytes::new(default)).get();
            size.clamp(least, most) as u32
        };
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        let queues = number("divisor", DIVISOR_DEFAULT, DIVISOR_MAX);
        let plan = RingPlan {
            flows: number("flows", FLOWS_DEFAULT, FLOWS_MAX).min(queues),
            depth: number("depth", DEPTH_MAX, DEPTH_MAX),
            unit: size("unit", 1, 1, UNIT_MAX),
            quantum: size("quantum", QUANTUM_DEFAULT, QUANTUM_MIN, QUANTUM_MAX),
            from_head: params.flag("headdrop") == Some(true),
        };
        let memory = Bytes::new(u64::MAX);
        let room = Room { queues, order: Order::Ring(plan), limit, memory, passes: true };
        Ok(Self { flows: Box::new(FlowQueues::new(room)) })
    }
}

impl Dropper for Sfq {
    fn admit(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.flows)
    }
}

/// Bound: packets of one flow in `sfq`; a further one is dropped. Linux's limit, and its default.
const DEPTH_MAX: u64 = 127;
const FLOWS_DEFAULT: u64 = 128;
/// Bound: flows of `sfq` at a time; a policy with more is refused. Linux's: flows and depths share
/// numbers of 16 bits there.
const FLOWS_MAX: u64 = 65_408;
const DIVISOR_DEFAULT: u64 = 1024;
/// Bound: hash values of flows in `sfq`; a policy with more is refused.
const DIVISOR_MAX: u64 = 1 << 16;
/// An Ethernet frame of the usual MTU.
const QUANTUM_DEFAULT: u64 = 1514;
/// With less, a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;
const UNIT_MAX: u64 = 64;

// The store writes the flows, with their packets.
state!(Sfq { ; kept: flows });
