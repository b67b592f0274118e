//! The steps of the demo on its link after the measurement, while the traffic runs on: it sets
//! other rates and records that, then explains the worst voice packet of the record and replays it.
//!
//! Each step is that of a verb, over the same socket and with the same functions.

use super::figures::{self, Figures};
use super::link::{self, WAY};
use super::live::{LiveRun, Watch, Window};
use super::mix::{Class, NAME, POLICY, POLICY_PATH, SETTINGS};
use super::{Failure, read};
use serde::Serialize;
use std::thread::Scope;
use std::time::Duration;
use weir_control::protocol::{Answer, Changed, Request, Setting, Terms};
use weir_policy::Policy;
use weir_policy::edit::{self, Edit};
use weir_trace::causes::{self, Ask, Story};
use weir_trace::explain::Parts;
use weir_trace::load::Load;
use weir_trace::record::RecordReader;
use weir_trace::recorded::{self, RecordReport};

/// How long the steps take under traffic.
pub(super) const DURATION: Duration = Duration::from_millis(BEFORE_MS + SETTLE_MS + MEASURED_MS);

/// The results of the steps under traffic.
pub(super) struct Trial {
    /// The answer of the link to the change.
    pub changed: Changed,
    /// The link after it.
    pub window: Window,
    /// The record, from before the change to the end.
    pub record: Vec<u8>,
}

/// The figures of the steps.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Later {
    /// The change of the rates, live.
    pub set: Set,
    /// Why the slowest voice packet of the record waited.
    pub explain: Explain,
    /// The record, made again.
    pub replay: Replay,
}

/// A change of the rates, live.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Set {
    /// The command that does the same.
    pub command: String,
    /// A line that names the differences.
    pub what: String,
    /// From when the link read the request until its loop had made the change.
    pub took_us: u64,
    /// How long was measured after it, in seconds.
    pub measured_s: f64,
    /// The classes that want more than they can get.
    pub classes: Vec<Moved>,
    /// The voice packets dropped from the end of the measurement before to the end of this one.
    pub voice_dropped: u64,
}

/// A class before and after. Rates in bit/s by charged length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Moved {
    /// The name of the class.
    pub name: String,
    /// Its fluid share before.
    pub share_before_bps: f64,
    /// The rate sent before.
    pub rate_before_bps: f64,
    /// Its fluid share after.
    pub share_bps: f64,
    /// The rate sent after.
    pub rate_bps: f64,
}

/// Why a packet waited.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explain {
    /// The command that does the same with the record.
    pub command: String,
    /// The explanation, in words.
    pub sentence: String,
    /// How long it waited.
    pub total_ms: f64,
    /// The parts of that.
    pub parts_ms: Parts<f64>,
}

/// A record, made again.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replay {
    /// The command that does the same with the record.
    pub command: String,
    /// How long was recorded, in seconds.
    pub recorded_s: f64,
    /// The length of the record.
    pub bytes: usize,
    /// The record is whole, and the replay had the same events.
    pub identical: bool,
    /// Packets that left in the shaped direction, each at the recorded instant.
    pub departures: u64,
    /// Packets that were dropped there, each at the recorded instant.
    pub drops: u64,
    /// Changes of the policy there.
    pub changes: u64,
    /// The first difference, or why the record is not whole; empty if there is neither.
    pub difference: String,
}

/// Sets other rates under traffic, and records the link meanwhile.
pub(super) fn run<'scope>(
    scope: &'scope Scope<'scope, '_>,
    watch: &mut Watch<'_>,
) -> Result<Trial, Failure> {
    let recording = watch.link.record(scope, DURATION);
    watch.wait(Duration::from_millis(BEFORE_MS), &mut |_| {})?;
    let changed = set(watch)?;
    watch.wait(Duration::from_millis(SETTLE_MS), &mut |_| {})?;
    let window = watch.window(Duration::from_millis(MEASURED_MS))?;
    Ok(Trial { changed, window, record: link::recorded(recording)? })
}

