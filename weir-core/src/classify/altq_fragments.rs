//! Fragments as ALTQ's classifier treats them [altq, algorithms §11.1]: the ports of the last eight
//! first fragments, for those that follow in order.
//!
//! A first fragment takes the oldest of eight places; a later one gets its ports from there, and
//! the last one frees the place. The table stores ports, not leaves, so each fragment is classified
//! by the rules. The release of 1999 forgot to store addresses and protocol, which its look-up
//! compares, so no later fragment ever found its ports [risso99 §7.1]. That variant needs no table.
//!
//! Only IPv4 has this table. Behind an IPv6 fragment header ALTQ reads no ports, not even those of
//! a first fragment.

use alloc::vec::Vec;

use super::fragments::FragmentKey;
use crate::packet::Ports;
use crate::state::{Reader, State, StateError, Writer};

/// First fragments, the newest first.
#[derive(Clone, Debug, Default)]
pub struct AltqFragments(Vec<(FragmentKey, Option<Ports>)>);

impl AltqFragments {
    /// Stores the ports of a first fragment; of two entries with one key, look-ups find the newer.
    pub fn remember(&mut self, key: FragmentKey, ports: Option<Ports>) {
        self.0.truncate(PLACES - 1);
        self.0.insert(0, (key, ports));
    }

    /// Returns the ports of the first fragment, if they are stored. The last fragment removes them.
    pub fn recall(&mut self, key: &FragmentKey, last: bool) -> Option<Ports> {
        let place = self.0.iter().position(|row| row.0 == *key)?;
        if last { self.0.remove(place).1 } else { self.0[place].1 }
    }
}

/// The size of ALTQ's table.
const PLACES: usize = 8;

impl AltqFragments {
    pub(super) fn save(&self, to: &mut Writer) {
        to.number(self.0.len() as u64);
        for (key, ports) in &self.0 {
            key.save(to);
            ports.map(|Ports { source, destination }| (source, destination)).save(to);
        }
    }

    pub(super) fn load(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.0.clear();
        for _ in 0..from.count(PLACES, "fragments")? {
            let key = FragmentKey::load(from)?;
            let mut ports: Option<(u16, u16)> = None;
            ports.load(from)?;
            let ports = ports.map(|(source, destination)| Ports { source, destination });
            self.0.push((key, ports));
        }
        Ok(())
    }
}
