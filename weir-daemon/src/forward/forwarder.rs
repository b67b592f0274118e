//! A forwarder at work: its loops, each on a thread of its own, and all that is around them.

use super::attend::ForwarderLoop;
use super::attend::health::{Events, Health};
use super::attend::intake::IntakeOfAll;
use super::attend::keeper::{KeeperHandles, KeeperLink};
use super::attend::requests::Requests;
use super::control_listener::{self, ControlListener, FirstThread, Handlers};
use super::policies::{Policies, State, Threads};
use super::questions::Questions;
use super::recording::Recorder;
use crate::keeper::messages::Report;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weir_control::service::Service;
use weir_core::units;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};
use weir_host::realtime;
use weir_host::signals::Signals;
use weir_host::wait::realtime_ns;
use weir_host::watch::Waker;
use weir_link::alarm::Alarms;
use weir_link::authority::AuthorityClient;
use weir_link::bridge::Bridge;
use weir_link::change::ChangeHandle;
use weir_link::change::history::{History, Texts};
use weir_link::events::feed::Feed;
use weir_link::events::{EventLog, Reporter};
use weir_link::status::{Board, Status};
use weir_policy::deployment::Deployment;

/// The bridges of a link, and everything that changes with its policies.
pub(super) struct Link {
    pub bridges: Vec<Bridge>,
    pub deployment: Deployment,
    pub texts: Texts,
    pub history: History,
    /// The loops, as changes see them.
    pub handles: Vec<ChangeHandle>,
    /// For each bridge, and for the first thread.
    pub wakers: Vec<Arc<Waker>>,
    pub reporter: Reporter,
    pub warnings: Vec<String>,
}

/// The channels and sockets of a forwarder that do not depend on its policies.
pub(super) struct Outside {
    pub listener: OwnedFd,
    pub authority: AuthorityClient,
    pub signals: Signals,
    pub log: EventLog,
    /// The process of the keeper.
    pub keeper: u32,
    /// The user who started it.
    pub owner: u32,
}

/// A forwarder whose files and ports are open, before its loops start.
pub(super) struct Forwarder {
    bridges: Vec<Bridge>,
    boards: Vec<Arc<Board>>,
    /// For each bridge, and for the first thread.
    wakers: Vec<Arc<Waker>>,
    state: State,
    alarms: Alarms,
    recorder: Arc<Recorder>,
    reporter: Reporter,
    warnings: Vec<String>,
}

impl Forwarder {
    /// Prepares to go on with the last change, if one is in force that the files do not have.
    pub fn new(link: Link) -> Self {
        let Link { mut bridges, wakers, reporter, mut warnings, .. } = link;
        let mut alarms = Alarms::watch(&link.deployment, &mut bridges, reporter.clone());
        let mut state = State {
            since_ns: vec![realtime_ns(); link.deployment.directions.len()],
            deployment: link.deployment,
            texts: link.texts,
            handles: link.handles,
            history: link.history,
            trial: None,
            rehearsals: Vec::new(),
        };
        match state.go_on(&mut bridges, &reporter) {
            Ok(changed) => alarms = changed.unwrap_or(alarms),
            Err(why) => warnings.push(format!("{why}; the link begins anew from its files")),
        }
        let boards: Vec<_> = bridges.iter().map(|_| Arc::new(Board::new())).collect();
        let of = (&state.deployment, &state.texts);
        let recorder = Arc::new(Recorder::new(of, boards.clone(), reporter.clone()));
        Self { bridges, boards, wakers, state, alarms, recorder, reporter, warnings }
    }

