//! Turns that count on a rate of the link which changes while it runs [algorithms §13.6].

use super::{FlowQueues, Turns};
use crate::units::Rate;

impl FlowQueues {
    /// Counts on another rate of the link from now on: tins have parts of it.
    pub(in super::super) fn follow_rate(&mut self, rate: Rate) {
        if let Turns::Tins(tins) = &mut self.turns {
            tins.follow_rate(rate);
        }
    }
}
