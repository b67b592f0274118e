//! The flows that are followed: a table of sets of four, bounded in all and for each host.

use crate::flow::Flow;
use crate::frame::FlowId;
use crate::round::PROBES;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use weir_core::state::{Reader, State, StateError, Writer};
use weir_core::units::{Duration, Instant};

/// Names the frame of a probe between its arrival and its leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(NonZeroU32);

impl Ticket {
    /// Names the probe at a place of the flow in `slot`: its way, and its number there.
    pub(crate) fn new(slot: usize, generation: u16, probe: (usize, usize)) -> Option<Ticket> {
        let place = (slot << PROBE_BITS | probe.1 << 1 | probe.0) as u32;
        let bits = u32::from(generation & GENERATIONS) << PLACE_BITS | place;
        NonZeroU32::new(bits + 1).map(Ticket)
    }

    pub(crate) fn slot(self) -> usize {
        (self.bits() as usize >> PROBE_BITS) % FLOWS_MAX
    }

    pub(crate) fn probe(self) -> (usize, usize) {
        let bits = self.bits() as usize;
        (bits & 1, (bits >> 1) % PROBES)
    }

    /// Returns whether it was made for a flow of this generation.
    pub(crate) fn is_of(self, generation: u16) -> bool {
        self.bits() >> PLACE_BITS == u32::from(generation & GENERATIONS)
    }

    fn bits(self) -> u32 {
        self.0.get() - 1
    }
}

/// The flows that are followed.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable {
    /// The key of the flow in each place, 0 for none.
    keys: Vec<u64>,
    flows: Vec<Flow>,
    /// Flows of the hosts with this number.
    hosts: Vec<u8>,
    /// Counts the flows that were ever followed.
    generation: u16,
    /// How many more may join in this interval.
    pub joins: u32,
}

impl FlowTable {
    pub fn new() -> Self {
        Self {
            keys: alloc::vec![0; FLOWS_MAX],
            flows: alloc::vec![Flow::default(); FLOWS_MAX],
            hosts: alloc::vec![0; HOSTS],
            generation: 0,
            joins: JOINS_MAX,
        }
    }

    /// Returns the place of a flow that is followed.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let first = set_of(key);
        let set = &self.keys[first..first + SET];
        set.iter().position(|other| *other == key).map(|place| first + place)
    }

    #[inline]
    pub fn flow(&mut self, slot: usize) -> &mut Flow {
        &mut self.flows[slot]
    }

    /// Follows a flow from now on, if its host has not too many and a place is free or its flow
    /// silent; returns the place.
    pub fn join(&mut self, id: FlowId, now: Instant, gap: u32) -> Option<usize> {
        let is_full = usize::from(self.hosts[host_of(id.host)]) >= FLOWS_PER_HOST_MAX;
        if self.joins == 0 || id.key == 0 {
            return None;
        }
        let first = set_of(id.key);
        let free = |slot: &usize| self.keys[*slot] == 0;
        let silent = |slot: &usize| {
            let flow = &self.flows[*slot];
            // A host with too many may replace only its own.
            let is_own = host_of(flow.id.host) == host_of(id.host);
            now.since(flow.last()) > SILENT && !flow.is_active && (!is_full || is_own)
        };
        let mut slots = first..first + SET;
        let slot = match slots.clone().find(|slot| !is_full && free(slot)) {
            Some(slot) => slot,
            None => slots.find(|slot| !free(slot) && silent(slot))?,
        };
        self.joins -= 1;
        if self.keys[slot] != 0 {
            let host = host_of(self.flows[slot].id.host);
            self.hosts[host] = self.hosts[host].saturating_sub(1);
        }
        self.hosts[host_of(id.host)] += 1;
        self.generation = self.generation.wrapping_add(1);
        self.keys[slot] = id.key;
        self.flows[slot] = Flow::new(id, self.generation, gap);
        Some(slot)
    }

    /// Forgets all flows.
    pub fn clear(&mut self) {
        self.keys.fill(0);
        self.hosts.fill(0);
    }

    /// Lets flows join again, in a new interval.
    pub fn begin_interval(&mut self) {
        self.joins = JOINS_MAX;
    }
}

impl State for FlowTable {
    fn save(&self, to: &mut Writer) {
        let Self { keys, flows, hosts, generation, joins } = self;
        (*generation).save(to);
        joins.save(to);
        hosts.save(to);
        for (key, flow) in keys.iter().zip(flows) {
            to.word(*key);
            if *key != 0 {
                flow.save(to);
            }
        }
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.generation.load(from)?;
        self.joins.load(from)?;
        self.hosts.load(from)?;
        if self.hosts.iter().any(|count| usize::from(*count) > FLOWS_PER_HOST_MAX) {
            return Err(StateError::Invalid("flows of a host"));
        }
        for (key, flow) in self.keys.iter_mut().zip(&mut self.flows) {
            *key = from.word()?;
            if *key != 0 {
                flow.load(from)?;
            }
        }
        Ok(())
    }
}

fn set_of(key: u64) -> usize {
    (key >> 32) as usize % (FLOWS_MAX / SET) * SET
}

fn host_of(host: u32) -> usize {
    host as usize % HOSTS
}

/// Bound: flows that are followed; frames of others are only counted.
pub const FLOWS_MAX: usize = 1024;
/// Bound: flows of one host that are followed; frames of others are only counted.
pub const FLOWS_PER_HOST_MAX: usize = 8;
/// Bound: flows that join in one interval; others may in a later one.
const JOINS_MAX: u32 = 32;
/// The places that a flow may have.
const SET: usize = 4;
/// The numbers of hosts; hosts with one number share its flows.
const HOSTS: usize = 1024;
/// A flow that was silent for so long makes room.
const SILENT: Duration = Duration::from_secs(5);
const GENERATIONS: u16 = 0x7fff;
/// The bits of a way and a probe, and with them those of a slot.
const PROBE_BITS: u32 = 1 + PROBES.ilog2();
const PLACE_BITS: u32 = PROBE_BITS + FLOWS_MAX.ilog2();

const _: () = assert!(PROBES.is_power_of_two() && FLOWS_MAX.is_power_of_two());
const _: () = assert!(PLACE_BITS + 15 < 32);
// With the keys and the numbers of hosts, a tenth of what is allowed.
const _: () = assert!(FLOWS_MAX * size_of::<Flow>() < 2 * 1024 * 1024);
