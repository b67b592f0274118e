//! The kinds of odd frames.

use std::net::IpAddr;

use weir_host::ethtool;
use weir_host::netlink::Mac;
use weir_testbed::{END, Host, LEFT, Netlink, Vxlan};

use crate::odd_frames::frames::*;
use crate::odd_frames::lab::{CLIENT, Lab, Outcome, SERVER};

/// Sends frames from client to server, and their like back.
fn both_ways(lab: &mut Lab, frames: Vec<Frame>) -> Outcome {
    lab.cross(CLIENT, &frames)?;
    let turned = frames.into_iter().map(|mut frame| {
        let (destination, source) = frame.bytes.split_at_mut(6);
        if destination[0] & 1 == 0 {
            destination.swap_with_slice(&mut source[..6]);
        } else {
            source[..6].copy_from_slice(&Host::Server.mac().0);
        }
        frame
    });
    lab.cross(SERVER, &turned.collect::<Vec<_>>())
}

pub fn short(lab: &mut Lab) -> Outcome {
    let lens = [0, 1, 2, 5, 19, 20, 31, 45];
    let frames = lens
        .iter()
        .flat_map(|len| [LOCAL, IP4, IP6, 0x8863, 3].map(|kind| ethernet(kind, &filling(*len))));
    // With less behind a tag the kernel drops the frame before any program sees it.
    let tagged = [6, 7, 20].map(|len| ethernet(0x8100, &filling(len)));
    both_ways(lab, plain(frames.chain(tagged).collect()))
}

pub fn full(lab: &mut Lab) -> Outcome {
    let lens = [1400, 1499, 1500];
    both_ways(lab, plain(lens.iter().map(|len| ethernet(LOCAL, &filling(*len))).collect()))
}

pub fn jumbo(lab: &mut Lab) -> Outcome {
    let lens = [1501, 2100, 4096, 8999, 9000];
    let mut frames: Vec<_> = lens.iter().map(|len| ethernet(LOCAL, &filling(*len))).collect();
    frames.push(tagged(&[0x8100, 5], LOCAL, &filling(9000)));
    both_ways(lab, plain(frames))
}

pub fn vlan(lab: &mut Lab) -> Outcome {
    let tags: [&[u16]; 9] = [
        &[0x8100, 0xa123],
        &[0x8100, 0x6000],
        &[0x8100, 0x0fff],
        &[0x88a8, 0x0064],
        &[0x88a8, 0x0064, 0x8100, 0x0007],
        &[0x8100, 0x0001, 0x8100, 0x0002],
        &[0x88a8, 0x0001, 0x8100, 0x0002, 0x8100, 0x0003],
        &[0x9100, 0x0001, 0x8100, 0x0002],
        &[0x8100, 0x0001, 0x88a8, 0x0002],
    ];
    let mut frames: Vec<_> = tags.iter().map(|tags| tagged(tags, LOCAL, &filling(60))).collect();
    frames.extend(tags.iter().map(|tags| tagged(tags, IP4, &ip4(UDP, 0, &[], &udp(0, b"tag")))));
    frames.push(tagged(&[0x8100, 0x0001], LOCAL, &filling(1500)));
    both_ways(lab, plain(frames))
}

/// Full frames with two and three tags, on cables with room for them.
pub fn full_tags(lab: &mut Lab) -> Outcome {
    let tags: [&[u16]; 3] = [
        &[0x88a8, 0x0064, 0x8100, 0x0007],
        &[0x8100, 0x0001, 0x8100, 0x0002],
        &[0x8100, 0x0001, 0x88a8, 0x0002, 0x8100, 0x0003],
    ];
    both_ways(lab, plain(tags.iter().map(|tags| tagged(tags, LOCAL, &filling(1500))).collect()))
}

