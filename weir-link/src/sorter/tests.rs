//! Programs against the classifier: for random policies and random or hostile frames, a program
//! gives ring 0 or the ring of the leaf that the classifier gives; on plain frames always the
//! latter.

use std::net::IpAddr;
use std::os::fd::AsFd;

use super::interpret;
use super::*;
use weir_core::classify::{
    AltqHash, Classifier, ClassifierPlan, Details, IcmpTest, Match, PortRange, Prefix, Spread,
    VlanTest,
};
use weir_core::packet::{Dscp, Ecn, Fragment, Headers, MacAddress};
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_host::bpf::{Kind, Program};
use weir_host::socket;

struct Draws(Random);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn some<T>(&mut self, percent: usize, make: impl Fn(&mut Draws) -> T) -> Option<T> {
        self.chance(percent).then(|| make(self))
    }

    fn few<T>(&mut self, percent: usize, make: impl Fn(&mut Draws) -> T) -> Vec<T> {
        let count = if self.chance(percent) { self.pick(&[1, 1, 1, 2, 3, 12]) } else { 0 };
        (0..count).map(|_| make(self)).collect()
    }

    /// Draws addresses of few networks, so that rules overlap.
    fn address(&mut self, ipv4: bool) -> u128 {
        let host = self.pick(&[0, 1, 2, 255, 0x0100, 0xffff_ffff, 0x8000_0001_u128]);
        if ipv4 {
            let network = self.pick(&[0x0a00_0000, 0x0a01_0000, 0xc000_0200_u32]);
            return u128::from(network ^ host as u32);
        }
        let network = self.pick(&[0x2001_0db8_u128 << 96, 0x2001_0db8_0001_u128 << 80, 0]);
        network ^ host ^ host << 60
    }

    fn prefix(&mut self) -> Prefix {
        let ipv4 = self.chance(60);
        let address = self.address(ipv4);
        let (len, width) = match ipv4 {
            true => (self.pick(&[0, 1, 8, 15, 16, 24, 25, 31, 32, 32]), 32),
            false => (self.pick(&[0, 1, 31, 32, 48, 63, 64, 65, 96, 127, 128]), 128),
        };
        let masked = address & u128::MAX.checked_shl(width - len).unwrap_or(0);
        let address = match ipv4 {
            true => IpAddr::from((masked as u32).to_be_bytes()),
            false => IpAddr::from(masked.to_be_bytes()),
        };
        Prefix::new(address, len as u8).expect("masked")
    }

    fn port(&mut self) -> u16 {
        self.pick(&[0, 1, 79, 80, 81, 1023, 1024, 5004, 65_535])
    }

    fn range(&mut self) -> PortRange {
        let (one, other) = (self.port(), self.port());
        let other = if self.chance(50) { one } else { other };
        PortRange::new(one.min(other), one.max(other)).expect("in order")
    }

    fn protocol(&mut self) -> u8 {
        self.pick(&[1, 6, 6, 17, 17, 17, 33, 50, 58, 132, 136])
    }

    fn vlan(&mut self) -> VlanTest {
        self.pick(&["0", "1", "2", "none", "any"]).parse().expect("a condition on a tag")
    }

    fn mac(&mut self) -> MacAddress {
        MacAddress::of_bits(self.pick(&[1, 2, 0x0200_0000_0001, 0x0200_0001_0001]))
    }

    fn ethertype(&mut self) -> EtherType {
        EtherType(self.pick(&[0x0800, 0x86dd, 0x0806, 0x88cc, 0x8864, 0x8847]))
    }

    /// Draws a rule; `all` fields at their usual rates, or few of them.
    fn matches(&mut self, all: bool) -> Match {
        let rare = |percent| if all { percent } else { 0 };
        Match {
            sources: self.few(30, Draws::prefix),
            destinations: self.few(30, Draws::prefix),
            protocol: self.some(40, |draws| Protocol(draws.protocol())),
            source_ports: self.few(15, Draws::range),
            destination_ports: self.few(40, Draws::range),
            dscps: self.few(15, |draws| {
                let code = draws.pick(&[0, 46, 63]);
                Dscp::new(code).expect("six bits")
            }),
            ecn: self.some(rare(10), |draws| Ecn::of_traffic_class(draws.below(4) as u8)),
            vlan: self.some(rare(15), Draws::vlan),
            vlan_inner: self.some(rare(8), Draws::vlan),
            ethertype: self.some(10, Draws::ethertype),
            interface: self.some(10, |draws| InterfaceId(draws.below(2) as u16)),
            source_macs: self.few(rare(10), Draws::mac),
            destination_macs: self.few(rare(8), Draws::mac),
            mark: None,
            details: self.some(rare(20), Draws::details).and_then(Details::boxed),
        }
    }

    fn details(&mut self) -> Details {
        let is = |text: &str| text.parse().expect("a PCP");
        Details {
            pcps: self.few(20, |draws| is(draws.pick(&["0", "7"]))),
            tcp_flags: self.few(40, |draws| {
                draws.pick(&["syn", "syn,!ack", "!psh,ack", "!syn"]).parse().expect("flags")
            }),
            icmp: self.few(20, |draws| {
                let text = draws.pick(&["0", "3", "4/0", "0/1"]);
                IcmpTest::parse(Protocol::ICMP, text).expect("a type")
            }),
            lengths: self.few(50, |draws| {
                draws.pick(&["0-40 B", "28 B", "40-54 B", "60-65575 B"]).parse().expect("lengths")
            }),
        }
    }
}

