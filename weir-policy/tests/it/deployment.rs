//! Findings in deployments and in the policies that they name.

use std::io;
use std::path::Path;
use weir_core::units::{Bytes, Duration, Rate};
use weir_policy::deployment::{
    Bridge, Carrier, Deployment, Excess, NeighbourLimit, OnExit, Patience, Priority, Restart,
    Service, Side, Wait, Webhook, is_deployment, parse, parse_outline,
};
use weir_policy::finding::Outcome;

const POLICY: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n\
                      [class.a]\nmatch = { interface = 'in' }\n[class.b]\ndefault = true\n";
const PLAIN: &str = "[link]\nrate = '100 Mbit/s'\nscheduler = 'fifo'\n[class.a]\ndefault = true\n";
const DEEP: &str = "[link]\nrate = '1 Gbit/s'\nscheduler = 'drr'\n[class.a]\n\
                    match = { interface = 'in' }\nqueue = { dropper = 'longest', limit = '62500 B' }\n\
                    [class.b]\ndefault = true\nqueue = { limit = '20000 packets' }\n";
const HEAD: &str = "[deployment]\nports = { in = 'eth0', out = 'eth1' }\n";
const WAYS: &str = "[direction.up]\nfrom = 'in'\nto = 'out'\npolicy = 'p.toml'\n\
                    [direction.down]\nfrom = 'out'\nto = 'in'\npolicy = 'p.toml'\n";

const PLACES: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n[class.reserved]\n\
                      rate = '9 Mbit/s'\nplaces = { count = 100, ceil = '9 Mbit/s' }\n\
                      [class.signals]\nparent = 'reserved'\nrate = '100 kbit/s'\n\
                      match = { proto = 'udp' }\n\
                      [class.rest]\nrate = '1 Mbit/s'\ndefault = true\n";

/// A policy whose template reads a list with a wrong row.
const LISTED: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n\
                      [class.rest]\nrate = '1 Mbit/s'\ndefault = true\n\
                      [template.row]\nlist = 'list.csv'\nname = '{id}'\nclass.rate = '{rate}'\n\
                      class.match = { dport = 80 }\n";

