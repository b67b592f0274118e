//! The events of a link, as its keeper writes them: to standard output, and to a file if the
//! deployment names one.

use crate::act::Actions;
use crate::events::apart::Apart;
use crate::events::write::{Failing, Form, LogFile, Printed, Writer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_link::events::{About, Event, Kind};
use weir_policy::deployment::Deployment;

/// Writes events to the console and the log, and lets alarms act on them.
pub struct Journal {
    /// The name of the deployment.
    subject: String,
    form: Form,
    printed: Printed,
    /// The file, if the deployment names one.
    log: Option<Log>,
    /// The programs and webhooks of alarms.
    actions: Actions,
}

/// The file, which has a thread of its own.
struct Log {
    path: PathBuf,
    lines: Apart,
    failing: Failing,
}

impl Journal {
    /// Opens the log that the deployment names; events are printed and written in this form.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(deployment: &Deployment, form: Form) -> Result<Self, String> {
        let log = deployment.service.log.as_deref();
        let log = log.map(|path| open(path, form, PATIENCE_START)).transpose()?;
        let (subject, alarms) = (deployment.name.clone(), &deployment.alarms);
        let actions = Actions::new(&subject, alarms).map_err(|error| error.to_string())?;
        Ok(Self { subject, form, printed: Printed::new(form == Form::Json), log, actions })
    }

    /// Writes an event, and starts what an alarm that begins or ends is to start.
    pub fn write(&mut self, event: &Event) {
        self.printed.write(event);
        if let Some(log) = &mut self.log {
            log.lines.write(event);
        }
        self.actions.follow(event);
    }

    /// From now on writes to the log that this deployment names, and starts what its alarms start.
    ///
    /// # Errors
    /// When the log cannot be written, or the system gives no thread; then all is as before.
    pub fn follow(&mut self, deployment: &Deployment) -> Result<(), String> {
        let actions = Actions::new(&deployment.name, &deployment.alarms);
        let actions = actions.map_err(|error| error.to_string())?;
        let log = deployment.service.log.as_deref();
        if log != self.log.as_ref().map(|log| log.path.as_path()) {
            let opened = log.map(|path| open(path, self.form, PATIENCE_RUNNING)).transpose()?;
            if let Some(mut before) = std::mem::replace(&mut self.log, opened) {
                before.lines.hurry();
            }
        }
        self.actions = actions;
        Ok(())
    }

    /// Writes what failed of that; call it now and then.
    pub fn write_failures(&mut self) {
        let failures: Vec<_> = self.actions.failures().collect();
        failures.iter().for_each(|event| self.write(event));
    }

    /// Returns why the log cannot be written, if it cannot.
    pub fn log_failure(&self) -> Option<String> {
        let log = self.log.as_ref()?;
        log.failing.why().map(|why| format!("`{}`: {why}", log.path.display()))
    }

    /// Writes that something happened to the link now; returns the event, which may begin a fault.
    pub fn report(&mut self, kind: Kind, detail: &str) -> Event {
        let about = About { subject: &self.subject, detail, ..About::default() };
        let event = Event::now(kind, about);
        self.write(&event);
        event
    }

    /// As [`Journal::report`], of a fault that begins, or goes on for another reason.
    pub fn begin(&mut self, kind: Kind, detail: &str, begun: &mut Option<Event>) -> Event {
        let about = About { subject: &self.subject, detail, ..About::default() };
        let now = Event::now(kind, about);
        let fault = begun.as_ref().map_or(now.fault, |begun| begun.fault);
        let event = Event { fault, ..now };
        self.write(&event);
        begun.get_or_insert_with(|| event.clone());
        event
    }

    /// As [`Journal::report`], of so many frames.
    pub fn count(&mut self, kind: Kind, count: u64) -> Event {
        let about = About { subject: &self.subject, ..About::default() };
        let event = Event { count, ..Event::now(kind, about) };
        self.write(&event);
        event
    }

    /// Writes that a fault is over, if there is one; returns the event of its end.
    pub fn end(&mut self, fault: &mut Option<Event>) -> Option<Event> {
        let end = fault.take()?.end_now();
        self.write(&end);
        Some(end)
    }
}

/// Opens the log.
fn open(path: &Path, form: Form, patience: Duration) -> Result<Log, String> {
    let (file, failing) = (path.to_owned(), Failing::default());
    let noted = failing.clone();
    let what = format!("the log `{}`", path.display());
    let opened = Apart::open(&what, patience, move || {
        LogFile::open(&file, form).map(|log| log.note_in(noted))
    });
    let lines = opened.map_err(|error| error.to_string())?;
    Ok(Log { path: path.to_owned(), lines, failing })
}

/// How long a log may take to open before anything runs, where a network may have to be mounted.
const PATIENCE_START: Duration = Duration::from_secs(10);
/// As [`PATIENCE_START`], for a keeper whose link runs and waits for it.
const PATIENCE_RUNNING: Duration = Duration::from_millis(500);
