//! Networks: hosts, routers and links of any topology, and the models of a router's insides.
//!
//! The second engine beside the one-link run: it shares links, sources, TCP endpoints, meters and
//! reports with it, and asks each outlet at the instants at which something happens there.
//! [`plan`] says what a network is; a [`crate::Scenario`] that has one is run by this.

mod cpu;
mod driver;
mod engine;
mod fragments;
mod lanes;
mod outlet;
mod parcel;
pub mod plan;
mod report;
mod routes;
mod tap;
mod waiting;

pub use plan::Network;
pub use report::{NetworkReport, OutletReport, ProcessorReport, QueueReport};
pub use routes::route;
pub use tap::{TapClass, TapReport, TapRow};

use crate::report::Report;
use crate::run::RunError;
use crate::scenario::Scenario;
use engine::Engine;
use weir_core::units::Duration;

/// Simulates the network of `scenario`; explains so many of the slowest packets of its main outlet
/// if that is asked.
pub(crate) fn run(
    scenario: &Scenario,
    network: &Network,
    slowest: Option<usize>,
    progress: &mut dyn FnMut(Duration),
) -> Result<Report, RunError> {
    let mut engine = Engine::new(scenario, network)?;
    if let Some(slowest) = slowest {
        engine.outlets[network.main.index()].explain(slowest);
    }
    engine.all(progress);
    Ok(engine.report())
}
