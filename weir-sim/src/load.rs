//! The load that sources of a scenario offer.

use crate::run::lanes;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use weir_core::link::Arrival;
use weir_core::units::Instant;
use weir_trace::load::{Load, Stage};

/// Returns what the sources of `scenario` offer to the link of the policy `text`, which is the
/// scenario's.
///
/// # Errors
/// When the policy has errors, or a source sends by TCP: what that sends depends on the link.
pub fn of_scenario(scenario: &Scenario, text: &str) -> Result<Load, String> {
    let stage = Stage::new(Instant::ZERO, "policy.toml", text)?;
    let end = Instant::ZERO.after(scenario.duration);
    let lanes = lanes(&scenario.sources, &scenario.classifier, |interface| interface);
    let mut arrivals = Vec::new();
    for (source, lane) in scenario.sources.iter().zip(&lanes) {
        let Schedule::Packets(packets) = Schedule::new(scenario.seed, source) else {
            return Err(format!("source `{}` sends by TCP", source.name));
        };
        let packets = packets.take_while(|packet| packet.at < end);
        arrivals.extend(packets.map(|it| lane.arrival(it.at, Load::handle(0), it.length)));
    }
    // Stable, so sources that send at one instant stay in their order.
    arrivals.sort_by_key(|arrival: &Arrival| arrival.at);
    for (place, arrival) in arrivals.iter_mut().enumerate() {
        arrival.packet.handle = Load::handle(place);
    }
    Ok(Load::new(stage, arrivals, (Instant::ZERO, end)))
}
