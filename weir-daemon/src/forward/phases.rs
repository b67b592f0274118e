//! The phases of a process before it forwards: each phase is a type, and only the last one can run.
//!
//! ```text
//! Inherited ──> Planned ──> Unprivileged ──> Opened ──> Sandboxed ──> it runs
//!    what to read   privileges     policies read,    every file and
//!    is received    given up       ports opened      call refused
//! ```
//! A transition consumes the phase before, so the order that SECURITY.md promises is that of the
//! types: nothing of a policy is read before the privileges are gone, and no frame passes before
//! the sandbox is entered.
//!
//! ```compile_fail,E0599
//! use weir_daemon::forward::phases::Opened;
//! use weir_host::channel::Channel;
//! fn forwards_outside_of_the_sandbox(opened: Opened, keeper: Channel) {
//!     opened.run(keeper);
//! }
//! ```
//! ```compile_fail,E0599
//! use weir_daemon::forward::phases::Planned;
//! use weir_host::channel::Channel;
//! fn reads_with_privileges(planned: Planned, keeper: &Channel) {
//!     planned.open(keeper);
//! }
//! ```

use super::forwarder::{Forwarder, Link, Outside};
use super::report::report;
use crate::keeper::found::Found;
use crate::keeper::messages::{Command, Opening, Report, Standing, Task};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_control::texts;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};
use weir_host::pages;
use weir_host::precedence::{NICENESS_FIRST, SessionNiceness, set_niceness};
use weir_host::realtime;
use weir_host::robust;
use weir_host::sandbox::{self, Dropped, Entered, SandboxConfig, User};
use weir_host::signals::{Asked, Signals};
use weir_host::watch::{self, Waker};
use weir_link::authority::AuthorityClient;
use weir_link::bridge::{Bridge, BridgeConfig};
use weir_link::change::history::Texts;
use weir_link::deploy;
use weir_link::events::{self, Kind};
use weir_link::sorter::SortPlan;
use weir_policy::deployment::Deployment;

/// Why a process does not come to forward.
#[derive(Debug)]
pub enum Stop {
    /// Its keeper knows already.
    Reported,
    /// Its keeper is to be told this.
    Failed(String),
}

