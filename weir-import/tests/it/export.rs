//! Every scheduler, queue, rule and key that `docs/export.md` lists, one row each: what stands in
//! the policy, the line that is written, and what is lost.

use weir_import::export::{self, Export, Filters};
use weir_policy::policy;

/// A part of the policy, a line of the export, and the lost keys, each with a part of the reason.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

fn exported(text: &str, filters: Filters) -> Result<Export, String> {
    // Rows write `'` for `"`.
    let outcome = policy::parse(&text.replace('\'', "\""), "p");
    let policy = outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings));
    export::to_tc(&policy, "eth0", filters)
}

/// Puts each row in the place of `@` in `policy`; the export has the line, and loses only what the
/// row lists.
fn check(filters: Filters, policy: &str, rows: &[Row]) {
    for &(text, wanted, lost) in rows {
        let export = exported(&policy.replace('@', text), filters).expect("the kernel has it");
        let lines = export.lines.join("\n");
        assert!(export.lines.iter().any(|line| line == wanted), "{text}:\n{wanted}\nin:\n{lines}");
        let is_refused = |line: &String| {
            let [four, six] = ["protocol ip ", "protocol ipv6 "].map(|word| line.contains(word));
            six && line.contains("ip_proto icmp ") || four && line.contains("icmpv6")
        };
        assert!(!export.lines.iter().any(is_refused), "{text}: ICMP of the other IP in:\n{lines}");
        let whats: Vec<&str> = export.lost.iter().map(|loss| loss.what.as_str()).collect();
        let expected: Vec<&str> = lost.iter().map(|row| row.0).collect();
        assert_eq!(whats, expected, "{text}");
        for (loss, (_, why)) in export.lost.iter().zip(lost) {
            assert!(loss.why.contains(why), "{text}: {loss:?}");
        }
    }
}

const HTB: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n@\n[class.b]\nrate = '6 Mbit/s'\n\
                   default = true\n";

#[test]
fn classes_of_htb() {
    check(
        Filters::Flower,
        HTB,
        &[
            (
                "[class.a]\nrate = '4 Mbit/s'",
                "qdisc add dev eth0 root handle 1: htb default 2",
                &[],
            ),
            (
                "[link.htb]\nr2q = 5\n[class.a]\nrate = '4 Mbit/s'",
                "qdisc add dev eth0 root handle 1: htb default 2 r2q 5",
                &[],
            ),
            (
                "[link.htb]\nr2q = 5\n[class.a]\nrate = '800 kbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 800000bit ceil 800000bit burst 2000 cburst 2000 prio 0 quantum 20000",
                &[],
            ),
            ("[class.a]\nrate = '4 Mbit/s'", "# class 1:1 is a", &[]),
            (
                "[class.a]\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600 prio 0 quantum 50000",
                &[],
            ),
            (
                "[class.a]\nrate = '4 Mbit/s'\nceil = '8 Mbit/s'\nburst = '9 kB'\ncburst = '8 kB'\nprio = 3\nquantum = '3000 B'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 8000000bit burst 9000 cburst 8000 prio 3 quantum 3000",
                &[],
            ),
            (
                "[class.t]\nrate = '4 Mbit/s'\n[class.a]\nparent = 't'\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600",
                &[],
            ),
            (
                "[class.t]\nrate = '4 Mbit/s'\n[class.a]\nparent = 't'\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1:1 classid 1:2 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600 prio 0 quantum 50000",
                &[],
            ),
            (
                "overhead = { bytes = 24, minimum = 84 }\n[class.a]\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600 prio 0 quantum 50000 overhead 24 mpu 84",
                &[],
            ),
            (
                "overhead = 'atm'\n[class.a]\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600 prio 0 quantum 50000 overhead 2 linklayer atm",
                &[],
            ),
            (
                "packets_max = '50 packets'\n[class.a]\nrate = '4 Mbit/s'",
                "# class 1:1 is a",
                &[("packets_max", "no bound")],
            ),
            (
                "overhead = 'aal5'\n[class.a]\nrate = '4 Mbit/s'",
                "# class 1:1 is a",
                &[("overhead", "53 bytes")],
            ),
            (
                "overhead = 'ptm'\n[class.a]\nrate = '4 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:1 htb rate 4000000bit ceil 4000000bit burst 3600 cburst 3600 prio 0 quantum 50000 overhead 8",
                &[("overhead", "64/65")],
            ),
            (
                "buffer = '3000 B'\n[class.a]\nrate = '4 Mbit/s'",
                "# class 1:1 is a",
                &[("buffer", "driver")],
            ),
        ],
    );
}

