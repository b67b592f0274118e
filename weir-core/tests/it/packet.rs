//! Reading headers: every field of well-formed packets, and how far reading gets on all others.

use crate::frames;

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
/// fragment, length, the cause if they cannot be read. Unknown parts are left out.
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
    words.extend(headers.tcp_flags().map(|flags| format!("flags{:#x}", flags.0)));
    words.extend(headers.icmp().map(|found| format!("type{}/{}", found.number, found.code)));
    match headers.fragment {
        Fragment::None => {}
        Fragment::First(id) => words.push(format!("first{id}")),
        Fragment::Later { id, .. } => words.push(format!("later{id}")),
    }
    words.extend(headers.network_len.map(|len| format!("{len}B")));
    words.push(format!("+{}", headers.link_len));
    words.extend(headers.unread.map(|cause| format!("!{}", cause.name())));
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
    for (protocol, name) in [(1, "icmp type19/136"), (47, "gre"), (50, "esp"), (253, "253")] {
        check_frame(Frame { protocol, ..udp4() }, &format!("{v4} {name} 44B +14"));
    }
    let v6 = "network ipv6 cs0 not-ect 2001:db8::1>2001:db8::2";
    check_frame(Frame { protocol: 58, ..udp6() }, &format!("{v6} icmpv6 type19/136 64B +14"));
    check_frame(Frame { protocol: 59, ..udp6() }, &format!("{v6} 59 64B +14"));
}

#[test]
fn tags_are_skipped_and_the_outer_two_are_read() {
    let rest = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp 5000>53 44B";
    check_frame(udp4().tag(0x8100, 0xa064), &format!("transport vlan100p5 {rest} +18"));
    let double = udp4().tag(0x88a8, 0x0fff).tag(0x8100, 0xe000);
    check_frame(double.clone(), &format!("transport vlan4095p0 vlan0p7 {rest} +22"));
    let old = udp4().tag(0x9100, 1).tag(0x8100, 2);
    check_frame(old, &format!("transport vlan1p0 vlan2p0 {rest} +22"));
    let third = double.clone().tag(0x8100, 3);
    check_frame(third, &format!("transport vlan4095p0 vlan0p7 {rest} +26"));
    let with = |count| (2..count).fold(double.clone(), |frame, _| frame.tag(0x8100, 3));
    check_frame(with(8), &format!("transport vlan4095p0 vlan0p7 {rest} +46"));
    check_frame(with(9), "link vlan4095p0 vlan0p7 0x8100 +46 !vlan-tags");
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
        check(LinkType::Ethernet, &bytes, "link ipv4 +14 !damaged");
    }
    let mut bytes = udp6().bytes();
    bytes[14] = 0x40;
    check(LinkType::Ethernet, &bytes, "link ipv6 +14 !damaged");
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
    check(LinkType::Loopback, &[0, 0, 0, 7, 0x45], "nothing +0 !damaged");
    check(LinkType::RawIp, &[0x10, 0x45], "nothing +0 !damaged");
}

#[test]
fn capture_numbers_name_link_types() {
    for (number, expected) in [
        (0, Some(LinkType::Loopback)),
        (1, Some(LinkType::Ethernet)),
        (101, Some(LinkType::RawIp)),
        (113, Some(LinkType::LinuxSll)),
        (276, Some(LinkType::LinuxSll2)),
        (9, Some(LinkType::Ppp)),
        (50, Some(LinkType::PppSerial)),
        (51, Some(LinkType::Pppoe)),
        (104, Some(LinkType::CiscoHdlc)),
        (105, Some(LinkType::Wireless)),
        (107, Some(LinkType::FrameRelay)),
        (127, Some(LinkType::Radiotap)),
        (239, Some(LinkType::Nflog)),
        (195, None),
    ] {
        assert_eq!(LinkType::from_capture(number), expected, "LINKTYPE {number}");
    }
}

/// Two addresses of Ethernet.
const ETHERNET: &str = "020000000001 020000000002";
/// Radiotap with a clock, then flags that promise a check sequence, then a rate.
const RADIOTAP: &str = "00 00 1200 07000000 1111111111111111 10 02";
/// The 24 bytes of a data frame to an access point.
const WIRELESS: &str = "0801 0000 0a0000000001 0a0000000002 0a0000000003 1000";
const SNAP: &str = "aaaa03 000000";
/// The header of a message about an IPv4 packet, and a mark.
const NFLOG: &str = "02 00 0000 0800 0500 00000001";

