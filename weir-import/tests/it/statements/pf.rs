//! The statements and options of `pf.conf`.

use super::{CLOSE, KEPT, LOST, check};

#[test]
fn altq_on_in_pf_conf() {
    check(
        "pf",
        "altq on em0 @ queue { def, a }\nqueue def bandwidth 50% default\nqueue a bandwidth 20%\n",
        &[
            ("cbq bandwidth 10Mb", KEPT, "", "rate = '10 Mbit/s'; scheduler = 'cbq'; "),
            ("hfsc bandwidth 10M", KEPT, "", "rate = '10 Mbit/s'; scheduler = 'hfsc'; "),
            ("cbq bandwidth 33600b", KEPT, "", "rate = '33.6 kbit/s'"),
            ("cbq bandwidth 1.5Gb", KEPT, "", "rate = '1.5 Gbit/s'"),
            ("cbq", CLOSE, "1 Gbit/s is assumed; set it with `--rate`", "rate = '1 Gbit/s'"),
            ("cbq bandwidth 10Mb qlimit 7", KEPT, "", "limit = '7 packets' }"),
            ("cbq bandwidth 10Mb tbrsize 8192", CLOSE, "`tbrsize`", "[class.a]"),
            (
                "cbq(red) bandwidth 10Mb",
                KEPT,
                "",
                "dropper = 'red-altq', limit = '50 packets', notices_idle = false }",
            ),
            ("cbq(ecn) bandwidth 10Mb", KEPT, "", "notices_idle = false, ecn = true }"),
        ],
    );
    check(
        "pf",
        "altq on em0 @ queue { def, a }\nqueue def default\nqueue a priority 2\n",
        &[("priq bandwidth 64Kb", KEPT, "", "rate = '64 kbit/s'; scheduler = 'priq'; ")],
    );
    check(
        "pf",
        "altq on em1 priq bandwidth 1Mb queue z\nqueue z priq(default)\naltq on em0 @ queue z\n",
        &[
            (
                "codelq bandwidth 10Mb",
                KEPT,
                "",
                "rate = '10 Mbit/s'; scheduler = 'fifo'; ; [class.all]; queue = { dropper = 'codel', limit = '50 packets' }; ",
            ),
            (
                "codelq(target 7 interval 90 ecn) bandwidth 10Mb qlimit 9",
                KEPT,
                "",
                "limit = '9 packets', target = '7 ms', interval = '90 ms', ecn = true }",
            ),
        ],
    );
}

#[test]
fn queues_of_fairq_in_pf_conf() {
    check(
        "pf",
        "altq on em0 fairq bandwidth 10Mb queue { def, a }\n\
         queue def bandwidth 6Mb fairq(default)\nqueue a bandwidth 2Mb @\n\
         pass out on em0 proto tcp to port 80 queue a\n",
        &[
            (
                "priority 3 fairq(buckets 64, hogs 1Kb) qlimit 9",
                CLOSE,
                "`hogs` is left out",
                "[class.a]; parent = 'link'; rate = '2 Mbit/s'; ceil = '10 Mbit/s'; queue = { dropper = 'sfq', limit = '576 packets', flows = 64, divisor = 64, depth = 9 }; match = [;     { proto = 6, dport = '80' },; ]",
            ),
            ("", CLOSE, "which of them is first", "flows = 256, divisor = 256, depth = 50 }"),
            (
                "fairq(codel ecn)",
                CLOSE,
                "",
                "dropper = 'fq-codel', limit = '12800 packets', flows = 256, ecn = true }",
            ),
            ("fairq(red)", CLOSE, "RED in each flow is left out", "dropper = 'sfq'"),
        ],
    );
}

