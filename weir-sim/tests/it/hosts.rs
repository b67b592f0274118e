//! Fairness among hosts: where `hash` names addresses, a host with ten flows gets as much as a host
//! with one.

use std::fmt::Write;
use weir_sim::read;

/// A source that sends twice the link's rate from one address to another.
type Flow = (&'static str, &'static str);

/// Runs these flows through `policy` on a link of 8 Mbit/s; returns the share of each group in
/// percent of what was received, where a group is a stretch of `counts` flows.
fn shares(policy: &str, flows: &[Flow], counts: &[usize]) -> Vec<f64> {
    let mut text = format!("duration = '12 s'\nwarmup = '2 s'\nseed = 3\n{policy}\n");
    for (number, (source, destination)) in flows.iter().enumerate() {
        writeln!(
            text,
            "[[source]]\nname = 's{number}'\nkind = 'cbr'\nsize = '1000 B'\nrate = '16 Mbit/s'\n\
             jitter = '50 %'\nsrc = '{source}'\ndst = '{destination}'\ndport = 443"
        )
        .expect("a text takes all");
    }
    let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let outcome = read::parse(text.as_bytes(), "hosts.toml", &none);
    let scenario = outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings));
    let report = weir_sim::run(&scenario, &mut |_| {}).expect("it runs");
    let received: Vec<f64> = (0..flows.len())
        .map(|number| {
            let source = report.source(&format!("s{number}")).expect("it is declared");
            source.received.bytes as f64
        })
        .collect();
    let total: f64 = received.iter().sum();
    let mut rest = received.as_slice();
    let group = |&count: &usize| {
        let (own, others) = rest.split_at(count);
        rest = others;
        100.0 * own.iter().sum::<f64>() / total
    };
    counts.iter().map(group).collect()
}

/// Checks the shares of a link with this class, each within one percent of the whole.
fn check(class: &str, flows: &[Flow], groups: &[(usize, f64)]) {
    let policy =
        format!("[policy.link]\nrate = '8 Mbit/s'\nscheduler = 'drr'\n[policy.class.all]\n{class}");
    let counts: Vec<_> = groups.iter().map(|row| row.0).collect();
    let found = shares(&policy, flows, &counts);
    for (found, (_, wanted)) in found.iter().zip(groups) {
        assert!((found - wanted).abs() < 1.0, "{class}: {found:.1} %, not {wanted:.1} %");
    }
}

const A: &str = "192.168.1.10";
const B: &str = "192.168.1.20";
const C: &str = "203.0.113.7";
const D: &str = "203.0.113.9";

#[test]
fn a_host_with_ten_flows_gets_as_much_as_a_host_with_one() {
    let out: Vec<Flow> = [vec![(A, C); 10], vec![(B, C)]].concat();
    let queue = |hash: &str| format!("default = true\nqueue = {{ dropper = 'fq-codel'{hash} }}\n");
    check(&queue(""), &out, &[(10, 1000.0 / 11.0), (1, 100.0 / 11.0)]);
    check(&queue(", hash = 'flow'"), &out, &[(10, 1000.0 / 11.0), (1, 100.0 / 11.0)]);
    check(&queue(", hash = 'srcaddr'"), &out, &[(10, 50.0), (1, 50.0)]);
    check(&queue(", hash = 'srcaddr,dstaddr'"), &out, &[(10, 50.0), (1, 50.0)]);
    let back: Vec<Flow> = [vec![(C, A); 10], vec![(C, B)]].concat();
    check(&queue(", hash = 'dstaddr'"), &back, &[(10, 50.0), (1, 50.0)]);
    // One host that sends to two others is two flows by both addresses.
    let three: Vec<Flow> = [vec![(A, C); 5], vec![(A, D); 5], vec![(B, C)]].concat();
    let third = 100.0 / 3.0;
    check(&queue(", hash = 'srcaddr,dstaddr'"), &three, &[(5, third), (5, third), (1, third)]);
    check(&queue(", hash = 'srcaddr'"), &three, &[(10, 50.0), (1, 50.0)]);
}

#[test]
fn isolate_shares_among_hosts_and_then_among_the_flows_of_each() {
    let isolate = |word: &str| format!("default = true\nisolate = '{word}'\n");
    let out: Vec<Flow> = [vec![(A, C); 9], vec![(A, D)], vec![(B, C)]].concat();
    let eleventh = 100.0 / 11.0;
    check(&isolate("flows"), &out, &[(9, 9.0 * eleventh), (1, eleventh), (1, eleventh)]);
    check(&isolate("flows within srcaddr"), &out, &[(9, 45.0), (1, 5.0), (1, 50.0)]);
    let back: Vec<Flow> = [vec![(C, A); 10], vec![(C, B)]].concat();
    check(&isolate("flows within dstaddr"), &back, &[(10, 50.0), (1, 50.0)]);
    let (one, other, server) = ("2001:db8::10", "2001:db8::20", "2001:db8:1::7");
    let six: Vec<Flow> = [vec![(one, server); 10], vec![(other, server)]].concat();
    check(&isolate("flows within srcaddr"), &six, &[(10, 50.0), (1, 50.0)]);
}

