//! Scenarios in TOML: what is read, and what is found.

use std::io;
use std::path::Path;
use weir_core::units::{Bytes, Duration, Instant};
use weir_policy::finding::Outcome;
use weir_sim::scenario::{Congestion, Sizes, Spacing, Traffic};
use weir_sim::{Scenario, read};

const POLICY: &str = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"drr\"\n[class.web]\n\
    match = [{ proto = \"tcp\", dport = \"80\" }]\n[class.rest]\ndefault = true\n";
const HEAD: &str = "policy = \"p.toml\"\nduration = \"1 s\"\n";

fn parse(text: &str) -> Outcome<Scenario> {
    let file = |path: &Path| match path.to_str() {
        Some("folder/p.toml") => Ok(POLICY.as_bytes().to_vec()),
        Some("folder/faulty.toml") => Ok(b"[link]\n".to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    read::parse(text.as_bytes(), "folder/s.toml", &file)
}

fn scenario(text: &str) -> Scenario {
    let outcome = parse(text);
    assert_eq!(outcome.findings, []);
    outcome.plan.expect("nothing was found")
}

#[test]
fn every_kind_of_source_is_read() {
    let text = format!(
        "{HEAD}warmup = \"100 ms\"\nseed = 7\ndelay = \"3 ms\"\n\
        [[source]]\nname = \"a\"\nkind = \"cbr\"\nsize = \"100 B\"\nrate = \"1 Mbit/s\"\n\
        start = \"1 ms\"\nstop = \"900 ms\"\n\
        [[source]]\nname = \"b\"\nkind = \"poisson\"\npayload = \"100 B\"\ninterval = \"1 ms\"\n\
        [[source]]\nname = \"c\"\nkind = \"on-off\"\nrate = \"1 Mbit/s\"\non = \"1 s\"\noff = \"2 s\"\n\
        sizes = [{{ size = \"64 B\", share = \"40 %\" }}, {{ size = \"1500 B\", share = \"60 %\" }}]\n\
        [[source]]\nname = \"d\"\nkind = \"tcp\"\ndport = 80\ncongestion = \"reno\"\n\
        window = \"32 KiB\"\nmtu = \"576 B\"\nbytes = \"10 KB\"\nthink = \"1 s\"\n\
        ack_delay = \"0 s\"\nquick_acks = 16\ntimestamps = true\nreturn_delay = \"4 ms\"\n"
    );
    let scenario = scenario(&text);
    assert_eq!((scenario.name.as_str(), scenario.seed), ("s", 7));
    assert_eq!(scenario.delay, Duration::from_millis(3));
    let [a, b, c, d] = &scenario.sources[..] else { panic!("there are four") };
    assert_eq!(a.start, Instant::ZERO.after(Duration::from_millis(1)));
    assert!(matches!(&a.traffic, Traffic::Cbr { sizes, .. } if *sizes == frame(100)));
    let every_ms = Spacing::interval(Duration::from_millis(1)).expect("not zero");
    assert!(matches!(&b.traffic, Traffic::Poisson { sizes, spacing }
        if *sizes == frame(142) && *spacing == every_ms));
    assert!(matches!(&c.traffic, Traffic::OnOff { .. }));
    let Traffic::Tcp(tcp) = &d.traffic else { panic!("it is TCP") };
    let (config, acks) = (&tcp.config, &tcp.config.acks);
    let window = Bytes::new(32 << 10);
    assert_eq!((config.congestion, config.buffers.receive_max), (Congestion::Reno, window));
    assert_eq!((tcp.mtu().get(), acks.delay, acks.quick, acks.adaptive), (576, None, 16, false));
    assert!(config.timestamps);
    assert!(tcp.transfer.is_some_and(|transfer| transfer.think.is_some()));
    let report = weir_sim::run(&scenario, &mut |_| {}).expect("it is sound");
    let classes: Vec<_> = report.sources.iter().map(|source| source.class.as_str()).collect();
    assert_eq!(classes, ["rest", "rest", "rest", "web"]);
}

fn frame(length: u32) -> Sizes {
    Sizes::fixed(length).expect("a frame's length")
}

#[test]
fn headers_decide_the_class() {
    let rows = [
        ("kind = \"tcp\"\ndport = 80", "web"),
        ("kind = \"tcp\"\ndport = 81", "rest"),
        ("kind = \"cbr\"\nproto = \"tcp\"\ndport = 80\nsize = \"60 B\"\ninterval = \"1 s\"", "web"),
        ("kind = \"cbr\"\ndport = 80\nsize = \"60 B\"\ninterval = \"1 s\"", "rest"),
        ("kind = \"tcp\"\ndport = 80\ndst = \"2001:db8::2\"", "web"),
        ("kind = \"cbr\"\nproto = \"icmp\"\nsize = \"60 B\"\ninterval = \"1 s\"", "rest"),
    ];
    for (source, class) in rows {
        let scenario = scenario(&format!("{HEAD}[[source]]\nname = \"x\"\n{source}\n"));
        let report = weir_sim::run(&scenario, &mut |_| {}).expect("it is sound");
        assert_eq!(report.sources[0].class, class, "{source}");
    }
}

/// The codes found in a scenario with this head and this one source.
fn check(head: &str, source: &str, codes: &[&str]) {
    let source = match source {
        "" => String::new(),
        source => format!("[[source]]\nname = \"x\"\n{source}\n"),
    };
    let outcome = parse(&format!("{head}{source}"));
    let mut found: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
    found.sort_unstable();
    assert_eq!(found, codes, "{head}{source}\n{:#?}", outcome.findings);
    assert!(outcome.findings.iter().all(|finding| !finding.cure.is_empty()), "{head}{source}");
}

#[test]
fn faults_of_sources_are_found() {
    let cbr = |rest: &str| format!("kind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"\n{rest}");
    let dense = "kind = \"cbr\"\nsize = \"99 B\"\nrate = \"200000 Gbit/s\"\n";
    let rows: [(String, &[&str]); 32] = [
        (cbr(""), &[]),
        (dense.to_owned(), &["W315"]),
        (cbr("window = \"1 KB\""), &["W010"]),
        (cbr("rate = \"1 Mbit/s\""), &["W305"]),
        (cbr("payload = \"1 B\""), &["W305"]),
        (cbr("jitter = \"5 ms\""), &["W013"]),
        (cbr("start = \"2 s\""), &["W308"]),
        (cbr("start = \"5 ms\"\nstop = \"5 ms\""), &["W308"]),
        (cbr("src = \"10.0.0.1\"\ndst = \"fe80::1\""), &["W309"]),
        (cbr("src = \"nowhere\""), &["W017"]),
        (cbr("dport = 65536"), &["W015"]),
        (cbr("dscp = \"gold\""), &["W017"]),
        (cbr("dscp = \"EF\""), &[]),
        (cbr("dscp = \"Va\""), &[]),
        (cbr("dscp = \"LE\"\nsrc_mac = \"02:00:5e:10:00:01\""), &[]),
        (cbr("dst_mac = \"02:00\""), &["W017"]),
        (cbr("interface = \"eth0\""), &["W312"]),
        ("kind = \"cbr\"\nsize = \"99 B\"".into(), &["W306"]),
        ("kind = \"cbr\"\ninterval = \"1 ms\"".into(), &["W306"]),
        ("kind = \"cbr\"\nsize = \"0 B\"\ninterval = \"1 ms\"".into(), &["W015"]),
        ("kind = \"cbr\"\npayload = \"65500 B\"\ninterval = \"1 ms\"".into(), &["W015"]),
        ("kind = \"cbr\"\nsize = \"99 B\"\ninterval = \"0 s\"".into(), &["W015"]),
        ("kind = \"cbr\"\nsize = \"99 B\"\nrate = \"1 Mbps\"".into(), &["W014"]),
        (
            "kind = \"cbr\"\nsizes = [{ size = \"9 B\", share = \"9 %\" }]\ninterval = \"1 ms\""
                .into(),
            &["W307"],
        ),
        ("kind = \"tcp\"\nthink = \"1 s\"".into(), &["W310"]),
        ("kind = \"tcp\"\nsport = 0".into(), &["W311"]),
        ("kind = \"tcp\"\nproto = \"udp\"".into(), &["W311"]),
        ("kind = \"tcp\"\nmtu = \"100 B\"".into(), &["W015"]),
        ("kind = \"tcp\"\nmtu = \"1000 B\"\nsrc = \"2001:db8::1\"".into(), &["W311"]),
        ("kind = \"tcp\"\nwindow = \"1 GB\"".into(), &["W015"]),
        ("kind = \"torrent\"".into(), &["W016"]),
        (String::from("size = \"99 B\""), &["W011"]),
    ];
    for (source, codes) in rows {
        check(HEAD, &source, codes);
    }
}

#[test]
fn faults_of_the_whole_are_found() {
    let source = "kind = \"tcp\"";
    let rows: [(&str, &str, &[&str]); 10] = [
        (HEAD, "", &["W303"]),
        ("duration = \"1 s\"\n", source, &["W011"]),
        ("policy = \"p.toml\"\n", source, &["W011"]),
        ("policy = \"none.toml\"\nduration = \"1 s\"\n", source, &["W004"]),
        (
            "policy = \"faulty.toml\"\nduration = \"1 s\"\n",
            source,
            &["W011", "W011", "W103", "W301"],
        ),
        ("policy = 5\nduration = \"1 s\"\n", source, &["W012"]),
        ("policy = \"p.toml\"\nduration = \"1 s\"\nwarmup = \"1 s\"\n", source, &["W302"]),
        ("policy = \"p.toml\"\nduration = \"99999 h\"\n", source, &["W015"]),
        ("policy = \"p.toml\"\nduration = \"1 s\"\nspeed = 3\n", source, &["W010"]),
        ("policy = { link = 5 }\nduration = \"1 s\"\n", source, &["W012", "W103"]),
    ];
    for (head, source, codes) in rows {
        check(head, source, codes);
    }
    let twice = "kind = \"tcp\"\n[[source]]\nname = \"x\"\nkind = \"tcp\"";
    check(HEAD, twice, &["W304"]);
}

#[test]
fn changes_are_read_and_their_faults_found() {
    let change = |at: &str, policy: &str| format!("[[change]]\nat = {at}\npolicy = {policy}\n");
    let inline = "{ link = { rate = \"1 Mbit/s\", scheduler = \"fifo\" }, class.a.default = true }";
    let twice = |first: &str, second: &str| change(first, "\"p.toml\"") + &change(second, inline);
    let rows: [(String, &[&str]); 13] = [
        (change("\"500 ms\"", "\"p.toml\""), &[]),
        (twice("\"1 ms\"", "\"2 ms\""), &[]),
        (twice("\"2 ms\"", "\"2 ms\""), &["W314"]),
        (twice("\"3 ms\"", "\"2 ms\""), &["W314"]),
        (change("\"0 s\"", "\"p.toml\""), &["W313"]),
        (change("\"1 s\"", "\"p.toml\""), &["W313"]),
        (change("5", "\"p.toml\""), &["W013"]),
        (change("\"1 ms\"", "\"none.toml\""), &["W004"]),
        (change("\"1 ms\"", "\"faulty.toml\""), &["W011", "W011", "W103", "W301"]),
        (change("\"1 ms\"", "{ link = 5 }"), &["W012", "W103"]),
        ("[[change]]\nat = \"1 ms\"\n".into(), &["W011"]),
        ("[[change]]\npolicy = \"p.toml\"\n".into(), &["W011"]),
        (change("\"1 ms\"", "\"p.toml\"\nto = 3"), &["W010"]),
    ];
    for (text, codes) in rows {
        check(&(HEAD.to_owned() + &text), "kind = \"tcp\"", codes);
    }
    let source = "[[source]]\nname = \"x\"\nkind = \"tcp\"\ndport = 80\n";
    let scenario = scenario(&format!("{HEAD}{}{source}", twice("\"1 ms\"", "\"2 ms\"")));
    let names: Vec<_> = scenario.changes.iter().map(|change| change.policy.as_str()).collect();
    assert_eq!(names, ["p.toml", "[change.policy]"]);
    let report = weir_sim::run(&scenario, &mut |_| {}).expect("it is sound");
    assert_eq!((report.changes.len(), report.sources[0].class.as_str()), (2, "a"));
    assert_eq!(
        (&report.changes[1].gone, &report.changes[1].new),
        (&vec!["web".into(), "rest".into()], &vec!["a".into()])
    );
}

#[test]
fn sources_keep_their_interface_by_name_whatever_policies_number_it() {
    let rule =
        |name: &str, class: &str| format!("class.{class}.match = [{{ interface = \"{name}\" }}]\n");
    let link = "link = { rate = \"1 Mbit/s\", scheduler = \"fifo\" }\nclass.rest.default = true\n";
    let table = |head: &str, rules: &str| {
        (link.to_owned() + rules).lines().map(|line| format!("{head}.{line}\n")).collect::<String>()
    };
    let first = table("policy", &(rule("lan", "a") + &rule("wan", "b")));
    let second = table("policy", &(rule("wan", "c") + &rule("lan", "d")));
    let text = format!(
        "duration = \"1 s\"\n{first}[[change]]\nat = \"500 ms\"\n{second}\
         [[source]]\nname = \"x\"\nkind = \"tcp\"\ninterface = \"lan\"\n"
    );
    let report = weir_sim::run(&scenario(&text), &mut |_| {}).expect("it is sound");
    assert_eq!(report.sources[0].class, "d");
    assert!(report.conservation.holds);
}

/// A network of two hosts and a router, with these keys in the first node, the first link and the
/// source; `more` follows.
fn network(node: &str, link: &str, source: &str, more: &str) -> String {
    format!(
        "duration = \"1 s\"\n\
         [[node]]\nname = \"a\"\n{node}\n[[node]]\nname = \"b\"\n\
         [[node]]\nname = \"r\"\nrouter = true\n\
         [[link]]\nname = \"in\"\nends = [\"a\", \"r\"]\n{link}\n\
         [[link]]\nname = \"out\"\nends = [\"r\", \"b\"]\npolicy = \"p.toml\"\n\
         [[source]]\nname = \"y\"\nsize = \"99 B\"\ninterval = \"1 ms\"\n{source}\n{more}"
    )
}

/// The codes of what is found in the text.
fn check_found(text: &str, codes: &[&str]) {
    let outcome = parse(text);
    let mut found: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
    found.sort_unstable();
    assert_eq!(found, codes, "{text}\n{:#?}", outcome.findings);
    assert!(outcome.findings.iter().all(|finding| !finding.cure.is_empty()), "{text}");
}

#[test]
fn faults_of_networks_are_found() {
    let link = "rate = \"1 Mbit/s\"";
    let source = "kind = \"cbr\"\nfrom = \"a\"\nto = \"b\"";
    let other = |ends: &str| format!("[[link]]\nname = \"z\"\nends = {ends}\n{link}\n");
    let (parted, looped) = (other("[\"b\", \"a\"]"), other("[\"a\", \"a\"]"));
    let (twice, three) = (other("[\"r\", \"a\"]"), other("[\"a\", \"b\", \"r\"]"));
    let unknown = other("[\"a\", \"c\"]");
    let same = format!("[[link]]\nname = \"in\"\nends = [\"a\", \"b\"]\n{link}\n");
    let from = |to: &str| format!("kind = \"cbr\"\nfrom = \"a\"\nto = \"{to}\"");
    let also = |more: &str| format!("{source}\n{more}");
    let wire = |more: &str| format!("{link}\n{more}");
    let change = |more: &str| format!("[[change]]\nat = \"1 ms\"\npolicy = \"p.toml\"\n{more}");
    let change_at =
        |at: &str| network("", link, source, &change("link = \"out\"").replace("1 ms", at));
    let rows: Vec<(String, &[&str])> = vec![
        (network("", link, source, ""), &[]),
        (network("", link, source, &parted), &[]),
        (network("", link, source, &looped), &["W336"]),
        (network("", link, source, &twice), &["W335"]),
        (network("", link, source, &three), &["W015"]),
        (network("", link, source, &unknown), &["W331"]),
        (network("", link, source, &same), &["W334"]),
        (network("", link, source, "[[node]]\nname = \"b\"\n"), &["W334"]),
        (network("", link, source, "[[node]]\nrouter = true\n"), &["W011"]),
        (network("", link, "kind = \"cbr\"\nfrom = \"a\"", ""), &["W011"]),
        (network("", link, &from("c"), ""), &["W331"]),
        (network("", link, &from("a"), ""), &["W333"]),
        (network("", link, &from("d"), "[[node]]\nname = \"d\"\n"), &["W333"]),
        (network("", "", source, ""), &["W011"]),
        (network("", &wire("policy = \"p.toml\""), source, ""), &["W305"]),
        (network("", &wire("queue = \"0 packets\""), source, ""), &["W015"]),
        (network("", &wire("queue = \"0 B\""), source, ""), &["W015"]),
        (network("", &wire("queue = \"64 KiB\""), source, ""), &[]),
        (network("", &wire("mtu = \"60 B\""), source, ""), &["W015"]),
        (network("", &wire("framing = \"aal\""), source, ""), &["W016"]),
        (network("", &wire("pvc_rate_is = \"ip\""), source, ""), &["W310"]),
        (network("", &wire("framing = \"atm\"\npvc_rate_is = \"ip\""), source, ""), &[]),
        (network("", &wire("delay = \"-1 ms\""), source, ""), &["W013"]),
        (network("", &wire("driver = { model = \"en\", ring = 5 }"), source, ""), &["W010"]),
        (network("", &wire("driver = { model = \"fxp\", ring = 0 }"), source, ""), &["W015"]),
        (network("", &wire("driver = { drain = true }"), source, ""), &["W011"]),
        (network("", &wire("tick = \"0 Hz\""), source, ""), &["W017"]),
        (network("", &wire("tick = \"100 Hz\"\nback = { rate = \"5 kbit/s\" }"), source, ""), &[]),
        (network("", &wire("back = { speed = 5 }"), source, ""), &["W010"]),
        (network("cpu = { base = \"1 us\", queue = \"0 packets\" }", link, source, ""), &["W015"]),
        (network("address = \"here\"", link, source, ""), &["W017"]),
        (network("", link, source, "[[tap]]\nlink = \"no\"\n"), &["W332"]),
        (network("", link, source, "[[tap]]\nlink = \"in\"\nfrom = \"b\"\n"), &["W331"]),
        (network("", link, source, "[[tap]]\nlink = \"in\"\npoint = \"air\"\n"), &["W016"]),
        (network("", link, source, &change("link = \"out\"")), &[]),
        (network("", link, source, &change("link = \"no\"")), &["W332"]),
        (network("", link, source, &change("")), &["W011"]),
        // What is before the start.
        (network("", link, &also("start = \"-1 s\""), ""), &["W013"]),
        (network("", link, &also("stop = \"-1 ms\""), ""), &["W013"]),
        (network("", link, &also("start = \"2 ms\"\nstop = \"1 ms\""), ""), &["W308"]),
        (change_at("-1 ms"), &["W013"]),
        (change_at("0 s"), &["W313"]),
        (change_at("1 s"), &["W313"]),
        (network("", link, &also("class = \"rest\""), ""), &[]),
        (network("", link, &also("class = \"wed\""), ""), &["W339"]),
        (network("", link, &also("class = \"web\""), ""), &["W340"]),
        (network("", &wire("mtu = \"576 B\""), &also("src = \"::1\""), ""), &["W338"]),
        (
            format!("delay = \"1 s\"\npolicy = \"p.toml\"\n{}", network("", link, source, "")),
            &["W337", "W337"],
        ),
    ];
    for (text, codes) in rows {
        check_found(&text, codes);
    }
    // Keys of a connection that only one link has, and what TCP cannot do.
    let tcp = |more: &str| {
        let text =
            network("", link, source, "").replace("size = \"99 B\"\ninterval = \"1 ms\"\n", "");
        text.replace("kind = \"cbr\"", &format!("kind = \"tcp\"\n{more}"))
    };
    check_found(&tcp(""), &[]);
    check_found(&tcp("window = \"0 B\""), &["W015"]);
    check_found(&tcp("return_delay = \"1 s\""), &["W010"]);
    check_found(&tcp("mss = \"sysv\""), &["W016"]);
    // A class is checked on one link, too.
    let cbr = "kind = \"cbr\"\nsize = \"99 B\"\ninterval = \"1 ms\"\n";
    check(HEAD, &format!("{cbr}class = \"rest\""), &[]);
    check(HEAD, &format!("{cbr}class = \"rust\""), &["W339"]);
    check(HEAD, &format!("{cbr}class = \"web\""), &["W340"]);
}

#[test]
fn the_examples_are_sound_and_keep_their_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/sim");
    let mut names: Vec<_> = folder
        .read_dir()
        .expect("the examples are in the repository")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    names.sort();
    assert!(names.len() >= 2);
    for path in names {
        let bytes = std::fs::read(&path).expect("it can be read");
        let outcome = read::parse(&bytes, &path.display().to_string(), &|path| std::fs::read(path));
        assert_eq!(outcome.findings, [], "{}", path.display());
        let scenario = outcome.plan.expect("nothing was found");
        let report = weir_sim::run(&scenario, &mut |_| {}).expect("it is sound");
        assert!(report.conservation.holds, "{report}");
    }
}

#[test]
fn hashed_queues_keep_a_flood_to_its_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/sim/altq-wfq.toml");
    let bytes = std::fs::read(&path).expect("it can be read");
    let outcome = read::parse(&bytes, &path.display().to_string(), &|path| std::fs::read(path));
    let scenario = outcome.plan.expect("the examples are sound");
    let report = weir_sim::run(&scenario, &mut |_| {}).expect("it is sound");
    assert_eq!(report.classes.len(), 256);
    // The exclusive or of the bytes of each destination, and whether packets are lost.
    let rows = [
        ("flood", "host-11", true),
        ("call", "host-8", false),
        ("page", "host-9", false),
        ("unlucky", "host-11", true),
    ];
    for (name, class, loses) in rows {
        let source = report.source(name).expect("the example has it");
        let class = (source.class.as_str() == class).then(|| report.class(class)).flatten();
        let class = class.unwrap_or_else(|| panic!("{name} goes to {}", source.class));
        assert_eq!(class.dropped.total.packets > 0, loses, "{name}");
        assert!(class.sent.packets > 0, "{name}");
    }
    let idle = report.classes.iter().filter(|class| class.offered.packets == 0).count();
    assert_eq!(idle, 253);
}

#[test]
fn hostile_bytes_never_panic() {
    let one = format!("{HEAD}[[source]]\nname = \"x\"\nkind = \"tcp\"\nbytes = \"1 KB\"\n");
    for text in [&one, include_str!("../../../fuzz/corpus/scenario/network.seed")] {
        check_hostile(text.as_bytes());
    }
}

fn check_hostile(bytes: &[u8]) {
    for at in 0..bytes.len() {
        let no_file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        read::parse(&bytes[..at], "s.toml", &no_file);
        let mut changed = bytes.to_vec();
        for byte in [0, b'"', b'[', b'9', 0xff] {
            changed[at] = byte;
            read::parse(&changed, "s.toml", &no_file);
        }
    }
}