#[test]
fn queues_of_altq_in_pf_conf() {
    check(
        "pf",
        "altq on em0 cbq bandwidth 10Mb queue { def, a }\nqueue def bandwidth 50% cbq(default)\n\
         queue a @\n",
        &[
            (
                "bandwidth 20%",
                KEPT,
                "",
                "[class.a]; rate = '2 Mbit/s'; borrow = false; queue = { dropper = 'head', limit = '50 packets' }; ",
            ),
            ("bandwidth 2Mb cbq(borrow)", KEPT, "", "[class.a]; rate = '2 Mbit/s'; queue"),
            ("bandwidth 2Mb priority 5", KEPT, "", "borrow = false; priority = 5; "),
            (
                "bandwidth 2Mb qlimit 7",
                KEPT,
                "",
                "[class.a]; rate = '2 Mbit/s'; borrow = false; queue = { dropper = 'head', limit = '7 packets' }",
            ),
            (
                "bandwidth 2Mb cbq(red)",
                KEPT,
                "",
                "queue = { dropper = 'red-altq', limit = '50 packets', notices_idle = false }",
            ),
            ("bandwidth 2Mb cbq(ecn)", KEPT, "", "notices_idle = false, ecn = true }"),
            (
                "bandwidth 2Mb cbq(rio)",
                KEPT,
                "",
                "queue = { dropper = 'rio', limit = '50 packets' }",
            ),
            (
                "bandwidth 2Mb cbq(codel ecn)",
                KEPT,
                "",
                "queue = { dropper = 'codel', limit = '50 packets', ecn = true }",
            ),
            ("bandwidth 2Mb cbq(wrr)", KEPT, "", "[class.a]; rate = '2 Mbit/s'"),
            ("bandwidth 2Mb cbq(prr)", CLOSE, "`prr` is left out", "[class.a]; rate = '2 Mbit/s'"),
            ("bandwidth 2Mb cbq(maxburst 4)", CLOSE, "`maxburst` is left out", "!burst"),
            ("bandwidth 2Mb cbq(flowvalve)", CLOSE, "`flowvalve` is left out", "[class.a]"),
            (
                "bandwidth 2Mb flows 64",
                KEPT,
                "",
                "queue = { dropper = 'fq-codel', limit = '50 packets', flows = 64 }",
            ),
            ("bandwidth 2Mb quantum 300", CLOSE, "`quantum` is left out", "[class.a]"),
            (
                "bandwidth 2Mb { b }\nqueue b bandwidth 50%",
                KEPT,
                "",
                "[class.a]; rate = '2 Mbit/s'; borrow = false; ; [class.b]; parent = 'a'; rate = '1 Mbit/s'",
            ),
        ],
    );
    check(
        "pf",
        "altq on em0 hfsc bandwidth 10Mb queue { def, a }\nqueue def bandwidth 50% hfsc(default)\n\
         queue a @\n",
        &[
            (
                "bandwidth 20%",
                KEPT,
                "",
                "[class.a]; ls_m2 = '2 Mbit/s'; queue = { dropper = 'tail', limit = '50 packets' }; ",
            ),
            (
                "bandwidth 20% hfsc(realtime 1Mb)",
                KEPT,
                "",
                "ls_m2 = '2 Mbit/s'; rt_m2 = '1 Mbit/s'; ",
            ),
            (
                "bandwidth 20% hfsc(realtime (2Mb 10 1Mb))",
                KEPT,
                "",
                "rt_m1 = '2 Mbit/s'; rt_d = '10 ms'; rt_m2 = '1 Mbit/s'; ",
            ),
            (
                "bandwidth 20% hfsc(linkshare (0 10 30%))",
                KEPT,
                "",
                "[class.a]; ls_d = '10 ms'; ls_m2 = '3 Mbit/s'; ",
            ),
            (
                "bandwidth 20% hfsc(linkshare (40% 10 30%))",
                KEPT,
                "",
                "ls_m1 = '4 Mbit/s'; ls_d = '10 ms'; ls_m2 = '3 Mbit/s'; ",
            ),
            (
                "bandwidth 20% hfsc(upperlimit 50%)",
                KEPT,
                "",
                "ls_m2 = '2 Mbit/s'; ul_m2 = '5 Mbit/s'; ",
            ),
        ],
    );
}

