//! Which classes a reader asks for: those whose names match a pattern, the first of an order, and
//! never more than it can take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_core::ids::LeafId;
use weir_core::units::Instant;

use super::Status;
use super::board::Board;
use super::counts::{LaneLabels, Rows, Snapshot};
use super::history::Recents;
use super::leaves::CountsOfLeaves;
use weir_host::wait::monotonic_ns;

/// Bound: classes of an answer unless a query says otherwise; the answer says how many more there
/// are.
pub const CLASSES_DEFAULT: u32 = 1000;
/// Bound: classes of an answer; a query for more is refused.
pub const CLASSES_MAX: u32 = 100_000;
/// The most hosts of a class in an answer.
pub const HOSTS_MAX: u32 = 100;
/// The most bytes of a pattern, and of a filter.
pub const PATTERN_MAX: usize = 256;

/// Which classes to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Only classes with such a name: `*` stands for any characters, `?` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Only classes whose names hold this, in any case, and those below a class whose name does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The classes with the most of this come first; without it, the order is that of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// Where not all may come, those with the most of this do; without it, those that come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Sort>,
    /// No more than so many, of all directions together; [`CLASSES_DEFAULT`] unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// No more than so many of each direction, within `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_direction: Option<u32>,
    /// With the last counts that the loop gave, which are about a second old at most, and not with
    /// newer ones: such an answer comes at once and costs the loop nothing. Counts of hosts are
    /// always new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latest: bool,
    /// With the counts of delays in bins, see [`super::ClassStatus::bins`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bins: bool,
    /// With so many hosts of each class in which hosts take turns, see
    /// [`super::ClassStatus::hosts`]; at most [`HOSTS_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
}

/// A quantity by which classes are ordered, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Bytes sent since the start.
    Rate,
    /// The delay that 99 in 100 packets did not exceed.
    Delay,
    /// Packets dropped and lost since the start.
    Drops,
    /// Bytes that wait now.
    Backlog,
    /// Bits sent in the last second.
    RecentRate,
    /// The delay that 99 in 100 packets of the last ten seconds did not exceed.
    RecentDelay,
    /// Packets dropped and lost in the last second.
    RecentDrops,
}