/// The folder `site` holds sound policies, a faulty one `bad.toml`, and one with a rule on a mark.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("site/p.toml") => Ok(POLICY.into()),
        Some("site/bad.toml") => Ok(POLICY.replace("drr", "dr").into()),
        Some("site/plain.toml") => Ok(PLAIN.into()),
        Some("site/follows.toml") => {
            Ok(PLAIN.replacen("[link]", "[link]\nfollows_arrivals = true", 1).into())
        }
        Some("site/halves.toml") => Ok("[link]\nrate = '8 Mbit/s'\nscheduler = 'htb'\n\
            [class.voice]\nrate = '2 Mbit/s'\narrival = { rate = '1 Mbit/s', burst = '6 KB' }\n\
            match = { dport = 7 }\n[class.rest]\nrate = '6 Mbit/s'\ndefault = true\n"
            .into()),
        Some("site/slow.toml") => Ok(PLAIN.replace("100 Mbit/s", "100 kbit/s").into()),
        Some("site/priority.toml") => {
            Ok(POLICY.replace("drr", "priq").replace("default", "priority = 1\ndefault").into())
        }
        Some("site/deep.toml") => Ok(DEEP.into()),
        Some("site/places.toml") => Ok(PLACES.into()),
        Some("site/curves.toml") => Ok(PLACES
            .replace("htb", "hfsc")
            .replace("ceil = '9 Mbit/s'", "rate = '1 kbit/s'")
            .into()),
        Some("site/capped.toml") => Ok(PLACES
            .replace("htb", "hfsc")
            .replace("ceil = '9 Mbit/s'", "rate = '1 kbit/s', ul_m2 = '9 Mbit/s'")
            .into()),
        Some("site/equal.toml") => Ok("[link]\nrate = '9 Mbit/s'\nscheduler = 'drr'\nplaces = 9\n\
                                       [class.reserved]\ndefault = true\n"
            .into()),
        Some("site/up.toml" | "site/down.toml") => Ok(LISTED.into()),
        Some("site/list.csv") => Ok("id,rate\na,1 Mbit/s\nb,many\n".into()),
        Some("site/by-source.toml") => told_apart("isolate = 'flows within srcaddr'"),
        Some("site/by-destination.toml") => {
            told_apart("queue = { dropper = 'sfq', hash = 'dstaddr' }")
        }
        Some("site/cake.toml") => told_apart("queue = { dropper = 'cake' }"),
        Some("site/dual.toml") => told_apart("queue = { dropper = 'cake', hash = 'dual-srchost' }"),
        Some("site/marked.toml") => Ok(POLICY.replace("interface = 'in'", "mark = 5").into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns a policy whose only class tells hosts apart by this line.
fn told_apart(line: &str) -> io::Result<Vec<u8>> {
    Ok(format!("{PLAIN}{line}\n").into())
}

/// Checks that a deployment parses to the same without its policies, but for the parts that these
/// give, and that it fails only where the whole fails.
fn check_outline(text: &str, outcome: &Outcome<Deployment>) {
    let outline = parse_outline(text.as_bytes(), "site/d.toml");
    assert!(!outline.failed() || outcome.failed(), "{text}: {:?}", outline.findings);
    let Some(mut whole) = outcome.plan.clone() else { return };
    whole.directions.clear();
    whole.bridges.iter_mut().for_each(|bridge| bridge.directions.clear());
    whole.alarms.iter_mut().for_each(|alarm| alarm.watches.clear());
    assert_eq!(outline.plan, Some(whole), "{text}");
}

fn check(text: &str, wanted: &[&str]) -> Outcome<Deployment> {
    let outcome = parse(text.as_bytes(), "site/d.toml", &read_file);
    check_outline(text, &outcome);
    let row = |finding: &weir_policy::Finding| {
        let place = &finding.place;
        let file = place.file.trim_start_matches("site/").trim_end_matches(".toml");
        format!("{}@{file}:{}:{}", finding.code, place.line, place.column)
    };
    let rows: Vec<_> = outcome.findings.iter().map(row).collect();
    assert_eq!(rows, wanted, "{text}\n{:#?}", outcome.findings);
    assert_eq!(outcome.plan.is_some(), !outcome.failed());
    outcome
}

#[test]
fn a_valid_deployment_has_two_directions_with_their_policies() {
    let options = "name = 'home'\nwait = 'spin'\ncpu = 3\ncontrol = '/run/x'\nlag_max = '50 ms'\n\
                   pool = '1000 packets'\nreceive_ring = '9000 packets'\n";
    let deployment = check(&format!("{HEAD}{options}{WAYS}"), &[]).plan.expect("it is sound");
    assert_eq!(deployment.name, "home");
    assert_eq!((deployment.wait, deployment.pool), (Wait::Spin, 1000));
    assert_eq!(deployment.receive_ring, 9000);
    let bridge = Bridge { ports: vec![0, 1], directions: vec![0, 1], cpu: Some(3) };
    assert_eq!(deployment.bridges, [bridge]);
    assert_eq!(deployment.lag_max, Duration::from_millis(50));
    let ways: Vec<_> = deployment.directions.iter().map(|way| (way.from.clone(), way.to)).collect();
    assert_eq!(ways, [(vec![0], 1), (vec![1], 0)]);
    assert_eq!(deployment.directions[0].policy.interfaces, ["in", "out"]);
    let bare = check(&format!("{HEAD}{WAYS}"), &[]).plan.expect("it is sound");
    assert_eq!((bare.name.as_str(), bare.wait, bare.bridges[0].cpu), ("d", Wait::Hybrid, None));
    assert_eq!((bare.lag_max, bare.pool), (Duration::from_millis(100), 8192));
    assert_eq!(bare.receive_ring, 2048);
    assert_eq!((bare.nice, bare.carrier, bare.take), (None, Carrier::Keep, false));
}

#[test]
fn an_outline_names_no_policy_and_knows_all_that_needs_privileges() {
    let text = format!(
        "{HEAD}nice = 5\ncpu = 2\non_exit = 'open'\n[deployment.alarm.slow]\n\
         when = 'nowhere.delay.p99 > 10 ms'\nrun = ['/bin/page']\n\
         [direction.up]\nfrom = 'in'\nto = 'out'\npolicy = 'bad.toml'\n\
         [direction.down]\nfrom = 'out'\nto = 'in'\npolicy = 'absent.toml'\n"
    );
    assert!(parse(text.as_bytes(), "site/d.toml", &read_file).failed());
    let outline = parse_outline(text.as_bytes(), "site/d.toml");
    let plan = outline.plan.unwrap_or_else(|| panic!("{:?}", outline.findings));
    assert_eq!((plan.nice, plan.bridges[0].cpu), (Some(5), Some(2)));
    assert_eq!(plan.service.on_exit, OnExit::Open);
    assert_eq!(
        (plan.alarms[0].run.as_slice(), plan.alarms[0].watches.len()),
        (&["/bin/page".to_owned()][..], 0)
    );
    assert!(plan.directions.is_empty());
    let wrong = text.replace("to = 'out'", "to = 'outside'");
    assert!(parse_outline(wrong.as_bytes(), "site/d.toml").failed());
}

#[test]
fn findings_point_into_the_deployment_or_the_policy() {
    let sound = format!("{HEAD}{WAYS}");
    let rows: &[(&str, &str, &[&str])] = &[
        ("'eth1'", "'eth0'", &["W202@d:2:30"]),
        ("'eth1'", "'a/b'", &["W017@d:2:30"]),
        ("[direction.up]", "name = '../x'\n[direction.up]", &["W017@d:3:8"]),
        ("[direction.up]", "name = '.x'\n[direction.up]", &["W017@d:3:8"]),
        ("[direction.up]", "name = 'a b'\n[direction.up]", &["W017@d:3:8"]),
        ("out = 'eth1'", "out = 'eth1', \"\\u001b[31m\" = 'eth2'", &["W017@d:2:38"]),
        ("[direction.up]", "[direction.\"\\u001b[31mred\"]", &["W017@d:3:12"]),
        ("[direction.up]", "[direction.\"\"]", &["W017@d:3:12"]),
        ("[direction.up]", "control = \"x\\u0000\"\n[direction.up]", &["W017@d:3:11"]),
        ("'eth1'", "'eth1', x = 'eth2'", &["W207@d:2:38"]),
        ("to = 'out'", "to = 'on'", &["W203@d:5:6"]),
        ("to = 'out'", "to = 'in'", &["W205@d:5:6"]),
        (
            "[direction.up]\nfrom = 'in'\nto = 'out'",
            "[direction.up]\nfrom = 'out'\nto = 'in'",
            &["W205@d:7:12"],
        ),
        ("from = 'in'", "", &["W011@d:3:12"]),
        ("[direction.up]", "[direction.x]\n[direction.up]", &["W011@d:3:12"; 3]),
        ("policy = 'p.toml'\n[", "policy = 'q.toml'\n[", &["W004@d:6:10"]),
        ("policy = 'p.toml'\n[", "policy = 'bad.toml'\n[", &["W206@d:6:10", "W016@bad:3:13"]),
        ("policy = 'p.toml'\n[", "policy = 'marked.toml'\n[", &["W117@marked:5:18"]),
        ("[direction.up]", "lag_max = '1 us'\n[direction.up]", &["W015@d:3:11"]),
        ("[direction.up]", "pool = '1 packet'\n[direction.up]", &["W015@d:3:8"]),
        ("[direction.up]", "receive_ring = '70000 packets'\n[direction.up]", &["W015@d:3:16"]),
        ("[direction.up]", "wait = 'sleep'\n[direction.up]", &["W016@d:3:8"]),
        ("[direction.up]", "wat = 'spin'\n[direction.up]", &["W010@d:3:1"]),
        ("[direction.up]", "web = '127.0.0.1:0'\n[direction.up]", &["W017@d:3:7"]),
        ("[direction.up]", "web = '[::1]:8480'\n[direction.up]", &[]),
        ("[direction.up]", "web = '127.0.0.1'\n[direction.up]", &["W017@d:3:7"]),
        ("[direction.up]", "web = 8480\n[direction.up]", &["W012@d:3:7"]),
        ("[direction.up]", "web = '192.0.2.1:8480'\n[direction.up]", &["W017@d:3:7"]),
        (
            "[direction.up]",
            "web = '127.0.0.1:1'\n[deployment.api]\nlisten = '127.0.0.1:1'\ntoken_file = 't'\n\
             [direction.up]",
            &["W017@d:3:7"],
        ),
        (
            "in = 'eth0'",
            "inner = 'eth0'",
            &["W203@d:4:8", "W206@d:6:10", "W203@d:9:6", "W206@d:10:10", "W116@p:5:23"],
        ),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&sound.replacen(old, new, 1), wanted);
    }
    check(WAYS, &["W011@d:1:1"]);
}

