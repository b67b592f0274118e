//! The options of OpenWrt's sqm.

use super::{CLOSE, KEPT, LOST, check};

fn queue(row: &str) -> String {
    format!(
        "config queue\n\toption enabled 1\n\toption interface 'eth1'\n\toption upload 9000\n{row}\n"
    )
}

#[test]
fn options_of_sqm() {
    check(
        "sqm",
        &queue("\toption script 'simplest.qos'\n\toption linklayer atm\n@"),
        &[
            (
                "\toption download '85000'",
                KEPT,
                "",
                "# Interface eth1-download; [link]; rate = '85 Mbit/s'; scheduler = 'htb'; ",
            ),
            ("\toption download 0", KEPT, "no policy for the download", "!eth1-download"),
            ("\toption overhead '-4'", KEPT, "", "overhead = { bytes = -4, cell = 48 }"),
            ("\toption tcMPU 64", KEPT, "", "minimum = 64"),
            ("\toption elimit 77", KEPT, "", "limit = '77 packets'"),
            ("\toption etarget 15ms", KEPT, "", "target = '15 ms'"),
            ("\toption egress_ecn NOECN", KEPT, "", "ecn = false"),
            ("\toption eqdisc_opts 'interval 90ms'", KEPT, "", "interval = '90 ms'"),
            ("\toption eqdisc_opts 'nat interval 90ms'", CLOSE, "`nat` is a word of cake", "90 ms"),
            ("\toption qdisc sfq", KEPT, "", "dropper = 'sfq'"),
            ("\toption squash_dscp 1", CLOSE, "clears no DSCP", "9 Mbit/s"),
            ("\toption verbosity 5", KEPT, "changes no packet", "9 Mbit/s"),
            ("\toption colour red", LOST, "no such option", "9 Mbit/s"),
        ],
    );
}

#[test]
fn scripts_of_sqm() {
    let rest =
        queue("\toption linklayer ethernet\n\toption overhead 34\n\toption squash_ingress 0");
    check(
        "sqm",
        &format!("@\n{}", rest.replacen("config queue\n", "", 1)),
        &[
            (
                "config queue\n\toption script piece_of_cake.qos",
                CLOSE,
                "`nat` is left out",
                "rate = '9 Mbit/s'; scheduler = 'fifo'; overhead = { bytes = 20 }; ; [class.all]; queue = { dropper = 'cake', tins = 'besteffort' }; ",
            ),
            (
                "config queue\n\toption script layer_cake.qos",
                CLOSE,
                "`nat` is left out",
                "rate = '9 Mbit/s'",
            ),
            (
                "config queue\n\toption script simple.qos",
                CLOSE,
                "rules compare the DSCP",
                "[class.background]; parent = '1-1'; rate = '1.5 Mbit/s'; ceil = '8.984 Mbit/s'; burst = '1514 B'; cburst = '1514 B'; prio = 3; ",
            ),
            (
                "config queue\n\toption script simplest_tbf.qos\n\toption qdisc cake",
                KEPT,
                "this script takes fq_codel",
                "scheduler = 'tbf'; overhead = { bytes = 34 }",
            ),
        ],
    );
    check(
        "sqm",
        &format!("{}@", queue("\toption script simplest.qos")),
        &[
            ("config queue\n\toption interface b", LOST, "does not start it", "!b-"),
            (
                "config queue\n\toption enabled 1\n\toption interface b\n\toption script own.qos",
                LOST,
                "only the script `own.qos` knows",
                "!b-",
            ),
            ("config x y", LOST, "no other section", "!b-"),
        ],
    );
}
