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
            ("/queue tree add name=b packet-mark=x", LOST, "mark of the router's", "!class.b]"),
            ("/queue simple add name=b target=10.0.0.1", KEPT, "", "class.b]"),
            ("/queue type add kind=pcq name=q pcq-rate=10M", LOST, "each address", "class.all]"),
            ("/ip address", LOST, "no queue", "100 Mbit/s"),
            (":for i from=1 to=9 do={", LOST, "a script", "100 Mbit/s"),
        ],
    );
}