#[test]
fn newer_queues_of_pf_conf() {
    check(
        "pf",
        "queue root on em0 bandwidth 100M max 100M\n\
         queue def parent root bandwidth 60M default\nqueue a parent root @\n",
        &[
            (
                "bandwidth 10M",
                KEPT,
                "",
                "[class.a]; parent = 'root'; ls_m2 = '10 Mbit/s'; queue = { dropper = 'tail', limit = '50 packets' }; ",
            ),
            ("bandwidth 10M min 5M", KEPT, "", "ls_m2 = '10 Mbit/s'; rt_m2 = '5 Mbit/s'; "),
            ("bandwidth 10M max 20M", KEPT, "", "ls_m2 = '10 Mbit/s'; ul_m2 = '20 Mbit/s'; "),
            (
                "bandwidth 10M burst 20M for 50ms",
                KEPT,
                "",
                "ls_m1 = '20 Mbit/s'; ls_d = '50 ms'; ls_m2 = '10 Mbit/s'; ",
            ),
            (
                "bandwidth 10M max 20M burst 40M for 50ms",
                KEPT,
                "",
                "ul_m1 = '40 Mbit/s'; ul_d = '50 ms'; ul_m2 = '20 Mbit/s'; ",
            ),
            ("bandwidth 10M qlimit 9", KEPT, "", "limit = '9 packets' }"),
            (
                "bandwidth 10M flows 64 quantum 300",
                KEPT,
                "",
                "queue = { dropper = 'fq-codel', limit = '50 packets', flows = 64, quantum = '300 B' }",
            ),
            (
                "bandwidth 10M min 0",
                KEPT,
                "",
                "[class.a]; parent = 'root'; ls_m2 = '10 Mbit/s'; queue",
            ),
        ],
    );
}

