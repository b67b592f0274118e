//! The sorter's classic program in the kernel: each class's frames come by the class's own ring.

use crate::ports::{Outcome, PLAIN};
use crate::support::rings::Rings;
use weir_core::classify::{
    FragmentPolicy, InterfaceId, Match, MatchOrder, PortRange, Prefix, Rule,
};
use weir_core::ids::LeafId;
use weir_core::packet::Protocol;
use weir_host::bpf::{Code, Kind, Map, Program};
use weir_host::probe;
use weir_link::sorter::{
    INSTRUCTIONS_MAX, RingPriority, SPREAD_LEN, SortConfig, SortPlan, interpret,
};
use weir_testbed::{END, LEFT, Testbed};

pub fn each_class_comes_by_its_own_ring() -> Outcome {
    let plan = SortPlan::new(config());
    let code = plan.classic(InterfaceId(0)).code;
    let testbed = Testbed::new(PLAIN)?;
    let rings = testbed.weir.run(|| Rings::open(LEFT, plan.rings, &code))??;
    let rows = rows();
    // Each frame ends with its number and a mark, by which it is known again.
    let frame = |(number, (_, frame, _)): (usize, &Row)| {
        [frame.as_slice(), &[0; 20], &[number as u8], MARK].concat()
    };
    let frames: Vec<Vec<u8>> = rows.iter().enumerate().map(frame).collect();
    testbed.client.run(|| probe::send(END, &frames))??;
    let mut found = vec![None; rows.len()];
    for (ring, frame) in rings.receive(rows.len(), MARK)? {
        found[usize::from(frame[frame.len() - MARK.len() - 1])] = Some(ring as u32);
    }
    for (place, (name, _, expected)) in rows.iter().enumerate() {
        let interpreted = interpret::classic(&code, &frames[place]);
        if found[place] != Some(*expected) || interpreted != Some(*expected) {
            let found = found[place];
            let why = format!("{name}: kernel {found:?}, interpreter {interpreted:?}, {expected}");
            return Err(why.into());
        }
    }
    Ok(())
}

pub fn an_xdp_program_sorts_alike() -> Outcome {
    let sorter = SortPlan::new(config()).xdp(InterfaceId(0)).code;
    let number = load(&sorter.number())?;
    let sockets = Map::sockets("weir_rings", 5)?;
    let redirect = load(&sorter.redirect(&sockets))?;
    for (name, frame, expected) in rows() {
        let found = number.test(&frame)?.verdict;
        let interpreted = interpret::xdp(&sorter.number(), &frame);
        if (found, interpreted) != (expected, expected) {
            let why = format!("{name}: kernel {found}, interpreter {interpreted}, {expected}");
            return Err(why.into());
        }
        // There is no socket yet, so the kernel's stack gets the frame.
        if redirect.test(&frame)?.verdict != XDP_PASS {
            return Err(format!("{name}: the frame is lost without a socket").into());
        }
    }
    Ok(())
}

fn load(code: &Code) -> weir_host::error::Result<Program> {
    Program::load(Kind::Xdp, "weir_sorts", code)
}

/// Returns a plan that is longer than a program may be.
fn longest() -> SortPlan {
    // Many prefixes that cannot be joined, for a leaf with a ring and one without.
    let rule = |place: u32| {
        let prefix = |bits: u32| vec![Prefix::new(bits.to_be_bytes().into(), 32).expect("a host")];
        let ports = vec![PortRange::single(place as u16)];
        let (source, both) = (prefix(place << 9), place.is_multiple_of(2));
        let matches = Match {
            sources: source,
            destinations: if both { prefix(place << 8) } else { Vec::new() },
            destination_ports: ports,
            ..Match::default()
        };
        Rule::new(matches, LeafId(place % 3))
    };
    let rules = (0..4_000).map(rule).collect();
    SortPlan::new(SortConfig { rules, ..config() })
}

pub fn the_kernel_takes_the_longest_program() -> Outcome {
    let sorter = longest().classic(InterfaceId(0));
    let (len, cut) = (sorter.code.len(), &sorter.cut);
    // Some are left for shares of the port.
    let most = INSTRUCTIONS_MAX - SPREAD_LEN;
    if !(most - 50..=most).contains(&len) || cut.len() != 2 {
        return Err(format!("{len} instructions, cut {cut:?}").into());
    }
    let testbed = Testbed::new(PLAIN)?;
    testbed.weir.run(|| Rings::open(LEFT, 2, &sorter.code))??;
    Ok(())
}

pub fn longest_xdp_program() -> Outcome {
    let xdp = longest().xdp(InterfaceId(0));
    let len = xdp.code.number().len();
    if !(INSTRUCTIONS_MAX - 50..=INSTRUCTIONS_MAX).contains(&len) || xdp.cut.len() != 2 {
        return Err(format!("XDP: {len} instructions, cut {:?}", xdp.cut).into());
    }
    load(&xdp.code.number())?;
    load(&xdp.code.redirect(&Map::sockets("weir_rings", 5)?))?;
    Ok(())
}

