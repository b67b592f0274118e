//! `weir import` and `weir export`: their results, and that a round trip changes nothing.

use crate::seeds::seeds;
use std::fmt::Write;
use std::net::Ipv4Addr;
use weir_core::classify::InterfaceId;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::random::Random;
use weir_core::units::{Instant, Rate};
use weir_import::export::{self, Filters};
use weir_import::import::{self, Fate, Import, Options};
use weir_policy::finding::Severity;
use weir_policy::{Policy, policy};

/// Reads `text`, which must be valid.
fn imported(language: &str, text: &str) -> Import {
    let language = import::find(language).expect("rows name languages");
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    assert!(outcome.plan.is_some(), "{text}\n{:#?}", outcome.findings);
    outcome.plan.expect("errors were ruled out")
}

/// Checks that every policy checks and contains each of `wanted`; the lines in `fates` have that
/// fate, with a note that contains the text; all others are kept.
fn check(language: &str, text: &str, wanted: &[&str], fates: &[(usize, Fate, &str)]) {
    let import = imported(language, text);
    let all: String = import.policies.iter().map(|one| one.policy.as_str()).collect();
    for one in &import.policies {
        let outcome = policy::parse(&one.policy, "p");
        assert!(!outcome.failed(), "{}\n{:#?}", one.policy, outcome.findings);
    }
    for part in wanted {
        assert!(all.contains(part), "{part:?} is missing:\n{all}");
    }
    for &(line, fate, note) in fates {
        let found = import.lines.iter().find(|found| found.place.line == line);
        let found = found.unwrap_or_else(|| panic!("line {line} has no fate"));
        assert_eq!(found.fate, fate, "{found:?}");
        assert!(found.note.contains(note), "{found:?}");
    }
    for line in &import.lines {
        let named = fates.iter().any(|row| row.0 == line.place.line);
        assert!(named || line.fate == Fate::Kept, "{line:?}");
    }
}

/// Checks each error as `code@line:column`, and a part of the first one's cure.
fn check_faults(language: &str, text: &str, wanted: &[&str], cure: &str) {
    let language = import::find(language).expect("rows name languages");
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    let errors = outcome.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let found: Vec<String> =
        errors.map(|one| format!("{}@{}:{}", one.code, one.place.line, one.place.column)).collect();
    assert_eq!(found, wanted, "{text}\n{:#?}", outcome.findings);
    assert!(outcome.findings[0].cure.contains(cure), "{:#?}", outcome.findings[0]);
}

const ALTQ: &str = "\
interface en0 bandwidth 10M tbrsize 8K cbq
class cbq en0 root NULL pbandwidth 100
class cbq en0 ctl root pbandwidth 4 control
class cbq en0 def root borrow pbandwidth 95 default
class cbq en0 voice def priority 5 pbandwidth 10 maxburst 8 packetsize 200
\tfilter en0 voice ruleno 5 10.0.0.1 5004 0 0 17 tos 0xb8 tosmask 0xfc
class cbq en0 web def borrow pbandwidth 40 red maxdelay 50
\tfilter en0 web 0 0 192.168.1.7 netmask 0xffffff00 80 6 # web
\tfilter6 en0 web ::0 0 2001:db8::1/32 80 6
\tfilter en0 web 0 0 0 0 50 gpi 7
interface en1 bandwidth 1M wfq nqueues 64 hash full
interface en2 bandwidth 1M priq
class priq en2 high root priority 9
class priq en2 low root priority 0 default
filter en2 high 0 22 0 0 6
";

#[test]
fn altq_conf_keeps_its_classes_filters_and_order() {
    check(
        "altq",
        ALTQ,
        &[
            "rate = \"10 Mbit/s\"\nscheduler = \"cbq\"\nmatch_order = \"altq\"",
            "[class.def-own]\nparent = \"def\"\nrate = \"4.5 Mbit/s\"",
            "[class.voice]\nparent = \"def\"\nrate = \"1 Mbit/s\"\nborrow = false\nburst = \"1600 B\"\n\
             priority = 5",
            "{ dst = \"10.0.0.1/32\", proto = 17, dport = \"5004\", dscp = 46, ruleno = ",
            "queue = { dropper = \"red-altq\", limit = \"16 packets\", notices_idle = false }",
            "{ src = \"192.168.1.0/24\", proto = 6, sport = \"80\"",
            "{ src = \"2001:db8::/32\", proto = 6, sport = \"80\"",
            "hash = \"full\"\nqueues = 64",
            "scheduler = \"priq\"\nmatch_order = \"altq\"\n\n[class.high]\npriority = 9",
        ],
        &[
            (1, Fate::Approximated, "tbrsize"),
            (4, Fate::Approximated, "def-own"),
            (10, Fate::Lost, "gpi"),
        ],
    );
}

