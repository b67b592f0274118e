//! `weir import pf` refuses queues that pfctl refuses, and reads what pfctl reads around them.

use weir_import::import::{self, Fate, Options};
use weir_policy::finding::{Outcome, Severity};
use weir_policy::policy;

fn read(text: &str) -> Outcome<import::Import> {
    let language = import::find("pf").expect("it is a language");
    import::read(language, text.as_bytes(), "f", &Options::default())
}

#[test]
fn queues_that_pfctl_refuses_are_errors() {
    let head = "altq on em0 hfsc bandwidth 10Mb queue { a, b }\nqueue a hfsc(default)\n";
    let rows = [
        ("queue b hfsc(linkshare 10% linkshare 20%)", "W405@3:28", "keep one"),
        ("queue b hfsc(realtime 1Mb realtime 2Mb)", "W405@3:27", "keep one"),
        ("queue b hfsc(upperlimit 1Mb upperlimit 2Mb)", "W405@3:29", "keep one"),
        ("queue b bandwidth 10% bandwidth 20%", "W405@3:23", "keep one"),
        ("queue b qlimit 5 qlimit 6", "W405@3:18", "keep one"),
        ("queue b priority 5 priority 6", "W405@3:20", "keep one"),
        ("queue b hfsc(red) hfsc(ecn)", "W405@3:19", "keep one"),
        ("queue b { b }", "W406@3:11", "another"),
        ("queue b { c b }", "W406@3:13", "another"),
        ("queue b parent b", "W406@3:16", "another"),
        ("queue 7", "W403@3:7", "letter"),
        ("queue b { 7 }", "W403@3:11", "letter"),
        ("queue b hfsc(default)", "W406@3:1", "one of them"),
        ("altq on em1 cbq bandwidth 1Mb queue 5", "W403@3:37", "letter"),
        ("altq on em1 cbq bandwidth 1Mb bandwidth 2Mb queue x", "W405@3:31", "keep one"),
        ("pass out on em0 queue 7", "W403@3:23", "letter"),
        ("pass out on em0 proto tcp qeue b", "W401@3:27", "did you mean `queue`?"),
    ];
    for (line, wanted, cure) in rows {
        let rest = if line.starts_with("queue") { "" } else { "queue b\n" };
        let outcome = read(&format!("{head}{line}\n{rest}"));
        let errors = outcome.findings.iter().filter(|one| one.severity == Severity::Error);
        let found: Vec<_> = errors
            .map(|one| (format!("{}@{}:{}", one.code, one.place.line, one.place.column), one))
            .collect();
        let first = found.first().unwrap_or_else(|| panic!("{line}: no error"));
        assert_eq!(first.0, wanted, "{line}: {:?}", first.1);
        assert!(first.1.cure.contains(cure), "{line}: {:?}", first.1);
    }
}

/// Checks that the declarations below an interface of 10 Mbit/s are refused at line and column with
/// these words, or read where there are none.
fn check_limit(discipline: &str, queues: &str, wanted: Option<(&str, &str)>) {
    let text = format!("altq on em0 {discipline} bandwidth 10Mb queue {{ a, b }}\n{queues}\n");
    let outcome = read(&text);
    let error = outcome.findings.iter().find(|one| one.severity == Severity::Error);
    let found = error.map(|one| format!("{}:{}", one.place.line, one.place.column));
    assert_eq!(found.as_deref(), wanted.map(|row| row.0), "{queues}: {error:?}");
    if let (Some(error), Some((_, words))) = (error, wanted) {
        assert!(error.message.contains(words), "{queues}: {error:?}");
    }
}

