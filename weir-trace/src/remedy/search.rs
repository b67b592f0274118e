//! Finds the smallest change of a single setting with which a load keeps a condition.
//!
//! All settings are changed by the same sizes, from small to large, up and down ([`SIZES`]); so
//! what is found first is smallest, whichever setting it is. Where a size keeps the condition and
//! the one before did not, the sizes between are halved until they are a tenth apart: for a
//! condition that, once kept, stays kept as the change grows, that is the smallest change. Where
//! it does not stay kept, a larger change is tried beside it, and the result says so. A change is
//! refused if the policy has errors with it, or if it breaks a condition that held.
//!
//! Invariant: the result depends on the load, the condition and the bounds, not on the number of
//! threads.

use super::command;
use super::condition::{Condition, Judged};
use super::tally::{Share, Tally};
use crate::load::Load;
use crate::parallel;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use weir_core::units::Quantity;
use weir_policy::setting::{self, Setting, Way};

/// A change that keeps a condition.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Proposal {
    /// The key of the setting: `class.voice.rate`.
    pub setting: String,
    /// Its value in the load's policy.
    pub from: String,
    /// The value that keeps the condition.
    pub to: String,
    /// The command that sets it on the link; `NAME` stands for a link that is not known.
    pub command: String,
    /// How large the change is: see [`weir_policy::setting`].
    pub size: f64,
    /// Whether a change that is a tenth larger also keeps it.
    pub steady: bool,
    /// The most that any class loses by it, as a part of 1: of its rate, or of its packets.
    pub harm: f64,
    /// The other broken conditions that it keeps, too.
    pub keeps_also: Vec<String>,
    /// The measure with the change.
    pub measured: Option<f64>,
    /// Every class before and with it.
    pub effects: Vec<Effect>,
}

/// The effect of a change on a class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Effect {
    /// The name of the class.
    pub class: String,
    /// Its service in the load.
    pub before: Share,
    /// Its service with the change.
    pub after: Share,
}

/// The result of the search for one condition.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Remedy {
    /// The condition that the load broke.
    pub condition: Judged,
    /// The changes that keep it, the best first; at most [`PROPOSALS_MAX`].
    pub proposals: Vec<Proposal>,
    /// The number of settings that were changed, one at a time.
    pub settings: usize,
    /// The number of settings of the policy beyond [`SETTINGS_MAX`], which were not.
    pub settings_left: usize,
    /// The number of replays.
    pub replays: usize,
    /// Whether the search ended before all sizes were tried, because a bound was reached.
    pub is_cut: bool,
}

/// The bounds of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The most replays of the whole search.
    pub replays: usize,
    /// The most packets of all replays together.
    pub packets: u64,
    /// Replays at the same time.
    pub threads: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { replays: REPLAYS_MAX, packets: PACKETS_MAX, threads: parallel::cores() }
    }
}

/// A load with its conditions, and changes of its settings tried on it.
pub struct Search<'a> {
    load: &'a Load,
    conditions: &'a [Condition],
    settings: Vec<Setting>,
    settings_left: usize,
    /// Whether each condition held in the load.
    before: Vec<Option<bool>>,
    shares: Vec<(String, Share)>,
    bounds: Bounds,
    tried: Mutex<BTreeMap<(usize, String), Option<Tried>>>,
    peaks: bool,
}

/// The result of a replay with one change.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Each condition with its measure.
    pub judged: Vec<Judged>,
    /// The service of each class, by name.
    shares: Vec<(String, Share)>,
}

/// A setting that is changed one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    setting: usize,
    way: Way,
}

/// A change that keeps the condition.
#[derive(Clone, Debug)]
struct Found {
    line: Line,
    value: Quantity,
    size: f64,
    tried: Tried,
}

impl<'a> Search<'a> {
    /// Prepares a search; `seen` is the replay of the load as it was.
    ///
    /// # Errors
    /// When the text of the load's policy cannot be edited.
    pub fn new(
        load: &'a Load,
        conditions: &'a [Condition],
        seen: &Tally,
        bounds: Bounds,
    ) -> Result<Self, String> {
        let stage = &load.stages[0];
        let settings = setting::all(&stage.text, &stage.policy)?;
        let before = conditions.iter().map(|condition| condition.judge(seen).kept).collect();
        Ok(Self {
            load,
            conditions,
            settings_left: settings.len().saturating_sub(SETTINGS_MAX),
            settings,
            before,
            shares: seen.shares(),
            bounds,
            tried: Mutex::new(BTreeMap::new()),
            peaks: conditions.iter().any(Condition::needs_peaks),
        })
    }

