//! Changes what a running link does: other policies for its directions, as one transaction.
//!
//! A thread that does not forward makes everything that the new policies need ([`Transaction`]):
//! links, classifiers, tables, the memory for the status. Each bridge's loop takes its part from a
//! mailbox and exchanges it between two turns, all directions of the bridge at once; several
//! bridges follow each as its loop comes to it. Whatever can fail fails before the first loop has
//! exchanged anything: also that the kernel sorts frames by the new policies (`sort.rs`).
//! Invariant: the loop neither allocates nor frees to exchange policies, and never waits.

pub mod history;
pub mod join;
mod mailbox;
pub(crate) mod sort;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_core::units;
use weir_policy::deployment::{self, Deployment, Direction};
use weir_trace::record;

use crate::alarm::{Alarms, Gauged, Guards};
use crate::bridge::Bridge;
use crate::events::Reporter;
use crate::lane::change::{LaneChange, Way};
use crate::status::{Labels, Publisher};
use history::File;
pub use mailbox::{ChangeHandle, NotTaken};
pub(crate) use mailbox::{Inbox, Offer, mailbox};
use sort::{Loops, RingsNow, Sorted, Wanted};

/// The new policies for one bridge. After the change it holds what was replaced.
pub struct BridgeChange {
    /// With the number of the lane.
    pub(crate) lanes: Vec<(usize, Box<LaneChange>)>,
    pub(crate) publisher: Publisher,
    pub(crate) gauged: Gauged,
    pub(crate) lag_max: units::Duration,
    /// The classes of the rings of ports.
    pub(crate) rings: Vec<RingsNow>,
    /// How ports must sort frames first.
    wanted: Vec<Wanted>,
    labels: Arc<Labels>,
}

/// A change of all bridges of a deployment, made and not yet in force.
pub struct Transaction {
    bridges: Vec<BridgeChange>,
    /// The alarms of the deployment, over the new policies.
    pub alarms: Alarms,
    /// The conditions that must hold after the change.
    pub guards: Guards,
}

/// The consequences of a change that is in force.
pub struct Made {
    /// The alarms of the deployment, over the new policies.
    pub alarms: Alarms,
    /// The conditions that must hold from now on.
    pub guards: Guards,
    /// Whether each loop has made it, or hangs.
    pub made: Result<(), NotTaken>,
}

/// Why a deployment cannot replace the one that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This key of the deployment stays as it is as long as the process runs.
    Fixed(String),
    /// This key of the deployment stays as it is as long as the link runs.
    Lasting(&'static str),
    /// The deployment has another name than the link: the link's, and the other.
    Named(String, String),
    /// A link cannot be built.
    Build(String),
    /// The kernel cannot sort frames by the new policy.
    Sort(String),
    /// A guard cannot be watched; what is wrong, and the cure.
    Guard(String),
}

impl Transaction {
    /// Makes a change from `old` to `new` for the loops behind `handles`, which run the bridges of
    /// `old` in its order.
    ///
    /// # Errors
    /// When only a restart can make the change, a link cannot be built, or a guard is none.
    pub fn prepare(
        (old, new): (&Deployment, &Deployment),
        guards: &[String],
        handles: &[ChangeHandle],
        reporter: &Reporter,
    ) -> Result<Self, Refusal> {
        if let Some(refusal) = fixed(old, new) {
            return Err(refusal);
        }
        let (alarms, mut gauged) = Alarms::plan(new, reporter.clone());
        let guards = Guards::plan(guards, new, &mut gauged).map_err(Refusal::Guard)?;
        let each = new.bridges.iter().zip(handles).zip(gauged);
        let bridges: Result<Vec<_>, _> = each
            .map(|((bridge, handle), gauged)| bridge_change((old, new), bridge, handle, gauged))
            .collect();
        Ok(Self { bridges: bridges?, alarms, guards })
    }

    /// Writes the change into records: the files that `new` of [`Transaction::prepare`] was read
    /// from, who asks for it, and why.
    pub fn note(&mut self, new: &Deployment, (files, user, reason): (&[File], &str, &str)) {
        let files = record_files(files);
        let each = self.bridges.iter_mut().zip(&new.bridges);
        for (change, bridge) in each {
            for (lane, change) in &mut change.lanes {
                let direction = &new.directions[bridge.directions[*lane]];
                change.note(record::Change {
                    policy: direction.path.display().to_string(),
                    files: files.clone(),
                    user: user.to_owned(),
                    reason: reason.to_owned(),
                    ..record::Change::default()
                });
            }
        }
    }