/// The ports of four bridges, and what joins them.
const PORTS: &str = "[deployment]\nports = { a = 'e0', b = 'e1', c = 'e2', d = 'e3', e = 'e4' }\n";

fn way(name: &str, from: &str, to: &str) -> String {
    format!("[direction.{name}]\nfrom = {from}\nto = '{to}'\npolicy = 'plain.toml'\n")
}

#[test]
fn ports_that_directions_join_are_one_bridge() {
    // Ports and directions of each bridge.
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a [usize], &'a [usize])]);
    let rows: &[Row<'_>] = &[
        ("", &[("['a', 'b', 'c', 'd']", "e")], &[(&[0, 1, 2, 3, 4], &[0])]),
        (
            "",
            &[("'b'", "d"), ("'d'", "e"), ("'a'", "c")],
            &[(&[0, 2], &[2]), (&[1, 3, 4], &[0, 1])],
        ),
        (
            "",
            &[("'e'", "d"), ("'b'", "c"), ("'b'", "a"), ("'b'", "e")],
            &[(&[0, 1, 2, 3, 4], &[0, 1, 2, 3])],
        ),
        ("ports = { b = 'x', a = 'y' }", &[], &[(&[0, 1], &[])]),
        ("ports = { host = 'x' }", &[], &[(&[0, 1], &[])]),
        (
            "ports = { host = 'x' }",
            &[("'host'", "wire"), ("'wire'", "host")],
            &[(&[0, 1], &[0, 1])],
        ),
    ];
    for (ports, ways, wanted) in rows {
        let head = match *ports {
            "" => PORTS.to_owned(),
            ports => format!("[deployment]\n{ports}\n"),
        };
        let ways = ways.iter().enumerate().map(|(n, (from, to))| way(&format!("w{n}"), from, to));
        let text = head + &ways.collect::<String>();
        let bridges = check(&text, &[]).plan.expect("it is sound").bridges;
        let found: Vec<_> =
            bridges.iter().map(|row| (&row.ports[..], &row.directions[..])).collect();
        assert_eq!(found, *wanted, "{text}");
    }
}

#[test]
fn joins_that_make_no_bridge_are_reported() {
    let nine: String = ('a'..='i').map(|name| format!("{name} = 'e{name}', ")).collect();
    let nine = format!("[deployment]\nports = {{ {nine} }}\n");
    let rows: &[(String, &[&str])] = &[
        (way("x", "'a'", "b") + &way("y", "'c'", "d"), &["W207@d:2:51"]),
        (
            String::new(),
            &["W207@d:2:11", "W207@d:2:21", "W207@d:2:31", "W207@d:2:41", "W207@d:2:51"],
        ),
        (way("x", "[]", "b"), &["W017@d:4:8"]),
        (way("x", "['a', 'z']", "b"), &["W203@d:4:14"]),
        (way("x", "['a', 'a']", "b"), &["W205@d:4:14"]),
        (way("x", "['a', 'b']", "b"), &["W205@d:5:6"]),
        (way("x", "['a', 'b']", "c") + &way("y", "['d', 'b']", "c"), &["W205@d:7:12"]),
        (way("x", "['a', 'b']", "c") + &way("y", "['d', 'e']", "c"), &["W211@d:7:12"]),
    ];
    for (ways, wanted) in rows {
        check(&format!("{PORTS}{ways}"), wanted);
    }
    check("[deployment]\nports = {}\n", &["W201@d:2:1"]);
    check("[deployment]\nports = { inside = 'eth0' }\n", &["W201@d:2:1"]);
    let all = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(|name| format!("'{name}'")).join(", ");
    check(&(nine + &way("x", &format!("[{all}]"), "i")), &["W201@d:2:91"]);
    let many: String = (0..65).map(|n| way(&format!("w{n}"), "'a'", "b")).collect();
    check(&format!("{PORTS}{many}"), &["W204@d:3:2"]);
}