#[test]
fn classes_of_hfsc() {
    let policy = "[link]\nrate = '10 Mbit/s'\nscheduler = 'hfsc'\n[class.b]\nrate = '4 Mbit/s'\n\
                  default = true\n[class.a]\n@\n";
    check(
        Filters::Flower,
        policy,
        &[
            ("rate = '2 Mbit/s'", "qdisc add dev eth0 root handle 1: hfsc default 1", &[]),
            ("rate = '2 Mbit/s'", "# class 1:ff01 is line", &[]),
            (
                "rate = '2 Mbit/s'",
                "class add dev eth0 parent 1: classid 1:ff01 hfsc ls m2 10000000bit ul m2 10000000bit",
                &[],
            ),
            (
                "rate = '2 Mbit/s'",
                "class add dev eth0 parent 1:ff01 classid 1:2 hfsc rt m2 2000000bit ls m2 2000000bit",
                &[],
            ),
            (
                "ls_m2 = '2 Mbit/s'",
                "class add dev eth0 parent 1:ff01 classid 1:2 hfsc ls m2 2000000bit",
                &[],
            ),
            (
                "ls_m2 = '2 Mbit/s'\nul_m2 = '3 Mbit/s'",
                "class add dev eth0 parent 1:ff01 classid 1:2 hfsc ls m2 2000000bit ul m2 3000000bit",
                &[],
            ),
            (
                "ls_m2 = '2 Mbit/s'\nrt_m1 = '3 Mbit/s'\nrt_d = '10 ms'\nrt_m2 = '1 Mbit/s'",
                "class add dev eth0 parent 1:ff01 classid 1:2 hfsc rt m1 3000000bit d 10000us m2 1000000bit ls m2 2000000bit",
                &[],
            ),
            (
                "rate = '1 Mbit/s'\ndelay = '20 ms'\npacket = '1000 B'",
                "class add dev eth0 parent 1:ff01 classid 1:2 hfsc rt m1 400000bit d 20000us m2 1000000bit ls m2 1000000bit",
                &[],
            ),
        ],
    );
    let whole = "[link]\nrate = '10 Mbit/s'\nscheduler = 'hfsc'\n@\n[class.line]\nls_m2 = '10 Mbit/s'\n\
                 ul_m2 = '10 Mbit/s'\n[class.a]\nparent = 'line'\nrate = '2 Mbit/s'\ndefault = true\n";
    check(
        Filters::Flower,
        whole,
        &[
            (
                "",
                "class add dev eth0 parent 1: classid 1:1 hfsc ls m2 10000000bit ul m2 10000000bit",
                &[],
            ),
            (
                "",
                "class add dev eth0 parent 1:1 classid 1:2 hfsc rt m2 2000000bit ls m2 2000000bit",
                &[],
            ),
            (
                "overhead = { bytes = 24, minimum = 84 }",
                "qdisc add dev eth0 root handle 1: stab overhead 24 mpu 84 hfsc default 2",
                &[],
            ),
        ],
    );
}

#[test]
fn schedulers_below_a_shaper() {
    let link = |scheduler: &str| {
        format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = '{scheduler}'\n[class.a]\n@\n[class.b]\n\
             default = true\n"
        )
    };
    check(
        Filters::Flower,
        &link("drr"),
        &[
            (
                "",
                "qdisc add dev eth0 root handle 1: tbf rate 10000000bit burst 1514 limit 1515514",
                &[],
            ),
            ("", "qdisc add dev eth0 parent 1:1 handle 10: drr", &[]),
            ("", "class add dev eth0 parent 10: classid 10:1 drr quantum 1514", &[]),
            (
                "quantum = '3000 B'",
                "class add dev eth0 parent 10: classid 10:1 drr quantum 3000",
                &[],
            ),
            (
                "match = [{ proto = 'udp' }]",
                "filter add dev eth0 parent 10: protocol ip prio 1 flower ip_proto udp classid 10:1",
                &[],
            ),
            (
                "",
                "filter add dev eth0 parent 10: protocol all prio 65535 matchall classid 10:2",
                &[],
            ),
        ],
    );
    // A bucket of a millisecond, or of a packet if that is more.
    check(
        Filters::Flower,
        &link("drr").replace("10 Mbit/s", "100 Mbit/s"),
        &[(
            "",
            "qdisc add dev eth0 root handle 1: tbf rate 100000000bit burst 12500 limit 1526500",
            &[],
        )],
    );
    check(
        Filters::Flower,
        &link("ets"),
        &[
            (
                "priority = 5",
                "qdisc add dev eth0 parent 1:1 handle 10: ets bands 2 strict 1 quanta 1514 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
                &[],
            ),
            (
                "quantum = '3 kB'",
                "qdisc add dev eth0 parent 1:1 handle 10: ets bands 2 strict 0 quanta 3000 1514 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
                &[],
            ),
            (
                "priority = 2\n[class.c]\npriority = 2",
                "qdisc add dev eth0 parent 1:1 handle 10: ets bands 3 strict 2 quanta 1514 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2",
                &[("priority of class `c`", "take turns")],
            ),
        ],
    );
    check(
        Filters::Flower,
        &link("priq"),
        &[
            (
                "priority = 5",
                "qdisc add dev eth0 root handle 1: tbf rate 10000000bit burst 1514 limit 1515514",
                &[],
            ),
            (
                "priority = 5",
                "qdisc add dev eth0 parent 1:1 handle 10: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
                &[],
            ),
            ("priority = 5", "# class 10:1 is a", &[]),
            ("priority = 0", "# class 10:2 is a", &[]),
            ("priority = 5", "qdisc add dev eth0 parent 10:2 pfifo limit 100", &[]),
            ("priority = 1", "# class 10:1 is a", &[("priority of class `b`", "take turns")]),
        ],
    );
}

