//! Findings in policies, and the plans of valid ones.

use weir_core::classify::{FragmentLimits, FragmentPolicy, InterfaceId, Reason};
use weir_core::ids::{LeafId, MeterId};
use weir_core::link::{Charge, Framing};
use weir_core::packet::{Addresses, Dscp, Headers, Ports, Protocol};
use weir_core::queue::Limit;
use weir_core::units::{Bytes, Duration, Instant, Rate};
use weir_policy::diff::standings;
use weir_policy::file;
use weir_policy::finding::Outcome;
use weir_policy::policy::{Policy, parse, parse_bytes};

/// Returns the findings of `text` as `CODE@line:column`, in the order of the file.
fn codes<T>(outcome: &Outcome<T>) -> Vec<String> {
    let row = |finding: &weir_policy::Finding| {
        format!("{}@{}:{}", finding.code, finding.place.line, finding.place.column)
    };
    outcome.findings.iter().map(row).collect()
}

/// Checks the findings of a policy, and that there is a plan exactly if none is an error.
fn check(text: &str, wanted: &[&str]) -> Outcome<Policy> {
    let outcome = parse(text, "p.toml");
    assert_eq!(codes(&outcome), wanted, "{text}\n{:#?}", outcome.findings);
    assert_eq!(outcome.plan.is_some(), !outcome.failed(), "{text}");
    for finding in &outcome.findings {
        assert!(!finding.cure.is_empty(), "{} has no cure: {}", finding.code, finding.message);
    }
    outcome
}

/// As [`check`], for text after three lines of `[link]` with an HTB of 10 Mbit/s.
fn check_htb(rest: &str, wanted: &[&str]) -> Outcome<Policy> {
    check(&format!("[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n{rest}"), wanted)
}

/// As [`check`], for text after three lines of `[link]` with a DRR of 10 Mbit/s.
fn check_drr(rest: &str, wanted: &[&str]) -> Outcome<Policy> {
    check(&format!("[link]\nrate = '10 Mbit/s'\nscheduler = 'drr'\n{rest}"), wanted)
}

fn sound(outcome: Outcome<Policy>) -> Policy {
    outcome.plan.expect("the row is sound")
}

/// The message and the cure of the first finding.
fn first(outcome: &Outcome<Policy>) -> (&str, &str) {
    let finding = &outcome.findings[0];
    (&finding.message, &finding.cure)
}

#[test]
fn the_link_is_read_or_says_what_is_wrong() {
    let class = "[class.a]\ndefault = true\n";
    let rows: &[(&str, &[&str])] = &[
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n", &[]),
        ("", &["W011@1:1"]),
        ("link = 3\n", &["W012@1:8"]),
        ("[link]\nscheduler = 'drr'\n", &["W011@1:2"]),
        ("[link]\nrate = '1 Mbit/s'\n", &["W011@1:2"]),
        ("[link]\nrate = '1 mbps'\nscheduler = 'drr'\n", &["W014@2:8"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'dr'\n", &["W016@3:13"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\nrat = 1\n", &["W010@4:1"]),
        // A misspelt key that must be written is one error.
        ("[link]\nrate = '1 Mbit/s'\nschedular = 'drr'\n", &["W010@3:1"]),
        ("[link]\nrate = '1 Mbit/s'\nplan = 'drr'\n", &["W011@1:2", "W010@3:1"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[link.htb]\nr2q = 1\n", &["W102@4:7"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'htb'\n[link.htb]\nr2 = 1\n", &["W010@5:1"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\nmtu = 67\n", &["W015@4:7"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\nmtu = '9 KB'\n", &[]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\nbuffer = '9 GB'\n", &["W015@4:10"]),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\npackets_max = '0 packets'\n",
            &["W015@4:15"],
        ),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\npackets_max = '9 packets'\n",
            &["W126@4:15"],
        ),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\ncharge = 'ip'\n", &["W016@4:10"]),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = 'atm'\n", &[]),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = { bytes = 12, cell = 48 }\n",
            &[],
        ),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = { bytes = 999 }\n",
            &["W015@4:22"],
        ),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = { cell = 53 }\n",
            &["W015@4:21"],
        ),
        ("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = { byte = 1 }\n", &["W010@4:14"]),
        (
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\noverhead = { cell = 48, ptm = true }\n",
            &["W015@4:31"],
        ),
    ];
    for (link, wanted) in rows {
        // The class needs a rate under HTB; another test checks that.
        let class = if link.contains("'htb'") {
            "[class.a]\nrate = '1 kbit/s'\ndefault = true\n"
        } else {
            class
        };
        check(&format!("{link}{class}"), wanted);
    }
}

#[test]
fn framing_charge_and_mtu_give_the_largest_packet() {
    let rows = [
        ("", Framing::FRAME, Charge::Wire, 1514),
        ("overhead = 'none'", Framing::FRAME, Charge::Wire, 1514),
        ("overhead = 'ethernet'", Framing::ETHERNET, Charge::Wire, 1538),
        ("overhead = 'ethernet'\ncharge = 'frame'", Framing::ETHERNET, Charge::Frame, 1514),
        ("overhead = 'ip'\nmtu = 9000", Framing::IP, Charge::Wire, 9000),
        ("overhead = 'atm'", Framing::ATM, Charge::Wire, 1696),
        ("overhead = { bytes = 2, cell = 48 }", Framing::ATM, Charge::Wire, 1696),
        ("overhead = { bytes = 24, minimum = 84 }", Framing::ETHERNET, Charge::Wire, 1538),
        ("overhead = 'pppoe'", Framing::PPPOE, Charge::Wire, 1546),
        ("overhead = 'docsis'", Framing::DOCSIS, Charge::Wire, 1518),
        ("overhead = 'ptm'", Framing::PTM, Charge::Wire, 1546),
        ("overhead = 'pppoe-ptm'", Framing::PPPOE_PTM, Charge::Wire, 1554),
        ("overhead = 'pppoe-atm'", Framing::PPPOE_ATM, Charge::Wire, 1749),
        ("overhead = { bytes = 8, ptm = true }", Framing::PTM, Charge::Wire, 1546),
        (
            "overhead = { bytes = 24, minimum = 84, ptm = false }",
            Framing::ETHERNET,
            Charge::Wire,
            1538,
        ),
    ];
    for (lines, framing, charge, packet) in rows {
        let link = sound(check_drr(&format!("{lines}\n[class.a]\ndefault = true\n"), &[])).link;
        assert_eq!((link.framing, link.charge), (framing, charge), "{lines}");
        assert_eq!(link.tree.mtu(), Bytes::new(packet), "{lines}");
    }
}

#[test]
fn parameters_are_those_of_the_scheduler() {
    check_drr("[class.a]\nquantum = '3 KB'\ndefault = true\n", &[]);
    check_drr("[class.a]\nquantum = 3000\ndefault = true\n", &["W013@5:11"]);
    check_drr("[class.a]\nquantum = '3 B'\ndefault = true\n", &["W015@5:11"]);
    check_drr("[class.a]\nquantum = '64 B'\ndefault = true\n", &["W123@5:11"]);
    check_drr("[class.a]\nquantom = '3 KB'\ndefault = true\n", &["W010@5:1"]);
    check_drr("[class.a]\nshare = '3 %'\ndefault = true\n", &["W101@5:1"]);
    let outcome = check_drr("[class.a]\nceil = '1 Mbit/s'\ndefault = true\n", &["W101@5:1"]);
    let (message, cure) = first(&outcome);
    assert_eq!(message, "scheduler `drr` has no class parameter `ceil`; it has `quantum`");
    assert!(cure.contains("`htb`"), "{cure}");
    let outcome = check_drr("[class.a]\nweight = 55\ndefault = true\n", &["W101@5:1"]);
    let (_, cure) = first(&outcome);
    assert!(cure.starts_with("write `quantum = \"83270 B\"`: here classes share in"), "{cure}");
    // The descriptor requires a rate; the scheduler itself refuses a ceil below it.
    check_htb(
        "[class.a]\nmatch = {}\n[class.b]\nrate = '1 bit/s'\ndefault = true\n",
        &["W011@4:8"],
    );
    let below = "[class.a]\nrate = '2 Mbit/s'\nceil = '1 Mbit/s'\ndefault = true\n";
    check_htb(below, &["W114@6:8"]);
}

