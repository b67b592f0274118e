//! The figures of a policy's classes, and the changes between two policies, as `--format json`
//! prints them and Python gets them; docs/bounds.md describes both.

use super::{ClassChange, Difference, Setting, Standing};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The figures of a class; `None` where unknown.
#[derive(Serialize)]
pub struct Figures {
    at_least_bps: Option<f64>,
    proven_bps: Option<f64>,
    delay_us: Option<f64>,
    backlog_bytes: Option<f64>,
    greedy_bps: Option<f64>,
    alone_bps: Option<f64>,
    /// By key, why a figure is unknown, or what it assumes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<&'static str, Cow<'static, str>>,
}

/// A difference of two policies.
#[derive(Serialize)]
pub struct Printed {
    moves: Vec<Move>,
    given_up: bool,
    gone: Vec<String>,
    new: Vec<String>,
    changed: Vec<Changed>,
    settings: Vec<SettingRow>,
}

#[derive(Serialize)]
struct Move {
    from: String,
    to: String,
    packets: Vec<String>,
}

#[derive(Serialize)]
struct SettingRow {
    class: Option<String>,
    key: String,
    before: String,
    after: String,
}

#[derive(Serialize)]
struct Changed {
    class: String,
    before: Figures,
    after: Figures,
}

impl Figures {
    /// Returns those of a class.
    pub fn of(standing: &Standing) -> Self {
        let keys = ["at_least_bps", "delay_us", "backlog_bytes", "greedy_bps", "alone_bps"];
        let notes = keys.into_iter().zip(standing.notes());
        Self {
            at_least_bps: standing.at_least.rate,
            proven_bps: standing.at_least.proven,
            delay_us: standing.bound.delay.map(|seconds| seconds * 1e6),
            backlog_bytes: standing.bound.backlog,
            greedy_bps: standing.greedy,
            alone_bps: standing.alone,
            notes: notes.filter_map(|(key, note)| Some((key, note?))).collect(),
        }
    }
}

impl Printed {
    /// Returns what `difference` prints.
    pub fn of(difference: &Difference) -> Self {
        let names = &difference.moves.interfaces;
        let moves = difference.moves.moves.iter().map(|row| Move {
            from: row.from.clone(),
            to: row.to.clone(),
            packets: row.regions.iter().map(|region| region.describe(names)).collect(),
        });
        let changed = |row: &ClassChange| Changed {
            class: row.name.clone(),
            before: Figures::of(&row.before),
            after: Figures::of(&row.after),
        };
        let setting = |row: &Setting| SettingRow {
            class: row.class.clone(),
            key: row.key.clone(),
            before: row.before.clone(),
            after: row.after.clone(),
        };
        Self {
            moves: moves.collect(),
            given_up: difference.moves.given_up,
            gone: difference.gone.clone(),
            new: difference.new.clone(),
            changed: difference.changed.iter().map(changed).collect(),
            settings: difference.settings.iter().map(setting).collect(),
        }
    }
}
