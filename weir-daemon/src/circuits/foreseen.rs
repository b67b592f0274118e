//! The circuits of a watched file, let join before a link runs.

use super::feed;
use super::link::BATCH_MAX;
use super::table::Table;
use serde::Serialize;
use std::time::Instant;
use weir_control::circuits::Circuit;
use weir_policy::deployment::{self, Deployment};
use weir_policy::policy::CircuitRow;

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
    let read = feed::follow_file(&mut table, Instant::now(), text);
    let mut foreseen = Foreseen { circuits: table.wanted().count(), ..Foreseen::default() };
    read.into_iter().for_each(|fault| foreseen.note(fault));
    for (circuit, why) in table.faulty() {
        foreseen.note(format!("circuit `{}`: {why}", circuit.id));
    }
    let circuits: Vec<_> = table.wanted().filter(|one| !one.addresses.is_empty()).collect();
    let template = deployment.circuits.as_ref().map(|circuits| &circuits.template);
    let mut files = Vec::new();
    for way in &deployment.directions {
        let own = way.policy.circuits.iter().find(|one| Some(&one.name) == template);
        let Some(template) = own.filter(|_| !files.contains(&&way.path)) else { continue };
        files.push(&way.path);
        let mut policy = way.policy.clone().with_places();
        for several in circuits.chunks(BATCH_MAX) {
            let rows: Vec<_> = several.iter().copied().map(row).collect();
            if deployment::join(template, &mut policy, &rows).is_ok() {
                continue;
            }
            // One of them is wrong, and the others are not.
            for row in rows {
                if let Err(why) = deployment::join(template, &mut policy, &[row]) {
                    foreseen.note(format!("direction `{}`, circuit `{}`: {why}", way.name, row.id));
                }
            }
        }
    }
    foreseen
}

impl Foreseen {
    fn note(&mut self, fault: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }
}

fn row(circuit: &Circuit) -> CircuitRow<'_> {
    let Circuit { id, addresses, plan, site, .. } = circuit;
    CircuitRow { id, addresses, plan, site }
}

/// Bound: faults of circuits that are told of a file; further ones are counted.
const FAULTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const POLICY: &str = "[link]\nrate = '1 Gbit/s'\nscheduler = 'htb'\n\
        [plan.gold]\nrate = '2 Mbit/s'\n\
        [template.circuit]\ncircuits = true\nclass.parent = '{site}'\n\
        class.rate = '{plan.rate}'\nclass.match = [{ dst = ['{addresses}'] }]\n\
        [class.north]\nrate = '400 Mbit/s'\nplaces = 2\n\
        [class.north-own]\nparent = 'north'\nrate = '1 Mbit/s'\nmatch = { dport = 7 }\n\
        [class.rest]\nrate = '10 Mbit/s'\ndefault = true\n";
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
            ("a,home,gold,north\nb,192.0.2.8,gold,north\n", 1, "row 1: prefix \"home\""),
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
        assert_eq!((found.faults.len(), found.more), (FAULTS_MAX, 28 - FAULTS_MAX));
    }
}