#[test]
fn queues_have_the_parameters_of_their_dropper() {
    let rows: &[(&str, &[&str])] = &[
        ("{}", &[]),
        ("{ dropper = 'head', limit = '15 packets' }", &[]),
        ("{ limit = '18 KB' }", &[]),
        ("{ limit = 15 }", &["W013@5:19"]),
        ("{ limit = '0 packets' }", &["W124@5:19"]),
        ("{ limit = '0 B' }", &["W124@5:19"]),
        ("{ limit = '1 KB' }", &["W125@5:19"]),
        ("{ dropper = 'hed' }", &["W016@5:21"]),
        ("{ limits = '1 packet' }", &["W101@5:11"]),
        ("'tail'", &["W012@5:9"]),
    ];
    for (queue, wanted) in rows {
        check_drr(&format!("[class.a]\nqueue = {queue}\ndefault = true\n"), wanted);
    }
}

#[test]
fn the_tree_is_valid_or_the_finding_says_where_not() {
    let rate = "rate = '2 Mbit/s'";
    check_htb("", &["W103@1:1"]);
    check_htb("[class]\n", &["W103@4:2"]);
    check_htb(&format!("[class.a]\n{rate}\n"), &["W120@4:8", "W109@6:1"]);
    check_htb(
        &format!("[class.a]\n{rate}\ndefault = true\n[class.b]\n{rate}\ndefault = true\n"),
        &["W110@9:11"],
    );
    let leaf = format!("[class.a]\nparent = 'b'\n{rate}\ndefault = true\n");
    check_htb(&leaf, &["W104@5:10"]);
    check_htb(&format!("{leaf}[class.b]\n{rate}\n"), &[]);
    check_htb(
        &format!("{leaf}[class.b]\n{rate}\nmatch = [{{}}]\nqueue = {{}}\nprio = 1\n"),
        &["W108@10:1", "W108@11:1", "W108@12:8"],
    );
    check_htb(&format!("{leaf}[class.b]\n{rate}\nparent = 'a'\n"), &["W105@5:10"]);
    check_htb(&format!("[class.a]\nparent = 'a'\n{rate}\ndefault = true\n"), &["W105@5:10"]);
    check_drr("[class.a]\nparent = 'b'\ndefault = true\n[class.b]\n", &["W107@5:10"]);
    check_drr("[class.'a b']\ndefault = true\n", &["W115@4:8"]);
    check_drr("[class.a]\ndefault = true\n[class.a]\n", &["W003@6:8"]);
    check_drr("[class]\na = 1\n[classes]\n", &["W012@5:5", "W010@6:2"]);
}

#[test]
fn a_tree_may_be_as_deep_as_the_core_allows_and_no_deeper() {
    let chain = |levels: usize| {
        let class = |level: usize| {
            let parent =
                if level > 0 { format!("parent = 'c{}'\n", level - 1) } else { String::new() };
            let default = if level + 1 == levels { "default = true\n" } else { "" };
            format!("[class.c{level}]\nrate = '2 Mbit/s'\n{parent}{default}")
        };
        (0..levels).map(class).collect::<String>()
    };
    let deepest = weir_core::sched::DEPTH_MAX;
    check_htb(&chain(deepest), &[]);
    let outcome = parse(
        &format!("[link]\nrate = '2 Mbit/s'\nscheduler = 'htb'\n{}", chain(deepest + 3)),
        "p",
    );
    let codes: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["W106"], "one finding, at the first class that is too deep");
}

#[test]
fn a_long_chain_and_a_long_loop_cost_no_more_than_their_length() {
    let many = 20_000;
    let class = |index: usize| {
        format!("[class.c{index}]\nrate = '1 bit/s'\nparent = 'c{}'\n", (index + 1) % many)
    };
    let text: String = (0..many).map(class).collect();
    let outcome = parse(&format!("[link]\nrate = '1 Gbit/s'\nscheduler = 'htb'\n{text}"), "p");
    assert_eq!(outcome.findings.iter().filter(|finding| finding.code == "W105").count(), 1);
}

#[test]
fn children_are_promised_at_most_their_parents_rate() {
    let tree = |parent: &str, a: &str, b: &str| {
        format!(
            "[class.p]\n{parent}\n[class.a]\nparent = 'p'\n{a}\ndefault = true\n\
             [class.b]\nparent = 'p'\n{b}\nmatch = [{{}}]\n"
        )
    };
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("rate = '6 Mbit/s'", "rate = '2 Mbit/s'", "rate = '4 Mbit/s'", &[]),
        ("rate = '6 Mbit/s'", "rate = '3 Mbit/s'", "rate = '4 Mbit/s'", &["W113@5:8"]),
        ("share = '60 %'", "share = '50 %'", "share = '50 %'", &[]),
        ("share = '60 %'", "share = '50 %'", "share = '51 %'", &["W113@5:9"]),
        ("rate = '11 Mbit/s'", "share = '1 %'", "share = '1 %'", &["W113@2:8"]),
        ("share = '101 %'", "rate = '1 bit/s'", "rate = '1 bit/s'", &["W015@5:9"]),
        ("rate = '1 Mbit/s'\nshare = '1 %'", "rate = '1 bit/s'", "rate = '1 bit/s'", &["W111@6:9"]),
    ];
    for (parent, a, b, wanted) in rows {
        check_htb(&tree(parent, a, b), wanted);
    }
    let outcome = check_htb(&tree(rows[1].0, rows[1].1, rows[1].2), rows[1].3);
    let (message, cure) = first(&outcome);
    assert_eq!(
        message,
        "the classes under class `p` are promised 7 Mbit/s together, but it has 6 Mbit/s"
    );
    let wanted = "lower their rates, raise class `p` to `7 Mbit/s`, or write `oversubscribe = true` \
                  in `[class.p]` if not all send at once";
    assert_eq!(cure, wanted);
    assert_eq!(outcome.findings[0].related.len(), 2);
}

#[test]
fn who_oversubscribes_is_told_the_ratio() {
    let tree_of = |scheduler: &str, link: &str, parent: &str| {
        let class = |name: &str, rule: &str| {
            format!("[class.{name}]\nparent = 'p'\nrate = '25 Mbit/s'\n{rule}\n")
        };
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = '{scheduler}'\n{link}[class.p]\n\
             rate = '20 Mbit/s'\n{parent}{}{}",
            class("a", "match = { dport = 80 }"),
            class("b", "default = true")
        );
        parse(&text, "p")
    };
    let says = "oversubscribe = true\n";
    let real_time: &[&str] = &["W152@2:8"];
    for (scheduler, more) in [("htb", &[][..]), ("cbq", &[]), ("hfsc", real_time)] {
        let codes = |link, parent| codes(&tree_of(scheduler, link, parent));
        assert_eq!(codes("", ""), ["W113@2:8", "W113@5:8"], "{scheduler}");
        assert_eq!(codes(says, ""), ["W118@2:8", "W113@6:8"], "{scheduler}");
        let both: Vec<&str> =
            ["W118@2:8"].iter().chain(more).chain(&["W118@6:8"]).copied().collect();
        assert_eq!(codes(says, says), both, "{scheduler}");
    }
    // Without rates nothing is promised.
    check_drr(&format!("{says}[class.a]\ndefault = true\n"), &[]);
    check_drr("[class.a]\nrate = '1 Mbit/s'\ndefault = true\n", &["W101@5:1"]);
    let tree = |link: &str, parent: &str| tree_of("htb", link, parent);
    let one =
        "rate = '20 Mbit/s'\nscheduler = 'htb'\n[class.p]\nrate = '30 Mbit/s'\ndefault = true\n";
    let outcome = parse(&format!("[link]\n{says}{one}"), "p");
    assert!(first(&outcome).0.starts_with("the class under the link is promised 30 Mbit/s, 1.5"));
    // A ratio that would be shown as 1.0.
    let little = format!("[link]\n{says}{}", one.replace("30 Mbit/s", "20.1 Mbit/s"));
    let wanted = "promised 20.1 Mbit/s, 100 kbit/s more than its 20 Mbit/s";
    assert!(first(&parse(&little, "p")).0.contains(wanted));
    let outcome = tree(says, says);
    assert_eq!(codes(&outcome), ["W118@2:8", "W118@6:8"]);
    assert_eq!(
        outcome.findings[1].message,
        "the 2 classes under class `p` are promised 50 Mbit/s together, 2.5 times its 20 Mbit/s, as \
         `oversubscribe` says"
    );
    sound(outcome).link.build().expect("a checked policy builds");
}

