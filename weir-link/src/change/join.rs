//! Classes that join a running link, are retuned there, or leave it, one by one: nothing of the
//! other classes is built anew.
//!
//! A thread that does not forward keeps a [`Rehearsal`] of each direction: its plan, a link of that
//! plan in which no packet waits, and a classifier. What is requested is done there first; what
//! could fail fails there. The plan is then lent to the loop, which does the same to its own link
//! and gives the plan back. Invariant: the loop neither allocates nor frees for it, and never
//! waits.

use std::time::Duration;

use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Graft, LinkPlan, PreparedGraft};
use weir_core::queue::Limit;
use weir_policy::Policy;
use weir_policy::deployment::Deployment;
use weir_policy::policy::Seating;
use weir_trace::record::{self, Step};

use super::{ChangeHandle, NotTaken, Offer};
use crate::lane::join::{JoinRow, LaneJoins};
use crate::status::{Facts, Shape, Tenant};

/// The classes that join and leave at one bridge. Afterwards it holds what was replaced.
pub(crate) struct BridgeJoins {
    /// With the number of the lane.
    pub lanes: Vec<(usize, Box<LaneJoins>)>,
}

/// A copy of a direction on which changes are tried first.
pub struct Rehearsal {
    /// `None` while a loop has it.
    plan: Option<Box<LinkPlan>>,
    twin: Box<dyn AnyLink>,
    classifier: Classifier,
}

/// The classes that join and leave at all bridges, rehearsed and not yet in force.
pub struct Joins {
    bridges: Vec<BridgeJoins>,
    news: Vec<News>,
}

/// The new names for readers of a lane, once the change is in force.
struct News {
    bridge: usize,
    lane: usize,
    /// The index of its direction.
    way: usize,
    tenants: Vec<(LeafId, Tenant)>,
}

impl Rehearsal {
    /// The rehearsal of a policy with all its places.
    ///
    /// # Errors
    /// When its link cannot be built.
    pub fn of(policy: &Policy) -> Result<Self, String> {
        let plan = Box::new(policy.link.clone());
        // No packet ever waits in it.
        let twin = LinkPlan { packets_max: 1, ..policy.link.clone() }.build();
        let twin = twin.map_err(|error| error.message)?;
        Ok(Self { plan: Some(plan), twin, classifier: policy.classifier() })
    }

    /// Does what classes do, of a direction with this policy and these places; returns it for the
    /// loop, and what readers are told then. After an error it must be made anew.
    fn rehearse(
        &mut self,
        policy: &Policy,
        (seatings, shape): (&[Seating], &Shape),
    ) -> Result<(LaneJoins, Vec<(LeafId, Tenant)>), String> {
        let mut plan = self.plan.take().ok_or("a loop has the plan still; try again")?;
        let (mut rows, mut news) = (Vec::new(), Vec::new());
        for seating in seatings {
            let (leaf, name) = (seating.leaf, &seating.name);
            let refused = |why: String| format!("class `{name}`: {why}");
            let mut grafts = Vec::new();
            for graft in seating.grafts(policy) {
                let graft = self.graft(&mut plan, graft, policy);
                grafts.push(graft.map_err(refused)?);
            }
            let rules = seating.rules();
            match &rules {
                Some(rules) => {
                    self.classifier.fits(leaf, rules).map_err(refused)?;
                    drop(self.classifier.join(leaf, rules.clone()));
                }
                None => drop(self.classifier.leave(leaf)),
            }
            let tenant = tenant(seating, &plan, shape);
            let heir = seating.class.is_none().then_some(policy.default.leaf);
            rows.push(JoinRow { leaf, grafts, rules, heir, tenant: tenant.number });
            news.push((leaf, tenant));
        }
        Ok((LaneJoins { plan, rows, note: None }, news))
    }

    fn graft(
        &mut self,
        plan: &mut LinkPlan,
        graft: Graft,
        policy: &Policy,
    ) -> Result<PreparedGraft, String> {
        // What waits then: in a leaf that is retuned, or in one that is removed and in its heir.
        let leaf = match &graft {
            Graft::Remove { leaf, .. } | Graft::Retune { leaf, .. } => Some(*leaf),
            _ => None,
        };
        let most = |leaf: LeafId| match plan.queues[leaf.index()].limit() {
            Limit::Packets(packets) => u64::from(packets),
            Limit::Bytes(bytes) => bytes.get() / PACKET_LEAST,
        };
        let waiting = leaf.map_or(0, |leaf| most(leaf).saturating_add(most(policy.default.leaf)));
        let waiting = waiting.min(plan.packets_max.into()) as usize;
        let rehearsed = graft.rehearse(plan, self.twin.as_mut(), waiting);
        rehearsed.map_err(|error| error.to_string())
    }
}

