//! The statements and options of `altq.conf`.

use super::{CLOSE, KEPT, LOST, check};

#[test]
fn interfaces_of_altq_conf_without_classes() {
    check(
        "altq",
        "interface en0 bandwidth 10M @\ninterface en1 bandwidth 1M fifoq\n",
        &[
            (
                "wfq",
                KEPT,
                "",
                "rate = '10 Mbit/s'; scheduler = 'altq-wfq'; ; [class.flows]; \
              hash = 'dstaddr'; queues = 256; \
              queue = { dropper = 'longest', limit = '65536 B' }; default = true; ",
            ),
            ("wfq nqueues 64 hash full", KEPT, "", "hash = 'full'; queues = 64; "),
            (
                "wfq hash srcport qsize 32K",
                KEPT,
                "",
                "hash = 'srcport'; queues = 256; \
              queue = { dropper = 'longest', limit = '32768 B' }",
            ),
            (
                "fifoq",
                KEPT,
                "",
                "rate = '10 Mbit/s'; scheduler = 'fifo'; ; [class.all]; default = true; ",
            ),
            ("fifoq qlimit 30", KEPT, "", "[class.all]; queue = { limit = '30 packets' }; "),
            ("red", KEPT, "", "[class.all]; queue = { dropper = 'red-altq' }; "),
            (
                "red ecn qlimit 30",
                KEPT,
                "",
                "queue = { dropper = 'red-altq', ecn = true, limit = '30 packets' }",
            ),
            ("red thmin 5 thmax 15 invpmax 10", KEPT, "", "'red-altq'"),
            ("red packetsize 500 weight 9", CLOSE, "`packetsize` is left", "'red-altq'"),
            ("rio", KEPT, "", "queue = { dropper = 'rio' }"),
            ("rio cleardscp", CLOSE, "`cleardscp`", "queue = { dropper = 'rio' }"),
            ("blue", KEPT, "", "queue = { dropper = 'blue' }"),
            ("blue maxpmark 100 holdtime 5", CLOSE, "`maxpmark`", "queue = { dropper = 'blue' }"),
            ("tbrsize 8K fifoq", CLOSE, "`tbrsize`", "rate = '10 Mbit/s'; scheduler = 'fifo'"),
            ("jobs", LOST, "joint buffer management", "!10 Mbit/s"),
        ],
    );
}

#[test]
fn disciplines_of_altq_conf_with_classes() {
    check(
        "altq",
        "interface en0 bandwidth 10M @\nclass cbq en0 root NULL pbandwidth 100\n\
         class cbq en0 ctl root pbandwidth 2 control\nclass cbq en0 def root pbandwidth 90 default\n",
        &[
            (
                "cbq",
                KEPT,
                "",
                "scheduler = 'cbq'; match_order = 'altq'; ; [class.root]; rate = '10 Mbit/s'",
            ),
            ("cbq-wrr", KEPT, "", "!general"),
            ("cbq-prr", KEPT, "", "[link.cbq]; general = 'prr'; "),
            ("cbq efficient", KEPT, "", "[link.cbq]; efficient = true; "),
            ("tbrsize 8K cbq", CLOSE, "`tbrsize`", "scheduler = 'cbq'"),
        ],
    );
}

