//! Classes that join a policy: what is refused, and that the policy that follows is the one of its
//! text.

use std::collections::BTreeMap;
use weir_core::random::Random;
use weir_policy::policy::{self, JoinRequest, Policy};

const POLICY: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\nplaces = 2\n\
    [class.voice]\nrate = \"1 Mbit/s\"\nmatch = { dscp = \"ef\" }\n\
    [class.rest]\nrate = \"2 Mbit/s\"\ndefault = true\n\
    [class.homes]\nrate = \"4 Mbit/s\"\n\
    places = { count = 3, ceil = \"4 Mbit/s\", queue = { limit = \"30 packets\" } }\n\
    [class.home-rest]\nparent = \"homes\"\nrate = \"1 Mbit/s\"\n\
    match = { src = \"10.0.0.0/24\" }\n";

fn read(text: &str) -> Policy {
    let outcome = policy::parse(text, "p.toml");
    assert!(!outcome.failed(), "{:?}", outcome.findings);
    outcome.plan.expect("it has no errors").with_places()
}

/// Carries out a request; returns the first finding, or the leaves that changed.
fn seat(policy: &mut Policy, remove: &[&str], tables: &str) -> Result<Vec<u32>, String> {
    let remove: Vec<_> = remove.iter().map(|name| (*name).to_owned()).collect();
    let outcome = policy.seat(&JoinRequest { remove: &remove, tables, name: "classes" });
    if outcome.failed() {
        let is_error = |one: &&weir_policy::Finding| one.severity == weir_policy::Severity::Error;
        let first = outcome.findings.iter().find(is_error).expect("it failed");
        return Err(format!("{} {}; {}", first.code, first.message, first.cure));
    }
    let seatings = outcome.plan.expect("no errors");
    seatings.iter().for_each(|seating| policy.follow(seating));
    Ok(seatings.iter().map(|seating| seating.leaf.0).collect())
}

/// Checks the result of a request to the policy in which `h1` has joined.
fn check(remove: &[&str], tables: &str, expected: Result<&[u32], &str>) {
    let mut policy = read(POLICY);
    let joined = "[class.h1]\nparent = \"homes\"\nrate = \"1 Mbit/s\"\n\
                  match = { src = \"10.0.1.1\" }\n";
    assert_eq!(seat(&mut policy, &[], joined), Ok(vec![5]));
    match (seat(&mut policy, remove, tables), expected) {
        (Ok(leaves), Ok(wanted)) => assert_eq!(leaves, wanted, "{tables}"),
        (Err(why), Err(part)) => assert!(why.contains(part), "{tables}: {why}"),
        (done, _) => panic!("{remove:?} {tables}: {done:?}"),
    }
}

#[test]
fn a_class_gets_a_place_or_a_finding_with_the_cure() {
    let table = |name: &str, rest: &str| {
        format!("[class.{name}]\nparent = \"homes\"\nrate = \"1 Mbit/s\"\n{rest}")
    };
    check(&[], &table("h2", "match = { src = \"10.0.1.2\" }"), Ok(&[6]));
    check(&[], &table("h2", "place = 2"), Ok(&[7]));
    check(&[], &table("h1", "ceil = \"2 Mbit/s\""), Ok(&[5]));
    check(&["h1"], "", Ok(&[5]));
    check(&["h1"], &table("h2", ""), Ok(&[5, 6]));
    check(&[], "[class.top]\nrate = \"1 Mbit/s\"", Ok(&[3]));
    check(&["h2"], "", Err("W166 there is no class `h2` at a place; name one that was added"));
    check(&["voice"], "", Err("a class of the file goes by `weir reload`"));
    check(&["h1"], &table("h1", ""), Err("remove the other one first, by another request"));
    check(&[], &table("voice", ""), Err("the link has a class `voice` already"));
    check(&[], &table("h2", "place = 0"), Err("W166"));
    check(&[], &table("h2", "place = 3"), Err("W166"));
    check(&[], &table("h2", "police = { rate = \"1 Mbit/s\" }"), Err("cannot have `police`"));
    check(&[], &table("h2", "default = true"), Err("cannot have `default`"));
    check(&[], &table("h2", "places = 3"), Err("cannot have `places`"));
    check(&[], &table("h2", "cheil = 3"), Err("W010"));
    check(&[], &table("h2", "burst = \"1 mb\""), Err("W013"));
    check(&[], "[class.h2]\nparent = \"homes\"", Err("W011 class `h2` has no `rate`"));
    check(&[], "[class.h2]\nparent = \"voice\"\nrate = \"1 Mbit/s\"", Err("`voice` has none"));
    check(&[], "[class.h2]\nparent = \"none\"\nrate = \"1 Mbit/s\"", Err("`none` has none"));
    check(
        &[],
        "[class.h2]\nparent = \"homes\"\nrate = \"3 Mbit/s\"",
        Err("W113 the classes under"),
    );
    check(&[], "[class.h2]\nrate = \"9 Mbit/s\"", Err("W113 the classes under the link"));
    check(&[], "[class.h2]\nparent = \"homes\"\nshare = \"25 %\"", Ok(&[6]));
    check(&[], "[klass.h2]", Err("W103"));
    check(&[], "[class.h2", Err("W003"));
    let queue = "queue = { dropper = \"longest\", limit = \"9 kB\" }";
    check(&[], &table("h2", queue), Err("shares its limit"));
    let four: Vec<_> = (2..6)
        .map(|n| format!("[class.h{n}]\nparent = \"homes\"\nrate = \"1 kbit/s\"\n"))
        .collect();
    check(&[], &four.concat(), Err("finds no place: 3 are taken"));
}

