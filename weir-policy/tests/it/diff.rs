//! `diff` agrees with classifying every packet under both policies.

use crate::seeds::seeds;
use std::net::Ipv4Addr;
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::packet::{
    Addresses, Dscp, Headers, IcmpType, MacAddress, Macs, Ports, Protocol, TcpFlags, Transport,
    VlanTag,
};
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_policy::diff::{Difference, Moves, moves::moves};
use weir_policy::policy::{Policy, parse};

/// Makes a policy whose classes have these rules; `default` is the default class.
fn policy(rules: &[(usize, String)], default: usize, order: &str) -> Policy {
    let mut text =
        format!("[link]\nrate = '10 Mbit/s'\nscheduler = 'drr'\nmatch_order = '{order}'\n");
    for class in 0..CLASSES {
        text += &format!("[class.c{class}]\n");
        let own: Vec<_> =
            rules.iter().filter(|rule| rule.0 == class).map(|rule| rule.1.clone()).collect();
        text += &format!("match = [{}]\n", own.join(", "));
        if class == default {
            text += "default = true\n";
        }
    }
    let outcome = parse(&text, "p");
    outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings))
}

/// Draws a rule with few distinct values, so that rules overlap.
fn rule(random: &mut Random) -> String {
    let mut conditions = Vec::new();
    let mut one_in = |part: u32, text: String, random: &mut Random| {
        if random.below(part) == 0 {
            conditions.push(text);
        }
    };
    let lengths = [8, 16, 24, 32];
    let block = |random: &mut Random| {
        let length = lengths[random.below(4) as usize];
        let address = Ipv4Addr::new(10, random.below(2) as u8, random.below(2) as u8, 1);
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        format!("'{}/{length}'", Ipv4Addr::from(u32::from(address) & mask))
    };
    let (source, other, destination) = (block(random), block(random), block(random));
    one_in(3, format!("src = [{source}, {other}]"), random);
    one_in(3, format!("dst = {destination}"), random);
    let first = random.below(4);
    let last = first + random.below(3);
    let more = [String::new(), format!(", {}", random.below(7))][random.below(2) as usize].clone();
    one_in(2, format!("dport = ['{first}-{last}'{more}]"), random);
    let station = random.below(3);
    one_in(6, format!("src_mac = ['00:00:00:00:00:0{station}', '00:00:00:00:00:09']"), random);
    one_in(9, format!("dst_mac = '00:00:00:00:00:0{station}'"), random);
    let proto = ["tcp", "udp"][random.below(2) as usize];
    one_in(3, format!("proto = '{proto}'"), random);
    let (dscp, vlan) = (random.below(2), random.below(2));
    one_in(5, format!("dscp = [{dscp}, 3]"), random);
    let vlan = if random.below(3) == 0 { "'none'".to_owned() } else { vlan.to_string() };
    one_in(6, format!("vlan = {vlan}"), random);
    let mark = ["0x12", "0x12/0xf2", "0x2/0x6", "0/1"][random.below(4) as usize];
    one_in(6, format!("mark = '{mark}'"), random);
    one_in(6, format!("pcp = [{}, 5]", random.below(3)), random);
    let flags = ["syn", "syn,!ack", "!ack", "ack"][random.below(4) as usize];
    one_in(6, format!("tcp_flags = ['{flags}', 'fin']"), random);
    let length = ["0-100 B", "40 B", "100-1500 B"][random.below(3) as usize];
    one_in(5, format!("length = '{length}'"), random);
    let kind = ["icmp', icmp_type = [3, '8/0'], ecn = 'ce", "icmp', icmp_type = '3/1"];
    if random.below(8) == 0 {
        return format!("{{ proto = '{}' }}", kind[random.below(2) as usize]);
    }
    let name = ["in", "out"][random.below(2) as usize];
    one_in(8, format!("interface = '{name}'"), random);
    format!("{{ {} }}", conditions.join(", "))
}

