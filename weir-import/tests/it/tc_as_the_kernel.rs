//! `weir import tc` says what the kernel does: each row was read from a kernel, by `tc -s -d class
//! show` before and after a packet, or by `tc filter show`.

use weir_import::export::{self, Filters};
use weir_import::import::{self, Fate, Import, Options};
use weir_policy::policy;

/// A tree whose classes end in line 4; filters follow from line 5.
const TREE: &str = "\
qdisc add dev a root handle 1: htb default 30
class add dev a parent 1: classid 1:1 htb rate 100mbit
class add dev a parent 1:1 classid 1:10 htb rate 10mbit
class add dev a parent 1:1 classid 1:30 htb rate 10mbit
";

fn read(text: &str, rate: Option<&str>) -> Import {
    let language = import::find("tc").expect("it is a language");
    let rate = rate.map(|rate| rate.parse().expect("rows hold rates"));
    let outcome = import::read(
        language,
        text.as_bytes(),
        "f",
        &Options { rate, device: None, ..Options::default() },
    );
    assert!(outcome.plan.is_some(), "{text}\n{:#?}", outcome.findings);
    let import = outcome.plan.expect("errors were ruled out");
    for one in &import.policies {
        let outcome = policy::parse(&one.policy, "p");
        assert!(!outcome.failed(), "{}\n{:#?}", one.policy, outcome.findings);
    }
    import
}

/// Returns a class of the policy as text, or nothing.
fn class<'p>(policy: &'p str, name: &str) -> &'p str {
    let head = format!("[class.{name}]\n");
    let Some(start) = policy.find(&head) else { return "" };
    let text = &policy[start + head.len()..];
    text.find("\n[").map_or(text, |end| &text[..end])
}

/// Returns the rules of class 1:10.
fn rules(policy: &str) -> String {
    let text = class(policy, "1-10");
    let Some(start) = text.find("match = [") else { return String::new() };
    let lines = text[start..].lines().skip(1).map(|line| line.trim().trim_end_matches(','));
    lines.take_while(|line| *line != "]").collect::<Vec<_>>().join(" ")
}

/// Checks the rules that a filter to class 1:10 becomes, its fate, and a part of its note.
fn check_filter(filter: &str, wanted: &str, fate: Fate, note: &str) {
    let text = format!("{TREE}filter add dev a parent 1: {filter} flowid 1:10\n");
    let import = read(&text, None);
    let line = import.lines.iter().find(|line| line.place.line == 5).expect("it is a statement");
    assert_eq!(rules(&import.policies[0].policy), wanted, "{filter}");
    assert_eq!(line.fate, fate, "{filter}: {line:?}");
    assert!(line.note.contains(note), "{filter}: {line:?}");
}

#[test]
fn numbers_of_u32_are_read_as_tc_reads_them() {
    let rows = [
        ("match u8 17 0xff at 9", "proto = 17"),
        ("match u8 0x11 ff at 9", "proto = 17"),
        ("match u8 017 ff at 9", "proto = 15"),
        ("match ip protocol 6 0xff", "proto = 6"),
        ("match ip tos 16 fc", "dscp = 4"),
        ("match ip dsfield 0x10 0xfc", "dscp = 4"),
        ("match u32 0x00b80000 0x00fc0000 at 0", "dscp = 46"),
    ];
    for (key, wanted) in rows {
        let filter = format!("protocol ip prio 1 u32 {key}");
        let wanted = format!("{{ ethertype = \"ipv4\", {wanted}, vlan = \"none\" }}");
        check_filter(&filter, &wanted, Fate::Kept, "");
    }
    let ports = [
        ("match u16 22 0xffff at 22", "dport = \"22\""),
        ("match u16 22 ffff at 23", "dport = \"22\""),
        ("match ip sport 0x50 fff0", "sport = \"80-95\""),
        ("match ip protocol 6 0xff match ip dport 25 ffff", "proto = 6, dport = \"25\""),
        ("match u8 5 0xf at 0 match ip dport 25 ffff", "dport = \"25\""),
        ("match ip nofrag match ip dport 25 ffff", "dport = \"25\""),
    ];
    for (key, wanted) in ports {
        let filter = format!("protocol ip prio 1 u32 {key}");
        let wanted = format!("{{ ethertype = \"ipv4\", {wanted}, vlan = \"none\" }}");
        check_filter(&filter, &wanted, Fate::Approximated, "a header of 20 bytes");
    }
}

