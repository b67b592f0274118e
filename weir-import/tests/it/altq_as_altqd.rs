//! `weir import altq` reads what altqd reads, also what few files have.

use weir_import::import::{self, Fate, Options};
use weir_policy::policy;

/// Checks parts of all policies; every line is kept.
fn check(text: &str, wanted: &[&str]) {
    let language = import::find("altq").expect("it is a language");
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    assert!(outcome.plan.is_some(), "{text}\n{:#?}", outcome.findings);
    let import = outcome.plan.expect("errors were ruled out");
    let all: String = import.policies.iter().map(|one| one.policy.as_str()).collect();
    for one in &import.policies {
        assert!(!policy::parse(&one.policy, "p").failed(), "{}", one.policy);
    }
    for part in wanted {
        assert!(all.contains(part), "{part:?} is missing:\n{all}");
    }
    for line in &import.lines {
        assert_eq!(line.fate, Fate::Kept, "{line:?}");
    }
}

#[test]
fn curves_of_hfsc_have_short_forms() {
    let text = "interface en0 bandwidth 10M hfsc\n\
                class hfsc en0 a root bandwidth 3M ulimit 5M default\n\
                class hfsc en0 b root pshare 20 grate 1M ulimit 4M\n\
                class hfsc en0 c root bandwidth 2M [ul 4M 10 3M]\n\
                filter en0 b 0 53 0 0 17 dontwarn\nfilter6 en0 c 0 0 0 0 17 dontwarn\n";
    let wanted = [
        "[class.a]\nls_m2 = \"3 Mbit/s\"\nul_m2 = \"5 Mbit/s\"\nrt_m2 = \"3 Mbit/s\"",
        "[class.b]\nls_m2 = \"2 Mbit/s\"\nul_m2 = \"4 Mbit/s\"\nrt_m2 = \"1 Mbit/s\"",
        "ul_m1 = \"4 Mbit/s\"\nul_d = \"10 ms\"\nul_m2 = \"3 Mbit/s\"",
        "{ ethertype = \"ipv4\", proto = 17, dport = \"53\" }",
    ];
    check(text, &wanted);
}

#[test]
fn red_and_rio_set_the_thresholds_of_what_follows() {
    let text = "interface en0 bandwidth 10M priq\n\
                class priq en0 before root priority 1 red default\n\
                red 10 30 20\nrio 40 50 15 25 35 11 6 16 12\n\
                class priq en0 after root priority 2 red\n\
                class priq en0 rio root priority 3 rio\n\
                class priq en0 none root priority 4\n\
                interface en1 bandwidth 10M red\n\
                interface en2 bandwidth 10M red thmin 7 thmax 9 invpmax 5 weight 64\n\
                interface en3 bandwidth 10M rio lo_thmin 8 med_thmax 33 hi_invpmax 9\n";
    let wanted = [
        "[class.before]\npriority = 1\nqueue = { dropper = \"red-altq\", limit = \"50 packets\" }",
        "limit = \"50 packets\", min = 10, max = 30, inv_pmax = 20 }",
        "limit = \"50 packets\", low_min = 40, low_max = 50, low_inv_pmax = 15, medium_min = 25, \
         medium_max = 35, medium_inv_pmax = 11, high_min = 6, high_max = 16, high_inv_pmax = 12 }",
        "[class.none]\npriority = 4\nqueue = { dropper = \"tail\", limit = \"50 packets\" }",
        "queue = { dropper = \"red-altq\", min = 10, max = 30, inv_pmax = 20 }",
        "queue = { dropper = \"red-altq\", min = 7, max = 9, inv_pmax = 5, weight = 64 }",
        "dropper = \"rio\", low_min = 8, medium_max = 33, high_inv_pmax = 9, low_max = 50",
    ];
    check(text, &wanted);
}
