//! `weir forward`: the process that carries the traffic, started by `weir up` and by nothing else.
//!
//! It opens no file and no interface: what to run comes over a channel, and so does the control
//! socket. The first thread listens to the keeper; each bridge has a thread of its own. If the keeper
//! dies without a word, everything goes on.

use crate::Run;
use crate::output::{Exit, Output};
use crate::up::reading;
use std::io::ErrorKind;
use std::os::fd::RawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_control::server::Server;
use weir_control::service::Service;
use weir_core::units;
use weir_live::bridge::Bridge;
use weir_live::channel::Channel;
use weir_live::deploy;
use weir_live::error::{Result, SystemError};
use weir_live::keeper::messages::{Command, PROTOCOL, Report};
use weir_live::keeper::process::inherited;
use weir_live::precedence::{NICENESS_FIRST, SessionNiceness, set_niceness};
use weir_live::signals::{Asked, Signals};
use weir_live::status::{Board, Status};
use weir_policy::deployment::Deployment;

/// Forwards for a `weir up`, which starts it.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Forward {
    /// The version of what the two processes tell each other.
    #[arg(long)]
    protocol: u32,
    /// The descriptor on which it asks for what needs a privilege.
    #[arg(long)]
    authority: RawFd,
    /// The descriptor on which it is told what to do.
    #[arg(long)]
    commands: RawFd,
}

impl Run for Forward {
    fn run(self, output: &Output) -> Exit {
        let channels = inherited(self.authority).and_then(|authority| {
            Ok((Channel::from(authority), Channel::from(inherited(self.commands)?)))
        });
        let (authority, keeper) = match channels {
            Ok(channels) => channels,
            Err(error) => return output.refuse(&format!("only `weir up` starts this: {error}")),
        };
        let ran = if self.protocol == PROTOCOL {
            run(&authority, &keeper)
        } else {
            Err(format!("this program speaks version {PROTOCOL}, its keeper {}", self.protocol))
        };
        match ran {
            Ok(()) => Exit::Clean,
            Err(why) => {
                // Without a keeper nobody hears it.
                let _unheard = keeper.send(&Report::Failed(why), &[]);
                Exit::Usage
            }
        }
    }
}

fn run(_authority: &Channel, keeper: &Channel) -> std::result::Result<(), String> {
    let text = |error: SystemError| error.to_string();
    let signals = Signals::install().map_err(text)?;
    let received = keeper.receive(PLAN_PATIENCE).map_err(text)?;
    let Some((Command::Plan(plan), mut descriptors)) = received else {
        return Err("the keeper does not say what to run".to_owned());
    };
    let listener = descriptors.pop().ok_or("the keeper gives no control socket")?;
    let outcome = reading::of_plan(&plan);
    let wrong = "the deployment has errors here and none at its keeper";
    let deployment = outcome.plan.ok_or(wrong)?;
    let mut warnings = Vec::new();
    let _session = go_first(deployment.nice, &mut warnings);
    let configs = deploy::bridges(&deployment).map_err(text)?;
    let opened: Result<Vec<_>> = configs.into_iter().map(Bridge::open).collect();
    let mut bridges = opened.map_err(text)?;
    warnings.extend(bridges.iter().flat_map(Bridge::warnings));
    let boards: Vec<_> = bridges.iter().map(|_| Arc::new(Board::new())).collect();
    let server = Server::on(UnixListener::from(listener), Service::of(boards.clone()));
    let server = server.map_err(|error| format!("cannot serve the control socket: {error}"))?;
    keeper.send(&Report::Ready(warnings), &[]).map_err(text)?;
    let mut post = Post::new(keeper, signals, &deployment, boards);
    let ran = post.run(&mut bridges);
    drop(server);
    let status = bridges.iter_mut().map(Bridge::status).reduce(Status::join);
    let _unheard = keeper.send(&Report::Ended(Box::new(status.unwrap_or_default())), &[]);
    ran.map_err(text)
}

/// The first thread of a forwarder: it listens to the keeper.
struct Post<'a> {
    keeper: &'a Channel,
    /// Whether the keeper still listens.
    is_kept: bool,
    signals: Signals,
    boards: Vec<Arc<Board>>,
    /// Whether the ports are to take frames.
    intake: bool,
    /// How long a loop that ends sends what it holds.
    drain: Duration,
    /// The looks of each loop at the last sign of life.
    looks: Vec<u64>,
    beaten: Instant,
    interval: Duration,
}