#[test]
fn classes_of_cbq_in_altq_conf() {
    check(
        "altq",
        "interface en0 bandwidth 10M cbq\nclass cbq en0 root NULL pbandwidth 100\n\
         class cbq en0 ctl root pbandwidth 2 control\nclass cbq en0 def root pbandwidth 90 default\n\
         class cbq en0 a root @\n",
        &[
            (
                "pbandwidth 5",
                KEPT,
                "",
                "[class.a]; parent = 'root'; rate = '500 kbit/s'; borrow = false; \
              queue = { dropper = 'head', limit = '30 packets' }; ",
            ),
            (
                "exactbandwidth 500K",
                KEPT,
                "",
                "[class.a]; parent = 'root'; rate = '500 kbit/s'; borrow",
            ),
            (
                "pbandwidth 5 borrow",
                KEPT,
                "",
                "[class.a]; parent = 'root'; rate = '500 kbit/s'; queue",
            ),
            ("pbandwidth 5 priority 5", KEPT, "", "borrow = false; priority = 5; queue"),
            ("pbandwidth 5 qlimit 7", KEPT, "", "limit = '7 packets' }"),
            ("pbandwidth 5 maxdelay 1000", KEPT, "", "limit = '41 packets' }"),
            ("pbandwidth 5 maxdelay 1000 packetsize 500", KEPT, "", "limit = '125 packets' }"),
            ("pbandwidth 5 maxdelay 1", KEPT, "", "limit = '4 packets' }"),
            ("pbandwidth 5 maxburst 8", KEPT, "", "burst = '12000 B'"),
            ("pbandwidth 5 maxburst 8 packetsize 200", KEPT, "", "burst = '1600 B'"),
            ("pbandwidth 5 minburst 2", CLOSE, "`minburst`", "!burst"),
            ("pbandwidth 5 maxpacketsize 1500", CLOSE, "`maxpacketsize`", "[class.a]"),
            (
                "pbandwidth 5 red",
                KEPT,
                "",
                "queue = { dropper = 'red-altq', limit = '60 packets', notices_idle = false }",
            ),
            ("pbandwidth 5 rio", KEPT, "", "queue = { dropper = 'rio', limit = '60 packets' }"),
            ("pbandwidth 5 ecn", KEPT, "", "notices_idle = false, ecn = true }"),
            (
                "pbandwidth 5 flowvalve",
                CLOSE,
                "`flowvalve`",
                "dropper = 'red-altq', limit = '60 packets'",
            ),
            ("pbandwidth 5 cleardscp", CLOSE, "`cleardscp`", "[class.a]"),
            ("pbandwidth 5 admission none", KEPT, "", "[class.a]"),
            ("pbandwidth 5 admission cntlload", CLOSE, "`admission`", "[class.a]"),
            (
                "borrow",
                KEPT,
                "ten-thousandth",
                "[class.a]; parent = 'root'; rate = '1 kbit/s'; queue",
            ),
            ("", CLOSE, "ALTQ would drop all of it", "rate = '1 kbit/s'; borrow = false"),
            (
                "pbandwidth 10",
                CLOSE,
                "lowered to",
                "[class.a]; parent = 'root'; rate = '980.392 kbit/s'",
            ),
            (
                "pbandwidth 5 control",
                KEPT,
                "",
                "match = [;     { proto = 1 },;     { proto = 2 },;     { proto = 46 },; ]",
            ),
        ],
    );
}

#[test]
fn classes_of_hfsc_in_altq_conf() {
    check(
        "altq",
        "interface en0 bandwidth 10M hfsc\nclass hfsc en0 def root pshare 50 default\n\
         class hfsc en0 a root @\n",
        &[
            (
                "pshare 20",
                KEPT,
                "",
                "[class.a]; ls_m2 = '2 Mbit/s'; queue = { dropper = 'tail', limit = '50 packets' }; ",
            ),
            ("pshare 20 grate 1M", KEPT, "", "ls_m2 = '2 Mbit/s'; rt_m2 = '1 Mbit/s'; "),
            (
                "[sc 2M 10 1M]",
                KEPT,
                "",
                "ls_m1 = '2 Mbit/s'; ls_d = '10 ms'; ls_m2 = '1 Mbit/s'; rt_m1 = '2 Mbit/s'; rt_d = '10 ms'; rt_m2 = '1 Mbit/s'; ",
            ),
            (
                "[rt 2M 10 1M]",
                KEPT,
                "",
                "[class.a]; rt_m1 = '2 Mbit/s'; rt_d = '10 ms'; rt_m2 = '1 Mbit/s'; queue",
            ),
            ("[ls 0 10 1M]", KEPT, "", "[class.a]; ls_d = '10 ms'; ls_m2 = '1 Mbit/s'; queue"),
            (
                "[ls 1M 0 1M] [ul 0 0 5M]",
                KEPT,
                "",
                "[class.a]; ls_m2 = '1 Mbit/s'; ul_m2 = '5 Mbit/s'; queue",
            ),
            ("pshare 20 red", KEPT, "", "queue = { dropper = 'red-altq', limit = '50 packets' }"),
            ("pshare 20 qlimit 1", KEPT, "", "limit = '1 packet' }"),
            (
                "pshare 20 grate 1M\nclass hfsc en0 b a pshare 10",
                CLOSE,
                "real-time curve",
                "[class.a]; ls_m2 = '2 Mbit/s'; ; [class.b]; parent = 'a'; ls_m2 = '1 Mbit/s'",
            ),
        ],
    );
}

