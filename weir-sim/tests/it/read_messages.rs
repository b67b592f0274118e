//! The findings in a scenario whose keys have wrong values, message by message.

use std::io;
use std::path::Path;
use weir_sim::read;

const POLICY: &str = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"drr\"\n[class.web]\n\
    match = [{ proto = \"tcp\", dport = \"80\" }]\n[class.rest]\ndefault = true\n";

/// Each row is a faulty key that follows `before`, and the code and the message of what is found.
fn check(before: &str, rows: &[(&str, &str)]) {
    let file = |path: &Path| match path.to_str() {
        Some("p.toml") => Ok(POLICY.as_bytes().to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    for &(row, expected) in rows {
        let text = format!("{before}{row}\n");
        let outcome = read::parse(text.as_bytes(), "s.toml", &file);
        let finding = |finding: &weir_policy::finding::Finding| {
            assert!(!finding.cure.is_empty(), "{text}");
            format!("{} {}", finding.code, finding.message)
        };
        let found: Vec<_> = outcome.findings.iter().map(finding).collect();
        assert_eq!(found, [expected], "{text}");
    }
}

/// Checks keys of one source that begins with `keys`.
fn check_source(keys: &str, rows: &[(&str, &str)]) {
    let head = "policy = \"p.toml\"\nduration = \"1 s\"\n[[source]]\n";
    check(&format!("{head}{keys}\n"), rows);
}

#[test]
fn wrong_values_of_the_file_are_named() {
    let source = "[[source]]\nname = \"x\"\nkind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"";
    let check_head = |rows: &[(&str, &str)]| {
        for &(row, expected) in rows {
            let duration = "duration = \"1 s\"";
            let policy = if row.starts_with("policy") { "" } else { "policy = \"p.toml\"" };
            let text = format!("{policy}\n{duration}\n{row}\n{source}");
            check("", &[(text.as_str(), expected)]);
        }
    };
    check_head(&[
        ("warmup = 5", "W013 `warmup` of the file: `5` has no unit"),
        ("warmup = \"1 km\"", "W013 `warmup` of the file: unknown unit `km`"),
        ("seed = -1", "W015 `seed` of the file: -1 is not in 0..=9223372036854775807"),
        ("seed = \"one\"", "W012 `seed` of the file: is a text, not a whole number"),
        ("delay = \"fast\"", "W013 `delay` of the file: `fast` does not start with a number"),
        (
            "duration_max = 3",
            "W010 the file has no key `duration_max`; it has `policy`, `duration`, `warmup`, \
                `delay`, `start_jitter`, `processing_jitter`, `seed`, `name`, `behind`, `source`, `change`",
        ),
        ("policy = true", "W012 `policy` of the file: is true or false, not a text"),
    ]);
}

#[test]
fn wrong_values_of_every_source_are_named() {
    check_source(
        "name = \"x\"\nkind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"",
        &[
            ("start = 5", "W013 `start` of source `x`: `5` has no unit"),
            ("stop = \"later\"", "W013 `stop` of source `x`: `later` does not start with a number"),
            ("src = \"10.0.0\"", "W017 `src` of source `x`: \"10.0.0\" is not an address"),
            ("dst = 5", "W017 `dst` of source `x`: \"5\" is not an address"),
            ("sport = -1", "W015 `sport` of source `x`: -1 is not in 0..=65535"),
            ("dport = \"http\"", "W012 `dport` of source `x`: is a text, not a whole number"),
            (
                "proto = \"carrier pigeon\"",
                "W017 `proto` of source `x`: protocol \"carrier pigeon\": is neither a protocol name \
                Weir knows nor a number in 0..=255",
            ),
            (
                "dscp = \"gold\"",
                "W017 `dscp` of source `x`: DSCP \"gold\": is neither a code point name Weir knows nor \
                a number in 0..=63",
            ),
            (
                "dscp = 64",
                "W017 `dscp` of source `x`: DSCP \"64\": is above 63, the largest of six bits",
            ),
            ("ecn = \"yes\"", "W017 `ecn` of source `x`: ECN \"yes\": is not an ECN code point"),
            (
                "vlan = 4096",
                "W017 `vlan` of source `x`: VLAN \"4096\": is not a number in 0..=4094",
            ),
            ("pcp = 8", "W017 `pcp` of source `x`: PCP \"8\": is not a number in 0..=7"),
            (
                "proto = \"icmp\"\nicmp_type = \"ping\"",
                "W017 `icmp_type` of source `x`: ICMP type \"ping\": is neither a type that Weir knows \
                nor a number in 0..=255, with a code or not",
            ),
            (
                "icmp_type = 8",
                "W017 `icmp_type` of source `x`: packets of protocol udp have no such type",
            ),
            ("interface = 0", "W012 `interface` of source `x`: is a number, not a text"),
            (
                "jitter = \"150 %\"",
                "W015 `jitter` of source `x`: `150 %` is out of range: a share is at most 100 %",
            ),
            ("jitter = \"5 ms\"", "W013 `jitter` of source `x`: `5 ms` is not a share"),
            (
                "window = \"1 KB\"",
                "W010 source `x` has no key `window`; it has `name`, `kind`, `proto`, `src`, \
                `dst`, `sport`, `dport`, `dscp`, `ecn`, `vlan`, `pcp`, `src_mac`, `dst_mac`, `mark`, `icmp_type`, `interface`, `class`, `start`, \
                `stop`, `size`, `payload`, `sizes`, `rate`, `interval`, `jitter`",
            ),
            (
                "codec = \"g711\"",
                "W010 source `x` has no key `codec`; it has `name`, `kind`, `proto`, `src`, \
                `dst`, `sport`, `dport`, `dscp`, `ecn`, `vlan`, `pcp`, `src_mac`, `dst_mac`, `mark`, `icmp_type`, `interface`, `class`, `start`, \
                `stop`, `size`, `payload`, `sizes`, `rate`, `interval`, `jitter`",
            ),
        ],
    );
}

#[test]
fn wrong_values_of_lengths_are_named() {
    check_source(
        "name = \"x\"\nkind = \"cbr\"\ninterval = \"1 ms\"",
        &[
            ("size = \"0 B\"", "W015 `size` of source `x`: 0 B is not in 1 B to 65535 B"),
            ("size = \"70000 B\"", "W015 `size` of source `x`: 70 KB is not in 1 B to 65535 B"),
            ("size = 99", "W013 `size` of source `x`: `99` has no unit"),
            ("size = \"9 MB/s\"", "W013 `size` of source `x`: `9 MB/s` is not a size in bytes"),
            (
                "payload = \"65500 B\"",
                "W015 `payload` of source `x`: 65.5 KB is not in 1 B to 65493 B",
            ),
            ("sizes = []", "W307 `sizes` of source `x`: the shares do not make 100 %"),
            ("sizes = [{ size = \"9 B\" }]", "W011 a row of `sizes` has no `share`"),
            (
                "sizes = [{ size = \"9 B\", share = \"90 %\" }]",
                "W307 `sizes` of source `x`: the shares do not make 100 %",
            ),
            ("sizes = \"9 B\"", "W012 `sizes` of source `x`: is a text, not an array"),
        ],
    );
}

#[test]
fn wrong_values_of_distances_and_rates_are_named() {
    check_source(
        "name = \"x\"\nkind = \"poisson\"\nsize = \"99 B\"",
        &[
            ("interval = \"0 s\"", "W015 `interval` of source `x`: must be more than 0 s"),
            (
                "interval = \"-1 ms\"",
                "W013 `interval` of source `x`: `-1 ms` does not start with a number",
            ),
            (
                "rate = \"0 bit/s\"",
                "W015 `rate` of source `x`: `0 bit/s` is out of range: a rate is at least 1 bit/s",
            ),
            (
                "rate = \"1 Mbps\"",
                "W014 `rate` of source `x`: `1 Mbps` is ambiguous: it may mean 1 Mbit/s or 1 MB/s",
            ),
            ("rate = 5", "W013 `rate` of source `x`: `5` has no unit"),
        ],
    );
}

#[test]
fn wrong_values_of_on_off_are_named() {
    check_source(
        "name = \"x\"\nkind = \"on-off\"\nsize = \"99 B\"\nrate = \"1 Mbit/s\"",
        &[
            ("on = \"1 s\"", "W011 source `x` has no `off`"),
            ("on = \"1 s\"\noff = 2", "W013 `off` of source `x`: `2` has no unit"),
            (
                "on = \"1 s\"\noff = \"1 s\"\ndistribution = \"normal\"",
                "W016 `distribution` of source `x`: `normal` is not one of `exponential`, \
                `constant`, `pareto`",
            ),
            (
                "on = \"1 s\"\noff = \"1 s\"\nshape = 2.0",
                "W310 `shape` of source `x`: means nothing here",
            ),
            (
                "on = \"1 s\"\noff = \"1 s\"\ndistribution = \"pareto\"\nshape = 1.0",
                "W015 `shape` of source `x`: 1 is not above 1 and at most 100",
            ),
        ],
    );
}

#[test]
fn wrong_values_of_tcp_are_named() {
    check_source(
        "name = \"x\"\nkind = \"tcp\"",
        &[
            ("window = \"0 B\"", "W015 `window` of source `x`: 0 B is not in 1 B to 256 MiB"),
            ("window = \"1 GB\"", "W015 `window` of source `x`: 1 GB is not in 1 B to 256 MiB"),
            ("window = 64", "W013 `window` of source `x`: `64` has no unit"),
            ("mtu = \"100 B\"", "W015 `mtu` of source `x`: 100 B is not in 576 B to 65535 B"),
            ("mtu = \"1500\"", "W013 `mtu` of source `x`: `1500` has no unit"),
            (
                "congestion = \"vegas\"",
                "W016 `congestion` of source `x`: `vegas` is not one of `cubic`, `reno`, `bbr`, `dctcp`, \
                `prague`, `none`",
            ),
            (
                "profile = \"sysv\"",
                "W016 `profile` of source `x`: `sysv` is not one of `linux`, `rfc`, `bsd-1998`, \
                `tahoe-1988`",
            ),
            (
                "ecn = \"ect0\"",
                "W016 `ecn` of source `x`: `ect0` is not one of `off`, `classic`, `accurate`",
            ),
            (
                "congestion = \"dctcp\"\necn = \"off\"",
                "W305 `ecn` of source `x`: does not bring `dctcp` the marks that it lives by",
            ),
            (
                "congestion = \"prague\"\necn = \"classic\"",
                "W305 `ecn` of source `x`: does not bring `prague` the marks that it lives by",
            ),
            (
                "congestion = \"reno\"\nhystart = true",
                "W310 `hystart` of source `x`: means nothing here",
            ),
            ("pacing = \"on\"", "W012 `pacing` of source `x`: is a text, not true or false"),
            (
                "window_max = \"1 KB\"",
                "W015 `window_max` of source `x`: 1 KB is less than the window of 65.535 KB that it \
                begins with",
            ),
            (
                "initial_window = \"0 packets\"",
                "W015 `initial_window` of source `x`: 0 packets is not in 1 to 65536 packets or \
                1 B to 256 MiB",
            ),
            ("initial_window = 10", "W013 `initial_window` of source `x`: `10` has no unit"),
            ("rto_min = \"999 us\"", "W015 `rto_min` of source `x`: 999 us is less than 1 ms"),
            (
                "slow_start = \"segments\"",
                "W016 `slow_start` of source `x`: `segments` is not one of `bytes`, `acks`",
            ),
            ("bytes = \"0 B\"", "W015 `bytes` of source `x`: must be at least 1 B"),
            ("bytes = \"many\"", "W013 `bytes` of source `x`: `many` does not start with a number"),
            ("think = \"1 s\"", "W310 `think` of source `x`: needs `bytes`"),
            (
                "ack_delay = \"-1 s\"",
                "W013 `ack_delay` of source `x`: `-1 s` does not start with a number",
            ),
            ("quick_acks = 65537", "W015 `quick_acks` of source `x`: 65537 is not in 0..=65536"),
            ("return_delay = 5", "W013 `return_delay` of source `x`: `5` has no unit"),
            ("mss = \"sysv\"", "W016 `mss` of source `x`: `sysv` is not one of `mtu`, `bsd`"),
            ("sport = 0", "W311 source `x`: a connection needs two ports that are not 0"),
            (
                "size = \"99 B\"",
                "W010 source `x` has no key `size`; it has `name`, `kind`, `proto`, `src`, `dst`, \
                `sport`, `dport`, `dscp`, `vlan`, `pcp`, `src_mac`, `dst_mac`, `mark`, `icmp_type`, `interface`, `class`, `start`, `stop`, \
                `profile`, `congestion`, `ecn`, `hystart`, `initial_window`, `slow_start`, `pacing`, `nagle`, `idle_restart`, `sack`, `rto_min`, `window`, `window_max`, \
                `ack_delay`, `quick_acks`, `timestamps`, `mtu`, `mss`, `return_delay`, `loss`, `client`, `buffer`, \
                `conversation`, `bytes`, `think`",
            ),
        ],
    );
}

#[test]
fn wrong_values_of_voip_are_named() {
    check_source(
        "name = \"x\"\nkind = \"voip\"",
        &[
            (
                "codec = \"mp3\"",
                "W016 `codec` of source `x`: `mp3` is not one of `g711`, `g729`, `g723`, `g726`",
            ),
            ("talk = \"0 s\"", "W015 `talk` of source `x`: must be more than 0 s"),
            ("pause = 5", "W013 `pause` of source `x`: `5` has no unit"),
            ("payload = \"0 B\"", "W015 `payload` of source `x`: 0 B is not in 1 B to 9 KB"),
            ("interval = \"0 s\"", "W015 `interval` of source `x`: must be more than 0 s"),
        ],
    );
}

#[test]
fn wrong_values_of_video_are_named() {
    check_source(
        "name = \"x\"\nkind = \"video\"",
        &[
            (
                "bitrate = \"0 bit/s\"",
                "W015 `bitrate` of source `x`: `0 bit/s` is out of range: a rate is at least 1 \
                bit/s",
            ),
            ("bitrate = 5", "W013 `bitrate` of source `x`: `5` has no unit"),
            (
                "bitrate = \"1 Mbit/s\"\npictures = 0",
                "W015 `pictures` of source `x`: 0 is not in 1..=1000",
            ),
            (
                "bitrate = \"1 Mbit/s\"\ngroup = 0",
                "W015 `group` of source `x`: 0 is not in 1..=1000",
            ),
            (
                "bitrate = \"1 Mbit/s\"\ni_ratio = 0.5",
                "W015 `i_ratio` of source `x`: 0.5 is not in 1 to 1000",
            ),
            (
                "bitrate = \"1 Mbit/s\"\npacket = \"0 B\"",
                "W015 `packet` of source `x`: 0 B is not in 1 B to 65 KB",
            ),
            (
                "bitrate = \"1 Mbit/s\"\ndistribution = \"normal\"",
                "W016 `distribution` of source `x`: `normal` is not one of `lognormal`, `gamma`, \
                `constant`",
            ),
            (
                "bitrate = \"1 Mbit/s\"\nvariation = -1.0",
                "W015 `variation` of source `x`: -1 is not in 0 to 5",
            ),
        ],
    );
}

#[test]
fn wrong_values_of_web_are_named() {
    check_source(
        "name = \"x\"\nkind = \"web\"",
        &[
            ("pages = 0", "W015 `pages` of source `x`: 0 is not in 1..=10000"),
            ("objects = \"five\"", "W012 `objects` of source `x`: is a text, not a whole number"),
            (
                "object = \"0 B\"",
                "W015 `object` of source `x`: 0 B is not in 1 B to 1073741.824 KB",
            ),
            ("object_shape = 1.0", "W015 `object_shape` of source `x`: 1 is not in 1.01 to 100"),
            ("page_pause = 5", "W013 `page_pause` of source `x`: `5` has no unit"),
            (
                "session_pause = \"never\"",
                "W013 `session_pause` of source `x`: `never` does not start with a number",
            ),
            ("window = \"0 B\"", "W015 `window` of source `x`: 0 B is not in 1 B to 256 MiB"),
        ],
    );
}

#[test]
fn wrong_values_of_ftp_are_named() {
    check_source(
        "name = \"x\"\nkind = \"ftp\"",
        &[
            ("file = \"0 B\"", "W015 `file` of source `x`: 0 B is not in 1 B to 1073741.824 KB"),
            ("file_shape = 0.5", "W015 `file_shape` of source `x`: 0.5 is not in 1.01 to 100"),
            ("files = 0", "W015 `files` of source `x`: 0 is not in 1..=4294967295"),
            ("pause = \"-1 s\"", "W013 `pause` of source `x`: `-1 s` does not start with a number"),
        ],
    );
}

#[test]
fn wrong_values_of_ttcp_are_named() {
    check_source(
        "name = \"x\"\nkind = \"ttcp\"",
        &[
            (
                "transport = \"sctp\"",
                "W016 `transport` of source `x`: `sctp` is not one of `tcp`, `udp`",
            ),
            (
                "transport = \"tcp\"\nbuffers = 0",
                "W015 `buffers` of source `x`: 0 is not in 1..=4294967295",
            ),
            (
                "transport = \"tcp\"\nlength = \"0 B\"",
                "W015 `length` of source `x`: 0 B is not in 1 B to 18446744073709551.615 KB",
            ),
            (
                "transport = \"udp\"\nlength = \"70000 B\"",
                "W015 `length` of source `x`: 70 KB is not in 1 B to 65.507 KB",
            ),
            (
                "transport = \"udp\"\nrate = \"0 bit/s\"",
                "W015 `rate` of source `x`: `0 bit/s` is out of range: a rate is at least 1 bit/s",
            ),
            (
                "transport = \"udp\"\nmtu = \"20 B\"",
                "W015 `mtu` of source `x`: 20 B is not in 576 B to 65535 B",
            ),
        ],
    );
}

#[test]
fn wrong_values_of_probe_are_named() {
    check_source(
        "name = \"x\"\nkind = \"probe\"",
        &[
            ("interval = \"0 s\"", "W015 `interval` of source `x`: must be more than 0 s"),
            ("size = \"0 B\"", "W015 `size` of source `x`: 0 B is not in 1 B to 65.535 KB"),
        ],
    );
}

#[test]
fn wrong_values_of_capture_are_named() {
    check_source(
        "name = \"x\"\nkind = \"capture\"",
        &[
            ("flows = true", "W011 source `x` has no `file`"),
            ("file = 5", "W012 `file` of source `x`: is a number, not a text"),
        ],
    );
}

#[test]
fn wrong_keys_of_quic_are_named() {
    let needless = |key: &str| format!("W310 `{key}` of source `x`: means nothing over QUIC");
    let (sack, profile) = (needless("sack"), needless("profile"));
    check_source(
        "name = \"x\"\nkind = \"quic\"",
        &[
            ("sack = false", sack.as_str()),
            ("profile = \"linux\"", profile.as_str()),
            (
                "congestion = \"bbr\"",
                "W305 `congestion` of source `x`: one seed would not be one run: quinn's BBR draws \
                    from the system",
            ),
            ("think = \"1 s\"", "W310 `think` of source `x`: needs `bytes`"),
            (
                "ack_delay = \"20 s\"",
                "W015 `ack_delay` of source `x`: 20 s is neither 0 s nor in 1 ms to 16.383 s",
            ),
            (
                "mtu = \"1200 B\"",
                "W311 source `x`: QUIC over IPv4 needs an MTU of at least 1228 bytes",
            ),
            ("proto = \"tcp\"", "W311 source `x`: its packets are not UDP's"),
            ("window = \"7 B\"", "W015 `window` of source `x`: 7 B is not in 8 B to 256 MiB"),
        ],
    );
    check_source("name = \"x\"\nkind = \"web\"\ntransport = \"quic\"", &[("sack = true", &sack)]);
}

/// Returns the cure of the only finding in a scenario of one source with these keys.
fn cure(head: &str, source: &str) -> String {
    let file = |_: &Path| Ok(POLICY.as_bytes().to_vec());
    let text = format!("policy = \"p.toml\"\nduration = \"1 s\"\n{head}\n[[source]]\n{source}\n");
    let outcome = read::parse(text.as_bytes(), "s.toml", &file);
    let cures: Vec<_> = outcome.findings.into_iter().map(|finding| finding.cure).collect();
    assert_eq!(cures.len(), 1, "{text}: {cures:?}");
    cures.concat()
}

#[test]
fn a_misplaced_key_is_told_where_it_belongs() {
    let cbr = "name = \"x\"\nkind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"\n";
    let tcp = "name = \"x\"\nkind = \"tcp\"\ndport = 80\n";
    let rows = [
        (
            "loss = \"1 %\"",
            cbr.to_owned(),
            "of a `[[link]]` of a network, of [rsvp], of a `[[source]]` of kind `tcp`, `ttcp`, `video` \
             and others: move it to one",
        ),
        ("", format!("{cbr}warmup = \"1 ms\""), "the scenario itself, above its tables: move it"),
        ("", format!("{tcp}size = \"99 B\""), "of kind `cbr`, `poisson`, `on-off`"),
        ("scheduler = \"drr\"", cbr.to_owned(), "a key of [link] of the policy: move it there"),
        ("", format!("{cbr}widow = \"1 KB\""), "remove it"),
    ];
    for (head, source, told) in rows {
        let cure = cure(head, &source);
        assert!(cure.contains(told), "{head} {source}: {cure}");
    }
}

#[test]
fn a_part_without_its_unit_is_told_both_that_may_be_meant() {
    let cbr = "name = \"x\"\nkind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"\n";
    let rows = [
        ("0.1", "write `10 %` for that part of the whole, or `0.1 %`"),
        ("1", "write `100 %` for that part of the whole, or `1 %`"),
        ("25", "write `25 %`"),
    ];
    for (value, told) in rows {
        assert_eq!(cure("", &format!("{cbr}jitter = {value}")), told);
    }
}
