//! Drives a link through virtual time: what simulation and replay share.
//!
//! The caller brings arrivals in the order of time. Before each, [`Drive::advance`] lets the link
//! send what is due, so at one instant departures come before arrivals, and an idle line takes the
//! first of several packets that arrive together before it sees the second. Invariant: nothing is
//! offered while a departure is due.

use weir_core::account::Account;
use weir_core::change::Change;
use weir_core::event::{Departure, Dropped, Verdict};
use weir_core::explain::Sojourn;
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::parameter::BuildError;
use weir_core::units::{Bytes, Instant};

/// A link and when it wants to be asked next.
pub struct Drive {
    link: Box<dyn AnyLink>,
    due: Option<Instant>,
    /// When the line has sent what was handed out. Stays zero if the plan has a driver's buffer,
    /// into which packets may leave earlier.
    line_free_at: Instant,
    buffered: bool,
    /// Of the last call.
    departures: Vec<Departure>,
}

impl Drive {
    /// Builds the link of `plan` and drives it.
    ///
    /// # Errors
    /// As [`LinkPlan::build`].
    pub fn new(plan: &LinkPlan) -> Result<Self, BuildError> {
        Ok(Self {
            link: plan.build()?,
            due: None,
            line_free_at: Instant::ZERO,
            buffered: plan.buffer > Bytes::ZERO,
            departures: Vec::new(),
        })
    }

    /// No packet leaves before this instant unless something is offered; `None` if nothing waits.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Lets the link send what leaves up to `until`, included; each departure is shown in order.
    #[inline]
    pub fn advance(&mut self, until: Instant, mut each: impl FnMut(Departure)) {
        if self.due.is_none_or(|due| due > until) {
            return;
        }
        self.departures.clear();
        self.due = self.link.advance(until, &mut self.departures);
        if let Some(last) = self.departures.last().filter(|_| !self.buffered) {
            self.line_free_at = last.finished;
        }
        for &departure in &self.departures {
            each(departure);
        }
    }

    /// Offers a packet at `at`, up to which the link has been advanced.
    #[inline]
    pub fn offer(&mut self, at: Instant, leaf: LeafId, packet: Packet) -> Verdict {
        assert!(self.due.is_none_or(|due| due > at), "departures come before arrivals");
        let verdict = self.link.offer(at, leaf, packet);
        // It may leave at once, or a changed queue may let another leave; but not before the line
        // is free.
        self.due = Some(at.max(self.line_free_at));
        verdict
    }

    /// Offers each packet at its instant, in their order, and before each lets the link send what
    /// leaves up to then: [`Drive::advance`] and [`Drive::offer`] in turn; answers all departures.
    pub fn serve(&mut self, arrivals: &[Arrival]) -> &[Departure] {
        self.departures.clear();
        let until = arrivals.last().map_or(Instant::ZERO, |last| last.at);
        self.due = self.link.serve(arrivals, until, &mut self.departures);
        if let Some(last) = self.departures.last().filter(|_| !self.buffered) {
            self.line_free_at = last.finished;
        }
        &self.departures
    }

    /// Changes the link's plan at `at`, up to which it has been advanced.
    ///
    /// # Errors
    /// As [`Change::apply`]; then the link is as it was.
    pub fn change(&mut self, at: Instant, change: Change<'_>) -> Result<(), BuildError> {
        change.apply(&mut self.link, at)?;
        if self.buffered != (change.to.buffer > Bytes::ZERO) {
            // What is on the line now is not known here; the link knows.
            self.line_free_at = Instant::ZERO;
            self.buffered = !self.buffered;
        }
        // Another plan may let somebody send at once.
        self.due = (self.link.backlog() > 0).then(|| at.max(self.line_free_at));
        Ok(())
    }

    /// Begins to explain why packets wait.
    pub fn explain(&mut self) {
        self.link.explain(Instant::ZERO, true);
    }

    /// Shows the sojourns that ended since the last call, if they are explained.
    pub fn take_sojourns(&mut self, all: &mut dyn FnMut(&[Sojourn])) {
        self.link.take_sojourns(all);
    }

    /// Shows the packets dropped since the last call.
    pub fn take_dropped(&mut self, each: &mut dyn FnMut(Dropped)) {
        self.link.take_dropped(each);
    }

    /// What the link counted.
    pub fn account(&self) -> Account {
        self.link.account()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::ids::Handle;
    use weir_core::parameter::Params;
    use weir_core::sched::{ClassSpec, Tree};
    use weir_core::units::Rate;

    /// Offers `arrivals` (µs, bytes) to 8 Mbit/s, a byte a microsecond, with a driver's buffer of so
    /// many bytes; departures are in µs.
    fn check(buffer: u64, arrivals: &[(u64, u32)], expected: &[u64]) {
        let class = ClassSpec { name: "all".into(), parent: None, params: Params::new() };
        let rate = Rate::new(8_000_000).expect("not zero");
        let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
        let plan = LinkPlan { buffer: Bytes::new(buffer), ..LinkPlan::new("fifo", tree) };
        let mut drive = Drive::new(&plan).expect("builds");
        let mut left = Vec::new();
        for (number, &(micros, length)) in arrivals.iter().enumerate() {
            let at = Instant::from_nanos(micros * 1000);
            drive.advance(at, |departure| left.push(departure.at.as_nanos() / 1000));
            let packet = Packet::new(Handle(number as u32), length);
            assert_eq!(drive.offer(at, LeafId(0), packet), Verdict::Queued);
        }
        drive.advance(Instant::MAX, |departure| left.push(departure.at.as_nanos() / 1000));
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
