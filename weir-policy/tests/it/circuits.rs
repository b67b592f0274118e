//! Circuits that come and go: which class a template makes of one, and `[deployment.circuits]`.

use std::io;
use std::path::Path;
use weir_core::units::Duration;
use weir_policy::deployment::{self, CircuitSource, Deployment, Rehearsal};
use weir_policy::diff;
use weir_policy::finding::Outcome;
use weir_policy::policy::{CircuitRow, Policy, circuit_class, parse};

const PLANS: &str = "[plan.gold]\nrate = '2 Mbit/s'\nprio = 3\n[plan.big]\nrate = '6 Mbit/s'\n\
                     prio = 1\n";
const TEMPLATE: &str = "[template.circuit]\ncircuits = true\nclass.parent = '{site}'\n\
                        class.rate = '{plan.rate}'\nclass.prio = '{plan.prio}'\n\
                        class.match = [{ dst = ['{addresses}'], proto = 'udp' }]\n";

/// A policy with a site of 9 and one of 4 Mbit/s.
fn policy(plans: &str, template: &str) -> String {
    let site = |name: &str, rate: &str| {
        format!(
            "[class.{name}]\nrate = '{rate}'\nplaces = 9\n[class.{name}-rest]\n\
             parent = '{name}'\nrate = '1 kbit/s'\nmatch = {{ dport = 7 }}\n"
        )
    };
    let sites = site("north", "9 Mbit/s") + &site("south", "4 Mbit/s");
    format!(
        "[link]\nrate = '20 Mbit/s'\nscheduler = 'htb'\n{sites}[class.rest]\nrate = '1 Mbit/s'\n\
         default = true\n{plans}{template}"
    )
}

fn read(plans: &str, template: &str) -> Policy {
    let outcome = parse(&policy(plans, template), "p.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:#?}", outcome.findings))
}

/// Fills a row: its id, addresses, plan and site.
fn fill(row: [&str; 4]) -> Result<String, String> {
    let [id, addresses, plan, site] = row;
    let addresses: Vec<_> = addresses.split_whitespace().map(str::to_owned).collect();
    let row = CircuitRow { id, addresses: &addresses, plan, site };
    read(PLANS, TEMPLATE).circuits[0].fill(&row, "n \"1\"")
}

#[test]
fn a_circuit_becomes_the_table_of_a_class() {
    let wanted = "[class.circuit-anna-isp]\nparent = \"north\"\nrate = \"2 Mbit/s\"\nprio = 3\n\
                  match = [{ dst = [\"192.0.2.1\", \"2001:db8::/56\"], proto = \"udp\" }]\n\
                  note = 'n \"1\"'\n";
    let table = fill(["anna@isp", "192.0.2.1 2001:db8::/56", "gold", "north"]);
    assert_eq!(table.as_deref(), Ok(wanted));
    assert_eq!(circuit_class("a b//c"), "circuit-a-b-c");
}

#[test]
fn a_row_that_the_template_cannot_use_says_why() {
    let rows = [
        (["a", "192.0.2.1", "gone", "north"], "the plan `gone` is not declared"),
        (["a", "192.0.2.1", "", "north"], "the row has no `plan`"),
        (["a", "", "gold", "north"], "the row has no value for `dst`"),
        (["a", "192.0.2.1", "gold", ""], "the row has no `site`"),
    ];
    for (row, wanted) in rows {
        let why = fill(row).expect_err("it is refused");
        assert!(why.starts_with(wanted) && why.contains("; "), "{row:?}: {why}");
    }
}

#[test]
fn a_template_of_circuits_is_checked_without_rows() {
    let rows = [
        (PLANS, TEMPLATE.replace("{site}", "{place}"), "W161"),
        (PLANS, TEMPLATE.replace("circuits = true", "circuits = true\nlist = 'a.csv'"), "W010"),
        (PLANS, TEMPLATE.replace("circuits = true", "circuits = false"), "W011"),
        ("[plan.gold]\nrate = '1 Mbit/s'\nceil = '2 Mbit/s'\n", TEMPLATE.to_owned(), "W010"),
    ];
    for (plans, template, code) in rows {
        let found = parse(&policy(plans, &template), "p.toml").findings;
        assert!(found.iter().any(|one| one.code == code), "{template}: {found:#?}");
    }
    let (own, other) = (read(PLANS, TEMPLATE), read(PLANS, &TEMPLATE.replace("udp", "tcp")));
    assert_ne!(own, other, "a reload has to see that");
    assert_eq!(own.circuits[0].plans, ["big", "gold"]);
}

