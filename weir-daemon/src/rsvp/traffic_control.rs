//! Traffic control of the node: admits flows, and has their classes join the link.
//!
//! Invariant: `admission` has the flows whose classes are at the link or on their way to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::keeper::rsvp::What;
use weir_core::classify::InterfaceId;
use weir_core::units::Instant;
use weir_host::rsvp::Admission as TrafficControl;
use weir_rsvp::Admission;
use weir_rsvp::admission::{Admitted, Refusal};
use weir_rsvp::node::{Control, FlowId, Removal, Request};
use weir_rsvp::wire::Cause;

use super::classes::{Change, Classes};

/// Admission with the classes at the link: see the module.
pub struct LinkControl {
    admission: Admission,
    classes: Classes,
    /// The interface that the link shapes.
    shaped: InterfaceId,
    /// Classes of the former process, which no reservation has claimed yet.
    former: BTreeSet<String>,
    /// By flow, the sentence to report once its class has joined.
    joining: BTreeMap<FlowId, String>,
    /// Flows that lost their place and that the node has not preempted yet.
    losses: Vec<(FlowId, Cause)>,
    /// Events for the operator.
    pub happened: Vec<(What, String)>,
}

impl LinkControl {
    /// Traffic control of one interface; `former` are the classes of the former process.
    pub fn new(
        admission: Admission,
        classes: Classes,
        shaped: InterfaceId,
        former: BTreeSet<String>,
    ) -> Self {
        let (joining, losses, happened) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { admission, classes, shaped, former, joining, losses, happened }
    }

    /// Returns the flows that were admitted.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Returns the classes at the link.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Returns flows that lost their place since the last call.
    pub fn take_losses(&mut self) -> Vec<(FlowId, Cause)> {
        std::mem::take(&mut self.losses)
    }

    fn admit(&mut self, flow: FlowId, request: &Request) -> Option<Result<(), Cause>> {
        if request.interface != self.shaped {
            return Some(Err(Cause::SERVICE_UNSUPPORTED));
        }
        let former = self.admission.class_of(flow).map(str::to_owned);
        match self.admission.admit(flow, request) {
            Ok(admitted) => {
                self.carry_out(flow, admitted, former);
                self.joining.insert(flow, self.describe(flow, request));
                None
            }
            Err(refusal) => {
                self.note_refusal(request, &refusal);
                Some(Err(refusal.cause))
            }
        }
    }

    fn carry_out(&mut self, flow: FlowId, admitted: Admitted, former: Option<String>) {
        let Admitted { name, table, seatings, preempted } = admitted;
        for lost in preempted {
            self.losses.push((lost, Cause::PREEMPTED));
        }
        for seating in seatings.iter().filter(|seating| seating.class.is_none()) {
            let detail =
                format!("class `{}`: one of a higher priority took its place", seating.name);
            self.happened.push((What::Preempted, detail));
            self.classes.change(Change::Leave(seating.name.clone()));
        }
        if let Some(other) = former.filter(|former| *former != name) {
            self.classes.change(Change::Leave(other));
        }
        self.former.remove(&name);
        self.classes.change(Change::Join { flow, name, table });
    }

    /// Describes a reservation that is admitted.
    fn describe(&self, flow: FlowId, request: &Request) -> String {
        let mega = self.admission.rate_of(flow).unwrap_or_default() as f64 / 1e6;
        let class = self.admission.class_of(flow).unwrap_or_default();
        let style = request.style;
        format!(
            "{} for {}: {style}, class `{class}`, {mega:.3} Mbit/s",
            request.session,
            who(request)
        )
    }

    fn note_refusal(&mut self, request: &Request, refusal: &Refusal) {
        let detail = format!("{} for {}: {refusal}", request.session, who(request));
        self.happened.push((What::Refused, detail));
    }

    /// Removes the class of a flow; returns its name if it had one.
    fn leave(&mut self, flow: FlowId) -> Option<String> {
        self.joining.remove(&flow);
        let name = self.admission.remove(flow)?.name;
        self.classes.change(Change::Leave(name.clone()));
        Some(name)
    }

    fn note_removal(&mut self, name: &str, removal: Removal) {
        let (what, why) = match removal {
            Removal::Torn => (What::Released, "a neighbour tore it down"),
            Removal::Rerouted => (What::Released, "its packets go another way"),
            Removal::Expired => (What::Expired, "a neighbour did not refresh it"),
        };
        self.happened.push((what, format!("class `{name}`: {why}")));
    }

    /// Takes the outcome of a change at the link; returns the decision for the node, unless the
    /// flow was removed meanwhile.
    pub fn joined(
        &mut self,
        flow: FlowId,
        result: Result<(), String>,
    ) -> Option<Result<(), Cause>> {
        let detail = self.joining.remove(&flow).filter(|_| self.admission.class_of(flow).is_some());
        let Err(why) = result else {
            self.happened.extend(detail.map(|detail| (What::Admitted, detail)));
            return Some(Ok(()));
        };
        let name = self.admission.class_of(flow)?.to_owned();
        // Until then classes of the former process may have the rate that is missing.
        let cause = if self.former.is_empty() { Cause::SYSTEM } else { Cause::BANDWIDTH };
        self.happened.push((What::Refused, format!("class `{name}`: {why}")));
        self.leave(flow);
        Some(Err(cause))
    }

    /// Removes the classes of the former process that no reservation claimed.
    pub fn drop_former(&mut self) {
        for name in std::mem::take(&mut self.former) {
            self.note_removal(&name, Removal::Expired);
            self.classes.change(Change::Leave(name));
        }
    }

    /// Follows a change of the policy, under which the link has these classes of reservations.
    /// Flows for which it has no room lose their place.
    pub fn follow(
        &mut self,
        admission: Admission,
        present: &BTreeSet<String>,
        flows: impl Iterator<Item = (FlowId, Request)>,
    ) {
        let before = std::mem::replace(&mut self.admission, admission);
        let mut kept = BTreeSet::new();
        for (flow, request) in flows {
            // A flow without a class waits for the link.
            let Some(name) = before.class_of(flow) else { continue };
            match self.admission.admit(flow, &request) {
                Ok(Admitted { name, table, preempted, .. }) => {
                    self.losses.extend(preempted.into_iter().map(|lost| (lost, Cause::PREEMPTED)));
                    kept.insert(name.clone());
                    if !present.contains(&name) {
                        self.classes.change(Change::Join { flow, name, table });
                    }
                }
                Err(refusal) => {
                    let detail = format!("class `{name}` after a change of the policy: {refusal}");
                    self.happened.push((What::Preempted, detail));
                    self.losses.push((flow, Cause::PREEMPTED));
                }
            }
        }
        self.former.retain(|name| present.contains(name));
        for name in present.difference(&kept).filter(|name| !self.former.contains(*name)) {
            self.classes.change(Change::Leave(name.clone()));
        }
    }
}

impl TrafficControl for LinkControl {
    fn change(&mut self, _now: Instant, control: Control) -> Option<Result<(), Cause>> {
        match control {
            Control::Add(flow, request) | Control::Modify(flow, request) => {
                self.admit(flow, &request)
            }
            Control::Remove(flow, removal) => {
                if let Some(name) = self.leave(flow) {
                    self.note_removal(&name, removal);
                }
                None
            }
        }
    }
}

/// Lists the neighbours that reserve.
fn who(request: &Request) -> String {
    request.hops.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
