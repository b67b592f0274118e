//! Linux's `fq` in one leaf: flows take turns, new flows first, and each may have a largest rate;
//! up to three bands share the leaf by weights [linux sch_fq] [algorithms §9.22].
//!
//! `paced.rs` has the turns. Linux takes a socket for a flow; a bridge has none, so a flow is here
//! what it is there for packets without a socket: a hash. For the same reason a packet has no
//! instant before which it may not leave (`SO_TXTIME`), and no horizon beyond which it is dropped:
//! only `maxrate` paces. A band follows from the TOS, as a router of Linux sets the priority.
//! Without `bands` the turns are those of Linux before 6.7, with them those of later versions, but
//! for the packets that pass an empty queue by there.
//!
//! Invariant: within a flow packets leave in their order; a flow with `maxrate` sends, over any
//! time, at most a quantum and a packet more than that rate.

use super::flows::{FlowQueues, Order, Room};
use super::paced::{BANDS, PacedPlan, QUANTUM, QUANTUM_MAX, QUANTUM_MIN};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, Limit, Place, Reading,
    Release, limit, row,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Bytes, Dimension, Duration, Instant};
use alloc::boxed::Box;

/// Turns of paced flows.
pub struct Fq(Box<State>);

struct State {
    flows: FlowQueues,
    limit: Limit,
    /// The most packets of one flow.
    flow_limit: u64,
    /// The most packets of one band.
    band_limit: u64,
    paces: bool,
}

impl DropperDiscipline for Fq {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "fq",
        summary: "Flows of the leaf take turns, each at a largest rate if it is written.",
        parameters: &[
            limit("10000 packets"),
            row("flow_limit", PACKETS, "100", "The most packets of one flow."),
            row("quantum", SIZE, "3028 B", "Bytes that a flow may send per round."),
            row(
                "initial_quantum",
                SIZE,
                "15140 B",
                "Bytes that a flow that was not seen before may send in its first round.",
            ),
            row(
                "maxrate",
                Kind::Quantity(Dimension::Rate),
                "none",
                "The largest rate of each flow; its packets wait until they are due.",
            ),
            row(
                "low_rate_threshold",
                Kind::Quantity(Dimension::Rate),
                "550 kbit/s",
                "With a `maxrate` up to this a flow waits after each packet, above it after each \
                 quantum.",
            ),
            row(
                "refill_delay",
                TIME,
                "40 ms",
                "The time after which a flow that was idle has a whole quantum again.",
            ),
            row(
                "ce_threshold",
                TIME,
                "none",
                "How long after it was due a packet of a sender that understands ECN leaves \
                 unmarked.",
            ),
            row(
                "flows",
                Kind::Number(1, QUEUES_MAX),
                "1024",
                "Queues for flows: flows with the same hash share one.",
            ),
            row(
                "hash",
                Kind::Choice(FlowKey::WORDS),
                "flow",
                "What a flow is: a connection (`flow`), or all packets from one address, to one, \
                 or between two.",
            ),
            row(
                "bands",
                Kind::Choice(&["none", "tos"]),
                "none",
                "Whether a TOS of low delay goes to a band of its own, and one of bulk to another.",
            ),
            row("weight0", WEIGHT, "589824", "Bytes of the band of low delay in its turn."),
            row("weight1", WEIGHT, "196608", "Bytes of the band of most packets in its turn."),
            row("weight2", WEIGHT, "65536", "Bytes of the band of bulk in its turn."),
            row("band_limit", PACKETS, "10000", "The most packets of one band."),
        ],
        sources: &["linux sch_fq", "algorithms §9.22"],
    };

    fn build(params: &Params, _place: Place) -> Result<Self, BuildError> {
        let number = |name, default| params.number(name).unwrap_or(default);
        let size = |name, default: Bytes| {
            params.bytes(name).unwrap_or(default).get().clamp(QUANTUM_MIN, QUANTUM_MAX) as i64
        };
        let weight = |name, default| number(name, default).clamp(WEIGHT_MIN, WEIGHT_MAX) as i64;
        let has_bands = params.choice("bands") == Some("tos");
        let weights: [i64; BANDS] =
            [weight("weight0", 9 << 16), weight("weight1", 3 << 16), weight("weight2", 1 << 16)];
        let low = params.rate("low_rate_threshold");
        let plan = PacedPlan {
            quantum: size("quantum", QUANTUM),
            quantum_first: size("initial_quantum", Bytes::new(5 * QUANTUM.get())),
            refill: params.duration("refill_delay").unwrap_or(Duration::from_millis(40)),
            rate: params.rate("maxrate"),
            rate_low: low.map_or(RATE_LOW, |rate| rate.bits_per_second()),
            late: params.duration("ce_threshold"),
            weights: has_bands.then_some(weights),
        };
        let limit = Limit::from_params(params, &Self::DESCRIPTOR);
        let room = Room {
            queues: number("flows", QUEUES_DEFAULT).clamp(1, QUEUES_MAX) as u32,
            order: Order::Paced(plan),
            limit,
            memory: Bytes::new(u64::MAX),
            passes: false,
        };
        Ok(Self(Box::new(State {
            flows: FlowQueues::new(room),
            limit,
            flow_limit: number("flow_limit", 100),
            band_limit: if has_bands { number("band_limit", 10_000) } else { u64::MAX },
            paces: plan.rate.is_some(),
        })))
    }
}

impl Dropper for Fq {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let State { flows, limit, flow_limit, band_limit, .. } = &mut *self.0;
        flows.at(now);
        let of_band =
            flows.paced().map_or(0, |paced| paced.in_band(arriving.traffic_class).packets);
        if !limit.fits(arriving.length, backlog) || of_band >= *band_limit {
            return Admission::Refuse(DropReason::Full);
        }
        let (_, of_flow) = flows.arriving(arriving.flow);
        if of_flow.packets >= *flow_limit {
            return Admission::Refuse(DropReason::Longest);
        }
        Admission::Accept
    }

    fn release(&mut self, _now: Instant, first: Candidate, _backlog: Count) -> Release {
        let is_late = self.0.flows.paced().is_some_and(|paced| paced.is_late());
        if is_late && first.is_markable() { Release::Mark } else { Release::Send }
    }

    fn outlives_rate(&self) -> bool {
        true
    }

    fn paces(&self) -> bool {
        self.0.paces
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.0.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.0.flows)
    }

    fn reading(&self) -> Option<Reading> {
        let waits = self.0.flows.paced()?.delayed() as u64;
        Some(Reading { what: "flows that wait until they are due", thousandths: 1000 * waits })
    }
}

const TIME: Kind = Kind::Quantity(Dimension::Duration);
const SIZE: Kind = Kind::Size(QUANTUM_MIN, QUANTUM_MAX);
const PACKETS: Kind = Kind::Number(1, PACKETS_MAX);
const WEIGHT: Kind = Kind::Number(WEIGHT_MIN, WEIGHT_MAX);
const PACKETS_MAX: u64 = u32::MAX as u64;
/// As in Linux, where a band with less would be asked too often.
const WEIGHT_MIN: u64 = 1 << 13;
const WEIGHT_MAX: u64 = i32::MAX as u64;
const RATE_LOW: u64 = 550_000;
const QUEUES_DEFAULT: u64 = 1024;
/// Bound: queues for flows of FQ, as many as hash values; a policy with more is refused.
const QUEUES_MAX: u64 = 1 << 16;

state!(Fq(state));
// The store writes the flows, with their packets.
state!(State { ; kept: flows, limit, flow_limit, band_limit, paces });