#[test]
fn a_default_class_of_altq_gives_rate_to_a_control_class() {
    let text = "interface en0 bandwidth 100M cbq\nclass cbq en0 root NULL pbandwidth 100\n\
                class cbq en0 def root borrow pbandwidth 95 default\n";
    let wanted =
        ["[class.ctl_class]\nparent = \"root\"\nrate = \"2 Mbit/s\"", "rate = \"93 Mbit/s\""];
    check("altq", text, &wanted, &[(3, Fate::Kept, "a class `ctl_class` gets 2 % of the link")]);
}

#[test]
fn curves_of_altq_become_curves() {
    let text = "interface en0 bandwidth 10M hfsc\n\
                class hfsc en0 a root [sc 2M 10 1M] default\n\
                class hfsc en0 b root grate 1M pshare 20 qlimit 10\nfilter en0 b 0 53 0 0 17\n";
    let wanted = [
        "ls_m1 = \"2 Mbit/s\"\nls_d = \"10 ms\"\nls_m2 = \"1 Mbit/s\"\nrt_m1 = \"2 Mbit/s\"",
        "ls_m2 = \"2 Mbit/s\"\nrt_m2 = \"1 Mbit/s\"\nqueue = { dropper = \"tail\", limit = \"10 packets\" }",
    ];
    check("altq", text, &wanted, &[]);
}

#[test]
fn conditioners_of_altq_become_police() {
    let text = "interface en0\nconditioner en0 a <tbmeter 6M 64K <pass><drop>>\n\
                filter en0 a 0 0 10.0.0.1 0 0\nconditioner en0 b <mark 0xb8>\nfilter en0 b 0 0 10.0.0.2 0 0\n\
                conditioner en0 c <tbmeter 10M 8K <tbmeter 3M 4K <mark 0x28><mark 0x30>><mark 0x38>>\n\
                filter en0 c 0 0 10.0.0.3 0 0\n\
                conditioner en0 d <tswtcm 1M 2M 500 <pass><tbmeter 1M 1K <pass><drop>><drop>>\n\
                filter en0 d 0 0 10.0.0.4 0 0\n";
    let wanted = [
        "police = { rate = \"6 Mbit/s\", depth = \"65536 B\", lazy = true, in = \"pass\", out = \"drop\" }",
        "in = \"mark 46\", out = \"mark 46\"",
        "meter = \"trtcm\", rate = \"3 Mbit/s\", depth = \"4096 B\", peak_rate = \"10 Mbit/s\"",
    ];
    let fates = [
        (1, Fate::Approximated, "--rate"),
        (8, Fate::Lost, "one meter"),
        (9, Fate::Lost, "conditioner"),
    ];
    check("altq", text, &wanted, &fates);
}

#[test]
fn errors_of_altq_conf_point_at_their_word() {
    let head = "interface en0 bandwidth 10M cbq\nclass cbq en0 root NULL default\n";
    let rows = [
        ("filtre en0 root 0 0 0 0 6", "W401@3:1", "did you mean `filter`?"),
        ("class cbq en0 a root borow", "W401@3:22", "did you mean `borrow`?"),
        ("class cbq en0 a rooot", "W404@3:17", "did you mean `root`?"),
        ("class cbq en1 a root", "W404@3:11", "did you mean `en0`?"),
        ("class cbq en0 a", "W402@3:16", "parent"),
        ("class cbq en0 a root pbandwidth x", "W403@3:33", "percentage"),
        ("class cbq en0 root NULL", "W405@3:15", "rename"),
        ("filter en0 root 0 0 0 0 tcpp", "W403@3:25", "number"),
        ("interface en0", "W405@3:11", "keep one"),
        ("conditioner en0 c <dorp>", "W401@3:20", "did you mean `drop`?"),
    ];
    for (line, wanted, cure) in rows {
        check_faults("altq", &format!("{head}{line}\n"), &[wanted], cure);
    }
    check_faults("altq", "", &["W408@1:1"], "altq.conf");
    let gone = "tc qdisc del dev eth0 root\ntc qdisc del dev eth0 ingress\n";
    check_faults("tc", gone, &["W408@1:1"], "such as `start`");
    let no_default = "interface en0 bandwidth 1M cbq\nclass cbq en0 root NULL\n";
    check_faults("altq", no_default, &["W406@1:11"], "default");
}

