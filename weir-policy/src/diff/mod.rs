//! The effective difference between two policies: which packets go to another class, and what
//! classes get before and after.

pub mod moves;
pub mod printed;
pub mod region;
pub mod settings;
mod text;

pub use moves::{Move, Moves};
pub use region::Region;
pub use settings::{Setting, line};
pub use text::text;

use crate::calculus::{self, AtLeast, Bound, Effective};
use crate::policy::Policy;
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_core::ids::LeafId;

/// All effective differences between two policies.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Difference {
    /// Which packets go to another class.
    pub moves: Moves,
    /// Classes that only the first policy has.
    pub gone: Vec<String>,
    /// Classes that only the second policy has.
    pub new: Vec<String>,
    /// Classes of both whose figures differ.
    pub changed: Vec<ClassChange>,
    /// Values that are written differently.
    pub settings: Vec<Setting>,
}

/// The guarantees and rates of a class in one of the policies.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Standing {
    /// The bounds that hold whatever the others do.
    pub bound: Bound,
    /// Its least rate in the long run.
    pub at_least: AtLeast,
    /// Its rate while all want more, in bit/s.
    pub greedy: Option<f64>,
    /// Its rate when it sends alone, in bit/s.
    pub alone: Option<f64>,
}

/// A class before and after.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassChange {
    /// The name, which both policies have.
    pub name: String,
    /// In the first policy.
    pub before: Standing,
    /// In the second policy.
    pub after: Standing,
}

impl Difference {
    /// Compares `old` with `new`.
    pub fn between(old: &Policy, new: &Policy) -> Self {
        let (before, after) = (standings(old), standings(new));
        let by_name = |all: &[(String, Standing)]| all.iter().cloned().collect::<BTreeMap<_, _>>();
        let (old_names, new_names) = (by_name(&before), by_name(&after));
        let only = |these: &[(String, Standing)], those: &BTreeMap<String, Standing>| {
            let names = these.iter().map(|row| &row.0);
            names.filter(|name| !those.contains_key(*name)).cloned().collect()
        };
        let changed = before.iter().filter_map(|(name, before)| {
            let (before, after) = (*before, *new_names.get(name)?);
            before.differs(&after).then(|| ClassChange { name: name.clone(), before, after })
        });
        Self {
            changed: changed.collect(),
            moves: moves::moves(old, new),
            gone: only(&before, &new_names),
            new: only(&after, &old_names),
            settings: settings::settings(old, new),
        }
    }

    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.moves.moves.is_empty()
            && !self.moves.given_up
            && self.gone.is_empty()
            && self.new.is_empty()
            && self.changed.is_empty()
            && self.settings.is_empty()
    }
}

