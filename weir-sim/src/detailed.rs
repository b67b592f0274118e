//! Rules that test what differs between packets of a flow: length and TCP's flags.
//!
//! Where a policy has none, one decision serves all packets of a source. Where it has one, each
//! packet is classified by its own headers, as it would be live.

use crate::frame;
use crate::packets::Content;
use crate::scenario::{Scenario, Source};
use weir_core::classify::{Classified, Classifier, InterfaceId};
use weir_core::link::Arrival;
use weir_core::packet::Headers;

/// Classifies each packet of a run.
pub(crate) struct Detailed {
    classifier: Classifier,
    /// By source.
    interfaces: Vec<InterfaceId>,
}

impl Detailed {
    /// One for a classifier whose rules need it; rules call interfaces as `interface` says.
    pub fn new(
        sources: &[Source],
        classifier: &Classifier,
        interface: impl Fn(InterfaceId) -> InterfaceId,
    ) -> Option<Box<Self>> {
        if !classifier.tests_details() {
            return None;
        }
        let interfaces = sources.iter().map(|source| interface(source.interface)).collect();
        Some(Box::new(Self { classifier: classifier.clone(), interfaces }))
    }

    /// Returns the headers of a packet of the source with this number, and where they lead it.
    pub fn find(
        &mut self,
        (number, scenario): (u32, &Scenario),
        content: &Content,
        arrival: Arrival,
    ) -> (Headers, Classified) {
        let source = &scenario.sources[number as usize];
        let traffic_class = Some(arrival.packet.traffic_class);
        let headers = Headers { traffic_class, ..source.headers };
        let headers = frame::detailed(&headers, arrival.packet.length, content);
        let interface = self.interfaces[number as usize];
        (headers, self.classifier.classify(arrival.at, interface, &headers))
    }
}