/// The config of a random policy. Only one in three has marks and hashes, which no program reads,
/// and fewer restore code points.
fn random_config(draws: &mut Draws) -> (SortConfig, bool) {
    let leaves = draws.pick(&[1, 2, 5, 9, 20]);
    let (all, unsortable) = (draws.chance(60), draws.chance(33));
    let count = draws.pick(&[0, 1, 2, 5, 12, 40, 150]);
    let similar = draws.chance(30);
    let mut rules: Vec<Rule> = Vec::new();
    for _ in 0..count {
        let mut matches = match rules.last() {
            Some(rule) if similar => {
                let destination_ports = vec![draws.range()];
                Match { destination_ports, ..rule.matches.clone() }
            }
            _ => draws.matches(all),
        };
        let mut rule = Rule::new(Match::default(), LeafId(draws.below(leaves) as u32));
        if unsortable {
            let mark = |draws: &mut Draws| {
                draws.pick(&["0", "3", "0x1/0x1", "0/0"]).parse().expect("a mark")
            };
            matches.mark = draws.some(8, mark);
            rule.spread = draws
                .some(5, |draws| Spread { hash: AltqHash::Full, queues: draws.below(3) as u32 });
        }
        rule.sort_key = draws.some(50, |draws| draws.pick(&[1, 2, 3, 60_000]));
        rules.push(Rule { matches, ..rule });
    }
    let fragments = draws.pick(&[
        FragmentPolicy::default(),
        FragmentPolicy::EachAlone,
        FragmentPolicy::AltqBroken,
        FragmentPolicy::AltqFixed,
    ]);
    let ring_priority =
        |_| RingPriority { bounded: draws.chance(20), priority: draws.below(3) as u64 };
    let ring_priorities: Vec<RingPriority> = (0..leaves).map(ring_priority).collect();
    let order = draws.pick(&MatchOrder::ALL);
    let default = LeafId(draws.below(leaves) as u32).into();
    let restores_dscp = draws.chance(15);
    let is_sortable = !unsortable && !restores_dscp;
    (SortConfig { rules, order, fragments, default, ring_priorities, restores_dscp }, is_sortable)
}

