//! Templates: which classes a list makes, and where findings about them point.

use weir_policy::deployment;
use weir_policy::finding::{Finding, Outcome, Place};
use weir_policy::policy::{Policy, parse, parse_bytes};

/// A policy with two access points, whose template reads `list`.
fn policy(list: &str, template: &str) -> String {
    format!(
        "[link]\nrate = '1 Gbit/s'\nscheduler = 'htb'\n[class.AP-1]\nrate = '400 Mbit/s'\n\
         [class.AP-2]\nrate = '400 Mbit/s'\n[class.rest]\nrate = '9 Mbit/s'\ndefault = true\n\
         [plan.gold]\nrate = '20 Mbit/s'\nceil = '90 Mbit/s'\n\
         [plan.silver]\nrate = '5 Mbit/s'\nceil = '50 Mbit/s'\n\
         [template.row]\nlist = {list}\n{template}"
    )
}

const TEMPLATE: &str = "name = '{id}'\nclass.parent = '{ap}'\nclass.rate = '{plan.rate}'\n\
                        class.ceil = '{plan.ceil}'\nclass.match = [{ dst = ['{v4}', '{v6}'] }]\n";

fn read(name: &str, list: &[u8], template: &str) -> Outcome<Policy> {
    let text = policy(&format!("'{name}'"), template);
    let read_file = |path: &std::path::Path| {
        assert_eq!(path.to_str(), Some(format!("isp/{name}").as_str()));
        Ok(list.to_vec())
    };
    parse_bytes(text.as_bytes(), "isp/policy.toml", None, &read_file)
}

/// Returns the classes that are not written, as `name<parent rate ceil: prefixes`.
fn classes(policy: &Policy) -> Vec<String> {
    let tree = &policy.link.tree;
    let row = |(id, class): (_, &weir_core::tree::ClassSpec)| {
        let parent = class.parent.map(|parent| tree.class(parent).name.as_str());
        let rate = |name| class.params.rate(name).map_or(String::new(), |rate| rate.to_string());
        let own = |rule: &&weir_core::classify::Rule| Some(rule.leaf) == tree.leaf_of(id);
        let prefixes = policy.rules.iter().filter(own).flat_map(|rule| &rule.matches.destinations);
        let prefixes: Vec<_> = prefixes.map(ToString::to_string).collect();
        let (rate, ceil) = (rate("rate"), rate("ceil"));
        format!("{}<{} {rate} {ceil}: {}", class.name, parent.unwrap_or("-"), prefixes.join(" "))
    };
    tree.classes().filter(|(_, class)| !WRITTEN.contains(&class.name.as_str())).map(row).collect()
}

const WRITTEN: [&str; 3] = ["AP-1", "AP-2", "rest"];

fn check_classes(name: &str, list: &str, template: &str, wanted: &[&str]) {
    let outcome = read(name, list.as_bytes(), template);
    assert!(outcome.findings.is_empty(), "{list}: {:#?}", outcome.findings);
    assert_eq!(classes(&outcome.plan.expect("it has no errors")), wanted, "{list}");
}

#[test]
fn each_row_makes_a_class() {
    let anna = "anna<AP-1 20 Mbit/s 90 Mbit/s: 192.0.2.1/32 2001:db8::/56";
    let ben = "ben<AP-2 5 Mbit/s 50 Mbit/s: 192.0.2.2/32 192.0.2.4/31";
    let rows = [
        (
            "l.csv",
            "id,ap,plan,v4,v6\nanna,AP 1,gold,192.0.2.1,2001:db8::/56\n\
                   ben,AP 2,silver,\"192.0.2.2, 192.0.2.4/31\",\n",
        ),
        (
            "l.csv",
            "\u{feff}# title\r\nv6;v4;plan;ap;id;note\r\n\
                   2001:db8::/56;192.0.2.1;gold;AP-1;anna;\"5\"\" dish\"\r\n\r\n\
                   ;192.0.2.2 192.0.2.4/31;silver;AP-2;ben;;\r\n;;;;;\r\n",
        ),
        (
            "l.toml",
            "[[row]]\nid = 'anna'\nap = 'AP-1'\nplan = 'gold'\nv4 = '192.0.2.1'\n\
                    v6 = '2001:db8::/56'\n[[row]]\nid = 'ben'\nap = 'AP-2'\nplan = 'silver'\n\
                    v4 = ['192.0.2.2', '192.0.2.4/31']\n",
        ),
    ];
    for (name, list) in rows {
        check_classes(name, list, TEMPLATE, &[anna, ben]);
    }
}

