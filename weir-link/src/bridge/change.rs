//! The bridge's side of a change of its policies: see [`crate::change`].

use std::sync::Arc;

use super::{Bridge, OpenPort};
use crate::change::join::BridgeJoins;
use crate::change::sort::{BridgeSort, RingsNow, SortedPort};
use crate::change::{BridgeChange, ChangeHandle, Offer, mailbox};
use crate::status::{Publisher, Source};

impl Bridge {
    /// From now on takes changes of its policies from the handle that this returns.
    pub fn take_changes(&mut self) -> ChangeHandle {
        let (mut handle, inbox) = mailbox(Arc::new(self.labels()));
        handle.sorted = self.sorted_by_one_lane();
        self.inbox_of_changes = Some(inbox);
        handle
    }

    /// Returns the ports that sort frames, each with the lane that it feeds.
    fn sorted_by_one_lane(&mut self) -> Vec<SortedPort> {
        let mut sorted = Vec::new();
        for port in 0..self.ports.len() {
            let Some(lane) = self.only_lane_of(port) else { continue };
            let OpenPort { number, port: open, sorting, .. } = &mut self.ports[port];
            if let (Some(sorting), Some(handle)) = (sorting.take(), open.sorter()) {
                sorted.push(SortedPort { port, lane, number: *number, sorting, handle });
            }
        }
        sorted
    }

    /// Returns the lane that a port feeds, if it is one.
    pub(super) fn only_lane_of(&self, port: usize) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate();
        let mut fed = lanes.filter(|(_, lane)| lane.labels().from.contains(&port));
        match (fed.next(), fed.next()) {
            (Some((lane, _)), None) => Some(lane),
            _ => None,
        }
    }

    /// Makes the change that is offered, if one is; returns whether ports may have other
    /// descriptors since.
    pub(super) fn change_if_offered(&mut self, publisher: &mut Publisher) -> bool {
        let Some(inbox) = self.inbox_of_changes.take() else { return false };
        let mut is_sorting = false;
        if let Some(mut offer) = inbox.take() {
            match &mut offer {
                Offer::Change(change) => {
                    self.change(change);
                    std::mem::swap(publisher, &mut change.publisher);
                }
                Offer::Joins(joins) => self.join(joins),
                Offer::Sort(sort) => {
                    self.sort(sort);
                    is_sorting = true;
                }
            }
            inbox.give_back(offer);
        }
        self.inbox_of_changes = Some(inbox);
        is_sorting
    }

    /// Has those who receive look frames up in the rules of the lane that their port feeds. Where
    /// it feeds several, which one takes a frame depends on its way, which the loop knows.
    pub(super) fn pass_on_rules(&mut self) {
        for port in 0..self.ports.len() {
            let Some(lane) = self.only_lane_of(port) else { continue };
            let OpenPort { number, port: open, .. } = &mut self.ports[port];
            open.look_up_in(&self.lanes[lane].rules(*number));
        }
    }

    /// Begins or ends a change of how ports sort frames.
    pub(crate) fn sort(&mut self, sort: &mut BridgeSort) {
        for at in &mut sort.ports {
            let port = &mut self.ports[at.port].port;
            match sort.is_over {
                false if at.has_begun => {}
                false => at.has_begun = port.begin_sorting(&mut at.made),
                true => port.end_sorting(0),
            }
        }
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
        self.pass_on_rules();
        if let Some(rates) = &mut self.rates {
            // The new plans have rates of their own.
            rates.begin(&mut self.lanes);
        }
        for RingsNow { port, retired, names } in &mut change.rings {
            self.ports[*port].port.end_sorting(*retired);
            self.watch.name_rings(*port, names);
        }
        self.watch.replace_gauged(&mut change.gauged);
        self.lag_max = change.lag_max;
    }
}