const PF: &str = "\
ext = \"em0\"
web = \"{ 80, 443 }\"
altq on $ext cbq bandwidth 10Mb queue { std, web, ssh }
queue std bandwidth 10% cbq(default)
queue web bandwidth 60% priority 3 cbq(borrow red) { staff guests }
queue  staff bandwidth 70%
queue  guests bandwidth 30%
queue ssh bandwidth 20% qlimit 20 cbq(borrow)
block in all
pass out on $ext proto tcp from 10.0.0.0/24 to any port $web queue staff
pass out on $ext proto tcp from 10.0.1.0/24 to any port $web queue guests
pass out quick on $ext proto tcp to any port ssh queue ssh
pass in on $ext proto tcp to any port 22 keep state queue (web, ssh)
";

#[test]
fn pf_conf_keeps_its_queues_and_the_last_match() {
    check(
        "pf",
        &PF.replace("(web, ssh)", "(std, ssh)"),
        &[
            "match_order = \"u32\"",
            "[class.web]\nrate = \"6 Mbit/s\"",
            "[class.staff]\nparent = \"web\"\nrate = \"4.2 Mbit/s\"\nborrow = false",
            "{ src = \"10.0.0.0/24\", proto = 6, dport = \"443\", prio = 5 }",
            "{ src = \"10.0.1.0/24\", proto = 6, dport = \"80\", prio = 4 }",
            "{ proto = 6, dport = \"22\", prio = 3 }",
            "{ proto = 6, sport = \"22\", dscp = [4, 5, 6, 7, 12, 13, ",
        ],
        &[(9, Fate::Lost, "filter"), (13, Fate::Approximated, "acknowledgements")],
    );
}

#[test]
fn the_newer_queues_of_pf_become_curves() {
    let text = "queue root on em0 bandwidth 100M max 100M\n\
                queue std parent root bandwidth 60M min 10M max 90M default\n\
                queue voip parent root bandwidth 10M min 5M burst 20M for 50ms\n\
                match out on em0 proto udp to port 5004:5010 set queue voip\n";
    let wanted = [
        "scheduler = \"hfsc\"",
        "ls_m2 = \"60 Mbit/s\"\nul_m2 = \"90 Mbit/s\"\nrt_m2 = \"10 Mbit/s\"",
        "rt_m1 = \"20 Mbit/s\"\nrt_d = \"50 ms\"\nrt_m2 = \"5 Mbit/s\"",
        "{ proto = 17, dport = \"5004-5010\" }",
    ];
    check("pf", text, &wanted, &[]);
}

#[test]
fn errors_of_pf_conf_point_at_their_word() {
    let head = "altq on em0 cbq bandwidth 1Mb queue { a, bb }\nqueue a cbq(default)\n";
    let rows = [
        ("queue bbb", "W404@3:7", "`bb`"),
        ("queue bb bandwith 10%", "W401@3:10", "did you mean `bandwidth`?"),
        ("queue bb bandwidth 10x", "W403@3:20", "10Mb"),
        ("queue bb priority 9", "W403@3:7", "0 to 7"),
        ("queue bb cbq(borow)", "W401@3:14", "did you mean `borrow`?"),
        ("pass out tos af99 queue a", "W403@3:14", "a DSCP such as `af41`"),
        ("pas out all", "W401@3:1", "did you mean `pass`?"),
        ("pass out qick all", "W401@3:10", "did you mean `quick`?"),
        ("pass out on $em all", "W404@3:13", "macro"),
        ("altq on em0 priq queue x", "W405@3:9", "keep one"),
        ("altq on em1 bandwidth 1Mb queue x", "W402@3:1", "`cbq`"),
    ];
    for (line, wanted, cure) in rows {
        check_faults("pf", &format!("{head}{line}\n"), &[wanted], cure);
    }
}

