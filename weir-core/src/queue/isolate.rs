//! Isolation of hosts and flows in one leaf: hosts take turns, then the flows of a host, new ones
//! first, and CoDel limits the delay of each flow [rfc8290 §4; linux] [algorithms §9.10].
//!
//! `hosts.rs` has the turns, `lateness.rs` decides when a packet is late, with the backlog of its
//! flow alone. The limit is enforced after the arriving packet was admitted, from the front of the
//! longest flow of the host that holds most, so that packet may be the one dropped.
//!
//! The classifier passes host and flow on (`QueuePlan::flow_key`), since only the port has the
//! headers. With `flows` alone there is one host, and this is FQ-CoDel without collisions.
//!
//! Invariant: hosts that always wait send equal numbers of bytes, but for two quanta and a packet,
//! however many flows each has; so do flows that always wait within a host.

use super::flows::{FlowQueues, Order, Room};
use super::hosts::{FLOWS_MAX, HostsPlan};
use super::lateness::{ECN_ON, INTERVAL, Lateness, Patience, TARGET};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, Release,
    SHORT_KEY, limit, row,
};
use crate::account::Count;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Hosts, and flows within each, by turns; with CoDel.
pub struct Isolate(Box<State>);

struct State {
    flows: FlowQueues,
    patience: Patience,
    /// By the flow's number; as long as the highest number in use.
    latenesses: Vec<Lateness>,
}

impl DropperDiscipline for Isolate {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "isolate",
        summary: "Hosts take turns, then the flows of each; CoDel limits the delay of each flow.",
        parameters: &[
            row(
                SHORT_KEY,
                Kind::Choice(FlowKey::ISOLATION_WORDS),
                "flows",
                "Who takes turns: flows, or hosts by an address and then the flows of each. \
                 `isolate` in the class says the same in short.",
            ),
            limit("2048 packets"),
            row(
                "memory",
                Kind::Size(1, MEMORY_MAX),
                "32 MB",
                "The most charged bytes that the leaf holds, beside `limit`.",
            ),
            row(
                "quantum",
                Kind::Size(QUANTUM_MIN, QUANTUM_MAX),
                "1514 B",
                "Bytes that a host may send per round, and a flow per round of its host.",
            ),
            TARGET,
            INTERVAL,
            ECN_ON,
        ],
        sources: &["rfc8290 §4", "rfc8289", "linux sch_cake", "algorithms §9.10"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let size = |name, default| params.bytes(name).unwrap_or(Bytes::new(default));
        let quantum = size("quantum", QUANTUM_DEFAULT).get().clamp(QUANTUM_MIN, QUANTUM_MAX) as u32;
        let room = Room {
            queues: FLOWS_MAX as u32,
            order: Order::Hosts(HostsPlan { quantum, seed: place.seed }),
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            memory: size("memory", MEMORY_DEFAULT),
            passes: false,
        };
        Ok(Self(Box::new(State {
            flows: FlowQueues::new(room),
            patience: Patience::from_params(params, place, true),
            latenesses: Vec::new(),
        })))
    }
}

impl Dropper for Isolate {
    fn admit(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    fn release(&mut self, now: Instant, first: Candidate, _backlog: Count) -> Release {
        let State { flows, patience, latenesses } = &mut *self.0;
        let (flow, backlog, began) = flows.first();
        if latenesses.len() <= flow as usize {
            latenesses.resize(flow as usize + 1, Lateness::default());
        }
        let lateness = &mut latenesses[flow as usize];
        if flows.take_lapse() || began {
            lateness.emptied();
        }
        let release = lateness.release(patience, now, first, backlog);
        if !matches!(release, Release::Drop(_)) {
            flows.waited(now.since(first.arrived));
        }
        release
    }

    fn outlives_rate(&self) -> bool {
        true
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
/// An Ethernet frame of the usual MTU.
const QUANTUM_DEFAULT: u64 = 1514;
/// With less, a packet of 65 535 bytes would need more than a thousand rounds.
const QUANTUM_MIN: u64 = 64;
const QUANTUM_MAX: u64 = 1 << 30;

state!(Isolate(state));
// The store writes the flows, with their packets.
state!(State { ; rows: latenesses; kept: flows, patience });