/// Draws a packet at or beside the values of rules.
fn packet(random: &mut Random) -> Headers {
    let address = |random: &mut Random| {
        let octet = |random: &mut Random| random.below(3) as u8;
        let last = [0, 1, 2, 255][random.below(4) as usize];
        Ipv4Addr::new(10 + (random.below(8) == 0) as u8, octet(random), octet(random), last)
    };
    let ports = Ports { source: 7, destination: random.below(7) as u16 };
    let v4 = Addresses::V4 { source: address(random), destination: address(random) };
    let protocol = [Protocol::TCP, Protocol::UDP, Protocol::ICMP][random.below(3) as usize];
    let mut headers = Headers::of_flow(v4, protocol, ports);
    if !protocol.has_ports() {
        headers.ports = None;
    }
    let dscp = Dscp::new(random.below(4) as u8).expect("in range");
    headers.traffic_class = Some(dscp.code() << 2);
    let mut mac = || MacAddress::of_bits(random.below(4).into());
    let macs = Macs { source: mac(), destination: mac() };
    headers.macs = (random.below(4) > 0).then_some(macs);
    headers.vlan = (random.below(2) == 0).then(|| VlanTag(random.below(3) as u16));
    headers.vlan =
        headers.vlan.map(|tag| VlanTag(tag.0 | [0, 2, 5][random.below(3) as usize] << 13));
    headers.network_len = [None, Some(40), Some(100), Some(101)][random.below(4) as usize];
    let number = [3, 8][random.below(2) as usize];
    headers.transport = match protocol {
        Protocol::TCP => {
            Transport::Tcp(TcpFlags([0x02, 0x12, 0x10, 0x11][random.below(4) as usize]))
        }
        Protocol::ICMP => Transport::Icmp(IcmpType { number, code: random.below(2) as u8 }),
        _ => Transport::Unknown,
    };
    headers.mark = [0, 0x12, 0x1a, 0x22, 0x17][random.below(5) as usize];
    if random.below(12) == 0 {
        headers.addresses = Addresses::Unknown;
        headers.protocol = None;
        headers.ports = None;
        headers.traffic_class = None;
        (headers.network_len, headers.transport) = (None, Transport::Unknown);
    }
    headers
}

/// Returns the name of the class that a packet goes to; interfaces are numbered as in `names`.
fn class_of<'p>(
    (policy, classifier): (&'p Policy, &mut Classifier),
    headers: &Headers,
    name: Option<&str>,
) -> &'p str {
    let own = policy.interfaces.iter().position(|known| Some(known.as_str()) == name);
    let interface = InterfaceId(own.map_or(u16::MAX, |at| at as u16));
    let classified = classifier.classify(Instant::ZERO, interface, headers);
    policy.leaf_name(classified.leaf)
}

fn check(found: &Moves, old: &Policy, new: &Policy, random: &mut Random) {
    assert!(!found.given_up);
    let mut classifiers = (old.classifier(), new.classifier());
    for _ in 0..PACKETS {
        let headers = packet(random);
        let name = found.interfaces.get(random.below(3) as usize).map(String::as_str);
        let joint = found.interfaces.iter().position(|known| Some(known.as_str()) == name);
        let interface = InterfaceId(joint.map_or(u16::MAX, |at| at as u16));
        let from = class_of((old, &mut classifiers.0), &headers, name);
        let to = class_of((new, &mut classifiers.1), &headers, name);
        let holding: Vec<_> = found
            .moves
            .iter()
            .flat_map(|row| row.regions.iter().map(move |region| (row, region)))
            .filter(|(_, region)| region.contains(interface, &headers))
            .map(|(row, _)| (row.from.as_str(), row.to.as_str()))
            .collect();
        let wanted = if from == to { vec![] } else { vec![(from, to)] };
        assert_eq!(holding, wanted, "{headers:?} by {name:?}\n{:#?}\n{:#?}", old.rules, new.rules);
    }
}

