//! Reading headers: every field of well-formed packets, and how far reading gets on all others.

mod frames;

use frames::{Draws, Frame, frame};
use weir_core::packet::{Addresses, Depth, Fragment, Headers, LinkType, VlanTag};

const UDP: u8 = 17;
const TCP: u8 = 6;

fn udp4() -> Frame {
    frame(UDP, ("10.0.0.1", 5000), ("10.0.0.2", 53))
}

fn udp6() -> Frame {
    frame(UDP, ("2001:db8::1", 5000), ("2001:db8::2", 53))
}

/// Formats headers as one line: depth, tags, ethertype, traffic class, addresses, protocol, ports,
/// fragment, length. Unknown parts are left out.
fn line(headers: &Headers) -> String {
    let mut words = vec![format!("{:?}", headers.depth).to_lowercase()];
    for tag in [headers.vlan, headers.vlan_inner].into_iter().flatten() {
        words.push(format!("vlan{}p{}", tag.id(), tag.priority()));
    }
    words.extend(headers.ethertype.map(|ethertype| ethertype.to_string()));
    words.extend(headers.dscp().map(|dscp| dscp.to_string()));
    words.extend(headers.ecn().map(|ecn| ecn.to_string()));
    let ends = headers.addresses.source().zip(headers.addresses.destination());
    words.extend(ends.map(|(source, destination)| format!("{source}>{destination}")));
    words.extend(headers.protocol.map(|protocol| protocol.to_string()));
    words.extend(headers.ports.map(|ports| format!("{}>{}", ports.source, ports.destination)));
    words.extend(headers.tcp_flags.map(|flags| format!("flags{:#x}", flags.0)));
    match headers.fragment {
        Fragment::None => {}
        Fragment::First(id) => words.push(format!("first{id}")),
        Fragment::Later { id, .. } => words.push(format!("later{id}")),
    }
    words.extend(headers.network_len.map(|len| format!("{len}B")));
    words.push(format!("+{}", headers.link_len));
    words.join(" ")
}

#[track_caller]
fn check(link: LinkType, bytes: &[u8], expected: &str) {
    assert_eq!(line(&Headers::parse(link, bytes)), expected);
}

#[track_caller]
fn check_frame(frame: Frame, expected: &str) {
    check(LinkType::Ethernet, &frame.bytes(), expected);
}

#[test]
fn whole_packets_show_every_field() {
    let v4 = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2";
    check_frame(udp4(), &format!("transport {v4} udp 5000>53 44B +14"));
    for (protocol, rest) in [
        (TCP, "tcp 5000>53 flags0x12"),
        (33, "dccp 5000>53"),
        (132, "sctp 5000>53"),
        (136, "udplite 5000>53"),
    ] {
        let frame = Frame { protocol, ..udp4() };
        check_frame(frame, &format!("transport {v4} {rest} 44B +14"));
    }
    check_frame(
        udp4().class(46 << 2 | 3),
        "transport ipv4 ef ce 10.0.0.1>10.0.0.2 udp 5000>53 44B +14",
    );
    check_frame(
        udp6().class(34 << 2 | 2),
        "transport ipv6 af41 ect0 2001:db8::1>2001:db8::2 udp 5000>53 64B +14",
    );
}

#[test]
fn protocols_without_ports_stop_at_the_network() {
    let v4 = "network ipv4 cs0 not-ect 10.0.0.1>10.0.0.2";
    for (protocol, name) in [(1, "icmp"), (47, "gre"), (50, "esp"), (253, "253")] {
        check_frame(Frame { protocol, ..udp4() }, &format!("{v4} {name} 44B +14"));
    }
    let v6 = "network ipv6 cs0 not-ect 2001:db8::1>2001:db8::2";
    check_frame(Frame { protocol: 58, ..udp6() }, &format!("{v6} icmpv6 64B +14"));
    check_frame(Frame { protocol: 59, ..udp6() }, &format!("{v6} 59 64B +14"));
}

#[test]
fn tags_are_read_outer_first_up_to_two() {
    let rest = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp 5000>53 44B";
    check_frame(udp4().tag(0x8100, 0xa064), &format!("transport vlan100p5 {rest} +18"));
    let double = udp4().tag(0x88a8, 0x0fff).tag(0x8100, 0xe000);
    check_frame(double.clone(), &format!("transport vlan4095p0 vlan0p7 {rest} +22"));
    let old = udp4().tag(0x9100, 1).tag(0x8100, 2);
    check_frame(old, &format!("transport vlan1p0 vlan2p0 {rest} +22"));
    check_frame(double.tag(0x8100, 3), "link vlan4095p0 vlan0p7 0x8100 +22");
}