/// The columns of LibreQoS's ShapedDevices.csv.
#[test]
fn shaped_devices_are_a_list() {
    let list = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
                Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n\
                7,\"9 Oak St., Elm\",1,Device 1,AP 2,,\"100.64.0.1, 100.64.0.2\",,25,5,155,20,\n";
    let template = "name = 'circuit-{Circuit ID}'\nclass.parent = '{Parent Node}'\n\
                    class.rate = '{Download Min Mbps} Mbit/s'\n\
                    class.ceil = '{Download Max Mbps} Mbit/s'\n\
                    class.match = [{ dst = ['{IPv4}', '{IPv6}'] }]\n\
                    [template.plans]\nlist = [{ plan = 'gold' }, { plan = 'silver' }]\n\
                    name = 'p-{plan}'\nclass.parent = 'AP-2'\nclass.rate = '{plan.rate}'\n\
                    class.ceil = '{plan.ceil}'\nclass.match = { vlan = 1 }\n";
    // Two columns were added to the header, and not to the rows.
    let newer = list.replace("Parent Node,MAC", "Parent Node,Parent Node ID,Anchor Node ID,MAC");
    for list in [list, &newer] {
        check_circuits(list, template);
    }
}

fn check_circuits(list: &str, template: &str) {
    let outcome = read("l.csv", list.as_bytes(), template);
    assert_eq!(
        codes(&outcome),
        ["W120 isp/policy.toml:4", "W121 isp/policy.toml:30"],
        "{:#?}",
        outcome.findings
    );
    let classes = classes(&outcome.plan.expect("it has no errors"));
    assert_eq!(classes[0], "circuit-7<AP-2 25 Mbit/s 155 Mbit/s: 100.64.0.1/32 100.64.0.2/32");
    assert_eq!(classes[1], "p-gold<AP-2 20 Mbit/s 90 Mbit/s: ");
}

#[test]
fn templates_may_make_all_classes() {
    let rows: [(&str, &[&str]); 3] = [
        ("[{ id = 'a', on = true }, { id = 'b', on = false }]", &["W120 policy.toml:5"]),
        ("[]", &["W160 policy.toml:5"]),
        ("'l.csv'", &["W004 policy.toml:5"]),
    ];
    for (list, wanted) in rows {
        let text = format!(
            "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[template.row]\nlist = {list}\n\
             name = '{{id}}'\nclass.default = '{{on}}'\n"
        );
        let outcome = parse(&text, "policy.toml");
        assert_eq!(codes(&outcome), wanted, "{list}: {:#?}", outcome.findings);
    }
}

#[test]
fn rows_of_one_name_join_their_rules() {
    let list = "id,ap,plan,v4,v6\nanna,AP-1,gold,192.0.2.1,\nben,AP-2,silver,192.0.2.2,\n\
                anna,AP-1,gold,192.0.2.3,fe80::/64\n";
    let anna = "anna<AP-1 20 Mbit/s 90 Mbit/s: 192.0.2.1/32 192.0.2.3/32 fe80::/64";
    let ben = "ben<AP-2 5 Mbit/s 50 Mbit/s: 192.0.2.2/32";
    let joined = format!("join = true\n{TEMPLATE}");
    check_classes("l.csv", list, &joined, &[anna, ben]);
    let one_rule = joined.replace("[{", "{").replace("}]", "}");
    check_classes("l.csv", list, &one_rule, &[anna, ben]);
    let differs = list.replace("anna,AP-1,gold,192.0.2.3", "anna,AP-1,silver,192.0.2.3");
    check_fault(&differs, &joined, ("W164", 4, 1, 20, "different values of `rate`"));
    let written = list.replace("ben", "rest");
    check_fault(&written, &joined, ("W164", 3, 1, 20, "two classes `rest`"));
}

#[test]
fn a_placeholder_alone_keeps_the_type_of_its_value() {
    let list = "id,ap,v4,prio\n7,AP-1,192.0.2.1,3\n";
    let template = "name = 'c{id}'\nclass.parent = '{ap}'\nclass.rate = '1 Mbit/s'\n\
                    class.prio = '{prio}'\nclass.match = [{ dst = '{v4}', dport = '{prio}{id}' }]\n\
                    [template.x]\nlist = [{ plan = 'gold', on = 2 }]\nname = 'x'\n\
                    class.rate = '{plan.rate}'\nclass.ceil = '{plan.ceil}'\nclass.prio = '{on}'\n\
                    class.match = [{ vlan = '{on}' }]\n";
    let policy = read("l.csv", list.as_bytes(), template).plan.expect("it has no errors");
    let class = |name: &str| policy.link.tree.class(policy.class(name).expect("it is there"));
    let prio = |name: &str| class(name).params.number("prio");
    assert_eq!((prio("c7"), prio("x")), (Some(3), Some(2)));
    let ports = &policy.rules[0].matches.destination_ports;
    assert_eq!(ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["37"]);
}

