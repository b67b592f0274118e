//! Runs experiments on all cores; the results do not depend on the number of cores.

use super::extends;
use super::fifo;
use super::judge::{Judged, judge, judge_on_sound};
use super::measured::Measured;
use super::paper_set;
use super::sheet::{Era, Eras, Sheet};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir_sim::{Scenario, read};

/// One run of an experiment, which a family measures.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The experiment to measure.
    pub sheet: &'a Sheet,
    /// The historic or the sound variant.
    pub era: Era,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Whether its links have a FIFO in place of their schedulers: what is claimed and holds then,
    /// too, is true of every scheduler.
    pub fifo: bool,
}

/// The runs to make, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The eras that the user chose.
    pub eras: Eras,
    /// Only claims whose id or sentence contains this; experiments without any are not run.
    pub only: Option<&'a str>,
    /// The first seed of each experiment.
    pub seed: u64,
    /// Runs at the same time, at least 1.
    pub threads: usize,
    /// Once it is set no run begins; those that have begun end.
    pub stop: &'a AtomicBool,
}

/// A function that measures one run.
pub type MeasureRun<'a> = &'a (dyn Fn(&Run<'_>) -> Result<Measured, String> + Sync);

/// A flag that is never set.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// The outcome of one experiment in one era.
#[derive(Serialize)]
pub struct Outcome<'a> {
    /// The id of the experiment.
    pub id: &'a str,
    /// The experiment that was run.
    #[serde(skip)]
    pub sheet: &'a Sheet,
    /// The historic or the sound variant.
    pub era: Era,
    /// The measurements, or why there are none.
    pub measured: Result<Measured, String>,
    /// The claims, each with its verdict.
    pub claims: Vec<Judged>,
}

/// The measurements of an experiment's run, as `weir lab run --format json` printed it.
#[derive(Deserialize)]
pub struct Stored {
    /// The id of the experiment.
    pub id: String,
    /// The historic or the sound variant.
    pub era: Era,
    /// The measurements, or why there are none.
    pub measured: Result<Measured, String>,
}

impl<'a> Run<'a> {
    /// Returns the text of a file in the experiment's folder or in its paper's, as it is written.
    ///
    /// # Errors
    /// When there is none.
    pub fn text(&self, file: &str) -> Result<&'static str, String> {
        paper_set::text_at(&self.path(file)?)
    }

    fn path(&self, file: &str) -> Result<String, String> {
        let folder = format!("{}/{}", self.sheet.paper, self.sheet.id);
        paper_set::find(&folder, file, &|path| paper_set::text_at(path).is_ok())
    }

    /// Returns the text, with what it extends, and each `$name` replaced by its value.
    ///
    /// # Errors
    /// When there is no such file, it cannot be extended, or a `$name` is left without a value.
    pub fn filled(&self, file: &str, values: &[(&str, &str)]) -> Result<String, String> {
        let text = extends::extended(&self.path(file)?, &|path| {
            Ok(fill(paper_set::text_at(path)?, values))
        })?;
        match text.find('$') {
            None if self.fifo => Ok(fifo::instead(&text)),
            None => Ok(text),
            Some(at) => {
                let left: String = text[at..].chars().take(16).collect();
                Err(format!("{}/{file}: nothing replaces `{left}`", self.sheet.id))
            }
        }
    }

    /// Reads the scenario in a file of the folder, with each `$name` replaced and this run's seed.
    ///
    /// # Errors
    /// When it cannot be read: the findings.
    pub fn scenario(&self, file: &str, values: &[(&str, &str)]) -> Result<Scenario, String> {
        let text = self.filled(file, values)?;
        let name = format!("papers/{}/{}/{file}", self.sheet.paper, self.sheet.id);
        let read_file = |path: &Path| {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let text = self.filled(file, values).map_err(std::io::Error::other)?;
            Ok(text.into_bytes())
        };
        let outcome = read::parse(text.as_bytes(), &name, &read_file);
        let findings = weir_policy::render::render(&outcome.findings, &outcome.sources, false);
        let mut scenario = outcome.plan.ok_or(findings)?;
        scenario.seed = self.seed;
        Ok(scenario)
    }

    /// Returns a setting of the sheet's `[settings]`.
    ///
    /// # Errors
    /// When it is missing, or of another type.
    pub fn setting<T: DeserializeOwned>(&self, key: &str) -> Result<T, String> {
        let place = format!("{}: setting `{key}`", self.sheet.id);
        let value = self.sheet.settings.get(key).ok_or_else(|| format!("{place} is missing"))?;
        value.clone().try_into().map_err(|error| format!("{place}: {error}"))
    }
}

/// Returns the text with each `$name` replaced by its value.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    // Comments may mention the names that are replaced. The lines keep their numbers.
    let is_comment = |line: &str| line.trim_start().starts_with('#');
    let lines = text.lines().map(|line| if is_comment(line) { "" } else { line });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    // Longer names first, so that `$size` does not cut `$size_large`.
    let mut values = values.to_vec();
    values.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, value) in values {
        text = text.replace(&format!("${name}"), value);
    }
    text
}

