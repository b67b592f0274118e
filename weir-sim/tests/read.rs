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
        ack_delay = \"0 s\"\nreturn_delay = \"4 ms\"\n"
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
    assert_eq!((tcp.congestion, tcp.window), (Congestion::Reno, Bytes::new(32 << 10)));
    assert_eq!((tcp.mtu.get(), tcp.ack_delay), (576, None));
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
    let rows: [(String, &[&str]); 27] = [
        (cbr(""), &[]),
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
fn hostile_bytes_never_panic() {
    let text = format!("{HEAD}[[source]]\nname = \"x\"\nkind = \"tcp\"\nbytes = \"1 KB\"\n");
    let bytes = text.as_bytes();
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