#[test]
fn a_stripped_tag_goes_outside() {
    let headers = Headers::parse_ethernet(&udp4().tag(0x8100, 2).bytes());
    let headers = headers.with_stripped_tag(VlanTag(1));
    assert_eq!((headers.vlan, headers.vlan_inner), (Some(VlanTag(1)), Some(VlanTag(2))));
    assert!(VlanTag(0x1000).drop_eligible());
}

#[test]
fn only_the_first_fragment_has_ports() {
    let v4 = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp";
    check_frame(udp4().piece(9, 0, true), &format!("transport {v4} 5000>53 first9 44B +14"));
    check_frame(udp4().piece(9, 185, true), &format!("network {v4} later9 44B +14"));
    check_frame(udp4().piece(9, 370, false), &format!("network {v4} later9 44B +14"));
    let v6 = "ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 udp";
    let id = 0xdead_beef_u32;
    check_frame(udp6().piece(id, 0, true), &format!("transport {v6} 5000>53 first{id} 72B +14"));
    check_frame(udp6().piece(id, 181, true), &format!("network {v6} later{id} 72B +14"));
    // [RFC 6946] A fragment header around a whole datagram.
    check_frame(udp6().piece(id, 0, false), &format!("transport {v6} 5000>53 72B +14"));
}

#[test]
fn extension_headers_are_skipped_up_to_a_bound() {
    let v6 = "ipv6 cs0 not-ect 2001:db8::1>2001:db8::2";
    for kind in [0, 43, 60, 51, 135, 139, 140] {
        check_frame(
            udp6().extension(kind),
            &format!("transport {v6} udp 5000>53 {}B +14", 64 + 16),
        );
    }
    let with = |count| (0..count).fold(udp6(), |frame, _| frame.extension(60));
    check_frame(with(8), &format!("transport {v6} udp 5000>53 {}B +14", 64 + 8 * 16));
    check_frame(with(9), &format!("network {v6} {}B +14", 64 + 9 * 16));
    check_frame(
        udp6().extension(0).piece(5, 0, true),
        &format!("transport {v6} udp 5000>53 first5 88B +14"),
    );
}

#[test]
fn a_later_fragment_behind_an_extension_hides_its_protocol() {
    // The payload of a later fragment is not an extension header, though the chain names one.
    let frame = Frame { protocol: 60, ..udp6().piece(5, 100, true) };
    check_frame(frame, "network ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 later5 72B +14");
    // A fragment header inside a fragment makes no sense: no protocol, no ports.
    let mut bytes = Frame { protocol: 44, ..udp6().piece(5, 0, true) }.bytes();
    bytes.truncate(14 + 40 + 8);
    bytes.extend([17, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1, 1, 0, 0, 0, 0]);
    check(
        LinkType::Ethernet,
        &bytes,
        "network ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 first5 72B +14",
    );
}

#[test]
fn other_frames_stop_at_the_link() {
    let mut arp = udp4().bytes();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    check(LinkType::Ethernet, &arp, "link arp +14");
    let mut spanning_tree = udp4().bytes();
    spanning_tree[12..14].copy_from_slice(&[0x00, 0x26]);
    check(LinkType::Ethernet, &spanning_tree, "link +14");
}

#[test]
fn malformed_ip_stops_at_the_link() {
    for (at, byte) in [(0, 0x65), (0, 0x44), (3, 19)] {
        let mut bytes = udp4().bytes();
        bytes[14 + at] = byte;
        check(LinkType::Ethernet, &bytes, "link ipv4 +14");
    }
    let mut bytes = udp6().bytes();
    bytes[14] = 0x40;
    check(LinkType::Ethernet, &bytes, "link ipv6 +14");
}

#[test]
fn options_are_skipped_and_padding_is_not_ports() {
    let v4 = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp";
    let mut options = udp4().bytes();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 0]);
    check(LinkType::Ethernet, &options, &format!("transport {v4} 5000>53 44B +14"));
    let mut padded = udp4().bytes();
    padded[17] = 20;
    check(LinkType::Ethernet, &padded, &format!("network {v4} 20B +14"));
    let mut half_a_port = udp4().bytes();
    half_a_port[17] = 23;
    check(LinkType::Ethernet, &half_a_port, &format!("network {v4} 23B +14"));
}

#[test]
fn a_length_of_zero_is_unknown() {
    let mut bytes = udp4().bytes();
    bytes[16..18].copy_from_slice(&[0, 0]);
    let v4 = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp";
    check(LinkType::Ethernet, &bytes, &format!("transport {v4} 5000>53 +14"));
    let mut jumbo = udp6().extension(0).bytes();
    jumbo[18..20].copy_from_slice(&[0, 0]);
    let v6 = "ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 udp";
    check(LinkType::Ethernet, &jumbo, &format!("transport {v6} 5000>53 +14"));
}

