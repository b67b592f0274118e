//! The policies that a forwarder has in force, and how they change while it forwards.
//!
//! A change is made on the thread of the client that asks for it: texts are edited and checked,
//! links are built, and the loops exchange them (`weir_link::change`). Invariant: one change is
//! made at a time, and a change on trial is followed only by its confirmation or its return.

mod joins;

use super::control_listener::{FirstThread, ForwarderRequest};
use super::recording::Recorder;
use super::report::report;
use crate::keeper::messages::Report;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use weir_control::protocol::{
    Answer, Changed, Difference, File, InForce, PolicyOf, Request, Terms,
};
use weir_control::service::{Peer, Reply};
use weir_control::texts;
use weir_host::pages;
use weir_host::wait::realtime_ns;
use weir_host::watch::Waker;
use weir_link::alarm::{Alarms, Guards};
use weir_link::authority::AuthorityClient;
use weir_link::bridge::Bridge;
use weir_link::change::history::{Entry, History, Origin, Texts};
use weir_link::change::join::Rehearsal;
use weir_link::change::{self, ChangeHandle, Made, Transaction};
use weir_link::events::{Kind, Reporter};
use weir_policy::Severity;
use weir_policy::deployment::Deployment;
use weir_policy::diff::{self, printed::Printed};
use weir_policy::finding::Outcome;
use weir_policy::render;

/// The policies in force, their history, and the change on trial.
pub struct Policies {
    state: Mutex<State>,
    recorder: Arc<Recorder>,
    /// The way to the keeper, which reads files.
    authority: AuthorityClient,
    threads: Threads,
    reporter: Reporter,
    /// Whether another process is about to take over, which would not know of a change.
    is_leaving: AtomicBool,
}

/// The threads that a change concerns.
pub struct Threads {
    pub first: FirstThread,
    /// Wakers of the loops, in the order of the bridges.
    pub loops: Vec<Arc<Waker>>,
}

/// The deployment that is in force, and its history.
pub struct State {
    /// The deployment with its policies.
    pub deployment: Deployment,
    /// The texts of `deployment`.
    pub texts: Texts,
    /// Since when each direction has its policy in this process, in nanoseconds of CLOCK_REALTIME.
    pub since_ns: Vec<u64>,
    /// A handle of each loop, in the order of the bridges.
    pub handles: Vec<ChangeHandle>,
    /// All changes since the start, which the keeper has as well.
    pub history: History,
    /// The last change, if it may still return.
    pub trial: Option<Trial>,
    /// For each direction, on what classes that join are tried first; made when one does.
    pub rehearsals: Vec<Option<Rehearsal>>,
}

/// A change that returns if a guard is broken, and if it is not confirmed.
pub struct Trial {
    until: Instant,
    guards: Guards,
    /// Without it, the change stays when the time is over.
    needs_confirmation: bool,
    /// The texts to return to.
    before: Texts,
    /// Why the change is to return, once that is decided.
    why: Option<String>,
    /// Whether a thread undoes it.
    is_returning: bool,
}

impl Trial {
    /// Notes a broken guard; returns whether the time has come to decide.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.is_returning {
            return false;
        }
        let Some(broken) = self.guards.check().filter(|_| self.why.is_none()) else {
            return self.until <= now;
        };
        self.why = Some(format!("guard {}", broken.text));
        true
    }

    /// Has it tried again later to undo the change.
    fn try_later(&mut self) {
        (self.until, self.is_returning) = (Instant::now() + RETURN_PAUSE, false);
    }
}

/// The texts that a change leads to, where it came from, and the user who asked for it.
struct Wanted {
    texts: Texts,
    origin: Origin,
    user: Option<u32>,
}

/// A deployment with its texts, and what is wrong with it.
struct Read {
    texts: Texts,
    outcome: Outcome<Deployment>,
}

/// A change that was checked, with everything to put it in force.
struct Checked {
    deployment: Deployment,
    transaction: Transaction,
    changed: Changed,
}