/// A sum of real-time curves is above the link where the first slopes are, or in the long run.
#[test]
fn curves_above_the_link_are_named_by_the_slope_that_is() {
    let curves = |first: &str, long: &str| {
        parse(
            &format!(
                "[link]\nrate = '10 Mbit/s'\nscheduler = 'hfsc'\n[class.a]\nmatch = {{ dscp = 'ef' }}\n\
                 rt_m1 = '{first} Mbit/s'\nrt_d = '10 ms'\nrt_m2 = '{long} Mbit/s'\nls_m2 = '5 Mbit/s'\n\
                 [class.b]\ndefault = true\nrt_m2 = '1 Mbit/s'\nls_m2 = '5 Mbit/s'\n"
            ),
            "p",
        )
    };
    for (first, long, line) in [("12", "2", 6), ("1", "12", 8)] {
        let outcome = curves(first, long);
        assert_eq!(codes(&outcome), ["W152@2:8"]);
        assert_eq!(outcome.findings[0].related[0].place.line, line, "{first} {long}");
        let (_, standing) = &standings(outcome.plan.as_ref().expect("a warning"))[0];
        let [_, why, ..] = standing.notes();
        assert!(why.expect("no delay").contains("ask for more than the link sends (W152)"));
    }
    assert_eq!(codes(&curves("8", "2")), [""; 0]);
}

#[test]
fn a_value_without_quotes_is_answered_with_the_value() {
    let rows = [
        ("yes", "`yes` is no value of TOML", "write `true`"),
        ("False", "`False` is no value of TOML", "write `false`"),
        (
            "'on'",
            "`default` of class `a`: is a text, not true or false",
            "write `true` without quotes",
        ),
        (
            "'x'",
            "`default` of class `a`: is a text, not true or false",
            "write `true` or `false` without quotes",
        ),
    ];
    for (value, message, cure) in rows {
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\ndefault = {value} # yes\n"
        );
        let outcome = parse(&text, "p");
        let said = |one: &weir_policy::Finding| one.message == message && one.cure == cure;
        assert!(outcome.findings.iter().any(said), "{value}: {:#?}", outcome.findings);
    }
    let outcome = parse("[link]\nrate = 10 Mbit/s\n", "p");
    assert_eq!(first(&outcome), ("the text `10 Mbit/s` has no quotes", "write `\"10 Mbit/s\"`"));
}

#[test]
fn a_share_is_a_part_of_the_parents_rate() {
    let text =
        "[class.b]\nparent = 'p'\nshare = '25 %'\ndefault = true\n[class.p]\nshare = '60 %'\n";
    let policy = sound(check_htb(text, &[]));
    let rates: Vec<_> =
        policy.link.tree.classes().map(|(_, class)| class.params.rate("rate")).collect();
    assert_eq!(rates, [Rate::new(1_500_000), Rate::new(6_000_000)]);
}

#[test]
fn a_default_class_without_rate_gets_what_its_siblings_leave() {
    let rest = |taken: &str| {
        format!(
            "[class.a]\nrate = '{taken}'\nmatch = {{ dscp = 46 }}\n[class.rest]\ndefault = true\n"
        )
    };
    let policy = sound(check_htb(&rest("4 Mbit/s"), &[]));
    let class = policy.link.tree.class(policy.class("rest").expect("declared"));
    assert_eq!(class.params.rate("rate"), Rate::new(6_000_000));
    check_htb(&rest("10 Mbit/s"), &["W011@7:8"]);
}

