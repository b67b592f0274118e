//! How much memory a run needs, reckoned before it starts.
//!
//! An upper estimate, within a factor of two of the truth where it is large: what every class,
//! waiting packet, histogram and TCP buffer takes at its fullest. Invariant: no part is smaller
//! than what the run allocates for it.

use crate::bins::cells;
use crate::scenario::{Scenario, Traffic};
use std::fmt;
use weir_core::link::LinkPlan;
use weir_core::queue::{DROPPERS, Limit};
use weir_core::units::{Bytes, Duration};

/// What a run needs, by what for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Each part in bytes, the largest first.
    pub parts: Vec<(&'static str, u64)>,
}

impl Need {
    /// What a run of `scenario` needs, with bins of this width.
    pub fn of(scenario: &Scenario, bins: Option<Duration>) -> Self {
        let plans =
            || std::iter::once(&scenario.link).chain(scenario.changes.iter().map(|c| &c.link));
        let most = |of: &dyn Fn(&LinkPlan) -> u64| plans().map(of).max().unwrap_or(0);
        let classes = plans().fold(0u64, |sum, plan| sum + plan.tree.classes().len() as u64);
        let sources = scenario.sources.len() as u64;
        // A leaf has a histogram once it sent; every class above it once it is reported.
        let busy = most(&|plan| (plan.tree.leaf_count() as u64).min(sources));
        let above = most(&|plan| (plan.tree.classes().len() - plan.tree.leaf_count()) as u64);
        let histograms = busy * 2 + above + sources * 2;
        let cells = bins.and_then(|width| cells(scenario, width)).unwrap_or(0);
        let mut parts = vec![
            ("classes", classes * CLASS_BYTES),
            ("packets that wait", most(&waiting) * PACKET_BYTES),
            ("histograms", histograms * HISTOGRAM_BYTES),
            ("sources", sources * SOURCE_BYTES),
            ("TCP windows", tcp(scenario)),
            ("recorded arrivals", recorded(scenario)),
            ("bins", cells.saturating_mul(8)),
        ];
        parts.retain(|part| part.1 > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.1));
        Self { parts }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.1))
    }
}

/// The most packets that wait: the link's limit, or those of its leaves if that is less.
fn waiting(plan: &LinkPlan) -> u64 {
    let leaves = plan.queues.iter().map(|queue| {
        let limit = DROPPERS.iter().find(|row| row.keyword == queue.dropper);
        let limit = limit.map(|descriptor| Limit::from_params(&queue.params, descriptor));
        match limit {
            Some(Limit::Packets(packets)) => u64::from(packets),
            // Packets of a byte each are possible, of 64 bytes likely.
            Some(Limit::Bytes(bytes)) => bytes.get() / 64 + 1,
            None => u64::from(plan.packets_max),
        }
    });
    leaves.fold(0u64, u64::saturating_add).min(u64::from(plan.packets_max))
}

/// Buffers of the stacks, and the packets under way that they wrote.
fn tcp(scenario: &Scenario) -> u64 {
    let plans = scenario.sources.iter().filter_map(|source| source.traffic.tcp());
    // The receiver's buffer and the sender's two; a window under way, and its packets' own size.
    let of = |window: Bytes| window.get().saturating_mul(WINDOWS).saturating_add(STACK_BYTES);
    plans.map(|tcp| of(tcp.window)).fold(0, u64::saturating_add)
}

fn recorded(scenario: &Scenario) -> u64 {
    let held = |traffic: &Traffic| match traffic {
        Traffic::Scripted(script) => script.held_bytes(),
        _ => 0,
    };
    scenario.sources.iter().map(|source| held(&source.traffic)).sum()
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |&(what, bytes): &(&str, u64)| format!("{what} {}", Shown(bytes));
        let parts: Vec<_> = self.parts.iter().take(3).map(part).collect();
        write!(f, "{} ({})", Shown(self.total()), parts.join(", "))
    }
}

/// Bytes for people.
pub struct Shown(pub u64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.iter().find(|unit| self.0 >> unit.1 > 0) {
            Some((name, shift)) => {
                write!(f, "{:.1} {name}", self.0 as f64 / (1u64 << shift) as f64)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A class in the plan, in the scheduler, and in the accounts and rows that reports are made of.
const CLASS_BYTES: u64 = 2048;
/// A waiting packet in the link, its slot in the simulation, and an event for it.
const PACKET_BYTES: u64 = 160;
const HISTOGRAM_BYTES: u64 = 10 << 10;
/// A source's plan, name, meter, lane and event.
const SOURCE_BYTES: u64 = 1024;
const WINDOWS: u64 = 5;
/// Two stacks beside their buffers.
const STACK_BYTES: u64 = 16 << 10;