#[test]
fn a_filter_takes_packets_of_its_protocol_by_their_bytes() {
    let rows = [
        ("protocol all prio 1 u32 match u32 0 0", "{}", Fate::Kept, ""),
        ("prio 1 u32 match u32 0 0", "{}", Fate::Kept, ""),
        ("protocol 0x003 prio 1 u32 match u32 0 0", "{}", Fate::Kept, ""),
        (
            "protocol ip u32 match u32 0 0",
            "{ ethertype = \"ipv4\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol IPv6 u32 match ip dst any",
            "{ ethertype = \"ipv6\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol arp u32 match u32 0 0",
            "{ ethertype = \"arp\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol 0x88cc u32 match u32 0 0",
            "{ ethertype = \"0x88cc\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol ip u32 match u16 0x800 0xffff at -2",
            "{ ethertype = \"ipv4\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        ("protocol ip u32 match u16 0x806 0xffff at -2", "", Fate::Kept, "matches no packet"),
        (
            "protocol ip u32 match u32 0x0a000000 0xff000000 at 16",
            "{ dst = \"10.0.0.0/8\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol ipv6 u32 match u32 0x20010db8 ffffffff at 8",
            "{ src = \"2001:db8::/32\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol ipv6 u32 match ip6 dst 2001:db8::7/128",
            "{ dst = \"2001:db8::7/128\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol ipv6 u32 match ip6 priority 0xb8 0xfc",
            "{ ethertype = \"ipv6\", dscp = 46, vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        (
            "protocol ipv6 u32 match ip6 dport 53 ffff",
            "{ ethertype = \"ipv6\", dport = \"53\", vlan = \"none\" }",
            Fate::Approximated,
            "extension",
        ),
        (
            "protocol all u32 match ip dst 10.0.0.1",
            "{ dst = \"10.0.0.1/32\" }",
            Fate::Approximated,
            "every protocol",
        ),
        // Byte 9 of IPv6 is the second of the source.
        ("protocol ipv6 u32 match ip protocol 1 0xff", "", Fate::Lost, "byte 8"),
        (
            "protocol all u32 match ip protocol 1 0xff",
            "{ ethertype = \"ipv4\", proto = 1 }",
            Fate::Approximated,
            "every protocol",
        ),
        ("protocol ip u32 match ip6 dst 2001:db8::1", "", Fate::Lost, "byte 24"),
        ("protocol arp u32 match ip dst 10.0.0.1", "", Fate::Lost, "byte 16"),
        // Byte 0 of an LLDP frame may be 8.
        ("protocol all u32 match icmp type 8 0xff", "", Fate::Lost, "accident"),
        ("protocol all u32 match u16 0x806 0xffff at -2", "", Fate::Lost, "accident"),
        // What follows the IP header has no place without a hash table.
        ("protocol ip u32 match tcp dst 80 0xffff", "", Fate::Lost, "`link`"),
        ("protocol ip u32 match udp src 80 0xffff", "", Fate::Kept, "matches no packet"),
        ("protocol ip u32 match icmp type 8 0xff", "", Fate::Kept, "matches no packet"),
        ("protocol ip u32 match u16 80 ffff at nexthdr+2", "", Fate::Lost, "`link`"),
        (
            "protocol ip u32 match ip icmp_type 8 0xff match ip protocol 1 0xff",
            "{ ethertype = \"ipv4\", proto = 1, icmp_type = 8, vlan = \"none\" }",
            Fate::Approximated,
            "header of 20 bytes",
        ),
        // The filter for small acknowledgements that many scripts have.
        (
            "protocol ip u32 match ip protocol 6 0xff match u8 0x05 0x0f at 0 \
             match u16 0x0000 0xffc0 at 2 match u8 0x10 0xff at 33",
            "{ ethertype = \"ipv4\", proto = 6, tcp_flags = \"!fin,!syn,!rst,!psh,ack,!urg,!ece,!cwr\", \
             length = \"0-63 B\", vlan = \"none\" }",
            Fate::Approximated,
            "header of 20 bytes",
        ),
        (
            "protocol ipv6 u32 match u16 0 0xffc0 at 4",
            "{ ethertype = \"ipv6\", length = \"40-103 B\", vlan = \"none\" }",
            Fate::Kept,
            "",
        ),
        ("protocol ip u32 match u8 0x10 0xff at 33", "", Fate::Lost, "byte 33"),
        ("protocol ip u32 match ip df", "", Fate::Lost, "byte 6"),
        (
            "protocol all u32 match mark 6 0xff",
            "{ mark = \"0x6/0xff\" }",
            Fate::Approximated,
            "no packet at a port",
        ),
        ("protocol 802.1q u32 match u32 0 0", "{ vlan = \"any\" }", Fate::Approximated, "802.1ad"),
        ("protocol 802.1q u32 match u8 5 0xff at 1", "", Fate::Lost, "VLAN"),
        ("protocol 802_3 u32 match u32 0 0", "", Fate::Lost, "ethertype"),
        ("protocol ip prio 5 route to 3", "", Fate::Lost, "`route`"),
        (
            "protocol ip u32 match ip protocol 17 0xff police rate 1mbit burst 10k drop",
            "{ ethertype = \"ipv4\", proto = 17, vlan = \"none\", \
             police = { rate = \"1 Mbit/s\", depth = \"10240 B\", out = \"drop\" } }",
            Fate::Kept,
            "",
        ),
    ];
    for (filter, wanted, fate, note) in rows {
        check_filter(filter, wanted, fate, note);
    }
}

/// Checks the keys that actions of a filter become, none for a filter that is lost, and a part of
/// the note.
fn check_actions(protocol: &str, actions: &str, keys: Option<&str>, note: &str) {
    let filter = format!("protocol {protocol} u32 match u32 0 0 action {actions}");
    let version = if protocol == "ip" { "ipv4" } else { protocol };
    let wanted = keys.map_or_else(String::new, |keys| {
        let keys = keys.replace("RATE", "rate = \"1 Mbit/s\", depth = \"10240 B\"");
        format!("{{ ethertype = \"{version}\", vlan = \"none\"{keys} }}")
    });
    let fate = match (keys, note.is_empty() || note.starts_with("no packet")) {
        (None, _) => Fate::Lost,
        (_, true) => Fate::Kept,
        _ => Fate::Approximated,
    };
    check_filter(&filter, &wanted, fate, note);
}

#[test]
fn a_code_point_that_a_filter_sets_is_kept() {
    let ef = Some(", set_dscp = \"ef\"");
    let rows = [
        ("ip", "pedit ex munge ip dsfield set 0xb8 retain 0xfc pipe action csum ip4h", ef, ""),
        ("ip", "pedit munge ip tos set 184 retain 252 pipe action csum iph and tcp pass", ef, ""),
        ("ip", "pedit munge ip tos set 0xb8", ef, "bits of ECN"),
        ("ip", "pedit munge ip tos clear munge ip tos set 0xbb retain 0xff", ef, "bits of ECN"),
        ("ipv6", "pedit ex munge ip6 traffic_class set 0xb8 retain 0xfc index 3 ok", ef, ""),
        ("ipv6", "pedit ex munge ip tos set 0xb8 retain 0xfc", ef, "without such a header"),
        ("ip", "pedit ex munge ip ttl set 3", None, "not `ip ttl`"),
        ("ip", "pedit munge offset 0 u32 set 0x00b80000", None, "not `offset 0`"),
        ("ip", "pedit ex munge ip tos set 0xb8 retain 0xf0", None, "all six bits"),
        ("ip", "pedit ex munge ip tos add 4", None, "does not `add`"),
        ("ip", "pedit ex munge ip tos set 0xb8 retain 0xfc drop", None, "not with `drop`"),
        ("ip", "pedit", None, "rewrites nothing"),
    ];
    for (protocol, actions, keys, note) in rows {
        check_actions(protocol, actions, keys, note);
    }
}

#[test]
fn an_action_sees_the_packets_that_the_one_before_pipes_to_it() {
    let rows = [
        ("pass/pass", ", police = { RATE, out = \"pass\" }", "no packet comes to `action pedit`"),
        ("pass/pipe", ", police = { RATE, in = \"mark ef\", out = \"pass\" }", ""),
        ("pipe/pass", ", police = { RATE, out = \"mark ef\" }", ""),
        ("pipe/pipe", ", police = { RATE, out = \"pass\" }, set_dscp = \"ef\"", ""),
        ("drop/pipe", ", police = { RATE, out = \"drop\" }, set_dscp = \"ef\"", ""),
        ("drop/pass", ", police = { RATE, out = \"drop\" }", "no packet comes to `action csum`"),
    ];
    let mark = "action pedit ex munge ip tos set 0xb8 retain 0xfc pipe action csum ip4h";
    for (outcomes, keys, note) in rows {
        let police = format!("police rate 1mbit burst 10k conform-exceed {outcomes} {mark}");
        check_actions("ip", &police, Some(keys), note);
    }
    check_actions("ip", &format!("ok {mark}"), Some(""), "no packet comes to `action pedit`");
}

/// As Linux 6.1 and iproute2 6.1 show what `weir export tc` writes for `set_dscp`, and a legacy form.
#[test]
fn a_code_point_that_the_kernel_shows_is_kept() {
    let head = "qdisc htb 1: dev d0 root refcnt 2 r2q 10 default 0x10 direct_packets_stat 0 direct_qlen 1000
class htb 1:10 root prio 0 rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b\x20
";
    let text = "filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:10 not_in_hw\x20
  match 00100000/00ff0000 at 0
\taction order 1:  pedit action pipe keys 1
 \t index 1 ref 1 bind 1
\t key #0  at @: val 00b80000 mask ff03ffff

\taction order 2: csum (iph) action pass
\tindex 1 ref 1 bind 1

filter parent 1: protocol ipv6 pref 2 flower chain 0 handle 0x1 classid 1:10\x20
  eth_type ipv6
  ip_proto tcp
  not_in_hw
\taction order 1:  pedit action pass keys 1
 \t index 4 ref 1 bind 1
\t key #0  at ipv6+0: val 0b800000 mask f03fffff
";
    let json = r#"[{"kind":"htb","handle":"1:","dev":"d0","root":true,"refcnt":2,"options":{"r2q":10,"default":"0x10"}}]
[{"class":"htb","handle":"1:10","root":true,"prio":0,"rate":125000,"ceil":125000,"burst":1600,"cburst":1600}]
[{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,"key_ht":"800","bkt":"0","flowid":"1:10","not_in_hw":true,"match":{"value":"100000","mask":"ff0000","offmask":"","off":0},"actions":[{"order":1,"kind":"pedit","control_action":{"type":"pipe"},"nkeys":1,"index":1,"ref":1,"bind":1,"keys":[{"htype":"ipv4","offset":0,"cmd":"set","val":"b80000","mask":"ff03ffff"}]},{"order":2,"kind":"csum","csum":"iph","control_action":{"type":"pass"},"index":1,"ref":1,"bind":1}]}},
{"parent":"1:","protocol":"ipv6","pref":2,"kind":"flower","chain":0,"options":{"handle":1,"classid":"1:10","keys":{"eth_type":"ipv6","ip_proto":"tcp"},"not_in_hw":true,"actions":[{"order":1,"kind":"pedit","control_action":{"type":"pass"},"nkeys":1,"index":4,"ref":1,"bind":1,"keys":[{"htype":"ipv6","offset":0,"cmd":"set","val":"b800000","mask":"f03fffff"}]}]}}]
"#;
    let shown = ["ipv4+0", "0"].map(|place| head.to_owned() + &text.replace('@', place));
    for text in [shown[0].as_str(), &shown[1], json] {
        let import = read(text, None);
        assert_eq!(
            rules(&import.policies[0].policy),
            "{ ethertype = \"ipv4\", dscp = 4, ecn = \"not-ect\", vlan = \"none\", set_dscp = \"ef\" } \
             { ethertype = \"ipv6\", proto = 6, vlan = \"none\", set_dscp = \"ef\" }",
            "{text}"
        );
        assert!(import.lines.iter().all(|line| line.fate != Fate::Lost), "{:#?}", import.lines);
    }
    let other = head.to_owned() + &text.replace("@: val", "ipv4+8: add");
    let import = read(&other, None);
    assert!(import.lines.iter().any(|line| line.note.contains("`offset 8`")), "{import:#?}");
}