const TC: &str = "\
# The commands of a script.
/sbin/tc qdisc del dev eth0 root 2>/dev/null
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 20000kbit burst 6k
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5000kbit ceil 20000kbit \\
    prio 0
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 15000kbit prio 2
tc qdisc add dev eth0 parent 1:10 handle 10: sfq perturb 10
tc qdisc add dev eth0 parent 1:30 handle 30: fq_codel limit 500 noecn
sudo tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 5004 0xffff flowid 1:10
ip netns exec r1 tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 5005 0xffff flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip tos 0xb8 0xfc flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 3 u32 match u8 0x05 0x0f at 0 flowid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 4 handle 1 fw flowid 1:10
tc filter add dev eth0 parent 1: protocol ipv6 prio 5 flower ip_proto tcp dst_port 80-90 classid 1:10
";

#[test]
fn plain_lines_of_tc_are_read() {
    check(
        "tc",
        TC,
        &[
            "rate = \"20 Mbit/s\"\nscheduler = \"htb\"",
            "[class.1-10]\nparent = \"1-1\"\nrate = \"5 Mbit/s\"\nceil = \"20 Mbit/s\"\n\
             burst = \"1600 B\"\ncburst = \"1600 B\"\nprio = 0",
            "queue = { dropper = \"fq-codel\", limit = \"500 packets\", ecn = false }\ndefault = true",
            "{ ethertype = \"ipv4\", dport = \"5004\", vlan = \"none\" }",
            "{ ethertype = \"ipv4\", dport = \"5005\", vlan = \"none\" }",
            "{ ethertype = \"ipv4\", vlan = \"none\", mark = 1 }",
            "{ ethertype = \"ipv4\", dscp = 46, vlan = \"none\" }",
            "{ ethertype = \"ipv6\", proto = 6, dport = \"80-90\", vlan = \"none\" }",
        ],
        &[
            (8, Fate::Approximated, "the hash stays"),
            (10, Fate::Approximated, "fragments"),
            (11, Fate::Approximated, "fragments"),
            (13, Fate::Lost, "u8 at 0"),
            (14, Fate::Approximated, "no packet at a port"),
            (15, Fate::Approximated, "fragments"),
        ],
    );
}

#[test]
fn replaced_or_deleted_objects_have_no_effect() {
    let text = "\
qdisc add dev a root handle 1: prio
qdisc del dev a root
qdisc add dev a root handle 1: htb default 1
class add dev a parent 1: classid 1:1 htb rate 1mbit
class replace dev a parent 1: classid 1:1 htb rate 2mbit
filter del dev a parent 1:
";
    let wanted = ["scheduler = \"htb\"\n\n[class.1-1]\nrate = \"2 Mbit/s\""];
    check("tc", text, &wanted, &[(1, Fate::Approximated, "priomap")]);
}

/// A tree in which the classes with children have filters of their own.
const NESTED: &str = "\
qdisc add dev a root handle 1: htb default 30
class add dev a parent 1: classid 1:1 htb rate 10mbit
class add dev a parent 1:1 classid 1:10 htb rate 4mbit
class add dev a parent 1:10 classid 1:11 htb rate 2mbit
class add dev a parent 1:10 classid 1:12 htb rate 1mbit
class add dev a parent 1:1 classid 1:30 htb rate 1mbit
filter add dev a parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.0/8 flowid 1:10
filter add dev a parent 1: protocol ip prio 2 u32 match ip dport 25 0xffff flowid 1:12
filter add dev a parent 1:10 protocol ip prio 1 u32 match ip dst 10.1.0.0/16 match ip protocol 6 0xff flowid 1:11
filter add dev a parent 1:10 protocol ip prio 2 u32 match ip dst 192.168.0.0/16 flowid 1:11
filter add dev a parent 1:10 protocol ip prio 3 flower ip_proto udp dst_port 5000-6000 flowid 1:12
filter add dev a parent 1:30 protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:12
filter add dev a parent 1:1 protocol ip prio 1 u32 match ip dport 81 0xffff flowid 1:12
";