impl Policies {
    /// The policies of a forwarder, of which its recorder is told. `authority` reads files, and
    /// events go to `reporter`.
    pub fn new(
        state: State,
        recorder: Arc<Recorder>,
        authority: AuthorityClient,
        threads: Threads,
        reporter: Reporter,
    ) -> Arc<Self> {
        let (state, is_leaving) = (Mutex::new(state), AtomicBool::new(false));
        Arc::new(Self { state, recorder, authority, threads, reporter, is_leaving })
    }

    /// Meets a request of a client.
    pub fn meet(&self, request: &Request, peer: &Peer) -> Reply {
        let met = match request {
            Request::Set { settings, terms } => {
                self.change(terms, Origin::Set, peer.user, |state| {
                    texts::edited(&state.texts, &state.deployment, settings).map(check)
                })
            }
            Request::Class { .. } => self.join(request, peer.user),
            Request::Reload { texts: Some(texts), terms } => {
                self.change(terms, Origin::Reload, peer.user, |state| {
                    Ok(check(state.with_joined(texts.as_ref().clone())))
                })
            }
            Request::Reload { texts: None, terms } => self.read_anew().and_then(|texts| {
                self.change(terms, Origin::Reload, peer.user, |state| self.complete(state, texts))
            }),
            Request::Rollback { number, terms } => {
                self.change(terms, Origin::Rollback, peer.user, |state| {
                    state.texts_of(*number).map(check)
                })
            }
            Request::Confirm {} => self.confirm(peer.user).map(|()| Answer::Done),
            Request::Texts {} => Ok(Answer::Texts(Box::new(self.lock().texts.clone()))),
            Request::Log {} => Ok(Answer::Log(self.lock().history.reported())),
            Request::Policy {} => Ok(Answer::Policy(Box::new(self.lock().in_force()))),
            _ => Err("the link does not know the request".to_owned()),
        };
        met.map_or_else(Reply::error, Reply::of)
    }

    /// Puts a deployment in force that the keeper read because of a SIGHUP.
    pub fn reload(&self, read: Result<Texts, String>) {
        let terms = Terms { reason: "SIGHUP".to_owned(), ..Terms::default() };
        let read = |state: &State| read.and_then(|texts| self.complete(state, texts));
        let refused = match self.change(&terms, Origin::Reload, None, read) {
            Ok(Answer::Changed(changed)) if changed.errors > 0 => changed.text,
            Err(why) => why,
            Ok(_) => return,
        };
        let name = self.lock().deployment.name.clone();
        report(&self.reporter, Kind::ReloadRefused, &name, &render::headline(&refused));
    }