/// All have room for two tags except the port where the frames leave.
pub fn full_two(lab: &mut Lab) -> Outcome {
    for host in crate::odd_frames::lab::HOSTS {
        lab.testbed.namespace(host).run(|| Netlink::open()?.set_mtu(END, 1512))??;
    }
    lab.netlink()?.set_mtu(LEFT, 1512)?;
    lab.settle()?;
    let tags: [&[u16]; 2] = [&[0x88a8, 0x0064, 0x8100, 0x0007], &[0x8100, 0x0001, 0x8100, 0x0002]];
    let frames = [1496, 1499, 1500, 1501, 1504]
        .into_iter()
        .flat_map(|len| tags.iter().map(move |tags| tagged(tags, LOCAL, &filling(len))));
    lab.cross(CLIENT, &plain(frames.collect()))
}

/// The hosts have room for a tag of 802.1ad, the ports of the bridge have not.
pub fn full_ad(lab: &mut Lab) -> Outcome {
    for host in crate::odd_frames::lab::HOSTS {
        lab.testbed.namespace(host).run(|| Netlink::open()?.set_mtu(END, 1508))??;
    }
    lab.settle()?;
    let tags: [&[u16]; 2] = [&[0x88a8, 0x0064], &[0x8100, 0x0001]];
    both_ways(lab, plain(tags.iter().map(|tags| tagged(tags, LOCAL, &filling(1500))).collect()))
}

pub fn llc(lab: &mut Lab) -> Outcome {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let packet = ip4(UDP, 0, &[], &udp(0, b"snap"));
    let snapped = [&snap[..], &packet].concat();
    let frames = vec![
        ethernet(snapped.len() as u16, &snapped),
        ethernet(3, &[&[0xf0, 0xf0, 3][..], &[0; 43]].concat()),
        ethernet(46, &[&[0xff, 0xff][..], &filling(44)].concat()),
        ethernet(1500, &filling(1500)),
        ethernet(1500, &filling(60)),
        ethernet(0, &filling(60)),
        tagged(&[0x8100, 9], snapped.len() as u16, &snapped),
    ];
    both_ways(lab, plain(frames))
}

pub fn pppoe(lab: &mut Lab) -> Outcome {
    let packet = ip4(UDP, 0, &[], &udp(0, b"session"));
    let session = |protocol: u16, packet: &[u8]| {
        let len = (packet.len() as u16 + 2).to_be_bytes();
        [&[0x11, 0, 0, 7][..], &len, &protocol.to_be_bytes(), packet].concat()
    };
    let frames = vec![
        ethernet(0x8863, &[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]),
        ethernet(0x8864, &session(0x0021, &packet)),
        ethernet(0x8864, &session(0x0057, &ip6(UDP, &udp(0, b"six")))),
        ethernet(0x8864, &session(0xc021, &[9, 1, 0, 8, 0, 0, 0, 0])),
        ethernet(0x8864, &session(0x0021, &filling(1492))),
        tagged(&[0x8100, 7], 0x8864, &session(0x0021, &packet)),
    ];
    both_ways(lab, plain(frames))
}

pub fn mpls(lab: &mut Lab) -> Outcome {
    let packet = ip4(UDP, 0, &[], &udp(0, b"label"));
    let one = [&[0, 1, 0x01, 0x40][..], &packet].concat();
    let three = [&[0, 1, 0, 0x40, 0, 2, 0, 0x40][..], &one].concat();
    let frames = vec![
        ethernet(0x8847, &one),
        ethernet(0x8847, &three),
        ethernet(0x8848, &one),
        ethernet(0x8847, &[0, 1, 0, 0x40]),
        ethernet(0x8847, &[0, 0]),
        tagged(&[0x8100, 7], 0x8847, &three),
    ];
    both_ways(lab, plain(frames))
}

pub fn ethertypes(lab: &mut Lab) -> Outcome {
    let kinds = [0x0600, 0x0800, 0x0842, 0x8035, 0x80f3, 0x88cc, 0x88e5, 0x88f7, 0x8902, 0xffff];
    both_ways(lab, plain(kinds.map(|kind| ethernet(kind, &filling(50))).into()))
}