/// Returns a plain frame that meets most conditions of a random rule.
fn plain_frame(draws: &mut Draws, rules: &[Rule]) -> Vec<u8> {
    let nothing = Match::default();
    let wanted = match rules.is_empty() {
        true => &nothing,
        false => &rules[draws.below(rules.len())].matches,
    };
    let mut frame = Vec::new();
    for macs in [&wanted.destination_macs, &wanted.source_macs] {
        let mac = macs.last().copied().unwrap_or_else(|| draws.mac());
        frame.extend(mac.0);
    }
    // Inner tags need outer ones.
    let mut tags = 0;
    for (depth, test) in [wanted.vlan, wanted.vlan_inner].into_iter().enumerate() {
        let has = test.map_or(draws.chance(8), |test| {
            test.accepts(Some(weir_core::packet::VlanTag(test.id().map_or(1, |vlan| vlan.id()))))
        });
        if has && tags == depth {
            let kind = draws.pick(&[0x8100_u16, 0x88a8, 0x9100]);
            let vlan = test.and_then(VlanTest::id).map_or(draws.below(3) as u16, |vlan| vlan.id());
            frame.extend(kind.to_be_bytes());
            frame.extend((vlan | draws.pick(&[0, 0xe000, 0x1000])).to_be_bytes());
            tags += 1;
        }
    }
    let family = wanted.sources.iter().chain(&wanted.destinations).next();
    let ipv4 = family.map_or(draws.chance(60), |prefix| prefix.network().is_ipv4());
    let kind = match wanted.ethertype {
        Some(kind) if draws.chance(80) => kind.0,
        _ if draws.chance(5) => 0x0806,
        _ => {
            if ipv4 {
                0x0800
            } else {
                0x86dd
            }
        }
    };
    frame.extend(kind.to_be_bytes());
    match kind {
        0x0800 => ipv4_packet(draws, wanted, &mut frame),
        0x86dd => ipv6_packet(draws, wanted, &mut frame),
        _ => frame.extend([0; 46]),
    }
    frame
}

fn address(draws: &mut Draws, wanted: &[Prefix], ipv4: bool) -> u128 {
    let of_family = wanted.iter().rfind(|prefix| prefix.network().is_ipv4() == ipv4);
    match of_family.map(|prefix| (prefix.network(), prefix.prefix_len())) {
        Some((IpAddr::V4(network), len)) if draws.chance(85) => {
            let host = draws.0.bits() as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0);
            u128::from(u32::from(network) | host)
        }
        Some((IpAddr::V6(network), len)) if draws.chance(85) => {
            let host = u128::from(draws.0.bits()) << 64 | u128::from(draws.0.bits());
            u128::from(network) | host & u128::MAX.checked_shr(len.into()).unwrap_or(0)
        }
        _ => draws.address(ipv4),
    }
}

fn traffic_class(draws: &mut Draws, wanted: &Match) -> u8 {
    let dscp = wanted.dscps.last().map_or_else(|| draws.pick(&[0, 46, 63]), |dscp| dscp.code());
    dscp << 2 | wanted.ecn.map_or_else(|| draws.below(4) as u8, |ecn| ecn as u8)
}

fn protocol(draws: &mut Draws, wanted: &Match) -> u8 {
    let flags = wanted.details.as_ref().is_some_and(|details| !details.tcp_flags.is_empty());
    let icmp = wanted.details.as_ref().is_some_and(|details| !details.icmp.is_empty());
    let ported = wanted.needs_ports().then(|| draws.pick(&[6, 17]));
    let ported = if flags { Some(6) } else { ported };
    let ported = if icmp { Some(draws.pick(&[1, 58])) } else { ported };
    wanted.protocol.map(|protocol| protocol.0).or(ported).unwrap_or_else(|| draws.protocol())
}

fn segment(draws: &mut Draws, wanted: &Match) -> Vec<u8> {
    let mut segment = Vec::new();
    for ranges in [&wanted.source_ports, &wanted.destination_ports] {
        let range = ranges.last().copied().unwrap_or_else(|| draws.range());
        let port = if draws.chance(50) { range.first() } else { range.last() };
        segment.extend(port.to_be_bytes());
    }
    segment.extend(vec![0; draws.pick(&[0, 4, 9, 10, 16, 30])]);
    if let Some(flags) = segment.get_mut(13) {
        *flags = draws.pick(&[0x02, 0x12, 0x10, 0x18]);
    }
    segment
}

fn ipv4_packet(draws: &mut Draws, wanted: &Match, frame: &mut Vec<u8>) {
    let words = draws.pick(&[5, 5, 5, 6, 15_u8]);
    let segment = segment(draws, wanted);
    let len = u16::from(words) * 4 + segment.len() as u16;
    frame.extend([0x40 | words, traffic_class(draws, wanted)]);
    // A segment of unknown length that is too short for flags ends beyond the frame: ring 0.
    let is_known = draws.chance(90) || segment.len() < 14;
    frame.extend(if is_known { len } else { 0 }.to_be_bytes());
    let first_or_whole = draws.pick(&[0x00, 0x40, 0x20]);
    frame.extend([0, draws.below(3) as u8, first_or_whole, 0, 64, protocol(draws, wanted), 0, 0]);
    for prefixes in [&wanted.sources, &wanted.destinations] {
        frame.extend((address(draws, prefixes, true) as u32).to_be_bytes());
    }
    frame.extend(vec![1; usize::from(words) * 4 - 20]);
    frame.extend(segment);
    frame.extend(vec![0; draws.pick(&[0, 6])]);
}

