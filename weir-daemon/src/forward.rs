//! The forwarder: the process that carries the traffic, started by `weir up` and by nothing else.
//!
//! It opens no file and no interface: what to run comes over a channel, and what needs a privilege
//! its keeper does. Before the first frame passes it gives up what it could do beyond that. The
//! first thread listens to the keeper; each bridge has a thread of its own. If the keeper dies
//! without a word, everything goes on.

mod door;
mod policies;
mod post;
mod questions;
mod recording;

use crate::keeper::messages::{Command, PROTOCOL, Plan, Report};
use door::Door;
use policies::{Policies, State};
use post::Post;
use questions::Questions;
use recording::Recorder;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use weir_control::texts;
use weir_core::units;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};
use weir_host::precedence::{NICENESS_FIRST, SessionNiceness, set_niceness};
use weir_host::realtime;
use weir_host::sandbox::{self, SandboxConfig, User};
use weir_host::signals::Signals;
use weir_host::wait::realtime_ns;
use weir_host::watch::Bell;
use weir_link::alarm::Alarms;
use weir_link::authority::Courier;
use weir_link::bridge::{Bridge, BridgeConfig};
use weir_link::change::history::Texts;
use weir_link::deploy;
use weir_link::events::feed::Feed;
use weir_link::events::{self, About, EventLog, Kind, Reporter};
use weir_link::status::{Board, Status};
use weir_policy::deployment::{Deployment, Priority};

/// Forwards what a keeper says, which speaks this version: over one channel it is asked for what
/// needs a privilege, over the other it says what to do.
///
/// # Errors
/// When a bridge fails, or the keeper cannot be told why nothing could begin.
pub fn run(protocol: u32, authority: OwnedFd, commands: OwnedFd) -> Result<()> {
    let (authority, keeper) = (Channel::from(authority), Channel::from(commands));
    let prepared = if protocol == PROTOCOL {
        prepare(authority, &keeper)
    } else {
        Err(format!("this program speaks version {PROTOCOL}, its keeper {protocol}"))
    };
    match prepared {
        Ok(prepared) => prepared.run(keeper),
        // Without a keeper nobody hears it.
        Err(why) => keeper.send(&Report::Failed(why), &[]),
    }
}

/// A forwarder whose ports are open and that can do nothing but forward.
struct Prepared {
    bridges: Vec<Bridge>,
    boards: Vec<Arc<Board>>,
    listener: OwnedFd,
    courier: Courier,
    signals: Signals,
    /// For each bridge, and for the first thread.
    bells: Vec<Arc<Bell>>,
    log: EventLog,
    /// Events for clients of the control socket.
    feed: Arc<Feed>,
    alarms: Alarms,
    reporter: Reporter,
    drain: Duration,
    watchdog: Option<Duration>,
    warnings: Vec<String>,
    /// The name of the deployment.
    name: String,
    /// The process of the keeper; 0 while there is none.
    kept_by: Arc<AtomicU32>,
    /// The user who started the link.
    owner: u32,
    state: Option<State>,
    recorder: Arc<Recorder>,
}

