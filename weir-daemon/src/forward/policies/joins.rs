//! Classes that join a running link, are retuned there, or leave it: `weir class`.
//!
//! Nothing here reads the text of other classes or builds anything of theirs, so that reservations
//! and subscribers can come a thousand a second. Invariant: the deployment and the texts of the
//! state are those in force, as after a change of the whole policy to the same texts.

use super::{LOOP_PATIENCE, Policies, State, found};
use crate::keeper::messages::Report;
use serde_json::{Map, Value};
use std::time::Instant;
use weir_control::protocol::{Answer, Changed, Request, Tables};
use weir_host::wait::realtime_ns;
use weir_link::change::history::{Counts, Entry, Joined, Origin, TABLE_MAX};
use weir_link::change::join::{Joins, set_identities};
use weir_link::status::{Rows, Status};
use weir_policy::policy::{JoinRequest, Seating};
use weir_trace::record;

/// A sound request for classes to join and leave, in the directions of one policy.
struct Wanted<'r> {
    seatings: Vec<Seating>,
    /// The directions with the policy, and its path.
    ways: Vec<usize>,
    file: String,
    reason: &'r str,
    user: Option<u32>,
}

impl Policies {
    /// Lets classes join and leave, as [`Request::Class`] says.
    pub(super) fn join(
        &self,
        request: &Request,
        user: Option<u32>,
    ) -> Result<Answer<Status<Rows>>, String> {
        let start = Instant::now();
        let Request::Class { direction, add, remove, dry_run, reason } = request else {
            return Err("it is another request".to_owned());
        };
        let tables = add.as_ref().map_or(Ok(String::new()), text_of)?;
        let mut state = self.lock();
        if self.is_leaving.load(std::sync::atomic::Ordering::Relaxed) {
            return Err("the link restarts; try again when that is done".to_owned());
        }
        state.check(Origin::Class)?;
        let (ways, file) = state.places_of(direction.as_deref())?;
        let policy = &state.deployment.directions[ways[0]].policy;
        let outcome = policy.seat(&JoinRequest { remove, tables: &tables, name: "the request" });
        let mut changed = found(&outcome);
        let seatings = outcome.plan.filter(|_| changed.errors == 0).unwrap_or_default();
        if let Some(long) = seatings.iter().find(|seating| bytes(seating) > TABLE_MAX) {
            return Err(format!(
                "the table of class `{}` has more than {TABLE_MAX} bytes; write shorter lists",
                long.name
            ));
        }
        if !seatings.is_empty() {
            let reason = reason.as_str();
            let wanted = Wanted { seatings, ways, file, reason, user };
            changed.what = wanted.counts().line();
            changed = self.seat(&mut state, &wanted, changed, *dry_run)?;
        }
        changed.took_us = start.elapsed().as_micros() as u64;
        Ok(Answer::Changed(Box::new(changed)))
    }

    /// Rehearses what is wanted, and unless it is a dry run lets the loops do it.
    fn seat(
        &self,
        state: &mut State,
        wanted: &Wanted<'_>,
        mut changed: Changed,
        dry_run: bool,
    ) -> Result<Changed, String> {
        let State { deployment, handles, rehearsals, .. } = &mut *state;
        let (seatings, ways) = (wanted.seatings.as_slice(), wanted.ways.as_slice());
        let joins = Joins::prepare(deployment, (seatings, ways), rehearsals, handles);
        let mut joins = joins.map_err(|why| {
            format!("{why}; write it to the file of the policy and use `weir reload`")
        })?;
        if dry_run {
            // What was rehearsed is not in force.
            rehearsals.clear();
            return Ok(changed);
        }
        let joined = wanted.joined();
        joins.note(&wanted.note(&joined));
        let held = self.recorder.hold();
        let wake = || self.wake_loops();
        let made = joins.put_in_force((handles, rehearsals), wake, LOOP_PATIENCE);
        state.follow(wanted, &joined);
        held.follow_joined(&joined);
        let entry = Entry {
            at_ns: realtime_ns(),
            user: wanted.user,
            origin: Origin::Class,
            reason: wanted.reason.to_owned(),
            ..Entry::default()
        };
        let next = state.history.next_number();
        let number = state.history.push_joined(&joined, entry.clone());
        changed.number = Some(number);
        if let Some(begun) = state.history.last().filter(|_| number == next) {
            // Once for all requests of the entry.
            self.report_change(&state.deployment.name, begun);
        }
        self.report_to_keeper(Report::Joined(Box::new(joined), Box::new(entry)));
        made.map(|()| changed)
            .map_err(|_| "a loop of the link hangs; it does it when it goes on".to_owned())
    }
}

