//! The commands, disciplines, classes and filters of `tc`.

use super::{CLOSE, KEPT, LOST, check};

/// Lines of a device `a` around the row.
fn below_htb(row: &str) -> String {
    format!(
        "qdisc add dev a root handle 1: htb default 20\n\
         class add dev a parent 1: classid 1:10 htb rate 4mbit\n\
         class add dev a parent 1: classid 1:20 htb rate 6mbit\n{row}\n"
    )
}

#[test]
fn disciplines_of_tc_alone() {
    check(
        "tc",
        "qdisc add dev a root @\nqdisc add dev b root tbf rate 1mbit burst 2k limit 9k\n",
        &[
            (
                "tbf rate 5mbit burst 15k limit 30000",
                KEPT,
                "",
                "rate = '5 Mbit/s'; scheduler = 'tbf'; ; [link.tbf]; rate = '5 Mbit/s'; burst = '15360 B'; ; [class.all]; queue = { limit = '30000 B' }; default = true; ",
            ),
            ("tbf rate 8mbit burst 10000 latency 50ms", KEPT, "", "queue = { limit = '60000 B' }"),
            (
                "tbf rate 5mbit burst 15k limit 30000 peakrate 9mbit mtu 2k",
                KEPT,
                "",
                "peakrate = '9 Mbit/s'; mtu = '2048 B'; ",
            ),
            (
                "tbf rate 5mbit burst 15k limit 30000 overhead 24 mpu 84 linklayer ethernet",
                KEPT,
                "",
                "overhead = { bytes = 24, minimum = 84 }",
            ),
            (
                "tbf rate 5mbit burst 15k limit 30000 overhead 2 linklayer atm",
                KEPT,
                "",
                "cell = 48 }",
            ),
            (
                "pfifo limit 30",
                CLOSE,
                "--rate",
                "rate = '1 Gbit/s'; scheduler = 'fifo'; ; [class.all]; queue = { limit = '30 packets' }; ",
            ),
            ("bfifo limit 30k", CLOSE, "--rate", "queue = { limit = '30720 B' }"),
            (
                "pfifo_head_drop limit 1",
                CLOSE,
                "--rate",
                "queue = { dropper = 'head', limit = '1 packet' }",
            ),
            (
                "pfifo_fast",
                CLOSE,
                "three bands",
                "[class.all]; queue = { limit = '3000 packets' }; ",
            ),
            ("noqueue", LOST, "Weir has no `noqueue`", "!Interface a"),
        ],
    );
}

