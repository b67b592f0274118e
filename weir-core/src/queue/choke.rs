//! CHOKe, as Linux has it: an arriving packet and one drawn from the queue are both dropped if they
//! are of one flow [choke00; linux sch_choke] [algorithms §9.12].
//!
//! While the average queue length is above `min`, a waiting packet is drawn for each that arrives;
//! if both are of one flow, both go. So a flow that has much of the queue loses most, and no flow
//! has state. Packets that survive are dropped or marked by the average, as `red_linux.rs` has it.
//! Linux draws from a table with holes, where packets were dropped, and takes the first packet when
//! it hits three; here the draw is even. Flows are the same if their hashes of 16 bits are.
//!
//! Invariant: no packet is dropped early while the average is below `min`.

use super::red_linux::{Action, Average, Plan, ROWS};
use super::{
    Admission, Candidate, Dropper, DropperDescriptor, DropperDiscipline, ECN, Limit, Place,
    Reading, limit, packets,
};
use crate::account::Count;
use crate::event::DropReason;
use crate::parameter::{BuildError, Params};
use crate::random::Random;
use crate::state::state;
use crate::units::Instant;
use alloc::boxed::Box;

/// The average and the draws, boxed to keep droppers small.
pub struct Choke(Box<State>);

struct State {
    limit: Limit,
    plan: Plan,
    ecn: bool,
    average: Average,
    random: Random,
}

impl DropperDiscipline for Choke {
    const DESCRIPTOR: DropperDescriptor = DropperDescriptor {
        keyword: "choke",
        summary: "Drops an arriving packet with one of its own flow, drawn from the queue.",
        parameters: &[limit("1000 packets"), ROWS[0], ROWS[1], ROWS[2], ROWS[3], ROWS[4], ECN],
        sources: &["choke00", "linux sch_choke", "algorithms §9.12"],
    };

    fn build(params: &Params, place: Place) -> Result<Self, BuildError> {
        Ok(Self(Box::new(State {
            limit: Limit::from_params(params, &Self::DESCRIPTOR),
            plan: Plan::from_params(params, place)?,
            ecn: params.flag("ecn") == Some(true),
            average: Average::EMPTY,
            random: Random::new(place.seed, u64::from(place.leaf.0)),
        })))
    }
}

impl Dropper for Choke {
    fn admit(&mut self, now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let State { plan, average, random, .. } = &mut *self.0;
        average.arrived(plan, now, backlog.packets);
        if !average.is_above_min(plan) {
            average.forget();
            return self.0.admit_if_it_fits(arriving, backlog, Admission::Accept);
        }
        match backlog.packets {
            0 => self.admit_unlike(now, arriving, backlog),
            _ => Admission::Compare(random.below(packets(backlog)), DropReason::Early),
        }
    }

    fn admit_unlike(&mut self, _now: Instant, arriving: Candidate, backlog: Count) -> Admission {
        let state = &mut *self.0;
        let admission = match state.average.draw(&state.plan, &mut state.random) {
            Action::Pass => Admission::Accept,
            _ if state.ecn && arriving.is_markable() => Admission::Mark,
            _ => return Admission::Refuse(DropReason::Early),
        };
        state.admit_if_it_fits(arriving, backlog, admission)
    }

    fn emptied(&mut self, now: Instant) {
        self.0.average.idle(now);
    }

    fn reading(&self) -> Option<Reading> {
        let thousandths = self.0.average.thousandths(&self.0.plan);
        Some(Reading { what: "average in packets", thousandths })
    }
}

impl State {
    fn admit_if_it_fits(
        &self,
        arriving: Candidate,
        backlog: Count,
        admission: Admission,
    ) -> Admission {
        match self.limit.fits(arriving.length, backlog) {
            true => admission,
            false => Admission::Refuse(DropReason::Full),
        }
    }
}

state!(Choke(state));
state!(State { average, random; kept: limit, plan, ecn });

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, params};
    use super::*;
    use alloc::vec::Vec;

    /// Offers packets of the flows in turn, `per_send` for each that leaves; returns what is left
    /// of each flow.
    fn admitted(flows: &[u16], per_send: usize, flags: &[(&'static str, bool)]) -> Vec<usize> {
        let numbers = [("min", "10"), ("max", "60"), ("limit", "200 packets"), ("pmax", "1 %")];
        let mut trial = Trial::<Choke>::new(&params(&numbers, flags));
        let mut counts = alloc::vec![0; 4];
        for step in 0..40_000 {
            trial.pause(100);
            trial.flow = flows[step % flows.len()];
            if trial.offer(1000, 0b10) {
                counts[usize::from(trial.flow)] += 1;
            }
            if step % per_send == 0 {
                trial.serve();
            }
        }
        counts
    }

    #[test]
    fn a_flow_that_floods_loses_more_than_its_part() {
        let counts = admitted(&[1, 1, 1, 1, 1, 1, 1, 2], 4, &[]);
        // It offers seven times as much.
        assert!(counts[1] < 6 * counts[2], "{counts:?}");
    }

    #[test]
    fn nothing_is_dropped_below_the_lower_threshold() {
        let mut trial = Trial::<Choke>::new(&params(&[("min", "50")], &[]));
        for _ in 0..45 {
            assert!(trial.offer(1000, 0));
        }
        assert!(trial.dropped.is_empty());
    }

    #[test]
    fn packets_of_one_flow_go_in_pairs() {
        let numbers = [("min", "1"), ("max", "1000"), ("weight", "1"), ("pmax", "0.0001 %")];
        let mut trial = Trial::<Choke>::new(&params(&numbers, &[]));
        assert!(trial.offer(1000, 0) && trial.offer(1000, 0));
        assert!(!trial.offer(1000, 0), "the average is 2");
        assert_eq!((trial.dropped.len(), trial.waiting.len()), (2, 1));
        trial.flow = 2;
        assert!(trial.offer(1000, 0), "the average is 1");
    }

    #[test]
    fn packets_of_other_flows_are_marked_where_they_can_be() {
        let numbers = [("min", "1"), ("max", "20"), ("weight", "1"), ("pmax", "50 %")];
        let mut trial = Trial::<Choke>::new(&params(&numbers, &[("ecn", true)]));
        for flow in 1..2000 {
            trial.flow = flow;
            trial.offer(1000, 0b10);
            while trial.waiting.len() > 15 {
                trial.serve();
            }
        }
        assert!(trial.marked > 100 && trial.dropped.is_empty(), "{}", trial.marked);
    }

    #[test]
    fn thresholds_out_of_order_are_refused() {
        let refusal = Trial::<Choke>::refusal(&params(&[("min", "90"), ("max", "90")], &[]));
        assert!(refusal.contains("raise `max`"), "{refusal}");
    }
}