    /// Puts the change in force: has the kernel sort frames by it, gives each loop its part, and
    /// waits until each has made it. `wake` wakes the loops. Once the kernel sorts so nothing can
    /// fail any more: a loop that hangs for `patience` makes the change when it goes on, and
    /// `NotTaken` says so.
    ///
    /// # Errors
    /// When the kernel does not sort frames so; then nothing has changed.
    pub fn put_in_force(
        self,
        handles: &mut [ChangeHandle],
        wake: impl Fn(),
        patience: Duration,
    ) -> Result<Made, Refusal> {
        sort::sort(&self.bridges, handles, Loops { wake: &wake, patience })?;
        for (handle, mut change) in handles.iter_mut().zip(self.bridges) {
            handle.now_sorts(std::mem::take(&mut change.wanted));
            handle.offer(Offer::Change(Box::new(change)));
        }
        wake();
        let made = handles.iter_mut().map(|handle| handle.wait(patience)).fold(Ok(()), Result::and);
        Ok(Made { alarms: self.alarms, guards: self.guards, made })
    }

    /// Puts the change in force in bridges that do not run as yet.
    ///
    /// # Errors
    /// When the kernel does not sort frames so; then nothing has changed.
    pub fn put_into(
        self,
        bridges: &mut [Bridge],
        handles: &mut [ChangeHandle],
    ) -> Result<Alarms, Refusal> {
        for ((change, handle), bridge) in self.bridges.iter().zip(&mut *handles).zip(&mut *bridges)
        {
            handle.sort_at_rest(&change.wanted, bridge)?;
        }
        let each = bridges.iter_mut().zip(handles).zip(self.bridges);
        for ((bridge, handle), mut change) in each {
            handle.now_sorts(std::mem::take(&mut change.wanted));
            bridge.change(&mut change);
            handle.labels = change.labels;
        }
        Ok(self.alarms)
    }
}

/// Returns the files as records hold them.
pub fn record_files(files: &[File]) -> Vec<record::File> {
    let file = |file: &File| record::File { name: file.name.clone(), text: file.text.clone() };
    files.iter().map(file).collect()
}

/// Returns whether a change is still on its way to a loop.
pub fn is_busy(handles: &mut [ChangeHandle]) -> bool {
    handles.iter_mut().any(ChangeHandle::is_busy)
}

fn bridge_change(
    (old, new): (&Deployment, &Deployment),
    bridge: &deployment::Bridge,
    handle: &ChangeHandle,
    gauged: Gauged,
) -> Result<BridgeChange, Refusal> {
    let mut labels = Labels::clone(&handle.labels);
    let (mut lanes, mut sorted) = (Vec::new(), Sorted::default());
    // A lane for each direction comes first in its bridge.
    for (lane, way) in bridge.directions.iter().enumerate() {
        let (before, now) = (&old.directions[*way], &new.directions[*way]);
        if is_same(before, now) {
            continue;
        }
        let policy = Way {
            policy: &now.policy,
            sojourn_max: &now.sojourn_max,
            train_max: &now.train_max,
            frames_max: now.pool,
        };
        let change = LaneChange::prepare(&labels.lanes[lane], &before.policy, policy);
        let mut change =
            change.map_err(|error| Refusal::Build(format!("{}: {error}", now.name)))?;
        sorted.add((lane, &mut change), (before, now), handle);
        labels.lanes[lane] = change.labels().clone();
        lanes.push((lane, change));
    }
    let labels = Arc::new(labels);
    let publisher = Publisher::of(&labels);
    let (lag_max, Sorted { wanted, rings }) = (new.lag_max, sorted);
    Ok(BridgeChange { lanes, publisher, gauged, lag_max, rings, wanted, labels })
}

/// Returns whether nothing changes in a direction.
fn is_same(old: &Direction, new: &Direction) -> bool {
    old.sojourn_max == new.sojourn_max && old.train_max == new.train_max && old.policy == new.policy
}

