//! `weir import pf` puts packets into the queues into which pf puts them, with the code points that
//! pf gives them: random rules beside a plain loop over the rules, as pf evaluates them
//! [pf.conf(5)].
//!
//! `WEIR_PF` is the number of sets of rules, 150 if absent; `WEIR_SEED` the first seed in
//! hexadecimal.

use std::net::Ipv4Addr;
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::packet::{Addresses, Dscp, Headers, Ports, Protocol};
use weir_core::police::Action;
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_import::import::{self, Options};
use weir_policy::policy;

const HEAD: &str = "queue root on em0 bandwidth 10M\nqueue std parent root bandwidth 1M default\n\
                    queue a parent root bandwidth 1M\nqueue b parent root bandwidth 1M\n\
                    queue c parent root bandwidth 1M\n";

/// A rule, and the conditions of the anchors around it.
#[derive(Clone, Default)]
struct Rule {
    is_match: bool,
    quick: bool,
    queue: Option<&'static str>,
    code_point: Option<&'static str>,
    conditions: Vec<Condition>,
}

/// A condition of one field.
#[derive(Clone)]
enum Condition {
    /// It is never met: the rule is for another interface.
    Elsewhere,
    Protocols(Vec<u8>),
    Source(Ipv4Addr, u32, bool),
    Destination(Ipv4Addr, u32, bool),
    /// The operator, and one or two ports.
    Port(&'static str, u16, u16),
}

impl Condition {
    fn holds(&self, packet: &Headers) -> bool {
        let Addresses::V4 { source, destination } = packet.addresses else { return false };
        let is_in = |address: Ipv4Addr, network: Ipv4Addr, length: u32| {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        };
        match *self {
            Self::Elsewhere => false,
            Self::Protocols(ref known) => packet.protocol.is_some_and(|own| known.contains(&own.0)),
            Self::Source(network, length, is_not) => is_in(source, network, length) != is_not,
            Self::Destination(network, length, is_not) => {
                is_in(destination, network, length) != is_not
            }
            Self::Port(operator, first, last) => packet.ports.is_some_and(|ports| {
                let port = ports.destination;
                match operator {
                    "" => port == first,
                    "!=" => port != first,
                    "<" => port < first,
                    ">=" => port >= first,
                    ":" => (first..=last).contains(&port),
                    "><" => port > first && port < last,
                    _ => port < first || port > last,
                }
            }),
        }
    }
}

/// As pf evaluates rules: the queue, and the code point if another one is set.
fn by_pf(rules: &[Rule], packet: &Headers) -> (&'static str, Option<&'static str>) {
    let (mut matched, mut passed) = (Rule::default(), None);
    for rule in rules {
        if !rule.conditions.iter().all(|condition| condition.holds(packet)) {
            continue;
        }
        match rule.is_match {
            true => {
                matched.queue = rule.queue.or(matched.queue);
                matched.code_point = rule.code_point.or(matched.code_point);
            }
            false => passed = Some(rule),
        }
        if rule.quick {
            break;
        }
    }
    let queue = passed.and_then(|rule| rule.queue).or(matched.queue);
    let code_point = passed.and_then(|rule| rule.code_point).or(matched.code_point);
    (queue.unwrap_or("std"), code_point)
}

/// Draws conditions, and their text.
fn conditions(random: &mut Random, text: &mut String) -> Vec<Condition> {
    let mut conditions = Vec::new();
    match random.below(8) {
        0 => text.push_str(" on em0"),
        1 => text.push_str(" on egress"),
        2 => text.push_str(" on ! em1"),
        3 => {
            text.push_str(" on em1");
            conditions.push(Condition::Elsewhere);
        }
        _ => {}
    }
    let has_ports = random.below(3) > 0;
    match random.below(3) {
        0 => {
            text.push_str(" proto tcp");
            conditions.push(Condition::Protocols(vec![6]));
        }
        1 => {
            text.push_str(" proto { tcp, udp }");
            conditions.push(Condition::Protocols(vec![6, 17]));
        }
        _ if has_ports => {
            text.push_str(" proto udp");
            conditions.push(Condition::Protocols(vec![17]));
        }
        _ => {}
    }
    let network = |random: &mut Random| {
        let octet = |random: &mut Random| random.below(2) as u8;
        let address = Ipv4Addr::new(10, octet(random), octet(random), 1 + octet(random));
        (address, [8, 16, 24, 32][random.below(4) as usize], random.below(4) == 0)
    };
    let shown = |(address, length, is_not): (Ipv4Addr, u32, bool)| {
        format!(" {}{address}/{length}", if is_not { "! " } else { "" })
    };
    if random.below(3) == 0 {
        let from = network(random);
        *text += &format!(" from{}", shown(from));
        conditions.push(Condition::Source(from.0, from.1, from.2));
    }
    let to = (random.below(3) == 0).then(|| network(random));
    if to.is_some() || has_ports {
        *text += &format!(" to{}", to.map_or_else(|| " any".to_owned(), shown));
    }
    conditions.extend(to.map(|to| Condition::Destination(to.0, to.1, to.2)));
    if has_ports {
        let (first, more) = (1 + random.below(6) as u16, random.below(4) as u16);
        let (last, operators) = (first + more, ["", "!=", "<", ">=", ":", "><", "<>"]);
        let operator = operators[random.below(7) as usize];
        *text += &match operator {
            ":" => format!(" port {first}:{last}"),
            "><" | "<>" => format!(" port {first} {operator} {last}"),
            _ => format!(" port {operator} {first}"),
        };
        conditions.push(Condition::Port(operator, first, last));
    }
    conditions
}

/// Draws a rule, and writes it.
fn rule(random: &mut Random, text: &mut String) -> Rule {
    let is_match = random.below(2) == 0;
    let quick = !is_match && random.below(6) == 0;
    text.push_str(if is_match { "match out" } else { "pass out" });
    text.push_str(if quick { " quick" } else { "" });
    let conditions = conditions(random, text);
    let queue = [None, Some("a"), Some("b"), Some("c")][random.below(4) as usize];
    *text += &queue.map_or_else(String::new, |queue| format!(" set queue {queue}"));
    let code_point = [None, None, Some("ef"), Some("af41")][random.below(4) as usize];
    *text += &code_point.map_or_else(String::new, |code_point| format!(" set tos {code_point}"));
    text.push('\n');
    Rule { is_match, quick, queue, code_point, conditions }
}

/// Draws rules, some of them in anchors.
fn rules(random: &mut Random) -> (String, Vec<Rule>) {
    let (mut text, mut rules) = (HEAD.to_owned(), Vec::new());
    let mut around: Vec<usize> = Vec::new();
    let mut outer: Vec<Condition> = Vec::new();
    for _ in 0..2 + random.below(7) {
        if around.len() < 2 && random.below(6) == 0 {
            text.push_str("anchor \"some\"");
            let own = conditions(random, &mut text);
            text.push_str(" {\n");
            around.push(own.len());
            outer.extend(own);
        }
        let mut own = rule(random, &mut text);
        own.conditions.extend(outer.iter().cloned());
        rules.push(own);
        if !around.is_empty() && random.below(3) == 0 {
            text.push_str("}\n");
            let count = around.pop().unwrap_or(0);
            outer.truncate(outer.len() - count);
        }
    }
    text.push_str(&"}\n".repeat(around.len()));
    (text, rules)
}

fn packet(random: &mut Random) -> Headers {
    let mut address = || {
        let mut octet = || random.below(3) as u8;
        Ipv4Addr::new(10, octet(), octet(), octet())
    };
    let v4 = Addresses::V4 { source: address(), destination: address() };
    let protocol = [Protocol::TCP, Protocol::UDP, Protocol::ICMP][random.below(3) as usize];
    let ports = Ports { source: 9, destination: random.below(12) as u16 };
    let mut headers = Headers::of_flow(v4, protocol, ports);
    if !protocol.has_ports() {
        headers.ports = None;
    }
    headers
}

fn number(name: &str, radix: u32) -> Option<u64> {
    u64::from_str_radix(&std::env::var(name).ok()?, radix).ok()
}

#[test]
fn packets_go_to_the_queues_into_which_pf_puts_them() {
    let first = number("WEIR_SEED", 16).unwrap_or(0);
    let language = import::find("pf").expect("it is a language");
    let (mut moved, mut marked) = (0, 0);
    for seed in (0..number("WEIR_PF", 10).unwrap_or(150)).map(|at| first.wrapping_add(at)) {
        let random = &mut Random::new(seed, 0);
        let (text, rules) = rules(random);
        let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
        let import = outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings));
        let policy = policy::parse(&import.policies[0].policy, "p");
        let policy = policy.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", policy.findings));
        let mut classifier: Classifier = policy.classifier();
        for _ in 0..100 {
            let packet = packet(random);
            let found = classifier.classify(Instant::ZERO, InterfaceId(u16::MAX), &packet);
            let set = found.meter.map(|meter| policy.link.meters[meter.index()].actions[0].1);
            let (queue, code_point) = by_pf(&rules, &packet);
            let code_point: Option<Dscp> = code_point.and_then(|name| name.parse().ok());
            let wanted = (queue, code_point.map(Action::Mark));
            let import = &import.policies[0].policy;
            let found = (policy.leaf_name(found.leaf), set);
            assert_eq!(found, wanted, "seed {seed:x}\n{text}\n{import}\n{packet:?}");
            moved += u32::from(queue != "std");
            marked += u32::from(code_point.is_some());
        }
    }
    assert!(moved > 1000, "only {moved} packets leave the default queue");
    assert!(marked > 1000, "only {marked} packets get a code point");
}