#[test]
fn numbers_that_pfctl_refuses_are_errors() {
    let rows = [
        ("cbq", "queue a bandwidth 11Mb cbq(default)\nqueue b", Some(("2:7", "the interface"))),
        ("cbq", "queue a bandwidth 8Mb cbq(default)\nqueue b bandwidth 8Mb", None),
        (
            "cbq",
            "queue a bandwidth 1Mb cbq(default) { c }\nqueue b bandwidth 1Mb\n\
                 queue c bandwidth 2Mb",
            Some(("4:7", "its parent `a`")),
        ),
        ("priq", "queue a priq(default)\nqueue b", Some(("3:7", "same priority, 1"))),
        ("priq", "queue a bandwidth 5Mb priq(default)\nqueue b", Some(("2:7", "a bandwidth"))),
        ("priq", "queue a priq(default) { c }\nqueue b\nqueue c", Some(("2:7", "children"))),
        ("priq", "queue a priority 1 priq(default)\nqueue b priority 2", None),
        ("hfsc", "queue a hfsc(default)\nqueue b", Some(("3:7", "`linkshare` curves exceed"))),
        ("hfsc", "queue a bandwidth 60% hfsc(default)\nqueue b bandwidth 40%", None),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default realtime (1Mb 10 2Mb))\nqueue b bandwidth 1Mb",
            Some(("2:7", "begins slower")),
        ),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default realtime (0 10 2Mb))\nqueue b bandwidth 1Mb",
            None,
        ),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default realtime (9Mb 10 1Mb))\nqueue b bandwidth 1Mb",
            Some(("2:7", "80 %")),
        ),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default realtime 5Mb)\n\
                  queue b bandwidth 1Mb hfsc(realtime 4Mb)",
            Some(("3:7", "80 %")),
        ),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default realtime 2Mb upperlimit 1Mb)\nqueue b \
                  bandwidth 1Mb",
            Some(("2:7", "below its `realtime`")),
        ),
        (
            "hfsc",
            "queue a bandwidth 1Mb hfsc(default upperlimit 11Mb)\nqueue b bandwidth 1Mb",
            Some(("2:7", "above the interface's rate")),
        ),
    ];
    for (discipline, queues, wanted) in rows {
        check_limit(discipline, queues, wanted);
    }
}

/// Checks that a file is refused at line and column with these words, or read where there are none.
fn check_file(text: &str, wanted: Option<(&str, &str)>) {
    let outcome = read(text);
    let error = outcome.findings.iter().find(|one| one.severity == Severity::Error);
    let found = error.map(|one| format!("{}:{}", one.place.line, one.place.column));
    assert_eq!(found.as_deref(), wanted.map(|row| row.0), "{text}: {error:?}");
    if let (Some(error), Some((_, words))) = (error, wanted) {
        assert!(error.message.contains(words), "{text}: {error:?}");
    }
}

#[test]
fn numbers_that_pfctl_refuses_in_newer_queues_are_errors() {
    let rows = [
        ("bandwidth 5M", None),
        ("bandwidth 5M flows 1 quantum 65535 qlimit 65535", None),
        ("bandwidth 5M flows 32767 qlimit 0", None),
        ("bandwidth 5M flows 0", Some(("3:40", "1 to 32767"))),
        ("bandwidth 5M flows 32768", Some(("3:40", "1 to 32767"))),
        ("bandwidth 5M quantum 0", Some(("3:42", "1 to 65535"))),
        ("bandwidth 5M quantum 65536", Some(("3:42", "1 to 65535"))),
        ("bandwidth 5M quantum 5 quantum 6", Some(("3:44", "twice"))),
        ("bandwidth 5M qlimit 65536", Some(("3:41", "up to 65535"))),
        ("bandwidth 50%", Some(("3:7", "in percent"))),
        ("bandwidth 5M min 5%", Some(("3:7", "in percent"))),
        ("bandwidth 5M burst 9% for 5ms", Some(("3:7", "in percent"))),
        ("bandwidth 5M burst 9M for 5", Some(("3:47", "100ms"))),
        ("flows 5", Some(("3:7", "lacks a bandwidth"))),
        ("bandwidth 5M flows 5\nqueue c parent b bandwidth 1M", Some(("3:7", "`flows`"))),
        // pfctl compares neither with anything.
        ("bandwidth 5M min 20M", None),
        ("bandwidth 20M", None),
    ];
    for (queue, wanted) in rows {
        let head = "queue root on em0 bandwidth 10M\nqueue a parent root bandwidth 1M default\n";
        check_file(&format!("{head}queue b parent root {queue}\n"), wanted);
    }
    let roots = [
        ("queue root on em0 flows 1024 default", None),
        ("queue root on em0 default", Some(("1:7", "lacks a bandwidth"))),
        (
            "queue root on em0 bandwidth 5M default\nqueue b parent root bandwidth 1M",
            Some(("1:7", "`default`")),
        ),
        (
            "altq on em0 cbq bandwidth 5Mb qlimit 65536 queue { a }\nqueue a cbq(default)",
            Some(("1:38", "up to 65535")),
        ),
        (
            "altq on em0 cbq bandwidth 5Mb tbrsize 4294967296 queue { a }\nqueue a cbq(default)",
            Some(("1:39", "up to 4294967295")),
        ),
    ];
    for (text, wanted) in roots {
        check_file(&format!("{text}\n"), wanted);
    }
}

