//! The conditions of a rule as sets of packets: what two rules have in common, what one leaves of
//! another, and the rules of a policy that say the same.

use super::sketch::{Key, quoted};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Disjoint ranges of numbers, the smallest first; both ends belong to a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranges(Vec<(u128, u128)>);

/// Addresses of both versions of IP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Addresses {
    four: Ranges,
    six: Ranges,
}

/// A version of IP, or what finds its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    Four,
    Six,
    Arp,
}

/// The conditions of a rule; `None` is any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Conditions {
    pub version: Option<Version>,
    pub protocols: Option<Ranges>,
    pub sources: Option<Addresses>,
    pub destinations: Option<Addresses>,
    pub source_ports: Option<Ranges>,
    pub destination_ports: Option<Ranges>,
    pub tos: Option<u8>,
    pub dscps: Option<Ranges>,
    pub vlans: Option<Ranges>,
    /// Types of ICMP messages and, in the lower eight bits, their codes.
    pub icmp: Option<Ranges>,
}

impl Version {
    const ALL: [Self; 3] = [Self::Four, Self::Six, Self::Arp];

    fn text(self) -> &'static str {
        match self {
            Self::Four => "ipv4",
            Self::Six => "ipv6",
            Self::Arp => "arp",
        }
    }
}

impl Ranges {
    pub(super) fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|row| row.0 <= row.1).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut().filter(|before| first <= before.1.saturating_add(1)) {
                Some(before) => before.1 = before.1.max(last),
                None => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    fn and(&self, other: &Self) -> Self {
        let pairs = self.0.iter().flat_map(|a| other.0.iter().map(move |b| (a, b)));
        Self::of(pairs.map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))))
    }

    /// Returns the numbers up to `most` that are not among these.
    pub(super) fn not(&self, most: u128) -> Self {
        let mut rest = Vec::new();
        let mut next = Some(0);
        for (first, last) in &self.0 {
            rest.extend(next.filter(|next| next < first).map(|next| (next, first - 1)));
            next = last.checked_add(1);
        }
        rest.extend(next.map(|next| (next, most)));
        Self::of(rest)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many of the numbers up to 255 they are.
    fn count(&self) -> u128 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Returns the types of the replies to messages of these types: those to echo requests and to
    /// requests for time stamps.
    fn of_replies(&self) -> Self {
        let reply = |&(request, reply): &(u128, u128)| {
            let asked = Self::of([(request << 8, request << 8 | 0xff)]);
            (!self.and(&asked).is_empty()).then_some((reply << 8, reply << 8 | 0xff))
        };
        Self::of(ICMP_REPLIES.iter().filter_map(reply))
    }

    /// Returns types of messages as a rule has them, each with a code where not all are meant.
    fn types(&self) -> String {
        let mut texts = Vec::new();
        for &(first, last) in &self.0 {
            for number in first >> 8..=last >> 8 {
                let codes = (first.max(number << 8) & 0xff, last.min(number << 8 | 0xff) & 0xff);
                match codes {
                    (0, 0xff) => texts.push(number.to_string()),
                    (first, last) => {
                        let code = |code| quoted(&format!("{number}/{code}"));
                        texts.extend((first..=last).map(code));
                    }
                }
            }
        }
        match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }

    /// Returns each range as `80` or `80-90`.
    fn shown(&self) -> Vec<String> {
        let one = |&(first, last): &(u128, u128)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.0.iter().map(one).collect()
    }
}