impl Request<'_> {
    /// Returns whether this claim was requested.
    fn wants(&self, id: &str, says: &str) -> bool {
        self.only.is_none_or(|only| id.contains(only) || says.contains(only))
    }

    /// Returns whether to run the experiment in this era.
    fn runs(&self, sheet: &Sheet, era: Era) -> bool {
        let any = sheet
            .claims
            .iter()
            .any(|claim| claim.era.include(era) && self.wants(&claim.id, &claim.says));
        self.eras.include(era) && sheet.eras.include(era) && (any || self.only.is_none())
    }
}

/// Runs these experiments; `measure` measures one run. `progress` is called from any thread with
/// the number of runs done, the number of all, and what was done last. Outcomes are in the order of
/// the experiments; an experiment with a run that a stop prevented is missing.
pub fn run<'a>(
    sheets: &[&'a Sheet],
    request: &Request<'_>,
    measure: MeasureRun<'_>,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Vec<Outcome<'a>> {
    let eras = |&sheet: &&'a Sheet| Era::ALL.map(|era| (sheet, era));
    let rows: Vec<(&Sheet, Era)> =
        sheets.iter().flat_map(eras).filter(|(sheet, era)| request.runs(sheet, *era)).collect();
    let mut runs = Vec::new();
    for &(sheet, era) in &rows {
        let seeds = (0..sheet.seeds).map(|number| request.seed.wrapping_add(number));
        runs.extend(seeds.map(|seed| Run { sheet, era, seed, fifo: false }));
    }
    let mut measured = measure_all(&runs, request, measure, progress).into_iter();
    let outcome = |(sheet, era): (&'a Sheet, Era)| {
        let seeds: Vec<Option<_>> = measured.by_ref().take(sheet.seeds as usize).collect();
        let seeds: Result<Vec<Measured>, String> =
            seeds.into_iter().collect::<Option<Vec<_>>>()?.into_iter().collect();
        let measured =
            seeds.and_then(|runs| Measured::over_seeds(runs).ok_or_else(|| "no seed".to_owned()));
        let mut claims = judge(sheet, era, measured.as_ref().map_err(String::as_str));
        claims.retain(|claim| request.wants(&claim.id, &claim.says));
        Some(Outcome { id: &sheet.id, sheet, era, measured, claims })
    };
    let mut outcomes: Vec<Outcome<'a>> = rows.into_iter().filter_map(outcome).collect();
    null_test(&mut outcomes);
    outcomes
}

/// Judges stored measurements by these experiments' claims, in the order of the experiments. What
/// is stored of others is left out; of an experiment that is stored twice the later one counts.
pub fn of_stored<'a>(sheets: &[&'a Sheet], stored: &[Stored]) -> Vec<Outcome<'a>> {
    let eras = |&sheet: &&'a Sheet| Era::ALL.map(|era| (sheet, era));
    let outcome = |(sheet, era): (&'a Sheet, Era)| {
        let is_it = |one: &&Stored| one.id == sheet.id && one.era == era;
        let measured = stored.iter().rev().find(is_it)?.measured.clone();
        let claims = judge(sheet, era, measured.as_ref().map_err(String::as_str));
        Some(Outcome { id: &sheet.id, sheet, era, measured, claims })
    };
    let mut outcomes: Vec<Outcome<'a>> = sheets.iter().flat_map(eras).filter_map(outcome).collect();
    null_test(&mut outcomes);
    outcomes
}

/// Judges what papers claim of the historic run on the sound run beside it.
fn null_test(outcomes: &mut [Outcome<'_>]) {
    for place in 1..outcomes.len() {
        let (before, from) = outcomes.split_at_mut(place);
        let (Some(historic), Some(sound)) = (before.last_mut(), from.first()) else { continue };
        let is_pair = historic.id == sound.id && sound.era == Era::Sound;
        if let (true, Ok(measured)) = (is_pair, &sound.measured) {
            judge_on_sound(sound.sheet, &mut historic.claims, measured);
        }
    }
}

/// Returns how many outcomes these experiments have.
pub fn count(sheets: &[&Sheet], request: &Request<'_>) -> usize {
    let eras =
        |sheet: &&Sheet| Era::ALL.into_iter().filter(|era| request.runs(sheet, *era)).count();
    sheets.iter().map(eras).sum()
}

/// Measures each run; the results are in the order of the runs, without those that did not begin.
fn measure_all(
    runs: &[Run<'_>],
    request: &Request<'_>,
    measure: MeasureRun<'_>,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Vec<Option<Result<Measured, String>>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<Measured, String>>>> =
        runs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed))
            && let Some(run) = runs.get(index).filter(|_| !request.stop.load(Ordering::Relaxed))
        {
            let result = measure(run);
            *results[index].lock().expect("no thread panics holding it") = Some(result);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(done, runs.len(), &run.sheet.id);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..request.threads.clamp(1, THREADS_MAX) {
            scope.spawn(work);
        }
        work();
    });
    let result = |slot: Mutex<Option<_>>| slot.into_inner().expect("no thread panics holding it");
    results.into_iter().map(result).collect()
}

/// Larger than the number of cores of any machine.
const THREADS_MAX: usize = 1024;