/// Leaf 0 is the default; voice is leaf 1, a network leaf 2, a VLAN leaf 3, ARP leaf 4.
fn config() -> SortConfig {
    let udp = Some(Protocol::UDP);
    let destination_ports = vec![PortRange::new(5004, 5010).expect("in order")];
    let net = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let rows = [
        Match { protocol: udp, destination_ports, ..Match::default() },
        Match { sources: vec![net("10.1.0.0/16"), net("2001:db8:1::/48")], ..Match::default() },
        Match { vlan: Some("7".parse().expect("a VLAN")), ..Match::default() },
        Match { ethertype: Some("arp".parse().expect("an ethertype")), ..Match::default() },
    ];
    let rule = |(leaf, matches)| Rule::new(matches, LeafId(leaf));
    SortConfig {
        rules: (1..).zip(rows).map(rule).collect(),
        order: MatchOrder::First,
        fragments: FragmentPolicy::default(),
        default: LeafId(0).into(),
        ring_priorities: vec![RingPriority::default(); 5],
        restores_dscp: false,
    }
}

/// A name, a frame, and the ring it goes to.
type Row = (&'static str, Vec<u8>, u32);

fn rows() -> Vec<Row> {
    let v4 = |source: [u8; 4], port: u16| ethernet(&[], 0x0800, &ipv4(source, port, &[]));
    let tagged = |tags: &[(u16, u16)]| ethernet(tags, 0x0800, &ipv4([10, 2, 0, 1], 80, &[]));
    let voice = ipv4([10, 2, 0, 1], 5004, &[]);
    let changed = |at: usize, byte: u8| {
        let mut packet = ipv4([10, 1, 0, 1], 5004, &[]);
        packet[at] = byte;
        ethernet(&[], 0x0800, &packet)
    };
    vec![
        ("voice", v4([10, 2, 0, 1], 5004), 1),
        ("voice, last port", v4([10, 1, 0, 1], 5010), 1),
        ("behind voice's ports", v4([10, 2, 0, 1], 5011), 0),
        ("network", v4([10, 1, 255, 255], 80), 2),
        ("beside the network", v4([10, 2, 0, 0], 80), 0),
        ("IP options", ethernet(&[], 0x0800, &ipv4([10, 2, 0, 1], 5004, &[1; 40])), 1),
        ("IPv6 voice", ethernet(&[], 0x86dd, &ipv6(0x2001_0db8_0002, 17, 5004)), 1),
        ("IPv6 network", ethernet(&[], 0x86dd, &ipv6(0x2001_0db8_0001, 6, 80)), 2),
        ("IPv6 extension header", ethernet(&[], 0x86dd, &ipv6(0x2001_0db8_0001, 60, 80)), 0),
        ("VLAN", tagged(&[(0x8100, 0xe007)]), 3),
        ("another VLAN", tagged(&[(0x8100, 8)]), 0),
        ("QinQ, outer VLAN", tagged(&[(0x88a8, 7), (0x8100, 8)]), 3),
        ("QinQ, inner VLAN", tagged(&[(0x88a8, 8), (0x8100, 7)]), 0),
        ("voice behind two tags", ethernet(&[(0x88a8, 7), (0x8100, 7)], 0x0800, &voice), 1),
        ("voice behind an old tag", ethernet(&[(0x9100, 1), (0x8100, 7)], 0x0800, &voice), 1),
        ("three tags", tagged(&[(0x88a8, 7), (0x8100, 7), (0x8100, 7)]), 0),
        ("ARP", ethernet(&[], 0x0806, &[0; 28]), 4),
        ("an ethertype without a rule", ethernet(&[], 0x88cc, &[0; 28]), 0),
        ("802.3 with SNAP", ethernet(&[], 40, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 6]), 0),
        ("a later fragment", changed(7, 1), 0),
        ("a first fragment, which those behind it follow", changed(6, 0x20), 0),
        ("IPv4 of version 5", changed(0, 0x55), 0),
        ("a header longer than the packet", changed(3, 19), 0),
        ("no bytes for ports", changed(3, 23), 0),
    ]
}

fn ethernet(tags: &[(u16, u16)], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0x78, 1, 0x02, 0, 0, 0, 0x77, 1];
    for (protocol, tag) in tags {
        frame.extend([protocol.to_be_bytes(), tag.to_be_bytes()].concat());
    }
    [&frame[..], &kind.to_be_bytes(), payload].concat()
}

fn ipv4(source: [u8; 4], port: u16, options: &[u8]) -> Vec<u8> {
    let len = 28 + options.len() as u16;
    let words = 0x45 + (options.len() / 4) as u8;
    let mut packet = [&[words, 0][..], &len.to_be_bytes(), &[0, 1, 0, 0, 64, 17, 0, 0]].concat();
    packet.extend([source, [192, 0, 2, 1]].concat());
    packet.extend(options);
    packet.extend([[0x30, 0x39], port.to_be_bytes(), [0, 8], [0, 0]].concat());
    packet
}

fn ipv6(network: u64, protocol: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 20, protocol, 64];
    packet.extend((u128::from(network) << 80 | 9).to_be_bytes());
    packet.extend(1_u128.to_be_bytes());
    packet.extend([[0x30, 0x39], port.to_be_bytes()].concat());
    packet.extend([0; 16]);
    packet
}

/// The verdict that hands a frame to the kernel's stack [<linux/bpf.h>, `xdp_action`].
const XDP_PASS: u32 = 2;
const MARK: &[u8] = b"weir sorts";