#[test]
fn disciplines_of_tc_below_a_class() {
    check(
        "tc",
        &below_htb("qdisc add dev a parent 1:10 @"),
        &[
            (
                "pfifo limit 30",
                KEPT,
                "",
                "burst = '1600 B'; cburst = '1600 B'; queue = { limit = '30 packets' }; ",
            ),
            ("bfifo limit 30k", KEPT, "", "queue = { limit = '30720 B' }"),
            (
                "pfifo_head_drop limit 30",
                KEPT,
                "",
                "queue = { dropper = 'head', limit = '30 packets' }",
            ),
            ("pfifo_fast", CLOSE, "three bands", "queue = { limit = '3000 packets' }; ; "),
            ("sfq", KEPT, "", "queue = { dropper = 'sfq' }"),
            (
                "sfq perturb 10 quantum 1514 limit 100",
                CLOSE,
                "the hash stays",
                "queue = { dropper = 'sfq', quantum = '1514 B', limit = '100 packets' }",
            ),
            (
                "sfq perturb 0 depth 200 flows 64 divisor 512 headdrop",
                KEPT,
                "",
                "queue = { dropper = 'sfq', depth = 127, flows = 64, divisor = 512, headdrop = true }",
            ),
            ("pie", KEPT, "", "queue = { dropper = 'pie', bytes = false }"),
            (
                "red limit 60000 min 15000 max 45000 avpkt 1000 probability 0.02",
                KEPT,
                "",
                "queue = { dropper = 'red', limit = '60000 B', min = '15000 B', max = '45000 B', packet = '1000 B', pmax = '2.0000 %' }",
            ),
            (
                "red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 ecn adaptive",
                CLOSE,
                "`burst` is left out",
                "ecn = true, adaptive = true }",
            ),
            ("fq_codel", KEPT, "", "queue = { dropper = 'fq-codel' }"),
            (
                "fq_codel limit 500 flows 64 target 10ms interval 80ms quantum 300 memory_limit 1m noecn",
                KEPT,
                "",
                "queue = { dropper = 'fq-codel', limit = '500 packets', flows = 64, target = '10 ms', interval = '80 ms', quantum = '300 B', memory = '1048576 B', ecn = false }",
            ),
            (
                "fq_codel quantum 100",
                KEPT,
                "",
                "queue = { dropper = 'fq-codel', quantum = '256 B' }",
            ),
            (
                "fq_codel ce_threshold 1ms drop_batch 32",
                CLOSE,
                "`ce_threshold` is left out; ",
                "queue = { dropper = 'fq-codel' }",
            ),
            (
                "codel limit 200 target 7ms interval 70ms ecn",
                KEPT,
                "",
                "queue = { dropper = 'codel', root = 'linux', limit = '200 packets', target = '7 ms', interval = '70 ms', ecn = true }",
            ),
            ("pie", KEPT, "", "queue = { dropper = 'pie', bytes = false }"),
            (
                "pie limit 200 target 20ms tupdate 10ms alpha 3 beta 30 bytemode",
                KEPT,
                "",
                "queue = { dropper = 'pie', limit = '200 packets', target = '20 ms', update = '10 ms', alpha = 3, beta = 30, bytes = true }",
            ),
            ("fq_pie", KEPT, "", "queue = { dropper = 'fq-pie' }"),
            (
                "fq_pie limit 200 flows 64 target 20ms tupdate 10ms alpha 3 beta 30 quantum 300 ecn_prob 20 ecn bytemode",
                KEPT,
                "",
                "queue = { dropper = 'fq-pie', limit = '200 packets', flows = 64, target = '20 ms', update = '10 ms', alpha = 3, beta = 30, quantum = '300 B', ecn_max = 20, ecn = true, bytes = true }",
            ),
            ("fq_pie memory_limit 1m", CLOSE, "`memory_limit` is left out", "dropper = 'fq-pie'"),
            ("fq", KEPT, "a flow is a hash", "queue = { dropper = 'fq' }"),
            (
                "fq limit 200 flow_limit 20 quantum 3000 initial_quantum 9000 maxrate 8mbit refill_delay 20ms low_rate_threshold 1mbit ce_threshold 4ms orphan_mask 255 buckets 1024",
                KEPT,
                "a flow is a hash",
                "queue = { dropper = 'fq', limit = '200 packets', maxrate = '8000000 bit/s', flow_limit = 20, quantum = '3000 B', initial_quantum = '9000 B', refill_delay = '20 ms', low_rate_threshold = '1000000 bit/s', ce_threshold = '4 ms', flows = 256 }",
            ),
            (
                "fq limit 200 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 30000 20000 10000",
                KEPT,
                "a flow is a hash",
                "queue = { dropper = 'fq', limit = '600 packets', bands = 'tos', band_limit = 200, weight0 = 30000, weight1 = 20000, weight2 = 10000 }",
            ),
            ("fq maxrate 8mbit nopacing", KEPT, "a flow is a hash", "queue = { dropper = 'fq' }"),
            ("fq horizon 2s", KEPT, "no stamp", "queue = { dropper = 'fq' }"),
            ("fq priomap 0 0 0 0", CLOSE, "usual `priomap`", "bands = 'tos'"),
            ("pie dq_rate_estimator", KEPT, "", "estimator = 'rate', bytes = false }"),
            (
                "choke limit 300 bandwidth 3mbit min 20 max 60 burst 40 probability 0.1 ecn",
                KEPT,
                "",
                "queue = { dropper = 'choke', limit = '300 packets', min = 20, max = 60, pmax = '10.0000 %', weight = 32, halves = '1312389763 ns'",
            ),
            (
                "choke limit 1000 bandwidth 10mbit",
                KEPT,
                "",
                "min = 83, max = 250, pmax = '2.0000 %', weight = 64, halves = ",
            ),
            ("choke limit 1000", LOST, "`limit` and `bandwidth`", "[class.1-20]"),
            ("choke limit 10 bandwidth 1mbit min 5 max 4", LOST, "thresholds", "[class.1-20]"),
            (
                "sfb limit 300 max 40 rehash 60000 db 6000 increment 0.005 decrement 0.0005 penalty_rate 30 penalty_burst 9",
                KEPT,
                "",
                "queue = { dropper = 'sfb', rehash = '60000 ms', warmup = '6000 ms', increment = '0.5000 %', decrement = '0.0500 %', penalty_rate = 30, penalty_burst = 9, limit = '300 packets', max = 40, target = 32 }",
            ),
            ("sfb rehash 0 db 0", KEPT, "", "'sfb', rehash = '0 s', warmup = '0 s', limit"),
            ("sfb", KEPT, "", "dropper = 'sfb', limit = '1000 packets', max = 25, target = 20 }"),
            (
                "dualpi2 target 20ms tupdate 10ms alpha 0.16 beta 3.2 coupling_factor 3 step_thresh 2ms classic_protection 25 any_ect overflow",
                KEPT,
                "",
                "dropper = 'dualpi2', rules = 'linux', target = '20 ms', update = '10 ms', alpha = 40, beta = 819, coupling = 3, step = '2 ms', protection = 25, identifier = 'ect', overload = 'mark' }",
            ),
            ("dualpi2 step_thresh 5", KEPT, "", "rules = 'linux', step = '5 us' }"),
            ("dualpi2 step_thresh 5p", KEPT, "", "rules = 'linux', step_packets = 5 }"),
            (
                "dualpi2 step_thresh 2ms step_thresh 7packets",
                KEPT,
                "",
                "'linux', step_packets = 7 }",
            ),
            ("dualpi2 step_thresh 1pkt step_thresh 2ms", KEPT, "", "'linux', step = '2 ms' }"),
            ("dualpi2 step_thresh 0p", KEPT, "stands for the default", "rules = 'linux' }"),
            // tc cuts off what is below a 256th.
            ("dualpi2 alpha 0.160156", KEPT, "", "'linux', alpha = 40 }"),
            ("dualpi2 alpha 0.16015625 beta 3", KEPT, "", "'linux', alpha = 41, beta = 768 }"),
            ("dualpi2 memlimit 4000000", CLOSE, "`limit` counts", "rules = 'linux' }"),
            ("dualpi2 limit 5000 memlimit 15140000", KEPT, "", "limit = '5000 packets' }"),
            (
                "dualpi2 max_rtt 100ms",
                KEPT,
                "",
                "'linux', target = '16666 us', update = '16666 us', alpha = 42, beta = 768 }",
            ),
            (
                "dualpi2 typical_rtt 10ms max_rtt 50ms alpha 0.5 target 5ms",
                KEPT,
                "tc ignores `target`",
                "'linux', target = '10 ms', update = '10 ms', alpha = 102, beta = 1536 }",
            ),
            (
                "dualpi2 typical_rtt 5ms",
                KEPT,
                "",
                "'linux', target = '5 ms', update = '5 ms', alpha = 142, beta = 2560 }",
            ),
            ("dualpi2 target 5ms target 6ms", KEPT, "", "'linux', target = '6 ms' }"),
            ("fq_codel limit 5 limit 6", KEPT, "", "'fq-codel', limit = '6 packets' }"),
            (
                "gred setup vqs 4 default 2 grio ecn",
                CLOSE,
                "the precedence of the DSCP",
                "dropper = 'gred', by = 'precedence', grio = true, ecn = true, default = 2, limit = '6056000 B' }",
            ),
            ("gred setup vqs 12", LOST, "eight virtual queues", "dropper = 'gred'"),
            ("gred vq 1 limit 9kb", LOST, "tc refuses", "[class.1-20]"),
            ("dualpi2 drop_enqueue", KEPT, "", "rules = 'linux', early = true }"),
            (
                "dualpi2 min_qlen_step 3",
                CLOSE,
                "those that leave",
                "rules = 'linux', step_floor = 3 }",
            ),
            ("etf", LOST, "stamp", "queue = { limit = '1000 packets' }"),
            ("taprio", LOST, "a clock that all bridges", "queue = { limit = '1000 packets' }"),
            ("cbs", LOST, "credits of its queue", "queue = { limit = '1000 packets' }"),
            ("mqprio", LOST, "the sender's priorities", "queue = { limit = '1000 packets' }"),
            (
                "prio",
                LOST,
                "a discipline below a class becomes one queue",
                "queue = { limit = '1000 packets' }; ; [class.1-20]",
            ),
            (
                "netem delay 10ms",
                LOST,
                "Weir has no `netem`",
                "queue = { limit = '1000 packets' }; ; [class.1-20]",
            ),
        ],
    );
}

