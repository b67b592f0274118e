//! The directions that shape circuits, and what the template of each makes of one.

use std::collections::BTreeSet;
use weir_control::circuits::Circuit;
use weir_policy::deployment::Deployment;
use weir_policy::policy::{CircuitRow, CircuitTemplate};

/// A direction that shapes circuits.
#[derive(Clone, PartialEq, Debug)]
pub struct Way {
    /// The name of the direction.
    pub direction: String,
    /// The file of its policy.
    pub file: String,
    /// Makes the class of a circuit.
    pub template: CircuitTemplate,
    /// The class of packets that no rule takes.
    pub default: String,
    /// The classes that have places; an empty name is the link's.
    parents: BTreeSet<String>,
}

/// Returns the directions of a deployment that shape circuits.
pub fn ways(deployment: &Deployment) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    let name = deployment.circuits.as_ref().map(|circuits| &circuits.template);
    for way in &deployment.directions {
        let file = way.path.display().to_string();
        let template = way.policy.circuits.iter().find(|one| Some(&one.name) == name);
        // Two directions with one policy have the same places.
        let Some(template) = template.filter(|_| ways.iter().all(|way| way.file != file)) else {
            continue;
        };
        let tree = &way.policy.link.tree;
        let parent = |class| tree.class(class).name.clone();
        let parents =
            way.policy.places.iter().map(|one| one.parent.map_or_else(String::new, parent));
        ways.push(Way {
            direction: way.name.clone(),
            file,
            template: template.clone(),
            default: way.policy.leaf_name(way.policy.default.leaf).to_owned(),
            parents: parents.collect(),
        });
    }
    ways
}

/// Returns the table of a circuit's class, which says in a note what it is for.
///
/// # Errors
/// When the circuit lacks what the template needs; the text says what to do.
pub fn fill(template: &CircuitTemplate, circuit: &Circuit) -> Result<String, String> {
    let note = serde_json::to_string(circuit).map_err(|error| error.to_string())?;
    template.fill(&row(circuit), &note)
}

/// Returns the row of a circuit, from which a template makes its class.
pub fn row(circuit: &Circuit) -> CircuitRow<'_> {
    let Circuit { id, addresses, plan, site, .. } = circuit;
    CircuitRow { id, addresses, plan, site }
}

/// Returns why a circuit can have no class, however much room there is.
pub fn refusal(ways: &[Way], circuit: &Circuit) -> Option<String> {
    ways.iter().find_map(|way| match fill(&way.template, circuit) {
        Err(why) => Some(why),
        Ok(table) => {
            let parent = parent(&table).unwrap_or_default();
            let site = (!way.parents.contains(&parent)).then_some(parent)?;
            Some(format!("there are no places in `{site}`; name a site that has some"))
        }
    })
}

/// Returns the parent of the class in a table.
fn parent(table: &str) -> Option<String> {
    let all: toml::Table = table.parse().ok()?;
    let (_, class) = all.get("class")?.as_table()?.iter().next()?;
    Some(class.get("parent")?.as_str()?.to_owned())
}