impl Addresses {
    /// Returns the addresses from the first to the last; `None` if there are none between.
    pub(super) fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let own = |first: u128, last: u128| (first <= last).then(|| Ranges::of([(first, last)]));
        match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let four = own(u32::from(first).into(), u32::from(last).into())?;
                Some(Self { four, ..Self::default() })
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let six = own(first.into(), last.into())?;
                Some(Self { six, ..Self::default() })
            }
            _ => None,
        }
    }

    /// Returns the addresses that share the first `length` bits; `None` if one has fewer.
    pub(super) fn network(address: IpAddr, length: u64) -> Option<Self> {
        let width = if address.is_ipv4() { 32 } else { 128 };
        let host = u32::try_from(width - i64::try_from(length).ok()?).ok()?;
        let rest = u128::MAX.checked_shr(128 - host).unwrap_or(0);
        match address {
            IpAddr::V4(own) => {
                let (own, rest) = (u32::from(own), rest as u32);
                Self::between(Ipv4Addr::from(own & !rest).into(), Ipv4Addr::from(own | rest).into())
            }
            IpAddr::V6(own) => {
                let own = u128::from(own);
                Self::between(Ipv6Addr::from(own & !rest).into(), Ipv6Addr::from(own | rest).into())
            }
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        Self { four: self.four.or(&other.four), six: self.six.or(&other.six) }
    }

    fn and(&self, other: &Self) -> Self {
        Self { four: self.four.and(&other.four), six: self.six.and(&other.six) }
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        Self {
            four: self.four.and(&other.four.not(FOUR_MAX)),
            six: self.six.and(&other.six.not(u128::MAX)),
        }
    }

    /// Returns the other addresses of the versions that these have.
    pub(super) fn not(&self) -> Self {
        let other = |own: &Ranges, most| match own.is_empty() {
            true => Ranges::default(),
            false => own.not(most),
        };
        Self { four: other(&self.four, FOUR_MAX), six: other(&self.six, u128::MAX) }
    }

    fn is_empty(&self) -> bool {
        self.four.is_empty() && self.six.is_empty()
    }

    fn prefixes(&self) -> Vec<String> {
        let four = self.four.0.iter().flat_map(|&(first, last)| prefixes(first, last, 32));
        let six = self.six.0.iter().flat_map(|&(first, last)| prefixes(first, last, 128));
        four.chain(six).collect()
    }
}

/// Returns the prefixes that make up a range of addresses of `width` bits.
fn prefixes(first: u128, last: u128, width: u32) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = Some(first);
    // Terminates: each block is as large as its alignment and the end allow; there are at most two
    // for each bit of an address.
    while let Some(at) = next.filter(|at| *at <= last) {
        let fits = |size: &u32| match *size {
            128 => at == 0 && last == u128::MAX,
            size => (1 << size) - 1 <= last - at,
        };
        let size = (0..=at.trailing_zeros().min(width)).rev().find(fits).unwrap_or(0);
        let address: IpAddr = match width {
            32 => Ipv4Addr::from(at as u32).into(),
            _ => Ipv6Addr::from(at).into(),
        };
        found.push(format!("{address}/{}", width - size));
        next = 1_u128.checked_shl(size).and_then(|block| at.checked_add(block));
    }
    found
}

/// Returns what both have in common, if that is something.
fn common<T: Clone>(
    one: Option<&T>,
    two: Option<&T>,
    and: impl Fn(&T, &T) -> Option<T>,
) -> Option<Option<T>> {
    match (one, two) {
        (Some(one), Some(two)) => and(one, two).map(Some),
        (one, two) => Some(one.or(two).cloned()),
    }
}

