//! Which packets belong together: a flow of two programs, or all packets of one host.

use super::{Addresses, Headers};
use crate::state::state;
use core::net::{IpAddr, Ipv6Addr};

/// The fields by which droppers that separate flows tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum FlowKey {
    /// Addresses, protocol and ports: each connection is a flow.
    #[default]
    Connection,
    /// The source's address: all that a host sends is one flow.
    Source,
    /// The destination's address: all that a host receives is one flow.
    Destination,
    /// Both addresses: all that one host sends to another is one flow.
    Hosts,
    /// As [`FlowKey::Connection`], and the host is the source's address.
    WithinSource,
    /// As [`FlowKey::Connection`], and the host is the destination's address.
    WithinDestination,
    /// As [`FlowKey::Connection`], and the host is the pair of addresses, half of it each.
    WithinBoth,
    /// Nothing: all packets are one flow.
    Nothing,
}

/// The host that a packet counts for where hosts take turns: an address of its headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Host {
    /// The upper half of the address as in IPv6; an IPv4 address is mapped into IPv6.
    high: u64,
    low: u64,
}

impl Host {
    /// The host of packets without an address, and of all packets where hosts do not matter.
    pub const NONE: Host = Host { high: 0, low: 0 };

    /// Returns the host of this address, [`Host::NONE`] for the unspecified address of IPv6.
    pub const fn of(address: IpAddr) -> Host {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        Host::from_bits(bits)
    }

    /// Returns its address.
    pub fn address(self) -> Option<IpAddr> {
        let address = Ipv6Addr::from_bits(self.to_bits());
        (self != Host::NONE).then(|| address.to_canonical())
    }

    /// Returns the host of an address as one number.
    pub const fn from_bits(bits: u128) -> Host {
        Host { high: (bits >> 64) as u64, low: bits as u64 }
    }

    /// Returns its address as one number, 0 without one.
    pub const fn to_bits(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// Returns the two halves: of a pair of addresses, 64 bits for each of them.
    #[inline]
    pub(crate) const fn halves(self) -> [u64; 2] {
        [self.high, self.low]
    }

    /// Returns 64 bits that usually differ between hosts.
    #[inline]
    pub(crate) const fn folded(self) -> u64 {
        self.high.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.low
    }
}

state!(Host { high, low });

impl FlowKey {
    /// The keys by their words in a policy; the first is the default.
    pub const WORDS: &[&str] = &["flow", "srcaddr", "dstaddr", "srcaddr,dstaddr"];

    /// The words for flows, each by itself or within its host; the first is the default.
    pub const ISOLATION_WORDS: &[&str] = &["flows", "flows within srcaddr", "flows within dstaddr"];

    /// The words for flows whose hosts share quanta, and for their like; the first is the default.
    pub const PAIR_WORDS: &[&str] = &[
        "triple-isolate",
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
    ];

    /// Returns the key that this word names, of any list; the default for any other.
    pub fn of_word(word: &str) -> FlowKey {
        match word {
            "srcaddr" | "srchost" => FlowKey::Source,
            "dstaddr" | "dsthost" => FlowKey::Destination,
            "srcaddr,dstaddr" | "hosts" => FlowKey::Hosts,
            "flows within srcaddr" | "dual-srchost" => FlowKey::WithinSource,
            "flows within dstaddr" | "dual-dsthost" => FlowKey::WithinDestination,
            "triple-isolate" => FlowKey::WithinBoth,
            "flowblind" => FlowKey::Nothing,
            _ => FlowKey::Connection,
        }
    }
}

impl Headers {
    /// Returns a number that is equal for all packets with equal fields of `key` and usually
    /// differs between others. Later fragments have no ports, so they count as a connection of
    /// their addresses alone.
    pub fn flow(&self, key: FlowKey) -> u32 {
        let [source, destination] = self.folded_addresses();
        match key {
            FlowKey::Connection
            | FlowKey::WithinSource
            | FlowKey::WithinDestination
            | FlowKey::WithinBoth => mix(source, destination, self.service()),
            FlowKey::Nothing => 0,
            FlowKey::Source => mix(source, 0, 0),
            FlowKey::Destination => mix(0, destination, 0),
            FlowKey::Hosts => mix(source, destination, 0),
        }
    }

    /// Returns the host that the packet counts for; [`Host::NONE`] where `key` has none.
    #[inline]
    pub fn host(&self, key: FlowKey) -> Host {
        match key {
            FlowKey::WithinSource => self.addresses.source().map_or(Host::NONE, Host::of),
            FlowKey::WithinDestination => self.addresses.destination().map_or(Host::NONE, Host::of),
            FlowKey::WithinBoth => {
                let [high, low] = self.folded_addresses();
                Host { high, low }
            }
            _ => Host::NONE,
        }
    }