#[test]
fn numbers_that_pfctl_refuses_in_rules_are_errors() {
    let head = "queue root on em0 bandwidth 10M\nqueue a parent root bandwidth 1M default\n";
    let rows = [
        ("user 4294967294", None),
        ("user 4294967295", Some(("3:15", "up to 4294967294"))),
        ("group { wheel, 99999999999 }", Some(("3:25", "up to 4294967294"))),
        ("user 99999999999999999999999", Some(("3:15", "up to 4294967294"))),
        ("proto icmp icmp-type 255", None),
        ("proto icmp icmp-type 256", Some(("3:31", "up to 255"))),
        ("proto icmp icmp-type 8 code 256", Some(("3:38", "up to 255"))),
        ("proto icmp6 icmp6-type { 1, 300 }", Some(("3:38", "up to 255"))),
        ("probability 100%", None),
        ("probability 1", None),
        ("probability 200%", Some(("3:22", "up to 100%"))),
        ("probability 1.5", Some(("3:22", "up to 100%"))),
        ("prio 8", Some(("3:15", "up to 7"))),
        ("from 10.0.0.0/33", Some(("3:15", "32 bits"))),
        ("to { 10.0.0.0/8, 10.0.0.0/x }", Some(("3:27", "32 bits"))),
        ("from 2001:db8::/129", Some(("3:15", "128 bits"))),
        ("from 2001:db8::/128", None),
    ];
    for (rule, wanted) in rows {
        check_file(&format!("{head}pass out {rule} queue a\n"), wanted);
    }
}

/// Checks the fate of line 4 and parts of the policy.
fn check_rule(line: &str, fate: Fate, note: &str, wanted: &[&str]) {
    let head = "altq on { em0 em1 } cbq bandwidth 10Mb queue { a b }\n\
                queue a bandwidth 50% cbq(default)\nqueue b bandwidth 50%\n";
    let outcome = read(&format!("{head}{line}\n"));
    assert!(outcome.plan.is_some(), "{line}\n{:#?}", outcome.findings);
    let import = outcome.plan.expect("errors were ruled out");
    let found = import.lines.iter().find(|found| found.place.line == 4).expect("it is a statement");
    assert_eq!(found.fate, fate, "{found:?}");
    assert!(found.note.contains(note), "{found:?}");
    let all: String = import.policies.iter().map(|one| one.policy.as_str()).collect();
    for one in &import.policies {
        assert!(!policy::parse(&one.policy, "p").failed(), "{}", one.policy);
    }
    for part in wanted {
        assert!(all.contains(part), "{part:?} is missing:\n{all}");
    }
}