#[test]
fn a_seventeenth_class_of_priq_shares_the_last_band() {
    let class = |index: u32| format!("[class.c{index}]\npriority = {}\n", index.min(15));
    let classes: String = (0..17).map(class).collect();
    let text = format!("[link]\nrate = '1 Mbit/s'\nscheduler = 'priq'\n{classes}default = true\n");
    let export = exported(&text, Filters::Flower).expect("the kernel has prio");
    let lost: Vec<&str> = export.lost.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(lost, ["priority of class `c16`", "class `c0`"]);
    assert_eq!(export.classes.last().map(|class| class.id.as_str()), Some("10:10"));
}

#[test]
fn schedulers_with_one_queue() {
    check(
        Filters::Flower,
        "[link]\nrate = '10 Mbit/s'\nscheduler = @\n[class.a]\ndefault = true\n",
        &[
            (
                "'fifo'",
                "qdisc add dev eth0 root handle 1: tbf rate 10000000bit burst 6514 limit 1514000",
                &[],
            ),
            ("'fifo'", "qdisc add dev eth0 parent 1:1 pfifo limit 100", &[]),
            (
                "'tbf'\n[link.tbf]\nrate = '5 Mbit/s'\nburst = '9 kB'",
                "qdisc add dev eth0 root handle 1: tbf rate 5000000bit burst 9000 limit 1514000",
                &[],
            ),
            (
                "'tbf'\n[link.tbf]\nrate = '5 Mbit/s'\nburst = '9 kB'\npeakrate = '8 Mbit/s'\nmtu = '2000 B'",
                "qdisc add dev eth0 root handle 1: tbf rate 5000000bit burst 9000 limit 1514000 peakrate 8000000bit mtu 2000",
                &[],
            ),
            ("'fifo'\n[class.c]", "# class 1:0 is a", &[("class `c`", "one queue")]),
            (
                "'fifo'\nfollows_arrivals = true",
                "qdisc add dev eth0 root handle 1: tbf rate 10000000bit burst 6514 limit 1514000",
                &[("follows_arrivals", "only a `cake`")],
            ),
        ],
    );
    let link = "[link]\nrate = '10 Mbit/s'\nscheduler = 'fifo'\nfollows_arrivals = true\n";
    let class = "[class.a]\ndefault = true\nqueue = { dropper = 'cake' }\n";
    let line = "qdisc add dev eth0 root handle 1: cake bandwidth 10000000bit diffserv3 \
                triple-isolate rtt 100000us nowash nonat no-ack-filter split-gso overhead 14 mpu 0 \
                noatm autorate-ingress";
    check(Filters::Flower, &format!("{link}{class}@"), &[("", line, &[])]);
    let wide = link.replace("follows_arrivals = true", "overhead = { bytes = 250, minimum = 300 }");
    let line = "qdisc add dev eth0 root handle 1: cake bandwidth 10000000bit diffserv3 \
                triple-isolate rtt 100000us nowash nonat no-ack-filter split-gso overhead 256 mpu \
                256 noatm";
    let rows: [Row; 1] = [("", line, &[("`overhead` of the link", "`mpu` up to 256")])];
    check(Filters::Flower, &format!("{wide}{class}@"), &rows);
}

#[test]
fn a_class_of_queues_by_hash_is_named_as_lost() {
    check(
        Filters::Flower,
        &HTB.replace('@', "[class.a]\nrate = '1 Mbit/s'\nhash = 'srcaddr'\nqueues = 2\n@"),
        &[(
            "match = { dscp = 46 }",
            "# class 1:2 is a-1",
            &[("`hash` of the class of `a-0`", "all packets go to `a-0`")],
        )],
    );
}

