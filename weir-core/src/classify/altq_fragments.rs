//! Fragments as ALTQ's classifier treats them [altq, algorithms §11.1]: the ports of the last eight
//! first fragments, for those that follow in order.
//!
//! A first fragment takes the oldest of eight places; a later one gets its ports from there, and
//! the last one frees the place. What is remembered is ports, no leaf: the rules are asked again.
//! The release of 1999 forgot to store addresses and protocol, which the look-up compares, so that
//! no later fragment ever found its ports [risso99 §7.1]. That form needs no table at all.
//!
//! Only IPv4 has this table. Of IPv6 ALTQ reads no ports behind a fragment header, be it the first.

use alloc::vec::Vec;

use super::fragments::FragmentKey;
use crate::packet::Ports;

/// First fragments, the newest first.
#[derive(Clone, Debug, Default)]
pub struct AltqFragments(Vec<(FragmentKey, Option<Ports>)>);

impl AltqFragments {
    /// Notes the ports of a first fragment; of two with one key the newer is found.
    pub fn remember(&mut self, key: FragmentKey, ports: Option<Ports>) {
        self.0.truncate(PLACES - 1);
        self.0.insert(0, (key, ports));
    }

    /// The ports of the first fragment, if it is remembered. The last fragment takes them along.
    pub fn recall(&mut self, key: &FragmentKey, last: bool) -> Option<Ports> {
        let place = self.0.iter().position(|row| row.0 == *key)?;
        if last { self.0.remove(place).1 } else { self.0[place].1 }
    }
}

/// As in ALTQ.
const PLACES: usize = 8;