/// Reads hexadecimal digits; spaces are for people.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// An IPv4 and an IPv6 packet behind the `outer` bytes read as `expected` says, in which `*`
/// stands for what is read of a packet, and `~` for its length behind the outer bytes.
#[track_caller]
fn check_outer(link: LinkType, outer: [&str; 2], expected: &str) {
    let line4 = "ipv4 cs0 not-ect 10.0.0.1>10.0.0.2 udp 5000>53 44B";
    let line6 = "ipv6 cs0 not-ect 2001:db8::1>2001:db8::2 udp 5000>53 64B";
    let packets = [(udp4().ip_bytes(), line4), (udp6().ip_bytes(), line6)];
    for (outer, (packet, line)) in outer.iter().zip(packets) {
        let outer = hex(outer);
        let expected = expected.replace('*', line).replace('~', &outer.len().to_string());
        let bytes = [&outer[..], &packet].concat();
        assert_eq!(line_of(link, &bytes), expected, "{outer:02x?}");
    }
}

fn line_of(link: LinkType, bytes: &[u8]) -> String {
    line(&Headers::parse(link, bytes))
}

/// As [`check_outer`] in Ethernet frames, behind whose addresses the `outer` bytes are.
#[track_caller]
fn check_inside(outer: [&str; 2], expected: &str) {
    let outer = outer.map(|outer| format!("{ETHERNET} {outer}"));
    check_outer(LinkType::Ethernet, [&outer[0], &outer[1]], expected);
}

#[test]
fn a_pppoe_session_is_read_to_the_packet_in_it() {
    let read = "transport * +~";
    check_inside(["8864 1100 0001 002e 0021", "8864 1100 0001 0042 0057"], read);
    check_inside(["8864 1100 0001 002d 21", "8864 1100 0001 0041 57"], read);
    let tagged = ["8100 a007 8864 1100 0001 002e 0021", "8100 a007 8864 1100 0001 0042 0057"];
    check_inside(tagged, "transport vlan7p5 * +~");
    let labels = ["8864 1100 0001 0032 0281 00010140", "8864 1100 0001 0052 0283 00010140"];
    check_inside(labels, read);
    let rows = [
        // LCP, IPCP, authentication, AppleTalk: not IP.
        ("1100 0001 0002 c021", ""),
        ("1100 0001 0002 8021", ""),
        ("1100 0001 0002 c223", ""),
        ("1100 0001 0002 0029", ""),
        // Compressed TCP, multilink, encrypted, compressed, bridged.
        ("1100 0001 0002 002d", " !ppp"),
        ("1100 0001 0002 3d", " !ppp"),
        ("1100 0001 0002 0053", " !ppp"),
        ("1100 0001 0002 00fd", " !ppp"),
        ("1100 0001 0002 2067", " !ppp"),
        ("1100 0001 0002 0031", " !encapsulation"),
        // An unknown version, the code of discovery, an IP packet of another version.
        ("1200 0001 0002 0021", " !damaged"),
        ("1109 0001 0002 0021", " !damaged"),
    ];
    for (header, cause) in rows {
        let outer = format!("8864 {header}");
        check_inside([&outer, &outer], &format!("link 0x8864 +14{cause}"));
    }
    let swapped = ["8864 1100 0001 0042 0057", "8864 1100 0001 002e 0021"];
    check_inside(swapped, "link 0x8864 +14 !damaged");
}

#[test]
fn labels_are_skipped_to_the_packet_behind_them() {
    for kind in ["8847", "8848"] {
        let outer = format!("{kind} 00010140");
        check_inside([&outer, &outer], "transport * +~");
    }
    let stack = |labels: usize| format!("8847 {} 00020140", "00010040".repeat(labels - 1));
    check_inside([&stack(2), &stack(2)], "transport * +~");
    check_inside([&stack(16), &stack(16)], "transport * +~");
    check_inside([&stack(17), &stack(17)], "link 0x8847 +14 !mpls-labels");
    check_inside(["8100 0003 8847 00010140"; 2], "transport vlan3p0 * +~");
    // A control word, an associated channel, and Ethernet whose first byte looks like IP's.
    check_inside(["8847 00010140 00000000"; 2], "link 0x8847 +14 !mpls-payload");
    check_inside(["8847 00010140 10000021"; 2], "link 0x8847 +14");
    check_inside(["8847 00010140 400000000001"; 2], "link 0x8847 +14 !mpls-payload");
}

