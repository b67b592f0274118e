//! A difference of two policies as text.

use super::{ClassChange, Difference, Setting, Standing, differ};
use crate::table::{Table, shown};

/// Returns what changes, for people.
pub fn text(difference: &Difference) -> String {
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
        let table = table_of_settings(&difference.settings);
        text += "written differently:\n";
        // A value before and the one after it stand together.
        text += &match table.is_divided() {
            true => difference.settings.iter().map(long).collect(),
            false => format!("{table}\n"),
        };
    }
    text
}

fn long(Setting { class, key, before, after }: &Setting) -> String {
    let class = class.as_ref().map_or("the link".to_owned(), |class| format!("`{class}`"));
    format!("  {key} of {class}\n    before: {before}\n    after:  {after}\n")
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
    let head = ["class", "what", "before", "after", "change"];
    let mut table = Table::new(head).words(&[1]).identified_by(2);
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
            table.row([row.name.clone(), what.to_owned(), shown(before), shown(after), change]);
        }
    }
    table
}

/// In text; JSON has all.
const REGIONS_SHOWN: usize = 50;