#[test]
fn options_of_ports_and_bridges_are_checked() {
    let sound = "[deployment]\nports = { in = 'eth0', out = { interface = 'eth1', kind = 'afxdp', \
                 delay = '25 ms', loss = '0.1 %', seed = 7 } }\ncpus = [2]\nnice = -5\n\
                 sojourn_max = '2 s'\ncarrier = 'pass'\ntake = true\n";
    let deployment = check(&format!("{sound}{WAYS}"), &[]).plan.expect("it is sound");
    let [inner, outer] = deployment.ports.as_slice() else { panic!("two ports are written") };
    assert_eq!(
        (inner.kind, inner.delay, inner.loss.ppb(), inner.seed),
        ("auto", Duration::ZERO, 0, 0)
    );
    assert_eq!((outer.kind, outer.delay), ("afxdp", Duration::from_millis(25)));
    assert_eq!((outer.loss.ppb(), outer.seed), (1_000_000, 7));
    assert_eq!((deployment.nice, deployment.carrier), (Some(-5), Carrier::Pass));
    assert!(deployment.take);
    assert_eq!(deployment.bridges[0].cpu, Some(2));
    let rows: &[(&str, &str, &[&str])] = &[
        ("interface = 'eth1', ", "", &["W011@d:2:24"]),
        ("'eth1'", "'eth0'", &["W202@d:2:30"]),
        ("'afxdp'", "'afxdp-generic'", &[]),
        ("'afxdp'", "'dpdk'", &["W016@d:2:59"]),
        ("'25 ms'", "'11 s'", &["W015@d:2:76"]),
        ("'0.1 %'", "'101 %'", &["W015@d:2:92"]),
        ("seed = 7", "sede = 7", &["W010@d:2:101"]),
        ("cpus = [2]", "cpus = [2, 3]", &["W208@d:3:8"]),
        ("cpus = [2]", "cpus = []", &["W208@d:3:8"]),
        ("cpus = [2]", "cpus = [4096]", &["W015@d:3:9"]),
        ("cpus = [2]", "cpus = [2]\ncpu = 2", &["W208@d:4:1"]),
        ("nice = -5", "nice = -21", &["W015@d:4:8"]),
        ("'2 s'", "'1 ms'", &["W015@d:5:15"]),
        ("'2 s'", "'2 h'", &["W015@d:5:15"]),
        ("'pass'", "'drop'", &["W016@d:6:11"]),
        ("take = true", "take = 'yes'", &["W012@d:7:8"]),
        ("take = true", "user = 'root'", &["W017@d:7:8"]),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&format!("{}{WAYS}", sound.replacen(old, new, 1)), wanted);
    }
}

#[test]
fn an_api_has_an_address_that_clients_can_know() {
    let rows: [(&str, &[&str]); 4] = [
        ("127.0.0.1:8480", &[]),
        ("127.0.0.1:0", &["W017@d:4:10"]),
        ("127.0.0.1", &["W017@d:4:10"]),
        ("192.0.2.1:8480", &["W017@d:4:10"]),
    ];
    for (listen, wanted) in rows {
        let api = format!("[deployment.api]\nlisten = '{listen}'\ntoken_file = 't'\n");
        check(&format!("{HEAD}{api}{WAYS}"), wanted);
    }
}

/// Rows have the keys of `[deployment]` and the findings.
#[test]
fn what_follows_a_death_is_checked() {
    let sound = format!(
        "{HEAD}on_exit = 'open'\ndrain = '1 s'\nrestart = 'never'\nwait_for_ports = 'forever'\n\
         watchdog = 'none'\nuser = 'weir'\npriority = 'realtime'\nlog = '/var/log/weir.log'\n\
         control_group = 'adm'\nring = '64 MiB'\n"
    );
    let service = check(&format!("{sound}{WAYS}"), &[]).plan.expect("it is sound").service;
    let wanted = Service {
        on_exit: OnExit::Open,
        drain: Duration::from_secs(1),
        restart: Restart::Never,
        wait_for_ports: Patience::Forever,
        watchdog: None,
        user: Some("weir".to_owned()),
        control_group: Some("adm".to_owned()),
        priority: Priority::Realtime,
        log: Some("/var/log/weir.log".into()),
        ring: Some(Bytes::new(64 << 20)),
    };
    assert_eq!(service, wanted);
    let near = format!("{}{WAYS}", sound.replace("/var/log/", ""));
    let near = check(&near, &[]).plan.expect("it is sound").service;
    assert_eq!(near.log, Some("site/weir.log".into()), "beside the deployment");
    let bare = check(&format!("{HEAD}{WAYS}"), &[]).plan.expect("it is sound").service;
    assert_eq!((bare.on_exit, bare.restart, bare.log), (OnExit::Closed, Restart::Always, None));
    assert_eq!(bare.watchdog, Some(Duration::from_secs(2)));
    let host = format!("[deployment]\nports = {{ host = 'e' }}\n{}", way("up", "'host'", "wire"));
    let host = check(&host, &[]).plan.expect("it is sound").service;
    assert_eq!(host.on_exit, OnExit::Open);
    let rows: &[(&str, &str, &[&str])] = &[
        ("'open'", "'opened'", &["W016@d:3:11"]),
        ("'1 s'", "'0 s'", &[]),
        ("'1 s'", "'11 s'", &["W015@d:4:9"]),
        ("'never'", "'sometimes'", &["W016@d:5:11"]),
        ("'forever'", "'0 s'", &[]),
        ("'forever'", "'25 h'", &["W015@d:6:18"]),
        ("'forever'", "'always'", &["W013@d:6:18"]),
        ("'none'", "'100 ms'", &["W015@d:7:12"]),
        ("'weir'", "'a b'", &["W017@d:8:8"]),
        ("'weir'", "'-x'", &["W017@d:8:8"]),
        ("'realtime'", "'idle'", &["W016@d:9:12"]),
        ("'realtime'", "'realtime'\nwait = 'spin'", &["W213@d:9:12"]),
        ("'/var/log/weir.log'", "\"\\u0007\"", &["W017@d:10:7"]),
        ("'adm'", "'a:b'", &["W017@d:11:17"]),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&format!("{}{WAYS}", sound.replacen(old, new, 1)), wanted);
    }
    let hub = way("x", "['a', 'b']", "c") + &way("y", "'d'", "e");
    check(&format!("{}{hub}", PORTS.replace("]\n", "]\non_exit = 'open'\n")), &["W212@d:2:11"]);
    check(&format!("{}{hub}", PORTS.replace("]\n", "]\non_exit = 'closed'\n")), &[]);
}