/// Checks where packets go that the first of two filters takes: the rules of the class, and a part
/// of the last line's note.
fn check_target(filters: [&str; 2], name: &str, wanted: &str, note: &str) {
    let add = |filter: &str| format!("filter add dev a parent 1: {filter}\n");
    let text = format!("{TREE}{}{}", add(filters[0]), add(filters[1]));
    let import = read(&text, None);
    let policy = &import.policies[0].policy;
    assert!(class(policy, name).contains(wanted), "{filters:?}\n{policy}");
    let line = import.lines.iter().find(|line| line.place.line == 6).expect("it is a statement");
    assert!(line.note.contains(note), "{filters:?}: {line:?}");
}

#[test]
fn a_target_that_is_no_class_means_the_default() {
    let later = "protocol all prio 9 u32 match u32 0 0 flowid 1:10";
    let take = "protocol ip prio 1 u32 match u32 0 0 flowid";
    for target in ["1:77", "2:10", "1", ":10"] {
        let wanted = "{ ethertype = \"ipv4\", vlan = \"none\", prio = 1 }";
        check_target([&format!("{take} {target}"), later], "1-30", wanted, "");
    }
    check_target(
        [&format!("{take} 1:"), later],
        "direct",
        "{ ethertype = \"ipv4\", vlan = \"none\", prio = 1 }",
        "",
    );
    let six = "protocol ipv6 prio 1 u32 match u32 0 0 flowid 1:10";
    check_target(
        [&format!("{take} 1:10"), six],
        "1-10",
        "{ ethertype = \"ipv4\", vlan = \"none\" },\n]",
        "refuses",
    );
}

#[test]
fn police_becomes_a_policer() {
    let rows = [
        ("police rate 1mbit burst 10k drop", "drop", Fate::Kept, ""),
        ("police rate 1mbit buffer 10k mtu 1500 shot", "drop", Fate::Kept, ""),
        ("action police rate 1mbit burst 10k conform-exceed drop/pass", "drop", Fate::Kept, ""),
        ("action police rate 1mbit burst 10k conform-exceed ok", "pass", Fate::Kept, ""),
        ("police rate 1mbit burst 10k continue", "pass", Fate::Approximated, "`continue`"),
        ("police rate 1mbit burst 10k reclassify", "drop", Fate::Kept, ""),
        ("police rate 1mbit burst 10k pipe", "pass", Fate::Kept, ""),
        (
            "police rate 1mbit burst 10k conform-exceed pass/drop",
            "pass",
            Fate::Approximated,
            "within the rate",
        ),
        (
            "police rate 1mbit burst 10k peakrate 2mbit drop",
            "drop",
            Fate::Approximated,
            "`peakrate`",
        ),
    ];
    for (police, out, fate, note) in rows {
        let wanted = format!(
            "{{ ethertype = \"ipv4\", proto = 17, vlan = \"none\", police = {{ rate = \"1 Mbit/s\", \
             depth = \"10240 B\", out = \"{out}\" }} }}"
        );
        let filter = format!("protocol ip u32 match ip protocol 17 0xff {police}");
        check_filter(&filter, &wanted, fate, note);
    }
}

#[test]
fn filters_without_a_priority_precede_each_other_but_not_the_lower_half() {
    let take = |prio: &str, port: u16, class: &str| {
        format!("filter add dev a parent 1: protocol all{prio} matchall flowid {class}\n")
            .replace("matchall", &format!("flower ip_proto tcp dst_port {port}"))
    };
    let rows = [
        // The ports in the order in which the filters are tried.
        ([("", 1), ("", 2), (" prio 5", 3)], [3, 2, 1]),
        ([(" prio 5", 1), ("", 2), ("", 3)], [1, 3, 2]),
        ([(" prio 40000", 1), ("", 2), (" prio 39999", 3)], [2, 3, 1]),
        ([(" prio 010", 1), (" prio 9", 2), (" prio 0x7", 3)], [3, 1, 2]),
    ];
    for (filters, tried) in rows {
        let lines = filters.iter().map(|(prio, port)| take(prio, *port, "1:10"));
        let text = format!("{TREE}{}", lines.collect::<String>());
        let policy = read(&text, None).policies.remove(0).policy;
        let outcome = policy::parse(&policy, "p").plan.expect("it was checked");
        let order = outcome.search.order.arrange(outcome.rules.clone());
        let ports = order.iter().flat_map(|(_, rule)| &rule.matches.destination_ports);
        let ports: Vec<u16> = ports.map(|range| range.first()).collect();
        assert_eq!(ports, tried, "{filters:?}\n{policy}");
    }
    // Priorities of a class's filters are its own.
    let text = format!(
        "{TREE}class add dev a parent 1:30 classid 1:31 htb rate 1mbit\n\
         filter add dev a parent 1: prio 3 protocol all u32 match u32 0 0 flowid 1:30\n\
         filter add dev a parent 1:30 prio 3 protocol ip u32 match u32 0 0 flowid 1:31\n"
    );
    let import = read(&text, None);
    assert!(import.lines.iter().all(|line| !line.note.contains("refuses")), "{:#?}", import.lines);
}

/// Checks parts of the policy of `tree`.
fn check_tree(tree: &str, rate: Option<&str>, wanted: &[(&str, &str)], note: &str) {
    let import = read(tree, rate);
    let policy = &import.policies[0].policy;
    for (name, part) in wanted {
        let text = if name.is_empty() { policy.as_str() } else { class(policy, name) };
        assert!(text.contains(part), "{part:?} is not in {name}:\n{policy}");
    }
    assert!(import.lines.iter().any(|line| line.note.contains(note)), "{:#?}", import.lines);
}

#[test]
fn overcommitted_children_keep_their_ceiling() {
    let tree = "qdisc add dev a root handle 1: htb default 30\n\
                class add dev a parent 1: classid 1:1 htb rate 10mbit\n\
                class add dev a parent 1:1 classid 1:10 htb rate 8mbit\n\
                class add dev a parent 1:1 classid 1:20 htb rate 8mbit ceil 9mbit\n\
                class add dev a parent 1:1 classid 1:30 htb rate 4mbit\n";
    let wanted = [
        ("1-10", "rate = \"4 Mbit/s\"\nceil = \"8 Mbit/s\"\nburst = \"1600 B\""),
        ("1-10", "quantum = \"100000 B\""),
        ("1-20", "rate = \"4 Mbit/s\"\nceil = \"9 Mbit/s\""),
        ("1-30", "rate = \"2 Mbit/s\"\nceil = \"4 Mbit/s\""),
    ];
    check_tree(tree, None, &wanted, "lowered to 4 Mbit/s");
}

/// Checks the link's rate in the policy of a script, with `--rate "40 Mbit/s"`.
#[test]
fn a_rate_that_the_script_has_stays() {
    let hfsc = "qdisc add dev a root handle 1: hfsc default 2\n\
                class add dev a parent 1: classid 1:2 hfsc ls m2 8mbit";
    let htb = "qdisc add dev a root handle 1: htb default 2\n\
               class add dev a parent 1: classid 1:2 htb rate 8mbit ceil 9mbit\n";
    let rows = [
        ("qdisc add dev a root tbf rate 5mbit burst 10k limit 30k\n", "5 Mbit/s", "own rate"),
        ("qdisc add dev a root cake bandwidth 6mbit\n", "6 Mbit/s", "own rate"),
        (htb, "9 Mbit/s", "own rate"),
        (&format!("{hfsc} ul m2 9mbit\n"), "9 Mbit/s", "own rate"),
        // A share is no rate.
        (&format!("{hfsc}\n"), "40 Mbit/s", ""),
        ("qdisc add dev a root fq_codel\n", "40 Mbit/s", ""),
    ];
    for (script, rate, note) in rows {
        let line = format!("[link]\nrate = \"{rate}\"\n");
        check_tree(script, Some("40 Mbit/s"), &[("", &line)], note);
    }
}

#[test]
fn hfsc_follows_the_kernel() {
    let tree = "qdisc add dev a root handle 1: hfsc default 2\n\
                class add dev a parent 1: classid 1:2 hfsc ls m2 8mbit ul m2 8mbit\n";
    let wanted = [("", "[link.hfsc]\nrules = \"linux\"\nlimit_credit = \"linux\"\n")];
    check_tree(tree, None, &wanted, "");
}

