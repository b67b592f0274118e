//! Random tc scripts, and the packets that try them.

use std::fmt::Write;
use weir_core::random::Random;

/// A script: lines for `tc -batch`, with those of filters apart.
pub struct Script {
    pub tree: Vec<String>,
    pub filters: Vec<String>,
    /// The minor numbers of the classes without children.
    #[allow(dead_code)] // Only the twin's test reads them.
    pub leaves: Vec<u32>,
}

impl Script {
    /// Returns the lines of the tree and those filters.
    pub fn with(&self, filters: &[String]) -> String {
        let lines = self.tree.iter().chain(filters);
        lines.fold(String::new(), |text, line| text + line + "\n")
    }
}

/// Draws a tree of up to three levels and up to ten filters for `device`.
pub fn script(device: &str, random: &mut Random) -> Script {
    let mut tree = Tree { device, classes: Vec::new(), lines: Vec::new() };
    for _ in 0..1 + random.below(2) {
        tree.add(None, 0, random);
    }
    let default = match random.below(6) {
        0 => String::new(),
        1 => " default 0".to_owned(),
        2 => " default 777".to_owned(),
        _ => format!(
            " default {:x}",
            tree.classes[random.below(tree.classes.len() as u32) as usize].0
        ),
    };
    let r2q = ["", "", " r2q 1", " r2q 100"][random.below(4) as usize];
    let root = format!("qdisc add dev {device} root handle 1: htb{default}{r2q}");
    tree.lines.insert(0, root);
    let filters = (0..random.below(11)).map(|_| filter(&tree, random)).collect();
    let leaves = tree.classes.iter().filter(|row| !row.1).map(|row| row.0).collect();
    Script { tree: tree.lines, filters, leaves }
}

struct Tree<'d> {
    device: &'d str,
    /// Minor number and whether it has children.
    classes: Vec<(u32, bool)>,
    lines: Vec<String>,
}

impl Tree<'_> {
    fn add(&mut self, parent: Option<u32>, depth: usize, random: &mut Random) {
        let minor = 1 + self.classes.len() as u32 * 3 + random.below(3);
        let device = self.device;
        let above = parent.map_or_else(|| "1:".to_owned(), |minor| format!("1:{minor:x}"));
        let mut line = format!(
            "class add dev {device} parent {above} classid 1:{minor:x} htb rate {}",
            rate(random)
        );
        for option in ["ceil", "burst", "cburst", "quantum", "prio", "mtu"] {
            if random.below(3) > 0 {
                continue;
            }
            let value = match option {
                "ceil" => rate(random),
                "quantum" => (1000 + random.below(60_000)).to_string(),
                "prio" => random.below(8).to_string(),
                "mtu" => ["1600", "9000", "2000"][random.below(3) as usize].to_owned(),
                _ => size(random),
            };
            let _ = write!(line, " {option} {value}");
        }
        self.lines.push(line);
        let at = self.classes.len();
        self.classes.push((minor, false));
        let children = if depth < 2 && self.classes.len() < 12 { random.below(4) } else { 0 };
        for _ in 0..children {
            self.classes[at].1 = true;
            self.add(Some(minor), depth + 1, random);
        }
        if children == 0 {
            let queue = ["", "", "pfifo limit 7", "pfifo", "bfifo limit 20k", "bfifo"];
            let queue = queue[random.below(6) as usize];
            if !queue.is_empty() {
                self.lines.push(format!("qdisc add dev {device} parent 1:{minor:x} {queue}"));
            }
        }
    }
}

fn rate(random: &mut Random) -> String {
    let number = 1 + random.below(900);
    match random.below(7) {
        0 => format!("{}kbit", number + 500),
        1 => format!("{number}.5mbit"),
        2 => format!("{}", 1_000_000 + number * 33_333),
        3 => format!("{number}kbps"),
        4 => format!("{}gbit", 1 + number % 40),
        5 => format!("{number}Mibit"),
        _ => format!("{number}mbit"),
    }
}