/// Returns why a deployment cannot replace the one that runs: the first key that differs and is
/// part of what was opened, or belongs to the keeper.
fn fixed(old: &Deployment, new: &Deployment) -> Option<Refusal> {
    let places = |all: &Deployment| -> Vec<_> {
        all.ports.iter().map(|port| (port.interface.clone(), port.side)).collect()
    };
    if old.name != new.name {
        return Some(Refusal::Named(old.name.clone(), new.name.clone()));
    }
    if old.control != new.control {
        return Some(Refusal::Lasting("deployment.control"));
    }
    if places(old) != places(new) {
        return Some(Refusal::Lasting("deployment.ports"));
    }
    fixed_key(old, new).or_else(|| fixed_key_of_direction(old, new)).map(Refusal::Fixed)
}

/// Returns the first key that only another process can follow.
fn fixed_key(old: &Deployment, new: &Deployment) -> Option<String> {
    if old.directions.len() != new.directions.len() {
        return Some("the number of directions".to_owned());
    }
    let (one, other) = (&old.service, &new.service);
    let keys = [
        ("ports", old.ports == new.ports),
        ("wait", old.wait == new.wait),
        ("workers", old.workers == new.workers),
        ("nice", old.nice == new.nice),
        ("pool", old.pool == new.pool),
        ("receive_ring", old.receive_ring == new.receive_ring),
        ("carrier", old.carrier == new.carrier),
        ("take", old.take == new.take),
        ("alarm", is_alike(old, new)),
        ("api", old.api == new.api),
        ("cpus", old.bridges == new.bridges),
        ("on_exit", one.on_exit == other.on_exit),
        ("drain", one.drain == other.drain),
        ("restart", one.restart == other.restart),
        ("wait_for_ports", one.wait_for_ports == other.wait_for_ports),
        ("watchdog", one.watchdog == other.watchdog),
        ("user", one.user == other.user),
        ("control_group", one.control_group == other.control_group),
        ("priority", one.priority == other.priority),
        ("log", one.log == other.log),
        ("ring", one.ring == other.ring),
        ("rsvp.address", old.rsvp_bridge() == new.rsvp_bridge()),
    ];
    let differing = keys.into_iter().find(|(_, same)| !same);
    differing.map(|(key, _)| format!("deployment.{key}"))
}

/// Returns the first key of a direction that only another process can follow.
fn fixed_key_of_direction(old: &Deployment, new: &Deployment) -> Option<String> {
    let mut ways = old.directions.iter().zip(&new.directions);
    ways.find_map(|(old, new)| {
        let key = if (&old.name, &old.from, old.to) != (&new.name, &new.from, new.to) {
            "its name, `from` or `to`"
        } else if old.pool != new.pool {
            "`pool`"
        } else if old.autorate != new.autorate {
            "`autorate`"
        } else if old.restores_dscp != new.restores_dscp {
            "`restore_dscp`"
        } else {
            return None;
        };
        Some(format!("{key} in direction `{}`", old.name))
    })
}

/// Returns whether the alarms are the same, but for the numbers of classes.
fn is_alike(old: &Deployment, new: &Deployment) -> bool {
    let one = |alarm: &deployment::Alarm| {
        (alarm.name.clone(), alarm.when.clone(), alarm.lasts, alarm.run.clone())
    };
    let hooks = |all: &Deployment| -> Vec<_> {
        all.alarms.iter().map(|alarm| alarm.webhook.clone()).collect()
    };
    let all = |of: &Deployment| -> Vec<_> { of.alarms.iter().map(one).collect() };
    all(old) == all(new) && hooks(old) == hooks(new)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(key) => write!(
                f,
                "{key} cannot change while the link runs; write it to the file and use \
                 `weir restart`"
            ),
            Self::Lasting(key) => write!(
                f,
                "{key} cannot change while the link runs; write it to the file, stop the link and \
                 start it again with `weir up`"
            ),
            Self::Named(link, other) => write!(
                f,
                "the deployment is called `{other}` and the link `{link}`; write \
                 `name = \"{link}\"` into its [deployment] (without, it is called as its file)"
            ),
            Self::Build(why) => write!(f, "cannot build the policy: {why}; see `weir check`"),
            Self::Sort(why) => write!(f, "{why}; nothing has changed"),
            Self::Guard(why) => f.write_str(why),
        }
    }
}

impl BridgeChange {
    /// Returns the labels of the bridge after the change.
    fn labels(&self) -> &Arc<Labels> {
        &self.labels
    }
}