#[test]
fn rules_are_read_or_say_what_is_wrong() {
    let rows: &[(&str, &[&str])] = &[
        ("{ proto = 'udp', dport = '5004-5010' }", &[]),
        (
            "{ proto = 17, sport = 80, vlan = 5, vlan_inner = 6, ecn = 'ce', ethertype = 'ipv4' }",
            &[],
        ),
        ("[{ src = ['10.0.0.0/8', '2001:db8::/32'] }, { dst = '192.0.2.1' }]", &[]),
        ("{ ecn = 1 }", &[]),
        ("{ ecn = 4 }", &["W017@5:17"]),
        ("{ src = '10.0.0.1/8' }", &["W017@5:17"]),
        ("{ src = [] }", &["W017@5:17"]),
        ("{ dport = '9-1' }", &["W017@5:19"]),
        ("{ dport = [80, 443, '8000-8080', 'https'], sport = ['ssh', 'ftp-data', 0] }", &[]),
        ("{ dport = 'HTTPS' }", &[]),
        ("{ dport = [80] }", &[]),
        ("{ dport = [] }", &["W017@5:19"]),
        ("{ dport = [80, 65536, 'htps'] }", &["W017@5:24", "W017@5:31"]),
        ("{ dport = [[80]] }", &["W012@5:20"]),
        ("{ proto = ['tcp'] }", &["W012@5:19"]),
        ("{ dscp = ['EF', 'af41', 'Cs7', 'LE', 'va', 0] }", &[]),
        ("{ dscp = ['ef', 'eff'] }", &["W017@5:25"]),
        ("{ dscp = [] }", &["W017@5:18"]),
        ("{ src_mac = ['02:00:5e:10:00:01', '02-00-5E-10-00-02'] }", &[]),
        ("{ src_mac = '02:00:5e:10:00:01', dst_mac = '02:00:5e:10:00:02', dport = 80 }", &[]),
        ("{ vlan = 'none', mark = 5 }", &[]),
        ("{ vlan = 'any', vlan_inner = 'none', mark = '0x10/0xf0' }", &[]),
        ("{ vlan = 'off' }", &["W017@5:18"]),
        ("{ mark = '0x11/0xf0' }", &["W017@5:18"]),
        ("{ vlan = 'none', vlan_inner = 6 }", &["W122@5:9"]),
        ("[{ mark = '0x10/0xf0' }, { mark = 0x13 }]", &["W121@5:34"]),
        ("[{ mark = 0x13 }, { mark = '0x10/0xf0' }]", &[]),
        ("[{ vlan = 'any' }, { vlan = 6 }]", &["W121@5:28"]),
        ("[{ vlan = 'none' }, { vlan = 6 }, { mark = 7 }]", &[]),
        ("{ dst_mac = '02:00:5e' }", &["W017@5:21"]),
        ("{ vlan = 5, pcp = [5, '6'], length = '0-100 B' }", &[]),
        ("{ tcp_flags = ['syn,!ack', 'fin'], dport = 80, length = ['40 B', '52 B'] }", &[]),
        ("{ proto = 'icmpv6', icmp_type = ['neighbor-solicitation', 136, '1/4'] }", &[]),
        ("{ pcp = 8 }", &["W017@5:17"]),
        ("{ pcp = [] }", &["W017@5:17"]),
        ("{ tcp_flags = 'syn, ack' }", &["W017@5:23"]),
        ("{ length = 100 }", &["W017@5:20"]),
        ("{ length = '100-40 B' }", &["W017@5:20"]),
        ("{ icmp_type = 8 }", &["W017@5:23"]),
        ("{ proto = 'udp', icmp_type = 8 }", &["W017@5:38"]),
        ("{ proto = 'icmp', icmp_type = 'packet-too-big' }", &["W017@5:39"]),
        ("{ proto = 'udp', tcp_flags = 'syn' }", &["W122@5:9"]),
        ("{ vlan = 'none', pcp = 5 }", &["W122@5:9"]),
        ("{ ethertype = 'arp', length = '0-100 B' }", &["W122@5:9"]),
        ("[{ proto = 'tcp' }, { tcp_flags = 'syn' }]", &["W121@5:29"]),
        ("[{ vlan = 'any' }, { pcp = 5 }]", &["W121@5:28"]),
        ("[{ tcp_flags = 'syn' }, { tcp_flags = 'syn,!ack', dport = 80 }]", &["W121@5:33"]),
        ("[{ tcp_flags = 'syn,!ack' }, { tcp_flags = 'syn' }]", &[]),
        ("[{ length = '0-100 B' }, { length = ['40 B', '52-60 B'] }]", &["W121@5:34"]),
        ("[{ length = '0-100 B' }, { length = '90-110 B' }]", &[]),
        ("[{ proto = 1, icmp_type = 3 }, { proto = 1, icmp_type = '3/4' }]", &["W121@5:40"]),
        ("[{ proto = 1, icmp_type = 3 }, { proto = 'icmpv6', icmp_type = 3 }]", &[]),
        ("{ smac = '02:00:5e:10:00:01' }", &["W010@5:11"]),
        ("{ proto = 'icmp', dport = [80, 443] }", &["W122@5:9"]),
        ("{ ethertype = 'arp', dscp = ['ef', 'le'] }", &["W122@5:9"]),
        ("{ ethertype = 'arp', src_mac = '02:00:5e:10:00:01' }", &[]),
        ("[{ dport = [80, 443] }, { dport = 'https' }]", &["W121@5:33"]),
        ("[{ dport = [80, 443] }, { dport = [443, 80] }]", &["W121@5:33"]),
        ("[{ dport = ['1-9', '10-20'] }, { dport = '5-15' }]", &["W121@5:40"]),
        ("[{ dport = [80, 443] }, { dport = [443, 444] }]", &[]),
        ("[{ dscp = ['ef', 'va'] }, { dscp = 'va' }]", &["W121@5:35"]),
        (
            "[{ src_mac = ['02:00:5e:10:00:01'] }, { src_mac = '02:00:5e:10:00:01', proto = 6 }]",
            &["W121@5:47"],
        ),
        ("[{ src_mac = '02:00:5e:10:00:01' }, { dst_mac = '02:00:5e:10:00:01' }]", &[]),
        ("{ dscp = 64 }", &["W017@5:18"]),
        ("{ port = 80 }", &["W010@5:11"]),
        ("{ interface = '' }", &["W017@5:23"]),
        ("['udp']", &["W012@5:10"]),
        ("{ proto = 'icmp', dport = 80 }", &["W122@5:9"]),
        ("{ src = '10.0.0.0/8', dst = '2001:db8::/32' }", &["W122@5:9"]),
        ("{ src = '10.0.0.0/8', ethertype = 'ipv6' }", &["W122@5:9"]),
        ("{ dscp = 'ef', ethertype = 'arp' }", &["W122@5:9"]),
        ("[{ dport = '1-9' }, { dport = '1-9' }]", &["W121@5:29"]),
        ("[{ dport = '1-9' }, { proto = 'tcp', dport = '2-9' }]", &["W121@5:29"]),
        ("[{ dport = '2-9' }, { dport = '1-9' }]", &[]),
        ("[{ dport = 1 }, { sport = 1 }]", &[]),
        ("[{ src = '10.0.0.0/8' }, { src = ['10.1.0.0/16', '10.2.0.0/16'] }]", &["W121@5:34"]),
        ("[{ src = '10.0.0.0/8' }, { src = ['10.1.0.0/16', '11.2.0.0/16'] }]", &[]),
        ("[{ src = '0.0.0.0/0' }, { dscp = 'ef' }]", &[]),
        ("[{}, { dscp = 'ef' }]", &["W121@5:14"]),
    ];
    for (rule, wanted) in rows {
        check_drr(&format!("[class.a]\nmatch = {rule}\n[class.b]\ndefault = true\n"), wanted);
    }
}

#[test]
fn a_value_that_no_rule_takes_says_what_to_write() {
    let rows = [
        (
            "dport = ['http', 'htps']",
            "`dport` of a rule of class `a`: port range \"htps\": is neither a port or range of ports \
             in 0..=65535 nor a service that Weir knows",
            "write for instance 80, 5004-5010 or https",
        ),
        (
            "sport = []",
            "`sport` of a rule of class `a`: is an empty list",
            "write a value, or remove the key to match any",
        ),
        (
            "vlan = [7]",
            "`vlan` of a rule of class `a`: is an array, not a text or a number",
            "write one value, without `[` and `]`",
        ),
        (
            "dscp = ['EF', 'EEF']",
            "`dscp` of a rule of class `a`: DSCP \"EEF\": is neither a code point name Weir knows nor a \
             number in 0..=63",
            "write a name such as ef, af41, cs1, va or le, or the number",
        ),
        (
            "src_mac = '02:00:5e:10:00'",
            "`src_mac` of a rule of class `a`: MAC address \"02:00:5e:10:00\": is not six bytes of two \
             hexadecimal digits, with `:` or `-` between them",
            "write for instance 02:00:5e:10:00:01",
        ),
    ];
    for (rule, message, cure) in rows {
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\nmatch = {{ {rule} }}\n\
             [class.b]\ndefault = true\n"
        );
        assert_eq!(first(&parse(&text, "p.toml")), (message, cure), "{rule}");
    }
}

/// Lists whose product is large are refused, and a single long list is not.
#[test]
fn combinations_of_listed_values_have_a_bound() {
    let list = |count: u32| {
        let ports: Vec<_> = (0..count).map(|port| (port * 2).to_string()).collect();
        format!("[{}]", ports.join(", "))
    };
    let rule = |sports: u32, dports: u32| {
        format!(
            "[class.a]\nmatch = {{ sport = {}, dport = {} }}\n[class.b]\ndefault = true\n",
            list(sports),
            list(dports)
        )
    };
    check_drr(&rule(1, 30_000), &[]);
    check_drr(&rule(1024, 1024), &[]);
    let outcome = check_drr(&rule(1024, 1025), &["W018@5:9"]);
    let wanted = "the rules stand for more than 1048576 combinations of the values in their lists";
    assert_eq!(first(&outcome), (wanted, "write ranges of ports, or fewer values in lists"));
}

/// A list is one rule: its place is the written one.
#[test]
fn a_rule_with_lists_is_one_rule() {
    let text = "[class.a]\nmatch = [{ dscp = ['EF', 'VA'] }, { dport = [80, 'https', '8000-8080'] }]\n\
                [class.m]\ndefault = true\n";
    let policy = sound(check_drr(text, &[]));
    assert_eq!(policy.rules.len(), 2);
    let mut classifier = policy.classifier();
    for (port, dscp, wanted) in [
        (80, 0, Reason::Rule(1)),
        (443, 0, Reason::Rule(1)),
        (8080, 0, Reason::Rule(1)),
        (8081, 0, Reason::Default),
        (443, 44, Reason::Rule(0)),
        (1, 46, Reason::Rule(0)),
        (1, 45, Reason::Default),
    ] {
        let ports = Ports { source: 1, destination: port };
        let headers = Headers::of_flow(Addresses::Unknown, Protocol::TCP, ports);
        let headers = Headers { traffic_class: Some(dscp << 2), ..headers };
        let classified = classifier.classify(Instant::ZERO, InterfaceId(0), &headers);
        assert_eq!(classified.reason, wanted, "port {port}, DSCP {dscp}");
    }
}