fn size(random: &mut Random) -> String {
    let number = 1 + random.below(200);
    match random.below(4) {
        0 => format!("{number}k"),
        1 => format!("{number}kb"),
        2 => format!("{}kbit", number * 8),
        _ => format!("{}", 1500 + number * 77),
    }
}

/// Draws a filter; no two of its keys compare the same word, since tc refuses contradictions.
fn filter(tree: &Tree<'_>, random: &mut Random) -> String {
    let device = tree.device;
    let class = |wanted: Option<bool>, random: &mut Random| {
        let fits = |row: &&(u32, bool)| wanted.is_none_or(|interior| row.1 == interior);
        let rows: Vec<_> = tree.classes.iter().filter(fits).collect();
        (!rows.is_empty()).then(|| rows[random.below(rows.len() as u32) as usize].0)
    };
    let inside = class(Some(true), random).filter(|_| random.below(4) == 0);
    let parent = inside.map_or_else(|| "1:".to_owned(), |minor| format!("1:{minor:x}"));
    let target = match random.below(10) {
        0 => "1:".to_owned(),
        1 => ["1:777", "2:1", "1", ":1"][random.below(4) as usize].to_owned(),
        2 | 3 => class(None, random).map_or_else(String::new, |minor| format!("1:{minor:x}")),
        _ => class(Some(false), random).map_or_else(String::new, |minor| format!("1:{minor:x}")),
    };
    let protocol = PROTOCOLS[random.below(PROTOCOLS.len() as u32) as usize];
    let prio = match random.below(5) {
        0 => String::new(),
        1 => format!(" prio {}", 1 + random.below(4)),
        2 => format!(" prio {}", 49_150 + random.below(4)),
        _ => format!(" prio {}", 1 + random.below(500)),
    };
    let mut keys = String::new();
    let mut used: Vec<i32> = Vec::new();
    for _ in 0..random.below(4) {
        let (words, text) = key(protocol, random);
        if words.iter().all(|word| !used.contains(word)) {
            used.extend(words);
            keys.push_str(&text);
        }
    }
    if keys.is_empty() {
        keys = " match u32 0 0".to_owned();
    }
    format!("filter add dev {device} parent {parent} {protocol}{prio} u32{keys} flowid {target}")
}

const PROTOCOLS: [&str; 9] = [
    "protocol ip",
    "protocol ip",
    "protocol ip",
    "protocol 0x800",
    "protocol ipv6",
    "protocol ipv6",
    "protocol all",
    "protocol arp",
    "",
];

/// Draws a key with the words that it compares; most of them are those of the protocol.
fn key(protocol: &str, random: &mut Random) -> (Vec<i32>, String) {
    let six = protocol.ends_with("ipv6") != (random.below(12) == 0);
    let pick = |list: &[&str], random: &mut Random| {
        list[random.below(list.len() as u32) as usize].to_owned()
    };
    let port = pick(&["22", "0x35", "80", "0120", "443", "5004"], random);
    let mask = pick(&["0xffff", "ffff", "fff0", "0xff00"], random);
    let proto = pick(&["6", "17", "0x11", "1", "021", "47"], random);
    let tos = pick(&["0xb8", "16", "0x20", "010"], random);
    let tos_mask = pick(&["0xff", "fc", "0xe0", "0x10"], random);
    if six {
        let address = pick(&["2001:db8::1", "2001:db8:1::/48", "2001::/16", "any"], random);
        let at = |first: i32| vec![first, first + 4, first + 8, first + 12];
        return match random.below(8) {
            0 => (at(8), format!(" match ip6 src {address}")),
            1 => (at(24), format!(" match ip6 dst {address}")),
            2 => (vec![4], format!(" match ip6 protocol {proto} 0xff")),
            3 => (vec![0], format!(" match ip6 priority {tos} {tos_mask}")),
            4 => (vec![40], format!(" match ip6 dport {port} {mask}")),
            5 => (vec![40], format!(" match ip6 sport {port} {mask}")),
            6 => (vec![8], " match u32 0x20010db8 0xffffffff at 8".to_owned()),
            _ => (vec![-4], " match u16 0x86dd 0xffff at -2".to_owned()),
        };
    }
    let address = pick(&["10.0.0.1", "10.0.0.0/8", "192.0.2.128/25", "any"], random);
    match random.below(14) {
        0 => (vec![12], format!(" match ip src {address}")),
        1 | 2 => (vec![16], format!(" match ip dst {address}")),
        3 => (vec![8], format!(" match ip protocol {proto} 0xff")),
        4 => (vec![8], format!(" match u8 {proto} 0xff at 9")),
        5 => (vec![0], format!(" match ip tos {tos} {tos_mask}")),
        6 => (vec![0], format!(" match u8 {tos} {tos_mask} at 1")),
        7 => (vec![20], format!(" match ip dport {port} {mask}")),
        8 => (vec![20], format!(" match u16 {port} {mask} at 22")),
        9 => (vec![20], format!(" match ip sport {port} {mask}")),
        10 => (vec![16], " match u32 0x0a000000 0xff000000 at 16".to_owned()),
        11 => (vec![-4], " match u16 0x0800 0xffff at -2".to_owned()),
        12 => (vec![0], format!(" match tcp dst {port} {mask}")),
        _ => (vec![0], " match icmp type 8 0xff".to_owned()),
    }
}