impl Query {
    /// Returns what is wrong with the query, if something is.
    ///
    /// # Errors
    /// When the pattern is too long, or it asks for too many classes.
    pub fn check(&self) -> Result<(), String> {
        for (what, text) in [("pattern", &self.class), ("filter", &self.filter)] {
            let bytes = text.as_ref().map_or(0, String::len);
            if bytes > PATTERN_MAX {
                return Err(format!(
                    "the {what} for classes has {bytes} bytes; write one of at most {PATTERN_MAX}"
                ));
            }
        }
        if let Some(hosts) = self.hosts.filter(|hosts| *hosts > HOSTS_MAX) {
            return Err(format!(
                "{hosts} hosts of a class are more than an answer holds; ask for at most \
                 {HOSTS_MAX}"
            ));
        }
        match self.limit.max(self.per_direction) {
            Some(limit) if limit > CLASSES_MAX => Err(format!(
                "{limit} classes are more than an answer holds; ask for at most {CLASSES_MAX}, or \
                 for some by a pattern"
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether its pattern matches this name.
    pub fn matches(&self, name: &str) -> bool {
        self.class.as_ref().is_none_or(|pattern| matches(pattern, name))
    }
}

impl Sort {
    /// All keys, with the words by which users name them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("rate", Self::Rate),
        ("delay", Self::Delay),
        ("drops", Self::Drops),
        ("backlog", Self::Backlog),
        ("recent-rate", Self::RecentRate),
        ("recent-delay", Self::RecentDelay),
        ("recent-drops", Self::RecentDrops),
    ];

    /// Returns by how much a leaf is ordered. In the first second of a policy nothing is recent:
    /// then it is what was counted since the start.
    fn key(self, snapshot: &Snapshot, recents: Option<&Recents>, number: usize) -> u64 {
        let counts = snapshot.leaves.of(number);
        let recent = recents.and_then(|recents| recents.leaf(number)).map(|(recent, _)| recent);
        // Rates of less than one differ, too.
        let scaled = |value: f64| (value * 1000.0) as u64;
        match (self, recent) {
            (Self::RecentRate, Some(recent)) => scaled(recent.second.sent_bps),
            (Self::RecentDelay, Some(recent)) => scaled(recent.delay.p99_us),
            (Self::RecentDrops, Some(recent)) => scaled(recent.second.lost_pps),
            (Self::Rate | Self::RecentRate, _) => counts.account.sent.bytes,
            (Self::Delay | Self::RecentDelay, _) => snapshot.delay(number).p99().as_nanos(),
            (Self::Drops | Self::RecentDrops, _) => counts.lost_total(),
            (Self::Backlog, _) => counts.account.backlog.bytes,
        }
    }
}

/// Returns the status of several loops of a process, with the classes that `query` asks for. A loop
/// that gives no new counts within `patience` is told of with its last ones, whose age is in the
/// status; `None` if one never gave any.
pub fn read(boards: &[Arc<Board>], query: &Query, patience: Duration) -> Option<Status<Rows>> {
    let all = boards.iter().map(|board| match query.hosts {
        Some(_) => board.newer_with_hosts(patience),
        None if query.latest => board.last(patience),
        None => board.newer_or_last(patience),
    });
    let seen = |(snapshot, board): (Option<Arc<Snapshot>>, &Arc<Board>)| {
        let snapshot = snapshot?;
        Some(Seen { recents: board.recents(&snapshot.labels), snapshot })
    };
    let all = all.zip(boards).map(seen).collect::<Option<Vec<_>>>()?;
    let chosen = choose(&all, query);
    let now = Instant::from_nanos(monotonic_ns());
    let of = |(index, Seen { snapshot, recents }): (usize, &Seen)| {
        let rows = |lane: usize, first: usize| {
            let here = chosen.iter().filter(|leaf| leaf.way == (index, lane));
            let leaves = here.map(|leaf| leaf.leaf);
            let rows = Rows::new(snapshot, recents.as_deref(), (lane, first), leaves);
            let rows = match query.hosts {
                Some(most) => rows.with_hosts(snapshot, first, most),
                None => rows,
            };
            if query.bins { rows.with_bins(snapshot, first) } else { rows }
        };
        snapshot.status(now, recents.as_deref(), rows)
    };
    all.iter().enumerate().map(of).reduce(Status::join)
}

/// The counts of a loop, and what it did in the last seconds.
struct Seen {
    snapshot: Arc<Snapshot>,
    recents: Option<Arc<Recents>>,
}

/// A class that a query may choose.
struct Candidate {
    /// The loop, and its lane.
    way: (usize, usize),
    leaf: LeafId,
    /// The number of the leaf among those of all lanes of the loop.
    number: usize,
}

/// Returns the classes that the query asks for, in its order.
fn choose(all: &[Seen], query: &Query) -> Vec<Candidate> {
    let limit = query.limit.unwrap_or(CLASSES_DEFAULT).min(CLASSES_MAX) as usize;
    let candidates = all.iter().enumerate().flat_map(|(index, Seen { snapshot, .. })| {
        let mut number = 0;
        let lanes = snapshot.labels.lanes.iter().enumerate();
        lanes.flat_map(move |(lane, labels)| {
            let first = number;
            number += labels.leaves.len();
            of_lane(query, labels, (&snapshot.leaves, first)).map(move |leaf| Candidate {
                way: (index, lane),
                leaf: LeafId(leaf as u32),
                number: first + leaf,
            })
        })
    });
    let Some(choice) = query.largest.or(query.sort) else {
        return first_of_each(candidates, query.per_direction).take(limit).collect();
    };
    // Stable, so that equal ones stay in the order of the policy.
    let order = |candidates: &mut Vec<Candidate>, sort: Sort| {
        candidates.sort_by_cached_key(|candidate| {
            let Seen { snapshot, recents } = &all[candidate.way.0];
            std::cmp::Reverse(sort.key(snapshot, recents.as_deref(), candidate.number))
        });
    };
    let mut candidates: Vec<_> = candidates.collect();
    if query.largest.is_some() {
        // Of equal ones, such as idle ones, as many of each direction.
        candidates.sort_by_key(|candidate| candidate.leaf);
    }
    order(&mut candidates, choice);
    let first = first_of_each(candidates.into_iter(), query.per_direction);
    let mut chosen: Vec<_> = first.take(limit).collect();
    if query.sort == Some(choice) {
        return chosen;
    }
    chosen.sort_unstable_by_key(|candidate| (candidate.way, candidate.leaf));
    if let Some(sort) = query.sort {
        order(&mut chosen, sort);
    }
    chosen
}

/// Returns the leaves of a lane whose names the query asks for, in their order.
fn of_lane<'a>(
    query: &'a Query,
    labels: &'a LaneLabels,
    (counts, first): (&'a CountsOfLeaves, usize),
) -> impl Iterator<Item = usize> + 'a {
    let filter = query.filter.as_deref().map(|text| Filter::of(labels, text));
    (0..labels.leaves.len()).filter(move |leaf| {
        let is_it = |name: &str| {
            let passes = |filter: &Filter| filter.passes(labels, *leaf, name);
            query.matches(name) && filter.as_ref().is_none_or(passes)
        };
        let at_place =
            labels.shape.tenants().has_name(*leaf, counts.of(first + *leaf).tenant, is_it);
        at_place.unwrap_or_else(|| is_it(&labels.leaves[*leaf]))
    })
}

/// Returns the first candidates of each direction, no more than so many, in their order.
fn first_of_each(
    candidates: impl Iterator<Item = Candidate>,
    most: Option<u32>,
) -> impl Iterator<Item = Candidate> {
    let mut taken = BTreeMap::new();
    candidates.filter(move |candidate| {
        let taken: &mut u32 = taken.entry(candidate.way).or_default();
        *taken = taken.saturating_add(1);
        most.is_none_or(|most| *taken <= most)
    })
}

/// A filter, with what it finds in the names of the classes above the leaves of a lane.
struct Filter {
    text: String,
    /// Whether the name of each class of the shape holds it.
    above: Vec<bool>,
}

impl Filter {
    fn of(labels: &LaneLabels, text: &str) -> Self {
        let text = text.to_lowercase();
        let classes = labels.shape.classes();
        let above = classes.map(|(_, class)| class.name.to_lowercase().contains(&text)).collect();
        Self { text, above }
    }

    fn passes(&self, labels: &LaneLabels, leaf: usize, name: &str) -> bool {
        let mut up = labels.shape.upwards(LeafId(leaf as u32));
        up.any(|class| self.above[class as usize]) || name.to_lowercase().contains(&self.text)
    }
}

/// Returns whether `name` is as `pattern` says. It goes back only to the last `*`, so the time is
/// at most the product of both lengths, whatever the pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Behind the last `*`, and where in the name what follows it was last tried.
    let mut star = None;
    while read < name.len() {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, read));
        } else if pattern.get(at).is_some_and(|&one| one == '?' || one == name[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((behind, tried)) = star {
            (at, read) = (behind, tried + 1);
            star = Some((behind, tried + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("voice", &["voice"], &["voices", "a voice", "", "Voice"]),
            ("*", &["", "x", "a/b"], &[]),
            ("home-*", &["home-", "home-7", "home-7/web"], &["home", "ahome-7"]),
            ("*/web", &["a/web", "/web", "a/web/web"], &["web", "a/web2"]),
            ("h?me*7", &["home7", "hime-7-77"], &["hme7", "home-8"]),
            ("*a*b*", &["ab", "xaxbx", "aabb"], &["ba", "a", "bbbb"]),
            ("", &[""], &["x"]),
            ("b?r", &["bär", "b*r"], &["baer"]),
            ("[a]", &["[a]"], &["a"]),
        ];
        for (pattern, good, bad) in rows {
            good.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            bad.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        }
        // Nothing takes long, however often the pattern must go back.
        assert!(!matches(&"*a".repeat(PATTERN_MAX / 2), &"a".repeat(127)));
    }

    #[test]
    fn a_query_beyond_a_bound_is_refused_with_the_bound() {
        let pattern = |bytes: usize| Query { class: Some("x".repeat(bytes)), ..Query::default() };
        let limit = |limit| Query { limit: Some(limit), ..Query::default() };
        let rows = [
            (Query::default(), None),
            (pattern(PATTERN_MAX), None),
            (pattern(PATTERN_MAX + 1), Some("257 bytes; write one of at most 256")),
            (limit(CLASSES_MAX), None),
            (limit(CLASSES_MAX + 1), Some("at most 100000")),
            (
                Query { filter: Some("x".repeat(300)), ..limit(1) },
                Some("filter for classes has 300"),
            ),
            (Query { per_direction: Some(CLASSES_MAX + 1), ..limit(1) }, Some("at most 100000")),
            (Query { hosts: Some(HOSTS_MAX + 1), ..Query::default() }, Some("at most 100")),
        ];
        for (query, expected) in rows {
            let error = query.check().err();
            let is_right = match (&error, expected) {
                (Some(error), Some(part)) => error.contains(part),
                (error, expected) => error.is_none() && expected.is_none(),
            };
            assert!(is_right, "{query:?}: {error:?}");
        }
    }
}