#[test]
fn filters_of_a_class_apply_to_packets_sent_there() {
    let wanted = [
        "[class.1-11]\nparent = \"1-10\"\nrate = \"2 Mbit/s\"\n\
         burst = \"1600 B\"\ncburst = \"1600 B\"\nqueue = { limit = \"1000 packets\" }\nmatch = [\n    \
         { dst = \"10.1.0.0/16\", vlan = \"none\", proto = 6, prio = 1 },\n]",
        "{ dst = \"10.0.0.0/8\", vlan = \"none\", ethertype = \"ipv4\", proto = 17, dport = \"5000-6000\", prio = 2 }",
        "{ dst = \"10.0.0.0/8\", vlan = \"none\", prio = 3 }",
        "{ ethertype = \"ipv4\", dport = \"25\", vlan = \"none\", prio = 4 }",
    ];
    let fates = [
        (8, Fate::Approximated, "fragments"),
        (11, Fate::Approximated, "fragments"),
        (12, Fate::Lost, "below a class"),
        (13, Fate::Lost, "no filter leads"),
    ];
    check("tc", NESTED, &wanted, &fates);
    imported("tc", NESTED).policies.iter().for_each(|one| check_fixed(&one.policy));
}

/// Compares the kernel's HTB, filter by filter, with the policy.
#[test]
fn a_chain_of_filters_takes_what_the_kernel_takes() {
    let policy = parsed(&imported("tc", NESTED).policies.remove(0).policy);
    let mut classifier = policy.classifier();
    let rows = [
        ("10.1.2.3", 6, 80, "1-11"),
        // The chain ends in the class: the root's next filter is not tried.
        ("10.2.0.1", 6, 25, "1-30"),
        ("10.1.2.3", 17, 5004, "1-12"),
        ("10.1.2.3", 17, 4999, "1-30"),
        ("192.168.0.1", 6, 25, "1-12"),
        ("192.168.0.1", 6, 80, "1-30"),
    ];
    for (destination, protocol, port, wanted) in rows {
        let source = Ipv4Addr::new(172, 16, 0, 1);
        let destination = destination.parse().expect("rows hold addresses");
        let addresses = Addresses::V4 { source, destination };
        let ports = Ports { source: 1000, destination: port };
        let headers = Headers::of_flow(addresses, Protocol(protocol), ports);
        let found = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
        assert_eq!(policy.leaf_name(found.leaf), wanted, "{destination} {protocol} {port}");
    }
}

#[test]
fn batches_of_tc_are_read_whatever_their_disciplines() {
    let text = "\
qdisc add dev a root handle 1: hfsc default 2
class add dev a parent 1: classid 1:1 hfsc ls m2 10mbit ul m2 10mbit
class add dev a parent 1:1 classid 1:2 hfsc rt m1 2mbit d 10ms m2 500kbit ls m2 1mbit
qdisc add dev b root tbf rate 5mbit burst 15k latency 50ms
qdisc add dev c root handle 1: prio
qdisc add dev c parent 1:3 pfifo_head_drop limit 7
filter add dev c parent 1: protocol ip prio 1 basic match 'cmp(u8 at 9 layer 1 eq 6) and cmp(u16 at 2 layer 2 eq 22)' flowid 1:1
qdisc add dev d root handle 1: drr
class add dev d parent 1: classid 1:1 drr quantum 3000
filter add dev d parent 1: protocol all prio 1 matchall flowid 1:1
qdisc add dev e root handle 1: cbq bandwidth 10mbit avpkt 1000
class add dev e parent 1: classid 1:1 cbq bandwidth 10mbit rate 2mbit prio 3 avpkt 1000 bounded
filter add dev e parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff police rate 1mbit burst 10k drop flowid 1:1
qdisc add dev e parent 1:1 red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 probability 0.02 ecn
";
    check(
        "tc",
        text,
        &[
            "rt_m1 = \"2 Mbit/s\"\nrt_d = \"10 ms\"\nrt_m2 = \"500 kbit/s\"",
            "[link.tbf]\nrate = \"5 Mbit/s\"\nburst = \"15360 B\"",
            "queue = { limit = \"46610 B\" }",
            "queue = { dropper = \"head\", limit = \"7 packets\" }",
            "{ ethertype = \"ipv4\", proto = 6, dport = 22, vlan = \"none\" }",
            "quantum = \"3000 B\"",
            "borrow = false\npriority = 5",
            "police = { rate = \"1 Mbit/s\", depth = \"10240 B\", out = \"drop\" }",
            "pmax = \"2.0000 %\"",
        ],
        &[
            (5, Fate::Approximated, "--rate"),
            (7, Fate::Approximated, "fragments"),
            (8, Fate::Approximated, "--rate"),
            (11, Fate::Approximated, "least rate"),
            (12, Fate::Approximated, "sound variant"),
            (14, Fate::Approximated, "`burst`"),
        ],
    );
}