#[test]
fn alarms_watch_classes_that_exist() {
    let sound = format!(
        "{HEAD}{WAYS}[deployment.alarm.x]\nwhen = 'a.delay.p99 > 10 ms'\ndirection = 'down'\n\
         for = '5 s'\nrun = ['/bin/page', 'slow']\nwebhook = 'http://[::1]:8080/x?y'\n"
    );
    let alarms = check(&sound, &[]).plan.expect("it is sound").alarms;
    let [alarm] = alarms.as_slice() else { panic!("one is written") };
    assert_eq!((alarm.name.as_str(), alarm.when.as_str()), ("x", "a.delay.p99 > 10 ms"));
    assert_eq!((alarm.lasts, alarm.run.len()), (Duration::from_secs(5), 2));
    assert_eq!(alarm.watches.iter().map(|watch| watch.direction).collect::<Vec<_>>(), [1]);
    let hook = Webhook { host: "::1".to_owned(), port: 8080, path: "/x?y".to_owned() };
    assert_eq!(alarm.webhook, Some(hook));
    let all = check(&sound.replace("direction = 'down'\n", ""), &[]).plan.expect("it is sound");
    assert_eq!(all.alarms[0].watches.len(), 2, "each direction has the class");
    let rows: &[(&str, &str, &[&str])] = &[
        ("when = 'a.delay.p99 > 10 ms'\n", "", &["W011@d:11:19"]),
        ("> 10 ms", "> 10", &["W214@d:12:8"]),
        ("a.delay", "c.delay", &["W214@d:12:8"]),
        ("a.delay.p99 > 10 ms", "a.rate > 2 % of c.rate", &["W214@d:12:8"]),
        ("a.delay.p99 > 10 ms", "a.rate < 2 % of b.rate", &[]),
        ("a.delay.p99 > 10 ms", "fairness < 9 %", &["W214@d:12:8"]),
        ("'a.delay.p99 > 10 ms'", "7", &["W214@d:12:8"]),
        ("'down'", "'sideways'", &["W214@d:13:13"]),
        ("'5 s'", "'1 ms'", &["W015@d:14:7"]),
        ("['/bin/page', 'slow']", "[]", &["W017@d:15:7"]),
        ("'/bin/page'", "'page'", &["W017@d:15:8"]),
        ("['/bin/page', 'slow']", "'/bin/page'", &["W012@d:15:7"]),
        ("http:", "https:", &["W017@d:16:11"]),
        ("[::1]", "[::x]", &["W017@d:16:11"]),
        ("[::1]", "me@x", &["W017@d:16:11"]),
        ("8080", "0", &["W017@d:16:11"]),
        ("[::1]:8080/x?y", "", &["W017@d:16:11"]),
        ("[::1]:8080/x?y", "x.org", &[]),
        ("webhook", "hook", &["W010@d:16:1"]),
        ("alarm.x]", "alarm.\"\"]", &["W017@d:11:19"]),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&sound.replacen(old, new, 1), wanted);
    }
    let texts = [
        ("a.delay", "voise.delay", "direction `down` has no class `voise`"),
        (
            "a.delay.p99 > 10 ms'\ndirection = 'down'",
            "c.loss > 1 %'",
            "no direction has a class `c`",
        ),
        ("a.delay.p99 > 10 ms", "c.rate > 2 % of d.rate", "has none of the classes `c`, `d`"),
    ];
    for (old, new, wanted) in texts {
        let findings =
            parse(sound.replacen(old, new, 1).as_bytes(), "site/d.toml", &read_file).findings;
        assert!(findings.iter().any(|one| one.message.contains(wanted)), "{findings:?}");
    }
    let alarm = |n: usize| format!("[deployment.alarm.a{n}]\nwhen = 'a.loss > 1 %'\n");
    let many: String = (0..65).map(alarm).collect();
    check(&format!("{HEAD}{WAYS}{many}"), &["W018@d:11:13"]);
}