#[test]
fn a_frame_with_a_length_is_read_behind_snap() {
    let read = "transport * +~";
    check_inside([&format!("0034 {SNAP} 0800"), &format!("0048 {SNAP} 86dd")], read);
    check_inside(["0034 aaaa03 0000f8 0800", "0048 aaaa03 0000f8 86dd"], read);
    let tagged = ["0800", "86dd"].map(|kind| format!("8100 a007 0048 {SNAP} {kind}"));
    check_inside([&tagged[0], &tagged[1]], "transport vlan7p5 * +~");
    check_inside(
        [&format!("0042 {SNAP} 8847 00010140"); 2].each_ref().map(|row| row.as_str()),
        read,
    );
    let rows = [
        // Another organisation, spanning tree, a length again, and tags, which are not skipped here.
        ("0034 aaaa03 00000c 2000", "link +14"),
        ("0034 424203", "link +14"),
        ("0034 aaaa03 000000 0034", "link +14"),
        ("0034 aaaa03 000000 0806", "link arp +22"),
        ("0034 aaaa03 000000 88e5", "link 0x88e5 +22 !macsec"),
        ("0034 aaaa03 000000 8100 0003 0800", "link 0x8100 +22 !vlan-tags"),
    ];
    for (outer, expected) in rows {
        check_inside([outer, outer], expected);
    }
    let cut = hex(&format!("{ETHERNET} 0034 aaaa03 000000 08"));
    check(LinkType::Ethernet, &cut, "link +14 !damaged");
    check(LinkType::Ethernet, &cut[..14], "link +14");
}

#[test]
fn what_cannot_be_read_says_why_and_control_does_not() {
    let rows = [
        ("88e5", "link 0x88e5 +14 !macsec"),
        ("8100 0005 88e5", "link vlan5p0 0x88e5 +18 !macsec"),
        ("88e7", "link 0x88e7 +14 !encapsulation"),
        ("22f3", "link 0x22f3 +14 !encapsulation"),
        ("8863", "link 0x8863 +14"),
        ("88cc", "link 0x88cc +14"),
        ("888e", "link 0x888e +14"),
        ("0806", "link arp +14"),
        ("0042", "link +14"),
    ];
    for (outer, expected) in rows {
        check_inside([outer, outer], expected);
    }
    for cut in [0, 13] {
        check(LinkType::Ethernet, &udp4().bytes()[..cut], "nothing +0 !damaged");
    }
    check(LinkType::Ethernet, &udp4().bytes()[..33], "link ipv4 +14 !damaged");
    check(LinkType::Ethernet, &udp6().bytes()[..53], "link ipv6 +14 !damaged");
}

