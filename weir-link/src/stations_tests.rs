//! Tests of the learning table: rows of events, and random ones against a slow table.

use super::*;
use std::collections::HashMap;
use weir_core::random::Random;

fn address(number: u64) -> Address {
    Address(0x0200_0000_0000 | number)
}

fn frame(destination: u64, source: u64) -> Vec<u8> {
    let bytes = |number: u64| number.to_be_bytes()[2..].to_vec();
    [bytes(destination), bytes(source), vec![0x88, 0xb5, 0]].concat()
}

const A: u64 = 0x0200_0000_000a;
const B: u64 = 0x0200_0000_000b;
const OWN: u64 = 0x0200_0000_00ff;
const BROADCAST: u64 = 0xffff_ffff_ffff;

/// Routes each `(seconds, port, destination, source)` through a bridge of `ports` ports, of which
/// port 1 has the address `OWN`.
fn check(what: &str, ports: usize, events: &[(u64, usize, u64, u64)], expected: &[Route]) {
    let mut stations = Stations::new(ports);
    let [_, _, own @ ..] = OWN.to_be_bytes();
    stations.set_own(1, Some(Address::new(own)));
    let routes = events.iter().map(|&(seconds, port, destination, source)| {
        let now = Instant::from_nanos(seconds * 1_000_000_000);
        stations.route(Macs::of_frame(&frame(destination, source)), port, now)
    });
    assert_eq!(routes.collect::<Vec<_>>(), expected, "{what}");
}

#[test]
fn a_frame_goes_where_its_station_was_last_seen() {
    use Route::{Host, Local, Others, Port, Reserved};
    check("unknown, then known", 3, &[(0, 0, B, A), (0, 2, A, B)], &[Others, Port(0)]);
    check("on the same cable", 3, &[(0, 0, B, A), (1, 0, A, B)], &[Others, Local]);
    let moves = [(0, 0, B, A), (1, 1, B, A), (2, 2, A, B)];
    check("moved", 3, &moves, &[Others, Others, Port(1)]);
    check("still young", 2, &[(0, 0, B, A), (300, 1, A, B)], &[Others, Port(0)]);
    check("aged", 2, &[(0, 0, B, A), (301, 1, A, B)], &[Others, Others]);
    check("aged, and seen anew", 2, &[(0, 0, B, A), (301, 1, B, A)], &[Others, Others]);
    check("broadcast", 2, &[(0, 0, BROADCAST, A), (0, 1, A, B)], &[Others, Port(0)]);
    check("a group is no station", 2, &[(0, 0, B, BROADCAST), (0, 1, BROADCAST, B)], &[Others; 2]);
    check("nor is zero", 2, &[(0, 0, 0, 0), (0, 1, 0, A)], &[Others; 2]);
    check("for the host", 2, &[(0, 0, OWN, A), (0, 1, OWN, A)], &[Host; 2]);
    check("a forged source of the host", 2, &[(0, 0, B, OWN), (0, 1, OWN, B)], &[Others, Host]);
    let lacp = 0x0180_c200_0002;
    check("reserved, on a cable", 2, &[(0, 0, lacp, A)], &[Others]);
    check("reserved, among three", 3, &[(0, 0, lacp, A)], &[Reserved]);
    check("spanning tree", 3, &[(0, 0, 0x0180_c200_0000, A)], &[Others]);
    check("beyond the reserved ones", 3, &[(0, 0, 0x0180_c200_0010, A)], &[Others]);
}

#[test]
fn a_frame_without_both_addresses_goes_to_every_other_port() {
    let mut stations = Stations::new(2);
    for len in 0..2 * ADDRESS_LEN {
        let macs = Macs::of_frame(&[2; 11][..len.min(11)]);
        assert_eq!(stations.route(macs, 0, Instant::ZERO), Route::Others);
    }
    assert_eq!(stations.count(Instant::ZERO), 0);
}

