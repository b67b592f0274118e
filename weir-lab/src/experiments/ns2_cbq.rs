//! The reference CBQ on another scenario of ns-2's family, from a file. What ns-2 itself ships are
//! the experiments of `papers/ns2/`.

use super::{Experiment, Options, Row};
use crate::papers::ns2;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: ns2::FAMILY.name,
    summary: "the reference CBQ: ns-2's own tests (`weir lab run ns2`), others with --file",
    live: false,
    run,
};

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let file = options.file.as_ref().ok_or("name a scenario with --file")?;
    let shown = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{shown}: {error}"))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let rows = ns2::rows(&bytes, &shown, &stem)?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| options.wants(&row.subject)).collect();
    rows.iter().for_each(progress);
    Ok(rows)
}