impl Conditions {
    /// Returns the conditions of packets that meet both; `None` if there are no such packets.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let ranges = |one: Option<&Ranges>, two: Option<&Ranges>| {
            common(one, two, |one, two| Some(one.and(two)).filter(|both| !both.is_empty()))
        };
        let addresses = |one: Option<&Addresses>, two: Option<&Addresses>| {
            common(one, two, |one, two| Some(one.and(two)).filter(|both| !both.is_empty()))
        };
        Some(Self {
            version: common(self.version.as_ref(), other.version.as_ref(), |one, two| {
                (one == two).then_some(*one)
            })?,
            protocols: ranges(self.protocols.as_ref(), other.protocols.as_ref())?,
            sources: addresses(self.sources.as_ref(), other.sources.as_ref())?,
            destinations: addresses(self.destinations.as_ref(), other.destinations.as_ref())?,
            source_ports: ranges(self.source_ports.as_ref(), other.source_ports.as_ref())?,
            destination_ports: ranges(
                self.destination_ports.as_ref(),
                other.destination_ports.as_ref(),
            )?,
            tos: common(self.tos.as_ref(), other.tos.as_ref(), |one, two| {
                (one == two).then_some(*one)
            })?,
            dscps: ranges(self.dscps.as_ref(), other.dscps.as_ref())?,
            vlans: ranges(self.vlans.as_ref(), other.vlans.as_ref())?,
            icmp: ranges(self.icmp.as_ref(), other.icmp.as_ref())?,
        })
    }

    /// Returns disjoint conditions of the packets that meet these and not `other`, which has no
    /// `tos`.
    pub(super) fn without(&self, other: &Self) -> Vec<Self> {
        let mut rest = Vec::new();
        let mut met = self.clone();
        for (part, others) in other.parts() {
            let Some(both) = met.and(&part) else { return vec![self.clone()] };
            rest.extend(others.iter().filter_map(|others| met.and(others)));
            met = both;
        }
        rest
    }

    /// Returns each condition alone, with those of the packets that do not meet it.
    fn parts(&self) -> Vec<(Self, Vec<Self>)> {
        let any = Self::default;
        let mut parts = Vec::new();
        if let Some(own) = self.version {
            let version = |one| Self { version: Some(one), ..any() };
            let others = Version::ALL.into_iter().filter(|one| *one != own).map(version);
            parts.push((version(own), others.collect()));
        }
        let of_ranges: [(&Option<Ranges>, u128, Of<Ranges>); 6] = [
            (&self.protocols, 255, |one| Self { protocols: Some(one), ..Self::default() }),
            (&self.source_ports, 65_535, |one| Self { source_ports: Some(one), ..Self::default() }),
            (&self.destination_ports, 65_535, |one| Self {
                destination_ports: Some(one),
                ..Self::default()
            }),
            (&self.dscps, 63, |one| Self { dscps: Some(one), ..Self::default() }),
            (&self.vlans, 4094, |one| Self { vlans: Some(one), ..Self::default() }),
            (&self.icmp, 65_535, |one| Self { icmp: Some(one), ..Self::default() }),
        ];
        for (own, most, of) in of_ranges {
            let Some(own) = own else { continue };
            let others = Some(own.not(most)).filter(|others| !others.is_empty());
            parts.push((of(own.clone()), others.map(of).into_iter().collect()));
        }
        let of_addresses: [(&Option<Addresses>, Of<Addresses>); 2] = [
            (&self.sources, |one| Self { sources: Some(one), ..Self::default() }),
            (&self.destinations, |one| Self { destinations: Some(one), ..Self::default() }),
        ];
        for (own, of) in of_addresses {
            let Some(own) = own else { continue };
            let others = Some(own.not()).filter(|others| !others.is_empty());
            parts.push((of(own.clone()), others.map(of).into_iter().collect()));
        }
        parts
    }

    /// Whether each packet that meets `other` meets these, too, as far as ranges tell.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.and(other).is_some_and(|both| both == *other)
            && self.version.is_none_or(|own| other.version == Some(own))
    }

    /// Where most protocols meet these: the conditions of the few others, and those of any
    /// protocol.
    pub(super) fn exception(&self) -> Option<(Self, Self)> {
        let own = self.protocols.as_ref()?;
        let others = own.not(255);
        (others.count() < own.count()).then(|| {
            let of = |protocols| Self { protocols, ..self.clone() };
            (of(Some(others)), of(None))
        })
    }

    pub(super) fn has_ports(&self) -> bool {
        self.source_ports.is_some() || self.destination_ports.is_some()
    }

    /// Returns the conditions of the packets that come back.
    pub(super) fn reversed(&self) -> Self {
        Self {
            sources: self.destinations.clone(),
            destinations: self.sources.clone(),
            source_ports: self.destination_ports.clone(),
            destination_ports: self.source_ports.clone(),
            icmp: self.icmp.as_ref().map(Ranges::of_replies),
            ..self.clone()
        }
    }

    /// Returns a rule for each protocol and pair of ports, [`CASES_MAX`] at most.
    pub(super) fn rules(&self) -> Vec<Vec<Key>> {
        let or_any = |list: Option<&Ranges>| match list {
            None => vec![None],
            Some(list) => list.shown().into_iter().map(Some).collect::<Vec<_>>(),
        };
        let single = |&(first, last): &(u128, u128)| first..=last;
        let protocols = match &self.protocols {
            None => vec![None],
            Some(list) => list.0.iter().flat_map(single).map(Some).collect::<Vec<_>>(),
        };
        let mut rules = Vec::new();
        if self.icmp.as_ref().is_some_and(Ranges::is_empty) {
            return rules;
        }
        for protocol in protocols {
            for source in or_any(self.source_ports.as_ref()) {
                for destination in or_any(self.destination_ports.as_ref()) {
                    if rules.len() >= CASES_MAX {
                        return rules;
                    }
                    rules.push(self.rule(protocol, [source.as_ref(), destination.as_ref()]));
                }
            }
        }
        rules
    }

    /// As [`Self::rules`], for TCP packets of IPv4 without data that acknowledge some: with ACK and
    /// as short as that. An IPv4 header and one of TCP with all its options are 80 bytes.
    pub(super) fn acknowledgement_rules(&self) -> Vec<Vec<Key>> {
        let protocols = Some(Ranges::of([(TCP, TCP)]));
        let tcp = Self { version: Some(Version::Four), protocols, ..Self::default() };
        let own = self.and(&tcp).filter(|own| own.icmp.is_none());
        let mut rules = own.map_or(Vec::new(), |own| own.rules());
        for keys in &mut rules {
            keys.push(("tcp_flags", quoted("ack")));
            keys.push(("length", quoted("0-80 B")));
        }
        rules
    }

    /// As [`Self::rules`], for packets that request low delay: pf tests one bit, which EF has, too.
    pub(super) fn low_delay_rules(&self) -> Vec<Vec<Key>> {
        let plain = Self { tos: None, ..self.clone() };
        plain.rules().iter().flat_map(|keys| with_tos(keys, LOW_DELAY, LOW_DELAY)).collect()
    }

    fn rule(&self, protocol: Option<u128>, ports: [Option<&String>; 2]) -> Vec<Key> {
        let mut keys = Vec::new();
        if self.sources.is_none() && self.destinations.is_none() {
            keys.extend(self.version.map(|version| ("ethertype", quoted(version.text()))));
        }
        for (name, addresses) in [("src", &self.sources), ("dst", &self.destinations)] {
            let Some(addresses) = addresses else { continue };
            let all: Vec<_> = addresses.prefixes().iter().map(|prefix| quoted(prefix)).collect();
            keys.push(match all.as_slice() {
                [one] => (name, one.clone()),
                several => (name, format!("[{}]", several.join(", "))),
            });
        }
        keys.extend(protocol.map(|number| ("proto", number.to_string())));
        let ports = ["sport", "dport"].into_iter().zip(ports);
        keys.extend(ports.filter_map(|(name, port)| Some((name, quoted(port?)))));
        if let Some(tos) = self.tos {
            keys.push(("dscp", (tos >> 2).to_string()));
        }
        keys.extend(self.icmp.as_ref().map(|messages| ("icmp_type", messages.types())));
        for (name, numbers) in [("dscp", &self.dscps), ("vlan", &self.vlans)] {
            let Some(numbers) = numbers else { continue };
            let all: Vec<_> = numbers.0.iter().flat_map(|row| row.0..=row.1).collect();
            keys.push(match all.as_slice() {
                [one] => (name, one.to_string()),
                several => (name, format!("{several:?}")),
            });
        }
        keys
    }
}

