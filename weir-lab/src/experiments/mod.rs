//! All experiments, of papers and Weir's own: one file, one line here.
//!
//! A paper's experiments are data, the sheets in `papers/` ([`crate::claims`]); an entry here
//! measures all sheets that name it. Weir's own need no sheet: they measure and judge rows.

use crate::claims::{self, Measured, Outcome, Request, Run, Sheet};
use crate::rows::{Options, Results, Row, Rows};
use weir_bench::rig;

/// The registry's entry for an experiment.
pub struct Experiment {
    /// The word behind `measure` in a sheet, or after `weir lab run`.
    pub name: &'static str,
    /// One sentence for lists of experiments.
    pub summary: &'static str,
    /// Measures a run of a sheet; most of Weir's own experiments have none.
    pub measure: Option<Measure>,
    /// Runs it without a sheet; the papers' experiments have none.
    pub own: Option<Own>,
}

/// Measures one run of a sheet; the result depends only on the sheet, the era and the seed.
pub type Measure = fn(&Run<'_>) -> Result<Measured, String>;

/// An experiment of Weir's own.
#[derive(Clone, Copy)]
pub struct Own {
    /// It needs private networks, and so privileges.
    pub is_live: bool,
    /// It runs scenarios from files.
    pub takes_file: bool,
    /// It keeps the records of its links, and takes kept ones, with `--keep` and `--from`.
    pub keeps_records: bool,
    /// It has plots for `--plot`.
    pub draws: bool,
    measure: MeasureOwn,
}

/// Measures the requested rows; networks can be made by then if the experiment is live.
type MeasureOwn = fn(&mut Rows<'_>) -> Result<(), String>;

impl Own {
    /// Measures, and passes each row to `progress` at once. Call it before any thread is started.
    ///
    /// # Errors
    /// When private networks are needed and cannot be made, or a measurement fails.
    pub fn run(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(&Row),
    ) -> Result<Results, String> {
        let _first = if self.is_live && options.from.is_none() { rig::prepare()? } else { None };
        let mut rows = Rows::new(options, progress);
        (self.measure)(&mut rows)?;
        Ok(rows.results)
    }

    /// One on real packets.
    const fn live(measure: MeasureOwn) -> Self {
        Self { is_live: true, ..Self::simulated(measure) }
    }

    /// One in virtual time.
    const fn simulated(measure: MeasureOwn) -> Self {
        Self { is_live: false, takes_file: false, keeps_records: false, draws: false, measure }
    }
}

/// Returns the experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// Returns Weir's own experiments.
pub fn own() -> impl Iterator<Item = (&'static Experiment, Own)> {
    EXPERIMENTS.iter().filter_map(|experiment| Some((experiment, experiment.own?)))
}

/// Runs the papers' experiments of these sheets ([`claims::run`]).
pub fn run<'a>(
    sheets: &[&'a Sheet],
    request: &Request<'_>,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Vec<Outcome<'a>> {
    claims::run(sheets, request, &measure, progress)
}

/// Measures a run with the experiment that its sheet names.
///
/// # Errors
/// When it cannot be read or run: why.
pub fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let name = &run.sheet.measure;
    let measure = find(name).and_then(|experiment| experiment.measure);
    measure.ok_or_else(|| format!("no experiment called `{name}` measures sheets"))?(run)
}

mod flooded;
mod processes;

macro_rules! experiments {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        /// The experiments of all modules of this folder.
        pub const EXPERIMENTS: &[Experiment] = &[$($module::EXPERIMENT,)*];
    };
}

experiments! {
    shaping_live,
    sharing_live,
    htb_kernel,
    latency_live,
    fast_tcp,
    htb_export,
    sharing_sim,
    autorate,
    autorate_live,
    l4s,
    hosts,
    queues,
    overload,
    records,
    faults,
    durations,
    api,
    viewers,
    changes,
    rsvp,
    packet_size,
    simulator_speed,
    ns2,
    benita,
    quadros,
    altqtest,
    cost,
    risso99,
    nieminen,
    explain,
    score,
    tcp_kernel,
    whatif,
    papers_live,
    cost_live,
    second_live,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::PaperSet;
    use std::collections::BTreeSet;

    #[test]
    fn every_sheet_names_an_experiment_that_measures_sheets() {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        for sheet in set.sheets.iter().chain(&set.live) {
            let found = find(&sheet.measure).and_then(|experiment| experiment.measure);
            assert!(found.is_some(), "{}: {}", sheet.id, sheet.measure);
        }
        let measured: BTreeSet<&str> =
            set.sheets.iter().chain(&set.live).map(|sheet| sheet.measure.as_str()).collect();
        for experiment in EXPERIMENTS {
            let used = measured.contains(experiment.name);
            assert_eq!(experiment.measure.is_some(), used, "{}", experiment.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let set = PaperSet::open().unwrap_or_else(|error| panic!("{error}"));
        let names: BTreeSet<&str> = EXPERIMENTS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for (experiment, _) in own() {
            assert!(set.select(experiment.name).is_empty(), "{}", experiment.name);
        }
    }
}
