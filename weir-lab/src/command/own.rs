//! Weir's own experiments: prints rows as they are measured.

use weir_cli::output::{Exit, Format, Output};
use weir_cli::picture::Files;
use weir_lab::experiments::{Experiment, Own};
use weir_lab::rows::{Options, Results, Row};
use weir_show::{Content, Key, Kind, Part, Picture, Plot, Style};

/// Runs an experiment and draws what it has to show into these files; exits 1 if a claim does not
/// hold.
pub fn run(output: &Output, found: &Experiment, own: Own, options: &Options, files: Files) -> Exit {
    let mut print = |row: &Row| {
        if output.format == Format::Text {
            output.text(&line(row));
        }
    };
    let Results { rows, plots, notes } = match own.run(options, &mut print) {
        Ok(results) => results,
        Err(error) => return output.refuse(&error),
    };
    if rows.is_empty() {
        return output.refuse("no row matches; `--only` must be part of a subject");
    }
    if output.format == Format::Json {
        output.json(&rows);
    }
    if files.any() {
        let part = Part {
            title: String::new(),
            keys: keys(&plots),
            notes,
            content: Content::Plots(plots),
        };
        let (title, about) = (found.name.to_owned(), found.summary.to_owned());
        if let Err(error) = files.write_picture(&Picture { title, about, parts: vec![part] }) {
            return output.refuse(&error);
        }
    }
    if rows.iter().all(|row| row.holds) { Exit::Clean } else { Exit::Faults }
}

/// Returns the legend, which all plots share.
fn keys(plots: &[Plot]) -> Vec<Key> {
    let lines = plots.iter().filter(|plot| plot.kind != Kind::Cells);
    let most = lines.max_by_key(|plot| plot.series.len());
    let names = most.into_iter().flat_map(|plot| &plot.series).map(|series| series.name.clone());
    names.enumerate().map(|(place, name)| Key { name, style: Style::Line(place) }).collect()
}

fn line(row: &Row) -> String {
    if row.expected.is_empty() {
        return format!("{:<44} {}\n", row.subject, row.measured);
    }
    let verdict = match row.holds {
        _ if row.limit.is_infinite() => "for information",
        true => "holds",
        false => "FAILS",
    };
    let Row { subject, measured, expected, deviation, limit, .. } = row;
    format!(
        "{subject:<44} {measured:>16}, expected {expected:>16}: {deviation:>+9.4} (limit {limit})  \
         {verdict}\n"
    )
}
