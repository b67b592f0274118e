//! A receiver: the reservation for the senders of its session, and when it is made.
//!
//! A live host and a host of the simulator have the same. It claims at its node what follows from
//! what it asks for and what the senders announced, and anew once something else follows. What a
//! router refuses it does not claim again: its node repeats it with each refresh. Invariant: the
//! node has what was asked last, unless it refused that, or let it go with its sender (`lapsed`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::units::Rate;

use crate::intserv::{
    Adspec, Flowspec, LATENCY_UNKNOWN, Rspec, Terms, Tspec, queueing_delay_max, rate_for_delay,
};
use crate::node::{Call, Claim, Node};
use crate::wire::{Descriptor, Filter, Priority, Reservation, Session, Style};

/// The request of a receiver.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// How its senders share.
    pub style: Style,
    /// The service, with its rate or delay.
    pub service: Asked,
    /// The senders that it reserves for; empty for all that announce themselves. Port 0 stands for
    /// any port.
    pub senders: Vec<(IpAddr, u16)>,
    /// The token rate in bytes a second, and the bucket in bytes, if not those of the senders.
    pub rate: Option<f32>,
    /// The bucket in bytes: see `rate`.
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
    /// Guaranteed service with this Rspec, also where the path offers none: then a router refuses.
    Rspec(Rspec),
    /// Guaranteed service of the least rate by which packets queue no longer than this from end to
    /// end, in microseconds.
    Queueing(f64),
}

/// The reservation for the senders that are there.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// A flowspec for each sender with FF, else one; with its senders, none with WF.
    pub reservation: Reservation,
    /// Guaranteed service: the bound on delay that follows, in microseconds, the worst of several.
    pub delay_max: Option<f64>,
}

/// A receiver in one session.
#[derive(Clone, Debug)]
pub struct Receiver {
    session: Session,
    /// The address by which it is named.
    own: IpAddr,
    receiving: Receiving,
    senders: Senders,
    asked: Option<Wanted>,
    /// The node let go what was asked.
    lapsed: bool,
    /// The node refused it, and is asked again once a sender tells something else, or goes.
    refused: bool,
}

/// Senders and what they announced.
type Senders = BTreeMap<Filter, (Tspec, Option<Adspec>)>;

impl Receiver {
    /// A receiver at this address that knows no sender yet.
    pub fn new(session: Session, own: IpAddr, receiving: Receiving) -> Self {
        let (senders, asked, lapsed, refused) = (BTreeMap::new(), None, false, false);
        Self { session, own, receiving, senders, asked, lapsed, refused }
    }

    /// Returns the senders that it knows, and what they send at most.
    pub fn senders(&self) -> impl Iterator<Item = (&Filter, &Tspec)> {
        self.senders.iter().map(|(sender, (tspec, _))| (sender, tspec))
    }

    /// Returns what it asked for last, if it wants that still.
    pub fn asked(&self) -> Option<&Wanted> {
        self.asked.as_ref()
    }

    /// Records what a sender announced; returns whether the sender is new.
    pub fn note_sender(&mut self, sender: Filter, tspec: Tspec, adspec: Option<Adspec>) -> bool {
        self.lapsed |= self.refused;
        self.senders.insert(sender, (tspec, adspec)).is_none()
    }

    /// Forgets a sender that went.
    pub fn forget(&mut self, sender: &Filter) {
        self.senders.remove(sender);
        // [rfc2205 §2.4] The node let go with it what was reserved for it, also if it comes back.
        let went = |asked: &Wanted| {
            let mut named = asked.reservation.descriptors.iter().flat_map(|one| &one.filters);
            match asked.reservation.style {
                Style::Wildcard => self.senders.is_empty(),
                Style::Fixed | Style::Shared => named.any(|filter| filter == sender),
            }
        };
        self.lapsed |= self.refused || self.asked.as_ref().is_some_and(went);
    }