pub fn groups(lab: &mut Lab) -> Outcome {
    let to = |group: [u8; 6], kind: u16, content: &[u8]| {
        between(Host::Client.mac(), Mac(group), kind, content)
    };
    let packet = ip4(UDP, 0, &[], &udp(0, b"all"));
    let frames = vec![
        to([0xff; 6], LOCAL, &filling(60)),
        to([0xff; 6], IP4, &packet),
        to([1, 0, 0x5e, 0, 0, 1], IP4, &packet),
        to([1, 0, 0x5e, 0x7f, 1, 2], LOCAL, &filling(60)),
        to([0x33, 0x33, 0, 0, 0, 1], IP6, &ip6(UDP, &udp(0, b"all"))),
        to([0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc], 40, &filling(40)),
        to([0x01, 0x1b, 0x19, 0, 0, 0], 0x88f7, &filling(44)),
        to([0x01, 0x80, 0xc2, 0, 0, 0x10], LOCAL, &filling(44)),
        to([0x01, 0x80, 0xc2, 0, 0, 0x21], LOCAL, &filling(44)),
    ];
    both_ways(lab, plain(frames))
}

pub fn reserved(lab: &mut Lab) -> Outcome {
    let to = |last: u8| {
        between(Host::Client.mac(), Mac([1, 0x80, 0xc2, 0, 0, last]), LOCAL, &filling(60))
    };
    lab.cross(CLIENT, &plain((0..16).map(to).collect()))
}

pub fn bad_sources(lab: &mut Lab) -> Outcome {
    let from = |source: [u8; 6]| between(Mac(source), Host::Server.mac(), LOCAL, &filling(60));
    let sources = [[0; 6], [1, 0, 0x5e, 0, 0, 9], [2, 0, 0, 0, 0, 9]];
    lab.cross(CLIENT, &plain(sources.map(from).into()))
}