#[test]
fn rules_are_tried_in_the_order_of_the_file() {
    let text = "[class.z]\nmatch = [{ dscp = 46 }, { proto = 'udp' }]\n\
                [class.a]\nmatch = [{ proto = 6 }]\n[class.m]\ndefault = true\n";
    let policy = sound(check_drr(text, &[]));
    let leaves: Vec<_> = policy.rules.iter().map(|rule| policy.leaf_name(rule.leaf)).collect();
    assert_eq!(leaves, ["z", "z", "a"]);
    assert_eq!(policy.leaf("m"), Some(policy.default.leaf));
    let ports = Ports { source: 1, destination: 2 };
    let headers = Headers::of_flow(Addresses::Unknown, Protocol::TCP, ports);
    let classified = policy.classifier().classify(Instant::ZERO, InterfaceId(0), &headers);
    assert_eq!((classified.leaf, classified.reason), (LeafId(1), Reason::Rule(2)));
}

/// As [`check_drr`], with one more line in `[link]`; the first rule is in line 6.
#[track_caller]
fn check_search(line: &str, matches: &str, wanted: &[&str]) -> Outcome<Policy> {
    check_drr(&format!("{line}\n[class.a]\nmatch = {matches}\n[class.b]\ndefault = true\n"), wanted)
}

#[test]
fn the_search_for_rules_is_read_or_says_what_is_wrong() {
    let rows: &[(&str, &str, &[&str])] = &[
        ("classifier = 'linear'", "{}", &[]),
        ("classifier = 'tuple-space'", "{}", &[]),
        ("classifier = 'tuples'", "{}", &["W016@4:14"]),
        ("match_order = 'last'", "{}", &["W016@4:15"]),
        ("match_order = 'altq'", "{ ruleno = 7 }", &[]),
        ("match_order = 'altq'", "{ prio = 7 }", &["W010@6:18"]),
        ("match_order = 'u32'", "{ prio = 7 }", &[]),
        ("match_order = 'u32'", "{ prio = 0 }", &["W015@6:18"]),
        ("match_order = 'first'", "{ ruleno = 7 }", &["W010@6:20"]),
        ("fragments = 'cache'", "{}", &[]),
        ("fragments = 'altq-broken'", "{}", &[]),
        ("fragments = 'altq'", "{}", &["W016@4:13"]),
        ("fragments = { entries = 4096, timeout = '5 s' }", "{}", &[]),
        ("fragments = { entries = 3 }", "{}", &["W015@4:13"]),
        ("fragments = { size = 4096 }", "{}", &["W010@4:15"]),
    ];
    for (line, matches, wanted) in rows {
        check_search(line, matches, wanted);
    }
    let policy = sound(check_search("fragments = { timeout = '5 s' }", "{}", &[]));
    let limits = FragmentLimits::new(1024, Duration::from_secs(5)).expect("a thousand");
    assert_eq!(policy.search.fragments, FragmentPolicy::Follow(limits));
}

#[test]
fn the_rules_that_decide_nothing_depend_on_the_match_order() {
    let general_first = "[{ dst = '10.0.0.0/8' }, { dst = '10.0.0.1' }]";
    check_search("match_order = 'first'", general_first, &["W121@6:34"]);
    check_search("match_order = 'altq'", general_first, &[]);
    check_search(
        "match_order = 'altq'",
        "[{ dscp = 46 }, { proto = 6 }, {}]",
        &["W121@6:10", "W121@6:25"],
    );
    check_search("match_order = 'u32'", "[{ prio = 2 }, { dscp = 46, prio = 1 }]", &[]);
    check_search("match_order = 'u32'", "[{ prio = 1 }, { dscp = 46, prio = 2 }]", &["W121@6:24"]);
    // Part of the rule is tried before the one that takes all.
    let halves = "[{ dst = ['10.0.0.0/8', '10.0.0.1'] }, {}]";
    check_search("match_order = 'altq'", halves, &[]);
}

#[test]
fn a_hundred_thousand_rules_are_read_and_compared() {
    let mut text =
        "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\nmatch = [\n".to_owned();
    for rule in 0..100_000 {
        let (high, low, port) = (rule / 65_536, rule / 256 % 256, rule % 256);
        text.push_str(&format!("{{ src = '10.{high}.{low}.0/24', dport = {port} }},\n"));
    }
    text.push_str("{ src = '10.0.5.7', dport = 9 }]\n[class.b]\ndefault = true\n");
    let policy = sound(check(&text, &["W121@100006:1"]));
    assert_eq!(policy.rules.len(), 100_001);
}

#[test]
fn interfaces_are_numbered_by_mention_or_by_the_deployment() {
    let text = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\n\
                match = [{ interface = 'out' }, { interface = 'in' }]\ndefault = true\n";
    let ids = |policy: &Policy| -> Vec<_> {
        policy.rules.iter().map(|rule| rule.matches.interface).collect()
    };
    let policy = sound(check(text, &[]));
    assert_eq!(policy.interfaces, ["out", "in"]);
    assert_eq!(ids(&policy), [Some(InterfaceId(0)), Some(InterfaceId(1))]);
    let ports = ["in".to_owned(), "out".to_owned()];
    let policy = sound(parse_bytes(text.as_bytes(), "p", Some(&ports), &file::none));
    assert_eq!(ids(&policy), [Some(InterfaceId(1)), Some(InterfaceId(0))]);
    let outcome = parse_bytes(text.as_bytes(), "p", Some(&ports[..1]), &file::none);
    assert_eq!(codes(&outcome), ["W116@5:24"]);
}

#[test]
fn promises_are_read_with_the_classes_they_are_about() {
    let class = "[class.a]\ndefault = true\n";
    let text = format!("{class}[[promise]]\nthat = 'a.delay.p99 < 10 ms'\nunder = 'mix.toml'\n");
    let promise = sound(check_drr(&text, &[])).promises.remove(0);
    assert_eq!(
        (promise.that.as_str(), promise.under.as_str()),
        ("a.delay.p99 < 10 ms", "mix.toml")
    );
    check_drr(&format!("{class}[[promise]]\nthat = 'x'\nwhen = 'y'\n"), &["W011@6:1", "W010@8:1"]);
    let bad = |that: &str| format!("{class}[[promise]]\nthat = '{that}'\nunder = 'y'\n");
    check_drr(&bad("a.rate"), &["W150@7:8"]);
    check_drr(&bad("b.rate > 3 bit/s"), &["W151@7:8"]);
}

#[test]
fn the_store_has_room_for_the_queues_limits() {
    let class = |index: usize| format!("[class.c{index}]\nmatch = {{ dport = {index} }}\n");
    let text: String = (0..1000).map(class).collect();
    let policy = sound(check_drr(&format!("{text}[class.rest]\ndefault = true\n"), &[]));
    assert_eq!(policy.link.packets_max, 100_100);
}

#[test]
fn a_sound_policy_builds_its_link() {
    let text = include_str!("../../../examples/office-htb.toml");
    let policy = sound(check(text, &[]));
    policy.link.build().expect("a checked policy builds");
    assert_eq!(policy.link.tree.leaf_count(), 4);
}