    /// Claims what follows from the senders, if that is news; returns whether it was. It ends what
    /// it has if nothing follows.
    ///
    /// # Errors
    /// When the path cannot give what is asked for, or the node refuses; the text says why.
    pub fn claim(&mut self, call: Call<'_>, node: &mut Node) -> Result<bool, String> {
        let wanted = self.receiving.wanted(&self.senders)?;
        if wanted == self.asked && !self.lapsed {
            return Ok(false);
        }
        (self.asked, self.lapsed, self.refused) = (wanted, false, false);
        let Some(Wanted { reservation, .. }) = self.asked.clone() else {
            self.end(call, node);
            return Ok(true);
        };
        let (session, priority) = (self.session, self.receiving.priority);
        let claim = Claim { session, reservation, confirm: Some(self.own), priority };
        let done = node.reserve(call, claim);
        self.refused = done.is_err();
        done.map(|()| true).map_err(|error| error.to_string())
    }

    /// Releases the reservation.
    pub fn end(&mut self, call: Call<'_>, node: &mut Node) {
        self.asked = None;
        // What went with its sender need not go.
        let _gone = node.release(call, self.session);
    }
}

impl Receiving {
    /// Requests `service` for all senders that announce themselves.
    pub fn all(style: Style, service: Asked) -> Self {
        Self { style, service, senders: Vec::new(), rate: None, bucket: None, priority: None }
    }

    /// Returns what to reserve for senders; none while there is none.
    fn wanted(&self, senders: &Senders) -> Result<Option<Wanted>, String> {
        let is_named = |filter: &&Filter| {
            self.senders.is_empty()
                || self.senders.iter().any(|(address, port)| {
                    filter.source == *address
                        && (*port == 0 || **filter == Filter::new(*address, *port))
                })
        };
        let named: Vec<Filter> = senders.keys().filter(is_named).copied().collect();
        if named.is_empty() {
            return Ok(None);
        }
        let style = self.style;
        let groups = match style {
            Style::Fixed => named.iter().map(|filter| vec![*filter]).collect(),
            Style::Shared | Style::Wildcard => vec![named],
        };
        let (mut descriptors, mut delay_max) = (Vec::new(), None);
        for group in groups {
            let (flowspec, delay) = self.flowspec(&group, senders)?;
            delay_max = delay.into_iter().chain(delay_max).reduce(f64::max);
            let filters = if style == Style::Wildcard { Vec::new() } else { group };
            descriptors.push(Descriptor { flowspec: Some(flowspec), filters });
        }
        Ok(Some(Wanted { reservation: Reservation { style, descriptors }, delay_max }))
    }

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
        let (mut rspec, mut delay_max): (Option<Rspec>, Option<f64>) = (None, None);
        for filter in group {
            let (one, delay) = guaranteed(self.service, &tspec, senders[filter].1.as_ref())?;
            rspec = Some(rspec.map_or(one, |other| other.upper(&one)));
            delay_max = delay_max.into_iter().chain(delay).reduce(f64::max);
        }
        Ok((Flowspec::Guaranteed(tspec, rspec.expect("a group has a sender")), delay_max))
    }
}

/// The Rspec of guaranteed service, and the bound on delay from sender to receiver.
fn guaranteed(
    asked: Asked,
    tspec: &Tspec,
    adspec: Option<&Adspec>,
) -> Result<(Rspec, Option<f64>), String> {
    let (terms, latency) = match (offered(adspec), asked) {
        (Ok(offered), _) => offered,
        (Err(_), Asked::Rspec(rspec)) => return Ok((rspec, None)),
        (Err(why), _) => return Err(why.to_owned()),
    };
    let rate = match asked {
        Asked::Delay(delay) => least(tspec, (terms, latency), delay)?,
        Asked::Queueing(delay) => least(tspec, (terms, 0.0), delay)?,
        Asked::Rate(rate) if rate < tspec.rate => {
            return Err(format!(
                "guaranteed service of {} is less than the {} that are sent",
                rate_text(rate.into()),
                rate_text(tspec.rate.into()),
            ));
        }
        Asked::Rate(rate) | Asked::Rspec(Rspec { rate, .. }) => rate,
        Asked::ControlledLoad => tspec.rate,
    };
    let slack = if let Asked::Rspec(rspec) = asked { rspec.slack } else { 0 };
    let delay = queueing_delay_max(tspec, rate, terms) + latency + f64::from(slack);
    Ok((Rspec { rate, slack }, Some(delay)))
}