#[test]
fn point_to_point_links_are_read_to_the_packet() {
    use LinkType::{CiscoHdlc, FrameRelay, Ppp, PppSerial, Pppoe};
    let rows: [(LinkType, [&str; 2]); 13] = [
        (Ppp, ["ff03 0021", "ff03 0057"]),
        (Ppp, ["0021", "0057"]),
        (Ppp, ["ff03 21", "57"]),
        (Ppp, ["ff03 0281 00010140"; 2]),
        (PppSerial, ["ff03 0021", "ff03 0057"]),
        (PppSerial, ["0f00 0800", "8f00 86dd"]),
        (Pppoe, ["1100 0001 002e 0021", "1100 0001 0042 0057"]),
        (CiscoHdlc, ["0f00 0800", "8f00 86dd"]),
        (FrameRelay, ["1841 03 cc", "1841 03 8e"]),
        // An address of four bytes with padding, SNAP, PPP, and Cisco's encapsulation.
        (FrameRelay, ["18406043 03 00 cc", "184061 03 00 8e"]),
        (FrameRelay, ["1841 03 00 80 000000 0800", "1841 03 00 80 000000 86dd"]),
        (FrameRelay, ["1841 03 cf 0021", "1841 03 cf 0057"]),
        (FrameRelay, ["1841 0800", "1841 86dd"]),
    ];
    for (link, outer) in rows {
        check_outer(link, outer, "transport * +~");
    }
    let bridged =
        ["0800", "86dd"].map(|kind| format!("1841 03 00 80 0080c2 0007 {ETHERNET} {kind}"));
    check_outer(FrameRelay, [&bridged[0], &bridged[1]], "transport * +~");
    check_outer(Ppp, ["ff03 c021"; 2], "link +4");
    check_outer(Ppp, ["ff03 003d"; 2], "link +4 !ppp");
    check_outer(CiscoHdlc, ["8f00 8035"; 2], "link 0x8035 +4");
    check_outer(FrameRelay, ["0001 03 08"; 2], "link +4");
    // An address without its end, and one of a single byte.
    check_outer(FrameRelay, ["18406042 03 cc"; 2], "nothing +0 !damaged");
    check_outer(FrameRelay, ["19 03 cc"; 2], "nothing +0 !damaged");
}

#[test]
fn wireless_frames_are_read_to_the_packet() {
    let address = "0a0000000001";
    let bare = |control: &str, sequence: &str, rest: &str| {
        let header = format!("{control} 0000 {} {sequence} {rest} {SNAP}", address.repeat(3));
        [format!("{header} 0800"), format!("{header} 86dd")]
    };
    let rows = [
        // To the access point, from it, between two with a fourth address.
        (bare("0801", "1000", ""), "transport * +~"),
        (bare("0802", "1000", ""), "transport * +~"),
        (bare("0803", "1000", address), "transport * +~"),
        // With a priority, with an HT control field as well, the first fragment.
        (bare("8801", "1000", "0600"), "transport * +~"),
        (bare("8881", "1000", "0600 00000000"), "transport * +~"),
        (bare("0805", "1000", ""), "transport * +~"),
        // The first packet of an aggregate, behind two addresses and its length.
        (bare("8801", "1000", "8000 0b0000000001 0b0000000002 0034"), "transport * +~"),
        (bare("0805", "1100", ""), "link +24 !wireless-fragment"),
        (bare("0841", "1000", ""), "link +24 !wireless-encrypted"),
        (bare("8841", "1000", "0000"), "link +26 !wireless-encrypted"),
        // No data, a beacon, an acknowledgement, a version to come.
        (bare("4801", "1000", ""), "link +0"),
        (bare("8000", "1000", ""), "link +0"),
        (bare("d400", "1000", ""), "link +0"),
        (bare("0901", "1000", ""), "nothing +0 !damaged"),
    ];
    for (outer, expected) in rows {
        check_outer(LinkType::Wireless, [&outer[0], &outer[1]], expected);
    }
    check_outer(LinkType::Wireless, [&format!("{WIRELESS} 424203"); 2], "link +24");
}