impl<'a> Post<'a> {
    fn new(
        keeper: &'a Channel,
        signals: Signals,
        deployment: &Deployment,
        boards: Vec<Arc<Board>>,
    ) -> Self {
        let watchdog = deployment.service.watchdog;
        let interval = watchdog.map_or(BEAT_MAX, |time| Duration::from_nanos(time.as_nanos() / 8));
        Self {
            keeper,
            is_kept: true,
            signals,
            intake: false,
            drain: Duration::from_nanos(deployment.service.drain.as_nanos()),
            looks: vec![0; boards.len()],
            boards,
            beaten: Instant::now(),
            interval: interval.min(BEAT_MAX),
        }
    }
    /// Runs the bridges, each on a thread of its own, until the keeper or a signal ends them.
    fn run(&mut self, bridges: &mut [Bridge]) -> Result<()> {
        if !self.await_intake() {
            return Ok(());
        }
        let (stop, drain_ns) =
            (AtomicBool::new(false), AtomicU64::new(self.drain.as_nanos() as u64));
        std::thread::scope(|scope| {
            let each = bridges.iter_mut().zip(self.boards.clone());
            let threads: Vec<_> = each
                .map(|(bridge, board)| scope.spawn(|| forward(bridge, board, &stop, &drain_ns)))
                .collect();
            self.tell(&Report::Intake(true));
            while !threads.iter().any(|thread| thread.is_finished()) && self.obey() {
                self.beat();
            }
            drain_ns.store(self.drain.as_nanos() as u64, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(ran) => ran,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.fold(Ok(()), Result::and)
        })
    }

    /// Waits until the intake may be opened; returns false if the forwarder is to end instead.
    fn await_intake(&mut self) -> bool {
        while !self.intake {
            if !self.obey() {
                return false;
            }
            self.tell(&Report::Beat);
        }
        true
    }

    /// Does what the keeper or a signal asks for, if either does within a beat; returns false if
    /// that is to end.
    fn obey(&mut self) -> bool {
        for asked in self.signals.take() {
            match asked {
                Asked::Stop(_) => return false,
                Asked::Mark => self.mark(),
                Asked::HangUp => {}
            }
        }
        match self.hear() {
            Some(Command::Intake(is_open)) => {
                self.intake = is_open;
                if !is_open {
                    self.tell(&Report::Intake(false));
                }
            }
            Some(Command::Mark) => self.mark(),
            Some(Command::Drain(drain)) => {
                self.drain = drain;
                return false;
            }
            Some(Command::Plan(_) | Command::Hold | Command::Restarted(_)) | None => {}
        }
        true
    }

    /// Returns what the keeper says, if it says anything within a beat.
    fn hear(&mut self) -> Option<Command> {
        if !self.is_kept {
            std::thread::sleep(self.interval);
            return None;
        }
        match self.keeper.receive(self.interval) {
            Ok(heard) => heard.map(|(command, _)| command),
            Err(error) => {
                // The keeper ended without a word: whatever happened to it, traffic goes on.
                self.is_kept = error.cause.kind() == ErrorKind::InvalidData;
                None
            }
        }
    }

    fn mark(&self) {
        self.boards.iter().for_each(|board| board.request_mark());
    }

    /// Gives a sign of life, if every loop gave one.
    fn beat(&mut self) {
        let looks: Vec<u64> = self.boards.iter().map(|board| board.looks()).collect();
        let all_looked = looks.iter().zip(&self.looks).all(|(now, before)| now != before);
        if all_looked && self.beaten.elapsed() >= self.interval {
            (self.looks, self.beaten) = (looks, Instant::now());
            self.tell(&Report::Beat);
        }
    }

    /// Tells the keeper something; one that died does not hear it.
    fn tell(&self, report: &Report) {
        let _unheard = self.keeper.send(report, &[]);
    }
}

/// Runs a bridge until `stop`, and sends what it holds then.
fn forward(
    bridge: &mut Bridge,
    board: Arc<Board>,
    stop: &AtomicBool,
    drain_ns: &AtomicU64,
) -> Result<()> {
    let ran = bridge.run(stop, &[], &board);
    // If one bridge ends, all do.
    stop.store(true, Ordering::Relaxed);
    ran.and_then(|()| bridge.drain(units::Duration::from_nanos(drain_ns.load(Ordering::Relaxed))))
}

/// Puts the loops before other work of the machine. Where they may not be, it says so only if the
/// deployment asks for it.
fn go_first(nice: Option<i32>, warnings: &mut Vec<String>) -> Option<SessionNiceness> {
    let niceness = nice.unwrap_or(NICENESS_FIRST);
    let session = set_niceness(niceness).and_then(|()| SessionNiceness::set(niceness));
    if let (Some(_), Err(error)) = (nice, &session) {
        warnings.push(format!("{error}; the link shares the processor with other work"));
    }
    session.ok()
}

/// How long the keeper may take to say what to run.
const PLAN_PATIENCE: Duration = Duration::from_secs(10);
/// The longest time between two signs of life.
const BEAT_MAX: Duration = Duration::from_millis(200);
