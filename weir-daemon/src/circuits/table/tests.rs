//! Circuits as scripts: what sources say and what the link answers, and what follows.

use super::*;

/// A table, and the time.
struct World {
    table: Table,
    now: Instant,
    /// Changes under way.
    asked: Vec<Step>,
}

impl World {
    fn new() -> Self {
        Self { table: Table::default(), now: Instant::now(), asked: Vec::new() }
    }

    /// Lets a line happen; returns what followed: steps, or the reason of a refusal.
    ///
    /// `+a@s1 1,2` is a circuit with addresses of a session, `-a@s1` its end, `take` asks for
    /// steps, `ok`, `no WHY` and `hidden WHY` answer all that were asked.
    fn step(&mut self, line: &str) -> String {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let named = |word: &str| {
            let (id, session) = word[1..].split_once('@').unwrap_or((&word[1..], ""));
            let session = Session { server: "nas".to_owned(), id: session.to_owned() };
            (id.to_owned(), Some(session).filter(|it| !it.id.is_empty()))
        };
        match word {
            "take" => {
                let steps = self.table.take(9);
                let text = steps.iter().map(shown).collect::<Vec<_>>().join(" ");
                self.asked.extend(steps);
                text
            }
            "ok" | "no" | "hidden" => {
                let outcome = match word {
                    "ok" => Ok(None),
                    "no" => Err(rest.to_owned()),
                    _ => Ok(Some(rest.to_owned())),
                };
                for step in std::mem::take(&mut self.asked) {
                    self.table.answer(&step, std::slice::from_ref(&outcome));
                }
                String::new()
            }
            "after" => {
                self.now += Duration::from_secs(rest.parse().expect("seconds"));
                String::new()
            }
            "expire" => {
                let after = Duration::from_secs(rest.parse().expect("seconds"));
                self.table.expire(self.now, after);
                String::new()
            }
            "retry" => {
                self.table.retry();
                String::new()
            }
            "restarted" => {
                self.table.leave_server(rest);
                String::new()
            }
            "all" => {
                let circuits = rest.split(' ').map(|id| circuit(id, None, "9")).collect();
                let faults = self.table.replace(self.now, circuits);
                faults.into_iter().map(|(place, why)| format!("{place}: {why}")).collect()
            }
            _ if word.starts_with('+') => {
                let (id, session) = named(word);
                let joined = self.table.join(self.now, circuit(&id, session, rest));
                joined.err().unwrap_or_default()
            }
            _ => {
                let (id, session) = named(word);
                let left = self.table.leave(&id, session.as_ref());
                if left { String::new() } else { "stale".to_owned() }
            }
        }
    }
}

fn circuit(id: &str, session: Option<Session>, addresses: &str) -> Circuit {
    let parts = addresses.split(',').filter(|part| !part.is_empty());
    let addresses = parts.map(|part| match part.parse::<u8>() {
        Ok(number) => format!("192.0.2.{number}"),
        Err(_) => part.to_owned(),
    });
    let (id, addresses) = (id.to_owned(), addresses.collect());
    Circuit { id, addresses, session, ..Circuit::default() }
}

/// A step as `+a:1,2` or `-a`.
fn shown(step: &Step) -> String {
    let id = step.class.trim_start_matches(CIRCUIT_PREFIX);
    let Some(circuit) = &step.circuit else { return format!("-{id}") };
    let short = |text: &String| text.replace("192.0.2.", "").replace("/32", "");
    format!("+{id}:{}", circuit.addresses.iter().map(short).collect::<Vec<_>>().join(","))
}

/// Runs a script: lines, each with what follows behind `=>`.
fn check(script: &str) {
    let mut world = World::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (event, wanted) = line.split_once("=>").unwrap_or((line, ""));
        let found = if let Some(id) = event.trim().strip_prefix("fault ") {
            let shown = world.table.describe(world.now, 99).shown;
            let own = shown.into_iter().find(|one| one.circuit.id == id);
            own.and_then(|one| one.fault).unwrap_or_default()
        } else if event.trim() == "counts" {
            let all = world.table.describe(world.now, 99);
            format!("{} {} {} {}", all.known, all.shaped, all.waiting, all.unshaped)
        } else {
            world.step(event.trim())
        };
        assert_eq!(found, wanted.trim(), "{event}in\n{script}");
    }
}

