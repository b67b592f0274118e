//! The data of the page, as JSON: what each route below `/view` takes and returns.
//!
//! Times are milliseconds since 1970. Rates are bits a second, bytes as the policy charges them.
//! Delays are microseconds. `None` stands for what is not known.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
pub use weir_trace::series::{ClassHistory, Heat, History, Loan};

/// The answer to `GET /view/about`: the link, record or report on view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// `live`, `record` or `report`.
    pub kind: String,
    /// The name of the deployment or of the file.
    pub name: String,
    /// The version of Weir.
    pub weir: String,
    /// The clock of the server.
    pub now: f64,
    /// The first instant of the history that is kept.
    pub from: f64,
    /// The last instant, in milliseconds since 1970.
    pub to: f64,
    /// Since when single packets are known, and the link can be forked; `None` if they are not.
    pub kept: Option<f64>,
    /// The time between two points of the history.
    pub step_ms: u32,
    /// Requests that the server could not answer because of a fault of its own.
    pub panics: u64,
    /// The actions that it allows.
    pub abilities: Abilities,
    /// The directions, in the order of the deployment.
    pub directions: Vec<Direction>,
}

/// The rights of a request's token on what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// Change the policy of a link.
    pub change: bool,
    /// May see single packets.
    pub packets: bool,
    /// Let the simulator go on from a moment of the past.
    pub fork: bool,
    /// Make a change on trial.
    pub confirm: bool,
    /// See a simulation of the same beside it.
    pub beside: bool,
    /// See reservations by RSVP, which the link takes.
    pub reservations: bool,
}

/// A direction of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// The name of the direction.
    pub name: String,
    /// The interface that it reads.
    pub from: String,
    /// The interface that it writes.
    pub to: String,
    /// The rate of its link.
    pub rate_bps: f64,
    /// The keyword of its scheduler.
    pub scheduler: String,
    /// The identity of its policy, in hexadecimal digits.
    pub policy: String,
    /// Leaves that are not among the classes: there are too many.
    pub left_out: u64,
    /// Its classes, each behind its parent.
    pub classes: Vec<Class>,
}

/// A class of a direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The name of the class.
    pub name: String,
    /// The place of its parent in the list; `None` directly below the link.
    pub parent: Option<usize>,
    /// Whether packets wait in it, and not in classes below it.
    pub leaf: bool,
    /// Its rate in bit/s while all classes want more than they get.
    pub share_bps: Option<f64>,
    /// The most that it may have.
    pub ceiling_bps: Option<f64>,
    /// Its parameters, by name, as the policy writes their values.
    pub parameters: Vec<(String, String)>,
}

/// The query of `GET /view/history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryQuery {
    /// From when; from the beginning without it.
    pub from: Option<f64>,
    /// Until when; until now without it.
    pub to: Option<f64>,
    /// The direction; the first one without it.
    pub direction: Option<String>,
    /// The time between two points in milliseconds, a multiple of that of the history.
    pub step: Option<u32>,
}

/// The query of `GET /view/heat`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeatQuery {
    /// The name of the class.
    pub class: String,
    /// The direction; the first one without it.
    pub direction: Option<String>,
    /// The first instant, in milliseconds since 1970.
    pub from: Option<f64>,
    /// The last instant, in milliseconds since 1970.
    pub to: Option<f64>,
}

/// A sample of the stream: the event `sample` of `GET /view/stream`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The instant, in milliseconds since 1970.
    pub t: f64,
    /// Of each class of the direction, in the order of [`Direction::classes`].
    pub classes: Vec<Option<Now>>,
    /// Borrower, lender (-1 for the link) and bits a second; places in the same order.
    pub loans: Vec<(usize, i64, f64)>,
    /// Since when single packets are known, in milliseconds since 1970.
    #[serde(default)]
    pub kept: Option<f64>,
    /// How often a second the scheduler found packets of no class, of one, and of several.
    #[serde(default)]
    pub found: (f64, f64, f64),
    /// How the rate follows the capacity of a line, if it does.
    #[serde(default)]
    pub varies: Option<Varies>,
}

/// A rate that follows the capacity of a line, at an instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Varies {
    /// The rate, in bit/s.
    pub rate_bps: f64,
    /// The delay behind the link in µs, if anything tells.
    pub delay_us: Option<f64>,
    /// How long it may be, in µs.
    pub target_us: f64,
    /// The delay and the reason of the rate, as people read them.
    pub text: String,
}

/// A class at an instant: bits a second that left and that arrived, bytes that wait, the median
/// delay, the delay that 99 in 100 packets did not exceed, packets dropped a second, and bits a
/// second borrowed.
pub type Now = (f64, f64, f64, Option<f64>, Option<f64>, f64, f64);