impl State {
    /// Returns the directions whose policy has places, and the path of that policy.
    fn places_of(&self, direction: Option<&str>) -> Result<(Vec<usize>, String), String> {
        let ways = &self.deployment.directions;
        let meant: Vec<_> = match direction {
            Some(name) => ways.iter().filter(|way| way.name == name).collect(),
            None => ways.iter().filter(|way| way.policy.has_places()).collect(),
        };
        let Some(first) = meant.first() else {
            let known: Vec<_> = ways.iter().map(|way| way.name.as_str()).collect();
            return Err(match direction {
                Some(name) => {
                    format!("there is no direction `{name}`; the link has {}", known.join(", "))
                }
                None => NO_PLACES.to_owned(),
            });
        };
        if let Some(other) = meant.iter().find(|way| way.path != first.path) {
            return Err(format!(
                "the policies of directions `{}` and `{}` both have places; name one by \
                 --direction",
                first.name, other.name
            ));
        }
        if !first.policy.has_places() {
            return Err(NO_PLACES.to_owned());
        }
        // Two directions with one policy have the same places.
        let same = ways.iter().enumerate().filter(|(_, way)| way.path == first.path);
        Ok((same.map(|(number, _)| number).collect(), first.path.display().to_string()))
    }

    /// Becomes the state in which that is done.
    fn follow(&mut self, wanted: &Wanted<'_>, joined: &Joined) {
        for way in &wanted.ways {
            let policy = &mut self.deployment.directions[*way].policy;
            for seating in &wanted.seatings {
                policy.follow(seating);
                let before = self.texts.added.get(&wanted.file);
                if let Some(table) = before.and_then(|tables| tables.get(&seating.name)) {
                    policy.identity.toggle(table.as_bytes());
                }
                if let Some(class) = &seating.class {
                    policy.identity.toggle(class.text.as_bytes());
                }
            }
        }
        set_identities(&self.deployment, &wanted.ways, &self.handles);
        self.texts.follow(joined);
    }
}

impl Wanted<'_> {
    fn counts(&self) -> Counts {
        let count = |is_it: fn(&Seating) -> bool| {
            self.seatings.iter().filter(|seating| is_it(seating)).count() as u64
        };
        Counts {
            added: count(|seating| seating.class.is_some() && !seating.was_there),
            retuned: count(|seating| seating.class.is_some() && seating.was_there),
            removed: count(|seating| seating.class.is_none()),
        }
    }

    fn joined(&self) -> Joined {
        let left = self.seatings.iter().filter(|seating| seating.class.is_none());
        let table = |seating: &Seating| {
            Some((seating.name.clone(), seating.class.as_ref()?.text.as_str().into()))
        };
        Joined {
            file: self.file.clone(),
            removed: left.map(|seating| seating.name.clone()).collect(),
            tables: self.seatings.iter().filter_map(table).collect(),
            counts: self.counts(),
        }
    }

    fn note(&self, joined: &Joined) -> record::Joins {
        let tables: Vec<_> = joined.tables.iter().map(|(_, table)| &**table).collect();
        record::Joins {
            removed: joined.removed.clone(),
            tables: tables.join("\n"),
            user: self.user.map(|user| format!("user {user}")).unwrap_or_default(),
            reason: self.reason.to_owned(),
            ..record::Joins::default()
        }
    }
}

fn bytes(seating: &Seating) -> usize {
    seating.class.as_ref().map_or(0, |class| seating.name.len() + class.text.len())
}

/// Returns tables as TOML.
fn text_of(tables: &Tables) -> Result<String, String> {
    match tables {
        Tables::Text(text) => Ok(text.clone()),
        Tables::Named(named) => {
            let all = Map::from_iter([("class".to_owned(), Value::Object(named.clone()))]);
            toml::to_string(&all)
                .map_err(|error| format!("the classes have no form in TOML: {error}"))
        }
    }
}

const NO_PLACES: &str = "no policy of the link has places for classes that join; write `places` in \
                         [link] or in a class with children, and use `weir reload`";
