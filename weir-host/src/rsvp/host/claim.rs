//! What a receiver reserves: its flowspecs, from what it asks for and what the senders announced.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_rsvp::intserv::{
    Adspec, Flowspec, LATENCY_UNKNOWN, Rspec, Tspec, queueing_delay_max, rate_for_delay,
};
use weir_rsvp::node::Claim;
use weir_rsvp::wire::{Descriptor, Filter, Priority, Reservation, Session, Style};

/// What a receiver asks for.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// How its senders share.
    pub style: Style,
    /// The service.
    pub service: Asked,
    /// The senders that it reserves for; empty for all that announce themselves. Port 0 stands for
    /// any port.
    pub senders: Vec<(IpAddr, u16)>,
    /// The token rate in bytes a second, and the bucket in bytes, if not those of the senders.
    pub rate: Option<f32>,
    /// See `rate`.
    pub bucket: Option<f32>,
    /// Which reservations it takes the place of, and which take its place.
    pub priority: Option<Priority>,
}

/// A service that is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Asked {
    /// As on a lightly loaded network.
    ControlledLoad,
    /// Guaranteed service of this rate in bytes a second.
    Rate(f32),
    /// Guaranteed service of the least rate that keeps this bound on delay, in microseconds.
    Delay(f64),
}

/// What is reserved for the senders that are there.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// The style.
    pub style: Style,
    /// A flowspec for each sender with FF, else one; with its senders, none with WF.
    pub descriptors: Vec<(Flowspec, Vec<Filter>)>,
    /// Guaranteed service: the bound on delay that follows, in microseconds, the worst of several.
    pub delay_max: Option<f64>,
    /// See [`Receiving::priority`].
    pub priority: Option<Priority>,
}

/// Senders and what they announced.
type Senders = BTreeMap<Filter, (Tspec, Option<Adspec>)>;

impl Wanted {
    /// Returns what to reserve for senders; none while there is none.
    ///
    /// # Errors
    /// When the path cannot give what is asked for; the text says why.
    pub fn of(receiving: &Receiving, senders: &Senders) -> Result<Option<Self>, String> {
        let is_named = |filter: &&Filter| {
            receiving.senders.is_empty()
                || receiving.senders.iter().any(|(address, port)| {
                    filter.source == *address
                        && (*port == 0 || **filter == Filter::new(*address, *port))
                })
        };
        let named: Vec<Filter> = senders.keys().filter(is_named).copied().collect();
        if named.is_empty() {
            return Ok(None);
        }
        let style = receiving.style;
        let groups = match style {
            Style::Fixed => named.iter().map(|filter| vec![*filter]).collect(),
            Style::Shared | Style::Wildcard => vec![named],
        };
        let (mut descriptors, mut delay_max) = (Vec::new(), None);
        for group in groups {
            let (flowspec, delay) = receiving.flowspec(&group, senders)?;
            delay_max = delay.into_iter().chain(delay_max).reduce(f64::max);
            let filters = if style == Style::Wildcard { Vec::new() } else { group };
            descriptors.push((flowspec, filters));
        }
        Ok(Some(Self { style, descriptors, delay_max, priority: receiving.priority }))
    }

    /// The call of the node.
    pub fn claim(&self, session: Session, own: IpAddr) -> Claim {
        let descriptor = |(flowspec, filters): &(Flowspec, Vec<Filter>)| Descriptor {
            flowspec: Some(*flowspec),
            filters: filters.clone(),
        };
        let descriptors = self.descriptors.iter().map(descriptor).collect();
        let reservation = Reservation { style: self.style, descriptors };
        Claim { session, reservation, confirm: Some(own), priority: self.priority }
    }

    /// Returns the rate of all, in bytes a second.
    pub fn rate(&self) -> f64 {
        let rate = |flowspec: &Flowspec| match flowspec {
            Flowspec::ControlledLoad(tspec) => tspec.rate,
            Flowspec::Guaranteed(_, rspec) => rspec.rate,
        };
        self.descriptors.iter().map(|(flowspec, _)| f64::from(rate(flowspec))).sum()
    }

    /// Returns the name of the service.
    pub fn service(&self) -> Option<&'static str> {
        self.descriptors.first().map(|(flowspec, _)| match flowspec {
            Flowspec::ControlledLoad(_) => "controlled-load",
            Flowspec::Guaranteed(..) => "guaranteed",
        })
    }
}

impl Receiving {
    /// A flowspec for senders that share, and the bound on delay that it promises.
    fn flowspec(
        &self,
        group: &[Filter],
        senders: &Senders,
    ) -> Result<(Flowspec, Option<f64>), String> {
        let announced = group.iter().map(|filter| senders[filter].0);
        // One of them sends at a time, or the receiver says how much they send together.
        let mut tspec =
            announced.reduce(|one, other| one.upper(&other)).expect("a group has a sender");
        if let Some(rate) = self.rate {
            tspec.rate = rate;
            tspec.peak = tspec.peak.max(rate);
        }
        tspec.bucket = self.bucket.unwrap_or(tspec.bucket).max(tspec.packet_max as f32);
        if self.service == Asked::ControlledLoad {
            return Ok((Flowspec::ControlledLoad(tspec), None));
        }
        let mut worst: Option<(f32, f64)> = None;
        for filter in group {
            let (rate, delay) = guaranteed(self.service, &tspec, senders[filter].1.as_ref())?;
            let (most, latest) = worst.unwrap_or((rate, delay));
            worst = Some((most.max(rate), latest.max(delay)));
        }
        let (rate, delay) = worst.expect("a group has a sender");
        let rspec = Rspec { rate, slack: 0 };
        Ok((Flowspec::Guaranteed(tspec, rspec), Some(delay)))
    }
}