#[test]
fn a_pulled_cable_forgets_its_stations_and_no_others() {
    let mut stations = Stations::new(2);
    (0..100).for_each(|n| stations.learn(address(n), n as usize % 2, Instant::ZERO));
    stations.forget(1);
    let known: Vec<_> = (0..100).filter_map(|n| stations.find(address(n), Instant::ZERO)).collect();
    assert_eq!(known, [0; 50]);
}

#[test]
fn an_address_that_becomes_the_hosts_is_no_station() {
    let mut stations = Stations::new(2);
    stations.learn(address(7), 0, Instant::ZERO);
    stations.set_own(1, Some(address(7)));
    assert_eq!(stations.count(Instant::ZERO), 0);
}

/// A flood of invented addresses on port 1 fills the table; the stations of port 0, which spoke
/// before it, are still known.
#[test]
fn a_flood_of_addresses_replaces_those_of_its_own_port() {
    let mut stations = Stations::new(2);
    (0..256).for_each(|n| stations.learn(address(n), 0, Instant::ZERO));
    let known = |stations: &Stations| {
        (0..256).filter(|n| stations.find(address(*n), Instant::ZERO) == Some(0)).count()
    };
    let before = known(&stations);
    let mut random = Random::new(1, 0);
    for n in 0..100_000 {
        let invented = Address(random.bits() >> 16 & !0x0100_0000_0000 | 0x0200_0000_0000);
        stations.learn(invented, 1, Instant::from_nanos(n));
    }
    assert_eq!((before, known(&stations)), (256, 256));
    assert_eq!(stations.count(Instant::from_nanos(100_000)), STATIONS_MAX);
}

/// The rule of the table in the slowest way: every station in a hash map.
#[derive(Default)]
struct Slow(HashMap<u64, (usize, Instant)>);

impl Slow {
    fn learn(&mut self, source: Address, port: usize, now: Instant) {
        self.0.retain(|_, (_, seen)| now.since(*seen) <= AGE_MAX);
        let bucket = source.bucket();
        let mates: Vec<(u64, usize, Instant)> = self
            .0
            .iter()
            .filter(|(number, _)| Address(**number).bucket() == bucket)
            .map(|(number, (port, seen))| (*number, *port, *seen))
            .collect();
        if !self.0.contains_key(&source.0) && mates.len() == BUCKET {
            let most = (0..3).rev().max_by_key(|p| mates.iter().filter(|m| m.1 == *p).count());
            let of_most = mates.iter().filter(|mate| Some(mate.1) == most);
            let oldest = of_most.min_by_key(|mate| mate.2).expect("it has places");
            self.0.remove(&oldest.0);
        }
        self.0.insert(source.0, (port, now));
    }

    fn find(&self, destination: Address, now: Instant) -> Option<usize> {
        let (port, seen) = self.0.get(&destination.0)?;
        (now.since(*seen) <= AGE_MAX).then_some(*port)
    }
}

#[test]
fn the_table_equals_the_slow_one() {
    for seed in 0..8 {
        let mut random = Random::new(seed, 0);
        let (mut table, mut slow) = (Stations::new(3), Slow::default());
        let mut now = Instant::ZERO;
        // Few buckets, so that they overflow; large steps of time now and then, so that they age.
        let pool: Vec<Address> =
            (0..40_000).map(address).filter(|address| address.bucket() < 4 * BUCKET).collect();
        for step in 0..4_000 {
            let pause = if random.below(200) == 0 { 200 } else { 1 };
            now = now.after(Duration::from_millis(1 + u64::from(random.below(300)) * pause));
            let pick = |random: &mut Random| pool[random.below(pool.len() as u32) as usize];
            let (source, port) = (pick(&mut random), random.below(3) as usize);
            table.learn(source, port, now);
            slow.learn(source, port, now);
            for _ in 0..4 {
                let wanted = pick(&mut random);
                assert_eq!(
                    table.find(wanted, now),
                    slow.find(wanted, now),
                    "seed {seed}, step {step}"
                );
            }
            assert_eq!(table.count(now), slow.0.len(), "seed {seed}, step {step}");
        }
    }
}
