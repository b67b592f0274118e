//! Writes the seeds of target `packet`: well-formed packets of every kind the parser knows.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --no-default-features --example packet_seeds`

#[path = "../../weir-core/tests/frames/mod.rs"]
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

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/packet");
    fs::create_dir_all(&folder)?;
    for (name, link, packets) in ethernet_seeds().into_iter().chain(other_seeds()) {
        fs::write(folder.join(name).with_extension("seed"), input(link, &packets))?;
    }
    Ok(())
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