    /// Returns the settings that are tried, those of the policy.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Finds what would have kept the condition at this place, which is broken.
    pub fn remedy(&self, target: usize, condition: Judged) -> Remedy {
        let lines = self.lines(target);
        let mut found: Vec<Found> = Vec::new();
        let (mut below, mut is_cut) = (0.0, false);
        for &size in SIZES {
            // Larger changes are of interest only as alternatives.
            let least = found.iter().map(|it| it.size).fold(f64::INFINITY, f64::min);
            if below >= least * ALTERNATIVES {
                break;
            }
            if self.is_spent(lines.len()) {
                is_cut = true;
                break;
            }
            let open = |line: &&Line| !found.iter().any(|it| it.line == **line);
            let open: Vec<Line> = lines.iter().filter(open).copied().collect();
            let work = |at: usize| self.between(open[at], (below, size), target);
            let more = parallel::map(open.len(), work, self.bounds.threads);
            found.extend(more.into_iter().flatten());
            below = size;
        }
        let proposals = self.ranked(found, target);
        let replays = self.replays();
        let settings = self.settings.len().min(SETTINGS_MAX);
        let settings_left = self.settings_left;
        Remedy { condition, proposals, settings, settings_left, replays, is_cut }
    }

    /// Returns each setting with each way, those of the condition's class and of the classes above
    /// it first, up to [`SETTINGS_MAX`].
    fn lines(&self, target: usize) -> Vec<Line> {
        let tree = &self.load.stages[0].policy.link.tree;
        let class = self.conditions[target].class();
        let near: Vec<_> = class.into_iter().flat_map(|class| tree.path(class)).collect();
        let distance = |setting: &Setting| match setting.class {
            None => near.len(),
            Some(class) => near.iter().position(|&own| own == class).unwrap_or(near.len() + 1),
        };
        let mut order: Vec<usize> = (0..self.settings.len()).collect();
        order.sort_by_key(|&place| distance(&self.settings[place]));
        order.truncate(SETTINGS_MAX);
        let ways = |setting| [Way::Up, Way::Down].map(|way| Line { setting, way });
        order.into_iter().flat_map(ways).collect()
    }

    /// Returns the smallest change of a setting in this range of sizes that keeps the condition, if
    /// the largest or, of an order, any of them does.
    fn between(&self, line: Line, (below, size): (f64, f64), target: usize) -> Option<Found> {
        let setting = &self.settings[line.setting];
        if let Some(step) = setting.step() {
            let mut steps = (below / step) as u64 + 1..=(size / step) as u64;
            return steps.find_map(|count| self.at(line, count as f64 * step, target));
        }
        let mut found = self.at(line, size, target).filter(|found| found.size > below)?;
        let mut below = below;
        for _ in 0..HALVINGS {
            if found.size <= below * CLOSE {
                break;
            }
            // Between sizes far apart the middle is that of their ratio.
            let middle = match below > found.size / 4.0 {
                true => (below + found.size) / 2.0,
                false => (below.max(found.size / 64.0) * found.size).sqrt(),
            };
            let value = setting.moved(line.way, middle);
            if value == Some(found.value) {
                break;
            }
            match self.at(line, middle, target) {
                Some(nearer) => found = nearer,
                None => below = middle,
            }
        }
        Some(found)
    }

    /// Changes a setting by at most this size; returns the change if it keeps the condition.
    fn at(&self, line: Line, size: f64, target: usize) -> Option<Found> {
        let setting = &self.settings[line.setting];
        let value = setting.moved(line.way, size)?;
        let tried = self.tried(line.setting, value)?;
        let found = Found { line, value, size: setting.size(value), tried };
        self.keeps(&found.tried, target).then_some(found)
    }

    /// Returns whether a change keeps the condition at `target` and every one that held.
    pub fn keeps(&self, tried: &Tried, target: usize) -> bool {
        let kept = |place: usize| tried.judged[place].kept == Some(true);
        let held = (0..self.conditions.len()).filter(|&place| self.before[place] == Some(true));
        kept(target) && held.into_iter().all(kept)
    }

    /// Replays the load with a setting changed; `None` if the policy has errors with it.
    pub fn tried(&self, setting: usize, value: Quantity) -> Option<Tried> {
        let key = (setting, value.to_string());
        let known = self.tried.lock().ok()?.get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let tried = self.replay(&self.settings[setting], value);
        self.tried.lock().ok()?.insert(key, tried.clone());
        tried
    }

    fn replay(&self, setting: &Setting, value: Quantity) -> Option<Tried> {
        let plans = self.load.changed(setting, value).ok()?;
        let tally = Tally::of(self.load, &plans, self.peaks).ok()?;
        let judged = self.conditions.iter().map(|condition| condition.judge(&tally)).collect();
        Some(Tried { judged, shares: tally.shares() })
    }

    fn replays(&self) -> usize {
        self.tried.lock().map_or(0, |tried| tried.len())
    }

    /// Returns whether trying `lines` more would exceed a bound.
    fn is_spent(&self, lines: usize) -> bool {
        let replays = self.replays() + lines;
        let packets = (replays as u64).saturating_mul(self.load.arrivals.len() as u64);
        replays > self.bounds.replays || packets > self.bounds.packets
    }