pub fn group_reports(lab: &mut Lab) -> Outcome {
    let group = [239, 1, 2, 3];
    let to = Mac([1, 0, 0x5e, 1, 2, 3]);
    let igmp = |kind: u8| {
        let mut report = [&[kind, 0, 0, 0][..], &group].concat();
        let sum = !sum(&report);
        report[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = ip4(2, 0, &[0x94, 4, 0, 0], &report);
        packet[8] = 1;
        packet[16..20].copy_from_slice(&group);
        packet[10..12].fill(0);
        let sum = !crate::odd_frames::frames::sum(&packet[..24]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        between(Host::Client.mac(), to, IP4, &packet)
    };
    lab.cross(CLIENT, &plain(vec![igmp(0x16), igmp(0x12)]))
}

pub fn wrong_checksums(lab: &mut Lab) -> Outcome {
    let mut bad_ip = ip4(UDP, 0, &[], &udp(0, b"bad"));
    bad_ip[10] ^= 0x55;
    let frames = vec![
        ethernet(IP4, &bad_ip),
        ethernet(IP4, &ip4(UDP, 0, &[], &udp(0xdead, b"bad"))),
        ethernet(IP4, &ip4(TCP, 0, &[], &tcp(0x18, b"bad"))),
        ethernet(IP6, &ip6(UDP, &udp(0xdead, b"bad"))),
        ethernet(IP6, &ip6(UDP, &udp(0, b"none"))),
        ethernet(IP6, &ip6(TCP, &tcp(0x18, b"bad"))),
    ];
    both_ways(lab, plain(frames))
}

pub fn wrong_ip(lab: &mut Lab) -> Outcome {
    let good = ip4(UDP, 0, &[], &udp(0, &filling(40)));
    let changed = |at: usize, byte: u8| {
        let mut packet = good.clone();
        packet[at] = byte;
        ethernet(IP4, &packet)
    };
    let mut six = ip6(UDP, &udp(0, b"six"));
    six[4] = 0x40;
    let frames = vec![
        changed(0, 0x55),
        changed(0, 0x44),
        changed(0, 0x4f),
        changed(2, 0xff),
        changed(3, 19),
        changed(8, 0),
        changed(12, 127),
        ethernet(IP4, &good[..12]),
        ethernet(IP6, &good),
        ethernet(IP4, &six),
        ethernet(IP6, &six),
        ethernet(IP6, &six[..20]),
        ethernet(IP4, &[&good[..], &[0; 300]].concat()),
    ];
    both_ways(lab, plain(frames))
}

pub fn fragments(lab: &mut Lab) -> Outcome {
    let content = filling(64);
    let rows = [0x2000, 0x2008, 0x0010, 0x2001, 0x3fff, 0x4000, 0x8000, 0x6000];
    let frame = |flags: u16| ethernet(IP4, &ip4(UDP, flags, &[], &content));
    let mut frames: Vec<_> = rows.into_iter().map(frame).collect();
    frames.push(ethernet(IP4, &ip4(UDP, 0x2000, &[], &content[..8])));
    frames.push(ethernet(IP4, &ip4(UDP, 0, &[7, 39, 4].repeat(13)[..36], &udp(0, b"route"))));
    both_ways(lab, plain(frames))
}

pub fn extensions(lab: &mut Lab) -> Outcome {
    let datagram = udp(0, &filling(30));
    let option = |next: u8| [&[next, 0, 1, 4, 0, 0, 0, 0][..], &datagram].concat();
    let fragment = |offset: u8| [&[UDP, 0, 0, offset, 0, 0, 0, 9][..], &datagram].concat();
    let chain = [&[60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 1, 4, 0, 0, 0, 0][..], &option(UDP)].concat();
    let mut jumbo = ip6(0, &[&[UDP, 0, 0xc2, 4, 0, 0, 0, 46][..], &datagram].concat());
    jumbo[4..6].fill(0);
    let mut routing = vec![UDP, 2, 4, 1, 0, 0, 0, 0];
    routing.extend([0x20; 16]);
    routing.extend(&datagram);
    let frames = vec![
        ethernet(IP6, &ip6(0, &option(UDP))),
        ethernet(IP6, &ip6(60, &option(UDP))),
        ethernet(IP6, &ip6(43, &routing)),
        ethernet(IP6, &ip6(44, &fragment(1))),
        ethernet(IP6, &ip6(44, &fragment(0x10))),
        ethernet(IP6, &ip6(0, &chain)),
        ethernet(IP6, &ip6(59, &datagram)),
        ethernet(IP6, &ip6(139, &datagram)),
        ethernet(IP6, &ip6(60, &[60, 255, 0, 0, 0, 0, 0, 0])),
        ethernet(IP6, &jumbo),
        ethernet(IP6, &ip6(50, &filling(64))),
    ];
    both_ways(lab, plain(frames))
}

pub fn unfinished(lab: &mut Lab) -> Outcome {
    let none = |frame: Vec<u8>, network, start| undone(frame, network, start, GSO_NONE, 0);
    let (tcp, udp) = (tcp(0x18, &filling(101)), udp(0, &filling(100)));
    let frames = vec![
        none(ethernet(IP4, &ip4(TCP, 0x4000, &[], &tcp)), 14, 34),
        none(ethernet(IP4, &ip4(UDP, 0, &[1; 8], &udp)), 14, 42),
        none(ethernet(IP6, &ip6(TCP, &tcp)), 14, 54),
        none(ethernet(IP6, &ip6(UDP, &udp)), 14, 54),
        none(tagged(&[0x8100, 5], IP4, &ip4(TCP, 0, &[], &tcp)), 18, 38),
        none(tagged(&[0x88a8, 5, 0x8100, 6], IP6, &ip6(UDP, &udp)), 22, 62),
    ];
    both_ways(lab, frames)
}

pub fn super_tcp4(lab: &mut Lab) -> Outcome {
    let packet = |flags, options: &[u8], len| ip4(TCP, 0x4000, options, &tcp(flags, &filling(len)));
    let make = |frame, start, kind, size| undone(frame, start - 20, start, kind, size);
    let frames = vec![
        make(ethernet(IP4, &packet(0x18, &[], 5000)), 34, GSO_TCP4, 1448),
        make(ethernet(IP4, &packet(0x19, &[], 60_000)), 34, GSO_TCP4, 1448),
        make(ethernet(IP4, &packet(0xd8, &[], 5000)), 34, GSO_TCP4 | GSO_ECN, 1448),
        make(ethernet(IP4, &packet(0x10, &[], 4344)), 34, GSO_TCP4, 1448),
        make(ethernet(IP4, &packet(0x10, &[], 700)), 34, GSO_TCP4, 7),
        make(tagged(&[0x8100, 5], IP4, &packet(0x18, &[], 5000)), 38, GSO_TCP4, 1448),
        undone(ethernet(IP4, &packet(0x18, &[1; 8], 5000)), 14, 42, GSO_TCP4, 1440),
        // Of one segment only: the kernel takes it for an ordinary packet.
        make(ethernet(IP4, &packet(0x18, &[], 1000)), 34, GSO_TCP4, 1448),
    ];
    both_ways(lab, frames)
}

pub fn super_tcp6(lab: &mut Lab) -> Outcome {
    let packet = |flags, len| ip6(TCP, &tcp(flags, &filling(len)));
    let frames = vec![
        undone(ethernet(IP6, &packet(0x18, 5000)), 14, 54, GSO_TCP6, 1428),
        undone(ethernet(IP6, &packet(0x19, 60_000)), 14, 54, GSO_TCP6, 1428),
        undone(ethernet(IP6, &packet(0xd8, 5000)), 14, 54, GSO_TCP6 | GSO_ECN, 1428),
        undone(tagged(&[0x8100, 5], IP6, &packet(0x18, 5000)), 18, 58, GSO_TCP6, 1428),
    ];
    both_ways(lab, frames)
}

pub fn super_udp(lab: &mut Lab) -> Outcome {
    let four = |len| ethernet(IP4, &ip4(UDP, 0, &[], &udp(0, &filling(len))));
    let six = |len| ethernet(IP6, &ip6(UDP, &udp(0, &filling(len))));
    let frames = vec![
        undone(four(5000), 14, 34, GSO_UDP, 1400),
        undone(four(4200), 14, 34, GSO_UDP, 1400),
        undone(four(60), 14, 34, GSO_UDP, 7),
        undone(six(5000), 14, 54, GSO_UDP, 1400),
        undone(tagged(&[0x8100, 5], IP6, &ip6(UDP, &udp(0, &filling(5000)))), 18, 58, GSO_UDP, 999),
    ];
    both_ways(lab, frames)
}

/// The kernel of the client wraps super-packets, by VXLAN over IPv4 and IPv6, with an outer
/// checksum and without.
pub fn super_vxlan(lab: &mut Lab) -> Outcome {
    const TUNNELS: [&str; 3] = ["vx0", "vx1", "vx2"];
    let other4 = IpAddr::from([10, 77, 0, 99]);
    let other6 = IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, 0x99]);
    let ways = [
        (Host::Client.ip4(), other4, true),
        (Host::Client.ip4(), other4, false),
        (Host::Client.ip6(), other6, true),
    ];
    lab.testbed.client.run(|| -> weir_host::error::Result<()> {
        ethtool::set_ipv6(END, true)?;
        let mut netlink = Netlink::open()?;
        netlink.add_address(END, Host::Client.ip6(), 64)?;
        ethtool::set_ipv6("default", false)?;
        for ((name, (from, to, has_checksum)), id) in TUNNELS.iter().zip(ways).zip(1..) {
            if !has_checksum || id == 1 {
                netlink.add_neighbour(END, to, Host::Server.mac())?;
            } else {
                netlink.add_neighbour(END, other6, Host::Server.mac())?;
            }
            netlink.add_vxlan(name, &Vxlan { id, from, to, has_checksum })?;
            netlink.set_up(name, true)?;
        }
        Ok(())
    })??;
    let tcp4 = ethernet(IP4, &ip4(TCP, 0x4000, &[], &tcp(0x18, &filling(20_000))));
    let tcp6 = ethernet(IP6, &ip6(TCP, &tcp(0x18, &filling(20_000))));
    let udp4 = ethernet(IP4, &ip4(UDP, 0, &[], &udp(0, &filling(5000))));
    let small = ethernet(IP4, &ip4(TCP, 0x4000, &[], &tcp(0x18, &filling(100))));
    for interface in TUNNELS {
        let frames = [
            undone(tcp4.clone(), 14, 34, GSO_TCP4, 1378),
            undone(tcp6.clone(), 14, 54, GSO_TCP6, 1358),
            undone(udp4.clone(), 14, 34, GSO_UDP, 1300),
            undone(small.clone(), 14, 34, GSO_NONE, 0),
        ];
        let frames = frames.map(|frame| Frame { interface, ..frame });
        lab.cross(CLIENT, &frames)?;
    }
    relate_identifications(&mut lab.heard[SERVER]);
    Ok(())
}