#[test]
fn every_link_type_finds_the_packet() {
    let (v4, v6) = (udp4().ip_bytes(), udp6().ip_bytes());
    let line4 = "transport ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp 5000>53 44B";
    let line6 = "transport ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 udp 5000>53 64B";
    let mut sll = vec![0; 14];
    sll.extend([0x08, 0x00]);
    let mut sll2 = vec![0x86, 0xdd];
    sll2.extend([0; 18]);
    let rows: [(LinkType, Vec<u8>, &[u8], String); 8] = [
        (LinkType::RawIp, vec![], &v4, format!("{line4} +0")),
        (LinkType::RawIp, vec![], &v6, format!("{line6} +0")),
        (LinkType::Loopback, vec![2, 0, 0, 0], &v4, format!("{line4} +4")),
        (LinkType::Loopback, vec![0, 0, 0, 2], &v4, format!("{line4} +4")),
        (LinkType::Loopback, vec![30, 0, 0, 0], &v6, format!("{line6} +4")),
        (LinkType::Loopback, vec![0, 0, 0, 24], &v6, format!("{line6} +4")),
        (LinkType::LinuxSll, sll, &v4, format!("{line4} +16")),
        (LinkType::LinuxSll2, sll2, &v6, format!("{line6} +20")),
    ];
    for (link, header, packet, expected) in rows {
        check(link, &[&header, packet].concat(), &expected);
    }
    check(LinkType::Loopback, &[0, 0, 0, 7, 0x45], "nothing +0");
    check(LinkType::RawIp, &[0x10, 0x45], "nothing +0");
}

#[test]
fn capture_numbers_name_link_types() {
    for (number, expected) in [
        (0, Some(LinkType::Loopback)),
        (1, Some(LinkType::Ethernet)),
        (101, Some(LinkType::RawIp)),
        (113, Some(LinkType::LinuxSll)),
        (276, Some(LinkType::LinuxSll2)),
        (105, None),
    ] {
        assert_eq!(LinkType::from_capture(number), expected, "LINKTYPE {number}");
    }
}

/// Cutting a packet does not change what was read before the cut, only how far reading gets.
#[test]
fn a_cut_packet_shows_what_precedes_the_cut() {
    let tagged = udp6().tag(0x88a8, 5).tag(0x8100, 6).extension(0).extension(60);
    for frame in [udp4(), tagged, Frame { protocol: TCP, ..udp6() }] {
        let bytes = frame.bytes();
        let whole = Headers::parse_ethernet(&bytes);
        let mut depth = Depth::Nothing;
        for len in 0..bytes.len() {
            let cut = Headers::parse_ethernet(&bytes[..len]);
            assert!(cut.depth >= depth, "{len} bytes of {frame:?}");
            depth = cut.depth;
            agrees(&cut, &whole);
        }
    }
}

fn agrees(cut: &Headers, whole: &Headers) {
    assert!(cut.addresses == Addresses::Unknown || cut.addresses == whole.addresses);
    assert!(cut.ports.is_none() || cut.ports == whole.ports);
    assert!(cut.protocol.is_none() || cut.protocol == whole.protocol);
    assert!(cut.ethertype.is_none() || cut.ethertype == whole.ethertype);
    assert!(cut.network_len.is_none() || cut.network_len == whole.network_len);
    assert!(cut.vlan.is_none() || cut.vlan == whole.vlan);
}

#[test]
fn any_bytes_give_consistent_headers() {
    let mut random = Draws::new(0x5eed);
    let links = [
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::Loopback,
        LinkType::LinuxSll,
        LinkType::LinuxSll2,
    ];
    let seeds = [udp4(), udp6().extension(60).piece(3, 0, true), udp4().tag(0x8100, 9)];
    for case in 0..100_000 {
        let mut bytes = random.pick(&seeds).bytes();
        for _ in 0..random.below(6) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.below(bytes.len() + 1));
        let headers = Headers::parse(random.pick(&links), &bytes);
        let later = matches!(headers.fragment, Fragment::Later { .. });
        assert!(!(later && headers.ports.is_some()), "case {case}: {bytes:x?}");
        assert_eq!(headers.ports.is_some(), headers.depth == Depth::Transport, "case {case}");
        let addressed = headers.addresses != Addresses::Unknown;
        assert_eq!(addressed, headers.depth >= Depth::Network, "case {case}");
    }
}