fn ipv6_packet(draws: &mut Draws, wanted: &Match, frame: &mut Vec<u8>) {
    let segment = segment(draws, wanted);
    let class = traffic_class(draws, wanted);
    frame.extend([0x60 | class >> 4, class << 4 | 3, 0, 1]);
    frame.extend((segment.len() as u16).to_be_bytes());
    frame.extend([protocol(draws, wanted), 64]);
    for prefixes in [&wanted.sources, &wanted.destinations] {
        frame.extend(address(draws, prefixes, false).to_be_bytes());
    }
    frame.extend(segment);
    frame.extend(vec![0; draws.pick(&[0, 6])]);
}

/// Makes a frame hostile: cut, with changed bytes, with more tags, or in an encapsulation.
fn spoil(draws: &mut Draws, mut frame: Vec<u8>) -> Vec<u8> {
    match draws.below(8) {
        // A later fragment, of a datagram whose first one came before or not.
        7 if frame.len() > 34 => {
            frame[20] = draws.pick(&[0x00, 0x20]);
            frame[21] = draws.pick(&[0, 1, 0xff]);
        }
        0 => frame.truncate(14 + draws.below(frame.len() - 13)),
        1 => {
            let at = 12 + draws.below(frame.len() - 12);
            frame[at] ^= 1 << draws.below(8);
        }
        2 => {
            let at = 14 + draws.below(12.min(frame.len() - 14));
            frame[at] = draws.pick(&[0, 1, 4, 44, 51, 60, 0xff]);
        }
        3 => {
            let tags = draws.pick(&[1, 2, 3, 9]);
            let tag = draws.pick(&[[0x81, 0, 0, 1], [0x88, 0xa8, 0, 2], [0x91, 0, 0, 1]]);
            frame.splice(12..12, tag.repeat(tags));
        }
        4 => {
            let len = (frame.len() - 6) as u16;
            frame
                .splice(12..12, [len.to_be_bytes().as_slice(), &[0xaa, 0xaa, 3, 0, 0, 0]].concat());
        }
        5 => {
            let protocol = if frame[12..14] == [0x08, 0] { 0x21 } else { 0x57 };
            frame.splice(12..14, [0x88, 0x64, 0x11, 0, 0, 1, 0, 60, 0, protocol]);
        }
        _ => {
            frame.splice(12..14, [0x88, 0x47, 0, 0, 0x11, 64]);
        }
    }
    frame
}

/// How often plain frames came to ring 0 and to others, and hostile frames to others.
#[derive(Default, Debug)]
struct Tally {
    zero: usize,
    sorted: usize,
    hostile: usize,
    /// Policies whose rules find no room in a classic program.
    cut: usize,
}