/// Reads a deployment with this section, whose policies have these plans and this template.
fn deployed(section: &str, (plans, template): (&str, &str)) -> Outcome<Deployment> {
    deployed_text(section, &policy(plans, template))
}

fn deployed_text(section: &str, policy: &str) -> Outcome<Deployment> {
    let text = format!(
        "[deployment]\nname = 'd'\nports = {{ in = 'eth0', out = 'eth1' }}\n\
         [deployment.circuits]\n{section}[direction.down]\nfrom = 'out'\nto = 'in'\n\
         policy = 'p.toml'\n"
    );
    let read_file = |path: &Path| match path.to_str() {
        Some("site/p.toml") => Ok(policy.as_bytes().to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let outcome = deployment::parse(text.as_bytes(), "site/d.toml", &read_file);
    let outline = deployment::parse_outline(text.as_bytes(), "site/d.toml");
    let own =
        |outcome: &Outcome<Deployment>| outcome.plan.as_ref().and_then(|it| it.circuits.clone());
    assert!(outcome.failed() || own(&outcome) == own(&outline), "{section}");
    outcome
}

#[test]
fn circuits_that_joined_are_no_fault_of_a_plan() {
    let small = "[plan.gold]\nrate = '2 Mbit/s'\nprio = 3\n";
    let joined = |site: &str, rate: &str, sport: u16| {
        format!(
            "[class.of-{site}]\nparent = '{site}'\nrate = '{rate}'\nplace = 0\n\
             match = {{ sport = {sport} }}\n"
        )
    };
    let full = joined("north", "8 Mbit/s", 1) + &joined("south", "3 Mbit/s", 2);
    let one_place = policy(small, TEMPLATE).replace("places = 9", "places = 1") + &full;
    let nine_places = policy(small, TEMPLATE) + &full;
    for text in [one_place, nine_places] {
        let findings = deployed_text("from = 'c.csv'\n", &text).findings;
        let of_circuits = |code: &&str| ["W216", "W217"].contains(code);
        let told: Vec<_> = findings.iter().map(|one| one.code).filter(of_circuits).collect();
        assert!(told.is_empty(), "{text}: {findings:#?}");
    }
}

#[test]
fn a_source_has_its_keys_and_no_others() {
    let small = "[plan.gold]\nrate = '2 Mbit/s'\nprio = 3\n";
    let radius = "from = 'radius'\nlisten = '192.0.2.9:1813'\nclients = ['192.0.2.2', '2001:db8::1']\n\
                  secret_file = 'key'\n";
    let read = |section: &str| deployed(section, (small, TEMPLATE));
    let own = |section: &str| read(section).plan.and_then(|it| it.circuits).expect("it is sound");
    let file = own("from = 'c.csv'\n");
    assert_eq!(file.from, CircuitSource::File("site/c.csv".into()));
    assert_eq!((file.template.as_str(), file.expire), ("circuit", None));
    let fed = own("from = 'http'\nexpire = '2 h'\n");
    assert_eq!((fed.from, fed.expire), (CircuitSource::Http, Some(Duration::from_secs(7200))));
    let CircuitSource::Radius(found) = own(&format!("{radius}plan = 'Class'\n")).from else {
        panic!("it is by RADIUS");
    };
    assert_eq!((found.clients.len(), found.listen.port()), (2, 1813));
    assert_eq!((found.id, found.plan, found.site), (1, 25, 32));
    let rows = [
        ("from = 'c.txt'\n".to_owned(), "W216"),
        ("from = 'http'\nclients = ['192.0.2.2']\n".to_owned(), "W216"),
        ("from = 'c.csv'\nexpire = '2 h'\n".to_owned(), "W216"),
        ("from = 'http'\nlist = 'a'\n".to_owned(), "W010"),
        ("template = 'circuit'\n".to_owned(), "W011"),
        ("from = 'radius'\n".to_owned(), "W011"),
        (radius.replace("192.0.2.2", "nas1"), "W017"),
        (radius.replace(":1813", ""), "W017"),
        (radius.replace("['192.0.2.2', '2001:db8::1']", "[]"), "W216"),
        (format!("{radius}plan = 'Rate'\n"), "W016"),
        ("from = 'http'\ntemplate = 'home'\n".to_owned(), "W216"),
    ];
    for (section, code) in rows {
        let found = read(&section).findings;
        assert!(found.iter().any(|one| one.code == code), "{section}: {found:#?}");
    }
}

#[test]
fn circuits_join_a_rehearsal_as_a_running_link() {
    let policy = read(PLANS, TEMPLATE);
    let template = &policy.circuits[0];
    assert_eq!(template.columns().collect::<Vec<_>>(), ["id", "addresses", "plan", "site"]);
    let mut rehearsal = Rehearsal::new(&policy);
    let mut join = |id: &str, addresses: &str| {
        let addresses: Vec<_> = addresses.split_whitespace().map(str::to_owned).collect();
        let row = CircuitRow { id, addresses: &addresses, plan: "gold", site: "north" };
        rehearsal.join(template, &[row])
    };
    assert_eq!(join("wide", "192.0.2.0/24"), Ok(Vec::new()));
    assert_eq!(join("one", "192.0.2.7"), Ok(Vec::new()), "the longest prefix decides");
    let hidden = join("two", "198.51.100.1 192.0.2.7").expect("it joins");
    let wanted = "`192.0.2.7/32` in a rule of class `circuit-two` decides nothing: one of \
                  `circuit-one` takes all its packets";
    assert_eq!(hidden, [wanted]);
    assert_eq!(join("three", "192.0.2.8"), Ok(Vec::new()));
    let why = join("four", "192.0.2.9").expect_err("five times 2 Mbit/s of 9");
    assert!(why.contains("9 Mbit/s"), "{why}");
}

#[test]
fn a_rehearsal_says_which_circuits_would_get_nothing_and_lets_none_join() {
    let taking = "default = true\nmatch = { dst = '192.0.2.7' }\n";
    let text = policy(PLANS, TEMPLATE).replace("default = true\n", taking);
    let policy = parse(&text, "p.toml").plan.expect("it is sound");
    let rehearsal = Rehearsal::new(&policy);
    let addresses = ["192.0.2.7", "192.0.2.8", "192.0.2.9"].map(|one| [one.to_owned()]);
    let row =
        |at: usize, id, plan| CircuitRow { id, addresses: &addresses[at], plan, site: "north" };
    let (taken, free, lost) =
        (row(0, "taken", "gold"), row(1, "free", "gold"), row(2, "lost", "x"));
    let wanted = "a rule of class `circuit-taken` decides nothing: one of `rest` takes all its \
                  packets";
    let rows: [(&[CircuitRow<'_>], &[&str]); 3] =
        [(&[taken, free], &[wanted]), (&[taken, lost], &[wanted]), (&[free, lost], &[])];
    for (circuits, said) in rows {
        assert_eq!(rehearsal.hidden(&policy.circuits[0], circuits), said, "{circuits:?}");
    }
}

#[test]
fn a_plan_has_to_fit_somewhere() {
    let rows: [(&str, String, &[&str]); 6] = [
        ("[plan.gold]\nrate = '2 Mbit/s'\nprio = 3\n", TEMPLATE.to_owned(), &[]),
        // The larger plan fits at one of the two sites, and nowhere where that is named.
        (PLANS, TEMPLATE.to_owned(), &["W217"]),
        (PLANS, TEMPLATE.replace("{site}", "south"), &["W216"]),
        (PLANS, TEMPLATE.replace("{site}", "rest"), &["W216", "W216"]),
        ("[plan.gold]\nrate = 'fast'\nprio = 3\n", TEMPLATE.to_owned(), &["W216"]),
        ("[plan.gold]\nprio = 3\n", TEMPLATE.to_owned(), &["W216"]),
    ];
    for (plans, template, wanted) in rows {
        let found = deployed("from = 'http'\n", (plans, &template)).findings;
        let codes: Vec<_> = found.iter().map(|one| one.code).filter(|code| *code > "W2").collect();
        assert_eq!(codes, wanted, "{plans}{template}: {found:#?}");
    }
}

/// Free places have no names, and follow their parent.
#[test]
fn a_line_of_changes_leaves_free_places_out_and_names_another_plan() {
    let text = policy(PLANS, TEMPLATE);
    let of = |text: &str| parse(text, "p.toml").plan.expect("it is sound").with_places();
    let line = |new: &str| diff::line(&of(&text), &of(new)).expect("they differ");
    let slower = line(&text.replace("rate = '4 Mbit/s'", "rate = '3 Mbit/s'"));
    assert_eq!(slower, "south rate 4 Mbit/s -> 3 Mbit/s");
    let other = line(&text.replace("rate = '2 Mbit/s'", "rate = '3 Mbit/s'"));
    assert_eq!(other, "another template or other plans of circuits");
}