impl Standing {
    /// Returns each figure with its name, in the order of tables; `None` where unknown.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 5] {
        let megabits = |bits_per_second: f64| bits_per_second / 1e6;
        [
            ("at least Mbit/s", self.at_least.rate.map(megabits)),
            ("delay ms", self.bound.delay.map(|seconds| seconds * 1e3)),
            ("backlog B", self.bound.backlog),
            ("greedy Mbit/s", self.greedy.map(megabits)),
            ("alone Mbit/s", self.alone.map(megabits)),
        ]
    }

    /// Returns for each figure why it is unknown, or what it assumes.
    pub fn notes(&self) -> [Option<Cow<'static, str>>; 5] {
        let missing = |figure: Option<f64>, why: &'static str| {
            if figure.is_some() { None } else { Some(Cow::Borrowed(why)) }
        };
        [
            self.at_least.note.map(|note| Cow::Borrowed(note.text())),
            self.note_on_delay(),
            missing(self.bound.backlog, UNBOUNDED),
            missing(self.greedy, if self.bound.follows { FOLLOWS } else { BY_PACKETS }),
            missing(self.alone, if self.bound.follows { FOLLOWS } else { IDLES }),
        ]
    }

    /// Returns the time, in words, that its packets wait for each other flow, where its flows take
    /// turns and so no delay is known.
    pub fn turn(&self) -> Option<String> {
        let turn = self.bound.turn.filter(|_| self.bound.delay.is_none());
        turn.map(calculus::shown)
    }

    /// Returns why the delay is unknown, or so long, and what shortens it.
    fn note_on_delay(&self) -> Option<Cow<'static, str>> {
        let Bound { delay, better_burst, is_of_queue, is_overbooked, is_pair, .. } = self.bound;
        if let Some(turn) = self.turn() {
            return Some(Cow::Owned(format!("{OVERTAKEN_BEGIN} {turn} {OVERTAKEN_END}")));
        }
        if let Some(better) = better_burst {
            let (keys, delay) = (better.keys(), calculus::shown(better.delay));
            return Some(Cow::Owned(format!(
                "its burst is shorter than the time that others may make it wait, and each wait \
                 costs it rate; with {keys} this is {delay}"
            )));
        }
        match delay {
            None if self.bound.follows => Some(Cow::Borrowed(FOLLOWS)),
            None if is_overbooked => Some(Cow::Borrowed(OVERBOOKED)),
            None if is_pair => Some(Cow::Borrowed(PAIRED)),
            None => Some(Cow::Borrowed(UNBOUNDED)),
            Some(delay) if is_of_queue && delay > LONG => Some(Cow::Borrowed(FULL_QUEUE)),
            Some(_) => None,
        }
    }

    fn differs(&self, other: &Standing) -> bool {
        self.figures().iter().zip(other.figures()).any(|(one, other)| differ(one.1, other.1))
    }
}

/// Returns whether two figures differ by more than rounding.
pub fn differ(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() > 1e-6 * one.abs().max(other.abs()),
        (one, other) => one.is_some() != other.is_some(),
    }
}

/// Returns the name of each leaf of a policy, in their order in the file, and what it gets.
pub fn standings(policy: &Policy) -> Vec<(String, Standing)> {
    let bounds = calculus::bounds(&policy.link, &policy.demands);
    let at_least = calculus::at_least(&policy.link, &policy.demands);
    let Effective { greedy, alone } = Effective::of(&policy.link);
    let row = |(leaf, bound): (usize, Bound)| {
        let name = policy.leaf_name(LeafId(leaf as u32)).to_owned();
        let (greedy, alone) = (greedy[leaf], alone[leaf]);
        (name, Standing { bound, at_least: at_least[leaf], greedy, alone })
    };
    bounds.into_iter().enumerate().map(row).collect()
}

/// Why figures are unknown, or so large.
const UNBOUNDED: &str = "nothing bounds how long other classes keep it waiting; declare `arrival` \
                         for those that go before it, or choose another scheduler";
const OVERBOOKED: &str = "the real-time curves of all classes together ask for more than the link \
                          sends (W152), so none has a bound: lower their slopes";
const OVERTAKEN_BEGIN: &str = "its flows take turns, so a packet does not wait for the queues of \
                               others, but for a packet of each other flow (or host) that sends:";
const OVERTAKEN_END: &str = "for each, at the rate that the class is sure of. How many send is \
                             not known, so there is no bound. That is as it should be; who needs \
                             one gives those packets a class with one queue for all, and an \
                             `arrival`";
const FOLLOWS: &str = "the rate of the link follows that at which packets arrive \
                       (`follows_arrivals`), so nothing is known beforehand";
const PAIRED: &str = "packets of its two queues overtake each other, so there is no bound; who \
                      needs one gives those packets a class with one queue for all, and an \
                      `arrival`";
const FULL_QUEUE: &str = "that is how long its full queue takes, since it declares no `arrival`. \
                          Calls want less than 50 ms: a smaller `limit`, or `isolate`, keeps it \
                          short";
const BY_PACKETS: &str = "the order of single packets decides how much it gets of what others \
                          leave; what it gets at least is in the first column";
const IDLES: &str = "the line may idle although its packets wait, and for how long is unknown";
/// The seconds beyond which a full queue is worth a word.
const LONG: f64 = 0.25;
