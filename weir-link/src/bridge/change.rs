//! The bridge's side of a change of its policies: see [`crate::change`].

use std::sync::Arc;

use super::Bridge;
use crate::change::join::BridgeJoins;
use crate::change::{BridgeChange, ChangeHandle, Offer, mailbox};
use crate::status::{Publisher, Source};

impl Bridge {
    /// From now on takes changes of its policies from the handle that this returns.
    pub fn take_changes(&mut self) -> ChangeHandle {
        let (handle, inbox) = mailbox(Arc::new(self.labels()));
        self.inbox_of_changes = Some(inbox);
        handle
    }

    /// Makes the change that is offered, if one is.
    pub(super) fn change_if_offered(&mut self, publisher: &mut Publisher) {
        let Some(inbox) = self.inbox_of_changes.take() else { return };
        if let Some(mut offer) = inbox.take() {
            match &mut offer {
                Offer::Change(change) => {
                    self.change(change);
                    std::mem::swap(publisher, &mut change.publisher);
                }
                Offer::Joins(joins) => self.join(joins),
            }
            inbox.give_back(offer);
        }
        self.inbox_of_changes = Some(inbox);
    }

    /// Lets classes join and leave in all directions that `joins` names.
    pub(crate) fn join(&mut self, joins: &mut BridgeJoins) {
        for (lane, joins) in &mut joins.lanes {
            self.lanes[*lane].join(joins, &mut self.pool);
        }
    }

    /// Exchanges the policies of all directions that `change` names.
    pub(crate) fn change(&mut self, change: &mut BridgeChange) {
        for (lane, change) in &mut change.lanes {
            self.lanes[*lane].change(change, &mut self.pool);
        }
        self.watch.replace_gauged(&mut change.gauged);
        self.lag_max = change.lag_max;
    }
}