#[test]
fn packets_that_no_class_takes_are_sent_at_once() {
    for default in ["", " default 1", " default 77", " default 0"] {
        let tree = format!(
            "qdisc add dev a root handle 1: htb{default}\n\
             class add dev a parent 1: classid 1:1 htb rate 10mbit\n\
             class add dev a parent 1:1 classid 1:10 htb rate 4mbit\n"
        );
        let wanted = [
            ("", "rate = \"20 Mbit/s\""),
            (
                "direct",
                "rate = \"10 Mbit/s\"\nqueue = { limit = \"1000 packets\" }\ndefault = true",
            ),
            ("1-1", "rate = \"10 Mbit/s\""),
        ];
        check_tree(&tree, None, &wanted, "at once");
        let wanted = [("", "rate = \"1 Gbit/s\""), ("direct", "rate = \"990 Mbit/s\"")];
        check_tree(&tree, Some("1 Gbit/s"), &wanted, "at once");
        let wanted = [("", "rate = \"10 Mbit/s\""), ("direct", "rate = \"99.009 kbit/s\"")];
        check_tree(&tree, Some("10 Mbit/s"), &wanted, "at once");
    }
}

#[test]
fn what_a_class_leaves_out_is_what_tc_writes() {
    let tree = "ip link set dev a txqueuelen 50\n\
                tc qdisc add dev a root handle 1: htb default 30 r2q 100\n\
                tc class add dev a parent 1: classid 1:1 htb rate 1gbit mtu 9000\n\
                tc class add dev a parent 1:1 classid 1:10 htb rate 33333333 burst 15k\n\
                ip link set dev a txqueuelen 200\n\
                tc class add dev a parent 1:1 classid 1:20 htb rate 1mbit ceil 500kbit\n\
                tc class add dev a parent 1:1 classid 1:30 htb rate 64kbit\n\
                tc qdisc add dev a parent 1:30 pfifo\n\
                tc class add dev a parent 1:1 classid 1:40 htb rate 50mbit\n\
                tc qdisc add dev a parent 1:40 bfifo\n\
                tc class add dev a parent 1:1 classid 1:50 htb rate 50mbit\n\
                tc qdisc add dev a parent 1:50 pfifo_head_drop\n";
    let wanted = [
        ("1-1", "burst = \"9000 B\""),
        ("1-10", "rate = \"33333.328 kbit/s\"\nburst = \"15358 B\"\ncburst = \"1600 B\""),
        ("1-10", "queue = { limit = \"50 packets\" }"),
        ("1-20", "rate = \"500 kbit/s\"\nceil = \"500 kbit/s\""),
        ("1-20", "queue = { limit = \"200 packets\" }"),
        ("1-30", "quantum = \"1000 B\"\nqueue = { limit = \"200 packets\" }"),
        ("1-40", "queue = { limit = \"302800 B\" }"),
        ("1-50", "queue = { dropper = \"head\", limit = \"200 packets\" }"),
    ];
    check_tree(tree, None, &wanted, "ceil is below its rate");
}

/// Checks the fates and parts of the notes of all lines, and parts of the policy.
fn check_lines(text: &str, rate: Option<&str>, fates: &[(Fate, &str)], wanted: &[(&str, &str)]) {
    let import = read(text, rate);
    assert_eq!(import.lines.len(), fates.len(), "{:#?}", import.lines);
    for (line, (fate, note)) in import.lines.iter().zip(fates) {
        assert_eq!(line.fate, *fate, "{line:?}");
        assert!(line.note.contains(note), "{line:?}");
    }
    let policy = &import.policies[0].policy;
    for (name, part) in wanted {
        let text = if name.is_empty() { policy.as_str() } else { class(policy, name) };
        assert!(text.contains(part), "{part:?} is not in {name}:\n{policy}");
    }
}

#[test]
fn commands_that_only_show_are_read() {
    let text = "tc -s qdisc\ntc qdisc\ntc -s -d class show dev a\ntc -n home filter show dev a\n\
                tc -batch more.tc\ntc qdisc add dev a root pfifo limit 1e2\n";
    let shows = (Fate::Kept, "only shows");
    let fates = [shows, shows, shows, shows, (Fate::Lost, "another file"), (Fate::Kept, "")];
    let text = text.replace("1e2", "100");
    check_lines(&text, Some("1 Gbit/s"), &fates, &[("all", "limit = \"100 packets\"")]);
}

#[test]
fn rates_may_be_parts_of_the_device_or_have_powers() {
    let text = "qdisc add dev a root handle 1: htb default 1\n\
                class add dev a parent 1: classid 1:1 htb rate 50% ceil 1e8bit\n";
    let wanted = [("1-1", "rate = \"20 Mbit/s\"\nceil = \"100 Mbit/s\"")];
    check_lines(text, Some("40 Mbit/s"), &[(Fate::Kept, ""), (Fate::Kept, "")], &wanted);
    let text = text.replace("1e8bit", "75%");
    let wanted = [("1-1", "rate = \"500 Mbit/s\"\nceil = \"750 Mbit/s\"")];
    let fates = [(Fate::Kept, ""), (Fate::Approximated, "--rate")];
    check_lines(&text, None, &fates, &wanted);
}

#[test]
fn disciplines_that_were_refused_are_read() {
    let text = "qdisc add dev a root handle 1: qfq\n\
                class add dev a parent 1: classid 1:1 qfq weight 5 maxpkt 2000\n\
                class add dev a parent 1: classid 1:2 qfq weight 10\n\
                qdisc add dev a parent 1:2 sfq limit 50 min 3000 max 9000 probability 0.1\n\
                filter add dev a parent 1: protocol all prio 1 matchall flowid 1:1\n";
    let fates = [
        (Fate::Kept, ""),
        (Fate::Kept, ""),
        (Fate::Kept, ""),
        (Fate::Approximated, "RED"),
        (Fate::Kept, ""),
    ];
    let wanted = [
        ("", "scheduler = \"qfq-plus\""),
        (
            "1-1",
            "weight = 5\nmaxpkt = \"2000 B\"\nqueue = { limit = \"1000 packets\" }\ndefault = true",
        ),
        ("1-2", "weight = 10"),
    ];
    check_lines(text, Some("10 Mbit/s"), &fates, &wanted);
}

#[test]
fn bands_of_ets_are_strict_or_share() {
    let text = "qdisc add dev a root handle 1: ets strict 2 quanta 3000 2000 priomap 3\n\
                qdisc add dev a parent 1:1 pfifo limit 20\n\
                filter add dev a parent 1: protocol ip prio 1 u32 match ip dport 22 0xffff \
                flowid 1:2\n";
    let kept = (Fate::Kept, "");
    let wanted = [
        ("", "scheduler = \"ets\""),
        ("band-1", "priority = 2\nqueue = { limit = \"20 packets\" }"),
        ("band-2", "priority = 1"),
        ("band-3", "quantum = \"3000 B\""),
        ("band-4", "quantum = \"2000 B\"\nqueue = { limit = \"1000 packets\" }\ndefault = true"),
    ];
    check_lines(text, Some("10 Mbit/s"), &[kept, kept, (Fate::Approximated, "20 bytes")], &wanted);
    let alone = |options: &str| format!("qdisc add dev a root handle 1: ets {options}\n");
    // A band without a quantum has that of a frame; the map leads to the first one.
    let wanted = [("band-2", "quantum = \"1514 B\""), ("band-1", "priority = 1\n")];
    let fates = [(Fate::Approximated, "`priomap`")];
    check_lines(&alone("bands 3 strict 1 priomap 0 1"), Some("1 Mbit/s"), &fates, &wanted);
    let wanted = [("band-1", "priority = 15"), ("band-16", "quantum = \"1514 B\"")];
    check_lines(&alone("strict 16"), Some("1 Mbit/s"), &[kept], &wanted);
    let language = import::find("tc").expect("it is a language");
    for options in ["", "bands 2 strict 3", "strict 9 quanta 1 2 3 4 5 6 7 8"] {
        let outcome = import::read(language, alone(options).as_bytes(), "f", &Options::default());
        let lines = outcome.plan.map_or_else(Vec::new, |import| import.lines);
        assert!(lines.iter().all(|line| line.fate == Fate::Lost), "{options}: {lines:?}");
    }
}