/// Draws a frame. Ordinary ones have no options, no fragments, no extension headers, and a protocol
/// whose first bytes are ports, or ICMP.
pub fn frame(ordinary: bool, random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0x77, 2, 0, 0, 0, 0, 0x76];
    let pick = |list: &[u16], random: &mut Random| list[random.below(list.len() as u32) as usize];
    let protocols: &[u16] = if ordinary { &[6, 17, 1] } else { &[6, 17, 1, 47, 41, 0] };
    let protocol = pick(protocols, random) as u8;
    let tos = pick(&[0, 0xb8, 0x10, 0x20, 8, 0xfc, 3], random) as u8;
    let mut rest = vec![8, 0, 0xf7, 0xff];
    if protocol != 1 {
        let ports = [22, 53, 80, 83, 443, 5004, 40_000];
        let both = [pick(&ports, random), pick(&ports, random)];
        rest = both.iter().flat_map(|port| port.to_be_bytes()).collect();
    }
    // The length of UDP, or the sequence number of TCP, and a header of five words.
    rest.extend([0, 40, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    rest.resize(40, 0);
    match random.below(9) {
        0 => {
            frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend([2, 0, 0, 0, 0, 0x76, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        }
        1 => {
            frame.extend([0x88, 0xcc]);
            frame.extend(rest);
        }
        2..5 => {
            let addresses: [[u16; 8]; 4] = [
                [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1],
                [0x2001, 0xdb8, 1, 0, 0, 0, 0, 9],
                [0x2001, 5, 0, 0, 0x0a00, 0, 0, 9],
                [0xfe80, 0, 0, 0, 0, 0, 0, 1],
            ];
            let mut address = || addresses[random.below(4) as usize];
            let both = [address(), address()];
            frame.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, 40, protocol, 64]);
            frame.extend(both.iter().flatten().flat_map(|word| word.to_be_bytes()));
            frame.extend(rest);
        }
        _ => {
            let addresses = [[10, 0, 0, 1], [10, 9, 8, 7], [192, 0, 2, 200], [192, 0, 2, 5]];
            let mut address = || addresses[random.below(4) as usize];
            let both = [address(), address()];
            let words = if ordinary { 5 } else { 5 + random.below(2) as u8 };
            let offset = if ordinary { 0 } else { random.below(2) as u8 * 5 };
            frame.extend([8, 0, 0x40 | words, tos, 0, 40 + 4 * words, 0, 1, 0, offset]);
            frame.extend([64, protocol, 0, 0]);
            frame.extend(both.iter().flatten());
            frame.resize(14 + 4 * usize::from(words), 1);
            frame.extend(rest);
        }
    }
    frame
}
