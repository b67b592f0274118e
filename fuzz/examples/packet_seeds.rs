//! Writes the seeds of target `packet`: well-formed packets of every kind the parser knows.
//!
//! `cargo run -p weir-fuzz --example packet_seeds`

#[path = "../../weir-core/tests/it/frames/mod.rs"]
mod frames;

use std::fs;
use std::io;
use std::path::Path;

use frames::{Frame, frame};

const ETHERNET: u8 = 0;
const RAW_IP: u8 = 1;
const LOOPBACK: u8 = 2;
const LINUX_SLL: u8 = 3;
const LINUX_SLL2: u8 = 4;
const PPP: u8 = 5;
const PPP_SERIAL: u8 = 6;
const PPPOE: u8 = 7;
const CISCO_HDLC: u8 = 8;
const FRAME_RELAY: u8 = 9;
const WIRELESS: u8 = 10;
const RADIOTAP: u8 = 11;
const NFLOG: u8 = 12;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/packet");
    fs::create_dir_all(&folder)?;
    for (name, link, packets) in seeds() {
        fs::write(folder.join(name).with_extension("seed"), input(link, &packets))?;
    }
    Ok(())
}

fn seeds() -> Vec<Seed> {
    [ethernet_seeds(), other_seeds(), encapsulated_seeds(), captured_seeds()].concat()
}

/// Returns a link type, then each packet behind its length, as the target reads it.
fn input(link: u8, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![link];
    for packet in packets {
        bytes.push(packet.len().try_into().expect("seed packets are short"));
        bytes.extend(packet);
    }
    bytes
}

