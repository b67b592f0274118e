//! Traffic control of an outlet: which flows it admits, and what its link becomes for each.
//!
//! Flows join the link one by one by the router's own admission ([`weir_rsvp::Admission`]), if its
//! scheduler lets classes join; else the link is built anew for each ([`super::built`]). Invariant:
//! a flow has a session here exactly while it is admitted.

use super::built::Built;
use super::plan::Signalling;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{Graft, LinkPlan};
use weir_core::sched;
use weir_policy::Policy;
use weir_policy::policy::Seating;
use weir_rsvp::Admission;
use weir_rsvp::admission::AdmissionParams;
use weir_rsvp::intserv::Characterization;
use weir_rsvp::node::{FlowId, Request};
use weir_rsvp::wire::{Cause, Session};

/// The flows of an outlet.
pub(super) struct TrafficControl {
    way: Way,
    sessions: BTreeMap<FlowId, Session>,
    pub counts: Counts,
}

/// How a flow gets its class.
enum Way {
    Joins(Box<Admission>),
    Built(Box<Built>),
}

/// A change of a link.
pub(super) enum Step {
    /// One class joins, is retuned, or leaves: what is done to the link, and its rules.
    Seat(Vec<Graft>, Box<Seating>),
    /// The link becomes that of another plan.
    Plan(Box<LinkPlan>, Box<Classifier>, LeafId),
}

/// The changes that an admitted request needs.
pub(super) struct Asked {
    pub steps: Vec<Step>,
    /// The sessions of flows whose place it takes.
    pub preempted: Vec<(FlowId, Session)>,
}

/// The changes that an outlet made for reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Leaves that were added.
    pub added: u64,
    /// Leaves that got other values.
    pub retuned: u64,
    /// Leaves that were removed.
    pub removed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// The most leaves at once.
    pub most: u64,
    /// Packets that changes lost, since a limit had no room.
    pub lost: u64,
}

/// Whether classes can join the link of a policy one by one.
pub(crate) fn joins(policy: &Policy) -> bool {
    sched::find(policy.link.scheduler).is_some_and(|entry| entry.refits)
}

impl TrafficControl {
    /// The traffic control of an outlet with this policy, whose link has this MTU.
    pub fn new(plan: &Signalling, policy: Policy, mtu: u32) -> Result<Self, String> {
        let way = if joins(&policy) {
            let params = AdmissionParams {
                class: plan.class.clone(),
                excess: plan.excess,
                delay: plan.delay,
                neighbour: Default::default(),
                preemption: false,
                mtu,
                header: FRAME_HEADER,
            };
            Way::Joins(Box::new(Admission::new(policy, params)?))
        } else {
            Way::Built(Box::new(Built::new(policy, &plan.class)?))
        };
        Ok(Self { way, sessions: BTreeMap::new(), counts: Counts::default() })
    }

    pub fn has(&self, flow: FlowId) -> bool {
        self.sessions.contains_key(&flow)
    }

    /// Returns the properties that the outlet offers to flows; `latency` is that of its link.
    pub fn offers(&self, latency: Option<u32>, mtu: u32) -> Characterization {
        match &self.way {
            Way::Joins(admission) => admission.offers(latency),
            Way::Built(built) => Characterization {
                bandwidth: built.room() as f32 / 8.0,
                latency,
                mtu,
                guaranteed: None,
                controlled_load: true,
            },
        }
    }

    /// Returns the rate that is reserved, in bit/s.
    pub fn reserved(&self) -> u64 {
        match &self.way {
            Way::Joins(admission) => admission.load().1,
            Way::Built(built) => built.reserved(),
        }
    }

    /// Admits a flow that is new, or changed.
    pub fn ask(&mut self, flow: FlowId, request: &Request) -> Result<Asked, Cause> {
        let asked = match &mut self.way {
            Way::Joins(admission) => {
                let admitted = admission.admit(flow, request).map_err(|refusal| refusal.cause);
                admitted.map(|admitted| {
                    let policy = admission.policy();
                    let seat =
                        |seating: Seating| Step::Seat(seating.grafts(policy), Box::new(seating));
                    let steps = admitted.seatings.into_iter().map(seat).collect();
                    (steps, admitted.preempted)
                })
            }
            Way::Built(built) => built.ask(flow, request).map(|step| (vec![step], Vec::new())),
        };
        let (steps, preempted) = asked.inspect_err(|_| self.counts.refused += 1)?;
        let gone = preempted.into_iter().filter_map(|flow| {
            self.counts.removed += 1;
            Some((flow, self.sessions.remove(&flow)?))
        });
        let preempted = gone.collect();
        match self.sessions.insert(flow, request.session) {
            Some(_) => self.counts.retuned += 1,
            None => self.counts.added += 1,
        }
        self.counts.most = self.counts.most.max(self.sessions.len() as u64);
        Ok(Asked { steps, preempted })
    }

    /// Removes a flow, if it has it; returns its session.
    pub fn remove(&mut self, flow: FlowId) -> Option<(Session, Option<Step>)> {
        let session = self.sessions.remove(&flow)?;
        self.counts.removed += 1;
        let step = match &mut self.way {
            Way::Joins(admission) => admission
                .remove(flow)
                .map(|seating| Step::Seat(seating.grafts(admission.policy()), Box::new(seating))),
            Way::Built(built) => built.remove(flow),
        };
        Some((session, step))
    }
}

/// Bytes of a frame in front of its IP header.
const FRAME_HEADER: u32 = 14;