#[test]
fn cake_is_kept_with_its_shaper_its_overhead_and_its_queue() {
    let text = "tc qdisc replace dev a root cake bandwidth 20mbit besteffort";
    let wanted = [
        ("", "rate = \"20 Mbit/s\"\nscheduler = \"fifo\"\n\n"),
        ("all", "queue = { dropper = \"cake\", tins = \"besteffort\" }\ndefault = true"),
    ];
    check_lines(text, None, &[(Fate::Kept, "")], &wanted);
    let kept = (Fate::Kept, "");
    let lost = |note| (Fate::Approximated, note);
    let rows = [
        (
            "diffserv4 nat overhead 38 mpu 84",
            lost("`nat` is left out"),
            "overhead = { bytes = 24, minimum = 84 }",
        ),
        ("pppoe-ptm ether-vlan", kept, "overhead = { bytes = 20, ptm = true }"),
        ("pppoe-ptm", kept, "overhead = \"pppoe-ptm\""),
        ("bridged-ptm", kept, "overhead = \"ptm\""),
        ("overhead 22 ptm", kept, "overhead = \"ptm\""),
        ("pppoe-llcsnap", kept, "overhead = \"pppoe-atm\""),
        ("docsis ack-filter", kept, "{ dropper = \"cake\", ack_filter = \"spare\" }"),
        ("ack-filter-aggressive wash", kept, "wash = true, ack_filter = \"aggressive\" }"),
        ("ack-filter no-ack-filter docsis", kept, "overhead = \"docsis\""),
        ("overhead 44 atm ingress", lost("`ingress`"), "overhead = { bytes = 30, cell = 48 }"),
        (
            "rtt 40ms memlimit 4m",
            kept,
            "\"cake\", target = \"2 ms\", interval = \"40 ms\", memory = \"4194304 B\"",
        ),
        (
            "dual-dsthost metro wash",
            kept,
            "\"cake\", hash = \"dual-dsthost\", target = \"500 us\", interval = \"10 ms\", wash = true",
        ),
        ("ingress autorate-ingress", lost("`ingress`"), "follows_arrivals = true"),
        ("autorate-ingress besteffort", kept, "follows_arrivals = true"),
        ("precedence hosts", kept, "tins = \"precedence\", hash = \"hosts\" }"),
        ("triple-isolate diffserv3", kept, "queue = { dropper = \"cake\" }"),
        ("diffserv", kept, "tins = \"diffserv4\" }"),
        // Words that stand for a link add up, and the last `mpu` counts.
        ("ethernet ether-vlan docsis", kept, "overhead = { bytes = 46, minimum = 64 }"),
        ("mpu 128 ethernet", kept, "overhead = { bytes = 24, minimum = 84 }"),
        ("pppoe-llcsnap conservative noatm", kept, "overhead = { bytes = 34 }"),
        ("via-ethernet overhead 38", kept, "overhead = { bytes = 24 }"),
        ("overhead -64", kept, "overhead = { bytes = -78 }"),
        // `raw` holds whatever follows.
        ("overhead 22 atm raw", kept, "scheduler = \"fifo\"\n\n"),
        ("raw overhead 0", kept, "scheduler = \"fifo\"\n\n"),
        ("raw overhead 22", kept, "overhead = { bytes = 22 }"),
        (
            "overhead 256 pppoe-llcsnap",
            lost("at most 256"),
            "overhead = { bytes = 256, cell = 48 }",
        ),
        // So does the last word of the shaper.
        (
            "autorate-ingress bandwidth 18mbit",
            (Fate::Kept, "the last one counts"),
            "rate = \"18 Mbit/s\"\nscheduler = \"fifo\"\n\n",
        ),
        ("unlimited bandwidth 18mbit", kept, "rate = \"18 Mbit/s\""),
        ("rtt 10ms interplanetary", kept, "target = \"50000 ms\", interval = \"1000000 ms\""),
        ("memlimit 0", (Fate::Kept, "the default"), "queue = { dropper = \"cake\" }"),
    ];
    for (options, fate, part) in rows {
        let text = format!("tc qdisc add dev a root cake bandwidth 20mbit {options}");
        check_lines(&text, None, &[fate], &[("", part)]);
    }
    let text = "tc qdisc add dev a root cake bandwidth 18mbit autorate-ingress unlimited";
    let part = "rate = \"10 Mbit/s\"\nscheduler = \"fifo\"\n\n";
    check_lines(text, Some("10 Mbit/s"), &[(Fate::Kept, "counts")], &[("", part)]);
    let text = "tc qdisc add dev a root cake flows";
    let part = "queue = { dropper = \"cake\", hash = \"flows\", unlimited = true }";
    check_lines(text, Some("10 Mbit/s"), &[kept], &[("", part)]);
    let text = "tc qdisc add dev a root handle 1: htb default 1
                tc class add dev a parent 1: classid 1:1 htb rate 20mbit
                tc qdisc add dev a parent 1:1 cake bandwidth 10mbit besteffort";
    let part = "queue = { dropper = \"cake\", tins = \"besteffort\", rate = \"10 Mbit/s\" }";
    let fates = [kept, kept, lost("the rate of the cake below the class is the ceiling")];
    check_lines(text, None, &fates, &[("1-1", part), ("1-1", "rate = \"10 Mbit/s\"")]);
    let fates = [kept, kept, lost("`autorate-ingress` below a class is left out")];
    check_lines(&format!("{text} autorate-ingress"), None, &fates, &[("1-1", part)]);
    for options in ["overhead 44 atm", "conservative", "mpu 64", "ptm", "pppoe-ptm ether-vlan"] {
        let text = format!("{text} {options}");
        let fates = [kept, kept, lost("its overhead below a class is left out")];
        check_lines(&text, None, &fates, &[("1-1", part)]);
    }
}

#[test]
fn a_line_that_is_none_of_tc_names_the_ways_out() {
    let language = import::find("tc").expect("it is a language");
    let scripts = [
        "start() {\n  tc qdisc add dev eth0 root htb\n}\nstart\n",
        "if [ -n \"$1\" ]; then tc qdisc add dev eth0 root pfifo; fi\n",
        "DEV=$(route | tail -1)\ntc qdisc add dev $DEV root fq_codel\n",
        "tc qdisc add dev eth{0,1} root fq_codel\n",
        "[ $1 = fast ] && tc qdisc add dev eth0 root pfifo\n",
        "((R*=2))\ntc qdisc add dev eth0 root pfifo\n",
    ];
    for text in scripts {
        let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
        let first = outcome.findings.first().expect("no policy is a finding");
        assert_eq!(first.code, "W401", "{text}");
        let ways = ["--run", "--from-kernel"];
        assert!(ways.iter().all(|way| first.cure.contains(way)), "{text}: {first:?}");
    }
}

#[test]
fn an_export_has_no_rate_that_tc_reads_as_none() {
    let text = "[link]\nrate = \"1 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\nrate = \"1 bit/s\"\n\
                ceil = \"1 Mbit/s\"\nburst = \"1 B\"\ncburst = \"1600 B\"\ndefault = true\n";
    let policy = policy::parse(text, "p").plan.expect("it is right");
    let export = export::to_tc(&policy, "a", Filters::U32).expect("the kernel has HTB");
    let batch = export.batch();
    assert!(batch.contains("htb rate 8bit ceil 1000000bit burst 1 cburst 1600"), "{batch}");
    assert!(export.lost.iter().any(|loss| loss.what == "rate of class `a`"), "{:?}", export.lost);
}

/// Checks what a discipline at the root becomes: its queue, or an error at the column of a word.
fn check_queue(discipline: &str, wanted: Result<(&str, Fate, &str), &str>) {
    let head = "tc qdisc add dev a root ";
    let language = import::find("tc").expect("it is a language");
    let options = Options { rate: "1 Mbit/s".parse().ok(), device: None, ..Options::default() };
    let text = format!("{head}{discipline}\n");
    let outcome = import::read(language, text.as_bytes(), "f", &options);
    let finding = outcome.findings.iter().find(|one| one.code == "W403");
    match wanted {
        Ok((queue, fate, note)) => {
            let import = outcome.plan.unwrap_or_else(|| panic!("{text}: {finding:?}"));
            let policy = &import.policies[0].policy;
            assert!(policy.contains(&format!("queue = {{ {queue} }}\n")), "{text}{policy}");
            assert_eq!(import.lines[0].fate, fate, "{text}{:?}", import.lines);
            assert!(import.lines[0].note.contains(note), "{text}{:?}", import.lines);
        }
        Err(word) => {
            let finding = finding.unwrap_or_else(|| panic!("{text}: no error"));
            let at = head.len() + discipline.rfind(word).expect("rows name a word") + 1;
            assert_eq!(finding.place.column, at, "{finding:?}");
        }
    }
}