#[test]
fn quanta_divided_by_the_busy_flows_of_a_host_share_alike() {
    let cake = |word: &str| {
        let keys = "tins = 'besteffort', target = '1 s', interval = '2 s'";
        format!("default = true\nqueue = {{ dropper = 'cake', hash = '{word}', {keys} }}\n")
    };
    let out = |many: usize| -> Vec<Flow> { [vec![(A, C); many], vec![(B, D)]].concat() };
    check(&cake("flows"), &out(10), &[(10, 1000.0 / 11.0), (1, 100.0 / 11.0)]);
    for many in [1, 8, 32] {
        check(&cake("dual-srchost"), &out(many), &[(many, 50.0), (1, 50.0)]);
        check(&cake("triple-isolate"), &out(many), &[(many, 50.0), (1, 50.0)]);
    }
    // With the busier of both hosts a server's flows share alike, whatever their clients are.
    let back: Vec<Flow> = [vec![(C, A); 10], vec![(C, B)]].concat();
    check(&cake("dual-dsthost"), &back, &[(10, 50.0), (1, 50.0)]);
    check(&cake("srchost"), &out(10), &[(10, 50.0), (1, 50.0)]);
}

#[test]
fn hosts_of_ipv6_take_turns_too() {
    let (one, other, server) = ("2001:db8::10", "2001:db8::20", "2001:db8:1::7");
    let out: Vec<Flow> = [vec![(one, server); 10], vec![(other, server)]].concat();
    let spread = |hash: &str| format!("default = true\nhash = '{hash}'\nqueues = 64\n");
    check(
        "default = true\nqueue = { dropper = 'fq-codel', hash = 'srcaddr' }\n",
        &out,
        &[(10, 50.0), (1, 50.0)],
    );
    check(&spread("srcaddr"), &out, &[(10, 50.0), (1, 50.0)]);
    check(&spread("srcaddr,dstaddr"), &out, &[(10, 50.0), (1, 50.0)]);
}

#[test]
fn a_rule_sends_its_packets_with_the_flows_of_its_class() {
    // Of two classes of equal quanta one takes turns by host, the other by flow.
    let text = "match = [{ proto = 'udp', dst = '203.0.113.7' }]\n\
                queue = { dropper = 'fq-codel', hash = 'srcaddr' }\n\
                [policy.class.rest]\ndefault = true\nqueue = { dropper = 'fq-codel' }\n";
    let flows: Vec<Flow> = [vec![(A, C); 4], vec![(B, C)], vec![(A, D); 4], vec![(B, D)]].concat();
    check(text, &flows, &[(4, 25.0), (1, 25.0), (4, 40.0), (1, 10.0)]);
}

#[test]
fn a_device_is_known_by_its_station_or_its_mark() {
    let scenario = |keys: &str| {
        format!(
            "duration = '1 s'\n[policy.link]\nrate = '8 Mbit/s'\nscheduler = 'drr'\n\
             [policy.class.tv]\nmatch = [{{ src_mac = ['02:00:5e:00:00:01', '02:00:5e:00:00:02'] }}, {{ mark = 5 }}]\n\
             [policy.class.rest]\ndefault = true\n\
             [[source]]\nname = 's'\nkind = 'cbr'\nsize = '1000 B'\nrate = '1 Mbit/s'\n{keys}\n"
        )
    };
    let rows = [
        ("src_mac = '02:00:5E:00:00:02'\nclass = 'tv'", true),
        ("src_mac = '02:00:5e:00:00:03'\nclass = 'rest'", true),
        ("src_mac = '02:00:5e:00:00:03'\nclass = 'tv'", false),
        ("dst_mac = '02:00:5e:00:00:01'\nclass = 'rest'", true),
        ("class = 'rest'", true),
        ("mark = 5\nclass = 'tv'", true),
        ("mark = 6\nclass = 'tv'", false),
    ];
    for (keys, right) in rows {
        let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let outcome = read::parse(scenario(keys).as_bytes(), "hosts.toml", &none);
        assert_eq!(outcome.findings.is_empty(), right, "{keys}: {:#?}", outcome.findings);
    }
}

#[test]
fn queues_of_a_class_take_turns_by_host() {
    let out: Vec<Flow> = [vec![(A, C); 10], vec![(B, C)]].concat();
    let spread = |hash: &str| format!("default = true\nhash = '{hash}'\nqueues = 64\n");
    check(&spread("srcaddr"), &out, &[(10, 50.0), (1, 50.0)]);
    check(&spread("srcaddr,dstaddr"), &out, &[(10, 50.0), (1, 50.0)]);
}
