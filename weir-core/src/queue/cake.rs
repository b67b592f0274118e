//! CAKE in one leaf: tins by DSCP, flows in each that take turns, hosts that share quanta, COBALT
//! for each flow `[linux]` [algorithms §9.20].
//!
//! `tins` has the tins and turns, `flows.rs` the packets. The shaper of Linux's discipline is the
//! link, or the class, that the leaf belongs to; so any class of any scheduler may have such a
//! queue. The limits are enforced after the arriving packet was admitted, from the front of the
//! longest flow of all tins, so that packet may be the one dropped.
//!
//! The classifier passes hosts and flow on (`QueuePlan::flow_key`), since only the port has the
//! headers.
//!
//! Invariant: within a flow packets leave in their order, and the last packet of a flow is dropped
//! by no COBALT.

use super::flows::{AckFilter, FlowQueues, Order, Room};
use super::lateness::{INTERVAL, TARGET};
use super::tins::{PLACES, Sides, TinMap, TinsPlan, memory};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, HASH, Limit, Place,
    Release, limit, refused, row,
};
use crate::account::Count;
use crate::packet::FlowKey;
use crate::parameter::{BuildError, Kind, Params};
use crate::state::state;
use crate::units::{Dimension, Duration, Instant};
use alloc::boxed::Box;
use alloc::format;

/// Tins, flows and hosts by turns, with COBALT.
pub struct Cake(Box<State>);

struct State {
    flows: FlowQueues,
    /// Whether nothing follows from the rate of the link.
    outlives_rate: bool,
}

impl DropperDiscipline for Cake {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "cake",
        summary: "Tins by DSCP, flows and hosts by turns; COBALT limits the delay of each flow.",
        parameters: &[
            row(
                "tins",
                Kind::Choice(TinMap::WORDS),
                TinMap::WORDS[0],
                "Which DSCPs have priority within which part of the rate.",
            ),
            row(
                HASH,
                Kind::Choice(FlowKey::PAIR_WORDS),
                FlowKey::PAIR_WORDS[0],
                "Who takes turns: connections (`flows`), all packets of an address or of two \
                 (`srchost`, `dsthost`, `hosts`), one queue for all (`flowblind`), or connections \
                 whose quanta are divided by the number of busy flows of their source, \
                 destination, or the busier of both (`dual-srchost`, `dual-dsthost`, \
                 `triple-isolate`).",
            ),
            row(
                "rate",
                Kind::Quantity(Dimension::Rate),
                "that of the link",
                "The rate that the leaf may count on: tins have their parts of it, and quanta, \
                 targets and memory follow from it.",
            ),
            row(
                "unlimited",
                Kind::Flag,
                "false",
                "Whether no rate is known: tins take turns by weight.",
            ),
            limit("10240 packets"),
            row(
                "memory",
                Kind::Size(1, MEMORY_MAX),
                "what the rate sends in four intervals, at least 4 MiB",
                "The most memory that packets take, as Linux counts it: 2304 bytes for 1514.",
            ),
            TARGET,
            INTERVAL,
            row("wash", Kind::Flag, "false", "Whether packets leave without their DSCP."),
            row(
                "ack_filter",
                Kind::Choice(ACK_FILTERS),
                ACK_FILTERS[0],
                "Whether waiting acknowledgements of TCP are dropped that a later one makes \
                 redundant: all but one (`spare`), or all (`aggressive`).",
            ),
        ],
        sources: &["linux sch_cake", "algorithms §9.20"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        let unlimited = params.flag("unlimited") == Some(true);
        let written = params.rate("rate");
        if unlimited && written.is_some() {
            let cure = "a cake has a `rate` or is `unlimited`; remove one of them";
            return refused("unlimited", cure.into());
        }
        let rate = written.or(Some(place.rate)).filter(|_| !unlimited);
        let map = TinMap::of_word(params.choice("tins").unwrap_or_default());
        let word = params.choice(HASH).unwrap_or(FlowKey::PAIR_WORDS[0]);
        let time = |row: &str, default| {
            params.duration(row).unwrap_or(Duration::from_millis(default)).max(SHORTEST)
        };
        let (target, interval) = (time(TARGET.name, 5), time(INTERVAL.name, 100));
        if target > interval {
            let cure = "the interval is the time of a round trip, and the target a part of it; \
                        write a `target` of a twentieth of `interval`";
            return refused(TARGET.name, cure.into());
        }
        let least = MEMORY_MIN.max(2 * place.mtu.get());
        let written_memory = params.bytes("memory");
        if written_memory.is_some_and(|memory| memory.get() < least) {
            let cure =
                format!("no packet fits into less; write at least {least} B, or leave it out");
            return refused("memory", cure);
        }
        let plan = TinsPlan {
            map,
            divides: match FlowKey::of_word(word) {
                FlowKey::WithinBoth => Sides::Both,
                FlowKey::WithinSource | FlowKey::WithinDestination => Sides::One,
                _ => Sides::None,
            },
            rate,
            target,
            interval,
            mtu: place.mtu.get().min(u64::from(u32::MAX)) as u32,
            washes: params.flag("wash") == Some(true),
            acks: match params.choice("ack_filter") {
                Some("spare") => Some(AckFilter::Spare),
                Some("aggressive") => Some(AckFilter::Aggressive),
                _ => None,
            },
            seed: place.seed,
        };
        let room = Room {
            queues: (map.tins() * PLACES) as u32,
            order: Order::Tins(plan),
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            memory: written_memory.unwrap_or_else(|| memory(rate, interval)),
            passes: false,
        };
        let outlives_rate = unlimited || written.is_some();
        Ok(Self(Box::new(State { flows: FlowQueues::new(room), outlives_rate })))
    }
}

impl Dropper for Cake {
    fn admit(&mut self, _now: Instant, _arriving: Candidate, _backlog: Count) -> Admission {
        Admission::Accept
    }

    fn release(&mut self, now: Instant, first: Candidate, _backlog: Count) -> Release {
        self.0.flows.release(now, first)
    }

    fn outlives_rate(&self) -> bool {
        self.0.outlives_rate
    }

    fn flows(&self) -> Option<&FlowQueues> {
        Some(&self.0.flows)
    }

    fn flows_mut(&mut self) -> Option<&mut FlowQueues> {
        Some(&mut self.0.flows)
    }
}

const MEMORY_MAX: u64 = 1 << 40;
/// The least memory: a packet of an Ethernet counts 2304 bytes.
const MEMORY_MIN: u64 = 4096;
/// Which acknowledgements are dropped; the default first.
const ACK_FILTERS: &[&str] = &["none", "spare", "aggressive"];
/// The shortest target and interval, as in Linux.
const SHORTEST: Duration = Duration::from_micros(1);

state!(Cake(state));
// The store writes the flows, with their packets.
state!(State { ; kept: flows, outlives_rate });