#[test]
fn errors_of_tc_point_at_their_word() {
    let head = "qdisc add dev a root handle 1: htb default 10\n\
                class add dev a parent 1: classid 1:10 htb rate 1mbit\n";
    let rows = [
        ("qdsic add dev a root htb", "W401@3:1", "did you mean `qdisc`?"),
        ("qdisc addd dev a root htb", "W401@3:7", "did you mean `add`?"),
        ("qdisc add dev b root htp", "W401@3:22", "did you mean `htb`?"),
        (
            "class add dev a parent 1: classid 1:11 htb ciel 1mbit",
            "W401@3:44",
            "did you mean `ceil`?",
        ),
        ("class add dev a parent 1: classid 1:11 htb rate 1xbit", "W403@3:49", "10mbit"),
        ("class add dev a parent 1: htb rate 1mbit", "W402@3:27", "classid"),
        ("class add dev a parent 1: classid 1:10 htb rate 1mbit", "W405@3:40", "another"),
        ("filter add dev a parent 1: flowr classid 1:10", "W401@3:28", "did you mean `flower`?"),
        ("qdisc add", "W402@3:10", "dev"),
        ("filter add dev a parent 1: prio 1 flowid 1:10", "W402@3:35", "`u32`"),
        ("for i in 1 2; do tc qdisc show; done", "W401@3:1", "--from-kernel"),
        ("R=1mbit", "W401@3:1", "--run FILE"),
        ("tc class add dev a parent 1: classid 1:11 htb rate $R", "W401@3:1", "--run FILE"),
        ("iptables -t mangle -F", "W401@3:1", "--run FILE"),
    ];
    for (line, wanted, cure) in rows {
        check_faults("tc", &format!("{head}{line}\n"), &[wanted], cure);
    }
}

/// Returns the policy that an export of `text` reads back to.
fn round_trip(text: &str, filters: Filters) -> String {
    let policy = parsed(text);
    let export = export::to_tc(&policy, "eth0", filters).expect("the kernel has its scheduler");
    let mut back = imported("tc", &export.batch());
    assert_eq!(back.policies.len(), 1, "{}", export.batch());
    back.policies.remove(0).policy
}

fn parsed(text: &str) -> Policy {
    let outcome = policy::parse(text, "p");
    assert!(outcome.plan.is_some(), "{text}\n{:#?}", outcome.findings);
    outcome.plan.expect("errors were ruled out")
}

/// Checks that import after export is a fixed point from the first time on.
fn check_fixed(text: &str) {
    for filters in [Filters::Flower, Filters::U32] {
        let once = round_trip(text, filters);
        let twice = round_trip(&once, filters);
        assert_eq!(once, twice, "from:\n{text}");
        let (before, after) = (parsed(text), parsed(&once));
        assert_eq!(before.leaf_name(before.default.leaf), after.leaf_name(after.default.leaf));
    }
}

#[test]
fn a_round_trip_is_a_fixed_point_for_imports_and_examples() {
    imported("tc", TC).policies.iter().for_each(|one| check_fixed(&one.policy));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for name in ["home-htb.toml", "office-htb.toml", "home-flows.toml", "home-down.toml"] {
        let text = std::fs::read_to_string(root.join(name)).expect("it is in the tree");
        check_fixed(&text);
    }
    for one in &imported("altq", ALTQ).policies {
        if one.interface == "en2" {
            check_fixed(&one.policy);
        }
    }
}