#[test]
fn rules_around_the_queues_do_not_stop_the_import() {
    let lost = [
        ("pass out proto icmp icmp-type teapot queue b", "not known"),
        ("pass out from <later> queue b", "table `later`"),
        ("pass out from (em0)/24 queue b", "own address"),
        ("pass out from { <one>, 10.0.0.0/8 } queue b", "not known"),
        ("pass out proto tcp user { root, >= 1000 } queue b", "user"),
        ("pass out proto tcp user != root queue b", "user"),
        ("pass out ! tagged X queue b", "negated"),
        ("pass out on em0 max-frobnication 5 all queue b", "`max-frobnication`"),
        ("binat-anchor \"x/*\"", "no queue"),
    ];
    for (line, note) in lost {
        check_rule(line, Fate::Lost, note, &["[class.b]"]);
    }
    let left_out = [
        "route-to { (em0 10.0.0.1), (em1 10.0.1.1) } round-robin sticky-address",
        "route-to (em0 10.0.0.1)",
        "divert-to 127.0.0.1 port 8080",
        "nat-to { 10.0.0.1, 10.0.0.2 } source-hash",
    ];
    for part in left_out {
        let line = format!("pass out {part} proto tcp to port 80 queue b");
        check_rule(&line, Fate::Approximated, "left out", &["{ proto = 6, dport = \"80\" }"]);
    }
    let kept = [
        (
            "pass out proto tcp to port 22 label \"$nr:$if\" queue b",
            "{ proto = 6, dport = \"22\" }",
        ),
        ("match out scrub (no-df max-mss 1440) proto tcp set queue b", "{ proto = 6 }"),
        ("pass out tos ef queue b", "{ dscp = 46 }"),
        (
            "pass out proto icmp icmp-type { echoreq, unreach code needfrag } queue b",
            "{ proto = 1, icmp_type = [\"3/4\", 8] }",
        ),
        ("pass out proto icmp6 icmp6-type toobig queue b", "{ proto = 58, icmp_type = 2 }"),
        (
            "pass out to 10.0.0.1 - 10.0.0.6 queue b",
            "dst = [\"10.0.0.1/32\", \"10.0.0.2/31\", \"10.0.0.4/31\", \"10.0.0.6/32\"]",
        ),
        ("pass out to 10.0.0.0 - 10.0.0.255 queue b", "{ dst = \"10.0.0.0/24\" }"),
        ("pass out to 0.0.0.0 - 255.255.255.255 queue b", "{ dst = \"0.0.0.0/0\" }"),
        ("pass out from { 2001:db8:: - 2001:db8::1 } queue b", "{ src = \"2001:db8::/127\" }"),
    ];
    for (line, rule) in kept {
        check_rule(line, Fate::Kept, "", &[rule]);
    }
}

#[test]
fn a_queue_may_be_on_all_other_interfaces() {
    let text = "altq on { em0 em1 em2 } cbq bandwidth 10Mb queue { a b }\n\
                queue a bandwidth 50% cbq(default)\n\
                queue b on { em0 em2 } bandwidth 20%\nqueue b on ! { em0 em2 } bandwidth 30%\n";
    let import = read(text).plan.expect("it is right");
    let rates: Vec<bool> =
        import.policies.iter().map(|one| one.policy.contains("rate = \"3 Mbit/s\"")).collect();
    assert_eq!(rates, [false, true, false]);
}

#[test]
fn the_second_queue_has_every_packet_with_the_bit_of_low_delay() {
    let low: Vec<String> =
        (0..64).filter(|dscp| dscp & 4 != 0).map(|dscp: u8| dscp.to_string()).collect();
    assert!(low.iter().any(|one| one == "46"), "EF has the bit");
    let parts = [
        format!("{{ proto = 6, dscp = [{}], ", low.join(", ")),
        "{ ethertype = \"ipv4\", proto = 6, tcp_flags = \"ack\", length = \"0-80 B\"".to_owned(),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let rule = "pass out on em0 proto tcp queue (a, b)";
    check_rule(rule, Fate::Approximated, "acknowledgements", &parts);
}