#[test]
fn queues_of_classes() {
    check(
        Filters::Flower,
        &HTB.replace('@', "[class.a]\nrate = '4 Mbit/s'\nqueue = { @ }"),
        &[
            ("", "qdisc add dev eth0 parent 1:1 pfifo limit 100", &[]),
            ("limit = '30 packets'", "qdisc add dev eth0 parent 1:1 pfifo limit 30", &[]),
            ("limit = '9000 B'", "qdisc add dev eth0 parent 1:1 bfifo limit 9000", &[]),
            (
                "dropper = 'head', limit = '9 packets'",
                "qdisc add dev eth0 parent 1:1 pfifo_head_drop limit 9",
                &[],
            ),
            (
                "dropper = 'fq-codel'",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 10240 flows 1024 quantum 1514 target 5000us interval 100000us memory_limit 32000000 ecn",
                &[],
            ),
            (
                "dropper = 'fq-codel', limit = '500 packets', flows = 64, quantum = '300 B', target = '7 ms', interval = '70 ms', memory = '1 MB', ecn = false",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 500 flows 64 quantum 300 target 7000us interval 70000us memory_limit 1000000 noecn",
                &[],
            ),
            (
                "dropper = 'fq-codel', hash = 'srcaddr'",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 10240 flows 1024 quantum 1514 target 5000us interval 100000us memory_limit 32000000 ecn",
                &[("hash of class `a`", "not hosts")],
            ),
            (
                "dropper = 'isolate', isolate = 'flows within srcaddr', limit = '500 packets'",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 500 flows 1024 quantum 1514 target 5000us interval 100000us memory_limit 32000000 ecn",
                &[("`isolate` of class `a`", "not hosts")],
            ),
            (
                "dropper = 'isolate'",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 10240 flows 1024 quantum 1514 target 5000us interval 100000us memory_limit 32000000 ecn",
                &[("`isolate` of class `a`", "hashes are equal")],
            ),
            (
                "dropper = 'cake', unlimited = true, tins = 'diffserv4', wash = true, memory = '1 MB'",
                "qdisc add dev eth0 parent 1:1 cake unlimited diffserv4 triple-isolate rtt 100000us memlimit 1000000b wash nonat no-ack-filter split-gso raw",
                &[],
            ),
            (
                "dropper = 'cake', unlimited = true, ack_filter = 'aggressive'",
                "qdisc add dev eth0 parent 1:1 cake unlimited diffserv3 triple-isolate rtt 100000us nowash nonat ack-filter-aggressive split-gso raw",
                &[],
            ),
            (
                "dropper = 'cake', hash = 'dual-srchost', rate = '3 Mbit/s', target = '9 ms', limit = '70 packets'",
                "qdisc add dev eth0 parent 1:1 cake bandwidth 3000000bit diffserv3 dual-srchost rtt 100000us nowash nonat no-ack-filter split-gso raw",
                &[
                    ("rate of the queue of class `a`", "also holds"),
                    ("limit of class `a`", "memory alone"),
                    ("target of class `a`", "a twentieth"),
                ],
            ),
            (
                "dropper = 'fq-codel', quantum = '255 B', rules = 'rfc8290'",
                "qdisc add dev eth0 parent 1:1 fq_codel limit 10240 flows 1024 quantum 255 target 5000us interval 100000us memory_limit 32000000 ecn",
                &[("`rules` of class `a`", "has its own"), ("quantum of class `a`", "256 B")],
            ),
            (
                "dropper = 'sfq'",
                "qdisc add dev eth0 parent 1:1 sfq limit 127 depth 127 flows 128 quantum 1514 divisor 1024",
                &[],
            ),
            (
                "dropper = 'sfq', limit = '60 packets', depth = 20, flows = 9, quantum = '3000 B', divisor = 60, headdrop = true, hash = 'srcaddr'",
                "qdisc add dev eth0 parent 1:1 sfq limit 60 depth 20 flows 9 quantum 3000 divisor 64 headdrop",
                &[("hash of class `a`", "not hosts"), ("divisor of class `a`", "powers of two")],
            ),
            (
                "dropper = 'codel'",
                "qdisc add dev eth0 parent 1:1 codel limit 1000 target 5000us interval 100000us noecn",
                &[],
            ),
            (
                "dropper = 'codel', limit = '9 packets', ecn = true",
                "qdisc add dev eth0 parent 1:1 codel limit 9 target 5000us interval 100000us ecn",
                &[],
            ),
            (
                "dropper = 'codel', limit = '9000 B'",
                "qdisc add dev eth0 parent 1:1 codel limit 18 target 5000us interval 100000us noecn",
                &[],
            ),
            (
                "dropper = 'pie'",
                "qdisc add dev eth0 parent 1:1 pie limit 1000 target 15000us tupdate 15000us alpha 2 beta 20 noecn bytemode",
                &[],
            ),
            (
                "dropper = 'pie', bytes = false, alpha = 3, beta = 30, update = '30 ms', ecn = true",
                "qdisc add dev eth0 parent 1:1 pie limit 1000 target 15000us tupdate 30000us alpha 3 beta 30 ecn",
                &[],
            ),
            (
                "dropper = 'fq-pie', quantum = '3 kB', ecn = true, ecn_max = 20, bytes = true",
                "qdisc add dev eth0 parent 1:1 fq_pie limit 10240 flows 1024 quantum 3000 target 15000us tupdate 15000us alpha 2 beta 20 ecn_prob 20 ecn bytemode",
                &[],
            ),
            (
                "dropper = 'fq', maxrate = '8 Mbit/s', flows = 256, ce_threshold = '3 ms'",
                "qdisc add dev eth0 parent 1:1 fq limit 10000 flow_limit 100 quantum 3028 initial_quantum 15140 refill_delay 40000us maxrate 8000000bit low_rate_threshold 550000bit ce_threshold 3000us orphan_mask 255",
                &[("the single band of class `a`", "6.7")],
            ),
            (
                "dropper = 'fq', bands = 'tos', weight2 = 10000",
                "qdisc add dev eth0 parent 1:1 fq limit 10000 flow_limit 100 quantum 3028 initial_quantum 15140 refill_delay 40000us bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 10000",
                &[("limit of class `a`", "to no limit")],
            ),
            (
                "dropper = 'fq', bands = 'tos', limit = '15000 packets', band_limit = 4000",
                "qdisc add dev eth0 parent 1:1 fq limit 4000 flow_limit 100 quantum 3028 initial_quantum 15140 refill_delay 40000us bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536",
                &[],
            ),
            (
                "dropper = 'choke', limit = '300 packets', min = 20, max = 60, pmax = '10 %', weight = 32, halves = '1312389763 ns', ecn = true",
                "qdisc add dev eth0 parent 1:1 choke limit 300 min 20 max 60 probability 0.100000 burst 34 bandwidth 3000000bit ecn",
                &[],
            ),
            (
                "dropper = 'choke', weight = 1, halves = '1 ms'",
                "qdisc add dev eth0 parent 1:1 choke limit 1000 min 83 max 250 probability 0.02 burst 84 bandwidth 10000000bit",
                &[("`weight` of class `a`", "none gives this one")],
            ),
            (
                "dropper = 'sfb', increment = '0.5 %', rehash = '60 s', ecn = false",
                "qdisc add dev eth0 parent 1:1 sfb limit 1000 max 25 target 20 increment 0.005000 decrement 0.00005 penalty_rate 10 penalty_burst 20 rehash 60000 db 60000",
                &[("`ecn` of class `a`", "marks")],
            ),
            (
                "dropper = 'dualpi2', rules = 'linux', target = '20 ms', identifier = 'ect', overload = 'mark'",
                "qdisc add dev eth0 parent 1:1 dualpi2 limit 10000 target 20000us tupdate 16000us coupling_factor 2 classic_protection 10 alpha 0.16015625 beta 3.19921875 any_ect overflow step_thresh 1000us",
                &[],
            ),
            (
                "dropper = 'gred', default = 2, grio = true",
                "qdisc add dev eth0 parent 1:1 gred setup vqs 4 default 2 grio limit 378500",
                &[("`by` of class `a`", "tc_index")],
            ),
            (
                "dropper = 'gred', max_2 = '60 KB', prio_2 = 1, ecn = true",
                "qdisc change dev eth0 parent 1:1 gred vq 2 limit 240000 min 20000 max 60000 avpkt 1000 burst 43 probability 0.020000 bandwidth 156250000bit prio 1 ecn",
                &[("`by` of class `a`", "tc_index")],
            ),
            (
                "dropper = 'gred', max_2 = '60 KB', prio_2 = 1, pkttime = '12500 us'",
                "qdisc change dev eth0 parent 1:1 gred vq 2 limit 240000 min 20000 max 60000 avpkt 1000 burst 43 probability 0.020000 bandwidth 10000000bit prio 1",
                &[("`by` of class `a`", "tc_index")],
            ),
            (
                "dropper = 'gred', max_2 = '60 KB', weight_2 = 1, pkttime = '1 us'",
                "qdisc change dev eth0 parent 1:1 gred vq 2 limit 240000 min 20000 max 60000 avpkt 1000 burst 21 probability 0.020000 bandwidth 34359738360bit prio 2",
                &[
                    ("`by` of class `a`", "tc_index"),
                    ("the pause of the average of class `a`", "34 Gbit/s"),
                    ("`weight_2` of class `a`", "none gives this one"),
                ],
            ),
            (
                "dropper = 'dualpi2', rules = 'linux', step_packets = 5, step_floor = 3, early = true",
                "qdisc add dev eth0 parent 1:1 dualpi2 limit 10000 target 15000us tupdate 16000us coupling_factor 2 classic_protection 10 alpha 0.16015625 beta 3.19921875 l4s_ect drop_on_overload step_thresh 5p min_qlen_step 3 drop_enqueue",
                &[("`step_floor` of class `a`", "at arrival")],
            ),
            (
                "dropper = 'dualpi2', ramp = '400 us', nqb = true",
                "qdisc add dev eth0 parent 1:1 dualpi2 limit 10000 target 15000us tupdate 16000us coupling_factor 2 classic_protection 10 alpha 0.16015625 beta 3.19921875 l4s_ect drop_on_overload step_thresh 1000us",
                &[
                    ("`rules` of class `a`", "its own"),
                    ("`ramp` of class `a`", "a step only"),
                    ("`nqb` of class `a`", "a filter"),
                ],
            ),
            (
                "dropper = 'blue'",
                "qdisc add dev eth0 parent 1:1 pfifo limit 200",
                &[("dropper `blue` of class `a`", "differs")],
            ),
            (
                "dropper = 'head', limit = '9000 B'",
                "qdisc add dev eth0 parent 1:1 bfifo limit 9000",
                &[("dropper `head` of class `a`", "differs")],
            ),
        ],
    );
}

