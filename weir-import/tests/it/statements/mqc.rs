//! Class-maps and policy-maps of Cisco IOS.

use super::{CLOSE, KEPT, LOST, check};

#[test]
fn conditions_of_class_maps() {
    check(
        "mqc",
        "ip access-list extended L\n permit tcp host 10.0.0.1 eq 22 any\n\
         class-map match-any A\n@\n\
         policy-map P\n class A\n  bandwidth 1000\ninterface Gi0\n bandwidth 10000\n \
         service-policy output P\n",
        &[
            (" match ip dscp ef af41 cs1", KEPT, "", "{ dscp = [8, 34, 46] }"),
            (" match precedence critical", KEPT, "", "{ dscp = [40, 41, 42, 43, 44, 45, 46, 47] }"),
            (
                " match access-group name L",
                KEPT,
                "",
                "{ src = '10.0.0.1/32', proto = 6, sport = '22' }",
            ),
            (" match access-group 7", LOST, "no access list `7`", "10 Mbit/s"),
            (" match protocol icmp", KEPT, "", "{ proto = 1 }"),
            (" match protocol http", CLOSE, "known by its port", "{ proto = 6, dport = '80' }"),
            (" match protocol skype", LOST, "look into packets", "10 Mbit/s"),
            (" match ip rtp 16384 100", CLOSE, "odd ports", "dport = '16384-16484'"),
            (" match vlan 7", KEPT, "", "{ vlan = 7 }"),
            (" match not dscp ef", KEPT, "", "{ dscp = [0, 1, 2, 3"),
            (" match not dscp ef", KEPT, "", "44, 45, 47, 48,"),
            (" match not access-group name L", KEPT, "", "{ proto = 6, sport = '0-21', prio = 1 }"),
            (" match not vlan 7", LOST, "one VLAN", "10 Mbit/s"),
            (" match not qos-group 3", LOST, "cannot match `qos-group`", "10 Mbit/s"),
            (" match qos-group 3", LOST, "cannot match `qos-group`", "10 Mbit/s"),
            (" match dscp 77", LOST, "not known here", "10 Mbit/s"),
        ],
    );
    check(
        "mqc",
        "access-list 101 permit ip any any dscp ef\nclass-map match-all A\n match access-group 101\n\
         class-map match-any B\n match class-map A\n@\npolicy-map P\n class B\n  bandwidth 1000\n",
        &[
            (
                "access-list 101 permit udp any range 5000 5010 10.1.0.0 0.0.255.255 log",
                KEPT,
                "",
                "{ dst = '10.1.0.0/16', proto = 17, sport = '5000-5010' }",
            ),
            (
                "access-list 101 permit tcp any gt 1023 any eq www 443",
                KEPT,
                "",
                "{ proto = 6, sport = '1024-65535', dport = '80' }",
            ),
            ("access-list 101 permit 10.2.0.0 0.0.0.255", KEPT, "", "{ src = '10.2.0.0/24' }"),
            ("access-list 101 permit ip 10.0.0.0 0.255.0.255 any", LOST, "a part of it", "P"),
            ("access-list 101 deny ip any any", KEPT, "", "{ dscp = 46 }"),
            ("access-list 101 remark x", KEPT, "", "{ dscp = 46 }"),
        ],
    );
}