#[test]
fn the_example_of_the_design_is_clean_where_the_scheduler_takes_a_delay() {
    let policy = |scheduler: &str, delay: &str| {
        format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = '{scheduler}'\noverhead = 'ethernet'\n\
             [class.campus]\nshare = '60 %'\n[class.voice]\nparent = 'campus'\n\
             rate = '1 Mbit/s'\n{delay}queue = {{ dropper = 'tail', limit = '15 packets' }}\n\
             match = [{{ proto = 'udp', dport = '5004-5010' }}, {{ dscp = 'ef' }}]\n\
             [class.rest]\ndefault = true\n[[promise]]\n\
             that = 'voice.delay.p99 < 10 ms'\nunder = 'mix.toml'\n"
        )
    };
    let outcomes = [
        check(&policy("cbq", ""), &[]),
        // A queue of 15 of the largest packets takes longer.
        check(&policy("hfsc", "delay = '5 ms'\n"), &["W144@11:37"]),
    ];
    for outcome in outcomes {
        let sound = sound(outcome);
        let rates = sound.link.tree.classes().map(|(_, class)| class.params.rate("rate"));
        let wanted = [6_000_000, 1_000_000, 4_000_000].map(Rate::new);
        assert_eq!(rates.collect::<Vec<_>>(), wanted);
        sound.link.build().expect("a checked policy builds");
    }
    check(&policy("cbq", "delay = '5 ms'\n"), &["W146@10:9"]);
}

#[test]
fn police_are_read_or_say_what_is_wrong() {
    let rows: &[(&str, &[&str])] = &[
        ("{ rate = '1 Mbit/s', depth = '3000 B' }", &[]),
        ("{ meter = 'tbmeter', rate = '1 Mbit/s', depth = '3 KB', in = 'mark ef' }", &[]),
        ("{ rate = '1 Mbit/s', depth = '3 KB', in = 'mark EF', out = 'mark LE' }", &[]),
        ("{ rate = '1 Mbit/s', depth = '3 KB', in = 'mark VA', out = 'mark Cs7' }", &[]),
        ("{ rate = '1 Mbit/s', depth = '3 KB', out = 'mark 46' }", &[]),
        ("{ meter = 'tbmete', rate = '1 Mbit/s', depth = '3000 B' }", &["W016@6:20"]),
        ("{ rate = '1 Mbit/s' }", &["W011@6:1"]),
        ("{ rate = '1 mbps', depth = '3000 B' }", &["W014@6:19"]),
        ("{ rate = '1 Mbit/s', depth = '0 B' }", &["W015@6:39"]),
        ("{ rate = '1 Mbit/s', depth = '2 GB' }", &["W015@6:39"]),
        ("{ rate = '1 Mbit/s', depth = '1 KB', out = 'mark' }", &["W017@6:53"]),
        ("{ rate = '1 Mbit/s', depth = '1 KB', out = 'mark af99' }", &["W017@6:53"]),
        ("{ rate = '1 Mbit/s', depth = '1 KB', out = 3 }", &["W017@6:53"]),
        ("{ rate = '1 Mbit/s', depth = '1 KB', red = 'drop' }", &["W101@6:47"]),
        ("{ rate = '1 Mbit/s', depth = '1 KB', windo = '1 s' }", &["W101@6:47"]),
        ("'tbmeter'", &["W012@6:10"]),
        ("{ meter = 'tswtcm', rate = '1 Mbit/s', peak_rate = '2 Mbit/s', red = 'drop' }", &[]),
        ("{ meter = 'tswtcm', rate = '3 Mbit/s', peak_rate = '2 Mbit/s' }", &["W114@6:10"]),
    ];
    for (police, wanted) in rows {
        check_drr(&format!("[class.a]\ndefault = true\npolice = {police}\n"), wanted);
        // In a rule the table is in one line, nine characters further right.
        let shifted: Vec<_> = wanted.iter().map(|code| in_rule(code)).collect();
        let shifted: Vec<_> = shifted.iter().map(String::as_str).collect();
        let rule = format!("[class.a]\ndefault = true\nmatch = {{ police = {police} }}\n");
        check_drr(&rule, &shifted);
    }
}

/// Moves `W000@line:column` ten columns to the right: behind `match = { `.
fn in_rule(code: &str) -> String {
    let (place, column) = code.rsplit_once(':').expect("a place");
    format!("{place}:{}", column.parse::<u32>().expect("a column") + 10)
}

#[test]
fn meters_belong_to_classes_and_rules() {
    let meter = "{ rate = '1 Mbit/s', depth = '3000 B', out = 'mark af12' }";
    let text = format!(
        "[class.a]\nmatch = [{{ dscp = 1 }}, {{ dscp = 2, police = {meter} }}]\n\
         [class.b]\ndefault = true\npolice = {meter}\n"
    );
    let policy = sound(check_drr(&text, &[]));
    assert_eq!(policy.link.meters.len(), 2);
    assert_eq!(policy.link.leaf_meters, [None, MeterId::from_index(0)]);
    let meters: Vec<_> = policy.rules.iter().map(|rule| rule.meter).collect();
    assert_eq!(meters, [None, MeterId::from_index(1)]);
    let out = policy.link.meters[1].actions[0];
    assert_eq!((out.0, out.1.to_string()), ("out", "mark af12".to_owned()));
}

#[test]
fn code_points_belong_to_classes_and_rules() {
    let text = "[class.a]\nset_dscp = 'le'\n\
                match = [{ dscp = 1 }, { dscp = 2, set_dscp = 'cs1' }, { dscp = 3, police = @ }]\n\
                [class.b]\ndefault = true\nset_dscp = 'cs1'\n"
        .replace('@', "{ rate = '1 Mbit/s', depth = '3000 B' }");
    let policy = sound(check_drr(&text, &[]));
    let of_leaf: Vec<_> =
        policy.link.leaf_meters.iter().map(|id| id.expect("it has one")).collect();
    let marks: Vec<_> = policy.link.meters.iter().map(|plan| plan.marks_all()).collect();
    let dscp = |text: &str| text.parse::<Dscp>().ok();
    assert_eq!(marks, [dscp("le"), dscp("cs1"), None], "meters without state are shared");
    assert_eq!(of_leaf.iter().map(|id| id.index()).collect::<Vec<_>>(), [0, 1]);
    let meters: Vec<_> = policy.rules.iter().map(|rule| rule.meter).collect();
    assert_eq!(meters, [None, MeterId::from_index(1), MeterId::from_index(2)]);
    let actions: Vec<_> =
        policy.link.meters[2].actions.iter().map(|row| (row.0, row.1.to_string())).collect();
    assert_eq!(actions, [("in", "mark le".to_owned())]);
}

#[test]
fn code_points_that_cannot_be_set_are_told() {
    let police = "police = { rate = '1 Mbit/s', depth = '3000 B' }";
    let rows = [
        ("default = true\nset_dscp = 64".to_owned(), &["W017@6:12"][..]),
        ("default = true\nset_dscp = ['ef']".to_owned(), &["W012@6:12"]),
        (format!("default = true\n{police}\nset_dscp = 'ef'"), &[]),
        (
            format!("default = true\n{police}\nmatch = {{ dscp = 1, set_dscp = 'ef' }}"),
            &["W114@7:32"],
        ),
        ("default = true\nmatch = { set_dscp = 'gold' }".to_owned(), &["W017@6:22"]),
    ];
    for (class, wanted) in rows {
        check_drr(&format!("[class.a]\n{class}\n"), wanted);
    }
    let text = "[class.a]\nrate = '1 Mbit/s'\nset_dscp = 'ef'\n\
                [class.b]\nparent = 'a'\nrate = '1 Mbit/s'\ndefault = true\n";
    check_htb(text, &["W108@6:1"]);
}

#[test]
fn a_class_with_children_has_no_police() {
    let text = "[class.a]\nrate = '1 Mbit/s'\n\
                police = { rate = '1 Mbit/s', depth = '3000 B' }\n\
                [class.b]\nparent = 'a'\nrate = '1 Mbit/s'\ndefault = true\n";
    check_htb(text, &["W108@6:1"]);
}

