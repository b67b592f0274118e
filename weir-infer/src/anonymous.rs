//! Addresses that keep who shares a prefix with whom, and nothing else.
//!
//! [xu02] Each bit of an address is flipped or not by a function of the bits before it, here a
//! seeded hash. So two addresses share as many bits afterwards as before. Ports stay, since
//! policies classify by them. Invariant: one address becomes one address, and no two the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weir_core::random::Random;

/// The function that hides addresses.
pub struct Anonymous {
    seed: u64,
}

impl Anonymous {
    /// The function of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns an end with its address replaced.
    pub fn end(&self, end: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.address(end.ip()), end.port())
    }

    fn address(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let bits = self.flipped(u128::from(address.to_bits()) << 96, 32);
                Ipv4Addr::from_bits((bits >> 96) as u32).into()
            }
            IpAddr::V6(address) => Ipv6Addr::from_bits(self.flipped(address.to_bits(), 128)).into(),
        }
    }

    fn flipped(&self, bits: u128, length: u32) -> u128 {
        // Multicast stays multicast: the first 4 bits of IPv4 and the first 8 of IPv6.
        let kept = if length == 32 { 4 } else { 8 };
        let mut hidden = bits & !(!0 >> kept);
        for place in kept..length {
            let mask = !0 << (128 - place);
            let before = bits & mask;
            let stream = (before >> 64) as u64 ^ (before as u64).rotate_left(17);
            let mut random = Random::new(self.seed, stream ^ u64::from(place) << 56);
            let bit = bits >> (127 - place) & 1;
            hidden |= (bit ^ u128::from(random.bits() >> 63)) << (127 - place);
        }
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(one: IpAddr, other: IpAddr) -> u32 {
        match (one, other) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                (one.to_bits() ^ other.to_bits()).leading_zeros()
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                (one.to_bits() ^ other.to_bits()).leading_zeros()
            }
            _ => 0,
        }
    }

    #[test]
    fn addresses_share_the_prefixes_that_they_shared() {
        let all: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.2", "10.0.1.2", "192.0.2.1", "fd00::1", "fd00::2", "2001:db8::1"]
                .map(|text| text.parse().expect("is an address"))
                .into();
        for seed in 0..20 {
            let hiding = Anonymous::new(seed);
            let hidden: Vec<IpAddr> = all.iter().map(|one| hiding.address(*one)).collect();
            assert_ne!(all, hidden);
            assert_eq!(hiding.address(all[0]).is_multicast(), all[0].is_multicast());
            for one in 0..all.len() {
                for other in 0..all.len() {
                    let after = shared(hidden[one], hidden[other]);
                    assert_eq!(shared(all[one], all[other]), after);
                }
            }
        }
    }
}