#[test]
fn rules_as_flower() {
    check(
        Filters::Flower,
        &HTB.replace('@', "[class.a]\nrate = '4 Mbit/s'\nmatch = [{ @ }]"),
        &[
            ("", "filter add dev eth0 parent 1: protocol all prio 1 matchall classid 1:1", &[]),
            (
                "ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower classid 1:1",
                &[],
            ),
            (
                "ethertype = 'arp'",
                "filter add dev eth0 parent 1: protocol 0x0806 prio 1 flower classid 1:1",
                &[],
            ),
            (
                "proto = 'udp'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto udp classid 1:1",
                &[],
            ),
            (
                "proto = 'udp'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 2 flower ip_proto udp classid 1:1",
                &[],
            ),
            (
                "proto = 47",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto 0x2f classid 1:1",
                &[],
            ),
            (
                "src = '10.0.0.0/8', dst = '10.0.0.1'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower src_ip 10.0.0.0/8 dst_ip 10.0.0.1/32 classid 1:1",
                &[],
            ),
            (
                "dst = ['10.0.0.0/8', '2001:db8::/32']",
                "filter add dev eth0 parent 1: protocol ipv6 prio 2 flower dst_ip 2001:db8::/32 classid 1:1",
                &[],
            ),
            (
                "dport = 53",
                "filter add dev eth0 parent 1: protocol ip prio 3 flower ip_proto sctp dst_port 53 classid 1:1",
                &[],
            ),
            (
                "proto = 'tcp', sport = '0-1023'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto tcp src_port 0-1023 classid 1:1",
                &[],
            ),
            (
                "dscp = 'ef'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_tos 0xb8/0xfc classid 1:1",
                &[],
            ),
            (
                "dscp = 'ef', ecn = 'ce'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_tos 0xbb/0xff classid 1:1",
                &[],
            ),
            (
                "vlan = 7",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 1 flower vlan_id 7 classid 1:1",
                &[],
            ),
            (
                "vlan = 7, ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 1 flower vlan_id 7 vlan_ethtype ip classid 1:1",
                &[],
            ),
            (
                "vlan = 7, vlan_inner = 8",
                "# class 1:1 is a",
                &[("rule 1 of class `a`", "inner tag")],
            ),
            (
                "vlan = 7, vlan_inner = 'none', ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 1 flower vlan_id 7 vlan_ethtype ip classid 1:1",
                &[],
            ),
            ("vlan = 'any'", "# class 1:1 is a", &[("rule 1 of class `a`", "any VLAN tag")]),
            ("vlan = 'none'", "# class 1:1 is a", &[("rule 1 of class `a`", "by their protocol")]),
            (
                "vlan = 'none', proto = 'tcp'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 2 flower ip_proto tcp classid 1:1",
                &[],
            ),
            (
                "mark = 5",
                "filter add dev eth0 parent 1: protocol all prio 1 handle 0x5 fw classid 1:1",
                &[],
            ),
            (
                "mark = '0x10/0xf0', ethertype = 'ipv4', vlan = 'none'",
                "filter add dev eth0 parent 1: protocol ip prio 1 handle 0x10/0xf0 fw classid 1:1",
                &[],
            ),
            ("mark = 0", "# class 1:1 is a", &[("rule 1 of class `a`", "mark is 0")]),
            (
                "mark = 5, proto = 'tcp'",
                "# class 1:1 is a",
                &[("rule 1 of class `a`", "tests nothing else")],
            ),
            ("interface = 'lan'", "# class 1:1 is a", &[("rule 1 of class `a`", "egress")]),
            (
                "proto = 'tcp', dport = [443, '8000-8080', 'http']",
                "filter add dev eth0 parent 1: protocol ip prio 3 flower ip_proto tcp dst_port 8000-8080 classid 1:1",
                &[],
            ),
            (
                "proto = 'tcp', sport = [1, 3], dport = [80, 443], ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol ip prio 4 flower ip_proto tcp src_port 3 dst_port 443 classid 1:1",
                &[],
            ),
            (
                "dscp = ['EF', 'AF41']",
                "filter add dev eth0 parent 1: protocol ipv6 prio 4 flower ip_tos 0xb8/0xfc classid 1:1",
                &[],
            ),
            (
                "src_mac = ['02:00:5e:00:00:01', '02:00:5e:00:00:02'], dst_mac = '02:00:5e:00:00:03'",
                "filter add dev eth0 parent 1: protocol all prio 2 flower src_mac 02:00:5e:00:00:02 dst_mac 02:00:5e:00:00:03 classid 1:1",
                &[],
            ),
            (
                "proto = 47, police = { rate = '1 Mbit/s', depth = '9000 B' }",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto 0x2f action police rate 1000000bit burst 9000 conform-exceed drop/pass classid 1:1",
                &[],
            ),
            (
                "proto = 47, police = { rate = '1 Mbit/s', depth = '9000 B', out = 'pass' }",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto 0x2f action police rate 1000000bit burst 9000 conform-exceed pass/pass classid 1:1",
                &[],
            ),
            (
                "proto = 47, police = { rate = '1 Mbit/s', depth = '9000 B', out = 'mark ef' }",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto 0x2f classid 1:1",
                &[("police of rule 1 of class `a`", "token bucket")],
            ),
            (
                "proto = 47, set_dscp = 'cs1'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto 0x2f action pedit ex munge ip dsfield set 0x20 retain 0xfc pipe action csum ip4h classid 1:1",
                &[],
            ),
            (
                "proto = 47, set_dscp = 'cs1'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 2 flower ip_proto 0x2f action pedit ex munge ip6 traffic_class set 0x20 retain 0xfc classid 1:1",
                &[],
            ),
            (
                "vlan = 5, set_dscp = 'cs1'",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 1 flower vlan_id 5 classid 1:1",
                &[("`set_dscp` of rule 1 of class `a`", "version of IP")],
            ),
            (
                "pcp = [3, 5]",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 2 flower vlan_prio 5 classid 1:1",
                &[],
            ),
            (
                "vlan = 7, pcp = 5, proto = 'udp'",
                "filter add dev eth0 parent 1: protocol 802.1Q prio 1 flower vlan_id 7 vlan_prio 5 vlan_ethtype ip ip_proto udp classid 1:1",
                &[],
            ),
            (
                "tcp_flags = 'syn,!ack'",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto tcp tcp_flags 0x2/0x12 classid 1:1",
                &[],
            ),
            (
                "proto = 'icmpv6', icmp_type = '1/4', ethertype = 'ipv6'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 1 flower ip_proto icmpv6 type 1 code 4 classid 1:1",
                &[],
            ),
            (
                "proto = 'icmp', icmp_type = 8",
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto icmp type 8 classid 1:1",
                &[],
            ),
            (
                "proto = 'icmpv6'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 1 flower ip_proto icmpv6 classid 1:1",
                &[],
            ),
            ("length = '0-63 B'", "# class 1:1 is a", &[("rule 1 of class `a`", "u32 does")]),
        ],
    );
}