#[test]
fn rules_of_pf_conf() {
    check(
        "pf",
        "altq on em0 cbq bandwidth 10Mb queue { def, a, b }\nqueue def bandwidth 50% cbq(default)\n\
         queue a bandwidth 20%\nqueue b bandwidth 10%\nhosts = \"{ 10.0.0.1, 10.0.0.2 }\"\n\
         table <lan> { 192.168.0.0/16, 2001:db8::/32 }\n@\n",
        &[
            (
                "pass out on em0 proto udp to any port 53 queue a",
                KEPT,
                "",
                "[class.a]; rate = '2 Mbit/s'; borrow = false; queue = { dropper = 'head', limit = '50 packets' }; match = [;     { proto = 17, dport = '53' },; ]",
            ),
            ("pass out on em0 proto udp to any port 53", KEPT, "", "!dport"),
            (
                "match out on em0 proto udp to any port 53 set queue a",
                KEPT,
                "",
                "{ proto = 17, dport = '53' }",
            ),
            (
                "pass out on em0 proto { tcp udp } to any port domain queue a",
                KEPT,
                "",
                "{ proto = 6, dport = '53' },;     { proto = 17, dport = '53' }",
            ),
            (
                "pass out on em0 from $hosts queue a",
                KEPT,
                "",
                "{ src = ['10.0.0.1/32', '10.0.0.2/32'] }",
            ),
            (
                "pass out on em0 to <lan> queue a",
                KEPT,
                "",
                "{ dst = ['192.168.0.0/16', '2001:db8::/32'] }",
            ),
            (
                "pass out on em0 inet6 proto tcp queue a",
                KEPT,
                "",
                "{ ethertype = 'ipv6', proto = 6 }",
            ),
            ("pass out on em0 proto tcp to any port 80:90 queue a", KEPT, "", "dport = '80-90'"),
            (
                "pass out on em0 proto tcp to any port > 1023 queue a",
                KEPT,
                "",
                "dport = '1024-65535'",
            ),
            ("pass out on em0 proto tcp to any port <= 1023 queue a", KEPT, "", "dport = '0-1023'"),
            (
                "pass out on em0 proto tcp to any port != 80 queue a",
                KEPT,
                "",
                "{ proto = 6, dport = '0-79' },;     { proto = 6, dport = '81-65535' },",
            ),
            (
                "pass out on em0 proto tcp to any port 80 >< 90 queue a",
                KEPT,
                "",
                "{ proto = 6, dport = '81-89' }",
            ),
            ("pass out on em0 proto tcp tos lowdelay queue a", KEPT, "", "{ proto = 6, dscp = 4 }"),
            (
                "pass out on em0 proto tcp flags S/SA keep state queue a",
                KEPT,
                "`flags`",
                "{ proto = 6 }",
            ),
            ("pass out log quick on em0 proto tcp label x queue a", KEPT, "", "{ proto = 6 }"),
            (
                "pass in on em0 proto tcp to any port 22 queue a",
                KEPT,
                "ends are exchanged",
                "{ proto = 6, sport = '22' }",
            ),
            (
                "pass in on em1 proto tcp to any port 22 queue a",
                CLOSE,
                "interface by which its packets come in",
                "{ proto = 6, dport = '22' }",
            ),
            (
                "pass out on em1 proto tcp to any port 22 queue a",
                LOST,
                "sends nothing out of an interface with queues",
                "!proto = 6",
            ),
            (
                "pass out on em0 proto tcp queue (a, b)",
                CLOSE,
                "empty acknowledgements",
                "[class.b]; rate = '1 Mbit/s'; borrow = false; queue = { dropper = 'head', limit = '50 packets' }; match = [;     { proto = 6, dscp = [4, 5, 6, 7, 12, ",
            ),
            (
                "pass out on em0 proto tcp route-to em1 queue a",
                CLOSE,
                "Weir does not route",
                "{ proto = 6 }",
            ),
            ("pass out on em0 proto tcp set prio 3 queue a", CLOSE, "`set prio`", "{ proto = 6 }"),
            (
                "pass out on em0 proto tcp set ( queue a, prio 3, tos 0xb8 )",
                CLOSE,
                "into the VLAN tag",
                "{ proto = 6, set_dscp = 'ef'",
            ),
            (
                "pass out on em0 proto tcp queue a set tos lowdelay",
                KEPT,
                "",
                "{ proto = 6, set_dscp = '4'",
            ),
            ("match out on em0 proto tcp set tos cs1", KEPT, "", "{ proto = 6, set_dscp = 'cs1'"),
            (
                "match out on em0 proto tcp set tos 0xb9",
                CLOSE,
                "upper six bits",
                "{ proto = 6, set_dscp = 'ef'",
            ),
            (
                "pass in on em0 proto tcp to any port 22 set tos ef",
                CLOSE,
                "policy of the other direction",
                "{ proto = 6, sport = '22', set_dscp = 'ef'",
            ),
            (
                "pass in on em1 proto tcp to any port 22 set tos ef",
                CLOSE,
                "",
                "{ proto = 6, dport = '22', set_dscp = 'ef'",
            ),
            ("block out on em0 proto tcp", LOST, "does not filter", "!proto = 6"),
            ("pass out on ! em0 proto tcp queue a", LOST, "sends nothing out of", "!proto = 6"),
            ("pass out on ! em1 proto tcp queue a", KEPT, "", "{ proto = 6 }"),
            ("pass out on egress proto tcp queue a", CLOSE, "group `egress`", "{ proto = 6 }"),
            ("pass out on em0 from ! 128.0.0.0/1 queue a", KEPT, "", "{ src = '0.0.0.0/1' }"),
            ("pass out on em0 to port cvspserver queue a", LOST, "`cvspserver`", "!dport"),
            ("pass out on em0 proto frobnicate queue a", LOST, "`frobnicate`", "!proto"),
            ("pass out on em0 proto tcp user www queue a", LOST, "`user`", "!proto = 6"),
            ("pass out on em0 proto tcp tagged x queue a", LOST, "`tagged`", "!proto = 6"),
            ("pass out on em0 from em1:network queue a", LOST, "not known here", "!src"),
            ("pass out on em0 from (em1) queue a", LOST, "not known here", "!src"),
            ("set skip on lo0", LOST, "assigns no queue", "!proto"),
            ("nat on em0 from any to any -> em0", LOST, "assigns no queue", "!proto"),
        ],
    );
}