/// Returns the class that has the place then, as readers are told.
fn tenant(seating: &Seating, plan: &LinkPlan, shape: &Shape) -> Tenant {
    if seating.class.is_none() {
        return Tenant::default();
    }
    let tenants = shape.tenants();
    let spec = plan.tree.leaf(seating.leaf);
    let rate = spec.params.rate("rate").map(|rate| rate.bits_per_second() as f64);
    let known = tenants.number_of(seating.leaf).filter(|_| seating.was_there);
    Tenant { number: known.unwrap_or_else(|| tenants.next_number()), facts: Facts::of(spec, rate) }
}

impl Joins {
    /// Rehearses what classes do in these directions of a deployment, whose loops are behind
    /// `handles`; there is a rehearsal for each direction, made where it is missing.
    ///
    /// # Errors
    /// When it takes a change of the whole policy, or values contradict each other: with the class
    /// and the cure. Nothing was changed then.
    pub fn prepare(
        deployment: &Deployment,
        (seatings, ways): (&[Seating], &[usize]),
        rehearsals: &mut Vec<Option<Rehearsal>>,
        handles: &[ChangeHandle],
    ) -> Result<Self, String> {
        rehearsals.resize_with(deployment.directions.len(), || None);
        let (mut bridges, mut news) = (Vec::new(), Vec::new());
        for (number, (bridge, handle)) in deployment.bridges.iter().zip(handles).enumerate() {
            let mut lanes = Vec::new();
            for (lane, way) in bridge.directions.iter().enumerate() {
                if !ways.contains(way) {
                    continue;
                }
                let policy = &deployment.directions[*way].policy;
                // After an error it is made anew at the next request.
                let mut rehearsal = match rehearsals[*way].take() {
                    Some(rehearsal) => rehearsal,
                    None => Rehearsal::of(policy)?,
                };
                let shape = &handle.labels.lanes[lane].shape;
                let (joins, tenants) = rehearsal.rehearse(policy, (seatings, shape))?;
                rehearsals[*way] = Some(rehearsal);
                lanes.push((lane, Box::new(joins)));
                news.push(News { bridge: number, lane, way: *way, tenants });
            }
            bridges.push(BridgeJoins { lanes });
        }
        Ok(Self { bridges, news })
    }

    /// Writes into records which classes joined or left.
    pub fn note(&mut self, note: &record::Joins) {
        for (_, joins) in self.bridges.iter_mut().flat_map(|bridge| &mut bridge.lanes) {
            joins.note = Some(Step::Joins(Box::new(note.clone())));
        }
    }

    /// Lets the loops do it, and waits until each has: see [`super::Transaction::put_in_force`].
    ///
    /// # Errors
    /// When a loop hangs; it does it when it goes on.
    pub fn put_in_force(
        self,
        (handles, rehearsals): (&mut [ChangeHandle], &mut [Option<Rehearsal>]),
        wake: impl Fn(),
        patience: Duration,
    ) -> Result<(), NotTaken> {
        for (handle, joins) in handles.iter_mut().zip(self.bridges) {
            if !joins.lanes.is_empty() {
                handle.offer(Offer::Joins(Box::new(joins)));
            }
        }
        wake();
        let made = handles.iter_mut().map(|handle| handle.wait(patience)).fold(Ok(()), Result::and);
        let mut back: Vec<_> = handles.iter_mut().map(ChangeHandle::take_joined).collect();
        for News { bridge, lane, way, tenants } in self.news {
            let shape = &handles[bridge].labels.lanes[lane].shape;
            tenants.into_iter().for_each(|(leaf, tenant)| shape.tenants().set(leaf, tenant));
            let lanes = back[bridge].as_mut().map(|joins| &mut joins.lanes);
            let own = lanes.and_then(|lanes| {
                let at = lanes.iter().position(|row| row.0 == lane)?;
                Some(lanes.swap_remove(at).1.plan)
            });
            // Without the plan, which a loop that hangs has, it is made anew.
            let both = rehearsals[way].take().zip(own);
            rehearsals[way] = both.map(|(it, plan)| Rehearsal { plan: Some(plan), ..it });
        }
        made
    }
}

/// Shows readers of the status which policies are in force, after classes joined or left.
pub fn set_identities(deployment: &Deployment, ways: &[usize], handles: &[ChangeHandle]) {
    for (bridge, handle) in deployment.bridges.iter().zip(handles) {
        for (lane, way) in bridge.directions.iter().enumerate().filter(|row| ways.contains(row.1)) {
            let identity = deployment.directions[*way].policy.identity.to_string();
            handle.labels.lanes[lane].shape.tenants().set_identity(identity);
        }
    }
}

/// Less than a frame has on the wire.
const PACKET_LEAST: u64 = 60;