#[test]
fn reservations_have_a_class_with_places_where_a_router_sends() {
    let sound = "[deployment]\nports = { host = 'eth1' }\n[deployment.rsvp]\nclass = 'reserved'\n\
                 direction = 'out'\nexcess = 'police'\ndelay = '5 ms'\n\
                 neighbour = { rate = '3 Mbit/s', count = 20 }\npreemption = true\n\
                 refresh = '10 s'\nreduction = true\nsessions = 500\n\
                 interfaces = ['eth0', 'eth1']\nkey_file = 'keys'\n\
                 [direction.out]\nfrom = 'host'\nto = 'wire'\npolicy = 'places.toml'\n";
    let rsvp = check(sound, &[]).plan.and_then(|plan| plan.rsvp).expect("it is written");
    assert_eq!((rsvp.direction, rsvp.class.as_str()), (0, "reserved"));
    assert_eq!((rsvp.excess, rsvp.delay), (Excess::Police, Some(Duration::from_millis(5))));
    let limit = NeighbourLimit { rate: Rate::new(3_000_000), count: Some(20) };
    assert_eq!((rsvp.neighbour, rsvp.preemption), (limit, true));
    assert_eq!((rsvp.refresh, rsvp.reduction), (Duration::from_secs(10), true));
    assert_eq!((rsvp.sessions, rsvp.interfaces.len()), (500, 2));
    assert_eq!(rsvp.key_file.as_deref(), Some(Path::new("site/keys")));
    let rows: &[(&str, &str, &[&str])] = &[
        ("class = 'reserved'\n", "", &["W011@d:3:13"]),
        ("'reserved'", "'rest'", &["W215@d:4:9"]),
        ("'reserved'", "'nothing'", &["W215@d:4:9"]),
        ("'out'", "'in'", &["W215@d:5:13"]),
        ("direction = 'out'\n", "", &[]),
        ("'police'", "'drop'", &["W016@d:6:10"]),
        ("'5 ms'", "'5'", &["W013@d:7:9"]),
        ("'5 ms'", "'11 s'", &["W015@d:7:9"]),
        ("count = 20", "count = 0", &["W015@d:8:42"]),
        ("rate = '3", "speed = '3", &["W010@d:8:15"]),
        ("'10 s'", "'10 ms'", &["W015@d:10:11"]),
        ("['eth0', 'eth1']", "[]", &["W015@d:13:14"]),
        ("'eth0'", "'et/h0'", &["W017@d:13:15"]),
        ("places.toml", "curves.toml", &["W215@d:6:10"]),
        ("places.toml", "capped.toml", &[]),
        ("places.toml", "equal.toml", &["W215@d:4:9", "W215@d:4:9", "W215@d:6:10"]),
        ("from = 'host'\nto = 'wire'", "from = 'wire'\nto = 'host'", &["W215@d:5:13"]),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&sound.replacen(old, new, 1), wanted);
    }
    let bridge = format!("{HEAD}{WAYS}[deployment.rsvp]\nclass = 'a'\n");
    check(&bridge, &["W215@d:11:1"]);
    check(&sound.replace("class =", "address = '10.0.0.9'\nclass ="), &["W215@d:4:11"]);
    let least = "[deployment]\nports = { host = 'eth1' }\n[deployment.rsvp]\nclass = 'reserved'\n\
                 [direction.out]\nfrom = 'host'\nto = 'wire'\npolicy = 'curves.toml'\n";
    let rsvp = check(least, &[]).plan.and_then(|plan| plan.rsvp).expect("it is written");
    assert_eq!((rsvp.excess, rsvp.refresh), (Excess::BestEffort, Duration::from_secs(30)));
    assert_eq!(
        (rsvp.delay, rsvp.neighbour, rsvp.sessions),
        (None, NeighbourLimit::default(), 65_536)
    );
}

#[test]
fn a_bridge_with_an_address_takes_reservations_in_one_direction() {
    let sound = "[deployment]\nports = { a = 'eth0', b = 'eth1', c = 'eth2' }\n\
                 [deployment.rsvp]\naddress = '10.0.0.9'\nclass = 'reserved'\n\
                 direction = 'down'\n\
                 [direction.down]\nfrom = ['a', 'c']\nto = 'b'\npolicy = 'places.toml'\n\
                 [direction.up]\nfrom = 'b'\nto = 'a'\npolicy = 'places.toml'\n";
    let deployment = check(sound, &[]).plan.expect("it is sound");
    let (bridge, address) = deployment.rsvp_bridge().expect("it has an address");
    assert_eq!((bridge.ports.as_slice(), address.to_string()), (&[0, 1, 2][..], "10.0.0.9".into()));
    let rows: &[(&str, &str, &[&str])] = &[
        ("'10.0.0.9'", "'fd00::9'", &["W017@d:4:11"]),
        ("'10.0.0.9'", "'239.0.0.9'", &["W017@d:4:11"]),
        ("address = '10.0.0.9'\n", "", &["W215@d:5:13"]),
        ("direction = 'down'\n", "", &["W215@d:3:1"]),
        ("direction = 'down'", "direction = 'left'", &["W215@d:6:13"]),
        ("['a', 'c']", "'a'", &["W207@d:2:35"]),
        (
            "['a', 'c']\nto = 'b'",
            "'a'\nto = 'b'\npolicy = 'places.toml'\n[direction.side]\nfrom = 'c'\nto = 'a'",
            &["W215@d:3:1", "W211@d:15:12"],
        ),
        ("class =", "interfaces = ['eth0']\nclass =", &["W215@d:4:11"]),
        ("c = 'eth2'", "c = { interface = 'eth2', kind = 'afxdp' }", &["W215@d:3:1"]),
        ("'reserved'", "'rest'", &["W215@d:5:9"]),
    ];
    for (old, new, wanted) in rows {
        assert!(sound.contains(old), "{old}");
        check(&sound.replacen(old, new, 1), wanted);
    }
    assert_eq!(check(&sound.replace("address = '10.0.0.9'\n", ""), &["W215@d:5:13"]).plan, None);
}

#[test]
fn host_egress_has_two_ends_and_delays_what_leaves() {
    let ports = "[deployment]\nports = { host = { interface = 'eth0', delay = '9 ms' } }\n";
    let text = format!("{ports}{}", way("up", "'host'", "wire"));
    let deployment = check(&text, &[]).plan.expect("it is sound");
    let ends: Vec<_> =
        deployment.ports.iter().map(|port| (port.name.as_str(), port.side, port.delay)).collect();
    let delay = Duration::from_millis(9);
    assert_eq!(ends, [("host", Side::Host, Duration::ZERO), ("wire", Side::Wire, delay)]);
    assert_eq!(deployment.host_interface(), Some("eth0"));
    check(&text.replace("delay = '9 ms'", "kind = 'afxdp'"), &["W016@d:2:47"]);
    let named = "[deployment]\nports = { host = 'eth0', lan = 'eth1' }\n";
    let ports = check(named, &[]).plan.expect("it is sound").ports;
    assert!(ports.iter().all(|port| port.side == Side::Interface), "two cables");
}