/// The query of the stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamQuery {
    /// The direction; the first one without it.
    pub direction: Option<String>,
}

/// A span of time, of which events are asked for: `GET /view/events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpanQuery {
    /// The first instant, in milliseconds since 1970.
    pub from: Option<f64>,
    /// The last instant, in milliseconds since 1970.
    pub to: Option<f64>,
}

/// A mark on the axis of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// The instant, in milliseconds since 1970.
    pub t: f64,
    /// The kind of the event, as docs/events.md lists them.
    pub kind: String,
    /// The event in a sentence.
    pub text: String,
    /// `critical`, `error`, `warning`, `notice` or `info`.
    pub level: String,
}

/// The query of `GET /view/knobs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnobsQuery {
    /// The direction; the first one without it.
    pub direction: Option<String>,
}

/// The query of `GET /view/promises`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromisesQuery {
    /// The direction; the first one without it.
    pub direction: Option<String>,
}

/// The promises of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Promises {
    /// The promises of the policy: its `[[promise]]` and each class's `delay`.
    pub promises: Vec<Promise>,
    /// Promises that it does not make, and that its bounds keep.
    pub offers: Vec<Promise>,
}

/// A condition on the results of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The condition as written.
    pub that: String,
    /// The scenario under which `weir test` decides it.
    pub under: Option<String>,
    /// The class; `None` for all of them.
    pub class: Option<String>,
    /// The measure: a metric of docs/promises.md, or `fairness`.
    pub metric: String,
    /// `<`, `<=`, `>` or `>=`.
    pub comparison: String,
    /// The goal: bit/s, µs, packets, bytes, or a part of one.
    pub goal: Option<f64>,
    /// The other measure that the goal is a part of.
    pub part_of: Option<PartOf>,
}

/// A part of a measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartOf {
    /// The part, as a factor.
    pub part: f64,
    /// The class; `None` for all of them.
    pub class: Option<String>,
    /// The measure.
    pub metric: String,
}

/// A setting that can be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Knob {
    /// The key, as `weir set` takes it.
    pub key: String,
    /// The class that it belongs to; `None` for the link.
    pub class: Option<String>,
    /// The name of the parameter.
    pub parameter: String,
    /// Its effect, in a sentence.
    pub summary: String,
    /// The unit of the numbers: `bit/s`, `bytes`, `packets`, `s`, `1` for a share of one, or none.
    pub unit: String,
    /// Its value as the policy writes it; `None` where the policy has none.
    pub value: Option<String>,
    /// The value in force, in the unit.
    pub number: Option<f64>,
    /// The smallest value, in `unit`.
    pub min: Option<f64>,
    /// The largest value, in `unit`.
    pub max: Option<f64>,
    /// The words that it takes, if it takes words.
    pub choices: Option<Vec<String>>,
    /// The value where the policy has none.
    pub default: String,
}

/// A setting and its new value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingChange {
    /// The direction, where policies differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The key, as `weir set` takes it.
    pub key: String,
    /// The value; empty to remove the key.
    pub value: String,
}

/// The body of `POST /view/predict`: settings to try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predict {
    /// The direction of the classes that are told of; the first one without it.
    #[serde(default)]
    pub direction: Option<String>,
    /// The settings to try, in their order.
    pub settings: Vec<SettingChange>,
}

/// The answer to `POST /view/predict`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The number of errors; with one, nothing can be changed so.
    pub errors: usize,
    /// The findings of the change, as `weir check --format json` prints them.
    pub findings: Vec<Value>,
    /// The findings that the policy has without it, too.
    pub standing: Vec<Value>,
    /// The changes, as `weir diff` prints them.
    pub difference: String,
    /// The classes of the direction.
    pub classes: Vec<Predicted>,
}

/// A class before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The name of the class.
    pub name: String,
    /// Its rates in bit/s while all classes want more than they get, before and after.
    pub share_bps: (Option<f64>, Option<f64>),
    /// The longest delay, where the policy says what its class sends.
    pub delay_bound_us: Option<(Option<f64>, Option<f64>)>,
    /// The rate that it gets in the long run, whatever the others send.
    pub at_least_bps: Option<(Option<f64>, Option<f64>)>,
}

/// Which packets are asked for: `GET /view/packets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PacketsQuery {
    /// The direction; the first one without it.
    pub direction: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only packets that left or were dropped behind this instant.
    pub from: Option<f64>,
    /// Only packets that left or were dropped up to this instant.
    pub to: Option<f64>,
    /// Only packets whose delay is at least this.
    pub delay_min_us: Option<f64>,
    /// The delay above all others.
    pub delay_max_us: Option<f64>,
    /// The most packets; 100 without it.
    pub limit: Option<u32>,
}

