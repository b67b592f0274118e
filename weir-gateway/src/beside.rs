//! A live run and its simulation as a source: a record of a link, and what a simulation of the same
//! traffic did. All but their comparison is that of the record.
//!
//! Invariant: both begin with the first packet of the direction, and have the same intervals.

use crate::http::Fault;
use crate::json::{
    About, Beside, BesideQuery, ClassHistory, Fork, ForkQuery, Heat, HeatQuery, History,
    HistoryQuery, Knob, KnobsQuery, Mark, Packets, PacketsQuery, Predict, Prediction, Promises,
    PromisesQuery, SpanQuery,
};
use crate::record::Record;
use crate::source::Source;
use std::collections::BTreeMap;
use weir_control::protocol::Right;
use weir_core::units::Duration;
use weir_sim::timeline::{Track, Tracks};
use weir_sim::whatif::WhatIf;

/// A live run beside its simulation, as a source of the page.
pub struct Both {
    /// The record of the live run.
    pub record: Record,
    /// The direction that was simulated.
    pub direction: String,
    /// The tracks of the simulated run, from its first packet on.
    pub simulated: Tracks,
}

impl Source for Both {
    fn about(&self, right: Right) -> Result<About, Fault> {
        let mut about = self.record.about(right)?;
        about.abilities.beside = true;
        // What is compared comes first.
        about.directions.sort_by_key(|way| way.name != self.direction);
        Ok(about)
    }

    fn beside(&self, query: &BesideQuery) -> Result<Beside, Fault> {
        let Self { record, direction, simulated } = self;
        if query.direction.as_ref().is_some_and(|asked| asked != direction) {
            let text = format!("only the direction `{direction}` was simulated; ask for that one");
            return Err(Fault::new(404, text));
        }
        let step = Duration::from_nanos((simulated.step_s * 1e9).round() as u64);
        let bins =
            simulated.classes.iter().map(|class| class.history.sent_bps.len()).max().unwrap_or(0);
        let History { mut t, classes: mut live, .. } =
            record.tape().from_first(direction, (step, bins))?;
        // The record may end before the simulation, in the middle of an interval.
        let end = |t: &[f64]| t.len() >= 2 && t[t.len() - 1] - t[t.len() - 2] < step_ms(step) - 0.5;
        if end(&t) {
            t.pop();
        }
        let bins = t.len().min(bins);
        t.truncate(bins);
        live.values_mut().for_each(|class| class.truncate(bins));
        // Classes above others are sums, which the simulation does not tell of.
        live.retain(|name, _| simulated.classes.iter().any(|track| track.name == *name));
        let row = |track: &Track| (track.name.clone(), simulated_class(track, bins));
        Ok(Beside {
            t,
            step_ms: step_ms(step),
            live,
            simulated: simulated.classes.iter().map(row).collect::<BTreeMap<_, _>>(),
            about: simulated.about.clone(),
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        self.record.history(query)
    }

    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        self.record.heat(query)
    }

    fn events(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        self.record.events(query)
    }

    fn knobs(&self, query: &KnobsQuery) -> Result<Vec<Knob>, Fault> {
        self.record.knobs(query)
    }

    fn promises(&self, query: &PromisesQuery) -> Result<Promises, Fault> {
        self.record.promises(query)
    }

    fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        self.record.predict(predict)
    }

    fn packets(&self, query: &PacketsQuery) -> Result<Packets, Fault> {
        self.record.packets(query)
    }

    fn fork(&self, query: &ForkQuery) -> Result<Fork, Fault> {
        self.record.fork(query)
    }

    fn reacting(&self, query: &ForkQuery) -> Result<WhatIf, Fault> {
        self.record.reacting(query)
    }
}

fn step_ms(step: Duration) -> f64 {
    step.as_nanos() as f64 / 1e6
}

/// The first intervals of a class of the simulation.
fn simulated_class(track: &Track, bins: usize) -> ClassHistory {
    let (backlog_bytes, borrowed_bps) = (Vec::new(), Vec::new());
    let mut class = ClassHistory { backlog_bytes, borrowed_bps, ..track.history.clone() };
    class.truncate(bins);
    class
}