#[test]
fn the_regions_that_move_agree_with_brute_force() {
    for seed in seeds(RULE_SETS) {
        println!("seed {seed}");
        let random = &mut Random::new(seed, 0);
        let draw = |random: &mut Random| {
            let class = random.below(CLASSES as u32) as usize;
            (class, rule(random))
        };
        let mut rules: Vec<_> = (0..1 + random.below(8)).map(|_| draw(random)).collect();
        let orders = ["first", "altq", "u32"];
        let order = orders[random.below(3) as usize];
        let old = policy(&rules, 0, order);
        // Remove, insert, swap, or nothing.
        if random.below(2) == 0 {
            rules.remove(random.below(rules.len() as u32) as usize);
        }
        if random.below(2) == 0 {
            let at = random.below(rules.len() as u32 + 1) as usize;
            rules.insert(at, draw(random));
        }
        if random.below(4) == 0 {
            let (one, other) =
                (random.below(rules.len().max(1) as u32), random.below(rules.len().max(1) as u32));
            if !rules.is_empty() {
                rules.swap(one as usize, other as usize);
            }
        }
        let order = if random.below(8) == 0 { "first" } else { order };
        let new = policy(&rules, usize::from(random.below(8) == 0), order);
        check(&moves(&old, &new), &old, &new, random);
    }
}

/// Changes the only rule of a class from `old` to `new`; `moved` describes what moves.
fn check_regions(old: &[&str], new: &[&str], moved: &[&str]) {
    let rules = |rows: &[&str]| rows.iter().map(|row| (1, format!("{{ {row} }}"))).collect();
    let (before, after): (Vec<_>, Vec<_>) = (rules(old), rules(new));
    let found = moves(&policy(&before, 0, "first"), &policy(&after, 0, "first"));
    let regions = found.moves.iter().flat_map(|row| row.regions.iter().map(ToString::to_string));
    assert_eq!(regions.collect::<Vec<_>>(), moved, "{old:?} to {new:?}");
}

#[test]
fn only_packets_that_can_exist_are_reported() {
    let tcp = "proto = 'tcp'";
    let split = ["proto = 'tcp', ethertype = 'ipv4'", "proto = 'tcp', ethertype = 'ipv6'"];
    check_regions(&[tcp], &split, &[]);
    check_regions(&[tcp], &split[..1], &["proto 6, IP version 6"]);
    // A port has a protocol with ports (beyond UDP are DCCP, SCTP and UDP-Lite), a length of IEEE
    // 802.3 is no ethertype.
    let both = ["dport = 80, proto = 'tcp'", "dport = 80, proto = 'udp'"];
    check_regions(&["dport = 80"], &both, &["proto 18-255, dport 80"]);
    check_regions(&["dport = 80, proto = 'icmp'"], &[], &[]);
    check_regions(&["ethertype = 0x0100"], &[], &[]);
    check_regions(&["ethertype = 'arp', dscp = 46"], &[], &[]);
    check_regions(&["ethertype = 'arp'"], &[], &["ethertype 0x0806"]);
}

#[test]
fn one_more_rule_in_a_hundred_thousand_is_found_quickly() {
    let rules = |more: bool| {
        let mut rules: Vec<_> = (0..100_000)
            .map(|rule| {
                let (high, low, port) = (rule / 65_536, rule / 256 % 256, rule % 256);
                (0, format!("{{ src = '10.{high}.{low}.0/24', dport = {port} }}"))
            })
            .collect();
        if more {
            rules.push((1, "{ src = '10.0.0.0/23', dport = '250-260' }".to_owned()));
        }
        policy(&rules, 2, "first")
    };
    let found = moves(&rules(false), &rules(true));
    let rows: Vec<_> = found
        .moves
        .iter()
        .map(|row| {
            let regions: Vec<_> = row.regions.iter().map(ToString::to_string).collect();
            (row.from.as_str(), row.to.as_str(), regions)
        })
        .collect();
    let wanted = "IP version 4, src 10.0.0.0/23, dport 256-260";
    assert_eq!(rows, [("c2", "c1", vec![wanted.to_owned()])]);
}