fn set(watch: &Watch<'_>) -> Result<Changed, Failure> {
    let setting = |(key, value): (&str, &str)| Setting {
        direction: None,
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let settings = SETTINGS.map(setting).to_vec();
    let terms = Terms { reason: "the demo shows it".to_owned(), ..Terms::default() };
    match watch.link.ask(&Request::Set { settings, terms })? {
        Answer::Changed(changed) if changed.number.is_some() => Ok(*changed),
        Answer::Changed(changed) => {
            Err(Failure::System(format!("nothing changes: {}", changed.text)))
        }
        _ => Err(Failure::System("the link gave another answer than asked for".to_owned())),
    }
}

impl Later {
    /// Finds what the steps show; `before` are the live figures of the measurement.
    pub(super) fn of(live: &LiveRun, before: &[Figures]) -> Result<Self, Failure> {
        let record = live.trial.record.as_slice();
        Ok(Self {
            set: Set::of(live, before)?,
            explain: Explain::of(record).map_err(Failure::System)?,
            replay: Replay::of(record).map_err(Failure::System)?,
        })
    }
}

impl Set {
    fn of(live: &LiveRun, before: &[Figures]) -> Result<Self, Failure> {
        let Trial { changed, window, .. } = &live.trial;
        let policy = policy_after()?;
        let after = figures::with_shares(&policy.link.tree, figures::live_figures(window));
        let each = policy.link.tree.leaves().zip(before).zip(&after);
        let moved = |(((_, class), before), after): ((_, &Figures), &Figures)| {
            let class: &weir_core::sched::ClassSpec = class;
            figures::is_greedy(&class.name).then(|| Moved {
                name: class.name.clone(),
                share_before_bps: before.share_bps,
                rate_before_bps: before.rate_bps,
                share_bps: after.share_bps,
                rate_bps: after.rate_bps,
            })
        };
        let words = SETTINGS.map(|(key, value)| format!("{key}='{value}'"));
        Ok(Self {
            command: format!("weir set {NAME} {}", words.join(" ")),
            what: changed.what.clone(),
            took_us: changed.took_us,
            measured_s: MEASURED_MS as f64 / 1e3,
            classes: each.filter_map(moved).collect(),
            voice_dropped: voice_dropped(window) - voice_dropped(&live.window),
        })
    }
}

/// Returns the voice packets that were dropped until the end of a measurement.
fn voice_dropped(window: &Window) -> u64 {
    let classes = &window.after.lanes[0].classes;
    let voice = classes.iter().filter(|class| class.name == Class::Voice.name());
    voice.map(|class| figures::dropped(class).packets).sum()
}

/// Returns the policy with what is set.
pub(super) fn policy_after() -> Result<Policy, Failure> {
    let edits = SETTINGS.map(|(key, value)| Edit { key, value });
    let text = edit::set_all(POLICY, &edits).map_err(Failure::System)?;
    read(weir_policy::parse(&text, POLICY_PATH))
}

impl Explain {
    fn of(record: &[u8]) -> Result<Self, String> {
        let load = Load::of_record(record, Some(WAY))?;
        let class = Class::Voice.name().to_owned();
        let ask = Ask { class: Some(class), packet: None, worst: 1, ..Ask::default() };
        let causes = causes::look(&load, &ask).map_err(|error| error.to_string())?;
        let story: &Story = causes.stories.first().ok_or("the record has no voice packet")?;
        let voice = Class::Voice.name();
        Ok(Self {
            command: format!("weir explain {FILE} --direction {WAY} --class {voice} --worst 1"),
            sentence: story.to_string(),
            total_ms: story.total_ms,
            parts_ms: story.parts_ms,
        })
    }

    /// Returns the sum of the parts, in ms.
    pub(super) fn sum_ms(&self) -> f64 {
        let Parts { own_leaf, line_busy, tokens, undertime, ceiling, upper_limit, others } =
            self.parts_ms;
        own_leaf + line_busy + tokens + undertime + ceiling + upper_limit + others
    }
}

impl Replay {
    fn of(record: &[u8]) -> Result<Self, String> {
        let reader = RecordReader::new(record).map_err(|error| error.to_string())?;
        let report = recorded::replay(reader).map_err(|error| error.to_string())?;
        let way = report.directions.iter().find(|way| way.direction == WAY);
        let way = way.cloned().unwrap_or_default();
        Ok(Self {
            command: format!("weir replay --record {FILE}"),
            recorded_s: DURATION.as_secs_f64(),
            bytes: record.len(),
            identical: report.is_identical() && report.is_whole,
            departures: way.departures,
            drops: way.drops,
            changes: way.changes,
            difference: difference(&report),
        })
    }
}

fn difference(report: &RecordReport) -> String {
    match (&report.difference, &report.fault) {
        (Some(difference), _) => difference.to_string(),
        (None, Some(fault)) => fault.clone(),
        (None, None) if report.is_whole => String::new(),
        (None, None) => report.end.unwrap_or("it has no end").to_owned(),
    }
}

/// A file that `weir record` would write.
pub(super) const FILE: &str = "demo.pcapng";
/// The traffic before the change that the record has.
const BEFORE_MS: u64 = 1_000;
/// TCP finds its window again.
const SETTLE_MS: u64 = 1_000;
const MEASURED_MS: u64 = 3_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_rates_exchange_the_shares_of_the_greedy_classes() {
        let policy = policy_after().expect("the policy has no error with them");
        let offered = |offered_bps| Figures { offered_bps, ..Figures::default() };
        let offered = [0.1e6, 60e6, 1.7e6, 10e6].map(offered).to_vec();
        let shares = figures::with_shares(&policy.link.tree, offered);
        for (figures, expected) in shares.iter().zip([0.1e6, 10.4e6, 1.7e6, 7.8e6]) {
            assert!((figures.share_bps - expected).abs() < 1.0, "{figures:?}");
        }
    }

    #[test]
    fn what_is_no_record_is_neither_explained_nor_replayed() {
        for record in [&b""[..], b"no record"] {
            assert!(Explain::of(record).is_err() && Replay::of(record).is_err());
        }
    }
}