/// The rate R of guaranteed service, and the bound on delay from sender to receiver.
fn guaranteed(asked: Asked, tspec: &Tspec, adspec: Option<&Adspec>) -> Result<(f32, f64), String> {
    let offered = adspec.and_then(|path| Some((path, path.guaranteed?)));
    let Some((path, offer)) = offered else {
        return Err("the sender asks its path for no guaranteed service".to_owned());
    };
    if offer.broken || path.general.broken {
        return Err("a hop of the path offers no guaranteed service".to_owned());
    }
    let known = Some(path.general.latency).filter(|latency| *latency != LATENCY_UNKNOWN);
    let latency = f64::from(known.unwrap_or(0));
    let rate = match asked {
        Asked::Delay(delay) => {
            let least = f64::from(offer.total.d) + latency;
            rate_for_delay(tspec, offer.total, delay - latency).ok_or_else(|| {
                format!(
                    "no rate keeps a delay of {:.3} ms: the path alone takes {:.3} ms",
                    delay / 1e3,
                    least / 1e3
                )
            })?
        }
        Asked::Rate(rate) if rate < tspec.rate => {
            return Err(format!(
                "guaranteed service of {} is less than the {} that are sent",
                super::rate_text(rate.into()),
                super::rate_text(tspec.rate.into()),
            ));
        }
        Asked::Rate(rate) => rate,
        Asked::ControlledLoad => tspec.rate,
    };
    Ok((rate, queueing_delay_max(tspec, rate, offer.total) + latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders() -> Senders {
        let tspec = |rate| Tspec {
            rate,
            bucket: 3000.0,
            peak: f32::INFINITY,
            packet_min: 64,
            packet_max: 1500,
        };
        let row = |host: u8, port, rate| {
            let adspec = Some(Adspec::at_sender(1e9, 1500));
            (Filter::new([10, 0, 0, host].into(), port), (tspec(rate), adspec))
        };
        BTreeMap::from([row(1, 4000, 1e5), row(2, 4000, 3e5)])
    }

    fn receiving(style: Style, service: Asked) -> Receiving {
        Receiving { style, service, senders: Vec::new(), rate: None, bucket: None, priority: None }
    }

    #[test]
    fn a_style_says_who_shares() {
        let rows = [(Style::Fixed, 2, 4e5), (Style::Shared, 1, 3e5), (Style::Wildcard, 1, 3e5)];
        for (style, count, rate) in rows {
            let wanted = Wanted::of(&receiving(style, Asked::ControlledLoad), &senders());
            let wanted = wanted.expect("it is possible").expect("there are senders");
            assert_eq!((wanted.descriptors.len(), wanted.rate()), (count, rate), "{style}");
            let filters: usize = wanted.descriptors.iter().map(|(_, filters)| filters.len()).sum();
            assert_eq!(filters, if style == Style::Wildcard { 0 } else { 2 }, "{style}");
        }
    }

    #[test]
    fn only_named_senders_are_reserved_for() {
        let rows = [
            (vec![([10, 0, 0, 1], 0)], Some(1e5)),
            (vec![([10, 0, 0, 1], 4000)], Some(1e5)),
            (vec![([10, 0, 0, 1], 4001)], None),
            (vec![([10, 0, 0, 1], 4000), ([10, 0, 0, 2], 0)], Some(4e5)),
        ];
        for (named, rate) in rows {
            let senders_named: Vec<(IpAddr, u16)> =
                named.iter().map(|(host, port)| ((*host).into(), *port)).collect();
            let asked = Receiving {
                senders: senders_named,
                ..receiving(Style::Fixed, Asked::ControlledLoad)
            };
            let wanted = Wanted::of(&asked, &senders()).expect("it is possible");
            assert_eq!(wanted.map(|wanted| wanted.rate()), rate, "{named:?}");
        }
    }

    #[test]
    fn a_delay_becomes_a_rate_that_keeps_it() {
        let asked = receiving(Style::Fixed, Asked::Delay(10_000.0));
        let wanted = Wanted::of(&asked, &senders()).expect("it is possible").expect("senders");
        // [rfc2212] An infinite peak: b/R, so 3000 bytes in 10 ms.
        assert!((wanted.rate() - 2.0 * 3e5).abs() < 1.0, "{wanted:?}");
        assert!(wanted.delay_max.is_some_and(|delay| delay <= 10_000.0), "{wanted:?}");
        let slow = receiving(Style::Fixed, Asked::Rate(1000.0));
        let why = Wanted::of(&slow, &senders()).expect_err("less than is sent");
        assert!(why.contains("less than"), "{why}");
        let mut others = senders();
        others.values_mut().for_each(|(_, adspec)| *adspec = None);
        let why = Wanted::of(&asked, &others).expect_err("nothing is known of the path");
        assert!(why.contains("no guaranteed service"), "{why}");
    }
}