#[test]
fn a_packet_is_stale_after_what_the_policy_bounds() {
    // The policy, what the deployment says, what the direction says, milliseconds. A full queue has
    // 100 packets of 1514 bytes; turns and rounding add less than a twentieth.
    let rows: &[(&str, &str, &str, Option<u64>)] = &[
        ("p.toml", "", "", Some(2_422)),
        ("slow.toml", "", "", Some(12_112)),
        ("plain.toml", "", "", Some(1000)),
        ("priority.toml", "", "", Some(2_422)),
        ("p.toml", "'none'", "", None),
        ("p.toml", "'none'", "'50 ms'", Some(50)),
        ("p.toml", "'50 ms'", "'none'", None),
    ];
    for (policy, all, own, wanted) in rows {
        let line = |value: &str| match value {
            "" => String::new(),
            value => format!("sojourn_max = {value}\n"),
        };
        let text = format!(
            "{HEAD}{}[direction.up]\nfrom = 'in'\nto = 'out'\npolicy = '{policy}'\n{}",
            line(all),
            line(own)
        );
        let direction = check(&text, &[]).plan.expect("it is sound").directions.remove(0);
        let found = direction.sojourn_max.iter().max().map(|time| time.as_nanos() / 1_000_000);
        let near = |(found, wanted): (u64, u64)| (wanted..=wanted + wanted / 20).contains(&found);
        let right = found.zip(*wanted).map_or(found == *wanted, near);
        assert!(right, "{policy} {all} {own}: {found:?}");
    }
}

#[test]
fn a_pool_below_the_limits_of_queues_is_reported_with_the_classes() {
    let text = |pool: &str, own: &str| {
        format!("{HEAD}{pool}[direction.up]\nfrom = 'in'\nto = 'out'\npolicy = 'deep.toml'\n{own}")
    };
    let outcome = check(&text("", ""), &["W209@d:6:10"]);
    let finding = &outcome.findings[0];
    let wanted = "direction `up`: its queues may hold 20125 packets, and its pool 8192: `b` 20000, \
                  `a` 125; while the pool is full, frames that arrive are shed (cause `pool`), and \
                  each class keeps only its reserve";
    assert_eq!(finding.message, wanted);
    let wanted = "write `pool = \"20125 packets\"` (up to 40 MiB with MTU 1500), or lower the \
                  limits of queues";
    assert_eq!(finding.cure, wanted);
    check(&text("pool = '20124 packets'\n", ""), &["W209@d:3:8"]);
    check(&text("", "pool = '100 packets'\n"), &["W209@d:7:8"]);
    check(&text("", "pool = '20125 packets'\n"), &[]);
    check(&text("", "pool = '131072 packets'\n"), &[]);
    check(&text("", "pool = '131073 packets'\n"), &["W210@d:7:8"]);
    check(&text("pool = '100 packets'\n", "pool = '20125 packets'\n"), &[]);
}

#[test]
fn code_points_come_from_one_of_two_ways() {
    let ways = |ways: &[(&str, &str, &str)]| {
        let way = |row: &(&str, &str, &str)| {
            let name = format!("{}{}", row.0, row.1).replace(['[', ']', '\'', ',', ' '], "");
            way(&name, row.0, row.1) + row.2
        };
        PORTS.to_owned() + &ways.iter().map(way).collect::<String>()
    };
    let (yes, no) = ("restore_dscp = true\n", "restore_dscp = false\n");
    let all = "['a', 'b', 'd', 'e']";
    for (directions, wanted) in [
        (&[(all, "c", yes)][..], &[][..]),
        (&[("'a'", "c", no), ("'c'", "a", yes), (all, "e", "")], &["W205@d:15:6"]),
        (&[("'a'", "c", yes), ("'c'", "a", yes), ("['b', 'd']", "e", "")], &["W221@d:12:16"]),
        (&[(all, "c", yes), ("'c'", "a", no), ("'c'", "b", yes)], &["W221@d:17:16"]),
        (&[("'a'", "c", yes), ("['b', 'd', 'e']", "a", yes)], &[]),
        (&[("'a'", "c", "restore_dscp = 'ef'\n")], &["W012@d:7:16"]),
    ] {
        let outcome = check(&ways(directions), wanted);
        let Some(plan) = outcome.plan else { continue };
        let restored: Vec<_> = plan.directions.iter().map(|way| way.restores_dscp).collect();
        let written: Vec<_> = directions.iter().map(|row| row.2 == yes).collect();
        assert_eq!(restored, written);
    }
    let two = ways(&[("'a'", "c", yes), ("'c'", "a", yes), ("['b', 'd']", "e", "")]);
    let message = "directions `ac` and `ca`, between `c` and `a`, take code points from each \
                   other: those of both ways would be exchanged";
    assert_eq!(check(&two, &["W221@d:12:16"]).findings[0].message, message);
}

/// A row has the queue, the ports, from where to where, and what is found.
#[test]
fn hosts_that_a_translation_made_one_are_told() {
    let host = "host = 'eth0'";
    let bridge = "host = 'eth0', wire = 'eth1'";
    let (bridge, up, down) =
        (bridge.replace("host =", "lan ="), ("host", "wire"), ("wire", "host"));
    let told: &[&str] = &["W220@d:7:10"];
    for (policy, ports, (from, to), wanted) in [
        ("by-source", host, up, told),
        ("by-source", host, down, &[]),
        ("by-destination", host, down, told),
        ("by-destination", host, up, &[]),
        ("cake", host, up, &[]),
        ("dual", host, up, told),
        ("by-source", &bridge, ("lan", "wire"), &[]),
    ] {
        let text = format!(
            "[deployment]\nports = {{ {ports} }}\npool = '20000 packets'\n[direction.x]\n\
             from = '{from}'\nto = '{to}'\npolicy = '{policy}.toml'\n"
        );
        check(&text, wanted);
    }
}

