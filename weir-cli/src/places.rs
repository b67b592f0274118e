//! The names of a scenario's outlets in files with a row or a frame for each packet.

use weir_sim::Scenario;
use weir_sim::network::plan::OutletId;

/// The names of an outlet in files of packets: its link, and the node that it leads away from.
pub type Place = (String, String);

/// Returns the places of all outlets, in their order; without a network there is one link, without
/// a node name.
pub fn places(scenario: &Scenario) -> Vec<Place> {
    let Some(network) = &scenario.network else {
        return vec![(ONE_LINK.to_owned(), String::new())];
    };
    let place = |id: u32| {
        let (link, from) = network.outlet_names(OutletId(id));
        (link.to_owned(), from.to_owned())
    };
    (0..2 * network.links.len() as u32).map(place).collect()
}

/// The name in files of the link of a scenario without a network.
const ONE_LINK: &str = "link";