    /// Returns 64 bits of source and destination each, 0 without one.
    fn folded_addresses(&self) -> [u64; 2] {
        match self.addresses {
            Addresses::Unknown => [0, 0],
            Addresses::V4 { source, destination } => {
                [source, destination].map(|address| u64::from(u32::from(address)))
            }
            Addresses::V6 { source, destination } => [source, destination].map(fold),
        }
    }

    /// Returns protocol and ports in one word.
    fn service(&self) -> u64 {
        let ports = self
            .ports
            .map_or(0, |ports| u64::from(ports.source) << 16 | u64::from(ports.destination));
        self.protocol.map_or(0, |protocol| u64::from(protocol.0)) << 32 ^ ports
    }
}

/// Odd constants of SplitMix64: inputs that differ in any bit differ in the upper half.
fn mix(source: u64, destination: u64, service: u64) -> u32 {
    let mut mixed = source.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ destination;
    mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ service).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

fn fold(address: Ipv6Addr) -> u64 {
    let bits = u128::from(address);
    (bits >> 64) as u64 ^ (bits as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ports, Protocol};

    /// Two packets, from these hosts and ports.
    fn pair(one: [&str; 2], other: [&str; 2], ports: [u16; 2]) -> [Headers; 2] {
        let headers = |[source, destination]: [&str; 2], port| {
            let parse = |text: &str| text.parse().expect("an address");
            let addresses = match source.contains(':') {
                true => Addresses::V6 {
                    source: source.parse().expect("an address"),
                    destination: destination.parse().expect("an address"),
                },
                false => Addresses::V4 { source: parse(source), destination: parse(destination) },
            };
            Headers::of_flow(addresses, Protocol::TCP, Ports { source: port, destination: 80 })
        };
        [headers(one, ports[0]), headers(other, ports[1])]
    }

    #[test]
    fn packets_are_of_one_flow_where_the_fields_of_the_key_are_equal() {
        use FlowKey::{Connection, Destination, Hosts, Source};
        let (a, b, c) = ("10.0.0.1", "10.0.0.2", "10.0.0.3");
        let (six, other) = ("2001:db8::1", "2001:db8::2");
        let rows: [(_, _, _, &[FlowKey]); 7] = [
            ([a, b], [a, b], [1, 1], &[Connection, Source, Destination, Hosts]),
            ([a, b], [a, b], [1, 2], &[Source, Destination, Hosts]),
            ([a, b], [a, c], [1, 1], &[Source]),
            ([a, b], [c, b], [1, 1], &[Destination]),
            ([a, b], [b, a], [1, 1], &[]),
            ([six, other], [six, six], [1, 1], &[Source]),
            ([six, other], [other, other], [1, 1], &[Destination]),
        ];
        for (one, another, ports, same) in rows {
            let [first, second] = pair(one, another, ports);
            for key in [Connection, Source, Destination, Hosts] {
                let equal = first.flow(key) == second.flow(key);
                assert_eq!(equal, same.contains(&key), "{key:?} of {one:?} and {another:?}");
            }
        }
    }

    #[test]
    fn each_word_names_a_key_of_its_own() {
        let keys: alloc::vec::Vec<_> = FlowKey::WORDS.iter().map(|w| FlowKey::of_word(w)).collect();
        assert_eq!(
            keys,
            [FlowKey::Connection, FlowKey::Source, FlowKey::Destination, FlowKey::Hosts]
        );
        let words = FlowKey::ISOLATION_WORDS.iter();
        let keys: alloc::vec::Vec<_> = words.map(|word| FlowKey::of_word(word)).collect();
        assert_eq!(keys, [FlowKey::Connection, FlowKey::WithinSource, FlowKey::WithinDestination]);
    }

    #[test]
    fn a_packet_counts_for_the_host_whose_address_the_key_names() {
        let (four, six) = ("10.0.0.1", "2001:db8::1");
        for (source, destination) in [(four, "10.0.0.2"), (six, "2001:db8::2")] {
            let [headers, _] = pair([source, destination], [source, destination], [1, 1]);
            let shown = |key| headers.host(key).address();
            assert_eq!(shown(FlowKey::WithinSource), source.parse().ok());
            assert_eq!(shown(FlowKey::WithinDestination), destination.parse().ok());
            assert_eq!(shown(FlowKey::Connection), None);
            assert_eq!(headers.flow(FlowKey::WithinSource), headers.flow(FlowKey::Connection));
        }
    }
}