/// A row has the text in place of `ports`, the rest, the message, and how its cure begins.
#[test]
fn messages_name_the_value_and_its_limit() {
    let few = "is written, but a bridge joins at least two";
    let many: String = (0..65).map(|n| format!("p{n} = 'e{n}', ")).collect();
    let (fits, long) = ("x".repeat(107), "x".repeat(108));
    let control = |path: &str| format!("control = '{path}'\n");
    let two = "in = 'eth0', out = 'eth1'";
    let rows: &[(&str, String, &str, &str)] = &[
        ("", String::new(), &format!("no port {few}"), "write `ports = { inside"),
        ("a = 'e0'", String::new(), &format!("one port {few}"), "write `ports = { inside"),
        (
            &many,
            String::new(),
            "65 ports are written, but a deployment has at most 64",
            "write several deployments",
        ),
        (
            "host = 'e0', b = 'e1'",
            way("up", "'host'", "wire"),
            "`to` of direction `up`: there is no port `wire`; there are `host`, `b`",
            "for the traffic of this machine `host` must stand alone in `ports`",
        ),
        (
            two,
            "pool = '1 packets'\n".to_owned(),
            "`pool` of [deployment]: 1 packet is not between 64 and 1048576 packets",
            "leave it out for 8192 packets",
        ),
        (two, control(&fits), "", ""),
        (
            two,
            control(&long),
            "`control` of [deployment]: the path has 108 bytes, and that of a socket at most 107",
            "write a shorter path",
        ),
        (
            two,
            "control = \"a\\u0000b\"\n".to_owned(),
            "`control` of [deployment]: \"a\\0b\" has control characters",
            "write a path without them",
        ),
        (
            two,
            "[direction.\"\\u001b[31mred\"]\nfrom = 'in'\nto = 'out'\npolicy = 'plain.toml'\n"
                .to_owned(),
            "\"\\u{1b}[31mred\" is not a valid name of a direction",
            "use at least one character, and no control characters",
        ),
    ];
    for (ports, rest, message, cure) in rows {
        let text = format!("[deployment]\nports = {{ {ports} }}\n{rest}");
        let outcome = parse(text.as_bytes(), "site/d.toml", &read_file);
        check_outline(&text, &outcome);
        let first = outcome.findings.first();
        let found = first.map(|finding| (finding.message.as_str(), finding.cure.as_str()));
        let (said, cured) = found.unwrap_or_default();
        assert!(said == *message && cured.starts_with(cure), "{text}\n{:#?}", outcome.findings);
    }
}

#[test]
fn kinds_of_file_are_distinguished_by_their_tables() {
    for (keys, wanted) in [("deployment", true), ("direction", true), ("link", false)] {
        assert_eq!(is_deployment(&[keys.to_owned()]), wanted);
    }
}

#[test]
fn a_fault_in_a_list_that_two_directions_read_is_told_once() {
    let text =
        format!("{HEAD}{}", WAYS.replacen("p.toml", "up.toml", 1).replace("p.toml", "down.toml"));
    let outcome = parse(text.as_bytes(), "site/d.toml", &read_file);
    let of_list = outcome.findings.iter().filter(|one| one.place.file == "site/list.csv");
    let lines: Vec<_> = of_list.map(|finding| finding.place.line).collect();
    assert_eq!(lines, [3], "{:#?}", outcome.findings);
}

#[test]
fn hosts_that_are_asked_are_a_few_and_the_same_for_a_modem() {
    let varies = |probes: &str| {
        format!("min = '1 Mbit/s'\nbase = '2 Mbit/s'\nmax = '3 Mbit/s'\nprobes = [{probes}]\n")
    };
    let both = |up: &str, down: &str| {
        let up = format!("[direction.up.autorate]\n{}", varies(up));
        let down = format!("[direction.down.autorate]\n{}", varies(down));
        format!("{HEAD}{WAYS}{up}{down}")
    };
    let three = "'192.0.2.1', '192.0.2.2', '192.0.2.3'";
    let others = "'192.0.2.1', '192.0.2.2', '192.0.2.4'";
    let outcome = check(&both(three, three), &[]);
    let ports = outcome.plan.expect("it has no errors").ports;
    assert_eq!(ports.iter().map(|port| port.reflectors.len()).collect::<Vec<_>>(), [0, 3]);
    let sixes = "'2001:db8::1', '192.0.2.2', '2001:db8::3'";
    check(&both(sixes, sixes), &[]);
    for near in
        ["fe80::1", "127.0.0.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "ff02::1"]
    {
        let probes = format!("'{near}', '192.0.2.2', '192.0.2.3'");
        check(&both(&probes, &probes), &["W218@d:15:11", "W218@d:20:11"]);
    }
    check(&both(three, others), &["W218@d:16:17"]);
    check(&both("'192.0.2.1', '192.0.2.2'", three), &["W218@d:15:10", "W218@d:16:17"]);
    check(&both("'192.0.2.1', '192.0.2.1', '192.0.2.3'", three), &["W218@d:15:24", "W218@d:16:17"]);
}

#[test]
fn one_rule_sets_the_rate_of_a_direction() {
    let varies = "[direction.up.autorate]\nmin = '1 Mbit/s'\nbase = '2 Mbit/s'\nmax = '3 Mbit/s'\n";
    let follows = WAYS.replacen("p.toml", "follows.toml", 1);
    check(&format!("{HEAD}{WAYS}{varies}"), &[]);
    check(&format!("{HEAD}{follows}"), &[]);
    check(&format!("{HEAD}{follows}{varies}"), &["W218@d:11:15"]);
}

#[test]
fn a_class_is_told_what_it_gets_at_the_least_rate() {
    let ways = WAYS.replacen("p.toml", "halves.toml", 1);
    let at = |min: &str| {
        format!(
            "{HEAD}{ways}[direction.up.autorate]\nmin = '{min}'\nbase = '8 Mbit/s'\n\
             max = '9 Mbit/s'\n"
        )
    };
    check(&at("4 Mbit/s"), &[]);
    let found = check(&at("2 Mbit/s"), &["W219@d:11:15"]).findings;
    assert!(found[0].message.contains("gets 500 kbit/s of its 1 Mbit/s"), "{}", found[0].message);
}
