//! A moment of a record from which its link goes on with other values: what `weir set` would have
//! done there.
//!
//! Invariant: values that change nothing change nothing of the load.

use super::Stage;
use crate::driver::model::Driver;
use std::collections::BTreeMap;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{Arrival, Packet, Pending};
use weir_core::packet::Headers;
use weir_core::units::{Duration, Instant};
use weir_policy::edit;

/// A value to set, as `weir set` takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The path of the key in the policy: `class.voice.rate`.
    pub key: String,
    /// The value; empty to remove the key.
    pub value: String,
}

/// A moment, and what changes there. The values hold until the end: a later change of the policy
/// in the record gets them, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    /// The instant at which the load changes.
    pub at: Instant,
    /// The values, which are set in their order.
    pub edits: Vec<Edit>,
    /// The driver that takes the packets from there on; `None` leaves them to the line.
    pub driver: Option<Driver>,
}

/// A fork while the load is read.
pub(super) struct Forking {
    fork: Fork,
    /// Classifies by the changed policy; `None` before the moment.
    classifier: Option<Classifier>,
}

impl Fork {
    /// Returns the policy of a stage with the changed values.
    ///
    /// # Errors
    /// When a key is none, or the policy has errors with them.
    pub fn edited(&self, stage: &Stage, at: Instant) -> Result<Stage, String> {
        let text = self.text(stage)?;
        let policy = stage.reread(&text)?;
        Ok(Stage { at, text, policy, ..stage.clone() })
    }

    /// Returns the text of the policy of a stage with the changed values; it may have errors.
    ///
    /// # Errors
    /// When a key is none.
    pub fn text(&self, stage: &Stage) -> Result<String, String> {
        let outside = |edit: &&Edit| OUTSIDE.iter().any(|table| edit.key.starts_with(table));
        if let Some(edit) = self.edits.iter().find(outside) {
            return Err(format!(
                "`{}` is a value of the deployment; a fork changes values of the policy only, such \
                 as `class.voice.rate`",
                edit.key
            ));
        }
        let edits: Vec<_> =
            self.edits.iter().map(|it| edit::Edit { key: &it.key, value: &it.value }).collect();
        edit::set_all(&stage.text, &edits)
    }
}

impl Forking {
    pub fn new(fork: Fork) -> Self {
        Self { fork, classifier: None }
    }

    pub fn fork(&self) -> &Fork {
        &self.fork
    }

    /// Returns whether the moment is over.
    pub fn is_made(&self) -> bool {
        self.classifier.is_some()
    }

    /// The policy of `stage` is in force from now on.
    pub fn enter(&mut self, stage: &Stage) {
        self.classifier = Some(stage.policy.classifier());
    }

    /// Returns the frame as the changed policy classifies it.
    pub fn classify(
        &mut self,
        arrival: &crate::record::Arrival<'_>,
        pending: &mut Pending,
    ) -> Arrival {
        let Some(classifier) = &mut self.classifier else { return arrival.offered() };
        let headers = Headers::parse_ethernet(arrival.headers);
        let at = pending.classify_at(arrival.at);
        let classified = classifier.classify(at, arrival.port, &headers);
        let packet = Packet {
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            meter: classified.meter,
            ..arrival.packet
        };
        Arrival { at: arrival.at, leaf: classified.leaf, packet }
    }
}

/// Where the leaves of one policy are in another, by name.
pub(super) struct Moved {
    leaves: Vec<LeafId>,
    /// For each leaf of the new policy, the old one of its name.
    before: Vec<Option<usize>>,
}

impl Moved {
    /// Leaves that the new policy does not have move to its default class.
    pub fn new(old: &Stage, new: &Stage) -> Self {
        let names = |stage: &Stage| -> Vec<String> {
            stage.policy.link.tree.leaves().map(|(_, class)| class.name.clone()).collect()
        };
        let (old, now) = (names(old), names(new));
        let place = |names: &[String]| -> BTreeMap<String, usize> {
            names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect()
        };
        let (old_places, places) = (place(&old), place(&now));
        let heir = new.policy.default.leaf;
        let leaf = |name| places.get(name).map_or(heir, |&place| LeafId(place as u32));
        Self {
            leaves: old.iter().map(leaf).collect(),
            before: now.iter().map(|name| old_places.get(name).copied()).collect(),
        }
    }

    /// Moves frames that wait to be offered.
    pub fn frames(&self, pending: &mut Pending) {
        for arrival in pending.arrivals_mut() {
            if let Some(&leaf) = self.leaves.get(arrival.leaf.index()) {
                arrival.leaf = leaf;
            }
        }
    }

    /// Returns the ages from which frames of the new leaves are dropped; those of a leaf that is
    /// new, never.
    pub fn ages(&self, ages: &[Duration]) -> Vec<Duration> {
        if ages.is_empty() {
            return Vec::new();
        }
        let age = |before: &Option<usize>| before.and_then(|place| ages.get(place)).copied();
        self.before.iter().map(|before| age(before).unwrap_or(NEVER)).collect()
    }
}

/// Tables that are no part of a policy.
const OUTSIDE: [&str; 2] = ["deployment.", "direction."];
/// An age that no frame has: as long as the clock of a machine may run.
const NEVER: Duration = Duration::from_nanos(1 << 62);

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n\
        [class.a]\nmatch = [{ proto = 'udp' }]\n[class.b]\ndefault = true\n";

    fn check(key: &str, value: &str, expected: Result<&str, &str>) {
        let stage = Stage::new(Instant::ZERO, "p.toml", POLICY).expect("a sound policy");
        let edits = vec![Edit { key: key.to_owned(), value: value.to_owned() }];
        let edited = Fork { at: Instant::ZERO, edits, driver: None }.edited(&stage, Instant::ZERO);
        match (edited, expected) {
            (Ok(stage), Ok(part)) => assert!(stage.text.contains(part), "{}", stage.text),
            (Err(error), Err(part)) => assert!(error.contains(part), "{key}: {error}"),
            (outcome, _) => panic!("{key}: {outcome:?}"),
        }
    }

    #[test]
    fn a_fork_sets_what_weir_set_would() {
        check("class.a.quantum", "3000 B", Ok("quantum = \"3000 B\""));
        check("class.a.quantum", "fast", Err("fast"));
        check("class..x", "1", Err("is not a key"));
        check("deployment.lag_max", "1 ms", Err("values of the policy only"));
    }

    #[test]
    fn leaves_move_by_name_and_others_to_the_default() {
        let stage = |text: &str| Stage::new(Instant::ZERO, "p", text).expect("a sound policy");
        let other = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.b]\ndefault = true\n";
        let (one, two) = (stage(POLICY), stage(other));
        let ages = [Duration::from_millis(1), Duration::from_millis(2)];
        assert_eq!(Moved::new(&one, &two).leaves, [LeafId(0), LeafId(0)]);
        assert_eq!(Moved::new(&one, &two).ages(&ages), [ages[1]]);
        assert_eq!(Moved::new(&two, &one).leaves, [LeafId(1)]);
        assert_eq!(Moved::new(&two, &one).ages(&ages[..1]), [NEVER, ages[0]]);
        assert_eq!(Moved::new(&two, &one).ages(&[]), []);
    }
}