#[test]
fn classes_of_priq_in_altq_conf() {
    check(
        "altq",
        "interface en0 bandwidth 10M priq\nclass priq en0 def root priority 0 default\n\
         class priq en0 a @\n",
        &[
            ("root priority 9", KEPT, "", "scheduler = 'priq'; ; [class.def]; priority = 0; "),
            (
                "root priority 9 qlimit 5",
                KEPT,
                "",
                "[class.a]; priority = 9; queue = { dropper = 'tail', limit = '5 packets' }; ",
            ),
            (
                "root priority 15 red",
                KEPT,
                "",
                "[class.a]; priority = 15; queue = { dropper = 'red-altq', limit = '50 packets' }; ",
            ),
            ("def priority 9", CLOSE, "no hierarchy", "[class.a]; priority = 9; "),
        ],
    );
}

#[test]
fn filters_of_altq_conf() {
    let file = "interface en0 bandwidth 10M cbq\nclass cbq en0 root NULL pbandwidth 100\n\
                class cbq en0 ctl root pbandwidth 2 control\n\
                class cbq en0 def root pbandwidth 90 default\nclass cbq en0 a root pbandwidth 5\n\
                filter@\n";
    check(
        "altq",
        file,
        &[
            (" en0 a 0 0 0 0 0", KEPT, "", "{ ethertype = 'ipv4' },"),
            (
                " en0 a 10.0.0.1 80 10.0.0.2 81 6",
                KEPT,
                "",
                "{ src = '10.0.0.2/32', dst = '10.0.0.1/32', proto = 6, sport = '81', dport = '80' },",
            ),
            (
                " en0 a 10.1.2.3 netmask 255.255.0.0 0 0 0 17",
                KEPT,
                "",
                "{ dst = '10.1.0.0/16', proto = 17 },",
            ),
            (
                " en0 a 10.1.2.3 netmask 0xffffff00 0 0 0 udp",
                KEPT,
                "",
                "{ dst = '10.1.2.0/24', proto = 17 },",
            ),
            (" en0 a 10.1.2.3 netmask 255.0.255.0 0 0 0 17", LOST, "holes", "!proto = 17"),
            (
                " en0 a 0 0 0 0 17 tos 0xb8 tosmask 0xfc",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 17, dscp = 46 },",
            ),
            (" en0 a 0 0 0 0 17 tos 0xb8 tosmask 0xf8", KEPT, "", "dscp = [46, 47] },"),
            (" en0 a 0 0 0 0 17 tos 0x10", KEPT, "", "proto = 17, dscp = 4, ecn = 'not-ect' },"),
            (" en0 a 0 0 0 0 17 gpi 7", LOST, "`gpi`", "!proto = 17"),
            (" en0 a 0 0 0 0 17 gpi 0", KEPT, "", "{ ethertype = 'ipv4', proto = 17 },"),
            (
                " en0 a name x ruleno 5 0 53 0 0 17",
                KEPT,
                "",
                "{ ethertype = 'ipv4', proto = 17, dport = '53' },",
            ),
            ("6 en0 a ::0 0 ::0 0 0", KEPT, "", "{ ethertype = 'ipv6' },"),
            (
                "6 en0 a ::0 0 2001:db8::1/32 80 6",
                KEPT,
                "",
                "{ src = '2001:db8::/32', proto = 6, sport = '80' },",
            ),
            (
                "6 en0 a 2001:db8::1 0 ::0 0 17 tclass 0xb8 tclassmask 0xfc",
                KEPT,
                "",
                "{ dst = '2001:db8::1/128', proto = 17, dscp = 46 },",
            ),
            ("6 en0 a ::0 0 ::0 0 17 flowlabel 3", LOST, "`flowlabel`", "!proto = 17"),
        ],
    );
}