    /// Forwards until the keeper or a signal ends it.
    pub fn run(self, outside: Outside, keeper: Channel) -> Result<()> {
        let Self { mut bridges, boards, wakers, state, recorder, reporter, warnings, .. } = self;
        let (name, service) = (state.deployment.name.clone(), state.deployment.service.clone());
        let (requests, arriving) = mpsc::channel();
        let first = FirstThread { requests, waker: Arc::clone(&wakers[bridges.len()]) };
        let loops = wakers[..bridges.len()].to_vec();
        let threads = Threads { first: first.clone(), loops };
        let authority = outside.authority.clone();
        let policies =
            Policies::new(state, Arc::clone(&recorder), authority, threads, reporter.clone());
        let (questions, feed) = (Arc::<Questions>::default(), Arc::<Feed>::default());
        let keeper_pid = Arc::new(AtomicU32::new(outside.keeper));
        let answers = control_listener::prepare(
            boards.clone(),
            outside.owner,
            Handlers {
                policies: Arc::clone(&policies),
                recorder: Arc::clone(&recorder),
                questions: Arc::clone(&questions),
            },
            first,
            reporter.clone(),
        );
        let answers = Service {
            feed: Arc::clone(&feed),
            name: name.clone(),
            keeper: Some(Arc::clone(&keeper_pid)),
            ..answers
        };
        let listener = ControlListener::closed(&outside.listener, answers)?;
        let notes = bridges.iter().flat_map(Bridge::notes).collect();
        keeper.send(&Report::Ready { warnings, notes }, &[])?;
        outside.authority.hurry();
        let handles = KeeperHandles { listener: outside.listener, authority: outside.authority };
        let events = Events { log: outside.log, feed, alarms: self.alarms };
        let watched = (name.clone(), boards.clone());
        let mut attendant = ForwarderLoop {
            keeper: KeeperLink::new(keeper, name.clone(), keeper_pid, handles),
            requests: Requests::new(listener, arriving, (policies, questions), reporter.clone()),
            health: Health::new(watched, service.watchdog.map(nanos), events, reporter),
            intake: IntakeOfAll::new(boards.clone(), wakers.clone()),
            signals: outside.signals,
            drain: nanos(service.drain),
        };
        let kept = recorder.keep_history();
        kept.map_err(|cause| SystemError::new("start the thread of the ring", cause))?;
        let ran = forward(&mut bridges, &boards, &wakers, &mut attendant);
        recorder.wait_for_clients();
        let status = bridges.iter_mut().map(Bridge::status).reduce(Status::join);
        attendant.finish(ran.as_ref().err(), status.unwrap_or_default());
        ran
    }
}

/// Runs the bridges, each on a thread of its own, until it is over.
fn forward(
    bridges: &mut [Bridge],
    boards: &[Arc<Board>],
    wakers: &[Arc<Waker>],
    attendant: &mut ForwarderLoop,
) -> Result<()> {
    let (stop, drain_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let wake = &wakers[wakers.len() - 1];
    std::thread::scope(|scope| {
        let run = |bridge: &mut Bridge, board: &Board, waker: &Waker| {
            let ran = bridge.run(&stop, &[waker.as_fd().as_raw_fd()], board);
            // If one bridge ends, all do.
            stop.store(true, Ordering::Relaxed);
            wakers.iter().for_each(|waker| waker.wake());
            let drain = units::Duration::from_nanos(drain_ns.load(Ordering::Relaxed));
            ran.and_then(|()| bridge.drain(drain))
        };
        let each = bridges.iter_mut().zip(boards).zip(wakers);
        let threads: Vec<_> = each
            .map(|((bridge, board), waker)| scope.spawn(move || run(bridge, board, waker)))
            .collect();
        // This thread, and those of clients, have time: only the loops are real-time threads. One
        // that stays in the class is no fault of the link.
        let _stays = realtime::leave();
        while !stop.load(Ordering::Relaxed) {
            if !attendant.turn(wake) {
                break;
            }
        }
        drain_ns.store(attendant.drain.as_nanos() as u64, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        wakers.iter().for_each(|waker| waker.wake());
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })
}

fn nanos(time: units::Duration) -> Duration {
    Duration::from_nanos(time.as_nanos())
}
