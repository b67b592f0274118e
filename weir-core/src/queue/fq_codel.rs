//! FQ-CoDel in one leaf: flows take turns, new flows first, and CoDel limits the delay of each
//! [rfc8290 §4; linux] [algorithms §9.7].
//!
//! `flows.rs` has the flows and their turns; `lateness.rs` decides when a packet is late, with the
//! backlog of the leaf, as in Linux, or of its flow, as in the RFC. Any scheduler may have such
//! leaves. The limit is enforced after the arriving packet was admitted, so that packet may be the
//! one dropped.
//!
//! `hash` says what a flow is. The classifier passes it on (`QueuePlan::flow_key`), since only the
//! port has the headers; so hosts take turns by the same lists as connections do.
//!
//! Invariant: within a flow packets leave in their order, and a flow that sends less than a quantum
//! in a round of the others waits for one such round at most, and one packet.

use super::flows::{FlowQueues, Order, Room};
use super::lateness::{ECN_ON, INTERVAL, Lateness, Patience, TARGET};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, Release,
    limit, row,
};
use crate::account::Count;
use crate::order::rounds::Rules;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Flow queueing with CoDel.
pub struct FqCodel(Box<State>);

struct State {
    flows: FlowQueues,
    rules: Rules,
    patience: Patience,
    /// By the flow's number; as long as the highest number in use.
    latenesses: Vec<Lateness>,
}

impl DropperDiscipline for FqCodel {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "fq-codel",
        summary: "Flows of the leaf take turns; CoDel limits the delay of each.",
        parameters: &[
            limit("10240 packets"),
            row(
                "memory",
                Kind::Size(1, MEMORY_MAX),
                "32 MB",
                "The most charged bytes that the leaf holds, beside `limit`.",
            ),
            row(
                "flows",
                Kind::Number(1, QUEUES_MAX),
                "1024",
                "Queues for flows: flows with the same hash share one.",
            ),
            row(
                "quantum",
                Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                "1514 B",
                "Bytes that a flow may send per round.",
            ),
            row(
                Rules::NAME,
                Rules::KIND,
                Rules::DEFAULT,
                "Linux's turns of flows and backlog for CoDel, or the letter of RFC 8290.",
            ),
            row(
                "hash",
                Kind::Choice(FlowKey::WORDS),
                "flow",
                "What a flow is: a connection (`flow`), or all packets from one address, to one, \
                 or between two.",
            ),
            TARGET,
            INTERVAL,
            ECN_ON,
        ],
        sources: &["rfc8290 §4", "rfc8289", "linux sch_fq_codel", "algorithms §9.7"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let size = |name, default| params.bytes(name).unwrap_or(Bytes::new(default));
        let queues = params.number("flows").unwrap_or(QUEUES_DEFAULT);
        let quantum = size("quantum", QUANTUM_DEFAULT).get().clamp(QUANTUM_MIN, QUANTUM_MAX) as u32;
        let rules = Rules::from_params(params);
        let room = Room {
            queues: queues.clamp(1, QUEUES_MAX) as u32,
            order: Order::Rounds(rules, quantum),
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            memory: size("memory", MEMORY_DEFAULT),
            passes: rules == Rules::Linux,
        };
        Ok(Self(Box::new(State {
            flows: FlowQueues::new(room),
            rules,
            patience: Patience::from_params(params, place, true).with_newton(rules == Rules::Linux),
            latenesses: Vec::new(),
        })))
    }
}

impl Dropper for FqCodel {
    fn admit(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    fn release(&mut self, now: Instant, first: Candidate, backlog: Count) -> Release {
        let State { flows, rules, patience, latenesses } = &mut *self.0;
        if flows.first_passed() {
            return Release::Send;
        }
        let (flow, of_flow, began) = flows.first();
        if latenesses.len() <= flow as usize {
            latenesses.resize(flow as usize + 1, Lateness::default());
        }
        let lateness = &mut latenesses[flow as usize];
        if *rules == Rules::Linux {
            lateness.overflowed(flows.take_overflow());
        }
        let (lapsed, backlog) = match rules {
            // CoDel notices that a flow is empty when it looks for a packet there.
            Rules::Linux => (flows.take_lapse(), backlog),
            Rules::Rfc8290 => (began, of_flow),
        };
        if lapsed {
            lateness.emptied();
        }
        lateness.release(patience, now, first, backlog)
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.0.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.0.flows)
    }
}

const MEMORY_DEFAULT: u64 = 32_000_000;
const MEMORY_MAX: u64 = 1 << 40;
const QUEUES_DEFAULT: u64 = 1024;
/// Bound: queues for flows, as many as hash values; a policy with more is refused.
const QUEUES_MAX: u64 = 1 << 16;
/// An Ethernet frame of the usual MTU.
const QUANTUM_DEFAULT: u64 = 1514;
/// With less, a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;

state!(FqCodel(state));
// The store writes the flows, with their packets.
state!(State { ; rows: latenesses; kept: flows, rules, patience });