#[test]
fn zero_is_none_for_tc_or_drops_every_packet() {
    let (fq, codel) = ("dropper = \"fq-codel\"", "dropper = \"codel\", root = \"linux\"");
    let pie = "dropper = \"pie\", bytes = false";
    let none = "stands for the default";
    let drops = "drops every packet";
    let rows = [
        ("pfifo limit 0", "limit = \"1 packet\"", Fate::Approximated, drops),
        ("pfifo limit 1k", "limit = \"1024 packets\"", Fate::Kept, ""),
        ("bfifo limit 0", "limit = \"1 B\"", Fate::Approximated, drops),
        ("bfifo limit 1k", "limit = \"1024 B\"", Fate::Kept, ""),
        (
            "pfifo_head_drop limit 0",
            "dropper = \"head\", limit = \"1 packet\"",
            Fate::Approximated,
            drops,
        ),
        ("fq_codel limit 0", fq, Fate::Kept, none),
        ("fq_codel flows 0", fq, Fate::Kept, none),
        ("fq_codel quantum 0", fq, Fate::Kept, none),
        ("fq_codel interval 0", fq, Fate::Kept, none),
        ("fq_codel target 999ns", fq, Fate::Kept, none),
        ("fq_codel target 1999ns", "dropper = \"fq-codel\", target = \"1 us\"", Fate::Kept, ""),
        (
            "fq_codel memory_limit 0",
            "dropper = \"fq-codel\", memory = \"1 B\"",
            Fate::Approximated,
            drops,
        ),
        (
            "fq_codel memory_limit 3g",
            "dropper = \"fq-codel\", memory = \"2147483648 B\"",
            Fate::Kept,
            "",
        ),
        ("fq_codel limit 0x10", "dropper = \"fq-codel\", limit = \"16 packets\"", Fate::Kept, ""),
        ("fq_codel flows 65536", "dropper = \"fq-codel\", flows = 65536", Fate::Kept, ""),
        ("codel limit 0 interval 0 target 0", codel, Fate::Kept, none),
        ("pie limit 0 tupdate 0 target 0", pie, Fate::Kept, none),
        ("pie alpha 0 beta 0", pie, Fate::Kept, none),
        ("pie alpha 32", "dropper = \"pie\", alpha = 32, bytes = false", Fate::Kept, ""),
        (
            "sfq limit 2 divisor 0 flows 0",
            "dropper = \"sfq\", limit = \"2 packets\"",
            Fate::Kept,
            "",
        ),
    ];
    for (discipline, queue, fate, note) in rows {
        check_queue(discipline, Ok((queue, fate, note)));
    }
}

#[test]
fn numbers_that_tc_or_the_kernel_refuses_are_errors() {
    let rows = [
        ("pfifo limit 4294967296", "4294967296"),
        ("bfifo limit 99999999999", "99999999999"),
        ("fq_codel limit 99999999999", "99999999999"),
        ("fq_codel limit 10k", "10k"),
        ("fq_codel flows 65537", "65537"),
        ("fq_codel quantum 10k", "10k"),
        ("fq_codel quantum 1048577", "1048577"),
        ("fq_codel memory_limit 99g", "99g"),
        ("fq_codel drop_batch x", "x"),
        ("fq_codel ce_threshold x", "x"),
        ("codel limit 99999999999", "99999999999"),
        ("pie alpha 33", "33"),
        ("pie beta 33", "33"),
        ("sfq limit 0", "0"),
        ("sfq limit 1", "1"),
        ("sfq divisor 100", "100"),
        ("sfq divisor 131072", "131072"),
        ("sfq flows x", "x"),
        ("sfq quantum x", "x"),
        ("dualpi2 typical_rtt 50ms max_rtt 10ms", "10ms"),
        ("dualpi2 max_rtt 5s", "5s"),
        ("dualpi2 step_thresh 5q", "5q"),
        ("dualpi2 alpha 0.003", "0.003"),
        ("dualpi2 classic_protection 101%", "101%"),
        ("cake mpu 300", "300"),
        ("cake overhead -65", "-65"),
    ];
    for (discipline, word) in rows {
        check_queue(discipline, Err(word));
    }
}

/// Checks a rule of a class in the policy of a text.
fn check_rule(text: &str, name: &str, wanted: &str) {
    let policy = read(text, None).policies.remove(0).policy;
    let text_of = class(&policy, name);
    let found = if wanted.starts_with("[link]") { policy.as_str() } else { text_of };
    assert!(found.contains(wanted), "{wanted:?} is not in {name}:\n{policy}");
}

#[test]
fn the_grammar_is_that_of_tc() {
    let tree = |lines: &str| format!("{TREE}{lines}\n");
    let change = "filter add dev a parent 1: protocol ip prio 1 handle 800::1 u32 match ip dport 80 0xffff flowid 1:10
filter change dev a parent 1: protocol ip prio 1 handle 800::1 u32 flowid 1:30";
    let table = "filter add dev a parent 1: prio 5 protocol ip u32
filter add dev a parent 1: prio 5 handle 4: protocol ip u32 divisor 256
filter add dev a parent 1: prio 5 protocol ip u32 ht 800:: match ip dst 192.168.0.0/16 hashkey mask 0x000000ff at 16 link 4:
filter add dev a parent 1: protocol ip prio 5 u32 ht 4:9: match ip dst \"192.168.0.9\" flowid 1:10";
    let next = "filter add dev a parent 1: prio 5 handle 1: protocol ip u32 divisor 1
filter add dev a parent 1: prio 5 protocol ip u32 ht 800:: match ip protocol 6 0xff offset at 0 mask 0f00 shift 6 link 1:
filter add dev a parent 1: protocol ip prio 5 u32 ht 1:: match tcp dst 80 0xffff flowid 1:10";
    let rows = [
        (change.to_owned(), "1-30", "{ ethertype = \"ipv4\", dport = \"80\", vlan = \"none\" }"),
        (table.to_owned(), "1-10", "{ dst = \"192.168.0.9/32\", vlan = \"none\" }"),
        (next.to_owned(), "1-10", "{ ethertype = \"ipv4\", proto = 6, dport = \"80\", vlan = \"none\" }"),
        (
            "f add dev a parent 1: proto ip pref 1 u32 match ip src 10/8 classid 1:10".to_owned(),
            "1-10",
            "src = \"10.0.0.0/8\"",
        ),
        (
            "filter add dev a parent 1: protocol all prio 1 basic match \"meta(vlan mask 0xfff eq 100)\" flowid 1:10".to_owned(),
            "1-10",
            "{ vlan = 100 }",
        ),
        (
            "filter add dev a parent 1: protocol ip prio 1 basic match 'cmp(u16 at 2 layer 2 gt 1023)' flowid 1:10".to_owned(),
            "1-10",
            "dport = \"1024-65535\"",
        ),
        (
            "filter add dev a parent 1: protocol ip prio 1 basic match 'cmp(u8 at 12 layer 1 eq 10)' flowid 1:10".to_owned(),
            "1-10",
            "src = \"10.0.0.0/8\"",
        ),
        (
            "filter add dev a parent 1: protocol ip prio 1 u32 match ether src 02:00:5e:10:00:01 flowid 1:10".to_owned(),
            "1-10",
            "src_mac = \"02:00:5e:10:00:01\"",
        ),
        (
            "filter add dev a parent 1: protocol ip prio 1 u32 match ip dport 80 0xfff7 flowid 1:10".to_owned(),
            "1-10",
            "dport = \"88\"",
        ),
        (
            "qdisc add dev a parent 1:10 handle 101: sfq\nfilter add dev a parent 101: protocol ip handle 10 flow hash keys dst divisor 1024".to_owned(),
            "1-10",
            "queue = { dropper = \"sfq\", hash = \"dstaddr\" }",
        ),
        ("c add dev a parent 1: classid 1:40 est 1sec 8sec htb rate 1.25e-05KBps".to_owned(), "1-40", "rate = "),
        ("class add dev a classid 0x1:0x50 htb rate 1mbit burst 1.25e-05KB".to_owned(), "1-50", "burst = \"1600 B\""),
        ("class add dev a parent 1:77 classid 1:60 htb rate 1mbit".to_owned(), "1-60", "rate = \"1 Mbit/s\""),
    ];
    for (lines, name, wanted) in rows {
        check_rule(&tree(&lines), name, wanted);
    }
    let head = "qdisc add dev ppp0 parent root handle 0x1: stab overhead 36 linklayer ethernet htb default 10\n\
                class add dev ppp0 parent 1: classid 1:10 htb rate 1mbit\n";
    assert!(read(head, None).policies[0].policy.contains("overhead = { bytes = 22 }"));
}

