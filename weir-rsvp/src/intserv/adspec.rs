//! ADSPEC: what a path offers, and what each hop adds to it [rfc2210 §3.3, rfc2215].

/// The properties of a path, from the sender to here.
#[derive(Clone, PartialEq, Debug)]
pub struct Adspec {
    /// Parameters that hold for every service.
    pub general: General,
    /// Guaranteed service, if the sender asks for its terms.
    pub guaranteed: Option<GuaranteedPath>,
    /// Controlled load, if the sender asks for it.
    pub controlled_load: Option<ControlledLoadPath>,
    /// Services that this node does not know, as they came.
    pub others: Vec<OtherService>,
}

/// The default general parameters [rfc2215 §3].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct General {
    /// A hop did not take part (the break bit), so that the rest may be wrong.
    pub broken: bool,
    /// Hops that offer integrated services.
    pub hops: u32,
    /// The least bandwidth of the path in bytes a second.
    pub bandwidth: f32,
    /// The least latency of the path in microseconds; [`LATENCY_UNKNOWN`] if a hop does not know.
    pub latency: u32,
    /// The largest packet that passes without fragmentation.
    pub mtu: u32,
}

/// The terms of guaranteed service `[rfc2212]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GuaranteedPath {
    /// A hop does not offer the service.
    pub broken: bool,
    /// The totals Ctot and Dtot.
    pub total: Terms,
    /// Csum and Dsum since the flow was last reshaped.
    pub since: Terms,
    /// Values for this service in place of the general ones.
    pub overrides: Overrides,
}

/// Controlled load [rfc2211 §6].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ControlledLoadPath {
    /// A hop does not offer the service.
    pub broken: bool,
    /// Values for this service in place of the general ones.
    pub overrides: Overrides,
}

/// General parameters that a service has values of its own for [rfc2210 §3.3].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Overrides {
    /// Hops that offer the service.
    pub hops: Option<u32>,
    /// Bandwidth in bytes a second.
    pub bandwidth: Option<f32>,
    /// The latency in microseconds.
    pub latency: Option<u32>,
    /// The largest packet that passes without fragmentation.
    pub mtu: Option<u32>,
}

/// A service that this node does not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherService {
    /// The number of the service, as IANA assigns it.
    pub number: u8,
    /// A hop does not offer it.
    pub broken: bool,
    /// Its parameters, unread: a multiple of 4 bytes.
    pub bytes: Vec<u8>,
}

/// The error terms of a hop, or their sums over a path `[rfc2212]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// The rate-dependent term C in bytes: a packet may come C/R later.
    pub c: u32,
    /// The rate-independent term D in microseconds.
    pub d: u32,
}

/// The properties of an interface, for flows that leave by it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Characterization {
    /// The bandwidth that reservations may have, in bytes a second.
    pub bandwidth: f32,
    /// The least latency to the next hop in microseconds, if it is known.
    pub latency: Option<u32>,
    /// The largest packet in bytes.
    pub mtu: u32,
    /// The terms of guaranteed service, if it is offered.
    pub guaranteed: Option<Terms>,
    /// Whether controlled load is offered.
    pub controlled_load: bool,
}

impl Adspec {
    /// The ADSPEC that a sender puts into its Path, before any hop adds to it.
    pub fn at_sender(bandwidth: f32, mtu: u32) -> Self {
        let overrides = Overrides::default();
        let (total, since) = (Terms::default(), Terms::default());
        Self {
            general: General { broken: false, hops: 0, bandwidth, latency: 0, mtu },
            guaranteed: Some(GuaranteedPath { broken: false, total, since, overrides }),
            controlled_load: Some(ControlledLoadPath::default()),
            others: Vec::new(),
        }
    }

    /// Adds a hop [rfc2210 §3.3]: hops are counted, latency and terms add up, bandwidth and MTU are
    /// the least.
    pub fn pass(&mut self, hop: &Characterization) {
        self.general.pass(hop);
        if let Some(guaranteed) = &mut self.guaranteed {
            guaranteed.overrides.pass(hop);
            match hop.guaranteed {
                Some(terms) => {
                    guaranteed.total = guaranteed.total.plus(terms);
                    guaranteed.since = guaranteed.since.plus(terms);
                }
                None => guaranteed.broken = true,
            }
        }
        if let Some(load) = &mut self.controlled_load {
            load.overrides.pass(hop);
            load.broken |= !hop.controlled_load;
        }
        // [rfc2210 §3.3] A hop sets the break bit of a service that it does not offer.
        self.others.iter_mut().for_each(|service| service.broken = true);
    }

    /// Marks that a hop without RSVP lies behind [rfc2210 §3.3].
    pub fn mark_broken(&mut self) {
        self.general.broken = true;
    }
}

impl General {
    fn pass(&mut self, hop: &Characterization) {
        self.hops = self.hops.saturating_add(1);
        self.bandwidth = self.bandwidth.min(hop.bandwidth);
        self.latency = later(self.latency, hop.latency);
        self.mtu = self.mtu.min(hop.mtu);
    }
}

impl Overrides {
    /// This node has no values for one service alone, so it adds the general ones.
    fn pass(&mut self, hop: &Characterization) {
        self.hops = self.hops.map(|hops| hops.saturating_add(1));
        self.bandwidth = self.bandwidth.map(|bandwidth| bandwidth.min(hop.bandwidth));
        self.latency = self.latency.map(|latency| later(latency, hop.latency));
        self.mtu = self.mtu.map(|mtu| mtu.min(hop.mtu));
    }
}

impl Terms {
    /// The terms of two parts of a path; a sum that does not fit is the largest number.
    #[must_use]
    pub const fn plus(self, other: Terms) -> Terms {
        Terms { c: self.c.saturating_add(other.c), d: self.d.saturating_add(other.d) }
    }
}

/// [rfc2215 §3.4] What is unknown stays unknown.
fn later(latency: u32, hop: Option<u32>) -> u32 {
    hop.map_or(LATENCY_UNKNOWN, |hop| latency.saturating_add(hop))
}

/// The latency of a path where a hop does not know its own [rfc2215 §3.4].
pub const LATENCY_UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Characterization = Characterization {
        bandwidth: 1e6,
        latency: Some(500),
        mtu: 1500,
        guaranteed: Some(Terms { c: 1500, d: 100 }),
        controlled_load: true,
    };

    #[test]
    fn hops_compose() {
        let mut adspec = Adspec::at_sender(1e9, 9000);
        adspec.pass(&HOP);
        adspec.pass(&Characterization { bandwidth: 5e5, mtu: 1400, ..HOP });
        let general = General { broken: false, hops: 2, bandwidth: 5e5, latency: 1000, mtu: 1400 };
        assert_eq!(adspec.general, general);
        let guaranteed = adspec.guaranteed.expect("the sender asked for it");
        assert_eq!(guaranteed.total, Terms { c: 3000, d: 200 });
        assert!(!guaranteed.broken);
        adspec.pass(&Characterization { latency: None, guaranteed: None, ..HOP });
        adspec.pass(&HOP);
        assert_eq!(adspec.general.latency, LATENCY_UNKNOWN);
        assert!(adspec.guaranteed.expect("it stays").broken, "one hop does not offer it");
        assert!(!adspec.controlled_load.expect("it stays").broken);
    }
}
