//! The circuits of a watched file, let join before a link runs.

use super::feed;
use super::link::BATCH_MAX;
use super::table::Table;
use super::ways::{self, Way};
use serde::Serialize;
use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;
use weir_control::circuits::Circuit;
use weir_policy::deployment::{Deployment, Rehearsal};
use weir_policy::policy::CircuitTemplate;

/// The circuits that a file has, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Foreseen {
    /// How many circuits it has.
    pub circuits: usize,
    /// The faults of rows, and which circuits a direction cannot shape; at most
    /// [`FAULTS_MAX`].
    pub faults: Vec<String>,
    /// How many more faults there are.
    pub more: usize,
}

/// Lets the circuits of the file join the policies of a deployment, as its link would.
pub fn foresee(deployment: &Deployment, text: &str) -> Foreseen {
    let mut table = Table::default();
    let ways = ways::ways(deployment);
    table.set_ways(ways.clone());
    let read = feed::follow_file(&mut table, Instant::now(), text);
    let mut foreseen = Foreseen { circuits: table.wanted().count(), ..Foreseen::default() };
    let mut alike = Alike::default();
    for fault in read {
        let is_new = alike.is_new(fault.split_once(": ").map_or(&*fault, |(_, why)| why));
        foreseen.note(fault, is_new);
    }
    for (circuit, why) in table.faulty() {
        let fault = format!("circuit `{}`: {why}", circuit.id);
        let is_new = alike.is_new(&fault);
        foreseen.note(fault, is_new);
    }
    let circuits: Vec<_> = table.sound().collect();
    // Directions have nothing to do with each other, so each has a thread.
    let faults: Vec<Vec<String>> = thread::scope(|scope| {
        let begun = ways.iter().map(|way| scope.spawn(|| join_all(deployment, way, &circuits)));
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    for (way, faults) in ways.iter().zip(faults) {
        for fault in faults {
            let is_new = alike.is_new(&fault);
            foreseen.note(format!("direction `{}`, {fault}", way.direction), is_new);
        }
    }
    foreseen
}

/// Lets all circuits join the policy of a direction; returns what is wrong with some.
fn join_all(deployment: &Deployment, way: &Way, circuits: &[&Circuit]) -> Vec<String> {
    let direction = deployment.directions.iter().find(|one| one.name == way.direction);
    let Some(direction) = direction else { return Vec::new() };
    let mut rehearsal = Rehearsal::new(&direction.policy);
    let several = circuits.chunks(BATCH_MAX);
    several.flat_map(|several| join(&mut rehearsal, &way.template, several)).collect()
}

/// Lets circuits join; returns what is wrong with some.
fn join(
    rehearsal: &mut Rehearsal,
    template: &CircuitTemplate,
    circuits: &[&Circuit],
) -> Vec<String> {
    let rows: Vec<_> = circuits.iter().copied().map(ways::row).collect();
    rehearsal.join(template, &rows).unwrap_or_else(|_| {
        // One of them is wrong, and the others are not.
        let alone = rows.iter().flat_map(|row| {
            let outcome = rehearsal.join(template, &[*row]);
            outcome.unwrap_or_else(|why| vec![format!("circuit `{}`: {why}", row.id)])
        });
        alone.collect()
    })
}

/// How often each fault was told of, whatever it names.
#[derive(Default)]
struct Alike(BTreeMap<String, usize>);

impl Alike {
    /// Counts a fault; returns whether not so many like it were told of.
    fn is_new(&mut self, fault: &str) -> bool {
        let plain = fault.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let count = self.0.entry(plain).or_default();
        *count += 1;
        *count <= ALIKE_MAX
    }
}

impl Foreseen {
    fn note(&mut self, fault: String, is_new: bool) {
        if is_new && self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }
}

/// Bound: faults of circuits that are told of a file; further ones are counted.
const FAULTS_MAX: usize = 20;
/// Bound: faults that are told of for one reason; further ones are counted.
const ALIKE_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weir_policy::deployment;

    const POLICY: &str = "[link]\nrate = '1 Gbit/s'\nscheduler = 'htb'\n\
        [plan.gold]\nrate = '2 Mbit/s'\n\
        [template.circuit]\ncircuits = true\nclass.parent = '{site}'\n\
        class.rate = '{plan.rate}'\nclass.match = [{ dst = ['{addresses}'] }]\n\
        [class.north]\nrate = '400 Mbit/s'\nplaces = 2\n\
        [class.north-own]\nparent = 'north'\nrate = '1 Mbit/s'\nmatch = { dport = 7 }\n\
        [class.rest]\nrate = '10 Mbit/s'\ndefault = true\nmatch = { dst = '198.51.100.0/24' }\n";
    const LINK: &[u8] = b"[deployment]\nname = 'l'\nports = { in = 'eth0', out = 'eth1' }\n\
        [deployment.circuits]\nfrom = 'circuits.csv'\n\
        [direction.down]\nfrom = 'out'\nto = 'in'\npolicy = 'p.toml'\n";

    /// Each circuit that finds no place is named, and none of the others.
    #[test]
    fn circuits_of_a_file_join_before_a_link_runs() {
        let read = |_: &Path| Ok(POLICY.as_bytes().to_vec());
        let deployment = deployment::parse(LINK, "l.toml", &read).plan.expect("it is sound");
        let rows = [
            ("a,192.0.2.7,gold,north\nb,192.0.2.8,gold,north\n", 2, ""),
            ("a,192.0.2.7,lead,north\nb,192.0.2.8,gold,north\n", 2, "`a`: the plan `lead`"),
            ("a,192.0.2.7,gold,south\n", 1, "`a`: class `circuit-a` finds no place"),
            ("a,home,gold,north\nb,192.0.2.8,gold,north\n", 1, "line 2: prefix \"home\""),
            ("a,192.0.2.0/24,gold,north\nb,192.0.2.8,gold,north\n", 2, ""),
            ("a,0.0.0.0/0,gold,north\nb,192.0.2.8,gold,north\n", 1, "is every address"),
            ("a,198.51.100.7,gold,north\n", 1, "`circuit-a` decides nothing: one of `rest`"),
            ("a,192.0.2.7 198.51.100.7,gold,north\n", 1, "`198.51.100.7/32` in a rule of"),
            ("a,192.0.2.7,gold,north\nb,192.0.2.7,lead,north\n", 2, "`b`: the plan `lead`"),
            ("a,192.0.2.7,gold,north\nb,192.0.2.7,gold,west\n", 2, "no places in `west`"),
            ("a,192.0.2.7,gold,north\nb,192.0.2.7,gold,north\n", 2, "`a`: its address"),
            (
                "a,192.0.2.7,gold,north\nb,192.0.2.8,gold,north\nc,192.0.2.9,gold,north\n",
                3,
                "`c`: class `circuit-c` finds no place: 2 are taken",
            ),
        ];
        for (text, circuits, fault) in rows {
            let found = foresee(&deployment, &format!("id,addresses,plan,site\n{text}"));
            assert_eq!((found.circuits, found.more), (circuits, 0), "{text}");
            let is_it = |one: &String| one.contains(fault);
            let faults = usize::from(!fault.is_empty());
            assert!(found.faults.len() == faults && found.faults.iter().all(is_it), "{found:?}");
        }
        let many: String = (0..30).map(|n| format!("c{n},192.0.2.{n},gold,north\n")).collect();
        let found = foresee(&deployment, &format!("id,addresses,plan,site\n{many}"));
        assert_eq!((found.faults.len(), found.more), (ALIKE_MAX, 28 - ALIKE_MAX));
        let rows = (0..30).map(|n| format!("c{n},192.0.2.{n},p{n},north\n"));
        let found =
            foresee(&deployment, &format!("id,addresses,plan,site\n{}", rows.collect::<String>()));
        assert_eq!((found.faults.len(), found.more), (ALIKE_MAX, 30 - ALIKE_MAX), "{found:?}");
        let found = foresee(&deployment, "id,addresses\na,192.0.2.7\n");
        assert_eq!(found.faults, ["the header lacks `plan`, `site`: circuits stay"]);
        // A running link has room for so many kinds of rules.
        let policy = POLICY.replace("places = 2", "places = 90");
        let read = |_: &Path| Ok(policy.as_bytes().to_vec());
        let deployment = deployment::parse(LINK, "l.toml", &read).plan.expect("it is sound");
        let row = |n: u32| format!("c{n},2001:db8:{n}::/{},gold,north\n", 48 + n);
        let kinds: String = (1..=40).map(row).collect();
        let found = foresee(&deployment, &format!("id,addresses,plan,site\n{kinds}"));
        assert_eq!((found.faults.len(), found.more), (ALIKE_MAX, 8 - ALIKE_MAX), "{found:?}");
        assert!(found.faults[0].contains("room for 0 more of 32"), "{found:?}");
    }
}