fn check(seed: u64, tally: &mut Tally) {
    let draws = &mut Draws(Random::new(seed, 0));
    let (config, sortable) = random_config(draws);
    let algorithm = ClassifierPlan::default().algorithm;
    let search = ClassifierPlan {
        algorithm,
        order: config.order,
        fragments: config.fragments,
        flows: 0,
        seed,
    };
    let mut classifier = Classifier::build(config.rules.clone(), config.default, &search)
        .expect("the algorithm is registered");
    let rules = config.rules.clone();
    let follow = matches!(config.fragments, FragmentPolicy::Follow(_) | FragmentPolicy::AltqFixed);
    let plan = SortPlan::new(config);
    let sorters = [0, 1].map(|interface| plan.classic(InterfaceId(interface)));
    let xdp = [0, 1].map(|interface| plan.xdp(InterfaceId(interface)).code.number());
    if sorters.iter().any(|sorter| !sorter.cut.is_empty()) {
        // Its leaves share ring 0, as the XDP program's do not.
        tally.cut += 1;
        return;
    }
    for step in 0..60 {
        let plain = draws.chance(60);
        let frame = plain_frame(draws, &rules);
        let frame = if plain { frame } else { spoil(draws, frame) };
        let interface = draws.below(2);
        // Whatever mark a firewall gave: no program knows it.
        let mark = draws.pick(&[0, 0, 1, 3]);
        let mut headers = Headers { mark, ..Headers::parse_ethernet(&frame) };
        if let Some(class) = headers.traffic_class.as_mut().filter(|_| plan.restores_dscp) {
            *class = draws.pick(&[*class, *class & 3, 46 << 2 | *class & 3]);
        }
        let now = Instant::from_nanos(step);
        let leaf = classifier.classify(now, InterfaceId(interface as u16), &headers).leaf;
        let about = || format!("seed {seed:#x} step {step}: leaf {leaf:?} {headers:?} {rules:#?}");
        let by_xdp = interpret::xdp(&xdp[interface], &frame);
        let Some(ring) = interpret::classic(&sorters[interface].code, &frame) else {
            assert!(by_xdp == 0 || plan.leaf(by_xdp as usize) == Some(leaf), "{}", about());
            continue;
        };
        assert_eq!(by_xdp, ring, "{}", about());
        if ring != 0 {
            assert_eq!(plan.leaf(ring as usize), Some(leaf), "{}", about());
            *(if plain { &mut tally.sorted } else { &mut tally.hostile }) += 1;
        } else if plain {
            tally.zero += 1;
        }
        let seen = !matches!(headers.ethertype, Some(kind) if UNSEEN.contains(&kind));
        let waits = follow && headers.fragment != Fragment::None;
        if plain && sortable && seen && !waits {
            assert_eq!(ring, u32::from(plan.ring(leaf)), "{}", about());
        }
    }
}

/// Returns whether the kernel accepts a classic program: it checks, too, that the program loads no
/// word of scratch memory that was not stored on every path to it.
fn kernel_accepts(code: &[libc::sock_filter]) -> bool {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a local socket");
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    socket::set_option(socket.as_fd(), level, name, &program).is_ok()
}