#[test]
fn a_circuit_joins_changes_and_leaves() {
    check(
        "+a 1
        counts => 1 0 1 0
        take => +a:1
        take =>
        counts => 1 0 1 0
        ok
        counts => 1 1 0 0",
    );
    check(
        "+a 2,1,1
        take => +a:1,2
        ok
        counts => 1 1 0 0
        +a 1,2
        take =>
        +a 3
        take => +a:3
        ok
        -a
        counts => 0 0 1 0
        take => -a
        ok
        -a => stale
        take =>",
    );
}

#[test]
fn what_changes_meanwhile_is_done_afterwards_and_once() {
    check(
        "+a 1
        take => +a:1
        +a 2
        -a
        +a 3
        take =>
        ok
        take => +a:3
        -a
        ok
        take => -a
        +a 4
        ok
        take => +a:4
        ok
        +b 5
        -b
        take =>
        counts => 1 1 0 0",
    );
}

#[test]
fn an_address_belongs_to_the_circuit_that_named_it_last() {
    check(
        "+a 1,2
        take => +a:1,2
        ok
        +b 2,3
        take => +a:1 +b:2,3
        ok
        +b 1
        take => -a
        take => +b:1
        fault a => its address 192.0.2.1/32 went to circuit `b`
        ok
        fault a => its address 192.0.2.1/32 went to circuit `b`
        counts => 2 1 0 1
        retry
        take =>
        +a 2
        take => +a:2
        ok
        fault a =>
        -b
        +a 1,2
        take => -b
        take => +a:1,2",
    );
}

#[test]
fn the_end_of_a_former_session_ends_nothing() {
    check(
        "+a@s1 1
        +a@s1 1
        take => +a:1
        ok
        +a@s2 1
        take => +a:1
        ok
        -a@s1 => stale
        take =>
        -a@s2
        take => -a
        ok
        -a@s2 => stale
        +a@s3 1
        +b 2
        restarted other
        restarted nas
        take => +b:2",
    );
}

#[test]
fn what_the_link_refuses_is_listed_and_tried_again() {
    check(
        "+a 1
        take => +a:1
        no there is no room
        counts => 1 0 0 1
        fault a => there is no room
        take =>
        retry
        take => +a:1
        ok
        fault a =>
        +a 2
        take => +a:2
        no another plan
        -a
        take => -a
        no on trial
        counts => 0 0 0 0
        retry
        take => -a
        ok
        retry
        take =>",
    );
}

#[test]
fn a_circuit_that_gets_nothing_is_listed_and_not_asked_for_again() {
    check(
        "+a 1
        take => +a:1
        hidden `rest` takes all
        counts => 1 0 0 1
        fault a => `rest` takes all
        retry
        take =>
        +a 2
        take => +a:2
        ok
        counts => 1 1 0 0",
    );
    let mut world = World::new();
    for line in ["+a 1", "take", "hidden `rest` takes all"] {
        world.step(line);
    }
    let circuit = sound(circuit("a", None, "1")).expect("it is one");
    let found = Found { present: 1, circuit: Some(circuit), is_current: true };
    let classes = BTreeMap::from([(circuit_class("a"), found)]);
    world.table.learn(world.now, &classes, false);
    assert_eq!(world.step("take"), "+a:1", "others changed something");
    world.step("ok");
    assert_eq!(world.table.describe(world.now, 1).shaped, 1);
}

/// The texts of a link do not say so: the process looks for it once it has begun.
#[test]
fn a_circuit_that_gets_nothing_is_listed_after_a_restart_of_the_process() {
    let mut world = World::new();
    let circuit = sound(circuit("a", None, "1")).expect("it is one");
    let found = Found { present: 1, circuit: Some(circuit.clone()), is_current: true };
    let classes = BTreeMap::from([(circuit_class("a"), found)]);
    world.table.learn(world.now, &classes, true);
    assert_eq!(world.step("take"), "");
    let counts = |world: &World| {
        let all = world.table.describe(world.now, 1);
        (all.shaped, all.unshaped)
    };
    assert_eq!(counts(&world), (1, 0));
    world.table.hide(&circuit, "`rest` takes all".to_owned());
    assert_eq!(counts(&world), (0, 1));
    // It was another circuit when that was seen.
    for line in ["+a 2", "take", "ok"] {
        world.step(line);
    }
    world.table.hide(&circuit, "`rest` takes all".to_owned());
    assert_eq!(counts(&world), (1, 0));
}

