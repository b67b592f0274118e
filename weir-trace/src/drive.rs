//! Drives a link through virtual time: what simulation and replay share.
//!
//! The caller brings arrivals in the order of time, one or a series at once. Before each, the link
//! sends what is due, so at one instant departures come before arrivals, and an idle line takes the
//! first of several packets that arrive together before the second arrives. Invariant: `due` is
//! what the link returned last, so a call before that instant without arrivals needs no link.

use weir_core::account::{Account, LeafAccount};
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped};
use weir_core::explain::Sojourn;
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Arrival, Graft, LinkPlan};
use weir_core::parameter::BuildError;
use weir_core::queue::Reading;
use weir_core::sched::RefitError;
use weir_core::units::{Instant, Rate};

/// A link, and when it acts by itself next.
pub struct Drive {
    link: Box<dyn AnyLink>,
    due: Option<Instant>,
    /// Of the last call.
    departures: Vec<Departure>,
}

impl Drive {
    /// Builds the link of `plan` and drives it.
    ///
    /// # Errors
    /// As [`LinkPlan::build`].
    pub fn new(plan: &LinkPlan) -> Result<Self, BuildError> {
        Ok(Self { link: plan.build()?, due: None, departures: Vec::new() })
    }

    /// Drives a link in which packets may wait since `now`.
    pub fn of(link: Box<dyn AnyLink>, now: Instant) -> Self {
        let due = (link.backlog() > 0).then_some(now);
        Self { link, due, departures: Vec::new() }
    }

    /// Returns the link with what waits in it; `empty` takes its place.
    pub fn take_link(&mut self, empty: Box<dyn AnyLink>) -> Box<dyn AnyLink> {
        self.due = None;
        std::mem::replace(&mut self.link, empty)
    }

    /// Returns the instant before which no packet leaves unless something is offered; `None` if
    /// nothing waits.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether a leaf looks into segments: [`AnyLink::reads_segments`].
    pub fn reads_segments(&self, leaf: LeafId) -> bool {
        self.link.reads_segments(leaf)
    }

    /// Returns the link itself, to note segments: [`AnyLink::note`].
    pub fn link_mut(&mut self) -> &mut dyn AnyLink {
        self.link.as_mut()
    }

    /// Offers each packet at its instant, in their order, and lets the link send what leaves up to
    /// `until`, included: [`AnyLink::serve`]. Returns the departures in their order.
    #[inline]
    pub fn serve(&mut self, arrivals: &[Arrival], until: Instant) -> &[Departure] {
        self.departures.clear();
        if !arrivals.is_empty() || self.due.is_some_and(|due| due <= until) {
            self.due = self.link.serve(arrivals, until, &mut self.departures);
        }
        &self.departures
    }

    /// Changes the link's plan at `at`, up to which it has been served.
    ///
    /// # Errors
    /// As [`Change::apply`]; then the link is as it was.
    pub fn change(&mut self, at: Instant, change: Change<'_>) -> Result<(), BuildError> {
        change.apply(&mut self.link, at)?;
        // Another plan may let a packet leave at once.
        self.due = (self.link.backlog() > 0).then_some(at);
        Ok(())
    }

    /// Does something to one leaf of the link at `at`, up to which it has been served, and to
    /// `plan`, the plan that it has.
    ///
    /// # Errors
    /// As [`Graft::apply`]; then nothing changed.
    pub fn graft(
        &mut self,
        at: Instant,
        plan: &mut LinkPlan,
        graft: Graft,
    ) -> Result<(), RefitError> {
        graft.apply(plan, self.link.as_mut(), at)?;
        self.due = (self.link.backlog() > 0).then_some(at);
        Ok(())
    }

    /// Begins to explain why packets wait.
    pub fn explain(&mut self) {
        self.explain_from(Instant::ZERO);
    }

    /// As [`Self::explain`], at `now`.
    pub fn explain_from(&mut self, now: Instant) {
        self.link.explain(now, true);
    }

    /// Gives up what the line could have sent before `instant`: [`AnyLink::forfeit_before`].
    pub fn forfeit_before(&mut self, instant: Instant) {
        self.link.forfeit_before(instant);
        self.due = (self.link.backlog() > 0).then_some(instant);
    }

    /// Sends at another rate from `at` on, up to which it has been served: [`AnyLink::set_rate`].
    pub fn set_rate(&mut self, at: Instant, rate: Rate) {
        self.link.set_rate(at, rate);
        self.due = (self.link.backlog() > 0).then_some(at);
    }

    /// Drops what came before the instant of its leaf: [`AnyLink::drop_older`].
    pub fn drop_older(&mut self, oldest: &dyn Fn(LeafId) -> Instant) {
        self.link.drop_older(oldest);
    }

    /// Returns what waits in a leaf, and what the leaf counted.
    pub fn leaf(&self, leaf: LeafId) -> LeafAccount {
        self.link.leaf_account(leaf)
    }

    /// Returns the number that the decisions of a leaf's dropper rest on.
    pub fn reading(&self, leaf: LeafId) -> Option<Reading> {
        self.link.reading(leaf)
    }

    /// Returns the number of packets that wait.
    pub fn backlog(&self) -> u32 {
        self.link.backlog()
    }

    /// Hands over the sojourns that ended since the last call, if they are explained.
    pub fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        self.link.take_sojourns(all);
    }

    /// Hands over the packets dropped since the last call.
    pub fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped)) {
        self.link.take_dropped(each);
    }

    /// Returns what the link counted.
    pub fn account(&self) -> Account {
        self.link.account()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::ids::{Handle, LeafId};
    use weir_core::link::Packet;
    use weir_core::parameter::Params;
    use weir_core::sched::{ClassSpec, Tree};
    use weir_core::units::Bytes;

    /// Offers `arrivals` (µs, bytes) to 8 Mbit/s, a byte a microsecond, with a driver's buffer of
    /// `buffer` bytes; departures are in µs.
    fn check(buffer: u64, arrivals: &[(u64, u32)], expected: &[u64]) {
        let class = ClassSpec { name: "all".into(), parent: None, params: Params::new() };
        let rate = Rate::new(8_000_000).expect("not zero");
        let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
        let plan = LinkPlan { buffer: Bytes::new(buffer), ..LinkPlan::new("fifo", tree) };
        let mut drive = Drive::new(&plan).expect("builds");
        let mut left = Vec::new();
        let mut note = |departures: &[Departure]| {
            left.extend(departures.iter().map(|departure| departure.at.as_nanos() / 1000));
        };
        for (number, &(micros, length)) in arrivals.iter().enumerate() {
            let at = Instant::from_nanos(micros * 1000);
            let packet = Packet::new(Handle(number as u32), length);
            note(drive.serve(&[Arrival { at, leaf: LeafId(0), packet }], at));
        }
        note(drive.serve(&[], Instant::MAX));
        assert_eq!(left, expected);
        assert_eq!(drive.due(), None);
    }

    #[test]
    fn packets_leave_when_the_line_is_free() {
        check(0, &[(0, 100), (10, 100), (500, 100)], &[0, 100, 500]);
        check(0, &[(7, 100), (7, 100), (7, 100)], &[7, 107, 207]);
        check(0, &[(0, 100), (100, 100), (100, 50), (200, 1)], &[0, 100, 200, 250]);
    }

    #[test]
    fn packets_leave_into_the_drivers_buffer() {
        check(100, &[(0, 100), (0, 100), (0, 100)], &[0, 0, 100]);
        check(100, &[(0, 100), (50, 100), (60, 100)], &[0, 50, 100]);
    }
}