/// Reads what to run, opens it, and enters the sandbox.
fn prepare(authority: Channel, keeper: &Channel) -> std::result::Result<Prepared, String> {
    let text = |error: SystemError| error.to_string();
    let signals = Signals::install().map_err(text)?;
    // Its privileges go soon, and with them perhaps its user.
    let received = keeper.receive(PLAN_PATIENCE).map_err(text)?;
    let Some((Command::Plan(plan), mut descriptors)) = received else {
        return Err("the keeper does not say what to run".to_owned());
    };
    let listener = descriptors.pop().ok_or("the keeper gives no control socket")?;
    let (mut plan, mut warnings) = (plan, Vec::new());
    let deployment = deployment_of(&mut plan.texts, &mut warnings)?;
    go_first(&deployment, &mut warnings);
    let user = match &deployment.service.user {
        Some(name) => User::Named(name),
        None => User::OfLink(plan.keeper),
    };
    let dropped = sandbox::drop_capabilities(user, true).map_err(text)?;
    let courier = Courier::new(authority);
    let configs = deploy::bridges(&deployment).map_err(text)?;
    let through = |config: BridgeConfig| Bridge::open(config.through(&courier));
    let opened: Result<Vec<_>> = configs.into_iter().map(through).collect();
    let mut bridges = opened.map_err(text)?;
    warnings.extend(bridges.iter().flat_map(Bridge::warnings));
    let (reporter, log) = events::log();
    bridges.iter_mut().for_each(|bridge| bridge.report_to(reporter.clone()));
    let offices = bridges.iter_mut().map(Bridge::take_changes).collect();
    let bells: Result<Vec<_>> = (0..=bridges.len()).map(|_| Bell::new().map(Arc::new)).collect();
    let bells = bells.map_err(text)?;
    let entered = sandbox::enter(&SandboxConfig::default()).map_err(text)?;
    let user = dropped.user.map_or(String::new(), |user| format!("it is the user `{user}`; "));
    tell_loaded(&deployment, &reporter, &format!("{user}{entered}"));
    let mut alarms = Alarms::watch(&deployment, &mut bridges, reporter.clone());
    let (name, service) = (deployment.name.clone(), deployment.service.clone());
    let Plan { texts, keeper, owner, history, api: _ } = *plan;
    let since_ns = vec![realtime_ns(); deployment.directions.len()];
    let rehearsals = Vec::new();
    let mut state =
        State { deployment, texts, since_ns, offices, history, trial: None, rehearsals };
    match state.go_on(&mut bridges, &reporter) {
        Ok(changed) => alarms = changed.unwrap_or(alarms),
        Err(why) => warnings.push(format!("{why}; the link begins anew from its files")),
    }
    let boards: Vec<_> = bridges.iter().map(|_| Arc::new(Board::new())).collect();
    let of = (&state.deployment, &state.texts);
    let recorder = Recorder::new(of, boards.clone(), reporter.clone());
    let nanos = |time: units::Duration| Duration::from_nanos(time.as_nanos());
    Ok(Prepared {
        boards,
        recorder: Arc::new(recorder),
        bridges,
        listener,
        courier,
        signals,
        bells,
        log,
        feed: Arc::default(),
        alarms,
        reporter,
        drain: nanos(service.drain),
        watchdog: service.watchdog.map(nanos),
        warnings,
        name,
        kept_by: Arc::new(AtomicU32::new(keeper)),
        owner,
        state: Some(state),
    })
}

/// Reads the deployment. Classes that had joined and do not fit its files any more are left out.
fn deployment_of(
    texts: &mut Texts,
    warnings: &mut Vec<String>,
) -> std::result::Result<Deployment, String> {
    let mut outcome = texts::of_link(texts);
    if outcome.plan.is_none() && !texts.added.is_empty() {
        warnings.push("the classes that had joined do not fit the files any more, and go".into());
        texts.added.clear();
        outcome = texts::of_link(texts);
    }
    let wrong = "the deployment has errors here and none at its keeper";
    outcome.plan.ok_or_else(|| wrong.to_owned())
}

/// Tells which policies are in force, and what this process gave up.
fn tell_loaded(deployment: &Deployment, reporter: &Reporter, given_up: &str) {
    for direction in &deployment.directions {
        let detail = format!("`{}`", direction.path.display());
        tell(reporter, Kind::PolicyLoaded, &direction.name, &detail);
    }
    let process = format!("the forwarder (process {})", std::process::id());
    tell(reporter, Kind::PrivilegeDropped, &process, given_up);
}

fn tell(reporter: &Reporter, kind: Kind, subject: &str, detail: &str) {
    reporter.once(kind, About { subject, detail, ..About::default() });
}

