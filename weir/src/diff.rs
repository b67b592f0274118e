//! `weir diff`: compares the effects of two policies.

use crate::check;
use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input};
use std::path::{Path, PathBuf};
pub use weir_policy::diff::line;
use weir_policy::diff::printed::Printed;
use weir_policy::diff::{ClassChange, Difference, Setting, Standing, differ};
use weir_policy::policy::{self, Policy};
use weir_policy::render;
use weir_policy::table::Table;

/// Compares the effects of two policies: which packets go to another class, which guarantees
/// change, and which other values are written differently.
///
/// Exits 0 if nothing changes, 1 if something does or a policy has errors, 2 if a file
/// cannot be read.
#[derive(clap::Args)]
pub struct Diff {
    /// The old policy.
    old: PathBuf,
    /// The new policy.
    new: PathBuf,
}

impl Run for Diff {
    fn run(self, output: &Output) -> Exit {
        let policies = read(&self.old, output).and_then(|old| Ok((old, read(&self.new, output)?)));
        let (old, new) = match policies {
            Ok(policies) => policies,
            Err(exit) => return exit,
        };
        let difference = Difference::between(&old, &new);
        match output.format {
            Format::Json => output.json(&Printed::of(&difference)),
            Format::Text => output.text(&text(&difference)),
        }
        if difference.is_empty() { Exit::Clean } else { Exit::Faults }
    }
}

fn read(path: &Path, output: &Output) -> Result<Policy, Exit> {
    let name = path.display().to_string();
    let bytes = input::read(path)
        .map_err(|error| output.refuse(&format!("cannot read {name}: {error}")))?;
    let outcome = policy::parse_bytes(&bytes, &name, None, &input::read_named);
    if outcome.failed() {
        return Err(kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome));
    }
    eprint!("{}", render::render(&outcome.findings, &outcome.sources, false));
    Ok(outcome.plan.expect("without errors there is a plan"))
}

/// Returns what changes between two policies, as text and as JSON.
pub fn both(old: &Policy, new: &Policy) -> (String, serde_json::Value) {
    let difference = Difference::between(old, new);
    let json = serde_json::to_value(Printed::of(&difference));
    (text(&difference), json.expect("the types have only text keys"))
}

fn text(difference: &Difference) -> String {
    if difference.is_empty() {
        return "nothing changes\n".to_owned();
    }
    let mut text = String::new();
    for row in &difference.moves.moves {
        text += &format!("packets go from `{}` to `{}`:\n", row.from, row.to);
        let shown = row.regions.iter().take(REGIONS_SHOWN);
        for region in shown {
            text += &format!("  {}\n", region.describe(&difference.moves.interfaces));
        }
        if row.regions.len() > REGIONS_SHOWN {
            text += &format!("  and {} regions more\n", row.regions.len() - REGIONS_SHOWN);
        }
    }
    if difference.moves.given_up {
        text += "too many rules change or overlap: not all packets that move were looked for\n";
    }
    for (what, names) in [("gone", &difference.gone), ("new", &difference.new)] {
        if !names.is_empty() {
            text += &format!("{what}: {}\n", names.join(", "));
        }
    }
    if !difference.changed.is_empty() {
        text += &format!("{}\n", table(&difference.changed));
    }
    if !difference.settings.is_empty() {
        text += &format!("written differently:\n{}\n", table_of_settings(&difference.settings));
    }
    text
}

fn table_of_settings(settings: &[Setting]) -> Table {
    let mut table = Table::new(["class", "key", "before", "after"]).words(&[1, 2, 3]);
    for Setting { class, key, before, after } in settings {
        let class = class.clone().unwrap_or_else(|| "the link".to_owned());
        table.row([class, key.clone(), before.clone(), after.clone()]);
    }
    table
}

/// Makes a row for each figure that changes.
fn table(changed: &[ClassChange]) -> Table {
    let mut table = Table::new(["class", "what", "before", "after", "change"]).words(&[1]);
    for row in changed {
        let figures = |standing: &Standing| standing.figures();
        for ((what, before), (_, after)) in
            figures(&row.before).into_iter().zip(figures(&row.after))
        {
            if !differ(before, after) {
                continue;
            }
            let change = match (before, after) {
                (Some(before), Some(after)) if before > 0.0 => {
                    format!("{:+.1} %", (after - before) / before * 100.0)
                }
                _ => String::new(),
            };
            let shown = check::shown;
            table.row([row.name.clone(), what.to_owned(), shown(before), shown(after), change]);
        }
    }
    table
}

/// In text; JSON has all.
const REGIONS_SHOWN: usize = 50;