/// Returns each finding as its code, file and line, and the line of the first related place.
fn codes(outcome: &Outcome<Policy>) -> Vec<String> {
    let at = |place: &Place| format!("{}:{}", place.file, place.line);
    let row = |finding: &Finding| format!("{} {}", finding.code, at(&finding.place));
    outcome.findings.iter().map(row).collect()
}

/// Checks the one finding: code, line and column in the list, line of the template, and message.
fn check_fault(list: &str, template: &str, wanted: (&str, usize, usize, usize, &str)) {
    let (code, line, column, template_line, message) = wanted;
    let outcome = read("l.csv", list.as_bytes(), template);
    let [finding] = outcome.findings.as_slice() else {
        panic!("{list}: {:#?}", outcome.findings);
    };
    let place = &finding.place;
    assert_eq!((finding.code, place.line, place.column), (code, line, column), "{finding:#?}");
    assert_eq!(place.file, "isp/l.csv", "{finding:#?}");
    let template = &finding.related[0].place;
    assert_eq!((template.file.as_str(), template.line), ("isp/policy.toml", template_line));
    assert!(finding.message.contains(message), "{finding:#?}");
    assert!(!finding.cure.is_empty(), "{finding:#?}");
}

#[test]
fn a_finding_names_the_row_and_the_line_of_the_template() {
    let head = "id,ap,plan,v4,v6\nanna,AP-1,gold,192.0.2.1,\n";
    let check = |row: &str, wanted| check_fault(&format!("{head}{row}\n"), TEMPLATE, wanted);
    check("ben,AP-3,gold,192.0.2.2,", ("W104", 3, 5, 20, "parent `AP-3` is not declared"));
    check("ben,AP-2,glod,192.0.2.2,", ("W162", 3, 10, 21, "plan `glod`"));
    check("ben,AP-2,,192.0.2.2,", ("W163", 3, 10, 21, "no `plan`"));
    check("ben,,gold,192.0.2.2,", ("W163", 3, 5, 20, "no `ap`"));
    check(",AP-2,gold,192.0.2.2,", ("W163", 3, 1, 19, "no `id`"));
    check("ben,AP-2,gold,,", ("W163", 3, 1, 23, "no value for `dst`"));
    check("ben,AP-2,gold,192.0.2.300,", ("W017", 3, 15, 23, "192.0.2.300"));
    check("ben,AP-2,gold,192.0.2.2,fe80::/129", ("W017", 3, 25, 23, "fe80::/129"));
    check("ben,AP-2,gold,192.0.2.1,", ("W165", 3, 15, 23, "192.0.2.1"));
    check("ben,AP-2,gold,\"192.0.2.9,192.0.2.1/32\",", ("W165", 3, 15, 23, "192.0.2.1"));
    check("anna,AP-2,gold,192.0.2.2,", ("W164", 3, 1, 19, "`anna`"));
    check("rest,AP-2,gold,192.0.2.2,", ("W164", 3, 1, 19, "`rest`"));
    check("ben,AP-2,gold,192.0.2.2", ("W160", 3, 1, 18, "4 cells, but the header 5"));
    check("ben,AP-2,gold,192.0.2.2,,x", ("W160", 3, 1, 18, "6 cells"));
    check("\"ben,AP-2,gold,192.0.2.2,", ("W160", 3, 1, 18, "not closed"));
    check("\"ben\"x,AP-2,gold,192.0.2.2,", ("W160", 3, 1, 18, "closed quote"));
    check_fault("id,ap,ap\na,b,c\n", TEMPLATE, ("W160", 1, 7, 18, "two columns"));
    let rate = TEMPLATE.replace("{plan.rate}", "{plan.rate}{v6}").replace(", '{v6}'", "");
    let list = "id,ap,plan,v4,v6\nben,AP-1,gold,192.0.2.2,x\n".to_owned();
    let list = list + "anna,AP-2,gold,192.0.2.1,x\n";
    let outcome = read("l.csv", list.as_bytes(), &rate);
    assert_eq!(codes(&outcome), ["W013 isp/l.csv:2", "W013 isp/l.csv:3"]);
}

/// Checks the findings as `code file:line`.
fn check_all(list: &[u8], template: &str, wanted: &[&str]) {
    let outcome = read("l.csv", list, template);
    assert_eq!(codes(&outcome), wanted, "{:#?}", outcome.findings);
}