#[test]
fn actions_of_classes() {
    check(
        "mqc",
        "class-map A\n match dscp ef\npolicy-map P\n class A\n  bandwidth percent 30\n@\n class class-default\n\
         interface Gi0\n bandwidth 10000\n service-policy output P\n",
        &[
            (
                "  bandwidth 2000",
                KEPT,
                "",
                "[class.A]; parent = 'link'; rate = '2 Mbit/s'; ceil = '10 Mbit/s'; prio = 7; ",
            ),
            ("  bandwidth remaining ratio 3", KEPT, "", "rate = '5.25 Mbit/s'"),
            ("  priority percent 20", KEPT, "", "rate = '2 Mbit/s'; ceil = '2 Mbit/s'; prio = 0; "),
            (
                "  priority level 2 500",
                KEPT,
                "",
                "rate = '500 kbit/s'; ceil = '500 kbit/s'; prio = 1; ",
            ),
            ("  shape average 5000000", KEPT, "", "ceil = '5 Mbit/s'"),
            ("  shape average percent 40", KEPT, "", "ceil = '4 Mbit/s'"),
            (
                "  police cir 8000000 bc 9000 conform-action transmit exceed-action drop",
                KEPT,
                "",
                "police = { rate = '8 Mbit/s', depth = '9000 B', out = 'drop' }",
            ),
            (
                "  police rate percent 10",
                KEPT,
                "",
                "police = { rate = '1 Mbit/s', depth = '31250 B', out = 'drop' }",
            ),
            (
                "  police 128000 8000 conform-action set-dscp-transmit cs3 exceed-action set-dscp-transmit 0",
                KEPT,
                "",
                "police = { rate = '128 kbit/s', depth = '8000 B', in = 'mark cs3', out = 'mark cs0' }",
            ),
            (
                "  police cir 1000000 bc 31250 pir 2000000 be 62500 conform-action transmit exceed-action set-dscp-transmit af12 violate-action set-prec-transmit 1",
                KEPT,
                "",
                "police = { meter = 'trtcm', rate = '1 Mbit/s', depth = '31250 B', peak_rate = '2 Mbit/s', peak_depth = '62500 B', yellow = 'mark af12', red = 'mark cs1' }",
            ),
            (
                "  police cir 1000000 pir 2000000",
                KEPT,
                "",
                "depth = '31250 B', peak_rate = '2 Mbit/s', peak_depth = '62500 B', yellow = 'drop', red = 'drop' }",
            ),
            (
                "  police 128000 8000 9000 exceed-action transmit violate-action drop",
                CLOSE,
                "one burst for one rate",
                "depth = '8000 B', out = 'pass' }",
            ),
            (
                "  police 128000 8000 exceed-action set-qos-transmit 3",
                CLOSE,
                "leaves the packet's marks",
                "out = 'pass' }",
            ),
            (
                "  police rate percent 10\n  exceed-action set-dscp-transmit af13",
                KEPT,
                "",
                "depth = '31250 B', out = 'mark af13' }",
            ),
            ("  exceed-action drop", LOST, "no `police` before it", "3 Mbit/s"),
            ("  queue-limit 9 packets", KEPT, "", "queue = { limit = '9 packets' }"),
            ("  queue-limit 90 ms", LOST, "packets or bytes", "limit = '64 packets'"),
            ("  fair-queue", CLOSE, "as in fq-codel", "dropper = 'fq-codel'"),
            (
                "  random-detect",
                CLOSE,
                "one pair of thresholds",
                "queue = { dropper = 'red', min = '20 packets', max = '40 packets' }",
            ),
            (
                "  random-detect dscp 0 24 60 5",
                CLOSE,
                "one pair of thresholds",
                "queue = { dropper = 'red', min = '24 packets', max = '60 packets', pmax = '20.000 %' }",
            ),
            ("  random-detect ecn", CLOSE, "one pair", "max = '40 packets', ecn = true }"),
            ("  set dscp af31", KEPT, "", "set_dscp = 'af31'"),
            ("  set ip precedence 3", KEPT, "", "set_dscp = 'cs3'"),
            ("  set dscp gold", LOST, "not known", "3 Mbit/s"),
            ("  set cos 3", LOST, "no other field", "3 Mbit/s"),
            ("  drop", LOST, "does not filter", "3 Mbit/s"),
        ],
    );
}

#[test]
fn denied_packets_are_left_to_other_classes() {
    let file = |entries: &str| {
        format!(
            "ip access-list extended L\n{entries}@\n permit tcp 10.0.0.0 0.0.0.255 any\n\
             class-map A\n match access-group name L\npolicy-map P\n class A\n  bandwidth 1000\n"
        )
    };
    check(
        "mqc",
        &file(" permit icmp any any\n"),
        &[
            (
                " deny tcp any any eq 25",
                KEPT,
                "",
                "{ src = '10.0.0.0/24', proto = 6, dport = '0-24' }",
            ),
            (
                " deny ip 10.0.0.0 0.0.0.63 any",
                KEPT,
                "",
                "{ src = ['10.0.0.64/26', '10.0.0.128/25'], proto = 6 }",
            ),
            (" deny udp any any", KEPT, "", "{ src = '10.0.0.0/24', proto = 6 }"),
            (" deny ip any any", KEPT, "", "match = [;     { proto = 1 },; ]"),
            (" deny tcp any any syn", LOST, "a part of it", "{ src = '10.0.0.0/24', proto = 6 }"),
        ],
    );
}

#[test]
fn all_but_a_few_protocols_come_behind_an_exception() {
    check(
        "mqc",
        "class-map A\n@\nclass-map B\n match dscp ef\npolicy-map P\n class A\n  bandwidth 1000\n \
         class B\n  bandwidth 1000\n",
        &[
            (
                " match not protocol icmp",
                KEPT,
                "",
                "[class.A]; parent = 'link'; rate = '1 Mbit/s'; ceil = '1 Gbit/s'; prio = 7; queue = { limit = '64 packets' }; match = [;     { prio = 3 },; ]",
            ),
            (" match not protocol icmp", KEPT, "", "{ proto = 1, dscp = 46, prio = 1 },"),
            (
                " match not protocol icmp",
                KEPT,
                "",
                "default = true; match = [;     { proto = 1, prio = 2 },; ]",
            ),
        ],
    );
}

#[test]
fn policies_of_interfaces() {
    check(
        "mqc",
        "class-map A\n match dscp ef\npolicy-map IN\n class A\n  bandwidth percent 40\n\
         policy-map OUT\n class class-default\n  shape average 50000000\n  service-policy IN\n\
         interface GigabitEthernet0/1\n@\n",
        &[
            (
                " service-policy output OUT",
                KEPT,
                "",
                "# Interface GigabitEthernet0/1; [link]; rate = '50 Mbit/s'; scheduler = 'htb'; ; [class.link]; rate = '50 Mbit/s'; ; [class.A]; parent = 'link'; rate = '20 Mbit/s'; ceil = '50 Mbit/s'; ",
            ),
            (
                " service-policy output IN",
                KEPT,
                "",
                "rate = '1 Gbit/s'; scheduler = 'htb'; ; [class.link]; rate = '1 Gbit/s'; ; [class.A]; parent = 'link'; rate = '400 Mbit/s'",
            ),
            (" service-policy input IN", LOST, "arriving packets", "# Interface OUT"),
            (" service-policy output X", LOST, "no policy-map `X`", "# Interface OUT"),
        ],
    );
}