impl From<SystemError> for Stop {
    fn from(error: SystemError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

/// A process as its keeper started it: it can do what its keeper can.
pub struct Inherited {
    authority: AuthorityClient,
    signals: Signals,
}

/// A process that knows what to read, and as what.
pub struct Planned {
    authority: AuthorityClient,
    signals: Signals,
    task: Task,
}

/// A process that has no privilege any more, and has read nothing that was written by others.
pub struct Unprivileged {
    authority: AuthorityClient,
    signals: Signals,
    task: Task,
    dropped: Dropped,
    warnings: Vec<String>,
}

/// The deployment and the texts that an unprivileged process has read.
struct Policies {
    deployment: Deployment,
    texts: Texts,
    /// How frames of each direction are sorted into rings.
    plans: Vec<SortPlan>,
}

/// A process that has read its policies and whose ports are open, with a closed intake.
pub struct Opened {
    link: Link,
    outside: Outside,
    dropped: Dropped,
}

/// A process that can do nothing but forward.
pub struct Sandboxed(Opened);

impl Inherited {
    /// A process that asks its keeper by this channel for what needs a privilege.
    ///
    /// # Errors
    /// When signals cannot be taken.
    pub fn new(authority: Channel) -> std::result::Result<Self, Stop> {
        Ok(Self { authority: AuthorityClient::new(authority), signals: Signals::install()? })
    }

    /// Receives what to read.
    ///
    /// # Errors
    /// When the keeper does not say it.
    pub fn plan(self, keeper: &Channel) -> std::result::Result<Planned, Stop> {
        let Some((Command::Read(task), _none)) = keeper.receive(TASK_PATIENCE)? else {
            return Err("the keeper does not say what to read".into());
        };
        Ok(Planned { authority: self.authority, signals: self.signals, task: *task })
    }
}

impl Planned {
    /// Goes before other work of the machine, and then gives up every privilege.
    ///
    /// # Errors
    /// When one would stay.
    pub fn give_up(self) -> std::result::Result<Unprivileged, Stop> {
        let Self { authority, signals, task } = self;
        let mut warnings = Vec::new();
        go_first(&task.standing, &mut warnings);
        let user = match &task.standing.user {
            Some(name) => User::Named(name),
            None => User::OfLink(task.keeper),
        };
        let dropped = sandbox::drop_capabilities(user, true)?;
        Ok(Unprivileged { authority, signals, task, dropped, warnings })
    }
}

impl Unprivileged {
    /// Reads the policies and tells the keeper what it found; then opens the ports, by the keeper,
    /// once that says so.
    ///
    /// # Errors
    /// When something is wrong in the files, or the ports cannot be opened.
    pub fn open(mut self, keeper: &Channel) -> std::result::Result<Opened, Stop> {
        let Policies { deployment, texts, plans } = self.read(keeper)?;
        let Self { authority, mut signals, task, dropped, mut warnings } = self;
        // Links are built while the keeper claims the interfaces.
        let configs = deploy::bridges_sorted(&deployment, &plans)?;
        let (opening, mut descriptors) = await_opening(keeper, &mut signals)?;
        let listener = descriptors.pop().ok_or("the keeper gives no control socket")?;
        let Opening { history } = opening;
        let through = |config: BridgeConfig| Bridge::open(config.through(&authority));
        let opened: Result<Vec<_>> = configs.into_iter().map(through).collect();
        let mut bridges = opened?;
        if let Some(deaths) = descriptors.pop() {
            let words = robust::words(deaths.as_fd())?;
            bridges.iter_mut().zip(words).for_each(|(bridge, word)| bridge.hold_while_open(word));
        }
        warnings.extend(bridges.iter().flat_map(Bridge::warnings));
        let (reporter, log) = events::log();
        bridges.iter_mut().for_each(|bridge| bridge.report_to(reporter.clone()));
        let handles = bridges.iter_mut().map(Bridge::take_changes).collect();
        let wakers: Result<Vec<_>> =
            (0..=bridges.len()).map(|_| Waker::new().map(Arc::new)).collect();
        let wakers = wakers?;
        let (keeper, owner) = (task.keeper, task.owner);
        let outside = Outside { listener, authority, signals, log, keeper, owner };
        let link =
            Link { bridges, deployment, texts, history, handles, wakers, reporter, warnings };
        // What it took to read the files and to build the links: twice what stays.
        pages::give_back_released();
        Ok(Opened { link, outside, dropped })
    }

    /// Reads the deployment and its policies. Classes that had joined and do not fit its files any
    /// more are left out.
    fn read(&mut self, keeper: &Channel) -> std::result::Result<Policies, Stop> {
        let Self { authority, task, warnings, .. } = self;
        let mut texts = std::mem::take(&mut task.texts);
        let ask = |path: &Path| authority.read(path);
        let mut outcome = texts::complete(&mut texts, &ask).0;
        let leaves_joined = outcome.failed() && !texts.added.is_empty();
        if leaves_joined {
            warnings
                .push("the classes that had joined do not fit the files any more, and go".into());
            texts.added.clear();
            outcome = texts::complete(&mut texts, &ask).0;
        }
        let outcome = outcome.map(Deployment::with_places);
        let plans = outcome.plan.as_ref().map(deploy::sort_plans).unwrap_or_default();
        let sorted = |deployment| deploy::notes(deployment, &plans);
        let notes = outcome.plan.as_ref().map(sorted).unwrap_or_default();
        let found = Found { notes, leaves_joined, ..Found::of(&outcome, task.colour) };
        keeper.send(&Report::Read(Box::new(found)), &[])?;
        let deployment = outcome.plan.ok_or(Stop::Reported)?;
        Ok(Policies { deployment, texts, plans })
    }
}

impl Opened {
    /// Gives up all that is left but to forward.
    ///
    /// # Errors
    /// When the kernel refuses a filter.
    pub fn enter(self) -> std::result::Result<Sandboxed, Stop> {
        let entered = sandbox::enter(&SandboxConfig::default())?;
        self.report_loaded(&entered);
        Ok(Sandboxed(self))
    }

    /// Reports which policies are in force, and what this process gave up.
    fn report_loaded(&self, entered: &Entered) {
        let Link { deployment, reporter, .. } = &self.link;
        for direction in &deployment.directions {
            let detail = format!("`{}`", direction.path.display());
            report(reporter, Kind::PolicyLoaded, &direction.name, &detail);
        }
        let user = self.dropped.user.as_ref();
        let user = user.map_or(String::new(), |user| format!("it is the user `{user}`; "));
        let process = format!("the forwarder (process {})", std::process::id());
        report(reporter, Kind::PrivilegeDropped, &process, &format!("{user}{entered}"));
    }
}

impl Sandboxed {
    /// Forwards until the keeper or a signal ends it.
    ///
    /// # Errors
    /// When a bridge fails, or something is missing; the keeper is told.
    pub fn run(self, keeper: Channel) -> Result<()> {
        Forwarder::new(self.0.link).run(self.0.outside, keeper)
    }
}

/// Waits until the keeper has the interfaces, which may not exist for hours.
fn await_opening(
    keeper: &Channel,
    signals: &mut Signals,
) -> std::result::Result<(Opening, Vec<OwnedFd>), Stop> {
    loop {
        match keeper.receive(Duration::ZERO)? {
            Some((Command::Open(opening), descriptors)) => return Ok((*opening, descriptors)),
            Some((Command::Drain(_), _)) => return Err(Stop::Reported),
            // Nothing else concerns one that does not forward.
            Some(_) => {}
            None => {
                watch::readable(&[keeper.as_fd(), signals.as_fd()], OPENING_PATIENCE)?;
            }
        }
        if signals.take().iter().any(|asked| matches!(asked, Asked::Stop(_))) {
            return Err("a signal ended it".into());
        }
    }
}

/// Puts this thread, and those that it starts, before other work of the machine. Where it may not
/// be put there, that is said only if the deployment asks for it.
fn go_first(standing: &Standing, warnings: &mut Vec<String>) {
    let niceness = standing.nice.unwrap_or(NICENESS_FIRST);
    // The session is the forwarder's own, and ends with it.
    let set =
        set_niceness(niceness).and_then(|()| SessionNiceness::set(niceness).map(std::mem::forget));
    if let (Some(_), Err(error)) = (standing.nice, &set) {
        warnings.push(format!("{error}; the link shares the processor with other work"));
    }
    if standing.is_realtime
        && let Err(error) = realtime::enter()
    {
        warnings.push(format!("{error}; the link has the ordinary class of threads"));
    }
}

/// How long the keeper may take to say what to read.
const TASK_PATIENCE: Duration = Duration::from_secs(10);
/// How often one that waits for its keeper looks around.
const OPENING_PATIENCE: Duration = Duration::from_secs(60);