#[test]
fn what_tc_shows_is_read_as_the_commands_that_made_it() {
    let text = "qdisc htb 1: dev d0 root refcnt 3 r2q 20 default 0x30 direct_packets_stat 0 ver 3.17 direct_qlen 1000
 linklayer atm overhead 24 mpu 84 mtu 2047 tsize 512\x20
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\x20
qdisc pfifo 10: dev d0 parent 1:10 limit 30p
class htb 1:10 parent 1:1 leaf 10: prio 3 quantum 3000 rate 1Mbit ceil 2Mbit linklayer ethernet burst 1600b/1 mpu 0b cburst 1600b/1 mpu 0b level 0\x20
class htb 1:1 root rate 33333Kbit ceil 40Mbit linklayer ethernet burst 15Kb/1 mpu 0b cburst 1600b/1 mpu 0b level 7\x20
class htb 1:30 parent 1:1 leaf 30: prio 0 quantum 12500 rate 2Mbit ceil 2Mbit linklayer ethernet burst 1600b/1 mpu 0b cburst 1600b/1 mpu 0b level 0\x20
filter parent 1: protocol ip pref 5 u32 chain 0\x20
filter parent 1: protocol ip pref 5 u32 chain 0 fh 4: ht divisor 256\x20
filter parent 1: protocol ip pref 5 u32 chain 0 fh 4:9:800 order 2048 key ht 4 bkt 9 *flowid 1:10 not_in_hw\x20
  match c0a80009/ffffffff at 16
filter parent 1: protocol ip pref 5 u32 chain 0 fh 800: ht divisor 1\x20
filter parent 1: protocol ip pref 5 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 link 4: not_in_hw\x20
  match c0a80000/ffff0000 at 16
    hash mask 000000ff at 16\x20
filter parent 1: protocol ip pref 8 u32 chain 0 fh 802: ht divisor 1\x20
filter parent 1: protocol ip pref 8 u32 chain 0 fh 802::800 order 2048 key ht 802 bkt 0 *flowid 1:10 not_in_hw  (rule hit 42 success 7)
  match 00110000/00ff0000 at 8 (success 7 )\x20
";
    let json = r#"[{"kind":"htb","handle":"1:","dev":"d0","root":true,"refcnt":3,"options":{"r2q":20,"default":"0x30","direct_packets_stat":0,"ver":"3.17","direct_qlen":1000},"stab":{"linklayer":"atm","overhead":24,"mpu":84,"mtu":2047,"tsize":512}},{"kind":"pfifo","handle":"10:","dev":"d0","parent":"1:10","options":{"limit":30}}]
[{"class":"htb","handle":"1:10","parent":"1:1","leaf":"10:","prio":3,"quantum":3000,"rate":125000,"ceil":250000,"linklayer":"ethernet","burst":1600,"mpu":0,"cburst":1600,"level":0},{"class":"htb","handle":"1:1","root":true,"rate":4166625,"ceil":5000000,"burst":15360,"cburst":1600,"level":7},{"class":"htb","handle":"1:30","parent":"1:1","prio":0,"quantum":12500,"rate":250000,"ceil":250000,"burst":1600,"cburst":1600,"level":0}]
[{"parent":"1:","protocol":"ip","pref":5,"kind":"u32","chain":0},{"parent":"1:","protocol":"ip","pref":5,"kind":"u32","chain":0,"options":{"fh":"4:","ht_divisor":256}},{"parent":"1:","protocol":"ip","pref":5,"kind":"u32","chain":0,"options":{"fh":"4:9:800","order":2048,"key_ht":"4","bkt":"9","flowid":"1:10","not_in_hw":true,"match":{"value":"c0a80009","mask":"ffffffff","offmask":"","off":16}}},{"parent":"1:","protocol":"ip","pref":5,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,"key_ht":"800","bkt":"0","link":"4:","not_in_hw":true,"match":{"value":"c0a80000","mask":"ffff0000","offmask":"","off":16},"hash_mask":"ff","hash_off":16}},{"parent":"1:","protocol":"ip","pref":8,"kind":"u32","chain":0,"options":{"fh":"802::800","order":2048,"key_ht":"802","bkt":"0","flowid":"1:10","not_in_hw":true,"match":{"value":"110000","mask":"ff0000","offmask":"","off":8}}}]
"#;
    for text in [text, json] {
        let import = read(text, None);
        let one = &import.policies[0];
        assert_eq!(one.interface, "d0");
        let wanted = [
            ("", "overhead = { bytes = 24, minimum = 84, cell = 48 }"),
            ("", "r2q = 20"),
            ("1-10", "ceil = \"2 Mbit/s\"\nburst = \"1600 B\"\ncburst = \"1600 B\"\nprio = 3"),
            ("1-10", "quantum = \"3000 B\""),
            ("1-10", "queue = { limit = \"30 packets\" }"),
            ("1-10", "{ dst = \"192.168.0.9/32\", vlan = \"none\" }"),
            ("1-10", "{ ethertype = \"ipv4\", proto = 17, vlan = \"none\" }"),
            ("1-30", "default = true"),
        ];
        for (name, part) in wanted {
            let text_of =
                if name.is_empty() { one.policy.as_str() } else { class(&one.policy, name) };
            assert!(text_of.contains(part), "{part:?} is not in {name}:\n{}", one.policy);
        }
        assert!(import.lines.iter().all(|line| line.fate != Fate::Lost), "{:#?}", import.lines);
    }
}

#[test]
fn the_root_of_hfsc_that_tc_shows_is_no_class() {
    let text = "qdisc hfsc 1: dev d0 root refcnt 2 default 0x3\n\
                class hfsc 1: root\n\
                class hfsc 1:3 parent 1: ls m1 0bit d 0us m2 8Mbit\n";
    let policy = &read(text, None).policies[0].policy;
    assert!(policy.contains("[class.1-3]") && !policy.contains("1-0"), "{policy}");
}

#[test]
fn virtual_queues_of_a_gred_have_one_pause() {
    let queue = |number: u8, rate: &str| {
        format!(
            "qdisc change dev a root gred vq {number} limit 60kb min 15kb max 25kb burst 20 \
             avpkt 1000 bandwidth {rate}\n"
        )
    };
    for (rate, note) in [("10mbit", ""), ("20mbit", "one `pkttime`")] {
        let head = "qdisc add dev a root gred setup vqs 3 default 1\n";
        let import = read(&format!("{head}{}{}", queue(1, "10mbit"), queue(2, rate)), None);
        let found = &import.lines[2].note;
        assert!(found.contains(note) && found.is_empty() == note.is_empty(), "{found}");
    }
}

/// Checks the queue that a discipline at the root becomes, and what is not kept.
fn check_shown(text: &str, wanted: &str, note: &str) {
    let import = read(text, Some("10 Mbit/s"));
    let policy = import.policies[0].policy.replace('"', "'");
    assert!(policy.contains(wanted), "{wanted} is not in\n{policy}of {text}");
    assert!(import.lines.iter().all(|line| line.fate != Fate::Lost), "{:#?}", import.lines);
    let notes: Vec<&str> = import.lines.iter().map(|line| line.note.as_str()).collect();
    let found = notes.iter().any(|one| one.contains(note));
    assert!(found && (!note.is_empty() || notes.iter().all(|one| !one.contains("left out"))));
}