#[test]
fn droppers_are_read_with_their_parameters() {
    let rows: &[(&str, &[&str])] = &[
        ("{ dropper = 'red', min = '5 packets', max = '15 packets', pmax = '5 %' }", &[]),
        ("{ dropper = 'red', min = '15 packets', max = '5 packets' }", &["W114@6:54"]),
        ("{ dropper = 'red', min = '15 KB' }", &["W114@6:1"]),
        ("{ dropper = 'red-altq', inv_pmax = 0 }", &["W015@6:44"]),
        ("{ dropper = 'codel', target = '5 ms', interval = '100 ms', ecn = true }", &[]),
        ("{ dropper = 'pie', update = '1 us' }", &["W114@6:37"]),
        ("{ dropper = 'blue', hold = '50 ms', max_pmark = 100 }", &[]),
        ("{ dropper = 'rio', levels = 4 }", &["W015@6:37"]),
        ("{ dropper = 'rio', target = '5 ms' }", &["W101@6:28"]),
        ("{ dropper = 'fq-codel', hash = 'flow' }", &[]),
        ("{ dropper = 'fq-codel', hash = 'srcaddr,dstaddr' }", &[]),
        ("{ dropper = 'fq-codel', hash = 'srcadr' }", &["W016@6:40"]),
        ("{ dropper = 'fq-codel', hash = 5 }", &["W012@6:40"]),
        ("{ dropper = 'codel', hash = 'srcaddr' }", &["W101@6:30"]),
        ("{ dropper = 'cake', memory = '1 B' }", &["W114@6:38"]),
        ("{ dropper = 'cake', target = '200 ms' }", &["W114@6:38"]),
        ("{ dropper = 'cake', interval = '1 ms' }", &["W114@6:1"]),
        ("{ dropper = 'cake', target = '1 ms', interval = '20 ms', memory = '1 MB' }", &[]),
        ("{ dropper = 'dualpi2', step = '1 ms', step_packets = 5 }", &["W114@6:39"]),
        ("{ dropper = 'sfb', max = 1, target = 65535 }", &["W114@6:46"]),
        ("{ dropper = 'sfb', max = 10 }", &[]),
    ];
    for (queue, wanted) in rows {
        check_drr(&format!("[class.a]\ndefault = true\nqueue = {queue}\n"), wanted);
    }
}

#[test]
fn isolate_is_a_word_of_a_class_and_no_other_dropper_stands_beside_it() {
    let rows: &[(&str, &[&str])] = &[
        ("isolate = 'flows'", &[]),
        (
            "isolate = 'flows within srcaddr'\nqueue = { limit = '99 packets', target = '9 ms' }",
            &[],
        ),
        ("isolate = 'flows within dstaddr'\nqueue = { dropper = 'isolate' }", &[]),
        ("queue = { dropper = 'isolate', isolate = 'flows within dstaddr' }", &[]),
        ("isolate = 'hosts'", &["W016@6:11"]),
        ("isolate = 5", &["W012@6:11"]),
        ("isolate = 'flows'\nqueue = { dropper = 'tail' }", &["W114@7:21"]),
        ("isolate = 'flows'\nqueue = { dropper = 'fq-codel', hash = 'srcaddr' }", &["W114@7:21"]),
        ("isolate = 'flows'\nqueue = { hash = 'srcaddr' }", &["W101@7:11"]),
        ("isolate = 'flows'\nqueue = { isolate = 'flows' }", &["W114@7:21"]),
        ("isolate = 'flows'\nhash = 'full'\nqueues = 4", &["W114@8:1"]),
    ];
    for (keys, wanted) in rows {
        let outcome = check_drr(&format!("[class.a]\ndefault = true\n{keys}\n"), wanted);
        if wanted.is_empty() {
            assert_eq!(sound(outcome).link.queues[0].dropper, "isolate", "{keys}");
        }
    }
    let text = "[class.a]\nrate = '1 Mbit/s'\nisolate = 'flows'\n\
                [class.b]\nparent = 'a'\nrate = '1 Mbit/s'\ndefault = true\n";
    check_htb(text, &["W108@6:1"]);
    let tail = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\ndefault = true\n\
                isolate = 'flows'\nqueue = { dropper = 'tail' }\n";
    assert_eq!(
        first(&parse(tail, "p.toml")),
        (
            "`dropper` of the queue: `isolate` gives each flow a queue, and dropper `tail` has one \
             for all",
            "remove `dropper`, or `isolate`"
        )
    );
}

#[test]
fn a_default_limit_is_that_of_its_dropper() {
    for (dropper, packets) in [("tail", 100), ("red-altq", 60), ("blue", 200), ("pie", 1000)] {
        let text = format!("[class.a]\ndefault = true\nqueue = {{ dropper = '{dropper}' }}\n");
        let policy = sound(check_drr(&text, &[]));
        assert_eq!(policy.link.queues[0].limit(), Limit::Packets(packets));
    }
}

#[test]
fn queues_by_hash_are_read_or_say_what_is_wrong() {
    let rows: &[(&str, &[&str])] = &[
        ("default = true\nhash = 'dstaddr'\nqueues = 256", &[]),
        ("default = true\nhash = 'srcport'\nqueues = 1", &[]),
        ("default = true\nhash = 'full'\nqueues = 2048", &[]),
        ("default = true\nhash = 'full'\nqueues = 2049", &["W015@7:10"]),
        ("default = true\nhash = 'full'\nqueues = 0", &["W015@7:10"]),
        ("default = true\nhash = 'dst'\nqueues = 4", &["W016@6:8"]),
        ("default = true\nhash = 'srcaddr'\nqueues = 64", &[]),
        ("default = true\nhash = 'srcaddr,dstaddr'\nqueues = 64", &[]),
        ("default = true\nhash = 'full'", &["W011@6:8"]),
        ("default = true\nqueues = 4", &["W011@4:8"]),
        ("default = true\nhash = 'full'\nqueues = 3\n[class.a-3]\nmatch = { dscp = 1 }", &[]),
        ("default = true\nhash = 'full'\nqueues = 3\n[class.a-02]\nmatch = { dscp = 1 }", &[]),
        (
            "default = true\nhash = 'full'\nqueues = 3\n[class.a-2]\nmatch = { dscp = 1 }",
            &["W115@8:8"],
        ),
    ];
    for (keys, wanted) in rows {
        check_drr(&format!("[class.a]\n{keys}\n"), wanted);
    }
}

#[test]
fn a_hash_that_cannot_be_used_says_which_can() {
    let rows = [
        (
            "hash = 'srcaddr'",
            "`hash` of class `a`: spreads packets over `queues`, which is missing",
            "write `queues = 64`, or `isolate = \"flows within srcaddr\"` for turns among hosts in \
             one class",
        ),
        (
            "queue = { dropper = 'fq-codel', hash = 'srcadr' }",
            "`hash` of the queue: `srcadr` is not one of `flow`, `srcaddr`, `dstaddr`, \
             `srcaddr,dstaddr`",
            "did you mean `srcaddr`?",
        ),
    ];
    for (keys, message, cure) in rows {
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\ndefault = true\n{keys}\n"
        );
        assert_eq!(first(&parse(&text, "p.toml")), (message, cure), "{keys}");
    }
}

/// Checks that the values of `keys` in class `a` under this scheduler are those of `same`, where a
/// link of 10 Mbit/s has a class `a` and a default.
fn check_same(scheduler: &str, keys: &str, same: &str) {
    let plan = |keys: &str| {
        let own = keys.starts_with("match");
        let matches = if own { "" } else { "match = { dscp = 'ef' }\n" };
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = '{scheduler}'\n\
             [class.a]\n{matches}{keys}\n[class.b]\n{}default = true\n",
            if scheduler == "drr" { "" } else { "rate = '1 Mbit/s'\n" },
        );
        let outcome = parse(&text, "p.toml");
        let plan = outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings));
        (plan.link, plan.demands)
    };
    assert_eq!(plan(keys), plan(same), "{keys}");
}