/// Each queue is that of a leaf; the policy that is read back has the text.
#[test]
fn a_gred_comes_back_with_its_limits() {
    for (queue, wanted) in [
        ("default = 2, limit = '2 MB'", "default = 2, limit = '2000000 B'"),
        ("limit = '1000 packets'", "limit = '1514000 B'"),
        ("max_1 = '20 KB', limit_1 = '50 KB', limit = '100 KB'", "limit = '100000 B'"),
        // A virtual queue may hold no more than the limit that the setup gives to each.
        ("max_3 = '20 KB', limit_3 = '50 KB', limit = '100 KB'", "limit = '200000 B'"),
        ("max_3 = '20 KB', limit_3 = '50 KB', limit = '100 KB'", "limit_3 = '50000 B'"),
    ] {
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.a]\nrate = '10 Mbit/s'\n\
             default = true\nqueue = {{ dropper = 'gred', by = 'precedence', {queue} }}\n"
        );
        let text = text.replace('\'', "\"");
        let back = round_trip(&text, Filters::Flower);
        assert!(back.replace('"', "'").contains(wanted), "{wanted} is missing:\n{back}");
        check_fixed(&text);
    }
}

/// Each queue is that of a leaf; the policy that is read back has the text, and exports alike.
#[test]
fn queues_of_linux_come_back_as_they_were() {
    for (queue, wanted) in [
        ("'dualpi2', rules = 'linux', step_packets = 5", "step_packets = 5 }"),
        ("'dualpi2', rules = 'linux'", "alpha = 41, beta = 819,"),
        ("'dualpi2', rules = 'linux', alpha = 1, beta = 8388607", "alpha = 1, beta = 8388607,"),
        ("'fq', bands = 'tos', limit = '30000 packets'", "limit = '30000 packets', bands"),
        (
            "'fq', bands = 'tos', limit = '5000 packets', band_limit = 4000",
            "limit = '12000 packets', bands = 'tos', band_limit = 4000",
        ),
        ("'fq', limit = '200 packets'", "limit = '200 packets',"),
        ("'gred', by = 'precedence', pkttime = '12500 us'", "pkttime = '12500 us'"),
        ("'gred', by = 'precedence', pkttime = '8 us'", "pkttime = '8 us'"),
        ("'gred', by = 'precedence'", "pkttime = '800 us'"),
    ] {
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.a]\nrate = '10 Mbit/s'\n\
             default = true\nqueue = {{ dropper = {queue} }}\n"
        );
        let text = text.replace('\'', "\"");
        let back = round_trip(&text, Filters::Flower);
        assert!(back.replace('"', "'").contains(wanted), "{wanted} is missing:\n{back}");
        check_fixed(&text);
    }
}

/// Import, export, import, export: the supported part is equal from the first export on, and the
/// rest is refused by name. The files are others' samples, read from a folder beside the
/// repository; `WEIR_SAMPLES` names another folder.
#[test]
fn a_round_trip_is_a_fixed_point_for_samples() {
    let beside = || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/samples");
    let folder = std::env::var_os("WEIR_SAMPLES").map_or_else(beside, Into::into);
    for language in ["altq", "pf"] {
        let Ok(files) = std::fs::read_dir(folder.join(language)) else { continue };
        for path in files.map(|file| file.expect("it can be listed").path()) {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let reader = import::find(language).expect("rows name languages");
            let options =
                Options { rate: Rate::new(100_000_000), device: None, ..Options::default() };
            let outcome = import::read(reader, &bytes, "f", &options);
            let policies = outcome.plan.map_or_else(Vec::new, |import| import.policies);
            for one in &policies {
                sample(&format!("{} {}", path.display(), one.interface), &one.policy);
            }
        }
    }
}

fn sample(name: &str, text: &str) {
    let policy = parsed(text);
    match export::to_tc(&policy, "eth0", Filters::Flower) {
        Err(why) => {
            println!("{name}: refused, {why}");
            assert!(why.contains(policy.link.scheduler), "{name}: {why}");
        }
        Ok(export) => {
            check_fixed(text);
            let lost: Vec<_> =
                export.lost.iter().map(|loss| format!("{}: {}", loss.what, loss.why)).collect();
            println!("{name}: {} fixed, lost {lost:#?}", policy.link.scheduler);
        }
    }
}