#[test]
fn a_rule_that_another_takes_the_packets_of_is_told() {
    let policy = read(POLICY);
    let tables =
        "[class.h1]\nparent = \"homes\"\nrate = \"1 Mbit/s\"\nmatch = { src = \"10.0.0.7\" }";
    let outcome = policy.seat(&JoinRequest { remove: &[], tables, name: "classes" });
    let found: Vec<_> = outcome.findings.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(
        found,
        ["a rule of class `h1` decides nothing: one of `home-rest` takes all its \
                        packets"]
    );
}

#[test]
fn what_places_cannot_be_is_found() {
    let rows = [
        ("places = 2\n", "places = 0\n", "0 is not in 1..=131072"),
        ("count = 3", "count = 3, cheil = 1", "cheil"),
        (
            "scheduler = \"htb\"",
            "scheduler = \"htb\"\nmatch_order = \"u32\"",
            "come behind all others",
        ),
        ("parent = \"homes\"\n", "", "class `homes` has places and no child in the file"),
        (
            "default = true",
            "default = true\nqueue = { dropper = \"longest\", limit = \"9 kB\" }",
            "shares its limit, so no class can join",
        ),
    ];
    for (text, by, part) in rows {
        let outcome = policy::parse(&POLICY.replacen(text, by, 1), "p.toml");
        let all: Vec<_> = outcome.findings.iter().map(|one| one.message.as_str()).collect();
        let whole = format!("{all:?}");
        assert!(outcome.failed() && whole.contains(part), "{by}: {whole}");
    }
    let text = POLICY.replace("\"htb\"", "\"altq-wfq\"").replace("rate = \"4 Mbit/s\"\n", "");
    assert!(policy::parse(&text, "p.toml").plan.is_none_or(|policy| policy.places.is_empty()));
}

/// Lets random classes join and leave; after each step the policy is the one of its text.
fn check_follows(seed: u64) {
    let mut random = Random::new(seed, 0);
    let mut policy = read(POLICY);
    let mut tables: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..30 {
        let name = format!("h{}", random.below(6));
        if random.below(3) == 0 {
            let remove = [name.clone()];
            let outcome =
                policy.seat(&JoinRequest { remove: &remove, tables: "", name: "classes" });
            let Some(seatings) = outcome.plan else { continue };
            seatings.iter().for_each(|seating| policy.follow(seating));
            tables.remove(&name);
        } else {
            let parent = if random.below(3) == 0 { "" } else { "parent = \"homes\"\n" };
            let rate = 1 + random.below(900);
            let rule = random.below(200);
            let rule = format!(
                "match = [{{ src = \"10.0.1.{rule}\" }}, {{ dport = \"{}\" }}]\n",
                1000 + rule
            );
            let text = format!("{parent}rate = \"{rate} kbit/s\"\nqueue.limit = 9\n{rule}");
            // Tables, dotted keys, and inline tables mean the same.
            let text = match random.below(3) {
                0 => format!("# a comment\n[class.{name}] # another\n{text}"),
                1 => text.lines().map(|line| format!("class.{name}.{line}\n")).collect(),
                _ => {
                    let keys: Vec<_> = text.lines().collect();
                    format!("class = {{ {name} = {{ {} }} }}\n", keys.join(", "))
                }
            };
            let outcome = policy.seat(&JoinRequest { remove: &[], tables: &text, name: "classes" });
            let Some(seatings) = outcome.plan else { continue };
            for seating in seatings {
                policy.follow(&seating);
                tables.insert(name.clone(), seating.class.expect("it joins").text);
            }
        }
        let text = tables.values().fold(POLICY.to_owned(), |text, table| text + "\n" + table);
        let read = read(&text);
        assert_eq!(read.link, policy.link, "seed {seed} {text}");
        assert_eq!(read, policy, "seed {seed} {text}");
        assert_eq!(read.link.fingerprint(), policy.link.fingerprint());
    }
}

#[test]
fn the_policy_that_follows_is_that_of_its_text() {
    (1..=40).for_each(check_follows);
}

#[test]
fn a_class_of_the_file_at_a_place_has_no_more_rules_than_one_that_joins() {
    let policy = |count: u16| {
        let rules =
            (0..count).map(|port| format!("{{ proto = \"udp\", dport = {} }}", 1000 + port));
        let rules = rules.collect::<Vec<_>>().join(", ");
        let own = "[class.h1]\nparent = \"homes\"\nrate = \"1 Mbit/s\"\nplace = 1\n";
        policy::parse(&format!("{POLICY}{own}match = [{rules}]\n"), "p.toml")
    };
    let fine = policy(64).plan.expect("64 are allowed").with_places();
    assert_eq!(fine.joined.values().map(|set| set.rules().len()).collect::<Vec<_>>(), [64]);
    drop(fine.classifier());
    let told: Vec<_> = policy(65).findings.iter().map(|one| one.message.clone()).collect();
    assert!(
        told.iter().any(|one| one.contains("class `h1`: 65 rules are more than the 64")),
        "{told:?}"
    );
}
