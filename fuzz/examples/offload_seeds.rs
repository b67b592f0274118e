//! Writes the seeds of target `offload`: what the kernel hands over, plain, cut and in tunnels.
//!
//! `cargo run -p weir-fuzz --example offload_seeds`

use std::fs;
use std::io;
use std::path::Path;

const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIELD: u16 = 16;
const UDP_FIELD: u16 = 6;
/// The work that is left undone: none, a checksum, or cutting into TCP over IPv4, IPv6 or UDP.
const PLAIN: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP_L4: u8 = 5;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/offload");
    fs::create_dir_all(&folder)?;
    for (name, bytes) in seeds() {
        fs::write(folder.join(name).with_extension("seed"), bytes)?;
    }
    Ok(())
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (tcp, udp) = (tcp(), udp(&[7; 60]));
    let (tcp4, tcp6) = (ip4(TCP, &tcp), ip6(TCP, &tcp));
    let inner = ethernet(IP4, &tcp4);
    let vxlan = crate::udp(&[&[8, 0, 0, 0, 0, 0, 9, 0][..], &inner].concat());
    let gre = [&[0x80, 0, 8, 0, 0, 0, 0, 0][..], &tcp4].concat();
    let jumbo = [&[TCP, 0, 0xc2, 4, 0, 0, 0, 88][..], &tcp].concat();
    let tagged = [&[0x20, 1, 8, 0][..], &tcp4].concat();
    let label = [&[0, 1, 1, 64][..], &tcp6].concat();
    let (at4, at6) = (34, 54);
    vec![
        ("plain", input(PLAIN, None, 0, ethernet(IP4, &tcp4))),
        ("sum", input(PLAIN, Some(at4), TCP_FIELD, ethernet(IP4, &tcp4))),
        ("sctp", input(PLAIN, Some(at4), 8, ethernet(IP4, &ip4(132, &[1; 40])))),
        ("tcp4", input(TCP4, Some(at4), TCP_FIELD, ethernet(IP4, &tcp4))),
        ("tcp4-ecn", input(TCP4 | 0x80, Some(at4), TCP_FIELD, ethernet(IP4, &tcp4))),
        ("tcp4-unnamed", input(TCP4, None, 0, ethernet(IP4, &tcp4))),
        ("tcp6", input(TCP6, Some(at6), TCP_FIELD, ethernet(IP6, &tcp6))),
        ("udp4", input(UDP_L4, Some(at4), UDP_FIELD, ethernet(IP4, &ip4(UDP, &udp)))),
        ("udp6", input(UDP_L4, Some(at6), UDP_FIELD, ethernet(IP6, &ip6(UDP, &udp)))),
        ("tagged", input(TCP4, Some(at4 + 4), TCP_FIELD, ethernet(0x8100, &tagged))),
        ("jumbo", input(TCP6, Some(at6 + 8), TCP_FIELD, ethernet(IP6, &ip6(0, &jumbo)))),
        ("vxlan4", input(TCP4, Some(84), TCP_FIELD, ethernet(IP4, &ip4(UDP, &vxlan)))),
        ("vxlan6", input(TCP4, Some(104), TCP_FIELD, ethernet(IP6, &ip6(UDP, &vxlan)))),
        ("gre", input(TCP4, Some(62), TCP_FIELD, ethernet(IP4, &ip4(47, &gre)))),
        ("ipip", input(TCP4, Some(54), TCP_FIELD, ethernet(IP4, &ip4(4, &tcp4)))),
        ("sit", input(TCP6, Some(74), TCP_FIELD, ethernet(IP4, &ip4(41, &tcp6)))),
        ("mpls", input(TCP6, Some(58), TCP_FIELD, ethernet(0x8847, &label))),
    ]
}

/// Returns an input whose frame is to be cut into pieces of 21 bytes.
fn input(kind: u8, start: Option<u16>, field: u16, frame: Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![u8::from(start.is_some()), kind, 0, 0];
    for word in [21, start.unwrap_or(0), field] {
        bytes.extend(u16::to_le_bytes(word));
    }
    bytes.push(kind & 1);
    bytes.extend(frame);
    bytes
}

fn ethernet(ethertype: u16, content: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ethertype.to_be_bytes(), content].concat()
}

fn ip4(protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, (20 + content.len()) as u8, 0, 9, 0x40, 0, 64, protocol];
    packet.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = packet.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(content);
    packet
}

fn ip6(next: u8, content: &[u8]) -> Vec<u8> {
    // The length of a packet with the jumbo option is in the option.
    let len = if next == 0 { 0 } else { content.len() as u8 };
    let mut packet = vec![0x60, 0, 0, 0, 0, len, next, 64];
    packet.extend([3; 32]);
    packet.extend(content);
    packet
}

fn tcp() -> Vec<u8> {
    [&[0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x99, 1, 0, 0, 0, 0, 0][..], &[5; 60]].concat()
}

fn udp(content: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 2, 0, 8 + content.len() as u8, 1, 1][..], content].concat()
}