type Seed = (&'static str, u8, Vec<Vec<u8>>);

fn ethernet_seeds() -> Vec<Seed> {
    let (udp4, udp6) = (udp4(), udp6());
    let tcp = |frame: &Frame| Frame { protocol: 6, ..frame.clone() };
    let pieces = |frame: &Frame, id| -> Vec<Vec<u8>> {
        [(0, true), (185, true), (370, false)]
            .map(|(offset, more)| frame.clone().piece(id, offset, more).bytes())
            .into()
    };
    let many = (0..6).map(|id| udp4.clone().piece(id, 0, true).bytes()).collect();
    let chain = [0, 43, 60, 51].iter().fold(udp6.clone(), |frame, kind| frame.extension(*kind));
    vec![
        ("udp4", ETHERNET, vec![udp4.bytes()]),
        ("udp6", ETHERNET, vec![udp6.bytes()]),
        ("tcp4", ETHERNET, vec![tcp(&udp4).class(46 << 2).bytes()]),
        ("tcp6", ETHERNET, vec![tcp(&udp6).class(46 << 2 | 3).bytes()]),
        ("icmp", ETHERNET, vec![Frame { protocol: 1, ..udp4.clone() }.bytes()]),
        ("sctp", ETHERNET, vec![Frame { protocol: 132, ..udp6.clone() }.bytes()]),
        ("vlan", ETHERNET, vec![udp4.clone().tag(0x8100, 0xa064).bytes()]),
        ("qinq", ETHERNET, vec![udp6.clone().tag(0x88a8, 100).tag(0x8100, 200).bytes()]),
        ("fragments4", ETHERNET, pieces(&udp4, 9)),
        ("fragments6", ETHERNET, pieces(&udp6, 0xdead_beef)),
        ("fragments-many", ETHERNET, many),
        ("extensions", ETHERNET, vec![chain.bytes()]),
        ("extensions-fragment", ETHERNET, pieces(&chain, 5)),
        ("arp", ETHERNET, vec![arp()]),
    ]
}

fn other_seeds() -> Vec<Seed> {
    let (ip4, ip6) = (udp4().ip_bytes(), udp6().ip_bytes());
    let behind = |header: &[u8], packet: &[u8]| [header, packet].concat();
    let sll = behind(&[0; 14], &[0x08, 0x00]);
    let sll2 = behind(&[0x86, 0xdd], &[0; 18]);
    vec![
        ("raw", RAW_IP, vec![ip4.clone(), ip6.clone()]),
        ("loopback", LOOPBACK, vec![behind(&[2, 0, 0, 0], &ip4), behind(&[0, 0, 0, 30], &ip6)]),
        ("sll", LINUX_SLL, vec![behind(&sll, &ip4)]),
        ("sll2", LINUX_SLL2, vec![behind(&sll2, &ip6)]),
    ]
}

fn encapsulated_seeds() -> Vec<Seed> {
    let (ip4, ip6) = (udp4().ip_bytes(), udp6().ip_bytes());
    let in_ethernet = |outer: &str, packet: &[u8]| [&hex(MACS), &hex(outer), packet].concat();
    let session = in_ethernet("8864 1100 0001 002e 0021", &ip4);
    let tagged = in_ethernet("8100 0007 8864 1100 0001 0042 0057", &ip6);
    let compressed = in_ethernet("8864 1100 0001 002e 00fd", &ip4);
    let labels = in_ethernet("8847 00010040 00020140", &ip6);
    let pseudowire = in_ethernet("8847 00010140 00000000", &ip4);
    let snap = in_ethernet("0034 aaaa03 000000 0800", &ip4);
    let tagged_snap = in_ethernet("8100 0007 0048 aaaa03 000000 8847 00020140", &ip6);
    let macsec = in_ethernet("88e5 2c00 00000001", &ip4);
    let tags = (0..9).fold(udp4(), |frame, _| frame.tag(0x8100, 7)).bytes();
    vec![
        ("pppoe", ETHERNET, vec![session, tagged, compressed]),
        ("mpls", ETHERNET, vec![labels, pseudowire]),
        ("snap", ETHERNET, vec![snap, tagged_snap]),
        ("macsec", ETHERNET, vec![macsec]),
        ("tags", ETHERNET, vec![tags]),
    ]
}

fn captured_seeds() -> Vec<Seed> {
    let ip4 = udp4().ip_bytes();
    let behind = |outer: &str| [&hex(outer)[..], &ip4].concat();
    let data = format!("0000 {} 1000", "0a0000000001".repeat(3));
    let plain = format!("0801 {data} aaaa03 000000 0800");
    let aggregate = format!("8801 {data} 8000 {} 0034 aaaa03 000000 0800", "0b".repeat(12));
    let encrypted = format!("8841 {data} 0000 11223344");
    let radiotap = format!("00 00 1200 07000000 1111111111111111 30 02 {plain}");
    let message = "0000 0800 0500 00000001";
    vec![
        ("ppp", PPP, vec![behind("ff03 0021"), behind("21"), behind("ff03 0281 00010140")]),
        ("ppp-serial", PPP_SERIAL, vec![behind("ff03 0021"), behind("0f00 0800")]),
        ("pppoe-bare", PPPOE, vec![behind("1100 0001 002e 0021")]),
        ("cisco-hdlc", CISCO_HDLC, vec![behind("0f00 0800"), behind("8f00 8035")]),
        (
            "frame-relay",
            FRAME_RELAY,
            vec![
                behind("1841 03 cc"),
                behind("1841 0800"),
                behind("1841 03 00 80 000000 0800"),
                behind(&format!("18406043 03 80 0080c2 0007 {MACS} 0800")),
                behind("1841 03 cf 0021"),
            ],
        ),
        ("wireless", WIRELESS, vec![behind(&plain), behind(&aggregate), behind(&encrypted)]),
        ("radiotap", RADIOTAP, vec![behind(&radiotap)]),
        (
            "nflog",
            NFLOG,
            vec![
                behind(&format!("02 00 {message} 3000 0900")),
                behind("07 00 0000 0008 0001 0800 00 00 0030 0009"),
            ],
        ),
    ]
}

/// Two addresses of Ethernet.
const MACS: &str = "020000000001 020000000002";

/// Reads hexadecimal digits; spaces are for people.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn udp4() -> Frame {
    frame(17, ("10.0.0.1", 53), ("192.0.2.1", 5004))
}

fn udp6() -> Frame {
    frame(17, ("2001:db8::1", 5000), ("2001:db8::2", 53))
}

fn arp() -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1]);
    bytes.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    bytes
}