#[test]
fn classes_of_tc() {
    check(
        "tc",
        &below_htb("class add dev a parent 1: classid 1:30 htb @"),
        &[
            ("rate 1mbit", KEPT, "", "rate = '11 Mbit/s'; scheduler = 'htb'; "),
            ("rate 1mbps", KEPT, "", "[class.1-30]; rate = '8 Mbit/s'; "),
            ("rate 1mbit ceil 40mbit", KEPT, "", "rate = '40 Mbit/s'; scheduler = 'htb'; "),
            (
                "rate 1mbit ceil 2mbit burst 15k cburst 1600",
                KEPT,
                "",
                "[class.1-30]; rate = '1 Mbit/s'; ceil = '2 Mbit/s'; burst = '15360 B'; cburst = '1600 B'; ",
            ),
            (
                "rate 1mbit prio 3 quantum 3000",
                KEPT,
                "",
                "rate = '1 Mbit/s'; burst = '1600 B'; cburst = '1600 B'; prio = 3; quantum = '3000 B'; ",
            ),
            ("rate 1mbit overhead 24 mpu 84", KEPT, "", "overhead = { bytes = 24, minimum = 84 }"),
            ("rate 1kibit", KEPT, "", "[class.1-30]; rate = '1.024 kbit/s'; "),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: hfsc default 2\n\
         class add dev a parent 1: classid 1:2 hfsc ls m2 1mbit ul m2 10mbit\n\
         class add dev a parent 1: classid 1:3 hfsc @\n",
        &[
            ("ls m2 1mbit", KEPT, "", "[class.1-3]; ls_m2 = '1 Mbit/s'; "),
            (
                "ls m1 3mbit d 10ms m2 1mbit",
                KEPT,
                "",
                "ls_m1 = '3 Mbit/s'; ls_d = '10 ms'; ls_m2 = '1 Mbit/s'; ",
            ),
            (
                "rt m2 1mbit ls m2 2mbit ul rate 3mbit",
                KEPT,
                "",
                "[class.1-3]; ls_m2 = '2 Mbit/s'; ul_m2 = '3 Mbit/s'; rt_m2 = '1 Mbit/s'; ",
            ),
            ("sc m2 1mbit", KEPT, "", "[class.1-3]; ls_m2 = '1 Mbit/s'; rt_m2 = '1 Mbit/s'; "),
            (
                "rt umax 1500 dmax 10ms rate 1mbit",
                KEPT,
                "",
                "rt_m1 = '1.2 Mbit/s'; rt_d = '10 ms'; rt_m2 = '1 Mbit/s'; ",
            ),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: cbq bandwidth 10mbit avpkt 1000\n\
         class add dev a parent 1: classid 1:3 cbq bandwidth 10mbit @\n",
        &[
            (
                "rate 1mbit avpkt 1000",
                CLOSE,
                "sound variant",
                "[class.1-3]; rate = '1 Mbit/s'; queue",
            ),
            (
                "rate 1mbit avpkt 1000 bounded prio 1",
                CLOSE,
                "sound variant",
                "[class.1-3]; rate = '1 Mbit/s'; borrow = false; priority = 7; ",
            ),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: drr\nclass add dev a parent 1: classid 1:1 drr @\n\
         filter add dev a parent 1: protocol all prio 1 matchall flowid 1:1\n",
        &[
            ("quantum 3000", KEPT, "", "[class.1-1]; quantum = '3000 B'; queue"),
            ("", KEPT, "", "[class.1-1]; queue = { limit = '1000 packets' }; default = true; "),
        ],
    );
}

#[test]
fn roots_of_tc_with_classes() {
    check(
        "tc",
        "qdisc add dev a root handle 1: @\nclass add dev a parent 1: classid 1:1 htb rate 1mbit\n",
        &[
            ("htb default 1", KEPT, "", "queue = { limit = '1000 packets' }; default = true; "),
            ("htb default 0x1 r2q 5", KEPT, "", "[link.htb]; r2q = 5; "),
            ("htb default 1 direct_qlen 100", CLOSE, "`direct_qlen`", "default = true"),
            ("htb", CLOSE, "at once, past all classes", "[class.direct]; rate = '1 Mbit/s'; queue"),
            (
                "htb default 9",
                CLOSE,
                "at once, past all classes",
                "[class.direct]; rate = '1 Mbit/s'; queue",
            ),
            (
                "stab overhead 24 mpu 84 htb default 1",
                KEPT,
                "",
                "overhead = { bytes = 24, minimum = 84 }",
            ),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: prio @\nqdisc add dev a parent 1:1 pfifo limit 5\n",
        &[
            (
                "",
                CLOSE,
                "`priomap`",
                "[class.band-1]; priority = 2; queue = { limit = '5 packets' }; ; [class.band-2]; priority = 1; queue = { limit = '1000 packets' }; default = true; ; [class.band-3]; priority = 0; ",
            ),
            (
                "bands 2 priomap 0 1 1 1",
                CLOSE,
                "`priomap`",
                "[class.band-1]; priority = 1; queue = { limit = '5 packets' }; default = true; ; [class.band-2]; priority = 0; ",
            ),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: tbf rate 5mbit @\nqdisc add dev a parent 1:1 handle 10: drr\n\
         class add dev a parent 10: classid 10:1 drr\n\
         filter add dev a parent 10: protocol all prio 1 matchall flowid 10:1\n",
        &[(
            "burst 15k limit 30k",
            CLOSE,
            "the bucket is left out",
            "rate = '5 Mbit/s'; scheduler = 'drr'; ; [class.10-1]; queue = { limit = '1000 packets' }; default = true; ",
        )],
    );
}

#[test]
fn queues_of_a_device_and_buckets_below_classes() {
    check(
        "tc",
        "@\nqdisc add dev a parent 7fff:1 handle 1: htb default 2\n\
         class add dev a parent 1: classid 1:2 htb rate 4mbit\n\
         qdisc add dev a parent 7fff:2 handle 2: htb default 9\n\
         class add dev a parent 2: classid 2:3 htb rate 6mbit\n\
         class add dev a parent 2: classid 2:9 htb rate 1mbit\n\
         filter add dev a parent 2: protocol ip prio 1 u32 match ip src 10.0.0.1 flowid 2:3\n",
        &[
            (
                "qdisc replace dev a root handle 7fff: mq",
                CLOSE,
                "policy of its own",
                "# Interface a-1; [link]; rate = '4 Mbit/s'; ",
            ),
            (
                "qdisc replace dev a root handle 7fff: mq",
                CLOSE,
                "by a hash",
                "# Interface a-2; [link]; rate = '7 Mbit/s'; ",
            ),
        ],
    );
    check(
        "tc",
        "qdisc add dev a root handle 1: hfsc default 10\n\
         class add dev a parent 1: classid 1:10 hfsc sc rate 5mbit\n\
         class add dev a parent 1: classid 1:20 hfsc rt rate 1mbit\nqdisc add dev a parent @\n",
        &[
            (
                "1:10 handle 10: tbf rate 3mbit burst 10k limit 30k",
                CLOSE,
                "upper limit of the class",
                "ls_m2 = '5 Mbit/s'; ul_m2 = '3 Mbit/s'; rt_m2 = '3 Mbit/s'; queue = { limit = '30720 B' }",
            ),
            (
                "1:20 handle 20: tbf rate 300kbit burst 10k limit 30k",
                CLOSE,
                "upper limit of the class",
                "rt_m2 = '300 kbit/s'",
            ),
        ],
    );
}

#[test]
fn filters_of_tc() {
    check(
        "tc",
        &below_htb("filter add dev a parent 1: @ flowid 1:10"),
        &[
            (
                "protocol ip prio 1 u32 match ip src 10.1.2.3/8 match ip dst 10.0.0.1",
                KEPT,
                "",
                "{ src = '10.0.0.0/8', dst = '10.0.0.1/32', vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 u32 match ip dport 80 0xffff match ip sport 1024 0xfc00",
                CLOSE,
                "also of fragments",
                "{ ethertype = 'ipv4', sport = '1024-2047', dport = '80', vlan = 'none' }",
            ),
            ("protocol ip prio 1 u32 match ip dport 80 0x00ff", LOST, "byte 22", "!match"),
            (
                "protocol ip prio 1 u32 match ip protocol 17 0xff",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 17, vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 u32 match ip tos 0x10 0xff",
                KEPT,
                "",
                "{ ethertype = 'ipv4', dscp = 4, ecn = 'not-ect', vlan = 'none' }",
            ),
            (
                "protocol ipv6 prio 1 u32 match ip6 dst 2001:db8::1/32 match ip6 priority 0xb8 0xfc",
                KEPT,
                "",
                "{ dst = '2001:db8::/32', dscp = 46, vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 u32 match tcp dst 22 0xffff",
                LOST,
                "without `link` and `offset`",
                "!match",
            ),
            (
                "protocol ip prio 1 u32 match u8 0x06 0xff at 9",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 6, vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 u32 match u32 0x0a000000 0xff000000 at 12",
                KEPT,
                "",
                "{ src = '10.0.0.0/8', vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 u32 match u16 0x0035 0xffff at nexthdr+2",
                LOST,
                "without `link` and `offset`",
                "!match",
            ),
            (
                "protocol ip prio 1 u32 match u32 0 0",
                KEPT,
                "",
                "{ ethertype = 'ipv4', vlan = 'none' }",
            ),
            ("protocol ip prio 1 u32 match u8 0x05 0x0f at 0", LOST, "u8 at 0", "!match"),
            (
                "protocol ip prio 1 u32 match mark 1 0xff",
                CLOSE,
                "no packet at a port",
                "vlan = 'none', mark = '0x1/0xff' }",
            ),
            ("protocol ip prio 1 u32 match mark 0x101 0xff", KEPT, "matches no packet", "!match"),
            (
                "protocol ip prio 1 u32 ht 1: match ip protocol 6 0xff",
                LOST,
                "no such table",
                "!match",
            ),
            (
                "protocol ip prio 1 handle 5 fw",
                CLOSE,
                "write the conditions by which the firewall sets it",
                "{ ethertype = 'ipv4', vlan = 'none', mark = 5 }",
            ),
            ("protocol all prio 1 handle 017/0xff fw", CLOSE, "mark", "{ mark = '0xf/0xff' }"),
            ("protocol all prio 1 handle 0x11/0xf0 fw", KEPT, "matches no packet", "!match"),
            ("protocol all prio 1 handle 0 fw", LOST, "`handle` is 0", "!match"),
            ("protocol all prio 1 fw", LOST, "a filter for each mark", "!match"),
            ("protocol all prio 1 handle 5 fw indev lan0", LOST, "`indev`", "!match"),
            ("protocol 802.1q prio 1 matchall", CLOSE, "802.1ad", "{ vlan = 'any' }"),
            (
                "protocol ip prio 1 flower ip_proto tcp dst_port 80",
                CLOSE,
                "fragments",
                "{ ethertype = 'ipv4', proto = 6, dport = '80', vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 flower src_ip 10.0.0.0/8 ip_tos 0xb8/0xfc",
                KEPT,
                "",
                "{ src = '10.0.0.0/8', dscp = 46, vlan = 'none' }",
            ),
            ("protocol 802.1Q prio 1 flower vlan_id 7", CLOSE, "802.1ad", "{ vlan = 7 }"),
            (
                "protocol 802.1Q prio 1 flower vlan_id 7 vlan_ethtype ip",
                CLOSE,
                "802.1ad",
                "vlan = 7, vlan_inner = 'none' }",
            ),
            (
                "protocol 802.1Q prio 1 flower vlan_ethtype ip src_ip 10.0.0.0/8",
                CLOSE,
                "802.1ad",
                "{ vlan = 'any', src = '10.0.0.0/8', vlan_inner = 'none' }",
            ),
            (
                "protocol 802.1Q prio 1 flower vlan_prio 5",
                CLOSE,
                "802.1ad",
                "{ pcp = 5, vlan = 'any' }",
            ),
            (
                "protocol ip prio 1 flower ip_proto tcp tcp_flags 0x2/0x12",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 6, tcp_flags = 'syn,!ack', vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 flower ip_proto tcp tcp_flags 0x10",
                CLOSE,
                "lower eight",
                "tcp_flags = '!fin,!syn,!rst,!psh,ack,!urg,!ece,!cwr'",
            ),
            (
                "protocol ip prio 1 flower ip_proto tcp tcp_flags 0x100/0x100",
                LOST,
                "lower eight",
                "!match",
            ),
            (
                "protocol ipv6 prio 1 flower ip_proto icmpv6 type 1 code 4",
                KEPT,
                "",
                "{ ethertype = 'ipv6', proto = 58, icmp_type = '1/4', vlan = 'none' }",
            ),
            ("protocol ip prio 1 flower ip_proto icmp code 4", LOST, "without type", "!match"),
            (
                "protocol ip prio 1 flower ip_proto tcp police rate 1mbit burst 10k",
                LOST,
                "`action police`",
                "!match",
            ),
            (
                "protocol ip prio 1 flower src_mac 02:00:5E:00:00:01 dst_mac 02:00:5e:00:00:02",
                KEPT,
                "",
                "src_mac = '02:00:5e:00:00:01', dst_mac = '02:00:5e:00:00:02', vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 flower src_mac 02:00:5e:00:00:01/ff:ff:ff:00:00:00",
                LOST,
                "`src_mac with a mask`",
                "!match",
            ),
            (
                "protocol ip prio 1 flower ip_tos 40/fc",
                KEPT,
                "",
                "{ ethertype = 'ipv4', dscp = 10, vlan = 'none' }",
            ),
            (
                "protocol ip prio 1 flower ip_tos 0x40/fc",
                KEPT,
                "",
                "{ ethertype = 'ipv4', dscp = 16, vlan = 'none' }",
            ),
            ("protocol ip prio 1 flower indev lan0", LOST, "`indev`", "!match"),
            (
                "protocol ip prio 1 basic match 'cmp(u8 at 9 layer 1 eq 6)'",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 6, vlan = 'none' }",
            ),
            ("protocol ip prio 1 basic match 'meta(priority eq 6)'", LOST, "", "!match"),
            ("protocol all prio 1 matchall", KEPT, "", "match = [;     {},; ]; ; [class.1-20]"),
            ("protocol arp prio 1 matchall", KEPT, "", "{ ethertype = 'arp', vlan = 'none' }"),
            (
                "protocol 0x88cc prio 1 matchall",
                KEPT,
                "",
                "{ ethertype = '0x88cc', vlan = 'none' }",
            ),
            ("protocol ip prio 1 bpf bytecode-file x", LOST, "no `bpf` filter", "!match"),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff police rate 1mbit burst 10k drop",
                KEPT,
                "",
                "police = { rate = '1 Mbit/s', depth = '10240 B', out = 'drop' }",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action police rate 1mbit burst 10k conform-exceed pass/ok",
                KEPT,
                "",
                "out = 'pass' }",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff police rate 1mbit burst 10k continue",
                CLOSE,
                "next filter",
                "out = 'pass' }",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff police rate 1mbit burst 10k \
                 conform-exceed continue",
                CLOSE,
                "next filter",
                "out = 'pass' }",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff police rate 1mbit",
                CLOSE,
                "left out",
                "!police",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action pedit ex munge ip dsfield set 0xb8 retain 0xfc pipe action csum ip4h",
                KEPT,
                "",
                "set_dscp = 'ef'",
            ),
            (
                "protocol ipv6 prio 1 flower ip_proto tcp action pedit ex munge ip6 traffic_class set 0x20 retain 0xfc",
                KEPT,
                "",
                "set_dscp = 'cs1'",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action pedit ex munge ip tos set 0xb8 pipe action csum ip4h",
                CLOSE,
                "bits of ECN",
                "set_dscp = 'ef'",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action pedit ex munge ip ttl set 5",
                LOST,
                "not `ip ttl`",
                "!match",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action pedit ex munge ip tos set 8 retain 0x0c",
                LOST,
                "all six bits",
                "!match",
            ),
            (
                "protocol ip prio 1 u32 match ip protocol 6 0xff action mirred egress redirect dev b",
                LOST,
                "no action `mirred`",
                "!match",
            ),
            (
                "protocol all prio 1 matchall action ctinfo dscp 63 128",
                LOST,
                "`restore_dscp = true`",
                "!match",
            ),
        ],
    );
    check(
        "tc",
        &below_htb(
            "filter add dev a parent 1: protocol ip prio 9 u32 match ip protocol 6 0xff flowid 1:10\n\
             filter add dev a parent 1: protocol ip @u32 match ip protocol 17 0xff flowid 1:10",
        ),
        &[
            (
                // Behind every `prio` below 32768.
                "",
                KEPT,
                "",
                "proto = 6, vlan = 'none' },;     { ethertype = 'ipv4', proto = 17, vlan = 'none' }",
            ),
            (
                "prio 8 ",
                KEPT,
                "",
                "proto = 17, vlan = 'none' },;     { ethertype = 'ipv4', proto = 6, vlan = 'none' }",
            ),
            (
                "prio 10 ",
                KEPT,
                "",
                "proto = 6, vlan = 'none' },;     { ethertype = 'ipv4', proto = 17, vlan = 'none' }",
            ),
        ],
    );
}

#[test]
fn lines_of_tc() {
    check(
        "tc",
        "@\ntc qdisc add dev a root handle 1: htb default 10\n\
         tc class add dev a parent 1: classid 1:10 htb rate 1mbit\n\
         # class 1:10 is web\n: class voip\n",
        &[
            ("tc qdisc show dev a", KEPT, "only shows", "[class.web]"),
            ("tc qdisc add dev a ingress", KEPT, "a hook", "[class.web]"),
            ("tc qdisc add dev a handle ffff: clsact", KEPT, "a hook", "[class.web]"),
            (
                "tc filter add dev a parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0",
                KEPT,
                "leave by `ifb0`",
                "[class.web]",
            ),
            (
                "tc filter add dev a parent ffff: protocol ip u32 match u32 0 0 police rate 1mbit burst 9k",
                LOST,
                "their own direction",
                "[class.web]",
            ),
            (
                "tc filter add dev a egress protocol ip prio 1 u32 match u32 0 0 flowid 1:10",
                LOST,
                "the hook is passed before",
                "!match",
            ),
        ],
    );
}