#[test]
fn a_rule_of_too_many_filters_is_lost_whole() {
    let ports: Vec<_> = (0..80).map(|port| (port * 2).to_string()).collect();
    let list = ports.join(", ");
    let rule = format!("proto = 'tcp', sport = [{list}], dport = [{list}]");
    let policy = HTB.replace('@', &format!("[class.a]\nrate = '4 Mbit/s'\nmatch = [{{ {rule} }}]"));
    let export = exported(&policy, Filters::Flower).expect("the kernel has HTB");
    assert!(export.lines.iter().all(|line| !line.starts_with("filter")), "none is written in part");
    assert_eq!(export.lost[0].what, "rule 1 of class `a`");
    assert_eq!(export.lost[0].why, "it stands for more than 4096 filters");
}

#[test]
fn rules_as_u32() {
    check(
        Filters::U32,
        &HTB.replace('@', "[class.a]\nrate = '4 Mbit/s'\nmatch = [{ @ }]"),
        &[
            (
                "proto = 'tcp', tcp_flags = 'ack,!syn', length = '0-63 B', ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff match u8 0x10 0x12 at 33 match u16 0 0xffc0 at 2 classid 1:1",
                &[],
            ),
            (
                "length = '40-103 B', ethertype = 'ipv6'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 1 u32 match u16 0 0xffc0 at 4 classid 1:1",
                &[],
            ),
            (
                "proto = 'icmp', icmp_type = 8, ethertype = 'ipv4'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 1 0xff match ip icmp_type 8 0xff classid 1:1",
                &[],
            ),
            ("pcp = 5", "# class 1:1 is a", &[("rule 1 of class `a`", "flower can")]),
            (
                "",
                "filter add dev eth0 parent 1: protocol all prio 1 u32 match u32 0 0 classid 1:1",
                &[],
            ),
            (
                "proto = 'udp'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff classid 1:1",
                &[],
            ),
            (
                "proto = 'udp'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 2 u32 match ip6 protocol 17 0xff classid 1:1",
                &[],
            ),
            (
                "proto = 'tcp', dport = [80, '442-443']",
                "filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip protocol 6 0xff match ip dport 442 0xfffe classid 1:1",
                &[],
            ),
            (
                "src_mac = '02:00:5e:00:00:01'",
                "# class 1:1 is a",
                &[("rule 1 of class `a`", "flower does")],
            ),
            (
                "src = '10.0.0.0/8', dst = '10.0.0.1'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip src 10.0.0.0/8 match ip dst 10.0.0.1/32 classid 1:1",
                &[],
            ),
            (
                "src = '10.0.0.0/8', dscp = 'ef', ecn = 'ce'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip src 10.0.0.0/8 match ip tos 0xbb 0xff classid 1:1",
                &[],
            ),
            (
                "dst = '2001:db8::/32', dscp = 'ef'",
                "filter add dev eth0 parent 1: protocol ipv6 prio 1 u32 match ip6 dst 2001:db8::/32 match ip6 priority 0xb8 0xfc classid 1:1",
                &[],
            ),
            (
                "ethertype = 'ipv4', proto = 'tcp', dport = '1000-1023'",
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff match ip dport 1000 0xfff8 classid 1:1",
                &[],
            ),
            (
                "ethertype = 'ipv4', proto = 'tcp', dport = '1000-1023'",
                "filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip protocol 6 0xff match ip dport 1008 0xfff0 classid 1:1",
                &[],
            ),
            ("vlan = 7", "# class 1:1 is a", &[("rule 1 of class `a`", "flower can")]),
        ],
    );
}

