//! Networks: hosts, routers and links of any topology, and the models of a router's insides.
//!
//! The second engine beside the one-link run: it shares links, sources, TCP endpoints, meters and
//! reports with it, and advances each outlet at the instants at which something happens there.
//! [`plan`] says what a network is; a [`crate::Scenario`] that has one is run by this.

mod autorate;
mod control;
mod cpu;
mod disturbance;
mod echoes;
mod engine;
pub(crate) mod fragments;
mod lanes;
mod outlet;
mod parcel;
pub mod plan;
mod report;
mod routes;
pub mod signalling;
mod tap;

pub use control::{AutorateReport, Control};
pub use disturbance::{Disturbance, Jump};
pub use plan::Network;
pub use report::{NetworkReport, OutletReport, ProcessorReport, QueueReport};
pub use routes::route;
pub use tap::{TapClass, TapReport, TapRow};

use crate::report::Report;
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::watch::Watch;
use engine::Engine;
use plan::{OutletId, Queueing};
use weir_core::units::Duration;

/// Returns `scenario` with another main outlet, whose policy is then the scenario's own; `None` if
/// it has no such outlet.
pub fn led_by(scenario: &Scenario, main: OutletId) -> Option<Scenario> {
    let mut led = scenario.clone();
    let network = led.network.as_mut()?;
    if main == network.main {
        return Some(led);
    }
    let outlet = |id: OutletId| (id.index() / 2, id.index() % 2);
    let (link, end) = outlet(main);
    let own = network.links.get_mut(link)?.outlets[end].queueing.take()?;
    let before = Queueing { link: led.link, classifier: led.classifier };
    let (link, end) = outlet(network.main);
    network.links[link].outlets[end].queueing = Some(Box::new(before));
    network.main = main;
    (led.link, led.classifier) = (own.link, own.classifier);
    Some(led)
}

/// Simulates the network of `scenario` and reports what `watch` requests; the reasons of waits are
/// those of its main outlet.
pub(crate) fn run<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
    watch: Watch<'a>,
    progress: &mut dyn FnMut(Duration),
) -> Result<Report, RunError> {
    let mut engine = Engine::new(scenario, network)?;
    engine.watch(watch)?;
    engine.all(progress);
    Ok(engine.report())
}