#[test]
fn circuits_expire_and_are_replaced() {
    check(
        "+a 1
        after 5
        +b 2
        after 5
        expire 10
        take => +b:2
        ok
        all c d d
        take => -b
        take => +d:9
        fault c => its address 192.0.2.9/32 went to circuit `d`",
    );
}

#[test]
fn what_is_no_circuit_is_refused_with_the_reason() {
    let long = "x".repeat(70);
    let many = (0..65).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let rows = [
        ("+ 1", "is no name of a circuit"),
        ("+// 1", "is no name of a circuit"),
        (&*format!("+{long} 1"), "is no name of a circuit"),
        ("+a 192.0.2.300", "192.0.2.300"),
        ("+a 10.0.0.1/8", "beyond its length"),
        ("+a 0.0.0.0/0", "is every address"),
        ("+a ::/0", "is every address"),
        (&*format!("+a {many}"), "it has 65 addresses"),
    ];
    for (line, wanted) in rows {
        let found = World::new().step(line);
        assert!(found.contains(wanted), "{line}: {found}");
    }
    let mut world = World::new();
    assert_eq!(world.step("+a/b 1"), "");
    assert!(world.step("+a.b 2").contains("circuit `a/b` has the class `circuit-a-b`"));
    assert_eq!(world.step("-a.b"), "stale");
    assert_eq!(world.step("+c"), "");
    let shown = world.table.describe(world.now, 1).shown;
    assert_eq!(shown[0].fault.as_deref(), Some(NO_ADDRESS), "faulty ones come first");
    assert_eq!(world.step("take"), "+a-b:1");
}

#[test]
fn a_host_is_known_by_its_network() {
    let mut world = World::new();
    for line in ["+a 198.51.100.0/24", "+b 2001:db8::/56"] {
        assert_eq!(world.step(line), "");
    }
    let rows = [
        ("198.51.100.7", true),
        ("198.51.101.7", false),
        ("2001:db8::5", true),
        ("2001:db8:0:100::5", false),
        ("", false),
    ];
    for (address, wanted) in rows {
        assert_eq!(world.table.knows(address), wanted, "{address}");
    }
}

#[test]
fn after_a_restart_the_classes_of_the_link_are_its_circuits() {
    let found = |id: &str, addresses: &str, is_current| {
        let circuit = sound(circuit(id, None, addresses)).expect("it is one");
        (circuit_class(id), Found { present: 1, circuit: Some(circuit), is_current })
    };
    let mut world = World::new();
    let mut classes = BTreeMap::from([found("a", "1", true), found("b", "2", false)]);
    let unknown = Found { present: 1, circuit: None, is_current: false };
    classes.insert("circuit-x".to_owned(), unknown);
    world.table.learn(world.now, &classes, true);
    assert_eq!(world.step("take"), "-x");
    assert_eq!(world.step("take"), "+b:2", "one is as it should be");
    world.step("ok");
    assert_eq!(world.step("-a"), "", "it is known by its id");
    assert_eq!(world.step("take"), "-a");
    world.step("ok");
    // Others changed the policy, and removed a class by hand.
    world.step("+c 3");
    world.step("take");
    world.step("ok");
    let classes = BTreeMap::from([found("b", "2", true), found("y", "4", true)]);
    world.table.learn(world.now, &classes, false);
    assert_eq!(world.step("take"), "-y");
    assert_eq!(world.step("take"), "+c:3");
    world.step("ok");
    let classes = BTreeMap::from([found("b", "2", false), found("c", "3", true)]);
    world.table.learn(world.now, &classes, false);
    assert_eq!(world.step("take"), "+b:2", "its template is another one");
}

#[test]
fn there_is_room_for_so_many() {
    let mut world = World::new();
    for number in 0..CIRCUITS_MAX {
        let circuit = circuit(&number.to_string(), None, "");
        assert_eq!(world.table.join(world.now, circuit), Ok(()), "{number}");
    }
    let why = world.step("+more 1");
    assert_eq!(why, format!("there are {CIRCUITS_MAX} circuits, and no more may join"));
    assert_eq!(world.step("+7 1"), "", "one that is there may change");
}