#[test]
fn conditioners_of_altq_conf() {
    check(
        "altq",
        "interface en0 bandwidth 10M\ninterface en1 bandwidth 1M fifoq\nconditioner en0 c @\n\
         filter en0 c 10.0.0.1 0 0 0 0\n",
        &[
            ("<pass>", KEPT, "", "{ dst = '10.0.0.1/32' },"),
            (
                "<drop>",
                KEPT,
                "",
                "police = { rate = '1 bit/s', depth = '1 B', in = 'drop', out = 'drop' }",
            ),
            ("<mark 0xb8>", KEPT, "", "in = 'mark 46', out = 'mark 46' }"),
            (
                "<tbmeter 6M 64K <pass><drop>>",
                KEPT,
                "",
                "police = { rate = '6 Mbit/s', depth = '65536 B', lazy = true, in = 'pass', out = 'drop' }",
            ),
            (
                "<trtcm 1M 8K 2M 16K <pass><mark 0x28><drop>>",
                KEPT,
                "",
                "police = { meter = 'trtcm', rate = '1 Mbit/s', depth = '8192 B', peak_rate = '2 Mbit/s', peak_depth = '16384 B', lazy = true, green = 'pass', yellow = 'mark 10', red = 'drop' }",
            ),
            (
                "<trtcm 1M 8K 2M 16K <pass><pass><drop> coloraware>",
                KEPT,
                "",
                "lazy = true, colour_aware = true, green",
            ),
            (
                "<trtcm 1M 8K 2M 16K <pass><pass><drop> colorblind>",
                KEPT,
                "",
                "lazy = true, green = 'pass'",
            ),
            (
                "<tswtcm 1M 2M 500 <pass><pass><drop>>",
                KEPT,
                "",
                "police = { meter = 'tswtcm', rate = '1 Mbit/s', peak_rate = '2 Mbit/s', window = '500 ms', green = 'pass', yellow = 'pass', red = 'drop' }",
            ),
            (
                "<tbmeter 10M 8K <tbmeter 3M 4K <pass><mark 0x30>><drop>>",
                KEPT,
                "",
                "meter = 'trtcm', rate = '3 Mbit/s', depth = '4096 B', peak_rate = '10 Mbit/s', peak_depth = '8192 B', lazy = true, green = 'pass', yellow = 'mark 12', red = 'drop' }",
            ),
            ("<tbmeter 10M 8K <pass><tbmeter 3M 4K <pass><drop>>>", LOST, "one meter", "!police"),
        ],
    );
    check(
        "altq",
        "interface en0 bandwidth 10M priq\nclass priq en0 def root priority 0 default\n@\n",
        &[("conditioner en0 c <drop>", LOST, "the other direction", "!police")],
    );
}

#[test]
fn names_keep_what_a_policy_allows() {
    check(
        "altq",
        "interface en0 bandwidth 10M priq\nclass priq en0 def root default\nclass priq en0 @ root\n",
        &[
            ("a-b_c9", KEPT, "", "[class.a-b_c9]"),
            ("a.b/c", CLOSE, "called `a-b-c`", "[class.a-b-c]"),
            ("a.b root\nclass priq en0 a:b", CLOSE, "called `a-b`", "[class.a-b-2]"),
        ],
    );
}
