//! The learning table of a bridge: on which port each station was last seen, and so to which ports
//! a frame goes.
//!
//! A station's address is kept in one of `BUCKET` places that its hash names. Where all of them
//! are taken, an aged station makes room, else the one not seen longest of the port that holds most
//! of these places. So a port from which a flood of invented addresses comes replaces its own
//! stations first. A station that is not in the table costs no packet: a frame for it goes to every
//! other port.
//!
//! A station lies in the place that its hash names first, if that was free: most are found by one
//! comparison. Pure code: time is an argument, and equal calls return equal routes. Invariant: an
//! address is in at most one place, and never a group address, the address zero or one of the
//! host's own.

use weir_core::packet::Macs;
use weir_core::units::{Duration, Instant};

/// Bound: stations that a bridge remembers; in a full bucket another one replaces the one silent
/// longest of the port that has most.
pub const STATIONS_MAX: usize = 4096;
/// Bound: the time that a silent station is remembered, as in the kernel's bridge; then it is
/// unknown again.
pub const AGE_MAX: Duration = Duration::from_secs(300);

/// Places for each hash: their addresses fill one cache line.
const BUCKET: usize = 8;
const ADDRESS_LEN: usize = 6;

/// An Ethernet address as a number: its first byte is the highest of 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(u64);