/// Packets, each with what its delay is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packets {
    /// The packets, at most the limit of the query.
    pub packets: Vec<Packet>,
    /// The time that the record covers.
    pub covers: (f64, f64),
    /// Packets that fit and are not among them.
    pub left_out: u64,
}

/// A packet and the parts of its delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packet {
    /// Its number among those of its class in the record, as `weir explain --packet` takes it.
    pub n: u64,
    /// The name of its class.
    pub class: String,
    /// When it was offered.
    pub offered: f64,
    /// Bytes, as the policy charges them.
    pub bytes: u64,
    /// Microseconds from arrival to departure.
    pub total_us: f64,
    /// The parts of the delay, by cause.
    pub parts_us: BTreeMap<String, f64>,
    /// The class whose limit held it back longest, and the rule.
    pub regulated_by: Option<(String, String)>,
    /// The class on whose account it left.
    pub lender: Option<String>,
    /// Why it was dropped.
    pub dropped: Option<String>,
    /// All of that in words.
    pub sentence: String,
}

/// From where the simulator goes on: `POST /view/fork` and `POST /view/reacting`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkQuery {
    /// The direction; the first one without it.
    #[serde(default)]
    pub direction: Option<String>,
    /// The instant at which the fork leaves the record, in milliseconds since 1970.
    pub at: f64,
    /// The settings from there on.
    #[serde(default)]
    pub settings: Vec<SettingChange>,
    /// For how long it goes on.
    pub seconds: f64,
    /// The card that takes the packets from there on; without one the line does, as it did.
    #[serde(default)]
    pub card: Option<Card>,
}

/// A model of a card with a ring of 128 packets, that of `[quadros §4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Card {
    /// It reports when all that it was given is sent.
    Chain,
    /// It reports each packet.
    Packet,
}

/// The totals of a class over a whole future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Packets that left the link.
    pub sent_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// The mean delay of those that left.
    pub delay_mean_us: Option<f64>,
}

/// How often a card asked the scheduler for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardRuns {
    /// In all, also where nothing waited.
    pub all: u64,
    /// While packets of several classes waited.
    pub contended: u64,
}

/// Two futures of a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fork {
    /// The ends of the intervals.
    pub t: Vec<f64>,
    /// The length of the intervals, in milliseconds.
    pub step_ms: f64,
    /// The classes as they were recorded.
    pub recorded: BTreeMap<String, ClassHistory>,
    /// The classes with other settings.
    pub forked: BTreeMap<String, ClassHistory>,
    /// The totals of each class in the record.
    pub recorded_totals: BTreeMap<String, Totals>,
    /// The totals of each class in the fork.
    pub forked_totals: BTreeMap<String, Totals>,
    /// How often the card asked the scheduler for a packet; `null` without a card.
    pub runs: Option<CardRuns>,
    /// Whether both are the same, packet for packet.
    pub identical: bool,
    /// The packets of both.
    pub packets: u64,
    /// The first packet that differs, in words.
    pub first_difference: Option<String>,
    /// Whether sources send what they sent, whatever becomes of it: always.
    pub open_loop: bool,
}

/// The query of `GET /view/beside`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BesideQuery {
    /// The direction; the simulated one without it.
    pub direction: Option<String>,
}

/// A live run and its simulation, in the same intervals from the first packet of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The ends of the intervals.
    pub t: Vec<f64>,
    /// The length of the intervals, in milliseconds.
    pub step_ms: f64,
    /// The classes of the live run.
    pub live: BTreeMap<String, ClassHistory>,
    /// The classes of the simulation; what waited and what was borrowed is not known.
    pub simulated: BTreeMap<String, ClassHistory>,
    /// The compared quantities, in a sentence.
    pub about: String,
}

/// The points of a sweep or a comparison, of `GET /view/runs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The name of the scenario or of the sweep.
    pub name: String,
    /// The keys that vary.
    pub keys: Vec<String>,
    /// The metrics of each point.
    pub metrics: Vec<Metric>,
    /// The points, in their order.
    pub points: Vec<Point>,
    /// Points that are not among them: there are too many.
    pub left_out: usize,
}

/// A metric of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The name, such as `voice.delay.p99`.
    pub name: String,
    /// The unit of its values here.
    pub unit: String,
    /// Whether more of it is better.
    pub more: bool,
}

/// A point: values of the keys, and what came out of its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The values of the keys.
    pub values: Vec<String>,
    /// Each metric: the mean, and half of its 95 % interval; `None` where nothing was measured.
    pub results: Vec<Option<(f64, Option<f64>)>>,
    /// Why it was not run, or what was left out.
    pub error: Option<String>,
    /// The numbers of its runs, by which the page opens them.
    pub runs: Vec<usize>,
}