#[test]
fn the_kernel_runs_programs_of_random_policies_alike() {
    let (mut verdicts, mut skipped) = ([0; RINGS_MAX], 0);
    for seed in 1..=150 {
        let draws = &mut Draws(Random::new(seed, 1));
        let (config, _) = random_config(draws);
        let rules = config.rules.clone();
        let plan = SortPlan::new(config);
        assert!(kernel_accepts(&plan.classic(InterfaceId(0)).code), "seed {seed}");
        let code = plan.xdp(InterfaceId(0)).code.number();
        let program = match Program::load(Kind::Xdp, "weir_sorts", &code) {
            Ok(program) => program,
            Err(error) if error.errno() == Some(libc::EPERM) => {
                skipped += 1;
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        };
        for step in 0..40 {
            let frame = plain_frame(draws, &rules);
            let frame = if draws.chance(60) { frame } else { spoil(draws, frame) };
            let verdict = program.test(&frame).expect("the kernel runs it").verdict;
            let about = format!("seed {seed} step {step}: {frame:02x?}");
            assert_eq!(verdict, interpret::xdp(&code, &frame), "{about}");
            verdicts[verdict as usize] += 1;
        }
    }
    if skipped > 0 {
        return println!("skipped: {skipped} XDP programs, which only root may load");
    }
    assert!(verdicts.iter().all(|frames| *frames > 10), "frames of each ring: {verdicts:?}");
}

#[test]
fn a_frame_goes_to_ring_0_or_to_that_of_its_leaf() {
    let mut tally = Tally::default();
    for case in 1..=800_u64 {
        check(case.wrapping_mul(0x9e37_79b9_7f4a_7c15), &mut tally);
    }
    assert!(tally.zero > 2_000 && tally.sorted > 2_000 && tally.hostile > 400, "{tally:?}");
    assert!(tally.cut < 8, "{tally:?}");
}

/// By another ring than the first one's, later fragments would be read before it.
#[test]
fn a_first_fragment_comes_by_the_ring_of_those_behind_it() {
    let port = Match { destination_ports: vec![PortRange::single(5004)], ..Match::default() };
    for (fragments, ring) in [
        (FragmentPolicy::default(), 0),
        (FragmentPolicy::AltqFixed, 0),
        (FragmentPolicy::AltqBroken, 1),
        (FragmentPolicy::EachAlone, 1),
    ] {
        let plan = SortPlan::new(SortConfig {
            rules: vec![Rule::new(port.clone(), LeafId(1))],
            order: MatchOrder::First,
            fragments,
            default: LeafId(0).into(),
            ring_priorities: vec![RingPriority::default(); 2],
            restores_dscp: false,
        });
        let (classic, xdp) = (plan.classic(InterfaceId(0)).code, plan.xdp(InterfaceId(0)));
        let number = xdp.code.number();
        let frame = |flags: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 36, 0, 7];
            frame.extend([flags, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend([0x13, 0x8d, 0x13, 0x8c, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
            frame
        };
        for (flags, ring) in [(0x00, 1), (0x40, 1), (0x20, ring)] {
            let frame = frame(flags);
            let found =
                [interpret::classic(&classic, &frame), Some(interpret::xdp(&number, &frame))];
            assert_eq!(found, [Some(ring); 2], "{fragments:?}, flags {flags:#x}");
        }
    }
}

/// A datagram of IPv4 or IPv6 between these ports, with a VLAN tag or without.
fn datagram(is_v4: bool, ports: [u16; 2], is_tagged: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if is_tagged {
        frame.extend([0x81, 0, 0, 7]);
    }
    match is_v4 {
        true => {
            frame.extend([8, 0, 0x45, 0, 0, 36, 0, 7, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        false => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 17, 64]);
            frame.extend([0x20; 32]);
        }
    }
    ports.into_iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend([0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    frame
}

/// Shares of ring 0 with the places 0, 5 and 7, of which the last is not there in some rows.
#[test]
fn flows_of_ring_0_are_spread_and_each_keeps_to_one_share() {
    let port = Match { destination_ports: vec![PortRange::single(5004)], ..Match::default() };
    let rules = [Vec::new(), vec![Rule::new(port, LeafId(1))]];
    for (rules, last) in rules.into_iter().zip([Some(7), None]) {
        let plan = SortPlan::new(SortConfig {
            rules,
            order: MatchOrder::First,
            fragments: FragmentPolicy::EachAlone,
            default: LeafId(0).into(),
            ring_priorities: vec![RingPriority::default(); 2],
            restores_dscp: false,
        });
        let sorting = Sorting::of(&plan, InterfaceId(0));
        let places = Places { others: vec![Some(5), last], ..Places::in_order(3) };
        let (spread, whole) = (sorting.classic_to(&places), sorting.classic());
        assert!(kernel_accepts(&spread));
        assert!(spread.len() <= whole.len() + SPREAD_LEN, "{} instructions", spread.len());
        for (is_v4, is_tagged) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut found = [0; 8];
            for number in 0..600 {
                let frame = datagram(is_v4, [number, 5000 + number % 7], is_tagged);
                let place = interpret::classic(&spread, &frame).expect("it is delivered");
                match interpret::classic(&whole, &frame) {
                    Some(0) => found[place as usize] += 1,
                    ring => assert_eq!(Some(place), ring, "a ring of its own"),
                }
                let again = datagram(is_v4, [number, 5000 + number % 7], !is_tagged);
                assert_eq!(interpret::classic(&spread, &again), Some(place), "with another tag");
            }
            let of_last = if last.is_some() { found[7] } else { found[0] / 2 };
            let parts = [found[0], found[5], of_last];
            assert!(parts.into_iter().all(|part| part > 120), "{found:?}");
        }
        // Fragments, and what is not IP, go to share 0.
        let mut fragment = datagram(true, [9, 9], false);
        fragment[20] = 0x20;
        let mut other = datagram(true, [9, 9], false);
        other[12..14].copy_from_slice(&[8, 6]);
        for frame in [fragment, other] {
            assert_eq!(interpret::classic(&spread, &frame), Some(0));
        }
    }
}

/// Policies without room for all rules: programs of the first of them are as certain.
#[test]
fn a_program_without_room_for_all_rules_stays_certain() {
    let mut sorted = 0;
    for seed in 1..=3 {
        let draws = &mut Draws(Random::new(seed, 2));
        // Every rule tests a port of its own, so that none takes all frames of the later ones.
        let rule = |port| {
            let destination_ports = vec![PortRange::single(port)];
            let matches = Match { destination_ports, ..draws.matches(true) };
            Rule::new(matches, LeafId(draws.below(9) as u32))
        };
        let rules: Vec<Rule> = (1..=3_000).map(rule).collect();
        let mut classifier = Classifier::new(rules.clone(), LeafId(0), FragmentPolicy::EachAlone);
        let plan = SortPlan::new(SortConfig {
            rules: rules.clone(),
            order: MatchOrder::First,
            fragments: FragmentPolicy::EachAlone,
            default: LeafId(0).into(),
            ring_priorities: vec![RingPriority::default(); 9],
            restores_dscp: false,
        });
        let (classic, xdp) = (plan.classic(InterfaceId(0)), plan.xdp(InterfaceId(0)));
        assert!(!classic.cut.is_empty() && !xdp.cut.is_empty(), "seed {seed}: there was room");
        let notes = plan.notes(&[InterfaceId(0)], |leaf| format!("c{}", leaf.0));
        let named = |note: &&String| note.contains("has no room for all of their rules");
        let named = notes.iter().find(named).expect("`weir up` says so");
        assert!(named.contains(&format!("`c{}`", classic.cut[0].0)), "{named}");
        let number = xdp.code.number();
        assert!(classic.code.len().max(number.len()) <= INSTRUCTIONS_MAX);
        let others = vec![Some(9); SHARES_MAX - 1];
        let places = Places { others, ..Places::in_order(SHARES_MAX) };
        let shared = Sorting::of(&plan, InterfaceId(0)).classic_to(&places);
        assert!(shared.len() <= INSTRUCTIONS_MAX && kernel_accepts(&shared), "{}", shared.len());
        for _ in 0..2_000 {
            let frame = plain_frame(draws, &rules[..400]);
            let headers = Headers::parse_ethernet(&frame);
            let leaf = classifier.classify(Instant::ZERO, InterfaceId(0), &headers).leaf;
            let rings = [
                interpret::classic(&classic.code, &frame).unwrap_or(0),
                interpret::xdp(&number, &frame),
            ];
            for ring in rings.into_iter().filter(|ring| *ring != 0) {
                assert_eq!(plan.leaf(ring as usize), Some(leaf), "seed {seed}: {headers:?}");
                sorted += 1;
            }
        }
    }
    assert!(sorted > 1_000, "{sorted} frames in rings of their own");
}

/// Checks the rings of leaves and the leaves that are not sorted, for the classes of a policy.
fn check_rings(classes: &str, rings: &str, unsorted: &[(&str, Reason)]) {
    check_rings_of(false, classes, rings, unsorted);
}

fn check_rings_of(restores_dscp: bool, classes: &str, rings: &str, unsorted: &[(&str, Reason)]) {
    let default = "[class.rest]\nrate = \"1 Mbit/s\"\ndefault = true\n";
    let link = "[link]\nrate = \"100 Mbit/s\"\nscheduler = \"htb\"\n";
    let text = format!("{link}{default}{}", classes.replace("RATE", "rate = \"1 Mbit/s\""));
    let outcome = weir_policy::policy::parse(&text, "rings.toml");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
    let plan = SortPlan::new(SortConfig { restores_dscp, ..SortConfig::of_policy(&policy) });
    let name = |leaf: LeafId| policy.leaf_name(leaf);
    let found = (1..plan.rings).map(|ring| plan.leaf(ring).map_or("none", name));
    assert_eq!(found.collect::<Vec<_>>().join(" "), rings, "{classes}");
    let found: Vec<_> = plan.unsorted.iter().map(|row| (name(row.0), row.1)).collect();
    assert_eq!(found, unsorted, "{classes}");
}

#[test]
fn leaves_that_need_a_ring_most_get_one_first() {
    let many = |extra: &str| {
        let class = |place: u32| {
            let key = if place == 8 { extra } else { "" };
            format!("[class.c{place}]\nRATE\n{key}\nmatch = [{{ dport = {place} }}]\n")
        };
        (1..=9).map(class).collect::<String>()
    };
    let last = [("c8", Reason::Rings), ("c9", Reason::Rings)];
    check_rings(&many(""), "c1 c2 c3 c4 c5 c6 c7", &last);
    let last = [("c7", Reason::Rings), ("c9", Reason::Rings)];
    check_rings(&many("delay = \"1 s\""), "c8 c1 c2 c3 c4 c5 c6", &last);
    let rest = "[class.a]\nRATE\nprio = 2\nmatch = [{ dport = 1 }]\n[class.b]\nRATE\nprio = 1\n\
                match = [{ dport = 2 }]\n[class.c]\nRATE\nmatch = [{ dport = 3 }]\n";
    check_rings(rest, "c b a", &[]);
}

#[test]
fn notes_name_some_leaves_and_count_the_rest() {
    let unsorted = [(9, Reason::Mark)].into_iter().chain((1..=6).map(|leaf| (leaf, Reason::Rings)));
    let unsorted = unsorted.map(|(leaf, reason)| (LeafId(leaf), reason)).collect();
    let config = random_config(&mut Draws(Random::new(1, 3))).0;
    let plan = SortPlan { unsorted, ..SortPlan::new(config) };
    let expected = [
        "frames of `c1`, `c2`, `c3`, `c4` and 2 more come by the ring that classes share: other \
         classes have all rings",
        "frames of `c9` come by the ring that classes share: a rule tests a mark, which the \
         kernel's sorter does not read",
    ];
    assert_eq!(plan.notes(&[], |leaf| format!("c{}", leaf.0)), expected);
}

#[test]
fn what_no_program_can_read_is_said() {
    let marked = "[class.a]\nRATE\nmatch = [{ mark = 5, proto = \"udp\" }]\n[class.b]\nRATE\n\
                  match = [{ dport = 5004 }]\n[class.c]\nRATE\nmatch = [{ proto = \"tcp\" }]\n";
    check_rings(marked, "b c", &[("a", Reason::Mark), ("b", Reason::BehindMark)]);
    let spread = "[class.a]\nRATE\nhash = \"full\"\nqueues = 4\nmatch = [{ dport = 1 }]\n";
    check_rings(spread, "", &[("a-0", Reason::Spread)]);
    let by_dscp = "[class.a]\nRATE\nmatch = [{ dscp = \"ef\", proto = \"udp\" }]\n[class.b]\nRATE\n\
                   match = [{ dport = 5004 }]\n[class.c]\nRATE\nmatch = [{ proto = \"tcp\" }]\n";
    check_rings(by_dscp, "a b c", &[]);
    let behind = [("a", Reason::CodePoint), ("b", Reason::BehindCodePoint)];
    check_rings_of(true, by_dscp, "b c", &behind);
}

/// Leaves 1 to 9 have a rule each, but for those without; leaf 0 is the default.
#[test]
fn a_leaf_that_gets_a_ring_again_keeps_its_own() {
    // By ring: the leaf before; the leaves that are bounded, and those without a rule; and the leaf
    // of each ring then.
    let rows: &[(&str, &[u32], &[u32], &str)] = &[
        ("", &[], &[], ".1234567"),
        (".1234567", &[9], &[], ".1234569"),
        (".1234569", &[8, 1], &[], ".1234568"),
        (".7654321", &[], &[], ".7654321"),
        (".1234567", &[], &[1, 3, 4, 6, 7, 8, 9], "..2..5"),
        ("..2..5", &[], &[1, 3, 6, 7, 8, 9], ".42..5"),
        (".1", &[], &[1, 2, 3, 4, 5, 6, 7, 8, 9], "."),
    ];
    let leaf = |ring: char| ring.to_digit(10).map(LeafId);
    for (before, bounded, without, expected) in rows {
        let rule = |number: u32| {
            let vlan = Some(number.to_string().parse().expect("a VLAN"));
            Rule::new(Match { vlan, ..Match::default() }, LeafId(number))
        };
        let priority = |leaf| RingPriority { bounded: bounded.contains(&leaf), priority: 1 };
        let config = SortConfig {
            rules: (1..10).filter(|number| !without.contains(number)).map(rule).collect(),
            order: MatchOrder::First,
            fragments: FragmentPolicy::default(),
            default: LeafId(0).into(),
            ring_priorities: (0..10).map(priority).collect(),
            restores_dscp: false,
        };
        let plan = SortPlan::after(config, &before.chars().map(leaf).collect::<Vec<_>>());
        let rings = plan.leaves_of_rings().into_iter();
        let text: String =
            rings.map(|leaf| leaf.map_or(".".to_owned(), |leaf| leaf.0.to_string())).collect();
        assert_eq!(text, *expected, "after {before:?}, {bounded:?} bounded");
    }
}