impl Address {
    /// Returns the address with these bytes.
    pub fn new(bytes: [u8; ADDRESS_LEN]) -> Self {
        let [a, b, c, d, e, f] = bytes;
        Self(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Returns whether it names a group of stations: the broadcast address does, too.
    pub fn is_group(self) -> bool {
        self.0 >> 40 & 1 == 1
    }

    /// Returns whether a bridge keeps frames for it to the cable on which they came: [IEEE 802.1Q
    /// §8.6.3] 01:80:c2:00:00:01 to :0f. Spanning tree's, which ends in 00, is not among them: the
    /// kernel's bridge forwards it while it takes no part in spanning trees, and Weir never does.
    pub fn is_reserved(self) -> bool {
        self.0 & !0x0f == 0x0180_c200_0000 && self.0 & 0x0f != 0
    }

    fn can_be_learned(self) -> bool {
        self.0 != 0 && !self.is_group()
    }

    /// Returns the place in which it is, if that was free when it was learned.
    fn place(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        (self.0.wrapping_mul(ODD) >> (u64::BITS - STATIONS_MAX.ilog2())) as usize
    }

    /// Returns the first of the places in which it may be.
    fn bucket(self) -> usize {
        self.place() / BUCKET * BUCKET
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By this port alone.
    Port(usize),
    /// To every port but the one on which it came.
    Others,
    /// Nowhere: its destination is on the port on which it came.
    Local,
    /// Nowhere: it is for the host on which Weir runs, which got it already.
    Host,
    /// Nowhere: it is for the next station on the cable only.
    Reserved,
}

/// On which port each station is.
#[derive(Debug)]
pub struct Stations {
    /// An address in the upper 48 bits, its port in the lower 16; zero if the place is free.
    places: Box<[u64]>,
    /// When the station of the same place was seen last.
    seen: Box<[Instant]>,
    /// The addresses of the ports themselves.
    own: Vec<Option<Address>>,
}

impl Stations {
    /// An empty table for a bridge of `ports` ports.
    ///
    /// # Panics
    /// If there are more ports than a place can name.
    pub fn new(ports: usize) -> Self {
        assert!(ports <= usize::from(u16::MAX), "a port's number fits a place");
        Self {
            places: vec![0; STATIONS_MAX].into(),
            seen: vec![Instant::ZERO; STATIONS_MAX].into(),
            own: vec![None; ports],
        }
    }

    /// Notes the Ethernet address of `port` itself: frames for it are the host's.
    pub fn set_own(&mut self, port: usize, address: Option<Address>) {
        self.own[port] = address;
        if let Some(place) = address.and_then(|address| self.place_of(address)) {
            self.places[place] = 0;
        }
    }

    /// Learns the frame's source and returns where the frame goes; without stations there is
    /// nothing to learn. Two ports are the two ends of a
    /// cable: what a bridge would keep to one cable crosses.
    pub fn route(&mut self, macs: Option<Macs>, port: usize, now: Instant) -> Route {
        let Some(Macs { destination, source }) = macs else { return Route::Others };
        self.learn(Address::new(source.0), port, now);
        let destination = Address::new(destination.0);
        if destination.is_group() {
            let is_kept = self.own.len() > 2 && destination.is_reserved();
            return if is_kept { Route::Reserved } else { Route::Others };
        }
        match self.find(destination, now) {
            Some(known) if known == port => Route::Local,
            Some(known) => Route::Port(known),
            None if self.is_own(destination) => Route::Host,
            None => Route::Others,
        }
    }

    /// Notes that `source` was seen on `port`, to which it may have moved.
    pub fn learn(&mut self, source: Address, port: usize, now: Instant) {
        assert!(port < self.own.len(), "a station is at a port of the bridge");
        let entry = source.0 << 16 | port as u64;
        let place = match self.place_of(source) {
            Some(place) => place,
            None if !source.can_be_learned() || self.is_own(source) => return,
            None => self.place_to_fill(source, now),
        };
        debug_assert_eq!(place / BUCKET * BUCKET, source.bucket(), "it is looked for there");
        self.places[place] = entry;
        self.seen[place] = now;
    }

    /// Returns the port on which `destination` was last seen, unless that was long ago.
    pub fn find(&self, destination: Address, now: Instant) -> Option<usize> {
        let place = self.place_of(destination)?;
        (!self.is_aged(place, now)).then(|| port_of(self.places[place]))
    }

    /// Forgets the stations of a port, for example because its cable was pulled: they may have
    /// moved.
    pub fn forget(&mut self, port: usize) {
        let on_port = |entry: &&mut u64| **entry != 0 && port_of(**entry) == port;
        self.places.iter_mut().filter(on_port).for_each(|entry| *entry = 0);
    }

    /// Returns the number of stations that are known.
    pub fn count(&self, now: Instant) -> usize {
        (0..STATIONS_MAX).filter(|&at| self.places[at] != 0 && !self.is_aged(at, now)).count()
    }

    fn is_own(&self, address: Address) -> bool {
        self.own.contains(&Some(address))
    }

    fn is_aged(&self, place: usize, now: Instant) -> bool {
        now.since(self.seen[place]) > AGE_MAX
    }

    fn place_of(&self, address: Address) -> Option<usize> {
        let (place, first) = (address.place(), address.bucket());
        let is_there = |place: &usize| self.places[*place] >> 16 == address.0;
        let found =
            if is_there(&place) { Some(place) } else { (first..first + BUCKET).find(is_there) };
        // An address of zero is not in the table, though a free place looks like it.
        found.filter(|_| address.0 != 0)
    }

    /// Returns the place of a new station: a free one, an aged one, or the one not seen longest of
    /// the port that holds most places of the bucket.
    #[cold]
    fn place_to_fill(&self, address: Address, now: Instant) -> usize {
        let first = address.bucket();
        let bucket = first..first + BUCKET;
        let is_idle = |&place: &usize| self.places[place] == 0 || self.is_aged(place, now);
        // The place where it is looked for first, if that is free.
        let mut places = std::iter::once(address.place()).chain(bucket.clone());
        if let Some(place) = places.find(is_idle) {
            return place;
        }
        let places_of = |port: usize| {
            bucket.clone().filter(|&place| port_of(self.places[place]) == port).count()
        };
        let crowd = (0..self.own.len()).rev().max_by_key(|&port| places_of(port));
        bucket
            .filter(|&place| Some(port_of(self.places[place])) == crowd)
            .min_by_key(|&place| self.seen[place])
            .expect("the port with most places has one")
    }
}

fn port_of(entry: u64) -> usize {
    (entry & 0xffff) as usize
}

#[cfg(test)]
#[path = "stations_tests.rs"]
mod tests;