#[test]
fn a_round_trip_is_a_fixed_point_for_generated_policies() {
    for seed in seeds(200) {
        println!("seed {seed}");
        check_fixed(&generated(&mut Random::new(seed, 0)));
    }
}

/// Draws a tree of two levels with queues and rules of every kind that the kernel has.
fn generated(random: &mut Random) -> String {
    let scheduler = ["htb", "hfsc", "drr", "priq"][random.below(4) as usize];
    let tree = ["htb", "hfsc"].contains(&scheduler);
    let mut text = format!("[link]\nrate = \"100 Mbit/s\"\nscheduler = \"{scheduler}\"\n");
    if tree {
        text += "[class.line]\nrate = \"100 Mbit/s\"\n";
    }
    for class in 0..2 + random.below(6) {
        let _ = writeln!(text, "[class.c{class}]");
        if tree {
            let rate = 1 + random.below(12);
            let _ = writeln!(text, "parent = \"line\"\nrate = \"{rate} Mbit/s\"");
        }
        match scheduler {
            "htb" => drop(writeln!(text, "ceil = \"{} Mbit/s\"", 12 + random.below(88))),
            "hfsc" if random.below(2) == 0 => text += "delay = \"10 ms\"\n",
            "drr" => drop(writeln!(text, "quantum = \"{} B\"", 1514 + random.below(9000))),
            "priq" => drop(writeln!(text, "priority = {class}")),
            _ => {}
        }
        let queues = [
            "limit = \"30 packets\"",
            "limit = \"9000 B\"",
            "dropper = \"fq-codel\"",
            "dropper = \"codel\", root = \"linux\", ecn = true",
            "dropper = \"head\", limit = \"9 packets\"",
            "dropper = \"pie\"",
            "dropper = \"sfq\", depth = 20, divisor = 512, headdrop = true",
        ];
        let _ = writeln!(text, "queue = {{ {} }}", queues[random.below(7) as usize]);
        let rules = [
            "{ proto = \"udp\", dport = \"5004-5010\" }",
            "{ dscp = \"ef\" }",
            "{ src = [\"10.0.0.0/8\", \"2001:db8::/32\"], proto = \"tcp\" }",
            "{ dport = 53 }",
            "{ ethertype = \"arp\" }",
            "{ proto = \"icmp\", dst = \"192.0.2.1\" }",
            "{ ecn = \"ce\", sport = \"0-1023\" }",
            "{ proto = 47, police = { rate = \"1 Mbit/s\", depth = \"9000 B\" } }",
        ];
        let count = random.below(4);
        let rules: Vec<_> = (0..count).map(|_| rules[random.below(8) as usize]).collect();
        let _ = writeln!(text, "match = [{}]", rules.join(", "));
        if class == 0 {
            text += "default = true\n";
        }
    }
    text
}

#[test]
fn an_export_reports_what_the_kernel_cannot_express() {
    let text = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\nrate = \"4 Mbit/s\"\n\
                queue = { dropper = \"blue\" }\nmatch = [{ interface = \"lan\", proto = 6 }, { vlan = 7 }]\n\
                [class.b]\nrate = \"6 Mbit/s\"\ndefault = true\n";
    let policy = parsed(text);
    let lost = |filters| {
        let export = export::to_tc(&policy, "eth0", filters).expect("the kernel has HTB");
        export.lost.iter().map(|loss| loss.what.clone()).collect::<Vec<_>>()
    };
    let always = ["dropper `blue` of class `a`", "rule 1 of class `a`"];
    assert_eq!(lost(Filters::Flower), always);
    assert_eq!(lost(Filters::U32), [always[0], always[1], "rule 2 of class `a`"]);
    let other = parsed(
        &text
            .replace("\"htb\"", "\"wf2q+\"")
            .replace("rate = \"4 Mbit/s\"\n", "")
            .replace("rate = \"6 Mbit/s\"\n", ""),
    );
    let why = export::to_tc(&other, "eth0", Filters::Flower).expect_err("no kernel has WF2Q+");
    assert!(why.contains("`wf2q+`") && why.contains("`htb`"), "{why}");
}
