//! How the rate of an outlet varies, and the report of it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use weir_autorate::Plan;
use weir_core::units::Rate;
use weir_trace::capacity::Capacity;

/// How the rate of an outlet varies.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// By a controller.
    Controller(Plan),
    /// As this capacity does, but not below a rate: by one that knows the trace.
    Follow(Capacity, Rate),
}

/// The rate of an outlet over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct AutorateReport {
    /// The controller; `oracle` if it knows the trace.
    pub controller: &'static str,
    /// How often the rate changed in the whole run.
    pub changes: u64,
    /// For how many intervals of 25 ms each reason held.
    pub reasons: BTreeMap<&'static str, u64>,
    /// How many echoes reflectors were asked for.
    #[serde(skip_serializing_if = "is_none")]
    pub echoes: u64,
    /// The rate at the end of each step, as wide as those of the bottleneck, warm-up included.
    pub rate_bps: Vec<u64>,
}

impl fmt::Display for AutorateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, changes, reasons, echoes, .. } = self;
        write!(f, "rate by {controller}: {changes} changes")?;
        if *echoes > 0 {
            write!(f, ", {echoes} echoes")?;
        }
        let all: Vec<_> = reasons.iter().map(|(word, count)| format!("{word} {count}")).collect();
        if all.is_empty() { Ok(()) } else { write!(f, "; intervals: {}", all.join(", ")) }
    }
}

/// Returns whether no reflector was asked.
fn is_none(echoes: &u64) -> bool {
    *echoes == 0
}