impl Prepared {
    /// Forwards until the keeper or a signal ends it.
    fn run(mut self, keeper: Channel) -> Result<()> {
        let (wishes, arriving) = mpsc::channel();
        let state = self.state.take().expect("it was prepared");
        let reporter = self.reporter.clone();
        let recorder = Arc::clone(&self.recorder);
        let speakers = (wishes.clone(), self.bells.clone(), reporter.clone());
        let policies = Policies::new(state, Arc::clone(&recorder), speakers);
        let bell = Arc::clone(&self.bells[self.bridges.len()]);
        let questions = Arc::new(Questions::default());
        let mut service = door::prepare(
            self.boards.clone(),
            self.owner,
            (Arc::clone(&policies), Arc::clone(&recorder), Arc::clone(&questions)),
            (wishes, bell, reporter),
        );
        service.feed = Arc::clone(&self.feed);
        service.name.clone_from(&self.name);
        service.keeper = Some(Arc::clone(&self.kept_by));
        let door = Door::closed(&self.listener, service)?;
        let warnings = std::mem::take(&mut self.warnings);
        let notes = self.bridges.iter().flat_map(Bridge::notes).collect();
        keeper.send(&Report::Ready { warnings, notes }, &[])?;
        let mut bridges = std::mem::take(&mut self.bridges);
        let bells = self.bells.clone();
        let boards = self.boards.clone();
        let mut post = Post::new(self, keeper, (door, arriving), (policies, questions));
        let kept = recorder.keep_history();
        kept.map_err(|cause| SystemError::new("start the thread of the ring", cause))?;
        let ran = forward(&mut bridges, &boards, &bells, &mut post);
        recorder.wait_for_clients();
        post.close_door();
        post.tell_last_events();
        if let Err(error) = &ran {
            post.tell(&Report::Failed(error.to_string()));
        }
        let status = bridges.iter_mut().map(Bridge::status).reduce(Status::join);
        post.tell(&Report::Ended(Box::new(status.unwrap_or_default())));
        ran
    }
}

/// Runs the bridges, each on a thread of its own, until the post says that it is over.
fn forward(
    bridges: &mut [Bridge],
    boards: &[Arc<Board>],
    bells: &[Arc<Bell>],
    post: &mut Post,
) -> Result<()> {
    let (stop, drain_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let wake = &bells[bells.len() - 1];
    std::thread::scope(|scope| {
        let run = |bridge: &mut Bridge, board: &Board, bell: &Bell| {
            let ran = bridge.run(&stop, &[bell.as_fd().as_raw_fd()], board);
            // If one bridge ends, all do.
            stop.store(true, Ordering::Relaxed);
            bells.iter().for_each(|bell| bell.ring());
            let drain = units::Duration::from_nanos(drain_ns.load(Ordering::Relaxed));
            ran.and_then(|()| bridge.drain(drain))
        };
        let each = bridges.iter_mut().zip(boards).zip(bells);
        let threads: Vec<_> = each
            .map(|((bridge, board), bell)| scope.spawn(move || run(bridge, board, bell)))
            .collect();
        // This thread, and those of clients, have time: only the loops are real-time threads. One
        // that stays in the class is no fault of the link.
        let _stays = realtime::leave();
        while !stop.load(Ordering::Relaxed) {
            if !post.stand(wake) {
                break;
            }
        }
        drain_ns.store(post.drain().as_nanos() as u64, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        bells.iter().for_each(|bell| bell.ring());
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })
}

/// Puts this thread, and those that it starts, before other work of the machine. Where it may not
/// be put there, that is said only if the deployment asks for it.
fn go_first(deployment: &Deployment, warnings: &mut Vec<String>) {
    let niceness = deployment.nice.unwrap_or(NICENESS_FIRST);
    // The session is the forwarder's own, and ends with it.
    let set =
        set_niceness(niceness).and_then(|()| SessionNiceness::set(niceness).map(std::mem::forget));
    if let (Some(_), Err(error)) = (deployment.nice, &set) {
        warnings.push(format!("{error}; the link shares the processor with other work"));
    }
    if deployment.service.priority == Priority::Realtime
        && let Err(error) = realtime::enter()
    {
        warnings.push(format!("{error}; the link has the ordinary class of threads"));
    }
}

/// How long the keeper may take to say what to run.
const PLAN_PATIENCE: Duration = Duration::from_secs(10);