#[test]
fn classes_are_compared_by_their_guarantees() {
    let text = |rate: &str, more: &str| {
        format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.a]\nrate = '{rate}'\n\
             match = {{ dscp = 46 }}\n[class.b]\nrate = '2 Mbit/s'\ndefault = true\n{more}"
        )
    };
    let plan = |text: &str| parse(text, "p").plan.expect("it is sound");
    let (old, same) = (plan(&text("4 Mbit/s", "")), plan(&text("4000 kbit/s", "# the same\n")));
    assert!(Difference::between(&old, &same).is_empty());
    let more = "[class.c]\nrate = '1 Mbit/s'\nmatch = { dscp = 10 }\n";
    let difference = Difference::between(&old, &plan(&text("5 Mbit/s", more)));
    assert_eq!((difference.gone.len(), difference.new), (0, vec!["c".to_owned()]));
    let a = difference.changed.iter().find(|row| row.name == "a").expect("its rate changed");
    let rates = (a.before.at_least.rate, a.after.at_least.rate);
    assert_eq!(rates, (Some(4e6), Some(5e6)));
    let moved: Vec<_> = difference.moves.moves.iter().map(|row| (&*row.from, &*row.to)).collect();
    assert_eq!(moved, [("b", "c")]);
}

#[test]
fn a_class_at_its_ceiling_has_a_note_in_place_of_a_least_rate() {
    // Its siblings let it wait for longer than `cburst` lasts: in a run of 200 s, with all packets
    // of 1514 B, such a class got 2.4 % less than its ceiling.
    let text = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.line]\nrate = '10 Mbit/s'\n\
                [class.a]\nparent = 'line'\nrate = '1 Mbit/s'\nceil = '1.5 Mbit/s'\n\
                match = { dscp = 46 }\n[class.b]\nparent = 'line'\nrate = '1 Mbit/s'\n\
                ceil = '10 Mbit/s'\ndefault = true\n";
    let policy = parse(text, "p").plan.expect("it is sound");
    let rows = weir_policy::diff::standings(&policy);
    let note = |at: usize| rows[at].1.notes()[0].clone().unwrap_or_default();
    assert_eq!(rows[0].1.at_least.rate, None);
    assert!(note(0).contains("ceiling"), "{}", note(0));
    assert_eq!(rows[1].1.at_least.rate, Some(8.5e6), "{}", note(1));
}

/// Checks which values of two policies differ, as `class key before after`.
fn check_settings(old: &str, new: &str, wanted: &[&str]) {
    let text = |link: &str| {
        let (link, class) = link.split_once('|').expect("rows have two parts");
        format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n{link}\n[class.a]\n\
             rate = '4 Mbit/s'\ndefault = true\n{class}\n"
        )
    };
    let plan = |one: &str| parse(&text(one), "p").plan.expect("it is sound");
    let found = Difference::between(&plan(old), &plan(new)).settings;
    let rows: Vec<_> = found
        .iter()
        .map(|row| {
            let class = row.class.as_deref().unwrap_or("-");
            format!("{class} {} {} {}", row.key, row.before, row.after)
        })
        .collect();
    assert_eq!(rows, wanted, "{old} {new}");
}

#[test]
fn values_that_are_written_differently_are_listed() {
    check_settings("|prio = 1", "|prio = 2", &["a prio 1 2"]);
    check_settings("|burst = '3 KB'", "|burst = '3000 B'", &[]);
    check_settings("|queue = {}", "|queue = { dropper = 'tail', limit = '100 packets' }", &[]);
    check_settings(
        "|",
        "|queue = { limit = '9 packets' }",
        &["a queue.limit 100 packets 9 packets"],
    );
    check_settings("|", "|queue = { dropper = 'red' }", &["a queue.dropper tail red"]);
    check_settings(
        "|queue = { dropper = 'fq-codel' }",
        "|queue = { dropper = 'fq-codel', hash = 'srcaddr' }",
        &["a queue.hash flow srcaddr"],
    );
    check_settings("buffer = '0 B'|", "buffer = '9 B'|", &["- buffer 0 B 9 B"]);
    let overhead = |text: &str| format!("overhead = {text}|");
    for (old, new, wanted) in [
        ("'frame'", "'ethernet'", "- overhead frame ethernet"),
        (
            "{ bytes = 8, cell = 48 }",
            "{ bytes = -78, minimum = 9, ptm = true }",
            "- overhead { bytes = 8, cell = 48 } { bytes = -78, minimum = 9, ptm = true }",
        ),
    ] {
        check_settings(&overhead(old), &overhead(new), &[wanted]);
    }
    check_settings("charge = 'wire'|", "charge = 'frame'|", &["- charge wire frame"]);
}

const CLASSES: usize = 3;
const RULE_SETS: u64 = 60;
const PACKETS: u32 = 200;