/// The terms of guaranteed service that a path offers, and its latency in microseconds.
fn offered(adspec: Option<&Adspec>) -> Result<(Terms, f64), &'static str> {
    let offered = adspec.and_then(|path| Some((path, path.guaranteed?)));
    let (path, offer) = offered.ok_or("the sender asks its path for no guaranteed service")?;
    if offer.broken || path.general.broken {
        return Err("a hop of the path offers no guaranteed service");
    }
    let known = Some(path.general.latency).filter(|latency| *latency != LATENCY_UNKNOWN);
    Ok((offer.total, known.unwrap_or(0).into()))
}

/// The least rate that keeps a bound on delay, of which `latency` is not queueing.
fn least(tspec: &Tspec, (terms, latency): (Terms, f64), delay: f64) -> Result<f32, String> {
    rate_for_delay(tspec, terms, delay - latency).ok_or_else(|| {
        format!(
            "no rate keeps a delay of {:.3} ms: the path alone takes {:.3} ms",
            delay / 1e3,
            (f64::from(terms.d) + latency) / 1e3
        )
    })
}

/// A rate in bytes a second, in bit/s.
pub fn rate_text(rate: f64) -> String {
    let bits = (rate * 8.0).round() as u64;
    Rate::new(bits).map_or_else(|| "0 bit/s".to_owned(), |rate| rate.to_string())
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

    #[test]
    fn a_style_says_who_shares() {
        let rows = [(Style::Fixed, 2, 4e5), (Style::Shared, 1, 3e5), (Style::Wildcard, 1, 3e5)];
        for (style, count, rate) in rows {
            let wanted = Receiving::all(style, Asked::ControlledLoad).wanted(&senders());
            let wanted = wanted.expect("it is possible").expect("there are senders");
            assert_eq!(
                (wanted.reservation.descriptors.len(), wanted.reservation.rate()),
                (count, rate),
                "{style}"
            );
            let filters: usize =
                wanted.reservation.descriptors.iter().map(|one| one.filters.len()).sum();
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
                ..Receiving::all(Style::Fixed, Asked::ControlledLoad)
            };
            let wanted = asked.wanted(&senders()).expect("it is possible");
            assert_eq!(wanted.map(|wanted| wanted.reservation.rate()), rate, "{named:?}");
        }
    }

    #[test]
    fn a_delay_becomes_a_rate_that_keeps_it() {
        let asked = Receiving::all(Style::Fixed, Asked::Delay(10_000.0));
        let wanted = asked.wanted(&senders()).expect("it is possible").expect("senders");
        // [rfc2212] An infinite peak: b/R, so 3000 bytes in 10 ms.
        assert!((wanted.reservation.rate() - 2.0 * 3e5).abs() < 1.0, "{wanted:?}");
        assert!(wanted.delay_max.is_some_and(|delay| delay <= 10_000.0), "{wanted:?}");
        let slow = Receiving::all(Style::Fixed, Asked::Rate(1000.0));
        let why = slow.wanted(&senders()).expect_err("less than is sent");
        assert!(why.contains("less than"), "{why}");
        let mut others = senders();
        others.values_mut().for_each(|(_, adspec)| *adspec = None);
        let why = asked.wanted(&others).expect_err("nothing is known of the path");
        assert!(why.contains("no guaranteed service"), "{why}");
    }

    #[test]
    fn what_went_with_its_sender_is_asked_for_again_though_the_sender_is_back() {
        let one = Filter::new([10, 0, 0, 1].into(), 4000);
        let stranger = Filter::new([10, 0, 0, 3].into(), 4000);
        let rows = [
            (Style::Fixed, one, true),
            (Style::Shared, one, true),
            (Style::Wildcard, one, false),
            (Style::Fixed, stranger, false),
        ];
        for (style, gone, lapses) in rows {
            let asked = Receiving::all(style, Asked::ControlledLoad);
            let mut receiver =
                Receiver::new(Session::udp([10, 0, 0, 9].into(), 5004), gone.source, asked);
            receiver.senders = senders();
            receiver.asked = receiver.receiving.wanted(&senders()).expect("it is possible");
            receiver.forget(&gone);
            assert_eq!(receiver.lapsed, lapses, "{style} without {gone}");
        }
    }
}