/// Makes the rules of packets whose traffic class agrees with `tos` under `mask`: one for each
/// value of the ECN field, with all DSCPs.
pub(super) fn with_tos(keys: &[Key], tos: u8, mask: u8) -> Vec<Vec<Key>> {
    let agrees = |mask: u8, wanted: u8| move |value: &u8| value & mask == wanted & mask;
    let ecns: Vec<Option<u8>> = match mask & 3 {
        0 => vec![None],
        ecn => (0..4).filter(agrees(ecn, tos)).map(Some).collect(),
    };
    let dscps: Vec<String> = match mask >> 2 {
        0 => Vec::new(),
        dscp => (0..64).filter(agrees(dscp, tos >> 2)).map(|dscp: u8| dscp.to_string()).collect(),
    };
    let dscp = match dscps.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    };
    let rule = |ecn: Option<u8>| {
        let mut keys = keys.to_vec();
        keys.extend(dscp.clone().map(|dscp| ("dscp", dscp)));
        keys.extend(ecn.map(|ecn| ("ecn", quoted(ECN[usize::from(ecn)]))));
        keys
    };
    ecns.into_iter().map(rule).collect()
}

/// Makes conditions of one kind alone.
type Of<T> = fn(T) -> Conditions;

/// The four values of the ECN field, as policies call them.
const ECN: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];
const FOUR_MAX: u128 = u32::MAX as u128;
/// The number of TCP.
const TCP: u128 = 6;
/// Types of requests and of their replies, of IPv4 and IPv6.
const ICMP_REPLIES: [(u128, u128); 3] = [(8, 0), (13, 14), (128, 129)];
/// The bit of the traffic class that requests low delay.
const LOW_DELAY: u8 = 0x10;
/// Bound: cases of one rule with lists; only the first are kept, and that is reported.
pub(super) const CASES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sets() {
        let few = Ranges::of([(5, 9), (1, 2), (3, 4), (20, 10)]);
        assert_eq!(few, Ranges(vec![(1, 9)]));
        assert_eq!(few.not(12), Ranges(vec![(0, 0), (10, 12)]));
        assert_eq!(Ranges::of([(0, 12)]).not(12), Ranges::default());
        assert_eq!(few.and(&Ranges::of([(8, 10), (20, 20)])), Ranges(vec![(8, 9)]));
    }

    /// Each packet of a few meets exactly one of what two conditions have in common and what the
    /// second leaves of the first, if it meets the first.
    #[test]
    fn what_is_left_are_the_packets_that_do_not_meet_the_other() {
        let four = |first: [u8; 4], last: [u8; 4]| {
            Addresses::between(IpAddr::from(first), IpAddr::from(last))
        };
        let one = |numbers: (u128, u128)| Some(Ranges::of([numbers]));
        let rows = [
            Conditions { sources: four([10, 0, 0, 0], [10, 0, 0, 9]), ..Conditions::default() },
            Conditions { protocols: one((6, 6)), dscps: one((8, 46)), ..Conditions::default() },
            Conditions {
                protocols: one((6, 17)),
                destination_ports: one((80, 90)),
                sources: four([10, 0, 0, 4], [10, 0, 0, 20]),
                ..Conditions::default()
            },
            Conditions::default(),
        ];
        let packets = (0..2_u128).flat_map(|at| [6, 17, 1].map(|protocol| (at, protocol)));
        let packets: Vec<Conditions> = packets
            .flat_map(|(at, protocol)| [80, 443].map(|port| (at * 7, protocol, port, at * 46)))
            .map(|(host, protocol, port, dscp)| Conditions {
                sources: four([10, 0, 0, host as u8], [10, 0, 0, host as u8]),
                protocols: one((protocol, protocol)),
                destination_ports: one((port, port)),
                dscps: one((dscp, dscp)),
                ..Conditions::default()
            })
            .collect();
        for (first, second) in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
            let left = first.without(second);
            let all = first.and(second).into_iter().chain(left).collect::<Vec<_>>();
            for packet in &packets {
                let met = all.iter().filter(|one| one.and(packet).is_some()).count();
                assert_eq!(met, usize::from(first.and(packet).is_some()), "{first:?} {second:?}");
            }
            assert!(first.without(first).is_empty());
        }
    }

    #[test]
    fn prefixes_make_up_the_range() {
        assert_eq!(prefixes(1, 6, 32), ["0.0.0.1/32", "0.0.0.2/31", "0.0.0.4/31", "0.0.0.6/32"]);
        assert_eq!(prefixes(0, FOUR_MAX, 32), ["0.0.0.0/0"]);
        assert_eq!(prefixes(0, u128::MAX, 128), ["::/0"]);
    }
}