    /// Puts the best first: of those that are at most [`NEAR`] times as large as the smallest, the
    /// one that stays when it grows, then the one that harms least; the others by size.
    fn ranked(&self, found: Vec<Found>, target: usize) -> Vec<Proposal> {
        let least = found.iter().map(|it| it.size).fold(f64::INFINITY, f64::min);
        let mut all: Vec<(bool, Proposal)> = Vec::new();
        for one in found {
            let is_near = one.size <= least * NEAR;
            all.push((is_near, self.proposal(one, target)));
        }
        let key = |row: &(bool, Proposal)| {
            let harm = if row.0 { (row.1.harm * 100.0).round() } else { 0.0 };
            (!row.0, row.0 && !row.1.steady, harm, row.1.size)
        };
        all.sort_by(|one, other| key(one).partial_cmp(&key(other)).expect("sizes are numbers"));
        all.truncate(PROPOSALS_MAX);
        all.into_iter().map(|row| row.1).collect()
    }

    fn proposal(&self, found: Found, target: usize) -> Proposal {
        let setting = &self.settings[found.line.setting];
        let larger = setting.step().map_or(found.size * CLOSE, |step| found.size + step);
        let steady = match setting.moved(found.line.way, larger) {
            // It cannot grow.
            None => true,
            Some(value) if value == found.value => true,
            Some(_) => self.at(found.line, larger, target).is_some(),
        };
        let was_broken = |place: &usize| *place != target && self.before[*place] == Some(false);
        let judged = &found.tried.judged;
        let kept = |place: &usize| judged[*place].kept == Some(true);
        let also = (0..self.conditions.len()).filter(was_broken).filter(kept);
        let effects: Vec<Effect> = self.effects(&found.tried).collect();
        let to = found.value.to_string();
        Proposal {
            setting: setting.name(),
            from: shown(setting, setting.now),
            command: command::set(self.load.link.as_ref(), &setting.name(), &to),
            to,
            size: found.size,
            steady,
            harm: effects.iter().map(Effect::harm).fold(0.0, f64::max),
            keeps_also: also.map(|place| self.conditions[place].that.clone()).collect(),
            measured: judged[target].measured,
            effects,
        }
    }

    fn effects(&self, tried: &Tried) -> impl Iterator<Item = Effect> {
        let rows = self.shares.iter().zip(&tried.shares);
        rows.map(|((class, before), (_, after))| Effect {
            class: class.clone(),
            before: *before,
            after: *after,
        })
    }
}

fn shown(setting: &Setting, value: Quantity) -> String {
    if setting.written { value.to_string() } else { format!("{value} (not written)") }
}

impl Effect {
    /// Returns what the class loses, as a part of 1: of its rate, or of its packets.
    fn harm(&self) -> f64 {
        let loss = |share: &Share| share.dropped as f64 / share.offered.max(1) as f64;
        let before = self.before.rate_bps;
        let rate = if before > 0.0 { 1.0 - self.after.rate_bps / before } else { 0.0 };
        rate.max(loss(&self.after) - loss(&self.before)).max(0.0)
    }
}

impl Load {
    /// Returns the plan of each stage with a setting changed, where the stage has its class.
    ///
    /// # Errors
    /// When a policy has errors with it.
    pub fn changed(
        &self,
        setting: &Setting,
        value: Quantity,
    ) -> Result<Vec<weir_core::link::LinkPlan>, String> {
        let class = setting.path.get(1).filter(|_| setting.class.is_some());
        let plan = |(place, stage): (usize, &crate::load::Stage)| {
            let has = |name: &String| {
                let queue = format!("{name}-0");
                stage.policy.class(name).or_else(|| stage.policy.class(&queue)).is_some()
            };
            if place > 0 && !class.is_none_or(has) {
                return Ok(stage.policy.link.clone());
            }
            Ok(stage.reread(&setting.rewrite(&stage.text, value)?)?.link)
        };
        self.stages.iter().enumerate().map(plan).collect()
    }
}

/// The sizes that are tried, from small to large. With them a rate grows to 1025 times what it was,
/// and the link's to 103 times.
pub const SIZES: &[f64] = &[
    0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0,
    32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
];
/// Two sizes are close when one is at most so many times the other.
const CLOSE: f64 = 1.1;
/// The most halvings between two sizes.
const HALVINGS: usize = 10;
/// Changes up to so many times the smallest compete by the harm that they do.
const NEAR: f64 = 1.5;
/// Changes up to so many times the smallest are looked for.
const ALTERNATIVES: f64 = 4.0;
/// Bound: settings that are changed for one condition; further ones are counted.
pub const SETTINGS_MAX: usize = 256;
/// Bound: proposals for one condition; worse ones are left out.
pub const PROPOSALS_MAX: usize = 5;
/// Bound: replays for all conditions unless the caller says otherwise; then the search ends, and
/// that is told.
pub const REPLAYS_MAX: usize = 50_000;
/// Bound: packets of all replays unless the caller says otherwise; then the search ends, and that
/// is told. Some minutes of a processor.
pub const PACKETS_MAX: u64 = 1_000_000_000;