#[test]
fn radiotap_and_nflog_are_skipped_to_the_packet() {
    let quality = "8801 0000 0a0000000001 0a0000000002 0a0000000003 1000 0600";
    let rows = [
        (RADIOTAP, WIRELESS, 0),
        ("00 00 0800 00000000", WIRELESS, 0),
        // Two words of fields and flags; the second header is padded from 26 bytes to 28.
        ("00 00 0d00 02000080 00000000 00", WIRELESS, 0),
        ("00 00 0900 02000000 20", quality, 2),
    ];
    for (header, frame, padding) in rows {
        let outer = |kind| format!("{header} {frame} {} {SNAP} {kind}", "00".repeat(padding));
        check_outer(LinkType::Radiotap, [&outer("0800"), &outer("86dd")], "transport * +~");
    }
    check_outer(LinkType::Radiotap, ["01 00 0800 00000000"; 2], "nothing +0 !damaged");
    let six = NFLOG.replace("02 00 0000", "0a 00 0000");
    let payload = |header: &str, len| format!("{header} {len} 0900");
    let nflog = [payload(NFLOG, "3000"), payload(&six, "4400")];
    check_outer(LinkType::Nflog, [&nflog[0], &nflog[1]], "transport * +~");
    // The other byte order, and a bridge's message, whose packet header has the ethertype.
    let big = ["02", "0a"].map(|family| format!("{family} 00 0000 0008 0005 00000001 0030 0009"));
    check_outer(LinkType::Nflog, [&big[0], &big[1]], "transport * +~");
    let bridge =
        ["0800", "86dd"].map(|kind| format!("07 00 0000 0800 0100 {kind} 00 00 3000 0900"));
    check_outer(LinkType::Nflog, [&bridge[0], &bridge[1]], "transport * +~");
    check(LinkType::Nflog, &hex("02 00 0000 0800 0100 0800 00 00"), "nothing +0 !damaged");
    // The mark is in network order, whatever the attributes' own order is.
    let marks = ["0800 0200 00000a05", "0008 0002 00000a05"];
    for (mark, payload) in marks.into_iter().zip(["1800 0900", "0018 0009"]) {
        let bytes = hex(&format!("02 00 0000 {mark} {payload} {}", "45".repeat(20)));
        assert_eq!(Headers::parse(LinkType::Nflog, &bytes).mark, 0xa05, "{mark}");
    }
}

#[test]
fn the_length_of_a_links_own_header_is_what_precedes_the_packet() {
    let rows = [
        (LinkType::Ethernet, String::new(), 14),
        (LinkType::RawIp, String::new(), 0),
        (LinkType::Loopback, String::new(), 4),
        (LinkType::LinuxSll, String::new(), 16),
        (LinkType::LinuxSll2, String::new(), 20),
        (LinkType::Pppoe, String::new(), 0),
        (LinkType::Ppp, "ff03 0021".into(), 4),
        (LinkType::Ppp, "21".into(), 14),
        (LinkType::Ppp, "21 45".into(), 1),
        (LinkType::CiscoHdlc, "0f00 0800".into(), 4),
        (LinkType::FrameRelay, "1841 03 cc".into(), 4),
        (LinkType::Wireless, format!("{WIRELESS} {SNAP} 0800"), 32),
        // With the check sequence behind the packet.
        (LinkType::Radiotap, format!("{RADIOTAP} {WIRELESS} {SNAP} 0800"), 18 + 32 + 4),
        (LinkType::Nflog, format!("{NFLOG} 3000 0900"), 16),
    ];
    for (link, bytes, expected) in rows {
        assert_eq!(link.header_len(&hex(&bytes)), expected, "{link:?} {bytes}");
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
    let seeds = [udp4(), udp6().extension(60).piece(3, 0, true), udp4().tag(0x8100, 9)];
    let mut seeds: Vec<_> = seeds.iter().map(Frame::bytes).collect();
    let (v4, v6) = (udp4().ip_bytes(), udp6().ip_bytes());
    let behind = |outer: &[&str], inner: &[u8]| [&hex(&outer.concat()), inner].concat();
    seeds.push(behind(&[ETHERNET, "8864 11 00 0001 002e 0021"], &v4));
    seeds.push(behind(&[ETHERNET, "8847 00010040 00020140"], &v6));
    seeds.push(behind(&[ETHERNET, "0034", SNAP, "0800"], &v4));
    seeds.push(behind(&[RADIOTAP, WIRELESS, SNAP, "0800"], &v4));
    seeds.push(behind(&[NFLOG, "0000 0900"], &v4));
    for case in 0..100_000 {
        let mut bytes = random.pick(&seeds).clone();
        for _ in 0..random.below(6) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.below(bytes.len() + 1));
        let headers = Headers::parse(random.pick(&LinkType::ALL), &bytes);
        let later = matches!(headers.fragment, Fragment::Later { .. });
        assert!(!(later && headers.ports.is_some()), "case {case}: {bytes:x?}");
        assert_eq!(headers.ports.is_some(), headers.depth == Depth::Transport, "case {case}");
        let addressed = headers.addresses != Addresses::Unknown;
        assert_eq!(addressed, headers.depth >= Depth::Network, "case {case}");
        assert!(!addressed || headers.unread.is_none(), "case {case}");
        assert!(usize::from(headers.link_len) <= bytes.len(), "case {case}");
    }
}
