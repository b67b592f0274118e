//! Findings in deployments and in the policies that they name.

use std::io;
use std::path::Path;
use weir_core::units::Duration;
use weir_policy::deployment::{Bridge, Carrier, Deployment, Wait, is_deployment, parse};
use weir_policy::finding::Outcome;

const POLICY: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n\
                      [class.a]\nmatch = { interface = 'in' }\n[class.b]\ndefault = true\n";
const HEAD: &str = "[deployment]\nports = { in = 'eth0', out = 'eth1' }\n";
const WAYS: &str = "[direction.up]\nfrom = 'in'\nto = 'out'\npolicy = 'p.toml'\n\
                    [direction.down]\nfrom = 'out'\nto = 'in'\npolicy = 'p.toml'\n";

/// The folder `site` holds a sound policy `p.toml` a faulty one `bad.toml`, and
/// one with a rule on a mark.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("site/p.toml") => Ok(POLICY.into()),
        Some("site/bad.toml") => Ok(POLICY.replace("drr", "dr").into()),
        Some("site/marked.toml") => Ok(POLICY.replace("interface = 'in'", "mark = 5").into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn check(text: &str, wanted: &[&str]) -> Outcome<Deployment> {
    let outcome = parse(text.as_bytes(), "site/d.toml", &read_file);
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
                   pool = '1000 packets'\n";
    let deployment = check(&format!("{HEAD}{options}{WAYS}"), &[]).plan.expect("it is sound");
    assert_eq!(deployment.name, "home");
    assert_eq!((deployment.wait, deployment.pool), (Wait::Spin, 1000));
    let bridge = Bridge { ports: vec![0, 1], directions: vec![0, 1], cpu: Some(3) };
    assert_eq!(deployment.bridges, [bridge]);
    assert_eq!(deployment.lag_max, Duration::from_millis(50));
    let ways: Vec<_> = deployment.directions.iter().map(|way| (way.from.clone(), way.to)).collect();
    assert_eq!(ways, [(vec![0], 1), (vec![1], 0)]);
    assert_eq!(deployment.directions[0].policy.interfaces, ["in", "out"]);
    let bare = check(&format!("{HEAD}{WAYS}"), &[]).plan.expect("it is sound");
    assert_eq!((bare.name.as_str(), bare.wait, bare.bridges[0].cpu), ("d", Wait::Hybrid, None));
    assert_eq!((bare.lag_max, bare.pool), (Duration::from_millis(100), 8192));
    assert_eq!((bare.nice, bare.carrier, bare.take), (None, Carrier::Keep, false));
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
        ("[direction.up]", "wait = 'sleep'\n[direction.up]", &["W016@d:3:8"]),
        ("[direction.up]", "wat = 'spin'\n[direction.up]", &["W010@d:3:1"]),
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

#[test]
fn kinds_of_file_are_distinguished_by_their_tables() {
    for (keys, wanted) in [("deployment", true), ("direction", true), ("link", false)] {
        assert_eq!(is_deployment(&[keys.to_owned()]), wanted);
    }
}