#[test]
fn a_percentage_is_a_part_of_the_links_rate() {
    let rows = [
        ("htb", "rate = '20%'\nceil = '100 %'", "rate = '2 Mbit/s'\nceil = '10 Mbit/s'"),
        ("htb", "rate = '0.5 %'", "rate = '50 kbit/s'"),
        ("htb", "rate = '33.3333333 %'", "rate = '3333333 bit/s'"),
        ("htb", "rate = '0.000001 %'", "rate = '1 bit/s'"),
        ("cbq", "rate = '45 %'", "rate = '4.5 Mbit/s'"),
        ("hfsc", "rate = '20 %'\nul_m2 = '50 %'", "rate = '2 Mbit/s'\nul_m2 = '5 Mbit/s'"),
        (
            "drr",
            "police = { rate = '10 %', depth = '3000 B' }",
            "police = { rate = '1 Mbit/s', depth = '3000 B' }",
        ),
        (
            "drr",
            "match = [{ dscp = 'ef' }, { dscp = 8, police = { rate = '10 %', depth = '3000 B' } }]",
            "match = [{ dscp = 'ef' }, { dscp = 8, police = { rate = '1 Mbit/s', depth = '3000 B' } }]",
        ),
        (
            "htb",
            "rate = '1 Mbit/s'\narrival = { rate = '7 %', burst = '9 KB' }",
            "rate = '1 Mbit/s'\narrival = { rate = '700 kbit/s', burst = '9 KB' }",
        ),
    ];
    for (scheduler, keys, same) in rows {
        check_same(scheduler, keys, same);
    }
    // Of the link, not of the parent; and of a parameter of the link itself.
    let text = "[class.p]\nrate = '50 %'\n[class.a]\nparent = 'p'\nrate = '20 %'\ndefault = true\n";
    let policy = sound(check_htb(text, &[]));
    let leaf = policy.class("a").expect("it is declared");
    let rate = policy.link.tree.class(leaf).params.rate("rate");
    assert_eq!(rate.map(Rate::bits_per_second), Some(2_000_000));
    let text = "[link]\nrate = '10 Mbit/s'\nscheduler = 'tbf'\n[link.tbf]\nrate = '30 %'\n\
                [class.a]\ndefault = true\n";
    let policy = sound(check(text, &[]));
    assert_eq!(policy.link.tree.params().rate("rate"), Rate::new(3_000_000));
}

#[test]
fn a_wrong_percentage_says_what_is_wrong() {
    let like = "write it like `10 Mbit/s` or `60 %`";
    let rows = [
        (
            "'0 %'",
            "`0 %` is out of range: a rate is at least 1 bit/s",
            "write a percentage above 0, such as `20 %`",
        ),
        ("'101 %'", "`101 %` is out of range: a share is at most 100 %", "write a value in range"),
        ("'20'", "`20` has no unit", like),
        ("'5 ms'", "`5 ms` is not a rate or a share", like),
    ];
    for (value, message, cure) in rows {
        let text = format!(
            "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.a]\nrate = {value}\ndefault = true\n"
        );
        let outcome = parse(&text, "p.toml");
        let message = format!("`rate` of class `a`: {message}");
        assert_eq!(first(&outcome), (message.as_str(), cure), "{value}");
        assert_eq!(codes(&outcome)[0].split_once('@').map(|row| row.1), Some("5:8"));
    }
    // The link's own rate has no whole.
    check(
        "[link]\nrate = '50 %'\nscheduler = 'htb'\n[class.a]\nrate = '9 %'\ndefault = true\n",
        &["W013@2:8"],
    );
}

/// Queues count in sums of rates, limits and leaves. They share the rules and the policer.
#[test]
fn a_class_with_queues_stands_for_as_many_leaves() {
    let text = |rate: &str| {
        format!(
            "[class.top]\nrate = '4 Mbit/s'\n\
             [class.a]\nparent = 'top'\nrate = '{rate}'\nhash = 'dstaddr'\nqueues = 4\n\
             match = {{ proto = 'udp' }}\npolice = {{ rate = '1 Mbit/s', depth = '3000 B' }}\n\
             queue = {{ limit = '40000 packets' }}\n\
             [class.low]\nmatch = {{ dscp = 8 }}\nrate = '1 Mbit/s'\n\
             [class.b]\nhash = 'srcport'\nqueues = 2\ndefault = true\n"
        )
    };
    check_htb(&text("1.1 Mbit/s"), &["W113@5:8"]);
    let policy = sound(check_htb(&text("1 Mbit/s"), &["W156@13:19"]));
    let tree = &policy.link.tree;
    let names: Vec<_> = (0..7).map(|leaf| policy.leaf_name(LeafId(leaf))).collect();
    assert_eq!(names, ["a-0", "a-1", "a-2", "a-3", "low", "b-0", "b-1"]);
    assert_eq!((tree.leaf_count(), policy.link.queues.len()), (7, 7));
    assert_eq!(policy.link.packets_max, 160_300);
    let top = policy.class("top");
    for (name, parent, rate) in
        [("a-0", top, 1_000_000), ("a-3", top, 1_000_000), ("b-1", None, 2_500_000)]
    {
        let class = tree.class(policy.class(name).expect(name));
        assert_eq!((class.parent, class.params.rate("rate")), (parent, Rate::new(rate)), "{name}");
    }
    let meter = MeterId::from_index(0);
    let meters = [meter, meter, meter, meter, None, None, None];
    assert_eq!(policy.link.leaf_meters, meters);
    let mut classifier = policy.classifier();
    let mut leaf = |protocol, last, port| {
        let destination = std::net::Ipv4Addr::new(0, 0, 0, last);
        let addresses = Addresses::V4 { source: destination, destination };
        let ports = Ports { source: port, destination: 1 };
        let headers = Headers::of_flow(addresses, protocol, ports);
        classifier.classify(Instant::ZERO, InterfaceId(0), &headers).leaf.0
    };
    // A port's first byte is the lowest of its hash.
    let found = [0, 1, 6, 7].map(|last| leaf(Protocol::UDP, last, 9));
    assert_eq!(found, [0, 1, 2, 3]);
    assert_eq!([0, 0x100, 0x101].map(|port| leaf(Protocol::TCP, 3, port)), [5, 6, 5]);
}

#[test]
fn a_class_with_children_has_no_queues_by_hash() {
    let text = "[class.a]\nrate = '1 Mbit/s'\nhash = 'full'\nqueues = 2\n\
                [class.b]\nparent = 'a'\nrate = '1 Mbit/s'\ndefault = true\n";
    check_htb(text, &["W108@7:1"]);
}

#[test]
fn an_error_of_queues_is_reported_once_at_their_class() {
    let text = "[class.a]\nhash = 'full'\nqueues = 99\ndefault = true\n\
                [class.b]\nmatch = { dscp = 1 }\nhash = 'full'\nqueues = 2\n\
                queue = { dropper = 'pie', update = '1 us' }\n";
    check_drr(text, &["W114@12:37"]);
}

#[test]
fn the_bound_of_classes_counts_their_queues() {
    let class = |at: usize| {
        format!(
            "[class.c{at}]\nhash = 'full'\nqueues = 2048\nmatch = {{ dscp = 1, vlan = {at} }}\n"
        )
    };
    let text: String = (0..513).map(class).collect();
    let outcome = parse(&format!("[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n{text}"), "p.toml");
    let found = outcome.findings.iter().find(|finding| finding.code == "W018");
    assert_eq!(found.map(|finding| finding.place.line), Some(4 + 512 * 4 + 2));
}