#[test]
fn a_fault_of_the_template_is_one_finding() {
    let list = b"id,ap,plan,v4,v6\nanna,AP-1,gold,192.0.2.1,\nben,AP-2,gold,192.0.2.2,\n";
    let check = |from: &str, to: &str, wanted: &[&str]| {
        assert!(TEMPLATE.contains(from));
        check_all(list, &TEMPLATE.replacen(from, to, 1), wanted);
    };
    check("{ap}", "{tower}", &["W161 isp/policy.toml:20"]);
    check("'{ap}'", "'{ap'", &["W017 isp/policy.toml:20"]);
    check(
        "class.rate = '{plan.rate}'",
        "class.rate = 'x'",
        &["W010 isp/policy.toml:12", "W010 isp/policy.toml:15"],
    );
    check("class.match", "class.prio = 9\nclass.match", &["W015 isp/policy.toml:23"]);
    check("class.match", "class.colour = 9\nclass.match", &["W010 isp/policy.toml:23"]);
    check("{plan.ceil}", "{plan.top}", &["W011 isp/policy.toml:11"]);
    check("name = '{id}'", "", &["W011 isp/policy.toml:17"]);
    check("'{id}'", "7", &["W012 isp/policy.toml:19"]);
    check("name =", "names = ", &["W010 isp/policy.toml:19"]);
}

#[test]
fn lists_that_cannot_be_read_are_findings() {
    check_all(b"", TEMPLATE, &["W160 isp/policy.toml:18"]);
    check_all(b"id,ap,plan,v4,v6\n", TEMPLATE, &["W160 isp/policy.toml:18"]);
    check_all(b"id,ap\nanna,M\xfcller\n", TEMPLATE, &["W001 isp/l.csv:2"]);
    let columns: Vec<_> = (0..257).map(|at| format!("c{at}")).collect();
    check_all(format!("{}\n", columns.join(",")).as_bytes(), TEMPLATE, &["W018 isp/l.csv:1"]);
    let outcome = parse(&policy("'l.csv'", TEMPLATE), "policy.toml");
    assert_eq!(codes(&outcome), ["W004 policy.toml:18"]);
    let cure = &outcome.findings[0].cure;
    assert!(cure.contains("write the rows here"), "{cure}");
    let nothing = parse(&policy("[]", TEMPLATE), "policy.toml");
    assert_eq!(codes(&nothing), ["W160 policy.toml:18"]);
    let mut text = "id,ap,plan,v4,v6\n".to_owned();
    for _ in 0..=262_144 {
        text += "x,,,,\n";
    }
    let outcome = read("l.csv", text.as_bytes(), TEMPLATE);
    assert!(outcome.failed() && outcome.findings.len() <= 100);
}

#[test]
fn what_a_template_may_fill_in_is_bounded() {
    let list = format!("id,ap,plan,v4,v6\nanna,AP-1,gold,192.0.2.1,{}\n", "x".repeat(1 << 20));
    let template = TEMPLATE.replace("{ap}", &"{v6}".repeat(65)).replace(", '{v6}'", "");
    check_all(list.as_bytes(), &template, &["W018 isp/policy.toml:18"]);
}

#[test]
fn a_deployment_reads_the_lists_of_its_policies_beside_them() {
    let deployment = "[deployment]\nports = { a = 'x', b = 'y' }\n[direction.d]\nfrom = 'a'\n\
                      to = 'b'\npolicy = 'isp/policy.toml'\n";
    let check = |list: &str, wanted: &[&str]| {
        let read_file = |path: &std::path::Path| match path.to_str() {
            Some("site/isp/policy.toml") => Ok(policy("'l.csv'", TEMPLATE).into_bytes()),
            Some("site/isp/l.csv") => Ok(list.as_bytes().to_vec()),
            _ => panic!("{path:?} is not named"),
        };
        let outcome = deployment::parse(deployment.as_bytes(), "site/d.toml", &read_file);
        let places = outcome.findings.iter().map(|found| (found.code, &found.place));
        let places = places.map(|(code, place)| format!("{code} {}:{}", place.file, place.line));
        assert_eq!(places.collect::<Vec<_>>(), wanted, "{:#?}", outcome.findings);
    };
    let rows = "id,ap,plan,v4,v6\nanna,AP-1,gold,192.0.2.1,\nben,AP-2,silver,192.0.2.2,\n";
    check(rows, &[]);
    let faults = ["W206 site/d.toml:6", "W162 site/isp/l.csv:3"];
    check(&rows.replace("silver", "tin"), &faults);
}