    /// Does what is due: undoes a change whose time is over or whose guard is broken. The work is
    /// done on another thread. Call it a few times a second.
    pub fn check_trial(self: &Arc<Self>, now: Instant) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A change is being made.
            Err(TryLockError::WouldBlock) => return,
        };
        state.handles.iter_mut().for_each(ChangeHandle::tidy);
        let Some(trial) = state.trial.as_mut() else { return };
        if !trial.is_due(now) {
            return;
        }
        if trial.why.is_none() && !trial.needs_confirmation {
            // It cannot fail: there is one.
            let _stays = self.keep(&mut state, None);
            // Not waited for: this thread takes requests.
            self.threads
                .first
                .send(ForwarderRequest::Report(Box::new(Report::Confirmed), mpsc::channel().0));
            return;
        }
        trial.is_returning = true;
        let why = trial.why.get_or_insert_with(|| "it was not confirmed".to_owned()).clone();
        drop(state);
        let own = Arc::clone(self);
        let work = move || own.take_back(&why);
        if std::thread::Builder::new().name("change".to_owned()).spawn(work).is_err() {
            self.return_later("there is no thread to undo a change");
        }
    }

    /// Puts the policies in force that were before the last change, which is on trial.
    fn take_back(&self, why: &str) {
        let terms = Terms { reason: why.to_owned(), ..Terms::default() };
        let before = |state: &State| match &state.trial {
            Some(trial) if trial.is_returning => Ok(check(trial.before.clone())),
            // It was confirmed meanwhile, or undone by a client.
            _ => Err(String::new()),
        };
        if let Err(error) = self.change(&terms, Origin::Returned, None, before) {
            self.return_later(&error);
        }
    }

    /// The change that is on trial cannot be undone now: a loop hangs, or a restart is on its way
    /// and may yet be refused. It is tried again and again.
    fn return_later(&self, why: &str) {
        let mut state = self.lock();
        let Some(trial) = state.trial.as_mut().filter(|trial| trial.is_returning) else { return };
        trial.try_later();
        let name = state.deployment.name.clone();
        report(&self.reporter, Kind::ReloadRefused, &name, why);
    }

    /// Returns all changes, for another keeper.
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// From now on refuses changes, because another process takes over; or makes them again.
    pub fn set_leaving(&self, is_leaving: bool) {
        self.is_leaving.store(is_leaving, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the deployment.
    pub fn name(&self) -> String {
        self.lock().deployment.name.clone()
    }

    /// Returns what the file of the deployment contains now.
    fn read_anew(&self) -> Result<Texts, String> {
        self.threads.first.ask(ForwarderRequest::ReadAnew, READ_PATIENCE)
    }

    /// Checks a deployment that the keeper read, which reads its files, too.
    fn complete(&self, state: &State, texts: Texts) -> Result<Read, String> {
        let mut texts = state.with_joined(texts);
        let (outcome, read) = texts::complete(&mut texts, &|path| self.authority.read(path));
        let name = &texts.deployment.name;
        read.map_err(|why| format!("cannot read {name}: {why}"))?;
        Ok(Read { texts, outcome: outcome.map(Deployment::with_places) })
    }

    fn wake_loops(&self) {
        self.threads.loops.iter().for_each(|waker| waker.wake());
    }

    /// Sends a report to the keeper, and waits until it was sent: a forwarder that dies afterwards
    /// is followed by one that knows it. Not on the thread that takes requests.
    fn report_to_keeper(&self, report: Report) {
        let (reported, done) = mpsc::channel();
        self.threads.first.send(ForwarderRequest::Report(Box::new(report), reported));
        // A thread that does not come to it ends, or hangs.
        let _in_vain = done.recv_timeout(LOOP_PATIENCE);
    }

    fn confirm(&self, user: Option<u32>) -> Result<(), String> {
        self.keep(&mut self.lock(), user)?;
        self.report_to_keeper(Report::Confirmed);
        Ok(())
    }

    /// Keeps the change that is on trial; the caller has to report that to the keeper.
    fn keep(&self, state: &mut State, user: Option<u32>) -> Result<(), String> {
        if state.trial.take().is_none() {
            return Err("no change waits to be confirmed; see `weir log`".to_owned());
        }
        state.history.confirm();
        let number = state.history.last().map_or(0, |last| last.number);
        let by =
            user.map_or_else(|| "no guard was broken".to_owned(), |user| format!("by user {user}"));
        let detail = format!("change {number}: {by}");
        report(&self.reporter, Kind::ChangeConfirmed, &state.deployment.name, &detail);
        Ok(())
    }

    /// Makes a change to what `wanted` returns.
    fn change(
        &self,
        terms: &Terms,
        origin: Origin,
        user: Option<u32>,
        wanted: impl FnOnce(&State) -> Result<Read, String>,
    ) -> Result<Answer<weir_link::status::Status<weir_link::status::Rows>>, String> {
        let start = Instant::now();
        let mut state = self.lock();
        if self.is_leaving.load(Ordering::Relaxed) {
            return Err("the link restarts; try again when that is done".to_owned());
        }
        state.check(origin)?;
        let Read { texts, outcome } = wanted(&state)?;
        let wanted = Wanted { texts, origin, user };
        let mut changed = found(&outcome);
        let Some(deployment) = outcome.plan.filter(|_| changed.errors == 0) else {
            return Ok(Answer::Changed(Box::new(changed)));
        };
        changed.what = what(&state.deployment, &deployment);
        let both = (&state.deployment, &deployment);
        let transaction = Transaction::prepare(both, &terms.guards, &state.handles, &self.reporter);
        let transaction = transaction.map_err(|refusal| refusal.to_string())?;
        if terms.dry_run {
            // Without the places that no class has.
            let plain = |texts| texts::read_again(texts).plan;
            let both = plain(&state.texts).zip(plain(&wanted.texts));
            changed.directions = both.map_or(Vec::new(), |(old, new)| differences(&old, &new));
        } else if state.deployment != deployment {
            let checked = Checked { deployment, transaction, changed };
            changed = self.put_in_force(&mut state, wanted, checked, terms)?;
            pages::give_back_released();
        }
        changed.took_us = start.elapsed().as_micros() as u64;
        Ok(Answer::Changed(Box::new(changed)))
    }

    /// Lets the loops make the change, and reports it to keeper and clients.
    fn put_in_force(
        &self,
        state: &mut State,
        wanted: Wanted,
        checked: Checked,
        terms: &Terms,
    ) -> Result<Changed, String> {
        let Checked { deployment, mut transaction, mut changed } = checked;
        let by = wanted.user.map(|user| format!("user {user}")).unwrap_or_default();
        transaction.note(&deployment, (&wanted.texts.whole_files(), &by, &terms.reason));
        state.rehearsals.clear();
        let held = self.recorder.hold();
        let wake = || self.wake_loops();
        let made = transaction.put_in_force(&mut state.handles, wake, LOOP_PATIENCE);
        let Made { alarms, guards, made } = made.map_err(|refusal| refusal.to_string())?;
        held.follow(&deployment, &wanted.texts);
        if wanted.origin == Origin::Reload {
            changed.replaced = state.history.set_since_files();
        }
        let trial = trial(terms, guards, &state.texts);
        let entry = Entry {
            number: state.history.next_number(),
            at_ns: realtime_ns(),
            user: wanted.user,
            origin: wanted.origin,
            reason: terms.reason.clone(),
            what: changed.what.clone(),
            counts: None,
            on_trial: trial.is_some(),
            texts: Some(wanted.texts.clone()),
        };
        state.history.push(entry.clone());
        changed.number = Some(entry.number);
        state.note_since(&deployment, entry.at_ns);
        changed.trial_ms = trial
            .as_ref()
            .map(|trial| trial.until.saturating_duration_since(Instant::now()).as_millis() as u64);
        (state.deployment, state.texts, state.trial) = (deployment, wanted.texts, trial);
        self.report_change(&state.deployment.name, &entry);
        self.threads.first.send(ForwarderRequest::Alarms(Box::new(alarms)));
        self.report_to_keeper(Report::Changed(Box::new(entry)));
        made.map(|()| changed)
            .map_err(|_| "a loop of the link hangs; it makes the change when it goes on".to_owned())
    }

    fn report_change(&self, name: &str, entry: &Entry) {
        let Entry { number, reason, what, .. } = entry;
        let by = entry.user.map(|user| format!(" by user {user}")).unwrap_or_default();
        let why = if reason.is_empty() { String::new() } else { format!(", because: {reason}") };
        let kind = match entry.origin {
            Origin::Rollback | Origin::Returned => Kind::RolledBack,
            _ => Kind::PolicyChanged,
        };
        let detail = format!("change {number}{by} ({}): {what}{why}", entry.origin.word());
        report(&self.reporter, kind, name, &detail);
    }
}

impl State {
    /// Puts in force what was in force last, if that is not what the files say: the forwarder
    /// before died. Returns the alarms over it.
    ///
    /// # Errors
    /// When that is not possible; then nothing was changed.
    pub fn go_on(
        &mut self,
        bridges: &mut [Bridge],
        reporter: &Reporter,
    ) -> Result<Option<Alarms>, String> {
        let last = self.history.last().and_then(|last| last.texts.clone());
        let Some(texts) = last.filter(|texts| *texts != self.texts) else { return Ok(None) };
        let outcome = texts::of_link(&texts);
        let deployment = outcome.plan.ok_or("the policies that were in force have errors now")?;
        let both = (&self.deployment, &deployment);
        let transaction = Transaction::prepare(both, &[], &self.handles, reporter);
        let transaction = transaction.map_err(|refusal| refusal.to_string())?;
        let alarms = transaction.put_into(bridges, &mut self.handles);
        let alarms = alarms.map_err(|refusal| refusal.to_string())?;
        (self.deployment, self.texts) = (deployment, texts);
        Ok(Some(alarms))
    }

    /// Returns texts to which classes that joined belong: they stay, whatever files say of others.
    fn with_joined(&self, texts: Texts) -> Texts {
        Texts { added: self.texts.added.clone(), ..texts }
    }

    /// Notes since when the directions have the policies of `new` that differ.
    fn note_since(&mut self, new: &Deployment, at_ns: u64) {
        let ways = self.deployment.directions.iter().zip(&new.directions);
        for ((old, new), since_ns) in ways.zip(&mut self.since_ns) {
            if old.policy != new.policy {
                *since_ns = at_ns;
            }
        }
    }

    /// Returns the policies with their texts. Files that they name may be lists of persons, and the
    /// deployment may hold secrets: neither is told.
    fn in_force(&self) -> InForce {
        let name = |way: &weir_policy::deployment::Direction| way.path.display().to_string();
        let ways = &self.deployment.directions;
        let directions = ways.iter().zip(&self.since_ns).map(|(way, since_ns)| PolicyOf {
            direction: way.name.clone(),
            file: name(way),
            identity: way.policy.identity.to_string(),
            since_ns: *since_ns,
        });
        let is_policy = |file: &&File| ways.iter().any(|way| name(way) == file.name);
        let files = self.texts.whole_files();
        let files = files.into_iter().filter(|file| is_policy(&file)).collect();
        InForce { directions: directions.collect(), files }
    }

    /// Returns whether a change may be made now.
    fn check(&mut self, origin: Origin) -> Result<(), String> {
        if change::is_busy(&mut self.handles) {
            return Err("a loop of the link hangs, and has not made the last change yet".to_owned());
        }
        if self.trial.is_some() && matches!(origin, Origin::Set | Origin::Reload | Origin::Class) {
            let number = self.history.last().map_or(0, |last| last.number);
            return Err(format!(
                "change {number} is on trial; `weir confirm` keeps it, `weir rollback` undoes it"
            ));
        }
        Ok(())
    }

    /// Returns the texts after a change, or those before the last one that still stands.
    fn texts_of(&self, number: Option<u64>) -> Result<Texts, String> {
        if let (None, Some(trial)) = (number, &self.trial) {
            return Ok(trial.before.clone());
        }
        let entry = match number {
            Some(number) => self.history.entry(number),
            None => self.history.before_standing(),
        };
        let entry = entry.ok_or_else(|| match number {
            Some(number) => {
                format!("change {number} is not known; `weir log` lists those that are")
            }
            None => "no change is left to undo; `weir log` lists what was in force, each with the \
                 number for `weir rollback`"
                .to_owned(),
        })?;
        entry.texts.clone().ok_or_else(|| {
            format!("the texts of change {} are not kept any more; use `weir reload`", entry.number)
        })
    }
}

fn check(texts: Texts) -> Read {
    let outcome = texts::of_link(&texts);
    Read { texts, outcome }
}

fn trial(terms: &Terms, guards: Guards, before: &Texts) -> Option<Trial> {
    let needs_confirmation = terms.confirm_ms.is_some();
    if !needs_confirmation && guards.is_empty() {
        return None;
    }
    let time = terms.confirm_ms.map_or(GUARD_TIME, Duration::from_millis).min(TRIAL_MAX);
    let before = before.clone();
    let (until, why) = (Instant::now() + time, None);
    Some(Trial { until, guards, needs_confirmation, before, why, is_returning: false })
}

/// Returns the findings as `weir check` prints them.
fn found<T>(outcome: &Outcome<T>) -> Changed {
    let findings = &outcome.findings;
    let mut text = render::render(findings, &outcome.sources, false);
    if !findings.is_empty() {
        text += &format!("{}\n", render::summary(findings));
    }
    let json = |finding| serde_json::to_value(finding).expect("findings have a form in JSON");
    Changed {
        errors: outcome.count(Severity::Error),
        text,
        findings: findings.iter().map(json).collect(),
        ..Changed::default()
    }
}

/// Returns what changes, in a line.
fn what(old: &Deployment, new: &Deployment) -> String {
    let several = old.directions.len() > 1;
    let of = |(old, new): (&weir_policy::deployment::Direction, &_)| -> Option<String> {
        let weir_policy::deployment::Direction { name, policy, .. } = new;
        let line = diff::line(&old.policy, policy)?;
        Some(if several { format!("{name}: {line}") } else { line })
    };
    let mut parts: Vec<_> = old.directions.iter().zip(&new.directions).filter_map(of).collect();
    if parts.is_empty() && old != new {
        parts.push("the deployment's own values".to_owned());
    } else if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    parts.join("; ")
}

fn differences(old: &Deployment, new: &Deployment) -> Vec<Difference> {
    let ways = old.directions.iter().zip(&new.directions);
    let of = ways.filter(|(old, new)| old.policy != new.policy).map(|(old, new)| {
        let difference = diff::Difference::between(&old.policy, &new.policy);
        let json = serde_json::to_value(Printed::of(&difference));
        Difference {
            direction: new.name.clone(),
            text: diff::text(&difference),
            difference: json.expect("the types have only text keys"),
        }
    });
    of.collect()
}

/// How long a keeper may take to read its file.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long a loop may take to come to a change.
const LOOP_PATIENCE: Duration = Duration::from_secs(5);
/// The pause before it is tried again to undo a change.
const RETURN_PAUSE: Duration = Duration::from_secs(1);
/// How long guards are watched where no confirmation is asked for.
const GUARD_TIME: Duration = Duration::from_secs(60);
const TRIAL_MAX: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::mpsc::Sender;
    use weir_host::channel::Channel;

    /// The policies of a link without directions and without bridges.
    pub fn policies(requests: Sender<ForwarderRequest>, reporter: Reporter) -> Arc<Policies> {
        let text = "[deployment]\nname = 'd'\nports = { a = 'a0', b = 'b0' }\n".to_owned();
        let deployment = weir_link::change::history::File { name: "d.toml".to_owned(), text };
        let texts = Texts { deployment, ..Texts::default() };
        let deployment = texts::of_link(&texts).plan.expect("it has no errors");
        let recorder = Recorder::new((&deployment, &texts), Vec::new(), reporter.clone());
        let state = State {
            deployment,
            texts,
            since_ns: Vec::new(),
            handles: Vec::new(),
            history: History::default(),
            trial: None,
            rehearsals: Vec::new(),
        };
        let (authority, _desk) = Channel::pair().expect("there are descriptors");
        let waker = Arc::new(Waker::new().expect("there are descriptors"));
        let threads = Threads { first: FirstThread { requests, waker }, loops: Vec::new() };
        let authority = AuthorityClient::new(authority);
        Policies::new(state, Arc::new(recorder), authority, threads, reporter)
    }
}
