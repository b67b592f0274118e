//! The events of a link, as its keeper writes them: to standard output, and to a file if the
//! deployment names one.

use crate::output::{Format, Output};
use weir_live::alarm::act::Actions;
use weir_live::events::write::{Form, LogFile, Printed, Writer};
use weir_live::events::{About, Event, Kind};
use weir_policy::deployment::Deployment;

/// Where events go.
pub struct Journal {
    /// The name of the deployment.
    subject: String,
    writers: Vec<Box<dyn Writer>>,
    /// What alarms start.
    actions: Actions,
}

impl Journal {
    /// Opens the log that the deployment names.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(deployment: &Deployment, output: &Output) -> Result<Self, String> {
        let is_json = output.format == Format::Json;
        let mut writers: Vec<Box<dyn Writer>> = vec![Box::new(Printed::new(is_json))];
        if let Some(path) = &deployment.service.log {
            let form = if is_json { Form::Json } else { Form::Text };
            let file = LogFile::open(path, form).map_err(|error| error.to_string())?;
            writers.push(Box::new(file));
        }
        let (subject, alarms) = (deployment.name.clone(), &deployment.alarms);
        let actions = Actions::new(&subject, alarms).map_err(|error| error.to_string())?;
        Ok(Self { subject, writers, actions })
    }

    /// Writes an event, and starts what an alarm that begins or ends is to start.
    pub fn write(&mut self, event: &Event) {
        self.writers.iter_mut().for_each(|writer| writer.write(event));
        self.actions.follow(event);
    }

    /// From now on starts what the alarms of this deployment start.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn heed(&mut self, deployment: &Deployment) -> Result<(), String> {
        let actions = Actions::new(&deployment.name, &deployment.alarms);
        self.actions = actions.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Writes what failed of that; call it now and then.
    pub fn look(&mut self) {
        let failures: Vec<_> = self.actions.failures().collect();
        failures.iter().for_each(|event| self.write(event));
    }

    /// Writes that something happened to the link now; returns the event, which may begin a fault.
    pub fn tell(&mut self, kind: Kind, detail: &str) -> Event {
        let about = About { subject: &self.subject, detail, ..About::default() };
        let event = Event::now(kind, about);
        self.write(&event);
        event
    }

    /// As [`Journal::tell`], of so many frames.
    pub fn count(&mut self, kind: Kind, count: u64) {
        let about = About { subject: &self.subject, ..About::default() };
        self.write(&Event { count, ..Event::now(kind, about) });
    }

    /// Writes that a fault is over, if there is one.
    pub fn end(&mut self, fault: &mut Option<Event>) {
        if let Some(fault) = fault.take() {
            self.write(&fault.end_now());
        }
    }
}