#[test]
fn rules_are_written_in_the_order_in_which_weir_tries_them() {
    let rules = "[class.a]\nrate = '4 Mbit/s'\nmatch = [{ ethertype = 'ipv4', proto = 6, prio = 2 }, \
                 { ethertype = 'ipv4', proto = 17, prio = 1 }]";
    let policy = HTB.replace("\n@", "\nmatch_order = 'u32'\n@");
    check(
        Filters::Flower,
        &policy,
        &[
            (
                rules,
                "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto udp classid 1:1",
                &[],
            ),
            (
                rules,
                "filter add dev eth0 parent 1: protocol ip prio 2 flower ip_proto tcp classid 1:1",
                &[],
            ),
        ],
    );
}

#[test]
fn other_schedulers_are_refused() {
    for scheduler in ["cbq", "wf2q+", "sfq"] {
        let rate = if scheduler == "cbq" { "rate = '1 Mbit/s'\n" } else { "" };
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = '{scheduler}'\n[class.a]\n{rate}default = true\n"
        );
        let why = exported(&text, Filters::Flower).expect_err("the kernel has no such scheduler");
        assert!(why.contains(&format!("no discipline like `{scheduler}`; it has")), "{why}");
    }
}

#[test]
fn a_script_first_deletes_the_root_and_a_batch_does_not() {
    let text = "[link]\nrate = '10 Mbit/s'\nscheduler = 'fifo'\n[class.a]\ndefault = true\n";
    let export = exported(text, Filters::Flower).expect("the kernel has tbf");
    let root = "qdisc add dev eth0 root handle 1: tbf rate 10000000bit burst 6514 limit 1514000\n";
    let queue = "qdisc add dev eth0 parent 1:1 pfifo limit 100\n";
    let script = format!(
        "#!/bin/sh -e\ntc qdisc del dev eth0 root 2>/dev/null || true\ntc {root}# class 1:0 is a\n\
         tc {queue}"
    );
    assert_eq!(export.script("eth0"), script);
    assert_eq!(export.batch(), format!("{root}# class 1:0 is a\n{queue}"));
}