/// Makes the identifications of outer IPv4 headers say only whether they count up within a
/// super-packet: where they start is random.
fn relate_identifications(frames: &mut Vec<Vec<u8>>) {
    // What the kernel of the client says of itself over IPv6 comes when it likes.
    frames.retain(|frame| !(frame[12..14] == IP6.to_be_bytes() && [0, 58].contains(&frame[20])));
    let mut last = None;
    for frame in frames.iter_mut().filter(|frame| frame[12..14] == IP4.to_be_bytes()) {
        let id = u16::from_be_bytes([frame[18], frame[19]]);
        let is_right = sum(&frame[14..34]) == 0xffff;
        let counts_up = last.is_some_and(|last: u16| last.wrapping_add(1) == id);
        last = Some(id);
        let follows = is_first_segment(frame) || counts_up;
        frame[18..20].copy_from_slice(&[u8::from(is_right), u8::from(follows)]);
        frame[24..26].fill(0);
    }
}

/// Returns whether a packet in VXLAN over IPv4 has the start of a [`filling`].
fn is_first_segment(frame: &[u8]) -> bool {
    const INNER: usize = 14 + 20 + 8 + 8 + 14;
    let is_ip6 = frame[INNER] >> 4 == 6;
    let protocol = frame[INNER + if is_ip6 { 6 } else { 9 }];
    let headers = if is_ip6 { 40 } else { 20 } + if protocol == TCP { 32 } else { 8 };
    frame[INNER + headers..].starts_with(&[0, 1, 2])
}

/// Super-packets of 200 and 512 kB over IPv4 and IPv6 ("BIG TCP").
pub fn super_big(lab: &mut Lab) -> Outcome {
    const LONGEST: u32 = 524_280;
    for host in crate::odd_frames::lab::HOSTS {
        let set = || Netlink::open()?.set_super_packet_max(END, LONGEST);
        lab.testbed.namespace(host).run(set)??;
    }
    let mut frames = Vec::new();
    for len in [200_000, 500_000] {
        let segment = tcp(0x18, &filling(len));
        let four = ethernet(IP4, &ip4(TCP, 0x4000, &[], &segment));
        frames.push(undone(four, 14, 34, GSO_TCP4, 1448));
        let mut option = vec![TCP, 0, 0xc2, 4];
        option.extend((segment.len() as u32 + 8).to_be_bytes());
        let six = ethernet(IP6, &ip6(0, &[option, segment].concat()));
        frames.push(undone(six, 14, 62, GSO_TCP6, 1428));
    }
    both_ways(lab, frames)
}