#[test]
fn queues_that_tc_shows_are_read() {
    let fq = "queue = { dropper = 'fq', limit = '30000 packets', bands = 'tos', band_limit = 10000, \
              maxrate = '20000000 bit/s', flow_limit = 100, flows = 1024, weight0 = 589824, \
              weight1 = 196608, weight2 = 65536, quantum = '3028 B', initial_quantum = '15140 B', \
              low_rate_threshold = '550000 bit/s', refill_delay = '40 ms' }";
    let dualpi2 = "queue = { dropper = 'dualpi2', rules = 'linux', limit = '10000 packets', \
                   target = '15 ms', update = '16 ms', alpha = 41, beta = 819, step_packets = 5, \
                   coupling = 2, overload = 'drop', protection = 10, identifier = 'ect1' }";
    let cake = "overhead = 'docsis'\nfollows_arrivals = true\n\n[class.all]\nqueue = { dropper = \
                'cake', tins = 'diffserv4', hash = 'dual-srchost', target = '5 ms', interval = \
                '100 ms', memory = '4194304 B', ack_filter = 'spare' }";
    let sfb = "queue = { dropper = 'sfb', rehash = '600000 ms', warmup = '60000 ms', increment = \
               '0.0504 %', decrement = '0.0046 %', penalty_rate = 10, penalty_burst = 20, limit = \
               '1000 packets', max = 25, target = 20 }";
    let old_sfb = "increment = '0.0500 %', decrement = '0.0050 %', penalty_rate = 10, \
                   penalty_burst = 20, rehash = '600000 ms', warmup = '60000 ms', limit";
    let gred = "queue = { dropper = 'gred', by = 'precedence', grio = true, default = 2, limit = \
                '184320 B', max_1 = '25600 B', min_1 = '15360 B', limit_1 = '61440 B', weight_1 = \
                4, pmax_1 = '2.0000 %', prio_1 = 2, max_2";
    let detailed = "max_1 = '25600 B', min_1 = '15360 B', limit_1 = '61440 B', weight_1 = 512, \
                    pmax_1 = '5.0000 %', prio_1 = 2, pkttime = ";
    let choke = "queue = { dropper = 'choke', limit = '1000 packets', min = 83, max = 250, pmax = \
                 '2.0000 %', weight = 64, ecn = true }";
    let rows = [
        (FQ_SHOWN, fq, ""),
        (FQ_JSON, fq, ""),
        (DUALPI2_SHOWN, dualpi2, ""),
        (DUALPI2_JSON, dualpi2, ""),
        (CAKE_SHOWN, cake, "`nat` is left out"),
        (CAKE_JSON, cake, "`nat` is left out"),
        (
            "qdisc cake 1: dev a root bandwidth unlimited besteffort raw overhead 0\n",
            "unlimited",
            "",
        ),
        (SFB_SHOWN, sfb, ""),
        (SFB_JSON, sfb, ""),
        (OLD_SFB_SHOWN, old_sfb, ""),
        (GRED_SHOWN, gred, "neither burst nor bandwidth"),
        (GRED_JSON, gred, "neither burst nor bandwidth"),
        (GRED_DETAILED, detailed, ""),
        (CHOKE_SHOWN, choke, "neither burst nor bandwidth"),
        (CHOKE_DETAILED, "weight = 128, halves = ", ""),
    ];
    for (text, wanted, note) in rows {
        check_shown(text, wanted, note);
        let known = import::known::of(text).map(|known| known.name);
        assert_eq!(known, Some("tc"), "{text}");
    }
}

const FQ_SHOWN: &str = "\
qdisc fq 8001: dev a root refcnt 2 limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b initial_quantum 15140b maxrate 20Mbit low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s horizon_drop offload_horizon 0us
 Sent 1470 bytes 10 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
  flows 3 (inactive 2 throttled 0) band0_pkts 0 band1_pkts 0 band2_pkts 0
  gc 0 highprio 0 fastpath 8 throttled 0
";
const FQ_JSON: &str = r#"[{"kind": "fq", "handle": "8001:", "dev": "a", "root": true, "refcnt": 2, "options": {"limit": 10000, "flow_limit": 100, "buckets": 1024, "orphan_mask": 1023, "bands": 3, "priomap ": [1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1], "weights ": [589824,196608,65536], "quantum": 3028, "initial_quantum": 15140, "maxrate": 2500000, "low_rate_threshold": 68750, "refill_delay": 40000, "timer_slack": 10000, "horizon": 10000000, "horizon_drop": null}, "bytes": 1470, "packets": 10, "flows": 3, "inactive": 2, "throttled": 0, "gc": 0, "latency": 7}]
"#;
const DUALPI2_SHOWN: &str = "\
qdisc dualpi2 8001: dev a root refcnt 2 limit 10000p memlimit 30280000B target 15ms tupdate 16ms alpha 0.160156 beta 3.199219 step_thresh 5p min_qlen_step 0p coupling_factor 2 drop_on_overload drop_dequeue classic_protection 10% l4s_ect no_split_gso\x20
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
prob 0.000000 delay_c 0us delay_l 0us
pkts_in_c 0 pkts_in_l 0 maxq 0
ecn_mark 0 step_mark 0
credit 0 (L-queue)
memory_used 0 (max 0) of memory limit 30280000

";
const DUALPI2_JSON: &str = r#"[{"kind":"dualpi2","handle":"8001:","dev":"a","root":true,"refcnt":2,"options":{"limit":10000,"memory-limit":30280000,"target":15000,"tupdate":16000,"alpha":0.160156,"beta":3.19922,"step-thresh-pkts":5,"min-qlen-step":0,"coupling":2,"drop-overload":"drop","drop-early":"drop-dequeue","c-protection":10,"ecn-mask":"l4s-ect","split-gso":null},"bytes":0,"prob":0.1,"delay-c":0,"credit":0,"memory-used":0,"memory-limit":30280000}]
"#;
const CAKE_SHOWN: &str = "\
qdisc cake 8005: dev a root refcnt 2 bandwidth 18500Kbit autorate-ingress diffserv4 dual-srchost nat nowash ack-filter split-gso rtt 100ms noatm overhead 18 mpu 64 memlimit 4Mb
 Sent 56436 bytes 441 pkt (dropped 0, overlimits 126 requeues 0)
 memory used: 48Kb of 4Mb

                   Bulk  Best Effort        Video        Voice
  target       15.7ms          5ms          5ms          5ms
";
const CAKE_JSON: &str = r#"[ {
    "kind": "cake", "handle": "8005:", "dev": "a", "root": true, "refcnt": 2,
    "options": {"bandwidth": 2312500, "autorate": "autorate-ingress", "diffserv": "diffserv4", "flowmode": "dual-srchost", "nat": true, "wash": false, "ingress": false, "ack-filter": "enabled", "split_gso": true, "rtt": 100000, "raw": false, "atm": "noatm", "overhead": 18, "mpu": 64, "memlimit": 4194304, "fwmark": "0x0"},
    "bytes": 56436, "memory_used": 48, "memory_limit": 4194304, "capacity_estimate": 2312500, "tins": [{"threshold_rate": 1}]
} ]
"#;
const SFB_SHOWN: &str = "\
qdisc sfb 11: dev a root refcnt 2 rehash 600s db 60s limit 1000p max 25p target 20p increment 0.000503548 decrement 4.57771e-05 penalty_rate 10pps penalty_burst 20p\x20
  earlydrop 0 penaltydrop 0 bucketdrop 0 queuedrop 0 childdrop 0 marked 0
  maxqlen 0 maxprob 0 avgprob 0
";
const SFB_JSON: &str = r#"[{"kind":"sfb","handle":"11:","dev":"a","root":true,"options":{"rehash":600000000,"db":60000000,"limit":1000,"max":25,"target":20,"increment":0.000503548,"decrement":4.57771e-05,"penalty_rate":10,"penalty_burst":20},"marked":0}]
"#;
const OLD_SFB_SHOWN: &str = "\
qdisc sfb 11: dev a root refcnt 2 limit 1000 max 25 target 20
  increment 0.00050 decrement 0.00005 penalty rate 10 burst 20 (600000ms 60000ms)
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
";
const GRED_SHOWN: &str = "\
qdisc gred 8001: dev a root refcnt 2 vqs 3 default 2 grio limit 60Kb\x20
 vq 1 prio 2 limit 60Kb min 15Kb max 25Kb\x20
  Queue size: average 0b current 0b\x20
  Dropped packets: forced 0 early 0 pdrop 0 other 0\x20
 vq 2 prio 3 limit 60Kb min 10Kb max 25Kb\x20
";
const GRED_JSON: &str = r#"[{"kind":"gred","handle":"8001:","dev":"a","root":true,"options":{"dp_cnt":3,"dp_default":2,"grio":true,"limit":61440,"ecn":false,"vqs":[{"vq":1,"prio":2,"limit":61440,"min":15360,"max":25600,"ecn":false,"qave":3},{"vq":2,"prio":3,"limit":61440,"min":10240,"max":25600}]}}]
"#;
const GRED_DETAILED: &str = "\
qdisc gred 8001: dev a root refcnt 2 vqs 3 default 1 limit 60Kb\x20
 vq 1 prio 2 limit 60Kb min 15Kb max 25Kb ewma 9 probability 0.05 Scell_log 17\x20
";
const CHOKE_SHOWN: &str = "\
qdisc choke 11: dev a root refcnt 2 limit 1000p min 83p max 250p ecn\x20
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
  marked 0 early 0 pdrop 0 other 0 matched 0
";
const CHOKE_DETAILED: &str = "\
qdisc choke 11: dev a root refcnt 2 limit 1000p min 83p max 250p ewma 7 probability 0.02 Scell_log 12
";
