//! The queues of RouterOS.

use super::{CLOSE, KEPT, LOST, check};

#[test]
fn simple_queues() {
    check(
        "routeros",
        "/queue type\nadd kind=fq-codel name=fqc\n/queue simple\nadd name=all target=10.0.0.0/8 max-limit=20M/100M\n@\n",
        &[
            (
                "add name=boss parent=all target=10.0.0.1 limit-at=1M/5M max-limit=5M/20M priority=1/2 queue=fqc/fqc",
                KEPT,
                "",
                "[class.boss]; parent = 'all'; rate = '5 Mbit/s'; ceil = '20 Mbit/s'; prio = 1; queue = { dropper = 'fq-codel' }; match = [;     { dst = ['10.0.0.1'] },; ]",
            ),
            (
                "add name=b target=10.0.0.1,fd00::/64 max-limit=512k dst=192.0.2.0/24",
                KEPT,
                "",
                "{ src = ['10.0.0.1', 'fd00::/64'], dst = ['192.0.2.0/24'] }",
            ),
            (
                "add name=b parent=all \\\n    target=\"\" max-li\\\n    mit=1M/1M",
                KEPT,
                "",
                "[class.b]; parent = 'all'; rate = '10 kbit/s'; ceil = '1 Mbit/s'; ",
            ),
            (
                "add name=p queue=pcq-upload-default/pcq-download-default target=10.1.0.0/16",
                CLOSE,
                "addresses take turns",
                "queue = { dropper = 'fq-codel', hash = 'srcaddr' }",
            ),
            ("add burst-limit=9M/9M target=10.0.0.1", CLOSE, "`burst-limit`", "queue2"),
            ("add burst-limit=0/0 burst-time=0s/0s target=10.0.0.1", KEPT, "", "queue2"),
            ("add name=b target=10.0.0.1 time=8h-9h,mon", CLOSE, "at all times", "class.b]"),
            (
                "add name=b target=ether2 max-limit=2M/9M",
                KEPT,
                "downloads leave by the interface",
                "# Interface ether2-download; [link]; rate = '9 Mbit/s'; scheduler = 'htb'; ; [class.link]; rate = '9 Mbit/s'; ; [class.b]; parent = 'link'; rate = '10 kbit/s'; ceil = '9 Mbit/s'; ",
            ),
            ("add name=b target=10.0.0.1,ether2", CLOSE, "no address", "src = ['10.0.0.1']"),
            ("add name=b target=10.0.0.1 packet-marks=x", LOST, "firewall", "!class.b]"),
            ("add name=b target=10.0.0.1 disabled=yes", LOST, "disabled", "!class.b]"),
            ("set all max-limit=1M/1M", LOST, "does not show", "100 Mbit/s"),
            ("/queue tree add name=b packet-mark=x", LOST, "needs a `parent`", "!class.b]"),
            ("/queue simple add name=b target=10.0.0.1", KEPT, "", "class.b]"),
            ("/queue type add kind=pcq name=q pcq-rate=10M", LOST, "each address", "class.all]"),
            ("/ip address", LOST, "no queue", "100 Mbit/s"),
            (":for i from=1 to=9 do={", LOST, "a script", "100 Mbit/s"),
        ],
    );
}

#[test]
fn queue_trees() {
    let file = |mangle: &str, tree: &str| {
        format!(
            "/ip firewall address-list\nadd address=10.0.9.0/24 list=lab\n/ip firewall mangle\n\
             add action=mark-connection chain=prerouting connection-state=new dst-port=80 \
             new-connection-mark=web protocol=tcp\n{mangle}\n/queue tree\n\
             add max-limit=50M name=down parent=ether2\n{tree}\n"
        )
    };
    let queue = "add limit-at=5M max-limit=50M name=q packet-mark=m parent=down priority=2";
    check(
        "routeros",
        &file("@", queue),
        &[
            (
                "add action=mark-packet chain=forward dscp=46 new-packet-mark=m passthrough=no",
                KEPT,
                "",
                "# Interface ether2; [link]; rate = '1 Gbit/s'; ",
            ),
            (
                "add action=mark-packet chain=forward dscp=46 new-packet-mark=m passthrough=no",
                KEPT,
                "",
                "[class.q]; parent = 'down'; rate = '5 Mbit/s'; ceil = '50 Mbit/s'; prio = 1; queue = { limit = '10 packets' }; match = [;     { dscp = 46 },; ]",
            ),
            (
                "add action=mark-packet chain=forward connection-mark=web new-packet-mark=m",
                KEPT,
                "",
                "{ proto = 6, sport = '80' },;     { proto = 6, dport = '80' },",
            ),
            (
                "add action=mark-packet chain=forward src-address-list=lab new-packet-mark=m",
                KEPT,
                "",
                "{ src = '10.0.9.0/24' }",
            ),
            (
                "add action=mark-packet chain=forward dst-address=!10.0.0.0/1 port=53,5000-5010 \\\n    protocol=udp new-packet-mark=m",
                KEPT,
                "",
                "{ dst = '128.0.0.0/1', proto = 17, sport = '53' }",
            ),
            (
                "add action=mark-packet chain=forward out-interface=ether9 new-packet-mark=m",
                KEPT,
                "",
                "!match",
            ),
            (
                "add action=mark-packet chain=prerouting in-interface=ether1 new-packet-mark=m",
                CLOSE,
                "one direction",
                "[class.q]; ",
            ),
            (
                "add action=mark-packet chain=forward dscp=8 new-packet-mark=n",
                KEPT,
                "no queue",
                "!match",
            ),
            (
                "add action=mark-packet chain=forward layer7-protocol=x new-packet-mark=m",
                LOST,
                "`layer7-protocol`",
                "!match",
            ),
            ("add action=change-dscp chain=forward new-dscp=8", LOST, "no mark", "!match"),
        ],
    );
    // The last mark counts, unless a rule without `passthrough` gave one before.
    let marks = "add action=mark-packet chain=forward new-packet-mark=m protocol=udp\n\
                 add action=mark-packet chain=forward dscp=46 new-packet-mark=n passthrough=no\n\
                 add action=mark-packet chain=forward new-packet-mark=m protocol=tcp";
    check(
        "routeros",
        &file(marks, &format!("{queue}\n@")),
        &[
            (
                "add max-limit=2M name=r packet-mark=no-mark parent=down",
                KEPT,
                "",
                "prio = 7; queue = { limit = '10 packets' }; default = true; ",
            ),
            (
                "add max-limit=1M name=r packet-mark=n parent=down queue=pcq-download-default",
                CLOSE,
                "addresses take turns",
                "[class.r]; parent = 'down'; rate = '10 kbit/s'; ceil = '1 Mbit/s'; prio = 7; ",
            ),
        ],
    );
}
